/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_HEAP_H
#define PJRTFS_HEAP_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pjrtfs/base.h"
#include "pjrtfs/shm.h"

/*
 * A heap: a mapped file in memory (memfd) of which extents are given out.
 *
 * The front part of the file is cut into small granules, the rest into granules of 2 MiB; an
 * extent is some granules in a row.  Free granules are warm (they have pages, touching them is
 * cheap) or cold; warm ones are given out first.  A thread of the heap returns the pages of too
 * many warm ones to the system, after 200 ms, and of nearly all of them when nothing was taken or
 * given for 3 s: then it also calls malloc_trim(3).
 *
 * Every function is safe from any thread, blocks no longer than its comment says and calls no
 * malloc, so that malloc may call it (but pf_heap_init and pf_heap_release).
 */

enum pf_heap_parts { PF_HEAP_SMALL, PF_HEAP_LARGE, PF_HEAP_PARTS };
enum { PF_HEAP_BINS = 28 }; /* one for each power of two of an extent's granules */

/* The choices of a heap's owner; all but small_shift in bytes. */
struct pf_heap_rules {
	unsigned small_shift;              /* log2 of the bytes of a small granule */
	uint64_t small_size;               /* of the front part: a multiple of 2 MiB */
	uint64_t small_max;                /* longer extents are of the large granules */
	uint64_t keep[PF_HEAP_PARTS];      /* warm bytes that are kept, */
	uint64_t keep_idle[PF_HEAP_PARTS]; /* and while the heap is idle */
};

/* Private to wire/heap.c. */
struct pf_heap_part {
	struct pf_heap_tag *tags;       /* owned mapping; one a granule */
	uint64_t start;                 /* offset in the file */
	unsigned shift;                 /* log2 of the bytes of a granule */
	uint32_t n;                     /* granules */
	uint32_t warm;                  /* of them, free with pages */
	uint32_t bins[2][PF_HEAP_BINS]; /* first warm, and cold, extent by size */
};

struct pf_heap {
	int fd; /* borrowed, as is the mapping */
	uint8_t *base;
	struct pf_heap_rules rules;
	pthread_mutex_t lock; /* rank 7; protects the fields below */
	pthread_cond_t work;  /* there is something to do for the thread */
	struct pf_heap_part parts[PF_HEAP_PARTS];
	uint64_t ahead, ahead_end; /* offsets: the rest of pf_heap_populate's range */
	uint64_t changes;          /* extents taken and given so far */
	bool cool;                 /* nothing is left to trim */
	bool stop;
	pthread_t thread;
};

/*
 * Make HEAP of the file FD, whose first SIZE bytes are mapped at BASE, all of them free, and start
 * its thread.  Both are borrowed until pf_heap_release.  Each part has less than 2^28 granules,
 * and at least one.  -ENOMEM; -EAGAIN: no thread.
 */
int pf_heap_init(struct pf_heap *heap, int fd, void *base, uint64_t size,
		 const struct pf_heap_rules *rules, struct pf_err *err);

/* Stop the thread and forget all extents.  HEAP was initialised. */
void pf_heap_release(struct pf_heap *heap);

/* The bytes that an extent of LEN bytes takes: whole granules, at least one. */
uint64_t pf_heap_round(const struct pf_heap *heap, uint64_t len);

/*
 * Take the N EXTENTS, in ascending order, of HEAP, of which nothing has been taken yet, and drop
 * the pages of all other bytes.  A length is rounded up to whole granules.  False: two of them
 * overlap, or one does not begin at a granule or ends beyond its part; HEAP is then to be released.
 * Blocks for a microsecond for each extent.
 */
bool pf_heap_claim(struct pf_heap *heap, const struct pf_extent *extents, size_t n);

/*
 * Take an extent of at least LEN bytes (0 counts as 1), a large one if the front part is full.  Its
 * contents are undefined; *COLD: its pages may be missing.  MARK is the caller's, and the same for
 * pf_heap_give.  False: no free extent is long enough.  If only a warm and a cold one together are,
 * it drops pages first, which takes milliseconds.
 */
bool pf_heap_take(struct pf_heap *heap, uint64_t len, bool mark, struct pf_extent *ret,
		  bool *cold);

/*
 * Free the extent that begins at OFF.  Not WARM: drop its pages first, which takes milliseconds.
 * False: no extent that was taken with MARK begins there.
 */
bool pf_heap_give(struct pf_heap *heap, uint64_t off, bool mark, bool warm);

/* The bytes of the extent in use that begins at OFF; 0: none does. */
uint64_t pf_heap_length(struct pf_heap *heap, uint64_t off);

/* Make EXTENT, which is in use, at least LEN bytes long where it is.  False: it cannot be. */
bool pf_heap_extend(struct pf_heap *heap, struct pf_extent *extent, uint64_t len);

/* Free EXTENT's granules behind its first LEN bytes; the first granule stays. */
void pf_heap_shrink(struct pf_heap *heap, struct pf_extent *extent, uint64_t len);

/*
 * Fault in the LEN bytes at OFF, which are in use, on the heap's thread, in order.  Another call
 * replaces this one; giving the extent back ends it.  Does not block.
 */
void pf_heap_populate(struct pf_heap *heap, uint64_t off, uint64_t len);

/* Drop the pages of all free extents, which takes milliseconds. */
void pf_heap_trim(struct pf_heap *heap);

#endif
