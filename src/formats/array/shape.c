/* SPDX-License-Identifier: Apache-2.0 */
/* Array shapes. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/array.h"
#include "pjrtfs/sharding.h"

int pf_shape_count(const struct pf_shape *shape, int64_t *ret, struct pf_err *err)
{
	int64_t n = 1;
	bool empty = false;

	for (unsigned i = 0; i < shape->rank; i++) {
		int64_t dim = shape->dims[i];

		/* Plugins multiply the extents up before they look for a zero. */
		if (dim == 0)
			empty = true;
		else if (__builtin_mul_overflow(n, dim, &n)) {
			char text[PF_SHAPE_TEXT];

			return pf_err_set(err, -EOVERFLOW,
					  "shape %s has more than 2^63-1 elements",
					  pf_shape_str(text, sizeof(text),
						       PF_DTYPE_INVALID, shape));
		}
	}
	*ret = empty ? 0 : n;
	return 0;
}

int pf_shape_bytes(const struct pf_shape *shape, enum pf_dtype dtype, uint64_t *ret,
		   struct pf_err *err)
{
	uint64_t bytes;
	int64_t n = 0;
	int r;

	r = pf_shape_count(shape, &n, err);
	if (r < 0)
		return r;
	if (__builtin_mul_overflow((uint64_t)n, pf_dtype_size(dtype), &bytes) ||
	    bytes > UINT64_C(1) << 62) {
		char text[PF_SHAPE_TEXT];

		return pf_err_set(err, -EOVERFLOW, "%s has more than 2^62 bytes",
				  pf_shape_str(text, sizeof(text), dtype, shape));
	}
	*ret = bytes;
	return 0;
}

struct pf_shape *pf_shape_dup(const struct pf_shape *shape)
{
	struct pf_shape *copy = malloc(offsetof(struct pf_shape, dims[shape->rank]));

	if (copy)
		pf_shape_copy(copy, shape);
	return copy;
}

bool pf_shape_equal(const struct pf_shape *a, const struct pf_shape *b)
{
	return a->rank == b->rank &&
	       memcmp(a->dims, b->dims, a->rank * sizeof(a->dims[0])) == 0;
}

const char *pf_shape_hint(const struct pf_shape *have, const struct pf_shape *want)
{
	if (have->rank != want->rank || pf_shape_equal(have, want))
		return "";
	for (unsigned i = 0; i < have->rank; i++)
		if (have->dims[i] != want->dims[want->rank - 1 - i])
			return "";
	return "; the transposed array fits: a program from Julia has the dimensions of "
	       "Julia's arrays in reverse";
}

/* The first extent of SHAPE from I on that is not 1, if there is one. */
static unsigned skip_ones(const struct pf_shape *shape, unsigned i)
{
	while (i < shape->rank && shape->dims[i] == 1)
		i++;
	return i;
}

bool pf_shape_equal_but_ones(const struct pf_shape *a, const struct pf_shape *b)
{
	unsigned i = skip_ones(a, 0), k = skip_ones(b, 0);

	while (i < a->rank && k < b->rank && a->dims[i] == b->dims[k]) {
		i = skip_ones(a, i + 1);
		k = skip_ones(b, k + 1);
	}
	return i == a->rank && k == b->rank;
}

bool pf_shape_is_linear(const struct pf_shape *shape)
{
	unsigned wide = 0;

	for (unsigned i = 0; i < shape->rank; i++) {
		if (shape->dims[i] == 0)
			return true;
		if (shape->dims[i] != 1)
			wide++;
	}
	return wide <= 1;
}

const char *pf_shape_str(char *dst, size_t len, enum pf_dtype dtype,
			 const struct pf_shape *shape)
{
	const char *name = dtype == PF_DTYPE_INVALID ? "" : pf_dtype_name(dtype);
	size_t used = (size_t)snprintf(dst, len, "%s[", name);

	for (unsigned i = 0; i < shape->rank && used < len; i++)
		used += (size_t)snprintf(dst + used, len - used, i ? ",%lld" : "%lld",
					 (long long)shape->dims[i]);
	if (used < len)
		snprintf(dst + used, len - used, "]");
	return dst;
}

