/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins whose calls succeed, but give a list in part or none: tests/faults/calls.sh has the rest. */
#include "pjrt_fixture.h"

#include "pjrtfs/json.h"

static const _Alignas(64) uint8_t bytes[SOME] = { 1, 2, 3 };

#define COUNTS(fn, count)                                                                \
	static PJRT_Error *counts_##fn(PJRT_##fn##_Args *args)                           \
	{                                                                                \
		args->count = 1;                                                         \
		return NULL;                                                             \
	}
COUNTS(Executable_OutputMemoryKinds, num_outputs)
COUNTS(Executable_GetCostAnalysis, num_properties)
COUNTS(LoadedExecutable_AddressableDevices, num_addressable_devices)
COUNTS(LoadedExecutable_GetDeviceAssignment, serialized_bytes_size)
COUNTS(Buffer_Dimensions, num_dims)

static PJRT_Error *counts_parameters(struct pj_Executable_ParameterMemoryKinds_Args *args)
{
	args->num_parameters = 1;
	return NULL;
}

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

static void check_fact(pj_executable_fact *fact, const struct pj_executable *x,
		       const char *function)
{
	struct pf_err err = PF_ERR_INIT;

	ck_assert_ptr_null(fact(x, &err));
	ck_assert_int_eq(err.code, -EIO);
	ck_assert_msg(strstr(err.text, function) != NULL, "%s", err.text);
}

TEST_ON_PLUGINS(facts_without_a_list_are_missing)
{
	static const char text[] =
		"func.func public @main(%a: tensor<3x5xui8>) -> tensor<3x5xui8> {\n"
		"  return %a : tensor<3x5xui8>\n"
		"}\n";
	struct fixture f = begin(plugins[_i]);
	PJRT_Api *api = &f.plugin->api;
	struct pf_err err = PF_ERR_INIT;
	struct pj_executable *x;
	enum pj_format format;
	size_t len;

	api->PJRT_Executable_OutputDimensions = has_only_ranks;
	api->PJRT_Executable_GetCostAnalysis = counts_Executable_GetCostAnalysis;
	api->PJRT_Executable_OutputMemoryKinds = counts_Executable_OutputMemoryKinds;
	api->PJRT_LoadedExecutable_AddressableDevices =
		counts_LoadedExecutable_AddressableDevices;
	api->PJRT_LoadedExecutable_GetDeviceAssignment =
		counts_LoadedExecutable_GetDeviceAssignment;
	api->PJRT_Executable_OptimizedProgram = has_no_format;
	f.plugin->newer.Executable_ParameterMemoryKinds = counts_parameters;
	x = compile(f.client, text, one_device);
	/* The results' types are then read from their buffers. */
	ck_assert_ptr_null(x->results);
	check_fact(pj_executable_cost, x, "GetCostAnalysis");
	check_fact(pj_executable_memory_kinds, x, "OutputMemoryKinds");
	check_fact(pj_executable_parameter_memory_kinds, x, "ParameterMemoryKinds");
	check_fact(pj_executable_devices, x, "AddressableDevices");
	check_fact(pj_executable_assignment, x, "GetDeviceAssignment");
	api->PJRT_Executable_OutputMemoryKinds = has_only_kinds;
	check_fact(pj_executable_memory_kinds, x, "OutputMemoryKinds");
	ck_assert_int_eq(pj_executable_optimized_size(x, &len, &format, &err),
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
	struct PJRT_Buffer *in =
		upload(&f, &f.here, bytes, SOME, PF_DTYPE_U8, &three_by_five);
	struct pf_err err = PF_ERR_INIT;
	enum pf_dtype dtype;
	struct pf_shape shape;
	uint64_t len;

	ck_assert_str_eq(pf_json_text(values), "{\"list\":null}");
	f.plugin->api.PJRT_Buffer_Dimensions = counts_Buffer_Dimensions;
	ck_assert_int_eq(pj_buffer_type(f.plugin, in, &dtype, &shape, &len, &err), -EIO);
	ck_assert_msg(strstr(err.text, "PJRT_Buffer_Dimensions") != NULL, "%s", err.text);
	json_object_put(values);
	pj_buffer_destroy(f.plugin, in);
	end(&f);
}

static PJRT_Error *(*real_destroy)(PJRT_Buffer_Destroy_Args *args);
static PJRT_Error *(*real_await)(PJRT_Event_Await_Args *args);
static unsigned n_destroyed, n_awaited_after;

static PJRT_Error *counted_destroy(PJRT_Buffer_Destroy_Args *args)
{
	n_destroyed++;
	return real_destroy(args);
}

static PJRT_Error *counted_await(PJRT_Event_Await_Args *args)
{
	n_awaited_after += n_destroyed;
	return real_await(args);
}

static PJRT_Error *gives_no_event(PJRT_Buffer_ReadyEvent_Args *args)
{
	args->event = NULL;
	return NULL;
}

/* Until the plugin says that it is done with the caller's bytes, the caller must not give them to others. */
TEST_ON_PLUGINS(an_alias_that_fails_is_awaited)
{
	struct fixture f = begin(plugins[_i]);
	PJRT_Api *api = &f.plugin->api;
	struct pf_err err = PF_ERR_INIT;
	struct PJRT_Buffer *buffer;
	const void *alias;

	real_destroy = api->PJRT_Buffer_Destroy;
	real_await = api->PJRT_Event_Await;
	n_destroyed = n_awaited_after = 0;
	api->PJRT_Buffer_Destroy = counted_destroy;
	api->PJRT_Event_Await = counted_await;
	api->PJRT_Buffer_ReadyEvent = gives_no_event;
	ck_assert_int_eq(pj_buffer_from_host(f.client, &f.here, bytes, SOME, PF_DTYPE_U8,
					     &three_by_five, &buffer, &alias, &err),
			 -EIO);
	ck_assert_uint_eq(n_destroyed, 1);
	ck_assert_uint_eq(n_awaited_after, 1);
	end(&f);
}
