/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree, for the kinds of files in it: a static const table of functions for each kind, the
 * nodes that have it, their opens, and the requests that the kinds answer.
 */
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
#include "pjrtfs/wait.h"

struct pf_command;
struct pf_err;
struct pf_node;
struct pf_open;
struct pf_reply;
struct pf_tree;

/* The rights of the process that makes a request. */

enum { PF_CRED_GROUPS = 64 };
enum { PF_SID_UNKNOWN = -1 };

/* Plain data: copy with =. */
struct pf_cred {
	uid_t uid;
	gid_t gid;
	pid_t pid; /* 0: outside our PID namespace */
	pid_t sid; /* login session (getsid): 0 outside our PID namespace, PF_SID_UNKNOWN */
	mode_t umask;
	unsigned
		n_groups; /* of groups: those that are known of the supplementary groups */
	gid_t groups[PF_CRED_GROUPS];
};

/*
 * May a process with CRED do WANT (a mask of R_OK, W_OK, X_OK) with a file of owner UID, group
 * GID, and type and permission bits MODE?  The rules are the kernel's (path_resolution(7)).
 */
bool pf_cred_may(const struct pf_cred *cred, uid_t uid, gid_t gid, mode_t mode, int want);

/*
 * A request that waits for its answer.
 *
 * A function that is given a reply answers it exactly once, now or later, from any thread, with
 * one of the functions below, which also give up the reference.  If a signal interrupts the
 * caller of the system call first, the tree answers EINTR, or the count of the bytes that a write
 * has done, and drops the later answer: the kind's function need not know of the interrupt.
 */

/* How a front end sends answers; called at most once, with at most locks of rank 0 held. */
struct pf_reply_ops {
	/* CODE < 0: -errno.  Else DATA (LEN bytes, borrowed during the call) if it is not
	 * NULL, or the count LEN, or, with both 0, success. */
	void (*send)(struct pf_reply *reply, int code, const void *data, size_t len);
	/* The last reference to REPLY, which was sent, is gone: free it. */
	void (*free)(struct pf_reply *reply);
};

/* The front end embeds this, calls pf_reply_init, and sets uid and pid. */
struct pf_reply {
	const struct pf_reply_ops *ops;
	unsigned refs;            /* atomic */
	uid_t uid;                /* of the caller of the system call */
	pid_t pid;                /* its thread; 0: not known, and no failure is kept */
	const struct pf_err *why; /* borrowed until the answer is sent; pf_reply_why */

	/* The tree's. */
	struct pf_open *held;               /* one reference, or NULL; */
	void (*drop)(struct pf_open *held); /* drops it with the last one to the reply */
	const char *doing;       /* the call's name ("close"); NULL: no failure is kept */
	bool closing;            /* the answer is how the commit of held ended */
	struct pf_open **opened; /* where finish puts the open file */
	/* Called before a success is sent: 0, or -errno, which is sent instead. */
	int (*finish)(struct pf_reply *reply, struct pf_err *err);

	pthread_mutex_t lock; /* rank 6; protects the fields below */
	bool answered;
	struct pf_parked *parked; /* where it waits at a stream, or NULL */
};

/* Prepare REPLY with one reference, the caller's. */
void pf_reply_init(struct pf_reply *reply, const struct pf_reply_ops *ops);

/* A new reply, with one reference, for whose answer no caller waits.  NULL: no memory. */
struct pf_reply *pf_reply_behind(void);

/* Take a reference, which is returned; drop one (NULL is allowed). */
struct pf_reply *pf_reply_ref(struct pf_reply *reply);
void pf_reply_unref(struct pf_reply *reply);

/* Answer with success (CODE 0) or failure (-errno). */
void pf_reply_code(struct pf_reply *reply, int code);

/* Answer with the failure CODE and the sentence of ERR (NULL: the errno's words), which
 * pf_vfs_refusal shows to the caller's user. */
void pf_reply_fail(struct pf_reply *reply, int code, const struct pf_err *err);

/* If a failure is sent from now on, it has ERR's sentence; ERR is borrowed until then. */
void pf_reply_why(struct pf_reply *reply, const struct pf_err *err);

