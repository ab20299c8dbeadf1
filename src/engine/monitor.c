/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that starts a worker, watches it, buries it, and starts it again. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/wire.h"

enum {
	BACKOFF_FIRST_MS = 100,
	BACKOFF_MAX_MS = 30000,
	STEADY_MS = 60000,   /* a life this long forgets the deaths before it */
	MAX_DEATHS = 1000,   /* deaths in a row before we give up */
	PRINT_PAUSE_MS = 100 /* after PF_PROCESS_AT_ONCE bytes that it printed */
};

/* --- start ------------------------------------------------------------------------- */

void pf_monitor_close(struct pf_worker *w)
{
	if (w->sock >= 0)
		close(w->sock);
	if (w->err_fd >= 0)
		close(w->err_fd);
	w->sock = w->err_fd = -1;
}

/* Send the set-up text and the memory, and wait for the description. */
static int handshake(struct pf_worker *w, int sock, const int fds[3],
		     struct pf_description *ret, struct pf_err *err)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	const char *setup = w->start.setup;
	int r = pf_channel_send(sock, setup, strlen(setup), fds, 3, err);

	if (r == 0)
		r = pf_process_await(sock, w->err_fd, w->start_timeout_ms, &w->log, err);
	if (r >= 0)
		r = pf_channel_recv(sock, &text, NULL, 0, r, err);
	if (r == -ETIMEDOUT)
		return pf_err_set(err, r, "it was not loaded within %d s",
				  w->start_timeout_ms / 1000);
	if (r == 0)
		r = pf_description_parse(text.data, text.len, ret, err);
	return r;
}

/* A restarted plugin must be the one the users know. */
static int same_plugin(struct pf_worker *w, const struct pf_description *d,
		       struct pf_err *err)
{
	if (d->n_devices != w->description.n_devices)
		return pf_err_set(err, -EIO,
				  "plugin %s came back with %u devices, it had %u",
				  w->name, d->n_devices, w->description.n_devices);
	return 0;
}

/* Tell INSTANCE which file it has loaded, if that is the one that was there BEFORE. */
static void note_plugin(struct pf_worker *w, struct pf_instance *instance,
			const struct stat *before)
{
	struct stat st;

	if (before->st_ino && stat(w->path, &st) == 0 && st.st_ino == before->st_ino &&
	    st.st_dev == before->st_dev && st.st_size == before->st_size &&
	    st.st_ctim.tv_sec == before->st_ctim.tv_sec &&
	    st.st_ctim.tv_nsec == before->st_ctim.tv_nsec)
		pf_instance_set_plugin(instance, &st);
}

/* May the operator be told?  Not of probes, and not if nobody reads standard error. */
static bool may_log(const struct pf_worker *w)
{
	return !w->log.quiet && !pf_log_would_block();
}

/* INSTANCE, of process PID, has begun, and told D, which is taken. */
static void begun(struct pf_worker *w, struct pf_instance *instance, pid_t pid,
		  struct pf_description *d)
{
	unsigned restarts;

	pf_lock(&w->lock);
	if (w->description.json)
		pf_description_release(d);
	else
		w->description = *d;
	if (!w->meter)
		w->meter = pf_description_meter(&w->description, w->telemetry, w->name);
	w->instance = instance;
	w->pid = pid;
	w->state = PF_WORKER_READY;
	restarts = w->restarts;
	pf_unlock(&w->lock);
	pf_report_worker_started(w->telemetry, w->name, pid, restarts);
	if (restarts && may_log(w))
		pf_log(PF_LOG_INFO, "the worker of plugin %s runs again: process %d",
		       w->name, (int)pid);
}

/*
 * Start one life.  The watcher's: w->sock and w->err_fd are set on success.  The thread
 * that spawns must live as long as the worker: the kernel sends the worker's
 * parent-death signal when that thread ends.
 */
