/* SPDX-License-Identifier: Apache-2.0 */
/* Topologies, and programs that are compiled for them. */
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

struct PJRT_TopologyDescription {
	int unused;
};

static PJRT_TopologyDescription of_client;
static const char bytes[] = "faulty: two devices";

PJRT_Error *client_topology(PJRT_Client_TopologyDescription_Args *args)
{
	args->topology = &of_client;
	return NULL;
}

PJRT_Error *topology_destroy(PJRT_TopologyDescription_Destroy_Args *args)
{
	count_thing(TOPOLOGIES, -1);
	free(args->topology);
	return NULL;
}

PJRT_Error *topology_platform_name(PJRT_TopologyDescription_PlatformName_Args *args)
{
	GIVE_TEXT(args, platform_name, "faulty");
	return NULL;
}

PJRT_Error *topology_platform_version(PJRT_TopologyDescription_PlatformVersion_Args *args)
{
	GIVE_TEXT(args, platform_version, "1");
	return NULL;
}

PJRT_Error *topology_attributes(PJRT_TopologyDescription_Attributes_Args *args)
{
	args->attributes = NULL;
	args->num_attributes = 0;
	return NULL;
}

PJRT_Error *topology_descriptions(
	PJRT_TopologyDescription_GetDeviceDescriptions_Args *args)
{
	static PJRT_DeviceDescription *list[N_DEVICES];

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

PJRT_Error *topology_serialize(PJRT_TopologyDescription_Serialize_Args *args)
{
	args->serialized_bytes = bytes;
	args->serialized_bytes_size = sizeof(bytes);
	args->serialized_topology = NULL;
	args->serialized_topology_deleter = deleter;
	return NULL;
}

PJRT_Error *topology_deserialize(PJRT_TopologyDescription_Deserialize_Args *args)
{
	if (args->serialized_topology_size != sizeof(bytes) ||
	    memcmp(args->serialized_topology, bytes, sizeof(bytes)))
		return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
				 "faulty: that is no topology");
	args->topology = calloc(1, sizeof(*args->topology));
	count_thing(TOPOLOGIES, 1);
	return args->topology ? NULL
			      : error_new(PJRT_Error_Code_RESOURCE_EXHAUSTED,
					  "faulty: no memory");
}
