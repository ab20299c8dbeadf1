/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: compiled, loaded, executed, and as bytes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

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
		size_t n = pj_executable_find_devices(x, &devices, NULL);

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
	pj_first_free(x);
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
	int r = pj_executable_check_loaded(x, err);

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
	r = pj_first_add(x, n, &all, &room, err);
	return r < 0 ? r : start(x, &all, n, results, done, err);
}

int pj_executable_options(const struct pj_executable *x, struct pf_buf *out,
			  struct pf_err *err)
{
	PJ_NEWER_ARGS(Executable_GetCompileOptions, args, .executable = x->unloaded);
	int r = PJ_CALL_NEWER(x->client->plugin, err, Executable_GetCompileOptions,
			      &args);

	if (r < 0)
		return r;
	r = pj_given_list(args.serialized_bytes, args.serialized_bytes_size,
			  "PJRT_Executable_GetCompileOptions", err);
	if (r == 0)
		pf_buf_append(out, args.serialized_bytes, args.serialized_bytes_size);
	if (args.serialized_compile_options && args.serialized_compile_options_deleter)
		args.serialized_compile_options_deleter(args.serialized_compile_options);
	return r == 0 && out->failed
		       ? pf_err_set(err, -ENOMEM, "no memory for the compile options")
		       : r;
}

static int optimized(const struct pj_executable *x, PJRT_Program *program,
		     struct pf_err *err)
{
	PJ_ARGS(Executable_OptimizedProgram, args, .executable = x->unloaded,
		.program = program);

	return PJ_CALL(x->client->plugin, err, Executable_OptimizedProgram, &args);
}

/* PROGRAM's format, an enum pj_format; -1: another one. */
static int format_of(const PJRT_Program *program)
{
	static const char *const names[] = {
		[PJ_FORMAT_HLO] = "hlo",
		[PJ_FORMAT_HLO_WITH_CONFIG] = "hlo_with_config",
		[PJ_FORMAT_MLIR] = "mlir",
	};

	for (size_t i = 0; program->format && i < PF_ARRAY_SIZE(names); i++)
		if (program->format_size == strlen(names[i]) &&
		    memcmp(program->format, names[i], program->format_size) == 0)
			return (int)i;
	return -1;
}

int pj_executable_optimized_size(const struct pj_executable *x, size_t *len,
				 enum pj_format *format, struct pf_err *err)
{
	PJRT_Program program = { .struct_size = PJRT_Program_STRUCT_SIZE };
	int r = optimized(x, &program, err);
	int found;

	if (r < 0)
		return r;
	found = format_of(&program);
	if (found < 0)
		return pf_err_set(err, -EOPNOTSUPP,
				  "the optimized program is in format %.*s, neither HLO "
				  "nor MLIR",
				  program.format ? (int)program.format_size : 0,
				  program.format);
	*format = (enum pj_format)found;
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
