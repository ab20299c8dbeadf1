/* SPDX-License-Identifier: Apache-2.0 */
/* An instance: calls, frees, and its end. */
#include "instance_fixture.h"

TEST(a_call_is_answered)
{
	struct question q;

	for (uint64_t i = 1; i < 100; i++) {
		const struct pf_req_id *req = (const void *)message;

		ask(&q, i * 1000);
		ck_assert_uint_eq(take_request(), sizeof(*req));
		ck_assert_uint_eq(req->id, i * 1000);
		ck_assert_uint_eq(req->head.op, PF_OP_BUFFER_READ);
		ck_assert_uint_ne(req->head.tag, 0);
		answer_rightly(req->head.tag);
		event_wait(&q.answered);
		ck_assert_int_eq(q.code, 0);
		ck_assert_uint_eq(q.len, sizeof(struct pf_rep_block));
		ck_assert_uint_eq(((struct pf_rep_block *)q.reply)->off, 4096);
	}
}

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

TEST(a_full_ring_is_busy)
{
	static struct question q[PF_RING_BYTES / 32 + 1];
	struct pf_err err = PF_ERR_INIT;
	unsigned n = 0;

	while (ask_id(&q[n], n, &err) == 0)
		n++;
	ck_assert_uint_eq(n, PF_RING_BYTES / 32);
	ck_assert_int_eq(err.code, -EBUSY);
	ck_assert_str_eq(err.text, "too much is under way on plugin test");
	ck_assert_int_eq(event_count(&q[n].answered), 0);
	take_request();
	ck_assert_int_eq(ask_id(&q[n], n, &err), 0);
	end_instance();
	for (unsigned i = 0; i <= n; i++) {
		ck_assert_int_eq(event_count(&q[i].answered), 1);
		ck_assert_int_eq(q[i].code, -EIO);
		ck_assert_str_eq(q[i].err.text, "it is over");
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
	static struct question q[PF_RING_BYTES / 32];
	const struct pf_req_id *req = (const void *)message;

	for (unsigned i = 0; i < ARRAY_SIZE(q); i++)
		ask(&q[i], i);
	for (uint64_t id = 1; id <= 70000; id++)
		if (id % 2)
			pf_instance_free_id(instance, PF_OP_BUFFER_FREE, id);
		else
			pf_instance_free_block(instance, id);
	for (unsigned i = 0; i < ARRAY_SIZE(q); i++) {
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
	ck_assert_str_eq(pf_instance_pool(instance, 100, 11), "still here");
}

TEST(a_dead_pool_is_as_long_as_what_was_looked_at)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), off = 2 * page + 100;
	const char *held = pf_instance_pool(instance, off, 5);
	char *mapped = (char *)(uintptr_t)pf_instance_pool(instance, 0, page);
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
	ck_assert_ptr_eq(pf_instance_pool(instance, off, 5), held);
	ck_assert_ptr_nonnull(pf_instance_pool(instance, 3 * page - 1, 1));
	ck_assert_ptr_null(pf_instance_pool(instance, 3 * page, 1));
	ck_assert_int_eq(mincore(mapped, 3 * page, there), 0);
	ck_assert_int_eq(mincore(mapped + 3 * page, page, there), -1);
}

TEST(a_dead_pool_that_was_not_looked_at)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	end_instance();
	pf_instance_shorten_pools(0);
	pf_instance_shorten_pools(0);
	ck_assert_ptr_nonnull(pf_instance_pool(instance, 0, page));
	ck_assert_ptr_null(pf_instance_pool(instance, 0, page + 1));
}

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
	static const unsigned made[] = { 0, 1, 1, 2 }; /* there is no device 2 */

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

UNIT_FIXTURE(open_instance, close_instance)
