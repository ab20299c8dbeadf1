/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library for LD_PRELOAD that makes allocations of pjrtfs fail: malloc, calloc, realloc,
 * posix_memalign and aligned_alloc, called by the daemon, by its libraries or by the C library
 * (strdup, asprintf, fopen …).  Only processes named pjrtfs are concerned.
 *
 * The file that FAILING_MALLOC names holds struct control; a test maps it and changes it while
 * the daemon runs (tests/tools/no_memory.py).  With FAILING_MALLOC_TRACE in the environment, each
 * failure prints the callers on standard error.
 */
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "allocations.h"

enum { MODE_OFF, MODE_ONCE, MODE_ALL_FROM, MODE_EVERY, MODE_LARGER };

struct control {
	atomic_long mode;
	atomic_long n;      /* ONCE: the Nth fails; ALL_FROM: the Nth and all later ones;
			     * EVERY: each Nth; LARGER: each one of more than N bytes */
	atomic_long count;  /* of allocations since the test set it to 0 */
	atomic_long failed; /* of them */
};

static struct control *control;
static int traces;

__attribute__((__constructor__)) static void start(void)
{
	const char *path = getenv("FAILING_MALLOC");
	void *frames[1];
	void *at;
	int fd;

	if (!path || strcmp(program_invocation_short_name, "pjrtfs") != 0)
		return;
	backtrace(frames, 1); /* the first call allocates */
	traces = getenv("FAILING_MALLOC_TRACE") != NULL;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		abort();
	at = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		abort();
	close(fd);
	control = at;
}

static void trace(void)
{
	void *frames[16];

	backtrace_symbols_fd(frames, backtrace(frames, 16), 2);
	(void)!write(2, "--\n", 3);
}

static bool refused(size_t size)
{
	long mode = control ? atomic_load(&control->mode) : MODE_OFF, n, count;
	bool fails;

	if (mode == MODE_OFF)
		return false;
	n = atomic_load(&control->n);
	count = atomic_fetch_add(&control->count, 1) + 1;
	fails = mode == MODE_ONCE       ? count == n
		: mode == MODE_ALL_FROM ? count >= n
		: mode == MODE_EVERY    ? count % n == 0
					: size > (size_t)n;
	if (!fails)
		return false;
	atomic_fetch_add(&control->failed, 1);
	if (traces)
		trace();
	errno = ENOMEM;
	return true;
}
