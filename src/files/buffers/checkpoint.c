/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of several tensors.
 *
 * A .safetensors file of one tensor is a buffer; any other is a directory named after the
 * file's stem, with a buffer for each tensor.  The directory is listed instead of the
 * file; a lookup still finds the file by its name, as it finds views.  A write lists the
 * file again and removes the directory; closing the file makes a new one.  All arrays
 * share the file's bytes.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* A hundred thousand tensors, each in a directory of its own: more than models have. */
enum { MAX_NODES = 200000 };

/* Unlink everything below DIR. */
static void clear(struct pf_node *dir)
{
	struct pf_node **list = pf_dir_list(dir);

	for (struct pf_node **n = list; n && *n; n++) {
		if (buffers_is_directory(*n)) {
			clear(*n);
			pf_dir_unlink(*n);
		} else {
			pf_dir_unlink(*n);
			inode_unlinked(view_of(*n)->inode);
		}
		pf_node_unref(*n);
	}
	free(list);
}

/* --- making one --------------------------------------------------------------------- */

/* A directory that is being built, and not linked yet. */
struct build {
	struct pf_node *file; /* borrowed */
	struct device *device;
	struct pf_node *dir; /* owned reference */
	struct pf_attr attr; /* of files; in directories X_OK accompanies R_OK */
	char made_by[PF_NAME_MAX + 1];
	unsigned nodes;
};

static mode_t directory_mode(mode_t file)
{
	return file | ((file & 0444) >> 2);
}

static struct pf_node *directory_new(struct build *b)
{
	struct pf_node *node =
		buffer_dir_new(b->file->tree, &b->device->fs->devices[b->device->number],
			       directory_mode(b->attr.mode & 0777), NULL);
	struct pf_attr attr;

	if (node) {
		pf_node_attr(node, &attr);
		attr.uid = b->attr.uid;
		attr.gid = b->attr.gid;
		pf_node_set_attr(node, &attr);
	}
	return node;
}

/* May a new file or directory of B be called NAME? */
static int check_new(struct build *b, const char *name, struct pf_err *err)
{
	int r = pf_name_check(name, err);

	if (r == 0)
		r = buffers_check_stem(name, strlen(name), err);
	if (r == 0 && ++b->nodes > MAX_NODES)
		r = pf_err_set(err, -E2BIG, "more than %u files and directories",
			       MAX_NODES);
	return r;
}

/* The directory whose name is the LEN bytes at PATH in DIR, which is made if it does not exist,
 * with a reference. */
static int enter(struct build *b, struct pf_node *dir, const char *path, size_t len,
		 struct pf_node **ret, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *file = NULL;
	char name[PF_NAME_MAX + 1];
	int r;

	if (len > PF_NAME_MAX)
		return pf_err_set(err, -ENAMETOOLONG,
				  "a part of it has more than %d bytes", PF_NAME_MAX);
	*ret = buffers_find_directory(dir, path, len);
	if (*ret)
		return 0;
	snprintf(name, sizeof(name), "%.*s", (int)len, path);
	r = check_new(b, name, err);
	if (r < 0)
		return r;
	file = buffers_find_stem(dir, name, len);
	if (file)
		return pf_err_set(err, -EINVAL,
				  "%s is both a tensor and a directory of tensors", name);
	r = pf_dir_check_depth(dir, NULL, err);
	if (r < 0)
		return r;
	*ret = directory_new(b);
	if (!*ret)
		return pf_err_set(err, -ENOMEM, "no memory for a directory");
	r = buffer_dir_charge(*ret, b->attr.uid, false, err);
	if (r < 0)
		return r;
	pf_node_inherit(dir, *ret);
	return pf_dir_link(dir, name, *ret, false);
}

static int put(struct build *b, struct pf_node *dir, const char *stem,
	       struct pf_value *value, struct pf_err *err)
{
	PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *buffer = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	char name[PF_NAME_MAX + 1];
	int r = check_new(b, stem, err);

	if (r < 0)
		return r;
	if (snprintf(name, sizeof(name), "%s.npy", stem) >= (int)sizeof(name))
		return pf_err_set(err, -ENAMETOOLONG,
				  "it has more than %d bytes with its extension",
				  PF_NAME_MAX);
	node = pf_dir_lookup(dir, stem);
	if (node)
		return pf_err_set(err, -EINVAL,
				  "it is both a tensor and a directory of tensors");
	buffer = pf_buffer_of_value(&b->device->location, value, b->made_by);
	if (buffer)
		r = pf_buffer_charge(buffer, files_account(fs_of(dir), b->attr.uid),
				     false, err);
	if (r < 0)
		return r;
	if (buffer)
		node = inode_new(dir->tree, buffer, PF_FORMAT_NPY, b->attr.mode & 07777,
				 NULL);
	if (!node)
		return pf_err_set(err, -ENOMEM, "no memory for a buffer");
	view_of(node)->inode->part_of = view_of(b->file)->inode->id;
	view_save(node);
	pf_node_set_attr(node, &b->attr);
	return pf_dir_link(dir, name, node, false);
}

