/* SPDX-License-Identifier: Apache-2.0 */
/* One number as text. */
#ifndef PJRTFS_TESTS_UNIT_TEXT_PRINT_H
#define PJRTFS_TESTS_UNIT_TEXT_PRINT_H

#include <string.h>

#include "pjrtfs/array_files.h"
#include "unit.h"

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

#endif
