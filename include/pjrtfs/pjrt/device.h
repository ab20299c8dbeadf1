/* SPDX-License-Identifier: Apache-2.0 */
/* A client's devices. */
#ifndef PJRTFS_PJRT_DEVICE_H
#define PJRTFS_PJRT_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include <json-c/json.h>

#include "pjrtfs/pjrt/memory.h"
#include "pjrtfs/pjrt/plugin.h"

struct PJRT_Device;

/* A device.  Immutable; what the plugin does not tell is -1, "" or NULL. */
struct pj_device {
	struct PJRT_Device *handle; /* borrowed from the client */
	int id;
	int local_hardware_id;
	int process_index;
	bool addressable;               /* this process may use it */
	char *kind;                     /* owned */
	char *description;              /* owned: PJRT_DeviceDescription_ToString */
	char *debug;                    /* owned: PJRT_DeviceDescription_DebugString */
	struct json_object *attributes; /* owned; an object */
	struct pj_memory *memories;     /* owned, n_memories of them */
	size_t n_memories;
	int default_memory; /* an index into memories, or -1 */
};

/*
 * Describe the device HANDLE in *RET; pj_device_release.
 * Fails if the plugin does not even tell the device's id, and with -ENOMEM.
 * PJRT: PJRT_Device_*, PJRT_DeviceDescription_*.
 */
int pj_device_init(struct pj_device *ret, const struct pj_plugin *plugin,
		   struct PJRT_Device *handle, struct pf_err *err);

void pj_device_release(struct pj_device *device);

/*
 * The allocator's statistics as a JSON object that has the fields that are known:
 * bytes_in_use, peak_bytes_in_use, num_allocs, …
 * ret   on success, the caller's.  -EOPNOTSUPP: the plugin keeps none.
 * PJRT: PJRT_Device_MemoryStats.
 */
int pj_device_memory_stats(const struct pj_plugin *plugin, const struct pj_device *device,
			   struct json_object **ret, struct pf_err *err);

#endif
