/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "pjrtfs/buffer.h"

/* Bytes that are cheap to move. */
enum { SOON = 1 << 20 };

/* Bytes of a text whose lines are checked as they are written: about 1 ms. */
enum { TEXT_CHECKED = 64 << 10 };

/* --- its parts ---------------------------------------------------------------------- */

/* Make VALUE (its reference is taken) the buffer's, and count this holder. */
static void hold_locked(struct pf_buffer *b, struct pf_value *value)
{
	pf_value_hold(value);
	b->value = value;
}

static void drop_value_locked(struct pf_buffer *b)
{
	if (!b->value)
		return;
	b->former = b->value->dtype;
	pf_value_let_go(b->value);
	pf_value_unref(pf_steal(&b->value));
}

static void drop_content_locked(struct pf_buffer *b)
{
	pf_bytes_unref(pf_steal(&b->content));
	b->size = 0;
	b->header_len = 0;
}

/* Its state is STATE, unless it is a scratch file. */
static void set_state_locked(struct pf_buffer *b, enum pf_buffer_state state)
{
	b->state = b->format == PF_FORMAT_NONE ? PF_BUFFER_SCRATCH : state;
}

/* B was made now, BY (NULL: by an upload, which cannot fail).  -ENOMEM. */
static int made_locked(struct pf_buffer *b, const char *by)
{
	char *copy = by ? strdup(by) : NULL;

	if (by && !copy)
		return -ENOMEM;
	free(b->made_by);
	b->made_by = copy;
	clock_gettime(CLOCK_REALTIME, &b->made);
	return 0;
}

void pf_buffer_skip_lines_locked(struct pf_buffer *b)
{
	free(pf_steal(&b->text));
	b->line_refused = false;
}

int pf_buffer_declare_locked(struct pf_buffer *b, enum pf_dtype dtype,
			     const struct pf_shape *shape, struct pf_err *err)
{
	struct pf_shape *copy = pf_shape_dup(shape);

	if (!copy)
		return pf_err_set(err, -ENOMEM, "no memory for a shape");
	free(b->declared_shape);
	b->declared_shape = copy;
	b->declared = dtype;
	return 0;
}

/* --- making and freeing ------------------------------------------------------------- */

struct pf_buffer *pf_buffer_without_record(const struct pf_location *location)
{
	struct pf_buffer *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	atomic_init(&b->refs, 1);
	if (pthread_mutex_init(&b->lock, NULL))
		abort();
	pf_arena_hold(location->arena);
	atomic_init(&b->location, location);
	b->memory = PF_DEFAULT_MEMORY;
	return b;
}

static struct pf_buffer *new_buffer(const struct pf_location *location,
				    enum pf_format format, const char *made_by)
{
	struct pf_buffer *b = pf_buffer_without_record(location);

	if (!b)
		return NULL;
	b->format = format;
	b->state = format == PF_FORMAT_NONE ? PF_BUFFER_SCRATCH : PF_BUFFER_EMPTY;
	if (made_locked(b, made_by) < 0) {
		pf_buffer_unref(b);
		return NULL;
	}
	b->id = pf_object_number();
	return b;
}

struct pf_buffer *pf_buffer_new(const struct pf_location *location, unsigned memory,
				enum pf_format format)
{
	struct pf_buffer *b = new_buffer(location, format, NULL);

	if (!b)
		return NULL;
	b->memory = memory;
	pf_buffer_save_locked(b);
	return b;
}

struct pf_buffer *pf_buffer_of_value(const struct pf_location *location,
				     struct pf_value *value, const char *made_by)
{
	struct pf_buffer *b = new_buffer(location, PF_FORMAT_NPY, made_by);

	if (!b)
		return NULL;
	hold_locked(b, pf_value_ref(value));
	b->memory = value->memory;
	b->state = PF_BUFFER_VALUE;
	pf_buffer_save_locked(b);
	return b;
}

static void buffer_free(struct pf_buffer *b)
{
	pf_file_discharge(&b->file);
	if (b->id)
		pf_state_drop(PF_STATE_BUFFER, b->id);
	pf_bytes_unref(b->content);
	drop_value_locked(b);
	pf_err_keep(&b->err, NULL);
	free(b->declared_shape);
	free(b->made_by);
	free(b->text);
	pthread_mutex_destroy(&b->lock);
	pf_arena_let_go(pf_buffer_location(b)->arena);
	free(b);
}

