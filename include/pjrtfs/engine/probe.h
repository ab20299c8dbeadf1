/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second opinion: can another plugin that was found, but is not loaded, read a program
 * that the loaded one refuses?  It is asked in a worker of its own that lives as long as
 * the question.
 */
#ifndef PJRTFS_ENGINE_PROBE_H
#define PJRTFS_ENGINE_PROBE_H

#include "pjrtfs/engine/worker.h"

struct pf_probe;

/* A plugin that was found. */
struct pf_candidate {
	char *name; /* borrowed; copied by pf_probe_new, as all but refused */
	char *path;
	struct json_object *options; /* create options, or NULL */
	struct json_object *env;     /* as in struct pf_worker_config, or NULL */
	struct json_object *sandbox; /* likewise */
	char *refused;               /* why it must not be started; NULL: it may be */
};

/*
 * Remember N candidates; nothing is started.  PROGRAM: pjrtfs-worker's path; POOL_SIZE: as
 * in struct pf_worker_config; ARENA is borrowed.  NULL: no memory.
 */
struct pf_probe *pf_probe_new(const struct pf_candidate *candidates, unsigned n,
			      const char *program, uint64_t pool_size,
			      struct pf_arena *arena);

/* Stop every question (they are answered with "nobody can") and free.  NULL is allowed. */
void pf_probe_free(struct pf_probe *probe);

/* A question.  The asker fills it in and keeps it, and the program's bytes, until done. */
struct pf_question {
	struct pf_req_compile request; /* format, program_off, program_len */
	const void *options;           /* CompileOptionsProto, borrowed */
	size_t options_len;
	int api_minor; /* only plugins with a later API are asked */
	/*
	 * The answer, once, on a thread of its own: WHO can compile it ("cpu-0.115", its API
	 * version MINOR), or NULL.
	 */
	void (*done)(struct pf_question *question, const char *who, int minor);
	struct pf_probe *probe; /* the engine's */
};

/* Ask.  False: there is nobody to ask, and done is not called.  Does not block. */
bool pf_probe_ask(struct pf_probe *probe, struct pf_question *question);

#endif
