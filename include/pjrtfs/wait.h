/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_WAIT_H
#define PJRTFS_WAIT_H

#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "pjrtfs/base.h"

struct pf_timers;

/* Waiting for something to become ready: intrusive lists of callbacks. */

/* One waiter, embedded in a struct of its own; on at most one list at a time. */
struct pf_wait {
	void (*wake)(struct pf_wait *waiter); /* called once, with no lock held */
	struct pf_wait *next;
};

/* Put WAITER on LIST; the caller holds the lock that protects LIST. */
static inline void pf_wait_add(struct pf_wait **list, struct pf_wait *waiter)
{
	waiter->next = *list;
	*list = waiter;
}

/* Take WAITER off LIST, under its lock; false: it is not there, and was or will be woken. */
static inline bool pf_wait_leave(struct pf_wait **list, struct pf_wait *waiter)
{
	while (*list && *list != waiter)
		list = &(*list)->next;
	if (!*list)
		return false;
	*list = waiter->next;
	return true;
}

/* Wake every waiter of LIST, which the caller has taken (pf_steal) under its lock; it holds none
 * now. */
static inline void pf_wake_all(struct pf_wait *list)
{
	while (list) {
		struct pf_wait *next = list->next;

		list->wake(list);
		list = next;
	}
}

/* A thread that waits for one wake after the other. */
struct pf_sleeper {
	struct pf_wait waiter;
	sem_t woken;
};

static inline void pf_sleeper_wake(struct pf_wait *waiter)
{
	sem_post(&pf_container_of(waiter, struct pf_sleeper, waiter)->woken);
}

static inline void pf_sleeper_init(struct pf_sleeper *s)
{
	s->waiter.wake = pf_sleeper_wake;
	if (sem_init(&s->woken, 0, 0))
		abort();
}

/* Wait until the waiter is woken.  Blocks. */
static inline void pf_sleeper_wait(struct pf_sleeper *s)
{
	while (sem_wait(&s->woken))
		;
}

static inline void pf_sleeper_release(struct pf_sleeper *s)
{
	sem_destroy(&s->woken);
}

/*
 * Turns: what operations have caused and is not visible yet.  A thread that answers requests is in a
 * turn while it does, and so until it has finished what follows an answer; work that is put off (a
 * queue of another thread) begins a turn and ends it when it is done.
 */

/* Begin a turn, which any thread may end; within a turn of this thread: one that is as old. */
unsigned pf_turn_begin(void);
void pf_turn_end(unsigned turn);

/* This thread is in a turn from pf_turn_enter to pf_turn_leave; pairs may be nested. */
void pf_turn_enter(void);
void pf_turn_leave(void);

/* This thread does one piece of work, until pf_turn_no_more.  It is in a turn from pf_turn_linger on,
 * which is called before each answer; so what takes long before is in none.  Other threads, which may
 * not linger, do nothing in pf_turn_linger. */
void pf_turn_may_linger(void);
void pf_turn_linger(void);
void pf_turn_next(void); /* the rest is for answers that are not given yet */
void pf_turn_no_more(void);

/* Wait until the turns that have begun by now have ended: false: not within MS.  The caller is in no
 * turn.  Blocks. */
bool pf_turns_await(unsigned ms);

/* Timers: functions that a thread calls after some milliseconds, unless they are disarmed. */

/* One timer, embedded in a struct of its user, who sets fire; the rest is private. */
struct pf_timer {
	void (*fire)(struct pf_timer *timer); /* on the timers' thread, no lock held */
	struct timespec due;                  /* CLOCK_MONOTONIC */
	struct pf_timer *next;
	bool armed;
};

/* A set of timers; its thread is started with the first one.  NULL: no memory. */
struct pf_timers *pf_timers_new(void);

/* End the thread; timers that are still armed never fire.  NULL is allowed.  Waits for a fire()
 * under way. */
void pf_timers_free(struct pf_timers *timers);
PF_DEFINE_CLEANUP(struct pf_timers *, pf_timers_free)

/*
 * Have TIMER fire in MS milliseconds; it must not be armed.  fire() must return soon: all
 * timers wait for it.  0; -EAGAIN: no thread could be started.  Takes time proportional to
 * the timers that are due before.
 */
int pf_timer_arm(struct pf_timers *timers, struct pf_timer *timer, uint64_t ms);

/* Disarm TIMER.  True: it has not fired and will not; false: it has, or is about to, or
 * was not armed. */
bool pf_timer_disarm(struct pf_timers *timers, struct pf_timer *timer);

#endif
