/* SPDX-License-Identifier: Apache-2.0 */
/* What the worker tells the daemon in JSON. */
#ifndef PJRTFS_WORKER_DESCRIBE_H
#define PJRTFS_WORKER_DESCRIBE_H

#include <json-c/json.h>

#include "pjrtfs/base/err.h"
#include "pjrtfs/pjrt/client.h"
#include "pjrtfs/pjrt/executable.h"

/*
 * The answer to the set-up text: {"ok": true, "api_version", "platform",
 * "platform_version", "process_index", "attributes", "extensions", "devices"}.  The
 * caller's; NULL: no memory.
 */
struct json_object *pf_describe_client(const struct pj_client *client);

/* The same for a failure: {"ok": false, "errno", "error"}. */
struct json_object *pf_describe_failure(const struct pf_err *err);

/*
 * What is known of a program: pf_rep_compile's INFO, but for "optimized_program".  The
 * caller's; NULL: no memory.
 */
struct json_object *pf_describe_executable(const struct pj_executable *executable);

/* {"unavailable": sentence}: what stands for a fact that the plugin does not offer. */
struct json_object *pf_describe_unavailable(const struct pf_err *err);

#endif
