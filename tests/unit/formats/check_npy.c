/* SPDX-License-Identifier: Apache-2.0 */
/* .npy headers: NumPy's, truncated at every byte, and malformed ones. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pjrtfs/array_files.h"
#include "unit.h"

/* A header of VERSION around the dict TEXT, followed by DATA; the caller frees it. */
static char *make(unsigned version, const char *text, size_t *ret_len)
{
	size_t n = strlen(text), start = version == 1 ? 10 : 12;
	char *p = malloc(start + n + 1);

	memcpy(p, "\x93NUMPY", 6);
	p[6] = (char)version;
	p[7] = 0;
	p[8] = (char)(n & 0xff);
	p[9] = (char)(n >> 8);
	if (version > 1) {
		p[10] = (char)(n >> 16);
		p[11] = (char)(n >> 24);
	}
	memcpy(p + start, text, n + 1);
	*ret_len = start + n;
	return p;
}

/* Parse a copy that ends where LEN says, so that sanitizers see a byte too many. */
static int parse(const char *src, size_t len, struct pf_npy *ret, struct pf_err *err)
{
	char *copy = malloc(len ? len : 1);
	int r;

	memcpy(copy, src, len);
	r = pf_npy_parse(copy, len, ret, err);
	free(copy);
	return r;
}

/* A header, and what it says: type, shape, order if it matters, and bytes of data. */
static const struct {
	const char *text, *want;
} good[] = {
	{ "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n",
	  "F32[2,3] 24" },
	{ "{'descr': '<f8', 'fortran_order': False, 'shape': (), }\n", "F64[] 8" },
	{ "{'descr': '|b1', 'fortran_order': False, 'shape': (5,), }\n", "PRED[5] 5" },
	{ "{'descr': '<c16', 'fortran_order': True, 'shape': (2, 3, 4), }\n",
	  "C128[2,3,4] Fortran 384" },
	/* Both orders are the same bytes. */
	{ "{'descr': '<i4', 'fortran_order': True, 'shape': (7,), }\n", "S32[7] 28" },
	{ "{'descr': '<i4', 'fortran_order': True, 'shape': (1, 7, 1), }\n",
	  "S32[1,7,1] 28" },
	{ "{'descr': '<i4', 'fortran_order': True, 'shape': (0, 7), }\n", "S32[0,7] 0" },
	{ "{'descr': '<i4', 'fortran_order': True, 'shape': (), }\n", "S32[] 4" },
	/* Python 2. */
	{ "{'descr': '<i8', 'fortran_order': False, 'shape': (3L, 10L), }\n",
	  "S64[3,10] 240" },
	{ "{'descr': '<i8', 'fortran_order': False, 'shape': (0L,), }\n", "S64[0] 0" },
	/* Any order, any quotes, any space, optional last comma. */
	{ "{\"shape\":(4,),\"fortran_order\":False,\"descr\":\"<u2\"}", "U16[4] 8" },
	{ " \t{ 'shape' : ( 4 , 5 , ) , 'descr' : '=u2' , 'fortran_order' : True }\r\n ",
	  "U16[4,5] Fortran 40" },
	{ "{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }\n", "BF16[2] 4" },
	{ "{'descr': '<f1', 'fortran_order': False, 'shape': (2,), }\n", "F8E5M2[2] 2" },
	{ "{'descr': '>i1', 'fortran_order': False, 'shape': (2,), }\n", "S8[2] 2" },
	{ "{'descr': '|V2', 'fortran_order': False, 'shape': (2,), }\n", "V2[2] 4" },
	{ "{'descr': '|V1', 'fortran_order': False, 'shape': (2,), }\n", "V1[2] 2" },
	{ "{'descr': '<V1', 'fortran_order': False, 'shape': (2,), }\n", "V1[2] 2" },
	{ "{'descr': '|u1', 'fortran_order': False, 'shape': (4611686018427387904,), }\n",
	  "U8[4611686018427387904] 4611686018427387904" },
	{ "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2), }\n",
	  "U8[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2] 2" },
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
		struct pf_npy npy;
		size_t len, i;
		char *src = make(version, good[_i].text, &len);

		for (i = 0; i < len; i++) {
			memset(&npy, 0x5a, sizeof(npy));
			ck_assert_msg(parse(src, i, &npy, &err) == 0, "cut at %zu: %s", i,
				      err.text);
			ck_assert_int_eq((int)npy.void_size, 0x5a5a5a5a);
			ck_assert_int_eq(err.code, 0);
		}
		/* With and without data behind it. */
		for (i = 0; i < 2; i++) {
			ck_assert_int_eq(parse(src, len + i, &npy, &err), 1);
			describe(says, sizeof(says), &npy);
			ck_assert_str_eq(says, good[_i].want);
			ck_assert_uint_eq(npy.header_len, len);
		}
		free(src);
	}
}

