/* SPDX-License-Identifier: Apache-2.0 */
/* Compile options: what becomes of JSON, the bytes that plugins take, and clear refusals. */
#include "formats_fixture.h"
#include "pjrtfs/plugin_options.h"

/* The bytes as hexadecimal numbers, as protoc --decode_raw's users write them. */
static const char *hex(const struct pf_buf *buf)
{
	static char text[1024];
	size_t n = 0;

	text[0] = '\0';
	for (size_t i = 0; i < buf->len && n + 4 < sizeof(text); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, i ? " %02x" : "%02x",
				      (unsigned char)buf->data[i]);
	return text;
}

static void unhex(const char *text, struct pf_buf *out)
{
	unsigned byte;
	int n;

	for (; sscanf(text, "%2x%n", &byte, &n) == 1; text += n)
		pf_buf_append(out, &(char){ (char)byte }, 1);
}

static int encode(const char *text, unsigned n_devices, struct pf_buf *ret,
		  struct pf_err *err)
{
	const struct pf_options_target target = { .plugin = "cpu",
						  .n_devices = n_devices };
	struct json_object *options = json(text);
	int r = pf_options_encode(options, &target, ret, err);

	json_object_put(options);
	return r;
}

/* Each field alone; the messages have one replica and one partition, too. */
static const struct {
	const char *key, *value, *hex;
} fields[] = {
	{ "device_ordinal", "-1", "1a 0f 08 ff ff ff ff ff ff ff ff ff 01 20 01 28 01" },
	{ "device_ordinal", "2", "1a 06 08 02 20 01 28 01" },
	{ "result_layout", "'F32[2,3]{0,1}'",
	  "1a 12 12 0c 10 0b 1a 02 02 03 2a 04 0a 02 00 01 20 01 28 01" },
	{ "result_layout", "['F32[]','S8[5]{0}']",
	  "1a 18 12 12 10 0d 22 02 10 0b 22 0a 10 02 1a 01 05 2a 03 0a 01 00 20 01 28 01" },
	{ "debug_options", "'+AED'", "1a 09 1a 03 f8 01 03 20 01 28 01" },
	{ "use_spmd_partitioning", "true", "1a 06 20 01 28 01 30 01" },
	{ "use_auto_spmd_partitioning", "true", "1a 06 20 01 28 01 38 01" },
	{ "deduplicate_hlo", "true", "1a 06 20 01 28 01 40 01" },
	{ "alias_passthrough_params", "true", "1a 06 20 01 28 01 50 01" },
	{ "run_backend_only", "true", "1a 06 20 01 28 01 58 01" },
	{ "use_shardy_partitioner", "true", "1a 07 20 01 28 01 98 01 01" },
	{ "device_assignment", "[[7]]",
	  "1a 0f 20 01 28 01 4a 09 08 01 10 01 1a 03 0a 01 07" },
	{ "allow_spmd_sharding_propagation_to_output", "[true,false]",
	  "1a 08 20 01 28 01 62 02 01 00" },
	{ "comp_envs", "'CgA='", "1a 08 20 01 28 01 6a 02 0a 00" },
	{ "fdo_profile", "'AP8='", "1a 08 20 01 28 01 72 02 00 ff" },
	{ "device_memory_size", "17179869184", "1a 0a 20 01 28 01 78 80 80 80 80 40" },
	{ "auto_spmd_partitioning_mesh_shape", "[2,300]",
	  "1a 0a 20 01 28 01 82 01 03 02 ac 02" },
	{ "auto_spmd_partitioning_mesh_ids", "[0,1]",
	  "1a 09 20 01 28 01 8a 01 02 00 01" },
	{ "allow_spmd_sharding_propagation_to_parameters", "[true]",
	  "1a 08 20 01 28 01 92 01 01 01" },
	{ "exec_time_optimization_effort", "-0.5",
	  "1a 0a 20 01 28 01 a5 01 00 00 00 bf" },
	{ "memory_fitting_effort", "1.0", "1a 0a 20 01 28 01 ad 01 00 00 80 3f" },
	{ "process_index", "1", "1a 07 20 01 28 01 b0 01 01" },
	{ "process_count", "2", "1a 07 20 01 28 01 b8 01 02" },
	{ "optimization_level", "'O0'", "1a 07 20 01 28 01 c0 01 09" },
	{ "memory_fitting_level", "'O3'", "1a 07 20 01 28 01 c8 01 27" },
	{ "slice_size", "4", "1a 07 20 01 28 01 d0 01 04" },
	{ "argument_layouts", "['BF16[3]{0}','PRED[]']",
	  "0a 0a 10 10 1a 01 03 2a 03 0a 01 00 0a 02 10 01 1a 04 20 01 28 01" },
	{ "parameter_is_tupled_arguments", "true", "10 01 1a 04 20 01 28 01" },
	{ "compile_portable_executable", "true", "1a 04 20 01 28 01 20 01" },
	{ "profile_version", "-1", "1a 04 20 01 28 01 28 ff ff ff ff ff ff ff ff ff 01" },
	{ "serialized_multi_slice_config", "'AQID'", "1a 04 20 01 28 01 32 03 01 02 03" },
	{ "env_option_overrides", "{'f':true}",
	  "1a 04 20 01 28 01 3a 07 0a 01 66 12 02 10 01" },
	{ "env_option_overrides", "{'f':-7}",
	  "1a 04 20 01 28 01 3a 10 0a 01 66 12 0b 18 f9 ff ff ff ff ff ff ff ff 01" },
	{ "env_option_overrides", "{'f':0.5}",
	  "1a 04 20 01 28 01 3a 0e 0a 01 66 12 09 21 00 00 00 00 00 00 e0 3f" },
	{ "env_option_overrides", "{'f':'v'}",
	  "1a 04 20 01 28 01 3a 08 0a 01 66 12 03 0a 01 76" },
	{ "target_config", "'Cg=='", "1a 04 20 01 28 01 42 01 0a" },
	{ "allow_in_place_mlir_modification", "true", "1a 04 20 01 28 01 48 01" },
	{ "matrix_unit_operand_precision", "'highest'", "1a 04 20 01 28 01 50 02" },
	{ "compiler_variant", "'v'", "1a 04 20 01 28 01 5a 01 76" },
};

