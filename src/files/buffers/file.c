/* SPDX-License-Identifier: Apache-2.0 */
/* A file in buffers/: one format of one buffer. */
#include <errno.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"

/* --- opening and reading --------------------------------------------------------------------- */

static int buffer_open(struct pf_open *of, struct pf_err *err)
{
	struct entry *entry = facet_of(of->node)->entry;
	int r = 0;

	/* Between the lookup and now it was unlinked, or replaced, and what nobody has open
	 * is freed then: the kernel shall look the name up again. */
	atomic_fetch_add(&entry->opens, 1);
	if (atomic_load(&entry->dead)) {
		graves_alarm(&fs_of(of->node)->graves);
		r = pf_err_set(err, -ESTALE, "it was removed just now");
	}
	if (r == 0 && pf_open_reads(of))
		r = checkpoint_may_read(of->node, &of->cred, err);
	if (r == 0)
		of->state = calloc(1, sizeof(struct buffer_open));
	if (r == 0 && !of->state)
		r = -ENOMEM;
	if (r == 0 && pf_open_writes(of))
		r = writer_enter(of, err);
	if (r < 0) {
		free(pf_steal(&of->state));
		entry_leave(of->node);
	}
	return r;
}

static void buffer_release(struct pf_open *of)
{
	struct buffer_open *o = of->state;

	if (o->viewed)
		pf_view_release(&o->view);
	if (o->copying)
		pf_view_release(&o->copied);
	writer_leave(of);
	free(o);
	entry_leave(of->node);
}

void buffer_stem(struct pf_node *node, char name[PF_NAME_MAX + 1])
{
	struct entry *entry = facet_of(node)->entry;
	size_t len;

	struct pf_node *named;

	name[0] = '\0';
	pf_tree_lock_names(node->tree);
	named = entry->directory ? entry->directory : entry->listed;
	if (named)
		pf_node_name(named, name);
	pf_tree_unlock_names(node->tree);
	pf_format_of(name, &len);
	name[len] = '\0';
}

static void describe(struct pf_node *node, struct pf_buf *out)
{
	char name[PF_NAME_MAX + 1];

	buffer_stem(node, name);
	pf_buffer_describe(buffer_of(node), name, out);
}

/* Opening to read: the snapshot may have to be fetched or rendered first. */
struct view_wait {
	struct pf_waiter waiter;
	struct pf_open *of;
	struct pf_reply *reply;
	struct pf_value *value;     /* whose bytes are needed: pinned, with a reference */
	char name[PF_NAME_MAX + 1]; /* what a file of one tensor calls it */
};

static int take_view(struct pf_open *of, const char *name, struct pf_err *err)
{
	struct buffer_open *o = of->state;
	int r = 1;

	if (facet_of(of->node)->format == PF_FORMAT_JSON) {
		describe(of->node, &o->view.head);
		o->view.size = o->view.head.len;
	} else {
		r = pf_view_open(buffer_of(of->node), facet_of(of->node)->format, name,
				 NULL, &o->view, err);
	}
	o->viewed = r > 0;
	return r;
}

/* Does a writer need what is there as bytes in its format first? */
static bool must_take_over(struct pf_open *of)
{
	return pf_open_writes(of) && !(of->flags & O_TRUNC) &&
	       (!writer_is_listed(of->node) ||
		pf_buffer_lacks_bytes(buffer_of(of->node)));
}

/* The bytes are in host memory: what was seen of them can be written. */
static int view_to_write(struct pf_open *of, struct pf_err *err)
{
	struct buffer_open *o = of->state;

	pf_view_release(&o->view);
	o->viewed = false;
	return writer_take_over(of, err);
}

static void view_answer(struct view_wait *w, int code, const struct pf_err *err)
{
	if (w->value)
		pf_value_unpin(w->value);
	pf_value_unref(w->value);
	pf_reply_fail(w->reply, code, err);
	free(w);
}

static void *view_finish(void *arg)
{
	struct view_wait *w = arg;
	struct pf_err err = PF_ERR_INIT;
	int r = take_view(w->of, w->name, &err);

	if (r > 0 && pf_open_writes(w->of))
		r = view_to_write(w->of, &err);
	view_answer(w, r < 0 ? r : 0, &err);
	return NULL;
}

/*
 * Long text is rendered as it is read, unless OF's opener goes by the size, which only the whole
 * text tells, as programs do that copy files.
 */
