/* SPDX-License-Identifier: Apache-2.0 */
/* The versions of the plugin's builds, which are all one. */
#include "../../../src/pjrt/abi.h"

#include <stdlib.h>
#include <string.h>

#include "plugin.h"

static const char proto[] = "faulty\0version 1";

enum { LONG = 4097 };

/* The leak checker finds one that is not destroyed. */
struct pj_runtime_abi {
	int unused;
};
struct pj_executable_abi {
	int unused;
};

static void *version_new(void)
{
	void *version = malloc(sizeof(struct pj_executable_abi));

	if (!version)
		abort();
	return version;
}

static bool abi_fault(const char *name)
{
	char fault[TEXT_LEN];

	return find_fault(ABI, fault) && fault_arg(fault, name);
}

static PJRT_Error *runtime(struct pj_abi_runtime_args *args)
{
	if (!abi_fault("nothing"))
		args->version = version_new();
	return NULL;
}

static PJRT_Error *executable(struct pj_abi_executable_args *args)
{
	if (!abi_fault("nothing"))
		args->version = version_new();
	return NULL;
}

static PJRT_Error *runtime_destroy(struct pj_abi_runtime_destroy_args *args)
{
	free(args->version);
	return NULL;
}

static PJRT_Error *executable_destroy(struct pj_abi_executable_destroy_args *args)
{
	free(args->version);
	return NULL;
}

static PJRT_Error *is_compatible(struct pj_abi_compatible_args *args)
{
	if (args->struct_size < sizeof(*args) || !args->version || !args->executable)
		return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
				 "faulty: bad arguments");
	return inject(ABI);
}

static PJRT_Error *to_proto(struct pj_abi_to_proto_args *args)
{
	args->len = abi_fault("long") ? LONG : sizeof(proto);
	args->holder = calloc(1, LONG);
	if (!args->holder)
		abort();
	args->bytes = memcpy(args->holder, proto, sizeof(proto));
	if (abi_fault("other"))
		*(char *)args->holder = 'F';
	args->deleter = free;
	return NULL;
}

static PJRT_Error *from_proto(struct pj_abi_from_proto_args *args)
{
	if (args->len != sizeof(proto) || memcmp(args->bytes, proto, sizeof(proto)) != 0)
		return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
				 "faulty: that is no version");
	args->version = version_new();
	return NULL;
}

struct pj_abi_extension abi_extension = {
	.base = { .struct_size = sizeof(abi_extension),
		  .type = (PJRT_Extension_Type)PJ_EXTENSION_ABI_VERSION },
	.runtime = runtime,
	.executable = executable,
	.runtime_destroy = runtime_destroy,
	.executable_is_compatible = is_compatible,
	.executable_destroy = executable_destroy,
	.executable_to_proto = to_proto,
	.executable_from_proto = from_proto,
};