PF_DEFINE_REF(struct pf_buffer, pf_buffer, buffer_free)

void pf_buffer_discard(struct pf_buffer *b)
{
	pf_file_discharge(&b->file);
	PF_CHANGE_SCOPE(buffer, b);
	drop_content_locked(b);
	drop_value_locked(b);
	set_state_locked(b, PF_BUFFER_EMPTY);
}

int pf_buffer_charge(struct pf_buffer *b, struct pf_account *account, bool forced,
		     struct pf_err *err)
{
	int r = pf_file_charge(&b->file, pf_buffer_location(b)->arena, account,
			       PF_BUFFERS, PF_BUFFER_HEAP, forced, err);

	if (r == 0)
		pf_buffer_charge_to(b, account);
	return r;
}

void pf_buffer_charge_to(struct pf_buffer *b, struct pf_account *account)
{
	pf_file_charge_move(&b->file, account);
	PF_LOCK_SCOPE(&b->lock);
	b->account = account;
	pf_bytes_charge_to(b->content, account);
	if (b->value)
		pf_value_charge_to(b->value, account);
}

struct pf_account *pf_buffer_account(struct pf_buffer *b)
{
	PF_LOCK_SCOPE(&b->lock);
	return b->account;
}

/* --- what it is at this moment ------------------------------------------------------ */

uint64_t pf_buffer_number(const struct pf_buffer *b)
{
	return b->id;
}

const struct pf_location *pf_buffer_location(const struct pf_buffer *b)
{
	return b->location;
}

void pf_buffer_name(struct pf_buffer *b, uint64_t subject)
{
	b->subject = subject;
}

static void copy_type_locked(const struct pf_buffer *b, enum pf_dtype *dtype,
			     struct pf_shape *shape)
{
	if (b->value) {
		*dtype = b->value->dtype;
		pf_shape_copy(shape, &b->value->shape);
	} else if (b->declared_shape) {
		*dtype = b->declared;
		pf_shape_copy(shape, b->declared_shape);
	} else if (b->format == PF_FORMAT_RAW) {
		*dtype = b->declared ? b->declared : PF_DTYPE_U8;
		*shape = (struct pf_shape){ .rank = 1 };
		shape->dims[0] = (int64_t)(b->size / pf_dtype_size(*dtype));
	} else {
		*dtype = PF_DTYPE_INVALID;
		shape->rank = 0;
	}
}

void pf_buffer_facts(struct pf_buffer *b, struct pf_buffer_facts *ret)
{
	ret->subject = b->subject;
	PF_LOCK_SCOPE(&b->lock);
	ret->location = b->location;
	ret->memory = b->memory;
	copy_type_locked(b, &ret->dtype, &ret->shape);
}

const char *pf_buffer_maker(const struct pf_buffer *b)
{
	return pf_buffer_made_by(b);
}

enum pf_format pf_buffer_format(struct pf_buffer *b)
{
	PF_LOCK_SCOPE(&b->lock);
	return b->format;
}

enum pf_untyped pf_buffer_untyped(struct pf_buffer *b)
{
	PF_LOCK_SCOPE(&b->lock);
	return b->format == PF_FORMAT_TXT   ? PF_UNTYPED_TXT
	       : b->format == PF_FORMAT_RAW ? PF_UNTYPED_RAW
					    : PF_TYPED;
}

uint64_t pf_buffer_size(struct pf_buffer *b)
{
	PF_LOCK_SCOPE(&b->lock);
	return b->size;
}

uint64_t pf_buffer_bytes(struct pf_buffer *b)
{
	PF_LOCK_SCOPE(&b->lock);
	return b->size + (b->value ? b->value->len : 0);
}

bool pf_buffer_is_blank(struct pf_buffer *b, enum pf_format format)
{
	PF_LOCK_SCOPE(&b->lock);
	return b->format == format && !b->size && !b->content;
}

bool pf_buffer_is_header(struct pf_buffer *b)
{
	PF_LOCK_SCOPE(&b->lock);
	return b->format == PF_FORMAT_NPY && b->header_len && b->size == b->header_len &&
	       !b->refused;
}

bool pf_buffer_lacks_bytes(struct pf_buffer *b)
{
	PF_LOCK_SCOPE(&b->lock);
	/* An array without elements has zero raw bytes. */
	return b->value && !b->content &&
	       !(b->format == PF_FORMAT_RAW && b->value->len == 0);
}

