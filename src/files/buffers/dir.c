/* SPDX-License-Identifier: Apache-2.0 */
/* The directories in buffers/: create, rename, remove. */
#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static int buffers_lookup(struct pf_node *dir, const char *name, struct pf_node **ret,
			  struct pf_err *err)
{
	size_t len;
	enum pf_format format = pf_format_of(name, &len);
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *listed = buffers_find_viewed(dir, name, format, len);

	if (!listed && format == PF_FORMAT_JSON &&
	    (*ret = buffers_refusal(dir, name, len)))
		return 0;
	if (!listed)
		return pf_err_set(err, -ENOENT, "there is no %s", name);
	*ret = format == view_of(listed)->format
		       ? pf_steal(&listed)
		       : inode_view(view_of(listed)->inode, format);
	return *ret ? 0 : -ENOMEM;
}

static int buffers_create(struct pf_node *dir, const char *name, mode_t mode,
			  const struct pf_cred *cred, struct pf_node **ret,
			  struct pf_err *err)
{
	PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *buffer = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	enum pf_format format;
	int r = buffers_check_name(dir, name, &format, err);

	if (r == 0)
		r = files_check_device(files_device_of(dir), err);
	if (r < 0)
		return buffers_named(dir, name, cred, r, err);
	buffer =
		pf_buffer_new(&files_device_of(dir)->location, PF_DEFAULT_MEMORY, format);
	if (buffer)
		r = pf_buffer_charge(buffer, files_account(fs_of(dir), cred->uid), false,
				     err);
	if (r < 0)
		return r;
	if (buffer)
		node = inode_new(dir->tree, buffer, format, mode, cred);
	if (!node)
		return pf_err_set(err, -ENOMEM, "no memory for %s", name);
	r = inode_move_to_owner(node, err);
	if (r == 0)
		r = pf_dir_link(dir, name, node, false);
	if (r < 0)
		return r;
	files_report(node, "buffer.created", NULL);
	*ret = pf_steal(&node);
	return buffers_named(dir, name, cred, 0, NULL);
}

/* May a directory be called NAME? */
static int check_directory(struct pf_node *dir, const char *name, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *taken = buffers_find_stem(dir, name, strlen(name));
	int r = buffers_check_stem(name, strlen(name), err);

	if (r == 0 && taken)
		r = pf_err_set(err, -EEXIST, "%s: there is a buffer of that name", name);
	return r;
}

static int buffers_mkdir(struct pf_node *dir, const char *name, mode_t mode,
			 const struct pf_cred *cred, struct pf_node **ret,
			 struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	int r = check_directory(dir, name, err);

	if (r < 0)
		return buffers_named(dir, name, cred, r, err);
	node = buffer_dir_new(dir->tree, files_device_of(dir), mode, cred);
	if (!node)
		return -ENOMEM;
	r = buffer_dir_charge(node, cred->uid, false, err);
	if (r == 0)
		r = pf_dir_link(dir, name, node, false);
	if (r == 0)
		*ret = pf_steal(&node);
	return r;
}

static int buffers_unlink(struct pf_node *dir, struct pf_node *node, struct pf_err *err)
{
	char name[PF_NAME_MAX + 1];
	struct buffer_inode *inode;

	if (node->kind == &kind_sharding) {
		pf_dir_unlink(node);
		return 0;
	}
	if (node->kind != &kind_buffer)
		return pf_err_set(err, -EPERM, "it tells why a name was refused");
	inode = view_of(node)->inode;
	if (inode->directory)
		return pf_err_set(err, -EPERM, "it is shown as a directory: remove that");
	if (inode->listed != node)
		return pf_err_set(err, -EPERM,
				  "it is a view: remove the file it is a view of");
	files_report(node, "buffer.removed", NULL);
	pf_node_name(node, name);
	pf_dir_unlink(node);
	inode_views_gone(inode, dir, name);
	inode_unlinked(inode);
	files_shard_gone(dir, name);
	return 0;
}

static int buffers_rmdir(struct pf_node *dir, struct pf_node *node, struct pf_err *err)
{
	(void)dir;
	if (pf_dir_count(node))
		return pf_err_set(err, -ENOTEMPTY, "the directory is not empty");
	if (dir_of(node)->file)
		files_report(node, "buffer.removed", NULL);
	pf_dir_unlink(node);
	checkpoint_gone(node);
	return 0;
}

/* --- renames ------------------------------------------------------------------------ */

/* The node that NAME in DIR leads to, which is listed or has a view of that name; NULL: none. */
static struct pf_node *find_target(struct pf_node *dir, const char *name)
{
	struct pf_node *node = pf_dir_lookup(dir, name);
	size_t len;
	enum pf_format format = pf_format_of(name, &len);

	return node ? node : buffers_find_viewed(dir, name, format, len);
}

static int move_node(struct pf_node *node, struct pf_node *to, const char *name)
{
	pf_autobuf struct pf_buf from = PF_BUF_INIT;
	int r;

	pf_node_path(node, NULL, &from);
	r = pf_dir_move(node, to, name);
	if (r == 0)
		files_report(node, "buffer.moved", from.data);
	return r;
}

