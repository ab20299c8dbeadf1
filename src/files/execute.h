/* What the files of an execution share.  Private to src/files/execute*.c. */
#ifndef PJRTFS_FILES_EXECUTE_H
#define PJRTFS_FILES_EXECUTE_H

#include "command.h"

/* What one device takes part with. */
struct row {
	const struct device *device;  /* borrowed */
	struct names inputs, outputs; /* owned: a name for each argument and result */
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
	struct pf_loaded *loaded; /* owned reference, once it is */

	size_t n_rows, n_in, n_out; /* inputs and outputs of each row */
	struct row *rows;           /* owned */
	struct pf_buffer **buffers; /* owned references: of the inputs, row after row */
	struct target *targets;     /* owned: of the outputs, row after row */
	bool *donate;               /* owned: of the inputs */
	size_t *fed; /* owned: which of the row's outputs the input is in the
				     * next repetition; n_out: none */
	/* An input that is on several devices, and its node, an owned reference; or NULL. */
	const struct sharded *mesh;
	struct pf_node *mesh_node;
	uint64_t done; /* repetitions so far */
	double seconds, device_seconds, transfer_seconds, queue_seconds;
};

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

/* The reply to an execution whose last repetition was E. */
struct json_object *run_reply(const struct run *run, const struct pf_execution *e);

#endif
