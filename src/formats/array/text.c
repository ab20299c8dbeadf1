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
	size_t line; /* from 1 */
	enum pf_dtype dtype;
	enum pf_dtype_kind kind; /* of dtype */
	bool any;                /* numbers of any type will do; dtype is for messages */
	struct pf_buf *data;
	struct pf_err *err;

	size_t row_len;    /* of every row; 0 before the first */
	size_t rows;       /* in this block */
	size_t block_rows; /* in every block; 0 before the end of the first */
	size_t blocks;     /* that have ended */
};

static int refuse(struct parser *ps, int code, const char *word, size_t len,
		  const char *what)
{
	return pf_err_set(ps->err, code, "line %zu, column %zu: \"%.*s\" %s %s", ps->line,
			  (size_t)(word - ps->line_start) + 1, len < 40 ? (int)len : 40,
			  word, what, pf_dtype_name(ps->dtype));
}

static int no_number(struct parser *ps, const char *word, size_t len)
{
	return refuse(ps, -EINVAL, word, len, "is not a valid");
}

static int no_fit(struct parser *ps, const char *word, size_t len)
{
	return refuse(ps, -ERANGE, word, len, "does not fit");
}

static void append_bits(struct parser *ps, uint64_t bits, size_t size)
{
	unsigned char *dst = (unsigned char *)pf_buf_reserve(ps->data, size);

	if (!dst)
		return;
	for (size_t i = 0; i < size; i++)
		dst[i] = (unsigned char)(bits >> 8 * i);
	ps->data->len += size;
}

