/* SPDX-License-Identifier: Apache-2.0 */
/* Memory spaces that a device can address. */
#ifndef PJRTFS_PJRT_MEMORY_H
#define PJRTFS_PJRT_MEMORY_H

#include "pjrtfs/pjrt/plugin.h"

struct PJRT_Memory;

/* A memory space.  Immutable; what the plugin does not tell is -1 or "". */
struct pj_memory {
	struct PJRT_Memory *handle; /* borrowed from the client */
	int id;
	int kind_id;
	char *kind;        /* owned: "device", "pinned_host" */
	char *description; /* owned */
};

/*
 * Describe the memory HANDLE in *RET; pj_memory_release.  -ENOMEM.
 * PJRT: PJRT_Memory_Id, _Kind, _Kind_Id, _ToString.
 */
int pj_memory_init(struct pj_memory *ret, const struct pj_plugin *plugin,
		   struct PJRT_Memory *handle, struct pf_err *err);

void pj_memory_release(struct pj_memory *memory);

#endif
