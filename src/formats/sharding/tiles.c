/* SPDX-License-Identifier: Apache-2.0 */
/* Shardings as the tiles of XLA's partitioner. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/sharding.h"

void pf_tiles_free(struct pf_tiles *tiles)
{
	if (!tiles)
		return;
	free(tiles->of);
	free(tiles);
}

void pf_tiles_at(const struct pf_tiles *tiles, unsigned partition,
		 unsigned at[PF_MAX_RANK])
{
	unsigned tile = tiles->of ? tiles->of[partition] : 0;

	for (unsigned d = tiles->rank; d-- > 0;) {
		at[d] = tile % tiles->counts[d];
		tile /= tiles->counts[d];
	}
}

unsigned pf_tiles_count(const struct pf_tiles *tiles)
{
	unsigned n = 1;

	for (unsigned d = 0; d < tiles->rank; d++)
		n *= tiles->counts[d];
	return n;
}

bool pf_tiles_equal(const struct pf_tiles *a, const struct pf_tiles *b)
{
	if (a->rank != b->rank ||
	    memcmp(a->counts, b->counts, a->rank * sizeof(a->counts[0])))
		return false;
	if (!a->of || !b->of)
		return !a->of && !b->of;
	return a->n == b->n && !memcmp(a->of, b->of, a->n * sizeof(a->of[0]));
}

/* --- from XLA's OpSharding ---------------------------------------------------------- */

/* The dimensions that are permuted, the last ones varying fastest, and the steps of each. */
struct permuted {
	unsigned size[PF_MAX_RANK], step[PF_MAX_RANK];
};

static int read_permuted(const struct pf_tiling *g, unsigned n, struct permuted *ret,
			 struct pf_err *err)
{
	size_t rank = g->n_reshape;
	unsigned step[PF_MAX_RANK], all = 1;
	uint32_t seen = 0;

	if (rank > PF_MAX_RANK)
		return pf_err_set(err, -E2BIG, "more than %d dimensions of devices",
				  PF_MAX_RANK);
	for (size_t i = rank; i-- > 0;) {
		if (g->reshape[i] < 1 || g->reshape[i] > (int64_t)(n / all))
			break;
		step[i] = all;
		all *= (unsigned)g->reshape[i];
		seen++;
	}
	if (seen != rank || all != n)
		return pf_err_set(err, -EINVAL,
				  "expected dimensions of %u devices in all, as many as "
				  "there are tiles, behind <=",
				  n);
	seen = 0;
	for (size_t i = 0; i < rank; i++) {
		int64_t from = g->permutation[i];

		if (from < 0 || from >= (int64_t)rank || seen & UINT32_C(1) << from)
			return pf_err_set(err, -EINVAL,
					  "expected a permutation of the numbers below "
					  "%zu, found %lld at place %zu",
					  rank, (long long)from, i);
		seen |= UINT32_C(1) << from;
		ret->size[i] = (unsigned)g->reshape[from];
		ret->step[i] = step[from];
	}
	return 0;
}

/* The numbers from 0 to N - 1 in an array of G's dimensions, permuted, into RET. */
static int permute(const struct pf_tiling *g, unsigned n, unsigned *ret,
		   struct pf_err *err)
{
	struct permuted p;
	int r = read_permuted(g, n, &p, err);

	for (unsigned at = 0; r == 0 && at < n; at++) {
		unsigned rest = at;

		ret[at] = 0;
		for (size_t i = g->n_reshape; i-- > 0;) {
			ret[at] += rest % p.size[i] * p.step[i];
			rest /= p.size[i];
		}
	}
	return r;
}

/* Which partitions there are in the order of the tiles: each exactly once. */
static int list(const struct pf_tiling *g, unsigned n, unsigned *ret, struct pf_err *err)
{
	bool seen[PF_MAX_SHARDS] = { false };

	if (g->n_order != n)
		return pf_err_set(err, -EINVAL, "expected %u devices, found %zu", n,
				  g->n_order);
	for (unsigned i = 0; i < n; i++) {
		if (g->order[i] < 0 || g->order[i] >= n)
			return pf_err_set(err, -EINVAL,
					  "expected devices from 0 to %u, found %lld",
					  n - 1, (long long)g->order[i]);
		ret[i] = (unsigned)g->order[i];
		if (seen[ret[i]])
			return pf_err_set(err, -EINVAL, "device %u is there twice",
					  ret[i]);
		seen[ret[i]] = true;
	}
	return 0;
}

