/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes: counting without overflow, and the order of elements. */
#include <errno.h>
#include <string.h>

#include "pjrtfs/array.h"
#include "unit.h"

#define BIG INT64_C(0x7fffffffffffffff)

static const struct {
	struct pf_shape shape;
	int64_t want; /* or -errno */
	const char *text;
} counts[] = {
	{ { 0, { 0 } }, 1, "F32[]" },
	{ { 1, { 0 } }, 0, "F32[0]" },
	{ { 1, { 7 } }, 7, "F32[7]" },
	{ { 2, { 2, 3 } }, 6, "F32[2,3]" },
	{ { 3, { 2, 0, 3 } }, 0, "F32[2,0,3]" },
	{ { 1, { BIG } }, BIG, "F32[9223372036854775807]" },
	{ { 2, { BIG, 1 } }, BIG, "F32[9223372036854775807,1]" },
	{ { 2, { BIG, 2 } }, -EOVERFLOW, "F32[9223372036854775807,2]" },
	{ { 3, { BIG, 2, 0 } }, -EOVERFLOW, "F32[9223372036854775807,2,0]" },
	{ { 3, { 0, BIG, 2 } }, -EOVERFLOW, "F32[0,9223372036854775807,2]" },
	{ { 2, { INT64_C(1) << 32, INT64_C(1) << 31 } },
	  -EOVERFLOW,
	  "F32[4294967296,2147483648]" },
	{ { 2, { INT64_C(1) << 31, INT64_C(1) << 31 } },
	  INT64_C(1) << 62,
	  "F32[2147483648,2147483648]" },
};

TEST_EACH(counts_elements, counts)
{
	struct pf_err err = PF_ERR_INIT;
	int64_t n = -1;
	int r = pf_shape_count(&counts[_i].shape, &n, &err);

	if (counts[_i].want < 0) {
		ck_assert_int_eq(r, counts[_i].want);
		ck_assert_int_eq(n, -1);
		/* The sentence names the shape. */
		ck_assert_ptr_nonnull(strstr(err.text, counts[_i].text + 3));
	} else {
		ck_assert_int_eq(r, 0);
		ck_assert_int_eq(n, counts[_i].want);
	}
}

TEST_EACH(prints, counts)
{
	char text[64], cut[64];

	ck_assert_str_eq(pf_shape_str(text, sizeof(text), PF_DTYPE_F32,
				      &counts[_i].shape),
			 counts[_i].text);
	for (size_t len = 0; len < sizeof(cut); len++) {
		memset(cut, '#', sizeof(cut));
		pf_shape_str(cut, len, PF_DTYPE_F32, &counts[_i].shape);
		for (size_t k = len; k < sizeof(cut); k++)
			ck_assert_int_eq(cut[k], '#');
		if (len)
			ck_assert(strncmp(cut, counts[_i].text, strlen(cut)) == 0 &&
				  strlen(cut) < len);
	}
}

TEST(prints_without_a_type)
{
	struct pf_shape shape = { .rank = PF_MAX_RANK };
	char text[PF_SHAPE_TEXT];

	pf_shape_str(text, sizeof(text), PF_DTYPE_INVALID, &counts[3].shape);
	ck_assert_str_eq(text, "[2,3]");
	/* The longest text there is. */
	for (unsigned i = 0; i < PF_MAX_RANK; i++)
		shape.dims[i] = INT64_MIN;
	pf_shape_str(text, sizeof(text), PF_DTYPE_F8E4M3B11FNUZ, &shape);
	ck_assert_uint_eq(strlen(text), 13 + 1 + PF_MAX_RANK * 21);
	ck_assert_int_eq(text[strlen(text) - 1], ']');
}

static const struct {
	struct pf_shape shape;
	enum pf_dtype dtype;
	int64_t want; /* or -errno */
} sizes[] = {
	{ { 0, { 0 } }, PF_DTYPE_C128, 16 },
	{ { 2, { 3, 5 } }, PF_DTYPE_F32, 60 },
	{ { 2, { 3, 5 } }, PF_DTYPE_S4, 15 },
	{ { 1, { 0 } }, PF_DTYPE_F64, 0 },
	{ { 1, { INT64_C(1) << 62 } }, PF_DTYPE_U8, INT64_C(1) << 62 },
	{ { 1, { (INT64_C(1) << 62) + 1 } }, PF_DTYPE_U8, -EOVERFLOW },
	{ { 1, { INT64_C(1) << 60 } }, PF_DTYPE_F32, INT64_C(1) << 62 },
	{ { 1, { (INT64_C(1) << 60) + 1 } }, PF_DTYPE_F32, -EOVERFLOW },
	{ { 1, { INT64_C(1) << 60 } }, PF_DTYPE_C128, -EOVERFLOW },
	{ { 1, { INT64_C(1) << 62 } }, PF_DTYPE_C64, -EOVERFLOW },
	{ { 1, { BIG } }, PF_DTYPE_C128, -EOVERFLOW },
	{ { 2, { BIG, BIG } }, PF_DTYPE_U8, -EOVERFLOW },
};

