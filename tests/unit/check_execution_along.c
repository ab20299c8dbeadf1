/* SPDX-License-Identifier: Apache-2.0 */
/* Executions that go along with others: used before they are there, and what cannot. */
#include "store_fixture.h"

static struct pf_err err;

static void open_all(void)
{
	open_arena();
	err = (struct pf_err)PF_ERR_INIT;
}

static void close_all(void)
{
	close_store();
}

static void start_faulty(const char *fault)
{
	setenv("PJRTFS_FAULTY", fault, 1);
	start_worker(faulty_plugin());
}

enum { MAX_CHAIN = 100 };

/* Executions of which each may go along with the one before; the state is argument 0. */
static struct chain {
	struct named_exec runs[MAX_CHAIN];
	int n, at;  /* of them, and the one that joins next */
	int joined; /* so many did */
	int left;   /* so many of these did not begin */
	bool donate;
	struct pf_executable *x;
	struct pf_value *other;
} chain;

static bool chain_follow(struct pf_execution *last);

static void chain_left(struct pf_execution *e)
{
	chain.left++;
	pf_execution_free(e);
}

static struct named_exec *chain_run(int i, struct pf_value *state)
{
	struct pf_value *args[] = { state, chain.other };
	struct named_exec *run = &chain.runs[i];

	run_init(run, chain.x, args, 2, 1);
	run->e->donate[0] = chain.donate;
	run->e->follow = chain_follow;
	run->e->left = chain_left;
	return run;
}

static bool chain_follow(struct pf_execution *last)
{
	struct named_exec *run;

	if (chain.at == chain.n)
		return false;
	run = chain_run(chain.at, last->outs[0]);
	if (!pf_execution_join(last, run->e)) {
		pf_execution_free(run->e);
		return false;
	}
	chain.at++;
	chain.joined++;
	return true;
}

/* Add OTHER to STATE N times, as many as can in one request. */
static void start_chain(int n, struct pf_value *state, bool settle)
{
	struct named_exec *run;

	chain.n = n;
	chain.at = 1;
	chain.joined = chain.left = 0;
	run = chain_run(0, state);
	pf_execution_start(run->e, settle);
	event_wait(&run->ended);
}

static void wait_chain(void)
{
	for (int i = 0; i <= chain.joined - chain.left; i++)
		event_wait(&chain.runs[i].ended);
}

static void free_chain(void)
{
	for (int i = 0; i <= chain.joined - chain.left; i++)
		pf_execution_free(chain.runs[i].e);
}

/* First nobody knows how long one takes: then none goes along; later as many as may. */
START_TEST(results_are_arguments_before_they_are_there)
{
	struct pf_value *state = NULL;
	double seconds = 0;

	start_worker(plugins[_i]);
	chain.x = compiled(add_program);
	chain.other = matrix(ones);
	for (int round = 0; round < 4; round++) {
		int n = round == 3 ? MAX_CHAIN : 10;

		state = matrix(counts);
		if (round)
			chain.x->loaded->typical_ns = 100000;
		chain.donate = round == 2;
		start_chain(n, state, round % 2);
		wait_chain();
		ck_assert_int_eq(chain.left, 0);
		ck_assert_int_eq(chain.joined > 0, round > 0);
		ck_assert_int_lt(chain.joined, 64);
		for (int i = 0; i <= chain.joined; i++) {
			struct named_exec *run = &chain.runs[i];
			bool gone = chain.donate && i < chain.joined;

			ck_assert_msg(run->code == 0, "%s", run->err.text);
			ck_assert_int_eq(pf_value_state(run->e->outs[0], NULL),
					 gone ? PF_VALUE_DONATED : PF_VALUE_READY);
			seconds += run->e->device_seconds;
			if (gone)
				continue;
			ck_assert_int_eq(fetch_value(run->e->outs[0], &err), 1);
			ck_assert_float_eq(((const float *)pf_value_host(
						   run->e->outs[0]))[5],
					   counts[5] + (float)i + 1);
		}
		ck_assert_double_gt(seconds, 0);
		free_chain();
		pf_value_unref(state);
	}
	pf_value_unref(chain.other);
	pf_executable_unref(chain.x);
}
END_TEST

