/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "pjrtfs/base.h"
#include "pjrtfs/scheduler.h"
#include "pjrtfs/wait.h"

struct slot {
	uint64_t ticket; /* of the request that holds it; 0: it is free */
	uid_t user;
	int64_t since; /* CLOCK_MONOTONIC, ms */
	int waits;     /* calls of the host that its request waits for */
	int64_t began; /* likewise: its request has all slots; 0: not yet */
	struct pf_sched_work work;
};

struct queue {
	struct slot *slots; /* max_held of them, in the scheduler's array */
	unsigned n_held;
	unsigned n_queued; /* requests */
	uint64_t alone;    /* ticket of the request that must be alone; 0: none */
	/* The first request of each user: front requests count as those of one user, who
	 * is always first; then the users in the order in which they are served.  A user's
	 * prompt requests count as those of another user. */
	struct pf_sched_request *users;
	TAILQ_HEAD(, pf_sched_request) announced; /* with this one as their first queue */
};

struct pf_sched {
	struct pf_sched_config config;
	struct pf_timers *timers; /* owned */
	struct pf_timer timer;    /* fires when a slot has been held for long */

	pthread_mutex_t lock; /* rank 5; protects the fields below and all requests */
	struct queue *queues; /* owned */
	struct slot *slots;   /* owned: of all queues */
	unsigned n_queued;    /* requests, in all queues */
	uint64_t last_ticket;
	bool armed;  /* the timer */
	int64_t due; /* when it fires: CLOCK_MONOTONIC, ms */
	struct pf_sched_request *granted, *last_granted; /* granted is to be called */
};

/* --- queues ------------------------------------------------------------------------- */

/* Do A and B count as requests of one user? */
static bool same_user(const struct pf_sched_request *a, const struct pf_sched_request *b)
{
	return a->front == b->front &&
	       (a->front || (a->prompt == b->prompt && a->user == b->user));
}

/* Where the first request of R's user stands, or the first front request if R is one. */
static struct pf_sched_request **user_locked(struct queue *q,
					     const struct pf_sched_request *r)
{
	struct pf_sched_request **at = &q->users;

	while (*at && !same_user(*at, r))
		at = &(*at)->next_user;
	return at;
}

/*
 * NOW, in all functions below, is CLOCK_MONOTONIC in milliseconds.  Who finds at one reading of
 * the clock that a request must wait passes the same reading to arm_locked: at a later one the
 * time at which it may be granted can have passed, and the timer would not be armed for it.
 */

/* The time, after NOW, until which R's user waits; 0: R may be granted. */
static int64_t waits_until(const struct pf_sched *s, const struct pf_sched_request *r,
			   int64_t now)
{
	int64_t until = 0;

	if (s->config.user_waits_until && !r->front && !r->prompt)
		until = s->config.user_waits_until(s->config.arg, r->user);
	return until > now ? until : 0;
}

/* Have the timer fire when a request queued in Q may be granted though no slot was released. */
static void arm_locked(struct pf_sched *s, const struct queue *q, int64_t now)
{
	int64_t due = INT64_MAX;

	for (unsigned i = 0; i < s->config.max_held; i++) {
		int64_t end = q->slots[i].since + s->config.long_ms;

		if (q->slots[i].ticket && end > now && end < due)
			due = end;
	}
	for (const struct pf_sched_request *r = q->users; r; r = r->next_user) {
		int64_t end = waits_until(s, r, now);

		if (end && end < due)
			due = end;
	}
	if (due == INT64_MAX || (s->armed && s->due <= due))
		return;
	if (s->armed && !pf_timer_disarm(s->timers, &s->timer))
		return; /* it fires just now, and is armed anew then */
	s->due = due;
	/* If the timers have no thread, slots held for long keep counting. */
	s->armed = pf_timer_arm(s->timers, &s->timer, (uint64_t)(due - now)) == 0;
}

static void enqueue_locked(struct pf_sched *s, struct queue *q,
			   struct pf_sched_request *r, int64_t now)
{
	struct pf_sched_request **at = user_locked(q, r), *first = *at;

	r->queued = true;
	if (!r->n_held)
		r->since = now;
	r->prev = r->next = r->next_user = NULL;
	r->last = r;
	if (first) {
		r->prev = first->last;
		first->last->next = r;
		first->last = r;
	} else if (r->front) {
		r->next_user = q->users;
		q->users = r;
	} else {
		*at = r;
	}
	q->n_queued++;
	s->n_queued++;
	arm_locked(s, q, now);
}

/* Take R out of Q.  SERVED: its user's next request comes after those of all other users. */
static void dequeue_locked(struct pf_sched *s, struct queue *q,
			   struct pf_sched_request *r, bool served)
{
	struct pf_sched_request **at = user_locked(q, r), *first = *at, *next = r->next;

