/* SPDX-License-Identifier: Apache-2.0 */
/* Executions: arguments checked, everything brought to the device, run; and failures. */
#include "store_fixture.h"

static struct pf_err err;
static struct pf_executable *x;
static struct pf_value *args[3];
static struct named_exec run;

static void open_all(void)
{
	open_arena();
	err = (struct pf_err)PF_ERR_INIT;
}

static void close_all(void)
{
	pf_execution_free(pf_steal(&run.e));
	for (int i = 0; i < 3; i++)
		pf_value_unref(pf_steal(&args[i]));
	pf_executable_unref(pf_steal(&x));
	close_store();
}

static void make_args(void)
{
	args[0] = matrix(counts);
	args[1] = matrix(ones);
	args[2] = matrix(ones);
}

/* Start PLUGIN: a program, compiled, and its arguments. */
static void prepare(const char *plugin)
{
	start_worker(plugin);
	x = compiled(add_program);
	make_args();
}

/* The same with the plugin that fails as FAULT says. */
static void prepare_faulty(const char *fault)
{
	setenv("PJRTFS_FAULTY", fault, 1);
	prepare(faulty_plugin());
}

/* Free the execution before, and run the program again. */
static int run_again(void)
{
	pf_execution_free(pf_steal(&run.e));
	run_init(&run, x, args, 2, 1);
	return run_it(&run);
}

static void check_sum(struct pf_value *v, const float *a, const float *b)
{
	const float *sum;

	ck_assert_msg(fetch_value(v, &err) == 1, "%s", err.text);
	sum = pf_value_host(v);
	for (int i = 0; i < 6; i++)
		ck_assert_float_eq(sum[i], a[i] + b[i]);
}

/* --- what is right ------------------------------------------------------------------- */

TEST_ON_PLUGINS(an_execution_computes)
{
	prepare(plugins[_i]);
	for (int spin = 0; spin < 2; spin++) {
		run_init(&run, x, args, 2, 1);
		pf_execution_start(run.e, spin);
		event_wait(&run.ended);
		ck_assert_msg(run.code == 0, "%s", run.err.text);
		ck_assert_uint_eq(run.e->n_outs, 1);
		ck_assert(run.e->seconds >= run.e->device_seconds);
		ck_assert_double_gt(run.e->device_seconds, 0);
		check_sum(run.e->outs[0].value, counts, ones);
		pf_execution_free(pf_steal(&run.e));
	}
}

TEST(results_are_arguments)
{
	prepare(plugins[0]);
	for (int i = 0; i < 50; i++) {
		ck_assert_msg(run_again() == 0, "%s", run.err.text);
		pf_value_unref(args[0]);
		args[0] = pf_steal(&run.e->outs[0].value);
	}
	ck_assert_int_eq(fetch_value(args[0], &err), 1);
	ck_assert_float_eq(((const float *)pf_value_host(args[0]))[5], 56);
}

TEST(an_execution_waits_for_the_compile)
{
	start_worker(plugins[0]);
	x = executable_of(add_program);
	make_args();
	ck_assert_int_eq(pf_executable_compile(x, NULL, &err), 0);
	ck_assert_msg(run_again() == 0, "%s", run.err.text);
	check_sum(run.e->outs[0].value, counts, ones);
}

/* --- what is wrong ------------------------------------------------------------------- */

static const struct {
	size_t n, outs;
	const char *why;
} amounts[] = {
	{ 0, 1, "prog: the program takes 2 inputs, 0 were given" },
	{ 1, 1, "prog: the program takes 2 inputs, 1 was given" },
	{ 3, 1, "prog: the program takes 2 inputs, 3 were given" },
	{ 2, 0, "prog: the program gives 1 output, 0 names were given" },
	{ 2, 2, "prog: the program gives 1 output, 2 names were given" },
};

TEST_EACH(the_argument_counts_are_checked, amounts)
{
	prepare_faulty("");
	run_init(&run, x, args, amounts[_i].n, amounts[_i].outs);
	ck_assert_int_eq(run_it(&run), -EINVAL);
	ck_assert_str_eq(run.err.text, amounts[_i].why);
	ck_assert_int_eq(run.err.code, -EINVAL);
}

static const struct {
	enum pf_dtype dtype;
	unsigned rank;
	int64_t a, b;
	unsigned device;
	const char *why;
} wrong_args[] = {
	{ PF_DTYPE_F32, 2, 3, 2, 0, ": b is F32[3,2], the program wants F32[2,3]" },
	{ PF_DTYPE_S32, 2, 2, 3, 0, ": b is S32[2,3], the program wants F32[2,3]" },
	{ PF_DTYPE_F32, 1, 6, 0, 0, ": b is F32[6], the program wants F32[2,3]" },
	{ PF_DTYPE_F32, 0, 0, 0, 0, ": b is F32[], the program wants F32[2,3]" },
	{ PF_DTYPE_F32, 2, 2, 3, 1,
	  "prog: input 1 (y): b is on device test:1, the program runs on test:0" },
};