#define HEAD "{'descr': '<f4', 'fortran_order': False, 'shape': "

static const struct {
	const char *text;
	int want;
	const char *says; /* a part of the sentence */
} bad[] = {
	/* No dict. */
	{ "", -EINVAL, "expected '{', found its end" },
	{ "   \n", -EINVAL, "expected '{', found its end" },
	{ "[1, 2]\n", -EINVAL, "expected '{', found \"[1, 2]" },
	{ "x{}\n", -EINVAL, "expected '{'" },
	{ "{", -EINVAL, "found its end" },
	{ "{'descr'", -EINVAL, "expected ':'" },
	{ "{'descr", -EINVAL, "expected a key" },
	{ "{descr: '<f4'}", -EINVAL, "expected a key" },
	{ "{'descr' '<f4'}", -EINVAL, "expected ':'" },
	{ "{'descr': }", -EINVAL, "expected a type" },
	{ "{'descr': <f4}", -EINVAL, "expected a type" },
	{ "{'descr': '<f4\n'}", -EINVAL, "expected a type" },
	{ "{'descr': '\\x3cf4'}", -EINVAL, "expected a type" },
	{ "{'descr': '<f4' 'shape': ()}", -EINVAL, "expected ',' or '}'" },
	{ "{'descr': '<f4',, 'shape': ()}", -EINVAL, "expected a key" },
	{ "{,}", -EINVAL, "expected a key" },
	/* Keys. */
	{ "{}", -EINVAL, "no key 'descr'" },
	{ "{'descr': '<f4'}", -EINVAL, "no key 'fortran_order'" },
	{ "{'descr': '<f4', 'fortran_order': False}", -EINVAL, "no key 'shape'" },
	{ "{'shape': (), 'fortran_order': False}", -EINVAL, "no key 'descr'" },
	{ "{'descr': '<f4', 'descr': '<f4'}", -EINVAL, "'descr' is given twice" },
	{ HEAD "(), 'shape': ()}", -EINVAL, "'shape' is given twice" },
	{ HEAD "(), 'x': 1}", -EINVAL, "unknown key 'x'" },
	{ HEAD "(), '': 1}", -EINVAL, "unknown key ''" },
	{ HEAD "(), 'Shape': ()}", -EINVAL, "unknown key 'Shape'" },
	/* Behind the dict. */
	{ HEAD "()} x", -EINVAL, "nothing after '}'" },
	{ HEAD "()}}", -EINVAL, "nothing after '}'" },
	/* Order. */
	{ "{'fortran_order': 0}", -EINVAL, "True or False" },
	{ "{'fortran_order': 'False'}", -EINVAL, "True or False" },
	{ "{'fortran_order': false}", -EINVAL, "True or False" },
	{ "{'fortran_order': Fals", -EINVAL, "True or False" },
	{ "{'fortran_order': }", -EINVAL, "True or False" },
	{ "{'fortran_order': Falsey}", -EINVAL, "expected ',' or '}'" },
	/* Shapes. */
	{ HEAD "3}", -EINVAL, "expected a tuple" },
	{ HEAD "[3]}", -EINVAL, "expected a tuple" },
	{ HEAD "None}", -EINVAL, "expected a tuple" },
	{ HEAD "(3)}", -EINVAL, "an integer in brackets" },
	{ HEAD "(3", -EINVAL, "found its end" },
	{ HEAD "(3,", -EINVAL, "found its end" },
	{ HEAD "(,)}", -EINVAL, "an extent" },
	{ HEAD "(3,,)}", -EINVAL, "an extent" },
	{ HEAD "(3 4)}", -EINVAL, "',' or ')'" },
	{ HEAD "(-1,)}", -EINVAL, "0 or more" },
	{ HEAD "(-0,)}", -EINVAL, "0 or more" },
	{ HEAD "(+1,)}", -EINVAL, "an extent" },
	{ HEAD "(03,)}", -EINVAL, "leading zeros" },
	{ HEAD "(3.0,)}", -EINVAL, "an extent" },
	{ HEAD "(3LL,)}", -EINVAL, "',' or ')'" },
	{ HEAD "(3l,)}", -EINVAL, "',' or ')'" },
	{ HEAD "(L,)}", -EINVAL, "an extent" },
	{ HEAD "(0x3,)}", -EINVAL, "',' or ')'" },
	{ HEAD "(1_0,)}", -EINVAL, "',' or ')'" },
	{ HEAD "(True,)}", -EINVAL, "an extent" },
	{ HEAD "('3',)}", -EINVAL, "an extent" },
	{ HEAD "((3,),)}", -EINVAL, "an extent" },
	{ HEAD "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}",
	  -EINVAL, "more than 32" },
	/* Sizes. */
	{ HEAD "(9223372036854775808,)}", -EOVERFLOW, "beyond 2^63-1" },
	{ HEAD "(99999999999999999999999999,)}", -EOVERFLOW, "beyond 2^63-1" },
	{ HEAD "(9223372036854775807,)}", -EOVERFLOW, "2^62 bytes" },
	{ HEAD "(4294967296, 4294967296)}", -EOVERFLOW, "2^63-1 elements" },
	{ HEAD "(4294967296, 4294967296, 0)}", -EOVERFLOW, "2^63-1 elements" },
	{ HEAD "(2305843009213693952,)}", -EOVERFLOW, "2^62 bytes" },
	/* Types. */
	{ "{'descr': ''}", -EINVAL, "descr is empty" },
	{ "{'descr': '>f4'}", -EINVAL, "big-endian" },
	{ "{'descr': '>i8'}", -EINVAL, "big-endian" },
	{ "{'descr': '|O'}", -EINVAL, "Python objects" },
	{ "{'descr': 'O'}", -EINVAL, "Python objects" },
	{ "{'descr': '|O8'}", -EINVAL, "Python objects" },
	{ "{'descr': [('a', '<f4'), ('b', '<i4')]}", -EINVAL, "structured" },
	{ "{'descr': ('<f4', (2,))}", -EINVAL, "structured" },
	{ "{'descr': '|S5'}", -EINVAL, "strings" },
	{ "{'descr': '<U5'}", -EINVAL, "strings" },
	{ "{'descr': '|a5'}", -EINVAL, "strings" },
	{ "{'descr': '<M8[ns]'}", -EINVAL, "dates" },
	{ "{'descr': '<m8[s]'}", -EINVAL, "dates" },
	{ "{'descr': '<f16'}", -EINVAL, "no element type" },
	{ "{'descr': '<f3'}", -EINVAL, "no element type" },
	{ "{'descr': '<i16'}", -EINVAL, "no element type" },
	{ "{'descr': '<c4'}", -EINVAL, "no element type" },
	{ "{'descr': '<'}", -EINVAL, "no element type" },
	{ "{'descr': 'f'}", -EINVAL, "no element type" },
	{ "{'descr': 'float32'}", -EINVAL, "no element type" },
	{ "{'descr': '|V3'}", -EINVAL, "1 and 2 bytes" },
	{ "{'descr': '|V0'}", -EINVAL, "1 and 2 bytes" },
	{ "{'descr': '>V2'}", -EINVAL, "1 and 2 bytes" },
	{ "{'descr': '|V20'}", -EINVAL, "1 and 2 bytes" },
};

