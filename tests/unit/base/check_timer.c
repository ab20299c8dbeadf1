/* SPDX-License-Identifier: Apache-2.0 */
/* Timers: those that fire, in order, and those that do not. */
#include "pjrtfs/wait.h"

#include <stdatomic.h>
#include <unistd.h>

#include "unit.h"

enum { N = 50 };

static struct pf_timers *timers;
static _Atomic unsigned fired;
static unsigned order[N];

struct timed {
	struct pf_timer timer;
	unsigned number;
};

static void fire(struct pf_timer *timer)
{
	struct timed *t = pf_container_of(timer, struct timed, timer);

	/* The timers' thread runs this; a thread that sees the count sees the number. */
	order[atomic_load(&fired)] = t->number;
	atomic_fetch_add(&fired, 1);
}

static int64_t due_ns(const struct timed *t)
{
	return (int64_t)t->timer.due.tv_sec * 1000000000 + t->timer.due.tv_nsec;
}

static void begin(void)
{
	timers = pf_timers_new();
	ck_assert_ptr_nonnull(timers);
	atomic_store(&fired, 0);
}

static void end(void)
{
	pf_timers_free(timers);
}

TEST(timers_fire_in_order)
{
	static struct timed t[N];

	/* The later ones are armed first (unless this thread was kept from it: what counts is
	 * when each is due). */
	for (unsigned i = N; i-- > 0;) {
		t[i] = (struct timed){ .timer = { .fire = fire }, .number = i };
		ck_assert_int_eq(pf_timer_arm(timers, &t[i].timer, 200 + i * 4), 0);
	}
	while (atomic_load(&fired) < N)
		usleep(1000);
	for (unsigned i = 0; i < N; i++) {
		if (i > 0)
			ck_assert_int_le(due_ns(&t[order[i - 1]]), due_ns(&t[order[i]]));
		ck_assert(!pf_timer_disarm(timers, &t[i].timer));
	}
}

struct gate {
	struct pf_timer timer;
	_Atomic bool closed, open;
};

/* Keep the timers' thread from the others. */
static void pass_gate(struct pf_timer *timer)
{
	struct gate *gate = pf_container_of(timer, struct gate, timer);

	atomic_store(&gate->closed, true);
	while (!atomic_load(&gate->open))
		usleep(1000);
}

TEST(a_cancelled_timer_does_not_fire)
{
	struct gate gate = { .timer = { .fire = pass_gate } };
	struct timed soon = { .timer = { .fire = fire }, .number = 1 };
	struct timed off[3] = { { .timer = { .fire = fire } },
				{ .timer = { .fire = fire } },
				{ .timer = { .fire = fire } } };

	pf_timer_arm(timers, &gate.timer, 1);
	while (!atomic_load(&gate.closed))
		usleep(1000);
	for (int i = 0; i < 3; i++)
		pf_timer_arm(timers, &off[i].timer, (uint64_t)(1 + i));
	pf_timer_arm(timers, &soon.timer, 10);
	for (int i = 2; i >= 0; i--) {
		ck_assert(pf_timer_disarm(timers, &off[i].timer));
		ck_assert(!pf_timer_disarm(timers, &off[i].timer));
	}
	atomic_store(&gate.open, true);
	while (!atomic_load(&fired))
		usleep(1000);
	ck_assert_uint_eq(order[0], 1);
	/* It may be armed again. */
	pf_timer_arm(timers, &off[0].timer, 1);
	while (atomic_load(&fired) < 2)
		usleep(1000);
}

static void pass_slowly(struct pf_timer *timer)
{
	struct gate *gate = pf_container_of(timer, struct gate, timer);

	atomic_store(&gate->closed, true);
	usleep(20000); /* real time: it still runs when the others are freed, or has ended */
	atomic_store(&gate->open, true);
}

TEST(the_end_waits_for_a_timer_that_fires)
{
	struct gate gate = { .timer = { .fire = pass_slowly } };

	pf_timer_arm(timers, &gate.timer, 1);
	while (!atomic_load(&gate.closed))
		usleep(1000);
	pf_timers_free(timers);
	ck_assert(atomic_load(&gate.open));
	timers = NULL;
}

TEST(a_timer_armed_at_the_end_never_fires)
{
	struct timed late = { .timer = { .fire = fire } };

	pf_timer_arm(timers, &late.timer, 3600 * 1000);
	pf_timers_free(timers);
	ck_assert_uint_eq(atomic_load(&fired), 0);
	timers = NULL;
}

UNIT_FIXTURE(begin, end)