static bool begin_text(struct pf_open *of)
{
	enum pf_format format = facet_of(of->node)->format;
	struct buffer_open *o = of->state;

	if (pf_open_writes(of) || of->goes_by_size)
		return false;
	o->viewed = pf_view_begin(buffer_of(of->node), format, &o->view) > 0;
	if (o->viewed)
		atomic_store(&of->unsized, true);
	return o->viewed;
}

/* The bytes are there, or will not come. */
static void view_wake(struct pf_waiter *waiter)
{
	struct view_wait *w = pf_container_of(waiter, struct view_wait, waiter);

	if (begin_text(w->of)) {
		view_answer(w, 0, NULL);
		return;
	}
	if (!pf_view_is_slow(buffer_of(w->of->node), facet_of(w->of->node)->format) ||
	    !files_on_thread(view_finish, w))
		view_finish(w);
}

static void buffer_prepare(struct pf_open *of, struct pf_reply *reply)
{
	enum pf_format format = facet_of(of->node)->format;
	struct view_wait *w;

	if (writer_waits(of, buffer_prepare, reply))
		return;
	/* Who writes sees the bytes as they are, but they must be there. */
	if (pf_open_writes(of) ? !must_take_over(of) : (of->flags & O_TRUNC) != 0) {
		pf_reply_code(reply, 0);
		return;
	}
	w = calloc(1, sizeof(*w));
	if (!w) {
		pf_reply_code(reply, -ENOMEM);
		return;
	}
	w->of = of;
	w->reply = reply;
	w->waiter.wake = view_wake;
	if (format == PF_FORMAT_SAFETENSORS)
		buffer_stem(of->node, w->name);
	if (format != PF_FORMAT_JSON)
		w->value = pf_view_pin(buffer_of(of->node), format);
	if (!w->value || pf_value_fetch(w->value, &w->waiter, NULL) != 0)
		view_wake(&w->waiter);
}

static void read_data(void *arg, const void *data, size_t len)
{
	pf_reply_data(arg, data, len);
}

/* A read of text that is not rendered so far. */
struct text_read {
	struct pf_more more;
	struct pf_view *view; /* stays until reply is answered */
	struct pf_reply *reply;
	size_t len;
	uint64_t off;
};

static void text_come(struct pf_waiter *waiter)
{
	struct text_read *r = pf_container_of(waiter, struct text_read, more.waiter);

	if (pf_view_await(r->view, r->len, r->off, NULL) < 0)
		pf_reply_code(r->reply, -ENOMEM);
	else
		pf_view_read(r->view, r->len, r->off, read_data, r->reply);
	free(r);
}

static void read_view(struct pf_view *view, size_t len, uint64_t off,
		      struct pf_reply *reply)
{
	struct text_read *r;
	int code = pf_view_await(view, len, off, NULL);

	if (code == 0) {
		r = malloc(sizeof(*r));
		code = r ? 0 : -ENOMEM;
		if (r) {
			*r = (struct text_read){ .more.waiter.wake = text_come,
						 .view = view,
						 .reply = reply,
						 .len = len,
						 .off = off };
			code = pf_view_await(view, len, off, &r->more);
			if (code == 0)
				return;
			free(r);
		}
	}
	if (code < 0)
		pf_reply_code(reply, code);
	else
		pf_view_read(view, len, off, read_data, reply);
}

static void buffer_read(struct pf_open *of, size_t len, uint64_t off,
			struct pf_reply *reply)
{
	struct buffer_open *o = of->state;
	struct pf_view live = { .live = buffer_of(of->node) };

	buffer_copy_bytes(of, NULL);
	/* A descriptor that also writes reads what it wrote. */
	if (pf_open_writes(of) || !o->viewed)
		pf_view_read(&live, len, off, read_data, reply);
	else
		read_view(&o->view, len, off, reply);
}

/* --- writing ------------------------------------------------------------------------------------ */

/* NODE's bytes are about to change. */
static int about_to_change(struct pf_node *node, struct pf_err *err)
{
	int r;

	atomic_store(&facet_of(node)->entry->part_of, 0);
	if (!atomic_load(&facet_of(node)->entry->directory))
		return 0;
	pf_tree_lock_names(node->tree);
	r = checkpoint_dissolve(node, err);
	pf_tree_unlock_names(node->tree);
	return r;
}

static ssize_t buffer_write(struct pf_open *of, const void *src, size_t len, uint64_t off,
			    struct pf_err *err)
{
	int r = buffer_copy_bytes(of, err);

	if (r == 0)
		r = about_to_change(of->node, err);
	if (r < 0)
		return r;
	/* With the first write the array that other views show is gone. */
	if (!of->dirty)
		entry_changed(of->node);
	return pf_buffer_write(buffer_of(of->node), src, len, off, err);
}

