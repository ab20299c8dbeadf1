/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about a compiled program. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/json.h"
#include "pjrtfs/plugin_options.h"

int pj_executable_check_loaded(const struct pj_executable *x, struct pf_err *err)
{
	return x->loaded
		       ? 0
		       : pf_err_set(err, -EOPNOTSUPP,
				    "the program was compiled for a topology, and is on "
				    "no device here");
}

size_t pj_executable_find_devices(const struct pj_executable *x, PJRT_Device *const **ret,
				  struct pf_err *err)
{
	PJ_ARGS(LoadedExecutable_AddressableDevices, args, .executable = x->loaded);
	int r = pj_executable_check_loaded(x, err);

	if (r == 0)
		r = PJ_CALL(x->client->plugin, err, LoadedExecutable_AddressableDevices,
			    &args);
	if (r == 0)
		r = pj_given_list(args.addressable_devices, args.num_addressable_devices,
				  "PJRT_LoadedExecutable_AddressableDevices", err);
	*ret = args.addressable_devices;
	return r < 0 ? 0 : args.num_addressable_devices;
}

struct json_object *pj_executable_name(const struct pj_executable *x, struct pf_err *err)
{
	PJ_ARGS(Executable_Name, args, .executable = x->unloaded);

	if (PJ_CALL(x->client->plugin, err, Executable_Name, &args) < 0)
		return NULL;
	return pj_string_json(args.executable_name, args.executable_name_size);
}

static bool is_text(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isprint((unsigned char)text[i]))
			return false;
	return true;
}

/* A string: that of the plugin, or, if it is the bytes of a hash, as libtpu's, their hexadecimal digits. */
static struct json_object *digits_or_text(const char *text, size_t len)
{
	pf_autofree char *hex = NULL;

	if (!text || is_text(text, len))
		return pj_string_json(text, len);
	hex = malloc(2 * len + 1);
	return hex ? json_object_new_string(pf_hex((const uint8_t *)text, len, hex))
		   : NULL;
}

struct json_object *pj_executable_fingerprint(const struct pj_executable *x,
					      struct pf_err *err)
{
	PJ_ARGS(Executable_Fingerprint, args, .executable = x->unloaded);

	if (PJ_CALL(x->client->plugin, err, Executable_Fingerprint, &args) < 0)
		return NULL;
	return digits_or_text(args.executable_fingerprint,
			      args.executable_fingerprint_size);
}

struct json_object *pj_executable_code_size(const struct pj_executable *x,
					    struct pf_err *err)
{
	PJ_ARGS(Executable_SizeOfGeneratedCodeInBytes, args, .executable = x->unloaded);

	if (PJ_CALL(x->client->plugin, err, Executable_SizeOfGeneratedCodeInBytes,
		    &args) < 0)
		return NULL;
	if (args.size_in_bytes >= 0)
		return json_object_new_int64(args.size_in_bytes);
	pf_err_set(err, -EOPNOTSUPP, "the plugin does not know it");
	return NULL;
}

struct json_object *pj_executable_cost(const struct pj_executable *x, struct pf_err *err)
{
	PJ_ARGS(Executable_GetCostAnalysis, args, .executable = x->unloaded);

	if (PJ_CALL(x->client->plugin, err, Executable_GetCostAnalysis, &args) < 0 ||
	    pj_given_list(args.properties, args.num_properties,
			  "PJRT_Executable_GetCostAnalysis", err) < 0)
		return NULL;
	return pj_values_json(args.properties, args.num_properties);
}

/* Add NAME, the sum of the N SIZES, less ALIASED, which they count twice, if all of them are known. */
static void add_sum(struct json_object *o, const char *name, const int64_t *sizes,
		    size_t n, int64_t aliased)
{
	int64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		if (sizes[i] < 0 || __builtin_add_overflow(sum, sizes[i], &sum))
			return;
	if (aliased >= 0 && aliased <= sum)
		pf_json_add_int(o, name, sum - aliased);
}

struct json_object *pj_executable_memory(const struct pj_executable *x,
					 struct pf_err *err)
{
	struct pj_Executable_GetCompiledMemoryStats_Args s;
	const struct {
		const char *name;
		const int64_t *value;
	} fields[] = {
		{ "generated_code_size_in_bytes", &s.generated_code_size_in_bytes },
		{ "argument_size_in_bytes", &s.argument_size_in_bytes },
		{ "output_size_in_bytes", &s.output_size_in_bytes },
		{ "alias_size_in_bytes", &s.alias_size_in_bytes },
		{ "temp_size_in_bytes", &s.temp_size_in_bytes },
		{ "host_generated_code_size_in_bytes",
		  &s.host_generated_code_size_in_bytes },
		{ "host_argument_size_in_bytes", &s.host_argument_size_in_bytes },
		{ "host_output_size_in_bytes", &s.host_output_size_in_bytes },
		{ "host_alias_size_in_bytes", &s.host_alias_size_in_bytes },
		{ "host_temp_size_in_bytes", &s.host_temp_size_in_bytes },
		{ "peak_memory_in_bytes", &s.peak_memory_in_bytes },
		{ "total_size_in_bytes", &s.total_size_in_bytes },
		{ "total_allocation_bytes", &s.total_allocation_bytes },
		{ "indefinite_allocations", &s.indefinite_allocations },
		{ "peak_unpadded_heap_bytes", &s.peak_unpadded_heap_bytes },
	};
	struct json_object *object;

