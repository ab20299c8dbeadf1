/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each pinned block is one mapping of the plugin's: XLA looks for one that holds a whole transfer, and
 * copies through memory of its own if it finds none.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <time.h>

#include "internal.h"
#include "pins.h"
#include "pjrtfs/base.h"

enum {
	SHARE = 32, /* so much of the pool's address space, four times the memory, may be pinned */
	REST_MS = 3000, /* a block that no download takes for so long is unpinned */
};

struct pin {
	uint64_t off, len;
	int64_t until; /* while it is free: pf_now_ms() when it is to be unpinned */
	TAILQ_ENTRY(pin) entry; /* of a free one */
};

static struct {
	const struct pj_client *client; /* borrowed; or NULL: nothing is pinned */
	pthread_mutex_t lock;           /* rank 3; protects the fields below */
	pthread_cond_t given;           /* the first free one */
	struct pf_map used;             /* offset to struct pin */
	TAILQ_HEAD(, pin) free;         /* the oldest first */
	uint64_t total;                 /* bytes that are pinned, or are about to be */
	bool stopped;                   /* no more are pinned */
	bool running;                   /* the thread that unpins */
} pins = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.given = PTHREAD_COND_INITIALIZER,
	.free = TAILQ_HEAD_INITIALIZER(pins.free),
};

void pf_pins_set_up(const struct pj_client *client)
{
	pins.client = client;
}

/* Pin no more: WHAT failed as ERR says.  A plugin that does not pin at all is no failure. */
static void stop(const char *what, uint64_t len, const struct pf_err *err)
{
	bool first;

	pf_lock(&pins.lock);
	first = !pins.stopped;
	pins.stopped = true;
	pf_unlock(&pins.lock);
	if (first && err->code != -EOPNOTSUPP)
		fprintf(stderr,
			"pjrtfs-worker: cannot %s %llu bytes for downloads, which go on without "
			"pinned memory: %s (some drivers count it against RLIMIT_MEMLOCK)\n",
			what, (unsigned long long)len, err->text);
}

/* Give PIN, which is off the list, back to the pool. */
static void unpin(struct pin *pin)
{
	struct pf_err err = PF_ERR_INIT;

	if (pj_client_unpin(pins.client, pf_pool_at(pin->off), &err) < 0) {
		/* The device may still write there: the block is never used again. */
		stop("unpin", pin->len, &err);
	} else {
		(void)pf_pool_block_free(pin->off);
		pf_lock(&pins.lock);
		pins.total -= pin->len;
		pf_unlock(&pins.lock);
	}
	free(pin);
}

/* Unpin what no download has taken for so long. */
static void *unpin_rested(void *unused)
{
	(void)unused;
	PF_LOCK_SCOPE(&pins.lock);
	for (;;) {
		struct pin *oldest = TAILQ_FIRST(&pins.free);
		int64_t left = oldest ? oldest->until - pf_now_ms() : 0;

		if (!oldest) {
			pthread_cond_wait(&pins.given, &pins.lock);
		} else if (left > 0) {
			struct timespec end = pf_time_in(CLOCK_MONOTONIC, (uint64_t)left);

			pthread_cond_clockwait(&pins.given, &pins.lock, CLOCK_MONOTONIC,
					       &end);
		} else {
			TAILQ_REMOVE(&pins.free, oldest, entry);
			pf_unlock(&pins.lock);
			unpin(oldest);
			pf_lock(&pins.lock);
		}
	}
	return NULL;
}

/* Not pf_thread_start, which needs more than the sandbox allows by now. */
static bool start_thread_locked(void)
{
	pthread_t thread;

	if (!pins.running && pthread_create(&thread, NULL, unpin_rested, NULL) == 0) {
		pthread_detach(thread);
		pins.running = true;
	}
	return pins.running;
}

/* The shortest free block for LEN bytes, but no more than twice as long; NULL: there is none. */
static struct pin *find_free_locked(uint64_t len)
{
	struct pin *pin, *best = NULL;

	TAILQ_FOREACH(pin, &pins.free, entry)
		if (pin->len >= len && pin->len <= 2 * len &&
		    (!best || pin->len < best->len))
			best = pin;
	return best;
}

static bool take_free(uint64_t len, uint64_t *off)
{
	struct pin *pin;

	PF_LOCK_SCOPE(&pins.lock);
	pin = find_free_locked(len);
	if (!pin || pf_map_put(&pins.used, pin->off, pin) < 0)
		return false;
	TAILQ_REMOVE(&pins.free, pin, entry);
	*off = pin->off;
	return true;
}

/* Count LEN bytes at OFF as pinned before they are.  False: they may not be. */
static bool reserve(uint64_t off, uint64_t len)
{
	struct pin *pin;

	PF_LOCK_SCOPE(&pins.lock);
	if (!pins.client || pins.stopped || pins.total + len > pf_pool_size / SHARE ||
	    !start_thread_locked())
		return false;
	pin = malloc(sizeof(*pin));
	if (!pin || pf_map_put(&pins.used, off, pin) < 0) {
		free(pin);
		return false;
	}
	*pin = (struct pin){ .off = off, .len = len };
	pins.total += len;
	return true;
}

static void forget(uint64_t off, uint64_t len)
{
	PF_LOCK_SCOPE(&pins.lock);
	free(pf_map_remove(&pins.used, off));
	pins.total -= len;
}

int pf_pins_take(uint64_t len, uint64_t *off, struct pf_err *err)
{
	struct pf_err why = PF_ERR_INIT;
	uint64_t whole;
	int r;

	if (take_free(len, off))
		return 0;
	r = pf_pool_block(len, off, err);
	if (r < 0)
		return r;
	whole = pf_pool_usable(pf_pool_at(*off));
	if (!reserve(*off, whole))
		return 0;
	if (pj_client_pin(pins.client, pf_pool_at(*off), whole, &why) < 0) {
		forget(*off, whole);
		stop("pin", whole, &why);
	}
	return 0;
}

bool pf_pins_give(uint64_t off)
{
	struct pin *pin;

	PF_LOCK_SCOPE(&pins.lock);
	pin = pf_map_remove(&pins.used, off);
	if (!pin)
		return false;
	pin->until = pf_now_ms() + REST_MS;
	TAILQ_INSERT_TAIL(&pins.free, pin, entry);
	pthread_cond_signal(&pins.given);
	return true;
}
