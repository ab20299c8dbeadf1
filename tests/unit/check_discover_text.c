/* SPDX-License-Identifier: Apache-2.0 */
/* What the discovery of plugins reads: names, versions, small files. */
#include "discover_fixture.h"

/* --- names --------------------------------------------------------------------------------- */

#define NONE NULL

static const struct {
	const char *file;
	unsigned how;
	const char *name, *version; /* NONE: no plugin's */
} names[] = {
	{ "pjrt_c_api_cpu_plugin.so", LOOK_NAMES, "cpu", "" },
	{ "pjrt_c_api_gpu_plugin.so", LOOK_NAMES, "gpu", "" },
	{ "libpjrt_c_api_cpu_plugin.so", LOOK_NAMES, "cpu", "" },
	{ "pjrt_c_api_cpu_v0.83.1_plugin.so", LOOK_NAMES, "cpu", "0.83.1" },
	{ "pjrt_c_api_cpu_plugin-0.83.0.so", LOOK_NAMES, "cpu", "0.83.0" },
	{ "pjrt_c_api_cuda12_plugin.so", LOOK_NAMES, "cuda12", "" },
	{ "pjrt_plugin_iree_cpu.so", LOOK_NAMES, "iree_cpu", "" },
	{ "pjrt_plugin_tt.so", LOOK_NAMES, "tt", "" },
	{ "pjrt_plugin_xpu-v2.so", LOOK_NAMES, "xpu", "2" },
	{ "pjrt-plugin-cpu.so", LOOK_NAMES, "cpu", "" },
	{ "pjrt_xla_cpu_plugin.so", LOOK_NAMES, "xla_cpu", "" },
	{ "libpjrt_cpu.so", LOOK_NAMES, "cpu", "" },
	{ "libpjrt_cpu.so.2.1", LOOK_NAMES, "cpu", "2.1" },
	{ "libpjrt_plugin_a.so", LOOK_NAMES, "a", "" },
	{ "xla_cpu_pjrt.so", LOOK_NAMES, "xla_cpu", "" },
	{ "libneuronpjrt.so", LOOK_NAMES, "neuron", "" },
	{ "libtpu.so", LOOK_NAMES, "tpu", "" },
	{ "pjrt_plugin.so", LOOK_NAMES, "", "" },
	{ "libpjrt_plugin.so", LOOK_NAMES, "", "" },
	{ "pjrt_plugin-1.2.so", LOOK_NAMES, "", "1.2" },
	{ "xla_cuda_plugin.so", LOOK_NAMES, NONE, NONE },
	{ "xla_cuda_plugin.so", LOOK_PLUGIN, "xla_cuda", "" },
	{ "cpu.so", LOOK_NAMES, NONE, NONE },
	{ "cpu.so", LOOK_PLUGIN, NONE, NONE },
	{ "cpu.so", LOOK_ANY, "cpu", "" },
	{ "cpu-0.106.so", LOOK_ANY, "cpu-0.106", "" },
	{ "libpjrt_cpu.so", LOOK_ANY, "cpu", "" },
	{ "a b\n.so", LOOK_ANY, "a_b_", "" },
	{ ".x.so", LOOK_ANY, "_x", "" },
	{ "libpjrt_0123456789012345678901234567890123456789.so", LOOK_NAMES,
	  "01234567890123456789012345678901", "" },
	{ "libc.so.6", LOOK_NAMES, NONE, NONE },
	{ "pjrt_plugin.so.from", LOOK_ANY, NONE, NONE },
	{ "pjrt_plugin.so_", LOOK_ANY, NONE, NONE },
	{ "pjrt_plugin.txt", LOOK_ANY, NONE, NONE },
	{ ".so", LOOK_ANY, NONE, NONE },
	{ "", LOOK_ANY, NONE, NONE },
	{ "_pjrt.so", LOOK_NAMES, NONE, NONE },
	{ "libpjrt_.so", LOOK_NAMES, NONE, NONE },
};

