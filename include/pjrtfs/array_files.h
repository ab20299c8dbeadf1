/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_ARRAY_FILES_H
#define PJRTFS_ARRAY_FILES_H

#include "pjrtfs/array.h"
#include "pjrtfs/base.h"

/* NumPy's .npy format, versions 1.0, 2.0 and 3.0 (numpy.lib.format). */

enum { PF_NPY_MAX_HEADER = 65536 + 12 }; /* bytes; a longer one is refused */

struct pf_npy {
	enum pf_dtype dtype; /* PF_DTYPE_INVALID with '<V1', '|V1', '|V2': 1 or 2 bytes of
			      * a type that the file does not name; see void_size */
	unsigned void_size;  /* bytes per element of such a type, else 0 */
	bool fortran_order;  /* false whenever both orders are the same bytes */
	size_t header_len;   /* bytes before the data */
	uint64_t data_len;   /* bytes of data that must follow */
	struct pf_shape shape;
};

/*
 * Parse the header at the start of SRC (LEN bytes, which may end anywhere).
 *
 * Returns 1 and fills *RET when the header is complete and well formed; 0 when SRC is a
 * proper beginning of one, and more bytes are needed; -EINVAL, with a sentence that says what
 * was expected and what was found: another magic, version, or length, also before the header
 * is complete; a header that is not a dict of descr, fortran_order and shape,
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

/* Hugging Face's .safetensors format: a JSON header, and the data of named tensors. */

enum {
	PF_SAFETENSORS_MAX_HEADER = 100000000, /* bytes of JSON; the format's own limit */
	PF_SAFETENSORS_MAX_TENSORS = 100000,   /* in one file; pjrtfs's limit */
};

/* One tensor of a file: dense, row-major, little-endian. */
struct pf_tensor {
	const char *name; /* borrowed from the pf_safetensors: UTF-8, without escapes */
	enum pf_dtype dtype;
	struct pf_shape shape;
	uint64_t off; /* in the data section, bytes; need not be aligned */
	uint64_t len; /* bytes; elements smaller than a byte are packed (pf_pack) */
};

/* A parsed header.  Immutable once made; all zeros is an empty one. */
struct pf_safetensors {
	uint64_t header_len; /* bytes before the data: 8 and the JSON with its padding */
	uint64_t data_len;   /* bytes of data that must follow, no more and no fewer */
	size_t n;            /* tensors */
	struct pf_tensor *tensors; /* owned, n of them, in the order of their offsets */
	char *names;               /* owned; what the tensors' names point into */
};

/*
 * Where the header ends, from the start of a file: LEN bytes at DATA, of which it reads
 * 9.  Returns 1 and the bytes before the data in *HEADER_LEN; 0 when fewer than 8 bytes
 * are there; -EINVAL when the JSON's length is more than PF_SAFETENSORS_MAX_HEADER or
 * less than 2, or the JSON does not begin with '{'.  Does not block.
 */
int pf_safetensors_length(const void *data, uint64_t len, uint64_t *header_len,
			  struct pf_err *err);

/*
 * Parse the header at the start of a file, of which LEN bytes are at DATA.
 *
 * ret   on success, the caller's: pf_safetensors_release; else unchanged
 *
 * Returns 1 when the header is whole and well formed; 0 when it is not whole yet: then
 * only pf_safetensors_length has read it, so that repeated calls are cheap.
 * -EINVAL: what pf_safetensors_length refuses; no JSON, or not UTF-8; anything but an
 *   object of tensors, each with dtype, shape and data_offsets once and nothing else, and
 *   of __metadata__ at most once, whose values are strings; anything but spaces after it;
 *   a NUL in a string; a name twice; a type that pf_dtype_from_safetensors does not know;
 *   more than PF_MAX_RANK extents; a number with sign, leading zero, fraction or
 *   exponent; data_offsets whose distance is not the size of type and shape; tensors that
 *   overlap or leave a hole between them or before the first.
 * -EOVERFLOW: a number or a product of extents beyond 2^63-1, an array beyond 2^62 bytes
 *   in host memory, data beyond 2^62 bytes;
 * -E2BIG: more than PF_SAFETENSORS_MAX_TENSORS; -ENOMEM.
 * The sentence names the tensor, what was expected and what was found.
 *
 * The format's own reader refuses arrays that end within a byte; here they take the whole
 * byte.  What __metadata__ says is checked and dropped; a key may come twice in it.
 * Memory: some 300 bytes a tensor and its name, and nothing for the rest of the header.
 * Blocks for the parsing's time, a second or so for the longest header.
 * Source: github.com/huggingface/safetensors, README.md, safetensors/src/tensor.rs.
 */
