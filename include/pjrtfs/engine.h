/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_ENGINE_H
#define PJRTFS_ENGINE_H

#include <json-c/json.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "pjrtfs/array.h"
#include "pjrtfs/base.h"
#include "pjrtfs/scheduler.h"
#include "pjrtfs/shm.h"
#include "pjrtfs/telemetry.h"
#include "pjrtfs/wait.h"
#include "pjrtfs/wire.h"

struct pf_instance;
struct pf_plugin_log;
struct pf_worker;

/* What a plugin told of itself, its devices and their memories. */

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
	unsigned n_devices;
	struct pf_device_desc *devices; /* owned */
};

/*
 * Read a worker's answer.  ret is filled on success; pf_description_release.
 * Errors: the answer's own errno and sentence if it says "ok": false; EPROTO if it is not
 * such a text: the worker is not trusted.
 */
int pf_description_parse(const char *text, size_t len, struct pf_description *ret,
			 struct pf_err *err);

/*
 * Is memory MEMORY (UINT32_MAX: the default one) of device DEVICE, both indexes, the host's?
 * True of every memory of a plugin whose devices are the host's processors, and of kinds
 * such as "pinned_host".
 */
bool pf_description_is_host(const struct pf_description *description, unsigned device,
			    unsigned memory);

/* Free what it holds; all zeros is allowed. */
void pf_description_release(struct pf_description *description);

/* A meter of TELEMETRY (may be NULL) for the plugin NAME that told this; NULL: there is none. */
struct pf_plugin_meter *pf_description_meter(const struct pf_description *description,
					     struct pf_telemetry *telemetry,
					     const char *name);

/*
 * A scheduler with a queue for each device of DESCRIPTION; NULL: no memory.  A plugin whose
 * devices are this host's processors executes on the worker's threads, so it gets as many
 * requests at a time as there are processors; other plugins queue requests for the device, and
 * need the next one before the device is idle.
 */
struct pf_sched *pf_description_sched(const struct pf_description *description);

/*
 * The plugin log: the lines that a plugin's worker prints, of all its instances.
 *
 * A bounded log has every line; it is read like a file.  The daemon's own log gets at most
 * PF_PLUGIN_LOG_BURST lines in PF_PLUGIN_LOG_PERIOD_MS and then the number of the others, because
 * a plugin may print hundreds of kilobytes for one bad program, or for ever.
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
 * A plugin's worker process, as the daemon sees it.
 *
 * A worker is started, watched, started again when it dies, and asked.  One run of the
 * process is a life: handles (ids of executables and buffers, memory of the pool) belong to
 * the life that made them and mean nothing to the next one.
 */

enum pf_worker_state {
	PF_WORKER_STARTING,
	PF_WORKER_READY,
	PF_WORKER_RESTARTING,
	PF_WORKER_FAILED, /* it died too often, or another plugin came back */
};

/* What it takes to start one.  Everything is copied. */
struct pf_worker_config {
	const char *name;            /* the plugin's: "cpu" */
	const char *path;            /* of the plugin's .so */
	const char *program;         /* path of pjrtfs-worker */
	struct json_object *options; /* create options, or NULL */
	struct json_object *env; /* variables for the process: to a string, or to null for
				    none, whatever the daemon has; or NULL */
	/*
	 * {"sandbox": "strict", "device" or "off", "sandbox_read", "sandbox_write": lists of
	 * paths, "sandbox_uid"}: what the process may do, see src/worker/internal.h; each may be
	 * missing, or all of it NULL.  Where no mode is said it is strict, and if the plugin does
	 * not start in that, device.
	 */
	struct json_object *sandbox;
	struct pf_arena *arena; /* borrowed; outlives the worker */
	uint64_t pool_size;     /* bytes of address space for its outputs */
	/* Borrowed; outlives the worker.  NULL: nobody is told anything, nor the daemon's log
	 * what it prints. */
	struct pf_telemetry *telemetry;
	int start_timeout_ms; /* for loading the plugin; 0: two minutes */
};

/* The path of pjrtfs-worker into DST (LEN bytes): beside this program in a build tree, else
 * where it was installed.  Does not block. */
void pf_worker_program(char *dst, size_t len);

/*
 * Start a worker and wait (at most CONFIG's time) until it has loaded the plugin.
 * ret   on success, the caller's; pf_worker_free
 * Errors: the worker's own sentence (ENOEXEC no plugin, another API), ENOENT no such
 * file, EIO it died, with what it printed last, ETIMEDOUT.  Blocks.
 */
int pf_worker_new(const struct pf_worker_config *config, struct pf_worker **ret,
		  struct pf_err *err);

/* Have the process ended, by another thread: pf_worker_stop without waiting. */
void pf_worker_interrupt(struct pf_worker *worker);

