/* SPDX-License-Identifier: Apache-2.0 */
/* The table of functions: the plugin's only interface. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../../src/pjrt/cross_host.h"
#include "plugin.h"

const PJRT_Api *GetPjrtApi(void);

#define STUB(name)                                                                       \
	static PJRT_Error *name##_stub(name##_Args *args)                                \
	{                                                                                \
		(void)args;                                                              \
		return error_new(PJRT_Error_Code_UNIMPLEMENTED,                          \
				 "faulty: " #name " is not implemented");                \
	}

STUB(PJRT_Executable_GetCostAnalysis)
STUB(PJRT_Executable_OutputMemoryKinds)
STUB(PJRT_Executable_GetCompiledMemoryStats)
STUB(PJRT_Client_CreateBuffersForAsyncHostToDevice)

/* Functions that callers can reach only through one of the stubs above are NULL. */
static PJRT_Api api = {
	.struct_size = PJRT_Api_STRUCT_SIZE,
	.extension_start = &cross_host_extension.base,
	.pjrt_api_version = { .struct_size = PJRT_Api_Version_STRUCT_SIZE,
			      .major_version = PJRT_API_MAJOR,
			      .minor_version = PJRT_API_MINOR },
	.PJRT_Error_Destroy = error_destroy,
	.PJRT_Error_Message = error_message,
	.PJRT_Error_GetCode = error_get_code,
	.PJRT_Plugin_Initialize = plugin_initialize,
	.PJRT_Plugin_Attributes = plugin_attributes,
	.PJRT_Event_Destroy = event_destroy,
	.PJRT_Event_Await = event_await,
	.PJRT_Client_Create = client_create,
	.PJRT_Client_Destroy = client_destroy,
	.PJRT_Client_PlatformName = client_platform_name,
	.PJRT_Client_ProcessIndex = client_process_index,
	.PJRT_Client_PlatformVersion = client_platform_version,
	.PJRT_Client_Devices = client_devices,
	.PJRT_Client_Compile = client_compile,
	.PJRT_Client_BufferFromHostBuffer = client_buffer_from_host,
	.PJRT_DeviceDescription_Id = description_id,
	.PJRT_DeviceDescription_ProcessIndex = description_process_index,
	.PJRT_DeviceDescription_Attributes = description_attributes,
	.PJRT_DeviceDescription_Kind = description_kind,
	.PJRT_DeviceDescription_DebugString = description_debug_string,
	.PJRT_DeviceDescription_ToString = description_to_string,
	.PJRT_Device_GetDescription = device_get_description,
	.PJRT_Device_IsAddressable = device_is_addressable,
	.PJRT_Device_LocalHardwareId = device_local_hardware_id,
	.PJRT_Device_AddressableMemories = device_addressable_memories,
	.PJRT_Device_DefaultMemory = device_default_memory,
	.PJRT_Device_MemoryStats = device_memory_stats,
	.PJRT_Memory_Id = memory_id,
	.PJRT_Memory_Kind = memory_kind,
	.PJRT_Memory_ToString = memory_to_string,
	.PJRT_Executable_Destroy = executable_destroy,
	.PJRT_Executable_Name = executable_name,
	.PJRT_Executable_NumReplicas = executable_num_replicas,
	.PJRT_Executable_NumPartitions = executable_num_partitions,
	.PJRT_Executable_NumOutputs = executable_num_outputs,
	.PJRT_Executable_SizeOfGeneratedCodeInBytes = executable_code_size,
	.PJRT_Executable_GetCostAnalysis = PJRT_Executable_GetCostAnalysis_stub,
	.PJRT_Executable_OutputMemoryKinds = PJRT_Executable_OutputMemoryKinds_stub,
	.PJRT_Executable_OptimizedProgram = executable_optimized_program,
	.PJRT_Executable_Serialize = executable_serialize,
	.PJRT_LoadedExecutable_Destroy = loaded_destroy,
	.PJRT_LoadedExecutable_GetExecutable = loaded_get_executable,
	.PJRT_LoadedExecutable_AddressableDevices = loaded_addressable_devices,
	.PJRT_LoadedExecutable_Execute = loaded_execute,
	.PJRT_Executable_DeserializeAndLoad = deserialize,
	.PJRT_Buffer_Destroy = buffer_destroy,
	.PJRT_Buffer_ElementType = buffer_element_type,
	.PJRT_Buffer_Dimensions = buffer_dimensions,
	.PJRT_Buffer_OnDeviceSizeInBytes = buffer_on_device_size,
	.PJRT_Buffer_Device = buffer_device,
	.PJRT_Buffer_CopyToDevice = buffer_copy_to_device,
	.PJRT_Buffer_ToHostBuffer = buffer_to_host,
	.PJRT_Buffer_IsOnCpu = buffer_is_on_cpu,
	.PJRT_Buffer_ReadyEvent = buffer_ready_event,
	.PJRT_Buffer_UnsafePointer = buffer_unsafe_pointer,
	.PJRT_Buffer_OpaqueDeviceMemoryDataPointer = buffer_opaque_pointer,
	.PJRT_Executable_OutputElementTypes = executable_output_types,
	.PJRT_Executable_OutputDimensions = executable_output_dims,
	.PJRT_Buffer_CopyToMemory = buffer_copy_to_memory,
	.PJRT_TopologyDescription_Destroy = topology_destroy,
	.PJRT_TopologyDescription_PlatformName = topology_platform_name,
	.PJRT_TopologyDescription_PlatformVersion = topology_platform_version,
	.PJRT_TopologyDescription_GetDeviceDescriptions = topology_descriptions,
	.PJRT_TopologyDescription_Serialize = topology_serialize,
	.PJRT_TopologyDescription_Attributes = topology_attributes,
	.PJRT_TopologyDescription_Deserialize = topology_deserialize,
	.PJRT_Compile = compile,
	.PJRT_Client_TopologyDescription = client_topology,
	.PJRT_Executable_Fingerprint = executable_fingerprint,
	.PJRT_Executable_GetCompiledMemoryStats =
		PJRT_Executable_GetCompiledMemoryStats_stub,
	.PJRT_Memory_Kind_Id = memory_kind_id,
	.PJRT_Client_CreateBuffersForAsyncHostToDevice =
		PJRT_Client_CreateBuffersForAsyncHostToDevice_stub,
	.PJRT_Client_CreateUninitializedBuffer = client_create_uninitialized,
	.PJRT_Client_UpdateGlobalProcessInfo = client_update_processes,
	.PJRT_LoadedExecutable_GetDeviceAssignment = loaded_get_device_assignment,
};

