/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of files: a static const table of functions for each, and the opens that they get. */
#ifndef PJRTFS_KIND_H
#define PJRTFS_KIND_H

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "pjrtfs/base.h"
#include "pjrtfs/reply.h"

struct pf_command;
struct pf_node;

/*
 * A directory whose names users change.  All ops are optional: a missing one answers EPERM
 * (lookup: ENOENT).  They only change tables and do not block; slow work that they cause
 * runs on other threads.  The tree calls them, but for list, with its name lock held; they
 * return 0, or -errno with *err filled.
 */
struct pf_dir_ops {
	/* NAME is not linked: *ret gets an unlisted node for it, with a reference. */
	int (*lookup)(struct pf_node *dir, const char *name, struct pf_node **ret,
		      struct pf_err *err);
	/* DIR is about to be listed: link and unlink nodes for names that appeared or
	 * disappeared outside the tree.  The name lock is not held. */
	void (*list)(struct pf_node *dir);
	/* Make the regular file NAME and link it; *ret has a reference. */
	int (*create)(struct pf_node *dir, const char *name, mode_t mode,
		      const struct pf_cred *cred, struct pf_node **ret,
		      struct pf_err *err);
	int (*mkdir)(struct pf_node *dir, const char *name, mode_t mode,
		     const struct pf_cred *cred, struct pf_node **ret,
		     struct pf_err *err);
	/* Unlink NODE, which is linked in DIR or came from its lookup. */
	int (*unlink)(struct pf_node *dir, struct pf_node *node, struct pf_err *err);
	/* Unlink NODE, a directory that holds no nodes but its kind's children: the tree has
	 * answered ENOTEMPTY for others, as it does when rename replaces a directory. */
	int (*rmdir)(struct pf_node *dir, struct pf_node *node, struct pf_err *err);
	/* Move NODE of DIR to NAME in TO (any directory); FLAGS as renameat2(2).  The tree has
	 * answered where both names lead to one node; EEXIST with RENAME_NOREPLACE; ENOENT with
	 * RENAME_EXCHANGE, and without it EISDIR, ENOTDIR and ENOTEMPTY. */
	int (*rename)(struct pf_node *dir, struct pf_node *node, struct pf_node *to,
		      const char *name, unsigned flags, struct pf_err *err);
};

enum { PF_SLOW_NODES = 8 };

/*
 * A file has one of four shapes: directory; text (show or show_as, and write or send if it can be
 * written); bytes (read, write, commit); stream (send, read).  A file that is not a text and has no read cannot be opened to be read, one
 * without write and send not to be written (EACCES).  The tree calls ops with none of its locks held, at most one
 * at a time per open file (but for streams), on the threads that serve all users: show, read,
 * write and truncate do not block; an op that takes long keeps its reply and answers later.
 */
struct pf_kind {
	const char *name; /* entry name; NULL = named by the parent */
	mode_t mode;      /* S_IFREG|perm, S_IFDIR|perm or S_IFLNK|0777 */
	size_t max_write; /* bytes: writing or truncating beyond is EFBIG; 0 = no limit */
	const struct pf_kind *const *children; /* directory: NULL-terminated, or NULL */
	const struct pf_dir_ops *dir;
	/* Directory: the end of the sentence of EPERM where dir has no function for a change of
	 * names, which advises the user; or NULL. */
	const char *instead;
	/* Its ops, or those of a directory for its names, may wait for a disk.  For at most
	 * PF_SLOW_NODES nodes, all of the fixed part of the tree. */
	bool slow;

	/* Text: print the whole content.  Each open shows the text of when it was opened.  stat(2)
	 * calls this too, for the size. */
	int (*show)(struct pf_node *node, struct pf_buf *out, struct pf_err *err);
	/* In place of show, for a text that differs between users: as CRED sees it. */
	int (*show_as)(struct pf_node *node, const struct pf_cred *cred,
		       struct pf_buf *out, struct pf_err *err);
	/* The text takes long, or another process has it: an open calls the function above on a
	 * thread of its own, and stat(2) does not: without getattr the size is 0. */
	bool blocks;

