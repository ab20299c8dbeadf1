/* SPDX-License-Identifier: Apache-2.0 */
/* Clients, programs and topologies of real plugins, and of shortened tables that look older. */
#include "pjrt_fixture.h"

#include "pjrtfs/json.h"

static const char two_replicas[] = { 0x1a, 0x04, 0x20, 0x02, 0x28, 0x01 };

static const char add[] =
	"func.func public @main(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>)"
	" -> (tensor<2x2xf32>, tensor<i32>) {\n"
	"  %0 = stablehlo.add %a, %b : tensor<2x2xf32>\n"
	"  %1 = stablehlo.constant dense<7> : tensor<i32>\n"
	"  return %0, %1 : tensor<2x2xf32>, tensor<i32>\n"
	"}\n";

static _Alignas(64) float numbers[] = { 1, 2, 3, 4 };
static const struct pf_shape two_by_two = { .rank = 2, .dims = { 2, 2 } };

/* Memory I of the device that DEVICE describes. */
static struct json_object *memory_of(struct json_object *device, int i)
{
	return json_object_array_get_idx(json_object_object_get(device, "memories"),
					 (size_t)i);
}

TEST_ON_PLUGINS(plugin_and_client_describe_themselves)
{
	struct pj_plugin *plugin = load(plugins[_i]);
	struct pj_client *client = connect_client(plugin, "{\"cpu_device_count\":3}");
	struct json_object *attributes = NULL, *extensions = pj_plugin_extensions(plugin);
	struct json_object *json;
	int major, minor;

	pj_plugin_version(plugin, &major, &minor);
	ck_assert_int_eq(major, 0);
	ck_assert_int_ge(minor, 57);
	ck_assert_int_eq(pj_plugin_attributes(plugin, &attributes, NULL), 0);
	ck_assert_ptr_nonnull(
		json_object_object_get(attributes, "stablehlo_current_version"));
	ck_assert_ptr_nonnull(
		strstr(json_object_to_json_string(extensions), "\"Layouts\""));
	ck_assert_str_eq(client->platform, "cpu");
	ck_assert_uint_eq(client->n_devices, 3);
	for (size_t i = 0; i < client->n_devices; i++) {
		const struct pj_device *device = &client->devices[i];

		ck_assert_int_eq(device->id, (int)i);
		ck_assert(device->addressable);
		json = pj_device_json(plugin, device);
		ck_assert_uint_gt(strlen(pf_json_get_string(json, "kind")), 0);
		ck_assert_uint_gt(device->n_memories, 0);
		ck_assert_int_ge(device->default_memory, 0);
		ck_assert_str_eq(pf_json_get_string(memory_of(json,
							      device->default_memory),
						    "kind"),
				 "device");
		json_object_put(json);
	}
	json_object_put(attributes);
	json_object_put(extensions);
	pj_client_free(client);
	pj_plugin_free(plugin);
}

/* X, which is add, runs on numbers; the buffers of its results have their types and bytes. */
static void check_runs(const struct fixture *f, const struct pj_executable *x)
{
	static const float sums[] = { 2, 4, 6, 8 };
	static const int32_t seven = 7;
	struct PJRT_Buffer *out[2] = { NULL },
			   *in = upload(f, &f->here, numbers, sizeof(numbers),
					PF_DTYPE_F32, &two_by_two);
	struct PJRT_Buffer *const args[] = { in, in };
	const int64_t kept[] = { 0, 1 };
	const struct pj_run run = {
		.arguments = args, .n_arguments = 2, .kept = kept, .n_kept = 2
	};
	struct pf_err err = PF_ERR_INIT;

	ck_assert_ptr_eq(pj_buffer_address(f->plugin, in), numbers);
	ck_assert_msg(run_once(x, &run, out, &err) == 0, "%s", err.text);
	check_holds(f, out[0], PF_DTYPE_F32, sums, sizeof(sums));
	check_holds(f, out[1], PF_DTYPE_S32, &seven, sizeof(seven));
	pj_buffer_destroy(f->plugin, out[0]);
	pj_buffer_destroy(f->plugin, out[1]);
	pj_buffer_destroy(f->plugin, in);
}

TEST_ON_PLUGINS(program_runs)
{
	struct fixture f = begin(plugins[_i]);
	struct pj_executable *x = compile(f.client, add, one_device);

	ck_assert_uint_eq(x->n_results, 2);
	ck_assert_ptr_nonnull(x->results);
	ck_assert_int_eq(x->results[0].dtype, PF_DTYPE_F32);
	ck_assert(pf_shape_equal(&x->results[0].shape, &two_by_two));
	ck_assert_uint_eq(x->results[1].len, 4);
	check_runs(&f, x);
	pj_executable_free(x);
	end(&f);
}

