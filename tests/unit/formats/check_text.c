/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays as text: elements, shapes, and what is refused. */
#include <errno.h>
#include <float.h>
#include <locale.h>
#include <stdint.h>
#include <string.h>

#include "text_print.h"

static const struct {
	enum pf_dtype dtype;
	unsigned char data[16];
	const char *want;
} elements[] = {
	{ PF_DTYPE_PRED, { 0 }, "false" },
	{ PF_DTYPE_PRED, { 1 }, "true" },
	{ PF_DTYPE_S8, { 0x80 }, "-128" },
	{ PF_DTYPE_U8, { 0x80 }, "128" },
	{ PF_DTYPE_S16, { 0xff, 0xff }, "-1" },
	{ PF_DTYPE_U16, { 0x34, 0x12 }, "4660" },
	{ PF_DTYPE_S32, { 0, 0, 0, 0x80 }, "-2147483648" },
	{ PF_DTYPE_U32, { 0xff, 0xff, 0xff, 0xff }, "4294967295" },
	{ PF_DTYPE_S64, { 0, 0, 0, 0, 0, 0, 0, 0x80 }, "-9223372036854775808" },
	{ PF_DTYPE_U64,
	  { 255, 255, 255, 255, 255, 255, 255, 255 },
	  "18446744073709551615" },
	/* Only the low bits of the sub-byte types count. */
	{ PF_DTYPE_S4, { 0x08 }, "-8" },
	{ PF_DTYPE_S4, { 0xf8 }, "-8" },
	{ PF_DTYPE_S4, { 0xf7 }, "7" },
	{ PF_DTYPE_U4, { 0xff }, "15" },
	{ PF_DTYPE_S2, { 0x02 }, "-2" },
	{ PF_DTYPE_U2, { 0xff }, "3" },
	{ PF_DTYPE_S1, { 0x01 }, "-1" },
	{ PF_DTYPE_U1, { 0x03 }, "1" },
	{ PF_DTYPE_F4E2M1FN, { 0xf7 }, "6" },
	{ PF_DTYPE_F4E2M1FN, { 0x09 }, "-0.5" },
	{ PF_DTYPE_F16, { 0xff, 0x7b }, "65500" }, /* 65504 is the nearest to it */
	{ PF_DTYPE_F16, { 0x00, 0x3c }, "1" },
	{ PF_DTYPE_BF16, { 0xcd, 0x3d }, "0.1" },
	{ PF_DTYPE_F8E4M3FN, { 0x7e }, "450" },
	{ PF_DTYPE_F8E4M3FN, { 0x7f }, "nan" },
	{ PF_DTYPE_F8E8M0FNU, { 127 }, "1" },
	{ PF_DTYPE_F8E8M0FNU, { 0 }, "6e-39" },
	{ PF_DTYPE_C64, { 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40 }, "1+2j" },
	{ PF_DTYPE_C64, { 0, 0, 0x80, 0xbf, 0, 0, 0, 0xc0 }, "-1-2j" },
	{ PF_DTYPE_C64, { 0, 0, 0, 0x80, 0, 0, 0, 0x80 }, "-0-0j" },
	{ PF_DTYPE_C64, { 0, 0, 0xc0, 0x7f, 0, 0, 0x80, 0xff }, "nan-infj" },
	{ PF_DTYPE_C64, { 0, 0, 0x80, 0x7f, 0, 0, 0xc0, 0x7f }, "inf+nanj" },
	{ PF_DTYPE_C128,
	  { 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0xe0, 0xbf },
	  "1-0.5j" },
};

TEST_EACH(writes_elements_and_reads_them, elements)
{
	pf_autobuf struct pf_buf data = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_shape shape;
	char text[96], again[96];

	print_one(text, sizeof(text), elements[_i].dtype, elements[_i].data);
	ck_assert_str_eq(text, elements[_i].want);
	ck_assert_msg(pf_text_parse(text, strlen(text), elements[_i].dtype, &shape, &data,
				    &err) == 0,
		      "%s", err.text);
	ck_assert_uint_eq(shape.rank, 0);
	ck_assert_uint_eq(data.len, pf_dtype_size(elements[_i].dtype));
	print_one(again, sizeof(again), elements[_i].dtype, data.data);
	ck_assert_str_eq(again, text);
}