bool pf_buffer_awaits_commit(struct pf_buffer *b)
{
	PF_LOCK_SCOPE(&b->lock);
	return b->state == PF_BUFFER_TENSORS ||
	       (b->state == PF_BUFFER_INCOMPLETE && !b->err.code);
}

bool pf_buffer_commit_is_slow(struct pf_buffer *b)
{
	PF_LOCK_SCOPE(&b->lock);
	if (b->size <= (64 << 10))
		return false;
	return pf_formats[b->format].is_text || b->format == PF_FORMAT_SAFETENSORS ||
	       (b->format == PF_FORMAT_NPY && b->header_len &&
		pf_content_npy(b).fortran_order);
}

int pf_buffer_value(struct pf_buffer *b, struct pf_value **ret, struct pf_err *err)
{
	PF_LOCK_SCOPE(&b->lock);
	if (b->value) {
		*ret = pf_value_ref(b->value);
		return 0;
	}
	switch (b->state) {
	case PF_BUFFER_ERROR:
		return pf_err_recall(&b->err, err);
	case PF_BUFFER_INCOMPLETE:
		if (pf_err_recall(&b->err, err))
			return pf_err_wrap(err, -EINVAL, "it is incomplete");
		return pf_err_set(err, -EINVAL,
				  "it is incomplete: its writer has not closed it");
	case PF_BUFFER_SCRATCH:
		return pf_err_set(err, -ENOENT, "it is a scratch file, no array");
	case PF_BUFFER_TENSORS:
		return pf_err_set(err, -EISDIR,
				  "it holds %zu arrays, each in a file of "
				  "its own",
				  (size_t)b->tensors);
	case PF_BUFFER_DONATED:
		return pf_err_set(err, -EINVAL,
				  "its value was donated to an execution and is gone");
	default:
		return pf_err_set(err, -ENODATA, "it is empty");
	}
}

/* --- writing ------------------------------------------------------------------------ */

/* The bytes to reserve for the whole array, if its size is known. */
static uint64_t wanted(const struct pf_buffer *b)
{
	uint64_t all = pf_content_expected(b);

	return all == PF_SIZE_UNKNOWN ? 0 : all;
}

/* The content may have become a copy: let go of OLD, which readers still have, or NULL. */
static void let_go_locked(struct pf_buffer *b, struct pf_bytes *old)
{
	if (old && b->content != old)
		pf_buffer_save_locked(b);
	pf_bytes_unref(old);
}

/* Reserve END bytes, and the whole array once its size is known. */
static int make_room_locked(struct pf_buffer *b, uint64_t end, struct pf_err *err)
{
	struct pf_bytes *old = pf_bytes_hold(b->content, pf_buffer_location(b)->arena);
	int r = pf_bytes_room(&b->content, pf_buffer_location(b)->arena, b->account,
			      b->size, end, wanted(b), err);

	let_go_locked(b, old);
	return r;
}

/* The same, and write LEN bytes of SRC at OFF. */
static int write_bytes_locked(struct pf_buffer *b, const void *src, size_t len,
			      uint64_t off, struct pf_err *err)
{
	struct pf_bytes *old = pf_bytes_hold(b->content, pf_buffer_location(b)->arena);
	int r = pf_bytes_write(&b->content, pf_buffer_location(b)->arena, b->account,
			       &b->size, src, len, off, wanted(b), err);

	let_go_locked(b, old);
	if (r == -ENOSPC && b->size >= len && err) {
		struct pf_err why = *err;

		pf_err_set(err, r,
			   "%s; rm of this file gives back the %" PRIu64
			   " bytes that it has",
			   why.text, b->size);
	}
	return r;
}

/*
 * Look at a header that the write [off, off + len) has changed.  The size of the arrays
 * must be known before their data come: it decides where they are stored.
 */
static int look_at_header_locked(struct pf_buffer *b, uint64_t off, struct pf_err *err)
{
	static const char hole[sizeof(uint64_t)];
	size_t magic = b->format == PF_FORMAT_NPY ? 1 : sizeof(hole);
	int r;

	if ((b->header_len && off >= b->header_len) || b->size < magic)
		return 0;
	/* A writer that writes the end first leaves a hole where the header will be. */
	if (off && !memcmp(pf_bytes_at(b->content, 0), hole, magic))
		return 0;
	r = pf_content_head(b, b->format, false, err);
	return r < 0 ? r : 0;
}

/* Data that a device uses in place must begin at an aligned address.  It is known as soon
 * as the header's length is, when few bytes have to be moved. */
