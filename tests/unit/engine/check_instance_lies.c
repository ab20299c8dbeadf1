/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that lies harms only the calls that it lies to, or itself. */
#include <limits.h>

#include "instance_fixture.h"

static const struct {
	uint64_t off, len;
	bool inside;
} places[] = {
	{ 0, 0, true },
	{ 0, POOL, true },
	{ POOL, 0, true },
	{ POOL - 1, 1, true },
	{ 0, POOL + 1, false },
	{ POOL, 1, false },
	{ POOL + 1, 0, false },
	{ 1, UINT64_MAX, false },
	{ UINT64_MAX, 1, false },
	{ UINT64_MAX, UINT64_MAX, false },
	{ UINT64_MAX - 4, 5, false },
};

TEST_EACH(results_outside_the_pool_are_refused, places)
{
	const char *p = pf_instance_array(instance, places[_i].off, places[_i].len);

	ck_assert_int_eq(p != NULL, places[_i].inside);
	if (p && places[_i].len)
		ck_assert_int_eq(*p, 0);
}

/* A reply to TAG with a field that is not as it should be. */
struct lie {
	uint32_t op;
	int32_t len_more; /* added to the length in the head */
	size_t cut;       /* the message ends that early */
	int32_t code, pjrt_code;
	int want; /* the call's code */
	int want_pjrt_code;
};

static const struct lie lies[] = {
	{ PF_OP_EXECUTE, 0, 0, 0, -1, -EPROTO, -1 },
	{ 0, 0, 0, 0, -1, -EPROTO, -1 },
	{ UINT32_MAX, 0, 0, 0, -1, -EPROTO, -1 },
	{ PF_OP_BUFFER_READ, 0, 8, 0, -1, -EPROTO, -1 },
	{ PF_OP_BUFFER_READ, 0, 16, 0, -1, -EPROTO, -1 },
	{ PF_OP_BUFFER_READ, 1, 0, 0, -1, -EPROTO, -1 },
	{ PF_OP_BUFFER_READ, -1, 0, 0, -1, -EPROTO, -1 },
	{ PF_OP_BUFFER_READ, INT_MAX, 0, 0, -1, -EPROTO, -1 },
	{ PF_OP_BUFFER_READ, 0, 17, 0, -1, -EPROTO, -1 },
	{ PF_OP_BUFFER_READ, 0, 24, 0, -1, -EPROTO, -1 }, /* no more than the tag */
	{ PF_OP_BUFFER_READ, 0, 0, -ENOSPC, 8, -ENOSPC, 8 },
	{ PF_OP_EXECUTE, 0, 0, -ENOSPC, 8, -ENOSPC, 8 },
	{ PF_OP_BUFFER_READ, 0, 16, -EINVAL, 3, -EINVAL, 3 },
	{ PF_OP_BUFFER_READ, 0, 0, -4096, -1, -EIO, -1 },
	{ PF_OP_BUFFER_READ, 0, 0, INT_MIN, INT_MIN, -EIO, INT_MIN },
};

TEST_EACH(a_lie_fails_only_its_call, lies)
{
	const struct lie *l = &lies[_i];
	struct question q, after;
	struct pf_rep_block rep;
	uint64_t tag;

	tag = ask_and_take(&q, 1);
	rep = block_reply(tag);
	rep.rep.head.op = l->op;
	rep.rep.head.len = (uint32_t)(sizeof(rep) - l->cut) + (uint32_t)l->len_more;
	rep.rep.code = l->code;
	rep.rep.pjrt_code = l->pjrt_code;
	memset(&rep.off, '?', 16);
	post_reply(&rep, sizeof(rep) - l->cut);
	answer_rightly(ask_and_take(&after, 2));
	event_wait(&after.answered);
	ck_assert_int_eq(after.code, 0);
	event_wait(&q.answered);
	ck_assert_int_eq(q.code, l->want);
	ck_assert_int_eq(q.err.code, l->want);
	ck_assert_int_eq(q.err.pjrt_code, l->want_pjrt_code);
	ck_assert_uint_le(strlen(q.err.text), PF_ERR_TEXT - 1);
	/* A second reply to the same call is dropped. */
	answer_rightly(tag);
	answer_rightly(ask_and_take(&after, 3));
	event_wait(&after.answered);
	ck_assert_int_eq(event_count(&q.answered), 1);
}

static const uint64_t tags[] = { 0, 2, 77777, UINT64_MAX, UINT64_C(1) << 63 };

TEST_EACH(replies_with_unknown_tags_are_ignored, tags)
{
	struct question q;

	ask(&q, 1);
	take_request();
	answer_rightly(tags[_i]);
	answer_rightly(((struct pf_msg_head *)message)->tag);
	event_wait(&q.answered);
	ck_assert_int_eq(q.code, 0);
}

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

enum { CLOSED = 3, SLEEPERS = 18 }; /* the places of ring.c's words, of 4 bytes */

static const struct {
	uint64_t head, tail;
	bool closed;
} damages[] = {
	{ 4, 0, false }, { UINT64_MAX, 0, false },
	{ 0, 8, false }, { PF_RING_BYTES + 8, 0, false },
	{ 0, 0, true },
};

