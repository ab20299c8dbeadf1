/* The ring: nothing is lost or doubled, nobody sleeps for ever, nonsense does no harm. */
#include "pjrtfs/wire/ring.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pjrtfs/base/map.h"
#include "unit.h"

enum { PAGE = 4096 };

/* Where the shared words lie, in 8-byte words: what a hostile process would write to. */
enum { HEAD = 0, TAIL = 8, BYTES = 16 };

static size_t round_page(size_t n)
{
	return (n + PAGE - 1) / PAGE * PAGE;
}

/* LEN bytes of shared zeros that end (but for alignment) where no access is allowed. */
static void *guarded(size_t len)
{
	size_t all = round_page(len);
	char *p =
		mmap(NULL, all + 2 * PAGE, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	ck_assert_int_eq(mprotect(p + PAGE, all, PROT_READ | PROT_WRITE), 0);
	return p + PAGE + (all - len);
}

static void new_ring(struct pf_ring *ring)
{
	pf_ring_init(ring, guarded(pf_ring_footprint()));
}

static _Atomic uint64_t *words(struct pf_ring *ring)
{
	return (_Atomic uint64_t *)(void *)ring->shared;
}

static void move_to(struct pf_ring *ring, uint64_t head, uint64_t tail)
{
	atomic_store(words(ring) + HEAD, head);
	atomic_store(words(ring) + TAIL, tail);
}

static uint64_t next(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *seed >> 20;
}

static void fill(char *dst, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i++)
		dst[i] = (char)(i % 8 ? seed >> (i % 8 * 5) : next(&seed));
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static char sent[PF_RING_MESSAGE + 1], got[PF_RING_MESSAGE];

static const size_t lengths[] = {
	0, 1, 7, 8, 9, 63, 64, 65, 4095, 100000, PF_RING_MESSAGE - 1, PF_RING_MESSAGE,
};

START_TEST(layout_is_as_this_test_thinks)
{
	struct pf_ring ring;

	new_ring(&ring);
	ck_assert_int_eq(pf_ring_post(&ring, "0123456789", 10, NULL, 0), 0);
	ck_assert_uint_eq(words(&ring)[HEAD], 8 + 16);
	ck_assert_uint_eq(words(&ring)[TAIL], 0);
	ck_assert_uint_eq(words(&ring)[BYTES], 10);
	ck_assert_int_eq(pf_ring_take(&ring, got, sizeof(got)), 10);
	ck_assert_uint_eq(words(&ring)[TAIL], 8 + 16);
	pf_ring_release(&ring);
}
END_TEST

/* One message of LEN bytes, in two parts, that begins at position AT. */
static void pass_one(struct pf_ring *ring, uint64_t at, size_t len, size_t split)
{
	move_to(ring, at, at);
	ck_assert(!pf_ring_pending(ring));
	ck_assert_int_eq(pf_ring_post(ring, sent, split, sent + split, len - split), 0);
	ck_assert(pf_ring_pending(ring));
	memset(got, 0, len);
	ck_assert_int_eq(pf_ring_take(ring, got, sizeof(got)), (ssize_t)len);
	if (memcmp(got, sent, len))
		ck_abort_msg("%zu bytes at %#llx came out wrong", len,
			     (unsigned long long)at);
	ck_assert_int_eq(pf_ring_take(ring, got, sizeof(got)), -EAGAIN);
}

START_TEST(wraps_at_every_alignment)
{
	size_t len = lengths[_i];
	struct pf_ring ring;
	uint64_t step = len > 4096 ? len / 37 / 8 * 8 : 8;

	new_ring(&ring);
	fill(sent, len, len + 1);
	for (uint64_t before = 0; before <= len + 24; before += step) {
		/* The end of the bytes, and the end of the numbers. */
		pass_one(&ring, PF_RING_BYTES - before / 8 * 8, len, len / 2);
		pass_one(&ring, 0 - before / 8 * 8, len, len);
		pass_one(&ring, UINT64_C(5) * PF_RING_BYTES - before / 8 * 8, len, 0);
	}
	pf_ring_release(&ring);
}
END_TEST

START_TEST(fills_up_and_empties)
{
	size_t len = lengths[_i], room = PF_RING_BYTES / (8 + (len + 7) / 8 * 8), n = 0;
	struct pf_ring ring;
	int r;

	new_ring(&ring);
	move_to(&ring, 3 * PF_RING_BYTES - 64, 3 * PF_RING_BYTES - 64);
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
	pf_ring_release(&ring);
}
END_TEST

START_TEST(refuses_what_is_too_long)
{
	struct pf_ring ring;

	new_ring(&ring);
	ck_assert_int_eq(pf_ring_post(&ring, sent, PF_RING_MESSAGE + 1, NULL, 0),
			 -EMSGSIZE);
	ck_assert_int_eq(pf_ring_post(&ring, sent, PF_RING_MESSAGE, sent, 1), -EMSGSIZE);
	ck_assert_int_eq(pf_ring_post(&ring, sent, 1, sent, PF_RING_MESSAGE), -EMSGSIZE);
	ck_assert(!pf_ring_pending(&ring));
	pf_ring_release(&ring);
}
END_TEST

/* --- the other side lies ------------------------------------------------------------- */

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

START_TEST(garbage_is_refused)
{
	const struct garbage *g = &garbage[_i];
	char *dst = guarded(PF_RING_MESSAGE);
	struct pf_ring ring;

	new_ring(&ring);
	words(&ring)[BYTES] = g->len;
	move_to(&ring, g->head, g->tail);
	ck_assert_int_eq(pf_ring_take(&ring, dst, PF_RING_MESSAGE), g->take);
	ck_assert_uint_eq(words(&ring)[TAIL], g->tail);
	ck_assert_int_eq(pf_ring_post(&ring, sent, 8, NULL, 0), g->post);
	pf_ring_release(&ring);
}
END_TEST

/* Write whatever the seed says into a shared ring, as fast as possible. */
static void scribble(struct pf_ring *ring)
{
	uint64_t seed = 42;

	for (;;) {
		uint64_t what = next(&seed), value = next(&seed);

		if (what % 3 == 0)
			value &= (2 * PF_RING_BYTES) - 8;
		if (what % 5 == 0)
			words(ring)[HEAD] = value;
		else if (what % 5 == 1)
			words(ring)[TAIL] = value;
		else
			words(ring)[BYTES + what % (PF_RING_BYTES / 8)] = value;
	}
}

START_TEST(a_scribbling_process_does_no_harm)
{
	char *dst = guarded(PF_RING_MESSAGE), *src = guarded(300);
	double end = now() + 1;
	struct pf_ring ring;
	pid_t pid;

	new_ring(&ring);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		scribble(&ring);
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
	pf_ring_release(&ring);
}
END_TEST

START_TEST(a_small_destination_is_not_overrun)
{
	char *dst = guarded(64);
	struct pf_ring ring;

	new_ring(&ring);
	ck_assert_int_eq(pf_ring_post(&ring, sent, 65, NULL, 0), 0);
	ck_assert_int_eq(pf_ring_take(&ring, dst, 64), -EPROTO);
	pf_ring_release(&ring);
}
END_TEST

/* --- waiting and closing ------------------------------------------------------------- */

struct sleeper {
	struct pf_ring *ring;
	pthread_t thread;
	unsigned spin_us;
	bool woken;
};

static void *sleep_main(void *arg)
{
	struct sleeper *s = arg;

	s->woken = pf_ring_wait(s->ring, s->spin_us, -1);
	return NULL;
}

START_TEST(closing_wakes_all)
{
	struct sleeper sleepers[8];
	struct pf_ring ring;

	new_ring(&ring);
	for (unsigned i = 0; i < ARRAY_SIZE(sleepers); i++) {
		sleepers[i] = (struct sleeper){ .ring = &ring, .spin_us = i % 2 * 100 };
		pthread_create(&sleepers[i].thread, NULL, sleep_main, &sleepers[i]);
	}
	usleep(_i * 20000);
	pf_ring_close(&ring);
	for (unsigned i = 0; i < ARRAY_SIZE(sleepers); i++) {
		pthread_join(sleepers[i].thread, NULL);
		ck_assert(sleepers[i].woken);
	}
	pf_ring_release(&ring);
}
END_TEST

START_TEST(quiet_posts_wake_when_nudged)
{
	struct sleeper sleeper;
	struct pf_ring ring;

	new_ring(&ring);
	sleeper = (struct sleeper){ .ring = &ring };
	pthread_create(&sleeper.thread, NULL, sleep_main, &sleeper);
	usleep((unsigned)_i * 20000);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pf_ring_post_quiet(&ring, "ab", 2, "c", 1), 0);
	pf_ring_nudge(&ring);
	pthread_join(sleeper.thread, NULL);
	ck_assert(sleeper.woken);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(pf_ring_take(&ring, got, sizeof(got)), 3);
		ck_assert_int_eq(memcmp(got, "abc", 3), 0);
	}
	ck_assert_int_eq(pf_ring_take(&ring, got, sizeof(got)), -EAGAIN);
	pf_ring_release(&ring);
}
END_TEST

