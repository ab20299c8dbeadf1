/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins whose calls succeed, but lack an event or a list. */
#include "pjrt_buffers_fixture.h"

#include "pjrtfs/json.h"

static PJRT_Api real;

/* Destroy EVENT as if the plugin had given none. */
static void drop(PJRT_Event **event)
{
	PJ_ARGS(Event_Destroy, destroy, .event = *event);

	ck_assert_ptr_null(real.PJRT_Event_Destroy(&destroy));
	*event = NULL;
}

/* The same once its work has ended. */
static void lose(PJRT_Event **event)
{
	PJ_ARGS(Event_Await, await, .event = *event);

	ck_assert_ptr_null(real.PJRT_Event_Await(&await));
	drop(event);
}

#define LOSES(fn, take, event)                                                           \
	static PJRT_Error *loses_##fn(PJRT_##fn##_Args *args)                            \
	{                                                                                \
		PJRT_Error *e = real.PJRT_##fn(args);                                    \
                                                                                         \
		ck_assert_ptr_null(e);                                                   \
		take(&args->event);                                                      \
		return e;                                                                \
	}
LOSES(Buffer_ToHostBuffer, lose, event)
LOSES(Buffer_ReadyEvent, lose, event)
/* The event of an alias comes when the buffer is destroyed. */
LOSES(Client_BufferFromHostBuffer, drop, done_with_host_buffer)
LOSES(LoadedExecutable_Execute, lose, device_complete_events[0])

/* As plugins want memory that they alias. */
static const _Alignas(64) uint8_t bytes[SOME] = { 1, 2, 3 };
static const char text[] =
	"func.func public @main(%a: tensor<3x5xui8>) -> tensor<3x5xui8> {\n"
	"  %0 = stablehlo.add %a, %a : tensor<3x5xui8>\n"
	"  return %0 : tensor<3x5xui8>\n"
	"}\n";

static void check_lacks(int r, const struct pf_err *err, const char *function,
			const char *what)
{
	ck_assert_int_eq(r, -EIO);
	ck_assert_msg(strstr(err->text, function) && strstr(err->text, what), "%s",
		      err->text);
}

/* Upload without an event for the host's bytes, of a copy and of an alias. */
static void check_upload(const struct fixture *f, const struct pj_place *here)
{
	struct PJRT_Buffer *made = NULL;
	struct pf_err err = PF_ERR_INIT;
	const void *alias;
	int r;

	r = pj_buffer_from_host(f->client, here, bytes, SOME, PF_DTYPE_U8, &three_by_five,
				&made, &alias, &err);
	check_lacks(r, &err, "PJRT_Client_BufferFromHostBuffer", "event");
	r = pj_buffer_zero_copy(f->client, here, bytes, SOME, PF_DTYPE_U8, &three_by_five,
				&made, &err);
	check_lacks(r, &err, "PJRT_Client_BufferFromHostBuffer", "event");
	ck_assert_ptr_null(made);
}

/* Nothing says that the bytes have been copied: they are not shown. */
TEST_ON_PLUGINS(missing_events_are_failures)
{
	struct fixture f = begin(plugins[_i]);
	const struct pj_place here = { &f.client->devices[0], NULL };
	struct pj_executable *x = compile(f.client, text, one_device);
	struct PJRT_Buffer *in = upload(&f, &here, bytes, SOME, PF_DTYPE_U8,
					&three_by_five),
			   *out = NULL;
	const struct pj_run run = { .arguments = &in, .n_arguments = 1 };
	struct pf_err err = PF_ERR_INIT;
	PJRT_Api *api = &f.plugin->api;
	uint8_t got[SOME];
	int r;

	real = *api;
	api->PJRT_Client_BufferFromHostBuffer = loses_Client_BufferFromHostBuffer;
	check_upload(&f, &here);
	api->PJRT_Buffer_ReadyEvent = loses_Buffer_ReadyEvent;
	r = pj_buffer_await(f.plugin, in, &err);
	check_lacks(r, &err, "PJRT_Buffer_ReadyEvent", "event");
	r = pj_buffer_copy(f.client, &here, in, &out, &err);
	check_lacks(r, &err, "PJRT_Buffer_ReadyEvent", "event");
	api->PJRT_LoadedExecutable_Execute = loses_LoadedExecutable_Execute;
	r = run_once(x, &run, &out, &err);
	check_lacks(r, &err, "PJRT_LoadedExecutable_Execute", "event");
	api->PJRT_Buffer_IsOnCpu = NULL;
	api->PJRT_Buffer_ToHostBuffer = loses_Buffer_ToHostBuffer;
	r = pj_buffer_read(f.plugin, in, PF_DTYPE_U8, got, SOME, &err);
	check_lacks(r, &err, "PJRT_Buffer_ToHostBuffer", "event");
	*api = real;
	ck_assert_msg(run_once(x, &run, &out, &err) == 0, "%s", err.text);
	pj_buffer_destroy(f.plugin, out);
	pj_buffer_destroy(f.plugin, in);
	pj_executable_free(x);
	end(&f);
}

