/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "pjrtfs/base.h"

/* What an execution is given, checked against what its program takes. */

/* The index of the worker's device that ROW runs on.  E is loaded. */
static unsigned pf_execution_device(const struct pf_execution *e, size_t row)
{
	if (e->loaded->n_devices)
		return e->loaded->devices[row];
	if (e->device != UINT32_MAX)
		return e->device;
	return e->n_args ? e->args[0]->device : 0;
}

static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

/* How messages call argument I: "input 1 (y)", "row 2: input 1 (y)". */
static const char *arg_called(const struct pf_execution *e, size_t i, char *dst,
			      size_t cap)
{
	size_t in_row = e->n_args / e->n_rows;
	const struct pf_param *want = NULL;
	char row[32] = "";

	if (e->loaded && i % in_row < e->loaded->signature->n_inputs)
		want = &e->loaded->signature->inputs[i % in_row];
	if (e->n_rows > 1)
		snprintf(row, sizeof(row), "row %zu: ", i / in_row);
	if (want && *want->name)
		snprintf(dst, cap, "%sinput %zu (%s)", row, i % in_row, want->name);
	else
		snprintf(dst, cap, "%sinput %zu", row, i % in_row);
	return dst;
}

static int check_arg(const struct pf_execution *e, size_t i, struct pf_err *err)
{
	size_t in_row = e->n_args / e->n_rows;
	const struct pf_param *want = &e->loaded->signature->inputs[i % in_row];
	const struct pf_value *have = e->args[i];
	const struct pf_description *d = pf_worker_description(e->loaded->worker);
	unsigned device = pf_execution_device(e, i / in_row);
	char a[128], b[128], called[192];

	arg_called(e, i, called, sizeof(called));
	if (have->dtype != want->dtype || !pf_shape_equal(&have->shape, &want->shape))
		return pf_err_set(err, -EINVAL, "%s: %s is %s, the program wants %s",
				  called, e->arg_names[i],
				  pf_shape_str(a, sizeof(a), have->dtype, &have->shape),
				  pf_shape_str(b, sizeof(b), want->dtype, &want->shape));
	if (have->worker != e->loaded->worker) {
		const struct pf_description *its = pf_worker_description(have->worker);

		return pf_err_set(err, -EINVAL,
				  "%s: %s is on device %s:%lld, the program runs on "
				  "plugin %s: copy it there, or say \"move\": true",
				  called, e->arg_names[i], pf_worker_name(have->worker),
				  (long long)its->devices[have->device].id,
				  pf_worker_name(e->loaded->worker));
	}
	if (have->device != device)
		return pf_err_set(err, -EINVAL,
				  "%s: %s is on device %s:%lld, the program runs on "
				  "%s:%lld",
				  called, e->arg_names[i], pf_worker_name(have->worker),
				  (long long)d->devices[have->device].id,
				  pf_worker_name(have->worker),
				  (long long)d->devices[device].id);
	return 0;
}

/* A row that is missing would have the others wait for it. */
static int check_rows(const struct pf_execution *e, struct pf_err *err)
{
	size_t rows = e->loaded->n_devices ? e->loaded->n_devices : 1;

	if (e->n_rows == rows)
		return 0;
	if (rows == 1)
		return pf_err_set(err, -EINVAL,
				  "the program runs on one device, %zu rows of inputs or "
				  "outputs were given",
				  e->n_rows);
	return pf_err_set(err, -EINVAL,
			  "the program runs on %zu devices at once: its inputs and "
			  "outputs are lists of %zu rows, found %zu row%s",
			  rows, rows, e->n_rows, plural(e->n_rows));
}

int pf_execution_check_counts(const struct pf_loaded *loaded, size_t n_in, size_t n_out,
			      struct pf_err *err)
{
	const struct pf_signature *s = loaded->signature;

	if (n_in != s->n_inputs)
		return pf_err_set(err, -EINVAL,
				  "the program takes %zu input%s, %zu %s given",
				  s->n_inputs, plural(s->n_inputs), n_in,
				  n_in == 1 ? "was" : "were");
	if (n_out != s->n_outputs)
		return pf_err_set(err, -EINVAL,
				  "the program gives %zu output%s, %zu name%s given",
				  s->n_outputs, plural(s->n_outputs), n_out,
				  n_out == 1 ? " was" : "s were");
	return 0;
}

