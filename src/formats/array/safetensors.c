/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .safetensors headers.
 *
 * The parser reads the text once and allocates only its result: a tree of objects of the
 * longest header would take gigabytes, and the grammar is small.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "pjrtfs/array.h"
#include "pjrtfs/array_files.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"

enum { PREAMBLE = 8 }; /* bytes of the JSON's length */

static const char metadata_name[] = "__metadata__";

struct parser {
	struct pf_json_reader json; /* over the header, all of it */
	struct pf_buf word;         /* the last key of a tensor, or name of a type */
	struct pf_buf names;        /* each with its NUL, in the order of the text */
	struct pf_tensor *tensors;  /* likewise; owned, without their names */
	size_t n, cap;
	bool metadata; /* was there */
};

enum { QUOTED = 80 }; /* bytes that quote writes at most */

/* A name for a sentence: one that is too long is cut between two characters. */
static const char *quote(char dst[static QUOTED], const char *name)
{
	size_t len = strnlen(name, QUOTED);
	bool cut = len > QUOTED - 6;

	if (cut)
		for (len = QUOTED - 6; ((unsigned char)name[len] & 0xc0) == 0x80;)
			len--;
	dst[0] = '"';
	memcpy(dst + 1, name, len);
	strcpy(dst + 1 + len, cut ? "\"..." : "\"");
	return dst;
}

static int no_memory(struct parser *ps)
{
	return pf_err_set(ps->json.err, -ENOMEM, "no memory for the tensors");
}

static int read_word(struct parser *ps, const char *want)
{
	pf_buf_consume(&ps->word, ps->word.len);
	return pf_json_string(&ps->json, &ps->word, want);
}

static int read_dtype(struct parser *ps, enum pf_dtype *ret)
{
	char name[QUOTED];
	int r = read_word(ps, "a type such as \"F32\" for dtype");

	if (r < 0)
		return r;
	*ret = pf_dtype_from_safetensors(ps->word.data, ps->word.len);
	if (*ret == PF_DTYPE_INVALID)
		return pf_err_set(ps->json.err, -EINVAL,
				  "expected a type of a device for dtype, found %s",
				  quote(name, ps->word.data));
	return 0;
}

static int read_shape(struct parser *ps, struct pf_shape *shape)
{
	bool first = true;
	int r;

	shape->rank = 0;
	r = pf_json_expect(&ps->json, '[', "a list such as [2,3] for shape");
	if (r < 0)
		return r;
	while ((r = pf_json_next(&ps->json, ']', &first)) > 0) {
		if (shape->rank == PF_MAX_RANK)
			return pf_err_set(ps->json.err, -EINVAL,
					  "expected at most %d extents in shape, found "
					  "more",
					  PF_MAX_RANK);
		r = pf_json_number(&ps->json, &shape->dims[shape->rank],
				   "an extent (a whole number) in shape");
		if (r < 0)
			return r;
		shape->rank++;
	}
	return r;
}

static int read_offsets(struct parser *ps, struct pf_tensor *tensor)
{
	static const char want[] = "a list of two whole numbers for data_offsets";
	int64_t begin = 0, end = 0;
	int r;

	r = pf_json_expect(&ps->json, '[', want);
	r = r < 0 ? r : pf_json_number(&ps->json, &begin, want);
	r = r < 0 ? r : pf_json_expect(&ps->json, ',', want);
	r = r < 0 ? r : pf_json_number(&ps->json, &end, want);
	r = r < 0 ? r : pf_json_expect(&ps->json, ']', want);
	if (r < 0)
		return r;
	if (end < begin)
		return pf_err_set(ps->json.err, -EINVAL,
				  "expected data_offsets that begin before they end, "
				  "found [%" PRId64 ",%" PRId64 "]",
				  begin, end);
	tensor->off = (uint64_t)begin;
	tensor->len = (uint64_t)(end - begin);
	return 0;
}

