/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_PJRT_INTERNAL_H
#define PJRTFS_PJRT_INTERNAL_H

#include <pjrt_c_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "newer.h"
#include "pjrtfs/base.h"
#include "pjrtfs/pjrt.h"

/* The plugin's table and its calls. */

enum { PJ_MAX_EXTENSIONS = 64 }; /* a longer chain is taken for a broken one */

struct pj_plugin {
	PJRT_Api api; /* the plugin's table, cut or filled with NULLs to our size; its
		       * struct_size is the plugin's */
	struct pj_newer newer; /* likewise */
};

/* PLUGIN's extension of TYPE, if that has SIZE bytes at least, else NULL. */
const PJRT_Extension_Base *pj_find_extension(const struct pj_plugin *plugin,
					     PJRT_Extension_Type type, size_t size);

/* Declare NAME, the arguments of the API's PJRT_FN, with these fields. */
#define PJ_ARGS(fn, name, ...)                                                           \
	PJRT_##fn##_Args name = { .struct_size = PJRT_##fn##_Args_STRUCT_SIZE,           \
				  __VA_ARGS__ }

/*
 * Call PJRT_FN of PLUGIN's table with ARGS.  0, or -errno with *ERR filled; -EOPNOTSUPP if
 * the plugin has no such function.
 */
