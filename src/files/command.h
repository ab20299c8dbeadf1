/*
 * Commands: what is asked for, by whom, and where the answer goes.
 *
 * A task is one thing that was asked for: a command at control or run, a step of a batch, an
 * asynchronous job.  Who does it needs to know only the task; it ends with task_done or
 * task_fail, on any thread.
 */
#ifndef PJRTFS_FILES_COMMAND_H
#define PJRTFS_FILES_COMMAND_H

#include "files.h"
#include "pjrtfs/base/timer.h"

struct task;

/* Where a kind of task comes from. */
struct task_ops {
	/* Did who waits for it go away?  Not called once it was answered. */
	bool (*cancelled)(struct task *task);
	/* The answer, once: CODE is 0 or -errno, REPLY a JSON object (owned by the callee). */
	void (*answer)(struct task *task, int code, struct json_object *reply);
	/* It has begun: what cannot be undone is under way.  Perhaps more than once.  May be
	 * NULL. */
	void (*began)(struct task *task);
	/* LAST of it is being sent: may what comes after the task go along?  See
	 * pf_execution_join.  May be NULL. */
	bool (*follow)(struct task *task, struct pf_execution *last);
	/* It was to go along, and did not begin: it is dropped, without an answer. */
	void (*left)(struct task *task);
	void (*free)(struct task *task);
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
	pthread_mutex_t lock; /* rank 3; protects the fields below */
	bool answered;
	struct pf_execution *execution; /* borrowed: of it, or of its step; or NULL */
	/* For those who must stop it, or its step: */
	struct pf_worker *worker;        /* borrowed: where it is being done, or NULL */
	struct pf_executable *compiling; /* owned reference: what is compiled for it */
	struct pf_timer timer;           /* not protected */
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

/* What TASK asks for has begun. */
void task_began(struct task *task);

/* TASK is cancelled: if it waits for its turn on a device, it ends here. */
void task_unqueue(struct task *task);

/* How many begin before it does on its device, and itself; 0: it does not wait for that. */
unsigned task_position(struct task *task);

/* Answer ETIMEDOUT if nothing else was answered within MS milliseconds. */
int task_set_timeout(struct task *task, uint64_t ms, struct pf_err *err);

/* {"ok":true} */
struct json_object *reply_new(void);

/* {"ok":false,"error":{"errno","code","message"}} */
struct json_object *reply_failure(const struct pf_err *err);

/* Append a reply as a line for people: "ok: z F32[3] on cpu:0 in 0.000096 s". */
void reply_print(struct json_object *reply, struct pf_buf *out);

/* --- what is asked for (request.c) ------------------------------------------------------ */

/* A list of words or names.  All zeros is an empty one. */
struct names {
	size_t n;
	char **at; /* owned strings in an owned array */
};

int names_add(struct names *names, const char *str, size_t len);
void names_release(struct names *names);

/* Lists of names, one for each device; n 0: one list for all of them, at[0]. */
struct rows {
	size_t n;
	struct names *at; /* owned; at least one */
};

/* The names for row I. */
const struct names *rows_at(const struct rows *rows, size_t i);

/* What an execution is asked to do.  All zeros is nothing. */
struct request {
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
	REQUEST_MAX_ROWS = 1024,
	REQUEST_MAX_REPEAT = 1000000000,
	REQUEST_MAX_TIMEOUT = 1000000000, /* ms: eleven days */
};

void request_release(struct request *request);

/* Split a run line "x y -> z donate=x" into REQUEST; -EINVAL. */
int request_parse_line(const char *line, struct request *request, struct pf_err *err);

/*
 * Read an execution's keys of a JSON command into REQUEST.  Keys that are neither these nor
 * in OTHERS (NULL-terminated) are refused.
 */
int request_parse(struct json_object *o, const char *const *others,
		  struct request *request, struct pf_err *err);

/* Refuse keys that are not in ALLOWED (NULL-terminated); "op", "id", "async" and "timeout_ms"
 * go with every command. */
int command_check_keys(struct json_object *o, const char *const *allowed,
		       struct pf_err *err);

/* The string under KEY; -EINVAL: it is missing, no string, or has a NUL character. */
int command_string(struct json_object *o, const char *key, const char **ret,
		   struct pf_err *err);

/* The whole number under KEY, from MIN to MAX; *RET stays if it is missing. */
int command_number(struct json_object *o, const char *key, uint64_t min, uint64_t max,
		   uint64_t *ret, struct pf_err *err);

/* True or false under KEY; *RET stays if it is missing. */
int command_bool(struct json_object *o, const char *key, bool *ret, struct pf_err *err);

/* The device that "device" names, or the default one. */
int command_device(struct pf_fs *fs, struct json_object *o, const struct device **ret,
		   struct pf_err *err);

/* --- doing it ----------------------------------------------------------------------------- */

/*
 * Run one op: returns 0 when TASK is, or will be, answered; -errno with *ERR set when it is
 * not, for the caller to answer.
 */
typedef int command_op(struct task *task, struct json_object *o, struct pf_err *err);

command_op op_execute; /* execute.c */
command_op op_compile; /* compile.c */
command_op op_create;  /* create.c */
command_op op_copy;
command_op op_shard;  /* shard.c */
command_op op_gather; /* gather.c */
command_op op_batch;  /* batch.c */
command_op op_wait;   /* jobs.c */
command_op op_cancel;

/*
 * Answer TASK with REPLY (taken) once VALUE is on its device, in its memory MEMORY, and has
 * the name TARGET (taken), which OP gave it; or with a failure.  -ENOMEM: it is not answered,
 * TARGET is the caller's still.
 */
int command_put_value(struct task *task, const char *op, unsigned memory,
		      struct pf_value *value, struct target *target,
		      struct json_object *reply, struct pf_err *err);

/* Find the op that O names and run it, as a job if it says "async". */
command_op command_run;

/*
 * Execute UNIT (called NAME) as REQUEST says and put the results under their names.  Takes
 * REQUEST's contents.  SETTLE: the calling thread may look for the answer itself for some
 * microseconds; not on threads that take replies.
 */
void files_execute(struct task *task, struct unit *unit, const char *name,
		   struct request *request, bool settle);

/*
 * Have the command O, an execution, go along with LAST as TASK.  False: it must wait for
 * what is under way; nothing has happened.
 */
bool files_execute_along(struct task *task, struct json_object *o,
			 struct pf_execution *last);

/*
 * Make a job of what RUN does with the new task that it is given (and ARG): TASK is answered
 * with the job's number at once.  REQUEST_TEXT is what was asked, for request.json.
 */
int job_start(struct task *task, const char *request_text,
	      int (*run)(struct task *job, void *arg, struct pf_err *err), void *arg,
	      struct pf_err *err);

#endif
