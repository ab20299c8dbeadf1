/* SPDX-License-Identifier: Apache-2.0 */
/* Copying parts of arrays. */
#include <string.h>

#include "pjrtfs/formats/sharding.h"

/* The dimension from which on the block's elements lie together: all behind it are whole. */
static unsigned run_dim(const struct pf_block *b)
{
	unsigned d = b->part.rank;

	while (d > 0 && b->part.dims[d - 1] == b->whole.dims[d - 1])
		d--;
	return d ? d - 1 : 0;
}

static bool is_empty(const struct pf_block *b)
{
	for (unsigned d = 0; d < b->part.rank; d++)
		if (b->part.dims[d] == 0)
			return true;
	return false;
}

/* The element of the whole array at which the block starts. */
static uint64_t first_of(const struct pf_block *b)
{
	uint64_t at = 0;

	for (unsigned d = 0; d < b->whole.rank; d++)
		at = at * (uint64_t)b->whole.dims[d] + (uint64_t)b->start[d];
	return at;
}

bool pf_block_is_run(const struct pf_block *b, uint64_t *first)
{
	*first = 0;
	if (is_empty(b))
		return true;
	for (unsigned d = 0; d < run_dim(b); d++)
		if (b->part.dims[d] != 1)
			return false;
	*first = first_of(b);
	return true;
}

/* Copy run by run, out of the whole array or (PASTE) into it. */
static void copy(const struct pf_block *b, size_t size, unsigned char *whole,
		 unsigned char *part, bool paste)
{
	unsigned run = run_dim(b);
	int64_t at[PF_MAX_RANK] = { 0 };
	uint64_t steps[PF_MAX_RANK]; /* bytes from one index to the next */
	uint64_t len = size, step = size;
	unsigned char *w = whole + first_of(b) * size;

	for (unsigned d = b->part.rank; d-- > 0;) {
		steps[d] = step;
		step *= (uint64_t)b->whole.dims[d];
		if (d >= run)
			len *= (uint64_t)b->part.dims[d];
	}
	for (;;) {
		unsigned d = run;

		memcpy(paste ? w : part, paste ? part : w, len);
		part += len;
		/* The next index of the dimensions before the run's, as an odometer. */
		while (d > 0 && ++at[d - 1] == b->part.dims[d - 1]) {
			d--;
			w -= (uint64_t)(at[d] - 1) * steps[d];
			at[d] = 0;
		}
		if (d == 0)
			return;
		w += steps[d - 1];
	}
}

void pf_block_cut(const struct pf_block *b, size_t size, const void *whole, void *part)
{
	/* copy writes to the part only. */
	if (!is_empty(b))
		copy(b, size, (unsigned char *)(uintptr_t)whole, part, false);
}

void pf_block_paste(const struct pf_block *b, size_t size, const void *part, void *whole)
{
	if (!is_empty(b))
		copy(b, size, whole, (unsigned char *)(uintptr_t)part, true);
}
