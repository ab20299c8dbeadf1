/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots: the bytes of a buffer in one format, as one reader sees them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/array.h"
#include "pjrtfs/array_files.h"
#include "pjrtfs/wait.h"

/* Elements whose rendering, or packing, takes about 1 ms; elements whose text stat(2) renders. */
enum { SLOW_TEXT = 8192, SLOW_PACKED = 1 << 20, STAT_TEXT = 4096 };

/* Elements whose text takes some 10 ms: it is rendered in pieces. */
enum { LONG_TEXT = 128 << 10 };

/* Is the content what a reader of FORMAT gets, byte for byte? */
static bool is_content(const struct pf_buffer *b, enum pf_format format)
{
	return format == b->format && (b->content || !b->value);
}

static int64_t count_of(const struct pf_value *v)
{
	int64_t n = 0;

	pf_shape_count(&v->shape, &n, NULL);
	return n;
}

static bool is_packed(const struct pf_value *v, enum pf_format format)
{
	return pf_formats[format].is_packed && pf_dtype_bits(v->dtype) < 8;
}

bool pf_snapshot_is_slow(struct pf_buffer *b, enum pf_format format)
{
	PF_LOCK_SCOPE(&b->lock);
	if (is_content(b, format) || !b->value)
		return false;
	return (pf_formats[format].is_text && count_of(b->value) > SLOW_TEXT) ||
	       (is_packed(b->value, format) && count_of(b->value) > SLOW_PACKED);
}

/* Show the content: it is frozen once committed; before, it may move. */
static void show_content_locked(struct pf_buffer *b, struct pf_snapshot *snapshot)
{
	bool frozen = b->state == PF_BUFFER_VALUE || b->state == PF_BUFFER_TENSORS;

	snapshot->size = b->size;
	if (!frozen)
		snapshot->live = pf_buffer_ref(b);
	else if (b->content)
		snapshot->content = pf_bytes_ref(b->content);
	if (b->state == PF_BUFFER_VALUE && b->value)
		snapshot->array = pf_value_ref(b->value);
}

void pf_snapshot_head(struct pf_buf *head, const struct pf_value *v,
		      enum pf_format format, const char *name)
{
	if (format == PF_FORMAT_NPY)
		pf_npy_print(head, v->dtype, &v->shape);
	else if (format == PF_FORMAT_SAFETENSORS)
		pf_safetensors_print(head, name, v->dtype, &v->shape);
}

/* Render the whole file if its bytes are not the array's: text, packed elements. */
static int render(struct pf_value *v, enum pf_format format, struct pf_snapshot *snapshot,
		  struct pf_err *err)
{
	size_t n = (size_t)count_of(v);

	if (pf_formats[format].is_text)
		pf_text_print(&snapshot->head, v->dtype, &v->shape, pf_value_host(v));
	else {
		size_t len = pf_pack_size(v->dtype, n);
		void *packed = pf_buf_reserve(&snapshot->head, len);

		if (packed) {
			pf_pack(packed, pf_value_host(v), n, v->dtype);
			snapshot->head.len += len;
		}
	}
	snapshot->size = snapshot->head.len;
	pf_lock(&v->lock);
	if (!snapshot->head.failed && pf_formats[format].is_text)
		v->text_len = snapshot->size;
	pf_unlock(&v->lock);
	pf_value_unpin(v);
	if (snapshot->head.failed)
		return pf_err_set(err, -ENOMEM, "no memory for the file");
	snapshot->array = pf_value_ref(v);
	return 0;
}

static int show_value(struct pf_value *v, enum pf_format format, const char *name,
		      struct pf_snapshot *snapshot, struct pf_err *err)
{
	int r;

