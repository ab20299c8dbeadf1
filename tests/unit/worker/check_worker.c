/* SPDX-License-Identifier: Apache-2.0 */
/* pjrtfs-worker computes: every answer that a daemon builds on. */
#include <signal.h>

#include "worker_driver.h"

enum { AT = 2 << 20 }; /* where arguments lie in the arena */

/* The scalar that the reply to an execution has. */
static float scalar(void)
{
	float f;

	ck_assert_uint_eq(result(0)->where, PF_WHERE_INLINE);
	ck_assert_uint_eq(result(0)->len, sizeof(f));
	memcpy(&f, reply + result(0)->off, sizeof(f));
	return f;
}

TEST_ON_PLUGINS(adds_scalars)
{
	const uint64_t args[] = { 11, 12 };
	struct pf_rep_compile *made = (struct pf_rep_compile *)reply;
	struct pf_rep_optimized *again = (struct pf_rep_optimized *)reply;
	struct pf_req_id id = { .id = 1 };
	struct json_object *info;
	size_t len;

	start(plugins[_i]);
	ck_assert_msg(compile(1, add_scalars) == 0, "%s", complaint());
	ck_assert_uint_ne(made->hlo_off, PF_NO_OFFSET);
	ck_assert_uint_gt(made->hlo_len, 0);
	info = json_tokener_parse(d.pool + made->info_off);
	ck_assert_ptr_nonnull(info);
	ck_assert_int_eq(json_object_get_int(json_object_object_get(info, "num_outputs")),
			 1);
	json_object_put(info);
	post_id(PF_OP_BLOCK_FREE, made->info_off);
	len = made->hlo_len;
	post_id(PF_OP_BLOCK_FREE, made->hlo_off);
	/* The same text when requested again, except for the order of maps. */
	ck_assert_msg(ask(PF_OP_OPTIMIZED, &id, sizeof(id)) == 0, "%s", complaint());
	ck_assert_uint_eq(again->len, len);
	ck_assert_uint_eq(again->format, PF_OPTIMIZED_HLO_WITH_CONFIG);
	ck_assert_int_eq(d.pool[again->off], 0x0a);
	post_id(PF_OP_BLOCK_FREE, again->off);
	*(float *)(d.arena + 8192) = 2;
	*(float *)(d.arena + 8192 + 64) = 3;
	/* No copy: the device buffer lies where the user's bytes are. */
	ck_assert_uint_eq(create_floats(11, 8192, 0), 8192);
	ck_assert_uint_eq(create_floats(12, 8192 + 64, 0), 8192 + 64);
	for (uint64_t out = 100; out < 110; out++) {
		ck_assert_msg(execute(1, args, 2, out) == 0, "%s", complaint());
		ck_assert_uint_eq(result(0)->dtype, PF_DTYPE_F32);
		ck_assert_uint_eq(result(0)->off % 64, 0);
		ck_assert(scalar() == 5);
		post_id(PF_OP_BUFFER_FREE, out);
	}
	post_id(PF_OP_BUFFER_FREE, 11);
	post_id(PF_OP_EXECUTABLE_FREE, 1);
	stop_ok();
}

TEST_ON_PLUGINS(misaligned_bytes_are_copied)
{
	const uint64_t args[] = { 11, 11 };

	start(plugins[_i]);
	*(float *)(d.arena + 8192 + 4) = 21;
	ck_assert_uint_eq(create_floats(11, 8192 + 4, 0), PF_NO_OFFSET);
	*(float *)(d.arena + 8192 + 4) = 0;
	ck_assert_int_eq(compile(1, add_scalars), 0);
	ck_assert_msg(execute(1, args, 2, 100) == 0, "%s", complaint());
	ck_assert(scalar() == 42);
	stop_ok();
}

/* Twice the argument, of N floats. */
static void compile_twice(uint64_t id, int n)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "module @twice {\n"
		 "  func.func public @main(%%a: tensor<%dxf32>) -> tensor<%dxf32> {\n"
		 "    %%0 = stablehlo.add %%a, %%a : tensor<%dxf32>\n"
		 "    return %%0 : tensor<%dxf32>\n"
		 "  }\n"
		 "}\n",
		 n, n, n, n);
	ck_assert_msg(compile(id, text) == 0, "%s", complaint());
}

