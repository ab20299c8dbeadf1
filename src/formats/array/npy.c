/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's .npy headers. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pjrtfs/array_files.h"

static const unsigned char magic[] = { 0x93, 'N', 'U', 'M', 'P', 'Y' };

/*
 * A reader over the header's text, a Python dict literal.  It may be there only in part:
 * if the text ends too early, a function returns MORE if the file continues and an error
 * if not.
 */
enum { MORE = 0, DONE = 1 };

struct reader {
	const char *p, *end;
	bool cut; /* the header continues behind end */
	struct pf_err *err;
};

struct word {
	const char *p;
	size_t len;
};

static int bad(struct reader *rd, const char *want)
{
	if (rd->p == rd->end)
		return pf_err_set(rd->err, -EINVAL,
				  ".npy header: expected %s, found its end", want);
	/* The bytes are anything at all: pf_err_set makes them fit to print. */
	return pf_err_set(rd->err, -EINVAL, ".npy header: expected %s, found \"%.*s\"",
			  want, rd->end - rd->p < 16 ? (int)(rd->end - rd->p) : 16,
			  rd->p);
}

/* The text ended where WANT should be. */
static int at_end(struct reader *rd, const char *want)
{
	return rd->cut ? MORE : bad(rd, want);
}

static void skip_space(struct reader *rd)
{
	while (rd->p < rd->end && strchr(" \t\r\n\f", *rd->p) && *rd->p)
		rd->p++;
}

/* The next character other than a space must be C. */
static int expect(struct reader *rd, char c, const char *want)
{
	skip_space(rd);
	if (rd->p == rd->end)
		return at_end(rd, want);
	if (*rd->p != c)
		return bad(rd, want);
	rd->p++;
	return DONE;
}

/* DONE and *RET = whether the next character other than a space is C, which it then
 * takes. */
static int accept(struct reader *rd, char c, const char *want, bool *ret)
{
	skip_space(rd);
	if (rd->p == rd->end)
		return at_end(rd, want);
	*ret = *rd->p == c;
	if (*ret)
		rd->p++;
	return DONE;
}

/* A string in either kind of quotes, without escapes: no key and no type has any. */
static int read_string(struct reader *rd, struct word *ret, const char *want)
{
	const char *p;

	skip_space(rd);
	if (rd->p == rd->end)
		return at_end(rd, want);
	if (*rd->p != '\'' && *rd->p != '"')
		return bad(rd, want);
	for (p = rd->p + 1; p < rd->end && *p != *rd->p; p++)
		if (*p == '\n' || *p == '\\')
			return bad(rd, want);
	if (p == rd->end)
		return rd->cut ? MORE : bad(rd, want);
	*ret = (struct word){ rd->p + 1, (size_t)(p - rd->p - 1) };
	rd->p = p + 1;
	return DONE;
}

static bool word_is(const struct word *word, const char *str)
{
	return word->len == strlen(str) && memcmp(word->p, str, word->len) == 0;
}

static int read_bool(struct reader *rd, bool *ret)
{
	static const char *const names[] = { "False", "True" };
	size_t left;

	skip_space(rd);
	left = (size_t)(rd->end - rd->p);
	for (int i = 0; i < 2; i++) {
		size_t n = strlen(names[i]);

		if (left < n && rd->cut && memcmp(rd->p, names[i], left) == 0)
			return MORE;
		if (left >= n && memcmp(rd->p, names[i], n) == 0) {
			rd->p += n;
			*ret = i;
			return DONE;
		}
	}
	return bad(rd, "True or False for fortran_order");
}

/* One extent; Python 2 wrote those of longs as "3L". */
static int read_extent(struct reader *rd, int64_t *ret)
{
	static const char want[] = "an extent (a decimal integer) in shape";
	const char *start = rd->p;
	int64_t n = 0;

	if (*rd->p == '-')
		return bad(rd, "an extent of 0 or more in shape");
	while (rd->p < rd->end && *rd->p >= '0' && *rd->p <= '9') {
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, *rd->p - '0', &n))
			return pf_err_set(
				rd->err, -EOVERFLOW,
				".npy header: an extent in shape is beyond 2^63-1");
		rd->p++;
	}
	if (rd->p == start)
		return bad(rd, want);
	if (rd->p - start > 1 && *start == '0') {
		rd->p = start;
		return bad(rd, "an extent without leading zeros");
	}
	if (rd->p == rd->end)
		return at_end(rd, want);
	if (*rd->p == 'L')
		rd->p++;
	*ret = n;
	return DONE;
}

