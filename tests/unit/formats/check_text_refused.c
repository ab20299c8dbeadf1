/* SPDX-License-Identifier: Apache-2.0 */
/* Malformed text is refused with its place. */
#include <errno.h>
#include <string.h>

#include "pjrtfs/array_files.h"
#include "unit.h"

static const struct {
	enum pf_dtype dtype;
	const char *text;
	int want;
	const char *says;
} refused[] = {
	{ PF_DTYPE_F32, "", -EINVAL, "no number" },
	{ PF_DTYPE_F32, " \n\t\n", -EINVAL, "no number" },
	{ PF_DTYPE_F32, "1 2\n3 x 4\n", -EINVAL,
	  "line 2, column 3: \"x\" is not a valid F32" },
	{ PF_DTYPE_F32, "1 2\n3\n", -EINVAL,
	  "line 2 has 1 numbers, the lines before it have 2" },
	{ PF_DTYPE_F32, "1\n2 3\n", -EINVAL, "line 2 has 2 numbers" },
	{ PF_DTYPE_F32, "1\n2\n\n3\n", -EINVAL,
	  "block 2 ends with 1 rows, the first has 2" },
	{ PF_DTYPE_F32, "1\n\n2\n3\n\n4\n", -EINVAL, "block 2 ends with 2 rows" },
	{ PF_DTYPE_F32, "1\n\n2 3\n", -EINVAL, "line 3 has 2 numbers" },
	{ PF_DTYPE_F32, "1,,2", -EINVAL, "line 1, column 3: no number before ','" },
	{ PF_DTYPE_F32, ",1", -EINVAL, "no number before ','" },
	{ PF_DTYPE_F32, "1,\n,2", -EINVAL, "line 2, column 1: no number before ','" },
	{ PF_DTYPE_F32, ",", -EINVAL, "no number before ','" },
	{ PF_DTYPE_F32, "1e", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, "1e+", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, ".", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, "-", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, "--1", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, "1.2.3", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, "0x10", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, "1f", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, "nan(1)", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, "infin", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, "true", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, "1+2j", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, "[1", -EINVAL, "is not a valid F32" },
	{ PF_DTYPE_F32, "1e39", -ERANGE, "\"1e39\" does not fit F32" },
	{ PF_DTYPE_F32, "340282356779733661637539395458142568448", -ERANGE, "F32" },
	{ PF_DTYPE_F32, "1e99999999999999999999", -ERANGE, "does not fit F32" },
	{ PF_DTYPE_F64, "1e309", -ERANGE, "does not fit F64" },
	{ PF_DTYPE_F16, "65520", -ERANGE, "does not fit F16" },
	{ PF_DTYPE_F8E4M3FN, "465", -ERANGE, "does not fit F8E4M3FN" },
	{ PF_DTYPE_F8E4M3FN, "inf", -ERANGE, "does not fit F8E4M3FN" },
	{ PF_DTYPE_F8E4M3FNUZ, "-inf", -ERANGE, "does not fit" },
	{ PF_DTYPE_F4E2M1FN, "7", -ERANGE, "does not fit" },
	{ PF_DTYPE_F4E2M1FN, "nan", -ERANGE, "does not fit" },
	{ PF_DTYPE_F4E2M1FN, "inf", -ERANGE, "does not fit" },
	{ PF_DTYPE_F8E8M0FNU, "0", -ERANGE, "does not fit" },
	{ PF_DTYPE_F8E8M0FNU, "-1", -ERANGE, "does not fit" },
	{ PF_DTYPE_U8, "256", -ERANGE, "\"256\" does not fit U8" },
	{ PF_DTYPE_U8, "-1", -ERANGE, "does not fit U8" },
	{ PF_DTYPE_U8, "1.0", -EINVAL, "is not a valid U8" },
	{ PF_DTYPE_U8, "1e2", -EINVAL, "is not a valid U8" },
	{ PF_DTYPE_U8, "+", -EINVAL, "is not a valid U8" },
	{ PF_DTYPE_S8, "128", -ERANGE, "does not fit S8" },
	{ PF_DTYPE_S8, "-129", -ERANGE, "does not fit S8" },
	{ PF_DTYPE_S4, "8", -ERANGE, "does not fit S4" },
	{ PF_DTYPE_S1, "1", -ERANGE, "does not fit S1" },
	{ PF_DTYPE_U1, "2", -ERANGE, "does not fit U1" },
	{ PF_DTYPE_S64, "9223372036854775808", -ERANGE, "does not fit S64" },
	{ PF_DTYPE_U64, "18446744073709551616", -ERANGE, "does not fit U64" },
	{ PF_DTYPE_U64, "99999999999999999999999999", -ERANGE, "does not fit U64" },
	{ PF_DTYPE_PRED, "2", -EINVAL, "is not a valid PRED" },
	{ PF_DTYPE_PRED, "tru", -EINVAL, "is not a valid PRED" },
	{ PF_DTYPE_C64, "1+2", -EINVAL, "is not a valid C64" },
	{ PF_DTYPE_C64, "1+j", -EINVAL, "is not a valid C64" },
	{ PF_DTYPE_C64, "j", -EINVAL, "is not a valid C64" },
	{ PF_DTYPE_C64, "1 2j3", -EINVAL, "is not a valid C64" },
	{ PF_DTYPE_C64, "1+2i", -EINVAL, "is not a valid C64" },
	{ PF_DTYPE_C64, "1+2jj", -EINVAL, "is not a valid C64" },
	{ PF_DTYPE_C64, "1e39+2j", -ERANGE, "does not fit C64" },
	{ PF_DTYPE_C64, "1+1e39j", -ERANGE, "does not fit C64" },
	{ PF_DTYPE_INVALID, "1", -EINVAL, "no element type" },
	{ PF_DTYPE_TOKEN, "1", -EINVAL, "no element type" },
};

TEST_EACH(refuses_with_the_place, refused)
{
	pf_autobuf struct pf_buf data = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_shape shape;

	pf_buf_puts(&data, "kept");
	ck_assert_int_eq(pf_text_parse(refused[_i].text, strlen(refused[_i].text),
				       refused[_i].dtype, &shape, &data, &err),
			 refused[_i].want);
	ck_assert_msg(strstr(err.text, refused[_i].says) != NULL, "%s", err.text);
	ck_assert_str_eq(data.data, "kept");
	ck_assert_uint_eq(data.len, 4);
}

/* The piece that ends a line reports its error, and the place stays before the line. */
TEST_EACH(refuses_lines_as_they_come, refused)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_text_check c = { .at = 0 }, before;
	const char *says = refused[_i].says;
	int r = 0;

	if (!pf_dtype_valid((int)refused[_i].dtype) || !strcmp(says, "no number"))
		return; /* facts known only from the whole text */
	pf_buf_puts(&text, refused[_i].text);
	pf_buf_puts(&text, "\n\n");
	for (size_t len = 0; len <= text.len && r == 0; len++) {
		before = c;
		r = pf_text_check(&c, text.data, len, refused[_i].dtype, &err);
	}
	ck_assert_int_eq(r, refused[_i].want);
	ck_assert_msg(strstr(err.text, says) != NULL, "%s", err.text);
	ck_assert_mem_eq(&c, &before, sizeof(c));
}
