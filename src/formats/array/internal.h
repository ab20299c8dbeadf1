/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the floating types, their bits and their decimal text; used in src/formats/array only. */
#ifndef PJRTFS_FORMATS_ARRAY_INTERNAL_H
#define PJRTFS_FORMATS_ARRAY_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pjrtfs/array.h"

/* Decimal text.  (decimal.c) */

enum { PF_DECIMAL_MAX = 40 }; /* bytes that pf_decimal_print writes at most */

/* Write N in decimal to DST; returns the bytes written (at most 20). */
size_t pf_decimal_print_u64(char *dst, uint64_t n);

/*
 * Write the shortest decimal that reads back as VALUE, a number that the real floating
 * type DTYPE has, to DST; returns the bytes written.  No NUL.  Does not depend on the
 * locale.  Does not block.
 */
size_t pf_decimal_print(char *dst, enum pf_dtype dtype, double value);

/* A decimal number as it was read: (-1)^negative * mantissa * 10^exponent, or as KIND
 * says. */
struct pf_decimal {
	enum { PF_DECIMAL_NUMBER, PF_DECIMAL_INF, PF_DECIMAL_NAN } kind;
	bool negative;
	uint64_t mantissa; /* of the first 19 digits that are not leading zeros */
	int64_t exponent;
	bool exact;         /* those were all digits */
	const char *digits; /* borrowed from the text: digits and perhaps a point */
	size_t digits_len;
};

/*
 * Read a number from the start of SRC (LEN bytes): an optional sign, then digits with an
 * optional point and exponent, or inf, infinity, nan in any case.  Returns the bytes that
 * make up the number; 0: SRC does not begin with one.
 */
size_t pf_decimal_scan(const char *src, size_t len, struct pf_decimal *ret);

/* The value of DTYPE, F32 or F64, nearest to a scanned number; infinite where none is near. */
double pf_decimal_value(const struct pf_decimal *decimal, enum pf_dtype dtype);

/* Types of less than 32 bits.  (small_float.c) */

/* The value of BITS, the low bits of an element of DTYPE, a real type of less than 32 bits. */
double pf_small_float_decode(enum pf_dtype dtype, uint16_t bits);

/* The element of DTYPE nearest to VALUE, the even one of two (F8E8M0FNU: the greater): what
 * is too great becomes infinity, NaN or the greatest number, as DTYPE has them. */
uint16_t pf_small_float_encode(enum pf_dtype dtype, double value);

#endif
