/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_WORKER_INTERNAL_H
#define PJRTFS_WORKER_INTERNAL_H

#include <json-c/json.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pjrtfs/base.h"
#include "pjrtfs/pjrt.h"
#include "pjrtfs/wire.h"

struct pjrtfs_ffi_target;

/*
 * Handlers of custom calls.  Load the FFI libraries of LIST, the set-up text's (see
 * pf_libraries_json in src/engine/internal.h), from FDS, one each, which stay the caller's and open
 * until this returns, and register their handlers.  Called once, between pf_sandbox_enter and
 * pf_sandbox_loaded.  A handler that the plugin does not take, or that has the target of an earlier
 * one, is noted.  -ENOEXEC: a library is not what the owner said.
 */
int pf_ffi_load(const struct pj_plugin *plugin, struct json_object *list, const int *fds,
		struct pf_err *err);

/* Load what libraries of LIST could need that their files do not have, before the sandbox is entered;
 * LIST may be NULL. */
void pf_ffi_prepare(struct json_object *list);

/* Register a handler of the worker's own, after those of the libraries, which have precedence. */
void pf_ffi_add(const struct pj_plugin *plugin, const struct pjrtfs_ffi_target *target);

/* Add "custom_calls", a list of [target, index of the library or -1, why programs cannot call it],
 * and "libraries", a list of reasons why one has no handlers, or null, to DESCRIPTION. */
void pf_ffi_describe(struct json_object *description);

/*
 * The pool: a memfd that the worker writes and the daemon reads.  Two kinds of blocks lie in it:
 * those that the worker makes for the daemon (texts, copies of buffers), named by their offset and
 * freed by its request; and, if allocation is interposed, the plugin's own allocations beyond a
 * page, so that results need no copying and survive this process.
 *
 * There is one pool per process, since malloc has no argument to name another.  Every function is
 * safe from any thread and calls no malloc.
 */

enum {
	PF_POOL_SMALL = 4096,    /* bytes beyond which a plugin's allocation lies here */
	PF_POOL_LARGE = 1 << 20, /* bytes from which a block is a large one */
};

/*
 * Map the pool behind FD, SIZE bytes (FD stays the caller's), and start its heap's thread.  Once,
 * before any other function here.  -EINVAL: the file is shorter, or SIZE below 128 MiB; -errno.
 */
int pf_pool_setup(int fd, uint64_t size, struct pf_err *err);

/* Serve the plugin's large allocations from the pool as soon as it is set up, unless this build
 * does not interpose allocation (sanitizers do). */
void pf_pool_interpose(void);

/* True if the LEN bytes at P lie in the pool; *OFF becomes their offset. */
bool pf_pool_holds(const void *p, uint64_t len, uint64_t *off);

/* The address of offset OFF. */
void *pf_pool_at(uint64_t off);

/*
 * Make a block of LEN bytes for the daemon (0 counts as 1), 4 KiB aligned, contents
 * undefined; *OFF is its offset.  -ENOSPC: the pool or the machine's memory is full.
 */
int pf_pool_block(uint64_t len, uint64_t *off, struct pf_err *err);

/* Free a block that pf_pool_block made.  False: none is at OFF. */
bool pf_pool_block_free(uint64_t off);

/*
 * For malloc's family.  take: LEN bytes, 4 KiB aligned, from PF_POOL_LARGE on 2 MiB; NULL if
 * the pool is full, or, with *FULL set, the machine's memory.  give: free an allocation of take; P
 * must be in the pool, and any other address in it aborts.  usable: the bytes of P's allocation.
 */
void *pf_pool_take(size_t len, bool *full);
void pf_pool_give(void *p);
size_t pf_pool_usable(const void *p);

/* Bounds of the mapping, for pf_pool_owns, which free(3) calls: 0 before pf_pool_setup. */
extern uintptr_t pf_pool_base;
extern size_t pf_pool_size;

static inline bool pf_pool_owns(const void *p)
{
	return (uintptr_t)p - pf_pool_base < pf_pool_size;
}

/*
 * The daemon's objects in this worker: buffers and executables by id, numbered apart: both may have
 * an object 7.  The table has one reference, every request that uses an object another, so that an
 * object may be freed while requests use it and is destroyed after the last one.
 */

enum pf_object_kind {
	PF_NO_OBJECT,
	PF_OBJECT_BUFFER,
	PF_OBJECT_EXECUTABLE,
	PF_OBJECT_KINDS
};

struct pf_object {
	enum pf_object_kind kind;
	atomic_uint refs;
	const struct pj_plugin *plugin; /* borrowed */
	/* A buffer. */
	struct PJRT_Buffer *buffer; /* owned */
	enum pf_dtype dtype;
	uint64_t len;            /* host bytes */
	struct pf_layout layout; /* of its elements on the device */
	/* An executable. */
	struct pj_executable *executable; /* owned */
};

struct pf_objects {
	pthread_mutex_t lock; /* rank 3; protects maps */
	struct pf_map
		maps[PF_OBJECT_KINDS]; /* id to struct pf_object, one reference each */
};

void pf_objects_init(struct pf_objects *objects);