	r->queued = false;
	q->n_queued--;
	s->n_queued--;
	if (next)
		next->prev = r->prev;
	else
		first->last = r->prev;
	if (r->prev) {
		r->prev->next = next;
		return;
	}
	*at = r->next_user;
	if (!next)
		return;
	next->last = r->last;
	if (served && !r->front)
		while (*at)
			at = &(*at)->next_user;
	next->next_user = *at;
	*at = next;
}

/* --- slots -------------------------------------------------------------------------- */

/* Is there a slot of Q for R? */
static bool has_slot_locked(const struct pf_sched *s, const struct queue *q,
			    const struct pf_sched_request *r, int64_t now)
{
	const struct pf_sched_config *c = &s->config;
	unsigned taken = 0, waiting = 0;
	int64_t long_since = now - c->long_ms;

	if (q->alone || q->n_held == c->max_held)
		return false;
	if (q->n_held < c->slots && !r->alone)
		return true;
	for (unsigned i = 0; i < c->max_held; i++)
		if (q->slots[i].ticket && q->slots[i].waits > 0 &&
		    waiting < c->max_held / 2)
			waiting++;
		else if (q->slots[i].ticket)
			taken += q->slots[i].since > long_since ||
				 (q->slots[i].user == r->user && !c->long_is_free);
	return taken < (r->alone ? 1 : c->slots);
}

static void hold_locked(struct queue *q, struct pf_sched_request *r, int64_t now)
{
	struct slot *slot = q->slots;

	while (slot->ticket)
		slot++;
	*slot = (struct slot){
		.ticket = r->ticket,
		.user = r->user,
		.since = now,
		.began = r->n_queues > 1 ? 0
			 : r->work.began ? r->work.began
					 : now,
		.work = r->work,
	};
	if (r->alone)
		q->alone = r->ticket;
	q->n_held++;
	r->n_held++;
}

/* The slot that R holds of its queue I, or NULL. */
static struct slot *slot_locked(struct pf_sched *s, const struct pf_sched_request *r,
				unsigned i)
{
	struct slot *slots = s->queues[r->queues[i]].slots;

	for (unsigned k = 0; k < s->config.max_held; k++)
		if (slots[k].ticket == r->ticket)
			return &slots[k];
	return NULL;
}

static void give_back_locked(struct pf_sched *s, struct pf_sched_request *r)
{
	for (unsigned i = 0; i < r->n_held; i++) {
		struct queue *q = &s->queues[r->queues[i]];

		slot_locked(s, r, i)->ticket = 0;
		if (q->alone == r->ticket)
			q->alone = 0;
		q->n_held--;
	}
	r->n_held = 0;
}

/* R, which has several queues, holds all of its slots. */
static void begin_locked(struct pf_sched *s, const struct pf_sched_request *r,
			 int64_t now)
{
	for (unsigned i = 0; i < r->n_held; i++)
		slot_locked(s, r, i)->began = r->work.began ? r->work.began : now;
}

/* Take slots for R up to the first queue that has none: true if it has all. */
static bool advance_locked(struct pf_sched *s, struct pf_sched_request *r, int64_t now)
{
	while (r->n_held < r->n_queues) {
		struct queue *q = &s->queues[r->queues[r->n_held]];

		/* Front requests and those of the same user come first. */
		if ((q->users && q->users->front) || *user_locked(q, r) ||
		    waits_until(s, r, now) || !has_slot_locked(s, q, r, now)) {
			enqueue_locked(s, q, r, now);
			return false;
		}
		hold_locked(q, r, now);
	}
	if (r->n_queues > 1)
		begin_locked(s, r, now);
	return true;
}

/* Grant the free slots of Q. */
static void grant_locked(struct pf_sched *s, struct queue *q)
{
	struct pf_sched_request *r = q->users;
	int64_t now = pf_now_ms();

	while (r) {
		if (waits_until(s, r, now) || !has_slot_locked(s, q, r, now)) {
			/* Other users have a slot if R's own hold theirs for long. */
			r = r->front || q->n_held == s->config.max_held ? NULL
									: r->next_user;
			continue;
		}
		dequeue_locked(s, q, r, true);
		hold_locked(q, r, now);
		if (advance_locked(s, r, now)) {
			r->next = NULL;
			if (s->granted)
				s->last_granted->next = r;
			else
				s->granted = r;
			s->last_granted = r;
		}
		r = q->users;
	}
	if (q->users)
		arm_locked(s, q, now);
}

/* --- callbacks ---------------------------------------------------------------------- */

/* The schedulers that a thread is calling granted for.  A request that is released in its own
 * granted leaves the next call to the loop that called it, so that the stack stays flat. */
struct calling {
	const struct pf_sched *sched;
	struct calling *outer;
};

