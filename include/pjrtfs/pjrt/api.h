/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the PJRT layer share, and the only include of pjrt_c_api.h.  No other
 * layer includes this.
 */
#ifndef PJRTFS_PJRT_API_H
#define PJRTFS_PJRT_API_H

#include <pjrt_c_api.h>

#include <json-c/json.h>

#include "pjrtfs/base/err.h"
#include "pjrtfs/pjrt/plugin.h"

struct pj_client;
struct pj_executable;

struct pj_plugin {
	PJRT_Api api; /* the plugin's table, cut or filled with NULLs to our size; its
		       * struct_size is the plugin's */
};

enum { PJ_MAX_EXTENSIONS = 64 /* a longer chain is taken for a broken one */ };

/* The first initializer of every argument struct: its size, as this build knows it. */
#define PJ_SIZE(type) .struct_size = type##_STRUCT_SIZE

/*
 * Call FN of PLUGIN's table with ARGS.  0, or -errno with *ERR filled; -EOPNOTSUPP if the
 * plugin has no such function.
 */
#define PJ_CALL(plugin, err, fn, args)                                                   \
	((plugin)->api.fn ? pj_check((plugin), (plugin)->api.fn(args), (err))            \
			  : pj_missing((plugin), #fn, (err)))

/*
 * Turn E into *ERR and destroy it.  Takes ownership of E; NULL means success and returns
 * 0.  Every call into a plugin goes through this function.
 */
int pj_check(const struct pj_plugin *plugin, PJRT_Error *e, struct pf_err *err);

/*
 * The same for the error of a compile, where two codes mean something else: UNKNOWN is a mistake in
 * the program, -EINVAL, and NOT_FOUND a custom call that nobody has registered, -EOPNOTSUPP.
 */
int pj_check_compile(const struct pj_plugin *plugin, PJRT_Error *e, struct pf_err *err);

/* The failure of a call that the plugin's table does not have.  -EOPNOTSUPP. */
int pj_missing(const struct pj_plugin *plugin, const char *function, struct pf_err *err);

/* The name of a function that nothing works without and that PLUGIN's table lacks, static;
 * NULL: it has all of them. */
const char *pj_table_lacks(const struct pj_plugin *plugin);

/*
 * Wait until EVENT is ready, and destroy it.  0, or the error that it carries.  NULL is a
 * ready one.  Blocks.
 */
int pj_event_await(const struct pj_plugin *plugin, PJRT_Event *event, struct pf_err *err);

/* Destroy EVENT without waiting for it. */
void pj_event_drop(const struct pj_plugin *plugin, PJRT_Event *event);

/*
 * The plugin's extension of TYPE, or NULL if it has none of at least SIZE bytes
 * (offsetof the field after the last one that the caller uses).
 */
const void *pj_plugin_extension(const struct pj_plugin *plugin, int type, size_t size);

/*
 * Make an executable of LOADED, which is given: it is destroyed if that fails.
 * PJRT: PJRT_LoadedExecutable_GetExecutable.
 */
int pj_executable_adopt(const struct pj_client *client, PJRT_LoadedExecutable *loaded,
			struct pj_executable **ret, struct pf_err *err);

/* A string of the plugin's as JSON: what is no clean UTF-8 is replaced.  NULL: no memory. */
struct json_object *pj_string_json(const char *text, size_t len);

/* The same as a C string, the caller's; NULL: no memory. */
char *pj_string_copy(const char *text, size_t len);

/* N named values as a JSON object, the caller's.  NULL: no memory. */
struct json_object *pj_values_json(const PJRT_NamedValue *values, size_t n);

/* Named values made of JSON; strings are borrowed from it. */
struct pj_values {
	PJRT_NamedValue *items; /* owned */
	size_t n;
	int64_t *lists; /* owned; what the lists among the items point to */
};

/*
 * Make named values of the JSON object OPTIONS, which must live as long as *RET: string,
 * integer, bool, double, list of integers.  NULL is an empty object.
 * -EINVAL: a value of another type; the sentence names it.  -ENOMEM.
 */
int pj_values_init(struct pj_values *ret, struct json_object *options,
		   struct pf_err *err);
void pj_values_release(struct pj_values *values);

#endif