#define PJ_CALL(plugin, err, fn, args)                                                   \
	((plugin)->api.PJRT_##fn                                                         \
		 ? pj_check((plugin), (plugin)->api.PJRT_##fn(args), (err))              \
		 : pj_missing((plugin), "PJRT_" #fn, (err)))

/* The same of a function in newer.h. */
#define PJ_NEWER_ARGS(fn, name, ...)                                                     \
	struct pj_##fn##_Args name = { .struct_size = sizeof(struct pj_##fn##_Args),     \
				       __VA_ARGS__ }
#define PJ_CALL_NEWER(plugin, err, fn, args)                                             \
	((plugin)->newer.fn ? pj_check((plugin), (plugin)->newer.fn(args), (err))        \
			    : pj_missing((plugin), "PJRT_" #fn, (err)))

/*
 * Turn E into *ERR and destroy it.  Takes ownership of E; NULL means success and returns
 * 0.  Every call into a plugin goes through this function.
 */
int pj_check(const struct pj_plugin *plugin, PJRT_Error *e, struct pf_err *err);

/*
 * The same for the error of a compile, where two codes mean something else: UNKNOWN is a mistake in
 * the program, -EINVAL, and NOT_FOUND a custom call that is not registered, -EOPNOTSUPP.
 */
int pj_check_compile(const struct pj_plugin *plugin, PJRT_Error *e, struct pf_err *err);

/* 0 if HANDLE, which FUNCTION ("PJRT_Client_Compile") succeeded with, is not NULL; else -EIO. */
int pj_given(const void *handle, const char *function, struct pf_err *err);

/* The same for EVENT, without which nothing says when the work is done. */
int pj_given_event(const PJRT_Event *event, const char *function, struct pf_err *err);

/* The same for LIST, which FUNCTION says has N elements: NULL is a list of none. */
int pj_given_list(const void *list, size_t n, const char *function, struct pf_err *err);

/* The failure of a call that the plugin's table does not have.  -EOPNOTSUPP. */
int pj_missing(const struct pj_plugin *plugin, const char *function, struct pf_err *err);

/* The name of a function that nothing works without and that PLUGIN's table lacks, static;
 * NULL: it has all of them. */
const char *pj_table_lacks(const struct pj_plugin *plugin);

/*
 * Wait until EVENT, which FUNCTION gave, is ready, and destroy it.  0, or the error that it carries;
 * pj_given_event.  Blocks.
 */
int pj_event_await(const struct pj_plugin *plugin, PJRT_Event *event,
		   const char *function, struct pf_err *err);

/* Destroy EVENT, which may be NULL, without waiting for it. */
void pj_event_drop(const struct pj_plugin *plugin, PJRT_Event *event);

/*
 * 0 if arrays of the PJRT_Buffer_Type DTYPE may be given to this plugin.  -EINVAL:
 * INVALID, TOKEN, or no type this build knows; -EOPNOTSUPP: the plugin is older than the
 * type (it would crash).
 */
int pj_plugin_check_dtype(const struct pj_plugin *plugin, int dtype, struct pf_err *err);

/* --- values.c ----------------------------------------------------------------------- */

/* A string of the plugin's, the caller's; bytes that are not clean UTF-8 are replaced.  NULL: no
 * memory. */
char *pj_string_copy(const char *text, size_t len);

/* The same as JSON. */
struct json_object *pj_string_json(const char *text, size_t len);

/* N named values as a JSON object, the caller's; without a list an empty one.  NULL: no memory. */
struct json_object *pj_values_json(const PJRT_NamedValue *values, size_t n);

/* Named values made of JSON; strings are borrowed from it. */
struct pj_values {
	PJRT_NamedValue *items; /* owned */
	size_t n;
	int64_t *lists; /* owned; the elements of the lists among the items */
};

/*
 * Make named values of the JSON object OPTIONS, which must live as long as *RET: string,
 * integer, bool, double, list of integers.  NULL is an empty object.
 * -EINVAL: a value of another type; the sentence names it.  -ENOMEM.
 */
int pj_values_init(struct pj_values *ret, struct json_object *options,
		   struct pf_err *err);
void pj_values_release(struct pj_values *values);

/* --- device.c ----------------------------------------------------------------------- */

/* Fill *RET for the device HANDLE.  Fails if the plugin does not even give the device's id. */
int pj_device_init(struct pj_device *ret, const struct pj_plugin *plugin,
		   struct PJRT_Device *handle, struct pf_err *err);

/* CLIENT's description of DEVICE; NULL: it has none. */
const struct pj_device *pj_client_device(const struct pj_client *client,
					 const PJRT_Device *device);

/* A plugin describes a device, which may be elsewhere, as {"id", "kind", "process_index",
 * "description", "debug", "attributes"}; facts that it lacks are as in pj_device_json.  The caller's.
 * PJRT: PJRT_DeviceDescription_*. */
struct json_object *pj_description_json(const struct pj_plugin *plugin,
					struct PJRT_DeviceDescription *description);

/* --- buffer.c ----------------------------------------------------------------------- */

/* Wait until BUFFER is ready.  0, or what made it fail.  PJRT: PJRT_Buffer_ReadyEvent. */
int pj_buffer_await(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer,
		    struct pf_err *err);

/* The same for MADE, a new buffer: *RET, the caller's; on failure it is destroyed. */
int pj_buffer_made(const struct pj_plugin *plugin, struct PJRT_Buffer *made,
		   struct PJRT_Buffer **ret, struct pf_err *err);

/* --- executable_facts.c ------------------------------------------------------------- */

/* 0 if EXECUTABLE is on devices of this process, else -EOPNOTSUPP. */
int pj_executable_check_loaded(const struct pj_executable *executable,
			       struct pf_err *err);

/* The devices that EXECUTABLE was compiled for, *RET, and their number.  None: it is for any, or the
 * plugin does not say (*ERR). */
size_t pj_executable_find_devices(const struct pj_executable *executable,
				  PJRT_Device *const **ret, struct pf_err *err);

/* --- first.c ------------------------------------------------------------------------ */

/*
 * Put the first argument of EXECUTABLE, which has one, before the arguments of RUN, which is on
 * N_DEVICES.  RUN's lists are *ROOM's from then on: the caller frees it, also after a failure, when
 * the plugin has read them.  -EINVAL: a device that EXECUTABLE is not for; -ENOMEM.
 */
int pj_first_add(const struct pj_executable *executable, size_t n_devices,
		 struct pj_run *run, void **room, struct pf_err *err);

/* Free it, if EXECUTABLE has one. */
void pj_first_free(struct pj_executable *executable);

#endif