/* Sanitizers own the allocator: then results are copied into a block. */
static const float *large_result(uint64_t *off)
{
	if (result(0)->where != PF_WHERE_POOL)
		ck_assert_uint_eq(result(0)->where, PF_WHERE_BLOCK);
	ck_assert_uint_eq(result(0)->len, 4 << 20);
	*off = result(0)->off;
	return (const float *)(d.pool + *off);
}

/* The first index where NUMBERS are not twice the index, or -1. */
static int first_wrong(const float *numbers, int n)
{
	for (int i = 0; i < n; i++)
		if (numbers[i] != (float)(2 * i))
			return i;
	return -1;
}

TEST_ON_PLUGINS(large_results_lie_in_the_pool)
{
	enum { N = 1 << 20 };
	const uint64_t args[] = { 11 };
	uint64_t off, first = PF_NO_OFFSET;
	const float *numbers;

	start(plugins[_i]);
	for (int i = 0; i < N; i++)
		((float *)(d.arena + AT))[i] = (float)i;
	ck_assert_uint_eq(create_floats(11, AT, N), AT);
	compile_twice(1, N);
	for (uint64_t out = 100; out < 104; out++) {
		ck_assert_msg(execute(1, args, 1, out) == 0, "%s", complaint());
		ck_assert_uint_eq(result(0)->len, N * 4);
#ifndef PF_SANITIZE
		ck_assert_uint_eq(result(0)->where, PF_WHERE_POOL);
#endif
		numbers = large_result(&off);
		ck_assert_int_eq(first_wrong(numbers, N), -1);
		/* A freed result's memory, which is warm, is the next one's. */
		if (first == PF_NO_OFFSET)
			first = off;
#ifndef PF_SANITIZE
		ck_assert_uint_eq(off, first);
#endif
		post_id(PF_OP_BUFFER_FREE, out);
		post_id(PF_OP_BLOCK_FREE, off); /* of a plugin's block: ignored */
		/* Frees have no reply: another request's shows that they were taken. */
		ck_assert_int_eq(execute(1, args, 1, out + 1000), 0);
		post_id(PF_OP_BUFFER_FREE, out + 1000);
		/* real time: the plugin frees on a thread of its own, of which nothing tells */
		usleep(20000);
	}
	/* The bytes outlive the worker. */
	ck_assert_int_eq(execute(1, args, 1, 200), 0);
	numbers = large_result(&off);
	kill(d.pid, SIGKILL);
	ck_assert_int_eq(waitid(P_PID, (id_t)d.pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT),
			 0);
	ck_assert_int_eq(first_wrong(numbers, N), -1);
	ck_assert_int_eq(WTERMSIG(stop()), SIGKILL);
}

TEST_ON_PLUGINS(empty_arrays_work)
{
	static const char program[] =
		"func.func public @main(%a: tensor<0x3xf32>) -> tensor<0x3xf32> {\n"
		"  %0 = stablehlo.add %a, %a : tensor<0x3xf32>\n"
		"  return %0 : tensor<0x3xf32>\n"
		"}\n";
	struct pf_req_buffer q = buffer_request(11, ARENA_SIZE, 0, PF_DTYPE_F32);
	struct pf_req_id read = { .id = 11 };
	const uint64_t args[] = { 11 };

	start(plugins[_i]);
	q.rank = 2;
	q.dims[1] = 3;
	ck_assert_msg(ask(PF_OP_BUFFER_CREATE, &q, sizeof(q)) == 0, "%s", complaint());
	ck_assert_msg(ask(PF_OP_BUFFER_READ, &read, sizeof(read)) == 0, "%s",
		      complaint());
	ck_assert_uint_eq(((struct pf_rep_block *)reply)->len, 0);
	ck_assert_msg(compile(1, program) == 0, "%s", complaint());
	ck_assert_msg(execute(1, args, 1, 12) == 0, "%s", complaint());
	ck_assert_uint_eq(result(0)->where, PF_WHERE_INLINE);
	ck_assert_uint_eq(result(0)->len, 0);
	stop_ok();
}

