/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File operations on a tree: what a front end (FUSE, or a test) calls.
 *
 * Functions return 0 or -errno, or answer a pf_reply.  Inode numbers are the tree's.  A
 * successful lookup, create or mkdir adds one to the node's lookup count, which
 * pf_vfs_forget takes back: the node stays while it is linked, open, or looked up.
 */
#ifndef PJRTFS_VFS_H
#define PJRTFS_VFS_H

#include "pjrtfs/kind.h"

/* Which of struct stat's fields pf_vfs_setattr sets. */
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
 * The number by which ASKER, a thread, should know INO now.  A kernel locks a file for as long as
 * a write to it waits, and who waits for that lock cannot be killed; the opens of a control
 * file have nothing in common but its name, so each gets a number of its own, as if it were
 * a file of its own: INO with bits set above bit PF_INO_BITS.  ASKER is 0 if it is not known.
 * Other files: INO.  All functions take either; st_ino is always the plain one.
 */
enum { PF_INO_BITS = 40 };
uint64_t pf_vfs_alias(struct pf_tree *tree, uint64_t ino, pid_t asker);

/*
 * What a front end may do with INO, a mask:
 *
 *   PF_KEEP_NAME    cache that its name is this file
 *   PF_KEEP_ATTR    cache its attributes until pf_tree_set_notify's function is called
 *   PF_ATTR_VARIES  never cache its attributes: they differ between callers, or the size is a
 *                   bound that the next open makes exact
 *   PF_STREAM       take no size for its end; reads of its pages fail
 */
enum { PF_KEEP_NAME = 1, PF_KEEP_ATTR = 2, PF_ATTR_VARIES = 4, PF_STREAM = 8 };
unsigned pf_vfs_keeps(struct pf_tree *tree, uint64_t ino);

/* May a request for INO, or for a name in it, wait for a disk?  Such ones should not keep others
 * waiting.  Takes no lock. */
bool pf_vfs_is_slow(const struct pf_tree *tree, uint64_t ino);

/* The kernel forgets N lookups of INO. */
void pf_vfs_forget(struct pf_tree *tree, uint64_t ino, uint64_t n);

/*
 * st_ino, st_mode, st_nlink, st_uid, st_gid, st_size, st_blocks, st_blksize (1 MiB) and times, as
 * CRED sees them by the open file OF, or by name if that is NULL.  The size is what a reader
 * gets, or, where only an opening tells that, no less, or 0.  A control file's is that of the
 * replies that are to be read there.
 */
int pf_vfs_getattr(struct pf_tree *tree, uint64_t ino, const struct pf_cred *cred,
		   struct pf_open *of, struct stat *st);

/*
 * Change attributes as chmod, chown, truncate and utimensat do; MASK is of PF_SET_*; OF is
 * the open file for ftruncate, else NULL; CRED's rights are checked (the owner and uid 0
 * may chmod and set times, uid 0 may chown, W_OK is needed for the size and for setting
 * times to now).  Control files accept and ignore a size.  A size or an owner that somebody
 * but uid 0 sets takes a file's S_ISUID and, with S_IXGRP, its S_ISGID.
 */
int pf_vfs_setattr(struct pf_tree *tree, uint64_t ino, const struct stat *to, int mask,
		   struct pf_open *of, const struct pf_cred *cred, struct stat *ret);

/*
 * Extended attributes, as getxattr(2), listxattr(2), setxattr(2), removexattr(2): names with
 * their prefix, list: each with its NUL.  Getting and listing needs R_OK, the rest W_OK.
 * What a kind has cannot be removed (-EPERM).  -ENODATA: there is none of that name;
 * -EOPNOTSUPP: none can be set.
 */
int pf_vfs_get_xattr(struct pf_tree *tree, uint64_t ino, const char *name,
		     const struct pf_cred *cred, struct pf_buf *ret);
int pf_vfs_list_xattr(struct pf_tree *tree, uint64_t ino, const struct pf_cred *cred,
		      struct pf_buf *ret);
int pf_vfs_set_xattr(struct pf_tree *tree, uint64_t ino, const char *name,
		     const void *value, size_t len, int flags,
		     const struct pf_cred *cred);
int pf_vfs_remove_xattr(struct pf_tree *tree, uint64_t ino, const char *name,
			const struct pf_cred *cred);

int pf_vfs_readlink(struct pf_tree *tree, uint64_t ino, struct pf_buf *ret);

/* PARENT's permissions are checked (W_OK, sticky bit), as in all calls that change names. */
int pf_vfs_mkdir(struct pf_tree *tree, uint64_t parent, const char *name, mode_t mode,
		 const struct pf_cred *cred, struct stat *st);
