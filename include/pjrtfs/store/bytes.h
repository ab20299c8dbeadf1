/* SPDX-License-Identifier: Apache-2.0 */
/* Users' bytes: counted pieces of the arena. */
#ifndef PJRTFS_STORE_BYTES_H
#define PJRTFS_STORE_BYTES_H

#include <stdatomic.h>

#include "pjrtfs/base/cleanup.h"
#include "pjrtfs/base/err.h"
#include "pjrtfs/wire/arena.h"

/*
 * Bytes in the arena.  Whoever made them may write to them; once they are part of a value
 * they are frozen by agreement: nobody writes to them while a plugin may read them.
 */
struct pf_bytes {
	_Atomic unsigned refs;
	struct pf_arena *arena;  /* borrowed */
	struct pf_extent extent; /* owned */
	uint64_t start; /* where in the extent the first byte lies: see pf_bytes_align */
};

/* Room for CAP bytes, undefined contents, with one reference.  -ENOSPC, -ENOMEM. */
int pf_bytes_new(struct pf_arena *arena, uint64_t cap, struct pf_bytes **ret,
		 struct pf_err *err);

/* One reference more, and one less; the last one gives the extent back. */
struct pf_bytes *pf_bytes_ref(struct pf_bytes *bytes);
void pf_bytes_unref(struct pf_bytes *bytes); /* NULL is allowed */
PF_DEFINE_CLEANUP(struct pf_bytes *, pf_bytes_unref)

/* Their address in this process. */
static inline void *pf_bytes_at(const struct pf_bytes *bytes, uint64_t off)
{
	return pf_arena_at(bytes->arena, bytes->extent.off + bytes->start + off);
}

/* Their offset in the arena, as the worker knows it. */
static inline uint64_t pf_bytes_offset(const struct pf_bytes *bytes, uint64_t off)
{
	return bytes->extent.off + bytes->start + off;
}

/*
 * See that byte AT of *BYTES, of which SIZE bytes are kept, has an address that is a multiple
 * of 64, as plugins want it to use arrays in place.  Moves the bytes; nobody else may hold
 * them.  -ENOSPC, -ENOMEM: *BYTES is as it was.
 */
int pf_bytes_align(struct pf_bytes *bytes, uint64_t at, uint64_t size,
		   struct pf_err *err);

/*
 * Make room for CAP bytes in *BYTES, of which the first KEEP are kept.  Where nobody else
 * holds them they grow in place if they can; else *BYTES becomes a copy, and the others
 * keep the old ones.  UNSHARE forces the copy where somebody else holds them.
 * -ENOSPC, -ENOMEM: *BYTES is as it was.
 */
int pf_bytes_reserve(struct pf_bytes **bytes, uint64_t cap, uint64_t keep, bool unshare,
		     struct pf_err *err);

/*
 * Make room in *BYTES (NULL: none yet, taken from ARENA) for a write that ends at END, of
 * which SIZE bytes are kept; nobody else's bytes are written to.  WANT, if larger, is how
 * many there will be; where that is not known (0) room grows in steps of twice what there
 * was, if there is so much, from FIRST on.  -ENOSPC, -ENOMEM: *BYTES is as it was.
 */
int pf_bytes_room(struct pf_bytes **bytes, struct pf_arena *arena, uint64_t size,
		  uint64_t end, uint64_t want, uint64_t first, struct pf_err *err);

/* Zero the bytes from FROM to TO, if there are any: a file's hole. */
void pf_bytes_zero(struct pf_bytes *bytes, uint64_t from, uint64_t to);

#endif
