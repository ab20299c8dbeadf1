/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "pjrtfs/base.h"

enum {
	MAX_JOBS = 32, /* the worker has threads for them */
	MAX_LONG = 24, /* that take no place any more */
};

/* The waiting jobs of one user, in a ring of users. */
struct turn {
	uid_t user;
	struct pf_compile_job *first, *last;
	struct turn *next;
};

struct pf_flight {
	struct pf_cache_key key;
	const void *where; /* only compared */
	struct pf_compile_job *followers;
	struct pf_loaded *loaded; /* owned reference; NULL: not known yet */
	struct pf_flight *next;
};

/* What a life's compiler reads of its environment. */
struct surroundings {
	uint64_t instance;
	const struct pf_worker *worker; /* only compared */
	struct pf_buf text;
	struct surroundings *next;
};

struct pf_compiler {
	struct pf_cache *cache; /* borrowed, or NULL */
	unsigned jobs, timeout_s;
	char *options; /* owned, or NULL */
	_Atomic unsigned given_up;
	struct pf_buf host;
	struct pf_quarantine *quarantine; /* owned */

	pthread_mutex_t lock; /* rank 4; protects the fields below */
	pthread_cond_t change;
	struct pf_compile_job *front;      /* before all others */
	struct turn *sched;                /* owned; whose turn it is, and then whose */
	unsigned running;                  /* jobs; those that take long too */
	unsigned longs;                    /* of them, those that take long */
	bool alone;                        /* the one that runs must be alone */
	unsigned putting;                  /* entries on their way to the cache */
	struct pf_flight *flights;         /* owned */
	struct surroundings *surroundings; /* owned; one a worker */
	unsigned n_threads, idle;
	pthread_t threads[MAX_JOBS + MAX_LONG];
	bool stop, stopped; /* threads shall end; have ended */
};

int pf_compiler_new(const struct pf_compiler_config *config, struct pf_compiler **ret,
		    struct pf_err *err)
{
	struct pf_compiler *c = calloc(1, sizeof(*c));
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_condattr_t attr;

	if (!c)
		return pf_err_set(err, -ENOMEM, "no memory for a compiler");
	c->cache = config->cache;
	c->timeout_s = config->timeout_s;
	c->jobs = config->jobs ? config->jobs : cores > 0 ? (unsigned)cores : 1;
	if (c->jobs > MAX_JOBS)
		c->jobs = MAX_JOBS;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	if (pthread_mutex_init(&c->lock, NULL) || pthread_cond_init(&c->change, &attr))
		abort();
	pthread_condattr_destroy(&attr);
	pf_cache_host("/proc/cpuinfo", &c->host);
	c->options = config->options ? strdup(config->options) : NULL;
	c->quarantine = pf_quarantine_new(config->owner, pf_now_ms);
	if (c->host.failed || (config->options && !c->options) || !c->quarantine) {
		pf_compiler_free(c);
		return pf_err_set(err, -ENOMEM, "no memory for a compiler");
	}
	*ret = c;
	return 0;
}

struct pf_cache *pf_compiler_cache(struct pf_compiler *c)
{
	return c->cache;
}

const char *pf_compiler_options(struct pf_compiler *c)
{
	return c->options;
}

unsigned pf_compiler_timeout_s(struct pf_compiler *c)
{
	return c->timeout_s;
}

_Atomic unsigned *pf_compiler_given_up(struct pf_compiler *c)
{
	return &c->given_up;
}

struct pf_quarantine *pf_compiler_quarantine(struct pf_compiler *c)
{
	return c->quarantine;
}

const char *pf_compiler_host(struct pf_compiler *c)
{
	return c->host.data ? c->host.data : "";
}

static bool known_locked(const struct pf_compiler *c, uint64_t instance,
			 struct pf_buf *out)
{
	for (const struct surroundings *s = c->surroundings; s; s = s->next)
		if (s->instance == instance) {
			pf_buf_append(out, s->text.data, s->text.len);
			return true;
		}
	return false;
}

void pf_compiler_environment(struct pf_compiler *c, const struct pf_worker *worker,
			     const struct pf_instance *instance, struct pf_buf *out)
{
	uint64_t number = pf_instance_number(instance);
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct surroundings *s;
	bool known;

	pf_lock(&c->lock);
	known = known_locked(c, number, out);
	pf_unlock(&c->lock);
	if (known)
		return;
	pf_cache_environment(pf_instance_environ(instance), &text);
	PF_LOCK_SCOPE(&c->lock);
	if (known_locked(c, number, out)) /* somebody else was faster */
		return;
	s = c->surroundings;
	while (s && s->worker != worker)
		s = s->next;
	if (!s && (s = calloc(1, sizeof(*s)))) {
		s->next = c->surroundings;
		c->surroundings = s;
	}
	out->failed |= text.failed || !s;
	if (out->failed)
		return;
	pf_buf_append(out, text.data, text.len);
	/* The worker's former life compiles no more. */
	pf_buf_release(&s->text);
	s->text = text;
	text = (struct pf_buf)PF_BUF_INIT;
	s->worker = worker;
	s->instance = number;
}

