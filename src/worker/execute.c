/* SPDX-License-Identifier: Apache-2.0 */
/* The request that matters: execute a program, or several, one after the other. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "pjrtfs/base.h"

/*
 * One execution: found, begun, awaited, answered.
 *
 * Small results travel in the reply, large ones are named by where they lie in the pool.
 * For few arguments all lists are on the stack.
 */

enum { INLINE_ALIGN = 64 };

/*
 * Read one from the LEN bytes at MESSAGE; *USED: how many it takes, which may be
 * fewer.  X need not be anything before; MESSAGE must outlive it.  -EPROTO.
 */
static int execution_read(struct execution *x, struct pf_worker *worker,
			  const void *message, size_t len, size_t *used,
			  struct pf_err *err)
{
	const struct pf_req_execute *q = message;
	uint64_t n_args, n_outs, bytes;

	if (len < sizeof(*q) || q->n_devices < 1 || q->n_devices > PF_WIRE_MAX_ARGS ||
	    q->n_args > PF_WIRE_MAX_ARGS || q->n_outs > PF_WIRE_MAX_ARGS)
		return pf_err_set(err, -EPROTO, "execute: a message of %zu bytes", len);
	n_args = (uint64_t)q->n_args * q->n_devices;
	n_outs = (uint64_t)q->n_outs * q->n_devices;
	bytes = pf_execute_bytes(n_args, n_outs, q->n_devices);
	if (n_args > PF_WIRE_MAX_ARGS || n_outs > PF_WIRE_MAX_ARGS || len < bytes)
		return pf_err_set(err, -EPROTO, "execute: a message of %zu bytes", len);
	if (q->device != UINT32_MAX &&
	    (q->device >= worker->client->n_devices || q->n_devices != 1))
		return pf_err_set(err, -EPROTO, "execute: there is no device %u",
				  q->device);
	memset(x, 0, offsetof(struct execution, few_objects));
	x->worker = worker;
	x->q = q;
	x->n_args = n_args;
	x->n_outs = n_outs;
	x->argument_ids = (const uint64_t *)(q + 1);
	x->result_ids = x->argument_ids + n_args;
	x->donate = (const uint8_t *)(x->result_ids + n_outs);
	*used = bytes;
	return 0;
}

/* --- beginning ------------------------------------------------------------------------ */

static int make_execution_room(struct execution *x, struct pf_err *err)
{
	size_t n = x->n_args + x->n_outs;

	x->objects = x->few_objects;
	x->buffers = x->few_buffers;
	x->done = &x->one_done;
	x->kept = x->few_kept;
	x->given = x->few_given;
	if (x->n_args <= EXECUTION_FEW && x->n_outs <= EXECUTION_FEW &&
	    x->q->n_devices == 1) {
		memset(x->given, 0, x->n_outs * sizeof(*x->given));
		return 0;
	}
	x->many = calloc(1, n * (sizeof(*x->objects) + sizeof(*x->buffers)) +
				    x->q->n_devices * sizeof(struct PJRT_Event *) +
				    x->q->n_args * sizeof(*x->kept) +
				    x->n_outs * sizeof(*x->given));
	if (!x->many)
		return pf_err_set(err, -ENOMEM, "no memory for %zu arguments and results",
				  n);
	x->objects = x->many;
	x->buffers = (struct PJRT_Buffer **)(x->objects + n);
	x->done = (struct PJRT_Event **)(x->buffers + n);
	x->kept = (int64_t *)(x->done + x->q->n_devices);
	x->given = (bool *)(x->kept + x->q->n_args);
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
		return pf_err_set(err, -EPROTO,
				  "the program has %zu results, %u were named",
				  x->program->executable->n_results, x->q->n_outs);
	r = pf_objects_get(objects, x->argument_ids, x->n_args, PF_OBJECT_BUFFER,
			   x->objects, err);
	if (r < 0)
		return r;
	x->n_found = x->n_args;
	for (size_t i = 0; i < x->n_args; i++)
		x->buffers[i] = x->objects[i]->buffer;
	for (uint32_t i = 0; i < x->q->n_args; i++)
		if (!x->donate[i])
			x->kept[x->n_kept++] = i;
	return 0;
}

/*
 * What is donated is a result of the execution before: if that fails, nothing else is gone.
 * Results mostly come as the arguments do, so that the search is short.
 */
static int mark_given(const struct execution *x, struct execution *before,
		      struct pf_err *err)
{
	size_t at = 0;

