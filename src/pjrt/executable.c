/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling and executing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/json.h"
#include "pjrtfs/pjrt.h"
#include "pjrtfs/plugin_options.h"

/* An argument that a program gets in every execution, before those that its callers name. */

struct pj_first {
	int32_t value;   /* buffers may lie in it */
	bool any_device; /* the buffers are of the client's devices, not of the program's */
	size_t n;
	struct PJRT_Buffer *buffers[]; /* owned; NULL: no device of this process */
};

/* Is X on devices of this process? */
static int check_loaded(const struct pj_executable *x, struct pf_err *err)
{
	return x->loaded
		       ? 0
		       : pf_err_set(err, -EOPNOTSUPP,
				    "the program was compiled for a topology, and is on "
				    "no device here");
}

/* The devices that X was compiled for.  None: it is for any, or the plugin does not say (*ERR). */
static size_t find_devices(const struct pj_executable *x, PJRT_Device *const **ret,
			   struct pf_err *err)
{
	PJ_ARGS(LoadedExecutable_AddressableDevices, args, .executable = x->loaded);
	int r = check_loaded(x, err);

	if (r == 0)
		r = PJ_CALL(x->client->plugin, err, LoadedExecutable_AddressableDevices,
			    &args);
	if (r == 0)
		r = pj_given_list(args.addressable_devices, args.num_addressable_devices,
				  "PJRT_LoadedExecutable_AddressableDevices", err);
	*ret = args.addressable_devices;
	return r < 0 ? 0 : args.num_addressable_devices;
}

/* The client's description of DEVICE; NULL: it has none. */
static const struct pj_device *describe(const struct pj_client *client,
					const PJRT_Device *device)
{
	for (size_t i = 0; i < client->n_devices; i++)
		if (client->devices[i].handle == device)
			return &client->devices[i];
	return NULL;
}

static int make_buffer(const struct pj_client *client, const struct pj_device *device,
		       const int32_t *value, struct PJRT_Buffer **ret, struct pf_err *err)
{
	static const struct pf_shape scalar = { .rank = 0 };
	const struct pj_place place = { .device = device };
	const void *alias;

	return pj_buffer_from_host(client, &place, value, sizeof(*value), PF_DTYPE_S32,
				   &scalar, ret, &alias, err);
}

int pj_executable_set_first(struct pj_executable *x, int32_t value, struct pf_err *err)
{
	const struct pj_client *client = x->client;
	PJRT_Device *const *devices = NULL;
	size_t own = find_devices(x, &devices, NULL), n = own ? own : client->n_devices;
	int r = 0;

	x->first = calloc(1, sizeof(*x->first) + n * sizeof(x->first->buffers[0]));
	if (!x->first)
		return pf_err_set(err, -ENOMEM, "no memory for an executable");
	x->first->value = value;
	x->first->any_device = !own;
	x->first->n = n;
	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct pj_device *device =
			own ? describe(client, devices[i]) : &client->devices[i];

		if (device && device->addressable)
			r = make_buffer(client, device, &x->first->value,
					&x->first->buffers[i], err);
	}
	return r < 0 ? pf_err_wrap(err, r, "the number of the platform") : 0;
}

static void first_free(struct pj_executable *x)
{
	if (!x->first)
		return;
	for (size_t i = 0; i < x->first->n; i++)
		pj_buffer_destroy(x->client->plugin, x->first->buffers[i]);
	free(x->first);
}

/* The buffer for device D of RUN; NULL: none. */
static struct PJRT_Buffer *buffer_for(const struct pj_executable *x,
				      const struct pj_run *run, size_t d)
{
	const struct pj_first *first = x->first;

	if (!run->device != !first->any_device)
		return NULL;
	if (run->device)
		d = (size_t)(run->device - x->client->devices);
	return d < first->n ? first->buffers[d] : NULL;
}

