/* SPDX-License-Identifier: Apache-2.0 */
/* Executions on lent bytes: bytes in, bytes out; failures; what they take is given back. */
#include "store_fixture.h"

static struct pf_err err;

static void open_all(void)
{
	open_arena();
	err = (struct pf_err)PF_ERR_INIT;
}

static void close_all(void)
{
	stop_worker();
	close_arena();
}

/* An execution and its end. */
struct trial {
	struct pf_execution *e;
	struct event ended;
	int code;
	struct pf_err err;
	float small[6]; /* of a result that is transient */
};

static void trial_done(struct pf_execution *e, int code, const struct pf_err *why)
{
	struct trial *t = e->user;

	t->code = code;
	if (code < 0)
		t->err = *why;
	else if (e->n_outs && e->outs[0].transient && e->outs[0].len == sizeof(t->small))
		memcpy(t->small, e->outs[0].data, sizeof(t->small));
	event_fire(&t->ended);
}

static struct pf_loaded *load(struct pf_executable *x)
{
	struct pf_loaded *loaded = NULL;

	ck_assert_msg(pf_executable_load(x, 0, NULL, &loaded, &err) == 1, "%s", err.text);
	return loaded;
}

/* X of counts and ones, as LOADED (a reference that is taken). */
static void trial_init(struct trial *t, struct pf_executable *x, struct pf_loaded *loaded)
{
	const uint64_t offs[2] = { 0, 64 };
	struct pf_bytes *bytes;

	memset(t, 0, sizeof(*t));
	event_init(&t->ended);
	ck_assert_int_eq(pf_bytes_new(arena, NULL, 128, &bytes, &err), 0);
	memcpy(pf_bytes_at(bytes, 0), counts, sizeof(counts));
	memcpy(pf_bytes_at(bytes, 64), ones, sizeof(ones));
	ck_assert_int_eq(pf_execution_check_lent(loaded, loaded->signature->inputs,
						 loaded->signature->n_inputs, &err),
			 0);
	t->e = pf_execution_new(x, loaded->signature->n_inputs, 1);
	ck_assert_ptr_nonnull(t->e);
	pf_execution_lend(t->e, loaded, bytes, offs);
	pf_bytes_unref(bytes);
	pf_loaded_unref(loaded);
	t->e->user = t;
	t->e->done = trial_done;
}

static int trial_run(struct trial *t)
{
	pf_execution_start(t->e, false);
	event_wait(&t->ended);
	ck_assert_int_eq(event_count(&t->ended), 1);
	return t->code;
}

static void check_small(const struct trial *t)
{
	for (int i = 0; i < 6; i++)
		ck_assert_float_eq(t->small[i], counts[i] + ones[i]);
}

TEST_ON_PLUGINS(a_lent_execution_computes)
{
	struct pf_executable *x;
	struct trial t;

	start_worker(plugins[_i]);
	x = compiled(add_program);
	for (int i = 0; i < 20; i++) {
		trial_init(&t, x, load(x));
		ck_assert_msg(trial_run(&t) == 0, "%s", t.err.text);
		ck_assert_uint_eq(t.e->n_outs, 1);
		ck_assert(t.e->outs[0].transient);
		check_small(&t);
		pf_execution_free(t.e);
	}
	trial_init(&t, x, load(x)); /* never started */
	pf_execution_free(t.e);
	pf_executable_unref(x);
}

/* X's first input is VALUE, and ones are lent as the second. */
static void trial_init_bound(struct trial *t, struct pf_executable *x,
			     struct pf_value *value)
{
	const uint64_t offs[1] = { 0 };
	struct pf_loaded *loaded = load(x);
	struct pf_bytes *bytes;

	memset(t, 0, sizeof(*t));
	event_init(&t->ended);
	ck_assert_int_eq(pf_bytes_new(arena, NULL, 64, &bytes, &err), 0);
	memcpy(pf_bytes_at(bytes, 0), ones, sizeof(ones));
	ck_assert_int_eq(pf_execution_check_lent(loaded, &loaded->signature->inputs[1], 1,
						 &err),
			 0);
	t->e = pf_execution_new(x, 2, 1);
	ck_assert_ptr_nonnull(t->e);
	t->e->args[0].value = pf_value_ref(value);
	t->e->args[0].name = "bound";
	pf_execution_lend(t->e, loaded, bytes, offs);
	pf_bytes_unref(bytes);
	pf_loaded_unref(loaded);
	t->e->user = t;
	t->e->done = trial_done;
}

TEST_ON_PLUGINS(values_and_bytes_are_arguments_of_one_execution)
{
	const struct pf_shape six = { .rank = 1, .dims = { 6 } };
	struct pf_executable *x;
	struct pf_value *v, *wrong;
	struct trial t;

	start_worker(plugins[_i]);
	x = compiled(add_program);
	v = matrix(counts);
	for (int i = 0; i < 20; i++) {
		trial_init_bound(&t, x, v);
		ck_assert_msg(trial_run(&t) == 0, "%s", t.err.text);
		check_small(&t);
		pf_execution_free(t.e);
	}
	/* Its device's copy goes with the worker, and comes again. */
	trial_init_bound(&t, x, v);
	replace_worker();
	ck_assert_msg(trial_run(&t) == 0, "%s", t.err.text);
	check_small(&t);
	pf_execution_free(t.e);
	wrong = value_of(PF_DTYPE_F32, &six, counts, 24, 0);
	trial_init_bound(&t, x, wrong);
	ck_assert_int_eq(trial_run(&t), -EINVAL);
	ck_assert_ptr_nonnull(strstr(t.err.text, "bound is F32[6]"));
	pf_execution_free(t.e);
	pf_value_unref(wrong);
	pf_value_unref(v);
	pf_executable_unref(x);
}

