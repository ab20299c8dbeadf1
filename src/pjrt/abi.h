/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XLA's extension by which a plugin says whether it runs what another build of it has compiled, in the
 * layout of pjrt_c_api_abi_version_extension.h.  Its arguments have no extension_start.
 */
#ifndef PJRTFS_PJRT_ABI_H
#define PJRTFS_PJRT_ABI_H

#include <pjrt_c_api.h>
#include <stddef.h>

enum { PJ_EXTENSION_ABI_VERSION = 20 }; /* newer than the header of API 0.81 */

struct pj_runtime_abi;    /* the plugin's: a build of it, as it is loaded */
struct pj_executable_abi; /* the plugin's: the build that has compiled a program */

struct pj_abi_runtime_args {
	size_t struct_size;
	PJRT_Client *client;
	struct pj_runtime_abi *version; /* out, the caller's */
};

struct pj_abi_executable_args {
	size_t struct_size;
	PJRT_Executable *executable;
	struct pj_executable_abi *version; /* out, the caller's */
};

struct pj_abi_runtime_destroy_args {
	size_t struct_size;
	struct pj_runtime_abi *version;
};

struct pj_abi_executable_destroy_args {
	size_t struct_size;
	struct pj_executable_abi *version;
};

/* An error says that it is not compatible, and why. */
struct pj_abi_compatible_args {
	size_t struct_size;
	const struct pj_runtime_abi *version;
	const struct pj_executable_abi *executable;
};

struct pj_abi_to_proto_args {
	size_t struct_size;
	const struct pj_executable_abi *version;
	const char *bytes; /* out: they live until deleter(holder) */
	size_t len;
	void *holder;
	void (*deleter)(void *holder);
};

struct pj_abi_from_proto_args {
	size_t struct_size;
	const char *bytes;
	size_t len;
	struct pj_executable_abi *version; /* out, the caller's */
};

/* Those that pjrtfs does not call have no arguments here. */
struct pj_abi_extension {
	PJRT_Extension_Base base;
	PJRT_Error *(*runtime)(struct pj_abi_runtime_args *args);
	PJRT_Error *(*executable)(struct pj_abi_executable_args *args);
	PJRT_Error *(*runtime_destroy)(struct pj_abi_runtime_destroy_args *args);
	void (*runtime_is_compatible)(void);
	PJRT_Error *(*executable_is_compatible)(struct pj_abi_compatible_args *args);
	void (*runtime_to_proto)(void);
	void (*runtime_platform)(void);
	PJRT_Error *(*executable_destroy)(struct pj_abi_executable_destroy_args *args);
	PJRT_Error *(*executable_to_proto)(struct pj_abi_to_proto_args *args);
	void (*executable_platform)(void);
	void (*runtime_from_proto)(void);
	PJRT_Error *(*executable_from_proto)(struct pj_abi_from_proto_args *args);
};

_Static_assert(sizeof(struct pj_abi_extension) == 24 + 12 * sizeof(void (*)(void)),
	       "the extension has twelve functions");

#endif