	/* An older plugin does not write the newer fields: they must not read as 0. */
	memset(&s, 0xff, sizeof(s));
	s.struct_size = sizeof(s);
	s.extension_start = NULL;
	s.executable = x->unloaded;
	if (PJ_CALL(x->client->plugin, err, Executable_GetCompiledMemoryStats,
		    (PJRT_Executable_GetCompiledMemoryStats_Args *)(void *)&s) < 0)
		return NULL;
	object = json_object_new_object();
	for (size_t i = 0; object && i < PF_ARRAY_SIZE(fields); i++)
		if (*fields[i].value >= 0)
			pf_json_add_int(object, fields[i].name, *fields[i].value);
	if (!object)
		return NULL;
	const int64_t device[] = { s.argument_size_in_bytes, s.output_size_in_bytes,
				   s.temp_size_in_bytes, s.generated_code_size_in_bytes };
	const int64_t host[] = { s.host_argument_size_in_bytes,
				 s.host_output_size_in_bytes, s.host_temp_size_in_bytes,
				 s.host_generated_code_size_in_bytes };

	add_sum(object, "requirements", device, PF_ARRAY_SIZE(device),
		s.alias_size_in_bytes);
	add_sum(object, "host_requirements", host, PF_ARRAY_SIZE(host),
		s.host_alias_size_in_bytes);
	return object;
}

struct json_object *pj_executable_devices(const struct pj_executable *x,
					  struct pf_err *err)
{
	PJRT_Device *const *devices;
	struct pf_err why = PF_ERR_INIT;
	size_t n = pj_executable_find_devices(x, &devices, &why);
	struct json_object *list = why.code ? NULL : json_object_new_array();

	if (why.code && err)
		*err = why;
	for (size_t i = 0; list && i < n; i++) {
		const struct pj_device *device = pj_client_device(x->client, devices[i]);

		json_object_array_add(list,
				      json_object_new_int(device ? device->id : -1));
	}
	return list;
}

/* The N KINDS of memory that FUNCTION gave, with their SIZES. */
static struct json_object *memory_kinds(const char *const *kinds, const size_t *sizes,
					size_t n, const char *function,
					struct pf_err *err)
{
	struct json_object *list;

	if (pj_given_list(kinds, n, function, err) < 0 ||
	    pj_given_list(sizes, n, function, err) < 0)
		return NULL;
	list = json_object_new_array();
	for (size_t i = 0; list && i < n; i++)
		json_object_array_add(list, pj_string_json(kinds[i], sizes[i]));
	return list;
}

struct json_object *pj_executable_memory_kinds(const struct pj_executable *x,
					       struct pf_err *err)
{
	PJ_ARGS(Executable_OutputMemoryKinds, args, .executable = x->unloaded);

	if (PJ_CALL(x->client->plugin, err, Executable_OutputMemoryKinds, &args) < 0)
		return NULL;
	return memory_kinds(args.memory_kinds, args.memory_kind_sizes, args.num_outputs,
			    "PJRT_Executable_OutputMemoryKinds", err);
}

struct json_object *pj_executable_parameter_memory_kinds(const struct pj_executable *x,
							 struct pf_err *err)
{
	PJ_NEWER_ARGS(Executable_ParameterMemoryKinds, args, .executable = x->unloaded);

	if (PJ_CALL_NEWER(x->client->plugin, err, Executable_ParameterMemoryKinds,
			  &args) < 0)
		return NULL;
	return memory_kinds(args.memory_kinds, args.memory_kind_sizes,
			    args.num_parameters, "PJRT_Executable_ParameterMemoryKinds",
			    err);
}

struct json_object *pj_executable_assignment(const struct pj_executable *x,
					     struct pf_err *err)
{
	PJ_ARGS(LoadedExecutable_GetDeviceAssignment, args, .executable = x->loaded);
	struct json_object *list = NULL;

	if (pj_executable_check_loaded(x, err) < 0 ||
	    PJ_CALL(x->client->plugin, err, LoadedExecutable_GetDeviceAssignment, &args) <
		    0)
		return NULL;
	if (pj_given_list(args.serialized_bytes, args.serialized_bytes_size,
			  "PJRT_LoadedExecutable_GetDeviceAssignment", err) == 0)
		(void)pf_options_assignment_json(args.serialized_bytes,
						 args.serialized_bytes_size, &list, err);
	if (args.serialized_device_assignment_deleter)
		args.serialized_device_assignment_deleter(
			args.serialized_device_assignment);
	return list;
}
