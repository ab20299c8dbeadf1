/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes and rights: stat(2), calls that change attributes, extended attributes; names. */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"

int pf_name_check(const char *name, struct pf_err *err)
{
	size_t len = strlen(name);

	if (len > PF_NAME_MAX)
		return pf_err_set(err, -ENAMETOOLONG,
				  "a name of %zu bytes, at most %d are allowed", len,
				  PF_NAME_MAX);
	if (!len)
		return pf_err_set(err, -EINVAL, "an empty name");
	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return pf_err_set(err, -EINVAL, "\"%s\" cannot be the name of a file",
				  name);
	for (const char *p = name; *p; p++) {
		if (*p == '/')
			return pf_err_set(err, -EINVAL, "a slash in the name \"%s\"",
					  name);
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return pf_err_set(err, -EINVAL,
					  "a control character in the name \"%s\"", name);
	}
	if (!pf_utf8_valid(name, len))
		return pf_err_set(err, -EILSEQ, "the name \"%s\" is not UTF-8", name);
	return 0;
}

static bool in_group(const struct pf_cred *cred, gid_t gid)
{
	if (cred->gid == gid)
		return true;
	for (unsigned i = 0; i < cred->n_groups && i < PF_CRED_GROUPS; i++)
		if (cred->groups[i] == gid)
			return true;
	return false;
}

bool pf_cred_may(const struct pf_cred *cred, uid_t uid, gid_t gid, mode_t mode, int want)
{
	unsigned bits;

	/* CAP_DAC_OVERRIDE: everything but running a file without any execute bit. */
	if (cred->uid == 0)
		return !(want & X_OK) || S_ISDIR(mode) || (mode & 0111);
	if (cred->uid == uid)
		bits = mode >> 6;
	else if (in_group(cred, gid))
		bits = mode >> 3;
	else
		bits = mode;
	return ((unsigned)want & 7 & ~bits) == 0;
}

void pf_node_attr(struct pf_node *node, struct pf_attr *ret)
{
	PF_LOCK_SCOPE(&node->tree->lock);
	*ret = node->priv->attr;
}

void pf_node_set_attr(struct pf_node *node, const struct pf_attr *attr)
{
	PF_LOCK_SCOPE(&node->tree->lock);
	node->priv->attr = *attr;
	node->priv->attr.mode = (node->kind->mode & S_IFMT) | (attr->mode & 07777);
	pf_node_write_locked(node);
	pf_node_invalidate_locked(node);
}

static void kill_bits(struct pf_attr *attr)
{
	if (S_ISDIR(attr->mode))
		return;
	attr->mode &= ~(mode_t)S_ISUID;
	if (attr->mode & S_IXGRP)
		attr->mode &= ~(mode_t)S_ISGID;
}

void pf_node_modified(struct pf_node *node, bool kill)
{
	struct timespec now = pf_now();

	PF_LOCK_SCOPE(&node->tree->lock);
	node->priv->attr.mtime = now;
	node->priv->attr.ctime = now;
	if (kill)
		kill_bits(&node->priv->attr);
	pf_node_write_locked(node);
	node->priv->written = node->priv->changed;
	pf_node_invalidate_locked(node);
}

uint64_t pf_tree_changes(const struct pf_tree *tree)
{
	return tree->changes;
}

void pf_node_changes(struct pf_node *node, struct pf_node_changes *ret)
{
	struct pf_open *of;

	PF_LOCK_SCOPE(&node->tree->lock);
	*ret = (struct pf_node_changes){ .any = node->priv->changed,
					 .bytes = node->priv->written,
					 .linked = node->priv->parent != NULL };
	LIST_FOREACH(of, &node->priv->opens, sibling)
		ret->writers = ret->writers || pf_open_writes(of);
}

/* setxattr(2) changes ctime. */
static void attributed(struct pf_node *node)
{
	PF_LOCK_SCOPE(&node->tree->lock);
	node->priv->attr.ctime = pf_now();
	pf_node_write_locked(node);
	node->priv->written = node->priv->changed;
}

