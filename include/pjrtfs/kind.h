/* SPDX-License-Identifier: Apache-2.0 */
/* What files and directories do: one static const table per kind. */
#ifndef PJRTFS_KIND_H
#define PJRTFS_KIND_H

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "pjrtfs/base.h"

struct pf_command;
struct pf_err;
struct pf_node;
struct pf_open;
struct pf_reply;
struct pf_tree;

/* Who asks: the rights of the process behind a request. */

enum { PF_CRED_GROUPS = 64 };
enum { PF_SID_UNKNOWN = -1 };

/* Plain data: copy with =. */
struct pf_cred {
	uid_t uid;
	gid_t gid;
	pid_t pid; /* 0: outside our PID namespace */
	pid_t sid; /* login session (getsid): 0 outside our PID namespace, PF_SID_UNKNOWN */
	mode_t umask;
	bool checked;      /* the front end compared permission bits: vfs.h need not */
	unsigned n_groups; /* supplementary groups known; 0 until they are asked for */
	gid_t groups[PF_CRED_GROUPS];
};

/*
 * May CRED do what WANT (a mask of R_OK, W_OK, X_OK) says with something of owner UID,
 * group GID and permission bits MODE?  As the kernel would decide; uid 0 may.
 */
bool pf_cred_may(const struct pf_cred *cred, uid_t uid, gid_t gid, mode_t mode, int want);

/*
 * A request that waits for its answer.
 *
 * Whoever got a reply answers it exactly once, now or later, from any thread, with one of
 * the functions below, which also give up the caller's reference.  If the caller's process is
 * interrupted (any signal) first, the request is answered with EINTR at once and the later
 * answer is dropped: the work behind it need not know.  A write of which something was done
 * already is answered with what was: who gets EINTR may write all of it again.
 */

/* How a front end sends answers.  Called at most once, with no lock held. */
struct pf_reply_ops {
	/* code < 0: -errno.  Else data (len bytes, borrowed during the call) if data is
	 * not NULL, or the count len, or, with both 0, just success. */
	void (*send)(struct pf_reply *reply, int code, const void *data, size_t len);
	/* The last reference is gone and the reply was sent: free it. */
	void (*free)(struct pf_reply *reply);
};

/* The front end embeds this, calls pf_reply_init, and says who asks. */
struct pf_reply {
	const struct pf_reply_ops *ops;
	unsigned refs;            /* atomic */
	uid_t uid;                /* the caller's; */
	pid_t pid;                /* its thread, or 0: nobody is told why a call failed */
	const struct pf_err *why; /* borrowed until the answer is sent; pf_reply_why */

	/* The tree's. */
	struct pf_open *held; /* kept open until the last reference goes, or NULL; */
	void (*drop)(struct pf_open *held); /* drops it */
	const char *doing;       /* the call's name ("close"), if its failure is kept */
	bool closing;            /* how the commit of held ends is kept */
	struct pf_open **opened; /* where finish puts the open file */
	/* Called before a success is sent: 0, or -errno, which is sent instead. */
	int (*finish)(struct pf_reply *reply, struct pf_err *err);

	pthread_mutex_t lock; /* rank 6; protects the fields below */
	bool answered;
	size_t (*halt)(void *arg); /* called once before the answer, without the lock */
	void (*on_interrupt)(void *arg); /* called once after it, without the lock */
	void *arg;
};

/* Prepare REPLY with one reference, the caller's. */
void pf_reply_init(struct pf_reply *reply, const struct pf_reply_ops *ops);

struct pf_reply *pf_reply_ref(struct pf_reply *reply);
void pf_reply_unref(struct pf_reply *reply); /* NULL is allowed */

/* Answer success (0) or failure (-errno). */
void pf_reply_code(struct pf_reply *reply, int code);

/*
 * The same with the sentence of ERR (NULL: the errno's words will do), which the caller's user
 * finds as pf_vfs_refusal tells.
 */
void pf_reply_fail(struct pf_reply *reply, int code, const struct pf_err *err);

/* A failure that is sent from now on has ERR's sentence, which stays until it is sent. */
void pf_reply_why(struct pf_reply *reply, const struct pf_err *err);

/* Answer a write: LEN bytes were taken. */
void pf_reply_count(struct pf_reply *reply, size_t len);

/* Answer a read with LEN bytes (0: end of file), which are copied before this returns. */
void pf_reply_data(struct pf_reply *reply, const void *data, size_t len);

/* Has it been answered (or interrupted)?  Work that has not begun can then be dropped. */
bool pf_reply_gone(struct pf_reply *reply);