START_TEST(a_closed_ring_gives_what_it_has)
{
	struct pf_ring ring;

	new_ring(&ring);
	ck_assert_int_eq(pf_ring_post(&ring, "last", 4, NULL, 0), 0);
	pf_ring_close(&ring);
	pf_ring_close(&ring);
	ck_assert_int_eq(pf_ring_post(&ring, "more", 4, NULL, 0), -EPIPE);
	ck_assert(pf_ring_wait(&ring, 0, -1));
	ck_assert_int_eq(pf_ring_take(&ring, got, sizeof(got)), 4);
	ck_assert_int_eq(memcmp(got, "last", 4), 0);
	ck_assert(pf_ring_pending(&ring));
	ck_assert_int_eq(pf_ring_take(&ring, got, sizeof(got)), -EPIPE);
	pf_ring_release(&ring);
}
END_TEST

static const struct {
	unsigned spin_us;
	int timeout_ms;
} waits[] = { { 0, 0 }, { 50, 0 }, { 0, 30 }, { 50, 30 }, { 5000, 1 }, { 0, 1200 } };

START_TEST(waiting_ends_in_time)
{
	double least = waits[_i].spin_us / 1e6 + waits[_i].timeout_ms / 1e3, begin;
	struct pf_ring ring;

	new_ring(&ring);
	begin = now();
	ck_assert(!pf_ring_wait(&ring, waits[_i].spin_us, waits[_i].timeout_ms));
	ck_assert_double_ge(now() - begin, least * 0.9);
	ck_assert_double_le(now() - begin, least + 5);
	pf_ring_release(&ring);
}
END_TEST

