/* SPDX-License-Identifier: Apache-2.0 */
/* Turns: users one after another, devices, what takes long, who leaves. */
#include "pjrtfs/scheduler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "pjrtfs/base.h"
#include "unit.h"

enum { N = 16 };

static const unsigned zero = 0;
static struct pf_sched *turns;

/* Who began, in order. */
static char order[64];
static _Atomic unsigned n_begun;

struct one {
	struct pf_sched_request turn;
	char name;
};

static struct one all[N];

static void note(struct pf_sched_request *turn)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	const struct one *one = pf_container_of(turn, struct one, turn);

	PF_LOCK_SCOPE(&lock);
	order[atomic_load(&n_begun)] = one->name;
	atomic_fetch_add(&n_begun, 1);
}

static void open_turns(unsigned devices, unsigned places, unsigned long_ms)
{
	struct pf_sched_config config = { devices, places, long_ms };

	turns = pf_sched_new(&config);
	ck_assert_ptr_nonnull(turns);
	memset(order, 0, sizeof(order));
	atomic_store(&n_begun, 0);
}

static void prepare(struct one *one, char name, uid_t user, const unsigned *devices,
		    unsigned n)
{
	*one = (struct one){ .turn = { .user = user,
				       .devices = devices,
				       .n_devices = n,
				       .begin = note },
			     .name = name };
}

/* Take a turn on the first device; what begins at once is noted, too. */
static void take(struct one *one, char name, uid_t user)
{
	prepare(one, name, user, &zero, 1);
	if (pf_sched_acquire(turns, &one->turn))
		note(&one->turn);
}

static void end(struct one *one)
{
	pf_sched_release(turns, &one->turn);
}

static unsigned position(const struct one *one)
{
	return pf_sched_position(turns, &one->turn);
}

START_TEST(users_take_turns)
{
	open_turns(1, 1, 60000);
	for (unsigned i = 0; i < 4; i++)
		take(&all[i], (char)('a' + i), 1);
	take(&all[4], 'x', 2);
	take(&all[5], 'y', 2);
	take(&all[6], 'm', 3);
	ck_assert_str_eq(order, "a");
	/* b x m c y d */
	ck_assert_uint_eq(position(&all[0]), 0);
	ck_assert_uint_eq(position(&all[1]), 1);
	ck_assert_uint_eq(position(&all[4]), 2);
	ck_assert_uint_eq(position(&all[6]), 3);
	ck_assert_uint_eq(position(&all[2]), 4);
	ck_assert_uint_eq(position(&all[5]), 5);
	ck_assert_uint_eq(position(&all[3]), 6);
	for (unsigned i = 0; i < 7; i++) {
		const char *now = strchr("abcdxym", order[i]);

		ck_assert_uint_eq(atomic_load(&n_begun), i + 1);
		end(&all[now - strchr("abcdxym", 'a')]);
	}
	ck_assert_str_eq(order, "abxmcyd");
	/* who comes back finds an empty queue */
	take(&all[0], 'z', 1);
	ck_assert_str_eq(order, "abxmcydz");
	end(&all[0]);
	pf_sched_free(turns);
}
END_TEST

START_TEST(so_many_at_a_time)
{
	open_turns(1, 3, 60000);
	for (unsigned i = 0; i < 6; i++)
		take(&all[i], (char)('a' + i), i % 2);
	ck_assert_str_eq(order, "abc");
	end(&all[1]);
	ck_assert_str_eq(order, "abcd");
	end(&all[0]);
	end(&all[2]);
	ck_assert_str_eq(order, "abcdef");
	for (unsigned i = 3; i < 6; i++)
		end(&all[i]);
	pf_sched_free(turns);
}
END_TEST

