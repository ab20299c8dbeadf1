/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of real plugins, whole and truncated to every length. */
#include "pjrt_fixture.h"

/* The tables of known plugins; other plugins must only follow the rules. */
static const struct {
	int minor;
	int table_size, in_table; /* bytes; functions */
	const char *extensions;   /* name, bytes, functions that are there of all */
} known[] = {
	{ 81, 984, 118,
	  "PhaseCompile 64 3/5, FFI 48 3/3, MemoryDescriptions 40 2/2, Layouts 72 6/6, " },
	{ 106, 1128, 136,
	  "Shardings 40 2/2, PhaseCompile 64 3/5, FFI 48 3/3, MemoryDescriptions 40 2/2, "
	  "Layouts 80 7/7, " },
	{ 115, 1144, 138,
	  "XlaTransform 56 4/4, Shardings 40 2/2, PhaseCompile 64 3/5, FFI 48 3/3, "
	  "MemoryDescriptions 40 2/2, Layouts 80 7/7, " },
};

static int64_t number(struct json_object *o, const char *key)
{
	return json_object_get_int64(json_object_object_get(o, key));
}

/* DETAILS as known's extensions are written. */
static const char *shown(struct json_object *details)
{
	static char text[2048];
	char *at = text;

	*text = '\0';
	for (size_t i = 0; i < json_object_array_length(details); i++) {
		struct json_object *e = json_object_array_get_idx(details, i);
		struct json_object *functions = json_object_object_get(e, "functions");
		int n = 0, there = 0;

		json_object_object_foreach(functions, name, is) {
			(void)name;
			n++;
			there += json_object_get_boolean(is);
		}
		at += sprintf(at, "%s %d %d/%d, ",
			      json_object_get_string(json_object_object_get(e, "name")),
			      (int)number(e, "size"), there, n);
	}
	return text;
}

TEST_ON_PLUGINS(the_tables_are_known)
{
	struct pj_plugin *plugin = load(plugins[_i]);
	struct json_object *functions = pj_plugin_functions(plugin),
			   *details = pj_plugin_extensions(plugin);
	int major, minor, n_known = (int)number(functions, "known");

	pj_plugin_version(plugin, &major, &minor);
	ck_assert_int_eq(number(functions, "table_size"),
			 (int64_t)plugin->api.struct_size);
	ck_assert_int_eq((int64_t)json_object_array_length(
				 json_object_object_get(functions, "missing")),
			 n_known - number(functions, "present"));
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (known[i].minor != minor)
			continue;
		ck_assert_int_eq(number(functions, "table_size"), known[i].table_size);
		ck_assert_int_eq(number(functions, "in_table"), known[i].in_table);
		ck_assert_int_eq(number(functions, "present"),
				 n_known < known[i].in_table ? n_known
							     : known[i].in_table);
		ck_assert_str_eq(shown(details), known[i].extensions);
	}
	json_object_put(functions);
	json_object_put(details);
	pj_plugin_free(plugin);
}

/*
 * With any length, no byte beyond it is read, and either the plugin starts and describes
 * itself, or it is refused with the name of a function.
 */
