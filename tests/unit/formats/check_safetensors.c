/* SPDX-License-Identifier: Apache-2.0 */
/* .safetensors headers: those of common writers, truncated anywhere, and malformed ones. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "safetensors_text.h"
#include "unit.h"

/* A header, and what it says: bytes of data, and of each tensor its name, type, shape and place. */
static const struct {
	const char *text, *want;
} good[] = {
	{ "{}", "0:" },
	{ "{}      ", "0:" },
	{ "{ \t\r\n}", "0:" },
	{ "{\"__metadata__\":{}}", "0:" },
	{ "{\"__metadata__\" : { \"format\" : \"pt\" , \"\\u00e9\\ud83d\\ude00\": \"\" } }",
	  "0:" },
	{ X("F32", "[2,3]", "[0,24]"), "24: x F32[2,3] 0+24" },
	{ X("C64", "[]", "[0,8]"), "8: x C64[] 0+8" },
	{ X("F64", "[3,0]", "[0,0]"), "0: x F64[3,0] 0+0" },
	/* Any order, any space. */
	{ "{\n \"x\"\t: {\r\"data_offsets\" : [ 0 , 2 ] , \"shape\" : [ 2 ] , \"dtype\" : \"BOOL\" }\n}   ",
	  "2: x PRED[2] 0+2" },
	/* Sub-byte types are packed and end with a whole byte. */
	{ X("F4", "[2,3]", "[0,3]"), "3: x F4E2M1FN[2,3] 0+3" },
	{ X("I4", "[3]", "[0,2]"), "2: x S4[3] 0+2" },
	{ X("U2", "[5]", "[0,2]"), "2: x U2[5] 0+2" },
	{ X("I1", "[]", "[0,1]"), "1: x S1[] 0+1" },
	{ X("U1", "[0]", "[0,0]"), "0: x U1[0] 0+0" },
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
	{ X("U8", "[4611686018427387904]", "[0,4611686018427387904]"),
	  "4611686018427387904: x U8[4611686018427387904] 0+4611686018427387904" },
	{ X("U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]",
	    "[0,2]"),
	  "2: x U8[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2] 0+2" },
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

TEST_EACH(good_headers, good)
{
	pf_autobuf struct pf_buf src = make(good[_i].text, strlen(good[_i].text));
	pf_autobuf struct pf_buf says = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_safetensors st;

	/* With and without data behind it. */
	for (size_t more = 0; more < 2; more++) {
		ck_assert_msg(parse(src.data, src.len + more, &st, &err) == 1, "%s",
			      err.text);
		ck_assert_uint_eq(st.header_len, src.len);
		describe(&st, &says);
		ck_assert_str_eq(says.data, good[_i].want);
		pf_buf_release(&says);
		pf_safetensors_release(&st);
		ck_assert_ptr_null(st.tensors);
		ck_assert_uint_eq(st.n, 0);
	}
}

TEST_EACH(truncated_anywhere, good)
{
	pf_autobuf struct pf_buf src = make(good[_i].text, strlen(good[_i].text));
	struct pf_err err = PF_ERR_INIT;
	struct pf_safetensors st;

	for (size_t len = 0; len < src.len; len++) {
		uint64_t header_len = 77;

		memset(&st, 0x5a, sizeof(st));
		ck_assert_msg(parse(src.data, len, &st, &err) == 0, "cut at %zu: %s", len,
			      err.text);
		ck_assert_uint_eq(st.n, (size_t)UINT64_C(0x5a5a5a5a5a5a5a5a));
		ck_assert_int_eq(err.code, 0);
		ck_assert_int_eq(pf_safetensors_length(src.data, len, &header_len, &err),
				 len >= 8);
		ck_assert_uint_eq(header_len, len >= 8 ? src.len : 77);
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
		int r = parse(src.data, src.len, &st, &err);

		ck_assert_msg(r == -EINVAL, "%d: %s", r, err.text);
		ck_assert_int_eq(err.code, -EINVAL);
		ck_assert_ptr_nonnull(strstr(err.text, ".safetensors header: "));
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
	{ "\2\0\0\0\0\0\0\0[", 9, -EINVAL, 0 },
	{ "\2\0\0\0\0\0\0\0\0", 9, -EINVAL, 0 },
	{ "\x00\xe1\xf5\x05\0\0\0\0{", 9, 1, 100000008 },
	{ "\x01\xe1\xf5\x05\0\0\0\0{", 9, -EINVAL, 0 },
	{ "\2\0\0\0\1\0\0\0{", 9, -EINVAL, 0 },
	{ "\2\0\0\0\0\0\0\x80{", 9, -EINVAL, 0 },
	{ "\xff\xff\xff\xff\xff\xff\xff\xff{", 9, -EINVAL, 0 },
	{ "\x93NUMPY\1\0v\0", 10, -EINVAL, 0 },
	{ "PK\3\4\0\0\0\0\0", 9, -EINVAL, 0 },
};

TEST_EACH(preamble, lengths)
{
	struct pf_err err = PF_ERR_INIT;
	struct pf_safetensors st;
	uint64_t n = 0;

	ck_assert_int_eq(pf_safetensors_length(lengths[_i].src, lengths[_i].len, &n,
					       &err),
			 lengths[_i].want);
	ck_assert_uint_eq(n, lengths[_i].header_len);
	ck_assert_int_eq(err.code, lengths[_i].want < 0 ? -EINVAL : 0);
	ck_assert_int_eq(parse(lengths[_i].src, lengths[_i].len, &st, &err),
			 lengths[_i].want < 0 ? -EINVAL : 0);
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

	ck_assert_msg(pf_safetensors_parse(src.data, src.len, &st, &err) == 1, "%s",
		      err.text);
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
	ck_assert_int_eq(pf_safetensors_parse(src.data, src.len, &st, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "found \"layer.100000\" twice"));
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

/* Of ten million entries, which fit the longest header, the parser reads only some. */
TEST(too_many_tensors_are_refused)
{
	static const char entry[] = "\"\":" OF("U8", "[0]", "[0,0]") ",";
	const size_t n = (PF_SAFETENSORS_MAX_HEADER - 1) / (sizeof(entry) - 1);
	pf_autobuf struct pf_buf text = PF_BUF_INIT, src = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_safetensors st;
	long before;

	pf_buf_puts(&text, "{");
	for (size_t i = 0; i < n; i++)
		pf_buf_append(&text, entry, sizeof(entry) - 1);
	src = make(text.data, text.len);
	pf_buf_release(&text);
	before = peak_kib();
	ck_assert_int_eq(pf_safetensors_parse(src.data, src.len, &st, &err), -E2BIG);
	ck_assert_ptr_nonnull(strstr(err.text, "at most 100000 tensors"));
	ck_assert_int_lt(peak_kib() - before, 160 * 1024 * SHADOW);
}

/* Skipped strings take no memory, however long. */
TEST(long_metadata)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT, src = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_safetensors st;
	long before;

	pf_buf_puts(&text, "{\"__metadata__\":{");
	while (text.len < PF_SAFETENSORS_MAX_HEADER - 100)
		pf_buf_puts(&text, "\"k\":\"\\u20ac and so on\",");
	pf_buf_puts(&text, "\"\":\"\"}}");
	src = make(text.data, text.len);
	pf_buf_release(&text);
	before = peak_kib();
	ck_assert_int_eq(pf_safetensors_parse(src.data, src.len, &st, &err), 1);
	ck_assert_uint_eq(st.n, 0);
	pf_safetensors_release(&st);
	ck_assert_int_lt(peak_kib() - before, 8 * 1024 * SHADOW);
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
		ck_assert_int_eq(parse(src.data, src.len, &st, &err), -EINVAL);
		ck_assert_ptr_null(strchr(err.text, '?'));
		ck_assert_ptr_nonnull(strstr(err.text, n < 64 ? "\": expected data"
							      : "\"...: expected data"));
	}
}

static const struct pf_shape shapes[] = {
	{ 0, { 0 } },
	{ 1, { 0 } },
	{ 1, { 7 } },
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
	ck_assert_msg(pf_safetensors_parse(buf.data, buf.len, &st, &err) == 1, "%s",
		      err.text);
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
	{ "model.layers.0.weight", NULL },
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
	check_header(names[_i].name, PF_DTYPE_F32, &shapes[3],
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
