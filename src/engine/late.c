/* SPDX-License-Identifier: Apache-2.0 */
/* Calls whose callers gave up: the next caller of the same gets the answer. */
#include <pthread.h>

#include "internal.h"
#include "pjrtfs/base.h"

void pf_late_keep_locked(struct pf_instance *instance, struct pf_late *late)
{
	late->kept = true;
	late->next = instance->late;
	instance->late = late;
}

static struct pf_late *remove_locked(struct pf_late **at)
{
	struct pf_late *late = *at;

	if (late) {
		*at = late->next;
		late->kept = false;
	}
	return late;
}

bool pf_late_remove_locked(struct pf_instance *instance, struct pf_late *late)
{
	struct pf_late **at = &instance->late;

	if (!late->kept)
		return false;
	while (*at != late)
		at = &(*at)->next;
	return remove_locked(at);
}

struct pf_late *pf_late_take(struct pf_instance *instance, enum pf_op op, uint64_t id)
{
	struct pf_late **at = &instance->late;

	PF_LOCK_SCOPE(&instance->lock);
	while (*at && ((*at)->op != op || (*at)->id != id))
		at = &(*at)->next;
	return remove_locked(at);
}

void pf_late_drop(struct pf_instance *instance, enum pf_op op, uint64_t id)
{
	struct pf_late *late;

	while ((late = pf_late_take(instance, op, id)))
		late->drop(late);
}

void pf_late_drop_all(struct pf_instance *instance)
{
	for (;;) {
		struct pf_late *late;

		pf_lock(&instance->lock);
		late = remove_locked(&instance->late);
		pf_unlock(&instance->lock);
		if (!late)
			return;
		late->drop(late);
	}
}
