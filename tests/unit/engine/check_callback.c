/* SPDX-License-Identifier: Apache-2.0 */
/* Invocations of a worker: what becomes of them, and of those that lie. */
#include <sys/syscall.h>

#include "instance_fixture.h"

#include "pjrtfs/callback.h"

static struct pf_invocation *got; /* by the last asked */
static int n_asked;
static struct event arrived;

static _Atomic bool deaf; /* executions cannot be asked */

static void *hold(struct pf_call *call)
{
	return deaf ? NULL : call;
}

static void asked(void *held, struct pf_invocation *invocation)
{
	(void)held;
	got = invocation;
	n_asked++;
	event_fire(&arrived);
}

/* Begin an execution of this worker, and take its request; its tag. */
static uint64_t execute(struct question *q)
{
	struct pf_req_execute req = { .head.op = PF_OP_EXECUTE };

	got = NULL;
	n_asked = 0;
	event_init(&arrived);
	question_init(q, sizeof(struct pf_rep_execute));
	q->call.hold = hold;
	q->call.asked = asked;
	ck_assert_int_eq(pf_instance_call(instance, &q->call, &req, sizeof(req), NULL, 0,
					  NULL),
			 0);
	take_request();
	return ((struct pf_msg_head *)message)->tag;
}

/* An invocation with an argument F32[2] and a result S8[3]. */
struct invocation {
	struct pf_msg_callback m;
	struct pf_callback_type argument;
	int64_t argument_dim;
	struct pf_callback_type result;
	int64_t result_dim;
};

static struct invocation invocation_of(uint64_t tag)
{
	return (struct invocation){
		.m = { .head = { PF_OP_CALLBACK, sizeof(struct invocation), tag },
		       .number = 3,
		       .index = 4,
		       .off = 8192,
		       .len = 64,
		       .n_args = 1,
		       .n_results = 1 },
		.argument = { .len = 8, .dtype = PF_DTYPE_F32, .rank = 1 },
		.argument_dim = 2,
		.result = { .len = 3, .dtype = PF_DTYPE_S8, .rank = 1 },
		.result_dim = 3,
	};
}

/* The next request, which must be of OP. */
static const void *take_op(enum pf_op op)
{
	take_request();
	ck_assert_uint_eq(((struct pf_msg_head *)message)->op, op);
	return message;
}

/* The worker asks about execution Q, which it has; the execution's tag. */
static uint64_t execute_and_ask(struct question *q)
{
	uint64_t tag = execute(q);
	struct invocation m = invocation_of(tag);

	post_reply(&m, sizeof(m));
	event_wait(&arrived);
	return tag;
}

/* Q, whose tag is TAG, ends well. */
static void succeed(struct question *q, uint64_t tag)
{
	struct pf_rep_execute rep = {
		.rep = { .head = { PF_OP_EXECUTE, sizeof(rep), tag }, .pjrt_code = -1 }
	};

	post_reply(&rep, sizeof(rep));
	event_wait(&q->answered);
	ck_assert_int_eq(q->code, 0);
}

static void drop(void *kept)
{
	event_fire(kept);
}

TEST(an_answer_reaches_the_worker)
{
	struct question q;
	uint64_t tag = execute_and_ask(&q);
	const uint64_t offs[] = { 77 };
	const struct pf_req_answer *answer;
	const struct pf_req_id *block;
	struct pf_rep_head rep = { .pjrt_code = -1 };
	struct event dropped;

	memcpy(pool + 8192, &(float){ 5 }, sizeof(float));
	ck_assert_uint_eq(got->index, 4);
	ck_assert(*(const float *)got->args[0].data == 5);
	ck_assert_uint_eq(got->results[0].len, 3);
	event_init(&dropped);
	ck_assert_int_eq(pf_invocation_answer(got, offs, &dropped, drop), 0);
	block = take_op(PF_OP_BLOCK_FREE);
	ck_assert_uint_eq(block->id, 8192);
	answer = take_op(PF_OP_CALLBACK_ANSWER);
	ck_assert_uint_eq(answer->number, 3);
	ck_assert_int_eq(answer->pjrt_code, 0);
	ck_assert_uint_eq(*(const uint64_t *)(answer + 1), 77);
	ck_assert_int_eq(event_count(&dropped), 0);
	rep.head = answer->head;
	rep.head.len = sizeof(rep);
	post_reply(&rep, sizeof(rep));
	event_wait(&dropped);
	succeed(&q, tag);
}

