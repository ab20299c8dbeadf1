/* SPDX-License-Identifier: Apache-2.0 */
/* Programs on real plugins call the host, which is this test. */
#include <stdio.h>

#include "engine_fixture.h"

#include "pjrtfs/callback.h"
#include "pjrtfs/shm.h"
#include "pjrtfs/wire.h"

/* CompileOptionsProto: executable_build_options { num_replicas: 1 num_partitions: 1 }. */
static const char one_device[] = { 0x1a, 0x04, 0x20, 0x01, 0x28, 0x01 };

#define CALL(target, index, args, types)                                                 \
	"stablehlo.custom_call @" target "(" args ") {has_side_effect = true, "          \
	"api_version = 4 : i32, backend_config = {index = " index " : ui64}} : " types   \
	"\n"

/* --- programs ------------------------------------------------------------------------ */

/* An argument F32[N], and a result of the same type. */
static const char one_call[] =
	"func.func public @main(%a: tensor<3xf32>) -> tensor<3xf32> {\n"
	"  %0 = " CALL("pjrtfs_callback", "7", "%a",
		       "(tensor<3xf32>) -> tensor<3xf32>") "  return %0 : tensor<3xf32>\n"
							   "}\n";

static const char two_arguments[] =
	"func.func public @main(%a: tensor<3xf32>) -> tensor<3xf32> {\n"
	"  %c = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>\n"
	"  %0:2 = " CALL("xla_ffi_partitioned_python_cpu_callback", "0", "%a, %c",
			 "(tensor<3xf32>, tensor<2x2xi32>) -> (tensor<2xi1>, "
			 "tensor<3xf32>)") "  return %0#1 : tensor<3xf32>\n"
					   "}\n";

static const char with_token[] =
	"func.func public @main(%a: tensor<3xf32>) -> tensor<3xf32> {\n"
	"  %t = stablehlo.create_token : !stablehlo.token\n"
	"  %0:2 = " CALL("xla_ffi_python_cpu_callback", "0", "%t, %a",
			 "(!stablehlo.token, tensor<3xf32>) -> (!stablehlo.token, "
			 "tensor<3xf32>)") "  return %0#1 : tensor<3xf32>\n"
					   "}\n";

static const char empty[] =
	"func.func public @main(%a: tensor<0xf32>) -> tensor<0xf32> {\n"
	"  %0 = " CALL("pjrtfs_callback", "0", "%a",
		       "(tensor<0xf32>) -> tensor<0xf32>") "  return %0 : tensor<0xf32>\n"
							   "}\n";

static const char no_arrays[] =
	"func.func public @main(%a: tensor<3xf32>) -> tensor<3xf32> {\n"
	"  " CALL("pjrtfs_callback", "1", "", "() -> ()") "  return %a : tensor<3xf32>\n"
							  "}\n";

static const char four_bits[] =
	"func.func public @main(%a: tensor<3xf32>) -> tensor<3xf32> {\n"
	"  %c = stablehlo.constant dense<1> : tensor<2xi4>\n"
	"  %0 = " CALL("pjrtfs_callback", "0", "%c",
		       "(tensor<2xi4>) -> tensor<3xf32>") "  return %0 : tensor<3xf32>\n"
							  "}\n";

static const char without_index[] =
	"func.func public @main(%a: tensor<3xf32>) -> tensor<3xf32> {\n"
	"  %0 = stablehlo.custom_call @pjrtfs_callback(%a) {api_version = 4 : i32, "
	"backend_config = {}} : (tensor<3xf32>) -> tensor<3xf32>\n"
	"  return %0 : tensor<3xf32>\n"
	"}\n";

/* A callback gives the next array a hundred times. */
static const char loop[] =
	"func.func public @main(%a: tensor<3xf32>) -> tensor<3xf32> {\n"
	"  %i = stablehlo.constant dense<0> : tensor<i32>\n"
	"  %r:2 = stablehlo.while(%k = %i, %x = %a) : tensor<i32>, tensor<3xf32>\n"
	"  cond {\n"
	"    %n = stablehlo.constant dense<100> : tensor<i32>\n"
	"    %p = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> "
	"tensor<i1>\n"
	"    stablehlo.return %p : tensor<i1>\n"
	"  } do {\n"
	"    %one = stablehlo.constant dense<1> : tensor<i32>\n"
	"    %m = stablehlo.add %k, %one : tensor<i32>\n"
	"    %y = " CALL(
		"pjrtfs_callback", "2", "%x",
		"(tensor<3xf32>) -> tensor<3xf32>") "    stablehlo.return %m, %y : tensor<i32>, tensor<3xf32>\n"
						    "  }\n"
						    "  return %r#1 : tensor<3xf32>\n"
						    "}\n";

