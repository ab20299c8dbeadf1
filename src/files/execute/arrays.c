/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of a conversation: .npy files, or their data alone, one after another. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* --- headers -------------------------------------------------------------------------- */

int array_heads_print(struct array_heads *heads, const struct pf_param *params, size_t n,
		      struct pf_err *err)
{
	heads->text.len = 0;
	free(heads->ends);
	heads->ends = calloc(n + 1, sizeof(*heads->ends));
	for (size_t i = 0; heads->ends && i < n; i++) {
		pf_npy_print(&heads->text, params[i].dtype, &params[i].shape);
		heads->ends[i + 1] = heads->text.len;
	}
	if (heads->ends && !heads->text.failed)
		return 0;
	array_heads_release(heads);
	return pf_err_set(err, -ENOMEM, "no memory for headers");
}

const char *array_head(const struct array_heads *heads, size_t i, size_t *len)
{
	*len = heads->ends[i + 1] - heads->ends[i];
	return heads->text.data + heads->ends[i];
}

void array_heads_release(struct array_heads *heads)
{
	pf_buf_release(&heads->text);
	free(pf_steal(&heads->ends));
}

/* --- arrays that come ----------------------------------------------------------------- */

enum {
	KEEP_ROOM = 1 << 16, /* bytes of arrays that are kept for the next ones */
	KEEP_HEAD = 1 << 12, /* and of a header's */
	SLOW_TRANSPOSE = 1 << 20,
};

/* Set the offset of every array. */
static int lay_out(struct arrays_in *in, struct pf_err *err)
{
	uint64_t at = 0, len;

	for (size_t i = 0; i < in->n; i++) {
		int r = pf_shape_bytes(&in->params[i].shape, in->params[i].dtype, &len,
				       err);

		if (r < 0)
			return r;
		in->offs[i] = at;
		if (__builtin_add_overflow(at, len + PF_ALIGNMENT - 1, &at))
			return pf_err_set(err, -EOVERFLOW,
					  "the %ss take more than 2^64 bytes", in->what);
		at -= at % PF_ALIGNMENT;
	}
	in->size = at;
	return 0;
}

int arrays_in_begin(struct arrays_in *in, struct pf_arena *arena,
		    const struct pf_param *params, size_t n, struct pf_err *err)
{
	int r = 0;

	arrays_in_release(in);
	in->arena = arena;
	in->params = params;
	in->n = n;
	in->offs = calloc(n + 1, sizeof(*in->offs));
	in->transposed = calloc(n + 1, sizeof(struct pf_bytes *));
	if (!in->offs || !in->transposed)
		r = pf_err_set(err, -ENOMEM, "no memory for %zu %ss", n, in->what);
	if (r == 0)
		r = lay_out(in, err);
	if (r == 0)
		r = array_heads_print(&in->heads, params, n, err);
	if (r < 0)
		arrays_in_release(in);
	return r;
}

/* Put the name of the current array, "input 1 (y)", before ERR's sentence. */
static int wrap(const struct arrays_in *in, int code, struct pf_err *err)
{
	const char *name = in->params[in->next].name;

	if (name && *name)
		return pf_err_wrap(err, code, "%s %zu (%s)", in->what, in->next, name);
	return pf_err_wrap(err, code, "%s %zu", in->what, in->next);
}

/* Does the header describe what the program takes?  Some types have no name of their own
 * in .npy files, and use another's. */
static int check(const struct arrays_in *in, const struct pf_npy *npy, struct pf_err *err)
{
	const struct pf_param *want = &in->params[in->next];
	char a[128], b[128], advice[256],
		bytes[16] = ""; /* "V2", of a type that has no name */
	bool same;

	if (npy->dtype == PF_DTYPE_INVALID) {
		same = npy->void_size == pf_dtype_size(want->dtype);
		snprintf(bytes, sizeof(bytes), "V%u", npy->void_size);
	} else {
		same = !strcmp(pf_dtype_npy_descr(npy->dtype),
			       pf_dtype_npy_descr(want->dtype));
	}
	if (same && pf_shape_equal_but_ones(&npy->shape, &want->shape))
		return 0;
	return pf_err_set(err, -EINVAL, "%s%s came, the program wants %s%s", bytes,
			  pf_shape_str(a, sizeof(a), npy->dtype, &npy->shape),
			  pf_shape_str(b, sizeof(b), want->dtype, &want->shape),
			  pf_param_advice(advice, sizeof(advice), want, npy->dtype,
					  &npy->shape, PF_TYPED));
}

/* The header is right: allocate memory for its data. */
static int begin_data(struct arrays_in *in, bool fortran_order, struct pf_err *err)
{
	const struct pf_param *want = &in->params[in->next];
	int r = pf_shape_bytes(&want->shape, want->dtype, &in->len, err);

	if (r == 0 && !in->bytes)
		r = pf_bytes_new(in->arena, in->account, in->size, &in->bytes, err);
	if (r == 0 && fortran_order) {
		r = pf_bytes_new(in->arena, in->account, in->len,
				 &in->transposed[in->next], err);
		in->to_transpose += r == 0 ? in->len : 0;
	}
	in->in_data = r == 0;
	in->got = 0;
	return r;
}

