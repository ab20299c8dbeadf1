/* SPDX-License-Identifier: Apache-2.0 */
/* What a plugin can tell about a compiled program. */
#include "pjrtfs/pjrt/executable.h"

#include <errno.h>
#include <string.h>

#include "pjrtfs/pjrt/api.h"

static int made(struct json_object *json, struct json_object **ret, struct pf_err *err)
{
	if (!json)
		return pf_err_set(err, -ENOMEM, "no memory to describe an executable");
	*ret = json;
	return 0;
}

int pj_executable_name(const struct pj_executable *x, struct json_object **ret,
		       struct pf_err *err)
{
	PJRT_Executable_Name_Args args = { PJ_SIZE(PJRT_Executable_Name_Args),
					   .executable = x->unloaded };
	int r = PJ_CALL(x->client->plugin, err, PJRT_Executable_Name, &args);

	return r < 0 ? r
		     : made(pj_string_json(args.executable_name,
					   args.executable_name_size),
			    ret, err);
}

int pj_executable_fingerprint(const struct pj_executable *x, struct json_object **ret,
			      struct pf_err *err)
{
	PJRT_Executable_Fingerprint_Args args = {
		PJ_SIZE(PJRT_Executable_Fingerprint_Args), .executable = x->unloaded
	};
	int r = PJ_CALL(x->client->plugin, err, PJRT_Executable_Fingerprint, &args);

	return r < 0 ? r
		     : made(pj_string_json(args.executable_fingerprint,
					   args.executable_fingerprint_size),
			    ret, err);
}

int pj_executable_code_size(const struct pj_executable *x, struct json_object **ret,
			    struct pf_err *err)
{
	PJRT_Executable_SizeOfGeneratedCodeInBytes_Args args = {
		PJ_SIZE(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args),
		.executable = x->unloaded
	};
	int r = PJ_CALL(x->client->plugin, err,
			PJRT_Executable_SizeOfGeneratedCodeInBytes, &args);

	if (r == 0 && args.size_in_bytes < 0)
		r = pf_err_set(err, -EOPNOTSUPP, "the plugin does not know it");
	return r < 0 ? r : made(json_object_new_int64(args.size_in_bytes), ret, err);
}

int pj_executable_cost(const struct pj_executable *x, struct json_object **ret,
		       struct pf_err *err)
{
	PJRT_Executable_GetCostAnalysis_Args args = {
		PJ_SIZE(PJRT_Executable_GetCostAnalysis_Args), .executable = x->unloaded
	};
	int r = PJ_CALL(x->client->plugin, err, PJRT_Executable_GetCostAnalysis, &args);

	return r < 0 ? r
		     : made(pj_values_json(args.properties, args.num_properties), ret,
			    err);
}

int pj_executable_memory(const struct pj_executable *x, struct json_object **ret,
			 struct pf_err *err)
{
	PJRT_Executable_GetCompiledMemoryStats_Args s;
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
	};
	struct json_object *object;
	int r;

	/* An older plugin leaves alone what it does not know: that is not 0. */
	memset(&s, 0xff, sizeof(s));
	s.struct_size = PJRT_Executable_GetCompiledMemoryStats_Args_STRUCT_SIZE;
	s.extension_start = NULL;
	s.executable = x->unloaded;
	r = PJ_CALL(x->client->plugin, err, PJRT_Executable_GetCompiledMemoryStats, &s);
	if (r < 0)
		return r;
	object = json_object_new_object();
	for (size_t i = 0; object && i < sizeof(fields) / sizeof(fields[0]); i++)
		if (*fields[i].value >= 0)
			json_object_object_add(object, fields[i].name,
					       json_object_new_int64(*fields[i].value));
	return made(object, ret, err);
}

/* The id of the client's device HANDLE. */
static int device_id(const struct pj_client *client, const PJRT_Device *handle)
{
	for (size_t i = 0; i < client->n_devices; i++)
		if (client->devices[i].handle == handle)
			return client->devices[i].id;
	return -1;
}

