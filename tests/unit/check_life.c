/* One life of a worker, with this test as the worker: calls, frees, and lies. */
#include "engine/life.h"

#include <limits.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "engine_fixture.h"
#include "pjrtfs/wire/channel.h"

enum { POOL = 1 << 20 };

static struct pf_life *life;
static struct pf_channel peer; /* the worker's end */
static char *pool;
static char message[PF_RING_MESSAGE];

static void open_life(void)
{
	int channel = pf_channel_create(NULL), fd = memfd_create("pool", MFD_CLOEXEC);
	int broken = eventfd(0, EFD_CLOEXEC);
	struct pf_err err = PF_ERR_INIT;

	ck_assert_int_eq(ftruncate(fd, POOL), 0);
	ck_assert_msg(pf_life_new("test", channel, fd, POOL, broken, &life, &err) == 0,
		      "%s", err.text);
	ck_assert_int_eq(pf_channel_map(&peer, channel, &err), 0);
	pool = mmap(NULL, POOL, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(pool, MAP_FAILED);
	close(channel);
	close(fd);
}

static void end_life(void)
{
	struct pf_err why = PF_ERR_INIT;

	pf_err_set(&why, -EIO, "it is over");
	pf_life_end(life, &why);
}

static void close_life(void)
{
	end_life();
	pf_life_unref(life);
	pf_channel_release(&peer);
	munmap(pool, POOL);
}

/* --- both sides ---------------------------------------------------------------------- */

static int ask_id(struct question *q, uint64_t id, struct pf_err *err)
{
	struct pf_req_id req = { .head.op = PF_OP_BUFFER_READ, .id = id };

	question_init(q, sizeof(struct pf_rep_block));
	return pf_life_call(life, &q->call, &req, sizeof(req), NULL, 0, err);
}

static void ask(struct question *q, uint64_t id)
{
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(ask_id(q, id, &err) == 0, "%s", err.text);
}

/* The next request, as the worker takes it, in message; its length. */
static size_t take_request(void)
{
	ssize_t n;

	while ((n = pf_ring_take(&peer.request, message, sizeof(message))) == -EAGAIN)
		ck_assert_msg(pf_ring_wait(&peer.request, 50, 20000), "no request came");
	ck_assert_int_gt(n, 0);
	ck_assert_uint_eq(((struct pf_msg_head *)message)->len, (uint32_t)n);
	return (size_t)n;
}

static void post_reply(const void *reply, size_t len)
{
	int r;

	while ((r = pf_ring_post(&peer.reply, reply, len, NULL, 0)) == -EAGAIN)
		sched_yield();
	ck_assert_int_eq(r, 0);
}

static struct pf_rep_block block_reply(uint64_t tag)
{
	return (struct pf_rep_block){
		.rep = { .head = { PF_OP_BUFFER_READ, sizeof(struct pf_rep_block), tag },
			 .pjrt_code = -1 },
		.off = 4096,
		.len = 5,
	};
}

static void answer_rightly(uint64_t tag)
{
	struct pf_rep_block rep = block_reply(tag);

	post_reply(&rep, sizeof(rep));
}

START_TEST(a_call_is_answered)
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
END_TEST

START_TEST(a_tail_follows_its_request)
{
	struct pf_req_compile req = { .head.op = PF_OP_COMPILE, .options_len = 5 };
	struct question q;

	question_init(&q, sizeof(struct pf_rep_compile));
	ck_assert_int_eq(pf_life_call(life, &q.call, &req, sizeof(req), "hello", 5, NULL),
			 0);
	ck_assert_uint_eq(take_request(), sizeof(req) + 5);
	ck_assert_int_eq(memcmp(message + sizeof(req), "hello", 5), 0);
}
END_TEST

START_TEST(answers_may_come_in_any_order)
{
	static struct question q[200];
	uint64_t tags[200];

	for (unsigned i = 0; i < 200; i++) {
		ask(&q[i], i);
		take_request();
		tags[i] = ((struct pf_msg_head *)message)->tag;
	}
	for (unsigned i = 0; i < 200; i++)
		answer_rightly(tags[i * 77 % 200]);
	for (unsigned i = 0; i < 200; i++) {
		event_wait(&q[i].answered);
		ck_assert_int_eq(q[i].code, 0);
	}
}
END_TEST

START_TEST(who_settles_takes_the_answer)
{
	static const unsigned us[] = { 0, 1, 200000 };
	struct question q;
	struct timespec a, b;

	for (unsigned i = 0; i < ARRAY_SIZE(us); i++) {
		ask(&q, 1);
		take_request();
		clock_gettime(CLOCK_MONOTONIC, &a);
		pf_life_settle(life, &q.done, us[i]);
		clock_gettime(CLOCK_MONOTONIC, &b);
		ck_assert(!q.done);
		ck_assert_int_le(b.tv_sec - a.tv_sec, 5);
		answer_rightly(((struct pf_msg_head *)message)->tag);
		pf_life_settle(life, &q.done, 2000000);
		event_wait(&q.answered);
		ck_assert_int_eq(q.code, 0);
		ck_assert_int_eq(event_count(&q.answered), 1);
	}
}
END_TEST

/* --- too much ------------------------------------------------------------------------ */

START_TEST(a_full_ring_is_busy)
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
	end_life();
	for (unsigned i = 0; i <= n; i++) {
		ck_assert_int_eq(event_count(&q[i].answered), 1);
		ck_assert_int_eq(q[i].code, -EIO);
		ck_assert_str_eq(q[i].err.text, "it is over");
	}
}
END_TEST