static int align_data_locked(struct pf_buffer *b, struct pf_err *err)
{
	uint64_t header;

	if (b->format != PF_FORMAT_SAFETENSORS || b->size > SOON ||
	    pf_safetensors_length(pf_bytes_at(b->content, 0), b->size, &header, NULL) <=
		    0)
		return 0;
	return pf_bytes_align(b->content, header, b->size, err);
}

/* May a write end at END? */
static int check_end(const struct pf_buffer *b, uint64_t end, struct pf_err *err)
{
	uint64_t all = pf_content_expected(b);
	char what[128];

	if (end <= all)
		return 0;
	return pf_err_set(err, -EINVAL,
			  "%s takes %" PRIu64 " bytes of file, a write ends at %" PRIu64,
			  pf_content_what(b, b->format, what, sizeof(what)), all, end);
}

/*
 * The write that ends an invalid line refuses it, which every shell reports, as long as
 * the file is short and written in order.  A text without a declared type may get one
 * later, so only a line that no type allows is refused.  close(2) refuses all else.
 */
static int check_text_locked(struct pf_buffer *b, uint64_t off, uint64_t before,
			     struct pf_err *err)
{
	int r;

	if (!pf_formats[b->format].is_text)
		return 0;
	if (before == 0) {
		pf_buffer_skip_lines_locked(b);
		/* Without memory for it, close(2) finds what is wrong. */
		b->text = calloc(1, sizeof(*b->text));
	}
	if (off != before || b->size > TEXT_CHECKED)
		pf_buffer_skip_lines_locked(b);
	if (!b->text)
		return 0;
	r = pf_text_check(b->text, pf_bytes_at(b->content, 0), b->size, b->declared, err);
	/* A shell continues after a failed write: its next line would take the refused
	 * one's place. */
	b->line_refused = r < 0;
	return r;
}

static int write_locked(struct pf_buffer *b, const void *src, size_t len, uint64_t off,
			struct pf_err *err)
{
	uint64_t before = b->size;
	int r = 0;

	if (b->refused && pf_formats[b->format].is_text && b->line_refused)
		return pf_err_recall(&b->err, err);
	if (off >= (b->header_len ? b->header_len : 1))
		r = check_end(b, off + len, err);
	if (r < 0)
		return r;
	/* A file that is being rewritten is not an array until it is closed.  Without the
	 * value, which shares them, the bytes can be changed in place. */
	drop_value_locked(b);
	r = write_bytes_locked(b, src, len, off, err);
	if (r < 0)
		return r;
	r = look_at_header_locked(b, off, err);
	if (r == 0)
		r = check_text_locked(b, off, before, err);
	if (r == 0)
		r = check_end(b, b->size, err);
	if (r == 0)
		r = align_data_locked(b, err);
	if (r == 0 && b->header_len && off < b->header_len)
		r = make_room_locked(b, b->size, err);
	if (r < 0) {
		b->size = before;
		b->header_len = 0;
		if (before)
			look_at_header_locked(b, 0, NULL);
	}
	return r;
}

ssize_t pf_buffer_write(struct pf_buffer *b, const void *src, size_t len, uint64_t off,
			struct pf_err *err)
{
	struct pf_err local = PF_ERR_INIT, *why = err ? err : &local;
	uint64_t end;
	int r;

	if (__builtin_add_overflow(off, len, &end) || end > INT64_MAX)
		return pf_err_set(err, -EFBIG,
				  "a write ends beyond the largest file offset");
	PF_CHANGE_SCOPE(buffer, b);
	r = write_locked(b, src, len, off, why);
	/* Of a refused write the bytes before it stay, and closing does not make them an array. */
	if (r < 0)
		pf_err_keep(&b->err, why);
	b->refused = r < 0;
	set_state_locked(b, r < 0 ? PF_BUFFER_ERROR : PF_BUFFER_INCOMPLETE);
	return r < 0 ? r : (ssize_t)len;
}

bool pf_buffer_open_writer(struct pf_buffer *b, const void *view)
{
	PF_CHANGE_SCOPE(buffer, b);
	if (b->n_writers && b->writer != view)
		return false;
	b->writer = view;
	b->n_writers++;
	pf_buffer_skip_lines_locked(b);
	return true;
}

void pf_buffer_close_writer(struct pf_buffer *b)
{
	PF_LOCK_SCOPE(&b->lock);
	b->n_writers--;
}

