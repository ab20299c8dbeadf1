/* SPDX-License-Identifier: Apache-2.0 */
/* .safetensors headers: those of common writers, truncated anywhere, and malformed ones. */
#include <inttypes.h>
#include <sys/resource.h>

#include "formats_fixture.h"
#include "safetensors_text.h"

#define TO_62 "4611686018427387904"
#define ONES_31 "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"

/* A header, and what it says: bytes of data, and of each tensor its name, type, shape and place. */
static const struct {
	const char *text, *want;
} good[] = {
	{ "{}", "0:" },
	{ "{ \t\r\n}", "0:" },
	{ "{\"__metadata__\" : { \"format\" : \"pt\" , \"\\u00e9\\ud83d\\ude00\": \"\" } }",
	  "0:" },
	{ X("F32", "[2,3]", "[0,24]"), "24: x F32[2,3] 0+24" },
	{ X("F64", "[3,0]", "[0,0]"), "0: x F64[3,0] 0+0" },
	/* Any order, any space. */
	{ "{\n \"x\"\t: {\r\"data_offsets\" : [ 0 , 2 ] , \"shape\" : [ 2 ] , \"dtype\" : \"BOOL\" }\n}   ",
	  "2: x PRED[2] 0+2" },
	/* Sub-byte types are packed and end with a whole byte. */
	{ X("F4", "[2,3]", "[0,3]"), "3: x F4E2M1FN[2,3] 0+3" },
	{ X("U2", "[5]", "[0,2]"), "2: x U2[5] 0+2" },
	{ X("I1", "[]", "[0,1]"), "1: x S1[] 0+1" },
	/* Alignment is not required; the text's order is not the data's. */
	{ "{\"b\":" OF("F32", "[1]", "[1,5]") ",\"a\":" OF("U8", "[1]", "[0,1]") "}",
	  "5: a U8[1] 0+1 b F32[1] 1+4" },
	/* Empty ones are where their offsets say, in the text's order. */
	{ "{\"c\":" F4(0, 4) ",\"b\":" OF("F32", "[0]",
					  "[0,0]") ",\"a\":" OF("I8", "[0]", "[0,0]") "}",
	  "4: b F32[0] 0+0 a S8[0] 0+0 c F32[1] 0+4" },
	{ "{\"__metadata__\":{\"a\":\"b\",\"a\":\"c\"},\"c\":" F4(0, 4) ",\"b\":" OF(
		  "F32", "[0]", "[4,4]") "}",
	  "4: c F32[1] 0+4 b F32[0] 4+0" },
	/* Names. */
	{ "{\"\":" F4(0, 4) "}", "4:  F32[1] 0+4" },
	{ "{\"__metadata_\":" F4(0, 4) "}", "4: __metadata_ F32[1] 0+4" },
	{ "{\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0001\x7f\":" F4(0, 4) "}",
	  "4: \"\\/\b\f\n\r\t\x01\x7f F32[1] 0+4" },
	{ "{\"\\u0041\\u00E9\\u20ac\\uD83D\\uDE00\\udbff\\udfff\":" F4(0, 4) "}",
	  "4: A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf F32[1] 0+4" },
	{ "{\"A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\":" F4(0, 4) "}",
	  "4: A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 F32[1] 0+4" },
	/* Keys and types are strings like any. */
	{ "{\"x\":{\"\\u0064type\":\"F\\u00332\",\"shape\":[1],\"data_offsets\":[0,4]}}",
	  "4: x F32[1] 0+4" },
	/* The greatest. */
	{ X("U8", "[" TO_62 "]", "[0," TO_62 "]"), TO_62 ": x U8[" TO_62 "] 0+" TO_62 },
	{ X("U8", "[" ONES_31 ",2]", "[0,2]"), "2: x U8[" ONES_31 ",2] 0+2" },
};

static void describe(const struct pf_safetensors *st, struct pf_buf *out)
{
	char shape[PF_SHAPE_TEXT];

	pf_buf_printf(out, "%" PRIu64 ":", st->data_len);
	for (const struct pf_tensor *t = st->tensors; t < st->tensors + st->n; t++)
		pf_buf_printf(out, " %s %s %" PRIu64 "+%" PRIu64, t->name,
			      pf_shape_str(shape, sizeof(shape), t->dtype, &t->shape),
			      t->off, t->len);
}