static const struct {
	const char *fault;
	int good, code; /* so many are, and why the next one is not */
	const char *why;
} breaks[] = {
	{ "execute=nth:5:error:INTERNAL:oops", 1, -EIO, "prog: oops" },
	{ "execute=nth:5:event-error:DATA_LOSS:late oops", 1, -EIO, "prog: late oops" },
	{ "execute=nth:4:error:INTERNAL:oops", 0, -EIO, "prog: oops" },
	{ "execute=nth:6:abort:Check failed: x", 0, -EIO,
	  "or one of the 3 executions sent with it: " },
};

START_TEST(what_is_after_a_failure_has_not_begun)
{
	struct pf_value *state;
	struct named_exec *bad;

	start_faulty(breaks[_i].fault);
	chain.x = compiled(add_program);
	chain.other = matrix(ones);
	state = matrix(counts);
	for (int i = 0; i < 3; i++) {
		struct pf_value *args[] = { state, chain.other };
		struct named_exec run;

		run_init(&run, chain.x, args, 2, 1);
		ck_assert_msg(run_it(&run) == 0, "%s", run.err.text);
		pf_execution_free(run.e);
	}
	chain.x->loaded->typical_ns = 100000;
	chain.donate = true;
	start_chain(4, state, false);
	wait_chain();
	ck_assert_int_eq(chain.joined, 3);
	ck_assert_int_eq(chain.left, 3 - breaks[_i].good);
	for (int i = 0; i < breaks[_i].good; i++)
		ck_assert_int_eq(chain.runs[i].code, 0);
	bad = &chain.runs[breaks[_i].good];
	ck_assert_int_eq(bad->code, breaks[_i].code);
	ck_assert_msg(strstr(bad->err.text, breaks[_i].why) != NULL, "%s", bad->err.text);
	/* It consumed nothing. */
	ck_assert_int_eq(pf_value_state(bad->e->args[0], NULL), PF_VALUE_READY);
	free_chain();
	pf_value_unref(state);
	pf_value_unref(chain.other);
	pf_executable_unref(chain.x);
}
END_TEST

/* What may not go along, and why: then it is as if nobody had asked. */
enum reason { ABSENT, CONSUMES, WRONG, LONG, REASONS };

static enum reason reason;
static struct pf_value *strange;
static bool refused;

static bool try_reason(struct pf_execution *last)
{
	struct pf_value *args[] = { last->outs[0], strange };
	struct named_exec run;

	run_init(&run, chain.x, args, 2, reason == WRONG ? 2 : 1);
	run.e->donate[1] = reason == CONSUMES;
	if (reason == LONG)
		last->loaded->typical_ns = 1000000000;
	refused = !pf_execution_join(last, run.e);
	ck_assert_int_eq(pf_value_state(strange, NULL), PF_VALUE_READY);
	if (refused)
		pf_execution_free(run.e);
	return !refused;
}

START_TEST(some_must_wait)
{
	struct pf_value *args[2];
	struct named_exec run;

	start_worker(plugins[0]);
	reason = (enum reason)_i;
	chain.x = compiled(add_program);
	args[0] = args[1] = matrix(counts);
	run_init(&run, chain.x, args, 2, 1);
	ck_assert_msg(run_it(&run) == 0, "%s", run.err.text);
	pf_execution_free(run.e);
	strange = matrix(ones);
	if (reason != ABSENT)
		ck_assert_int_eq(place_value(strange, &err), 1);
	run_init(&run, chain.x, args, 2, 1)->follow = try_reason;
	refused = false;
	ck_assert_msg(run_it(&run) == 0, "%s", run.err.text);
	ck_assert(refused);
	ck_assert_int_eq(fetch_value(run.e->outs[0], &err), 1);
	ck_assert_float_eq(((const float *)pf_value_host(run.e->outs[0]))[5], 12);
	pf_execution_free(run.e);
	pf_value_unref(args[0]);
	pf_value_unref(strange);
	pf_executable_unref(chain.x);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("executions that go along");
	TCase *tc = tcase_create("core");

	find_plugins();
	tcase_add_checked_fixture(tc, open_all, close_all);
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, results_are_arguments_before_they_are_there, 0,
			    n_plugins);
	unit_add_cases(tc, what_is_after_a_failure_has_not_begun, breaks);
	tcase_add_loop_test(tc, some_must_wait, 0, REASONS);
	suite_add_tcase(s, tc);
	return unit_run(s);
}