TEST_EACH(each_field_has_its_number, fields)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT, want = PF_BUF_INIT,
				 found = PF_BUF_INIT;
	struct json_object *back = NULL, *value = NULL;
	struct pf_err err = PF_ERR_INIT;

	pf_buf_printf(&text, "{'%s':%s}", fields[_i].key, fields[_i].value);
	check_result(encode(text.data, 8, &found, &err), 0, &err, NULL);
	ck_assert_str_eq(hex(&found), fields[_i].hex);
	unhex(fields[_i].hex, &want);
	check_result(pf_options_decode(want.data, want.len, &back, &err), 0, &err, NULL);
	ck_assert(json_object_object_get_ex(back, fields[_i].key, &value));
	check_json(json_object_get(value), fields[_i].value);
	/* The counts, and the field. */
	ck_assert_int_eq(json_object_object_length(back), 3);
	json_object_put(back);
}

/* The sentence about an unknown key lists all keys, each of which is in the table. */
TEST(no_field_is_left_out)
{
	static const char *const others[] = { "plugin",       "device",
					      "topology",     "input_names",
					      "num_replicas", "num_partitions" };
	pf_autobuf struct pf_buf buf = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	const char *list;
	size_t n = 0;

	ck_assert_int_eq(encode("{'none':1}", 1, &buf, &err), -EINVAL);
	list = strstr(err.text, ": expected one of ");
	ck_assert_ptr_nonnull(list);
	list += strlen(": expected one of ");
	ck_assert_uint_lt(strlen(err.text), PF_ERR_TEXT - 1);
	for (const char *end; *list; list = *end ? end + 2 : end, n++) {
		bool known = false;

		end = list + strcspn(list, ",");
		for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
			known |= strlen(fields[i].key) == (size_t)(end - list) &&
				 !strncmp(fields[i].key, list, (size_t)(end - list));
		for (size_t i = 0; i < ARRAY_SIZE(others); i++)
			known |= !strncmp(others[i], list, (size_t)(end - list));
		ck_assert_msg(known, "no test of %s", list);
	}
	ck_assert_uint_eq(n, 40);
}