/* --- the queue --------------------------------------------------------------------------- */

/*
 * Where in the ring the first user is whose compiles need not wait; NULL: there is none, and
 * *WAIT_MS, which may be NULL, becomes the time until there is one (-1: nobody has jobs).
 */
static struct turn **ready_locked(struct pf_compiler *c, int64_t *wait_ms)
{
	int64_t first = 0;

	for (struct turn **p = &c->sched; *p; p = &(*p)->next) {
		int64_t until = pf_quarantine_waits_until(c->quarantine, (*p)->user);

		if (!until || c->stop)
			return p;
		if (!first || until < first)
			first = until;
	}
	if (wait_ms) {
		*wait_ms = first ? first - pf_now_ms() : -1;
		if (first && *wait_ms < 1)
			*wait_ms = 1;
	}
	return NULL;
}

/* May another job begin? */
static bool has_place_locked(struct pf_compiler *c)
{
	if (c->alone)
		return false;
	if (c->front && c->front->alone)
		return c->running == c->longs;
	return c->running - c->longs < c->jobs && (c->front || ready_locked(c, NULL));
}

/* NULL: the user who had a place when it was asked for must wait by now. */
static struct pf_compile_job *take_locked(struct pf_compiler *c)
{
	struct pf_compile_job *job = c->front;
	struct turn **at, *turn;

	if (job) {
		c->front = job->next;
		return job;
	}
	at = ready_locked(c, NULL);
	if (!at)
		return NULL;
	turn = *at;
	job = turn->first;
	turn->first = job->next;
	*at = turn->next;
	if (!turn->first) {
		free(turn);
		return job;
	}
	/* This user's next one comes after everybody else's. */
	turn->next = NULL;
	for (struct turn **p = &c->sched;; p = &(*p)->next)
		if (!*p) {
			*p = turn;
			return job;
		}
}

static void *thread_main(void *arg);

/* See that somebody runs what may begin.  Where there is no thread, those there are must do. */
static void start_thread_locked(struct pf_compiler *c)
{
	if (!c->idle && !c->stop && has_place_locked(c) &&
	    c->n_threads < MAX_JOBS + MAX_LONG &&
	    pthread_create(&c->threads[c->n_threads], NULL, thread_main, c) == 0)
		c->n_threads++;
	pthread_cond_broadcast(&c->change);
}

/* A thread's own: the job it runs takes long. */
static _Thread_local bool took_long;

static void run_locked(struct pf_compiler *c)
{
	struct pf_compile_job *job = take_locked(c);
	bool alone; /* the job may be gone when it has run */

	if (!job)
		return;
	alone = job->alone;
	c->running++;
	c->alone |= alone;
	job->next = NULL;
	start_thread_locked(c); /* there may be a place for the next one, too */
	took_long = false;
	pf_unlock(&c->lock);
	job->run(job);
	pf_lock(&c->lock);
	c->running--;
	c->longs -= took_long;
	if (alone)
		c->alone = false;
	pthread_cond_broadcast(&c->change);
}

/* Wait for a change, or until a user need wait no longer. */
static void wait_locked(struct pf_compiler *c)
{
	struct timespec end;
	int64_t ms = -1;

	if (!c->front)
		(void)ready_locked(c, &ms);
	if (ms < 0) {
		pthread_cond_wait(&c->change, &c->lock);
		return;
	}
	end = pf_time_in(CLOCK_MONOTONIC, (uint64_t)ms);
	pthread_cond_timedwait(&c->change, &c->lock, &end);
}

static void *thread_main(void *arg)
{
	struct pf_compiler *c = arg;

	pf_lock(&c->lock);
	for (;;) {
		if (has_place_locked(c)) {
			run_locked(c);
			continue;
		}
		if (c->stop && !c->front && !c->sched && !c->running)
			break;
		c->idle++;
		wait_locked(c);
		c->idle--;
	}
	pthread_cond_broadcast(&c->change);
	pf_unlock(&c->lock);
	return NULL;
}

static struct turn *turn_of_locked(struct pf_compiler *c, uid_t user)
{
	struct turn **p = &c->sched;

	while (*p && (*p)->user != user)
		p = &(*p)->next;
	if (!*p) {
		*p = calloc(1, sizeof(**p));
		if (*p)
			(*p)->user = user;
	}
	return *p;
}

static void queue_locked(struct pf_compiler *c, struct pf_compile_job *job, bool front)
{
	struct turn *turn = front ? NULL : turn_of_locked(c, job->user);
	struct pf_compile_job **p = &c->front;

	if (turn && turn->first) {
		turn->last->next = job;
		turn->last = job;
	} else if (turn) {
		turn->first = turn->last = job;
	} else {
		while (*p)
			p = &(*p)->next;
		*p = job;
	}
	start_thread_locked(c);
}

void pf_compiler_add(struct pf_compiler *c, struct pf_compile_job *job, bool front)
{
	bool stopped;

	job->next = NULL;
	pf_lock(&c->lock);
	stopped = c->stopped;
	if (!stopped)
		queue_locked(c, job, front);
	pf_unlock(&c->lock);
	if (stopped)
		job->run(job); /* there is no worker: it only fails */
}

