/* SPDX-License-Identifier: Apache-2.0 */
/* An instance: calls, frees, and its end. */
#include <limits.h>

#include "instance_fixture.h"

TEST(answers_may_come_in_any_order)
{
	static struct question q[200];
	uint64_t tags[200];

	for (unsigned i = 0; i < 200; i++)
		tags[i] = ask_and_take(&q[i], i);
	for (unsigned i = 0; i < 200; i++)
		answer_rightly(tags[i * 77 % 200]);
	for (unsigned i = 0; i < 200; i++) {
		event_wait(&q[i].answered);
		ck_assert_int_eq(q[i].code, 0);
	}
}

TEST(a_spinning_caller_takes_the_reply)
{
	static const unsigned us[] = { 0, 1, 200000 };
	struct question q;

	for (unsigned i = 0; i < ARRAY_SIZE(us); i++) {
		uint64_t tag = ask_and_take(&q, 1);
		int64_t begun = pf_now_ms();

		pf_instance_spin(instance, &q.done, us[i]);
		ck_assert(!q.done);
		ck_assert_int_le(pf_now_ms() - begun, 5000);
		answer_rightly(tag);
		pf_instance_spin(instance, &q.done, 2000000);
		event_wait(&q.answered);
		ck_assert_int_eq(q.code, 0);
		ck_assert_int_eq(event_count(&q.answered), 1);
	}
}

static struct question inner;

/* Two answers are queued: the second must not overwrite the first while it is read. */
static void spin_within(struct pf_call *call, int code, const struct pf_err *err,
			const void *reply, size_t len)
{
	struct question *q = pf_container_of(call, struct question, call);
	char before[sizeof(struct pf_rep_block)];

	(void)err;
	ck_assert_uint_ge(len, sizeof(before));
	memcpy(before, reply, sizeof(before));
	pf_instance_spin(instance, &inner.done, 100000);
	q->code = memcmp(before, reply, sizeof(before)) ? -EIO : code;
	event_fire(&q->answered);
}

TEST(a_finished_call_does_not_spin)
{
	uint64_t first, second;
	struct question q;

	first = ask_and_take_for(&q, 1, spin_within);
	second = ask_and_take(&inner, 2);
	answer_rightly(first);
	answer_rightly(second);
	event_wait(&q.answered);
	ck_assert_int_eq(q.code, 0);
	event_wait(&inner.answered);
	ck_assert_int_eq(inner.code, 0);
}

/* --- too much ------------------------------------------------------------------------ */

/* A call of which only this is of interest. */
static struct counted {
	struct pf_call call;
	unsigned answers;
	int code;
} many[65537];

static void count_answer(struct pf_call *call, int code, const struct pf_err *err,
			 const void *reply, size_t len)
{
	struct counted *c = pf_container_of(call, struct counted, call);

	(void)err, (void)reply, (void)len;
	c->answers++;
	c->code = code;
}

static int ask_counted(size_t i, struct pf_err *err)
{
	struct pf_req_id req = { .head.op = PF_OP_BUFFER_READ };

	many[i] = (struct counted){ .call = { .done = count_answer } };
	return pf_instance_call(instance, &many[i].call, &req, sizeof(req), NULL, 0, err);
}

static const struct {
	const char *what;
	bool taken; /* the worker takes the requests, and does not answer */
	unsigned most;
} fills[] = {
	{ "the ring is full", false, PF_RING_BYTES / 32 },
	{ "as many calls as may be are under way", true, 65536 },
};

