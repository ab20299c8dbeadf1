/* SPDX-License-Identifier: Apache-2.0 */
/* pjrtfs-worker computes: every answer that a daemon builds on. */
#include <signal.h>

#include "worker_driver.h"

#include "pjrtfs/json.h"

static const char add_large[] =
	"module @large {\n"
	"  func.func public @main(%a: tensor<1048576xf32>) -> tensor<1048576xf32> {\n"
	"    %0 = stablehlo.add %a, %a : tensor<1048576xf32>\n"
	"    return %0 : tensor<1048576xf32>\n"
	"  }\n"
	"}\n";

TEST_ON_PLUGINS(describes_the_plugin)
{
	struct json_object *devices, *first, *version;
	struct daemon d;

	start_ok(&d, plugins[_i]);
	version = json_object_object_get(d.description, "api_version");
	ck_assert_int_eq(json_object_get_int(json_object_array_get_idx(version, 0)), 0);
	ck_assert_int_ge(json_object_get_int(json_object_array_get_idx(version, 1)), 57);
	ck_assert_str_eq(pf_json_get_string(d.description, "platform"), "cpu");
	devices = json_object_object_get(d.description, "devices");
	ck_assert_uint_eq(json_object_array_length(devices), 2);
	first = json_object_array_get_idx(devices, 0);
	ck_assert_int_eq(json_object_get_int(json_object_object_get(first, "id")), 0);
	ck_assert(json_object_get_boolean(json_object_object_get(first, "addressable")));
	first = json_object_object_get(first, "memories");
	ck_assert_uint_gt(json_object_array_length(first), 0);
	ck_assert_int_eq(stop(&d), 0);
}

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
	struct daemon d;
	size_t len;

	start_ok(&d, plugins[_i]);
	ck_assert_msg(compile(&d, 1, add_scalars) == 0, "%s", complaint());
	ck_assert_uint_ne(made->hlo_off, PF_NO_OFFSET);
	ck_assert_uint_gt(made->hlo_len, 0);
	info = json_tokener_parse(d.pool + made->info_off);
	ck_assert_ptr_nonnull(info);
	ck_assert_int_eq(json_object_get_int(json_object_object_get(info, "num_outputs")),
			 1);
	json_object_put(info);
	post_id(&d, PF_OP_BLOCK_FREE, made->info_off);
	len = made->hlo_len;
	post_id(&d, PF_OP_BLOCK_FREE, made->hlo_off);
	/* The same text when requested again, except for the order of maps. */
	ck_assert_msg(ask(&d, PF_OP_OPTIMIZED, &id, sizeof(id)) == 0, "%s", complaint());
	ck_assert_uint_eq(again->len, len);
	ck_assert_uint_eq(again->with_config, 1);
	ck_assert_int_eq(d.pool[again->off], 0x0a);
	post_id(&d, PF_OP_BLOCK_FREE, again->off);
	*(float *)(d.arena + 8192) = 2;
	*(float *)(d.arena + 8192 + 64) = 3;
	/* No copy: the device buffer lies where the user's bytes are. */
	ck_assert_uint_eq(create_floats(&d, 11, 8192, 0), 8192);
	ck_assert_uint_eq(create_floats(&d, 12, 8192 + 64, 0), 8192 + 64);
	for (uint64_t out = 100; out < 110; out++) {
		ck_assert_msg(execute(&d, 1, args, 2, out) == 0, "%s", complaint());
		ck_assert_uint_eq(result(0)->dtype, PF_DTYPE_F32);
		ck_assert_uint_eq(result(0)->off % 64, 0);
		ck_assert(scalar() == 5);
		post_id(&d, PF_OP_BUFFER_FREE, out);
	}
	post_id(&d, PF_OP_BUFFER_FREE, 11);
	post_id(&d, PF_OP_EXECUTABLE_FREE, 1);
	ck_assert_int_eq(stop(&d), 0);
}

TEST_ON_PLUGINS(misaligned_bytes_are_copied)
{
	const uint64_t args[] = { 11, 11 };
	struct daemon d;

	start_ok(&d, plugins[_i]);
	*(float *)(d.arena + 8192 + 4) = 21;
	ck_assert_uint_eq(create_floats(&d, 11, 8192 + 4, 0), PF_NO_OFFSET);
	*(float *)(d.arena + 8192 + 4) = 0;
	ck_assert_int_eq(compile(&d, 1, add_scalars), 0);
	ck_assert_msg(execute(&d, 1, args, 2, 100) == 0, "%s", complaint());
	ck_assert(scalar() == 42);
	ck_assert_int_eq(stop(&d), 0);
}

