/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of an earlier life: arenas with the extents of bytes, and pools. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "internal.h"
#include "pjrtfs/restore.h"

/* Make the bytes with number ID and RECORD, which lie in ARENA; their extent is in use. */
static int restore_bytes(struct pf_restore *restore, uint64_t id,
			 const struct pf_bytes_record *record, struct pf_arena *arena,
			 struct pf_err *err)
{
	struct pf_bytes *b = calloc(1, sizeof(*b));

	if (!b || pf_map_put(&restore->bytes, id, b) < 0) {
		free(b);
		return pf_err_set(err, -ENOMEM, "no memory for bytes");
	}
	atomic_init(&b->refs, 1);
	atomic_init(&b->saved, true);
	pf_arena_hold(arena);
	b->arena = arena;
	b->id = id;
	b->extent.off = record->extent.off;
	b->extent.len = pf_arena_length(arena, b->extent.off);
	b->start = record->start;
	return 0;
}

/* The bytes of an earlier life. */
struct kept_bytes {
	size_t n;
	uint64_t *ids;                          /* owned */
	const struct pf_bytes_record **records; /* owned: of these, borrowed */
};

static void kept_bytes_release(struct kept_bytes *kept)
{
	free(kept->ids);
	free(kept->records);
}

/* All that are kept in *RET, which the caller releases.  -EPROTO, -ENOMEM. */
static int list_bytes(struct kept_bytes *ret, struct pf_err *err)
{
	ret->ids = pf_state_list(PF_STATE_BYTES, &ret->n);
	ret->records = calloc(ret->n + 1, sizeof(*ret->records));
	if (!ret->ids || !ret->records)
		return pf_err_set(err, -ENOMEM, "no memory for the arenas");
	for (size_t i = 0; i < ret->n; i++) {
		ret->records[i] = pf_bytes_load(ret->ids[i], err);
		if (!ret->records[i])
			return -EPROTO;
	}
	return 0;
}

/* Take over arena NUMBER, whose memfd is KEPT, with those of BYTES that are in it; *MOUNT is that of the
 * mount, or becomes it. */
static int restore_arena(struct pf_restore *restore, uint64_t number, int kept,
			 const struct kept_bytes *bytes, uint64_t limit,
			 struct pf_arena **mount, struct pf_err *err)
{
	pf_autofree struct pf_extent *extents = calloc(bytes->n + 1, sizeof(*extents));
	pf_autoclose int fd = fcntl(kept, F_DUPFD_CLOEXEC, 0);
	struct pf_arena *arena;
	size_t n = 0;
	int r;

	if (!extents || fd < 0)
		return pf_err_set(err, -ENOMEM, "no memory for the arena");
	for (size_t i = 0; i < bytes->n; i++)
		if (bytes->records[i]->arena == number)
			extents[n++] = bytes->records[i]->extent;
	r = pf_arena_adopt(number ? *mount : NULL, number, fd, limit, extents, n, &arena,
			   err);
	if (r < 0)
		return r;
	fd = -1;
	if (!number)
		*mount = arena;
	for (size_t i = 0; i < bytes->n && r == 0; i++)
		if (bytes->records[i]->arena == number)
			r = restore_bytes(restore, bytes->ids[i], bytes->records[i],
					  arena, err);
	return r;
}

struct pf_bytes *pf_restore_find_bytes(const struct pf_restore *restore, uint64_t id)
{
	struct pf_bytes *b = id ? pf_map_get(&restore->bytes, id) : NULL;

	return b ? pf_bytes_ref(b) : NULL;
}

/* Forget the arenas of users in which none of BYTES are: a user who needs one again gets another one. */
static int forget_unused(const struct kept_bytes *bytes, struct pf_err *err)
{
	PF_CLEANUP(pf_map_release)
	struct pf_map used = { 0 }; /* by arena: the number of some bytes there */
	size_t n_arenas;
	pf_autofree uint64_t *arenas = pf_state_list(PF_STATE_ARENA, &n_arenas);
	int r = arenas ? 0 : -ENOMEM;

	for (size_t i = 0; i < bytes->n && r == 0; i++)
		if (bytes->records[i]->arena) /* 0: the mount's */
			r = pf_map_put(&used, bytes->records[i]->arena, &bytes->ids[i]);
	if (r < 0)
		return pf_err_set(err, r, "no memory for the arenas");
	for (size_t i = 0; i < n_arenas; i++)
		if (arenas[i] && !pf_map_get(&used, arenas[i]))
			pf_arena_forget(arenas[i]);
	return 0;
}

int pf_restore_arenas(struct pf_restore *restore, const struct pf_kept *kept, size_t n,
		      uint64_t limit, struct pf_arena **arena, struct pf_err *err)
{
	PF_CLEANUP(kept_bytes_release) struct kept_bytes bytes = { 0 };
	uint64_t number;
	size_t n_known, len;
	int r = list_bytes(&bytes, err);

	if (r == 0)
		r = forget_unused(&bytes, err);
	if (r < 0)
		return r;
	free(pf_state_list(PF_STATE_ARENA, &n_known));
	for (int users = 0; users < 2; users++)
		for (size_t i = 0; i < n && r == 0; i++) {
			if (!pf_arena_is_kept(kept[i].name, &number) ||
			    (number != 0) != users || (users && !*arena))
				continue;
			/* Forgotten, now or by a daemon that died before the keeper knew it. */
			if (number && !pf_state_get(PF_STATE_ARENA, number, &len)) {
				pf_shm_forget(kept[i].name);
				continue;
			}
			r = restore_arena(restore, number, kept[i].fd, &bytes, limit,
					  arena, err);
			n_known--;
		}
	if (r < 0)
		return r;
	return *arena && n_known == 0
		       ? 0
		       : pf_err_set(err, -EPROTO, "an arena of the journal is missing");
}

int pf_restore_pools(struct pf_restore *restore, const struct pf_kept *kept, size_t n,
		     struct pf_err *err)
{
	for (size_t i = 0; i < n; i++) {
		struct pf_instance *pool;
		int r = pf_instance_of_pool(kept[i].name, kept[i].fd, &pool, err);

		if (r < 0)
			return r;
		if (pool &&
		    pf_map_put(&restore->pools, pf_instance_number(pool), pool) < 0) {
			pf_instance_unref(pool);
			return pf_err_set(err, -ENOMEM, "no memory for %s", kept[i].name);
		}
	}
	return 0;
}
