/*
 * The request that matters: execute a program.
 *
 * Small results travel in the reply, large ones are named by where they lie in the pool.
 * For few arguments all lists are on the stack.
 */
#include "pjrtfs/worker/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pjrtfs/base/clock.h"

enum {
	FEW = 64,                /* arguments or results whose lists need no malloc */
	INLINE_TOTAL = 64 << 10, /* bytes of one reply that results may take */
	INLINE_ALIGN = 64,
};

/* One execution; the lists' room is in the few_… arrays or in MANY. */
struct execution {
	struct pf_worker *worker;
	const struct pf_req_execute *q;
	size_t n_args, n_outs; /* on all devices */
	const uint64_t *argument_ids, *result_ids;
	const uint8_t *donate;
	struct pf_object *program;    /* counted */
	struct pf_object **objects;   /* n_args, counted; then n_outs */
	struct PJRT_Buffer **buffers; /* n_args arguments, then n_outs results */
	int64_t *kept;
	size_t n_kept;
	void *many; /* owned */
	struct pf_object *few_objects[2 * FEW];
	struct PJRT_Buffer *few_buffers[2 * FEW];
	int64_t few_kept[FEW];
};

static int check_execute(const struct pf_request *request, struct execution *x,
			 struct pf_err *err)
{
	const struct pf_req_execute *q = request->message;

	if (request->len < sizeof(*q) || q->n_devices < 1 ||
	    q->n_devices > PF_WIRE_MAX_ARGS || q->n_args > PF_WIRE_MAX_ARGS ||
	    q->n_outs > PF_WIRE_MAX_ARGS)
		return pf_err_set(err, -EPROTO, "execute: a message of %zu bytes",
				  request->len);
	x->n_args = (size_t)q->n_args * q->n_devices;
	x->n_outs = (size_t)q->n_outs * q->n_devices;
	if (x->n_args > PF_WIRE_MAX_ARGS || x->n_outs > PF_WIRE_MAX_ARGS ||
	    request->len !=
		    sizeof(*q) + (x->n_args + x->n_outs) * sizeof(uint64_t) + q->n_args)
		return pf_err_set(err, -EPROTO, "execute: a message of %zu bytes",
				  request->len);
	if (q->device != UINT32_MAX &&
	    (q->device >= request->worker->client->n_devices || q->n_devices != 1))
		return pf_err_set(err, -EPROTO, "execute: there is no device %u",
				  q->device);
	x->worker = request->worker;
	x->q = q;
	x->argument_ids = (const uint64_t *)(q + 1);
	x->result_ids = x->argument_ids + x->n_args;
	x->donate = (const uint8_t *)(x->result_ids + x->n_outs);
	return 0;
}

static int make_room(struct execution *x, struct pf_err *err)
{
	size_t n = x->n_args + x->n_outs;

	x->objects = x->few_objects;
	x->buffers = x->few_buffers;
	x->kept = x->few_kept;
	if (x->n_args <= FEW && x->n_outs <= FEW)
		return 0;
	x->many = malloc(n * (sizeof(*x->objects) + sizeof(*x->buffers)) +
			 x->q->n_args * sizeof(*x->kept));
	if (!x->many)
		return pf_err_set(err, -ENOMEM, "no memory for %zu arguments and results",
				  n);
	x->objects = x->many;
	x->buffers = (struct PJRT_Buffer **)(x->objects + n);
	x->kept = (int64_t *)(x->buffers + n);
	return 0;
}

static int find_objects(struct execution *x, struct pf_err *err)
{
	struct pf_objects *objects = &x->worker->objects;
	int r = pf_objects_get(objects, &x->q->executable, 1, PF_OBJECT_EXECUTABLE,
			       &x->program, err);

	if (r < 0) {
		x->program = NULL;
		return r;
	}
	if (x->program->executable->n_results != x->q->n_outs)
		r = pf_err_set(err, -EPROTO, "the program has %zu results, %u were named",
			       x->program->executable->n_results, x->q->n_outs);
	else
		r = pf_objects_get(objects, x->argument_ids, x->n_args, PF_OBJECT_BUFFER,
				   x->objects, err);
	if (r < 0) {
		pf_object_unref(x->program);
		return r;
	}
	for (size_t i = 0; i < x->n_args; i++)
		x->buffers[i] = x->objects[i]->buffer;
	for (uint32_t i = 0; i < x->q->n_args; i++)
		if (!x->donate[i])
			x->kept[x->n_kept++] = i;
	return 0;
}

/* Make an object of result I.  On failure the buffer is gone. */
static struct pf_object *result_object(struct execution *x, size_t i, struct pf_err *err)
{
	const struct pj_result *known = x->program->executable->results;
	struct PJRT_Buffer *buffer = x->buffers[x->n_args + i];
	struct pf_object *object;
	enum pf_dtype dtype;
	uint64_t len;

