/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays as text: writing. */
#include "pjrtfs/formats/text.h"

#include <stdint.h>
#include <string.h>

#include "decimal.h"

/*
 * Text is gathered here and appended in pieces: the buffer's bookkeeping would otherwise
 * cost as much as printing a small number.
 */
struct writer {
	struct pf_buf *buf;
	size_t len;
	char text[4096];
};

/* Two numbers, a sign between and an 'j' behind them, and what separates elements. */
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

/* The sub-byte types use the low bits; plugins do not promise what is above them. */
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

static size_t print_element(char *dst, enum pf_dtype dtype, const unsigned char *p)
{
	switch (dtype) {
	case PF_DTYPE_PRED:
		memcpy(dst, *p ? "true" : "false", 5);
		return *p ? 4 : 5;
	case PF_DTYPE_S1:
	case PF_DTYPE_S2:
	case PF_DTYPE_S4:
	case PF_DTYPE_S8:
	case PF_DTYPE_S16:
	case PF_DTYPE_S32:
	case PF_DTYPE_S64:
		return print_signed(dst, load(p, pf_dtype_size(dtype)),
				    pf_dtype_bits(dtype));
	case PF_DTYPE_U1:
	case PF_DTYPE_U2:
	case PF_DTYPE_U4:
	case PF_DTYPE_U8:
	case PF_DTYPE_U16:
	case PF_DTYPE_U32:
	case PF_DTYPE_U64:
		return print_unsigned(dst, load(p, pf_dtype_size(dtype)),
				      pf_dtype_bits(dtype));
	case PF_DTYPE_C64:
		return print_complex(dst, PF_DTYPE_F32, p);
	case PF_DTYPE_C128:
		return print_complex(dst, PF_DTYPE_F64, p);
	default:
		return print_real(dst, dtype, p);
	}
}

/* Before an element there may be the ends of a line and of a block. */
uint64_t pf_text_bound(enum pf_dtype dtype, uint64_t n)
{
	bool is_complex = dtype == PF_DTYPE_C64 || dtype == PF_DTYPE_C128;

	return n * ((is_complex ? ELEMENT_MAX : PF_DECIMAL_MAX) + 2) + 2;
}

bool pf_text_print_some(struct pf_buf *buf, enum pf_dtype dtype,
			const struct pf_shape *shape, const void *data,
			struct pf_text_place *place, size_t max)
{
	size_t size = pf_dtype_size(dtype), rows = 1, cols = 1, rows_in_slice = 1;
	size_t row = place->row, col = place->col;
	const unsigned char *p = data;
	struct writer w;

	if (size == 0)
		return false;
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
			w.len += print_element(w.text + w.len, dtype, p);
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
