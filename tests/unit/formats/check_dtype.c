/* SPDX-License-Identifier: Apache-2.0 */
/* Element types: every name in every format. */
#include <ctype.h>

#include "formats_fixture.h"
#include "pjrtfs/array.h"

/* All that is to be known of each type, written down a second time. */
static const struct {
	enum pf_dtype dtype;
	/* safetensors has no names for some types: these are pjrtfs's. */
	const char *name, *datatype, *descr, *safetensors, *numpy;
	unsigned size, bits;
	int xla;
} types[] = {
	{ PF_DTYPE_PRED, "PRED", "BOOL", "|b1", "BOOL", "bool", 1, 8, 1 },
	{ PF_DTYPE_S8, "S8", "INT8", "|i1", "I8", "int8", 1, 8, 2 },
	{ PF_DTYPE_S16, "S16", "INT16", "<i2", "I16", "int16", 2, 16, 3 },
	{ PF_DTYPE_S32, "S32", "INT32", "<i4", "I32", "int32", 4, 32, 4 },
	{ PF_DTYPE_S64, "S64", "INT64", "<i8", "I64", "int64", 8, 64, 5 },
	{ PF_DTYPE_U8, "U8", "UINT8", "|u1", "U8", "uint8", 1, 8, 6 },
	{ PF_DTYPE_U16, "U16", "UINT16", "<u2", "U16", "uint16", 2, 16, 7 },
	{ PF_DTYPE_U32, "U32", "UINT32", "<u4", "U32", "uint32", 4, 32, 8 },
	{ PF_DTYPE_U64, "U64", "UINT64", "<u8", "U64", "uint64", 8, 64, 9 },
	{ PF_DTYPE_F16, "F16", "FP16", "<f2", "F16", "float16", 2, 16, 10 },
	{ PF_DTYPE_F32, "F32", "FP32", "<f4", "F32", "float32", 4, 32, 11 },
	{ PF_DTYPE_F64, "F64", "FP64", "<f8", "F64", "float64", 8, 64, 12 },
	{ PF_DTYPE_BF16, "BF16", "BF16", "<V2", "BF16", "bfloat16", 2, 16, 16 },
	{ PF_DTYPE_C64, "C64", "C64", "<c8", "C64", "complex64", 8, 64, 15 },
	{ PF_DTYPE_C128, "C128", "C128", "<c16", "C128", "complex128", 16, 128, 18 },
	{ PF_DTYPE_F8E5M2, "F8E5M2", "F8E5M2", "|V1", "F8_E5M2", "float8_e5m2", 1, 8,
	  19 },
	{ PF_DTYPE_F8E4M3FN, "F8E4M3FN", "F8E4M3FN", "<V1", "F8_E4M3", "float8_e4m3fn", 1,
	  8, 20 },
	{ PF_DTYPE_F8E4M3B11FNUZ, "F8E4M3B11FNUZ", "F8E4M3B11FNUZ", "<V1",
	  "F8_E4M3B11FNUZ", "float8_e4m3b11fnuz", 1, 8, 23 },
	{ PF_DTYPE_F8E5M2FNUZ, "F8E5M2FNUZ", "F8E5M2FNUZ", "<V1", "F8_E5M2FNUZ",
	  "float8_e5m2fnuz", 1, 8, 24 },
	{ PF_DTYPE_F8E4M3FNUZ, "F8E4M3FNUZ", "F8E4M3FNUZ", "<V1", "F8_E4M3FNUZ",
	  "float8_e4m3fnuz", 1, 8, 25 },
	{ PF_DTYPE_S4, "S4", "S4", "|i1", "I4", "int4", 1, 4, 21 },
	{ PF_DTYPE_U4, "U4", "U4", "|u1", "U4", "uint4", 1, 4, 22 },
	{ PF_DTYPE_S2, "S2", "S2", "|i1", "I2", "int2", 1, 2, 26 },
	{ PF_DTYPE_U2, "U2", "U2", "|u1", "U2", "uint2", 1, 2, 27 },
	{ PF_DTYPE_F8E4M3, "F8E4M3", "F8E4M3", "<V1", "F8_E4M3IEEE", "float8_e4m3", 1, 8,
	  28 },
	{ PF_DTYPE_F8E3M4, "F8E3M4", "F8E3M4", "<V1", "F8_E3M4", "float8_e3m4", 1, 8,
	  29 },
	{ PF_DTYPE_F8E8M0FNU, "F8E8M0FNU", "F8E8M0FNU", "<V1", "F8_E8M0",
	  "float8_e8m0fnu", 1, 8, 33 },
	{ PF_DTYPE_F4E2M1FN, "F4E2M1FN", "F4E2M1FN", "<V1", "F4", "float4_e2m1fn", 1, 4,
	  32 },
	{ PF_DTYPE_S1, "S1", "S1", "|i1", "I1", "int1", 1, 1, 30 },
	{ PF_DTYPE_U1, "U1", "U1", "|u1", "U1", "uint1", 1, 1, 31 },
};

