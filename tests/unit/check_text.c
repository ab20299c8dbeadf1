/* Arrays as text: every small float there is, and many of the large ones, both ways. */
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "pjrtfs/formats/text.h"
#include "unit.h"

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* -- small floats ----------------------------------------------------------------- */

static const enum pf_dtype small[] = {
	PF_DTYPE_F16,        PF_DTYPE_BF16,       PF_DTYPE_F8E5M2,
	PF_DTYPE_F8E4M3,     PF_DTYPE_F8E3M4,     PF_DTYPE_F8E4M3FN,
	PF_DTYPE_F8E5M2FNUZ, PF_DTYPE_F8E4M3FNUZ, PF_DTYPE_F8E4M3B11FNUZ,
	PF_DTYPE_F8E8M0FNU,  PF_DTYPE_F4E2M1FN,
};

static unsigned codes_of(enum pf_dtype dtype)
{
	return 1u << pf_dtype_bits(dtype);
}

START_TEST(every_code_survives_decoding)
{
	enum pf_dtype d = small[_i];

	for (unsigned code = 0; code < codes_of(d); code++) {
		double value = pf_small_float_decode(d, (uint16_t)code);
		unsigned again = pf_small_float_encode(d, value);

		if (isnan(value))
			ck_assert(isnan(pf_small_float_decode(d, (uint16_t)again)));
		else
			ck_assert_uint_eq(again, code);
	}
}
END_TEST

/* Between two neighbours: what is nearer wins, in the middle the even code. */
START_TEST(rounds_to_nearest_even)
{
	enum pf_dtype d = small[_i];
	unsigned n = d == PF_DTYPE_F8E8M0FNU ? 255 : codes_of(d) / 2;

	for (unsigned code = 0; code + 1 < n; code++) {
		double a = pf_small_float_decode(d, (uint16_t)code);
		double b = pf_small_float_decode(d, (uint16_t)(code + 1));
		double middle = a / 2 + b / 2;
		unsigned even = code & 1 ? code + 1 : code;

		if (!isfinite(a) || !isfinite(b))
			break;
		/* Powers of two have no even mantissa: up. */
		if (d == PF_DTYPE_F8E8M0FNU)
			even = code + 1;
		ck_assert_uint_eq(pf_small_float_encode(d, nextafter(middle, a)), code);
		ck_assert_uint_eq(pf_small_float_encode(d, nextafter(middle, b)),
				  code + 1);
		ck_assert_uint_eq(pf_small_float_encode(d, middle), even);
		if (d != PF_DTYPE_F8E8M0FNU)
			ck_assert_double_eq(
				pf_small_float_decode(d, pf_small_float_encode(d, -a)),
				-a);
	}
}
END_TEST

