/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays as text. */
#define _GNU_SOURCE 1 /* memrchr */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "internal.h"
#include "pjrtfs/array_files.h"

/* Arrays as text: reading. */

/* Where the parser is, and the shape of the lines before. */
struct parser {
	const char *p, *end;
	const char *line_start;
	enum pf_dtype dtype;
	enum pf_dtype_kind kind; /* of dtype */
	bool any;                /* numbers of any type will do; dtype is for messages */
	struct pf_buf *data;
	struct pf_err *err;
	struct pf_text_check c; /* but for at */
};

static int refuse(struct parser *ps, int code, const char *word, size_t len,
		  const char *what, const char *advice)
{
	return pf_err_set(ps->err, code, "line %zu, column %zu: \"%.*s\" %s %s%s",
			  ps->c.line, (size_t)(word - ps->line_start) + 1,
			  len < 40 ? (int)len : 40, word, what, pf_dtype_name(ps->dtype),
			  advice);
}

static bool is_word(const char *word, size_t len, const char *name)
{
	return strlen(name) == len && strncasecmp(word, name, len) == 0;
}

/* How files begin that are no text of numbers, and what to do with them. */
static const struct {
	const char *begin, *found;
} others[] = {
	{ "\xef\xbb\xbf", "a byte-order mark: tail -c +4 leaves it out" },
	{ "\xff\xfe", "UTF-16: iconv -f UTF-16 -t UTF-8 makes text of it" },
	{ "\xfe\xff", "UTF-16: iconv -f UTF-16 -t UTF-8 makes text of it" },
	{ "\x93NUMPY", "a .npy file: call it .npy" },
	{ "[", "a bracket: a row is a line, and blanks are between its numbers" },
};

/* What the first word of the text says that it is; NULL: nothing. */
static const char *other_kind(const struct parser *ps, const char *word, size_t len)
{
	if (ps->c.line > 1 || word != ps->line_start)
		return NULL;
	for (size_t i = 0; i < PF_ARRAY_SIZE(others); i++) {
		size_t n = strlen(others[i].begin);

		if (n <= len && !memcmp(word, others[i].begin, n))
			return others[i].found;
	}
	if (is_word(word, len, "true") || is_word(word, len, "false"))
		return "a truth value: setfattr -n user.pjrtfs.dtype -v PRED on this file";
	return NULL;
}

static int no_number(struct parser *ps, const char *word, size_t len)
{
	const char *found = other_kind(ps, word, len);
	struct pf_decimal number;
	bool is_number = pf_decimal_scan(word, len, &number) == len;

	if (found)
		return pf_err_set(ps->err, -EINVAL,
				  "line %zu, column 1: expected %s, found %s", ps->c.line,
				  pf_dtype_name(ps->dtype), found);
	return refuse(
		ps, -EINVAL, word, len, "is not a valid",
		is_number || ps->kind == PF_KIND_BOOLEAN
			? ""
			: ": a row is a line of decimal numbers, with blanks between "
			  "them");
}

static int no_fit(struct parser *ps, const char *word, size_t len)
{
	return refuse(ps, -ERANGE, word, len, "does not fit", "");
}

/* Append the low SIZE bytes of BITS.  The host is little-endian, as arrays in files are. */
static void append_bits(struct parser *ps, uint64_t bits, size_t size)
{
	pf_buf_append(ps->data, &bits, size);
}

static int parse_pred(struct parser *ps, const char *word, size_t len)
{
	bool yes = is_word(word, len, "true") || is_word(word, len, "1");

	if (!yes && !is_word(word, len, "false") && !is_word(word, len, "0"))
		return no_number(ps, word, len);
	append_bits(ps, yes, 1);
	return 0;
}

static int parse_integer(struct parser *ps, const char *word, size_t len)
{
	unsigned bits = pf_dtype_bits(ps->dtype);
	uint64_t n = 0, limit;
	bool negative = word[0] == '-', fits = true;
	size_t i = word[0] == '-' || word[0] == '+';

	if (i == len)
		return no_number(ps, word, len);
	for (; i < len; i++) {
		if (word[i] < '0' || word[i] > '9')
			return no_number(ps, word, len);
		if (__builtin_mul_overflow(n, 10u, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(word[i] - '0'), &n))
			fits = false;
	}
	if (ps->kind == PF_KIND_SIGNED)
		limit = (UINT64_C(1) << (bits - 1)) - !negative;
	else
		limit = negative ? 0 : UINT64_MAX >> (64 - bits);
	if (!fits || n > limit)
		return no_fit(ps, word, len);
	append_bits(ps, negative ? -n : n, pf_dtype_size(ps->dtype));
	return 0;
}