START_TEST(who_leaves_is_not_told)
{
	open_turns(1, 1, 60000);
	for (unsigned i = 0; i < 8; i++)
		take(&all[i], (char)('a' + i), i < 5 ? 1 : 2);
	/* users 1: b c d e, 2: f g h */
	ck_assert(!pf_sched_dequeue(turns, &all[0].turn)); /* it has begun */
	ck_assert(pf_sched_dequeue(turns, &all[1].turn));  /* the first of a user */
	ck_assert(!pf_sched_dequeue(turns, &all[1].turn));
	ck_assert(pf_sched_dequeue(turns, &all[3].turn)); /* one between */
	ck_assert(pf_sched_dequeue(turns, &all[7].turn)); /* the last */
	end(&all[1]);                                     /* it had no place to give */
	ck_assert_str_eq(order, "a");
	ck_assert_uint_eq(position(&all[2]), 1);
	ck_assert_uint_eq(position(&all[4]), 3);
	ck_assert_uint_eq(position(&all[6]), 4);
	take(&all[1], 'B', 1); /* it may take one again, at the end */
	end(&all[0]);
	end(&all[2]);
	end(&all[5]);
	end(&all[4]);
	end(&all[6]);
	ck_assert_str_eq(order, "acfegB");
	end(&all[1]);
	/* the only one of a user, before and after others' */
	take(&all[0], 'a', 1);
	for (uid_t user = 2; user < 5; user++)
		take(&all[user], (char)('a' + user), user);
	ck_assert(pf_sched_dequeue(turns, &all[3].turn));
	end(&all[0]);
	end(&all[2]);
	ck_assert_str_eq(order, "acfegBace");
	end(&all[4]);
	pf_sched_free(turns);
}
END_TEST

START_TEST(what_takes_long_gives_way_to_others)
{
	open_turns(1, 2, 50);
	take(&all[0], 'a', 1);
	take(&all[1], 'b', 1);
	take(&all[2], 'c', 1);
	take(&all[3], 'x', 2);
	ck_assert_str_eq(order, "ab");
	/* user 2 need not wait for a and b, user 1 does, though it came before */
	while (atomic_load(&n_begun) < 3)
		usleep(1000);
	ck_assert_str_eq(order, "abx");
	take(&all[4], 'y', 2);
	while (atomic_load(&n_begun) < 4)
		usleep(1000);
	ck_assert_str_eq(order, "abxy");
	ck_assert_uint_eq(position(&all[2]), 1);
	usleep(120000);
	ck_assert_uint_eq(atomic_load(&n_begun), 4);
	end(&all[1]);
	/* with both of user 2 it may be another moment */
	while (atomic_load(&n_begun) < 5)
		usleep(1000);
	ck_assert_str_eq(order, "abxyc");
	for (unsigned i = 0; i < 5; i++)
		if (i != 1)
			end(&all[i]);
	pf_sched_free(turns);
}
END_TEST

/* Another thread may just be telling some of them. */
static void wait_for(unsigned n)
{
	while (atomic_load(&n_begun) < n)
		usleep(1000);
}

START_TEST(not_for_ever_more)
{
	static struct one many[64];

	open_turns(1, 1, 1);
	for (unsigned i = 0; i < 64; i++)
		take(&many[i], 'a', i);
	wait_for(40);
	usleep(50000);
	ck_assert_uint_eq(atomic_load(&n_begun),
			  40); /* a worker needs threads for the rest */
	end(&many[0]);
	wait_for(41);
	usleep(50000);
	ck_assert_uint_eq(atomic_load(&n_begun), 41);
	/* who has not begun does not end */
	for (unsigned i = 1; i < 64; i++) {
		wait_for(i + 1);
		end(&many[i]);
	}
	pf_sched_free(turns);
}
END_TEST

START_TEST(several_devices_at_once)
{
	static const unsigned both[] = { 0, 1 }, one = 1;

	open_turns(2, 1, 60000);
	take(&all[0], 'a', 1);
	prepare(&all[1], 'B', 1, both, 2);
	ck_assert(!pf_sched_acquire(turns, &all[1].turn));
	prepare(&all[2], 'c', 1, &one, 1);
	ck_assert(pf_sched_acquire(turns, &all[2].turn)); /* device 1 is free still */
	end(&all[0]);                                     /* B has device 0 now */
	take(&all[3], 'd', 2);
	ck_assert_str_eq(order, "a");
	ck_assert_uint_eq(position(&all[1]), 1);
	end(&all[2]);
	ck_assert_str_eq(order, "aB");
	end(&all[1]);
	ck_assert_str_eq(order, "aBd");
	/* one that leaves gives back what it has */
	prepare(&all[0], 'e', 1, &one, 1);
	ck_assert(pf_sched_acquire(turns, &all[0].turn));
	end(&all[3]);
	prepare(&all[1], 'B', 1, both, 2);
	ck_assert(!pf_sched_acquire(turns, &all[1].turn));
	take(&all[2], 'f', 1);
	ck_assert_str_eq(order, "aBd");
	ck_assert(pf_sched_dequeue(turns, &all[1].turn));
	end(&all[1]);
	ck_assert_str_eq(order, "aBdf");
	end(&all[0]);
	end(&all[2]);
	pf_sched_free(turns);
}
END_TEST

