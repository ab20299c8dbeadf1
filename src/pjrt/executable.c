/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling and executing. */
#include "pjrtfs/pjrt/executable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "first.h"
#include "pjrtfs/pjrt/api.h"

/*
 * Learn the results' types and sizes once, so that executions need not ask.  A plugin
 * that does not tell, or tells what this build does not know, leaves results NULL: then
 * every execution asks its buffers.
 */
static int add_results(struct pj_executable *x, struct pf_err *err)
{
	PJRT_Executable_OutputElementTypes_Args types = {
		PJ_SIZE(PJRT_Executable_OutputElementTypes_Args),
		.executable = x->unloaded
	};
	PJRT_Executable_OutputDimensions_Args dims = {
		PJ_SIZE(PJRT_Executable_OutputDimensions_Args), .executable = x->unloaded
	};
	const struct pj_plugin *plugin = x->client->plugin;
	pf_autofree struct pj_result *results = NULL;
	const int64_t *d;

	if (PJ_CALL(plugin, NULL, PJRT_Executable_OutputElementTypes, &types) < 0 ||
	    PJ_CALL(plugin, NULL, PJRT_Executable_OutputDimensions, &dims) < 0 ||
	    types.num_output_types != x->n_results || dims.num_outputs != x->n_results)
		return 0;
	results = calloc(x->n_results + 1, sizeof(*results));
	if (!results)
		return pf_err_set(err, -ENOMEM, "no memory for an executable");
	d = dims.dims;
	for (size_t i = 0; i < x->n_results; i++) {
		struct pj_result *result = &results[i];
		size_t rank = dims.dim_sizes[i];

		result->dtype = (enum pf_dtype)types.output_types[i];
		if (rank > PF_MAX_RANK)
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
	PJRT_Executable_NumOutputs_Args outputs = {
		PJ_SIZE(PJRT_Executable_NumOutputs_Args), .executable = x->unloaded
	};
	PJRT_Executable_NumReplicas_Args replicas = {
		PJ_SIZE(PJRT_Executable_NumReplicas_Args), .executable = x->unloaded
	};
	PJRT_Executable_NumPartitions_Args partitions = {
		PJ_SIZE(PJRT_Executable_NumPartitions_Args), .executable = x->unloaded
	};
	int r = PJ_CALL(plugin, err, PJRT_Executable_NumOutputs, &outputs);

	if (r == 0)
		r = PJ_CALL(plugin, err, PJRT_Executable_NumReplicas, &replicas);
	if (r == 0)
		r = PJ_CALL(plugin, err, PJRT_Executable_NumPartitions, &partitions);
	if (r < 0)
		return r;
	x->n_results = outputs.num_outputs;
	x->num_replicas = replicas.num_replicas;
	x->num_partitions = partitions.num_partitions;
	return add_results(x, err);
}

int pj_executable_adopt(const struct pj_client *client, PJRT_LoadedExecutable *loaded,
			struct pj_executable **ret, struct pf_err *err)
{
	PJRT_LoadedExecutable_GetExecutable_Args get = {
		PJ_SIZE(PJRT_LoadedExecutable_GetExecutable_Args),
		.loaded_executable = loaded
	};
	PJRT_LoadedExecutable_Destroy_Args destroy = {
		PJ_SIZE(PJRT_LoadedExecutable_Destroy_Args), .executable = loaded
	};
	PF_CLEANUP(pj_executable_freep) struct pj_executable *x = calloc(1, sizeof(*x));
	int r;

	if (!x) {
		(void)PJ_CALL(client->plugin, NULL, PJRT_LoadedExecutable_Destroy,
			      &destroy);
		return pf_err_set(err, -ENOMEM, "no memory for an executable");
	}
	x->client = client;
	x->loaded = loaded;
	r = PJ_CALL(client->plugin, err, PJRT_LoadedExecutable_GetExecutable, &get);
	if (r < 0)
		return r;
	x->unloaded = get.executable;
	r = add_counts(x, err);
	if (r < 0)
		return r;
	*ret = pf_steal(&x);
	return 0;
}

int pj_executable_compile(const struct pj_client *client, const struct pj_source *source,
			  struct pj_executable **ret, struct pf_err *err)
{
	pf_autofree char *code = malloc(source->len + 1);
	PJRT_Program program = { PJ_SIZE(PJRT_Program), .code = code,
				 .code_size = source->len, .format = source->format,
				 .format_size = strlen(source->format) };
	PJRT_Client_Compile_Args args = { PJ_SIZE(PJRT_Client_Compile_Args),
					  .client = client->handle, .program = &program,
					  .compile_options = source->options,
					  .compile_options_size = source->options_len };
	int r;

	if (!code)
		return pf_err_set(err, -ENOMEM, "no memory for a program of %zu bytes",
				  source->len);
	if (source->options_len == 0)
		return pf_err_set(err, -EINVAL, "compile options without replicas");
	/* The table says char *, not const char *: a plugin may write into it. */
	memcpy(code, source->code, source->len);
	code[source->len] = '\0';
	if (!client->plugin->api.PJRT_Client_Compile)
		return pj_missing(client->plugin, "PJRT_Client_Compile", err);
	r = pj_check_compile(client->plugin,
			     client->plugin->api.PJRT_Client_Compile(&args), err);
	return r < 0 ? r : pj_executable_adopt(client, args.executable, ret, err);
}

void pj_executable_free(struct pj_executable *x)
{
	PJRT_Executable_Destroy_Args unloaded = { PJ_SIZE(PJRT_Executable_Destroy_Args) };
	PJRT_LoadedExecutable_Destroy_Args loaded = { PJ_SIZE(
		PJRT_LoadedExecutable_Destroy_Args) };

	if (!x)
		return;
	unloaded.executable = x->unloaded;
	loaded.executable = x->loaded;
	pj_first_free(x);
	if (x->unloaded)
		(void)PJ_CALL(x->client->plugin, NULL, PJRT_Executable_Destroy,
			      &unloaded);
	if (x->loaded)
		(void)PJ_CALL(x->client->plugin, NULL, PJRT_LoadedExecutable_Destroy,
			      &loaded);
	free(x->results);
	free(x);
}

/* The lists that the plugin wants, one a device. */
struct lists {
	PJRT_Buffer *const **arguments;
	PJRT_Buffer ***outputs;
};

static int make_lists(struct lists *l, const struct pj_run *run, size_t n,
		      struct PJRT_Buffer **results, size_t n_results, struct pf_err *err)
{
	l->arguments = calloc(n, sizeof(*l->arguments) + sizeof(*l->outputs));
	if (!l->arguments)
		return pf_err_set(err, -ENOMEM, "no memory for an execution");
	l->outputs = (PJRT_Buffer ***)(l->arguments + n);
	for (size_t d = 0; d < n; d++) {
		l->arguments[d] = run->arguments + d * run->n_arguments;
		l->outputs[d] = results + d * n_results;
	}
	return 0;
}

/* All events are awaited, also after a failure: nothing may still run whose buffers go. */
int pj_executable_await(const struct pj_executable *x, size_t n, struct PJRT_Event **done,
			struct pf_err *err)
{
	int r = 0;

	for (size_t d = 0; d < n; d++) {
		struct pf_err later = PF_ERR_INIT;
		int code = pj_event_await(x->client->plugin, pf_steal(&done[d]),
					  r ? &later : err);

		r = r ? r : code;
	}
	return r;
}

/* A plugin that gives no event for a device: its results are asked, here and now. */
static int await_results(const struct pj_executable *x, size_t n,
			 struct PJRT_Event **done, struct PJRT_Buffer **results,
			 struct pf_err *err)
{
	const struct pj_plugin *plugin = x->client->plugin;
	int r = 0;

	for (size_t i = 0; r == 0 && i < n * x->n_results; i++)
		if (!done[i / x->n_results])
			r = pj_buffer_await(plugin, results[i], err);
	if (r == 0)
		return 0;
	(void)pj_executable_await(x, n, done, NULL);
	for (size_t i = 0; i < n * x->n_results; i++)
		pj_buffer_destroy(plugin, results[i]);
	return r;
}

static int start_lists(const struct pj_executable *x, const struct pj_run *run, size_t n,
		       const struct lists *l, struct PJRT_Event **done,
		       struct pf_err *err)
{
	PJRT_ExecuteOptions options = { PJ_SIZE(PJRT_ExecuteOptions),
					.non_donatable_input_indices = run->kept,
					.num_non_donatable_input_indices = run->n_kept };
	PJRT_LoadedExecutable_Execute_Args args = {
		PJ_SIZE(PJRT_LoadedExecutable_Execute_Args),
		.executable = x->loaded,
		.options = &options,
		.argument_lists = l->arguments,
		.num_devices = n,
		.num_args = run->n_arguments,
		.output_lists = l->outputs,
		.device_complete_events = done,
		.execute_device = run->device ? run->device->handle : NULL,
	};
	int r;

	memset(done, 0, n * sizeof(*done));
	r = PJ_CALL(x->client->plugin, err, PJRT_LoadedExecutable_Execute, &args);
	return r < 0 ? r : await_results(x, n, done, l->outputs[0], err);
}

/* All arguments are in RUN, which is on N devices. */
static int start(const struct pj_executable *x, const struct pj_run *run, size_t n,
		 struct PJRT_Buffer **results, struct PJRT_Event **done,
		 struct pf_err *err)
{
	PJRT_Buffer *const *arguments = run->arguments;
	PJRT_Buffer **outputs = results;
	struct lists one = { &arguments, &outputs }, many;
	int r;

	if (n == 1)
		return start_lists(x, run, n, &one, done, err);
	r = make_lists(&many, run, n, results, x->n_results, err);
	if (r < 0)
		return r;
	r = start_lists(x, run, n, &many, done, err);
	free(many.arguments);
	return r;
}

int pj_executable_start(const struct pj_executable *x, const struct pj_run *run,
			struct PJRT_Buffer **results, struct PJRT_Event **done,
			struct pf_err *err)
{
	size_t n = run->n_devices ? run->n_devices : 1;
	pf_autofree void *room = NULL;
	struct pj_run all;
	int r;

	/* A lone replica waits for the others, and plugins abort after a minute of that. */
	if (x->num_replicas * x->num_partitions != n || n > PJ_MAX_DEVICES)
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

int pj_executable_run(const struct pj_executable *x, const struct pj_run *run,
		      struct PJRT_Buffer **results, struct pf_err *err)
{
	PJRT_Event *done = NULL;
	int r;

	if (run->n_devices > 1)
		return pf_err_set(err, -EINVAL, "this runs programs for one device");
	r = pj_executable_start(x, run, results, &done, err);
	if (r < 0)
		return r;
	r = pj_executable_await(x, 1, &done, err);
	if (r < 0)
		for (size_t i = 0; i < x->n_results; i++)
			pj_buffer_destroy(x->client->plugin, results[i]);
	return r;
}
