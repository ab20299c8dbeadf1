/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles: from a committed source to a program that a worker has loaded. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/executable.h"
#include "pjrtfs/wait.h"

static void compile_free(struct compile *c)
{
	if (c->flight)
		pf_flight_drop(c->x->compiler, c->flight);
	pf_executable_unref(c->x);
	pf_instance_unref(c->instance);
	pf_loaded_unref(c->lost);
	pf_bytes_unref(c->program);
	pf_bytes_unref(c->module);
	pf_plan_release(&c->plan);
	json_object_put(c->calls);
	pf_buf_release(&c->abi);
	free(c->settings);
	free(c);
}

/* Report a compile that ended after SECONDS: with ERR, or NULL; KEPT: the program before goes on. */
static void report_compile(struct pf_worker *worker, struct pf_report_compile *report,
			   const struct pf_err *err, double seconds, const char *cache,
			   bool kept)
{
	pf_report_compiled(pf_worker_telemetry(worker), pf_worker_meter(worker), report,
			   err, seconds, cache, kept);
}

static int compile_unlock(struct pf_executable *x, const struct pf_compiled_source *lost,
			  uid_t user, struct pf_wait *waiter, struct pf_err *err);

/* X's compile of GENERATION has failed: if something else ran in an earlier daemon, that is compiled. */
static void serve_again(struct pf_executable *x, unsigned generation)
{
	pf_lock(&x->lock);
	if (x->served.program && x->state == PF_EXECUTABLE_FAILED &&
	    x->generation == generation)
		(void)compile_unlock(x, &x->served, x->user, NULL, NULL);
	else
		pf_unlock(&x->lock);
}

/* X's compile made LOADED, a reference, or failed for ERR.  Returns the program that X has no more. */
static struct pf_loaded *take_result_locked(struct compile *c, struct pf_loaded *loaded,
					    const char *use, const struct pf_err *err)
{
	struct pf_executable *x = c->x;
	struct pf_loaded *gone = NULL;

	if (c->away)
		x->loaded = pf_steal(&c->lost);
	if (loaded || !x->loaded) {
		gone = x->loaded;
		x->loaded = loaded;
		x->cache_use = use;
		json_object_put(x->calls);
		x->calls = pf_steal(&c->calls);
	}
	if (loaded) /* bytes may have looked like a target's name */
		pf_json_add(x->calls, "missing", json_object_new_array());
	x->state = x->loaded ? PF_EXECUTABLE_READY : PF_EXECUTABLE_FAILED;
	if (err && !c->away)
		x->err = *err;
	else
		x->err = c->reloads ? c->later : (struct pf_err)PF_ERR_INIT;
	pf_executable_save_locked(x);
	if (loaded || c->reloads)
		pf_executable_drop_served_locked(x);
	return gone;
}

/* The compile ended: publish its result, unless a newer source has begun meanwhile. */
static void publish(struct compile *c, struct pf_loaded *loaded, const char *use,
		    const struct pf_err *err)
{
	struct pf_executable *x = c->x;
	struct pf_wait *waiters = NULL;
	struct pf_loaded *gone = loaded ? pf_loaded_ref(loaded) : NULL;
	struct pf_err superseded = PF_ERR_INIT;
	double seconds = 0; /* if it did not begin */
	bool kept = false;

	pf_turn_linger(); /* until the cache has it */
	pf_lock(&x->lock);
	if (c->generation != x->generation) {
		if (x->state != PF_EXECUTABLE_COMPILING && x->err.code == -ECANCELED)
			superseded = x->err;
		else
			pf_err_set(&superseded, -ECANCELED,
				   "a newer source took its place");
		err = &superseded;
	} else {
		kept = !loaded && (x->loaded || c->away);
		gone = take_result_locked(c, gone, use, err);
		waiters = pf_steal(&x->waiters);
	}
	if (x->job == &c->job)
		x->job = NULL;
	pf_unlock(&x->lock);
	if (c->start.tv_sec)
		seconds = pf_seconds_since(CLOCK_REALTIME, &c->start);
	/* Before pf_wake_all, so that the event exists when cp(1) returns. */
	report_compile(c->plan.worker, &c->report, err, seconds, use, kept);
	pf_wake_all(waiters);
	pf_loaded_unref(gone);
	if (!loaded && !c->reloads)
		serve_again(x, c->generation);
}

