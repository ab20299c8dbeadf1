/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of an execution share. */
#ifndef PJRTFS_FILES_EXECUTE_INTERNAL_H
#define PJRTFS_FILES_EXECUTE_INTERNAL_H

#include <string.h>

#include "execute.h"
#include "files/buffers/buffers.h"
#include "files/jobs/jobs.h"
#include "files/programs/programs.h"
#include "pjrtfs/array_files.h"
#include "pjrtfs/execution.h"

/* The inputs that are the leaves of one directory. */
struct leaves {
	size_t first, n;
	size_t skip; /* bytes of the directory's name at the start of each leaf's */
	bool sorted; /* they were put in the order of the parameters */
};

/* The arguments and results of one device. */
struct row {
	const struct device *device;  /* borrowed */
	struct names inputs, outputs; /* owned: a name for each argument and result */
	struct leaves *leaves;        /* owned: of each directory among the inputs */
	size_t n_leaves;
	/* An output that is a directory which does not exist yet takes some of them. */
	char *directory; /* owned, or NULL */
	size_t first, n; /* outputs in it */
};

/* An execution under names. */
struct named_exec {
	struct task *task;
	struct exec_spec spec;    /* owned */
	struct program *program;  /* owned reference */
	char *name;               /* owned: the executable's, as asked */
	bool spin;                /* see files_execute */
	struct pf_wait waiter;    /* for the program to be compiled */
	struct task_wait pause;   /* until it is */
	struct pf_loaded *loaded; /* owned reference, once it is */

	size_t n_rows, n_in, n_out; /* inputs and outputs of each row */
	struct row *rows;           /* owned */
	struct pf_buffer **buffers; /* owned references: of the inputs, row after row */
	struct target *targets;     /* owned: of the outputs, row after row */
	bool *donate;               /* owned: of the inputs */
	uint32_t *
		carry; /* owned, row after row: which of its outputs replaces the input in
			  * the next repetition, or PF_NO_CARRY */
	/* An input that is on several devices, and its node, an owned reference; or NULL. */
	const struct sharded *mesh;
	struct pf_node *mesh_node;
	uint64_t done; /* repetitions so far */
	bool consumed; /* the first one consumed inputs */
	/* Owned references: inputs that it consumed, and that results will replace. */
	struct pf_value **replaced;
	double seconds, device_seconds, transfer_seconds, queue_seconds;
};

/* Does WORD, an output, stand for a directory? */
static inline bool is_directory_word(const char *word)
{
	return *word && word[strlen(word) - 1] == '/';
}

/*
 * Append to ROW's inputs what WORD stands for.  The leaves of a directory are put in the order of
 * the parameters of S that are next, if their paths are those of the parameters' names, below
 * whatever these have in common.  -errno of files_expand.  (leaves.c)
 */
int run_list_input(struct named_exec *run, struct row *row, const char *word,
		   const struct pf_signature *s, struct pf_err *err);

/*
 * Put NAMES, which WORD, a directory among the outputs, stands for, in the order that a directory
 * among ROW's inputs has that is the same, or has the same leaves; else they stay as they are.
 * -ENOMEM.  (leaves.c)
 */
int run_order_outputs(const struct row *row, const char *word, struct names *names);

/*
 * Find out what the request's names mean, now that the program is known: fills rows,
 * buffers, targets, donate and carry.
 */
int run_resolve(struct named_exec *run, struct pf_err *err);

/* The arguments' values, for E; those that are elsewhere become copies with "move". */
int run_arguments(struct named_exec *run, struct pf_execution *e, struct pf_err *err);

/* Make the directories that outputs go to, and find their places. */
int run_make_directories(struct named_exec *run, struct pf_err *err);

/* Make the directory for the .sharding.json files of results that have one word. */
int run_make_home(struct named_exec *run, struct pf_err *err);

/* Tell how the results that have one word for all devices are split.  The name lock is held
 * until they have it. */
int run_put_shardings_locked(struct named_exec *run, const struct pf_execution *e,
			     struct pf_err *err);

/* What the files of executables/NAME/call share. */

/* A header that was found to be right. */
struct call_head {
	uint64_t data_len;
	bool fortran_order;
	unsigned char len; /* 0: there was none yet, or it was longer */
	char text[192];
};

/* Where each input goes, and how much of them has come. */
struct call_inputs {
	struct pf_loaded *loaded; /* owned reference: what they are for; NULL: none yet */
	uint64_t *offs;           /* owned: where in bytes each input lies */
	uint64_t size;            /* of all of them there */
	struct pf_bytes *bytes;   /* owned reference, or NULL: no room taken yet */
	struct pf_bytes *
		*transposed; /* owned: of each input, the bytes of a column-major one */
	bool transposes;     /* there is such a one */
	struct call_head *known; /* owned: the first inputs' headers as they came last */
	size_t n_known;

