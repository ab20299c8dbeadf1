/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/heap.h"
#include "pjrtfs/shm.h"

#define MIB (UINT64_C(1) << 20)
#define HUGE (2 * MIB)       /* the granule of large extents */
#define SMALL_MIN (64 * MIB) /* bytes of the front part: */
#define SMALL_SHARE 16       /* so much of the pool */
#define SMALL_MOST (MIB << 19)
#define CHECK_MEMORY (16 * MIB) /* check the system's memory before touching so much */

uintptr_t pf_pool_base;
size_t pf_pool_size;

static struct pf_heap heap;
static int meminfo = -1;

/* Extents of the daemon's blocks have the heap's mark, the plugin's allocations have not. */
enum { ALLOCATION, BLOCK };

int pf_pool_setup(int fd, uint64_t size, struct pf_err *err)
{
	uint64_t small = size / SMALL_SHARE / HUGE * HUGE;
	struct pf_heap_rules rules = {
		.small_shift = 12,
		.small_size = small < SMALL_MIN    ? SMALL_MIN
			      : small > SMALL_MOST ? SMALL_MOST
						   : small,
		.small_max = PF_POOL_LARGE - 1,
		.keep = { 8 * MIB, 512 * MIB },
	};
	void *p;
	int r;

	size = size / HUGE * HUGE;
	if (size < 2 * SMALL_MIN)
		return pf_err_set(err, -EINVAL, "a pool of %llu bytes",
				  (unsigned long long)size);
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return pf_err_set(err, -errno, "the pool: %s", strerror(errno));
	r = pf_shm_map(fd, size, PROT_READ | PROT_WRITE, &p, err);
	if (r == 0)
		r = pf_heap_init(&heap, fd, p, size, &rules, err);
	if (r < 0)
		return r;
	meminfo = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	pf_pool_base = (uintptr_t)p;
	pf_pool_size = size;
	return 0;
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

/* Bytes that the system can still allocate; UINT64_MAX if they are not known. */
static uint64_t available(void)
{
	static const char key[] = "MemAvailable:";
	char text[512];
	ssize_t n = meminfo < 0 ? -1 : pread(meminfo, text, sizeof(text) - 1, 0);
	const char *at;

	if (n <= 0)
		return UINT64_MAX;
	text[n] = '\0';
	at = strstr(text, key);
	return at ? strtoull(at + sizeof(key) - 1, NULL, 10) * 1024 : UINT64_MAX;
}

/*
 * Fault in fresh pages, all at once: cheaper than one by one, and if memory runs out this fails
 * instead of killing the process on a later touch.
 */
static bool populate(uint64_t off, uint64_t len)
{
	if (len >= CHECK_MEMORY && len > available())
		return false;
	/* Before Linux 5.14 this is EINVAL: pages are then faulted in one by one. */
	return madvise(pf_pool_at(off), len, MADV_POPULATE_WRITE) == 0 || errno == EINVAL;
}

/* Take LEN bytes for OWNER.  False: the pool is full, or, *FULL, the machine's memory. */
static bool take(uint64_t len, bool owner, uint64_t *off, bool *full)
{
	struct pf_extent e;
	bool cold;

	*full = false;
	if (!pf_heap_take(&heap, len, owner, &e, &cold))
		return false;
	*off = e.off;
	if (!cold || len < PF_POOL_LARGE || populate(e.off, len))
		return true;
	/* The pages of free extents make room. */
	pf_heap_trim(&heap);
	if (populate(e.off, len))
		return true;
	*full = true;
	pf_heap_give(&heap, e.off, owner, false);
	return false;
}

int pf_pool_block(uint64_t len, uint64_t *off, struct pf_err *err)
{
	bool full;

	if (take(len, BLOCK, off, &full))
		return 0;
	return pf_err_set(err, -ENOSPC, "no room for %llu bytes: %s",
			  (unsigned long long)len,
			  full ? "the machine's memory is used up"
			       : "the pool of results is full");
}

bool pf_pool_block_free(uint64_t off)
{
	return off < pf_pool_size && pf_heap_give(&heap, off, BLOCK, true);
}

void *pf_pool_take(size_t len, bool *full)
{
	uint64_t off;

	return take(len, ALLOCATION, &off, full) ? pf_pool_at(off) : NULL;
}

void pf_pool_give(void *p)
{
	if (!pf_heap_give(&heap, (uintptr_t)p - pf_pool_base, ALLOCATION, true)) {
		static const char text[] = "free of an address inside the pool\n";

		(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
		abort();
	}
}

size_t pf_pool_usable(const void *p)
{
	return pf_heap_length(&heap, (uintptr_t)p - pf_pool_base);
}
