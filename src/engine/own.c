/* SPDX-License-Identifier: Apache-2.0 */
/* A worker of a user's own: its process begins when a call needs it, and ends when it is idle. */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"

/* One more process, if the shared worker's limit allows it. */
static bool take_place(struct pf_worker *shared)
{
	unsigned n = atomic_load(&shared->n_own);

	do {
		if (n >= shared->own_most)
			return false;
	} while (!atomic_compare_exchange_weak(&shared->n_own, &n, n + 1));
	return true;
}

static void give_place_locked(struct pf_worker *w)
{
	if (w->has_place)
		atomic_fetch_sub(&w->shared->n_own, 1);
	w->has_place = false;
}

int pf_own_wake_locked(struct pf_worker *w, struct pf_err *err)
{
	if (!take_place(w->shared))
		return pf_err_set(
			err, -EUSERS,
			"%u users have a process of plugin %s, the most that "
			"--isolate-max allows: one ends after %u s without a call",
			w->shared->own_most, w->name, w->limits.idle_s);
	w->has_place = true;
	w->state = PF_WORKER_STARTING;
	pf_event_set(w->broken_fd);
	return 0;
}

static bool is_needed(struct pf_worker *w)
{
	PF_LOCK_SCOPE(&w->lock);
	return w->state == PF_WORKER_STARTING;
}

bool pf_own_sleep(struct pf_worker *w)
{
	struct pollfd p[2] = { { .fd = w->stop_fd, .events = POLLIN },
			       { .fd = w->broken_fd, .events = POLLIN } };
	uint64_t count;

	while (!is_needed(w)) {
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			abort(); /* only a programming error */
		if (p[0].revents)
			return false;
		(void)!read(w->broken_fd, &count, sizeof(count));
	}
	return true;
}

void pf_own_rest(struct pf_worker *w)
{
	PF_LOCK_SCOPE(&w->lock);
	w->why = (struct pf_err)PF_ERR_INIT;
	if (w->waiters) {
		w->state = PF_WORKER_STARTING;
		return;
	}
	w->state = PF_WORKER_IDLE;
	give_place_locked(w);
}

void pf_own_leave(struct pf_worker *w)
{
	PF_LOCK_SCOPE(&w->lock);
	give_place_locked(w);
}
