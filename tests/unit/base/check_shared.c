/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that another process can change. */
#include <errno.h>
#include <sys/mman.h>

#include "pjrtfs/base.h"
#include "unit.h"

TEST(a_copy_has_the_bytes)
{
	pf_autobuf struct pf_buf copy = PF_BUF_INIT;

	ck_assert_int_eq(pf_shared_copy(pf_shared_of("01234567", 8), "a text", 8, &copy,
					NULL),
			 0);
	ck_assert_uint_eq(copy.len, 8);
	ck_assert_str_eq(copy.data, "01234567");
}

TEST(what_is_not_there_is_refused)
{
	pf_autobuf struct pf_buf copy = PF_BUF_INIT;

	ck_assert_int_eq(pf_shared_copy(PF_SHARED_NONE, "a text", 8, &copy, NULL),
			 -EPROTO);
	ck_assert_uint_eq(copy.len, 0);
}

TEST(bytes_beyond_the_limit_are_not_touched)
{
	const struct pf_shared_bytes all =
		pf_shared_of(mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
				  -1, 0),
			     1 << 20);
	pf_autobuf struct pf_buf copy = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;

	ck_assert_int_eq(pf_shared_copy(all, "the name", (1 << 20) - 1, &copy, &err),
			 -EPROTO);
	ck_assert_str_eq(err.text, "the name has 1048576 bytes: at most 1048575");
}