/* Packing elements smaller than a byte. */

/* The constants that the callers pass make each loop one of shifts that never branch. */
#define INLINE static inline __attribute__((__always_inline__))

uint64_t pf_pack_size(enum pf_dtype dtype, uint64_t n)
{
	unsigned bits = pf_dtype_bits(dtype);

	if (bits >= 8 || bits == 0)
		return n * pf_dtype_size(dtype);
	return n / (8 / bits) + (n % (8 / bits) != 0);
}

INLINE unsigned pack_byte(const unsigned char *src, size_t n, unsigned bits)
{
	unsigned byte = 0;

	for (size_t i = 0; i < n; i++)
		byte |= (src[i] & ((1u << bits) - 1)) << i * bits;
	return byte;
}

INLINE void pack(unsigned char *dst, const unsigned char *src, size_t n, unsigned bits)
{
	const size_t per_byte = 8 / bits;

	for (; n >= per_byte; n -= per_byte, src += per_byte)
		*dst++ = (unsigned char)pack_byte(src, per_byte, bits);
	if (n)
		*dst = (unsigned char)pack_byte(src, n, bits);
}

/* SIGN is the sign's bit, or 0: flipping it and then subtracting it extends the sign. */
INLINE void unpack_byte(unsigned char *dst, unsigned byte, size_t n, unsigned bits,
			unsigned sign)
{
	for (size_t i = 0; i < n; i++) {
		unsigned value = byte >> i * bits & ((1u << bits) - 1);

		dst[i] = (unsigned char)((value ^ sign) - sign);
	}
}

INLINE void unpack(unsigned char *dst, const unsigned char *src, size_t n, unsigned bits,
		   unsigned sign)
{
	const size_t per_byte = 8 / bits;

	for (; n >= per_byte; n -= per_byte, dst += per_byte)
		unpack_byte(dst, *src++, per_byte, bits, sign);
	if (n)
		unpack_byte(dst, *src, n, bits, sign);
}

void pf_pack(void *dst, const void *src, size_t n, enum pf_dtype dtype)
{
	assert(pf_dtype_valid((int)dtype));
	switch (pf_dtype_bits(dtype)) {
	case 1:
		pack(dst, src, n, 1);
		break;
	case 2:
		pack(dst, src, n, 2);
		break;
	case 4:
		pack(dst, src, n, 4);
		break;
	default:
		if (n)
			memcpy(dst, src, n * pf_dtype_size(dtype));
		break;
	}
}

void pf_unpack(void *dst, const void *src, size_t n, enum pf_dtype dtype)
{
	unsigned bits = pf_dtype_bits(dtype);
	unsigned sign = 0;

	assert(pf_dtype_valid((int)dtype));
	if (bits < 8 && pf_dtype_kind(dtype) == PF_KIND_SIGNED)
		sign = 1u << (bits - 1);
	switch (bits) {
	case 1:
		unpack(dst, src, n, 1, sign);
		break;
	case 2:
		unpack(dst, src, n, 2, sign);
		break;
	case 4:
		unpack(dst, src, n, 4, sign);
		break;
	default:
		if (n)
			memcpy(dst, src, n * pf_dtype_size(dtype));
		break;
	}
}

/* Copying parts of arrays. */

static bool is_empty(const struct pf_shape *shape)
{
	for (unsigned d = 0; d < shape->rank; d++)
		if (shape->dims[d] <= 0)
			return true;
	return false;
}

/* The element of an array of SHAPE that is at AT. */
static uint64_t place_of(const struct pf_shape *shape, const int64_t at[PF_MAX_RANK])
{
	uint64_t place = 0;

	for (unsigned d = 0; d < shape->rank; d++)
		place = place * (uint64_t)shape->dims[d] + (uint64_t)at[d];
	return place;
}

/* The dimension from which on the elements of BOX lie together in an array of SHAPE: all behind
 * it are whole. */
static unsigned run_dim(const struct pf_shape *box, const struct pf_shape *shape)
{
	unsigned d = box->rank;

	while (d > 0 && box->dims[d - 1] == shape->dims[d - 1])
		d--;
	return d ? d - 1 : 0;
}

