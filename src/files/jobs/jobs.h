/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks: commands with their rights and the destination of their answer; jobs. */
#ifndef PJRTFS_FILES_JOBS_JOBS_H
#define PJRTFS_FILES_JOBS_JOBS_H

#include "files/internal.h"
#include "pjrtfs/stream.h"

struct task;

/*
 * A task is one command: at control or run, a step of a batch, an asynchronous job.  The function
 * that executes it needs to know only the task, and ends it with task_done or task_fail, on any
 * thread.
 */

/* A kind of task. */
struct task_ops {
	/* Is the task cancelled?  Called under its lock, and not once it was answered. */
	bool (*cancelled)(struct task *task);
	/* The answer, once: REPLY is a JSON object (owned by the callee), which says the same as
	 * ERR if TASK failed; NULL: it did not. */
	void (*answer)(struct task *task, const struct pf_err *err,
		       struct json_object *reply);
	/* The task has begun, and cannot be undone any more.  May be called more than
	 * once; may be NULL. */
	void (*began)(struct task *task);
	void (*free)(struct task *task);
};

/*
 * A task's wait for another operation: a compile, another job.  Embedded in the waiting
 * operation's struct.
 */
struct task_wait {
	struct task *task; /* borrowed */
	/* Leave the list of waiters; false: it is being woken, and continues.  Called
	 * under the task's lock. */
	bool (*leave)(struct task_wait *wait);
	/* It has left the list: end the task, which is cancelled. */
	void (*cancelled)(struct task_wait *wait);
	const char *meanwhile; /* static: what continues after the task's timeout */
};

/* How far a task has come to its end. */
enum task_end {
	TASK_UNDER_WAY,
	TASK_ANSWERED, /* it ends; or its timeout was earlier, and what it had begun goes on */
	TASK_OVER, /* it has ended */
};

/* Embedded in the struct of its kind. */
struct task {
	const struct task_ops *ops;
	struct pf_fs *fs;     /* borrowed */
	struct pf_node *file; /* owned reference: where the command was written */
	struct pf_cred cred;  /* the rights that it has */
	bool people;          /* it is answered with a line for people, else with JSON */
	char *id;             /* owned JSON text, or NULL: echoed in the answer */
	struct task *whole; /* owned reference: the task of which it is a step, or NULL */

	_Atomic unsigned refs;
	_Atomic enum task_end end; /* the lock is held when it becomes TASK_ANSWERED */
	pthread_mutex_t lock;      /* rank 2; protects the fields below */
	/* What cancelling it ends, of the task or of its step: */
	struct pf_execution *execution;  /* borrowed, or NULL */
	struct pf_worker *worker;        /* owned reference: where it runs, or NULL */
	struct pf_executable *compiling; /* owned reference: compiled for it, or NULL */
	struct task_wait *wait;          /* borrowed, or NULL */

	/* Not protected: */
	_Atomic uint64_t done,
		of; /* its parts, repetitions or steps; of is 0: it has none */
	struct pf_timer timeout;
	atomic_bool client_gone;           /* no process waits for it, */
	struct pf_timer withdraw, abandon; /* and these are armed */
	uint64_t timeout_ms;
	const char *at_timeout; /* static: what happens to it at its timeout */
};

/* Make TASK, all zeros, that of a command at FILE, with one reference, which task_done takes. */
void task_init(struct task *task, const struct task_ops *ops, struct pf_node *file,
	       const struct pf_cred *cred);
/* Take the id of the command O, if it has one.  0, -ENOMEM. */
int task_set_id(struct task *task, struct json_object *o, struct pf_err *err);

struct task *task_ref(struct task *task);
void task_unref(struct task *task);

/* TASK has ended: answer it, unless it was answered, with REPLY (taken), which has a failure if ERR is
 * not NULL; or with ERR, which is also reported.  For people REPLY may be a string, their line. */
void task_done(struct task *task, const struct pf_err *err, struct json_object *reply);
void task_fail(struct task *task, const struct pf_err *err);

/* From now on TASK runs at WORKER, which, unless COMPILING is NULL (a reference is taken),
 * compiles that for it. */
void task_runs_at(struct task *task, struct pf_worker *worker,
		  struct pf_executable *compiling);

/* Give up the compile that TASK waits for.  Returns the worker, with a reference, that runs the rest
 * of TASK, which only that worker's end would stop; NULL: no worker runs any of it. */
struct pf_worker *task_give_up_compile(struct task *task);

/* The text of its id, which the caller frees; NULL if it has none. */
char *task_id(struct task *task);

/* Is it cancelled, or answered?  Operations that have not begun need not begin. */
bool task_cancelled(struct task *task);

/* Was it answered already?  Then its results are dropped. */
bool task_answered(struct task *task);

/* E runs on WORKER for TASK from now on; NULL: it has ended. */
void task_executes(struct task *task, struct pf_execution *e, struct pf_worker *worker);

/*
 * TASK waits: task_wait_begin before WAIT is put on a list of waiters, task_wait_check after that,
 * since TASK may have been cancelled in between, and leaves then (the caller has a reference on
 * it); task_wait_end when it is woken.
 */
void task_wait_begin(struct task_wait *wait);
void task_wait_check(struct task *task);
void task_wait_end(struct task *task);

/* DONE of TASK's OF parts are done. */
static inline void task_progress(struct task *task, uint64_t done, uint64_t of)
{
	atomic_store(&task->done, done);
	atomic_store(&task->of, of);
}

/* TASK has begun. */
void task_began(struct task *task);