int pf_buffer_fill(struct pf_buffer *b, const void *element, struct pf_err *err)
{
	const struct pf_location *location = b->location;
	size_t size;
	uint64_t len;
	char *at;
	int r;

	PF_CHANGE_SCOPE(buffer, b);
	size = pf_dtype_size(b->declared);
	r = pf_shape_bytes(b->declared_shape, b->declared, &len, err);
	if (r == 0 && len)
		r = pf_bytes_room(&b->content, location->arena, b->account, b->size, len,
				  len, err);
	if (r < 0 || !len)
		return r;
	at = pf_bytes_at(b->content, 0);
	memcpy(at, element, size);
	/* Each copy doubles the elements that are there. */
	for (uint64_t done = size; done < len; done *= 2)
		memcpy(at + done, at, done < len - done ? done : len - done);
	b->size = len;
	b->state = PF_BUFFER_INCOMPLETE;
	return 0;
}

/* --- its format, declared type and length ------------------------------------------- */

/* Are the lines of the beginning of B's content a text?  Their type may be declared later. */
static int check_beginning(const struct pf_buffer *b, struct pf_err *err)
{
	uint64_t len = b->size < TEXT_CHECKED ? b->size : TEXT_CHECKED;
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct pf_text_check check = { 0 };

	pf_buf_append(&text, pf_bytes_at(b->content, 0), len);
	if (len == b->size)
		pf_buf_puts(&text, "\n"); /* which the last line may lack */
	if (text.failed)
		return pf_err_set(err, -ENOMEM, "no memory for a text");
	return pf_text_check(&check, text.data, text.len, b->declared, err);
}

int pf_buffer_check(struct pf_buffer *b, enum pf_format format, struct pf_err *err)
{
	int r;

	PF_LOCK_SCOPE(&b->lock);
	r = pf_content_check(b, format, err);
	if (r == 0 && pf_formats[format].is_text && b->content)
		r = check_beginning(b, err);
	if (r == 0 && format == PF_FORMAT_SAFETENSORS && b->tensors != 1)
		return 1;
	return r;
}

void pf_buffer_set_format(struct pf_buffer *b, enum pf_format format)
{
	PF_CHANGE_SCOPE(buffer, b);
	b->format = format;
	b->header_len = 0;
	if (b->content)
		look_at_header_locked(b, 0, NULL);
	if (format == PF_FORMAT_NONE) {
		drop_value_locked(b);
		b->state = PF_BUFFER_SCRATCH;
	} else if (b->state == PF_BUFFER_SCRATCH) {
		b->state = b->content ? PF_BUFFER_INCOMPLETE : PF_BUFFER_EMPTY;
	}
}

/* An array without elements is complete without a write: no program writes zero bytes. */
static void whole_if_empty_locked(struct pf_buffer *b)
{
	struct pf_err why = PF_ERR_INIT;
	struct pf_value *v = NULL;

	if (b->size || !pf_content_is_nothing(b))
		return;
	drop_value_locked(b);
	pf_content_value(b, &v, &why);
	if (v)
		hold_locked(b, v);
	else
		pf_err_keep(&b->err, &why);
	set_state_locked(b, v ? PF_BUFFER_VALUE : PF_BUFFER_ERROR);
}

int pf_buffer_declare(struct pf_buffer *b, enum pf_dtype dtype,
		      const struct pf_shape *shape, struct pf_err *err)
{
	uint64_t bytes;
	int r = pf_shape_bytes(shape, dtype, &bytes, err);

	if (r < 0)
		return r;
	PF_CHANGE_SCOPE(buffer, b);
	r = pf_buffer_declare_locked(b, dtype, shape, err);
	if (r == 0)
		whole_if_empty_locked(b);
	return r;
}

int pf_buffer_truncate(struct pf_buffer *b, uint64_t size, struct pf_err *err)
{
	int r;

	PF_CHANGE_SCOPE(buffer, b);
	r = size > b->size ? write_bytes_locked(b, NULL, 0, size, err) : 0;
	if (r < 0)
		return r;
	b->size = size;
	pf_buffer_skip_lines_locked(b);
	b->refused = false;
	drop_value_locked(b);
	if (size == 0)
		drop_content_locked(b);
	if (size < b->header_len)
		b->header_len = 0;
	set_state_locked(b, size ? PF_BUFFER_INCOMPLETE : PF_BUFFER_EMPTY);
	if (size && !b->header_len)
		look_at_header_locked(b, 0, NULL);
	whole_if_empty_locked(b);
	return 0;
}

