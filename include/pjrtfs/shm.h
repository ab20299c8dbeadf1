/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_SHM_H
#define PJRTFS_SHM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pjrtfs/base.h"

/* Shared memory: files in memory (memfd) of which two processes have a descriptor.  Their size is
 * sealed, so that neither process can cut off what the other reads. */

/*
 * Make a file of SIZE bytes, all of them holes; NAME is shown in /proc/PID/maps.  A descriptor, the
 * caller's, close-on-exec; -errno.
 */
int pf_shm_new(const char *name, uint64_t size, struct pf_err *err);

/*
 * Map the first SIZE bytes of FD, which stays the caller's, as PROT (PROT_READ, PROT_WRITE); no
 * core dump has them.  -EINVAL: the file is shorter; -errno.
 * ret   on success, the mapping, the caller's; munmap
 */
int pf_shm_map(int fd, uint64_t size, int prot, void **ret, struct pf_err *err);

/*
 * Guard a mapping of memory that the other process makes: if the system has no memory for a page,
 * or it is bad, the kernel sends SIGBUS to the thread that touches it.  After this call a SIGBUS
 * at one of the LEN bytes of the mapping MEMORY puts a page of zeros there, sets *LOST, writes 1
 * to the eventfd FD, and the thread continues.  *LOST and FD are borrowed until pf_guard_remove.
 * At most 4096 mappings are guarded, later ones are not.  Does not block.
 */
void pf_guard_add(const void *memory, size_t len, _Atomic bool *lost, int fd);

/* Guard LEN bytes of MEMORY only, before the others are unmapped. */
void pf_guard_shorten(const void *memory, size_t len);

/* Stop guarding MEMORY, before it is unmapped; no thread may touch it. */
void pf_guard_remove(const void *memory);

/*
 * Shared memory that outlives the daemon, because another process holds its descriptors: the arenas
 * ("arena", the mount's, and "arena.1000", that of user 1000) and the pools of workers ("pool.7";
 * no number is given twice).
 */

/*
 * From now on, KEEP(NAME, FD) is called for each such file, before it has bytes, and FORGET(NAME)
 * when nothing refers to its bytes any more; FD and NAME are borrowed for the call.  Both may be
 * called under locks of ranks below 9, and block no longer than it takes to send a message.  Call
 * this once, before there are arenas and workers.
 */
void pf_shm_set_keeper(void (*keep)(const char *name, int fd),
		       void (*forget)(const char *name));

/* Call KEEP, and FORGET; without a keeper, nothing. */
void pf_shm_keep(const char *name, int fd);
void pf_shm_forget(const char *name);

/* A file that a keeper has. */
struct pf_kept {
	const char *name;
	int fd;
};

/* Bytes in a shared file. */
struct pf_extent {
	uint64_t off;
	uint64_t len; /* the requested length, rounded up to whole granules */
};

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

struct pf_arena;

/*
 * The users' bytes: one sparse memfd, mapped once, cut into extents.  The daemon maps it for
 * writing, workers read-only, so that a message to a worker names bytes by their offset.  Freed
 * extents stay warm up to a limit, since touching fresh pages costs more than copying into them.
 */

/* Make an arena of which at most LIMIT bytes are in use at once: *RET, the caller's.  -ENOMEM;
 * -EAGAIN: no thread; -errno of memfd_create(2), mmap(2). */
int pf_arena_new(uint64_t limit, struct pf_arena **ret, struct pf_err *err);

/*
 * The same of the memfd FD of an earlier life, which had ARENA as the number of its arena; FD is
 * taken on success.  With the layout in the journal's record PF_STATE_ARENA (see pf_arena_keep) and
 * the N EXTENTS, in any order, in use, even if they take more than the limit.  Their array is
 * sorted.  The pages of all other bytes are dropped.
 * first  NULL: it is the mount's, with LIMIT; else that of the mount: pf_arena_new_for of that user
 *        will return *RET, which FIRST owns until then
 * -EPROTO: there is no such record, FD has another size, or the extents do not fit; -ENOMEM.
 */
int pf_arena_adopt(struct pf_arena *first, uint64_t number, int fd, uint64_t limit,
		   struct pf_extent *extents, size_t n, struct pf_arena **ret,
		   struct pf_err *err);

/* Keep ARENA, the mount's, for a later life, and those of users that are made from now on: have
 * their memfds kept, and write their records PF_STATE_ARENA. */
void pf_arena_keep(struct pf_arena *arena);

