/* SPDX-License-Identifier: Apache-2.0 */
/* The ring: no message is lost or doubled, no waiter sleeps for ever, garbage is safe. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ring_fixture.h"

/* Where the shared words lie, in 8-byte words: what a hostile process would write to. */
enum { HEAD = 0, TAIL = 8, SLEEPERS = 9, BYTES = 16 };

static struct pf_ring ring;

static void open_ring(void)
{
	new_ring(&ring);
}

static void close_ring(void)
{
	pf_ring_release(&ring);
}

static _Atomic uint64_t *words(void)
{
	return (_Atomic uint64_t *)(void *)ring.shared;
}

static void move_to(uint64_t head, uint64_t tail)
{
	atomic_store(words() + HEAD, head);
	atomic_store(words() + TAIL, tail);
}

static const size_t lengths[] = {
	0, 1, 7, 8, 9, 63, 64, 65, 4095, 100000, PF_RING_MESSAGE - 1, PF_RING_MESSAGE,
};

/* One message of LEN bytes, in two parts, that begins at position AT. */
static void pass_one(uint64_t at, size_t len, size_t split)
{
	move_to(at, at);
	ck_assert(!pf_ring_pending(&ring));
	ck_assert_int_eq(pf_ring_post(&ring, sent, split, sent + split, len - split), 0);
	ck_assert(pf_ring_pending(&ring));
	memset(got, 0, len);
	ck_assert_int_eq(pf_ring_take(&ring, got, sizeof(got)), (ssize_t)len);
	if (memcmp(got, sent, len))
		ck_abort_msg("%zu bytes at %#llx came out wrong", len,
			     (unsigned long long)at);
	ck_assert_int_eq(pf_ring_take(&ring, got, sizeof(got)), -EAGAIN);
}

TEST_EACH(wraps_at_every_alignment, lengths)
{
	size_t len = lengths[_i];
	uint64_t step = len > 4096 ? len / 37 / 8 * 8 : 8;

	fill(sent, len, len + 1);
	for (uint64_t before = 0; before <= len + 24; before += step) {
		/* The end of the bytes, and the end of the numbers. */
		pass_one(PF_RING_BYTES - before / 8 * 8, len, len / 2);
		pass_one(0 - before / 8 * 8, len, len);
		pass_one(UINT64_C(5) * PF_RING_BYTES - before / 8 * 8, len, 0);
	}
}

TEST_EACH(fills_up_and_empties, lengths)
{
	size_t len = lengths[_i], room = PF_RING_BYTES / (8 + (len + 7) / 8 * 8), n = 0;
	int r;

	move_to(3 * PF_RING_BYTES - 64, 3 * PF_RING_BYTES - 64);
	while ((r = pf_ring_post(&ring, sent, len, NULL, 0)) == 0)
		n++;
	ck_assert_int_eq(r, -EAGAIN);
	ck_assert_uint_eq(n, room);
	ck_assert_int_eq(pf_ring_take(&ring, got, sizeof(got)), (ssize_t)len);
	ck_assert_int_eq(pf_ring_post(&ring, sent, len, NULL, 0), 0);
	ck_assert_int_eq(pf_ring_post(&ring, sent, len, NULL, 0), -EAGAIN);
	while (n--)
		ck_assert_int_eq(pf_ring_take(&ring, got, sizeof(got)), (ssize_t)len);
	ck_assert_int_eq(pf_ring_take(&ring, got, sizeof(got)), -EAGAIN);
}

TEST(refuses_too_long_messages)
{

	ck_assert_int_eq(pf_ring_post(&ring, sent, PF_RING_MESSAGE + 1, NULL, 0),
			 -EMSGSIZE);
	ck_assert_int_eq(pf_ring_post(&ring, sent, PF_RING_MESSAGE, sent, 1), -EMSGSIZE);
	ck_assert_int_eq(pf_ring_post(&ring, sent, 1, sent, PF_RING_MESSAGE), -EMSGSIZE);
	ck_assert(!pf_ring_pending(&ring));
}

/* --- the other side writes garbage ---------------------------------------------------- */

