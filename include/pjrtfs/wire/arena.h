/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The users' bytes: one sparse memfd, mapped once, cut into extents.
 *
 * The daemon maps it for writing, workers read-only, so that naming bytes to a worker is
 * naming an offset.  Freed extents stay warm (their pages are kept) up to a limit, since
 * touching fresh pages costs more than copying into them; what goes beyond is given back
 * to the system, and after some seconds without a change nearly all of it.
 */
#ifndef PJRTFS_WIRE_ARENA_H
#define PJRTFS_WIRE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pjrtfs/base/err.h"

struct pf_arena;

/* Bytes in the arena; off is a multiple of 64, and of 2 MiB for 1 MiB and more. */
struct pf_extent {
	uint64_t off;
	uint64_t len; /* what was asked for, rounded up to what it takes */
};

/*
 * Make an arena of which at most LIMIT bytes are in use at once.
 * ret   on success, the caller's; pf_arena_free
 */
int pf_arena_new(uint64_t limit, struct pf_arena **ret, struct pf_err *err);

/* Unmap and close.  No extent may be in use.  ARENA may be NULL. */
void pf_arena_free(struct pf_arena *arena);

/*
 * The memfd for workers, borrowed: a descriptor that reads and cannot write, of a file whose
 * size is sealed.  And the size of its mapping in bytes (virtual, mostly holes).
 */
int pf_arena_fd(const struct pf_arena *arena);
uint64_t pf_arena_size(const struct pf_arena *arena);

/* The address of offset OFF in this process. */
void *pf_arena_at(const struct pf_arena *arena, uint64_t off);

/*
 * Take an extent of at least LEN bytes (0 counts as 1).  Its contents are undefined.
 * -ENOSPC: the limit is reached; the sentence tells the limit and what is in use.
 * Does not block for long: touches no page.
 */
int pf_arena_alloc(struct pf_arena *arena, uint64_t len, struct pf_extent *ret,
		   struct pf_err *err);

/*
 * Make EXTENT at least LEN bytes long, its first KEEP bytes unchanged; it may move, and is
 * copied then.  -ENOSPC as above, with EXTENT as it was.
 */
int pf_arena_grow(struct pf_arena *arena, struct pf_extent *extent, uint64_t len,
		  uint64_t keep, struct pf_err *err);

/* Give EXTENT's end beyond LEN bytes back. */
void pf_arena_shrink(struct pf_arena *arena, struct pf_extent *extent, uint64_t len);

/* Zero LEN bytes at OFF, which lie in an extent; much of it without touching the pages. */
void pf_arena_zero(struct pf_arena *arena, uint64_t off, uint64_t len);

/* Give EXTENT back and set it to zero length. */
void pf_arena_give(struct pf_arena *arena, struct pf_extent *extent);

/*
 * Count LEN bytes that lie elsewhere (an array in a worker's memory) as in use, and no more.
 * -ENOSPC: the limit is reached.  Takes no lock while there is room.
 */
int pf_arena_charge(struct pf_arena *arena, uint64_t len, struct pf_err *err);

/* The same for bytes that are there already: beyond the limit, too.  Takes no lock. */
void pf_arena_force(struct pf_arena *arena, uint64_t len);

/* LEN bytes that were counted are in use no more.  Takes no lock. */
void pf_arena_discharge(struct pf_arena *arena, uint64_t len);

/*
 * When the limit is reached, RELIEF(arg, need) is asked to give up NEED bytes of what can be
 * made again; it returns how many it gave.  Called with no lock of the arena's held, on the
 * thread that asked for room.
 */
void pf_arena_set_relief(struct pf_arena *arena,
			 uint64_t (*relief)(void *arg, uint64_t need), void *arg);

/* Bytes in use, and the limit: what df shows. */
void pf_arena_usage(struct pf_arena *arena, uint64_t *used, uint64_t *limit);

#endif