static const struct {
	const char *json;
	const char *want;
} good[] = {
	{ "null", "1a 04 20 01 28 01" },
	{ "{}", "1a 04 20 01 28 01" },
	/* One list a partition in the proto, one list a replica in JSON. */
	{ "{'num_replicas':2,'num_partitions':3,"
	  "'device_assignment':[[0,1,2],[3,4,300]]}",
	  "1a 1f 20 02 28 03 30 01 4a 17 08 02 10 03 1a 04 0a 02 00 03 1a 04 0a 02 01 04 "
	  "1a 05 0a 03 02 ac 02" },
	/* The assignment determines the counts. */
	{ "{'device_assignment':[[0],[1]]}",
	  "1a 10 20 02 28 01 4a 0a 08 02 10 01 1a 04 0a 02 00 01" },
	{ "{'device_assignment':[[0,1]]}",
	  "1a 16 20 01 28 02 30 01 4a 0e 08 01 10 02 1a 03 0a 01 00 1a 03 0a 01 01" },
	/* The default of a field is not written. */
	{ "{'use_spmd_partitioning':false,'use_auto_spmd_partitioning':false,"
	  "'use_shardy_partitioner':false,'compile_portable_executable':false,"
	  "'profile_version':0,'matrix_unit_operand_precision':'default',"
	  "'env_option_overrides':{},"
	  "'allow_spmd_sharding_propagation_to_output':[],"
	  "'allow_spmd_sharding_propagation_to_parameters':[]}",
	  "1a 04 20 01 28 01" },
	/* Several partitions are SPMD unless an option says otherwise. */
	{ "{'num_partitions':2}", "1a 06 20 01 28 02 30 01" },
	{ "{'num_partitions':2,'use_spmd_partitioning':false}", "1a 04 20 01 28 02" },
	/* A device is an assignment of one. */
	{ "{'device':2}", "1a 0f 20 01 28 01 4a 09 08 01 10 01 1a 03 0a 01 02" },
	{ "{'device':'cpu:2','plugin':'cpu'}",
	  "1a 0f 20 01 28 01 4a 09 08 01 10 01 1a 03 0a 01 02" },
	{ "{'profile_version':300,'matrix_unit_operand_precision':'HIGHEST'}",
	  "1a 04 20 01 28 01 28 ac 02 50 02" },
	/* Overrides: one of each type, false and 0 are written, sorted by name. */
	{ "{'env_option_overrides':{'d':0.5,'i':0,'s':'v','b':false}}",
	  "1a 04 20 01 28 01 3a 07 0a 01 62 12 02 10 00 "
	  "3a 0e 0a 01 64 12 09 21 00 00 00 00 00 00 e0 3f 3a 07 0a 01 69 12 02 18 00 "
	  "3a 08 0a 01 73 12 03 0a 01 76" },
	{ "{'env_option_overrides':{'i':9223372036854775807}}",
	  "1a 04 20 01 28 01 3a 0f 0a 01 69 12 0a 18 ff ff ff ff ff ff ff ff 7f" },
	{ "{'env_option_overrides':{'s':''}}",
	  "1a 04 20 01 28 01 3a 07 0a 01 73 12 02 0a 00" },
};

TEST_EACH(encodes, good)
{
	pf_autobuf struct pf_buf buf = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;

	check_result(encode(good[_i].json, 8, &buf, &err), 0, &err, NULL);
	ck_assert_str_eq(hex(&buf), good[_i].want);
}

TEST(appends_to_existing_bytes)
{
	pf_autobuf struct pf_buf buf = PF_BUF_INIT;

	pf_buf_puts(&buf, "x");
	ck_assert_int_eq(encode("{}", 1, &buf, NULL), 0);
	ck_assert_str_eq(hex(&buf), "78 1a 04 20 01 28 01");
}

