/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of a plugin's tables: its functions and those of its extensions, by name. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/json.h"

enum { MAX_FUNCTIONS = 64 /* of an extension that are looked at */ };

/* A plugin without a MUST is refused; a missing MAY costs one feature. */
#define ROW(name, field, must)                                                           \
	{                                                                                \
		"PJRT_" #name, offsetof(struct pj_plugin, field), must                   \
	}
#define MUST(name) ROW(name, api.PJRT_##name, true)
#define MAY(name) ROW(name, api.PJRT_##name, false)
#define NEWER(name) ROW(name, newer.name, false)
#define ROWS(...)                                                                        \
	{                                                                                \
		__VA_ARGS__                                                              \
	}

static const struct {
	const char *name;
	size_t off; /* in struct pj_plugin */
	bool must;
} functions[] =
	ROWS(MUST(Error_Destroy), MUST(Error_Message), MUST(Error_GetCode),
	     MUST(Plugin_Initialize), MAY(Plugin_Attributes), MUST(Event_Destroy),
	     MAY(Event_IsReady), MAY(Event_Error), MUST(Event_Await), MAY(Event_OnReady),
	     MUST(Client_Create), MAY(Client_Destroy), MUST(Client_PlatformName),
	     MAY(Client_ProcessIndex), MAY(Client_PlatformVersion), MUST(Client_Devices),
	     MAY(Client_AddressableDevices), MAY(Client_LookupDevice),
	     MAY(Client_LookupAddressableDevice), MAY(Client_AddressableMemories),
	     MUST(Client_Compile), MAY(Client_DefaultDeviceAssignment),
	     MUST(Client_BufferFromHostBuffer), MUST(DeviceDescription_Id),
	     MAY(DeviceDescription_ProcessIndex), MAY(DeviceDescription_Attributes),
	     MAY(DeviceDescription_Kind), MAY(DeviceDescription_DebugString),
	     MAY(DeviceDescription_ToString), MUST(Device_GetDescription),
	     MUST(Device_IsAddressable), MAY(Device_LocalHardwareId),
	     MAY(Device_AddressableMemories), MAY(Device_DefaultMemory),
	     MAY(Device_MemoryStats), MAY(Memory_Id), MAY(Memory_Kind),
	     MAY(Memory_DebugString), MAY(Memory_ToString),
	     MAY(Memory_AddressableByDevices), MUST(Executable_Destroy),
	     MAY(Executable_Name), MUST(Executable_NumReplicas),
	     MUST(Executable_NumPartitions), MUST(Executable_NumOutputs),
	     MAY(Executable_SizeOfGeneratedCodeInBytes), MAY(Executable_GetCostAnalysis),
	     MAY(Executable_OutputMemoryKinds), MAY(Executable_OptimizedProgram),
	     MAY(Executable_Serialize), MUST(LoadedExecutable_Destroy),
	     MUST(LoadedExecutable_GetExecutable),
	     MAY(LoadedExecutable_AddressableDevices), MAY(LoadedExecutable_Delete),
	     MAY(LoadedExecutable_IsDeleted), MUST(LoadedExecutable_Execute),
	     MAY(Executable_DeserializeAndLoad), MAY(LoadedExecutable_Fingerprint),
	     MUST(Buffer_Destroy), MUST(Buffer_ElementType), MUST(Buffer_Dimensions),
	     MAY(Buffer_UnpaddedDimensions), MAY(Buffer_DynamicDimensionIndices),
	     MAY(Buffer_GetMemoryLayout), MAY(Buffer_OnDeviceSizeInBytes),
	     MAY(Buffer_Device), MAY(Buffer_Memory), MAY(Buffer_Delete),
	     MAY(Buffer_IsDeleted), MAY(Buffer_CopyToDevice), MUST(Buffer_ToHostBuffer),
	     MAY(Buffer_IsOnCpu), MUST(Buffer_ReadyEvent), MAY(Buffer_UnsafePointer),
	     MAY(Buffer_IncreaseExternalReferenceCount),
	     MAY(Buffer_DecreaseExternalReferenceCount),
	     MAY(Buffer_OpaqueDeviceMemoryDataPointer), MAY(CopyToDeviceStream_Destroy),
	     MAY(CopyToDeviceStream_AddChunk), MAY(CopyToDeviceStream_TotalBytes),
	     MAY(CopyToDeviceStream_GranuleSize), MAY(CopyToDeviceStream_CurrentBytes),
	     MAY(TopologyDescription_Create), MAY(TopologyDescription_Destroy),
	     MAY(TopologyDescription_PlatformName),
	     MAY(TopologyDescription_PlatformVersion),
	     MAY(TopologyDescription_GetDeviceDescriptions),
	     MAY(TopologyDescription_Serialize), MAY(TopologyDescription_Attributes),
	     MAY(Compile), MAY(Executable_OutputElementTypes),
	     MAY(Executable_OutputDimensions), MAY(Buffer_CopyToMemory),
	     MAY(Client_CreateViewOfDeviceBuffer), MAY(Executable_Fingerprint),
	     MAY(Client_TopologyDescription), MAY(Executable_GetCompiledMemoryStats),
	     MAY(Memory_Kind_Id), MAY(ExecuteContext_Create), MAY(ExecuteContext_Destroy),
	     MAY(Buffer_CopyRawToHost), MAY(AsyncHostToDeviceTransferManager_Destroy),
	     MAY(AsyncHostToDeviceTransferManager_TransferData),
	     MAY(Client_CreateBuffersForAsyncHostToDevice),
	     MAY(AsyncHostToDeviceTransferManager_RetrieveBuffer),
	     MAY(AsyncHostToDeviceTransferManager_Device),
	     MAY(AsyncHostToDeviceTransferManager_BufferCount),
	     MAY(AsyncHostToDeviceTransferManager_BufferSize),
	     MAY(AsyncHostToDeviceTransferManager_SetBufferError),
	     MAY(AsyncHostToDeviceTransferManager_AddMetadata), MAY(Client_DmaMap),
	     MAY(Client_DmaUnmap), MAY(Client_CreateUninitializedBuffer),
	     MAY(Client_UpdateGlobalProcessInfo), MAY(TopologyDescription_Deserialize),
	     MAY(Client_CreateAliasBuffer), MAY(Client_FulfillAliasBuffer),
	     MAY(LoadedExecutable_GetDeviceAssignment), NEWER(Client_CreateErrorBuffer),
	     NEWER(AsyncHostToDeviceTransferManager_TransferLiteral),
	     NEWER(Buffer_CopyRawToHostFuture), NEWER(Device_PoisonExecution),
	     NEWER(Device_CreateAsyncTrackingEvent), NEWER(AsyncTrackingEvent_Destroy),
	     NEWER(Executable_GetCompileOptions),
	     NEWER(Buffer_DonateWithControlDependency), NEWER(Event_Create),
	     NEWER(Event_Set), NEWER(Device_GetAttributes), NEWER(Client_Load),
	     NEWER(LoadedExecutable_AddressableDeviceLogicalIds), NEWER(Buffer_Bitcast),
	     NEWER(Error_ForEachPayload), NEWER(TopologyDescription_Fingerprint),
	     NEWER(Executable_ParameterMemoryKinds), NEWER(Device_ClearMemoryStats),
	     NEWER(TopologyDescription_MakeCanonicalShapeForMemorySpace),
	     NEWER(TopologyDescription_GetMemorySpaceKindIds));