static int read_shape(struct reader *rd, struct pf_shape *shape)
{
	bool comma = true, end = false;
	int r;

	shape->rank = 0;
	r = expect(rd, '(', "a tuple for shape, such as (2, 3)");
	if (r != DONE)
		return r;
	for (;;) {
		r = accept(rd, ')', "')' after the extents", &end);
		if (r != DONE)
			return r;
		if (end)
			break;
		if (!comma)
			return bad(rd, "',' or ')' after an extent");
		if (shape->rank == PF_MAX_RANK)
			return pf_err_set(rd->err, -EINVAL,
					  ".npy header: shape has more than %d extents",
					  PF_MAX_RANK);
		r = read_extent(rd, &shape->dims[shape->rank]);
		if (r != DONE)
			return r;
		shape->rank++;
		r = accept(rd, ',', "',' or ')' after an extent", &comma);
		if (r != DONE)
			return r;
	}
	if (shape->rank == 1 && !comma)
		return pf_err_set(rd->err, -EINVAL,
				  ".npy header: expected a tuple for shape, found an "
				  "integer in brackets (a tuple of one is \"(3,)\")");
	return DONE;
}

/* The sentence for an element type that cannot be read. */
static int refuse_descr(struct reader *rd, const struct word *word)
{
	char kind = word->len > 1 && strchr("<>=|", word->p[0]) ? word->p[1] : word->p[0];
	int n = word->len < 32 ? (int)word->len : 32;
	const char *what;

	if (word->len == 0)
		return pf_err_set(rd->err, -EINVAL, ".npy header: descr is empty");
	if (kind == 'O')
		what = "Python objects cannot be read";
	else if (kind == 'S' || kind == 'U' || kind == 'a')
		what = "strings cannot be elements of an array";
	else if (kind == 'M' || kind == 'm')
		what = "dates cannot be elements of an array; store them as <i8";
	else if (kind == 'V')
		what = "only raw types of 1 and 2 bytes are known";
	else if (word->p[0] == '>')
		what = "big-endian data; write it with .astype(dtype.newbyteorder('<'))";
	else
		what = "no element type of a device";
	return pf_err_set(rd->err, -EINVAL, ".npy header: descr '%.*s': %s", n, word->p,
			  what);
}

static int read_descr(struct reader *rd, struct pf_npy *npy)
{
	static const char want[] = "a type such as '<f4' for descr";
	struct word word;
	int r;

	skip_space(rd);
	if (rd->p < rd->end && (*rd->p == '[' || *rd->p == '('))
		return pf_err_set(rd->err, -EINVAL,
				  ".npy header: expected %s, found a structured type",
				  want);
	r = read_string(rd, &word, want);
	if (r != DONE)
		return r;
	npy->void_size = 0;
	npy->dtype = PF_DTYPE_INVALID;
	if (word_is(&word, "|V1") || word_is(&word, "<V1") || word_is(&word, "V1"))
		npy->void_size = 1;
	else if (word_is(&word, "|V2") || word_is(&word, "V2"))
		npy->void_size = 2;
	else if (word.len > 1 && strchr("<>=|", word.p[0]) && word.p[0])
		npy->dtype = pf_dtype_parse(word.p, word.len);
	if (npy->dtype == PF_DTYPE_INVALID && npy->void_size == 0)
		return refuse_descr(rd, &word);
	return DONE;
}

enum { KEY_DESCR, KEY_FORTRAN, KEY_SHAPE, N_KEYS };
static const char *const keys[N_KEYS] = { "descr", "fortran_order", "shape" };

static int read_key(struct reader *rd, unsigned *seen, int *ret)
{
	struct word word;
	int r, key;

	r = read_string(rd, &word, "a key ('descr', 'fortran_order' or 'shape')");
	if (r != DONE)
		return r;
	for (key = 0; key < N_KEYS; key++)
		if (word_is(&word, keys[key]))
			break;
	if (key == N_KEYS)
		return pf_err_set(rd->err, -EINVAL, ".npy header: unknown key '%.*s'",
				  word.len < 32 ? (int)word.len : 32, word.p);
	if (*seen & 1u << key)
		return pf_err_set(rd->err, -EINVAL,
				  ".npy header: key '%s' is given twice", keys[key]);
	*seen |= 1u << key;
	*ret = key;
	return expect(rd, ':', "':' after a key");
}

static int read_dict(struct reader *rd, struct pf_npy *npy)
{
	bool comma = true, end = false;
	unsigned seen = 0;
	int r, key = 0;

	r = expect(rd, '{', "'{'");
	if (r != DONE)
		return r;
	for (;;) {
		r = accept(rd, '}', "'}'", &end);
		if (r != DONE)
			return r;
		if (end)
			break;
		if (!comma)
			return bad(rd, "',' or '}' after a value");
		r = read_key(rd, &seen, &key);
		if (r != DONE)
			return r;
		if (key == KEY_DESCR)
			r = read_descr(rd, npy);
		else if (key == KEY_FORTRAN)
			r = read_bool(rd, &npy->fortran_order);
		else
			r = read_shape(rd, &npy->shape);
		if (r != DONE)
			return r;
		r = accept(rd, ',', "',' or '}' after a value", &comma);
		if (r != DONE)
			return r;
	}
	for (key = 0; key < N_KEYS; key++)
		if (!(seen & 1u << key))
			return pf_err_set(rd->err, -EINVAL, ".npy header: no key '%s'",
					  keys[key]);
	skip_space(rd);
	if (rd->p < rd->end)
		return bad(rd, "nothing after '}'");
	return DONE;
}

