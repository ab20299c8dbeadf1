/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "pjrtfs/base.h"
#include "pjrtfs/scheduler.h"
#include "pjrtfs/wait.h"

enum {
	MAX_HELD = 40
}; /* on one device, with what takes long; a worker has threads for them */

/* Who has a place, or had one and takes long. */
struct held {
	const struct pf_sched_request *turn; /* NULL: nobody; only compared */
	uid_t user;
	int64_t since; /* CLOCK_MONOTONIC, ms */
};

struct device {
	struct held held[MAX_HELD];
	unsigned n_held;
	/* Those that wait, by user: the first one of each user, whose turn is next first. */
	struct pf_sched_request *users;
};

struct pf_sched {
	unsigned n_devices, places, long_ms;
	struct pf_timers *timers; /* owned */
	struct pf_timer timer;    /* looks for what has begun to take long */

	pthread_mutex_t lock;   /* rank 5; protects the fields below and all turns */
	struct device *devices; /* owned */
	unsigned n_waiting;
	bool armed;
	struct pf_sched_request *first, *last; /* that may begin and were not told yet */
};

/* What a thread is telling: one that ends as it begins leaves the next to who told it, so that
 * many of them make no deep stack. */
struct telling {
	const struct pf_sched *sched;
	struct telling *outer;
};

static _Thread_local struct telling *telling;

/* --- who waits ------------------------------------------------------------------------ */

static struct pf_sched_request **user_locked(struct device *d, uid_t user)
{
	struct pf_sched_request **at = &d->users;

	while (*at && (*at)->user != user)
		at = &(*at)->next_user;
	return at;
}

static void wait_locked(struct pf_sched *t, struct device *d,
			struct pf_sched_request *turn)
{
	struct pf_sched_request **at = user_locked(d, turn->user), *first = *at;

	turn->waits = true;
	turn->next = turn->next_user = NULL;
	turn->last = turn;
	turn->prev = NULL;
	if (first) {
		turn->prev = first->last;
		first->last->next = turn;
		first->last = turn;
	} else {
		*at = turn;
	}
	t->n_waiting++;
}

/* Take TURN out; AGAIN: its user's next one comes after everybody else's. */
static void unwait_locked(struct pf_sched *t, struct device *d,
			  struct pf_sched_request *turn, bool again)
{
	struct pf_sched_request **at = user_locked(d, turn->user), *first = *at,
				*next = turn->next;

	turn->waits = false;
	t->n_waiting--;
	if (next)
		next->prev = turn->prev;
	else
		first->last = turn->prev;
	if (turn->prev) {
		turn->prev->next = next;
		return;
	}
	*at = turn->next_user;
	if (!next)
		return;
	next->last = turn->last;
	if (again)
		while (*at)
			at = &(*at)->next_user;
	next->next_user = *at;
	*at = next;
}

/* --- places --------------------------------------------------------------------------- */

/* Places of D that are taken: by what does not take long yet, and by all that USER has. */
static unsigned taken_locked(const struct pf_sched *t, const struct device *d, uid_t user)
{
	int64_t since = pf_now_ms() - t->long_ms;
	unsigned taken = 0;

	for (unsigned i = 0; i < MAX_HELD; i++)
		if (d->held[i].turn)
			taken += d->held[i].since > since || d->held[i].user == user;
	return taken;
}

static bool has_place_locked(const struct pf_sched *t, const struct device *d, uid_t user)
{
	return d->n_held < t->places ||
	       (d->n_held < MAX_HELD && taken_locked(t, d, user) < t->places);
}

static void hold_locked(struct device *d, struct pf_sched_request *turn)
{
	struct held *h = d->held;

	while (h->turn)
		h++;
	*h = (struct held){ turn, turn->user, pf_now_ms() };
	d->n_held++;
	turn->got++;
}

static void release_locked(struct pf_sched *t, struct pf_sched_request *turn)
{
	for (unsigned i = 0; i < turn->got; i++) {
		struct device *d = &t->devices[turn->devices[i]];
		struct held *h = d->held;

		while (h->turn != turn)
			h++;
		h->turn = NULL;
		d->n_held--;
	}
	turn->got = 0;
}

/* Take places for TURN up to the first device that has none: true if it has all. */
static bool advance_locked(struct pf_sched *t, struct pf_sched_request *turn)
{
	while (turn->got < turn->n_devices) {
		struct device *d = &t->devices[turn->devices[turn->got]];

		/* Its user's others come first. */
		if (*user_locked(d, turn->user) || !has_place_locked(t, d, turn->user)) {
			wait_locked(t, d, turn);
			return false;
		}
		hold_locked(d, turn);
	}
	return true;
}