/* --- two processes ------------------------------------------------------------------- */

struct letter {
	uint64_t number, hash, len;
};

static size_t random_length(uint64_t *seed)
{
	uint64_t r = next(seed);

	if (r % 500 == 0)
		return next(seed) % (PF_RING_MESSAGE - sizeof(struct letter) + 1);
	return next(seed) % (r % 10 ? 200 : 5000);
}

static void take_sure(struct pf_ring *ring, unsigned spin_us, ssize_t *n)
{
	while ((*n = pf_ring_take(ring, got, sizeof(got))) == -EAGAIN)
		pf_ring_wait(ring, spin_us, -1);
}

/* The other process: send every letter back, with its body turned over. */
static void echo(struct pf_ring *in, struct pf_ring *out, unsigned spin_us)
{
	struct letter *l = (struct letter *)got;
	ssize_t n;

	for (;;) {
		take_sure(in, spin_us, &n);
		if (n < (ssize_t)sizeof(*l) || (uint64_t)n != sizeof(*l) + l->len ||
		    (l->len && pf_hash(l + 1, l->len) != l->hash))
			_exit(n == -EPIPE ? 0 : 1);
		for (char *p = (char *)(l + 1), *end = p + l->len; p < end; p++)
			*p = (char)~*p;
		l->hash = l->len ? pf_hash(l + 1, l->len) : 0;
		if (pf_ring_post(out, got, (size_t)n, NULL, 0) < 0)
			_exit(2);
	}
}

