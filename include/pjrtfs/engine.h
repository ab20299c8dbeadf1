/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_ENGINE_H
#define PJRTFS_ENGINE_H

#include <json-c/json.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "pjrtfs/arena.h"
#include "pjrtfs/array.h"
#include "pjrtfs/base.h"
#include "pjrtfs/scheduler.h"
#include "pjrtfs/telemetry.h"
#include "pjrtfs/wait.h"
#include "pjrtfs/wire.h"

struct pf_custom_calls;
struct pf_instance;
struct pf_invocation;
struct pf_libraries;
struct pf_library;
struct pf_plugin_log;
struct pf_worker;

/* How a plugin describes itself, its devices and their memories. */

struct pf_memory_desc {
	int64_t id;
	const char *kind; /* "device", "pinned_host" */
	const char *description;
};

struct pf_device_desc {
	int64_t id;
	int64_t local_hardware_id; /* -1: not addressable */
	int64_t process_index;
	bool addressable;
	const char *kind;
	const char *description;        /* PJRT_DeviceDescription_ToString */
	const char *debug;              /* PJRT_DeviceDescription_DebugString */
	struct json_object *attributes; /* borrowed */
	unsigned default_memory;        /* index into memories */
	unsigned n_memories;
	struct pf_memory_desc *memories; /* owned */
};

/* Strings are borrowed from json. */
struct pf_description {
	struct json_object *json; /* owned: the worker's whole answer */
	int api_major, api_minor;
	const char *platform;
	const char *platform_version;
	struct json_object *attributes; /* borrowed; may be NULL */
	struct json_object *extensions; /* borrowed; may be NULL */
	const char
		*compiler; /* why there is no client, and no device; NULL: there is one */
	unsigned n_devices;
	struct pf_device_desc *devices; /* owned */
};

/*
 * Is memory MEMORY (or PF_DEFAULT_MEMORY) of device DEVICE, both indexes, the host's?
 * True of every memory of a plugin whose devices are the host's processors, and of kinds
 * such as "pinned_host".
 */
bool pf_description_is_host(const struct pf_description *description, unsigned device,
			    unsigned memory);

/*
 * The plugin log: the lines that a plugin's worker prints, of all its instances.  A bounded log
 * has every line; it is read like a file.  The daemon's own log gets at most PF_PLUGIN_LOG_BURST
 * lines in PF_PLUGIN_LOG_PERIOD_MS and then the number of the others, because a plugin may print
 * hundreds of kilobytes for one bad program, or for ever.
 */

enum {
	PF_PLUGIN_LOG_BYTES = 256 << 10, /* of the last lines that are kept */
	PF_PLUGIN_LOG_BURST = 100,
	PF_PLUGIN_LOG_PERIOD_MS = 10000,
};

/* Call FN(ARG) when lines were added; NULL: no more.  FN must not block, and takes no lock below
 * rank 9. */
void pf_plugin_log_on_add(struct pf_plugin_log *log, void (*fn)(void *arg), void *arg);

/* As struct pf_lines, from any thread. */
size_t pf_plugin_log_read(struct pf_plugin_log *log, struct pf_lines_reader *reader,
			  uint64_t off, char *dst, size_t len);
bool pf_plugin_log_ready(struct pf_plugin_log *log, const struct pf_lines_reader *reader);
uint64_t pf_plugin_log_size(struct pf_plugin_log *log,
			    const struct pf_lines_reader *reader,
			    struct timespec *ret_time);

/*
 * A worker: the process that has loaded a plugin, as the daemon sees it.  A monitor starts
 * the process, and starts it again when it has died.  One life of the process is an instance.  Ids
 * of executables and buffers and offsets in the pool belong to the instance that made them.
 */

enum { PF_SILENT_S = 10 };

enum pf_worker_state {
	PF_WORKER_STARTING,
	PF_WORKER_READY,
	PF_WORKER_COMPILER, /* ready, but without a client: it only compiles for topologies */
	PF_WORKER_SILENT, /* ready, but it has given no heartbeat for PF_SILENT_S */
	PF_WORKER_RESTARTING,
	PF_WORKER_AWAY, /* restarting, but starts fail: calls do not wait for the next one */
	PF_WORKER_FAILED, /* it never started, or was stopped, or its group has ended */
	PF_WORKER_IDLE, /* a user's own: it has no process, and the next call starts one */
};