static bool is_word(const char *word, size_t len, const char *name)
{
	return strlen(name) == len && strncasecmp(word, name, len) == 0;
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
	double wide, exact;
	float narrow;
	uint64_t bits;
	uint32_t half;

	if (dtype == PF_DTYPE_F64) {
		wide = pf_decimal_to_double(decimal);
		memcpy(&bits, &wide, sizeof(bits));
		append_bits(ps, bits, sizeof(bits));
		return decimal->kind != PF_DECIMAL_NUMBER || isfinite(wide);
	}
	if (dtype == PF_DTYPE_F32) {
		narrow = pf_decimal_to_float(decimal);
		memcpy(&half, &narrow, sizeof(half));
		append_bits(ps, half, sizeof(half));
		return decimal->kind != PF_DECIMAL_NUMBER || isfinite(narrow);
	}
	/*
	 * Rounding twice, to double first, differs from rounding once only for decimals
	 * of more than 17 digits that nearly are the middle of two neighbours.
	 */
	exact = pf_decimal_to_double(decimal);
	half = pf_small_float_encode(dtype, exact);
	append_bits(ps, half, pf_dtype_size(dtype));
	wide = pf_small_float_decode(dtype, (uint16_t)half);
	switch (decimal->kind) {
	case PF_DECIMAL_NAN:
		return isnan(wide);
	case PF_DECIMAL_INF:
		return isinf(wide);
	default:
		/* F4E2M1FN encodes too great a number as its greatest, and F8E8M0FNU too
		 * small a one as its least; 7 is half a step beyond the former. */
		if (dtype == PF_DTYPE_F4E2M1FN)
			return fabs(exact) < 7;
		return isfinite(wide);
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

/*
 * Parse the line up to its end and step behind it; *RET_N = how many numbers it has.  A
 * comma stands between two numbers or at the end of the line, never twice in a row: a
 * missing value must not shift the others.
 */
static int parse_line(struct parser *ps, size_t *ret_n)
{
	bool comma_ok = false;
	size_t n = 0;

	for (;;) {
		while (ps->p < ps->end &&
		       (*ps->p == ' ' || *ps->p == '\t' || *ps->p == '\r'))
			ps->p++;
		if (ps->p == ps->end || *ps->p == '\n')
			break;
		if (*ps->p == ',') {
			if (!comma_ok)
				return pf_err_set(
					ps->err, -EINVAL,
					"line %zu, column %zu: no number before ','",
					ps->line, (size_t)(ps->p - ps->line_start) + 1);
			comma_ok = false;
			ps->p++;
			continue;
		}
		const char *word = ps->p;

		while (ps->p < ps->end &&
		       !(*ps->p == ' ' || *ps->p == '\t' || *ps->p == '\r' ||
			 *ps->p == ',' || *ps->p == '\n'))
			ps->p++;
		int r = parse_word(ps, word, (size_t)(ps->p - word));

		if (r < 0)
			return r;
		if (ps->data->failed)
			return pf_err_set(ps->err, -ENOMEM, "no memory for the numbers");
		comma_ok = true;
		n++;
	}
	*ret_n = n;
	return 0;
}

static int end_block(struct parser *ps)
{
	if (ps->rows == 0)
		return 0;
	if (ps->blocks && ps->rows != ps->block_rows)
		return pf_err_set(
			ps->err, -EINVAL,
			"line %zu: block %zu ends with %zu rows, the first has %zu",
			ps->line, ps->blocks + 1, ps->rows, ps->block_rows);
	ps->block_rows = ps->rows;
	ps->blocks++;
	ps->rows = 0;
	return 0;
}

static int end_row(struct parser *ps, size_t n)
{
	if (ps->row_len && n != ps->row_len)
		return pf_err_set(
			ps->err, -EINVAL,
			"line %zu has %zu numbers, the lines before it have %zu",
			ps->line, n, ps->row_len);
	ps->row_len = n;
	ps->rows++;
	return 0;
}

static int parse_rows(struct parser *ps)
{
	size_t n = 0;
	int r;

	while (ps->p < ps->end) {
		ps->line_start = ps->p;
		ps->line++;
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
	if (ps->blocks == 0)
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
	if (ps.blocks > 1)
		shape->dims[rank++] = (int64_t)ps.blocks;
	if (rank || ps.block_rows > 1)
		shape->dims[rank++] = (int64_t)ps.block_rows;
	if (rank || ps.row_len > 1)
		shape->dims[rank++] = (int64_t)ps.row_len;
	shape->rank = rank;
	return 0;
}

int pf_text_check(struct pf_text_check *c, const char *src, size_t len,
		  enum pf_dtype want, struct pf_err *err)
{
	const char *end = len > c->at ? memrchr(src + c->at, '\n', len - c->at) : NULL;
	pf_autobuf struct pf_buf data = PF_BUF_INIT;
	struct parser ps = { .p = src + c->at,
			     .line = c->line,
			     .dtype = want ? want : PF_DTYPE_F32,
			     .kind = pf_dtype_kind(want ? want : PF_DTYPE_F32),
			     .any = !want,
			     .data = &data,
			     .err = err,
			     .row_len = c->row_len,
			     .rows = c->rows,
			     .block_rows = c->block_rows,
			     .blocks = c->blocks };
	int r;

	if (!end)
		return 0;
	ps.end = end + 1;
	r = parse_rows(&ps);
	if (r < 0)
		return r;
	*c = (struct pf_text_check){ .at = (uint32_t)(ps.end - src),
				     .line = (uint32_t)ps.line,
				     .row_len = (uint32_t)ps.row_len,
				     .rows = (uint32_t)ps.rows,
				     .block_rows = (uint32_t)ps.block_rows,
				     .blocks = (uint32_t)ps.blocks };
	return 0;
}

/*
 * Text is gathered here and appended in pieces: the buffer's bookkeeping would otherwise
 * cost as much as printing a small number.
 */
struct writer {
	struct pf_buf *buf;
	size_t len;
	char text[4096];
};

/* Two numbers, a sign between and a 'j' behind them, and the separators of elements. */
enum { ELEMENT_MAX = 2 * PF_DECIMAL_MAX + 4 };

static void flush(struct writer *w)
{
	pf_buf_append(w->buf, w->text, w->len);
	w->len = 0;
}

/* Load an unsigned number of SIZE bytes, which need not be aligned. */
static uint64_t load(const unsigned char *p, size_t size)
{
	uint64_t n = 0;

	/* Sizes that the compiler knows become one instruction each. */
	switch (size) {
	case 1:
		return p[0];
	case 2:
		return (uint64_t)p[0] | (uint64_t)p[1] << 8;
	case 4:
		return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 |
		       (uint64_t)p[3] << 24;
	default:
		for (size_t i = 0; i < 8; i++)
			n |= (uint64_t)p[i] << 8 * i;
		return n;
	}
}

/* The sub-byte types use the low bits; plugins may leave anything above them. */
static size_t print_signed(char *dst, uint64_t n, unsigned bits)
{
	size_t len = 0;

	n <<= 64 - bits;
	if (n >> 63) {
		dst[len++] = '-';
		n = -n;
		/* The least number's magnitude is itself. */
	}
	return len + pf_decimal_print_u64(dst + len, n >> (64 - bits));
}

static size_t print_unsigned(char *dst, uint64_t n, unsigned bits)
{
	return pf_decimal_print_u64(dst, n << (64 - bits) >> (64 - bits));
}

static size_t print_real(char *dst, enum pf_dtype dtype, const unsigned char *p)
{
	uint64_t n;
	uint32_t bits;
	float narrow;
	double wide;

	switch (dtype) {
	case PF_DTYPE_F32:
		bits = (uint32_t)load(p, 4);
		memcpy(&narrow, &bits, sizeof(narrow));
		return pf_decimal_print(dst, dtype, (double)narrow);
	case PF_DTYPE_F64:
		n = load(p, 8);
		memcpy(&wide, &n, sizeof(wide));
		return pf_decimal_print(dst, dtype, wide);
	default:
		bits = (uint32_t)load(p, pf_dtype_size(dtype));
		return pf_decimal_print(dst, dtype,
					pf_small_float_decode(dtype, (uint16_t)bits));
	}
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
		return print_signed(dst, load(p, pf_dtype_size(dtype)),
				    pf_dtype_bits(dtype));
	case PF_KIND_UNSIGNED:
		return print_unsigned(dst, load(p, pf_dtype_size(dtype)),
				      pf_dtype_bits(dtype));
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
			const struct pf_shape *shape, const void *data,
			struct pf_text_place *place, size_t max)
{
	size_t size = pf_dtype_size(dtype), rows = 1, cols = 1, rows_in_slice = 1;
	size_t row = place->row, col = place->col;
	const unsigned char *p = data;
	enum pf_dtype_kind kind;
	struct writer w;

	if (size == 0)
		return false;
	kind = pf_dtype_kind(dtype);
	w.buf = buf;
	w.len = 0;
	for (unsigned i = 0; i < shape->rank; i++) {
		if (i == shape->rank - 1)
			cols = (size_t)shape->dims[i];
		else
			rows *= (size_t)shape->dims[i];
	}
	if (shape->rank > 2)
		rows_in_slice = (size_t)shape->dims[shape->rank - 2];
	/* An array without elements may have extents that would count up to anything. */
	if (cols == 0)
		return false;
	p += (row * cols + col) * size;
	while (row < rows && max > 0) {
		if (shape->rank > 2 && row > 0 && col == 0 && row % rows_in_slice == 0)
			w.text[w.len++] = '\n';
		for (; col < cols && max > 0; col++, max--, p += size) {
			if (w.len > sizeof(w.text) - ELEMENT_MAX) {
				flush(&w);
				if (buf->failed)
					return false;
			}
			w.len += print_element(w.text + w.len, dtype, kind, p);
			w.text[w.len++] = col + 1 < cols ? ' ' : '\n';
		}
		if (col == cols) {
			col = 0;
			row++;
		}
	}
	flush(&w);
	place->row = row;
	place->col = col;
	return row < rows;
}

void pf_text_print(struct pf_buf *buf, enum pf_dtype dtype, const struct pf_shape *shape,
		   const void *data)
{
	struct pf_text_place place = { 0, 0 };

	pf_text_print_some(buf, dtype, shape, data, &place, SIZE_MAX);
}
