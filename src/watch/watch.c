/* SPDX-License-Identifier: Apache-2.0 */
#include "pjrtfs/watch/watch.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { OBJECT_MAX = 4096 + 256 }; /* bytes of a path under the mount, with a NUL */

struct pf_watch {
	uid_t owner;
	struct pf_events *events;   /* owned */
	struct pf_metrics *metrics; /* owned */
	struct pf_watch_names names;
	_Atomic bool named; /* names is set */
};

struct pf_watch *pf_watch_new(uid_t owner)
{
	struct pf_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->owner = owner;
	w->events = pf_events_new(owner, 0, 0);
	w->metrics = pf_metrics_new();
	if (w->events && w->metrics)
		return w;
	pf_watch_free(w);
	return NULL;
}

void pf_watch_free(struct pf_watch *w)
{
	if (!w)
		return;
	if (w->named)
		w->names.free(w->names.arg);
	pf_events_free(w->events);
	pf_metrics_free(w->metrics);
	free(w);
}

void pf_watch_attach(struct pf_watch *w, const struct pf_watch_names *names)
{
	w->names = *names;
	atomic_store(&w->named, true);
}

struct pf_events *pf_watch_events(struct pf_watch *w)
{
	return w ? w->events : NULL;
}

struct pf_metrics *pf_watch_metrics(struct pf_watch *w)
{
	return w ? w->metrics : NULL;
}

uid_t pf_watch_owner(const struct pf_watch *w)
{
	return w ? w->owner : 0;
}

bool pf_watch_name(struct pf_watch *w, uint64_t subject, struct pf_buf *path,
		   uid_t *ret_user)
{
	*ret_user = pf_watch_owner(w);
	return w && subject && atomic_load(&w->named) &&
	       w->names.name(w->names.arg, subject, path, ret_user);
}

void pf_tell(struct pf_watch *w, uint64_t subject, const char *event)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	struct pf_event e;
	uid_t user;

	if (!pf_watch_name(w, subject, &path, &user))
		return;
	pf_event_begin(&e, event, user, path.data);
	pf_event_add(w->events, &e);
}

/* --- workers ----------------------------------------------------------------------------- */

static void begin_worker(struct pf_event *e, struct pf_watch *w, const char *event,
			 const char *name, int pid)
{
	char object[PF_METRICS_LABEL];

	snprintf(object, sizeof(object), "plugins/%s", name);
	pf_event_begin(e, event, w->owner, object);
	pf_event_int(e, "pid", pid);
}

