/* SPDX-License-Identifier: Apache-2.0 */
/* One request for many runs: results replace arguments, up to the first run that fails. */
#include "worker_driver.h"

/* Adds its arguments; the first may be consumed. */
static const char adder[] =
	"func.func public @main(%a: tensor<f32> {tf.aliasing_output = 0 : i32},"
	" %b: tensor<f32>) -> tensor<f32> {\n"
	"  %0 = stablehlo.add %a, %b : tensor<f32>\n"
	"  return %0 : tensor<f32>\n"
	"}\n";

/* Run executable 1 on buffers A and B up to N times; OUT replaces A if CARRY. */
static int repeat(struct daemon *d, uint32_t n, uint64_t a, uint64_t b, uint64_t out,
		  bool carry, uint8_t donate)
{
	const uint64_t args[] = { a, b };
	struct execute_message m;
	size_t len = execute_message(&m, 1, args, 2, out);

	m.q.repeat = n;
	donate_of(&m)[0] = donate;
	if (carry)
		carry_of(&m)[0] = 0;
	return ask(d, PF_OP_EXECUTE, &m, len);
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

static bool says(const char *why)
{
	const struct pf_rep_execute *rep = answer();

	return memmem(reply + rep->rep.head.len - rep->why_len, rep->why_len, why,
		      strlen(why));
}

static int read_id(struct daemon *d, uint64_t id)
{
	struct pf_req_id q = { .id = id };

	return ask(d, PF_OP_BUFFER_READ, &q, sizeof(q));
}

/* Executable 1 is PROGRAM; buffers 11 and 12 are 1 and 10, of one float or more. */
static void start_with(struct daemon *d, const char *plugin, const char *program,
		       int64_t n)
{
	start_ok(d, plugin);
	ck_assert_msg(compile(d, 1, program) == 0, "%s", complaint());
	*(float *)(d->arena + 8192) = 1;
	*(float *)(d->arena + 16384) = 10;
	create_floats(d, 11, 8192, n);
	create_floats(d, 12, 16384, n);
}

TEST_ON_PLUGINS(results_replace_arguments)
{
	uint32_t done = 0;
	uint64_t from = 11;
	struct daemon d;

	start_with(&d, plugins[_i], adder, 0);
	/* 10 ms may pass before all runs are done: then the test requests the rest. */
	for (uint64_t out = 100; done < 5000; out++) {
		ck_assert_msg(repeat(&d, 5000 - done, from, 12, out, true,
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
	ck_assert_int_eq(read_id(&d, from), 0);
	ck_assert_int_eq(read_id(&d, 11), 0);
	/* The id is taken. */
	ck_assert_int_eq(repeat(&d, 3, 11, 12, 11, false, 0), -EPROTO);
	/* Nothing is replaced: all runs are the same. */
	ck_assert_int_eq(repeat(&d, 3, 11, 12, 1000, false, 0), 0);
	ck_assert_float_eq(number(), 11);
	/* The first run may consume the argument, too. */
	ck_assert_int_eq(repeat(&d, 3, 1000, 12, 1001, true, 3), 0);
	ck_assert_float_eq(number(), 41);
	ck_assert_int_eq(read_id(&d, 1000), -EINVAL);
	ck_assert_int_eq(stop(&d), 0);
}

/* Results that are too large to lie inline, on every plugin. */
TEST_ON_PLUGINS(large_results_replace_arguments)
{
	enum { FLOATS = 2048 };
	static const char program[] =
		"func.func public @main(%a: tensor<2048xf32>, %b: tensor<2048xf32>)"
		" -> tensor<2048xf32> {\n"
		"  %0 = stablehlo.add %a, %b : tensor<2048xf32>\n"
		"  return %0 : tensor<2048xf32>\n"
		"}\n";
	const struct pf_rep_block *block = (const void *)reply;
	struct daemon d;

	start_with(&d, plugins[_i], program, FLOATS);
	ck_assert_msg(repeat(&d, 7, 11, 12, 100, true, PF_DONATE_LATER) == 0, "%s",
		      complaint());
	ck_assert_uint_ne(result(0)->where, PF_WHERE_INLINE);
	ck_assert_float_ge(answer()->runs, 1);
	if (answer()->runs < 7) /* a slow machine */
		ck_assert_int_eq(repeat(&d, 7 - answer()->runs, 100, 12, 100, true, 0),
				 -EPROTO);
	ck_assert_msg(read_id(&d, 100) == 0, "%s", complaint());
	ck_assert_float_ge(((const float *)(d.pool + block->off))[0], 11);
	ck_assert_int_eq(stop(&d), 0);
}

/* The plugin refuses run N, or its failure is late: earlier runs' results are kept. */
static const struct {
	const char *fault;
	uint32_t good;
	int code, pjrt_code;
	const char *why;
} failures[] = {
	{ "execute=nth:1:error:INTERNAL:oops", 0, -EIO, 13, "oops" },
	{ "execute=nth:1:event-error:DATA_LOSS:late", 0, -EIO, 15, "late" },
	{ "execute=nth:2:error:INTERNAL:oops", 1, -EIO, 13, "oops" },
	{ "execute=nth:4:error:RESOURCE_EXHAUSTED:full", 3, -ENOSPC, 8, "full" },
	{ "execute=nth:4:event-error:DATA_LOSS:late", 3, -EIO, 15, "late" },
};

TEST_EACH(the_first_failure_ends_the_repetitions, failures)
{
	struct pf_req_buffer q = buffer_request(11, 8192, 24, PF_DTYPE_F32);
	struct daemon d;
	int r;

	setenv("PJRTFS_FAULTY", failures[_i].fault, 1);
	start_ok(&d, faulty_plugin());
	ck_assert_msg(compile(&d, 1, add_scalars) == 0, "%s", complaint());
	q.rank = 2;
	q.dims[0] = 2;
	q.dims[1] = 3;
	ck_assert_int_eq(ask(&d, PF_OP_BUFFER_CREATE, &q, sizeof(q)), 0);
	r = repeat(&d, 9, 11, 11, 100, true, 0);
	if (failures[_i].good) {
		ck_assert_msg(r == 0, "%s", complaint());
		ck_assert_uint_eq(answer()->runs, failures[_i].good);
		ck_assert_int_eq(answer()->why, failures[_i].code);
		ck_assert_int_eq(answer()->why_pjrt_code, failures[_i].pjrt_code);
		ck_assert(says(failures[_i].why));
	} else {
		ck_assert_int_eq(r, failures[_i].code);
	}
	ck_assert_int_eq(read_id(&d, 100), failures[_i].good ? 0 : -ENOENT);
	ck_assert_int_eq(read_id(&d, 11), 0);
	ck_assert_int_eq(stop(&d), 0);
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
	struct daemon d;
	size_t len;

	start_ok(&d, plugins[_i]);
	((float *)(d.arena + 8192))[3] = 4;
	create_floats(&d, 11, 8192, 4);
	ck_assert_msg(compile(&d, 1, program) == 0, "%s", complaint());
	ck_assert_int_eq(execute(&d, 1, args, 1, 100), 0);
	ck_assert_int_eq(read_id(&d, 11), 0);
	len = execute_message(&m, 1, args, 1, 101);
	donate_of(&m)[0] = PF_DONATE_FIRST;
	ck_assert_int_eq(ask(&d, PF_OP_EXECUTE, &m, len), 0);
	ck_assert(((float *)(reply + result(0)->off))[3] == 8);
	ck_assert_int_eq(read_id(&d, 11), -EINVAL);
	/* The user's bytes are not the plugin's to change. */
	ck_assert(((float *)(d.arena + 8192))[3] == 4);
	ck_assert_int_eq(stop(&d), 0);
}
