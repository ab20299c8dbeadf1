/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who compiles when: a fair queue between users, so many compiles at a time, and the cache
 * that may save them.
 */
#ifndef PJRTFS_STORE_COMPILER_H
#define PJRTFS_STORE_COMPILER_H

#include <stdint.h>
#include <sys/types.h>

#include "pjrtfs/base/err.h"
#include "pjrtfs/cache/cache.h"
#include "pjrtfs/engine/worker.h"

struct pf_compiler;

struct pf_compiler_config {
	struct pf_cache *cache; /* borrowed, outlives it; NULL: there is none */
	unsigned jobs;          /* compiles at a time; 0: one for each processor */
	unsigned timeout_s;     /* seconds that one may take; 0: no limit */
	/* Compile options that programs have where their own do not say otherwise: a JSON
	 * object, copied; NULL: none. */
	const char *options;
	uid_t owner; /* of the mount: never refused what ended a worker before */
};

/* ret   on success, the caller's; pf_compiler_free.  -ENOMEM. */
int pf_compiler_new(const struct pf_compiler_config *config, struct pf_compiler **ret,
		    struct pf_err *err);

/*
 * Have WORKER's plugin identified for the cache, behind, so that the first compile need not
 * wait for 250 MB to be read.  Does not block.
 */
void pf_compiler_warm(struct pf_compiler *compiler, struct pf_worker *worker);

/* Wait until what was compiled is in the cache, at most MS milliseconds. */
void pf_compiler_settle(struct pf_compiler *compiler, unsigned ms);

/*
 * End its threads.  The workers have been stopped, so those waiting fail, and whoever asks
 * for a compile from now on fails at once.  Blocks until the last one has.  NULL is allowed.
 */
void pf_compiler_stop(struct pf_compiler *compiler);

/* Stop and free it; nobody asks any more.  NULL is allowed. */
void pf_compiler_free(struct pf_compiler *compiler);

#endif
