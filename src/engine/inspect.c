/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pjrtfs/base.h"
#include "pjrtfs/engine.h"
#include "pjrtfs/json.h"
#include "pjrtfs/library.h"
#include "pjrtfs/plugin_options.h"

enum { N = 4 /* elements of each array */ };

#define ARENA_SIZE (UINT64_C(64) << 20)
#define POOL_SIZE (UINT64_C(4) << 30)

/* x * y + y: a mistake in any of the numbers shows. */
static const char program[] =
	"module @check {\n"
	"  func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {\n"
	"    %0 = stablehlo.multiply %x, %y : tensor<4xf32>\n"
	"    %1 = stablehlo.add %0, %y : tensor<4xf32>\n"
	"    return %1 : tensor<4xf32>\n"
	"  }\n"
	"}\n";
static const float x[N] = { 1, -2, 3.5, 0.25 }, y[N] = { 10, 20, 30, -40 },
		   expected[N] = { 20, -20, 135, -50 };

struct inspection {
	struct pf_worker_config config;
	struct pf_arena *arena;
	struct pf_worker *worker;
	struct pf_instance *instance;
};

/* --- the program --------------------------------------------------------------------------- */

static unsigned timeout_s(const struct inspection *in)
{
	return ((unsigned)in->config.start_timeout_ms + 999) / 1000;
}

/* Make CALL, which has the worker do WHAT; that begins the sentence of a failure. */
static int call_worker(struct inspection *in, const char *what, struct pf_sync_call *call,
		       void *reply, size_t reply_min, struct pf_err *err)
{
	int r;

	call->instance = in->instance;
	call->timeout_s = timeout_s(in);
	r = pf_sync_call(call, reply, reply_min, err);
	return r < 0 ? pf_err_wrap(err, r, "%s", what) : 0;
}

/* Compile the program for DEVICE, or, if it is not NULL, for TOPOLOGY. */
static int compile(struct inspection *in, uint64_t id, unsigned device,
		   const struct pf_buf *topology, struct pf_err *err)
{
	const struct pf_description *d = pf_worker_description(in->worker);
	const struct pf_options_target target = { .plugin = in->config.name,
						  .n_devices = d->n_devices,
						  .elsewhere = topology != NULL };
	struct pf_req_compile request = { .head = { .op = PF_OP_COMPILE },
					  .id = id,
					  .program_len = sizeof(program) - 1,
					  .format = "mlir" };
	struct json_object *wanted = json_object_new_object();
	pf_autobuf struct pf_buf options = PF_BUF_INIT;
	struct pf_rep_compile reply;
	struct pf_extent extent;
	int r = pf_arena_alloc(in->arena, request.program_len, &extent, err);

	if (!topology)
		pf_json_add_int(wanted, "device", d->devices[device].id);
	if (r == 0)
		r = pf_options_encode(wanted, &target, &options, err);
	json_object_put(wanted);
	request.options_len = (uint32_t)options.len;
	if (r == 0 && topology) {
		request.topology_len = (uint32_t)topology->len;
		pf_buf_append(&options, topology->data, topology->len);
	}
	if (r == 0 && options.failed)
		r = pf_err_set(err, -ENOMEM, "no memory for the options");
	if (r < 0)
		return r;
	memcpy(pf_arena_at(in->arena, extent.off), program, request.program_len);
	request.program_off = extent.off;
	return call_worker(in, "compile a program",
			   &(struct pf_sync_call){ .request = &request,
						   .len = sizeof(request),
						   .tail = options.data,
						   .tail_len = options.len },
			   &reply, sizeof(reply), err);
}

static int upload(struct inspection *in, uint64_t id, unsigned device,
		  const float values[static N], struct pf_err *err)
{
	struct pf_req_buffer request = { .head = { .op = PF_OP_BUFFER_CREATE },
					 .id = id,
					 .len = N * sizeof(float),
					 .dtype = PF_DTYPE_F32,
					 .device = device,
					 .memory = PF_DEFAULT_MEMORY,
					 .rank = 1,
					 .dims = { N } };
	struct pf_rep_buffer reply;
	struct pf_extent extent;
	int r = pf_arena_alloc(in->arena, request.len, &extent, err);

	if (r < 0)
		return r;
	memcpy(pf_arena_at(in->arena, extent.off), values, request.len);
	request.off = extent.off;
	return call_worker(in, "upload an array",
			   &(struct pf_sync_call){ .request = &request,
						   .len = sizeof(request) },
			   &reply, sizeof(reply), err);
}

