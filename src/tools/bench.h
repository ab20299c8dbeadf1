/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of pjrtfs-bench: clients that execute a program, and the report of their times. */
#ifndef PJRTFS_TOOLS_BENCH_H
#define PJRTFS_TOOLS_BENCH_H

#include "internal.h"

/* Parts of an execution; a client knows some of them. */
enum phase {
	TOTAL,
	UPLOAD,
	QUEUE,
	EXECUTE,
	WAIT /* queue and execution */,
	DOWNLOAD,
	PHASES
};

/* The seconds of one execution; negative: not known. */
struct times {
	double of[PHASES];
};

/* The subject of a measurement. */
struct bench {
	char mount[4096], program[4096];
	char **inputs; /* names of buffers, borrowed from argv */
	unsigned n_inputs;
	long runs, warmup, clients;
	bool json;
	struct json_object *signature; /* owned */
	size_t bytes_in,
		bytes_out; /* of an execution by `call.raw`, or read from buffers */
};

/* One client: a thread with descriptors of its own. */
struct client;

/* A client of B, which outlives it, with the number N, for the names of its results.  NULL: no
 * memory. */
struct client *client_new(struct bench *b, long n);

/* Close the descriptors, and open others at the next run. */
void client_pause(struct client *c);

/* Execute the program once, which sets *T.  0, or -errno with a sentence.  Blocks. */
int client_run(struct client *c, struct times *t, struct pf_err *err);

/* The bytes that the last run wrote and read. */
void client_bytes(const struct client *c, size_t *ret_in, size_t *ret_out);

/* Remove the results, and free the client; NULL is allowed. */
void client_free(struct client *c);

/* What all runs gave. */
struct result {
	struct times *runs; /* borrowed; they are sorted phase by phase */
	long n;
	double seconds; /* from the first start to the last end */
	double execute; /* mean of the execution on the device by `events`; negative: not known */
};

/* Print the report of R to standard output, as text or JSON.  0, or -ENOMEM. */
int report(const struct bench *b, const struct result *r, struct pf_err *err);

#endif
