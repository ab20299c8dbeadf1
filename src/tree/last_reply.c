/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last reply of a control file to each user and login session, so that
 * `echo ... > run; cat run` works; at the root, the sentence of their last call that failed.
 *
 * A FUSE reply has a number only.  All calls of vfs.h that fail end here, so that a user finds
 * the reason in one place, whatever the call was.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

/* Take the reply for UID and SID, or else the one at position MAX, off the list, which begins
 * with the one that was used last. */
static struct pf_last_reply *take_locked(struct pf_node *node, uid_t uid, pid_t sid,
					 unsigned max)
{
	struct pf_last_reply **at = &node->priv->last_replies, *r;

	for (unsigned n = 1; (r = *at); at = &r->next, n++)
		if ((r->uid == uid && r->sid == sid) || n == max)
			break;
	if (r)
		*at = r->next;
	return r;
}

static void put_first_locked(struct pf_node *node, struct pf_last_reply *r)
{
	r->next = node->priv->last_replies;
	node->priv->last_replies = r;
}

void pf_last_reply_save(struct pf_node *node, uid_t uid, pid_t sid, const char *line,
			size_t len)
{
	struct pf_last_reply *r, *old;

	if (sid == PF_SID_UNKNOWN)
		return;
	r = malloc(sizeof(*r) + len + 1);
	if (!r)
		return;
	*r = (struct pf_last_reply){ .uid = uid, .sid = sid, .len = len + 1 };
	clock_gettime(CLOCK_MONOTONIC, &r->when);
	clock_gettime(CLOCK_REALTIME, &r->made);
	memcpy(r->line, line, len);
	r->line[len] = '\n';
	pf_lock(&node->tree->lock);
	old = take_locked(node, uid, sid, PF_CONTROL_LAST_REPLIES);
	put_first_locked(node, r);
	pf_unlock(&node->tree->lock);
	free(old);
}

void pf_last_reply_get(struct pf_node *node, uid_t uid, pid_t sid, struct pf_buf *out)
{
	struct pf_last_reply *r;

	if (sid == PF_SID_UNKNOWN)
		return;
	PF_LOCK_SCOPE(&node->tree->lock);
	r = take_locked(node, uid, sid, 0);
	if (!r)
		return;
	put_first_locked(node, r);
	pf_buf_append(out, r->line, r->len);
}

pid_t pf_cred_session(const struct pf_cred *cred)
{
	if (cred->sid != PF_SID_UNKNOWN)
		return cred->sid;
	return cred->pid > 0 ? getsid(cred->pid) : PF_SID_UNKNOWN; /* -1 as well */
}

enum { PATH_SHOWN = 256 }; /* bytes of a path's end that a sentence has */

/* Is CODE an answer after which the kernel or a library tries another way? */
static bool is_noise(int code)
{
	return code == -EINTR || code == -EAGAIN || code == -ESTALE || code == -EXDEV ||
	       code == -ENOTCONN;
}

static void put_path(struct pf_node *node, const char *name, struct pf_buf *out)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	size_t skip = 0;

	pf_node_path(node, NULL, &path);
	if (!path.len && node->kind->path)
		node->kind->path(node, &path);
	if (name && path.len)
		pf_buf_puts(&path, "/");
	if (name)
		pf_buf_puts(&path, name);
	if (path.failed || !path.len)
		return;
	if (path.len > PATH_SHOWN)
		skip = path.len - PATH_SHOWN;
	pf_buf_printf(out, " %s%s", skip ? "..." : "", path.data + skip);
}

int pf_refused(struct pf_node *node, const char *name, const struct pf_cred *cred,
	       const char *doing, int code, const struct pf_err *err)
{
	pf_autobuf struct pf_buf line = PF_BUF_INIT;
	pid_t sid;

	if (code >= 0 || is_noise(code))
		return code;
	sid = pf_cred_session(cred);
	if (sid == PF_SID_UNKNOWN)
		return code;
	pf_buf_puts(&line, doing);
	put_path(node, name, &line);
	pf_buf_clean(&line, 0); /* the name may have control characters, ERR has none */
	pf_buf_printf(&line, ": %s", err && err->text[0] ? err->text : strerror(-code));
	if (!line.failed)
		pf_last_reply_save(node->tree->root, cred->uid, sid, line.data, line.len);
	return code;
}

void pf_reply_refused(struct pf_reply *reply, int code)
{
	struct pf_cred asker = { .uid = reply->uid,
				 .pid = reply->pid,
				 .sid = PF_SID_UNKNOWN };

	if (reply->doing && reply->held)
		pf_refused(reply->held->node, NULL, &asker, reply->doing, code,
			   reply->why);
}

/* The last refusal of session SID of UID; else that of any session of theirs; NULL: none. */
static const struct pf_last_reply *find_refusal_locked(struct pf_node *root, uid_t uid,
						       pid_t sid)
{
	const struct pf_last_reply *last = NULL;

	for (const struct pf_last_reply *r = root->priv->last_replies; r; r = r->next) {
		if (r->uid != uid)
			continue;
		if (r->sid == sid && sid != PF_SID_UNKNOWN)
			return r;
		if (!last || pf_seconds_between(&last->when, &r->when) > 0)
			last = r;
	}
	return last;
}

bool pf_vfs_refused_at(struct pf_tree *tree, const struct pf_cred *cred,
		       struct timespec *ret)
{
	pid_t sid = pf_cred_session(cred);
	const struct pf_last_reply *last;

	PF_LOCK_SCOPE(&tree->lock);
	last = find_refusal_locked(tree->root, cred->uid, sid);
	if (last)
		*ret = last->made;
	return last;
}

/* Print the last refusal of any session of UID, marked. */
static void print_of_other_session(struct pf_node *root, uid_t uid, struct pf_buf *out)
{
	const struct pf_last_reply *last;

	PF_LOCK_SCOPE(&root->tree->lock);
	last = find_refusal_locked(root, uid, PF_SID_UNKNOWN);
	if (last)
		pf_buf_printf(out, "%.*s (another login session of yours, %.0f s ago)\n",
			      (int)last->len - 1, last->line,
			      pf_seconds_since(CLOCK_MONOTONIC, &last->when));
}

void pf_vfs_refusal(struct pf_tree *tree, const struct pf_cred *cred, struct pf_buf *out)
{
	pf_last_reply_get(tree->root, cred->uid, pf_cred_session(cred), out);
	if (!out->len)
		print_of_other_session(tree->root, cred->uid, out);
}

void pf_vfs_refuse(struct pf_tree *tree, uint64_t ino, const char *name,
		   const struct pf_cred *cred, const char *doing,
		   const struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = pf_tree_by_ino(tree, ino);

	if (node)
		pf_refused(node, *name ? name : NULL, cred, doing, err->code, err);
}

int pf_vfs_not_made(struct pf_tree *tree, uint64_t parent, const char *name,
		    const struct pf_cred *cred, const char *what)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = pf_tree_by_ino(tree, parent);
	struct pf_err err = PF_ERR_INIT;

	if (!dir)
		return -ENOENT;
	pf_err_set(&err, -EPERM, "there are no %s here: copy the file", what);
	return pf_refused(dir, name, cred, "make", -EPERM, &err);
}
