/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's .npy headers. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pjrtfs/array_files.h"
#include "pjrtfs/json.h"

static const unsigned char magic[] = { 0x93, 'N', 'U', 'M', 'P', 'Y' };

/*
 * The header's text is a Python dict literal.  Its tokens are JSON's, but for strings, which have
 * either kind of quotes, and for commas, which may follow the last member.
 */

struct word {
	const char *p;
	size_t len;
};

/* The next character other than a space; NUL: the end. */
static char look(struct pf_json_reader *rd)
{
	while (rd->p < rd->end && *rd->p && strchr(" \t\r\n", *rd->p))
		rd->p++;
	return rd->p < rd->end ? *rd->p : '\0';
}

/*
 * Step to the next member: 1; behind CLOSE: 0.  *COMMA, which is true at first, becomes whether a
 * comma, or no member, was before CLOSE.
 */
static int next(struct pf_json_reader *rd, char close, bool *comma, const char *want)
{
	if (!*comma && look(rd) == ',') {
		rd->p++;
		*comma = true;
	}
	if (look(rd) == close) {
		rd->p++;
		return 0;
	}
	if (!*comma)
		return pf_json_bad(rd, want);
	*comma = false;
	return 1;
}

/* A string without escapes: no key and no type has any. */
static int read_string(struct pf_json_reader *rd, struct word *ret, const char *want)
{
	char quote = look(rd);
	const char *p;

	if (quote != '\'' && quote != '"')
		return pf_json_bad(rd, want);
	for (p = rd->p + 1; p < rd->end && *p != quote; p++)
		if (*p == '\n' || *p == '\\')
			return pf_json_bad(rd, want);
	if (p == rd->end)
		return pf_json_bad(rd, want);
	*ret = (struct word){ rd->p + 1, (size_t)(p - rd->p - 1) };
	rd->p = p + 1;
	return 0;
}

static bool word_is(const struct word *word, const char *str)
{
	return word->len == strlen(str) && memcmp(word->p, str, word->len) == 0;
}

static int read_bool(struct pf_json_reader *rd, bool *ret)
{
	static const char *const names[] = { "False", "True" };

	*ret = look(rd) == 'T';
	if ((size_t)(rd->end - rd->p) < strlen(names[*ret]) ||
	    memcmp(rd->p, names[*ret], strlen(names[*ret])) != 0)
		return pf_json_bad(rd, "True or False for fortran_order");
	rd->p += strlen(names[*ret]);
	return 0;
}

static int read_shape(struct pf_json_reader *rd, struct pf_shape *shape)
{
	bool comma = true;
	int r;

	shape->rank = 0;
	r = pf_json_expect(rd, '(', "a tuple for shape, such as (2, 3)");
	if (r < 0)
		return r;
	while ((r = next(rd, ')', &comma, "',' or ')' after an extent")) > 0) {
		if (shape->rank == PF_MAX_RANK)
			return pf_err_set(rd->err, -EINVAL,
					  "shape has more than %d extents", PF_MAX_RANK);
		r = pf_json_number(
			rd, &shape->dims[shape->rank],
			"an extent of 0 or more, without leading zeros, in shape");
		if (r < 0)
			return r;
		shape->rank++;
		/* Python 2 wrote those of longs as "3L". */
		if (rd->p < rd->end && *rd->p == 'L')
			rd->p++;
	}
	if (r == 0 && shape->rank == 1 && !comma)
		return pf_err_set(rd->err, -EINVAL,
				  "expected a tuple for shape, found an integer in "
				  "brackets (a tuple of one is \"(3,)\")");
	return r;
}

/* The sentence for an element type that cannot be read. */
static int refuse_descr(struct pf_json_reader *rd, const struct word *word)
{
	char kind = word->len > 1 && strchr("<>=|", word->p[0]) ? word->p[1] : word->p[0];
	int n = word->len < 32 ? (int)word->len : 32;
	const char *what;

	if (word->len == 0)
		return pf_err_set(rd->err, -EINVAL, "descr is empty");
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
	return pf_err_set(rd->err, -EINVAL, "descr '%.*s': %s", n, word->p, what);
}

static int read_descr(struct pf_json_reader *rd, struct pf_npy *npy)
{
	static const char want[] = "a type such as '<f4' for descr";
	struct word word;
	int r;

	if (look(rd) == '[' || look(rd) == '(')
		return pf_err_set(rd->err, -EINVAL,
				  "expected %s, found a structured type", want);
	r = read_string(rd, &word, want);
	if (r < 0)
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
	return 0;
}

enum { KEY_DESCR, KEY_FORTRAN, KEY_SHAPE, N_KEYS };
static const char *const keys[N_KEYS] = { "descr", "fortran_order", "shape" };