/* Have arena NUMBER, which is kept, not kept any more: its record is dropped, too. */
void pf_arena_forget(uint64_t number);

/* The number of ARENA, also in the journal: 0: it is the mount's; else that of its user, and 1. */
uint64_t pf_arena_number(const struct pf_arena *arena);

/* The number of the arena that is kept as NAME in *RET.  False: none is. */
bool pf_arena_is_kept(const char *name, uint64_t *ret);

/*
 * Make an arena for the bytes of USER, who is isolated, as large as FIRST, the mount's: *RET, the
 * caller's, to be freed before FIRST.  Both count against FIRST's limit.  Errors as pf_arena_new.
 */
int pf_arena_new_for(struct pf_arena *first, uid_t user, struct pf_arena **ret,
		     struct pf_err *err);

/* Do A and B count against the same limit? */
bool pf_arena_share_limit(const struct pf_arena *a, const struct pf_arena *b);

/* Unmap and close.  No extent may be in use.  ARENA may be NULL. */
void pf_arena_free(struct pf_arena *arena);

/*
 * The memfd for workers, borrowed: a descriptor that reads and cannot write, of a file whose
 * size is sealed.  And the size of its mapping in bytes (virtual, mostly holes).
 */
int pf_arena_fd(const struct pf_arena *arena);
uint64_t pf_arena_size(const struct pf_arena *arena);

/* The daemon's own descriptor of it, which writes and is what pf_shm_keep passes on; borrowed. */
int pf_arena_own_fd(const struct pf_arena *arena);

/* The address of offset OFF in this process. */
void *pf_arena_at(const struct pf_arena *arena, uint64_t off);

/* The bytes that an extent of LEN bytes takes of the limit, unless small extents are short. */
uint64_t pf_arena_takes(const struct pf_arena *arena, uint64_t len);

/*
 * Take an extent of at least LEN bytes (0 counts as 1).  Its contents are undefined.
 * -ENOSPC: the limit is reached; the sentence has the limit and the bytes in use.
 * Does not block for long: touches no page.
 */
int pf_arena_alloc(struct pf_arena *arena, uint64_t len, struct pf_extent *ret,
		   struct pf_err *err);

/*
 * Make EXTENT at least LEN bytes long, its first KEEP bytes unchanged; it may move, and is
 * copied then.  *OLD is the place that it left, for the caller to give back, with length 0 if it
 * has not moved; OLD may be NULL.  -ENOSPC as above, with EXTENT as it was.
 */
int pf_arena_grow(struct pf_arena *arena, struct pf_extent *extent, uint64_t len,
		  uint64_t keep, struct pf_extent *old, struct pf_err *err);

/* The bytes of the extent in use that begins at OFF; 0: none does. */
uint64_t pf_arena_length(struct pf_arena *arena, uint64_t off);

/* Give EXTENT's end beyond LEN bytes back. */
void pf_arena_shrink(struct pf_arena *arena, struct pf_extent *extent, uint64_t len);

/* Zero LEN bytes at OFF, which lie in an extent; much of it without touching the pages. */
void pf_arena_zero(struct pf_arena *arena, uint64_t off, uint64_t len);

/* Give EXTENT back and set it to zero length. */
void pf_arena_give(struct pf_arena *arena, struct pf_extent *extent);

/*
 * Count LEN bytes that lie elsewhere (an array in a worker's memory) as in use, without
 * taking an extent.
 * -ENOSPC: the limit is reached.  Takes no lock while there is room.
 */
int pf_arena_charge(struct pf_arena *arena, uint64_t len, struct pf_err *err);

/* The same for bytes that exist already, even beyond the limit.  Takes no lock. */
void pf_arena_force(struct pf_arena *arena, uint64_t len);

/* Undo a charge of LEN bytes.  Takes no lock. */
void pf_arena_discharge(struct pf_arena *arena, uint64_t len);

/*
 * When the limit is reached, the arena calls RECLAIM(arg, need), which frees at least NEED bytes of
 * copies that can be made again, if there are so many, and returns how many it freed.  It runs on
 * the allocating thread, without a lock of the arena.  Call this once, before other threads use
 * ARENA.
 */
void pf_arena_set_reclaim(struct pf_arena *arena,
			  uint64_t (*reclaim)(void *arg, uint64_t need), void *arg);

/* Bytes in use of all arenas that share the limit, and the limit: what df shows. */
void pf_arena_usage(struct pf_arena *arena, uint64_t *used, uint64_t *limit);

#endif
