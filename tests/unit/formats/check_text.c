/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays as text: elements, shapes, and what is refused. */
#include <float.h>
#include <locale.h>

#include "text_print.h"

static const struct {
	enum pf_dtype dtype;
	char data[17];
	const char *want;
} elements[] = {
	{ PF_DTYPE_PRED, "\0", "false" },
	{ PF_DTYPE_PRED, "\x01", "true" },
	{ PF_DTYPE_S8, "\x80", "-128" },
	{ PF_DTYPE_U8, "\x80", "128" },
	{ PF_DTYPE_S16, "\xff\xff", "-1" },
	{ PF_DTYPE_U16, "\x34\x12", "4660" },
	{ PF_DTYPE_S32, "\0\0\0\x80", "-2147483648" },
	{ PF_DTYPE_U32, "\xff\xff\xff\xff", "4294967295" },
	{ PF_DTYPE_S64, "\0\0\0\0\0\0\0\x80", "-9223372036854775808" },
	{ PF_DTYPE_U64, "\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615" },
	/* Only the low bits of the sub-byte types count. */
	{ PF_DTYPE_S4, "\xf8", "-8" },
	{ PF_DTYPE_S4, "\xf7", "7" },
	{ PF_DTYPE_U4, "\xff", "15" },
	{ PF_DTYPE_S2, "\x02", "-2" },
	{ PF_DTYPE_U2, "\xff", "3" },
	{ PF_DTYPE_S1, "\x01", "-1" },
	{ PF_DTYPE_U1, "\x03", "1" },
	{ PF_DTYPE_F4E2M1FN, "\xf7", "6" },
	{ PF_DTYPE_F4E2M1FN, "\x09", "-0.5" },
	{ PF_DTYPE_F16, "\xff\x7b", "65500" }, /* 65504 is the nearest to it */
	{ PF_DTYPE_BF16, "\xcd\x3d", "0.1" },
	{ PF_DTYPE_F8E4M3FN, "\x7f", "nan" },
	{ PF_DTYPE_F8E8M0FNU, "\0", "6e-39" },
	{ PF_DTYPE_C64, "\0\0\x80\x3f\0\0\0\x40", "1+2j" },
	{ PF_DTYPE_C64, "\0\0\0\x80\0\0\0\x80", "-0-0j" },
	{ PF_DTYPE_C64, "\0\0\xc0\x7f\0\0\x80\xff", "nan-infj" },
	{ PF_DTYPE_C64, "\0\0\x80\x7f\0\0\xc0\x7f", "inf+nanj" },
	{ PF_DTYPE_C128, "\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\xe0\xbf", "1-0.5j" },
};

