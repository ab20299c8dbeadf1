#include "pjrtfs/engine/worker.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>

#include "life.h"
#include "process.h"
#include "pjrtfs/wire/channel.h"
#include "tail.h"

enum {
	START_TIMEOUT_MS = 120000, /* a plugin that loads 250 MB from a cold disk */
	BACKOFF_FIRST_MS = 100,
	BACKOFF_MAX_MS = 30000,
	STEADY_S = 60,       /* a life this long forgets the deaths before it */
	MAX_DEATHS = 1000,   /* deaths in a row before we give up */
	PRINT_PAUSE_MS = 100 /* after PF_PROCESS_AT_ONCE bytes that it printed */
};

struct pf_worker {
	char *name, *path; /* owned */
	struct pf_process_start start;
	struct pf_arena *arena; /* borrowed */
	uint64_t pool_size;
	int start_timeout_ms;
	struct pf_description description; /* of the first life */
	struct pf_watch *watch;            /* borrowed, or NULL */
	struct pf_plugin_meter *meter;     /* the watch's; set with the description */
	struct pf_turns *turns;            /* owned; set with the description */
	struct pf_tail tail;
	struct pf_printed printed; /* the same, for users and the daemon's log */
	_Atomic uint64_t last_id;
	int stop_fd;   /* owned; an eventfd: the watcher shall end */
	int broken_fd; /* owned; an eventfd: the process wrote nonsense and must go */

	/* Of the present life; the watcher's own. */
	int sock, err_fd; /* owned, or -1 */
	pthread_t watcher;
	bool stopped; /* the owner's own: pf_worker_stop was called */

	pthread_mutex_t lock;   /* rank 8; protects the fields below */
	pthread_cond_t started; /* the first start succeeded or failed */
	struct pf_life *life;   /* owned reference, or NULL */
	enum pf_worker_state state;
	bool first_done;
	struct pf_err first; /* code 0: the first start succeeded */
	pid_t pid;
	unsigned restarts;
	struct pf_err why;         /* of the last death or failed start */
	struct pf_waiter *waiters; /* for the next life, or word that there is none */
};

static int64_t now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

/* --- start ------------------------------------------------------------------------- */

static void close_pipes(struct pf_worker *w)
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
		r = pf_process_await(sock, w->err_fd, w->start_timeout_ms, &w->tail, err);
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

