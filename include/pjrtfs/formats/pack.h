/* SPDX-License-Identifier: Apache-2.0 */
/* Elements smaller than a byte: one a byte, as hosts have them, and packed, as files do. */
#ifndef PJRTFS_FORMATS_PACK_H
#define PJRTFS_FORMATS_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "pjrtfs/formats/dtype.h"

/*
 * Packed, element 0 is in the lowest bits of byte 0, and an array ends with a whole byte,
 * whose unused high bits are 0.  Types of 8 bits and more are the same bytes either way.
 */

/*
 * The bytes of N packed elements: n * bits / 8, rounded up; 0 if DTYPE is not valid.  Does
 * not overflow where pf_shape_bytes does not.
 */
uint64_t pf_pack_size(enum pf_dtype dtype, uint64_t n);

/*
 * Pack N elements of SRC, pf_dtype_size bytes each, into the pf_pack_size bytes of DST.
 * Bits above a value's own are ignored.  A part of an array may be packed alone if it
 * starts at a byte.  SRC and DST do not overlap.  Blocks for the copy's time.
 */
void pf_pack(void *dst, const void *src, size_t n, enum pf_dtype dtype);

/*
 * The reverse: N elements out of the pf_pack_size bytes of SRC into DST.  Each becomes a
 * byte whose high bits repeat the sign (S1, S2, S4: a NumPy int8) or are 0 (U1, U2, U4,
 * F4E2M1FN).
 */
void pf_unpack(void *dst, const void *src, size_t n, enum pf_dtype dtype);

#endif