enum { N_FUNCTIONS = PF_ARRAY_SIZE(functions) };

_Static_assert(offsetof(PJRT_Api, PJRT_Error_Destroy) +
			       N_FUNCTIONS * sizeof(void (*)(void)) ==
		       PJ_NEWER_OFF + sizeof(struct pj_newer),
	       "every function has a row");

static bool is_there(const void *table, size_t off)
{
	void *function;

	memcpy(&function, (const char *)table + off, sizeof(function));
	return function;
}

const char *pj_table_lacks(const struct pj_plugin *plugin)
{
	for (size_t i = 0; i < N_FUNCTIONS; i++)
		if (functions[i].must && !is_there(plugin, functions[i].off))
			return functions[i].name;
	return NULL;
}

struct json_object *pj_plugin_functions(const struct pj_plugin *plugin)
{
	struct json_object *o = json_object_new_object(),
			   *missing = json_object_new_array();
	size_t start = offsetof(PJRT_Api, PJRT_Error_Destroy);
	size_t size = plugin->api.struct_size;
	int there = 0;

	for (size_t i = 0; o && missing && i < N_FUNCTIONS; i++) {
		if (is_there(plugin, functions[i].off))
			there++;
		else
			json_object_array_add(missing,
					      json_object_new_string(functions[i].name));
	}
	pf_json_add_int(o, "table_size", (int64_t)size);
	pf_json_add_int(o, "in_table", (int64_t)((size - start) / sizeof(void *)));
	pf_json_add_int(o, "known", N_FUNCTIONS);
	pf_json_add_int(o, "present", there);
	json_object_object_add(o, "missing", missing);
	return o;
}

/* --- extensions --------------------------------------------------------------------- */

/*
 * By type, also of extensions newer than our header (XLA's changelog of the C API), and
 * what follows the head of each in its order (XLA's pjrt_c_api_*_extension.h).
 */
