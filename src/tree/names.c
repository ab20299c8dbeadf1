/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that look up, change or list names.
 *
 * They call the functions of a directory with the name lock held, so that the state that they
 * checked does not change before the function links or unlinks.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

int pf_dir_find(struct pf_node *dir, const char *name, bool names_held,
		struct pf_node **ret)
{
	const struct pf_dir_ops *ops = dir->kind->dir;
	struct pf_err err = PF_ERR_INIT;
	int r;

	if (!S_ISDIR(dir->kind->mode))
		return -ENOTDIR;
	if (strlen(name) > PF_NAME_MAX)
		return -ENAMETOOLONG;
	*ret = pf_dir_lookup(dir, name);
	if (*ret)
		return 0;
	if (!ops || !ops->lookup)
		return -ENOENT;
	if (names_held)
		return ops->lookup(dir, name, ret, &err);
	pf_tree_lock_names(dir->tree);
	*ret = pf_dir_lookup(dir, name);
	r = *ret ? 0 : ops->lookup(dir, name, ret, &err);
	pf_tree_unlock_names(dir->tree);
	return r;
}

int pf_vfs_lookup(struct pf_tree *tree, uint64_t parent, const char *name,
		  struct stat *st)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = pf_tree_by_ino(tree, parent);
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	int r = 0;

	if (!dir)
		return -ESTALE;
	if (!strcmp(name, "."))
		node = pf_node_ref(dir);
	else if (!strcmp(name, "..") && dir == tree->root)
		node = pf_node_ref(dir);
	else if (!strcmp(name, ".."))
		r = (node = pf_node_parent(dir)) ? 0 : -ENOENT;
	else
		r = pf_dir_find(dir, name, false, &node);
	if (r < 0)
		return r;
	pf_node_looked_up(node);
	pf_node_stat(node, 0, st);
	return 0;
}

int pf_dir_refuses(struct pf_node *dir, struct pf_err *err)
{
	const char *instead = dir->kind->instead;

	return pf_err_set(err, -EPERM, "%s",
			  instead ? instead
				  : "pjrtfs alone makes and removes names here");
}

/* The same for a name that is to be removed or moved; the root's advice is for what is to be made. */
static int keeps(struct pf_node *dir, struct pf_err *err)
{
	if (dir != dir->tree->root)
		return pf_dir_refuses(dir, err);
	return pf_err_set(
		err, -EPERM,
		"it is there as long as the mount, which ends with: fusermount3 "
		"-u MOUNTPOINT");
}

int pf_dir_by_ino(struct pf_tree *tree, uint64_t ino, struct pf_node **ret)
{
	*ret = pf_tree_by_ino(tree, ino);
	if (!*ret)
		return -ESTALE;
	return S_ISDIR((*ret)->kind->mode) ? 0 : -ENOTDIR;
}

/* Does NODE hold no nodes but the children of its kind? */
static bool is_empty(struct pf_node *node)
{
	PF_LOCK_SCOPE(&node->tree->lock);
	return node->priv->table->loose == 0;
}

static int make_dir(struct pf_node *dir, const char *name, mode_t mode,
		    const struct pf_cred *cred, struct pf_node **ret, struct pf_err *err)
{
	const struct pf_dir_ops *ops = dir->kind->dir;
	int r = pf_name_check(name, err);

	if (r < 0)
		return r;
	if (pf_dir_find(dir, name, true, ret) == 0)
		return -EEXIST;
	if (!ops || !ops->mkdir)
		return pf_dir_refuses(dir, err);
	r = pf_dir_check_depth(dir, NULL, err);
	if (r < 0)
		return r;
	r = ops->mkdir(dir, name, mode & 07777, cred, ret, err);
	if (r == 0)
		pf_node_inherit(dir, *ret);
	return r;
}

int pf_vfs_mkdir(struct pf_tree *tree, uint64_t parent, const char *name, mode_t mode,
		 const struct pf_cred *cred, struct stat *st)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	struct pf_err err = PF_ERR_INIT;
	int r = pf_dir_by_ino(tree, parent, &dir);

	if (r < 0)
		return r;
	pf_tree_lock_names(tree);
	r = make_dir(dir, name, mode, cred, &node, &err);
	pf_tree_unlock_names(tree);
	if (r < 0)
		return pf_refused(dir, name, cred, "mkdir", r, &err);
	pf_node_looked_up(node);
	pf_node_stat(node, cred->pid, st);
	return 0;
}

static int remove_name(struct pf_node *dir, const char *name, bool directory,
		       struct pf_err *err)
{
	const struct pf_dir_ops *ops = dir->kind->dir;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	int r = pf_dir_find(dir, name, true, &node);

	if (r < 0)
		return r;
	if (directory) {
		if (!S_ISDIR(node->kind->mode))
			return -ENOTDIR;
		if (!is_empty(node))
			return -ENOTEMPTY;
		return ops && ops->rmdir ? ops->rmdir(dir, node, err) : keeps(dir, err);
	}
	if (S_ISDIR(node->kind->mode))
		return -EISDIR;
	return ops && ops->unlink ? ops->unlink(dir, node, err) : keeps(dir, err);
}

