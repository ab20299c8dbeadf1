/* SPDX-License-Identifier: Apache-2.0 */
/* Packing elements smaller than a byte. */
#include "pjrtfs/formats/pack.h"

#include <assert.h>
#include <string.h>

/* The constants that the callers pass make each loop one of shifts that never branch. */
#define INLINE static inline __attribute__((__always_inline__))

uint64_t pf_pack_size(enum pf_dtype dtype, uint64_t n)
{
	unsigned bits = pf_dtype_bits(dtype);

	if (bits >= 8 || bits == 0)
		return n * pf_dtype_size(dtype);
	return n / (8 / bits) + (n % (8 / bits) != 0);
}

INLINE unsigned pack_byte(const unsigned char *src, size_t n, unsigned bits)
{
	unsigned byte = 0;

	for (size_t i = 0; i < n; i++)
		byte |= (src[i] & ((1u << bits) - 1)) << i * bits;
	return byte;
}

INLINE void pack(unsigned char *dst, const unsigned char *src, size_t n, unsigned bits)
{
	const size_t per_byte = 8 / bits;

	for (; n >= per_byte; n -= per_byte, src += per_byte)
		*dst++ = (unsigned char)pack_byte(src, per_byte, bits);
	if (n)
		*dst = (unsigned char)pack_byte(src, n, bits);
}

/* SIGN is the sign's bit, or 0: flipped and taken away again, it fills the bits above. */
INLINE void unpack_byte(unsigned char *dst, unsigned byte, size_t n, unsigned bits,
			unsigned sign)
{
	for (size_t i = 0; i < n; i++) {
		unsigned value = byte >> i * bits & ((1u << bits) - 1);

		dst[i] = (unsigned char)((value ^ sign) - sign);
	}
}

INLINE void unpack(unsigned char *dst, const unsigned char *src, size_t n, unsigned bits,
		   unsigned sign)
{
	const size_t per_byte = 8 / bits;

	for (; n >= per_byte; n -= per_byte, dst += per_byte)
		unpack_byte(dst, *src++, per_byte, bits, sign);
	if (n)
		unpack_byte(dst, *src, n, bits, sign);
}

void pf_pack(void *dst, const void *src, size_t n, enum pf_dtype dtype)
{
	assert(pf_dtype_valid((int)dtype));
	switch (pf_dtype_bits(dtype)) {
	case 1:
		pack(dst, src, n, 1);
		break;
	case 2:
		pack(dst, src, n, 2);
		break;
	case 4:
		pack(dst, src, n, 4);
		break;
	default:
		if (n)
			memcpy(dst, src, n * pf_dtype_size(dtype));
		break;
	}
}

void pf_unpack(void *dst, const void *src, size_t n, enum pf_dtype dtype)
{
	assert(pf_dtype_valid((int)dtype));
	switch (dtype) {
	case PF_DTYPE_S1:
		unpack(dst, src, n, 1, 1);
		break;
	case PF_DTYPE_U1:
		unpack(dst, src, n, 1, 0);
		break;
	case PF_DTYPE_S2:
		unpack(dst, src, n, 2, 2);
		break;
	case PF_DTYPE_U2:
		unpack(dst, src, n, 2, 0);
		break;
	case PF_DTYPE_S4:
		unpack(dst, src, n, 4, 8);
		break;
	case PF_DTYPE_U4:
	case PF_DTYPE_F4E2M1FN:
		unpack(dst, src, n, 4, 0);
		break;
	default:
		if (n)
			memcpy(dst, src, n * pf_dtype_size(dtype));
		break;
	}
}
