/* SPDX-License-Identifier: Apache-2.0 */
/* Every float of less than 32 bits, as a number and as text. */
#include <math.h>

#include "text_print.h"

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
		if (d != PF_DTYPE_F8E8M0FNU)
			ck_assert_double_eq(
				pf_small_float_decode(d, pf_small_float_encode(d, -a)),
				-a);
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
