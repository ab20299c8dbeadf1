/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/shm.h"

static void room_release(struct room *room)
{
	free(room->pieces);
}

/* Index of the first piece at or after OFF. */
static size_t piece_after(const struct room *room, uint64_t off)
{
	size_t lo = 0, hi = room->n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (room->pieces[mid].off < off)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void piece_remove(struct room *room, size_t i)
{
	memmove(room->pieces + i, room->pieces + i + 1,
		(room->n - i - 1) * sizeof(*room->pieces));
	room->n--;
}

static bool piece_insert(struct room *room, size_t i, struct piece piece)
{
	if (room->n == room->cap) {
		size_t cap = room->cap ? room->cap * 2 : 64;
		struct piece *p = realloc(room->pieces, cap * sizeof(*p));

		if (!p)
			return false;
		room->pieces = p;
		room->cap = cap;
	}
	memmove(room->pieces + i + 1, room->pieces + i,
		(room->n - i) * sizeof(*room->pieces));
	room->pieces[i] = piece;
	room->n++;
	return true;
}

/* Put LEN bytes at OFF back.  False: no memory to remember them. */
static bool room_add(struct room *room, uint64_t off, uint64_t len, bool warm)
{
	size_t i = piece_after(room, off);
	struct piece *prev = i ? &room->pieces[i - 1] : NULL;
	struct piece *next = i < room->n ? &room->pieces[i] : NULL;

	if (prev && prev->off + prev->len == off && prev->warm == warm) {
		prev->len += len;
		if (next && next->off == prev->off + prev->len && next->warm == warm) {
			prev->len += next->len;
			piece_remove(room, i);
		}
	} else if (next && off + len == next->off && next->warm == warm) {
		next->off = off;
		next->len += len;
	} else if (!piece_insert(room, i, (struct piece){ off, len, warm })) {
		return false;
	}
	if (warm)
		room->warm += len;
	return true;
}

/* Take LEN bytes from the start of piece I. */
static uint64_t piece_cut(struct room *room, size_t i, uint64_t len)
{
	struct piece *p = &room->pieces[i];
	uint64_t off = p->off;

	if (p->warm)
		room->warm -= len;
	p->off += len;
	p->len -= len;
	if (!p->len)
		piece_remove(room, i);
	return off;
}

/* Take LEN bytes of the tightest piece that has them and is (not) WARM.  False: none has. */
static bool room_take(struct room *room, uint64_t len, bool warm, uint64_t *ret)
{
	size_t best = room->n;

	for (size_t i = 0; i < room->n; i++)
		if (room->pieces[i].warm == warm && room->pieces[i].len >= len &&
		    (best == room->n || room->pieces[i].len < room->pieces[best].len))
			best = i;
	if (best == room->n)
		return false;
	*ret = piece_cut(room, best, len);
	return true;
}

/* Take the LEN bytes at OFF.  False: they are not free, or not where a piece begins. */
static bool room_take_at(struct room *room, uint64_t off, uint64_t len)
{
	size_t i = piece_after(room, off);

	if (i == room->n || room->pieces[i].off != off || room->pieces[i].len < len)
		return false;
	piece_cut(room, i, len);
	return true;
}

/* Take at most LEN bytes of the largest warm piece, which there is; how many. */
static uint64_t room_take_warm(struct room *room, uint64_t len, uint64_t *ret)
{
	size_t best = room->n;

	for (size_t i = 0; i < room->n; i++)
		if (room->pieces[i].warm &&
		    (best == room->n || room->pieces[i].len > room->pieces[best].len))
			best = i;
	if (best == room->n)
		return 0;
	if (len > room->pieces[best].len)
		len = room->pieces[best].len;
	*ret = piece_cut(room, best, len);
	return len;
}

#define HUGE (UINT64_C(2) << 20)       /* large extents come in these */
#define LARGE (UINT64_C(1) << 20)      /* from here on an extent is large */
#define STEP (UINT64_C(4) << 20)       /* faulted in ahead of a writer at a time */
#define WARM_MAX (UINT64_C(1) << 30)   /* freed bytes whose pages are kept */
#define WARM_IDLE (UINT64_C(32) << 20) /* of those, while nothing happens */
#define MIN_VIRTUAL (UINT64_C(64) << 30)
#define MAX_VIRTUAL (UINT64_C(8) << 40)

enum {
	IDLE_S = 3,    /* seconds without a change after which nothing happens */
	MIN_SHIFT = 8, /* the smallest class: 256 bytes */
	CLASSES = 13,  /* 256 bytes to 1 MiB */
};

struct class
{
	uint64_t *free; /* owned stack of offsets */
	size_t n, cap;
};

struct pf_arena {
	int fd;          /* owned; the daemon's own, which writes */
	int read_fd;     /* owned; the same memfd, opened for reading: the workers' */
	uint8_t *memory; /* owned mapping of size bytes */
	uint64_t size;
	uint64_t limit;
	_Atomic uint64_t
		used; /* extents, and what was charged; never beyond limit but by force */

	pthread_mutex_t lock; /* rank 7; protects the fields below */
	pthread_cond_t work;  /* something for the background thread */
	uint64_t (*reclaim)(void *arg, uint64_t need);
	void *reclaim_arg;
	uint64_t top;     /* beyond it nothing was ever used */
	struct room room; /* below it: what is free of large extents */
	struct class classes[CLASSES];
	uint64_t populate_off, populate_end; /* to be faulted in ahead of its writer */
	uint64_t changes;                    /* extents taken and given so far */
	bool cool; /* there is nothing to give back but what is kept while idle */
	bool stop;
	pthread_t thread; /* faults in and trims, so that no request has to */
};

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* Large enough to be a large extent?  Else which class? */
static bool class_of(uint64_t len, unsigned *ret)
{
	unsigned c = 0;

	if (len > LARGE / 2)
		return false;
	while ((UINT64_C(1) << (c + MIN_SHIFT)) < len)
		c++;
	*ret = c;
	return true;
}

/* --- taking and giving back --------------------------------------------------------- */

/*
 * Put large room back.  Should there be no memory to remember it, it is lost: only address
 * space, since its pages are given back.
 */
static void give_large(struct pf_arena *a, uint64_t off, uint64_t len, bool warm)
{
	if (!room_add(&a->room, off, len, warm))
		madvise(a->memory + off, len, MADV_REMOVE);
	if (a->room.warm > WARM_MAX)
		pthread_cond_signal(&a->work);
}

/* Take LEN bytes (a multiple of HUGE).  False: no address space is left. */
static bool take_large(struct pf_arena *a, uint64_t len, uint64_t *ret)
{
	if (room_take(&a->room, len, true, ret))
		return true;
	if (!room_take(&a->room, len, false, ret)) {
		if (a->size - a->top < len)
			return false;
		*ret = a->top;
		a->top += len;
	}
	/* The newest writer's pages matter most; ahead of it, not where it is. */
	a->populate_off = *ret + 2 * STEP < *ret + len ? *ret + 2 * STEP : *ret;
	a->populate_end = *ret + len;
	if (len > 2 * STEP)
		pthread_cond_signal(&a->work);
	return true;
}

static bool take_small(struct pf_arena *a, unsigned c, uint64_t *ret)
{
	struct class *k = &a->classes[c];
	uint64_t each = UINT64_C(1) << (c + MIN_SHIFT), chunk;

	if (!k->n) {
		size_t per = HUGE / each;

		/* Room for every offset of the class, so that giving back never fails. */
		uint64_t *p = realloc(k->free, (k->cap + per) * sizeof(*p));

		if (!p)
			return false;
		k->free = p;
		if (!take_large(a, HUGE, &chunk))
			return false;
		k->cap += per;
		for (size_t i = per; i-- > 0;)
			k->free[k->n++] = chunk + i * each;
	}
	*ret = k->free[--k->n];
	return true;
}

/* --- the background ---------------------------------------------------------------- */

/* Give pages beyond KEEP bytes back, some of them.  They are out of the free room meanwhile:
 * nobody can take them. */
static void trim_locked(struct pf_arena *a, uint64_t keep)
{
	uint64_t off = 0, len = round_up(a->room.warm - keep, HUGE);

	len = room_take_warm(&a->room, len, &off);
	pf_unlock(&a->lock);
	fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off,
		  (off_t)len);
	pf_lock(&a->lock);
	give_large(a, off, len, false);
}

