/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static void view_free(struct pf_view *v)
{
	if (v)
		pf_lines_release(&v->lines);
	free(v);
}

struct pf_telemetry *pf_telemetry_new(uid_t owner, size_t bytes, size_t user_bytes)
{
	struct pf_telemetry *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	if (pf_lines_init(&t->all.lines, bytes ? bytes : PF_EVENTS_BYTES) < 0) {
		free(t);
		return NULL;
	}
	if (pthread_mutex_init(&t->lock, NULL))
		abort();
	t->owner = t->all.uid = owner;
	t->user_bytes = user_bytes ? user_bytes : PF_EVENTS_USER_BYTES;
	return t;
}

void pf_telemetry_free(struct pf_telemetry *t)
{
	if (!t)
		return;
	if (t->names.free)
		t->names.free(t->names.arg);
	for (unsigned i = 0; i < t->n_views; i++)
		view_free(t->views[i]);
	pf_lines_release(&t->all.lines);
	pf_metrics_release(t);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* --- writing ------------------------------------------------------------------------------ */

enum {
	TIME_AT = 8,             /* {"time": */
	TIME_LEN = 20,           /* seconds until 2286 with nine decimals */
	END = 2,                 /* }\n */
	OBJECT_MAX = 4096 + 256, /* bytes of a path under the mount, with a NUL */
};

void pf_event_begin(struct pf_event *e, struct pf_telemetry *t, const char *name,
		    uid_t user, const char *fmt, ...)
{
	char object[OBJECT_MAX];
	va_list args;

	e->to = t;
	e->user = user;
	e->out = (struct pf_json_out){ e->text, e->text + PF_LINE_MAX - END, false };
	pf_json_put(&e->out, "{", 1);
	pf_json_put_key(&e->out, "time", TIME_LEN);
	memset(e->out.at, ' ', TIME_LEN); /* filled in when it is sent */
	e->out.at += TIME_LEN;
	va_start(args, fmt);
	vsnprintf(object, sizeof(object), fmt, args);
	va_end(args);
	pf_event_str(e, "event", name);
	pf_event_int(e, "user", user);
	pf_event_str(e, "object", object);
}

void pf_event_str(struct pf_event *e, const char *key, const char *value)
{
	if (value && pf_json_put_key(&e->out, key, 16))
		pf_json_put_string(&e->out, value);
}

void pf_event_int(struct pf_event *e, const char *key, int64_t value)
{
	if (pf_json_put_key(&e->out, key, 20))
		pf_json_put_int(&e->out, value);
}

void pf_event_seconds(struct pf_event *e, const char *key, double seconds)
{
	uint64_t ns = seconds > 0 ? (uint64_t)(seconds * 1e9 + 0.5) : 0;

	if (pf_json_put_key(&e->out, key, 30))
		pf_json_put_seconds(&e->out, ns / 1000000000, ns % 1000000000);
}

void pf_event_json(struct pf_event *e, const char *key, const char *text)
{
	size_t len = text ? strlen(text) : 0;

	if (len && len <= PF_EVENT_ID_MAX && pf_json_put_key(&e->out, key, len))
		pf_json_put(&e->out, text, len);
}

void pf_event_error(struct pf_event *e, const struct pf_err *err)
{
	if (err && err->code && pf_json_put_key(&e->out, "error", PF_JSON_ERROR_ROOM))
		pf_json_put_error(&e->out, err);
}

/* The whole line, of TIME; returns its length. */
static size_t end_line(struct pf_event *e, const struct timespec *time)
{
	char *at = e->text + TIME_AT;
	struct pf_json_out stamp = { at, at + TIME_LEN, false };

	pf_json_put_seconds(&stamp, (uint64_t)time->tv_sec, (uint64_t)time->tv_nsec);
	e->out.end += END;
	pf_json_put(&e->out, "}\n", END);
	return (size_t)(e->out.at - e->text);
}

/* UID's view, or NULL; the owner and uid 0 have that of everything. */
static struct pf_view *find_locked(struct pf_telemetry *t, uid_t uid)
{
	if (uid == t->owner || uid == 0)
		return &t->all;
	for (unsigned i = 0; i < t->n_views; i++)
		if (t->views[i]->uid == uid)
			return t->views[i];
	return NULL;
}

/* A view for UID, if there are too many in place of the one without events for longest; NULL: no
 * memory. */
static struct pf_view *make_locked(struct pf_telemetry *t, uid_t uid)
{
	struct pf_view *v = calloc(1, sizeof(*v));
	unsigned at = 0;

	if (!v || pf_lines_init(&v->lines, t->user_bytes) < 0) {
		free(v);
		return NULL;
	}
	v->uid = uid;
	if (t->n_views < PF_EVENTS_USERS) {
		t->views[t->n_views++] = v;
		return v;
	}
	for (unsigned i = 1; i < t->n_views; i++)
		if (t->views[i]->used < t->views[at]->used)
			at = i;
	view_free(t->views[at]);
	t->views[at] = v;
	return v;
}

static void add_locked(struct pf_telemetry *t, struct pf_view *v, const char *line,
		       size_t len, const struct timespec *time)
{
	v->used = ++t->clock;
	v->time = *time;
	pf_lines_append(&v->lines, line, len);
}

void pf_event_send(struct pf_event *e)
{
	struct pf_telemetry *t = e->to;
	struct timespec time;
	struct pf_view *v;
	size_t len;

	if (!t)
		return;
	pf_lock(&t->lock);
	/* Read the clock under the lock, so that the log is in the order of its times. */
	clock_gettime(CLOCK_REALTIME, &time);
	len = end_line(e, &time);
	add_locked(t, &t->all, e->text, len, &time);
	v = find_locked(t, e->user);
	if (!v)
		v = make_locked(t, e->user);
	if (v && v != &t->all)
		add_locked(t, v, e->text, len, &time);
	pf_unlock(&t->lock);
	if (atomic_load(&t->named) && t->names.added)
		t->names.added(t->names.arg);
}

/* --- reading ------------------------------------------------------------------------------ */

/* The line in place of N lines that were dropped. */
static size_t print_notice(void *arg, uint64_t n, char *dst)
{
	struct pf_view *v = arg;
	struct pf_event e;
	size_t len;

	pf_event_begin(&e, NULL, "events.dropped", v->uid, "events");
	pf_event_int(&e, "lines", (int64_t)n);
	len = end_line(&e, &v->time);
	memcpy(dst, e.text, len);
	return len;
}

size_t pf_events_read(struct pf_telemetry *t, uid_t uid, struct pf_lines_reader *reader,
		      uint64_t off, char *dst, size_t len)
{
	size_t done = 0, n = 1;

	/* Writers of events wait for no more than a chunk to be copied. */
	while (done < len && n) {
		struct pf_view *v;

		pf_lock(&t->lock);
		v = find_locked(t, uid);
		n = v ? pf_lines_read(&v->lines, reader, off + done, dst + done,
				      len - done, print_notice, v)
		      : 0;
		pf_unlock(&t->lock);
		done += n;
	}
	return done;
}

bool pf_events_ready(struct pf_telemetry *t, uid_t uid,
		     const struct pf_lines_reader *reader)
{
	struct pf_view *v;

	PF_LOCK_SCOPE(&t->lock);
	v = find_locked(t, uid);
	return v && pf_lines_ready(&v->lines, reader);
}

uint64_t pf_events_size(struct pf_telemetry *t, uid_t uid,
			const struct pf_lines_reader *reader, struct timespec *ret_time)
{
	struct pf_view *v;

	PF_LOCK_SCOPE(&t->lock);
	v = find_locked(t, uid);
	*ret_time = v ? v->time : (struct timespec){ 0 };
	return v ? pf_lines_size(&v->lines, reader) : 0;
}

void pf_events_count(struct pf_telemetry *t, uint64_t *ret_added, uint64_t *ret_dropped)
{
	PF_LOCK_SCOPE(&t->lock);
	pf_lines_start(&t->all.lines, ret_dropped);
	*ret_dropped += t->all.lines.lost;
	*ret_added = t->all.lines.count + t->all.lines.lost;
}

/* --- what the layers report ----------------------------------------------------------------- */

void pf_report(struct pf_telemetry *t, uint64_t subject, const char *event)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	struct pf_event e;
	uid_t user;

	if (!pf_telemetry_name(t, subject, &path, &user) || !path.data)
		return;
	pf_event_begin(&e, t, event, user, "%s", path.data);
	pf_event_send(&e);
}

