/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that another process can change. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "pjrtfs/base.h"
#include "unit.h"

static const struct {
	uint64_t off, len;
	bool inside;
} parts[] = {
	{ 0, 8, true },  { 3, 5, true },  { 8, 0, true },           { 0, 9, false },
	{ 9, 0, false }, { 7, 2, false }, { 1, UINT64_MAX, false },
};

TEST_EACH(a_part_is_inside, parts)
{
	const struct pf_shared_bytes all = pf_shared_of("01234567", 8);
	struct pf_shared_bytes part = pf_shared_part(all, parts[_i].off, parts[_i].len);
	pf_autobuf struct pf_buf copy = PF_BUF_INIT;

	ck_assert_int_eq(pf_shared_copy(part, "a part", 8, &copy, NULL),
			 parts[_i].inside ? 0 : -EPROTO);
	ck_assert_uint_eq(copy.len, parts[_i].inside ? parts[_i].len : 0);
	if (copy.len)
		ck_assert_int_eq(copy.data[0], '0' + (int)parts[_i].off);
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
