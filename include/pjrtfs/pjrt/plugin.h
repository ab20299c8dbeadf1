/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin: a shared object that implements PJRT's C API, loaded into this process.
 *
 * Plugins are of many ages.  A function that a plugin's table does not reach makes the
 * call that needs it fail with -EOPNOTSUPP and a sentence that names the function.
 */
#ifndef PJRTFS_PJRT_PLUGIN_H
#define PJRTFS_PJRT_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

#include <json-c/json.h>

#include "pjrtfs/base/cleanup.h"
#include "pjrtfs/base/err.h"

struct pj_plugin;
struct PJRT_Api;

/*
 * Load the plugin at PATH (one with a slash is not searched for) and initialize it.
 *
 * ret   on success, the caller's; pj_plugin_free
 * -ENOENT, -EACCES: no such file, or not readable.  -ENOEXEC: the file is no shared
 * object, lacks libraries, has no GetPjrtApi, speaks a version that this build cannot
 * speak, or lacks a function that it cannot do without: the sentence says which.  Else what PJRT_Plugin_Initialize failed with.
 * Blocks (reads and relocates the file).  The file is never unloaded: plugins crash at
 * exit when they are.
 * PJRT: GetPjrtApi, PJRT_Plugin_Initialize.
 */
int pj_plugin_load(const char *path, struct pj_plugin **ret, struct pf_err *err);

/*
 * The same for a table that is in memory already.  API is read once and not kept; what it
 * points to is borrowed for good.  NULL is refused as a plugin's mistake.
 */
int pj_plugin_adopt(const struct PJRT_Api *api, struct pj_plugin **ret,
		    struct pf_err *err);

/* Forget the plugin; the file stays loaded.  PLUGIN may be NULL. */
void pj_plugin_free(struct pj_plugin *plugin);
PF_DEFINE_CLEANUP(struct pj_plugin *, pj_plugin_free)

/* The API version that the plugin speaks: 0 and 81 for 0.81. */
void pj_plugin_version(const struct pj_plugin *plugin, int *major, int *minor);

/*
 * The plugin's attributes as a JSON object: xla_version, stablehlo_current_version, …
 * ret   on success, the caller's (json_object_put)
 * PJRT: PJRT_Plugin_Attributes.
 */
int pj_plugin_attributes(const struct pj_plugin *plugin, struct json_object **ret,
			 struct pf_err *err);

/*
 * The names of the plugin's extensions as a JSON array, in the plugin's order: "FFI",
 * "Layouts"; "Extension99" for one without a known name.  The caller's; NULL: no memory.
 */
struct json_object *pj_plugin_extensions(const struct pj_plugin *plugin);

/*
 * The extensions as JSON objects {"name", "type", "size": of the plugin's struct in bytes,
 * "functions": {"PJRT_FFI_UserData_Add": is it there}}, in the plugin's order; a function
 * without a known name is "function 3".  The caller's; NULL: no memory.
 */
struct json_object *pj_plugin_extension_details(const struct pj_plugin *plugin);

/*
 * What is in the plugin's function table, as a JSON object: table_size in bytes, in_table
 * (functions that it has room for), known (to this build), present (of those), missing
 * (their names).  The caller's; NULL: no memory.
 */
struct json_object *pj_plugin_functions(const struct pj_plugin *plugin);

/*
 * 0 if arrays of the PJRT_Buffer_Type DTYPE may be given to this plugin.  -EINVAL:
 * INVALID, TOKEN, or no type this build knows; -EOPNOTSUPP: the plugin is older than the
 * type (it would crash).
 */
int pj_plugin_check_dtype(const struct pj_plugin *plugin, int dtype, struct pf_err *err);

#endif
