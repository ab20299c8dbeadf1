/* SPDX-License-Identifier: Apache-2.0 */
/* The monitor: a thread that starts a worker, waits for its end, reaps it, and starts it again. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"
#include "pjrtfs/wire.h"
#include "pjrtfs/wait.h"

enum {
	BACKOFF_FIRST_MS = 100,
	BACKOFF_MAX_MS = 30000,
	CALLS_WAIT_MS = 2000, /* for the next start: calls do not wait for a later one */
	STEADY_MS =
		60000, /* after an instance this long the deaths before it do not count */
	PRINT_PAUSE_MS = 100 /* after PF_PROCESS_AT_ONCE bytes that the process printed */
};

/* May this write to the daemon's log?  Not for probes, nor if no process reads standard
 * error. */
static bool may_log(const struct pf_worker *w)
{
	return !w->log.quiet && !pf_log_would_block();
}

/* Report that the worker has become silent, or gives heartbeats again. */
static void report_silence(struct pf_worker *w)
{
	bool silent = pf_instance_silent_s(w->instance) >= PF_SILENT_S;

	if (silent == w->silent)
		return;
	w->silent = silent;
	pf_report_worker_silent(w->telemetry, w->label, w->process.pid, silent);
	if (!may_log(w))
		return;
	if (silent)
		pf_log(PF_LOG_WARNING,
		       "the worker of plugin %s, process %d, has been silent for %d s",
		       w->label, (int)w->process.pid, PF_SILENT_S);
	else
		pf_log(PF_LOG_INFO, "the worker of plugin %s answers again", w->label);
}

static uint64_t log_asked(struct pf_worker *w)
{
	PF_LOCK_SCOPE(&w->lock);
	return w->log_asked;
}

/* The log has the lines that the process printed before the request ASKED. */
static void log_was_read(struct pf_worker *w, uint64_t asked)
{
	PF_LOCK_SCOPE(&w->lock);
	if (w->log_read == asked)
		return;
	w->log_read = asked;
	pthread_cond_broadcast(&w->log_settled);
}

enum { STOP = 0, EVENT = 1, RETIRED = 2 };

/*
 * Wait until the process has sent a message, is dead or must be ended (EVENT), refuses calls
 * because it has been idle or is replaced (RETIRED), or stop_fd was written to (STOP), adding what the process prints
 * to the log, because it blocks once the pipe is full.
 * -ETIMEDOUT: neither within TIMEOUT_MS, -1: no limit.
 */
static int await_process(struct pf_worker *w, int timeout_ms)
{
	struct pollfd p[4] = { { .fd = w->process.sock, .events = POLLIN },
			       { .fd = w->stop_fd, .events = POLLIN },
			       { .fd = w->process.err_fd, .events = POLLIN },
			       { .fd = w->instance ? w->broken_fd : -1,
				 .events = POLLIN } };
	int64_t end = timeout_ms < 0 ? INT64_MAX : pf_now_ms() + timeout_ms;
	bool closed = false, pausing = false;
	const char *words;
	uint64_t count, asked;

	for (;;) {
		int ms = pausing ? PRINT_PAUSE_MS : pf_plugin_log_due_ms(&w->log);
		int64_t left = end - pf_now_ms();

		if (left <= 0)
			return -ETIMEDOUT;
		if (left < INT_MAX && (ms < 0 || ms > left))
			ms = (int)left;
		/* A plugin that prints for ever is read slowly, so that it does not keep a
		 * processor busy. */
		p[2].fd = pausing || closed ? -1 : w->process.err_fd;
		asked = pausing ? w->log_read : log_asked(w);
		if (poll(p, 4, asked == w->log_read ? ms : 0) < 0 && errno != EINTR)
			abort(); /* only a programming error */
		pausing = p[2].revents &&
			  pf_process_drain(&w->process, &w->log) >= PF_PROCESS_AT_ONCE;
		if (p[2].revents & (POLLHUP | POLLERR) && !pausing)
			closed = true; /* it may close its output and live on */
		pf_plugin_log_tick(&w->log);
		/* A pipe has no room for more than one call has read. */
		log_was_read(w, asked);
		if (p[1].revents)
			return STOP;
		/* A page of an earlier instance's pool may be what was lost. */
		if (p[3].revents && read(w->broken_fd, &count, sizeof(count)) > 0) {
			report_silence(w);
			if (pf_instance_retire(w->instance))
				return RETIRED;
			words = pf_instance_unfit(w->instance);
			if (words) {
				pf_plugin_log_add(&w->log, words, strlen(words));
				return EVENT;
			}
		}
		if (p[0].revents)
			return EVENT;
	}
}

