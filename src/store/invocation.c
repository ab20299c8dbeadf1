/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/execution.h"

enum { MAX_TRIES = 3 }; /* when the worker dies before it has the request */

static void step(struct pf_invocation *v);

static void wake(struct pf_wait *waiter)
{
	step(pf_container_of(waiter, struct pf_invocation, waiter));
}

/* --- the message ---------------------------------------------------------------------- */

/* Bytes of the message behind its fixed part. */
static size_t tail_len(const struct pf_signature *s)
{
	size_t len = s->n_outputs * sizeof(uint64_t);

	for (size_t i = 0; i < s->n_inputs; i++)
		len += sizeof(struct pf_arg) + s->inputs[i].shape.rank * sizeof(int64_t);
	return len;
}

int pf_invocation_check(const struct pf_loaded *loaded, struct pf_err *err)
{
	const struct pf_signature *s = loaded->signature;

	if (loaded->n_devices > 1)
		return pf_err_set(err, -EOPNOTSUPP,
				  "the program runs on %u devices at once, a call on one",
				  loaded->n_devices);
	if (s->n_inputs > PF_WIRE_MAX_ARGS || s->n_outputs > PF_WIRE_MAX_ARGS ||
	    tail_len(s) > PF_RING_MESSAGE - sizeof(struct pf_req_call) ||
	    sizeof(struct pf_rep_execute) + s->n_outputs * sizeof(struct pf_out) >
		    PF_RING_MESSAGE)
		return pf_err_set(err, -E2BIG,
				  "%zu inputs and %zu outputs are too many for a call",
				  s->n_inputs, s->n_outputs);
	return 0;
}

static void fill_args(struct pf_invocation *v, const uint64_t *offs)
{
	const struct pf_signature *s = v->loaded->signature;
	char *at = (char *)(v->tail + s->n_outputs);

	for (size_t i = 0; i < s->n_inputs; i++) {
		const struct pf_param *in = &s->inputs[i];
		struct pf_arg arg = { .off = pf_bytes_offset(v->bytes, offs[i]),
				      .dtype = in->dtype,
				      .rank = in->shape.rank };
		size_t dims = arg.rank * sizeof(in->shape.dims[0]);

		pf_shape_bytes(&in->shape, in->dtype, &arg.len, NULL);
		memcpy(at, &arg, sizeof(arg));
		memcpy(at + sizeof(arg), in->shape.dims, dims);
		at += sizeof(arg) + dims;
	}
}

/* --- its turn ------------------------------------------------------------------------- */

static void may_run(struct pf_sched_request *turn)
{
	struct pf_invocation *v = pf_container_of(turn, struct pf_invocation, turn);

	v->may_run = true;
	step(v);
}

/* True if its turn has come; else it will, and may have by now. */
static bool take_turn(struct pf_invocation *v)
{
	const struct pf_loaded *loaded = v->loaded;

	if (v->may_run)
		return true;
	v->device = loaded->n_devices ? loaded->devices[0] : 0;
	v->turn.user = v->uid;
	v->turn.queues = &v->device;
	v->turn.n_queues = 1;
	v->turn.granted = may_run;
	v->sched = pf_worker_sched(loaded->worker);
	if (!pf_sched_acquire(v->sched, &v->turn))
		return false;
	v->may_run = true;
	return true;
}

static void end_turn(struct pf_invocation *v)
{
	struct pf_sched *sched = pf_steal(&v->sched);

	v->may_run = false;
	if (sched)
		pf_sched_release(sched, &v->turn);
}

/* --- the results ---------------------------------------------------------------------- */

/* Give back what result I holds. */
static void drop(struct pf_invocation *v, size_t i)
{
	struct pf_result *out = &v->outs[i];

	if (out->where == PF_WHERE_POOL) {
		pf_instance_count(v->instance, PF_ALIVE_BUFFERS, v->device, -1);
		pf_instance_free_id(v->instance, PF_OP_BUFFER_FREE, v->tail[i]);
	} else if (out->where == PF_WHERE_BLOCK)
		pf_instance_free_block(v->instance, out->off);
	if (out->charged)
		pf_arena_discharge(v->executable->arena, out->charged);
	*out = (struct pf_result){ .where = PF_WHERE_INLINE };
}

