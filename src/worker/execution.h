/* SPDX-License-Identifier: Apache-2.0 */
/* One execution of a request.  Private to src/worker/execut*.c. */
#ifndef PJRTFS_WORKER_EXECUTION_H
#define PJRTFS_WORKER_EXECUTION_H

#include "pjrtfs/worker/worker.h"

enum { EXECUTION_FEW = 64 }; /* arguments or results that need no malloc */

/* The lists' room is in the few_… arrays or in MANY. */
struct execution {
	struct pf_worker *worker;
	const struct pf_req_execute *q;
	size_t n_args, n_outs; /* on all devices */
	const uint64_t *argument_ids, *result_ids;
	const uint8_t *donate;
	struct pf_object *program;  /* counted */
	struct pf_object **objects; /* n_args, counted; then n_outs, once it has begun */
	struct PJRT_Buffer **buffers; /* n_args arguments, then n_outs results */
	struct PJRT_Event **done;     /* one a device */
	int64_t *kept;
	size_t n_kept;
	bool *given;            /* results that the next execution consumes */
	size_t n_found, n_made; /* objects of arguments, and of results, so far */
	uint64_t begun_ns, ready_ns;
	bool running; /* it has begun, and was not awaited */
	bool has_ids; /* its results */
	void *many;   /* owned */
	struct pf_object *few_objects[2 * EXECUTION_FEW];
	struct PJRT_Buffer *few_buffers[2 * EXECUTION_FEW];
	struct PJRT_Event *one_done;
	int64_t few_kept[EXECUTION_FEW];
	bool few_given[EXECUTION_FEW];
};

/*
 * Read one from the LEN bytes at MESSAGE; *USED: how many it takes, which may be
 * fewer.  X need not be anything before; MESSAGE must outlive it.  -EPROTO.
 */
int execution_read(struct execution *x, struct pf_worker *worker, const void *message,
		   size_t len, size_t *used, struct pf_err *err);

/*
 * Begin it: its results have their ids from now on.  BEFORE is the execution that was begun
 * just before, whose results it may consume, or NULL: then it may consume what it likes.
 * X must be released by execution_release, also if this fails.
 */
int execution_begin(struct execution *x, struct execution *before, struct pf_err *err);

/* Wait until it is done, if it has begun; again, if it was awaited: 0.  On failure, as
 * before. */
int execution_await(struct execution *x, struct pf_err *err);

/* The bytes of the answer without what lies inline. */
size_t execution_answer_bytes(const struct execution *x);

/*
 * Write the answer (but what execute.c fills in) to REPLY.  *ROOM is what there is for bytes
 * that lie inline, and what is left of it; *USED: how many bytes the answer takes.
 */
int execution_answer(struct execution *x, char *reply, size_t *room, size_t *used,
		     struct pf_err *err);

/* Nobody will hear of its results: their ids are free again. */
void execution_take_back(struct execution *x);

/* Waits for its end if it has begun. */
void execution_release(struct execution *x);

#endif
