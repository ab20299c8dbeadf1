/* SPDX-License-Identifier: Apache-2.0 */
#include "pjrtfs/watch/metrics.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

const double pf_bucket_bounds[PF_BUCKETS] = { 1e-5, 3e-5, 1e-4, 3e-4, 1e-3,
					      3e-3, 1e-2, 3e-2, 1e-1, 3e-1,
					      1e0,  3e0,  1e1,  3e1,  1e2 };

static void count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

void pf_histogram_add(struct pf_histogram *h, double seconds)
{
	unsigned i = 0;

	if (!(seconds > 0))
		seconds = 0;
	while (i < PF_BUCKETS && seconds > pf_bucket_bounds[i])
		i++;
	count(&h->buckets[i], 1);
	count(&h->ns, (uint64_t)(seconds * 1e9 + 0.5));
}

enum pf_outcome pf_outcome_of(int code)
{
	if (code == 0)
		return PF_OUTCOME_OK;
	return code == -ECANCELED || code == -EINTR ? PF_OUTCOME_CANCELLED
						    : PF_OUTCOME_FAILED;
}

struct pf_metrics *pf_metrics_new(void)
{
	struct pf_metrics *m = calloc(1, sizeof(*m));

	if (m && pthread_mutex_init(&m->lock, NULL))
		abort();
	return m;
}

void pf_metrics_free(struct pf_metrics *m)
{
	struct pf_plugin_meter *p;

	if (!m)
		return;
	while ((p = m->plugins)) {
		m->plugins = p->next;
		free(p);
	}
	pthread_mutex_destroy(&m->lock);
	free(m);
}

struct pf_plugin_meter *pf_metrics_plugin(struct pf_metrics *m, const char *name,
					  unsigned n, const int64_t *ids)
{
	struct pf_plugin_meter *p, *last;

	p = m ? calloc(1, sizeof(*p) + n * sizeof(p->devices[0])) : NULL;
	if (!p)
		return NULL;
	snprintf(p->name, sizeof(p->name), "%s", name);
	p->n_devices = n;
	for (unsigned i = 0; i < n; i++)
		snprintf(p->devices[i].name, sizeof(p->devices[i].name), "%.200s:%lld",
			 name, (long long)ids[i]);
	PF_LOCK_SCOPE(&m->lock);
	for (last = m->plugins; last && last->next;)
		last = last->next;
	if (last)
		last->next = p;
	else
		m->plugins = p;
	return p;
}

struct pf_device_meter *pf_meter_device(struct pf_plugin_meter *p, unsigned index)
{
	return p && index < p->n_devices ? &p->devices[index] : NULL;
}

/* --- executables ------------------------------------------------------------------------------ */

struct pf_executable_meter *pf_metrics_executable(struct pf_metrics *m, uint64_t subject)
{
	struct pf_executable_meter *x;

	if (!m)
		return NULL;
	x = calloc(1, sizeof(*x));
	PF_LOCK_SCOPE(&m->lock);
	if (!x || m->n_executables >= PF_METRICS_EXECUTABLES) {
		m->refused++;
		free(x);
		return NULL;
	}
	x->metrics = m;
	x->subject = subject;
	x->at = m->n_executables;
	m->executables[m->n_executables++] = x;
	return x;
}

void pf_executable_meter_free(struct pf_executable_meter *x)
{
	struct pf_metrics *m;

	if (!x)
		return;
	m = x->metrics;
	pf_lock(&m->lock);
	m->executables[x->at] = m->executables[--m->n_executables];
	m->executables[x->at]->at = x->at;
	pf_unlock(&m->lock);
	free(x);
}

void pf_executable_meter_name(struct pf_executable_meter *x, uint64_t subject)
{
	if (!x)
		return;
	PF_LOCK_SCOPE(&x->metrics->lock);
	x->subject = subject;
}

/* --- adding ------------------------------------------------------------------------------------ */

void pf_meter_compile(struct pf_plugin_meter *p, enum pf_outcome result, double seconds)
{
	if (!p)
		return;
	count(&p->compiles[result], 1);
	if (result != PF_OUTCOME_CANCELLED)
		pf_histogram_add(&p->compile_seconds, seconds);
}

void pf_meter_execution(struct pf_plugin_meter *p, struct pf_executable_meter *of,
			enum pf_outcome result, double seconds, const unsigned *devices,
			size_t n)
{
	if (of)
		count(&of->results[result], 1);
	if (of && result == PF_OUTCOME_OK)
		pf_histogram_add(&of->seconds, seconds);
	if (p)
		count(&p->executions[result], 1);
	for (size_t i = 0; result == PF_OUTCOME_OK && i < n; i++) {
		struct pf_device_meter *d = pf_meter_device(p, devices[i]);

		if (d)
			pf_histogram_add(&d->executions, seconds);
	}
}

void pf_meter_transfer(struct pf_transfers *t, enum pf_outcome result, uint64_t bytes,
		       double seconds)
{
	if (!t)
		return;
	count(&t->results[result], 1);
	if (result != PF_OUTCOME_OK)
		return;
	count(&t->bytes, bytes);
	pf_histogram_add(&t->seconds, seconds);
}

void pf_meter_cache(struct pf_metrics *m, enum pf_told_cache event)
{
	if (m)
		count(&m->cache[event], 1);
}

void pf_meter_job(struct pf_metrics *m, enum pf_outcome result)
{
	if (m)
		count(&m->jobs[result], 1);
}
