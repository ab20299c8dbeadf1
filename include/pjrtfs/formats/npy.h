/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's .npy format, versions 1.0, 2.0 and 3.0 (numpy.lib.format). */
#ifndef PJRTFS_FORMATS_NPY_H
#define PJRTFS_FORMATS_NPY_H

#include "pjrtfs/base/buf.h"
#include "pjrtfs/base/err.h"
#include "pjrtfs/formats/dtype.h"
#include "pjrtfs/formats/shape.h"

enum { PF_NPY_MAX_HEADER = 65536 + 12 }; /* bytes; a longer one is refused */

struct pf_npy {
	enum pf_dtype dtype; /* PF_DTYPE_INVALID with '<V1', '|V1', '|V2': 1 or 2 bytes of
			      * a type that the file does not name; see void_size */
	unsigned void_size;  /* bytes per element of such a type, else 0 */
	bool fortran_order;  /* false whenever both orders are the same bytes */
	struct pf_shape shape;
	size_t header_len; /* bytes before the data */
	uint64_t data_len; /* bytes of data that must follow */
};

/*
 * Parse the header at the start of SRC (LEN bytes, which may end anywhere).
 *
 * Returns 1 and fills *RET when the header is complete and well formed; 0 when SRC is a
 * proper beginning of one, and more bytes are needed; -EINVAL as soon as its first wrong
 * word is complete, with a sentence that says what was expected and what was found:
 * another magic, version, a header that is no dict of descr, fortran_order and shape,
 * a missing, unknown or twice-given key, a big-endian, object, structured, string, date
 * or unsupported type, a negative extent, more than PF_MAX_RANK extents; -EOVERFLOW for
 * a size that overflows.  Accepts what NumPy writes under Python 2 (longs "3L").
 * Never reads beyond LEN.  Does not block.
 */
int pf_npy_parse(const void *src, size_t len, struct pf_npy *ret, struct pf_err *err);

/*
 * Append the header (version 1.0, padded to a multiple of 64 bytes, as NumPy does) of a
 * C-order array.
 */
void pf_npy_print(struct pf_buf *buf, enum pf_dtype dtype, const struct pf_shape *shape);

#endif
