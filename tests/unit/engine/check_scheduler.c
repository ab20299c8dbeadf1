/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler: users round robin, queues, slots held for long, front and alone, dequeueing. */
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
static struct pf_sched *sched;

/* The names of granted requests, in order. */
static char order[64];
static _Atomic unsigned n_granted;

struct one {
	struct pf_sched_request request;
	char name;
};

static struct one all[N];

static void note(struct pf_sched_request *request)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	const struct one *one = pf_container_of(request, struct one, request);

	PF_LOCK_SCOPE(&lock);
	order[atomic_load(&n_granted)] = one->name;
	atomic_fetch_add(&n_granted, 1);
}

static void open_config(const struct pf_sched_config *config)
{
	sched = pf_sched_new(config);
	ck_assert_ptr_nonnull(sched);
	memset(order, 0, sizeof(order));
	atomic_store(&n_granted, 0);
}

static void open_sched(unsigned queues, unsigned slots, unsigned long_ms)
{
	open_config(&(struct pf_sched_config){
		.n_queues = queues, .slots = slots, .max_held = 40, .long_ms = long_ms });
}

static void close_sched(void)
{
	pf_sched_free(sched);
}

static void prepare(struct one *one, char name, uid_t user, const unsigned *queues,
		    unsigned n)
{
	*one = (struct one){ .request = { .user = user,
					  .queues = queues,
					  .n_queues = n,
					  .granted = note },
			     .name = name };
}

/* Acquire a slot of the first queue; what is granted at once is noted, too. */
static void take(struct one *one, char name, uid_t user)
{
	prepare(one, name, user, &zero, 1);
	if (pf_sched_acquire(sched, &one->request))
		note(&one->request);
}

static void end(struct one *one)
{
	pf_sched_release(sched, &one->request);
}

static unsigned position(const struct one *one)
{
	return pf_sched_position(sched, &one->request);
}

START_TEST(users_are_served_round_robin)
{
	open_sched(1, 1, 60000);
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

		ck_assert_uint_eq(atomic_load(&n_granted), i + 1);
		end(&all[now - strchr("abcdxym", 'a')]);
	}
	ck_assert_str_eq(order, "abxmcyd");
	/* the queue is empty now */
	take(&all[0], 'z', 1);
	ck_assert_str_eq(order, "abxmcydz");
}
END_TEST

START_TEST(requests_beyond_the_slots_wait)
{
	open_sched(1, 3, 60000);
	for (unsigned i = 0; i < 6; i++)
		take(&all[i], (char)('a' + i), i % 2);
	ck_assert_str_eq(order, "abc");
	end(&all[1]);
	ck_assert_str_eq(order, "abcd");
	end(&all[0]);
	end(&all[2]);
	ck_assert_str_eq(order, "abcdef");
}
END_TEST

START_TEST(a_request_that_leaves_is_not_granted)
{
	open_sched(1, 1, 60000);
	for (unsigned i = 0; i < 8; i++)
		take(&all[i], (char)('a' + i), i < 5 ? 1 : 2);
	/* users 1: b c d e, 2: f g h */
	ck_assert(!pf_sched_dequeue(sched, &all[0].request)); /* it was granted */
	ck_assert(pf_sched_dequeue(sched, &all[1].request));  /* the first of a user */
	ck_assert(!pf_sched_dequeue(sched, &all[1].request));
	ck_assert(pf_sched_dequeue(sched, &all[3].request)); /* one between */
	ck_assert(pf_sched_dequeue(sched, &all[7].request)); /* the last */
	end(&all[1]);                                        /* it held no slot */
	ck_assert_str_eq(order, "a");
	ck_assert_uint_eq(position(&all[2]), 1);
	ck_assert_uint_eq(position(&all[4]), 3);
	ck_assert_uint_eq(position(&all[6]), 4);
	take(&all[1], 'B', 1); /* acquired again, it is the last */
	end(&all[0]);
	end(&all[2]);
	end(&all[5]);
	end(&all[4]);
	end(&all[6]);
	ck_assert_str_eq(order, "acfegB");
	end(&all[1]);
	/* the only one of a user, between those of others */
	take(&all[0], 'a', 1);
	for (uid_t user = 2; user < 5; user++)
		take(&all[user], (char)('a' + user), user);
	ck_assert(pf_sched_dequeue(sched, &all[3].request));
	end(&all[0]);
	end(&all[2]);
	ck_assert_str_eq(order, "acfegBace");
}
END_TEST