bool pf_block_is_run(const struct pf_block *b, uint64_t *first)
{
	*first = 0;
	if (is_empty(&b->part))
		return true;
	for (unsigned d = 0; d < run_dim(&b->part, &b->whole); d++)
		if (b->part.dims[d] != 1)
			return false;
	*first = place_of(&b->whole, b->start);
	return true;
}

/* An array from which a box is copied, or to which. */
struct side {
	unsigned char *p;            /* the next run */
	uint64_t steps[PF_MAX_RANK]; /* bytes from one index to the next */
};

static void side_init(struct side *side, const struct pf_shape *shape,
		      const int64_t at[PF_MAX_RANK], size_t size, void *bytes)
{
	uint64_t step = size;

	side->p = (unsigned char *)bytes + place_of(shape, at) * size;
	for (unsigned d = shape->rank; d-- > 0;) {
		side->steps[d] = step;
		step *= (uint64_t)shape->dims[d];
	}
}

/* Copy BOX, which is not empty, run by run; from dimension RUN on it lies together on both sides. */
static void copy(const struct pf_shape *box, unsigned run, size_t size,
		 const struct side *from, const struct side *to)
{
	const unsigned char *src = from->p;
	unsigned char *dst = to->p;
	int64_t at[PF_MAX_RANK] = { 0 };
	uint64_t len = size;

	for (unsigned d = run; d < box->rank; d++)
		len *= (uint64_t)box->dims[d];
	for (;;) {
		unsigned d = run;

		memcpy(dst, src, len);
		/* The next index of the dimensions before the run's, as an odometer. */
		while (d > 0 && ++at[d - 1] == box->dims[d - 1]) {
			d--;
			src -= (uint64_t)(at[d] - 1) * from->steps[d];
			dst -= (uint64_t)(at[d] - 1) * to->steps[d];
			at[d] = 0;
		}
		if (d == 0)
			return;
		src += from->steps[d - 1];
		dst += to->steps[d - 1];
	}
}

void pf_block_copy(const struct pf_block *from, const void *src,
		   const struct pf_block *to, void *dst, size_t size)
{
	struct pf_shape box = { .rank = from->part.rank };
	int64_t from_at[PF_MAX_RANK], to_at[PF_MAX_RANK];
	struct side a, b;
	unsigned run, other;

	for (unsigned d = 0; d < box.rank; d++) {
		int64_t from_end = from->start[d] + from->part.dims[d];
		int64_t to_end = to->start[d] + to->part.dims[d];
		int64_t first =
			from->start[d] > to->start[d] ? from->start[d] : to->start[d];

		box.dims[d] = (from_end < to_end ? from_end : to_end) - first;
		from_at[d] = first - from->start[d];
		to_at[d] = first - to->start[d];
	}
	if (is_empty(&box))
		return;
	run = run_dim(&box, &from->part);
	other = run_dim(&box, &to->part);
	/* Nothing is written through A. */
	side_init(&a, &from->part, from_at, size, (void *)(uintptr_t)src);
	side_init(&b, &to->part, to_at, size, dst);
	copy(&box, run > other ? run : other, size, &a, &b);
}

void pf_block_cut(const struct pf_block *b, size_t size, const void *whole, void *part)
{
	const struct pf_block all = { .whole = b->whole, .part = b->whole };

	pf_block_copy(&all, whole, b, part, size);
}

bool pf_block_within(const struct pf_block *a, const struct pf_block *b)
{
	for (unsigned d = 0; d < a->part.rank; d++)
		if (a->start[d] < b->start[d] ||
		    a->start[d] + a->part.dims[d] > b->start[d] + b->part.dims[d])
			return false;
	return true;
}

bool pf_block_meets(const struct pf_block *a, const struct pf_block *b)
{
	for (unsigned d = 0; d < a->part.rank; d++)
		if (a->start[d] >= b->start[d] + b->part.dims[d] ||
		    b->start[d] >= a->start[d] + a->part.dims[d])
			return false;
	return true;
}