	for (size_t i = 0; i < x->n_args; i++) {
		size_t tried = 0;

		if (!x->donate[i % x->q->n_args])
			continue;
		while (tried < before->n_outs &&
		       before->result_ids[at] != x->argument_ids[i]) {
			at = (at + 1) % before->n_outs;
			tried++;
		}
		if (tried == before->n_outs)
			return pf_err_set(err, -EPROTO,
					  "execute: argument %zu may not be donated", i);
		before->given[at] = true;
	}
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
	x->n_made = n;
	return 0;
}

static int start(struct execution *x, struct pf_err *err)
{
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
	int r;

	x->begun_ns = pf_now_ns();
	r = pj_executable_start(x->program->executable, &run, x->buffers + x->n_args,
				x->done, err);
	if (r < 0)
		return r;
	x->running = true;
	r = result_objects(x, err);
	if (r == 0)
		r = pf_objects_put(&x->worker->objects, x->result_ids,
				   x->objects + x->n_args, x->n_outs, err);
	x->has_ids = r == 0;
	return r;
}

/*
 * Begin it: its results have their ids from now on.  BEFORE is the execution that was begun
 * just before, whose results it may consume, or NULL: then it may consume what it likes.
 * X must be released by execution_release, also if this fails.
 */
static int execution_begin(struct execution *x, struct execution *before,
			   struct pf_err *err)
{
	int r = make_execution_room(x, err);

	if (r == 0)
		r = find_objects(x, err);
	if (r == 0 && before)
		r = mark_given(x, before, err);
	return r < 0 ? r : start(x, err);
}

/* Wait until it is done, if it has begun; again, if it was awaited: 0.  On failure, as
 * before. */
static int execution_await(struct execution *x, struct pf_err *err)
{
	int r;

	if (!x->running)
		return 0;
	x->running = false;
	r = pj_executable_await(x->program->executable, x->q->n_devices, x->done, err);
	x->ready_ns = pf_now_ns();
	return r;
}

/* --- the answer ----------------------------------------------------------------------- */

/*
 * A result that lies in the host's memory, where only this process can read it, goes into a
 * block: what was computed is not lost with the process.  There it stays if there is no room.
 */
static void keep_result(const struct execution *x, const struct pf_object *result,
			struct pf_out *out)
{
	uint64_t off;

	if (strcmp(x->worker->client->platform, "cpu") != 0 ||
	    pf_pool_block(out->len, &off, NULL) < 0)
		return;
	if (pj_buffer_read(result->plugin, result->buffer, result->dtype, pf_pool_at(off),
			   out->len, NULL) < 0) {
		pf_pool_block_free(off);
		return;
	}
	out->where = PF_WHERE_BLOCK;
	out->off = off;
}

/*
 * Tell where a result is; an inline one's bytes go to the reply, whose length *LEN then
 * covers them, if there is ROOM for them.
 */
static int place_result(const struct execution *x, const struct pf_object *result,
			char *reply, struct pf_out *out, size_t *len, size_t *room,
			struct pf_err *err)
{
	size_t at = (*len + INLINE_ALIGN - 1) & ~(size_t)(INLINE_ALIGN - 1);
	int r;

	if (result->len == 0 || result->len > PF_WIRE_INLINE ||
	    at + result->len - *len > *room) {
		pf_worker_location(result, out);
		if (out->where == PF_WHERE_INLINE)
			out->off = *len;
		else if (out->where == PF_WHERE_DEVICE && result->dtype != PF_DTYPE_TOKEN)
			keep_result(x, result, out);
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
	*room -= at + result->len - *len;
	*len = at + result->len;
	return 0;
}

/* An error is the answer: the daemon hears nothing of the first N. */
static void free_blocks(const struct pf_out *outs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (outs[i].where == PF_WHERE_BLOCK)
			pf_pool_block_free(outs[i].off);
}

/* The bytes of the answer without what lies inline. */
static size_t execution_answer_bytes(const struct execution *x)
{
	return sizeof(struct pf_rep_execute) + x->n_outs * sizeof(struct pf_out);
}

/*
 * Write the answer (but what execute.c fills in) to REPLY.  *ROOM is what there is for bytes
 * that lie inline, and what is left of it; *USED: how many bytes the answer takes.
 */
static int execution_answer(struct execution *x, char *reply, size_t *room, size_t *used,
			    struct pf_err *err)
{
	struct pf_rep_execute *head = (struct pf_rep_execute *)reply;
	struct pf_out *outs = (struct pf_out *)(head + 1);
	struct pf_object **results = x->objects + x->n_args;
	size_t len = execution_answer_bytes(x);

