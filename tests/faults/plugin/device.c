/* SPDX-License-Identifier: Apache-2.0 */
/* Devices and their memories. */
#include <string.h>

#include "plugin.h"

static PJRT_Device device_0 = { { 0, "faulty:0" },
				{ 0, 0, "device" },
				{ 1, 0, "pinned_host" } };
static PJRT_Device device_1 = { { 1, "faulty:1" },
				{ 2, 1, "device" },
				{ 3, 1, "pinned_host" } };
PJRT_Device *const devices[N_DEVICES] = { &device_0, &device_1 };
PJRT_Memory *const memories[N_MEMORIES * N_DEVICES] = {
	&device_0.memory, &device_0.pinned, &device_1.memory, &device_1.pinned
};

PJRT_Memory *memory_of(PJRT_Device *device, PJRT_Memory *memory)
{
	if (memory)
		return memory;
	return device ? &device->memory : &device_0.memory;
}

PJRT_Error *description_id(PJRT_DeviceDescription_Id_Args *args)
{
	args->id = args->device_description->id;
	return NULL;
}

PJRT_Error *description_process_index(PJRT_DeviceDescription_ProcessIndex_Args *args)
{
	args->process_index = 0;
	return NULL;
}

PJRT_Error *description_attributes(PJRT_DeviceDescription_Attributes_Args *args)
{
	args->attributes = NULL;
	args->num_attributes = 0;
	return NULL;
}

PJRT_Error *description_kind(PJRT_DeviceDescription_Kind_Args *args)
{
	GIVE_TEXT(args, device_kind, "faulty");
	return NULL;
}

PJRT_Error *description_debug_string(PJRT_DeviceDescription_DebugString_Args *args)
{
	GIVE_TEXT(args, debug_string, args->device_description->text);
	return NULL;
}

PJRT_Error *description_to_string(PJRT_DeviceDescription_ToString_Args *args)
{
	GIVE_TEXT(args, to_string, args->device_description->text);
	return NULL;
}

PJRT_Error *device_get_description(PJRT_Device_GetDescription_Args *args)
{
	args->device_description = &args->device->description;
	return NULL;
}

PJRT_Error *device_is_addressable(PJRT_Device_IsAddressable_Args *args)
{
	args->is_addressable = true;
	return NULL;
}

PJRT_Error *device_local_hardware_id(PJRT_Device_LocalHardwareId_Args *args)
{
	args->local_hardware_id = args->device->description.id;
	return NULL;
}

PJRT_Error *device_addressable_memories(PJRT_Device_AddressableMemories_Args *args)
{
	args->memories = &memories[args->device->description.id * N_MEMORIES];
	args->num_memories = N_MEMORIES;
	return NULL;
}

PJRT_Error *device_default_memory(PJRT_Device_DefaultMemory_Args *args)
{
	args->memory = &args->device->memory;
	return NULL;
}

PJRT_Error *device_memory_stats(PJRT_Device_MemoryStats_Args *args)
{
	PJRT_Error *e = inject(STATS);

	(void)args;
	return e ? e
		 : error_new(PJRT_Error_Code_UNIMPLEMENTED,
			     "faulty: MemoryStats is not implemented");
}

PJRT_Error *memory_id(PJRT_Memory_Id_Args *args)
{
	args->id = args->memory->id;
	return NULL;
}

PJRT_Error *memory_kind(PJRT_Memory_Kind_Args *args)
{
	GIVE_TEXT(args, kind, args->memory->kind);
	return NULL;
}

PJRT_Error *memory_kind_id(PJRT_Memory_Kind_Id_Args *args)
{
	args->kind_id = 1 + args->memory->id % N_MEMORIES;
	return NULL;
}

PJRT_Error *memory_to_string(PJRT_Memory_ToString_Args *args)
{
	GIVE_TEXT(args, to_string, "faulty memory");
	return NULL;
}
