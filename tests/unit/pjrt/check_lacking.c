/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins whose calls succeed and give a part of a list; tests/faults/calls.sh has those that give none. */
#include "pjrt_fixture.h"

#include "pjrtfs/json.h"

static const _Alignas(64) uint8_t bytes[SOME] = { 1, 2, 3 };

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

static PJRT_Error *has_only_a_rank(PJRT_Buffer_Dimensions_Args *args)
{
	args->num_dims = 1;
	return NULL;
}

TEST_ON_PLUGINS(executables_of_which_a_part_is_missing)
{
	static const char text[] =
		"func.func public @main(%a: tensor<3x5xui8>) -> tensor<3x5xui8> {\n"
		"  return %a : tensor<3x5xui8>\n"
		"}\n";
	struct fixture f = begin(plugins[_i]);
	PJRT_Api *api = &f.plugin->api;
	struct pf_err err = PF_ERR_INIT;
	struct pj_executable *x;
	bool with_config;
	size_t len;

	api->PJRT_Executable_OutputDimensions = has_only_ranks;
	api->PJRT_Executable_OutputMemoryKinds = has_only_kinds;
	api->PJRT_Executable_OptimizedProgram = has_no_format;
	x = compile(f.client, text, one_device);
	/* The results' types are then read from their buffers. */
	ck_assert_ptr_null(x->results);
	ck_assert_ptr_null(pj_executable_memory_kinds(x, &err));
	ck_assert_int_eq(err.code, -EIO);
	ck_assert_msg(strstr(err.text, "OutputMemoryKinds") != NULL, "%s", err.text);
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
	struct PJRT_Buffer *in =
		upload(&f, &f.here, bytes, SOME, PF_DTYPE_U8, &three_by_five);
	struct pf_err err = PF_ERR_INIT;
	enum pf_dtype dtype;
	struct pf_shape shape;
	uint64_t len;

	ck_assert_str_eq(pf_json_text(values), "{\"list\":null}");
	f.plugin->api.PJRT_Buffer_Dimensions = has_only_a_rank;
	ck_assert_int_eq(pj_buffer_type(f.plugin, in, &dtype, &shape, &len, &err), -EIO);
	ck_assert_msg(strstr(err.text, "PJRT_Buffer_Dimensions") != NULL, "%s", err.text);
	json_object_put(values);
	pj_buffer_destroy(f.plugin, in);
	end(&f);
}