/*
 * A new object as WITH, with one reference, the caller's.  Its handle is given: it is destroyed
 * with the object, and also if this returns NULL for lack of memory.
 */
struct pf_object *pf_object_new(const struct pf_object *with);

/* Add a reference; drop one.  The last one destroys. */
struct pf_object *pf_object_ref(struct pf_object *object);
void pf_object_unref(struct pf_object *object); /* NULL is allowed */
PF_DEFINE_CLEANUP(struct pf_object *, pf_object_unref)

/*
 * Put N objects of one kind into the table under IDS, all or none; the table takes a
 * reference of its own on each.  -EPROTO: an id is 0 or in use; -ENOMEM.
 */
int pf_objects_put(struct pf_objects *objects, const uint64_t *ids,
		   struct pf_object *const *put, size_t n, struct pf_err *err);

/*
 * The N objects of KIND under IDS, each with a reference that becomes the caller's; all
 * or none.  -ENOENT: one does not exist; the sentence has its id.
 */
int pf_objects_get(struct pf_objects *objects, const uint64_t *ids, size_t n,
		   enum pf_object_kind kind, struct pf_object **ret, struct pf_err *err);

/* Take the object of KIND under ID out of the table, if there is one. */
void pf_objects_remove(struct pf_objects *objects, uint64_t id, enum pf_object_kind kind);

/*
 * The group: the processes, most on other machines, whose plugins make one client together.  There is
 * one for each worker process, none without the set-up text's "group".  Each member has a key that
 * it prolongs; it watches those of the others.  Whoever loses one ends.
 */

/* Read SETTINGS, the set-up text's (src/daemon/group.c has the members), and log in to the store, before
 * the sandbox is entered.  NULL: not in a group.  -EPROTO; else as pf_kv_load, and open of its table. */
int pf_group_open(struct json_object *settings, struct pf_err *err);

/* Take this process's number in the group, start the thread that keeps it, and wait until all members
 * are there.  *RET is the store for the plugin; NULL: no group.  -EEXIST: another process has the
 * number; -ETIMEDOUT: some are missing; the sentences name them. */
int pf_group_join(const struct pj_store **ret, struct pf_err *err);

/* CLIENT, borrowed, is the client that the group has made.  -EOPNOTSUPP: the plugin has ignored the
 * group, and shows no device of another process. */
int pf_group_made(const struct pj_client *client, struct pf_err *err);

/* The daemon ends this process in order: the others see that.  Blocks for a second at most. */
void pf_group_leave(void);

/*
 * What members say to each other: a TEXT under a KEY, once, for --group-lost seconds.  With WAIT the
 * store may be away for up to --group-timeout, else it is asked once.  -EEXIST: KEY has a text; -EIO,
 * -EACCES; -EPROTO: not in a group.
 */
int pf_group_put(const char *key, const char *text, bool wait, struct pf_err *err);

/* Append the text of KEY to RET, waiting for it up to TIMEOUT_MS: -ETIMEDOUT, else as pf_group_put. */
int pf_group_get(const char *key, int timeout_ms, struct pf_buf *ret, struct pf_err *err);
void pf_group_drop(const char *key);

/* A request has failed with ERR.  If the group has ended, that is why: the plugin knows no better. */
void pf_group_explain(struct pf_err *err);

/* Has member NUMBER ended in order? */
bool pf_group_has_ended(unsigned number);

/* The members, plugins/NAME/processes.json; the caller's; NULL: no memory, or no group. */
struct json_object *pf_group_json(void);

/* Descriptions for the daemon, in JSON. */

/*
 * The answer to the set-up text: {"ok": true, "api_version", "platform",
 * "platform_version", "process_index", "attributes", "extensions", "devices"}; without a CLIENT
 * (NULL) no platform, and no devices; of one that is none (pj_client_none), with "compiler", why.  The caller's; NULL: no memory.
 */
struct json_object *pf_describe(const struct pj_plugin *plugin,
				const struct pj_client *client);

/* The same for a failure: {"ok": false, "errno", "error"}. */
struct json_object *pf_describe_failure(const struct pf_err *err);

/*
 * A program's facts: pf_rep_compile's INFO without "optimized_program".  The caller's; NULL: no
 * memory.
 */
struct json_object *pf_describe_executable(const struct pj_executable *executable);

/* The value of a fact that the plugin does not offer: {"unavailable": sentence}. */
struct json_object *pf_describe_unavailable(const struct pf_err *err);

/* Callbacks: programs' calls of the host, whose handlers wait for the daemon's answer. */

struct pf_callbacks {
	bool on; /* the plugin has what they need: each execution has a context */
	pthread_mutex_t lock;  /* rank 3; protects the fields below */
	struct pf_map waiting; /* invocations by number, borrowed */
	uint64_t last;         /* number */
};

/* The data of an execution's context (pj_context_new): the execution that calls. */
struct pf_caller {
	struct pf_server *server;
	uint64_t tag; /* of its request */
};

/* This process, of which the daemon's struct pf_worker knows: a plugin's client, and the daemon's
 * objects. */

