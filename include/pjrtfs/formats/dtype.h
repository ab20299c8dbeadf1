/* SPDX-License-Identifier: Apache-2.0 */
/* Element types: PJRT's, and their names in every format that pjrtfs reads or writes. */
#ifndef PJRTFS_FORMATS_DTYPE_H
#define PJRTFS_FORMATS_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pjrtfs/base/err.h"

/*
 * The numbers are PJRT_Buffer_Type's (pjrt_c_api.h), so that they cross the wire as
 * they are; src/pjrt/ asserts that at compile time.
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
	PF_DTYPE_S1, /* from API 0.82 or so on */
	PF_DTYPE_U1,
	PF_DTYPE_COUNT
};

/* True for a type that arrays can have: not INVALID, TOKEN or a number out of range. */
bool pf_dtype_valid(int dtype);

/*
 * Bytes one element takes in host memory: 4 for F32, 16 for C128, and 1 for the sub-byte
 * types, which have one element per byte (value in the low bits); 0 if not valid.
 */
size_t pf_dtype_size(enum pf_dtype dtype);

/* Bits one element holds: 1 for PRED's peers S1 and U1, 8 for PRED itself, 4 for S4. */
unsigned pf_dtype_bits(enum pf_dtype dtype);

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

/*
 * NumPy's descr for a .npy header: "<f4", "|b1", "<V2" (BF16, as ml_dtypes writes it),
 * "<f1" (F8E5M2), "|i1" for S4, S2, S1 and "|u1" for U4, U2, U1, "<V1" for the other
 * 8-bit and 4-bit floats (as ml_dtypes writes them); "|V0" if not valid.  Static.
 * Source: numpy.lib.format, ml_dtypes.
 */
const char *pf_dtype_npy_descr(enum pf_dtype dtype);

/*
 * The name in a .safetensors header: "F32", "BOOL", "I64", "BF16", "F8_E4M3" for F8E4M3FN,
 * "F8_E8M0" for F8E8M0FNU, "F4" for F4E2M1FN.  The format has none for I4, U4, I2, U2, I1,
 * U1, C128, F8_E4M3B11FNUZ, F8_E3M4 and F8_E4M3IEEE (F8E4M3): these are ours, in its
 * manner, and other readers refuse them.  "INVALID" if not valid.  Static.
 * Source: github.com/huggingface/safetensors, enum Dtype.
 */
const char *pf_dtype_safetensors(enum pf_dtype dtype);

/*
 * The type that pf_dtype_safetensors names NAME (LEN bytes), case and all: "I1" is S1 here
 * and "F8_E4M3" F8E4M3FN.  PF_DTYPE_INVALID if none; so are the format's F6_E2M3 and
 * F6_E3M2, which PJRT does not have.
 */
enum pf_dtype pf_dtype_from_safetensors(const char *name, size_t len);

/*
 * The element type of a protobuf ShapeProto (xla_data.proto, enum PrimitiveType);
 * PF_DTYPE_INVALID for tuples, opaque and what is unknown; TOKEN for tokens.
 */
enum pf_dtype pf_dtype_from_xla(int primitive_type);

#endif