int pf_buffer_punch(struct pf_buffer *b, uint64_t off, uint64_t len, struct pf_err *err)
{
	uint64_t end;
	int r;

	if (__builtin_add_overflow(off, len, &end))
		end = UINT64_MAX;
	PF_CHANGE_SCOPE(buffer, b);
	if (!b->content || off >= b->size)
		return 0;
	/* While the value shares the bytes, a change would copy them. */
	drop_value_locked(b);
	r = make_room_locked(b, b->size, err);
	if (r == 0)
		pf_bytes_zero(b->content, off, end < b->size ? end : b->size);
	if (off < b->header_len)
		b->header_len = 0;
	set_state_locked(b, PF_BUFFER_INCOMPLETE);
	return r;
}

/* --- committing --------------------------------------------------------------------- */

/* The attempt to make a value of the content ended with V, R and WHY, as pf_content_value. */
static void committed_locked(struct pf_buffer *b, struct pf_value *v, int r,
			     const struct pf_err *why)
{
	if (r < 0) {
		pf_err_keep(&b->err, why);
		set_state_locked(b, b->refused || pf_content_is_whole(b)
					    ? PF_BUFFER_ERROR
					    : PF_BUFFER_INCOMPLETE);
		return;
	}
	if (v)
		hold_locked(b, pf_value_ref(v));
	set_state_locked(b, v ? PF_BUFFER_VALUE : PF_BUFFER_TENSORS);
	(void)made_locked(b, NULL);
}

int pf_buffer_commit(struct pf_buffer *b, bool partial_ok, struct pf_value **ret,
		     struct pf_err *err)
{
	struct pf_err why = PF_ERR_INIT;
	int r;

	*ret = NULL;
	PF_CHANGE_SCOPE(buffer, b);
	if (b->format == PF_FORMAT_NONE || (partial_ok && !pf_content_is_whole(b)))
		return 1;
	drop_value_locked(b);
	if (b->refused)
		pf_err_recall(&b->err, &why);
	r = b->refused ? why.code : pf_content_value(b, ret, &why);
	committed_locked(b, *ret, r, &why);
	if (r < 0 && err)
		*err = why;
	return r > 0 ? 2 : r;
}

void pf_buffer_refuse(struct pf_buffer *b, const struct pf_err *err)
{
	PF_CHANGE_SCOPE(buffer, b);
	pf_err_keep(&b->err, err);
	set_state_locked(b, PF_BUFFER_ERROR);
}

void pf_buffer_transferred(struct pf_buffer *b, struct pf_value *value, int code,
			   const struct pf_err *err)
{
	if (code >= 0)
		return;
	PF_CHANGE_SCOPE(buffer, b);
	/* If the worker died, the bytes are still valid: the value is transferred when it
	 * is used. */
	if (b->value != value || pf_value_state(value, NULL) != PF_VALUE_ERROR)
		return;
	drop_value_locked(b);
	pf_err_keep(&b->err, err);
	set_state_locked(b, PF_BUFFER_ERROR);
}

void pf_buffer_forget_donated(struct pf_buffer *b, struct pf_value *value)
{
	bool donated;

	pf_lock(&b->lock);
	donated = b->value == value;
	if (donated) {
		drop_content_locked(b);
		if (pf_value_state(value, NULL) != PF_VALUE_DONATED) {
			drop_value_locked(b);
			set_state_locked(b, PF_BUFFER_DONATED);
		}
		pf_buffer_save_locked(b);
	}
	pf_unlock(&b->lock);
	if (donated)
		pf_report(pf_worker_telemetry(pf_buffer_location(b)->worker), b->subject,
			  "buffer.donated");
}

/* --- another type ------------------------------------------------------------------- */

/*
 * 1: the array has SHAPE (NULL: DTYPE) already.  0: it may be given it.  -EINVAL: only a content
 * that does not name its type can be given one.
 */
static int check_retype(const struct pf_buffer *b, enum pf_dtype dtype,
			const struct pf_shape *shape, struct pf_err *err)
{
	struct pf_npy npy = { .dtype = PF_DTYPE_INVALID };
	const struct pf_shape *has = b->value ? &b->value->shape : &npy.shape;
	bool named;
	char text[128];

	if (b->format == PF_FORMAT_NPY)
		npy = pf_content_npy(b);
	named = npy.dtype != PF_DTYPE_INVALID;
	if ((named || b->value) &&
	    (shape ? pf_shape_equal(has, shape)
		   : dtype == (b->value ? b->value->dtype : npy.dtype)))
		return 1;
	if (named)
		return pf_err_set(err, -EINVAL, "its .npy header says %s",
				  pf_shape_str(text, sizeof(text), npy.dtype,
					       &npy.shape));
	if (b->value && !b->content)
		return pf_err_set(err, -EINVAL,
				  "only raw bytes, text and a .npy without a type can be "
				  "given one");
	return 0;
}