bool pf_node_may(struct pf_node *node, const struct pf_cred *cred, int want)
{
	struct pf_attr attr;

	pf_node_attr(node, &attr);
	return pf_cred_may(cred, attr.uid, attr.gid, attr.mode, want);
}

bool pf_node_may_remove(struct pf_node *dir, struct pf_node *node,
			const struct pf_cred *cred)
{
	struct pf_attr of_dir, of_node;

	if (!pf_node_may(dir, cred, W_OK | X_OK))
		return false;
	pf_node_attr(dir, &of_dir);
	pf_node_attr(node, &of_node);
	return !(of_dir.mode & S_ISVTX) || cred->uid == 0 || cred->uid == of_dir.uid ||
	       cred->uid == of_node.uid;
}

enum {
	BLOCK_SIZE = 1 << 20
}; /* bytes that cp(1) and cat(1) then read and write at once */

/* The size of the text that a reader would get now, if that does not depend on the reader. */
static off_t shown_size(struct pf_node *node)
{
	pf_autobuf struct pf_buf buf = PF_BUF_INIT;
	const struct pf_kind *kind = node->kind;
	struct pf_err err = PF_ERR_INIT;
	int r;

	if (S_ISLNK(kind->mode) && kind->readlink)
		r = kind->readlink(node, &buf);
	else if (kind->show && !kind->blocks)
		r = kind->show(node, &buf, &err);
	else
		return 0;
	return r < 0 || buf.failed ? 0 : (off_t)buf.len;
}

/* May a front end cache NODE's attributes until it is notified? */
static bool keeps_attr(const struct pf_node *node)
{
	return S_ISDIR(node->kind->mode) && node->priv->holder->priv->fixed &&
	       !node->kind->getattr;
}

void pf_node_stat(struct pf_node *node, pid_t pid, struct stat *st)
{
	const struct pf_node_priv *priv = node->priv;

	*st = (struct stat){ .st_ino = node->ino, .st_blksize = BLOCK_SIZE };
	pf_lock(&node->tree->lock);
	st->st_mode = priv->attr.mode;
	st->st_uid = priv->attr.uid;
	st->st_gid = priv->attr.gid;
	st->st_atim = priv->attr.atime;
	st->st_mtim = priv->attr.mtime;
	st->st_ctim = priv->attr.ctime;
	node->priv->cached = keeps_attr(node);
	if (priv->gone)
		st->st_nlink = 0;
	else
		st->st_nlink = S_ISDIR(st->st_mode) ? 2 + priv->table->dirs : 1;
	pf_unlock(&node->tree->lock);

	st->st_size = -1;
	if (node->kind->getattr)
		node->kind->getattr(node, st);
	if (st->st_size < 0)
		st->st_size = shown_size(node);
	if (node->kind->size_bound)
		pf_node_bound_size(node, pid, st);
	st->st_blocks = (st->st_size + 511) / 512;
}

void pf_node_follow(struct pf_node *node, const struct pf_attr *from, mode_t perm)
{
	struct pf_attr attr;

	pf_node_attr(node, &attr);
	attr.mode = (attr.mode & ~(mode_t)0777) | perm;
	attr.uid = from->uid;
	attr.gid = from->gid;
	pf_node_set_attr(node, &attr);
	pf_node_changed(node, false);
}

void pf_node_inherit(struct pf_node *dir, struct pf_node *node)
{
	struct pf_attr of_dir, attr;

	pf_node_attr(dir, &of_dir);
	if (!(of_dir.mode & S_ISGID))
		return;
	pf_node_attr(node, &attr);
	attr.gid = of_dir.gid;
	if (S_ISDIR(attr.mode))
		attr.mode |= S_ISGID;
	pf_node_set_attr(node, &attr);
}

/* Do the attributes of a file of KIND differ between users? */
static bool varies(const struct pf_kind *kind)
{
	return kind->getattr_as || (kind->show_as && !kind->blocks);
}

