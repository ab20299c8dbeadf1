/* SPDX-License-Identifier: Apache-2.0 */
/* Commits: the bytes of a closed file become an array, which is sent to its device. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "internal.h"
#include "pjrtfs/base.h"

struct commit {
	struct pf_wait waiter;
	struct pf_buffer *buffer; /* owned reference */
	struct pf_node *node;     /* owned reference, or NULL: there is a value */
	struct pf_value *value;   /* owned reference, once there is one */
	struct pf_reply *reply;   /* owned, or NULL: no process waits */
	bool partial_ok;
	struct timespec start;
	bool moved; /* the value of another device: if the transfer fails, it stays readable */
	_Atomic unsigned refs; /* the transfer's, and commit_begin's */
	_Atomic bool ended;
};

/* A small upload takes less time than waking the thread that takes its reply. */
enum { SPIN_US = 50 };

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
		pf_buffer_transferred(c->buffer, c->value, r, err);
	/* A caller that does not wait may hold the name lock, and invalidates by itself. */
	if (c->node && c->reply)
		inode_changed(c->node);
	/* Incomplete content is not reported; a file of several tensors is when it is linked. */
	if (r < 0 || (c->value && !c->moved))
		files_report_transfer(c->buffer,
				      r < 0 ? "buffer.refused" : "buffer.ready",
				      r < 0 ? err : NULL,
				      pf_seconds_since(CLOCK_MONOTONIC, &c->start));
	if (c->reply)
		pf_reply_fail(c->reply, r < 0 ? r : 0, err);
	atomic_store(&c->ended, true);
	commit_unref(c);
}

static void commit_wake(struct pf_wait *waiter)
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
	 * value is made first and transferred after that. */
	if (!c->value)
		r = pf_buffer_commit(c->buffer, c->partial_ok, &c->value, &err);
	if (r == 2)
		r = checkpoint_commit(c->node, !c->reply, &err);
	else if (r == 0) {
		/* An upload starts no process for a user who has none: it waits for a use. */
		r = pf_value_defer(c->value) ||
		    pf_value_transfer(c->value, &c->waiter, &err);
		if (r == 0)
			return NULL;
	}
	commit_end(c, r, &err);
	return NULL;
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

/* Run C; SLOW: on a thread of its own; NEVER_HERE: refuse it if no thread can be created. */
static void commit_begin(struct commit *c, bool slow, bool never_here)
{
	bool waits = c->reply != NULL;
	struct pf_instance *instance = NULL;
	struct pf_err err = PF_ERR_INIT;

	if (slow && pf_thread_start(NULL, commit_run, c) == 0) {
		commit_unref(c);
		return;
	}
	if (never_here) {
		pf_err_set(&err, -EAGAIN, "no thread could be started: write it again");
		pf_buffer_refuse(c->buffer, &err);
		commit_end(c, -EAGAIN, &err);
	} else {
		commit_run(c);
	}
	if (waits && c->value && !atomic_load(&c->ended))
		instance = pf_worker_instance(pf_value_place(c->value).worker, NULL);
	if (instance)
		pf_instance_spin(instance, &c->ended, SPIN_US);
	pf_instance_unref(instance);
	commit_unref(c);
}

int buffer_commit_start(struct pf_node *node, bool partial_ok, struct pf_reply *reply)
{
	struct pf_buffer *buffer = buffer_of(node);
	struct commit *c = commit_new(buffer, reply);
	struct pf_err err = PF_ERR_INIT;

	if (!c) {
		pf_err_set(&err, -ENOMEM, "no memory to upload it: write it again");
		if (!reply) /* it would look as if it were on its way */
			pf_buffer_refuse(buffer, &err);
		return err.code;
	}
	c->partial_ok = partial_ok;
	c->node = pf_node_ref(node);
	/* Linking tensors takes the name lock, which a rename holds. */
	if (!reply && view_of(node)->format == PF_FORMAT_SAFETENSORS)
		commit_begin(c, true, true);
	else
		commit_begin(c, pf_buffer_commit_is_slow(buffer), false);
	return 0;
}

void buffer_transfer_start(struct pf_buffer *buffer, struct pf_value *value, bool moved,
			   struct pf_reply *reply)
{
	struct commit *c = commit_new(buffer, reply);

	if (!c)
		return;
	c->value = pf_value_ref(value);
	c->moved = moved;
	commit_begin(c, pf_value_transfer_is_slow(value), false);
}