/* The corners, from the definitions of the types and from ml_dtypes 0.6.0. */
static const struct {
	enum pf_dtype dtype;
	double value;
	unsigned code;
} corners[] = {
	{ PF_DTYPE_F16, 1, 0x3c00 },
	{ PF_DTYPE_F16, 65504, 0x7bff },
	{ PF_DTYPE_F16, 65519.99, 0x7bff },
	{ PF_DTYPE_F16, 65520, 0x7c00 },
	{ PF_DTYPE_F16, 0x1p-24, 1 },
	{ PF_DTYPE_F16, 0x1p-25, 0 },
	{ PF_DTYPE_F16, -0x1.8p-25, 0x8001 },
	{ PF_DTYPE_F16, 1e300, 0x7c00 },
	{ PF_DTYPE_F16, -1e300, 0xfc00 },
	{ PF_DTYPE_F16, 5e-324, 0 },
	{ PF_DTYPE_F16, -0.0, 0x8000 },
	{ PF_DTYPE_F16, NAN, 0x7e00 },
	{ PF_DTYPE_BF16, 1, 0x3f80 },
	{ PF_DTYPE_BF16, 1e30, 29002 },
	{ PF_DTYPE_BF16, 3.4e38, 0x7f80 },
	{ PF_DTYPE_BF16, NAN, 0x7fc0 },
	{ PF_DTYPE_BF16, -INFINITY, 0xff80 },
	{ PF_DTYPE_BF16, 1e-45, 0 },
	{ PF_DTYPE_F8E5M2, 57344, 0x7b },
	{ PF_DTYPE_F8E5M2, 61440, 0x7c },
	{ PF_DTYPE_F8E5M2, NAN, 0x7e },
	{ PF_DTYPE_F8E4M3, 240, 0x77 },
	{ PF_DTYPE_F8E4M3, 248, 0x78 },
	{ PF_DTYPE_F8E4M3, NAN, 0x7c },
	{ PF_DTYPE_F8E3M4, 15.5, 0x6f },
	{ PF_DTYPE_F8E3M4, 16, 0x70 },
	{ PF_DTYPE_F8E3M4, NAN, 0x78 },
	{ PF_DTYPE_F8E4M3FN, 448, 0x7e },
	{ PF_DTYPE_F8E4M3FN, 464, 0x7e },
	{ PF_DTYPE_F8E4M3FN, 465, 0x7f },
	{ PF_DTYPE_F8E4M3FN, -INFINITY, 0xff },
	{ PF_DTYPE_F8E4M3FN, -0.0, 0x80 },
	{ PF_DTYPE_F8E4M3FNUZ, 240, 0x7f },
	{ PF_DTYPE_F8E4M3FNUZ, 247, 0x7f },
	{ PF_DTYPE_F8E4M3FNUZ, 248, 0x80 },
	{ PF_DTYPE_F8E4M3FNUZ, -0.0, 0 },
	{ PF_DTYPE_F8E4M3FNUZ, -1e-30, 0 },
	{ PF_DTYPE_F8E4M3FNUZ, NAN, 0x80 },
	{ PF_DTYPE_F8E5M2FNUZ, -1e30, 0x80 },
	{ PF_DTYPE_F8E5M2FNUZ, -1, 0xc0 },
	{ PF_DTYPE_F8E4M3B11FNUZ, -1, 0xd8 },
	{ PF_DTYPE_F8E4M3B11FNUZ, 30, 0x7f },
	{ PF_DTYPE_F8E8M0FNU, 1, 127 },
	{ PF_DTYPE_F8E8M0FNU, 1.49, 127 },
	{ PF_DTYPE_F8E8M0FNU, 1.5, 128 },
	{ PF_DTYPE_F8E8M0FNU, 3, 129 },
	{ PF_DTYPE_F8E8M0FNU, 0, 255 },
	{ PF_DTYPE_F8E8M0FNU, -1, 255 },
	{ PF_DTYPE_F8E8M0FNU, 0x1.8p127, 255 },
	{ PF_DTYPE_F8E8M0FNU, 0x1.7p127, 254 },
	{ PF_DTYPE_F8E8M0FNU, 1e-45, 0 },
	{ PF_DTYPE_F8E8M0FNU, INFINITY, 255 },
	{ PF_DTYPE_F4E2M1FN, 6, 7 },
	{ PF_DTYPE_F4E2M1FN, 1e30, 7 },
	{ PF_DTYPE_F4E2M1FN, -INFINITY, 15 },
	{ PF_DTYPE_F4E2M1FN, NAN, 8 },
	{ PF_DTYPE_F4E2M1FN, 0.25, 0 },
	{ PF_DTYPE_F4E2M1FN, 0.26, 1 },
	{ PF_DTYPE_F4E2M1FN, 2.5, 4 },
	{ PF_DTYPE_F4E2M1FN, -0.0, 8 },
};

START_TEST(encodes_corners)
{
	ck_assert_uint_eq(pf_small_float_encode(corners[_i].dtype, corners[_i].value),
			  corners[_i].code);
}
END_TEST

/* -- printing and back ------------------------------------------------------------- */

/* Print N elements as a column, read them back, and compare the bytes. */
static void round_trip(enum pf_dtype dtype, const void *data, size_t n)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT, again = PF_BUF_INIT;
	const struct pf_shape shape = { 2, { (int64_t)n, 1 } };
	struct pf_shape found;
	struct pf_err err = PF_ERR_INIT;

	pf_text_print(&text, dtype, &shape, data);
	ck_assert_msg(pf_text_parse(text.data, text.len, dtype, &found, &again, &err) ==
			      0,
		      "%s", err.text);
	ck_assert_uint_eq(again.len, n * pf_dtype_size(dtype));
	ck_assert_mem_eq(again.data, data, again.len);
}