/* With four devices; the sentence has these parts. */
static const struct {
	const char *json, *says;
} bad[] = {
	{ "[]", "expected a JSON object*[ ]" },
	{ "{'replicas':1}", "unknown option \"replicas\"" },
	{ "{'devise':1}", "unknown option \"devise\" (did you mean \"device\"?)" },
	{ "{'Num_Replicas':1}", "unknown option \"Num_Replicas\"" },
	/* Counts. */
	{ "{'num_replicas':0}", "num_replicas*1 or more*found 0" },
	{ "{'num_replicas':2.0}", "num_replicas*integer*found 2.0" },
	{ "{'num_replicas':4294967297}", "num_replicas*4294967297" },
	{ "{'num_replicas':99999999999999999999}", "num_replicas" },
	{ "{'num_replicas':2,'num_partitions':3}", "need 6 devices*found 4" },
	{ "{'num_replicas':2147483647,'num_partitions':2147483647}",
	  "need 4611686014132420609 devices" },
	/* Booleans. */
	{ "{'compile_portable_executable':[]}", "compile_portable_executable" },
	{ "{'allow_spmd_sharding_propagation_to_output':true}",
	  "allow_spmd_sharding_propagation_to_output*a list of true and false" },
	{ "{'allow_spmd_sharding_propagation_to_parameters':[true,1]}",
	  "allow_spmd_sharding_propagation_to_parameters*a list of true and false" },
	/* Numbers and names. */
	{ "{'profile_version':-2}", "profile_version*-1 or more" },
	{ "{'profile_version':9223372036854775808}", "profile_version" },
	{ "{'matrix_unit_operand_precision':'best'}", "\"highest\"*\"best\"" },
	/* Overrides. */
	{ "{'env_option_overrides':[]}", "env_option_overrides*an object" },
	{ "{'env_option_overrides':{'f':null}}", "env_option_overrides.f" },
	{ "{'env_option_overrides':{'f':9223372036854775808}}",
	  "env_option_overrides.f*64 bits" },
	{ "{'env_option_overrides':{'f':NaN}}", "env_option_overrides.f" },
	{ "{'env_option_overrides':{'f':'a\\u0000b'}}", "env_option_overrides.f" },
	{ "{'auto_spmd_partitioning_mesh_shape':4}", "a list of integers" },
	{ "{'auto_spmd_partitioning_mesh_ids':[-1]}", "0 or more" },
	/* Devices. */
	{ "{'device':-1}", "option device*found -1" },
	{ "{'device':'cpu'}", "option device*\"cpu:1\"*found \"cpu\"" },
	{ "{'device':null}", "option device" },
	{ "{'device':':1'}", "option device" },
	{ "{'device':'cpu:1x'}", "option device" },
	{ "{'device':'cpu:-1'}", "option device" },
	{ "{'device':'cpu:99999999999999999999'}", "option device" },
	{ "{'device':1,'num_replicas':2}", "for several" },
	{ "{'device':1,'device_assignment':[[1]]}", "device_assignment, too" },
	{ "{'device':1,'compile_portable_executable':true}", "option device*any device" },
	{ "{'device_assignment':[[1]],'compile_portable_executable':true}",
	  "option device_assignment*any device" },
	{ "{'plugin':1}", "option plugin*a plugin's name" },
	{ "{'device_assignment':1}", "1 lists*1 device ids*found 1" },
	{ "{'device_assignment':[]}", "device_assignment" },
	{ "{'device_assignment':[1]}", "device_assignment" },
	{ "{'device_assignment':[[]]}", "device_assignment" },
	{ "{'device_assignment':[[0,1],[2]]}", "2 lists*2 device ids" },
	{ "{'num_partitions':1,'device_assignment':[[0,1]]}", "1 device ids" },
	{ "{'device_assignment':[[0,1,2,3,4]]}", "need 5 devices" },
	{ "{'device_assignment':[[-1]]}", "0 or more*found -1" },
	{ "{'device_assignment':[['0']]}", "0 or more*found \"0\"" },
	{ "{'num_replicas':2,'device_assignment':[[3],[3]]}", "device 3 is given twice" },
	{ "{'num_replicas':2,'num_partitions':2,'device_assignment':[[0,1],[2,0]]}",
	  "device 0 is given twice" },
	/* Values that plugins abort on, or that are none of the field's. */
	{ "{'device_ordinal':-2}",
	  "device_ordinal: expected an integer from -1 to 2147483647, found -2" },
	{ "{'device_ordinal':2147483648}",
	  "device_ordinal: expected an integer from -1" },
	{ "{'slice_size':-1}", "slice_size: expected an integer from 0 to" },
	{ "{'process_count':4294967296}", "process_count: expected an integer from 0" },
	{ "{'device_memory_size':-1}", "expected an integer of 0 or more, found -1" },
	{ "{'exec_time_optimization_effort':1.5}", "expected a number from -1 to 1" },
	{ "{'memory_fitting_effort':NaN}", "expected a number from -1 to 1" },
	{ "{'memory_fitting_effort':'1'}", "expected a number from -1 to 1" },
	{ "{'optimization_level':2}", "\"O2\" or \"O3\", found 2" },
	{ "{'optimization_level':'O4'}", "\"unknown\", \"O0\"*found \"O4\"" },
	{ "{'debug_options':'AA=A'}", "debug_options: expected a message in base64" },
	{ "{'debug_options':'A==='}", "debug_options: expected a message in base64" },
	{ "{'debug_options':'AAA'}", "debug_options: expected a message in base64" },
	{ "{'comp_envs':{}}", "comp_envs: expected a message in base64" },
	{ "{'compiler_variant':'a\\u0000'}", "compiler_variant: expected a string" },
	{ "{'argument_layouts':'F32[]'}", "argument_layouts: expected a list of shapes" },
	{ "{'argument_layouts':[['F32[]'],[['F32[]']]]}", "a list of shapes" },
	{ "{'result_layout':'F32'}", "result_layout: expected a shape, as" },
	{ "{'result_layout':'F33[2]'}", "result_layout" },
	{ "{'result_layout':'F32[2'}", "result_layout" },
	{ "{'result_layout':'F32[-2]'}", "result_layout" },
	{ "{'result_layout':'F32[2,]'}", "result_layout" },
	{ "{'result_layout':'F32[2]{0}x'}", "result_layout" },
	{ "{'result_layout':'F32[2,3]{0,0}'}", "result_layout" },
	{ "{'result_layout':'F32[9223372036854775807,3]'}", "result_layout" },
	{ "{'result_layout':'F32[9223372036854775808]'}", "result_layout" },
	{ "{'result_layout':null}", "result_layout" },
};

