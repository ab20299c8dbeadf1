/* SPDX-License-Identifier: Apache-2.0 */
/* Programs on real plugins call the host, which is this test. */
#include "compile_fixture.h"

#include "pjrtfs/callback.h"

#define A "tensor<3xf32>"
#define A_TO_A "(" A ") -> " A

#define CALL(target, index, args, types)                                                 \
	"stablehlo.custom_call @" target "(" args ") {has_side_effect = true, "          \
	"api_version = 4 : i32, backend_config = {" index "}} : " types "\n"

/* A program from TYPE to TYPE that gives RESULT. */
#define PROGRAM(type, body, result)                                                      \
	"func.func public @main(%a: " type ") -> " type " {\n" body "return " result     \
	" : " type "\n}\n"

/* An array of a dimension or more. */
struct array {
	enum pf_dtype dtype;
	unsigned rank;
	int64_t dim; /* the last one */
	uint64_t len;
};

#define F32_3                                                                            \
	{                                                                                \
		PF_DTYPE_F32, 1, 3, 12                                                   \
	}

/* What the host is asked by a program with an argument F32[N]: 1, 2, 3. */
static const struct {
	const char *title, *program;
	struct {
		int64_t n;
		uint64_t index;
		bool ordered;
		unsigned n_args, n_results;
	} of;
	struct array argument, result; /* the last argument and the first result */
} calls[] = {
	{ "an array of the program",
	  PROGRAM(A, "%0 = " CALL("pjrtfs_callback", "index = 7 : ui64", "%a", A_TO_A),
		  "%0"),
	  { 3, 7, false, 1, 1 },
	  F32_3,
	  F32_3 },
	{ "arrays of other types",
	  PROGRAM(A,
		  "%c = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>\n"
		  "%0:2 = " CALL("xla_ffi_partitioned_python_cpu_callback",
				 "index = 0 : ui64", "%a, %c",
				 "(" A ", tensor<2x2xi32>) -> (tensor<2xi1>, " A ")"),
		  "%0#1"),
	  { 3, 0, false, 2, 2 },
	  { PF_DTYPE_S32, 2, 2, 16 },
	  { PF_DTYPE_PRED, 1, 2, 2 } },
	{ "tokens, which are left out",
	  PROGRAM(A,
		  "%t = stablehlo.create_token : !stablehlo.token\n"
		  "%0:2 = " CALL("xla_ffi_python_cpu_callback", "index = 0 : ui64",
				 "%t, %a",
				 "(!stablehlo.token, " A ") -> (!stablehlo.token, " A
				 ")"),
		  "%0#1"),
	  { 3, 0, true, 1, 1 },
	  F32_3,
	  F32_3 },
	{ "arrays without elements",
	  PROGRAM("tensor<0xf32>",
		  "%0 = " CALL("pjrtfs_callback", "index = 0 : ui64", "%a",
			       "(tensor<0xf32>) -> tensor<0xf32>"),
		  "%0"),
	  { 0, 0, false, 1, 1 },
	  { PF_DTYPE_F32, 1, 0, 0 },
	  { PF_DTYPE_F32, 1, 0, 0 } },
	{ "no arrays",
	  PROGRAM(A, CALL("pjrtfs_callback", "index = 1 : ui64", "", "() -> ()"), "%a"),
	  { 3, 1, false, 0, 0 },
	  { 0 },
	  { 0 } },
};

static struct pf_instance *instance;

/* --- executions ---------------------------------------------------------------------- */

/* One execution of a program with an argument F32[N] and such a result. */
struct run {
	struct question q;
	struct pf_extent argument;
	bool deaf;                        /* it cannot be asked */
	struct pf_invocation *invocation; /* that it has asked */
	struct event asked;
};

static void *hold(struct pf_call *call)
{
	struct run *run = pf_container_of(call, struct run, q.call);

	return run->deaf ? NULL : run;
}

static void asked(void *held, struct pf_invocation *invocation)
{
	struct run *run = held;

	run->invocation = invocation;
	event_fire(&run->asked);
}

/* Begin to execute PROGRAM with the argument 1, 2, 3 ... of LEN elements. */
static void begin(struct run *run, const char *program, int64_t len)
{
	struct {
		uint64_t argument, result;
		struct pf_arg lent;
		int64_t dim;
		uint32_t carry;
		uint8_t donate;
	} __attribute__((__packed__)) tail = {
		.result = pf_worker_id(worker),
		.lent = { .len = (uint64_t)len * 4, .dtype = PF_DTYPE_F32, .rank = 1 },
		.dim = len,
		.carry = PF_NO_CARRY,
	};
	struct pf_req_execute req = { .head.op = PF_OP_EXECUTE,
				      .executable = compile(instance, program),
				      .device = UINT32_MAX,
				      .n_args = 1,
				      .n_outs = 1,
				      .n_devices = 1 };
	float *elements;

	run->argument = extent(64);
	elements = pf_arena_at(arena, run->argument.off);
	for (int i = 0; i < len; i++)
		elements[i] = 1 + (float)i;
	tail.lent.off = run->argument.off;
	event_init(&run->asked);
	question_init(&run->q, sizeof(struct pf_rep_execute) + sizeof(struct pf_out));
	run->q.call.hold = hold;
	run->q.call.asked = asked;
	ck_assert_int_eq(pf_instance_call(instance, &run->q.call, &req, sizeof(req),
					  &tail, sizeof(tail), NULL),
			 0);
}