/* --- executions ---------------------------------------------------------------------- */

/* One execution of a program with an argument F32[N] and such a result. */
struct run {
	struct question q;
	struct pf_extent argument;
	bool deaf; /* it cannot be asked */
};

/* The invocations that nobody has taken yet. */
static struct inbox {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct {
		struct run *run;
		struct pf_invocation *invocation;
	} list[8];
	int n;
} inbox = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static struct pf_instance *instance;

static void *hold(struct pf_call *call)
{
	struct run *run = pf_container_of(call, struct run, q.call);

	return run->deaf ? NULL : run;
}

static void asked(void *held, struct pf_invocation *invocation)
{
	PF_LOCK_SCOPE(&inbox.lock);
	ck_assert_int_lt(inbox.n, (int)ARRAY_SIZE(inbox.list));
	inbox.list[inbox.n].run = held;
	inbox.list[inbox.n++].invocation = invocation;
	pthread_cond_broadcast(&inbox.changed);
}

/* The invocation that has waited longest, the caller's, and the execution that asks (NULL: any). */
static struct pf_invocation *take(const struct run *run)
{
	struct pf_invocation *invocation;
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 60;
	PF_LOCK_SCOPE(&inbox.lock);
	while (!inbox.n)
		ck_assert_msg(!pthread_cond_timedwait(&inbox.changed, &inbox.lock, &end),
			      "the program does not ask");
	invocation = inbox.list[0].invocation;
	if (run)
		ck_assert_ptr_eq(inbox.list[0].run, run);
	memmove(inbox.list, inbox.list + 1, (size_t)--inbox.n * sizeof(inbox.list[0]));
	return invocation;
}

static uint64_t compile(const char *text)
{
	struct pf_req_compile req = { .head.op = PF_OP_COMPILE,
				      .id = pf_worker_id(worker),
				      .program_len = strlen(text),
				      .format = "mlir",
				      .options_len = sizeof(one_device) };
	struct pf_err err = PF_ERR_INIT;
	struct pf_extent program;
	struct question q;

	ck_assert_int_eq(pf_arena_alloc(arena, strlen(text), &program, NULL), 0);
	memcpy(pf_arena_at(arena, program.off), text, strlen(text));
	req.program_off = program.off;
	ck_assert_int_eq(pf_instance_call(instance,
					  question_init(&q,
							sizeof(struct pf_rep_compile)),
					  &req, sizeof(req), one_device,
					  sizeof(one_device), &err),
			 0);
	event_wait(&q.answered);
	ck_assert_msg(q.code == 0, "%s", q.err.text);
	pf_arena_give(arena, &program);
	return req.id;
}

/* Begin to execute PROGRAM with the argument N, N + 1 ... of LEN elements. */
static void begin(struct run *run, uint64_t program, float n, int64_t len)
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
				      .executable = program,
				      .device = UINT32_MAX,
				      .n_args = 1,
				      .n_outs = 1,
				      .n_devices = 1 };
	float *elements;

	ck_assert_int_eq(pf_arena_alloc(arena, 64, &run->argument, NULL), 0);
	elements = pf_arena_at(arena, run->argument.off);
	for (int i = 0; i < len; i++)
		elements[i] = n + (float)i;
	tail.lent.off = run->argument.off;
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

/* Element I of the result of RUN, which has ended well. */
static float element(const struct run *run, int i)
{
	const struct pf_out *out =
		(const void *)(run->q.reply + sizeof(struct pf_rep_execute));
	float x;

	ck_assert_uint_eq(out->where, PF_WHERE_INLINE);
	ck_assert_uint_eq(out->len, 12);
	memcpy(&x, run->q.reply + out->off + (size_t)i * 4, 4);
	return x;
}

/* --- answers ------------------------------------------------------------------------- */

static struct event dropped;

static void drop(void *kept)
{
	ck_assert_ptr_eq(kept, &dropped);
	event_fire(&dropped);
}

/* Answer INVOCATION with zeros, but its last result, F32[3], with X, X + 1, X + 2. */
static int answer(struct pf_invocation *invocation, float x)
{
	struct pf_extent room;
	uint64_t offs[4] = { 0 };
	float *elements;
	uint32_t n = invocation->n_results;
	int r;

	ck_assert_int_eq(pf_arena_alloc(arena, 256, &room, NULL), 0);
	memset(pf_arena_at(arena, room.off), 0, 256);
	for (uint32_t i = 0; i < n; i++)
		offs[i] = room.off + (i == n - 1 ? 128 : 0);
	elements = pf_arena_at(arena, room.off + 128);
	for (int i = 0; i < 3; i++)
		elements[i] = x + (float)i;
	event_init(&dropped);
	r = pf_invocation_answer(invocation, offs, &dropped, drop);
	event_wait(&dropped);
	pf_arena_give(arena, &room);
	return r;
}

