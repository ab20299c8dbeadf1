/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes and layouts: counting without overflow, orders of elements, packing of small ones. */
#include "formats_fixture.h"
#include "pjrtfs/array.h"

#define BIG INT64_C(0x7fffffffffffffff)

/* --- shapes ---------------------------------------------------------------------------------- */

static const struct {
	struct pf_shape shape;
	int64_t want; /* or -errno */
	const char *text;
} counts[] = {
	{ { 0, { 0 } }, 1, "F32[]" },
	{ { 1, { 0 } }, 0, "F32[0]" },
	{ { 2, { 2, 3 } }, 6, "F32[2,3]" },
	{ { 3, { 2, 0, 3 } }, 0, "F32[2,0,3]" },
	{ { 2, { BIG, 1 } }, BIG, "F32[9223372036854775807,1]" },
	{ { 2, { BIG, 2 } }, -EOVERFLOW, "F32[9223372036854775807,2]" },
	{ { 3, { BIG, 2, 0 } }, -EOVERFLOW, "F32[9223372036854775807,2,0]" },
	{ { 3, { 0, BIG, 2 } }, -EOVERFLOW, "F32[0,9223372036854775807,2]" },
};

TEST_EACH(counts_elements, counts)
{
	struct pf_err err = PF_ERR_INIT;
	int64_t n = -1, want = counts[_i].want;

	check_result(pf_shape_count(&counts[_i].shape, &n, &err),
		     want < 0 ? (int)want : 0, &err, counts[_i].text + 3);
	ck_assert_int_eq(n, want < 0 ? -1 : want);
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

	pf_shape_str(text, sizeof(text), PF_DTYPE_INVALID, &counts[2].shape);
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
	{ { 2, { 3, 5 } }, PF_DTYPE_S4, 15 },
	{ { 1, { 0 } }, PF_DTYPE_F64, 0 },
	{ { 1, { INT64_C(1) << 60 } }, PF_DTYPE_F32, INT64_C(1) << 62 },
	{ { 1, { (INT64_C(1) << 60) + 1 } }, PF_DTYPE_F32, -EOVERFLOW },
	{ { 1, { BIG } }, PF_DTYPE_C128, -EOVERFLOW },
	{ { 2, { BIG, BIG } }, PF_DTYPE_U8, -EOVERFLOW },
};

TEST_EACH(counts_bytes, sizes)
{
	struct pf_err err = PF_ERR_INIT;
	uint64_t n = 0;
	int64_t want = sizes[_i].want;

	check_result(pf_shape_bytes(&sizes[_i].shape, sizes[_i].dtype, &n, &err),
		     want < 0 ? (int)want : 0, &err, "has more than 2^6");
	ck_assert_uint_eq(n, want < 0 ? 0 : (uint64_t)want);
}

TEST(equality)
{
	struct pf_shape a = { 2, { 2, 3 } }, b = a;

	b.dims[2] = 99;
	ck_assert(pf_shape_equal(&a, &b));
	b.dims[1] = 4;
	ck_assert(!pf_shape_equal(&a, &b));
	b = (struct pf_shape){ 1, { 2 } };
	ck_assert(!pf_shape_equal(&a, &b));
}

static const struct {
	struct pf_shape a, b;
	bool want;
} ones[] = {
	{ { 1, { 4 } }, { 2, { 1, 4 } }, true },
	{ { 3, { 1, 2, 3 } }, { 4, { 2, 1, 3, 1 } }, true },
	{ { 0, { 0 } }, { 2, { 1, 1 } }, true },
	{ { 0, { 0 } }, { 1, { 0 } }, false },
	{ { 2, { 2, 3 } }, { 2, { 3, 2 } }, false },
	{ { 2, { 2, 3 } }, { 1, { 6 } }, false },
	{ { 1, { 2 } }, { 2, { 2, 3 } }, false },
};

TEST_EACH(equality_but_for_ones, ones)
{
	ck_assert(pf_shape_equal_but_ones(&ones[_i].a, &ones[_i].b) == ones[_i].want);
	ck_assert(pf_shape_equal_but_ones(&ones[_i].b, &ones[_i].a) == ones[_i].want);
}

static const struct {
	struct pf_shape shape;
	bool want;
} linears[] = {
	{ { 0, { 0 } }, true },
	{ { 3, { 1, 9, 1 } }, true },
	{ { 3, { 5, 0, 7 } }, true },
	{ { 4, { 1, 2, 1, 3 } }, false },
};

TEST_EACH(linear_shapes, linears)
{
	ck_assert_int_eq(pf_shape_is_linear(&linears[_i].shape), linears[_i].want);
}

/* --- layouts --------------------------------------------------------------------------------- */