/* The reply to the execution. */
struct executed {
	struct pf_rep_execute head;
	struct pf_out out;
	char more[4096]; /* the result: a small one comes with the reply */
};

/* Copy the result out of EXECUTED, LEN bytes. */
static int take_result(const struct executed *executed, size_t len,
		       float values[static N], struct pf_err *err)
{
	const struct pf_out *out = &executed->out;

	if (out->where != PF_WHERE_INLINE || out->off > len ||
	    out->len > len - out->off || out->dtype != PF_DTYPE_F32 ||
	    out->len != N * sizeof(float))
		return pf_err_set(
			err, -EIO,
			"read the result: expected %zu bytes of F32, found %llu "
			"of %s",
			N * sizeof(float), (unsigned long long)out->len,
			pf_dtype_valid((int)out->dtype)
				? pf_dtype_name((enum pf_dtype)out->dtype)
				: "no known type");
	memcpy(values, (const char *)executed + out->off, N * sizeof(float));
	return 0;
}

enum { EXECUTABLE, X, Y, RESULT, N_IDS };

static int execute(struct inspection *in, const uint64_t ids[static N_IDS],
		   struct json_object *facts, float found[static N], struct pf_err *err)
{
	struct pf_req_execute request = { .head = { .op = PF_OP_EXECUTE },
					  .executable = ids[EXECUTABLE],
					  .device = UINT32_MAX,
					  .n_args = 2,
					  .n_outs = 1,
					  .n_devices = 1 };
	struct {
		uint64_t args[2], out;
		uint32_t carry[2];
		char donate[2];
	} tail = { .args = { ids[X], ids[Y] }, .out = ids[RESULT] };
	struct executed executed;
	struct pf_sync_call call = {
		.request = &request,
		.len = sizeof(request),
		.tail = &tail,
		.tail_len = offsetof(__typeof__(tail), donate) + 2,
		.reply_more = sizeof(executed.more),
	};
	struct timespec start;
	int r;

	clock_gettime(CLOCK_MONOTONIC, &start);
	r = call_worker(in, "execute the program", &call, &executed,
			offsetof(struct executed, more), err);
	if (r < 0)
		return r;
	pf_json_add_seconds(facts, "execute_seconds",
			    pf_seconds_since(CLOCK_MONOTONIC, &start));
	return take_result(&executed, call.reply_len, found, err);
}

/* The worker has no device: compile for the topology that the plugin makes without a name, if it does. */
static int compile_alone(struct inspection *in, struct json_object *facts,
			 struct pf_err *err)
{
	static const char unnamed[] = "{\"name\":\"\"}";
	struct pf_sync_call call = { .instance = in->instance,
				     .tail = unnamed,
				     .tail_len = sizeof(unnamed) - 1,
				     .timeout_s = timeout_s(in) };
	pf_autobuf struct pf_buf topology = PF_BUF_INIT;
	struct pf_err why = PF_ERR_INIT;
	struct timespec start;
	int r = pf_sync_ask(&call, PF_OP_TOPOLOGY, PF_TOPOLOGY_CREATE, &topology, &why);

	if (r < 0) {
		pf_err_wrap(&why, r, "topology without a name");
		pf_json_add_string(facts, "unavailable", why.text);
		return 0;
	}
	clock_gettime(CLOCK_MONOTONIC, &start);
	r = compile(in, pf_worker_id(in->worker), 0, &topology, err);
	if (r == 0)
		pf_json_add_seconds(facts, "compile_seconds",
				    pf_seconds_since(CLOCK_MONOTONIC, &start));
	return r;
}

