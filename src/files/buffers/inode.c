/* SPDX-License-Identifier: Apache-2.0 */
/* One buffer and its nodes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/state.h"

void view_save(const struct pf_node *node)
{
	const struct buffer_view *view = node->object;
	const struct buffer_inode *inode = view->inode;
	const struct view_record r = { .inode = inode->id,
				       .buffer = pf_buffer_number(inode->buffer),
				       .part_of = inode->part_of,
				       .format = view->format,
				       .numbered = inode->numbered };

	pf_state_put(PF_STATE_OBJECT, node->ino, &r, sizeof(r), NULL, 0);
}

struct pf_node *view_new(struct pf_tree *tree, struct buffer_inode *inode,
			 enum pf_format format, mode_t mode, const struct pf_cred *cred)
{
	struct buffer_view *view = calloc(1, sizeof(*view));
	struct pf_node *node = NULL;

	if (view) {
		view->inode = inode_ref(inode);
		atomic_init(&view->format, format);
		node = pf_node_new(tree, &kind_buffer, view, mode, cred);
	}
	if (!node && view) {
		inode_unref(inode);
		free(view);
	}
	if (node) {
		inode->id = inode->id ? inode->id : node->ino;
		view_save(node);
	}
	return node;
}

struct buffer_inode *inode_of(struct pf_buffer *buffer, uint64_t id)
{
	struct buffer_inode *inode = calloc(1, sizeof(*inode));

	if (!inode)
		return NULL;
	inode->id = id;
	atomic_init(&inode->refs, 1);
	inode->buffer = pf_buffer_ref(buffer);
	return inode;
}

struct pf_node *inode_new(struct pf_tree *tree, struct pf_buffer *buffer,
			  enum pf_format format, mode_t mode, const struct pf_cred *cred)
{
	struct buffer_inode *inode = inode_of(buffer, 0);
	struct pf_node *node;

	if (!inode)
		return NULL;
	node = view_new(tree, inode, format, mode, cred);
	inode->listed = node;
	pf_buffer_name(buffer, node ? node->ino : 0);
	inode_unref(inode);
	return node;
}

void buffer_charge_owner(struct pf_node *node)
{
	struct pf_account *account;
	struct pf_attr attr;

	pf_node_attr(node, &attr);
	account = files_account(fs_of(node), attr.uid);
	if (buffers_is_directory(node))
		pf_file_charge_move(&dir_of(node)->charge, account);
	else
		pf_buffer_charge_to(buffer_of(node), account);
}

int inode_move_to_owner(struct pf_node *node, struct pf_err *err)
{
	struct pf_buffer *b = buffer_of(node);
	PF_CLEANUP(files_leave_homep) const struct home *home = NULL;
	const struct device *device;
	struct pf_attr attr;
	int r;

	pf_node_attr(node, &attr);
	r = files_home(fs_of(node), attr.uid, &home, err);
	if (r < 0)
		return r;
	device = files_device_in(home, files_buffer_device(b));
	pf_buffer_change_home(b, &device->location);
	return 0;
}

static int reserve_views(struct buffer_inode *inode)
{
	if (!inode->views)
		inode->views = calloc(PF_FORMAT_COUNT, sizeof(struct pf_node *));
	return inode->views ? 0 : -ENOMEM;
}

int inode_set_view(struct buffer_inode *inode, enum pf_format format,
		   struct pf_node *node)
{
	if (reserve_views(inode) < 0)
		return -ENOMEM;
	inode->views[format] = pf_node_ref(node);
	return 0;
}

void inode_drop_views(struct buffer_inode *inode)
{
	for (unsigned f = 0; inode->views && f < PF_FORMAT_COUNT; f++)
		pf_node_unref(pf_steal(&inode->views[f]));
}

struct pf_node *inode_view(struct buffer_inode *inode, enum pf_format format)
{
	struct pf_node *listed = inode->listed;
	struct pf_attr attr;

	if (reserve_views(inode) < 0)
		return NULL;
	if (!inode->views[format])
		inode->views[format] =
			view_new(listed->tree, inode, format, (mode_t)-1, NULL);
	if (!inode->views[format])
		return NULL;
	/* The owner and mode of the listed node may have changed since the view was made. */
	pf_node_attr(listed, &attr);
	if (format == PF_FORMAT_JSON)
		attr.mode &= ~(mode_t)0222;
	pf_node_set_attr(inode->views[format], &attr);
	return pf_node_ref(inode->views[format]);
}

