/* SPDX-License-Identifier: Apache-2.0 */
/* Executions: arguments checked, everything brought to the device, run; and failures. */
#include "values_fixture.h"

static struct pf_value *args[3];
static struct named_exec run;

static void close_all(void)
{
	pf_execution_free(pf_steal(&run.e));
	for (int i = 0; i < 3; i++)
		pf_value_unref(pf_steal(&args[i]));
	close_values();
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

/* Prepare the program anew, without the execution before. */
static struct pf_execution *again(void)
{
	pf_execution_free(pf_steal(&run.e));
	return run_init(&run, x, args, 2, 1);
}

static int run_again(void)
{
	again();
	return run_it(&run);
}

static void computes(void)
{
	ck_assert_msg(run_it(&run) == 0, "%s", run.err.text);
}

static const float *result(void)
{
	return fetch_value(run.e->outs[0].value);
}

static void check_sum(void)
{
	const float *sum = result();

	for (int i = 0; i < 6; i++)
		ck_assert_float_eq(sum[i], counts[i] + ones[i]);
}

/* --- what is right ------------------------------------------------------------------- */

TEST_ON_PLUGINS(an_execution_computes)
{
	prepare(plugins[_i]);
	for (int spin = 0; spin < 2; spin++) {
		pf_execution_start(again(), spin);
		event_wait(&run.ended);
		ck_assert_msg(run.code == 0, "%s", run.err.text);
		ck_assert_uint_eq(run.e->n_outs, 1);
		ck_assert(run.e->seconds >= run.e->device_seconds);
		ck_assert_double_gt(run.e->device_seconds, 0);
		check_sum();
	}
}

TEST(lists_have_no_name_that_is_too_long)
{
	char name[PF_SCHED_NAME + 1] = "";

	prepare(plugins[0]);
	memset(name, 'n', PF_SCHED_NAME);
	pf_execution_describe(again(), name, 0, 0, 0);
	ck_assert_str_eq(run.e->slot.work.name, "");
	pf_execution_describe(run.e, name + 1, 0, 0, 0);
	ck_assert_str_eq(run.e->slot.work.name, name + 1);
}

TEST(an_execution_waits_for_the_compile)
{
	start_worker(plugins[0]);
	x = executable_of(add_program);
	make_args();
	ok(pf_executable_compile(x, NULL, &err));
	again();
	computes();
	check_sum();
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
	struct pf_shape shape;
	unsigned device;
	const char *why;
} wrong_args[] = {
	{ PF_DTYPE_F32,
	  { 2, { 3, 2 } },
	  0,
	  "F32[3,2], the program wants F32[2,3]; the transposed array fits: a program from "
	  "Julia has the dimensions of Julia's arrays in reverse" },
	{ PF_DTYPE_S32,
	  { 2, { 2, 3 } },
	  0,
	  "S32[2,3], the program wants F32[2,3]: x.astype(\"float32\")" },
	{ PF_DTYPE_F32,
	  { 1, { 6 } },
	  0,
	  "F32[6], the program wants F32[2,3]: x.reshape(2,3)" },
	{ PF_DTYPE_F32, { 0 }, 0, "F32[], the program wants F32[2,3]" },
	{ PF_DTYPE_F32,
	  { 2, { 2, 3 } },
	  1,
	  "on device test:1, the program runs on test:0" },
};

TEST_EACH(the_arguments_are_checked, wrong_args)
{
	char why[256];

	start_worker(plugins[0]);
	x = compiled(add_program);
	args[0] = matrix(counts);
	args[1] = value_of(wrong_args[_i].dtype, &wrong_args[_i].shape, counts, 24,
			   wrong_args[_i].device);
	ck_assert_int_eq(run_again(), -EINVAL);
	snprintf(why, sizeof(why), "prog: input 1 (y): b is %s", wrong_args[_i].why);
	ck_assert_str_eq(run.err.text, why);
	/* Refused before anything was sent. */
	ck_assert_uint_eq(args[0]->id, 0);
}

TEST(a_source_that_failed_does_not_run)
{
	start_faulty("compile=error:INVALID_ARGUMENT:bad op");
	x = executable_of(add_program);
	run_init(&run, x, NULL, 0, 0);
	ck_assert_int_eq(run_it(&run), -ENOENT);
	ck_assert_str_eq(run.err.text,
			 "prog: its file in programs/ is empty, or was not closed yet");
	pf_execution_free(run.e);
	ck_assert_int_eq(try_compile(x), -EINVAL);
	run_init(&run, x, NULL, 0, 0);
	ck_assert_int_eq(run_it(&run), -EINVAL);
	ck_assert_int_eq(strncmp(run.err.text, "prog: it did not compile: ", 26), 0);
	ck_assert_ptr_nonnull(strstr(run.err.text, "bad op"));
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
		place_value(args[0]);
	if (deaths[_i].results) {
		ck_assert_int_eq(run_again(), 0);
		pf_value_unref(args[1]);
		args[1] = pf_steal(&run.e->outs[0].value);
	}
	replace_worker();
	again();
	computes();
	ck_assert_float_eq(result()[5], deaths[_i].results ? 13 : 7);
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

/* --- donation ------------------------------------------------------------------------ */

TEST(a_donated_argument_cannot_be_read)
{
	prepare(plugins[0]);
	again()->args[0].donate = true;
	computes();
	check_sum();
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
	again()->args[0].donate = true;
	ck_assert_int_eq(run_it(&run), -EIO);
	ck_assert_int_eq(pf_value_state(args[0], NULL), PF_VALUE_READY);
	ck_assert_mem_eq(pf_value_host(args[0]), counts, 24);
}

TEST(readers_of_a_donated_argument_keep_its_bytes)
{
	prepare(plugins[0]);
	for (int i = 0; i < 2; i++) { /* bytes of a user's, then a result's */
		pf_value_pin(args[0]);
		again()->args[0].donate = true;
		computes();
		ck_assert_float_eq(((const float *)pf_value_host(args[0]))[5],
				   counts[5] + (float)i);
		ck_assert_int_eq(pf_value_state(args[0], NULL), PF_VALUE_DONATED);
		pf_value_unpin(args[0]);
		pf_value_unref(args[0]);
		args[0] = pf_steal(&run.e->outs[0].value);
	}
}

/* --- cancelling ---------------------------------------------------------------------- */

static bool always(struct pf_execution *e)
{
	(void)e;
	return true;
}

TEST(a_cancelled_run_is_not_sent)
{
	prepare_faulty("execute=abort");
	again()->cancelled = always;
	ck_assert_int_eq(run_it(&run), -ECANCELED);
	ck_assert_str_eq(run.err.text, "prog: cancelled before it began");
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
		    try_fetch(mine.e->outs[0].value, NULL) != 1 ||
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

/* --- lent bytes: bytes in, bytes out --------------------------------------------------- */

/*
 * Have R ready with its program as it is loaded now; the first input is FIRST or, if it is NULL,
 * counts, which are lent as ones are for the second.
 */
static void lend_init(struct named_exec *r, struct pf_value *first)
{
	const uint64_t offs[2] = { 0, 64 };
	unsigned n_lent = first ? 1 : 2;
	struct pf_loaded *loaded = NULL;
	struct pf_bytes *bytes;

	ck_assert_msg(pf_executable_load(x, 0, NULL, &loaded, &err) == 1, "%s", err.text);
	ok(pf_bytes_new(arena, NULL, 128, &bytes, &err));
	memcpy(pf_bytes_at(bytes, 0), counts, sizeof(counts));
	memcpy(pf_bytes_at(bytes, 64), ones, sizeof(ones));
	ok(pf_execution_check_lent(loaded, &loaded->signature->inputs[2 - n_lent], n_lent,
				   &err));
	run_init(r, x, NULL, 2, 0);
	free(pf_steal(&r->e->name)); /* a call has none */
	if (first) {
		r->e->args[0].value = pf_value_ref(first);
		r->e->args[0].name = "bound";
	}
	pf_execution_lend(r->e, loaded, bytes, &offs[2 - n_lent]);
	pf_bytes_unref(bytes);
	pf_loaded_unref(loaded);
}

static void prepare_lent(const char *plugin)
{
	start_worker(plugin);
	x = compiled(add_program);
}

static void lend(struct pf_value *first)
{
	pf_execution_free(pf_steal(&run.e));
	lend_init(&run, first);
}

static void lent_computes(void)
{
	computes();
	ck_assert_uint_eq(run.e->n_outs, 1);
	ck_assert(run.e->outs[0].transient);
	for (int i = 0; i < 6; i++)
		ck_assert_float_eq(run.small[i], counts[i] + ones[i]);
}

TEST_ON_PLUGINS(values_and_bytes_are_arguments_of_one_execution)
{
	const struct pf_shape six = { .rank = 1, .dims = { 6 } };

	prepare_lent(plugins[_i]);
	args[0] = matrix(counts);
	lend(NULL);
	lent_computes();
	lend(NULL); /* never started */
	for (int i = 0; i < 20; i++) {
		lend(args[0]);
		lent_computes();
	}
	/* Its device's copy goes with the worker, and comes again. */
	lend(args[0]);
	replace_worker();
	lent_computes();
	args[1] = value_of(PF_DTYPE_F32, &six, counts, 24, 0);
	lend(args[1]);
	ck_assert_int_eq(run_it(&run), -EINVAL);
	ck_assert_ptr_nonnull(strstr(run.err.text, "bound is F32[6]"));
}

/* Results of 64 KiB, which the worker copies, and of 4 MiB, which it leaves where they are. */
static const int lengths[] = { 16 << 10, 1 << 20 };

TEST_EACH(large_results_are_read_in_the_pool, lengths)
{
	const int n = lengths[_i];
	uint64_t before;

	start_worker(plugins[0]);
	x = compiled_count(n);
	before = used();
	lend(NULL);
	computes();
	ck_assert(!run.e->outs[0].transient);
	ck_assert_uint_eq(run.e->outs[0].len, (uint64_t)n * 4);
	ck_assert_uint_ge(used(), before + (uint64_t)n * 4);
	kill_worker(); /* reading the results needs no worker */
	check_count(run.e->outs[0].data, n);
	pf_execution_free(pf_steal(&run.e));
	ck_assert_uint_eq(used(), before);
}

/* A worker that died after the inputs were checked: the program is compiled again first, unless in
 * the next instance another executable has the same. */
TEST_TIMES(a_death_before_the_call_does_not_fail_it, 2)
{
	struct pf_executable *same;

	prepare_lent(plugins[0]);
	lend(NULL);
	replace_worker();
	same = _i ? compiled(add_program) : NULL;
	lent_computes();
	pf_executable_unref(same);
}

TEST(a_replaced_program_is_refused)
{
	static const char other[] =
		"module @other {\n"
		"  func.func public @main(%x: tensor<f32>) -> tensor<f32> {\n"
		"    return %x : tensor<f32>\n"
		"  }\n"
		"}\n";

	prepare_lent(plugins[0]);
	lend(NULL);
	rewrite(other);
	compile_it(x);
	replace_worker();
	ck_assert_int_eq(run_it(&run), -ECANCELED);
}

/* --- failures, of values and of lent bytes --------------------------------------------- */

static const struct {
	const char *fault;
	int code, pjrt_code;
	const char *why, *why_lent; /* NULL: the same */
} faults[] = {
	{ "execute=error:RESOURCE_EXHAUSTED:out of memory", -ENOSPC, 8, "out of memory",
	  NULL },
	{ "execute=error:INTERNAL:oops", -EIO, 13, "oops", NULL },
	{ "execute=event-error:DATA_LOSS:late oops", -EIO, 15, "late oops", NULL },
	{ "upload=error:INVALID_ARGUMENT:bad bytes", -EINVAL, 3,
	  "input 0 (x): a: ", "input 0: " },
	{ "execute=abort:Check failed: x", -EIO, -1, "Check failed: x", NULL },
	{ "execute=segv", -EIO, -1, "died of signal 11", NULL },
	{ "execute=exit:7", -EIO, -1, "exited with status 7", NULL },
};

static void check_failure(const char *why, const struct pf_err *want)
{
	ck_assert_int_eq(run_it(&run), want->code);
	ck_assert_int_eq(run.err.pjrt_code, want->pjrt_code);
	ck_assert_msg(strstr(run.err.text, why) != NULL, "%s", run.err.text);
}

TEST_EACH(failures_are_reported, faults)
{
	const struct pf_err want = { .code = faults[_i].code,
				     .pjrt_code = faults[_i].pjrt_code };

	prepare_faulty(faults[_i].fault);
	again();
	check_failure(faults[_i].why, &want);
	ck_assert_int_eq(strncmp(run.err.text, "prog: ", 6), 0);
}

TEST_EACH(failures_with_lent_bytes_are_reported, faults)
{
	const struct pf_err want = { .code = faults[_i].code,
				     .pjrt_code = faults[_i].pjrt_code };

	prepare_faulty(faults[_i].fault);
	lend(NULL);
	check_failure(faults[_i].why_lent ? faults[_i].why_lent : faults[_i].why, &want);
	ck_assert_int_ne(strncmp(run.err.text, "prog: ", 6), 0);
}

TEST_TIMES(stopping_ends_running_executions, 2)
{
	struct named_exec runs[20];

	prepare_faulty("execute=hang:it hangs");
	for (int i = 0; i < 20; i++) {
		if (_i)
			lend_init(&runs[i], NULL);
		else
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

UNIT_FIXTURE(open_values, close_all)
