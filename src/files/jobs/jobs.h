/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: tasks that nobody waits for. */
#ifndef PJRTFS_FILES_JOBS_JOBS_H
#define PJRTFS_FILES_JOBS_JOBS_H

#include "files/internal.h"

struct task;

/*
 * Commands: what is asked for, by whom, and where the answer goes.
 *
 * A task is one thing that was asked for: a command at control or run, a step of a batch, an
 * asynchronous job.  Who does it needs to know only the task; it ends with task_done or
 * task_fail, on any thread.
 */

/* Where a kind of task comes from. */
struct task_ops {
	/* Did who waits for it go away?  Not called once it was answered. */
	bool (*cancelled)(struct task *task);
	/* The answer, once: CODE is 0 or -errno, REPLY a JSON object (owned by the callee). */
	void (*answer)(struct task *task, int code, struct json_object *reply);
	/* It has begun: what cannot be undone is under way.  Perhaps more than once.  May be
	 * NULL. */
	void (*began)(struct task *task);
	void (*free)(struct task *task);
};

/*
 * A task waits for something that is not done for it: a program that compiles, another job.
 * Embedded in the struct of who waits.
 */
struct task_wait {
	struct task *task; /* borrowed: which waits */
	/* Wait no more; false: it is being woken, and goes on by itself.  Called under the
	 * task's lock. */
	bool (*leave)(struct task_wait *pause);
	/* It left: end the task, which is cancelled. */
	void (*cancelled)(struct task_wait *pause);
	const char *meanwhile; /* static: what goes on though the task's time is over */
};

/* Embedded in the asker's own struct. */
struct task {
	const struct task_ops *ops;
	struct pf_fs *fs;     /* borrowed */
	struct pf_node *file; /* owned reference: where it was asked for */
	struct pf_cred cred;  /* whose rights */
	char *id;             /* owned JSON text, or NULL: echoed in the answer */
	struct task *whole;   /* owned reference: what it is a step of, or NULL */

	_Atomic unsigned refs;
	pthread_mutex_t lock; /* rank 2; protects the fields below */
	bool answered;
	struct pf_execution *execution; /* borrowed: of it, or of its step; or NULL */
	/* For those who must stop it, or its step: */
	struct pf_worker *worker;        /* borrowed: where it is being done, or NULL */
	struct pf_executable *compiling; /* owned reference: what is compiled for it */
	struct task_wait *pause;         /* borrowed: what it, or its step, waits for */

	/* Not protected: */
	struct pf_timer timer;
	struct pf_timer abandon; /* armed since nobody waits for it */
	atomic_bool left, over;  /* nobody waits for it; it has ended */
	uint64_t timeout_ms;
	const char *late; /* static: what becomes of it when its time is over */
};

/* A new task, asked for at FILE, with one reference, which task_done takes. */
void task_init(struct task *task, const struct task_ops *ops, struct pf_node *file,
	       const struct pf_cred *cred);
/* The id that the command O carries, if any, is TASK's. */
void task_set_id(struct task *task, struct json_object *o);

struct task *task_ref(struct task *task);
void task_unref(struct task *task);

/* The task has ended; what comes after the first answer is dropped. */
void task_done(struct task *task, int code, struct json_object *reply);
void task_fail(struct task *task, const struct pf_err *err);

/*
 * What TASK does from now on goes on at WORKER; COMPILING, if not NULL (a reference is taken),
 * is what it has compiled there.
 */
void task_runs_at(struct task *task, struct pf_worker *worker,
		  struct pf_executable *compiling);

/*
 * Stop what TASK waits for: its compile is given up.  The worker to be ended to stop what is
 * left, or NULL: nothing of it runs anywhere.
 */
struct pf_worker *task_stop(struct task *task);

/* The text of its id, which the caller frees; NULL if it has none. */
char *task_id(struct task *task);

/* Nobody waits for it any more: what has not begun need not begin. */
bool task_cancelled(struct task *task);

/* Was it answered already?  Then its results are dropped. */
bool task_answered(struct task *task);

/* E, on WORKER, is being done for TASK from now on; NULL: it has ended. */
void task_executes(struct task *task, struct pf_execution *e, struct pf_worker *worker);

/* PAUSE's task waits, until task_resumes; PAUSE is left if it is cancelled, or was. */
void task_pauses(struct task_wait *pause);
void task_resumes(struct task *task);

/* After what task_pauses told of has begun to be waited for: was TASK, on which the caller has
 * a reference, cancelled in between?  Then it leaves. */
void task_paused(struct task *task);

/* What TASK asks for has begun. */
void task_began(struct task *task);

