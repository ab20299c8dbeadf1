/* SPDX-License-Identifier: Apache-2.0 */
/* A worker between two instances: callers wait, and a stop ends the waiting. */
#include "engine_fixture.h"

/* pf_worker_await either gives an instance or wakes the waiter for the next one. */
TEST(a_caller_gets_an_instance_or_a_wait)
{
	struct event next;
	struct pf_instance *instance, *before = NULL;
	int waits = 0;

	start_worker(faulty_plugin());
	for (int i = 0; i < 5; i++) {
		kill_worker();
		for (;;) {
			int r = pf_worker_await(worker, event_init(&next), &instance,
						NULL);

			ck_assert_int_ge(r, 0);
			ck_assert_int_eq(instance != NULL, r);
			if (instance && instance != before)
				break;
			pf_instance_unref(instance);
			if (r == 0)
				event_wait(&next);
			else
				usleep(100); /* its death is not noticed yet */
			waits += r == 0;
		}
		pf_instance_unref(before);
		before = instance;
	}
	ck_assert_int_gt(waits, 0);
	pf_instance_unref(before);
	pf_worker_stop(worker);
	ck_assert_int_eq(pf_worker_await(worker, event_init(&next), &instance, NULL),
			 -EIO);
	stop_worker();
}

TEST(a_start_wakes_the_waiters)
{
	struct event waiting;
	struct pf_instance *instance;

	start_worker(faulty_plugin());
	ck_assert(!pf_worker_wait(worker, event_init(&waiting)));
	for (int i = 0; i < 3; i++) {
		kill_worker();
		instance = pf_worker_instance(worker, NULL);
		while (instance && pf_instance_alive(instance))
			usleep(100);
		pf_instance_unref(instance);
		if (pf_worker_wait(worker, event_init(&waiting)))
			event_wait(&waiting);
		instance = pf_worker_instance(worker, NULL);
		ck_assert_ptr_nonnull(instance);
		pf_instance_unref(instance);
	}
	stop_worker();
}

TEST(stopping_wakes_the_waiters)
{
	struct event waiting;
	struct pf_err err = PF_ERR_INIT;

	start_worker(faulty_plugin());
	setenv("PJRTFS_FAULTY", "client=error:INTERNAL:not today", 1);
	kill_worker();
	while (pf_worker_state(worker) == PF_WORKER_READY)
		usleep(1000);
	ck_assert_ptr_null(pf_worker_instance(worker, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "(it is being started again)"));
	/* A failed start wakes the waiters too; the delay before each next start grows. */
	for (int i = 0; i < 3; i++) {
		ck_assert(pf_worker_wait(worker, event_init(&waiting)));
		event_wait(&waiting);
	}
	pf_worker_instance(worker, &err);
	ck_assert_msg(strstr(err.text, "not today") != NULL, "%s", err.text);
	ck_assert(pf_worker_wait(worker, event_init(&waiting)));
	pf_worker_stop(worker);
	ck_assert_int_eq(event_count(&waiting), 1);
	stop_worker();
}

/* A plugin that hangs while it is loaded again delays no unmount. */
TEST(stopping_ends_a_restart)
{
	struct event waiting;

	start_worker(faulty_plugin());
	setenv("PJRTFS_FAULTY", "client=hang:it hangs", 1);
	kill_worker();
	while (pf_worker_state(worker) == PF_WORKER_READY)
		usleep(1000);
	ck_assert(pf_worker_wait(worker, event_init(&waiting)));
	await_print("it hangs");
	pf_worker_stop(worker);
	ck_assert_int_eq(event_count(&waiting), 1);
	stop_worker();
}

UNIT_FIXTURE(open_arena, close_arena)