	pf_value_pin(v);
	r = pf_value_fetched(v, err);
	if (r < 0) {
		pf_value_unpin(v);
		return r;
	}
	pf_snapshot_head(&snapshot->head, v, format, name);
	if (pf_formats[format].is_text || is_packed(v, format))
		return render(v, format, snapshot, err);
	snapshot->array = pf_value_ref(v);
	snapshot->pinned = true;
	snapshot->size = snapshot->head.len + v->len;
	return 0;
}

struct pf_value *pf_snapshot_pin(struct pf_buffer *b, enum pf_format format)
{
	PF_LOCK_SCOPE(&b->lock);
	if (is_content(b, format) || !b->value)
		return NULL;
	pf_value_pin(b->value);
	return pf_value_ref(b->value);
}

int pf_snapshot_open(struct pf_buffer *b, enum pf_format format, const char *name,
		     struct pf_snapshot *ret, struct pf_err *err)
{
	PF_CLEANUP(pf_value_unrefp) struct pf_value *v = NULL;
	struct pf_err why = PF_ERR_INIT;
	int r;

	memset(ret, 0, sizeof(*ret));
	pf_lock(&b->lock);
	if (is_content(b, format)) {
		show_content_locked(b, ret);
		pf_unlock(&b->lock);
		return 0;
	}
	if (b->value)
		v = pf_value_ref(b->value);
	pf_err_recall(&b->err, &why);
	pf_unlock(&b->lock);
	if (!v)
		return pf_err_set(err, -ENODATA, "no array to show: %s",
				  why.code ? why.text : "nothing was written");
	r = show_value(v, format, name, ret, err);
	if (r < 0)
		pf_snapshot_release(ret);
	return r;
}

/* --- long text, rendered in step with reads ---------------------------------------------- */

enum {
	PIECE = 4096,    /* elements printed at once: well below a millisecond */
	AHEAD = 8 << 20, /* bytes printed beyond the furthest read */
};

/*
 * A thread prints up to the furthest read and AHEAD beyond it, and ends; a later read starts
 * another.  Printed text stays until the last snapshot of it is released.
 */
struct pf_rendering {
	_Atomic unsigned refs;    /* the snapshots, and the printing thread */
	_Atomic unsigned readers; /* the snapshots: without one nothing more is printed */
	struct pf_background printing;
	struct pf_value *value; /* owned reference, pinned until all is printed */
	uint64_t at; /* the printing thread's, as is pinned: the next element */
	bool pinned;
	/* The value's lock protects the fields below. */
	struct pf_buf text; /* only the printing thread appends */
	bool running;       /* there is a thread that prints */
	bool done, failed;  /* all is printed; no memory */
	uint64_t wanted;    /* the end of the furthest read */
	struct pf_wait *waiters;
};

static void rendering_unref(struct pf_rendering *r)
{
	if (!r || atomic_fetch_sub(&r->refs, 1) != 1)
		return;
	if (r->pinned)
		pf_value_unpin(r->value);
	pf_value_unref(r->value);
	pf_buf_release(&r->text);
	free(r);
}

/* Unlink the waiters whose text is printed, or will never be. */
static struct pf_wait *served_locked(struct pf_rendering *r)
{
	struct pf_wait **at = &r->waiters, *served = NULL, *waiter;

	while ((waiter = *at)) {
		if (!r->done && !r->failed &&
		    pf_container_of(waiter, struct pf_more, waiter)->end > r->text.len) {
			at = &waiter->next;
			continue;
		}
		*at = waiter->next;
		waiter->next = served;
		served = waiter;
	}
	return served;
}

static bool must_print_locked(struct pf_rendering *r, uint64_t ahead)
{
	return !r->done && !r->failed && atomic_load(&r->readers) &&
	       r->text.len < r->wanted + ahead;
}