void pf_report_worker_started(struct pf_telemetry *t, const char *name, int pid,
			      unsigned restarts)
{
	struct pf_event e;

	pf_event_begin(&e, t, restarts ? "worker.restarted" : "worker.started",
		       pf_telemetry_owner(t), "plugins/%s", name);
	pf_event_int(&e, "pid", pid);
	if (restarts)
		pf_event_int(&e, "restarts", restarts);
	pf_event_send(&e);
}

void pf_report_worker_silent(struct pf_telemetry *t, const char *name, int pid,
			     bool silent)
{
	struct pf_event e;

	pf_event_begin(&e, t, silent ? "worker.silent" : "worker.answers",
		       pf_telemetry_owner(t), "plugins/%s", name);
	pf_event_int(&e, "pid", pid);
	pf_event_send(&e);
}

void pf_report_group(struct pf_telemetry *t, const char *name, bool complete,
		     const struct pf_err *why)
{
	struct pf_event e;

	pf_event_begin(&e, t, complete ? "group.complete" : "group.ended",
		       pf_telemetry_owner(t), "plugins/%s", name);
	if (!complete)
		pf_event_error(&e, why);
	pf_event_send(&e);
}

void pf_report_worker_died(struct pf_telemetry *t, struct pf_plugin_meter *meter,
			   const char *name, int pid, const struct pf_err *why)
{
	struct pf_event e;

	if (meter)
		atomic_fetch_add(&meter->deaths, 1);
	pf_event_begin(&e, t, "worker.died", pf_telemetry_owner(t), "plugins/%s", name);
	pf_event_int(&e, "pid", pid);
	pf_event_error(&e, why);
	pf_event_send(&e);
}

