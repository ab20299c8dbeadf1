/* SPDX-License-Identifier: Apache-2.0 */
/* Which plugins the command line and the configuration choose, and their settings. */
#include "options_fixture.h"
#include "quoted.h"

/* The settings of the first plugins, and the default compile options. */
static const struct {
	const char *config, *line;
	const char *options[2], *env[2]; /* of the first plugins */
	const char *compile;
} settings[] = {
	{ NULL, "m", { "{}" }, { "{}" }, NULL },
	{ NULL,
	  "cpu,gpu m --plugin-option cpu:a=1 --plugin-option cpu:b:string=1 -o "
	  "plugin_option=gpu:c=true --plugin-env gpu:XLA_FLAGS=--x=y "
	  "--plugin-env=gpu:E=",
	  { "{'a':1,'b':'1'}", "{'c':true}" },
	  { "{}", "{'XLA_FLAGS':'--x=y','E':''}" },
	  NULL },
	{ NULL,
	  "cpu,gpu m --devices 3 --plugin-log-level 2",
	  { "{'cpu_device_count':3}", "{}" },
	  { "{'TF_CPP_MIN_LOG_LEVEL':'2'}", "{'TF_CPP_MIN_LOG_LEVEL':'2'}" },
	  NULL },
	{ NULL,
	  "m --devices=3 --plugin-option=cpu:cpu_device_count=4",
	  { "{'cpu_device_count':4}" },
	  { "{}" },
	  NULL },
	{ NULL,
	  "m --plugin-option=cpu:a=1 --plugin-option=cpu:a=2",
	  { "{'a':2}" },
	  { "{}" },
	  NULL },
	{ NULL,
	  "m --compile-option num_replicas=2 -o "
	  "compile_option=env_option_overrides.x=true --compile-option "
	  "env_option_overrides.y=text",
	  { "{}" },
	  { "{}" },
	  "{'num_replicas':2,'env_option_overrides':{'x':true,'y':'text'}}" },
	/* The command line overrides the file. */
	{ "{'plugins':[{'name':'gpu','options':{'a':1}},{'name':'cpu',"
	  "'options':{'b':1,'c':1}}]}",
	  "m --plugin-option cpu:c=2",
	  { "{'a':1}", "{'b':1,'c':2}" },
	  { "{}", "{}" },
	  NULL },
	{ "{'plugins':['gpu',{'name':'cpu','options':{'b':1}}]}",
	  "cpu m",
	  { "{'b':1}" },
	  { "{}" },
	  NULL },
	{ "{'plugins':{'name':'cpu','options':{'cpu_device_count':2}}}",
	  "m --devices 3",
	  { "{'cpu_device_count':3}" },
	  { "{}" },
	  NULL },
	{ "{'plugins':{'name':'cpu','options':{'cpu_device_count':2}},"
	  "'devices':4,'plugin_log_level':0}",
	  "m",
	  { "{'cpu_device_count':2}" },
	  { "{'TF_CPP_MIN_LOG_LEVEL':'0'}" },
	  NULL },
	{ "{'plugins':{'name':'cpu','log_level':1}}",
	  "m --plugin-log-level 3",
	  { "{}" },
	  { "{'TF_CPP_MIN_LOG_LEVEL':'3'}" },
	  NULL },
	{ "{'compile_options':{'num_replicas':2},'debug_options':{'x':1}}",
	  "m --compile-option num_replicas=1",
	  { "{}" },
	  { "{}" },
	  "{'num_replicas':1,'env_option_overrides':{'x':1}}" },
};

static void write_config(const char *text)
{
	put_file("file", quoted(text ? text : ""));
	ck_assert_int_eq(chmod("file", 0600), 0);
}

static const char *plain(struct json_object *json)
{
	return json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN);
}

TEST_EACH(plugins_have_settings, settings)
{
	char line[1024];

	write_config(settings[_i].config);
	snprintf(line, sizeof(line), "%s %s file", settings[_i].line,
		 _i % 2 ? "--config" : "-o config=ignored --config");
	ck_assert_msg(parse(line) == 0, "%s", err.text);
	for (unsigned i = 0; i < 2 && settings[_i].options[i]; i++) {
		ck_assert_uint_lt(i, o.n_plugins);
		ck_assert_str_eq(plain(o.plugins[i].options),
				 quoted(settings[_i].options[i]));
		ck_assert_str_eq(plain(o.plugins[i].env), quoted(settings[_i].env[i]));
	}
	if (settings[_i].compile)
		ck_assert_str_eq(plain(o.settings.compile_options),
				 quoted(settings[_i].compile));
	else
		ck_assert_ptr_null(o.settings.compile_options);
}