TEST_EACH(good_headers_truncated_anywhere, good)
{
	pf_autobuf struct pf_buf src = make(good[_i].text, strlen(good[_i].text));
	struct pf_err err = PF_ERR_INIT;
	struct pf_safetensors st = { .n = 77 };

	for (size_t len = 0; len < src.len; len++) {
		uint64_t header_len = 77;

		check_result(parse(src.data, len, &st, &err), 0, &err, NULL);
		ck_assert_int_eq(pf_safetensors_length(src.data, len, &header_len, &err),
				 len >= 8);
		ck_assert_uint_eq(header_len, len >= 8 ? src.len : 77);
	}
	ck_assert_uint_eq(st.n, 77);
	/* With and without data behind it. */
	for (size_t more = 0; more < 2; more++) {
		pf_autobuf struct pf_buf says = PF_BUF_INIT;

		check_result(parse(src.data, src.len + more, &st, &err), 1, &err, NULL);
		ck_assert_uint_eq(st.header_len, src.len);
		describe(&st, &says);
		ck_assert_str_eq(says.data, good[_i].want);
		pf_safetensors_release(&st);
		ck_assert_ptr_null(st.tensors);
		ck_assert_uint_eq(st.n, 0);
	}
}

/* Said to end early, no good header is one: its last brace is missing. */
TEST_EACH(a_shorter_whole_header_is_refused, good)
{
	size_t end = strlen(good[_i].text);

	while (good[_i].text[end - 1] == ' ')
		end--;
	for (size_t len = 2; len < end; len++) {
		pf_autobuf struct pf_buf src = make(good[_i].text, len);
		struct pf_err err = PF_ERR_INIT;
		struct pf_safetensors st;

		check_result(parse(src.data, src.len, &st, &err), -EINVAL, &err,
			     ".safetensors header: ");
	}
}

static const struct {
	const char *src;
	size_t len;
	int want;
	uint64_t header_len;
} lengths[] = {
	{ "", 0, 0, 0 },
	{ "\xff\xff\xff\xff\xff\xff\xff", 7, 0, 0 },
	{ "\0\0\0\0\0\0\0\0", 8, -EINVAL, 0 },
	{ "\1\0\0\0\0\0\0\0{", 9, -EINVAL, 0 },
	{ "\2\0\0\0\0\0\0\0", 8, 1, 10 },
	{ "\2\0\0\0\0\0\0\0{", 9, 1, 10 },
	{ "\2\0\0\0\0\0\0\0 {}", 11, -EINVAL, 0 },
	{ "\x00\xe1\xf5\x05\0\0\0\0{", 9, 1, 100000008 },
	{ "\x01\xe1\xf5\x05\0\0\0\0{", 9, -EINVAL, 0 },
	{ "\2\0\0\0\1\0\0\0{", 9, -EINVAL, 0 },
	{ "\2\0\0\0\0\0\0\x80{", 9, -EINVAL, 0 },
	{ "\x93NUMPY\1\0v\0", 10, -EINVAL, 0 },
};

TEST_EACH(preamble, lengths)
{
	struct pf_err err = PF_ERR_INIT;
	int want = lengths[_i].want;
	struct pf_safetensors st;
	uint64_t n = 0;

	check_result(pf_safetensors_length(lengths[_i].src, lengths[_i].len, &n, &err),
		     want, &err, "not a .safetensors file");
	ck_assert_uint_eq(n, lengths[_i].header_len);
	ck_assert_int_eq(parse(lengths[_i].src, lengths[_i].len, &st, &err),
			 want < 0 ? want : 0);
}

/* N tensors of 4 bytes; the last one's name is LAST. */
static struct pf_buf many(size_t n, const char *last)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;

	pf_buf_puts(&text, "{");
	for (size_t i = 0; i < n; i++) {
		char name[32];

		/* Backwards, so that there is something to sort. */
		snprintf(name, sizeof(name), "layer.%zu", n - i);
		pf_buf_printf(&text,
			      "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":"
			      "[%zu,%zu]}",
			      i ? "," : "", i + 1 < n ? name : last, 4 * (n - i - 1),
			      4 * (n - i));
	}
	pf_buf_puts(&text, "}");
	return make(text.data, text.len);
}