/* --- start ------------------------------------------------------------------------- */

/* What an instance that starts is given, and what it answers. */
struct greeting {
	int fds[3 + PF_LIBRARIES_MAX]; /* borrowed: channel, arena, pool, libraries */
	const struct pf_library *libraries[PF_LIBRARIES_MAX];
	unsigned n;
	struct pf_description description;    /* owned */
	struct pf_custom_calls *custom_calls; /* owned reference */
};

/*
 * May the instance that W starts be without a client; *WHY is it?  Users see the devices of the first one,
 * so later ones are like it: a device that has vanished is an error, and one that has come waits for
 * another daemon.
 */
static enum pf_client_need client_need(const struct pf_worker *w, const char **why)
{
	const struct pf_description *first = worker_description(w);

	*why = first->json ? first->compiler
			   : "it was told to compile only: its client is not created";
	if (w->in_group)
		return PF_CLIENT_REQUIRED;
	if (!first->json)
		return w->client;
	return first->compiler ? PF_CLIENT_NONE : PF_CLIENT_REQUIRED;
}

/* Send the set-up text, the three memfds and the libraries', and wait for the description. */
static int handshake(struct pf_worker *w, struct greeting *g, struct pf_err *err)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	pf_autofree char *setup = NULL;
	enum pf_client_need client;
	const char *why;
	int r;

	g->n = pf_libraries_of(w->libraries, w->name, g->libraries);
	for (unsigned i = 0; i < g->n; i++)
		g->fds[3 + i] = g->libraries[i]->fd;
	client = client_need(w, &why);
	setup = pf_process_setup(&w->start, client, why, g->libraries, g->n);
	if (!setup)
		return pf_err_set(err, -ENOMEM, "no memory for a set-up text");
	r = pf_channel_send(w->process.sock, setup, strlen(setup), g->fds, 3 + (int)g->n,
			    err);
	if (r < 0)
		return r;
	r = await_process(w, w->start_timeout_ms);
	if (r == 0)
		return pf_err_set(err, -ECANCELED, "it was stopped");
	if (r > 0)
		r = pf_channel_recv(w->process.sock, &text, NULL, 0, w->start_timeout_ms,
				    err);
	if (r == -ETIMEDOUT)
		return pf_err_set(err, r, "it was not loaded within %d s%s%s%s",
				  w->start_timeout_ms / 1000, w->start_option ? "; " : "",
				  w->start_option ? w->start_option : "",
				  w->start_option ? " gives it longer" : "");
	if (r == 0)
		r = pf_description_parse(text.data, text.len, &g->description, err);
	return r < 0 ? r
		     : pf_custom_calls_new(g->description.json, g->libraries, g->n,
					   &g->custom_calls, err);
}

/* Can WORKER, and INSTANCE, have the devices that D describes?  Users see those of the first. */
static int take_devices(struct pf_worker *w, struct pf_instance *instance,
			const struct pf_description *d, struct pf_err *err)
{
	const struct pf_description *first = worker_description(w);

	if (first->json && d->n_devices != first->n_devices)
		return pf_err_set(err, -EIO,
				  "plugin %s came back with %u devices, it had %u",
				  w->name, d->n_devices, first->n_devices);
	if (!w->sched)
		w->sched = pf_description_sched(d);
	if (!w->sched || pf_instance_set_devices(instance, d->n_devices) < 0)
		return pf_err_set(err, -ENOMEM, "no memory for a worker's devices");
	return 0;
}

