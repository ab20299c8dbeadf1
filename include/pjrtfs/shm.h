/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_SHM_H
#define PJRTFS_SHM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pjrtfs/base.h"

struct pf_arena;

/*
 * The users' bytes: one sparse memfd, mapped once, cut into extents.
 *
 * The daemon maps it for writing, workers read-only, so that naming bytes to a worker is
 * naming an offset.  Freed extents stay warm (their pages are kept) up to a limit, since
 * touching fresh pages costs more than copying into them; what goes beyond is given back
 * to the system, and after some seconds without a change nearly all of it.
 */

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
 * When the limit is reached, RECLAIM(arg, need) is asked to give up NEED bytes of what can be
 * made again; it returns how many it gave.  Called with no lock of the arena's held, on the
 * thread that asked for room.
 */
void pf_arena_set_reclaim(struct pf_arena *arena,
			  uint64_t (*reclaim)(void *arg, uint64_t need), void *arg);

/* Bytes in use, and the limit: what df shows. */
void pf_arena_usage(struct pf_arena *arena, uint64_t *used, uint64_t *limit);

/*
 * Mappings of memory that another process makes: the loss of a page must not end this one.
 *
 * Files are sealed, so that nobody can cut them off; a page is lost when the system has no
 * memory for it, or when the memory is bad.  The kernel then sends SIGBUS to the thread that
 * touches it.
 */

/*
 * From now on a SIGBUS at one of the LEN bytes of the mapping MEMORY puts a page of zeros
 * there, sets *LOST, writes 1 to the eventfd FD, and goes on.  *LOST and FD are borrowed until
 * pf_guard_remove.  At most 256 mappings are guarded, later ones are not.  Does not block.
 */
void pf_guard_add(const void *memory, size_t len, _Atomic bool *lost, int fd);

/* Forget MEMORY, before it is unmapped; no thread touches it any more. */
void pf_guard_remove(const void *memory);

/*
 * Which parts of a range are in use: an allocator that hands out numbers, not memory.
 *
 * The range is counted in granules.  Free ones are warm (their pages are there, touching
 * them is cheap) or cold; warm ones are given out first.  The tables are mapped once and
 * nothing here calls malloc, so that malloc may call this.
 */

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
	struct pf_extent_tag *slots;      /* owned mapping; one a granule */
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
