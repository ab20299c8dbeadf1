/* SPDX-License-Identifier: Apache-2.0 */
/* The optimized program of an executable, which the plugin writes anew when it is asked. */
#ifndef PJRTFS_STORE_OPTIMIZED_H
#define PJRTFS_STORE_OPTIMIZED_H

#include "pjrtfs/store/executable.h"

/* A HloModuleProto as the compiler left it; in the worker's pool. */
struct pf_optimized {
	const void *bytes; /* borrowed: as long as this lives */
	uint64_t len;
	struct pf_life *life; /* owned reference */
	uint64_t block;       /* the life's to free */
};

void pf_optimized_free(struct pf_optimized *optimized); /* NULL is allowed */

/* Its size in bytes, known since the compile; 0: nothing is compiled. */
uint64_t pf_executable_optimized_len(struct pf_executable *executable);

/* Who wants it: embedded in the caller's own struct, which lives until done. */
struct pf_want_optimized {
	/*
	 * The answer, once, perhaps before pf_executable_optimized returns: CODE 0 and the
	 * program (given), or NULL as nothing is compiled; or CODE < 0 and *ERR.  On any
	 * thread; no lock is held.  Must not block.
	 */
	void (*done)(struct pf_want_optimized *want, int code, struct pf_optimized *got,
		     const struct pf_err *err);
	/* The store's. */
	struct pf_executable *x;
	struct pf_loaded *loaded;
	bool again; /* a process died over it */
	struct pf_call call;
	struct pf_waiter waiter;
};

/*
 * Ask the plugin for the optimized program.  If its process died since the compile, the
 * program compiles again first; one that is being compiled for the first time counts as not
 * compiled.  Does not block.
 */
void pf_executable_optimized(struct pf_executable *executable,
			     struct pf_want_optimized *want);

#endif
