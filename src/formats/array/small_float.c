/* SPDX-License-Identifier: Apache-2.0 */
/* The floating types smaller than 32 bits, to and from double. */
#include <math.h>

#include "internal.h"
#include "pjrtfs/array.h"

/*
 * The magnitudes of codes, which have the sign above them.  Only some types have the infinities
 * and NaNs of IEEE 754; "FNUZ" types have one NaN where -0 would be, F4E2M1FN has none: ml_dtypes
 * and XLA make -0 of it.
 */
struct layout {
	unsigned char exponent, mantissa; /* bits */
	short bias;
	unsigned short last; /* the greatest number */
	unsigned short huge; /* what greater numbers and infinities become */
	unsigned short nan;
};

static const struct layout layouts[PF_DTYPE_COUNT] = {
	[PF_DTYPE_F16] = { 5, 10, 15, 0x7bff, 0x7c00, 0x7e00 },
	[PF_DTYPE_BF16] = { 8, 7, 127, 0x7f7f, 0x7f80, 0x7fc0 },
	[PF_DTYPE_F8E5M2] = { 5, 2, 15, 0x7b, 0x7c, 0x7e },
	[PF_DTYPE_F8E4M3] = { 4, 3, 7, 0x77, 0x78, 0x7c },
	[PF_DTYPE_F8E3M4] = { 3, 4, 3, 0x6f, 0x70, 0x78 },
	[PF_DTYPE_F8E4M3FN] = { 4, 3, 7, 0x7e, 0x7f, 0x7f },
	[PF_DTYPE_F8E5M2FNUZ] = { 5, 2, 16, 0x7f, 0x80, 0x80 },
	[PF_DTYPE_F8E4M3FNUZ] = { 4, 3, 8, 0x7f, 0x80, 0x80 },
	[PF_DTYPE_F8E4M3B11FNUZ] = { 4, 3, 11, 0x7f, 0x80, 0x80 },
	[PF_DTYPE_F4E2M1FN] = { 2, 1, 1, 0x7, 0x7, 0x8 },
};

static unsigned sign_of(const struct layout *l)
{
	return 1u << (l->exponent + l->mantissa);
}

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
	/* Without a mantissa no result is even: the middle is rounded up, as in
	 * ml_dtypes. */
	exponent += 126 + (fraction >= 0.75);
	return exponent < 0 ? 0 : exponent > 0xfe ? 0xff : (uint16_t)exponent;
}

double pf_small_float_decode(enum pf_dtype dtype, uint16_t bits)
{
	if (dtype == PF_DTYPE_F8E8M0FNU)
		return decode_e8m0(bits);

	const struct layout *l = &layouts[dtype];
	unsigned sign = sign_of(l);
	unsigned code = bits & (sign - 1);
	unsigned exponent = code >> l->mantissa;
	unsigned mantissa = code & ((1u << l->mantissa) - 1);
	double value;

	if (code > l->last)
		value = code == l->huge && code != l->nan ? (double)INFINITY
							  : (double)NAN;
	else if (l->huge == sign && code == 0 && bits & sign)
		value = (double)NAN;
	else if (exponent == 0)
		value = ldexp(mantissa, 1 - l->bias - l->mantissa);
	else
		value = ldexp(mantissa | 1u << l->mantissa,
			      (int)exponent - l->bias - l->mantissa);
	return bits & sign ? -value : value;
}

uint16_t pf_small_float_encode(enum pf_dtype dtype, double value)
{
	if (dtype == PF_DTYPE_F8E8M0FNU)
		return encode_e8m0(value);

	const struct layout *l = &layouts[dtype];
	unsigned code, negative = signbit(value) ? sign_of(l) : 0;
	int exponent;

	if (isnan(value))
		return (uint16_t)(l->nan | negative);
	value = fabs(value);
	(void)frexp(value, &exponent);
	exponent--;
	if (isinf(value) || exponent > l->bias + 1) {
		code = l->huge;
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
		if (code > l->last)
			code = l->huge;
	}
	/* In FNUZ types, the encoding of -0 is the NaN. */
	if (l->huge == sign_of(l) && code == 0)
		return 0;
	return (uint16_t)(code | negative);
}