TEST(an_error_reaches_the_worker)
{
	struct question q;
	uint64_t tag = execute_and_ask(&q);
	const struct pf_req_answer *answer;
	char text[2 * PF_ERR_TEXT];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	pf_invocation_fail(got, PF_PJRT_ABORTED, text);
	take_op(PF_OP_BLOCK_FREE);
	answer = take_op(PF_OP_CALLBACK_ANSWER);
	ck_assert_int_eq(answer->pjrt_code, PF_PJRT_ABORTED);
	ck_assert_uint_eq(answer->head.len, sizeof(*answer) + PF_ERR_TEXT);
	ck_assert_uint_eq(strlen((const char *)(answer + 1)), PF_ERR_TEXT - 1);
	succeed(&q, tag);
}

TEST(what_nobody_can_answer_is_refused)
{
	struct question q;
	uint64_t tag = execute(&q);
	struct invocation m = invocation_of(tag);
	const struct pf_req_answer *answer;

	deaf = true;
	post_reply(&m, sizeof(m));
	take_op(PF_OP_BLOCK_FREE);
	answer = take_op(PF_OP_CALLBACK_ANSWER);
	ck_assert_int_eq(answer->pjrt_code, PF_PJRT_FAILED_PRECONDITION);
	ck_assert_int_eq(n_asked, 0);
	deaf = false;
	succeed(&q, tag);
}

/* A wrong invocation: its field at OFF, of SIZE bytes, has VALUE. */
#define LIE(field, value)                                                                \
	{                                                                                \
		offsetof(struct invocation, field),                                      \
			sizeof(((struct invocation *)0)->field), value                   \
	}

static const struct {
	size_t off, size;
	uint64_t value;
} lies[] = {
	LIE(m.head.len, sizeof(struct pf_msg_callback)),
	LIE(m.head.len, UINT32_MAX),
	LIE(m.off, POOL),
	LIE(m.off, PF_NO_OFFSET),
	LIE(m.off, 8200),
	LIE(m.len, POOL),
	LIE(m.len, UINT64_MAX),
	LIE(m.len, 7),
	LIE(m.n_args, 0),
	LIE(m.n_args, 2),
	LIE(m.n_args, PF_CALLBACK_ARRAYS + 1),
	LIE(m.n_args, UINT32_MAX),
	LIE(m.n_results, 0),
	LIE(m.n_results, 2),
	LIE(m.n_results, UINT32_MAX),
	LIE(argument.off, 64),
	LIE(argument.off, 4),
	LIE(argument.off, UINT64_MAX - 63),
	LIE(argument.len, 4),
	LIE(argument.len, UINT64_MAX),
	LIE(argument.dtype, PF_DTYPE_INVALID),
	LIE(argument.dtype, PF_DTYPE_TOKEN),
	LIE(argument.dtype, PF_DTYPE_S4),
	LIE(argument.dtype, PF_DTYPE_COUNT),
	LIE(argument.dtype, UINT32_MAX),
	LIE(argument.rank, 0),
	LIE(argument.rank, PF_MAX_RANK + 1),
	LIE(argument.rank, UINT32_MAX),
	LIE(argument_dim, UINT64_MAX),
	LIE(argument_dim, INT64_MAX),
	LIE(result.rank, 2),
	LIE(result.len, 4),
	LIE(result_dim, UINT64_MAX),
};

/* It fails the execution, as any other message that is wrong. */
TEST_EACH(a_malformed_invocation_fails_its_execution, lies)
{
	struct question q;
	struct invocation m = invocation_of(execute(&q));

	memcpy((char *)&m + lies[_i].off, &lies[_i].value, lies[_i].size);
	post_reply(&m, sizeof(m));
	event_wait(&q.answered);
	ck_assert_int_eq(q.code, -EPROTO);
	ck_assert_int_eq(n_asked, 0);
}

static void refuses(const struct invocation *m)
{
	const struct pf_req_answer *answer;

	post_reply(m, sizeof(*m));
	take_op(PF_OP_BLOCK_FREE);
	answer = take_op(PF_OP_CALLBACK_ANSWER);
	ck_assert_int_eq(answer->pjrt_code, PF_PJRT_FAILED_PRECONDITION);
	ck_assert_int_eq(n_asked, 0);
}

/* An invocation of a request that executes nothing fails that; one of none, or of one that has ended, is
 * answered, since a thread of the plugin waits for it. */
TEST(only_executions_ask)
{
	struct question q;
	struct invocation m = invocation_of(ask_and_take(&q, 1));

	post_reply(&m, sizeof(m));
	event_wait(&q.answered);
	ck_assert_int_lt(q.code, 0);
	refuses(&m);
	m.m.head.tag = UINT64_MAX;
	refuses(&m);
	answer_rightly(ask_and_take(&q, 2));
	event_wait(&q.answered);
	ck_assert_int_eq(q.code, 0);
}