/* When a process is ended and started again, in seconds; 0: never. */
struct pf_worker_limits {
	unsigned silent_s; /* it has given no heartbeat for so long */
	unsigned
		execute_s; /* it has executed one program, or one repetition of it, for longer */
	unsigned transfer_s; /* or copied one array (pf_instance_transfer_s) */
	/* No call has come for so long: it ends, and the next call starts another one. */
	unsigned idle_s;
	bool keep_buffers; /* not while it has buffers, whose bytes only the device has */
};

/* How to start a worker.  Copied, but for what is borrowed. */
struct pf_worker_config {
	const char *name; /* the plugin's: "cpu" */
	const char *path; /* of the plugin's .so */
	/* Path of pjrtfs-worker; NULL: beside this program in a build tree, else where it was installed. */
	const char *program;
	struct json_object *options; /* create options, or NULL */
	/* Environment variables of the process that differ from the daemon's: a string, or null
	 * for none; or NULL. */
	struct json_object *env;
	/* The rights of the process: pf_sandbox_parse (src/worker/sandbox.h).  The default mode is
	 * strict, or device if the plugin does not start in that. */
	struct json_object *sandbox;
	const char *note; /* a line that its log begins with, or NULL */
	/* The group whose member the plugin's client is: pf_group_open (src/worker/internal.h); NULL:
	 * none.  A member's process is never started again. */
	struct json_object *group;
	/* Called once, by a thread of the worker, when its group has ended, so that it will not be started
	 * again; or NULL. */
	void (*on_failed)(void *arg);
	void *arg;
	struct pf_arena *arena; /* borrowed; outlives the worker */
	/* Each instance loads those of the plugin (library.h); borrowed, outlives the worker; or
	 * NULL. */
	struct pf_libraries *libraries;
	bool no_client; /* load the plugin and its libraries only: it has no devices */
	/* Of the first start; a later one is as the first one turned out: a worker that had a client
	 * does not become a compiler, nor a compiler anything else.  A member of a group needs one. */
	enum pf_client_need client;
	uint64_t pool_size; /* bytes of address space for its results */
	/* Borrowed; outlives the worker.  NULL: nothing is reported, and the daemon's log gets
	 * no line that the plugin prints. */
	struct pf_telemetry *telemetry;
	int start_timeout_ms; /* for loading the plugin; 0: two minutes */
	/* The option that sets it, which the sentence of a plugin that was not loaded in time names; a
	 * literal, or NULL. */
	const char *start_option;
	struct pf_worker_limits limits; /* idle_s and keep_buffers are 0 */
	/* Users' own workers like it: how many may have a process at once, and the seconds without
	 * a call after which a process ends. */
	unsigned own_most, own_idle_s;
	struct pf_buf *
		printed; /* borrowed: gets what a plugin printed that did not start; or NULL */
};

/*
 * Start a worker, *RET, the caller's, and wait (at most start_timeout_ms) until it has loaded the
 * plugin.  Errors: as the worker says (ENOEXEC no plugin, another API), ENOENT no such file, EIO it
 * died, with what it printed last, ETIMEDOUT.  Blocks.
 */
int pf_worker_new(const struct pf_worker_config *config, struct pf_worker **ret,
		  struct pf_err *err);

/*
 * A worker of USER's own, like SHARED: the same plugin, options and sandbox; but ARENA is all that
 * it reads, and its process, its queues, its pool and its log are its own.  It has a process from
 * the first call that needs one (pf_worker_await), and as long as calls come.  SHARED, which has
 * started, and ARENA are borrowed and outlive it.  *RET is the caller's.  -ENOMEM.
 */
int pf_worker_new_own(struct pf_worker *shared, uid_t user, struct pf_arena *arena,
		      struct pf_worker **ret, struct pf_err *err);

/* The worker that WORKER, a user's own, is like; else WORKER.  Borrowed. */
const struct pf_worker *pf_worker_shared(const struct pf_worker *worker);

/* Has it no process until a call needs one? */
bool pf_worker_is_idle(struct pf_worker *worker);

/* Kill the process of the present instance (SIGKILL): calls under way fail, and the monitor
 * starts it again.  Does not wait. */
void pf_worker_restart(struct pf_worker *worker);

/*
 * Have another instance take over: the present one ends when no call is under way, or MS
 * milliseconds after the first of these calls, when those under way fail.  Calls that can wait
 * (pf_worker_await) wait for the next one meanwhile.  Nothing if it has no instance.  Does not
 * wait.
 */
