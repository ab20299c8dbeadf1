/* SPDX-License-Identifier: Apache-2.0 */
/* The table of functions: the plugin's only interface. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../../src/pjrt/abi.h"
#include "../../../src/pjrt/cross_host.h"
#include "plugin.h"

const PJRT_Api *GetPjrtApi(void);

#define STUB(name)                                                                       \
	PJRT_Error *faulty_##name(PJRT_##name##_Args *args)                              \
	{                                                                                \
		(void)args;                                                              \
		return error_new(PJRT_Error_Code_UNIMPLEMENTED,                          \
				 "faulty: PJRT_" #name " is not implemented");           \
	}

STUB(Executable_OutputMemoryKinds)
static PJRT_Client_CreateBuffersForAsyncHostToDevice
	faulty_Client_CreateBuffersForAsyncHostToDevice;
STUB(Client_CreateBuffersForAsyncHostToDevice)

/* It has none of these. */
#define faulty_ExecuteContext_Create NULL
#define faulty_ExecuteContext_Destroy NULL

/* Functions that callers can reach only through one of the stubs above are NULL. */
static union table
	table = { .api = {
			  .struct_size = sizeof(table),
			  .extension_start = &cross_host_extension.base,
			  .pjrt_api_version = { .struct_size =
							PJRT_Api_Version_STRUCT_SIZE,
						.major_version = PJRT_API_MAJOR,
						.minor_version = PJRT_API_MINOR },
			  .PJRT_Error_Destroy = error_destroy,
			  .PJRT_Error_Message = error_message,
			  .PJRT_Error_GetCode = error_get_code,
			  .PJRT_Client_CreateBuffersForAsyncHostToDevice =
				  faulty_Client_CreateBuffersForAsyncHostToDevice,
#define CALL(name, operation, effect, gives) .PJRT_##name = faulty_##name,
#define NEWER(name, operation, effect, gives)
#include "calls.h"
#undef CALL
#undef NEWER
		  } };

static const struct pj_newer newer = {
	.Error_ForEachPayload = error_for_each_payload,
#define CALL(name, operation, effect, gives)
#define NEWER(name, operation, effect, gives) .name = faulty_##name,
#include "calls.h"
#undef CALL
#undef NEWER
};

/* A table of SIZE bytes that ends where readable memory ends. */
static const PJRT_Api *short_table(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p + page, page, PROT_NONE))
		abort();
	table.api.struct_size = size;
	return memcpy(p + page - size, &table, size);
}

/* How long the table is with N functions; more than there are: all of it. */
static size_t table_size(const char *n)
{
	size_t start = offsetof(PJRT_Api, PJRT_Error_Destroy);
	size_t size = start + strtoul(n, NULL, 10) * sizeof(void (*)(void));

	if (!*n)
		return offsetof(PJRT_Api, PJRT_Executable_OutputElementTypes);
	return size < sizeof(table) ? size : sizeof(table);
}

__attribute__((__visibility__("default"))) const PJRT_Api *GetPjrtApi(void)
{
	size_t start = offsetof(PJRT_Api, PJRT_Error_Destroy);
	char fault[TEXT_LEN];
	const char *arg;

	error_free(inject(API)); /* the API has no field for it */
	table.newer = newer;
	if (getenv("PJRTFS_FAULTY_CALLS"))
		wrap_calls(&table);
	if (!find_fault(API, fault))
		return &table.api;
	if (fault_arg(fault, "null"))
		return NULL;
	if (fault_arg(fault, "major"))
		table.api.pjrt_api_version.major_version = 99;
	if (fault_arg(fault, "empty"))
		memset((char *)&table + start, 0, sizeof(table) - start);
	if ((arg = fault_arg(fault, "extension")))
		cross_host_extension.base.struct_size = strtoul(arg, NULL, 10);
	if ((arg = fault_arg(fault, "abi"))) {
		cross_host_extension.base.next = &abi_extension.base;
		if (*arg)
			abi_extension.base.struct_size = strtoul(arg, NULL, 10);
	}
	if ((arg = fault_arg(fault, "short")))
		return short_table(table_size(arg));
	return &table.api;
}
