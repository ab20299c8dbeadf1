/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sentence of the last call that failed, for each user and login session.
 *
 * A FUSE reply has a number only.  All calls of vfs.h that fail end here, so that a user finds
 * the reason in one place, whatever the call was.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

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
	struct pf_cred as;

	if (code >= 0 || is_noise(code))
		return code;
	as = *cred;
	as.sid = pf_cred_session(cred);
	if (as.sid == PF_SID_UNKNOWN)
		return code;
	pf_buf_puts(&line, doing);
	put_path(node, name, &line);
	if (!line.failed) /* the name may have control characters, ERR has none */
		line.len = pf_err_clean(line.data, line.len);
	pf_buf_printf(&line, ": %s", err && err->text[0] ? err->text : strerror(-code));
	if (line.failed)
		return code;
	pf_last_reply_save(node->tree->root, &as, line.data, line.len);
	return code;
}

int pf_open_refused(struct pf_open *of, const char *doing, int code,
		    const struct pf_err *err)
{
	return pf_refused(of->node, NULL, &of->cred, doing, code, err);
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

void pf_vfs_refusal(struct pf_tree *tree, const struct pf_cred *cred, struct pf_buf *out)
{
	struct pf_cred as = *cred;

	as.sid = pf_cred_session(cred);
	pf_last_reply_get(tree->root, &as, out);
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