/* Answer a write of which LEN bytes were taken. */
void pf_reply_count(struct pf_reply *reply, size_t len);

/* Answer a read with LEN bytes (0: end of file), which are copied before this returns. */
void pf_reply_data(struct pf_reply *reply, const void *data, size_t len);

/* Was REPLY answered, or interrupted?  Then work that has not begun can be dropped. */
bool pf_reply_gone(struct pf_reply *reply);

/* An answer in two steps, so that no data are lost on an interrupted reader.  From now on only the
 * caller can answer REPLY; false: it was answered or interrupted. */
bool pf_reply_claim(struct pf_reply *reply);

/* Answer a claimed REPLY, with the arguments of pf_reply_ops.send, and give up the reference. */
void pf_reply_send(struct pf_reply *reply, int code, const void *data, size_t len);

/* For the front end: the request was interrupted; the mount ends, and the answer is ENOTCONN,
 * whatever has begun. */
void pf_reply_interrupt(struct pf_reply *reply);
void pf_reply_disconnect(struct pf_reply *reply);

/* Why bytes are committed. */
enum pf_commit {
	PF_COMMIT_FLUSH, /* close(2): its errno is the answer */
	PF_COMMIT_FSYNC, /* fsync(2): bytes that are not complete yet are accepted */
};

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
 * A file has one of four shapes: directory; text (show or show_as); bytes (read, write, commit);
 * stream (send, read).  A file that is not a text and has no read cannot be opened to be read, one
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
	 * the same time, with no lock held.  See struct pf_stream.
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
	return kind->send;
}

/*
 * The tree: nodes with names.  The name lock (rank 1) keeps compound changes of names apart (check
 * that a stem is free, then link): the tree takes it to call a pf_dir_ops function, others with
 * pf_tree_lock_names.  The tree's lock (rank 2) protects tables and attributes in a function here.
 */

enum { PF_NAME_MAX = 255 };  /* bytes in one name */
enum { PF_DEPTH_MAX = 256 }; /* nested directories, the root not counted */

/*
 * A file or directory.  tree, kind and ino never change; object is the kind's and is set before
 * the node is linked.
 */
struct pf_node {
	struct pf_tree *tree;       /* borrowed */
	const struct pf_kind *kind; /* borrowed, static */
	uint64_t ino;               /* never reused; the root's is 1 */
	void *object;               /* the kind's; kind->free drops it */
	struct pf_node_priv *priv;  /* owned by the tree */
};

/* The attributes of stat(2) that the tree keeps. */
struct pf_attr {
	mode_t mode;
	uid_t uid;
	gid_t gid;
	struct timespec atime, mtime, ctime;
};

/* Make a tree whose root is of KIND and owned by UID, GID.  NULL: no memory. */
struct pf_tree *pf_tree_new(const struct pf_kind *kind, void *object, uid_t uid,
			    gid_t gid);

/* Free the tree, and its nodes when their last references are dropped.  No request may be under
 * way. */
void pf_tree_free(struct pf_tree *tree);

/* The root, borrowed. */
struct pf_node *pf_tree_root(struct pf_tree *tree);

/* Number of nodes, for statfs(2). */
uint64_t pf_tree_count(struct pf_tree *tree);

/* The root's object.  Valid for the last nodes, too, which are freed after the root. */
void *pf_tree_object(const struct pf_tree *tree);

/* A change of a node by other means than a request of the front end; PF_CHANGED_GONE also by one. */
enum pf_change {
	PF_CHANGED_NAMES, /* the attributes of a directory, as its names changed */
	PF_CHANGED_ATTR,  /* attributes */
	PF_CHANGED_DATA,  /* attributes, and bytes that may be mapped */
	PF_CHANGED_READY, /* pf_vfs_poll may return more for its opens */
	PF_CHANGED_GONE, /* a node that was looked up in this directory has no name now */
};

/* Call FN(ARG, ...), or nothing if it is NULL, at each such change of node INO, with any lock held,
 * so FN must not block; at a change of names before other requests can see it.  NAME, valid
 * during the call, is what a node that is gone had been called, else NULL.  When this returns,
 * the previous function does not run and will not be called. */
