/* SPDX-License-Identifier: Apache-2.0 */
/* pjrtfs-worker serializes and loads programs, with the same plugin and with others. */
#include "worker_driver.h"

static const char sum_and_first[] =
	"func.func public @main(%a: tensor<f32>, %b: tensor<f32>) -> (tensor<f32>, tensor<f32>) {\n"
	"  %0 = stablehlo.add %a, %b : tensor<f32>\n"
	"  return %0, %a : tensor<f32>, tensor<f32>\n"
	"}\n";

/* Serialize executable ID; the bytes are the caller's to free. */
static char *serialize(uint64_t id, size_t *len)
{
	struct pf_req_id q = { .id = id };
	struct pf_rep_block *block = (struct pf_rep_block *)reply;
	char *bytes;

	ck_assert_msg(ask(PF_OP_SERIALIZE, &q, sizeof(q)) == 0, "%s", complaint());
	ck_assert_uint_gt(block->len, 0);
	bytes = malloc(block->len);
	memcpy(bytes, d.pool + block->off, block->len);
	*len = block->len;
	post_id(PF_OP_BLOCK_FREE, block->off);
	return bytes;
}

/* Load BYTES as executable ID from an odd place in the arena; the reply's code. */
static int load(uint64_t id, const char *bytes, size_t len)
{
	struct pf_req_load q = { .id = id, .off = 65536 + 3, .len = len };

	memcpy(d.arena + q.off, bytes, len);
	return ask(PF_OP_LOAD, &q, sizeof(q));
}

/* Executable ID, which is sum_and_first, adds 2 and 3. */
static void check_sum(uint64_t id)
{
	struct {
		struct pf_req_execute q;
		uint64_t ids[4];
		uint32_t carry[2], donate;
	} m = { .q = { .executable = id,
		       .device = UINT32_MAX,
		       .n_args = 2,
		       .n_outs = 2,
		       .n_devices = 1 },
		.ids = { 11, 12, 100, 101 },
		.carry = { PF_NO_CARRY, PF_NO_CARRY } };

	*(float *)(d.arena + 8192) = 2;
	*(float *)(d.arena + 8192 + 64) = 3;
	create_floats(11, 8192, 0);
	create_floats(12, 8192 + 64, 0);
	ck_assert_msg(ask(PF_OP_EXECUTE, &m, pf_execute_bytes(2, 2, 1)) == 0, "%s",
		      complaint());
	ck_assert_float_eq(*(float *)(reply + result(0)->off), 5);
}

/* The module of executable ID, LEN bytes at OFF in the pool: a second one is as long. */
static void check_module(uint64_t id, uint64_t off, uint64_t len)
{
	const struct pf_rep_optimized *told = (struct pf_rep_optimized *)reply;
	struct pf_req_id q = { .id = id };

	ck_assert_uint_ne(off, PF_NO_OFFSET);
	ck_assert_uint_gt(len, 0);
	ck_assert_msg(ask(PF_OP_OPTIMIZED, &q, sizeof(q)) == 0, "%s", complaint());
	ck_assert_uint_eq(told->len, len);
	post_id(PF_OP_BLOCK_FREE, told->off);
	post_id(PF_OP_BLOCK_FREE, off);
}

TEST_ON_PLUGINS(a_serialized_program_loads)
{
	struct pf_rep_load *loaded = (struct pf_rep_load *)reply;
	struct pf_req_id again = { .id = 2 };
	size_t len;
	char *bytes;

	start(plugins[_i]);
	ck_assert_msg(compile(1, sum_and_first) == 0, "%s", complaint());
	bytes = serialize(1, &len);
	/* next to its source, which may be freed */
	ck_assert_msg(load(2, bytes, len) == 0, "%s", complaint());
	ck_assert_uint_eq(loaded->n_results, 2);
	ck_assert_uint_eq(loaded->num_replicas, 1);
	ck_assert_uint_eq(loaded->num_partitions, 1);
	check_module(2, loaded->hlo_off, loaded->hlo_len);
	post_id(PF_OP_EXECUTABLE_FREE, 1);
	check_sum(2);
	/* what is serialized of a loaded program would load, but not run */
	ck_assert_int_eq(ask(PF_OP_SERIALIZE, &again, sizeof(again)), -EINVAL);
	stop_ok();
	/* and in another process */
	start(plugins[_i]);
	ck_assert_msg(load(7, bytes, len) == 0, "%s", complaint());
	memset(d.arena + 65536, 0xee, len); /* the bytes are not kept */
	check_sum(7);
	stop_ok();
	free(bytes);
}