TEST(the_maximum_number_of_tensors)
{
	pf_autobuf struct pf_buf src = many(PF_SAFETENSORS_MAX_TENSORS, "layer.1");
	struct pf_err err = PF_ERR_INIT;
	struct pf_safetensors st;

	check_result(pf_safetensors_parse(src.data, src.len, &st, &err), 1, &err, NULL);
	ck_assert_uint_eq(st.n, PF_SAFETENSORS_MAX_TENSORS);
	for (size_t i = 0; i < st.n; i++) {
		char name[32];

		snprintf(name, sizeof(name), "layer.%zu", i + 1);
		ck_assert_str_eq(st.tensors[i].name, name);
		ck_assert_uint_eq(st.tensors[i].off, 4 * i);
	}
	pf_safetensors_release(&st);
	pf_buf_release(&src);
	/* The last one's name is the first one's. */
	src = many(PF_SAFETENSORS_MAX_TENSORS, "layer.100000");
	check_result(pf_safetensors_parse(src.data, src.len, &st, &err), -EINVAL, &err,
		     "found \"layer.100000\" twice");
}

/* A sanitizer keeps what was freed, and shadows what is read: several times its size. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SHADOW 64
#else
#define SHADOW 1
#endif

static long peak_kib(void)
{
	struct rusage usage;

	ck_assert_int_eq(getrusage(RUSAGE_SELF, &usage), 0);
	return usage.ru_maxrss;
}

/* TEXT is read with WANT and SAYS, and takes no more than MAX MiB; and free it. */
static void check_memory(struct pf_buf *text, int want, const char *says, long max)
{
	pf_autobuf struct pf_buf src = make(text->data, text->len);
	struct pf_err err = PF_ERR_INIT;
	struct pf_safetensors st = { 0 };
	long before;

	pf_buf_release(text);
	before = peak_kib();
	check_result(pf_safetensors_parse(src.data, src.len, &st, &err), want, &err,
		     says);
	ck_assert_uint_eq(st.n, 0);
	pf_safetensors_release(&st);
	ck_assert_int_lt(peak_kib() - before, max * 1024 * SHADOW);
}

/* Of ten million entries, which fit the longest header, the parser reads only some. */
TEST(too_many_tensors_are_refused)
{
	static const char entry[] = "\"\":" OF("U8", "[0]", "[0,0]") ",";
	struct pf_buf text = PF_BUF_INIT;

	pf_buf_puts(&text, "{");
	while (text.len + strlen(entry) <= PF_SAFETENSORS_MAX_HEADER)
		pf_buf_puts(&text, entry);
	check_memory(&text, -E2BIG, "at most 100000 tensors", 160);
}

/* Skipped strings take no memory, however long. */
TEST(long_metadata)
{
	struct pf_buf text = PF_BUF_INIT;

	pf_buf_puts(&text, "{\"__metadata__\":{");
	while (text.len < PF_SAFETENSORS_MAX_HEADER - 100)
		pf_buf_puts(&text, "\"k\":\"\\u20ac and so on\",");
	pf_buf_puts(&text, "\"\":\"\"}}");
	check_memory(&text, 1, NULL, 8);
}

/* A name too long for a sentence is truncated between two characters. */
TEST(long_names_in_sentences)
{
	for (size_t n = 60; n < 90; n++) {
		pf_autobuf struct pf_buf text = PF_BUF_INIT, src = PF_BUF_INIT;
		struct pf_err err = PF_ERR_INIT;
		struct pf_safetensors st;

		pf_buf_puts(&text, "{\"");
		for (size_t i = 0; i < n; i++)
			pf_buf_puts(&text, i < 60 ? "a" : "\xf0\x9f\x98\x80");
		pf_buf_puts(&text, "\":" F4(0, 3) "}");
		src = make(text.data, text.len);
		check_result(parse(src.data, src.len, &st, &err), -EINVAL, &err,
			     n < 64 ? "\": expected data" : "\"...: expected data");
		ck_assert_ptr_null(strchr(err.text, '?'));
	}
}

