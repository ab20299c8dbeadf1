/* SPDX-License-Identifier: Apache-2.0 */
/* A file in buffers/: one format of one buffer. */
#include <errno.h>
#include <linux/falloc.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "internal.h"
#include "pjrtfs/snapshot.h"

/* An open file. */
struct buffer_open {
	struct pf_snapshot snapshot; /* of a reader, if VIEWED */
	bool viewed;
	bool waits; /* until another view's writer has closed */
	/* The first COPIED_LEN bytes of a snapshot were copied here, but not moved yet. */
	struct pf_snapshot copied;
	uint64_t copied_len;
};

/* --- writers ------------------------------------------------------------------------ */

/*
 * All writers of a buffer write the same view (pf_buffer_open_writer).
 *
 * For close(2) the kernel sends a FLUSH before the call returns, and the RELEASE some
 * time after.  So an open of another view may still find the previous writer, and waits
 * up to WAIT_MS for its RELEASE.
 */

enum { WAIT_MS = 500 };

/* Is NODE the view that its buffer is written in? */
static bool writer_is_listed(struct pf_node *node)
{
	enum pf_format format = pf_buffer_format(buffer_of(node));

	return format == view_of(node)->format || format == PF_FORMAT_NONE;
}

/* The view that OF writes becomes the one that the buffer is written in. */
static int writer_take_over(struct pf_open *of, struct pf_err *err)
{
	enum pf_format format = view_of(of->node)->format;
	char name[PF_NAME_MAX + 1] = "";
	int r;

	if (format == PF_FORMAT_SAFETENSORS)
		inode_stem(of->node, name);
	r = pf_buffer_adopt(buffer_of(of->node), format, name, !(of->flags & O_TRUNC),
			    err);
	if (r < 0)
		return r;
	PF_NAMES_SCOPE(of->node->tree);
	return inode_list(of->node);
}

/*
 * OF is opened to write.  0; or, with its "waits" set, another view is open for writing, and
 * buffer_prepare waits for that.  -EACCES; -errno of pf_buffer_adopt.
 */
static int writer_enter(struct pf_open *of, struct pf_err *err)
{
	struct buffer_open *o = of->state;
	int r = 0;

	if (view_of(of->node)->format == PF_FORMAT_JSON)
		return pf_err_set(err, -EACCES,
				  "what is known of a buffer cannot be written");
	o->waits = !pf_buffer_open_writer(buffer_of(of->node), of->node);
	/* With O_TRUNC no bytes are to be kept; without it buffer_prepare fetches them. */
	if (!o->waits && (of->flags & O_TRUNC) && !writer_is_listed(of->node))
		r = writer_take_over(of, err);
	if (r < 0) {
		pf_buffer_close_writer(buffer_of(of->node));
		o->waits = true;
	}
	return r;
}

/* --- copy_file_range(2): cp(1) and cat(1) within the mount -------------------------- */

/*
 * Calls that copy a snapshot of an array from its start on, in the same format, are only
 * noted; if they reach its end before the copy is closed, the copy shares the array (or gets a
 * copy of it on its own device), and no byte is moved.  Any other call copies the bytes.
 */

enum {
	AT_ONCE = 16 << 20
}; /* bytes copied in one call, as both files are locked meanwhile */

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

static ssize_t copy_some(struct pf_buffer *to, uint64_t off, struct pf_snapshot *from,
			 uint64_t from_off, size_t len, struct pf_err *err)
{
	struct copying c = { .to = to, .off = off, .err = err };

	pf_snapshot_read(from, len, from_off, copy_piece, &c);
	return c.done;
}

/* Before any other operation on OF: copy the bytes that were only noted, or, without KEEP, forget
 * them. */
static int copy_noted(struct pf_open *of, bool keep, struct pf_err *err)
{
	struct buffer_open *o = of->state;
	uint64_t done = 0;
	ssize_t n = keep;

	if (!o->copied_len)
		return 0;
	while (n > 0 && done < o->copied_len) {
		n = copy_some(buffer_of(of->node), done, &o->copied, done,
			      o->copied_len - done, err);
		done += n > 0 ? (uint64_t)n : 0;
	}
	pf_snapshot_release(&o->copied);
	o->copied_len = 0;
	pf_open_idle(of, true);
	return n < 0 ? (int)n : 0;
}