TEST_EACH(the_arguments_are_checked, wrong_args)
{
	struct pf_shape shape = { .rank = wrong_args[_i].rank,
				  .dims = { wrong_args[_i].a, wrong_args[_i].b } };

	start_worker(plugins[0]);
	x = compiled(add_program);
	args[0] = matrix(counts);
	args[1] =
		value_of(wrong_args[_i].dtype, &shape, counts, 24, wrong_args[_i].device);
	ck_assert_int_eq(run_again(), -EINVAL);
	ck_assert_int_eq(strncmp(run.err.text, "prog: input 1", 13), 0);
	ck_assert_msg(strstr(run.err.text, wrong_args[_i].why) != NULL, "%s",
		      run.err.text);
	/* Refused before anything was sent. */
	ck_assert_uint_eq(args[0]->id, 0);
}

TEST(a_source_that_failed_does_not_run)
{
	start_faulty("compile=error:INVALID_ARGUMENT:bad op");
	x = executable_of(add_program);
	run_init(&run, x, NULL, 0, 0);
	ck_assert_int_eq(run_it(&run), -ENOENT);
	ck_assert_str_eq(run.err.text, "prog: it has no program yet");
	pf_execution_free(run.e);
	ck_assert_int_eq(compile_it(x, &err), -EINVAL);
	run_init(&run, x, NULL, 0, 0);
	ck_assert_int_eq(run_it(&run), -EINVAL);
	ck_assert_int_eq(strncmp(run.err.text, "prog: it did not compile: ", 26), 0);
	ck_assert_ptr_nonnull(strstr(run.err.text, "bad op"));
}

static const struct {
	const char *fault;
	int code, pjrt_code;
	const char *why;
} faults[] = {
	{ "execute=error:RESOURCE_EXHAUSTED:out of memory", -ENOSPC, 8, "out of memory" },
	{ "execute=error:INTERNAL:oops", -EIO, 13, "oops" },
	{ "execute=event-error:DATA_LOSS:late oops", -EIO, 15, "late oops" },
	{ "upload=error:INVALID_ARGUMENT:bad bytes", -EINVAL, 3,
	  "prog: input 0 (x): a: " },
	{ "execute=abort:Check failed: x", -EIO, -1, "Check failed: x" },
	{ "execute=segv", -EIO, -1, "died of signal 11" },
	{ "execute=exit:7", -EIO, -1, "exited with status 7" },
};

TEST_EACH(failures_are_reported, faults)
{
	prepare_faulty(faults[_i].fault);
	ck_assert_int_eq(run_again(), faults[_i].code);
	ck_assert_int_eq(run.err.pjrt_code, faults[_i].pjrt_code);
	ck_assert_int_eq(strncmp(run.err.text, "prog: ", 6), 0);
	ck_assert_msg(strstr(run.err.text, faults[_i].why) != NULL, "%s", run.err.text);
}

/* --- the worker's death -------------------------------------------------------------- */

/* The worker dies between runs; the next run loads and uploads everything again. */
static const struct {
	bool placed, results;
} deaths[] = { { false, false }, { true, false }, { true, true } };

TEST_EACH(a_death_between_runs_fails_no_run, deaths)
{
	prepare(plugins[0]);
	if (deaths[_i].placed)
		ck_assert_int_eq(place_value(args[0], &err), 1);
	if (deaths[_i].results) {
		ck_assert_int_eq(run_again(), 0);
		pf_value_unref(args[1]);
		args[1] = pf_steal(&run.e->outs[0].value);
	}
	replace_worker();
	ck_assert_msg(run_again() == 0, "%s", run.err.text);
	ck_assert_int_eq(fetch_value(run.e->outs[0].value, &err), 1);
	ck_assert_float_eq(((const float *)pf_value_host(run.e->outs[0].value))[5],
			   deaths[_i].results ? 13 : 7);
}

