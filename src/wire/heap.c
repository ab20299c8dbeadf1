/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boundary tags: the first and the last granule of every extent hold its state and length, so
 * that its neighbours are found in both directions; the granules between hold nothing.  Free
 * extents of one state never lie side by side, and are listed by size.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "pjrtfs/heap.h"

enum state {
	INSIDE, /* neither the first nor the last granule of an extent */
	USED,   /* given out */
	WARM,   /* free, with pages */
	COLD,   /* free, without */
};

struct pf_heap_tag {
	uint32_t state : 2;  /* enum state */
	uint32_t first : 1;  /* the first granule of its extent */
	uint32_t mark : 1;   /* of an extent in use, in its first granule: its owner's */
	uint32_t len : 28;   /* granules */
	uint32_t prev, next; /* in a free extent's first granule: its list */
};

enum {
	MAX_GRANULES = 1 << 28, /* one more does not fit len */
	FIT_TRIES = 64,         /* how many extents of one list to compare */
	LARGE_SHIFT = 21,
	PAGE = 4096,
	TICK_MS = 200,   /* memory that is freed and taken again soon keeps its pages */
	IDLE_TICKS = 15, /* without a change, after which little is kept */
};

#define NO_GRANULE UINT32_MAX
#define STEP (UINT64_C(4) << 20) /* bytes to fault in at a time */

/* --- the extents of one part: the caller holds the lock -------------------------------- */

static uint32_t *bin_of(struct pf_heap_part *p, enum state state, uint32_t len)
{
	return &p->bins[state == COLD][31 - __builtin_clz(len)];
}

static void set_tags(struct pf_heap_part *p, uint32_t at, uint32_t len, enum state state)
{
	struct pf_heap_tag *first = &p->tags[at], *last = &p->tags[at + len - 1];

	first->state = last->state = state;
	first->len = last->len = len & (MAX_GRANULES - 1);
	last->first = 0;
	first->first = 1;
}

static void link_free(struct pf_heap_part *p, uint32_t at, uint32_t len, enum state state)
{
	uint32_t *bin = bin_of(p, state, len);

	set_tags(p, at, len, state);
	p->tags[at].prev = NO_GRANULE;
	p->tags[at].next = *bin;
	if (*bin != NO_GRANULE)
		p->tags[*bin].prev = at;
	*bin = at;
	if (state == WARM)
		p->warm += len;
}

static void unlink_free(struct pf_heap_part *p, uint32_t at)
{
	struct pf_heap_tag *t = &p->tags[at];

	if (t->prev != NO_GRANULE)
		p->tags[t->prev].next = t->next;
	else
		*bin_of(p, t->state, t->len) = t->next;
	if (t->next != NO_GRANULE)
		p->tags[t->next].prev = t->prev;
	if (t->state == WARM)
		p->warm -= t->len;
	/* Its ends become the inside of the extent that takes its place. */
	p->tags[at + t->len - 1].state = INSIDE;
	t->state = INSIDE;
}

/* A free extent in STATE with at least N granules: nearly the smallest. */
static uint32_t find(struct pf_heap_part *p, uint32_t n, enum state state)
{
	uint32_t *bin = bin_of(p, state, n), best = NO_GRANULE, at = *bin;
	uint32_t *end = p->bins[state == COLD] + PF_HEAP_BINS;

	for (int i = 0; at != NO_GRANULE && i < FIT_TRIES; i++, at = p->tags[at].next) {
		if (p->tags[at].len == n)
			return at;
		if (p->tags[at].len > n &&
		    (best == NO_GRANULE || p->tags[at].len < p->tags[best].len))
			best = at;
	}
	while (best == NO_GRANULE && ++bin < end)
		best = *bin;
	return best;
}

/* Take the first N granules of the free extent at AT; the rest stays free. */
static void carve(struct pf_heap_part *p, uint32_t at, uint32_t n)
{
	enum state state = p->tags[at].state;
	uint32_t len = p->tags[at].len;

	unlink_free(p, at);
	if (len > n)
		link_free(p, at + n, len - n, state);
	set_tags(p, at, n, USED);
	p->tags[at].mark = 0;
}

