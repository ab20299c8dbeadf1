/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include "pjrtfs/arena.h"
#include "pjrtfs/base.h"
#include "pjrtfs/heap.h"
#include "pjrtfs/shm.h"
#include "pjrtfs/state.h"

#define MIB (UINT64_C(1) << 20)
#define HUGE (2 * MIB)  /* the granule of large extents */
#define AHEAD (8 * MIB) /* by so much the heap's thread faults in ahead of a writer */
#define SMALL_MIN (64 * MIB) /* bytes of the front part, of small extents */
#define SMALL_MOST ((MIB << 16) - HUGE)
#define LARGE_MIN (MIB << 13) /* bytes of all else: eight times the limit, within these */
#define LARGE_MOST (MIB << 23)

/* The bytes that all arenas of a mount may use: the first one's. */
struct budget {
	uint64_t limit;
	_Atomic uint64_t used; /* extents, and charges; never beyond limit but by force */
	uint64_t (*_Atomic reclaim)(void *arg, uint64_t need);
	void *reclaim_arg; /* written before reclaim */
};

struct pf_arena {
	uint64_t number; /* 0: the mount's own; else the user's, and 1 */
	int fd;          /* owned; the daemon's own, which writes */
	int read_fd;     /* owned; the same memfd, opened for reading: the workers' */
	uint8_t *memory; /* owned mapping of size bytes */
	uint64_t size;
	struct budget *budget; /* borrowed: own, or that of the mount's arena */
	struct budget own;
	struct pf_heap heap;
	bool kept;              /* for a later life: the journal has a record of it */
	_Atomic size_t holders; /* of a user's; see pf_arena_hold */
	/* Of the mount's arena: owned, those of users of an earlier life until pf_arena_new_for takes
	 * them. */
	SLIST_HEAD(, pf_arena) adopted;
	SLIST_ENTRY(pf_arena) entry; /* of such an arena */
};

static uint64_t clamp(uint64_t n, uint64_t least, uint64_t most)
{
	return n < least ? least : n > most ? most : (n + HUGE - 1) / HUGE * HUGE;
}

/*
 * Open the memfd once more, for reading, and take the right to open it for writing from all
 * users but root with its capabilities: a worker can then neither map the arena for writing
 * nor mprotect(2) its mapping.  Not F_SEAL_FUTURE_WRITE, under which the kernel refuses to
 * punch holes: pages could not be given back.
 */
static int open_for_reading(struct pf_arena *a, struct pf_err *err)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", a->fd);
	if (fchmod(a->fd, 0400) == 0)
		a->read_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (a->read_fd < 0)
		return pf_err_set(err, -errno, "open the arena for reading: %s",
				  strerror(errno));
	return 0;
}

static void unmap_file(struct pf_arena *a)
{
	if (a->memory)
		munmap(a->memory, a->size);
	pf_closep(&a->fd);
	pf_closep(&a->read_fd);
	free(a);
}

/* The payload of PF_STATE_ARENA. */
struct layout {
	uint64_t size;
	uint64_t small_size;
};

/* Make an arena of FD, which is taken on success; FIRST (NULL: none) has its budget. */
static int make(int fd, uint64_t limit, const struct layout *layout,
		struct pf_arena *first, struct pf_arena **ret, struct pf_err *err)
{
	const struct pf_heap_rules rules = {
		.small_shift = 8,
		.small_size = layout->small_size,
		.small_max = MIB / 2,
		.keep = { 64 * MIB, 1024 * MIB },
		.keep_idle = { 8 * MIB, 24 * MIB },
	};
	struct pf_arena *a = calloc(1, sizeof(*a));
	int r;

	if (!a)
		return pf_err_set(err, -ENOMEM, "no memory for the arena");
	a->own.limit = limit;
	a->budget = first ? first->budget : &a->own;
	a->size = layout->size;
	a->fd = fd;
	a->read_fd = -1;
	r = open_for_reading(a, err);
	if (r == 0)
		r = pf_shm_map(fd, a->size, PROT_READ | PROT_WRITE, (void **)&a->memory,
			       err);
	if (r == 0)
		r = pf_heap_init(&a->heap, fd, a->memory, a->size, &rules, err);
	if (r == 0) {
		*ret = a;
		return 0;
	}
	a->fd = -1; /* still the caller's */
	unmap_file(a);
	return r;
}

