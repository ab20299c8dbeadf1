/* SPDX-License-Identifier: Apache-2.0 */
/* Element types and their names. */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "pjrtfs/array.h"

/* The first letter of the name is the kind: pf_dtype_kind. */
struct info {
	const char *name;     /* PJRT's; in any case also MLIR's for the floats */
	const char *datatype; /* Open Inference's, or NULL */
	const char *safetensors;
	const char *descr;  /* NumPy's, for .npy headers */
	unsigned char bits; /* 0: arrays cannot have it */
	unsigned char xla;  /* PrimitiveType */
	/*
	 * More names that are read, the first of which is NumPy's where pf_dtype_numpy takes
	 * it from here.  NumPy's codes without a byte order ("i8") are left out: MLIR and
	 * safetensors mean 8 bits by them, NumPy 8 bytes.
	 */
	const char *more;
	unsigned char since; /* the minor version of the API that introduced it */
};

/* Names are searched in this order: "i1" is PRED before it is S1. */
static const struct info infos[PF_DTYPE_COUNT] = {
	[PF_DTYPE_PRED] = { "PRED", "BOOL", "BOOL", "|b1", 8, 1, "bool_ i1" },
	[PF_DTYPE_S8] = { "S8", "INT8", "I8", "|i1", 8, 2 },
	[PF_DTYPE_S16] = { "S16", "INT16", "I16", "<i2", 16, 3 },
	[PF_DTYPE_S32] = { "S32", "INT32", "I32", "<i4", 32, 4 },
	[PF_DTYPE_S64] = { "S64", "INT64", "I64", "<i8", 64, 5 },
	[PF_DTYPE_U8] = { "U8", "UINT8", "U8", "|u1", 8, 6, "ui8" },
	[PF_DTYPE_U16] = { "U16", "UINT16", "U16", "<u2", 16, 7, "ui16" },
	[PF_DTYPE_U32] = { "U32", "UINT32", "U32", "<u4", 32, 8, "ui32" },
	[PF_DTYPE_U64] = { "U64", "UINT64", "U64", "<u8", 64, 9, "ui64" },
	[PF_DTYPE_F16] = { "F16", "FP16", "F16", "<f2", 16, 10, "float16" },
	[PF_DTYPE_F32] = { "F32", "FP32", "F32", "<f4", 32, 11, "float32" },
	[PF_DTYPE_F64] = { "F64", "FP64", "F64", "<f8", 64, 12, "float64" },
	[PF_DTYPE_BF16] = { "BF16", NULL, "BF16", "<V2", 16, 16, "bfloat16" },
	[PF_DTYPE_C64] = { "C64", NULL, "C64", "<c8", 64, 15, "complex64 complex<f32>" },
	[PF_DTYPE_C128] = { "C128", NULL, "C128", "<c16", 128, 18,
			    "complex128 complex<f64>" },
	[PF_DTYPE_F8E5M2] = { "F8E5M2", NULL, "F8_E5M2", "|V1", 8, 19, "float8_e5m2" },
	[PF_DTYPE_F8E4M3FN] = { "F8E4M3FN", NULL, "F8_E4M3", "<V1", 8, 20,
				"float8_e4m3fn" },
	[PF_DTYPE_F8E4M3B11FNUZ] = { "F8E4M3B11FNUZ", NULL, "F8_E4M3B11FNUZ", "<V1", 8,
				     23, "float8_e4m3b11fnuz" },
	[PF_DTYPE_F8E5M2FNUZ] = { "F8E5M2FNUZ", NULL, "F8_E5M2FNUZ", "<V1", 8, 24,
				  "float8_e5m2fnuz" },
	[PF_DTYPE_F8E4M3FNUZ] = { "F8E4M3FNUZ", NULL, "F8_E4M3FNUZ", "<V1", 8, 25,
				  "float8_e4m3fnuz" },
	[PF_DTYPE_S4] = { "S4", NULL, "I4", "|i1", 4, 21, "int4" },
	[PF_DTYPE_U4] = { "U4", NULL, "U4", "|u1", 4, 22, "uint4 ui4" },
	[PF_DTYPE_TOKEN] = { .name = "TOKEN", .xla = 17 },
	[PF_DTYPE_S2] = { "S2", NULL, "I2", "|i1", 2, 26, "int2" },
	[PF_DTYPE_U2] = { "U2", NULL, "U2", "|u1", 2, 27, "uint2 ui2" },
	[PF_DTYPE_F8E4M3] = { "F8E4M3", NULL, "F8_E4M3IEEE", "<V1", 8, 28,
			      "float8_e4m3" },
	[PF_DTYPE_F8E3M4] = { "F8E3M4", NULL, "F8_E3M4", "<V1", 8, 29, "float8_e3m4" },
	[PF_DTYPE_F8E8M0FNU] = { "F8E8M0FNU", NULL, "F8_E8M0", "<V1", 8, 33,
				 "float8_e8m0fnu", 63 },
	[PF_DTYPE_F4E2M1FN] = { "F4E2M1FN", NULL, "F4", "<V1", 4, 32, "float4_e2m1fn",
				63 },
	[PF_DTYPE_S1] = { "S1", NULL, "I1", "|i1", 1, 30, "int1", 94 },
	[PF_DTYPE_U1] = { "U1", NULL, "U1", "|u1", 1, 31, "uint1 ui1", 94 },
};

bool pf_dtype_valid(int dtype)
{
	return dtype > PF_DTYPE_INVALID && dtype < PF_DTYPE_COUNT &&
	       infos[dtype].bits > 0;
}

