/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns: who may have a device execute next.
 *
 * A device has so many places.  While all are taken, users take turns, and what one user asks
 * for comes in order.  What takes long gives its place back to the others, but not to its own
 * user; so nobody's endless programs hold up anybody else for longer than that.  What runs on
 * several devices takes its places one after another, in the order of the devices, and keeps
 * those that it has: nobody waits in a circle, and it is overtaken on none of them.
 */
#ifndef PJRTFS_SCHEDULER_H
#define PJRTFS_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct pf_sched;

/* One that takes turns: embedded in what executes.  All zeros, but for what its owner sets. */
struct pf_sched_request {
	uid_t user;
	const unsigned
		*devices; /* borrowed: indexes, ascending, none twice; at least one */
	unsigned n_devices;
	/* Its turn has come: called once, on any thread, no lock held.  Must not block. */
	void (*begin)(struct pf_sched_request *turn);

	/* The turns'. */
	unsigned got; /* devices where it has a place */
	bool waits;   /* for one on the next device */
	struct pf_sched_request *prev,
		*next; /* of the same user; next: or that may begin */
	struct pf_sched_request *last, *next_user; /* only of a user's first */
};

struct pf_sched_config {
	unsigned n_devices;
	unsigned places;  /* of each device */
	unsigned long_ms; /* what executes for longer gives its place to other users */
};

/* NULL: no memory. */
struct pf_sched *pf_sched_new(const struct pf_sched_config *config);

/* Nobody takes turns any more.  NULL is allowed. */
void pf_sched_free(struct pf_sched *sched);

/*
 * Take a turn.  True: it may begin, and begin is not called; false: it waits, and begin is
 * called when it may, perhaps before this returns.  Does not block.
 */
bool pf_sched_acquire(struct pf_sched *sched, struct pf_sched_request *turn);

/*
 * Have TURN, if it waits, wait no longer: then true, begin will not be called, and it is to be
 * ended.  False: it may begin, and begin was called or is about to be.
 */
bool pf_sched_dequeue(struct pf_sched *sched, struct pf_sched_request *turn);

/*
 * TURN has ended, or left: its places go to others, whose begin may be called here.  It may
 * take a turn again.
 */
void pf_sched_release(struct pf_sched *sched, struct pf_sched_request *turn);

/* Has TURN all its places, so that it may execute? */
bool pf_sched_has(struct pf_sched *sched, const struct pf_sched_request *turn);

/* How many begin before TURN on the device that it waits for, and itself; 0: it waits not. */
unsigned pf_sched_position(struct pf_sched *sched, const struct pf_sched_request *turn);

#endif