/* Do the offsets leave as much room as the type and the shape take? */
static int check_size(struct parser *ps, const struct pf_tensor *tensor)
{
	char text[PF_SHAPE_TEXT];
	uint64_t host, want;
	int64_t count = 0;
	int r;

	r = pf_shape_bytes(&tensor->shape, tensor->dtype, &host, ps->json.err);
	if (r < 0)
		return r;
	(void)pf_shape_count(&tensor->shape, &count, NULL);
	want = pf_pack_size(tensor->dtype, (uint64_t)count);
	if (tensor->len == want)
		return 0;
	return pf_err_set(ps->json.err, -EINVAL,
			  "expected data_offsets %" PRIu64
			  " apart for %s, found [%" PRIu64 ",%" PRIu64 "]",
			  want,
			  pf_shape_str(text, sizeof(text), tensor->dtype, &tensor->shape),
			  tensor->off, tensor->off + tensor->len);
}

enum { KEY_DTYPE, KEY_SHAPE, KEY_OFFSETS, N_KEYS };
static const char *const keys[N_KEYS] = { "dtype", "shape", "data_offsets" };

static int read_key(struct parser *ps, unsigned *seen, int *ret)
{
	static const char want[] = "a key (\"dtype\", \"shape\" or \"data_offsets\")";
	char name[QUOTED];
	int r, key;

	r = read_word(ps, want);
	if (r < 0)
		return r;
	for (key = 0; key < N_KEYS; key++)
		if (strcmp(ps->word.data, keys[key]) == 0)
			break;
	if (key == N_KEYS)
		return pf_err_set(ps->json.err, -EINVAL, "expected %s, found %s", want,
				  quote(name, ps->word.data));
	if (*seen & 1u << key)
		return pf_err_set(ps->json.err, -EINVAL,
				  "expected each key once, found \"%s\" twice",
				  keys[key]);
	*seen |= 1u << key;
	*ret = key;
	return pf_json_expect(&ps->json, ':', "':' behind a key");
}

static int read_tensor(struct parser *ps, struct pf_tensor *tensor)
{
	bool first = true;
	unsigned seen = 0;
	int r, key = 0;

	r = pf_json_expect(&ps->json, '{',
			   "an object with dtype, shape and data_offsets");
	if (r < 0)
		return r;
	while ((r = pf_json_next(&ps->json, '}', &first)) > 0) {
		r = read_key(ps, &seen, &key);
		if (r < 0)
			return r;
		if (key == KEY_DTYPE)
			r = read_dtype(ps, &tensor->dtype);
		else if (key == KEY_SHAPE)
			r = read_shape(ps, &tensor->shape);
		else
			r = read_offsets(ps, tensor);
		if (r < 0)
			return r;
	}
	for (key = 0; r == 0 && key < N_KEYS; key++)
		if (!(seen & 1u << key))
			return pf_err_set(ps->json.err, -EINVAL,
					  "expected a key \"%s\", found none", keys[key]);
	return r < 0 ? r : check_size(ps, tensor);
}

static int read_metadata(struct parser *ps)
{
	bool first = true;
	int r;

	if (ps->metadata)
		return pf_err_set(ps->json.err, -EINVAL,
				  "expected it once, found it twice");
	ps->metadata = true;
	r = pf_json_expect(&ps->json, '{', "an object of strings");
	if (r < 0)
		return r;
	while ((r = pf_json_next(&ps->json, '}', &first)) > 0) {
		r = pf_json_string(&ps->json, NULL, "a key in double quotes");
		r = r < 0 ? r : pf_json_expect(&ps->json, ':', "':' behind a key");
		r = r < 0 ? r : pf_json_string(&ps->json, NULL, "a string");
		if (r < 0)
			return r;
	}
	return r;
}

/* Room for one tensor more. */
static int grow(struct parser *ps)
{
	struct pf_tensor *tensors;
	size_t cap = ps->cap ? 2 * ps->cap : 4;

	if (ps->n == PF_SAFETENSORS_MAX_TENSORS)
		return pf_err_set(ps->json.err, -E2BIG,
				  "expected at most %d tensors, found more",
				  PF_SAFETENSORS_MAX_TENSORS);
	if (ps->n < ps->cap)
		return 0;
	tensors = reallocarray(ps->tensors, cap, sizeof(*tensors));
	if (!tensors)
		return no_memory(ps);
	ps->tensors = tensors;
	ps->cap = cap;
	return 0;
}