static void populate_locked(struct pf_arena *a)
{
	uint64_t off = a->populate_off;
	uint64_t len = a->populate_end - off < STEP ? a->populate_end - off : STEP;

	a->populate_off += len;
	pf_unlock(&a->lock);
	madvise(a->memory + off, len, MADV_POPULATE_WRITE);
	pf_lock(&a->lock);
}

/* Of the class of SHIFT, put chunks back of which nothing is in use.  N_FREE has room for a
 * count for each chunk of the arena. */
static void give_chunks_locked(struct pf_arena *a, unsigned c, uint16_t *n_free)
{
	struct class *k = &a->classes[c];
	uint16_t per = (uint16_t)(HUGE >> (c + MIN_SHIFT));
	size_t kept = 0;

	for (size_t i = 0; i < k->n; i++)
		n_free[k->free[i] / HUGE]++;
	for (size_t i = 0; i < k->n; i++) {
		uint64_t off = k->free[i];

		if (n_free[off / HUGE] < per) {
			k->free[kept++] = off;
		} else if (off % HUGE == 0) {
			give_large(a, off, HUGE, true);
			k->cap -= per;
		}
	}
	k->n = kept;
}

/*
 * Nothing has happened for some time: give back what was kept for more of the same, and what
 * the heap has kept of the names and arrays that this memory was for.
 */
