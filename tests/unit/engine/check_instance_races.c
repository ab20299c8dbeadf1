/* SPDX-License-Identifier: Apache-2.0 */
/* An instance: calls of many threads, and its end meanwhile. */
#include <limits.h>

#include "instance_fixture.h"

enum { CALLERS = 4, EACH = 3000 };

static void *worker_main(void *arg)
{
	char *m = malloc(PF_RING_MESSAGE);
	ssize_t n;

	(void)arg;
	while ((n = pf_ring_take(&peer.request, m, PF_RING_MESSAGE)) != -EPIPE) {
		struct pf_rep_block rep = block_reply(((struct pf_msg_head *)m)->tag);

		if (n == -EAGAIN)
			pf_ring_wait(&peer.request, 20, -1);
		else
			while (pf_ring_post(&peer.reply, &rep, sizeof(rep), NULL, 0) ==
			       -EAGAIN)
				sched_yield();
	}
	free(m);
	return NULL;
}

static void *caller_main(void *arg)
{
	_Atomic unsigned *wrong = arg;
	struct question q;

	for (uint64_t i = 0; i < EACH; i++) {
		if (ask_id(&q, i, NULL) < 0) {
			atomic_fetch_add(wrong, 1);
			continue;
		}
		if (i % 3)
			pf_instance_spin(instance, &q.done, (unsigned)(i % 50));
		if (!event_within(&q.answered, 60) || q.code < 0)
			atomic_fetch_add(wrong, 1);
	}
	return NULL;
}

/* Run MAIN on some threads, and end the instance after US, or (UINT_MAX) after the threads. */
static void race(void *(*main)(void *arg), unsigned us)
{
	pthread_t callers[CALLERS], it;
	static _Atomic unsigned wrong;

	pthread_create(&it, NULL, worker_main, NULL);
	for (int i = 0; i < CALLERS; i++)
		pthread_create(&callers[i], NULL, main, &wrong);
	if (us != UINT_MAX) {
		usleep(us); /* real time: the end comes at any moment */
		end_instance();
	}
	for (int i = 0; i < CALLERS; i++)
		pthread_join(callers[i], NULL);
	end_instance();
	pthread_join(it, NULL);
	ck_assert_uint_eq(wrong, 0);
}

TEST(many_threads_call_at_once)
{
	race(caller_main, UINT_MAX);
}

/* Calls that race with the worker's death are either refused or answered. */
static void *racer_main(void *arg)
{
	_Atomic unsigned *wrong = arg;
	struct question q;

	for (uint64_t i = 0; ask_id(&q, i, NULL) == 0; i++) {
		if (!event_within(&q.answered, 60))
			atomic_fetch_add(wrong, 1);
		if (event_count(&q.answered) != 1)
			atomic_fetch_add(wrong, 1);
	}
	if (event_count(&q.answered))
		atomic_fetch_add(wrong, 1);
	return NULL;
}

TEST_TIMES(death_races_with_calls, 5)
{
	race(racer_main, (unsigned)_i * 3000);
}

UNIT_FIXTURE(open_instance, close_instance)
