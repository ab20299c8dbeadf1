/* SPDX-License-Identifier: Apache-2.0 */
/* Names of inputs and of arrays, compared as lists of segments. */
#ifndef PJRTFS_FORMATS_PROGRAM_PARAM_KEYS_H
#define PJRTFS_FORMATS_PROGRAM_PARAM_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "pjrtfs/base.h"
#include "pjrtfs/program.h"

enum { PF_MAX_PREFIX = 32 /* segments before a directory's leaves that are tried */ };

/* A name, to be compared. */
struct pf_key {
	const char *name; /* borrowed */
	size_t at;        /* which it is */
	size_t off;       /* of its segments in the text of its list, joined by '/' */
	const char *text; /* these, borrowed from there */
	bool found;       /* the other list has it */
};

/* The names that are compared. */
struct pf_keys {
	size_t n;
	struct pf_key *at;  /* owned; in the order of their texts */
	struct pf_buf text; /* all of them, each with a NUL */
};

/* Room for N keys.  -ENOMEM. */
int pf_keys_init(struct pf_keys *keys, size_t n);
void pf_keys_add(struct pf_keys *keys, const char *name);
void pf_keys_release(struct pf_keys *keys);

/* Write and sort KEYS, whose names are set; BARE: without a last segment "value".  -ENOMEM. */
int pf_keys_sort(struct pf_keys *keys, bool bare);

/* The first of KEYS, which are sorted, that is equal to the one before it; NULL: none is. */
const struct pf_key *pf_keys_repeat(const struct pf_keys *keys);

#endif