static void cool_down_locked(struct pf_arena *a)
{
	uint16_t *free_of = calloc(a->top / HUGE + 1, sizeof(*free_of));
	uint64_t changes = a->changes;

	for (unsigned c = 0; free_of && c < CLASSES; c++)
		give_chunks_locked(a, c, free_of);
	free(free_of);
	while (a->room.warm > WARM_IDLE && a->changes == changes && !a->stop)
		trim_locked(a, WARM_IDLE);
	pf_unlock(&a->lock);
	malloc_trim(0);
	pf_lock(&a->lock);
	a->cool = a->changes == changes;
}

/* Wait for work, or until nothing has changed for some time: then true. */
static bool is_idle_locked(struct pf_arena *a)
{
	uint64_t changes = a->changes;
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += IDLE_S;
	return pthread_cond_timedwait(&a->work, &a->lock, &end) == ETIMEDOUT &&
	       a->changes == changes;
}

static void *background(void *arg)
{
	struct pf_arena *a = arg;

	PF_LOCK_SCOPE(&a->lock);
	while (!a->stop) {
		if (a->populate_end - a->populate_off >= STEP)
			populate_locked(a);
		else if (a->room.warm > WARM_MAX)
			trim_locked(a, WARM_MAX);
		else if (a->cool)
			pthread_cond_wait(&a->work, &a->lock);
		else if (is_idle_locked(a))
			cool_down_locked(a);
	}
	return NULL;
}

/* --- the interface ------------------------------------------------------------------ */

/*
 * Open the memfd once more, for reading, and take the right to open it for writing from all
 * who are not root with its capabilities: a worker can then neither map the arena for writing
 * nor mprotect(2) its mapping.  Not F_SEAL_FUTURE_WRITE, under which the kernel refuses to
 * punch holes: pages could not be given back.
 */
