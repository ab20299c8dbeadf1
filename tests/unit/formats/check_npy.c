/* SPDX-License-Identifier: Apache-2.0 */
/* .npy headers: NumPy's, truncated at every byte, and malformed ones. */
#include <inttypes.h>

#include "formats_fixture.h"
#include "pjrtfs/array_files.h"

/* A header of VERSION around the dict TEXT; the caller frees it. */
static char *make(unsigned version, const char *text, size_t *ret_len)
{
	size_t n = strlen(text), start = version == 1 ? 10 : 12;
	char *p = calloc(1, start + n + 1);

	memcpy(p, "\x93NUMPY", 6);
	p[6] = (char)version;
	p[8] = (char)(n & 0xff);
	p[9] = (char)(n >> 8);
	memcpy(p + start, text, n);
	*ret_len = start + n;
	return p;
}

static int parse(const char *src, size_t len, struct pf_npy *ret, struct pf_err *err)
{
	pf_autofree char *copy = exact_copy(src, len);

	return pf_npy_parse(copy, len, ret, err);
}

#define ONES_31 "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"
#define C_ORDER "'fortran_order': False, 'shape': "
#define FORTRAN "'fortran_order': True, 'shape': "

/* A header, and what it says: type, shape, order if it matters, and bytes of data. */
static const struct {
	const char *text, *want;
} good[] = {
	{ "{'descr': '<f4', " C_ORDER "(2, 3), }   \n", "F32[2,3] 24" },
	{ "{'descr': '<f8', " C_ORDER "(), }\n", "F64[] 8" },
	{ "{'descr': '|b1', " C_ORDER "(5,), }\n", "PRED[5] 5" },
	{ "{'descr': '<c16', " FORTRAN "(2, 3, 4), }\n", "C128[2,3,4] Fortran 384" },
	/* Both orders are the same bytes. */
	{ "{'descr': '<i4', " FORTRAN "(1, 7, 1), }\n", "S32[1,7,1] 28" },
	/* Python 2. */
	{ "{'descr': '<i8', " C_ORDER "(3L, 10L), }\n", "S64[3,10] 240" },
	{ "{'descr': '<i8', " C_ORDER "(0L,), }\n", "S64[0] 0" },
	/* Any order, any quotes, any space, optional last comma. */
	{ "{\"shape\":(4,),\"fortran_order\":False,\"descr\":\"<u2\"}", "U16[4] 8" },
	{ " \t{ 'shape' : ( 4 , 5 , ) , 'descr' : '=u2' , 'fortran_order' : True }\r\n ",
	  "U16[4,5] Fortran 40" },
	{ "{'descr': '<V2', " C_ORDER "(2,), }\n", "BF16[2] 4" },
	{ "{'descr': '<f1', " C_ORDER "(2,), }\n", "F8E5M2[2] 2" },
	{ "{'descr': '|V2', " C_ORDER "(2,), }\n", "V2[2] 4" },
	{ "{'descr': '|V1', " C_ORDER "(2,), }\n", "V1[2] 2" },
	{ "{'descr': '<V1', " C_ORDER "(2,), }\n", "V1[2] 2" },
	{ "{'descr': '|u1', " C_ORDER "(4611686018427387904,), }\n",
	  "U8[4611686018427387904] 4611686018427387904" },
	{ "{'descr': '|u1', " C_ORDER "(" ONES_31 ",2), }\n", "U8[" ONES_31 ",2] 2" },
};

static void describe(char *dst, size_t len, const struct pf_npy *npy)
{
	char shape[PF_SHAPE_TEXT], raw[16];

	snprintf(raw, sizeof(raw), "V%u", npy->void_size);
	snprintf(dst, len, "%s%s%s %" PRIu64, npy->void_size ? raw : "",
		 pf_shape_str(shape, sizeof(shape), npy->dtype, &npy->shape),
		 npy->fortran_order ? " Fortran" : "", npy->data_len);
}

TEST_EACH(good_headers_truncated_anywhere, good)
{
	for (unsigned version = 1; version <= 3; version++) {
		struct pf_err err = PF_ERR_INIT;
		char says[PF_SHAPE_TEXT + 64];
		struct pf_npy npy = { .void_size = 77 };
		size_t len;
		char *src = make(version, good[_i].text, &len);

		for (size_t i = 0; i < len; i++)
			check_result(parse(src, i, &npy, &err), 0, &err, NULL);
		ck_assert_int_eq((int)npy.void_size, 77);
		/* With and without data behind it. */
		for (size_t i = 0; i < 2; i++) {
			check_result(parse(src, len + i, &npy, &err), 1, &err, NULL);
			describe(says, sizeof(says), &npy);
			ck_assert_str_eq(says, good[_i].want);
			ck_assert_uint_eq(npy.header_len, len);
		}
		free(src);
	}
}

#define HEAD "{'descr': '<f4', " C_ORDER