/* Which plugins: the command line's, else the file's, else the default. */
static const struct {
	const char *config, *line, *plugins;
} chosen[] = {
	{ "{'plugins':['gpu','cpu']}", "m", GPU " " CPU },
	{ "{'plugins':['gpu','cpu']}", "cpu m", CPU },
	{ "{'plugins':['gpu','cpu']}", "m --plugin cpu", CPU },
	{ "{'plugins':['gpu']}", "cpu m --plugin gpu", CPU " " GPU },
	{ "{'plugins':[]}", "m", CPU },
	/* The file's path is that of the plugin of this name. */
	{ "{'plugins':{'name':'mine','path':'%s/plugins/flat.so'}}", "m",
	  "mine=plugins/flat.so" },
	{ "{'plugins':['gpu',{'name':'cpu','path':'%s/other/cpu.so'}]}", "cpu m",
	  "cpu=other/cpu.so" },
	{ "{'plugins':['mine=%s/plugins/flat.so']}", "m", "mine=plugins/flat.so" },
	{ "{'plugin_dir':'%s/other'}", "m", "cpu=other/cpu.so" },
	{ "{'plugin_dir':'%s/other'}", "m --plugin-dir plugins", CPU },
};

TEST_EACH(plugins_are_chosen, chosen)
{
	char text[1024], line[1024];

	snprintf(text, sizeof(text), chosen[_i].config, work_dir);
	write_config(text);
	snprintf(line, sizeof(line), "%s --config file", chosen[_i].line);
	ck_assert_msg(parse(line) == 0, "%s", err.text);
	ck_assert_str_eq(shown_plugins(), chosen[_i].plugins);
}

TEST(the_configuration_is_dumped)
{
	struct json_object *dump;
	char want[1024];

	write_config("{'plugins':{'name':'nope','options':{'a':1}}}");
	ck_assert_msg(parse("nope,cpu,x=rel/x.so,./y.so --config file --plugin-option "
			    "nope:b=2 nowhere -f --dump-config --plugin-dir d "
			    "--memory-limit 1M --cache-size 1M") == 0,
		      "%s", err.text);
	snprintf(want, sizeof(want),
		 "{'foreground':true,'debug':false,'keep':false,"
		 "'no_keep':false,'mount_options':[],"
		 "'plugins':[{'name':'nope','options':{'a':1,'b':2}},"
		 "{'name':'cpu'},{'name':'x','path':'%s/rel/x.so'},"
		 "'%s/./y.so'],'plugin_dir':['%s/d'],'no_lapack':false,"
		 "'memory_limit':1048576,"
		 "'allow_native':false,'cache_size':1048576,"
		 "'cache_readonly':false,'no_cache':false}",
		 work_dir, work_dir, work_dir);
	dump = options_dump(&o);
	ck_assert_str_eq(json_object_to_json_string_ext(
				 dump,
				 JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE),
			 quoted(want));
	json_object_put(dump);
	write_config("{'plugins':{'name':'a','options':{'b':null}}}");
	ck_assert_int_eq(parse("--dump-config --config file"), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "file:1:35: plugins.options.b: option b"));
}

/* A later option for all overrides a plugin's own setting: the file that is dumped has only what
 * is in force. */
static const struct {
	const char *settings, *line; /* of plugin cpu in the file; the command line */
	const char *want;            /* the plugin as dumped */
} overridden[] = {
	{ "'options':{'a':1,'cpu_device_count':2}", "--devices 3",
	  "{'name':'cpu','options':{'a':1}}" },
	{ "'sandbox':'off','sandbox_uid':7", "--sandbox device",
	  "{'name':'cpu','sandbox_uid':7}" },
	{ "'log_level':1", "--plugin-log-level 2", "{'name':'cpu'}" },
	{ "'sandbox':'off'", "--devices 3", "{'name':'cpu','sandbox':'off'}" },
};

TEST_EACH(overridden_settings_are_not_dumped, overridden)
{
	struct json_object *dump, *plugins;
	char text[256];

	snprintf(text, sizeof(text), "{'plugins':{'name':'cpu',%s}}",
		 overridden[_i].settings);
	write_config(text);
	snprintf(text, sizeof(text), "--dump-config --config file %s",
		 overridden[_i].line);
	ck_assert_msg(parse(text) == 0, "%s", err.text);
	dump = options_dump(&o);
	ck_assert(json_object_object_get_ex(dump, "plugins", &plugins));
	ck_assert_str_eq(plain(json_object_array_get_idx(plugins, 0)),
			 quoted(overridden[_i].want));
	json_object_put(dump);
}

