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

GIVE(Client_TopologyDescription, args->topology = &of_client)
GIVE(TopologyDescription_Destroy, count_thing(TOPOLOGIES, -1), free(args->topology))
GIVE(TopologyDescription_PlatformName, TEXT(platform_name, "faulty"))
GIVE(TopologyDescription_PlatformVersion, TEXT(platform_version, "1"))
GIVE(TopologyDescription_Attributes, args->attributes = NULL, args->num_attributes = 0)

PJRT_Error *faulty_TopologyDescription_GetDeviceDescriptions(
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

GIVE(TopologyDescription_Serialize, args->serialized_bytes = bytes,
     args->serialized_bytes_size = sizeof(bytes), args->serialized_topology = NULL,
     args->serialized_topology_deleter = deleter)

PJRT_Error *faulty_TopologyDescription_Deserialize(
	PJRT_TopologyDescription_Deserialize_Args *args)
{
	if (args->serialized_topology_size != sizeof(bytes) ||
	    memcmp(args->serialized_topology, bytes, sizeof(bytes)))
		return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
				 "faulty: that is no topology");
	args->topology = calloc(1, sizeof(*args->topology));
	if (!args->topology)
		abort();
	count_thing(TOPOLOGIES, 1);
	return NULL;
}
