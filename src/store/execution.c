/* SPDX-License-Identifier: Apache-2.0 */
/* The state machine of an execution: load, transfer, slot, send, answer, end. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"

enum {
	MAX_TRIES = 3, /* when the worker dies between the transfers and the execution */
	SPIN_US = 50,
};

/* --- the message ---------------------------------------------------------------------- */

static size_t args_in_row(const struct pf_execution *e)
{
	return e->n_args / e->n_rows;
}

/* The message's lists, as struct pf_req_execute has them. */
static uint64_t *result_ids(const struct pf_execution *e)
{
	return e->message + e->n_args;
}

static uint32_t *carries(const struct pf_execution *e)
{
	return (uint32_t *)(void *)((char *)(result_ids(e) + e->n_outs) + e->lent_len);
}

static uint8_t *donations(const struct pf_execution *e)
{
	return (uint8_t *)(carries(e) + e->n_args);
}

/* The bytes of the results' layouts for a program with signature S. */
static size_t layout_bytes(const struct pf_signature *s)
{
	return s->lays_out ? s->n_outputs * sizeof(struct pf_layout) : 0;
}

static void describe_layouts(struct pf_execution *e)
{
	const struct pf_signature *s = e->loaded->signature;
	uint8_t *at = donations(e) + args_in_row(e);

	for (size_t i = 0; s->lays_out && i < s->n_outputs; i++)
		memcpy(at + i * sizeof(struct pf_layout), &s->outputs[i].layout,
		       sizeof(struct pf_layout));
}

/* The bytes that describe an argument IN that is lent. */
static size_t lent_bytes(const struct pf_param *in)
{
	return sizeof(struct pf_arg) + in->shape.rank * sizeof(int64_t) +
	       (pf_layout_is_row_major(&in->layout) ? 0 : sizeof(struct pf_layout));
}

int pf_execution_check_lent(const struct pf_loaded *loaded, const struct pf_param *lent,
			    size_t n, struct pf_err *err)
{
	const struct pf_signature *s = loaded->signature;
	size_t len = layout_bytes(s);

	if (loaded->n_devices > 1)
		return pf_err_set(err, -EOPNOTSUPP,
				  "the program runs on %u devices at once, a call on one",
				  loaded->n_devices);
	for (size_t i = 0; i < n; i++)
		len += lent_bytes(&lent[i]);
	if (s->n_inputs > PF_WIRE_MAX_ARGS || s->n_outputs > PF_WIRE_MAX_ARGS ||
	    pf_execute_bytes(s->n_inputs, s->n_outputs, 1) + len > PF_RING_MESSAGE ||
	    sizeof(struct pf_rep_execute) + s->n_outputs * sizeof(struct pf_out) >
		    PF_RING_MESSAGE)
		return pf_err_set(err, -E2BIG,
				  "%zu inputs and %zu outputs are too many for a call",
				  s->n_inputs, s->n_outputs);
	return 0;
}

static void describe_lent(struct pf_execution *e)
{
	const struct pf_signature *s = e->loaded->signature;
	char *at = (char *)(result_ids(e) + e->n_outs);

	for (size_t i = 0; i < e->n_args; i++) {
		const struct pf_param *in = &s->inputs[i];
		struct pf_arg arg = { .off = pf_bytes_offset(e->lent, e->args[i].off),
				      .dtype = in->dtype,
				      .rank = (uint16_t)in->shape.rank,
				      .laid_out = !pf_layout_is_row_major(&in->layout) };
		size_t dims = arg.rank * sizeof(in->shape.dims[0]);

		if (e->args[i].value)
			continue;
		pf_shape_bytes(&in->shape, in->dtype, &arg.len, NULL);
		memcpy(at, &arg, sizeof(arg));
		memcpy(at + sizeof(arg), in->shape.dims, dims);
		at += sizeof(arg) + dims;
		if (arg.laid_out) {
			memcpy(at, &in->layout, sizeof(in->layout));
			at += sizeof(in->layout);
		}
		e->message[i] = 0;
	}
	memset(at, 0xff, e->n_args * sizeof(uint32_t)); /* PF_NO_CARRY */
	memset(donations(e), 0, e->n_args);
}

/* --- making and freeing --------------------------------------------------------------- */

static bool step(struct pf_execution *e);

static void wake(struct pf_wait *waiter)
{
	step(pf_container_of(waiter, struct pf_execution, waiter));
}

