/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_FILES_BUFFERS_INTERNAL_H
#define PJRTFS_FILES_BUFFERS_INTERNAL_H

#include "buffers.h"
#include "files/internal.h"

/*
 * One buffer and its nodes: the one that is listed, under the name it was written with, and
 * the views that a lookup has made.  Counted: each node holds one reference; the inode holds the
 * views' nodes until the buffer is unlinked.  Nodes change under the name lock.
 */
struct buffer_inode {
	_Atomic unsigned refs;
	struct pf_buffer *buffer; /* owned reference */
	uint64_t id;              /* of its first node: no other inode has had it */
	_Atomic unsigned opens;   /* open files, of all its nodes */
	_Atomic bool gone; /* unlinked: its data is freed with the last open file */
	_Atomic bool dead; /* its data is freed, or about to be: opens are ESTALE */
	bool numbered;     /* a result that a command numbered; set before it is linked */
	bool deferred;     /* its free was, once; under the name lock */
	/* Until a writer closes: has it set attributes that only a copy sets? */
	_Atomic bool copied;
	struct pf_node *listed; /* weak; NULL once unlinked */
	/* Owned, PF_FORMAT_COUNT references; NULL: there was no view yet. */
	struct pf_node **views;
	/* The directory of a file of several tensors, listed instead of it; weak. */
	struct pf_node *_Atomic directory;
	/* The id of the file of which it is an unchanged tensor, or 0. */
	_Atomic uint64_t part_of;
	/* Until a writer closes: the shape that awaits its element type, owned, or NULL. */
	char *_Atomic copied_shape;
};

/* The object of a buffer's node. */
struct buffer_view {
	struct buffer_inode *inode; /* owned reference */
	/* The format that this node shows.  A rename of the listed node changes it, under the
	 * name lock; readers may see either. */
	_Atomic enum pf_format format;
	_Atomic bool polled; /* a transfer wakes its callers of poll(2) at the end */
};