static void print_piece(struct pf_rendering *r, struct pf_buf *piece)
{
	struct pf_value *v = r->value;
	struct pf_wait *served;
	bool more;

	piece->len = 0;
	more = pf_text_print_some(piece, v->dtype, &v->shape, pf_value_host(v), &r->at,
				  PIECE);
	if (!more && !piece->failed) {
		pf_value_unpin(v);
		r->pinned = false;
	}
	pf_lock(&v->lock);
	pf_buf_append(&r->text, piece->data, piece->len);
	r->failed = piece->failed || r->text.failed;
	r->done = !more && !r->failed;
	if (r->done) /* stat(2) knows the size from here on */
		v->text_len = r->text.len;
	served = served_locked(r);
	pf_unlock(&v->lock);
	pf_wake_all(served);
	pf_turn_next();
}

static void print_text(struct pf_background *background)
{
	struct pf_rendering *r =
		pf_container_of(background, struct pf_rendering, printing);
	pf_autobuf struct pf_buf piece = PF_BUF_INIT;
	pthread_mutex_t *lock = &r->value->lock;

	pf_lock(lock);
	while (must_print_locked(r, AHEAD)) {
		pf_unlock(lock);
		print_piece(r, &piece);
		pf_lock(lock);
	}
	r->running = false;
	pf_unlock(lock);
	rendering_unref(r);
}

int pf_snapshot_await(struct pf_snapshot *snapshot, uint64_t len, uint64_t off,
		      struct pf_more *more)
{
	struct pf_rendering *r = snapshot->text;
	uint64_t end;
	bool start;
	int ret = 0;

	if (!r)
		return 1;
	if (__builtin_add_overflow(off, len, &end))
		end = UINT64_MAX / 2;
	pf_lock(&r->value->lock);
	if (r->done || end <= r->text.len)
		ret = 1;
	else if (r->failed)
		ret = -ENOMEM;
	if (r->wanted < end)
		r->wanted = end;
	if (ret == 0 && more) {
		more->end = end;
		pf_wait_add(&r->waiters, &more->waiter);
	}
	start = !r->running && must_print_locked(r, AHEAD / 2);
	if (start) {
		r->running = true;
		atomic_fetch_add(&r->refs, 1);
	}
	pf_unlock(&r->value->lock);
	if (start)
		pf_background_run(&r->printing);
	return ret;
}

bool pf_snapshot_is_sized(struct pf_snapshot *snapshot)
{
	struct pf_rendering *r = snapshot->text;

	if (!r)
		return true;
	PF_LOCK_SCOPE(&r->value->lock);
	snapshot->size = r->text.len;
	return r->done;
}

/* How many of LEN bytes at OFF there are in SIZE bytes. */
static uint64_t clip(uint64_t len, uint64_t off, uint64_t size)
{
	uint64_t left = off < size ? size - off : 0;

	return len < left ? len : left;
}

static void read_rendering(struct pf_rendering *r, uint64_t len, uint64_t off,
			   void (*read)(void *arg, const void *data, size_t len),
			   void *arg)
{
	pf_autofree char *copy = NULL;
	const char *data = "";
	char few[512];

	pf_lock(&r->value->lock);
	len = clip(len, off, r->text.len);
	if (len)
		data = r->text.data + off;
	if (len && !r->done) {
		/* While the text grows it may move. */
		copy = malloc(len);
		if (!copy && len > sizeof(few))
			len = sizeof(few);
		data = memcpy(copy ? copy : few, data, len);
	}
	pf_unlock(&r->value->lock);
	read(arg, data, len);
}

/* --- snapshots --------------------------------------------------------------------------- */

int pf_snapshot_dup(const struct pf_snapshot *snapshot, struct pf_snapshot *ret)
{
	*ret = *snapshot;
	ret->head = (struct pf_buf)PF_BUF_INIT;
	pf_buf_append(&ret->head, snapshot->head.data, snapshot->head.len);
	if (ret->content)
		pf_bytes_ref(ret->content);
	if (ret->array)
		pf_value_ref(ret->array);
	if (ret->pinned)
		pf_value_pin(ret->array);
	if (ret->live)
		pf_buffer_ref(ret->live);
	if (ret->text) {
		atomic_fetch_add(&ret->text->refs, 1);
		atomic_fetch_add(&ret->text->readers, 1);
	}
	if (!ret->head.failed)
		return 0;
	pf_snapshot_release(ret);
	return -ENOMEM;
}