static const struct garbage {
	uint64_t head, tail, len;
	int take, post;
} garbage[] = {
	{ UINT64_MAX, 0, 8, -EPROTO, -EPROTO },
	{ UINT64_MAX & ~7ull, 0, 8, -EPROTO, -EPROTO },
	{ 0, 8, 8, -EPROTO, -EPROTO },
	{ 0, UINT64_MAX, 8, -EPROTO, 0 },
	{ PF_RING_BYTES + 8, 0, 8, -EPROTO, -EPROTO },
	{ PF_RING_BYTES * 2, PF_RING_BYTES - 8, 8, -EPROTO, -EPROTO },
	{ UINT64_C(1) << 63, 0, 8, -EPROTO, -EPROTO },
	{ 4, 0, 0, -EPROTO, -EPROTO },
	{ 12, 4, 0, -EPROTO, -EPROTO },
	{ 16, 4, 0, -EPROTO, 0 },
	{ 8, 0, 1, -EPROTO, 0 },
	{ 16, 0, 9, -EPROTO, 0 },
	{ 64, 0, 57, -EPROTO, 0 },
	{ PF_RING_BYTES, 0, PF_RING_MESSAGE + 1, -EPROTO, -EAGAIN },
	{ PF_RING_BYTES, 0, PF_RING_BYTES, -EPROTO, -EAGAIN },
	{ PF_RING_BYTES, 0, UINT64_MAX, -EPROTO, -EAGAIN },
	{ PF_RING_BYTES, 0, UINT64_MAX - 7, -EPROTO, -EAGAIN },
	{ PF_RING_BYTES, 0, UINT64_C(1) << 63, -EPROTO, -EAGAIN },
	{ PF_RING_BYTES, 0, UINT64_C(1) << 32, -EPROTO, -EAGAIN },
};

TEST_EACH(garbage_is_refused, garbage)
{
	const struct garbage *g = &garbage[_i];
	char *dst = guarded(PF_RING_MESSAGE);

	words()[BYTES] = g->len;
	move_to(g->head, g->tail);
	ck_assert_int_eq(pf_ring_take(&ring, dst, PF_RING_MESSAGE), g->take);
	ck_assert_uint_eq(words()[TAIL], g->tail);
	ck_assert_int_eq(pf_ring_post(&ring, sent, 8, NULL, 0), g->post);
}

/* Write random bytes from the seed into a shared ring, as fast as possible. */
static void scribble(void)
{
	uint64_t seed = 42;

	for (;;) {
		uint64_t what = next(&seed, UINT64_MAX), value = next(&seed, UINT64_MAX);

		if (what % 3 == 0)
			value &= (2 * PF_RING_BYTES) - 8;
		if (what % 5 == 0)
			words()[HEAD] = value;
		else if (what % 5 == 1)
			words()[TAIL] = value;
		else
			words()[BYTES + what % (PF_RING_BYTES / 8)] = value;
	}
}

