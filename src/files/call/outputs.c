/* SPDX-License-Identifier: Apache-2.0 */
/* What a call gives: .npy files, one after another, or an error. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"

enum { KEEP = 1 << 17 }; /* bytes of text that stay for the next call */

/* Headers depend on the program alone: print them once. */
static int print_heads(struct call_outputs *out, struct pf_loaded *loaded)
{
	const struct pf_signature *s = loaded->signature;

	if (out->loaded == loaded)
		return 0;
	pf_loaded_unref(pf_steal(&out->loaded));
	free(out->ends);
	out->ends = calloc(s->n_outputs + 1, sizeof(*out->ends));
	out->heads.len = 0;
	for (size_t i = 0; out->ends && i < s->n_outputs; i++) {
		pf_npy_print(&out->heads, s->outputs[i].dtype, &s->outputs[i].shape);
		out->ends[i] = out->heads.len;
	}
	if (!out->ends || out->heads.failed) {
		pf_buf_release(&out->heads);
		return -ENOMEM;
	}
	out->loaded = pf_loaded_ref(loaded);
	return 0;
}

static void clear(struct call_outputs *out)
{
	pf_invocation_free(pf_steal(&out->invocation));
	if (out->text.cap > KEEP)
		pf_buf_release(&out->text);
	out->text.len = 0;
	out->n = out->next = 0;
	out->at = 0;
}

/* Text since FROM is a piece. */
static void end_text(struct call_outputs *out, size_t *from)
{
	if (out->text.len > *from)
		out->pieces[out->n++] =
			(struct call_piece){ .off = *from, .len = out->text.len - *from };
	*from = out->text.len;
}

static int make_room(struct call_outputs *out, size_t n)
{
	struct call_piece *more;

	if (n <= out->cap)
		return 0;
	more = realloc(out->pieces, n * sizeof(*more));
	if (!more)
		return -ENOMEM;
	out->pieces = more;
	out->cap = n;
	return 0;
}

int call_outputs_fill(struct call_outputs *out, struct pf_loaded *loaded,
		      struct pf_invocation *v)
{
	size_t from = 0, head = 0;

	clear(out);
	out->invocation = v;
	if (print_heads(out, loaded) < 0 || make_room(out, 2 * v->n_outs + 1) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < v->n_outs; i++) {
		const struct pf_result *result = &v->outs[i];

		pf_buf_append(&out->text, out->heads.data + head, out->ends[i] - head);
		head = out->ends[i];
		if (result->fleeting) {
			pf_buf_append(&out->text, result->data, result->len);
		} else {
			end_text(out, &from);
			out->pieces[out->n++] = (struct call_piece){ .data = result->data,
								     .len = result->len };
		}
	}
	end_text(out, &from);
	if (!out->text.failed)
		return 0;
	pf_buf_release(&out->text);
	clear(out);
	return -ENOMEM;
}

void call_outputs_say(struct call_outputs *out, const struct pf_buf *text)
{
	size_t from = 0;

	clear(out);
	pf_buf_append(&out->text, text->data, text->len);
	if (make_room(out, 1) == 0)
		end_text(out, &from);
	out->text.failed = false;
}

static const char *bytes_of(const struct call_outputs *out, size_t i)
{
	const struct call_piece *p = &out->pieces[i];

	return p->data ? p->data : out->text.data + p->off;
}

size_t call_outputs_peek(struct call_outputs *out, size_t len, const char **data,
			 char **joined)
{
	uint64_t first, all = 0;
	size_t n = 0;

	*joined = NULL;
	*data = "";
	if (out->next == out->n)
		return 0;
	first = out->pieces[out->next].len - out->at;
	*data = bytes_of(out, out->next) + out->at;
	if (first >= len)
		return len;
	for (size_t i = out->next; i < out->n && all < len; i++)
		all += out->pieces[i].len - (i == out->next ? out->at : 0);
	if (all > len)
		all = len;
	if (all > first)
		*joined = malloc(all);
	if (!*joined)
		return first;
	for (size_t i = out->next; n < all; i++) {
		uint64_t from = i == out->next ? out->at : 0;
		uint64_t m = out->pieces[i].len - from;

		if (m > all - n)
			m = all - n;
		memcpy(*joined + n, bytes_of(out, i) + from, m);
		n += m;
	}
	*data = *joined;
	return n;
}

bool call_outputs_read(struct call_outputs *out, size_t len)
{
	while (out->next < out->n && len >= out->pieces[out->next].len - out->at) {
		len -= out->pieces[out->next].len - out->at;
		out->next++;
		out->at = 0;
	}
	out->at += len;
	if (out->next < out->n)
		return false;
	clear(out);
	return true;
}

void call_outputs_release(struct call_outputs *out)
{
	clear(out);
	pf_buf_release(&out->text);
	pf_buf_release(&out->heads);
	pf_loaded_unref(out->loaded);
	free(out->pieces);
	free(out->ends);
}
