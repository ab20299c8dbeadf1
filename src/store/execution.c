/* SPDX-License-Identifier: Apache-2.0 */
#include "execution_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "pjrtfs/base/clock.h"

enum {
	MAX_TRIES =
		3, /* when the worker dies between bringing things there and running */
	SETTLE_US = 50,
};

static bool step(struct pf_execution_priv *p);

static void wake(struct pf_waiter *waiter)
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

void pf_execution_priv_unref(struct pf_execution_priv *p)
{
	if (atomic_fetch_sub(&p->refs, 1) != 1)
		return;
	pf_life_unref(p->life);
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

static void tell(struct pf_execution *e, const struct pf_err *err)
{
	/* What ran, not what the options name by now. */
	struct pf_worker *w =
		e->loaded ? e->loaded->worker : pf_executable_worker(e->executable);
	unsigned one = e->loaded ? pf_execution_device(e, 0) : 0;
	struct pf_told_execution told = {
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
		told.devices = e->loaded->devices;
		told.n_devices = e->loaded->n_devices;
	}
	if (e->tell)
		e->tell(e, &told);
	pf_tell_executed(pf_worker_watch(w), pf_worker_meter(w), e->executable->meter,
			 &told);
}

/* --- its turn ------------------------------------------------------------------------- */

static void may_run(struct pf_turn *turn)
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

	p->turn.n_devices = 1;
	p->turn.devices = &p->device;
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
	p->turn.devices = p->devices;
	p->turn.n_devices = n;
	return 0;
}

/* 1 its turn has come; 0 it will, and may have by now: E may be gone; -errno. */
static int take_turn(struct pf_execution_priv *p, struct pf_err *err)
{
	struct pf_turns *turns;
	int r = list_devices(p, err);

	if (r < 0)
		return r;
	p->turn.user = p->e->uid;
	p->turn.begin = may_run;
	clock_gettime(CLOCK_MONOTONIC, &p->queued);
	turns = pf_worker_turns(p->e->loaded->worker);
	atomic_store(&p->turns, turns);
	if (!pf_turns_take(turns, &p->turn))
		return 0;
	p->may_run = true;
	return 1;
}

/* It has its turn no more, or does not wait for it. */
static void end_turn(struct pf_execution_priv *p)
{
	struct pf_turns *turns = atomic_exchange(&p->turns, NULL);

	p->may_run = false;
	if (turns)
		pf_turns_end(turns, &p->turn);
}

bool pf_execution_unqueue(struct pf_execution *e)
{
	struct pf_turns *turns = atomic_load(&e->priv->turns);

	return turns && pf_turns_leave(turns, &e->priv->turn);
}

unsigned pf_execution_position(struct pf_execution *e)
{
	struct pf_turns *turns = atomic_load(&e->priv->turns);

	return turns ? pf_turns_position(turns, &e->priv->turn) : 0;
}

bool pf_execution_runs(struct pf_execution *e)
{
	struct pf_turns *turns = atomic_load(&e->priv->turns);

	return turns && pf_turns_has(turns, &e->priv->turn);
}

void pf_execution_resume(struct pf_execution *e)
{
	step(e->priv);
}

/* --- the end -------------------------------------------------------------------------- */

void pf_execution_end(struct pf_execution_priv *p, int code, struct pf_err *err)
{
	struct pf_execution *e = p->e;

	end_turn(p);
	e->seconds = p->leader ? e->device_seconds
			       : pf_seconds_since(CLOCK_MONOTONIC, &p->start) -
					 p->along.seconds;
	pf_execution_unclaim(p, code == 0);
	if (code < 0)
		code = pf_err_wrap(err, code, "%s", e->name);
	tell(e, code < 0 ? err : NULL);
	atomic_store(&p->ended, true);
	e->done(e, code, err);
}

/* --- the steps ----------------------------------------------------------------------- */

/* Place the arguments from p->placed on: 1 all there, 0 waiting, -errno. */
static int place(struct pf_execution_priv *p, struct pf_err *err)
{
	struct pf_execution *e = p->e;

	for (; p->placed < e->n_args; p->placed++) {
		int r = pf_value_place(e->args[p->placed], &p->waiter, err);

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
			r = place(p, &err);
		if (r > 0 && !p->may_run) {
			e->transfer_seconds =
				pf_seconds_since(CLOCK_MONOTONIC, &p->loaded);
			r = take_turn(p, &err);
		}
		if (r <= 0)
			break;
		if (pf_life_alive(e->loaded->life)) {
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
		pf_life_settle(p->life, &p->ended, SETTLE_US);
	pf_execution_priv_unref(p);
}
