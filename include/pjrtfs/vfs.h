/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File operations on a tree, for a front end (FUSE, or a test), which compares permission bits
 * first, as the kernel does with default_permissions: the functions here do not.
 *
 * Functions return 0 or -errno, or answer a pf_reply.  Inode numbers are the tree's; one that it
 * does not have (of a file without a name, which was not open when the daemon was restarted) is
 * -ESTALE, after which the kernel looks the name up again.  A
 * successful lookup, create or mkdir adds one to the node's lookup count, and pf_vfs_forget
 * subtracts: a node lives while it is linked, open, or its count is not 0.  CRED is the caller's.
 */
#ifndef PJRTFS_VFS_H
#define PJRTFS_VFS_H

#include "pjrtfs/kind.h"

struct pf_tree;

/* Which of struct stat's fields pf_vfs_setattr sets: FUSE's bits. */
enum {
	PF_SET_MODE = 1,
	PF_SET_UID = 2,
	PF_SET_GID = 4,
	PF_SET_SIZE = 8,
	PF_SET_ATIME = 16,
	PF_SET_MTIME = 32,
};

/* NAME in directory PARENT ("." and ".." too); *ST has its attributes. */
int pf_vfs_lookup(struct pf_tree *tree, uint64_t parent, const char *name,
		  struct stat *st);

/*
 * The number of INO to give to the kernel for a lookup by thread ASKER (0: not known).  The kernel
 * locks an inode as long as a write to it waits, and a process that waits for that lock cannot be
 * killed.  So each open of a stream gets a number of its own, as if it were another file: INO
 * with bits above bit PF_INO_BITS.  Other files: INO.  All functions take such numbers; st_ino
 * has no such bits.
 */
enum { PF_INO_BITS = 40 };
uint64_t pf_vfs_alias(struct pf_tree *tree, uint64_t ino, pid_t asker);

/*
 * How a front end may treat INO, a mask:
 *
 *   PF_KEEP_NAME    cache that its name is this file
 *   PF_KEEP_ATTR    cache its attributes until pf_tree_set_notify's function is called
 *   PF_ATTR_VARIES  never cache its attributes: they differ between callers, or the size is a
 *                   bound that the next open makes exact
 *   PF_STREAM       its size is not its end, and reads of its pages fail
 */
enum { PF_KEEP_NAME = 1, PF_KEEP_ATTR = 2, PF_ATTR_VARIES = 4, PF_STREAM = 8 };
unsigned pf_vfs_keeps(struct pf_tree *tree, uint64_t ino);

/* May a request for INO, or for a name in it, wait for a disk?  A front end should serve others
 * meanwhile.  Takes no lock. */
bool pf_vfs_is_slow(const struct pf_tree *tree, uint64_t ino);

/* The kernel forgets N lookups of INO. */
void pf_vfs_forget(struct pf_tree *tree, uint64_t ino, uint64_t n);

/*
 * st_ino, st_mode, st_nlink, st_uid, st_gid, st_size, st_blocks, st_blksize (1 MiB) and times, as
 * CRED sees them by the open file OF, or by name if that is NULL.  The size is the number of bytes
 * that a reader gets; where only a reader learns it, it is an upper bound by name, and 0 for an
 * open file.  The size of a control file is that of the replies that can be read there.
 */
int pf_vfs_getattr(struct pf_tree *tree, uint64_t ino, const struct pf_cred *cred,
		   struct pf_open *of, struct stat *st);

/*
 * Change attributes as chmod, chown, truncate and utimensat do; MASK is of PF_SET_*; OF is
 * the open file for ftruncate, else NULL.  Streams accept and ignore a size.  If any user sets an
 * owner, or a user other than uid 0 a size, the file loses S_ISUID and, with S_IXGRP, S_ISGID.
 */
int pf_vfs_setattr(struct pf_tree *tree, uint64_t ino, const struct stat *to, int mask,
		   struct pf_open *of, const struct pf_cred *cred, struct stat *ret);

/*
 * Extended attributes, as getxattr(2), listxattr(2), setxattr(2), removexattr(2): names with
 * their prefix, in lists each with its NUL.  -ENODATA: no attribute has that name; -EPERM: it
 * cannot be removed; -EOPNOTSUPP: none can be set.
 */
int pf_vfs_get_xattr(struct pf_tree *tree, uint64_t ino, const char *name,
		     struct pf_buf *ret);
int pf_vfs_list_xattr(struct pf_tree *tree, uint64_t ino, struct pf_buf *ret);
int pf_vfs_set_xattr(struct pf_tree *tree, uint64_t ino, const char *name,
		     const void *value, size_t len, int flags,
		     const struct pf_cred *cred);
int pf_vfs_remove_xattr(struct pf_tree *tree, uint64_t ino, const char *name,
			const struct pf_cred *cred);

int pf_vfs_readlink(struct pf_tree *tree, uint64_t ino, struct pf_buf *ret);

int pf_vfs_mkdir(struct pf_tree *tree, uint64_t parent, const char *name, mode_t mode,
		 const struct pf_cred *cred, struct stat *st);
/* rmdir(2) if DIRECTORY, else unlink(2). */
int pf_vfs_remove(struct pf_tree *tree, uint64_t parent, const char *name, bool directory,
		  const struct pf_cred *cred);
int pf_vfs_rename(struct pf_tree *tree, uint64_t parent, const char *name, uint64_t to,
		  const char *to_name, unsigned flags, const struct pf_cred *cred);