TEST_EACH(bad_headers, bad)
{
	for (unsigned version = 1; version <= 3; version++) {
		struct pf_err err = PF_ERR_INIT;
		struct pf_npy npy;
		size_t len, i;
		char *src = make(version, bad[_i].text, &len);
		int r = parse(src, len, &npy, &err);

		ck_assert_msg(r == bad[_i].want, "%d: %s", r, err.text);
		ck_assert_int_eq(err.code, r);
		ck_assert_msg(strstr(err.text, bad[_i].says) != NULL, "it says: %s",
			      err.text);
		/* Cut off, it is refused or not yet, and never accepted. */
		for (i = 0; i < len; i++)
			ck_assert_int_le(parse(src, i, &npy, &err), 0);
		free(src);
	}
}

static const struct {
	const char *src;
	size_t len;
	int want;
} preambles[] = {
	{ "", 0, 0 },
	{ "\x93", 1, 0 },
	{ "\x92", 1, -EINVAL },
	{ "N", 1, -EINVAL },
	{ "\x93NUMPX", 6, -EINVAL },
	{ "\x93numpy", 6, -EINVAL },
	{ "PK\x03\x04", 4, -EINVAL },
	{ "\x93NUMPY", 6, 0 },
	{ "\x93NUMPY\x00", 7, -EINVAL },
	{ "\x93NUMPY\x04", 7, -EINVAL },
	{ "\x93NUMPY\xff", 7, -EINVAL },
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

	ck_assert_int_eq(parse(preambles[_i].src, preambles[_i].len, &npy, &err),
			 preambles[_i].want);
	ck_assert_int_eq(err.code, preambles[_i].want);
}

