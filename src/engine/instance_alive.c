/* SPDX-License-Identifier: Apache-2.0 */
/* How many objects an instance has, on each device. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "internal.h"

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

unsigned pf_instance_alive_on(const struct pf_instance *instance, enum pf_alive what,
			      unsigned device)
{
	_Atomic int *n = counter(instance, what, device);
	int count = n ? atomic_load_explicit(n, memory_order_relaxed) : 0;

	return count > 0 ? (unsigned)count : 0;
}
