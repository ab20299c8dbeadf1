/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call: an execution whose arguments are bytes in the arena, and whose results are bytes,
 * too.  All in one request, because of small arrays it is the requests that take the time.
 *
 * The arguments' buffers live as long as the execution, those of the results not even as
 * long as the answer, unless their memory lies in the pool: then the daemon reads it there.
 */
#include "pjrtfs/worker/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pjrtfs/base/clock.h"
#include "pjrtfs/worker/pool.h"

enum {
	FEW = 32,                /* arguments or results whose lists need no malloc */
	INLINE_TOTAL = 64 << 10, /* bytes of one reply that results may take */
	INLINE_ALIGN = 64,
};

/* The lists' room is in the few_… arrays or in MANY. */
struct calling {
	struct pf_worker *worker;
	const struct pf_req_call *q;
	struct pj_place place;
	const uint64_t *ids;
	const char *args; /* struct pf_arg, each with its extents */
	size_t args_len;
	struct pf_object *program;    /* counted */
	struct PJRT_Buffer **buffers; /* n_args arguments, then n_outs results */
	int64_t *kept;                /* n_args indexes: nothing is donated */
	size_t n_lent;                /* arguments made so far */
	void *many;                   /* owned */
	struct PJRT_Buffer *few_buffers[2 * FEW];
	int64_t few_kept[FEW];
};

static int check_call(const struct pf_request *request, struct calling *c,
		      struct pf_err *err)
{
	const struct pf_req_call *q = request->message;
	const struct pj_client *client = request->worker->client;
	size_t ids;

	if (request->len < sizeof(*q) || q->n_args > PF_WIRE_MAX_ARGS ||
	    q->n_outs > PF_WIRE_MAX_ARGS)
		return pf_err_set(err, -EPROTO, "call: a message of %zu bytes",
				  request->len);
	ids = q->n_outs * sizeof(uint64_t);
	if (request->len - sizeof(*q) < ids)
		return pf_err_set(err, -EPROTO, "call: a message of %zu bytes",
				  request->len);
	if (q->device >= client->n_devices)
		return pf_err_set(err, -EPROTO, "call: there is no device %u", q->device);
	c->worker = request->worker;
	c->q = q;
	c->place = (struct pj_place){ .device = &client->devices[q->device] };
	c->ids = (const uint64_t *)(q + 1);
	c->args = (const char *)(q + 1) + ids;
	c->args_len = request->len - sizeof(*q) - ids;
	return 0;
}

static int make_room(struct calling *c, struct pf_err *err)
{
	size_t n = (size_t)c->q->n_args + c->q->n_outs;

	c->buffers = c->few_buffers;
	c->kept = c->few_kept;
	if (c->q->n_args > FEW || c->q->n_outs > FEW) {
		c->many =
			malloc(n * sizeof(*c->buffers) + c->q->n_args * sizeof(*c->kept));
		if (!c->many)
			return pf_err_set(err, -ENOMEM,
					  "no memory for %zu arguments and results", n);
		c->buffers = c->many;
		c->kept = (int64_t *)(c->buffers + n);
	}
	for (uint32_t i = 0; i < c->q->n_args; i++)
		c->kept[i] = i;
	return 0;
}

static int find_program(struct calling *c, struct pf_err *err)
{
	int r = pf_objects_get(&c->worker->objects, &c->q->executable, 1,
			       PF_OBJECT_EXECUTABLE, &c->program, err);

	if (r < 0) {
		c->program = NULL;
		return r;
	}
	if (c->program->executable->n_results != c->q->n_outs)
		return pf_err_set(err, -EPROTO,
				  "the program has %zu results, %u are asked",
				  c->program->executable->n_results, c->q->n_outs);
	return 0;
}

/* Make the buffer of the argument at c->args, which then is the next one. */
static int lend_next(struct calling *c, struct pf_err *err)
{
	const struct pj_client *client = c->worker->client;
	struct pf_shape shape;
	struct pf_arg arg;
	const void *bytes;
	size_t dims;
	int r;

	if (c->args_len < sizeof(arg))
		return pf_err_set(err, -EPROTO, "call: the message ends too early");
	memcpy(&arg, c->args, sizeof(arg));
	dims = arg.rank * sizeof(shape.dims[0]);
	if (arg.rank > PF_WIRE_MAX_RANK || c->args_len - sizeof(arg) < dims)
		return pf_err_set(err, -EPROTO, "call: the message ends too early");
	shape.rank = arg.rank;
	memcpy(shape.dims, c->args + sizeof(arg), dims);
	bytes = pf_worker_arena(c->worker, arg.off, arg.len);
	if (!bytes)
		return pf_err_set(err, -EPROTO, "call: bytes outside the arena");
	r = pj_buffer_lend(client, &c->place, bytes, arg.len, (int)arg.dtype, &shape,
			   &c->buffers[c->n_lent], err);
	if (r < 0)
		return r;
	c->n_lent++;
	c->args += sizeof(arg) + dims;
	c->args_len -= sizeof(arg) + dims;
	return 0;
}

static int lend_arguments(struct calling *c, struct pf_err *err)
{
	for (uint32_t i = 0; i < c->q->n_args; i++) {
		int r = lend_next(c, err);

		if (r < 0)
			return pf_err_wrap(err, r, "input %u", i);
	}
	if (c->args_len)
		return pf_err_set(err, -EPROTO, "call: %zu bytes behind the message",
				  c->args_len);
	return 0;
}

/* --- results -------------------------------------------------------------------------- */

/* The bytes go into the reply, at *LEN, which then covers them. */
static int put_inline(const struct calling *c, struct PJRT_Buffer *buffer, char *reply,
		      struct pf_out *out, size_t *len, struct pf_err *err)
{
	size_t at =
		out->len ? (*len + INLINE_ALIGN - 1) & ~(size_t)(INLINE_ALIGN - 1) : *len;
	int r = 0;