/* Results of 64 KiB, which the worker copies, and of 4 MiB, which it leaves where they are. */
static const int lengths[] = { 16 << 10, 1 << 20 };

TEST_EACH(large_results_are_read_in_the_pool, lengths)
{
	const int n = lengths[_i];
	uint64_t before, used, limit;
	struct pf_executable *x;
	char text[512];
	struct trial t;
	int wrong = 0;

	start_worker(plugins[0]);
	snprintf(text, sizeof(text),
		 "module @wide {\n"
		 "  func.func public @main(%%x: tensor<2x3xf32>, %%y: tensor<2x3xf32>)\n"
		 "      -> tensor<%dxf32> {\n"
		 "    %%0 = stablehlo.iota dim = 0 : tensor<%dxf32>\n"
		 "    return %%0 : tensor<%dxf32>\n"
		 "  }\n"
		 "}\n",
		 n, n, n);
	x = compiled(text);
	pf_arena_usage(arena, &before, &limit);
	trial_init(&t, x, load(x));
	ck_assert_msg(trial_run(&t) == 0, "%s", t.err.text);
	ck_assert(!t.e->outs[0].transient);
	ck_assert_uint_eq(t.e->outs[0].len, (uint64_t)n * 4);
	pf_arena_usage(arena, &used, &limit);
	ck_assert_uint_ge(used, before + (uint64_t)n * 4);
	kill_worker(); /* reading the results needs no worker */
	for (int i = 0; i < n; i++)
		wrong += ((const float *)t.e->outs[0].data)[i] != (float)i;
	ck_assert_int_eq(wrong, 0);
	pf_execution_free(t.e);
	pf_arena_usage(arena, &used, &limit);
	ck_assert_uint_eq(used, before);
	pf_executable_unref(x);
}

static const struct {
	const char *fault;
	int code, pjrt_code;
	const char *why;
} faults[] = {
	{ "execute=error:RESOURCE_EXHAUSTED:out of memory", -ENOSPC, 8, "out of memory" },
	{ "execute=event-error:DATA_LOSS:late oops", -EIO, 15, "late oops" },
	{ "upload=error:INVALID_ARGUMENT:bad bytes", -EINVAL, 3, "input 0: " },
	{ "execute=abort:Check failed: x", -EIO, -1, "Check failed: x" },
	{ "execute=exit:7", -EIO, -1, "exited with status 7" },
};

TEST_EACH(failures_are_reported, faults)
{
	struct pf_executable *x;
	struct trial t;

	start_faulty(faults[_i].fault);
	x = compiled(add_program);
	trial_init(&t, x, load(x));
	ck_assert_int_eq(trial_run(&t), faults[_i].code);
	ck_assert_int_eq(t.err.pjrt_code, faults[_i].pjrt_code);
	ck_assert_msg(strstr(t.err.text, faults[_i].why) != NULL, "%s", t.err.text);
	pf_execution_free(t.e);
	pf_executable_unref(x);
}

/* It died after the inputs were checked: the program is compiled again first. */
TEST(a_death_before_the_call_does_not_fail_it)
{
	struct pf_executable *x;
	struct trial t;

	start_worker(plugins[0]);
	x = compiled(add_program);
	trial_init(&t, x, load(x));
	replace_worker();
	ck_assert_msg(trial_run(&t) == 0, "%s", t.err.text);
	check_small(&t);
	pf_execution_free(t.e);
	pf_executable_unref(x);
}

/* In the next instance the program is there already: another executable has the same one. */
TEST(after_a_death_the_same_program_of_another_executable_serves)
{
	struct pf_executable *x, *same;
	struct trial t;

	start_worker(plugins[0]);
	x = compiled(add_program);
	trial_init(&t, x, load(x));
	replace_worker();
	same = compiled(add_program);
	ck_assert_msg(trial_run(&t) == 0, "%s", t.err.text);
	check_small(&t);
	pf_execution_free(t.e);
	pf_executable_unref(same);
	pf_executable_unref(x);
}

TEST(a_replaced_program_is_refused)
{
	static const char other[] =
		"module @other {\n"
		"  func.func public @main(%x: tensor<f32>) -> tensor<f32> {\n"
		"    return %x : tensor<f32>\n"
		"  }\n"
		"}\n";
	struct pf_executable *x;
	struct trial t;

	start_worker(plugins[0]);
	x = compiled(add_program);
	trial_init(&t, x, load(x));
	ck_assert_int_eq(pf_executable_truncate(x, 0, &err), 0);
	ck_assert_int_gt(pf_executable_write(x, other, strlen(other), 0, &err), 0);
	ck_assert_msg(compile_it(x, &err) == 0, "%s", err.text);
	replace_worker();
	ck_assert_int_eq(trial_run(&t), -ECANCELED);
	pf_execution_free(t.e);
	pf_executable_unref(x);
}

TEST(stopping_ends_running_executions)
{
	struct pf_executable *x;
	struct trial t[20];

	start_faulty("execute=hang:it hangs");
	x = compiled(add_program);
	for (int i = 0; i < 20; i++) {
		trial_init(&t[i], x, load(x));
		pf_execution_start(t[i].e, false);
	}
	await_print("it hangs");
	pf_worker_stop(worker);
	for (int i = 0; i < 20; i++) {
		event_wait(&t[i].ended);
		ck_assert_int_eq(t[i].code, -EIO);
		pf_execution_free(t[i].e);
	}
	pf_executable_unref(x);
}

UNIT_FIXTURE(open_all, close_all)