TEST_EACH(writes_elements_and_reads_them, elements)
{
	pf_autobuf struct pf_buf data = PF_BUF_INIT;
	enum pf_dtype dtype = elements[_i].dtype;
	struct pf_err err = PF_ERR_INIT;
	struct pf_shape shape;
	char text[96], again[96];

	print_one(text, sizeof(text), dtype, elements[_i].data);
	ck_assert_str_eq(text, elements[_i].want);
	check_result(pf_text_parse(text, strlen(text), dtype, &shape, &data, &err), 0,
		     &err, NULL);
	ck_assert_uint_eq(shape.rank, 0);
	ck_assert_uint_eq(data.len, pf_dtype_size(dtype));
	print_one(again, sizeof(again), dtype, data.data);
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
	char first[9];
} reads[] = {
	{ PF_DTYPE_U8, "7\n", "", "\x07" },
	{ PF_DTYPE_U8, "+7\r\n", "", "\x07" },
	{ PF_DTYPE_U8, "\n\n  1\t2 , 3,\n \n", "3", "\x01\x02\x03" },
	{ PF_DTYPE_U8, "1,2\n3,4", "22", "\x01\x02\x03\x04" },
	{ PF_DTYPE_U8, "1 2\n\n\n \t\n3 4\n", "212", "\x01\x02\x03\x04" },
	{ PF_DTYPE_U8, "-0 000255", "2", "\0\xff" },
	{ PF_DTYPE_S8, "-128 127", "2", "\x80\x7f" },
	{ PF_DTYPE_S4, "-8 7", "2", "\xf8\x07" },
	{ PF_DTYPE_PRED, "true False 1 0 TRUE", "5", "\x01\0\x01\0\x01" },
	{ PF_DTYPE_F32, "1.0", "", "\0\0\x80\x3f" },
	{ PF_DTYPE_F32, ".5e1", "", "\0\0\xa0\x40" },
	{ PF_DTYPE_F32, "5.", "", "\0\0\xa0\x40" },
	{ PF_DTYPE_F32, "5E+0", "", "\0\0\xa0\x40" },
	{ PF_DTYPE_F32, "-Infinity", "", "\0\0\x80\xff" },
	{ PF_DTYPE_F32, "NaN", "", "\0\0\xc0\x7f" },
	{ PF_DTYPE_F32, "1e-400", "", "\0" },
	{ PF_DTYPE_F32, "0e99999999999999999999", "", "\0" },
	{ PF_DTYPE_F32, "1e-99999999999999999999", "", "\0" },
	/* 1 + 2^-24, between two floats, and a hair above: rounded once, not twice. */
	{ PF_DTYPE_F32, "1.000000059604644775390625", "", "\0\0\x80\x3f" },
	{ PF_DTYPE_F32, "1.000000059604644775390625000000000000000000000000000000001", "",
	  "\x01\0\x80\x3f" },
	{ PF_DTYPE_F32, "340282346638528859811704183484516925440", "",
	  "\xff\xff\x7f\x7f" },
	{ PF_DTYPE_F32, "340282356779733661637539395458142568447", "",
	  "\xff\xff\x7f\x7f" },
	{ PF_DTYPE_F64, "9007199254740993", "", "\0\0\0\0\0\0\x40\x43" },
	{ PF_DTYPE_F64, "9007199254740993.0000000000000000001", "",
	  "\x01\0\0\0\0\0\x40\x43" },
	{ PF_DTYPE_F64, "100000000000000000000000e-23", "", "\0\0\0\0\0\0\xf0\x3f" },
	{ PF_DTYPE_F64, "0.00000000000000000000000000001e29", "",
	  "\0\0\0\0\0\0\xf0\x3f" },
	{ PF_DTYPE_F4E2M1FN, "6.99 -6.99", "2", "\x07\x0f" },
	{ PF_DTYPE_C64, "2j", "", "\0\0\0\0\0\0\0\x40" },
	{ PF_DTYPE_C64, "2", "", "\0\0\0\x40\0\0\0\0" },
	{ PF_DTYPE_C64, "2e0-2e+0j", "", "\0\0\0\x40\0\0\0\xc0" },
};

TEST_EACH(reads_hand_written_text, reads)
{
	pf_autobuf struct pf_buf data = PF_BUF_INIT;
	size_t len = strlen(reads[_i].text);
	pf_autofree char *copy = exact_copy(reads[_i].text, len);
	struct pf_err err = PF_ERR_INIT;
	struct pf_shape shape;
	int64_t n = 0;

	pf_buf_puts(&data, "kept");
	check_result(pf_text_parse(copy, len, reads[_i].dtype, &shape, &data, &err), 0,
		     &err, NULL);
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
			check_result(pf_text_check(&c, text.data, len,
						   typed ? reads[_i].dtype
							 : PF_DTYPE_INVALID,
						   &err),
				     0, &err, NULL);
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
	const char *text = untyped[_i].text;
	struct pf_text_check c = { .at = 0 };

	ck_assert_int_eq(pf_text_check(&c, text, strlen(text), PF_DTYPE_INVALID, NULL),
			 untyped[_i].want);
}

/* The one number in TEXT. */
static double number_in(const char *text)
{
	pf_autobuf struct pf_buf data = PF_BUF_INIT;
	struct pf_shape shape;
	double value;

	ck_assert_int_eq(pf_text_parse(text, strlen(text), PF_DTYPE_F64, &shape, &data,
				       NULL),
			 0);
	ck_assert_uint_eq(data.len, sizeof(value));
	memcpy(&value, data.data, sizeof(value));
	return value;
}

