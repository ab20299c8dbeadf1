/* SPDX-License-Identifier: Apache-2.0 */
/* Calls whose callers gave up: the next caller of the same gets the answer. */
#include <pthread.h>

#include "internal.h"
#include "pjrtfs/base.h"

void pf_late_keep_locked(struct pf_instance *instance, struct pf_late *late)
{
	late->kept = true;
	LIST_INSERT_HEAD(&instance->late, late, entry);
}

bool pf_late_remove_locked(struct pf_late *late)
{
	if (!late->kept)
		return false;
	late->kept = false;
	LIST_REMOVE(late, entry);
	return true;
}

struct pf_late *pf_late_take(struct pf_instance *instance, enum pf_op op, uint64_t id)
{
	struct pf_late *late;

	PF_LOCK_SCOPE(&instance->lock);
	LIST_FOREACH(late, &instance->late, entry)
		if (late->op == op && late->id == id) {
			(void)pf_late_remove_locked(late);
			return late;
		}
	return NULL;
}

void pf_late_drop(struct pf_instance *instance, enum pf_op op, uint64_t id)
{
	struct pf_late *late;

	while ((late = pf_late_take(instance, op, id)))
		late->drop(late);
}

static struct pf_late *take_first(struct pf_instance *instance)
{
	struct pf_late *late;

	PF_LOCK_SCOPE(&instance->lock);
	late = LIST_FIRST(&instance->late);
	if (late)
		(void)pf_late_remove_locked(late);
	return late;
}

void pf_late_drop_all(struct pf_instance *instance)
{
	struct pf_late *late;

	while ((late = take_first(instance)))
		late->drop(late);
}
