/* SPDX-License-Identifier: Apache-2.0 */
/* When the data of a buffer is freed. */
#include <stdlib.h>

#include "internal.h"
#include "pjrtfs/base.h"

static void inode_free(struct buffer_inode *inode)
{
	pf_buffer_unref(inode->buffer);
	free(atomic_load(&inode->copied_shape));
	free(inode->views);
	free(inode);
}

PF_DEFINE_REF(struct buffer_inode, inode, inode_free)

/* Either this function sees the open file, or buffer_open sees that the inode is dead. */
static void inode_free_data(struct pf_fs *fs, struct buffer_inode *inode)
{
	atomic_store(&inode->dead, true);
	if (atomic_load(&inode->opens))
		return;
	pf_tree_write(fs->tree);
	pf_buffer_discard(inode->buffer);
}

/*
 * Buffers that lost their names while a process was about to open them.
 *
 * open(2) looks up a name first, and opens the inode that it found a moment later.  If the name
 * was given to another buffer meanwhile, and the memory of the first one is free, the answer is
 * ESTALE, on which the kernel looks the name up again: but only once.  So after such an answer
 * buffers that lose their names are freed a little later, for two seconds: the buffer that the
 * second lookup finds is still there.  They take a small part of the memory limit at most, and
 * nothing is deferred while no process races.
 */

enum {
	RACE_MS = 2000, /* after one late open more are likely */
	KEEP_MS = 200,  /* between a lookup and its open */
	PART = 8,       /* of the memory limit: an eighth */
};

struct deferred_free {
	STAILQ_ENTRY(deferred_free) next;
	struct buffer_inode *inode; /* owned reference */
	uint64_t bytes;
	unsigned turn;   /* it ends when the inode is freed, */
	int64_t free_at; /* at this time of CLOCK_MONOTONIC, in ms */
};

void deferred_free_alarm(struct pf_fs *fs)
{
	atomic_store(&fs->deferred_frees.race_until, pf_now_ms() + RACE_MS);
}

/* Free the first inodes: those whose time has come by NOW, and until the rest takes ROOM bytes. */
static void free_first_locked(struct pf_fs *fs, int64_t now, uint64_t room)
{
	struct deferred_frees *d = &fs->deferred_frees;
	struct deferred_free *f;

	while ((f = STAILQ_FIRST(&d->inodes)) && (f->free_at <= now || d->bytes > room)) {
		STAILQ_REMOVE_HEAD(&d->inodes, next);
		d->bytes -= f->bytes;
		inode_free_data(fs, f->inode);
		pf_turn_end(f->turn);
		inode_unref(f->inode);
		free(f);
	}
}

static void on_timer(struct pf_timer *timer);

/* False: the timer thread could not be created, which only the first timer tries. */
static bool arm(struct pf_fs *fs, uint64_t ms)
{
	fs->deferred_frees.timer.fire = on_timer;
	return pf_timer_arm(fs->timers, &fs->deferred_frees.timer, ms) == 0;
}

static void on_timer(struct pf_timer *timer)
{
	struct pf_fs *fs = pf_container_of(timer, struct pf_fs, deferred_frees.timer);
	struct deferred_frees *d = &fs->deferred_frees;
	int64_t now = pf_now_ms();
	const struct deferred_free *first;

	PF_NAMES_SCOPE(fs->tree);
	free_first_locked(fs, now, UINT64_MAX);
	first = STAILQ_FIRST(&d->inodes);
	if (first)
		(void)arm(fs, (uint64_t)(first->free_at - now));
}

void inode_free_or_defer_locked(struct pf_fs *fs, struct buffer_inode *inode)
{
	struct deferred_frees *d = &fs->deferred_frees;
	uint64_t bytes = pf_buffer_bytes(inode->buffer), used, limit;
	pf_autofree struct deferred_free *f = NULL;
	int64_t now = pf_now_ms();

	if (inode->deferred && !atomic_load(&inode->dead))
		return; /* it is among them */
	pf_arena_usage(fs->config.arena, &used, &limit);
	if (inode->deferred || bytes > limit / PART ||
	    atomic_load(&d->race_until) < now || !(f = malloc(sizeof(*f))) ||
	    (STAILQ_EMPTY(&d->inodes) && !arm(fs, KEEP_MS))) {
		inode_free_data(fs, inode);
		return;
	}
	free_first_locked(fs, now, limit / PART - bytes);
	inode->deferred = true;
	*f = (struct deferred_free){ .inode = inode_ref(inode),
				     .bytes = bytes,
				     .turn = pf_turn_begin(),
				     .free_at = now + KEEP_MS };
	d->bytes += bytes;
	STAILQ_INSERT_TAIL(&d->inodes, f, next);
	f = NULL;
}

void files_end_deferred_frees(struct pf_fs *fs)
{
	if (!fs->tree)
		return;
	atomic_store(&fs->deferred_frees.race_until, 0);
	PF_NAMES_SCOPE(fs->tree);
	free_first_locked(fs, INT64_MAX, 0);
}