/* The size of the text of NODE: that of the snapshot of OF, or, if OF is NULL or shows none, of what
 * CRED would get now. */
static off_t shown_size_as(struct pf_node *node, const struct pf_cred *cred,
			   const struct pf_open *of)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	int r;

	if (of && of->shown)
		return (off_t)of->text.len;
	r = node->kind->show_as(node, cred, &text, NULL);
	return r < 0 || text.failed ? 0 : (off_t)text.len;
}

int pf_vfs_getattr(struct pf_tree *tree, uint64_t ino, const struct pf_cred *cred,
		   struct pf_open *of, struct stat *st)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = pf_tree_by_ino(tree, ino);

	if (!node)
		return -ESTALE;
	pf_node_stat(node, cred->pid, st);
	if (!varies(node->kind))
		return 0;
	if (of)
		pf_lock(&of->lock);
	if (node->kind->show_as && !node->kind->blocks)
		st->st_size = shown_size_as(node, cred, of);
	if (node->kind->getattr_as)
		node->kind->getattr_as(node, cred, of, st);
	if (of)
		pf_unlock(&of->lock);
	st->st_blocks = (st->st_size + 511) / 512;
	return 0;
}

unsigned pf_vfs_keeps(struct pf_tree *tree, uint64_t ino)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = pf_tree_by_ino(tree, ino);
	unsigned mask = 0;

	if (!node)
		return 0;
	/* The kernel must look up the name of a stream for each open: pf_vfs_alias. */
	if (pf_kind_is_stream(node->kind))
		mask |= PF_STREAM;
	else if (node->priv->holder->priv->fixed)
		mask |= PF_KEEP_NAME;
	if (keeps_attr(node))
		mask |= PF_KEEP_ATTR;
	if (varies(node->kind) || node->priv->bounded)
		mask |= PF_ATTR_VARIES;
	return mask;
}

bool pf_vfs_is_slow(const struct pf_tree *tree, uint64_t ino)
{
	for (unsigned i = 0; i < tree->n_slow; i++)
		if (tree->slow[i] == ino)
			return true;
	return false;
}

int pf_vfs_readlink(struct pf_tree *tree, uint64_t ino, struct pf_buf *ret)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = pf_tree_by_ino(tree, ino);
	int r;

	if (!node)
		return -ESTALE;
	if (!node->kind->readlink)
		return -EINVAL;
	r = node->kind->readlink(node, ret);
	return r < 0 ? r : ret->failed ? -ENOMEM : 0;
}

int pf_kind_holds(const struct pf_kind *kind, uint64_t len, uint64_t off,
		  struct pf_err *err)
{
	if (kind->max_write && (off > kind->max_write || len > kind->max_write - off))
		return pf_err_set(err, -EFBIG, "it holds %zu bytes at most",
				  kind->max_write);
	return 0;
}

static int set_size(struct pf_node *node, struct pf_open *of, off_t size,
		    const struct pf_cred *cred, struct pf_err *err)
{
	const struct pf_kind *kind = node->kind;
	int r;

	if (S_ISDIR(kind->mode))
		return -EISDIR;
	if (of && !pf_open_writes(of))
		return -EBADF;
	if (size < 0)
		return -EINVAL;
	if (kind->send || (kind->write && !kind->truncate))
		return 0;
	if (!kind->truncate)
		return pf_err_set(err, -EACCES, "it can only be read");
	r = pf_kind_holds(kind, (uint64_t)size, 0, err);
	if (r < 0)
		return r;
	if (of)
		pf_lock(&of->lock);
	r = kind->truncate(node, of, (uint64_t)size, cred, err);
	/* close(2) commits the new size, but for an empty file, which is complete. */
	if (of && r == 0) {
		of->dirty = size > 0;
		of->failed = 0;
	}
	if (of)
		pf_unlock(&of->lock);
	if (r == 0)
		pf_node_modified(node, cred->uid != 0);
	return r;
}

static struct timespec resolve(struct timespec time, struct timespec now)
{
	return time.tv_nsec == UTIME_NOW ? now : time;
}