START_TEST(every_small_float_round_trips)
{
	enum pf_dtype d = small[_i];
	unsigned char data[2 * 65536];
	size_t n = 0, size = pf_dtype_size(d);

	for (unsigned code = 0; code < codes_of(d); code++) {
		if (isnan(pf_small_float_decode(d, (uint16_t)code)))
			continue;
		data[n * size] = (unsigned char)code;
		if (size == 2)
			data[n * size + 1] = (unsigned char)(code >> 8);
		n++;
	}
	ck_assert_uint_ge(n, 16);
	round_trip(d, data, n);
}
END_TEST

/* The number of digits that matter in TEXT. */
static int digits_in(const char *text)
{
	int n = 0, zeros = 0;

	for (; *text && *text != 'e'; text++) {
		if (*text < '0' || *text > '9' || (n == 0 && *text == '0'))
			continue;
		zeros = *text == '0' ? zeros + 1 : 0;
		n++;
	}
	return n - zeros;
}

static void print_one(char *dst, size_t len, enum pf_dtype dtype, const void *value)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	const struct pf_shape shape = { .rank = 0 };

	pf_text_print(&text, dtype, &shape, value);
	ck_assert_uint_lt(text.len, len);
	ck_assert_int_eq(text.data[text.len - 1], '\n');
	memcpy(dst, text.data, text.len - 1);
	dst[text.len - 1] = '\0';
}

static bool libc_reads(const char *text, double value, bool narrow)
{
	return (narrow ? (double)strtof(text, NULL) : strtod(text, NULL)) == value;
}

/*
 * The digits that libc needs to read VALUE: of the decimal that is nearest or, above a power
 * of two, where floats are farther apart, of the next one.
 */
static int digits_needed(double value, int most, bool narrow)
{
	char text[64], next[64];

	for (int n = 1; n < most; n++) {
		uint64_t digits = 0;

		snprintf(text, sizeof(text), "%.*e", n - 1, value);
		if (libc_reads(text, value, narrow))
			return n;
		for (const char *p = text; *p != 'e'; p++)
			if (*p >= '0' && *p <= '9')
				digits = digits * 10 + (uint64_t)(*p - '0');
		snprintf(next, sizeof(next), "%" PRIu64 "e%d", digits + 1,
			 atoi(strchr(text, 'e') + 1) - (n - 1));
		if (libc_reads(next, value, narrow))
			return n;
	}
	return most;
}

/* Printed as short as libc can and read by libc as the same. */
static void check_double(double value)
{
	char text[64];

	print_one(text, sizeof(text), PF_DTYPE_F64, &value);
	ck_assert_msg(strtod(text, NULL) == value, "%.17g is printed as %s", value, text);
	ck_assert_msg(value == 0 ||
			      digits_in(text) <= digits_needed(fabs(value), 17, false),
		      "%s for %.17g", text, value);
}

static void check_float(float value)
{
	char text[64];

	print_one(text, sizeof(text), PF_DTYPE_F32, &value);
	ck_assert_msg(strtof(text, NULL) == value, "%.9g is printed as %s", (double)value,
		      text);
	ck_assert_msg(value == 0 || digits_in(text) <=
					    digits_needed(fabs((double)value), 9, true),
		      "%s for %.9g", text, (double)value);
}

START_TEST(shortest_doubles)
{
	uint64_t state = 0x9e3779b97f4a7c15u + (uint64_t)_i, bits;
	static double all[20000];
	double value;

	for (size_t i = 0; i < ARRAY_SIZE(all);) {
		bits = next_random(&state);
		memcpy(&value, &bits, sizeof(value));
		switch (i % 4) {
		case 0:
			break;
		case 1: /* a short decimal */
			value = (double)(int64_t)(bits % 2000000) / 1000;
			break;
		case 2: /* near one */
			value = 1 + (double)(bits % 1000) * DBL_EPSILON;
			break;
		default: /* an integer */
			value = (double)(bits >> (bits % 60));
			break;
		}
		if (!isfinite(value))
			continue;
		check_double(value);
		all[i++] = value;
	}
	round_trip(PF_DTYPE_F64, all, ARRAY_SIZE(all));
}
END_TEST

