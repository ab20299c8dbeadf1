/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pjrtfs/base.h"
#include "pjrtfs/shm.h"

int pf_shm_new(const char *name, uint64_t size, struct pf_err *err)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), r;

	if (fd >= 0 && !ftruncate(fd, (off_t)size) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return fd;
	r = pf_err_set(err, -errno, "make %s: %s", name, strerror(errno));
	pf_closep(&fd);
	return r;
}

int pf_shm_map(int fd, uint64_t size, int prot, void **ret, struct pf_err *err)
{
	struct stat st;
	void *p;

	if (fstat(fd, &st))
		return pf_err_set(err, -errno, "shared memory: %s", strerror(errno));
	if ((uint64_t)st.st_size < size)
		return pf_err_set(err, -EINVAL,
				  "shared memory: expected %" PRIu64 " bytes, found %lld",
				  size, (long long)st.st_size);
	p = mmap(NULL, size, prot, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (p == MAP_FAILED)
		return pf_err_set(err, -errno, "map %" PRIu64 " bytes: %s", size,
				  strerror(errno));
	(void)madvise(p, size, MADV_DONTDUMP);
	*ret = p;
	return 0;
}

/* --- memory that outlives the daemon ------------------------------------------------ */

static struct {
	void (*keep)(const char *name, int fd);
	void (*forget)(const char *name);
} keeper;

void pf_shm_set_keeper(void (*keep)(const char *name, int fd),
		       void (*forget)(const char *name))
{
	keeper.keep = keep;
	keeper.forget = forget;
}

void pf_shm_keep(const char *name, int fd)
{
	if (keeper.keep)
		keeper.keep(name, fd);
}

void pf_shm_forget(const char *name)
{
	if (keeper.forget)
		keeper.forget(name);
}

/* --- the loss of a page ------------------------------------------------------------- */

enum { GUARDS = 4096, FREE = 0, TAKEN = 1 };

/*
 * The signal handler reads these, so no lock protects them: pf_guard_add takes a free
 * guard by setting start to TAKEN, and writes the address last.
 */
static struct guard {
	_Atomic uintptr_t start; /* FREE, TAKEN or the mapping's address */
	_Atomic size_t len;
	_Atomic bool *lost;
	int fd;
} guards[GUARDS];

static pthread_once_t once = PTHREAD_ONCE_INIT;

static struct guard *find(uintptr_t at)
{
	for (int i = 0; i < GUARDS; i++) {
		uintptr_t start = atomic_load(&guards[i].start);

		if (start > TAKEN && at >= start &&
		    at - start < atomic_load(&guards[i].len))
			return &guards[i];
	}
	return NULL;
}

/* The kernel merges neighbouring pages of zeros into one mapping. */
static bool replace_page(uintptr_t at)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	void *start = (void *)(at & ~(page - 1));

	return mmap(start, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		    0) != MAP_FAILED;
}

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	struct guard *g = info->si_code > 0 ? find((uintptr_t)info->si_addr) : NULL;
	int saved = errno;
	uint64_t one = 1;

	(void)context;
	if (g && replace_page((uintptr_t)info->si_addr)) {
		atomic_store(g->lost, true);
		(void)!write(g->fd, &one, sizeof(one));
		errno = saved;
		return;
	}
	/* Not a guarded page: the signal comes again on return, and ends the process. */
	signal(sig, SIG_DFL);
	if (info->si_code <= 0)
		raise(sig);
}

static void install(void)
{
	struct sigaction action = { .sa_sigaction = on_sigbus,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK };

	if (sigaction(SIGBUS, &action, NULL))
		abort();
}

void pf_guard_add(const void *memory, size_t len, _Atomic bool *lost, int fd)
{
	pthread_once(&once, install);
	for (int i = 0; i < GUARDS; i++) {
		uintptr_t start = FREE;

		if (!atomic_compare_exchange_strong(&guards[i].start, &start, TAKEN))
			continue;
		atomic_store(&guards[i].len, len);
		guards[i].lost = lost;
		guards[i].fd = fd;
		atomic_store(&guards[i].start, (uintptr_t)memory);
		return;
	}
}

void pf_guard_shorten(const void *memory, size_t len)
{
	struct guard *g = find((uintptr_t)memory);

	if (g)
		atomic_store(&g->len, len);
}

void pf_guard_remove(const void *memory)
{
	struct guard *g = find((uintptr_t)memory);

	if (g)
		atomic_store(&g->start, FREE);
}
