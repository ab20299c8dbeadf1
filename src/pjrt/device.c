/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, their descriptions and their memories. */
#include "pjrtfs/pjrt/device.h"

#include <errno.h>
#include <stdlib.h>

#include "pjrtfs/pjrt/api.h"

/* The texts and numbers of a device's description; what the plugin lacks stays empty. */
static int describe(struct pj_device *d, const struct pj_plugin *plugin,
		    PJRT_DeviceDescription *of, struct pf_err *err)
{
	PJRT_DeviceDescription_Id_Args id = { PJ_SIZE(PJRT_DeviceDescription_Id_Args),
					      .device_description = of };
	PJRT_DeviceDescription_ProcessIndex_Args process = {
		PJ_SIZE(PJRT_DeviceDescription_ProcessIndex_Args),
		.device_description = of
	};
	PJRT_DeviceDescription_Kind_Args kind = {
		PJ_SIZE(PJRT_DeviceDescription_Kind_Args), .device_description = of
	};
	PJRT_DeviceDescription_DebugString_Args debug = {
		PJ_SIZE(PJRT_DeviceDescription_DebugString_Args), .device_description = of
	};
	PJRT_DeviceDescription_ToString_Args text = {
		PJ_SIZE(PJRT_DeviceDescription_ToString_Args), .device_description = of
	};
	PJRT_DeviceDescription_Attributes_Args attributes = {
		PJ_SIZE(PJRT_DeviceDescription_Attributes_Args), .device_description = of
	};
	int r = PJ_CALL(plugin, err, PJRT_DeviceDescription_Id, &id);

	if (r < 0)
		return r;
	d->id = id.id;
	if (PJ_CALL(plugin, NULL, PJRT_DeviceDescription_ProcessIndex, &process) == 0)
		d->process_index = process.process_index;
	if (PJ_CALL(plugin, NULL, PJRT_DeviceDescription_Kind, &kind) < 0)
		kind.device_kind_size = 0;
	if (PJ_CALL(plugin, NULL, PJRT_DeviceDescription_DebugString, &debug) < 0)
		debug.debug_string_size = 0;
	if (PJ_CALL(plugin, NULL, PJRT_DeviceDescription_ToString, &text) < 0)
		text.to_string_size = 0;
	if (PJ_CALL(plugin, NULL, PJRT_DeviceDescription_Attributes, &attributes) < 0)
		attributes.num_attributes = 0;
	d->kind = pj_string_copy(kind.device_kind, kind.device_kind_size);
	d->debug = pj_string_copy(debug.debug_string, debug.debug_string_size);
	d->description = pj_string_copy(text.to_string, text.to_string_size);
	d->attributes = pj_values_json(attributes.attributes, attributes.num_attributes);
	if (!d->kind || !d->debug || !d->description || !d->attributes)
		return pf_err_set(err, -ENOMEM, "no memory to describe a device");
	return 0;
}

static int add_memories(struct pj_device *d, const struct pj_plugin *plugin,
			struct pf_err *err)
{
	PJRT_Device_AddressableMemories_Args list = {
		PJ_SIZE(PJRT_Device_AddressableMemories_Args), .device = d->handle
	};
	PJRT_Device_DefaultMemory_Args first = { PJ_SIZE(PJRT_Device_DefaultMemory_Args),
						 .device = d->handle };

	if (PJ_CALL(plugin, NULL, PJRT_Device_AddressableMemories, &list) < 0)
		return 0;
	if (PJ_CALL(plugin, NULL, PJRT_Device_DefaultMemory, &first) < 0)
		first.memory = NULL;
	d->memories = calloc(list.num_memories + 1, sizeof(*d->memories));
	if (!d->memories)
		return pf_err_set(err, -ENOMEM, "no memory to describe a device");
	for (size_t i = 0; i < list.num_memories; i++) {
		int r = pj_memory_init(&d->memories[i], plugin, list.memories[i], err);

		if (r < 0)
			return r;
		d->n_memories++;
		if (list.memories[i] == first.memory)
			d->default_memory = (int)i;
	}
	return 0;
}