START_TEST(what_is_too_long_is_refused)
{
	static char options[PF_RING_MESSAGE];
	struct pf_req_compile req = { .head.op = PF_OP_COMPILE };
	struct pf_err err = PF_ERR_INIT;
	struct question q;

	question_init(&q, 0);
	ck_assert_int_eq(pf_life_call(life, &q.call, &req, sizeof(req), options,
				      sizeof(options), &err),
			 -E2BIG);
	ck_assert_int_eq(event_count(&q.answered), 0);
}
END_TEST

/* Frees find no room, wait, and come in order once there is some. */
START_TEST(no_free_is_lost)
{
	static struct question q[PF_RING_BYTES / 32];
	const struct pf_req_id *req = (const void *)message;

	for (unsigned i = 0; i < ARRAY_SIZE(q); i++)
		ask(&q[i], i);
	for (uint64_t id = 1; id <= 70000; id++)
		if (id % 2)
			pf_life_free_id(life, PF_OP_BUFFER_FREE, id);
		else
			pf_life_free_block(life, id);
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
END_TEST

static void answered_frees(struct pf_call *call, int code, const struct pf_err *err,
			   const void *reply, size_t len)
{
	struct question *q = pf_container_of(call, struct question, call);

	(void)err;
	(void)reply;
	(void)len;
	q->code = code;
	for (uint64_t id = 1; id <= 3; id++)
		pf_life_free_id(life, PF_OP_BUFFER_FREE, id);
}

/* What an answer frees wakes the worker, which sleeps, when the answer was given. */
START_TEST(frees_of_an_answer_are_sent)
{
	const struct pf_req_id *req = (const void *)message;

	static struct question freeing[20];

	for (size_t i = 0; i < ARRAY_SIZE(freeing); i++) {
		struct pf_req_id q = { .head.op = PF_OP_BUFFER_READ, .id = 9 };

		question_init(&freeing[i], sizeof(struct pf_rep_block));
		freeing[i].call.done = answered_frees;
		ck_assert_int_eq(pf_life_call(life, &freeing[i].call, &q, sizeof(q), NULL,
					      0, NULL),
				 0);
		take_request();
		answer_rightly(req->head.tag);
		for (uint64_t id = 1; id <= 3; id++) {
			ck_assert_uint_eq(take_request(), sizeof(*req));
			ck_assert_uint_eq(req->id, id);
			ck_assert_uint_eq(req->head.op, PF_OP_BUFFER_FREE);
		}
	}
}
END_TEST

/* --- death --------------------------------------------------------------------------- */

START_TEST(after_the_end_all_fails)
{
	struct pf_err err = PF_ERR_INIT, other = PF_ERR_INIT;
	struct question under_way, late;

	ask(&under_way, 1);
	ck_assert(pf_life_alive(life));
	end_life();
	ck_assert(!pf_life_alive(life));
	pf_err_set(&other, -EPERM, "another reason");
	pf_life_end(life, &other);
	ck_assert_int_eq(under_way.code, -EIO);
	ck_assert_str_eq(under_way.err.text, "it is over");
	ck_assert_int_eq(ask_id(&late, 2, &err), -EIO);
	ck_assert_str_eq(err.text, "it is over");
	ck_assert_int_eq(event_count(&late.answered), 0);
	pf_life_free_id(life, PF_OP_BUFFER_FREE, 1);
	pf_life_settle(life, &late.done, 1000);
	strcpy(pool + 100, "still here");
	ck_assert_str_eq(pf_life_pool(life, 100, 11), "still here");
}
END_TEST

/* What a worker answered before it died counts. */
START_TEST(answers_of_the_dead_count)
{
	struct question q[50];

	for (unsigned i = 0; i < 50; i++) {
		ask(&q[i], i);
		take_request();
		answer_rightly(((struct pf_msg_head *)message)->tag);
	}
	end_life();
	for (unsigned i = 0; i < 50; i++) {
		ck_assert_int_eq(event_count(&q[i].answered), 1);
		ck_assert_int_eq(q[i].code, 0);
	}
}
END_TEST

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

START_TEST(only_the_pool_is_the_pool)
{
	const char *p = pf_life_pool(life, places[_i].off, places[_i].len);

	ck_assert_int_eq(p != NULL, places[_i].inside);
	if (p && places[_i].len)
		ck_assert_int_eq(*p, 0);
}
END_TEST

/* --- lies ---------------------------------------------------------------------------- */

/* A reply to TAG with a field that is not as it should be. */
struct lie {
	uint32_t op;
	int32_t len_more; /* what its head says beyond the truth */
	size_t cut;       /* the message ends that early */
	int32_t code, pjrt_code;
	int want; /* the call's code; 1: it is not answered */
	int want_pjrt_code;
};

static const struct lie lies[] = {
	{ PF_OP_EXECUTE, 0, 0, 0, -1, -EPROTO, -1 },
	{ 0, 0, 0, 0, -1, -EPROTO, -1 },
	{ UINT32_MAX, 0, 0, 0, -1, -EPROTO, -1 },
	{ PF_OP_BUFFER_READ, 0, 8, 0, -1, -EPROTO, -1 },
	{ PF_OP_BUFFER_READ, 0, 16, 0, -1, -EPROTO, -1 },
	{ PF_OP_BUFFER_READ, 1, 0, 0, -1, 1, -1 },
	{ PF_OP_BUFFER_READ, -1, 0, 0, -1, 1, -1 },
	{ PF_OP_BUFFER_READ, INT_MAX, 0, 0, -1, 1, -1 },
	{ PF_OP_BUFFER_READ, 0, 17, 0, -1, 1, -1 },
	{ PF_OP_BUFFER_READ, 0, 40, 0, -1, 1, -1 },
	{ PF_OP_BUFFER_READ, 0, 0, -ENOSPC, 8, -ENOSPC, 8 },
	{ PF_OP_EXECUTE, 0, 0, -ENOSPC, 8, -ENOSPC, 8 },
	{ PF_OP_BUFFER_READ, 0, 16, -EINVAL, 3, -EINVAL, 3 },
	{ PF_OP_BUFFER_READ, 0, 0, -4096, -1, -EIO, -1 },
	{ PF_OP_BUFFER_READ, 0, 0, INT_MIN, INT_MIN, -EIO, INT_MIN },
};

START_TEST(what_is_alive_is_counted)
{
	/* Before the devices are known nothing counts. */
	pf_life_count(life, PF_ALIVE_BUFFERS, 0, 1);
	ck_assert_uint_eq(pf_life_alive_on(life, PF_ALIVE_BUFFERS, 0), 0);
	ck_assert_int_eq(pf_life_set_devices(life, 2), 0);
	pf_life_count(life, PF_ALIVE_BUFFERS, 0, 1);
	pf_life_count(life, PF_ALIVE_BUFFERS, 1, 1);
	pf_life_count(life, PF_ALIVE_BUFFERS, 1, 1);
	pf_life_count(life, PF_ALIVE_BUFFERS, 2, 1); /* there is none */
	pf_life_count(life, PF_ALIVE_EXECUTABLES, PF_NO_DEVICE, 1);
	ck_assert_uint_eq(pf_life_alive_on(life, PF_ALIVE_BUFFERS, 0), 1);
	ck_assert_uint_eq(pf_life_alive_on(life, PF_ALIVE_BUFFERS, 1), 2);
	ck_assert_uint_eq(pf_life_alive_on(life, PF_ALIVE_BUFFERS, 2), 0);
	ck_assert_uint_eq(pf_life_alive_on(life, PF_ALIVE_BUFFERS, PF_NO_DEVICE), 0);
	ck_assert_uint_eq(pf_life_alive_on(life, PF_ALIVE_EXECUTABLES, 1), 0);
	ck_assert_uint_eq(pf_life_alive_on(life, PF_ALIVE_EXECUTABLES, PF_NO_DEVICE), 1);
	pf_life_count(life, PF_ALIVE_BUFFERS, 1, -1);
	ck_assert_uint_eq(pf_life_alive_on(life, PF_ALIVE_BUFFERS, 1), 1);
}
END_TEST

START_TEST(lies_harm_only_the_call)
{
	const struct lie *l = &lies[_i];
	struct question q, after;
	struct pf_rep_block rep;
	uint64_t tag;

	ask(&q, 1);
	take_request();
	tag = ((struct pf_msg_head *)message)->tag;
	rep = block_reply(tag);
	rep.rep.head.op = l->op;
	rep.rep.head.len = (uint32_t)(sizeof(rep) - l->cut) + (uint32_t)l->len_more;
	rep.rep.code = l->code;
	rep.rep.pjrt_code = l->pjrt_code;
	memset(&rep.off, '?', 16);
	post_reply(&rep, sizeof(rep) - l->cut);
	ask(&after, 2);
	take_request();
	answer_rightly(((struct pf_msg_head *)message)->tag);
	event_wait(&after.answered);
	ck_assert_int_eq(after.code, 0);
	if (l->want == 1) {
		ck_assert_int_eq(event_count(&q.answered), 0);
		answer_rightly(tag);
		event_wait(&q.answered);
		ck_assert_int_eq(q.code, 0);
		return;
	}
	event_wait(&q.answered);
	ck_assert_int_eq(q.code, l->want);
	ck_assert_int_eq(q.err.code, l->want);
	ck_assert_int_eq(q.err.pjrt_code, l->want_pjrt_code);
	ck_assert_uint_le(strlen(q.err.text), PF_ERR_TEXT - 1);
	/* A second answer to the same call is nobody's. */
	answer_rightly(tag);
	ask(&after, 3);
	take_request();
	answer_rightly(((struct pf_msg_head *)message)->tag);
	event_wait(&after.answered);
	ck_assert_int_eq(event_count(&q.answered), 1);
}
END_TEST

static const uint64_t tags[] = { 0, 2, 77777, UINT64_MAX, UINT64_C(1) << 63 };

START_TEST(unknown_tags_are_nobodys)
{
	struct question q;

	ask(&q, 1);
	take_request();
	answer_rightly(tags[_i]);
	answer_rightly(((struct pf_msg_head *)message)->tag);
	event_wait(&q.answered);
	ck_assert_int_eq(q.code, 0);
}
END_TEST

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static const struct {
	uint64_t head, tail;
} indexes[] = { { 4, 0 }, { UINT64_MAX, 0 }, { PF_RING_BYTES + 8, 0 }, { 0, 8 } };

/* The worker breaks the ring: who asked is told, and nobody runs in circles. */
START_TEST(a_broken_ring_ends_the_calls)
{
	_Atomic uint64_t *words = (_Atomic uint64_t *)(void *)peer.reply.shared;
	struct question q, late;
	double before;

	ask(&q, 1);
	take_request();
	atomic_store(words, indexes[_i].head);
	atomic_store(words + 8, indexes[_i].tail);
	pf_ring_nudge(&peer.reply); /* wakes who sleeps */
	before = cpu_seconds();
	usleep(500000);
	ck_assert_double_le(cpu_seconds() - before, 0.25);
	ck_assert_msg(event_within(&q.answered, 5), "the call is never answered");
	ck_assert_int_lt(q.code, 0);
	ck_assert_int_lt(ask_id(&late, 2, NULL), 0);
}
END_TEST

/* --- threads ------------------------------------------------------------------------- */

enum { CALLERS = 4, EACH = 3000 };

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
			pf_life_settle(life, &q.done, (unsigned)(i % 50));
		if (!event_within(&q.answered, 60) || q.code < 0)
			atomic_fetch_add(wrong, 1);
	}
	return NULL;
}

