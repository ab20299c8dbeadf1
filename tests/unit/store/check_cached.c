/* SPDX-License-Identifier: Apache-2.0 */
/* Programs from the cache have the facts that they had when they were compiled. */
#include <dirent.h>
#include <fcntl.h>

#include "values_fixture.h"
#include "work_dir.h"

static const char *const programs[] = {
	/* unused, donated, a predicate, a zero-size array */
	"module @mixed {\n"
	"  func.func public @main(%a: tensor<2x3xf32> {tf.aliasing_output = 1 : i32, "
	"jax.arg_info = \"params['w']\"},\n"
	"      %unused: tensor<4xi8>, %p: tensor<5xi1>, %e: tensor<0x7xbf16>)\n"
	"      -> (tensor<5xi1>, tensor<2x3xf32>, tensor<0x7xbf16>) {\n"
	"    %0 = stablehlo.add %a, %a : tensor<2x3xf32>\n"
	"    return %p, %0, %e : tensor<5xi1>, tensor<2x3xf32>, tensor<0x7xbf16>\n"
	"  }\n"
	"}\n",
	/* sub-byte types, scalars, no use of a donor */
	"module @sub_byte {\n"
	"  func.func public @main(%a: tensor<8xi4>, %s: tensor<f64> {jax.buffer_donor = true})\n"
	"      -> (tensor<8xi4>, tensor<f64>) {\n"
	"    %0 = stablehlo.add %a, %a : tensor<8xi4>\n"
	"    %1 = stablehlo.sine %s : tensor<f64>\n"
	"    return %0, %1 : tensor<8xi4>, tensor<f64>\n"
	"  }\n"
	"}\n",
	/* no inputs */
	"module @constant {\n"
	"  func.func public @main() -> tensor<3xi32> {\n"
	"    %0 = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>\n"
	"    return %0 : tensor<3xi32>\n"
	"  }\n"
	"}\n",
	/* two replicas, on the second device first */
	"module @two {\n"
	"  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
	"    %0 = stablehlo.negate %a : tensor<4xf32>\n"
	"    return %0 : tensor<4xf32>\n"
	"  }\n"
	"}\n",
};
static const char *const options[ARRAY_SIZE(programs)] = {
	NULL, NULL, NULL, "{\"num_replicas\":2,\"device_assignment\":[[1],[0]]}"
};

static void open_all(void)
{
	struct pf_cache_config config = { .dir = work_dir, .max = UINT64_MAX };

	open_arena();
	err = (struct pf_err)PF_ERR_INIT;
	work_dir_make();
	ck_assert_int_eq(pf_cache_open(&config, &cache, NULL), 0);
}

static void close_all(void)
{
	close_values();
	pf_cache_close(cache);
	cache = NULL;
	remove_tree(work_dir);
}

