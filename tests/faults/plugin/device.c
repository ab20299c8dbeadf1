/* SPDX-License-Identifier: Apache-2.0 */
/* Devices and their memories: those of all nodes, of which this one addresses its own. */
#include <stdio.h>
#include <string.h>

#include "plugin.h"

static PJRT_Device all[MAX_NODES * N_DEVICES];
PJRT_Device *devices[MAX_NODES * N_DEVICES];
static PJRT_Memory *memories[MAX_NODES * N_DEVICES * N_MEMORIES];

void make_devices(void)
{
	for (int i = 0; i < nodes * N_DEVICES; i++) {
		PJRT_Device *d = &all[i];

		d->description.id = i;
		snprintf(d->description.text, sizeof(d->description.text), "faulty:%d",
			 i);
		d->memory = (PJRT_Memory){ i * N_MEMORIES, i, "device" };
		d->pinned = (PJRT_Memory){ i * N_MEMORIES + 1, i, "pinned_host" };
		devices[i] = d;
		memories[i * N_MEMORIES] = &d->memory;
		memories[i * N_MEMORIES + 1] = &d->pinned;
	}
}

static int node_of(int id)
{
	return id / N_DEVICES;
}

PJRT_Memory *memory_of(PJRT_Device *device, PJRT_Memory *memory)
{
	if (memory)
		return memory;
	return device ? &device->memory : &local_devices()[0]->memory;
}

PJRT_Device *const *local_devices(void)
{
	return &devices[node * N_DEVICES];
}

PJRT_Error *description_id(PJRT_DeviceDescription_Id_Args *args)
{
	args->id = args->device_description->id;
	return NULL;
}

PJRT_Error *description_process_index(PJRT_DeviceDescription_ProcessIndex_Args *args)
{
	args->process_index = node_of(args->device_description->id);
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
	args->is_addressable = node_of(args->device->description.id) == node;
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