TEST_EACH(counts_bytes, sizes)
{
	struct pf_err err = PF_ERR_INIT;
	uint64_t n = 12345;
	int r = pf_shape_bytes(&sizes[_i].shape, sizes[_i].dtype, &n, &err);

	if (sizes[_i].want < 0) {
		ck_assert_int_eq(r, sizes[_i].want);
		ck_assert_int_eq(err.code, r);
	} else {
		ck_assert_int_eq(r, 0);
		ck_assert_uint_eq(n, (uint64_t)sizes[_i].want);
	}
}

TEST(equality)
{
	struct pf_shape a = { 2, { 2, 3 } }, b = a;

	b.dims[2] = 99;
	ck_assert(pf_shape_equal(&a, &b));
	b.dims[1] = 4;
	ck_assert(!pf_shape_equal(&a, &b));
	b = a;
	b.rank = 1;
	ck_assert(!pf_shape_equal(&a, &b));
	a.rank = b.rank = 0;
	ck_assert(pf_shape_equal(&a, &b));
}

static const struct {
	struct pf_shape shape;
	bool want;
} linears[] = {
	{ { 0, { 0 } }, true },           { { 1, { 9 } }, true },
	{ { 2, { 1, 9 } }, true },        { { 2, { 9, 1 } }, true },
	{ { 3, { 1, 9, 1 } }, true },     { { 3, { 1, 1, 1 } }, true },
	{ { 3, { 5, 0, 7 } }, true },     { { 2, { 2, 3 } }, false },
	{ { 4, { 1, 2, 1, 3 } }, false }, { { 2, { 2, 2 } }, false },
};

TEST_EACH(linear_shapes, linears)
{
	ck_assert_int_eq(pf_shape_is_linear(&linears[_i].shape), linears[_i].want);
}

static const struct pf_shape orders[] = {
	{ 0, { 0 } },
	{ 1, { 5 } },
	{ 2, { 3, 4 } },
	{ 2, { 100, 33 } },
	{ 2, { 1, 6 } },
	{ 2, { 64, 64 } },
	{ 3, { 2, 3, 4 } },
	{ 3, { 33, 2, 65 } },
	{ 3, { 0, 2, 65 } },
	{ 4, { 2, 3, 4, 5 } },
	{ 5, { 3, 1, 4, 1, 5 } },
	{ 6, { 2, 2, 2, 2, 2, 2 } },
	{ 3, { 1, 3, 2 } },
	{ 3, { 2, 3, 1 } },
};

/* Compared with the definition: element (i0, i1, ...) in one order and in the other. */
TEST_EACH(to_row_major, orders)
{
	static const size_t element_sizes[] = { 1, 2, 4, 8, 16, 3 };
	const struct pf_shape *shape = &orders[_i];
	int64_t n = 0;

	ck_assert_int_eq(pf_shape_count(shape, &n, NULL), 0);
	for (size_t s = 0; s < ARRAY_SIZE(element_sizes); s++) {
		size_t size = element_sizes[s], bytes = (size_t)n * size;
		unsigned char *src = malloc(bytes + 1), *dst = malloc(bytes + 1);

		for (size_t i = 0; i < bytes; i++)
			src[i] = (unsigned char)(i * 131 + i / 251);
		pf_shape_to_row_major(shape, size, src, dst);
		for (int64_t row = 0; row < n; row++) {
			int64_t rest = row, col = 0, index[PF_MAX_RANK];

			for (unsigned d = shape->rank; d-- > 0; rest /= shape->dims[d])
				index[d] = rest % shape->dims[d];
			for (unsigned d = shape->rank; d-- > 0;)
				col = col * shape->dims[d] + index[d];
			ck_assert_mem_eq(dst + (size_t)row * size,
					 src + (size_t)col * size, size);
		}
		free(src);
		free(dst);
	}
}
