/* SPDX-License-Identifier: Apache-2.0 */
/* What files and directories do: one static const table per kind. */
#ifndef PJRTFS_TREE_KIND_H
#define PJRTFS_TREE_KIND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "pjrtfs/base/buf.h"
#include "pjrtfs/base/err.h"
#include "pjrtfs/tree/cred.h"
#include "pjrtfs/tree/reply.h"

struct pf_node;
struct pf_open;
struct pf_command;

/* Why bytes are committed. */
enum pf_commit {
	PF_COMMIT_FLUSH, /* close(2): its errno is the answer */
	PF_COMMIT_FSYNC, /* fsync(2): incomplete bytes are no error */
};

/*
 * A directory whose names users change.  All ops are optional: a missing one answers EPERM
 * (lookup: ENOENT).  They only touch tables and do not block; slow work that they cause
 * runs behind.  They run with the tree's name lock held (see node.h) and return 0, or
 * -errno with *err filled, but for list.
 */
struct pf_dir_ops {
	/* NAME is not linked: an unlisted node for it in *ret, with a reference. */
	int (*lookup)(struct pf_node *dir, const char *name, struct pf_node **ret,
		      struct pf_err *err);
	/* DIR is about to be listed: link and unlink what came and went elsewhere.  The name
	 * lock is not held. */
	void (*list)(struct pf_node *dir);
	/* Make the regular file NAME and link it; *ret has a reference. */
	int (*create)(struct pf_node *dir, const char *name, mode_t mode,
		      const struct pf_cred *cred, struct pf_node **ret,
		      struct pf_err *err);
	int (*mkdir)(struct pf_node *dir, const char *name, mode_t mode,
		     const struct pf_cred *cred, struct pf_node **ret,
		     struct pf_err *err);
	/* Unlink NODE, which is in DIR, or found by its lookup. */
	int (*unlink)(struct pf_node *dir, struct pf_node *node, struct pf_err *err);
	/* Unlink NODE.  The tree has refused one that holds nodes which its kind did not
	 * list (-ENOTEMPTY), here and when rename replaces a directory. */
	int (*rmdir)(struct pf_node *dir, struct pf_node *node, struct pf_err *err);
	/* Move NODE of DIR to NAME in TO (any directory); FLAGS as renameat2(2). */
	int (*rename)(struct pf_node *dir, struct pf_node *node, struct pf_node *to,
		      const char *name, unsigned flags, struct pf_err *err);
};

enum { PF_SLOW_NODES = 8 };

/*
 * A file is one of five shapes: directory; text (show); control (command); bytes (read,
 * write, commit); exchange (send, read).  A missing op makes the tree answer EACCES at
 * open: no show, command or read for reading; no command, write or send for writing.  Ops run with no tree lock held,
 * at most one at a time per open file, on threads that serve everyone: show, read, write
 * and truncate return soon; what may take long keeps its reply and answers later.
 */
struct pf_kind {
	const char *name; /* entry name; NULL = named by the parent */
	mode_t mode;      /* S_IFREG|perm, S_IFDIR|perm or S_IFLNK|0777 */
	size_t max_write; /* bytes: writing or truncating beyond is EFBIG; 0 = no limit */
	const struct pf_kind *const *children; /* directory: NULL-terminated, or NULL */
	const struct pf_dir_ops *dir;
	const char
		*instead; /* directory: what to do where dir has no function for a change
			      * of names, as the end of a sentence; or NULL */
	/* Its functions, or those for names in it, may wait for a disk: only for nodes of the
	 * fixed part of the tree, PF_SLOW_NODES at most. */
	bool slow;

	/* Text: print the whole content; served as a snapshot taken at open.  stat prints
	 * it too, to tell the true size. */
	int (*show)(struct pf_node *node, struct pf_buf *out, struct pf_err *err);
	/* Text that must be fetched first: called at open, before show. */
	void (*prepare)(struct pf_open *of, struct pf_reply *reply);

	/* Control: run one command, and answer it once with pf_command_done (ctl.h). */
	void (*command)(struct pf_command *command);
	bool json; /* commands are JSON objects; else they are lines */
	/* Whoever gave COMMAND, which runs, was interrupted and has closed the file: nobody will
	 * hear of it.  Called with the session's lock held: it must not answer, nor block. */
	void (*left)(struct pf_command *command);

