/* SPDX-License-Identifier: Apache-2.0 */
/* What a plugin told of itself, its devices and their memories. */
#ifndef PJRTFS_ENGINE_DESCRIPTION_H
#define PJRTFS_ENGINE_DESCRIPTION_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "pjrtfs/base/err.h"
#include "pjrtfs/engine/turns.h"
#include "pjrtfs/watch/watch.h"

struct pf_memory_desc {
	int64_t id;
	const char *kind; /* "device", "pinned_host" */
	const char *description;
};

struct pf_device_desc {
	int64_t id;
	int64_t local_hardware_id; /* -1: not addressable */
	int64_t process_index;
	bool addressable;
	const char *kind;
	const char *description;        /* PJRT_DeviceDescription_ToString */
	const char *debug;              /* PJRT_DeviceDescription_DebugString */
	struct json_object *attributes; /* borrowed */
	unsigned default_memory;        /* index into memories */
	unsigned n_memories;
	struct pf_memory_desc *memories; /* owned */
};

/* Strings are borrowed from json. */
struct pf_description {
	struct json_object *json; /* owned: the worker's whole answer */
	int api_major, api_minor;
	const char *platform;
	const char *platform_version;
	struct json_object *attributes; /* borrowed; may be NULL */
	struct json_object *extensions; /* borrowed; may be NULL */
	unsigned n_devices;
	struct pf_device_desc *devices; /* owned */
};

/*
 * Read a worker's answer.  ret is filled on success; pf_description_release.
 * Errors: the answer's own errno and sentence if it says "ok": false; EPROTO if it is not
 * such a text: the worker is not trusted.
 */
int pf_description_parse(const char *text, size_t len, struct pf_description *ret,
			 struct pf_err *err);

/*
 * Is memory MEMORY (UINT32_MAX: the default one) of device DEVICE, both indexes, the host's?
 * True of every memory of a plugin whose devices are the host's processors, and of kinds
 * such as "pinned_host".
 */
bool pf_description_is_host(const struct pf_description *description, unsigned device,
			    unsigned memory);

/* Free what it holds; all zeros is allowed. */
void pf_description_release(struct pf_description *description);

/* A meter of WATCH (may be NULL) for the plugin NAME that told this; NULL: there is none. */
struct pf_plugin_meter *pf_description_meter(const struct pf_description *description,
					     struct pf_watch *watch, const char *name);

/*
 * Turns for the devices that this told of; NULL: no memory.  A plugin whose devices are this
 * host's processors executes on the thread that asks it, so it is asked for as much at a time
 * as there are processors; others queue what they are given, and need the next one in time.
 */
struct pf_turns *pf_description_turns(const struct pf_description *description);

#endif