#define COUNTS(fn, count)                                                                \
	static PJRT_Error *counts_##fn(PJRT_##fn##_Args *args)                           \
	{                                                                                \
		args->count = 1;                                                         \
		return NULL;                                                             \
	}
COUNTS(Plugin_Attributes, num_attributes)
COUNTS(Client_Devices, num_devices)
COUNTS(DeviceDescription_Attributes, num_attributes)
COUNTS(Device_AddressableMemories, num_memories)
COUNTS(Executable_OutputElementTypes, num_output_types)
COUNTS(Executable_OutputDimensions, num_outputs)
COUNTS(Executable_OutputMemoryKinds, num_outputs)
COUNTS(Executable_GetCostAnalysis, num_properties)
COUNTS(LoadedExecutable_AddressableDevices, num_addressable_devices)
COUNTS(LoadedExecutable_GetDeviceAssignment, serialized_bytes_size)
COUNTS(Buffer_Dimensions, num_dims)
COUNTS(TopologyDescription_Attributes, num_attributes)
COUNTS(TopologyDescription_GetDeviceDescriptions, num_descriptions)
COUNTS(TopologyDescription_Serialize, serialized_bytes_size)

/* The results have ranks, but no extents. */
static PJRT_Error *has_only_ranks(PJRT_Executable_OutputDimensions_Args *args)
{
	static const size_t ranks[] = { 2 };

	args->num_outputs = 1;
	args->dim_sizes = ranks;
	return NULL;
}

static PJRT_Error *has_only_kinds(PJRT_Executable_OutputMemoryKinds_Args *args)
{
	static const char *const kinds[] = { "device" };

	args->num_outputs = 1;
	args->memory_kinds = kinds;
	return NULL;
}

static PJRT_Error *has_no_format(PJRT_Executable_OptimizedProgram_Args *args)
{
	args->program->format = NULL;
	args->program->format_size = strlen("hlo");
	return NULL;
}

TEST_ON_PLUGINS(devices_without_a_list)
{
	struct pj_plugin *plugin = load(plugins[_i]);
	struct json_object *attributes = NULL, *device;
	struct pj_client *client = NULL;
	struct pf_err err = PF_ERR_INIT;

	real = plugin->api;
	plugin->api.PJRT_Plugin_Attributes = counts_Plugin_Attributes;
	ck_assert_int_eq(pj_plugin_attributes(plugin, &attributes, &err), 0);
	ck_assert_int_eq(json_object_object_length(attributes), 0);
	plugin->api.PJRT_Client_Devices = counts_Client_Devices;
	check_lacks(pj_client_new(plugin, NULL, NULL, &client, &err), &err,
		    "PJRT_Client_Devices", "list");
	plugin->api = real;
	plugin->api.PJRT_DeviceDescription_Attributes =
		counts_DeviceDescription_Attributes;
	plugin->api.PJRT_Device_AddressableMemories = counts_Device_AddressableMemories;
	client = connect_client(plugin, "{}");
	ck_assert_uint_eq(client->devices[0].n_memories, 0);
	device = pj_device_json(plugin, &client->devices[0]);
	ck_assert_int_eq(json_object_object_length(
				 json_object_object_get(device, "attributes")),
			 0);
	json_object_put(device);
	json_object_put(attributes);
	pj_client_free(client);
	pj_plugin_free(plugin);
}

/* The results' types are then read from their buffers. */
TEST_ON_PLUGINS(results_without_a_list)
{
	static PJRT_Executable_OutputDimensions *const dims[] = {
		counts_Executable_OutputDimensions, has_only_ranks
	};
	struct fixture f = begin(plugins[_i]);
	PJRT_Api *api = &f.plugin->api;
	struct pj_executable *x;

	real = *api;
	api->PJRT_Executable_OutputElementTypes = counts_Executable_OutputElementTypes;
	x = compile(f.client, text, one_device);
	ck_assert_ptr_null(x->results);
	pj_executable_free(x);
	*api = real;
	for (size_t i = 0; i < ARRAY_SIZE(dims); i++) {
		api->PJRT_Executable_OutputDimensions = dims[i];
		x = compile(f.client, text, one_device);
		ck_assert_ptr_null(x->results);
		pj_executable_free(x);
	}
	end(&f);
}

