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

	MAX_USERS = 64,   /* whose deaths are counted at a time */
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
};

/* A user whose programs ended a worker; all zeros: a free place. */
struct user {
	uid_t uid;
	int64_t deaths[BURST]; /* the last ones, the latest last; 0: none */
	int64_t wait_ms;       /* after the last death; 0: none */
	int64_t until;
};

struct pf_quarantine {
	uid_t owner;
	int64_t (*now_ms)(void);
	_Atomic unsigned n_culprits; /* changed under the lock */

	/* pf_store_lock protects the fields below. */
	struct culprit culprits[MAX_CULPRITS];
	struct user users[MAX_USERS];
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

/* --- pairs of program and user --------------------------------------------------------- */

static bool is_about(const struct culprit *c, enum pf_suspect what,
		     const struct pf_cache_key *key)
{
	return c->what == what && memcmp(&c->key, key, sizeof(*key)) == 0;
}

/* The last culprit takes the place of C. */
static void drop_locked(struct pf_quarantine *q, struct culprit *c)
{
	*c = q->culprits[atomic_fetch_sub(&q->n_culprits, 1) - 1];
}

static struct culprit *culprit_locked(struct pf_quarantine *q, enum pf_suspect what,
				      const struct pf_cache_key *key, uid_t user)
{
	for (unsigned i = 0; i < atomic_load(&q->n_culprits); i++)
		if (q->culprits[i].user == user && is_about(&q->culprits[i], what, key))
			return &q->culprits[i];
	return NULL;
}

/* A place for another culprit: if all are taken, that of the refusal that ends first. */
static struct culprit *free_culprit_locked(struct pf_quarantine *q)
{
	struct culprit *first = q->culprits;

	if (atomic_load(&q->n_culprits) < MAX_CULPRITS)
		return &q->culprits[atomic_fetch_add(&q->n_culprits, 1)];
	for (unsigned i = 1; i < MAX_CULPRITS; i++)
		if (q->culprits[i].until < first->until)
			first = &q->culprits[i];
	return first;
}

static void refuse_locked(struct pf_quarantine *q, enum pf_suspect what,
			  const struct pf_cache_key *key, uid_t user, int64_t now,
			  const struct pf_err *why)
{
	struct culprit *c;

	for (unsigned i = atomic_load(&q->n_culprits); i-- > 0;)
		if (q->culprits[i].until + LAST_MS < now)
			drop_locked(q, &q->culprits[i]);
	c = culprit_locked(q, what, key, user);
	if (!c) {
		c = free_culprit_locked(q);
		*c = (struct culprit){ .what = what, .key = *key, .user = user };
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
		for (unsigned i = atomic_load(&q->n_culprits); i-- > 0;)
			if (is_about(&q->culprits[i], what, key))
				drop_locked(q, &q->culprits[i]);
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

/* The place of the user UID, else the one whose last death is the oldest. */
static struct user *user_locked(struct pf_quarantine *q, uid_t uid)
{
	struct user *oldest = q->users;

	for (struct user *u = q->users; u < q->users + MAX_USERS; u++) {
		if (u->uid == uid && u->deaths[BURST - 1])
			return u;
		if (u->deaths[BURST - 1] < oldest->deaths[BURST - 1])
			oldest = u;
	}
	return oldest;
}

static void count_death_locked(struct pf_quarantine *q, uid_t uid, int64_t now)
{
	struct user *u = user_locked(q, uid);

	if (u->uid != uid)
		*u = (struct user){ .uid = uid };
	memmove(u->deaths, u->deaths + 1, sizeof(u->deaths) - sizeof(u->deaths[0]));
	u->deaths[BURST - 1] = now;
	if (!u->deaths[0] || now - u->deaths[0] > BURST_MS) {
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
	return u->uid == uid ? u->until : 0;
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
