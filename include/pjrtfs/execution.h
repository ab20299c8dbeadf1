/* SPDX-License-Identifier: Apache-2.0 */
/* Executions: runs of a program on all the devices that it is for, once or repeatedly. */
#ifndef PJRTFS_EXECUTION_H
#define PJRTFS_EXECUTION_H

#include "pjrtfs/executable.h"
#include "pjrtfs/scheduler.h"

/* One argument of one row: an array, or bytes that the caller lends. */
struct pf_exec_arg {
	struct pf_value *value; /* owned reference; NULL: bytes of lent, from off on */
	uint64_t off;
	const char *name;        /* borrowed, for messages */
	enum pf_untyped untyped; /* what it came as */
	uint32_t
		carry; /* index of the row's result that replaces it next; PF_NO_CARRY: none */
	bool donate;         /* the first run may consume it */
	bool donate_carried; /* later runs may consume the results that replace it */

	bool donated; /* the store's: no other execution can use it until the end */
};

/* One result of one row. */
struct pf_exec_result {
	struct pf_value *value; /* owned reference; done may steal it */
	/* If arguments were lent, len host bytes instead of a value: dense and row-major,
	 * sub-byte types one a byte; transient: only during done, else until the
	 * execution is freed. */
	const void *data;
	uint64_t len;
	bool transient;

	/* The store's. */
	uint32_t where;     /* enum pf_where */
	uint64_t off;       /* in the pool */
	uint64_t held;      /* bytes that are charged for data */
	uint64_t own;       /* bytes that are charged for what does not exist yet, */
	uint64_t on_device; /* and of the device's memory */
};

/*
 * What an execution does next.  It begins again with LOAD if its worker dies before it was sent, or
 * an argument has left its device by then.
 */
enum pf_execution_stage {
	PF_EXECUTION_LOAD,     /* wait until a living worker has the program */
	PF_EXECUTION_TRANSFER, /* wait until the arguments are on their devices */
	PF_EXECUTION_PLACED,   /* the one that it waited for: is it there? */
	PF_EXECUTION_QUEUE,    /* wait for a slot of each device */
	PF_EXECUTION_SEND,     /* it has them: send it; the answer is the end */
};

/*
 * One execution.  The caller makes it, fills in the arguments, starts it, and gets it back in
 * done, where it takes the results and frees it.  Beside functions it uses nothing but what is the
 * caller's, and the results.
 */
struct pf_execution {
	/* The caller's. */
	struct pf_executable *executable; /* owned reference */
	char *name;                       /* owned; the executable's, for messages */
	uint32_t repeat;                  /* how many runs are wanted */
	int32_t launch_id; /* as in PJRT_ExecuteOptions; of each run; 0: none */
	/* Rows: replicas times partitions, each for one device, in the executable's order. */
	size_t n_rows;
	size_t n_args;    /* of all rows, one row after the other */
	size_t want_outs; /* how many results a row the caller has names for */
	unsigned device;  /* index of the worker's device for a program that runs on any;
			  * UINT32_MAX: where its first argument is */
	uid_t uid;        /* the user whose slots it takes, */
	struct pf_account *account; /* and whose account is charged: borrowed; or NULL */
	char *id; /* owned: the command's, JSON text, or NULL; for events */
	struct pf_bytes
		*lent; /* owned reference: pf_execution_lend's, until done; or NULL */
	bool take;     /* the results are bytes, not values, and the end makes no event */
	void *user;
	/* Called before it is sent; true: it ends with ECANCELED instead.  May be NULL. */
	bool (*cancelled)(struct pf_execution *execution);
	/* Called as it is sent, and perhaps again if it must be sent again.  May be NULL. */
	void (*began)(struct pf_execution *execution);
	/* Add to REPORT, which becomes an event, what is known of the command that this is a
	 * part of.  May be NULL. */
	void (*report)(struct pf_execution *execution,
		       struct pf_report_execution *report);
	/*
	 * Called once, on any thread, no lock held.  CODE is 0, though perhaps not all runs that
	 * are wanted were made: runs says how many.  Or -errno, why the next one failed or could
	 * not begin; the results of the runs before it are there all the same.
	 */
	void (*done)(struct pf_execution *execution, int code, const struct pf_err *err);

	/* The results. */
	uint32_t runs;               /* that ended well */
	size_t n_outs;               /* results of all rows; valid if runs is not 0 */
	struct pf_exec_result *outs; /* of the last of these runs */
	struct pf_loaded *loaded;    /* owned reference: the program that ran */
	unsigned first_device;       /* index of the worker's: where the first row ran */
	struct timespec start;       /* CLOCK_MONOTONIC */
	double seconds;              /* from then to its end */
	double transfer_seconds;     /* until all arguments were on their devices */
	double queue_seconds;        /* from then until it had its slots */
	double device_seconds;       /* in the plugin */

