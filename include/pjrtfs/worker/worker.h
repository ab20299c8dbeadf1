/* SPDX-License-Identifier: Apache-2.0 */
/* One worker process: a plugin's client, and what the daemon made with it. */
#ifndef PJRTFS_WORKER_WORKER_H
#define PJRTFS_WORKER_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "pjrtfs/base/err.h"
#include "pjrtfs/pjrt/client.h"
#include "pjrtfs/wire/channel.h"
#include "pjrtfs/wire/message.h"
#include "pjrtfs/worker/objects.h"

struct pf_worker {
	struct pf_channel channel;
	const char *arena; /* mapping, read-only; the users' bytes */
	uint64_t arena_size;
	struct pj_plugin *plugin; /* owned */
	struct pj_client *client; /* owned */
	struct pf_objects objects;
	pthread_mutex_t take; /* rank 2; held to take a request, and to free in order */
	atomic_uint threads;  /* that serve */
	unsigned max_threads;
	atomic_uint idle; /* of them, those that wait for a request */
};

/* A request being answered, by one thread. */
struct pf_request {
	struct pf_worker *worker;
	const void *message; /* starts with struct pf_msg_head; 64-byte aligned */
	size_t len;          /* its bytes; head.len says the same */
	char *reply;         /* room for PF_RING_MESSAGE bytes, 64-byte aligned */
	size_t reply_len;    /* what the handler wrote there; 0: nothing to say */
};

/*
 * Answer one kind of request: check every field of the message, do it, write the reply
 * (all but its pf_rep_head).  0, or -errno with *ERR filled, -EPROTO for a message that no
 * daemon of this build sends; then the reply is the error.
 */
typedef int pf_handler(struct pf_request *request, struct pf_err *err);
pf_handler pf_handle_compile;
pf_handler pf_handle_serialize;
pf_handler pf_handle_load;
pf_handler pf_handle_execute;
pf_handler pf_handle_call;
pf_handler pf_handle_buffer_create;
pf_handler pf_handle_buffer_copy;
pf_handler pf_handle_buffer_make;
pf_handler pf_handle_buffer_read;
pf_handler pf_handle_memory_stats;
pf_handler pf_handle_optimized;
pf_handler pf_handle_free; /* the three that free */

/*
 * Say in *OUT what the buffer OBJECT is and where the daemon finds its bytes: in the
 * pool, or only on the device; an array without bytes is PF_WHERE_INLINE at 0.
 */
void pf_worker_place(const struct pf_object *object, struct pf_out *out);

/*
 * The LEN bytes at offset OFF of the arena, or NULL if it does not reach that far.
 */
static inline const void *pf_worker_arena(const struct pf_worker *worker, uint64_t off,
					  uint64_t len)
{
	if (off > worker->arena_size || len > worker->arena_size - off)
		return NULL;
	return worker->arena + off;
}

/*
 * Serve requests with THREADS threads (0: a default), more when all are busy, until the
 * daemon closes the channel or hangs up.  Does not return if all goes well.
 */
int pf_worker_serve(struct pf_worker *worker, unsigned threads, struct pf_err *err);

/*
 * EXECUTABLE's optimized program as a block of the pool: its offset, its length, and whether
 * it is a HloModuleProtoWithConfig.  On failure (the plugin's, or -ENOSPC) there is none and
 * the three stay as they are.
 */
int pf_optimized_block(const struct pj_executable *executable, uint64_t *ret_off,
		       uint64_t *ret_len, uint32_t *ret_with_config, struct pf_err *err);

#endif