void inode_views_gone(struct buffer_inode *inode, struct pf_node *dir, const char *name)
{
	char view[PF_NAME_MAX + 1];
	size_t stem;

	buffers_format_of(name, &stem);
	memcpy(view, name, stem);
	for (unsigned f = 0; f < PF_FORMAT_COUNT; f++) {
		const char *ext = pf_format_extension(f);

		if (!inode_made_view(inode, f) || stem + strlen(ext) > PF_NAME_MAX)
			continue;
		strcpy(view + stem, ext);
		pf_node_gone(inode->views[f], dir, view);
	}
}

void inode_unlinked(struct buffer_inode *inode)
{
	struct pf_fs *fs = fs_of(inode->listed);

	inode_ref(inode); /* the last view may hold the last reference */
	inode->listed = NULL;
	for (unsigned f = 0; f < PF_FORMAT_COUNT; f++)
		if (inode_made_view(inode, f))
			pf_dir_unlink(inode->views[f]);
	inode_drop_views(inode);
	atomic_store(&inode->gone, true);
	if (!atomic_load(&inode->opens))
		inode_free_or_defer_locked(fs, inode);
	inode_unref(inode);
}

void inode_stem(struct pf_node *node, char name[PF_NAME_MAX + 1])
{
	struct buffer_inode *inode = view_of(node)->inode;
	struct pf_node *named;
	size_t len;

	name[0] = '\0';
	PF_NAMES_SCOPE(node->tree);
	named = inode->directory ? inode->directory : inode->listed;
	if (named)
		pf_node_name(named, name);
	buffers_format_of(name, &len);
	name[len] = '\0';
}

void inode_changed(struct pf_node *node)
{
	struct buffer_inode *inode = view_of(node)->inode;

	PF_NAMES_SCOPE(node->tree);
	if (inode->listed && inode->listed != node)
		pf_node_changed(inode->listed, true);
	for (unsigned f = 0; f < PF_FORMAT_COUNT; f++)
		if (inode_made_view(inode, f) && inode->views[f] != node)
			pf_node_changed(inode->views[f], true);
}

int inode_list(struct pf_node *node)
{
	struct buffer_inode *inode = view_of(node)->inode;
	enum pf_format format = view_of(node)->format;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	struct pf_node *old = inode->listed;
	char name[PF_NAME_MAX + 1];
	size_t stem;
	int r;

	if (!old || old == node)
		return 0;
	dir = pf_node_parent(old);
	if (!dir)
		return 0;
	pf_node_name(old, name);
	buffers_format_of(name, &stem);
	if (stem + strlen(pf_format_extension(format)) > PF_NAME_MAX)
		return -ENAMETOOLONG;
	strcpy(name + stem, pf_format_extension(format));
	r = reserve_views(inode);
	/* Only what cannot fail follows: else the file would have no name. */
	if (r == 0)
		r = pf_dir_link(dir, name, node, false);
	if (r < 0)
		return r;
	inode->views[view_of(old)->format] = pf_node_ref(old);
	pf_dir_hide(old);
	pf_node_unref(pf_steal(&inode->views[format]));
	inode->listed = node;
	pf_buffer_name(inode->buffer, node->ino);
	return 0;
}

void buffer_node_free(struct pf_node *node)
{
	struct buffer_view *view = node->object;

	inode_unref(view->inode);
	free(view);
}

void inode_leave(struct pf_node *node)
{
	struct buffer_inode *inode = view_of(node)->inode;

	if (atomic_fetch_sub(&inode->opens, 1) != 1 || !atomic_load(&inode->gone))
		return;
	PF_NAMES_SCOPE(node->tree);
	inode_free_or_defer_locked(fs_of(node), inode);
}
