/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FFI libraries: shared objects with handlers of custom calls (pjrtfs/ffi.h), which workers load
 * beside their plugin.
 *
 * The daemon reads a library's file once, into a sealed memfd, and each instance of a worker loads
 * that: its SHA-256 is that of the code that runs, whatever happens to the file.
 */
#ifndef PJRTFS_LIBRARY_H
#define PJRTFS_LIBRARY_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pjrtfs/base.h"
#include "pjrtfs/wire.h"

enum {
	PF_LIBRARIES_MAX = PF_WIRE_LIBRARIES, /* of a mount */
	PF_LIBRARY_SHA256 = 32,               /* bytes */
	PF_LIBRARY_BYTES = 1 << 30,           /* of a file */
};

/* What to load. */
struct pf_library_spec {
	const char *path;   /* absolute */
	const char *plugin; /* the plugin that gets it; NULL: all */
	/* From target to symbol, or to "+0x..." for a handler at that address of the file, for a library without
	 * pjrtfs_ffi_library; or NULL. */
	struct json_object *targets;
	const char *
		sha256; /* that the file must have, in hexadecimal digits; NULL: any, if no target is an address */
	const char *platform; /* of the map's handlers; NULL: the processors, "Host" */
	uint32_t traits;      /* likewise */
	bool builtin;         /* a part of pjrtfs: all others' handlers precede its own */
};

/* A library.  It never changes. */
struct pf_library {
	char *name; /* owned: of its directory in ffi/ */
	char *path; /* owned, as the next three; as in the spec */
	char *plugin;
	struct json_object *targets;
	char *platform;
	uint32_t traits;
	bool builtin;
	int fd; /* owned: the sealed memfd */
	uint8_t sha256[PF_LIBRARY_SHA256];
};

/* The libraries of a mount, in the order in which they were added.  One thread at a time reads and adds
 * new ones; any thread may look at those that there are. */
struct pf_libraries;

/* None yet; the caller's, pf_libraries_free, when no worker has them any more.  NULL: no memory. */
struct pf_libraries *pf_libraries_new(void);
void pf_libraries_free(struct pf_libraries *libraries); /* NULL is allowed */

/*
 * Read the library SPEC, whose name differs from those of LIBRARIES: *RET, the caller's.
 * -ENOENT, ...: the file cannot be opened; -EINVAL: it is not a regular file; -EPERM: others than root
 * and the user of this process own it or may write to it; -ENOEXEC: no shared object of this
 * machine; -EFBIG: PF_LIBRARY_BYTES; -ESTALE: it has another SHA-256; -EINVAL: addresses without one; -ENOMEM.
 * Blocks while it reads.
 */
int pf_library_read(struct pf_libraries *libraries, const struct pf_library_spec *spec,
		    struct pf_library **ret, struct pf_err *err);
void pf_library_free(struct pf_library *library); /* NULL is allowed */
PF_DEFINE_CLEANUP(struct pf_library *, pf_library_free)

/* Add LIBRARY, which is taken on success, and stays as long as LIBRARIES.  -E2BIG: PF_LIBRARIES_MAX. */
int pf_libraries_take(struct pf_libraries *libraries, struct pf_library *library,
		      struct pf_err *err);

/* Both: read the library SPEC and add it.  *RET (may be NULL) is borrowed. */
int pf_libraries_add(struct pf_libraries *libraries, const struct pf_library_spec *spec,
		     const struct pf_library **ret, struct pf_err *err);

/* LIBRARIES and LIBRARY in *RET, the caller's, also after an error, for a trial: it borrows all of
 * them.  -E2BIG, -ENOMEM. */
int pf_libraries_with(struct pf_libraries *libraries, struct pf_library *library,
		      struct pf_libraries **ret, struct pf_err *err);

/* The library of PATH for PLUGIN (NULL: for any), borrowed; NULL: none has this path. */
const struct pf_library *pf_libraries_find(struct pf_libraries *libraries,
					   const char *path, const char *plugin);

/* Those of PLUGIN (NULL: all) in RET, borrowed, in the order in which their handlers precede each
 * other; their number.  LIBRARIES may be NULL. */
unsigned pf_libraries_of(struct pf_libraries *libraries, const char *plugin,
			 const struct pf_library *ret[PF_LIBRARIES_MAX]);

/* LIBRARY's path, targets, platform and traits as an object, the caller's.  NULL or incomplete: no memory. */
struct json_object *pf_library_json(const struct pf_library *library);

/* The path of the library NAME that belongs to pjrtfs into DST (LEN bytes): beside this program in a
 * build tree, else where it was installed.  Does not block. */
void pf_library_builtin(const char *name, char *dst, size_t len);

/* A handler that an instance of a worker was given. */
struct pf_custom_call {
	const char *target;               /* borrowed */
	const struct pf_library *library; /* NULL: the worker's own */
	const char *note; /* why programs cannot call it; NULL: they can */
};

/* The handlers of an instance, sorted by target; those of one target in the order of libraries.
 * Immutable and counted. */
struct pf_custom_calls {
	_Atomic unsigned refs;
	struct json_object *json;                             /* owned: the strings */
	const struct pf_library *libraries[PF_LIBRARIES_MAX]; /* borrowed */
	const char *why[PF_LIBRARIES_MAX]; /* the library cannot work; or NULL */
	unsigned n_libraries;
	size_t n;
	struct pf_custom_call calls[];
};

struct pf_custom_calls *pf_custom_calls_ref(struct pf_custom_calls *calls);
void pf_custom_calls_unref(struct pf_custom_calls *calls); /* NULL is allowed */
PF_DEFINE_CLEANUP(struct pf_custom_calls *, pf_custom_calls_unref)

/* The handler that programs reach by the LEN bytes of TARGET, or NULL.  CALLS may be NULL. */
const struct pf_custom_call *pf_custom_calls_find(const struct pf_custom_calls *calls,
						  const char *target, size_t len);

/* Can programs call all handlers of LIBRARY, which CALLS has?  -EEXIST: others come before one of its
 * handlers; -EOPNOTSUPP: it cannot work here, or the plugin refuses a handler. */
int pf_custom_calls_check(const struct pf_custom_calls *calls,
			  const struct pf_library *library, struct pf_err *err);

/* The name of the library of CALL; "pjrtfs" is the worker's own. */
const char *pf_custom_call_library(const struct pf_custom_call *call);

#endif
