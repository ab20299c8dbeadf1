/* SPDX-License-Identifier: Apache-2.0 */
/* Answers, interrupts, and both at once. */
#include "answer.h"
#include "pjrtfs/stream.h"
#include "unit.h"

static int calls;

static size_t halt_seven(struct pf_stream *stream, struct pf_parked *write)
{
	(void)stream;
	(void)write;
	__atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
	return 7;
}

static void interrupted(struct pf_stream *stream, struct pf_parked *write)
{
	(void)stream;
	(void)write;
	__atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
}

static const struct pf_stream_ops whole = { .interrupted = interrupted };
static const struct pf_stream_ops partial = { .halt = halt_seven,
					      .interrupted = interrupted };

static struct pf_stream stream;

/* A write that waits at a stream of OPS. */
static struct pf_parked *park(const struct pf_stream_ops *ops, struct pf_reply *reply)
{
	calls = 0;
	pf_stream_init(&stream, ops);
	PF_LOCK_SCOPE(&stream.lock);
	return pf_stream_park_write(&stream, sizeof(struct pf_parked), 9, reply);
}

TEST(an_interrupted_caller_gets_the_partial_count_unless_the_mount_ends)
{
	struct answer a;
	struct pf_reply *reply = answer_begin(&a);

	pf_reply_ref(reply); /* the front end's */
	ck_assert_ptr_nonnull(park(&partial, reply));
	pf_reply_interrupt(reply);
	pf_reply_unref(reply);
	ck_assert_int_eq(answer_take(&a), 7);
	ck_assert_int_eq(calls, 2);

	reply = answer_begin(&a);
	pf_reply_ref(reply);
	ck_assert_ptr_nonnull(park(&partial, reply));
	pf_reply_disconnect(reply);
	pf_reply_unref(reply);
	ck_assert_int_eq(answer_take(&a), -ENOTCONN);
	ck_assert_int_eq(calls, 2);
}

TEST(after_an_interrupt_the_answer_is_dropped)
{
	struct answer a;
	struct pf_reply *reply = answer_begin(&a);

	ck_assert(!pf_reply_gone(reply));
	pf_reply_ref(reply); /* the front end's */
	pf_reply_interrupt(reply);
	ck_assert(pf_reply_gone(reply));
	ck_assert_int_eq(a.code, -EINTR);
	pf_reply_unref(reply);
	ck_assert_int_eq(a.freed, 0);
	pf_reply_data(reply, "late", 4);
	ck_assert_int_eq(a.freed, 1);
	ck_assert_int_eq(a.sent, 1);
	ck_assert_int_eq(a.code, -EINTR);
	answer_end(&a);
}

TEST(an_interrupt_after_the_answer_does_nothing)
{
	struct answer a;
	struct pf_reply *reply = answer_begin(&a);
	pf_autofree struct pf_parked *p = NULL;

	pf_reply_ref(reply);
	p = park(&whole, reply);
	pf_reply_code(reply, 0);
	pf_reply_interrupt(reply);
	ck_assert_int_eq(calls, 0);
	ck_assert_int_eq(a.sent, 1);
	ck_assert_int_eq(a.code, 0);
	pf_reply_unref(reply);
	answer_end(&a);
}

TEST(an_interrupt_reaches_the_stream_once)
{
	struct answer a;
	struct pf_reply *reply = answer_begin(&a);

	pf_reply_ref(reply);
	ck_assert_ptr_nonnull(park(&whole, reply));
	pf_reply_interrupt(reply);
	pf_reply_interrupt(reply);
	ck_assert_int_eq(calls, 1);
	ck_assert_ptr_null(park(&whole, reply));
	ck_assert_int_eq(calls, 0);
	pf_reply_code(reply, 0);
	ck_assert_int_eq(a.sent, 1);
	answer_end(&a);
}

static void *interrupt(void *arg)
{
	pf_reply_interrupt(arg);
	pf_reply_unref(arg);
	return NULL;
}

TEST(answer_and_interrupt_race)
{
	for (int i = 0; i < 500; i++) {
		struct answer a;
		struct pf_reply *reply = answer_begin(&a);
		struct pf_parked *p;
		pthread_t thread;

		pf_reply_ref(reply);
		p = park(&whole, reply);
		ck_assert_int_eq(pthread_create(&thread, NULL, interrupt, reply), 0);
		pf_lock(&stream.lock);
		if (calls == 0 && pf_reply_claim(reply)) {
			pf_reply_send(reply, 0, NULL, 5);
			free(p);
		}
		pf_unlock(&stream.lock);
		pthread_join(thread, NULL);
		ck_assert_int_eq(a.sent, 1);
		ck_assert_int_eq(a.freed, 1);
		ck_assert_int_eq(calls, a.code == -EINTR);
		answer_end(&a);
	}
}