/* Append one real number of type DTYPE; false if the type cannot represent it. */
static bool append_real(struct parser *ps, enum pf_dtype dtype,
			const struct pf_decimal *decimal)
{
	double value = pf_decimal_value(decimal, dtype == PF_DTYPE_F32 ? PF_DTYPE_F32
								       : PF_DTYPE_F64);
	double wide = value;
	float narrow = (float)value;
	uint64_t bits = 0;

	/*
	 * Small floats are rounded twice, to double first: that differs from rounding once only
	 * for decimals of more than 17 digits that nearly are the middle of two neighbours.
	 */
	if (dtype == PF_DTYPE_F64) {
		memcpy(&bits, &value, sizeof(value));
	} else if (dtype == PF_DTYPE_F32) {
		memcpy(&bits, &narrow, sizeof(narrow));
	} else {
		bits = pf_small_float_encode(dtype, value);
		wide = pf_small_float_decode(dtype, (uint16_t)bits);
	}
	append_bits(ps, bits, pf_dtype_size(dtype));
	switch (decimal->kind) {
	case PF_DECIMAL_NAN:
		return isnan(wide);
	case PF_DECIMAL_INF:
		return isinf(wide);
	default:
		/* F4E2M1FN encodes too great a number as its greatest, and F8E8M0FNU too
		 * small a one as its least; 7 is half a step beyond the former. */
		return dtype == PF_DTYPE_F4E2M1FN ? fabs(value) < 7 : isfinite(wide);
	}
}

static int parse_real(struct parser *ps, const char *word, size_t len)
{
	struct pf_decimal decimal;

	if (pf_decimal_scan(word, len, &decimal) != len)
		return no_number(ps, word, len);
	if (!append_real(ps, ps->dtype, &decimal))
		return no_fit(ps, word, len);
	return 0;
}

/* The type of the two parts of a complex one. */
static enum pf_dtype part_of(enum pf_dtype dtype)
{
	return dtype == PF_DTYPE_C64 ? PF_DTYPE_F32 : PF_DTYPE_F64;
}

/* "1+2j", "1" or "2j", as Python writes them, without brackets. */
static int parse_complex(struct parser *ps, const char *word, size_t len)
{
	enum pf_dtype part = part_of(ps->dtype);
	struct pf_decimal re, im = { .kind = PF_DECIMAL_NUMBER, .exact = true };
	size_t n = pf_decimal_scan(word, len, &re), m;

	if (n == 0)
		return no_number(ps, word, len);
	if (n + 1 == len && word[n] == 'j') {
		struct pf_decimal zero = im;

		im = re;
		re = zero;
	} else if (n < len) {
		m = pf_decimal_scan(word + n, len - n, &im);
		if ((word[n] != '+' && word[n] != '-') || m == 0 || n + m + 1 != len ||
		    word[n + m] != 'j')
			return no_number(ps, word, len);
	}
	if (!append_real(ps, part, &re) || !append_real(ps, part, &im))
		return no_fit(ps, word, len);
	return 0;
}

/* Refuse words that no type has: PRED has words, complex numbers are the most general. */
static int parse_any(struct parser *ps, const char *word, size_t len)
{
	struct parser quiet = *ps;

	quiet.err = NULL;
	quiet.dtype = PF_DTYPE_PRED;
	if (parse_pred(&quiet, word, len) == 0)
		return 0;
	quiet.dtype = PF_DTYPE_C128;
	return parse_complex(&quiet, word, len) == -EINVAL ? no_number(ps, word, len) : 0;
}