/* Sanitizers own the allocator: then results are copied into a block. */
static const float *large_result(struct daemon *d, uint64_t *off)
{
	if (result(0)->where != PF_WHERE_POOL)
		ck_assert_uint_eq(result(0)->where, PF_WHERE_BLOCK);
	ck_assert_uint_eq(result(0)->len, 4 << 20);
	*off = result(0)->off;
	return (const float *)(d->pool + *off);
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
	struct daemon d;

	start_ok(&d, plugins[_i]);
	for (int i = 0; i < N; i++)
		((float *)(d.arena + (2 << 20)))[i] = (float)i;
	ck_assert_uint_eq(create_floats(&d, 11, 2 << 20, N), 2 << 20);
	ck_assert_msg(compile(&d, 1, add_large) == 0, "%s", complaint());
	for (uint64_t out = 100; out < 104; out++) {
		ck_assert_msg(execute(&d, 1, args, 1, out) == 0, "%s", complaint());
		ck_assert_uint_eq(result(0)->len, N * 4);
#ifndef PF_SANITIZE
		ck_assert_uint_eq(result(0)->where, PF_WHERE_POOL);
#endif
		numbers = large_result(&d, &off);
		ck_assert_int_eq(first_wrong(numbers, N), -1);
		/* A freed result's memory, which is warm, is the next one's. */
		if (first == PF_NO_OFFSET)
			first = off;
#ifndef PF_SANITIZE
		ck_assert_uint_eq(off, first);
#endif
		post_id(&d, PF_OP_BUFFER_FREE, out);
		post_id(&d, PF_OP_BLOCK_FREE, off); /* of a plugin's block: ignored */
		/* Frees have no reply: another request's shows that they were taken. */
		ck_assert_int_eq(execute(&d, 1, args, 1, out + 1000), 0);
		post_id(&d, PF_OP_BUFFER_FREE, out + 1000);
		/* real time: the plugin frees on a thread of its own, of which nothing tells */
		usleep(20000);
	}
	/* The bytes outlive the worker. */
	ck_assert_int_eq(execute(&d, 1, args, 1, 200), 0);
	numbers = large_result(&d, &off);
	kill(d.pid, SIGKILL);
	ck_assert_int_eq(waitid(P_PID, (id_t)d.pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT),
			 0);
	ck_assert_int_eq(first_wrong(numbers, N), -1);
	ck_assert_int_eq(WTERMSIG(stop(&d)), SIGKILL);
}

/* Every element type is read back unchanged. */
TEST_ON_PLUGINS(types_and_shapes_round_trip)
{
	struct json_object *version;
	struct daemon d;
	int minor;

	start_ok(&d, plugins[_i]);
	version = json_object_object_get(d.description, "api_version");
	minor = json_object_get_int(json_object_array_get_idx(version, 1));
	for (int t = 0; t < PF_DTYPE_COUNT + 3; t++) {
		struct pf_req_buffer q = buffer_request((uint64_t)t + 1, 8192, 0, t);
		struct pf_req_id read = { .id = q.id };
		struct pf_rep_block *block = (struct pf_rep_block *)reply;
		bool young = t == PF_DTYPE_S1 || t == PF_DTYPE_U1;
		unsigned bits = pf_dtype_valid(t) ? pf_dtype_bits((enum pf_dtype)t) : 8;
		int code;

		q.rank = 2;
		q.dims[0] = 3;
		q.dims[1] = 5;
		q.len = 15 * (pf_dtype_valid(t) ? pf_dtype_size((enum pf_dtype)t) : 1);
		for (uint64_t i = 0; i < q.len; i++)
			d.arena[8192 + i] = (char)(t == PF_DTYPE_PRED ? i % 2
						   : bits < 8         ? i % (1u << bits)
								      : i * 7);
		code = ask(&d, PF_OP_BUFFER_CREATE, &q, sizeof(q));
		if (!pf_dtype_valid(t) || (young && minor < 94)) {
			ck_assert_int_eq(code, pf_dtype_valid(t) ? -EOPNOTSUPP : -EINVAL);
			continue;
		}
		ck_assert_msg(code == 0, "type %d: %s", t, complaint());
		ck_assert_msg(ask(&d, PF_OP_BUFFER_READ, &read, sizeof(read)) == 0, "%s",
			      complaint());
		ck_assert_uint_eq(block->len, q.len);
		for (uint64_t i = 0; i < q.len; i++) {
			unsigned mask = bits < 8 ? (1u << bits) - 1 : 0xff;

			ck_assert_msg(((unsigned)d.pool[block->off + i] & mask) ==
					      ((unsigned)d.arena[8192 + i] & mask),
				      "type %d byte %u: %x, not %x", t, (unsigned)i,
				      d.pool[block->off + i] & 0xff,
				      d.arena[8192 + i] & 0xff);
		}
		post_id(&d, PF_OP_BLOCK_FREE, block->off);
		post_id(&d, PF_OP_BUFFER_FREE, q.id);
	}
	ck_assert_int_eq(stop(&d), 0);
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
	struct daemon d;

	start_ok(&d, plugins[_i]);
	q.rank = 2;
	q.dims[1] = 3;
	ck_assert_msg(ask(&d, PF_OP_BUFFER_CREATE, &q, sizeof(q)) == 0, "%s",
		      complaint());
	ck_assert_msg(ask(&d, PF_OP_BUFFER_READ, &read, sizeof(read)) == 0, "%s",
		      complaint());
	ck_assert_uint_eq(((struct pf_rep_block *)reply)->len, 0);
	ck_assert_msg(compile(&d, 1, program) == 0, "%s", complaint());
	ck_assert_msg(execute(&d, 1, args, 1, 12) == 0, "%s", complaint());
	ck_assert_uint_eq(result(0)->where, PF_WHERE_INLINE);
	ck_assert_uint_eq(result(0)->len, 0);
	ck_assert_int_eq(stop(&d), 0);
}