void pf_tree_set_notify(struct pf_tree *tree,
			void (*fn)(void *arg, uint64_t ino, enum pf_change change,
				   const char *name),
			void *arg);

/* For kinds: NODE, which lookup found in DIR as NAME though it is not linked, is found no more. */
void pf_node_gone(struct pf_node *node, struct pf_node *dir, const char *name);

/* A count that ascends with each change of names, attributes or bytes.  Costs one load. */
uint64_t pf_tree_changes(const struct pf_tree *tree);

/* That count at the last change of a node, and at that of its bytes or extended attributes (0: none
 * since it was made). */
struct pf_node_changes {
	uint64_t any, bytes;
	bool linked;
	bool writers; /* it is open for writing */
};
void pf_node_changes(struct pf_node *node, struct pf_node_changes *ret);

/* For kinds: the attributes of NODE changed (and its bytes, if DATA) by other means than a
 * request for NODE.  Any lock may be held. */
void pf_node_changed(struct pf_node *node, bool data);

/* For kinds with poll: it may return more for the opens of NODE now.  Any lock may be held;
 * costs one load if no open is polled. */
void pf_node_ready(struct pf_node *node);

/* Take and drop the name lock.  Rank 1; no thread takes it twice. */
void pf_tree_lock_names(struct pf_tree *tree);
void pf_tree_unlock_names(struct pf_tree *tree);
PF_DEFINE_CLEANUP(struct pf_tree *, pf_tree_unlock_names)

/* Hold TREE's name lock until the end of the enclosing block. */
#define PF_NAMES_SCOPE(tree)                                                             \
	PF_CLEANUP(pf_tree_unlock_namesp)                                                \
	__attribute__((__unused__)) struct pf_tree *names_scope_ =                       \
		(pf_tree_lock_names(tree), (tree))

/* Wake those on LIST, which the caller has taken (pf_wake_all), as soon as the name lock, which the
 * caller holds, is given back: they may need it. */
void pf_tree_wake_later(struct pf_tree *tree, struct pf_wait *list);

/* The caller, which holds the name lock, is about to free bytes of a node that lost its name: write
 * the changes of names so far to the journal, so that no other owner of the bytes comes before. */
void pf_tree_write(struct pf_tree *tree);

/*
 * Make a node of KIND with OBJECT, not yet linked, with one reference (the caller's), the kind's
 * mode (with the permission bits PERM unless that is (mode_t)-1), and the children that the kind
 * lists, each with the same OBJECT, whose kinds' free is called, too.  A reference on one of these
 * nodes is a reference on all.  The owner is CRED's user, or, if that is NULL, the root's.  NULL:
 * no memory; the caller still owns OBJECT then.
 */
struct pf_node *pf_node_new(struct pf_tree *tree, const struct pf_kind *kind,
			    void *object, mode_t perm, const struct pf_cred *cred);

struct pf_node *pf_node_ref(struct pf_node *node);
void pf_node_unref(struct pf_node *node); /* NULL is allowed */
PF_DEFINE_CLEANUP(struct pf_node *, pf_node_unref)

/* The node with number INO, with a reference, or NULL. */
struct pf_node *pf_tree_by_ino(struct pf_tree *tree, uint64_t ino);

/*
 * Is NAME allowed?  0; -ENAMETOOLONG beyond PF_NAME_MAX; -EINVAL: empty, ".", "..", with a
 * slash or a control character (a newline, say); -EILSEQ: not UTF-8.
 */
int pf_name_check(const char *name, struct pf_err *err);

/*
 * May the directory NODE with all directories in it (NULL: a new one) be linked in DIR?  0, or
 * -ENAMETOOLONG: the tree would be deeper than PF_DEPTH_MAX.  All functions here refuse that,
 * without a sentence, so that functions that walk down the tree may recurse.
 */
int pf_dir_check_depth(struct pf_node *dir, struct pf_node *node, struct pf_err *err);

/*
 * Link NODE into DIR as NAME.  With REPLACE, a node of that name is unlinked (and lives while it
 * is open); else -EEXIST.  -ENOENT: DIR itself is unlinked.  -ENAMETOOLONG: NAME is too long, or
 * the tree would be too deep.  -ENOMEM.
 */
