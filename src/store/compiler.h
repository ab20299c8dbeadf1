/* SPDX-License-Identifier: Apache-2.0 */
/* What compiler.c offers to compile.c and cached.c.  Private to the store. */
#ifndef PJRTFS_STORE_COMPILER_INTERNAL_H
#define PJRTFS_STORE_COMPILER_INTERNAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "pjrtfs/store/compiler.h"
#include "pjrtfs/store/executable.h"

/* Something to compile, embedded in the struct of compile.c. */
struct pf_compile_job {
	/* On a thread of the compiler, which may wait; the job may be gone afterwards. */
	void (*run)(struct pf_compile_job *job);
	uid_t user; /* whose turn it takes */
	bool alone; /* runs while nothing else does that has not run for long */
	struct pf_compile_job *next; /* whoever has it */
};

/* Queue JOB at the end of its user's, or at the FRONT of all.  Does not block. */
void pf_compiler_add(struct pf_compiler *compiler, struct pf_compile_job *job,
		     bool front);

/* How many jobs begin before JOB, and 1; 0: it has begun. */
unsigned pf_compiler_position(struct pf_compiler *compiler,
			      const struct pf_compile_job *job);

/* The job that this thread runs takes long: another one may begin. */
void pf_compiler_takes_long(struct pf_compiler *compiler);

/* Between these, pf_compiler_settle waits. */
void pf_compiler_begin_put(struct pf_compiler *compiler);
void pf_compiler_end_put(struct pf_compiler *compiler);

struct pf_cache *pf_compiler_cache(struct pf_compiler *compiler); /* may be NULL */
/* The default compile options as JSON, or NULL; borrowed, never change. */
const char *pf_compiler_options(struct pf_compiler *compiler);
unsigned pf_compiler_timeout_s(struct pf_compiler *compiler);
/* How many compiles were given up and go on in workers: changed by who does so. */
_Atomic unsigned *pf_compiler_given_up(struct pf_compiler *compiler);
/* What ended workers lately; borrowed, as long as the compiler is there. */
struct pf_quarantine *pf_compiler_quarantine(struct pf_compiler *compiler);
/* What keys hold of the host; borrowed, never changes. */
const char *pf_compiler_host(struct pf_compiler *compiler);
/* Append what they hold of the environment of WORKER's LIFE, as it was when it was asked for
 * first: a plugin reads it once.  May block for a file that XLA_FLAGS names. */
void pf_compiler_environment(struct pf_compiler *compiler, const struct pf_worker *worker,
			     const struct pf_life *life, struct pf_buf *out);

/* One compile a key and place: the first one leads, others follow. */
struct pf_claim;

/*
 * JOB wants KEY, made at the place WHERE (which is only compared: the same plugin may be there
 * twice).  PF_LEADS: *CLAIM is its own, to be settled and dropped.  PF_FOLLOWS: JOB is
 * with the leader, who gets it back by settling.  PF_SHARES: *LOADED is what the leader made,
 * a reference.  -ENOMEM.
 */
enum pf_claimed { PF_LEADS, PF_FOLLOWS, PF_SHARES };
int pf_compiler_claim(struct pf_compiler *compiler, const struct pf_cache_key *key,
		      const void *where, struct pf_compile_job *job,
		      struct pf_claim **claim, struct pf_loaded **loaded);

/* CLAIM's compile gave LOADED (NULL: it failed).  The followers, which become the caller's. */
struct pf_compile_job *pf_claim_settle(struct pf_compiler *compiler,
				       struct pf_claim *claim, struct pf_loaded *loaded);
void pf_claim_drop(struct pf_compiler *compiler, struct pf_claim *claim);

#endif