struct pf_execution *pf_execution_new(struct pf_executable *executable, size_t n_args,
				      size_t n_rows)
{
	struct pf_execution *e = calloc(1, sizeof(*e) + n_args * sizeof(e->args[0]));

	if (!e)
		return NULL;
	atomic_init(&e->refs, 1);
	e->executable = pf_executable_ref(executable);
	e->n_args = n_args;
	e->n_rows = n_rows;
	e->repeat = 1;
	e->slot.work.of = 1;
	e->device = UINT32_MAX;
	e->waiter.wake = wake;
	for (size_t i = 0; i < n_args; i++)
		e->args[i].carry = PF_NO_CARRY;
	return e;
}

/* Drop the value of result I, or free what the worker holds of its bytes. */
static void drop_result(struct pf_execution *e, size_t i)
{
	struct pf_exec_result *out = &e->outs[i];

	pf_value_unref(out->value);
	if (out->where == PF_WHERE_POOL) {
		pf_instance_count(e->instance, PF_ALIVE_BUFFERS, e->first_device, -1);
		pf_instance_free_id(e->instance, PF_OP_BUFFER_FREE, result_ids(e)[i]);
	} else if (out->where == PF_WHERE_BLOCK)
		pf_instance_free_block(e->instance, out->off);
	if (out->held)
		pf_memory_discharge(e->executable->arena, e->account, out->held);
}

void pf_execution_free(struct pf_execution *e)
{
	if (!e)
		return;
	for (size_t i = 0; i < e->n_args; i++)
		pf_value_unref(e->args[i].value);
	for (size_t i = 0; i < e->n_outs; i++)
		drop_result(e, i);
	free(e->outs);
	pf_bytes_unref(e->lent);
	free(e->name);
	free(e->id);
	pf_loaded_unref(e->loaded);
	pf_execution_unref(e);
}

struct pf_value *pf_execution_next_value(const struct pf_execution *e, size_t i)
{
	const struct pf_exec_arg *arg = &e->args[i];
	size_t row = i / args_in_row(e);

	return e->runs && arg->carry != PF_NO_CARRY
		       ? e->outs[row * (e->n_outs / e->n_rows) + arg->carry].value
		       : arg->value;
}

struct pf_execution *pf_execution_next(const struct pf_execution *e)
{
	struct pf_execution *next = pf_execution_new(e->executable, e->n_args, e->n_rows);

	for (size_t i = 0; next && i < e->n_args; i++) {
		next->args[i] = e->args[i];
		next->args[i].value = pf_value_ref(pf_execution_next_value(e, i));
		next->args[i].donate = e->args[i].donate_carried;
	}
	return next;
}

void pf_execution_describe(struct pf_execution *e, const char *name, uint64_t done,
			   uint64_t of, int64_t began)
{
	struct pf_sched_work *work = &e->slot.work;

	if (strlen(name) < sizeof(work->name))
		strcpy(work->name, name);
	work->done = done;
	work->of = of ? of : 1;
	work->began = began;
}

void pf_execution_lend(struct pf_execution *e, struct pf_loaded *loaded,
		       struct pf_bytes *bytes, const uint64_t *offs)
{
	e->loaded = pf_loaded_ref(loaded);
	e->lent = pf_bytes_ref(bytes);
	e->take = true;
	for (size_t i = 0; i < e->n_args; i++)
		if (!e->args[i].value)
			e->args[i].off = *offs++;
}

/* --- how many a user has -------------------------------------------------------------- */

/* The resource WHAT, of the account, of the device of ROW. */
static unsigned resource_of(const struct pf_execution *e, size_t row,
			    enum pf_device_resource what)
{
	return pf_account_device(e->account, e->loaded->worker,
				 pf_execution_device(e, row), what);
}

/* The same program may be loaded on other devices next. */
static void leave_devices(struct pf_execution *e)
{
	while (e->n_counted > 0) {
		e->n_counted--;
		pf_account_discharge(e->account,
				     resource_of(e, e->n_counted, PF_DEVICE_EXECUTIONS),
				     1);
	}
}

/* Programs of a whole group wait for each other if its processes run them in different orders, so one user
 * orders them. */
static int check_group(const struct pf_execution *e, struct pf_err *err)
{
	const struct pf_telemetry *telemetry = pf_worker_telemetry(e->loaded->worker);

	if (!e->loaded->wide || !telemetry || e->uid == pf_telemetry_owner(telemetry))
		return 0;
	return pf_err_set(err, -EPERM,
			  "the program runs on devices of other processes of the group: "
			  "only the owner of the mount may execute it");
}

/* --- slot ----------------------------------------------------------------------------- */

static void granted(struct pf_sched_request *slot)
{
	struct pf_execution *e = pf_container_of(slot, struct pf_execution, slot);

	e->queue_seconds += pf_seconds_since(CLOCK_MONOTONIC, &e->queued_at);
	e->stage = PF_EXECUTION_SEND;
	step(e);
}