/* Wait for the end of RUN; its code. */
static int end(struct run *run)
{
	event_wait(&run->q.answered);
	pf_arena_give(arena, &run->argument);
	return run->q.code;
}

/* Element 1 of the result of RUN, which has ended well. */
static float second_element(const struct run *run)
{
	const struct pf_out *out =
		(const void *)(run->q.reply + sizeof(struct pf_rep_execute));
	float x;

	ck_assert_uint_eq(out->where, PF_WHERE_INLINE);
	ck_assert_uint_eq(out->len, 12);
	memcpy(&x, run->q.reply + out->off + 4, 4);
	return x;
}

static void drop(void *kept)
{
	event_fire(kept);
}

/* Answer INVOCATION with zeros, but its last result, F32[3], with 20, 21, 22. */
static void answer(struct pf_invocation *invocation)
{
	struct pf_extent room = extent(256);
	uint64_t offs[4] = { room.off, room.off, room.off, room.off };
	float *elements = pf_arena_at(arena, room.off + 128);
	struct event dropped;

	memset(pf_arena_at(arena, room.off), 0, 256);
	if (invocation->n_results)
		offs[invocation->n_results - 1] = room.off + 128;
	for (int i = 0; i < 3; i++)
		elements[i] = (float)(20 + i);
	event_init(&dropped);
	ck_assert_int_eq(pf_invocation_answer(invocation, offs, &dropped, drop), 0);
	event_wait(&dropped);
	pf_arena_give(arena, &room);
}

/* --- tests ------------------------------------------------------------------------------ */

static void open_instance(const char *plugin)
{
	start_worker(plugin);
	instance = pf_worker_instance(worker, NULL);
	ck_assert_ptr_nonnull(instance);
}

static void close_instance(void)
{
	pf_instance_unref(instance);
	stop_worker();
}

static void check_array(const struct pf_callback_array *a, const struct array *want)
{
	ck_assert_int_eq(a->dtype, want->dtype);
	ck_assert_uint_eq(a->shape.rank, want->rank);
	ck_assert_int_eq(a->shape.dims[want->rank - 1], want->dim);
	ck_assert_uint_eq(a->len, want->len);
}

/* RUN has asked what calls[I] says, and gets the answer. */
static void check_call(struct run *run, size_t i)
{
	struct pf_invocation *got;

	event_wait(&run->asked);
	got = run->invocation;
	ck_assert_msg(got->index == calls[i].of.index &&
			      got->ordered == calls[i].of.ordered &&
			      got->n_args == calls[i].of.n_args &&
			      got->n_results == calls[i].of.n_results,
		      "%s", calls[i].title);
	if (got->n_args) {
		check_array(&got->args[got->n_args - 1], &calls[i].argument);
		ck_assert_ptr_nonnull(got->args[0].data);
		ck_assert(!calls[i].of.n || ((const float *)got->args[0].data)[2] == 3);
		check_array(got->results, &calls[i].result);
	}
	answer(got);
	ck_assert_msg(end(run) == 0, "%s: %s", calls[i].title, run->q.err.text);
	ck_assert(!calls[i].of.n ||
		  second_element(run) == (calls[i].of.n_results ? 21 : 2));
}

TEST_ON_PLUGINS(the_host_is_asked_and_answers)
{
	open_instance(plugins[_i]);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		struct run run = { 0 };

		begin(&run, calls[i].program, calls[i].of.n);
		check_call(&run, i);
	}
	close_instance();
}

static const struct {
	const char *program;
	bool deaf;
	int code;
	const char *sentence;
} refusals[] = {
	{ PROGRAM(A, "%0 = " CALL("pjrtfs_callback", "index = 7 : ui64", "%a", A_TO_A),
		  "%0"),
	  true, PF_PJRT_FAILED_PRECONDITION, "nothing answers" },
	{ PROGRAM(A,
		  "%c = stablehlo.constant dense<1> : tensor<2xi4>\n"
		  "%0 = " CALL("pjrtfs_callback", "index = 0 : ui64", "%c",
			       "(tensor<2xi4>) -> " A),
		  "%0"),
	  false, PF_PJRT_UNIMPLEMENTED, "of type S4" },
	{ PROGRAM(A, "%0 = " CALL("pjrtfs_callback", "", "%a", A_TO_A), "%0"), false,
	  PF_PJRT_INVALID_ARGUMENT, "attribute index" },
};

TEST_EACH(callbacks_that_nothing_can_answer_fail, refusals)
{
	struct run run = { .deaf = refusals[_i].deaf };

	open_instance(plugins[0]);
	begin(&run, refusals[_i].program, 3);
	ck_assert_int_lt(end(&run), 0);
	ck_assert_int_eq(run.q.err.pjrt_code, refusals[_i].code);
	ck_assert_msg(strstr(run.q.err.text, refusals[_i].sentence) != NULL, "%s",
		      run.q.err.text);
	close_instance();
}

UNIT_FIXTURE(open_arena, close_arena)