/* Compile program N, which must have come from where USE says; its facts are appended. */
static void compile_and_print(unsigned n, const char *use, struct pf_buf *out)
{
	struct json_object *o;
	struct pf_loaded *l = NULL;
	struct event ready;

	x = executable_of(programs[n]);
	if (options[n])
		ok(pf_executable_set_options(x, options[n], strlen(options[n]), false,
					     &err));
	compile_it(x);
	ck_assert_str_eq(x->cache_use, use);
	ck_assert_int_eq(pf_executable_load(x, 0, event_init(&ready), &l, &err), 1);
	pf_executable_signature(x, out);
	o = l->info;
	pf_buf_puts(out, json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
	for (unsigned i = 0; i < l->n_devices; i++)
		pf_buf_printf(out, " %u", l->devices[i]);
	pf_loaded_unref(l);
	pf_executable_unref(pf_steal(&x));
}

TEST_ON_PLUGINS(an_equal_program_is_a_hit)
{
	struct pf_buf first[ARRAY_SIZE(programs)] = { { 0 } };

	start_worker(plugins[_i]);
	for (unsigned n = 0; n < ARRAY_SIZE(programs); n++)
		compile_and_print(n, "miss", &first[n]);
	pf_compiler_finish(compiler, 30000);
	replace_worker(); /* the new worker has no programs */
	for (unsigned n = 0; n < ARRAY_SIZE(programs); n++) {
		pf_autobuf struct pf_buf second = PF_BUF_INIT;

		compile_and_print(n, "hit", &second);
		ck_assert_str_eq(first[n].data, second.data);
		pf_buf_release(&first[n]);
	}
}

/* After a death the store loads programs from the cache by itself. */
TEST_ON_PLUGINS(a_restart_loads_from_the_cache)
{
	struct pf_cache_stats s;

	start_worker(plugins[_i]);
	x = compiled(add_program);
	pf_compiler_finish(compiler, 30000);
	replace_worker();
	v = result_of(x, (struct pf_value *[]){ matrix(ones), matrix(counts) }, 2);
	fetch_value(v);
	ck_assert_str_eq(x->cache_use, "hit");
	pf_cache_stats(cache, &s);
	ck_assert_uint_eq(s.misses, 1);
	ck_assert_uint_eq(s.hits, 1);
}

/* --- for a topology ---------------------------------------------------------------------- */

/* The worker's own topology is called "here". */
static void name_topology(void)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct pf_bytes *bytes;

	ok(pf_topology_of(worker, PF_TOPOLOGY_BYTES, &text, &err));
	ok(pf_bytes_new(arena, NULL, text.len, &bytes, &err));
	memcpy(pf_bytes_at(bytes, 0), text.data, text.len);
	ok(pf_topology_set(the_compiler(), "here", bytes, text.len, &err));
	pf_bytes_unref(bytes);
}

/* Where a program that is compiled for it now comes from. */
static const char *use_for_topology(void)
{
	static const char text[] = "{\"topology\":\"here\"}";
	const char *use;

	x = executable_of(add_program);
	ok(pf_executable_set_options(x, text, strlen(text), false, &err));
	compile_it(x);
	ck_assert_int_eq(pf_executable_state(x), PF_EXECUTABLE_COMPILED);
	use = x->cache_use;
	pf_executable_unref(pf_steal(&x));
	pf_compiler_finish(compiler, 30000);
	return use;
}

/* The same program is compiled: soon, as a compile that is over may have the program before for a moment. */
static void expect_miss(void)
{
	for (int ms = 0; strcmp(use_for_topology(), "miss") != 0; ms++) {
		ck_assert_int_lt(ms, 60000);
		usleep(1000);
	}
}

/* The host's processor counts where the topology is a CPU's, and only there. */
TEST(a_topology_of_a_cpu_needs_its_host)
{
	start_worker(plugins[0]);
	name_topology();
	ck_assert_str_eq(use_for_topology(), "miss");
	ck_assert_str_eq(use_for_topology(), "hit");
	pf_buf_puts(&compiler->host, "another\n");
	expect_miss();
	ck_assert_str_eq(use_for_topology(), "hit");
}

TEST(other_topologies_need_no_host)
{
	start_faulty("serialize=works");
	name_topology();
	ck_assert_str_eq(use_for_topology(), "miss");
	pf_buf_puts(&compiler->host, "another\n");
	ck_assert_str_eq(use_for_topology(), "hit");
}

/* A damaged entry is not used: the program is compiled, and the entry is put there again. */
TEST(a_damaged_entry_is_compiled_again)
{
	struct pf_cache_stats s;
	char path[PATH_MAX];
	struct dirent *e;
	DIR *dir;

	start_faulty("serialize=works");
	name_topology();
	ck_assert_str_eq(use_for_topology(), "miss");
	snprintf(path, sizeof(path), "%s/entries", work_dir);
	dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	while ((e = readdir(dir))) {
		int fd = openat(dirfd(dir), e->d_name, O_WRONLY | O_CLOEXEC);

		if (fd >= 0) /* a byte of the facts */
			ck_assert_int_eq(pwrite(fd, "?", 1, PF_CACHE_HEADER + 8), 1);
		if (fd >= 0)
			close(fd);
	}
	closedir(dir);
	expect_miss();
	ck_assert_str_eq(use_for_topology(), "hit");
	pf_cache_stats(cache, &s);
	ck_assert_uint_eq(s.damaged, 1);
}

UNIT_FIXTURE(open_all, close_all)
