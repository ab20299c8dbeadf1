/* SPDX-License-Identifier: Apache-2.0 */
/* Rights of users and groups. */
#include <unistd.h>

#include "pjrtfs/kind.h"

#include "unit.h"

/* The file belongs to user 10, group 20. */
static const struct {
	uid_t uid;
	gid_t gid, other_gid;
	mode_t mode;
	int want;
	bool may;
} cases[] = {
	{ 10, 99, 99, 0400, R_OK, true },
	{ 10, 99, 99, 0400, W_OK, false },
	{ 10, 99, 99, 0600, R_OK | W_OK, true },
	{ 10, 99, 99, 0077, R_OK, false }, /* only the owner's bits count */
	{ 11, 20, 99, 0040, R_OK, true },
	{ 11, 20, 99, 0040, W_OK, false },
	{ 11, 99, 20, 0020, W_OK, true }, /* by a supplementary group */
	{ 11, 20, 99, 0707, R_OK, false },
	{ 11, 99, 99, 0004, R_OK, true },
	{ 11, 99, 99, 0660, R_OK, false },
	{ 11, 99, 99, 0001, X_OK, true },
	{ 11, 99, 99, 0000, F_OK, true },
	{ 0, 99, 99, 0000, R_OK | W_OK, true },
	{ 0, 99, 99, 0644, X_OK, false }, /* not even root runs it */
	{ 0, 99, 99, 0100, X_OK, true },
	{ 0, 99, 99, S_IFDIR, X_OK, true },
};

TEST_EACH(rights_match_the_kernels_rules, cases)
{
	struct pf_cred cred = {
		.uid = cases[_i].uid,
		.gid = cases[_i].gid,
		.n_groups = 2,
		.groups = { 77, cases[_i].other_gid },
	};

	ck_assert_int_eq(pf_cred_may(&cred, 10, 20, cases[_i].mode, cases[_i].want),
			 cases[_i].may);
}

TEST(groups_not_asked_for_do_not_count)
{
	struct pf_cred cred = { .uid = 11, .gid = 99, .n_groups = 0, .groups = { 20 } };

	ck_assert(!pf_cred_may(&cred, 10, 20, 0060, R_OK));
}
