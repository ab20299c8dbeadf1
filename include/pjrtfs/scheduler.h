/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler: fair slots for executions and for compiles.
 *
 * A queue (a device, or the compiler) has a number of slots.  A request holds one slot of
 * each of its queues from the grant to the release.  While all slots are taken, users are
 * served round robin, and the requests of one user in order.  A slot that is held for
 * longer than long_ms counts against its own user only, or, with long_is_free, against no
 * user, so that endless programs do not keep other users waiting; a slot of a program that waits
 * for the host counts against no user.  A request for several
 * queues takes their slots in ascending order and keeps those that it has: requests
 * cannot wait in a circle, and none is overtaken in any of its queues.
 *
 * All functions may be called from any thread; none blocks.
 */
#ifndef PJRTFS_SCHEDULER_H
#define PJRTFS_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "pjrtfs/stage.h"

struct pf_sched;

enum { PF_SCHED_NAME = 128 }; /* bytes; longer names are unknown */

/* The purpose of a request, as pf_sched_list reports it; all zeros: unknown. */
struct pf_sched_work {
	uint64_t subject;    /* the executable's name in events; 0: none */
	const void *worker;  /* only compared: the one that compiles it; or NULL */
	uint64_t done, of;   /* parts of the work: so many are done */
	enum pf_stage stage; /* with its slots */
	/* CLOCK_MONOTONIC, in milliseconds: when the first part had its slots; 0: this is the first. */
	int64_t began;
	int64_t left; /* likewise: when its last client left; 0: a client waits for it */
	char name[PF_SCHED_NAME]; /* of the executable when the work began; "": unknown */
};

/* Embedded in the struct of what needs the slots; the owner sets the first fields. */
struct pf_sched_request {
	uid_t user;
	const unsigned
		*queues; /* borrowed: indexes, ascending, none twice; at least one */
	unsigned n_queues;
	bool front;  /* precedes all requests that are not */
	bool prompt; /* user_waits_until does not hold for it; has its own turns */
	bool alone;  /* granted only beside slots held for long, and nothing beside it */
	struct pf_sched_work work;
	/* The request holds its slots: called once, on any thread, without locks.  Must not
	 * block. */
	void (*granted)(struct pf_sched_request *request);

	/* The scheduler's. */
	enum pf_stage announced; /* PF_STAGE_NONE: it is not */
	TAILQ_ENTRY(pf_sched_request) announcement;
	uint64_t ticket; /* identifies the request's slots */
	unsigned n_held; /* slots that it holds: of its first queues */
	bool queued;     /* waits for one of the next queue */
	int64_t since; /* CLOCK_MONOTONIC, in milliseconds: since then, or for one before */
	struct pf_sched_request *prev; /* of the same user */
	struct pf_sched_request *next; /* likewise, or the next one to be granted */
	struct pf_sched_request *last; /* of its user; only a user's first has it */
	struct pf_sched_request
		*next_user; /* likewise: the first of the user served next */
};

struct pf_sched_config {
	unsigned n_queues;
	unsigned slots;    /* of each queue */
	unsigned max_held; /* slots of a queue that are held at a time, for long or not */
	unsigned long_ms;
	bool long_is_free;
	/*
	 * The time of CLOCK_MONOTONIC, in milliseconds, until which requests of USER that are
	 * neither front nor prompt wait even for a free slot; 0, or a time that has passed: they
	 * need not.  Called under the scheduler's lock, so it takes only locks of rank 6 and above.
	 * NULL: no user waits.
	 */
	int64_t (*user_waits_until)(void *arg, uid_t user);
	void *arg;
};

/* NULL: no memory. */
struct pf_sched *pf_sched_new(const struct pf_sched_config *config);

/* Free SCHED, which nothing calls any more; queued requests are not granted.  NULL is allowed. */
void pf_sched_free(struct pf_sched *sched);

/*
 * List REQUEST at STAGE, with its first queue, until it is acquired or released: its work has begun, and
 * needs no slot yet.
 */
void pf_sched_announce(struct pf_sched *sched, struct pf_sched_request *request,
		       enum pf_stage stage);

/*
 * Acquire the slots of REQUEST.  True: it holds them, and granted is not called; false: it is
 * queued, and granted is called later, perhaps before this returns.
 */
bool pf_sched_acquire(struct pf_sched *sched, struct pf_sched_request *request);

/*
 * Take REQUEST out of its queue.  True: granted will not be called, and the caller releases the
 * slots that REQUEST has so far; false: it was not queued: granted was called or is about to be.
 */
bool pf_sched_dequeue(struct pf_sched *sched, struct pf_sched_request *request);

/*
 * Release the slots of REQUEST, which was granted, dequeued or announced; granted of other requests may
 * be called here.  REQUEST may be a copy, made after the grant, of one that was freed since.  It
 * may be acquired again.
 */
void pf_sched_release(struct pf_sched *sched, struct pf_sched_request *request);

/*
 * The request waits for CHANGE (1, -1) more calls of the host.  While it waits for any, its slots count
 * against no user, if those of less than half of max_held requests do so.  granted of other requests
 * may be called here.  REQUEST may be a copy, made after the grant; without effect if its slots were
 * released.
 */
void pf_sched_wait(struct pf_sched *sched, const struct pf_sched_request *request,
		   int change);

/* The work of REQUEST has come to STAGE; without effect if its slots were released. */
void pf_sched_set_stage(struct pf_sched *sched, const struct pf_sched_request *request,
			enum pf_stage stage);

/* The stage of REQUEST, which is announced, or waits for slots, or holds them. */
enum pf_stage pf_sched_stage(struct pf_sched *sched,
			     const struct pf_sched_request *request);

/* No client waits any more for the work of REQUEST, which says so in lists if it holds slots. */
void pf_sched_left(struct pf_sched *sched, const struct pf_sched_request *request);

/* Grant what may be granted by now: user_waits_until returns other times than before. */
void pf_sched_review(struct pf_sched *sched);

/* Does REQUEST hold all of its slots? */
bool pf_sched_has(struct pf_sched *sched, const struct pf_sched_request *request);

/* The position of REQUEST in the queue that it waits in, 1 for the next one to be granted; 0: it
 * is not queued. */
unsigned pf_sched_position(struct pf_sched *sched,
			   const struct pf_sched_request *request);

/* How many requests hold a slot of QUEUE, and how many wait for one. */
void pf_sched_count(struct pf_sched *sched, unsigned queue, unsigned *ret_held,
		    unsigned *ret_queued);

/* A request that holds a slot of a queue, waits for one, or is announced. */
struct pf_sched_entry {
	struct pf_sched_work work;
	uid_t user;
	bool runs; /* it holds all of its slots */
	enum pf_stage stage;
	int64_t since; /* CLOCK_MONOTONIC, in milliseconds: it runs, waits, or is announced */
	unsigned
		position; /* in the queue, as pf_sched_position has it; 0: it is not in it */

	const struct pf_sched_request *request; /* the scheduler's; not valid any more */
};

/*
 * Write the requests of QUEUE to ENTRIES, which has room for MAX: first those that hold a slot, then
 * those that wait, in the order in which they are granted if nothing changes, then those that are
 * announced.  Returns how many were written, and takes time for no more than these.
 */
size_t pf_sched_list(struct pf_sched *sched, unsigned queue,
		     struct pf_sched_entry *entries, size_t max);

#endif