static void damage(const struct pf_ring *ring, int i)
{
	_Atomic uint64_t *words = (_Atomic uint64_t *)(void *)ring->shared;

	atomic_store(words, damages[i].head);
	atomic_store(words + 8, damages[i].tail);
	atomic_store((_Atomic uint32_t *)(void *)words + CLOSED, damages[i].closed);
}

/* The worker breaks the ring: the calls fail, and no thread spins for ever. */
TEST_EACH(a_broken_reply_ring_ends_the_calls, damages)
{
	struct question q, late;
	double before;

	ask(&q, 1);
	take_request();
	damage(&peer.reply, _i);
	pf_ring_wake(&peer.reply); /* wakes the reply thread */
	before = cpu_seconds();
	usleep(100000); /* real time: what is measured is that no thread spins in it */
	ck_assert_double_le(cpu_seconds() - before, 0.05);
	event_wait(&q.answered);
	ck_assert_int_lt(q.code, 0);
	ck_assert_int_lt(ask_id(&late, 2, NULL), 0);
}

/* A page of the pool is lost: the instance must end, and this process must not. */
TEST(a_lost_page_ends_the_instance)
{
	const char *far = pf_instance_array(instance, POOL - 4096, 4096);
	uint64_t count;

	pool[0] = pool[POOL - 4096] = 'x';
	ck_assert_int_eq(*far, 'x');
	ck_assert_ptr_null(pf_instance_unfit(instance));
	ck_assert_int_eq(ftruncate(pool_file, POOL / 2), 0);
	ck_assert_int_eq(*(const volatile char *)far, 0);
	ck_assert(pf_instance_damaged(instance));
	ck_assert_int_eq(read(broken, &count, sizeof(count)), sizeof(count));
	ck_assert_ptr_nonnull(strstr(pf_instance_unfit(instance), "could not be read"));
	ck_assert_int_eq(*(const char *)pf_instance_array(instance, 0, 1), 'x');
}

static bool is_reported(void)
{
	uint64_t n = 0;

	return read(broken, &n, sizeof(n)) == sizeof(n) && n > 0;
}

static const size_t stumps[] = { 0, 1, 15 };

/* A reply without a tag: all calls fail, and the worker is ended. */
TEST_EACH(an_answer_without_a_tag_ends_the_calls, stumps)
{
	struct question q, other;

	ask(&q, 1);
	ask(&other, 2);
	take_request();
	post_reply(message, stumps[_i]);
	event_wait(&q.answered);
	event_wait(&other.answered);
	ck_assert_int_eq(q.code, -EIO);
	ck_assert_int_eq(other.code, -EIO);
	ck_assert(is_reported());
}

/* The worker breaks the ring of requests: the next call finds out. */
TEST_EACH(a_broken_request_ring_ends_the_calls, damages)
{
	struct pf_err err = PF_ERR_INIT;
	struct question q, late;

	ask(&q, 1);
	take_request();
	damage(&peer.request, _i);
	ck_assert_int_eq(ask_id(&late, 2, &err), -EIO);
	ck_assert_msg(strstr(err.text, "damaged its rings") != NULL, "%s", err.text);
	event_wait(&q.answered);
	ck_assert_int_eq(q.code, -EIO);
	ck_assert(is_reported());
	ck_assert(!pf_instance_alive(instance));
	ck_assert(atomic_load(&instance->broken));
	ck_assert_int_eq(event_count(&late.answered), 0);
}

/* So does the next free, which has no reply. */
TEST_EACH(a_free_finds_a_broken_request_ring, damages)
{
	damage(&peer.request, _i);
	pf_instance_free_block(instance, 0);
	ck_assert(is_reported());
}

static void *sleepy_main(void *arg)
{
	(void)arg;
	for (int i = 0; i < 2; i++) {
		while (pf_ring_take(&peer.request, message, sizeof(message)) == -EAGAIN)
			pf_ring_wait(&peer.request, 0, -1);
		answer_rightly(((struct pf_msg_head *)message)->tag);
	}
	return NULL;
}

/* The worker overwrites the counts of sleepers: no thread sleeps for ever. */
TEST(a_lost_wake_up_only_delays_a_call)
{
	_Atomic uint32_t *asks =
		(_Atomic uint32_t *)(void *)peer.request.shared + SLEEPERS;
	_Atomic uint32_t *answers =
		(_Atomic uint32_t *)(void *)peer.reply.shared + SLEEPERS;
	struct question q;
	pthread_t thread;

	pthread_create(&thread, NULL, sleepy_main, NULL);
	for (uint64_t i = 1; i <= 2; i++) {
		while (!atomic_load(asks) || !atomic_load(answers))
			usleep(1000);
		atomic_store(asks, 0);
		atomic_store(answers, 0);
		ask(&q, i);
		event_wait(&q.answered);
		ck_assert_int_eq(q.code, 0);
	}
	pthread_join(thread, NULL);
}

UNIT_FIXTURE(open_instance, close_instance)