int pf_safetensors_parse(const void *data, uint64_t len, struct pf_safetensors *ret,
			 struct pf_err *err);

/* Free what it owns; it is then all zeros, which is allowed, as is NULL. */
void pf_safetensors_release(struct pf_safetensors *st);

/*
 * Append the header of a file that holds one tensor, padded with spaces to a multiple of
 * 64 bytes, so that the data begin aligned.  What in NAME is not UTF-8 becomes U+FFFD;
 * the name "__metadata__", which the format reserves, gets another '_'.  DTYPE must be
 * valid, and the sizes must not overflow.
 */
void pf_safetensors_print(struct pf_buf *out, const char *name, enum pf_dtype dtype,
			  const struct pf_shape *shape);

/* Arrays as text: the .txt view. */

/*
 * Append an array's elements (DATA: dense, row-major, little-endian, sub-byte types one
 * per byte) as text: one row of the last axis a line, elements separated by one space,
 * an empty line between the slices of the last two axes; a scalar is one line, an array
 * without elements none.  Floats are the shortest decimal that reads back to the same value
 * ("1", "0.1", "1e+20", "nan", "inf", "-inf", "-0"), PRED is "true" or "false", complex
 * numbers are "1+2j".  The element count must not overflow.  The caller checks buf->failed.
 */
void pf_text_print(struct pf_buf *buf, enum pf_dtype dtype, const struct pf_shape *shape,
		   const void *data);

/*
 * The same for at most MAX elements (> 0) from element *AT on, which becomes the one after them:
 * the texts of all calls together are that of pf_text_print.  False: all is printed, or
 * buf->failed.
 */
bool pf_text_print_some(struct pf_buf *buf, enum pf_dtype dtype,
			const struct pf_shape *shape, const void *data, uint64_t *at,
			uint64_t max);

/* The same for all elements on one line, without its newline. */
bool pf_text_print_line(struct pf_buf *buf, enum pf_dtype dtype,
			const struct pf_shape *shape, const void *data, uint64_t *at,
			uint64_t max);

/*
 * Parse rows of numbers into an array.  WANT is the element type (PF_DTYPE_F32 unless the
 * buffer was created with another).  *SHAPE: one line: [n]; a single number on one
 * line: []; several lines of equal counts: [lines, n]; blank lines between blocks of
 * equal shape: [blocks, lines, n].  Accepts what pf_text_print writes; separators are
 * spaces, tabs and single commas.  Elements (pf_dtype_size bytes each) are appended to
 * DATA, which keeps its length on failure.
 * -EINVAL: a word that is not a number of that type (the sentence has line and column),
 * rows or blocks of unequal size, no number at all; -ERANGE: does not fit the type;
 * -ENOMEM.
 */
int pf_text_parse(const char *src, size_t len, enum pf_dtype want, struct pf_shape *shape,
		  struct pf_buf *data, struct pf_err *err);

/* Bytes that pf_text_print appends at most for N elements of DTYPE. */
uint64_t pf_text_bound(enum pf_dtype dtype, uint64_t n);

/* How far the text of an array that is still being written was checked.  All zeros is its
 * beginning; the caller reads and sets AT alone. */
struct pf_text_check {
	size_t at;         /* bytes: whole lines */
	size_t line;       /* lines */
	size_t row_len;    /* of every row; 0 before the first */
	size_t rows;       /* in this block */
	size_t block_rows; /* in every block; 0 before the end of the first */
	size_t blocks;     /* that have ended */
};

/*
 * Check the whole lines between CHECK->at and LEN of the text SRC as pf_text_parse would, and
 * set CHECK->at behind them.  WANT PF_DTYPE_INVALID: numbers of any type.
 * -EINVAL, -ERANGE, -ENOMEM as there; CHECK stays.
 */
int pf_text_check(struct pf_text_check *check, const char *src, size_t len,
		  enum pf_dtype want, struct pf_err *err);

#endif
