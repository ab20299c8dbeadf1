/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_ARRAY_H
#define PJRTFS_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "pjrtfs/base.h"

struct json_object;

/*
 * Element types, and their names in every format that pjrtfs reads or writes.  The numbers are
 * PJRT_Buffer_Type's (pjrt_c_api.h).  src/pjrt/plugin.c asserts at compile time all that the header
 * of API 0.81 has: not S1 and U1.
 */
enum pf_dtype {
	PF_DTYPE_INVALID = 0,
	PF_DTYPE_PRED,
	PF_DTYPE_S8,
	PF_DTYPE_S16,
	PF_DTYPE_S32,
	PF_DTYPE_S64,
	PF_DTYPE_U8,
	PF_DTYPE_U16,
	PF_DTYPE_U32,
	PF_DTYPE_U64,
	PF_DTYPE_F16,
	PF_DTYPE_F32,
	PF_DTYPE_F64,
	PF_DTYPE_BF16,
	PF_DTYPE_C64,
	PF_DTYPE_C128,
	PF_DTYPE_F8E5M2,
	PF_DTYPE_F8E4M3FN,
	PF_DTYPE_F8E4M3B11FNUZ,
	PF_DTYPE_F8E5M2FNUZ,
	PF_DTYPE_F8E4M3FNUZ,
	PF_DTYPE_S4,
	PF_DTYPE_U4,
	PF_DTYPE_TOKEN,
	PF_DTYPE_S2,
	PF_DTYPE_U2,
	PF_DTYPE_F8E4M3,
	PF_DTYPE_F8E3M4,
	PF_DTYPE_F8E8M0FNU,
	PF_DTYPE_F4E2M1FN,
	PF_DTYPE_S1, /* from API 0.94 on */
	PF_DTYPE_U1,
	PF_DTYPE_COUNT
};

/* Does the file that an array came as name no type, so that its elements can be given another one? */
enum pf_untyped { PF_TYPED, PF_UNTYPED_TXT, PF_UNTYPED_RAW };

/* True for a type that arrays can have: not INVALID, TOKEN or a number out of range. */
bool pf_dtype_valid(int dtype);

/*
 * Bytes one element takes in host memory: 4 for F32, 16 for C128, and 1 for the sub-byte
 * types, which have one element per byte (value in the low bits); 0 if not valid.
 */
size_t pf_dtype_size(enum pf_dtype dtype);

/* Bits one element holds: 1 for PRED's peers S1 and U1, 8 for PRED itself, 4 for S4. */
unsigned pf_dtype_bits(enum pf_dtype dtype);

/* Kinds of element types. */
enum pf_dtype_kind {
	PF_KIND_BOOLEAN,
	PF_KIND_SIGNED,
	PF_KIND_UNSIGNED,
	PF_KIND_REAL,
	PF_KIND_COMPLEX
};

/* The kind of DTYPE, which is valid: the first letter of PJRT's name tells it. */
enum pf_dtype_kind pf_dtype_kind(enum pf_dtype dtype);

/* PJRT's name: "F32", "BF16", "PRED"; "INVALID" if not valid.  Static. */
const char *pf_dtype_name(enum pf_dtype dtype);

/* Open Inference Protocol's name: "FP32", "BOOL", "INT64"; PJRT's where it has none. */
const char *pf_dtype_datatype(enum pf_dtype dtype);

/*
 * Does a plugin that speaks version MAJOR.MINOR of the API know DTYPE, which is valid?  0, or
 * -EOPNOTSUPP: to name a type that a plugin does not know makes it abort.
 * Source: the changelog of PJRT's C API.
 */
int pf_dtype_check(enum pf_dtype dtype, int major, int minor, struct pf_err *err);

/*
 * The type that NAME (LEN bytes) means, in any case: PJRT's (F32), NumPy's and ml_dtypes'
 * (float32, <f4, bfloat16), MLIR's (f32, i1, bf16, complex<f32>), safetensors' (F8_E4M3)
 * and Open Inference's (FP32).  NumPy's short codes need their byte order ("<i8"): a bare
 * "i8" is MLIR's, 8 bits.  PF_DTYPE_INVALID if none; TOKEN is never returned.
 */