START_TEST(shortest_floats)
{
	uint64_t state = 0x2545f4914f6cdd1du + (uint64_t)_i;
	static float all[20000];
	uint32_t bits;
	float value;

	for (size_t i = 0; i < ARRAY_SIZE(all);) {
		bits = (uint32_t)(next_random(&state) >> 16);
		memcpy(&value, &bits, sizeof(value));
		if (i % 3 == 1)
			value = (float)(bits % 100000) / 100;
		else if (i % 3 == 2)
			value = (float)((int32_t)bits >> bits % 20);
		if (!isfinite(value))
			continue;
		check_float(value);
		all[i++] = value;
	}
	round_trip(PF_DTYPE_F32, all, ARRAY_SIZE(all));
}
END_TEST

/* All powers of two and of ten and their neighbours, where spacing changes. */
START_TEST(powers_and_neighbours)
{
	for (int e = -1074; e <= 1023; e++) {
		double value = ldexp(1, e);

		check_double(value);
		check_double(nextafter(value, INFINITY));
		check_double(nextafter(value, 0));
	}
	for (int e = -149; e <= 127; e++) {
		float value = ldexpf(1, e);

		check_float(value);
		check_float(nextafterf(value, INFINITY));
		check_float(nextafterf(value, 0));
	}
	for (int e = -323; e <= 308; e++) {
		char text[16];

		snprintf(text, sizeof(text), "1e%d", e);
		check_double(strtod(text, NULL));
		check_double(nextafter(strtod(text, NULL), 0));
		if (e >= -45 && e <= 38) {
			check_float(strtof(text, NULL));
			check_float(nextafterf(strtof(text, NULL), 0));
		}
	}
	check_double(DBL_MAX);
	check_double(DBL_MIN);
	check_float(FLT_MAX);
	check_float(FLT_MIN);
}
END_TEST

static const struct {
	double value;
	const char *want;
} written[] = {
	{ 0, "0" },
	{ -0.0, "-0" },
	{ 1, "1" },
	{ -1, "-1" },
	{ 0.1, "0.1" },
	{ 100, "100" },
	{ 1234567, "1234567" },
	{ 0.5, "0.5" },
	{ 3.14159, "3.14159" },
	{ 0.0001, "0.0001" },
	{ 0.00012345, "0.00012345" },
	{ 0.00001, "1e-05" },
	{ 1.5e-7, "1.5e-07" },
	{ 1e15, "1000000000000000" },
	{ 1e16, "1e+16" },
	{ 1.25e16, "1.25e+16" },
	{ 9007199254740993.0, "9007199254740992" },
	{ 1e20, "1e+20" },
	{ 1e100, "1e+100" },
	{ 5e-324, "5e-324" },
	{ 0x1p-44, "5.684341886080802e-14" }, /* the nearest of 16 digits reads as less */
	{ 1.7976931348623157e308, "1.7976931348623157e+308" },
	{ 0.1 + 0.2, "0.30000000000000004" },
	{ 123456.789, "123456.789" },
	{ INFINITY, "inf" },
	{ -INFINITY, "-inf" },
	{ NAN, "nan" },
};

START_TEST(writes_doubles)
{
	char text[64];

	print_one(text, sizeof(text), PF_DTYPE_F64, &written[_i].value);
	ck_assert_str_eq(text, written[_i].want);
}
END_TEST

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

START_TEST(writes_elements_and_reads_them)
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
END_TEST

/* -- shapes ------------------------------------------------------------------------- */

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

START_TEST(rows_and_blocks)
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
END_TEST