void pf_report_queued(struct pf_telemetry *t, uint64_t subject, uint64_t bytes,
		      const char *plugin, struct pf_report_compile *ret)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	struct pf_event e;

	ret->object = NULL;
	if (!pf_telemetry_name(t, subject, &path, &ret->user) || !path.data)
		return;
	ret->object = pf_steal(&path.data);
	pf_event_begin(&e, t, "program.queued", ret->user, "%s", ret->object);
	pf_event_str(&e, "plugin", plugin);
	pf_event_int(&e, "bytes", (int64_t)bytes);
	pf_event_send(&e);
}

void pf_report_compiling(struct pf_telemetry *t, const struct pf_report_compile *report,
			 double seconds)
{
	struct pf_event e;

	if (!report->object)
		return;
	pf_event_begin(&e, t, "program.compiling", report->user, "%s", report->object);
	if (seconds > 0)
		pf_event_seconds(&e, "seconds", seconds);
	pf_event_send(&e);
}

void pf_report_compiled(struct pf_telemetry *t, struct pf_plugin_meter *meter,
			struct pf_report_compile *report, const struct pf_err *err,
			double seconds, const char *cache, bool kept)
{
	static const char *const names[] = { "program.finished", "program.failed",
					     "program.cancelled" };
	enum pf_outcome result = pf_outcome_of(err ? err->code : 0);
	pf_autofree char *object = pf_steal(&report->object);
	struct pf_event e;

	pf_meter_compile(meter, result, seconds);
	if (kept && meter)
		atomic_fetch_add(&meter->updates_failed, 1);
	if (!object)
		return;
	pf_event_begin(&e, t, names[result], report->user, "%s", object);
	pf_event_str(&e, "plugin", meter ? meter->name : NULL);
	pf_event_seconds(&e, "seconds", seconds);
	pf_event_str(&e, "cache", cache);
	pf_event_json(&e, "kept", kept ? "true" : NULL);
	pf_event_error(&e, err);
	pf_event_send(&e);
}

static void put_devices(struct pf_event *e, const struct pf_plugin_meter *meter,
			const struct pf_report_execution *report)
{
	char text[PF_EVENT_ID_MAX + 1];
	struct pf_json_out list = { text, text + PF_EVENT_ID_MAX, false };

	for (size_t i = 0; meter && i < report->n_devices; i++) {
		if (report->devices[i] >= meter->n_devices)
			continue;
		pf_json_put(&list, list.at > text ? "," : "[", 1);
		pf_json_put_string(&list, meter->devices[report->devices[i]].name);
	}
	pf_json_put(&list, "]", 1);
	*list.at = '\0';
	if (!list.cut && list.at > text + 1)
		pf_event_json(e, "devices", text);
}

/* The event NAME of an execution, or of N; COUNT is the key of that number, if it is not 0. */
static void send_execution(struct pf_telemetry *t, const char *name,
			   const struct pf_plugin_meter *meter,
			   const struct pf_report_execution *report, const char *count,
			   uint64_t n)
{
	struct pf_event e;

	pf_event_begin(&e, t, name, report->user, "executables/%s", report->executable);
	put_devices(&e, meter, report);
	if (n)
		pf_event_int(&e, count, (int64_t)n);
	pf_event_seconds(&e, "seconds", report->seconds + report->repeated_seconds);
	if (!report->err)
		pf_event_seconds(&e, "device_seconds",
				 report->device_seconds +
					 report->repeated_device_seconds);
	if (report->transfer_seconds > 0)
		pf_event_seconds(&e, "transfer_seconds", report->transfer_seconds);
	if (report->queue_seconds > 0)
		pf_event_seconds(&e, "queue_seconds", report->queue_seconds);
	pf_event_json(&e, "id", report->id);
	pf_event_error(&e, report->err);
	pf_event_send(&e);
}