	if (known) {
		dtype = known[i % x->q->n_outs].dtype;
		len = known[i % x->q->n_outs].len;
	} else if (pj_buffer_type(x->worker->plugin, buffer, &dtype, &len, err) < 0) {
		pf_err_wrap(err, err->code, "result %zu", i);
		pj_buffer_destroy(x->worker->plugin, buffer);
		return NULL;
	}
	object = pf_object_buffer(x->worker->plugin, buffer, dtype, len);
	if (!object)
		pf_err_set(err, -ENOMEM, "no memory for a result");
	return object;
}

/* Make objects of all results, or destroy them all. */
static int result_objects(struct execution *x, struct pf_err *err)
{
	struct pf_object **results = x->objects + x->n_args;
	size_t n = x->n_outs;

	for (size_t i = 0; i < n; i++) {
		results[i] = result_object(x, i, err);
		if (results[i])
			continue;
		for (size_t k = 0; k < i; k++)
			pf_object_unref(results[k]);
		for (size_t k = i + 1; k < n; k++)
			pj_buffer_destroy(x->worker->plugin, x->buffers[x->n_args + k]);
		return err->code;
	}
	return 0;
}

/*
 * Tell where a result is; an inline one's bytes go to the reply, whose length *LEN then
 * covers them.
 */
static int place_result(const struct pf_object *result, char *reply, struct pf_out *out,
			size_t *len, size_t limit, struct pf_err *err)
{
	size_t at = (*len + INLINE_ALIGN - 1) & ~(size_t)(INLINE_ALIGN - 1);
	int r;

	if (result->len == 0 || result->len > PF_WIRE_INLINE ||
	    at + result->len > limit) {
		pf_worker_place(result, out);
		if (out->where == PF_WHERE_INLINE)
			out->off = *len;
		return 0;
	}
	r = pj_buffer_read(result->plugin, result->buffer, result->dtype, reply + at,
			   result->len, err);
	if (r < 0)
		return r;
	memset(reply + *len, 0, at - *len);
	*out = (struct pf_out){
		.where = PF_WHERE_INLINE,
		.dtype = result->dtype,
		.off = at,
		.len = result->len,
		.on_device_bytes = pj_buffer_device_bytes(result->plugin, result->buffer),
	};
	*len = at + result->len;
	return 0;
}

static int write_reply(struct execution *x, struct pf_request *request,
		       struct pf_err *err)
{
	struct pf_rep_execute *reply = (struct pf_rep_execute *)request->reply;
	struct pf_out *outs = (struct pf_out *)(reply + 1);
	struct pf_object **results = x->objects + x->n_args;
	size_t len = sizeof(*reply) + x->n_outs * sizeof(*outs);
	size_t limit = len + INLINE_TOTAL;

	if (limit > PF_RING_MESSAGE)
		limit = PF_RING_MESSAGE;
	for (size_t i = 0; i < x->n_outs; i++) {
		int r = place_result(results[i], request->reply, &outs[i], &len, limit,
				     err);

		if (r < 0)
			return pf_err_wrap(err, r, "result %zu", i);
	}
	reply->n_outs = (uint32_t)x->n_outs;
	reply->pad = 0;
	request->reply_len = len;
	return 0;
}

/* Execute, publish the results under their ids, and write the reply. */
static int execute(struct execution *x, struct pf_request *request, struct pf_err *err)
{
	struct pf_rep_execute *reply = (struct pf_rep_execute *)request->reply;
	struct pf_object **results = x->objects + x->n_args;
	const struct pj_client *client = x->worker->client;
	struct pj_run run = {
		.device = x->q->device == UINT32_MAX ? NULL
						     : &client->devices[x->q->device],
		.n_devices = x->q->n_devices,
		.arguments = x->buffers,
		.n_arguments = x->q->n_args,
		.kept = x->kept,
		.n_kept = x->n_kept,
	};
	uint64_t start = pf_now_ns();
	int r = pj_executable_run(x->program->executable, &run, x->buffers + x->n_args,
				  err);

	if (r < 0)
		return r;
	reply->device_ns = pf_now_ns() - start;
	r = result_objects(x, err);
	if (r < 0)
		return r;
	r = write_reply(x, request, err);
	if (r == 0)
		r = pf_objects_put(&x->worker->objects, x->result_ids, results, x->n_outs,
				   err);
	for (size_t i = 0; i < x->n_outs; i++)
		pf_object_unref(results[i]);
	return r;
}

int pf_handle_execute(struct pf_request *request, struct pf_err *err)
{
	struct execution x;
	int r = check_execute(request, &x, err);

	x.n_kept = 0;
	x.many = NULL;
	if (r == 0)
		r = make_room(&x, err);
	if (r == 0)
		r = find_objects(&x, err);
	if (r == 0) {
		r = execute(&x, request, err);
		for (size_t i = 0; i < x.n_args; i++)
			pf_object_unref(x.objects[i]);
		pf_object_unref(x.program);
	}
	free(x.many);
	return r;
}
