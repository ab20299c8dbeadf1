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

#endif