/* Make the tensor called PATH: a '/' leads into a directory. */
static int add(struct build *b, const char *path, struct pf_value *value,
	       struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = pf_node_ref(b->dir);
	const char *slash;

	if (strlen(path) >= PATH_MAX - PF_NAME_MAX)
		return pf_err_set(err, -ENAMETOOLONG, "it is longer than a path can be");
	while ((slash = strchr(path, '/'))) {
		struct pf_node *next = NULL;
		int r = enter(b, dir, path, (size_t)(slash - path), &next, err);

		if (r < 0) {
			pf_node_unref(next);
			return r;
		}
		pf_node_unref(dir);
		dir = next;
		path = slash + 1;
	}
	return put(b, dir, path, value, err);
}

static int fill(struct build *b, const struct pf_tensors *tensors, struct pf_err *err)
{
	for (size_t i = 0; i < tensors->n; i++) {
		const char *name = tensors->head.tensors[i].name;
		struct pf_err why = PF_ERR_INIT;
		int r = add(b, name, tensors->values[i], &why);

		if (r < 0)
			return pf_err_set(err, r, "tensor \"%.64s\" cannot be a file: %s",
					  name, why.code ? why.text : strerror(-r));
	}
	return 0;
}

/* Linked nodes hold each other: unlink them, so that the last reference frees them. */
void checkpoint_abandon(struct pf_node *dir)
{
	if (!dir)
		return;
	clear(dir);
	pf_node_unref(dir);
}

int checkpoint_build(struct pf_node *file, struct device *device, struct pf_node **ret,
		     struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *parent = pf_node_parent(file);
	struct build b = { .file = file, .device = device };
	struct pf_tensors tensors = { 0 };
	int r = pf_buffer_tensors(buffer_of(file), &device->location, &tensors, err);

	*ret = NULL;
	if (r < 0)
		return r;
	pf_node_attr(file, &b.attr);
	pf_node_name(file, b.made_by);
	b.dir = directory_new(&b);
	if (!b.dir) {
		r = pf_err_set(err, -ENOMEM, "no memory for a directory");
	} else {
		if (parent)
			pf_node_inherit(parent, b.dir);
		r = buffer_dir_charge(b.dir, b.attr.uid, false, err);
		if (r == 0)
			r = fill(&b, &tensors, err);
	}
	pf_tensors_release(&tensors);
	*ret = b.dir;
	return r;
}

/* --- removing it -------------------------------------------------------------------- */

/* Does OK(NODE, ARG) hold for each file and directory below DIR? */
static bool all_below(struct pf_node *dir,
		      bool (*ok)(struct pf_node *node, const void *arg), const void *arg)
{
	struct pf_node **list = pf_dir_list(dir);
	bool all = list != NULL;

	for (struct pf_node **n = list; n && *n; n++) {
		all = all && ok(*n, arg) &&
		      (!buffers_is_directory(*n) || all_below(*n, ok, arg));
		pf_node_unref(*n);
	}
	free(list);
	return all;
}

/* Is NODE an unchanged tensor of the file with the inode ARG, or a directory? */
static bool is_part(struct pf_node *node, const void *arg)
{
	const struct buffer_inode *file = arg;

	return buffers_is_directory(node) ||
	       (is_buffer(node) && view_of(node)->inode->part_of == file->id);
}

int checkpoint_dissolve(struct pf_node *file, struct pf_err *err)
{
	struct buffer_inode *inode = view_of(file)->inode;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *parent = NULL;
	struct pf_node *dir = atomic_load(&inode->directory);
	char name[2 * PF_NAME_MAX];
	int r;

	if (!dir)
		return 0;
	pf_node_name(dir, name);
	if (!all_below(dir, is_part, inode))
		return pf_err_set(err, -ENOTEMPTY,
				  "the directory %s holds arrays that did not come from "
				  "this file: move them elsewhere, or remove it, first",
				  name);
	parent = pf_node_parent(dir);
	strcat(name, pf_format_extension(PF_FORMAT_SAFETENSORS));
	r = pf_dir_link(parent, name, file, false);
	if (r < 0)
		return pf_err_set(err, r, "%s: %s", name, strerror(-r));
	pf_node_ref(dir);
	clear(dir);
	pf_dir_unlink(dir);
	atomic_store(&inode->directory, NULL);
	pf_node_unref(pf_steal(&dir_of(dir)->file));
	pf_node_unref(dir);
	return 0;
}