/* Many requests under way at once: each reply has its own request's tag and numbers. */
TEST_ON_PLUGINS(a_reply_has_its_requests_tag)
{
	enum { CLIENTS = 4, ROUNDS = 200 };

	start(plugins[_i]);
	ck_assert_int_eq(compile(1, add_scalars), 0);
	for (unsigned c = 0; c < CLIENTS; c++) {
		*(float *)(d.arena + 8192 + c * 64) = (float)(c + 1);
		create_floats(11 + c, 8192 + c * 64, 0);
	}
	for (uint64_t round = 0; round < ROUNDS; round++) {
		uint64_t first = 0;
		bool seen[CLIENTS] = { false };

		for (uint64_t c = 0; c < CLIENTS; c++) {
			const uint64_t args[] = { 11 + c, 11 + c };
			struct execute_message m;
			size_t len = execute_message(&m, 1, args, 2,
						     1000 + round * CLIENTS + c);
			uint64_t tag = send_message(PF_OP_EXECUTE, &m, len);

			first = c ? first : tag;
		}
		for (int c = 0; c < CLIENTS; c++) {
			struct pf_rep_head *rep = (struct pf_rep_head *)reply;
			uint64_t who;

			take_reply(reply);
			ck_assert_msg(rep->code == 0, "%s", complaint());
			who = rep->head.tag - first;
			ck_assert_uint_lt(who, CLIENTS);
			ck_assert(!seen[who]);
			seen[who] = true;
			ck_assert(scalar() == (float)(2 * (who + 1)));
			post_id(PF_OP_BUFFER_FREE, 1000 + round * CLIENTS + who);
		}
	}
	stop_ok();
}

/* Buffers are freed in the order of requests, before the next one is taken. */
TEST(no_request_finds_what_was_freed_before)
{
	struct pf_req_id read = { .id = 11 };

	start(plugins[0]);
	for (int i = 0; i < 500; i++) {
		create_floats(11, 8192, 0);
		post_id(PF_OP_BUFFER_FREE, 11);
		ck_assert_int_eq(ask(PF_OP_BUFFER_READ, &read, sizeof(read)), -ENOENT);
	}
	stop_ok();
}

/* f(x0, …, x99) = (x0, …, x99), doubled: more than fits a reply. */
static void print_wide(struct pf_buf *text, unsigned n)
{
	pf_buf_puts(text, "func.func public @main(");
	for (unsigned i = 0; i < n; i++)
		pf_buf_printf(text, "%s%%a%u: tensor<256xf32>", i ? ", " : "", i);
	pf_buf_puts(text, ") -> (");
	for (unsigned i = 0; i < n; i++)
		pf_buf_printf(text, "%stensor<256xf32>", i ? ", " : "");
	pf_buf_puts(text, ") {\n");
	for (unsigned i = 0; i < n; i++)
		pf_buf_printf(text,
			      "%%r%u = stablehlo.add %%a%u, %%a%u : tensor<256xf32>\n", i,
			      i, i);
	pf_buf_puts(text, "return ");
	for (unsigned i = 0; i < n; i++)
		pf_buf_printf(text, "%s%%r%u", i ? ", " : "", i);
	pf_buf_puts(text, " : ");
	for (unsigned i = 0; i < n; i++)
		pf_buf_printf(text, "%stensor<256xf32>", i ? ", " : "");
	pf_buf_puts(text, "\n}\n");
}

TEST_ON_PLUGINS(many_arguments_and_results)
{
	enum { WIDE = 100, LEN = 1024 };
	struct {
		struct pf_req_execute q;
		uint64_t ids[2 * WIDE];
		uint32_t carry[WIDE];
		uint8_t donate[WIDE];
	} m = { .q = { .executable = 1,
		       .device = UINT32_MAX,
		       .n_args = WIDE,
		       .n_outs = WIDE,
		       .n_devices = 1 } };
	static struct pf_out outs[WIDE];
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	unsigned inside = 0;

	start(plugins[_i]);
	print_wide(&text, WIDE);
	ck_assert(!text.failed);
	ck_assert_msg(compile(1, text.data) == 0, "%s", complaint());
	for (unsigned i = 0; i < WIDE; i++) {
		*(float *)(d.arena + 65536 + i * LEN) = (float)i;
		create_floats(11 + i, 65536 + i * LEN, 256);
		m.ids[i] = 11 + i;
		m.ids[WIDE + i] = 1000 + i;
	}
	ck_assert_msg(ask(PF_OP_EXECUTE, &m, pf_execute_bytes(WIDE, WIDE, 1)) == 0, "%s",
		      complaint());
	memcpy(outs, result(0), sizeof(outs));
	for (unsigned i = 0; i < WIDE; i++) {
		ck_assert_uint_eq(outs[i].len, LEN);
		if (outs[i].where != PF_WHERE_INLINE)
			continue;
		inside++;
		ck_assert(*(float *)(reply + outs[i].off) == (float)(2 * i));
	}
	ck_assert_uint_ge(inside, 63);
	ck_assert_uint_le(inside, 64);
	for (unsigned i = inside; i < WIDE; i++) {
		ck_assert_uint_eq(outs[i].where, PF_WHERE_BLOCK);
		ck_assert(*(const float *)(d.pool + outs[i].off) == (float)(2 * i));
		post_id(PF_OP_BLOCK_FREE, outs[i].off);
	}
	stop_ok();
}

