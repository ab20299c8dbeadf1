/* SPDX-License-Identifier: Apache-2.0 */
/* One request for many runs: results replace arguments; tests/faults/repeat.sh has runs that fail. */
#include "worker_driver.h"

/* Adds its arguments; the first may be consumed. */
static const char adder[] =
	"func.func public @main(%a: tensor<f32> {tf.aliasing_output = 0 : i32},"
	" %b: tensor<f32>) -> tensor<f32> {\n"
	"  %0 = stablehlo.add %a, %b : tensor<f32>\n"
	"  return %0 : tensor<f32>\n"
	"}\n";

/* Run executable 1 on buffers A and B up to N times; OUT replaces A if CARRY. */
static int repeat(uint32_t n, uint64_t a, uint64_t b, uint64_t out, bool carry,
		  uint8_t donate)
{
	const uint64_t args[] = { a, b };
	struct execute_message m;
	size_t len = execute_message(&m, 1, args, 2, out);

	m.q.repeat = n;
	donate_of(&m)[0] = donate;
	if (carry)
		carry_of(&m)[0] = 0;
	return ask(PF_OP_EXECUTE, &m, len);
}

static const struct pf_rep_execute *answer(void)
{
	return (const void *)reply;
}

/* The result, which lies inline. */
static float number(void)
{
	float f;

	ck_assert_uint_eq(answer()->n_outs, 1);
	ck_assert_uint_eq(result(0)->where, PF_WHERE_INLINE);
	memcpy(&f, reply + result(0)->off, sizeof(f));
	return f;
}

static int read_id(uint64_t id)
{
	struct pf_req_id q = { .id = id };

	return ask(PF_OP_BUFFER_READ, &q, sizeof(q));
}

TEST_ON_PLUGINS(results_replace_arguments)
{
	uint32_t done = 0;
	uint64_t from = 11;

	start(plugins[_i]);
	ck_assert_msg(compile(1, adder) == 0, "%s", complaint());
	*(float *)(d.arena + 8192) = 1;
	*(float *)(d.arena + 16384) = 10;
	create_floats(11, 8192, 0);
	create_floats(12, 16384, 0);
	/* 10 ms may pass before all runs are done: then the test requests the rest. */
	for (uint64_t out = 100; done < 5000; out++) {
		ck_assert_msg(repeat(5000 - done, from, 12, out, true,
				     PF_DONATE_LATER | (from == 11 ? 0 : 1)) == 0,
			      "%s", complaint());
		ck_assert_int_eq(answer()->why, 0);
		ck_assert_uint_ge(answer()->runs, 1);
		ck_assert_uint_le(answer()->runs, 5000 - done);
		ck_assert_uint_gt(answer()->device_ns, 0);
		done += answer()->runs;
		from = out;
		ck_assert_float_eq(number(), 1 + 10 * (float)done);
	}
	ck_assert_int_eq(read_id(from), 0);
	ck_assert_int_eq(read_id(11), 0);
	/* The id is taken. */
	ck_assert_int_eq(repeat(3, 11, 12, 11, false, 0), -EPROTO);
	/* Nothing is replaced: all runs are the same. */
	ck_assert_int_eq(repeat(3, 11, 12, 1000, false, 0), 0);
	ck_assert_float_eq(number(), 11);
	/* The first run may consume the argument, too. */
	ck_assert_int_eq(repeat(3, 1000, 12, 1001, true, 3), 0);
	ck_assert_float_eq(number(), 41);
	ck_assert_int_eq(read_id(1000), -EINVAL);
	stop_ok();
}

/* Argument 0 gives its memory to the result only where the request allows it. */
TEST_ON_PLUGINS(only_requested_donations_happen)
{
	static const char program[] =
		"func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32})"
		" -> tensor<4xf32> {\n"
		"  %0 = stablehlo.add %a, %a : tensor<4xf32>\n"
		"  return %0 : tensor<4xf32>\n"
		"}\n";
	struct execute_message m;
	const uint64_t args[] = { 11 };
	size_t len;

	start(plugins[_i]);
	((float *)(d.arena + 8192))[3] = 4;
	create_floats(11, 8192, 4);
	ck_assert_msg(compile(1, program) == 0, "%s", complaint());
	ck_assert_int_eq(execute(1, args, 1, 100), 0);
	ck_assert_int_eq(read_id(11), 0);
	len = execute_message(&m, 1, args, 1, 101);
	donate_of(&m)[0] = PF_DONATE_FIRST;
	ck_assert_int_eq(ask(PF_OP_EXECUTE, &m, len), 0);
	ck_assert(((float *)(reply + result(0)->off))[3] == 8);
	ck_assert_int_eq(read_id(11), -EINVAL);
	/* The user's bytes are not the plugin's to change. */
	ck_assert(((float *)(d.arena + 8192))[3] == 4);
	stop_ok();
}