static int read_counts(const struct pf_tiling *g, unsigned rank, struct pf_tiles *t,
		       struct pf_err *err)
{
	if (g->n_counts - g->n_copies != rank)
		return pf_err_set(err, -EINVAL,
				  "it is of %zu dimension%s, the array has %u",
				  g->n_counts - g->n_copies,
				  g->n_counts - g->n_copies == 1 ? "" : "s", rank);
	*t = (struct pf_tiles){ .rank = rank, .n = 1 };
	for (size_t i = 0; i < g->n_counts; i++) {
		if (g->counts[i] < 1)
			return pf_err_set(err, -EINVAL,
					  "dimension %zu: expected tiles from 1 on, "
					  "found %lld",
					  i, (long long)g->counts[i]);
		if (g->counts[i] > PF_MAX_SHARDS / t->n)
			return pf_err_set(err, -E2BIG, "tiles for more than %d devices",
					  PF_MAX_SHARDS);
		t->n *= (unsigned)g->counts[i];
		if (i < rank)
			t->counts[i] = (unsigned)g->counts[i];
	}
	return 0;
}

int pf_tiles_of(const struct pf_tiling *g, unsigned rank, struct pf_tiles *ret,
		struct pf_err *err)
{
	unsigned order[PF_MAX_SHARDS], each;
	int r = read_counts(g, rank, ret, err);

	if (r == 0)
		r = g->n_reshape ? permute(g, ret->n, order, err)
				 : list(g, ret->n, order, err);
	if (r < 0 || pf_tiles_count(ret) == 1)
		return r;
	ret->of = calloc(ret->n, sizeof(*ret->of));
	if (!ret->of)
		return pf_err_set(err, -ENOMEM, "no memory for a sharding");
	each = ret->n / pf_tiles_count(ret);
	for (unsigned i = 0; i < ret->n; i++)
		ret->of[order[i]] = (uint16_t)(i / each);
	return 0;
}

/* --- in the axes of a given mesh ---------------------------------------------------- */

struct match {
	const struct pf_tiles *tiles;
	struct pf_sharding *s; /* being made */
	unsigned n;
	unsigned place[PF_MAX_SHARDS]; /* in the mesh, of each partition's device */
	bool used[PF_MAX_AXES];
};

/* Do the axes that divide dimension DIM so far give every partition the REST tiles among
 * which its own is?  If so, no other axes in their place do: divide never backtracks. */
static bool fits(const struct match *m, unsigned dim, unsigned rest)
{
	unsigned want[PF_MAX_RANK], got[PF_MAX_RANK];

	for (unsigned p = 0; p < m->n; p++) {
		pf_tiles_at(m->tiles, p, want);
		pf_sharding_at(m->s, m->place[p], got);
		if (want[dim] / rest != got[dim])
			return false;
	}
	return true;
}

/* Find axes, in an order, that divide dimension DIM into the LEFT times more parts. */
static bool divide(struct match *m, unsigned dim, unsigned left)
{
	struct pf_sharding *s = m->s;

	if (left == 1)
		return true;
	for (unsigned a = 0; a < s->n_axes; a++) {
		unsigned size = s->axes[a].size;

		if (m->used[a] || size == 1 || left % size)
			continue;
		m->used[a] = true;
		s->by[dim][s->n_by[dim]++] = (uint8_t)a;
		if (fits(m, dim, left / size))
			return divide(m, dim, left / size);
		s->n_by[dim]--;
		m->used[a] = false;
	}
	return false;
}

/* 0; -ENOENT: the axes of LIKE's mesh cannot express it; -ENOMEM. */
static int match(const struct pf_tiles *tiles, unsigned n, char *const *devices,
		 const struct pf_sharding *like, struct pf_sharding *ret)
{
	struct match m = { .tiles = tiles, .s = ret, .n = n };
	int r;

	if (like->n != n || !like->devices)
		return -ENOENT;
	for (unsigned p = 0; p < n; p++) {
		int place = pf_sharding_find(like, devices[p]);

		if (place < 0)
			return -ENOENT;
		m.place[p] = (unsigned)place;
	}
	r = pf_sharding_copy(like, ret);
	if (r < 0)
		return r;
	ret->rank = tiles->rank;
	memset(ret->n_by, 0, sizeof(ret->n_by));
	for (unsigned d = 0; d < tiles->rank; d++)
		if (!divide(&m, d, tiles->counts[d])) {
			pf_sharding_release(ret);
			return -ENOENT;
		}
	return 0;
}