/* May a copy from FROM only be noted: does it continue the copy of one snapshot from its start?
 * Not for a .safetensors header that was made for FROM: it has the name of FROM in it. */
static bool can_note(struct pf_open *of, uint64_t off, struct pf_open *from,
		     uint64_t from_off)
{
	struct buffer_open *to = of->state, *o = from->state;
	enum pf_format format = view_of(of->node)->format;

	if (off != from_off || off != to->copied_len || !o->viewed ||
	    pf_open_writes(from) || (!o->snapshot.array && !o->snapshot.content) ||
	    format == PF_FORMAT_NONE || format != view_of(from->node)->format)
		return false;
	if (format == PF_FORMAT_SAFETENSORS && !o->snapshot.content)
		return false;
	if (off)
		return to->copied.array == o->snapshot.array &&
		       to->copied.content == o->snapshot.content;
	return pf_buffer_is_blank(buffer_of(of->node), format);
}

static ssize_t buffer_copy(struct pf_open *of, uint64_t off, struct pf_open *from,
			   uint64_t from_off, size_t len, struct pf_err *err)
{
	struct buffer_open *to = of->state, *o;
	struct pf_snapshot live = { 0 }, *snapshot;
	uint64_t left;
	int r;

	if (from->node->kind != &kind_buffer)
		return pf_err_set(err, -EXDEV, "only buffers are copied so");
	o = from->state;
	/* This thread must not wait for text that is not rendered yet. */
	if (o->viewed && !pf_snapshot_is_sized(&o->snapshot))
		return pf_err_set(err, -EXDEV, "the text of a large array is read");
	if (can_note(of, off, from, from_off)) {
		left = o->snapshot.size - off;
		len = len < left ? len : left;
		if (!off && len && pf_snapshot_dup(&o->snapshot, &to->copied) < 0)
			return -ENOMEM;
		to->copied_len += len;
		pf_open_idle(of, !to->copied_len);
		return (ssize_t)len;
	}
	r = copy_noted(of, true, err);
	if (r < 0)
		return r;
	live.live = buffer_of(from->node);
	snapshot = o->viewed && !pf_open_writes(from) ? &o->snapshot : &live;
	return copy_some(buffer_of(of->node), off, snapshot, from_off,
			 len < AT_ONCE ? len : AT_ONCE, err);
}

/* OF is closed.  If all of an array was copied, its value, to be sent to its device, with a
 * reference; else NULL: commit the content. */
static struct pf_value *buffer_copy_end(struct pf_open *of, enum pf_commit why)
{
	struct buffer_open *o = of->state;
	struct pf_value *value = NULL;
	bool all;

	if (!o->copied_len || (o->copied_len < o->copied.size && why == PF_COMMIT_FSYNC))
		return NULL;
	all = o->copied_len == o->copied.size &&
	      pf_buffer_take(buffer_of(of->node), &o->copied, &value);
	copy_noted(of, !all, NULL);
	return value;
}

/* --- extended attributes: facts about the buffer; dtype, shape and memory can be set  */

#define PREFIX "user.pjrtfs."

/* One attribute of x.json's object, by its key. */
static const struct {
	const char *name;
	bool settable;
} attributes[] = {
	{ "dtype", true },
	{ "shape", true },
	{ "layout", false },
	{ "device", false },
	{ "memory", true },
	{ "bytes", false },
	{ "on_device_bytes", false },
	{ "state", false },
	{ "id", false },
};

enum { N_ATTRIBUTES = sizeof(attributes) / sizeof(attributes[0]), MAX_VALUE = 4096 };

static int find(const char *name)
{
	size_t len = strlen(PREFIX);

	if (strncmp(name, PREFIX, len))
		return -1;
	for (int i = 0; i < N_ATTRIBUTES; i++)
		if (!strcmp(attributes[i].name, name + len))
			return i;
	return -1;
}