TEST(tables_of_every_length)
{
	const PJRT_Api *whole = table(plugins[0]);
	size_t start = offsetof(PJRT_Api, PJRT_Error_Destroy), worked = 0;

	for (size_t size = start; size <= whole->struct_size; size += sizeof(void *)) {
		PJRT_Api *cut = malloc(size); /* so that sanitizers see the end */
		struct pj_plugin *plugin = NULL;
		struct pj_client *client;
		struct json_object *functions;
		struct pf_err err = PF_ERR_INIT;
		int r;

		memcpy(cut, whole, size);
		cut->struct_size = size;
		r = pj_plugin_adopt(cut, &plugin, &err);
		if (r < 0) {
			ck_assert_int_eq(r, -ENOEXEC);
			ck_assert_msg(strstr(err.text, "the plugin has no PJRT_") != NULL,
				      "%zu: %s", size, err.text);
			ck_assert_ptr_nonnull(strstr(err.text, "PJRT 0."));
			ck_assert_uint_eq(worked, 0);
			free(cut);
			continue;
		}
		functions = pj_plugin_functions(plugin);
		ck_assert_int_eq(number(functions, "in_table"),
				 (int64_t)((size - start) / sizeof(void *)));
		ck_assert_int_eq(number(functions, "present"),
				 number(functions, "in_table") <
						 number(functions, "known")
					 ? number(functions, "in_table")
					 : number(functions, "known"));
		json_object_put(functions);
		if (!worked++ || size == whole->struct_size) {
			client = connect_client(plugin, "{}");
			ck_assert_str_eq(client->platform, "cpu");
			pj_executable_free(compile(
				client,
				"func.func public @main(%a: tensor<2xf32>) -> "
				"tensor<2xf32> {\n return %a : tensor<2xf32>\n}\n",
				one_device));
			pj_client_free(client);
		}
		pj_plugin_free(plugin);
		free(cut);
	}
	ck_assert_uint_gt(worked, 0);
}

/* A table that is long enough and lacks one function in its middle. */
TEST(missing_functions_are_named)
{
	PJRT_Api api = *table(plugins[0]);
	struct pj_plugin *plugin = NULL;
	struct pf_err err = PF_ERR_INIT;
	struct json_object *functions, *missing;

	api.struct_size = PJ_NEWER_OFF;
	api.PJRT_Client_Compile = NULL;
	ck_assert_int_eq(pj_plugin_adopt(&api, &plugin, &err), -ENOEXEC);
	ck_assert_ptr_nonnull(strstr(
		err.text,
		"the plugin has no PJRT_Client_Compile, which nothing works without"));
	api.PJRT_Client_Compile = table(plugins[0])->PJRT_Client_Compile;
	api.PJRT_Device_MemoryStats = NULL;
	ck_assert_int_eq(pj_plugin_adopt(&api, &plugin, &err), 0);
	functions = pj_plugin_functions(plugin);
	missing = json_object_object_get(functions, "missing");
	/* This one, and those that API 0.81 does not have. */
	ck_assert_uint_eq(json_object_array_length(missing), 1 + 20);
	ck_assert_str_eq(json_object_get_string(json_object_array_get_idx(missing, 0)),
			 "PJRT_Device_MemoryStats");
	ck_assert_str_eq(json_object_get_string(json_object_array_get_idx(missing, 20)),
			 "PJRT_TopologyDescription_GetMemorySpaceKindIds");
	json_object_put(functions);
	pj_plugin_free(plugin);
}

static struct {
	const char *what;
	int major, minor;
	size_t size;
	const char *want;
} strangers[] = {
	{ "another major version", 1, 81, sizeof(PJRT_Api), "PJRT 1.81" },
	{ "before the table was rearranged", 0, 56, sizeof(PJRT_Api), "0.57 or newer" },
	{ "no functions", 0, 81, offsetof(PJRT_Api, PJRT_Error_Message), "PJRT_Error" },
	{ "no version", 0, 81, sizeof(size_t), "8 bytes" },
};

TEST_EACH(strange_tables_are_refused, strangers)
{
	PJRT_Api api = *table(plugins[0]);
	struct pj_plugin *plugin = NULL;
	struct pf_err err = PF_ERR_INIT;

	api.struct_size = strangers[_i].size;
	api.pjrt_api_version.major_version = strangers[_i].major;
	api.pjrt_api_version.minor_version = strangers[_i].minor;
	ck_assert_int_eq(pj_plugin_adopt(&api, &plugin, &err), -ENOEXEC);
	ck_assert_msg(strstr(err.text, strangers[_i].want) != NULL, "%s", err.text);
	ck_assert_ptr_null(plugin);
}
