/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free extents of one kind never lie side by side, and sit in lists by size.  The first
 * and last granule of every extent hold its state and length, so that neighbours are
 * found in both directions; the granules between hold nothing.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "pjrtfs/shm.h"

struct pf_extent_tag {
	uint32_t state : 2; /* enum pf_extent_state */
	uint32_t first : 1; /* the first granule of its extent */
	uint32_t len : 29;
	uint32_t prev, next; /* of a free extent's first granule: its list */
};

enum {
	FIT_TRIES = 64,         /* how many extents of one list to compare */
	MAX_GRANULES = 1 << 29, /* one more does not fit len */
};

static uint32_t *bin_of(struct pf_extents *x, enum pf_extent_state state, uint32_t len)
{
	return &x->bins[state == PF_EXTENT_COLD][31 - __builtin_clz(len)];
}

static void mark(struct pf_extents *x, uint32_t at, uint32_t len,
		 enum pf_extent_state state)
{
	struct pf_extent_tag *first = &x->slots[at], *last = &x->slots[at + len - 1];

	first->state = last->state = state;
	first->len = last->len = len & (MAX_GRANULES - 1);
	last->first = 0;
	first->first = 1;
}

static void link_free(struct pf_extents *x, uint32_t at, uint32_t len,
		      enum pf_extent_state state)
{
	uint32_t *bin = bin_of(x, state, len);

	mark(x, at, len, state);
	x->slots[at].prev = PF_NO_EXTENT;
	x->slots[at].next = *bin;
	if (*bin != PF_NO_EXTENT)
		x->slots[*bin].prev = at;
	*bin = at;
	if (state == PF_EXTENT_WARM)
		x->warm += len;
}

static void unlink_free(struct pf_extents *x, uint32_t at)
{
	struct pf_extent_tag *s = &x->slots[at];
	enum pf_extent_state state = s->state;

	if (s->prev != PF_NO_EXTENT)
		x->slots[s->prev].next = s->next;
	else
		*bin_of(x, state, s->len) = s->next;
	if (s->next != PF_NO_EXTENT)
		x->slots[s->next].prev = s->prev;
	if (state == PF_EXTENT_WARM)
		x->warm -= s->len;
	/* Its ends become the inside of whatever takes its place. */
	x->slots[at + s->len - 1].state = PF_EXTENT_INSIDE;
	s->state = PF_EXTENT_INSIDE;
}

int pf_extents_init(struct pf_extents *x, uint32_t n, struct pf_err *err)
{
	void *p;

	assert(n > 0 && n < MAX_GRANULES);
	memset(x, 0, sizeof(*x));
	memset(x->bins, 0xff, sizeof(x->bins));
	/* A table of zeros that takes memory only where it is written. */
	p = mmap(NULL, n * sizeof(*x->slots), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return pf_err_set(err, -errno, "map a table: %s", strerror(errno));
	x->slots = p;
	x->n = n;
	link_free(x, 0, n, PF_EXTENT_COLD);
	return 0;
}

void pf_extents_release(struct pf_extents *x)
{
	if (x->slots)
		munmap(x->slots, x->n * sizeof(*x->slots));
	memset(x, 0, sizeof(*x));
}

/* A free extent of STATE with at least N granules: nearly the smallest. */
static uint32_t find(struct pf_extents *x, uint32_t n, enum pf_extent_state state)
{
	uint32_t *bin = bin_of(x, state, n), best = PF_NO_EXTENT;
	uint32_t *end = x->bins[state == PF_EXTENT_COLD] + PF_EXTENT_BINS;
	uint32_t at = *bin;

	for (int i = 0; at != PF_NO_EXTENT && i < FIT_TRIES; i++, at = x->slots[at].next)
		if (x->slots[at].len >= n &&
		    (best == PF_NO_EXTENT || x->slots[at].len < x->slots[best].len))
			best = at;
	while (best == PF_NO_EXTENT && ++bin < end)
		best = *bin;
	return best;
}

/* Take the first N granules of the free extent AT; the rest stays free. */
static void carve(struct pf_extents *x, uint32_t at, uint32_t n)
{
	enum pf_extent_state state = x->slots[at].state;
	uint32_t len = x->slots[at].len;

	unlink_free(x, at);
	if (len > n)
		link_free(x, at + n, len - n, state);
	mark(x, at, n, PF_EXTENT_USED);
	x->used += n;
}

uint32_t pf_extents_take(struct pf_extents *x, uint32_t n, bool *cold)
{
	uint32_t at = find(x, n, PF_EXTENT_WARM);

	*cold = at == PF_NO_EXTENT;
	if (*cold)
		at = find(x, n, PF_EXTENT_COLD);
	if (at != PF_NO_EXTENT)
		carve(x, at, n);
	return at;
}

uint32_t pf_extents_take_warm(struct pf_extents *x, uint32_t n, uint32_t *got)
{
	uint32_t at = PF_NO_EXTENT;

	for (int i = PF_EXTENT_BINS - 1; at == PF_NO_EXTENT && i >= 0; i--)
		at = x->bins[0][i];
	if (at == PF_NO_EXTENT)
		return at;
	*got = x->slots[at].len < n ? x->slots[at].len : n;
	carve(x, at, *got);
	return at;
}

uint32_t pf_extents_length(const struct pf_extents *x, uint32_t at)
{
	if (at >= x->n || x->slots[at].state != PF_EXTENT_USED || !x->slots[at].first)
		return 0;
	return x->slots[at].len;
}

void pf_extents_give(struct pf_extents *x, uint32_t at, bool warm)
{
	enum pf_extent_state state = warm ? PF_EXTENT_WARM : PF_EXTENT_COLD;
	uint32_t len = x->slots[at].len;

	x->used -= len;
	mark(x, at, len, PF_EXTENT_INSIDE);
	if (at > 0 && x->slots[at - 1].state == state) {
		uint32_t before = x->slots[at - 1].len;

		unlink_free(x, at - before);
		at -= before;
		len += before;
	}
	if (at + len < x->n && x->slots[at + len].state == state) {
		uint32_t after = x->slots[at + len].len;

		unlink_free(x, at + len);
		len += after;
	}
	link_free(x, at, len, state);
}