TEST_EACH(refuses, bad)
{
	pf_autobuf struct pf_buf buf = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;

	check_result(encode(bad[_i].json, 4, &buf, &err), -EINVAL, &err, bad[_i].says);
	ck_assert_uint_eq(buf.len, 0);
}

TEST(no_devices_at_all)
{
	pf_autobuf struct pf_buf buf = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;

	check_result(encode("{}", 0, &buf, &err), -EINVAL, &err,
		     "need 1 devices, found 0");
}

static const struct {
	const char *json;
	int64_t replicas, partitions; /* the program's */
	bool shardy;                  /* likewise */
	const char *want;             /* hexadecimal, or what the refusal says */
} defaults[] = {
	{ "{}", 1, 2, true, "1a 09 20 01 28 02 30 01 98 01 01" },
	{ "{}", 2, 1, true, "1a 04 20 02 28 01" },
	{ "{'use_shardy_partitioner':false}", 1, 2, true, "1a 06 20 01 28 02 30 01" },
	{ "{}", 0, 0, false, "1a 04 20 01 28 01" },
	{ "{}", 1, 3, false, "1a 06 20 01 28 03 30 01" },
	{ "{'num_partitions':1}", 0, 3, false, "1a 04 20 01 28 01" },
	{ "{'num_replicas':3}", 2, 0, false, "1a 04 20 03 28 01" },
	{ "{'device':7}", 1, 1, false,
	  "1a 0f 20 01 28 01 4a 09 08 01 10 01 1a 03 0a 01 07" },
	{ "{'device_assignment':[[7],[5]]}", 2, 1, false,
	  "1a 10 20 02 28 01 4a 0a 08 02 10 01 1a 04 0a 02 07 05" },
	{ "{}", 2, 2, false, "need 4 devices, found 3" },
	{ "{}", INT64_MAX, INT64_MAX, false, "found 3" },
	{ "{'device':6}", 1, 1, false, "option device: plugin cpu has no device 6" },
	{ "{'device_assignment':[[5],[0]]}", 2, 1, false, "has no device 0" },
	{ "{'device':5}", 2, 1, false, "for several" },
};

