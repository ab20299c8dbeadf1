/* SPDX-License-Identifier: Apache-2.0 */
/* Devices and their memories: those of all nodes, of which this one addresses its own. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
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

bool is_own(const PJRT_Memory *memory)
{
	char fault[TEXT_LEN];

	return find_fault(MEMORY, fault) && fault_arg(fault, "own") &&
	       !strcmp(memory->kind, "device");
}

bool copies_uploads(const PJRT_Memory *memory)
{
	char fault[TEXT_LEN];

	return is_own(memory) || (find_fault(MEMORY, fault) && fault_arg(fault, "kept"));
}

PJRT_Device *const *local_devices(void)
{
	return &devices[node * N_DEVICES];
}

GIVE(DeviceDescription_Id, args->id = args->device_description->id)
GIVE(DeviceDescription_ProcessIndex,
     args->process_index = node_of(args->device_description->id))

PJRT_Error *faulty_DeviceDescription_Attributes(
	PJRT_DeviceDescription_Attributes_Args *args)
{
	static const char name[] = "device_memory_bytes_limit";
	static PJRT_NamedValue limit = { .struct_size = PJRT_NamedValue_STRUCT_SIZE,
					 .name = name,
					 .name_size = sizeof(name) - 1,
					 .type = PJRT_NamedValue_kInt64,
					 .value_size = 1 };
	char fault[TEXT_LEN];
	const char *bytes =
		find_named("attributes", fault) ? fault_arg(fault, "limit") : NULL;

	args->attributes = &limit;
	args->num_attributes = bytes ? 1 : 0;
	if (bytes)
		limit.int64_value = atoll(bytes);
	return NULL;
}

GIVE(DeviceDescription_Kind, TEXT(device_kind, "faulty"))
GIVE(DeviceDescription_DebugString, TEXT(debug_string, args->device_description->text))
GIVE(DeviceDescription_ToString, TEXT(to_string, args->device_description->text))
GIVE(Device_GetDescription, args->device_description = &args->device->description)
GIVE(Device_IsAddressable,
     args->is_addressable = node_of(args->device->description.id) == node)
GIVE(Device_LocalHardwareId, args->local_hardware_id = args->device->description.id)
GIVE(Device_AddressableMemories,
     args->memories = &memories[args->device->description.id * N_MEMORIES],
     args->num_memories = N_MEMORIES)
GIVE(Device_DefaultMemory, args->memory = &args->device->memory)

static atomic_int peak = 4096; /* bytes, of all devices */

PJRT_Error *faulty_Device_MemoryStats(PJRT_Device_MemoryStats_Args *args)
{
	char fault[TEXT_LEN];
	const char *limit;
	PJRT_Error *e = inject(STATS);

	if (e)
		return e;
	limit = find_fault(STATS, fault) ? fault_arg(fault, "works") : NULL;
	if (!limit)
		return error_new(PJRT_Error_Code_UNIMPLEMENTED,
				 "faulty: MemoryStats is not implemented");
	args->bytes_in_use = 1024;
	args->peak_bytes_in_use = peak;
	args->peak_bytes_in_use_is_set = true;
	args->bytes_limit = atoll(limit);
	args->bytes_limit_is_set = *limit != '\0';
	return NULL;
}

GIVE_NEWER(Device_ClearMemoryStats, (void)args, peak = 1024)

GIVE(Memory_Id, args->id = args->memory->id)
GIVE(Memory_Kind, TEXT(kind, args->memory->kind))
GIVE(Memory_Kind_Id, args->kind_id = 1 + args->memory->id % N_MEMORIES)
GIVE(Memory_ToString, TEXT(to_string, "faulty memory"))