/* The worker dies repeatedly during loads and uploads: every run ends. */
TEST(a_worker_that_keeps_dying_hangs_no_execution)
{
	struct named_exec runs[8];

	prepare(plugins[0]);
	for (int i = 0; i < 8; i++) {
		if (i % 2)
			kill_worker();
		run_init(&runs[i], x, args, 2, 1);
		pf_execution_start(runs[i].e, i % 3);
		usleep((unsigned)i * 3000); /* real time: the worker dies at any moment */
	}
	for (int i = 0; i < 8; i++) {
		event_wait(&runs[i].ended);
		ck_assert_int_eq(event_count(&runs[i].ended), 1);
		ck_assert_msg(runs[i].code == 0 || runs[i].code == -EIO, "%s",
			      runs[i].err.text);
		pf_execution_free(runs[i].e);
	}
}

TEST(stopping_ends_running_executions)
{
	struct named_exec runs[20];

	prepare_faulty("execute=hang:it hangs");
	for (int i = 0; i < 20; i++) {
		run_init(&runs[i], x, args, 2, 1);
		pf_execution_start(runs[i].e, false);
	}
	await_print("it hangs");
	pf_worker_stop(worker);
	for (int i = 0; i < 20; i++) {
		event_wait(&runs[i].ended);
		ck_assert_int_eq(runs[i].code, -EIO);
		pf_execution_free(runs[i].e);
	}
}

/* --- donation ------------------------------------------------------------------------ */

TEST(a_donated_argument_cannot_be_read)
{
	prepare(plugins[0]);
	run_init(&run, x, args, 2, 1)->args[0].donate = true;
	ck_assert_msg(run_it(&run) == 0, "%s", run.err.text);
	check_sum(run.e->outs[0].value, counts, ones);
	ck_assert_int_eq(pf_value_state(args[0], NULL), PF_VALUE_DONATED);
	ck_assert_ptr_null(pf_value_host(args[0]));
	ck_assert_int_eq(pf_value_state(args[1], NULL), PF_VALUE_READY);
	ck_assert_int_eq(run_again(), -EINVAL);
	ck_assert_str_eq(
		run.err.text,
		"prog: input 0 (x): a: its value was donated to an execution and is gone");
}

TEST(a_failed_run_consumes_nothing)
{
	prepare_faulty("execute=error:INTERNAL:oops");
	run_init(&run, x, args, 2, 1)->args[0].donate = true;
	ck_assert_int_eq(run_it(&run), -EIO);
	ck_assert_int_eq(pf_value_state(args[0], NULL), PF_VALUE_READY);
	ck_assert_int_eq(memcmp(pf_value_host(args[0]), counts, 24), 0);
}

TEST(readers_of_a_donated_argument_keep_its_bytes)
{
	prepare(plugins[0]);
	for (int i = 0; i < 2; i++) { /* bytes of a user's, then a result's */
		pf_value_pin(args[0]);
		run_init(&run, x, args, 2, 1)->args[0].donate = true;
		ck_assert_msg(run_it(&run) == 0, "%s", run.err.text);
		ck_assert_float_eq(((const float *)pf_value_host(args[0]))[5],
				   counts[5] + (float)i);
		ck_assert_int_eq(pf_value_state(args[0], NULL), PF_VALUE_DONATED);
		pf_value_unpin(args[0]);
		pf_value_unref(args[0]);
		args[0] = pf_steal(&run.e->outs[0].value);
		pf_execution_free(pf_steal(&run.e));
	}
}

/* --- cancelling and freeing ---------------------------------------------------------- */

static bool always(struct pf_execution *e)
{
	(void)e;
	return true;
}

TEST(a_cancelled_run_is_not_sent)
{
	prepare_faulty("execute=abort");
	run_init(&run, x, args, 2, 1)->cancelled = always;
	ck_assert_int_eq(run_it(&run), -ECANCELED);
	ck_assert_str_eq(run.err.text, "prog: cancelled before it began");
}

TEST(an_execution_that_never_started_is_freed)
{
	start_faulty("");
	x = executable_of(add_program);
	make_args();
	run_init(&run, x, args, 2, 1);
	pf_execution_free(NULL);
}

/* --- threads ------------------------------------------------------------------------- */

static _Atomic unsigned wrong;

static void *run_main(void *arg)
{
	(void)arg;
	for (int i = 0; i < 100; i++) {
		struct named_exec mine;

		run_init(&mine, x, args, 2, 1);
		pf_execution_start(mine.e, i % 2);
		if (!event_within(&mine.ended, 60) || mine.code ||
		    fetch_value(mine.e->outs[0].value, NULL) != 1 ||
		    ((const float *)pf_value_host(mine.e->outs[0].value))[5] < 7)
			atomic_fetch_add(&wrong, 1);
		pf_execution_free(mine.e);
	}
	return NULL;
}

TEST(many_threads_execute_at_once)
{
	pthread_t threads[4];

	prepare(plugins[0]);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, run_main, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(wrong, 0);
}

UNIT_FIXTURE(open_all, close_all)
