/* SPDX-License-Identifier: Apache-2.0 */
/* pjrtfs-worker refuses bad requests with a sentence, leaves nothing of them, and continues. */
#include "worker_driver.h"

enum { HERE = 11, AT = 2 << 20 /* of a lent argument, in the arena */ };

/* --- one field is wrong ---------------------------------------------------------------- */

/* A request of OP that is right; it makes object 70 of HERE, or of bytes.  Its length. */
static size_t right(enum pf_op op, void *m)
{
	static const uint64_t two[] = { HERE, HERE };
	struct pf_req_buffer buffer = buffer_request(70, 8192, 4, PF_DTYPE_F32);
	struct pf_req_copy copy = { .source = HERE, .id = 70, .memory = UINT32_MAX };
	struct pf_req_load load = { .id = 70, .off = 65536, .len = 28 };
	struct pf_req_send send = { .id = 70, .buffer = HERE };
	struct pf_req_id id = { .id = op == PF_OP_MEMORY_STATS ? 0 : HERE };

	buffer.rank = 1;
	buffer.dims[0] = 1;
	switch (op) {
	case PF_OP_EXECUTE:
		return execute_message(m, 1, two, 2, 70);
	case PF_OP_BUFFER_CREATE:
	case PF_OP_BUFFER_MAKE:
		memcpy(m, &buffer, sizeof(buffer));
		return sizeof(buffer);
	case PF_OP_RECEIVE:
		memcpy(m, &(struct pf_req_receive){ .buffer = buffer },
		       sizeof(struct pf_req_receive));
		return sizeof(struct pf_req_receive);
	case PF_OP_BUFFER_COPY:
		memcpy(m, &copy, sizeof(copy));
		return sizeof(copy);
	case PF_OP_LOAD:
		memcpy(m, &load, sizeof(load));
		return sizeof(load);
	case PF_OP_SEND:
		memcpy(m, &send, sizeof(send));
		return sizeof(send);
	default:
		memcpy(m, &id, sizeof(id));
		return sizeof(id);
	}
}