/* It asks again and again, and about an execution that has ended. */
TEST(invocations_outlive_their_execution)
{
	struct question q;
	uint64_t tag = execute_and_ask(&q);
	struct invocation m = invocation_of(tag);
	struct pf_invocation *first = got;

	succeed(&q, tag);
	post_reply(&m, sizeof(m));
	for (unsigned i = 0; i < 2; i++) {
		take_op(PF_OP_BLOCK_FREE);
		take_op(PF_OP_CALLBACK_ANSWER);
		if (!i)
			pf_invocation_fail(first, PF_PJRT_CANCELLED, "it has ended");
	}
	ck_assert_int_eq(n_asked, 1);
}

/* The ring of requests is full: the answer follows when there is room. */
TEST(an_answer_waits_for_room)
{
	struct question q;
	uint64_t tag = execute_and_ask(&q);
	const struct pf_req_answer *answer;

	memset(message, 0, sizeof(message));
	while (pf_ring_post(&instance->channel.request, message, 65536, NULL, 0) == 0)
		;
	while (pf_ring_post(&instance->channel.request, message, 16, NULL, 0) == 0)
		;
	pf_invocation_fail(got, PF_PJRT_CANCELLED, "no longer");
	while (pf_ring_take(&peer.request, message, sizeof(message)) > 0 &&
	       !((struct pf_msg_head *)message)->op)
		;
	while (((struct pf_msg_head *)message)->op != PF_OP_CALLBACK_ANSWER)
		take_request();
	answer = (const struct pf_req_answer *)(const void *)message;
	ck_assert_str_eq((const char *)(answer + 1), "no longer");
	succeed(&q, tag);
}

/* The worker dies while a host has its question: the answer comes too late, and harms nothing. */
TEST_TIMES(a_dead_worker_takes_no_answer, 2)
{
	struct question q;
	struct event dropped;

	execute_and_ask(&q);
	end_instance();
	ck_assert_int_eq(q.code, -EIO);
	/* The program is not suspected of it. */
	ck_assert_uint_eq(q.call.n_asked, 1);
	ck_assert_uint_eq(pf_instance_lost(instance, PF_OP_EXECUTE), 0);
	ck_assert_uint_eq(got->n_args, 1);
	event_init(&dropped);
	if (_i)
		pf_invocation_fail(got, PF_PJRT_CANCELLED, "too late");
	else
		ck_assert_int_eq(pf_invocation_answer(got, (const uint64_t[]){ 77 },
						      &dropped, drop),
				 -EIO);
	ck_assert_int_eq(event_count(&dropped), !_i);
}

/* --- the time of executions --------------------------------------------------------------- */

static _Atomic int64_t later_s; /* seconds by which the clock of this program is ahead */

int clock_gettime(clockid_t clock, struct timespec *t)
{
	int r = (int)syscall(SYS_clock_gettime, clock, t);

	if (clock == CLOCK_MONOTONIC)
		t->tv_sec += atomic_load(&later_s);
	return r;
}

/* Let a second pass for the instance: the reply of no call wakes the thread that counts them. */
static void pass_second(void)
{
	uint32_t before = atomic_load(&instance->seconds);

	atomic_fetch_add(&later_s, 1);
	answer_rightly(0);
	while (atomic_load(&instance->seconds) == before)
		usleep(1000);
}

/* While the host is asked, the time of the execution stands still. */
TEST(waiting_for_the_host_is_no_overrun)
{
	struct question q;

	instance->limits.execute_s = 1;
	execute_and_ask(&q);
	for (int i = 0; i < 4; i++)
		pass_second();
	ck_assert_ptr_null(pf_instance_unfit(instance));
	pf_invocation_fail(got, PF_PJRT_CANCELLED, "no longer");
	while (!pf_instance_unfit(instance))
		pass_second();
}

/* A transfer has a second more for each 8 MiB. */
TEST(large_transfers_may_take_longer)
{
	struct pf_req_id req = { .head.op = PF_OP_BUFFER_READ };
	struct question q;

	instance->limits.transfer_s = 1;
	question_init(&q, sizeof(struct pf_rep_block));
	q.call.transfers = true;
	q.call.bytes = 24 << 20;
	ck_assert_int_eq(pf_instance_call(instance, &q.call, &req, sizeof(req), NULL, 0,
					  NULL),
			 0);
	take_request();
	for (int i = 0; i < 4; i++)
		pass_second();
	ck_assert_ptr_null(pf_instance_unfit(instance));
	while (!pf_instance_unfit(instance))
		pass_second();
	ck_assert_ptr_nonnull(strstr(pf_instance_unfit(instance), "--transfer-timeout"));
}

static void end_test(void)
{
	atomic_store(&later_s, 0); /* other files' tests may follow in this process */
	close_instance();
}

UNIT_FIXTURE(open_instance, end_test)
