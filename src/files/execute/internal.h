/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of src/files/execute. */
#ifndef PJRTFS_FILES_EXECUTE_INTERNAL_H
#define PJRTFS_FILES_EXECUTE_INTERNAL_H

#include <string.h>
#include <sys/uio.h>

#include "execute.h"
#include "files/buffers/buffers.h"
#include "files/jobs/jobs.h"
#include "files/programs/programs.h"
#include "pjrtfs/array_files.h"
#include "pjrtfs/execution.h"

/* A word of the inputs. */
struct line_word {
	const char *word; /* borrowed from the request */
	const char
		*param; /* borrowed: the input's name that it was given with, or NULL */
	enum files_expansion is; /* what it stands for */
	size_t first, n;         /* its arrays among all that the words stand for */
	size_t skip; /* of a directory: bytes of its name at the start of each array's; else 0 */
	bool by_name; /* names said which inputs its arrays are; else their order did */
};

/* The arguments and results of one device. */
struct row {
	const struct device *device;  /* borrowed */
	struct names inputs, outputs; /* owned: a name for each argument and result */
	struct line_word *words;      /* owned: of the inputs */
	size_t n_words;
	/* An output that is a directory which does not exist yet takes some of them. */
	char *directory; /* owned, or NULL */
	size_t first, n; /* outputs in it */
};

/* An execution under names. */
struct named_exec {
	struct task *task;
	struct exec_spec spec;     /* owned */
	struct program *program;   /* owned reference */
	char *name;                /* owned: the executable's, as in the request */
	bool spin;                 /* see files_execute */
	struct pf_wait waiter;     /* for the program to be compiled */
	struct task_wait wait;     /* until it is */
	struct pf_loaded *loaded;  /* owned reference, once it is, */
	struct pf_loaded_facts is; /* and what it is */

	size_t n_rows, n_in, n_out; /* inputs and outputs of each row */
	struct row *rows;           /* owned */
	struct pf_buffer **buffers; /* owned references: of the inputs, row after row */
	bool *donated;              /* owned: inputs that "donate" has; NULL: none */
	struct target *targets;     /* owned: of the outputs, row after row */
	char **devices;             /* owned: the rows' devices, borrowed names */
	/* An input that is on several devices, and its node, an owned reference; or NULL. */
	const struct sharded *mesh;
	struct pf_node *mesh_node;
	uint64_t done; /* repetitions so far */
	int64_t began; /* CLOCK_MONOTONIC, ms: the first one was sent; 0: not yet */
	bool consumed; /* the first one consumed inputs */
	/* Owned references: inputs that it consumed, and that results will replace. */
	struct pf_value **replaced;
	double seconds, device_seconds, transfer_seconds, queue_seconds;
};

/* The device in PROGRAM's home of row ROW of what is LOADED of it; borrowed.  NULL: it is not in
 * devices/, and *ERR is -ENODEV.  (arguments.c) */
const struct device *run_device(const struct program *program,
				const struct pf_loaded_facts *loaded, size_t row,
				struct pf_err *err);

/*
 * If *VALUE is of another home than D, let it be a copy for D's worker, which ACCOUNT is charged
 * for; if MOVE, also if it is on another device.  -ENOMEM: it is NULL.  (arguments.c)
 */
int run_move(struct pf_value **value, const struct device *d, bool move,
	     struct pf_account *account, struct pf_err *err);

/*
 * List in ROW, which has none yet, the inputs that WORDS stand for, for a program with signature S, in the
 * order of its parameters; with PARAMS, the parameter of each word or "".  If the leaves of a
 * directory have the names of parameters at its place, they are these; else names are compared as
 * pf_params_assign says, unless POSITIONAL, if the program's inputs have names.  With STARS "*" stands for
 * itself.  -errno of files_expand and of pf_params_assign.  (leaves.c)
 */
int run_list_inputs(const struct pf_signature *s, struct row *row,
		    const struct names *words, const struct names *params,
		    bool positional, bool stars, const struct pf_cred *cred,
		    struct pf_err *err);

/*
 * WORD, a directory among the outputs, stands for NAMES: sort them like the leaves of the
 * same directory among ROW's inputs, or of one that has the same leaves; if there is
 * none, keep the order.  -ENOMEM.  (leaves.c)
 */
int run_order_outputs(const struct row *row, const char *word, struct names *names);

/*
 * Find out what the request's names mean, now that the program is known: fills rows,
 * devices, buffers and targets, and makes the execution *RET with its arguments, which the
 * caller frees, also after an error.
 */
int run_resolve(struct named_exec *run, struct pf_execution **ret, struct pf_err *err);

/* Make the directories of outputs, and find the targets in them; make that for the
 * .sharding.json files of results that have one word. */
int run_make_directories(struct named_exec *run, struct pf_err *err);

/* Write the sharding files of the results that have one word for all devices.  The caller
 * holds the name lock until the results are named. */
int run_put_shardings_locked(struct named_exec *run, const struct pf_execution *e,
			     struct pf_err *err);

/* The meaning of a line of bind for a program: its inputs, and those that a call takes.  All zeros: none
 * is bound.  (bind.c) */
struct bound {
	const struct device *device; /* borrowed: where names begin */
	struct names inputs;         /* owned: a name for each input, "*" for a call's */
	struct pf_param
		*params; /* owned, but what they refer to: those of the call's inputs */
	size_t n;        /* of params */
};

/*
 * Set *B, which is all zeros, to what LINE means for the inputs of LOADED, which PROGRAM has, and for
 * CRED.  The leaves of a directory are those that it has now.  -EINVAL, -ENOENT, -EACCES, -E2BIG,
 * -ENODEV, -ENOMEM: *B is all zeros.
 */
