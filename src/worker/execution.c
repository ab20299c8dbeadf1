/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One execution: found, begun, awaited, answered.
 *
 * Small results travel in the reply, large ones are named by where they lie in the pool.
 * For few arguments all lists are on the stack.
 */
#include "execution.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/base/clock.h"
#include "pjrtfs/worker/pool.h"

enum { INLINE_ALIGN = 64 };

int execution_read(struct execution *x, struct pf_worker *worker, const void *message,
		   size_t len, size_t *used, struct pf_err *err)
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

static int make_room(struct execution *x, struct pf_err *err)
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

int execution_begin(struct execution *x, struct execution *before, struct pf_err *err)
{
	int r = make_room(x, err);

	if (r == 0)
		r = find_objects(x, err);
	if (r == 0 && before)
		r = mark_given(x, before, err);
	return r < 0 ? r : start(x, err);
}

int execution_await(struct execution *x, struct pf_err *err)
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
		pf_worker_place(result, out);
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

size_t execution_answer_bytes(const struct execution *x)
{
	return sizeof(struct pf_rep_execute) + x->n_outs * sizeof(struct pf_out);
}

int execution_answer(struct execution *x, char *reply, size_t *room, size_t *used,
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

void execution_take_back(struct execution *x)
{
	for (size_t i = 0; x->has_ids && i < x->n_outs; i++)
		pf_objects_remove(&x->worker->objects, x->result_ids[i],
				  PF_OBJECT_BUFFER);
	x->has_ids = false;
}

void execution_release(struct execution *x)
{
	(void)execution_await(x, NULL);
	for (size_t i = 0; i < x->n_found; i++)
		pf_object_unref(x->objects[i]);
	for (size_t i = 0; i < x->n_made; i++)
		pf_object_unref(x->objects[x->n_args + i]);
	pf_object_unref(x->program);
	free(x->many);
}
