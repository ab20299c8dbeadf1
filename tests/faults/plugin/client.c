/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin, its client and topologies. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin.h"

struct PJRT_Client {
	int unused;
};

static PJRT_Client the_client;
static bool has_client;

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
	has_client = has_client || !e;
	return e;
}

GIVE(Client_Destroy, (void)args)
GIVE(Client_PlatformName, TEXT(platform_name, "faulty"))
GIVE(Client_PlatformVersion, TEXT(platform_version, "faulty 1"))
GIVE(Client_ProcessIndex, args->process_index = node)
GIVE(Client_Devices, args->devices = devices,
     args->num_devices = (size_t)nodes * N_DEVICES)

/* --- topologies --------------------------------------------------------------------- */

struct PJRT_TopologyDescription {
	int unused;
};

static PJRT_TopologyDescription of_client;
static const char bytes[] = "faulty: two devices";

GIVE(Client_TopologyDescription, args->topology = &of_client)
GIVE(TopologyDescription_Destroy, count_thing(TOPOLOGIES, -1), free(args->topology))
GIVE(TopologyDescription_PlatformName, TEXT(platform_name, "faulty"))
GIVE(TopologyDescription_PlatformVersion, TEXT(platform_version, "1"))
GIVE_NEWER(TopologyDescription_Fingerprint, args->fingerprint = 7)
GIVE(TopologyDescription_Attributes, args->attributes = NULL, args->num_attributes = 0)

PJRT_Error *faulty_TopologyDescription_GetDeviceDescriptions(
	PJRT_TopologyDescription_GetDeviceDescriptions_Args *args)
{
	static PJRT_DeviceDescription *list[N_DEVICES];

	if (!has_client)
		make_devices(); /* those of a topology are there without one */
	for (int i = 0; i < N_DEVICES; i++)
		list[i] = &local_devices()[i]->description;
	args->descriptions = list;
	args->num_descriptions = N_DEVICES;
	return NULL;
}

static void deleter(PJRT_SerializedTopology *topology)
{
	(void)topology; /* the bytes are static */
}

GIVE(TopologyDescription_Serialize, args->serialized_bytes = bytes,
     args->serialized_bytes_size = sizeof(bytes), args->serialized_topology = NULL,
     args->serialized_topology_deleter = deleter)

static PJRT_TopologyDescription *topology_new(void)
{
	PJRT_TopologyDescription *topology = calloc(1, sizeof(*topology));

	if (!topology)
		abort();
	count_thing(TOPOLOGIES, 1);
	return topology;
}

PJRT_Error *faulty_TopologyDescription_Deserialize(
	PJRT_TopologyDescription_Deserialize_Args *args)
{
	if (args->serialized_topology_size != sizeof(bytes) ||
	    memcmp(args->serialized_topology, bytes, sizeof(bytes)))
		return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
				 "faulty: that is no topology");
	args->topology = topology_new();
	return NULL;
}

/* The topology of ARGS as the fault HOW of "topologies" says. */
static PJRT_Error *create_as(const PJRT_TopologyDescription_Create_Args *args,
			     const char *how)
{
	while (fault_arg(how, "hang"))
		pause();
	if (fault_arg(how, "named") && !args->topology_name_size)
		return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
				 "faulty: expected the name of a topology");
	return NULL;
}

/* The topology "two", or with a target "". */
static PJRT_Error *create_two(const PJRT_TopologyDescription_Create_Args *args)
{
	static const char two[] = "two", target[] = "gpu_device_info";
	const char *name = args->topology_name;
	size_t len = args->topology_name_size;

	for (size_t i = 0; i < args->num_options; i++) {
		const PJRT_NamedValue *v = &args->create_options[i];

		if (v->name_size != strlen("target_config") ||
		    memcmp(v->name, "target_config", v->name_size))
			return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
					 "faulty: there is no option %.*s",
					 (int)v->name_size, v->name);
		if (v->type != PJRT_NamedValue_kString ||
		    !memmem(v->string_value, v->value_size, target, strlen(target)))
			return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
					 "faulty: that is no target");
	}
	if ((len != strlen(two) || memcmp(name, two, len)) && (len || !args->num_options))
		return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
				 "faulty: there is no topology \"%.*s\"", (int)len, name);
	return NULL;
}

PJRT_Error *faulty_TopologyDescription_Create(PJRT_TopologyDescription_Create_Args *args)
{
	PJRT_Error *e;
	char how[TEXT_LEN] = "";

	if (find_named("topologies", how) && !fault_arg(how, "two"))
		e = create_as(args, how);
	else if (has_client || fault_arg(how, "two"))
		e = create_two(args);
	else
		e = error_new(PJRT_Error_Code_UNIMPLEMENTED,
			      "faulty: it makes no topologies");
	if (!e)
		args->topology = topology_new();
	return e;
}
