/* SPDX-License-Identifier: Apache-2.0 */
/* What the command line says of the cache and of compiles. */
#ifndef PJRTFS_CACHE_OPTIONS_H
#define PJRTFS_CACHE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "pjrtfs/base/err.h"

struct cache_options {
	char *dir; /* owned: --cache-dir; NULL: the default */
	uint64_t size;
	bool off;
	unsigned jobs;      /* 0: one for each processor */
	unsigned timeout_s; /* 0: none */
};

/*
 * Take NAME ("dir", "size", "off", "jobs", "timeout") with VALUE (NULL for off).  -EINVAL: a
 * value that is none.
 */
int cache_options_take(struct cache_options *o, const char *name, const char *value,
		       struct pf_err *err);

/*
 * The directory to use, the caller's: DIR, made absolute; else $PJRTFS_CACHE_DIR, else
 * pjrtfs in $XDG_CACHE_HOME, else .cache/pjrtfs in the user's home.  NULL: no memory, or no
 * home.
 */
char *cache_options_dir(const struct cache_options *o);

/* VALUE, a number from 1 to MAX, into *RET.  0; -EINVAL with a sentence about WHAT. */
int option_number(const char *what, const char *value, unsigned max, unsigned *ret,
		  struct pf_err *err);

#endif
