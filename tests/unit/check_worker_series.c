/* SPDX-License-Identifier: Apache-2.0 */
/* Several executions in one request: one after the other, up to the first that fails. */
#include "worker_driver.h"

/* A request of several. */
struct series {
	_Alignas(8) char bytes[4096];
	size_t len;
};

/* One more: EXECUTABLE on A and B gives OUT; DONATE: A may be consumed. */
static void add(struct series *s, uint64_t executable, uint64_t a, uint64_t b,
		uint64_t out, bool donate)
{
	const uint64_t args[] = { a, b };
	struct execute_message m;
	size_t len = execute_message(&m, executable, args, 2, out);

	((uint8_t *)(m.ids + 3))[0] = donate;
	s->len = (s->len + 7) & ~(size_t)7;
	memcpy(s->bytes + s->len, &m, len);
	s->len += len;
}

static int run(struct daemon *d, struct series *s)
{
	return ask(d, PF_OP_EXECUTE, s->bytes, s->len);
}

/* The Ith answer in the reply; NULL: there are fewer. */
static const struct pf_rep_execute *answer(unsigned i)
{
	const struct pf_rep_execute *rep = (const void *)reply;

	while (i--) {
		if (!rep->next)
			return NULL;
		ck_assert_uint_eq(rep->next % 8, 0);
		rep = (const void *)((const char *)rep + rep->next);
	}
	return rep;
}

/* Its result, which lies inline. */
static float number(unsigned i)
{
	const struct pf_rep_execute *rep = answer(i);
	const struct pf_out *out = (const void *)(rep + 1);
	float f;

	ck_assert_int_eq(rep->rep.code, 0);
	ck_assert_uint_eq(rep->n_outs, 1);
	ck_assert_uint_eq(out->where, PF_WHERE_INLINE);
	memcpy(&f, (const char *)rep + out->off, sizeof(f));
	return f;
}

static int read_id(struct daemon *d, uint64_t id)
{
	struct pf_req_id q = { .id = id };

	return ask(d, PF_OP_BUFFER_READ, &q, sizeof(q));
}

/* Executable 1 adds scalars; buffer 11 is 1, 12 is 10. */
static void start_adder(struct daemon *d, const char *plugin)
{
	start_ok(d, plugin);
	ck_assert_msg(compile(d, 1, add_scalars) == 0, "%s", complaint());
	*(float *)(d->arena + 8192) = 1;
	*(float *)(d->arena + 8256) = 10;
	create_floats(d, 11, 8192, 0);
	create_floats(d, 12, 8256, 0);
}

START_TEST(results_are_arguments)
{
	struct series s = { .len = 0 };
	uint64_t ns = 0;
	struct daemon d;

	start_adder(&d, plugins[_i]);
	add(&s, 1, 11, 12, 100, false);
	add(&s, 1, 100, 12, 101, false);
	add(&s, 1, 101, 100, 102, false);
	add(&s, 1, 11, 11, 103, false); /* of none of them */
	ck_assert_msg(run(&d, &s) == 0, "%s", complaint());
	ck_assert_float_eq(number(0), 11);
	ck_assert_float_eq(number(1), 21);
	ck_assert_float_eq(number(2), 32);
	ck_assert_float_eq(number(3), 2);
	ck_assert_ptr_null(answer(4));
	for (unsigned i = 0; i < 4; i++)
		ns += answer(i)->device_ns;
	ck_assert_uint_gt(ns, 0);
	/* All of them are there. */
	for (uint64_t id = 100; id < 104; id++)
		ck_assert_msg(read_id(&d, id) == 0, "%s", complaint());
	ck_assert_int_eq(stop(&d), 0);
}
END_TEST