int pj_executable_devices(const struct pj_executable *x, struct json_object **ret,
			  struct pf_err *err)
{
	PJRT_LoadedExecutable_AddressableDevices_Args args = {
		PJ_SIZE(PJRT_LoadedExecutable_AddressableDevices_Args),
		.executable = x->loaded
	};
	int r = PJ_CALL(x->client->plugin, err, PJRT_LoadedExecutable_AddressableDevices,
			&args);
	struct json_object *list;

	if (r < 0)
		return r;
	list = json_object_new_array();
	for (size_t i = 0; list && i < args.num_addressable_devices; i++)
		json_object_array_add(list,
				      json_object_new_int(
					      device_id(x->client,
							args.addressable_devices[i])));
	return made(list, ret, err);
}

int pj_executable_memory_kinds(const struct pj_executable *x, struct json_object **ret,
			       struct pf_err *err)
{
	PJRT_Executable_OutputMemoryKinds_Args args = {
		PJ_SIZE(PJRT_Executable_OutputMemoryKinds_Args), .executable = x->unloaded
	};
	int r = PJ_CALL(x->client->plugin, err, PJRT_Executable_OutputMemoryKinds, &args);
	struct json_object *list;

	if (r < 0)
		return r;
	list = json_object_new_array();
	for (size_t i = 0; list && i < args.num_outputs; i++)
		json_object_array_add(list, pj_string_json(args.memory_kinds[i],
							   args.memory_kind_sizes[i]));
	return made(list, ret, err);
}

int pj_executable_assignment(const struct pj_executable *x, struct pf_buf *out,
			     struct pf_err *err)
{
	PJRT_LoadedExecutable_GetDeviceAssignment_Args args = {
		PJ_SIZE(PJRT_LoadedExecutable_GetDeviceAssignment_Args),
		.executable = x->loaded
	};
	int r = PJ_CALL(x->client->plugin, err, PJRT_LoadedExecutable_GetDeviceAssignment,
			&args);

	if (r < 0)
		return r;
	pf_buf_append(out, args.serialized_bytes, args.serialized_bytes_size);
	if (args.serialized_device_assignment_deleter)
		args.serialized_device_assignment_deleter(
			args.serialized_device_assignment);
	return out->failed ? pf_err_set(err, -ENOMEM, "no memory for an assignment") : 0;
}

static int optimized(const struct pj_executable *x, PJRT_Program *program,
		     struct pf_err *err)
{
	PJRT_Executable_OptimizedProgram_Args args = {
		PJ_SIZE(PJRT_Executable_OptimizedProgram_Args), .executable = x->unloaded,
		.program = program
	};

	return PJ_CALL(x->client->plugin, err, PJRT_Executable_OptimizedProgram, &args);
}

static bool has_format(const PJRT_Program *program, const char *format)
{
	return program->format_size == strlen(format) &&
	       memcmp(program->format, format, program->format_size) == 0;
}

int pj_executable_optimized_size(const struct pj_executable *x, size_t *len,
				 bool *with_config, struct pf_err *err)
{
	PJRT_Program program = { PJ_SIZE(PJRT_Program) };
	int r = optimized(x, &program, err);

	if (r < 0)
		return r;
	*with_config = has_format(&program, "hlo_with_config");
	if (!*with_config && !has_format(&program, "hlo"))
		return pf_err_set(err, -EOPNOTSUPP,
				  "the optimized program is in format %.*s, not in HLO",
				  (int)program.format_size, program.format);
	*len = program.code_size;
	return 0;
}

int pj_executable_optimized(const struct pj_executable *x, void *dst, size_t len,
			    struct pf_err *err)
{
	PJRT_Program program = { PJ_SIZE(PJRT_Program), .code = dst, .code_size = len };

	return optimized(x, &program, err);
}