static const struct {
	struct pf_shape shape;
	const char *want;
	struct pf_shape read; /* rank 33: cannot be read back */
} layouts[] = {
	{ { 0, { 0 } }, "0\n", { 0, { 0 } } },
	{ { 1, { 1 } }, "0\n", { 0, { 0 } } },
	{ { 1, { 3 } }, "0 1 2\n", { 1, { 3 } } },
	{ { 2, { 2, 3 } }, "0 1 2\n3 4 5\n", { 2, { 2, 3 } } },
	{ { 2, { 3, 1 } }, "0\n1\n2\n", { 2, { 3, 1 } } },
	{ { 2, { 1, 3 } }, "0 1 2\n", { 1, { 3 } } },
	{ { 3, { 2, 2, 2 } }, "0 1\n2 3\n\n4 5\n6 7\n", { 3, { 2, 2, 2 } } },
	{ { 3, { 2, 1, 2 } }, "0 1\n\n2 3\n", { 3, { 2, 1, 2 } } },
	{ { 3, { 2, 1, 1 } }, "0\n\n1\n", { 3, { 2, 1, 1 } } },
	{ { 3, { 1, 2, 2 } }, "0 1\n2 3\n", { 2, { 2, 2 } } },
	{ { 4, { 2, 2, 1, 2 } }, "0 1\n\n2 3\n\n4 5\n\n6 7\n", { 3, { 4, 1, 2 } } },
	{ { 1, { 0 } }, "", { 33, { 0 } } },
	{ { 2, { 0, 3 } }, "", { 33, { 0 } } },
	{ { 2, { 3, 0 } }, "", { 33, { 0 } } },
	{ { 3, { INT64_MAX, 0, 1 } }, "", { 33, { 0 } } },
	{ { 3, { INT64_MAX, 1, 0 } }, "", { 33, { 0 } } },
};

