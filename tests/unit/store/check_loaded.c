/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled programs: what keeps and what drops them, and the worker's death. */
#include "store_fixture.h"

static struct pf_err err;
static struct pf_executable *x;

static void open_all(void)
{
	open_arena();
	err = (struct pf_err)PF_ERR_INIT;
}

static void close_all(void)
{
	pf_executable_unref(pf_steal(&x));
	close_store();
}

/* The loaded program, without waiting; a reference. */
static struct pf_loaded *load(void)
{
	struct pf_loaded *l = NULL;
	struct event ready;

	for (int i = 0; i < 3; i++) {
		int r = pf_executable_load(x, 0, event_init(&ready), &l, &err);

		ck_assert_msg(r >= 0, "%s", err.text);
		if (r == 1)
			break;
		event_wait(&ready);
	}
	ck_assert_ptr_nonnull(l);
	return l;
}

/* --- what keeps and what drops them ---------------------------------------------------- */

TEST(a_run_keeps_its_program)
{
	struct pf_loaded *l;

	start_faulty("");
	x = compiled(add_program);
	l = load();
	ck_assert_int_eq(pf_executable_truncate(x, 0, &err), 0);
	ck_assert_int_gt(pf_executable_write(x, add_program, strlen(add_program), 0,
					     &err),
			 0);
	ck_assert_int_eq(compile_it(x, &err), 0);
	pf_executable_unref(pf_steal(&x));
	ck_assert_uint_eq(l->signature->n_inputs, 2);
	pf_loaded_unref(l);
}

/* Beyond the limit the worker drops what was used longest ago, and gets it back when it is used;
 * what is in use it keeps. */
TEST(a_worker_holds_a_limited_number_of_programs)
{
	enum { N = 12, LIMIT = 4 };
	struct pf_loaded *used = NULL;
	struct pf_executable *many[N];
	struct named_exec run;
	char text[512];

	start_worker(plugins[0]);
	pf_loaded_limit(LIMIT);
	for (int i = 0; i < N; i++) {
		/* Equal programs at one time would be one to the worker. */
		ck_assert_int_lt(snprintf(text, sizeof(text), "%s// %d\n", add_program,
					  i),
				 (int)sizeof(text));
		many[i] = compiled(text);
		if (i == 0)
			used = pf_executable_loaded(many[0]);
		ck_assert_uint_le(pf_worker_alive(worker, PF_ALIVE_EXECUTABLES,
						  PF_NO_DEVICE),
				  LIMIT);
	}
	ck_assert_ptr_nonnull(used);
	for (int i = 0; i < N; i++) {
		struct pf_loaded *l = pf_executable_loaded(many[i]);

		if (i == 0 || i == N - 1)
			ck_assert_ptr_nonnull(l);
		if (i == 1)
			ck_assert_ptr_null(l);
		pf_loaded_unref(l);
		ck_assert_int_eq(pf_executable_state(many[i]), PF_EXECUTABLE_READY);
	}
	for (int i = 0; i < N; i++) {
		struct pf_value *args[] = { matrix(counts), matrix(ones) };

		run_init(&run, many[i], args, 2, 1);
		ck_assert_msg(run_it(&run) == 0, "%s", run.err.text);
		pf_execution_free(run.e);
		pf_value_unref(args[0]);
		pf_value_unref(args[1]);
		ck_assert_uint_le(pf_worker_alive(worker, PF_ALIVE_EXECUTABLES,
						  PF_NO_DEVICE),
				  LIMIT);
	}
	pf_loaded_unref(used);
	for (int i = 0; i < N; i++)
		pf_executable_unref(many[i]);
	/* A thread may still drop the reference that it computed with. */
	for (int ms = 0;
	     ms < 10000 && pf_worker_alive(worker, PF_ALIVE_EXECUTABLES, PF_NO_DEVICE);
	     ms++)
		usleep(1000);
	ck_assert_uint_eq(pf_worker_alive(worker, PF_ALIVE_EXECUTABLES, PF_NO_DEVICE), 0);
	pf_loaded_limit(0);
}

/* --- the worker's death -------------------------------------------------------------- */

TEST(a_death_causes_another_compile)
{
	struct pf_loaded *old, *l;

	start_worker(plugins[0]);
	x = compiled(add_program);
	old = load();
	replace_worker();
	l = load();
	ck_assert_ptr_ne(l, old);
	ck_assert(pf_instance_alive(l->instance));
	ck_assert(!pf_instance_alive(old->instance));
	pf_loaded_unref(l);
	pf_loaded_unref(old);
}

TEST(a_compile_that_kills_the_worker_says_so)
{
	start_faulty("compile=abort:Check failed: no");
	x = executable_of(add_program);
	ck_assert_int_eq(compile_it(x, &err), -EIO);
	ck_assert_ptr_nonnull(strstr(err.text, "died of signal 6"));
	ck_assert_ptr_nonnull(strstr(err.text, "Check failed: no"));
	ck_assert_int_eq(pf_executable_state(x), PF_EXECUTABLE_FAILED);
	setenv("PJRTFS_FAULTY", "", 1);
	pf_instance_unref(next_instance(NULL));
	replace_worker(); /* the first one may have begun with the fault */
	ck_assert_msg(compile_it(x, &err) == 0, "%s", err.text);
}

TEST(a_compile_waits_for_the_next_instance)
{
	struct pf_instance *instance;

	start_faulty("");
	x = executable_of(add_program);
	replace_worker();
	kill_worker();
	while ((instance = pf_worker_instance(worker, NULL))) {
		pf_instance_unref(instance);
		usleep(100);
	}
	ck_assert_msg(compile_it(x, &err) == 0, "%s", err.text);
}

TEST(without_a_worker_no_program_compiles)
{
	start_faulty("");
	x = executable_of(add_program);
	pf_worker_stop(worker);
	ck_assert_int_eq(compile_it(x, &err), -EIO);
	ck_assert_int_eq(pf_executable_state(x), PF_EXECUTABLE_FAILED);
}

/* A restart does not compile a source that is not committed. */
TEST(a_death_commits_nothing)
{
	struct pf_loaded *l;

	start_worker(plugins[0]);
	x = compiled(add_program);
	ck_assert_int_eq(pf_executable_write(x, "module { half a", 15, 0, &err), 15);
	l = load();
	pf_loaded_unref(l);
	replace_worker();
	l = load();
	pf_loaded_unref(l);
}

/* A name without an extension holds no program: load must not say that there is one. */
TEST(a_scratch_file_does_not_load_after_a_death)
{
	struct pf_loaded *l = NULL;
	struct event ready;

	start_faulty("");
	x = compiled(add_program);
	pf_executable_set_format(x, PF_PROGRAM_NONE);
	replace_worker();
	ck_assert(pf_executable_load(x, 0, event_init(&ready), &l, &err) != 1 || l);
	pf_loaded_unref(l);
}

UNIT_FIXTURE(open_all, close_all)