START_TEST(a_slot_held_for_long_counts_against_its_user)
{
	open_sched(1, 2, 50);
	take(&all[0], 'a', 1);
	take(&all[1], 'b', 1);
	take(&all[2], 'c', 1);
	take(&all[3], 'x', 2);
	ck_assert_str_eq(order, "ab");
	/* a and b do not keep user 2 waiting, but c of user 1, which was queued before */
	while (atomic_load(&n_granted) < 3)
		usleep(1000);
	ck_assert_str_eq(order, "abx");
	take(&all[4], 'y', 2);
	while (atomic_load(&n_granted) < 4)
		usleep(1000);
	ck_assert_str_eq(order, "abxy");
	ck_assert_uint_eq(position(&all[2]), 1);
	usleep(120000);
	ck_assert_uint_eq(atomic_load(&n_granted), 4);
	end(&all[1]);
	/* until both of user 2's slots have been held for long, too */
	while (atomic_load(&n_granted) < 5)
		usleep(1000);
	ck_assert_str_eq(order, "abxyc");
}
END_TEST

/* Wait for N grants; the timer's thread makes some. */
static void wait_for(unsigned n)
{
	while (atomic_load(&n_granted) < n)
		usleep(1000);
}

START_TEST(at_most_max_held_requests_are_granted)
{
	static struct one many[64];

	open_sched(1, 1, 1);
	for (unsigned i = 0; i < 64; i++)
		take(&many[i], 'a', i);
	wait_for(40);
	usleep(50000);
	ck_assert_uint_eq(atomic_load(&n_granted), 40); /* max_held */
	end(&many[0]);
	wait_for(41);
	usleep(50000);
	ck_assert_uint_eq(atomic_load(&n_granted), 41);
	/* only what was granted is released */
	for (unsigned i = 1; i < 64; i++) {
		wait_for(i + 1);
		end(&many[i]);
	}
}
END_TEST

/* A request of the first queue, acquired; FRONT and ALONE as in struct pf_sched_request. */
static void take_special(struct one *one, char name, bool front, bool alone)
{
	prepare(one, name, 1, &zero, 1);
	one->request.front = front;
	one->request.alone = alone;
	if (pf_sched_acquire(sched, &one->request))
		note(&one->request);
}

START_TEST(front_requests_precede_all_others)
{
	open_sched(1, 1, 60000);
	take(&all[0], 'a', 1);
	take(&all[1], 'b', 1);
	take(&all[2], 'c', 1);
	take(&all[3], 'x', 2);
	take_special(&all[4], 'F', true, false);
	take_special(&all[5], 'G', true, false);
	/* F G b x c */
	ck_assert_uint_eq(position(&all[4]), 1);
	ck_assert_uint_eq(position(&all[5]), 2);
	ck_assert_uint_eq(position(&all[1]), 3);
	ck_assert_uint_eq(position(&all[3]), 4);
	ck_assert_uint_eq(position(&all[2]), 5);
	for (unsigned i = 0; i < 6; i++)
		end(&all[strchr("abcxFG", order[i]) - strchr("abcxFG", 'a')]);
	ck_assert_str_eq(order, "aFGbxc");
}
END_TEST

START_TEST(an_alone_request_blocks_all_others)
{
	open_sched(1, 3, 60000);
	take(&all[0], 'a', 1);
	take(&all[1], 'b', 1);
	take_special(&all[2], 'S', true, true);
	take_special(&all[3], 'T', true, true);
	take(&all[4], 'c', 1);
	/* S waits for a and b, and all other requests for S */
	end(&all[0]);
	ck_assert_str_eq(order, "ab");
	end(&all[1]);
	ck_assert_str_eq(order, "abS");
	end(&all[2]);
	ck_assert_str_eq(order, "abST");
	take(&all[0], 'd', 2);
	end(&all[3]);
	ck_assert_str_eq(order, "abSTcd");
}
END_TEST