/* If D is of a compiler: what W's plugin has printed since MARK may say more exactly why it is one. */
static void explain_compiler(struct pf_worker *w, uint64_t mark, struct pf_description *d)
{
	struct pf_err why = PF_ERR_INIT;

	if (!d->compiler)
		return;
	pf_err_set(&why, -ENODEV, "%s", d->compiler);
	pf_plugin_log_find_cause(&w->log, mark, &why);
	pf_json_add_string(d->json, "compiler", why.text);
	d->compiler = pf_json_get_string(d->json, "compiler");
}

/* Can W be a compiler, as D says?  Not before the other sandbox was tried: there may be a device in that,
 * and compilers that start programs need it. */
static int take_compiler(const struct pf_worker *w, const struct pf_description *d,
			 struct pf_err *err)
{
	bool tried = !w->start.looser || w->start.setup == w->start.looser;

	if (!d->compiler || tried || worker_description(w)->json)
		return 0;
	return pf_err_set(err, -ENODEV, "%s", d->compiler);
}

/* Note in INSTANCE which file it has loaded, if the file is as it was BEFORE the start. */
static void note_plugin(struct pf_worker *w, struct pf_instance *instance,
			const struct stat *before)
{
	struct stat st;

	if (before->st_ino && stat(w->path, &st) == 0 && st.st_ino == before->st_ino &&
	    st.st_dev == before->st_dev && st.st_size == before->st_size &&
	    st.st_ctim.tv_sec == before->st_ctim.tv_sec &&
	    st.st_ctim.tv_nsec == before->st_ctim.tv_nsec)
		instance->plugin = st;
}

/* INSTANCE has begun, and described its plugin in G, which becomes the worker's. */
static void begun(struct pf_worker *w, struct pf_instance *instance, struct greeting *g)
{
	struct pf_custom_calls *former;
	pid_t pid = w->process.pid;
	unsigned restarts;

	pf_lock(&w->lock);
	if (worker_description(w)->json) {
		pf_description_release(&g->description);
	} else { /* other threads read these without the lock, but not yet */
		w->description = g->description;
		w->meter = pf_description_meter(&w->description, w->telemetry, w->name);
	}
	former = w->custom_calls;
	w->custom_calls = g->custom_calls;
	w->instance = instance;
	atomic_store(&instance->begun, true);
	w->pid = pid;
	w->state = PF_WORKER_READY;
	restarts = w->again ? w->restarts : 0; /* 0: it begins, or was idle */
	pf_unlock(&w->lock);
	pf_custom_calls_unref(former);
	pf_report_worker_started(w->telemetry, w->label, pid, restarts);
	if (w->in_group)
		pf_report_group(w->telemetry, w->label, true, NULL);
	if (restarts && may_log(w))
		pf_log(PF_LOG_INFO, "the worker of plugin %s runs again: process %d",
		       w->label, (int)pid);
}

/* The start failed with ERR, whose code is R; INSTANCE may be NULL.  MARK: the log's before. */
static int start_failed(struct pf_worker *w, struct pf_instance *instance, uint64_t mark,
			int r, struct pf_err *err)
{
	struct pf_err why = PF_ERR_INIT;

	if (w->process.pid) {
		pf_process_reap(&w->process, w->name, &w->log, &why);
		pf_plugin_log_quote(&w->log, mark, PF_PLUGIN_LOG_ANY, &why);
		/* If it closed its socket without a message, how it died explains more. */
		if (r == -EPIPE) {
			r = pf_err_set(err, why.code, "%s", why.text);
			if (pf_process_is_sandboxed(&w->start))
				pf_err_blame_sandbox(err);
		}
		if (r == -ETIMEDOUT)
			pf_plugin_log_quote(&w->log, mark, PF_PLUGIN_LOG_ANY, err);
		pf_plugin_log_find_cause(&w->log, mark, err);
	}
	if (instance) {
		pf_instance_end(instance, err, err);
		pf_instance_unref(instance);
	}
	return r;
}

