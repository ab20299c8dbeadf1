/* SPDX-License-Identifier: Apache-2.0 */
/* The ring between two processes, and two receivers: no letter and no wake-up is lost. */
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pjrtfs/base.h"
#include "ring_fixture.h"

/* A busy machine exchanges fewer messages: a round trip waits for two time slices there. */
enum { STRESS_SECONDS = 8 };

/* --- two processes ------------------------------------------------------------------- */

struct letter {
	uint64_t number, hash, len;
};

static size_t random_length(uint64_t *seed)
{
	uint64_t r = next(seed, UINT64_MAX);

	if (r % 500 == 0)
		return next(seed, UINT64_MAX) %
		       (PF_RING_MESSAGE - sizeof(struct letter) + 1);
	return next(seed, r % 10 ? 200 : 5000);
}

static void take_sure(struct pf_ring *ring, unsigned spin_us, ssize_t *n)
{
	while ((*n = pf_ring_take(ring, got, sizeof(got))) == -EAGAIN)
		pf_ring_wait(ring, spin_us, -1);
}

/* The other process: send every message back, with the bits of its body inverted. */
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

TEST_EACH(two_processes_exchange_messages, spins)
{
	unsigned spin_us = spins[_i];
	struct pf_ring there, back;
	double end = now() + STRESS_SECONDS;
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
	for (uint64_t i = 0; i < 100000 && (i < 1000 || now() < end); i++) {
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

/* --- threads; engine/check_instance has many that post and take at once ------------------- */

/* One receiver sleeps, one spins at times: one that leaves messages wakes the other. */
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
	pf_ring_wake(&r->ring);
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
		if (pf_ring_wait(&r->ring, (unsigned)next(&seed, 30), 0))
			relay_take(r);
		if (next(&seed, 16) == 0)
			/* real time: it takes at any moment */
			usleep((unsigned)next(&seed, 60));
	}
	return NULL;
}

TEST(no_wake_up_is_lost)
{
	static struct relay r;
	pthread_t threads[3];
	double end = now() + STRESS_SECONDS;
	uint64_t seed = 11, posted = 0;

	new_ring(&r.ring);
	pthread_create(&threads[0], NULL, relay_sleep, &r);
	pthread_create(&threads[1], NULL, relay_spin, &r);
	pthread_create(&threads[2], NULL, relay_sleep, &r);
	for (int i = 0; i < 30000 && (i < 1000 || now() < end); i++) {
		double patience = now() + 20;

		for (uint64_t n = 1 + next(&seed, 3); n; n--, posted++)
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