START_TEST(files_report_names)
{
	char name[PF_PLUGIN_NAME], version[MAX_VERSION];
	bool is = name_of_file(names[_i].file, names[_i].how, name, version);

	if (!names[_i].name) {
		ck_assert_msg(!is, "%s: %s", names[_i].file, name);
		return;
	}
	ck_assert_msg(is, "%s", names[_i].file);
	ck_assert_str_eq(name, names[_i].name);
	ck_assert_str_eq(version, names[_i].version);
	ck_assert(!*name || pf_plugin_name_valid(name));
}
END_TEST

static const struct {
	const char *path, *name;
} paths[] = {
	{ "/a/cpu-0.106/pjrt_plugin.so", "cpu-0.106" },
	{ "cpu/pjrt_plugin.so", "cpu" },
	{ "./pjrt_plugin.so", "_" },
	{ "pjrt_plugin.so", "pjrt_plugin" },
	{ "/pjrt_plugin.so", "pjrt_plugin" },
	{ "/a/b/libpjrt_x.so", "x" },
	{ "/a/b/mine.so", "mine" },
	{ "/a/b/mine", "mine" },
};

START_TEST(paths_tell_names)
{
	char *name = pf_plugin_name_of(paths[_i].path);

	ck_assert_str_eq(name, paths[_i].name);
	free(name);
}
END_TEST

START_TEST(versions_are_compared)
{
	static const char *const order[] = { "",       "0",    "0.0.1",    "0.9",
					     "0.10",   "0.81", "0.83.1",   "0.115",
					     "1.2rc1", "1.10", "2026.6.23" };

	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		for (size_t k = 0; k < ARRAY_SIZE(order); k++) {
			int r = version_compare(order[i], order[k]);

			ck_assert_msg((r > 0) == (i > k) && (r < 0) == (i < k),
				      "%s and %s: %d", order[i], order[k], r);
		}
	ck_assert_int_eq(version_compare("1.02", "1.2"), 0);
	ck_assert_int_gt(version_compare("99999999999999999999999", "9999999999"), 0);
}
END_TEST

/* --- ld.so.conf ----------------------------------------------------------------------------- */

static void note_dir(void *arg, const char *dir)
{
	pf_buf_printf(arg, "%s ", dir);
}

/* The directories that FILE names, below ROOT, with blanks behind them. */
static const char *dirs_of(const char *file, const char *root, struct pf_buf *out)
{
	pf_buf_puts(out, "");
	ck_assert_int_eq(ldconf_read(file, root, note_dir, out), 0);
	return out->data ? out->data : "";
}

START_TEST(ld_so_conf_is_read)
{
	pf_autobuf struct pf_buf out = PF_BUF_INIT;
	char want[1024];

	put("etc/ld.so.conf", "include ld.so.conf.d/*.conf\n"
			      "# a comment\n"
			      "\n"
			      "  /opt/lib   # another\n"
			      "/old/lib=libc5\r\n"
			      "hwcap 0 nosegneg\n"
			      "relative/is/none\n"
			      "include /etc/more.conf\tmissing.conf\n"
			      "/last");
	put("etc/ld.so.conf.d/b.conf", "/b\n");
	put("etc/ld.so.conf.d/a.conf", "/a1\n/a2\n");
	put("etc/ld.so.conf.d/c.txt", "/c\n");
	put("etc/more.conf", "/more\n");
	snprintf(want, sizeof(want),
		 "%1$s/a1 %1$s/a2 %1$s/b %1$s/opt/lib %1$s/old/lib %1$s/more %1$s/last ",
		 top);
	ck_assert_str_eq(dirs_of("etc/ld.so.conf", top, &out), want);
}
END_TEST

