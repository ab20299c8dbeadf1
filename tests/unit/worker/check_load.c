/* SPDX-License-Identifier: Apache-2.0 */
/* pjrtfs-worker serializes and loads programs, with the same plugin and with others. */
#include "worker_driver.h"

static const char axpy[] =
	"module @axpy {\n"
	"  func.func public @main(%a: tensor<f32>, %x: tensor<4xf32> {tf.aliasing_output = 0 : i32},\n"
	"      %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) {\n"
	"    %0 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<4xf32>\n"
	"    %1 = stablehlo.multiply %0, %x : tensor<4xf32>\n"
	"    %2 = stablehlo.add %1, %y : tensor<4xf32>\n"
	"    return %2, %a : tensor<4xf32>, tensor<f32>\n"
	"  }\n"
	"}\n";

/* Serialize executable ID; the bytes are the caller's to free. */
static char *serialize(struct daemon *d, uint64_t id, size_t *len)
{
	struct pf_req_id q = { .id = id };
	struct pf_rep_block *block = (struct pf_rep_block *)reply;
	char *bytes;

	ck_assert_msg(ask(d, PF_OP_SERIALIZE, &q, sizeof(q)) == 0, "%s", complaint());
	ck_assert_uint_gt(block->len, 0);
	bytes = malloc(block->len);
	memcpy(bytes, d->pool + block->off, block->len);
	*len = block->len;
	post_id(d, PF_OP_BLOCK_FREE, block->off);
	return bytes;
}

/* Load BYTES as executable ID from an odd place in the arena; the reply's code. */
static int load(struct daemon *d, uint64_t id, const char *bytes, size_t len)
{
	struct pf_req_load q = { .id = id, .off = 65536 + 3, .len = len };

	memcpy(d->arena + q.off, bytes, len);
	return ask(d, PF_OP_LOAD, &q, sizeof(q));
}

/* 10 n + x, whose n is the number of the platform. */
static const char numbered[] =
	"func.func public @main(%n: tensor<i32>, %x: tensor<f32>) -> tensor<f32> {\n"
	"  %0 = stablehlo.convert %n : (tensor<i32>) -> tensor<f32>\n"
	"  %1 = stablehlo.constant dense<10.0> : tensor<f32>\n"
	"  %2 = stablehlo.multiply %0, %1 : tensor<f32>\n"
	"  %3 = stablehlo.add %2, %x : tensor<f32>\n"
	"  return %3 : tensor<f32>\n"
	"}\n";

/* The program's result for x = 5; OUT is the result's id. */
static float of_five(struct daemon *d, uint64_t executable, uint64_t out)
{
	static const uint64_t arg = 21;
	float value;

	*(float *)(d->arena + 8192) = 5;
	create_floats(d, arg, 8192, 0);
	ck_assert_msg(execute(d, executable, &arg, 1, out) == 0, "%s", complaint());
	memcpy(&value, reply + result(0)->off, sizeof(value));
	post_id(d, PF_OP_BUFFER_FREE, arg);
	return value;
}

TEST_ON_PLUGINS(the_platform_is_passed)
{
	struct pf_req_load q = { .id = 3, .off = 65536, .platform = 8 };
	const uint64_t none = 0;
	struct daemon d;
	size_t len;
	char *bytes;

	start_ok(&d, plugins[_i]);
	ck_assert_msg(compile_for(&d, 1, numbered, 1) == 0, "%s", complaint());
	ck_assert_msg(compile_for(&d, 2, numbered, PF_WIRE_MAX_PLATFORMS) == 0, "%s",
		      complaint());
	bytes = serialize(&d, 1, &len);
	memcpy(d.arena + q.off, bytes, len);
	q.len = len;
	ck_assert_msg(ask(&d, PF_OP_LOAD, &q, sizeof(q)) == 0, "%s", complaint());
	ck_assert(of_five(&d, 1, 100) == 5);
	ck_assert(of_five(&d, 2, 101) == 635);
	ck_assert(of_five(&d, 3, 102) == 75);
	ck_assert(of_five(&d, 3, 103) == 75);
	ck_assert_int_lt(execute(&d, 3, &none, 0, 104), 0);
	post_id(&d, PF_OP_EXECUTABLE_FREE, 3);
	ck_assert(of_five(&d, 1, 105) == 5);
	ck_assert_int_eq(stop(&d), 0);
	free(bytes);
}