TEST_EACH(too_many_calls_are_refused, fills)
{
	struct pf_err err = PF_ERR_INIT;
	unsigned n = 0;

	while (ask_counted(n, &err) == 0 && n++ < fills[_i].most)
		if (fills[_i].taken)
			take_request();
	ck_assert_msg(n == fills[_i].most, "%s: %u", fills[_i].what, n);
	ck_assert_int_eq(err.code, -EBUSY);
	ck_assert_str_eq(err.text, "too much is under way on plugin test");
	ck_assert_uint_eq(many[n].answers, 0);
	if (fills[_i].taken)
		answer_rightly(((struct pf_msg_head *)message)->tag);
	else
		take_request();
	while (ask_counted(n, &err) < 0) /* until the reply thread has the answer */
		usleep(1000);
	end_instance();
	for (unsigned i = 0; i <= n; i++) {
		ck_assert_uint_eq(many[i].answers, 1);
		ck_assert(many[i].code == -EIO || (fills[_i].taken && i == n - 1));
	}
}

TEST(a_tail_follows_its_request_and_has_a_limit)
{
	static const char options[PF_RING_MESSAGE] = "hello";
	struct pf_req_compile req = { .head.op = PF_OP_COMPILE, .options_len = 5 };
	struct question q, refused;

	question_init(&refused, 0);
	ck_assert_int_eq(pf_instance_call(instance, &refused.call, &req, sizeof(req),
					  options, sizeof(options), NULL),
			 -E2BIG);
	question_init(&q, sizeof(struct pf_rep_compile));
	ck_assert_int_eq(pf_instance_call(instance, &q.call, &req, sizeof(req), options,
					  5, NULL),
			 0);
	ck_assert_uint_eq(take_request(), sizeof(req) + 5);
	ck_assert_int_eq(memcmp(message + sizeof(req), "hello", 5), 0);
	ck_assert_int_eq(event_count(&refused.answered), 0);
}

/* Frees find no room, wait, and are sent in order when there is room. */
TEST(no_free_is_lost)
{
	const struct pf_req_id *req = (const void *)message;

	for (unsigned i = 0; i < PF_RING_BYTES / 32; i++)
		ck_assert_int_eq(ask_counted(i, NULL), 0);
	for (uint64_t id = 1; id <= 70000; id++)
		if (id % 2)
			pf_instance_free_id(instance, PF_OP_BUFFER_FREE, id);
		else
			pf_instance_free_block(instance, id);
	for (unsigned i = 0; i < PF_RING_BYTES / 32; i++) {
		take_request();
		answer_rightly(req->head.tag); /* wakes the thread that sends frees */
	}
	for (uint64_t id = 1; id <= 70000; id++) {
		ck_assert_uint_eq(take_request(), sizeof(*req));
		ck_assert_uint_eq(req->id, id);
		ck_assert_uint_eq(req->head.op,
				  id % 2 ? PF_OP_BUFFER_FREE : PF_OP_BLOCK_FREE);
	}
	ck_assert_int_eq(pf_ring_take(&peer.request, message, sizeof(message)), -EAGAIN);
}

static void answered_frees(struct pf_call *call, int code, const struct pf_err *err,
			   const void *reply, size_t len)
{
	struct question *q = pf_container_of(call, struct question, call);

	(void)err;
	(void)reply;
	(void)len;
	q->code = code;
	for (uint64_t id = 1; id <= 3; id++)
		pf_instance_free_id(instance, PF_OP_BUFFER_FREE, id);
}

/* Frees that done sends wake the worker, which sleeps, when done has returned. */
TEST(frees_of_an_answer_are_sent)
{
	const struct pf_req_id *req = (const void *)message;
	static struct question freeing[20];

	for (size_t i = 0; i < ARRAY_SIZE(freeing); i++) {
		answer_rightly(ask_and_take_for(&freeing[i], 9, answered_frees));
		for (uint64_t id = 1; id <= 3; id++) {
			ck_assert_uint_eq(take_request(), sizeof(*req));
			ck_assert_uint_eq(req->id, id);
			ck_assert_uint_eq(req->head.op, PF_OP_BUFFER_FREE);
		}
	}
}

/* --- the worker's death -------------------------------------------------------------- */

