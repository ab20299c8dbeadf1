/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table from 64-bit numbers to pointers: open addressing, linear probing. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "pjrtfs/base.h"

enum { MIN_SLOTS = 16 };

/*
 * Keys are often consecutive (inode numbers) or multiples of something (addresses):
 * spread them over the whole table, so that linear probing finds no long runs.
 */
static size_t home(const struct pf_map *map, uint64_t key)
{
	key ^= key >> 32;
	key *= UINT64_C(0x9e3779b97f4a7c15);
	key ^= key >> 29;
	return (size_t)key & (map->cap - 1);
}

/* Where KEY is, or the empty slot where it would go.  There is always an empty one. */
static size_t find(const struct pf_map *map, uint64_t key)
{
	size_t i = home(map, key);

	while (map->slots[i].key && map->slots[i].key != key)
		i = (i + 1) & (map->cap - 1);
	return i;
}

static int grow(struct pf_map *map)
{
	struct pf_map bigger = { .cap = map->cap ? map->cap * 2 : MIN_SLOTS,
				 .used = map->used };

	bigger.slots = calloc(bigger.cap, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < map->cap; i++)
		if (map->slots[i].key)
			bigger.slots[find(&bigger, map->slots[i].key)] = map->slots[i];
	free(map->slots);
	*map = bigger;
	return 0;
}

void pf_map_release(struct pf_map *map)
{
	if (!map)
		return;
	free(map->slots);
	*map = (struct pf_map){ 0 };
}

int pf_map_reserve(struct pf_map *map, size_t n)
{
	int r = 0;

	while (r == 0 && (map->used + n) * 4 > map->cap * 3)
		r = grow(map);
	return r;
}

int pf_map_put(struct pf_map *map, uint64_t key, void *value)
{
	size_t i;
	int r;

	assert(key && value);
	if (map->cap) {
		/* Replacing takes no room, so it cannot fail. */
		i = find(map, key);
		if (map->slots[i].key) {
			map->slots[i].value = value;
			return 0;
		}
	}
	r = pf_map_reserve(map, 1);
	if (r < 0)
		return r;
	i = find(map, key);
	map->slots[i].key = key;
	map->slots[i].value = value;
	map->used++;
	return 0;
}

void *pf_map_get(const struct pf_map *map, uint64_t key)
{
	return map->cap && key ? map->slots[find(map, key)].value : NULL;
}

void *pf_map_remove(struct pf_map *map, uint64_t key)
{
	size_t mask = map->cap - 1, hole, i;
	void *value;

	if (!map->cap || !key)
		return NULL;
	hole = find(map, key);
	value = map->slots[hole].value;
	if (!value)
		return NULL;
	/*
	 * Close the gap instead of leaving a tombstone: a later member of the run moves
	 * into the hole unless its home lies behind the hole, where the probe for it
	 * would start and never see it.
	 */
	for (i = (hole + 1) & mask; map->slots[i].key; i = (i + 1) & mask) {
		size_t from_home = (i - home(map, map->slots[i].key)) & mask;

		if (from_home >= ((i - hole) & mask)) {
			map->slots[hole] = map->slots[i];
			hole = i;
		}
	}
	map->slots[hole] = (struct pf_map_slot){ 0 };
	map->used--;
	return value;
}

void *pf_map_next(const struct pf_map *map, size_t *pos)
{
	while (*pos < map->cap) {
		struct pf_map_slot *slot = &map->slots[(*pos)++];

		if (slot->key)
			return slot->value;
	}
	return NULL;
}

uint64_t pf_hash(const void *data, size_t len)
{
	const unsigned char *p = data;
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * UINT64_C(0x100000001b3);
	return h ? h : 1;
}