/* Free the N granules at AT, whose tags count no more, and merge them with their neighbours. */
static void merge(struct pf_heap_part *p, uint32_t at, uint32_t n, enum state state)
{
	set_tags(p, at, n, INSIDE);
	if (at > 0 && p->tags[at - 1].state == state) {
		uint32_t before = p->tags[at - 1].len;

		unlink_free(p, at - before);
		at -= before;
		n += before;
	}
	if (at + n < p->n && p->tags[at + n].state == state) {
		uint32_t after = p->tags[at + n].len;

		unlink_free(p, at + n);
		n += after;
	}
	link_free(p, at, n, state);
}

/* The length of the extent in use that starts at granule AT; 0: none does. */
static uint32_t length(const struct pf_heap_part *p, uint32_t at)
{
	const struct pf_heap_tag *t = &p->tags[at];

	return at < p->n && t->state == USED && t->first ? t->len : 0;
}

/* --- bytes and granules ----------------------------------------------------------------- */

static struct pf_heap_part *part_of(struct pf_heap *h, uint64_t off)
{
	return &h->parts[off >= h->parts[PF_HEAP_LARGE].start];
}

static uint64_t granules(const struct pf_heap_part *p, uint64_t len)
{
	return len ? ((len - 1) >> p->shift) + 1 : 1;
}

static uint32_t granule_at(const struct pf_heap_part *p, uint64_t off)
{
	return (uint32_t)((off - p->start) >> p->shift);
}

static uint64_t offset_of(const struct pf_heap_part *p, uint32_t at)
{
	return p->start + ((uint64_t)at << p->shift);
}

/* The first granule of the extent in use at offset OFF, or NO_GRANULE. */
static uint32_t find_used(const struct pf_heap_part *p, uint64_t off)
{
	uint32_t at = granule_at(p, off);

	return offset_of(p, at) == off && length(p, at) ? at : NO_GRANULE;
}

uint64_t pf_heap_round(const struct pf_heap *h, uint64_t len)
{
	const struct pf_heap_part *p = &h->parts[len > h->rules.small_max];

	return granules(p, len) << p->shift;
}

/* Return the pages of LEN bytes at OFF to the system: takes long, so not under the lock. */
static void drop_pages(const struct pf_heap *h, uint64_t off, uint64_t len)
{
	(void)fallocate(h->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off,
			(off_t)len);
}

/*
 * Add cold granules on both sides of the N in use at *AT that lie in the same pages: only whole
 * pages can be dropped.
 */
static void annex(struct pf_heap_part *p, uint32_t *at, uint32_t *n)
{
	uint32_t page = (uint32_t)granules(p, PAGE), before = *at % page;
	uint32_t end = *at + *n, behind = (page - end % page) % page;
	uint32_t len = before ? p->tags[*at - 1].len : 0;

	if (len && len >= before && p->tags[*at - 1].state == COLD) {
		unlink_free(p, *at - len);
		if (len > before)
			link_free(p, *at - len, len - before, COLD);
		*at -= before;
		*n += before;
	}
	if (behind && p->tags[end].state == COLD && p->tags[end].len >= behind) {
		carve(p, end, behind);
		*n += behind;
	}
	set_tags(p, *at, *n, USED);
}

/*
 * Drop the pages of P's free extents until it keeps no more than KEEP bytes.  The extents are in
 * use meanwhile, so that no other thread takes them.
 */
