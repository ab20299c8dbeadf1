/* SPDX-License-Identifier: Apache-2.0 */
/* Creating a client, with the store of its group, and describing its devices. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/json.h"
#include "pjrtfs/pjrt.h"
#include "pjrtfs/plugin_options.h"

/* Named values (attributes, options, properties) as JSON. */

/* The same as a C string, the caller's; NULL: no memory. */
static char *pj_string_copy(const char *text, size_t len)
{
	char *copy;

	if (len > INT32_MAX - 1 || !(copy = malloc(len + 1)))
		return NULL;
	memcpy(copy, text ? text : "", text ? len : 0);
	len = text ? pf_err_clean(copy, len) : 0;
	copy[len] = '\0';
	return copy;
}

struct json_object *pj_string_json(const char *text, size_t len)
{
	pf_autofree char *copy = pj_string_copy(text, len);

	return copy ? json_object_new_string(copy) : NULL;
}

/* Few digits that still read back to the same float; JSON has no infinities. */
static struct json_object *float_json(float value)
{
	char digits[32];

	if (!isfinite(value))
		return NULL;
	snprintf(digits, sizeof(digits), "%.9g", (double)value);
	if (!strpbrk(digits, ".e"))
		strcat(digits, ".0");
	return json_object_new_double_s((double)value, digits);
}

static struct json_object *value_json(const PJRT_NamedValue *v)
{
	struct json_object *list;

	switch (v->type) {
	case PJRT_NamedValue_kString:
		return pj_string_json(v->string_value, v->value_size);
	case PJRT_NamedValue_kInt64:
		return json_object_new_int64(v->int64_value);
	case PJRT_NamedValue_kFloat:
		return float_json(v->float_value);
	case PJRT_NamedValue_kBool:
		return json_object_new_boolean(v->bool_value);
	case PJRT_NamedValue_kInt64List:
		if (!v->int64_array_value && v->value_size)
			return NULL;
		list = json_object_new_array();
		for (size_t i = 0; list && i < v->value_size; i++)
			json_object_array_add(list, json_object_new_int64(
							    v->int64_array_value[i]));
		return list;
	}
	return NULL; /* a type newer than this build: null */
}

struct json_object *pj_values_json(const PJRT_NamedValue *values, size_t n)
{
	struct json_object *object = json_object_new_object();

	for (size_t i = 0; object && values && i < n; i++) {
		pf_autofree char *name =
			pj_string_copy(values[i].name, values[i].name_size);

		if (name)
			json_object_object_add(object, name, value_json(&values[i]));
	}
	return object;
}

/* Fill V with JSON, which pf_create_option_check took; a list's elements go to LISTS at *USED. */
static void value_init(PJRT_NamedValue *v, struct json_object *json, int64_t *lists,
		       size_t *used)
{
	v->value_size = 1;
	switch (json_object_get_type(json)) {
	case json_type_string:
		v->type = PJRT_NamedValue_kString;
		v->string_value = json_object_get_string(json);
		v->value_size = (size_t)json_object_get_string_len(json);
		break;
	case json_type_int:
		v->type = PJRT_NamedValue_kInt64;
		v->int64_value = json_object_get_int64(json);
		break;
	case json_type_boolean:
		v->type = PJRT_NamedValue_kBool;
		v->bool_value = json_object_get_boolean(json);
		break;
	case json_type_double:
		v->type = PJRT_NamedValue_kFloat;
		v->float_value = (float)json_object_get_double(json);
		break;
	default:
		v->type = PJRT_NamedValue_kInt64List;
		v->value_size = json_object_array_length(json);
		v->int64_array_value = lists + *used;
		for (size_t i = 0; i < v->value_size; i++)
			lists[(*used)++] =
				json_object_get_int64(json_object_array_get_idx(json, i));
	}
}

int pj_values_init(struct pj_values *ret, struct json_object *options, struct pf_err *err)
{
	size_t used = 0, items = 0;
	int r = 0;

	*ret = (struct pj_values){ 0 };
	if (!options)
		return 0;
	if (!json_object_is_type(options, json_type_object))
		return pf_err_set(err, -EINVAL, "options: %s is not an object",
				  json_object_to_json_string(options));
	json_object_object_foreach(options, name, value) {
		(void)name;
		if (json_object_is_type(value, json_type_array))
			items += json_object_array_length(value);
	}
	ret->items = calloc((size_t)json_object_object_length(options) + 1,
			    sizeof(*ret->items));
	ret->lists = calloc(items + 1, sizeof(*ret->lists));
	if (!ret->items || !ret->lists)
		r = pf_err_set(err, -ENOMEM, "no memory for options");
	json_object_object_foreach(options, key, json) {
		PJRT_NamedValue *v;

		if (r < 0)
			break;
		v = &ret->items[ret->n++];
		v->struct_size = PJRT_NamedValue_STRUCT_SIZE;
		v->name = key;
		v->name_size = strlen(key);
		r = pf_create_option_check(key, json, err);
		if (r == 0)
			value_init(v, json, ret->lists, &used);
	}
	if (r < 0)
		pj_values_release(ret);
	return r;
}

