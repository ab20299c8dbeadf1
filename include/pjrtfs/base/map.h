/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table from 64-bit numbers to pointers. */
#ifndef PJRTFS_BASE_MAP_H
#define PJRTFS_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Keys are any number but 0 (which marks an empty place); values are not owned.  Not
 * safe for use by two threads: the lock is the caller's.  All zeros is an empty map.
 */
struct pf_map {
	struct pf_map_slot {
		uint64_t key;
		void *value;
	} * slots;   /* owned; a power of two of them */
	size_t cap;  /* number of slots */
	size_t used; /* keys in the map */
};

/* Free the table (not the values).  MAP may be NULL. */
void pf_map_release(struct pf_map *map);

/* Put VALUE (not NULL) under KEY, replacing what was there.  0 or -ENOMEM. */
int pf_map_put(struct pf_map *map, uint64_t key, void *value);

/* The value under KEY, or NULL. */
void *pf_map_get(const struct pf_map *map, uint64_t key);

/* Take the value under KEY out of the map and return it, or NULL. */
void *pf_map_remove(struct pf_map *map, uint64_t key);

/*
 * Iterate: *POS starts at 0; returns the next value in no particular order, or NULL at
 * the end.  The map must not change meanwhile.
 */
void *pf_map_next(const struct pf_map *map, size_t *pos);

/* A 64-bit hash of LEN bytes (FNV-1a), never 0.  Not for data that an attacker picks
 * to collide where that would matter beyond speed. */
uint64_t pf_hash(const void *data, size_t len);

#endif