static const struct {
	enum pf_dtype dtype;
	const char *text;
	struct pf_shape shape;
	unsigned char first[8];
} reads[] = {
	{ PF_DTYPE_U8, "7", { 0, { 0 } }, { 7 } },
	{ PF_DTYPE_U8, "7\n", { 0, { 0 } }, { 7 } },
	{ PF_DTYPE_U8, "+7\r\n", { 0, { 0 } }, { 7 } },
	{ PF_DTYPE_U8, "\n\n  1\t2 , 3,\n \n", { 1, { 3 } }, { 1, 2, 3 } },
	{ PF_DTYPE_U8, "1,2\n3,4", { 2, { 2, 2 } }, { 1, 2, 3, 4 } },
	{ PF_DTYPE_U8, "1 2\n\n\n \t\n3 4\n", { 3, { 2, 1, 2 } }, { 1, 2, 3, 4 } },
	{ PF_DTYPE_U8, "-0 000255", { 1, { 2 } }, { 0, 255 } },
	{ PF_DTYPE_S8, "-128 127", { 1, { 2 } }, { 0x80, 0x7f } },
	{ PF_DTYPE_S4, "-8 7", { 1, { 2 } }, { 0xf8, 7 } },
	{ PF_DTYPE_S1, "-1 0", { 1, { 2 } }, { 0xff, 0 } },
	{ PF_DTYPE_PRED, "true False 1 0 TRUE", { 1, { 5 } }, { 1, 0, 1, 0, 1 } },
	{ PF_DTYPE_F32, "1.0", { 0, { 0 } }, { 0, 0, 0x80, 0x3f } },
	{ PF_DTYPE_F32, ".5e1", { 0, { 0 } }, { 0, 0, 0xa0, 0x40 } },
	{ PF_DTYPE_F32, "5.", { 0, { 0 } }, { 0, 0, 0xa0, 0x40 } },
	{ PF_DTYPE_F32, "5E+0", { 0, { 0 } }, { 0, 0, 0xa0, 0x40 } },
	{ PF_DTYPE_F32, "-Infinity", { 0, { 0 } }, { 0, 0, 0x80, 0xff } },
	{ PF_DTYPE_F32, "NaN", { 0, { 0 } }, { 0, 0, 0xc0, 0x7f } },
	{ PF_DTYPE_F32, "1e-400", { 0, { 0 } }, { 0 } },
	{ PF_DTYPE_F32, "0e99999999999999999999", { 0, { 0 } }, { 0 } },
	{ PF_DTYPE_F32, "1e-99999999999999999999", { 0, { 0 } }, { 0 } },
	/* 1 + 2^-24, between two floats, and a hair above: rounded once, not twice. */
	{ PF_DTYPE_F32,
	  "1.000000059604644775390625",
	  { 0, { 0 } },
	  { 0, 0, 0x80, 0x3f } },
	{ PF_DTYPE_F32,
	  "1.000000059604644775390625000000000000000000000000000000001",
	  { 0, { 0 } },
	  { 1, 0, 0x80, 0x3f } },
	{ PF_DTYPE_F32,
	  "340282346638528859811704183484516925440",
	  { 0, { 0 } },
	  { 0xff, 0xff, 0x7f, 0x7f } },
	{ PF_DTYPE_F32,
	  "340282356779733661637539395458142568447",
	  { 0, { 0 } },
	  { 0xff, 0xff, 0x7f, 0x7f } },
	{ PF_DTYPE_F64,
	  "9007199254740993",
	  { 0, { 0 } },
	  { 0, 0, 0, 0, 0, 0, 0x40, 0x43 } },
	{ PF_DTYPE_F64,
	  "9007199254740993.0000000000000000001",
	  { 0, { 0 } },
	  { 1, 0, 0, 0, 0, 0, 0x40, 0x43 } },
	{ PF_DTYPE_F64,
	  "100000000000000000000000e-23",
	  { 0, { 0 } },
	  { 0, 0, 0, 0, 0, 0, 0xf0, 0x3f } },
	{ PF_DTYPE_F64,
	  "0.00000000000000000000000000001e29",
	  { 0, { 0 } },
	  { 0, 0, 0, 0, 0, 0, 0xf0, 0x3f } },
	{ PF_DTYPE_F16, "65519", { 0, { 0 } }, { 0xff, 0x7b } },
	{ PF_DTYPE_F4E2M1FN, "6.99 -6.99", { 1, { 2 } }, { 7, 15 } },
	{ PF_DTYPE_F8E8M0FNU, "1", { 0, { 0 } }, { 127 } },
	{ PF_DTYPE_C64, "2j", { 0, { 0 } }, { 0, 0, 0, 0, 0, 0, 0, 0x40 } },
	{ PF_DTYPE_C64, "2", { 0, { 0 } }, { 0, 0, 0, 0x40, 0, 0, 0, 0 } },
	{ PF_DTYPE_C64, "2e0-2e+0j", { 0, { 0 } }, { 0, 0, 0, 0x40, 0, 0, 0, 0xc0 } },
};

START_TEST(reads_what_people_write)
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
	ck_assert(pf_shape_equal(&shape, &reads[_i].shape));
	ck_assert_int_eq(pf_shape_count(&shape, &n, &err), 0);
	ck_assert_uint_eq(data.len, 4 + (size_t)n * pf_dtype_size(reads[_i].dtype));
	ck_assert_mem_eq(data.data + 4, reads[_i].first, data.len - 4);
}
END_TEST