int pf_arena_new(uint64_t limit, struct pf_arena **ret, struct pf_err *err)
{
	uint64_t large = limit < LARGE_MOST / 8 ? limit * 8 : LARGE_MOST;
	struct layout layout = { .small_size = clamp(limit, SMALL_MIN, SMALL_MOST) };
	pf_autoclose int fd = -1;
	int r;

	layout.size = layout.small_size + clamp(large, LARGE_MIN, LARGE_MOST);
	r = fd = pf_shm_new("pjrtfs-arena", layout.size, err);
	if (r >= 0)
		r = make(fd, limit, &layout, NULL, ret, err);
	if (r == 0)
		fd = -1;
	return r;
}

/* --- arenas that outlive the daemon ------------------------------------------------- */

static const char kept_name[] = "arena";

uint64_t pf_arena_number(const struct pf_arena *a)
{
	return a->number;
}

bool pf_arena_is_kept(const char *name, uint64_t *ret)
{
	const char *user = name + sizeof(kept_name) - 1;

	if (strncmp(name, kept_name, sizeof(kept_name) - 1) || (*user && *user != '.'))
		return false;
	*ret = *user ? strtoull(user + 1, NULL, 10) + 1 : 0;
	return true;
}

/* The name for the keeper, in DST. */
static const char *name_kept(uint64_t number, char dst[32])
{
	if (number)
		snprintf(dst, 32, "%s.%" PRIu64, kept_name, number - 1);
	else
		snprintf(dst, 32, "%s", kept_name);
	return dst;
}

void pf_arena_keep(struct pf_arena *a)
{
	const struct layout layout = { a->size, a->heap.rules.small_size };
	char name[32];

	pf_state_put(PF_STATE_ARENA, pf_arena_number(a), &layout, sizeof(layout), NULL,
		     0);
	pf_shm_keep(name_kept(a->number, name), a->fd);
	a->kept = true;
}

void pf_arena_forget(uint64_t number)
{
	char name[32];

	pf_state_drop(PF_STATE_ARENA, number);
	pf_shm_forget(name_kept(number, name));
}

void pf_arena_keep_no_more(struct pf_arena *a)
{
	if (a->kept)
		pf_arena_forget(a->number);
	a->kept = false;
}

/* Take the arena NUMBER off FIRST's adopted ones; NULL: none has this number. */
static struct pf_arena *take_adopted(struct pf_arena *first, uint64_t number)
{
	struct pf_arena *a;

	SLIST_FOREACH(a, &first->adopted, entry)
		if (a->number == number)
			break;
	if (a)
		SLIST_REMOVE(&first->adopted, a, pf_arena, entry);
	return a;
}

int pf_arena_new_for(struct pf_arena *first, uid_t user, struct pf_arena **ret,
		     struct pf_err *err)
{
	const struct layout layout = { first->size, first->heap.rules.small_size };
	char name[64];
	pf_autoclose int fd = -1;
	int r;

	*ret = take_adopted(first, (uint64_t)user + 1);
	if (*ret)
		return 0;
	snprintf(name, sizeof(name), "pjrtfs-arena-%u", (unsigned)user);
	r = fd = pf_shm_new(name, layout.size, err);
	if (r >= 0)
		r = make(fd, first->budget->limit, &layout, first, ret, err);
	if (r < 0)
		return r;
	(*ret)->number = (uint64_t)user + 1;
	fd = -1;
	if (first->kept)
		pf_arena_keep(*ret);
	return 0;
}

static int by_offset(const void *a, const void *b)
{
	const struct pf_extent *x = a, *y = b;

	return (x->off > y->off) - (x->off < y->off);
}

/* Do the numbers of L make an arena, and is FD of its size? */
static bool fits(const struct layout *l, int fd)
{
	struct stat st;

	return l->small_size && l->small_size <= SMALL_MOST && l->size > l->small_size &&
	       l->size - l->small_size <= LARGE_MOST &&
	       l->small_size % HUGE + l->size % HUGE == 0 && fstat(fd, &st) == 0 &&
	       (uint64_t)st.st_size == l->size;
}

int pf_arena_adopt(struct pf_arena *first, uint64_t number, int fd, uint64_t limit,
		   struct pf_extent *extents, size_t n, struct pf_arena **ret,
		   struct pf_err *err)
{
	const struct layout *layout =
		pf_state_load(PF_STATE_ARENA, number, sizeof(*layout), NULL, NULL);
	struct pf_arena *a;
	int r;