/* Its devices are known: say what slots it needs.  Returns their scheduler. */
static struct pf_sched *describe_slot(struct pf_execution *e)
{
	bool many = e->n_rows > 1;

	e->first_device = pf_execution_device(e, 0);
	e->slot.queues = many ? e->loaded->queues : &e->first_device;
	e->slot.n_queues = many ? e->loaded->n_devices : 1;
	e->slot.user = e->uid;
	/* All processes must run such programs in one order. */
	e->slot.alone = e->loaded->wide;
	e->slot.granted = granted;
	e->slot.work.subject = atomic_load(&e->executable->subject);
	e->slot.work.stage = PF_STAGE_RUNNING;
	return pf_worker_sched(e->loaded->worker);
}

/* It waits for an argument on its way to the device. */
static void announce(struct pf_execution *e)
{
	struct pf_sched *sched;

	if (atomic_load(&e->sched)) /* for an argument before */
		return;
	sched = describe_slot(e);
	pf_sched_announce(sched, &e->slot, PF_STAGE_UPLOADING);
	atomic_store(&e->sched, sched);
}

/* 1: it has its slots.  0: the scheduler calls granted, perhaps before this returns. */
static int acquire_slot(struct pf_execution *e)
{
	struct pf_sched *sched = atomic_load(&e->sched);

	e->transfer_seconds = pf_seconds_since(CLOCK_MONOTONIC, &e->loaded_at);
	clock_gettime(CLOCK_MONOTONIC, &e->queued_at);
	if (!sched) {
		sched = describe_slot(e);
		atomic_store(&e->sched, sched);
	}
	if (!pf_sched_acquire(sched, &e->slot))
		return 0;
	e->stage = PF_EXECUTION_SEND;
	return 1;
}

/* Give its slots back, or leave the queue, or the list of what is to come. */
static void release_slot(struct pf_execution *e)
{
	struct pf_sched *sched = atomic_exchange(&e->sched, NULL);

	if (sched)
		pf_sched_release(sched, &e->slot);
}

bool pf_execution_dequeue(struct pf_execution *e)
{
	struct pf_sched *sched = atomic_load(&e->sched);

	return sched && pf_sched_dequeue(sched, &e->slot);
}

unsigned pf_execution_position(struct pf_execution *e)
{
	struct pf_sched *sched = atomic_load(&e->sched);

	return sched ? pf_sched_position(sched, &e->slot) : 0;
}

enum pf_stage pf_execution_shown_stage(struct pf_execution *e)
{
	struct pf_sched *sched = atomic_load(&e->sched);

	return sched ? pf_sched_stage(sched, &e->slot) : PF_STAGE_NONE;
}

bool pf_execution_has_slot(struct pf_execution *e)
{
	struct pf_sched *sched = atomic_load(&e->sched);

	return sched && pf_sched_has(sched, &e->slot);
}

void pf_execution_left(struct pf_execution *e)
{
	struct pf_sched *sched = atomic_load(&e->sched);

	if (sched)
		pf_sched_left(sched, &e->slot);
}

void pf_execution_resume(struct pf_execution *e)
{
	step(e);
}

/* --- arguments and memory ------------------------------------------------------------- */

static int make_room(struct pf_execution *e, struct pf_err *err)
{
	size_t n_outs = e->loaded->signature->n_outputs * e->n_rows;

	if (e->n_args > PF_WIRE_MAX_ARGS || n_outs > PF_WIRE_MAX_ARGS)
		return pf_err_set(err, -E2BIG, "more than %d inputs or outputs",
				  PF_WIRE_MAX_ARGS);
	e->lent_len = 0;
	for (size_t i = 0; e->lent && i < e->n_args; i++)
		if (!e->args[i].value)
			e->lent_len += lent_bytes(&e->loaded->signature->inputs[i]);
	if (!e->message)
		e->message = malloc(pf_execute_bytes(e->n_args, n_outs, e->n_rows) +
				    e->lent_len + n_outs * sizeof(struct pf_layout));
	if (!e->outs)
		e->outs = calloc(n_outs + 1, sizeof(*e->outs));
	if (!e->message || !e->outs)
		return pf_err_set(err, -ENOMEM, "no memory for an execution");
	e->n_outs = n_outs;
	return 0;
}

/*
 * Pin the arguments until the end, so that no other execution consumes them, and write their ids
 * to the message.  False if one has left the executable's instance.
 */
static bool pin_args(struct pf_execution *e)
{
	for (; e->n_pinned < e->n_args; e->n_pinned++) {
		struct pf_value *value = e->args[e->n_pinned].value;
		uint64_t *id = &e->message[e->n_pinned];

		if (value && !(*id = pf_value_use(value, e->loaded->instance)))
			return false;
	}
	return true;
}

