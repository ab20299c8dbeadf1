/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers, their copies, and uninitialized ones, in every memory; and those that are refused. */
#include "pjrt_fixture.h"

/* From each memory to each; the copy outlives its source. */
TEST_ON_PLUGINS(every_memory_takes_copies)
{
	static _Alignas(64) const uint8_t bytes[SOME] = { 1, 2, 3, 250, 15, 0, 77 };
	struct fixture f = begin(plugins[_i]);
	struct pj_place from, to;
	size_t n = 0;

	for (size_t i = 0; nth_place(f.client, i, &from); i++)
		for (size_t k = 0; nth_place(f.client, k, &to); k++, n++) {
			struct PJRT_Buffer *source = upload(&f, &from, bytes, SOME,
							    PF_DTYPE_U8, &three_by_five);
			struct PJRT_Buffer *made = copy(&f, &to, source);

			ck_assert(lies_in(&f, source, &from));
			ck_assert(lies_in(&f, made, &to));
			ck_assert_ptr_ne(pj_buffer_address(f.plugin, made),
					 pj_buffer_address(f.plugin, source));
			check_holds(&f, source, PF_DTYPE_U8, bytes, SOME);
			pj_buffer_destroy(f.plugin, source);
			check_holds(&f, made, PF_DTYPE_U8, bytes, SOME);
			pj_buffer_destroy(f.plugin, made);
		}
	ck_assert_uint_ge(n, 64);
	end(&f);
}

/* Each memory of these plugins is the host's: an upload is in place, also after one that could not be. */
TEST_ON_PLUGINS(every_memory_uses_host_bytes_in_place)
{
	static _Alignas(64) const uint8_t bytes[SOME + 1];
	struct fixture f = begin(plugins[_i]);
	struct pf_err err = PF_ERR_INIT;
	struct PJRT_Buffer *buffer;
	struct pj_place place;
	const void *alias;

	for (size_t i = 0; nth_place(f.client, i, &place); i++) {
		buffer = upload(&f, &place, bytes + 1, SOME, PF_DTYPE_U8, &three_by_five);
		check_holds(&f, buffer, PF_DTYPE_U8, bytes + 1, SOME);
		pj_buffer_destroy(f.plugin, buffer);
		ck_assert_msg(pj_buffer_from_host(f.client, &place, bytes, SOME,
						  PF_DTYPE_U8, &three_by_five, &buffer,
						  &alias, &err) == 0,
			      "%s", err.text);
		ck_assert_ptr_eq(alias, bytes);
		pj_buffer_destroy(f.plugin, buffer);
	}
	end(&f);
}

/* Types of less than a byte that have negative values. */
static bool signed_bits(int t)
{
	return t == PF_DTYPE_S1 || t == PF_DTYPE_S2 || t == PF_DTYPE_S4;
}

/* Every type, packed ones too, in every memory: uploaded, copied, and uninitialized. */
TEST_ON_PLUGINS(every_type_in_every_memory)
{
	static const uint8_t zeros[SOME * 16];
	static _Alignas(64) uint8_t bytes[SOME * 16];
	struct fixture f = begin(plugins[_i]);
	struct pj_place place;

	for (int t = 0; t < PF_DTYPE_COUNT; t++) {
		uint64_t len = SOME * pf_dtype_size((enum pf_dtype)t);

		if (pj_plugin_check_dtype(f.plugin, t, NULL) < 0)
			continue;
		/* Values that each type has: PRED's 0 and 1, -1 of the signed ones. */
		for (uint64_t i = 0; i < len; i++)
			bytes[i] = i % 3 ? 0 : signed_bits(t) ? 0xff : 1;
		for (size_t k = 0; nth_place(f.client, k, &place); k++) {
			struct PJRT_Buffer *source =
				upload(&f, &place, bytes, len, t, &three_by_five);
			struct PJRT_Buffer *made = copy(&f, &place, source);
			struct PJRT_Buffer *blank =
				uninitialized(&f, &place, len, t, &three_by_five);

			check_holds(&f, source, t, bytes, len);
			check_holds(&f, made, t, bytes, len);
			check_holds(&f, blank, t, zeros, len);
			ck_assert(lies_in(&f, blank, &place));
			pj_buffer_destroy(f.plugin, source);
			pj_buffer_destroy(f.plugin, made);
			pj_buffer_destroy(f.plugin, blank);
		}
	}
	end(&f);
}

TEST_ON_PLUGINS(empty_arrays_are_copied_and_made)
{
	struct fixture f = begin(plugins[_i]);
	struct pj_place place;

	for (size_t k = 0; nth_place(f.client, k, &place); k++) {
		struct PJRT_Buffer *blank =
			uninitialized(&f, &place, 0, PF_DTYPE_F32, &empty);
		struct PJRT_Buffer *made = copy(&f, &place, blank);

		check_holds(&f, blank, PF_DTYPE_F32, "", 0);
		check_holds(&f, made, PF_DTYPE_F32, "", 0);
		pj_buffer_destroy(f.plugin, blank);
		pj_buffer_destroy(f.plugin, made);
	}
	end(&f);
}