static int start(struct pf_worker *w, struct pf_err *err)
{
	struct pf_description d = { 0 };
	pf_autoclose int channel = -1, pool = -1;
	struct pf_instance *instance = NULL;
	uint64_t mark = pf_plugin_log_mark(&w->log);
	char **env = NULL; /* the life's, then */
	struct stat file = { 0 };
	pid_t pid = 0;
	int fds[4];
	int r = pf_process_fds(fds, err);

	if (r == 0)
		r = channel = pf_channel_create(err);
	if (r >= 0)
		r = pool = pf_shm_new("pjrtfs-pool", w->pool_size, err);
	if (r >= 0)
		r = pf_instance_new(w->name, channel, pool, w->pool_size, w->broken_fd,
				    &w->log, &instance, err);
	if (r == 0 && !(env = pf_process_environ(&w->start)))
		r = pf_err_set(err, -ENOMEM, "no memory for a worker's environment");
	if (r == 0) {
		pf_instance_set_environ(instance, env);
		if (stat(w->path, &file))
			file.st_ino = 0; /* the worker will tell why it cannot load it */
		r = pf_process_spawn(&w->start, env, w->name, fds[1], fds[3], &pid, err);
	}
	for (int i = 1; i < 4; i += 2)
		if (fds[i] >= 0)
			close(fds[i]);
	w->sock = fds[0];
	w->err_fd = fds[2];
	if (r == 0)
		r = handshake(w, w->sock, (int[]){ channel, pf_arena_fd(w->arena), pool },
			      &d, err);
	if (r == 0 && w->description.json)
		r = same_plugin(w, &d, err);
	if (r == 0 && !w->sched && !(w->sched = pf_description_sched(&d)))
		r = pf_err_set(err, -ENOMEM, "no memory for a scheduler");
	if (r == 0 && pf_instance_set_devices(instance, d.n_devices) < 0)
		r = pf_err_set(err, -ENOMEM, "no memory for a worker");
	if (r == 0) {
		note_plugin(w, instance, &file);
		begun(w, instance, pid, &d);
		return 0;
	}
	pf_description_release(&d);
	if (pid) {
		struct pf_err why = PF_ERR_INIT;

		kill(pid, SIGKILL);
		pf_process_reap(pid, w->name, w->err_fd, &w->log, &why);
		pf_plugin_log_quote(&w->log, mark, PF_PLUGIN_LOG_ANY, &why);
		/* It went without a word of its own: what it printed tells more. */
		if (r == -EPIPE)
			r = pf_err_set(err, why.code, "%s", why.text);
	}
	if (instance) {
		pf_instance_end(instance, err, err);
		pf_instance_unref(instance);
	}
	pf_monitor_close(w);
	return r;
}

/*
 * The plugin did not start, as ERR says.  A driver may need more than the strict sandbox allows:
 * the next try has another, and all later lives have it if that works.
 */