/* A lone replica would wait for the other, and the plugin abort after a minute. */
TEST_ON_PLUGINS(lone_replica_is_refused)
{
	struct fixture f = begin(plugins[_i]);
	struct pj_executable *x = compile(f.client, add, two_replicas);
	struct PJRT_Buffer *out[2] = { NULL };
	const struct pj_run run = { .device = f.here.device };
	struct pf_err err = PF_ERR_INIT;

	ck_assert_int_eq(run_once(x, &run, out, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "2 x 1 devices"));
	pj_executable_free(x);
	end(&f);
}

TEST_ON_PLUGINS(facts_are_reported_or_refused)
{
	static pj_executable_fact *const facts[] = {
		pj_executable_name,         pj_executable_fingerprint,
		pj_executable_code_size,    pj_executable_cost,
		pj_executable_memory,       pj_executable_devices,
		pj_executable_memory_kinds,
	};
	struct fixture f = begin(plugins[_i]);
	struct pj_executable *x = compile(f.client, add, one_device);
	struct pf_err err = PF_ERR_INIT;
	struct json_object *assignment;
	enum pj_format format = PJ_FORMAT_MLIR;
	size_t len = 0;
	char *bytes;

	for (size_t i = 0; i < ARRAY_SIZE(facts); i++) {
		struct json_object *json = facts[i](x, &err);

		ck_assert(json || (err.code == -EOPNOTSUPP && err.text[0]));
		json_object_put(json);
	}
	assignment = pj_executable_assignment(x, &err);
	ck_assert_str_eq(pf_json_text(assignment), "[[0]]");
	json_object_put(assignment);
	ck_assert_int_eq(pj_executable_optimized_size(x, &len, &format, &err), 0);
	ck_assert_int_ne(format, PJ_FORMAT_MLIR);
	ck_assert_uint_gt(len, 0);
	bytes = calloc(1, len);
	ck_assert_int_eq(pj_executable_optimized(x, bytes, len, &err), 0);
	ck_assert_int_eq(bytes[0], 0x0a); /* field 1, a message or a string */
	free(bytes);
	pj_executable_free(x);
	end(&f);
}

/* The types that the API version allows, by the numbers of PJRT_Buffer_Type. */
TEST(new_types_need_new_plugins)
{
	struct pj_plugin *plugin = load(plugins[0]);
	struct pf_err err = PF_ERR_INIT;

	plugin->api.pjrt_api_version.minor_version = 62;
	ck_assert_int_eq(pj_plugin_check_dtype(plugin, PF_DTYPE_F8E3M4, &err), 0);
	ck_assert_int_eq(pj_plugin_check_dtype(plugin, PF_DTYPE_F4E2M1FN, &err),
			 -EOPNOTSUPP);
	plugin->api.pjrt_api_version.minor_version = 93;
	ck_assert_int_eq(pj_plugin_check_dtype(plugin, PF_DTYPE_F4E2M1FN, &err), 0);
	ck_assert_int_eq(pj_plugin_check_dtype(plugin, PF_DTYPE_S1, &err), -EOPNOTSUPP);
	ck_assert_ptr_nonnull(strstr(err.text, "0.94"));
	plugin->api.pjrt_api_version.minor_version = 94;
	ck_assert_int_eq(pj_plugin_check_dtype(plugin, PF_DTYPE_U1, &err), 0);
	pj_plugin_free(plugin);
}

/* A table that ends early: what lies beyond is not called, and said to be missing. */
TEST_ON_PLUGINS(short_tables_are_respected)
{
	PJRT_Api api = *table(plugins[_i]);
	struct pj_plugin *plugin = NULL;
	struct pf_err err = PF_ERR_INIT;
	struct pj_executable *x;
	struct json_object *json;
	struct fixture f;

	api.struct_size = offsetof(PJRT_Api, PJRT_Executable_OutputElementTypes);
	ck_assert_int_eq(pj_plugin_adopt(&api, &plugin, &err), 0);
	ck_assert(plugin->api.PJRT_Memory_Kind_Id == NULL);
	f = begin_with(plugin);
	json = pj_device_json(plugin, f.here.device);
	ck_assert_int_eq(json_object_get_int(
				 json_object_object_get(memory_of(json, 0), "kind_id")),
			 -1);
	json_object_put(json);
	x = compile(f.client, add, one_device);
	ck_assert_ptr_null(x->results);
	ck_assert_ptr_null(pj_executable_fingerprint(x, &err));
	ck_assert_int_eq(err.code, -EOPNOTSUPP);
	ck_assert_ptr_nonnull(strstr(err.text,
				     "the plugin has no PJRT_Executable_Fingerprint: "
				     "it speaks PJRT 0."));
	ck_assert_int_eq(err.pjrt_code, -1);
	check_runs(&f, x); /* still */
	pj_executable_free(x);
	end(&f);
}