	/* The store's. */
	_Atomic unsigned
		refs; /* the caller's, the starter's, the answer's, invocations' */
	_Atomic bool ended;
	bool calls_end; /* its callbacks fail; the lock of the executable's protects it */
	struct pf_call call;
	struct pf_wait waiter;
	struct timespec loaded_at, queued_at;
	enum pf_execution_stage stage;
	size_t n_transferred; /* arguments on their devices so far */
	unsigned tries;
	struct pf_instance *instance; /* owned reference: where it was sent */
	uint64_t *message; /* owned: the lists behind the request's fixed part */
	size_t lent_len;   /* bytes of them that describe what is lent */
	size_t n_pinned;   /* arguments */
	uint64_t extra;    /* bytes charged for results of runs before the last */
	struct pf_sched_request slot;
	struct pf_sched
		*_Atomic sched; /* borrowed: where it has slots or waits; or NULL */
	bool counted;           /* among the account's executions, */
	size_t n_counted;       /* and those of the devices of so many rows */
	struct pf_exec_arg args[];
};

/* Does what is LOADED take N_IN inputs and give N_OUT outputs, on each device?  0 or -EINVAL. */
int pf_execution_check_counts(const struct pf_loaded *loaded, size_t n_in, size_t n_out,
			      struct pf_err *err);

/*
 * An execution of EXECUTABLE (a reference is taken), to run once, with room for N_ARGS arguments
 * of N_ROWS rows, which divide them.  NULL: no memory.
 */
struct pf_execution *pf_execution_new(struct pf_executable *executable, size_t n_args,
				      size_t n_rows);
void pf_execution_free(struct pf_execution *execution); /* NULL is allowed */

/* Argument I of the run after those of EXECUTION: the result that replaces it, or the same value; borrowed. */
struct pf_value *pf_execution_next_value(const struct pf_execution *execution, size_t i);

/* The execution of the runs after those of EXECUTION, which has results, on these arguments, of which it may
 * consume those that replaced others.  NULL: no memory. */
struct pf_execution *pf_execution_next(const struct pf_execution *execution);

/*
 * Can LOADED be executed with arguments that are lent, LENT (N) of those that it takes?  0;
 * -EOPNOTSUPP: it is for several devices; -E2BIG: what it takes and gives has no room in one message.
 */
int pf_execution_check_lent(const struct pf_loaded *loaded, const struct pf_param *lent,
			    size_t n, struct pf_err *err);

/*
 * Have EXECUTION, which has as many arguments as LOADED takes, run LOADED, which its executable
 * gave, on bytes: the arguments to which the caller has given no value lie at OFFS[0], OFFS[1] ... of
 * BYTES, which stay unchanged until done.  Its results are bytes, too.  No argument is consumed.
 * References are taken, OFFS is copied.
 *
 * When the worker dies before the execution was sent, the program is compiled again first,
 * -ECANCELED if it is another one by then.
 */
void pf_execution_lend(struct pf_execution *execution, struct pf_loaded *loaded,
		       struct pf_bytes *bytes, const uint64_t *offs);

/* Lists of its device (pf_sched_list) say of EXECUTION, before it is started, that it is of the executable
 * NAME, and part DONE of OF (0: of one), of which the first BEGAN, as in struct pf_sched_work. */
void pf_execution_describe(struct pf_execution *execution, const char *name,
			   uint64_t done, uint64_t of, int64_t began);

/*
 * Check the arguments against the signature, bring everything to the device that is not there
 * (waiting for transfers and compiles under way), wait for slots there, and run.  done is always
 * called, perhaps before this returns.  With SPIN the calling thread looks for the answer itself
 * for some microseconds, but not on threads that take replies.
 */
void pf_execution_start(struct pf_execution *execution, bool spin);

/* The caller cancels it: if it waits for a slot, take it out of the queue and return true; then
 * the caller must call pf_execution_resume, which calls cancelled() and ends it. */
bool pf_execution_dequeue(struct pf_execution *execution);
void pf_execution_resume(struct pf_execution *execution);

/*
 * The callbacks of the program that E runs fail from now on (CANCELLED), those that wait too, so that
 * it ends soon.  The caller holds a reference, and no lock but that of names.  Does not block.
 */
void pf_execution_cancel_calls(struct pf_execution *execution);

/* No client waits for E any more, which the caller has not freed.  Lists of its device say so. */
void pf_execution_left(struct pf_execution *execution);

/* A reference, with which only pf_execution_cancel_calls may be called once the caller has freed E. */
static inline struct pf_execution *pf_execution_ref(struct pf_execution *execution)
{
	atomic_fetch_add(&execution->refs, 1);
	return execution;
}

static inline void pf_execution_unref(struct pf_execution *execution)
{
	if (atomic_fetch_sub(&execution->refs, 1) != 1)
		return;
	pf_instance_unref(execution->instance);
	pf_executable_unref(execution->executable);
	free(execution->message);
	free(execution);
}

/* Where it stands: PF_STAGE_UPLOADING, _WAITING or _RUNNING; PF_STAGE_NONE: no worker has its program. */
enum pf_stage pf_execution_shown_stage(struct pf_execution *execution);

/* Does it have its slots, so that the device executes it, or is about to? */
bool pf_execution_has_slot(struct pf_execution *execution);

/* Its queue position on the device whose slot it waits for, from 1 on; 0: it does not wait. */
unsigned pf_execution_position(struct pf_execution *execution);

#endif