TEST(the_path_is_searched_in_order)
{
	setenv("PJRTFS_PLUGIN_PATH", ":/none::other:plugins:", 1);
	ck_assert_int_eq(parse("cpu,gpu m"), 0);
	ck_assert_str_eq(shown_plugins(), "cpu=other/cpu.so " GPU);
	unsetenv("PJRTFS_PLUGIN_PATH");
	ck_assert_int_eq(parse("m"), -ENOENT);
}

/* A plugin whose file does not exist is refused, and the others are loaded. */
TEST(a_missing_plugin_is_refused)
{
	ck_assert_msg(parse("none,cpu,/no/such.so m --plugin gpu") == 0, "%s", err.text);
	ck_assert_str_eq(shown_plugins(), "none= " CPU " such=/no/such.so " GPU);
	ck_assert_ptr_nonnull(
		strstr(o.plugins[0].refused, "not found: looked for none/"));
	ck_assert_ptr_null(o.plugins[1].refused);
	ck_assert_str_eq(o.plugins[2].refused, "/no/such.so: No such file or directory");
	ck_assert_ptr_null(o.plugins[3].refused);
	/* Its options are for a chosen plugin, and so no error. */
	ck_assert_msg(parse("none,cpu m --plugin-option none:cpu_device_count=2") == 0,
		      "%s", err.text);
}

/* The sentence about a plugin that is not found says what can be done. */
TEST(advice_is_given)
{
	static const char package[] = "venv/lib/python3.11/site-packages/xla_plugins/"
				      "xla_cpu_pjrt/xla_cpu_pjrt.so";

	unsetenv("PJRTFS_PLUGIN_PATH");
	setenv("PATH", "/nonexistent", 1);
	setenv("HOME", "/nonexistent", 1);
	ck_assert_int_eq(parse("m"), -ENOENT);
	/* (unless another Python of this machine has one) */
	if (!strstr(err.text, " was found in "))
		ck_assert_ptr_nonnull(strstr(err.text, "; \"pjrtfs-fetch-plugins cpu\" "
						       "brings one"));
	put_file(package, LIBRARY);
	setenv("VIRTUAL_ENV", "venv", 1);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(parse(i ? "cpu m" : "m"), -ENOENT);
		ck_assert_msg(strstr(err.text, "xla_cpu was found in $VIRTUAL_ENV "
					       "venv/lib/python3.11/site-packages: "
					       "pjrtfs xla_cpu MOUNTPOINT") != NULL,
			      "%s", err.text);
	}
	ck_assert_int_eq(parse("xla_cpu m"), 0);
	put_file("here.so", LIBRARY);
	ck_assert_int_eq(parse("here.so m"), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "; a path has a slash: ./here.so"));
	ck_assert_int_eq(parse("xla_cup m"), -ENOENT);
	ck_assert_ptr_nonnull(
		strstr(err.text, " (did you mean \"xla_cpu\"?); pjrtfs --list"));
}

/* JAX's name of a kind of devices stands for the newest plugin of that kind. */
TEST(kinds_have_names)
{
	static const char *const kinds[] = { "cuda", "gpu" };

	unsetenv("PJRTFS_PLUGIN_PATH");
	setenv("PATH", "/nonexistent", 1);
	setenv("HOME", "/nonexistent", 1);
	setenv("VIRTUAL_ENV", "venv", 1);
	ck_assert_int_eq(parse("rocm m"), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "; for an AMD GPU, \"pip install "));
	put_file(
		"venv/lib/python3.11/site-packages/jax_plugins/xla_cuda9/xla_cuda_plugin.so",
		LIBRARY);
	put_file(
		"venv/lib/python3.11/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so",
		LIBRARY);
	for (size_t i = 0; i < PF_ARRAY_SIZE(kinds); i++) {
		ck_assert_msg(parse(i ? "gpu m" : "cuda m") == 0, "%s", err.text);
		ck_assert_str_eq(o.plugins[0].name, kinds[i]);
		ck_assert_str_eq(o.plugins[0].found, "xla_cuda13");
		ck_assert_msg(strstr(o.plugins[0].path, "/xla_cuda13/") != NULL, "%s",
			      o.plugins[0].path);
	}
}

/* JAX's plugins for ROCm 6.0 and 10, in both styles; a name of its own needs no kind. */
TEST(the_newest_of_a_kind_is_found)
{
	setenv("PJRTFS_PLUGIN_PATH", "plugins", 1);
	setenv("PATH", "/nonexistent", 1);
	setenv("HOME", "/nonexistent", 1);
	put_file("plugins/xla_rocm60.so", LIBRARY);
	ck_assert_int_eq(parse("rocm m"), 0);
	ck_assert_str_eq(o.plugins[0].found, "xla_rocm60");
	put_file("plugins/xla_rocm7.so", LIBRARY);
	put_file("plugins/rocm10.so", LIBRARY);
	put_file("plugins/rocmer.so", LIBRARY);
	put_file("plugins/xla_rocm11.so", "no library");
	ck_assert_int_eq(parse("rocm m"), 0);
	ck_assert_str_eq(o.plugins[0].found, "rocm10");
	ck_assert_int_eq(parse("xla_rocm60 m"), 0);
	ck_assert_ptr_null(o.plugins[0].found);
	put_file("plugins/rocm.so", LIBRARY);
	ck_assert_int_eq(parse("rocm m"), 0);
	ck_assert_ptr_null(o.plugins[0].found);
}