int pf_vfs_remove(struct pf_tree *tree, uint64_t parent, const char *name, bool directory,
		  const struct pf_cred *cred)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	struct pf_err err = PF_ERR_INIT;
	int r = pf_dir_by_ino(tree, parent, &dir);

	if (r < 0)
		return r;
	pf_tree_lock_names(tree);
	r = remove_name(dir, name, directory, &err);
	pf_tree_unlock_names(tree);
	return pf_refused(dir, name, cred, directory ? "rmdir" : "unlink", r, &err);
}

/* May NODE replace OLD, which has the new name? */
static int may_replace(struct pf_node *node, struct pf_node *old, unsigned flags)
{
	if (flags & RENAME_NOREPLACE)
		return -EEXIST;
	if (flags & RENAME_EXCHANGE)
		return 0;
	if (S_ISDIR(node->kind->mode)) {
		if (!S_ISDIR(old->kind->mode))
			return -ENOTDIR;
		return is_empty(old) ? 0 : -ENOTEMPTY;
	}
	return S_ISDIR(old->kind->mode) ? -EISDIR : 0;
}

static int rename_name(struct pf_node *dir, const char *name, struct pf_node *to,
		       const char *to_name, unsigned flags, struct pf_err *err)
{
	const struct pf_dir_ops *ops = dir->kind->dir;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *old = NULL;
	int r = pf_name_check(to_name, err);

	if (r == 0)
		r = pf_dir_find(dir, name, true, &node);
	if (r < 0)
		return r;
	r = pf_dir_find(to, to_name, true, &old);
	if (r < 0 && r != -ENOENT)
		return r;
	if (r == 0) {
		if (old == node)
			return flags & RENAME_NOREPLACE ? -EEXIST : 0;
		r = may_replace(node, old, flags);
		if (r < 0)
			return r;
	} else if (flags & RENAME_EXCHANGE) {
		return -ENOENT;
	}
	r = 0;
	if (S_ISDIR(node->kind->mode) && dir != to)
		r = pf_dir_check_depth(to, node, err);
	if (r == 0 && old && S_ISDIR(old->kind->mode) && (flags & RENAME_EXCHANGE))
		r = pf_dir_check_depth(dir, old, err);
	if (r < 0)
		return r;
	return ops && ops->rename ? ops->rename(dir, node, to, to_name, flags, err)
				  : keeps(dir, err);
}

int pf_vfs_rename(struct pf_tree *tree, uint64_t parent, const char *name, uint64_t to,
		  const char *to_name, unsigned flags, const struct pf_cred *cred)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *target = NULL;
	struct pf_err err = PF_ERR_INIT;
	int r = pf_dir_by_ino(tree, parent, &dir);

	if (r == 0)
		r = pf_dir_by_ino(tree, to, &target);
	if (r < 0)
		return r;
	if (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE))
		return -EINVAL; /* the kernel refuses both at once */
	pf_tree_lock_names(tree);
	r = rename_name(dir, name, target, to_name, flags, &err);
	pf_tree_unlock_names(tree);
	return pf_refused(dir, name, cred, "rename", r, &err);
}

static char *put_entry(struct pf_listing *listing, char *at, const char *name,
		       uint64_t position, uint64_t ino, mode_t mode)
{
	struct pf_listing_entry *entry = &listing->entries[listing->n++];
	size_t size = strlen(name) + 1;

	entry->name = memcpy(at, name, size);
	entry->ino = ino;
	entry->position = position;
	entry->mode = mode;
	return at + size;
}

/* The listing, its entries and their names are one block. */
int pf_vfs_list(struct pf_tree *tree, uint64_t ino, struct pf_listing **ret)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	size_t size = sizeof(".") + sizeof(".."), n = 2;
	struct pf_listing *listing;
	struct pf_node *up, *first, *c;
	char *at;
	int r = pf_dir_by_ino(tree, ino, &dir);

	if (r < 0)
		return r;
	if (dir->kind->dir && dir->kind->dir->list)
		dir->kind->dir->list(dir);

	PF_LOCK_SCOPE(&tree->lock);
	first = TAILQ_FIRST(&dir->priv->table->children);
	for (c = first; c; c = TAILQ_NEXT(c, priv->sibling), n++)
		size += strlen(c->priv->name) + 1;
	listing = malloc(sizeof(*listing) + n * sizeof(listing->entries[0]) + size);
	if (!listing)
		return -ENOMEM;
	listing->n = 0;
	listing->entries = (struct pf_listing_entry *)(void *)(listing + 1);
	at = (char *)(listing->entries + n);
	up = dir->priv->parent ? dir->priv->parent : dir;
	at = put_entry(listing, at, ".", 1, dir->ino, dir->kind->mode);
	at = put_entry(listing, at, "..", 2, up->ino, up->kind->mode);
	for (c = first; c; c = TAILQ_NEXT(c, priv->sibling))
		at = put_entry(listing, at, c->priv->name, 2 + c->priv->position, c->ino,
			       c->kind->mode);
	*ret = listing;
	return 0;
}

void pf_listing_free(struct pf_listing *listing)
{
	free(listing);
}
