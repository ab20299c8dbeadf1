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

int pf_instance_map_pool(struct pf_instance *instance, int pool_fd, uint64_t pool_size,
			 struct pf_err *err)
{
	void *pool;
	int r = pf_shm_map(pool_fd, pool_size, PROT_READ, &pool, err);

	if (r < 0)
		return r;
	instance->pool = pool;
	instance->pool_size = pool_size;
	/* Without it, only the pages of the whole pool are ever dropped. */
	instance->pool_fd = fcntl(pool_fd, F_DUPFD_CLOEXEC, 0);
	pf_guard_add(pool, pool_size, &instance->damaged, instance->broken_fd);
	return 0;
}

void pf_instance_unmap_pool(struct pf_instance *instance)
{
	if (instance->pool) {
		pf_guard_remove(instance->pool);
		munmap((void *)(uintptr_t)instance->pool, instance->pool_size);
	}
	pf_closep(&instance->pool_fd);
	pf_map_release(&instance->holders);
}

const void *pf_instance_pool(const struct pf_instance *instance, uint64_t off,
			     uint64_t len)
{
	if (off > instance->pool_size || len > instance->pool_size - off)
		return NULL;
	return instance->pool + off;
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
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
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
	char name[32];

	/* The record first: a pool without one is closed after a restart. */
	pf_state_put(PF_STATE_POOL, instance->number, &instance->pool_size,
		     sizeof(instance->pool_size), NULL, 0);
	instance->kept = true;
	pf_shm_keep(pool_name(instance, name), fd);
}

void pf_instance_forget_pool(struct pf_instance *instance)
{
	char name[32];

	if (!instance->kept)
		return;
	pf_state_drop(PF_STATE_POOL, instance->number);
	pf_shm_forget(pool_name(instance, name));
}

bool pf_instance_find_pool(const char *name, uint64_t *number, uint64_t *size)
{
	const size_t prefix = sizeof(pool_prefix) - 1;
	const uint64_t *record;
	size_t len;

	if (strncmp(name, pool_prefix, prefix) != 0)
		return false;
	*number = strtoull(name + prefix, NULL, 10);
	record = pf_state_get(PF_STATE_POOL, *number, &len);
	if (!record || len != sizeof(*record)) {
		pf_shm_forget(name);
		return false;
	}
	*size = *record;
	return true;
}
