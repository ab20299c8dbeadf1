/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin and its client. */
#include <string.h>

#include "plugin.h"

struct PJRT_Client {
	int unused;
};

static PJRT_Client the_client;

PJRT_Error *plugin_initialize(PJRT_Plugin_Initialize_Args *args)
{
	(void)args;
	return inject(INIT);
}

PJRT_Error *plugin_attributes(PJRT_Plugin_Attributes_Args *args)
{
	static const int64_t current[] = { 1, 13, 3 }, minimum[] = { 0, 9, 0 };
	static const PJRT_NamedValue list[] = {
		{ .struct_size = PJRT_NamedValue_STRUCT_SIZE,
		  .name = "stablehlo_current_version",
		  .name_size = sizeof("stablehlo_current_version") - 1,
		  .type = PJRT_NamedValue_kInt64List,
		  .int64_array_value = current,
		  .value_size = 3 },
		{ .struct_size = PJRT_NamedValue_STRUCT_SIZE,
		  .name = "stablehlo_minimum_version",
		  .name_size = sizeof("stablehlo_minimum_version") - 1,
		  .type = PJRT_NamedValue_kInt64List,
		  .int64_array_value = minimum,
		  .value_size = 3 },
	};

	args->attributes = list;
	args->num_attributes = sizeof(list) / sizeof(list[0]);
	return NULL;
}

PJRT_Error *client_create(PJRT_Client_Create_Args *args)
{
	PJRT_Error *e = inject(CLIENT);

	if (!e)
		args->client = &the_client;
	return e;
}

PJRT_Error *client_destroy(PJRT_Client_Destroy_Args *args)
{
	(void)args;
	return NULL;
}

PJRT_Error *client_platform_name(PJRT_Client_PlatformName_Args *args)
{
	GIVE_TEXT(args, platform_name, "faulty");
	return NULL;
}

PJRT_Error *client_platform_version(PJRT_Client_PlatformVersion_Args *args)
{
	GIVE_TEXT(args, platform_version, "faulty 1");
	return NULL;
}

PJRT_Error *client_process_index(PJRT_Client_ProcessIndex_Args *args)
{
	args->process_index = 0;
	return NULL;
}

PJRT_Error *client_devices(PJRT_Client_Devices_Args *args)
{
	args->devices = devices;
	args->num_devices = N_DEVICES;
	return NULL;
}

PJRT_Error *client_addressable_devices(PJRT_Client_AddressableDevices_Args *args)
{
	args->addressable_devices = devices;
	args->num_addressable_devices = N_DEVICES;
	return NULL;
}

static PJRT_Error *no_device(int id)
{
	return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "faulty: no device %d", id);
}

PJRT_Error *client_lookup_device(PJRT_Client_LookupDevice_Args *args)
{
	if (args->id < 0 || args->id >= N_DEVICES)
		return no_device(args->id);
	args->device = devices[args->id];
	return NULL;
}

PJRT_Error *client_lookup_addressable_device(
	PJRT_Client_LookupAddressableDevice_Args *args)
{
	if (args->local_hardware_id < 0 || args->local_hardware_id >= N_DEVICES)
		return no_device(args->local_hardware_id);
	args->addressable_device = devices[args->local_hardware_id];
	return NULL;
}

PJRT_Error *client_addressable_memories(PJRT_Client_AddressableMemories_Args *args)
{
	args->addressable_memories = memories;
	args->num_addressable_memories = N_MEMORIES * N_DEVICES;
	return NULL;
}

PJRT_Error *client_default_device_assignment(
	PJRT_Client_DefaultDeviceAssignment_Args *args)
{
	int n = args->num_replicas * args->num_partitions;

	if (n < 1 || n > N_DEVICES || args->default_assignment_size < (size_t)n)
		return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
				 "faulty: no assignment of %d devices", n);
	for (int i = 0; i < n; i++)
		args->default_assignment[i] = i;
	return NULL;
}
