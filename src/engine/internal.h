/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_ENGINE_INTERNAL_H
#define PJRTFS_ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "pjrtfs/base.h"
#include "pjrtfs/engine.h"

/* --- plugin_log.c ----------------------------------------------------------------------- */

struct pf_plugin_log {
	const char *name; /* borrowed: the plugin's */
	bool quiet;       /* the daemon's log gets no line; set before any is added */
	/* Of the one thread that adds. */
	struct pf_buf line;   /* the last one, which has no newline yet */
	struct pf_buf early;  /* lines that wait until the daemon serves */
	int64_t period_began; /* CLOCK_MONOTONIC, ms; 0: none has begun */
	unsigned n_written;   /* to the daemon's log, in this period */
	uint64_t n_skipped;   /* lines that the daemon's log did not get */
	/* Bytes of all whole lines so far; written under lock. */
	_Atomic uint64_t mark;

	pthread_mutex_t lock; /* rank 8; protects the fields below */
	struct pf_lines lines;
	struct timespec time; /* of the last one */
	void (*on_add)(void *arg);
	void *arg;
};

/* An empty log of what the plugin NAME (borrowed) prints.  -ENOMEM. */
int pf_plugin_log_init(struct pf_plugin_log *log, const char *name);
void pf_plugin_log_release(struct pf_plugin_log *log); /* all zeros is allowed */

/*
 * Add LEN bytes, in pieces as the worker prints them; control characters but tabs become spaces,
 * and a line that is longer than PF_LINE_MAX becomes several.  By one thread, as the next three.
 */
void pf_plugin_log_add(struct pf_plugin_log *log, const char *text, size_t len);

/* The process has ended: end the last line, and write to the daemon's log how many lines it did
 * not get. */
void pf_plugin_log_end(struct pf_plugin_log *log);

/* Milliseconds until pf_plugin_log_tick has something to write; -1: nothing. */
int pf_plugin_log_due_ms(const struct pf_plugin_log *log);
void pf_plugin_log_tick(struct pf_plugin_log *log);

/* A mark: lines that end from now on were printed since.  Does not block: one atomic load. */
static inline uint64_t pf_plugin_log_mark(struct pf_plugin_log *log)
{
	return atomic_load_explicit(&log->mark, memory_order_relaxed);
}

enum pf_plugin_log_lines {
	PF_PLUGIN_LOG_ANY = 1,   /* all but blank lines and stack frames */
	PF_PLUGIN_LOG_FATAL = 2, /* reports of a fatal check or an uncaught exception */
};

/*
 * Append to WHY's sentence "; it printed last:" and the line since MARK, of those of LINES, that
 * best explains a death: the last fatal one, else the last; nothing if there is none.  Returns
 * the mark at which that line begins, or UINT64_MAX: all marks from MARK up to it give the same.
 */
uint64_t pf_plugin_log_quote(struct pf_plugin_log *log, uint64_t mark,
			     enum pf_plugin_log_lines lines, struct pf_err *why);

/* One life of a worker: its channel, its pool, its calls.  Private to the engine. */

/*
 * Wrap a channel (mapped from CHANNEL_FD) and a pool (mapped read-only from POOL_FD; both
 * descriptors stay the caller's) and start the thread that takes replies.
 * BROKEN_FD, an eventfd that stays the caller's, is written to if the worker leaves nonsense
 * in a ring or closes one (the life takes no calls from then on), or if a page of the pool is
 * lost (pf_instance_damaged): the caller must end the process and the life.
 * log   what its process prints; borrowed until pf_instance_end has returned
 * ret   on success, one reference; pf_instance_end must be called before the last unref
 */
int pf_instance_new(const char *name, int channel_fd, int pool_fd, uint64_t pool_size,
		    int broken_fd, struct pf_plugin_log *log, struct pf_instance **ret,
		    struct pf_err *err);

/* Why it must be ended though its process lives: a line for its log (static); NULL: nothing. */
const char *pf_instance_unfit(const struct pf_instance *instance);

/* It has N devices, before anybody else has the life.  -ENOMEM. */
int pf_instance_set_devices(struct pf_instance *instance, unsigned n);

/* The daemon ends its process on purpose: what is under way is no culprit. */
void pf_instance_stop(struct pf_instance *instance);

/* Its worker damaged the rings: it takes no more calls, and its process is about to be ended.
 * Does not block, takes no lock. */
bool pf_instance_is_broken(const struct pf_instance *instance);

/* How many are alive on DEVICE, or PF_NO_DEVICE. */
unsigned pf_instance_alive_on(const struct pf_instance *instance, enum pf_alive what,
			      unsigned device);

/* Note the plugin's file, before anybody else has the life. */
void pf_instance_set_plugin(struct pf_instance *instance, const struct stat *st);

/* Give it the environment that its process gets, as environ(7), likewise. */
void pf_instance_set_environ(struct pf_instance *instance, char **env);

