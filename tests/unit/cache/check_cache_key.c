/* SPDX-License-Identifier: Apache-2.0 */
/* Keys: everything that decides what a compile gives is part of them. */
#include "pjrtfs/cache.h"

#include "work_dir.h"

static struct pf_cache_inputs some(void)
{
	return (struct pf_cache_inputs){ .format = "mlir",
					 .program = "module {}",
					 .program_len = 9,
					 .part_len = 9,
					 .options = "\x1a\x04",
					 .options_len = 2,
					 .platform = "cpu",
					 .platform_version = "1",
					 .api_major = 0,
					 .api_minor = 81,
					 .plugin = { 1, 2, 3 },
					 .devices = "0 cpu\n1 cpu\n",
					 .host = "flags: avx\n",
					 .environment = "",
					 .create = "{}" };
}

static void key_of(const struct pf_cache_inputs *in, char text[PF_CACHE_KEY_TEXT])
{
	struct pf_cache_key key;

	ck_assert_int_eq(pf_cache_key_make(in, &key, NULL), 0);
	pf_cache_key_text(&key, text);
}

/* The same but for the fields that are set. */
#define CHANGED(...)                                                                     \
	({                                                                               \
		struct pf_cache_inputs in = some();                                      \
		in.__VA_ARGS__;                                                          \
		in;                                                                      \
	})

TEST(each_field_changes_the_key)
{
	const struct pf_cache_inputs inputs[] = {
		some(),
		CHANGED(format = "hlo"),
		CHANGED(program = "module{} "),
		CHANGED(program_len = 8),
		CHANGED(options = "\x1a\x05"),
		CHANGED(platform = "gpu"),
		CHANGED(platform_version = "2"),
		CHANGED(api_major = 1),
		CHANGED(api_minor = 82),
		CHANGED(plugin[31] = 1),
		CHANGED(devices = "0 cpu\n"),
		CHANGED(devices = "0 cpu\n1 tpu\n"),
		CHANGED(host = "flags: avx avx2\n"),
		CHANGED(environment = "XLA_FLAGS=--x\n"),
		/* the same bytes, split elsewhere */
		CHANGED(platform = "cpu1", in.platform_version = ""),
		CHANGED(options_len = 1),
		CHANGED(part_off = 1),
		CHANGED(part_len = 8),
		CHANGED(create = "{\"cpu_device_count\":2}"),
		CHANGED(platform_number = 1),
		CHANGED(platform_number = 2),
	};
	char seen[ARRAY_SIZE(inputs)][PF_CACHE_KEY_TEXT], again[PF_CACHE_KEY_TEXT];

	for (size_t n = 0; n < ARRAY_SIZE(inputs); n++) {
		key_of(&inputs[n], seen[n]);
		key_of(&inputs[n], again);
		ck_assert_str_eq(seen[n], again);
		for (size_t i = 0; i < n; i++)
			ck_assert_msg(strcmp(seen[i], seen[n]) != 0,
				      "inputs %zu and %zu give the same key", i, n);
	}
}

TEST(a_key_is_64_hexadecimal_digits)
{
	static const char *const bad[] = {
		"",
		"00",
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde",
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0",
		"0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef",
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde/",
	};
	static const char good[] =
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	char text[PF_CACHE_KEY_TEXT];
	struct pf_cache_key key;

	ck_assert(pf_cache_key_parse(good, &key));
	ck_assert_uint_eq(key.bytes[0], 0x01);
	ck_assert_uint_eq(key.bytes[31], 0xef);
	pf_cache_key_text(&key, text);
	ck_assert_str_eq(text, good);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_msg(!pf_cache_key_parse(bad[i], &key), "%s", bad[i]);
}

TEST(the_host_string_describes_only_generated_code)
{
	pf_autobuf struct pf_buf out = PF_BUF_INIT, none = PF_BUF_INIT;

	put_file("cpuinfo",
		 "processor\t: 0\nmodel name\t: X\ncpu MHz\t\t: 1\nflags\t\t: a b\n\n"
		 "processor\t: 1\nflags\t\t: c\n");
	pf_cache_host("cpuinfo", &out);
	ck_assert_ptr_nonnull(strstr(out.data, "model name\t: X\nflags\t\t: a b\n"));
	ck_assert_ptr_null(strstr(out.data, "MHz"));
	ck_assert_ptr_null(strstr(out.data, ": c"));
	pf_cache_host("/nonexistent", &none);
	ck_assert_ptr_nonnull(none.data); /* the architecture */
	pf_buf_release(&none);
	pf_cache_host("/proc/cpuinfo", &none);
	ck_assert_uint_gt(none.len, 20);
}

TEST(the_environment_has_sorted_compiler_variables)
{
	pf_autobuf struct pf_buf out = PF_BUF_INIT;
	char *environ1[] = { (char *)"PATH=/bin", (char *)"XLA_FLAGS=--b",
			     (char *)"TF_XLA_FLAGS=--a", (char *)"HOME=/XLA_", NULL };
	char *environ2[] = { (char *)"XLA_FLAGS=flags", NULL };

	pf_cache_environment(environ1, &out);
	ck_assert_str_eq(out.data, "TF_XLA_FLAGS=--a\nXLA_FLAGS=--b\n");
	pf_buf_release(&out);
	put_file("flags", "--from_a_file");
	pf_cache_environment(environ2, &out);
	ck_assert_ptr_nonnull(strstr(out.data, "\n--from_a_file"));
}

UNIT_FIXTURE(work_dir_begin, work_dir_end)