void pf_report_executed(struct pf_telemetry *t, struct pf_plugin_meter *meter,
			struct pf_executable_meter *of,
			const struct pf_report_execution *report)
{
	static const char *const names[] = { "execution.finished", "execution.failed",
					     "execution.cancelled" };
	enum pf_outcome result = pf_outcome_of(report->err ? report->err->code : 0);
	uint64_t runs = report->repeated + report->runs;

	pf_meter_execution(meter, of, PF_OUTCOME_OK, report->runs, report->seconds,
			   report->devices, report->n_devices);
	if (report->err)
		pf_meter_execution(meter, of, result, 1, report->seconds, NULL, 0);
	if (t && !(report->goes_on && !report->err))
		send_execution(t, names[result], meter, report, "repeat",
			       runs + (report->err != NULL) > 1 ? runs : 0);
}

void pf_report_calls(struct pf_telemetry *t, struct pf_plugin_meter *meter, uint64_t n,
		     const struct pf_report_execution *report)
{
	send_execution(t, report->err ? "execution.failed" : "calls.finished", meter,
		       report, "calls", report->err ? 0 : n);
}

void pf_report_abandoned(struct pf_telemetry *t, const char *executable, uid_t user,
			 const char *id, const struct pf_err *why)
{
	struct pf_event e;

	pf_event_begin(&e, t, "execution.abandoned", user, "executables/%s", executable);
	pf_event_error(&e, why);
	pf_event_json(&e, "id", id);
	pf_event_send(&e);
}

void pf_report_callback(struct pf_telemetry *t, uint64_t subject, uid_t user,
			uint64_t index, const char *text)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	struct pf_event e;
	uid_t owner;

	pf_telemetry_name(t, subject, &path, &owner);
	pf_event_begin(&e, t, "callback", user, "%s", path.data ? path.data : "");
	pf_event_int(&e, "index", (int64_t)index);
	pf_event_str(&e, "text", text);
	pf_event_send(&e);
}

void pf_report_cache(struct pf_telemetry *t, enum pf_report_cache what, uid_t user,
		     const char *key, uint64_t bytes)
{
	static const char *const names[] = {
		[PF_REPORT_CACHE_HIT] = "cache.hit",
		[PF_REPORT_CACHE_MISS] = "cache.miss",
		[PF_REPORT_CACHE_EVICTED] = "cache.evicted",
		[PF_REPORT_CACHE_DAMAGED] = "cache.damaged",
	};
	struct pf_event e;

	if (t)
		atomic_fetch_add(&t->cache[what], 1);
	pf_event_begin(&e, t, names[what], user, "cache/entries/%s", key);
	if (what != PF_REPORT_CACHE_MISS)
		pf_event_int(&e, "bytes", (int64_t)bytes);
	pf_event_send(&e);
}

void pf_report_job(struct pf_telemetry *t, enum pf_report_job what, uint64_t number,
		   uid_t user, const char *executable, const char *id, double seconds,
		   const struct pf_err *err)
{
	static const struct {
		const char *name;
		enum pf_outcome result;
	} of[] = {
		[PF_REPORT_JOB_QUEUED] = { "job.queued", PF_OUTCOMES },
		[PF_REPORT_JOB_STARTED] = { "job.started", PF_OUTCOMES },
		[PF_REPORT_JOB_FINISHED] = { "job.finished", PF_OUTCOME_OK },
		[PF_REPORT_JOB_FAILED] = { "job.failed", PF_OUTCOME_FAILED },
		[PF_REPORT_JOB_CANCELLED] = { "job.cancelled", PF_OUTCOME_CANCELLED },
	};
	struct pf_event e;

	pf_event_begin(&e, t, of[what].name, user, "jobs/%llu",
		       (unsigned long long)number);
	pf_event_str(&e, "executable", executable);
	pf_event_json(&e, "id", id);
	if (of[what].result < PF_OUTCOMES) {
		if (t)
			atomic_fetch_add(&t->jobs[of[what].result], 1);
		pf_event_seconds(&e, "seconds", seconds);
	}
	pf_event_error(&e, err);
	pf_event_send(&e);
}
