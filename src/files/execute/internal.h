/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of an execution share. */
#ifndef PJRTFS_FILES_EXECUTE_INTERNAL_H
#define PJRTFS_FILES_EXECUTE_INTERNAL_H

#include <string.h>

#include "files/buffers/buffers.h"
#include "execute.h"
#include "files/tasks/request.h"

/* A directory among the inputs: which of them its leaves are. */
struct leaves {
	size_t first, n;
	size_t skip; /* bytes of the names before what is the leaf's in the directory */
	bool sorted; /* their order is the parameters', and not the directory's own */
};

/* What one device takes part with. */
struct row {
	const struct device *device;  /* borrowed */
	struct names inputs, outputs; /* owned: a name for each argument and result */
	struct leaves *leaves;        /* owned: of each directory among the inputs */
	size_t n_leaves;
	/* An output that is a directory which is not there yet takes some of them. */
	char *directory; /* owned, or NULL */
	size_t first, n; /* outputs in it */
};

/* An execution under names. */
struct run {
	struct task *task;
	struct request request;   /* owned */
	struct unit *unit;        /* owned reference */
	char *name;               /* owned: the executable's, as asked */
	bool settle;              /* see files_execute */
	struct pf_waiter waiter;  /* for the program to be compiled */
	struct task_pause pause;  /* until it is */
	struct pf_loaded *loaded; /* owned reference, once it is */

	size_t n_rows, n_in, n_out; /* inputs and outputs of each row */
	struct row *rows;           /* owned */
	struct pf_buffer **buffers; /* owned references: of the inputs, row after row */
	struct target *targets;     /* owned: of the outputs, row after row */
	bool *donate;               /* owned: of the inputs */
	size_t *fed; /* owned, row after row: which of its outputs the input is in the
				     * next repetition; n_out: none */
	/* An input that is on several devices, and its node, an owned reference; or NULL. */
	const struct sharded *mesh;
	struct pf_node *mesh_node;
	uint64_t begun, done; /* repetitions so far */
	bool consumed;        /* the first one consumed inputs */
	/* Owned references: inputs that it consumed, and that results will replace. */
	struct pf_value **replaced;
	/* One that goes along with others knows what these will give, until it is resolved. */
	const struct run *before;   /* borrowed: the one before; NULL: none */
	struct pf_buffer **results; /* owned: of the outputs, once there are promises */
	bool adds;                  /* some of them are new names in a directory */
	double seconds, device_seconds, transfer_seconds, queue_seconds;
};

/* Does WORD, an output, stand for a directory? */
static inline bool is_directory_word(const char *word)
{
	return *word && word[strlen(word) - 1] == '/';
}

/* Find the devices, and list what the request's words stand for on each: fills rows, n_in and
 * n_out.  (rows.c) */
int run_list_rows(struct run *run, struct pf_err *err);

/*
 * Append to ROW's inputs what WORD stands for.  The leaves of a directory are put in the order of
 * the parameters of S that are next, if their paths are those of the parameters' names, below
 * whatever these have in common.  -errno of files_expand.  (leaves.c)
 */
int run_list_input(struct run *run, struct row *row, const char *word,
		   const struct pf_signature *s, struct pf_err *err);

/*
 * Put NAMES, which WORD, a directory among the outputs, stands for, in the order that a directory
 * among ROW's inputs has that is the same, or has the same leaves; else they stay as they are.
 * -ENOMEM.  (leaves.c)
 */
int run_order_outputs(const struct row *row, const char *word, struct names *names);

/*
 * Find out what the request's names mean, now that the program is known: fills rows,
 * buffers, targets, donate and fed.
 */
int run_resolve(struct run *run, struct pf_err *err);

/* The arguments' values, for E; those that are elsewhere become copies with "move". */
int run_arguments(struct run *run, struct pf_execution *e, struct pf_err *err);

/* Make the directories that outputs go to, and find their places. */
int run_make_directories(struct run *run, struct pf_err *err);

/*
 * Arguments that are on several devices are where the program takes them, and results that
 * will be may have their names.  -EINVAL, and what files_check_sharding says.
 */
int run_check_shards(struct run *run, struct pf_err *err);

/* Make the directory in which the files lie that tell of results that have one word. */
int run_make_home(struct run *run, struct pf_err *err);

/* Tell how the results that have one word for all devices are split.  The name lock is held
 * until they have it. */
int run_put_shardings_locked(struct run *run, const struct pf_execution *e,
			     struct pf_err *err);

/* --- execute.c, for those that go along --------------------------------------------- */

/* A new run, of REQUEST, whose contents are taken; NULL: no memory. */
struct run *run_new(struct task *task, struct unit *unit, const char *name,
		    struct request *request);
void run_free(struct run *run);

/* E is the next repetition of RUN: fill in all but the arguments. */
void run_prepare(struct run *run, struct pf_execution *e);

/* The repetition after E, whose results take the places of the inputs that have their
 * names; NULL: no memory. */
struct pf_execution *run_feed(struct run *run, const struct pf_execution *e);

/* --- what goes along (along.c) ------------------------------------------------------ */

/* As pf_execution's: LAST is being sent. */
bool run_follow(struct pf_execution *last);
void run_left(struct pf_execution *e);

/* What RUN promised to others, if anything, is void, or theirs. */
void run_drop_results(struct run *run);

/* The buffer that NAME will be when those that RUN goes along with have ended, in *RET with a
 * reference; false: it is what it is. */
bool run_find_promised(const struct run *run, const struct device *device,
		       const char *name, struct pf_buffer **ret);

/* The buffer that TARGET has, or will have, with a reference, or NULL. */
struct pf_buffer *run_target_buffer(const struct run *run, const struct target *target);

/* The reply to an execution whose last repetition was E. */
struct json_object *run_reply(const struct run *run, const struct pf_execution *e);

#endif