int pf_dir_link(struct pf_node *dir, const char *name, struct pf_node *node,
		bool replace);

/*
 * Link NODE as NAME into DIR, which is fixed (as the root is), until the tree is freed: it is
 * never unlinked, moved or replaced, so that a front end may cache the name and those of the
 * children of NODE's kind.  If DIR is not fixed, neither is NODE.  -EEXIST, -ENOMEM.
 */
int pf_dir_link_fixed(struct pf_node *dir, const char *name, struct pf_node *node);

/* Take NODE out of its directory, where it is linked or hidden; else no effect. */
void pf_dir_unlink(struct pf_node *node);

/* The same, but NODE still counts as linked for stat(2): the directory's lookup can find it, until
 * pf_dir_unlink. */
void pf_dir_hide(struct pf_node *node);

/* Move a linked NODE; a node of that name in TO is unlinked.  -ENOMEM, -EINVAL: TO is
 * below NODE, -ENOENT: TO is unlinked, -ENAMETOOLONG as pf_dir_link. */
int pf_dir_move(struct pf_node *node, struct pf_node *to, const char *name);

/* Move two linked nodes, neither of which is below the other or replaces it, as pf_dir_move does:
 * both, or, on an error, none. */
int pf_dir_move_both(struct pf_node *a, struct pf_node *to_a, const char *name_a,
		     struct pf_node *b, struct pf_node *to_b, const char *name_b);

/* Exchange two linked nodes' places.  Errors as pf_dir_move. */
int pf_dir_exchange(struct pf_node *a, struct pf_node *b);

/* The linked child NAME of DIR, with a reference, or NULL.  No other function of the program
 * compares names of the tree. */
struct pf_node *pf_dir_lookup(struct pf_node *dir, const char *name);

/* The linked child of DIR, but for directories, whose name is the LEN bytes at STEM and one of
 * EXTENSIONS (NULL-terminated): the first that exists, with a reference, or NULL.  Finds a child
 * that is renamed from one of these extensions to another meanwhile. */
struct pf_node *pf_dir_lookup_stem(struct pf_node *dir, const char *stem, size_t len,
				   const char *const *extensions);

/* Number of linked children. */
size_t pf_dir_count(struct pf_node *dir);

/* Linked children of DIR in the order in which they were linked, each with a reference, in a
 * NULL-terminated array that the caller frees, as well as the references.  NULL: no memory. */
struct pf_node **pf_dir_list(struct pf_node *dir);

/* The directory NODE is linked in, with a reference, or NULL. */
struct pf_node *pf_node_parent(struct pf_node *node);

/* Copy the name under which NODE is linked ("" if it is not) into DST. */
void pf_node_name(struct pf_node *node, char dst[PF_NAME_MAX + 1]);

/* Append NODE's path below ANCESTOR ("ns/x.npy"). */
void pf_node_path(struct pf_node *node, struct pf_node *ancestor, struct pf_buf *out);

void pf_node_attr(struct pf_node *node, struct pf_attr *ret);
void pf_node_set_attr(struct pf_node *node, const struct pf_attr *attr);

/* NODE was made for DIR: if that is set-group-ID, NODE gets its group (mkdir(2), open(2)).  The
 * tree calls this for nodes that dir->create and dir->mkdir make. */
void pf_node_inherit(struct pf_node *dir, struct pf_node *node);

/* Give NODE the owner and group of FROM and the permission bits PERM (0777); its type and its
 * other bits stay. */
void pf_node_follow(struct pf_node *node, const struct pf_attr *from, mode_t perm);

/* May CRED do WANT (R_OK, W_OK, X_OK) with NODE? */
bool pf_node_may(struct pf_node *node, const struct pf_cred *cred, int want);

/* May CRED take NODE out of DIR?  In a sticky directory only the owners of the two may. */
bool pf_node_may_remove(struct pf_node *dir, struct pf_node *node,
			const struct pf_cred *cred);