static enum pf_dtype parse(const char *name)
{
	return pf_dtype_parse(name, strlen(name));
}

/* NAME is read as D in any case. */
static void check_name(const char *name, enum pf_dtype d)
{
	char lower[40] = "", upper[40] = "";

	for (size_t i = 0; name[i]; i++) {
		lower[i] = (char)tolower(name[i]);
		upper[i] = (char)toupper(name[i]);
	}
	ck_assert_int_eq(parse(name), d);
	ck_assert_int_eq(parse(lower), d);
	ck_assert_int_eq(parse(upper), d);
}

TEST_EACH(facts_and_names, types)
{
	enum pf_dtype d = types[_i].dtype;

	ck_assert(pf_dtype_valid((int)d));
	ck_assert_str_eq(pf_dtype_name(d), types[_i].name);
	ck_assert_str_eq(pf_dtype_datatype(d), types[_i].datatype);
	ck_assert_str_eq(pf_dtype_npy_descr(d), types[_i].descr);
	ck_assert_uint_eq(pf_dtype_size(d), types[_i].size);
	ck_assert_uint_eq(pf_dtype_bits(d), types[_i].bits);
	ck_assert_int_eq(pf_dtype_from_xla(types[_i].xla), d);
	ck_assert_int_eq(pf_dtype_xla(d), types[_i].xla);
	check_name(types[_i].name, d);
	check_name(types[_i].datatype, d);
	check_name(types[_i].numpy, d);
}

TEST(every_type_is_in_the_table)
{
	size_t valid = 0;

	for (int i = -2; i < PF_DTYPE_COUNT + 5; i++)
		valid += pf_dtype_valid(i);
	ck_assert_uint_eq(valid, ARRAY_SIZE(types));
}

static const struct {
	const char *name;
	enum pf_dtype want;
} names[] = {
	/* MLIR */
	{ "i1", PF_DTYPE_PRED },
	{ "i64", PF_DTYPE_S64 },
	{ "ui2", PF_DTYPE_U2 },
	{ "ui4", PF_DTYPE_U4 },
	{ "ui8", PF_DTYPE_U8 },
	{ "ui64", PF_DTYPE_U64 },
	{ "f32", PF_DTYPE_F32 },
	{ "bf16", PF_DTYPE_BF16 },
	{ "complex<f32>", PF_DTYPE_C64 },
	{ "complex<f64>", PF_DTYPE_C128 },
	/* NumPy's codes */
	{ "<f4", PF_DTYPE_F32 },
	{ "=f4", PF_DTYPE_F32 },
	{ "<f1", PF_DTYPE_F8E5M2 },
	{ "<c16", PF_DTYPE_C128 },
	{ "<V2", PF_DTYPE_BF16 },
	{ "|b1", PF_DTYPE_PRED },
	{ "|i1", PF_DTYPE_S8 },
	{ ">i1", PF_DTYPE_S8 },
};

TEST_EACH(other_names, names)
{
	ck_assert_int_eq(parse(names[_i].name), names[_i].want);
}

static const char *const no_names[] = {
	"",      "x",           "<",
	"<f",    "<f16",        "<F4",
	"<B1",   ">f4",         "|f4",
	"|V2",   "=V2",         "<V1",
	"|V1",   "|V0",         "f8",
	"TOKEN", "INVALID",     "float",
	"F32 ",  " F32",        "F3",
	"F322",  "complex<f32", "a name that is longer than any name of a type",
};

TEST_EACH(wrong_names_are_refused, no_names)
{
	ck_assert_int_eq(parse(no_names[_i]), PF_DTYPE_INVALID);
}

