/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree: nodes with names.  The name lock (rank 1) keeps compound changes of names apart (check
 * that a stem is free, then link): the tree takes it to call a pf_dir_ops function, others with
 * pf_tree_lock_names.  The tree's lock (rank 2) protects tables and attributes in a function here.
 */
#ifndef PJRTFS_TREE_H
#define PJRTFS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "pjrtfs/base.h"

struct pf_cred;
struct pf_err;
struct pf_kind;
struct pf_wait;

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

/* The attributes of stat(2) that the tree keeps.  The journal has them (PF_STATE_NODE). */
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
	const char *name; /* borrowed; NULL: it was not linked, but hidden or open */
	bool written;     /* an open file has written it since its last commit */
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

#endif
