/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations: what each key sets, refusals and their places. */
#define SYSTEM_CONFIG "system.json" /* check_config_files.c's */
#include "daemon/config.c"

#include "quoted.h"
#include "unit.h"

static struct options o; /* of the last take */
static struct pf_err err;

/* Take TEXT, with ' for ", over the defaults, but for those that the machine decides or that are always printed. */
static int take(const char *text, struct pf_err *why)
{
	options_release(&o);
	options_init(&o);
	o.memory_limit = o.cache_size = 0;
	err = (struct pf_err)PF_ERR_INIT;
	return config_take(&o, "f", quoted(text), strlen(text), why);
}

/* The options on one line, without the plugin cpu alone, and those that are 0, false or empty. */
static char *dumped(void)
{
	struct json_object *json = options_dump(&o);
	static const char *const flags[] = { "foreground", "debug",         "keep",
					     "no_keep",    "allow_native",  "no_cache",
					     "no_lapack",  "cache_readonly" };
	struct json_object *value;
	char *text;

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (json_object_object_get_ex(json, flags[i], &value) &&
		    !json_object_get_boolean(value))
			json_object_object_del(json, flags[i]);
	if (json_object_object_get_ex(json, "plugins", &value) &&
	    !strcmp(json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN),
		    quoted("[{'name':'cpu'}]")))
		json_object_object_del(json, "plugins");
	json_object_object_foreach(json, key, entry)
		if ((json_object_is_type(entry, json_type_int) &&
		     !json_object_get_int64(entry)) ||
		    (json_object_is_type(entry, json_type_array) &&
		     !json_object_array_length(entry)))
			json_object_object_del(json, key);
	text = strdup(
		json_object_to_json_string_ext(json,
					       JSON_C_TO_STRING_PLAIN |
						       JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(json);
	return text;
}

static const struct {
	const char *text, *want; /* NULL: the same */
} good[] = {
	{ "{'ffi_libraries':['/a.so',{'path':'/b.so','plugin':'cpu',"
	  "'targets':{'t':'+0x1a'},'sha256':'ab','platform':'CUDA','traits':1}],"
	  "'no_lapack':true}",
	  "{'ffi_libraries':[{'path':'/a.so'},{'path':'/b.so','plugin':'cpu',"
	  "'targets':{'t':'+0x1a'},'sha256':'ab','platform':'CUDA','traits':1}],"
	  "'no_lapack':true}" },
	{ "", "{}" },
	{ "{}", NULL },
	{ "{'foreground':true,'debug':true,'allow_native':true,'no_cache':true}", NULL },
	{ "{'allow-native':true,'no-cache':true,'memory-limit':'4G'}",
	  "{'memory_limit':4294967296,'allow_native':true,'no_cache':true}" },
	{ "{'cache-readonly':true}", "{'cache_readonly':true}" },
	{ "{'memory_limit':1048576,'cache_size':'max','cache_dir':'/c/d'}",
	  "{'memory_limit':1048576,'cache_dir':'/c/d','cache_size':'max'}" },
	{ "{'mode':'1777','group':12}", NULL },
	{ "{'mode':2775,'group':'12'}", "{'mode':'2775','group':12}" },
	{ "{'compile_jobs':3,'compile_timeout':60,'devices':2,'plugin_log_level':0}",
	  "{'devices':2,'compile_jobs':3,'compile_timeout':60}" },
	{ "{'mount_options':['allow_other','nofail','ro'],'plugin_dir':['/a','/b']}",
	  "{'mount_options':['allow_other','ro'],'plugin_dir':['/a','/b']}" },
	{ "{'mount_options':'ro','plugin_dir':'/a'}",
	  "{'mount_options':['ro'],'plugin_dir':['/a']}" },
	{ "{'plugins':['gpu','/p/x.so','mine=/q.so']}",
	  "{'plugins':[{'name':'gpu'},'/p/x.so',{'name':'mine','path':'/q.so'}]}" },
	{ "{'plugin':'gpu'}", "{'plugins':[{'name':'gpu'}]}" },
	{ "{'plugins':{'name':'gpu','log_level':3}}",
	  "{'plugins':[{'name':'gpu','log_level':3}]}" },
	{ "{'plugins':[{'options':{'a':1,'b':[1,2],'c':0.5,'d':'x','e':true},"
	  "'env':{'X':'1','Y':null},'path':'/x.so','name':'gpu'}]}",
	  "{'plugins':[{'name':'gpu','path':'/x.so','options':{'a':1,'b':[1,2],"
	  "'c':0.5,'d':'x','e':true},'env':{'X':'1','Y':null}}]}" },
	{ "{'plugin_option':['cpu:a=1','cpu:b:string=1'],"
	  "'plugin_env':'cpu:XLA_FLAGS=--a=b'}",
	  "{'plugins':[{'name':'cpu','options':{'a':1,'b':'1'},"
	  "'env':{'XLA_FLAGS':'--a=b'}}]}" },
	{ "{'sandbox':'device','sandbox_read':['/a','/b'],'sandbox_write':'/c',"
	  "'sandbox_uid':99}",
	  "{'sandbox':'device','sandbox_read':['/a','/b'],'sandbox_write':['/c'],"
	  "'sandbox_uid':99}" },
	{ "{'plugins':[{'name':'gpu','sandbox':'off','sandbox_read':'/a'}]}",
	  "{'plugins':[{'name':'gpu','sandbox':'off','sandbox_read':['/a']}]}" },
	{ "{'compile_only':['tpu','gpu','tpu']}", "{'compile_only':['tpu','gpu']}" },
	{ "{'flags_for_all':['xla_a','xla_b','xla_a']}",
	  "{'flags_for_all':['xla_a','xla_b']}" },
	{ "{'flags-for-all':'xla_a'}", "{'flags_for_all':['xla_a']}" },
	{ "{'compile_options':{'num_replicas':2,'env_option_overrides':{'x':1}},"
	  "'debug_options':{'y':true},"
	  "'compile_option':['env_option_overrides.z=s','num_partitions=2']}",
	  "{'compile_options':{'num_replicas':2,'env_option_overrides':{'x':1,"
	  "'y':true,'z':'s'},'num_partitions':2}}" },
};

TEST_EACH(a_good_file_is_understood, good)
{
	char *text, *again;

	ck_assert_msg(take(good[_i].text, &err) == 0, "%s", err.text);
	text = dumped();
	if (!strstr(good[_i].text, "plugin_log_level")) /* 0 is not shown */
		ck_assert_str_eq(text,
				 quoted(good[_i].want ? good[_i].want : good[_i].text));
	/* The printed text sets the same. */
	ck_assert_msg(take(text, &err) == 0, "%s: %s", err.text, text);
	again = dumped();
	ck_assert_str_eq(text, again);
	free(text);
	free(again);
}

static const struct {
	const char *text, *why;
} bad[] = {
	{ "{\n  'memory_limt': 1}",
	  "f:2:3: memory_limt: unknown key (did you mean \"memory_limit\"?)" },
	{ "{'Debug':true}", "f:1:2: Debug: unknown key (did you mean \"debug\"?)" },
	{ "{'wings':2}", "f:1:2: wings: unknown key; expected" },
	{ "{'no-cache':true,\n'no_cache':true}", "f:2:1: no_cache: it is given twice" },
	{ "{'plugin':'a','plugins':'b'}", "f:1:15: plugins: it is given twice" },
	{ "{'debug':1}", "f:1:2: debug: expected true or false, found 1" },
	{ "{'memory_limit':true}",
	  "f:1:2: memory_limit: expected bytes: a number, or a string as \"4G\", found true" },
	{ "{'memory_limit':'4X'}",
	  "f:1:2: memory_limit: memory limit: expected a size from 1M on" },
	{ "{'cache_dir':'x'}",
	  "f:1:2: cache_dir: expected an absolute path, found \"x\"" },
	{ "{'cache_dir':''}", "cache_dir: expected an absolute path, found \"\"" },
	{ "{'compile_jobs':'2'}", "compile_jobs: expected an integer, found \"2\"" },
	{ "{'compile_timeout':1.5}", "expected an integer, found 1.5" },
	{ "{'devices':0}", "f:1:2: devices: devices: expected a number from 1 to 1024" },
	{ "{'plugin_dir':['/a',\n 'b']}",
	  "f:2:2: plugin_dir[1]: expected an absolute path, found \"b\"" },
	{ "{'plugin_dir':{}}", "plugin_dir: expected an absolute path, found {}" },
	{ "{'mount_options':[5]}", "mount_options[0]: expected a string, found 5" },
	{ "{'mount_options':'a,b'}",
	  "mount_options: mount options: expected one, found a,b" },
	{ "{'plugins':5}",
	  "f:1:2: plugins: expected a plugin: a string, or an object with a name, found 5" },
	{ "{'plugins':[\n{}]}",
	  "f:2:1: plugins[0]: expected an object with a name, found {}" },
	{ "{'plugins':[{'name':5}]}",
	  "plugins[0].name: expected a plugin's name, found 5" },
	{ "{'plugins':[{'name':'a:b'}]}",
	  "f:1:14: plugins[0].name: plugin name a:b: expected up to 32 letters" },
	{ "{'plugins':[{'name':'a',\n  'option':{}}]}",
	  "f:2:3: plugins[0].option: expected name, path, options, env, log_level, sandbox, "
	  "sandbox_read, sandbox_write or sandbox_uid, found the key \"option\"" },
	{ "{'plugins':[{'name':'a','path':'x.so'}]}",
	  "plugins[0].path: expected an absolute path, found \"x.so\"" },
	{ "{'plugins':[{'name':'a','options':[]}]}",
	  "plugins[0].options: expected an object, found []" },
	{ "{'plugins':[{'name':'a',\n'options':{'x':1,'cpu_device_count':'4'}}]}",
	  "f:2:18: plugins[0].options.cpu_device_count: option cpu_device_count: expected an "
	  "integer from 1 to 1024, found the string \"4\"" },
	{ "{'plugins':[{'name':'b','env':{'X':5}}]}",
	  "plugins[0].env.X: variable X: expected a string, or null for none, found 5" },
	{ "{'plugins':[{'name':'a','env':5}]}",
	  "plugins[0].env: expected an object, found 5" },
	{ "{'plugins':[{'name':'a','log_level':-1}]}",
	  "plugins[0].log_level: expected an integer from 0 to 4, found -1" },
	{ "{'plugins':['a,b']}", "plugins[0]: expected a plugin's name" },
	{ "{'plugins':['./x.so']}", "plugins[0]: expected a plugin's name" },
	{ "{'plugins':['a=./x.so']}", "plugins[0]: expected a plugin's name" },
	{ "{'plugins':['a)b=/x']}",
	  "plugins[0]: plugin name a)b: expected up to 32 letters, digits, '.', '_' and '-', "
	  "the first of them not '.'" },
	{ "{'plugins':['a=/b.so',\n{'name':'a'}]}",
	  "f:2:1: plugins[1]: plugin: two plugins are called a: name one with --plugin NAME=PATH" },
	{ "{'plugins':'.x'}", "f:1:2: plugins: plugin name .x: expected up to 32" },
	{ "{'plugin_option':'cpu'}",
	  "plugin_option: plugin option: expected NAME:KEY=VALUE, found cpu" },
	{ "{'plugin_option':['cpu:a=1','cpu:cpu_device_count=0']}",
	  "plugin_option[1]: plugin option: option cpu_device_count: expected an integer" },
	{ "{'plugin_env':'cpu:=1'}", "variable : expected a name without '='" },
	{ "{'compile_options':[]}", "compile_options: expected an object, found []" },
	{ "{'compile_options':{\n 'num_replica':1}}",
	  "f:2:2: compile_options.num_replica: unknown option \"num_replica\"" },
	{ "{'compile_options':{'num_replicas':'2'}}",
	  "f:1:21: compile_options.num_replicas: option num_replicas: expected an integer of "
	  "1 or more, found \"2\"" },
	{ "{'compile_options':{'env_option_overrides':{'a':1,\n'b':[]}}}",
	  "f:2:1: compile_options.env_option_overrides.b: option env_option_overrides.b: "
	  "expected a string, true, false or a number, found [" },
	{ "{'compile_options':{'device':'a:1','plugin':'b'}}",
	  "compile_options: default compile options: option device: a:1 is not a device of "
	  "plugin b" },
	{ "{'debug_options':{'b':null}}", "f:1:19: debug_options.b: option" },
	{ "{'debug_options':true}", "debug_options: expected an object, found true" },
	{ "{'sandbox':'loose'}", "sandbox: sandbox: expected strict, device or off" },
	{ "{'plugins':[{'name':'a','sandbox_write':['b']}]}",
	  "plugins[0].sandbox_write[0]: expected an absolute path, found \"b\"" },
	{ "{'sandbox_uid':0}", "sandbox uid: expected the number of a user" },
	{ "{'compile_only':['tpu','t/p']}", "compile_only[1]: compile only: " },
	{ "{'flags_for_all':['xla_a','--xla_b']}",
	  "flags_for_all[1]: flags for all: expected the name of a flag" },
	{ "{'compile_option':'x'}",
	  "compile_option: compile option: expected KEY=VALUE" },
};

TEST_EACH(a_bad_file_is_refused, bad)
{
	ck_assert_int_eq(take(bad[_i].text, &err), -EINVAL);
	ck_assert_int_eq(err.code, -EINVAL);
	ck_assert_msg(strncmp(err.text, "f:", 2) == 0, "%s", err.text);
	ck_assert_msg(strstr(err.text, bad[_i].why) != NULL, "'%s' instead of '%s'",
		      err.text, bad[_i].why);
	ck_assert_int_eq(take(bad[_i].text, NULL), -EINVAL);
}

/* Places of syntax errors; check_json tests the parser's sentences. */
static const struct {
	const char *text, *why;
} texts[] = {
	{ "x", "f:1:1: expected a JSON object, found \"x\"" },
	{ "{\n'a': 1", "f:2:7: expected ',' or '}', found its end" },
	{ "{} x", "f:1:4: expected nothing behind the JSON object, found \"x\"" },
	{ "{\n\n  'a':,\n}", "f:3:7: expected a value, found" },
	{ "{\n'é': 'éé', x", "f:2:12: expected a key in double quotes, found \"x\"" },
	{ "{'a':'\xff'}", "f:1:7: expected UTF-8 in a string, found" },
	{ "{'a':1,\n'b':2,\n '\\u0061':2}", "f:3:2: the key \"a\" is given twice" },
};

TEST_EACH(a_bad_text_is_refused, texts)
{
	ck_assert_int_eq(take(texts[_i].text, &err), -EINVAL);
	ck_assert_int_eq(err.code, -EINVAL);
	ck_assert_msg(strncmp(err.text, texts[_i].why, strlen(texts[_i].why)) == 0,
		      "'%s' instead of '%s'", err.text, texts[_i].why);
	ck_assert_int_eq(config_take(&o, "f", "\0", 1, &err), -EINVAL);
}

/* Keys behind braces, quotes and escapes. */
static const char maze[] = "{\n"
			   " \"a{\": {\"b\": \"}\\\"]\", \"c\": [1, [2, \"]\"], {\"d\":\n"
			   "   4}]},\n"
			   " \"\\u0065\" : [ {} , { \"name\" :\"x\" } ,3] ,\"f\":-1.5e3}";

#define KEY(name)                                                                        \
	{                                                                                \
		.key = (name)                                                            \
	}
#define ITEM(number)                                                                     \
	{                                                                                \
		.index = (number)                                                        \
	}

static const struct {
	struct step path[MAX_STEPS];
	unsigned n;
	const char *want;
} places[] = {
	{ { KEY("a{") }, 1, "f:2:2: a{: text" },
	{ { KEY("a{"), KEY("c") }, 2, "f:2:22: a{.c: text" },
	{ { KEY("a{"), KEY("c"), ITEM(1) }, 3, "f:2:31: a{.c[1]: text" },
	{ { KEY("a{"), KEY("c"), ITEM(1), ITEM(1) }, 4, "f:2:35: a{.c[1][1]: text" },
	{ { KEY("a{"), KEY("c"), ITEM(2) }, 3, "f:2:41: a{.c[2]: text" },
	{ { KEY("a{"), KEY("c"), ITEM(2), KEY("d") }, 4, "f:2:42: a{.c[2].d: text" },
	{ { KEY("e") }, 1, "f:4:2: e: text" },
	{ { KEY("e"), ITEM(1) }, 2, "f:4:20: e[1]: text" },
	{ { KEY("e"), ITEM(1), KEY("name") }, 3, "f:4:22: e[1].name: text" },
	{ { KEY("e"), ITEM(2) }, 2, "f:4:37: e[2]: text" },
	{ { KEY("f") }, 1, "f:4:41: f: text" },
};

TEST_EACH(places_are_found, places)
{
	struct taking k = { .file = "f", .text = maze, .len = strlen(maze), .err = &err };

	memcpy(k.path, places[_i].path, sizeof(k.path));
	k.n_steps = places[_i].n;
	pf_err_set(&err, -ENOENT, "text");
	ck_assert_int_eq(locate(&k, -ENOENT), -ENOENT);
	ck_assert_int_eq(err.code, -ENOENT);
	ck_assert_str_eq(err.text, places[_i].want);
}

static const struct {
	const char *begin, *item, *end; /* of a text with N items */
	int n;
	const char *why; /* NULL: it is good */
} many[] = {
	{ "{'plugins':[", "'p%d'", "]}", 16, NULL },
	{ "{'plugins':[", "'p%d'", "]}", 17,
	  "plugins[16]: plugin: more than 16 plugins" },
	{ "{'plugins':{'name':'p','env':{", "'V%d':''", "}}}", 256, NULL },
	{ "{'plugins':{'name':'p','env':{", "'V%d':''", "}}}", 257,
	  "variable V256: plugin p has 256 others" },
	{ "{'plugin_option':[", "'p%d:a=1'", "]}", 64, NULL },
	{ "{'plugin_option':[", "'p%d:a=1'", "]}", 65,
	  "options for more than 64 plugins" },
};

TEST_EACH(there_are_limits, many)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;

	pf_buf_puts(&text, many[_i].begin);
	for (int i = 0; i < many[_i].n; i++) {
		pf_buf_puts(&text, i ? "," : "");
		pf_buf_printf(&text, many[_i].item, i);
	}
	pf_buf_puts(&text, many[_i].end);
	ck_assert_msg(take(text.data, &err) == (many[_i].why ? -EINVAL : 0),
		      "%d of %s: %s", many[_i].n, many[_i].item, err.text);
	if (many[_i].why)
		ck_assert_msg(strstr(err.text, many[_i].why) != NULL, "%s", err.text);
}
