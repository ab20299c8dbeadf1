/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_FILES_BUFFERS_INTERNAL_H
#define PJRTFS_FILES_BUFFERS_INTERNAL_H

#include "buffers.h"
#include "files/internal.h"

/* What the nodes of one buffer share. */

/*
 * One buffer and its nodes: the one that is listed, under the name it was written with, and
 * the views that somebody has looked up.  Counted: each node holds one reference; the
 * views' nodes are held in turn until the buffer is unlinked.  Nodes change under the
 * name lock.
 */
struct buffer_inode {
	_Atomic unsigned refs;
	struct pf_buffer *buffer; /* owned reference */
	uint64_t id;              /* no other entry has had it */
	_Atomic unsigned opens;   /* open files, of all its nodes */
	_Atomic uint64_t writers; /* those that write, and in the high bits their node */
	_Atomic bool gone;        /* unlinked: freed with the last open file */
	_Atomic bool dead;        /* freed, or about to be: too late to open it */
	bool numbered; /* by a command, in a directory for its results; set before it is linked */
	/* Its free is deferred, to FREE_AT (CLOCK_MONOTONIC, ms; 0: it never was).  Under the
	 * name lock. */
	struct buffer_inode *next_deferred;
	uint64_t deferred_bytes;
	int64_t free_at;
	bool deferred;
	struct pf_node *listed;                 /* weak; NULL once unlinked */
	struct pf_node *views[PF_FORMAT_COUNT]; /* owned references */
	/* Of a file of several tensors: their directory, listed in its stead; weak. */
	struct pf_node *_Atomic directory;
	/* The id of the file that it is a tensor of, unchanged; or 0. */
	_Atomic uint64_t part_of;
};

/* The object of a buffer's node. */
struct buffer_view {
	struct buffer_inode *inode; /* owned reference */
	/* What this node shows.  Changes only when a rename changes the listed one's
	 * extension, under the name lock; readers may see either. */
	_Atomic enum pf_format format;
};

/* The object of a directory in buffers/. */
struct buffer_dir {
	struct device *device; /* borrowed: its arrays live there */
	/* The .safetensors file whose tensors these are, or NULL: an owned reference, under the
	 * name lock. */
	struct pf_node *file;
};

static inline struct buffer_dir *dir_of(struct pf_node *dir)
{
	return dir->object;
}

static inline struct buffer_view *view_of(struct pf_node *node)
{
	return node->object;
}

static inline struct pf_buffer *buffer_of(struct pf_node *node)
{
	return view_of(node)->inode->buffer;
}

/* An open file. */
struct buffer_open {
	struct pf_snapshot snapshot; /* what readers see */
	bool viewed;
	bool waits;   /* to write: another view is being written, or was */
	bool copying; /* so much of that was copied here, but no byte moved yet */
	struct pf_snapshot copied;
	uint64_t copied_len;
};

extern const struct pf_kind kind_buffer;

/* --- NAME.sharding.json (sharding.c) ------------------------------------------------ */

extern const struct pf_kind kind_sharding;

/* A buffer lost the name NAME in DIR: was it the last shard of an array?  Then that is no
 * more.  The name lock is held. */
void files_shard_gone(struct pf_node *dir, const char *name);

/* --- events (inode.c) ---------------------------------------------------------------- */

/* A command made the buffer NODE, perhaps in place of another. */
void files_report_result(struct pf_node *node, const char *by, bool replaced);

/* BUFFER's bytes became an array on its device after SECONDS, or were refused: ERR, else
 * NULL.  The name lock may be held. */
void files_report_committed(struct pf_buffer *buffer, const struct pf_err *err,
			    double seconds);

/* --- names that were refused (refused.c) -------------------------------------------- */

/* -EINVAL, and what converts it, for a file of another format that is known. */
int buffers_check_foreign(const char *name, struct pf_err *err);

/* CRED gave something in DIR the name NAME (R is 0) or was refused it for ERR: remember that.
 * Returns R.  The name lock is held. */
int buffers_named(struct pf_node *dir, const char *name, const struct pf_cred *cred,
		  int r, const struct pf_err *err);

/* What tells why a name STEM (LEN bytes) with any extension was last refused in DIR, with a
 * reference; NULL: none was, or that is forgotten.  The name lock is held. */
struct pf_node *buffers_refusal(struct pf_node *dir, const char *stem, size_t len);

/* --- who comes too late (inode.c) -------------------------------------------------- */

/* A process has opened an inode that was dead already: defer frees for two seconds. */
void deferred_free_alarm(struct pf_fs *fs);

/* --- committing (commit.c) ---------------------------------------------------------- */

/* Make an array, or several, of the content of NODE's buffer and send it to its device; REPLY
 * (NULL: nobody waits, and the name lock may be held) is answered at the end. */
void buffer_commit_start(struct pf_node *node, bool partial_ok, struct pf_reply *reply);

/* Send VALUE, which is BUFFER's, to its device; MOVED: it stays readable if that fails. */
void buffer_place_start(struct pf_buffer *buffer, struct pf_value *value, bool moved,
			struct pf_reply *reply);