void pj_values_release(struct pj_values *values)
{
	free(values->items);
	free(values->lists);
	*values = (struct pj_values){ 0 };
}

/* Devices, their descriptions and their memories. */

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

/* Fill *RET for the device HANDLE.  Fails if the plugin does not even give the device's id. */
static int device_init(struct pj_device *ret, const struct pj_plugin *plugin,
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

/* --- the store that the processes of a group share ------------------------------------- */

static PJRT_Error *store_error(PJRT_CallbackError *make, const struct pf_err *err)
{
	PJRT_Error_Code code = err->code == -ETIMEDOUT ? PJRT_Error_Code_DEADLINE_EXCEEDED
			       : err->code == -ENOENT  ? PJRT_Error_Code_NOT_FOUND
			       : err->code == -EEXIST  ? PJRT_Error_Code_ALREADY_EXISTS
			       : err->code == -EACCES  ? PJRT_Error_Code_PERMISSION_DENIED
						       : PJRT_Error_Code_UNAVAILABLE;

	return (*make)(code, err->text, strlen(err->text));
}

static void delete_value(char *value)
{
	free(value);
}

/* *VALUE, of *SIZE bytes, becomes what the store has for KEY; the plugin gives it to delete_value. */
static int store_get(const struct pj_store *store, const char *key, size_t len, int ms,
		     char **value, size_t *size, struct pf_err *err)
{
	struct pf_buf bytes = PF_BUF_INIT;
	int r = store->get(store->arg, key, len, ms, &bytes, err);

	if (r == 0 && (bytes.failed || !pf_buf_reserve(&bytes, 1)))
		r = pf_err_set(err, -ENOMEM, "no memory for a value of the store");
	if (r < 0) {
		pf_buf_release(&bytes);
		return r;
	}
	*value = bytes.data;
	*size = bytes.len;
	return 0;
}

static PJRT_Error *kv_get(PJRT_KeyValueGetCallback_Args *args)
{
	struct pf_err err = PF_ERR_INIT;

	args->value_deleter_callback = delete_value;
	if (store_get(args->user_arg, args->key, args->key_size,
		      args->timeout_in_ms > 0 ? args->timeout_in_ms : 1, &args->value,
		      &args->value_size, &err) < 0)
		return store_error(args->callback_error, &err);
	return NULL;
}

static PJRT_Error *kv_try_get(PJRT_KeyValueTryGetCallback_Args *args)
{
	struct pf_err err = PF_ERR_INIT;

	args->value_deleter_callback = delete_value;
	if (store_get(args->user_arg, args->key, args->key_size, 0, &args->value,
		      &args->value_size, &err) < 0)
		return store_error(args->callback_error, &err);
	return NULL;
}

static PJRT_Error *kv_put(PJRT_KeyValuePutCallback_Args *args)
{
	const struct pj_store *store = args->user_arg;
	struct pf_err err = PF_ERR_INIT;

	if (store->put(store->arg, args->key, args->key_size, args->value,
		       args->value_size, &err) < 0)
		return store_error(args->callback_error, &err);
	return NULL;
}

int pj_client_update_processes(const struct pj_client *client,
			       const struct pj_process *processes, size_t n,
			       struct pf_err *err)
{
	PJ_ARGS(Client_UpdateGlobalProcessInfo, args, .client = client->handle,
		.num_process_infos = n);
	pf_autofree PJRT_ProcessInfo *infos = calloc(n + 1, sizeof(*infos));

	if (!infos)
		return pf_err_set(err, -ENOMEM, "no memory for %zu processes", n);
	for (size_t i = 0; i < n; i++) {
		const struct pj_process *p = &processes[i];

		infos[i] = (PJRT_ProcessInfo){
			.struct_size = PJRT_ProcessInfo_STRUCT_SIZE,
			.task_id = p->number,
			.incarnation_id = p->incarnation,
			.state = p->error ? PJRT_ProcessState_kError
					  : PJRT_ProcessState_kConnected,
			.error_code = p->error ? (int)PJRT_Error_Code_UNAVAILABLE : 0,
			.error_message = p->error,
			.error_message_size = p->error ? strlen(p->error) : 0,
		};
	}
	args.process_infos = infos;
	return PJ_CALL(client->plugin, err, Client_UpdateGlobalProcessInfo, &args);
}

/* Put what a plugin's words mean for a user before them. */
static void explain(struct pf_err *err)
{
	static const struct {
		const char *said, *means;
	} known[] = {
		{ "No jellyfish device found", "there is no TPU on this machine" },
		{ "No visible GPU devices",
		  "there is no GPU here, or no driver for it (NVIDIA's is libcuda.so.1)" },
	};
	int pjrt_code = err->pjrt_code;

	for (size_t i = 0; i < PF_ARRAY_SIZE(known); i++)
		if (strstr(err->text, known[i].said)) {
			pf_err_wrap(err, err->code, "%s", known[i].means);
			err->pjrt_code = pjrt_code;
			break;
		}
}

static int create(struct pj_client *client, struct json_object *options,
		  const struct pj_store *store, struct pf_err *err)
{
	PJ_ARGS(Client_Create, args);
	struct pj_values values;
	int r = pj_values_init(&values, options, err);

	if (r < 0)
		return r;
	if (store) {
		args.kv_get_callback = kv_get;
		args.kv_try_get_callback = kv_try_get;
		args.kv_put_callback = kv_put;
		args.kv_get_user_arg = args.kv_try_get_user_arg = args.kv_put_user_arg =
			(void *)(uintptr_t)store;
	}
	args.create_options = values.items;
	args.num_options = values.n;
	r = PJ_CALL(client->plugin, err, Client_Create, &args);
	if (r < 0 && err)
		explain(err);
	pj_values_release(&values);
	if (r == 0)
		r = pj_given(args.client, "PJRT_Client_Create", err);
	if (r == 0)
		client->handle = args.client;
	return r;
}

static int add_names(struct pj_client *client, struct pf_err *err)
{
	PJ_ARGS(Client_PlatformName, name, .client = client->handle);
	PJ_ARGS(Client_PlatformVersion, version, .client = client->handle);
	PJ_ARGS(Client_ProcessIndex, index, .client = client->handle);
	int r = PJ_CALL(client->plugin, err, Client_PlatformName, &name);

	if (r < 0)
		return r;
	(void)PJ_CALL(client->plugin, NULL, Client_PlatformVersion, &version);
	(void)PJ_CALL(client->plugin, NULL, Client_ProcessIndex, &index);
	client->process_index = index.process_index;
	client->platform = pj_string_copy(name.platform_name, name.platform_name_size);
	client->platform_version =
		pj_string_copy(version.platform_version, version.platform_version_size);
	if (!client->platform || !client->platform_version)
		return pf_err_set(err, -ENOMEM, "no memory for a client");
	return 0;
}

static int add_devices(struct pj_client *client, struct pf_err *err)
{
	PJ_ARGS(Client_Devices, args, .client = client->handle);
	int r = PJ_CALL(client->plugin, err, Client_Devices, &args);

	if (r == 0)
		r = pj_given_list(args.devices, args.num_devices, "PJRT_Client_Devices",
				  err);
	if (r < 0)
		return r;
	client->devices = calloc(args.num_devices + 1, sizeof(*client->devices));
	if (!client->devices)
		return pf_err_set(err, -ENOMEM, "no memory for %zu devices",
				  args.num_devices);
	for (size_t i = 0; i < args.num_devices; i++) {
		r = pj_given(args.devices[i], "PJRT_Client_Devices", err);
		if (r == 0)
			r = device_init(&client->devices[i], client->plugin,
					args.devices[i], err);
		if (r < 0)
			return pf_err_wrap(err, r, "device %zu", i);
		client->n_devices++;
	}
	return 0;
}

int pj_client_new(const struct pj_plugin *plugin, struct json_object *options,
		  const struct pj_store *store, struct pj_client **ret,
		  struct pf_err *err)
{
	PF_CLEANUP(pj_client_freep) struct pj_client *client = calloc(1, sizeof(*client));
	int r;

	if (!client)
		return pf_err_set(err, -ENOMEM, "no memory for a client");
	client->plugin = plugin;
	r = create(client, options, store, err);
	if (r == 0)
		r = add_names(client, err);
	if (r == 0)
		r = add_devices(client, err);
	if (r < 0)
		return r;
	*ret = pf_steal(&client);
	return 0;
}

void pj_client_free(struct pj_client *client)
{
	PJ_ARGS(Client_Destroy, args);

	if (!client)
		return;
	args.client = client->handle;
	if (client->handle)
		(void)PJ_CALL(client->plugin, NULL, Client_Destroy, &args);
	free(client->devices);
	free(client->platform);
	free(client->platform_version);
	free(client);
}