/* x.json's object. */
static struct json_object *describe_json(struct pf_node *node)
{
	struct json_object *o = pf_buffer_json(buffer_of(node), "");

	/* The inode's number, which no other inode has. */
	pf_json_add_int(o, "id", (int64_t)view_of(node)->inode->id);
	if (pf_json_complete(o))
		return o;
	json_object_put(o);
	return NULL;
}

const char *files_buffer_state(struct pf_node *node)
{
	return pf_buffer_state_name(buffer_of(node));
}

static int buffer_get_xattr(struct pf_node *node, const char *name, struct pf_buf *out,
			    struct pf_err *err)
{
	struct json_object *o, *v = NULL;
	int i = find(name);

	if (i < 0)
		return pf_err_set(err, -ENODATA, "there is no attribute %.64s", name);
	o = describe_json(node);
	if (!o)
		return pf_err_set(err, -ENOMEM, "no memory for attributes");
	if (json_object_is_type(v = json_object_object_get(o, attributes[i].name),
				json_type_string))
		pf_buf_puts(out, json_object_get_string(v));
	else if (v)
		pf_buf_puts(out, pf_json_text(v));
	json_object_put(o);
	return v ? 0 : pf_err_set(err, -ENODATA, "it has no %s yet", attributes[i].name);
}

static int buffer_list_xattr(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	struct json_object *o = describe_json(node);

	if (!o)
		return pf_err_set(err, -ENOMEM, "no memory for attributes");
	for (int i = 0; i < N_ATTRIBUTES; i++) {
		if (!json_object_object_get_ex(o, attributes[i].name, NULL))
			continue;
		pf_buf_puts(out, PREFIX);
		pf_buf_append(out, attributes[i].name, strlen(attributes[i].name) + 1);
	}
	json_object_put(o);
	return 0;
}

/* "[2,3]" or "2,3"; "" and "[]" are a scalar's. */
static int parse_shape(const char *text, struct pf_shape *ret, struct pf_err *err)
{
	pf_autobuf struct pf_buf list = PF_BUF_INIT;
	struct pf_json_reader rd;
	struct json_object *o;
	int r;

	pf_buf_printf(&list, *text == '[' ? "%s" : "[%s]", text);
	if (list.failed)
		return pf_err_set(err, -ENOMEM, "no memory for a shape");
	rd = (struct pf_json_reader){ list.data, list.data, list.data + list.len,
				      SIZE_MAX, NULL };
	r = pf_json_value(&rd, &o);
	if (r == 0 && o && rd.p == rd.end)
		r = files_parse_shape(o, ret, err);
	else if (r != -ENOMEM)
		r = pf_err_set(err, -EINVAL, "expected extents as in 2,3, found %.64s",
			       text);
	json_object_put(o);
	return r;
}

static int set_memory(struct pf_buffer *b, const char *kind, struct pf_err *err)
{
	PF_CLEANUP(pf_value_unrefp) struct pf_value *value = NULL;
	const struct pf_location *location = pf_buffer_location(b);
	unsigned memory;
	int r = pf_location_memory(location, kind, &memory, err);

	if (r == 0)
		r = pf_buffer_move(b, location, memory, &value, err);
	if (r == 0 && value)
		buffer_transfer_start(b, value, true, NULL);
	return r;
}

static int set(struct pf_node *node, const char *key, const char *text,
	       struct pf_err *err)
{
	struct pf_buffer *b = buffer_of(node);
	struct pf_shape shape;
	enum pf_dtype dtype;
	int r;

	if (!strcmp(key, "memory"))
		return set_memory(b, text, err);
	if (!strcmp(key, "dtype")) {
		dtype = pf_dtype_parse(text, strlen(text));
		if (dtype == PF_DTYPE_INVALID)
			return pf_err_set(err, -EINVAL, "there is no element type %.64s",
					  text);
		r = pf_worker_takes(pf_buffer_location(b)->worker, dtype, err);
		if (r == 0)
			r = pf_buffer_set_dtype(b, dtype, err);
	} else {
		r = parse_shape(text, &shape, err);
		if (r == 0)
			r = pf_buffer_set_shape(b, &shape, err);
	}
	if (r > 0) {
		r = buffer_commit_start(node, true, NULL);
		inode_changed(node);
	}
	return r < 0 ? r : 0;
}