/* TASK is cancelled: if it waits for its turn on a device, or pauses, it ends here. */
void task_unqueue(struct task *task);

/* How many begin before it does on its device, and itself; 0: it does not wait for that. */
unsigned task_position(struct task *task);

/* Answer ETIMEDOUT if nothing else was answered within MS milliseconds; LATE (static) tells
 * what becomes of what had begun by then. */
int task_set_timeout(struct task *task, uint64_t ms, const char *late,
		     struct pf_err *err);

/*
 * Nobody waits for TASK any more: if it is still being executed when --abandoned-timeout is over,
 * it is ended with its worker.  A step counts with its whole, for which this is called.  Takes
 * the timers' lock and no other.
 */
void task_left(struct task *task);

/* The same for the task that COMMAND's user is, as a kind's left. */
void task_command_left(struct pf_command *command);

/* {"ok":true} */
struct json_object *reply_new(void);

/* {"ok":false,"error":{"errno","code","message"}} */
struct json_object *reply_failure(const struct pf_err *err);

/*
 * Run one op: returns 0 when TASK is, or will be, answered; -errno with *ERR set when it is
 * not, for the caller to answer.
 */
typedef int command_op(struct task *task, struct json_object *o, struct pf_err *err);

/* What commands and run lines ask for. */

/* Lists of names, one for each device; n 0: one list for all of them, at[0]. */
struct rows {
	size_t n;
	struct names *at; /* owned; at least one */
};

/* The names for row I. */
const struct names *rows_at(const struct rows *rows, size_t i);

/* What an execution is asked to do.  All zeros is nothing. */
struct exec_spec {
	struct rows inputs, outputs;
	struct names params; /* of inputs.at[0], if they were named by parameter */
	bool by_name;
	struct names donate;
	char *device;    /* owned, or NULL */
	bool move;       /* arrays that are elsewhere are copied */
	uint64_t repeat; /* times; 0 is 1 */
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
 * Read an execution's keys of a JSON command into SPEC.  Keys that are neither these nor
 * in OTHERS (NULL-terminated) are refused.
 */
int exec_spec_parse(struct json_object *o, const char *const *others,
		    struct exec_spec *spec, struct pf_err *err);

/* A key that a command may have, and where its value goes, which stays as it is if the key is
 * missing. */
struct command_key {
	const char *key;
	enum {
		COMMAND_OTHER,    /* the caller reads it */
		COMMAND_STRING,   /* const char *, borrowed; it must not be missing */
		COMMAND_OPTIONAL, /* const char *, borrowed */
		COMMAND_NUMBER,   /* uint64_t, from MIN to MAX */
		COMMAND_BOOL,     /* bool */
		COMMAND_DEVICE, /* const struct device *; the default one if it is missing */
	} type;
	void *ret;
	uint64_t min, max;
};

static inline struct command_key command_key_other(const char *key)
{
	return (struct command_key){ .key = key };
}

static inline struct command_key command_key_string(const char *key, const char **ret)
{
	return (struct command_key){ .key = key, .type = COMMAND_STRING, .ret = ret };
}

static inline struct command_key command_key_optional(const char *key, const char **ret)
{
	return (struct command_key){ .key = key, .type = COMMAND_OPTIONAL, .ret = ret };
}

static inline struct command_key command_key_number(const char *key, uint64_t min,
						    uint64_t max, uint64_t *ret)
{
	return (struct command_key){ key, COMMAND_NUMBER, ret, min, max };
}

static inline struct command_key command_key_bool(const char *key, bool *ret)
{
	return (struct command_key){ .key = key, .type = COMMAND_BOOL, .ret = ret };
}

static inline struct command_key command_key_device(const struct device **ret)
{
	return (struct command_key){ .key = "device",
				     .type = COMMAND_DEVICE,
				     .ret = ret };
}

/*
 * Read the KEYS (ended by one without a name) of the command O.  -EINVAL: one is missing, or is
 * of another type, or O has a key that is neither among them nor one of "op", "id", "async" and
 * "timeout_ms", which go with every command; -ENODEV.
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

extern const struct pf_kind kind_jobs;

/* Make what jobs/ needs; DIR is their directory.  0 or -ENOMEM. */
int files_add_jobs(struct pf_fs *fs, struct pf_node *dir);
void files_free_jobs(struct pf_fs *fs);

command_op op_wait;
command_op op_cancel;

/*
 * Make a job of what RUN does with the new task that it is given (and ARG): TASK is answered
 * with the job's number at once.  REQUEST_TEXT is what was asked, for request.json.
 */
int job_start(struct task *task, const char *request_text,
	      int (*run)(struct task *job, void *arg, struct pf_err *err), void *arg,
	      struct pf_err *err);

#endif