static void trim_locked(struct pf_heap *h, struct pf_heap_part *p, uint64_t keep)
{
	while (!h->stop && (uint64_t)p->warm << p->shift > keep) {
		uint64_t excess = granules(p, ((uint64_t)p->warm << p->shift) - keep);
		uint32_t at = NO_GRANULE, n;

		for (int i = PF_HEAP_BINS - 1; at == NO_GRANULE && i >= 0; i--)
			at = p->bins[0][i];
		n = p->tags[at].len < excess ? p->tags[at].len : (uint32_t)excess;
		carve(p, at, n);
		annex(p, &at, &n);
		pf_unlock(&h->lock);
		if ((uint64_t)n << p->shift >= PAGE)
			drop_pages(h, offset_of(p, at), (uint64_t)n << p->shift);
		pf_lock(&h->lock);
		merge(p, at, n, COLD);
	}
}

static void trim_parts_locked(struct pf_heap *h, const uint64_t *keep)
{
	for (int i = 0; i < PF_HEAP_PARTS; i++)
		trim_locked(h, &h->parts[i], keep[i]);
}

/* --- the background thread ------------------------------------------------------------- */

static void populate_locked(struct pf_heap *h)
{
	uint64_t off = h->ahead, left = h->ahead_end - off;
	uint64_t len = left < STEP ? left : STEP;

	h->ahead += len;
	pf_unlock(&h->lock);
	(void)madvise(h->base + off, len, MADV_POPULATE_WRITE);
	pf_lock(&h->lock);
}

/* After some time without a change: keep few pages, of the process's other memory, too. */
static void cool_down_locked(struct pf_heap *h)
{
	uint64_t changes = h->changes;

	trim_parts_locked(h, h->rules.keep_idle);
	pf_unlock(&h->lock);
	malloc_trim(0);
	pf_lock(&h->lock);
	h->cool = h->changes == changes;
}

static void *background(void *arg)
{
	struct pf_heap *h = arg;
	struct timespec tick = { 0 };
	uint64_t changes = 0;
	int still = 0; /* ticks without a change */

	PF_LOCK_SCOPE(&h->lock);
	while (!h->stop) {
		if (h->ahead < h->ahead_end) {
			populate_locked(h);
		} else if (h->cool) {
			pthread_cond_wait(&h->work, &h->lock);
			still = 0;
			tick = pf_time_in(CLOCK_MONOTONIC, TICK_MS);
		} else if (pthread_cond_clockwait(&h->work, &h->lock, CLOCK_MONOTONIC,
						  &tick) == ETIMEDOUT) {
			still = h->changes == changes ? still + 1 : 0;
			changes = h->changes;
			if (still < IDLE_TICKS)
				trim_parts_locked(h, h->rules.keep);
			else
				cool_down_locked(h);
			tick = pf_time_in(CLOCK_MONOTONIC, TICK_MS);
		}
	}
	return NULL;
}

/* --- the interface ------------------------------------------------------------------------ */

static int init_part(struct pf_heap_part *p, uint64_t start, uint64_t size,
		     unsigned shift, struct pf_err *err)
{
	uint32_t n = (uint32_t)(size >> shift);
	void *tags;

	assert(n > 0 && n < MAX_GRANULES);
	/* A table of zeros that takes memory only where it is written. */
	tags = mmap(NULL, n * sizeof(*p->tags), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (tags == MAP_FAILED)
		return pf_err_set(err, -errno, "map a table: %s", strerror(errno));
	*p = (struct pf_heap_part){
		.tags = tags, .start = start, .shift = shift, .n = n
	};
	memset(p->bins, 0xff, sizeof(p->bins));
	link_free(p, 0, n, COLD);
	return 0;
}

static int start_background(struct pf_heap *h, struct pf_err *err)
{
	int r;

	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->work, NULL);
	r = pthread_create(&h->thread, NULL, background, h);
	if (r)
		return pf_err_set(err, -r, "start a thread: %s", strerror(r));
	return 0;
}

static void release_parts(struct pf_heap *h)
{
	for (int i = 0; i < PF_HEAP_PARTS; i++)
		if (h->parts[i].tags)
			munmap(h->parts[i].tags,
			       h->parts[i].n * sizeof(*h->parts[i].tags));
}

