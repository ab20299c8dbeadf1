/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the records of a half of the journal are: a hash table as base/map.c's, with slots of 8
 * bytes, as a mount of a million files has some million records.  A slot has the key's kind, and a part
 * of its hash; the record itself has the key.
 */
#ifndef PJRTFS_WIRE_STATE_INDEX_H
#define PJRTFS_WIRE_STATE_INDEX_H

#include <stddef.h>
#include <stdint.h>

enum { PF_STATE_KIND_BITS = 5 }; /* the lowest of a key */

struct pf_state_slot {
	uint32_t tag; /* the kind in the highest bits, then the hash */
	uint32_t at;  /* the record's offset in 8 bytes, + 1; 0: an empty slot */
};

/* All zeros but for the first two: empty. */
struct pf_state_index {
	const char *half;                    /* borrowed: offsets count from here */
	uint64_t (*key)(const void *record); /* of a record; borrowed */
	struct pf_state_slot *slots;         /* owned; a power of two of them, or none */
	size_t cap, used;
};

void pf_state_index_release(struct pf_state_index *index);

/* Make the record at OFF, a multiple of 8 below 32 GiB, that of KEY; *OLD: the one before, or NULL.
 * -ENOMEM. */
int pf_state_index_put(struct pf_state_index *index, uint64_t key, uint64_t off,
		       const void **old);

/* The record of KEY, or NULL. */
const void *pf_state_index_get(const struct pf_state_index *index, uint64_t key);

/* Forget KEY. */
void pf_state_index_remove(struct pf_state_index *index, uint64_t key);

/* The first record of KIND at or behind slot *POS, which moves behind it, or NULL.  Others are not looked
 * at. */
const void *pf_state_index_next(const struct pf_state_index *index, unsigned kind,
				size_t *pos);

#endif