/* TASK is cancelled: if it waits, for a slot of a device or otherwise, it ends here. */
void task_leave_queue(struct task *task);

/* Its position in the queue of its device, from 1; 0: it is not in it. */
unsigned task_position(struct task *task);

/* Answer ETIMEDOUT if TASK is not answered within MS milliseconds; LATE (static) says
 * what happens to operations that had begun by then.  -EAGAIN: no thread. */
int task_set_timeout(struct task *task, uint64_t ms, const char *at_timeout,
		     struct pf_err *err);

/*
 * No process waits for TASK any more: it leaves the queue that it waits in, and the callbacks of what
 * it executes fail; if an execution of it, or of its step, still runs after --abandoned-timeout, its
 * worker is ended.  Takes the timers' lock and no other.
 */
void task_client_gone(struct task *task);

/*
 * A task of COMMAND, for a kind whose left is command_task_left.  It is answered with JSON,
 * or, without JSON, with a line for people.  NULL: no memory, and COMMAND is answered.
 */
struct task *command_task_new(struct pf_command *command, bool json);

/* Its process does not wait for COMMAND's task any more: for a kind's left. */
void command_task_left(struct pf_command *command);

/* {"ok":true} */
struct json_object *reply_new(void);

/* {"errno","code","message"} */
struct json_object *reply_error(const struct pf_err *err);

/* {"ok":false,"error": reply_error} */
struct json_object *reply_failure(const struct pf_err *err);

/* Run one op, the command O.  0: TASK is, or will be, answered; -errno with *ERR: the caller
 * answers it. */
typedef int command_op(struct task *task, struct json_object *o, struct pf_err *err);

/* Lists of names, one for each device; n 0: one list for all of them, at[0]. */
struct rows {
	size_t n;
	struct names *at; /* owned; at least one */
};

/* The names for row I, borrowed. */
const struct names *rows_at(const struct rows *rows, size_t i);

/* The specification of an execution.  All zeros is an empty one. */
struct exec_spec {
	struct rows inputs, outputs;
	struct names
		params; /* the parameter of each of inputs.at[0], or ""; none: no word has one */
	struct names donate; /* inputs that may be consumed, by name, */
	uint32_t *donate_at; /* by their number (owned), */
	size_t n_donate_at;
	bool donate_all; /* or all of them */
	char *device;    /* owned, or NULL */
	bool move;       /* copy arrays of other devices */
	bool positional; /* arrays of directories keep their order, whatever their names */
	uint64_t repeat;    /* times; 0 is 1 */
	uint64_t launch_id; /* at most INT32_MAX; 0: none */
	bool async;
	uint64_t timeout_ms; /* 0: none */
};

enum {
	EXEC_MAX_ROWS = 1024,
	EXEC_MAX_REPEAT = 1000000000,
	EXEC_MAX_TIMEOUT = 1000000000, /* ms: eleven days */
};

void exec_spec_release(struct exec_spec *spec);

/* Split a run line "x y -> z donate=x" into SPEC; -EINVAL. */
int exec_spec_parse_line(const char *line, struct exec_spec *spec, struct pf_err *err);

/*
 * Read the JSON command O into SPEC.  -EINVAL, also for unknown keys; EXECUTABLE: it may have that
 * key, which the caller reads.
 */
int exec_spec_parse(struct json_object *o, bool executable, struct exec_spec *spec,
		    struct pf_err *err);

/*
 * A key that a command may have, and the destination of its value, which decides the type of that
 * and is unchanged if the key is missing.  One without a destination is the caller's to read.
 */
struct command_key {
	const char *key;
	const char **string; /* borrowed from the command */
	bool optional;       /* the string; else it must not be missing */
	bool *flag;
	uint64_t *number; /* from MIN to MAX */
	const struct device *
		*device;   /* by its name; the default one if the key is missing */
	uint64_t min, max; /* of the number */
};

/*
 * Read the KEYS (ended by one without a name) of the command O.  -EINVAL: one is missing,
 * or is of another type, or O has a key that is neither among them nor one of "op", "id",
 * "async" and "timeout_ms", which every command may have; -ENODEV.
 */
int command_parse(struct pf_fs *fs, struct json_object *o, const struct command_key *keys,
		  struct pf_err *err);

/* The string under KEY; -EINVAL: it is missing, no string, or has a NUL character. */
int command_string(struct json_object *o, const char *key, const char **ret,
		   struct pf_err *err);

/* The whole number under KEY, from MIN to MAX; *RET stays if it is missing. */
int command_number(struct json_object *o, const char *key, uint64_t min, uint64_t max,
		   uint64_t *ret, struct pf_err *err);

/* True or false under KEY; *RET stays if it is missing. */
int command_bool(struct json_object *o, const char *key, bool *ret, struct pf_err *err);

/* Make fs->jobs, and link jobs/.  0 or -ENOMEM. */
int files_add_jobs(struct pf_fs *fs);
void files_free_jobs(struct pf_fs *fs);

/* A job of an earlier life: one that had not ended has failed (EIO). */
restore_fn jobs_restore;

command_op op_wait;
command_op op_cancel;

/*
 * Make a job, and call RUN with its task (and ARG).  TASK is answered with the job's number at
 * once.  REQUEST_TEXT is for request.json.  -EAGAIN: too many jobs; -ENOMEM.
 */
int job_start(struct task *task, const char *request_text,
	      int (*run)(struct task *job, void *arg, struct pf_err *err), void *arg,
	      struct pf_err *err);

#endif