/* Declare the shape of the raw bytes with elements of DTYPE: the one they have, or one row. */
static int fit_shape(struct pf_buffer *b, enum pf_dtype dtype, struct pf_err *err)
{
	struct pf_shape row = { .rank = 1 };
	size_t size = pf_dtype_size(dtype);
	uint64_t want;

	if (!b->size || (b->declared_shape &&
			 pf_shape_bytes(b->declared_shape, dtype, &want, NULL) == 0 &&
			 want == b->size))
		return 0;
	if (b->size % size)
		return pf_err_set(err, -EINVAL,
				  "%" PRIu64 " bytes are not a whole number of %s",
				  b->size, pf_dtype_name(dtype));
	row.dims[0] = (int64_t)(b->size / size);
	return pf_buffer_declare_locked(b, b->declared, &row, err);
}

/* Would text that is an array still be one of DTYPE?  Long text is not looked at: it is refused,
 * if it must be, when it is committed. */
static int check_text(const struct pf_buffer *b, enum pf_dtype dtype, struct pf_err *err)
{
	pf_autobuf struct pf_buf data = PF_BUF_INIT;
	struct pf_shape shape;
	int r;

	if (!b->value || !b->content || b->size > TEXT_CHECKED)
		return 0;
	r = pf_text_parse(pf_bytes_at(b->content, 0), b->size, dtype, &shape, &data, err);
	return r == -ERANGE ? pf_err_wrap(err, -EINVAL, "its text") : r;
}

/* Are SIZE bytes, as a .npy header without a type says, an element of DTYPE? */
static int check_void(unsigned size, enum pf_dtype dtype, struct pf_err *err)
{
	if (pf_dtype_size(dtype) == size)
		return 0;
	return pf_err_set(err, -EINVAL, "%s has %zu bytes, its .npy header says %u",
			  pf_dtype_name(dtype), pf_dtype_size(dtype), size);
}

int pf_buffer_set_dtype(struct pf_buffer *b, enum pf_dtype dtype, struct pf_err *err)
{
	int r;

	PF_CHANGE_SCOPE(buffer, b);
	r = check_retype(b, dtype, NULL, err);
	if (r > 0)
		return 0;
	if (r == 0 && b->format == PF_FORMAT_NPY && b->header_len)
		r = check_void(pf_content_npy(b).void_size, dtype, err);
	if (r == 0 && b->format == PF_FORMAT_RAW)
		r = fit_shape(b, dtype, err);
	if (r == 0 && pf_formats[b->format].is_text)
		r = check_text(b, dtype, err);
	if (r < 0)
		return r;
	b->declared = dtype;
	return b->size && b->format != PF_FORMAT_NONE ? 1 : 0;
}

/* May the content have the shape, with which it takes WANT bytes? */
static int check_shape(const struct pf_buffer *b, const struct pf_shape *shape,
		       enum pf_dtype dtype, uint64_t want, struct pf_err *err)
{
	struct pf_npy npy;
	char text[128];

	/* A shape that is set before the header or the name is known is kept. */
	if (b->format == PF_FORMAT_NPY && b->header_len) {
		npy = pf_content_npy(b);
		if (!pf_shape_equal(&npy.shape, shape))
			return pf_err_set(err, -EINVAL,
					  "its .npy header says another shape: %s",
					  pf_shape_str(text, sizeof(text), dtype,
						       &npy.shape));
	}
	if ((b->format == PF_FORMAT_RAW && b->size && want != b->size) ||
	    (b->value && want != b->value->len))
		return pf_err_set(err, -EINVAL,
				  "%s takes %" PRIu64 " bytes, there are %" PRIu64,
				  pf_shape_str(text, sizeof(text), dtype, shape), want,
				  b->value ? b->value->len : b->size);
	return 0;
}

int pf_buffer_set_shape(struct pf_buffer *b, const struct pf_shape *shape,
			struct pf_err *err)
{
	enum pf_dtype dtype;
	uint64_t want;
	int r;

