/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptions that the worker sends to the daemon as JSON. */
#include <errno.h>

#include "internal.h"
#include "pjrtfs/json.h"

struct json_object *pf_describe_failure(const struct pf_err *err)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "ok", json_object_new_boolean(false));
	pf_json_add_int(object, "errno", err->code);
	pf_json_add_string(object, "error", err->text);
	return object;
}

struct json_object *pf_describe_unavailable(const struct pf_err *err)
{
	struct json_object *object = json_object_new_object();

	pf_json_add_string(object, "unavailable", err->text);
	return object;
}

/* The names of the extensions that DETAILS lists. */
static struct json_object *names_of(struct json_object *details)
{
	struct json_object *names = json_object_new_array();

	for (size_t i = 0; names && i < json_object_array_length(details); i++)
		json_object_array_add(names,
				      json_object_get(json_object_object_get(
					      json_object_array_get_idx(details, i),
					      "name")));
	return names;
}

struct json_object *pf_describe(const struct pj_plugin *plugin,
				const struct pj_client *client)
{
	struct json_object *object = json_object_new_object();
	struct json_object *version = json_object_new_array();
	struct json_object *devices = json_object_new_array();
	struct json_object *attributes = NULL, *details;
	int major, minor;

	pj_plugin_version(plugin, &major, &minor);
	json_object_array_add(version, json_object_new_int(major));
	json_object_array_add(version, json_object_new_int(minor));
	if (pj_plugin_attributes(plugin, &attributes, NULL) < 0)
		attributes = json_object_new_object();
	json_object_object_add(object, "ok", json_object_new_boolean(true));
	json_object_object_add(object, "api_version", version);
	if (client && client->why_none) {
		pf_json_add_string(object, "compiler", client->why_none);
	} else if (client) {
		pf_json_add_string(object, "platform", client->platform);
		pf_json_add_string(object, "platform_version", client->platform_version);
		pf_json_add_int(object, "process_index", client->process_index);
	}
	json_object_object_add(object, "attributes", attributes);
	details = pj_plugin_extensions(plugin);
	json_object_object_add(object, "extensions", names_of(details));
	json_object_object_add(object, "extension_details", details);
	json_object_object_add(object, "functions", pj_plugin_functions(plugin));
	for (size_t i = 0; client && i < client->n_devices; i++)
		json_object_array_add(devices,
				      pj_device_json(plugin, &client->devices[i]));
	json_object_object_add(object, "devices", devices);
	return object;
}

static void add_fact(struct json_object *object, const char *key,
		     pj_executable_fact *fact, const struct pj_executable *executable)
{
	struct pf_err err = PF_ERR_INIT;
	struct json_object *value;

	pf_err_set(&err, -ENOMEM, "no memory to describe an executable");
	value = fact(executable, &err);
	json_object_object_add(object, key,
			       value ? value : pf_describe_unavailable(&err));
}

static void add_results(struct json_object *object,
			const struct pj_executable *executable)
{
	struct json_object *types = json_object_new_array(),
			   *dims = json_object_new_array();

	for (size_t i = 0; types && dims && i < executable->n_results; i++) {
		const struct pj_result *result = &executable->results[i];

		json_object_array_add(types, json_object_new_int((int)result->dtype));
		json_object_array_add(dims, pf_shape_json(&result->shape));
	}
	json_object_object_add(object, "output_types", types);
	json_object_object_add(object, "output_dims", dims);
}

struct json_object *pf_describe_executable(const struct pj_executable *executable)
{
	struct json_object *object = json_object_new_object();
	struct json_object *abi = pj_executable_abi(executable, NULL);
	struct pf_err err = PF_ERR_INIT;

	add_fact(object, "name", pj_executable_name, executable);
	pf_json_add_int(object, "num_replicas", (int64_t)executable->num_replicas);
	pf_json_add_int(object, "num_partitions", (int64_t)executable->num_partitions);
	pf_json_add_int(object, "num_outputs", (int64_t)executable->n_results);
	add_fact(object, "fingerprint", pj_executable_fingerprint, executable);
	add_fact(object, "generated_code_size", pj_executable_code_size, executable);
	add_fact(object, "cost", pj_executable_cost, executable);
	add_fact(object, "memory", pj_executable_memory, executable);
	add_fact(object, "devices", pj_executable_devices, executable);
	add_fact(object, "device_assignment", pj_executable_assignment, executable);
	add_fact(object, "input_memory_kinds", pj_executable_parameter_memory_kinds,
		 executable);
	add_fact(object, "output_memory_kinds", pj_executable_memory_kinds, executable);
	if (abi) /* few plugins have it */
		json_object_object_add(object, "abi_version", abi);
	if (executable->topology.handle) {
		pf_json_add(object, "topology",
			    pj_topology_platform(&executable->topology));
		pf_json_add(object, "topology_devices",
			    pj_topology_kinds(&executable->topology));
	}
	if (executable->results) {
		add_results(object, executable);
		return object;
	}
	pf_err_set(&err, -EOPNOTSUPP, "the plugin does not tell before an execution");
	json_object_object_add(object, "output_types", pf_describe_unavailable(&err));
	json_object_object_add(object, "output_dims", pf_describe_unavailable(&err));
	return object;
}
