/* SPDX-License-Identifier: Apache-2.0 */
/* Turns: what a wait waits for, and what it does not. */
#include "pjrtfs/wait.h"

#include <stdatomic.h>
#include <unistd.h>

#include "unit.h"

static sem_t go;
static _Atomic bool waited, answered;

static void begin(void)
{
	ck_assert_int_eq(sem_init(&go, 0, 0), 0);
	atomic_store(&waited, false);
	atomic_store(&answered, false);
}

static void end(void)
{
	sem_destroy(&go);
}

static void *wait_for_turns(void *arg)
{
	(void)arg;
	while (!pf_turns_await(1000))
		;
	atomic_store(&waited, true);
	return NULL;
}

TEST(a_wait_ends_with_the_turns_before_it)
{
	unsigned before = pf_turn_begin(), after;
	pthread_t thread;

	ck_assert(!pf_turns_await(0));
	ck_assert(!pf_turns_await(0)); /* nor does a later wait leave it out */
	pf_turn_end(before);
	ck_assert(pf_turns_await(0));

	before = pf_turn_begin();
	ck_assert_int_eq(pf_thread_start(&thread, wait_for_turns, NULL), 0);
	do { /* until the wait has begun the next era */
		after = pf_turn_begin();
		if (after == before)
			pf_turn_end(after);
	} while (after == before);
	ck_assert(!atomic_load(&waited));
	pf_turn_end(before);
	pthread_join(thread, NULL); /* though AFTER has not ended */
	ck_assert(atomic_load(&waited));
	pf_turn_end(after);
}

TEST(a_turn_within_another_one_is_as_old)
{
	unsigned inner;
	pthread_t thread;

	pf_turn_enter();
	pf_turn_enter();
	pf_turn_leave();
	ck_assert_int_eq(pf_thread_start(&thread, wait_for_turns, NULL), 0);
	usleep(1000); /* real time: the wait may have begun, which makes no difference */
	inner = pf_turn_begin();
	pf_turn_leave();
	/* Another one begins the next era, if the first wait has not. */
	ck_assert(!pf_turns_await(10));
	ck_assert(!atomic_load(&waited));
	pf_turn_end(inner);
	pthread_join(thread, NULL);
}

static void *work(void *arg)
{
	(void)arg;
	sem_wait(&go);
	pf_turn_linger(); /* it answers */
	atomic_store(&answered, true);
	sem_wait(&go);
	return NULL;
}

TEST(a_thread_is_in_a_turn_from_its_answer_to_its_end)
{
	pf_turn_linger(); /* this thread may not linger */
	ck_assert(pf_turns_await(0));
	ck_assert_int_eq(pf_thread_start(NULL, work, NULL), 0);
	ck_assert(pf_turns_await(0)); /* it works */
	sem_post(&go);
	while (!atomic_load(&answered))
		usleep(100);
	ck_assert(!pf_turns_await(0));
	sem_post(&go);
	while (!pf_turns_await(1000))
		;
}

TEST(a_thread_may_go_on_after_an_answer)
{
	pf_turn_may_linger();
	pf_turn_linger();
	pf_turn_next();
	ck_assert(pf_turns_await(0));
	pf_turn_linger();
	pf_turn_no_more();
	ck_assert(pf_turns_await(0));
	pf_turn_linger();
	ck_assert(pf_turns_await(0));
}

UNIT_FIXTURE(begin, end)
