/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of an argument or result. */
#include "pjrtfs/formats/tiles.h"

#include <stdlib.h>
#include <string.h>

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