	PF_CHANGE_SCOPE(buffer, b);
	r = check_retype(b, PF_DTYPE_INVALID, shape, err);
	if (r != 0)
		return r < 0 ? r : 0;
	dtype = b->value ? b->value->dtype : b->declared;
	if (dtype == PF_DTYPE_INVALID)
		dtype = pf_formats[b->format].is_text ? PF_DTYPE_F32 : PF_DTYPE_U8;
	r = pf_shape_bytes(shape, dtype, &want, err);
	if (r == 0)
		r = check_shape(b, shape, dtype, want, err);
	if (r < 0)
		return r;
	r = pf_buffer_declare_locked(b, dtype, shape, err);
	if (r < 0)
		return r;
	return b->size && b->format != PF_FORMAT_NONE ? 1 : 0;
}

/* --- its location ------------------------------------------------------------------- */

int pf_location_memory(const struct pf_location *location, const char *kind,
		       unsigned *ret, struct pf_err *err)
{
	const struct pf_device_desc *d =
		&pf_worker_description(location->worker)->devices[location->device];
	pf_autobuf struct pf_buf has = PF_BUF_INIT;

	for (unsigned i = 0; i < d->n_memories; i++) {
		if (!strcmp(d->memories[i].kind, kind)) {
			*ret = i == d->default_memory ? PF_DEFAULT_MEMORY : i;
			return 0;
		}
		pf_buf_printf(&has, "%s%s", i ? ", " : "", d->memories[i].kind);
	}
	return pf_err_set(err, -EINVAL, "device %s has no memory %.64s (it has %s)",
			  location->device_name, kind, has.data ? has.data : "none");
}

/* Is B's account charged for what SNAPSHOT shows? */
static bool is_charged(struct pf_buffer *b, const struct pf_snapshot *snapshot)
{
	PF_LOCK_SCOPE(&b->lock);
	return (!snapshot->array || snapshot->array->account == b->account) &&
	       (!snapshot->content || snapshot->content->account == b->account);
}

bool pf_buffer_take(struct pf_buffer *b, const struct pf_snapshot *snapshot,
		    struct pf_value **ret)
{
	struct pf_value *v = NULL;

	if (!is_charged(b, snapshot))
		return false;
	if (snapshot->array && pf_value_state(snapshot->array, NULL) != PF_VALUE_DONATED)
		v = pf_value_at(snapshot->array,
				pf_location_place(b->location, b->memory),
				snapshot->array->account);
	if (!v && !snapshot->content)
		return false;
	PF_CHANGE_SCOPE(buffer, b);
	if (v && (pf_buffer_declare_locked(b, v->dtype, &v->shape, NULL) < 0 ||
		  made_locked(b, "copy") < 0)) {
		pf_value_unref(v);
		return false;
	}
	drop_value_locked(b);
	drop_content_locked(b);
	pf_buffer_skip_lines_locked(b);
	if (snapshot->content) {
		b->content = pf_bytes_ref(snapshot->content);
		b->size = snapshot->size;
	}
	(void)pf_content_head(b, b->format, false, NULL);
	b->refused = false;
	b->state = v ? PF_BUFFER_VALUE : PF_BUFFER_INCOMPLETE;
	if (v)
		hold_locked(b, pf_value_ref(v));
	*ret = v;
	return true;
}

void pf_buffer_change_home(struct pf_buffer *b, const struct pf_location *location)
{
	const struct pf_location *former;

	pf_arena_hold(location->arena);
	former = atomic_exchange(&b->location, location);
	if (former->arena == location->arena)
		pf_arena_let_go(former->arena);
}

int pf_buffer_move(struct pf_buffer *b, const struct pf_location *location,
		   unsigned memory, struct pf_value **ret, struct pf_err *err)
{
	struct pf_value *old = NULL;

	*ret = NULL;
	PF_CHANGE_SCOPE(buffer, b);
	if (b->value) {
		*ret = pf_value_at(b->value, pf_location_place(location, memory),
				   b->value->account);
		if (!*ret)
			return pf_err_set(err, -ENOMEM, "no memory for a value");
		old = b->value;
		b->former = old->dtype;
		hold_locked(b, pf_value_ref(*ret));
	}
	b->location = location;
	b->memory = memory;
	if (old) {
		/* A daemon that dies now leaves one value or the other. */
		pf_buffer_save_locked(b);
		pf_value_let_go(old);
		pf_value_unref(old);
	}
	return 0;
}
