/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of an execution share.  Private to src/store/execution*.c. */
#ifndef PJRTFS_STORE_EXECUTION_INTERNAL_H
#define PJRTFS_STORE_EXECUTION_INTERNAL_H

#include <time.h>

#include "pjrtfs/engine/turns.h"
#include "pjrtfs/store/execution.h"

/* What goes along with an execution: of all of them, itself included. */
struct along {
	struct pf_execution *last;
	size_t n;
	uint64_t ns;             /* they may take */
	uint64_t result_bytes;   /* of their results */
	uint64_t request, reply; /* bytes of the messages at least */
	double seconds;          /* those that went along took */
};

/*
 * The steps of an execution: load the executable, check and place every argument, send.
 * Each may have to wait; step() goes on where it was.
 */
struct pf_execution_priv {
	struct pf_execution *e;
	struct pf_call call;
	struct pf_waiter waiter;
	_Atomic unsigned refs; /* the starter, who may settle, and the answer */
	_Atomic bool ended;
	struct timespec start, loaded, queued;
	size_t placed; /* arguments on the device so far */
	unsigned tries;
	uint64_t *ids;        /* owned: n_args buffers, n_outs new ones, then the bytes */
	size_t n_used;        /* arguments pinned, and perhaps claimed, so far */
	struct pf_life *life; /* owned reference, once sent */
	struct pf_turn turn;
	struct pf_turns *_Atomic turns; /* borrowed: where it takes one; NULL: nowhere */
	bool may_run;                   /* its turn has come */
	unsigned *devices;              /* owned: the turn's, but for a single one: */
	unsigned device;
	/* Those that go along are a list that begins with the one they go along with. */
	struct pf_execution *leader; /* borrowed; NULL: it goes along with none */
	struct pf_execution *next;   /* owned: what goes along after it */
	struct along along;          /* the leader's */
};

/* The end, good or bad.  E may be gone afterwards. */
void pf_execution_end(struct pf_execution_priv *p, int code, struct pf_err *err);

void pf_execution_priv_unref(struct pf_execution_priv *p);

/*
 * Send it, all being there, and what goes along.  0 sent: E may be gone; 1 something moved,
 * it is to be brought again; -errno.
 */
int pf_execution_send(struct pf_execution_priv *p, struct pf_err *err);

/* Let go of the arguments: those that were claimed were CONSUMED, or not. */
void pf_execution_unclaim(struct pf_execution_priv *p, bool consumed);

/* What is given, checked against what the program takes (execution_check.c).  E is loaded. */
int pf_execution_check(const struct pf_execution *e, struct pf_err *err);

/* The index of the worker's device that ROW runs on.  E is loaded. */
unsigned pf_execution_device(const struct pf_execution *e, size_t row);

/* Say in ERR, whose code is CODE, that it is about argument I.  Returns CODE. */
int pf_execution_name_arg(const struct pf_execution *e, size_t i, int code,
			  struct pf_err *err);

#endif