static _Thread_local struct calling *calling;

/* Call granted of all that were granted; the lock is held on entry and return, not between. */
static void call_granted_locked(struct pf_sched *s)
{
	struct calling now = { s, calling };
	struct pf_sched_request *r;

	for (const struct calling *c = calling; c; c = c->outer)
		if (c->sched == s)
			return;
	calling = &now;
	while ((r = s->granted)) {
		s->granted = r->next;
		pf_unlock(&s->lock);
		r->granted(r);
		pf_lock(&s->lock);
	}
	calling = now.outer;
}

static void review_locked(struct pf_sched *s)
{
	for (unsigned i = 0; i < s->config.n_queues; i++)
		grant_locked(s, &s->queues[i]);
	call_granted_locked(s);
}

static void timer_fired(struct pf_timer *timer)
{
	struct pf_sched *s = pf_container_of(timer, struct pf_sched, timer);

	PF_LOCK_SCOPE(&s->lock);
	s->armed = false;
	review_locked(s);
}

void pf_sched_review(struct pf_sched *s)
{
	PF_LOCK_SCOPE(&s->lock);
	review_locked(s);
}

/* --- requests ----------------------------------------------------------------------- */

void pf_sched_announce(struct pf_sched *s, struct pf_sched_request *r,
		       enum pf_stage stage)
{
	PF_LOCK_SCOPE(&s->lock);
	r->announced = stage;
	r->since = pf_now_ms();
	TAILQ_INSERT_TAIL(&s->queues[r->queues[0]].announced, r, announcement);
}

/* R asks for its slots now, or never. */
static void end_announcement_locked(struct pf_sched *s, struct pf_sched_request *r)
{
	if (r->announced == PF_STAGE_NONE)
		return;
	TAILQ_REMOVE(&s->queues[r->queues[0]].announced, r, announcement);
	r->announced = PF_STAGE_NONE;
}

bool pf_sched_acquire(struct pf_sched *s, struct pf_sched_request *r)
{
	PF_LOCK_SCOPE(&s->lock);
	end_announcement_locked(s, r);
	r->ticket = ++s->last_ticket;
	r->n_held = 0;
	r->queued = false;
	return advance_locked(s, r, pf_now_ms());
}

bool pf_sched_dequeue(struct pf_sched *s, struct pf_sched_request *r)
{
	PF_LOCK_SCOPE(&s->lock);
	if (!r->queued)
		return false;
	dequeue_locked(s, &s->queues[r->queues[r->n_held]], r, false);
	return true;
}

/* Grant the free slots of R's first N queues. */
static void grant_queues_locked(struct pf_sched *s, const struct pf_sched_request *r,
				unsigned n)
{
	if (!s->n_queued)
		return;
	for (unsigned i = 0; i < n; i++)
		grant_locked(s, &s->queues[r->queues[i]]);
	call_granted_locked(s);
}

void pf_sched_release(struct pf_sched *s, struct pf_sched_request *r)
{
	unsigned n = r->n_held;

	PF_LOCK_SCOPE(&s->lock);
	end_announcement_locked(s, r);
	give_back_locked(s, r);
	grant_queues_locked(s, r, n);
}

void pf_sched_wait(struct pf_sched *s, const struct pf_sched_request *r, int change)
{
	PF_LOCK_SCOPE(&s->lock);
	for (unsigned i = 0; i < r->n_held; i++) {
		struct slot *slot = slot_locked(s, r, i);

		if (slot)
			slot->waits += change;
	}
	if (change > 0)
		grant_queues_locked(s, r, r->n_held);
}

void pf_sched_set_stage(struct pf_sched *s, const struct pf_sched_request *r,
			enum pf_stage stage)
{
	PF_LOCK_SCOPE(&s->lock);
	for (unsigned i = 0; i < r->n_held; i++) {
		struct slot *slot = slot_locked(s, r, i);

		if (slot)
			slot->work.stage = stage;
	}
}

enum pf_stage pf_sched_stage(struct pf_sched *s, const struct pf_sched_request *r)
{
	PF_LOCK_SCOPE(&s->lock);
	if (r->announced != PF_STAGE_NONE)
		return r->announced;
	return r->queued || !r->n_held ? PF_STAGE_WAITING
				       : slot_locked(s, r, 0)->work.stage;
}

void pf_sched_left(struct pf_sched *s, const struct pf_sched_request *r)
{
	PF_LOCK_SCOPE(&s->lock);
	for (unsigned i = 0; i < r->n_held; i++)
		slot_locked(s, r, i)->work.left = pf_now_ms();
}

bool pf_sched_has(struct pf_sched *s, const struct pf_sched_request *r)
{
	PF_LOCK_SCOPE(&s->lock);
	return r->n_held && r->n_held == r->n_queues;
}