enum pf_dtype pf_dtype_parse(const char *name, size_t len);

/* NumPy's or ml_dtypes' name: "float32", "bool", "bfloat16"; printed to DST of LEN bytes.  DTYPE is
 * valid.  Returns DST. */
const char *pf_dtype_numpy(char *dst, size_t len, enum pf_dtype dtype);

/*
 * NumPy's descr for a .npy header: "<f4", "|b1", "<V2" (BF16, as ml_dtypes writes it),
 * "<f1" (F8E5M2), "|i1" for S4, S2, S1 and "|u1" for U4, U2, U1, "<V1" for the other
 * 8-bit and 4-bit floats (as ml_dtypes writes them); "|V0" if not valid.  Static.
 * Source: numpy.lib.format, ml_dtypes.
 */
const char *pf_dtype_npy_descr(enum pf_dtype dtype);

/*
 * The name in a .safetensors header: "F32", "BOOL", "I64", "BF16", "F8_E4M3" for
 * F8E4M3FN, "F8_E8M0" for F8E8M0FNU, "F4" for F4E2M1FN.  The format does not define I4,
 * U4, I2, U2, I1, U1, C128, F8_E4M3B11FNUZ, F8_E3M4 and F8_E4M3IEEE (F8E4M3): pjrtfs adds
 * these, and other readers refuse them.  "INVALID" if not valid.  Static.
 * Source: github.com/huggingface/safetensors, enum Dtype.
 */
const char *pf_dtype_safetensors(enum pf_dtype dtype);

/*
 * The type that pf_dtype_safetensors names NAME (LEN bytes), case-sensitive: "I1" is S1
 * here and "F8_E4M3" F8E4M3FN.  PF_DTYPE_INVALID if none, as for the format's F6_E2M3 and
 * F6_E3M2, which PJRT does not have.
 */
enum pf_dtype pf_dtype_from_safetensors(const char *name, size_t len);

/*
 * The element type of a protobuf ShapeProto (xla_data.proto, enum PrimitiveType);
 * PF_DTYPE_INVALID for tuples, opaque and what is unknown; TOKEN for tokens.
 */
enum pf_dtype pf_dtype_from_xla(int primitive_type);

/* The reverse. */
int pf_dtype_xla(enum pf_dtype dtype);

/* Array shapes: the extents of an array, outermost first. */

enum { PF_MAX_RANK = 32 }; /* NumPy's limit was 32, XLA's arrays rarely pass 8 */

/* rank extents, each >= 0; rank 0 is a scalar.  Plain data: copy with =. */
struct pf_shape {
	unsigned rank;
	int64_t dims[PF_MAX_RANK];
};

/* Copy SRC to DST.  Of an object that keeps a shape for long only the extents of its rank are
 * there: it is not copied with =. */
static inline void pf_shape_copy(struct pf_shape *dst, const struct pf_shape *src)
{
	dst->rank = src->rank;
	memcpy(dst->dims, src->dims, src->rank * sizeof(src->dims[0]));
}

/* A copy that has no memory for more extents than its rank: the caller frees it.  NULL: no memory. */
struct pf_shape *pf_shape_dup(const struct pf_shape *shape);

/*
 * The number of elements (1 for a scalar, 0 if an extent is 0) in *RET.  -EOVERFLOW if
 * the product of the extents, zeros counted as 1, does not fit an int64_t (plugins
 * abort on those): the sentence names the shape.
 */
int pf_shape_count(const struct pf_shape *shape, int64_t *ret, struct pf_err *err);

/* The host bytes of such an array of DTYPE in *RET; -EOVERFLOW as above or above 2^62. */
int pf_shape_bytes(const struct pf_shape *shape, enum pf_dtype dtype, uint64_t *ret,
		   struct pf_err *err);

/* Same rank and extents. */
bool pf_shape_equal(const struct pf_shape *a, const struct pf_shape *b);

/* What to add to the sentence that HAVE came where WANT was expected: where HAVE is WANT in reverse, that
 * the transposed array fits; else "".  Static. */
