/* SPDX-License-Identifier: Apache-2.0 */
/* Users' own workers: a process on demand, its end when it is idle, their number. */
#include "engine_fixture.h"

enum { SOON_S = 1, LATE_S = 600 };

/* The arena and the worker of user 1001. */
static struct pf_arena *home;
static struct pf_worker *own;

/* Start the shared worker, and make user 1001's own like it.  One own worker at a time has a
 * process, which ends after IDLE_S. */
static void start_shared(unsigned idle_s)
{
	struct pf_err err = PF_ERR_INIT;
	struct pf_worker_config config = { .name = "test",
					   .path = faulty_plugin(),
					   .program = worker_program(),
					   .arena = arena,
					   .pool_size = FIXTURE_POOL,
					   .own_most = 1,
					   .own_idle_s = idle_s };

	ck_assert_msg(pf_worker_new(&config, &worker, &err) == 0, "%s", err.text);
	ck_assert_int_eq(pf_arena_new_for(arena, 1001, &home, &err), 0);
	ck_assert_msg(pf_worker_new_own(worker, 1001, home, &own, &err) == 0, "%s",
		      err.text);
}

static void stop_all(void)
{
	pf_worker_free(own);
	stop_worker();
	pf_arena_free(home);
}

/* The instance of W, with a reference; it may have to be started. */
static struct pf_instance *use(struct pf_worker *w)
{
	struct pf_instance *instance;
	struct event next;

	for (int i = 0; i < 1000; i++) {
		int r = pf_worker_await(w, event_init(&next), &instance, NULL);

		ck_assert_int_ge(r, 0);
		if (r > 0)
			return instance;
		event_wait(&next);
	}
	ck_abort_msg("it does not start");
	return NULL;
}

static void wait_until(struct pf_worker *w, enum pf_worker_state state)
{
	for (int i = 0; i < 60000 && pf_worker_state(w) != state; i++)
		usleep(1000);
	ck_assert_int_eq(pf_worker_state(w), state);
}

TEST(a_process_starts_when_a_call_needs_it)
{
	struct pf_err err = PF_ERR_INIT;
	struct pf_instance *instance;
	unsigned restarts;
	pid_t pid;

	start_shared(LATE_S);
	ck_assert_int_eq(pf_worker_state(own), PF_WORKER_IDLE);
	ck_assert(pf_worker_is_idle(own));
	ck_assert_ptr_null(pf_worker_instance(own, &err));
	ck_assert_int_eq(err.code, -EIO);
	ck_assert_ptr_eq(pf_worker_description(own), pf_worker_description(worker));
	ck_assert_ptr_ne(pf_worker_sched(own), pf_worker_sched(worker));
	instance = use(own);
	pf_worker_pid(own, &pid, &restarts);
	ck_assert_int_gt(pid, 0);
	ck_assert_int_ne(pid, worker_pid());
	ck_assert_uint_eq(restarts, 0);
	pf_instance_unref(instance);
	stop_all();
}

TEST(an_idle_process_ends_and_makes_room_for_another_users)
{
	struct pf_err err = PF_ERR_INIT;
	struct pf_instance *first, *second;
	struct pf_worker *other;
	unsigned restarts;
	pid_t pid;

	start_shared(SOON_S);
	ck_assert_int_eq(pf_worker_new_own(worker, 1002, home, &other, &err), 0);
	first = use(own);
	wait_until(own, PF_WORKER_IDLE);
	ck_assert(!pf_instance_alive(first));
	pf_worker_pid(own, &pid, &restarts);
	ck_assert_int_eq(pid, 0);
	ck_assert_uint_eq(restarts, 0);
	pf_instance_unref(use(other));
	pf_worker_free(other);
	second = use(own); /* and the next call starts another one */
	ck_assert_ptr_ne(first, second);
	ck_assert_int_eq(pf_worker_state(worker), PF_WORKER_READY); /* it is shared */
	pf_instance_unref(first);
	pf_instance_unref(second);
	stop_all();
}

TEST(a_process_that_dies_is_restarted)
{
	struct pf_instance *first, *second;
	unsigned restarts;
	pid_t pid;

	start_shared(LATE_S);
	first = use(own);
	pf_worker_pid(own, &pid, &restarts);
	ck_assert_int_gt(pid, 0);
	kill(pid, SIGKILL);
	while (pf_instance_alive(first))
		usleep(1000);
	second = use(own);
	pf_worker_pid(own, &pid, &restarts);
	ck_assert_uint_eq(restarts, 1);
	pf_instance_unref(first);
	pf_instance_unref(second);
	stop_all();
}

TEST(no_more_users_have_a_process_than_the_limit_allows)
{
	struct pf_instance *instance, *none;
	struct pf_err err = PF_ERR_INIT;
	struct pf_worker *second;
	struct event next;

	start_shared(LATE_S);
	instance = use(own);
	ck_assert_int_eq(pf_worker_new_own(worker, 1002, home, &second, &err), 0);
	ck_assert_int_eq(pf_worker_await(second, event_init(&next), &none, &err),
			 -EUSERS);
	ck_assert_ptr_null(none);
	ck_assert_msg(strstr(err.text, "--isolate-max") != NULL, "%s", err.text);
	ck_assert_int_eq(pf_worker_state(second), PF_WORKER_IDLE);
	pf_instance_unref(instance);
	pf_worker_stop(own); /* its place is free */
	pf_instance_unref(use(second));
	pf_worker_free(second);
	stop_all();
}

TEST(a_stop_ends_an_idle_worker_and_its_waiters)
{
	struct pf_instance *instance;
	struct event next;

	start_shared(LATE_S);
	pf_worker_stop(own);
	ck_assert_int_eq(pf_worker_await(own, event_init(&next), &instance, NULL), -EIO);
	stop_all();
}

TEST(a_reference_shows_what_a_freed_worker_was)
{
	PF_CLEANUP(pf_worker_unrefp) struct pf_worker *freed = NULL;
	unsigned restarts;
	pid_t pid;

	start_shared(LATE_S);
	freed = pf_worker_ref(own);
	pf_instance_unref(use(own));
	stop_all();
	pf_worker_restart(freed);
	pf_worker_pid(freed, &pid, &restarts);
	ck_assert_int_eq(pid, 0);
	ck_assert_int_eq(pf_worker_state(freed), PF_WORKER_FAILED);
}

UNIT_FIXTURE(open_arena, close_arena)