static const struct {
	struct pf_shape shape;
	size_t n;
	int64_t dims[4];
	int want;
	bool row_major;
} orders[] = {
	{ { 0, { 0 } }, 0, { 0 }, 0, true },
	{ { 1, { 5 } }, 1, { 0 }, 0, true },
	{ { 2, { 2, 3 } }, 2, { 1, 0 }, 0, true },
	{ { 2, { 2, 3 } }, 2, { 0, 1 }, 0, false },
	{ { 2, { 1, 3 } }, 2, { 0, 1 }, 0, true },
	{ { 2, { 0, 3 } }, 2, { 0, 1 }, 0, true },
	{ { 3, { 2, 1, 4 } }, 3, { 1, 2, 0 }, 0, true },
	{ { 3, { 2, 1, 4 } }, 3, { 2, 0, 1 }, 0, true },
	{ { 3, { 2, 1, 4 } }, 3, { 0, 1, 2 }, 0, false },
	{ { 3, { 2, 3, 4 } }, 3, { 1, 2, 0 }, 0, false },
	{ { 2, { 2, 3 } }, 1, { 0 }, -EINVAL, false },
	{ { 2, { 2, 3 } }, 3, { 0, 1, 2 }, -EINVAL, false },
	{ { 2, { 2, 3 } }, 2, { 0, 0 }, -EINVAL, false },
	{ { 2, { 2, 3 } }, 2, { 0, 2 }, -EINVAL, false },
	{ { 2, { 2, 3 } }, 2, { -1, 0 }, -EINVAL, false },
};

TEST_EACH(orders_are_checked, orders)
{
	const struct pf_shape *shape = &orders[_i].shape;
	struct pf_layout layout;
	int r = pf_layout_make(shape, orders[_i].dims, orders[_i].n, &layout);

	ck_assert_int_eq(r, orders[_i].want);
	if (r < 0)
		return;
	ck_assert(pf_layout_is_valid(&layout, shape->rank));
	ck_assert_int_eq(pf_layout_is_row_major(&layout), orders[_i].row_major);
	for (unsigned i = 0; i < shape->rank; i++)
		ck_assert_uint_eq(pf_layout_dim(&layout, shape->rank, i),
				  orders[_i].row_major ? shape->rank - 1 - i
						       : (unsigned)orders[_i].dims[i]);
}

static const struct {
	struct pf_layout layout;
	unsigned rank;
	bool valid;
} layouts[] = {
	{ { { 0 } }, 0, true },        { { { 0 } }, 32, true },
	{ { { 1, 0, 2 } }, 3, true },  { { { 0, 1 } }, 3, false },
	{ { { 0, 1, 1 } }, 3, false }, { { { 0, 1, 255 } }, 3, false },
	{ { { 64, 1 } }, 2, false },
};

TEST_EACH(layouts_are_checked, layouts)
{
	ck_assert_int_eq(pf_layout_is_valid(&layouts[_i].layout, layouts[_i].rank),
			 layouts[_i].valid);
}

static const struct {
	struct pf_shape shape;
	struct pf_layout from, to;
} conversions[] = {
	{ { 0, { 0 } }, { { 0 } }, { { 0 } } },
	{ { 2, { 0, 6 } }, { { 0 } }, { { 0, 1 } } },
	{ { 2, { 1, 6 } }, { { 0 } }, { { 0, 1 } } },
	{ { 2, { 3, 4 } }, { { 0 } }, { { 0, 1 } } },
	{ { 2, { 3, 4 } }, { { 0, 1 } }, { { 0, 1 } } },
	{ { 3, { 2, 3, 4 } }, { { 0 } }, { { 0, 2, 1 } } },
	{ { 3, { 2, 3, 4 } }, { { 1, 0, 2 } }, { { 2, 0, 1 } } },
	{ { 3, { 2, 3, 4 } }, { { 2, 0, 1 } }, { { 0 } } }, /* one fastest dimension */
	{ { 3, { 5, 1, 7 } }, { { 1, 0, 2 } }, { { 0 } } },
	{ { 4, { 2, 3, 4, 5 } }, { { 1, 3, 0, 2 } }, { { 2, 0, 3, 1 } } },
};

/* Where in LAYOUT the element INDEX of SHAPE is. */
static size_t place_of(const struct pf_shape *shape, const struct pf_layout *layout,
		       const int64_t *index)
{
	size_t at = 0;

	for (unsigned i = shape->rank; i-- > 0;) {
		unsigned dim = pf_layout_dim(layout, shape->rank, i);

		at = at * (size_t)shape->dims[dim] + (size_t)index[dim];
	}
	return at;
}

/* Compared with the definition: element (i0, i1, ...) in one layout and in the other. */
static void check_conversion(const struct pf_shape *shape, const struct pf_layout *from,
			     const struct pf_layout *to, bool to_row_major)
{
	static const size_t element_sizes[] = { 1, 2, 4, 8, 16, 3 };
	int64_t n = 0;

	ck_assert_int_eq(pf_shape_count(shape, &n, NULL), 0);
	for (size_t s = 0; s < ARRAY_SIZE(element_sizes); s++) {
		size_t size = element_sizes[s], len = (size_t)n * size;
		unsigned char *src = malloc(len + 1), *dst = malloc(len + 1);

		for (size_t i = 0; i < len; i++)
			src[i] = (unsigned char)(i * 131 + i / 251);
		if (to_row_major)
			pf_shape_to_row_major(shape, size, src, dst);
		else
			pf_layout_convert(shape, size, from, src, to, dst);
		for (int64_t k = 0; k < n; k++) {
			int64_t rest = k, index[PF_MAX_RANK];

			for (unsigned d = shape->rank; d-- > 0; rest /= shape->dims[d])
				index[d] = rest % shape->dims[d];
			ck_assert_mem_eq(dst + place_of(shape, to, index) * size,
					 src + place_of(shape, from, index) * size, size);
		}
		free(src);
		free(dst);
	}
}

