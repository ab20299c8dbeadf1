/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_CALLBACK_H
#define PJRTFS_CALLBACK_H

#include <stdbool.h>
#include <stdint.h>

#include "pjrtfs/array.h"
#include "pjrtfs/engine.h"

/*
 * Callbacks: calls of the host by a program, stablehlo.custom_call @xla_ffi_python_cpu_callback (what
 * JAX makes of pure_callback, io_callback and debug.callback), @xla_ffi_partitioned_python_cpu_callback
 * and @pjrtfs_callback, each with the attribute "index".  The worker has handlers for them, which send
 * the arguments to the daemon and wait for its answer: an invocation.  struct pf_call says which
 * executions get invocations.
 */

enum {
	PF_CALLBACK_ARRAYS = 4096
}; /* arguments, and results, of one invocation at most */

/* An array that a callback takes or gives, row-major.  No type has elements smaller than a byte. */
struct pf_callback_array {
	enum pf_dtype dtype;
	struct pf_shape shape;
	uint64_t len;     /* host bytes */
	const void *data; /* of an argument: in the instance's pool, readable until the
			   * invocation ends, aligned to 64 bytes; NULL for a result */
};

/*
 * One invocation: a thread of the plugin waits for the answer.  The receiver of struct pf_call.asked
 * owns it and ends it once, with pf_invocation_answer or pf_invocation_fail, which free it; also if
 * the worker or the execution has ended meanwhile.  Immutable until then.
 */
struct pf_invocation {
	struct pf_instance *instance; /* owned reference */
	uint64_t index; /* of the callback in its program: the attribute "index" */
	uint32_t n_args, n_results;
	bool ordered; /* it takes or gives tokens, which are not among the arrays */
	struct pf_callback_array *args, *results; /* owned */

	/* The engine's. */
	uint64_t number; /* the worker's */
	uint64_t tag;    /* of the call */
	uint64_t block;  /* of the pool, with the arguments; PF_NO_OFFSET: none */
	struct pf_call answer;
	void *kept;
	void (*drop)(void *kept);
};

/*
 * The call gets its results: the bytes of result I lie in the arena of the instance's worker at
 * OFFS[I] (which is not kept), results[I].len of them, unchanged until DROP(KEPT) is called: the
 * worker has copied them, or has ended.  That happens once, perhaps before this returns, with no lock
 * but the caller's held.  0; -EIO: the worker has ended; -ENOMEM: the call has failed with
 * RESOURCE_EXHAUSTED instead.  Does not block.
 */
int pf_invocation_answer(struct pf_invocation *invocation, const uint64_t *offs,
			 void *kept, void (*drop)(void *kept));

/* The call, and so its execution, fails with CODE (of enum pf_pjrt_code; not OK) and TEXT, of which
 * PF_ERR_TEXT - 1 bytes are used.  Does not block. */
void pf_invocation_fail(struct pf_invocation *invocation, int code, const char *text);

/*
 * The seconds that one execution may take on INSTANCE (--execute-timeout); 0: no limit.  They do not
 * run while an invocation of it waits: its owner fails it after so long.
 */
unsigned pf_instance_execute_s(const struct pf_instance *instance);

#endif
