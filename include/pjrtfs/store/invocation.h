/* SPDX-License-Identifier: Apache-2.0 */
/* Invocations: one run of an executable on bytes that become no buffer and no value. */
#ifndef PJRTFS_STORE_INVOCATION_H
#define PJRTFS_STORE_INVOCATION_H

#include "pjrtfs/store/executable.h"

/* One result. */
struct pf_result {
	const void
		*data; /* len host bytes: dense, row-major, sub-byte types one a byte */
	uint64_t len;
	bool fleeting; /* data is there during done only; else until the invocation goes */

	/* The store's. */
	uint32_t where; /* enum pf_where */
	uint64_t off;
	uint64_t charged;
};

/*
 * One invocation.  The caller makes it, starts it, and gets it back in done, where it copies
 * the results that are fleeting; it frees it when it has read the others.
 */
struct pf_invocation {
	void *user;
	uid_t uid; /* who asked: in whose turn it runs */
	/* Called once, on any thread, no lock held; CODE is 0 or -errno. */
	void (*done)(struct pf_invocation *invocation, int code,
		     const struct pf_err *err);

	/* What it gives: the signature's outputs. */
	size_t n_outs;
	struct pf_result *outs; /* owned */
	double seconds;         /* from start to end */
	double device_seconds;  /* in the plugin */
	unsigned device;        /* index of the worker's device */

	/* The store's. */
	struct pf_executable *executable; /* owned reference */
	struct pf_loaded *loaded;         /* owned reference */
	struct pf_bytes *bytes;           /* owned reference, until done */
	struct pf_life *life;             /* owned reference: where it was sent */
	struct pf_call call;
	struct pf_waiter waiter;
	struct pf_turn turn;
	struct pf_turns *turns; /* borrowed: where it takes one; NULL: nowhere */
	bool may_run;           /* its turn has come */
	struct timespec start;
	unsigned tries;
	uint64_t reserved; /* bytes charged for results that have not come */
	size_t tail_len;
	uint64_t *tail; /* owned: ids of the results, arguments */
};

/*
 * Can LOADED be invoked at all?  0; -EOPNOTSUPP: it is for several devices; -E2BIG: what it
 * takes and gives has no room in one message.
 */
int pf_invocation_check(const struct pf_loaded *loaded, struct pf_err *err);

/*
 * Prepare a run of LOADED, which pf_invocation_check allows and which EXECUTABLE gave; input
 * I of its signature lies at OFFS[I] of BYTES, which stay unchanged until done.  References
 * are taken, OFFS is copied.  NULL: no memory.
 */
struct pf_invocation *pf_invocation_new(struct pf_executable *executable,
					struct pf_loaded *loaded, struct pf_bytes *bytes,
					const uint64_t *offs);

/* Free it, before it was started or after done; what it got from the worker goes back. */
void pf_invocation_free(struct pf_invocation *invocation); /* NULL is allowed */

/*
 * Run it in its turn; done is always called, perhaps before this returns.  When the worker dies before it
 * was sent, the program is compiled again first, -ECANCELED if it is another one by then.
 * -ENOSPC: the results would be over the memory limit; it did not run.  It is measured, but no event: there may be
 * tens of thousands a second.  Does not block.
 */
void pf_invocation_start(struct pf_invocation *invocation);

#endif