/* Give D's free places to those whose turn it is. */
static void give_locked(struct pf_sched *t, struct device *d)
{
	struct pf_sched_request *turn = d->users;

	while (turn) {
		if (!has_place_locked(t, d, turn->user)) {
			/* With places left, it is its own that take long. */
			turn = d->n_held < MAX_HELD ? turn->next_user : NULL;
			continue;
		}
		unwait_locked(t, d, turn, true);
		hold_locked(d, turn);
		if (advance_locked(t, turn)) {
			turn->next = NULL;
			if (t->first)
				t->last->next = turn;
			else
				t->first = turn;
			t->last = turn;
		}
		turn = d->users;
	}
}

/* --- telling -------------------------------------------------------------------------- */

static void arm_locked(struct pf_sched *t)
{
	if (!t->n_waiting || t->armed)
		return;
	/* Without a thread for it, those that take long keep their places. */
	t->armed = pf_timer_arm(t->timers, &t->timer, t->long_ms) == 0;
}

/* Call begin for all that may; the lock is held on entry and on return, not between. */
static void report_locked(struct pf_sched *t)
{
	struct pf_sched_request *turn;

	struct telling now = { t, telling };

	arm_locked(t);
	for (const struct telling *outer = telling; outer; outer = outer->outer)
		if (outer->sched == t)
			return;
	telling = &now;
	while ((turn = t->first)) {
		t->first = turn->next;
		pf_unlock(&t->lock);
		turn->begin(turn);
		pf_lock(&t->lock);
	}
	telling = now.outer;
}

static void look(struct pf_timer *timer)
{
	struct pf_sched *t = pf_container_of(timer, struct pf_sched, timer);

	PF_LOCK_SCOPE(&t->lock);
	t->armed = false;
	for (unsigned i = 0; i < t->n_devices; i++)
		give_locked(t, &t->devices[i]);
	report_locked(t);
}

bool pf_sched_acquire(struct pf_sched *t, struct pf_sched_request *turn)
{
	bool begins;

	PF_LOCK_SCOPE(&t->lock);
	begins = advance_locked(t, turn);
	if (!begins)
		arm_locked(t);
	return begins;
}

bool pf_sched_dequeue(struct pf_sched *t, struct pf_sched_request *turn)
{
	PF_LOCK_SCOPE(&t->lock);
	if (!turn->waits)
		return false;
	unwait_locked(t, &t->devices[turn->devices[turn->got]], turn, false);
	return true;
}

void pf_sched_release(struct pf_sched *t, struct pf_sched_request *turn)
{
	unsigned n = turn->got;

	PF_LOCK_SCOPE(&t->lock);
	release_locked(t, turn);
	if (!t->n_waiting)
		return;
	for (unsigned i = 0; i < n; i++)
		give_locked(t, &t->devices[turn->devices[i]]);
	report_locked(t);
}

bool pf_sched_has(struct pf_sched *t, const struct pf_sched_request *turn)
{
	PF_LOCK_SCOPE(&t->lock);
	return turn->got && turn->got == turn->n_devices;
}

unsigned pf_sched_position(struct pf_sched *t, const struct pf_sched_request *turn)
{
	unsigned ahead = 0, at;
	bool before = true;

	PF_LOCK_SCOPE(&t->lock);
	if (!turn->waits)
		return 0;
	for (const struct pf_sched_request *p = turn->prev; p; p = p->prev)
		ahead++;
	at = ahead + 1;
	/* Whose turn comes before its user's has one more; nobody has more than are there. */
	for (const struct pf_sched_request *u =
		     t->devices[turn->devices[turn->got]].users;
	     u; u = u->next_user) {
		unsigned most = ahead + before;

		if (u->user == turn->user)
			before = false;
		else
			for (const struct pf_sched_request *p = u; p && most;
			     p = p->next, most--)
				at++;
	}
	return at;
}

/* --- birth and death ------------------------------------------------------------------ */

struct pf_sched *pf_sched_new(const struct pf_sched_config *config)
{
	struct pf_sched *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	if (pthread_mutex_init(&t->lock, NULL))
		abort();
	t->n_devices = config->n_devices;
	t->places = config->places < MAX_HELD ? config->places : MAX_HELD;
	t->long_ms = config->long_ms;
	t->timer.fire = look;
	t->timers = pf_timers_new();
	t->devices = calloc(t->n_devices + 1, sizeof(*t->devices));
	if (t->timers && t->devices)
		return t;
	pf_sched_free(t);
	return NULL;
}

void pf_sched_free(struct pf_sched *t)
{
	if (!t)
		return;
	pf_timers_free(t->timers);
	pthread_mutex_destroy(&t->lock);
	free(t->devices);
	free(t);
}