START_TEST(long_requests_may_count_against_nobody)
{
	open_config(&(struct pf_sched_config){ .n_queues = 1,
					       .slots = 1,
					       .max_held = 3,
					       .long_ms = 30,
					       .long_is_free = true });
	/* of one user: each waits until the one before has held its slot for long */
	for (unsigned i = 0; i < 4; i++)
		take(&all[i], (char)('a' + i), 1);
	ck_assert_str_eq(order, "a");
	wait_for(3);
	usleep(60000);
	ck_assert_str_eq(order, "abc"); /* max_held */
	end(&all[1]);
	wait_for(4);
	/* a request that must be alone does not wait for them */
	end(&all[0]);
	take_special(&all[4], 'S', true, true);
	wait_for(5);
	/* but all other requests wait for it, however long it holds its slot */
	end(&all[2]);
	take(&all[5], 'e', 2);
	usleep(60000);
	ck_assert_str_eq(order, "abcdS");
	end(&all[4]);
	ck_assert_str_eq(order, "abcdSe");
}
END_TEST

static _Atomic int64_t user_1_until;

static int64_t user_waits_until(void *arg, uid_t user)
{
	int64_t until = atomic_load(&user_1_until);

	ck_assert_ptr_eq(arg, &user_1_until);
	return user == 1 && until > pf_now_ms() ? until : 0;
}

START_TEST(a_blocked_users_requests_wait)
{
	open_config(&(struct pf_sched_config){ .n_queues = 1,
					       .slots = 2,
					       .max_held = 2,
					       .long_ms = 60000,
					       .user_waits_until = user_waits_until,
					       .arg = &user_1_until });
	atomic_store(&user_1_until, pf_now_ms() + 100);
	take(&all[0], 'a', 1);
	take(&all[1], 'x', 2);
	take_special(&all[2], 'F', true, false); /* user 1's, too */
	ck_assert_str_eq(order, "xF");
	end(&all[1]);
	ck_assert_str_eq(order, "xF");
	ck_assert_uint_eq(position(&all[0]), 1);
	wait_for(3);
	ck_assert_str_eq(order, "xFa");
	ck_assert(pf_now_ms() >= atomic_load(&user_1_until));
	end(&all[0]);
	/* or no longer */
	atomic_store(&user_1_until, INT64_MAX);
	take(&all[3], 'b', 1);
	ck_assert_str_eq(order, "xFa");
	atomic_store(&user_1_until, 0);
	pf_sched_review(sched);
	ck_assert_str_eq(order, "xFab");
}
END_TEST

START_TEST(a_copy_is_released_in_place_of_its_request)
{
	struct pf_sched_request copy;

	open_sched(1, 1, 60000);
	take(&all[0], 'a', 1);
	copy = all[0].request;
	take(&all[0], 'b', 1); /* the same request, acquired again */
	take(&all[1], 'c', 1);
	ck_assert_str_eq(order, "a");
	pf_sched_release(sched, &copy);
	ck_assert_str_eq(order, "ab");
}
END_TEST

START_TEST(several_queues_at_once)
{
	static const unsigned both[] = { 0, 1 }, one = 1;

	open_sched(2, 1, 60000);
	take(&all[0], 'a', 1);
	prepare(&all[1], 'B', 1, both, 2);
	ck_assert(!pf_sched_acquire(sched, &all[1].request));
	prepare(&all[2], 'c', 1, &one, 1);
	ck_assert(pf_sched_acquire(sched,
				   &all[2].request)); /* queue 1 has its slot still */
	end(&all[0]); /* B holds the slot of queue 0 now */
	take(&all[3], 'd', 2);
	ck_assert_str_eq(order, "a");
	ck_assert_uint_eq(position(&all[1]), 1);
	end(&all[2]);
	ck_assert_str_eq(order, "aB");
	end(&all[1]);
	ck_assert_str_eq(order, "aBd");
	/* what was dequeued gives back what it holds */
	prepare(&all[0], 'e', 1, &one, 1);
	ck_assert(pf_sched_acquire(sched, &all[0].request));
	end(&all[3]);
	prepare(&all[1], 'B', 1, both, 2);
	ck_assert(!pf_sched_acquire(sched, &all[1].request));
	take(&all[2], 'f', 1);
	ck_assert_str_eq(order, "aBd");
	ck_assert(pf_sched_dequeue(sched, &all[1].request));
	end(&all[1]);
	ck_assert_str_eq(order, "aBdf");
}
END_TEST

