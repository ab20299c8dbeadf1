/* SPDX-License-Identifier: Apache-2.0 */
/* Loading a plugin only to see what it is, in a worker of its own. */
#ifndef PJRTFS_ENGINE_INSPECT_H
#define PJRTFS_ENGINE_INSPECT_H

#include <json-c/json.h>
#include <stdbool.h>

#include "pjrtfs/base/err.h"

/* What to look at; all is borrowed for the call. */
struct pf_inspect_config {
	const char *name;                  /* the plugin's: "cpu" */
	const char *path;                  /* of the plugin's .so */
	const char *program;               /* path of pjrtfs-worker */
	struct json_object *options, *env; /* as in struct pf_worker_config, or NULL */
	struct json_object *sandbox;       /* likewise */
	int timeout_ms; /* for loading it, and for each thing that it is asked */
	bool run;       /* have it compile and execute a program, too */
};

/*
 * Load the plugin and make a client.
 * ret   what it tells of itself, the caller's (json_object_put): api_version [0, 81],
 *       platform, platform_version, attributes, extensions, extension_details, functions,
 *       devices with their memories; with RUN also program {"device", "compile_seconds",
 *       "execute_seconds", "result"}.  NULL if it was not loaded.
 * Errors: as pf_worker_new; ETIMEDOUT; with RUN what the plugin failed with, EIO for a wrong
 * result: then *RET is set all the same.  Blocks; the worker is gone when it returns.
 */
int pf_inspect(const struct pf_inspect_config *config, struct json_object **ret,
	       struct pf_err *err);

#endif
