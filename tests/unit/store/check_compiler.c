/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler: threads that run compiles, in the order of its scheduler; and flights. */
#include "store/internal.h"

#include <errno.h>
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

static void add(struct note *note, char name, uid_t user, bool front)
{
	*note = (struct note){ .job = { .run = run, .slot.user = user }, .name = name };
	pf_compiler_add(compiler, &note->job, front);
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

TEST(jobs_run_in_the_schedulers_order)
{
	struct note notes[6];

	open_compiler(1);
	add(&notes[0], 'a', 1, false);
	wait_begun(1);
	add(&notes[1], 'b', 1, false);
	add(&notes[2], 'c', 1, false);
	add(&notes[3], 'x', 2, false);
	add(&notes[4], 'F', 3, true);
	ck_assert_uint_eq(pf_sched_position(compiler->sched, &notes[0].job.slot), 0);
	ck_assert_uint_eq(pf_sched_position(compiler->sched, &notes[4].job.slot), 1);
	ck_assert_uint_eq(pf_sched_position(compiler->sched, &notes[1].job.slot), 2);
	finish(5);
	ck_assert_str_eq(begun, "aFbxc");
	ck_assert_uint_eq(most, 1);
}

TEST(as_many_jobs_run_as_there_are_slots)
{
	static struct note notes[MANY];

	open_compiler(3);
	for (int i = 0; i < MANY; i++)
		add(&notes[i], 'a', (uid_t)(i % 7), false);
	wait_begun(3);
	finish(MANY);
	ck_assert_uint_eq(most, 3);
}

/* Add the job again, twice, and free it at last. */
static void run_thrice(struct pf_compile_job *job)
{
	struct note *note = pf_container_of(job, struct note, job);

	if (note->name++ == '3')
		free(note);
	else
		pf_compiler_add(compiler, job, true);
	pf_lock(&lock);
	n_begun++;
	pthread_cond_broadcast(&change);
	pf_unlock(&lock);
}

TEST(a_job_may_be_queued_again_or_free_itself)
{
	open_compiler(1);
	for (unsigned i = 1; i <= 20; i++) {
		struct note *note = calloc(1, sizeof(*note));

		ck_assert_ptr_nonnull(note);
		*note = (struct note){ .job.run = run_thrice, .name = '1' };
		pf_compiler_add(compiler, &note->job, false);
		wait_begun(3 * i);
	}
	pf_compiler_free(compiler);
}

TEST(stopping_runs_the_queued_jobs)
{
	struct note notes[4];

	open_compiler(1);
	for (int i = 0; i < 3; i++)
		add(&notes[i], (char)('a' + i), 1, false);
	/* this user's compiles wait, but not for a compiler that ends */
	for (int i = 0; i < 5; i++)
		pf_quarantine_add(compiler->quarantine, PF_SUSPECT_COMPILE,
				  &(struct pf_cache_key){ .bytes = { 1 } }, 1,
				  &(struct pf_err){ .code = -EIO, .text = "it died" });
	let_end(3);
	pf_compiler_stop(compiler);
	ck_assert_str_eq(begun, "abc");
	let_end(1);
	add(&notes[3], 'd', 1, false); /* runs here */
	ck_assert_str_eq(begun, "abcd");
	pf_compiler_free(compiler);
}

/* The role of JOB in a flight of the program KEY on WORKER, with NAMES of inputs; as a leader it gets
 * *FLIGHT. */
static int joins_named(uint8_t key, const void *worker, const char *names,
		       struct note *note, struct pf_flight **flight)
{
	struct pf_cache_key k = { .bytes = { key } };
	struct pf_loaded *loaded = NULL;

	return pf_flight_join(compiler, &k, worker, names, &note->job, flight, &loaded);
}

static int joins(uint8_t key, const void *worker, struct note *note,
		 struct pf_flight **flight)
{
	return joins_named(key, worker, NULL, note, flight);
}

/* FLIGHT has failed; how many wait for it. */
static unsigned land(struct pf_flight *flight)
{
	struct pf_compile_jobs followers = STAILQ_HEAD_INITIALIZER(followers);
	struct pf_compile_job *job;
	unsigned n = 0;

	pf_flight_finish(compiler, flight, NULL, &followers);
	STAILQ_FOREACH(job, &followers, entry)
	n++;
	return n;
}

TEST(a_flight_has_one_leader)
{
	static struct note notes[4];
	static const char places[2]; /* of workers, which are only compared */
	struct pf_flight *first, *other, *there, *again;

	open_compiler(1);
	ck_assert_int_eq(joins(1, &places[0], &notes[0], &first), PF_LEADER);
	ck_assert_int_eq(joins(2, &places[0], &notes[1], &other), PF_LEADER);
	ck_assert_int_eq(joins(1, &places[0], &notes[2], &there), PF_FOLLOWER);
	ck_assert_int_eq(joins(1, &places[0], &notes[3], &there), PF_FOLLOWER);
	/* the same plugin under another name is none to share with */
	ck_assert_int_eq(joins(1, &places[1], &notes[1], &there), PF_LEADER);
	ck_assert_uint_eq(land(there), 0);
	/* both followers come back, and the next one begins anew */
	ck_assert_uint_eq(land(first), 2);
	ck_assert_int_eq(joins(1, &places[0], &notes[2], &again), PF_LEADER);
	ck_assert_uint_eq(land(other) + land(again), 0);
	pf_flight_drop(compiler, first);
	pf_flight_drop(compiler, other);
	pf_flight_drop(compiler, there);
	pf_flight_drop(compiler, again);
	ck_assert_int_eq(joins(2, &places[0], &notes[1], &other), PF_LEADER);
	pf_flight_drop(compiler, other);
	pf_compiler_free(compiler);
}

TEST(a_flight_is_of_one_list_of_names)
{
	static struct note notes[4];
	static const char worker;
	struct pf_flight *none, *names, *others, *there;

	open_compiler(1);
	ck_assert_int_eq(joins(1, &worker, &notes[0], &none), PF_LEADER);
	ck_assert_int_eq(joins_named(1, &worker, "xy", &notes[1], &names), PF_LEADER);
	ck_assert_int_eq(joins_named(1, &worker, "yx", &notes[2], &others), PF_LEADER);
	ck_assert_int_eq(joins_named(1, &worker, "xy", &notes[3], &there), PF_FOLLOWER);
	ck_assert_uint_eq(land(none) + land(others), 0);
	ck_assert_uint_eq(land(names), 1);
	pf_flight_drop(compiler, none);
	pf_flight_drop(compiler, names);
	pf_flight_drop(compiler, others);
	pf_compiler_free(compiler);
}

static _Atomic bool put_ends;

static void *end_put(void *arg)
{
	put_ends = true;
	pf_compiler_end_put(arg);
	return NULL;
}

TEST_TIMES(finishing_waits_for_a_put_of_another_thread, 20)
{
	pthread_t thread;

	open_compiler(1);
	put_ends = false;
	pf_compiler_begin_put(compiler);
	ck_assert_int_eq(pthread_create(&thread, NULL, end_put, compiler), 0);
	pf_compiler_finish(compiler, 60000);
	ck_assert(put_ends);
	pthread_join(thread, NULL);
	pf_compiler_free(compiler);
}

TEST(finishing_does_not_wait_for_ever)
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
