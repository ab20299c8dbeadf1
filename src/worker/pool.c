/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool's front holds small blocks in granules of 4 KiB, all else large ones in
 * granules of 2 MiB.  Freed pages are kept for the next user, as fresh ones cost more than
 * copying into them; a thread gives back what has been idle for a while and is too much.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
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

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define SMALL_BYTES (UINT64_C(64) << 20) /* the front part, at least */
#define SMALL_SHARE 16                   /* of the pool, if that is more */
#define SMALL_SHIFT 12
#define LARGE_SHIFT 21
#define MIN_SIZE (UINT64_C(2) * SMALL_BYTES)
#define SMALL_WARM (UINT64_C(8) << 20) /* idle bytes kept */
#define LARGE_WARM (UINT64_C(512) << 20)
#define IDLE_MS 200
#define IDLE_S 3 /* seconds without a change after which nothing is kept */
#define CHECK_MEMORY (UINT64_C(16) << 20) /* ask the system before so much is touched */

uintptr_t pf_pool_base;
size_t pf_pool_size;

/* A part of the pool. */
struct region {
	struct pf_extents extents;
	uint64_t start;  /* offset in the pool */
	unsigned shift;  /* of the granule's size */
	uint64_t keep;   /* idle bytes to keep */
	uint8_t *blocks; /* one a granule: 1 where one of the daemon's blocks starts */
};

static struct {
	pthread_mutex_t lock; /* rank 5; protects the regions' extents and blocks */
	pthread_cond_t idle;  /* a region has more warm memory than it keeps */
	uint64_t changes;     /* blocks taken and given so far */
	bool cool;            /* no idle memory is kept */
	int fd, meminfo;
	struct region small, large;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER, .cool = true, .fd = -1, .meminfo = -1 };

static uint64_t bytes_of(const struct region *region, uint32_t granules)
{
	return (uint64_t)granules << region->shift;
}

static char *address_of(const struct region *region, uint32_t at)
{
	return (char *)pf_pool_base + region->start + bytes_of(region, at);
}

static struct region *region_of(uint64_t off)
{
	return off < pool.large.start ? &pool.small : &pool.large;
}

static bool too_warm(const struct region *region)
{
	return bytes_of(region, region->extents.warm) > region->keep;
}

/* Give N granules at AT back to the system, which takes long: without the lock. */
static void drop_pages(struct region *region, uint32_t at, uint32_t n)
{
	(void)fallocate(pool.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			(off_t)(region->start + bytes_of(region, at)),
			(off_t)bytes_of(region, n));
}

/* Cool REGION down until it keeps no more than KEEP bytes.  Called and left locked. */
static void trim_locked(struct region *region, uint64_t keep)
{
	while (bytes_of(region, region->extents.warm) > keep) {
		uint64_t excess = bytes_of(region, region->extents.warm) - keep;
		uint32_t want =
			(uint32_t)((excess + bytes_of(region, 1) - 1) >> region->shift);
		uint32_t n = 0, at = pf_extents_take_warm(&region->extents, want, &n);

		if (at == PF_NO_EXTENT)
			return;
		pf_unlock(&pool.lock);
		drop_pages(region, at, n);
		pf_lock(&pool.lock);
		pf_extents_give(&region->extents, at, false);
	}
}