	if (!layout || !fits(layout, fd))
		return pf_err_set(err, -EPROTO,
				  "the arena is not of the size in the journal");
	r = make(fd, limit, layout, first, &a, err);
	if (r < 0)
		return r;
	qsort(extents, n, sizeof(*extents), by_offset);
	if (!pf_heap_claim(&a->heap, extents, n)) {
		a->fd = -1; /* still the caller's */
		pf_arena_free(a);
		return pf_err_set(err, -EPROTO,
				  "the journal gives bytes of the arena two owners");
	}
	for (size_t i = 0; i < n; i++)
		pf_arena_force(a, pf_heap_length(&a->heap, extents[i].off));
	a->kept = true;
	if (first) {
		a->number = number;
		SLIST_INSERT_HEAD(&first->adopted, a, entry);
	}
	*ret = a;
	return 0;
}

void pf_arena_free(struct pf_arena *a)
{
	struct pf_arena *adopted;

	if (!a)
		return;
	while ((adopted = SLIST_FIRST(&a->adopted))) {
		SLIST_REMOVE_HEAD(&a->adopted, entry);
		pf_arena_free(adopted);
	}
	pf_arena_keep_no_more(a);
	pf_heap_release(&a->heap);
	unmap_file(a);
}

/* All threads use the mount's, whose count they would only take from each other's caches. */
static bool counts_holders(const struct pf_arena *a)
{
	return a && a->number;
}

void pf_arena_hold(struct pf_arena *a)
{
	if (counts_holders(a))
		atomic_fetch_add(&a->holders, 1);
}

void pf_arena_let_go(struct pf_arena *a)
{
	if (counts_holders(a))
		atomic_fetch_sub(&a->holders, 1);
}

bool pf_arena_is_held(const struct pf_arena *a)
{
	return !counts_holders(a) || atomic_load(&a->holders);
}

bool pf_arena_share_limit(const struct pf_arena *a, const struct pf_arena *b)
{
	return a->budget == b->budget;
}

int pf_arena_fd(const struct pf_arena *a)
{
	return a->read_fd;
}

int pf_arena_own_fd(const struct pf_arena *a)
{
	return a->fd;
}

uint64_t pf_arena_size(const struct pf_arena *a)
{
	return a->size;
}

void *pf_arena_at(const struct pf_arena *a, uint64_t off)
{
	return a->memory + off;
}

void pf_arena_usage(struct pf_arena *a, uint64_t *used, uint64_t *limit)
{
	*used = atomic_load(&a->budget->used);
	*limit = a->budget->limit;
}

/* --- the limit ---------------------------------------------------------------------- */

/* The error that LEN bytes, which take NEED, are beyond the limit. */
static int no_room(const struct pf_arena *a, uint64_t len, uint64_t need,
		   struct pf_err *err)
{
	char takes[48] = "";

	if (need > len)
		snprintf(takes, sizeof(takes), ", which take %" PRIu64, need);
	return pf_err_set(err, -ENOSPC,
			  "no room for %" PRIu64 " bytes%s: %" PRIu64
			  " of the memory limit's %" PRIu64
			  " bytes are in use (--memory-limit)",
			  len, takes, atomic_load(&a->budget->used), a->budget->limit);
}

/* Charge MORE bytes, unless that is beyond the limit. */
static bool charge(struct budget *a, uint64_t more)
{
	uint64_t used = atomic_load(&a->used);

	do {
		if (used > a->limit || more > a->limit - used)
			return false;
	} while (!atomic_compare_exchange_weak(&a->used, &used, used + more));
	return true;
}

/* The same; at the limit, reclaim copies that can be made again. */
static bool charge_or_reclaim(struct budget *a, uint64_t more)
{
	while (!charge(a, more)) {
		uint64_t (*reclaim)(void *arg, uint64_t need) = atomic_load(&a->reclaim);
		uint64_t used = atomic_load(&a->used);

		if (!reclaim || more > a->limit)
			return false;
		if (used + more > a->limit &&
		    !reclaim(a->reclaim_arg, used + more - a->limit))
			return charge(a, more);
	}
	return true;
}

void pf_arena_set_reclaim(struct pf_arena *a,
			  uint64_t (*reclaim)(void *arg, uint64_t need), void *arg)
{
	a->budget->reclaim_arg = arg;
	atomic_store(&a->budget->reclaim, reclaim);
}

