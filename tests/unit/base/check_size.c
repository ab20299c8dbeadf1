/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes as people write them. */
#include "pjrtfs/base.h"

#include <errno.h>

#include "unit.h"

static const struct {
	const char *text;
	uint64_t bytes;
} good[] = {
	{ "0", 0 },
	{ "1", 1 },
	{ "2147483648", UINT64_C(2147483648) },
	{ "1K", 1024 },
	{ "1k", 1024 },
	{ "3M", 3 << 20 },
	{ "2G", UINT64_C(2) << 30 },
	{ "2GiB", UINT64_C(2) << 30 },
	{ "2gb", UINT64_C(2) << 30 },
	{ "1T", UINT64_C(1) << 40 },
	{ "1048576T", UINT64_C(1) << 60 },
	{ "1152921504606846976", UINT64_C(1) << 60 },
	{ "max", UINT64_MAX },
};

START_TEST(good_sizes)
{
	uint64_t n = 7;

	ck_assert_int_eq(pf_size_parse(good[_i].text, &n, NULL), 0);
	ck_assert_uint_eq(n, good[_i].bytes);
}
END_TEST

static const char *const bad[] = { "",
				   "x",
				   "-1",
				   "+1",
				   " 1",
				   "1 ",
				   "1X",
				   "1KK",
				   "1Ki",
				   "1.5G",
				   "0x10",
				   "MAX",
				   "maxi",
				   "1048577T",
				   "1152921504606846977",
				   "99999999999999999999",
				   "G",
				   "1iB" };

START_TEST(bad_sizes)
{
	struct pf_err err = PF_ERR_INIT;
	uint64_t n = 7;

	ck_assert_msg(pf_size_parse(bad[_i], &n, &err) == -EINVAL, "'%s'", bad[_i]);
	ck_assert_uint_eq(n, 7);
	ck_assert_str_ne(err.text, "");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("size");
	TCase *tc = tcase_create("core");

	unit_add_cases(tc, good_sizes, good);
	unit_add_cases(tc, bad_sizes, bad);
	suite_add_tcase(suite, tc);
	return unit_run(suite);
}