/*
 * Put X's, which has one, before the arguments of RUN, which is on N_DEVICES.  RUN's lists are
 * *ROOM's from then on: the caller frees it, also after a failure, when the plugin has read them.
 * -EINVAL: a device that X is not for; -ENOMEM.
 */
static int first_add(const struct pj_executable *x, size_t n_devices, struct pj_run *run,
		     void **room, struct pf_err *err)
{
	size_t n = run->n_arguments + 1;
	struct PJRT_Buffer **buffers =
		malloc(n_devices * n * sizeof(*buffers) + n * sizeof(*run->kept));
	int64_t *kept = (int64_t *)(buffers + n_devices * n);

	*room = buffers;
	if (!buffers)
		return pf_err_set(err, -ENOMEM, "no memory for an execution");
	for (size_t d = 0; d < n_devices; d++) {
		buffers[d * n] = buffer_for(x, run, d);
		if (!buffers[d * n])
			return pf_err_set(err, -EINVAL,
					  "the program has no number of the platform "
					  "for this device");
		if (n > 1)
			memcpy(buffers + d * n + 1, run->arguments + d * (n - 1),
			       (n - 1) * sizeof(*buffers));
	}
	kept[0] = 0;
	for (size_t i = 0; i < run->n_kept; i++)
		kept[i + 1] = run->kept[i] + 1;
	run->arguments = buffers;
	run->n_arguments = n;
	run->kept = kept;
	run->n_kept++;
	return 0;
}

/*
 * Read the results' types and sizes once, so that executions need not.  If the plugin cannot
 * say, or this build does not know a type, results stays NULL: then every execution reads them
 * from its buffers.
 */
static int add_results(struct pj_executable *x, struct pf_err *err)
{
	PJ_ARGS(Executable_OutputElementTypes, types, .executable = x->unloaded);
	PJ_ARGS(Executable_OutputDimensions, dims, .executable = x->unloaded);
	const struct pj_plugin *plugin = x->client->plugin;
	pf_autofree struct pj_result *results = NULL;
	const int64_t *d;

	if (PJ_CALL(plugin, NULL, Executable_OutputElementTypes, &types) < 0 ||
	    PJ_CALL(plugin, NULL, Executable_OutputDimensions, &dims) < 0 ||
	    types.num_output_types != x->n_results || dims.num_outputs != x->n_results ||
	    !types.output_types || !dims.dim_sizes)
		return 0;
	results = calloc(x->n_results + 1, sizeof(*results));
	if (!results)
		return pf_err_set(err, -ENOMEM, "no memory for an executable");
	d = dims.dims;
	for (size_t i = 0; i < x->n_results; i++) {
		struct pj_result *result = &results[i];
		size_t rank = dims.dim_sizes[i];

		result->dtype = (enum pf_dtype)types.output_types[i];
		if (rank > PF_MAX_RANK || (rank && !d))
			return 0;
		result->shape.rank = (unsigned)rank;
		for (size_t k = 0; k < rank; k++)
			result->shape.dims[k] = *d++;
		if (result->dtype == PF_DTYPE_TOKEN)
			continue;
		if (!pf_dtype_valid((int)result->dtype) ||
		    pf_shape_bytes(&result->shape, result->dtype, &result->len, NULL) < 0)
			return 0;
	}
	x->results = pf_steal(&results);
	return 0;
}

static int add_counts(struct pj_executable *x, struct pf_err *err)
{
	const struct pj_plugin *plugin = x->client->plugin;
	PJ_ARGS(Executable_NumOutputs, outputs, .executable = x->unloaded);
	PJ_ARGS(Executable_NumReplicas, replicas, .executable = x->unloaded);
	PJ_ARGS(Executable_NumPartitions, partitions, .executable = x->unloaded);
	PJRT_Device *const *devices;
	int r = PJ_CALL(plugin, err, Executable_NumOutputs, &outputs);

	if (r == 0)
		r = PJ_CALL(plugin, err, Executable_NumReplicas, &replicas);
	if (r == 0)
		r = PJ_CALL(plugin, err, Executable_NumPartitions, &partitions);
	if (r < 0)
		return r;
	x->n_results = outputs.num_outputs;
	x->num_replicas = replicas.num_replicas;
	x->num_partitions = partitions.num_partitions;
	x->n_rows = x->num_replicas * x->num_partitions;
	/* Other processes of a group have the other devices. */
	if (x->n_rows > 1 && x->loaded) {
		size_t n = find_devices(x, &devices, NULL);

		if (n && n < x->n_rows)
			x->n_rows = n;
	}
	return add_results(x, err);
}