/* Devices with ids 5, 7, 9, and a program that states how many it needs. */
TEST_EACH(the_program_and_the_plugin_decide, defaults)
{
	static const int64_t ids[] = { 5, 7, 9 };
	const struct pf_options_target target = {
		.plugin = "cpu",
		.n_devices = 3,
		.device_ids = ids,
		.num_replicas = defaults[_i].replicas,
		.num_partitions = defaults[_i].partitions,
		.shardy = defaults[_i].shardy,
	};
	struct json_object *options = json(defaults[_i].json);
	pf_autobuf struct pf_buf buf = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	bool encoded = !strncmp(defaults[_i].want, "1a ", 3);
	int r = pf_options_encode(options, &target, &buf, &err);

	check_result(r, encoded ? 0 : -EINVAL, &err, defaults[_i].want);
	if (encoded)
		ck_assert_str_eq(hex(&buf), defaults[_i].want);
	json_object_put(options);
}

TEST(long_names_are_truncated)
{
	pf_autobuf struct pf_buf buf = PF_BUF_INIT;
	char text[1024], name[512] = "";

	memset(name, 'n', sizeof(name) - 1);
	snprintf(text, sizeof(text), "{'env_option_overrides':{'%s':null}}", name);
	ck_assert_int_eq(encode(text, 1, &buf, NULL), -EINVAL);
	snprintf(text, sizeof(text), "{'%s':null}", name);
	ck_assert_int_eq(encode(text, 1, &buf, NULL), -EINVAL);
	snprintf(text, sizeof(text), "{'env_option_overrides':{'%s':true}}", name);
	ck_assert_int_eq(encode(text, 1, &buf, NULL), 0);
}

/* --- messages of other writers --------------------------------------------------------------- */

static const struct {
	const char *hex, *json;
} others[] = {
	{ "1a 19 20 01 28 01 12 13 10 0b 1a 02 02 03 2a 07 0a 02 00 01 80 01 01 32 02 00 00",
	  "{'result_layout':'F32[2,3]{0,1}','num_replicas':1,'num_partitions':1}" },
	{ "1a 12 20 01 28 01 08 ff ff ff ff ff ff ff ff ff 01 b8 01 01",
	  "{'device_ordinal':-1,'num_replicas':1,'num_partitions':1,'process_count':1}" },
	{ "", "{}" },
	{ "1a 02 28 02",
	  "{'num_partitions':2,'use_spmd_partitioning':false,'use_shardy_partitioner':false}" },
	{ "1a 06 28 02 30 01 30 00",
	  "{'num_partitions':2,'use_spmd_partitioning':false,'use_shardy_partitioner':false}" },
	{ "1a 08 20 01 80 01 02 80 01 02 1a 02 28 01",
	  "{'num_replicas':1,'num_partitions':1,'auto_spmd_partitioning_mesh_shape':[2,2]}" },
};

TEST_EACH(other_writers_are_understood, others)
{
	pf_autobuf struct pf_buf proto = PF_BUF_INIT;
	struct json_object *o = NULL;
	struct pf_err err = PF_ERR_INIT;

	unhex(others[_i].hex, &proto);
	check_result(pf_options_decode(proto.data, proto.len, &o, &err), 0, &err, NULL);
	check_json(o, others[_i].json);
}