/* Wait until there may be too much; when nothing happens for some time, give back all. */
static void wait_locked(void)
{
	uint64_t changes = pool.changes;
	struct timespec end;

	if (pool.cool) {
		pthread_cond_wait(&pool.idle, &pool.lock);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += IDLE_S;
	if (pthread_cond_timedwait(&pool.idle, &pool.lock, &end) != ETIMEDOUT ||
	    pool.changes != changes)
		return;
	trim_locked(&pool.small, 0);
	trim_locked(&pool.large, 0);
	pf_unlock(&pool.lock);
	malloc_trim(0); /* the plugin's */
	pf_lock(&pool.lock);
	pool.cool = pool.changes == changes;
}

/* What frees and takes the same again soon keeps its pages: so wait before trimming. */
static void *trimmer(void *unused)
{
	const struct timespec pause = { IDLE_MS / 1000, (IDLE_MS % 1000) * 1000000L };

	(void)unused;
	pf_lock(&pool.lock);
	for (;;) {
		if (!too_warm(&pool.small) && !too_warm(&pool.large)) {
			wait_locked();
			continue;
		}
		pf_unlock(&pool.lock);
		nanosleep(&pause, NULL);
		pf_lock(&pool.lock);
		trim_locked(&pool.small, pool.small.keep);
		trim_locked(&pool.large, pool.large.keep);
	}
	return NULL;
}

static int region_init(struct region *region, uint64_t start, uint64_t len,
		       unsigned shift, uint64_t keep, struct pf_err *err)
{
	uint32_t n = (uint32_t)(len >> shift);
	void *blocks = mmap(NULL, n, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (blocks == MAP_FAILED)
		return pf_err_set(err, -errno, "map a table: %s", strerror(errno));
	region->start = start;
	region->shift = shift;
	region->keep = keep;
	region->blocks = blocks;
	return pf_extents_init(&region->extents, n, err);
}

static int start_trimmer(struct pf_err *err)
{
	pthread_condattr_t attr;
	pthread_t thread;
	int r;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&pool.idle, &attr);
	pthread_condattr_destroy(&attr);
	r = pthread_create(&thread, NULL, trimmer, NULL);
	if (r)
		return pf_err_set(err, -r, "start a thread: %s", strerror(r));
	pthread_detach(thread);
	return 0;
}

int pf_pool_setup(int fd, uint64_t size, struct pf_err *err)
{
	uint64_t small;
	struct stat st;
	void *p;
	int r;

	if (fstat(fd, &st))
		return pf_err_set(err, -errno, "the pool: %s", strerror(errno));
	size &= ~((UINT64_C(1) << LARGE_SHIFT) - 1);
	if (size < MIN_SIZE || (uint64_t)st.st_size < size)
		return pf_err_set(err, -EINVAL,
				  "the pool's file has %lld bytes, %llu asked for",
				  (long long)st.st_size, (unsigned long long)size);
	pool.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (pool.fd < 0)
		return pf_err_set(err, -errno, "the pool: %s", strerror(errno));
	pool.meminfo = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, pool.fd,
		 0);
	if (p == MAP_FAILED)
		return pf_err_set(err, -errno, "map the pool: %s", strerror(errno));
	(void)madvise(p, size, MADV_DONTDUMP);
	small = size / SMALL_SHARE >> LARGE_SHIFT << LARGE_SHIFT;
	if (small < SMALL_BYTES)
		small = SMALL_BYTES;
	r = region_init(&pool.small, 0, small, SMALL_SHIFT, SMALL_WARM, err);
	if (r == 0)
		r = region_init(&pool.large, small, size - small, LARGE_SHIFT, LARGE_WARM,
				err);
	if (r == 0) {
		pf_pool_base = (uintptr_t)p;
		pf_pool_size = size;
		r = start_trimmer(err);
	}
	return r;
}

bool pf_pool_holds(const void *p, uint64_t len, uint64_t *off)
{
	uint64_t at = (uintptr_t)p - pf_pool_base;

	if (at >= pf_pool_size || len > pf_pool_size - at)
		return false;
	*off = at;
	return true;
}

void *pf_pool_at(uint64_t off)
{
	return (char *)pf_pool_base + off;
}

/* Bytes that the system could still give out; UINT64_MAX if it does not tell. */
static uint64_t available(void)
{
	static const char key[] = "MemAvailable:";
	char text[512];
	ssize_t n =
		pool.meminfo < 0 ? -1 : pread(pool.meminfo, text, sizeof(text) - 1, 0);
	const char *at;

	if (n <= 0)
		return UINT64_MAX;
	text[n] = '\0';
	at = strstr(text, key);
	return at ? strtoull(at + sizeof(key) - 1, NULL, 10) * 1024 : UINT64_MAX;
}

/*
 * Bring in the pages of LEN fresh bytes at P, all at once: cheaper than one by one, and
 * where memory runs out this fails instead of killing the process on a later touch.
 */