static int open_for_reading(struct pf_arena *a)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", a->fd);
	if (fchmod(a->fd, 0400))
		return -1;
	a->read_fd = open(path, O_RDONLY | O_CLOEXEC);
	return a->read_fd < 0 ? -1
			      : fcntl(a->fd, F_ADD_SEALS,
				      F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

int pf_arena_new(uint64_t limit, struct pf_arena **ret, struct pf_err *err)
{
	struct pf_arena *a = calloc(1, sizeof(*a));
	pthread_condattr_t attr;

	if (!a)
		return pf_err_set(err, -ENOMEM, "no memory for the arena");
	a->limit = limit;
	a->size = limit < MAX_VIRTUAL / 8 ? round_up(limit * 8, HUGE) : MAX_VIRTUAL;
	if (a->size < MIN_VIRTUAL)
		a->size = MIN_VIRTUAL;
	a->read_fd = -1;
	a->fd = memfd_create("pjrtfs-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (a->fd < 0 || ftruncate(a->fd, (off_t)a->size) || open_for_reading(a)) {
		pf_err_set(err, -errno, "memfd of the arena: %s", strerror(errno));
		goto fail;
	}
	a->memory = mmap(NULL, a->size, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_NORESERVE, a->fd, 0);
	if (a->memory == MAP_FAILED) {
		pf_err_set(err, -errno, "map the arena's %" PRIu64 " bytes: %s", a->size,
			   strerror(errno));
		goto fail;
	}
	pthread_mutex_init(&a->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&a->work, &attr);
	pthread_condattr_destroy(&attr);
	a->cool = true;
	if (pthread_create(&a->thread, NULL, background, a)) {
		pf_err_set(err, -EAGAIN, "no thread for the arena");
		munmap(a->memory, a->size);
		goto fail;
	}
	*ret = a;
	return 0;
fail:
	if (a->fd >= 0)
		close(a->fd);
	if (a->read_fd >= 0)
		close(a->read_fd);
	free(a);
	return err ? err->code : -EIO;
}

void pf_arena_free(struct pf_arena *a)
{
	if (!a)
		return;
	pf_lock(&a->lock);
	a->stop = true;
	pthread_cond_signal(&a->work);
	pf_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	munmap(a->memory, a->size);
	close(a->fd);
	close(a->read_fd);
	for (unsigned c = 0; c < CLASSES; c++)
		free(a->classes[c].free);
	room_release(&a->room);
	pthread_cond_destroy(&a->work);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

int pf_arena_fd(const struct pf_arena *a)
{
	return a->read_fd;
}

uint64_t pf_arena_size(const struct pf_arena *a)
{
	return a->size;
}

void *pf_arena_at(const struct pf_arena *a, uint64_t off)
{
	return a->memory + off;
}

/* What LEN bytes take: a class's size, or whole huge pages.  False: no such number. */
static bool footprint(uint64_t len, uint64_t *ret)
{
	unsigned c;

	if (len > MAX_VIRTUAL)
		return false;
	*ret = class_of(len, &c) ? UINT64_C(1) << (c + MIN_SHIFT) : round_up(len, HUGE);
	return true;
}

void pf_arena_zero(struct pf_arena *a, uint64_t off, uint64_t len)
{
	uint64_t from = round_up(off, HUGE), to = (off + len) / HUGE * HUGE;

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

/* There is none for LEN bytes, which take NEED. */
static int no_room(const struct pf_arena *a, uint64_t len, uint64_t need,
		   struct pf_err *err)
{
	char takes[48] = "";

	if (need > len)
		snprintf(takes, sizeof(takes), ", which take %" PRIu64, need);
	return pf_err_set(err, -ENOSPC,
			  "no room for %" PRIu64 " bytes%s: %" PRIu64
			  " of the memory limit's %" PRIu64 " bytes are in use",
			  len, takes, atomic_load(&a->used), a->limit);
}

/* Count MORE bytes as in use, unless that is beyond the limit. */
static bool count(struct pf_arena *a, uint64_t more)
{
	uint64_t used = atomic_load(&a->used);

	do {
		if (used > a->limit || more > a->limit - used)
			return false;
	} while (!atomic_compare_exchange_weak(&a->used, &used, used + more));
	return true;
}

static void uncount(struct pf_arena *a, uint64_t len)
{
	atomic_fetch_sub(&a->used, len);
}

void pf_arena_set_reclaim(struct pf_arena *a,
			  uint64_t (*reclaim)(void *arg, uint64_t need), void *arg)
{
	PF_LOCK_SCOPE(&a->lock);
	a->reclaim = reclaim;
	a->reclaim_arg = arg;
}

/* The same after others gave up what they can spare, where that is needed.  Waits for no one. */
static bool count_or_relieve(struct pf_arena *a, uint64_t more)
{
	while (!count(a, more)) {
		uint64_t (*reclaim)(void *arg, uint64_t need), used;
		void *arg;

		pf_lock(&a->lock);
		reclaim = a->reclaim;
		arg = a->reclaim_arg;
		pf_unlock(&a->lock);
		if (!reclaim || more > a->limit)
			return false;
		used = atomic_load(&a->used);
		if (used + more > a->limit && !reclaim(arg, used + more - a->limit))
			return count(a, more);
	}
	return true;
}

int pf_arena_charge(struct pf_arena *a, uint64_t len, struct pf_err *err)
{
	return count_or_relieve(a, len) ? 0 : no_room(a, len, len, err);
}

void pf_arena_force(struct pf_arena *a, uint64_t len)
{
	atomic_fetch_add(&a->used, len);
}

void pf_arena_discharge(struct pf_arena *a, uint64_t len)
{
	uncount(a, len);
}

static bool take(struct pf_arena *a, uint64_t need, uint64_t *ret)
{
	unsigned c;

	PF_LOCK_SCOPE(&a->lock);
	a->changes++;
	return class_of(need, &c) ? take_small(a, c, ret) : take_large(a, need, ret);
}

int pf_arena_alloc(struct pf_arena *a, uint64_t len, struct pf_extent *ret,
		   struct pf_err *err)
{
	uint64_t need = len, off;

	if (!footprint(len ? len : 1, &need) || !count_or_relieve(a, need))
		return no_room(a, len, need, err);
	if (!take(a, need, &off)) {
		uncount(a, need);
		return no_room(a, len, need, err);
	}
	*ret = (struct pf_extent){ off, need };
	return 0;
}

/* Something was given back: look some time from now whether that was all. */
static void changed_locked(struct pf_arena *a)
{
	a->changes++;
	if (a->cool)
		pthread_cond_signal(&a->work);
	a->cool = false;
}

static void give_locked(struct pf_arena *a, const struct pf_extent *e)
{
	unsigned c;

	uncount(a, e->len);
	changed_locked(a);
	if (class_of(e->len, &c)) {
		a->classes[c].free[a->classes[c].n++] = e->off;
		return;
	}
	if (a->populate_off >= e->off && a->populate_off < e->off + e->len)
		a->populate_off = a->populate_end = 0;
	give_large(a, e->off, e->len, true);
}

/* Extend a large extent into the free room right behind it. */
static bool extend(struct pf_arena *a, struct pf_extent *e, uint64_t need)
{
	uint64_t more = need - e->len, end = e->off + e->len;

	if (e->len < LARGE)
		return false;
	PF_LOCK_SCOPE(&a->lock);
	if (end == a->top && a->size - a->top >= more)
		a->top += more;
	else if (!room_take_at(&a->room, end, more))
		return false;
	e->len = need;
	return true;
}

int pf_arena_grow(struct pf_arena *a, struct pf_extent *extent, uint64_t len,
		  uint64_t keep, struct pf_err *err)
{
	struct pf_extent moved;
	uint64_t need = len;
	int r;

	if (len <= extent->len)
		return 0;
	if (!footprint(len, &need) || !count_or_relieve(a, need - extent->len))
		return no_room(a, len - extent->len, need - extent->len, err);
	if (extend(a, extent, need))
		return 0;
	uncount(a, need - extent->len);
	/* Moving needs both places at once; ask for room to grow, then for what is needed. */
	r = pf_arena_alloc(a, len > extent->len * 2 ? len : extent->len * 2, &moved,
			   NULL);
	if (r < 0)
		r = pf_arena_alloc(a, len, &moved, err);
	if (r < 0)
		return r;
	memcpy(a->memory + moved.off, a->memory + extent->off, keep);
	pf_arena_give(a, extent);
	*extent = moved;
	return 0;
}

void pf_arena_shrink(struct pf_arena *a, struct pf_extent *extent, uint64_t len)
{
	uint64_t need;

	if (extent->len < LARGE || !footprint(len > LARGE ? len : LARGE, &need) ||
	    need >= extent->len)
		return;
	PF_LOCK_SCOPE(&a->lock);
	give_large(a, extent->off + need, extent->len - need, true);
	uncount(a, extent->len - need);
	changed_locked(a);
	extent->len = need;
}

void pf_arena_give(struct pf_arena *a, struct pf_extent *extent)
{
	if (!extent->len)
		return;
	PF_LOCK_SCOPE(&a->lock);
	give_locked(a, extent);
	*extent = (struct pf_extent){ 0 };
}

void pf_arena_usage(struct pf_arena *a, uint64_t *used, uint64_t *limit)
{
	*used = atomic_load(&a->used);
	*limit = a->limit;
}