/* Unpin the arguments.  CONSUMED: the donated ones are gone; else they are as they were. */
static void unpin_args(struct pf_execution *e, bool consumed)
{
	for (size_t i = 0; i < e->n_pinned; i++) {
		struct pf_exec_arg *arg = &e->args[i];

		if (arg->donated)
			pf_value_donated(arg->value, consumed);
		arg->donated = false;
		if (arg->value)
			pf_value_unpin(arg->value);
	}
	e->n_pinned = 0;
}

/*
 * Write to the message which arguments the plugin may consume.  An argument is donated on all
 * devices or on none; the plugin copies the others where it needs their memory.  False: another
 * execution consumes one.
 */
static bool donate_args(struct pf_execution *e)
{
	size_t in_row = args_in_row(e);
	uint8_t *bits = donations(e);

	memset(bits, PF_DONATE_FIRST | PF_DONATE_LATER, in_row);
	for (size_t i = 0; i < e->n_args; i++) {
		struct pf_exec_arg *arg = &e->args[i];
		enum pf_donation d =
			arg->donate ? pf_value_donate(arg->value) : PF_DONATION_SHARED;

		if (d == PF_DONATION_REFUSED)
			return false;
		arg->donated = d == PF_DONATION_COPIED || d == PF_DONATION_TAKEN;
		if (d != PF_DONATION_TAKEN)
			bits[i % in_row] &= (uint8_t)~PF_DONATE_FIRST;
		if (!arg->donate_carried)
			bits[i % in_row] &= (uint8_t)~PF_DONATE_LATER;
		carries(e)[i] = arg->carry;
	}
	return true;
}

/* The result that takes argument I's memory in runs whose donations have BIT, or NULL. */
static struct pf_exec_result *made_of(const struct pf_execution *e, size_t i, uint8_t bit)
{
	const struct pf_signature *s = e->loaded->signature;
	int out = s->inputs[i % s->n_inputs].alias_output;

	return donations(e)[i % s->n_inputs] & bit && out >= 0 &&
			       (size_t)out < s->n_outputs
		       ? &e->outs[i / s->n_inputs * s->n_outputs + (size_t)out]
		       : NULL;
}

/*
 * The bytes of host memory that the results of a run take whose donations have BIT: of
 * each in its own, of all in *ALL.  A result that takes an argument's memory counts 0.
 */
static int size_results(struct pf_execution *e, uint8_t bit, uint64_t *all,
			struct pf_err *err)
{
	const struct pf_signature *s = e->loaded->signature;
	uint64_t len;

	for (size_t i = 0; i < e->n_outs; i++) {
		const struct pf_param *want = &s->outputs[i % s->n_outputs];
		const struct pf_place place = { e->loaded->worker,
						pf_execution_device(e, i / s->n_outputs),
						PF_DEFAULT_MEMORY };
		int r = pf_shape_bytes(&want->shape, want->dtype, &len, err);

		if (r < 0)
			return r;
		e->outs[i].on_device = e->take ? 0 : len;
		if (e->take) /* the reply holds small results */
			e->outs[i].own = len > PF_WIRE_INLINE ? pf_pool_bytes(len) : 0;
		else
			e->outs[i].own = pf_value_space(place, len);
	}
	for (size_t i = 0; i < e->n_args && !e->lent; i++) {
		struct pf_exec_result *out = made_of(e, i, bit);

		if (out)
			out->on_device = 0;
		if (out && (bit == PF_DONATE_LATER ||
			    pf_value_own(e->args[i].value) >= out->own))
			out->own = 0;
	}
	*all = 0;
	for (size_t i = 0; i < e->n_outs; i++)
		if (__builtin_add_overflow(*all, e->outs[i].own, all))
			*all = UINT64_MAX;
	return 0;
}

/* The account's memory on the device of result I. */
static unsigned memory_of(const struct pf_execution *e, size_t i)
{
	return resource_of(e, i / e->loaded->signature->n_outputs, PF_DEVICE_MEMORY);
}

/* Give back what is reserved for the first N results. */
static void unreserve(struct pf_execution *e, size_t n)
{
	for (size_t i = 0; i < n && e->account; i++) {
		if (e->outs[i].on_device)
			pf_account_discharge(e->account, memory_of(e, i),
					     e->outs[i].on_device);
		e->outs[i].on_device = 0;
	}
}

