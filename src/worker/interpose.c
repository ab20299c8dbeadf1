/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin's aligned allocations of more than a page, among them the buffers of results, come
 * from the pool.
 *
 * The program defines the allocation functions that plugins import (it is linked with -rdynamic),
 * and passes smaller allocations on to the C library.  Builds with sanitizers, or for another C
 * library than glibc, do not interpose.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)

void pf_pool_interpose(void)
{
}

#else

enum { SMALL_ALIGNMENT = 4096, LARGE_ALIGNMENT = 2 << 20 };

void *__libc_memalign(size_t alignment, size_t size);
void *__libc_realloc(void *p, size_t size);
void __libc_free(void *p);

static atomic_bool interpose;

void pf_pool_interpose(void)
{
	atomic_store(&interpose, true);
}

static void *allocate(size_t alignment, size_t size)
{
	bool full = false;
	void *p;

	if (size > PF_POOL_SMALL &&
	    alignment <= (size < PF_POOL_LARGE ? SMALL_ALIGNMENT : LARGE_ALIGNMENT) &&
	    atomic_load_explicit(&interpose, memory_order_relaxed)) {
		p = pf_pool_take(size, &full);
		if (p)
			return p;
		if (full) {
			/* The C library would promise memory that the machine does not have. */
			errno = ENOMEM;
			return NULL;
		}
	}
	return __libc_memalign(alignment, size);
}

int posix_memalign(void **ret, size_t alignment, size_t size)
{
	int saved = errno;
	void *p;

	if (alignment % sizeof(void *) || (alignment & (alignment - 1)) || !alignment)
		return EINVAL;
	p = allocate(alignment, size);
	errno = saved;
	if (!p)
		return ENOMEM;
	*ret = p;
	return 0;
}

void *aligned_alloc(size_t alignment, size_t size)
{
	if (!alignment || (alignment & (alignment - 1))) {
		errno = EINVAL;
		return NULL;
	}
	return allocate(alignment, size);
}

void *memalign(size_t alignment, size_t size)
{
	return allocate(alignment, size);
}

void free(void *p)
{
	if (pf_pool_owns(p)) {
		int saved = errno;

		pf_pool_give(p);
		errno = saved;
		return;
	}
	__libc_free(p);
}

void *realloc(void *p, size_t size)
{
	size_t have;
	void *moved;

	if (!pf_pool_owns(p))
		return __libc_realloc(p, size);
	have = pf_pool_usable(p);
	if (size && size <= have)
		return p;
	moved = size ? malloc(size) : NULL;
	if (moved)
		memcpy(moved, p, have < size ? have : size);
	if (moved || !size)
		free(p);
	return moved;
}

size_t malloc_usable_size(void *p)
{
	static size_t (*_Atomic theirs)(void *);
	size_t (*call)(void *);

	if (pf_pool_owns(p))
		return pf_pool_usable(p);
	call = atomic_load(&theirs);
	if (!call) {
		*(void **)&call = dlsym(RTLD_NEXT, "malloc_usable_size");
		atomic_store(&theirs, call);
	}
	return call ? call(p) : 0;
}

#endif