/*
 * Programs that copy attributes set all of them, in the order in which the original's file system
 * lists them: tmpfs lists the shape before the element type, for which alone it may be right.
 */
static int set_copied(struct pf_node *node, const char *key, const char *text,
		      struct pf_err *err)
{
	struct buffer_inode *inode = view_of(node)->inode;
	pf_autofree char *shape = NULL;
	int r = set(node, key, text, err);

	if (r == -EINVAL && !strcmp(key, "shape") &&
	    view_of(node)->format == PF_FORMAT_RAW) {
		shape = strdup(text);
		if (!shape)
			return -ENOMEM;
		shape = atomic_exchange(&inode->copied_shape, shape);
		return 0;
	}
	if (r == 0 && !strcmp(key, "dtype")) {
		shape = atomic_exchange(&inode->copied_shape, NULL);
		if (shape)
			r = set(node, "shape", shape, err);
	}
	return r;
}

static void forget_copied(struct buffer_inode *inode)
{
	atomic_store(&inode->copied, false);
	free(atomic_exchange(&inode->copied_shape, NULL));
}

static int buffer_set_xattr(struct pf_node *node, const char *name, const void *value,
			    size_t len, int flags, struct pf_err *err)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT, now = PF_BUF_INIT;
	struct buffer_inode *inode = view_of(node)->inode;
	int i = find(name);
	bool there;

	if (i < 0)
		return pf_err_set(err, -EOPNOTSUPP, "there is no attribute %.64s", name);
	if (len > MAX_VALUE || memchr(value, 0, len))
		return pf_err_set(err, -EINVAL, "%s: no such value", name);
	pf_buf_append(&text, value, len);
	if (text.failed)
		return -ENOMEM;
	there = buffer_get_xattr(node, name, &now, NULL) == 0;
	if (there && (flags & XATTR_CREATE))
		return -EEXIST;
	/* Programs that copy attributes set those of the original, too; setting the present value
	 * changes nothing. */
	if (!attributes[i].settable) {
		atomic_store(&inode->copied, atomic_load(&inode->opens) != 0);
		return 0;
	}
	if (there && now.len == len && !memcmp(now.data, value, len))
		return 0;
	if (atomic_load(&inode->copied))
		return set_copied(node, attributes[i].name, text.data ? text.data : "",
				  err);
	return set(node, attributes[i].name, text.data ? text.data : "", err);
}

/* Attributes cannot be removed, but rsync(1) removes those that its source does not have,
 * and must not fail. */
static int buffer_remove_xattr(struct pf_node *node, const char *name, struct pf_err *err)
{
	(void)node;
	(void)name;
	(void)err;
	return 0;
}

/* --- opening and reading ------------------------------------------------------------ */

static int buffer_open(struct pf_open *of, struct pf_err *err)
{
	struct buffer_inode *inode = view_of(of->node)->inode;
	int r = 0;

	/* If the buffer was unlinked or replaced since the lookup, and its data is free, ESTALE
	 * makes the kernel look the name up again. */
	atomic_fetch_add(&inode->opens, 1);
	if (atomic_load(&inode->dead)) {
		deferred_free_alarm(fs_of(of->node));
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
		inode_leave(of->node);
	}
	return r;
}

static void buffer_release(struct pf_open *of)
{
	struct buffer_open *o = of->state;

	if (o->viewed)
		pf_snapshot_release(&o->snapshot);
	if (o->copied_len)
		pf_snapshot_release(&o->copied);
	if (pf_open_writes(of) && !o->waits)
		pf_buffer_close_writer(buffer_of(of->node));
	free(o);
	inode_leave(of->node);
}

