/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "pjrtfs/base.h"
#include "pjrtfs/wire.h"

/*
 * The layout that both processes see.  Positions only grow; byte N lies at N modulo the size.
 * Posters and takers write to different cache lines.
 */
struct pf_ring_shared {
	_Alignas(64) _Atomic uint64_t head; /* bytes posted */
	_Atomic uint32_t seq;               /* posts so far: the futex */
	_Atomic uint32_t closed;
	_Alignas(64) _Atomic uint64_t tail; /* bytes taken */
	_Atomic uint32_t sleepers;          /* takers asleep, or about to */
	_Atomic uint32_t spinner;           /* 1: a taker spins and needs no wake-up */
	_Atomic uint64_t spun_ns;           /* when it last looked: it may be preempted */
	_Alignas(64) uint8_t bytes[PF_RING_BYTES];
};

enum { STALE_NS = 20000 };
enum { HEAD_LEN = 8 }; /* each message is preceded by its length; all is 8-aligned */

static uint64_t round8(uint64_t n)
{
	return (n + 7) & ~UINT64_C(7);
}

size_t pf_ring_footprint(void)
{
	return sizeof(struct pf_ring_shared);
}

void pf_ring_init(struct pf_ring *ring, void *memory)
{
	ring->shared = memory;
	if (pthread_mutex_init(&ring->lock, NULL))
		abort();
}

void pf_ring_release(struct pf_ring *ring)
{
	if (!ring->shared)
		return;
	pthread_mutex_destroy(&ring->lock);
	ring->shared = NULL;
}

static void copy_in(struct pf_ring_shared *s, uint64_t pos, const void *src, size_t len)
{
	size_t at = pos % PF_RING_BYTES;
	size_t first = len < PF_RING_BYTES - at ? len : PF_RING_BYTES - at;

	memcpy(s->bytes + at, src, first);
	if (len > first)
		memcpy(s->bytes, (const char *)src + first, len - first);
}

static void copy_out(const struct pf_ring_shared *s, uint64_t pos, void *dst, size_t len)
{
	size_t at = pos % PF_RING_BYTES;
	size_t first = len < PF_RING_BYTES - at ? len : PF_RING_BYTES - at;

	memcpy(dst, s->bytes + at, first);
	if (len > first)
		memcpy((char *)dst + first, s->bytes, len - first);
}

static void futex_wake(_Atomic uint32_t *word, int n)
{
	/* Not FUTEX_PRIVATE: the waiter is in another process. */
	syscall(SYS_futex, word, FUTEX_WAKE, n, NULL, NULL, 0);
}

/*
 * No wake-up is lost: a poster changes seq and then reads sleepers, a sleeper adds itself to
 * sleepers and then compares seq (the kernel does, in FUTEX_WAIT), all of it sequentially
 * consistent.  A spinner that gives up clears its mark and looks at the ring once more before it
 * sleeps.
 */
static void wake(struct pf_ring_shared *s)
{
	if (!atomic_load(&s->sleepers))
		return;
	/* A spinner that the kernel preempted may not look again for milliseconds. */
	if (!atomic_load(&s->spinner) ||
	    pf_now_ns() - atomic_load(&s->spun_ns) > STALE_NS)
		futex_wake(&s->seq, 1);
}

int pf_ring_post(struct pf_ring *ring, const void *head, size_t head_len,
		 const void *tail, size_t tail_len)
{
	int r = pf_ring_post_nowake(ring, head, head_len, tail, tail_len);

	if (r == 0)
		wake(ring->shared);
	return r;
}

int pf_ring_post_nowake(struct pf_ring *ring, const void *head, size_t head_len,
			const void *tail, size_t tail_len)
{
	struct pf_ring_shared *s = ring->shared;
	uint64_t len = (uint64_t)head_len + tail_len;
	uint64_t need = HEAD_LEN + round8(len), at, used;

	if (len > PF_RING_MESSAGE)
		return -EMSGSIZE;
	PF_LOCK_SCOPE(&ring->lock);
	if (atomic_load(&s->closed))
		return -EPIPE;
	at = atomic_load_explicit(&s->head, memory_order_relaxed);
	used = at - atomic_load_explicit(&s->tail, memory_order_acquire);
	if (used > PF_RING_BYTES || at % 8)
		return -EPROTO;
	if (PF_RING_BYTES - used < need)
		return -EAGAIN;
	copy_in(s, at, &len, HEAD_LEN);
	copy_in(s, at + HEAD_LEN, head, head_len);
	if (tail_len)
		copy_in(s, at + HEAD_LEN + head_len, tail, tail_len);
	atomic_store(&s->head, at + need);
	atomic_fetch_add(&s->seq, 1);
	return 0;
}

