/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin's client: the devices that this process works with. */
#ifndef PJRTFS_PJRT_CLIENT_H
#define PJRTFS_PJRT_CLIENT_H

#include <stddef.h>

#include <json-c/json.h>

#include "pjrtfs/pjrt/device.h"
#include "pjrtfs/pjrt/plugin.h"

struct PJRT_Client;

/* A client.  Immutable once made, so any thread may read it. */
struct pj_client {
	const struct pj_plugin *plugin; /* borrowed; outlives the client */
	struct PJRT_Client *handle;     /* owned */
	int process_index;
	char *platform;            /* owned: "cpu" */
	char *platform_version;    /* owned */
	struct pj_device *devices; /* owned, n_devices of them: all, addressable or not */
	size_t n_devices;
};

/*
 * Create a client of PLUGIN with the create options in the JSON object OPTIONS (NULL:
 * none), each a string, integer, bool, double or list of integers.
 *
 * ret   on success, the caller's; pj_client_free
 * -EINVAL: an option of another type, or one that is known to make plugins abort; else
 * what PJRT_Client_Create failed with.  Blocks (may take seconds).
 * PJRT: PJRT_Client_Create, PJRT_Client_Devices.
 */
int pj_client_new(const struct pj_plugin *plugin, struct json_object *options,
		  struct pj_client **ret, struct pf_err *err);

/* Destroy the client; its buffers and executables must be gone.  CLIENT may be NULL. */
void pj_client_free(struct pj_client *client);
PF_DEFINE_CLEANUP(struct pj_client *, pj_client_free)

#endif