TEST_EACH(safetensors_names, types)
{
	const char *name = types[_i].safetensors;
	char longer[40];

	ck_assert_str_eq(pf_dtype_safetensors(types[_i].dtype), name);
	/* As MLIR's, i1 is PRED. */
	if (types[_i].dtype != PF_DTYPE_S1)
		check_name(name, types[_i].dtype);
	/* LEN alone ends it. */
	strcpy(longer, name);
	strcat(longer, "Z");
	ck_assert_int_eq(pf_dtype_from_safetensors(longer, strlen(name)),
			 types[_i].dtype);
	ck_assert_int_eq(pf_dtype_from_safetensors(longer, strlen(name) + 1),
			 PF_DTYPE_INVALID);
	ck_assert_int_eq(pf_dtype_from_safetensors(name, strlen(name) + 1),
			 PF_DTYPE_INVALID);
}

static const char *const no_safetensors[] = {
	"",     "F",          "f32",      "bool",    "PRED",    "S8",     "i8",
	"FP32", "F3",         "F4E2M1FN", "F6_E2M3", "F6_E3M2", "F8E5M2", "F8_E4M3FN",
	"<f4",  "F8_E8M0FNU", "F8_E4M3 ", "INVALID", "TOKEN",
};

TEST_EACH(wrong_safetensors_names_are_refused, no_safetensors)
{
	ck_assert_int_eq(pf_dtype_from_safetensors(no_safetensors[_i],
						   strlen(no_safetensors[_i])),
			 PF_DTYPE_INVALID);
}

TEST(names_with_a_nul_are_refused)
{
	ck_assert_int_eq(pf_dtype_parse("F32\0", 4), PF_DTYPE_INVALID);
	ck_assert_int_eq(pf_dtype_parse("F32\0x", 5), PF_DTYPE_INVALID);
	ck_assert_int_eq(pf_dtype_parse("\0\0\0", 3), PF_DTYPE_INVALID);
	ck_assert_int_eq(pf_dtype_parse("F32xyz", 3), PF_DTYPE_F32);
}

static const int invalid[] = { -1, PF_DTYPE_INVALID, PF_DTYPE_TOKEN, PF_DTYPE_COUNT,
			       1 << 30 };

TEST_EACH(wrong_type_names_are_refused, invalid)
{
	enum pf_dtype d = (enum pf_dtype)invalid[_i];

	ck_assert(!pf_dtype_valid(invalid[_i]));
	ck_assert_uint_eq(pf_dtype_size(d), 0);
	ck_assert_uint_eq(pf_dtype_bits(d), 0);
	ck_assert_str_eq(pf_dtype_name(d), d == PF_DTYPE_TOKEN ? "TOKEN" : "INVALID");
	ck_assert_str_eq(pf_dtype_npy_descr(d), "|V0");
	ck_assert_str_eq(pf_dtype_safetensors(d), "INVALID");
}

static const int no_xla[] = { -1, 0, 13, 14, 34, 35, 255, 1 << 20 };

TEST_EACH(xla_types_that_arrays_cannot_have_are_refused, no_xla)
{
	ck_assert_int_eq(pf_dtype_from_xla(no_xla[_i]), PF_DTYPE_INVALID);
	ck_assert_int_eq(pf_dtype_from_xla(17), PF_DTYPE_TOKEN);
}

TEST(new_types_need_new_plugins)
{
	struct pf_err err = PF_ERR_INIT;

	ck_assert_int_eq(pf_dtype_check(PF_DTYPE_F32, 0, 0, NULL), 0);
	ck_assert_int_eq(pf_dtype_check(PF_DTYPE_F4E2M1FN, 0, 62, NULL), -EOPNOTSUPP);
	ck_assert_int_eq(pf_dtype_check(PF_DTYPE_F4E2M1FN, 0, 63, NULL), 0);
	check_result(pf_dtype_check(PF_DTYPE_S1, 0, 93, &err), -EOPNOTSUPP, &err,
		     "the plugin speaks PJRT 0.93, element type S1 needs 0.94");
	ck_assert_int_eq(pf_dtype_check(PF_DTYPE_U1, 0, 94, NULL), 0);
	ck_assert_int_eq(pf_dtype_check(PF_DTYPE_U1, 1, 0, NULL), 0);
}