static int take(struct pf_invocation *v, const struct pf_rep_execute *rep, size_t len,
		size_t i, struct pf_err *err)
{
	const struct pf_out *out = (const struct pf_out *)(rep + 1) + i;
	const struct pf_param *want = &v->loaded->signature->outputs[i];
	struct pf_result *ret = &v->outs[i];
	uint64_t bytes;

	if (pf_shape_bytes(&want->shape, want->dtype, &bytes, err) < 0)
		return err->code;
	ret->where = out->where;
	if (ret->where == PF_WHERE_POOL)
		pf_instance_count(v->instance, PF_ALIVE_BUFFERS, v->device, 1);
	ret->off = out->off;
	ret->len = bytes;
	if (out->where == PF_WHERE_INLINE) {
		ret->fleeting = true;
		if (out->off <= len && out->len <= len - out->off)
			ret->data = (const char *)rep + out->off;
	} else if (out->where == PF_WHERE_POOL || out->where == PF_WHERE_BLOCK) {
		ret->data = pf_instance_pool(v->instance, out->off, out->len);
	}
	if (!ret->data || out->len != bytes || out->dtype != (uint32_t)want->dtype)
		return pf_err_set(err, -EPROTO,
				  "output %zu: the worker gave %" PRIu64
				  " bytes of type %u, expected %" PRIu64 " of %s",
				  i, out->len, out->dtype, bytes,
				  pf_dtype_name(want->dtype));
	if (ret->fleeting)
		return 0;
	ret->charged = pf_pool_bytes(bytes);
	if (ret->charged <= v->reserved)
		v->reserved -= ret->charged;
	else /* one of very many small results, for which the reply had no room */
		pf_arena_force(v->executable->arena, ret->charged);
	return 0;
}

/* Discharge what was charged for results and is none's. */
static void release(struct pf_invocation *v)
{
	if (v->reserved)
		pf_arena_discharge(v->executable->arena, v->reserved);
	v->reserved = 0;
}

/* Charge for the results that do not come with the reply. */
static int reserve(struct pf_invocation *v, struct pf_err *err)
{
	const struct pf_signature *s = v->loaded->signature;
	uint64_t all = 0;
	int r;

	release(v);
	for (size_t i = 0; i < v->n_outs; i++) {
		uint64_t len;

		r = pf_shape_bytes(&s->outputs[i].shape, s->outputs[i].dtype, &len, err);
		if (r < 0)
			return r;
		if (len > PF_WIRE_INLINE)
			all += pf_pool_bytes(len);
	}
	r = all ? pf_arena_charge(v->executable->arena, all, err) : 0;
	if (r < 0)
		return pf_err_wrap(err, r, "its results");
	v->reserved = all;
	return 0;
}

static void end(struct pf_invocation *v, int code, const struct pf_err *err)
{
	struct pf_worker *worker = v->loaded->worker;

	v->seconds = pf_seconds_since(CLOCK_MONOTONIC, &v->start);
	pf_meter_execution(pf_worker_meter(worker), v->executable->meter,
			   pf_outcome_of(code), 1, v->seconds, &v->device, 1);
	end_turn(v);
	release(v);
	pf_bytes_unref(pf_steal(&v->bytes));
	v->done(v, code, err);
}

static void answer(struct pf_call *call, int code, const struct pf_err *why,
		   const void *reply, size_t len)
{
	struct pf_invocation *v = pf_container_of(call, struct pf_invocation, call);
	const struct pf_rep_execute *rep = reply;
	struct pf_err err = PF_ERR_INIT;
	size_t n = v->n_outs, taken = 0;

	if (code < 0) {
		pf_quarantine_add_execution(v->executable, v->loaded, v->instance, v->uid,
					    why);
		end(v, code, why);
		return;
	}
	if (rep->n_outs != n || len < sizeof(*rep) + n * sizeof(struct pf_out))
		code = pf_err_set(&err, -EPROTO, "the worker gave %u outputs of %zu",
				  rep->n_outs, n);
	v->device_seconds = (double)rep->device_ns / 1e9;
	while (code == 0 && taken < n)
		code = take(v, rep, len, taken++, &err);
	for (size_t i = 0; code < 0 && i < taken; i++)
		drop(v, i);
	/* What was not looked at would stay in the worker for ever. */
	for (size_t i = taken; code < 0 && i < n; i++)
		pf_instance_free_id(v->instance, PF_OP_BUFFER_FREE, v->tail[i]);
	end(v, code, &err);
}