/* What is given, checked against what the program takes (execution_check.c).  E is loaded. */
static int pf_execution_check(const struct pf_execution *e, struct pf_err *err)
{
	int r = check_rows(e, err);

	if (r == 0)
		r = pf_execution_check_counts(e->loaded, e->n_args / e->n_rows,
					      e->want_outs, err);
	for (size_t i = 0; i < e->n_args && r == 0; i++)
		r = check_arg(e, i, err);
	if (r == 0)
		r = pf_quarantine_check_execution(e->executable, e->loaded, e->uid, err);
	return r;
}

/* Say in ERR, whose code is CODE, that it is about argument I.  Returns CODE. */
static int pf_execution_name_arg(const struct pf_execution *e, size_t i, int code,
				 struct pf_err *err)
{
	char called[192];

	return pf_err_wrap(err, code, "%s: %s", arg_called(e, i, called, sizeof(called)),
			   e->arg_names[i]);
}

enum {
	MAX_TRIES =
		3, /* when the worker dies between bringing things there and running */
	SETTLE_US = 50,
};

static bool step(struct pf_execution_priv *p);

static void wake(struct pf_wait *waiter)
{
	step(pf_container_of(waiter, struct pf_execution_priv, waiter));
}

struct pf_execution *pf_execution_new(size_t n, size_t rows)
{
	struct pf_execution *e = calloc(1, sizeof(*e));
	struct pf_execution_priv *p = calloc(1, sizeof(*p));

	if (!e || !p) {
		free(e);
		free(p);
		return NULL;
	}
	e->priv = p;
	p->e = e;
	p->waiter.wake = wake;
	atomic_init(&p->refs, 1);
	e->n_args = n;
	e->n_rows = rows;
	e->device = UINT32_MAX;
	e->args = calloc(n + 1, sizeof(*e->args));
	e->arg_names = calloc(n + 1, sizeof(*e->arg_names));
	e->donate = calloc(n + 1, sizeof(*e->donate));
	if (!e->args || !e->arg_names || !e->donate) {
		pf_execution_free(e);
		return NULL;
	}
	return e;
}

static void pf_execution_priv_unref(struct pf_execution_priv *p)
{
	if (atomic_fetch_sub(&p->refs, 1) != 1)
		return;
	pf_instance_unref(p->instance);
	free(p->devices);
	free(p->ids);
	free(p);
}

void pf_execution_free(struct pf_execution *e)
{
	if (!e)
		return;
	for (size_t i = 0; i < e->n_args; i++) {
		if (e->args)
			pf_value_unref(e->args[i]);
	}
	for (size_t i = 0; i < e->n_outs; i++)
		pf_value_unref(e->outs[i]);
	free(e->args);
	free(e->arg_names);
	free(e->donate);
	free(e->outs);
	free(e->name);
	free(e->id);
	pf_loaded_unref(e->loaded);
	pf_executable_unref(e->executable);
	pf_execution_priv_unref(e->priv);
	free(e);
}

static void report(struct pf_execution *e, const struct pf_err *err)
{
	/* What ran, not what the options name by now. */
	struct pf_worker *w =
		e->loaded ? e->loaded->worker : pf_executable_worker(e->executable);
	unsigned one = e->loaded ? pf_execution_device(e, 0) : 0;
	struct pf_report_execution report = {
		.executable = e->name,
		.user = e->uid,
		.id = e->id,
		.seconds = e->seconds,
		.device_seconds = e->device_seconds,
		.devices = &one,
		.n_devices = e->loaded ? 1 : 0,
		.err = err,
	};

	if (e->loaded && e->loaded->n_devices) {
		report.devices = e->loaded->devices;
		report.n_devices = e->loaded->n_devices;
	}
	if (e->report)
		e->report(e, &report);
	pf_report_executed(pf_worker_telemetry(w), pf_worker_meter(w),
			   e->executable->meter, &report);
}

/* --- its turn ------------------------------------------------------------------------- */

static void may_run(struct pf_sched_request *turn)
{
	struct pf_execution_priv *p =
		pf_container_of(turn, struct pf_execution_priv, turn);

	p->e->queue_seconds += pf_seconds_since(CLOCK_MONOTONIC, &p->queued);
	p->may_run = true;
	step(p);
}

