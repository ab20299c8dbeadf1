/* SPDX-License-Identifier: Apache-2.0 */
/* Array shapes: the extents of an array, outermost first. */
#ifndef PJRTFS_FORMATS_SHAPE_H
#define PJRTFS_FORMATS_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pjrtfs/base/buf.h"
#include "pjrtfs/base/err.h"
#include "pjrtfs/formats/dtype.h"

struct json_object;

enum { PF_MAX_RANK = 32 }; /* NumPy's limit was 32, XLA's arrays rarely pass 8 */

/* rank extents, each >= 0; rank 0 is a scalar.  Plain data: copy with =. */
struct pf_shape {
	unsigned rank;
	int64_t dims[PF_MAX_RANK];
};

/*
 * The number of elements (1 for a scalar, 0 if an extent is 0) in *RET.  -EOVERFLOW if
 * the product of the extents, zero ones counted as 1, does not fit an int64_t (plugins
 * abort on those): the sentence names the shape.
 */
int pf_shape_count(const struct pf_shape *shape, int64_t *ret, struct pf_err *err);

/* The host bytes of such an array of DTYPE in *RET; -EOVERFLOW as above or above 2^62. */
int pf_shape_bytes(const struct pf_shape *shape, enum pf_dtype dtype, uint64_t *ret,
		   struct pf_err *err);

/* Same rank and extents. */
bool pf_shape_equal(const struct pf_shape *a, const struct pf_shape *b);

/* True when row- and column-major order are the same bytes: at most one extent is not 1,
 * or one is 0. */
bool pf_shape_is_linear(const struct pf_shape *shape);

/* Append "F32[2,3]" ("F32[]" for a scalar, "[2,3]" for
 * PF_DTYPE_INVALID), as in messages. */
void pf_shape_print(struct pf_buf *buf, enum pf_dtype dtype,
		    const struct pf_shape *shape);

/* The same into DST of LEN bytes, cut where it does not fit; returns DST. */
const char *pf_shape_str(char *dst, size_t len, enum pf_dtype dtype,
			 const struct pf_shape *shape);

/* The extents as a JSON array ([2,3]), the caller's; NULL: no memory. */
struct json_object *pf_shape_json(const struct pf_shape *shape);

/*
 * Parse the extents that a person wrote, TEXT of LEN bytes: "2,3", "[2,3]", "(2, 3)", "(2,)";
 * "", "[]" and "()" are a scalar's.  Spaces may stand around numbers, commas and brackets;
 * a comma behind the last number only in brackets.  *RET is changed on success alone.
 * -EINVAL: anything else, a negative extent, leading zeros, more than PF_MAX_RANK extents;
 * -EOVERFLOW: an extent or, as in pf_shape_count, the product beyond 2^63-1.
 */
int pf_shape_parse(const char *text, size_t len, struct pf_shape *ret,
		   struct pf_err *err);

/*
 * Copy an array from column-major (Fortran) order SRC to row-major DST.  Both hold
 * product(dims) elements of SIZE bytes and do not overlap.  Blocks for the copy's time.
 */
void pf_shape_to_row_major(const struct pf_shape *shape, size_t size, const void *src,
			   void *dst);

#endif