static const struct pf_shape shapes[] = {
	{ 0, { 0 } },
	{ 1, { 0 } },
	{ 1, { 7 } },
	{ 2, { 2, 3 } },
	{ 3, { 1, 1000000, 12345678901 } },
	{ 32, { [0 ... 31] = 1 } },
};

TEST_EACH(print_then_parse, shapes)
{
	for (int d = 1; d < PF_DTYPE_COUNT; d++) {
		pf_autobuf struct pf_buf buf = PF_BUF_INIT;
		struct pf_err err = PF_ERR_INIT;
		enum pf_dtype dtype = (enum pf_dtype)d;
		struct pf_npy npy;
		uint64_t bytes = 0;

		if (!pf_dtype_valid(d))
			continue;
		pf_npy_print(&buf, dtype, &shapes[_i]);
		ck_assert(!buf.failed);
		ck_assert_uint_eq(buf.len % 64, 0);
		ck_assert_int_eq(buf.data[buf.len - 1], '\n');
		ck_assert_int_eq(pf_npy_parse(buf.data, buf.len, &npy, &err), 1);
		ck_assert_uint_eq(npy.header_len, buf.len);
		ck_assert(pf_shape_equal(&npy.shape, &shapes[_i]));
		ck_assert(!npy.fortran_order);
		ck_assert_int_eq(pf_shape_bytes(&shapes[_i], dtype, &bytes, &err), 0);
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
	pf_autobuf struct pf_buf buf = PF_BUF_INIT;
	const char *text = "\x93NUMPY\x01\0v\0{'descr': '<f4', 'fortran_order': False, "
			   "'shape': (2, 3), }";

	pf_npy_print(&buf, PF_DTYPE_F32, &shapes[3]);
	ck_assert_uint_eq(buf.len, 128);
	ck_assert_mem_eq(buf.data, text, 10 + strlen(text + 10));
	for (size_t i = 10 + strlen(text + 10); i < 127; i++)
		ck_assert_int_eq(buf.data[i], ' ');
	pf_npy_print(&buf, PF_DTYPE_S64, &shapes[2]);
	ck_assert_ptr_nonnull(strstr(buf.data + 138, "'shape': (7,), }"));
}

/* A NUL does not end the header. */
TEST(nul_behind_the_dict)
{
	struct pf_err err = PF_ERR_INIT;
	struct pf_npy npy;
	size_t len;
	char *src = make(1, HEAD "()}#x", &len);

	src[len - 2] = '\0';
	ck_assert_int_eq(parse(src, len, &npy, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "nothing after '}'"));
	free(src);
}
