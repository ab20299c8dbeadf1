/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directories and files of buffers/ in a restarted daemon.
 *
 * Listed nodes come back before those without a name: views, files whose tensors are shown as a
 * directory, and unlinked files that are open.  An inode that has no listed node at the end was
 * unlinked.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/restore.h"
#include "pjrtfs/state.h"

int buffers_restore_directory(struct restoring *r, struct pf_node *dir,
			      const struct pf_restored *old, struct pf_node **ret,
			      struct pf_err *err)
{
	uint64_t file = buffer_dir_saved_file(old->ino);
	struct device *device = files_device_of(dir);
	int code;

	pf_tree_adopt(dir->tree, old->ino);
	*ret = buffer_dir_new(dir->tree, device, (mode_t)-1, NULL);
	if (!*ret)
		return -ENOMEM;
	code = buffer_dir_charge(*ret, old->attr.uid, true, err);
	if (code < 0)
		return code;
	return file ? pf_map_put(&r->files, file, *ret) : 0;
}

static const struct pf_location *location_of(const void *arg, const char *name)
{
	const struct home *home = arg;
	struct pf_fs *fs = home->devices[0].fs;
	struct device *device = files_find_device(fs, name, strlen(name), NULL);

	return device ? &files_device_in(home, device)->location : NULL;
}

/* The inode that RECORD is about, of a file of user OWNER, borrowed from R, in *RET; NULL: its device
 * or its buffer is gone. */
static int find_inode(struct restoring *r, const struct view_record *record, uid_t owner,
		      struct buffer_inode **ret, struct pf_err *err)
{
	PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *buffer = NULL;
	PF_CLEANUP(files_leave_homep) const struct home *home = NULL;
	struct buffer_inode *inode;
	int code;

	*ret = pf_map_get(&r->inodes, record->inode);
	if (*ret)
		return 0;
	code = files_home(r->fs, owner, &home, err);
	if (code < 0)
		return code;
	code = pf_buffer_restore(r->store, record->buffer, location_of, home, &buffer,
				 err);
	if (code < 0) /* other plugins may have other devices */
		return code == -ENODEV || code == -ENOENT ? 0 : code;
	code = pf_buffer_charge(buffer, files_account(r->fs, owner), true, err);
	if (code < 0)
		return code;
	inode = inode_of(buffer, record->inode);
	if (!inode)
		return -ENOMEM;
	inode->part_of = record->part_of;
	inode->numbered = record->numbered;
	code = pf_map_put(&r->inodes, record->inode, inode);
	if (code < 0)
		inode_unref(inode);
	*ret = code < 0 ? NULL : inode;
	return code;
}

/* NODE is the one that INODE is listed as, or FILE's, whose tensors are listed as DIRECTORY. */
static void set_listed(struct buffer_inode *inode, struct pf_node *node,
		       struct pf_node *directory)
{
	inode->listed = node;
	pf_buffer_name(inode->buffer, node->ino);
	if (!directory)
		return;
	dir_of(directory)->file = pf_node_ref(node);
	atomic_store(&inode->directory, directory);
}

int buffers_restore_file(struct restoring *r, struct pf_node *dir,
			 const struct pf_restored *old, struct pf_node **ret,
			 struct pf_err *err)
{
	const struct view_record *record =
		pf_state_load(PF_STATE_OBJECT, old->ino, sizeof(*record), NULL, err);
	struct pf_node *directory = pf_map_get(&r->files, old->ino);
	struct buffer_inode *inode = NULL;
	struct pf_node *node;
	int code;

	if (record && record->format >= PF_FORMAT_COUNT)
		record = pf_state_damaged(PF_STATE_OBJECT, old->ino, err);
	if (!record)
		return -EPROTO;
	code = find_inode(r, record, old->attr.uid, &inode, err);
	if (code < 0 || !inode)
		return code;
	if (old->written)
		code = pf_map_put(&r->written, record->inode, r);
	if (code < 0)
		return code;
	pf_tree_adopt(r->fs->tree, old->ino);
	node = *ret = view_new(r->fs->tree, inode, record->format, (mode_t)-1, NULL);
	if (!node)
		return -ENOMEM;
	if (!inode->listed && (dir || directory))
		set_listed(inode, node, dir ? NULL : directory);
	else if (!inode_made_view(inode, record->format))
		return inode_set_view(inode, record->format, node);
	return 0;
}

/* A rename across formats was not done, or not all of it: the name says what NODE is. */
static void settle_format(struct pf_node *node)
{
	char name[PF_NAME_MAX + 1];
	enum pf_format format;

	pf_node_name(node, name);
	format = buffers_format_of(name, NULL);
	if (view_of(node)->format == format)
		return;
	view_of(node)->format = format;
	view_save(node);
	pf_buffer_set_format(buffer_of(node), format);
}

/* INODE has a name or, if not, is open. */
static void settle(const struct restoring *r, struct buffer_inode *inode)
{
	if (!inode->listed) {
		/* Open files hold its nodes; the last one that closes frees it. */
		atomic_store(&inode->gone, true);
		inode_drop_views(inode);
		return;
	}
	if (inode->directory)
		return;
	settle_format(inode->listed);
	/* The daemon ended before it had made an array of bytes that a rename completed.  If a file
	 * is open for writing, its close does that. */
	if (pf_buffer_awaits_commit(inode->buffer) && !pf_map_get(&r->written, inode->id))
		(void)buffer_commit_start(inode->listed, true, NULL);
}

void buffers_restored(struct restoring *r)
{
	struct buffer_inode *inode;
	size_t pos = 0;

	while ((inode = pf_map_next(&r->inodes, &pos))) {
		settle(r, inode);
		inode_unref(inode);
	}
	pf_map_release(&r->written);
	pf_map_release(&r->inodes);
	pf_map_release(&r->files);
}
