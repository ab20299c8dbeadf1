/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of compiles: turns, places, who is alone; and one compile a key. */
#include "store/internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

enum { MANY = 200 };

/* A job that waits until it may end, and notes when it began. */
struct note {
	struct pf_compile_job job;
	char name;
};

static struct pf_compiler *compiler;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the fields below */
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static char begun[MANY + 1]; /* names in the order in which they began */
static unsigned n_begun, n_running, most, may_end;

static void run(struct pf_compile_job *job)
{
	struct note *note = pf_container_of(job, struct note, job);

	pf_lock(&lock);
	begun[n_begun++] = note->name;
	if (++n_running > most)
		most = n_running;
	pthread_cond_broadcast(&change);
	while (!may_end)
		pthread_cond_wait(&change, &lock);
	may_end--;
	n_running--;
	pthread_cond_broadcast(&change);
	pf_unlock(&lock);
}

static void open_compiler(unsigned jobs)
{
	struct pf_compiler_config config = { .jobs = jobs };

	memset(begun, 0, sizeof(begun));
	n_begun = n_running = most = may_end = 0;
	ck_assert_int_eq(pf_compiler_new(&config, &compiler, NULL), 0);
}

static struct note *add(struct note *note, char name, uid_t user, bool front, bool alone)
{
	*note = (struct note){ .job = { .run = run, .user = user, .alone = alone },
			       .name = name };
	pf_compiler_add(compiler, &note->job, front);
	return note;
}

static void let_end(unsigned n)
{
	pf_lock(&lock);
	may_end += n;
	pthread_cond_broadcast(&change);
	pf_unlock(&lock);
}

static void wait_begun(unsigned n)
{
	pf_lock(&lock);
	while (n_begun < n)
		pthread_cond_wait(&change, &lock);
	pf_unlock(&lock);
}

/* Let all N end, one after another where they are one at a time. */
static void finish(unsigned n)
{
	let_end(n);
	wait_begun(n);
	pf_compiler_free(compiler);
	ck_assert_uint_eq(n_running, 0);
}

START_TEST(users_take_turns)
{
	struct note notes[8];

	open_compiler(1);
	add(&notes[0], 'a', 1, false, false);
	wait_begun(1);
	for (int i = 1; i < 5; i++)
		add(&notes[i], (char)('a' + i), 1, false, false);
	add(&notes[5], 'x', 2, false, false);
	add(&notes[6], 'y', 2, false, false);
	add(&notes[7], 'F', 3, true, false);
	/* F, then b x c y d e */
	ck_assert_uint_eq(pf_compiler_position(compiler, &notes[0].job), 0);
	ck_assert_uint_eq(pf_compiler_position(compiler, &notes[7].job), 1);
	ck_assert_uint_eq(pf_compiler_position(compiler, &notes[1].job), 2);
	ck_assert_uint_eq(pf_compiler_position(compiler, &notes[5].job), 3);
	ck_assert_uint_eq(pf_compiler_position(compiler, &notes[2].job), 4);
	ck_assert_uint_eq(pf_compiler_position(compiler, &notes[6].job), 5);
	ck_assert_uint_eq(pf_compiler_position(compiler, &notes[3].job), 6);
	ck_assert_uint_eq(pf_compiler_position(compiler, &notes[4].job), 7);
	finish(8);
	ck_assert_str_eq(begun, "aFbxcyde");
	ck_assert_uint_eq(most, 1);
}
END_TEST

START_TEST(as_many_as_may)
{
	static struct note notes[MANY];

	open_compiler(3);
	for (int i = 0; i < MANY; i++)
		add(&notes[i], 'a', (uid_t)(i % 7), false, false);
	wait_begun(3);
	usleep(20000);
	ck_assert_uint_eq(n_begun, 3);
	finish(MANY);
	ck_assert_uint_eq(most, 3);
}
END_TEST

START_TEST(alone_is_alone)
{
	struct note notes[5];

	open_compiler(3);
	add(&notes[0], 'a', 1, false, false);
	add(&notes[1], 'b', 1, false, false);
	wait_begun(2);
	add(&notes[2], 'S', 1, true, true);
	add(&notes[3], 'T', 1, true, true);
	add(&notes[4], 'c', 1, false, false);
	usleep(20000);
	ck_assert_uint_eq(n_begun, 2); /* S waits for a and b, and c for S */
	let_end(1);
	usleep(20000);
	ck_assert_uint_eq(n_begun, 2);
	let_end(1);
	wait_begun(3);
	usleep(20000);
	ck_assert_uint_eq(n_begun, 3);
	let_end(1);
	wait_begun(4);
	usleep(20000);
	ck_assert_uint_eq(n_begun, 4);
	let_end(2);
	wait_begun(5);
	pf_compiler_free(compiler);
	ck_assert_str_eq(begun + 2, "STc");
}
END_TEST