/*
 * Make an executable of LOADED, which is given: it is destroyed if that fails.
 * PJRT: PJRT_LoadedExecutable_GetExecutable.
 */
static int pj_executable_adopt(const struct pj_client *client,
			       PJRT_LoadedExecutable *loaded, struct pj_executable **ret,
			       struct pf_err *err)
{
	PJ_ARGS(LoadedExecutable_GetExecutable, get, .loaded_executable = loaded);
	PJ_ARGS(LoadedExecutable_Destroy, destroy, .executable = loaded);
	PF_CLEANUP(pj_executable_freep) struct pj_executable *x = calloc(1, sizeof(*x));
	int r;

	if (!x) {
		(void)PJ_CALL(client->plugin, NULL, LoadedExecutable_Destroy, &destroy);
		return pf_err_set(err, -ENOMEM, "no memory for an executable");
	}
	x->client = client;
	x->loaded = loaded;
	r = PJ_CALL(client->plugin, err, LoadedExecutable_GetExecutable, &get);
	if (r == 0)
		r = pj_given(get.executable, "PJRT_LoadedExecutable_GetExecutable", err);
	if (r < 0)
		return r;
	x->unloaded = get.executable;
	r = add_counts(x, err);
	if (r < 0)
		return r;
	*ret = pf_steal(&x);
	return 0;
}

/* Copy SOURCE, because the table says char *, not const char *: a plugin may write into it.  *CODE,
 * which the caller frees, holds what PROGRAM then borrows. */
static int copy_source(const struct pj_source *source, char **code, PJRT_Program *program,
		       struct pf_err *err)
{
	*code = malloc(source->len + 1);
	if (!*code)
		return pf_err_set(err, -ENOMEM, "no memory for a program of %zu bytes",
				  source->len);
	if (source->options_len == 0)
		return pf_err_set(err, -EINVAL, "compile options without replicas");
	memcpy(*code, source->code, source->len);
	(*code)[source->len] = '\0';
	*program = (PJRT_Program){ .struct_size = PJRT_Program_STRUCT_SIZE,
				   .code = *code,
				   .code_size = source->len,
				   .format = source->format,
				   .format_size = strlen(source->format) };
	return 0;
}

int pj_executable_compile(const struct pj_client *client, const struct pj_source *source,
			  struct pj_executable **ret, struct pf_err *err)
{
	pf_autofree char *code = NULL;
	PJRT_Program program;
	PJ_ARGS(Client_Compile, args, .client = client->handle, .program = &program,
		.compile_options = source->options,
		.compile_options_size = source->options_len);
	int r = copy_source(source, &code, &program, err);

	if (r < 0)
		return r;
	/* The table has it: a plugin without is refused. */
	r = pj_check_compile(client->plugin,
			     client->plugin->api.PJRT_Client_Compile(&args), err);
	if (r == 0)
		r = pj_given(args.executable, "PJRT_Client_Compile", err);
	return r < 0 ? r : pj_executable_adopt(client, args.executable, ret, err);
}

int pj_executable_compile_for(const struct pj_client *client,
			      struct pj_topology *topology,
			      const struct pj_source *source, struct pj_executable **ret,
			      struct pf_err *err)
{
	PF_CLEANUP(pj_executable_freep) struct pj_executable *x = calloc(1, sizeof(*x));
	pf_autofree char *code = NULL;
	PJRT_Program program;
	PJ_ARGS(Compile, args, .topology = topology->handle, .program = &program,
		.compile_options = source->options,
		.compile_options_size = source->options_len);
	int r;