/* --- in axes of our own ------------------------------------------------------------- */

static int add_axis(struct pf_sharding *s, const char *name, unsigned size, int dim,
		    struct pf_err *err)
{
	if (s->n_axes == PF_MAX_AXES)
		return pf_err_set(err, -E2BIG, "it would need more than %d axes",
				  PF_MAX_AXES);
	strcpy(s->axes[s->n_axes].name, name);
	s->axes[s->n_axes].size = size;
	if (dim >= 0)
		s->by[dim][s->n_by[dim]++] = (uint8_t)s->n_axes;
	s->n_axes++;
	return 0;
}

/* The devices by tile: those of one tile follow each other. */
static int order_devices(const struct pf_tiles *tiles, char *const *devices,
			 struct pf_sharding *s)
{
	unsigned each = s->n / pf_tiles_count(tiles);
	unsigned next[PF_MAX_SHARDS] = { 0 }, of[PF_MAX_SHARDS];

	for (unsigned p = 0; p < s->n; p++) {
		unsigned tile = tiles->of ? tiles->of[p] : 0;

		of[tile * each + next[tile]++] = p;
	}
	return pf_sharding_place(s, devices, of);
}

static int name_axes(const struct pf_tiles *tiles, struct pf_sharding *s,
		     struct pf_err *err)
{
	unsigned each = s->n / pf_tiles_count(tiles);
	int r = 0;

	for (unsigned d = 0; d < tiles->rank && r == 0; d++) {
		char name[16];

		if (tiles->counts[d] == 1)
			continue;
		snprintf(name, sizeof(name), "d%u", d);
		r = add_axis(s, name, tiles->counts[d], (int)d, err);
	}
	if (r == 0 && (each > 1 || !s->n_axes))
		r = add_axis(s, "replicated", each, -1, err);
	return r;
}

int pf_sharding_of_tiles(const struct pf_tiles *tiles, unsigned n, char *const *devices,
			 const struct pf_sharding *like, struct pf_sharding *ret,
			 struct pf_err *err)
{
	int r = -ENOENT;

	memset(ret, 0, sizeof(*ret));
	if ((tiles->of && tiles->n != n) || n < 1 || n > PF_MAX_SHARDS)
		return pf_err_set(err, -EINVAL,
				  "it is for %u partitions, there are %u devices",
				  tiles->n, n);
	if (like)
		r = match(tiles, n, devices, like, ret);
	if (r != -ENOENT)
		return r < 0 ? pf_err_set(err, r, "no memory for a sharding") : 0;
	memset(ret, 0, sizeof(*ret));
	ret->rank = tiles->rank;
	ret->n = n;
	r = name_axes(tiles, ret, err);
	if (r == 0 && order_devices(tiles, devices, ret) < 0)
		r = pf_err_set(err, -ENOMEM, "no memory for a sharding");
	if (r < 0)
		pf_sharding_release(ret);
	return r;
}

/* --- comparing them ----------------------------------------------------------------- */

int pf_sharding_agrees(const struct pf_sharding *s, const struct pf_tiles *tiles,
		       unsigned n, char *const *devices, struct pf_err *err)
{
	if (tiles->of && tiles->n != n)
		return 0;
	if (s->rank != tiles->rank)
		return pf_err_set(err, -EINVAL, "it has %u dimensions, expected %u",
				  s->rank, tiles->rank);
	for (unsigned d = 0; d < s->rank; d++)
		if (pf_sharding_parts(s, d) != tiles->counts[d])
			return pf_err_set(err, -EINVAL,
					  "dimension %u is in %u parts, the program "
					  "takes it in %u",
					  d, pf_sharding_parts(s, d), tiles->counts[d]);
	for (unsigned p = 0; p < n; p++) {
		unsigned want[PF_MAX_RANK], got[PF_MAX_RANK];
		int place = pf_sharding_find(s, devices[p]);

		if (place < 0)
			return pf_err_set(err, -EINVAL, "it has no shard on %s",
					  devices[p]);
		pf_tiles_at(tiles, p, want);
		pf_sharding_at(s, (unsigned)place, got);
		for (unsigned d = 0; d < s->rank; d++)
			if (want[d] != got[d])
				return pf_err_set(err, -EINVAL,
						  "%s has part %u of dimension %u, the "
						  "program wants part %u there",
						  devices[p], got[d], d, want[d]);
	}
	return 0;
}
