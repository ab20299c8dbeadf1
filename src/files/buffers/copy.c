/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_file_range(2): cp(1) and cat(1) within the mount.
 *
 * Calls that copy a snapshot of an array from its start on, in the same format, are only
 * remembered; if they reach its end before the copy is closed, it shares the array (or gets a
 * copy of it on its own device), and no byte was moved.  Anything else has the bytes copied.
 */
#include <errno.h>

#include "entry.h"

enum { AT_ONCE = 16 << 20 }; /* bytes copied in one call: others wait meanwhile */

struct copying {
	struct pf_buffer *to;
	uint64_t off;
	ssize_t done;
	struct pf_err *err;
};

static void copy_piece(void *arg, const void *data, size_t len)
{
	struct copying *c = arg;

	c->done = len ? pf_buffer_write(c->to, data, len, c->off, c->err) : 0;
}

static ssize_t copy_some(struct pf_buffer *to, uint64_t off, struct pf_view *from,
			 uint64_t from_off, size_t len, struct pf_err *err)
{
	struct copying c = { .to = to, .off = off, .err = err };

	pf_view_read(from, len, from_off, copy_piece, &c);
	return c.done;
}

int buffer_copy_bytes(struct pf_open *of, struct pf_err *err)
{
	struct buffer_open *o = of->state;
	uint64_t done = 0;
	ssize_t n = 1;

	if (!o->copying)
		return 0;
	while (n > 0 && done < o->copied_len) {
		n = copy_some(buffer_of(of->node), done, &o->copied, done,
			      o->copied_len - done, err);
		done += n > 0 ? (uint64_t)n : 0;
	}
	pf_view_release(&o->copied);
	o->copying = false;
	return n < 0 ? (int)n : 0;
}

void buffer_copy_drop(struct pf_open *of, uint64_t size, struct pf_err *err)
{
	struct buffer_open *o = of->state;

	if (size)
		buffer_copy_bytes(of, err);
	else if (o->copying)
		pf_view_release(&o->copied);
	o->copying = false;
}

/* May the copy from VIEW be remembered: is it all of it so far, and all there is?  A header
 * that was made for the view holds the source's name. */
static bool can_remember(struct pf_open *of, uint64_t off, struct pf_open *from,
			 uint64_t from_off)
{
	struct buffer_open *to = of->state, *o = from->state;
	struct pf_buffer *b = buffer_of(of->node);
	enum pf_format format = facet_of(of->node)->format;

	if (off != from_off || !o->viewed || pf_open_writes(from) ||
	    (!o->view.array && !o->view.content) || format == PF_FORMAT_NONE ||
	    format != facet_of(from->node)->format)
		return false;
	if (format == PF_FORMAT_SAFETENSORS && !o->view.content)
		return false;
	if (to->copying)
		return off == to->copied_len && to->copied.array == o->view.array &&
		       to->copied.content == o->view.content;
	if (off)
		return false;
	PF_LOCK_SCOPE(&b->lock);
	return b->format == format && !b->size && !b->content;
}

ssize_t buffer_copy(struct pf_open *of, uint64_t off, struct pf_open *from,
		    uint64_t from_off, size_t len, struct pf_err *err)
{
	struct buffer_open *to = of->state, *o;
	struct pf_view live = { 0 }, *view;
	uint64_t left;
	int r;

	if (from->node->kind != &kind_buffer)
		return pf_err_set(err, -EXDEV, "only buffers are copied so");
	o = from->state;
	/* Nobody may wait here for text that is not rendered yet. */
	if (o->viewed && !pf_view_is_sized(&o->view))
		return pf_err_set(err, -EXDEV, "the text of a large array is read");
	if (can_remember(of, off, from, from_off)) {
		left = o->view.size - off;
		if (!to->copying && pf_view_dup(&o->view, &to->copied) < 0)
			return -ENOMEM;
		if (!to->copying)
			to->copied_len = 0;
		to->copying = true;
		to->copied_len += len < left ? len : left;
		return (ssize_t)(len < left ? len : left);
	}
	r = buffer_copy_bytes(of, err);
	if (r < 0)
		return r;
	live.live = buffer_of(from->node);
	view = o->viewed && !pf_open_writes(from) ? &o->view : &live;
	return copy_some(buffer_of(of->node), off, view, from_off,
			 len < AT_ONCE ? len : AT_ONCE, err);
}

struct pf_value *buffer_copy_end(struct pf_open *of, enum pf_commit why)
{
	struct buffer_open *o = of->state;
	struct pf_value *value = NULL;

	if (!o->copying || (o->copied_len < o->copied.size && why == PF_COMMIT_FSYNC))
		return NULL;
	if (o->copied_len == o->copied.size &&
	    (pf_buffer_take(buffer_of(of->node), &o->copied, facet_of(of->node)->format,
			    &value) ||
	     pf_buffer_take_content(buffer_of(of->node), &o->copied))) {
		pf_view_release(&o->copied);
		o->copying = false;
		return value;
	}
	buffer_copy_bytes(of, NULL);
	return NULL;
}