TEST(options_are_checked)
{
	static const char *const bad[] = {
		"{\"cpu_device_count\":0}",
		"{\"cpu_device_count\":-1}",
		"{\"cpu_device_count\":1e9}",
		"{\"cpu_device_count\":\"4\"}",
		"{\"x\":null}",
		"{\"x\":[1,\"2\"]}",
		"[]",
	};
	struct pj_values values;
	struct json_object *json, *back;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		json = json_tokener_parse(bad[i]);
		ck_assert_int_eq(pj_values_init(&values, json, NULL), -EINVAL);
		json_object_put(json);
	}
	json = json_tokener_parse(
		"{\"s\":\"text\",\"i\":-5,\"b\":true,\"f\":0.5,\"l\":[1,2],\"m\":[3]}");
	ck_assert_int_eq(pj_values_init(&values, json, NULL), 0);
	ck_assert_uint_eq(values.n, 6);
	ck_assert_int_eq(values.items[0].type, PJRT_NamedValue_kString);
	ck_assert_uint_eq(values.items[0].value_size, 4);
	ck_assert_int_eq(values.items[1].int64_value, -5);
	ck_assert_int_eq(values.items[2].type, PJRT_NamedValue_kBool);
	ck_assert(values.items[3].float_value == 0.5f);
	ck_assert_int_eq(values.items[4].int64_array_value[1], 2);
	ck_assert_int_eq(values.items[5].int64_array_value[0], 3);
	/* And back: a round trip keeps all but the text's spaces. */
	back = pj_values_json(values.items, values.n);
	ck_assert_str_eq(json_object_to_json_string_ext(back, JSON_C_TO_STRING_PLAIN),
			 json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN));
	json_object_put(back);
	pj_values_release(&values);
	json_object_put(json);
}

/* --- topologies ------------------------------------------------------------------------------ */

TEST_ON_PLUGINS(topology_describes_the_devices)
{
	struct fixture f = begin(plugins[_i]);
	struct pf_err err = PF_ERR_INIT;
	struct json_object *o;
	struct pj_topology t;

	ck_assert_msg(pj_topology_of(f.client, &t, &err) == 0, "%s", err.text);
	o = pj_topology_json(&t);
	ck_assert_str_eq(pf_json_get_string(o, "platform"), "cpu");
	ck_assert_uint_eq(json_object_array_length(json_object_object_get(o, "devices")),
			  2);
	json_object_put(o);
	pj_topology_release(&t);
	end(&f);
}

/* A program compiled for the topology of two devices runs where those are. */
TEST_ON_PLUGINS(program_for_a_topology)
{
	const struct pj_source source = { add, sizeof(add) - 1, "mlir", one_device,
					  sizeof(one_device) };
	const struct pj_run run = { .n_arguments = 0 };
	pf_autobuf struct pf_buf bytes = PF_BUF_INIT, code = PF_BUF_INIT;
	struct fixture f = begin(plugins[_i]);
	struct pj_executable *x = NULL, *loaded = NULL;
	struct PJRT_Buffer *out[2] = { NULL };
	struct pf_err err = PF_ERR_INIT;
	struct pj_topology t;

	ck_assert_msg(pj_topology_of(f.client, &t, &err) == 0, "%s", err.text);
	ck_assert_msg(pj_topology_serialize(&t, &bytes, &err) == 0, "%s", err.text);
	pj_topology_release(&t);
	if (pj_topology_read(f.plugin, bytes.data, bytes.len, &t, &err) < 0) {
		/* Older plugins have no compiler for a topology of processors. */
		ck_assert_ptr_nonnull(strstr(err.text, "ompiler"));
		end(&f);
		return;
	}
	ck_assert_msg(pj_executable_compile_for(f.client, &t, &source, &x, &err) == 0,
		      "%s", err.text);
	ck_assert_int_eq(pj_executable_start(x, &run, out, NULL, &err), -EOPNOTSUPP);
	ck_assert_ptr_null(pj_executable_devices(x, &err));
	ck_assert_ptr_null(pj_executable_assignment(x, &err));
	ck_assert_msg(pj_executable_serialize(x, &code, &err) == 0, "%s", err.text);
	ck_assert_msg(pj_executable_load(f.client, code.data, code.len, &loaded, &err) ==
			      0,
		      "%s", err.text);
	check_runs(&f, loaded);
	pj_executable_free(loaded);
	pj_executable_free(x);
	end(&f);
}
