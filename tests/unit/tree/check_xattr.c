/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes, on a tree of toys. */
#include <errno.h>
#include <string.h>
#include <sys/xattr.h>

#include "pjrtfs/tree.h"
#include "vfs_driver.h"

static char dtype[8]; /* what the file's only attribute is */

static int file_get_xattr(struct pf_node *node, const char *name, struct pf_buf *out,
			  struct pf_err *err)
{
	(void)node;
	if (strcmp(name, "user.dtype") || !dtype[0])
		return pf_err_set(err, -ENODATA, "no %s", name);
	pf_buf_puts(out, dtype);
	return 0;
}

static int file_list_xattr(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)node;
	(void)err;
	if (dtype[0])
		pf_buf_append(out, "user.dtype", sizeof("user.dtype"));
	return 0;
}

static int file_set_xattr(struct pf_node *node, const char *name, const void *value,
			  size_t len, int flags, struct pf_err *err)
{
	(void)node;
	if (strcmp(name, "user.dtype"))
		return pf_err_set(err, -EOPNOTSUPP, "%s is not known", name);
	if (len >= sizeof(dtype))
		return pf_err_set(err, -EINVAL, "too long");
	if ((flags & XATTR_CREATE) && dtype[0])
		return -EEXIST;
	memcpy(dtype, value, len);
	dtype[len] = '\0';
	return 0;
}

static int file_remove_xattr(struct pf_node *node, const char *name, struct pf_err *err)
{
	(void)node;
	ck_assert_str_eq(name, "user.dtype");
	if (!strcmp(dtype, "F64"))
		return pf_err_set(err, -EBUSY, "it is in use");
	dtype[0] = '\0';
	return 0;
}

static const struct pf_kind file = {
	.name = "file",
	.mode = S_IFREG | 0666,
	.get_xattr = file_get_xattr,
	.list_xattr = file_list_xattr,
	.set_xattr = file_set_xattr,
	.remove_xattr = file_remove_xattr,
};
static const struct pf_kind kept = {
	.name = "kept",
	.mode = S_IFREG | 0666,
	.get_xattr = file_get_xattr,
};
static const struct pf_kind plain = { .name = "plain", .mode = S_IFREG | 0644 };
static const struct pf_kind root = {
	.mode = S_IFDIR | 0755,
	.children = (const struct pf_kind *const[]){ &file, &kept, &plain, NULL },
};

static struct pf_tree *tree;
static uint64_t ino, none;
static const struct pf_cred me = { .uid = 7, .gid = 7 };

static void setup(void)
{
	dtype[0] = '\0';
	tree = pf_tree_new(&root, NULL, 0, 0);
	ino = look_in(tree, 1, "file").st_ino;
	none = look_in(tree, 1, "plain").st_ino;
}

static void teardown(void)
{
	pf_tree_free(tree);
}

static int set(uint64_t of, const char *name, const char *value, int flags,
	       const struct pf_cred *cred)
{
	return pf_vfs_set_xattr(tree, of, name, value, strlen(value), flags, cred);
}

static int get(uint64_t of, const char *name)
{
	pf_autobuf struct pf_buf value = PF_BUF_INIT;

	return pf_vfs_get_xattr(tree, of, name, &value);
}

TEST(getting_and_setting)
{
	pf_autobuf struct pf_buf value = PF_BUF_INIT;

	ck_assert_int_eq(get(ino, "user.dtype"), -ENODATA);
	ck_assert_int_eq(set(ino, "user.dtype", "F32", 0, &me), 0);
	ck_assert_int_eq(pf_vfs_get_xattr(tree, ino, "user.dtype", &value), 0);
	ck_assert_str_eq(value.data, "F32");
	ck_assert_int_eq(get(ino, "user.x"), -ENODATA);
	ck_assert_int_eq(set(ino, "user.dtype", "S8", XATTR_CREATE, &me), -EEXIST);
	ck_assert_int_eq(set(ino, "user.dtype", "much too long", 0, &me), -EINVAL);
	ck_assert_int_eq(set(ino, "user.x", "", 0, &me), -EOPNOTSUPP);
	ck_assert_int_eq(get(99, "user.x"), -ESTALE);
}

/* The counts of the node INO. */
static struct pf_node_changes changes_of(uint64_t of)
{
	struct pf_node *node = pf_tree_by_ino(tree, of);
	struct pf_node_changes ret;

	pf_node_changes(node, &ret);
	pf_node_unref(node);
	return ret;
}

TEST(setting_is_a_change)
{
	struct pf_node_changes before = changes_of(ino), after, other = changes_of(none);
	uint64_t count = pf_tree_changes(tree);

	ck_assert_int_eq(set(ino, "user.dtype", "much too long", 0, &me), -EINVAL);
	ck_assert_uint_eq(pf_tree_changes(tree), count);
	ck_assert_int_eq(set(ino, "user.dtype", "F32", 0, &me), 0);
	after = changes_of(ino);
	ck_assert_uint_gt(pf_tree_changes(tree), count);
	ck_assert_uint_gt(after.any, before.any);
	ck_assert_uint_gt(after.bytes, before.bytes);
	ck_assert_uint_eq(changes_of(none).any, other.any);
}

TEST(listing)
{
	pf_autobuf struct pf_buf names = PF_BUF_INIT;

	ck_assert_int_eq(pf_vfs_list_xattr(tree, ino, &names), 0);
	ck_assert_uint_eq(names.len, 0);
	ck_assert_int_eq(set(ino, "user.dtype", "F32", 0, &me), 0);
	ck_assert_int_eq(pf_vfs_list_xattr(tree, ino, &names), 0);
	ck_assert_uint_eq(names.len, sizeof("user.dtype"));
	ck_assert_str_eq(names.data, "user.dtype");
}

TEST(removing)
{
	ck_assert_int_eq(pf_vfs_remove_xattr(tree, ino, "user.dtype", &me), -ENODATA);
	ck_assert_int_eq(set(ino, "user.dtype", "F64", 0, &me), 0);
	ck_assert_int_eq(pf_vfs_remove_xattr(tree, ino, "user.dtype", &me), -EBUSY);
	ck_assert_int_eq(set(ino, "user.dtype", "F32", 0, &me), 0);
	ck_assert_int_eq(pf_vfs_remove_xattr(tree, ino, "user.x", &me), -ENODATA);
	ck_assert_int_eq(pf_vfs_remove_xattr(tree, look_in(tree, 1, "kept").st_ino,
					     "user.dtype", &me),
			 -EPERM);
	ck_assert_int_eq(get(ino, "user.dtype"), 0);
	ck_assert_int_eq(pf_vfs_remove_xattr(tree, ino, "user.dtype", &me), 0);
	ck_assert_int_eq(get(ino, "user.dtype"), -ENODATA);
}

TEST(kinds_without_any)
{
	pf_autobuf struct pf_buf names = PF_BUF_INIT;

	ck_assert_int_eq(get(none, "user.x"), -ENODATA);
	ck_assert_int_eq(pf_vfs_list_xattr(tree, none, &names), 0);
	ck_assert_uint_eq(names.len, 0);
	ck_assert_int_eq(pf_vfs_remove_xattr(tree, none, "user.x", &god), -ENODATA);
	ck_assert_int_eq(set(none, "user.x", "", 0, &god), -EOPNOTSUPP);
}

UNIT_FIXTURE(setup, teardown)
