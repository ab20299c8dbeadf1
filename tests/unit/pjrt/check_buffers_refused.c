/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers that cannot be made or copied, and copies that a plugin refuses. */
#include "pjrt_buffers_fixture.h"

/* Tokens, donated buffers, and devices of other processes. */
TEST_ON_PLUGINS(uncopyable_buffers_are_refused)
{
	static const char text[] =
		"func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32})"
		" -> (tensor<4xf32>, !stablehlo.token) {\n"
		"  %0 = stablehlo.add %a, %a : tensor<4xf32>\n"
		"  %1 = stablehlo.create_token : !stablehlo.token\n"
		"  return %0, %1 : tensor<4xf32>, !stablehlo.token\n"
		"}\n";
	static const struct pf_shape four = { .rank = 1, .dims = { 4 } };
	static _Alignas(64) const float a[4];
	struct fixture f = begin(plugins[_i]);
	struct pj_device stranger = f.client->devices[1];
	const struct pj_place here = { &f.client->devices[0], NULL },
			      other = { &f.client->devices[1], NULL },
			      away = { &stranger, NULL };
	struct pj_executable *x = compile(f.client, text, one_device);
	struct PJRT_Buffer *in = upload(&f, &here, a, sizeof(a), PF_DTYPE_F32, &four);
	struct PJRT_Buffer *out[2] = { NULL }, *made = NULL;
	const struct pj_run run = { .arguments = &in, .n_arguments = 1 };
	struct pf_err err = PF_ERR_INIT;

	stranger.addressable = false;
	ck_assert_int_eq(pj_buffer_copy(f.client, &away, in, &made, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "another process"));
	ck_assert_int_eq(pj_buffer_uninitialized(f.client, &away, sizeof(a), PF_DTYPE_F32,
						 &four, &made, &err),
			 -EINVAL);
	ck_assert_msg(run_once(x, &run, out, &err) == 0, "%s", err.text);
	ck_assert_int_eq(pj_buffer_copy(f.client, &here, in, &made, &err), -EINVAL);
	ck_assert_int_eq(pj_buffer_copy(f.client, &other, in, &made, &err), -EINVAL);
	ck_assert_int_eq(pj_buffer_copy(f.client, &here, out[1], &made, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "token"));
	ck_assert_ptr_null(made);
	pj_buffer_destroy(f.plugin, in);
	pj_buffer_destroy(f.plugin, out[0]);
	pj_buffer_destroy(f.plugin, out[1]);
	pj_executable_free(x);
	end(&f);
}

/* Shapes that make plugins abort, crash or touch too much memory are refused before. */
TEST_ON_PLUGINS(shapes_that_crash_plugins_are_refused)
{
	static const struct {
		int dtype;
		struct pf_shape shape;
		uint64_t len;
		int want;
	} cases[] = {
		{ PF_DTYPE_INVALID, { 0 }, 4, -EINVAL },
		{ PF_DTYPE_TOKEN, { 0 }, 0, -EINVAL },
		{ 200, { 0 }, 4, -EINVAL },
		{ -1, { 0 }, 4, -EINVAL },
		{ PF_DTYPE_F32, { 1, { -1 } }, 4, -EINVAL },
		{ PF_DTYPE_F32, { 2, { INT64_C(1) << 62, 4 } }, 0, -EOVERFLOW },
		{ PF_DTYPE_F32, { 3, { INT64_C(1) << 62, 4, 0 } }, 0, -EOVERFLOW },
		{ PF_DTYPE_F32, { 1, { 4 } }, 15, -EINVAL },
		{ PF_DTYPE_F32, { PF_MAX_RANK + 1, { 0 } }, 0, -EINVAL },
#ifndef PF_SANITIZE /* whose allocators end the process */
		{ PF_DTYPE_S8, { 1, { INT64_C(1) << 50 } }, INT64_C(1) << 50, -ENOSPC },
#endif
	};
	struct fixture f = begin(plugins[_i]);
	struct pj_place place;

	for (size_t k = 0; nth_place(f.client, k, &place); k++)
		for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
			struct PJRT_Buffer *buffer = NULL;
			struct pf_err err = PF_ERR_INIT;
			const void *alias;

			ck_assert_int_eq(pj_buffer_uninitialized(f.client, &place,
								 cases[i].len,
								 cases[i].dtype,
								 &cases[i].shape, &buffer,
								 &err),
					 cases[i].want);
			ck_assert_uint_gt(strlen(err.text), 0);
			ck_assert_ptr_null(buffer);
			if (cases[i].want == -ENOSPC) /* this test has fewer bytes */
				continue;
			err = (struct pf_err)PF_ERR_INIT;
			ck_assert_int_eq(pj_buffer_from_host(f.client, &place, "",
							     cases[i].len, cases[i].dtype,
							     &cases[i].shape, &buffer,
							     &alias, &err),
					 cases[i].want);
			ck_assert_uint_gt(strlen(err.text), 0);
			ck_assert_ptr_null(buffer);
		}
	end(&f);
}

