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

#include "buffer_entry.h"

enum {
	RACE_MS = 2000, /* after who came too late others may */
	KEEP_MS = 200,  /* between a lookup and its open */
	PART = 8,       /* so much of the memory limit */
};

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void graves_init(struct graves *g)
{
	pthread_condattr_t attr;

	if (pthread_condattr_init(&attr) ||
	    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) ||
	    pthread_mutex_init(&g->lock, NULL) || pthread_cond_init(&g->wake, &attr))
		abort();
	pthread_condattr_destroy(&attr);
}

void graves_alarm(struct graves *g)
{
	atomic_store(&g->race_until, now_ms() + RACE_MS);
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

static void *watch(void *arg)
{
	struct graves *g = arg;

	pf_lock(&g->lock);
	while (!g->stopping) {
		int64_t until = g->first ? g->first->keep_until : 0;

		if (!g->first) {
			pthread_cond_wait(&g->wake, &g->lock);
		} else if (until > now_ms()) {
			struct timespec t = { .tv_sec = until / 1000,
					      .tv_nsec = until % 1000 * 1000000 };

			pthread_cond_timedwait(&g->wake, &g->lock, &t);
		} else {
			struct entry *entry = pop_locked(g);

			pf_unlock(&g->lock);
			close_grave(entry);
			pf_lock(&g->lock);
		}
	}
	pf_unlock(&g->lock);
	return NULL;
}

/* Shall ENTRY, of BYTES, be kept?  There must be a thread that closes its grave. */
static bool is_wanted_locked(struct graves *g, const struct entry *entry, uint64_t bytes,
			     uint64_t most)
{
	if (entry->was_kept || g->stopping || bytes > most ||
	    atomic_load(&g->race_until) < now_ms())
		return false;
	if (!g->started)
		g->started = pthread_create(&g->thread, NULL, watch, g) == 0;
	return g->started;
}

static void push_locked(struct graves *g, struct entry *entry, uint64_t bytes)
{
	atomic_fetch_add(&entry->refs, 1);
	entry->kept = entry->was_kept = true;
	entry->next_grave = NULL;
	entry->grave_bytes = bytes;
	entry->keep_until = now_ms() + KEEP_MS;
	if (g->last)
		g->last->next_grave = entry;
	else
		g->first = entry;
	g->last = entry;
	g->bytes += bytes;
	pthread_cond_signal(&g->wake);
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
	while (over) {
		struct entry *next = over->next_grave;

		close_grave(over);
		over = next;
	}
	return kept;
}

void graves_stop(struct graves *g)
{
	pf_lock(&g->lock);
	g->stopping = true;
	pthread_cond_signal(&g->wake);
	pf_unlock(&g->lock);
	if (g->started)
		pthread_join(g->thread, NULL);
	while (g->first)
		close_grave(pop_locked(g));
}

void graves_release(struct graves *g)
{
	pthread_cond_destroy(&g->wake);
	pthread_mutex_destroy(&g->lock);
}