void pf_tell_worker_started(struct pf_watch *w, const char *name, int pid,
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

void pf_tell_worker_died(struct pf_watch *w, struct pf_plugin_meter *meter,
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

void pf_tell_queued(struct pf_watch *w, uint64_t subject, uint64_t bytes,
		    const char *plugin, struct pf_told_compile *ret)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	struct pf_event e;

	ret->object = NULL;
	if (!pf_watch_name(w, subject, &path, &ret->user) || !path.data)
		return;
	ret->object = pf_steal(&path.data);
	pf_event_begin(&e, "program.queued", ret->user, ret->object);
	pf_event_str(&e, "plugin", plugin);
	pf_event_int(&e, "bytes", (int64_t)bytes);
	pf_event_add(w->events, &e);
}

void pf_tell_compiling(struct pf_watch *w, const struct pf_told_compile *told)
{
	struct pf_event e;

	if (!w || !told->object)
		return;
	pf_event_begin(&e, "program.compiling", told->user, told->object);
	pf_event_add(w->events, &e);
}

void pf_tell_compiled(struct pf_watch *w, struct pf_plugin_meter *meter,
		      struct pf_told_compile *told, const struct pf_err *err,
		      double seconds, const char *cache)
{
	static const char *const names[] = { [PF_OUTCOME_OK] = "program.finished",
					     [PF_OUTCOME_FAILED] = "program.failed",
					     [PF_OUTCOME_CANCELLED] =
						     "program.cancelled" };
	enum pf_outcome result = pf_outcome_of(err ? err->code : 0);
	pf_autofree char *object = pf_steal(&told->object);
	struct pf_event e;

	pf_meter_compile(meter, result, seconds);
	if (!w || !object)
		return;
	pf_event_begin(&e, names[result], told->user, object);
	pf_event_seconds(&e, "seconds", seconds);
	pf_event_str(&e, "cache", cache);
	pf_event_error(&e, err);
	pf_event_add(w->events, &e);
}

/* --- executions ------------------------------------------------------------------------------ */

static void put_devices(struct pf_event *e, const struct pf_plugin_meter *meter,
			const struct pf_told_execution *told)
{
	pf_autobuf struct pf_buf list = PF_BUF_INIT;

	for (size_t i = 0; meter && i < told->n_devices; i++)
		if (told->devices[i] < meter->n_devices)
			pf_buf_printf(&list, "%s\"%s\"", list.len ? "," : "[",
				      meter->devices[told->devices[i]].name);
	pf_buf_puts(&list, "]");
	if (list.len > 1 && !list.failed)
		pf_event_json(e, "devices", list.data);
}

void pf_tell_executed(struct pf_watch *w, struct pf_plugin_meter *meter,
		      struct pf_executable_meter *of,
		      const struct pf_told_execution *told)
{
	static const char *const names[] = { [PF_OUTCOME_OK] = "execution.finished",
					     [PF_OUTCOME_FAILED] = "execution.failed",
					     [PF_OUTCOME_CANCELLED] =
						     "execution.cancelled" };
	enum pf_outcome result = pf_outcome_of(told->err ? told->err->code : 0);
	char object[OBJECT_MAX];
	struct pf_event e;

	pf_meter_execution(meter, of, result, told->seconds, told->devices,
			   told->n_devices);
	if (!w || (told->goes_on && result == PF_OUTCOME_OK))
		return;
	snprintf(object, sizeof(object), "executables/%s", told->executable);
	pf_event_begin(&e, names[result], told->user, object);
	put_devices(&e, meter, told);
	if (told->repeated)
		pf_event_int(&e, "repeat",
			     (int64_t)told->repeated + (result == PF_OUTCOME_OK));
	pf_event_seconds(&e, "seconds", told->seconds + told->repeated_seconds);
	if (result == PF_OUTCOME_OK)
		pf_event_seconds(&e, "device_seconds",
				 told->device_seconds + told->repeated_device_seconds);
	pf_event_json(&e, "id", told->id);
	pf_event_error(&e, told->err);
	pf_event_add(w->events, &e);
}

void pf_tell_abandoned(struct pf_watch *w, const char *executable, uid_t user,
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

void pf_tell_calls(struct pf_watch *w, struct pf_plugin_meter *meter, uint64_t n,
		   const struct pf_told_execution *told)
{
	char object[OBJECT_MAX];
	struct pf_event e;

	if (!w)
		return;
	snprintf(object, sizeof(object), "executables/%s", told->executable);
	pf_event_begin(&e, told->err ? "execution.failed" : "calls.finished", told->user,
		       object);
	put_devices(&e, meter, told);
	if (!told->err)
		pf_event_int(&e, "calls", (int64_t)n);
	pf_event_seconds(&e, "seconds", told->seconds);
	if (!told->err)
		pf_event_seconds(&e, "device_seconds", told->device_seconds);
	pf_event_error(&e, told->err);
	pf_event_add(w->events, &e);
}

/* --- the cache, jobs ------------------------------------------------------------------------ */

void pf_tell_cache(struct pf_watch *w, enum pf_told_cache what, uid_t user,
		   const char *key, uint64_t bytes)
{
	static const char *const names[] = {
		[PF_TOLD_CACHE_HIT] = "cache.hit",
		[PF_TOLD_CACHE_MISS] = "cache.miss",
		[PF_TOLD_CACHE_EVICTED] = "cache.evicted",
		[PF_TOLD_CACHE_DAMAGED] = "cache.damaged",
	};
	char object[PF_METRICS_LABEL];
	struct pf_event e;

	if (!w)
		return;
	pf_meter_cache(w->metrics, what);
	snprintf(object, sizeof(object), "cache/entries/%s", key);
	pf_event_begin(&e, names[what], user, object);
	if (what != PF_TOLD_CACHE_MISS)
		pf_event_int(&e, "bytes", (int64_t)bytes);
	pf_event_add(w->events, &e);
}

void pf_tell_job(struct pf_watch *w, enum pf_told_job what, uint64_t number, uid_t user,
		 const char *executable, const char *id, double seconds,
		 const struct pf_err *err)
{
	static const struct {
		const char *name;
		enum pf_outcome result;
	} of[] = {
		[PF_TOLD_JOB_QUEUED] = { "job.queued", PF_OUTCOMES },
		[PF_TOLD_JOB_STARTED] = { "job.started", PF_OUTCOMES },
		[PF_TOLD_JOB_FINISHED] = { "job.finished", PF_OUTCOME_OK },
		[PF_TOLD_JOB_FAILED] = { "job.failed", PF_OUTCOME_FAILED },
		[PF_TOLD_JOB_CANCELLED] = { "job.cancelled", PF_OUTCOME_CANCELLED },
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
