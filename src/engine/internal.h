/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_ENGINE_INTERNAL_H
#define PJRTFS_ENGINE_INTERNAL_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <unistd.h>

#include "pjrtfs/base.h"
#include "pjrtfs/callback.h"
#include "pjrtfs/engine.h"
#include "pjrtfs/library.h"
#include "pjrtfs/shm.h"
#include "pjrtfs/wire.h"

/* Wake the thread that polls the eventfd FD. */
static inline void pf_event_set(int fd)
{
	uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

/* --- description.c ------------------------------------------------------------------ */

/*
 * Read the answer of a worker, which is not trusted: *RET, to be released.  Errors: those
 * of the answer itself if it has "ok": false; EPROTO if it is not a description.
 */
int pf_description_parse(const char *text, size_t len, struct pf_description *ret,
			 struct pf_err *err);
void pf_description_release(struct pf_description *description); /* zeros are allowed */

/* A meter of TELEMETRY (may be NULL) for the plugin NAME; NULL: it is not measured. */
struct pf_plugin_meter *pf_description_meter(const struct pf_description *description,
					     struct pf_telemetry *telemetry,
					     const char *name);

/*
 * A scheduler with a queue for each device; NULL: no memory.  There are as many slots as processors
 * if these are the devices; other plugins queue requests for the device, and have the next one
 * ready before it is idle.
 */
struct pf_sched *pf_description_sched(const struct pf_description *description);

/* --- library.c ---------------------------------------------------------------------- */

/* The worker reads N LIBRARIES as [{"name", "path", "targets", "platform", "traits"}].  The
 * caller's; incomplete without memory. */
struct json_object *pf_libraries_json(const struct pf_library *const *libraries,
				      unsigned n);

/* --- custom_calls.c ----------------------------------------------------------------- */

/*
 * Read which handlers a worker that was given N LIBRARIES says, in its DESCRIPTION, that it has:
 * *RET, one reference.  -EPROTO; -ENOMEM.
 */
int pf_custom_calls_new(struct json_object *description,
			const struct pf_library *const *libraries, unsigned n,
			struct pf_custom_calls **ret, struct pf_err *err);

/* --- plugin_log.c ------------------------------------------------------------------- */

struct pf_plugin_log {
	const char *name; /* borrowed: the plugin's */
	bool quiet;       /* the daemon's log gets no line; set before any is added */
	/* Only the thread that adds uses these. */
	struct pf_buf line;   /* the last one, which has no newline yet */
	uint64_t passed_on;   /* where in lines the daemon's log continues */
	uint64_t n_passed_on; /* lines before that */
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
 * and a line that is longer than PF_LINE_MAX becomes several.  By one thread, as the next six.
 */
void pf_plugin_log_add(struct pf_plugin_log *log, const char *text, size_t len);

/* The process has ended: end the last line, and write to the daemon's log how many lines it did
 * not get. */
void pf_plugin_log_end(struct pf_plugin_log *log);

/* Milliseconds until pf_plugin_log_tick has something to write; -1: nothing. */
int pf_plugin_log_due_ms(const struct pf_plugin_log *log);

/* Write the lines that the daemon's log lacks, once the daemon serves. */
void pf_plugin_log_tick(struct pf_plugin_log *log);

/* The daemon's log shall not get the lines so far. */
void pf_plugin_log_pass(struct pf_plugin_log *log);

/* The plugin did not start: write those that are warnings and errors, though the daemon may never
 * serve. */
void pf_plugin_log_explain(struct pf_plugin_log *log);

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
 * best explains a death: the last fatal one, else the last; nothing if no line qualifies.
 * Returns the mark at which that line begins, or UINT64_MAX: all marks from MARK up to it give
 * the same.
 */
uint64_t pf_plugin_log_quote(struct pf_plugin_log *log, uint64_t mark,
			     enum pf_plugin_log_lines lines, struct pf_err *why);

/* Put the cause of a failed start before WHY's sentence, if a line since MARK has words whose cause is
 * known (pf_err_explain). */
void pf_plugin_log_find_cause(struct pf_plugin_log *log, uint64_t mark,
			      struct pf_err *why);

/* Append all lines that are kept to OUT. */
void pf_plugin_log_copy(struct pf_plugin_log *log, struct pf_buf *out);

/* --- callback.c --------------------------------------------------------------------- */

/* The execution that MESSAGE, of LEN bytes, names calls the host.  False: it names another request, or
 * is malformed. */
bool pf_invocation_ask(struct pf_instance *instance, const void *message, size_t len);

/* --- instance_pool.c ----------------------------------------------------------------- */

/* Map the pool POOL_FD, of POOL_SIZE bytes, which stays the caller's; INSTANCE's broken_fd is set. */
int pf_instance_map_pool(struct pf_instance *instance, int pool_fd, uint64_t pool_size,
			 struct pf_err *err);
void pf_instance_unmap_pool(struct pf_instance *instance); /* if it is mapped */

/* Give back the address space that pools at rest (pf_instance_rest), for MS or longer, do not need. */
void pf_instance_shorten_pools(unsigned ms);

/* Keep INSTANCE's pool, which is FD, beyond the daemon's life, and no longer. */
void pf_instance_keep_pool(struct pf_instance *instance, int fd);
void pf_instance_forget_pool(struct pf_instance *instance);

/* The instance and the size of the pool that was kept as NAME.  False: NAME is not a pool's, or the
 * journal does not know the pool, which is then forgotten. */
bool pf_instance_find_pool(const char *name, uint64_t *number, uint64_t *size);

/* --- instance.c: one life of a worker's process -------------------------------------- */

struct pf_instance {
	_Atomic unsigned refs;
	uint64_t number;           /* no other instance of any worker has it */
	bool kept;                 /* pf_shm_keep was called for the pool */
	char *name;                /* owned: the plugin's */
	struct pf_channel channel; /* owned: the rings */
	const uint8_t *pool;       /* owned mapping of pool_size bytes */
	_Atomic uint64_t pool_size;
	_Atomic uint64_t pool_end;     /* of all that pf_instance_pool gave */
	TAILQ_ENTRY(pf_instance) rest; /* instance_pool.c; its lock protects both */
	int64_t rests_since; /* CLOCK_MONOTONIC, ms; 0: it is not on that list */
	int pool_fd;         /* owned, or -1: the pool's, to drop its pages */
	pthread_t thread;    /* takes replies */
	bool joined;         /* it has ended; pf_instance_end's */
	int broken_fd; /* borrowed: written to when the monitor is to end the process */
	struct pf_plugin_log *log; /* borrowed until pf_instance_end */
	_Atomic bool broken;       /* the worker damaged the rings: no more calls */
	_Atomic bool damaged;      /* a page of the pool could not be read */
	_Atomic bool stopped; /* the daemon ends the process: no call is the culprit */
	_Atomic bool
		unresponsive;  /* a brief call had no answer, and no reply came since */
	_Atomic bool begun;    /* it has described its plugin, and gives heartbeats */
	_Atomic bool executed; /* an execution has succeeded */
	_Atomic unsigned silent_s;                 /* seconds without a heartbeat */
	_Atomic uint64_t in_place[PF_DTYPE_COUNT]; /* a bit for each device */
	struct pf_worker_limits limits;
	_Atomic uint32_t seconds; /* that the reply thread has counted */
	/* The op of a call that took longer than it may; 0: none. */
	_Atomic uint32_t overran;
	/* It ends when no call is under way, or at this time (CLOCK_MONOTONIC, ms); 0: it stays. */
	_Atomic int64_t leaves_at;
	unsigned idle_s;        /* seconds without a call; under lock, as the next */
	uint64_t idle_tag;      /* last_tag as it was a second ago */
	uint64_t beats;         /* the last heartbeat; the reply thread's, as the next */
	int64_t next_second_ms; /* when another one has passed */

	/* The monitor sets these before others have the instance. */
	struct stat plugin; /* the file that is loaded; st_ino 0: not known */
	char **env;         /* owned: of the process; NULL: not known */
	unsigned n_devices;
	/* Owned: what is alive on each device, and on none. */
	_Atomic int (*alive)[PF_ALIVE_KINDS];

	pthread_mutex_t lock; /* rank 8; protects the fields below */
	struct pf_map calls;  /* tag to struct pf_call */
	uint64_t last_tag;
	uint64_t last_mark; /* of the log, at the latest call */
	/* Frees and answers for which the ring had no room: whole messages. */
	struct pf_buf deferred;
	size_t deferred_sent;  /* bytes of them that were sent since */
	struct pf_map holders; /* where values have bytes in the pool (+1): how many */
	bool some_unknown;     /* others were found, but no memory for them */
	LIST_HEAD(, pf_late) late; /* owned: calls that were given up, the latest first */
	bool dead;                 /* no more calls */
	struct pf_err why;         /* once dead */
	unsigned lost[PF_OP_COUNT]; /* calls that the end failed, by op */
};

/* Have the monitor look at the instance. */
static inline void pf_instance_nudge(const struct pf_instance *instance)
{
	pf_event_set(instance->broken_fd);
}

/* The instance NUMBER of the plugin NAME, with one reference and nothing else yet.  NULL: no memory. */
struct pf_instance *pf_instance_alloc(const char *name, uint64_t number, int broken_fd);

/* The plugin has N devices, before others have the instance.  -ENOMEM. */
int pf_instance_set_devices(struct pf_instance *instance, unsigned n);

/* How many objects WHAT are alive on DEVICE, or PF_NO_DEVICE. */
unsigned pf_instance_alive_on(const struct pf_instance *instance, enum pf_alive what,
			      unsigned device);

/* --- calls.c: requests, and the thread that takes the replies ------------------------ */

/*
 * Map the channel CHANNEL_FD and the pool POOL_FD, of POOL_SIZE bytes, whose descriptors stay the
 * caller's, and start the thread that takes replies.
 * broken_fd  borrowed: an eventfd, written to if the monitor must end the process, because it wrote
 *            invalid data in a ring or closed one, a page of the pool cannot be read, or it is
 *            beyond one of LIMITS; and when it becomes silent or gives a heartbeat again
 * log        what the process prints; borrowed until pf_instance_end has returned
 * ret        on success, one reference; pf_instance_end comes before the last unref
 */
int pf_instance_new(const char *name, int channel_fd, int pool_fd, uint64_t pool_size,
		    int broken_fd, const struct pf_worker_limits *limits,
		    struct pf_plugin_log *log, struct pf_instance **ret,
		    struct pf_err *err);

/* As pf_instance_call, but the worker gets REQUEST after the frees that were posted before. */
int pf_instance_call_in_order(struct pf_instance *instance, struct pf_call *call,
			      struct pf_req_id *request, struct pf_err *err);

/*
 * Add to WHY, the sentence of the process's death, what it printed last since the oldest call
 * under way began.  If no call is under way: since the latest began, and only reports of a fatal
 * check or an uncaught exception, because that call ended and other lines explain no death.
 */
void pf_instance_quote(struct pf_instance *instance, struct pf_err *why);

/*
 * The process is dead: fail every call under way with WHY and what was printed since the call
 * began, and later calls with QUOTED.  Waits for the reply thread.  Only the first call has an
 * effect.
 */
void pf_instance_end(struct pf_instance *instance, const struct pf_err *why,
		     const struct pf_err *quoted);

/* --- post.c: messages to the worker -------------------------------------------------- */

/* Refuse all calls from now on, with the first WHY that is given. */
void pf_instance_refuse_more(struct pf_instance *instance, const struct pf_err *why);

/* Have the monitor end the process, unless it does so already. */
void pf_instance_break_locked(struct pf_instance *instance);

/*
 * The worker wrote invalid data into a ring, or closed one.  This answers no call,
 * because the caller may hold locks: it wakes the reply thread, which fails those under
 * way.
 */
void pf_instance_mark_broken(struct pf_instance *instance);

/* Does R, of pf_ring_post, say that the worker did so? */
static inline bool pf_is_damage(int r)
{
	return r == -EPROTO || r == -EPIPE;
}

/* This thread begins to call done or asked of INSTANCE's calls, and has done so: what it posts
 * meanwhile wakes the worker once, at the end. */
void pf_answering_begin(struct pf_instance *instance);
void pf_answering_end(void);
bool pf_is_answering(void);

/* Post MESSAGE, whose head has its length, and TAIL; if the ring is full, later.  -ENOMEM. */
int pf_instance_post_locked(struct pf_instance *instance, const void *message, size_t len,
			    const void *tail, size_t tail_len);

/* Post what had to wait for room, as far as there is any. */
void pf_instance_send_deferred_locked(struct pf_instance *instance);

/* Add CALL of OP to those under way.  -EIO; -ENOMEM. */
int pf_instance_add_call_locked(struct pf_instance *instance, struct pf_call *call,
				uint32_t op);

/* --- instance_watch.c: whether an instance should end -------------------------------- */

/*
 * The reply thread's: once a second, look for a heartbeat, for calls at all, and for executions and
 * transfers that take too long, and nudge the monitor.  The seconds are those in which this thread
 * ran, so a daemon that was stopped together with its worker (a suspended machine, a frozen control
 * group) does not take the worker for silent.
 */
void pf_instance_count_seconds(struct pf_instance *instance);

/* Seconds for which the process has given no heartbeat: those in which it should have, while the
 * daemon ran. */
unsigned pf_instance_silent_s(const struct pf_instance *instance);

/* Why the process must end though it lives: a line for the plugin log (static); NULL: it need
 * not. */
const char *pf_instance_unfit(const struct pf_instance *instance);

/* Has the process been idle for the time of its limits, or has it no call under way and INSTANCE
 * leaves?  Then later calls are refused, as if it were dead, and the monitor ends it. */
bool pf_instance_retire(struct pf_instance *instance);

/* Have the monitor retire INSTANCE when no call is under way, or end it after MS milliseconds; a later
 * call changes nothing.  The worker's lock is held. */
void pf_instance_leave(struct pf_instance *instance, unsigned ms);

/* --- late.c: calls whose callers gave up ---------------------------------------------- */

/* A call, answered or not, that waits for the next caller of the same.  Owned by the list; only
 * functions of late.c read and write entry and kept. */
struct pf_late {
	LIST_ENTRY(pf_late) entry;
	bool kept; /* it is in the list */
	enum pf_op op;
	uint64_t id;
	void (*drop)(
		struct pf_late *late); /* frees it and its answer; called without locks */
};

/* Put LATE, which is given, into the list; INSTANCE's lock is held, as for the next. */
void pf_late_keep_locked(struct pf_instance *instance, struct pf_late *late);

/* Take LATE out of the list.  False: it is not there. */
bool pf_late_remove_locked(struct pf_late *late);

/* One of OP and ID, the caller's; NULL: none waits. */
struct pf_late *pf_late_take(struct pf_instance *instance, enum pf_op op, uint64_t id);

/* Drop those of OP and ID. */
void pf_late_drop(struct pf_instance *instance, enum pf_op op, uint64_t id);

/* Drop all: no call is under way, and none comes. */
void pf_late_drop_all(struct pf_instance *instance);

/* --- process.c: the start and the end of a worker's process ------------------------- */

/* How each instance of a worker is started.  Owned; only the monitor changes setup and looser, and
 * nothing changes what they point to, of which monitors of users' own workers make copies. */
struct pf_process_start {
	char *program;              /* path of pjrtfs-worker */
	struct json_object *setup;  /* the set-up text for it, as JSON */
	struct json_object *looser; /* what to try if it fails with setup; NULL: none */
	char *options;              /* create options: JSON with sorted keys */
	struct json_object *env;    /* variables that differ from the daemon's, or NULL */
};

/* Fill START in as CONFIG says.  -ENOMEM; to be released in any case. */
int pf_process_start_init(struct pf_process_start *start,
			  const struct pf_worker_config *config);
void pf_process_start_release(struct pf_process_start *start);

/* Is the process to have a sandbox? */
bool pf_process_is_sandboxed(const struct pf_process_start *start);

/* The set-up text for a process that gets N LIBRARIES, and is to make a CLIENT; WHY not (of
 * PF_CLIENT_NONE).  The caller's; NULL: no memory. */
char *pf_process_setup(const struct pf_process_start *start, enum pf_client_need client,
		       const char *why, const struct pf_library *const *libraries,
		       unsigned n);

/* The environment of a process started now, as environ(7): the daemon's variables but for what
 * START says.  The caller's, pf_process_environ_free; NULL: no memory. */
char **pf_process_environ(const struct pf_process_start *start);
void pf_process_environ_free(char **env); /* NULL is allowed */

struct pf_process {
	pid_t pid;
	int sock;   /* owned: the socket for the set-up */
	int err_fd; /* owned: what it prints; does not block */
};

/* Run START's program in the environment ENV, called NAME in ps(1), in a process group of its own:
 * *RET, to be reaped. */
int pf_process_spawn(const struct pf_process_start *start, char *const *env, char *name,
		     struct pf_process *ret, struct pf_err *err);

enum { PF_PROCESS_AT_ONCE = 1 << 20 }; /* bytes that one pf_process_drain reads, about */

/* Add what PROCESS has printed to LOG.  Returns the number of bytes; there may be more after
 * PF_PROCESS_AT_ONCE.  Does not block. */
size_t pf_process_drain(const struct pf_process *process, struct pf_plugin_log *log);

/*
 * Kill PROCESS (SIGKILL), of plugin NAME, unless it is dead, wait for its end, add the rest of
 * what it printed to LOG, close its descriptors, and say in *WHY (EIO) how it ended.  Blocks.
 */
void pf_process_reap(struct pf_process *process, const char *name,
		     struct pf_plugin_log *log, struct pf_err *why);

/* --- worker.c, monitor.c ------------------------------------------------------------ */

struct pf_worker {
	char *name, *path; /* owned */
	struct pf_process_start
		start; /* owned; the shared worker's parts, if there is one */
	/* Of a user's own worker, else NULL: borrowed, the one that it is like. */
	struct pf_worker *shared;
	char *label; /* owned: in logs and events: "cpu", "cpu/users/1000" */
	unsigned own_most, own_idle_s;  /* of the configuration: limits of users' own */
	_Atomic unsigned n_own;         /* users' own workers that have a place */
	struct pf_arena *arena;         /* borrowed */
	struct pf_libraries *libraries; /* borrowed, or NULL */
	uint64_t pool_size;
	int start_timeout_ms;
	const char *start_option;   /* of the configuration */
	enum pf_client_need client; /* of the configuration: at the first start */
	bool in_group;              /* its end is the group's: it is not started again */
	bool leads_group;           /* it is process 0 */
	void (*on_failed)(void *arg); /* of the configuration, as arg */
	void *arg;
	struct pf_worker_limits limits;
	bool silent; /* that it is silent was reported; the monitor's */
	struct pf_description description; /* of the first instance */
	struct pf_telemetry *telemetry;    /* borrowed, or NULL */
	struct pf_plugin_meter *meter;     /* the telemetry's; set with the description */
	struct pf_sched *sched;            /* owned; set with the description */
	struct pf_plugin_log log;
	_Atomic uint64_t last_id;
	_Atomic unsigned refs;
	int stop_fd;   /* owned: an eventfd; the monitor ends when it is written to */
	int broken_fd; /* owned: an eventfd; pf_instance_new */
	pthread_t monitor;
	bool stopped;              /* pf_worker_stop was called; its caller's */
	struct pf_process process; /* of the present instance; the monitor's */

	pthread_mutex_t lock;                 /* rank 8; protects the fields below */
	pthread_cond_t started;               /* the first start succeeded or failed */
	struct pf_instance *instance;         /* owned reference, or NULL */
	struct pf_custom_calls *custom_calls; /* owned reference: the latest instance's */
	enum pf_worker_state state;
	bool first_done;
	struct pf_err first; /* why it failed; code 0: it succeeded */
	bool has_place;      /* it counts in shared->n_own */
	bool again;          /* the latest start followed a death; the monitor's */
	/* How often pf_worker_settle has asked for what the process printed before, and which of
	 * these requests are fulfilled. */
	uint64_t log_asked, log_read;
	pthread_cond_t log_settled; /* log_read did change */
	pid_t pid;
	unsigned restarts;
	struct pf_err why;       /* of the last death or failed start */
	struct pf_wait *waiters; /* for the next instance, or the failure to start it */
};

/* What W's plugin described at its first start: a user's own worker is like the shared one. */
static inline const struct pf_description *worker_description(const struct pf_worker *w)
{
	return w->shared ? &w->shared->description : &w->description;
}

/* --- own.c: the process of a user's own worker -------------------------------------- */

/* A call needs the process of W, which is idle: have the monitor start it.  -EUSERS: as many users
 * as may have one have theirs. */
int pf_own_wake_locked(struct pf_worker *w, struct pf_err *err);

/* The monitor's, as the next two: wait until a call needs the process.  False: W is to end. */
bool pf_own_sleep(struct pf_worker *w);

/* The idle process has ended: W is idle, unless a call waits already. */
void pf_own_rest(struct pf_worker *w);

/* W ends: another one may have its place. */
void pf_own_leave(struct pf_worker *w);

/* The monitor's thread, of a struct pf_worker: ends when stop_fd is written to, or when the
 * worker is not to be started again. */
void *pf_monitor_main(void *arg);

/* As pf_worker_check_away.  The lock is held, or the monitor calls. */
int pf_monitor_check_away(const struct pf_worker *w, struct pf_err *err);

#endif
