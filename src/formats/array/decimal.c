/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shortest decimals, and back.
 *
 * Double arithmetic alone serves nearly all numbers: the powers of ten up to 10^22
 * are doubles, and so are integers up to 2^53, so one multiplication or division of the
 * two rounds once, that is, correctly.  libc converts all other numbers.
 */
#define _GNU_SOURCE 1
#include <float.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "internal.h"

enum {
	EXACT_POWER = 22,    /* the greatest power of ten that is a double */
	SIGNIFICANT = 19,    /* digits that a uint64_t always holds */
	POSITIONAL_MIN = -4, /* decimal exponents that are written without an "e" */
	POSITIONAL_MAX = 15,
};

static const double tens[EXACT_POWER + 1] = {
	1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
};

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void make_c_locale(void)
{
	/* glibc has this one built in: no allocation, no failure. */
	c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (!c_locale)
		abort();
}

/* TEXT as the nearest value of DTYPE, F32 or F64. */
static double convert(enum pf_dtype dtype, const char *text)
{
	pthread_once(&c_locale_once, make_c_locale);
	return dtype == PF_DTYPE_F32 ? (double)strtof_l(text, NULL, c_locale)
				     : strtod_l(text, NULL, c_locale);
}

size_t pf_decimal_print_u64(char *dst, uint64_t n)
{
	char text[20], *end = text + sizeof(text), *p = end;

	do
		*--p = (char)('0' + n % 10);
	while (n /= 10);
	memcpy(dst, p, (size_t)(end - p));
	return (size_t)(end - p);
}

/* mantissa * 10^exponent as a double if that takes one rounding. */
static bool exact_double(uint64_t mantissa, int64_t exponent, double *ret)
{
	if (mantissa > UINT64_C(1) << 53 || exponent > EXACT_POWER ||
	    exponent < -EXACT_POWER)
		return false;
	*ret = exponent < 0 ? (double)mantissa / tens[-exponent]
			    : (double)mantissa * tens[exponent];
	return true;
}

/*
 * Is VALUE, which is nearest to some decimal, rounded to float as that decimal would be?  Where
 * the double lies on the border between two floats the decimal may be on either side.
 */
static bool rounds_to_float(double value)
{
	uint64_t bits;

	if (value != 0 && (value < 2 * (double)FLT_MIN || value > (double)FLT_MAX))
		return false;
	memcpy(&bits, &value, sizeof(bits));
	return (bits & 0x1fffffff) != 0x10000000;
}

/* The value of DTYPE, F32 or F64, nearest to mantissa * 10^exponent. */
static double nearest(enum pf_dtype dtype, uint64_t mantissa, int64_t exponent)
{
	char text[48];
	double value;
	size_t n;

	if (exact_double(mantissa, exponent, &value)) {
		if (dtype == PF_DTYPE_F64)
			return value;
		if (rounds_to_float(value))
			return (double)(float)value;
	}
	n = pf_decimal_print_u64(text, mantissa);
	text[n++] = 'e';
	if (exponent < 0)
		text[n++] = '-';
	n += pf_decimal_print_u64(text + n, (uint64_t)llabs(exponent));
	text[n] = '\0';
	return convert(dtype, text);
}

/* Does digits * 10^exponent read as VALUE of DTYPE? */
static bool reads_back(enum pf_dtype dtype, double value, uint64_t digits, int exponent)
{
	if (dtype == PF_DTYPE_F32 || dtype == PF_DTYPE_F64)
		return nearest(dtype, digits, exponent) == value;
	return pf_small_float_decode(dtype,
				     pf_small_float_encode(dtype,
							   nearest(PF_DTYPE_F64, digits,
								   exponent))) == value;
}

/*
 * Round VALUE > 0 to N digits with double arithmetic: *DIGITS * 10^*EXPONENT.  False if
 * that could come out wrong: too wide a number, or too near the middle of two results.
 */
static bool round_fast(double value, int n, uint64_t *digits, int *exponent)
{
	int e2, e10, shift;
	double scaled, whole;

	if (n > 15)
		return false;
	(void)frexp(value, &e2);
	/* floor((e2 - 1) * log10(2)): the decimal exponent or one less. */
	e10 = ((e2 - 1) * 78913) >> 18;
	for (;; e10++) {
		shift = n - 1 - e10;
		if (shift > EXACT_POWER || shift < -EXACT_POWER)
			return false;
		scaled = shift < 0 ? value / tens[-shift] : value * tens[shift];
		if (scaled < tens[n])
			break;
	}
	whole = rint(scaled);
	if (n < 15 && fabs(fabs(scaled - whole) - 0.5) <= scaled * 0x1p-52)
		return false;
	*digits = (uint64_t)whole;
	*exponent = -shift;
	return true;
}