static void check_echo(uint64_t number, size_t len)
{
	struct letter *l = (struct letter *)got;

	ck_assert_uint_eq(l->number, number);
	ck_assert_uint_eq(l->len, len);
	if (len && l->hash != pf_hash(l + 1, len))
		ck_abort_msg("letter %llu was damaged", (unsigned long long)number);
	for (size_t i = 0; i < len; i += 61)
		if (((char *)(l + 1))[i] != (char)~sent[i])
			ck_abort_msg("letter %llu is another",
				     (unsigned long long)number);
}

static const unsigned spins[] = { 0, 20 };

START_TEST(two_processes_play_ping_pong)
{
	unsigned spin_us = spins[_i];
	struct pf_ring there, back;
	uint64_t seed = 7;
	int status = -1;
	pid_t pid;

	new_ring(&there);
	new_ring(&back);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		echo(&there, &back, spin_us);
	fill(sent, sizeof(sent), 3);
	for (uint64_t i = 0; i < 100000; i++) {
		size_t len = random_length(&seed);
		struct letter l = { i, len ? pf_hash(sent, len) : 0, len };
		ssize_t n;

		ck_assert_int_eq(pf_ring_post(&there, &l, sizeof(l), sent, len), 0);
		take_sure(&back, spin_us, &n);
		ck_assert_int_eq(n, (ssize_t)(sizeof(l) + len));
		check_echo(i, len);
	}
	pf_ring_close(&there);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	pf_ring_release(&there);
	pf_ring_release(&back);
}
END_TEST

/* --- many threads -------------------------------------------------------------------- */

enum { POSTERS = 4, TAKERS = 4, EACH = 20000 };

struct crowd {
	struct pf_ring ring;
	_Atomic unsigned next_poster, taken, wrong;
	_Atomic unsigned char seen[POSTERS * EACH];
};

static void *post_main(void *arg)
{
	struct crowd *c = arg;
	unsigned me = atomic_fetch_add(&c->next_poster, 1);
	char body[600];
	uint64_t seed = me + 1;

	for (unsigned i = 0; i < EACH; i++) {
		size_t len = next(&seed) % sizeof(body);
		struct letter l = { (uint64_t)me * EACH + i, 0, len };
		int r;

		fill(body, len, l.number);
		l.hash = len ? pf_hash(body, len) : 0;
		while ((r = pf_ring_post(&c->ring, &l, sizeof(l), body, len)) == -EAGAIN)
			sched_yield();
		if (r < 0)
			atomic_fetch_add(&c->wrong, 1);
	}
	return NULL;
}

static void count_letter(struct crowd *c, const char *message, ssize_t n)
{
	const struct letter *l = (const void *)message;

	if (n < (ssize_t)sizeof(*l) || (uint64_t)n != sizeof(*l) + l->len ||
	    l->number >= POSTERS * EACH ||
	    (l->len && pf_hash(l + 1, l->len) != l->hash) ||
	    atomic_fetch_add(&c->seen[l->number], 1))
		atomic_fetch_add(&c->wrong, 1);
	atomic_fetch_add(&c->taken, 1);
}

static void *take_main(void *arg)
{
	struct crowd *c = arg;
	char *message = malloc(PF_RING_MESSAGE);

	for (;;) {
		ssize_t n = pf_ring_take(&c->ring, message, PF_RING_MESSAGE);

		if (n == -EAGAIN) {
			pf_ring_wait(&c->ring, 20, -1);
			continue;
		}
		if (n < 0)
			break;
		pf_ring_nudge(&c->ring);
		count_letter(c, message, n);
	}
	free(message);
	return NULL;
}