static void check_fact(pj_executable_fact *fact, const struct pj_executable *x,
		       const char *function)
{
	struct pf_err err = PF_ERR_INIT;

	ck_assert_ptr_null(fact(x, &err));
	check_lacks(err.code, &err, function, "list");
}

TEST_ON_PLUGINS(facts_without_a_list)
{
	struct fixture f = begin(plugins[_i]);
	struct pj_executable *x = compile(f.client, text, one_device);
	struct pf_err err = PF_ERR_INIT;
	PJRT_Api *api = &f.plugin->api;
	bool with_config;
	size_t len;

	api->PJRT_Executable_GetCostAnalysis = counts_Executable_GetCostAnalysis;
	check_fact(pj_executable_cost, x, "GetCostAnalysis");
	api->PJRT_Executable_OutputMemoryKinds = counts_Executable_OutputMemoryKinds;
	check_fact(pj_executable_memory_kinds, x, "OutputMemoryKinds");
	api->PJRT_Executable_OutputMemoryKinds = has_only_kinds;
	check_fact(pj_executable_memory_kinds, x, "OutputMemoryKinds");
	api->PJRT_LoadedExecutable_AddressableDevices =
		counts_LoadedExecutable_AddressableDevices;
	check_fact(pj_executable_devices, x, "AddressableDevices");
	api->PJRT_LoadedExecutable_GetDeviceAssignment =
		counts_LoadedExecutable_GetDeviceAssignment;
	check_fact(pj_executable_assignment, x, "GetDeviceAssignment");
	api->PJRT_Executable_OptimizedProgram = has_no_format;
	ck_assert_int_eq(pj_executable_optimized_size(x, &len, &with_config, &err),
			 -EOPNOTSUPP);
	pj_executable_free(x);
	end(&f);
}

TEST_ON_PLUGINS(arrays_and_values_without_a_list)
{
	const PJRT_NamedValue value = { .struct_size = PJRT_NamedValue_STRUCT_SIZE,
					.name = "list",
					.name_size = strlen("list"),
					.type = PJRT_NamedValue_kInt64List,
					.value_size = 1 };
	struct json_object *values = pj_values_json(&value, 1);
	struct fixture f = begin(plugins[_i]);
	const struct pj_place here = { &f.client->devices[0], NULL };
	struct PJRT_Buffer *in =
		upload(&f, &here, bytes, SOME, PF_DTYPE_U8, &three_by_five);
	struct pf_err err = PF_ERR_INIT;
	enum pf_dtype dtype;
	struct pf_shape shape;
	uint64_t len;

	ck_assert_str_eq(pf_json_text(values), "{\"list\":null}");
	f.plugin->api.PJRT_Buffer_Dimensions = counts_Buffer_Dimensions;
	check_lacks(pj_buffer_type(f.plugin, in, &dtype, &shape, &len, &err), &err,
		    "PJRT_Buffer_Dimensions", "list");
	json_object_put(values);
	pj_buffer_destroy(f.plugin, in);
	end(&f);
}

TEST_ON_PLUGINS(topologies_without_a_list)
{
	struct fixture f = begin(plugins[_i]);
	PJRT_Api *api = &f.plugin->api;
	pf_autobuf struct pf_buf out = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct json_object *json;
	struct pj_topology t;

	ck_assert_msg(pj_topology_of(f.client, &t, &err) == 0, "%s", err.text);
	api->PJRT_TopologyDescription_Attributes = counts_TopologyDescription_Attributes;
	api->PJRT_TopologyDescription_GetDeviceDescriptions =
		counts_TopologyDescription_GetDeviceDescriptions;
	api->PJRT_TopologyDescription_Serialize = counts_TopologyDescription_Serialize;
	json = pj_topology_json(&t);
	ck_assert_uint_eq(json_object_array_length(
				  json_object_object_get(json, "devices")),
			  0);
	ck_assert_int_eq(pj_topology_serialize(&t, &out, &err), -EOPNOTSUPP);
	ck_assert_ptr_nonnull(strstr(err.text, "to nothing"));
	json_object_put(json);
	pj_topology_release(&t);
	end(&f);
}