/* The sum of 2 and 3 by the add of scalars; -1 if it does not run. */
static float sum(struct daemon *d, uint64_t executable)
{
	static const uint64_t args[] = { 11, 12 };
	float result_value;

	*(float *)(d->arena + 8192) = 2;
	*(float *)(d->arena + 8192 + 64) = 3;
	create_floats(d, 11, 8192, 0);
	create_floats(d, 12, 8192 + 64, 0);
	if (execute(d, executable, args, 2, 100) < 0)
		return -1;
	memcpy(&result_value, reply + result(0)->off, sizeof(result_value));
	return result_value;
}

/* The module of executable ID, LEN bytes at OFF in the pool: a second one is as long. */
static void check_module(struct daemon *d, uint64_t id, uint64_t off, uint64_t len)
{
	const struct pf_rep_optimized *told = (struct pf_rep_optimized *)reply;
	struct pf_req_id q = { .id = id };

	ck_assert_uint_ne(off, PF_NO_OFFSET);
	ck_assert_uint_gt(len, 0);
	ck_assert_msg(ask(d, PF_OP_OPTIMIZED, &q, sizeof(q)) == 0, "%s", complaint());
	ck_assert_uint_eq(told->len, len);
	post_id(d, PF_OP_BLOCK_FREE, told->off);
	post_id(d, PF_OP_BLOCK_FREE, off);
}

TEST_ON_PLUGINS(a_serialized_program_loads)
{
	struct pf_rep_load *loaded = (struct pf_rep_load *)reply;
	struct pf_req_id again = { .id = 2 };
	struct daemon one, two;
	size_t len;
	char *bytes;

	start_ok(&one, plugins[_i]);
	ck_assert_msg(compile(&one, 1, add_scalars) == 0, "%s", complaint());
	bytes = serialize(&one, 1, &len);
	/* next to its source, which may be freed */
	ck_assert_msg(load(&one, 2, bytes, len) == 0, "%s", complaint());
	ck_assert_uint_eq(loaded->n_results, 1);
	ck_assert_uint_eq(loaded->num_replicas, 1);
	ck_assert_uint_eq(loaded->num_partitions, 1);
	check_module(&one, 2, loaded->hlo_off, loaded->hlo_len);
	post_id(&one, PF_OP_EXECUTABLE_FREE, 1);
	ck_assert(sum(&one, 2) == 5);
	/* what is serialized of a loaded program would load, but not run */
	ck_assert_int_eq(ask(&one, PF_OP_SERIALIZE, &again, sizeof(again)), -EINVAL);
	ck_assert_int_eq(stop(&one), 0);
	/* and in another process */
	start_ok(&two, plugins[_i]);
	ck_assert_msg(load(&two, 7, bytes, len) == 0, "%s", complaint());
	memset(two.arena + 65536, 0xee, len); /* the bytes are not kept */
	ck_assert(sum(&two, 7) == 5);
	ck_assert_int_eq(stop(&two), 0);
	free(bytes);
}

TEST_ON_PLUGINS(a_loaded_program_has_as_many_results)
{
	struct pf_rep_load *loaded = (struct pf_rep_load *)reply;
	struct daemon d;
	size_t len;
	char *bytes;

	start_ok(&d, plugins[_i]);
	ck_assert_msg(compile(&d, 1, axpy) == 0, "%s", complaint());
	bytes = serialize(&d, 1, &len);
	ck_assert_msg(load(&d, 2, bytes, len) == 0, "%s", complaint());
	ck_assert_uint_eq(loaded->n_results, 2);
	ck_assert_int_eq(stop(&d), 0);
	free(bytes);
}

