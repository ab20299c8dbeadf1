/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of the tensors of a .safetensors file. */
#ifndef PJRTFS_FILES_BUFFERS_CHECKPOINT_H
#define PJRTFS_FILES_BUFFERS_CHECKPOINT_H

#include "entry.h"

/* In buffers.c: its names are like those of other directories in buffers/. */
extern const struct pf_kind kind_checkpoint;

/* kind_checkpoint's free. */
void checkpoint_free(struct pf_node *dir);

/* Where the arrays of DIR, a checkpoint's directory, live. */
const struct pf_place *checkpoint_place(struct pf_node *dir);

/* The file that DIR is the directory of, borrowed; NULL if DIR is another kind of directory,
 * or was removed.  The name lock is held. */
struct pf_node *checkpoint_file(struct pf_node *dir);

/*
 * Make the directory that FILE's bytes ask for, at PLACE, not linked yet, in *RET, with a
 * reference.  What pf_buffer_tensors refuses; -EINVAL, -ENAMETOOLONG, -E2BIG: names that no
 * files can have, or too many.  Takes time; no lock is needed, the name lock may be held.
 */
int checkpoint_build(struct pf_node *file, const struct pf_place *place,
		     struct pf_node **ret, struct pf_err *err);

/* Let go of what was built; NULL is allowed. */
void checkpoint_abandon(struct pf_node *dir);
PF_DEFINE_CLEANUP(struct pf_node *, checkpoint_abandon)

/*
 * Link DIR, which was built of FILE (the reference is taken), in FILE's stead, unless FILE
 * has changed meanwhile.  The name lock is held.  -errno: FILE's bytes are refused.
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

/* FILE was written and holds several tensors: link their directory.  BEHIND: nobody waits for it,
 * so that somebody else may have done so by now.  Takes the name lock. */
int checkpoint_commit(struct pf_node *file, bool behind, struct pf_err *err);

#endif