size_t pf_dtype_size(enum pf_dtype dtype)
{
	return (pf_dtype_bits(dtype) + 7) / 8;
}

unsigned pf_dtype_bits(enum pf_dtype dtype)
{
	return pf_dtype_valid((int)dtype) ? infos[dtype].bits : 0;
}

enum pf_dtype_kind pf_dtype_kind(enum pf_dtype dtype)
{
	switch (infos[dtype].name[0]) {
	case 'P':
		return PF_KIND_BOOLEAN;
	case 'S':
		return PF_KIND_SIGNED;
	case 'U':
		return PF_KIND_UNSIGNED;
	case 'C':
		return PF_KIND_COMPLEX;
	default:
		return PF_KIND_REAL;
	}
}

int pf_dtype_check(enum pf_dtype dtype, int major, int minor, struct pf_err *err)
{
	if (major > 0 || minor >= infos[dtype].since)
		return 0;
	return pf_err_set(err, -EOPNOTSUPP,
			  "the plugin speaks PJRT %d.%d, element type %s needs 0.%d",
			  major, minor, pf_dtype_name(dtype), infos[dtype].since);
}

const char *pf_dtype_name(enum pf_dtype dtype)
{
	if (dtype == PF_DTYPE_TOKEN)
		return "TOKEN";
	return pf_dtype_valid((int)dtype) ? infos[dtype].name : "INVALID";
}

const char *pf_dtype_datatype(enum pf_dtype dtype)
{
	if (pf_dtype_valid((int)dtype) && infos[dtype].datatype)
		return infos[dtype].datatype;
	return pf_dtype_name(dtype);
}

const char *pf_dtype_numpy(char *dst, size_t len, enum pf_dtype dtype)
{
	const struct info *info = &infos[dtype];
	enum pf_dtype_kind kind = pf_dtype_kind(dtype);
	bool whole = kind == PF_KIND_SIGNED || kind == PF_KIND_UNSIGNED;
	const char *from = info->more;

	if (kind == PF_KIND_BOOLEAN || (whole && info->datatype))
		from = info->datatype;
	snprintf(dst, len, "%.*s", (int)strcspn(from, " "), from);
	for (char *at = dst; *at; at++)
		*at = (char)tolower(*at);
	return dst;
}

const char *pf_dtype_safetensors(enum pf_dtype dtype)
{
	return pf_dtype_valid((int)dtype) ? infos[dtype].safetensors : "INVALID";
}

enum pf_dtype pf_dtype_from_safetensors(const char *name, size_t len)
{
	for (int i = 1; i < PF_DTYPE_COUNT; i++)
		if (infos[i].safetensors && strlen(infos[i].safetensors) == len &&
		    memcmp(infos[i].safetensors, name, len) == 0)
			return (enum pf_dtype)i;
	return PF_DTYPE_INVALID;
}

const char *pf_dtype_npy_descr(enum pf_dtype dtype)
{
	return pf_dtype_valid((int)dtype) ? infos[dtype].descr : "|V0";
}

/* Is NAME, in any case, one of the words of KNOWN (may be NULL)? */
static bool same(const char *known, const char *name, size_t len)
{
	size_t n;

	for (; known && *known; known += n + (known[n] == ' ')) {
		n = strcspn(known, " ");
		if (n == len && strncasecmp(known, name, len) == 0)
			return true;
	}
	return false;
}

/*
 * NumPy's codes with a byte order.  Here case matters ('b' is bool, 'B' is not); one-byte
 * types have no byte order, so any is right.  The first type of the table that has the
 * code is the one it means: "|i1" is S8, not S4.  "<V1" means no type in particular.  "<f1" is
 * what ml_dtypes calls its float8_e5m2; NumPy itself writes it, but refuses to read it.
 */
static enum pf_dtype parse_descr(const char *name, size_t len)
{
	bool one_byte = len == 3 && name[2] == '1';

	if (one_byte ? !strchr("<|=>", name[0]) : !strchr("<=", name[0]))
		return PF_DTYPE_INVALID;
	if (one_byte && name[1] == 'f')
		return PF_DTYPE_F8E5M2;
	if (name[1] == 'V' && !(len == 3 && memcmp(name, "<V2", 3) == 0))
		return PF_DTYPE_INVALID;
	for (int i = 1; i < PF_DTYPE_COUNT; i++)
		if (infos[i].descr && strlen(infos[i].descr) == len &&
		    memcmp(infos[i].descr + 1, name + 1, len - 1) == 0)
			return (enum pf_dtype)i;
	return PF_DTYPE_INVALID;
}

enum pf_dtype pf_dtype_parse(const char *name, size_t len)
{
	/* A NUL would end the comparisons early. */
	if (len < 2 || len > 32 || memchr(name, '\0', len))
		return PF_DTYPE_INVALID;
	if (strchr("<>=|", name[0]))
		return parse_descr(name, len);
	for (int i = 1; i < PF_DTYPE_COUNT; i++) {
		const struct info *known = &infos[i];

		if (known->bits &&
		    (same(known->name, name, len) || same(known->more, name, len) ||
		     same(known->datatype, name, len) ||
		     same(known->safetensors, name, len)))
			return (enum pf_dtype)i;
	}
	return PF_DTYPE_INVALID;
}

int pf_dtype_xla(enum pf_dtype dtype)
{
	return infos[dtype].xla;
}

enum pf_dtype pf_dtype_from_xla(int primitive_type)
{
	for (int i = 1; i < PF_DTYPE_COUNT; i++)
		if (infos[i].xla == primitive_type)
			return (enum pf_dtype)i;
	return PF_DTYPE_INVALID;
}