/* The object of a directory in buffers/. */
struct buffer_dir {
	struct device *device; /* borrowed: of its arrays */
	/* The .safetensors file whose tensors these are, or NULL: an owned reference, under the
	 * name lock. */
	struct pf_node *file;
	struct pf_file_charge charge; /* none of the fixed ones */
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

/* Is NODE, which was found in a directory of buffers/, a buffer?  Else it is a directory, or a
 * sharding or a refusal, which have no write. */
static inline bool is_buffer(const struct pf_node *node)
{
	return node->kind->write != NULL;
}

static inline bool buffers_is_directory(const struct pf_node *node)
{
	return S_ISDIR(node->kind->mode);
}

/* --- inode.c ------------------------------------------------------------------------ */

/* Make the inode ID (0: that of its first node) of BUFFER (a reference is taken), without nodes and
 * with one reference.  NULL: no memory. */
struct buffer_inode *inode_of(struct pf_buffer *buffer, uint64_t id);

/* Make the inode of BUFFER (a reference is taken) and its listed node, not yet linked,
 * with a reference.  NULL: no memory. */
struct pf_node *inode_new(struct pf_tree *tree, struct pf_buffer *buffer,
			  enum pf_format format, mode_t mode, const struct pf_cred *cred);

/* Make a node of INODE, which gets a reference more, not yet linked, with a reference.  NULL: no
 * memory. */
struct pf_node *view_new(struct pf_tree *tree, struct buffer_inode *inode,
			 enum pf_format format, mode_t mode, const struct pf_cred *cred);

/* The payload of PF_STATE_OBJECT of a buffer's file. */
struct view_record {
	uint64_t inode, buffer, part_of;
	uint32_t format, numbered;
};

/* NODE's format changed, or its inode: write that to the journal. */
void view_save(const struct pf_node *node);

/* The free of kinds of buffers. */
void buffer_node_free(struct pf_node *node);

/* Charge the present owner of NODE, a directory or a buffer, for it. */
void buffer_charge_owner(struct pf_node *node);

/* Have NODE's buffer live in the home of NODE's owner from now on: the bytes that are written to
 * it, and the arrays that are made of them.  -EUSERS, -ENOMEM. */
int inode_move_to_owner(struct pf_node *node, struct pf_err *err);

/* The view of INODE that shows FORMAT, borrowed; NULL: none was made.  The name lock is held. */
static inline struct pf_node *inode_made_view(const struct buffer_inode *inode,
					      enum pf_format format)
{
	return inode->views ? inode->views[format] : NULL;
}

/* NODE, of which a reference is taken, is INODE's view that shows FORMAT.  -ENOMEM.  The name lock is
 * held. */
int inode_set_view(struct buffer_inode *inode, enum pf_format format,
		   struct pf_node *node);

/* Drop INODE's views.  The name lock is held. */
void inode_drop_views(struct buffer_inode *inode);

/* The node of INODE that shows FORMAT, with a reference; NULL: no memory.  The name lock is
 * held. */
struct pf_node *inode_view(struct buffer_inode *inode, enum pf_format format);

/* INODE, which was listed in DIR as NAME, is removed: the kernel may forget its other views.  The
 * name lock is held. */
void inode_views_gone(struct buffer_inode *inode, struct pf_node *dir, const char *name);

/* INODE has lost its name: drop the views' nodes, and free its data once no process has it open:
 * the kernel may hold references on its nodes for long.  The name lock is held. */
void inode_unlinked(struct buffer_inode *inode);

/* A file of NODE's inode is closed: the last one of an inode without a name frees the data. */
void inode_leave(struct pf_node *node);

/* The stem under which NODE's buffer is listed; "" if it has no name.  Takes the name lock. */
void inode_stem(struct pf_node *node, char name[PF_NAME_MAX + 1]);

/* A write to NODE changed the other nodes of its inode: invalidate the kernel's attributes and
 * pages of them.  Takes the name lock. */
void inode_changed(struct pf_node *node);

/* List NODE instead of its inode's listed node, which becomes a view.  0; -ENAMETOOLONG,
 * -ENOMEM.  The name lock is held. */
int inode_list(struct pf_node *node);

/* --- dir_object.c -------------------------------------------------------------------- */

/* Make a directory for arrays of DEVICE, not yet linked, as pf_node_new does. */
struct pf_node *buffer_dir_new(struct pf_tree *tree, struct device *device, mode_t perm,
			       const struct pf_cred *cred);

/* Charge user UID for the directory DIR, with FORCED even beyond the maxima.  -EDQUOT, -ENOSPC. */
int buffer_dir_charge(struct pf_node *dir, uid_t uid, bool forced, struct pf_err *err);

/* Another file's tensors are shown as DIR, or none's: write that to the journal. */
void buffer_dir_save(const struct pf_node *dir);

/* The number of the file whose tensors directory INO of an earlier life showed, or 0. */
uint64_t buffer_dir_saved_file(uint64_t ino);

/* The free of kinds of directories. */
void buffer_dir_free(struct pf_node *dir);

/* --- events.c ----------------------------------------------------------------------- */

/* Report that the command or executable BY made the buffer NODE, perhaps in place of another. */
void files_report_result(struct pf_node *node, const char *by, bool replaced);

/* Report EVENT of BUFFER: a transfer has ended after SECONDS, with ERR, or NULL.  The name lock may
 * be held. */
void files_report_transfer(struct pf_buffer *buffer, const char *event,
			   const struct pf_err *err, double seconds);

/* --- deferred.c --------------------------------------------------------------------- */

struct buffer_inode *inode_ref(struct buffer_inode *inode);
void inode_unref(struct buffer_inode *inode); /* NULL is allowed */

/* A process has opened an inode that was dead already: defer frees for two seconds. */
void deferred_free_alarm(struct pf_fs *fs);

/* INODE has lost its name, and no process has it open: free its data, or defer that, once.  The name
 * lock is held. */
void inode_free_or_defer_locked(struct pf_fs *fs, struct buffer_inode *inode);

/* --- names.c ------------------------------------------------------------------------ */

/* As pf_format_of, for the NAME of a listed file: one that ends in .json is a scratch file. */
enum pf_format buffers_format_of(const char *name, size_t *stem_len);

/* -EINVAL for a stem (LEN bytes at NAME) that looks like a file name: ambiguous in commands. */
int buffers_check_stem(const char *name, size_t len, struct pf_err *err);

/* -EEXIST if the first STEM_LEN bytes of NAME are the name of a directory in DIR, or, with ".json" behind
 * them, of a scratch file. */
int buffers_check_free(struct pf_node *dir, const char *name, size_t stem_len,
		       struct pf_err *err);

/* The directory in DIR whose name is the LEN bytes at NAME, with a reference, or NULL. */
struct pf_node *buffers_find_directory(struct pf_node *dir, const char *name, size_t len);

/* The listed node of the buffer called STEM in DIR, in whatever format, with a reference;
 * NULL: no such buffer. */
struct pf_node *buffers_find_stem(struct pf_node *dir, const char *stem, size_t len);

/* Is there a scratch file that is called like what is known of the buffer STEM (LEN bytes)? */
bool buffers_has_json(struct pf_node *dir, const char *stem, size_t len);

/* The listed buffer that NAME, whose stem has LEN bytes, is a view of, or the file whose tensors
 * have a directory of that stem; with a reference, or NULL. */
struct pf_node *buffers_find_viewed(struct pf_node *dir, const char *name,
				    enum pf_format format, size_t len);

/* May a buffer or scratch file be called NAME in DIR?  0, and its format in *RET; -EINVAL, -EEXIST. */
int buffers_check_name(struct pf_node *dir, const char *name, enum pf_format *ret,
		       struct pf_err *err);

/* -EINVAL if NAME has the extension .json: it describes a buffer, and is none. */
int buffers_check_no_json(const char *name, struct pf_err *err);

/* --- find.c ------------------------------------------------------------------------- */

/* The listed node of the buffer that NAME means, in *RET, and its directory in *DIR, each with a
 * reference; as files_find_buffer. */
int buffers_find_listed(const struct device *device, const char *name,
			const struct pf_cred *cred, struct pf_node **dir,
			struct pf_node **ret, struct pf_err *err);

/* --- refusals.c --------------------------------------------------------------------- */

/* CRED made NAME in DIR (R is 0), or was refused with R and ERR: keep the reason.
 * Returns R.  The name lock is held. */
int buffers_named(struct pf_node *dir, const char *name, const struct pf_cred *cred,
		  int r, const struct pf_err *err);

/* The node that shows why STEM (LEN bytes), with any extension, was last refused in DIR, with a
 * reference; NULL: no such refusal is kept.  The name lock is held. */
struct pf_node *buffers_refusal(struct pf_node *dir, const char *stem, size_t len);

/* --- checkpoint.c: directories of the tensors of a .safetensors file ---------------- */

/*
 * Make the directory of FILE's tensors, on DEVICE, not linked yet, in *RET, for checkpoint_link
 * or checkpoint_abandon; with an error *RET is the part that was made, or NULL.  -errno of
 * pf_buffer_tensors; -EINVAL, -ENAMETOOLONG, -E2BIG: names that no files can have, or too
 * many.  Takes time; no lock is needed, the name lock may be held.
 */
int checkpoint_build(struct pf_node *file, struct device *device, struct pf_node **ret,
		     struct pf_err *err);

/* Free the result of checkpoint_build; NULL is allowed.  The name lock is held. */
void checkpoint_abandon(struct pf_node *dir);
PF_DEFINE_CLEANUP(struct pf_node *, checkpoint_abandon)

/* Link DIR, which was built of FILE (the reference is taken), and list it instead of FILE, unless
 * that has changed meanwhile.  The name lock is held.  -errno: FILE's buffer was refused. */
int checkpoint_link(struct pf_node *file, struct pf_node *dir, struct pf_err *err);

/* FILE is about to change: list it instead of its directory of tensors, if it has one, and unlink
 * these.  The name lock is held.  -ENOTEMPTY: the directory has other files, too. */
int checkpoint_dissolve(struct pf_node *file, struct pf_err *err);

/* May CRED read all tensors in FILE's directory, if it has one?  0 or -EACCES.  Takes the name
 * lock. */
int checkpoint_may_read(struct pf_node *file, const struct pf_cred *cred,
			struct pf_err *err);

/* The owner or mode of NODE was set: if it is a file whose tensors have a directory, or that
 * directory, set the other's, too.  Takes the name lock. */
void checkpoint_mirror(struct pf_node *node);

/* DIR was unlinked: unlink the file whose tensors it had, if any.  The name lock is held. */
void checkpoint_gone(struct pf_node *dir);

/* FILE was written and has several tensors: link their directory.  BEHIND: the commit runs in the
 * background, so a later one may have linked it by now.  Takes the name lock.  -errno: FILE's buffer
 * was refused. */
int checkpoint_commit(struct pf_node *file, bool behind, struct pf_err *err);

/* --- commit.c ----------------------------------------------------------------------- */

/* Make an array, or several, of the content of NODE's buffer and send it to its device;
 * REPLY (NULL: no process waits, and the name lock may be held) is answered at the end.
 * PARTIAL_OK: incomplete content is allowed.  -ENOMEM: the buffer's state is an error, or REPLY
 * was answered. */
int buffer_commit_start(struct pf_node *node, bool partial_ok, struct pf_reply *reply);

/* Send VALUE, which is BUFFER's, to its device; MOVED: it stays readable if that fails.  REPLY as
 * above. */
void buffer_transfer_start(struct pf_buffer *buffer, struct pf_value *value, bool moved,
			   struct pf_reply *reply);

/* --- sharding.c: NAME.sharding.json ------------------------------------------------- */

extern const struct pf_kind kind_sharding;

/* A buffer lost the name NAME in DIR: if that was the last shard of an array, unlink its
 * NAME.sharding.json.  The name lock is held. */
void files_shard_gone(struct pf_node *dir, const char *name);

/* --- file.c ------------------------------------------------------------------------- */

extern const struct pf_kind kind_buffer;

/* --- dir.c -------------------------------------------------------------------------- */

extern const struct pf_kind kind_buffers;

#endif