	if (out->len) /* a token has no bytes to read */
		r = pj_buffer_read(c->worker->plugin, buffer, (enum pf_dtype)out->dtype,
				   reply + at, out->len, err);
	if (r < 0)
		return r;
	memset(reply + *len, 0, at - *len);
	out->where = PF_WHERE_INLINE;
	out->off = at;
	*len = at + out->len;
	return 0;
}

static int put_block(const struct calling *c, struct PJRT_Buffer *buffer,
		     struct pf_out *out, struct pf_err *err)
{
	uint64_t off;
	int r = pf_pool_block(out->len, &off, err);

	if (r < 0)
		return r;
	r = pj_buffer_read(c->worker->plugin, buffer, (enum pf_dtype)out->dtype,
			   pf_pool_at(off), out->len, err);
	if (r < 0) {
		pf_pool_block_free(off);
		return r;
	}
	out->where = PF_WHERE_BLOCK;
	out->off = off;
	return 0;
}

/* Where the plugin put a large result, if that is in the pool: then it stays, under ID. */
static int keep_in_pool(const struct calling *c, struct PJRT_Buffer **buffer, uint64_t id,
			struct pf_out *out, struct pf_err *err)
{
	PF_CLEANUP(pf_object_unrefp) struct pf_object *object = NULL;
	struct pf_out found;

	object = pf_object_buffer(c->worker->plugin, pf_steal(buffer),
				  (enum pf_dtype)out->dtype, out->len);
	if (!object)
		return pf_err_set(err, -ENOMEM, "no memory for a result");
	pf_worker_place(object, &found);
	if (found.where != PF_WHERE_POOL)
		return put_block(c, object->buffer, out, err);
	*out = found;
	return pf_objects_put(&c->worker->objects, &id, &object, 1, err);
}

static int put_result(struct calling *c, uint32_t i, char *reply, struct pf_out *out,
		      size_t *len, size_t limit, struct pf_err *err)
{
	struct PJRT_Buffer **buffer = &c->buffers[c->q->n_args + i];
	const struct pj_result *known = c->program->executable->results;
	enum pf_dtype dtype;
	uint64_t size;
	int r = 0;

	if (known) {
		dtype = known[i].dtype;
		size = known[i].len;
	} else {
		r = pj_buffer_type(c->worker->plugin, *buffer, &dtype, &size, err);
	}
	if (r < 0)
		return r;
	*out = (struct pf_out){ .dtype = dtype, .len = size };
	if (!size || (size <= PF_WIRE_INLINE && *len + INLINE_ALIGN + size <= limit))
		return put_inline(c, *buffer, reply, out, len, err);
	if (size < PF_POOL_LARGE)
		return put_block(c, *buffer, out, err);
	return keep_in_pool(c, buffer, c->ids[i], out, err);
}

/* An error is the answer: nobody will ask for the results before. */
static void take_back(struct calling *c, const struct pf_out *outs, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (outs[i].where == PF_WHERE_POOL)
			pf_objects_remove(&c->worker->objects, c->ids[i],
					  PF_OBJECT_BUFFER);
		else if (outs[i].where == PF_WHERE_BLOCK)
			pf_pool_block_free(outs[i].off);
	}
}

static int write_reply(struct calling *c, struct pf_request *request, struct pf_err *err)
{
	struct pf_rep_execute *reply = (struct pf_rep_execute *)request->reply;
	struct pf_out *outs = (struct pf_out *)(reply + 1);
	size_t len = sizeof(*reply) + c->q->n_outs * sizeof(*outs);
	size_t limit = len + INLINE_TOTAL;

	if (limit > PF_RING_MESSAGE)
		limit = PF_RING_MESSAGE;
	for (uint32_t i = 0; i < c->q->n_outs; i++) {
		int r = put_result(c, i, request->reply, &outs[i], &len, limit, err);

		if (r < 0) {
			take_back(c, outs, i);
			return pf_err_wrap(err, r, "result %u", i);
		}
	}
	reply->n_outs = c->q->n_outs;
	reply->next = 0;
	request->reply_len = len;
	return 0;
}

static int call(struct calling *c, struct pf_request *request, struct pf_err *err)
{
	struct pf_rep_execute *reply = (struct pf_rep_execute *)request->reply;
	struct PJRT_Buffer **results = c->buffers + c->q->n_args;
	struct pj_run run = {
		.device = c->q->any ? c->place.device : NULL,
		.n_devices = 1,
		.arguments = c->buffers,
		.n_arguments = c->q->n_args,
		.kept = c->kept,
		.n_kept = c->q->n_args,
	};
	uint64_t start = pf_now_ns();
	int r = pj_executable_run(c->program->executable, &run, results, err);

	if (r < 0)
		return r;
	reply->device_ns = pf_now_ns() - start;
	r = write_reply(c, request, err);
	for (uint32_t i = 0; i < c->q->n_outs; i++)
		pj_buffer_destroy(c->worker->plugin, results[i]);
	return r;
}

int pf_handle_call(struct pf_request *request, struct pf_err *err)
{
	struct calling c;
	int r = check_call(request, &c, err);

	c.program = NULL;
	c.n_lent = 0;
	c.many = NULL;
	if (r == 0)
		r = make_room(&c, err);
	if (r == 0)
		r = find_program(&c, err);
	if (r == 0)
		r = lend_arguments(&c, err);
	if (r == 0)
		r = call(&c, request, err);
	for (size_t i = 0; i < c.n_lent; i++)
		pj_buffer_destroy(c.worker->plugin, c.buffers[i]);
	pf_object_unref(c.program);
	free(c.many);
	return r;
}