static int run(struct inspection *in, struct json_object *facts, struct pf_err *err)
{
	const struct pf_description *d = pf_worker_description(in->worker);
	struct json_object *list;
	uint64_t ids[N_IDS];
	struct timespec start;
	unsigned device = 0;
	float found[N];
	int r;

	while (device < d->n_devices && !d->devices[device].addressable)
		device++;
	if (device == d->n_devices)
		return pf_err_set(err, -ENODEV, "there is no device that can be used");
	for (int i = 0; i < N_IDS; i++)
		ids[i] = pf_worker_id(in->worker);
	json_object_object_add(facts, "device", json_object_new_int((int)device));
	clock_gettime(CLOCK_MONOTONIC, &start);
	r = compile(in, ids[EXECUTABLE], device, NULL, err);
	if (r < 0)
		return r;
	pf_json_add_seconds(facts, "compile_seconds",
			    pf_seconds_since(CLOCK_MONOTONIC, &start));
	r = upload(in, ids[X], device, x, err);
	if (r == 0)
		r = upload(in, ids[Y], device, y, err);
	if (r == 0)
		r = execute(in, ids, facts, found, err);
	if (r < 0)
		return r;
	list = json_object_new_array();
	for (int i = 0; i < N; i++)
		json_object_array_add(list, json_object_new_double((double)found[i]));
	json_object_object_add(facts, "result", list);
	for (int i = 0; i < N; i++)
		if (found[i] != expected[i])
			return pf_err_set(
				err, -EIO,
				"the program's result is wrong: expected %g at %d, "
				"found %g",
				(double)expected[i], i, (double)found[i]);
	return 0;
}

/* --- the interface ------------------------------------------------------------------------- */

static int try_program(struct inspection *in, struct json_object *json,
		       struct pf_err *err)
{
	struct json_object *facts = json_object_new_object();
	int r;

	json_object_object_add(json, "program", facts);
	in->instance = pf_worker_instance(in->worker, err);
	if (!in->instance)
		return err ? err->code : -EIO;
	r = pf_worker_has_client(in->worker, NULL) < 0 ? compile_alone(in, facts, err)
						       : run(in, facts, err);
	pf_worker_stop(in->worker); /* before the arena, which it reads, is freed */
	pf_instance_unref(in->instance);
	return r;
}

/* Start CONFIG's worker; end comes in any case. */
static int begin(struct inspection *in, const struct pf_worker_config *config,
		 struct pf_err *err)
{
	int r;

	*in = (struct inspection){ .config = *config };
	r = pf_arena_new(ARENA_SIZE, &in->arena, err);
	if (r < 0)
		return r;
	in->config.arena = in->arena;
	in->config.pool_size = POOL_SIZE;
	in->config.telemetry = NULL;
	return pf_worker_new(&in->config, &in->worker, err);
}

static void end(struct inspection *in)
{
	pf_worker_free(in->worker);
	pf_arena_free(in->arena);
}

int pf_inspect_library(const struct pf_worker_config *config,
		       const struct pf_library *library, struct pf_err *err)
{
	struct pf_worker_config without = *config;
	struct inspection in;
	int r;

	without.no_client = true;
	r = begin(&in, &without, err);
	if (r == 0) {
		PF_CLEANUP(pf_custom_calls_unrefp)
		struct pf_custom_calls *calls = pf_worker_custom_calls(in.worker);

		r = pf_custom_calls_check(calls, library, err);
	}
	end(&in);
	return r;
}

/* The plugin's answer without a client, as one that finds no device; NULL: nothing. */
static struct json_object *describe_alone(const struct pf_worker_config *config)
{
	struct pf_worker_config without = *config;
	struct json_object *ret = NULL;
	struct inspection in;

	without.no_client = true;
	without.printed = NULL; /* it has what the first process printed */
	if (begin(&in, &without, NULL) == 0)
		ret = pf_json_copy(pf_worker_description(in.worker)->json);
	end(&in);
	return ret;
}

int pf_inspect(const struct pf_worker_config *config, bool run, struct json_object **ret,
	       struct pf_err *err)
{
	struct inspection in;
	int r = begin(&in, config, err);

	*ret = r < 0 && run ? describe_alone(config) : NULL;
	if (r == 0) {
		*ret = pf_json_copy(pf_worker_description(in.worker)->json);
		if (!*ret)
			r = pf_err_set(err, -ENOMEM, "no memory for a description");
		else if (run)
			r = try_program(&in, *ret, err);
	}
	end(&in);
	return r;
}