int pf_heap_init(struct pf_heap *h, int fd, void *base, uint64_t size,
		 const struct pf_heap_rules *rules, struct pf_err *err)
{
	int r;

	*h = (struct pf_heap){ .fd = fd, .base = base, .rules = *rules, .cool = true };
	r = init_part(&h->parts[PF_HEAP_SMALL], 0, rules->small_size, rules->small_shift,
		      err);
	if (r == 0)
		r = init_part(&h->parts[PF_HEAP_LARGE], rules->small_size,
			      size - rules->small_size, LARGE_SHIFT, err);
	if (r == 0)
		r = start_background(h, err);
	if (r < 0)
		release_parts(h);
	return r;
}

void pf_heap_release(struct pf_heap *h)
{
	pf_lock(&h->lock);
	h->stop = true;
	pthread_cond_signal(&h->work);
	pf_unlock(&h->lock);
	pthread_join(h->thread, NULL);
	release_parts(h);
	pthread_cond_destroy(&h->work);
	pthread_mutex_destroy(&h->lock);
}

/* Take N granules of P, warm ones if there are. */
static uint32_t take_warmest(struct pf_heap_part *p, uint32_t n, bool *cold)
{
	uint32_t at = find(p, n, WARM);

	*cold = at == NO_GRANULE;
	if (*cold)
		at = find(p, n, COLD);
	if (at != NO_GRANULE)
		carve(p, at, n);
	return at;
}

static bool take_locked(struct pf_heap *h, struct pf_heap_part *p, uint64_t len,
			bool mark, struct pf_extent *ret, bool *cold)
{
	uint64_t n = granules(p, len);
	uint32_t at;

	if (n > p->n)
		return false;
	at = take_warmest(p, (uint32_t)n, cold);
	if (at == NO_GRANULE && p->warm) {
		/* Warm and cold extents do not merge: make all cold. */
		trim_locked(h, p, 0);
		at = take_warmest(p, (uint32_t)n, cold);
	}
	if (at == NO_GRANULE)
		return false;
	p->tags[at].mark = mark;
	*ret = (struct pf_extent){ offset_of(p, at), n << p->shift };
	return true;
}

bool pf_heap_take(struct pf_heap *h, uint64_t len, bool mark, struct pf_extent *ret,
		  bool *cold)
{
	PF_LOCK_SCOPE(&h->lock);
	h->changes++;
	return (len <= h->rules.small_max &&
		take_locked(h, &h->parts[PF_HEAP_SMALL], len, mark, ret, cold)) ||
	       take_locked(h, &h->parts[PF_HEAP_LARGE], len, mark, ret, cold);
}

/* Bytes from OFF to END were freed: stop faulting them in, and let the thread trim later. */
static void freed_locked(struct pf_heap *h, uint64_t off, uint64_t end)
{
	if (h->ahead < end && h->ahead_end > off)
		h->ahead = h->ahead_end = 0;
	h->changes++;
	if (h->cool)
		pthread_cond_signal(&h->work);
	h->cool = false;
}

bool pf_heap_give(struct pf_heap *h, uint64_t off, bool mark, bool warm)
{
	struct pf_heap_part *p = part_of(h, off);
	uint32_t at, n;
	uint64_t end;

	PF_LOCK_SCOPE(&h->lock);
	at = find_used(p, off);
	if (at == NO_GRANULE || p->tags[at].mark != mark)
		return false;
	n = p->tags[at].len;
	end = offset_of(p, at + n);
	if (!warm) {
		pf_unlock(&h->lock);
		drop_pages(h, off, end - off);
		pf_lock(&h->lock);
	}
	merge(p, at, n, warm ? WARM : COLD);
	freed_locked(h, off, end);
	return true;
}

/*
 * Make the LEN bytes at OFF an extent in use.  They lie behind all that are in use, so they must
 * be in the last free extent, which begins at granule *FREE of P.
 */