/* Functions that an old plugin's table has not. */
TEST_ON_PLUGINS(missing_functions_are_named)
{
	static const uint8_t bytes[SOME];
	struct fixture f = begin(plugins[_i]);
	const struct pj_device *device = &f.client->devices[0];
	const struct pj_place place = { device, NULL };
	size_t pinned = device->default_memory ? 0 : 1;
	const struct pj_place named = { device, device->memories[pinned] };
	struct PJRT_Buffer *source =
		upload(&f, &place, bytes, SOME, PF_DTYPE_U8, &three_by_five);
	struct PJRT_Buffer *made = NULL;
	struct pf_err err = PF_ERR_INIT;

	f.plugin->api.PJRT_Buffer_CopyToMemory = NULL;
	ck_assert_int_eq(pj_buffer_copy(f.client, &named, source, &made, &err),
			 -EOPNOTSUPP);
	ck_assert_ptr_nonnull(strstr(err.text, "no PJRT_Buffer_CopyToMemory"));
	made = copy(&f, &place, source);
	pj_buffer_destroy(f.plugin, made);
	f.plugin->api.PJRT_Buffer_CopyToDevice = NULL;
	ck_assert_int_eq(pj_buffer_copy(f.client, &place, source, &made, &err),
			 -EOPNOTSUPP);
	ck_assert_ptr_nonnull(strstr(err.text, "no PJRT_Buffer_CopyToDevice"));
	f.plugin->api.PJRT_Client_CreateUninitializedBuffer = NULL;
	ck_assert_int_eq(pj_buffer_uninitialized(f.client, &place, SOME, PF_DTYPE_U8,
						 &three_by_five, &made, &err),
			 -EOPNOTSUPP);
	ck_assert_ptr_nonnull(strstr(err.text, "CreateUninitializedBuffer"));
	pj_buffer_destroy(f.plugin, source);
	end(&f);
}

static PJRT_Buffer_CopyToDevice *copy_to_device;

/* As plugins do that refuse to copy to where a buffer is: INVALID_ARGUMENT. */
static PJRT_Error *refuse(PJRT_Buffer_CopyToDevice_Args *args)
{
	args->struct_size = 1;
	return copy_to_device(args);
}

TEST_ON_PLUGINS(a_refused_copy_within_a_device_goes_through_the_host)
{
	static const uint8_t bytes[SOME] = { 1, 0, 1, 1 };
	static const int dtypes[] = { PF_DTYPE_U8, PF_DTYPE_PRED, PF_DTYPE_U4 };
	struct fixture f = begin(plugins[_i]);
	const struct pj_place here = { &f.client->devices[0], NULL },
			      other = { &f.client->devices[1], NULL };
	struct PJRT_Buffer *source, *made = NULL;
	struct pf_err err = PF_ERR_INIT;

	copy_to_device = f.plugin->api.PJRT_Buffer_CopyToDevice;
	f.plugin->api.PJRT_Buffer_CopyToDevice = refuse;
	for (size_t i = 0; i < ARRAY_SIZE(dtypes); i++) {
		source = upload(&f, &here, bytes, SOME, dtypes[i], &three_by_five);
		made = copy(&f, &here, source);
		pj_buffer_destroy(f.plugin, source);
		check_holds(&f, made, dtypes[i], bytes, SOME);
		ck_assert(lies_in(&f, made, &here));
		pj_buffer_destroy(f.plugin, made);
	}
	source = upload(&f, &here, bytes, 0, PF_DTYPE_F32, &empty);
	made = copy(&f, &here, source);
	check_holds(&f, made, PF_DTYPE_F32, "", 0);
	pj_buffer_destroy(f.plugin, made);
	ck_assert_int_eq(pj_buffer_copy(f.client, &other, source, &made, &err), -EINVAL);
	ck_assert_uint_gt(strlen(err.text), 0);
	pj_buffer_destroy(f.plugin, source);
	end(&f);
}