/* Reserve the memory of the devices for the results, until they exist. */
static int reserve(struct pf_execution *e, struct pf_err *err)
{
	for (size_t i = 0; i < e->n_outs && e->account; i++) {
		uint64_t bytes = e->outs[i].on_device;
		int r = bytes ? pf_account_charge(e->account, memory_of(e, i), bytes, err)
			      : 0;

		if (r < 0) {
			unreserve(e, i);
			return r;
		}
	}
	return 0;
}

/*
 * Charge the memory of the results, and of those of earlier runs, before the plugin
 * allocates it.  If the memory limit does not allow the latter, one run is sent at a
 * time.
 */
static int charge(struct pf_execution *e, struct pf_err *err)
{
	struct pf_arena *arena = pf_worker_arena(e->loaded->worker);
	uint64_t all = 0, later = 0;
	int r = e->repeat > 1 ? size_results(e, PF_DONATE_LATER, &later, err) : 0;

	if (r == 0)
		r = size_results(e, PF_DONATE_FIRST, &all, err);
	if (r == 0)
		r = reserve(e, err);
	if (r == 0 && all && (r = pf_memory_charge(arena, e->account, all, err)) < 0)
		unreserve(e, e->n_outs);
	if (r < 0) {
		for (size_t i = 0; i < e->n_outs; i++)
			e->outs[i].own = e->outs[i].on_device = 0;
		return pf_err_wrap(err, r, "its results");
	}
	if (__builtin_mul_overflow(later, PF_WIRE_GENERATIONS - 1, &e->extra))
		e->extra = UINT64_MAX;
	if (e->extra && pf_memory_charge(arena, e->account, e->extra, NULL) < 0) {
		e->extra = 0;
		e->repeat = 1;
	}
	return 0;
}

/* Discharge what is charged for results that do not exist (any more). */
static void discharge(struct pf_execution *e)
{
	uint64_t all = e->extra;

	unreserve(e, e->n_outs);
	e->extra = 0;
	for (size_t i = 0; i < e->n_outs; i++) {
		all += e->outs[i].own;
		e->outs[i].own = 0;
	}
	if (all)
		pf_memory_discharge(e->executable->arena, e->account, all);
}

/* --- end ------------------------------------------------------------------------------ */

static void report(struct pf_execution *e, const struct pf_err *err)
{
	/* options.json may name another plugin by now. */
	const struct pf_loaded *l = e->loaded;
	struct pf_worker *w = l ? l->worker : pf_executable_worker(e->executable);
	unsigned one = l ? pf_execution_device(e, 0) : 0;
	struct pf_report_execution report = {
		.executable = e->name,
		.user = e->uid,
		.id = e->id,
		.runs = e->runs,
		.seconds = e->seconds,
		.device_seconds = e->device_seconds,
		.transfer_seconds = e->transfer_seconds,
		.queue_seconds = e->queue_seconds,
		.devices = l && l->n_devices ? l->devices : &one,
		.n_devices = l && l->n_devices ? l->n_devices : l != NULL,
		.err = err,
	};

	if (e->take) {
		pf_meter_execution(pf_worker_meter(w), e->executable->meter,
				   pf_outcome_of(err ? err->code : 0), 1, e->seconds,
				   report.devices, report.n_devices);
		return;
	}
	if (e->report)
		e->report(e, &report);
	pf_report_executed(pf_worker_telemetry(w), pf_worker_meter(w),
			   e->executable->meter, &report);
}

/* End with CODE.  The caller may free E before this returns. */
static void end(struct pf_execution *e, int code, struct pf_err *err)
{
	if (e->call.asked)
		pf_execution_cancel_calls(e);
	release_slot(e);
	leave_devices(e);
	if (e->counted)
		pf_account_discharge(e->account, PF_EXECUTIONS, 1);
	e->seconds = pf_seconds_since(CLOCK_MONOTONIC, &e->start);
	unpin_args(e, e->runs > 0);
	discharge(e);
	pf_bytes_unref(pf_steal(&e->lent));
	if (code < 0 && e->name)
		code = pf_err_wrap(err, code, "%s", e->name);
	report(e, code < 0 ? err : NULL);
	atomic_store(&e->ended, true);
	e->done(e, code, err);
}

/* --- answer --------------------------------------------------------------------------- */

/* Result I does not become a value: its bytes stay at DATA until drop_result. */
static void hold_bytes(struct pf_execution *e, size_t i, const struct pf_out *out,
		       const void *data)
{
	struct pf_exec_result *ret = &e->outs[i];

	ret->data = data;
	ret->len = out->len;
	ret->transient = out->where == PF_WHERE_INLINE;
	if (ret->transient)
		return;
	ret->where = out->where;
	ret->off = out->off;
	if (ret->where == PF_WHERE_POOL)
		pf_instance_count(e->instance, PF_ALIVE_BUFFERS, e->first_device, 1);
	ret->held = pf_pool_bytes(out->len);
	if (ret->own) /* 0 for a small result that did not fit into the reply */
		ret->own = 0;
	else
		pf_memory_force(e->executable->arena, e->account, ret->held);
}