static const struct {
	const char *text;
	int want;
	const char *says;
} bad[] = {
	/* No dict. */
	{ "", -EINVAL, "expected '{', found its end" },
	{ "[1, 2]\n", -EINVAL, "expected '{', found \"[1, 2]" },
	{ "{", -EINVAL, "found its end" },
	{ "{'descr", -EINVAL, "expected a key" },
	{ "{descr: '<f4'}", -EINVAL, "expected a key" },
	{ "{'descr' '<f4'}", -EINVAL, "expected ':'" },
	{ "{'descr': <f4}", -EINVAL, "expected a type" },
	{ "{'descr': '<f4\n'}", -EINVAL, "expected a type" },
	{ "{'descr': '\\x3cf4'}", -EINVAL, "expected a type" },
	{ "{'descr': '<f4' 'shape': ()}", -EINVAL, "expected ',' or '}'" },
	{ "{'descr': '<f4',, 'shape': ()}", -EINVAL, "expected a key" },
	{ "{,}", -EINVAL, "expected a key" },
	/* Keys. */
	{ "{'descr': '<f4'}", -EINVAL, "no key 'fortran_order'" },
	{ "{'descr': '<f4', 'fortran_order': False}", -EINVAL, "no key 'shape'" },
	{ "{'shape': (), 'fortran_order': False}", -EINVAL, "no key 'descr'" },
	{ "{'descr': '<f4', 'descr': '<f4'}", -EINVAL, "'descr' is given twice" },
	{ HEAD "(), 'shape': ()}", -EINVAL, "'shape' is given twice" },
	{ HEAD "(), '': 1}", -EINVAL, "unknown key ''" },
	{ HEAD "(), 'Shape': ()}", -EINVAL, "unknown key 'Shape'" },
	/* Behind the dict. */
	{ HEAD "()} x", -EINVAL, "nothing after '}'" },
	{ HEAD "()}}", -EINVAL, "nothing after '}'" },
	/* Order. */
	{ "{'fortran_order': false}", -EINVAL, "True or False" },
	{ "{'fortran_order': Fals", -EINVAL, "True or False" },
	{ "{'fortran_order': Falsey}", -EINVAL, "expected ',' or '}'" },
	/* Shapes. */
	{ HEAD "3}", -EINVAL, "expected a tuple" },
	{ HEAD "(3)}", -EINVAL, "an integer in brackets" },
	{ HEAD "(3", -EINVAL, "found its end" },
	{ HEAD "(3,", -EINVAL, "found its end" },
	{ HEAD "(,)}", -EINVAL, "an extent" },
	{ HEAD "(3,,)}", -EINVAL, "an extent" },
	{ HEAD "(3 4)}", -EINVAL, "',' or ')'" },
	{ HEAD "(-1,)}", -EINVAL, "0 or more" },
	{ HEAD "(03,)}", -EINVAL, "leading zeros" },
	{ HEAD "(3.0,)}", -EINVAL, "an extent" },
	{ HEAD "(3LL,)}", -EINVAL, "',' or ')'" },
	{ HEAD "(L,)}", -EINVAL, "an extent" },
	{ HEAD "((3,),)}", -EINVAL, "an extent" },
	{ HEAD "(" ONES_31 ",1,1)}", -EINVAL, "more than 32" },
	/* Sizes. */
	{ HEAD "(9223372036854775808,)}", -EOVERFLOW, "beyond 2^63-1" },
	{ HEAD "(9223372036854775807,)}", -EOVERFLOW, "2^62 bytes" },
	{ HEAD "(2305843009213693952,)}", -EOVERFLOW, "2^62 bytes" },
	{ HEAD "(4294967296, 4294967296, 0)}", -EOVERFLOW, "2^63-1 elements" },
	/* Types. */
	{ "{'descr': ''}", -EINVAL, "descr is empty" },
	{ "{'descr': '>f4'}", -EINVAL, "big-endian" },
	{ "{'descr': '|O'}", -EINVAL, "Python objects" },
	{ "{'descr': 'O'}", -EINVAL, "Python objects" },
	{ "{'descr': [('a', '<f4'), ('b', '<i4')]}", -EINVAL, "structured" },
	{ "{'descr': ('<f4', (2,))}", -EINVAL, "structured" },
	{ "{'descr': '|S5'}", -EINVAL, "strings" },
	{ "{'descr': '<U5'}", -EINVAL, "strings" },
	{ "{'descr': '|a5'}", -EINVAL, "strings" },
	{ "{'descr': '<M8[ns]'}", -EINVAL, "dates" },
	{ "{'descr': '<m8[s]'}", -EINVAL, "dates" },
	{ "{'descr': '<f16'}", -EINVAL, "no element type" },
	{ "{'descr': '<'}", -EINVAL, "no element type" },
	{ "{'descr': 'float32'}", -EINVAL, "no element type" },
	{ "{'descr': '|V3'}", -EINVAL, "1 and 2 bytes" },
	{ "{'descr': '>V2'}", -EINVAL, "1 and 2 bytes" },
	{ "{'descr': '|V20'}", -EINVAL, "1 and 2 bytes" },
};

