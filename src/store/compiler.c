/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/wait.h"

enum {
	MAX_JOBS = 32,   /* compiles at a time that have not run for long */
	LONG_MS = 60000, /* a compile that runs for longer takes no slot */
};

/* The part of keys that depends on the environment of a worker's instance. */
struct pf_environment {
	uint64_t instance;
	const struct pf_worker *worker; /* only compared */
	struct pf_buf text;
	struct pf_environment *next;
};

/* --- jobs -------------------------------------------------------------------------------- */

/* Run the first job that is ready. */
static void run_locked(struct pf_compiler *c)
{
	struct pf_compile_job *job = STAILQ_FIRST(&c->ready);
	struct pf_sched_request slot = job->slot; /* JOB may be freed while it runs */

	STAILQ_REMOVE_HEAD(&c->ready, entry);
	c->n_ready--;
	pf_unlock(&c->lock);
	pf_turn_may_linger();
	job->run(job);
	pf_turn_no_more();
	pf_sched_release(c->sched, &slot);
	pf_lock(&c->lock);
	if (--c->n_jobs == 0)
		pthread_cond_broadcast(&c->changed);
}

static void *thread_main(void *arg)
{
	struct pf_compiler *c = arg;

	pf_lock(&c->lock);
	while (c->n_jobs || !atomic_load(&c->stop)) {
		if (!STAILQ_EMPTY(&c->ready)) {
			run_locked(c);
			continue;
		}
		c->n_idle++;
		pthread_cond_wait(&c->changed, &c->lock);
		c->n_idle--;
	}
	pf_unlock(&c->lock);
	return NULL;
}

/* The job of SLOT may run: wake a thread, or create one.  If none can be created, existing
 * threads run the job, or pf_compiler_stop does. */
static void granted(struct pf_sched_request *slot)
{
	struct pf_compile_job *job = pf_container_of(slot, struct pf_compile_job, slot);
	struct pf_compiler *c = job->compiler;

	PF_LOCK_SCOPE(&c->lock);
	STAILQ_INSERT_TAIL(&c->ready, job, entry);
	c->n_ready++;
	if (c->n_ready > c->n_idle && c->n_threads < PF_COMPILER_THREADS &&
	    !atomic_load(&c->stop) &&
	    pf_thread_start(&c->threads[c->n_threads], thread_main, c) == 0)
		c->n_threads++;
	pthread_cond_broadcast(&c->changed);
}

void pf_compiler_add(struct pf_compiler *c, struct pf_compile_job *job, bool front)
{
	static const unsigned queue = 0;
	bool stopped;

	job->compiler = c;
	pf_lock(&c->lock);
	stopped = c->stopped;
	c->n_jobs += !stopped;
	pf_unlock(&c->lock);
	if (stopped) {
		job->run(job); /* fails at once, as the workers have ended */
		return;
	}
	job->slot.queues = &queue;
	job->slot.n_queues = 1;
	job->slot.front = front;
	job->slot.granted = granted;
	if (pf_sched_acquire(c->sched, &job->slot))
		granted(&job->slot);
}

void pf_compiler_set_stage(const struct pf_compile_job *job, enum pf_stage stage)
{
	pf_sched_set_stage(job->compiler->sched, &job->slot, stage);
}

size_t pf_compiler_list(struct pf_compiler *c, struct pf_sched_entry *entries, size_t max)
{
	return pf_sched_list(c->sched, 0, entries, max);
}

/* --- flights ------------------------------------------------------------------------------ */

struct pf_flight {
	struct pf_cache_key key;
	const struct pf_worker *worker; /* only compared */
	struct pf_compile_jobs followers;
	struct pf_loaded *loaded; /* owned reference; NULL: not known yet */
	LIST_ENTRY(pf_flight) entry;
	const char *names; /* borrowed from the leader's plan; "": none */
	bool landed;       /* it is not listed any more */
};

int pf_flight_join(struct pf_compiler *c, const struct pf_cache_key *key,
		   const struct pf_worker *worker, const char *names,
		   struct pf_compile_job *job, struct pf_flight **ret,
		   struct pf_loaded **ret_loaded)
{
	struct pf_flight *f;

	PF_LOCK_SCOPE(&c->lock);
	LIST_FOREACH(f, &c->flights, entry)
		if (f->worker == worker && !memcmp(&f->key, key, sizeof(*key)) &&
		    !strcmp(f->names, names ? names : ""))
			break;
	if (!f) {
		f = calloc(1, sizeof(*f));
		if (!f)
			return -ENOMEM;
		f->key = *key;
		f->worker = worker;
		f->names = names ? names : "";
		STAILQ_INIT(&f->followers);
		LIST_INSERT_HEAD(&c->flights, f, entry);
		*ret = f;
		return PF_LEADER;
	}
	if (f->loaded) {
		*ret_loaded = pf_loaded_ref(f->loaded);
		return PF_HIT;
	}
	STAILQ_INSERT_TAIL(&f->followers, job, entry);
	return PF_FOLLOWER;
}

static void land_locked(struct pf_flight *f)
{
	if (!f->landed)
		LIST_REMOVE(f, entry);
	f->landed = true;
}

void pf_flight_finish(struct pf_compiler *c, struct pf_flight *f,
		      struct pf_loaded *loaded, struct pf_compile_jobs *followers)
{
	PF_LOCK_SCOPE(&c->lock);
	STAILQ_CONCAT(followers, &f->followers);
	if (loaded)
		f->loaded = pf_loaded_ref(loaded);
	else
		land_locked(f); /* the next job with the key leads a new flight */
}

