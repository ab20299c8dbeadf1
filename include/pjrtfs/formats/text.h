/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays as text: the .txt view. */
#ifndef PJRTFS_FORMATS_TEXT_H
#define PJRTFS_FORMATS_TEXT_H

#include "pjrtfs/base/buf.h"
#include "pjrtfs/base/err.h"
#include "pjrtfs/formats/dtype.h"
#include "pjrtfs/formats/shape.h"

/*
 * Append an array's elements (DATA: dense, row-major, little-endian, sub-byte types one
 * per byte) as text: one row of the last axis a line, elements separated by one space,
 * an empty line between the slices of the last two axes (one more for each further
 * axis's boundary is not added); a scalar is one line, an array without elements none.
 * Floats are the shortest decimal that reads back to the same value ("1", "0.1",
 * "1e+20", "nan", "inf", "-inf", "-0"), PRED is "true" or "false", integers are
 * decimal, complex numbers "1+2j".  No brackets, padding or ellipsis.
 * The element count must not overflow.  Blocks for the rendering's time; the caller
 * checks buf->failed for lack of memory.
 */
void pf_text_print(struct pf_buf *buf, enum pf_dtype dtype, const struct pf_shape *shape,
		   const void *data);

/* Which element is printed next; all zeros is the first. */
struct pf_text_place {
	size_t row, col;
};

/*
 * The same for at most MAX elements (> 0) from PLACE on, which is moved behind them: the texts
 * of all calls together are that of pf_text_print.  False: there is nothing more to print, or
 * buf->failed.
 */
bool pf_text_print_some(struct pf_buf *buf, enum pf_dtype dtype,
			const struct pf_shape *shape, const void *data,
			struct pf_text_place *place, size_t max);

/*
 * Parse rows of numbers into an array.  WANT is the element type (PF_DTYPE_F32 unless the
 * buffer was created with another).  *SHAPE: one line: [n]; a single number on one
 * line: []; several lines of equal counts: [lines, n]; blank lines between blocks of
 * equal shape: [blocks, lines, n].  Accepts what pf_text_print writes; separators are
 * spaces, tabs and single commas.  Elements (pf_dtype_size bytes each) are appended to
 * DATA, which keeps its length on failure.
 * -EINVAL: a word that is no number of that type (line and column told), rows or blocks
 * of unequal size, no number at all; -ERANGE: does not fit the type; -ENOMEM.
 */
int pf_text_parse(const char *src, size_t len, enum pf_dtype want, struct pf_shape *shape,
		  struct pf_buf *data, struct pf_err *err);

/* Bytes that pf_text_print appends at most for N elements of DTYPE. */
uint64_t pf_text_bound(enum pf_dtype dtype, uint64_t n);

/* How far the text of an array that is still being written was looked at.  All zeros is its
 * beginning; the caller reads and sets AT alone. */
struct pf_text_check {
	uint32_t at; /* bytes: whole lines */
	uint32_t line, row_len, rows, block_rows, blocks;
};

/*
 * Look at the whole lines between CHECK->at and LEN of the text SRC, which is at most 4 GiB, as
 * pf_text_parse would, and step behind them.  WANT PF_DTYPE_INVALID: numbers of any type.
 * -EINVAL, -ERANGE, -ENOMEM as there; CHECK stays.
 */
int pf_text_check(struct pf_text_check *check, const char *src, size_t len,
		  enum pf_dtype want, struct pf_err *err);

/* Convert a value to and from the floating types smaller than 32 bits: F16, BF16, all F8
 * and F4 kinds.  Encoding rounds to nearest even. */
double pf_small_float_decode(enum pf_dtype dtype, uint16_t bits);
uint16_t pf_small_float_encode(enum pf_dtype dtype, double value);

#endif
