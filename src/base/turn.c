/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "pjrtfs/wait.h"

enum { POLL_US = 100 };

/*
 * Turns belong to one of two eras, by its lowest bit.  A wait begins the next era, and ends when no
 * turn of the one before is left.  A turn that begins within another one is of the same era, so
 * the wait also ends what that one has caused.
 */
static _Atomic unsigned era;
static _Atomic unsigned under_way[2];
static atomic_flag waits = ATOMIC_FLAG_INIT; /* a thread is in pf_turns_await */

static _Thread_local struct {
	unsigned depth, turn;
	bool may_linger, lingers;
} self;

unsigned pf_turn_begin(void)
{
	unsigned e;

	if (self.depth) {
		atomic_fetch_add(&under_way[self.turn], 1);
		return self.turn;
	}
	for (;;) {
		e = atomic_load(&era);
		atomic_fetch_add(&under_way[e & 1], 1);
		if (atomic_load(&era) == e)
			return e & 1;
		atomic_fetch_sub(&under_way[e & 1], 1); /* a wait may have missed it */
	}
}

void pf_turn_end(unsigned turn)
{
	atomic_fetch_sub(&under_way[turn], 1);
}

void pf_turn_enter(void)
{
	if (!self.depth)
		self.turn = pf_turn_begin();
	self.depth++;
}

void pf_turn_leave(void)
{
	if (!--self.depth)
		pf_turn_end(self.turn);
}

void pf_turn_may_linger(void)
{
	self.may_linger = true;
}

void pf_turn_linger(void)
{
	if (!self.may_linger || self.lingers)
		return;
	self.lingers = true;
	pf_turn_enter();
}

void pf_turn_next(void)
{
	if (!self.lingers)
		return;
	self.lingers = false;
	pf_turn_leave();
}

void pf_turn_no_more(void)
{
	self.may_linger = false;
	pf_turn_next();
}

/* Wait until no turn of ERA is left: false: not before END. */
static bool await(unsigned of, int64_t end)
{
	while (atomic_load(&under_way[of & 1])) {
		if (pf_now_ms() >= end)
			return false;
		usleep(POLL_US);
	}
	return true;
}

bool pf_turns_await(unsigned ms)
{
	int64_t end = pf_now_ms() + ms;
	bool ended;

	while (atomic_flag_test_and_set(&waits)) {
		if (pf_now_ms() >= end)
			return false;
		usleep(POLL_US);
	}
	/* What an earlier wait gave up comes first. */
	ended = await(atomic_load(&era) + 1, end) &&
		await(atomic_fetch_add(&era, 1), end);
	atomic_flag_clear(&waits);
	return ended;
}