	if (!x)
		return pf_err_set(err, -ENOMEM, "no memory for an executable");
	x->client = client;
	if (!client->plugin->api.PJRT_Compile)
		return pj_missing(client->plugin, "PJRT_Compile", err);
	r = copy_source(source, &code, &program, err);
	if (r < 0)
		return r;
	r = pj_check_compile(client->plugin, client->plugin->api.PJRT_Compile(&args),
			     err);
	if (r == 0)
		r = pj_given(args.executable, "PJRT_Compile", err);
	if (r < 0)
		return r;
	x->unloaded = args.executable;
	r = add_counts(x, err);
	if (r < 0)
		return r;
	x->topology = *topology;
	*topology = (struct pj_topology){ 0 };
	*ret = pf_steal(&x);
	return 0;
}

void pj_executable_free(struct pj_executable *x)
{
	PJ_ARGS(Executable_Destroy, unloaded);
	PJ_ARGS(LoadedExecutable_Destroy, loaded);

	if (!x)
		return;
	unloaded.executable = x->unloaded;
	loaded.executable = x->loaded;
	first_free(x);
	if (x->unloaded)
		(void)PJ_CALL(x->client->plugin, NULL, Executable_Destroy, &unloaded);
	if (x->loaded)
		(void)PJ_CALL(x->client->plugin, NULL, LoadedExecutable_Destroy, &loaded);
	pj_topology_release(&x->topology);
	free(x->results);
	free(x);
}

/* Await all events, also after a failure: no device may still use buffers that are freed. */
int pj_executable_await(const struct pj_executable *x, size_t n, struct PJRT_Event **done,
			struct pf_err *err)
{
	int r = 0;

	for (size_t d = 0; d < n; d++) {
		struct pf_err later = PF_ERR_INIT;
		int code =
			pj_event_await(x->client->plugin, pf_steal(&done[d]),
				       "PJRT_LoadedExecutable_Execute", r ? &later : err);

		r = r ? r : code;
	}
	return r;
}

/* Has the plugin given all results, and each device's event?  If not, what it gave is destroyed. */
static int check_given(const struct pj_executable *x, size_t n, struct PJRT_Event **done,
		       struct PJRT_Buffer **results, struct pf_err *err)
{
	const struct pj_plugin *plugin = x->client->plugin;
	int r = 0;

	for (size_t i = 0; r == 0 && i < n * x->n_results; i++)
		r = pj_given(results[i], "PJRT_LoadedExecutable_Execute", err);
	for (size_t d = 0; r == 0 && d < n; d++)
		r = pj_given_event(done[d], "PJRT_LoadedExecutable_Execute", err);
	if (r == 0)
		return 0;
	/* A device without an event may still use the arguments until its results are ready. */
	for (size_t i = 0; i < n * x->n_results; i++)
		if (results[i])
			(void)pj_buffer_await(plugin, results[i], NULL);
	(void)pj_executable_await(x, n, done, NULL);
	for (size_t i = 0; i < n * x->n_results; i++)
		pj_buffer_destroy(plugin, results[i]);
	return r;
}

/* All arguments are in RUN, which is on N devices. */
static int start(const struct pj_executable *x, const struct pj_run *run, size_t n,
		 struct PJRT_Buffer **results, struct PJRT_Event **done,
		 struct pf_err *err)
{
	PJRT_ExecuteOptions options = { .struct_size = PJRT_ExecuteOptions_STRUCT_SIZE,
					.launch_id = run->launch_id,
					.context = run->context,
					.non_donatable_input_indices = run->kept,
					.num_non_donatable_input_indices = run->n_kept };
	/* The lists that the plugin wants, one a device. */
	PJRT_Buffer *const *arguments = run->arguments, *const **argument_lists =
								&arguments;
	PJRT_Buffer **outputs = results, ***output_lists = &outputs;
	PJ_ARGS(LoadedExecutable_Execute, args, .executable = x->loaded,
		.options = &options, .num_devices = n, .num_args = run->n_arguments,
		.device_complete_events = done,
		.execute_device = run->device ? run->device->handle : NULL);
	pf_autofree void *room = NULL;
	int r;

