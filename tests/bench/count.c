/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library for LD_PRELOAD that counts what the daemon and its workers do: the kernel's requests,
 * bytes that memcpy(3) and the like copy, bytes that malloc(3) and the like allocate, and threads that
 * are started or woken.  counts.py maps the file that PJRTFS_COUNTS names, with one struct counts for
 * the daemon and one for all workers.
 *
 * Not counted: what the compiler has inlined, which are copies of a fixed size; what the C library
 * copies for itself; and aligned allocations of a worker, which interposes those functions itself.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../tools/allocations.h"

enum { OPCODES = 64 };

struct counts {
	atomic_ulong requests[OPCODES]; /* by opcode */
	atomic_ulong copied, allocated; /* bytes */
	atomic_ulong woken;             /* threads */
};

static struct counts *counts;

static void *(*next_move)(void *, const void *, size_t);
static int (*next_signal)(pthread_cond_t *);
static int (*next_broadcast)(pthread_cond_t *);
static int (*next_post)(sem_t *);
static int (*next_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

#define FIND(pointer, name) (*(void **)&(pointer) = dlsym(RTLD_NEXT, name))

/* Other libraries' constructors may run before, and after. */
__attribute__((__constructor__)) static void start(void)
{
	const char *path = getenv("PJRTFS_COUNTS"), *name = program_invocation_short_name;
	int worker = strncmp(name, "pjrtfs-worker", 13) == 0, fd;
	void *at;

	FIND(next_move, "memmove");
	FIND(next_signal, "pthread_cond_signal");
	FIND(next_broadcast, "pthread_cond_broadcast");
	FIND(next_post, "sem_post");
	FIND(next_create, "pthread_create");
	if (!path || (!worker && strcmp(name, "pjrtfs") != 0))
		return;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		abort();
	at = mmap(NULL, 2 * sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		abort();
	close(fd);
	counts = (struct counts *)at + worker;
}

#define COUNT(what, n)                                                                   \
	(counts ? (void)atomic_fetch_add_explicit(&counts->what, n,                      \
						  memory_order_relaxed)                  \
		: (void)0)

/* --- the kernel's connection ------------------------------------------------------------- */

ssize_t read(int fd, void *buf, size_t len)
{
	ssize_t n = syscall(SYS_read, fd, buf, len);
	const struct fuse_in_header *in = buf;

	/* Nothing else that the daemon reads begins with its length and an opcode. */
	if (n >= (ssize_t)sizeof(*in) && in->len == (size_t)n && in->opcode < OPCODES)
		COUNT(requests[in->opcode], 1);
	return n;
}

/* --- copies ------------------------------------------------------------------------------ */

void *memmove(void *dst, const void *src, size_t len)
{
	volatile char *to = dst;
	const volatile char *from = src;

	COUNT(copied, len);
	if (next_move)
		return next_move(dst, src, len);
	if (to < from)
		for (size_t i = 0; i < len; i++)
			to[i] = from[i];
	else
		while (len--)
			to[len] = from[len];
	return dst;
}

void *memcpy(void *restrict dst, const void *restrict src, size_t len)
{
	return memmove(dst, src, len);
}

void *mempcpy(void *restrict dst, const void *restrict src, size_t len)
{
	return (char *)memmove(dst, src, len) + len;
}

/* With _FORTIFY_SOURCE the compiler calls these, where it knows the room at DST. */
void *__memmove_chk(void *dst, const void *src, size_t len, size_t room);
void *__memcpy_chk(void *restrict dst, const void *restrict src, size_t len, size_t room);
void *__mempcpy_chk(void *restrict dst, const void *restrict src, size_t len,
		    size_t room);

void *__memmove_chk(void *dst, const void *src, size_t len, size_t room)
{
	if (len > room)
		abort();
	return memmove(dst, src, len);
}

void *__memcpy_chk(void *restrict dst, const void *restrict src, size_t len, size_t room)
{
	return __memmove_chk(dst, src, len, room);
}

void *__mempcpy_chk(void *restrict dst, const void *restrict src, size_t len, size_t room)
{
	return (char *)__memmove_chk(dst, src, len, room) + len;
}

/* --- memory ------------------------------------------------------------------------------ */

static bool refused(size_t size)
{
	COUNT(allocated, size);
	return false;
}

/* --- threads ----------------------------------------------------------------------------- */

int pthread_cond_signal(pthread_cond_t *cond)
{
	COUNT(woken, 1);
	return next_signal(cond);
}

int pthread_cond_broadcast(pthread_cond_t *cond)
{
	COUNT(woken, 1);
	return next_broadcast(cond);
}

int sem_post(sem_t *sem)
{
	COUNT(woken, 1);
	return next_post(sem);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
		   void *arg)
{
	COUNT(woken, 1);
	return next_create(thread, attr, fn, arg);
}