/* The Nth names what is not there: those before are good, those behind have not begun. */
START_TEST(the_first_failure_ends_them)
{
	struct daemon d;

	start_adder(&d, plugins[0]);
	for (unsigned bad = 0; bad < 3; bad++) {
		struct series s = { .len = 0 };
		uint64_t first = 100 + 10 * bad;
		int r;

		for (unsigned i = 0; i < 3; i++)
			add(&s, 1, i == bad ? 99 : 11, 12, first + i, false);
		r = run(&d, &s);
		ck_assert_int_eq(r, bad ? 0 : -ENOENT);
		for (unsigned i = 0; i < bad; i++)
			ck_assert_float_eq(number(i), 11);
		if (bad) {
			const struct pf_rep_execute *rep = answer(bad);

			ck_assert_ptr_nonnull(rep);
			ck_assert_int_eq(rep->rep.code, -ENOENT);
			ck_assert_ptr_nonnull(memmem(rep + 1,
						     rep->rep.head.len - sizeof(*rep),
						     "no buffer 99", 12));
			ck_assert_ptr_null(answer(bad + 1));
		}
		for (unsigned i = 0; i < 3; i++)
			ck_assert_int_eq(read_id(&d, first + i), i < bad ? 0 : -ENOENT);
	}
	ck_assert_int_eq(stop(&d), 0);
}
END_TEST

/* A state that goes from one to the next; only the last is there in the end. */
START_TEST(the_one_before_may_be_consumed)
{
	static const char program[] =
		"func.func public @main(%a: tensor<f32> {tf.aliasing_output = 0 : i32},"
		" %b: tensor<f32>) -> tensor<f32> {\n"
		"  %0 = stablehlo.add %a, %b : tensor<f32>\n"
		"  return %0 : tensor<f32>\n"
		"}\n";
	struct series s = { .len = 0 }, wrong = { .len = 0 };
	struct daemon d;

	start_adder(&d, plugins[_i]);
	ck_assert_msg(compile(&d, 2, program) == 0, "%s", complaint());
	add(&s, 2, 11, 12, 100, true);
	add(&s, 2, 100, 12, 101, true);
	add(&s, 2, 101, 12, 102, true);
	ck_assert_msg(run(&d, &s) == 0, "%s", complaint());
	ck_assert_float_eq(number(2), 31);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_uint_eq(((const struct pf_out *)(answer(i) + 1))->where,
				  PF_WHERE_DEVICE);
	ck_assert_int_eq(read_id(&d, 100), -EINVAL);
	ck_assert_int_eq(read_id(&d, 102), 0);
	/* What was there before all of them would be gone if one of them failed. */
	add(&wrong, 2, 102, 12, 110, false);
	add(&wrong, 2, 102, 12, 111, true);
	ck_assert_int_eq(run(&d, &wrong), 0);
	ck_assert_float_eq(number(0), 41);
	ck_assert_int_eq(answer(1)->rep.code, -EPROTO);
	ck_assert_int_eq(read_id(&d, 102), 0);
	ck_assert_int_eq(stop(&d), 0);
}
END_TEST

/* The plugin tells late that the second failed: the third, which had begun, is void, too. */
START_TEST(late_failures_end_them)
{
	struct pf_req_buffer q = buffer_request(11, 8192, 24, PF_DTYPE_F32);
	struct series s = { .len = 0 };
	struct daemon d;

	setenv("PJRTFS_FAULTY", "execute=nth:2:event-error:DATA_LOSS:too late", 1);
	start_ok(&d, faulty_plugin());
	ck_assert_msg(compile(&d, 1, add_scalars) == 0, "%s", complaint());
	q.rank = 2;
	q.dims[0] = 2;
	q.dims[1] = 3;
	ck_assert_msg(ask(&d, PF_OP_BUFFER_CREATE, &q, sizeof(q)) == 0, "%s",
		      complaint());
	for (uint64_t i = 0; i < 4; i++)
		add(&s, 1, 11, 11, 100 + i, false);
	ck_assert_msg(run(&d, &s) == 0, "%s", complaint());
	ck_assert_int_eq(answer(0)->rep.code, 0);
	ck_assert_int_eq(answer(1)->rep.code, -EIO);
	ck_assert_int_eq(answer(1)->rep.pjrt_code, 15);
	ck_assert_ptr_null(answer(2));
	for (uint64_t i = 0; i < 4; i++)
		ck_assert_int_eq(read_id(&d, 100 + i), i ? -ENOENT : 0);
	ck_assert_int_eq(stop(&d), 0);
}
END_TEST