static int take_output(struct pf_execution *e, const struct pf_rep_execute *rep,
		       size_t len, size_t i, struct pf_err *err)
{
	const struct pf_out *out = (const struct pf_out *)(rep + 1) + i;
	const struct pf_signature *s = e->loaded->signature;
	const struct pf_param *want = &s->outputs[i % s->n_outputs];
	struct pf_exec_result *ret = &e->outs[i];
	const void *data = NULL;
	uint64_t bytes;

	if (pf_shape_bytes(&want->shape, want->dtype, &bytes, err) < 0)
		return err->code;
	if (out->where == PF_WHERE_INLINE && out->off <= len &&
	    out->len <= len - out->off)
		data = (const char *)rep + out->off;
	else if (out->where == PF_WHERE_POOL || out->where == PF_WHERE_BLOCK)
		data = pf_instance_array(e->instance, out->off, out->len);
	if (out->len != bytes || out->dtype != (uint32_t)want->dtype ||
	    !(data || (out->where == PF_WHERE_DEVICE && !e->take)))
		return pf_err_set(err, -EPROTO,
				  "output %zu: the worker gave %" PRIu64
				  " bytes of type %u, expected %" PRIu64 " of %s",
				  i, out->len, out->dtype, bytes,
				  pf_dtype_name(want->dtype));
	if (e->take) {
		hold_bytes(e, i, out, data);
		return 0;
	}
	ret->value =
		pf_value_of_result(&want->shape, e->loaded->worker,
				   pf_execution_device(e, i / s->n_outputs), e->instance,
				   result_ids(e)[i], e->account, ret->own, out, rep);
	if (!ret->value)
		return pf_err_set(err, -ENOMEM, "no memory for output %zu", i);
	pf_value_set_layout(ret->value, &want->layout);
	ret->own = 0;
	return 0;
}

static int take_outputs(struct pf_execution *e, const struct pf_rep_execute *rep,
			size_t len, struct pf_err *err)
{
	int r = 0;

	for (size_t i = 0; i < e->n_args && !e->lent; i++) {
		struct pf_exec_result *out = made_of(e, i, PF_DONATE_FIRST);

		if (out && !out->own)
			out->own = pf_value_take_charge(e->args[i].value, e->account);
	}
	for (size_t i = 0; i < e->n_outs && r == 0; i++)
		r = take_output(e, rep, len, i, err);
	/* Free the other results, which the worker would keep until it ends. */
	for (size_t i = 0; i < e->n_outs && r < 0; i++)
		if (!e->outs[i].value && !e->outs[i].data)
			pf_instance_free_id(e->instance, PF_OP_BUFFER_FREE,
					    result_ids(e)[i]);
	return r;
}

/* Take the results of the last good run.  -errno with ERR: why the next run failed. */
static int take_answer(struct pf_execution *e, const struct pf_rep_execute *rep,
		       size_t len, struct pf_err *err)
{
	size_t fixed = sizeof(*rep) + e->n_outs * sizeof(struct pf_out);
	int r;

	if (rep->n_outs != e->n_outs || rep->runs < 1 || rep->runs > e->repeat ||
	    len < fixed || rep->why_len > len - fixed)
		return pf_err_set(err, -EPROTO, "the worker gave %u outputs of %zu",
				  rep->n_outs, e->n_outs);
	e->device_seconds = (double)rep->device_ns / 1e9;
	r = take_outputs(e, rep, len, err);
	if (r < 0)
		return r;
	e->runs = rep->runs;
	if (rep->why >= 0)
		return 0;
	r = rep->why > -4096 ? rep->why : -EIO;
	pf_err_set_lines(err, r, (const char *)rep + len - rep->why_len, rep->why_len);
	err->pjrt_code = rep->why_pjrt_code;
	return r;
}

/* The worker ended while it had E: if E was the only suspect, it is the culprit.  A program that
 * waits for the host is none. */
static void note_death(const struct pf_execution *e, const struct pf_err *why)
{
	if (why->pjrt_code >= 0 || e->call.n_asked ||
	    pf_instance_was_stopped(e->instance) ||
	    pf_instance_lost(e->instance, PF_OP_COMPILE) +
			    pf_instance_lost(e->instance, PF_OP_LOAD) >
		    0 ||
	    pf_instance_lost(e->instance, PF_OP_EXECUTE) != 1)
		return;
	pf_quarantine_add(e->executable->compiler->quarantine, PF_SUSPECT_EXECUTION,
			  &e->loaded->key, e->uid, why);
}