	if (n > 1) {
		room = calloc(n, sizeof(*argument_lists) + sizeof(*output_lists));
		if (!room)
			return pf_err_set(err, -ENOMEM, "no memory for an execution");
		argument_lists = room;
		output_lists = (PJRT_Buffer ***)(argument_lists + n);
	}
	for (size_t d = 0; d < n; d++) {
		argument_lists[d] = run->arguments + d * run->n_arguments;
		output_lists[d] = results + d * x->n_results;
	}
	args.argument_lists = argument_lists;
	args.output_lists = output_lists;
	memset(done, 0, n * sizeof(*done));
	memset(results, 0, n * x->n_results * sizeof(struct PJRT_Buffer *));
	r = PJ_CALL(x->client->plugin, err, LoadedExecutable_Execute, &args);
	return r < 0 ? r : check_given(x, n, done, results, err);
}

int pj_executable_start(const struct pj_executable *x, const struct pj_run *run,
			struct PJRT_Buffer **results, struct PJRT_Event **done,
			struct pf_err *err)
{
	size_t n = run->n_devices ? run->n_devices : 1;
	pf_autofree void *room = NULL;
	struct pj_run all;
	int r = check_loaded(x, err);

	if (r < 0)
		return r;
	/* A single replica waits for the others, and plugins abort after a minute. */
	if (x->n_rows != n || n > PJ_MAX_DEVICES)
		return pf_err_set(
			err, -EINVAL,
			"the program is for %zu x %zu devices, this runs it on %zu",
			x->num_replicas, x->num_partitions, n);
	if (!x->first)
		return start(x, run, n, results, done, err);
	all = *run;
	r = first_add(x, n, &all, &room, err);
	return r < 0 ? r : start(x, &all, n, results, done, err);
}

/* Facts about a compiled program. */

struct json_object *pj_executable_name(const struct pj_executable *x, struct pf_err *err)
{
	PJ_ARGS(Executable_Name, args, .executable = x->unloaded);

	if (PJ_CALL(x->client->plugin, err, Executable_Name, &args) < 0)
		return NULL;
	return pj_string_json(args.executable_name, args.executable_name_size);
}

struct json_object *pj_executable_fingerprint(const struct pj_executable *x,
					      struct pf_err *err)
{
	PJ_ARGS(Executable_Fingerprint, args, .executable = x->unloaded);

	if (PJ_CALL(x->client->plugin, err, Executable_Fingerprint, &args) < 0)
		return NULL;
	return pj_string_json(args.executable_fingerprint,
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

	/* An older plugin does not write the newer fields: they must not read as 0. */
	memset(&s, 0xff, sizeof(s));
	s.struct_size = PJRT_Executable_GetCompiledMemoryStats_Args_STRUCT_SIZE;
	s.extension_start = NULL;
	s.executable = x->unloaded;
	if (PJ_CALL(x->client->plugin, err, Executable_GetCompiledMemoryStats, &s) < 0)
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
	size_t n = find_devices(x, &devices, &why);
	struct json_object *list = why.code ? NULL : json_object_new_array();

	if (why.code && err)
		*err = why;
	for (size_t i = 0; list && i < n; i++) {
		const struct pj_device *device = describe(x->client, devices[i]);

		json_object_array_add(list,
				      json_object_new_int(device ? device->id : -1));
	}
	return list;
}

struct json_object *pj_executable_memory_kinds(const struct pj_executable *x,
					       struct pf_err *err)
{
	PJ_ARGS(Executable_OutputMemoryKinds, args, .executable = x->unloaded);
	struct json_object *list;