/* What each plugin gets that the user has not set; a NAME or the file's name says which vendor's it is. */
TEST(a_vendor_has_settings)
{
	put_file("plugins/libtpu.so", LIBRARY);
	put_file("plugins/xla_rocm_plugin.so", LIBRARY);
	ck_assert_msg(parse("a=plugins/libtpu.so,gpu=plugins/xla_rocm_plugin.so,sycl="
			    "plugins/flat.so,flat=plugins/flat.so m") == 0,
		      "%s", err.text);
	ck_assert_str_eq(pf_json_get_string(o.plugins[0].sandbox, "sandbox"), "device");
	ck_assert_ptr_nonnull(strstr(plain(o.plugins[0].env),
				     quoted("'ALLOW_MULTIPLE_LIBTPU_LOAD':'1'")));
	ck_assert_str_eq(plain(o.plugins[0].options), "{}");
	ck_assert_str_eq(pf_json_get_string(o.plugins[1].sandbox, "sandbox"), "");
	ck_assert_str_eq(plain(o.plugins[1].options), quoted("{'platform_name':'ROCM'}"));
	ck_assert_ptr_nonnull(strstr(o.plugins[1].note, " platform_name=ROCM, "));
	ck_assert_str_eq(plain(o.plugins[2].options), quoted("{'platform_name':'SYCL'}"));
	ck_assert_str_eq(plain(o.plugins[3].options), "{}");
	ck_assert_ptr_null(o.plugins[3].note);
}

TEST(the_users_settings_precede_a_vendors)
{
	put_file("plugins/libtpu.so", LIBRARY);
	put_file("plugins/xla_rocm_plugin.so", LIBRARY);
	setenv("GOOGLE_LOGTOSTDERR", "0", 1);
	ck_assert_msg(parse("tpu=plugins/libtpu.so,rocm=plugins/xla_rocm_plugin.so m "
			    "--sandbox strict --plugin-env "
			    "tpu:ALLOW_MULTIPLE_LIBTPU_LOAD=0 --plugin-env "
			    "tpu:TPU_SKIP_MDS_QUERY=0 --plugin-option "
			    "rocm:platform_name=x") == 0,
		      "%s", err.text);
	unsetenv("GOOGLE_LOGTOSTDERR");
	ck_assert_str_eq(pf_json_get_string(o.plugins[0].sandbox, "sandbox"), "strict");
	ck_assert_str_eq(
		plain(o.plugins[0].env),
		quoted("{'ALLOW_MULTIPLE_LIBTPU_LOAD':'0','TPU_SKIP_MDS_QUERY':'0'}"));
	ck_assert_ptr_null(o.plugins[0].note);
	ck_assert_str_eq(plain(o.plugins[1].options), quoted("{'platform_name':'x'}"));
}

TEST(list_plugins_finds_plugins)
{
	struct pf_discovery *d;

	ck_assert_msg(
		parse("--list-plugins --json --plugin one=file --plugin ./plugins/flat.so "
		      "--plugin-dir other --timeout 7") == 0,
		"%s", err.text);
	ck_assert(o.list_plugins && o.json && !o.check_plugin);
	ck_assert_uint_eq(o.timeout_s, 7);
	ck_assert_ptr_null(o.mountpoint);
	ck_assert_uint_eq(o.n_plugins, 0);
	ck_assert_int_eq(plugin_choice_list(&o, &d, &err), 0);
	ck_assert_uint_gt(d->n_files, 4);
	ck_assert_str_eq(d->files[0].name, "flat");
	ck_assert_str_eq(d->files[1].name, "one");
	ck_assert_str_eq(d->files[2].name, "cpu");
	ck_assert_ptr_nonnull(strstr(d->files[2].path, "/other/cpu.so"));
	pf_discovery_free(d);
	ck_assert_msg(parse("--check-plugin gpu") == 0, "%s", err.text);
	ck_assert_str_eq(o.check_plugin, "gpu");
	ck_assert_str_eq(shown_plugins(), GPU);
	ck_assert_msg(parse("--check-plugin x=plugins/flat.so") == 0, "%s", err.text);
	ck_assert_str_eq(shown_plugins(), "x=plugins/flat.so");
}

UNIT_FIXTURE(make_files, remove_files)