static void answer(struct pf_call *call, int code, const struct pf_err *why,
		   const void *reply, size_t len)
{
	struct pf_execution *e = pf_container_of(call, struct pf_execution, call);
	struct pf_err err = PF_ERR_INIT;

	if (code < 0) {
		err = *why;
		pf_stage_blame(PF_STAGE_RUNNING, &err);
		note_death(e, &err);
	} else {
		code = take_answer(e, reply, len, &err);
	}
	end(e, code, &err);
	pf_execution_unref(e);
}

/* --- send ----------------------------------------------------------------------------- */

/* Pin, charge and write the message.  0; 1: an argument has moved; -errno. */
static int prepare(struct pf_execution *e, struct pf_err *err)
{
	int r = pf_quarantine_check(e->executable->compiler->quarantine,
				    PF_SUSPECT_EXECUTION, &e->loaded->key, e->uid, err);

	if (r == 0)
		r = check_group(e, err);
	if (r == 0)
		r = make_room(e, err);
	if (r < 0)
		return r;
	if (e->lent)
		describe_lent(e);
	if (!pin_args(e) || (!e->lent && !donate_args(e))) {
		unpin_args(e, false);
		return 1;
	}
	r = charge(e, err);
	if (r < 0)
		return r;
	describe_layouts(e);
	for (size_t i = 0; i < e->n_outs; i++)
		result_ids(e)[i] = pf_worker_id(e->loaded->worker);
	pf_instance_unref(e->instance);
	e->instance = pf_instance_ref(e->loaded->instance);
	return 0;
}

/* Its worker died, or an argument has left its device. */
static int begin_again(struct pf_execution *e)
{
	release_slot(e);
	leave_devices(e);
	e->n_transferred = 0;
	if (!e->lent)
		pf_loaded_unref(pf_steal(&e->loaded));
	e->stage = PF_EXECUTION_LOAD;
	return 1;
}

/* The same, unless this has happened too often. */
static int try_again(struct pf_execution *e, struct pf_err *err)
{
	if (++e->tries < MAX_TRIES)
		return begin_again(e);
	return pf_err_set(err, -EIO, "the worker of plugin %s keeps dying",
			  pf_worker_name(e->loaded->worker));
}

/* 0: it was sent, and may have ended; 1: it begins again; -errno. */
static int send(struct pf_execution *e, struct pf_err *err)
{
	struct pf_req_execute req = { .head.op = PF_OP_EXECUTE };
	int r;

	if (!pf_instance_serves(e->loaded->instance))
		return begin_again(e);
	r = prepare(e, err);
	if (r != 0)
		return r < 0 ? r : try_again(e, err);
	req.executable = e->loaded->id;
	req.device = e->loaded->n_devices ? UINT32_MAX : pf_execution_device(e, 0);
	req.n_args = (uint32_t)args_in_row(e);
	req.n_outs = (uint32_t)(e->n_outs / e->n_rows);
	req.n_devices = (uint32_t)e->n_rows;
	req.repeat = e->repeat;
	req.flags = (e->take ? PF_EXECUTE_TAKE : 0) |
		    (e->loaded->signature->lays_out ? PF_EXECUTE_LAYS_OUT : 0);
	req.lent_device = e->first_device;
	req.launch_id = e->launch_id;
	e->call.done = answer;
	e->call.reply_min = sizeof(struct pf_rep_execute);
	if (e->loaded->signature->n_callbacks)
		pf_callbacks_serve(e);
	if (e->began)
		e->began(e);
	pf_execution_ref(e);
	r = pf_instance_call(e->instance, &e->call, &req, sizeof(req), e->message,
			     pf_execute_bytes(e->n_args, e->n_outs, e->n_rows) +
				     e->lent_len + layout_bytes(e->loaded->signature) -
				     sizeof(req),
			     err);
	if (r == 0)
		return 0;
	atomic_fetch_sub(&e->refs, 1); /* no answer will come */
	if (pf_instance_alive(e->instance))
		return r;
	unpin_args(e, false);
	discharge(e);
	return try_again(e, err);
}

/* --- the stages ------------------------------------------------------------------------ */

/* Executables with equal programs share what is loaded, so A and B may have it from others. */
static bool is_same_program(const struct pf_loaded *a, const struct pf_loaded *b)
{
	return a->program == b->program ||
	       (a->program_len == b->program_len &&
		!memcmp(pf_bytes_at(a->program, 0), pf_bytes_at(b->program, 0),
			a->program_len));
}