/* --- the steps ------------------------------------------------------------------------ */

struct pf_invocation *pf_invocation_new(struct pf_executable *executable,
					struct pf_loaded *loaded, struct pf_bytes *bytes,
					const uint64_t *offs)
{
	const struct pf_signature *s = loaded->signature;
	struct pf_invocation *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->n_outs = s->n_outputs;
	v->tail_len = tail_len(s);
	v->outs = calloc(v->n_outs + 1, sizeof(*v->outs));
	v->tail = malloc(v->tail_len + 1);
	v->executable = pf_executable_ref(executable);
	v->loaded = pf_loaded_ref(loaded);
	v->bytes = pf_bytes_ref(bytes);
	v->waiter.wake = wake;
	if (!v->outs || !v->tail) {
		pf_invocation_free(v);
		return NULL;
	}
	for (size_t i = 0; i < v->n_outs; i++)
		v->outs[i].where = PF_WHERE_INLINE;
	fill_args(v, offs);
	return v;
}

void pf_invocation_free(struct pf_invocation *v)
{
	if (!v)
		return;
	for (size_t i = 0; v->outs && i < v->n_outs; i++)
		drop(v, i);
	release(v);
	pf_bytes_unref(v->bytes);
	pf_instance_unref(v->instance);
	pf_loaded_unref(v->loaded);
	pf_executable_unref(v->executable);
	free(v->outs);
	free(v->tail);
	free(v);
}

static int send(struct pf_invocation *v, struct pf_err *err)
{
	struct pf_req_call req = { .head.op = PF_OP_CALL };
	const struct pf_loaded *loaded = v->loaded;
	int r = pf_quarantine_check_execution(v->executable, loaded, v->uid, err);

	if (r == 0)
		r = reserve(v, err);
	if (r < 0)
		return r;
	req.executable = loaded->id;
	req.device = v->device = loaded->n_devices ? loaded->devices[0] : 0;
	req.any = loaded->n_devices == 0;
	req.n_args = (uint32_t)loaded->signature->n_inputs;
	req.n_outs = (uint32_t)v->n_outs;
	for (size_t i = 0; i < v->n_outs; i++)
		v->tail[i] = pf_worker_id(loaded->worker);
	pf_instance_unref(v->instance);
	v->instance = pf_instance_ref(loaded->instance);
	v->call.done = answer;
	v->call.reply_min = sizeof(struct pf_rep_execute);
	return pf_instance_call(v->instance, &v->call, &req, sizeof(req), v->tail,
				v->tail_len, err);
}

/* The same program in the worker's next life: 1; 0 it is being compiled. */
static int load_again(struct pf_invocation *v, struct pf_err *err)
{
	PF_CLEANUP(pf_loaded_unrefp) struct pf_loaded *loaded = NULL;
	int r = pf_executable_load(v->executable, &v->waiter, &loaded, err);

	if (r <= 0)
		return r;
	if (loaded->program != v->loaded->program)
		return pf_err_set(err, -ECANCELED,
				  "another program took its place meanwhile");
	pf_loaded_unref(v->loaded);
	v->loaded = pf_steal(&loaded);
	return 1;
}

static void step(struct pf_invocation *v)
{
	struct pf_err err = PF_ERR_INIT;
	int r = 1;

	do {
		if (!pf_instance_alive(v->loaded->instance)) {
			end_turn(v); /* it may compile for long */
			r = load_again(v, &err);
			if (r < 0)
				break;
		}
		/* At 0 it may have been answered already, and be gone. */
		if (r == 0 || !take_turn(v))
			return;
		r = send(v, &err);
		if (r == 0)
			return;
	} while (!pf_instance_alive(v->loaded->instance) && ++v->tries < MAX_TRIES);
	end(v, r, &err);
}

void pf_invocation_start(struct pf_invocation *v)
{
	clock_gettime(CLOCK_MONOTONIC, &v->start);
	step(v);
}