/* VALUE in place of FIELD of a request of OP. */
#define WRONG(op, request, field, value)                                                 \
	PF_OP_##op, #op ": " #field " = " #value,                                        \
		offsetof(struct pf_req_##request, field),                                \
		sizeof(((struct pf_req_##request *)0)->field), (uint64_t)(value)

static const struct {
	enum pf_op op;
	const char *what;
	size_t off, size;
	uint64_t value;
	int code;
	const char *why; /* in the sentence, or NULL */
} wrong[] = {
	{ WRONG(BUFFER_CREATE, buffer, off, ARENA_SIZE), -EPROTO, "outside the arena" },
	{ WRONG(BUFFER_CREATE, buffer, off, UINT64_MAX), -EPROTO, "outside the arena" },
	{ WRONG(BUFFER_CREATE, buffer, device, 2), -EPROTO, "there is no device 2" },
	{ WRONG(BUFFER_CREATE, buffer, memory, 99), -EPROTO, "has no memory 99" },
	{ WRONG(BUFFER_CREATE, buffer, rank, PF_WIRE_MAX_RANK + 1), -EPROTO, NULL },
	{ WRONG(BUFFER_CREATE, buffer, id, 0), -EPROTO, "id 0 is 0 or in use" },
	{ WRONG(BUFFER_CREATE, buffer, id, HERE), -EPROTO, "id 11 is 0 or in use" },
	/* These would abort a plugin. */
	{ WRONG(BUFFER_CREATE, buffer, dims[0], INT64_C(1) << 62), -EOVERFLOW, NULL },
	{ WRONG(BUFFER_CREATE, buffer, dims[0], -1), -EINVAL, NULL },
	{ WRONG(BUFFER_CREATE, buffer, dims[0], 2), -EINVAL, NULL },
	{ WRONG(BUFFER_CREATE, buffer, minor_to_major[0], 1), -EINVAL, NULL },
	{ WRONG(BUFFER_MAKE, buffer, id, 0), -EPROTO, NULL },
	{ WRONG(BUFFER_MAKE, buffer, id, HERE), -EPROTO, NULL },
	{ WRONG(BUFFER_MAKE, buffer, len, 5), -EINVAL, NULL },
	{ WRONG(BUFFER_MAKE, buffer, len, UINT64_MAX), -EINVAL, NULL },
	{ WRONG(BUFFER_MAKE, buffer, dims[0], -1), -EINVAL, NULL },
	{ WRONG(BUFFER_MAKE, buffer, dims[0], INT64_MAX), -EOVERFLOW, NULL },
	{ WRONG(BUFFER_MAKE, buffer, dtype, PF_DTYPE_TOKEN), -EINVAL, NULL },
	{ WRONG(BUFFER_MAKE, buffer, dtype, PF_DTYPE_COUNT), -EINVAL, NULL },
	{ WRONG(BUFFER_MAKE, buffer, rank, PF_WIRE_MAX_RANK + 1), -EPROTO, NULL },
	{ WRONG(BUFFER_MAKE, buffer, device, 2), -EPROTO, NULL },
	{ WRONG(BUFFER_MAKE, buffer, memory, 99), -EPROTO, NULL },
	{ WRONG(BUFFER_COPY, copy, source, 77), -ENOENT, "no buffer 77" },
	{ WRONG(BUFFER_COPY, copy, source, 0), -ENOENT, NULL },
	{ WRONG(BUFFER_COPY, copy, id, 0), -EPROTO, NULL },
	{ WRONG(BUFFER_COPY, copy, id, HERE), -EPROTO, NULL },
	{ WRONG(BUFFER_COPY, copy, device, 2), -EPROTO, "copy: there is no device 2" },
	{ WRONG(BUFFER_COPY, copy, device, UINT32_MAX), -EPROTO, NULL },
	{ WRONG(BUFFER_COPY, copy, memory, 99), -EPROTO, NULL },
	{ WRONG(BUFFER_READ, id, id, 77), -ENOENT, NULL },
	{ WRONG(OPTIMIZED, id, id, 77), -ENOENT, "no executable 77" },
	{ WRONG(SERIALIZE, id, id, 77), -ENOENT, NULL },
	{ WRONG(MEMORY_STATS, id, id, 99), -EPROTO, NULL },
	{ WRONG(LOAD, load, off, ARENA_SIZE - 27), -EPROTO, NULL },
	{ WRONG(LOAD, load, id, 0), -EPROTO, NULL },
	{ WRONG(LOAD, load, len, 0), -EPROTO, NULL },
	{ WRONG(LOAD, load, platform, PF_WIRE_MAX_PLATFORMS + 1), -EPROTO, NULL },
	{ WRONG(EXECUTE, execute, executable, 9), -ENOENT, NULL },
	{ WRONG(EXECUTE, execute, device, 2), -EPROTO, NULL },
	{ WRONG(EXECUTE, execute, lent_device, 2), -EPROTO, NULL },
	{ WRONG(EXECUTE, execute, n_args, UINT32_MAX), -EPROTO, NULL },
	{ WRONG(EXECUTE, execute, n_outs, 2), -EPROTO, NULL },
	{ WRONG(EXECUTE, execute, n_outs, UINT32_MAX), -EPROTO, NULL },
	{ WRONG(EXECUTE, execute, n_devices, 2), -EPROTO, NULL },
	/* no layout follows */
	{ WRONG(EXECUTE, execute, flags, PF_EXECUTE_LAYS_OUT), -EPROTO, NULL },
	{ WRONG(SEND, send, device, 2), -EPROTO, "there is no device 2" },
	{ WRONG(SEND, send, buffer, 999), -ENOENT, NULL },
	{ WRONG(RECEIVE, receive, buffer.len, 5), -EINVAL, NULL },
	{ WRONG(RECEIVE, receive, buffer.device, 2), -EPROTO, NULL },
	{ WRONG(RECEIVE, receive, buffer.rank, PF_WIRE_MAX_RANK + 1), -EPROTO, NULL },
	{ WRONG(MEMORY_STATS, id, id, 0), -EOPNOTSUPP, NULL },
};

/* A worker of PLUGIN with program 1 and scalar HERE. */
static void start_with_scalar(const char *plugin)
{
	start(plugin);
	ck_assert_int_eq(compile(1, add_scalars), 0);
	*(float *)(d.arena + 8192) = 1;
	create_floats(HERE, 8192, 0);
}

TEST_ON_PLUGINS(each_wrong_field_is_refused)
{
	_Alignas(8) char m[4096];

	start_with_scalar(plugins[_i]);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		size_t len = right(wrong[i].op, m);
		int code;

		memcpy(m + wrong[i].off, &wrong[i].value, wrong[i].size);
		code = ask(wrong[i].op, m, len);
		ck_assert_msg(code == wrong[i].code, "%s: %d, %s", wrong[i].what, code,
			      complaint());
		ck_assert_msg(*complaint() && (!wrong[i].why ||
					       strstr(complaint(), wrong[i].why)),
			      "%s: %s", wrong[i].what, complaint());
	}
	/* None of these used an id, and the worker continues. */
	for (int op = 1; op < PF_OP_COUNT; op++)
		if (op == PF_OP_EXECUTE || op == PF_OP_BUFFER_CREATE ||
		    op == PF_OP_BUFFER_MAKE || op == PF_OP_BUFFER_COPY) {
			size_t len = right((enum pf_op)op, m);

			ck_assert_msg(ask((enum pf_op)op, m, len) == 0, "%s",
				      complaint());
			post_id(PF_OP_BUFFER_FREE, 70);
		}
	stop_ok();
}

TEST(no_message_is_too_short_or_too_long)
{
	_Alignas(8) char m[4096 + PF_WIRE_MAX_ABI] = { 0 };
	struct pf_req_compile c = { .id = 70, .format = "mlir" };
	struct pf_msg_head bare = { 0 };

	start_with_scalar(plugins[0]);
	ck_assert_int_eq(ask((enum pf_op)0, &bare, sizeof(bare)), -EPROTO);
	ck_assert_int_eq(ask((enum pf_op)999, &bare, sizeof(bare)), -EPROTO);
	for (int op = 1; op < PF_OP_COUNT; op++)
		ck_assert_int_eq(ask((enum pf_op)op, &bare, sizeof(bare)), -EPROTO);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		size_t len = right(wrong[i].op, m);

		memset(m + len, 0, 8);
		ck_assert_int_eq(ask(wrong[i].op, m, len - 1), -EPROTO);
		/* what follows a load is the version of another build */
		ck_assert_int_eq(ask(wrong[i].op, m, len + 1),
				 wrong[i].op == PF_OP_LOAD ? -ENOEXEC : -EPROTO);
	}
	memset(m, 0, sizeof(m));
	ck_assert_int_eq(ask(PF_OP_LOAD, m, right(PF_OP_LOAD, m) + PF_WIRE_MAX_ABI + 1),
			 -EPROTO);
	ck_assert_int_eq(ask(PF_OP_COMPILE, &c, sizeof(c)), -EPROTO);
	c.options_len = 5;
	ck_assert_int_eq(ask(PF_OP_COMPILE, &c, sizeof(c)), -EPROTO);
	ck_assert_int_eq(compile_for(70, add_scalars, PF_WIRE_MAX_PLATFORMS + 1),
			 -EPROTO);
	ck_assert_int_eq(compile_for(70, add_scalars, UINT32_MAX), -EPROTO);
	stop_ok();
}

/* This worker is in no group; tests/faults/group-transfers.sh has transfers that succeed. */
TEST(transfers_need_a_group)
{
	_Alignas(8) char m[4096];

	start_with_scalar(faulty_plugin());
	for (int i = 0; i < 2; i++) { /* the id is free again */
		ck_assert_int_eq(ask(PF_OP_SEND, m, right(PF_OP_SEND, m)), -EPROTO);
		ck_assert_str_eq(complaint(), "there is no group");
		ck_assert_int_eq(ask(PF_OP_RECEIVE, m, right(PF_OP_RECEIVE, m)), -EPROTO);
		ck_assert_str_eq(complaint(), "there is no group");
		post_id(PF_OP_BUFFER_FREE, 70);
	}
	stop_ok();
}

/* --- lists of executions ------------------------------------------------------------------ */

TEST(wrong_lists_of_executions_are_refused)
{
	const uint64_t args[] = { HERE, 99 };
	struct call_message lent;
	struct execute_message m;
	struct pf_arg *first;
	size_t len;

	start_with_scalar(plugins[0]);
	ck_assert_int_eq(execute(1, args, 2, 100), -ENOENT);
	ck_assert_ptr_nonnull(strstr(complaint(), "99"));
	ck_assert_int_eq(execute(1, args, 1, 100), -EINVAL); /* one argument of two */
	len = execute_message(&m, 1, args, 2, 100);
	m.ids[1] = HERE;
	carry_of(&m)[1] = 1; /* there is one result */
	ck_assert_int_eq(ask(PF_OP_EXECUTE, &m, len), -EPROTO);
	ck_assert_int_eq(call(1, 1, AT, 0, 100), -EINVAL); /* one of two, lent */
	ck_assert_int_eq(call(1, 2, AT, 8, 100), -EINVAL); /* of another size */
	len = call_message(&lent, 1, 2, AT, 0, 100);
	for (size_t n = sizeof(lent.q.head); n < len; n++)
		ck_assert_int_eq(ask(PF_OP_EXECUTE, &lent, n), -EPROTO);
	ck_assert_int_eq(ask(PF_OP_EXECUTE, &lent, len + 1), -EPROTO);
	first = lent_of(&lent);
	first->off = ARENA_SIZE - 3;
	ck_assert_int_eq(ask(PF_OP_EXECUTE, &lent, len), -EPROTO);
	first->off = AT;
	first->rank = UINT16_MAX;
	ck_assert_int_eq(ask(PF_OP_EXECUTE, &lent, len), -EPROTO);
	first->rank = 0;
	first->dtype = 9999;
	ck_assert_int_lt(ask(PF_OP_EXECUTE, &lent, len), 0);
	first->dtype = PF_DTYPE_F32;
	ck_assert_msg(ask(PF_OP_EXECUTE, &lent, len) == 0, "%s", complaint());
	stop_ok();
}

/* --- what a failure leaves ---------------------------------------------------------------- */

/* The id of the first result is taken back when that of the second is in use. */
TEST(an_execution_whose_ids_are_in_use_leaves_no_result)
{
	static const char two_results[] =
		"func.func public @main(%a: tensor<f32>) -> (tensor<f32>, tensor<f32>) {\n"
		"  return %a, %a : tensor<f32>, tensor<f32>\n"
		"}\n";
	struct {
		struct pf_req_execute q;
		uint64_t argument, results[2];
		uint32_t carry, donate;
	} m = { .q = { .executable = 2,
		       .device = UINT32_MAX,
		       .n_args = 1,
		       .n_outs = 2,
		       .n_devices = 1 },
		.argument = HERE,
		.results = { 100, HERE },
		.carry = PF_NO_CARRY };
	size_t len = pf_execute_bytes(1, 2, 1);

	start_with_scalar(plugins[0]);
	ck_assert_msg(compile(2, two_results) == 0, "%s", complaint());
	ck_assert_int_eq(ask(PF_OP_EXECUTE, &m, len), -EPROTO);
	ck_assert_str_eq(complaint(), "id 11 is 0 or in use");
	m.results[1] = 101;
	ck_assert_msg(ask(PF_OP_EXECUTE, &m, len) == 0, "%s", complaint());
	stop_ok();
}

/* Results and blocks of bytes that could not be fetched are gone: there is room for the next. */
TEST(what_cannot_be_fetched_leaves_nothing)
{
	enum { BIG = 64 << 20, TIMES = POOL_SIZE / BIG + 8 };
	struct pf_req_buffer q = buffer_request(50, 0, BIG, PF_DTYPE_S8);
	struct pf_req_id read = { .id = 50 }, result_id = { .id = 100 };
	const uint64_t args[] = {
		12, 12
	}; /* 2 x 3 floats, which that plugin's programs take */

	setenv("PJRTFS_FAULTY",
	       "download=error:INTERNAL:no bus,pointer=error:INTERNAL:none", 1);
	start_with_scalar(faulty_plugin());
	q.rank = 1;
	q.dims[0] = BIG;
	ck_assert_msg(ask(PF_OP_BUFFER_CREATE, &q, sizeof(q)) == 0, "%s", complaint());
	for (int i = 0; i < TIMES; i++) {
		ck_assert_int_eq(ask(PF_OP_BUFFER_READ, &read, sizeof(read)), -EIO);
		ck_assert_str_eq(complaint(), "no bus");
	}
	q = buffer_request(12, 8192, 24, PF_DTYPE_F32);
	q.rank = 2;
	q.dims[0] = 2;
	q.dims[1] = 3;
	ck_assert_msg(ask(PF_OP_BUFFER_CREATE, &q, sizeof(q)) == 0, "%s", complaint());
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(execute(1, args, 2, 100), -EIO);
		ck_assert_int_eq(ask(PF_OP_BUFFER_READ, &result_id, sizeof(result_id)),
				 -ENOENT);
	}
	stop_ok();
}

/* --- programs and plugins ---------------------------------------------------------------- */

TEST_ON_PLUGINS(a_plugins_refusals_have_sentences)
{
	_Alignas(8) char m[4096];
	size_t len = right(PF_OP_LOAD, m);

	start_with_scalar(plugins[_i]);
	/* Not all plugins call it INVALID_ARGUMENT. */
	ck_assert_int_lt(compile(70, "module {"), 0);
	ck_assert_str_ne(complaint(), "");
	ck_assert_int_gt(((struct pf_rep_head *)reply)->pjrt_code, 0);
	memcpy(d.arena + 65536, "not a program, but some text", 28);
	ck_assert_int_lt(ask(PF_OP_LOAD, m, len), 0);
	ck_assert_str_ne(complaint(), "");
	ck_assert_int_eq(compile(70, add_scalars), 0); /* the id is free */
	stop_ok();
}

/* Programs that never end hold their threads, and there is still one for the next. */
TEST_ON_PLUGINS(endless_programs_do_not_block_others)
{
	static const char endless[] =
		"func.func public @main(%a: tensor<i32>) -> tensor<i32> {\n"
		"  %0 = stablehlo.while(%x = %a) : tensor<i32>\n"
		"  cond {\n"
		"    %t = stablehlo.constant dense<true> : tensor<i1>\n"
		"    stablehlo.return %t : tensor<i1>\n"
		"  } do {\n"
		"    %y = stablehlo.add %x, %x : tensor<i32>\n"
		"    stablehlo.return %y : tensor<i32>\n"
		"  }\n"
		"  return %0 : tensor<i32>\n"
		"}\n";
	struct pf_req_buffer q = buffer_request(HERE, 8192, 4, PF_DTYPE_S32);
	const uint64_t args[] = { HERE };
	struct execute_message m;
	size_t len;

	start(plugins[_i]);
	ck_assert_int_eq(ask(PF_OP_BUFFER_CREATE, &q, sizeof(q)), 0);
	ck_assert_msg(compile(1, endless) == 0, "%s", complaint());
	for (uint64_t i = 0; i < 12; i++) {
		len = execute_message(&m, 1, args, 1, 100 + i);
		send_message(PF_OP_EXECUTE, &m, len);
	}
	ck_assert_msg(compile(2, add_scalars) == 0, "%s", complaint());
	stop_ok();
}
