/* SPDX-License-Identifier: Apache-2.0 */
/* One run of a worker's process: its life, and what is known of it. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"

static void instance_free(struct pf_instance *instance)
{
	pf_instance_forget_pool(instance);
	pf_channel_release(&instance->channel);
	pf_instance_unmap_pool(instance);
	pf_map_release(&instance->calls);
	pf_buf_release(&instance->deferred);
	pf_process_environ_free(instance->env);
	free(instance->alive);
	pthread_mutex_destroy(&instance->lock);
	free(instance->name);
	free(instance);
}

struct pf_instance *pf_instance_alloc(const char *name, uint64_t number, int broken_fd)
{
	struct pf_instance *instance = calloc(1, sizeof(*instance));

	if (!instance)
		return NULL;
	if (pthread_mutex_init(&instance->lock, NULL))
		abort();
	atomic_init(&instance->refs, 1);
	instance->number = number;
	instance->broken_fd = broken_fd;
	instance->pool_fd = -1;
	instance->name = strdup(name);
	if (instance->name)
		return instance;
	instance_free(instance);
	return NULL;
}

int pf_instance_of_pool(const char *name, int fd, struct pf_instance **ret,
			struct pf_err *err)
{
	struct pf_instance *instance;
	uint64_t number, size;
	int r;

	*ret = NULL;
	if (!pf_instance_find_pool(name, &number, &size))
		return 0;
	instance = pf_instance_alloc("", number, -1);
	if (!instance)
		return pf_err_set(err, -ENOMEM, "no memory for %s", name);
	r = pf_instance_map_pool(instance, fd, size, err);
	if (r < 0) {
		instance_free(instance);
		return pf_err_wrap(err, r, "%s", name);
	}
	instance->joined = instance->dead = instance->kept = true;
	pf_err_set(&instance->why, -EIO, "its worker ended with an earlier daemon");
	*ret = instance;
	return 0;
}

PF_DEFINE_REF(struct pf_instance, pf_instance, instance_free)

uint64_t pf_instance_number(const struct pf_instance *instance)
{
	return instance->number;
}

bool pf_instance_alive(struct pf_instance *instance)
{
	PF_LOCK_SCOPE(&instance->lock);
	return !instance->dead;
}

bool pf_instance_serves(struct pf_instance *instance)
{
	return !atomic_load(&instance->leaves_at) && pf_instance_alive(instance);
}

bool pf_instance_was_stopped(const struct pf_instance *instance)
{
	return atomic_load(&instance->stopped);
}

const struct stat *pf_instance_plugin(const struct pf_instance *instance)
{
	return instance->plugin.st_ino ? &instance->plugin : NULL;
}

char *const *pf_instance_environ(const struct pf_instance *instance)
{
	return instance->env;
}

unsigned pf_instance_lost(struct pf_instance *instance, enum pf_op op)
{
	PF_LOCK_SCOPE(&instance->lock);
	return instance->lost[op];
}

int pf_instance_set_devices(struct pf_instance *instance, unsigned n)
{
	instance->alive = calloc(n + 1, sizeof(*instance->alive));
	instance->n_devices = n;
	return instance->alive ? 0 : -ENOMEM;
}

static _Atomic int *counter(const struct pf_instance *instance, enum pf_alive what,
			    unsigned device)
{
	if (!instance->alive || (device >= instance->n_devices && device != PF_NO_DEVICE))
		return NULL;
	return &instance->alive[device == PF_NO_DEVICE ? instance->n_devices : device]
			       [what];
}

void pf_instance_count(struct pf_instance *instance, enum pf_alive what, unsigned device,
		       int change)
{
	_Atomic int *n = counter(instance, what, device);

	if (n)
		atomic_fetch_add_explicit(n, change, memory_order_relaxed);
}

static uint64_t device_bit(unsigned device)
{
	return device < 64 ? UINT64_C(1) << device : 0;
}

bool pf_instance_uses_in_place(const struct pf_instance *instance, unsigned device,
			       enum pf_dtype dtype)
{
	return atomic_load(&instance->in_place[dtype]) & device_bit(device);
}

void pf_instance_note_in_place(struct pf_instance *instance, unsigned device,
			       enum pf_dtype dtype, bool in_place)
{
	if (in_place)
		atomic_fetch_or(&instance->in_place[dtype], device_bit(device));
	else
		atomic_fetch_and(&instance->in_place[dtype], ~device_bit(device));
}

unsigned pf_instance_alive_on(const struct pf_instance *instance, enum pf_alive what,
			      unsigned device)
{
	_Atomic int *n = counter(instance, what, device);
	int count = n ? atomic_load_explicit(n, memory_order_relaxed) : 0;

	return count > 0 ? (unsigned)count : 0;
}