START_TEST(a_crowd_loses_and_doubles_nothing)
{
	static struct crowd c;
	pthread_t posters[POSTERS], takers[TAKERS];

	new_ring(&c.ring);
	for (int i = 0; i < TAKERS; i++)
		pthread_create(&takers[i], NULL, take_main, &c);
	for (int i = 0; i < POSTERS; i++)
		pthread_create(&posters[i], NULL, post_main, &c);
	for (int i = 0; i < POSTERS; i++)
		pthread_join(posters[i], NULL);
	pf_ring_close(&c.ring);
	for (int i = 0; i < TAKERS; i++)
		pthread_join(takers[i], NULL);
	ck_assert_uint_eq(c.wrong, 0);
	ck_assert_uint_eq(c.taken, POSTERS * EACH);
	pf_ring_release(&c.ring);
}
END_TEST

/* One who sleeps, one who now and then spins: whoever leaves work must not leave it alone. */
struct relay {
	struct pf_ring ring;
	_Atomic uint64_t taken;
	_Atomic bool stop;
};

static void relay_take(struct relay *r)
{
	char message[64 + PF_RING_MESSAGE];

	if (pf_ring_take(&r->ring, message, sizeof(message)) < 0)
		return;
	pf_ring_nudge(&r->ring);
	atomic_fetch_add(&r->taken, 1);
}

static void *relay_sleep(void *arg)
{
	struct relay *r = arg;

	while (!atomic_load(&r->stop)) {
		pf_ring_wait(&r->ring, 0, -1);
		relay_take(r);
	}
	return NULL;
}

static void *relay_spin(void *arg)
{
	struct relay *r = arg;
	uint64_t seed = 5;

	while (!atomic_load(&r->stop)) {
		if (pf_ring_wait(&r->ring, (unsigned)(next(&seed) % 30), 0))
			relay_take(r);
		if (next(&seed) % 16 == 0)
			usleep((unsigned)(next(&seed) % 60));
	}
	return NULL;
}

START_TEST(no_wake_up_is_lost)
{
	static struct relay r;
	pthread_t threads[3];
	uint64_t seed = 11, posted = 0;

	new_ring(&r.ring);
	pthread_create(&threads[0], NULL, relay_sleep, &r);
	pthread_create(&threads[1], NULL, relay_spin, &r);
	pthread_create(&threads[2], NULL, relay_sleep, &r);
	for (int i = 0; i < 30000; i++) {
		double patience = now() + 20;

		for (uint64_t n = 1 + next(&seed) % 3; n; n--, posted++)
			ck_assert_int_eq(pf_ring_post(&r.ring, &posted, 8, NULL, 0), 0);
		while (atomic_load(&r.taken) < posted) {
			ck_assert_msg(now() < patience,
				      "a message lies there and all sleep");
			sched_yield();
		}
	}
	atomic_store(&r.stop, true);
	pf_ring_close(&r.ring);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(r.taken, posted);
	pf_ring_release(&r.ring);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ring");
	TCase *tc = tcase_create("core"), *slow = tcase_create("stress");

	tcase_add_test(tc, layout_is_as_this_test_thinks);
	unit_add_cases(tc, wraps_at_every_alignment, lengths);
	unit_add_cases(tc, fills_up_and_empties, lengths);
	tcase_add_test(tc, refuses_what_is_too_long);
	unit_add_cases(tc, garbage_is_refused, garbage);
	tcase_add_test(tc, a_scribbling_process_does_no_harm);
	tcase_add_test(tc, a_small_destination_is_not_overrun);
	tcase_add_loop_test(tc, closing_wakes_all, 0, 3);
	tcase_add_loop_test(tc, quiet_posts_wake_when_nudged, 0, 3);
	tcase_add_test(tc, a_closed_ring_gives_what_it_has);
	unit_add_cases(tc, waiting_ends_in_time, waits);
	tcase_set_timeout(tc, 30);
	suite_add_tcase(s, tc);
	tcase_set_timeout(slow, 60);
	unit_add_cases(slow, two_processes_play_ping_pong, spins);
	tcase_add_test(slow, a_crowd_loses_and_doubles_nothing);
	tcase_add_test(slow, no_wake_up_is_lost);
	suite_add_tcase(s, slow);
	return unit_run(s);
}