/*
 * After a restart of the daemon (state.h).
 *
 * The tree keeps each linked node's name, number and attributes in the journal, and those of
 * hidden nodes, and of unlinked ones that are open; kinds save what their objects need, under
 * PF_STATE_OBJECT and the node's number, which the tree drops with the node.  While the tree is
 * restored, a node that is linked under a name of an earlier life gets the number that it had, and
 * so do the children that its kind lists; attributes and the order of names come back at the end.
 */

/* A node of an earlier life. */
struct pf_restored {
	uint64_t ino;
	unsigned as; /* its kind's restored_as */
	struct pf_attr attr;
	const char *name;   /* borrowed; NULL: it was not linked, but hidden or open */
	const void *object; /* borrowed: what the kind kept of it; NULL: nothing */
	size_t len;
	bool written; /* an open file has written it since its last commit */
};

/*
 * Make the nodes of earlier lives whose kinds have a restored_as, parents first, those of a
 * directory in the order in which they were linked.  Call it once, before the tree is served, and
 * when its fixed nodes are linked.
 * make  returns 0 and a node for OLD, in DIR or, if that is NULL, for an unlinked one, with a
 *       reference in *RET, not linked yet unless the function has linked it itself; 0 and NULL:
 *       the node is gone; -errno: all fails
 */
int pf_tree_restore(struct pf_tree *tree,
		    int (*make)(void *arg, struct pf_node *dir,
				const struct pf_restored *old, struct pf_node **ret,
				struct pf_err *err),
		    void *arg, struct pf_err *err);

/* The next node that pf_node_new makes gets the number INO, of an earlier life.  Needed where the
 * number counts before the node is linked; by one thread. */
void pf_tree_adopt(struct pf_tree *tree, uint64_t ino);

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

/*
 * Streams: files whose opens are conversations.  A read that has nothing to return yet, or a write
 * that takes long, is parked.  If its caller is interrupted, the stream frees it; else the kind
 * answers it later.  A struct pf_stream is embedded in the kind's own struct of an open file,
 * whose fields its lock protects too.
 */

/* A request that waits at a stream. */
struct pf_parked {
	struct pf_parked *next;   /* the stream's */
	struct pf_stream *stream; /* borrowed: the reply holds the open file */
	struct pf_reply *reply;   /* one reference */
	size_t len;               /* bytes that a read wants, or that a write brings */
	bool writes;
};

/* The functions of a kind of stream; all are called with the stream's lock held. */
struct pf_stream_ops {
	/* Can the next read be answered, also with a failure or the end of file? */
	bool (*ready)(struct pf_stream *stream);
	/* Answer REPLY, a read of at most LEN bytes, which is claimed, by pf_reply_send. */
	void (*answer)(struct pf_stream *stream, size_t len, struct pf_reply *reply);
	/* The caller of WRITE is interrupted: drop the part of it that has not begun.  Returns how
	 * many bytes are done (0: the answer is EINTR).  NULL: none ever are. */
	size_t (*halt)(struct pf_stream *stream, struct pf_parked *write);
	/* The interrupt is about to be answered: drop pointers to WRITE, which the stream then frees. */
	void (*interrupted)(struct pf_stream *stream, struct pf_parked *write);
};

struct pf_stream {
	const struct pf_stream_ops *ops;
	pthread_mutex_t lock; /* rank 0, within pf_open.lock; protects the field below */
	struct pf_parked *reads; /* parked, in the order in which they came */
};

void pf_stream_init(struct pf_stream *stream, const struct pf_stream_ops *ops);
void pf_stream_release(struct pf_stream *stream); /* nothing is parked */

/* Answer a read of LEN bytes, or park it if it must wait (with O_NONBLOCK in OF's flags: EAGAIN).
 * The caller holds a reference on OF, and no lock. */
void pf_stream_read(struct pf_stream *stream, const struct pf_open *of, size_t len,
		    struct pf_reply *reply);

/*
 * Park a write of LEN bytes.  Returns SIZE bytes, zeros but for the struct pf_parked at their
 * begin.  To answer it, the caller claims its reply, sends the answer and frees the bytes; if the
 * claim fails, the stream frees them after the interrupt.  NULL: no memory, or REPLY was
 * interrupted before; pf_reply_code(REPLY, -ENOMEM) is right for both.  The lock is held.
 */
