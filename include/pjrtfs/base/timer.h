/* SPDX-License-Identifier: Apache-2.0 */
/* Timers: functions that are called after some milliseconds, unless they are called off. */
#ifndef PJRTFS_BASE_TIMER_H
#define PJRTFS_BASE_TIMER_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "pjrtfs/base/cleanup.h"

/* One timer: embedded in what it is about.  Set fire; the rest is the timers'. */
struct pf_timer {
	void (*fire)(struct pf_timer *timer); /* on the timers' thread, no lock held */
	struct timespec due;                  /* CLOCK_MONOTONIC */
	struct pf_timer *next;
	bool armed;
};

struct pf_timers;

/* A set of timers; its thread is started with the first one.  NULL: no memory. */
struct pf_timers *pf_timers_new(void);

/* End the thread; what is armed still never fires.  NULL is allowed.  Waits for a fire()
 * under way. */
void pf_timers_free(struct pf_timers *timers);
PF_DEFINE_CLEANUP(struct pf_timers *, pf_timers_free)

/*
 * Have TIMER fire in MS milliseconds; it must not be armed.  fire() must return soon: all
 * timers wait for it.  0; -EAGAIN: no thread could be started.  Takes time proportional to
 * the timers that are due before.
 */
int pf_timer_arm(struct pf_timers *timers, struct pf_timer *timer, uint64_t ms);

/* Call TIMER off.  True: it has not fired and will not; false: it has, or is about to, or
 * was not armed. */
bool pf_timer_disarm(struct pf_timers *timers, struct pf_timer *timer);

#endif