int pf_vfs_unlink(struct pf_tree *tree, uint64_t parent, const char *name,
		  const struct pf_cred *cred);
int pf_vfs_rmdir(struct pf_tree *tree, uint64_t parent, const char *name,
		 const struct pf_cred *cred);
int pf_vfs_rename(struct pf_tree *tree, uint64_t parent, const char *name, uint64_t to,
		  const char *to_name, unsigned flags, const struct pf_cred *cred);

/*
 * Open: REPLY is answered with success, when *RET holds the open file, or a failure.  Kinds
 * with a prepare op answer later; RET must stay valid until the answer.  The front end
 * calls pf_vfs_release once for each open that succeeded.  If the opener was interrupted
 * meanwhile, the tree releases the open itself and leaves *RET NULL.
 */
void pf_vfs_open(struct pf_tree *tree, uint64_t ino, int flags,
		 const struct pf_cred *cred, struct pf_open **ret,
		 struct pf_reply *reply);

/* O_CREAT: make NAME in PARENT, or open it if it is there (O_EXCL: EEXIST). */
int pf_vfs_create(struct pf_tree *tree, uint64_t parent, const char *name, mode_t mode,
		  int flags, const struct pf_cred *cred, struct stat *st,
		  struct pf_open **ret);

void pf_vfs_read(struct pf_open *of, size_t len, uint64_t off, struct pf_reply *reply);
/* As pf_vfs_read, for pages that all who map the file share: it need not be OF's opening
 * that tells what they hold. */
void pf_vfs_read_mapped(struct pf_open *of, size_t len, uint64_t off,
			struct pf_reply *reply);

void pf_vfs_write(struct pf_open *of, const void *src, size_t len, uint64_t off,
		  struct pf_reply *reply);

/* As pf_vfs_write, but what came was written through a mapping of the file, by anybody who
 * has it open to write, perhaps after that one's FLUSH. */
void pf_vfs_write_mapped(struct pf_open *of, const void *src, size_t len, uint64_t off,
			 struct pf_reply *reply);

/*
 * copy_file_range(2): the count taken, 0 at FROM's end; -EBADF; -EFBIG; -EXDEV: read and
 * write instead.  Does not wait.
 */
ssize_t pf_vfs_copy(struct pf_open *of, uint64_t off, struct pf_open *from,
		    uint64_t from_off, size_t len);

/* fallocate(2) with MODE: 0; -EBADF; -EFBIG; -EINVAL; -EOPNOTSUPP.  Does not wait. */
int pf_vfs_allocate(struct pf_open *of, int mode, uint64_t off, uint64_t len);

/* poll(2): a mask of POLLIN and POLLOUT.  PF_CHANGED_READY tells when to ask again. */
short pf_vfs_poll(struct pf_open *of);

/*
 * FLUSH (one close(2) of perhaps several) by process PID, and fsync.  A dirty FLUSH whose
 * caller is dying of a signal commits nothing: /proc/PID/stat tells (flags & PF_EXITING,
 * exit_code & 127).
 */
void pf_vfs_flush(struct pf_open *of, pid_t pid, struct pf_reply *reply);
void pf_vfs_fsync(struct pf_open *of, struct pf_reply *reply);

/*
 * The last reference to the open file is gone, also that of mappings.  What they wrote
 * after the last FLUSH is committed behind: nobody hears how that ends.
 */
void pf_vfs_release(struct pf_open *of);

/* A directory listing taken at one moment: "." and ".." first. */
struct pf_listing {
	size_t n;
	struct pf_listing_entry {
		char *name;
		uint64_t ino;
		mode_t mode;
	} * entries;
};
int pf_vfs_list(struct pf_tree *tree, uint64_t ino, struct pf_listing **ret);
void pf_listing_free(struct pf_listing *listing);

/*
 * The sentence of the last of these calls that was refused to CRED's user in CRED's login
 * session (cred.sid, or, where that is PF_SID_UNKNOWN, that of cred.pid), with its newline,
 * is appended to OUT: "rename programs/a.mlir: ...".  Nothing if there was none, or longer ago
 * than those of PF_CONTROL_LAST_REPLIES others.  Lookups are not kept, nor interrupts, nor what
 * makes the kernel ask again or otherwise (ESTALE, EXDEV, EAGAIN).
 */
void pf_vfs_refusal(struct pf_tree *tree, const struct pf_cred *cred, struct pf_buf *out);

/* NAME in PARENT was to be made a kind of file, WHAT ("symbolic links"), that there is none of:
 * -EPERM, with a sentence. */
int pf_vfs_not_made(struct pf_tree *tree, uint64_t parent, const char *name,
		    const struct pf_cred *cred, const char *what);

#endif