/* --- extended attributes (xattr.c) -------------------------------------------------- */

/* The linked node of the buffer called STEM in DIR, in whatever format, with a reference;
 * NULL if there is none. */
struct pf_node *buffers_find_stem(struct pf_node *dir, const char *stem, size_t len);

/* A stem that looks like a file of its own would be ambiguous: -EINVAL. */
int buffers_check_stem(const char *name, size_t len, struct pf_err *err);

/* -EEXIST if DIR holds a directory called as NAME's first STEM_LEN bytes. */
int buffers_check_free(struct pf_node *dir, const char *name, size_t stem_len,
		       struct pf_err *err);

/* Is NODE, which is linked or was found by its name, a buffer?  A sharding and a refusal only
 * print. */
static inline bool is_buffer(const struct pf_node *node)
{
	return node->kind->write != NULL;
}

static inline bool buffers_is_directory(const struct pf_node *node)
{
	return S_ISDIR(node->kind->mode);
}

/* The listed node of the buffer that NAME means, in *RET, and its directory in *DIR, each with a
 * reference; as files_find_buffer. */
int buffers_find_listed(struct pf_fs *fs, const struct device *device, const char *name,
			const struct pf_cred *cred, struct pf_node **dir,
			struct pf_node **ret, struct pf_err *err);

/* Make a directory of KIND for arrays of DEVICE, not yet linked, as pf_node_new does. */
struct pf_node *buffer_dir_new(struct pf_tree *tree, const struct pf_kind *kind,
			       struct device *device, mode_t perm,
			       const struct pf_cred *cred);

/* Make the inode of BUFFER (a reference is taken) and its listed node of KIND, not yet linked,
 * with a reference.  NULL: no memory. */
struct pf_node *inode_new(struct pf_tree *tree, const struct pf_kind *kind,
			  struct pf_buffer *buffer, enum pf_format format, mode_t mode,
			  const struct pf_cred *cred);

/* The node of INODE that shows FORMAT, with a reference; NULL: no memory. */
struct pf_node *inode_view(struct buffer_inode *inode, enum pf_format format);

/*
 * The buffer has lost its name: let go of the views' nodes, and, once nobody has it open,
 * of its memory; the kernel may remember the inodes for long.
 */
void inode_unlinked(struct buffer_inode *inode);

/* A file of NODE's entry is closed: the last one of an entry without a name frees it. */
void inode_leave(struct pf_node *node);

/* The free of kind_buffer and of kind_buffers. */
void buffer_dir_free(struct pf_node *dir);
void buffer_node_free(struct pf_node *node);

/* The stem under which NODE's buffer is listed; "" if it has no name.  Takes the name lock. */
void inode_stem(struct pf_node *node, char name[PF_NAME_MAX + 1]);

/* What was written to NODE changed what the others of its entry show: whoever keeps their
 * attributes or pages is told.  The name lock is not held. */
void inode_changed(struct pf_node *node);

/* NODE shall be the listed one: its format becomes the one that the buffer is written in. */
int inode_list(struct pf_node *node);

/* Directories of the tensors of a .safetensors file. */

/*
 * Make the directory that FILE's bytes ask for, on DEVICE, not linked yet, in *RET, for
 * checkpoint_link or checkpoint_abandon; with an error *RET is the part that was made, or NULL.
 * As pf_buffer_tensors; -EINVAL, -ENAMETOOLONG, -E2BIG: names that no files can have, or too
 * many.  Takes time; no lock is needed, the name lock may be held.
 */
int checkpoint_build(struct pf_node *file, struct device *device, struct pf_node **ret,
		     struct pf_err *err);

/* Free what checkpoint_build made; NULL is allowed.  The name lock is held. */
void checkpoint_abandon(struct pf_node *dir);
PF_DEFINE_CLEANUP(struct pf_node *, checkpoint_abandon)

/*
 * Link DIR, which was built of FILE (the reference is taken), in FILE's stead, unless FILE
 * has changed meanwhile.  The name lock is held.  -errno: FILE's bytes are to be refused.
 */
int checkpoint_link(struct pf_node *file, struct pf_node *dir, struct pf_err *err);

/*
 * FILE is about to change: if it is a directory of tensors, these are unlinked, and FILE is
 * listed in the directory's stead.  The name lock is held.  -ENOTEMPTY: there is something
 * else in the directory.
 */
int checkpoint_dissolve(struct pf_node *file, struct pf_err *err);

/*
 * May CRED read what FILE is made of, if it is a directory of tensors: list the directory, and
 * read all of them?  0 or -EACCES.  Takes the name lock.
 */
int checkpoint_may_read(struct pf_node *file, const struct pf_cred *cred,
			struct pf_err *err);

/* The owner or mode of FILE, or of the directory DIR, was set: the other's follow.  Take the
 * name lock. */
void checkpoint_follow_file(struct pf_node *file);
void checkpoint_follow_directory(struct pf_node *dir);

/* DIR was unlinked: its file goes with it.  The name lock is held. */
void checkpoint_gone(struct pf_node *dir);

#endif