	/* Bytes. */
	int (*open)(struct pf_open *of, struct pf_err *err);
	/* Called at open, after the op open: answer REPLY when there are bytes to read. */
	void (*prepare)(struct pf_open *of, struct pf_reply *reply);
	void (*release)(struct pf_open *of);
	void (*read)(struct pf_open *of, size_t len, uint64_t off,
		     struct pf_reply *reply);
	/* Returns the count of bytes taken (> 0), or -errno. */
	ssize_t (*write)(struct pf_open *of, const void *src, size_t len, uint64_t off,
			 struct pf_err *err);
	/* Called at close(2) and fsync(2) if the file was written since the last commit, so that
	 * closing a second descriptor of the same open commits nothing. */
	void (*commit)(struct pf_open *of, enum pf_commit why, struct pf_reply *reply);
	bool whole_at_fsync; /* fsync(2) commits as close(2) does, which then has nothing to commit */
	/* O_TRUNC, truncate(2) and ftruncate(2) by CRED; OF is NULL for truncate(2). */
	int (*truncate)(struct pf_node *node, struct pf_open *of, uint64_t size,
			const struct pf_cred *cred, struct pf_err *err);

	/*
	 * Stream: as write, but the op answers, with pf_reply_count, and may do so later.  Every
	 * open is a conversation of its own, without positions; send, read and flush may run at
	 * the same time, with no lock held.  See struct pf_stream.  A text has send, too, where a
	 * write takes long.
	 */
	void (*send)(struct pf_open *of, const void *src, size_t len,
		     struct pf_reply *reply);
	/* Process PID closed one of perhaps several descriptors; without this op: success. */
	void (*flush)(struct pf_open *of, pid_t pid, struct pf_reply *reply);
	/* The last descriptor was closed, so no more requests come; replies and commands may still
	 * hold OF.  No lock is held. */
	void (*closed)(struct pf_open *of);

	/* Control file, which has PF_CONTROL too: run COMMAND, and answer it once with
	 * pf_command_done, now or later. */
	void (*command)(struct pf_command *command);
	bool json; /* commands are JSON objects; else they are lines */
	/* COMMAND runs, its writer was interrupted, and the file was closed.  Called with the
	 * stream's lock held: it must neither answer nor block. */
	void (*left)(struct pf_command *command);

	/*
	 * copy_file_range(2): copy up to LEN bytes at FROM_OFF of FROM to OFF of OF.  Returns
	 * the count, 0 at FROM's end, or -errno: -EXDEV if it cannot copy from FROM's kind, and
	 * the caller of the kernel then reads and writes.  Counts as a write of OF.  Both opens
	 * are locked; FROM may be OF, or another open of its node.
	 */
	ssize_t (*copy)(struct pf_open *of, uint64_t off, struct pf_open *from,
			uint64_t from_off, size_t len, struct pf_err *err);
	/* fallocate(2), with its MODE; -EOPNOTSUPP for a mode that is not supported.  Counts as
	 * a write if it changed bytes or the size. */
	int (*allocate)(struct pf_open *of, int mode, uint64_t off, uint64_t len,
			struct pf_err *err);

	/*
	 * poll(2): returns those of POLLIN and POLLOUT that OF has now; the kind calls
	 * pf_node_ready when there may be more.  Without this op OF always has both.  A text
	 * with this op, which does not block, is printed again for each read at offset 0: wait,
	 * rewind, read.
	 */
	short (*poll)(struct pf_open *of);

	/*
	 * Extended attributes; names have their prefix ("user.pjrtfs.dtype").  get appends
	 * the value (-ENODATA: no attribute has that name), list each name with its NUL.
	 * set: FLAGS as setxattr(2); -EOPNOTSUPP for a name that is not the kind's;
	 * -EINVAL for a bad value.  remove: the tree has checked that the attribute exists;
	 * without this op the answer is EPERM.
	 */
	int (*get_xattr)(struct pf_node *node, const char *name, struct pf_buf *out,
			 struct pf_err *err);
	int (*list_xattr)(struct pf_node *node, struct pf_buf *out, struct pf_err *err);
	int (*set_xattr)(struct pf_node *node, const char *name, const void *value,
			 size_t len, int flags, struct pf_err *err);
	int (*remove_xattr)(struct pf_node *node, const char *name, struct pf_err *err);

