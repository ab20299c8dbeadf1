/* SPDX-License-Identifier: Apache-2.0 */
/* How a compile ends: what it gave is published, for those that followed it, too. */
#include <errno.h>
#include <stdio.h>
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

/* --- programs that are too new ------------------------------------------------------------- */

/* The newest StableHLO that WORKER's plugin reads, by its own word; false: it has none. */
static bool version_of(const struct pf_worker *worker, unsigned ret[3])
{
	struct json_object *attributes = pf_worker_description(worker)->attributes, *list;

	if (!json_object_object_get_ex(attributes, "stablehlo_current_version", &list) ||
	    !json_object_is_type(list, json_type_array) ||
	    json_object_array_length(list) != 3)
		return false;
	for (size_t i = 0; i < 3; i++)
		ret[i] =
			(unsigned)json_object_get_int(json_object_array_get_idx(list, i));
	return true;
}

static bool is_newer(const unsigned a[3], const unsigned b[3])
{
	for (size_t i = 0; i < 3; i++)
		if (a[i] != b[i])
			return a[i] > b[i];
	return false;
}

/* A plugin of the mount that reads StableHLO VERSION, or NULL. */
static const char *new_enough(const struct pf_executable *x, const unsigned version[3])
{
	for (unsigned i = 0; i < x->n_workers; i++) {
		unsigned has[3];

		if (version_of(x->workers[i], has) && !is_newer(version, has))
			return pf_worker_name(x->workers[i]);
	}
	return NULL;
}

void pf_compile_compare_versions(struct compile *c)
{
	const unsigned *v = c->facts.stablehlo;
	int pjrt_code = c->err.pjrt_code;
	char advice[128] = "try a newer plugin";
	const char *other;
	unsigned has[3];

	/* Only of what was refused: plugins read many a program that is newer than they are. */
	if (pjrt_code < 0 || !version_of(c->plan.worker, has) || !is_newer(v, has))
		return;
	other = new_enough(c->x, v);
	if (other)
		snprintf(advice, sizeof(advice),
			 "try plugin %s (options.json {\"plugin\":\"%s\"})", other,
			 other);
	pf_err_wrap(&c->err, c->err.code,
		    "the program is StableHLO %u.%u.%u, plugin %s has %u.%u.%u: %s", v[0],
		    v[1], v[2], pf_worker_name(c->plan.worker), has[0], has[1], has[2],
		    advice);
	c->err.pjrt_code = pjrt_code;
}
