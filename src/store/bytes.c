/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/bytes.h"

enum { FIRST_ROOM = 4096 }; /* bytes first reserved for a file */

/* EXTENT, for which CHARGED bytes are charged, has its present length: charge ACCOUNT for that. */
static void recharge(struct pf_account *account, const struct pf_extent *extent,
		     uint64_t charged)
{
	if (extent->len > charged)
		pf_account_force(account, PF_MEMORY, extent->len - charged);
	else
		pf_account_discharge(account, PF_MEMORY, charged - extent->len);
}

int pf_bytes_new(struct pf_arena *arena, struct pf_account *account, uint64_t cap,
		 struct pf_bytes **ret, struct pf_err *err)
{
	struct pf_bytes *b = calloc(1, sizeof(*b));
	uint64_t takes = pf_arena_takes(arena, cap);
	int r;

	if (!b)
		return pf_err_set(err, -ENOMEM, "no memory for %zu bytes", sizeof(*b));
	r = pf_account_charge(account, PF_MEMORY, takes, err);
	if (r == 0) {
		r = pf_arena_alloc(arena, cap, &b->extent, err);
		recharge(account, &b->extent, takes); /* of no length if that failed */
	}
	if (r < 0) {
		free(b);
		return r;
	}
	atomic_init(&b->refs, 1);
	atomic_init(&b->account, account);
	pf_arena_hold(arena);
	b->arena = arena;
	b->id = pf_object_number();
	*ret = b;
	return 0;
}

static void bytes_free(struct pf_bytes *bytes)
{
	pf_account_discharge(bytes->account, PF_MEMORY, bytes->extent.len);
	/* No record may name an extent that has another owner. */
	if (atomic_load(&bytes->saved))
		pf_state_drop(PF_STATE_BYTES, bytes->id);
	pf_arena_give(bytes->arena, &bytes->extent);
	pf_arena_let_go(bytes->arena);
	free(bytes);
}

PF_DEFINE_REF(struct pf_bytes, pf_bytes, bytes_free)

/* --- the journal ------------------------------------------------------------------------ */

/* Write the record of B, with the first LEN bytes of its extent. */
static void save(const struct pf_bytes *b, uint64_t len)
{
	const struct pf_bytes_record record = { { b->extent.off, len },
						b->start,
						pf_arena_number(b->arena) };

	pf_state_put(PF_STATE_BYTES, b->id, &record, sizeof(record), NULL, 0);
}

const struct pf_bytes_record *pf_bytes_load(uint64_t id, struct pf_err *err)
{
	const struct pf_bytes_record *r =
		pf_state_load(PF_STATE_BYTES, id, sizeof(*r), NULL, err);

	return r && r->start > r->extent.len ? pf_state_damaged(PF_STATE_BYTES, id, err)
					     : r;
}

/* The same again, if there is one. */
static void save_again(const struct pf_bytes *b)
{
	if (atomic_load_explicit(&b->saved, memory_order_relaxed))
		save(b, b->extent.len);
}

uint64_t pf_bytes_save(struct pf_bytes *b)
{
	if (!b || !b->id)
		return 0;
	/* Two threads may both do this, since shared bytes do not move. */
	if (!atomic_load(&b->saved)) {
		save(b, b->extent.len);
		atomic_store(&b->saved, true);
	}
	return b->id;
}

struct pf_bytes *pf_bytes_hold(struct pf_bytes *b, const struct pf_arena *arena)
{
	return b && (atomic_load(&b->refs) > 1 || b->arena != arena) ? pf_bytes_ref(b)
								     : NULL;
}

/* --- room and charges ------------------------------------------------------------------- */

int pf_bytes_charge(struct pf_bytes *bytes, struct pf_account *account,
		    struct pf_err *err)
{
	int r = pf_account_charge(account, PF_MEMORY, bytes->extent.len, err);

	if (r == 0)
		bytes->account = account;
	return r;
}

void pf_bytes_charge_to(struct pf_bytes *bytes, struct pf_account *to)
{
	if (bytes)
		pf_account_move(atomic_exchange(&bytes->account, to), to, PF_MEMORY,
				bytes->extent.len);
}

void pf_bytes_trim(struct pf_bytes *bytes, uint64_t size)
{
	uint64_t had = bytes->extent.len, len = bytes->start + size;

	/* Before another owner takes the end. */
	if (atomic_load(&bytes->saved) && len < had)
		save(bytes, len);
	pf_arena_shrink(bytes->arena, &bytes->extent, len);
	recharge(bytes->account, &bytes->extent, had);
}

/* Make the extent of BYTES, which no other reference shares, CAP bytes long, and keep the first
 * KEEP. */