	/* Set the fields of ST that the kind knows better than the tree: size, times.  st_size is
	 * -1 before; if it stays so, the text is printed for the size.  Blocks follow from it. */
	void (*getattr)(struct pf_node *node, struct stat *st);
	/* 0: st_size is exact.  Else: only a reader learns the size, which is at most this many
	 * bytes. */
	uint64_t (*size_bound)(struct pf_node *node);
	/* As getattr, for a file that differs between users: CRED is the caller's, OF the open file
	 * of fstat(2), which is locked, or NULL. */
	void (*getattr_as)(struct pf_node *node, const struct pf_cred *cred,
			   struct pf_open *of, struct stat *st);
	/* A user changed owner, mode or times: the kind may keep copies of them. */
	void (*setattr)(struct pf_node *node);
	/* Append the path of NODE, which lookup found and which is not linked, for sentences. */
	void (*path)(struct pf_node *node, struct pf_buf *out);
	/* Symbolic link: its target. */
	int (*readlink)(struct pf_node *node, struct pf_buf *out);
	/* The last reference to a node is gone: drop node->object. */
	void (*free)(struct pf_node *node);

	/* How nodes come back in a restarted daemon: 0: with their parent, by name; else a number
	 * that the journal keeps, for pf_tree_restore's function. */
	uint8_t restored_as;
};

/* Is a file of KIND a text?  A kind with read reads by that, whatever it shows. */
static inline bool pf_kind_is_text(const struct pf_kind *kind)
{
	return (kind->show || kind->show_as) && !kind->read;
}

/* Is a file of KIND a stream? */
static inline bool pf_kind_is_stream(const struct pf_kind *kind)
{
	return kind->send && !pf_kind_is_text(kind);
}

/* Open files. */

/* An open file.  Ops of its kind may read all fields, and write state and unsized. */
struct pf_open {
	struct pf_node *node; /* one reference */
	int flags;            /* open(2)'s */
	struct pf_cred cred;  /* the opener's */
	void *state;          /* the kind's; kind->release drops it */
	bool goes_by_size;    /* the opener may have called stat(2) before */
	_Atomic bool unsized; /* the kind's: only a read up to the end finds its size */

	/* The tree's. */
	unsigned refs;         /* atomic */
	pthread_mutex_t lock;  /* rank 0: held by the op that runs, but for streams;
			       * copying takes those of two opens, the lower address
			       * first; protects the fields below */
	bool dirty;            /* written since the last commit */
	bool killed;           /* the last FLUSH was that of a dying process */
	_Atomic int failed;    /* -errno of the commit of the last FLUSH since the
			       * last write, which later ones repeat */
	_Atomic bool shown;    /* text holds the snapshot */
	bool reopened;         /* it was opened in an earlier life of the daemon */
	_Atomic bool was_busy; /* an earlier life had parts of it (pf_open_idle), */
	_Atomic bool lost;     /* and no call has failed for that yet */
	struct pf_buf text;
	size_t held;                 /* pf_open_hold; protected as what it counts */
	uint64_t alias;              /* the number of pf_vfs_alias that was opened */
	LIST_ENTRY(pf_open) sibling; /* the node's opens; the tree's lock protects it */

	/* The front end's: the number by which the kernel names it (0: none yet), that of the
	 * request that opened it, and the kernel's number of a caller of poll(2), if POLLED, which
	 * changes while another request writes the record. */
	uint64_t handle, unique;
	_Atomic uint64_t poll_handle;
	_Atomic bool polled;
};

static inline bool pf_open_reads(const struct pf_open *of)
{
	return (of->flags & O_ACCMODE) != O_WRONLY;
}

static inline bool pf_open_writes(const struct pf_open *of)
{
	return (of->flags & O_ACCMODE) != O_RDONLY;
}

enum { PF_OPEN_MAX_HELD = 256 << 20 }; /* bytes of all open files of a user */

/*
 * OF holds BYTES of memory, instead of what it held before, until it is released; its user's open files
 * hold more than they may: -ENOBUFS, but not for what a restart opens anew.  For what no quota counts.
 * Both take the tree's lock.
 */
void pf_open_hold(struct pf_open *of, size_t bytes);
int pf_open_may_hold(const struct pf_open *of, struct pf_err *err);

/* OF has parts that are in this process alone, such as the rest of a conversation, or (IDLE) has none
 * any more: if the daemon is restarted meanwhile, the client's next call is EIO.  A stream calls both
 * with its lock held; the tree calls it at the release. */
void pf_open_idle(const struct pf_open *of, bool idle);

/* The same, not IDLE, for a write to a stream.  False: the daemon is about to end (pf_vfs_settle), and
 * the write would begin a conversation: it is not answered, and comes again in the next daemon. */
bool pf_open_begin(const struct pf_open *of);

#endif