/* More digits than any conversion reads. */
TEST(long_words)
{
	char thirds[5003] = "0.", tie[1100];

	memset(thirds + 2, '3', 5000);
	ck_assert(number_in(thirds) == 1.0 / 3);
	/* 1 + 2^-53 is a tie; a 1 in the thousandth place decides it. */
	snprintf(tie, sizeof(tie), "%s%01001d",
		 "1.00000000000000011102230246251565404236316680908203125", 1);
	ck_assert(number_in(tie) == 1 + DBL_EPSILON);
}

/* 100,000 numbers of 24 characters in one row: more text than is reserved at once. */
TEST(long_rows)
{
	static double many[100000];
	const struct pf_shape row = { 1, { (int64_t)ARRAY_SIZE(many) } };
	pf_autobuf struct pf_buf text = PF_BUF_INIT, data = PF_BUF_INIT;
	struct pf_shape shape;

	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = -1.7976931348623157e308;
	pf_text_print(&text, PF_DTYPE_F64, &row, many);
	ck_assert_uint_eq(text.len, ARRAY_SIZE(many) * 25);
	ck_assert_int_eq(pf_text_parse(text.data, text.len, PF_DTYPE_F64, &shape, &data,
				       NULL),
			 0);
	ck_assert(pf_shape_equal(&shape, &row));
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
	double value = 0.1 + 0.2;
	char text[64];

	for (size_t i = 0; i < ARRAY_SIZE(names) && !setlocale(LC_ALL, names[i]); i++)
		;
	print_one(text, sizeof(text), PF_DTYPE_F64, &value);
	ck_assert_str_eq(text, "0.30000000000000004");
	ck_assert(number_in(text) == value);
	setlocale(LC_ALL, "C");
}

/* --- what is refused ------------------------------------------------------------------------- */