TEST(after_the_end_every_call_fails)
{
	struct pf_err err = PF_ERR_INIT, other = PF_ERR_INIT;
	struct question under_way, late;

	ask(&under_way, 1);
	ck_assert(pf_instance_alive(instance));
	end_instance();
	ck_assert(!pf_instance_alive(instance));
	pf_err_set(&other, -EPERM, "another reason");
	pf_instance_end(instance, &other, &other);
	ck_assert_int_eq(under_way.code, -EIO);
	ck_assert_str_eq(under_way.err.text, "it is over");
	ck_assert_int_eq(ask_id(&late, 2, &err), -EIO);
	ck_assert_str_eq(err.text, "it is over");
	ck_assert_int_eq(event_count(&late.answered), 0);
	pf_instance_free_id(instance, PF_OP_BUFFER_FREE, 1);
	pf_instance_spin(instance, &late.done, 1000);
	strcpy(pool + 100, "still here");
	ck_assert_str_eq(pf_instance_array(instance, 100, 11), "still here");
}

TEST(a_dead_pool_is_as_long_as_what_was_looked_at)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), off = 2 * page + 100;
	const char *held = pf_instance_array(instance, off, 5);
	char *mapped = (char *)(uintptr_t)pf_instance_array(instance, 0, page);
	unsigned char there[3];

	strcpy(pool + off, "held");
	pf_instance_shorten_pools(0);
	ck_assert_uint_eq(instance->pool_size, POOL); /* it lives */
	end_instance();
	pf_instance_shorten_pools(600000);
	ck_assert_uint_eq(instance->pool_size, POOL); /* too early */
	pf_instance_shorten_pools(0);
	ck_assert_uint_eq(instance->pool_size, 3 * page);
	ck_assert_str_eq(held, "held");
	ck_assert_ptr_eq(pf_instance_array(instance, off, 5), held);
	ck_assert_ptr_nonnull(pf_instance_array(instance, 3 * page - 1, 1));
	ck_assert_ptr_null(pf_instance_array(instance, 3 * page, 1));
	ck_assert_int_eq(mincore(mapped, 3 * page, there), 0);
	ck_assert_int_eq(mincore(mapped + 3 * page, page, there), -1);
}

TEST(a_dead_pool_that_was_not_looked_at)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	end_instance();
	pf_instance_shorten_pools(0);
	pf_instance_shorten_pools(0);
	ck_assert_ptr_nonnull(pf_instance_array(instance, 0, page));
	ck_assert_ptr_null(pf_instance_array(instance, 0, page + 1));
}

/* --- the end of an idle instance ------------------------------------------------------- */

static const struct {
	const char *what;
	unsigned limit_s, idle_s;
	bool call, answered,
		leaves; /* a call is under way; one was answered; it is replaced */
	bool retires;
} retirements[] = {
	{ "it has been idle", 5, 5, false, false, false, true },
	{ "not for long enough", 5, 4, false, false, false, false },
	{ "idle ones may stay", 0, 5, false, false, false, false },
	{ "a call is under way", 5, 5, true, false, false, false },
	{ "a call came since the last look", 5, 5, false, true, false, false },
	{ "it is replaced", 0, 0, false, true, true, true },
	{ "it is replaced, and a call is under way", 0, 0, true, false, true, false },
};

TEST_EACH(only_what_nobody_uses_retires, retirements)
{
	struct pf_err err = PF_ERR_INIT;
	struct question q, late;

	instance->limits.idle_s = retirements[_i].limit_s;
	instance->idle_s = retirements[_i].idle_s;
	if (retirements[_i].call)
		ask(&q, 1);
	if (retirements[_i].answered) {
		answer_rightly(ask_and_take(&q, 1));
		event_wait(&q.answered);
	}
	if (retirements[_i].leaves)
		pf_instance_leave(instance, 600000);
	ck_assert_msg(pf_instance_retire(instance) == retirements[_i].retires, "%s",
		      retirements[_i].what);
	ck_assert_int_eq(ask_id(&late, 2, &err), retirements[_i].retires ? -EIO : 0);
}