/* --- many ------------------------------------------------------------------------------ */

static void release_at_once(struct pf_sched_request *request)
{
	atomic_fetch_add(&n_granted, 1);
	pf_sched_release(sched, request);
}

START_TEST(releases_within_granted_need_no_stack)
{
	enum { MANY = 200000 };
	struct pf_sched_request *many = calloc(MANY, sizeof(*many));

	ck_assert_ptr_nonnull(many);
	open_sched(1, 1, 60000);
	take(&all[0], 'a', 1);
	for (unsigned i = 0; i < MANY; i++) {
		many[i] = (struct pf_sched_request){ .user = i % 3,
						     .queues = &zero,
						     .n_queues = 1,
						     .granted = release_at_once };
		ck_assert(!pf_sched_acquire(sched, &many[i]));
	}
	end(&all[0]);
	ck_assert_uint_eq(atomic_load(&n_granted), MANY + 1);
	free(many);
}
END_TEST

enum { THREADS = 12, ROUNDS = 2000, QUEUES = 4, SLOTS = 2 };

static _Atomic int running[QUEUES], most;

/* One thread's, at a time. */
struct worker {
	struct pf_sched_request request;
	unsigned queues[QUEUES];
	_Atomic bool begun;
	unsigned seed;
};

static void worker_begin(struct pf_sched_request *request)
{
	struct worker *w = pf_container_of(request, struct worker, request);

	atomic_store(&w->begun, true);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned n = 0, mask = 1 + (unsigned)rand_r(&w->seed) % 15;

		for (unsigned d = 0; d < QUEUES; d++)
			if (mask & 1u << d)
				w->queues[n++] = d;
		w->request =
			(struct pf_sched_request){ .user = (uid_t)rand_r(&w->seed) % 3,
						   .queues = w->queues,
						   .n_queues = n,
						   .granted = worker_begin };
		atomic_store(&w->begun, false);
		if (!pf_sched_acquire(sched, &w->request)) {
			if (rand_r(&w->seed) % 8 == 0 &&
			    pf_sched_dequeue(sched, &w->request)) {
				pf_sched_release(sched, &w->request);
				continue;
			}
			while (!atomic_load(&w->begun))
				usleep(10);
		}
		for (unsigned i = 0; i < n; i++) {
			int now = atomic_fetch_add(&running[w->queues[i]], 1) + 1;

			if (now > atomic_load(&most))
				atomic_store(&most, now);
		}
		for (unsigned i = 0; i < n; i++)
			atomic_fetch_sub(&running[w->queues[i]], 1);
		pf_sched_release(sched, &w->request);
	}
	return NULL;
}

START_TEST(many_threads_and_queues)
{
	static struct worker workers[THREADS];
	pthread_t threads[THREADS];

	open_sched(QUEUES, SLOTS, 60000);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].seed = i + 1;
		ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_int_le(atomic_load(&most), SLOTS);
	/* every slot is free again */
	for (unsigned i = 0; i < SLOTS; i++)
		take(&all[i], 'a', 1);
	ck_assert_uint_eq(atomic_load(&n_granted), SLOTS);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("scheduler");
	TCase *tc = tcase_create("core");

	tcase_add_checked_fixture(tc, NULL, close_sched);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, users_are_served_round_robin);
	tcase_add_test(tc, requests_beyond_the_slots_wait);
	tcase_add_test(tc, a_request_that_leaves_is_not_granted);
	tcase_add_test(tc, a_slot_held_for_long_counts_against_its_user);
	tcase_add_test(tc, at_most_max_held_requests_are_granted);
	tcase_add_test(tc, front_requests_precede_all_others);
	tcase_add_test(tc, an_alone_request_blocks_all_others);
	tcase_add_test(tc, long_requests_may_count_against_nobody);
	tcase_add_test(tc, a_blocked_users_requests_wait);
	tcase_add_test(tc, a_copy_is_released_in_place_of_its_request);
	tcase_add_test(tc, several_queues_at_once);
	tcase_add_test(tc, releases_within_granted_need_no_stack);
	tcase_add_test(tc, many_threads_and_queues);
	suite_add_tcase(s, tc);
	return unit_run(s);
}
