/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "state_index.h"

enum {
	MIN_SLOTS = 64,
	KIND_SHIFT = 32 - PF_STATE_KIND_BITS,
};

static uint32_t tag_of(uint64_t key)
{
	/* Of consecutive numbers, and of those that another table had in a row, as after a compaction by
	 * an older program: two rounds, as one leaves them in a row. */
	uint64_t hash = (key ^ key >> 32) * UINT64_C(0x9e3779b97f4a7c15);

	hash = (hash ^ hash >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
	return (uint32_t)key << KIND_SHIFT | (uint32_t)(hash >> (64 - KIND_SHIFT));
}

static const void *record_of(const struct pf_state_index *x, struct pf_state_slot slot)
{
	return x->half + ((uint64_t)slot.at - 1) * 8;
}

/* Where KEY is, or the empty slot where it would go.  There is always an empty one. */
static size_t find(const struct pf_state_index *x, uint64_t key)
{
	size_t mask = x->cap - 1, i = tag_of(key) & mask;

	while (x->slots[i].at && (x->slots[i].tag != tag_of(key) ||
				  x->key(record_of(x, x->slots[i])) != key))
		i = (i + 1) & mask;
	return i;
}

static int grow(struct pf_state_index *x)
{
	size_t cap = x->cap ? x->cap * 2 : MIN_SLOTS;
	struct pf_state_slot *slots = calloc(cap, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < x->cap; i++) {
		size_t to = x->slots[i].tag & (cap - 1);

		while (x->slots[i].at && slots[to].at)
			to = (to + 1) & (cap - 1);
		if (x->slots[i].at)
			slots[to] = x->slots[i];
	}
	free(x->slots);
	x->slots = slots;
	x->cap = cap;
	return 0;
}

void pf_state_index_release(struct pf_state_index *x)
{
	free(x->slots);
	*x = (struct pf_state_index){ .half = x->half, .key = x->key };
}

int pf_state_index_put(struct pf_state_index *x, uint64_t key, uint64_t off,
		       const void **old)
{
	const struct pf_state_slot slot = { tag_of(key), (uint32_t)(off / 8 + 1) };
	size_t i = x->cap ? find(x, key) : 0;

	*old = x->cap && x->slots[i].at ? record_of(x, x->slots[i]) : NULL;
	/* Replacing takes no room, so it cannot fail. */
	if (!*old && (x->used + 1) * 4 > x->cap * 3) {
		if (grow(x) < 0)
			return -ENOMEM;
		i = find(x, key);
	}
	x->used += !*old;
	x->slots[i] = slot;
	return 0;
}

const void *pf_state_index_get(const struct pf_state_index *x, uint64_t key)
{
	size_t i = x->cap ? find(x, key) : 0;

	return x->cap && x->slots[i].at ? record_of(x, x->slots[i]) : NULL;
}

void pf_state_index_remove(struct pf_state_index *x, uint64_t key)
{
	size_t mask = x->cap - 1, hole, i;

	if (!x->cap || !x->slots[hole = find(x, key)].at)
		return;
	/* Close the gap, as pf_map_remove. */
	for (i = (hole + 1) & mask; x->slots[i].at; i = (i + 1) & mask)
		if (((i - x->slots[i].tag) & mask) >= ((i - hole) & mask)) {
			x->slots[hole] = x->slots[i];
			hole = i;
		}
	x->slots[hole] = (struct pf_state_slot){ 0 };
	x->used--;
}

const void *pf_state_index_next(const struct pf_state_index *x, unsigned kind,
				size_t *pos)
{
	while (*pos < x->cap) {
		struct pf_state_slot slot = x->slots[(*pos)++];

		if (slot.at && slot.tag >> KIND_SHIFT == kind)
			return record_of(x, slot);
	}
	return NULL;
}