	size_t next;        /* the input that comes */
	struct pf_buf head; /* the beginning of its header */
	bool in_data;       /* the header is past: */
	uint64_t len, got;  /* how much data there will be, and is */
	bool whole;         /* all is there */
};

/* Inputs for LOADED come.  -EOPNOTSUPP, -E2BIG: it cannot be called; -ENOMEM, -EOVERFLOW. */
int call_inputs_begin(struct call_inputs *in, struct pf_loaded *loaded,
		      struct pf_err *err);

/*
 * Take what of SRC's LEN bytes belongs to the inputs, up to the end of the last: how many.
 * -EINVAL: no such input, as early as it shows; -ENOSPC, -ENOMEM.
 */
ssize_t call_inputs_take(struct call_inputs *in, const char *src, size_t len,
			 struct pf_err *err);

/* Has anything of them come? */
bool call_inputs_begun(const struct call_inputs *in);

/* Say in *ERR that input in->next is not whole. */
void call_inputs_missing(const struct call_inputs *in, struct pf_err *err);

/* Bytes that are to be transposed to row-major order before the inputs can be used: a copy. */
uint64_t call_inputs_to_transpose(const struct call_inputs *in);
void call_inputs_transpose(struct call_inputs *in);

/* Forget what came; a little room is kept for the next ones. */
void call_inputs_drop(struct call_inputs *in);
void call_inputs_release(struct call_inputs *in);

/* What is to be read: text of its own and bytes that an execution holds, piece by piece. */
struct call_piece {
	const char *data; /* NULL: in text, at off */
	size_t off;
	uint64_t len;
};

struct call_outputs {
	struct pf_buf text;
	struct call_piece *pieces; /* owned */
	size_t n, cap;
	size_t next;                    /* the first that is not read to its end, */
	uint64_t at;                    /* and how far it was read */
	struct pf_execution *execution; /* owned, or NULL: what pieces point to */
	/* The outputs' headers, one after another, of a signature that stays the same. */
	struct pf_loaded *loaded; /* owned reference */
	struct pf_buf heads;
	size_t *ends; /* owned: of each in heads */
};

/* The results of LOADED are to be read; E is taken.  -ENOMEM. */
int call_outputs_fill(struct call_outputs *out, struct pf_loaded *loaded,
		      struct pf_execution *e);

/* TEXT and a newline are to be read. */
void call_outputs_say(struct call_outputs *out, const struct pf_buf *text);

/*
 * The next bytes, up to LEN, in *DATA: how many, 0 at the end.  *JOINED is the caller's to
 * free, or NULL.  They count as read when call_outputs_read says so.
 */
size_t call_outputs_peek(struct call_outputs *out, size_t len, const char **data,
			 char **joined);
/* LEN of them were read; true if these were the last. */
bool call_outputs_read(struct call_outputs *out, size_t len);

void call_outputs_release(struct call_outputs *out);

/*
 * Calls that ended well and that no event has reported yet.  An event for each would push out
 * all others, and cost as much as the call: there is one a second, and one at the end.
 */
struct call_tally {
	struct program *program; /* borrowed */
	uid_t uid;               /* whose calls they are */
	uint64_t n;
	double seconds, device_seconds; /* of all of them */
	struct timespec began;          /* the first, CLOCK_MONOTONIC */
	struct pf_worker *worker;       /* borrowed: where they ran, */
	unsigned device;                /* and on which of its devices */
	bool closed;                    /* no more are asked for */
};

/* --- one open file ------------------------------------------------------------------ */

/* What goes on. */
enum call_state {
	CALL_TAKING,  /* inputs; if none has begun, nothing is going on */
	CALL_LOADING, /* a write waits for the program to be compiled */
	CALL_RUNNING,
	CALL_GIVING,  /* outputs are being read */
	CALL_FAILED,  /* the next read fails with the errno, */
	CALL_TELLING, /* and the next ones why */
};

struct call {
	_Atomic unsigned refs;   /* the open file; what goes on without it */
	struct program *program; /* owned reference */
	struct pf_node *node;    /* owned reference: for pf_node_ready */

	struct pf_stream stream; /* its lock protects the fields below */
	enum call_state state;
	struct call_inputs in;
	struct call_outputs out;
	struct pf_err err;            /* what failed */
	struct pf_instance *instance; /* owned reference: where it runs */
	struct writer *writer;        /* parked until the program is compiled, or NULL */
	struct pf_wait wait;          /* the writer's, for the program */
	_Atomic bool done; /* the execution has ended: spinning readers take no lock */
	struct pf_timer abandon;      /* armed since the file was closed while it ran */
	bool closed;                  /* that was so */
	struct pf_execution *running; /* borrowed: in CALL_RUNNING */
	struct call_tally tally;
};

#endif