/* Many requests under way at once: each reply has its own request's tag and numbers. */
TEST_ON_PLUGINS(a_reply_has_its_requests_tag)
{
	enum { CLIENTS = 4, ROUNDS = 200 };
	struct daemon d;

	start_ok(&d, plugins[_i]);
	ck_assert_int_eq(compile(&d, 1, add_scalars), 0);
	for (unsigned c = 0; c < CLIENTS; c++) {
		*(float *)(d.arena + 8192 + c * 64) = (float)(c + 1);
		create_floats(&d, 11 + c, 8192 + c * 64, 0);
	}
	for (uint64_t round = 0; round < ROUNDS; round++) {
		uint64_t first = 0;
		bool seen[CLIENTS] = { false };

		for (uint64_t c = 0; c < CLIENTS; c++) {
			const uint64_t args[] = { 11 + c, 11 + c };
			struct execute_message m;
			size_t len = execute_message(&m, 1, args, 2,
						     1000 + round * CLIENTS + c);
			uint64_t tag = send_message(&d, PF_OP_EXECUTE, &m, len);

			first = c ? first : tag;
		}
		for (int c = 0; c < CLIENTS; c++) {
			struct pf_rep_head *rep = (struct pf_rep_head *)reply;
			uint64_t who;

			take_reply(&d, reply);
			ck_assert_msg(rep->code == 0, "%s", complaint());
			who = rep->head.tag - first;
			ck_assert_uint_lt(who, CLIENTS);
			ck_assert(!seen[who]);
			seen[who] = true;
			ck_assert(scalar() == (float)(2 * (who + 1)));
			post_id(&d, PF_OP_BUFFER_FREE, 1000 + round * CLIENTS + who);
		}
	}
	ck_assert_int_eq(stop(&d), 0);
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
	struct daemon d;

	start_ok(&d, plugins[_i]);
	print_wide(&text, WIDE);
	ck_assert(!text.failed);
	ck_assert_msg(compile(&d, 1, text.data) == 0, "%s", complaint());
	for (unsigned i = 0; i < WIDE; i++) {
		*(float *)(d.arena + 65536 + i * LEN) = (float)i;
		create_floats(&d, 11 + i, 65536 + i * LEN, 256);
		m.ids[i] = 11 + i;
		m.ids[WIDE + i] = 1000 + i;
	}
	ck_assert_msg(ask(&d, PF_OP_EXECUTE, &m, pf_execute_bytes(WIDE, WIDE, 1)) == 0,
		      "%s", complaint());
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
		post_id(&d, PF_OP_BLOCK_FREE, outs[i].off);
	}
	ck_assert_int_eq(stop(&d), 0);
}