void pf_worker_replace(struct pf_worker *worker, unsigned ms);

/*
 * Kill the process (SIGKILL) and wait for its end; calls under way and later ones fail.  WORKER
 * may still be used.  Blocks for some milliseconds.
 */
void pf_worker_stop(struct pf_worker *worker);

/* Stop WORKER, and free it when its last reference is dropped.  NULL is allowed. */
void pf_worker_free(struct pf_worker *worker);

/* Add a reference to WORKER; drop one.  Once it is freed, those that are left may only read its name,
 * state, error and log, and call pf_worker_restart, which does nothing. */
struct pf_worker *pf_worker_ref(struct pf_worker *worker);
void pf_worker_unref(struct pf_worker *worker); /* NULL is allowed */
PF_DEFINE_CLEANUP(struct pf_worker *, pf_worker_unref)

/* The plugin's name ("cpu"), its file, and its create options as JSON with sorted keys.  They
 * never change; borrowed. */
const char *pf_worker_name(const struct pf_worker *worker);
const char *pf_worker_path(const struct pf_worker *worker);
const char *pf_worker_options(const struct pf_worker *worker);

/* The arena of the configuration, borrowed. */
struct pf_arena *pf_worker_arena(const struct pf_worker *worker);

/* The telemetry of the configuration, and the worker's meter in it.  Each may be NULL; borrowed.
 * WORKER may be NULL. */
struct pf_telemetry *pf_worker_telemetry(const struct pf_worker *worker);
struct pf_plugin_meter *pf_worker_meter(const struct pf_worker *worker);

/* The state at this moment, and its name ("ready"; static).  Do not block. */
enum pf_worker_state pf_worker_state(struct pf_worker *worker);
const char *pf_worker_state_name(enum pf_worker_state state);

/* Does a worker in STATE do all that its plugin can do here? */
static inline bool pf_worker_state_is_well(enum pf_worker_state state)
{
	return state == PF_WORKER_READY || state == PF_WORKER_COMPILER;
}

/* Does it make sense to wait for WORKER?  0, or -EIO: its process has ended, and its starts fail; *ERR says
 * why, and what to do. */
int pf_worker_check_away(struct pf_worker *worker, struct pf_err *err);

/* Seconds for which the process of the present instance has given no heartbeat; 0 if WORKER has no
 * instance. */
unsigned pf_worker_silent_s(struct pf_worker *worker);

/* Is its plugin's client a member of a group? */
bool pf_worker_in_group(const struct pf_worker *worker);

/* Is it process 0 of that group? */
bool pf_worker_leads_group(const struct pf_worker *worker);

/* Append why WORKER has no instance at this moment, that it is silent, or why it is a compiler; else
 * nothing. */
void pf_worker_error(struct pf_worker *worker, struct pf_buf *out);

/* The process id of the present instance (0: none) and how many were started after the first. */
void pf_worker_pid(struct pf_worker *worker, pid_t *pid, unsigned *restarts);

/* How the plugin described itself at the first start; never changes.  Borrowed. */
const struct pf_description *pf_worker_description(const struct pf_worker *worker);

/* The handlers of custom calls that the latest instance has: a reference; NULL: none has started. */
struct pf_custom_calls *pf_worker_custom_calls(struct pf_worker *worker);

/* The scheduler of executions, with a queue for each device of the description.  Borrowed. */
struct pf_sched *pf_worker_sched(const struct pf_worker *worker);

/* Can WORKER's plugin do more than compile for topologies?  -EOPNOTSUPP: it has no client. */
int pf_worker_has_client(const struct pf_worker *worker, struct pf_err *err);

/* Does the plugin's API have the element type DTYPE, which is valid?  0, or -EOPNOTSUPP. */
int pf_worker_takes(const struct pf_worker *worker, enum pf_dtype dtype,
		    struct pf_err *err);

/* The log of what the worker's instances have printed; borrowed. */
struct pf_plugin_log *pf_worker_plugin_log(struct pf_worker *worker);

/* A number for a new executable or buffer: never 0, never given twice. */
uint64_t pf_worker_id(struct pf_worker *worker);

/* The present instance, a reference; NULL: WORKER has none, and ERR (EIO) says why and
 * what happens next. */
struct pf_instance *pf_worker_instance(struct pf_worker *worker, struct pf_err *err);