void pf_snapshot_release(struct pf_snapshot *snapshot)
{
	pf_buf_release(&snapshot->head);
	pf_bytes_unref(snapshot->content);
	if (snapshot->pinned)
		pf_value_unpin(snapshot->array);
	pf_value_unref(snapshot->array);
	pf_buffer_unref(snapshot->live);
	if (snapshot->text)
		atomic_fetch_sub(&snapshot->text->readers, 1);
	rendering_unref(snapshot->text);
	memset(snapshot, 0, sizeof(*snapshot));
}

/* Read a content that may grow and move: a reference keeps the bytes as they are now. */
static void read_live(struct pf_snapshot *snapshot, uint64_t len, uint64_t off,
		      void (*read)(void *arg, const void *data, size_t len), void *arg)
{
	struct pf_buffer *b = snapshot->live;
	struct pf_bytes *bytes = NULL;
	uint64_t size;

	pf_lock(&b->lock);
	size = b->size;
	if (b->content)
		bytes = pf_bytes_ref(b->content);
	pf_unlock(&b->lock);
	len = bytes ? clip(len, off, size) : 0;
	read(arg, len ? pf_bytes_at(bytes, off) : "", len);
	pf_bytes_unref(bytes);
}

void pf_snapshot_read(struct pf_snapshot *snapshot, uint64_t len, uint64_t off,
		      void (*read)(void *arg, const void *data, size_t len), void *arg)
{
	uint64_t head = snapshot->head.len;
	const char *body;

	if (snapshot->live) {
		read_live(snapshot, len, off, read, arg);
		return;
	}
	if (snapshot->text) {
		read_rendering(snapshot->text, len, off, read, arg);
		return;
	}
	len = clip(len, off, snapshot->size);
	if (!len) {
		read(arg, "", 0);
		return;
	}
	if (snapshot->pinned)
		body = pf_value_host(snapshot->array);
	else
		body = snapshot->content ? pf_bytes_at(snapshot->content, 0) : "";
	if (off >= head) {
		read(arg, body + (off - head), len);
		return;
	}
	/* The header and the body lie apart; the first read joins them. */
	if (off + len > head) {
		char *joined = malloc(len);

		if (joined) {
			memcpy(joined, snapshot->head.data + off, head - off);
			memcpy(joined + (head - off), body, len - (head - off));
			read(arg, joined, len);
			free(joined);
			return;
		}
		len = head - off;
	}
	read(arg, snapshot->head.data + off, len);
}

/* The length of V's text in bytes; 0 if it is long and was not rendered yet. */
static uint64_t text_len(struct pf_value *v)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	const void *host;
	uint64_t len;

	pf_lock(&v->lock);
	len = v->text_len;
	pf_unlock(&v->lock);
	if (len || count_of(v) > STAT_TEXT)
		return len;
	pf_value_pin(v);
	host = pf_value_host(v);
	if (host)
		pf_text_print(&text, v->dtype, &v->shape, host);
	pf_value_unpin(v);
	pf_lock(&v->lock);
	if (!text.failed && text.len)
		v->text_len = text.len;
	len = v->text_len;
	pf_unlock(&v->lock);
	return len;
}

/* The value that readers of B see as text, with a reference; NULL: none. */
static struct pf_value *shown_as_text(struct pf_buffer *b, enum pf_format format)
{
	PF_LOCK_SCOPE(&b->lock);
	if (!pf_formats[format].is_text || is_content(b, format) || !b->value ||
	    pf_value_state(b->value, NULL) == PF_VALUE_DONATED)
		return NULL;
	return pf_value_ref(b->value);
}