int pf_arena_charge(struct pf_arena *a, uint64_t len, struct pf_err *err)
{
	return charge_or_reclaim(a->budget, len) ? 0 : no_room(a, len, len, err);
}

void pf_arena_force(struct pf_arena *a, uint64_t len)
{
	atomic_fetch_add(&a->budget->used, len);
}

void pf_arena_discharge(struct pf_arena *a, uint64_t len)
{
	atomic_fetch_sub(&a->budget->used, len);
}

/* --- extents ------------------------------------------------------------------------ */

/* The bytes that an extent of LEN bytes takes.  False: more than there can be. */
static bool footprint(const struct pf_arena *a, uint64_t len, uint64_t *ret)
{
	if (len > LARGE_MOST)
		return false;
	*ret = pf_heap_round(&a->heap, len);
	return true;
}

uint64_t pf_arena_takes(const struct pf_arena *a, uint64_t len)
{
	uint64_t takes = len;

	(void)footprint(a, len, &takes);
	return takes;
}

int pf_arena_alloc(struct pf_arena *a, uint64_t len, struct pf_extent *ret,
		   struct pf_err *err)
{
	uint64_t need = len;
	bool cold;

	if (!footprint(a, len, &need) || !charge_or_reclaim(a->budget, need))
		return no_room(a, len, need, err);
	if (!pf_heap_take(&a->heap, need, false, ret, &cold)) {
		pf_arena_discharge(a, need);
		return no_room(a, len, need, err);
	}
	if (ret->len > need) /* the front part is full: this is a large extent */
		pf_arena_force(a, ret->len - need);
	if (cold && ret->len > AHEAD)
		pf_heap_populate(&a->heap, ret->off + AHEAD, ret->len - AHEAD);
	return 0;
}

int pf_arena_grow(struct pf_arena *a, struct pf_extent *extent, uint64_t len,
		  uint64_t keep, struct pf_extent *old, struct pf_err *err)
{
	struct pf_extent moved;
	uint64_t need = len, more;
	int r;

	if (old)
		*old = (struct pf_extent){ 0 };
	if (len <= extent->len)
		return 0;
	if (!footprint(a, len, &need) ||
	    !charge_or_reclaim(a->budget, need - extent->len))
		return no_room(a, len - extent->len, need - extent->len, err);
	more = need - extent->len;
	if (pf_heap_extend(&a->heap, extent, need))
		return 0;
	pf_arena_discharge(a, more);
	/* Moving needs both places at once; try with room to grow, then with what is
	 * needed. */
	r = pf_arena_alloc(a, len > extent->len * 2 ? len : extent->len * 2, &moved,
			   NULL);
	if (r < 0)
		r = pf_arena_alloc(a, len, &moved, err);
	if (r < 0)
		return r;
	memcpy(a->memory + moved.off, a->memory + extent->off, keep);
	if (old)
		*old = *extent;
	else
		pf_arena_give(a, extent);
	*extent = moved;
	return 0;
}

uint64_t pf_arena_length(struct pf_arena *a, uint64_t off)
{
	return pf_heap_length(&a->heap, off);
}

void pf_arena_shrink(struct pf_arena *a, struct pf_extent *extent, uint64_t len)
{
	uint64_t had = extent->len;

	pf_heap_shrink(&a->heap, extent, len);
	pf_arena_discharge(a, had - extent->len);
}

void pf_arena_zero(struct pf_arena *a, uint64_t off, uint64_t len)
{
	uint64_t from = (off + HUGE - 1) / HUGE * HUGE, to = (off + len) / HUGE * HUGE;

	/* Fresh pages cost nothing until they are touched. */
	if (len >= 4 * HUGE &&
	    fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
		      (off_t)(to - from)) == 0) {
		memset(a->memory + off, 0, from - off);
		memset(a->memory + to, 0, off + len - to);
		return;
	}
	memset(a->memory + off, 0, len);
}

void pf_arena_give(struct pf_arena *a, struct pf_extent *extent)
{
	bool given;

	if (!extent->len)
		return;
	given = pf_heap_give(&a->heap, extent->off, false, true);
	assert(given);
	(void)given;
	pf_arena_discharge(a, extent->len);
	*extent = (struct pf_extent){ 0 };
}
