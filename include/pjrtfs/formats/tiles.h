/* SPDX-License-Identifier: Apache-2.0 */
/* How XLA's partitioner splits an argument or a result over a program's partitions. */
#ifndef PJRTFS_FORMATS_TILES_H
#define PJRTFS_FORMATS_TILES_H

#include <stdint.h>

#include "pjrtfs/formats/shape.h"

/*
 * An array of RANK dimensions is cut into counts[d] equal tiles along dimension d; partition
 * p has tile of[p], counted row by row.  Where nothing is cut, of is NULL and n may be 0:
 * every partition, however many there are, has the whole array.
 */
struct pf_tiles {
	unsigned rank;
	unsigned n; /* partitions */
	unsigned counts[PF_MAX_RANK];
	uint16_t *of; /* owned, n of them, or NULL */
};

void pf_tiles_free(struct pf_tiles *tiles); /* NULL is allowed */

/* Where along each dimension the tile of PARTITION is, in AT; in no unit but tiles. */
void pf_tiles_at(const struct pf_tiles *tiles, unsigned partition,
		 unsigned at[PF_MAX_RANK]);

/* Does every partition have the same of an array in A as in B? */
bool pf_tiles_equal(const struct pf_tiles *a, const struct pf_tiles *b);

/* How many different tiles there are. */
unsigned pf_tiles_count(const struct pf_tiles *tiles);

#endif
