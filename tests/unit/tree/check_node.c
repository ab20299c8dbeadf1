/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes: names, numbers, references, attributes; rights. */
#include <unistd.h>

#include "node_fixture.h"

static const struct {
	const char *name;
	int want;
} names[] = {
	{ "x.npy", 0 },
	{ "a b", 0 },
	{ "\xc3\xa9", 0 },
	{ "...", 0 },
	{ "-rf", 0 },
	{ "", -EINVAL },
	{ ".", -EINVAL },
	{ "..", -EINVAL },
	{ "a/b", -EINVAL },
	{ "a\nb", -EINVAL },
	{ "\x7f", -EINVAL },
	{ "\xc3", -EILSEQ },
	{ "\xc0\xaf", -EILSEQ },
	{ "\xed\xa0\x80", -EILSEQ },
	{ "\xf4\x90\x80\x80", -EILSEQ },
	{ "\xf0\x9f\x98\x80", 0 },
};

TEST_EACH(names_are_checked, names)
{
	struct pf_err err = PF_ERR_INIT;

	ck_assert_int_eq(pf_name_check(names[_i].name, &err), names[_i].want);
	ck_assert_int_eq(err.code, names[_i].want);
}

TEST(long_names_are_refused)
{
	char name[PF_NAME_MAX + 2], out[PF_NAME_MAX + 1];
	struct pf_node *node = linked(pf_tree_root(tree), "short", &file);

	memset(name, 'a', sizeof(name));
	name[PF_NAME_MAX + 1] = '\0';
	ck_assert_int_eq(pf_name_check(name, NULL), -ENAMETOOLONG);
	ck_assert_int_eq(pf_dir_move(node, pf_tree_root(tree), name), -ENAMETOOLONG);
	name[PF_NAME_MAX] = '\0';
	ck_assert_int_eq(pf_name_check(name, NULL), 0);
	ck_assert_int_eq(pf_dir_move(node, pf_tree_root(tree), name), 0);
	pf_node_name(node, out);
	ck_assert_str_eq(out, name);
}

TEST(a_kind_brings_its_children)
{
	struct pf_node *node = pf_node_new(tree, &object, &freed, 0700, NULL), *in, *at;
	struct pf_attr attr;

	in = pf_dir_lookup(node, "sub");
	ck_assert_ptr_nonnull(in);
	at = pf_dir_lookup(in, "state");
	ck_assert_ptr_nonnull(at);
	ck_assert_ptr_eq(at->object, &freed);
	pf_node_attr(at, &attr);
	ck_assert_uint_eq(attr.mode, S_IFREG | 0444);
	ck_assert_uint_eq(attr.uid, 10);
	pf_node_attr(node, &attr);
	ck_assert_uint_eq(attr.mode, S_IFDIR | 0700);
	ck_assert_uint_eq(pf_tree_count(tree), 3 + 4);
	pf_node_unref(in);
	pf_node_unref(node);

	/* A child keeps the whole, so that its object stays. */
	ck_assert_int_eq(freed, 0);
	pf_node_unref(at);
	ck_assert_int_eq(freed, 1);
	ck_assert_uint_eq(pf_tree_count(tree), 3);
}

TEST(a_link_keeps_the_node)
{
	struct pf_node *top = pf_tree_root(tree);
	struct pf_node *node = linked(top, "a", &file), *found;
	uint64_t ino = node->ino;

	found = pf_tree_by_ino(tree, ino);
	ck_assert_ptr_eq(found, node);
	pf_dir_unlink(node);
	ck_assert(has(top, "a", NULL));
	ck_assert_int_eq(freed, 0);
	pf_dir_unlink(node); /* has no effect */
	pf_node_unref(found);
	ck_assert_int_eq(freed, 1);
	ck_assert_ptr_null(pf_tree_by_ino(tree, ino));
	ck_assert_ptr_null(pf_tree_by_ino(tree, 0));
}

TEST(inode_numbers_are_not_reused)
{
	struct pf_node *top = pf_tree_root(tree), *node;
	uint64_t last = 0;

	ck_assert_uint_eq(top->ino, 1);
	for (int i = 0; i < 100; i++) {
		node = linked(top, "a", &file);
		ck_assert_uint_gt(node->ino, last);
		last = node->ino;
		pf_dir_unlink(node);
	}
	ck_assert_int_eq(freed, 100);
}

/* The file belongs to user 10, group 20. */
static const struct {
	uid_t uid;
	gid_t gid, other_gid;
	mode_t mode;
	int want;
	bool may;
} rights[] = {
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

TEST_EACH(rights_match_the_kernels_rules, rights)
{
	struct pf_cred cred = {
		.uid = rights[_i].uid,
		.gid = rights[_i].gid,
		.n_groups = 2,
		.groups = { 77, rights[_i].other_gid },
	};

	ck_assert_int_eq(pf_cred_may(&cred, 10, 20, rights[_i].mode, rights[_i].want),
			 rights[_i].may);
}

TEST(groups_not_asked_for_do_not_count)
{
	struct pf_cred cred = { .uid = 11, .gid = 99, .n_groups = 0, .groups = { 20 } };

	ck_assert(!pf_cred_may(&cred, 10, 20, 0060, R_OK));
}

UNIT_FIXTURE(setup, teardown)