static void check_array(const struct pf_callback_array *a, enum pf_dtype dtype,
			unsigned rank, int64_t dim, uint64_t len)
{
	ck_assert_int_eq(a->dtype, dtype);
	ck_assert_uint_eq(a->shape.rank, rank);
	ck_assert_int_eq(a->shape.dims[rank - 1], dim);
	ck_assert_uint_eq(a->len, len);
}

static void open_instance(void)
{
	open_arena();
	start_worker(plugins[0]);
	instance = pf_worker_instance(worker, NULL);
	ck_assert_ptr_nonnull(instance);
}

static void use_plugin(int i)
{
	pf_instance_unref(instance);
	stop_worker();
	start_worker(plugins[i]);
	instance = pf_worker_instance(worker, NULL);
	ck_assert_ptr_nonnull(instance);
}

static void close_instance(void)
{
	pf_instance_unref(instance);
	stop_worker();
	close_arena();
}

TEST_ON_PLUGINS(the_host_answers)
{
	struct pf_invocation *invocation;
	struct run run = { 0 };

	use_plugin(_i);
	begin(&run, compile(one_call), 1, 3);
	invocation = take(&run);
	ck_assert_uint_eq(invocation->index, 7);
	ck_assert_uint_eq(invocation->n_args, 1);
	ck_assert_uint_eq(invocation->n_results, 1);
	ck_assert(!invocation->ordered);
	check_array(invocation->args, PF_DTYPE_F32, 1, 3, 12);
	check_array(invocation->results, PF_DTYPE_F32, 1, 3, 12);
	ck_assert(((const float *)invocation->args[0].data)[2] == 3);
	ck_assert_int_eq(answer(invocation, 20), 0);
	ck_assert_msg(end(&run) == 0, "%s", run.q.err.text);
	ck_assert(element(&run, 0) == 20 && element(&run, 2) == 22);
}

TEST_ON_PLUGINS(arrays_of_other_types)
{
	struct pf_invocation *invocation;
	struct run run = { 0 };

	use_plugin(_i);
	begin(&run, compile(two_arguments), 1, 3);
	invocation = take(&run);
	ck_assert_uint_eq(invocation->n_args, 2);
	ck_assert_uint_eq(invocation->n_results, 2);
	check_array(&invocation->args[1], PF_DTYPE_S32, 2, 2, 16);
	check_array(&invocation->results[0], PF_DTYPE_PRED, 1, 2, 2);
	ck_assert_int_eq(((const int32_t *)invocation->args[1].data)[1], 2);
	ck_assert_int_eq(answer(invocation, 5), 0);
	ck_assert_msg(end(&run) == 0, "%s", run.q.err.text);
	ck_assert(element(&run, 1) == 6);
}

TEST_ON_PLUGINS(tokens_are_left_out)
{
	struct pf_invocation *invocation;
	struct run run = { 0 };

	use_plugin(_i);
	begin(&run, compile(with_token), 1, 3);
	invocation = take(&run);
	ck_assert(invocation->ordered);
	ck_assert_uint_eq(invocation->n_args, 1);
	ck_assert_uint_eq(invocation->n_results, 1);
	check_array(invocation->args, PF_DTYPE_F32, 1, 3, 12);
	ck_assert_int_eq(answer(invocation, 5), 0);
	ck_assert_msg(end(&run) == 0, "%s", run.q.err.text);
	ck_assert(element(&run, 1) == 6);
}

TEST_ON_PLUGINS(arrays_without_elements)
{
	struct pf_invocation *invocation;
	struct run run = { 0 };

	use_plugin(_i);
	begin(&run, compile(empty), 1, 0);
	invocation = take(&run);
	check_array(invocation->args, PF_DTYPE_F32, 1, 0, 0);
	ck_assert_ptr_nonnull(invocation->args[0].data);
	ck_assert_int_eq(answer(invocation, 5), 0);
	ck_assert_msg(end(&run) == 0, "%s", run.q.err.text);
	begin(&run, compile(no_arrays), 1, 3);
	invocation = take(&run);
	ck_assert_uint_eq(invocation->index, 1);
	ck_assert_uint_eq(invocation->n_args + invocation->n_results, 0);
	ck_assert_int_eq(answer(invocation, 5), 0);
	ck_assert_msg(end(&run) == 0, "%s", run.q.err.text);
	ck_assert(element(&run, 1) == 2);
}

