/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_ARENA_H
#define PJRTFS_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pjrtfs/base.h"
#include "pjrtfs/shm.h"

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
 * -EPROTO: the record is missing, FD has another size, or the extents do not fit; -ENOMEM.
 */
int pf_arena_adopt(struct pf_arena *first, uint64_t number, int fd, uint64_t limit,
		   struct pf_extent *extents, size_t n, struct pf_arena **ret,
		   struct pf_err *err);

/* Keep ARENA, the mount's, for a later life, and those of users that are made from now on: have
 * their memfds kept, and write their records PF_STATE_ARENA. */
void pf_arena_keep(struct pf_arena *arena);

/* Have arena NUMBER, which is kept, not kept any more: its record is dropped, too. */
void pf_arena_forget(uint64_t number);

/* The same for ARENA, if it is kept; another one of its user may be kept from now on. */
void pf_arena_keep_no_more(struct pf_arena *arena);

/* The number of ARENA, also in the journal: 0: it is the mount's; else that of its user, and 1. */
uint64_t pf_arena_number(const struct pf_arena *arena);

/* The number of the arena that is kept as NAME in *RET.  False: none is. */
bool pf_arena_is_kept(const char *name, uint64_t *ret);

/*
 * Make an arena for the bytes of USER, an isolated one, as large as FIRST, the mount's: *RET, the
 * caller's, to be freed before FIRST.  Both count against FIRST's limit.  Errors as pf_arena_new.
 */
int pf_arena_new_for(struct pf_arena *first, uid_t user, struct pf_arena **ret,
		     struct pf_err *err);

/*
 * What lives in the arena of a user holds it: bytes, arrays, buffers and programs, and threads that
 * are about to make such.  Who has none of these may hold ARENA only under a lock under which no other
 * thread decides, by pf_arena_is_held, that it may be freed.  The mount's is never freed, so these
 * do not count it.  ARENA may be NULL.
 */
void pf_arena_hold(struct pf_arena *arena);
void pf_arena_let_go(struct pf_arena *arena);
bool pf_arena_is_held(const struct pf_arena *arena);

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