static void run_long(struct pf_compile_job *job)
{
	pf_compiler_takes_long(compiler);
	pf_compiler_takes_long(compiler); /* counts once */
	run(job);
}

START_TEST(what_takes_long_makes_room)
{
	struct note notes[4];

	open_compiler(1);
	notes[0] = (struct note){ .job = { .run = run_long }, .name = 'l' };
	pf_compiler_add(compiler, &notes[0].job, false);
	add(&notes[1], 'a', 1, false, false);
	add(&notes[2], 'b', 1, false, false);
	wait_begun(2);
	usleep(20000);
	ck_assert_uint_eq(n_begun, 2);
	let_end(2);
	wait_begun(3);
	add(&notes[3], 'c', 1, false, false);
	finish(4 - 2 + 2); /* two have ended; more leave is harmless */
	ck_assert_uint_le(most, 2);
}
END_TEST

START_TEST(one_leads_others_follow)
{
	struct pf_cache_key one = { .bytes = { 1 } }, two = { .bytes = { 2 } };
	struct pf_flight *claim = NULL, *other = NULL, *none = NULL;
	const char here[2] = "", *const there = here + 1;
	struct pf_loaded *loaded = NULL;
	struct note notes[4];
	struct pf_compile_job *job;
	int n = 0;

	memset(notes, 0, sizeof(notes));
	open_compiler(1);
	ck_assert_int_eq(pf_compiler_join(compiler, &one, here, &notes[0].job, &claim,
					  &loaded),
			 PF_LEADER);
	ck_assert_int_eq(pf_compiler_join(compiler, &two, here, &notes[1].job, &other,
					  &loaded),
			 PF_LEADER);
	ck_assert_int_eq(pf_compiler_join(compiler, &one, here, &notes[2].job, &none,
					  &loaded),
			 PF_FOLLOWER);
	ck_assert_int_eq(pf_compiler_join(compiler, &one, here, &notes[3].job, &none,
					  &loaded),
			 PF_FOLLOWER);
	/* the same plugin under another name is none to share with */
	ck_assert_int_eq(pf_compiler_join(compiler, &one, there, &notes[1].job, &none,
					  &loaded),
			 PF_LEADER);
	ck_assert_ptr_null(pf_flight_finish(compiler, none, NULL));
	pf_flight_drop(compiler, none);
	/* it failed: both come back, and the next one begins anew */
	for (job = pf_flight_finish(compiler, claim, NULL); job; job = job->next)
		n++;
	ck_assert_int_eq(n, 2);
	ck_assert_int_eq(pf_compiler_join(compiler, &one, here, &notes[2].job, &none,
					  &loaded),
			 PF_LEADER);
	pf_flight_drop(compiler, claim);
	ck_assert_ptr_null(pf_flight_finish(compiler, other, NULL));
	pf_flight_drop(compiler, other);
	ck_assert_ptr_null(pf_flight_finish(compiler, none, NULL));
	pf_flight_drop(compiler, none);
	ck_assert_int_eq(pf_compiler_join(compiler, &two, here, &notes[1].job, &other,
					  &loaded),
			 PF_LEADER);
	pf_flight_drop(compiler, other);
	pf_compiler_free(compiler);
}
END_TEST

START_TEST(settling_waits_for_puts)
{
	open_compiler(1);
	pf_compiler_finish(compiler, 10000);
	pf_compiler_begin_put(compiler);
	pf_compiler_finish(compiler, 30); /* not for ever */
	pf_compiler_end_put(compiler);
	pf_compiler_finish(compiler, 10000);
	pf_compiler_free(compiler);
	pf_compiler_free(NULL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("compiler");
	TCase *tc = tcase_create("core");

	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, users_take_turns);
	tcase_add_test(tc, as_many_as_may);
	tcase_add_test(tc, alone_is_alone);
	tcase_add_test(tc, what_takes_long_makes_room);
	tcase_add_test(tc, one_leads_others_follow);
	tcase_add_test(tc, settling_waits_for_puts);
	suite_add_tcase(suite, tc);
	return unit_run(suite);
}