TEST_ON_PLUGINS(an_error_ends_the_execution)
{
	struct run run = { 0 };
	uint64_t program;

	use_plugin(_i);
	program = compile(one_call);
	begin(&run, program, 1, 3);
	pf_invocation_fail(take(&run), PF_PJRT_OUT_OF_RANGE, "below zero");
	ck_assert_int_eq(end(&run), -ERANGE);
	ck_assert_int_eq(run.q.err.pjrt_code, PF_PJRT_OUT_OF_RANGE);
	ck_assert_msg(strstr(run.q.err.text, "below zero") != NULL, "%s", run.q.err.text);
	/* The next one works. */
	begin(&run, program, 1, 3);
	ck_assert_int_eq(answer(take(&run), 4), 0);
	ck_assert_int_eq(end(&run), 0);
}

/* Both programs' callbacks have the same index. */
TEST_ON_PLUGINS(two_executions_at_once)
{
	struct pf_invocation *first, *second;
	struct run a = { 0 }, b = { 0 };
	uint64_t program;

	use_plugin(_i);
	program = compile(one_call);
	begin(&a, program, 1, 3);
	first = take(&a);
	begin(&b, program, 2, 3);
	second = take(&b);
	ck_assert(((const float *)first->args[0].data)[0] == 1);
	ck_assert(((const float *)second->args[0].data)[0] == 2);
	ck_assert_int_eq(answer(second, 200), 0);
	ck_assert_int_eq(end(&b), 0);
	ck_assert(element(&b, 0) == 200);
	ck_assert(!atomic_load(&a.q.done));
	ck_assert_int_eq(answer(first, 100), 0);
	ck_assert_int_eq(end(&a), 0);
	ck_assert(element(&a, 0) == 100);
}

TEST_ON_PLUGINS(a_loop_asks_each_time)
{
	struct run run = { 0 };

	use_plugin(_i);
	begin(&run, compile(loop), 0, 3);
	for (int i = 0; i < 100; i++) {
		struct pf_invocation *invocation = take(&run);

		ck_assert(((const float *)invocation->args[0].data)[0] == (float)i);
		ck_assert_int_eq(answer(invocation, (float)i + 1), 0);
	}
	ck_assert_int_eq(end(&run), 0);
	ck_assert(element(&run, 0) == 100);
}

static const struct {
	const char *program;
	bool deaf;
	int code;
	const char *sentence;
} refusals[] = {
	{ one_call, true, PF_PJRT_FAILED_PRECONDITION, "nothing answers" },
	{ four_bits, false, PF_PJRT_UNIMPLEMENTED, "of type S4" },
	{ without_index, false, PF_PJRT_INVALID_ARGUMENT, "attribute index" },
};

TEST_EACH(callbacks_that_nothing_can_answer_fail, refusals)
{
	struct run run = { .deaf = refusals[_i].deaf };

	begin(&run, compile(refusals[_i].program), 1, 3);
	ck_assert_int_lt(end(&run), 0);
	ck_assert_int_eq(run.q.err.pjrt_code, refusals[_i].code);
	ck_assert_msg(strstr(run.q.err.text, refusals[_i].sentence) != NULL, "%s",
		      run.q.err.text);
}

/* The worker dies while a handler waits: the answer comes too late, and harms nothing. */
TEST_TIMES(a_dead_worker_takes_no_answer, 2)
{
	struct pf_invocation *invocation;
	struct run run = { 0 };

	begin(&run, compile(one_call), 1, 3);
	invocation = take(&run);
	kill_worker();
	ck_assert_int_eq(end(&run), -EIO);
	/* The program is not suspected of it. */
	ck_assert_uint_eq(run.q.call.n_asked, 1);
	ck_assert_uint_eq(pf_instance_lost(instance, PF_OP_EXECUTE), 0);
	ck_assert_uint_eq(invocation->n_args, 1);
	if (_i)
		pf_invocation_fail(invocation, PF_PJRT_CANCELLED, "too late");
	else
		ck_assert_int_eq(answer(invocation, 1), -EIO);
	pf_instance_unref(pf_steal(&instance));
	instance = next_instance(NULL);
	begin(&run, compile(one_call), 1, 3);
	ck_assert_int_eq(answer(take(&run), 4), 0);
	ck_assert_int_eq(end(&run), 0);
}

UNIT_FIXTURE(open_instance, close_instance)
