/* SPDX-License-Identifier: Apache-2.0 */
/* Floats and doubles as text, both ways. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

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

TEST_TIMES(shortest_doubles, 4)
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
		check_float(value);
		all[i++] = value;
	}
	round_trip(PF_DTYPE_F32, all, ARRAY_SIZE(all));
}

/* All powers of two and of ten and their neighbours, where spacing changes. */
TEST(powers_and_neighbours)
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

TEST_EACH(writes_doubles, written)
{
	char text[64];

	print_one(text, sizeof(text), PF_DTYPE_F64, &written[_i].value);
	ck_assert_str_eq(text, written[_i].want);
}
