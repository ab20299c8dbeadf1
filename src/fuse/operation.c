/* SPDX-License-Identifier: Apache-2.0 */
/* The operation that a request of the kernel asks for, for sentences about it. */
#include <linux/fuse.h>
#include <stdint.h>
#include <string.h>

#include "internal.h"

/* NAME_AT: where a name in the inode lies behind the header; 0: it has no name. */
static const struct {
	const char *name;
	uint32_t name_at;
} operations[] = {
	[FUSE_LOOKUP] = { "lookup" },
	[FUSE_GETATTR] = { "getattr" },
	[FUSE_SETATTR] = { "setattr" },
	[FUSE_READLINK] = { "readlink" },
	[FUSE_SYMLINK] = { "symlink", sizeof(struct fuse_in_header) },
	[FUSE_MKNOD] = { "mknod",
			 sizeof(struct fuse_in_header) + sizeof(struct fuse_mknod_in) },
	[FUSE_MKDIR] = { "mkdir",
			 sizeof(struct fuse_in_header) + sizeof(struct fuse_mkdir_in) },
	[FUSE_UNLINK] = { "unlink", sizeof(struct fuse_in_header) },
	[FUSE_RMDIR] = { "rmdir", sizeof(struct fuse_in_header) },
	[FUSE_RENAME] = { "rename",
			  sizeof(struct fuse_in_header) + sizeof(struct fuse_rename_in) },
	[FUSE_RENAME2] = { "rename", sizeof(struct fuse_in_header) +
					     sizeof(struct fuse_rename2_in) },
	[FUSE_CREATE] = { "create",
			  sizeof(struct fuse_in_header) + sizeof(struct fuse_create_in) },
	[FUSE_OPEN] = { "open" },
	[FUSE_READ] = { "read" },
	[FUSE_WRITE] = { "write" },
	[FUSE_STATFS] = { "statfs" },
	[FUSE_RELEASE] = { "release" },
	[FUSE_FSYNC] = { "fsync" },
	[FUSE_SETXATTR] = { "setxattr" },
	[FUSE_GETXATTR] = { "getxattr" },
	[FUSE_LISTXATTR] = { "listxattr" },
	[FUSE_REMOVEXATTR] = { "removexattr" },
	[FUSE_FLUSH] = { "close" },
	[FUSE_OPENDIR] = { "opendir" },
	[FUSE_READDIR] = { "readdir" },
	[FUSE_ACCESS] = { "access" },
	[FUSE_IOCTL] = { "ioctl" },
	[FUSE_POLL] = { "poll" },
	[FUSE_FALLOCATE] = { "fallocate" },
	[FUSE_READDIRPLUS] = { "readdir" },
	[FUSE_LSEEK] = { "lseek" },
	[FUSE_COPY_FILE_RANGE] = { "copy_file_range" },
};

const char *pf_fuse_operation(uint32_t opcode)
{
	const char *name =
		opcode < PF_ARRAY_SIZE(operations) ? operations[opcode].name : NULL;

	return name ? name : "request";
}

const char *pf_fuse_name_in(const struct fuse_in_header *in)
{
	uint32_t at = in->opcode < PF_ARRAY_SIZE(operations)
			      ? operations[in->opcode].name_at
			      : 0;

	/* The kernel ends names with a NUL. */
	return at && at < in->len ? (const char *)in + at : "";
}