static int start_looser(struct pf_worker *w, struct pf_err *err)
{
	struct pf_err again = PF_ERR_INIT;
	char *strict = w->start.setup, *text = NULL;
	int r;

	w->start.setup = w->start.looser;
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

/* May a sandbox be why the first start failed with CODE? */
static bool is_sandbox(const struct pf_worker *w, int code)
{
	return w->start.looser && code < 0 && code != -ENOENT && code != -ENOEXEC &&
	       code != -ETIMEDOUT && code != -ENOMEM;
}

/* --- watch ------------------------------------------------------------------------- */

/* Wait until the process is gone (1) or shall be stopped (0), keeping what it prints. */
static int await_end(struct pf_worker *w)
{
	struct pollfd p[4] = { { .fd = w->sock, .events = POLLIN },
			       { .fd = w->stop_fd, .events = POLLIN },
			       { .fd = w->err_fd, .events = POLLIN },
			       { .fd = w->broken_fd, .events = POLLIN } };
	bool closed = false, pausing = false;
	const char *words;
	uint64_t count;

	for (;;) {
		int ms = pf_plugin_log_due_ms(&w->log);

		/* What prints for ever shall not take a processor for that. */
		p[2].fd = pausing || closed ? -1 : w->err_fd;
		if (poll(p, 4, pausing ? PRINT_PAUSE_MS : ms) < 0 && errno != EINTR)
			abort(); /* only a programming error */
		pausing = p[2].revents &&
			  pf_process_drain(w->err_fd, &w->log) >= PF_PROCESS_AT_ONCE;
		if (p[2].revents & (POLLHUP | POLLERR) && !pausing)
			closed = true; /* it may close its output and live on */
		pf_plugin_log_tick(&w->log);
		if (p[1].revents)
			return 0;
		/* It may be the end of an earlier life's memory that is told of here. */
		if (p[3].revents && read(w->broken_fd, &count, sizeof(count)) > 0 &&
		    (words = pf_instance_unfit(w->instance))) {
			pf_plugin_log_add(&w->log, words, strlen(words));
			return 1;
		}
		if (p[0].revents)
			return 1;
	}
}

/* Was INSTANCE asked for something that plugins die of when it ended? */
static bool had_suspects(struct pf_instance *instance)
{
	return pf_instance_lost(instance, PF_OP_COMPILE) ||
	       pf_instance_lost(instance, PF_OP_LOAD) ||
	       pf_instance_lost(instance, PF_OP_EXECUTE) ||
	       pf_instance_lost(instance, PF_OP_CALL);
}

/* The process is gone (DIED) or must go: end its life and tell WHY.  True: whoever asked for
 * what it died of, or may have died of, has been told. */
static bool reap(struct pf_worker *w, bool died, struct pf_err *why)
{
	struct pf_err bare = PF_ERR_INIT;
	struct pf_instance *instance;
	bool suspects;
	pid_t pid;

	pf_lock(&w->lock);
	pid = w->pid;
	instance = w->instance;
	w->instance = NULL;
	w->pid = 0;
	w->state = PF_WORKER_RESTARTING;
	pf_unlock(&w->lock);
	kill(pid, SIGKILL); /* its socket may be closed while it still runs */
	pf_process_reap(pid, w->name, w->err_fd, &w->log, &bare);
	*why = bare;
	pf_instance_quote(instance, why);
	if (died) {
		pf_report_worker_died(w->telemetry, w->meter, w->name, pid, why);
		if (may_log(w))
			pf_log(PF_LOG_ERROR, "%s", why->text);
	}
	pf_lock(&w->lock);
	w->why = *why;
	pf_unlock(&w->lock);
	pf_instance_end(instance, &bare, why);
	suspects = had_suspects(instance);
	pf_instance_unref(instance);
	pf_monitor_close(w);
	return suspects;
}

/* Wait MS milliseconds; false if the worker shall be stopped. */
static bool pause_ms(struct pf_worker *w, int ms)
{
	struct pollfd p = { .fd = w->stop_fd, .events = POLLIN };

	return poll(&p, 1, ms) <= 0;
}

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

/* Set the state and wake who waits for it. */
static void announce(struct pf_worker *w, enum pf_worker_state state)
{
	struct pf_wait *waiters;

	pf_lock(&w->lock);
	w->state = state;
	waiters = pf_wait_take(&w->waiters);
	pf_unlock(&w->lock);
	pf_wake_all(waiters);
}

/*
 * Start again until it works; false: the worker shall be stopped, or it is hopeless.  AT_ONCE: the
 * store makes the culprit of the last death wait (store/internal.h), so nobody else need.
 */
static bool restart(struct pf_worker *w, bool at_once, unsigned *deaths)
{
	struct pf_err err = PF_ERR_INIT;

	for (;; at_once = false) {
		int ms = *deaths > 8 ? BACKOFF_MAX_MS : BACKOFF_FIRST_MS << *deaths;

		if (*deaths && !at_once &&
		    !pause_ms(w, ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS))
			return false;
		*deaths += !at_once;
		pf_lock(&w->lock);
		w->restarts++;
		pf_unlock(&w->lock);
		if (start(w, &err) == 0) {
			announce(w, PF_WORKER_READY);
			return true;
		}
		pf_lock(&w->lock);
		w->why = err;
		pf_unlock(&w->lock);
		announce(w,
			 *deaths < MAX_DEATHS ? PF_WORKER_RESTARTING : PF_WORKER_FAILED);
		if (*deaths >= MAX_DEATHS)
			return false;
	}
}

void *pf_monitor_main(void *arg)
{
	struct pf_worker *w = arg;
	struct pf_err err = PF_ERR_INIT;
	unsigned deaths = 0;
	int r = start(w, &err);

	if (is_sandbox(w, r))
		r = start_looser(w, &err);
	first_start_done(w, r, &err);
	while (r == 0) {
		int64_t born = pf_now_ms();
		bool died = await_end(w) == 1, suspects = reap(w, died, &err);

		if (!died)
			break;
		if (pf_now_ms() - born > STEADY_MS)
			deaths = 0;
		if (!restart(w, suspects, &deaths))
			break;
	}
	announce(w, PF_WORKER_FAILED); /* nobody waits for ever */
	return NULL;
}