static bool populate(char *p, uint64_t len)
{
	if (len >= CHECK_MEMORY && len > available())
		return false;
	/* A kernel before 5.14 does not know it: the pages come when they are touched. */
	return madvise(p, len, MADV_POPULATE_WRITE) == 0 || errno == EINVAL;
}

/* Take granules and note what they are for; warm ones that are in the way are cooled. */
static uint32_t take_granules(struct region *region, uint32_t n, bool block, bool *cold)
{
	uint32_t at;

	PF_LOCK_SCOPE(&pool.lock);
	at = pf_extents_take(&region->extents, n, cold);
	if (at == PF_NO_EXTENT && region->extents.warm) {
		/* Warm and cold extents do not merge: make all cold. */
		trim_locked(region, 0);
		at = pf_extents_take(&region->extents, n, cold);
	}
	pool.changes++;
	if (at != PF_NO_EXTENT)
		region->blocks[at] = block;
	return at;
}

/* Bring in the pages of LEN bytes at P; what idles elsewhere makes room for them. */
static bool warm_up(struct region *region, char *p, uint64_t len)
{
	if (populate(p, len))
		return true;
	pf_lock(&pool.lock);
	trim_locked(region, 0);
	pf_unlock(&pool.lock);
	return populate(p, len);
}

/* Take LEN bytes of REGION.  NULL: none; *FULL: because the machine's memory is. */
static char *take(struct region *region, uint64_t len, bool block, bool *full)
{
	uint64_t granules = ((len ? len : 1) + bytes_of(region, 1) - 1) >> region->shift;
	bool cold = false;
	uint32_t at;
	char *p;

	*full = false;
	if (granules > region->extents.n)
		return NULL;
	at = take_granules(region, (uint32_t)granules, block, &cold);
	if (at == PF_NO_EXTENT)
		return NULL;
	p = address_of(region, at);
	if (!cold || region == &pool.small || warm_up(region, p, len))
		return p;
	*full = true;
	drop_pages(region, at, (uint32_t)granules);
	pf_lock(&pool.lock);
	pf_extents_give(&region->extents, at, false);
	pf_unlock(&pool.lock);
	return NULL;
}

/* Free the block or allocation that starts at OFF; false if none does. */
static bool give(uint64_t off, bool block)
{
	struct region *region = region_of(off);
	uint32_t at = (uint32_t)((off - region->start) >> region->shift);
	bool found;

	pf_lock(&pool.lock);
	found = pf_extents_length(&region->extents, at) > 0 &&
		(off - region->start) == bytes_of(region, at) &&
		region->blocks[at] == block;
	if (found) {
		pf_extents_give(&region->extents, at, true);
		pool.changes++;
		if (too_warm(region) || pool.cool)
			pthread_cond_signal(&pool.idle);
		pool.cool = false;
	}
	pf_unlock(&pool.lock);
	return found;
}

int pf_pool_block(uint64_t len, uint64_t *off, struct pf_err *err)
{
	bool full = false;
	char *p = NULL;

	if (len < PF_POOL_LARGE)
		p = take(&pool.small, len, true, &full);
	if (!p)
		p = take(&pool.large, len, true, &full);
	if (!p)
		return pf_err_set(err, -ENOSPC, "no room for %llu bytes: %s",
				  (unsigned long long)len,
				  full ? "the machine's memory is used up"
				       : "the pool of results is full");
	*off = (uint64_t)((uintptr_t)p - pf_pool_base);
	return 0;
}

bool pf_pool_block_free(uint64_t off)
{
	return off < pf_pool_size && give(off, true);
}

void *pf_pool_take(size_t len, bool *full)
{
	return take(len < PF_POOL_LARGE ? &pool.small : &pool.large, len, false, full);
}

void pf_pool_give(void *p)
{
	if (!give((uintptr_t)p - pf_pool_base, false)) {
		static const char text[] = "free of an address inside the pool\n";

		(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
		abort();
	}
}

size_t pf_pool_usable(const void *p)
{
	uint64_t off = (uintptr_t)p - pf_pool_base;
	struct region *region = region_of(off);
	uint32_t at = (uint32_t)((off - region->start) >> region->shift);

	PF_LOCK_SCOPE(&pool.lock);
	return bytes_of(region, pf_extents_length(&region->extents, at));
}
