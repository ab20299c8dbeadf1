/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"

struct pf_flight {
	struct pf_cache_key key;
	const struct pf_worker *worker; /* only compared */
	struct pf_compile_job *followers;
	struct pf_loaded *loaded; /* owned reference; NULL: not known yet */
	struct pf_flight *next;
};

int pf_flight_join(struct pf_compiler *c, const struct pf_cache_key *key,
		   const struct pf_worker *worker, struct pf_compile_job *job,
		   struct pf_flight **ret, struct pf_loaded **ret_loaded)
{
	struct pf_flight *f;

	PF_LOCK_SCOPE(&c->lock);
	f = c->flights;
	while (f && (f->worker != worker || memcmp(&f->key, key, sizeof(*key))))
		f = f->next;
	if (!f) {
		f = calloc(1, sizeof(*f));
		if (!f)
			return -ENOMEM;
		f->key = *key;
		f->worker = worker;
		f->next = c->flights;
		*ret = c->flights = f;
		return PF_LEADER;
	}
	if (f->loaded) {
		*ret_loaded = pf_loaded_ref(f->loaded);
		return PF_HIT;
	}
	job->next = f->followers;
	f->followers = job;
	return PF_FOLLOWER;
}

static void unlink_locked(struct pf_compiler *c, const struct pf_flight *f)
{
	struct pf_flight **at = &c->flights;

	while (*at && *at != f)
		at = &(*at)->next;
	if (*at)
		*at = f->next;
}

struct pf_compile_job *pf_flight_finish(struct pf_compiler *c, struct pf_flight *f,
					struct pf_loaded *loaded)
{
	struct pf_compile_job *followers;

	PF_LOCK_SCOPE(&c->lock);
	followers = f->followers;
	f->followers = NULL;
	if (loaded)
		f->loaded = pf_loaded_ref(loaded);
	else
		unlink_locked(c, f); /* the next job with the key leads a new flight */
	return followers;
}

void pf_flight_drop(struct pf_compiler *c, struct pf_flight *f)
{
	pf_lock(&c->lock);
	unlink_locked(c, f);
	pf_unlock(&c->lock);
	pf_loaded_unref(f->loaded);
	free(f);
}