TEST_EACH(bad_headers, bad)
{
	struct pf_err err = PF_ERR_INIT;
	struct pf_npy npy;
	size_t len;
	pf_autofree char *src = make(1, bad[_i].text, &len);

	check_result(parse(src, len, &npy, &err), bad[_i].want, &err, bad[_i].says);
	/* Cut off, it is refused or not yet, and never accepted. */
	for (size_t i = 0; i < len; i++)
		ck_assert_int_le(parse(src, i, &npy, &err), 0);
}

static const struct {
	const char *src;
	size_t len;
	int want;
} preambles[] = {
	{ "", 0, 0 },
	{ "\x93", 1, 0 },
	{ "N", 1, -EINVAL },
	{ "\x93NUMPX", 6, -EINVAL },
	{ "\x93NUMPY", 6, 0 },
	{ "\x93NUMPY\x00", 7, -EINVAL },
	{ "\x93NUMPY\x04", 7, -EINVAL },
	{ "\x93NUMPY\x01", 7, 0 },
	{ "\x93NUMPY\x01\x01", 8, -EINVAL },
	{ "\x93NUMPY\x02\x00", 8, 0 },
	{ "\x93NUMPY\x01\x00\x10", 9, 0 },
	{ "\x93NUMPY\x02\x00\xff\xff\xff", 11, 0 },
	{ "\x93NUMPY\x02\x00\xff\xff\xff\xff", 12, -EINVAL },
	{ "\x93NUMPY\x02\x00\x01\x00\x01\x00", 12, -EINVAL }, /* one byte too long */
	{ "\x93NUMPY\x02\x00\x00\x00\x01\x00", 12, 0 },       /* the longest */
	{ "\x93NUMPY\x03\x00\x00\x00\x00\x00", 12, -EINVAL }, /* empty */
};

TEST_EACH(preamble, preambles)
{
	struct pf_err err = PF_ERR_INIT;
	struct pf_npy npy;

	check_result(parse(preambles[_i].src, preambles[_i].len, &npy, &err),
		     preambles[_i].want, &err, ".npy");
}

static const struct pf_shape shapes[] = {
	{ 0, { 0 } },
	{ 1, { 7 } },
	{ 2, { 2, 3 } },
	{ 3, { 1, 1000000, 12345678901 } },
	{ 32, { [0 ... 31] = 1 } },
};

TEST_EACH(print_then_parse, shapes)
{
	for (int d = 1; d < PF_DTYPE_COUNT; d++) {
		pf_autobuf struct pf_buf buf = PF_BUF_INIT;
		enum pf_dtype dtype = (enum pf_dtype)d;
		struct pf_npy npy;
		uint64_t bytes = 0;

		if (!pf_dtype_valid(d))
			continue;
		pf_npy_print(&buf, dtype, &shapes[_i]);
		ck_assert(!buf.failed);
		ck_assert_uint_eq(buf.len % 64, 0);
		ck_assert_int_eq(buf.data[buf.len - 1], '\n');
		ck_assert_int_eq(pf_npy_parse(buf.data, buf.len, &npy, NULL), 1);
		ck_assert_uint_eq(npy.header_len, buf.len);
		ck_assert(pf_shape_equal(&npy.shape, &shapes[_i]));
		ck_assert(!npy.fortran_order);
		ck_assert_int_eq(pf_shape_bytes(&shapes[_i], dtype, &bytes, NULL), 0);
		ck_assert_uint_eq(npy.data_len, bytes);
		/* Types without a .npy name are read back by descr or size. */
		if (npy.dtype == PF_DTYPE_INVALID)
			ck_assert_uint_eq(npy.void_size, pf_dtype_size(dtype));
		else
			ck_assert_str_eq(pf_dtype_npy_descr(npy.dtype),
					 pf_dtype_npy_descr(dtype));
	}
}

/* Byte for byte what numpy.save writes (NumPy 2.4). */
TEST(prints_as_numpy)
{
	static const char text[] = "\x93NUMPY\x01\0v\0{'descr': '<f4', "
				   "'fortran_order': False, 'shape': (2, 3), }";
	pf_autobuf struct pf_buf buf = PF_BUF_INIT;

	pf_npy_print(&buf, PF_DTYPE_F32, &shapes[2]);
	ck_assert_uint_eq(buf.len, 128);
	ck_assert_mem_eq(buf.data, text, sizeof(text) - 1);
	for (size_t i = sizeof(text) - 1; i < 127; i++)
		ck_assert_int_eq(buf.data[i], ' ');
	pf_npy_print(&buf, PF_DTYPE_S64, &shapes[1]);
	ck_assert_ptr_nonnull(strstr(buf.data + 138, "'shape': (7,), }"));
}

/* A NUL does not end the header. */
TEST(nul_behind_the_dict)
{
	struct pf_err err = PF_ERR_INIT;
	struct pf_npy npy;
	size_t len;
	pf_autofree char *src = make(1, HEAD "()}#x", &len);

	src[len - 2] = '\0';
	check_result(parse(src, len, &npy, &err), -EINVAL, &err, "nothing after '}'");
}