int bound_make(struct bound *b, const char *line, const struct program *program,
	       const struct pf_loaded *loaded, const struct pf_cred *cred,
	       struct pf_err *err);

/* Give the arguments of E that are bound their present values, which CRED may read; ACCOUNT is charged
 * for copies.  B stays until E has ended.  -ENOENT, -EACCES, -ENODATA, -EINVAL, -ENOMEM. */
int bound_find(const struct bound *b, struct pf_execution *e, const struct pf_cred *cred,
	       struct pf_account *account, struct pf_err *err);

void bound_release(struct bound *b);

/* Is LINE one that a user with CRED may bind?  If PROGRAM is compiled, all that it names must be there.
 * 0, or -errno of bound_make and bound_find. */
int bind_check(struct program *program, const char *line, const struct pf_cred *cred,
	       struct pf_err *err);

/*
 * Arrays of a conversation on one descriptor: .npy files, or their data alone, one after another,
 * in pieces of any size.  (arrays.c)
 */

/* The headers of N arrays, as NumPy prints them.  All zeros is an empty list. */
struct array_heads {
	struct pf_buf text;
	size_t *ends; /* owned: where each begins and ends */
};

/* Print those of the N arrays that PARAMS describe.  -ENOMEM. */
int array_heads_print(struct array_heads *heads, const struct pf_param *params, size_t n,
		      struct pf_err *err);

/* Header I, borrowed, of *LEN bytes. */
const char *array_head(const struct array_heads *heads, size_t i, size_t *len);

void array_heads_release(struct array_heads *heads);

/* Arrays that a client writes, and how much of them it has written so far. */
struct arrays_in {
	/* The caller's. */
	struct pf_account *account; /* borrowed: the client's, charged for them */
	const char *what;           /* static: "input", for sentences */
	bool raw;                   /* arrays come without headers */

	struct pf_arena *arena;        /* borrowed, as the next one: from begin on */
	const struct pf_param *params; /* what each must be */
	size_t n;                      /* 0: not begun, or there are none */
	uint64_t *offs;                /* owned: where in bytes each lies */
	uint64_t size;                 /* of all */
	struct pf_bytes *bytes;        /* owned reference, or NULL: not allocated yet */
	struct pf_bytes *
		*transposed;   /* owned: of each, the bytes of a column-major one */
	uint64_t to_transpose; /* bytes of these, to be copied before they are used */
	struct array_heads heads;

	size_t next;        /* the current one */
	struct pf_buf head; /* the beginning of its header */
	bool in_data;       /* its header is complete, and */
	uint64_t len, got;  /* the length of its data, and of those so far */
	bool whole;         /* all are complete */
};

/* Begin anew, for N arrays as PARAMS describe them, which live in ARENA; both are borrowed until the
 * next begin, or the release.  -ENOMEM, -EOVERFLOW. */
int arrays_in_begin(struct arrays_in *in, struct pf_arena *arena,
		    const struct pf_param *params, size_t n, struct pf_err *err);

/*
 * Take the bytes of SRC (LEN) up to the end of the last array.  Returns how many.
 * -EINVAL: not such an array, as soon as that shows; -ENOSPC, -EDQUOT, -ENOMEM.
 */
ssize_t arrays_in_take(struct arrays_in *in, const char *src, size_t len,
		       struct pf_err *err);

/* Was any byte of them written? */
bool arrays_in_begun(const struct arrays_in *in);

/* Set *ERR: array in->next is not complete. */
void arrays_in_missing(const struct arrays_in *in, struct pf_err *err);

/* Copy column-major arrays into row-major order; and does that take so long that it needs a thread of
 * its own? */
void arrays_in_transpose(struct arrays_in *in);
bool arrays_in_is_slow(const struct arrays_in *in);

/* Drop what was written; a little memory is kept for the next ones. */
void arrays_in_drop(struct arrays_in *in);
void arrays_in_release(struct arrays_in *in);

/* Bytes that a client has not read yet: headers and arrays, or a text.  All zeros: none. */
struct arrays_out {
	struct pf_buf text;   /* headers, small arrays, or what the text says */
	struct iovec *pieces; /* owned: of text, and of memory that is borrowed */
	size_t n, cap;
	size_t next; /* the first that was not read to its end; the others are whole */
	void *kept;  /* or NULL: what the borrowed memory belongs to; at the end, */
	void (*drop)(void *kept); /* this is called */
};

/* Begin anew, with room for N pieces and LEN bytes of text, which then stay where they are.
 * -ENOMEM. */
int arrays_out_begin(struct arrays_out *out, size_t n, size_t len);

/* Append LEN bytes, a copy. */
void arrays_out_text(struct arrays_out *out, const void *text, size_t len);

/* Append array I of HEADS (NULL: without a header), two pieces at most: LEN bytes of DATA, borrowed, or a
 * COPY. */
void arrays_out_array(struct arrays_out *out, const struct array_heads *heads, size_t i,
		      const void *data, size_t len, bool copy);

/* Make TEXT the bytes to be read.  -ENOMEM. */
int arrays_out_say(struct arrays_out *out, const struct pf_buf *text);

/* Answer REPLY, whose reference stays the caller's, with the next bytes, up to LEN.  Returns how many, 0
 * at the end. */
size_t arrays_out_answer(struct arrays_out *out, size_t len, struct pf_reply *reply);

/* Were all bytes read? */
static inline bool arrays_out_ended(const struct arrays_out *out)
{
	return !out->n;
}

void arrays_out_clear(struct arrays_out *out);
void arrays_out_release(struct arrays_out *out);

#endif