TEST(a_process_that_writes_garbage_does_no_harm)
{
	char *dst = guarded(PF_RING_MESSAGE), *src = guarded(300);
	double end = now() + 1;
	pid_t pid;

	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		scribble();
	while (now() < end) {
		for (int i = 0; i < 1000; i++) {
			ssize_t n = pf_ring_take(&ring, dst, PF_RING_MESSAGE);
			int r = pf_ring_post(&ring, src, 100, src + 100, 200);

			ck_assert(n >= 0 ? n <= PF_RING_MESSAGE
					 : n == -EAGAIN || n == -EPROTO || n == -EPIPE);
			ck_assert(r == 0 || r == -EAGAIN || r == -EPROTO || r == -EPIPE);
		}
		pf_ring_wait(&ring, 1, 1);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

TEST(a_small_destination_is_not_overrun)
{
	char *dst = guarded(64);

	ck_assert_int_eq(pf_ring_post(&ring, sent, 65, NULL, 0), 0);
	ck_assert_int_eq(pf_ring_take(&ring, dst, 64), -EPROTO);
}

/* --- waiting and closing ------------------------------------------------------------- */

struct sleeper {
	pthread_t thread;
	unsigned spin_us;
	bool woken;
};

static void *sleep_main(void *arg)
{
	struct sleeper *s = arg;

	s->woken = pf_ring_wait(&ring, s->spin_us, -1);
	return NULL;
}

TEST_TIMES(closing_wakes_all, 3)
{
	struct sleeper sleepers[8];

	for (unsigned i = 0; i < ARRAY_SIZE(sleepers); i++) {
		sleepers[i] = (struct sleeper){ .spin_us = i % 2 * 100 };
		pthread_create(&sleepers[i].thread, NULL, sleep_main, &sleepers[i]);
	}
	usleep(_i * 20000); /* real time: they sleep by now, or not yet */
	pf_ring_close(&ring);
	for (unsigned i = 0; i < ARRAY_SIZE(sleepers); i++) {
		pthread_join(sleepers[i].thread, NULL);
		ck_assert(sleepers[i].woken);
	}
}

TEST_TIMES(a_later_wake_up_covers_earlier_posts, 3)
{
	struct sleeper sleeper = { 0 };

	pthread_create(&sleeper.thread, NULL, sleep_main, &sleeper);
	usleep((unsigned)_i * 20000); /* real time: it sleeps by now, or not yet */
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pf_ring_post_nowake(&ring, "ab", 2, "c", 1), 0);
	pf_ring_wake(&ring);
	pthread_join(sleeper.thread, NULL);
	ck_assert(sleeper.woken);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(pf_ring_take(&ring, got, sizeof(got)), 3);
		ck_assert_int_eq(memcmp(got, "abc", 3), 0);
	}
	ck_assert_int_eq(pf_ring_take(&ring, got, sizeof(got)), -EAGAIN);
}

/* The other process overwrites the count while this one sleeps: it does not fall below zero. */
TEST(a_count_of_sleepers_that_was_overwritten_hides_none)
{
	_Atomic uint32_t *sleepers = (_Atomic uint32_t *)(words() + SLEEPERS);
	struct sleeper sleeper = { 0 };

	pthread_create(&sleeper.thread, NULL, sleep_main, &sleeper);
	while (!atomic_load(sleepers))
		usleep(1000);
	atomic_store(sleepers, 0);
	ck_assert_int_eq(pf_ring_post(&ring, "x", 1, NULL, 0), 0);
	pf_ring_rouse(&ring); /* the post has woken none */
	pthread_join(sleeper.thread, NULL);
	ck_assert_uint_eq(atomic_load(sleepers), 0);
}

TEST(a_closed_ring_delivers_its_messages)
{

	ck_assert_int_eq(pf_ring_post(&ring, "last", 4, NULL, 0), 0);
	pf_ring_close(&ring);
	pf_ring_close(&ring);
	ck_assert_int_eq(pf_ring_post(&ring, "more", 4, NULL, 0), -EPIPE);
	ck_assert(pf_ring_wait(&ring, 0, -1));
	ck_assert_int_eq(pf_ring_take(&ring, got, sizeof(got)), 4);
	ck_assert_int_eq(memcmp(got, "last", 4), 0);
	ck_assert(pf_ring_pending(&ring));
	ck_assert_int_eq(pf_ring_take(&ring, got, sizeof(got)), -EPIPE);
}

static const struct {
	unsigned spin_us;
	int timeout_ms;
} waits[] = { { 0, 0 }, { 50, 0 }, { 0, 30 }, { 50, 30 }, { 5000, 1 }, { 0, 1200 } };

TEST_EACH(waiting_ends_in_time, waits)
{
	double least = waits[_i].spin_us / 1e6 + waits[_i].timeout_ms / 1e3, begin;

	begin = now();
	ck_assert(!pf_ring_wait(&ring, waits[_i].spin_us, waits[_i].timeout_ms));
	ck_assert_double_ge(now() - begin, least * 0.9);
	ck_assert_double_le(now() - begin, least + 5);
}

UNIT_FIXTURE(open_ring, close_ring)
