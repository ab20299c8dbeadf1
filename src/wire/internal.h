/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free room of the arena, by address.  Private to the layer; its caller has the lock.
 */
#ifndef PJRTFS_WIRE_INTERNAL_H
#define PJRTFS_WIRE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Warm: its pages are there.  Adjacent pieces of one kind are merged. */
struct piece {
	uint64_t off, len; /* bytes */
	bool warm;
};

struct room {
	struct piece *pieces; /* owned, sorted by offset */
	size_t n, cap;
	uint64_t warm; /* bytes in warm pieces */
};

void room_release(struct room *room);

/* Put LEN bytes at OFF back.  False: no memory to remember them. */
bool room_add(struct room *room, uint64_t off, uint64_t len, bool warm);

/* Take LEN bytes of the tightest piece that has them and is (not) WARM.  False: none has. */
bool room_take(struct room *room, uint64_t len, bool warm, uint64_t *ret);

/* Take the LEN bytes at OFF.  False: they are not free, or not where a piece begins. */
bool room_take_at(struct room *room, uint64_t off, uint64_t len);

/* Take at most LEN bytes of the largest warm piece, which there is; how many. */
uint64_t room_take_warm(struct room *room, uint64_t len, uint64_t *ret);

#endif
