/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for something to become ready: intrusive lists of callbacks. */
#ifndef PJRTFS_BASE_WAITER_H
#define PJRTFS_BASE_WAITER_H

#include <stdbool.h>
#include <stddef.h>

/* Embedded in the struct of whoever waits; on at most one list at a time. */
struct pf_waiter {
	void (*wake)(struct pf_waiter *waiter); /* called once, with no lock held */
	struct pf_waiter *next;
};

/* Put WAITER on LIST, under the lock of the thing that is waited for. */
static inline void pf_wait_add(struct pf_waiter **list, struct pf_waiter *waiter)
{
	waiter->next = *list;
	*list = waiter;
}

/* Take WAITER off LIST, under the lock; false: it is not there, and was or will be woken. */
static inline bool pf_wait_leave(struct pf_waiter **list, struct pf_waiter *waiter)
{
	while (*list && *list != waiter)
		list = &(*list)->next;
	if (!*list)
		return false;
	*list = waiter->next;
	return true;
}

/* Take the whole list, under the lock; wake it with pf_wake_all outside. */
static inline struct pf_waiter *pf_wait_take(struct pf_waiter **list)
{
	struct pf_waiter *all = *list;

	*list = NULL;
	return all;
}

static inline void pf_wake_all(struct pf_waiter *list)
{
	while (list) {
		struct pf_waiter *next = list->next;

		list->wake(list);
		list = next;
	}
}

#endif