/* True: the worker is between two instances, or its instance is replaced, and WAITER is woken when
 * the next one has begun or failed to start.  False: it has an instance, or will have none. */
bool pf_worker_wait(struct pf_worker *worker, struct pf_wait *waiter);

/*
 * Both at once, so that no instance begins in between.  1: *RET is the present instance, a
 * reference.  0: WAITER is woken as by pf_worker_wait; call again then.  -EIO: the worker is not
 * started again, or is away (pf_worker_check_away); -EUSERS: as many users as may have a process of
 * their own have one.  Does not block.
 */
int pf_worker_await(struct pf_worker *worker, struct pf_wait *waiter,
		    struct pf_instance **ret, struct pf_err *err);

/* One reference more, and one less; the last one unmaps the pool. */
struct pf_instance *pf_instance_ref(struct pf_instance *instance);
void pf_instance_unref(struct pf_instance *instance); /* NULL is allowed */
PF_DEFINE_CLEANUP(struct pf_instance *, pf_instance_unref)

/* False once the process is known to be dead; true is a hint. */
bool pf_instance_alive(struct pf_instance *instance);

/* The same; but false also for one that another instance is to replace (pf_worker_replace), which
 * should get no new work. */
bool pf_instance_serves(struct pf_instance *instance);

/*
 * Does the plugin use bytes of the arena in place that are uploaded, as an array of DTYPE, to the default memory of
 * DEVICE, an index of the description?  The latest such upload, of bytes that it could use so, has told (IN_PLACE);
 * false before one has, and beyond the 64th device.
 */
bool pf_instance_uses_in_place(const struct pf_instance *instance, unsigned device,
			       enum pf_dtype dtype);
void pf_instance_note_in_place(struct pf_instance *instance, unsigned device,
			       enum pf_dtype dtype, bool in_place);

/* True once a page of the pool could not be read (the kernel had no memory for it, or it is
 * bad): the page reads as zeros, and the monitor ends the process. */
bool pf_instance_damaged(const struct pf_instance *instance);

/* A number from 1 on, which no other instance of any worker has, nor had in an earlier life. */
uint64_t pf_instance_number(const struct pf_instance *instance);

/* stat(2) of the plugin's file that the process has loaded; NULL: it changed meanwhile.
 * Borrowed. */
const struct stat *pf_instance_plugin(const struct pf_instance *instance);

/* The environment with which the process was started, as environ(7); borrowed. */
char *const *pf_instance_environ(const struct pf_instance *instance);

/* Objects in a worker that the daemon has ids of. */
enum pf_alive {
	PF_ALIVE_BUFFERS,
	PF_ALIVE_EXECUTABLES,
	PF_ALIVE_KINDS,
};

#define PF_NO_DEVICE UINT32_MAX

/* Count CHANGE (1, -1) more objects WHAT on DEVICE, an index of the description, or on
 * PF_NO_DEVICE.  From any thread; costs some nanoseconds. */
void pf_instance_count(struct pf_instance *instance, enum pf_alive what, unsigned device,
		       int change);

/* How many there are on DEVICE, or PF_NO_DEVICE, in the present instance of WORKER. */
unsigned pf_worker_alive(struct pf_worker *worker, enum pf_alive what, unsigned device);

/* True: the daemon itself killed the process, so no call is a suspect. */
bool pf_instance_was_stopped(const struct pf_instance *instance);

/* How many calls of OP were under way when the process died, but for those that waited for the host
 * (pf_call.n_asked); 0 while it lives. */
unsigned pf_instance_lost(struct pf_instance *instance, enum pf_op op);

/* The LEN bytes at OFF of the pool, which the process can change at any moment; none if they are not
 * inside it, as at PF_NO_OFFSET.  Readable as long as INSTANCE is referenced, also when the process is dead. */
struct pf_shared_bytes pf_instance_pool(struct pf_instance *instance, uint64_t off,
					uint64_t len);

/* As pf_instance_pool for the bytes of an array, which are only handed on: no length, count or offset is among
 * them.  NULL: they are not inside. */
const void *pf_instance_array(struct pf_instance *instance, uint64_t off, uint64_t len);

/*
 * The instance of an earlier life, dead, whose pool was kept (pf_shm_keep) as NAME in FD, which
 * stays the caller's: *RET, a reference, with which its results can be read.  NULL: NAME is not a
 * pool's, or the journal does not know the pool, which is then forgotten (pf_shm_forget).
 * 0; -EINVAL: FD is shorter than the journal says; -ENOMEM.  Does not block.
 */