/*
 * An answer in two steps, so that nothing is lost on an interrupted reader.
 *
 * pf_reply_claim: from now on only the caller can answer REPLY; false if it is too late.
 * pf_reply_send: answer a claimed REPLY, as pf_reply_ops.send, and give up the reference.
 */
bool pf_reply_claim(struct pf_reply *reply);
void pf_reply_send(struct pf_reply *reply, int code, const void *data, size_t len);

/*
 * When REPLY is interrupted, call HALT(ARG), if not NULL, before that is answered: it drops what
 * has not begun of a write, and returns how many bytes are done or under way (0: EINTR); and
 * FN(ARG) after.  Both may be called on any thread.  False: the request was answered or
 * interrupted already, and they are not called.
 */
bool pf_reply_park(struct pf_reply *reply, size_t (*halt)(void *arg),
		   void (*fn)(void *arg), void *arg);

/* For the front end: the request was interrupted. */
void pf_reply_interrupt(struct pf_reply *reply);

/* For the front end: the mount ends.  As an interrupt, but the answer is ENOTCONN, whatever
 * had begun. */
void pf_reply_disconnect(struct pf_reply *reply);

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
 * A file is one of four shapes: directory; text (show); bytes (read, write, commit); stream
 * (send, read).  A missing op makes the tree answer EACCES at open: no show or read for reading;
 * no write or send for writing.  Ops run with no tree lock held, at most one at a time per open
 * file (but for streams), on threads that serve everyone: show, read, write and truncate return
 * soon; what may take long keeps its reply and answers later.
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
	 * Stream: as write, but it may wait; answers with pf_reply_count.  Every open is a
	 * conversation of its own, without positions; send, read and flush may run at once, with
	 * no lock held.  See struct pf_stream.
	 */
	void (*send)(struct pf_open *of, const void *src, size_t len,
		     struct pf_reply *reply);
	/* close(2) by process PID of one descriptor of perhaps several; without this op, success. */
	void (*flush)(struct pf_open *of, pid_t pid, struct pf_reply *reply);
	/* No descriptor is left: no more requests come.  Replies, and commands, may still hold OF. */
	void (*closed)(struct pf_open *of);

	/* A stream of commands begins with PF_CONTROL: run one command, and answer it once with
	 * pf_command_done. */
	void (*command)(struct pf_command *command);
	bool json; /* commands are JSON objects; else they are lines */
	/* The writer of COMMAND, which runs, was interrupted and the file is closed.  Called with
	 * the stream's lock held: it must not answer, nor block. */
	void (*left)(struct pf_command *command);

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

/* ST is of a file of SIZE bytes, which take as many blocks as they need. */
static inline void pf_stat_set_size(struct stat *st, uint64_t size)
{
	st->st_size = (off_t)size;
	st->st_blocks = (st->st_size + 511) / 512;
}

/* Is each open of such a file a conversation of its own? */
static inline bool pf_kind_is_stream(const struct pf_kind *kind)
{
	return kind->send;
}

/*
 * The tree: named nodes of the kinds in kind.h.
 *
 * Two locks: the name lock (rank 1) is held around compound changes of names (is the stem
 * free? then link), by the tree itself while it calls a pf_dir_ops function and by others
 * between pf_tree_lock_names and pf_tree_unlock_names; the node lock (rank 2, internal)
 * protects tables and attributes for the time of one function here.
 */

enum { PF_NAME_MAX = 255 };  /* bytes in one name */
enum { PF_DEPTH_MAX = 256 }; /* directories one in another, the root not counted */

/*
 * A file or directory.  kind, ino and tree never change; object is the kind's and is set
 * before the node is linked.  The rest belongs to the tree: read it through functions.
 */
struct pf_node {
	struct pf_tree *tree;       /* borrowed */
	const struct pf_kind *kind; /* borrowed, static */
	uint64_t ino;               /* never reused; the root's is 1 */
	void *object;               /* the kind's; kind->free drops it */
	struct pf_node_priv *priv;  /* owned by the tree */
};

/* What the tree keeps for stat(2). */
struct pf_attr {
	mode_t mode;
	uid_t uid;
	gid_t gid;
	struct timespec atime, mtime, ctime;
};

/* Make a tree whose root is of KIND and owned by UID, GID.  NULL: no memory. */
struct pf_tree *pf_tree_new(const struct pf_kind *kind, void *object, uid_t uid,
			    gid_t gid);

/* Free the tree and every node that nobody else holds.  No request may be under way. */
void pf_tree_free(struct pf_tree *tree);

