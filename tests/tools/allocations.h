/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that allocate, for a library of LD_PRELOAD: with what they are asked for they call
 * refused first, which the library defines, and fail if that is true.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static bool refused(size_t size);

void *malloc(size_t size)
{
	return refused(size) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return refused(n * size) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
	return refused(size) ? NULL : __libc_realloc(old, size);
}

int posix_memalign(void **ret, size_t alignment, size_t size)
{
	void *p = refused(size) ? NULL : __libc_memalign(alignment, size);

	if (!p)
		return ENOMEM;
	*ret = p;
	return 0;
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return refused(size) ? NULL : __libc_memalign(alignment, size);
}
