/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of a worker by a thread that waits, but not for ever.  Private to the store. */
#ifndef PJRTFS_STORE_ASK_H
#define PJRTFS_STORE_ASK_H

#include <stdbool.h>

#include "pjrtfs/engine/worker.h"
#include "pjrtfs/store/bytes.h"

/* A call; the asker fills in what it needs. */
struct pf_question_to_worker {
	struct pf_life *life; /* borrowed */
	void *request; /* as pf_life_call; a struct pf_req_id, or begins like one */
	size_t len;
	const void *tail;
	size_t tail_len;
	struct pf_bytes *bytes;        /* borrowed: what the request names; may be NULL */
	unsigned timeout_s;            /* 0: none */
	void (*takes_long)(void *arg); /* called once if it takes a minute; may be NULL */
	void *arg;
	_Atomic unsigned *given_up; /* counts calls that took too long, until they are
				     * answered; may be NULL; outlives the worker */
	bool sent;                  /* out: it was under way */
};

enum { PF_ASK_LONG_S = 60 };

/*
 * Ask, and wait for the answer: 0 and the first REPLY_LEN bytes of it at REPLY (it has at
 * least as many); the failure; -ETIMEDOUT.  What is answered after that is freed in the
 * worker.  Blocks.
 */
int pf_ask(struct pf_question_to_worker *question, void *reply, size_t reply_len,
	   struct pf_err *err);

#endif