static const struct {
	enum pf_dtype dtype;
	const char *text;
	int want;
	const char *says;
} refused[] = {
	{ PF_DTYPE_F32, "", -EINVAL, "no number" },
	{ PF_DTYPE_F32, " \n\t\n", -EINVAL, "no number" },
	{ PF_DTYPE_F32, "1 2\n3 x 4\n", -EINVAL,
	  "line 2, column 3: \"x\" is not a valid F32" },
	{ PF_DTYPE_F32, "1 2\n3\n", -EINVAL,
	  "line 2 has 1 numbers, the lines before it have 2" },
	{ PF_DTYPE_F32, "1\n2 3\n", -EINVAL, "line 2 has 2 numbers" },
	{ PF_DTYPE_F32, "1\n2\n\n3\n", -EINVAL,
	  "block 2 ends with 1 rows, the first has 2" },
	{ PF_DTYPE_F32, "1,,2", -EINVAL, "line 1, column 3: no number before ','" },
	{ PF_DTYPE_F32, "1,\n,2", -EINVAL, "line 2, column 1: no number before ','" },
	{ PF_DTYPE_F32, "1;2", -EINVAL,
	  "\"1;2\" is not a valid F32: a row is a line of decimal numbers, with blanks "
	  "between them" },
	{ PF_DTYPE_F32, "1e", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, "1e+", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, ".", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, "-", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, "1.2.3", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, "0x10", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, "nan(1)", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, "infin", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, "true", -EINVAL,
	  "line 1, column 1: expected F32, found a truth value" },
	{ PF_DTYPE_F32, "1 true", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, "1\n[2]", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32,
	  "\xef\xbb\xbf"
	  "1",
	  -EINVAL, "expected F32, found a byte-order mark: " },
	{ PF_DTYPE_PRED, "trues", -EINVAL, "is not a valid PRED" },
	{ PF_DTYPE_F32, "1+2j", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, "1e39", -ERANGE, "\"1e39\" does not fit F32" },
	{ PF_DTYPE_F32, "340282356779733661637539395458142568448", -ERANGE, "F32" },
	{ PF_DTYPE_F32, "1e99999999999999999999", -ERANGE, "does not fit F32" },
	{ PF_DTYPE_F64, "1e309", -ERANGE, "does not fit F64" },
	{ PF_DTYPE_F16, "65520", -ERANGE, "does not fit F16" },
	{ PF_DTYPE_F8E4M3FN, "465", -ERANGE, "does not fit F8E4M3FN" },
	{ PF_DTYPE_F8E4M3FN, "inf", -ERANGE, "does not fit F8E4M3FN" },
	{ PF_DTYPE_F4E2M1FN, "7", -ERANGE, "does not fit" },
	{ PF_DTYPE_F4E2M1FN, "nan", -ERANGE, "does not fit" },
	{ PF_DTYPE_F8E8M0FNU, "0", -ERANGE, "does not fit" },
	{ PF_DTYPE_U8, "256", -ERANGE, "\"256\" does not fit U8" },
	{ PF_DTYPE_U8, "-1", -ERANGE, "does not fit U8" },
	{ PF_DTYPE_U8, "1.0", -EINVAL, "is not a valid U8" },
	{ PF_DTYPE_U8, "+", -EINVAL, "is not a valid U8" },
	{ PF_DTYPE_S8, "128", -ERANGE, "does not fit S8" },
	{ PF_DTYPE_S8, "-129", -ERANGE, "does not fit S8" },
	{ PF_DTYPE_S4, "8", -ERANGE, "does not fit S4" },
	{ PF_DTYPE_S1, "1", -ERANGE, "does not fit S1" },
	{ PF_DTYPE_U1, "2", -ERANGE, "does not fit U1" },
	{ PF_DTYPE_S64, "9223372036854775808", -ERANGE, "does not fit S64" },
	{ PF_DTYPE_U64, "18446744073709551616", -ERANGE, "does not fit U64" },
	{ PF_DTYPE_U64, "99999999999999999999999999", -ERANGE, "does not fit U64" },
	{ PF_DTYPE_PRED, "2", -EINVAL, "is not a valid PRED" },
	{ PF_DTYPE_PRED, "tru", -EINVAL, "is not a valid PRED" },
	{ PF_DTYPE_C64, "1+2", -EINVAL, "is not a valid C64" },
	{ PF_DTYPE_C64, "1+j", -EINVAL, "is not a valid C64" },
	{ PF_DTYPE_C64, "j", -EINVAL, "is not a valid C64" },
	{ PF_DTYPE_C64, "1 2j3", -EINVAL, "is not a valid C64" },
	{ PF_DTYPE_C64, "1+2i", -EINVAL, "is not a valid C64" },
	{ PF_DTYPE_C64, "1e39+2j", -ERANGE, "does not fit C64" },
	{ PF_DTYPE_C64, "1+1e39j", -ERANGE, "does not fit C64" },
	{ PF_DTYPE_INVALID, "1", -EINVAL, "no element type" },
	{ PF_DTYPE_TOKEN, "1", -EINVAL, "no element type" },
};

TEST_EACH(refuses_with_the_place, refused)
{
	const char *text = refused[_i].text;
	pf_autobuf struct pf_buf data = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_shape shape;

	pf_buf_puts(&data, "kept");
	check_result(pf_text_parse(text, strlen(text), refused[_i].dtype, &shape, &data,
				   &err),
		     refused[_i].want, &err, refused[_i].says);
	ck_assert_str_eq(data.data, "kept");
	ck_assert_uint_eq(data.len, 4);
}

/* The piece that ends a line reports its error, and the place stays before the line. */
TEST_EACH(refuses_lines_as_they_come, refused)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_text_check c = { .at = 0 }, before;
	const char *says = refused[_i].says;
	int r = 0;

	if (!pf_dtype_valid((int)refused[_i].dtype) || !strcmp(says, "no number"))
		return; /* facts known only from the whole text */
	pf_buf_puts(&text, refused[_i].text);
	pf_buf_puts(&text, "\n\n");
	for (size_t len = 0; len <= text.len && r == 0; len++) {
		before = c;
		r = pf_text_check(&c, text.data, len, refused[_i].dtype, &err);
	}
	check_result(r, refused[_i].want, &err, says);
	ck_assert_mem_eq(&c, &before, sizeof(c));
}