/* Bytes that lie inline run out; what has no room there is told where it is. */
START_TEST(long_series_have_room)
{
	enum { N = 48, FLOATS = 1000 };
	static const char program[] =
		"func.func public @main(%a: tensor<1000xf32>, %b: tensor<1000xf32>)"
		" -> tensor<1000xf32> {\n"
		"  %0 = stablehlo.add %a, %b : tensor<1000xf32>\n"
		"  return %0 : tensor<1000xf32>\n"
		"}\n";
	struct series s = { .len = 0 };
	unsigned inlined = 0, n = 0;
	struct daemon d;

	start_ok(&d, plugins[_i]);
	ck_assert_msg(compile(&d, 1, program) == 0, "%s", complaint());
	((float *)(d.arena + 8192))[FLOATS - 1] = 1;
	create_floats(&d, 11, 8192, FLOATS);
	for (uint64_t i = 0; i < N; i++)
		add(&s, 1, i ? 99 + i : 11, 11, 100 + i, false);
	ck_assert_msg(run(&d, &s) == 0, "%s", complaint());
	for (; answer(n); n++)
		inlined += ((const struct pf_out *)(answer(n) + 1))->where ==
			   PF_WHERE_INLINE;
	ck_assert_uint_eq(n, N);
	ck_assert_uint_gt(inlined, 0);
	ck_assert_uint_lt(inlined, N);
	for (uint64_t i = 0; i < N; i += 7) {
		const struct pf_rep_block *block = (const void *)reply;

		ck_assert_msg(read_id(&d, 100 + i) == 0, "%s", complaint());
		ck_assert_float_eq(((const float *)(d.pool + block->off))[FLOATS - 1],
				   (float)(i + 2));
	}
	ck_assert_int_eq(stop(&d), 0);
}
END_TEST

START_TEST(malformed_series_are_refused)
{
	struct series good = { .len = 0 }, s;
	struct daemon d;

	start_adder(&d, plugins[0]);
	add(&good, 1, 11, 12, 100, false);
	add(&good, 1, 11, 12, 101, false);
	for (size_t less = 1; less < good.len; less++) {
		/* Up to the first one's end and padding it is one execution. */
		size_t one = pf_execute_bytes(2, 1, 1);

		s = good;
		s.len -= less;
		if (s.len >= one && s.len <= ((one + 7) & ~(size_t)7))
			continue;
		if (s.len >= sizeof(struct pf_msg_head))
			ck_assert_int_eq(run(&d, &s), -EPROTO);
	}
	s = good;
	s.len += 16;
	ck_assert_int_eq(run(&d, &s), -EPROTO);
	ck_assert_int_eq(read_id(&d, 100), -ENOENT);
	ck_assert_msg(run(&d, &good) == 0, "%s", complaint());
	/* Ids that are taken. */
	ck_assert_int_eq(run(&d, &good), -EPROTO);
	ck_assert_int_eq(stop(&d), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("worker series");
	TCase *each = tcase_create("each plugin"), *once = tcase_create("once");

	find_plugins();
	tcase_set_timeout(each, 120);
	tcase_set_timeout(once, 120);
	tcase_add_loop_test(each, results_are_arguments, 0, n_plugins);
	tcase_add_loop_test(each, the_one_before_may_be_consumed, 0, n_plugins);
	tcase_add_loop_test(each, long_series_have_room, 0, n_plugins);
	suite_add_tcase(s, each);
	tcase_add_test(once, the_first_failure_ends_them);
	tcase_add_test(once, late_failures_end_them);
	tcase_add_test(once, malformed_series_are_refused);
	suite_add_tcase(s, once);
	return unit_run(s);
}