/*
 * Start one instance.  The thread that spawns must live as long as the worker: the kernel sends
 * the worker's parent-death signal when that thread ends.
 */
static int start(struct pf_worker *w, struct pf_err *err)
{
	pf_autoclose int channel = -1, pool = -1;
	struct pf_instance *instance = NULL;
	uint64_t mark = pf_plugin_log_mark(&w->log);
	struct greeting g = { 0 };
	struct stat file = { 0 };
	int r = channel = pf_channel_create(err);

	w->process.pid = 0;
	if (r >= 0)
		r = pool = pf_shm_new("pjrtfs-pool", w->pool_size, err);
	if (r >= 0)
		r = pf_instance_new(w->name, channel, pool, w->pool_size, w->broken_fd,
				    &w->limits, &w->log, &instance, err);
	if (r == 0 && !(instance->env = pf_process_environ(&w->start)))
		r = pf_err_set(err, -ENOMEM, "no memory for a worker's environment");
	if (r == 0) {
		if (stat(w->path, &file))
			file.st_ino = 0; /* the worker says why it cannot load it */
		r = pf_process_spawn(&w->start, instance->env, w->name, &w->process, err);
	}
	if (r == 0) {
		g.fds[0] = channel;
		g.fds[1] = pf_arena_fd(w->arena);
		g.fds[2] = pool;
		r = handshake(w, &g, err);
	}
	if (r == 0)
		explain_compiler(w, mark, &g.description);
	if (r == 0)
		r = take_compiler(w, &g.description, err);
	if (r == 0)
		r = take_devices(w, instance, &g.description, err);
	if (r < 0) {
		pf_description_release(&g.description);
		pf_custom_calls_unref(g.custom_calls);
		return start_failed(w, instance, mark, r, err);
	}
	note_plugin(w, instance, &file);
	begun(w, instance, &g);
	return 0;
}

/*
 * The plugin did not start, as ERR says.  A driver may need more than the strict sandbox allows:
 * try another sandbox, in which later instances start, too, if that works.
 */
static int start_looser(struct pf_worker *w, struct pf_err *err)
{
	struct pf_err again = PF_ERR_INIT;
	struct json_object *strict = w->start.setup;
	char *text = NULL;
	int r;

	w->start.setup = w->start.looser;
	pf_plugin_log_pass(&w->log); /* that a driver needs more is no error */
	r = start(w, &again);
	if (r < 0) {
		w->start.setup = strict;
		return err->code;
	}
	w->start.looser = strict;
	if (asprintf(
		    &text,
		    "pjrtfs: it does not start in the sandbox strict (%s), so it has been "
		    "started in the sandbox device\n",
		    err->text) >= 0)
		pf_plugin_log_add(&w->log, text, strlen(text));
	free(text);
	return 0;
}

/* May the sandbox be the reason why the first start failed with CODE? */
static bool is_sandbox(const struct pf_worker *w, int code)
{
	return w->start.looser && code < 0 && code != -ENOENT && code != -ENOEXEC &&
	       code != -ETIMEDOUT && code != -ENOMEM;
}

/* --- the end ----------------------------------------------------------------------- */

enum { LEAVE_MS = 1000, FAREWELL_MS = 500 };

/* The process is a member of a group, which it leaves in order. */
static void leave_group(struct pf_worker *w)
{
	struct pollfd p = { .fd = w->process.sock, .events = POLLRDHUP };

	if (send(w->process.sock, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1)
		(void)poll(&p, 1, LEAVE_MS);
}

/* Why the group has ended whose member the dead process was: what it has sent; else *SENT stays. */
static void take_farewell(struct pf_worker *w, struct pf_err *sent)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct pf_description none = { 0 };

	if (pf_channel_recv(w->process.sock, &text, NULL, 0, FAREWELL_MS, NULL) == 0)
		(void)pf_description_parse(text.data, text.len, &none, sent);
	pf_description_release(&none);
}