/* --- lent bytes -------------------------------------------------------------------------- */

static const struct {
	int n;
	enum pf_where where;
} sizes[] = {
	{ 1, PF_WHERE_INLINE },     { 1024, PF_WHERE_INLINE },  { 1025, PF_WHERE_BLOCK },
	{ 262143, PF_WHERE_BLOCK }, { 1 << 20, PF_WHERE_POOL },
};

TEST(results_of_calls_lie_in_the_reply_or_the_pool)
{

	start(plugins[0]);
	for (unsigned s = 0; s < ARRAY_SIZE(sizes); s++) {
		const int n = sizes[s].n;
		const float *numbers;

		compile_twice(1 + s, n);
		for (int i = 0; i < n; i++)
			((float *)(d.arena + AT))[i] = (float)i;
		ck_assert_msg(call(1 + s, 1, AT, n, 100 + s) == 0, "%s", complaint());
#ifndef PF_SANITIZE
		ck_assert_uint_eq(result(0)->where, sizes[s].where);
#endif
		ck_assert_uint_eq(result(0)->len, (uint64_t)n * 4);
		numbers = (const float *)(result(0)->where == PF_WHERE_INLINE ? reply
									      : d.pool);
		numbers += result(0)->off / sizeof(float);
		ck_assert_int_eq(first_wrong(numbers, n), -1);
		if (result(0)->where == PF_WHERE_POOL)
			post_id(PF_OP_BUFFER_FREE, 100 + s);
		else if (result(0)->where == PF_WHERE_BLOCK)
			post_id(PF_OP_BLOCK_FREE, result(0)->off);
	}
	stop_ok();
}

/* One argument is a buffer, the other is lent, on the device that is named; results are kept. */
TEST_ON_PLUGINS(buffers_and_bytes_go_together)
{
	struct call_message m;
	size_t len;
	float sum;

	start(plugins[_i]);
	ck_assert_int_eq(compile(1, add_scalars), 0);
	*(float *)(d.arena + 8192) = 1;
	create_floats(11, 8192, 0);
	*(float *)(d.arena + AT) = 10;
	for (int lent = 0; lent < 2; lent++) {
		call_message(&m, 1, 1, AT, 0, 100 + (uint64_t)lent);
		/* Make room for the second argument. */
		memmove(m.lists + 3, m.lists + 2, sizeof(struct pf_arg));
		m.q.n_args = 2;
		m.q.flags = 0;
		m.q.repeat = 3;
		m.lists[2] = 100 + (uint64_t)lent;
		m.lists[lent] = 0;
		m.lists[!lent] = 11;
		memset(m.lists + 6, 0xff, 2 * sizeof(uint32_t));
		*(uint32_t *)(m.lists + 6) = 0; /* the first argument is replaced */
		memset(m.lists + 7, 0, 2);
		len = pf_execute_bytes(2, 1, 1) + sizeof(struct pf_arg);
		ck_assert_msg(ask(PF_OP_EXECUTE, &m, len) == 0, "%s", complaint());
		memcpy(&sum, reply + result(0)->off, sizeof(sum));
		ck_assert_float_eq(sum, lent ? 31 : 13);
		ck_assert_int_eq(execute(1, (uint64_t[]){ m.lists[2], 11 }, 2,
					 200 + (uint64_t)lent),
				 0);
	}
	stop_ok();
}
