/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of buffers, uninitialized ones, and memories other than a device's default. */
#include "pjrt_buffers_fixture.h"

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

/* A copy is none of the host memory that its source is an alias of. */
TEST_ON_PLUGINS(copies_share_nothing)
{
	static _Alignas(64) char bytes[MANY];
	struct fixture f = begin(plugins[_i]);
	const struct pj_place place = { &f.client->devices[0], NULL };
	struct PJRT_Buffer *source, *made;
	char first = 7;

	bytes[0] = first;
	source = upload(&f, &place, bytes, MANY, PF_DTYPE_S8, &bytes_many);
	ck_assert_ptr_eq(pj_buffer_address(f.plugin, source), bytes);
	made = copy(&f, &place, source);
	bytes[0] = 9;
	ck_assert_mem_eq(pj_buffer_address(f.plugin, made), &first, 1);
	pj_buffer_destroy(f.plugin, made);
	pj_buffer_destroy(f.plugin, source);
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
	const struct pj_place first = { &f.client->devices[0], NULL };
	struct pf_err err = PF_ERR_INIT;
	struct pj_place place;

	for (size_t k = 0; nth_place(f.client, k, &place); k++) {
		struct PJRT_Buffer *source, *args[2], *sum = NULL;
		const struct pj_run run = {
			.arguments = args, .n_arguments = 2, .kept = kept, .n_kept = 1
		};

		if (place.device != first.device)
			break;
		source = upload(&f, &first, a, sizeof(a), PF_DTYPE_F32, &four);
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