/* Tell LIFE which file it has loaded, if that is the one that was there BEFORE. */
static void note_plugin(struct pf_worker *w, struct pf_life *life,
			const struct stat *before)
{
	struct stat st;

	if (before->st_ino && stat(w->path, &st) == 0 && st.st_ino == before->st_ino &&
	    st.st_dev == before->st_dev && st.st_size == before->st_size &&
	    st.st_ctim.tv_sec == before->st_ctim.tv_sec &&
	    st.st_ctim.tv_nsec == before->st_ctim.tv_nsec)
		pf_life_set_plugin(life, &st);
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
	struct pf_life *life = NULL;
	char **env = NULL; /* the life's, then */
	struct stat file = { 0 };
	pid_t pid = 0;
	int fds[4];
	int r = pf_process_fds(fds, err);

	if (r == 0)
		r = channel = pf_channel_create(err);
	if (r >= 0)
		r = pool = pf_process_pool(w->pool_size, err);
	if (r >= 0)
		r = pf_life_new(w->name, channel, pool, w->pool_size, w->broken_fd, &life,
				err);
	if (r == 0 && !(env = pf_process_environ(&w->start)))
		r = pf_err_set(err, -ENOMEM, "no memory for a worker's environment");
	if (r == 0) {
		pf_life_set_environ(life, env);
		pf_tail_mark(&w->tail);
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
	if (r == 0 && !w->turns && !(w->turns = pf_description_turns(&d)))
		r = pf_err_set(err, -ENOMEM, "no memory for the turns of its devices");
	if (r == 0 && pf_life_set_devices(life, d.n_devices) < 0)
		r = pf_err_set(err, -ENOMEM, "no memory for a worker");
	if (r == 0) {
		unsigned restarts;

		note_plugin(w, life, &file);
		pf_lock(&w->lock);
		if (w->description.json)
			pf_description_release(&d);
		else
			w->description = d;
		if (!w->meter)
			w->meter =
				pf_description_meter(&w->description, w->watch, w->name);
		w->life = life;
		w->pid = pid;
		w->state = PF_WORKER_READY;
		restarts = w->restarts;
		pf_unlock(&w->lock);
		pf_tell_worker_started(w->watch, w->name, pid, restarts);
		return 0;
	}
	pf_description_release(&d);
	if (pid) {
		struct pf_err why = PF_ERR_INIT;

		kill(pid, SIGKILL);
		pf_process_reap(pid, w->name, w->err_fd, &w->tail, &why);
		/* It went without a word of its own: what it printed tells more. */
		if (r == -EPIPE)
			r = pf_err_set(err, why.code, "%s", why.text);
	}
	if (life) {
		pf_life_end(life, err);
		pf_life_unref(life);
	}
	close_pipes(w);
	return r;
}

/* --- watch ------------------------------------------------------------------------- */

static const char broken_words[] = "FATAL: what it wrote to the daemon is no message\n";

/* Wait until the process is gone (1) or shall be stopped (0), keeping what it prints. */
static int watch(struct pf_worker *w)
{
	struct pollfd p[4] = { { .fd = w->sock, .events = POLLIN },
			       { .fd = w->stop_fd, .events = POLLIN },
			       { .fd = w->err_fd, .events = POLLIN },
			       { .fd = w->broken_fd, .events = POLLIN } };
	bool closed = false, pausing = false;
	uint64_t count;

	for (;;) {
		int ms = pf_printed_due_ms(&w->printed);

		/* What prints for ever shall not take a processor for that. */
		p[2].fd = pausing || closed ? -1 : w->err_fd;
		if (poll(p, 4, pausing ? PRINT_PAUSE_MS : ms) < 0 && errno != EINTR)
			abort(); /* only a programming error */
		pausing = p[2].revents &&
			  pf_process_drain(w->err_fd, &w->tail) >= PF_PROCESS_AT_ONCE;
		if (p[2].revents & (POLLHUP | POLLERR) && !pausing)
			closed = true; /* it may close its output and live on */
		pf_printed_tick(&w->printed);
		if (p[1].revents)
			return 0;
		if (p[3].revents && read(w->broken_fd, &count, sizeof(count)) > 0)
			pf_tail_add(&w->tail, broken_words, strlen(broken_words));
		if (p[0].revents || p[3].revents)
			return 1;
	}
}

/* The process is gone (DIED) or must go: end its life and tell WHY. */
static void bury(struct pf_worker *w, bool died, struct pf_err *why)
{
	struct pf_life *life;
	pid_t pid;

	pf_lock(&w->lock);
	pid = w->pid;
	life = w->life;
	w->life = NULL;
	w->pid = 0;
	w->state = PF_WORKER_RESTARTING;
	pf_unlock(&w->lock);
	kill(pid, SIGKILL); /* its socket may be closed while it still runs */
	pf_process_reap(pid, w->name, w->err_fd, &w->tail, why);
	if (died)
		pf_tell_worker_died(w->watch, w->meter, w->name, pid, why);
	pf_lock(&w->lock);
	w->why = *why;
	pf_unlock(&w->lock);
	pf_life_end(life, why);
	pf_life_unref(life);
	close_pipes(w);
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
	struct pf_waiter *waiters;

	pf_lock(&w->lock);
	w->state = state;
	waiters = pf_wait_take(&w->waiters);
	pf_unlock(&w->lock);
	pf_wake_all(waiters);
}

/* Start again until it works; false: the worker shall be stopped, or it is hopeless. */
static bool restart(struct pf_worker *w, unsigned *deaths)
{
	struct pf_err err = PF_ERR_INIT;

	for (;;) {
		int ms = *deaths > 8 ? BACKOFF_MAX_MS : BACKOFF_FIRST_MS << *deaths;

		if (*deaths && !pause_ms(w, ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS))
			return false;
		++*deaths;
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

static void *watcher_main(void *arg)
{
	struct pf_worker *w = arg;
	struct pf_err err = PF_ERR_INIT;
	unsigned deaths = 0;
	int r = start(w, &err);

	first_start_done(w, r, &err);
	while (r == 0) {
		int64_t born = now_s();
		bool died = watch(w) == 1;

		bury(w, died, &err);
		if (!died)
			break;
		if (now_s() - born > STEADY_S)
			deaths = 0;
		if (!restart(w, &deaths))
			break;
	}
	announce(w, PF_WORKER_FAILED); /* nobody waits for ever */
	return NULL;
}

/* --- the interface ------------------------------------------------------------------ */

static void free_parts(struct pf_worker *w)
{
	close_pipes(w);
	if (w->stop_fd >= 0)
		close(w->stop_fd);
	if (w->broken_fd >= 0)
		close(w->broken_fd);
	pf_turns_free(w->turns);
	pf_description_release(&w->description);
	pf_tail_release(&w->tail);
	pf_printed_release(&w->printed);
	pthread_cond_destroy(&w->started);
	pthread_mutex_destroy(&w->lock);
	free(w->name);
	free(w->path);
	pf_process_start_release(&w->start);
	free(w);
}

int pf_worker_new(const struct pf_worker_config *config, struct pf_worker **ret,
		  struct pf_err *err)
{
	struct pf_worker *w = calloc(1, sizeof(*w));
	int printed, r = 0;

	if (!w)
		return pf_err_set(err, -ENOMEM, "no memory for a worker");
	if (pthread_mutex_init(&w->lock, NULL) || pthread_cond_init(&w->started, NULL))
		abort();
	pf_tail_init(&w->tail);
	w->sock = w->err_fd = -1;
	w->stop_fd = eventfd(0, EFD_CLOEXEC);
	w->broken_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w->arena = config->arena;
	w->pool_size = config->pool_size;
	w->start_timeout_ms =
		config->start_timeout_ms ? config->start_timeout_ms : START_TIMEOUT_MS;
	w->watch = config->watch;
	w->name = strdup(config->name);
	printed = w->name ? pf_printed_init(&w->printed, w->name) : -ENOMEM;
	w->path = strdup(config->path);
	w->printed.quiet = !config->watch;
	w->tail.printed = &w->printed;
	if (printed < 0 || pf_process_start_init(&w->start, config) < 0 ||
	    w->stop_fd < 0 || w->broken_fd < 0 || !w->name || !w->path ||
	    pthread_create(&w->watcher, NULL, watcher_main, w)) {
		free_parts(w);
		return pf_err_set(err, -ENOMEM, "no memory or thread for a worker");
	}
	pf_lock(&w->lock);
	while (!w->first_done)
		pthread_cond_wait(&w->started, &w->lock);
	/* Not the state: it may have died, and be restarting, by now. */
	if (w->first.code < 0)
		r = pf_err_set(err, w->first.code, "%s", w->first.text);
	pf_unlock(&w->lock);
	if (r < 0) {
		pthread_join(w->watcher, NULL);
		free_parts(w);
		return r;
	}
	*ret = w;
	return 0;
}

void pf_worker_interrupt(struct pf_worker *w)
{
	uint64_t one = 1;

	if (write(w->stop_fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

void pf_worker_restart(struct pf_worker *w)
{
	PF_LOCK_SCOPE(&w->lock);
	if (w->pid)
		kill(w->pid, SIGKILL);
}

void pf_worker_stop(struct pf_worker *w)
{
	if (w->stopped)
		return;
	w->stopped = true;
	pf_worker_interrupt(w);
	pthread_join(w->watcher, NULL);
}

void pf_worker_free(struct pf_worker *w)
{
	if (!w)
		return;
	pf_worker_stop(w);
	free_parts(w);
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

struct pf_watch *pf_worker_watch(const struct pf_worker *w)
{
	return w ? w->watch : NULL;
}

struct pf_plugin_meter *pf_worker_meter(const struct pf_worker *w)
{
	return w ? w->meter : NULL;
}

enum pf_worker_state pf_worker_state(struct pf_worker *w)
{
	PF_LOCK_SCOPE(&w->lock);
	return w->state;
}

const char *pf_worker_state_name(enum pf_worker_state state)
{
	static const char *const names[] = {
		[PF_WORKER_STARTING] = "starting",
		[PF_WORKER_READY] = "ready",
		[PF_WORKER_RESTARTING] = "restarting",
		[PF_WORKER_FAILED] = "failed",
	};

	return names[state];
}

void pf_worker_error(struct pf_worker *w, struct pf_buf *out)
{
	PF_LOCK_SCOPE(&w->lock);
	if (!w->life && w->why.code)
		pf_buf_printf(out, "%s\n", w->why.text);
}

void pf_worker_pid(struct pf_worker *w, pid_t *pid, unsigned *restarts)
{
	PF_LOCK_SCOPE(&w->lock);
	*pid = w->pid;
	*restarts = w->restarts;
}

const struct pf_description *pf_worker_description(const struct pf_worker *w)
{
	return &w->description;
}

struct pf_turns *pf_worker_turns(const struct pf_worker *w)
{
	return w->turns;
}

int pf_worker_takes(const struct pf_worker *w, enum pf_dtype dtype, struct pf_err *err)
{
	return pf_dtype_check(dtype, w->description.api_major, w->description.api_minor,
			      err);
}

struct pf_printed *pf_worker_printed(struct pf_worker *w)
{
	return &w->printed;
}

unsigned pf_worker_alive(struct pf_worker *w, enum pf_alive what, unsigned device)
{
	PF_LOCK_SCOPE(&w->lock);
	return w->life ? pf_life_alive_on(w->life, what, device) : 0;
}

uint64_t pf_worker_id(struct pf_worker *w)
{
	return atomic_fetch_add(&w->last_id, 1) + 1;
}

struct pf_life *pf_worker_life(struct pf_worker *w, struct pf_err *err)
{
	PF_LOCK_SCOPE(&w->lock);
	if (w->life)
		return pf_life_ref(w->life);
	pf_err_set(err, -EIO, "%s (%s)", w->why.text,
		   w->state == PF_WORKER_FAILED ? "it is not started again"
						: "it is being started again");
	return NULL;
}

bool pf_worker_wait(struct pf_worker *w, struct pf_waiter *waiter)
{
	PF_LOCK_SCOPE(&w->lock);
	if (w->life || w->state == PF_WORKER_FAILED)
		return false;
	pf_wait_add(&w->waiters, waiter);
	return true;
}
