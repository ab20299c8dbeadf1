/* SPDX-License-Identifier: Apache-2.0 */
/* Floats and doubles as text, both ways; and every float of less than 32 bits, as a number, too. */
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "formats/array/internal.h"
#include "text_print.h"

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* The number of significant digits in TEXT. */
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

static double libc_read(const char *text, enum pf_dtype dtype)
{
	return dtype == PF_DTYPE_F32 ? (double)strtof(text, NULL) : strtod(text, NULL);
}

/*
 * The digits that libc needs to read VALUE: of the decimal that is nearest or, above a power
 * of two, where floats are farther apart, of the next one.
 */
static int digits_needed(double value, int most, enum pf_dtype dtype)
{
	char text[64], next[64];

	for (int n = 1; n < most; n++) {
		uint64_t digits = 0;

		snprintf(text, sizeof(text), "%.*e", n - 1, value);
		if (libc_read(text, dtype) == value)
			return n;
		for (const char *p = text; *p != 'e'; p++)
			if (*p >= '0' && *p <= '9')
				digits = digits * 10 + (uint64_t)(*p - '0');
		snprintf(next, sizeof(next), "%" PRIu64 "e%d", digits + 1,
			 atoi(strchr(text, 'e') + 1) - (n - 1));
		if (libc_read(next, dtype) == value)
			return n;
	}
	return most;
}

/* VALUE is printed as short as libc can, and libc reads it back. */
static void check(enum pf_dtype dtype, double value)
{
	int most = dtype == PF_DTYPE_F32 ? 9 : 17;
	float narrow = (float)value;
	char text[64];

	print_one(text, sizeof(text), dtype,
		  dtype == PF_DTYPE_F32 ? (const void *)&narrow : &value);
	ck_assert_msg(libc_read(text, dtype) == value, "%.17g is printed as %s", value,
		      text);
	ck_assert_msg(value == 0 ||
			      digits_in(text) <= digits_needed(fabs(value), most, dtype),
		      "%s for %.17g", text, value);
}

TEST_TIMES(shortest_doubles, 4)
{
	uint64_t state = 0x9e3779b97f4a7c15u + (uint64_t)_i, bits;
	static double all[20000];
	double value;

	for (size_t i = 0; i < ARRAY_SIZE(all);) {
		bits = next_random(&state);
		memcpy(&value, &bits, sizeof(value));
		if (i % 4 == 1) /* a short decimal */
			value = (double)(int64_t)(bits % 2000000) / 1000;
		else if (i % 4 == 2) /* near one */
			value = 1 + (double)(bits % 1000) * DBL_EPSILON;
		else if (i % 4 == 3) /* an integer */
			value = (double)(bits >> (bits % 60));
		if (!isfinite(value))
			continue;
		check(PF_DTYPE_F64, value);
		all[i++] = value;
	}
	round_trip(PF_DTYPE_F64, all, ARRAY_SIZE(all));
}

TEST_TIMES(shortest_floats, 4)
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
		check(PF_DTYPE_F32, (double)value);
		all[i++] = value;
	}
	round_trip(PF_DTYPE_F32, all, ARRAY_SIZE(all));
}

/* Powers and their neighbours, where spacing changes. */
static void check_near(double value)
{
	float narrow = (float)value;

	check(PF_DTYPE_F64, value);
	check(PF_DTYPE_F64, nextafter(value, INFINITY));
	check(PF_DTYPE_F64, nextafter(value, 0));
	if (!isfinite(narrow))
		return;
	check(PF_DTYPE_F32, (double)narrow);
	check(PF_DTYPE_F32, (double)nextafterf(narrow, 0));
	if (isfinite(nextafterf(narrow, INFINITY)))
		check(PF_DTYPE_F32, (double)nextafterf(narrow, INFINITY));
}

TEST(powers_and_neighbours)
{
	char text[16];

	for (int e = -1074; e <= 1023; e++)
		check_near(ldexp(1, e));
	for (int e = -323; e <= 308; e++) {
		snprintf(text, sizeof(text), "1e%d", e);
		check_near(strtod(text, NULL));
	}
	check(PF_DTYPE_F64, DBL_MAX);
	check(PF_DTYPE_F64, DBL_MIN);
	check(PF_DTYPE_F32, (double)FLT_MAX);
	check(PF_DTYPE_F32, (double)FLT_MIN);
}

static const struct {
	double value;
	const char *want;
} written[] = {
	{ 0, "0" },
	{ -0.0, "-0" },
	{ 1, "1" },
	{ 0.1, "0.1" },
	{ 0.0001, "0.0001" },
	{ 0.00012345, "0.00012345" },
	{ 0.00001, "1e-05" },
	{ 1.5e-7, "1.5e-07" },
	{ 1e15, "1000000000000000" },
	{ 1e16, "1e+16" },
	{ 9007199254740993.0, "9007199254740992" },
	{ 1e100, "1e+100" },
	{ 5e-324, "5e-324" },
	{ 0x1p-44, "5.684341886080802e-14" }, /* the nearest of 16 digits reads as less */
	{ INFINITY, "inf" },
	{ -INFINITY, "-inf" },
	{ NAN, "nan" },
};

TEST_EACH(writes_doubles, written)
{
	char text[64];

	print_one(text, sizeof(text), PF_DTYPE_F64, &written[_i].value);
	ck_assert_str_eq(text, written[_i].want);
}

/* --- small floats ---------------------------------------------------------------------------- */

static const enum pf_dtype small[] = {
	PF_DTYPE_F16,        PF_DTYPE_BF16,       PF_DTYPE_F8E5M2,
	PF_DTYPE_F8E4M3,     PF_DTYPE_F8E3M4,     PF_DTYPE_F8E4M3FN,
	PF_DTYPE_F8E5M2FNUZ, PF_DTYPE_F8E4M3FNUZ, PF_DTYPE_F8E4M3B11FNUZ,
	PF_DTYPE_F8E8M0FNU,  PF_DTYPE_F4E2M1FN,
};

/* A type without a layout makes 0 of all numbers. */
TEST(each_small_float_has_a_layout)
{
	for (enum pf_dtype d = PF_DTYPE_PRED; d < PF_DTYPE_COUNT; d++)
		if (pf_dtype_valid((int)d) && pf_dtype_kind(d) == PF_KIND_REAL &&
		    pf_dtype_bits(d) < 32)
			ck_assert(pf_small_float_encode(d, 1) != 0);
}

static unsigned codes_of(enum pf_dtype dtype)
{
	return 1u << pf_dtype_bits(dtype);
}

TEST_EACH(every_code_survives_decoding, small)
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

/* Between two neighbours: what is nearer wins, in the middle the even code. */
TEST_EACH(rounds_to_nearest_even, small)
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
	}
}

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
	{ PF_DTYPE_F16, 1e300, 0x7c00 },
	{ PF_DTYPE_F16, 5e-324, 0 },
	{ PF_DTYPE_F16, -0.0, 0x8000 },
	{ PF_DTYPE_F16, NAN, 0x7e00 },
	{ PF_DTYPE_BF16, 1, 0x3f80 },
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
	{ PF_DTYPE_F8E8M0FNU, 1.5, 128 },
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
	{ PF_DTYPE_F4E2M1FN, -0.0, 8 },
};

TEST_EACH(encodes_corners, corners)
{
	ck_assert_uint_eq(pf_small_float_encode(corners[_i].dtype, corners[_i].value),
			  corners[_i].code);
}

TEST_EACH(every_small_float_round_trips, small)
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
