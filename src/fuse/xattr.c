/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes. */
#include <errno.h>

#include "internal.h"

/* The size 0 asks for the length; what does not fit is refused. */
static void reply_value(fuse_req_t req, int code, const struct pf_buf *value, size_t size)
{
	if (code < 0)
		pf_fuse_code(req, code);
	else if (!size)
		fuse_reply_xattr(req, value->len);
	else if (value->len > size)
		pf_fuse_code(req, -ERANGE);
	else
		fuse_reply_buf(req, value->data, value->len);
}

void pf_fuse_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	pf_autobuf struct pf_buf value = PF_BUF_INIT;
	struct pf_cred cred = pf_fuse_cred(req);
	int r = pf_vfs_get_xattr(pf_fuse_tree(req), ino, name, &cred, &value);

	reply_value(req, r, &value, size);
}

void pf_fuse_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	pf_autobuf struct pf_buf names = PF_BUF_INIT;
	struct pf_cred cred = pf_fuse_cred(req);
	int r = pf_vfs_list_xattr(pf_fuse_tree(req), ino, &cred, &names);

	reply_value(req, r, &names, size);
}

void pf_fuse_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value,
		      size_t size, int flags)
{
	struct pf_cred cred = pf_fuse_cred(req);

	pf_fuse_code(req, pf_vfs_set_xattr(pf_fuse_tree(req), ino, name, value, size,
					   flags, &cred));
}

void pf_fuse_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	struct pf_cred cred = pf_fuse_cred(req);

	pf_fuse_code(req, pf_vfs_remove_xattr(pf_fuse_tree(req), ino, name, &cred));
}