/* Take the first of JOBS, which are compiles, off the list; NULL: it is empty. */
static struct compile *take_compile(struct pf_compile_jobs *jobs)
{
	struct pf_compile_job *job = STAILQ_FIRST(jobs);

	if (!job)
		return NULL;
	STAILQ_REMOVE_HEAD(jobs, entry);
	return pf_container_of(job, struct compile, job);
}

/* C ended: publish the result for it and the followers of its flight.  The caller keeps
 * its reference on LOADED. */
static void finish(struct compile *c, struct pf_loaded *loaded, const char *use,
		   const struct pf_err *err)
{
	struct pf_compile_jobs followers = STAILQ_HEAD_INITIALIZER(followers);
	struct pf_cache *cache = c->x->compiler->cache;
	struct compile *follower;

	if (c->flight)
		pf_flight_finish(c->x->compiler, c->flight, loaded, &followers);
	publish(c, loaded, use, err);
	while ((follower = take_compile(&followers))) {
		if (loaded && cache)
			pf_cache_hit(cache, NULL);
		publish(follower, loaded, "hit", err);
		compile_free(follower);
	}
}

/* The same, and drop that reference and C. */
static void end(struct compile *c, struct pf_loaded *loaded, const char *use,
		const struct pf_err *err)
{
	finish(c, loaded, use, err);
	pf_loaded_unref(loaded);
	compile_free(c);
}

/* C failed and is not tried again; it is freed. */
static void fail(struct compile *c, const struct pf_err *err)
{
	end(c, NULL, NULL, err);
}

/* --- programs that are too new ------------------------------------------------------------- */

/* The newest StableHLO that WORKER's plugin says it reads; false: it does not say. */
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

/* A plugin of the mount that reads StableHLO VERSION, or NULL. */
static const char *new_enough(const struct pf_executable *x, const unsigned version[3])
{
	for (unsigned i = 0; i < x->n_workers; i++) {
		unsigned has[3];

		if (version_of(x->workers[i], has) && !pf_stablehlo_older(has, version))
			return pf_worker_name(x->workers[i]);
	}
	return NULL;
}

/* C's plugin refused it, for the reason C->err: if the program is of a newer StableHLO than the
 * plugin, say so before the reason, and which plugin of the mount is new enough. */
