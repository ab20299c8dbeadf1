/* SPDX-License-Identifier: Apache-2.0 */
/* The discovery of plugins in Python's packages. */
#include "discover_fixture.h"

/* The layouts of three real wheels and of JAX's. */
TEST(python_packages_are_found)
{
	static const char site[] = "v*[e]{nv}/lib/python3.12/site-packages";
	struct pf_discover_config c = { .root = work_dir };
	struct pf_discovery *d;
	char path[PATH_MAX];
	static const struct {
		const char *path, *text; /* NULL: a library */
	} files[] = {
		{ "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so", NULL },
		{ "xla_cpu_pjrt-0.0.1.dist-info/RECORD", "" },
		{ "fastatomstruct_xla_cpu/libpjrt_cpu.so", NULL },
		{ "fastatomstruct_xla_cpu-2026.6.23.dist-info/RECORD", "" },
		{ "jax_plugins/xla_cuda12/xla_cuda_plugin.so", NULL },
		{ "jax_plugins/xla_cuda12/__init__.py", "" },
		{ "jax_plugins/unpacked/pjrt_plugin.so", NULL }, /* by hand */
		{ "libtpu/libtpu.so", NULL },
		{ "iree/_pjrt_libs/cpu/pjrt_plugin_iree_cpu.so", NULL },
		{ "_hidden/libpjrt_hidden.so", NULL },
		{ "numpy/core/x.so", NULL },
		{ "other/some_plugin.so", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), "%s/%s", site, files[i].path);
		put(path, files[i].text ? files[i].text : LIBRARY);
	}
	/* Another name of the same directory, as in virtual environments. */
	ck_assert_int_eq(symlink("lib", "v*[e]{nv}/lib64"), 0);
	setenv("VIRTUAL_ENV", "v*[e]{nv}", 1);
	d = discover(&c);
	ck_assert_ptr_null(place_of(d, "lib64"));
#define SITE "v*[e]{nv}/lib/python3.12/site-packages/"
	ck_assert_str_eq(
		found(d),
		"$VIRTUAL_ENV: cpu=" SITE
		"fastatomstruct_xla_cpu/libpjrt_cpu.so 2026.6.23 "
		"(fastatomstruct_xla_cpu 2026.6.23)\n"
		"$VIRTUAL_ENV: iree_cpu=" SITE
		"iree/_pjrt_libs/cpu/pjrt_plugin_iree_cpu.so\n"
		"$VIRTUAL_ENV: tpu=" SITE "libtpu/libtpu.so\n"
		"$VIRTUAL_ENV: unpacked=" SITE "jax_plugins/unpacked/pjrt_plugin.so\n"
		"$VIRTUAL_ENV: xla_cpu=" SITE
		"xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so 0.0.1 (xla_cpu_pjrt 0.0.1)\n"
		"$VIRTUAL_ENV: xla_cuda12=" SITE
		"jax_plugins/xla_cuda12/xla_cuda_plugin.so\n");
	/* The file's name means it, too. */
	ck_assert_str_eq(pf_discovery_pick(d, "xla_cuda", NULL, NULL)->name,
			 "xla_cuda12");
	ck_assert_ptr_null(pf_discovery_pick(d, "xla", NULL, NULL));
	pf_discovery_free(d);
}

/* The python3 that $PATH finds: in a prefix, by a link, in a virtual environment. */
static const struct {
	const char *path; /* $PATH, below the working directory */
	const char *want; /* the plugin found */
} interpreters[] = {
	{ "base/bin", "base" }, { "nothing:base/bin/", "base" },
	{ "link", "base" }, /* link/python3 -> base/bin/python3 */
	{ "venv/bin", "venv" }, { "nothing", "" },
};

TEST_EACH(python_installations_are_found, interpreters)
{
	struct pf_discover_config c = { .root = "/nowhere" };
	char text[PATH_MAX] = "", *list = strdup(interpreters[_i].path), *at = list,
	     *word;
	struct pf_discovery *d;

	put("base/lib/python3.9/site-packages/p/libpjrt_base.so", LIBRARY);
	put("base/bin/python3", "");
	chmod("base/bin/python3", 0700);
	make_dirs("link/x");
	ck_assert_int_eq(symlink("../base/bin/python3", "link/python3"), 0);
	put("venv/lib/python3.9/site-packages/p/libpjrt_venv.so", LIBRARY);
	make_dirs("venv/bin/x");
	ck_assert_int_eq(symlink("../../base/bin/python3", "venv/bin/python3"), 0);
	put("venv/pyvenv.cfg", "");

	while ((word = strsep(&at, ":")))
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s/%s",
			 *text ? ":" : "", work_dir, word);
	free(list);
	setenv("PATH", text, 1);
	d = discover(&c);
	ck_assert_uint_eq(d->n_files, *interpreters[_i].want != '\0');
	if (d->n_files) {
		ck_assert_str_eq(d->places[d->files[0].place].source, "python3 on $PATH");
		ck_assert_str_eq(d->files[0].name, interpreters[_i].want);
	}
	pf_discovery_free(d);
}

UNIT_FIXTURE(set_up, work_dir_end)