unsigned pf_sched_position(struct pf_sched *s, const struct pf_sched_request *r)
{
	unsigned ahead = 0, position;
	bool before = true;

	PF_LOCK_SCOPE(&s->lock);
	if (!r->queued)
		return 0;
	for (const struct pf_sched_request *p = r->prev; p; p = p->prev)
		ahead++;
	position = ahead + 1;
	if (r->front)
		return position;
	/* Of a user served before R's, one request more than R's user has ahead of R is
	 * granted first; of a user served later, as many; in both cases no more than are
	 * queued. */
	for (const struct pf_sched_request *u = s->queues[r->queues[r->n_held]].users; u;
	     u = u->next_user) {
		unsigned most = u->front ? UINT_MAX : ahead + before;

		if (same_user(u, r))
			before = false;
		else
			for (const struct pf_sched_request *p = u; p && most;
			     p = p->next, most--)
				position++;
	}
	return position;
}

/* --- listing ------------------------------------------------------------------------- */

void pf_sched_count(struct pf_sched *s, unsigned queue, unsigned *ret_held,
		    unsigned *ret_queued)
{
	PF_LOCK_SCOPE(&s->lock);
	*ret_held = s->queues[queue].n_held;
	*ret_queued = s->queues[queue].n_queued;
}

/* The entries that are written. */
struct list {
	struct pf_sched_entry *entries;
	size_t n, max;
	unsigned position; /* of the last one */
};

static void list_slots_locked(const struct pf_sched *s, const struct queue *q,
			      struct list *l)
{
	for (unsigned i = 0; i < s->config.max_held && l->n < l->max; i++) {
		const struct slot *slot = &q->slots[i];

		if (slot->ticket)
			l->entries[l->n++] = (struct pf_sched_entry){
				.work = slot->work,
				.user = slot->user,
				.runs = slot->began != 0,
				.stage =
					slot->began ? slot->work.stage : PF_STAGE_WAITING,
				.since = slot->began ? slot->began : slot->since,
			};
	}
}

/* R, which may be NULL, waits after those that are written. */
static void list_waiting(const struct pf_sched_request *r, struct list *l)
{
	if (!r || l->n == l->max)
		return;
	l->entries[l->n++] = (struct pf_sched_entry){
		.work = r->work,
		.user = r->user,
		.stage = PF_STAGE_WAITING,
		.since = r->since,
		.position = ++l->position,
		.request = r,
	};
}

static void list_announced_locked(const struct queue *q, struct list *l)
{
	const struct pf_sched_request *r;

	TAILQ_FOREACH(r, &q->announced, announcement) {
		if (l->n == l->max)
			return;
		l->entries[l->n++] = (struct pf_sched_entry){
			.work = r->work,
			.user = r->user,
			.stage = r->announced,
			.since = r->since,
		};
	}
}

size_t pf_sched_list(struct pf_sched *s, unsigned queue, struct pf_sched_entry *entries,
		     size_t max)
{
	struct list l = { .entries = entries, .max = max };
	const struct pf_sched_request *user, *r;

	PF_LOCK_SCOPE(&s->lock);
	user = s->queues[queue].users;
	list_slots_locked(s, &s->queues[queue], &l);
	if (user && user->front) {
		for (r = user; r && l.n < max; r = r->next)
			list_waiting(r, &l);
		user = user->next_user;
	}
	/* The first request of each user, then the second ones, and so on. */
	size_t at = l.n;

	for (; user && l.n < max; user = user->next_user)
		list_waiting(user, &l);
	for (; at < l.n; at++)
		list_waiting(entries[at].request->next, &l);
	list_announced_locked(&s->queues[queue], &l);
	return l.n;
}

/* --- new and free ------------------------------------------------------------------- */

struct pf_sched *pf_sched_new(const struct pf_sched_config *config)
{
	struct pf_sched *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	if (pthread_mutex_init(&s->lock, NULL))
		abort();
	s->config = *config;
	s->timer.fire = timer_fired;
	s->timers = pf_timers_new();
	s->queues = calloc(config->n_queues + 1, sizeof(*s->queues));
	s->slots = calloc((size_t)config->n_queues * config->max_held + 1,
			  sizeof(*s->slots));
	if (!s->timers || !s->queues || !s->slots) {
		pf_sched_free(s);
		return NULL;
	}
	for (unsigned i = 0; i < config->n_queues; i++) {
		s->queues[i].slots = s->slots + (size_t)i * config->max_held;
		TAILQ_INIT(&s->queues[i].announced);
	}
	return s;
}

void pf_sched_free(struct pf_sched *s)
{
	if (!s)
		return;
	pf_timers_free(s->timers);
	pthread_mutex_destroy(&s->lock);
	free(s->queues);
	free(s->slots);
	free(s);
}