static void describe_text(struct pf_node *node, struct pf_buf *out)
{
	char name[PF_NAME_MAX + 1];
	struct json_object *o;

	inode_stem(node, name);
	o = pf_buffer_json(buffer_of(node), name);
	pf_json_print_line(o, out);
	json_object_put(o);
}

/* An open that waits: for the writer of another view, then until the array is fetched or
 * rendered. */
struct opening {
	struct pf_timer timer; /* fires after next_ms: has the other writer closed? */
	unsigned next_ms;
	struct pf_wait waiter;
	struct pf_open *of; /* stays until reply is answered */
	struct pf_reply *reply;
	struct pf_value *value;     /* whose bytes are needed: pinned, with a reference */
	struct timespec fetch;      /* when they were asked for; 0: they are there */
	char name[PF_NAME_MAX + 1]; /* the tensor's, in a .safetensors file */
};

static int take_view(struct pf_open *of, const char *name, struct pf_err *err)
{
	struct buffer_open *o = of->state;
	int r = 0;

	if (view_of(of->node)->format == PF_FORMAT_JSON) {
		describe_text(of->node, &o->snapshot.head);
		if (o->snapshot.head.failed)
			r = pf_err_set(err, -ENOMEM, "no memory for the description");
		o->snapshot.size = o->snapshot.head.len;
	} else {
		r = pf_snapshot_open(buffer_of(of->node), view_of(of->node)->format, name,
				     &o->snapshot, err);
	}
	o->viewed = r == 0;
	return r;
}

/* Must OF's opener wait for bytes in host memory?  A reader needs a snapshot of them, unless it
 * truncates, and a writer the present array, if that is to become bytes in the format of OF. */
static bool needs_bytes(struct pf_open *of)
{
	if (of->flags & O_TRUNC)
		return false;
	return !pf_open_writes(of) || !writer_is_listed(of->node) ||
	       pf_buffer_lacks_bytes(buffer_of(of->node));
}

static void opening_end(struct opening *w, int code, const struct pf_err *err)
{
	if (w->value)
		pf_value_unpin(w->value);
	pf_value_unref(w->value);
	pf_reply_fail(w->reply, code, err);
	free(w);
}

static void *view_finish(void *arg)
{
	struct opening *w = arg;
	struct buffer_open *o = w->of->state;
	struct pf_err err = PF_ERR_INIT;
	int r = take_view(w->of, w->name, &err);

	if (r == 0 && pf_open_writes(w->of)) {
		/* The bytes are in host memory now: they can be written. */
		pf_snapshot_release(&o->snapshot);
		o->viewed = false;
		r = writer_take_over(w->of, &err);
	}
	opening_end(w, r, &err);
	return NULL;
}

/*
 * Long text is rendered as it is read, unless OF's opener needs the size, as programs that copy
 * files do: only the whole text has one.
 */
static bool begin_text(struct pf_open *of)
{
	enum pf_format format = view_of(of->node)->format;
	struct buffer_open *o = of->state;

	if (pf_open_writes(of) || of->goes_by_size)
		return false;
	o->viewed = pf_snapshot_begin(buffer_of(of->node), format, &o->snapshot) > 0;
	if (o->viewed)
		atomic_store(&of->unsized, true);
	return o->viewed;
}

/* The bytes are in host memory, or the fetch has failed. */
static void view_wake(struct pf_wait *waiter)
{
	struct opening *w = pf_container_of(waiter, struct opening, waiter);

	if (w->fetch.tv_sec && pf_value_host(w->value))
		files_report_transfer(buffer_of(w->of->node), "buffer.fetched", NULL,
				      pf_seconds_since(CLOCK_MONOTONIC, &w->fetch));
	if (begin_text(w->of)) {
		opening_end(w, 0, NULL);
		return;
	}
	if (!pf_snapshot_is_slow(buffer_of(w->of->node), view_of(w->of->node)->format) ||
	    pf_thread_start(NULL, view_finish, w))
		view_finish(w);
}

