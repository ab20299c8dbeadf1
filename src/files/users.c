/* SPDX-License-Identifier: Apache-2.0 */
/* Users; users/UID/: what one has, and may have at most. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct pf_account *files_account(const struct pf_fs *fs, uid_t uid)
{
	return pf_account_of(fs->quotas, uid);
}

bool files_owns_mount(const struct pf_fs *fs, uid_t uid)
{
	return uid == 0 || uid == fs->config.uid;
}

/* --- the files: their object is a limit ----------------------------------------------- */

static const struct pf_kind kind_max;

static int limit_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	uint64_t n = node->kind == &kind_max ? pf_limit_max(node->object)
					     : pf_limit_current(node->object);

	(void)err;
	pf_quota_max_print(n, out);
	return 0;
}

/* Other members of the owner's group have no rights here, whatever the mode says. */
static int limit_open(struct pf_open *of, struct pf_err *err)
{
	const struct pf_limit *limit = of->node->object;
	uid_t uid = of->cred.uid;

	if (files_owns_mount(fs_of(of->node), uid) ||
	    (uid == limit->account->uid && !pf_open_writes(of)))
		return 0;
	return pf_err_set(err, -EACCES,
			  "it is for user %u to read, and for the mount's owner and root",
			  limit->account->uid);
}

static ssize_t max_write(struct pf_open *of, const void *src, size_t len, uint64_t off,
			 struct pf_err *err)
{
	pf_autofree char *text = strndup(src, len);
	int r = text ? 0 : -ENOMEM;

	if (off || (text && strlen(text) < len))
		r = pf_err_set(err, -EINVAL, "expected a line of text in one write");
	if (r == 0)
		r = pf_limit_set(of->node->object, text, err);
	return r < 0 ? r : (ssize_t)len;
}

static const struct pf_kind kind_current = { .mode = S_IFREG | 0440,
					     .show = limit_show,
					     .open = limit_open };
static const struct pf_kind kind_max = { .mode = S_IFREG | 0460,
					 .max_write = 64,
					 .show = limit_show,
					 .open = limit_open,
					 .write = max_write };

/* --- the directories ------------------------------------------------------------------ */

static const struct pf_kind kind_user = { .mode = S_IFDIR | 0550 };

/* The owner reads, and the group, the mount's owner's, writes maxima. */
static struct pf_cred rights_of(const struct pf_fs *fs, uid_t uid)
{
	return (struct pf_cred){ .uid = uid, .gid = fs->config.gid };
}

/* Link a file of KIND about LIMIT, called NAME and SUFFIX, in DIR. */
static int link_file(struct pf_node *dir, const struct pf_kind *kind,
		     struct pf_limit *limit, const char *name, const char *suffix)
{
	struct pf_fs *fs = fs_of(dir);
	struct pf_cred cred = rights_of(fs, limit->account->uid);
	bool own = kind == &kind_max && cred.uid == fs->config.uid;
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *node =
		pf_node_new(dir->tree, kind, limit, own ? 0600 : (mode_t)-1, &cred);
	char file[PF_NAME_MAX + 1];

	snprintf(file, sizeof(file), "%s.%s", name, suffix);
	return node ? pf_dir_link(dir, file, node, false) : -ENOMEM;
}

/* The directory DEVICE in USER, which is made if it does not exist; with a reference, or NULL. */
static struct pf_node *enter(struct pf_node *user, const char *device, size_t len,
			     uid_t uid)
{
	struct pf_cred cred = rights_of(fs_of(user), uid);
	pf_autofree char *name = strndup(device, len);
	struct pf_node *dir = name ? pf_dir_lookup(user, name) : NULL;

	if (dir || !name)
		return dir;
	dir = pf_node_new(user->tree, &kind_user, NULL, (mode_t)-1, &cred);
	if (dir && pf_dir_link(user, name, dir, false) < 0)
		pf_node_unref(pf_steal(&dir));
	return dir;
}