/* End the present life's process (SIGKILL): calls under way fail, and it is started again.
 * Does not wait. */
void pf_worker_restart(struct pf_worker *worker);

/*
 * End the process (SIGKILL) and wait for it; calls under way and later ones fail.  What
 * refers to the worker may still be used.  Blocks for some milliseconds.
 */
void pf_worker_stop(struct pf_worker *worker);

/* Stop it and free it; nothing may refer to it any more.  NULL is allowed. */
void pf_worker_free(struct pf_worker *worker);

/* The plugin's name ("cpu") and its file, borrowed for the worker's life. */
const char *pf_worker_name(const struct pf_worker *worker);
const char *pf_worker_path(const struct pf_worker *worker);

/* Its create options as JSON with sorted keys, which never change; borrowed for the worker's
 * life. */
const char *pf_worker_options(const struct pf_worker *worker);

/* The arena that it was started with, borrowed. */
struct pf_arena *pf_worker_arena(const struct pf_worker *worker);

/* Who is told of what happens, or NULL; and its meter, which may be NULL.  Borrowed.  WORKER
 * may be NULL. */
struct pf_telemetry *pf_worker_telemetry(const struct pf_worker *worker);
struct pf_plugin_meter *pf_worker_meter(const struct pf_worker *worker);

/* The state at this moment, and its name ("ready"; static).  Do not block. */
enum pf_worker_state pf_worker_state(struct pf_worker *worker);
const char *pf_worker_state_name(enum pf_worker_state state);

/* Append why there is no life at this moment; nothing if there is one. */
void pf_worker_error(struct pf_worker *worker, struct pf_buf *out);

/* The process id of the present life (0: none) and how many lives ended before it. */
void pf_worker_pid(struct pf_worker *worker, pid_t *pid, unsigned *restarts);

/* What the plugin told of itself at the first start; never changes.  Borrowed. */
const struct pf_description *pf_worker_description(const struct pf_worker *worker);

/* Who executes next on its devices, by their indexes in the description.  Borrowed. */
struct pf_sched *pf_worker_sched(const struct pf_worker *worker);

/* Does the plugin know element type DTYPE, which is valid?  0, or -EOPNOTSUPP. */
int pf_worker_takes(const struct pf_worker *worker, enum pf_dtype dtype,
		    struct pf_err *err);

/* What its lives have printed, to be read; borrowed. */
struct pf_plugin_log *pf_worker_plugin_log(struct pf_worker *worker);

/* A number for a new executable or buffer: never 0, never given twice. */
uint64_t pf_worker_id(struct pf_worker *worker);

/*
 * The present life, with a reference, or NULL with *err set (EIO) when there is none: the
 * sentence says why and what happens next.
 */
struct pf_instance *pf_worker_instance(struct pf_worker *worker, struct pf_err *err);

/*
 * If the worker is between two lives, have WAITER woken when the next one has begun (or an
 * attempt failed), and return true.  False: there is a life, or there will be none.
 */
bool pf_worker_wait(struct pf_worker *worker, struct pf_wait *waiter);

/*
 * Both at once, so that no life begins between the question and the wait.  1: *RET is the
 * present life, a reference.  0: WAITER is woken as by pf_worker_wait; ask again then.  -EIO:
 * the worker is not started again, *err says why.  Does not block.
 */
int pf_worker_await(struct pf_worker *worker, struct pf_wait *waiter,
		    struct pf_instance **ret, struct pf_err *err);

/* One reference more, and one less; the last one unmaps the pool. */
struct pf_instance *pf_instance_ref(struct pf_instance *instance);
void pf_instance_unref(struct pf_instance *instance); /* NULL is allowed */
PF_DEFINE_CLEANUP(struct pf_instance *, pf_instance_unref)

/* False once its process is known to be dead; true is a hint. */
bool pf_instance_alive(struct pf_instance *instance);

/*
 * True once a page of its pool could not be read (the system had no memory for it, or it is
 * bad): zeros stand there now, and the life is being ended.
 */
bool pf_instance_damaged(const struct pf_instance *instance);

/*
 * Has the worker left a question unanswered that somebody has given up waiting for
 * (pf_instance_set_silent), and answered nothing since?  Then who only wants to look need not ask.
 */
bool pf_instance_silent(const struct pf_instance *instance);
void pf_instance_set_silent(struct pf_instance *instance);

/* Its number, which no other life of any worker of this daemon has; from 1 on. */
uint64_t pf_instance_number(const struct pf_instance *instance);

/*
 * What stat(2) told of the plugin's file when this life loaded it; NULL: it changed just
 * then.  Borrowed for the life.
 */
const struct stat *pf_instance_plugin(const struct pf_instance *instance);