int pf_instance_of_pool(const char *name, int fd, struct pf_instance **ret,
			struct pf_err *err);

/*
 * A value has its bytes at OFF of the pool, until pf_instance_drop.  Without memory to note it, the
 * pool keeps the pages of what is dropped.  Does not block.
 */
void pf_instance_hold(struct pf_instance *instance, uint64_t off);

/*
 * INSTANCE is dead: ten seconds later at the earliest, what lies beyond all that pf_instance_pool gave
 * takes no address space any more.  Once.
 */
void pf_instance_rest(struct pf_instance *instance);

/*
 * A value no longer has its LEN bytes at OFF of the pool.  If no value has bytes at OFF now, and the
 * process is dead, so that it cannot use them either, their whole pages are returned to the system,
 * which takes about 0.1 ms for each MiB.
 */
void pf_instance_drop(struct pf_instance *instance, uint64_t off, uint64_t len);

/* Free a block of the pool that a reply gave.  Does not block. */
void pf_instance_free_block(struct pf_instance *instance, uint64_t off);

/* Free a buffer or an executable: PF_OP_BUFFER_FREE, PF_OP_EXECUTABLE_FREE.  Does not block. */
void pf_instance_free_id(struct pf_instance *instance, enum pf_op op, uint64_t id);

/* A call under way: embedded in a struct of the caller's, which lives until done. */
struct pf_call {
	/*
	 * The answer, once: CODE 0 and the reply (LEN bytes, checked to be a whole reply of
	 * the request's op and at least reply_min bytes; borrowed during the call), or CODE < 0
	 * and *ERR: the plugin's failure, or -EIO with what the worker printed last since the
	 * call began.  On any thread, without locks.  Must not block.
	 */
	void (*done)(struct pf_call *call, int code, const struct pf_err *err,
		     const void *reply, size_t len);
	size_t reply_min; /* bytes of a successful reply, at least */

	/*
	 * For PF_OP_EXECUTE, or NULL: then callbacks of the program fail (callback.h).
	 * hold: a reference on what CALL is embedded in, so that asked may come after done; called
	 *       with the instance's lock held (rank 8).  NULL: the invocation fails.
	 * asked: the program calls the host.  Takes the reference that hold gave, HELD, and owns
	 *       INVOCATION.  On any thread, without locks.  Must not block.
	 */
	void *(*hold)(struct pf_call *call);
	void (*asked)(void *held, struct pf_invocation *invocation);

	/* It transfers an array of so many bytes to or from a device, which has a time limit. */
	bool transfers;
	uint64_t bytes;

	/* The engine's.  done may read n_asked: invocations that wait; and overran: the process was
	 * ended because the call took too long. */
	unsigned n_asked;
	bool overran;
	uint64_t tag;
	uint64_t mark; /* of the plugin log, when the call began */
	uint32_t op;
	uint32_t began_s; /* by the instance's seconds */
};

/*
 * Send REQUEST (LEN bytes, which begin with a struct pf_msg_head whose op is set; this sets its
 * len and tag) and TAIL; CALL->done gets the answer.  Does not block.
 * 0; on -errno (EIO dead, EBUSY too much under way) CALL->done is not called.
 */
int pf_instance_call(struct pf_instance *instance, struct pf_call *call, void *request,
		     size_t len, const void *tail, size_t tail_len, struct pf_err *err);

/* The seconds that INSTANCE may take to copy an array of BYTES to or from a device
 * (--transfer-timeout, and a second for each 8 MiB); 0: no limit. */
uint64_t pf_instance_transfer_s(const struct pf_instance *instance, uint64_t bytes);

/*
 * FN(ARG, CALL, SECONDS) for the oldest of INSTANCE's transfers under way that have taken more than a
 * sixtieth of the time that they may take, or may by default, if there is one; with the instance's lock held
 * (rank 8).
 */
void pf_instance_slowest_transfer(struct pf_instance *instance,
				  void (*fn)(void *arg, struct pf_call *call,
					     unsigned seconds),
				  void *arg);

/* Take replies on the calling thread until *DONE becomes true or US microseconds have
 * passed: saves a wake-up if the reply comes soon. */
void pf_instance_spin(struct pf_instance *instance, const _Atomic bool *done,
		      unsigned us);