static void set_attr(struct pf_node *node, const struct stat *to, int mask)
{
	struct timespec now = pf_now();
	struct pf_attr *attr = &node->priv->attr;

	pf_lock(&node->tree->lock);
	if (mask & PF_SET_MODE)
		attr->mode = (attr->mode & S_IFMT) | (to->st_mode & 07777);
	if (mask & PF_SET_UID)
		attr->uid = to->st_uid;
	if (mask & PF_SET_GID)
		attr->gid = to->st_gid;
	if ((mask & (PF_SET_UID | PF_SET_GID)) && !(mask & PF_SET_MODE))
		kill_bits(attr);
	if (mask & PF_SET_ATIME)
		attr->atime = resolve(to->st_atim, now);
	if (mask & PF_SET_MTIME)
		attr->mtime = resolve(to->st_mtim, now);
	attr->ctime = now;
	pf_node_write_locked(node);
	pf_unlock(&node->tree->lock);
	if (node->kind->setattr)
		node->kind->setattr(node);
}

int pf_vfs_setattr(struct pf_tree *tree, uint64_t ino, const struct stat *to, int mask,
		   struct pf_open *of, const struct pf_cred *cred, struct stat *ret)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = pf_tree_by_ino(tree, ino);
	struct pf_err err = PF_ERR_INIT;
	int r = 0;

	if (!node)
		return -ESTALE;
	if (mask & PF_SET_SIZE)
		r = set_size(node, of, to->st_size, cred, &err);
	if (r < 0)
		return pf_refused(node, NULL, cred, "truncate", r, &err);
	if (mask & ~PF_SET_SIZE)
		set_attr(node, to, mask);
	pf_node_stat(node, cred->pid, ret);
	return 0;
}

/* --- extended attributes ------------------------------------------------------------------ */

/* Nobody reads why there is none: the kernel asks for security.capability at each open with O_TRUNC. */
static int get(struct pf_node *node, const char *name, struct pf_buf *ret)
{
	int r = -ENODATA;

	if (node->kind->get_xattr)
		r = node->kind->get_xattr(node, name, ret, NULL);
	return r < 0 ? r : ret->failed ? -ENOMEM : 0;
}

int pf_vfs_get_xattr(struct pf_tree *tree, uint64_t ino, const char *name,
		     struct pf_buf *ret)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = pf_tree_by_ino(tree, ino);

	return node ? get(node, name, ret) : -ESTALE;
}

int pf_vfs_list_xattr(struct pf_tree *tree, uint64_t ino, struct pf_buf *ret)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = pf_tree_by_ino(tree, ino);
	struct pf_err err = PF_ERR_INIT;
	int r = node ? 0 : -ESTALE;

	if (r == 0 && node->kind->list_xattr)
		r = node->kind->list_xattr(node, ret, &err);
	return r < 0 ? r : ret->failed ? -ENOMEM : 0;
}

/* cp(1) tries to set the system's attributes too and ignores failures: those are not kept. */
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
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = pf_tree_by_ino(tree, ino);
	struct pf_err err = PF_ERR_INIT;
	int r;

	if (!node)
		return -ESTALE;
	if (node->kind->set_xattr)
		r = node->kind->set_xattr(node, name, value, len, flags, &err);
	else
		r = pf_err_set(&err, -EOPNOTSUPP, "it has no attributes to set");
	if (r == 0)
		attributed(node);
	return refused(node, name, cred, r, &err);
}

int pf_vfs_remove_xattr(struct pf_tree *tree, uint64_t ino, const char *name,
			const struct pf_cred *cred)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = pf_tree_by_ino(tree, ino);
	pf_autobuf struct pf_buf value = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	int r = node ? get(node, name, &value) : -ESTALE;

	if (r < 0)
		return r;
	if (node->kind->remove_xattr)
		r = node->kind->remove_xattr(node, name, &err);
	else
		r = pf_err_set(&err, -EPERM, "%s belongs to what the file is", name);
	return refused(node, name, cred, r, &err);
}
