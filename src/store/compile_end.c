/* SPDX-License-Identifier: Apache-2.0 */
/* How a compile ends: what it gave is published, for those that followed it, too. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/base/clock.h"
#include "ask.h"
#include "compile.h"

void pf_compile_free(struct compile *c)
{
	if (c->claim)
		pf_claim_drop(c->x->compiler, c->claim);
	pf_executable_unref(c->x);
	pf_life_unref(c->life);
	pf_bytes_unref(c->program);
	pf_buf_release(&c->plan.options);
	free(c);
}

void pf_compile_tell(struct pf_worker *worker, struct pf_told_compile *told,
		     const struct pf_err *err, double seconds, enum pf_cache_use use)
{
	const char *cache = NULL;

	if (use != PF_CACHE_UNUSED)
		cache = use == PF_CACHE_HIT ? "hit" : "miss";
	pf_tell_compiled(pf_worker_watch(worker), pf_worker_meter(worker), told, err,
			 seconds, cache);
}

void pf_compile_superseded_locked(const struct pf_executable *x, struct pf_err *ret)
{
	if (x->state != PF_EXECUTABLE_COMPILING && x->err.code == -ECANCELED)
		*ret = x->err;
	else
		pf_err_set(ret, -ECANCELED, "a newer source took its place");
}

/* The compile ended: publish it, unless a newer source has begun meanwhile. */
static void publish(struct compile *c, struct pf_loaded *loaded, enum pf_cache_use use,
		    const struct pf_err *err)
{
	struct pf_executable *x = c->x;
	struct pf_waiter *waiters = NULL;
	struct pf_loaded *gone = loaded ? pf_loaded_ref(loaded) : NULL;
	struct pf_err superseded = PF_ERR_INIT;

	pf_lock(&x->lock);
	if (c->generation != x->generation) {
		pf_compile_superseded_locked(x, &superseded);
		err = &superseded;
	} else {
		struct pf_loaded *made = gone;

		gone = x->loaded;
		x->loaded = made;
		x->cache_use = use;
		x->state = loaded ? PF_EXECUTABLE_READY : PF_EXECUTABLE_FAILED;
		x->err = err ? *err : (struct pf_err)PF_ERR_INIT;
		waiters = pf_wait_take(&x->waiters);
	}
	if (x->job == &c->job)
		x->job = NULL;
	pf_unlock(&x->lock);
	/* Before who waits for it, so that the event is there when a cp(1) returns. */
	pf_compile_tell(c->plan.worker, &c->told, err,
			pf_seconds_since(CLOCK_REALTIME, &c->start), use);
	pf_wake_all(waiters);
	pf_loaded_unref(gone);
}

void pf_compile_settle(struct compile *c, struct pf_loaded *loaded, enum pf_cache_use use,
		       const struct pf_err *err)
{
	struct pf_cache *cache = pf_compiler_cache(c->x->compiler);
	struct pf_compile_job *next, *job = NULL;

	if (c->claim)
		job = pf_claim_settle(c->x->compiler, c->claim, loaded);
	publish(c, loaded, use, err);
	for (; job; job = next) {
		struct compile *follower = pf_container_of(job, struct compile, job);

		next = job->next;
		if (loaded && cache)
			pf_cache_shared(cache);
		publish(follower, loaded, PF_CACHE_HIT, err);
		pf_compile_free(follower);
	}
}

void pf_compile_fail(struct compile *c, const struct pf_err *err)
{
	pf_compile_settle(c, NULL, PF_CACHE_UNUSED, err);
	pf_compile_free(c);
}

/* Is it what a plugin says that is too old for a program? */
static bool may_be_too_old(const struct pf_err *err)
{
	static const char *const signs[] = { "Failed to parse",   "incompatib",
					     "bytecode",          "version",
					     "unknown attribute", "deserialize" };

	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
		if (err->pjrt_code >= 0 && strcasestr(err->text, signs[i]))
			return true;
	return false;
}

static void others_answered(struct pf_question *question, const char *who, int minor)
{
	struct compile *c = pf_container_of(question, struct compile, question);
	int pjrt_code = c->err.pjrt_code;

	if (who) {
		pf_err_wrap(
			&c->err, c->err.code,
			"plugin %s (API 0.%d) cannot read this "
			"program, but plugin %s (API 0.%d) can: mount it instead (pjrtfs %s MOUNTPOINT)",
			pf_worker_name(c->plan.worker),
			pf_worker_description(c->plan.worker)->api_minor, who, minor,
			who);
		c->err.pjrt_code = pjrt_code;
	}
	pf_compile_fail(c, &c->err);
}

bool pf_compile_ask_others(struct compile *c)
{
	struct pf_question *q = &c->question;

	if (!may_be_too_old(&c->err))
		return false;
	q->request.program_off = pf_bytes_offset(c->program, c->part_off);
	q->request.program_len = c->part_len;
	memcpy(q->request.format, c->format, sizeof(q->request.format));
	q->options = c->plan.options.data;
	q->options_len = c->plan.options.len;
	q->api_minor = pf_worker_description(c->plan.worker)->api_minor;
	q->done = others_answered;
	return pf_probe_ask(c->x->probe, q);
}
