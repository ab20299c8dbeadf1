/* SPDX-License-Identifier: Apache-2.0 */
/* Programs on real plugins call the host: what pjrtfs-worker asks, and what it refuses.  What becomes
 * of answers is shown by store/check_callbacks and tests/tools/callbacks.py. */
#include "worker_driver.h"

#include "pjrtfs/callback.h"

#define A "tensor<3xf32>"

#define CALL(target, index, args, types)                                                 \
	"stablehlo.custom_call @" target "(" args ") {has_side_effect = true, "          \
	"api_version = 4 : i32, backend_config = {" index "}} : " types "\n"

/* A program of an argument and a result F32[3]. */
#define PROGRAM(body, result)                                                            \
	"func.func public @main(%a: " A ") -> " A " {\n" body "return " result " : " A   \
	"\n}\n"

static const struct {
	const char *title, *program;
	struct {
		uint32_t index, ordered, n_args, n_results;
	} of;
	struct pf_callback_type last; /* argument */
} calls[] = {
	{ "an array of the program",
	  PROGRAM("%0 = " CALL("pjrtfs_callback", "index = 7 : ui64", "%a",
			       "(" A ") -> " A),
		  "%0"),
	  { 7, 0, 1, 1 },
	  { .len = 12, .dtype = PF_DTYPE_F32, .rank = 1 } },
	{ "arrays of other types",
	  PROGRAM("%c = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>\n"
		  "%0:2 = " CALL("xla_ffi_partitioned_python_cpu_callback",
				 "index = 0 : ui64", "%a, %c",
				 "(" A ", tensor<2x2xi32>) -> (tensor<2xi1>, " A ")"),
		  "%0#1"),
	  { 0, 0, 2, 2 },
	  { .len = 16, .dtype = PF_DTYPE_S32, .rank = 2 } },
	{ "tokens, which are left out",
	  PROGRAM("%t = stablehlo.create_token : !stablehlo.token\n"
		  "%0:2 = " CALL("xla_ffi_python_cpu_callback", "index = 0 : ui64",
				 "%t, %a",
				 "(!stablehlo.token, " A ") -> (!stablehlo.token, " A
				 ")"),
		  "%0#1"),
	  { 0, 1, 1, 1 },
	  { .len = 12, .dtype = PF_DTYPE_F32, .rank = 1 } },
	{ "no arrays",
	  PROGRAM(CALL("pjrtfs_callback", "index = 1 : ui64", "", "() -> ()"), "%a"),
	  { 1, 0, 0, 0 },
	  { 0 } },
};

/* Have the worker execute PROGRAM with 1, 2, 3. */
static uint64_t begin(uint64_t id, const char *program)
{
	const uint64_t args[] = { 11 };
	struct execute_message m;

	for (int i = 0; i < 3; i++)
		((float *)(d.arena + 8192))[i] = (float)(1 + i);
	ck_assert_msg(compile(id, program) == 0, "%s", complaint());
	create_floats(11, 8192, 3);
	return send_message(PF_OP_EXECUTE, &m,
			    execute_message(&m, id, args, 1, 100 + id));
}

TEST_ON_PLUGINS(the_host_is_asked)
{
	start(plugins[_i]);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		const struct pf_msg_callback *got = (const void *)reply;
		const char *at = reply + sizeof(*got);
		uint64_t tag = begin(1 + i, calls[i].program);
		struct pf_callback_type type = { 0 };

		take_reply(reply);
		ck_assert_msg(got->head.op == PF_OP_CALLBACK && got->head.tag == tag &&
				      got->index == calls[i].of.index &&
				      got->ordered == calls[i].of.ordered &&
				      got->n_args == calls[i].of.n_args &&
				      got->n_results == calls[i].of.n_results,
			      "%s", calls[i].title);
		for (uint32_t k = 0; k < got->n_args; k++) {
			memcpy(&type, at, sizeof(type));
			at += sizeof(type) + type.rank * sizeof(int64_t);
		}
		ck_assert_msg(type.dtype == calls[i].last.dtype &&
				      type.rank == calls[i].last.rank &&
				      type.len == calls[i].last.len,
			      "%s", calls[i].title);
		if (type.dtype == PF_DTYPE_F32)
			ck_assert(((const float *)(d.pool + got->off + type.off))[2] ==
				  3);
		post_id(PF_OP_BUFFER_FREE, 11);
	}
	stop_ok(); /* while the programs wait */
}

static const struct {
	const char *program;
	int code;
	const char *sentence;
} refusals[] = {
	{ PROGRAM("%c = stablehlo.constant dense<1> : tensor<2xi4>\n"
		  "%0 = " CALL("pjrtfs_callback", "index = 0 : ui64", "%c",
			       "(tensor<2xi4>) -> " A),
		  "%0"),
	  PF_PJRT_UNIMPLEMENTED, "of type S4" },
	{ PROGRAM("%0 = " CALL("pjrtfs_callback", "", "%a", "(" A ") -> " A), "%0"),
	  PF_PJRT_INVALID_ARGUMENT, "attribute index" },
};

TEST_EACH(callbacks_that_nothing_can_answer_fail, refusals)
{
	start(plugins[0]);
	begin(1, refusals[_i].program);
	take_reply(reply);
	ck_assert_int_eq(((struct pf_rep_head *)reply)->pjrt_code, refusals[_i].code);
	ck_assert_msg(strstr(complaint(), refusals[_i].sentence) != NULL, "%s",
		      complaint());
	stop_ok();
}