static int rename_directory(struct pf_node *node, struct pf_node *to, const char *name,
			    struct pf_node *target, struct pf_err *err)
{
	int r = check_directory(to, name, err);

	if (r < 0)
		return r;
	r = move_node(node, to, name);
	if (r == 0 && target && target != node)
		checkpoint_gone(target);
	return r;
}

/* A buffer that becomes a scratch file keeps its bytes, also if a program made them. */
static int keep_bytes(struct pf_node *node, struct pf_err *err)
{
	struct pf_buffer *b = buffer_of(node);
	int r = 0;

	if (pf_buffer_lacks_bytes(b))
		r = pf_buffer_adopt(b, view_of(node)->format, "", true, err);
	/* They are on the device, and a rename does not wait: on EXDEV mv(1) copies. */
	if (r == -EIO && !strcmp(pf_buffer_state_name(b), "ready"))
		r = pf_err_set(err, -EXDEV, "its bytes must be fetched: copy it");
	return r;
}

/* May NODE be renamed from one format to the other?  If its content is a file of several tensors,
 * *DIR is their directory, for checkpoint_link. */
static int check_formats(struct pf_node *node, enum pf_format to, struct device *device,
			 struct pf_node **dir, struct pf_err *err)
{
	enum pf_format from = view_of(node)->format;
	int r;

	if (from == to)
		return 0;
	if (from != PF_FORMAT_NONE && to != PF_FORMAT_NONE)
		return pf_err_set(err, -EOPNOTSUPP,
				  "a rename does not convert: read the %s view "
				  "instead",
				  pf_format_extension(to));
	if (to == PF_FORMAT_NONE)
		return keep_bytes(node, err);
	r = pf_buffer_check(buffer_of(node), to, err);
	return r > 0 ? checkpoint_build(node, device, dir, err) : r;
}

/* NODE has a name of FORMAT now: make an array of its bytes anew. */
static int take_format(struct pf_node *node, enum pf_format format,
		       struct pf_node **built, struct pf_err *err)
{
	struct pf_buffer *b = buffer_of(node);
	PF_CLEANUP(pf_value_unrefp) struct pf_value *value = NULL;
	int r;

	view_of(node)->format = format;
	view_save(node);
	pf_buffer_set_format(b, format);
	if (format == PF_FORMAT_NONE)
		return 0;
	if (!*built || pf_buffer_commit(b, false, &value, NULL) != 2) {
		buffer_commit_start(node, false, NULL);
		return 0;
	}
	r = checkpoint_link(node, pf_steal(built), err);
	if (r < 0)
		pf_buffer_refuse(b, err);
	return r;
}

static int rename_buffer(struct pf_node *node, struct pf_node *to, const char *name,
			 struct pf_node *target, struct pf_err *err)
{
	struct buffer_inode *inode = view_of(node)->inode;
	PF_CLEANUP(pf_value_unrefp) struct pf_value *value = NULL;
	PF_CLEANUP(checkpoint_abandonp) struct pf_node *built = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = pf_node_parent(node);
	enum pf_format from = view_of(node)->format, format;
	struct device *device = files_device_in(files_buffer_device(inode->buffer)->home,
						files_device_of(to));
	char old[PF_NAME_MAX + 1];
	int r = buffers_check_name(to, name, &format, err);

	if (r < 0)
		return r;
	r = check_formats(node, format, device, &built, err);
	if (r == 0 && target && view_of(target)->inode != inode)
		r = checkpoint_dissolve(target, err);
	if (r == 0 && files_buffer_device(inode->buffer) != device)
		r = pf_buffer_move(inode->buffer, &device->location, PF_DEFAULT_MEMORY,
				   &value, err);
	if (r < 0)
		return r;
	if (target && view_of(target)->inode == inode)
		target = NULL;
	if (target)
		files_report(target, "buffer.removed", NULL);
	pf_node_name(node, old);
	/* A lookup of the stem finds one or the other at any time; TARGET's bytes are freed when
	 * both changes of names are in the journal. */
	r = move_node(node, to, name);
	if (r < 0)
		return r;
	if (target) {
		pf_dir_unlink(target);
		inode_unlinked(view_of(target)->inode);
	}
	files_shard_gone(dir, old);
	if (value)
		buffer_transfer_start(inode->buffer, value, true, NULL);
	return from == format ? 0 : take_format(node, format, &built, err);
}

static int exchange(struct pf_node *node, struct pf_node *target, struct pf_err *err)
{
	pf_autobuf struct pf_buf from = PF_BUF_INIT, target_from = PF_BUF_INIT;
	int r;

	if (!target)
		return -ENOENT;
	if (buffers_is_directory(node) != buffers_is_directory(target) ||
	    (!buffers_is_directory(node) &&
	     view_of(node)->format != view_of(target)->format))
		return pf_err_set(err, -EINVAL,
				  "only two of one format can be exchanged");
	pf_node_path(node, NULL, &from);
	pf_node_path(target, NULL, &target_from);
	r = pf_dir_exchange(node, target);
	if (r < 0)
		return r;
	files_report(node, "buffer.moved", from.data);
	files_report(target, "buffer.moved", target_from.data);
	return 0;
}