static const struct {
	enum pf_dtype dtype;
	const char *text;
	int want;
	const char *says;
} refused[] = {
	{ PF_DTYPE_F32, "", -EINVAL, "no number" },
	{ PF_DTYPE_F32, " \n\t\n", -EINVAL, "no number" },
	{ PF_DTYPE_F32, "1 2\n3 x 4\n", -EINVAL, "line 2, column 3: \"x\" is no F32" },
	{ PF_DTYPE_F32, "1 2\n3\n", -EINVAL,
	  "line 2 has 1 numbers, the lines before it have 2" },
	{ PF_DTYPE_F32, "1\n2 3\n", -EINVAL, "line 2 has 2 numbers" },
	{ PF_DTYPE_F32, "1\n2\n\n3\n", -EINVAL,
	  "block 2 ends with 1 rows, the first has 2" },
	{ PF_DTYPE_F32, "1\n\n2\n3\n\n4\n", -EINVAL, "block 2 ends with 2 rows" },
	{ PF_DTYPE_F32, "1\n\n2 3\n", -EINVAL, "line 3 has 2 numbers" },
	{ PF_DTYPE_F32, "1,,2", -EINVAL, "line 1, column 3: no number before ','" },
	{ PF_DTYPE_F32, ",1", -EINVAL, "no number before ','" },
	{ PF_DTYPE_F32, "1,\n,2", -EINVAL, "line 2, column 1: no number before ','" },
	{ PF_DTYPE_F32, ",", -EINVAL, "no number before ','" },
	{ PF_DTYPE_F32, "1e", -EINVAL, "is no F32" },
	{ PF_DTYPE_F32, "1e+", -EINVAL, "is no F32" },
	{ PF_DTYPE_F32, ".", -EINVAL, "is no F32" },
	{ PF_DTYPE_F32, "-", -EINVAL, "is no F32" },
	{ PF_DTYPE_F32, "--1", -EINVAL, "is no F32" },
	{ PF_DTYPE_F32, "1.2.3", -EINVAL, "is no F32" },
	{ PF_DTYPE_F32, "0x10", -EINVAL, "is no F32" },
	{ PF_DTYPE_F32, "1f", -EINVAL, "is no F32" },
	{ PF_DTYPE_F32, "nan(1)", -EINVAL, "is no F32" },
	{ PF_DTYPE_F32, "infin", -EINVAL, "is no F32" },
	{ PF_DTYPE_F32, "true", -EINVAL, "is no F32" },
	{ PF_DTYPE_F32, "1+2j", -EINVAL, "is no F32" },
	{ PF_DTYPE_F32, "[1", -EINVAL, "is no F32" },
	{ PF_DTYPE_F32, "1e39", -ERANGE, "\"1e39\" does not fit F32" },
	{ PF_DTYPE_F32, "340282356779733661637539395458142568448", -ERANGE, "F32" },
	{ PF_DTYPE_F32, "1e99999999999999999999", -ERANGE, "does not fit F32" },
	{ PF_DTYPE_F64, "1e309", -ERANGE, "does not fit F64" },
	{ PF_DTYPE_F16, "65520", -ERANGE, "does not fit F16" },
	{ PF_DTYPE_F8E4M3FN, "465", -ERANGE, "does not fit F8E4M3FN" },
	{ PF_DTYPE_F8E4M3FN, "inf", -ERANGE, "does not fit F8E4M3FN" },
	{ PF_DTYPE_F8E4M3FNUZ, "-inf", -ERANGE, "does not fit" },
	{ PF_DTYPE_F4E2M1FN, "7", -ERANGE, "does not fit" },
	{ PF_DTYPE_F4E2M1FN, "nan", -ERANGE, "does not fit" },
	{ PF_DTYPE_F4E2M1FN, "inf", -ERANGE, "does not fit" },
	{ PF_DTYPE_F8E8M0FNU, "0", -ERANGE, "does not fit" },
	{ PF_DTYPE_F8E8M0FNU, "-1", -ERANGE, "does not fit" },
	{ PF_DTYPE_U8, "256", -ERANGE, "\"256\" does not fit U8" },
	{ PF_DTYPE_U8, "-1", -ERANGE, "does not fit U8" },
	{ PF_DTYPE_U8, "1.0", -EINVAL, "is no U8" },
	{ PF_DTYPE_U8, "1e2", -EINVAL, "is no U8" },
	{ PF_DTYPE_U8, "+", -EINVAL, "is no U8" },
	{ PF_DTYPE_S8, "128", -ERANGE, "does not fit S8" },
	{ PF_DTYPE_S8, "-129", -ERANGE, "does not fit S8" },
	{ PF_DTYPE_S4, "8", -ERANGE, "does not fit S4" },
	{ PF_DTYPE_S1, "1", -ERANGE, "does not fit S1" },
	{ PF_DTYPE_U1, "2", -ERANGE, "does not fit U1" },
	{ PF_DTYPE_S64, "9223372036854775808", -ERANGE, "does not fit S64" },
	{ PF_DTYPE_U64, "18446744073709551616", -ERANGE, "does not fit U64" },
	{ PF_DTYPE_U64, "99999999999999999999999999", -ERANGE, "does not fit U64" },
	{ PF_DTYPE_PRED, "2", -EINVAL, "is no PRED" },
	{ PF_DTYPE_PRED, "tru", -EINVAL, "is no PRED" },
	{ PF_DTYPE_C64, "1+2", -EINVAL, "is no C64" },
	{ PF_DTYPE_C64, "1+j", -EINVAL, "is no C64" },
	{ PF_DTYPE_C64, "j", -EINVAL, "is no C64" },
	{ PF_DTYPE_C64, "1 2j3", -EINVAL, "is no C64" },
	{ PF_DTYPE_C64, "1+2i", -EINVAL, "is no C64" },
	{ PF_DTYPE_C64, "1+2jj", -EINVAL, "is no C64" },
	{ PF_DTYPE_C64, "1e39+2j", -ERANGE, "does not fit C64" },
	{ PF_DTYPE_C64, "1+1e39j", -ERANGE, "does not fit C64" },
	{ PF_DTYPE_INVALID, "1", -EINVAL, "no element type" },
	{ PF_DTYPE_TOKEN, "1", -EINVAL, "no element type" },
};

