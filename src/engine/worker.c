/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "internal.h"
#include "pjrtfs/engine.h"

enum { START_TIMEOUT_MS = 120000 }; /* enough to load 250 MB from a cold disk */

static void worker_free(struct pf_worker *w)
{
	pf_closep(&w->stop_fd);
	pf_closep(&w->broken_fd);
	pf_sched_free(w->sched);
	pf_description_release(&w->description);
	pf_custom_calls_unref(w->custom_calls);
	pf_plugin_log_release(&w->log);
	pthread_cond_destroy(&w->started);
	pthread_cond_destroy(&w->log_settled);
	pthread_mutex_destroy(&w->lock);
	free(w->name);
	free(w->path);
	free(w->label);
	if (!w->shared)
		pf_process_start_release(&w->start);
	free(w);
}

PF_DEFINE_REF(struct pf_worker, pf_worker, worker_free)

/* A worker of the plugin NAME at PATH, called LABEL (given) in logs, without a process; NULL: no
 * memory. */
static struct pf_worker *new_worker(const char *name, const char *path, char *label)
{
	struct pf_worker *w = calloc(1, sizeof(*w));

	if (!w) {
		free(label);
		return NULL;
	}
	if (pthread_mutex_init(&w->lock, NULL) || pthread_cond_init(&w->started, NULL) ||
	    pthread_cond_init(&w->log_settled, NULL))
		abort();
	atomic_init(&w->refs, 1);
	w->label = label;
	w->stop_fd = eventfd(0, EFD_CLOEXEC);
	w->broken_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w->name = strdup(name);
	w->path = strdup(path);
	if (label && w->stop_fd >= 0 && w->broken_fd >= 0 && w->name && w->path &&
	    pf_plugin_log_init(&w->log, label) == 0)
		return w;
	worker_free(w);
	return NULL;
}

int pf_worker_new(const struct pf_worker_config *config, struct pf_worker **ret,
		  struct pf_err *err)
{
	struct pf_worker *w =
		new_worker(config->name, config->path, strdup(config->name));
	struct json_object *process;
	int r = 0;