static const struct {
	const char *hex, *says;
} bad_messages[] = {
	{ "ff", "CompileOptionsProto, found 1 bytes" },
	{ "1a 07 20 01 28 01 98 06 01",
	  "field 99 of ExecutableBuildOptionsProto is newer" },
	{ "1a 04 20 01 28 01 60 01", "field 12 of CompileOptionsProto is newer" },
	{ "1a 07 20 01 28 01 c0 01 0a",
	  "option optimization_level: expected *\"O0\"*\"O3\", found" },
	{ "1a 04 20 01 28 01 50 03",
	  "matrix_unit_operand_precision: expected \"default\", \"high\" or \"highest\"" },
	{ "1a 0a 20 01 28 01 a5 01 00 00 c0 7f",
	  "exec_time_optimization_effort: expected a number from -1 to 1" },
	{ "1a 04 20 01 28 01 3a 05 0a 01 66 12 00",
	  "env_option_overrides.f: expected one value" },
	{ "1a 04 20 01 28 01 3a 03 0a 01 66",
	  "env_option_overrides.f: expected one value" },
	{ "1a 04 20 01 28 01 3a 09 0a 01 66 12 04 10 01 18 01",
	  "env_option_overrides.f: expected one value" },
	{ "1a 04 20 01 28 01 3a 0e 0a 01 66 12 09 21 00 00 00 00 00 00 f0 7f",
	  "env_option_overrides.f: expected a finite" },
	{ "1a 04 20 01 28 01 3a 07 0a 01 66 12 02 28 01",
	  "field 5 of OptionOverrideProto" },
	{ "1a 11 20 01 28 01 4a 0b 1a 04 0a 02 00 01 1a 03 0a 01 00", "several lengths" },
	{ "1a 04 20 01 28 01 0a 0f 10 0b 1a 01 02 2a 08 0a 01 00 32 03 0a 01 02",
	  "argument_layouts: expected shapes, as \"F32" },
	{ "1a 0e 20 01 28 01 12 08 10 0b 1a 01 02 32 01 01",
	  "result_layout: expected a shape" },
	{ "1a 0c 20 01 28 01 12 06 10 0d 22 02 10 0d",
	  "result_layout: expected a shape" },
	{ "1a 12 20 01 28 01 12 0c 10 0b 1a 02 02 03 2a 04 0a 02 00 00",
	  "result_layout" },
	{ "1a 08 20 01 28 01 12 02 10 11", "result_layout" },
};

TEST_EACH(bad_messages_are_refused, bad_messages)
{
	pf_autobuf struct pf_buf proto = PF_BUF_INIT;
	struct json_object *o = NULL;
	struct pf_err err = PF_ERR_INIT;

	unhex(bad_messages[_i].hex, &proto);
	check_result(pf_options_decode(proto.data, proto.len, &o, &err), -EINVAL, &err,
		     bad_messages[_i].says);
	ck_assert_ptr_null(o);
}

static const struct {
	const char *hex, *want; /* NULL: refused */
} assignments[] = {
	{ "08 01 10 01 1a 03 0a 01 02", "[[2]]" },
	{ "1a 04 0a 02 00 03 1a 04 0a 02 01 04", "[[0,1],[3,4]]" },
	{ "", "[]" },
	{ "1a 04 0a 02 00 03 1a 03 0a 01 01", NULL }, /* ragged */
	{ "1a 04 0a", NULL },
};

TEST_EACH(device_assignments_are_reported, assignments)
{
	const char *want = assignments[_i].want;
	pf_autobuf struct pf_buf proto = PF_BUF_INIT;
	struct json_object *o = NULL;

	unhex(assignments[_i].hex, &proto);
	ck_assert_int_eq(pf_options_assignment_json(proto.data, proto.len, &o, NULL),
			 want ? 0 : -EINVAL);
	if (want)
		check_json(o, want);
	else
		ck_assert_ptr_null(o);
}

/* --- plugins, defaults, the flags of other users --------------------------------------------- */

static const struct {
	const char *json;
	const char *want; /* NULL: none */
	int code;
} plugins[] = {
	{ "{}", NULL, 0 },
	{ "{'device':1}", NULL, 0 },
	{ "{'device':'odd'}", NULL, 0 },
	{ "{'plugin':'a'}", "a", 0 },
	{ "{'device':'cpu-0.115:1'}", "cpu-0.115", 0 },
	{ "{'device':'a:b:1','plugin':'a:b'}", "a:b", 0 },
	{ "{'device':'a:1','plugin':'b'}", NULL, -EINVAL },
	{ "{'plugin':3}", NULL, 0 },
};

TEST_EACH(names_a_plugin, plugins)
{
	struct json_object *options = json(plugins[_i].json);
	const char *name, *want = plugins[_i].want;
	size_t len;

	ck_assert_int_eq(pf_options_plugin(options, &name, &len, NULL), plugins[_i].code);
	if (plugins[_i].code == 0)
		ck_assert_int_eq(name != NULL, want != NULL);
	if (want) {
		ck_assert_uint_eq(len, strlen(want));
		ck_assert_mem_eq(name, want, len);
	}
	json_object_put(options);
}

