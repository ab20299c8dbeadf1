/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A one-way queue of messages in memory that two processes share.
 *
 * Any number of threads on one side post, any number on the other take (each side has a
 * process-local lock of its own).  The other process is not trusted: every index and
 * length read from shared memory is checked, and a message is copied out before anyone
 * looks into it.
 *
 * Waiting is an event count: who waits spins a little (giving up the processor every few
 * rounds, or it would starve the other side on a small machine), then sleeps on a futex
 * in the shared memory; who posts makes a system call only if somebody sleeps and nobody
 * spins.
 */
#ifndef PJRTFS_WIRE_RING_H
#define PJRTFS_WIRE_RING_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	PF_RING_BYTES = 1 << 20,     /* payload of one ring; a power of two */
	PF_RING_MESSAGE = 256 << 10, /* the largest message */
};

struct pf_ring_shared; /* what lies in the shared memory */

/* One process's end of a ring. */
struct pf_ring {
	struct pf_ring_shared *shared; /* borrowed; lives as long as the mapping */
	pthread_mutex_t lock;          /* rank 9; one poster or one taker at a time */
};

/* Bytes of shared memory that one ring takes. */
size_t pf_ring_footprint(void);

/*
 * Attach to the ring at MEMORY (pf_ring_footprint() bytes, 64-byte aligned, zeroed when
 * new: all zeros is an empty ring).
 */
void pf_ring_init(struct pf_ring *ring, void *memory);

/* Detach; the shared memory stays. */
void pf_ring_release(struct pf_ring *ring);

/*
 * Append one message made of HEAD and, if TAIL_LEN is not 0, TAIL, and wake who waits.
 * Does not block.  0; -EAGAIN the ring is full; -EMSGSIZE more than PF_RING_MESSAGE;
 * -EPIPE the ring is closed; -EPROTO the other side left nonsense in the indexes.
 */
int pf_ring_post(struct pf_ring *ring, const void *head, size_t head_len,
		 const void *tail, size_t tail_len);

/* The same, but wakes nobody: for several messages, after which comes a pf_ring_nudge. */
int pf_ring_post_quiet(struct pf_ring *ring, const void *head, size_t head_len,
		       const void *tail, size_t tail_len);

/*
 * Move the oldest message into DST, of CAP >= PF_RING_MESSAGE bytes.  Does not block.
 * Its length; -EAGAIN there is none; -EPIPE closed and empty; -EPROTO nonsense: the ring
 * must not be used again.
 */
ssize_t pf_ring_take(struct pf_ring *ring, void *dst, size_t cap);

/* True if a message waits or the ring is closed.  A hint: another thread may take it. */
bool pf_ring_pending(const struct pf_ring *ring);

/*
 * Wait until pf_ring_pending(): spin for SPIN_US microseconds (only one thread of a side
 * does at a time, others sleep at once), then, if TIMEOUT_MS is not 0, sleep that long at
 * most (-1: for ever).  Returns pf_ring_pending().
 */
bool pf_ring_wait(struct pf_ring *ring, unsigned spin_us, int timeout_ms);

/* Wake one sleeping taker if a message waits: for a taker that leaves work behind, and after
 * quiet posts. */
void pf_ring_nudge(struct pf_ring *ring);

/* Wake one sleeping taker if a message waits, whether or not the ring says that one sleeps: for
 * a poster whose wake-up may have been lost because the other side wrote over that mark.  One
 * system call if a message waits; does not block. */
void pf_ring_rouse(struct pf_ring *ring);

/* No more messages: waiters on both sides wake, posts fail.  What was posted can be taken. */
void pf_ring_close(struct pf_ring *ring);

#endif