/* A name and its tensor. */
static int read_member(struct parser *ps)
{
	size_t at = ps->names.len;
	char name[QUOTED];
	int r;

	r = pf_json_string(&ps->json, &ps->names, "a tensor's name in double quotes");
	r = r < 0 ? r : pf_json_expect(&ps->json, ':', "':' behind a tensor's name");
	if (r < 0)
		return r;
	if (strcmp(ps->names.data + at, metadata_name) == 0) {
		ps->names.len = at;
		r = read_metadata(ps);
		return r < 0 ? pf_err_wrap(ps->json.err, r, "%s", metadata_name) : 0;
	}
	r = grow(ps);
	if (r < 0)
		return r;
	pf_buf_append(&ps->names, "", 1);
	if (ps->names.failed)
		return no_memory(ps);
	ps->tensors[ps->n] = (struct pf_tensor){ 0 };
	r = read_tensor(ps, &ps->tensors[ps->n]);
	if (r < 0)
		return pf_err_wrap(ps->json.err, r, "tensor %s",
				   quote(name, ps->names.data + at));
	ps->n++;
	return 0;
}

static int read_header(struct parser *ps)
{
	bool first = true;
	int r;

	r = pf_json_expect(&ps->json, '{', "'{'");
	if (r < 0)
		return r;
	while ((r = pf_json_next(&ps->json, '}', &first)) > 0) {
		r = read_member(ps);
		if (r < 0)
			return r;
	}
	while (ps->json.p < ps->json.end && *ps->json.p == ' ')
		ps->json.p++;
	if (r == 0 && ps->json.p < ps->json.end)
		return pf_json_bad(&ps->json, "only spaces behind the object");
	return r;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_offset(const void *a, const void *b)
{
	const struct pf_tensor *x = a, *y = b;

	if (x->off != y->off)
		return x->off < y->off ? -1 : 1;
	/* Empty tensors come before the one whose data begin there, in the text's order. */
	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

static int check_names(const struct pf_tensor *tensors, size_t n, struct pf_err *err)
{
	pf_autofree const char **names = NULL;
	char name[QUOTED];

	if (n < 2)
		return 0;
	names = reallocarray(NULL, n, sizeof(*names));
	if (!names)
		return pf_err_set(err, -ENOMEM, "no memory for the tensors' names");
	for (size_t i = 0; i < n; i++)
		names[i] = tensors[i].name;
	qsort(names, n, sizeof(*names), by_name);
	for (size_t i = 1; i < n; i++)
		if (strcmp(names[i - 1], names[i]) == 0)
			return pf_err_set(err, -EINVAL,
					  "expected each name once, found %s twice",
					  quote(name, names[i]));
	return 0;
}

/* Sorted, each tensor begins where the one before it ends: that leaves no other place. */
static int check_offsets(struct pf_tensor *tensors, size_t n, uint64_t *data_len,
			 struct pf_err *err)
{
	uint64_t end = 0;
	char name[QUOTED], before[QUOTED];
	bool sorted = true;

	for (size_t i = 1; sorted && i < n; i++)
		sorted = by_offset(&tensors[i - 1], &tensors[i]) < 0;
	if (!sorted)
		qsort(tensors, n, sizeof(*tensors), by_offset);
	for (size_t i = 0; i < n; i++) {
		if (tensors[i].off != end)
			return pf_err_set(err, -EINVAL,
					  "tensor %s: expected data_offsets from %" PRIu64
					  ", where %s%s, found %" PRIu64,
					  quote(name, tensors[i].name), end,
					  i ? quote(before, tensors[i - 1].name)
					    : "the data",
					  i ? " ends" : " begin", tensors[i].off);
		end += tensors[i].len;
	}
	if (end > UINT64_C(1) << 62)
		return pf_err_set(err, -EOVERFLOW,
				  "expected at most 2^62 bytes of data, found %" PRIu64,
				  end);
	*data_len = end;
	return 0;
}

/* Give the tensors their names, now that these no longer move, and look at all of them. */
static int finish(struct parser *ps, struct pf_safetensors *ret)
{
	const char *name = ps->names.data;
	struct pf_tensor *fewer;
	int r;

	for (size_t i = 0; i < ps->n; i++) {
		ps->tensors[i].name = name;
		name += strlen(name) + 1;
	}
	r = check_names(ps->tensors, ps->n, ps->json.err);
	r = r < 0 ? r : check_offsets(ps->tensors, ps->n, &ret->data_len, ps->json.err);
	if (r < 0)
		return r;
	fewer = ps->n ? reallocarray(ps->tensors, ps->n, sizeof(*fewer)) : NULL;
	if (fewer)
		ps->tensors = fewer;
	ret->n = ps->n;
	ret->tensors = pf_steal(&ps->tensors);
	ret->names = pf_steal(&ps->names.data);
	return 1;
}

int pf_safetensors_length(const void *data, uint64_t len, uint64_t *header_len,
			  struct pf_err *err)
{
	const unsigned char *src = data;
	uint64_t n = 0;

	if (len < PREAMBLE)
		return 0;
	for (int i = PREAMBLE; i-- > 0;)
		n = n << 8 | src[i];
	if (memcmp(src, "\x93NUMPY", 6) == 0)
		return pf_err_set(
			err, -EINVAL,
			"not a .safetensors file: found a .npy file: call it .npy");
	if (n < 2 || n > PF_SAFETENSORS_MAX_HEADER)
		return pf_err_set(
			err, -EINVAL,
			"not a .safetensors file: expected it to begin with the "
			"header's length, 2 to %d bytes, found %" PRIu64,
			PF_SAFETENSORS_MAX_HEADER, n);
	if (len > PREAMBLE && src[PREAMBLE] != '{')
		return pf_err_set(
			err, -EINVAL,
			"not a .safetensors file: expected a header that begins "
			"with '{', found \"%.1s\"",
			(const char *)src + PREAMBLE);
	*header_len = PREAMBLE + n;
	return 1;
}

int pf_safetensors_parse(const void *data, uint64_t len, struct pf_safetensors *ret,
			 struct pf_err *err)
{
	struct pf_safetensors st = { 0 };
	struct parser ps = { .json = { .first = PREAMBLE, .err = err } };
	int r;

	r = pf_safetensors_length(data, len, &st.header_len, err);
	if (r <= 0)
		return r;
	if (len < st.header_len)
		return 0;
	ps.json.start = ps.json.p = (const char *)data + PREAMBLE;
	ps.json.end = (const char *)data + st.header_len;
	r = read_header(&ps);
	r = r < 0 ? r : finish(&ps, &st);
	pf_buf_release(&ps.word);
	pf_buf_release(&ps.names);
	free(ps.tensors);
	if (r < 0)
		return pf_err_wrap(err, r, ".safetensors header");
	*ret = st;
	return 1;
}

void pf_safetensors_release(struct pf_safetensors *st)
{
	if (!st)
		return;
	free(st->tensors);
	free(st->names);
	*st = (struct pf_safetensors){ 0 };
}

void pf_safetensors_print(struct pf_buf *out, const char *name, enum pf_dtype dtype,
			  const struct pf_shape *shape)
{
	enum { ALIGN = 64 };
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	char extents[PF_SHAPE_TEXT];
	unsigned char length[PREAMBLE];
	int64_t count = 0;
	size_t len;
	char *dst;
	int r = pf_shape_count(shape, &count, NULL);

	assert(r == 0 && pf_dtype_valid((int)dtype));
	(void)r;
	if (strcmp(name, metadata_name) == 0)
		name = "__metadata___";
	dst = pf_buf_reserve(&text, 6 * strlen(name) + 3); /* "\u001f" is the longest */
	if (dst) {
		struct pf_json_out json = { dst, dst + 6 * strlen(name) + 3, false };

		pf_json_put(&json, "{", 1);
		pf_json_put_string(&json, name);
		text.len = (size_t)(json.at - dst);
	}
	pf_buf_printf(&text,
		      ":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[0,%" PRIu64
		      "]}}",
		      pf_dtype_safetensors(dtype),
		      pf_shape_str(extents, sizeof(extents), PF_DTYPE_INVALID, shape),
		      pf_pack_size(dtype, (uint64_t)count));
	len = (PREAMBLE + text.len + ALIGN - 1) / ALIGN * ALIGN - PREAMBLE;
	pf_buf_printf(&text, "%*s", (int)(len - text.len), "");
	if (text.failed) {
		out->failed = true;
		return;
	}
	for (int i = 0; i < PREAMBLE; i++)
		length[i] = (unsigned char)((uint64_t)len >> 8 * i);
	pf_buf_append(out, length, sizeof(length));
	pf_buf_append(out, text.data, text.len);
}