/*
 * Open INO and answer REPLY; on success *RET gets the open file before the answer, which the front
 * end releases with pf_vfs_release.  Kinds with a prepare op answer later: RET must stay valid
 * until the answer.  If the opener was interrupted, the tree releases the open file itself and
 * leaves *RET NULL.
 */
void pf_vfs_open(struct pf_tree *tree, uint64_t ino, int flags,
		 const struct pf_cred *cred, struct pf_open **ret,
		 struct pf_reply *reply);

/* O_CREAT: make NAME in PARENT, or open it if it is there (O_EXCL: EEXIST). */
int pf_vfs_create(struct pf_tree *tree, uint64_t parent, const char *name, mode_t mode,
		  int flags, const struct pf_cred *cred, struct stat *st,
		  struct pf_open **ret);

void pf_vfs_read(struct pf_open *of, size_t len, uint64_t off, struct pf_reply *reply);
/* As pf_vfs_read, for pages, which all mappings of the file share: another open than OF may read
 * them. */
void pf_vfs_read_mapped(struct pf_open *of, size_t len, uint64_t off,
			struct pf_reply *reply);

void pf_vfs_write(struct pf_open *of, const void *src, size_t len, uint64_t off,
		  struct pf_reply *reply);

/* As pf_vfs_write, for bytes that a process wrote through a mapping of the file, by any open that
 * may write, perhaps after its FLUSH. */
void pf_vfs_write_mapped(struct pf_open *of, const void *src, size_t len, uint64_t off,
			 struct pf_reply *reply);

/*
 * copy_file_range(2): the count of bytes copied, 0 at FROM's end; -EBADF; -EFBIG; -EXDEV: the
 * caller must read and write instead.  Does not wait.
 */
ssize_t pf_vfs_copy(struct pf_open *of, uint64_t off, struct pf_open *from,
		    uint64_t from_off, size_t len);

/* fallocate(2) with MODE: 0; -EBADF; -EFBIG; -EINVAL; -EOPNOTSUPP.  Does not wait. */
int pf_vfs_allocate(struct pf_open *of, int mode, uint64_t off, uint64_t len);

/* poll(2): a mask of POLLIN and POLLOUT.  PF_CHANGED_READY comes when there may be more. */
short pf_vfs_poll(struct pf_open *of);

/*
 * FLUSH (one close(2) of perhaps several) by process PID, and fsync(2).  If PID is dying of a
 * signal, the FLUSH commits nothing (proc_pid_stat(5): flags & PF_EXITING, exit_code & 127).
 */
void pf_vfs_flush(struct pf_open *of, pid_t pid, struct pf_reply *reply);
void pf_vfs_fsync(struct pf_open *of, struct pf_reply *reply);

/*
 * The kernel has dropped its last reference to OF, also those of mappings.  Bytes that mappings
 * wrote after the last FLUSH are committed on the way; a failure of that is lost.
 */
void pf_vfs_release(struct pf_open *of);

/*
 * This process is about to end, and another one to serve: let the conversations that are under way end,
 * for up to MS.  What begins one is not answered any more, so the front end must get it again there.
 */
void pf_vfs_settle(struct pf_tree *tree, unsigned ms);

/* Write OF's record to the journal (state.h), by OF->handle, which is not 0. */
void pf_vfs_keep_open(struct pf_open *of);

/*
 * The open file of an earlier life by HANDLE, of which the journal has a record: open it again,
 * with its handle, unique and poll_handle, and without truncating; *RET is the front end's.  What
 * a conversation had not finished is lost: the first read or write of a stream is EIO.  -errno:
 * it cannot be opened, and the record is dropped.
 */
int pf_vfs_reopen(struct pf_tree *tree, uint64_t handle, struct pf_open **ret);

/* A directory listing of one moment: "." and ".." first.  Positions ascend, are not 0, and are the
 * same in all listings of the directory for as long as the name is linked. */
struct pf_listing {
	size_t n;
	struct pf_listing_entry {
		char *name;
		uint64_t ino;
		uint64_t position;
		mode_t mode;
	} * entries;
};
int pf_vfs_list(struct pf_tree *tree, uint64_t ino, struct pf_listing **ret);
void pf_listing_free(struct pf_listing *listing);

/*
 * Append to OUT the sentence of the last of these calls that failed for CRED's user in CRED's
 * login session (cred.sid, or that of cred.pid if it is PF_SID_UNKNOWN), with a newline:
 * "rename programs/a.mlir: ..."; else that of the user's other session that failed last, marked.
 * Nothing if none failed, or PF_CONTROL_LAST_REPLIES other users
 * and sessions have had a failure since.  Failures of lookups are not kept, nor interrupts, nor
 * those after which the kernel repeats or replaces the call (ESTALE, EXDEV, EAGAIN).
 */
void pf_vfs_refusal(struct pf_tree *tree, const struct pf_cred *cred, struct pf_buf *out);

/* When that call failed, by CLOCK_REALTIME.  False: none did. */
bool pf_vfs_refused_at(struct pf_tree *tree, const struct pf_cred *cred,
		       struct timespec *ret);

/* CRED's request DOING ("create"), for INO or NAME in it, is refused for ERR: keep the sentence. */
void pf_vfs_refuse(struct pf_tree *tree, uint64_t ino, const char *name,
		   const struct pf_cred *cred, const char *doing,
		   const struct pf_err *err);

/* A caller wants to make NAME in PARENT a file of a type that does not exist here, WHAT ("symbolic
 * links").  Keeps a sentence and returns -EPERM. */
int pf_vfs_not_made(struct pf_tree *tree, uint64_t parent, const char *name,
		    const struct pf_cred *cred, const char *what);

#endif
