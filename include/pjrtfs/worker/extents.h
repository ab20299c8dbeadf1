/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which parts of a range are in use: an allocator that hands out numbers, not memory.
 *
 * The range is counted in granules.  Free ones are warm (their pages are there, touching
 * them is cheap) or cold; warm ones are given out first.  The tables are mapped once and
 * nothing here calls malloc, so that malloc may call this.
 */
#ifndef PJRTFS_WORKER_EXTENTS_H
#define PJRTFS_WORKER_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "pjrtfs/base/err.h"

#define PF_NO_EXTENT UINT32_MAX

enum { PF_EXTENT_BINS = 32 }; /* one for each power of two of the length */

enum pf_extent_state {
	PF_EXTENT_INSIDE, /* not the first or last granule of anything */
	PF_EXTENT_USED,   /* given out */
	PF_EXTENT_WARM,   /* free, with pages */
	PF_EXTENT_COLD,   /* free, without */
};

/* Not safe for use by two threads: the lock is the caller's. */
struct pf_extents {
	struct pf_extent_slot *slots;     /* owned mapping; one a granule */
	uint32_t n;                       /* granules */
	uint32_t used, warm;              /* granules in use, and free with pages */
	uint32_t bins[2][PF_EXTENT_BINS]; /* first free extent by kind and size */
};

/* Manage granules 0 to N - 1, all cold.  0 < N < 2^29.  -ENOMEM. */
int pf_extents_init(struct pf_extents *extents, uint32_t n, struct pf_err *err);

void pf_extents_release(struct pf_extents *extents);

/*
 * Take N > 0 granules in a row; their first, or PF_NO_EXTENT.  *COLD tells whether their
 * pages may be missing.
 */
uint32_t pf_extents_take(struct pf_extents *extents, uint32_t n, bool *cold);

/* The length of the extent in use that starts at granule AT, or 0 if none does. */
uint32_t pf_extents_length(const struct pf_extents *extents, uint32_t at);

/* Give the extent in use at AT back; WARM: it has pages. */
void pf_extents_give(struct pf_extents *extents, uint32_t at, bool warm);

/*
 * Take up to N warm granules in a row, from one of the longest, so that the caller can
 * drop their pages and give them back as cold.  Their first, *GOT their number; or
 * PF_NO_EXTENT.
 */
uint32_t pf_extents_take_warm(struct pf_extents *extents, uint32_t n, uint32_t *got);

#endif