START_TEST(refuses_with_the_place)
{
	pf_autobuf struct pf_buf data = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_shape shape;

	pf_buf_puts(&data, "kept");
	ck_assert_int_eq(pf_text_parse(refused[_i].text, strlen(refused[_i].text),
				       refused[_i].dtype, &shape, &data, &err),
			 refused[_i].want);
	ck_assert_msg(strstr(err.text, refused[_i].says) != NULL, "%s", err.text);
	ck_assert_str_eq(data.data, "kept");
	ck_assert_uint_eq(data.len, 4);
}
END_TEST

/* More digits than anything looks at, and elements beyond one piece of the writer. */
START_TEST(long_words_and_rows)
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
END_TEST

START_TEST(no_memory_is_told)
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
END_TEST

/* Where a comma is the decimal point.  Skipped, in effect, where no such locale is. */
START_TEST(no_locale_matters)
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
END_TEST

static void add_small_floats(Suite *s)
{
	TCase *tc = tcase_create("small");

	tcase_set_timeout(tc, 60);
	unit_add_cases(tc, every_code_survives_decoding, small);
	unit_add_cases(tc, rounds_to_nearest_even, small);
	unit_add_cases(tc, encodes_corners, corners);
	unit_add_cases(tc, every_small_float_round_trips, small);
	suite_add_tcase(s, tc);
}

int main(void)
{
	Suite *s = suite_create("text");
	TCase *tc = tcase_create("core");

	add_small_floats(s);
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, shortest_doubles, 0, 4);
	tcase_add_loop_test(tc, shortest_floats, 0, 4);
	tcase_add_test(tc, powers_and_neighbours);
	unit_add_cases(tc, writes_doubles, written);
	unit_add_cases(tc, writes_elements_and_reads_them, elements);
	unit_add_cases(tc, rows_and_blocks, layouts);
	unit_add_cases(tc, reads_what_people_write, reads);
	unit_add_cases(tc, refuses_with_the_place, refused);
	tcase_add_test(tc, long_words_and_rows);
	tcase_add_test(tc, no_memory_is_told);
	tcase_add_test(tc, no_locale_matters);
	suite_add_tcase(s, tc);
	return unit_run(s);
}