/* Link both files of LIMIT, whose name is PATH, in USER or a directory there. */
static int link_limit(struct pf_node *user, struct pf_limit *limit, const char *path)
{
	const char *slash = strchr(path, '/');
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *dir =
		slash ? enter(user, path, (size_t)(slash - path), limit->account->uid)
		      : pf_node_ref(user);
	const char *name = slash ? slash + 1 : path;
	int r = dir ? link_file(dir, &kind_current, limit, name, "current") : -ENOMEM;

	return r == 0 ? link_file(dir, &kind_max, limit, name, "max") : r;
}

/* Link the directory of ACCOUNT in DIR, users/. */
static int link_user(struct pf_node *dir, struct pf_account *account,
		     struct pf_node **ret)
{
	struct pf_cred cred = rights_of(fs_of(dir), account->uid);
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *node =
		pf_node_new(dir->tree, &kind_user, account, (mode_t)-1, &cred);
	char name[16];
	int r = node ? 0 : -ENOMEM;

	for (unsigned i = 0; r == 0 && i < pf_quota_resources(account->quotas); i++) {
		const char *path = pf_quota_name(account->quotas, i);

		if (path)
			r = link_limit(node, &account->limits[i], path);
	}
	snprintf(name, sizeof(name), "%u", account->uid);
	if (r == 0)
		r = pf_dir_link(dir, name, node, false);
	if (r == 0 && ret)
		*ret = pf_steal(&node);
	return r;
}

/* Is NAME the number of a user, as directories spell it? */
static bool parse_uid(const char *name, uid_t *ret)
{
	char *end, again[24];
	unsigned long uid = strtoul(name, &end, 10);

	snprintf(again, sizeof(again), "%lu", uid);
	*ret = (uid_t)uid;
	return !*end && uid < UINT32_MAX && !strcmp(again, name);
}

static int users_lookup(struct pf_node *dir, const char *name, struct pf_node **ret,
			struct pf_err *err)
{
	struct pf_account *account = NULL;
	uid_t uid;

	if (parse_uid(name, &uid))
		account = pf_account_find(fs_of(dir)->quotas, uid);
	if (!account)
		return pf_err_set(err, -ENOENT, "user %s has used nothing here", name);
	return link_user(dir, account, ret);
}

/* The mount's owner sets the maxima of a user that has not come yet. */
static int users_mkdir(struct pf_node *dir, const char *name, mode_t mode,
		       const struct pf_cred *cred, struct pf_node **ret,
		       struct pf_err *err)
{
	struct pf_account *account;
	uid_t uid;

	(void)mode;
	(void)cred;
	if (!parse_uid(name, &uid))
		return pf_err_set(err, -EINVAL,
				  "%s: expected the number of a user, as id -u prints it",
				  name);
	account = pf_account_of(fs_of(dir)->quotas, uid);
	if (!account)
		return -ENOMEM;
	pf_account_list(account);
	return link_user(dir, account, ret);
}

/* List the accounts that are in use. */
static void users_list(struct pf_node *dir)
{
	struct pf_account **accounts;
	size_t n;

	accounts = pf_accounts(fs_of(dir)->quotas, &n);
	pf_tree_lock_names(dir->tree);
	for (size_t i = 0; accounts && i < n; i++) {
		PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
		char name[16];

		snprintf(name, sizeof(name), "%u", accounts[i]->uid);
		node = pf_dir_lookup(dir, name);
		if (pf_account_in_use(accounts[i])) {
			if (!node)
				(void)link_user(dir, accounts[i], NULL);
		} else if (node) {
			pf_dir_unlink(node);
		}
	}
	pf_tree_unlock_names(dir->tree);
	free(accounts);
}

static const struct pf_dir_ops users_ops = { .lookup = users_lookup,
					     .mkdir = users_mkdir,
					     .list = users_list };
static const struct pf_kind kind_users = {
	.mode = S_IFDIR | 0755,
	.dir = &users_ops,
	.instead = "it has a directory for each user that has something here",
};

int files_add_users(struct pf_fs *fs)
{
	return files_link(pf_tree_root(fs->tree), "users", &kind_users, NULL, NULL);
}