	if (PJ_CALL(x->client->plugin, err, Executable_OutputMemoryKinds, &args) < 0 ||
	    pj_given_list(args.memory_kinds, args.num_outputs,
			  "PJRT_Executable_OutputMemoryKinds", err) < 0 ||
	    pj_given_list(args.memory_kind_sizes, args.num_outputs,
			  "PJRT_Executable_OutputMemoryKinds", err) < 0)
		return NULL;
	list = json_object_new_array();
	for (size_t i = 0; list && i < args.num_outputs; i++)
		json_object_array_add(list, pj_string_json(args.memory_kinds[i],
							   args.memory_kind_sizes[i]));
	return list;
}

struct json_object *pj_executable_assignment(const struct pj_executable *x,
					     struct pf_err *err)
{
	PJ_ARGS(LoadedExecutable_GetDeviceAssignment, args, .executable = x->loaded);
	struct json_object *list = NULL;

	if (check_loaded(x, err) < 0 ||
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

static int optimized(const struct pj_executable *x, PJRT_Program *program,
		     struct pf_err *err)
{
	PJ_ARGS(Executable_OptimizedProgram, args, .executable = x->unloaded,
		.program = program);

	return PJ_CALL(x->client->plugin, err, Executable_OptimizedProgram, &args);
}

static bool has_format(const PJRT_Program *program, const char *format)
{
	return program->format && program->format_size == strlen(format) &&
	       memcmp(program->format, format, program->format_size) == 0;
}

int pj_executable_optimized_size(const struct pj_executable *x, size_t *len,
				 bool *with_config, struct pf_err *err)
{
	PJRT_Program program = { .struct_size = PJRT_Program_STRUCT_SIZE };
	int r = optimized(x, &program, err);

	if (r < 0)
		return r;
	*with_config = has_format(&program, "hlo_with_config");
	if (!*with_config && !has_format(&program, "hlo"))
		return pf_err_set(err, -EOPNOTSUPP,
				  "the optimized program is in format %.*s, not in HLO",
				  program.format ? (int)program.format_size : 0,
				  program.format);
	*len = program.code_size;
	return 0;
}

int pj_executable_optimized(const struct pj_executable *x, void *dst, size_t len,
			    struct pf_err *err)
{
	PJRT_Program program = { .struct_size = PJRT_Program_STRUCT_SIZE,
				 .code = dst,
				 .code_size = len };

	return optimized(x, &program, err);
}

/* Compiled programs as bytes, and back. */

int pj_executable_serialize(const struct pj_executable *x, struct pf_buf *out,
			    struct pf_err *err)
{
	PJ_ARGS(Executable_Serialize, args, .executable = x->unloaded);
	int r;

	if (x->was_loaded)
		return pf_err_set(
			err, -EINVAL,
			"the program was loaded, not compiled: it is serialized "
			"already");
	r = PJ_CALL(x->client->plugin, err, Executable_Serialize, &args);
	if (r < 0)
		return r;
	if (args.serialized_bytes)
		pf_buf_append(out, args.serialized_bytes, args.serialized_bytes_size);
	if (args.serialized_executable && args.serialized_executable_deleter)
		args.serialized_executable_deleter(args.serialized_executable);
	if (out->failed)
		return pf_err_set(err, -ENOMEM, "no memory for a serialized program");
	return out->len ? 0
			: pf_err_set(err, -EOPNOTSUPP,
				     "the plugin serialized a program to nothing");
}

int pj_executable_load(const struct pj_client *client, const void *bytes, size_t len,
		       struct pj_executable **ret, struct pf_err *err)
{
	PJ_ARGS(Executable_DeserializeAndLoad, args, .client = client->handle,
		.serialized_executable = bytes, .serialized_executable_size = len);
	int r = PJ_CALL(client->plugin, err, Executable_DeserializeAndLoad, &args);

	if (r == 0)
		r = pj_given(args.loaded_executable, "PJRT_Executable_DeserializeAndLoad",
			     err);
	if (r == 0)
		r = pj_executable_adopt(client, args.loaded_executable, ret, err);
	if (r == 0)
		(*ret)->was_loaded = true;
	return r;
}