static bool claim_locked(struct pf_heap_part *p, const struct pf_extent *extent,
			 uint32_t *free)
{
	uint32_t at = granule_at(p, extent->off), rest;
	uint64_t n = granules(p, extent->len);

	if (offset_of(p, at) != extent->off || at < *free || at >= p->n || n > p->n - at)
		return false;
	unlink_free(p, *free);
	if (at > *free)
		link_free(p, *free, at - *free, COLD);
	set_tags(p, at, (uint32_t)n, USED);
	p->tags[at].mark = 0;
	*free = at + (uint32_t)n;
	rest = p->n - *free;
	if (rest)
		link_free(p, *free, rest, COLD);
	return true;
}

/* Drop the pages of the free bytes from OFF to END. */
static void drop_between(const struct pf_heap *h, uint64_t off, uint64_t end)
{
	off = (off + PAGE - 1) / PAGE * PAGE;
	end = end / PAGE * PAGE;
	if (off < end)
		drop_pages(h, off, end - off);
}

bool pf_heap_claim(struct pf_heap *h, const struct pf_extent *extents, size_t n)
{
	uint32_t free[PF_HEAP_PARTS] = { 0 };
	const struct pf_heap_part *last = &h->parts[PF_HEAP_LARGE];
	uint64_t end = 0;

	PF_LOCK_SCOPE(&h->lock);
	for (size_t i = 0; i < n; i++) {
		struct pf_heap_part *p = part_of(h, extents[i].off);

		if (!claim_locked(p, &extents[i], &free[p == last]))
			return false;
		drop_between(h, end, extents[i].off);
		end = offset_of(p, free[p == last]);
	}
	drop_between(h, end, offset_of(last, last->n));
	return true;
}

uint64_t pf_heap_length(struct pf_heap *h, uint64_t off)
{
	struct pf_heap_part *p = part_of(h, off);
	uint32_t at;

	PF_LOCK_SCOPE(&h->lock);
	at = find_used(p, off);
	return at == NO_GRANULE ? 0 : (uint64_t)p->tags[at].len << p->shift;
}

bool pf_heap_extend(struct pf_heap *h, struct pf_extent *extent, uint64_t len)
{
	struct pf_heap_part *p = part_of(h, extent->off);
	uint32_t at = granule_at(p, extent->off), have, next;
	uint64_t n = granules(p, len);

	if (p == &h->parts[PF_HEAP_SMALL] && len > h->rules.small_max)
		return false;
	PF_LOCK_SCOPE(&h->lock);
	have = p->tags[at].len;
	next = at + have;
	if (next >= p->n || p->tags[next].state < WARM || p->tags[next].len < n - have)
		return false;
	carve(p, next, (uint32_t)n - have);
	p->tags[next - 1].state = p->tags[next].state = INSIDE;
	set_tags(p, at, (uint32_t)n, USED);
	h->changes++;
	extent->len = n << p->shift;
	return true;
}

void pf_heap_shrink(struct pf_heap *h, struct pf_extent *extent, uint64_t len)
{
	struct pf_heap_part *p = part_of(h, extent->off);
	uint32_t at = granule_at(p, extent->off), have;
	uint64_t n = granules(p, len);

	PF_LOCK_SCOPE(&h->lock);
	have = p->tags[at].len;
	if (n >= have)
		return;
	set_tags(p, at, (uint32_t)n, USED);
	merge(p, at + (uint32_t)n, have - (uint32_t)n, WARM);
	freed_locked(h, extent->off + (n << p->shift), extent->off + extent->len);
	extent->len = n << p->shift;
}

void pf_heap_populate(struct pf_heap *h, uint64_t off, uint64_t len)
{
	PF_LOCK_SCOPE(&h->lock);
	h->ahead = off;
	h->ahead_end = off + len;
	pthread_cond_signal(&h->work);
}

void pf_heap_trim(struct pf_heap *h)
{
	PF_LOCK_SCOPE(&h->lock);
	trim_parts_locked(h, (const uint64_t[PF_HEAP_PARTS]){ 0 });
}