/* The root, borrowed. */
struct pf_node *pf_tree_root(struct pf_tree *tree);

/* Number of nodes, for statfs(2). */
uint64_t pf_tree_count(struct pf_tree *tree);

/* The daemon's own object, for the kinds' functions: set once, before the mount. */
void pf_tree_set_context(struct pf_tree *tree, void *context);
void *pf_tree_context(struct pf_tree *tree);

/* What of a node changed without the front end's doing. */
enum pf_change {
	PF_CHANGED_NAMES, /* a directory's: what was told of its attributes is past */
	PF_CHANGED_ATTR,
	PF_CHANGED_DATA,  /* attributes, and bytes that may be mapped */
	PF_CHANGED_READY, /* what pf_vfs_poll would say, of its opens */
};

/*
 * FN(ARG) is told of such changes: of names before anybody can learn of them otherwise.  It
 * is called with any lock held; for names and readiness it does not wait for anything, for the
 * rest it only notes INO.  FN is NULL for nobody; when this returns, the one before is not called
 * and will not be.
 */
void pf_tree_set_notify(struct pf_tree *tree,
			void (*fn)(void *arg, uint64_t ino, enum pf_change change),
			void *arg);

/*
 * For kinds: NODE's attributes changed, and with DATA bytes that readers may have mapped,
 * by other means than a request for this very node.  Any lock may be held.
 */
void pf_node_changed(struct pf_node *node, bool data);

/*
 * For kinds that have poll: there may be more to be had of NODE now.  Any lock may be held;
 * costs nothing when nobody polls.
 */
void pf_node_ready(struct pf_node *node);

/* Hold the names still.  Rank 1: taken first, never twice by one thread. */
void pf_tree_lock_names(struct pf_tree *tree);
void pf_tree_unlock_names(struct pf_tree *tree);

/*
 * Make a node of KIND with OBJECT, not yet linked, with one reference (the caller's), the
 * kind's mode (its permission bits replaced by PERM unless PERM is (mode_t)-1), and the
 * children that the kind lists, each with the same OBJECT (their kinds' free is called for
 * each: kinds that do not own it have none).  These children live exactly as long as the
 * node: a reference on one is a reference on all.  Owner: CRED, or the root's when NULL.
 * NULL: no memory; OBJECT is then the caller's still.
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
 * Is there room in DIR for the directory NODE with all that it holds (NULL: an empty one)?
 * 0, or -ENAMETOOLONG: it would be more than PF_DEPTH_MAX deep.  All functions here refuse
 * that, without a sentence; so what goes down the tree may recurse.
 */
int pf_dir_room(struct pf_node *dir, struct pf_node *node, struct pf_err *err);

/*
 * Link NODE into DIR as NAME.  With REPLACE, a node of that name is unlinked (and lives on
 * for those who have it open); else -EEXIST.  -ENOENT: DIR itself is unlinked.  -ENAMETOOLONG:
 * NAME, or it is too deep.  -ENOMEM.
 */
int pf_dir_link(struct pf_node *dir, const char *name, struct pf_node *node,
		bool replace);

/*
 * Link NODE into DIR, which is fixed (as the root is), as NAME, for as long as there is the
 * tree: it is never unlinked, moved or replaced, so that a front end need not look the name
 * up again, nor those of the children that NODE's kind lists.  -EEXIST, -ENOMEM.
 */
int pf_dir_link_fixed(struct pf_node *dir, const char *name, struct pf_node *node);

/* Take NODE out of its directory; no effect if it is not linked. */
void pf_dir_unlink(struct pf_node *node);

/* The same, but NODE is still a file of the directory, which its lookup can find: it has a
 * link for stat(2). */
void pf_dir_hide(struct pf_node *node);

/* Move a linked NODE; a node of that name in TO is unlinked.  -ENOMEM, -EINVAL: TO is
 * below NODE, -ENAMETOOLONG as pf_dir_link. */
int pf_dir_move(struct pf_node *node, struct pf_node *to, const char *name);

/* Move two linked nodes, neither of which is below the other or replaces it, as pf_dir_move:
 * both, or, with an error, none. */
int pf_dir_move_both(struct pf_node *a, struct pf_node *to_a, const char *name_a,
		     struct pf_node *b, struct pf_node *to_b, const char *name_b);

/* Exchange two linked nodes' places. */
int pf_dir_exchange(struct pf_node *a, struct pf_node *b);

/* The linked child NAME of DIR, with a reference, or NULL.  The only place in the program
 * where a name of the tree is compared. */
struct pf_node *pf_dir_lookup(struct pf_node *dir, const char *name);