/* The member has ended, as *WHY says, and with it the group: *WHY becomes what it has SENT, if it has
 * noticed that the group has ended. */
static void end_group(struct pf_worker *w, const struct pf_err *sent, struct pf_err *why)
{
	if (sent->code == -ECONNABORTED)
		*why = *sent;
	else
		pf_err_set(why, -ECONNABORTED, "%.400s; so the group has ended",
			   why->text);
	pf_report_group(w->telemetry, w->label, false, why);
}

/* The process is dead (DIED) or must be ended: end the instance, with *WHY.  True: calls that it
 * died of, or may have died of, were failed.  *DEATHS in a row are 0 if the process has worked. */
static bool reap(struct pf_worker *w, bool died, unsigned *deaths, struct pf_err *why)
{
	struct pf_err bare = PF_ERR_INIT, sent = PF_ERR_INIT;
	struct pf_instance *instance;
	bool suspects;

	pf_lock(&w->lock);
	instance = w->instance;
	w->instance = NULL;
	w->pid = 0;
	w->state = PF_WORKER_RESTARTING;
	pf_unlock(&w->lock);
	w->silent = false;
	if (w->in_group && died)
		take_farewell(w, &sent);
	else if (w->in_group)
		leave_group(w);
	pf_process_reap(&w->process, w->name, &w->log, &bare);
	log_was_read(w, log_asked(w));
	*why = died ? bare : instance->why; /* that of pf_instance_retire */
	if (why->code < 0)                  /* 0: the worker is stopped */
		pf_instance_quote(instance, why);
	if (w->in_group && why->code < 0) {
		end_group(w, &sent, why);
		bare = *why;
	}
	if (died) {
		pf_report_worker_died(w->telemetry, w->meter, w->label, w->process.pid,
				      why);
		if (may_log(w))
			pf_log(PF_LOG_ERROR, "%s%s%s", w->shared ? w->label : "",
			       w->shared ? ": " : "", why->text);
	}
	pf_lock(&w->lock);
	w->why = *why;
	pf_unlock(&w->lock);
	pf_instance_end(instance, &bare, why);
	/* Plugins die of these. */
	suspects = pf_instance_lost(instance, PF_OP_COMPILE) ||
		   pf_instance_lost(instance, PF_OP_LOAD) ||
		   pf_instance_lost(instance, PF_OP_EXECUTE);
	if (atomic_load(&instance->executed))
		*deaths = 0;
	pf_instance_unref(instance);
	return suspects;
}

/* --- restart ----------------------------------------------------------------------- */

static void first_start_done(struct pf_worker *w, int r, const struct pf_err *err)
{
	PF_LOCK_SCOPE(&w->lock);
	w->first_done = true;
	if (r < 0) {
		w->state = PF_WORKER_FAILED;
		w->first = w->why = *err;
	}
	pthread_cond_signal(&w->started);
}

/* Set the state, and why (NULL: as it is), and wake the waiters. */
static void announce(struct pf_worker *w, enum pf_worker_state state,
		     const struct pf_err *why)
{
	struct pf_wait *waiters;

	pf_lock(&w->lock);
	w->state = state;
	if (why)
		w->why = *why;
	waiters = pf_steal(&w->waiters);
	pf_unlock(&w->lock);
	pf_turn_enter();
	pf_wake_all(waiters);
	pf_turn_leave();
}

/* The group has ended whose member it is: it will not be started again. */
static void give_up(struct pf_worker *w)
{
	announce(w, PF_WORKER_FAILED, NULL);
	if (w->on_failed)
		w->on_failed(w->arg);
}