/* The bytes of a header that were written so far, *LEN of them. */
static const char *head_so_far(struct arrays_in *in, const char *src, size_t *len)
{
	if (!in->head.len)
		return src;
	pf_buf_append(&in->head, src, *len);
	*len = in->head.len;
	return in->head.data;
}

/* Most headers come in one write, and as NumPy prints them: comparing is faster than
 * parsing. */
static ssize_t take_head(struct arrays_in *in, const char *src, size_t len,
			 struct pf_err *err)
{
	size_t had = in->head.len, all;
	const char *head = array_head(&in->heads, in->next, &all);
	struct pf_npy npy;
	int r;

	if (!had && len >= all && !memcmp(src, head, all)) {
		r = begin_data(in, false, err);
		return r < 0 ? r : (ssize_t)all;
	}
	if (len > PF_NPY_MAX_HEADER - had)
		len = PF_NPY_MAX_HEADER - had;
	all = len;
	head = head_so_far(in, src, &all);
	r = pf_npy_parse(head, all, &npy, err);
	if (r == 0 && !had)
		pf_buf_append(&in->head, src, len);
	if (in->head.failed)
		r = pf_err_set(err, -ENOMEM, "no memory for a header");
	if (r > 0)
		r = check(in, &npy, err) < 0 ? err->code : 1;
	if (r > 0 && begin_data(in, npy.fortran_order, err) < 0)
		r = err->code;
	if (r <= 0)
		return r < 0 ? r : (ssize_t)len;
	in->head.len = 0;
	return (ssize_t)(npy.header_len - had);
}

static size_t take_data(struct arrays_in *in, const char *src, size_t len)
{
	struct pf_bytes *transposed = in->transposed[in->next];
	char *dst = transposed ? pf_bytes_at(transposed, in->got)
			       : pf_bytes_at(in->bytes, in->offs[in->next] + in->got);

	if (len > in->len - in->got)
		len = in->len - in->got;
	memcpy(dst, src, len);
	in->got += len;
	return len;
}

/* A newline starts a program to which no bytes can be written. */
static ssize_t take_newline(struct arrays_in *in, char c, struct pf_err *err)
{
	int r;

	if (c != '\n')
		return pf_err_set(err, -EINVAL,
				  "there are no %ss to be written: expected a newline, "
				  "found byte %u",
				  in->what, (unsigned char)c);
	r = in->bytes ? 0 : pf_bytes_new(in->arena, in->account, 1, &in->bytes, err);
	in->whole = r == 0;
	return r < 0 ? r : 1;
}

/* Has the next array neither a header nor data? */
static bool is_empty(const struct arrays_in *in)
{
	const struct pf_param *next = &in->params[in->next];
	uint64_t len = 0;

	return in->raw && !in->in_data &&
	       pf_shape_bytes(&next->shape, next->dtype, &len, NULL) == 0 && !len;
}

ssize_t arrays_in_take(struct arrays_in *in, const char *src, size_t len,
		       struct pf_err *err)
{
	size_t used = 0;
	ssize_t r;

	if (!in->n || (in->raw && !in->size))
		return take_newline(in, *src, err);
	while (!in->whole && (used < len || is_empty(in))) {
		if (in->in_data)
			r = (ssize_t)take_data(in, src + used, len - used);
		else if (in->raw)
			r = begin_data(in, false, err);
		else
			r = take_head(in, src + used, len - used, err);
		if (r < 0)
			return wrap(in, (int)r, err);
		used += (size_t)r;
		if (in->in_data && in->got == in->len) {
			in->in_data = false;
			in->whole = ++in->next == in->n;
		}
	}
	return (ssize_t)used;
}

bool arrays_in_begun(const struct arrays_in *in)
{
	return in->next || in->in_data || in->head.len || in->whole;
}

void arrays_in_missing(const struct arrays_in *in, struct pf_err *err)
{
	if (in->in_data)
		pf_err_set(err, -EINVAL, "%" PRIu64 " of %" PRIu64 " bytes of data came",
			   in->got, in->len);
	else
		pf_err_set(err, -EINVAL, "%zu bytes of a header came", in->head.len);
	wrap(in, -EINVAL, err);
	pf_err_wrap(err, -EINVAL, "not all of the %zu %ss were written", in->n, in->what);
}

void arrays_in_transpose(struct arrays_in *in)
{
	for (size_t i = 0; in->to_transpose && i < in->n; i++) {
		if (!in->transposed[i])
			continue;
		pf_shape_to_row_major(&in->params[i].shape,
				      pf_dtype_size(in->params[i].dtype),
				      pf_bytes_at(in->transposed[i], 0),
				      pf_bytes_at(in->bytes, in->offs[i]));
		pf_bytes_unref(pf_steal(&in->transposed[i]));
	}
	in->to_transpose = 0;
}