/* Load the executable on a living worker, and check its arguments. */
static int load(struct pf_execution *e, struct pf_err *err)
{
	PF_CLEANUP(pf_loaded_unrefp) struct pf_loaded *loaded = NULL;
	int r;

	if (e->lent && pf_instance_serves(e->loaded->instance)) {
		e->stage = PF_EXECUTION_TRANSFER;
		return 1;
	}
	r = pf_executable_load(e->executable, e->uid, &e->waiter, &loaded, err);
	if (r <= 0)
		return r;
	if (e->lent && !is_same_program(loaded, e->loaded))
		return pf_err_set(err, -ECANCELED,
				  "another program took its place meanwhile");
	pf_loaded_unref(e->loaded);
	e->loaded = pf_steal(&loaded);
	r = pf_execution_check(e, err);
	if (r < 0)
		return r;
	clock_gettime(CLOCK_MONOTONIC, &e->loaded_at);
	e->stage = PF_EXECUTION_TRANSFER;
	return 1;
}

/* Bring the arguments to their devices, from the next one on. */
static int transfer(struct pf_execution *e, struct pf_err *err)
{
	for (; e->n_transferred < e->n_args; e->n_transferred++) {
		struct pf_value *value = e->args[e->n_transferred].value;
		int r;

		if (!value)
			continue;
		r = pf_value_on_device(value, err);
		if (r == 0) {
			announce(e);
			/* Before another thread is woken. */
			e->stage = PF_EXECUTION_PLACED;
			r = pf_value_transfer(value, &e->waiter, err);
		}
		if (r < 0)
			return pf_execution_name_arg(e, e->n_transferred, r, err);
		if (r == 0)
			return 0;
	}
	e->stage = PF_EXECUTION_QUEUE;
	return 1;
}

static int check_placed(struct pf_execution *e, struct pf_err *err)
{
	int r = pf_value_placed(e->args[e->n_transferred].value, err);

	if (r < 0)
		return pf_execution_name_arg(e, e->n_transferred, r, err);
	e->stage = PF_EXECUTION_TRANSFER;
	return 1;
}

/* Count E on its devices, and get in line there. */
static int enter_queue(struct pf_execution *e, struct pf_err *err)
{
	for (; e->account && e->n_counted < e->n_rows; e->n_counted++) {
		unsigned resource = resource_of(e, e->n_counted, PF_DEVICE_EXECUTIONS);
		int r = pf_account_charge(e->account, resource, 1, err);

		if (r < 0)
			return r;
	}
	return acquire_slot(e);
}

/* Continue E from its stage.  True if this call sent E, which may be freed by then. */
static bool step(struct pf_execution *e)
{
	static const enum pf_stage before_it_began[] = {
		[PF_EXECUTION_LOAD] = PF_STAGE_NONE,
		[PF_EXECUTION_TRANSFER] = PF_STAGE_UPLOADING,
		[PF_EXECUTION_PLACED] = PF_STAGE_UPLOADING,
		[PF_EXECUTION_QUEUE] = PF_STAGE_WAITING,
		[PF_EXECUTION_SEND] = PF_STAGE_WAITING,
	};
	struct pf_err err = PF_ERR_INIT;
	int r = 1; /* 0: E waits, and another thread may have continued it by now */

	if (e->cancelled && e->cancelled(e)) {
		r = pf_err_set(&err, -ECANCELED, "cancelled before it began");
		pf_stage_blame(before_it_began[e->stage], &err);
	}
	while (r > 0)
		switch (e->stage) {
		case PF_EXECUTION_LOAD:
			r = load(e, &err);
			break;
		case PF_EXECUTION_TRANSFER:
			r = transfer(e, &err);
			break;
		case PF_EXECUTION_PLACED:
			r = check_placed(e, &err);
			break;
		case PF_EXECUTION_QUEUE:
			r = enter_queue(e, &err);
			break;
		case PF_EXECUTION_SEND:
			r = send(e, &err);
			if (r == 0)
				return true;
			break;
		}
	if (r < 0)
		end(e, r, &err);
	return false;
}

void pf_execution_start(struct pf_execution *e, bool spin)
{
	struct pf_err err = PF_ERR_INIT;

	clock_gettime(CLOCK_MONOTONIC, &e->start);
	e->loaded_at = e->start;
	if (pf_account_charge(e->account, PF_EXECUTIONS, 1, &err) < 0) {
		end(e, err.code, &err);
		return;
	}
	e->counted = true;
	if (e->lent && pf_execution_check(e, &err) < 0) {
		end(e, err.code, &err);
		return;
	}
	pf_execution_ref(e);
	if (step(e) && spin && !atomic_load(&e->ended))
		pf_instance_spin(e->instance, &e->ended, SPIN_US);
	pf_execution_unref(e);
}