static int parse_word(struct parser *ps, const char *word, size_t len)
{
	if (ps->any)
		return parse_any(ps, word, len);
	switch (ps->kind) {
	case PF_KIND_BOOLEAN:
		return parse_pred(ps, word, len);
	case PF_KIND_SIGNED:
	case PF_KIND_UNSIGNED:
		return parse_integer(ps, word, len);
	case PF_KIND_COMPLEX:
		return parse_complex(ps, word, len);
	default:
		return parse_real(ps, word, len);
	}
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/*
 * Parse the line up to its end; *RET_N = how many numbers it has.  A comma stands between two
 * numbers or at the end of the line, never twice in a row: a missing value must not shift the
 * others.
 */
static int parse_line(struct parser *ps, size_t *ret_n)
{
	bool comma_ok = false;
	int r = 0;

	*ret_n = 0;
	while (r == 0 && ps->p < ps->end && *ps->p != '\n') {
		const char *word = ps->p;

		if (*word == ',' && !comma_ok)
			return pf_err_set(ps->err, -EINVAL,
					  "line %zu, column %zu: no number before ','",
					  ps->c.line,
					  (size_t)(word - ps->line_start) + 1);
		if (*word == ',' || is_blank(*word)) {
			comma_ok &= *word != ',';
			ps->p++;
			continue;
		}
		while (ps->p < ps->end && !is_blank(*ps->p) && *ps->p != ',' &&
		       *ps->p != '\n')
			ps->p++;
		r = parse_word(ps, word, (size_t)(ps->p - word));
		if (r == 0 && ps->data->failed)
			r = pf_err_set(ps->err, -ENOMEM, "no memory for the numbers");
		comma_ok = true;
		++*ret_n;
	}
	return r;
}

static int end_block(struct parser *ps)
{
	if (ps->c.rows == 0)
		return 0;
	if (ps->c.blocks && ps->c.rows != ps->c.block_rows)
		return pf_err_set(
			ps->err, -EINVAL,
			"line %zu: block %zu ends with %zu rows, the first has %zu",
			ps->c.line, ps->c.blocks + 1, ps->c.rows, ps->c.block_rows);
	ps->c.block_rows = ps->c.rows;
	ps->c.blocks++;
	ps->c.rows = 0;
	return 0;
}

static int end_row(struct parser *ps, size_t n)
{
	if (ps->c.row_len && n != ps->c.row_len)
		return pf_err_set(
			ps->err, -EINVAL,
			"line %zu has %zu numbers, the lines before it have %zu",
			ps->c.line, n, ps->c.row_len);
	ps->c.row_len = n;
	ps->c.rows++;
	return 0;
}

static int parse_rows(struct parser *ps)
{
	size_t n = 0;
	int r;

	while (ps->p < ps->end) {
		ps->line_start = ps->p;
		ps->c.line++;
		r = parse_line(ps, &n);
		if (r < 0)
			return r;
		if (ps->p < ps->end)
			ps->p++;
		r = n ? end_row(ps, n) : end_block(ps);
		if (r < 0)
			return r;
	}
	return 0;
}

static int parse_lines(struct parser *ps)
{
	int r = parse_rows(ps);

	if (r == 0)
		r = end_block(ps);
	if (r < 0)
		return r;
	if (ps->c.blocks == 0)
		return pf_err_set(ps->err, -EINVAL,
				  "expected rows of %s, found no number",
				  pf_dtype_name(ps->dtype));
	return 0;
}

int pf_text_parse(const char *src, size_t len, enum pf_dtype want, struct pf_shape *shape,
		  struct pf_buf *data, struct pf_err *err)
{
	struct parser ps = { .dtype = want, .data = data, .err = err };
	size_t start = data->len;
	unsigned rank = 0;
	int r;

	if (!pf_dtype_valid((int)want))
		return pf_err_set(err, -EINVAL, "no element type to read text as");
	ps.kind = pf_dtype_kind(want);
	ps.p = src;
	ps.end = src + len;
	r = parse_lines(&ps);
	if (r < 0) {
		data->len = start;
		if (data->data)
			data->data[start] = '\0';
		return r;
	}
	if (ps.c.blocks > 1)
		shape->dims[rank++] = (int64_t)ps.c.blocks;
	if (rank || ps.c.block_rows > 1)
		shape->dims[rank++] = (int64_t)ps.c.block_rows;
	if (rank || ps.c.row_len > 1)
		shape->dims[rank++] = (int64_t)ps.c.row_len;
	shape->rank = rank;
	return 0;
}

int pf_text_check(struct pf_text_check *c, const char *src, size_t len,
		  enum pf_dtype want, struct pf_err *err)
{
	const char *end = len > c->at ? memrchr(src + c->at, '\n', len - c->at) : NULL;
	pf_autobuf struct pf_buf data = PF_BUF_INIT;
	struct parser ps = { .p = src + c->at,
			     .dtype = want ? want : PF_DTYPE_F32,
			     .kind = pf_dtype_kind(want ? want : PF_DTYPE_F32),
			     .any = !want,
			     .data = &data,
			     .err = err,
			     .c = *c };
	int r;

	if (!end)
		return 0;
	ps.end = end + 1;
	r = parse_rows(&ps);
	if (r < 0)
		return r;
	*c = ps.c;
	c->at = (size_t)(ps.end - src);
	return 0;
}

/* Two numbers, a sign between and a 'j' behind them, and the separators of elements. */
enum { ELEMENT_MAX = 2 * PF_DECIMAL_MAX + 4 };

/* Load an unsigned number of SIZE bytes, which need not be aligned. */
static uint64_t load(const unsigned char *p, size_t size)
{
	uint64_t n = 0;

	/* Sizes that the compiler knows become one instruction each. */
	switch (size) {
	case 1:
		return *p;
	case 2:
		return *p | (uint64_t)p[1] << 8;
	case 4:
		memcpy(&n, p, 4);
		return n;
	default:
		memcpy(&n, p, 8);
		return n;
	}
}

/* The sub-byte types use the low bits; plugins may leave anything above them. */
static size_t print_integer(char *dst, uint64_t n, unsigned bits, bool is_signed)
{
	size_t len = 0;

	n <<= 64 - bits;
	if (is_signed && n >> 63) {
		dst[len++] = '-';
		/* The least number's magnitude is itself. */
		n = -n;
	}
	return len + pf_decimal_print_u64(dst + len, n >> (64 - bits));
}

static size_t print_real(char *dst, enum pf_dtype dtype, const unsigned char *p)
{
	float narrow;
	double value;

	if (dtype == PF_DTYPE_F64) {
		memcpy(&value, p, sizeof(value));
	} else if (dtype == PF_DTYPE_F32) {
		memcpy(&narrow, p, sizeof(narrow));
		value = (double)narrow;
	} else {
		value = pf_small_float_decode(dtype,
					      (uint16_t)load(p, pf_dtype_size(dtype)));
	}
	return pf_decimal_print(dst, dtype, value);
}

static size_t print_complex(char *dst, enum pf_dtype part, const unsigned char *p)
{
	size_t len = print_real(dst, part, p), n;

	n = print_real(dst + len + 1, part, p + pf_dtype_size(part));
	if (dst[len + 1] == '-') {
		memmove(dst + len, dst + len + 1, n);
		len += n;
	} else {
		dst[len] = '+';
		len += n + 1;
	}
	dst[len++] = 'j';
	return len;
}

static size_t print_element(char *dst, enum pf_dtype dtype, enum pf_dtype_kind kind,
			    const unsigned char *p)
{
	switch (kind) {
	case PF_KIND_BOOLEAN:
		memcpy(dst, *p ? "true" : "false", 5);
		return *p ? 4 : 5;
	case PF_KIND_SIGNED:
	case PF_KIND_UNSIGNED:
		return print_integer(dst, load(p, pf_dtype_size(dtype)),
				     pf_dtype_bits(dtype), kind == PF_KIND_SIGNED);
	case PF_KIND_COMPLEX:
		return print_complex(dst, part_of(dtype), p);
	default:
		return print_real(dst, dtype, p);
	}
}

/* Before an element there may be the ends of a line and of a block. */
uint64_t pf_text_bound(enum pf_dtype dtype, uint64_t n)
{
	return n * ((pf_dtype_kind(dtype) == PF_KIND_COMPLEX ? ELEMENT_MAX
							     : PF_DECIMAL_MAX) +
		    2) +
	       2;
}

bool pf_text_print_some(struct pf_buf *buf, enum pf_dtype dtype,
			const struct pf_shape *shape, const void *data, uint64_t *at,
			uint64_t max)
{
	/* The buffer's bookkeeping costs as much as printing a small number. */
	enum { ROOM = 4096 };
	size_t size = pf_dtype_size(dtype), cols = 1, slice = 0, col;
	char *dst = NULL, *end = NULL;
	enum pf_dtype_kind kind;
	int64_t n = 0;

	pf_shape_count(shape, &n, NULL);
	if (size == 0 || n == 0)
		return false;
	kind = pf_dtype_kind(dtype);
	if (shape->rank)
		cols = (size_t)shape->dims[shape->rank - 1];
	if (shape->rank > 2)
		slice = cols * (size_t)shape->dims[shape->rank - 2];
	col = *at % cols;
	for (; *at < (uint64_t)n && max > 0; ++*at, max--) {
		if (!dst || end - dst < ELEMENT_MAX) {
			if (dst)
				buf->len = (size_t)(dst - buf->data);
			dst = pf_buf_reserve(buf, ROOM);
			if (!dst)
				return false;
			end = dst + ROOM;
		}
		if (col == 0 && slice && *at && *at % slice == 0)
			*dst++ = '\n';
		dst += print_element(dst, dtype, kind,
				     (const unsigned char *)data + *at * size);
		col = col + 1 < cols ? col + 1 : 0;
		*dst++ = col ? ' ' : '\n';
	}
	if (dst) {
		*dst = '\0';
		buf->len = (size_t)(dst - buf->data);
	}
	return *at < (uint64_t)n;
}

bool pf_text_print_line(struct pf_buf *buf, enum pf_dtype dtype,
			const struct pf_shape *shape, const void *data, uint64_t *at,
			uint64_t max)
{
	struct pf_shape line = { .rank = 1 };
	bool more;

	if (pf_shape_count(shape, &line.dims[0], NULL) < 0 || !line.dims[0])
		return false;
	more = pf_text_print_some(buf, dtype, &line, data, at, max);
	if (!more && !buf->failed)
		buf->data[--buf->len] = '\0';
	return more;
}

void pf_text_print(struct pf_buf *buf, enum pf_dtype dtype, const struct pf_shape *shape,
		   const void *data)
{
	uint64_t at = 0;

	pf_text_print_some(buf, dtype, shape, data, &at, UINT64_MAX);
}