bool arrays_in_is_slow(const struct arrays_in *in)
{
	return in->to_transpose >= SLOW_TRANSPOSE;
}

void arrays_in_drop(struct arrays_in *in)
{
	for (size_t i = 0; in->to_transpose && i < in->n; i++)
		pf_bytes_unref(pf_steal(&in->transposed[i]));
	in->to_transpose = 0;
	in->in_data = in->whole = false;
	in->next = 0;
	in->head.len = 0;
	if (in->head.cap > KEEP_HEAD || in->head.failed)
		pf_buf_release(&in->head);
	if (in->size > KEEP_ROOM)
		pf_bytes_unref(pf_steal(&in->bytes));
}

void arrays_in_release(struct arrays_in *in)
{
	arrays_in_drop(in);
	pf_bytes_unref(pf_steal(&in->bytes));
	free(pf_steal(&in->offs));
	free(pf_steal(&in->transposed));
	pf_buf_release(&in->head);
	array_heads_release(&in->heads);
	in->n = 0;
}

/* --- arrays that go ------------------------------------------------------------------- */

enum { KEEP_TEXT = 1 << 17 }; /* bytes of text that are kept for the next ones */

void arrays_out_clear(struct arrays_out *out)
{
	if (out->kept)
		out->drop(pf_steal(&out->kept));
	if (out->text.cap > KEEP_TEXT || out->text.failed)
		pf_buf_release(&out->text);
	out->text.len = 0;
	out->n = out->next = 0;
}

int arrays_out_begin(struct arrays_out *out, size_t n, size_t len)
{
	struct iovec *more;

	arrays_out_clear(out);
	more = n > out->cap ? reallocarray(out->pieces, n, sizeof(*more)) : out->pieces;
	if (!more)
		return -ENOMEM;
	out->cap = n > out->cap ? n : out->cap;
	out->pieces = more;
	return pf_buf_reserve(&out->text, len) ? 0 : -ENOMEM;
}

/* Append LEN bytes, which are borrowed. */
static void add_data(struct arrays_out *out, const void *data, size_t len)
{
	struct iovec *last = out->n ? &out->pieces[out->n - 1] : NULL;

	if (last && (char *)last->iov_base + last->iov_len == data)
		last->iov_len += len;
	else
		out->pieces[out->n++] = (struct iovec){ (void *)(uintptr_t)data, len };
}

void arrays_out_text(struct arrays_out *out, const void *text, size_t len)
{
	pf_buf_append(&out->text, text, len);
	add_data(out, out->text.data + out->text.len - len, len);
}

void arrays_out_array(struct arrays_out *out, const struct array_heads *heads, size_t i,
		      const void *data, size_t len, bool copy)
{
	size_t head_len;
	const char *head = heads ? array_head(heads, i, &head_len) : NULL;

	if (head)
		arrays_out_text(out, head, head_len);
	if (copy)
		arrays_out_text(out, data, len);
	else if (len)
		add_data(out, data, len);
}

int arrays_out_say(struct arrays_out *out, const struct pf_buf *text)
{
	int r = arrays_out_begin(out, 1, text->len);

	if (r == 0 && text->len)
		arrays_out_text(out, text->data, text->len);
	return r;
}

/*
 * Set *DATA to the next bytes, up to LEN.  Returns how many, 0 at the end.  The caller
 * frees *JOINED, which may be NULL.
 */
static size_t peek(struct arrays_out *out, size_t len, const char **data, char **joined)
{
	const struct iovec *first = &out->pieces[out->next];
	size_t all = 0, n = 0;

	*joined = NULL;
	*data = "";
	for (size_t i = out->next; i < out->n && all < len; i++)
		all += out->pieces[i].iov_len;
	if (all > len)
		all = len;
	if (!all)
		return 0;
	*data = first->iov_base;
	if (all <= first->iov_len)
		return all;
	*joined = malloc(all);
	if (!*joined)
		return first->iov_len;
	for (const struct iovec *piece = first; n < all; piece++) {
		size_t m = piece->iov_len < all - n ? piece->iov_len : all - n;

		memcpy(*joined + n, piece->iov_base, m);
		n += m;
	}
	*data = *joined;
	return n;
}

/* LEN bytes were read. */
static void consume(struct arrays_out *out, size_t len)
{
	struct iovec *piece = &out->pieces[out->next];

	for (; out->next < out->n && len >= piece->iov_len; piece++, out->next++)
		len -= piece->iov_len;
	if (out->next == out->n) {
		arrays_out_clear(out);
		return;
	}
	piece->iov_base = (char *)piece->iov_base + len;
	piece->iov_len -= len;
}

size_t arrays_out_answer(struct arrays_out *out, size_t len, struct pf_reply *reply)
{
	pf_autofree char *joined = NULL;
	const char *data;
	size_t n = peek(out, len, &data, &joined);

	pf_reply_send(pf_reply_ref(reply), 0, data, n);
	consume(out, n);
	return n;
}

void arrays_out_release(struct arrays_out *out)
{
	arrays_out_clear(out);
	pf_buf_release(&out->text);
	free(out->pieces);
}