int pj_device_init(struct pj_device *ret, const struct pj_plugin *plugin,
		   struct PJRT_Device *handle, struct pf_err *err)
{
	PJRT_Device_GetDescription_Args of = { PJ_SIZE(PJRT_Device_GetDescription_Args),
					       .device = handle };
	PJRT_Device_IsAddressable_Args addressable = {
		PJ_SIZE(PJRT_Device_IsAddressable_Args), .device = handle
	};
	PJRT_Device_LocalHardwareId_Args local = {
		PJ_SIZE(PJRT_Device_LocalHardwareId_Args), .device = handle
	};
	int r = PJ_CALL(plugin, err, PJRT_Device_GetDescription, &of);

	*ret = (struct pj_device){ .handle = handle,
				   .local_hardware_id = -1,
				   .default_memory = -1 };
	if (r == 0)
		r = describe(ret, plugin, of.device_description, err);
	if (r == 0)
		r = PJ_CALL(plugin, err, PJRT_Device_IsAddressable, &addressable);
	if (r == 0)
		ret->addressable = addressable.is_addressable;
	if (r == 0 && ret->addressable) {
		if (PJ_CALL(plugin, NULL, PJRT_Device_LocalHardwareId, &local) == 0)
			ret->local_hardware_id = local.local_hardware_id;
		r = add_memories(ret, plugin, err);
	}
	if (r < 0)
		pj_device_release(ret);
	return r;
}

void pj_device_release(struct pj_device *device)
{
	for (size_t i = 0; i < device->n_memories; i++)
		pj_memory_release(&device->memories[i]);
	free(device->memories);
	free(device->kind);
	free(device->description);
	free(device->debug);
	json_object_put(device->attributes);
	*device = (struct pj_device){ 0 };
}

int pj_device_memory_stats(const struct pj_plugin *plugin, const struct pj_device *device,
			   struct json_object **ret, struct pf_err *err)
{
	PJRT_Device_MemoryStats_Args s = { PJ_SIZE(PJRT_Device_MemoryStats_Args),
					   .device = device->handle };
	int r = PJ_CALL(plugin, err, PJRT_Device_MemoryStats, &s);

	if (r < 0)
		return r;
	const struct {
		const char *name;
		int64_t value;
		bool known;
	} fields[] = {
		{ "bytes_in_use", s.bytes_in_use, true },
		{ "peak_bytes_in_use", s.peak_bytes_in_use, s.peak_bytes_in_use_is_set },
		{ "num_allocs", s.num_allocs, s.num_allocs_is_set },
		{ "largest_alloc_size", s.largest_alloc_size,
		  s.largest_alloc_size_is_set },
		{ "bytes_limit", s.bytes_limit, s.bytes_limit_is_set },
		{ "bytes_reserved", s.bytes_reserved, s.bytes_reserved_is_set },
		{ "peak_bytes_reserved", s.peak_bytes_reserved,
		  s.peak_bytes_reserved_is_set },
		{ "bytes_reservable_limit", s.bytes_reservable_limit,
		  s.bytes_reservable_limit_is_set },
		{ "largest_free_block_bytes", s.largest_free_block_bytes,
		  s.largest_free_block_bytes_is_set },
		{ "pool_bytes", s.pool_bytes, s.pool_bytes_is_set },
		{ "peak_pool_bytes", s.peak_pool_bytes, s.peak_pool_bytes_is_set },
	};
	struct json_object *object = json_object_new_object();

	if (!object)
		return pf_err_set(err, -ENOMEM, "no memory for memory statistics");
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (fields[i].known)
			json_object_object_add(object, fields[i].name,
					       json_object_new_int64(fields[i].value));
	*ret = object;
	return 0;
}