struct pf_parked *pf_stream_park_write(struct pf_stream *stream, size_t size, size_t len,
				       struct pf_reply *reply);

/* Answer the parked reads that are ready.  The lock is held, and the caller holds a reference on
 * the open file, which may be released after any answer. */
void pf_stream_serve_locked(struct pf_stream *stream);

/*
 * Control files: streams of commands, and of their replies.
 *
 * A write carries one command, several, or a part of one.  Commands run one after another, in
 * order; each gives one reply of one line, which reads of the same open return in order.  A read
 * waits while a command runs or is queued, and is at the end of file when none is.
 *
 *   read-write  a command that fails fails no write: its reply has the failure
 *   write-only  a command that fails fails its write, the commands after it do not run, and
 *               later writes fail with the same errno (buffered writers repeat writes that
 *               fail, and no command may run twice)
 *   read-only   reads return the last reply of this file to the same user and login session
 *
 * A write that is interrupted has done the commands that have ended.  One that runs goes on; if the
 * same thread writes it again next, that write waits for it, and it does not run twice.
 *
 * A newline resynchronises after a syntax error.  At a FLUSH that follows a part of a command, a
 * line without its newline runs; for JSON the answer is EINVAL, and the part is kept.  When the
 * file is closed, a part is dropped.
 */

enum {
	PF_CONTROL_MAX_COMMAND = 1 << 20, /* bytes of a command; more: E2BIG */
	PF_CONTROL_LAST_REPLIES = 64,    /* users and sessions whose last reply is kept */
	PF_CONTROL_MAX_UNREAD = 8 << 20, /* bytes of unread replies; with more: ENOBUFS */
};

/* One command.  Lives until pf_command_done. */
struct pf_command {
	struct pf_open *of; /* borrowed; node, cred */
	char *text;         /* the command, NUL-terminated, without its newline */
	size_t len;
	struct json_object *json; /* owned: of a kind with json, what TEXT says */
	/* The tree's: its writer was interrupted, and the file closed.  Then work that has not
	 * begun should not begin. */
	_Atomic bool cancelled;
	_Atomic(void *) user; /* the kind's own; NULL at first */
};

/*
 * Answer COMMAND, once, with the reply LINE (LEN bytes, no newline), which says the same as ERR if it
 * failed; NULL: it did not.  May be called by kind->command or later, on any thread, without locks.
 * Frees COMMAND.
 */
void pf_command_done(struct pf_command *command, const struct pf_err *err,
		     const char *line, size_t len);

/* As pf_command_done, with the failure ERR, for a kind with json. */
void pf_command_fail(struct pf_command *command, const struct pf_err *err);

/*
 * Append the reply to a command that failed, a line without its newline:
 * {"ok":false,"error":{"errno":"EINVAL","code":"INVALID_ARGUMENT","message":"..."}}
 */
void pf_control_error_line(struct pf_buf *out, const struct pf_err *err);

/* The same if there is not even memory for this. */
#define PF_NO_MEMORY_LINE                                                                \
	"{\"ok\":false,\"error\":{\"errno\":\"ENOMEM\",\"code\":\"RESOURCE_EXHAUSTED\"," \
	"\"message\":\"no memory for the reply\"}}"

/* The functions of a stream that the kind of a control file has. */
#define PF_CONTROL                                                                       \
	.open = pf_control_open, .release = pf_control_release, .read = pf_control_read, \
	.send = pf_control_write, .flush = pf_control_flush,                             \
	.closed = pf_control_closed, .getattr_as = pf_control_getattr_as

int pf_control_open(struct pf_open *of, struct pf_err *err);
void pf_control_release(struct pf_open *of);
void pf_control_read(struct pf_open *of, size_t len, uint64_t off,
		     struct pf_reply *reply);
void pf_control_write(struct pf_open *of, const void *src, size_t len,
		      struct pf_reply *reply);
void pf_control_flush(struct pf_open *of, pid_t pid, struct pf_reply *reply);
void pf_control_closed(struct pf_open *of);
void pf_control_getattr_as(struct pf_node *node, const struct pf_cred *cred,
			   struct pf_open *of, struct stat *st);

#endif