	for (size_t i = 0; i < x->n_outs; i++) {
		const struct pf_object *result = results[i];
		int r = 0;

		if (x->given[i]) /* what was donated cannot be asked any more */
			outs[i] = (struct pf_out){ .where = PF_WHERE_DEVICE,
						   .dtype = result->dtype,
						   .len = result->len };
		else
			r = place_result(x, result, reply, &outs[i], &len, room, err);
		if (r < 0) {
			free_blocks(outs, i);
			return pf_err_wrap(err, r, "result %zu", i);
		}
	}
	head->n_outs = (uint32_t)x->n_outs;
	*used = len;
	return 0;
}

/* --- the end -------------------------------------------------------------------------- */

/* Nobody will hear of its results: their ids are free again. */
static void execution_take_back(struct execution *x)
{
	for (size_t i = 0; x->has_ids && i < x->n_outs; i++)
		pf_objects_remove(&x->worker->objects, x->result_ids[i],
				  PF_OBJECT_BUFFER);
	x->has_ids = false;
}

/* Waits for its end if it has begun. */
static void execution_release(struct execution *x)
{
	(void)execution_await(x, NULL);
	for (size_t i = 0; i < x->n_found; i++)
		pf_object_unref(x->objects[i]);
	for (size_t i = 0; i < x->n_made; i++)
		pf_object_unref(x->objects[x->n_args + i]);
	pf_object_unref(x->program);
	free(x->many);
}

enum { INLINE_TOTAL = 64 << 10 }; /* bytes of one reply that results may take */

/* What one request asks for. */
struct series {
	struct pf_work *request;
	struct execution *all;
	size_t n, begun;
	size_t failed; /* the first that did; n: none */
	struct pf_err why;
	size_t len;                  /* bytes of the reply so far */
	size_t room;                 /* for what lies inline in it */
	struct pf_rep_execute *last; /* the answer written last */
};

static size_t round8(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

/* Read them all into ALL, if that is not NULL, or only count them in *N. */
static int read_all(const struct pf_work *request, struct execution *all, size_t *n,
		    struct pf_err *err)
{
	const char *message = request->message;
	struct execution scratch;
	size_t used;

	*n = 0;
	for (size_t at = 0; at < request->len; at = round8(at + used)) {
		int r = execution_read(all ? &all[*n] : &scratch, request->worker,
				       message + at, request->len - at, &used, err);

		if (r < 0)
			return r;
		++*n;
	}
	return 0;
}

static void fail(struct series *s, size_t which, const struct pf_err *why)
{
	s->failed = which;
	s->why = *why;
}

/* Begin one after the other, and wait for none of them. */
static void begin(struct series *s)
{
	struct pf_err err = PF_ERR_INIT;

	while (s->begun < s->n) {
		struct execution *x = &s->all[s->begun];

		if (execution_begin(x, s->begun ? x - 1 : NULL, &err) < 0) {
			fail(s, s->begun, &err);
			return;
		}
		s->begun++;
	}
}

static void await(struct series *s)
{
	for (size_t i = 0; i < s->begun; i++) {
		struct pf_err err = PF_ERR_INIT;

		if (execution_await(&s->all[i], &err) < 0 && i < s->failed)
			fail(s, i, &err);
	}
}

/* The time that was this one's alone. */
static uint64_t device_ns(const struct series *s, size_t i)
{
	const struct execution *x = &s->all[i];
	uint64_t from = x->begun_ns;

	if (i && x[-1].ready_ns > from)
		from = x[-1].ready_ns;
	return x->ready_ns > from ? x->ready_ns - from : 0;
}

/* Where the next answer begins; the one before, if any, tells. */
static struct pf_rep_execute *next_answer(struct series *s)
{
	size_t at = round8(s->len);

	if (s->last)
		s->last->next = (uint32_t)(s->request->reply + at - (char *)s->last);
	s->last = (struct pf_rep_execute *)(s->request->reply + at);
	s->len = at;
	return s->last;
}

static int answer_one(struct series *s, size_t i, struct pf_err *err)
{
	struct pf_rep_execute *rep = next_answer(s);
	size_t len = 0;
	int r = execution_answer(&s->all[i], (char *)rep, &s->room, &len, err);

	if (r < 0)
		return r;
	rep->device_ns = device_ns(s, i);
	rep->next = 0;
	if (i) /* the first one's is the message's */
		rep->rep = (struct pf_rep_head){ .head.len = (uint32_t)len };
	s->len += len;
	return 0;
}

/* Why one has no results; S->len is where it would begin, or began. */
static void answer_failure(struct series *s)
{
	struct pf_rep_execute *rep = next_answer(s);
	size_t len = strlen(s->why.text);

	*rep = (struct pf_rep_execute){ .rep = { .head.len =
							 (uint32_t)(sizeof(*rep) + len),
						 .code = s->why.code,
						 .pjrt_code = s->why.pjrt_code } };
	memcpy(rep + 1, s->why.text, len);
	s->len += sizeof(*rep) + len;
}

/* All that is good before the first that failed, and why that did. */
static void answer(struct series *s)
{
	for (size_t i = 0; i < s->failed && i < s->n; i++) {
		struct pf_err err = PF_ERR_INIT;

		if (answer_one(s, i, &err) < 0)
			fail(s, i, &err);
	}
	if (s->failed && s->failed < s->n)
		answer_failure(s);
}

/* What lies inline gets what the rest of the answers leaves. */
static int make_series_room(struct series *s, struct pf_err *err)
{
	size_t least = PF_ERR_TEXT + sizeof(struct pf_rep_execute);

	for (size_t i = 0; i < s->n; i++)
		least += round8(execution_answer_bytes(&s->all[i]));
	if (least > PF_RING_MESSAGE)
		return pf_err_set(err, -EPROTO, "execute: no room for %zu answers", s->n);
	s->room = PF_RING_MESSAGE - least;
	if (s->room > INLINE_TOTAL)
		s->room = INLINE_TOTAL;
	return 0;
}

static int execute(struct series *s, struct pf_err *err)
{
	int r = make_series_room(s, err);

	if (r < 0)
		return r;
	begin(s);
	await(s);
	answer(s);
	for (size_t i = s->failed; i < s->begun; i++)
		execution_take_back(&s->all[i]);
	for (size_t i = 0; i <= s->begun && i < s->n; i++)
		execution_release(&s->all[i]);
	if (s->failed == 0) {
		*err = s->why;
		return err->code;
	}
	s->request->reply_len = s->len;
	return 0;
}

int pf_handle_execute(struct pf_work *request, struct pf_err *err)
{
	struct execution one;
	struct series s = { .request = request, .all = &one, .why = PF_ERR_INIT };
	int r;
	size_t used;

	r = execution_read(&one, request->worker, request->message, request->len, &used,
			   err);
	s.n = 1;
	if (r == 0 && used < request->len) {
		s.all = NULL;
		r = read_all(request, NULL, &s.n, err);
		if (r == 0 && !(s.all = calloc(s.n, sizeof(*s.all))))
			r = pf_err_set(err, -ENOMEM, "no memory for %zu executions", s.n);
		if (r == 0)
			r = read_all(request, s.all, &s.n, err);
	}
	s.failed = s.n;
	if (r == 0)
		r = execute(&s, err);
	if (s.all != &one)
		free(s.all);
	return r;
}

/*
 * A call: an execution whose arguments are bytes in the arena, and whose results are bytes,
 * too.  All in one request, because of small arrays it is the requests that take the time.
 *
 * The arguments' buffers live as long as the execution, those of the results not even as
 * long as the answer, unless their memory lies in the pool: then the daemon reads it there.
 */

enum {
	FEW = 32, /* arguments or results whose lists need no malloc */
	CALL_INLINE_TOTAL = 64 << 10, /* bytes of one reply that results may take */
	CALL_ALIGN = 64,
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

static int check_call(const struct pf_work *request, struct calling *c,
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

static int make_call_room(struct calling *c, struct pf_err *err)
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
	r = pj_buffer_zero_copy(client, &c->place, bytes, arg.len, (int)arg.dtype, &shape,
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
	size_t at = out->len ? (*len + CALL_ALIGN - 1) & ~(size_t)(CALL_ALIGN - 1) : *len;
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
	pf_worker_location(object, &found);
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
	if (!size || (size <= PF_WIRE_INLINE && *len + CALL_ALIGN + size <= limit))
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

static int write_reply(struct calling *c, struct pf_work *request, struct pf_err *err)
{
	struct pf_rep_execute *reply = (struct pf_rep_execute *)request->reply;
	struct pf_out *outs = (struct pf_out *)(reply + 1);
	size_t len = sizeof(*reply) + c->q->n_outs * sizeof(*outs);
	size_t limit = len + CALL_INLINE_TOTAL;

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

static int call(struct calling *c, struct pf_work *request, struct pf_err *err)
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

int pf_handle_call(struct pf_work *request, struct pf_err *err)
{
	struct calling c;
	int r = check_call(request, &c, err);

	c.program = NULL;
	c.n_lent = 0;
	c.many = NULL;
	if (r == 0)
		r = make_call_room(&c, err);
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
