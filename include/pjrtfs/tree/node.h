/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree: named nodes of the kinds in kind.h.
 *
 * Two locks: the name lock (rank 1) is held around compound changes of names (is the stem
 * free? then link), by the tree itself while it calls a pf_dir_ops function and by others
 * between pf_tree_lock_names and pf_tree_unlock_names; the node lock (rank 2, internal)
 * protects tables and attributes for the time of one function here.
 */
#ifndef PJRTFS_TREE_NODE_H
#define PJRTFS_TREE_NODE_H

#include "pjrtfs/tree/kind.h"

struct pf_tree;

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

#endif