/*
 * The linked child of DIR, no directory, whose name is the LEN bytes at STEM and one of
 * EXTENSIONS (up to a NULL): the first that is there, with a reference, or NULL.  All are
 * looked for at one moment: a child that gets another of these extensions, and loses its own
 * only then, is never missed.
 */
struct pf_node *pf_dir_lookup_stem(struct pf_node *dir, const char *stem, size_t len,
				   const char *const *extensions);

/* Number of linked children. */
size_t pf_dir_count(struct pf_node *dir);

/*
 * Linked children of DIR in the order in which they were linked, each with a reference, in
 * a NULL-terminated array that the caller frees (as well as the references).  NULL: no
 * memory.
 */
struct pf_node **pf_dir_list(struct pf_node *dir);

/* The directory NODE is linked in, with a reference, or NULL. */
struct pf_node *pf_node_parent(struct pf_node *node);

/* Copy the name under which NODE is linked ("" if it is not) into DST. */
void pf_node_name(struct pf_node *node, char dst[PF_NAME_MAX + 1]);

/* Append NODE's path below ANCESTOR ("ns/x.npy"). */
void pf_node_path(struct pf_node *node, struct pf_node *ancestor, struct pf_buf *out);

void pf_node_attr(struct pf_node *node, struct pf_attr *ret);
void pf_node_set_attr(struct pf_node *node, const struct pf_attr *attr);

/* In a set-group-ID directory what is made belongs to its group (mkdir(2), open(2)): NODE, which
 * was made for DIR.  What dir->create and dir->mkdir make need not be told. */
void pf_node_inherit(struct pf_node *dir, struct pf_node *node);

/* NODE becomes FROM's owner's, with the permission bits PERM (0777); its type and its other bits
 * stay. */
void pf_node_follow(struct pf_node *node, const struct pf_attr *from, mode_t perm);

/* Set mtime and ctime to now. */
void pf_node_touch(struct pf_node *node);

/* May CRED do WANT (R_OK, W_OK, X_OK) with NODE? */
bool pf_node_may(struct pf_node *node, const struct pf_cred *cred, int want);

/* May CRED take NODE out of DIR?  In a sticky directory only the owners of both may. */
bool pf_node_may_remove(struct pf_node *dir, struct pf_node *node,
			const struct pf_cred *cred);

/* Open files. */

/* An open file.  Kinds' functions may read everything and own state. */
struct pf_open {
	struct pf_node *node; /* one reference */
	int flags;            /* open(2)'s */
	struct pf_cred cred;  /* the opener's */
	void *state;          /* the kind's; kind->release drops it */
	bool goes_by_size;    /* the opener may have asked for its size before that */
	_Atomic bool unsized; /* the kind's: only reading to its end tells its size */

	/* The tree's. */
	unsigned refs;        /* atomic */
	pthread_mutex_t lock; /* rank 0: one op at a time, which may take any other lock;
			       * copying takes two opens', the lower address first;
			       * protects the fields below */
	bool dirty;           /* written since the last commit */
	bool killed;          /* the last FLUSH was that of a dying process */
	int failed;           /* atomic: -errno of the commit that a FLUSH since the last
			       * write made, which the next ones repeat */
	uint64_t written;     /* bytes taken so far */
	bool shown;           /* text holds the snapshot */
	struct pf_buf text;
	uint64_t alias;                /* pf_vfs_alias: what it was opened by */
	struct pf_open *newer, *older; /* of those open at the node; by the tree's lock */
};

static inline bool pf_open_reads(const struct pf_open *of)
{
	return (of->flags & O_ACCMODE) != O_WRONLY;
}

static inline bool pf_open_writes(const struct pf_open *of)
{
	return (of->flags & O_ACCMODE) != O_RDONLY;
}

/*
 * Streams: files whose opens are conversations.
 *
 * A read that has nothing to return yet, or a write that takes long, is parked.  If its caller
 * is interrupted, the stream forgets it; else the kind answers it later.  Embedded in the
 * kind's own struct of an open file, whose fields its lock protects too.
 */

/* A request that waits at a stream. */
struct pf_parked {
	struct pf_parked *next;   /* the stream's */
	struct pf_stream *stream; /* borrowed: the reply holds the open file */
	struct pf_reply *reply;   /* one reference */
	size_t len;               /* bytes that a read wants, or that a write brings */
};