START_TEST(includes_end)
{
	pf_autobuf struct pf_buf out = PF_BUF_INIT;
	pf_autobuf struct pf_buf many = PF_BUF_INIT;
	char name[32];
	unsigned n = 0;

	put("loop.conf", "/x\ninclude loop.conf\n");
	dirs_of("loop.conf", "", &out);
	ck_assert_uint_eq(out.len, MAX_LDCONF_DEPTH * strlen("/x "));
	for (int i = 0; i < MAX_LDCONF_FILES + 10; i++) {
		snprintf(name, sizeof(name), "d/%d.conf", i);
		put(name, "/x\n");
	}
	put("many.conf", "include d/*.conf\n");
	dirs_of("many.conf", "", &many);
	for (size_t i = 0; i < many.len; i++)
		n += many.data[i] == ' ';
	ck_assert_uint_eq(n, MAX_LDCONF_FILES - 1);
}
END_TEST

START_TEST(texts_are_regular_and_bounded)
{
	pf_autobuf struct pf_buf out = PF_BUF_INIT;

	ck_assert_int_eq(mkfifo("fifo", 0600), 0);
	ck_assert_int_eq(symlink("self", "self"), 0);
	put("text", "12345");
	put("empty", "");
	ck_assert_int_eq(read_text("fifo", 10, &out), -EINVAL);
	ck_assert_int_eq(read_text("self", 10, &out), -ELOOP);
	ck_assert_int_eq(read_text(".", 10, &out), -EINVAL);
	ck_assert_int_eq(read_text("text", 4, &out), -EFBIG);
	ck_assert_int_eq(read_text("none", 4, &out), -ENOENT);
	ck_assert_int_eq(read_text("text", 5, &out), 0);
	ck_assert_str_eq(out.data, "12345");
	ck_assert_int_eq(read_text("empty", 5, &out), 0);
	ck_assert_uint_eq(out.len, 5);
	ck_assert_int_eq(ldconf_read("fifo", "", note_dir, &out), -EINVAL);
}
END_TEST

/* --- INI files ------------------------------------------------------------------------------ */

static void note_key(void *arg, const char *key, const char *value)
{
	pf_buf_printf(arg, "%s=%s;", key, value);
}

static const struct {
	const char *text, *section, *want;
} inis[] = {
	{ "[jax_plugins]\nxla_cuda12 = jax_plugins.xla_cuda12\n", "jax_plugins",
	  "xla_cuda12=jax_plugins.xla_cuda12;" },
	{ "[console_scripts]\na = b:c\n\n[ jax_plugins ]\nx=y.z:init [extra]\n[more]\nq = r\n",
	  "jax_plugins", "x=y.z:init [extra];" },
	{ "[xla_plugins]\nxla_cpu_pjrt = xla_plugins.xla_cpu_pjrt", "jax_plugins", "" },
	{ "home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11.2\n", "",
	  "home=/usr/bin;include-system-site-packages=false;version=3.11.2;" },
	{ "home=/usr/bin\n[x]\na=b\n", "", "home=/usr/bin;" },
	{ "# a = b\n; c = d\n  e = f\nno value\ng = h = i\n= j\n", "", "g=h = i;=j;" },
	{ "[jax_plugins\na=b\r\n", "jax_plugins", "a=b;" },
	{ "", "", "" },
	{ "\n\n[", "", "" },
};

START_TEST(ini_files_are_read)
{
	pf_autobuf struct pf_buf out = PF_BUF_INIT;
	char *text = strdup(inis[_i].text);

	ini_each(text, inis[_i].section, note_key, &out);
	ck_assert_str_eq(out.data ? out.data : "", inis[_i].want);
	free(text);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("discover_text");
	TCase *pure = tcase_create("text"), *tc = tcase_create("files");

	unit_add_cases(pure, files_report_names, names);
	unit_add_cases(pure, paths_tell_names, paths);
	tcase_add_test(pure, versions_are_compared);
	unit_add_cases(pure, ini_files_are_read, inis);
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, ld_so_conf_is_read);
	tcase_add_test(tc, includes_end);
	tcase_add_test(tc, texts_are_regular_and_bounded);
	suite_add_tcase(s, pure);
	suite_add_tcase(s, tc);
	return unit_run(s);
}