static const struct pf_shape shapes[] = {
	{ 0, { 0 } },
	{ 1, { 0 } },
	{ 2, { 2, 3 } },
	{ 3, { 1, 1000000, 12345678901 } },
	{ 32, { [0 ... 31] = 1 } },
};

static void check_header(const char *name, enum pf_dtype dtype,
			 const struct pf_shape *shape, const char *want_name)
{
	pf_autobuf struct pf_buf buf = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_safetensors st;

	pf_safetensors_print(&buf, name, dtype, shape);
	ck_assert(!buf.failed);
	ck_assert_uint_eq(buf.len % 64, 0);
	check_result(pf_safetensors_parse(buf.data, buf.len, &st, &err), 1, &err, NULL);
	ck_assert_uint_eq(st.header_len, buf.len);
	ck_assert_uint_eq(st.n, 1);
	ck_assert_str_eq(st.tensors[0].name, want_name);
	ck_assert_int_eq(st.tensors[0].dtype, dtype);
	ck_assert(pf_shape_equal(&st.tensors[0].shape, shape));
	ck_assert_uint_eq(st.tensors[0].off, 0);
	ck_assert_uint_eq(st.tensors[0].len, st.data_len);
	pf_safetensors_release(&st);
}

TEST_EACH(print_then_parse, shapes)
{
	for (int d = 1; d < PF_DTYPE_COUNT; d++)
		if (pf_dtype_valid(d))
			check_header("x", (enum pf_dtype)d, &shapes[_i], "x");
}