static void *ask_main(void *q)
{
	return (void *)(intptr_t)ask_id(q, 1, NULL);
}

/* A call that comes as the process retires is sent, and answered, or is refused before that. */
TEST(no_call_is_lost_when_an_instance_retires)
{
	for (int i = 0; i < 200; i++) {
		struct question q;
		pthread_t caller;
		bool retired;
		void *code;

		instance->limits.idle_s = instance->idle_s = 1;
		ck_assert_int_eq(pthread_create(&caller, NULL, ask_main, &q), 0);
		retired = pf_instance_retire(instance);
		pthread_join(caller, &code);
		ck_assert_int_eq((intptr_t)code, retired ? -EIO : 0);
		if (!retired) {
			take_request();
			answer_rightly(((struct pf_msg_head *)message)->tag);
			event_wait(&q.answered);
		}
		close_instance();
		open_instance();
	}
}

/* --- what explains its end --------------------------------------------------------------- */

static void print(const char *text)
{
	pf_plugin_log_add(&plugin_log, text, strlen(text));
}

/* The worker prints what it did, then dies. */
static const char *die(struct pf_err *quoted)
{
	struct pf_err why = PF_ERR_INIT;

	pf_err_set(&why, -EIO, "it died");
	*quoted = why;
	pf_instance_quote(instance, quoted);
	pf_instance_end(instance, &why, quoted);
	return quoted->text;
}

TEST(a_failed_call_quotes_lines_since_it_began)
{
	struct question first, second, third, last;
	struct pf_err quoted, err = PF_ERR_INIT;
	struct question late;

	print("of a call that ended well\n");
	ask(&first, 1);
	print("Check failed: since the first\n");
	ask(&second, 2);
	print("a warning\n");
	ask(&third, 3);
	ask(&last, 4);
	ck_assert_str_eq(die(&quoted),
			 "it died; it printed last: Check failed: since the first");
	ck_assert_str_eq(first.err.text, quoted.text);
	ck_assert_str_eq(second.err.text, "it died; it printed last: a warning");
	ck_assert_str_eq(third.err.text, "it died");
	ck_assert_str_eq(last.err.text, "it died");
	ck_assert_int_eq(ask_id(&late, 5, &err), -EIO);
	ck_assert_str_eq(err.text, quoted.text);
}

/* Lines printed during an answered call do not explain a death, except fatal ones. */
static const struct {
	const char *plugin_log, *said;
} idle[] = {
	{ "", "it died" },
	{ "a warning\n", "it died" },
	{ "a warning\nCheck failed: a thread's\n",
	  "it died; it printed last: Check failed: a thread's" },
};

TEST_EACH(without_calls_only_fatal_lines_are_quoted, idle)
{
	struct pf_err quoted;
	struct question q;

	print("Check failed: before the call\n");
	answer_rightly(ask_and_take(&q, 1));
	event_wait(&q.answered);
	print(idle[_i].plugin_log);
	ck_assert_str_eq(die(&quoted), idle[_i].said);
	ck_assert_int_eq(q.code, 0);
}

/* Replies that the worker sent before it died count. */
TEST(replies_sent_before_death_are_delivered)
{
	struct question q[50];

	for (unsigned i = 0; i < 50; i++)
		answer_rightly(ask_and_take(&q[i], i));
	end_instance();
	for (unsigned i = 0; i < 50; i++) {
		ck_assert_int_eq(event_count(&q[i].answered), 1);
		ck_assert_int_eq(q[i].code, 0);
	}
}

static unsigned buffers_on(unsigned device)
{
	return pf_instance_alive_on(instance, PF_ALIVE_BUFFERS, device);
}