/* A program's options, the mount's defaults, and both merged. */
static const struct {
	const char *own, *defaults, *want;
} merges[] = {
	{ "null", "{'plugin':'cpu','device_assignment':[[1]]}",
	  "{'plugin':'cpu','device_assignment':[[1]]}" },
	{ "null", "{'num_replicas':2}", "{'num_replicas':2}" },
	{ "{}", "{'num_replicas':2}", "{'num_replicas':2}" },
	{ "{'num_replicas':1}", "{'num_replicas':2,'profile_version':3}",
	  "{'num_replicas':1,'profile_version':3}" },
	{ "{'env_option_overrides':{'a':1,'b':2}}",
	  "{'env_option_overrides':{'b':3,'c':4}}",
	  "{'env_option_overrides':{'a':1,'b':2,'c':4}}" },
	{ "null", "{'env_option_overrides':{'b':3}}",
	  "{'env_option_overrides':{'b':3}}" },
	{ "{'env_option_overrides':5}", "{'env_option_overrides':{'b':3}}",
	  "{'env_option_overrides':5}" },
	/* One of them names the device. */
	{ "{'plugin':'b'}", "{'device':'a:1','num_replicas':1}",
	  "{'plugin':'b','num_replicas':1}" },
	{ "{'device':3}", "{'plugin':'a','device_assignment':[[0]]}", "{'device':3}" },
	{ "{'device_assignment':[[0],[1]]}",
	  "{'num_replicas':4,'num_partitions':2,'plugin':'a','x':1}",
	  "{'device_assignment':[[0],[1]],'x':1}" },
	{ "{'num_replicas':1}", "{'num_partitions':2,'plugin':'a'}",
	  "{'num_replicas':1,'num_partitions':2,'plugin':'a'}" },
};

TEST_EACH(defaults_are_merged, merges)
{
	struct json_object *own = json(merges[_i].own);
	struct json_object *mounts = json(merges[_i].defaults);

	check_json(pf_options_merge(own, mounts), merges[_i].want);
	check_json(mounts, merges[_i].defaults);
	json_object_put(own);
}

/* Options of a user who does not own the mount: TELLS is in the sentence; NULL: allowed. */
static const struct {
	const char *options, *tells;
} flags[] = {
	{ "{}", NULL },
	{ "[]", NULL },
	{ "{'num_replicas':2,'env_option_overrides':{}}", NULL },
	{ "{'env_option_overrides':['xla_dump_to']}", NULL }, /* no flags at all */
	{ "{'env_option_overrides':{'xla_cpu_enable_fast_min_max':false,"
	  "'xla_backend_optimization_level':1,'xla_gpu_ftz':'true'}}",
	  NULL },
	{ "{'env_option_overrides':{'xla_cpu_max_isa':'AVX2'}}", NULL },
	{ "{'env_option_overrides':{'xla_mine':3}}", NULL },
	{ "{'env_option_overrides':{'xla_dump_to':'/root/x'}}",
	  "env_option_overrides.xla_dump_to: only the mount's owner" },
	{ "{'env_option_overrides':{'xla_gpu_ftz':true,'xla_force_config':1}}",
	  "env_option_overrides.xla_force_config: only the mount's owner" },
	{ "{'env_option_overrides':{'xla_cpu_max_is':'AVX2'}}",
	  "only the mount's owner" },
	{ "{'env_option_overrides':{'xla_cpu_max_isa ':'AVX2'}}",
	  "only the mount's owner" },
	{ "{'debug_options':''}", "debug_options: only the mount's owner" },
	{ "{'comp_envs':'CgA='}", "comp_envs: only the mount's owner" },
	{ "{'run_backend_only':false}", "run_backend_only: only the mount's owner" },
	{ "{'env_option_overrides':{'':true}}", "only the mount's owner" },
	{ "{'env_option_overrides':{'xla_cpu_max_isa':'/etc/passwd'}}",
	  "found \"\\/etc\\/passwd\"" },
	{ "{'env_option_overrides':{'xla_cpu_max_isa':'A\\u0000/x'}}",
	  "expected a number" },
};

TEST_EACH(flags_for_all_users, flags)
{
	static const char *const more[] = { "xla_mine", NULL };
	struct json_object *o = json(flags[_i].options);
	struct pf_err err = PF_ERR_INIT;

	check_result(pf_options_check_flags(o, more, &err), flags[_i].tells ? -EPERM : 0,
		     &err, flags[_i].tells);
	json_object_put(o);
}