static const struct {
	const char *name, *want; /* NULL: the same */
} names[] = {
	{ "", NULL },
	{ "\"\\/\b\f\n\r\t\x01\x1f\x7f", NULL },
	{ "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", NULL },
	{ "a\xff\xfe", "a\xef\xbf\xbd\xef\xbf\xbd" },
	{ "\xc3", "\xef\xbf\xbd" },
	{ "\xed\xa0\x80z", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz" },
	{ "__metadata__", "__metadata___" },
	{ "__metadata___", NULL },
};

TEST_EACH(print_names, names)
{
	check_header(names[_i].name, PF_DTYPE_F32, &shapes[2],
		     names[_i].want ? names[_i].want : names[_i].name);
}

TEST(prints_exactly)
{
	static const char want[] = "{\"x\\u000a\":{\"dtype\":\"I4\",\"shape\":[3,3],"
				   "\"data_offsets\":[0,5]}}";
	pf_autobuf struct pf_buf buf = PF_BUF_INIT;

	/* The multiple of 64 counts from where the header begins. */
	pf_buf_puts(&buf, "before");
	pf_safetensors_print(&buf, "x\n", PF_DTYPE_S4, &(struct pf_shape){ 2, { 3, 3 } });
	ck_assert_uint_eq(buf.len, 6 + 128);
	ck_assert_mem_eq(buf.data, "before\x78\0\0\0\0\0\0\0", 14);
	ck_assert_mem_eq(buf.data + 14, want, strlen(want));
	for (size_t i = 14 + strlen(want); i < buf.len; i++)
		ck_assert_int_eq(buf.data[i], ' ');
}

/* --- what is refused ------------------------------------------------------------------------- */

#define META(x) "{\"__metadata__\":" x "}"

static const struct {
	const char *text;
	int want;
	const char *says; /* a part of the sentence */
} bad[] = {
	/* No object, or more. */
	{ "{'x':1}", -EINVAL, "expected a tensor's name in double quotes, found \"'x'" },
	{ "{\"x\"}", -EINVAL, "expected ':'" },
	{ "{\"x\":}", -EINVAL, "tensor \"x\": expected an object" },
	{ "{,}", -EINVAL, "expected a tensor's name" },
	{ "{\"x\":" F4(0, 4) ",}", -EINVAL, "expected a tensor's name" },
	{ "{\"x\":" F4(0, 4) "\"y\":" F4(4, 8) "}", -EINVAL, "expected ',' or '}'" },
	{ "{}\n", -EINVAL, "only spaces behind" },
	{ "{} x", -EINVAL, "only spaces behind the object, found \"x\" at byte 11" },
	/* Keys. */
	{ "{\"x\":{\"dtype\":\"U8\",\"shape\":[1]}}", -EINVAL, "\"data_offsets\"" },
	{ "{\"x\":{\"shape\":[1],\"data_offsets\":[0,1]}}", -EINVAL, "\"dtype\"" },
	{ "{\"x\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", -EINVAL,
	  "found \"dtype\" twice" },
	{ "{\"x\":{\"data_offsets\":[0,1],\"data_offsets\":[0,1]}}", -EINVAL, "twice" },
	{ "{\"x\":{\"Dtype\":\"U8\"}}", -EINVAL, "found \"Dtype\"" },
	{ "{\"x\":{\"dtype\"=\"U8\"}}", -EINVAL, "expected ':'" },
	/* Types. */
	{ X("F6_E2M3", "[4]", "[0,3]"), -EINVAL, "tensor \"x\": expected a type of a" },
	{ X("F32\\u0020", "[1]", "[0,4]"), -EINVAL, "expected a type" },
	{ "{\"x\":{\"dtype\":32}}", -EINVAL, "expected a type such as" },
	/* Shapes. */
	{ "{\"x\":{\"shape\":3}}", -EINVAL, "expected a list such as [2,3]" },
	{ "{\"x\":{\"shape\":[,]}}", -EINVAL, "expected an extent" },
	{ "{\"x\":{\"shape\":[3 4]}}", -EINVAL, "expected ',' or ']'" },
	{ "{\"x\":{\"shape\":[-1]}}", -EINVAL, "expected an extent" },
	{ "{\"x\":{\"shape\":[01]}}", -EINVAL, "found \"01]}}\"" },
	{ "{\"x\":{\"shape\":[1.0]}}", -EINVAL, "found \"1.0]}}\"" },
	{ "{\"x\":{\"shape\":[1e3]}}", -EINVAL, "found \"1e3]}}\"" },
	{ "{\"x\":{\"shape\":[1E3]}}", -EINVAL, "expected an extent" },
	{ X("U8", "[" ONES_31 ",1,1]", "[0,1]"), -EINVAL, "at most 32 extents" },
	/* Offsets. */
	{ "{\"x\":{\"data_offsets\":0}}", -EINVAL, "a list of two whole numbers" },
	{ "{\"x\":{\"data_offsets\":[0]}}", -EINVAL, "a list of two whole numbers" },
	{ "{\"x\":{\"data_offsets\":[0,1,2]}}", -EINVAL, "a list of two whole numbers" },
	{ "{\"x\":{\"data_offsets\":[-1,1]}}", -EINVAL, "a list of two whole numbers" },
	{ "{\"x\":" F4(4, 0) "}", -EINVAL, "found [4,0]" },
	/* Sizes. */
	{ X("F32", "[2,3]", "[0,23]"), -EINVAL,
	  "expected data_offsets 24 apart for F32[" },
	{ X("F32", "[2,3]", "[0,25]"), -EINVAL, "found [0,25]" },
	{ X("I4", "[4]", "[0,4]"), -EINVAL, "expected data_offsets 2 apart for S4[4]" },
	{ X("U8", "[9223372036854775808]", "[0,1]"), -EOVERFLOW, "beyond 2^63-1" },
	{ X("U8", "[1]", "[0,9223372036854775808]"), -EOVERFLOW, "beyond 2^63-1" },
	{ X("U8", "[9223372036854775807]", "[0,9223372036854775807]"), -EOVERFLOW,
	  "tensor \"x\": U8[9223372036854775807] has more than 2^62 bytes" },
	{ X("U8", "[4294967296,4294967296,0]", "[0,0]"), -EOVERFLOW, "2^63-1 elements" },
	{ "{\"x\":" OF("U8", "[" TO_62 "]",
		       "[0," TO_62 "]") ",\"y\":" OF("U8", "[1]",
						     "[" TO_62
						     ",4611686018427387905]") "}",
	  -EOVERFLOW, "2^62 bytes of data" },
	/* Places. */
	{ "{\"x\":" F4(4, 8) "}", -EINVAL,
	  "tensor \"x\": expected data_offsets from 0, where the data begin, found 4" },
	{ "{\"x\":" F4(0, 4) ",\"y\":" F4(8, 12) "}", -EINVAL,
	  "tensor \"y\": expected data_offsets from 4, where \"x\" ends, found 8" },
	{ "{\"x\":" F4(0, 4) ",\"y\":" F4(2, 6) "}", -EINVAL, "from 4, where \"x\"" },
	{ "{\"x\":" F4(0, 4) ",\"y\":" OF("U8", "[0]", "[2,2]") "}", -EINVAL, "from 4" },
	{ "{\"x\":" F4(0, 4) ",\"y\":" OF("U8", "[0]", "[5,5]") "}", -EINVAL, "found 5" },
	/* Names. */
	{ "{\"x\":" F4(0, 4) ",\"x\":" F4(4, 8) "}", -EINVAL, "found \"x\" twice" },
	{ "{\"x\":" F4(0, 4) ",\"y\":" F4(4, 8) ",\"\\u0078\":" F4(8, 12) "}", -EINVAL,
	  "found \"x\" twice" },
	{ "{\"a\\u0000b\":" F4(0, 4) "}", -EINVAL, "no NUL in a string" },
	{ "{\"a\nb\":" F4(0, 4) "}", -EINVAL, "no control character" },
	{ "{\"a\\x\":" F4(0, 4) "}", -EINVAL, "an escape sequence, found \"\\x" },
	{ "{\"a\\u12g4\":" F4(0, 4) "}", -EINVAL, "four hexadecimal digits" },
	{ "{\"a\\ud800\":" F4(0, 4) "}", -EINVAL, "a pair of surrogates" },
	{ "{\"a\\ud800\\n\":" F4(0, 4) "}", -EINVAL, "a pair of surrogates" },
	{ "{\"a\\ud800\\ud800\":" F4(0, 4) "}", -EINVAL, "a pair of surrogates" },
	{ "{\"a\\udc00\":" F4(0, 4) "}", -EINVAL, "a pair of surrogates" },
	{ "{\"a\\ud800\\u00zz\":" F4(0, 4) "}", -EINVAL, "four hexadecimal digits" },
	{ "{\"a\xff\":" F4(0, 4) "}", -EINVAL, "UTF-8 in a string" },
	{ "{\"a\xc0\xaf\":" F4(0, 4) "}", -EINVAL, "UTF-8 in a string" },
	{ "{\"a\xed\xa0\x80\":" F4(0, 4) "}", -EINVAL, "UTF-8 in a string" },
	{ "{\"a\xf4\x90\x80\x80\":" F4(0, 4) "}", -EINVAL, "UTF-8 in a string" },
	/* Metadata. */
	{ META("null"), -EINVAL, "__metadata__: expected an object of strings" },
	{ META("{\"a\":1}"), -EINVAL, "expected a string" },
	{ META("{\"a\"}"), -EINVAL, "expected ':'" },
	{ "{\"__metadata__\":{},\"\\u005f_metadata__\":{}}", -EINVAL, "found it twice" },
};

TEST_EACH(bad_headers, bad)
{
	pf_autobuf struct pf_buf src = make(bad[_i].text, strlen(bad[_i].text));
	struct pf_err err = PF_ERR_INIT;
	struct pf_safetensors st = { .n = 77 };

	check_result(parse(src.data, src.len, &st, &err), bad[_i].want, &err,
		     ".safetensors header: ");
	ck_assert_msg(has_parts(err.text, bad[_i].says), "%s", err.text);
	ck_assert_uint_eq(st.n, 77);
	/* Nobody need listen. */
	ck_assert_int_eq(pf_safetensors_parse(src.data, src.len, &st, NULL),
			 bad[_i].want);
	/* Cut off, it is not yet refused, and never accepted. */
	for (size_t len = 0; len < src.len; len++)
		ck_assert_int_eq(parse(src.data, len, &st, &err), 0);
}