void pf_compiler_takes_long(struct pf_compiler *c)
{
	PF_LOCK_SCOPE(&c->lock);
	if (took_long || c->longs >= MAX_LONG)
		return;
	took_long = true;
	c->longs++;
	start_thread_locked(c);
}

/* Jobs of USER that begin before the one which has AHEAD of the same user's before it. */
unsigned pf_compiler_position(struct pf_compiler *c, const struct pf_compile_job *job)
{
	unsigned at = 0, ahead = 0;
	const struct turn *mine = NULL;
	bool before = true;

	PF_LOCK_SCOPE(&c->lock);
	for (const struct pf_compile_job *j = c->front; j; j = j->next) {
		at++;
		if (j == job)
			return at;
	}
	for (const struct turn *t = c->sched; t && !mine; t = t->next) {
		ahead = 0;
		for (const struct pf_compile_job *j = t->first; j && !mine; j = j->next)
			if (j == job)
				mine = t;
			else
				ahead++;
	}
	if (!mine)
		return 0;
	/* Who has a turn before ours has one more; nobody has more than jobs. */
	for (const struct turn *t = c->sched; t; t = t->next) {
		unsigned n = 0, most = ahead + before;

		if (t == mine) {
			before = false;
			continue;
		}
		for (const struct pf_compile_job *j = t->first; j && n < most;
		     j = j->next)
			n++;
		at += n;
	}
	return at + ahead + 1;
}

/* --- one compile a key -------------------------------------------------------------------- */

int pf_compiler_join(struct pf_compiler *c, const struct pf_cache_key *key,
		     const void *where, struct pf_compile_job *job,
		     struct pf_flight **flight, struct pf_loaded **loaded)
{
	struct pf_flight *found;

	PF_LOCK_SCOPE(&c->lock);
	found = c->flights;
	while (found && (found->where != where || memcmp(&found->key, key, sizeof(*key))))
		found = found->next;
	if (!found) {
		*flight = calloc(1, sizeof(**flight));
		if (!*flight)
			return -ENOMEM;
		(*flight)->key = *key;
		(*flight)->where = where;
		(*flight)->next = c->flights;
		c->flights = *flight;
		return PF_LEADER;
	}
	if (found->loaded) {
		*loaded = pf_loaded_ref(found->loaded);
		return PF_HIT;
	}
	job->next = found->followers;
	found->followers = job;
	return PF_FOLLOWER;
}

struct pf_compile_job *pf_flight_finish(struct pf_compiler *c, struct pf_flight *flight,
					struct pf_loaded *loaded)
{
	struct pf_compile_job *followers;

	PF_LOCK_SCOPE(&c->lock);
	followers = flight->followers;
	flight->followers = NULL;
	flight->loaded = loaded ? pf_loaded_ref(loaded) : NULL;
	if (!loaded) { /* who comes now begins anew */
		struct pf_flight **at = &c->flights;

		while (*at != flight)
			at = &(*at)->next;
		*at = flight->next;
	}
	return followers;
}

void pf_flight_drop(struct pf_compiler *c, struct pf_flight *flight)
{
	pf_lock(&c->lock);
	for (struct pf_flight **p = &c->flights; *p; p = &(*p)->next)
		if (*p == flight) {
			*p = flight->next;
			break;
		}
	pf_unlock(&c->lock);
	pf_loaded_unref(flight->loaded);
	free(flight);
}

/* --- the end --------------------------------------------------------------------------------- */

void pf_compiler_begin_put(struct pf_compiler *c)
{
	PF_LOCK_SCOPE(&c->lock);
	c->putting++;
}

void pf_compiler_end_put(struct pf_compiler *c)
{
	PF_LOCK_SCOPE(&c->lock);
	c->putting--;
	pthread_cond_broadcast(&c->change);
}

void pf_compiler_finish(struct pf_compiler *c, unsigned ms)
{
	struct timespec end = pf_time_in(CLOCK_MONOTONIC, ms);

	PF_LOCK_SCOPE(&c->lock);
	while (c->putting && !pthread_cond_timedwait(&c->change, &c->lock, &end))
		;
}

void pf_compiler_stop(struct pf_compiler *c)
{
	if (!c)
		return;
	pf_lock(&c->lock);
	c->stop = true;
	pthread_cond_broadcast(&c->change);
	pf_unlock(&c->lock);
	for (unsigned i = 0; i < c->n_threads; i++)
		pthread_join(c->threads[i], NULL);
	pf_lock(&c->lock);
	c->n_threads = 0;
	while (has_place_locked(c)) /* there was no thread for it */
		run_locked(c);
	c->stopped = true;
	pf_unlock(&c->lock);
}

void pf_compiler_free(struct pf_compiler *c)
{
	if (!c)
		return;
	pf_compiler_stop(c);
	pf_buf_release(&c->host);
	pf_quarantine_free(c->quarantine);
	free(c->options);
	while (c->surroundings) {
		struct surroundings *s = c->surroundings;

		c->surroundings = s->next;
		pf_buf_release(&s->text);
		free(s);
	}
	pthread_cond_destroy(&c->change);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