	/* Bytes. */
	int (*open)(struct pf_open *of, struct pf_err *err);
	void (*release)(struct pf_open *of);
	void (*read)(struct pf_open *of, size_t len, uint64_t off,
		     struct pf_reply *reply);
	/* Returns the count taken (> 0), or -errno. */
	ssize_t (*write)(struct pf_open *of, const void *src, size_t len, uint64_t off,
			 struct pf_err *err);
	/* The writer is done; called only if the file was written since the last commit,
	 * so a second flush of a dup'd descriptor is a no-op. */
	void (*commit)(struct pf_open *of, enum pf_commit why, struct pf_reply *reply);
	/* O_TRUNC, truncate(2) and ftruncate(2); OF is NULL for truncate(2). */
	int (*truncate)(struct pf_node *node, struct pf_open *of, uint64_t size,
			struct pf_err *err);

	/*
	 * Exchange: as write, but it may wait; answers with pf_reply_count.  Every open is a
	 * conversation of its own, in which positions mean nothing; send and read may run at
	 * once, and know by themselves what is to be said next.
	 */
	void (*send)(struct pf_open *of, const void *src, size_t len,
		     struct pf_reply *reply);

	/*
	 * copy_file_range(2): take up to LEN bytes at FROM_OFF of FROM, which may be open
	 * at any kind of node (-EXDEV: not from this one, so the kernel's caller copies by
	 * reading and writing), and put them at OFF of OF.  Returns the count taken, 0 at
	 * FROM's end, or -errno.  Counts as a write of OF.  Both opens are locked (FROM
	 * may be OF, or another open of its node).
	 */
	ssize_t (*copy)(struct pf_open *of, uint64_t off, struct pf_open *from,
			uint64_t from_off, size_t len, struct pf_err *err);
	/* fallocate(2): MODE as there; -EOPNOTSUPP for a mode it has not.  Counts as a
	 * write, unless MODE only takes room or the size stays. */
	int (*allocate)(struct pf_open *of, int mode, uint64_t off, uint64_t len,
			struct pf_err *err);

	/*
	 * poll(2): which of POLLIN and POLLOUT there are for OF now; when there may be more,
	 * pf_node_ready is to be called.  Without this op all of them, always.  Texts that
	 * have it are shown anew to who reads from the start: wait, rewind, read.
	 */
	short (*poll)(struct pf_open *of);

	/*
	 * Extended attributes; names have their prefix ("user.pjrtfs.dtype").  get appends
	 * the value (-ENODATA: there is none of that name), list each name with its NUL.
	 * set: FLAGS as setxattr(2); -EOPNOTSUPP for a name that is not the kind's;
	 * -EINVAL for a bad value.  remove: the tree has seen that it is there;
	 * without this op it is -EPERM.
	 */
	int (*get_xattr)(struct pf_node *node, const char *name, struct pf_buf *out,
			 struct pf_err *err);
	int (*list_xattr)(struct pf_node *node, struct pf_buf *out, struct pf_err *err);
	int (*set_xattr)(struct pf_node *node, const char *name, const void *value,
			 size_t len, int flags, struct pf_err *err);
	int (*remove_xattr)(struct pf_node *node, const char *name, struct pf_err *err);

	/* Fill what the node knows better than the tree: size, blocks, mtime.  st_size
	 * and st_blocks are -1 before; left so, show is called for the size. */
	void (*getattr)(struct pf_node *node, struct stat *st);
	/* 0: st_size is what a reader gets.  Else the file must be opened to learn that, and
	 * this, in bytes, is no less. */
	uint64_t (*size_bound)(struct pf_node *node);
	/* A file that is another to each user: as getattr, for who asks as CRED, by an open OF
	 * of it (which is locked) or by name (NULL). */
	void (*getattr_as)(struct pf_node *node, const struct pf_cred *cred,
			   struct pf_open *of, struct stat *st);
	/* Owner, mode or times were changed by a user: keep them elsewhere too. */
	void (*setattr)(struct pf_node *node);
	/* Symbolic link: its target. */
	int (*readlink)(struct pf_node *node, struct pf_buf *out);
	/* The last reference to a node is gone: drop node->object. */
	void (*free)(struct pf_node *node);
};

/* Has each open of such a file something of its own to say?  Control and exchange. */
static inline bool pf_kind_converses(const struct pf_kind *kind)
{
	return kind->command || kind->send;
}

#endif