static void opening_fetch(struct opening *w)
{
	enum pf_format format = view_of(w->of->node)->format;
	struct pf_err err = PF_ERR_INIT;
	int r = 1;

	if (!needs_bytes(w->of)) {
		opening_end(w, 0, NULL);
		return;
	}
	w->waiter.wake = view_wake;
	if (format == PF_FORMAT_SAFETENSORS)
		inode_stem(w->of->node, w->name);
	if (format != PF_FORMAT_JSON)
		w->value = pf_snapshot_pin(buffer_of(w->of->node), format);
	clock_gettime(CLOCK_MONOTONIC, &w->fetch);
	if (w->value)
		r = pf_value_fetch(w->value, &w->waiter, &err);
	if (r == 0)
		return; /* W may be freed */
	w->fetch.tv_sec = 0;
	/* The snapshot says why else it has no bytes. */
	if (r == -ENOMEM)
		opening_end(w, r, &err);
	else
		view_wake(&w->waiter);
}

static bool opening_pause(struct opening *w)
{
	return w->next_ms < WAIT_MS &&
	       pf_timer_arm(fs_of(w->of->node)->timers, &w->timer, w->next_ms) == 0;
}

static void try_again(struct pf_timer *timer)
{
	struct opening *w = pf_container_of(timer, struct opening, timer);
	struct buffer_open *o = w->of->state;
	struct pf_err err = PF_ERR_INIT;
	int r = writer_enter(w->of, &err);

	if (r == 0 && o->waits) {
		w->next_ms *= 2;
		if (opening_pause(w))
			return;
		r = pf_err_set(&err, -EBUSY,
			       "another process has it open to write by another name");
	}
	if (r == 0 && (w->of->flags & O_TRUNC))
		r = w->of->node->kind->truncate(w->of->node, w->of, 0, &w->of->cred,
						&err);
	if (r == 0)
		opening_fetch(w);
	else
		opening_end(w, r, &err);
}