static int move(struct pf_node *dir, struct pf_node *node, struct pf_node *to,
		const char *name, unsigned flags, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *target = NULL;

	/* On EXDEV mv(1) copies a scratch file, which has no array, and removes it. */
	if (to->kind != dir->kind && node->kind == &kind_buffer &&
	    view_of(node)->format == PF_FORMAT_NONE)
		return pf_err_set(err, -EXDEV, "%s: another directory's file: copy it",
				  name);
	if (to->kind != dir->kind)
		return pf_err_set(err, -EOPNOTSUPP,
				  "%s: a buffer cannot be moved there: arrays "
				  "stay below buffers/",
				  name);
	if (!buffers_is_directory(node) && node->kind != &kind_buffer)
		return pf_err_set(
			err, -EPERM,
			node->kind == &kind_sharding
				? "it describes the buffers of its name: move those"
				: "it tells why a name was refused");
	/* On EXDEV mv(1) copies a directory's files, on the devices, and removes it. */
	if (files_device_of(dir) != files_device_of(to) &&
	    (buffers_is_directory(node) || (flags & RENAME_EXCHANGE)))
		return pf_err_set(err, -EXDEV, "%s: another device", name);
	if (!buffers_is_directory(node) &&
	    (view_of(node)->inode->listed != node || view_of(node)->inode->directory))
		return pf_err_set(err, -EPERM,
				  "it is a view: move the file it is a view of");
	target = find_target(to, name);
	if (target && target->kind == &kind_sharding)
		return pf_err_set(err, -EINVAL, "%s describes buffers, and is none",
				  name);
	if (flags & RENAME_EXCHANGE)
		return exchange(node, target, err);
	if (target == node) {
		/* The stem found it: it is the same file, or the same array in another format. */
		char now[PF_NAME_MAX + 1];

		pf_node_name(node, now);
		if (dir == to && !strcmp(now, name))
			return 0;
	}
	return buffers_is_directory(node) ? rename_directory(node, to, name, target, err)
					  : rename_buffer(node, to, name, target, err);
}

static int buffers_rename(struct pf_node *dir, struct pf_node *node, struct pf_node *to,
			  const char *name, unsigned flags, struct pf_err *err)
{
	int r = move(dir, node, to, name, flags, err);
	struct pf_cred owner = { 0 };
	struct pf_attr attr;

	if (to->kind != dir->kind)
		return r;
	pf_node_attr(node, &attr);
	owner.uid = attr.uid;
	owner.gid = attr.gid;
	return buffers_named(to, name, &owner, r, err);
}

int files_remove_buffer(const struct device *device, const char *name,
			const struct pf_cred *cred, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	int r;

	PF_NAMES_SCOPE(device->fs->tree);
	r = buffers_find_listed(device, name, cred, &dir, &node, err);
	if (r == 0 && !pf_node_may_remove(dir, node, cred))
		r = pf_err_set(err, -EACCES, "buffer %s: permission denied", name);
	return r < 0 ? r : buffers_unlink(dir, node, err);
}

int files_make_directory(const struct device *device, const char *name,
			 const struct pf_cred *cred, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *made = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *there = NULL;
	pf_autofree char *path = strndup(name, files_path_len(name));
	const char *last;
	int r;

	if (!path)
		return -ENOMEM;
	if (files_is_directory(device, name, cred))
		return 0;
	r = files_walk(device, path, cred, &dir, &last, err);
	if (r == 0)
		r = pf_name_check(last, err);
	if (r < 0)
		return r;
	if (!pf_node_may(dir, cred, W_OK | X_OK))
		return pf_err_set(err, -EACCES, "%s: permission denied", name);
	PF_NAMES_SCOPE(dir->tree);
	there = buffers_find_directory(dir, last, strlen(last));
	if (!there)
		r = pf_dir_check_depth(dir, NULL, err);
	if (r == 0 && !there)
		r = buffers_mkdir(dir, last, 0777 & ~cred->umask, cred, &made, err);
	if (made)
		pf_node_inherit(dir, made);
	return r;
}

static const struct pf_dir_ops buffers_ops = {
	.lookup = buffers_lookup,
	.create = buffers_create,
	.mkdir = buffers_mkdir,
	.unlink = buffers_unlink,
	.rmdir = buffers_rmdir,
	.rename = buffers_rename,
};

static void buffers_setattr(struct pf_node *dir)
{
	buffer_charge_owner(dir);
	checkpoint_mirror(dir);
}

const struct pf_kind kind_buffers = { .mode = S_IFDIR | 0755,
				      .dir = &buffers_ops,
				      .setattr = buffers_setattr,
				      .restored_as = RESTORED_BUFFERS,
				      .free = buffer_dir_free };

int files_add_buffers(struct pf_node *parent, struct device *device)
{
	int r = -ENOMEM;

	device->buffers = buffer_dir_new(parent->tree, device, (mode_t)-1, NULL);
	if (device->buffers)
		r = pf_dir_link_fixed(parent, "buffers", device->buffers);
	return r;
}
