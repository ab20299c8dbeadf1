/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/base.h"
#include "pjrtfs/telemetry.h"

/* What one uid sees. */
struct view {
	uid_t uid;
	uint64_t used; /* when it was last added to */
	struct timespec time;
	struct pf_lines lines;
};

struct pf_events {
	uid_t owner;
	size_t user_bytes;
	void (*_Atomic on_add)(void *arg);
	void *arg; /* set before on_add is */

	pthread_mutex_t lock; /* rank 9; protects the fields below */
	struct view all;
	struct view *views[PF_EVENTS_USERS]; /* owned */
	unsigned n;
	uint64_t clock;
};

static void view_free(struct view *v)
{
	if (v)
		pf_lines_release(&v->lines);
	free(v);
}

struct pf_events *pf_events_new(uid_t owner, size_t bytes, size_t user_bytes)
{
	struct pf_events *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	if (pf_lines_init(&e->all.lines, bytes ? bytes : PF_EVENTS_BYTES) < 0) {
		free(e);
		return NULL;
	}
	if (pthread_mutex_init(&e->lock, NULL))
		abort();
	e->owner = e->all.uid = owner;
	e->user_bytes = user_bytes ? user_bytes : PF_EVENTS_USER_BYTES;
	return e;
}

void pf_events_free(struct pf_events *e)
{
	if (!e)
		return;
	for (unsigned i = 0; i < e->n; i++)
		view_free(e->views[i]);
	pf_lines_release(&e->all.lines);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

void pf_events_on_add(struct pf_events *e, void (*fn)(void *arg), void *arg)
{
	e->arg = arg;
	atomic_store(&e->on_add, fn);
}

/* --- writing ------------------------------------------------------------------------------ */

enum {
	TIME_AT = 8,      /* {"time": */
	SECONDS = 10,     /* digits; enough until 2286 */
	NANOSECONDS = 9,  /* digits */
	END = 2,          /* }\n */
	ERROR_ROOM = 128, /* what is in an error beside its sentence */
};

static size_t room(const struct pf_event *e)
{
	return PF_LINE_MAX - END - e->len;
}

static void put(struct pf_event *e, const char *text, size_t len)
{
	memcpy(e->text + e->len, text, len);
	e->len += len;
}

/* N digits of VALUE, with zeros before it. */
static void put_digits(char *dst, unsigned n, uint64_t value)
{
	while (n--) {
		dst[n] = (char)('0' + value % 10);
		value /= 10;
	}
}

static void put_number(struct pf_event *e, uint64_t value)
{
	char digits[20];
	unsigned n = sizeof(digits);

	do {
		digits[--n] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	put(e, digits + n, sizeof(digits) - n);
}

/* KEY and what takes up to LEN bytes more: is there room? */
static bool put_key(struct pf_event *e, const char *key, size_t len)
{
	size_t n = strlen(key);

	if (room(e) < n + 4 + len)
		return false;
	put(e, ",\"", 2);
	put(e, key, n);
	put(e, "\":", 2);
	return true;
}

/* The characters of VALUE that fit, leaving KEEP bytes, in quotes. */
static void put_string(struct pf_event *e, const char *value, size_t keep)
{
	size_t left = strlen(value);

	put(e, "\"", 1);
	while (left) {
		uint32_t point;
		size_t n = pf_utf8_char(value, left, &point);

		if (room(e) < keep + 7)
			break;
		if (!n) {
			put(e, "?", 1);
			n = 1;
		} else if (point < 0x20) {
			static const char hex[] = "0123456789abcdef";

			put(e, "\\u00", 4);
			put(e, &hex[point >> 4], 1);
			put(e, &hex[point & 15], 1);
		} else {
			if (point == '"' || point == '\\')
				put(e, "\\", 1);
			put(e, value, n);
		}
		value += n;
		left -= n;
	}
	put(e, "\"", 1);
}

void pf_event_begin(struct pf_event *e, const char *name, uid_t user, const char *object)
{
	e->user = user;
	e->len = 0;
	put(e, "{\"time\":", TIME_AT);
	e->len += SECONDS + 1 + NANOSECONDS; /* filled in when it is added */
	pf_event_str(e, "event", name);
	pf_event_int(e, "user", user);
	pf_event_str(e, "object", object);
}

void pf_event_str(struct pf_event *e, const char *key, const char *value)
{
	if (value && put_key(e, key, 16))
		put_string(e, value, 1);
}

void pf_event_int(struct pf_event *e, const char *key, int64_t value)
{
	if (!put_key(e, key, 21))
		return;
	if (value < 0)
		put(e, "-", 1);
	put_number(e, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void pf_event_seconds(struct pf_event *e, const char *key, double seconds)
{
	uint64_t ns = seconds > 0 ? (uint64_t)(seconds * 1e9 + 0.5) : 0;

	if (!put_key(e, key, 21 + NANOSECONDS))
		return;
	put_number(e, ns / 1000000000);
	put(e, ".", 1);
	put_digits(e->text + e->len, NANOSECONDS, ns % 1000000000);
	e->len += NANOSECONDS;
}

void pf_event_json(struct pf_event *e, const char *key, const char *text)
{
	size_t len = text ? strlen(text) : 0;

	if (len && len <= PF_EVENT_ID_MAX && put_key(e, key, len))
		put(e, text, len);
}

void pf_event_error(struct pf_event *e, const struct pf_err *err)
{
	const char *name, *code;

	if (!err || !err->code || !put_key(e, "error", ERROR_ROOM))
		return;
	name = pf_errno_name(err->code);
	code = pf_pjrt_code_name(err->pjrt_code, err->code);
	put(e, "{\"errno\":\"", 10);
	put(e, name, strlen(name));
	put(e, "\",\"code\":\"", 10);
	put(e, code, strlen(code));
	put(e, "\",\"message\":", 12);
	put_string(e, err->text, 2);
	put(e, "}", 1);
}

/* UID's view, or NULL; the owner and uid 0 have that of everything. */
static struct view *find_locked(struct pf_events *e, uid_t uid)
{
	if (uid == e->owner || uid == 0)
		return &e->all;
	for (unsigned i = 0; i < e->n; i++)
		if (e->views[i]->uid == uid)
			return e->views[i];
	return NULL;
}

/* A view for UID, in place of the one that was not added to for longest; NULL: no memory. */
static struct view *make_locked(struct pf_events *e, uid_t uid)
{
	struct view *v = calloc(1, sizeof(*v));
	unsigned at = 0;

	if (!v || pf_lines_init(&v->lines, e->user_bytes) < 0) {
		free(v);
		return NULL;
	}
	v->uid = uid;
	if (e->n < PF_EVENTS_USERS) {
		e->views[e->n++] = v;
		return v;
	}
	for (unsigned i = 1; i < e->n; i++)
		if (e->views[i]->used < e->views[at]->used)
			at = i;
	view_free(e->views[at]);
	e->views[at] = v;
	return v;
}

static void add_locked(struct pf_events *e, struct view *v, const struct pf_event *event,
		       const struct timespec *time)
{
	v->used = ++e->clock;
	v->time = *time;
	pf_lines_append(&v->lines, event->text, event->len);
}

void pf_event_add(struct pf_events *e, struct pf_event *event)
{
	void (*on_add)(void *arg);
	struct timespec time;
	struct view *v;

	if (!e)
		return;
	put(event, "}\n", END);
	pf_lock(&e->lock);
	/* Under the lock, so that the log is in the order of its times. */
	clock_gettime(CLOCK_REALTIME, &time);
	put_digits(event->text + TIME_AT, SECONDS, (uint64_t)time.tv_sec);
	event->text[TIME_AT + SECONDS] = '.';
	put_digits(event->text + TIME_AT + SECONDS + 1, NANOSECONDS,
		   (uint64_t)time.tv_nsec);
	add_locked(e, &e->all, event, &time);
	v = find_locked(e, event->user);
	if (!v)
		v = make_locked(e, event->user);
	if (v && v != &e->all)
		add_locked(e, v, event, &time);
	pf_unlock(&e->lock);
	on_add = atomic_load(&e->on_add);
	if (on_add)
		on_add(e->arg);
}

/* --- reading ------------------------------------------------------------------------------ */

/* What stands in the place of N lines that were dropped. */
static size_t print_notice(void *arg, uint64_t n, char *dst)
{
	struct pf_event event;
	struct view *v = arg;

	pf_event_begin(&event, "events.dropped", v->uid, "events");
	pf_event_int(&event, "lines", (int64_t)n);
	put(&event, "}\n", END);
	put_digits(event.text + TIME_AT, SECONDS, (uint64_t)v->time.tv_sec);
	event.text[TIME_AT + SECONDS] = '.';
	put_digits(event.text + TIME_AT + SECONDS + 1, NANOSECONDS,
		   (uint64_t)v->time.tv_nsec);
	memcpy(dst, event.text, event.len);
	return event.len;
}

size_t pf_events_read(struct pf_events *e, uid_t uid, struct pf_lines_reader *reader,
		      uint64_t off, char *dst, size_t len)
{
	size_t done = 0, n = 1;

	/* Those who add wait for no more than a chunk to be copied. */
	while (done < len && n) {
		struct view *v;

		pf_lock(&e->lock);
		v = find_locked(e, uid);
		n = v ? pf_lines_read(&v->lines, reader, off + done, dst + done,
				      len - done, print_notice, v)
		      : 0;
		pf_unlock(&e->lock);
		done += n;
	}
	return done;
}

bool pf_events_ready(struct pf_events *e, uid_t uid, const struct pf_lines_reader *reader)
{
	struct view *v;

	PF_LOCK_SCOPE(&e->lock);
	v = find_locked(e, uid);
	return v && pf_lines_ready(&v->lines, reader);
}

uint64_t pf_events_size(struct pf_events *e, uid_t uid,
			const struct pf_lines_reader *reader, struct timespec *ret_time)
{
	struct view *v;

	PF_LOCK_SCOPE(&e->lock);
	v = find_locked(e, uid);
	*ret_time = v ? v->time : (struct timespec){ 0 };
	return v ? pf_lines_size(&v->lines, reader) : 0;
}

void pf_events_count(struct pf_events *e, uint64_t *ret_added, uint64_t *ret_dropped)
{
	PF_LOCK_SCOPE(&e->lock);
	pf_lines_start(&e->all.lines, ret_dropped);
	*ret_dropped += e->all.lines.lost;
	*ret_added = e->all.lines.count + e->all.lines.lost;
}

enum { OBJECT_MAX = 4096 + 256 }; /* bytes of a path under the mount, with a NUL */

struct pf_telemetry {
	uid_t owner;
	struct pf_events *events;   /* owned */
	struct pf_metrics *metrics; /* owned */
	struct pf_telemetry_names names;
	_Atomic bool named; /* names is set */
};

struct pf_telemetry *pf_telemetry_new(uid_t owner)
{
	struct pf_telemetry *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->owner = owner;
	w->events = pf_events_new(owner, 0, 0);
	w->metrics = pf_metrics_new();
	if (w->events && w->metrics)
		return w;
	pf_telemetry_free(w);
	return NULL;
}

void pf_telemetry_free(struct pf_telemetry *w)
{
	if (!w)
		return;
	if (w->named)
		w->names.free(w->names.arg);
	pf_events_free(w->events);
	pf_metrics_free(w->metrics);
	free(w);
}

void pf_telemetry_attach(struct pf_telemetry *w, const struct pf_telemetry_names *names)
{
	w->names = *names;
	atomic_store(&w->named, true);
}

struct pf_events *pf_telemetry_events(struct pf_telemetry *w)
{
	return w ? w->events : NULL;
}

struct pf_metrics *pf_telemetry_metrics(struct pf_telemetry *w)
{
	return w ? w->metrics : NULL;
}

uid_t pf_telemetry_owner(const struct pf_telemetry *w)
{
	return w ? w->owner : 0;
}

bool pf_telemetry_name(struct pf_telemetry *w, uint64_t subject, struct pf_buf *path,
		       uid_t *ret_user)
{
	*ret_user = pf_telemetry_owner(w);
	return w && subject && atomic_load(&w->named) &&
	       w->names.name(w->names.arg, subject, path, ret_user);
}

void pf_report(struct pf_telemetry *w, uint64_t subject, const char *event)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	struct pf_event e;
	uid_t user;

	if (!pf_telemetry_name(w, subject, &path, &user))
		return;
	pf_event_begin(&e, event, user, path.data);
	pf_event_add(w->events, &e);
}

/* --- workers ----------------------------------------------------------------------------- */

static void begin_worker(struct pf_event *e, struct pf_telemetry *w, const char *event,
			 const char *name, int pid)
{
	char object[PF_METRICS_LABEL];

	snprintf(object, sizeof(object), "plugins/%s", name);
	pf_event_begin(e, event, w->owner, object);
	pf_event_int(e, "pid", pid);
}

void pf_report_worker_started(struct pf_telemetry *w, const char *name, int pid,
			      unsigned restarts)
{
	struct pf_event e;

	if (!w)
		return;
	begin_worker(&e, w, restarts ? "worker.restarted" : "worker.started", name, pid);
	if (restarts)
		pf_event_int(&e, "restarts", restarts);
	pf_event_add(w->events, &e);
}

void pf_report_worker_died(struct pf_telemetry *w, struct pf_plugin_meter *meter,
			   const char *name, int pid, const struct pf_err *why)
{
	struct pf_event e;

	if (meter)
		atomic_fetch_add(&meter->deaths, 1);
	if (!w)
		return;
	begin_worker(&e, w, "worker.died", name, pid);
	pf_event_error(&e, why);
	pf_event_add(w->events, &e);
}

/* --- compiles ---------------------------------------------------------------------------- */

void pf_report_queued(struct pf_telemetry *w, uint64_t subject, uint64_t bytes,
		      const char *plugin, struct pf_report_compile *ret)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	struct pf_event e;

	ret->object = NULL;
	if (!pf_telemetry_name(w, subject, &path, &ret->user) || !path.data)
		return;
	ret->object = pf_steal(&path.data);
	pf_event_begin(&e, "program.queued", ret->user, ret->object);
	pf_event_str(&e, "plugin", plugin);
	pf_event_int(&e, "bytes", (int64_t)bytes);
	pf_event_add(w->events, &e);
}

void pf_report_compiling(struct pf_telemetry *w, const struct pf_report_compile *report)
{
	struct pf_event e;

	if (!w || !report->object)
		return;
	pf_event_begin(&e, "program.compiling", report->user, report->object);
	pf_event_add(w->events, &e);
}

void pf_report_compiled(struct pf_telemetry *w, struct pf_plugin_meter *meter,
			struct pf_report_compile *report, const struct pf_err *err,
			double seconds, const char *cache)
{
	static const char *const names[] = { [PF_OUTCOME_OK] = "program.finished",
					     [PF_OUTCOME_FAILED] = "program.failed",
					     [PF_OUTCOME_CANCELLED] =
						     "program.cancelled" };
	enum pf_outcome result = pf_outcome_of(err ? err->code : 0);
	pf_autofree char *object = pf_steal(&report->object);
	struct pf_event e;

	pf_meter_compile(meter, result, seconds);
	if (!w || !object)
		return;
	pf_event_begin(&e, names[result], report->user, object);
	pf_event_seconds(&e, "seconds", seconds);
	pf_event_str(&e, "cache", cache);
	pf_event_error(&e, err);
	pf_event_add(w->events, &e);
}

/* --- executions ------------------------------------------------------------------------------ */

static void put_devices(struct pf_event *e, const struct pf_plugin_meter *meter,
			const struct pf_report_execution *report)
{
	pf_autobuf struct pf_buf list = PF_BUF_INIT;

	for (size_t i = 0; meter && i < report->n_devices; i++)
		if (report->devices[i] < meter->n_devices)
			pf_buf_printf(&list, "%s\"%s\"", list.len ? "," : "[",
				      meter->devices[report->devices[i]].name);
	pf_buf_puts(&list, "]");
	if (list.len > 1 && !list.failed)
		pf_event_json(e, "devices", list.data);
}

void pf_report_executed(struct pf_telemetry *w, struct pf_plugin_meter *meter,
			struct pf_executable_meter *of,
			const struct pf_report_execution *report)
{
	static const char *const names[] = { [PF_OUTCOME_OK] = "execution.finished",
					     [PF_OUTCOME_FAILED] = "execution.failed",
					     [PF_OUTCOME_CANCELLED] =
						     "execution.cancelled" };
	enum pf_outcome result = pf_outcome_of(report->err ? report->err->code : 0);
	char object[OBJECT_MAX];
	struct pf_event e;

	pf_meter_execution(meter, of, PF_OUTCOME_OK, report->runs, report->seconds,
			   report->devices, report->n_devices);
	if (report->err)
		pf_meter_execution(meter, of, result, 1, report->seconds, NULL, 0);
	if (!w || (report->goes_on && result == PF_OUTCOME_OK))
		return;
	snprintf(object, sizeof(object), "executables/%s", report->executable);
	pf_event_begin(&e, names[result], report->user, object);
	put_devices(&e, meter, report);
	if (report->repeated + report->runs + (report->err != NULL) > 1)
		pf_event_int(&e, "repeat", (int64_t)(report->repeated + report->runs));
	pf_event_seconds(&e, "seconds", report->seconds + report->repeated_seconds);
	if (result == PF_OUTCOME_OK)
		pf_event_seconds(&e, "device_seconds",
				 report->device_seconds +
					 report->repeated_device_seconds);
	pf_event_json(&e, "id", report->id);
	pf_event_error(&e, report->err);
	pf_event_add(w->events, &e);
}

void pf_report_abandoned(struct pf_telemetry *w, const char *executable, uid_t user,
			 const char *id, const struct pf_err *why)
{
	char object[OBJECT_MAX];
	struct pf_event e;

	if (!w)
		return;
	snprintf(object, sizeof(object), "executables/%s", executable);
	pf_event_begin(&e, "execution.abandoned", user, object);
	pf_event_error(&e, why);
	pf_event_json(&e, "id", id);
	pf_event_add(w->events, &e);
}

void pf_report_calls(struct pf_telemetry *w, struct pf_plugin_meter *meter, uint64_t n,
		     const struct pf_report_execution *report)
{
	char object[OBJECT_MAX];
	struct pf_event e;

	if (!w)
		return;
	snprintf(object, sizeof(object), "executables/%s", report->executable);
	pf_event_begin(&e, report->err ? "execution.failed" : "calls.finished",
		       report->user, object);
	put_devices(&e, meter, report);
	if (!report->err)
		pf_event_int(&e, "calls", (int64_t)n);
	pf_event_seconds(&e, "seconds", report->seconds);
	if (!report->err)
		pf_event_seconds(&e, "device_seconds", report->device_seconds);
	pf_event_error(&e, report->err);
	pf_event_add(w->events, &e);
}

/* --- the cache, jobs ------------------------------------------------------------------------ */

void pf_report_cache(struct pf_telemetry *w, enum pf_report_cache what, uid_t user,
		     const char *key, uint64_t bytes)
{
	static const char *const names[] = {
		[PF_REPORT_CACHE_HIT] = "cache.hit",
		[PF_REPORT_CACHE_MISS] = "cache.miss",
		[PF_REPORT_CACHE_EVICTED] = "cache.evicted",
		[PF_REPORT_CACHE_DAMAGED] = "cache.damaged",
	};
	char object[PF_METRICS_LABEL];
	struct pf_event e;

	if (!w)
		return;
	pf_meter_cache(w->metrics, what);
	snprintf(object, sizeof(object), "cache/entries/%s", key);
	pf_event_begin(&e, names[what], user, object);
	if (what != PF_REPORT_CACHE_MISS)
		pf_event_int(&e, "bytes", (int64_t)bytes);
	pf_event_add(w->events, &e);
}

void pf_report_job(struct pf_telemetry *w, enum pf_report_job what, uint64_t number,
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
	char object[32];
	struct pf_event e;

	if (!w)
		return;
	snprintf(object, sizeof(object), "jobs/%llu", (unsigned long long)number);
	pf_event_begin(&e, of[what].name, user, object);
	pf_event_str(&e, "executable", executable);
	pf_event_json(&e, "id", id);
	if (of[what].result < PF_OUTCOMES) {
		pf_meter_job(w->metrics, of[what].result);
		pf_event_seconds(&e, "seconds", seconds);
	}
	pf_event_error(&e, err);
	pf_event_add(w->events, &e);
}
