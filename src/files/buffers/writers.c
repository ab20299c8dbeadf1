/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may write a buffer: all at once write the same view, since what another's writes would
 * mean in this one's format nobody can say.
 *
 * The kernel tells of a close(2) twice: the writer's FLUSH before that returns, the RELEASE
 * some time after.  So who opens another view finds the writer of before there still, and
 * waits a little for that to go.
 */
#include <errno.h>
#include <stdlib.h>

#include "entry.h"

enum {
	WRITERS_BITS = 16,
	WAIT_MS = 500, /* for a RELEASE under way */
};

bool writer_is_listed(struct pf_node *node)
{
	struct pf_buffer *b = buffer_of(node);

	PF_LOCK_SCOPE(&b->lock);
	return b->format == facet_of(node)->format || b->format == PF_FORMAT_NONE;
}

static int count_in(struct pf_node *node, struct pf_err *err)
{
	struct entry *entry = facet_of(node)->entry;
	uint64_t count, all = ((uint64_t)1 << WRITERS_BITS) - 1;
	uint64_t now = atomic_load(&entry->writers);

	do {
		count = now & all;
		if (count && now >> WRITERS_BITS != node->ino)
			return pf_err_set(err, -EBUSY,
					  "another view of it is open for writing");
		if (count == all)
			return pf_err_set(err, -ENFILE, "it is open too often");
	} while (!atomic_compare_exchange_weak(&entry->writers, &now,
					       node->ino << WRITERS_BITS | (count + 1)));
	pf_buffer_new_writer(buffer_of(node));
	return 0;
}

static void count_out(struct pf_node *node)
{
	atomic_fetch_sub(&facet_of(node)->entry->writers, 1);
}

int writer_take_over(struct pf_open *of, struct pf_err *err)
{
	enum pf_format format = facet_of(of->node)->format;
	char name[PF_NAME_MAX + 1] = "";
	int r;

	if (format == PF_FORMAT_SAFETENSORS)
		buffer_stem(of->node, name);
	r = pf_buffer_adopt(buffer_of(of->node), format, name, !(of->flags & O_TRUNC),
			    err);
	if (r < 0)
		return r;
	pf_tree_lock_names(of->node->tree);
	r = entry_list(of->node);
	pf_tree_unlock_names(of->node->tree);
	return r;
}

int writer_enter(struct pf_open *of, struct pf_err *err)
{
	struct buffer_open *o = of->state;
	int r;

	o->waits = true;
	if (facet_of(of->node)->format == PF_FORMAT_JSON)
		return pf_err_set(err, -EACCES,
				  "what is known of a buffer cannot be written");
	r = count_in(of->node, err);
	if (r < 0)
		return r == -EBUSY ? 0 : r;
	/* With O_TRUNC there is nothing to be kept; else see buffer_prepare. */
	if ((of->flags & O_TRUNC) && !writer_is_listed(of->node))
		r = writer_take_over(of, err);
	if (r < 0)
		count_out(of->node);
	else
		o->waits = false;
	return r;
}

void writer_leave(struct pf_open *of)
{
	struct buffer_open *o = of->state;

	if (pf_open_writes(of) && !o->waits)
		count_out(of->node);
}

/* --- waiting for another to go ---------------------------------------------------------- */

struct wait {
	struct pf_timer timer;
	struct pf_open *of; /* stays until reply is answered */
	void (*then)(struct pf_open *of, struct pf_reply *reply);
	struct pf_reply *reply;
	uint64_t next_ms, waited_ms;
};

static void try_again(struct pf_timer *timer)
{
	struct wait *w = pf_container_of(timer, struct wait, timer);
	struct buffer_open *o = w->of->state;
	struct pf_timers *timers = fs_of(w->of->node)->timers;
	struct pf_err err = PF_ERR_INIT;
	int r = writer_enter(w->of, &err);

	if (r == 0 && o->waits) {
		w->waited_ms += w->next_ms;
		w->next_ms *= 2;
		if (w->waited_ms < WAIT_MS &&
		    pf_timer_arm(timers, &w->timer, w->next_ms) == 0)
			return;
		r = pf_err_set(&err, -EBUSY,
			       "another process has it open to write by another name");
	}
	if (r == 0 && (w->of->flags & O_TRUNC))
		r = w->of->node->kind->truncate(w->of->node, w->of, 0, &err);
	if (r == 0)
		w->then(w->of, w->reply);
	else
		pf_reply_fail(w->reply, r, &err);
	free(w);
}

bool writer_waits(struct pf_open *of,
		  void (*then)(struct pf_open *of, struct pf_reply *reply),
		  struct pf_reply *reply)
{
	const struct buffer_open *o = of->state;
	struct wait *w;

	if (!o->waits)
		return false;
	w = calloc(1, sizeof(*w));
	if (w)
		*w = (struct wait){ .timer.fire = try_again,
				    .of = of,
				    .then = then,
				    .reply = reply,
				    .next_ms = 1 };
	if (!w || pf_timer_arm(fs_of(of->node)->timers, &w->timer, w->next_ms) < 0) {
		free(w);
		pf_reply_code(reply, -EBUSY);
	}
	return true;
}