TEST_ON_PLUGINS(nonsense_is_refused)
{
	struct pf_req_load q = { .id = 5, .off = ARENA_SIZE - 10, .len = 11 };
	struct pf_req_id none = { .id = 77 };
	struct daemon d;

	start_ok(&d, plugins[_i]);
	ck_assert_int_eq(ask(&d, PF_OP_LOAD, &q, sizeof(q)), -EPROTO);
	q = (struct pf_req_load){ .id = 0, .len = 10 };
	ck_assert_int_eq(ask(&d, PF_OP_LOAD, &q, sizeof(q)), -EPROTO);
	q = (struct pf_req_load){ .id = 5, .len = 0 };
	ck_assert_int_eq(ask(&d, PF_OP_LOAD, &q, sizeof(q)), -EPROTO);
	q = (struct pf_req_load){ .id = 5,
				  .len = 10,
				  .platform = PF_WIRE_MAX_PLATFORMS + 1 };
	ck_assert_int_eq(ask(&d, PF_OP_LOAD, &q, sizeof(q)), -EPROTO);
	ck_assert_int_eq(ask(&d, PF_OP_LOAD, &q, sizeof(q) - 8), -EPROTO);
	ck_assert_int_eq(ask(&d, PF_OP_SERIALIZE, &none, sizeof(none)), -ENOENT);
	ck_assert_int_eq(ask(&d, PF_OP_SERIALIZE, &none, sizeof(none) - 1), -EPROTO);
	/* The plugin refuses bytes that are not a program, with its own sentence. */
	ck_assert_int_lt(load(&d, 5, "not a program, but some text", 28), 0);
	ck_assert_str_ne(complaint(), "");
	ck_assert_int_eq(compile(&d, 5, add_scalars), 0); /* the id is free */
	ck_assert_int_eq(stop(&d), 0);
}

/* CODE's result when PLUGIN runs it, in a separate process, which may die. */
static float run_foreign(const char *plugin, const char *code, size_t len)
{
	pid_t pid;
	int fds[2];
	float got = -1;

	ck_assert_int_eq(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		struct daemon d;

		start_ok(&d, plugin);
		if (load(&d, 7, code, len) == 0)
			got = sum(&d, 7);
		_exit(write(fds[1], &got, sizeof(got)) != sizeof(got));
	}
	close(fds[1]);
	if (read(fds[0], &got, sizeof(got)) != sizeof(got))
		got = -1;
	close(fds[0]);
	waitpid(pid, NULL, 0);
	return got;
}

/*
 * Why a cache's key holds the plugin's own SHA-256: plugins of one platform, whose
 * fingerprints of a program are the same, load each other's programs, and one of these
 * computes garbage from them without a word.
 */
TEST(programs_of_another_plugin_are_not_safe)
{
	char *fingerprint[MAX_PLUGINS] = { NULL };
	int wrong = 0, same = 0;

	for (int from = 0; from < n_plugins; from++) {
		const struct pf_rep_compile *made = (struct pf_rep_compile *)reply;
		struct json_object *info;
		struct daemon d;
		size_t len;
		char *code;

		start_ok(&d, plugins[from]);
		ck_assert_msg(compile(&d, 1, add_scalars) == 0, "%s", complaint());
		info = json_tokener_parse(d.pool + made->info_off);
		fingerprint[from] = strdup(json_object_get_string(
			json_object_object_get(info, "fingerprint")));
		json_object_put(info);
		code = serialize(&d, 1, &len);
		ck_assert_int_eq(stop(&d), 0);
		for (int to = 0; to < n_plugins; to++) {
			float got = run_foreign(plugins[to], code, len);

			if (to == from)
				ck_assert(got == 5);
			else
				wrong += got != 5;
		}
		for (int other = 0; other < from; other++)
			same += !strcmp(fingerprint[from], fingerprint[other]);
		free(code);
	}
	for (int i = 0; i < n_plugins; i++)
		free(fingerprint[i]);
	if (n_plugins < 3)
		return;
	ck_assert_int_gt(wrong, 0);
	ck_assert_int_gt(same, 0);
}