/* --- many ------------------------------------------------------------------------------ */

static void end_at_once(struct pf_sched_request *turn)
{
	atomic_fetch_add(&n_begun, 1);
	pf_sched_release(turns, turn);
}

START_TEST(those_that_end_at_once_need_no_stack)
{
	enum { MANY = 200000 };
	struct pf_sched_request *many = calloc(MANY, sizeof(*many));

	ck_assert_ptr_nonnull(many);
	open_turns(1, 1, 60000);
	take(&all[0], 'a', 1);
	for (unsigned i = 0; i < MANY; i++) {
		many[i] = (struct pf_sched_request){ .user = i % 3,
						     .devices = &zero,
						     .n_devices = 1,
						     .begin = end_at_once };
		ck_assert(!pf_sched_acquire(turns, &many[i]));
	}
	end(&all[0]);
	ck_assert_uint_eq(atomic_load(&n_begun), MANY + 1);
	pf_sched_free(turns);
	free(many);
}
END_TEST

enum { THREADS = 12, ROUNDS = 2000, DEVICES = 4, PLACES = 2 };

static _Atomic int running[DEVICES], most;

/* One thread's, at a time. */
struct worker {
	struct pf_sched_request turn;
	unsigned devices[DEVICES];
	_Atomic bool begun;
	unsigned seed;
};

static void worker_begin(struct pf_sched_request *turn)
{
	struct worker *w = pf_container_of(turn, struct worker, turn);

	atomic_store(&w->begun, true);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned n = 0, mask = 1 + (unsigned)rand_r(&w->seed) % 15;

		for (unsigned d = 0; d < DEVICES; d++)
			if (mask & 1u << d)
				w->devices[n++] = d;
		w->turn = (struct pf_sched_request){ .user = (uid_t)rand_r(&w->seed) % 3,
						     .devices = w->devices,
						     .n_devices = n,
						     .begin = worker_begin };
		atomic_store(&w->begun, false);
		if (!pf_sched_acquire(turns, &w->turn)) {
			if (rand_r(&w->seed) % 8 == 0 &&
			    pf_sched_dequeue(turns, &w->turn)) {
				pf_sched_release(turns, &w->turn);
				continue;
			}
			while (!atomic_load(&w->begun))
				usleep(10);
		}
		for (unsigned i = 0; i < n; i++) {
			int now = atomic_fetch_add(&running[w->devices[i]], 1) + 1;

			if (now > atomic_load(&most))
				atomic_store(&most, now);
		}
		for (unsigned i = 0; i < n; i++)
			atomic_fetch_sub(&running[w->devices[i]], 1);
		pf_sched_release(turns, &w->turn);
	}
	return NULL;
}

START_TEST(many_threads_on_many_devices)
{
	static struct worker workers[THREADS];
	pthread_t threads[THREADS];

	open_turns(DEVICES, PLACES, 60000);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].seed = i + 1;
		ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_int_le(atomic_load(&most), PLACES);
	/* every place is free again */
	for (unsigned i = 0; i < PLACES; i++)
		take(&all[i], 'a', 1);
	ck_assert_uint_eq(atomic_load(&n_begun), PLACES);
	pf_sched_free(turns);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("turns");
	TCase *tc = tcase_create("turns");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, users_take_turns);
	tcase_add_test(tc, so_many_at_a_time);
	tcase_add_test(tc, who_leaves_is_not_told);
	tcase_add_test(tc, what_takes_long_gives_way_to_others);
	tcase_add_test(tc, not_for_ever_more);
	tcase_add_test(tc, several_devices_at_once);
	tcase_add_test(tc, those_that_end_at_once_need_no_stack);
	tcase_add_test(tc, many_threads_on_many_devices);
	suite_add_tcase(s, tc);
	return unit_run(s);
}
