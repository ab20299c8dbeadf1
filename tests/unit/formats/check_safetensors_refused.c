/* SPDX-License-Identifier: Apache-2.0 */
/* .safetensors headers that are refused, and why. */
#include <errno.h>

#include "safetensors_text.h"
#include "unit.h"

#define ONES_33 "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"
#define META(x) "{\"__metadata__\":" x "}"

static const struct {
	const char *text;
	int want;
	const char *says; /* a part of the sentence */
} bad[] = {
	/* No object, or more. */
	{ "{{}", -EINVAL, "expected a tensor's name" },
	{ "{x", -EINVAL, "expected a tensor's name" },
	{ "{]", -EINVAL, "expected a tensor's name" },
	{ "{1:2}", -EINVAL, "expected a tensor's name" },
	{ "{'x':1}", -EINVAL, "expected a tensor's name in double quotes, found \"'x'" },
	{ "{\"x\"}", -EINVAL, "expected ':'" },
	{ "{\"x\",}", -EINVAL, "expected ':'" },
	{ "{\"x\":}", -EINVAL, "tensor \"x\": expected an object" },
	{ "{\"x\":null}", -EINVAL, "tensor \"x\": expected an object" },
	{ "{\"x\":[]}", -EINVAL, "expected an object" },
	{ "{\"x\":\"y\"}", -EINVAL, "expected an object" },
	{ "{,}", -EINVAL, "expected a tensor's name" },
	{ "{\"x\":" F4(0, 4) ",}", -EINVAL, "expected a tensor's name" },
	{ "{\"x\":" F4(0, 4) "\"y\":" F4(4, 8) "}", -EINVAL, "expected ',' or '}'" },
	{ "{\"x\":" F4(0, 4) ",,\"y\":" F4(4, 8) "}", -EINVAL, "a tensor's name" },
	{ "{}{}", -EINVAL, "only spaces behind" },
	{ "{}\n", -EINVAL, "only spaces behind" },
	{ "{} x", -EINVAL, "only spaces behind the object, found \"x\" at byte 11" },
	{ "{}}", -EINVAL, "only spaces behind" },
	{ "{/**/}", -EINVAL, "expected a tensor's name" },
	{ "{\v}", -EINVAL, "expected a tensor's name" },
	{ "{\xc2\xa0}", -EINVAL, "expected a tensor's name" },
	/* Keys. */
	{ "{\"x\":{}}", -EINVAL, "expected a key \"dtype\", found none" },
	{ "{\"x\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", -EINVAL, "\"shape\"" },
	{ "{\"x\":{\"dtype\":\"U8\",\"shape\":[1]}}", -EINVAL, "\"data_offsets\"" },
	{ "{\"x\":{\"shape\":[1],\"data_offsets\":[0,1]}}", -EINVAL, "\"dtype\"" },
	{ "{\"x\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", -EINVAL,
	  "found \"dtype\" twice" },
	{ "{\"x\":{\"shape\":[],\"shape\":[]}}", -EINVAL, "found \"shape\" twice" },
	{ "{\"x\":{\"data_offsets\":[0,1],\"data_offsets\":[0,1]}}", -EINVAL, "twice" },
	{ "{\"x\":{\"color\":\"red\"}}", -EINVAL, "found \"color\"" },
	{ "{\"x\":{\"Dtype\":\"U8\"}}", -EINVAL, "found \"Dtype\"" },
	{ "{\"x\":{\"\":\"U8\"}}", -EINVAL, "found \"\"" },
	{ "{\"x\":{dtype:\"U8\"}}", -EINVAL, "expected a key" },
	{ "{\"x\":{\"dtype\"=\"U8\"}}", -EINVAL, "expected ':'" },
	{ "{\"x\":{\"dtype\":\"U8\",}}", -EINVAL, "expected a key" },
	{ "{\"x\":{\"dtype\":\"U8\" \"shape\":[]}}", -EINVAL, "expected ',' or '}'" },
	/* Types. */
	{ X("", "[1]", "[0,1]"), -EINVAL, "found \"\"" },
	{ X("f32", "[1]", "[0,4]"), -EINVAL, "found \"f32\"" },
	{ X("FP32", "[1]", "[0,4]"), -EINVAL, "found \"FP32\"" },
	{ X("F6_E2M3", "[4]", "[0,3]"), -EINVAL, "tensor \"x\": expected a type of a" },
	{ X("F32\\u0020", "[1]", "[0,4]"), -EINVAL, "expected a type" },
	{ "{\"x\":{\"dtype\":32}}", -EINVAL, "expected a type such as" },
	{ "{\"x\":{\"dtype\":null}}", -EINVAL, "expected a type such as" },
	/* Shapes. */
	{ "{\"x\":{\"shape\":3}}", -EINVAL, "expected a list such as [2,3]" },
	{ "{\"x\":{\"shape\":\"3\"}}", -EINVAL, "expected a list such as [2,3]" },
	{ "{\"x\":{\"shape\":(3)}}", -EINVAL, "expected a list such as [2,3]" },
	{ "{\"x\":{\"shape\":[,]}}", -EINVAL, "expected an extent" },
	{ "{\"x\":{\"shape\":[3,]}}", -EINVAL, "expected an extent" },
	{ "{\"x\":{\"shape\":[3,,4]}}", -EINVAL, "expected an extent" },
	{ "{\"x\":{\"shape\":[3 4]}}", -EINVAL, "expected ',' or ']'" },
	{ "{\"x\":{\"shape\":[3}}}", -EINVAL, "expected ',' or ']'" },
	{ "{\"x\":{\"shape\":[[3]]}}", -EINVAL, "expected an extent" },
	{ "{\"x\":{\"shape\":[-1]}}", -EINVAL, "expected an extent" },
	{ "{\"x\":{\"shape\":[-0]}}", -EINVAL, "expected an extent" },
	{ "{\"x\":{\"shape\":[+1]}}", -EINVAL, "expected an extent" },
	{ "{\"x\":{\"shape\":[01]}}", -EINVAL, "found \"01]}}\"" },
	{ "{\"x\":{\"shape\":[00]}}", -EINVAL, "expected an extent" },
	{ "{\"x\":{\"shape\":[1.0]}}", -EINVAL, "found \"1.0]}}\"" },
	{ "{\"x\":{\"shape\":[1e3]}}", -EINVAL, "found \"1e3]}}\"" },
	{ "{\"x\":{\"shape\":[1E3]}}", -EINVAL, "expected an extent" },
	{ "{\"x\":{\"shape\":[0x10]}}", -EINVAL, "expected ',' or ']'" },
	{ "{\"x\":{\"shape\":[\"1\"]}}", -EINVAL, "expected an extent" },
	{ "{\"x\":{\"shape\":[true]}}", -EINVAL, "expected an extent" },
	{ "{\"x\":{\"shape\":[null]}}", -EINVAL, "expected an extent" },
	{ "{\"x\":{\"shape\":" ONES_33 "}}", -EINVAL, "at most 32 extents" },
	/* Offsets. */
	{ "{\"x\":{\"data_offsets\":0}}", -EINVAL, "a list of two whole numbers" },
	{ "{\"x\":{\"data_offsets\":[]}}", -EINVAL, "a list of two whole numbers" },
	{ "{\"x\":{\"data_offsets\":[0]}}", -EINVAL, "a list of two whole numbers" },
	{ "{\"x\":{\"data_offsets\":[0,]}}", -EINVAL, "a list of two whole numbers" },
	{ "{\"x\":{\"data_offsets\":[0,1,2]}}", -EINVAL, "a list of two whole numbers" },
	{ "{\"x\":{\"data_offsets\":[0,1,]}}", -EINVAL, "a list of two whole numbers" },
	{ "{\"x\":{\"data_offsets\":[0 1]}}", -EINVAL, "a list of two whole numbers" },
	{ "{\"x\":{\"data_offsets\":[-1,1]}}", -EINVAL, "a list of two whole numbers" },
	{ "{\"x\":{\"data_offsets\":[0,4.0]}}", -EINVAL, "a list of two whole numbers" },
	{ "{\"x\":{\"data_offsets\":[00,4]}}", -EINVAL, "a list of two whole numbers" },
	{ "{\"x\":" F4(4, 0) "}", -EINVAL, "found [4,0]" },
	/* Sizes. */
	{ X("F32", "[2,3]", "[0,23]"), -EINVAL,
	  "expected data_offsets 24 apart for F32[" },
	{ X("F32", "[2,3]", "[0,25]"), -EINVAL, "found [0,25]" },
	{ X("F32", "[]", "[0,0]"), -EINVAL, "expected data_offsets 4 apart for F32[]" },
	{ X("F32", "[0]", "[0,4]"), -EINVAL, "expected data_offsets 0 apart" },
	{ X("F4", "[3]", "[0,1]"), -EINVAL, "expected data_offsets 2 apart" },
	{ X("I4", "[4]", "[0,4]"), -EINVAL, "expected data_offsets 2 apart for S4[4]" },
	{ X("U1", "[9]", "[0,1]"), -EINVAL, "expected data_offsets 2 apart" },
	{ X("U8", "[9223372036854775808]", "[0,1]"), -EOVERFLOW, "beyond 2^63-1" },
	{ X("U8", "[1]", "[0,9223372036854775808]"), -EOVERFLOW, "beyond 2^63-1" },
	{ X("U8", "[99999999999999999999999999]", "[0,1]"), -EOVERFLOW, "2^63-1" },
	{ X("U8", "[9223372036854775807]", "[0,9223372036854775807]"), -EOVERFLOW,
	  "tensor \"x\": U8[9223372036854775807] has more than 2^62 bytes" },
	{ X("F32", "[4611686018427387904]", "[0,0]"), -EOVERFLOW, "2^62 bytes" },
	{ X("U8", "[4294967296,4294967296]", "[0,0]"), -EOVERFLOW, "2^63-1 elements" },
	{ X("U8", "[4294967296,4294967296,0]", "[0,0]"), -EOVERFLOW, "2^63-1 elements" },
	{ X("U1", "[9223372036854775807]", "[0,1]"), -EOVERFLOW, "2^62 bytes" },
	{ "{\"x\":" OF(
		  "U8", "[4611686018427387904]",
		  "[0,4611686018427387904]") ",\"y\":" OF("U8", "[1]",
							  "[4611686018427387904,"
							  "4611686018427387905]") "}",
	  -EOVERFLOW, "2^62 bytes of data" },
	/* Places. */
	{ "{\"x\":" F4(4, 8) "}", -EINVAL,
	  "tensor \"x\": expected data_offsets from 0, where the data begin, found 4" },
	{ "{\"x\":" F4(0, 4) ",\"y\":" F4(8, 12) "}", -EINVAL,
	  "tensor \"y\": expected data_offsets from 4, where \"x\" ends, found 8" },
	{ "{\"y\":" F4(8, 12) ",\"x\":" F4(0, 4) "}", -EINVAL, "where \"x\" ends" },
	{ "{\"x\":" F4(0, 4) ",\"y\":" F4(2, 6) "}", -EINVAL, "from 4, where \"x\"" },
	{ "{\"x\":" F4(0, 4) ",\"y\":" F4(0, 4) "}", -EINVAL, "from 4, where \"x\"" },
	{ "{\"x\":" F4(0, 4) ",\"y\":" OF("U8", "[0]", "[2,2]") "}", -EINVAL, "from 4" },
	{ "{\"x\":" F4(0, 4) ",\"y\":" OF("U8", "[0]", "[5,5]") "}", -EINVAL, "found 5" },
	/* Names. */
	{ "{\"x\":" F4(0, 4) ",\"x\":" F4(4, 8) "}", -EINVAL, "found \"x\" twice" },
	{ "{\"x\":" F4(0, 4) ",\"y\":" F4(4, 8) ",\"\\u0078\":" F4(8, 12) "}", -EINVAL,
	  "found \"x\" twice" },
	{ "{\"a\\u0000b\":" F4(0, 4) "}", -EINVAL, "no NUL in a string" },
	{ "{\"a\nb\":" F4(0, 4) "}", -EINVAL, "no control character" },
	{ "{\"a\\x\":" F4(0, 4) "}", -EINVAL, "an escape sequence, found \"\\x" },
	{ "{\"a\\'\":" F4(0, 4) "}", -EINVAL, "an escape sequence" },
	{ "{\"a\\U0041\":" F4(0, 4) "}", -EINVAL, "an escape sequence" },
	{ "{\"a\\u12g4\":" F4(0, 4) "}", -EINVAL, "four hexadecimal digits" },
	{ "{\"a\\u12\":" F4(0, 4) "}", -EINVAL, "four hexadecimal digits" },
	{ "{\"a\\ud800\":" F4(0, 4) "}", -EINVAL, "a pair of surrogates" },
	{ "{\"a\\ud800x\":" F4(0, 4) "}", -EINVAL, "a pair of surrogates" },
	{ "{\"a\\ud800\\n\":" F4(0, 4) "}", -EINVAL, "a pair of surrogates" },
	{ "{\"a\\ud800\\ud800\":" F4(0, 4) "}", -EINVAL, "a pair of surrogates" },
	{ "{\"a\\udc00\":" F4(0, 4) "}", -EINVAL, "a pair of surrogates" },
	{ "{\"a\\udc00\\ud800\":" F4(0, 4) "}", -EINVAL, "a pair of surrogates" },
	{ "{\"a\\ud800\\u00zz\":" F4(0, 4) "}", -EINVAL, "four hexadecimal digits" },
	{ "{\"a\xff\":" F4(0, 4) "}", -EINVAL, "UTF-8 in a string" },
	{ "{\"a\xc3\":" F4(0, 4) "}", -EINVAL, "UTF-8 in a string" },
	{ "{\"a\xc0\xaf\":" F4(0, 4) "}", -EINVAL, "UTF-8 in a string" },
	{ "{\"a\xed\xa0\x80\":" F4(0, 4) "}", -EINVAL, "UTF-8 in a string" },
	{ "{\"a\xf4\x90\x80\x80\":" F4(0, 4) "}", -EINVAL, "UTF-8 in a string" },
	/* Metadata. */
	{ META("null"), -EINVAL, "__metadata__: expected an object of strings" },
	{ META("\"x\""), -EINVAL, "expected an object of strings" },
	{ META("[]"), -EINVAL, "expected an object of strings" },
	{ META("{\"a\":1}"), -EINVAL, "expected a string" },
	{ META("{\"a\":null}"), -EINVAL, "expected a string" },
	{ META("{\"a\":{\"b\":\"c\"}}"), -EINVAL, "expected a string" },
	{ META("{\"a\"}"), -EINVAL, "expected ':'" },
	{ META("{\"a\":\"b\",}"), -EINVAL, "expected a key in double quotes" },
	{ META("{\"a\":\"\\ud800\"}"), -EINVAL, "a pair of surrogates" },
	{ META("{\"a\":\"\\u0000\"}"), -EINVAL, "no NUL" },
	{ META("{\"a\xff\":\"\"}"), -EINVAL, "UTF-8" },
	{ "{\"__metadata__\":{},\"__metadata__\":{}}", -EINVAL, "found it twice" },
	{ "{\"__metadata__\":{},\"\\u005f_metadata__\":{}}", -EINVAL, "found it twice" },
	{ META(OF("F32", "[1]", "[0,4]")), -EINVAL, "expected a string" },
};

TEST_EACH(bad_headers, bad)
{
	pf_autobuf struct pf_buf src = make(bad[_i].text, strlen(bad[_i].text));
	struct pf_err err = PF_ERR_INIT;
	struct pf_safetensors st;
	int r;

	memset(&st, 0x5a, sizeof(st));
	r = parse(src.data, src.len, &st, &err);
	ck_assert_msg(r == bad[_i].want, "%d: %s", r, err.text);
	ck_assert_int_eq(err.code, r);
	ck_assert_msg(strstr(err.text, bad[_i].says) != NULL, "it says: %s", err.text);
	ck_assert_ptr_nonnull(strstr(err.text, ".safetensors header: "));
	ck_assert_uint_eq(st.n, (size_t)UINT64_C(0x5a5a5a5a5a5a5a5a));
	/* Nobody need listen. */
	ck_assert_int_eq(pf_safetensors_parse(src.data, src.len, &st, NULL), r);
	/* Cut off, it is not yet refused, and never accepted. */
	for (size_t len = 0; len < src.len; len++)
		ck_assert_int_eq(parse(src.data, len, &st, &err), 0);
}