static const struct {
	const char *name;
	const char *functions; /* with blanks between; NULL: not known, or no functions */
} extensions[] = {
	{ "GpuCustomCall", "PJRT_Gpu_Register_Custom_Call" },
	{ "Profiler", NULL },
	{ "CustomPartitioner", "PJRT_Register_Custom_Partitioner" },
	{ "Stream", "PJRT_Get_Stream_For_External_Ready_Events "
		    "PJRT_Wait_Until_Buffer_Ready_On_Stream" },
	{ "Layouts",
	  "PJRT_Layouts_MemoryLayout_Destroy PJRT_Layouts_MemoryLayout_Serialize "
	  "PJRT_Layouts_PJRT_Client_GetDefaultLayout "
	  "PJRT_Layouts_PJRT_Buffer_MemoryLayout "
	  "PJRT_Layouts_PJRT_Topology_GetDefaultLayout "
	  "PJRT_Layouts_PJRT_Executable_GetOutputLayouts "
	  "PJRT_Layouts_PJRT_Executable_GetParameterLayouts" },
	{ "FFI", "PJRT_FFI_TypeID_Register PJRT_FFI_UserData_Add "
		 "PJRT_FFI_Register_Handler" },
	{ "MemoryDescriptions", "PJRT_DeviceDescription_MemoryDescriptions "
				"PJRT_MemoryDescription_Kind" },
	{ "Triton", "PJRT_Triton_Compile" },
	{ "RawBuffer", "PJRT_RawBuffer_CreateRawAliasOfBuffer PJRT_RawBuffer_Destroy "
		       "PJRT_RawBuffer_GetOnDeviceSizeInBytes "
		       "PJRT_RawBuffer_GetMemorySpace PJRT_RawBuffer_CopyRawHostToDevice "
		       "PJRT_RawBuffer_CopyRawDeviceToHost "
		       "PJRT_RawBuffer_GetHostPointer" },
	{ "PhaseCompile",
	  "PJRT_PhaseCompile_Get_Compiler PJRT_PhaseCompile_Destroy_Compiler "
	  "PJRT_PhaseCompile_Run_Phase PJRT_PhaseCompile_Get_PhaseNames" },
	{ "Example", NULL },
	{ "Unknown", NULL },
	{ "CrossHostTransfers", "PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers "
				"PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice "
				"PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers "
				"PJRT_Transfers_PJRT_Client_CrossHostSendBuffers" },
	{ "ExecutableMetadata", NULL },
	{ "Callback", NULL },
	{ "HostAllocator", NULL },
	{ "TpuTopology", NULL },
	{ "TpuExecutable", NULL },
	{ "Megascale", NULL },
	{ "Shardings", "PJRT_Shardings_PJRT_Executable_ParameterShardings "
		       "PJRT_Shardings_PJRT_Executable_OutputShardings" },
	{ "AbiVersion",
	  "PJRT_Client_RuntimeAbiVersion PJRT_Executable_GetAbiVersion "
	  "PJRT_RuntimeAbiVersion_Destroy "
	  "PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime "
	  "PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable "
	  "PJRT_RuntimeAbiVersion_ToProto PJRT_RuntimeAbiVersion_PlatformId "
	  "PJRT_ExecutableAbiVersion_Destroy PJRT_ExecutableAbiVersion_ToProto "
	  "PJRT_ExecutableAbiVersion_PlatformId PJRT_RuntimeAbiVersion_FromProto "
	  "PJRT_ExecutableAbiVersion_FromProto" },
	{ "Collectives", NULL },
	{ "MultiSlice", NULL },
	{ "HostMemoryAllocator", NULL },
	{ "XlaTransform", "PJRT_Register_Xla_Transform PJRT_Clear_Xla_Transform" },
};

/* The functions of E as {NAME: is it there}; those without a known name have their number. */
static struct json_object *extension_functions(const PJRT_Extension_Base *e)
{
	struct json_object *o = json_object_new_object();
	size_t type = (size_t)e->type, off = sizeof(*e);
	const char *at =
		type < PF_ARRAY_SIZE(extensions) ? extensions[type].functions : NULL;

	for (int i = 1; o && off + sizeof(void *) <= e->struct_size && i <= MAX_FUNCTIONS;
	     i++, off += sizeof(void *)) {
		size_t len = at ? strcspn(at, " ") : 0;
		char name[96];

		if (len)
			snprintf(name, sizeof(name), "%.*s", (int)len, at);
		else
			snprintf(name, sizeof(name), "function %d", i);
		json_object_object_add(o, name,
				       json_object_new_boolean(is_there(e, off)));
		if (at)
			at += len + (at[len] == ' ');
	}
	return o;
}

struct json_object *pj_plugin_extensions(const struct pj_plugin *plugin)
{
	struct json_object *list = json_object_new_array();
	const PJRT_Extension_Base *e = plugin->api.extension_start;

	for (int n = 0; list && e && n < PJ_MAX_EXTENSIONS; n++, e = e->next) {
		struct json_object *o = json_object_new_object();
		size_t type = (size_t)e->type;
		char name[32];

		snprintf(name, sizeof(name), "Extension%zu", type);
		pf_json_add_string(o, "name",
				   type < PF_ARRAY_SIZE(extensions)
					   ? extensions[type].name
					   : name);
		pf_json_add_int(o, "type", (int)e->type);
		pf_json_add_int(o, "size", (int64_t)e->struct_size);
		if (e->type != PJRT_Extension_Type_Profiler) /* that one holds data */
			json_object_object_add(o, "functions", extension_functions(e));
		json_object_array_add(list, o);
	}
	return list;
}