/* A synchronous call: the calling thread waits for the answer, but not for ever. */
struct pf_sync_call {
	struct pf_instance *instance; /* borrowed */
	void *request; /* as pf_instance_call; a struct pf_req_id, or begins like one */
	size_t len;
	const void *tail;
	size_t tail_len;
	size_t reply_more; /* bytes that are taken of a reply beyond those it must have */
	unsigned timeout_s; /* 0: no limit */
	/* TICK(TICK_ARG) is called each TICK_MS milliseconds while the caller waits.  May be NULL. */
	void (*tick)(void *arg);
	void *tick_arg;
	unsigned tick_ms;
	/* The call only shows what the worker knows: it is -ETIMEDOUT at once if another such call
	 * had no answer in time, and the worker has answered none since. */
	bool brief;
	/* A struct pf_req_id alone: the worker gets it after all frees before it. */
	bool in_order;
	/* -ETIMEDOUT leaves the call under way: the next one of this op and id that keeps gets its
	 * answer, or waits for it.  A failure that no caller waits for is dropped. */
	bool keeps;
	/* DROP(KEPT) is called when the worker no longer reads what the request names in the
	 * arena, also on failure.  May be NULL. */
	void *kept;
	void (*drop)(void *kept);
	/* Counts the calls that timed out, until the worker answers; may be NULL.  Outlives the
	 * worker. */
	_Atomic unsigned *n_given_up;

	bool sent;        /* out: the worker has the request */
	size_t reply_len; /* out: bytes that were taken of the reply */
};

/*
 * Call, and wait for the answer: 0, with the reply, which has REPLY_MIN bytes or more, at REPLY;
 * the failure, as pf_instance_call; -ETIMEDOUT: what the worker makes for the call later is freed
 * there, unless the call keeps.  Blocks.
 */
int pf_sync_call(struct pf_sync_call *call, void *reply, size_t reply_min,
		 struct pf_err *err);

/*
 * Ask the request OP (PF_OP_TOPOLOGY, PF_OP_MEMORY_STATS, PF_OP_GROUP) for ID, with CALL's tail, and
 * append the answer, a text or bytes, to OUT.  CALL's request is set here.  Errors as pf_sync_call;
 * -EPROTO: it has more than 1 MiB, or is not in the pool; -ENOMEM.  Blocks.
 */
int pf_sync_ask(struct pf_sync_call *call, enum pf_op op, uint64_t id, struct pf_buf *out,
		struct pf_err *err);

/* The same of WORKER's instance, briefly: within SECONDS.  ERR is not NULL. */
int pf_worker_ask(struct pf_worker *worker, enum pf_op op, uint64_t id, unsigned seconds,
		  struct pf_buf *out, struct pf_err *err);

/* The same of a request that is answered by a struct pf_rep_head alone (PF_OP_CLEAR_STATS). */
int pf_worker_tell(struct pf_worker *worker, enum pf_op op, uint64_t id, unsigned seconds,
		   struct pf_err *err);

/*
 * Wait until the process of WORKER, if it has one, has freed what it was asked to free before, and
 * the log has the lines that it printed before.  -ETIMEDOUT: it does not answer within SECONDS, or
 * did not the last time either.  Blocks.
 */
int pf_worker_settle(struct pf_worker *worker, unsigned seconds, struct pf_err *err);

/*
 * Load a plugin to see what it is, in a worker of its own: CONFIG's, without arena, pool and
 * telemetry; start_timeout_ms is also the limit of each call.  RUN: have it compile and execute
 * a program, too.
 * ret   the worker's description (pf_description.json), the caller's; with RUN also program
 *       {"device", "compile_seconds", "execute_seconds", "result"}, and if the plugin makes no
 *       client, what it describes without one.  NULL if it was not loaded
 * Errors: as pf_worker_new; ETIMEDOUT; with RUN the plugin's failure, EIO for a wrong result:
 * then *RET is set nevertheless.  Blocks; the worker is gone when it returns.
 */
int pf_inspect(const struct pf_worker_config *config, bool run, struct json_object **ret,
	       struct pf_err *err);

/*
 * Load a plugin and its FFI libraries likewise, without a client, which may need the devices for
 * itself, and see whether programs could call all handlers of LIBRARY, which is one of CONFIG's.
 * Errors: as pf_worker_new and pf_custom_calls_check.  Blocks.
 */
int pf_inspect_library(const struct pf_worker_config *config,
		       const struct pf_library *library, struct pf_err *err);

#endif