/* The environment that its process was started with, as environ(7); borrowed for the life. */
char *const *pf_instance_environ(const struct pf_instance *instance);

/* What lives in a worker, of those that we have handles of. */
enum pf_alive {
	PF_ALIVE_BUFFERS,
	PF_ALIVE_EXECUTABLES,
	PF_ALIVE_KINDS,
};

/*
 * CHANGE (1, -1) more are alive on DEVICE, an index of the worker's; PF_NO_DEVICE: on the
 * plugin, whatever device.  From any thread; costs some nanoseconds.
 */
#define PF_NO_DEVICE UINT32_MAX
void pf_instance_count(struct pf_instance *instance, enum pf_alive what, unsigned device,
		       int change);

/* How many are alive on DEVICE, or on the plugin, in the present life of WORKER. */
unsigned pf_worker_alive(struct pf_worker *worker, enum pf_alive what, unsigned device);

/* The daemon itself ended the process (pf_worker_restart), so no call is a suspect. */
bool pf_instance_was_stopped(const struct pf_instance *instance);

/* How many calls of OP were under way when it died; 0 while it lives. */
unsigned pf_instance_lost(struct pf_instance *instance, enum pf_op op);

/* Address of LEN bytes at OFF in the life's pool, or NULL if they are not inside it.
 * Readable as long as the life is referenced, also when the process is dead. */
const void *pf_instance_pool(const struct pf_instance *instance, uint64_t off,
			     uint64_t len);

/* Free a block of the pool that a reply gave.  Does not block. */
void pf_instance_free_block(struct pf_instance *instance, uint64_t off);

/* Free a buffer or an executable (PF_OP_BUFFER_FREE, PF_OP_EXECUTABLE_FREE). */
void pf_instance_free_id(struct pf_instance *instance, enum pf_op op, uint64_t id);

/* A call under way: embedded in the caller's own struct, which lives until done. */
struct pf_call {
	/*
	 * The answer, once: CODE 0 and the reply (LEN bytes, checked to be a whole reply of
	 * the request's op, at least REPLY_MIN bytes; borrowed during the call), or CODE < 0
	 * and *ERR: the plugin's failure, or -EIO with the worker's last words since the call
	 * began.  On any thread; no lock is held.  Must not block.
	 */
	void (*done)(struct pf_call *call, int code, const struct pf_err *err,
		     const void *reply, size_t len);
	size_t reply_min; /* bytes of a successful reply, at least */
	uint64_t tag;     /* the engine's */
	uint64_t mark; /* the engine's: what the worker prints later, it prints since */
	uint32_t op;   /* the engine's */
};

/*
 * Send REQUEST (LEN bytes, which begin with a struct pf_msg_head whose op is set; its len
 * and tag are filled in here) and TAIL; CALL->done tells the answer.  Does not block.
 * 0; on -errno (EIO dead, EBUSY too much under way) CALL->done is not called.
 */
int pf_instance_call(struct pf_instance *instance, struct pf_call *call, void *request,
		     size_t len, const void *tail, size_t tail_len, struct pf_err *err);

/*
 * Take answers on the calling thread until *DONE becomes true or US microseconds have
 * passed: saves a wake-up when an answer is near.
 */
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
	/* What the request names in the arena: DROP(KEPT) is called when the worker reads it no
	 * more, also on failure.  May be NULL. */
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
 * there.  Blocks.
 */
int pf_sync_call(struct pf_sync_call *call, void *reply, size_t reply_min,
		 struct pf_err *err);

/* Loading a plugin only to see what it is, in a worker of its own. */

/* What to look at; all is borrowed for the call. */
struct pf_inspect_config {
	const char *name;                  /* the plugin's: "cpu" */
	const char *path;                  /* of the plugin's .so */
	const char *program;               /* path of pjrtfs-worker */
	struct json_object *options, *env; /* as in struct pf_worker_config, or NULL */
	struct json_object *sandbox;       /* likewise */
	int timeout_ms; /* for loading it, and for each thing that it is asked */
	bool run;       /* have it compile and execute a program, too */
};

/*
 * Load the plugin and make a client.
 * ret   what it tells of itself, the caller's (json_object_put): api_version [0, 81],
 *       platform, platform_version, attributes, extensions, extension_details, functions,
 *       devices with their memories; with RUN also program {"device", "compile_seconds",
 *       "execute_seconds", "result"}.  NULL if it was not loaded.
 * Errors: as pf_worker_new; ETIMEDOUT; with RUN what the plugin failed with, EIO for a wrong
 * result: then *RET is set all the same.  Blocks; the worker is gone when it returns.
 */
int pf_inspect(const struct pf_inspect_config *config, struct json_object **ret,
	       struct pf_err *err);

#endif
