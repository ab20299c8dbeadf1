/* SPDX-License-Identifier: Apache-2.0 */
/* Targets: the names of results and of new buffers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

int files_find_target(const struct device *device, const char *name,
		      const struct pf_cred *cred, struct target *ret, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	const char *last;
	size_t len;
	int r = files_walk(device, name, cred, &dir, &last, err);

	if (r == 0)
		r = pf_name_check(last, err);
	if (r == 0)
		r = files_check_case(last, false, err);
	if (r == 0 && files_foreign_to_buffers(last, NULL) < 0)
		r = pf_err_set(err, -EINVAL,
			       "%s: files of that format are neither written nor read",
			       name);
	if (r == 0)
		r = buffers_check_no_json(name, err);
	if (r < 0)
		return r;
	pf_format_of(last, &len);
	r = buffers_check_stem(last, len, err);
	if (r < 0)
		return r;
	/* Its file name has an extension, too. */
	if (len + strlen(".npy") > PF_NAME_MAX)
		return pf_err_set(err, -ENAMETOOLONG, "%s is too long a name", name);
	node = buffers_find_stem(dir, last, len);
	if (!pf_node_may(node ? node : dir, cred, W_OK))
		return pf_err_set(err, -EACCES, "%s: permission denied", name);
	if (!node)
		r = buffers_check_free(dir, last, len, err);
	ret->name = r == 0 ? strdup(name) : NULL;
	if (r == 0 && !ret->name)
		r = -ENOMEM;
	if (r == 0) {
		ret->dir = pf_steal(&dir);
		snprintf(ret->stem, sizeof(ret->stem), "%.*s", (int)len, last);
	}
	return r;
}

void files_target_release(struct target *target)
{
	pf_node_unref(target->dir);
	free(target->name);
	memset(target, 0, sizeof(*target));
}

struct pf_buffer *files_target_buffer(const struct target *target)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *node =
		buffers_find_stem(target->dir, target->stem, strlen(target->stem));

	return node ? pf_buffer_ref(buffer_of(node)) : NULL;
}

/* --- a buffer gets its name ---------------------------------------------------------- */

/* *OLD gets the buffer that has the name T, with a reference; -EEXIST: a directory has it. */
static int find_old(const struct target *t, struct pf_node **old, struct pf_err *err)
{
	*old = buffers_find_stem(t->dir, t->stem, strlen(t->stem));
	return *old ? 0 : buffers_check_free(t->dir, t->stem, strlen(t->stem), err);
}

int files_check_target_locked(struct target *t, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *old = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *in = pf_node_parent(t->dir);

	return in ? find_old(t, &old, err)
		  : pf_err_set(err, -ENOENT, "%s: its directory is gone", t->name);
}

int files_put_buffer_locked(struct target *t, struct pf_buffer *buffer,
			    enum pf_format format, const struct pf_cred *cred, bool excl,
			    struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *old = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	struct pf_attr was = { .uid = cred->uid }, attr;
	char name[PF_NAME_MAX + 1];
	int r = find_old(t, &old, err);

	if (r < 0)
		return r;
	if (old)
		pf_node_attr(old, &was);
	if (old && excl)
		return pf_err_set(err, -EEXIST, "there is a buffer %s already", t->name);
	if (snprintf(name, sizeof(name), "%s%s", t->stem, pf_format_extension(format)) >=
	    (int)sizeof(name))
		return pf_err_set(err, -ENAMETOOLONG, "%s is too long a name", t->name);
	/* A buffer that replaces another one adds none. */
	r = pf_buffer_charge(buffer, files_account(fs_of(t->dir), was.uid), old != NULL,
			     err);
	if (r < 0)
		return r;
	node = inode_new(t->dir->tree, buffer, format,
			 (t->perm ? t->perm : 0644) & ~cred->umask, cred);
	if (!node)
		return pf_err_set(err, -ENOMEM, "no memory for %s", t->name);
	pf_node_inherit(t->dir, node);
	view_of(node)->inode->numbered =
		old ? view_of(old)->inode->numbered : t->numbered;
	if (view_of(node)->inode->numbered)
		view_save(node);
	if (old) {
		pf_node_attr(node, &attr);
		attr.mode = was.mode;
		attr.uid = was.uid;
		attr.gid = was.gid;
		pf_node_set_attr(node, &attr);
	}
	r = inode_move_to_owner(node, err);
	if (r < 0)
		return r;
	/* Link before unlink: a lookup of the stem finds a buffer at any time. */
	r = pf_dir_link(t->dir, name, node, old && view_of(old)->format == format);
	if (r < 0)
		return pf_err_set(err, r, "%s: its directory is gone", t->name);
	if (old) {
		pf_dir_unlink(old);
		inode_unlinked(view_of(old)->inode);
	}
	buffers_named(t->dir, name, cred, 0, NULL);
	files_report_result(node, pf_buffer_maker(buffer), old != NULL);
	return 0;
}

int files_put_buffer(struct target *target, struct pf_buffer *buffer,
		     enum pf_format format, const struct pf_cred *cred, bool excl,
		     struct pf_err *err)
{
	PF_NAMES_SCOPE(target->dir->tree);
	return files_put_buffer_locked(target, buffer, format, cred, excl, err);
}