/* Bytes that another array left in memory are not visible. */
TEST_ON_PLUGINS(used_memory_is_zeroed)
{
	static char zeros[MANY], secret[MANY];
	struct fixture f = begin(plugins[_i]);
	struct pj_place place;

	memset(secret, 's', sizeof(secret));
	for (size_t k = 0; nth_place(f.client, k, &place); k++)
		for (int i = 0; i < 4; i++) {
			struct PJRT_Buffer *buffer = upload(&f, &place, secret, MANY,
							    PF_DTYPE_S8, &bytes_many);
			struct PJRT_Buffer *made = copy(&f, &place, buffer);

			pj_buffer_destroy(f.plugin, buffer);
			pj_buffer_destroy(f.plugin, made);
			buffer =
				uninitialized(&f, &place, MANY, PF_DTYPE_S8, &bytes_many);
			check_holds(&f, buffer, PF_DTYPE_S8, zeros, MANY);
			pj_buffer_destroy(f.plugin, buffer);
		}
	end(&f);
}

/* Arguments in any memory of the program's device; the first may be donated. */
TEST_ON_PLUGINS(programs_take_arguments_from_every_memory)
{
	static const char text[] =
		"func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32},"
		" %b: tensor<4xf32>) -> tensor<4xf32> {\n"
		"  %0 = stablehlo.add %a, %b : tensor<4xf32>\n"
		"  return %0 : tensor<4xf32>\n"
		"}\n";
	static const struct pf_shape four = { .rank = 1, .dims = { 4 } };
	static _Alignas(64) const float a[] = { 1, 2, 3, 4 }, sums[] = { 2, 4, 6, 8 };
	const int64_t kept[] = { 1 };
	struct fixture f = begin(plugins[_i]);
	struct pj_executable *x = compile(f.client, text, one_device);
	struct pf_err err = PF_ERR_INIT;
	struct pj_place place;

	for (size_t k = 0; nth_place(f.client, k, &place); k++) {
		struct PJRT_Buffer *source, *args[2], *sum = NULL;
		const struct pj_run run = {
			.arguments = args, .n_arguments = 2, .kept = kept, .n_kept = 1
		};

		if (place.device != f.here.device)
			break;
		source = upload(&f, &f.here, a, sizeof(a), PF_DTYPE_F32, &four);
		args[0] = copy(&f, &place, source);
		args[1] = upload(&f, &place, a, sizeof(a), PF_DTYPE_F32, &four);
		ck_assert_msg(run_once(x, &run, &sum, &err) == 0, "%s", err.text);
		check_holds(&f, sum, PF_DTYPE_F32, sums, sizeof(sums));
		check_holds(&f, args[1], PF_DTYPE_F32, a, sizeof(a));
		pj_buffer_destroy(f.plugin, sum);
		pj_buffer_destroy(f.plugin, args[0]);
		pj_buffer_destroy(f.plugin, args[1]);
		pj_buffer_destroy(f.plugin, source);
	}
	pj_executable_free(x);
	end(&f);
}

/* --- what is refused ------------------------------------------------------------------------ */

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
	const struct pj_place other = { &f.client->devices[1], NULL },
			      away = { &stranger, NULL };
	struct pj_executable *x = compile(f.client, text, one_device);
	struct PJRT_Buffer *in = upload(&f, &f.here, a, sizeof(a), PF_DTYPE_F32, &four);
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
	ck_assert_int_eq(pj_buffer_copy(f.client, &f.here, in, &made, &err), -EINVAL);
	ck_assert_int_eq(pj_buffer_copy(f.client, &other, in, &made, &err), -EINVAL);
	ck_assert_int_eq(pj_buffer_copy(f.client, &f.here, out[1], &made, &err), -EINVAL);
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
	const struct pj_place other = { &f.client->devices[1], NULL };
	struct PJRT_Buffer *source, *made = NULL;
	struct pf_err err = PF_ERR_INIT;

	copy_to_device = f.plugin->api.PJRT_Buffer_CopyToDevice;
	f.plugin->api.PJRT_Buffer_CopyToDevice = refuse;
	for (size_t i = 0; i < ARRAY_SIZE(dtypes); i++) {
		source = upload(&f, &f.here, bytes, SOME, dtypes[i], &three_by_five);
		made = copy(&f, &f.here, source);
		pj_buffer_destroy(f.plugin, source);
		check_holds(&f, made, dtypes[i], bytes, SOME);
		ck_assert(lies_in(&f, made, &f.here));
		pj_buffer_destroy(f.plugin, made);
	}
	source = upload(&f, &f.here, bytes, 0, PF_DTYPE_F32, &empty);
	made = copy(&f, &f.here, source);
	check_holds(&f, made, PF_DTYPE_F32, "", 0);
	pj_buffer_destroy(f.plugin, made);
	ck_assert_int_eq(pj_buffer_copy(f.client, &other, source, &made, &err), -EINVAL);
	ck_assert_uint_gt(strlen(err.text), 0);
	pj_buffer_destroy(f.plugin, source);
	end(&f);
}