START_TEST(threads_ask_at_once)
{
	pthread_t callers[CALLERS], it;
	static _Atomic unsigned wrong;

	pthread_create(&it, NULL, worker_main, NULL);
	for (int i = 0; i < CALLERS; i++)
		pthread_create(&callers[i], NULL, caller_main, &wrong);
	for (int i = 0; i < CALLERS; i++)
		pthread_join(callers[i], NULL);
	end_life();
	pthread_join(it, NULL);
	ck_assert_uint_eq(wrong, 0);
}
END_TEST

/* Calls that race with death are refused or answered, never both and never neither. */
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

START_TEST(death_races_with_calls)
{
	pthread_t racers[CALLERS], it;
	static _Atomic unsigned wrong;

	pthread_create(&it, NULL, worker_main, NULL);
	for (int i = 0; i < CALLERS; i++)
		pthread_create(&racers[i], NULL, racer_main, &wrong);
	usleep((unsigned)_i * 3000);
	end_life();
	for (int i = 0; i < CALLERS; i++)
		pthread_join(racers[i], NULL);
	pthread_join(it, NULL);
	ck_assert_uint_eq(wrong, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("life");
	TCase *tc = tcase_create("core");

	tcase_add_checked_fixture(tc, open_life, close_life);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, a_call_is_answered);
	tcase_add_test(tc, a_tail_follows_its_request);
	tcase_add_test(tc, answers_may_come_in_any_order);
	tcase_add_test(tc, who_settles_takes_the_answer);
	tcase_add_test(tc, a_full_ring_is_busy);
	tcase_add_test(tc, what_is_too_long_is_refused);
	tcase_add_test(tc, no_free_is_lost);
	tcase_add_test(tc, frees_of_an_answer_are_sent);
	tcase_add_test(tc, after_the_end_all_fails);
	tcase_add_test(tc, answers_of_the_dead_count);
	tcase_add_test(tc, what_is_alive_is_counted);
	unit_add_cases(tc, only_the_pool_is_the_pool, places);
	unit_add_cases(tc, lies_harm_only_the_call, lies);
	unit_add_cases(tc, unknown_tags_are_nobodys, tags);
	unit_add_cases(tc, a_broken_ring_ends_the_calls, indexes);
	tcase_add_test(tc, threads_ask_at_once);
	tcase_add_loop_test(tc, death_races_with_calls, 0, 5);
	suite_add_tcase(s, tc);
	return unit_run(s);
}