static int read_key(struct pf_json_reader *rd, unsigned *seen, int *ret)
{
	struct word word;
	int r, key;

	r = read_string(rd, &word, "a key ('descr', 'fortran_order' or 'shape')");
	if (r < 0)
		return r;
	for (key = 0; key < N_KEYS; key++)
		if (word_is(&word, keys[key]))
			break;
	if (key == N_KEYS)
		return pf_err_set(rd->err, -EINVAL, "unknown key '%.*s'",
				  word.len < 32 ? (int)word.len : 32, word.p);
	if (*seen & 1u << key)
		return pf_err_set(rd->err, -EINVAL, "key '%s' is given twice", keys[key]);
	*seen |= 1u << key;
	*ret = key;
	return pf_json_expect(rd, ':', "':' after a key");
}

static int read_dict(struct pf_json_reader *rd, struct pf_npy *npy)
{
	bool comma = true;
	unsigned seen = 0;
	int r, key = 0;

	r = pf_json_expect(rd, '{', "'{'");
	if (r < 0)
		return r;
	while ((r = next(rd, '}', &comma, "',' or '}' after a value")) > 0) {
		r = read_key(rd, &seen, &key);
		if (r < 0)
			return r;
		if (key == KEY_DESCR)
			r = read_descr(rd, npy);
		else if (key == KEY_FORTRAN)
			r = read_bool(rd, &npy->fortran_order);
		else
			r = read_shape(rd, &npy->shape);
		if (r < 0)
			return r;
	}
	for (key = 0; r == 0 && key < N_KEYS; key++)
		if (!(seen & 1u << key))
			return pf_err_set(rd->err, -EINVAL, "no key '%s'", keys[key]);
	if (r == 0 && (look(rd) || rd->p < rd->end))
		return pf_json_bad(rd, "nothing after '}'");
	return r;
}

/* Magic, version and length: *TEXT is where the dict starts, *TEXT_LEN its length.  1, or 0:
 * more bytes are needed. */
static int read_preamble(const unsigned char *src, size_t len, size_t *text,
			 uint64_t *text_len, struct pf_err *err)
{
	size_t n = len < sizeof(magic) ? len : sizeof(magic);
	uint64_t other;

	if (memcmp(src, magic, n) != 0 && len > 8 &&
	    pf_safetensors_length(src, len, &other, NULL) > 0)
		return pf_err_set(err, -EINVAL,
				  "not a .npy file: found a .safetensors file: call it "
				  ".safetensors");
	if (memcmp(src, magic, n) != 0)
		return pf_err_set(err, -EINVAL,
				  "not a .npy file: expected it to begin with "
				  "\"\\x93NUMPY\", found \"%.*s\"",
				  (int)n, (const char *)src);
	if (len <= sizeof(magic))
		return 0;
	if (src[6] < 1 || src[6] > 3)
		return pf_err_set(err, -EINVAL,
				  ".npy version %u: expected 1.0, 2.0 or 3.0", src[6]);
	if (len < 8)
		return 0;
	if (src[7] != 0)
		return pf_err_set(err, -EINVAL,
				  ".npy version %u.%u: expected 1.0, 2.0 or 3.0", src[6],
				  src[7]);
	*text = src[6] == 1 ? 10 : 12;
	if (len < *text)
		return 0;
	*text_len = src[8] | (uint64_t)src[9] << 8;
	if (src[6] > 1)
		*text_len |= (uint64_t)src[10] << 16 | (uint64_t)src[11] << 24;
	if (*text + *text_len > PF_NPY_MAX_HEADER)
		return pf_err_set(err, -EINVAL,
				  ".npy header of %" PRIu64 " bytes: at most %d are read",
				  *text_len, PF_NPY_MAX_HEADER - 12);
	return 1;
}

/* The size of the data that the header promises. */
static int fill_sizes(struct pf_npy *npy, struct pf_err *err)
{
	int64_t count = 0;
	uint64_t size = npy->void_size ? npy->void_size : pf_dtype_size(npy->dtype);
	int r;

	r = pf_shape_count(&npy->shape, &count, err);
	if (r < 0)
		return r;
	if (__builtin_mul_overflow((uint64_t)count, size, &npy->data_len) ||
	    npy->data_len > UINT64_C(1) << 62)
		return pf_err_set(err, -EOVERFLOW, "the array has more than 2^62 bytes");
	if (pf_shape_is_linear(&npy->shape))
		npy->fortran_order = false;
	return 0;
}

int pf_npy_parse(const void *src, size_t len, struct pf_npy *ret, struct pf_err *err)
{
	struct pf_npy npy = { .dtype = PF_DTYPE_INVALID };
	struct pf_json_reader rd = { .err = err };
	uint64_t text_len = 0;
	int r;

	if (len == 0)
		return 0;
	r = read_preamble(src, len, &rd.first, &text_len, err);
	if (r <= 0)
		return r;
	npy.header_len = rd.first + (size_t)text_len;
	if (len < npy.header_len)
		return 0;
	rd.start = rd.p = (const char *)src + rd.first;
	rd.end = (const char *)src + npy.header_len;
	r = read_dict(&rd, &npy);
	if (r == 0)
		r = fill_sizes(&npy, err);
	if (r < 0)
		return pf_err_wrap(err, r, ".npy header");
	*ret = npy;
	return 1;
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