static void buffer_prepare(struct pf_open *of, struct pf_reply *reply)
{
	struct buffer_open *o = of->state;
	struct opening *w;

	if (!o->waits && !needs_bytes(of)) {
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
	w->timer.fire = try_again;
	w->next_ms = 1;
	if (!o->waits)
		opening_fetch(w);
	else if (!opening_pause(w))
		opening_end(w, -EBUSY, NULL);
}

static void read_data(void *arg, const void *data, size_t len)
{
	pf_reply_data(arg, data, len);
}

/* A read of text that is not rendered so far. */
struct text_read {
	struct pf_more more;
	struct pf_snapshot *snapshot; /* stays until reply is answered */
	struct pf_reply *reply;
	size_t len;
	uint64_t off;
};

static void text_come(struct pf_wait *waiter)
{
	struct text_read *r = pf_container_of(waiter, struct text_read, more.waiter);

	if (pf_snapshot_await(r->snapshot, r->len, r->off, NULL) < 0)
		pf_reply_code(r->reply, -ENOMEM);
	else
		pf_snapshot_read(r->snapshot, r->len, r->off, read_data, r->reply);
	free(r);
}

static void read_snapshot(struct pf_snapshot *snapshot, size_t len, uint64_t off,
			  struct pf_reply *reply)
{
	int code = pf_snapshot_await(snapshot, len, off, NULL);
	struct text_read *r = code == 0 ? malloc(sizeof(*r)) : NULL;

	if (code > 0) {
		pf_snapshot_read(snapshot, len, off, read_data, reply);
	} else if (!r) {
		pf_reply_code(reply, -ENOMEM);
	} else {
		*r = (struct text_read){ .more.waiter.wake = text_come,
					 .snapshot = snapshot,
					 .reply = reply,
					 .len = len,
					 .off = off };
		if (pf_snapshot_await(snapshot, len, off, &r->more) != 0)
			text_come(&r->more.waiter);
	}
}

static void buffer_read(struct pf_open *of, size_t len, uint64_t off,
			struct pf_reply *reply)
{
	struct buffer_open *o = of->state;
	struct pf_snapshot live = { .live = buffer_of(of->node) };
	static const struct pf_err gone = {
		.code = -EIO,
		.text = "the daemon was restarted, and does not have these bytes"
	};

	copy_noted(of, true, NULL);
	/* A descriptor that also writes reads what it wrote. */
	if (!pf_open_writes(of) && !o->viewed && !(of->flags & O_TRUNC))
		pf_reply_fail(reply, -EIO, &gone);
	else if (pf_open_writes(of) || !o->viewed)
		pf_snapshot_read(&live, len, off, read_data, reply);
	else
		read_snapshot(&o->snapshot, len, off, reply);
}

/* --- writing ------------------------------------------------------------------------ */

/* NODE's bytes are about to change: it becomes a file of its own. */
static int about_to_change(struct pf_node *node, struct pf_err *err)
{
	if (atomic_exchange(&view_of(node)->inode->part_of, 0))
		view_save(node);
	if (!atomic_load(&view_of(node)->inode->directory))
		return 0;
	PF_NAMES_SCOPE(node->tree);
	return checkpoint_dissolve(node, err);
}

static ssize_t buffer_write(struct pf_open *of, const void *src, size_t len, uint64_t off,
			    struct pf_err *err)
{
	int r = copy_noted(of, true, err);

	if (r == 0)
		r = about_to_change(of->node, err);
	if (r < 0)
		return r;
	/* The first write ends the array that other views show. */
	if (!of->dirty)
		inode_changed(of->node);
	return pf_buffer_write(buffer_of(of->node), src, len, off, err);
}

/*
 * Is incomplete content allowed?  At fsync(2) it is, and when a program that can map the
 * file wrote a header alone: numpy.lib.format.open_memmap closes the file between the
 * header and the data.
 */
static bool may_be_partial(struct pf_open *of, enum pf_commit why)
{
	return why == PF_COMMIT_FSYNC ||
	       (pf_open_reads(of) && pf_buffer_is_header(buffer_of(of->node)));
}

static void buffer_commit(struct pf_open *of, enum pf_commit why, struct pf_reply *reply)
{
	PF_CLEANUP(pf_value_unrefp) struct pf_value *value = buffer_copy_end(of, why);

	if (why == PF_COMMIT_FLUSH)
		forget_copied(view_of(of->node)->inode);
	if (value) {
		inode_changed(of->node);
		buffer_transfer_start(buffer_of(of->node), value, false, reply);
	} else {
		buffer_commit_start(of->node, may_be_partial(of, why), reply);
	}
}

static int buffer_allocate(struct pf_open *of, int mode, uint64_t off, uint64_t len,
			   struct pf_err *err)
{
	struct pf_buffer *b = buffer_of(of->node);
	int r = copy_noted(of, true, err);

	if (r == 0)
		r = about_to_change(of->node, err);
	if (r < 0)
		return r;
	if (mode == (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE))
		return pf_buffer_punch(b, off, len, err);
	if (mode & ~FALLOC_FL_KEEP_SIZE)
		return pf_err_set(err, -EOPNOTSUPP, "this way of allocating");
	/* Room beyond the end cannot be reserved: FALLOC_FL_KEEP_SIZE does nothing. */
	if (mode || off + len <= pf_buffer_size(b))
		return 0;
	return pf_buffer_truncate(b, off + len, err);
}

static int buffer_truncate(struct pf_node *node, struct pf_open *of, uint64_t size,
			   const struct pf_cred *cred, struct pf_err *err)
{
	int r;

	(void)cred;
	if (of && of->state && ((struct buffer_open *)of->state)->waits)
		return 0; /* try_again truncates it */
	if (!writer_is_listed(node))
		return pf_err_set(err, -EINVAL,
				  "a view has the size that its array gives it");
	if (of && of->state)
		copy_noted(of, size != 0, err);
	r = about_to_change(node, err);
	if (r < 0)
		return r;
	if (size && pf_buffer_lacks_bytes(buffer_of(node)))
		r = pf_buffer_adopt(buffer_of(node), view_of(node)->format, "", true,
				    err);
	if (r == 0)
		r = pf_buffer_truncate(buffer_of(node), size, err);
	/* truncate(2) opens no file, so that no close commits it. */
	if (r == 0 && !of && size)
		buffer_commit_start(node, true, NULL);
	if (r == 0)
		inode_changed(node);
	return r;
}

/* --- poll(2): NAME.json waits for a transfer ------------------------------------------ */

/* Wakes the callers of poll(2) of a view. */
struct poller {
	struct pf_wait waiter;
	struct pf_node *view; /* owned reference */
};

static void poller_end(struct poller *p)
{
	atomic_store(&view_of(p->view)->polled, false);
	pf_node_ready(p->view);
	pf_node_unref(p->view);
	free(p);
}

static void poller_wake(struct pf_wait *waiter)
{
	poller_end(pf_container_of(waiter, struct poller, waiter));
}

/* Is the array on its way to a device?  Then pf_node_ready of VIEW comes at the end. */
static bool is_under_way(struct pf_node *view)
{
	PF_CLEANUP(pf_value_unrefp) struct pf_value *value = NULL;
	struct poller *p;

	if (pf_buffer_value(buffer_of(view), &value, NULL) < 0 ||
	    pf_value_state(value, NULL) != PF_VALUE_TRANSFERRING)
		return false;
	if (atomic_exchange(&view_of(view)->polled, true))
		return true;
	p = calloc(1, sizeof(*p));
	if (!p) {
		atomic_store(&view_of(view)->polled, false);
		return false;
	}
	*p = (struct poller){ .waiter.wake = poller_wake, .view = pf_node_ref(view) };
	if (pf_value_transfer(value, &p->waiter, NULL) == 0)
		return true; /* P may be freed */
	poller_end(p);
	return false;
}

static short buffer_poll(struct pf_open *of)
{
	if (view_of(of->node)->format != PF_FORMAT_JSON)
		return POLLIN | POLLOUT;
	return is_under_way(of->node) ? 0 : POLLIN;
}

/* --- stat(2), chmod(2), chown(2) ------------------------------------------------------ */

static void buffer_getattr(struct pf_node *node, struct stat *st)
{
	enum pf_format format = view_of(node)->format;
	char name[PF_NAME_MAX + 1] = "";

	if (format == PF_FORMAT_JSON) {
		pf_autobuf struct pf_buf text = PF_BUF_INIT;

		describe_text(node, &text);
		st->st_size = (off_t)text.len;
	} else {
		if (format == PF_FORMAT_SAFETENSORS)
			inode_stem(node, name);
		st->st_size = (off_t)pf_snapshot_size(buffer_of(node), format, name);
	}
}

static uint64_t buffer_size_bound(struct pf_node *node)
{
	return pf_snapshot_bound(buffer_of(node), view_of(node)->format);
}

static void buffer_setattr(struct pf_node *node)
{
	buffer_charge_owner(node);
	/* Without a home for a new owner it stays in the old one's. */
	(void)inode_move_to_owner(node, NULL);
	checkpoint_mirror(node);
}

/* A view's: that of the listed node, with the view's extension. */
static void buffer_path(struct pf_node *node, struct pf_buf *out)
{
	const struct buffer_inode *inode = view_of(node)->inode;
	struct pf_node *named;

	PF_NAMES_SCOPE(node->tree);
	named = inode->directory ? inode->directory : inode->listed;
	if (named)
		pf_node_path(named, NULL, out);
	if (!out->len || out->failed)
		return;
	buffers_format_of(out->data, &out->len);
	pf_buf_puts(out, pf_format_extension(view_of(node)->format));
}

const struct pf_kind kind_buffer = {
	.mode = S_IFREG | 0644,
	.prepare = buffer_prepare,
	.open = buffer_open,
	.release = buffer_release,
	.read = buffer_read,
	.write = buffer_write,
	.commit = buffer_commit,
	.poll = buffer_poll,
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
	.path = buffer_path,
	.restored_as = RESTORED_BUFFER,
	.free = buffer_node_free,
};