static int by_number(const void *a, const void *b)
{
	const unsigned *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The devices that it runs on, each once, in ascending order. */
static int list_devices(struct pf_execution_priv *p, struct pf_err *err)
{
	const struct pf_execution *e = p->e;
	unsigned n = 0;

	p->turn.n_queues = 1;
	p->turn.queues = &p->device;
	p->device = pf_execution_device(e, 0);
	if (e->n_rows == 1)
		return 0;
	free(p->devices);
	p->devices = calloc(e->n_rows, sizeof(*p->devices));
	if (!p->devices)
		return pf_err_set(err, -ENOMEM, "no memory for an execution");
	for (size_t i = 0; i < e->n_rows; i++)
		p->devices[i] = pf_execution_device(e, i);
	qsort(p->devices, e->n_rows, sizeof(*p->devices), by_number);
	for (size_t i = 0; i < e->n_rows; i++)
		if (!n || p->devices[n - 1] != p->devices[i])
			p->devices[n++] = p->devices[i];
	p->turn.queues = p->devices;
	p->turn.n_queues = n;
	return 0;
}

/* 1 its turn has come; 0 it will, and may have by now: E may be gone; -errno. */
static int take_turn(struct pf_execution_priv *p, struct pf_err *err)
{
	struct pf_sched *sched;
	int r = list_devices(p, err);

	if (r < 0)
		return r;
	p->turn.user = p->e->uid;
	p->turn.granted = may_run;
	clock_gettime(CLOCK_MONOTONIC, &p->queued);
	sched = pf_worker_sched(p->e->loaded->worker);
	atomic_store(&p->sched, sched);
	if (!pf_sched_acquire(sched, &p->turn))
		return 0;
	p->may_run = true;
	return 1;
}

/* It has its turn no more, or does not wait for it. */
static void end_turn(struct pf_execution_priv *p)
{
	struct pf_sched *sched = atomic_exchange(&p->sched, NULL);

	p->may_run = false;
	if (sched)
		pf_sched_release(sched, &p->turn);
}

bool pf_execution_unqueue(struct pf_execution *e)
{
	struct pf_sched *sched = atomic_load(&e->priv->sched);

	return sched && pf_sched_dequeue(sched, &e->priv->turn);
}

unsigned pf_execution_position(struct pf_execution *e)
{
	struct pf_sched *sched = atomic_load(&e->priv->sched);

	return sched ? pf_sched_position(sched, &e->priv->turn) : 0;
}

bool pf_execution_runs(struct pf_execution *e)
{
	struct pf_sched *sched = atomic_load(&e->priv->sched);

	return sched && pf_sched_has(sched, &e->priv->turn);
}

void pf_execution_resume(struct pf_execution *e)
{
	step(e->priv);
}

/* --- the end -------------------------------------------------------------------------- */

/* The end, good or bad.  E may be gone afterwards. */
static void pf_execution_end(struct pf_execution_priv *p, int code, struct pf_err *err)
{
	struct pf_execution *e = p->e;

	end_turn(p);
	e->seconds = p->leader ? e->device_seconds
			       : pf_seconds_since(CLOCK_MONOTONIC, &p->start) -
					 p->along.seconds;
	pf_execution_unclaim(p, code == 0);
	if (code < 0)
		code = pf_err_wrap(err, code, "%s", e->name);
	report(e, code < 0 ? err : NULL);
	atomic_store(&p->ended, true);
	e->done(e, code, err);
}

/* --- the steps ----------------------------------------------------------------------- */

/* Place the arguments from p->placed on: 1 all there, 0 waiting, -errno. */
static int location(struct pf_execution_priv *p, struct pf_err *err)
{
	struct pf_execution *e = p->e;

	for (; p->placed < e->n_args; p->placed++) {
		int r = pf_value_transfer(e->args[p->placed], &p->waiter, err);

		if (r < 0)
			return pf_execution_name_arg(e, p->placed, r, err);
		if (r == 0)
			return 0;
	}
	return 1;
}

/* A wake-up came from an argument: is it there now? */
static int check_placed(struct pf_execution_priv *p, struct pf_err *err)
{
	struct pf_execution *e = p->e;
	int r;

	if (!e->loaded || p->placed >= e->n_args)
		return 1;
	r = pf_value_placed(e->args[p->placed], err);
	return r < 0 ? pf_execution_name_arg(e, p->placed, r, err) : 1;
}

/* The executable, on a living worker, and what it is given, checked: 1; 0 waiting; -errno. */
static int load(struct pf_execution_priv *p, struct pf_err *err)
{
	struct pf_execution *e = p->e;
	int r;

	if (e->loaded)
		return 1;
	r = pf_executable_load(e->executable, &p->waiter, &e->loaded, err);
	if (r <= 0)
		return r;
	r = pf_execution_check(e, err);
	if (r < 0)
		return r;
	p->placed = 0;
	clock_gettime(CLOCK_MONOTONIC, &p->loaded);
	return 1;
}

/* True if the request was sent by this call (E may be gone by then). */
static bool step(struct pf_execution_priv *p)
{
	struct pf_execution *e = p->e;
	struct pf_err err = PF_ERR_INIT;
	int r = check_placed(p, &err);

	while (r > 0) {
		if (e->cancelled && e->cancelled(e)) {
			r = pf_err_set(&err, -ECANCELED, "cancelled before it began");
			break;
		}
		r = load(p, &err);
		if (r > 0)
			r = location(p, &err);
		if (r > 0 && !p->may_run) {
			e->transfer_seconds =
				pf_seconds_since(CLOCK_MONOTONIC, &p->loaded);
			r = take_turn(p, &err);
		}
		if (r <= 0)
			break;
		if (pf_instance_alive(e->loaded->instance)) {
			r = pf_execution_send(p, &err);
			if (r == 0)
				return true;
			if (r < 0)
				break;
			/* Things were moved, or the worker replaced: bring them again. */
			if (++p->tries >= MAX_TRIES)
				r = pf_err_set(&err, -EIO,
					       "the worker of plugin %s keeps dying",
					       pf_worker_name(e->loaded->worker));
		}
		end_turn(p);
		pf_loaded_unref(pf_steal(&e->loaded));
	}
	if (r < 0)
		pf_execution_end(p, r, &err);
	return false;
}

void pf_execution_start(struct pf_execution *e, bool settle)
{
	struct pf_execution_priv *p = e->priv;

	clock_gettime(CLOCK_MONOTONIC, &p->start);
	atomic_fetch_add(&p->refs, 1);
	if (step(p) && settle && !atomic_load(&p->ended))
		pf_instance_settle(p->instance, &p->ended, SETTLE_US);
	pf_execution_priv_unref(p);
}

/*
 * Executions on their way: sent, several in one message where they may go along, and
 * answered.
 */

/*
 * What goes along saves a round trip each.  So few milliseconds at a time that others on the
 * device, who wait for all of it, do not notice; what never ran goes alone, since nobody knows
 * whether it will end.  And no more memory than anybody would mind, because what one result
 * replaces is let go only when all are done.
 */
enum {
	MAX_ALONG = 64,
	ALONG_NS = 10000000,
	ALONG_BYTES = 16 << 20,
	ALONG_MESSAGE = PF_RING_MESSAGE / 2,
};

/* --- before it is sent ---------------------------------------------------------------- */

static uint64_t *new_ids(const struct pf_execution_priv *p)
{
	return p->ids + p->e->n_args;
}

/* For each argument of a row: may the plugin take its memory?  That is sent. */
static uint8_t *donations(const struct pf_execution_priv *p)
{
	return (uint8_t *)(new_ids(p) + p->e->n_outs);
}

/* For each argument: did it become this execution's? */
static uint8_t *donated(const struct pf_execution_priv *p)
{
	return donations(p) + p->e->n_args / p->e->n_rows;
}

void pf_execution_unclaim(struct pf_execution_priv *p, bool consumed)
{
	const struct pf_execution *e = p->e;

	for (size_t i = 0; i < p->n_used; i++) {
		if (donated(p)[i])
			pf_value_donated(e->args[i], consumed);
		pf_value_unpin(e->args[i]);
	}
	p->n_used = 0;
}

static int make_room(struct pf_execution_priv *p, struct pf_err *err)
{
	struct pf_execution *e = p->e;
	size_t n_outs = e->loaded->signature->n_outputs * e->n_rows;
	size_t n_ids = e->n_args + n_outs;

	if (e->n_args > PF_WIRE_MAX_ARGS || n_outs > PF_WIRE_MAX_ARGS)
		return pf_err_set(err, -E2BIG, "more than %d inputs or outputs",
				  PF_WIRE_MAX_ARGS);
	if (!p->ids)
		p->ids = malloc(n_ids * sizeof(*p->ids) + e->n_args / e->n_rows +
				e->n_args + 1);
	if (!e->outs)
		e->outs = calloc(n_outs + 1, sizeof(*e->outs));
	if (!p->ids || !e->outs)
		return pf_err_set(err, -ENOMEM, "no memory for an execution");
	e->n_outs = n_outs;
	return 0;
}

/*
 * The arguments' handles, which stay until the end: nobody else can consume them.  False if one
 * is not on the executable's life any more.
 */
static bool collect(struct pf_execution_priv *p)
{
	const struct pf_execution *e = p->e;

	memset(donated(p), 0, e->n_args);
	for (; p->n_used < e->n_args; p->n_used++) {
		uint64_t id = pf_value_use(e->args[p->n_used], e->loaded->instance);

		if (!id)
			return false;
		p->ids[p->n_used] = id;
	}
	return true;
}

/* An argument is donated on all devices, or on none; what is not is copied.  False: somebody
 * else consumes one. */
static bool donate(struct pf_execution_priv *p)
{
	const struct pf_execution *e = p->e;
	size_t in_row = e->n_args / e->n_rows;

	memset(donations(p), 1, in_row);
	for (size_t i = 0; i < e->n_args; i++) {
		enum pf_donation d = PF_DONATION_SHARED;

		if (e->donate[i])
			d = pf_value_donate(e->args[i]);
		if (d == PF_DONATION_REFUSED)
			return false;
		donated(p)[i] = d == PF_DONATION_COPIED || d == PF_DONATION_TAKEN;
		if (d != PF_DONATION_TAKEN)
			donations(p)[i % in_row] = 0;
	}
	return true;
}

/* The result that is made where argument I was, which the plugin takes; or NULL. */
static size_t made_of(const struct pf_execution *e, size_t i)
{
	const struct pf_signature *s = e->loaded->signature;
	int out = s->inputs[i % s->n_inputs].alias_output;

	return donations(e->priv)[i % s->n_inputs] && out >= 0 &&
			       (size_t)out < s->n_outputs
		       ? i / s->n_inputs * s->n_outputs + (size_t)out
		       : SIZE_MAX;
}

/*
 * Charge what the results take of the host's memory before the plugin takes it.  How much
 * each does is in OWN: nothing where it takes the place of an argument that was charged.
 */
static int charge(const struct pf_execution *e, uint64_t *own, struct pf_err *err)
{
	const struct pf_signature *s = e->loaded->signature;
	uint64_t all = 0, len;
	int r;

	for (size_t i = 0; i < e->n_outs; i++) {
		const struct pf_param *want = &s->outputs[i % s->n_outputs];

		r = pf_shape_bytes(&want->shape, want->dtype, &len, err);
		if (r < 0)
			return r;
		own[i] = pf_value_room(e->loaded->worker,
				       pf_execution_device(e, i / s->n_outputs),
				       UINT32_MAX, len);
	}
	for (size_t i = 0; i < e->n_args; i++) {
		size_t out = made_of(e, i);

		if (out != SIZE_MAX && pf_value_own(e->args[i]) >= own[out])
			own[out] = 0;
	}
	for (size_t i = 0; i < e->n_outs; i++)
		if (__builtin_add_overflow(all, own[i], &all))
			all = UINT64_MAX;
	r = all ? pf_arena_charge(pf_worker_arena(e->loaded->worker), all, err) : 0;
	return r < 0 ? pf_err_wrap(err, r, "its results") : 0;
}

/* What is charged for arguments that were consumed is that of the results in their place. */
static void pass_charges(const struct pf_execution *e)
{
	for (size_t i = 0; i < e->n_args; i++) {
		size_t out = made_of(e, i);

		if (out != SIZE_MAX && !pf_value_own(e->outs[out]))
			pf_value_pass_charge(e->args[i], e->outs[out]);
	}
}

/* The results get their ids, and may be arguments from now on. */
static int promise(struct pf_execution_priv *p, struct pf_err *err)
{
	struct pf_execution *e = p->e;
	const struct pf_signature *s = e->loaded->signature;
	int r;

	for (size_t i = 0; i < e->n_outs; i++)
		pf_value_unref(pf_steal(&e->outs[i]));
	r = charge(e, new_ids(p), err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < e->n_outs; i++) {
		const struct pf_param *want = &s->outputs[i % s->n_outputs];
		uint64_t own = new_ids(p)[i], len;

		pf_shape_bytes(&want->shape, want->dtype, &len, NULL);
		new_ids(p)[i] = pf_worker_id(e->loaded->worker);
		e->outs[i] = pf_value_promise(want->dtype, &want->shape, len,
					      e->loaded->worker,
					      pf_execution_device(e, i / s->n_outputs),
					      p->instance, new_ids(p)[i], own);
		if (!e->outs[i]) {
			pf_arena_discharge(pf_worker_arena(e->loaded->worker), own);
			r = pf_err_set(err, -ENOMEM, "no memory for output %zu", i);
		}
	}
	return r;
}

/* 0; 1 something moved; -errno. */
static int prepare(struct pf_execution_priv *p, struct pf_err *err)
{
	int r = make_room(p, err);

	if (r < 0)
		return r;
	if (!collect(p) || !donate(p)) {
		pf_execution_unclaim(p, false);
		return 1;
	}
	pf_instance_unref(p->instance);
	p->instance = pf_instance_ref(p->e->loaded->instance);
	r = promise(p, err);
	if (r < 0)
		pf_execution_unclaim(p, false);
	return r;
}

/* --- what goes along ------------------------------------------------------------------ */

/* What P would take if it came to ALONG. */
static struct along with(const struct along *along, struct pf_execution_priv *p)
{
	const struct pf_execution *e = p->e;
	const struct pf_signature *s = e->loaded->signature;
	uint64_t ns = atomic_load(&e->loaded->typical_ns), bytes;
	size_t n_outs = s->n_outputs * e->n_rows;
	struct along sum = *along;

	sum.last = p->e;
	sum.n++;
	sum.ns += ns ? ns : ALONG_NS + 1;
	for (size_t i = 0; i < s->n_outputs; i++)
		if (pf_shape_bytes(&s->outputs[i].shape, s->outputs[i].dtype, &bytes,
				   NULL) == 0)
			sum.result_bytes += bytes * e->n_rows;
	sum.request += pf_execute_bytes(e->n_args, n_outs, e->n_rows) + 7;
	sum.reply += sizeof(struct pf_rep_execute) + n_outs * sizeof(struct pf_out) + 7;
	return sum;
}

static bool is_much(const struct along *along)
{
	return along->n > MAX_ALONG || along->ns > ALONG_NS ||
	       along->result_bytes > ALONG_BYTES || along->request > ALONG_MESSAGE ||
	       along->reply > ALONG_MESSAGE;
}

/* They run on the same devices of the same worker, in the turn that one of them has. */
static bool same_devices(const struct pf_execution *a, const struct pf_execution *b)
{
	if (a->loaded->instance != b->loaded->instance || a->n_rows != b->n_rows)
		return false;
	for (size_t i = 0; i < a->n_rows; i++)
		if (pf_execution_device(a, i) != pf_execution_device(b, i))
			return false;
	return true;
}

/* Nothing may be gone if one that is awaited only afterwards fails. */
static bool consumes_only_results(const struct pf_execution *e,
				  const struct pf_execution *before)
{
	uint64_t first = before->n_outs ? new_ids(before->priv)[0] : UINT64_MAX;

	for (size_t i = 0; i < e->n_args; i++)
		if (e->donate[i] && pf_value_promised_id(e->args[i]) < first)
			return false;
	return true;
}

bool pf_execution_join(struct pf_execution *before, struct pf_execution *next)
{
	struct pf_execution *leader =
		before->priv->leader ? before->priv->leader : before;
	struct pf_execution_priv *p = next->priv;
	struct along along;

	next->loaded = pf_executable_loaded(next->executable);
	if (!next->loaded)
		return false;
	/* The devices are known only of what is right. */
	if (pf_execution_check(next, NULL) < 0 || !same_devices(before, next) ||
	    !consumes_only_results(next, before))
		goto alone;
	along = with(&leader->priv->along, p);
	if (is_much(&along) || prepare(p, NULL) != 0)
		goto alone;
	leader->priv->along = along;
	p->leader = leader;
	before->priv->next = next;
	return true;
alone:
	pf_loaded_unref(pf_steal(&next->loaded));
	return false;
}

/* FIRST and those after it have not begun, and are their callers' again. */
static void leave(struct pf_execution *first)
{
	while (first) {
		struct pf_execution *e = first;

		first = pf_steal(&e->priv->next);
		pf_execution_unclaim(e->priv, false);
		e->priv->leader = NULL;
		e->left(e);
	}
}

/* --- sending -------------------------------------------------------------------------- */

static size_t round8(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

static struct pf_req_execute request_of(const struct pf_execution *e)
{
	return (struct pf_req_execute){
		.head.op = PF_OP_EXECUTE,
		.executable = e->loaded->id,
		.device = e->loaded->n_devices ? UINT32_MAX : pf_execution_device(e, 0),
		.n_args = (uint32_t)(e->n_args / e->n_rows),
		.n_outs = (uint32_t)(e->n_outs / e->n_rows),
		.n_devices = (uint32_t)e->n_rows,
	};
}

/* The bytes of what follows E's request. */
static size_t lists_of(const struct pf_execution *e)
{
	return (e->n_args + e->n_outs) * sizeof(uint64_t) + e->n_args / e->n_rows;
}

/* All requests but the first one's struct, one after the other, into OUT. */
static void compose(const struct pf_execution *leader, struct pf_buf *out)
{
	static const char zeros[8];

	pf_buf_append(out, leader->priv->ids, lists_of(leader));
	for (const struct pf_execution *e = leader->priv->next; e; e = e->priv->next) {
		struct pf_req_execute req = request_of(e);

		pf_buf_append(out, zeros, round8(out->len) - out->len);
		pf_buf_append(out, &req, sizeof(req));
		pf_buf_append(out, e->priv->ids, lists_of(e));
	}
}

static void answer(struct pf_call *call, int code, const struct pf_err *why,
		   const void *reply, size_t len);

static int post(struct pf_execution_priv *p, struct pf_err *err)
{
	struct pf_req_execute req = request_of(p->e);
	pf_autobuf struct pf_buf all = PF_BUF_INIT;
	const void *tail = p->ids;
	size_t len = lists_of(p->e);

	if (p->next) {
		compose(p->e, &all);
		if (all.failed)
			return pf_err_set(err, -ENOMEM, "no memory for an execution");
		tail = all.data;
		len = all.len;
	}
	return pf_instance_call(p->instance, &p->call, &req, sizeof(req), tail, len, err);
}

int pf_execution_send(struct pf_execution_priv *p, struct pf_err *err)
{
	static const struct along none;
	struct pf_execution *e = p->e;
	int r = prepare(p, err);

	if (r != 0)
		return r;
	p->call.done = answer;
	p->call.reply_min = sizeof(struct pf_rep_execute);
	p->along = with(&none, p);
	for (struct pf_execution *last = e; last->follow && !is_much(&p->along);
	     last = p->along.last)
		if (!last->follow(last))
			break;
	if (e->began)
		e->began(e);
	atomic_fetch_add(&p->refs, 1);
	r = post(p, err);
	if (r < 0) {
		atomic_fetch_sub(&p->refs, 1); /* there will be no answer */
		leave(pf_steal(&p->next));
		if (!pf_instance_alive(
			    p->instance)) { /* it was not sent: the next life takes it */
			pf_execution_unclaim(p, false);
			r = 1;
		}
	}
	return r;
}

/* --- the answer ----------------------------------------------------------------------- */

static int take_output(struct pf_execution *e, const struct pf_rep_execute *rep,
		       size_t len, size_t i, struct pf_err *err)
{
	const struct pf_out *out = (const struct pf_out *)(rep + 1) + i;
	struct pf_value *v = e->outs[i];
	bool ok = out->len == v->len && out->dtype == (uint32_t)v->dtype;

	if (out->where == PF_WHERE_INLINE)
		ok = ok && out->off <= len && out->len <= len - out->off;
	else if (out->where == PF_WHERE_POOL || out->where == PF_WHERE_BLOCK)
		ok = ok && pf_instance_pool(e->priv->instance, out->off, out->len);
	else
		ok = ok && out->where == PF_WHERE_DEVICE;
	if (!ok)
		return pf_err_set(err, -EPROTO,
				  "output %zu: the worker gave %" PRIu64
				  " bytes of type %u, expected %" PRIu64 " of %s",
				  i, out->len, out->dtype, v->len,
				  pf_dtype_name(v->dtype));
	return pf_value_keep(v, out, rep, err);
}

/* How long it took goes into what is expected of the next one: little by little, because
 * most that are slow were only put aside by the kernel. */
static void note_time(struct pf_execution *e, uint64_t ns)
{
	uint64_t before = atomic_load(&e->loaded->typical_ns);
	uint64_t now = before && before < ns ? (7 * before + ns) / 8 : ns;

	e->device_seconds = (double)ns / 1e9;
	atomic_store(&e->loaded->typical_ns, now ? now : 1);
}

/* E's own answer, LEN bytes. */
static int take_answer(struct pf_execution *e, const struct pf_rep_execute *rep,
		       size_t len, struct pf_err *err)
{
	int r = 0;

	if (rep->rep.code < 0) {
		r = rep->rep.code > -4096 ? rep->rep.code : -EIO;
		pf_err_set(err, r, "%.*s", (int)(len - sizeof(*rep)),
			   (const char *)(rep + 1));
		if (err)
			err->pjrt_code = rep->rep.pjrt_code;
		return r;
	}
	if (rep->n_outs != e->n_outs ||
	    len < sizeof(*rep) + e->n_outs * sizeof(struct pf_out))
		return pf_err_set(err, -EPROTO, "the worker gave %u outputs of %zu",
				  rep->n_outs, e->n_outs);
	note_time(e, rep->device_ns);
	pass_charges(e);
	for (size_t i = 0; i < e->n_outs && r == 0; i++)
		r = take_output(e, rep, len, i, err);
	return r;
}

/* Where in the LEN bytes the answer after REP is, and how many bytes it has; NULL: nowhere. */
static const struct pf_rep_execute *next_answer(const struct pf_rep_execute *rep,
						size_t *len)
{
	const struct pf_rep_execute *next;
	size_t left;

	if (rep->next % 8 || rep->next < sizeof(*rep) || rep->next > *len ||
	    *len - rep->next < sizeof(*rep))
		return NULL;
	left = *len - rep->next;
	next = (const struct pf_rep_execute *)((const char *)rep + rep->next);
	*len = left;
	return next->rep.head.len >= sizeof(*next) && next->rep.head.len <= left ? next
										 : NULL;
}

/* Take the answers of E and of those that went along; how many are good, and in CODE and ERR
 * what the next one failed of. */
static size_t take_answers(struct pf_execution *e, const struct pf_rep_execute *rep,
			   size_t len, int *code, struct pf_err *err)
{
	size_t n = 0;

	for (*code = 0; e; e = e->priv->next, n++) {
		size_t own = n ? rep->rep.head.len : len;

		*code = take_answer(e, rep, own, err);
		if (*code < 0)
			return n;
		if (!e->priv->next)
			return n + 1;
		rep = next_answer(rep, &len);
		if (!rep) {
			*code = pf_err_set(err, -EPROTO, "the worker did not answer");
			return n + 1;
		}
	}
	return n;
}

/* A worker that dies takes all with it; which of them it died of nobody knows. */
static void name_all(const struct pf_execution_priv *p, int code, struct pf_err *err)
{
	if (p->along.n > 1 && !pf_instance_alive(p->instance))
		pf_err_wrap(err, code, "it, or one of the %zu executions sent with it",
			    p->along.n - 1);
}

static void answer(struct pf_call *call, int code, const struct pf_err *why,
		   const void *reply, size_t len)
{
	struct pf_execution_priv *p =
		pf_container_of(call, struct pf_execution_priv, call);
	struct pf_execution *e = p->e, *next;
	struct pf_err err = PF_ERR_INIT;
	size_t good = 0;

	if (code < 0) {
		err = *why;
		if (p->along.n == 1)
			pf_quarantine_add_execution(e->executable, e->loaded, p->instance,
						    e->uid, why);
		name_all(p, code, &err);
	} else {
		good = take_answers(e, reply, len, &code, &err);
	}
	/* Who did not begin hears it first: the others' ends may end what they belong to. */
	next = e;
	for (size_t i = 0; i < good && next->priv->next; i++)
		next = next->priv->next;
	if (code < 0)
		leave(pf_steal(&next->priv->next));
	for (next = e->priv->next; next; next = next->priv->next)
		p->along.seconds += next->device_seconds;
	for (size_t i = 0; e; i++, e = next) {
		next = pf_steal(&e->priv->next);
		pf_execution_end(e->priv, i < good ? 0 : code, &err);
	}
	pf_execution_priv_unref(p);
}