/* --- rights ------------------------------------------------------------------------- */

static bool may_read(struct pf_node *node, const void *cred)
{
	return pf_node_may(node, cred, buffers_is_directory(node) ? R_OK | X_OK : R_OK);
}

int checkpoint_may_read(struct pf_node *file, const struct pf_cred *cred,
			struct pf_err *err)
{
	struct buffer_inode *inode = view_of(file)->inode;
	struct pf_node *dir;

	if (!atomic_load(&inode->directory))
		return 0;
	PF_NAMES_SCOPE(file->tree);
	dir = atomic_load(&inode->directory);
	if (!dir || (may_read(dir, cred) && all_below(dir, may_read, cred)))
		return 0;
	return pf_err_set(err, -EACCES, "not all of its tensors may be read");
}

void checkpoint_mirror(struct pf_node *node)
{
	bool is_dir = buffers_is_directory(node);
	struct pf_node *other;
	struct pf_attr attr;

	if (!is_dir && !atomic_load(&view_of(node)->inode->directory))
		return;
	PF_NAMES_SCOPE(node->tree);
	other = is_dir ? dir_of(node)->file
		       : atomic_load(&view_of(node)->inode->directory);
	pf_node_attr(node, &attr);
	attr.mode &= 0666;
	if (!other)
		return;
	pf_node_follow(other, &attr, is_dir ? attr.mode : directory_mode(attr.mode));
	buffer_charge_owner(other);
}

void checkpoint_gone(struct pf_node *dir)
{
	struct pf_node *file = pf_steal(&dir_of(dir)->file);

	if (!file)
		return;
	atomic_store(&view_of(file)->inode->directory, NULL);
	pf_dir_unlink(file);
	inode_unlinked(view_of(file)->inode);
	pf_node_unref(file);
}

/* --- closing the file --------------------------------------------------------------- */

static int link_instead(struct pf_node *file, struct pf_node *dir, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *parent = NULL;
	char stem[PF_NAME_MAX + 1];
	size_t len;
	int r = checkpoint_dissolve(file, err);

	if (r < 0)
		return r;
	parent = pf_node_parent(file);
	pf_node_name(file, stem);
	/* An unlink, rename or write that came meanwhile has done the rest. */
	if (!parent || pf_format_of(stem, &len) != PF_FORMAT_SAFETENSORS ||
	    files_buffer_device(buffer_of(file))->number != dir_of(dir)->device->number ||
	    !pf_buffer_is_tensors(buffer_of(file)))
		return 1;
	stem[len] = '\0';
	r = pf_dir_check_depth(parent, dir, err);
	if (r < 0)
		return pf_err_wrap(err, r, "directory %s", stem);
	r = pf_dir_link(parent, stem, dir, false);
	if (r < 0)
		return pf_err_set(err, r, "directory %s: %s", stem, strerror(-r));
	dir_of(dir)->file = pf_node_ref(file);
	buffer_dir_save(dir); /* the names are written when the lock is given back */
	pf_dir_hide(file);
	atomic_store(&view_of(file)->inode->directory, dir);
	files_report(dir, "buffer.ready", NULL);
	return 0;
}

int checkpoint_link(struct pf_node *file, struct pf_node *dir, struct pf_err *err)
{
	int r = link_instead(file, dir, err);

	if (r == 0)
		pf_node_unref(dir);
	else
		checkpoint_abandon(dir);
	return r < 0 ? r : 0;
}

int checkpoint_commit(struct pf_node *file, bool behind, struct pf_err *err)
{
	struct pf_node *dir;
	int r = checkpoint_build(file, files_buffer_device(buffer_of(file)), &dir, err);

	pf_tree_lock_names(file->tree);
	/* A change of the file removes its directory first: an existing one is current. */
	if (r < 0 || (behind && atomic_load(&view_of(file)->inode->directory)))
		checkpoint_abandon(dir);
	else
		r = checkpoint_link(file, dir, err);
	pf_tree_unlock_names(file->tree);
	if (r < 0)
		pf_buffer_refuse(buffer_of(file), err);
	return r;
}
