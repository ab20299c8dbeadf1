/* SPDX-License-Identifier: Apache-2.0 */
/* Synchronous calls: answered, failed, and given up before the answer comes. */
#include "instance_fixture.h"

static struct pf_req_id request;
static struct pf_rep_block reply;
static struct pf_sync_call call;
static struct pf_err err;
static struct pf_sync_call ticks; /* the next calls have its tick */
static _Atomic unsigned n_given_up, n_dropped;
static pthread_t caller;

static void drop(void *kept)
{
	ck_assert_ptr_eq(kept, &request);
	atomic_fetch_add(&n_dropped, 1);
}

static void *caller_main(void *arg)
{
	(void)arg;
	return (void *)(intptr_t)pf_sync_call(&call, &reply, sizeof(reply), &err);
}

/* Have a thread call for the block of buffer 7; the request is in message. */
static void begin_call(unsigned timeout_s)
{
	request = (struct pf_req_id){ .head.op = PF_OP_BUFFER_READ, .id = 7 };
	call = (struct pf_sync_call){ .instance = instance,
				      .request = &request,
				      .len = sizeof(request),
				      .timeout_s = timeout_s,
				      .tick = ticks.tick,
				      .tick_arg = ticks.tick_arg,
				      .tick_ms = ticks.tick_ms,
				      .kept = &request,
				      .drop = drop,
				      .n_given_up = &n_given_up };
	err = (struct pf_err)PF_ERR_INIT;
	atomic_store(&n_dropped, 0);
	ck_assert_int_eq(pthread_create(&caller, NULL, caller_main, NULL), 0);
	ck_assert_uint_eq(take_request(), sizeof(request));
	ck_assert_uint_eq(((struct pf_req_id *)message)->id, 7);
}

static void tick(void *arg)
{
	atomic_fetch_add((_Atomic unsigned *)arg, 1);
}

static int end_call(void)
{
	void *code;

	pthread_join(caller, &code);
	ck_assert(call.sent);
	return (int)(intptr_t)code;
}

TEST_TIMES(the_caller_gets_the_reply, 2)
{
	begin_call((unsigned)_i * 60);
	usleep(10000);
	answer_rightly(((struct pf_msg_head *)message)->tag);
	ck_assert_int_eq(end_call(), 0);
	ck_assert_uint_eq(reply.off, 4096);
	ck_assert_uint_eq(call.reply_len, sizeof(reply));
	ck_assert_uint_eq(atomic_load(&n_dropped), 1);
}

TEST(the_caller_waits_with_ticks)
{
	static _Atomic unsigned n;

	ticks = (struct pf_sync_call){ .tick = tick, .tick_arg = &n, .tick_ms = 5 };
	begin_call(0);
	while (atomic_load(&n) < 3)
		usleep(1000);
	answer_rightly(((struct pf_msg_head *)message)->tag);
	ck_assert_int_eq(end_call(), 0);
	ck_assert_uint_eq(reply.off, 4096);
	atomic_store(&n, 0);
	ticks.tick_ms = 300;
	begin_call(1);
	ck_assert_int_eq(end_call(), -ETIMEDOUT);
	ck_assert_uint_eq(atomic_load(&n), 3);
	answer_rightly(((struct pf_msg_head *)message)->tag);
}

TEST(the_caller_gets_the_failure)
{
	begin_call(60);
	end_instance();
	ck_assert_int_eq(end_call(), -EIO);
	ck_assert_str_eq(err.text, "it is over");
	ck_assert_uint_eq(atomic_load(&n_dropped), 1);
	/* no request is sent to an instance that has ended */
	ck_assert_int_eq(pf_sync_call(&call, &reply, sizeof(reply), &err), -EIO);
	ck_assert(!call.sent);
	ck_assert_uint_eq(atomic_load(&n_dropped), 2);
}

TEST(a_late_answer_is_freed)
{
	const struct pf_req_id *freed = (const void *)message;
	uint64_t tag;

	begin_call(1);
	tag = ((struct pf_msg_head *)message)->tag;
	ck_assert_int_eq(end_call(), -ETIMEDOUT);
	ck_assert_str_eq(err.text, "no answer within 1 s");
	ck_assert_uint_eq(atomic_load(&n_given_up), 1);
	ck_assert_uint_eq(atomic_load(&n_dropped), 0); /* the worker may read it still */
	answer_rightly(tag);
	take_request();
	ck_assert_uint_eq(freed->head.op, PF_OP_BLOCK_FREE);
	ck_assert_uint_eq(freed->id, 4096);
	for (int ms = 0; ms < 5000 && !atomic_load(&n_dropped); ms++)
		usleep(1000);
	ck_assert_uint_eq(atomic_load(&n_dropped), 1);
	ck_assert_uint_eq(atomic_load(&n_given_up), 0);
}

const struct unit_fixture unit_fixture = { open_instance, close_instance };
