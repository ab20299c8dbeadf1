/* SPDX-License-Identifier: Apache-2.0 */
/* The floating types smaller than 32 bits, to and from double. */
#include <math.h>
#include <stdbool.h>

#include "pjrtfs/formats/text.h"

/* What the encodings that IEEE 754 gives to infinities and NaNs mean. */
enum style {
	IEEE, /* the same: exponent all ones */
	FN,   /* numbers, but for the very last of each sign, a NaN */
	FNUZ, /* numbers; the one NaN is where -0 would be */
	FN4,  /* numbers, all of them */
};

struct layout {
	unsigned char exponent, mantissa; /* bits; the sign is above them */
	short bias;
	enum style style;
};

static const struct layout layouts[PF_DTYPE_COUNT] = {
	[PF_DTYPE_F16] = { 5, 10, 15, IEEE },
	[PF_DTYPE_BF16] = { 8, 7, 127, IEEE },
	[PF_DTYPE_F8E5M2] = { 5, 2, 15, IEEE },
	[PF_DTYPE_F8E4M3] = { 4, 3, 7, IEEE },
	[PF_DTYPE_F8E3M4] = { 3, 4, 3, IEEE },
	[PF_DTYPE_F8E4M3FN] = { 4, 3, 7, FN },
	[PF_DTYPE_F8E5M2FNUZ] = { 5, 2, 16, FNUZ },
	[PF_DTYPE_F8E4M3FNUZ] = { 4, 3, 8, FNUZ },
	[PF_DTYPE_F8E4M3B11FNUZ] = { 4, 3, 11, FNUZ },
	[PF_DTYPE_F4E2M1FN] = { 2, 1, 1, FN4 },
};

/* A power of two, neither sign nor zero; the last encoding is the NaN. */
static double decode_e8m0(uint16_t bits)
{
	return (bits & 0xff) == 0xff ? (double)NAN : ldexp(1, (bits & 0xff) - 127);
}

static uint16_t encode_e8m0(double value)
{
	int exponent;
	double fraction;

	if (!(value > 0) || isinf(value))
		return 0xff;
	fraction = frexp(value, &exponent);
	/* There is no even mantissa to prefer: the middle goes up, as in ml_dtypes. */
	exponent += 126 + (fraction >= 0.75);
	return exponent < 0 ? 0 : exponent > 0xfe ? 0xff : (uint16_t)exponent;
}

double pf_small_float_decode(enum pf_dtype dtype, uint16_t bits)
{
	if (dtype == PF_DTYPE_F8E8M0FNU)
		return decode_e8m0(bits);

	const struct layout *l = &layouts[dtype];
	unsigned sign = 1u << (l->exponent + l->mantissa);
	unsigned code = bits & (sign - 1);
	unsigned exponent = code >> l->mantissa;
	unsigned mantissa = code & ((1u << l->mantissa) - 1);
	double value;

	if (l->style == IEEE && exponent == (1u << l->exponent) - 1)
		value = mantissa ? (double)NAN : (double)INFINITY;
	else if (l->style == FN && code == sign - 1)
		value = (double)NAN;
	else if (l->style == FNUZ && code == 0 && bits & sign)
		value = (double)NAN;
	else if (exponent == 0)
		value = ldexp(mantissa, 1 - l->bias - l->mantissa);
	else
		value = ldexp(mantissa | 1u << l->mantissa,
			      (int)exponent - l->bias - l->mantissa);
	return bits & sign ? -value : value;
}

/* The encoding of a magnitude that is too great, or of an infinity. */
static unsigned encode_huge(const struct layout *l)
{
	unsigned sign = 1u << (l->exponent + l->mantissa);

	switch (l->style) {
	case IEEE:
		return ((1u << l->exponent) - 1) << l->mantissa;
	case FNUZ:
		return sign;
	default:
		/* FN's NaN, and FN4's greatest number: it has nothing else. */
		return sign - 1;
	}
}

static unsigned encode_nan(const struct layout *l)
{
	unsigned sign = 1u << (l->exponent + l->mantissa);

	switch (l->style) {
	case IEEE:
		return encode_huge(l) | 1u << (l->mantissa - 1);
	case FN:
		return sign - 1;
	default:
		/* FN4 has none; -0 is what ml_dtypes and XLA make of it. */
		return sign;
	}
}

uint16_t pf_small_float_encode(enum pf_dtype dtype, double value)
{
	if (dtype == PF_DTYPE_F8E8M0FNU)
		return encode_e8m0(value);

	const struct layout *l = &layouts[dtype];
	unsigned sign = 1u << (l->exponent + l->mantissa);
	unsigned code, last, negative = signbit(value) ? sign : 0;
	int exponent;

	if (isnan(value))
		return (uint16_t)(encode_nan(l) | negative);
	value = fabs(value);
	(void)frexp(value, &exponent);
	exponent--;
	last = l->style == IEEE ? encode_huge(l) - 1
	       : l->style == FN ? sign - 2
				: sign - 1;
	if (isinf(value) || exponent > l->bias + 1) {
		code = encode_huge(l);
	} else if (value == 0) {
		code = 0;
	} else {
		if (exponent < 1 - l->bias)
			exponent = 1 - l->bias;
		/*
		 * The mantissa with its leading one (absent in a subnormal number, whose
		 * exponent field is 0): that one and a carry of the rounding add
		 * themselves to the exponent field.
		 */
		code = (unsigned)(exponent + l->bias - 1) << l->mantissa;
		code += (unsigned)rint(ldexp(value, l->mantissa - exponent));
		if (code > last)
			code = encode_huge(l);
	}
	/* What would be -0 is the NaN of FNUZ types. */
	if (l->style == FNUZ && code == 0)
		return 0;
	return (uint16_t)(code | negative);
}