/* How long a start waits after so many DEATHS in a row. */
static int pause_ms(unsigned deaths)
{
	int ms = deaths > 8 ? BACKOFF_MAX_MS : BACKOFF_FIRST_MS << deaths;

	return deaths ? ms : 0;
}

int pf_monitor_check_away(const struct pf_worker *w, struct pf_err *err)
{
	if (w->state != PF_WORKER_AWAY)
		return 0;
	return pf_err_set(err, -EIO,
			  "plugin %s cannot be started again: %.600s; put that right, "
			  "and it goes on within %d s: programs and arrays are kept (a "
			  "new mount has only those of --state-dir)",
			  w->label, w->why.text, BACKOFF_MAX_MS / 1000);
}

/* A start has failed for the reason WHY, and the next one follows after the pause of DEATHS.  What ends a start
 * now and then, as a lack of memory, or a file that is being replaced, is over soon, and calls wait. */
static void failed_again(struct pf_worker *w, const struct pf_err *why, unsigned deaths)
{
	bool soon = why->code != -ETIMEDOUT && pause_ms(deaths) <= CALLS_WAIT_MS;
	bool known = w->state == PF_WORKER_AWAY;
	struct pf_err away = PF_ERR_INIT;

	announce(w, soon ? PF_WORKER_RESTARTING : PF_WORKER_AWAY, why);
	if (!known && pf_monitor_check_away(w, &away) < 0 && may_log(w))
		pf_log(PF_LOG_ERROR, "%s", away.text);
}

/*
 * Start again until it works; false: stop_fd was written to.
 * AT_ONCE: without a pause, because the store makes only the user of the culprit wait
 * (store/quarantine.c).
 */
static bool restart(struct pf_worker *w, bool at_once, unsigned *deaths)
{
	struct pollfd stop = { .fd = w->stop_fd, .events = POLLIN };
	struct pf_err err = PF_ERR_INIT;

	for (;; at_once = false) {
		if (poll(&stop, 1, at_once ? 0 : pause_ms(*deaths)) > 0)
			return false;
		*deaths += !at_once;
		w->again = true;
		pf_lock(&w->lock);
		w->restarts++;
		pf_unlock(&w->lock);
		if (start(w, &err) == 0) {
			announce(w, PF_WORKER_READY, NULL);
			return true;
		}
		failed_again(w, &err, *deaths);
	}
}

/* Start W, a user's own, when a call needs it.  False: W ends. */
static bool start_when_needed(struct pf_worker *w, unsigned *deaths)
{
	struct pf_err err = PF_ERR_INIT;

	if (!pf_own_sleep(w))
		return false;
	w->again = false;
	if (start(w, &err) == 0) {
		announce(w, PF_WORKER_READY, NULL);
		return true;
	}
	failed_again(w, &err, *deaths);
	return restart(w, false, deaths);
}

void *pf_monitor_main(void *arg)
{
	struct pf_worker *w = arg;
	struct pf_err err = PF_ERR_INIT;
	unsigned deaths = 0;
	int r = w->shared ? 0 : start(w, &err);

	if (is_sandbox(w, r))
		r = start_looser(w, &err);
	if (r < 0)
		pf_plugin_log_explain(&w->log);
	if (!w->shared)
		first_start_done(w, r, &err);
	while (r == 0 && (w->instance || start_when_needed(w, &deaths))) {
		int64_t born = pf_now_ms();
		int why = await_process(w, -1);
		bool suspects = reap(w, why == EVENT, &deaths, &err);

		if (why == STOP)
			break;
		if (w->in_group) {
			give_up(w);
			break;
		}
		if (why == RETIRED && w->shared) {
			pf_own_rest(w);
			continue;
		}
		if (pf_now_ms() - born > STEADY_MS)
			deaths = 0;
		if (!restart(w, suspects || why == RETIRED, &deaths))
			break;
	}
	announce(w, PF_WORKER_FAILED, NULL); /* no waiter waits for ever */
	if (w->shared)
		pf_own_leave(w);
	return NULL;
}