static void round_slow(double value, int n, uint64_t *digits, int *exponent)
{
	char text[64];
	const char *p;

	snprintf(text, sizeof(text), "%.*e", n - 1, value);
	*digits = 0;
	/* The point is whatever the locale makes it, of any number of bytes. */
	for (p = text; *p && *p != 'e'; p++)
		if (*p >= '0' && *p <= '9')
			*digits = *digits * 10 + (uint64_t)(*p - '0');
	*exponent = atoi(p + 1) - (n - 1);
}

/* Write digits * 10^exponent as in common notation: positional, or with an exponent. */
static size_t print_digits(char *dst, uint64_t digits, int exponent)
{
	char text[20];
	int n, point;
	size_t len = 0;

	while (digits % 10 == 0) {
		digits /= 10;
		exponent++;
	}
	n = (int)pf_decimal_print_u64(text, digits);
	point = n + exponent; /* the point comes after that many digits */
	if (point - 1 < POSITIONAL_MIN || point - 1 > POSITIONAL_MAX) {
		dst[len++] = text[0];
		if (n > 1) {
			dst[len++] = '.';
			memcpy(dst + len, text + 1, (size_t)n - 1);
			len += (size_t)n - 1;
		}
		dst[len++] = 'e';
		dst[len++] = point - 1 < 0 ? '-' : '+';
		if (abs(point - 1) < 10)
			dst[len++] = '0';
		return len + pf_decimal_print_u64(dst + len, (uint64_t)abs(point - 1));
	}
	/* The digits' places, counted from the first; what is outside them is 0. */
	for (int i = point < 1 ? point - 1 : 0; i < n || i < point; i++) {
		dst[len++] = i < 0 || i >= n ? '0' : text[i];
		if (i == point - 1 && i + 1 < n)
			dst[len++] = '.';
	}
	return len;
}

/* Bits of the significand, and the least and greatest number of digits worth trying. */
static void precision(enum pf_dtype dtype, double value, int *bits, int *first, int *last)
{
	switch (dtype) {
	case PF_DTYPE_F64:
		*bits = DBL_MANT_DIG;
		*first = value < DBL_MIN ? 1 : DBL_DIG;
		*last = DBL_DECIMAL_DIG;
		break;
	case PF_DTYPE_F32:
		*bits = FLT_MANT_DIG;
		*first = value < (double)FLT_MIN ? 1 : FLT_DIG;
		*last = FLT_DECIMAL_DIG;
		break;
	default:
		/*
		 * None has more than F16's 11 bits, which 5 digits tell apart.  Integers
		 * below 4 are integers in all of them that have such numbers at all.
		 */
		*bits = 2;
		*first = 1;
		*last = 5;
		break;
	}
}

size_t pf_decimal_print(char *dst, enum pf_dtype dtype, double value)
{
	int bits, n, last, exponent;
	uint64_t digits;
	size_t len = 0;
	bool is_power;

	if (isnan(value)) {
		memcpy(dst, "nan", 3);
		return 3;
	}
	if (signbit(value)) {
		dst[len++] = '-';
		value = -value;
	}
	if (isinf(value)) {
		memcpy(dst + len, "inf", 3);
		return len + 3;
	}
	if (value == 0) {
		dst[len++] = '0';
		return len;
	}
	precision(dtype, value, &bits, &n, &last);
	is_power = frexp(value, &exponent) == 0.5;
	/* Each of these integers is a value of DTYPE, so no shorter decimal reads as
	 * it. */
	if (value < (double)(UINT64_C(1) << bits) && value == (double)(uint64_t)value &&
	    value < 1e15)
		return len + pf_decimal_print_u64(dst + len, (uint64_t)value);
	/*
	 * A number of at most FLT_DIG or DBL_DIG digits is the only one of that many
	 * that reads as its float: if one does, it is what rounding to that many gives,
	 * with zeros at its end.  So the search need not start below, except among the
	 * subnormal numbers, which are not as dense.
	 *
	 * Above a power of two floats are twice as far apart as below it, so that a decimal
	 * above may be read as it when the nearest one, below, is not.
	 */
	for (;; n++) {
		if (!round_fast(value, n, &digits, &exponent))
			round_slow(value, n, &digits, &exponent);
		if (n == last || reads_back(dtype, value, digits, exponent))
			break;
		if (is_power && reads_back(dtype, value, digits + 1, exponent)) {
			digits++;
			break;
		}
	}
	return len + print_digits(dst + len, digits, exponent);
}