/*
 * Add to WHY, the sentence of its process's death, what that printed last: since the oldest call
 * under way began.  If none is under way, since the latest began, and only what reports a
 * fatal check or an uncaught exception: that call ended, and what it printed besides explains
 * nothing.
 */
void pf_instance_quote(struct pf_instance *instance, struct pf_err *why);

/*
 * The process is dead, as WHY says: fail every call under way with it and with what was printed
 * since that call began.  Later calls fail as QUOTED says.  Waits for the reply thread.  Calls
 * after the first have no effect.
 */
void pf_instance_end(struct pf_instance *instance, const struct pf_err *why,
		     const struct pf_err *quoted);

/* A worker's process: its start and its end.  Private to the engine. */

/*
 * A socket pair (0 ours, 1 the worker's, above PF_CHANNEL_FD so that dup2 clears
 * close-on-exec) and a pipe for what the worker prints (2 ours, not blocking; 3 the
 * worker's).  The caller closes all that are not -1, also on failure.
 */
int pf_process_fds(int fds[4], struct pf_err *err);

/* What every life of a worker is started with.  All is owned and never changes. */
struct pf_process_start {
	char *program;           /* path of pjrtfs-worker */
	char *setup;             /* the text for it */
	char *looser;            /* another, if it does not start with that; NULL: none */
	char *options;           /* create options: JSON with sorted keys */
	struct json_object *env; /* variables that are not the daemon's */
};

/* Fill it in as CONFIG says.  -ENOMEM; released in any case. */
int pf_process_start_init(struct pf_process_start *start,
			  const struct pf_worker_config *config);
void pf_process_start_release(struct pf_process_start *start);

/* The environment of a life that begins now, as environ(7), the caller's; NULL: no memory.
 * Free with pf_process_environ_free. */
char **pf_process_environ(const struct pf_process_start *start);
void pf_process_environ_free(char **env); /* NULL is allowed */

/*
 * Run START's program in the environment ENV, called NAME in ps(1), with SOCK at PF_CHANNEL_FD
 * and ERR_FD as its standard output and error, in a process group of its own.
 */
int pf_process_spawn(const struct pf_process_start *start, char *const *env, char *name,
		     int sock, int err_fd, pid_t *ret, struct pf_err *err);

enum {
	PF_PROCESS_AT_ONCE = 1 << 20
}; /* bytes that are drained at once, or little more */

/*
 * Keep what it has printed, ERR_FD's unread bytes (-1: none), in LOG: how many these were.
 * There may be more after PF_PROCESS_AT_ONCE.  Does not block.
 */
size_t pf_process_drain(int err_fd, struct pf_plugin_log *log);

/*
 * Wait until there is something to be received at SOCK, and keep meanwhile what the process
 * prints, which would stop it else.  Milliseconds that are left of TIMEOUT_MS, 0: none;
 * -errno.
 */
int pf_process_await(int sock, int err_fd, int timeout_ms, struct pf_plugin_log *log,
		     struct pf_err *err);

/*
 * Wait for the end of process PID of plugin NAME, keep the rest of what it printed, and say in
 * *WHY (EIO) how it ended; pf_plugin_log_quote adds what it printed last.  Blocks.
 */
void pf_process_reap(pid_t pid, const char *name, int err_fd, struct pf_plugin_log *log,
		     struct pf_err *why);

/*
 * A worker, for the thread that starts and watches it and for those who ask.  Private to the
 * layer.
 */

struct pf_worker {
	char *name, *path; /* owned */
	struct pf_process_start start;
	struct pf_arena *arena; /* borrowed */
	uint64_t pool_size;
	int start_timeout_ms;
	struct pf_description description; /* of the first life */
	struct pf_telemetry *telemetry;    /* borrowed, or NULL */
	struct pf_plugin_meter *meter;     /* the watch's; set with the description */
	struct pf_sched *sched;            /* owned; set with the description */
	struct pf_plugin_log log;
	_Atomic uint64_t last_id;
	int stop_fd;   /* owned; an eventfd: the watcher shall end */
	int broken_fd; /* owned; an eventfd: the process damaged the rings and must go */

	/* Of the present life; the watcher's own. */
	int sock, err_fd; /* owned, or -1 */
	pthread_t monitor;
	bool stopped; /* the owner's own: pf_worker_stop was called */

	pthread_mutex_t lock;         /* rank 8; protects the fields below */
	pthread_cond_t started;       /* the first start succeeded or failed */
	struct pf_instance *instance; /* owned reference, or NULL */
	enum pf_worker_state state;
	bool first_done;
	struct pf_err first; /* code 0: the first start succeeded */
	pid_t pid;
	unsigned restarts;
	struct pf_err why;       /* of the last death or failed start */
	struct pf_wait *waiters; /* for the next life, or word that there is none */
};

/* The watcher's thread, of a struct pf_worker: ends when stop_fd tells it to, or when there is no
 * use in another start. */
void *pf_monitor_main(void *arg);

/* Close the pipes to the present life's process; the watcher's own, or nobody's. */
void pf_monitor_close(struct pf_worker *w);

#endif
