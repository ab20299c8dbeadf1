/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as text, and back. */
#ifndef PJRTFS_TESTS_UNIT_TEXT_PRINT_H
#define PJRTFS_TESTS_UNIT_TEXT_PRINT_H

#include "formats_fixture.h"
#include "pjrtfs/array_files.h"

/* VALUE, without the end of its line. */
static inline void print_one(char *dst, size_t len, enum pf_dtype dtype,
			     const void *value)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	const struct pf_shape shape = { .rank = 0 };

	pf_text_print(&text, dtype, &shape, value);
	ck_assert_uint_lt(text.len, len);
	ck_assert_int_eq(text.data[text.len - 1], '\n');
	memcpy(dst, text.data, text.len - 1);
	dst[text.len - 1] = '\0';
}

/* Print N elements as a column, read them back, and compare the bytes. */
static inline void round_trip(enum pf_dtype dtype, const void *data, size_t n)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT, again = PF_BUF_INIT;
	const struct pf_shape shape = { 2, { (int64_t)n, 1 } };
	struct pf_shape found;
	struct pf_err err = PF_ERR_INIT;

	pf_text_print(&text, dtype, &shape, data);
	check_result(pf_text_parse(text.data, text.len, dtype, &found, &again, &err), 0,
		     &err, NULL);
	ck_assert_uint_eq(again.len, n * pf_dtype_size(dtype));
	ck_assert_mem_eq(again.data, data, again.len);
}

#endif
