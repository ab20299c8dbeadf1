/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes: what kinds tell of their nodes by name. */
#include <errno.h>
#include <string.h>

#include "internal.h"

static int find(struct pf_tree *tree, uint64_t ino, const struct pf_cred *cred, int want,
		struct pf_node **ret)
{
	*ret = pf_tree_by_ino(tree, ino);
	if (!*ret)
		return -ENOENT;
	return pf_vfs_may(*ret, cred, want) ? 0 : -EACCES;
}

static int get(struct pf_node *node, const char *name, struct pf_buf *ret)
{
	struct pf_err err = PF_ERR_INIT;
	int r = -ENODATA;

	if (node->kind->get_xattr)
		r = node->kind->get_xattr(node, name, ret, &err);
	return r < 0 ? r : ret->failed ? -ENOMEM : 0;
}

int pf_vfs_get_xattr(struct pf_tree *tree, uint64_t ino, const char *name,
		     const struct pf_cred *cred, struct pf_buf *ret)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	int r = find(tree, ino, cred, R_OK, &node);

	return r < 0 ? r : get(node, name, ret);
}

int pf_vfs_list_xattr(struct pf_tree *tree, uint64_t ino, const struct pf_cred *cred,
		      struct pf_buf *ret)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	struct pf_err err = PF_ERR_INIT;
	int r = find(tree, ino, cred, R_OK, &node);

	if (r == 0 && node->kind->list_xattr)
		r = node->kind->list_xattr(node, ret, &err);
	return r < 0 ? r : ret->failed ? -ENOMEM : 0;
}

/* cp(1) tries to set attributes of the system's, and knows what to do without. */
static int refused(struct pf_node *node, const char *name, const struct pf_cred *cred,
		   int r, const struct pf_err *err)
{
	if (r < 0 && !strncmp(name, "user.", strlen("user.")))
		pf_refused(node, NULL, cred, "setxattr", r, err);
	return r;
}

int pf_vfs_set_xattr(struct pf_tree *tree, uint64_t ino, const char *name,
		     const void *value, size_t len, int flags, const struct pf_cred *cred)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	struct pf_err err = PF_ERR_INIT;
	int r = find(tree, ino, cred, W_OK, &node);

	if (!node)
		return r;
	if (r == 0 && !node->kind->set_xattr)
		r = pf_err_set(&err, -EOPNOTSUPP, "it has no attributes to set");
	if (r == 0)
		r = node->kind->set_xattr(node, name, value, len, flags, &err);
	return refused(node, name, cred, r, &err);
}

int pf_vfs_remove_xattr(struct pf_tree *tree, uint64_t ino, const char *name,
			const struct pf_cred *cred)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	pf_autobuf struct pf_buf value = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	int r = find(tree, ino, cred, W_OK, &node);

	if (r == 0)
		r = get(node, name, &value);
	if (r < 0)
		return r;
	if (node->kind->remove_xattr)
		r = node->kind->remove_xattr(node, name, &err);
	else
		r = pf_err_set(&err, -EPERM, "%s belongs to what the file is", name);
	return refused(node, name, cred, r, &err);
}
