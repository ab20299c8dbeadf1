/* SPDX-License-Identifier: Apache-2.0 */
#include "pjrtfs/engine/probe.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/base/json.h"

struct candidate {
	char *name, *path;                 /* owned */
	struct json_object *options, *env; /* owned */
	struct json_object *sandbox;       /* owned */
	int api_minor;                     /* 0: not known yet; -1: it does not start */
};

struct pf_probe {
	char *program; /* owned */
	uint64_t pool_size;
	struct pf_arena *arena; /* borrowed */
	unsigned n;
	struct candidate *candidates; /* owned */

	pthread_mutex_t
		turn; /* rank 0; held while a question is answered: one at a time */
	pthread_mutex_t lock; /* rank 8; protects the fields below */
	pthread_cond_t idle;
	unsigned asking; /* questions under way */
	bool stop;
	struct pf_worker *worker; /* the one being asked, borrowed, or NULL */
};

struct pf_probe *pf_probe_new(const struct pf_candidate *candidates, unsigned n,
			      const char *program, uint64_t pool_size,
			      struct pf_arena *arena)
{
	struct pf_probe *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	if (pthread_mutex_init(&p->turn, NULL) || pthread_mutex_init(&p->lock, NULL) ||
	    pthread_cond_init(&p->idle, NULL))
		abort();
	p->arena = arena;
	p->pool_size = pool_size;
	p->program = strdup(program);
	p->candidates = calloc(n + 1, sizeof(*p->candidates));
	for (unsigned i = 0; p->candidates && i < n; i++) {
		p->candidates[i].name = strdup(candidates[i].name);
		p->candidates[i].path = strdup(candidates[i].path);
		p->candidates[i].options = pf_json_copy(candidates[i].options);
		p->candidates[i].env = pf_json_copy(candidates[i].env);
		p->candidates[i].sandbox = pf_json_copy(candidates[i].sandbox);
		if (candidates[i].refused)
			p->candidates[i].api_minor = -1;
		p->n = i + 1;
		if (!p->candidates[i].name || !p->candidates[i].path)
			break;
	}
	if (p->program && p->candidates && (!n || p->candidates[n - 1].path))
		return p;
	pf_probe_free(p);
	return NULL;
}

void pf_probe_free(struct pf_probe *p)
{
	if (!p)
		return;
	pf_lock(&p->lock);
	p->stop = true;
	if (p->worker)
		pf_worker_interrupt(p->worker);
	while (p->asking)
		pthread_cond_wait(&p->idle, &p->lock);
	pf_unlock(&p->lock);
	for (unsigned i = 0; i < p->n; i++) {
		free(p->candidates[i].name);
		free(p->candidates[i].path);
		json_object_put(p->candidates[i].options);
		json_object_put(p->candidates[i].env);
		json_object_put(p->candidates[i].sandbox);
	}
	free(p->candidates);
	free(p->program);
	pthread_cond_destroy(&p->idle);
	pthread_mutex_destroy(&p->lock);
	pthread_mutex_destroy(&p->turn);
	free(p);
}

/* --- one question to one plugin --------------------------------------------------------- */

struct attempt {
	struct pf_call call;
	pthread_mutex_t lock; /* rank 8; protects ended, code */
	pthread_cond_t change;
	bool ended;
	int code;
};

static void attempt_done(struct pf_call *call, int code, const struct pf_err *err,
			 const void *reply, size_t len)
{
	struct attempt *a = pf_container_of(call, struct attempt, call);

	(void)err;
	(void)reply;
	(void)len;
	PF_LOCK_SCOPE(&a->lock);
	a->ended = true;
	a->code = code;
	pthread_cond_signal(&a->change);
}

static bool compiles(struct pf_worker *w, const struct pf_question *q)
{
	struct attempt a = { .call = { .done = attempt_done,
				       .reply_min = sizeof(struct pf_rep_compile) },
			     .code = -EIO };
	struct pf_req_compile request = q->request;
	struct pf_life *life = pf_worker_life(w, NULL);

	if (!life)
		return false;
	if (pthread_mutex_init(&a.lock, NULL) || pthread_cond_init(&a.change, NULL))
		abort();
	request.head.op = PF_OP_COMPILE;
	request.id = pf_worker_id(w);
	request.options_len = (uint32_t)q->options_len;
	if (pf_life_call(life, &a.call, &request, sizeof(request), q->options,
			 q->options_len, NULL) == 0) {
		pf_lock(&a.lock);
		while (!a.ended)
			pthread_cond_wait(&a.change, &a.lock);
		pf_unlock(&a.lock);
	}
	pthread_cond_destroy(&a.change);
	pthread_mutex_destroy(&a.lock);
	pf_life_unref(life);
	return a.code == 0;
}

/* False: the probe is being freed. */
static bool set_worker(struct pf_probe *p, struct pf_worker *w)
{
	PF_LOCK_SCOPE(&p->lock);
	p->worker = w;
	return !p->stop;
}

static bool ask_one(struct pf_probe *p, struct candidate *c, const struct pf_question *q)
{
	struct pf_worker_config config = {
		.name = c->name,
		.path = c->path,
		.program = p->program,
		.options = c->options,
		.env = c->env,
		.sandbox = c->sandbox,
		.arena = p->arena,
		.pool_size = p->pool_size,
	};
	struct pf_worker *w;
	bool yes = false;

	if (c->api_minor < 0 || (c->api_minor && c->api_minor <= q->api_minor))
		return false;
	if (pf_worker_new(&config, &w, NULL) < 0) {
		c->api_minor = -1;
		return false;
	}
	c->api_minor = pf_worker_description(w)->api_minor;
	if (set_worker(p, w) && c->api_minor > q->api_minor)
		yes = compiles(w, q);
	set_worker(p, NULL);
	pf_worker_free(w);
	return yes;
}

static void *ask_main(void *arg)
{
	struct pf_question *q = arg;
	struct pf_probe *p = q->probe;
	struct candidate *who = NULL;

	pf_lock(&p->turn);
	for (unsigned i = 0; i < p->n && !who; i++)
		if (set_worker(p, NULL) && ask_one(p, &p->candidates[i], q))
			who = &p->candidates[i];
	pf_unlock(&p->turn);
	q->done(q, who ? who->name : NULL, who ? who->api_minor : 0);
	PF_LOCK_SCOPE(&p->lock);
	p->asking--;
	pthread_cond_signal(&p->idle);
	return NULL;
}

bool pf_probe_ask(struct pf_probe *p, struct pf_question *q)
{
	pthread_attr_t attr;
	pthread_t thread;
	bool ok;

	if (!p || !p->n)
		return false;
	q->probe = p;
	PF_LOCK_SCOPE(&p->lock);
	if (p->stop)
		return false;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	ok = pthread_create(&thread, &attr, ask_main, q) == 0;
	pthread_attr_destroy(&attr);
	p->asking += ok;
	return ok;
}
