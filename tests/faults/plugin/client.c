/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin and its client. */
#include <string.h>

#include "plugin.h"

struct PJRT_Client {
	int unused;
};

static PJRT_Client the_client;

PJRT_Error *faulty_Plugin_Initialize(PJRT_Plugin_Initialize_Args *args)
{
	(void)args;
	return inject(INIT);
}

PJRT_Error *faulty_Plugin_Attributes(PJRT_Plugin_Attributes_Args *args)
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

PJRT_Error *faulty_Client_Create(PJRT_Client_Create_Args *args)
{
	PJRT_Error *e = inject(CLIENT);

	if (!e)
		e = group_join(args);
	if (!e)
		args->client = &the_client;
	return e;
}

GIVE(Client_Destroy, (void)args)
GIVE(Client_PlatformName, TEXT(platform_name, "faulty"))
GIVE(Client_PlatformVersion, TEXT(platform_version, "faulty 1"))
GIVE(Client_ProcessIndex, args->process_index = node)
GIVE(Client_Devices, args->devices = devices,
     args->num_devices = (size_t)nodes * N_DEVICES)
