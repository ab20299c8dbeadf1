/* SPDX-License-Identifier: Apache-2.0 */
/* Packing: every value at every position; surrounding bits have no effect. */
#include <string.h>

#include "pjrtfs/array.h"
#include "unit.h"

static const struct {
	enum pf_dtype dtype;
	uint64_t n, want;
} sizes[] = {
	{ PF_DTYPE_U4, 0, 0 },
	{ PF_DTYPE_U4, 1, 1 },
	{ PF_DTYPE_S4, 2, 1 },
	{ PF_DTYPE_F4E2M1FN, 3, 2 },
	{ PF_DTYPE_U2, 4, 1 },
	{ PF_DTYPE_S2, 5, 2 },
	{ PF_DTYPE_U1, 8, 1 },
	{ PF_DTYPE_S1, 9, 2 },
	{ PF_DTYPE_U1, UINT64_C(1) << 63, UINT64_C(1) << 60 },
	{ PF_DTYPE_U1, UINT64_MAX, UINT64_C(1) << 61 },
	{ PF_DTYPE_U4, UINT64_MAX, UINT64_C(1) << 63 },
	{ PF_DTYPE_PRED, 9, 9 },
	{ PF_DTYPE_F8E4M3, 9, 9 },
	{ PF_DTYPE_BF16, 9, 18 },
	{ PF_DTYPE_C128, 9, 144 },
	{ PF_DTYPE_INVALID, 9, 0 },
	{ PF_DTYPE_TOKEN, 9, 0 },
};

TEST_EACH(packed_sizes, sizes)
{
	ck_assert_uint_eq(pf_pack_size(sizes[_i].dtype, sizes[_i].n), sizes[_i].want);
}

static const struct {
	enum pf_dtype dtype;
	size_t n;
	unsigned char host[9], packed[9];
} examples[] = {
	{ PF_DTYPE_U4, 3, { 0x1, 0x2, 0xf }, { 0x21, 0x0f } },
	{ PF_DTYPE_S4, 3, { 0x01, 0xff, 0xf8 }, { 0xf1, 0x08 } },
	{ PF_DTYPE_F4E2M1FN, 2, { 0x07, 0x0f }, { 0xf7 } },
	{ PF_DTYPE_U2, 5, { 0, 1, 2, 3, 3 }, { 0xe4, 0x03 } },
	{ PF_DTYPE_S2, 5, { 0, 1, 0xfe, 0xff, 0xfe }, { 0xe4, 0x02 } },
	{ PF_DTYPE_U1, 9, { 1, 0, 0, 0, 0, 0, 1, 1, 1 }, { 0xc1, 0x01 } },
	{ PF_DTYPE_S1, 9, { 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff }, { 0x81, 0x01 } },
	{ PF_DTYPE_PRED, 3, { 1, 0, 2 }, { 1, 0, 2 } },
	{ PF_DTYPE_U16, 2, { 1, 2, 3, 4 }, { 1, 2, 3, 4 } },
};

TEST_EACH(known_bytes, examples)
{
	size_t packed = pf_pack_size(examples[_i].dtype, examples[_i].n);
	size_t host = examples[_i].n * pf_dtype_size(examples[_i].dtype);
	unsigned char out[9];

	pf_pack(out, examples[_i].host, examples[_i].n, examples[_i].dtype);
	ck_assert_mem_eq(out, examples[_i].packed, packed);
	pf_unpack(out, examples[_i].packed, examples[_i].n, examples[_i].dtype);
	ck_assert_mem_eq(out, examples[_i].host, host);
}

static const struct {
	enum pf_dtype dtype;
	bool is_signed;
} small[] = {
	{ PF_DTYPE_S1, true },        { PF_DTYPE_S2, true },  { PF_DTYPE_S4, true },
	{ PF_DTYPE_U1, false },       { PF_DTYPE_U2, false }, { PF_DTYPE_U4, false },
	{ PF_DTYPE_F4E2M1FN, false },
};

/* Compared with the definition, bit by bit; no byte changes beyond either end. */
TEST_EACH(every_length, small)
{
	enum pf_dtype d = small[_i].dtype;
	unsigned bits = pf_dtype_bits(d);

	for (size_t n = 0; n < 70; n++) {
		size_t bytes = (size_t)pf_pack_size(d, n);
		unsigned char *host = malloc(n + 1), *back = malloc(n + 1);
		unsigned char *packed = malloc(bytes + 1);

		/* The bits above a value's own are arbitrary. */
		for (size_t i = 0; i < n; i++)
			host[i] = (unsigned char)(i * 73 + n * 29 + 5);
		packed[bytes] = back[n] = 0x5a;
		pf_pack(packed, host, n, d);
		pf_unpack(back, packed, n, d);
		ck_assert_int_eq(packed[bytes], 0x5a);
		ck_assert_int_eq(back[n], 0x5a);
		for (size_t i = 0; i < n; i++) {
			unsigned value = host[i] & ((1u << bits) - 1), got = 0;

			for (unsigned b = 0; b < bits; b++) {
				size_t at = i * bits + b;

				got |= (packed[at / 8] >> at % 8 & 1u) << b;
			}
			ck_assert_uint_eq(got, value);
			if (small[_i].is_signed && value >> (bits - 1))
				value |= 0xffu << bits & 0xff;
			ck_assert_uint_eq(back[i], value);
		}
		/* The last byte has no padding bits. */
		if (n * bits % 8)
			ck_assert_int_eq(packed[bytes - 1] >> n * bits % 8, 0);
		free(host);
		free(back);
		free(packed);
	}
}

/* A part of an array that starts at a byte is packed as in the whole. */
TEST_EACH(parts, small)
{
	enum pf_dtype d = small[_i].dtype;
	unsigned char host[64], whole[64], part[64], back[64];
	size_t per_byte = 8 / pf_dtype_bits(d);

	for (size_t i = 0; i < sizeof(host); i++)
		host[i] = (unsigned char)(i * i + 3 * i);
	pf_pack(whole, host, sizeof(host), d);
	for (size_t from = 0; from < sizeof(host); from += per_byte) {
		size_t n = sizeof(host) - from;

		pf_pack(part, host + from, n, d);
		ck_assert_mem_eq(part, whole + from / per_byte, pf_pack_size(d, n));
		pf_unpack(back, whole + from / per_byte, n, d);
		pf_pack(part, back, n, d);
		ck_assert_mem_eq(part, whole + from / per_byte, pf_pack_size(d, n));
	}
}