TEST(objects_are_counted)
{
	static const unsigned made[] = { 0, 1, 1, 2 }; /* device 2 is missing */

	/* Before the devices are known no object is counted. */
	pf_instance_count(instance, PF_ALIVE_BUFFERS, 0, 1);
	ck_assert_uint_eq(buffers_on(0), 0);
	ck_assert_int_eq(pf_instance_set_devices(instance, 2), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(made); i++)
		pf_instance_count(instance, PF_ALIVE_BUFFERS, made[i], 1);
	pf_instance_count(instance, PF_ALIVE_EXECUTABLES, PF_NO_DEVICE, 1);
	ck_assert_uint_eq(buffers_on(0), 1);
	ck_assert_uint_eq(buffers_on(1), 2);
	ck_assert_uint_eq(buffers_on(2), 0);
	ck_assert_uint_eq(buffers_on(PF_NO_DEVICE), 0);
	ck_assert_uint_eq(pf_instance_alive_on(instance, PF_ALIVE_EXECUTABLES, 1), 0);
	ck_assert_uint_eq(pf_instance_alive_on(instance, PF_ALIVE_EXECUTABLES,
					       PF_NO_DEVICE),
			  1);
	pf_instance_count(instance, PF_ALIVE_BUFFERS, 1, -1);
	ck_assert_uint_eq(buffers_on(1), 1);
}

/* --- many threads ---------------------------------------------------------------------- */

enum { CALLERS = 4, EACH = 1000 };

static void *worker_main(void *arg)
{
	char *m = malloc(PF_RING_MESSAGE);
	ssize_t n;

	(void)arg;
	while ((n = pf_ring_take(&peer.request, m, PF_RING_MESSAGE)) != -EPIPE) {
		struct pf_rep_block rep = block_reply(((struct pf_msg_head *)m)->tag);

		if (n == -EAGAIN)
			pf_ring_wait(&peer.request, 20, -1);
		else
			while (pf_ring_post(&peer.reply, &rep, sizeof(rep), NULL, 0) ==
			       -EAGAIN)
				sched_yield();
	}
	free(m);
	return NULL;
}

static void *caller_main(void *arg)
{
	_Atomic unsigned *wrong = arg;
	struct question q;

	for (uint64_t i = 0; i < EACH; i++) {
		if (ask_id(&q, i, NULL) < 0) {
			atomic_fetch_add(wrong, 1);
			continue;
		}
		if (i % 3)
			pf_instance_spin(instance, &q.done, (unsigned)(i % 50));
		if (!event_within(&q.answered, 60) || q.code < 0)
			atomic_fetch_add(wrong, 1);
	}
	return NULL;
}

/* Run MAIN on some threads, and end the instance after US, or (UINT_MAX) after the threads. */
static void race(void *(*main)(void *arg), unsigned us)
{
	pthread_t callers[CALLERS], it;
	static _Atomic unsigned wrong;

	pthread_create(&it, NULL, worker_main, NULL);
	for (int i = 0; i < CALLERS; i++)
		pthread_create(&callers[i], NULL, main, &wrong);
	if (us != UINT_MAX) {
		usleep(us); /* real time: the end comes at any moment */
		end_instance();
	}
	for (int i = 0; i < CALLERS; i++)
		pthread_join(callers[i], NULL);
	end_instance();
	pthread_join(it, NULL);
	ck_assert_uint_eq(wrong, 0);
}

TEST(many_threads_call_at_once)
{
	race(caller_main, UINT_MAX);
}

/* Calls that race with the worker's death are either refused or answered. */
static void *racer_main(void *arg)
{
	_Atomic unsigned *wrong = arg;
	struct question q;

	for (uint64_t i = 0; ask_id(&q, i, NULL) == 0; i++) {
		if (!event_within(&q.answered, 60))
			atomic_fetch_add(wrong, 1);
		if (event_count(&q.answered) != 1)
			atomic_fetch_add(wrong, 1);
	}
	if (event_count(&q.answered))
		atomic_fetch_add(wrong, 1);
	return NULL;
}

TEST_TIMES(death_races_with_calls, 5)
{
	race(racer_main, (unsigned)_i * 3000);
}

UNIT_FIXTURE(open_instance, close_instance)