/* Magic, version and length: *TEXT is where the dict starts, *TEXT_LEN its length. */
static int read_preamble(const unsigned char *src, size_t len, size_t *text,
			 uint64_t *text_len, struct pf_err *err)
{
	size_t n = len < sizeof(magic) ? len : sizeof(magic);

	if (memcmp(src, magic, n) != 0)
		return pf_err_set(err, -EINVAL,
				  "not a .npy file: expected it to begin with "
				  "\"\\x93NUMPY\", found \"%.*s\"",
				  (int)n, (const char *)src);
	if (len <= sizeof(magic))
		return MORE;
	if (src[6] < 1 || src[6] > 3)
		return pf_err_set(err, -EINVAL,
				  ".npy version %u: expected 1.0, 2.0 or 3.0", src[6]);
	if (len < 8)
		return MORE;
	if (src[7] != 0)
		return pf_err_set(err, -EINVAL,
				  ".npy version %u.%u: expected 1.0, 2.0 or 3.0", src[6],
				  src[7]);
	*text = src[6] == 1 ? 10 : 12;
	if (len < *text)
		return MORE;
	*text_len = src[8] | (uint64_t)src[9] << 8;
	if (src[6] > 1)
		*text_len |= (uint64_t)src[10] << 16 | (uint64_t)src[11] << 24;
	if (*text + *text_len > PF_NPY_MAX_HEADER)
		return pf_err_set(err, -EINVAL,
				  ".npy header of %" PRIu64 " bytes: at most %d are read",
				  *text_len, PF_NPY_MAX_HEADER - 12);
	return DONE;
}

/* The size of the data that the header promises. */
static int fill_sizes(struct pf_npy *npy, struct pf_err *err)
{
	int64_t count = 0;
	uint64_t size = npy->void_size ? npy->void_size : pf_dtype_size(npy->dtype);
	int r;

	r = pf_shape_count(&npy->shape, &count, err);
	if (r < 0)
		return pf_err_wrap(err, r, ".npy header");
	if (__builtin_mul_overflow((uint64_t)count, size, &npy->data_len) ||
	    npy->data_len > UINT64_C(1) << 62)
		return pf_err_set(err, -EOVERFLOW,
				  ".npy header: the array has more than 2^62 bytes");
	if (pf_shape_is_linear(&npy->shape))
		npy->fortran_order = false;
	return DONE;
}

int pf_npy_parse(const void *src, size_t len, struct pf_npy *ret, struct pf_err *err)
{
	struct pf_npy npy = { .dtype = PF_DTYPE_INVALID };
	struct reader rd = { .err = err };
	uint64_t text_len = 0;
	size_t text = 0;
	int r;

	if (len == 0)
		return MORE;
	r = read_preamble(src, len, &text, &text_len, err);
	if (r != DONE)
		return r;
	npy.header_len = text + (size_t)text_len;
	rd.cut = len < npy.header_len;
	rd.p = (const char *)src + text;
	rd.end = (const char *)src + (rd.cut ? len : npy.header_len);
	r = read_dict(&rd, &npy);
	if (r != DONE)
		return r;
	r = fill_sizes(&npy, err);
	if (r != DONE)
		return r;
	if (rd.cut)
		return MORE;
	*ret = npy;
	return DONE;
}

void pf_npy_print(struct pf_buf *buf, enum pf_dtype dtype, const struct pf_shape *shape)
{
	/* NumPy leaves room for the first extent to grow to this many digits in place. */
	enum { GROWTH_DIGITS = 21, PREAMBLE = 10, ALIGN = 64 };
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	unsigned char preamble[PREAMBLE];
	size_t total;

	pf_buf_printf(&text, "{'descr': '%s', 'fortran_order': False, 'shape': (",
		      pf_dtype_npy_descr(dtype));
	for (unsigned i = 0; i < shape->rank; i++)
		pf_buf_printf(&text, i ? ", %" PRId64 : "%" PRId64, shape->dims[i]);
	pf_buf_puts(&text, shape->rank == 1 ? ",), }" : "), }");
	if (shape->rank)
		pf_buf_printf(&text, "%*s",
			      GROWTH_DIGITS -
				      snprintf(NULL, 0, "%" PRId64, shape->dims[0]),
			      "");
	total = (PREAMBLE + text.len + 1 + ALIGN - 1) / ALIGN * ALIGN;
	pf_buf_printf(&text, "%*s\n", (int)(total - PREAMBLE - text.len - 1), "");
	if (text.failed) {
		buf->failed = true;
		return;
	}
	memcpy(preamble, magic, sizeof(magic));
	preamble[6] = 1;
	preamble[7] = 0;
	preamble[8] = text.len & 0xff;
	preamble[9] = (unsigned char)(text.len >> 8);
	pf_buf_append(buf, preamble, sizeof(preamble));
	pf_buf_append(buf, text.data, text.len);
}