/* A table of SIZE bytes that ends where readable memory ends. */
static const PJRT_Api *short_table(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p + page, page, PROT_NONE))
		abort();
	api.struct_size = size;
	return memcpy(p + page - size, &api, size);
}

/* How long the table is with N functions; more than there are: all of it. */
static size_t table_size(const char *n)
{
	size_t start = offsetof(PJRT_Api, PJRT_Error_Destroy);
	size_t size = start + strtoul(n, NULL, 10) * sizeof(void (*)(void));

	if (!*n)
		return offsetof(PJRT_Api, PJRT_Executable_OutputElementTypes);
	return size < sizeof(api) ? size : sizeof(api);
}

__attribute__((__visibility__("default"))) const PJRT_Api *GetPjrtApi(void)
{
	size_t start = offsetof(PJRT_Api, PJRT_Error_Destroy);
	char fault[TEXT_LEN];
	const char *arg;
	PJRT_Error *e = inject(API);

	if (e)
		count_thing(ERRORS, -1);
	free(e); /* the API has no field for it */
	if (getenv("PJRTFS_FAULTY_CALLS"))
		wrap_calls(&api);
	if (!find_fault(API, fault))
		return &api;
	if (fault_arg(fault, "null"))
		return NULL;
	if (fault_arg(fault, "major"))
		api.pjrt_api_version.major_version = 99;
	if (fault_arg(fault, "empty"))
		memset((char *)&api + start, 0, sizeof(api) - start);
	if ((arg = fault_arg(fault, "extension")))
		cross_host_extension.base.struct_size = strtoul(arg, NULL, 10);
	if ((arg = fault_arg(fault, "short")))
		return short_table(table_size(arg));
	return &api;
}
