/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers that lost their names while somebody was about to open them.
 *
 * Who opens a path looks its name up first, and opens what that was a moment later.  If the
 * name was given to another buffer meanwhile, and the first one's memory is free, the answer
 * is ESTALE, on which the kernel looks the name up again: but only once.  So after such an
 * answer buffers that lose their names, for as long as that may go on, are kept a little: the
 * second lookup's will be there.  They take a small part of the memory limit at most, and
 * nothing is kept while nobody races.
 */
#include <stdlib.h>
#include <time.h>

#include "pjrtfs/base/clock.h"
#include "entry.h"

enum {
	RACE_MS = 2000, /* after who came too late others may */
	KEEP_MS = 200,  /* between a lookup and its open */
	PART = 8,       /* so much of the memory limit */
};

void graves_alarm(struct graves *g)
{
	atomic_store(&g->race_until, pf_now_ms() + RACE_MS);
}

static struct entry *pop_locked(struct graves *g)
{
	struct entry *entry = g->first;

	g->first = entry->next_grave;
	if (!g->first)
		g->last = NULL;
	g->bytes -= entry->grave_bytes;
	entry->kept = false;
	return entry;
}

static void close_grave(struct entry *entry)
{
	entry_bury(entry);
	entry_unref(entry);
}

/* So many of the oldest as are due go to *DUE; the timer is set for the next one. */
static void take_due_locked(struct graves *g, struct entry **due)
{
	int64_t now = pf_now_ms();

	while (g->first && g->first->keep_until <= now) {
		struct entry *entry = pop_locked(g);

		entry->next_grave = *due;
		*due = entry;
	}
	/* Without a timer the next one that is kept looks after them. */
	if (g->first)
		(void)pf_timer_arm(g->timers, &g->timer,
				   (uint64_t)(g->first->keep_until - now));
}

static void close_all(struct entry *entry)
{
	while (entry) {
		struct entry *next = entry->next_grave;

		close_grave(entry);
		entry = next;
	}
}

static void on_timer(struct pf_timer *timer)
{
	struct graves *g = pf_container_of(timer, struct graves, timer);
	struct entry *due = NULL;

	pf_lock(&g->lock);
	take_due_locked(g, &due);
	pf_unlock(&g->lock);
	close_all(due);
}

void graves_init(struct graves *g, struct pf_timers *timers)
{
	if (pthread_mutex_init(&g->lock, NULL))
		abort();
	g->timers = timers;
	g->timer.fire = on_timer;
}

/* Shall ENTRY, of BYTES, be kept?  There must be a timer that ends that. */
static bool is_wanted_locked(struct graves *g, const struct entry *entry, uint64_t bytes,
			     uint64_t most)
{
	if (entry->was_kept || g->stopped || bytes > most ||
	    atomic_load(&g->race_until) < pf_now_ms())
		return false;
	return g->first || pf_timer_arm(g->timers, &g->timer, KEEP_MS) == 0;
}

static void push_locked(struct graves *g, struct entry *entry, uint64_t bytes)
{
	atomic_fetch_add(&entry->refs, 1);
	entry->kept = entry->was_kept = true;
	entry->next_grave = NULL;
	entry->grave_bytes = bytes;
	entry->keep_until = pf_now_ms() + KEEP_MS;
	if (g->last)
		g->last->next_grave = entry;
	else
		g->first = entry;
	g->last = entry;
	g->bytes += bytes;
}

bool graves_keep(struct graves *g, struct entry *entry, uint64_t limit)
{
	uint64_t bytes = pf_buffer_bytes(entry->buffer), most = limit / PART;
	struct entry *over = NULL;
	bool kept;

	pf_lock(&g->lock);
	if (!entry->kept && is_wanted_locked(g, entry, bytes, most)) {
		while (g->first && g->bytes + bytes > most) {
			struct entry *oldest = pop_locked(g);

			oldest->next_grave = over;
			over = oldest;
		}
		push_locked(g, entry, bytes);
	}
	kept = entry->kept;
	pf_unlock(&g->lock);
	close_all(over);
	return kept;
}

void graves_stop(struct graves *g)
{
	struct entry *left;

	pf_lock(&g->lock);
	g->stopped = true;
	left = g->first;
	for (struct entry *e = left; e; e = e->next_grave)
		e->kept = false;
	g->first = g->last = NULL;
	pf_unlock(&g->lock);
	close_all(left);
}

void graves_release(struct graves *g)
{
	pthread_mutex_destroy(&g->lock);
}