static void compare_versions(struct compile *c)
{
	const unsigned *v = c->facts.stablehlo;
	int pjrt_code = c->err.pjrt_code;
	char advice[128] =
		"send the text, exported.mlir_module() into a .mlir, or try a newer plugin";
	const char *other;
	unsigned has[3];

	/* Only for refused programs: plugins read most programs that are newer than they are. */
	if (pjrt_code < 0 || !version_of(c->plan.worker, has) ||
	    !pf_stablehlo_older(has, v))
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

/* XLA shows all of a program that has no main: say in one sentence that this is the reason. */
static void look_for_main(struct compile *c)
{
	int pjrt_code = c->err.pjrt_code;

	if (pjrt_code < 0 || !strstr(c->err.text, "requires module with `main` function"))
		return;
	pf_err_set(&c->err, c->err.code,
		   "expected a function called main, which plugins execute, found none: "
		   "rename the function to be executed");
	c->err.pjrt_code = pjrt_code;
}

/* The worker died of C: if XLA has optimized the program before, whose compiler may abort on what it makes
 * itself, say so before the reason. */
static void look_for_schedule(struct compile *c)
{
	if (c->facts.scheduled)
		pf_err_wrap(&c->err, c->err.code,
			    "XLA has optimized this program before, and can abort on its "
			    "own result (is_scheduled): write what it was made of, "
			    "TensorFlow's stage hlo_serialized or stablehlo_serialized");
}

enum {
	REPORT_MS = 10000,  /* a compile that goes on is an event each time */
	MAX_INFO = 8 << 20, /* bytes: 65536 results have some 3 MiB */
};

/* Read the worker's description of the new executable. */
static int read_reply(struct compile *c, const struct pf_rep_compile *rep,
		      struct pf_loaded *l, struct pf_err *err)
{
	struct pf_shared_bytes hlo =
		pf_instance_pool(c->instance, rep->hlo_off, rep->hlo_len);
	pf_autobuf struct pf_buf info = PF_BUF_INIT;
	struct json_object *facts;
	int r = pf_shared_copy(pf_instance_pool(c->instance, rep->info_off,
						rep->info_len),
			       "what the plugin tells of the program", MAX_INFO, &info,
			       err);

	if (r == 0)
		r = pf_compile_facts(info.data, info.len, &facts, err);
	return r < 0 ? r
		     : pf_loaded_describe(c, l, facts, hlo,
					  (enum pf_optimized_format)rep->hlo_format, err);
}

/* --- on a thread of the compiler ----------------------------------------------------------- */

static void again(struct compile *c)
{
	pf_instance_unref(pf_steal(&c->instance));
	pf_compiler_add(c->x->compiler, &c->job, true);
}

/*
 * The worker died while it compiled C.  If it compiled other programs too, the culprit is not
 * known: each of them is tried once more, alone.
 */
static bool is_only_suspected(struct compile *c)
{
	if (pf_instance_was_stopped(c->instance))
		return true;
	if (c->suspected ||
	    pf_instance_lost(c->instance, PF_OP_COMPILE) +
			    pf_instance_lost(c->instance, PF_OP_LOAD) +
			    pf_instance_lost(c->instance, PF_OP_TOPOLOGY) <
		    2)
		return false;
	c->suspected = c->job.slot.alone = true;
	return true;
}

/*
 * The worker died and C failed, as ERR says.  True: the worker did not have C, or had other
 * compiles, and C is tried once more in the next instance; it may be freed by then.  False: C is
 * the culprit, and is in quarantine.
 */
static bool try_again(struct compile *c, const struct pf_err *err)
{
	if (!c->sent || is_only_suspected(c)) {
		again(c);
		return true;
	}
	pf_quarantine_add(c->x->compiler->quarantine, PF_SUSPECT_COMPILE, &c->key,
			  c->job.slot.user, err);
	return false;
}

static void report_going_on(void *arg)
{
	struct compile *c = arg;

	pf_report_compiling(pf_worker_telemetry(c->plan.worker), &c->report,
			    pf_seconds_since(CLOCK_REALTIME, &c->start));
}

static int ask_to_compile(struct compile *c, struct pf_rep_compile *rep,
			  struct pf_err *err)
{
	struct pf_req_compile req = { .head.op = PF_OP_COMPILE };
	struct pf_sync_call q = {
		.instance = c->instance,
		.request = &req,
		.len = sizeof(req),
		.tail = c->plan.options.data,
		.tail_len = c->plan.options.len,
		.timeout_s = c->x->compiler->timeout_s,
		.tick = report_going_on,
		.tick_arg = c,
		.tick_ms = REPORT_MS,
		.n_given_up = &c->x->compiler->n_given_up,
	};
	int r;

	c->sent = false;
	r = pf_compiler_check_given_up(c->x->compiler, pf_worker_name(c->plan.worker),
				       err);
	if (r < 0)
		return r;
	c->id = req.id = pf_worker_id(c->plan.worker);
	req.program_off = pf_bytes_offset(c->module, c->facts.off);
	req.program_len = c->facts.len;
	req.options_len = (uint32_t)c->plan.options.len - c->plan.topology_len;
	req.topology_len = c->plan.topology_len;
	req.platform = c->plan.platform;
	memcpy(req.format, c->format, sizeof(req.format));
	q.kept = pf_bytes_ref(c->module);
	q.drop = pf_bytes_drop;
	pf_compiler_set_stage(&c->job, PF_STAGE_COMPILING);
	r = pf_sync_call(&q, rep, sizeof(*rep), err);
	c->sent = q.sent;
	if (r == -ETIMEDOUT && err->pjrt_code < 0)
		pf_err_set(err, r,
			   "it did not compile within the %u s of --compile-timeout; the "
			   "plugin goes on with it until its worker ends",
			   q.timeout_s);
	else if (r < 0)
		pf_stage_blame(PF_STAGE_COMPILING, err);
	return r;
}

static void free_blocks(struct compile *c, const struct pf_rep_compile *rep)
{
	pf_instance_free_block(c->instance, rep->info_off);
	if (rep->hlo_off != PF_NO_OFFSET)
		pf_instance_free_block(c->instance, rep->hlo_off);
}

/* Use what the worker compiled, as REP describes it. */
static void take_over(struct compile *c, const struct pf_rep_compile *rep)
{
	PF_CLEANUP(pf_loaded_unrefp) struct pf_loaded *l = pf_loaded_new(c);
	struct pf_compiler *compiler = c->x->compiler;
	struct pf_err err = PF_ERR_INIT;
	int r;

	if (l) {
		r = read_reply(c, rep, l, &err);
	} else {
		r = pf_err_set(&err, -ENOMEM, "no memory for an executable");
		pf_instance_free_id(c->instance, PF_OP_EXECUTABLE_FREE, c->id);
	}
	if (r < 0) {
		free_blocks(c, rep);
		fail(c, &err);
		return;
	}
	pf_compiler_begin_put(compiler);
	finish(c, l, "miss", NULL);
	pf_compile_to_cache(c, l, rep);
	free_blocks(c, rep);
	pf_compiler_end_put(compiler);
	compile_free(c);
}

/* C ends for a reason of its own, as ERR says: its followers, of other users perhaps, are tried
 * without it. */
static void fail_alone(struct compile *c, const struct pf_err *err)
{
	struct pf_compile_jobs followers = STAILQ_HEAD_INITIALIZER(followers);
	struct compile *follower;

	if (c->flight)
		pf_flight_finish(c->x->compiler, c->flight, NULL, &followers);
	publish(c, NULL, NULL, err);
	while ((follower = take_compile(&followers)))
		again(follower);
	compile_free(c);
}

static void compile_now(struct compile *c)
{
	struct pf_account *account = c->x->account;
	struct pf_rep_compile rep;
	struct timespec start;
	int r;

	c->err = (struct pf_err)PF_ERR_INIT;
	if (pf_account_charge(account, PF_COMPILE_MS, 1, &c->err) < 0) {
		fail_alone(c, &c->err); /* others may have time left */
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &start);
	r = ask_to_compile(c, &rep, &c->err);
	pf_account_force(account, PF_COMPILE_MS,
			 (uint64_t)(pf_seconds_since(CLOCK_MONOTONIC, &start) * 1000));
	pf_account_save(account);
	if (r == 0) {
		take_over(c, &rep);
		return;
	}
	if (c->err.pjrt_code < 0 && r != -ETIMEDOUT && !pf_instance_alive(c->instance)) {
		look_for_schedule(c);
		if (try_again(c, &c->err))
			return;
	}
	pf_compile_explain(c, &c->err);
	look_for_main(c);
	compare_versions(c);
	fail(c, &c->err);
}

/* Join the flight of C's key.  False: C is not its leader, or failed. */
static bool lead(struct compile *c)
{
	struct pf_cache *cache = c->x->compiler->cache;
	struct pf_loaded *loaded = NULL;
	struct pf_err err = PF_ERR_INIT;
	int r = pf_compile_key(c, &err);

	if (r == 0)
		r = pf_quarantine_check(c->x->compiler->quarantine, PF_SUSPECT_COMPILE,
					&c->key, c->job.slot.user, &err);
	if (c->flight || r < 0) {
		if (r < 0)
			fail(c, &err);
		return r == 0;
	}
	r = pf_flight_join(c->x->compiler, &c->key, c->plan.worker, c->plan.names,
			   &c->job, &c->flight, &loaded);
	switch (r) {
	case PF_LEADER:
		return true;
	case PF_FOLLOWER: /* C may be freed by now */
		return false;
	case PF_HIT:
		if (cache)
			pf_cache_hit(cache, NULL);
		end(c, loaded, "hit", NULL);
		return false;
	default:
		pf_err_set(&err, r, "no memory for a compile");
		fail(c, &err);
		return false;
	}
}

static bool is_superseded(struct compile *c)
{
	PF_LOCK_SCOPE(&c->x->lock);
	return c->generation != c->x->generation;
}

static void compile_run(struct pf_compile_job *job)
{
	struct compile *c = pf_container_of(job, struct compile, job);
	struct pf_loaded *l = NULL;
	struct pf_err err = PF_ERR_INIT;
	int r;

	if (is_superseded(c)) {
		fail_alone(c, NULL); /* publish says why */
		return;
	}
	r = pf_worker_await(c->plan.worker, &c->waiter, &c->instance, &err);
	if (r == 0)
		return;
	c->away = r == -EIO && c->lost &&
		  pf_worker_state(c->plan.worker) != PF_WORKER_FAILED;
	if (r < 0 || pf_compile_find_calls(c, &err) < 0) {
		fail(c, &err);
		return;
	}
	if (!c->native && !lead(c))
		return;
	clock_gettime(CLOCK_REALTIME, &c->start);
	pf_report_compiling(pf_worker_telemetry(c->plan.worker), &c->report, 0);
	r = c->native ? pf_compile_native(c, &l, &err)
		      : pf_compile_from_cache(c, &l, &err);
	if (r > 0)
		end(c, l, c->native ? NULL : "hit", NULL);
	else if (r == 0)
		compile_now(c);
	else if (!c->native)
		again(c);
	else if (r != -EIO || pf_instance_alive(c->instance) || !try_again(c, &err)) {
		pf_compile_explain(c, &err);
		fail(c, &err);
	}
}

static void compile_wake(struct pf_wait *waiter)
{
	struct compile *c = pf_container_of(waiter, struct compile, waiter);

	pf_compiler_add(c->x->compiler, &c->job, true);
}

/* C's module becomes a copy of LEN of its bytes with EDITS, whose facts C has already. */
static int edit_module(struct compile *c, uint64_t len,
		       const struct pf_program_edits *edits, const char *what,
		       struct pf_err *err)
{
	struct pf_bytes *old = c->module, *new;
	int r;

	if (pf_program_edits_failed(edits))
		return pf_err_set(err, -ENOMEM, "no memory for %s", what);
	r = pf_bytes_new(old->arena, c->x->account, c->facts.len, &new, err);
	if (r < 0)
		return r;
	pf_program_edit(edits, pf_bytes_at(old, 0), len, pf_bytes_at(new, 0));
	c->module = new;
	pf_bytes_unref(old);
	return 0;
}

/* Set C's facts, and its module: LEN bytes of PROGRAM, or a copy that has another main. */
static int set_module(struct compile *c, struct pf_bytes *program, uint64_t len,
		      struct pf_err *err)
{
	PF_CLEANUP(pf_program_edits_release) struct pf_program_edits edits = { 0 };
	const char *src = pf_bytes_at(program, 0);
	int r = pf_program_check(c->x->format, src, len, &c->facts, err);

	if (r < 0)
		return r;
	c->module = pf_bytes_ref(program);
	if (!c->facts.tokens || !pf_program_drop_tokens(&c->facts, src, len, &edits))
		return 0;
	return edit_module(c, len, &edits, "a main without tokens", err);
}

/* The plugin is known: write for an older one what it can read of a newer StableHLO. */
static int adapt_module(struct compile *c, struct pf_err *err)
{
	PF_CLEANUP(pf_program_edits_release) struct pf_program_edits edits = { 0 };
	uint64_t len = c->facts.off + c->facts.len;
	unsigned has[3];

	if (!version_of(c->plan.worker, has) ||
	    !pf_program_older_calls(&c->facts, pf_bytes_at(c->module, 0), len, has,
				    &edits))
		return 0;
	return edit_module(c, len, &edits, "custom calls of an older StableHLO", err);
}

/* Prepare a compile for USER of LEN bytes of PROGRAM, with the options SETTINGS; NULL and *err if it
 * is refused here. */
static struct compile *prepare_locked(struct pf_executable *x, struct pf_bytes *program,
				      uint64_t len, const char *settings, uid_t user,
				      struct pf_err *err)
{
	struct compile *c = calloc(1, sizeof(*c));

	if (c && settings && !(c->settings = strdup(settings)))
		free(pf_steal(&c));
	if (!c) {
		pf_err_set(err, -ENOMEM, "no memory for a compile");
		return NULL;
	}
	c->job.run = compile_run;
	c->job.slot.user = user;
	c->waiter.wake = compile_wake;
	c->x = pf_executable_ref(x);
	if (set_module(c, program, len, err) < 0 ||
	    pf_executable_plan(x, settings, &c->facts, &c->plan, err) < 0 ||
	    adapt_module(c, err) < 0) {
		compile_free(c);
		return NULL;
	}
	c->program = pf_bytes_ref(program);
	c->len = len;
	c->native = x->format == PF_PROGRAM_NATIVE;
	strcpy(c->format, x->format == PF_PROGRAM_HLO ? "hlo" : "mlir");
	c->generation = x->generation;
	c->job.slot.work = (struct pf_sched_work){
		.subject = atomic_load(&x->subject),
		.worker = pf_worker_shared(c->plan.worker),
		.stage = PF_STAGE_LOADING,
		.of = 1,
	};
	x->job = &c->job;
	return c;
}

/* Compile X's source for USER, or LOST again, what ran and no worker has any more; as
 * pf_executable_compile.  The lock is held on entry. */
static int compile_unlock(struct pf_executable *x, const struct pf_compiled_source *lost,
			  uid_t user, struct pf_wait *waiter, struct pf_err *err)
{
	struct pf_bytes *program = lost ? lost->program : x->program;
	uint64_t len = lost ? lost->len : x->program_len;
	struct pf_err later = x->err;
	struct pf_err why = PF_ERR_INIT;
	struct pf_wait *waiters;
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *topology = NULL;
	struct pf_loaded *gone;
	struct pf_report_compile report;
	struct pf_worker *worker = x->worker;
	struct compile *c;
	bool kept = false;

	waiters = pf_executable_supersede(x, PF_EXECUTABLE_COMPILING, true, &gone);
	if (lost)
		gone = pf_steal(&x->loaded);
	x->awaited = waiter && x->loaded;
	pf_err_set(&x->err, -ECANCELED, "a newer source took its place");
	clock_gettime(CLOCK_REALTIME, &x->started);
	c = prepare_locked(x, program, len, lost ? lost->settings : x->options, user,
			   &why);
	x->resumed = false;
	if (!c) {
		x->state = x->loaded ? PF_EXECUTABLE_READY : PF_EXECUTABLE_FAILED;
		kept = x->loaded;
		x->err = why;
	} else {
		c->reloads = c->job.slot.prompt = lost;
		c->lost = pf_steal(&gone);
		c->later = later;
		topology = x->topology;
		x->topology = c->plan.topology ? pf_bytes_ref(c->plan.topology) : NULL;
		x->topology_len = c->plan.topology_len;
		if (waiter)
			pf_wait_add(&x->waiters, waiter);
	}
	if (!lost)
		x->changed = false;
	pf_executable_save_locked(x);
	pf_unlock(&x->lock);
	if (c)
		worker = c->plan.worker;
	pf_report_queued(pf_worker_telemetry(worker), x->subject, len,
			 pf_worker_name(worker), c ? &c->report : &report);
	pf_wake_all(waiters);
	pf_loaded_unref(gone);
	if (!c) {
		report_compile(worker, &report, &why, 0, NULL, kept);
		if (err)
			*err = why;
		return why.code;
	}
	pf_compiler_add(x->compiler, &c->job, false);
	return 0;
}

int pf_executable_compile(struct pf_executable *x, struct pf_wait *waiter,
			  struct pf_err *err)
{
	bool empty;

	pf_lock(&x->lock);
	empty = x->format == PF_PROGRAM_NONE || !x->program_len;
	if (!empty)
		return compile_unlock(x, NULL, x->user, waiter, err);
	pf_wake_all(pf_executable_is_empty_unlock(x));
	return 1;
}

void pf_executable_resume(struct pf_executable *x)
{
	pf_lock(&x->lock);
	if (x->state == PF_EXECUTABLE_COMPILING)
		(void)compile_unlock(x, x->serves ? &x->served : NULL, x->user, NULL,
				     NULL);
	else
		pf_unlock(&x->lock);
}

int pf_executable_result(struct pf_executable *x, struct pf_err *err)
{
	PF_LOCK_SCOPE(&x->lock);
	if (x->state == PF_EXECUTABLE_COMPILING)
		return pf_err_set(err, -EINPROGRESS, "it is being compiled");
	if (err)
		*err = x->err;
	return x->err.code;
}

/* GONE, X's program, was ready, and no worker has it: load it again for USER.  GONE is dropped; the
 * lock is held on entry. */
static int reload_unlock(struct pf_executable *x, struct pf_loaded *gone, uid_t user,
			 struct pf_wait *waiter, struct pf_err *err)
{
	/* Here, as a compile that is refused fails the program for its other users, too. */
	const struct pf_compiled_source lost = { gone->program, gone->program_len,
						 gone->settings };
	int r = pf_worker_check_away(gone->worker, err);

	if (r == 0)
		r = pf_quarantine_check(x->compiler->quarantine, PF_SUSPECT_COMPILE,
					&gone->key, user, err);
	if (r < 0)
		pf_unlock(&x->lock);
	else
		r = compile_unlock(x, &lost, user, waiter, err);
	pf_loaded_unref(gone);
	return r;
}

/* What X runs while its source is compiled for a request that waits, a reference; NULL: nothing. */
static struct pf_loaded *meanwhile_locked(struct pf_executable *x, bool runs)
{
	struct pf_loaded *l = pf_executable_serving(x);

	if (!l || (runs && l->for_topology))
		return NULL;
	pf_loaded_ref(l);
	if (pf_loaded_use(l))
		return l;
	pf_loaded_unref(l); /* X has another */
	return NULL;
}

/* As pf_executable_load; RUNS: to be run, for which it must be on devices. */
static int load(struct pf_executable *x, uid_t user, bool runs, struct pf_wait *waiter,
		struct pf_loaded **ret, struct pf_err *err)
{
	int r;

	pf_lock(&x->lock);
	switch (x->state) {
	case PF_EXECUTABLE_READY:
		if (runs && x->loaded->for_topology) {
			r = pf_err_set(err, -EOPNOTSUPP,
				       "it was compiled for a topology, not for devices "
				       "of this mount: its file serialized, as a "
				       ".pjrtexe in programs/, runs where these are");
			break;
		}
		/* The compiled source, not one that a writer has not closed yet. */
		*ret = pf_loaded_ref(x->loaded);
		if (!pf_loaded_use(*ret) && x->format != PF_PROGRAM_NONE)
			return reload_unlock(x, pf_steal(ret), user, waiter, err);
		r = 1;
		break;
	case PF_EXECUTABLE_COMPILING:
		*ret = meanwhile_locked(x, runs);
		if (!*ret)
			pf_wait_add(&x->waiters, waiter);
		r = *ret ? 1 : 0;
		break;
	case PF_EXECUTABLE_FAILED:
		r = pf_err_set(err, x->err.code, "it did not compile: %s", x->err.text);
		break;
	default:
		r = pf_executable_no_source(err);
		break;
	}
	pf_unlock(&x->lock);
	return r;
}

int pf_executable_load(struct pf_executable *x, uid_t user, struct pf_wait *waiter,
		       struct pf_loaded **ret, struct pf_err *err)
{
	return load(x, user, true, waiter, ret, err);
}

bool pf_executable_leave(struct pf_executable *x, struct pf_wait *waiter)
{
	PF_LOCK_SCOPE(&x->lock);
	return pf_wait_leave(&x->waiters, waiter);
}

void pf_optimized_free(struct pf_optimized *o)
{
	if (!o)
		return;
	if (o->instance)
		pf_instance_free_block(o->instance, o->block);
	pf_instance_unref(o->instance);
	pf_bytes_unref(o->file);
	free(o);
}

uint64_t pf_executable_optimized_len(struct pf_executable *x, bool *mlir)
{
	const struct pf_loaded *l;

	PF_LOCK_SCOPE(&x->lock);
	l = pf_executable_serving(x);
	*mlir = l && l->optimized == PF_OPTIMIZED_MLIR;
	return l ? l->optimized_len : 0;
}

/* A program in FORMAT is wanted as MLIR, or as HLO. */
static int check_format(enum pf_optimized_format format, bool mlir, struct pf_err *err)
{
	if (mlir == (format == PF_OPTIMIZED_MLIR))
		return 0;
	return pf_err_set(err, -EOPNOTSUPP,
			  mlir ? "the plugin gives the program as HLO: read "
				 "optimized.hlo.pb"
			       : "the plugin gives the program as MLIR: read "
				 "optimized.mlir");
}

/* Check what the worker wrote, as it is not trusted. */
static int take_optimized(struct pf_instance *instance,
			  const struct pf_rep_optimized *rep, bool mlir,
			  struct pf_optimized **ret, struct pf_err *err)
{
	struct pf_shared_bytes module = pf_instance_pool(instance, rep->off, rep->len);
	enum pf_optimized_format format = (enum pf_optimized_format)rep->format;
	struct pf_optimized *o;
	int r = check_format(format, mlir, err);

	if (r == 0 && !module.shared)
		r = pf_answer_is_outside(err);
	if (r == 0 && !mlir)
		r = pf_hlo_unwrap(module, format == PF_OPTIMIZED_HLO_WITH_CONFIG, &module,
				  err);
	if (r < 0)
		return r;
	o = calloc(1, sizeof(*o));
	if (!o)
		return pf_err_set(err, -ENOMEM, "no memory for an optimized program");
	o->bytes = module.shared;
	o->len = module.len;
	o->instance = pf_instance_ref(instance);
	o->block = rep->off;
	*ret = o;
	return 0;
}

/* L's optimized program in the cache's bytes. */
static int optimized_of_file(const struct pf_loaded *l, struct pf_optimized **ret,
			     struct pf_err *err)
{
	struct pf_optimized *o;

	o = calloc(1, sizeof(*o));
	if (!o)
		return pf_err_set(err, -ENOMEM, "no memory for an optimized program");
	o->bytes = l->module.shared;
	o->len = l->module.len;
	o->file = pf_bytes_ref(l->file);
	*ret = o;
	return 0;
}

/* As load, but wait for it. */
static int load_now(struct pf_executable *x, uid_t user, struct pf_loaded **ret,
		    struct pf_err *err)
{
	struct pf_sleeper s;
	int r;

	pf_sleeper_init(&s);
	while ((r = load(x, user, false, &s.waiter, ret, err)) == 0)
		pf_sleeper_wait(&s);
	pf_sleeper_release(&s);
	return r;
}

int pf_executable_optimized(struct pf_executable *x, uid_t user, bool mlir,
			    struct pf_optimized **ret, struct pf_err *err)
{
	struct pf_rep_optimized rep;
	int r;

	*ret = NULL;
	if (pf_executable_state(x) != PF_EXECUTABLE_READY &&
	    pf_executable_state(x) != PF_EXECUTABLE_COMPILED)
		return 0;
	for (int tries = 0;; tries++) {
		PF_CLEANUP(pf_loaded_unrefp) struct pf_loaded *l = NULL;

		r = load_now(x, user, &l, err);
		if (r == 0 && l->optimized != PF_OPTIMIZED_NONE)
			r = check_format(l->optimized, mlir, err);
		if (r < 0)
			return r;
		if (l->file)
			return optimized_of_file(l, ret, err);
		/* A second for the answer, and one for each 64 MiB that are written. */
		r = pf_loaded_ask(l, PF_OP_OPTIMIZED,
				  1 + (unsigned)(l->optimized_len >> 26), false, &rep,
				  sizeof(rep), err);
		if (r == 0) {
			r = take_optimized(l->instance, &rep, mlir, ret, err);
			if (r < 0)
				pf_instance_free_block(l->instance, rep.off);
			return r;
		}
		/* Its process was dead or dying: try the next instance. */
		if (tries || pf_instance_alive(l->instance))
			return r;
	}
}
