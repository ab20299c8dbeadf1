/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of a plugin's tables: its functions and those of its extensions, by name. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "pjrtfs/json.h"
#include "pjrtfs/pjrt.h"

enum {
	MAX_FUNCTIONS = 64,  /* of an extension that are looked at */
	MAX_EXTENSIONS = 64, /* a longer chain is taken for a broken one */
};

/* A plugin without a MUST is refused; a missing MAY costs one feature. */
enum need { MAY, MUST };

static const struct {
	const char *name;
	size_t off; /* in PJRT_Api */
	enum need need;
} functions[] = {
#define F(need, name)                                                                    \
	{                                                                                \
		"PJRT_" #name, offsetof(PJRT_Api, PJRT_##name), need                     \
	}
	F(MUST, Error_Destroy),
	F(MUST, Error_Message),
	F(MUST, Error_GetCode),
	F(MUST, Plugin_Initialize),
	F(MAY, Plugin_Attributes),
	F(MUST, Event_Destroy),
	F(MAY, Event_IsReady),
	F(MAY, Event_Error),
	F(MUST, Event_Await),
	F(MAY, Event_OnReady),
	F(MUST, Client_Create),
	F(MAY, Client_Destroy),
	F(MUST, Client_PlatformName),
	F(MAY, Client_ProcessIndex),
	F(MAY, Client_PlatformVersion),
	F(MUST, Client_Devices),
	F(MAY, Client_AddressableDevices),
	F(MAY, Client_LookupDevice),
	F(MAY, Client_LookupAddressableDevice),
	F(MAY, Client_AddressableMemories),
	F(MUST, Client_Compile),
	F(MAY, Client_DefaultDeviceAssignment),
	F(MUST, Client_BufferFromHostBuffer),
	F(MUST, DeviceDescription_Id),
	F(MAY, DeviceDescription_ProcessIndex),
	F(MAY, DeviceDescription_Attributes),
	F(MAY, DeviceDescription_Kind),
	F(MAY, DeviceDescription_DebugString),
	F(MAY, DeviceDescription_ToString),
	F(MUST, Device_GetDescription),
	F(MUST, Device_IsAddressable),
	F(MAY, Device_LocalHardwareId),
	F(MAY, Device_AddressableMemories),
	F(MAY, Device_DefaultMemory),
	F(MAY, Device_MemoryStats),
	F(MAY, Memory_Id),
	F(MAY, Memory_Kind),
	F(MAY, Memory_DebugString),
	F(MAY, Memory_ToString),
	F(MAY, Memory_AddressableByDevices),
	F(MUST, Executable_Destroy),
	F(MAY, Executable_Name),
	F(MUST, Executable_NumReplicas),
	F(MUST, Executable_NumPartitions),
	F(MUST, Executable_NumOutputs),
	F(MAY, Executable_SizeOfGeneratedCodeInBytes),
	F(MAY, Executable_GetCostAnalysis),
	F(MAY, Executable_OutputMemoryKinds),
	F(MAY, Executable_OptimizedProgram),
	F(MAY, Executable_Serialize),
	F(MUST, LoadedExecutable_Destroy),
	F(MUST, LoadedExecutable_GetExecutable),
	F(MAY, LoadedExecutable_AddressableDevices),
	F(MAY, LoadedExecutable_Delete),
	F(MAY, LoadedExecutable_IsDeleted),
	F(MUST, LoadedExecutable_Execute),
	F(MAY, Executable_DeserializeAndLoad),
	F(MAY, LoadedExecutable_Fingerprint),
	F(MUST, Buffer_Destroy),
	F(MUST, Buffer_ElementType),
	F(MUST, Buffer_Dimensions),
	F(MAY, Buffer_UnpaddedDimensions),
	F(MAY, Buffer_DynamicDimensionIndices),
	F(MAY, Buffer_GetMemoryLayout),
	F(MAY, Buffer_OnDeviceSizeInBytes),
	F(MAY, Buffer_Device),
	F(MAY, Buffer_Memory),
	F(MAY, Buffer_Delete),
	F(MAY, Buffer_IsDeleted),
	F(MAY, Buffer_CopyToDevice),
	F(MUST, Buffer_ToHostBuffer),
	F(MAY, Buffer_IsOnCpu),
	F(MUST, Buffer_ReadyEvent),
	F(MAY, Buffer_UnsafePointer),
	F(MAY, Buffer_IncreaseExternalReferenceCount),
	F(MAY, Buffer_DecreaseExternalReferenceCount),
	F(MAY, Buffer_OpaqueDeviceMemoryDataPointer),
	F(MAY, CopyToDeviceStream_Destroy),
	F(MAY, CopyToDeviceStream_AddChunk),
	F(MAY, CopyToDeviceStream_TotalBytes),
	F(MAY, CopyToDeviceStream_GranuleSize),
	F(MAY, CopyToDeviceStream_CurrentBytes),
	F(MAY, TopologyDescription_Create),
	F(MAY, TopologyDescription_Destroy),
	F(MAY, TopologyDescription_PlatformName),
	F(MAY, TopologyDescription_PlatformVersion),
	F(MAY, TopologyDescription_GetDeviceDescriptions),
	F(MAY, TopologyDescription_Serialize),
	F(MAY, TopologyDescription_Attributes),
	F(MAY, Compile),
	F(MAY, Executable_OutputElementTypes),
	F(MAY, Executable_OutputDimensions),
	F(MAY, Buffer_CopyToMemory),
	F(MAY, Client_CreateViewOfDeviceBuffer),
	F(MAY, Executable_Fingerprint),
	F(MAY, Client_TopologyDescription),
	F(MAY, Executable_GetCompiledMemoryStats),
	F(MAY, Memory_Kind_Id),
	F(MAY, ExecuteContext_Create),
	F(MAY, ExecuteContext_Destroy),
	F(MAY, Buffer_CopyRawToHost),
	F(MAY, AsyncHostToDeviceTransferManager_Destroy),
	F(MAY, AsyncHostToDeviceTransferManager_TransferData),
	F(MAY, Client_CreateBuffersForAsyncHostToDevice),
	F(MAY, AsyncHostToDeviceTransferManager_RetrieveBuffer),
	F(MAY, AsyncHostToDeviceTransferManager_Device),
	F(MAY, AsyncHostToDeviceTransferManager_BufferCount),
	F(MAY, AsyncHostToDeviceTransferManager_BufferSize),
	F(MAY, AsyncHostToDeviceTransferManager_SetBufferError),
	F(MAY, AsyncHostToDeviceTransferManager_AddMetadata),
	F(MAY, Client_DmaMap),
	F(MAY, Client_DmaUnmap),
	F(MAY, Client_CreateUninitializedBuffer),
	F(MAY, Client_UpdateGlobalProcessInfo),
	F(MAY, TopologyDescription_Deserialize),
	F(MAY, Client_CreateAliasBuffer),
	F(MAY, Client_FulfillAliasBuffer),
	F(MAY, LoadedExecutable_GetDeviceAssignment),
#undef F
};

enum { N_FUNCTIONS = PF_ARRAY_SIZE(functions) };

_Static_assert(offsetof(PJRT_Api, PJRT_Error_Destroy) +
			       N_FUNCTIONS * sizeof(void (*)(void)) ==
		       sizeof(PJRT_Api),
	       "every function of the header has a row");

static bool is_there(const void *table, size_t off)
{
	void *function;

	memcpy(&function, (const char *)table + off, sizeof(function));
	return function;
}

const char *pj_table_lacks(const struct pj_plugin *plugin)
{
	for (size_t i = 0; i < N_FUNCTIONS; i++)
		if (functions[i].need == MUST &&
		    !is_there(&plugin->api, functions[i].off))
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
		if (is_there(&plugin->api, functions[i].off))
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
	{ "AbiVersion", NULL },
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

	for (int n = 0; list && e && n < MAX_EXTENSIONS; n++, e = e->next) {
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
