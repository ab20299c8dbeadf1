/* SPDX-License-Identifier: Apache-2.0 */
#include "pjrtfs/store/optimized.h"

#include <errno.h>
#include <stdlib.h>

void pf_optimized_free(struct pf_optimized *o)
{
	if (!o)
		return;
	pf_life_free_block(o->life, o->block);
	pf_life_unref(o->life);
	free(o);
}

uint64_t pf_executable_optimized_len(struct pf_executable *x)
{
	PF_LOCK_SCOPE(&x->lock);
	return x->loaded ? x->loaded->hlo_len : 0;
}

/* Drop what the store holds, and answer. */
static void end(struct pf_want_optimized *w, int code, struct pf_optimized *got,
		const struct pf_err *err)
{
	pf_loaded_unref(w->loaded);
	pf_executable_unref(w->x);
	w->done(w, code, got, err);
}

/* What the worker wrote, checked: it is not trusted. */
static int take(struct pf_want_optimized *w, const struct pf_rep_optimized *rep,
		struct pf_optimized **ret, struct pf_err *err)
{
	struct pf_life *life = w->loaded->life;
	const char *proto = pf_life_pool(life, rep->off, rep->len);
	struct pf_optimized *o;
	size_t off, len;
	int r;

	if (!proto)
		return pf_err_set(err, -EPROTO,
				  "the worker's answer lies outside its pool");
	r = pf_hlo_unwrap(proto, rep->len, rep->with_config, &off, &len, err);
	if (r < 0)
		return r;
	o = calloc(1, sizeof(*o));
	if (!o)
		return pf_err_set(err, -ENOMEM, "no memory for an optimized program");
	o->bytes = proto + off;
	o->len = len;
	o->life = pf_life_ref(life);
	o->block = rep->off;
	*ret = o;
	return 0;
}

static void load(struct pf_want_optimized *w);

static void answered(struct pf_call *call, int code, const struct pf_err *err,
		     const void *reply, size_t len)
{
	struct pf_want_optimized *w =
		pf_container_of(call, struct pf_want_optimized, call);
	const struct pf_rep_optimized *rep = reply;
	struct pf_err why = PF_ERR_INIT;
	struct pf_optimized *got = NULL;

	(void)len;
	if (code < 0 && !pf_life_alive(w->loaded->life) && !w->again) {
		/* Its process was dead or dying: the next one has a try. */
		w->again = true;
		pf_loaded_unref(pf_steal(&w->loaded));
		load(w);
		return;
	}
	if (code < 0) {
		end(w, code, NULL, err);
		return;
	}
	code = take(w, rep, &got, &why);
	if (code < 0)
		pf_life_free_block(w->loaded->life, rep->off);
	end(w, code, got, &why);
}

static void ask(struct pf_want_optimized *w)
{
	struct pf_req_id req = { .head.op = PF_OP_OPTIMIZED, .id = w->loaded->id };
	struct pf_err err = PF_ERR_INIT;
	int r;

	w->call.done = answered;
	w->call.reply_min = sizeof(struct pf_rep_optimized);
	r = pf_life_call(w->loaded->life, &w->call, &req, sizeof(req), NULL, 0, &err);
	if (r < 0)
		end(w, r, NULL, &err);
}

static void load(struct pf_want_optimized *w)
{
	struct pf_err err = PF_ERR_INIT;
	int r = pf_executable_load(w->x, &w->waiter, &w->loaded, &err);

	if (r < 0)
		end(w, r, NULL, &err);
	else if (r > 0)
		ask(w);
}

static void wake(struct pf_waiter *waiter)
{
	load(pf_container_of(waiter, struct pf_want_optimized, waiter));
}

void pf_executable_optimized(struct pf_executable *x, struct pf_want_optimized *w)
{
	w->x = pf_executable_ref(x);
	w->loaded = NULL;
	w->again = false;
	w->waiter.wake = wake;
	if (pf_executable_state(x) == PF_EXECUTABLE_READY)
		load(w);
	else
		end(w, 0, NULL, NULL);
}