TEST_EACH(elements_keep_their_index, conversions)
{
	check_conversion(&conversions[_i].shape, &conversions[_i].from,
			 &conversions[_i].to, false);
}

static const struct pf_shape column_major[] = {
	{ 0, { 0 } },         { 1, { 5 } },
	{ 2, { 64, 64 } },    { 2, { 100, 33 } },
	{ 3, { 33, 2, 65 } }, { 3, { 0, 2, 65 } },
	{ 3, { 1, 3, 2 } },   { 5, { 3, 1, 4, 1, 5 } },
};

TEST_EACH(to_row_major, column_major)
{
	static const struct pf_layout row_major;
	const struct pf_shape *shape = &column_major[_i];
	struct pf_layout from = { { 0 } };

	for (unsigned i = 0; shape->rank > 1 && i < shape->rank; i++)
		from.minor_to_major[i] = (uint8_t)i;
	check_conversion(shape, &from, &row_major, true);
}

/* --- packing --------------------------------------------------------------------------------- */

static const struct {
	enum pf_dtype dtype;
	uint64_t n, want;
} packed_of[] = {
	{ PF_DTYPE_U4, 0, 0 },
	{ PF_DTYPE_F4E2M1FN, 3, 2 },
	{ PF_DTYPE_S2, 5, 2 },
	{ PF_DTYPE_U1, 8, 1 },
	{ PF_DTYPE_S1, 9, 2 },
	{ PF_DTYPE_U1, UINT64_MAX, UINT64_C(1) << 61 },
	{ PF_DTYPE_U4, UINT64_MAX, UINT64_C(1) << 63 },
	{ PF_DTYPE_PRED, 9, 9 },
	{ PF_DTYPE_C128, 9, 144 },
	{ PF_DTYPE_INVALID, 9, 0 },
};

TEST_EACH(packed_sizes, packed_of)
{
	ck_assert_uint_eq(pf_pack_size(packed_of[_i].dtype, packed_of[_i].n),
			  packed_of[_i].want);
}

/* The bytes of whole types are the same. */
TEST(whole_types_are_copied)
{
	unsigned char out[4] = { 0 };

	pf_pack(out, "\1\2\3\4", 2, PF_DTYPE_U16);
	ck_assert_mem_eq(out, "\1\2\3\4", 4);
	pf_unpack(out, "\5\6\7\10", 2, PF_DTYPE_U16);
	ck_assert_mem_eq(out, "\5\6\7\10", 4);
}

static const struct {
	enum pf_dtype dtype;
	bool is_signed;
} small[] = {
	{ PF_DTYPE_S1, true },        { PF_DTYPE_S2, true },  { PF_DTYPE_S4, true },
	{ PF_DTYPE_U1, false },       { PF_DTYPE_U2, false }, { PF_DTYPE_U4, false },
	{ PF_DTYPE_F4E2M1FN, false },
};
/* Compared with the definition, bit by bit; no byte changes beyond either end. */
TEST_EACH(every_length, small)
{
	enum pf_dtype d = small[_i].dtype;
	unsigned bits = pf_dtype_bits(d);

	for (size_t n = 0; n < 70; n++) {
		size_t bytes = (size_t)pf_pack_size(d, n);
		unsigned char *host = malloc(n + 1), *back = malloc(n + 1);
		unsigned char *packed = malloc(bytes + 1);

		/* The bits above a value's own are arbitrary. */
		for (size_t i = 0; i < n; i++)
			host[i] = (unsigned char)(i * 73 + n * 29 + 5);
		packed[bytes] = back[n] = 0x5a;
		pf_pack(packed, host, n, d);
		pf_unpack(back, packed, n, d);
		ck_assert_int_eq(packed[bytes], 0x5a);
		ck_assert_int_eq(back[n], 0x5a);
		for (size_t i = 0; i < n; i++) {
			unsigned value = host[i] & ((1u << bits) - 1), got = 0;

			for (unsigned b = 0; b < bits; b++) {
				size_t at = i * bits + b;

				got |= (packed[at / 8] >> at % 8 & 1u) << b;
			}
			ck_assert_uint_eq(got, value);
			if (small[_i].is_signed && value >> (bits - 1))
				value |= 0xffu << bits & 0xff;
			ck_assert_uint_eq(back[i], value);
		}
		/* The last byte has no padding bits. */
		if (n * bits % 8)
			ck_assert_int_eq(packed[bytes - 1] >> n * bits % 8, 0);
		free(host);
		free(back);
		free(packed);
	}
}
