/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>

#include "pjrtfs/base.h"
#include "pjrtfs/wait.h"

struct pf_timers {
	pthread_mutex_t lock; /* rank 8; protects the fields below */
	pthread_cond_t changed;
	pthread_t thread;
	bool running, stop;
	struct pf_timer *first; /* by due time */
};

struct pf_timers *pf_timers_new(void)
{
	struct pf_timers *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	if (pthread_mutex_init(&t->lock, NULL) || pthread_cond_init(&t->changed, NULL))
		abort();
	return t;
}

static bool before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

static void *run(void *arg)
{
	struct pf_timers *t = arg;
	struct timespec now, due;

	pf_lock(&t->lock);
	while (!t->stop) {
		struct pf_timer *timer = t->first;

		if (!timer) {
			pthread_cond_wait(&t->changed, &t->lock);
			continue;
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (before(&now, &timer->due)) {
			due = timer->due; /* it may be disarmed and freed meanwhile */
			pthread_cond_clockwait(&t->changed, &t->lock, CLOCK_MONOTONIC,
					       &due);
			continue;
		}
		t->first = timer->next;
		timer->armed = false;
		pf_unlock(&t->lock);
		pf_turn_enter();
		timer->fire(timer);
		pf_turn_leave();
		pf_lock(&t->lock);
	}
	pf_unlock(&t->lock);
	return NULL;
}

void pf_timers_free(struct pf_timers *t)
{
	if (!t)
		return;
	pf_lock(&t->lock);
	t->stop = true;
	pthread_cond_signal(&t->changed);
	pf_unlock(&t->lock);
	if (t->running)
		pthread_join(t->thread, NULL);
	pthread_cond_destroy(&t->changed);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

int pf_timer_arm(struct pf_timers *t, struct pf_timer *timer, uint64_t ms)
{
	struct pf_timer **at;

	timer->due = pf_time_in(CLOCK_MONOTONIC, ms);
	PF_LOCK_SCOPE(&t->lock);
	if (!t->running && pf_thread_start(&t->thread, run, t))
		return -EAGAIN;
	t->running = true;
	for (at = &t->first; *at && !before(&timer->due, &(*at)->due);)
		at = &(*at)->next;
	timer->next = *at;
	*at = timer;
	timer->armed = true;
	if (t->first == timer)
		pthread_cond_signal(&t->changed);
	return 0;
}

bool pf_timer_disarm(struct pf_timers *t, struct pf_timer *timer)
{
	PF_LOCK_SCOPE(&t->lock);
	if (!timer->armed)
		return false;
	for (struct pf_timer **at = &t->first; *at; at = &(*at)->next) {
		if (*at != timer)
			continue;
		*at = timer->next;
		break;
	}
	timer->armed = false;
	return true;
}
