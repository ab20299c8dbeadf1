/* SPDX-License-Identifier: Apache-2.0 */
/* What was written becomes an array, and arrays go to their devices; someone may wait. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "pjrtfs/base/clock.h"
#include "checkpoint.h"

struct commit {
	struct pf_waiter waiter;
	struct pf_buffer *buffer; /* owned reference */
	struct pf_node *node;     /* owned reference, or NULL: there is a value */
	struct pf_value *value;   /* owned reference, once there is one */
	struct pf_reply *reply;   /* owned, or NULL: nobody waits */
	bool partial_ok;
	struct timespec start;
	bool moved; /* a value that came from elsewhere: failing, it stays what it was */
	_Atomic unsigned refs; /* the upload, and who looks for its end */
	_Atomic bool ended;
};

/* A small upload takes less than waking the thread that would hear of its end. */
enum { SETTLE_US = 50 };

static void commit_unref(struct commit *c)
{
	if (atomic_fetch_sub(&c->refs, 1) != 1)
		return;
	pf_value_unref(c->value);
	pf_node_unref(c->node);
	pf_buffer_unref(c->buffer);
	free(c);
}

static void commit_end(struct commit *c, int r, const struct pf_err *err)
{
	if (c->value && !c->moved)
		pf_buffer_committed(c->buffer, c->value, r, err);
	/* Who waits for nothing may hold the name lock, and tells himself. */
	if (c->node && c->reply)
		entry_changed(c->node);
	/* What is no array (yet) is not told of; a file of several, when it is linked. */
	if (r < 0 || (c->value && !c->moved))
		files_tell_committed(c->buffer, r < 0 ? err : NULL,
				     pf_seconds_since(CLOCK_MONOTONIC, &c->start));
	if (c->reply)
		pf_reply_fail(c->reply, r < 0 ? r : 0, err);
	atomic_store(&c->ended, true);
	commit_unref(c);
}

static void commit_wake(struct pf_waiter *waiter)
{
	struct commit *c = pf_container_of(waiter, struct commit, waiter);
	struct pf_err err = PF_ERR_INIT;
	int r = pf_value_placed(c->value, &err);

	commit_end(c, r, &err);
}

static void *commit_run(void *arg)
{
	struct commit *c = arg;
	struct pf_err err = PF_ERR_INIT;
	int r = 0;

	/* commit_wake may run before this returns: c->value must be there by then, so the
	 * value is made first and placed after. */
	if (!c->value)
		r = pf_buffer_commit(c->buffer, c->partial_ok, &c->value, &err);
	if (r == 2)
		r = checkpoint_commit(c->node, !c->reply, &err);
	else if (r == 0) {
		r = pf_value_place(c->value, &c->waiter, &err);
		if (r == 0)
			return NULL;
	}
	commit_end(c, r, &err);
	return NULL;
}

static void commit_refuse(struct commit *c)
{
	struct pf_err err = PF_ERR_INIT;
	int r = pf_err_set(&err, -EAGAIN, "no thread could be started: write it again");

	pf_buffer_refuse(c->buffer, &err);
	commit_end(c, r, &err);
}

static void settle(struct commit *c)
{
	struct pf_life *life = pf_worker_life(c->value->worker, NULL);

	if (life)
		pf_life_settle(life, &c->ended, SETTLE_US);
	pf_life_unref(life);
}

static struct commit *commit_new(struct pf_buffer *buffer, struct pf_reply *reply)
{
	struct commit *c = calloc(1, sizeof(*c));

	if (!c) {
		if (reply)
			pf_reply_code(reply, -ENOMEM);
		return NULL;
	}
	c->waiter.wake = commit_wake;
	clock_gettime(CLOCK_MONOTONIC, &c->start);
	c->buffer = pf_buffer_ref(buffer);
	c->reply = reply;
	atomic_init(&c->refs, 2);
	return c;
}

/* SLOW: on a thread of its own; NEVER_HERE: not on this one if there is none. */
static void commit_begin(struct commit *c, bool slow, bool never_here)
{
	if (!slow || !files_on_thread(commit_run, c)) {
		bool waits = c->reply != NULL;

		if (never_here)
			commit_refuse(c);
		else
			commit_run(c);
		if (waits && c->value && !atomic_load(&c->ended))
			settle(c);
	}
	commit_unref(c);
}

void buffer_commit_start(struct pf_node *node, bool partial_ok, struct pf_reply *reply)
{
	struct pf_buffer *buffer = buffer_of(node);
	struct commit *c = commit_new(buffer, reply);

	if (!c)
		return;
	c->partial_ok = partial_ok;
	c->node = pf_node_ref(node);
	/* Linking tensors takes the name lock, which a rename holds. */
	if (!reply && facet_of(node)->format == PF_FORMAT_SAFETENSORS)
		commit_begin(c, true, true);
	else
		commit_begin(c, pf_buffer_commit_is_slow(buffer), false);
}

void buffer_place_start(struct pf_buffer *buffer, struct pf_value *value, bool moved,
			struct pf_reply *reply)
{
	struct commit *c = commit_new(buffer, reply);

	if (!c)
		return;
	c->value = pf_value_ref(value);
	c->moved = moved;
	/* To another plugin bytes may have to be copied. */
	commit_begin(c, value->source && value->source->worker != value->worker, false);
}
