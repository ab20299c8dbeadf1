/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes: counted pieces of an arena, which content, programs and values share. */
#ifndef PJRTFS_BYTES_H
#define PJRTFS_BYTES_H

#include <stdatomic.h>

#include "pjrtfs/arena.h"
#include "pjrtfs/base.h"
#include "pjrtfs/quota.h"

/* Plugins use arrays in place that begin at a multiple of so many bytes. */
enum { PF_ALIGNMENT = 64 };

/*
 * Bytes in the arena, counted.  The code that made them may write to them.  Once they are part of
 * a value they are frozen by agreement: no thread writes to them, as a plugin may read them.
 */
struct pf_bytes {
	_Atomic unsigned refs;
	_Atomic bool saved;      /* the journal has a record of them */
	struct pf_arena *arena;  /* borrowed */
	struct pf_extent extent; /* owned */
	/* Borrowed: charged for the extent; or NULL.  It changes under the lock of a buffer or value
	 * that has the bytes. */
	struct pf_account *_Atomic account;
	uint64_t start; /* where in the extent the first byte lies: see pf_bytes_align */
	uint64_t id;    /* in the journal; 0: no record */
};

/* Room for CAP bytes, which ACCOUNT is charged for; undefined contents, with one reference.
 * -EDQUOT, -ENOSPC, -ENOMEM. */
int pf_bytes_new(struct pf_arena *arena, struct pf_account *account, uint64_t cap,
		 struct pf_bytes **ret, struct pf_err *err);

/* Add a reference; drop one.  The last one gives the extent back to the arena. */
struct pf_bytes *pf_bytes_ref(struct pf_bytes *bytes);
void pf_bytes_unref(struct pf_bytes *bytes); /* NULL is allowed */
PF_DEFINE_CLEANUP(struct pf_bytes *, pf_bytes_unref)

/*
 * The LEN bytes at *OFF of BYTES in ARENA, charged to ACCOUNT, with a reference: BYTES themselves,
 * or, if they lie in another arena or are another account's, a copy, in which *OFF is 0.  -EDQUOT,
 * -ENOSPC, -ENOMEM.
 */
int pf_bytes_in(struct pf_bytes *bytes, struct pf_arena *arena,
		struct pf_account *account, uint64_t *off, uint64_t len,
		struct pf_bytes **ret, struct pf_err *err);

/* Charge ACCOUNT for BYTES, for which none was charged.  -EDQUOT: it is not. */
int pf_bytes_charge(struct pf_bytes *bytes, struct pf_account *account,
		    struct pf_err *err);

/* Charge TO for BYTES instead (NULL is allowed for both), even beyond its maximum. */
void pf_bytes_charge_to(struct pf_bytes *bytes, struct pf_account *to);

/* Give the end beyond SIZE bytes back.  The caller has the only reference. */
void pf_bytes_trim(struct pf_bytes *bytes, uint64_t size);

/*
 * The number by which a record of the journal names BYTES (NULL is allowed), which have a record of
 * their own from now on; 0: this process has no journal.  That record follows each change of the extent, and
 * goes with the last reference.  From any thread with a reference.
 */
uint64_t pf_bytes_save(struct pf_bytes *bytes);

/*
 * BYTES with one more reference, if a change in ARENA makes a copy of them (see pf_bytes_room); else
 * NULL, as for NULL.  A caller whose record in the journal names BYTES holds it until a record
 * names the copy.
 */
struct pf_bytes *pf_bytes_hold(struct pf_bytes *bytes, const struct pf_arena *arena);

/* The address of byte OFF in this process. */
static inline void *pf_bytes_at(const struct pf_bytes *bytes, uint64_t off)
{
	return pf_arena_at(bytes->arena, bytes->extent.off + bytes->start + off);
}

/* The offset of byte OFF in the arena, as workers know it. */
static inline uint64_t pf_bytes_offset(const struct pf_bytes *bytes, uint64_t off)
{
	return bytes->extent.off + bytes->start + off;
}

/*
 * Move BYTES, of which SIZE are kept, so that the address of byte AT is a multiple of
 * PF_ALIGNMENT.  The caller has the only reference.  -EDQUOT, -ENOSPC: nothing has changed.
 */
int pf_bytes_align(struct pf_bytes *bytes, uint64_t at, uint64_t size,
		   struct pf_err *err);

/*
 * Make room in *BYTES (NULL: none yet) in ARENA for a write that ends at END, for which ACCOUNT is
 * charged; the first SIZE bytes are kept.  If there are other references, or the bytes lie in
 * another arena, *BYTES becomes a copy and other references keep the old bytes; else they grow, in
 * place if they can.  WANT is the size of the whole file, if that is larger; if it is not known
 * (0), room doubles as far as the limits allow.  -EDQUOT, -ENOSPC, -ENOMEM: *BYTES is as it was.
 */
int pf_bytes_room(struct pf_bytes **bytes, struct pf_arena *arena,
		  struct pf_account *account, uint64_t size, uint64_t end, uint64_t want,
		  struct pf_err *err);

/*
 * Make room as pf_bytes_room and write LEN bytes of SRC at OFF of *BYTES, whose *SIZE grows; a
 * hole before them becomes zeros.  -EFBIG: a file has no such offset; -EDQUOT, -ENOSPC,
 * -ENOMEM: nothing has changed.
 */
int pf_bytes_write(struct pf_bytes **bytes, struct pf_arena *arena,
		   struct pf_account *account, uint64_t *size, const void *src,
		   size_t len, uint64_t off, uint64_t want, struct pf_err *err);

/* Zero the bytes from FROM to TO, if there are any. */
void pf_bytes_zero(struct pf_bytes *bytes, uint64_t from, uint64_t to);

#endif
