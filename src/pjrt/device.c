/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, their descriptions and their memories. */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"
#include "pjrtfs/json.h"

/* Facts that the plugin lacks are -1 or "". */
static struct json_object *memory_json(const struct pj_plugin *plugin,
				       struct PJRT_Memory *memory)
{
	PJ_ARGS(Memory_Id, id, .memory = memory, .id = -1);
	PJ_ARGS(Memory_Kind, kind, .memory = memory);
	PJ_ARGS(Memory_Kind_Id, kind_id, .memory = memory, .kind_id = -1);
	PJ_ARGS(Memory_ToString, text, .memory = memory);
	struct json_object *o = json_object_new_object();

	(void)PJ_CALL(plugin, NULL, Memory_Id, &id);
	(void)PJ_CALL(plugin, NULL, Memory_Kind_Id, &kind_id);
	(void)PJ_CALL(plugin, NULL, Memory_Kind, &kind);
	(void)PJ_CALL(plugin, NULL, Memory_ToString, &text);
	pf_json_add_int(o, "id", id.id);
	json_object_object_add(o, "kind", pj_string_json(kind.kind, kind.kind_size));
	pf_json_add_int(o, "kind_id", kind_id.kind_id);
	json_object_object_add(o, "description",
			       pj_string_json(text.to_string, text.to_string_size));
	return o;
}

struct json_object *pj_description_json(const struct pj_plugin *plugin,
					PJRT_DeviceDescription *of)
{
	PJ_ARGS(DeviceDescription_Id, id, .device_description = of, .id = -1);
	PJ_ARGS(DeviceDescription_ProcessIndex, process, .device_description = of);
	PJ_ARGS(DeviceDescription_Kind, kind, .device_description = of);
	PJ_ARGS(DeviceDescription_DebugString, debug, .device_description = of);
	PJ_ARGS(DeviceDescription_ToString, text, .device_description = of);
	PJ_ARGS(DeviceDescription_Attributes, attributes, .device_description = of);
	struct json_object *o = json_object_new_object();

	(void)PJ_CALL(plugin, NULL, DeviceDescription_Id, &id);
	(void)PJ_CALL(plugin, NULL, DeviceDescription_ProcessIndex, &process);
	(void)PJ_CALL(plugin, NULL, DeviceDescription_Kind, &kind);
	(void)PJ_CALL(plugin, NULL, DeviceDescription_DebugString, &debug);
	(void)PJ_CALL(plugin, NULL, DeviceDescription_ToString, &text);
	(void)PJ_CALL(plugin, NULL, DeviceDescription_Attributes, &attributes);
	pf_json_add_int(o, "id", id.id);
	json_object_object_add(o, "kind",
			       pj_string_json(kind.device_kind, kind.device_kind_size));
	pf_json_add_int(o, "process_index", process.process_index);
	json_object_object_add(o, "description",
			       pj_string_json(text.to_string, text.to_string_size));
	json_object_object_add(o, "debug",
			       pj_string_json(debug.debug_string,
					      debug.debug_string_size));
	json_object_object_add(o, "attributes",
			       pj_values_json(attributes.attributes,
					      attributes.num_attributes));
	return o;
}

struct json_object *pj_device_json(const struct pj_plugin *plugin,
				   const struct pj_device *device)
{
	PJ_ARGS(Device_LocalHardwareId, local, .device = device->handle,
		.local_hardware_id = -1);
	struct json_object *o = pj_description_json(plugin, device->description);
	struct json_object *memories = json_object_new_array();

	if (device->addressable)
		(void)PJ_CALL(plugin, NULL, Device_LocalHardwareId, &local);
	for (size_t i = 0; i < device->n_memories; i++)
		json_object_array_add(memories, memory_json(plugin, device->memories[i]));
	pf_json_add_int(o, "local_hardware_id", local.local_hardware_id);
	json_object_object_add(o, "addressable",
			       json_object_new_boolean(device->addressable));
	json_object_object_add(o, "default_memory",
			       device->default_memory < 0
				       ? NULL
				       : json_object_new_int(device->default_memory));
	json_object_object_add(o, "memories", memories);
	return o;
}

