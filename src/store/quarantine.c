/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"

enum {
	MAX_CULPRITS = 1024, /* remembered at a time */
	FIRST_MS = 10000,    /* a pair's refusal after its first death */
	LAST_MS = 600000,    /* the longest refusal; a pair is remembered as long again */

	BURST = 5,        /* deaths of one user's programs */
	BURST_MS = 60000, /* within this time, after which the user's compiles wait */
	WAIT_FIRST_MS = 1000,
	WAIT_LAST_MS = 30000,
};

struct culprit {
	enum pf_suspect what;
	struct pf_cache_key key;
	uid_t user;
	int64_t refused_ms; /* by the last death */
	int64_t until;
	struct pf_err why;
	struct culprit *next;
};

/* A user whose programs ended a worker within the last minute, or who must wait. */
struct user {
	uid_t uid;
	int64_t deaths[BURST]; /* the last ones, a ring */
	unsigned n_deaths;
	int64_t wait_ms; /* after the last death; 0: none */
	int64_t until;
	struct user *next;
};

struct pf_quarantine {
	uid_t owner;
	int64_t (*now_ms)(void);
	_Atomic unsigned n_culprits; /* changed under the lock */

	/* pf_store_lock protects the fields below. */
	struct culprit *culprits;
	struct user *users;
};

struct pf_quarantine *pf_quarantine_new(uid_t owner, int64_t (*now_ms)(void))
{
	struct pf_quarantine *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->owner = owner;
	q->now_ms = now_ms;
	return q;
}

void pf_quarantine_free(struct pf_quarantine *q)
{
	if (!q)
		return;
	while (q->culprits) {
		struct culprit *next = q->culprits->next;

		free(q->culprits);
		q->culprits = next;
	}
	while (q->users) {
		struct user *next = q->users->next;

		free(q->users);
		q->users = next;
	}
	free(q);
}

/* --- pairs of program and user --------------------------------------------------------- */

static bool is_about(const struct culprit *c, enum pf_suspect what,
		     const struct pf_cache_key *key)
{
	return c->what == what && memcmp(&c->key, key, sizeof(*key)) == 0;
}

static void drop_culprit_locked(struct pf_quarantine *q, struct culprit **at)
{
	struct culprit *gone = *at;

	*at = gone->next;
	free(gone);
	atomic_fetch_sub(&q->n_culprits, 1);
}

/* Forget the pairs whose refusals ended long ago and, if there are too many, the one whose
 * refusal ends first. */
static void make_room_locked(struct pf_quarantine *q, int64_t now)
{
	struct culprit **first = &q->culprits;

	for (struct culprit **p = &q->culprits; *p;) {
		if ((*p)->until + LAST_MS < now) {
			drop_culprit_locked(q, p);
			first = &q->culprits;
			p = &q->culprits;
			continue;
		}
		if ((*p)->until < (*first)->until)
			first = p;
		p = &(*p)->next;
	}
	if (atomic_load(&q->n_culprits) >= MAX_CULPRITS)
		drop_culprit_locked(q, first);
}

static struct culprit *culprit_locked(struct pf_quarantine *q, enum pf_suspect what,
				      const struct pf_cache_key *key, uid_t user)
{
	for (struct culprit *c = q->culprits; c; c = c->next)
		if (c->user == user && is_about(c, what, key))
			return c;
	return NULL;
}

static void refuse_locked(struct pf_quarantine *q, enum pf_suspect what,
			  const struct pf_cache_key *key, uid_t user, int64_t now,
			  const struct pf_err *why)
{
	struct culprit *c;

	make_room_locked(q, now);
	c = culprit_locked(q, what, key, user);
	if (!c) {
		c = calloc(1, sizeof(*c));
		if (!c)
			return;
		c->what = what;
		c->key = *key;
		c->user = user;
		c->next = q->culprits;
		q->culprits = c;
		atomic_fetch_add(&q->n_culprits, 1);
	}
	c->refused_ms = c->refused_ms ? 2 * c->refused_ms : FIRST_MS;
	if (c->refused_ms > LAST_MS)
		c->refused_ms = LAST_MS;
	c->until = now + c->refused_ms;
	c->why = *why;
}

int pf_quarantine_check(struct pf_quarantine *q, enum pf_suspect what,
			const struct pf_cache_key *key, uid_t user, struct pf_err *err)
{
	const struct culprit *c;
	int64_t left;

	if (!atomic_load_explicit(&q->n_culprits, memory_order_relaxed))
		return 0;
	PF_LOCK_SCOPE(&pf_store_lock);
	if (user == q->owner) {
		for (struct culprit **p = &q->culprits; *p;)
			if (is_about(*p, what, key))
				drop_culprit_locked(q, p);
			else
				p = &(*p)->next;
		return 0;
	}
	c = culprit_locked(q, what, key, user);
	left = c ? c->until - q->now_ms() : 0;
	if (left <= 0)
		return 0;
	return pf_err_set(err, -EIO, "%s (the same is refused for another %" PRId64 " s)",
			  c->why.text, (left + 999) / 1000);
}

/* --- users ----------------------------------------------------------------------------- */

static struct user *user_locked(const struct pf_quarantine *q, uid_t uid)
{
	struct user *u = q->users;

	while (u && u->uid != uid)
		u = u->next;
	return u;
}

/* Forget the users whose last death is too long ago to count with the next.  That bounds their
 * number: a worker cannot die more often than it starts. */
static void forget_users_locked(struct pf_quarantine *q, int64_t now)
{
	for (struct user **p = &q->users; *p;) {
		struct user *u = *p;

		if (now - u->deaths[(u->n_deaths - 1) % BURST] <= BURST_MS) {
			p = &u->next;
			continue;
		}
		*p = u->next;
		free(u);
	}
}

static void count_death_locked(struct pf_quarantine *q, uid_t uid, int64_t now)
{
	struct user *u;

	forget_users_locked(q, now);
	u = user_locked(q, uid);
	if (!u) {
		u = calloc(1, sizeof(*u));
		if (!u)
			return;
		u->uid = uid;
		u->next = q->users;
		q->users = u;
	}
	u->deaths[u->n_deaths++ % BURST] = now;
	/* The next place in the ring holds the oldest of the last BURST. */
	if (u->n_deaths < BURST || now - u->deaths[u->n_deaths % BURST] > BURST_MS) {
		u->wait_ms = u->until = 0;
		return;
	}
	u->wait_ms = u->wait_ms ? 2 * u->wait_ms : WAIT_FIRST_MS;
	if (u->wait_ms > WAIT_LAST_MS)
		u->wait_ms = WAIT_LAST_MS;
	u->until = now + u->wait_ms;
}

int64_t pf_quarantine_waits_until(struct pf_quarantine *q, uid_t uid)
{
	const struct user *u;

	PF_LOCK_SCOPE(&pf_store_lock);
	u = user_locked(q, uid);
	return u && u->until > q->now_ms() ? u->until : 0;
}

void pf_quarantine_add(struct pf_quarantine *q, enum pf_suspect what,
		       const struct pf_cache_key *key, uid_t user,
		       const struct pf_err *why)
{
	PF_LOCK_SCOPE(&pf_store_lock);
	int64_t now = q->now_ms();

	refuse_locked(q, what, key, user, now, why);
	count_death_locked(q, user, now);
}
