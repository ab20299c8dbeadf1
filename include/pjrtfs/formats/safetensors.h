/* SPDX-License-Identifier: Apache-2.0 */
/* Hugging Face's .safetensors format: a JSON header, and the data of named tensors. */
#ifndef PJRTFS_FORMATS_SAFETENSORS_H
#define PJRTFS_FORMATS_SAFETENSORS_H

#include "pjrtfs/base/buf.h"
#include "pjrtfs/base/err.h"
#include "pjrtfs/formats/dtype.h"
#include "pjrtfs/formats/shape.h"

enum {
	PF_SAFETENSORS_MAX_HEADER = 100000000, /* bytes of JSON; the format's own limit */
	PF_SAFETENSORS_MAX_TENSORS = 100000,   /* in one file; ours */
};

/* One tensor of a file: dense, row-major, little-endian. */
struct pf_tensor {
	const char *name; /* borrowed from the pf_safetensors: UTF-8, without escapes */
	enum pf_dtype dtype;
	struct pf_shape shape;
	uint64_t off; /* in the data section, bytes; need not be aligned */
	uint64_t len; /* bytes; elements smaller than a byte are packed (pack.h) */
};

/* What a header says.  Immutable once made; all zeros is an empty one. */
struct pf_safetensors {
	uint64_t header_len; /* bytes before the data: 8 and the JSON with its padding */
	uint64_t data_len;   /* bytes of data that must follow, no more and no fewer */
	size_t n;            /* tensors */
	struct pf_tensor *tensors; /* owned, n of them, in the order of their offsets */
	char *names;               /* owned; what the tensors' names point into */
};

/*
 * Where the header ends, from the start of a file: LEN bytes at DATA, of which 9 are
 * looked at.  Returns 1 and the bytes before the data in *HEADER_LEN; 0 when fewer than 8
 * bytes are there; -EINVAL when the JSON is said to be longer than
 * PF_SAFETENSORS_MAX_HEADER or shorter than "{}", or does not begin with '{'.  Does not
 * block.
 */
int pf_safetensors_length(const void *data, uint64_t len, uint64_t *header_len,
			  struct pf_err *err);

/*
 * Parse the header at the start of a file, of which LEN bytes are at DATA.
 *
 * ret   on success, the caller's: pf_safetensors_release; else unchanged
 *
 * Returns 1 when the header is whole and well formed; 0 when it is not whole yet: then
 * only pf_safetensors_length looked at it, so that asking often costs nothing.
 * -EINVAL: what pf_safetensors_length refuses; no JSON, or not UTF-8; anything but an
 *   object of tensors, each with dtype, shape and data_offsets once and nothing else, and
 *   of __metadata__ at most once, whose values are strings; more behind it than spaces; a
 *   NUL in a string; a name twice; a type that pf_dtype_from_safetensors does not know;
 *   more than PF_MAX_RANK extents; a number with sign, leading zero, fraction or exponent;
 *   data_offsets that are not as far apart as type and shape ask for; tensors that overlap
 *   or leave a hole between them or before the first.
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
 * 64 bytes, so that the data begin aligned.  What in NAME is not UTF-8 becomes U+FFFD; the
 * name "__metadata__", which the format keeps for itself, gets another '_'.  DTYPE must be
 * valid, and the sizes must not overflow.
 */
void pf_safetensors_print(struct pf_buf *out, const char *name, enum pf_dtype dtype,
			  const struct pf_shape *shape);

#endif