/*
 * May what is incomplete be left so without a word?  At fsync(2); and when a header alone was
 * written by who can map the file: numpy.lib.format.open_memmap closes it between the header
 * and the data.
 */
static bool may_be_partial(struct pf_open *of, enum pf_commit why)
{
	return why == PF_COMMIT_FSYNC ||
	       (pf_open_reads(of) && pf_buffer_is_header(buffer_of(of->node)));
}

static void buffer_commit(struct pf_open *of, enum pf_commit why, struct pf_reply *reply)
{
	PF_CLEANUP(pf_value_unrefp) struct pf_value *value = buffer_copy_end(of, why);

	if (value) {
		entry_changed(of->node);
		buffer_place_start(buffer_of(of->node), value, false, reply);
	} else {
		buffer_commit_start(of->node, may_be_partial(of, why), reply);
	}
}

static int buffer_allocate(struct pf_open *of, int mode, uint64_t off, uint64_t len,
			   struct pf_err *err)
{
	struct pf_buffer *b = buffer_of(of->node);
	int r = buffer_copy_bytes(of, err);
	uint64_t size;

	if (r == 0)
		r = about_to_change(of->node, err);
	if (r < 0)
		return r;
	if (mode == (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE))
		return pf_buffer_punch(b, off, len, err);
	if (mode & ~FALLOC_FL_KEEP_SIZE)
		return pf_err_set(err, -EOPNOTSUPP, "this way of allocating");
	pf_lock(&b->lock);
	size = b->size;
	pf_unlock(&b->lock);
	/* Room that was promised beyond the end cannot be kept apart: nothing to do. */
	if (mode || off + len <= size)
		return 0;
	return pf_buffer_truncate(b, off + len, err);
}

static int buffer_truncate(struct pf_node *node, struct pf_open *of, uint64_t size,
			   struct pf_err *err)
{
	int r;

	if (of && of->state && ((struct buffer_open *)of->state)->waits)
		return 0; /* once it may write */
	if (!writer_is_listed(node))
		return pf_err_set(err, -EINVAL,
				  "a view has the size that its array gives it");
	if (of && of->state)
		buffer_copy_drop(of, size, err);
	r = about_to_change(node, err);
	if (r < 0)
		return r;
	if (size && pf_buffer_lacks_bytes(buffer_of(node)))
		r = pf_buffer_adopt(buffer_of(node), facet_of(node)->format, "", true,
				    err);
	if (r == 0)
		r = pf_buffer_truncate(buffer_of(node), size, err);
	/* Nobody will close a file that truncate(2) did not open. */
	if (r == 0 && !of && size)
		buffer_commit_start(node, true, NULL);
	if (r == 0)
		entry_changed(node);
	return r;
}

/* --- stat ---------------------------------------------------------------------------------------- */

static void buffer_getattr(struct pf_node *node, struct stat *st)
{
	enum pf_format format = facet_of(node)->format;
	char name[PF_NAME_MAX + 1] = "";

	if (format == PF_FORMAT_JSON) {
		pf_autobuf struct pf_buf text = PF_BUF_INIT;

		describe(node, &text);
		st->st_size = (off_t)text.len;
	} else {
		if (format == PF_FORMAT_SAFETENSORS)
			buffer_stem(node, name);
		st->st_size = (off_t)pf_view_size(buffer_of(node), format, name);
	}
	st->st_blocks = (st->st_size + 511) / 512;
}

static uint64_t buffer_size_bound(struct pf_node *node)
{
	return pf_view_bound(buffer_of(node), facet_of(node)->format);
}

static void buffer_setattr(struct pf_node *node)
{
	checkpoint_follow_file(node);
}

const struct pf_kind kind_buffer = {
	.mode = S_IFREG | 0644,
	.prepare = buffer_prepare,
	.open = buffer_open,
	.release = buffer_release,
	.read = buffer_read,
	.write = buffer_write,
	.commit = buffer_commit,
	.copy = buffer_copy,
	.allocate = buffer_allocate,
	.truncate = buffer_truncate,
	.get_xattr = buffer_get_xattr,
	.list_xattr = buffer_list_xattr,
	.set_xattr = buffer_set_xattr,
	.remove_xattr = buffer_remove_xattr,
	.getattr = buffer_getattr,
	.size_bound = buffer_size_bound,
	.setattr = buffer_setattr,
	.free = buffer_node_free,
};