static int grow(struct pf_bytes *bytes, uint64_t cap, uint64_t keep, struct pf_err *err)
{
	uint64_t had = bytes->extent.len, takes = pf_arena_takes(bytes->arena, cap);
	struct pf_extent old;
	int r;

	if (cap <= had)
		return 0;
	r = pf_account_charge(bytes->account, PF_MEMORY, takes - had, err);
	if (r < 0)
		return r;
	r = pf_arena_grow(bytes->arena, &bytes->extent, cap, keep, &old, err);
	/* An extent that moves may grow by more. */
	if (bytes->extent.len > takes)
		pf_arena_shrink(bytes->arena, &bytes->extent, cap);
	recharge(bytes->account, &bytes->extent, takes);
	if (r == 0)
		save_again(bytes);
	pf_arena_give(bytes->arena, &old);
	return r;
}

int pf_bytes_in(struct pf_bytes *bytes, struct pf_arena *arena,
		struct pf_account *account, uint64_t *off, uint64_t len,
		struct pf_bytes **ret, struct pf_err *err)
{
	int r = 0;

	if (bytes->arena == arena && bytes->account == account)
		*ret = pf_bytes_ref(bytes);
	else
		r = pf_bytes_new(arena, account, len, ret, err);
	if (r < 0 || *ret == bytes)
		return r;
	memcpy(pf_bytes_at(*ret, 0), pf_bytes_at(bytes, *off), len);
	*off = 0;
	return 0;
}

/* Reserve CAP bytes of ARENA that no other reference shares, and keep the first KEEP. */
static int reserve(struct pf_bytes **bytes, struct pf_arena *arena,
		   struct pf_account *account, uint64_t cap, uint64_t keep,
		   struct pf_err *err)
{
	struct pf_bytes *old = *bytes, *copy;
	int r;

	if (cap < keep)
		cap = keep;
	if (atomic_load(&old->refs) == 1 && old->arena == arena)
		return grow(old, cap + old->start, keep + old->start, err);
	r = pf_bytes_new(arena, account, cap + old->start, &copy, err);
	if (r < 0)
		return r;
	copy->start = old->start;
	memcpy(pf_bytes_at(copy, 0), pf_bytes_at(old, 0), keep);
	pf_bytes_unref(old);
	*bytes = copy;
	return 0;
}

int pf_bytes_room(struct pf_bytes **bytes, struct pf_arena *arena,
		  struct pf_account *account, uint64_t size, uint64_t end, uint64_t want,
		  struct pf_err *err)
{
	uint64_t cap = *bytes ? (*bytes)->extent.len - (*bytes)->start : 0;
	uint64_t need = want > end ? want : end;

	if (!*bytes)
		return pf_bytes_new(arena, account, need > FIRST_ROOM ? need : FIRST_ROOM,
				    bytes, err);
	/* Twice the capacity, if that fits, so that it need not grow with each write. */
	if (want <= end && end > cap && end < cap * 2 &&
	    reserve(bytes, arena, account, cap * 2, size, NULL) == 0)
		return 0;
	return reserve(bytes, arena, account, need, size, err);
}

int pf_bytes_write(struct pf_bytes **bytes, struct pf_arena *arena,
		   struct pf_account *account, uint64_t *size, const void *src,
		   size_t len, uint64_t off, uint64_t want, struct pf_err *err)
{
	uint64_t end;
	int r;

	if (__builtin_add_overflow(off, len, &end) || end > INT64_MAX)
		return pf_err_set(err, -EFBIG,
				  "a write ends beyond the largest file offset");
	r = pf_bytes_room(bytes, arena, account, *size, end, want, err);
	if (r < 0)
		return r;
	pf_bytes_zero(*bytes, *size, off);
	if (len)
		memcpy(pf_bytes_at(*bytes, off), src, len);
	if (end > *size)
		*size = end;
	return 0;
}

int pf_bytes_align(struct pf_bytes *bytes, uint64_t at, uint64_t size, struct pf_err *err)
{
	uint64_t start = (PF_ALIGNMENT - at % PF_ALIGNMENT) % PF_ALIGNMENT;
	uint64_t takes = pf_arena_takes(bytes->arena, start + size);
	struct pf_extent old = bytes->extent, moved = { 0 };
	int r;

	if (start == bytes->start)
		return 0;
	r = pf_account_charge(bytes->account, PF_MEMORY, takes, err);
	if (r < 0)
		return r;
	/* Not in place: a daemon that died meanwhile would leave bytes of both places. */
	r = pf_arena_alloc(bytes->arena, start + size, &moved, err);
	recharge(bytes->account, &moved, takes);
	if (r < 0)
		return r;
	memcpy(pf_arena_at(bytes->arena, moved.off + start), pf_bytes_at(bytes, 0), size);
	bytes->extent = moved;
	bytes->start = start;
	save_again(bytes);
	pf_account_discharge(bytes->account, PF_MEMORY, old.len);
	pf_arena_give(bytes->arena, &old);
	return 0;
}

void pf_bytes_zero(struct pf_bytes *bytes, uint64_t from, uint64_t to)
{
	if (to > from)
		pf_arena_zero(bytes->arena, pf_bytes_offset(bytes, from), to - from);
}
