/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins' names and versions, by their files' names. */
#include <stdlib.h>
#include <string.h>

#include "discover/internal.h"
#include "unit.h"

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
	{ "pjrt_plugin.so", LOOK_NAMES, "pjrt_plugin", "" },
	{ "libpjrt_plugin.so", LOOK_NAMES, "pjrt_plugin", "" },
	{ "pjrt_plugin-1.2.so", LOOK_NAMES, "pjrt_plugin", "1.2" },
	{ "a/jax_plugins/xla_rocm/x_plugin.so", LOOK_PLUGIN, "xla_rocm", "" },
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

TEST_EACH(file_names_have_plugin_names, names)
{
	char name[PF_PLUGIN_NAME], version[PF_PLUGIN_VERSION];
	bool is = name_of_path(names[_i].file, names[_i].how, name, version);

	if (!names[_i].name) {
		ck_assert_msg(!is, "%s: %s", names[_i].file, name);
		return;
	}
	ck_assert_msg(is, "%s", names[_i].file);
	ck_assert_str_eq(name, names[_i].name);
	ck_assert_str_eq(version, names[_i].version);
	ck_assert_int_eq(pf_plugin_name_check(name, NULL), 0);
}

static const struct {
	const char *path, *name; /* NONE: no package of JAX's plugins has it */
} jax_libraries[] = {
	{ "/s/jax_plugins/libtt/libtt.so", "tt" },
	{ "/s/jax_plugins/mine/any.so.2", "mine" },
	{ "/s/jax_plugins/lib/lib.so", "lib" },
	{ "/s/jax_plugins/libtt/libtt.txt", NONE },
	{ "/s/xla_plugins/libtt/libtt.so", NONE },
	{ "/s/jax_plugins/libtt.so", NONE },
	{ "libtt.so", NONE },
};

TEST_EACH(packages_of_jax_have_plugin_names, jax_libraries)
{
	char name[PF_PLUGIN_NAME], version[PF_PLUGIN_VERSION];

	ck_assert_int_eq(name_of_jax_library(jax_libraries[_i].path, name, version),
			 jax_libraries[_i].name != NONE);
	if (jax_libraries[_i].name)
		ck_assert_str_eq(name, jax_libraries[_i].name);
}

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

TEST_EACH(paths_have_plugin_names, paths)
{
	char *name = pf_plugin_name_of(paths[_i].path);

	ck_assert_str_eq(name, paths[_i].name);
	free(name);
}
