/* SPDX-License-Identifier: Apache-2.0 */
/* Executions: one run of an executable, on all the devices that it is for. */
#ifndef PJRTFS_EXECUTION_H
#define PJRTFS_EXECUTION_H

#include "pjrtfs/executable.h"

/*
 * One execution.  The caller makes it, fills in arguments, starts it, and gets it back in
 * done, where it takes the results and frees it.
 */
struct pf_execution {
	/* What the caller asks. */
	struct pf_executable *executable; /* owned reference */
	char *name;                       /* owned; the executable's, for messages */
	/* Rows: replicas times partitions, each for one device, in the executable's order. */
	size_t n_rows;
	size_t n_args;          /* of all rows, one row after the other */
	struct pf_value **args; /* owned references */
	const char **arg_names; /* owned list of borrowed names, for messages */
	bool *donate;           /* owned; n_args: may be consumed */
	size_t want_outs;       /* how many results a row the caller has names for */
	unsigned device; /* index of the worker's device for a program that runs on any;
			  * UINT32_MAX: where its first argument is */
	uid_t uid;       /* who asked: in whose turn it runs */
	char *id;        /* owned: the command's, JSON text, or NULL; for the watch */
	void *user;
	/* Asked before it is sent; true: it ends with ECANCELED instead.  May be NULL. */
	bool (*cancelled)(struct pf_execution *execution);
	/* Called as it is sent, and perhaps again if it must be sent again.  May be NULL. */
	void (*began)(struct pf_execution *execution);
	/*
	 * Called as it is sent: what comes next may go along with it, so that nobody waits for
	 * this one before that begins.  True: pf_execution_join has taken the next one, whose
	 * own follow is called in turn.  Any thread, no lock held.  May be NULL.
	 */
	bool (*follow)(struct pf_execution *execution);
	/* Add to REPORT, which the watch is about to hear, what is known of the command that this
	 * is a repetition of.  May be NULL. */
	void (*report)(struct pf_execution *execution,
		       struct pf_report_execution *report);
	/* It went along, but did not begin, and is the caller's again, instead of done. */
	void (*left)(struct pf_execution *execution);
	/* Called once, on any thread, no lock held; CODE is 0 or -errno. */
	void (*done)(struct pf_execution *execution, int code, const struct pf_err *err);

	/* What it gives. */
	size_t n_outs;            /* of all rows */
	struct pf_value **outs;   /* owned references; done may steal them */
	struct pf_loaded *loaded; /* owned reference: what ran */
	double seconds;           /* from start to end; what went along takes its share */
	double transfer_seconds;  /* until all arguments were on their devices */
	double queue_seconds;     /* from then until its turn had come */
	double device_seconds;    /* in the plugin */

	struct pf_execution_priv *priv; /* the store's */
};

/* Does what is LOADED take N_IN inputs and give N_OUT outputs, on each device?  0 or -EINVAL. */
int pf_execution_check_counts(const struct pf_loaded *loaded, size_t n_in, size_t n_out,
			      struct pf_err *err);

/* Room for N arguments of ROWS rows (which divide N); NULL: no memory. */
struct pf_execution *pf_execution_new(size_t n, size_t rows);
void pf_execution_free(struct pf_execution *execution); /* NULL is allowed */

/*
 * Check the arguments against the signature, bring everything to the device that is not
 * there (waiting for uploads and compiles under way), wait for its turn there, and run.  done is always called,
 * perhaps before this returns.  With SETTLE the calling thread looks for the answer itself
 * for some microseconds; not on threads that take replies.
 */
void pf_execution_start(struct pf_execution *execution, bool settle);

/*
 * Let NEXT go along with BEFORE, from whose follow this is called: it begins without waiting
 * for BEFORE's end, and its arguments may be BEFORE's results (its outs), or those of the
 * ones BEFORE goes along with.  If one of those fails, NEXT has not begun.
 *
 * True: NEXT is taken; done is called in its turn, or left.  False: it must wait for the
 * others, or is wrong; nothing has happened to it.  That is so if something of it is not
 * on the device, if it runs on other devices, consumes what is not a result of BEFORE, or
 * all of them together may take more than some milliseconds or much memory.
 */
bool pf_execution_join(struct pf_execution *before, struct pf_execution *next);

/*
 * It is to be cancelled: if it waits for its turn, take it out, and return true; then
 * pf_execution_resume must be called, which asks cancelled() and ends it.  Does not block,
 * calls nothing.
 */
bool pf_execution_unqueue(struct pf_execution *execution);
void pf_execution_resume(struct pf_execution *execution);

/* Has its turn come, so that the device executes it, or is about to? */
bool pf_execution_runs(struct pf_execution *execution);

/* How many on its device begin before it does, and itself; 0: it does not wait for that. */
unsigned pf_execution_position(struct pf_execution *execution);

/* Invocations: one run of an executable on bytes that become no buffer and no value. */

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
	struct pf_instance *instance;     /* owned reference: where it was sent */
	struct pf_call call;
	struct pf_wait waiter;
	struct pf_sched_request turn;
	struct pf_sched *sched; /* borrowed: where it takes one; NULL: nowhere */
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