ssize_t pf_ring_take(struct pf_ring *ring, void *dst, size_t cap)
{
	struct pf_ring_shared *s = ring->shared;
	uint64_t at, have, len;

	PF_LOCK_SCOPE(&ring->lock);
	at = atomic_load_explicit(&s->tail, memory_order_relaxed);
	have = atomic_load_explicit(&s->head, memory_order_acquire) - at;
	if (!have)
		return atomic_load(&s->closed) ? -EPIPE : -EAGAIN;
	if (have > PF_RING_BYTES || have < HEAD_LEN || at % 8)
		return -EPROTO;
	copy_out(s, at, &len, HEAD_LEN);
	if (len > PF_RING_MESSAGE || len > cap || HEAD_LEN + round8(len) > have)
		return -EPROTO;
	copy_out(s, at + HEAD_LEN, dst, len);
	atomic_store_explicit(&s->tail, at + HEAD_LEN + round8(len),
			      memory_order_release);
	return (ssize_t)len;
}

bool pf_ring_pending(const struct pf_ring *ring)
{
	const struct pf_ring_shared *s = ring->shared;

	return atomic_load(&s->head) != atomic_load(&s->tail) || atomic_load(&s->closed);
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#endif
}

/* True if the ring became pending while this thread spun. */
static bool spin(struct pf_ring *ring, unsigned spin_us)
{
	struct pf_ring_shared *s = ring->shared;
	uint32_t nobody = 0;
	uint64_t end;

	if (!spin_us || !atomic_compare_exchange_strong(&s->spinner, &nobody, 1))
		return false;
	end = pf_now_ns() + (uint64_t)spin_us * 1000u;
	do {
		atomic_store_explicit(&s->spun_ns, pf_now_ns(), memory_order_relaxed);
		for (int i = 0; i < 4; i++) {
			if (pf_ring_pending(ring)) {
				atomic_store(&s->spinner, 0);
				return true;
			}
			relax();
		}
		sched_yield(); /* the poster may wait for this processor */
	} while (pf_now_ns() < end);
	atomic_store(&s->spinner, 0);
	return false;
}

bool pf_ring_wait(struct pf_ring *ring, unsigned spin_us, int timeout_ms)
{
	struct pf_ring_shared *s = ring->shared;
	struct timespec t = { timeout_ms / 1000, (timeout_ms % 1000) * 1000000L };
	uint32_t seq, n;

	if (pf_ring_pending(ring) || spin(ring, spin_us))
		return true;
	if (!timeout_ms)
		return pf_ring_pending(ring);
	atomic_fetch_add(&s->sleepers, 1);
	seq = atomic_load(&s->seq);
	if (!pf_ring_pending(ring))
		syscall(SYS_futex, &s->seq, FUTEX_WAIT, seq, timeout_ms < 0 ? NULL : &t,
			NULL, 0);
	/* Not below zero, whatever the other process wrote: UINT32_MAX would hide sleepers. */
	n = atomic_load(&s->sleepers);
	while (n && !atomic_compare_exchange_weak(&s->sleepers, &n, n - 1))
		;
	return pf_ring_pending(ring);
}

void pf_ring_wake(struct pf_ring *ring)
{
	if (!pf_ring_pending(ring))
		return;
	/* A damaged worker may have written the message without a post: a new seq makes a
	 * taker that is about to sleep look again. */
	atomic_fetch_add(&ring->shared->seq, 1);
	wake(ring->shared);
}

void pf_ring_rouse(struct pf_ring *ring)
{
	if (pf_ring_pending(ring))
		futex_wake(&ring->shared->seq, 1);
}

void pf_ring_close(struct pf_ring *ring)
{
	atomic_store(&ring->shared->closed, 1);
	atomic_fetch_add(&ring->shared->seq, 1);
	futex_wake(&ring->shared->seq, INT_MAX);
}