struct pf_server {
	struct pf_channel channel;
	const char *arena; /* mapping, read-only; the users' bytes */
	uint64_t arena_size;
	const char *name;         /* borrowed: the plugin's */
	struct pj_plugin *plugin; /* owned */
	struct pj_client *client; /* owned */
	struct pf_objects objects;
	struct pf_callbacks callbacks;
	pthread_mutex_t take; /* rank 2; held to take a request, and to free in order */
	atomic_uint threads;  /* threads that serve */
	unsigned max_threads;
	atomic_uint idle; /* of them, those that wait for a request */
};

/* A request being answered, by one thread. */
struct pf_work {
	struct pf_server *server;
	const void *message; /* starts with struct pf_msg_head; 64-byte aligned */
	size_t len;          /* its bytes; head.len says the same */
	char *reply;         /* room for PF_RING_MESSAGE bytes, 64-byte aligned */
	size_t reply_len; /* bytes of the reply, which are zeros before the handler runs */
	/* References, dropped after the handler: what the request names, and what it makes. */
	struct pf_object *named, *made;
};

/*
 * Answer one kind of request, whose size was checked: check every field of the message, do it,
 * write the reply without its pf_rep_head, and set reply_len if the reply is not one fixed
 * struct.  0, or -errno with *ERR filled, -EPROTO for a message that no daemon of this build
 * sends; then the reply is the error.
 */
typedef int pf_handler(struct pf_work *work, struct pf_err *err);
pf_handler pf_handle_compile;
pf_handler pf_handle_serialize;
pf_handler pf_handle_load;
pf_handler pf_handle_execute;
pf_handler pf_handle_buffer_create;
pf_handler pf_handle_buffer_copy;
pf_handler pf_handle_buffer_make;
pf_handler pf_handle_buffer_read;
pf_handler pf_handle_send;
pf_handler pf_handle_receive;
pf_handler pf_handle_memory_stats;
pf_handler pf_handle_clear_stats;
pf_handler pf_handle_topology;
pf_handler pf_handle_group;
pf_handler pf_handle_optimized;
pf_handler pf_handle_callback_answer;
pf_handler pf_handle_free; /* of the three requests that free */

/*
 * The transfer ID of a PF_OP_SEND or PF_OP_RECEIVE has come, whose handler runs later; it is cancelled,
 * unless the two members have met.  Both are called in the order of the requests.
 */
void pf_cross_host_expect(uint64_t id);
void pf_cross_host_cancel(uint64_t id);

/* Register the handlers of callbacks, after those of the libraries. */
void pf_callbacks_set_up(struct pf_server *server);

/*
 * Send a MESSAGE of LEN bytes to the daemon.  Blocks while the ring is full, which is not for long:
 * the daemon takes messages without waiting for anything.
 */
void pf_server_post(struct pf_server *server, const void *message, size_t len);

/* Send JSON, which is given, to the daemon on the socket of the set-up.  Blocks. */
int pf_server_send(struct json_object *json, struct pf_err *err);

/* Print WHY this process ends, and send it likewise.  Returns the exit status, 1. */
int pf_server_fail(const struct pf_err *why);

/* Print WHY and end the process. */
void __attribute__((__noreturn__)) pf_server_give_up(const char *why);

/*
 * Fill *OUT with the type of the buffer OBJECT and the place where the daemon finds its bytes: in
 * the pool, or only on the device; an array without bytes is PF_WHERE_INLINE at 0.
 */
void pf_server_location(const struct pf_object *object, struct pf_out *out);

/* Check the fields that all requests for a new array use (struct pf_req_buffer): its place, shape and
 * layout.  -EPROTO. */
int pf_server_check_new(const struct pf_work *work, struct pj_place *place,
			struct pf_shape *shape, struct pf_layout *layout,
			struct pf_err *err);

/* Publish BUFFER, which is given, under ID, and write the struct pf_rep_array that describes it. */
int pf_server_answer_array(struct pf_work *work, uint64_t id, struct PJRT_Buffer *buffer,
			   enum pf_dtype dtype, uint64_t len,
			   const struct pf_layout *layout, struct pf_err *err);

/* Copy the bytes of the buffer OBJECT to DST, which has room for them, in row-major order.  Blocks. */
int pf_server_copy_out(const struct pf_object *object, void *dst, struct pf_err *err);

/*
 * Copy the bytes of the buffer OBJECT into a new block of the pool; its offset.  -ENOSPC, or why
 * the plugin does not give them.  Blocks.
 */
int pf_server_read(const struct pf_object *object, uint64_t *off, struct pf_err *err);

/* The LEN bytes at offset OFF of the arena, or NULL if it does not reach that far. */
static inline const void *pf_server_arena(const struct pf_server *server, uint64_t off,
					  uint64_t len)
{
	if (off > server->arena_size || len > server->arena_size - off)
		return NULL;
	return server->arena + off;
}

/*
 * Serve requests with some threads, more when all are busy, until the daemon closes the channel or
 * hangs up.  Does not return if all goes well.
 */
int pf_server_run(struct pf_server *server, struct pf_err *err);

#endif
