/* SPDX-License-Identifier: Apache-2.0 */
/* Synchronous calls: answered, failed, and given up before the answer comes. */
#include <dlfcn.h>
#include <semaphore.h>

#include "instance_fixture.h"

static struct pf_req_id request;
static struct pf_rep_block reply;
static struct pf_sync_call call;
static struct pf_err err;
static struct pf_sync_call ticks; /* the next calls have its tick */
static _Atomic unsigned n_given_up, n_dropped;
static pthread_t caller;

/* The seconds for which a caller waits are over at once. */
static _Atomic bool hurried;

int sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *at)
{
	int (*real)(sem_t * sem, clockid_t clock, const struct timespec *at);

	*(void **)&real = dlsym(RTLD_NEXT, "sem_clockwait");
	return real(sem, clock, hurried ? &(struct timespec){ 0 } : at);
}

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
	hurried = timeout_s == 1;
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
	usleep(10000); /* real time: the caller sleeps by now, or not yet */
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

/* A call of OP for executable 7 that keeps, and has no answer within a second; its tag. */
static uint64_t give_up(enum pf_op op)
{
	request = (struct pf_req_id){ .head.op = op, .id = 7 };
	call = (struct pf_sync_call){ .instance = instance,
				      .request = &request,
				      .len = sizeof(request),
				      .timeout_s = 1,
				      .keeps = true };
	err = (struct pf_err)PF_ERR_INIT;
	hurried = true;
	ck_assert_int_eq(pf_sync_call(&call, &reply, sizeof(reply), &err), -ETIMEDOUT);
	ck_assert_str_eq(err.text, "no answer within 1 s; the plugin goes on: try again");
	take_request();
	ck_assert_uint_eq(((struct pf_msg_head *)message)->op, op);
	return ((struct pf_msg_head *)message)->tag;
}

static bool has_late(void)
{
	PF_LOCK_SCOPE(&instance->lock);
	return !LIST_EMPTY(&instance->late);
}

/* The same call finds the answer, or waits for it; another one does not. */
TEST_TIMES(a_late_answer_is_the_next_callers, 2)
{
	uint64_t tag = give_up(PF_OP_BUFFER_READ);

	if (_i)
		answer_rightly(tag);
	else
		ck_assert_int_eq(pf_sync_call(&call, &reply, sizeof(reply), &err),
				 -ETIMEDOUT);
	ck_assert(has_late());
	if (!_i)
		answer_rightly(tag);
	call.timeout_s = 60;
	hurried = false;
	ck_assert_int_eq(pf_sync_call(&call, &reply, sizeof(reply), &err), 0);
	ck_assert_uint_eq(reply.off, 4096);
	ck_assert(!has_late());
	hurried = true;
	request.id = 8;
	ck_assert_int_eq(pf_sync_call(&call, &reply, sizeof(reply), &err), -ETIMEDOUT);
	take_request(); /* none came before it */
	ck_assert_uint_eq(((struct pf_req_id *)message)->id, 8);
}

/* No later caller gets it: it may long be over. */
TEST(a_late_failure_is_dropped)
{
	struct pf_rep_block rep = block_reply(give_up(PF_OP_BUFFER_READ));

	rep.rep.code = -EIO;
	post_reply(&rep, sizeof(rep));
	for (int ms = 0; ms < 5000 && has_late(); ms++)
		usleep(1000);
	ck_assert(!has_late());
	answer_rightly(give_up(PF_OP_BUFFER_READ));
}

/* Its answer is freed with the executable, and all with the instance. */
TEST_TIMES(a_late_answer_ends_with_the_executable, 2)
{
	const struct pf_req_id *freed = (const void *)message;
	struct pf_rep_block rep = block_reply(give_up(PF_OP_SERIALIZE));

	rep.rep.head.op = PF_OP_SERIALIZE;
	if (_i) {
		pf_instance_free_id(instance, PF_OP_EXECUTABLE_FREE, 7);
		ck_assert(!has_late());
		take_request();
		post_reply(&rep, sizeof(rep));
		take_request();
		ck_assert_uint_eq(freed->head.op, PF_OP_BLOCK_FREE);
		ck_assert_uint_eq(freed->id, 4096);
	}
	end_instance();
	ck_assert(!has_late());
}

static void end_test(void)
{
	hurried = false; /* other files' tests may follow in this process */
	close_instance();
}

UNIT_FIXTURE(open_instance, end_test)