	if (!w)
		return pf_err_set(err, -ENOMEM, "no memory for a worker");
	w->arena = config->arena;
	w->libraries = config->libraries;
	w->pool_size = config->pool_size;
	w->limits = config->limits;
	w->start_timeout_ms =
		config->start_timeout_ms ? config->start_timeout_ms : START_TIMEOUT_MS;
	w->start_option = config->start_option;
	w->client = config->client;
	w->in_group = config->group != NULL;
	w->leads_group = json_object_object_get_ex(config->group, "process", &process) &&
			 json_object_get_int(process) == 0;
	w->on_failed = config->on_failed;
	w->arg = config->arg;
	w->telemetry = config->telemetry;
	w->own_most = config->own_most;
	w->own_idle_s = config->own_idle_s;
	w->log.quiet = !config->telemetry;
	if (config->note)
		pf_plugin_log_add(&w->log, config->note, strlen(config->note));
	if (pf_process_start_init(&w->start, config) < 0 ||
	    pf_thread_start(&w->monitor, pf_monitor_main, w)) {
		worker_free(w);
		return pf_err_set(err, -ENOMEM, "no memory or thread for a worker");
	}
	pf_lock(&w->lock);
	while (!w->first_done)
		pthread_cond_wait(&w->started, &w->lock);
	/* Not the state: the process may have died, and be restarting, by now. */
	if (w->first.code < 0)
		r = pf_err_set(err, w->first.code, "%s", w->first.text);
	pf_unlock(&w->lock);
	if (r < 0) {
		pthread_join(w->monitor, NULL);
		if (config->printed)
			pf_plugin_log_copy(&w->log, config->printed);
		worker_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

/* Are all arrays of D in host memory, so that none is lost with the process? */
static bool is_on_host(const struct pf_description *d)
{
	for (unsigned i = 0; i < d->n_devices; i++)
		if (!pf_description_is_host(d, i, PF_DEFAULT_MEMORY))
			return false;
	return true;
}

int pf_worker_new_own(struct pf_worker *shared, uid_t user, struct pf_arena *arena,
		      struct pf_worker **ret, struct pf_err *err)
{
	struct pf_worker *w;
	char *label;

	if (asprintf(&label, "%s/users/%u", shared->name, (unsigned)user) < 0)
		label = NULL;
	w = new_worker(shared->name, shared->path, label);
	if (!w)
		return pf_err_set(err, -ENOMEM, "no memory for a worker");
	w->shared = shared;
	w->start = shared->start;
	w->arena = arena;
	w->libraries = shared->libraries;
	w->pool_size = shared->pool_size;
	w->limits = shared->limits;
	w->limits.idle_s = shared->own_idle_s;
	w->limits.keep_buffers = !is_on_host(&shared->description);
	w->start_timeout_ms = shared->start_timeout_ms;
	w->start_option = shared->start_option;
	w->telemetry = shared->telemetry;
	w->meter = shared->meter;
	w->log.quiet = shared->log.quiet;
	w->state = PF_WORKER_IDLE;
	w->sched = pf_description_sched(&shared->description);
	if (!w->sched || pf_thread_start(&w->monitor, pf_monitor_main, w)) {
		worker_free(w);
		return pf_err_set(err, -ENOMEM, "no memory or thread for a worker");
	}
	*ret = w;
	return 0;
}

const struct pf_worker *pf_worker_shared(const struct pf_worker *w)
{
	return w->shared ? w->shared : w;
}

bool pf_worker_is_idle(struct pf_worker *w)
{
	PF_LOCK_SCOPE(&w->lock);
	return w->state == PF_WORKER_IDLE;
}

void pf_worker_restart(struct pf_worker *w)
{
	PF_LOCK_SCOPE(&w->lock);
	if (!w->pid)
		return;
	atomic_store(&w->instance->stopped, true);
	kill(w->pid, SIGKILL);
}

void pf_worker_replace(struct pf_worker *w, unsigned ms)
{
	PF_LOCK_SCOPE(&w->lock);
	if (w->instance)
		pf_instance_leave(w->instance, ms);
}

void pf_worker_stop(struct pf_worker *w)
{
	if (w->stopped)
		return;
	w->stopped = true;
	pf_event_set(w->stop_fd);
	pthread_join(w->monitor, NULL);
}

void pf_worker_free(struct pf_worker *w)
{
	if (!w)
		return;
	pf_worker_stop(w);
	pf_worker_unref(w);
}

const char *pf_worker_name(const struct pf_worker *w)
{
	return w->name;
}

const char *pf_worker_path(const struct pf_worker *w)
{
	return w->path;
}

const char *pf_worker_options(const struct pf_worker *w)
{
	return w->start.options;
}

struct pf_arena *pf_worker_arena(const struct pf_worker *w)
{
	return w->arena;
}

struct pf_telemetry *pf_worker_telemetry(const struct pf_worker *w)
{
	return w ? w->telemetry : NULL;
}

struct pf_plugin_meter *pf_worker_meter(const struct pf_worker *w)
{
	return w ? w->meter : NULL;
}

enum pf_worker_state pf_worker_state(struct pf_worker *w)
{
	PF_LOCK_SCOPE(&w->lock);
	if (w->state == PF_WORKER_READY && w->instance &&
	    pf_instance_silent_s(w->instance) >= PF_SILENT_S)
		return PF_WORKER_SILENT;
	if (w->state == PF_WORKER_READY && worker_description(w)->compiler)
		return PF_WORKER_COMPILER;
	return w->state;
}

const char *pf_worker_state_name(enum pf_worker_state state)
{
	static const char *const names[] = {
		[PF_WORKER_STARTING] = "starting", [PF_WORKER_READY] = "ready",
		[PF_WORKER_SILENT] = "silent",     [PF_WORKER_RESTARTING] = "restarting",
		[PF_WORKER_AWAY] = "restarting",   [PF_WORKER_FAILED] = "failed",
		[PF_WORKER_IDLE] = "idle",         [PF_WORKER_COMPILER] = "compiler",
	};

	return names[state];
}

unsigned pf_worker_silent_s(struct pf_worker *w)
{
	PF_LOCK_SCOPE(&w->lock);
	return w->instance ? pf_instance_silent_s(w->instance) : 0;
}

bool pf_worker_in_group(const struct pf_worker *w)
{
	return w->in_group;
}

bool pf_worker_leads_group(const struct pf_worker *w)
{
	return w->leads_group;
}

void pf_worker_error(struct pf_worker *w, struct pf_buf *out)
{
	PF_LOCK_SCOPE(&w->lock);
	unsigned silent_s = w->instance ? pf_instance_silent_s(w->instance) : 0;
	const char *compiler = worker_description(w)->compiler;
	struct pf_err why = PF_ERR_INIT;

	if (!w->instance && w->why.code)
		pf_buf_printf(out, "%s\n", w->why.text);
	else if (silent_s >= PF_SILENT_S)
		pf_buf_printf(out, "process %d has given no heartbeat for %u s\n",
			      (int)w->pid, silent_s);
	if (out->len || w->state != PF_WORKER_READY || !compiler)
		return;
	pf_err_set(&why, -ENODEV, "%s", compiler); /* without what moves a cursor */
	pf_buf_printf(out, "%s\n", why.text);
}

void pf_worker_pid(struct pf_worker *w, pid_t *pid, unsigned *restarts)
{
	PF_LOCK_SCOPE(&w->lock);
	*pid = w->pid;
	*restarts = w->restarts;
}

const struct pf_description *pf_worker_description(const struct pf_worker *w)
{
	return worker_description(w);
}

struct pf_custom_calls *pf_worker_custom_calls(struct pf_worker *w)
{
	PF_LOCK_SCOPE(&w->lock);
	return w->custom_calls ? pf_custom_calls_ref(w->custom_calls) : NULL;
}

struct pf_sched *pf_worker_sched(const struct pf_worker *w)
{
	return w->sched;
}

int pf_worker_has_client(const struct pf_worker *w, struct pf_err *err)
{
	const char *why = worker_description(w)->compiler;

	return why ? pf_err_set(err, -EOPNOTSUPP,
				"plugin %s only compiles for topologies: no device here "
				"(%s)",
				w->name, why)
		   : 0;
}

int pf_worker_takes(const struct pf_worker *w, enum pf_dtype dtype, struct pf_err *err)
{
	const struct pf_description *d = worker_description(w);

	return pf_dtype_check(dtype, d->api_major, d->api_minor, err);
}

struct pf_plugin_log *pf_worker_plugin_log(struct pf_worker *w)
{
	return &w->log;
}

unsigned pf_worker_alive(struct pf_worker *w, enum pf_alive what, unsigned device)
{
	PF_LOCK_SCOPE(&w->lock);
	return w->instance ? pf_instance_alive_on(w->instance, what, device) : 0;
}

uint64_t pf_worker_id(struct pf_worker *w)
{
	return atomic_fetch_add(&w->last_id, 1) + 1;
}

int pf_worker_check_away(struct pf_worker *w, struct pf_err *err)
{
	PF_LOCK_SCOPE(&w->lock);
	return pf_monitor_check_away(w, err);
}

int pf_worker_await(struct pf_worker *w, struct pf_wait *waiter, struct pf_instance **ret,
		    struct pf_err *err)
{
	PF_LOCK_SCOPE(&w->lock);
	*ret = NULL;
	/* An instance whose rings are damaged is about to end.  One that leaves only serves those
	 * who do not wait. */
	if (w->instance && !atomic_load(&w->instance->broken) &&
	    !(waiter && atomic_load(&w->instance->leaves_at))) {
		*ret = pf_instance_ref(w->instance);
		return 1;
	}
	if (w->state == PF_WORKER_IDLE && !waiter)
		return pf_err_set(err, -EIO, "the worker of plugin %s is idle", w->name);
	if (w->state == PF_WORKER_IDLE && pf_own_wake_locked(w, err) < 0)
		return -EUSERS;
	if (pf_monitor_check_away(w, err) < 0)
		return -EIO;
	if (waiter && w->state != PF_WORKER_FAILED) {
		pf_wait_add(&w->waiters, waiter);
		return 0;
	}
	if (w->instance)
		return pf_err_set(err, -EIO,
				  "the worker of plugin %s damaged its rings of requests "
				  "and replies (it is being started again)",
				  w->name);
	if (w->in_group)
		return pf_err_set(err, -ECONNABORTED, "%s", w->why.text);
	return pf_err_set(err, -EIO, "%s (%s)", w->why.text,
			  w->state == PF_WORKER_FAILED ? "it is not started again"
						       : "it is being started again");
}

struct pf_instance *pf_worker_instance(struct pf_worker *w, struct pf_err *err)
{
	struct pf_instance *instance;

	(void)pf_worker_await(w, NULL, &instance, err);
	return instance;
}

bool pf_worker_wait(struct pf_worker *w, struct pf_wait *waiter)
{
	PF_CLEANUP(pf_instance_unrefp) struct pf_instance *instance = NULL;

	return pf_worker_await(w, waiter, &instance, NULL) == 0;
}

/* A call of W ended with R: say who did not answer, unless the time that was over is the plugin's. */
static int name_silent(const struct pf_worker *w, unsigned seconds, int r,
		       struct pf_err *err)
{
	if (r == -ETIMEDOUT && err->pjrt_code < 0)
		pf_err_set(err, r, "the worker of plugin %s did not answer within %u ms",
			   w->name, seconds * 1000);
	return r;
}

int pf_worker_ask(struct pf_worker *w, enum pf_op op, uint64_t id, unsigned seconds,
		  struct pf_buf *out, struct pf_err *err)
{
	PF_CLEANUP(pf_instance_unrefp)
	struct pf_instance *instance = pf_worker_instance(w, err);
	struct pf_sync_call call = { .instance = instance,
				     .timeout_s = seconds,
				     .brief = true };
	int r = instance ? pf_sync_ask(&call, op, id, out, err) : err->code;

	return name_silent(w, seconds, r, err);
}

int pf_worker_tell(struct pf_worker *w, enum pf_op op, uint64_t id, unsigned seconds,
		   struct pf_err *err)
{
	PF_CLEANUP(pf_instance_unrefp)
	struct pf_instance *instance = pf_worker_instance(w, err);
	struct pf_req_id request = { .head.op = op, .id = id };
	struct pf_sync_call call = { .instance = instance,
				     .request = &request,
				     .len = sizeof(request),
				     .timeout_s = seconds,
				     .brief = true };
	struct pf_rep_head reply;
	int r = instance ? pf_sync_call(&call, &reply, sizeof(reply), err) : err->code;

	return name_silent(w, seconds, r, err);
}

/* Wait until the monitor has read what the process of INSTANCE has printed, or has reaped it. */
static void read_log(struct pf_worker *w, struct pf_instance *instance)
{
	uint64_t asked;

	PF_LOCK_SCOPE(&w->lock);
	if (w->instance != instance)
		return;
	asked = ++w->log_asked;
	pf_instance_nudge(instance);
	while (w->log_read < asked)
		pthread_cond_wait(&w->log_settled, &w->lock);
}

int pf_worker_settle(struct pf_worker *w, unsigned seconds, struct pf_err *err)
{
	PF_CLEANUP(pf_instance_unrefp) struct pf_instance *instance = NULL;
	struct pf_req_id req = { .head.op = PF_OP_SETTLE };
	struct pf_sync_call call = { .request = &req,
				     .len = sizeof(req),
				     .timeout_s = seconds,
				     .brief = true,
				     .in_order = true };
	struct pf_rep_head reply;
	int r;

	pf_lock(&w->lock);
	if (w->instance)
		instance = pf_instance_ref(w->instance);
	pf_unlock(&w->lock);
	if (!instance)
		return 0;
	call.instance = instance;
	r = pf_sync_call(&call, &reply, sizeof(reply), err);
	/* If it has ended, its objects are gone, and the end has answered the call. */
	if (r < 0 && pf_instance_alive(instance))
		return r == -ETIMEDOUT
			       ? pf_err_set(err, r, "plugin %s does not answer", w->label)
			       : pf_err_wrap(err, r, "plugin %s", w->label);
	read_log(w, instance);
	return 0;
}