int pf_snapshot_begin(struct pf_buffer *b, enum pf_format format, struct pf_snapshot *ret)
{
	PF_CLEANUP(pf_value_unrefp) struct pf_value *v = shown_as_text(b, format);
	struct pf_rendering *r = NULL;

	if (!v || count_of(v) <= LONG_TEXT)
		return 0;
	pf_value_pin(v);
	if (pf_value_fetched(v, NULL) > 0)
		r = calloc(1, sizeof(*r));
	if (!r) {
		pf_value_unpin(v);
		return 0;
	}
	r->refs = r->readers = 1;
	r->printing.run = print_text;
	r->value = pf_value_ref(v);
	r->pinned = true;
	*ret = (struct pf_snapshot){ .array = pf_steal(&v), .text = r };
	return 1;
}

uint64_t pf_snapshot_bound(struct pf_buffer *b, enum pf_format format)
{
	PF_CLEANUP(pf_value_unrefp) struct pf_value *v = shown_as_text(b, format);
	uint64_t n = v ? (uint64_t)count_of(v) : 0;

	return !n || text_len(v) ? 0 : pf_text_bound(v->dtype, n);
}

uint64_t pf_snapshot_size(struct pf_buffer *b, enum pf_format format, const char *name)
{
	PF_CLEANUP(pf_value_unrefp) struct pf_value *text = shown_as_text(b, format);
	pf_autobuf struct pf_buf head = PF_BUF_INIT;

	if (text)
		return text_len(text);
	PF_LOCK_SCOPE(&b->lock);
	if (is_content(b, format))
		return b->size;
	if (!b->value || pf_value_state(b->value, NULL) == PF_VALUE_DONATED)
		return 0;
	pf_snapshot_head(&head, b->value, format, name);
	if (is_packed(b->value, format))
		return head.len + pf_pack_size(b->value->dtype, b->value->len);
	return head.len + b->value->len;
}

/* The bytes of BUFFER as FORMAT in an extent of their own. */
static int copy_shown(struct pf_buffer *b, enum pf_format format, const char *name,
		      struct pf_bytes **ret, uint64_t *size, struct pf_err *err)
{
	struct pf_snapshot snapshot;
	int r = pf_snapshot_open(b, format, name, &snapshot, err);

	if (r < 0)
		return r;
	r = pf_bytes_new(pf_buffer_location(b)->arena, pf_buffer_account(b),
			 snapshot.size, ret, err);
	if (r == 0 && snapshot.head.len)
		memcpy(pf_bytes_at(*ret, 0), snapshot.head.data, snapshot.head.len);
	if (r == 0 && snapshot.pinned)
		memcpy(pf_bytes_at(*ret, snapshot.head.len),
		       pf_value_host(snapshot.array), snapshot.array->len);
	*size = snapshot.size;
	pf_snapshot_release(&snapshot);
	return r;
}

int pf_buffer_adopt(struct pf_buffer *b, enum pf_format format, const char *name,
		    bool keep, struct pf_err *err)
{
	struct pf_bytes *bytes = NULL, *old;
	uint64_t size = 0;
	int r = keep ? copy_shown(b, format, name, &bytes, &size, err) : 0;

	if (r < 0)
		return r;
	pf_lock(&b->lock);
	if (b->value)
		r = pf_buffer_declare_locked(b, b->value->dtype, &b->value->shape, err);
	pf_unlock(&b->lock);
	if (r < 0) {
		pf_bytes_unref(bytes);
		return r;
	}
	if (!keep)
		pf_buffer_truncate(b, 0, NULL);
	/* With KEEP the array stays the same until a write. */
	pf_lock(&b->lock);
	old = pf_steal(&b->content);
	b->content = bytes;
	pf_buffer_skip_lines_locked(b);
	b->size = size;
	pf_buffer_save_locked(b);
	pf_unlock(&b->lock);
	pf_bytes_unref(old);
	pf_buffer_set_format(b, format);
	return 0;
}