void pf_flight_drop(struct pf_compiler *c, struct pf_flight *f)
{
	pf_lock(&c->lock);
	land_locked(f);
	pf_unlock(&c->lock);
	pf_loaded_unref(f->loaded);
	free(f);
}

/* --- the environment --------------------------------------------------------------------- */

static bool known_locked(const struct pf_compiler *c, uint64_t instance,
			 struct pf_buf *out)
{
	for (const struct pf_environment *e = c->environments; e; e = e->next)
		if (e->instance == instance) {
			pf_buf_append(out, e->text.data, e->text.len);
			return true;
		}
	return false;
}

void pf_compiler_environment(struct pf_compiler *c, const struct pf_worker *worker,
			     const struct pf_instance *instance, struct pf_buf *out)
{
	uint64_t number = pf_instance_number(instance);
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct pf_environment *e;
	bool known;

	pf_lock(&c->lock);
	known = known_locked(c, number, out);
	pf_unlock(&c->lock);
	if (known)
		return;
	pf_cache_environment(pf_instance_environ(instance), &text);
	PF_LOCK_SCOPE(&c->lock);
	if (known_locked(c, number, out)) /* by another thread */
		return;
	e = c->environments;
	while (e && e->worker != worker)
		e = e->next;
	if (!e && (e = calloc(1, sizeof(*e)))) {
		e->next = c->environments;
		c->environments = e;
	}
	out->failed |= text.failed || !e;
	if (out->failed)
		return;
	pf_buf_append(out, text.data, text.len);
	/* The worker's previous instance compiles nothing any more. */
	pf_buf_release(&e->text);
	e->text = text;
	text = (struct pf_buf)PF_BUF_INIT;
	e->worker = worker;
	e->instance = number;
}

/* --- entries that are being put into the cache -------------------------------------------- */

void pf_compiler_begin_put(struct pf_compiler *c)
{
	PF_LOCK_SCOPE(&c->lock);
	c->n_puts++;
}

void pf_compiler_end_put(struct pf_compiler *c)
{
	PF_LOCK_SCOPE(&c->lock);
	c->n_puts--;
	pthread_cond_broadcast(&c->changed);
}

void pf_compiler_finish(struct pf_compiler *c, unsigned ms)
{
	struct timespec end = pf_time_in(CLOCK_MONOTONIC, ms);

	PF_LOCK_SCOPE(&c->lock);
	while (c->n_puts &&
	       !pthread_cond_clockwait(&c->changed, &c->lock, CLOCK_MONOTONIC, &end))
		;
}

/* --- init and free ----------------------------------------------------------------------- */

/* Users whose programs ended workers must wait, but not once the compiler stops. */
static int64_t user_waits_until(void *arg, uid_t user)
{
	struct pf_compiler *c = arg;

	return atomic_load(&c->stop) ? 0 : pf_quarantine_waits_until(c->quarantine, user);
}

int pf_compiler_new(const struct pf_compiler_config *config, struct pf_compiler **ret,
		    struct pf_err *err)
{
	struct pf_compiler *c = calloc(1, sizeof(*c));
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned jobs = config->jobs ? config->jobs : cores > 0 ? (unsigned)cores : 1;
	struct pf_sched_config sched = {
		.n_queues = 1,
		.slots = jobs < MAX_JOBS ? jobs : MAX_JOBS,
		.max_held = PF_COMPILER_THREADS,
		.long_ms = LONG_MS,
		.long_is_free = true,
		.user_waits_until = user_waits_until,
		.arg = c,
	};

	if (!c)
		return pf_err_set(err, -ENOMEM, "no memory for a compiler");
	STAILQ_INIT(&c->ready);
	c->cache = config->cache;
	c->timeout_s = config->timeout_s;
	if (pthread_mutex_init(&c->lock, NULL) || pthread_cond_init(&c->changed, NULL))
		abort();
	pf_cache_host("/proc/cpuinfo", &c->host);
	c->options = config->options ? strdup(config->options) : NULL;
	c->quarantine = pf_quarantine_new(config->owner, pf_now_ms);
	c->sched = pf_sched_new(&sched);
	if (c->host.failed || (config->options && !c->options) || !c->quarantine ||
	    !c->sched) {
		pf_compiler_free(c);
		return pf_err_set(err, -ENOMEM, "no memory for a compiler");
	}
	*ret = c;
	return 0;
}

void pf_compiler_stop(struct pf_compiler *c)
{
	if (!c)
		return;
	pf_lock(&c->lock);
	atomic_store(&c->stop, true);
	pthread_cond_broadcast(&c->changed);
	pf_unlock(&c->lock);
	pf_sched_review(c->sched);
	for (unsigned i = 0; i < c->n_threads; i++)
		pthread_join(c->threads[i], NULL);
	pf_lock(&c->lock);
	c->n_threads = 0;
	while (c->n_jobs)
		if (!STAILQ_EMPTY(&c->ready))
			run_locked(c);
		else
			pthread_cond_wait(&c->changed, &c->lock);
	c->stopped = true;
	pf_unlock(&c->lock);
}

void pf_compiler_free(struct pf_compiler *c)
{
	if (!c)
		return;
	if (c->sched)
		pf_compiler_stop(c);
	pf_sched_free(c->sched);
	pf_buf_release(&c->host);
	free(c->quarantine);
	free(c->options);
	pf_topologies_free(c);
	while (c->environments) {
		struct pf_environment *e = c->environments;

		c->environments = e->next;
		pf_buf_release(&e->text);
		free(e);
	}
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