const char *pf_shape_hint(const struct pf_shape *have, const struct pf_shape *want);

/* The same extents in the same order, but for those that are 1: [4], [1,4] and [4,1]. */
bool pf_shape_equal_but_ones(const struct pf_shape *a, const struct pf_shape *b);

/* True when row- and column-major order are the same bytes: at most one extent is not 1,
 * or one is 0. */
bool pf_shape_is_linear(const struct pf_shape *shape);

/* Bytes that always hold a shape's text: a type, and for each extent 20 characters and a comma. */
enum { PF_SHAPE_TEXT = 16 + PF_MAX_RANK * 21 + 2 };

/* Print "F32[2,3]" ("F32[]" for a scalar, "[2,3]" for PF_DTYPE_INVALID) into DST of LEN bytes,
 * cut where it does not fit; returns DST. */
const char *pf_shape_str(char *dst, size_t len, enum pf_dtype dtype,
			 const struct pf_shape *shape);

/* The extents as a JSON array ([2,3]), the caller's; NULL: no memory. */
struct json_object *pf_shape_json(const struct pf_shape *shape);

/* Copy an array of elements of SIZE bytes from column-major (Fortran) order SRC to row-major DST,
 * which does not overlap. */
void pf_shape_to_row_major(const struct pf_shape *shape, size_t size, const void *src,
			   void *dst);

/*
 * The order of an array's elements in a device's memory: its dimensions, the fastest varying one
 * first, as XLA has them; all zeros: row-major.  Plain data: copy with =, compare with
 * pf_layout_equal.
 */
struct pf_layout {
	uint8_t minor_to_major[PF_MAX_RANK];
};

static inline bool pf_layout_is_row_major(const struct pf_layout *layout)
{
	/* Of others, the first two dimensions differ. */
	return layout->minor_to_major[0] == layout->minor_to_major[1];
}

static inline bool pf_layout_equal(const struct pf_layout *a, const struct pf_layout *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* The layout of an array of SHAPE whose dimensions are DIMS, N of them, the fastest varying one
 * first; zeros if that is row-major order in memory.  -EINVAL: DIMS is not an order of them. */
int pf_layout_make(const struct pf_shape *shape, const int64_t *dims, size_t n,
		   struct pf_layout *ret);

/* True for zeros, and for an order of RANK dimensions. */
bool pf_layout_is_valid(const struct pf_layout *layout, unsigned rank);

/* The I-th fastest of RANK dimensions. */
unsigned pf_layout_dim(const struct pf_layout *layout, unsigned rank, unsigned i);

/* The dimensions as a JSON array, the fastest varying one first, the caller's; NULL: no memory. */
struct json_object *pf_layout_json(const struct pf_layout *layout, unsigned rank);

/* Copy an array of elements of SIZE bytes from SRC, which has the layout FROM, to DST, which does
 * not overlap, in the layout TO. */
void pf_layout_convert(const struct pf_shape *shape, size_t size,
		       const struct pf_layout *from, const void *src,
		       const struct pf_layout *to, void *dst);

/*
 * Elements smaller than a byte: one a byte, as hosts have them, and packed, as files do.  Packed,
 * element 0 is in the lowest bits of byte 0, and an array ends with a whole byte, whose unused
 * high bits are 0.  Types of 8 bits and more are the same bytes either way.
 */

/* The bytes of N packed elements; 0 if DTYPE is not valid.  Does not overflow where pf_shape_bytes
 * does not. */
uint64_t pf_pack_size(enum pf_dtype dtype, uint64_t n);

/*
 * Pack N elements of SRC, pf_dtype_size bytes each, into the pf_pack_size bytes of DST, which does
 * not overlap.  Bits above a value's own are ignored.  A part of an array may be packed alone if it
 * starts at a byte.
 */
void pf_pack(void *dst, const void *src, size_t n, enum pf_dtype dtype);

/* The reverse.  Each element becomes a byte whose high bits repeat the sign (S1, S2, S4: a NumPy
 * int8) or are 0 (U1, U2, U4, F4E2M1FN). */
void pf_unpack(void *dst, const void *src, size_t n, enum pf_dtype dtype);

#endif
