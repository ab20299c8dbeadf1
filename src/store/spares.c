/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host copies that can be made again, the one that was used longest ago first.
 *
 * What a user wrote is never among them: only copies of results which their device still
 * has.  When the memory limit is reached they go, and who reads them fetches them again.
 */
#include "pjrtfs/store/spares.h"

#include <stddef.h>

#include "value_internal.h"

static struct {
	pthread_mutex_t lock; /* rank 5; protects the list */
	struct pf_value *first, *last;
} spares = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void unlink_locked(struct pf_value *v)
{
	struct pf_spare *s = &v->spare;

	if (!s->listed)
		return;
	if (s->prev)
		s->prev->spare.next = s->next;
	else
		spares.first = s->next;
	if (s->next)
		s->next->spare.prev = s->prev;
	else
		spares.last = s->prev;
	*s = (struct pf_spare){ 0 };
}

void pf_spare_touch(struct pf_value *v)
{
	PF_LOCK_SCOPE(&spares.lock);
	unlink_locked(v);
	v->spare.listed = true;
	v->spare.prev = spares.last;
	if (spares.last)
		spares.last->spare.next = v;
	else
		spares.first = v;
	spares.last = v;
}

void pf_spare_forget(struct pf_value *v)
{
	PF_LOCK_SCOPE(&spares.lock);
	unlink_locked(v);
}

/* A reference, unless the last one is just going. */
static bool try_ref(struct pf_value *v)
{
	unsigned n = atomic_load(&v->refs);

	while (n)
		if (atomic_compare_exchange_weak(&v->refs, &n, n + 1))
			return true;
	return false;
}

/* The one of ARENA that was used longest ago, taken off the list, with a reference. */
static struct pf_value *take_oldest(const struct pf_arena *arena)
{
	PF_LOCK_SCOPE(&spares.lock);
	for (struct pf_value *v = spares.first; v; v = v->spare.next) {
		if (pf_worker_arena(v->worker) != arena || !try_ref(v))
			continue;
		unlink_locked(v);
		return v;
	}
	return NULL;
}

static uint64_t relieve(void *arg, uint64_t need)
{
	struct pf_value *v;
	uint64_t given = 0;

	while (given < need && (v = take_oldest(arg))) {
		given += pf_value_drop_spare(v);
		pf_value_unref(v);
	}
	return given;
}

void pf_spares_attach(struct pf_arena *arena)
{
	pf_arena_set_relief(arena, relieve, arena);
}