TEST_EACH(rows_and_blocks, layouts)
{
	static const unsigned char data[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	pf_autobuf struct pf_buf text = PF_BUF_INIT, again = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_shape shape;
	int r;

	pf_text_print(&text, PF_DTYPE_U8, &layouts[_i].shape, data);
	ck_assert_uint_eq(text.len, strlen(layouts[_i].want));
	ck_assert(!text.failed);
	if (text.len)
		ck_assert_str_eq(text.data, layouts[_i].want);
	r = pf_text_parse(text.data ? text.data : "", text.len, PF_DTYPE_U8, &shape,
			  &again, &err);
	if (layouts[_i].read.rank > PF_MAX_RANK) {
		ck_assert_int_eq(r, -EINVAL);
		return;
	}
	ck_assert_int_eq(r, 0);
	ck_assert(pf_shape_equal(&shape, &layouts[_i].read));
	ck_assert_mem_eq(again.data, data, again.len);
}

/* In pieces of any number of elements the text is the same. */
TEST_EACH(prints_in_pieces, layouts)
{
	static const enum pf_dtype dtypes[] = { PF_DTYPE_U8, PF_DTYPE_PRED, PF_DTYPE_F32,
						PF_DTYPE_C64 };
	static const unsigned char data[8 * 8] = { 0, 1, 0, 0x40, 0, 0, 0x80, 0xbf, 7 };

	for (size_t i = 0; i < ARRAY_SIZE(dtypes); i++) {
		pf_autobuf struct pf_buf whole = PF_BUF_INIT;

		pf_text_print(&whole, dtypes[i], &layouts[_i].shape, data);
		for (size_t max = 1; max < 10; max++) {
			pf_autobuf struct pf_buf text = PF_BUF_INIT;
			uint64_t at = 0;
			unsigned pieces = 1;

			while (pf_text_print_some(&text, dtypes[i], &layouts[_i].shape,
						  data, &at, max))
				ck_assert_uint_lt(pieces++, 9);
			ck_assert_uint_eq(text.len, whole.len);
			ck_assert(!text.len || !memcmp(text.data, whole.data, text.len));
		}
	}
}

static const struct {
	enum pf_dtype dtype;
	const char *text;
	const char *shape; /* a digit for each dimension */
	unsigned char first[8];
} reads[] = {
	{ PF_DTYPE_U8, "7", "", { 7 } },
	{ PF_DTYPE_U8, "7\n", "", { 7 } },
	{ PF_DTYPE_U8, "+7\r\n", "", { 7 } },
	{ PF_DTYPE_U8, "\n\n  1\t2 , 3,\n \n", "3", { 1, 2, 3 } },
	{ PF_DTYPE_U8, "1,2\n3,4", "22", { 1, 2, 3, 4 } },
	{ PF_DTYPE_U8, "1 2\n\n\n \t\n3 4\n", "212", { 1, 2, 3, 4 } },
	{ PF_DTYPE_U8, "-0 000255", "2", { 0, 255 } },
	{ PF_DTYPE_S8, "-128 127", "2", { 0x80, 0x7f } },
	{ PF_DTYPE_S4, "-8 7", "2", { 0xf8, 7 } },
	{ PF_DTYPE_S1, "-1 0", "2", { 0xff, 0 } },
	{ PF_DTYPE_PRED, "true False 1 0 TRUE", "5", { 1, 0, 1, 0, 1 } },
	{ PF_DTYPE_F32, "1.0", "", { 0, 0, 0x80, 0x3f } },
	{ PF_DTYPE_F32, ".5e1", "", { 0, 0, 0xa0, 0x40 } },
	{ PF_DTYPE_F32, "5.", "", { 0, 0, 0xa0, 0x40 } },
	{ PF_DTYPE_F32, "5E+0", "", { 0, 0, 0xa0, 0x40 } },
	{ PF_DTYPE_F32, "-Infinity", "", { 0, 0, 0x80, 0xff } },
	{ PF_DTYPE_F32, "NaN", "", { 0, 0, 0xc0, 0x7f } },
	{ PF_DTYPE_F32, "1e-400", "", { 0 } },
	{ PF_DTYPE_F32, "0e99999999999999999999", "", { 0 } },
	{ PF_DTYPE_F32, "1e-99999999999999999999", "", { 0 } },
	/* 1 + 2^-24, between two floats, and a hair above: rounded once, not twice. */
	{ PF_DTYPE_F32, "1.000000059604644775390625", "", { 0, 0, 0x80, 0x3f } },
	{ PF_DTYPE_F32,
	  "1.000000059604644775390625000000000000000000000000000000001",
	  "",
	  { 1, 0, 0x80, 0x3f } },
	{ PF_DTYPE_F32,
	  "340282346638528859811704183484516925440",
	  "",
	  { 0xff, 0xff, 0x7f, 0x7f } },
	{ PF_DTYPE_F32,
	  "340282356779733661637539395458142568447",
	  "",
	  { 0xff, 0xff, 0x7f, 0x7f } },
	{ PF_DTYPE_F64, "9007199254740993", "", { 0, 0, 0, 0, 0, 0, 0x40, 0x43 } },
	{ PF_DTYPE_F64,
	  "9007199254740993.0000000000000000001",
	  "",
	  { 1, 0, 0, 0, 0, 0, 0x40, 0x43 } },
	{ PF_DTYPE_F64,
	  "100000000000000000000000e-23",
	  "",
	  { 0, 0, 0, 0, 0, 0, 0xf0, 0x3f } },
	{ PF_DTYPE_F64,
	  "0.00000000000000000000000000001e29",
	  "",
	  { 0, 0, 0, 0, 0, 0, 0xf0, 0x3f } },
	{ PF_DTYPE_F16, "65519", "", { 0xff, 0x7b } },
	{ PF_DTYPE_F4E2M1FN, "6.99 -6.99", "2", { 7, 15 } },
	{ PF_DTYPE_F8E8M0FNU, "1", "", { 127 } },
	{ PF_DTYPE_C64, "2j", "", { 0, 0, 0, 0, 0, 0, 0, 0x40 } },
	{ PF_DTYPE_C64, "2", "", { 0, 0, 0, 0x40, 0, 0, 0, 0 } },
	{ PF_DTYPE_C64, "2e0-2e+0j", "", { 0, 0, 0, 0x40, 0, 0, 0, 0xc0 } },
};

TEST_EACH(reads_hand_written_text, reads)
{
	pf_autobuf struct pf_buf data = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_shape shape;
	size_t len = strlen(reads[_i].text);
	char *copy = malloc(len);
	int64_t n = 0;
	int r;

	pf_buf_puts(&data, "kept");
	memcpy(copy, reads[_i].text, len);
	r = pf_text_parse(copy, len, reads[_i].dtype, &shape, &data, &err);
	free(copy);
	ck_assert_msg(r == 0, "%s", err.text);
	ck_assert_uint_eq(shape.rank, strlen(reads[_i].shape));
	for (unsigned d = 0; d < shape.rank; d++)
		ck_assert_int_eq(shape.dims[d], reads[_i].shape[d] - '0');
	ck_assert_int_eq(pf_shape_count(&shape, &n, &err), 0);
	ck_assert_uint_eq(data.len, 4 + (size_t)n * pf_dtype_size(reads[_i].dtype));
	ck_assert_mem_eq(data.data + 4, reads[_i].first, data.len - 4);
}

/* Whole lines are checked as they arrive: good text is accepted in any pieces, with a
 * type and without one. */
TEST_EACH(checks_lines_as_they_come, reads)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;

	pf_buf_puts(&text, reads[_i].text);
	pf_buf_puts(&text, "\n");
	for (unsigned typed = 0; typed < 2; typed++) {
		struct pf_text_check c = { .at = 0 };

		for (size_t len = 0; len <= text.len; len++)
			ck_assert_msg(pf_text_check(&c, text.data, len,
						    typed ? reads[_i].dtype
							  : PF_DTYPE_INVALID,
						    &err) == 0,
				      "%s", err.text);
		ck_assert_uint_eq(c.at, text.len);
	}
}