static void find_memories(struct pj_device *d, const struct pj_plugin *plugin)
{
	PJ_ARGS(Device_AddressableMemories, list, .device = d->handle);
	PJ_ARGS(Device_DefaultMemory, first, .device = d->handle);

	if (PJ_CALL(plugin, NULL, Device_AddressableMemories, &list) < 0 ||
	    !list.memories)
		return;
	for (size_t i = 0; i < list.num_memories; i++)
		if (!list.memories[i])
			return;
	(void)PJ_CALL(plugin, NULL, Device_DefaultMemory, &first);
	d->memories = list.memories;
	d->n_memories = list.num_memories;
	for (size_t i = 0; i < list.num_memories; i++)
		if (list.memories[i] == first.memory)
			d->default_memory = (int)i;
}

int pj_device_init(struct pj_device *ret, const struct pj_plugin *plugin,
		   struct PJRT_Device *handle, struct pf_err *err)
{
	PJ_ARGS(Device_GetDescription, of, .device = handle);
	PJ_ARGS(Device_IsAddressable, addressable, .device = handle);
	PJ_ARGS(DeviceDescription_Id, id);
	int r = PJ_CALL(plugin, err, Device_GetDescription, &of);

	id.device_description = of.device_description;
	if (r == 0)
		r = pj_given(of.device_description, "PJRT_Device_GetDescription", err);
	if (r == 0)
		r = PJ_CALL(plugin, err, DeviceDescription_Id, &id);
	if (r == 0)
		r = PJ_CALL(plugin, err, Device_IsAddressable, &addressable);
	*ret = (struct pj_device){ .handle = handle,
				   .description = of.device_description,
				   .id = id.id,
				   .addressable = addressable.is_addressable,
				   .default_memory = -1 };
	if (r == 0 && ret->addressable)
		find_memories(ret, plugin);
	if (r == 0)
		ret->shown = calloc(ret->n_memories + 1, sizeof(*ret->shown));
	if (r == 0 && !ret->shown)
		r = pf_err_set(err, -ENOMEM, "no memory for a device");
	return r;
}

int pj_device_memory_stats(const struct pj_plugin *plugin, const struct pj_device *device,
			   struct json_object **ret, struct pf_err *err)
{
	PJ_ARGS(Device_MemoryStats, s, .device = device->handle);
	int r = PJ_CALL(plugin, err, Device_MemoryStats, &s);

	if (r < 0)
		return r;
	const struct {
		const char *name;
		int64_t value;
		bool known;
	} fields[] = {
#define FIELD(name) { #name, s.name, s.name##_is_set }
		{ "bytes_in_use", s.bytes_in_use, true },
		FIELD(peak_bytes_in_use),
		FIELD(num_allocs),
		FIELD(largest_alloc_size),
		FIELD(bytes_limit),
		FIELD(bytes_reserved),
		FIELD(peak_bytes_reserved),
		FIELD(bytes_reservable_limit),
		FIELD(largest_free_block_bytes),
		FIELD(pool_bytes),
		FIELD(peak_pool_bytes),
#undef FIELD
	};

	*ret = json_object_new_object();
	if (!*ret)
		return pf_err_set(err, -ENOMEM, "no memory for memory statistics");
	for (size_t i = 0; i < PF_ARRAY_SIZE(fields); i++)
		if (fields[i].known)
			pf_json_add_int(*ret, fields[i].name, fields[i].value);
	return 0;
}

int pj_device_clear_memory_stats(const struct pj_plugin *plugin,
				 const struct pj_device *device, struct pf_err *err)
{
	PJ_NEWER_ARGS(Device_ClearMemoryStats, args, .device = device->handle);

	return PJ_CALL_NEWER(plugin, err, Device_ClearMemoryStats, &args);
}

const struct pj_device *pj_client_device(const struct pj_client *client,
					 const PJRT_Device *device)
{
	for (size_t i = 0; i < client->n_devices; i++)
		if (client->devices[i].handle == device)
			return &client->devices[i];
	return NULL;
}