/* "inf", "infinity" or "nan" at the start of SRC: its bytes, or 0. */
static size_t scan_name(const char *src, size_t len, struct pf_decimal *ret)
{
	static const struct {
		const char *name;
		int kind;
	} names[] = { { "infinity", PF_DECIMAL_INF },
		      { "inf", PF_DECIMAL_INF },
		      { "nan", PF_DECIMAL_NAN } };

	for (size_t i = 0; i < PF_ARRAY_SIZE(names); i++) {
		size_t n = strlen(names[i].name);

		if (len >= n && strncasecmp(src, names[i].name, n) == 0) {
			ret->kind = names[i].kind;
			return n;
		}
	}
	return 0;
}

/* An exponent part at the start of SRC: its bytes, or 0; *RET saturates. */
static size_t scan_exponent(const char *src, size_t len, int64_t *ret)
{
	bool negative = false;
	int64_t exponent = 0;
	size_t i = 1;

	if (len < 2 || (src[0] != 'e' && src[0] != 'E'))
		return 0;
	if (src[1] == '-' || src[1] == '+')
		negative = src[i++] == '-';
	if (i == len || src[i] < '0' || src[i] > '9')
		return 0;
	for (; i < len && src[i] >= '0' && src[i] <= '9'; i++)
		if (exponent < INT64_C(1) << 40)
			exponent = exponent * 10 + (src[i] - '0');
	*ret = negative ? -exponent : exponent;
	return i;
}

size_t pf_decimal_scan(const char *src, size_t len, struct pf_decimal *ret)
{
	size_t i = 0, n_digits = 0, significant = 0, used;
	int64_t exponent = 0;
	bool point = false;

	*ret = (struct pf_decimal){ .kind = PF_DECIMAL_NUMBER, .exact = true };
	if (len && (src[0] == '-' || src[0] == '+'))
		ret->negative = src[i++] == '-';
	used = scan_name(src + i, len - i, ret);
	if (used)
		return i + used;
	ret->digits = src + i;
	for (; i < len; i++) {
		unsigned digit = (unsigned)(unsigned char)src[i] - '0';

		if (src[i] == '.' && !point) {
			point = true;
			continue;
		}
		if (digit > 9)
			break;
		n_digits++;
		if (significant || digit)
			significant++;
		if (significant <= SIGNIFICANT)
			ret->mantissa = ret->mantissa * 10 + digit;
		else
			ret->exact = ret->exact && digit == 0;
		/* A digit that is left out shifts the point as much as one behind it. */
		ret->exponent += (significant > SIGNIFICANT) - point;
	}
	if (n_digits == 0)
		return 0;
	ret->digits_len = (size_t)(src + i - ret->digits);
	i += scan_exponent(src + i, len - i, &exponent);
	ret->exponent += exponent;
	return i;
}

/*
 * A number of many digits as text for libc.  No more than 767 digits decide a rounding; those
 * beyond matter only by not being zero.
 */
enum { LIBC_DIGITS = 770, LIBC_TEXT = LIBC_DIGITS + 32 };

static void print_for_libc(char *dst, const struct pf_decimal *decimal)
{
	int64_t exponent = decimal->exponent;
	size_t n = 0;
	bool rest = false;

	for (size_t i = 0; i < decimal->digits_len; i++) {
		char c = decimal->digits[i];

		if (c == '.' || (c == '0' && n == 0))
			continue;
		if (n < LIBC_DIGITS)
			dst[n++] = c;
		else if (c != '0')
			rest = true;
	}
	/* decimal->exponent is that of the first SIGNIFICANT digits. */
	exponent -= (int64_t)n - SIGNIFICANT;
	if (rest) {
		dst[n++] = '1';
		exponent--;
	}
	snprintf(dst + n, LIBC_TEXT - n, "e%lld", (long long)exponent);
}

double pf_decimal_value(const struct pf_decimal *decimal, enum pf_dtype dtype)
{
	char text[LIBC_TEXT];
	double value;

	if (decimal->kind == PF_DECIMAL_NAN)
		return (double)NAN;
	if (decimal->kind == PF_DECIMAL_INF) {
		value = (double)INFINITY;
	} else if (decimal->exact) {
		value = nearest(dtype, decimal->mantissa, decimal->exponent);
	} else {
		print_for_libc(text, decimal);
		value = convert(dtype, text);
	}
	return decimal->negative ? -value : value;
}
