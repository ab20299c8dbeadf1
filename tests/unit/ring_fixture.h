/* SPDX-License-Identifier: Apache-2.0 */
/* Rings in shared memory between guard pages, and messages to send through them. */
#ifndef PJRTFS_TESTS_UNIT_RING_FIXTURE_H
#define PJRTFS_TESTS_UNIT_RING_FIXTURE_H

#include "pjrtfs/wire.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "random.h"
#include "unit.h"

enum { PAGE = 4096 };

static inline size_t round_page(size_t n)
{
	return (n + PAGE - 1) / PAGE * PAGE;
}

/* LEN bytes of shared zeros that end (but for alignment) where no access is allowed. */
static inline void *guarded(size_t len)
{
	size_t all = round_page(len);
	char *p =
		mmap(NULL, all + 2 * PAGE, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	ck_assert_int_eq(mprotect(p + PAGE, all, PROT_READ | PROT_WRITE), 0);
	return p + PAGE + (all - len);
}

static inline void new_ring(struct pf_ring *ring)
{
	pf_ring_init(ring, guarded(pf_ring_footprint()));
}

static inline void fill(char *dst, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i++)
		dst[i] = (char)(i % 8 ? seed >> (i % 8 * 5) : next(&seed, UINT64_MAX));
}

static inline double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static char sent[PF_RING_MESSAGE + 1], got[PF_RING_MESSAGE];

#endif
