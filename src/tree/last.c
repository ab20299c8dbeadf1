/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last reply of a control file to each user and login session, so that
 * `echo ... > run; cat run` works for people.  Most recently used first, the least one goes.
 */
#include "internal.h"

struct entry {
	struct entry *next;
	uid_t uid;
	pid_t sid;
	struct pf_buf line; /* with its newline */
};

struct pf_last {
	pthread_mutex_t lock; /* rank 5; protects the fields below */
	struct entry *first;  /* owned */
	unsigned n;
};

static struct pf_last *get(struct pf_node *node, bool make)
{
	struct pf_last *last = __atomic_load_n(&node->priv->last, __ATOMIC_ACQUIRE);
	struct pf_last *mine;

	if (last || !make)
		return last;
	mine = calloc(1, sizeof(*mine));
	if (!mine)
		return NULL;
	if (pthread_mutex_init(&mine->lock, NULL))
		abort();
	if (__atomic_compare_exchange_n(&node->priv->last, &last, mine, false,
					__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return mine;
	pf_last_free(mine);
	return last;
}

/* The entry for CRED moved to the front; if there is none and MAKE, a new one. */
static struct entry *find_locked(struct pf_last *last, const struct pf_cred *cred,
				 bool make)
{
	struct entry **p = &last->first, *e;

	for (e = *p; e; p = &e->next, e = *p) {
		if (e->uid == cred->uid && e->sid == cred->sid)
			break;
		if (!e->next && make && last->n == PF_CTL_LAST_REPLIES)
			break; /* the least recently used one is taken over */
	}
	if (e) {
		*p = e->next;
	} else {
		e = make ? calloc(1, sizeof(*e)) : NULL;
		if (!e)
			return NULL;
		last->n++;
	}
	e->uid = cred->uid;
	e->sid = cred->sid;
	e->next = last->first;
	last->first = e;
	return e;
}

void pf_last_save(struct pf_node *node, const struct pf_cred *cred, const char *line,
		  size_t len)
{
	struct pf_last *last;
	struct entry *e;

	if (cred->sid == PF_SID_UNKNOWN)
		return;
	last = get(node, true);
	if (!last)
		return;
	PF_LOCK_SCOPE(&last->lock);
	e = find_locked(last, cred, true);
	if (!e)
		return;
	e->line.len = 0;
	pf_buf_append(&e->line, line, len);
	pf_buf_append(&e->line, "\n", 1);
	if (e->line.failed)
		pf_buf_release(&e->line);
}

void pf_last_get(struct pf_node *node, const struct pf_cred *cred, struct pf_buf *out)
{
	struct pf_last *last = cred->sid != PF_SID_UNKNOWN ? get(node, false) : NULL;
	struct entry *e;

	if (!last)
		return;
	PF_LOCK_SCOPE(&last->lock);
	e = find_locked(last, cred, false);
	if (e)
		pf_buf_append(out, e->line.data, e->line.len);
}

void pf_last_free(struct pf_last *last)
{
	struct entry *e;

	if (!last)
		return;
	while ((e = last->first)) {
		last->first = e->next;
		pf_buf_release(&e->line);
		free(e);
	}
	pthread_mutex_destroy(&last->lock);
	free(last);
}
