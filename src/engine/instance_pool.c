/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of an instance: its mapping, its pages when the process is dead, its life after the
 * daemon. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/shm.h"
#include "pjrtfs/state.h"

/* A reply that came before its process died has been looked at by then. */
enum { REST_MS = 10000 };

/* Pools of dead processes, each as long as the memory of the machine several times, which a process has
 * room for some dozens or hundreds of: the oldest first. */
static pthread_mutex_t resting_lock = PTHREAD_MUTEX_INITIALIZER; /* rank 7; protects: */
static TAILQ_HEAD(, pf_instance) resting = TAILQ_HEAD_INITIALIZER(resting);

static uint64_t page_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Some thread may read the LEN bytes at OFF of the pool from now on. */
static void note_end(struct pf_instance *instance, uint64_t off, uint64_t len)
{
	uint64_t end = atomic_load(&instance->pool_end);

	while (end < off + len &&
	       !atomic_compare_exchange_weak(&instance->pool_end, &end, off + len))
		;
}

/* The bytes of whole pages that INSTANCE's pool must have for all that threads may read. */
static uint64_t needed_size(const struct pf_instance *instance)
{
	uint64_t end = atomic_load(&instance->pool_end), page = page_size();

	return end > page ? (end + page - 1) / page * page : page;
}

/* Give back the address space of INSTANCE's pool beyond all that threads may read. */
static void shorten(struct pf_instance *instance)
{
	uint64_t size = atomic_load(&instance->pool_size), now, needed;

	/* A thread notes an end before it looks at the size for the second time. */
	for (now = 0; (needed = needed_size(instance)) > now; now = needed)
		atomic_store(&instance->pool_size, needed < size ? needed : size);
	if (now >= size)
		return;
	pf_guard_shorten(instance->pool, now);
	munmap((void *)(uintptr_t)(instance->pool + now), size - now);
	if (instance->kept)
		pf_state_put(PF_STATE_POOL, instance->number, &now, sizeof(now), NULL, 0);
}

static void end_rest_locked(struct pf_instance *instance)
{
	if (!instance->rests_since)
		return;
	instance->rests_since = 0;
	TAILQ_REMOVE(&resting, instance, rest);
}

void pf_instance_shorten_pools(unsigned ms)
{
	int64_t before = pf_now_ms() - ms;
	struct pf_instance *i;

	PF_LOCK_SCOPE(&resting_lock);
	while ((i = TAILQ_FIRST(&resting)) && i->rests_since <= before) {
		end_rest_locked(i);
		shorten(i);
	}
}

void pf_instance_rest(struct pf_instance *instance)
{
	PF_LOCK_SCOPE(&resting_lock);
	instance->rests_since = pf_now_ms();
	TAILQ_INSERT_TAIL(&resting, instance, rest);
}

int pf_instance_map_pool(struct pf_instance *instance, int pool_fd, uint64_t pool_size,
			 struct pf_err *err)
{
	void *pool;
	int r;

	pf_instance_shorten_pools(REST_MS);
	r = pf_shm_map(pool_fd, pool_size, PROT_READ, &pool, err);
	if (r < 0)
		return r;
	instance->pool = pool;
	atomic_init(&instance->pool_size, pool_size);
	/* Without it, only the pages of the whole pool are ever dropped. */
	instance->pool_fd = fcntl(pool_fd, F_DUPFD_CLOEXEC, 0);
	pf_guard_add(pool, pool_size, &instance->damaged, instance->broken_fd);
	return 0;
}

void pf_instance_unmap_pool(struct pf_instance *instance)
{
	if (instance->pool) {
		pf_guard_remove(instance->pool);
		munmap((void *)(uintptr_t)instance->pool,
		       atomic_load(&instance->pool_size));
	}
	pf_closep(&instance->pool_fd);
	pf_map_release(&instance->holders);
}

static bool is_inside(const struct pf_instance *instance, uint64_t off, uint64_t len)
{
	uint64_t size = atomic_load(&instance->pool_size);

	return off <= size && len <= size - off;
}

const void *pf_instance_array(struct pf_instance *instance, uint64_t off, uint64_t len)
{
	if (!is_inside(instance, off, len))
		return NULL;
	note_end(instance, off, len);
	return is_inside(instance, off, len) ? instance->pool + off : NULL;
}

struct pf_shared_bytes pf_instance_pool(struct pf_instance *instance, uint64_t off,
					uint64_t len)
{
	return pf_shared_of(pf_instance_array(instance, off, len), len);
}

bool pf_instance_damaged(const struct pf_instance *instance)
{
	return atomic_load_explicit(&instance->damaged, memory_order_relaxed);
}

/* --- the pool's pages when the process is dead ---------------------------------------- */

/* Add N to the values that have bytes at OFF; returns how many there are. */
static uintptr_t holders_locked(struct pf_instance *instance, uint64_t off, int n)
{
	uintptr_t has = (uintptr_t)pf_map_remove(&instance->holders, off + 1);

	has = n > 0 ? has + 1 : has ? has - 1 : 0;
	if (has && pf_map_put(&instance->holders, off + 1, (void *)has) < 0)
		instance->some_unknown = true;
	return has;
}

void pf_instance_hold(struct pf_instance *instance, uint64_t off)
{
	PF_LOCK_SCOPE(&instance->lock);
	holders_locked(instance, off, 1);
}

void pf_instance_drop(struct pf_instance *instance, uint64_t off, uint64_t len)
{
	uint64_t page = page_size();
	uint64_t start = (off + page - 1) / page * page, end = (off + len) / page * page;
	bool unused;

	pf_lock(&instance->lock);
	unused = !holders_locked(instance, off, -1) && instance->dead &&
		 !instance->some_unknown;
	pf_unlock(&instance->lock);
	/* Pages at the edges may have a neighbour's bytes. */
	if (unused && instance->pool_fd >= 0 && start < end)
		(void)fallocate(instance->pool_fd,
				FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)start,
				(off_t)(end - start));
}

/* --- pools that outlive the daemon -------------------------------------------------- */

static const char pool_prefix[] = "pool.";

/* The pool's name, in DST. */
static const char *pool_name(const struct pf_instance *instance, char dst[32])
{
	snprintf(dst, 32, "%s%" PRIu64, pool_prefix, instance->number);
	return dst;
}

void pf_instance_keep_pool(struct pf_instance *instance, int fd)
{
	uint64_t size = atomic_load(&instance->pool_size);
	char name[32];

	/* The record first: a pool without one is closed after a restart. */
	pf_state_put(PF_STATE_POOL, instance->number, &size, sizeof(size), NULL, 0);
	instance->kept = true;
	pf_shm_keep(pool_name(instance, name), fd);
}

void pf_instance_forget_pool(struct pf_instance *instance)
{
	char name[32];

	/* First: a shortened pool gets its record anew. */
	pf_lock(&resting_lock);
	end_rest_locked(instance);
	pf_unlock(&resting_lock);
	if (!instance->kept)
		return;
	pf_state_drop(PF_STATE_POOL, instance->number);
	pf_shm_forget(pool_name(instance, name));
}

bool pf_instance_find_pool(const char *name, uint64_t *number, uint64_t *size)
{
	const size_t prefix = sizeof(pool_prefix) - 1;
	const uint64_t *record;

	if (strncmp(name, pool_prefix, prefix) != 0)
		return false;
	*number = strtoull(name + prefix, NULL, 10);
	record = pf_state_load(PF_STATE_POOL, *number, sizeof(*record), NULL, NULL);
	if (!record) {
		pf_shm_forget(name);
		return false;
	}
	*size = *record;
	return true;
}