static const struct {
	const char *text;
	int want;
} untyped[] = {
	{ "1 true 1+2j nan 1e999 -inf 99999999999999999999\n", 0 },
	{ "hello\n", -EINVAL },
	{ "1 2\n3\n", -EINVAL },
	{ "1 [2]\n", -EINVAL },
	{ "1+2\n", -EINVAL },
	{ "hello", 0 }, /* the line may go on */
	{ "", 0 },
};

TEST_EACH(without_a_type_any_number_is_accepted, untyped)
{
	struct pf_text_check c = { .at = 0 };
	struct pf_err err = PF_ERR_INIT;

	ck_assert_int_eq(pf_text_check(&c, untyped[_i].text, strlen(untyped[_i].text),
				       PF_DTYPE_INVALID, &err),
			 untyped[_i].want);
}

/* More digits than any conversion reads, and more text than is reserved at once. */
TEST(long_words_and_rows)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT, data = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_shape shape;
	double value;

	pf_buf_puts(&text, "0.");
	for (int i = 0; i < 5000; i++)
		pf_buf_puts(&text, "3");
	ck_assert_int_eq(pf_text_parse(text.data, text.len, PF_DTYPE_F64, &shape, &data,
				       &err),
			 0);
	memcpy(&value, data.data, sizeof(value));
	ck_assert(value == 1.0 / 3);
	pf_buf_release(&text);
	pf_buf_release(&data);
	/* 1 + 2^-53 is a tie; a 1 in the thousandth place decides it. */
	pf_buf_puts(&text, "1.00000000000000011102230246251565404236316680908203125");
	for (int i = 0; i < 1000; i++)
		pf_buf_puts(&text, "0");
	pf_buf_puts(&text, "1");
	ck_assert_int_eq(pf_text_parse(text.data, text.len, PF_DTYPE_F64, &shape, &data,
				       &err),
			 0);
	memcpy(&value, data.data, sizeof(value));
	ck_assert(value == 1 + DBL_EPSILON);
	pf_buf_release(&text);
	/* 100,000 numbers of 24 characters in one row. */
	static double many[100000];

	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = -1.7976931348623157e308;
	shape = (struct pf_shape){ 1, { (int64_t)ARRAY_SIZE(many) } };
	pf_text_print(&text, PF_DTYPE_F64, &shape, many);
	ck_assert_uint_eq(text.len, ARRAY_SIZE(many) * 25);
	pf_buf_release(&data);
	ck_assert_int_eq(pf_text_parse(text.data, text.len, PF_DTYPE_F64, &shape, &data,
				       &err),
			 0);
	ck_assert_mem_eq(data.data, many, sizeof(many));
}

TEST(lack_of_memory_is_reported)
{
	struct pf_buf full = { .failed = true };
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_shape shape = { 1, { 3 } };

	ck_assert_int_eq(pf_text_parse("1 2 3", 5, PF_DTYPE_F32, &shape, &full, &err),
			 -ENOMEM);
	pf_text_print(&full, PF_DTYPE_U8, &shape, "abc");
	ck_assert(full.failed);
	ck_assert_uint_eq(full.len, 0);
}

/* Where a comma is the decimal point.  Skipped, in effect, where no such locale is. */
TEST(the_locale_changes_nothing)
{
	static const char *const names[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "C" };
	pf_autobuf struct pf_buf data = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_shape shape;
	double value = 0.1 + 0.2;
	char text[64];

	for (size_t i = 0; i < ARRAY_SIZE(names) && !setlocale(LC_ALL, names[i]); i++)
		;
	print_one(text, sizeof(text), PF_DTYPE_F64, &value);
	ck_assert_str_eq(text, "0.30000000000000004");
	ck_assert_int_eq(pf_text_parse(text, strlen(text), PF_DTYPE_F64, &shape, &data,
				       &err),
			 0);
	ck_assert_mem_eq(data.data, &value, sizeof(value));
	setlocale(LC_ALL, "C");
}