/* What a kind does at its stream; all are called with the stream's lock held. */
struct pf_stream_ops {
	/* Can the next read be answered, be it with a failure or the end of file? */
	bool (*ready)(struct pf_stream *stream);
	/* Answer REPLY, a read of at most LEN bytes, which is claimed, by pf_reply_send. */
	void (*answer)(struct pf_stream *stream, size_t len, struct pf_reply *reply);
	/* The caller of WRITE is interrupted: drop what has not begun.  Returns the bytes that
	 * have (0: EINTR).  NULL: none have. */
	size_t (*halt)(struct pf_stream *stream, struct pf_parked *write);
	/* After that, when the interrupt was answered: forget WRITE, which the stream then
	 * frees. */
	void (*interrupted)(struct pf_stream *stream, struct pf_parked *write);
};

struct pf_stream {
	const struct pf_stream_ops *ops;
	pthread_mutex_t lock; /* rank 0, within pf_open.lock; protects the field below */
	struct pf_parked *reads; /* parked, in the order in which they came */
};

void pf_stream_init(struct pf_stream *stream, const struct pf_stream_ops *ops);
void pf_stream_release(struct pf_stream *stream); /* nothing is parked */

/* Answer a read of LEN bytes, or park it if it must wait; with O_NONBLOCK in OF's flags: EAGAIN.
 * The caller has a reference on OF, and none of the locks. */
void pf_stream_read(struct pf_stream *stream, const struct pf_open *of, size_t len,
		    struct pf_reply *reply);

/*
 * Park a write that brings LEN bytes.  Returns SIZE bytes of zeros that begin with a struct
 * pf_parked.  To end it, claim its reply: if that succeeds, send the answer and free them; else
 * its interrupt is under way, which does that.  NULL: no memory, or REPLY was interrupted
 * before; then pf_reply_code(REPLY, -ENOMEM) is right for both.  The lock is held.
 */
struct pf_parked *pf_stream_park_write(struct pf_stream *stream, size_t size, size_t len,
				       struct pf_reply *reply);

/* Answer the reads that need not wait any more.  The lock is held, and the caller has a
 * reference on the open file: an answer may be followed by its release. */
void pf_stream_serve_locked(struct pf_stream *stream);

/*
 * Control files: streams of commands, and of their replies.
 *
 * Writes carry commands, whole, in parts or several; they run one after another, in order; each
 * gives one reply of one line, which reads of the same open return in order (a read waits while
 * a command runs, and is at end of file when there is nothing to come).
 *
 *   read-write  a failed command fails no write: its reply tells
 *   write-only  the failed command fails the write, the commands after it are not run, and
 *               later writes fail alike (buffered writers repeat refused writes, and nothing
 *               may run twice)
 *   read-only   the last reply given on this file to the same user and login session
 *
 * A newline resynchronises after a syntax error.  A part of a command at FLUSH: for JSON
 * EINVAL, but the part is kept; a line without its newline runs.  At release it is dropped.
 */

enum {
	PF_CTL_MAX_COMMAND = 1 << 20, /* bytes in one command: more is E2BIG */
	PF_CTL_LAST_REPLIES = 64,     /* users and sessions remembered per file */
	PF_CTL_MAX_UNREAD = 8 << 20,  /* bytes of replies unread: writes are ENOBUFS */
};

/* One command.  Lives until pf_command_done. */
struct pf_command {
	struct pf_open *of; /* borrowed; node, cred */
	char *text;         /* the command, NUL-terminated, without its newline */
	size_t len;
	struct json_object *json; /* owned: of a kind with json, what TEXT says */
	atomic_bool cancelled;    /* the tree's */
	_Atomic(void *) user;     /* the kind's own; NULL at first */
};

/*
 * Answer COMMAND, once: CODE is 0 or -errno, LINE (LEN bytes, no newline) the reply.  May be
 * called from within kind->command or later, from any thread.  COMMAND is gone after.
 */
void pf_command_done(struct pf_command *command, int code, const char *line, size_t len);

/* Was the writer of COMMAND interrupted, and the file closed?  Then what has not begun should
 * not begin.  Takes no lock. */
bool pf_command_cancelled(const struct pf_command *command);

/* Answer COMMAND, of a kind with json, with the failure ERR; the same rules as for
 * pf_command_done. */
void pf_command_fail(struct pf_command *command, const struct pf_err *err);

/*
 * Turn a failure into the reply line of KIND's taste.  For JSON kinds:
 * {"ok":false,"error":{"errno":"EINVAL","code":"INVALID_ARGUMENT","message":"..."}};
 * the tree uses it for syntax errors that it finds itself.  Appends to OUT.
 */
void pf_ctl_error_line(struct pf_buf *out, const struct pf_err *err);

/* A control file's functions of a stream. */
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
