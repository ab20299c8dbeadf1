/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_FILES_PROGRAMS_INTERNAL_H
#define PJRTFS_FILES_PROGRAMS_INTERNAL_H

#include "programs.h"

/* As files_drop_executable, the name lock held. */
void files_drop_executable_locked(struct program *program);

extern const struct pf_kind kind_callbacks; /* callbacks.c */

/* programs.c; functions of kinds whose object is a program with a source */
extern const struct pf_kind kind_program;
int source_open(struct pf_open *of, struct pf_err *err);
void source_release(struct pf_open *of);
void source_read(struct pf_open *of, size_t len, uint64_t off, struct pf_reply *reply);
void source_getattr(struct pf_node *node, struct stat *st);
void source_setattr(struct pf_node *node);

/* The file NAME of KIND for DIR, not linked yet, of a new program of FORMAT, which is CRED's: *RET, with a
 * reference.  -errno of program_new. */
int source_new(struct pf_node *dir, const char *name, const struct pf_kind *kind,
	       enum pf_program_format format, mode_t mode, const struct pf_cred *cred,
	       struct pf_node **ret, struct pf_err *err);

/* The file of KIND that OLD was, linked in DIR if that is not NULL: *RET, with a reference; NULL: its
 * program is gone.  -EPROTO, -ENOMEM. */
int source_restore(struct restoring *r, struct pf_node *dir, const struct pf_kind *kind,
		   const struct pf_restored *old, struct pf_node **ret,
		   struct pf_err *err);

/* What executables of HOME work with. */
struct pf_executable_config program_config(const struct pf_fs *fs,
					   const struct home *home);

/*
 * A program of HOME whose executable is X (taken; NULL: no memory), charged to OWNER, with FORCED even
 * beyond the maxima: *RET, one reference.  -EDQUOT, -ENOSPC, -ENOMEM.
 */
int program_of_executable(struct pf_fs *fs, const struct home *home, uid_t owner,
			  struct pf_executable *x, bool forced, struct program **ret,
			  struct pf_err *err);

/* The payload of PF_STATE_OBJECT of a program's file, and of the directory of "as".  A line for each
 * binding follows: the user's number and the binding's line. */
struct program_record {
	uint64_t executable;
	uint64_t user; /* its maker */
};

/* program_bind without the journal; the caller holds the name lock, or is PROGRAM's only user. */
int program_add_binding(struct program *program, uid_t uid, const char *line, size_t len,
			struct pf_err *err);

/* Write the executable of NODE, a program's file or that of "as", to the journal. */
void program_save(const struct pf_node *node);

/* Is NODE, a directory in executables/, that of an executable that has no program? */
static inline bool files_is_as(const struct pf_node *node)
{
	const struct program *program =
		node->kind == &kind_executables ? NULL : node->object;

	return program && program->made_as;
}

/* A directory in executables/, not yet linked, which mirrors one that CRED makes in programs/:
 * charges CRED's user for both.  In *RET, with a reference.  -EDQUOT, -ENOSPC, -ENOMEM. */
int files_mirror_new(struct pf_tree *tree, mode_t mode, const struct pf_cred *cred,
		     bool forced, struct pf_node **ret, struct pf_err *err);

/* Charge user UID for both instead. */
void files_mirror_charge_to(struct pf_node *mirror, uid_t uid);

/*
 * Link DIR/STEM/ for PROGRAM, replacing what is there.  The name lock is held.  Its rights are
 * its program's; one that has none is CRED's, its mode PERM.  With COMPILES the compile of
 * its source begins before the name leads to it.
 */
int files_add_executable(struct pf_node *dir, const char *stem, struct program *program,
			 mode_t perm, const struct pf_cred *cred, bool compiles,
			 struct pf_err *err);

/* EXECUTABLE's owner and mode become those of the program OF: R_OK on the program is R_OK and
 * X_OK on the executable, W_OK on it is W_OK on the options. */
void files_follow_program(struct pf_node *of, struct pf_node *executable);

/* Compile X's source, and answer REPLY (taken) at the end. */
void files_compile(struct pf_executable *x, struct pf_reply *reply);

/* The directory in executables/ that mirrors DIR in programs/, borrowed. */
static inline struct pf_node *files_mirror_of(struct pf_node *dir)
{
	return dir->object ? dir->object : fs_of(dir)->executables;
}

/*
 * The directory of programs that the path *AT leads to, with a reference; *AT becomes its
 * last name.  -ENOENT, -EACCES: without a sentence.
 */
int files_find_program_dir(struct pf_fs *fs, const char **at, const struct pf_cred *cred,
			   struct pf_node **ret);

static inline struct program *program_of(struct pf_node *node)
{
	return node->object;
}

/* PROGRAM was removed: its source is freed now, or when its last open file is closed. */
void program_removed(struct program *program);

/* An open file of PROGRAM's source is closed. */
void program_leave(struct program *program);

/* May user UID load a compiled program, which a plugin runs as it is?  0 or -EPERM. */
int files_may_load(struct pf_fs *fs, uid_t uid, struct pf_err *err);

/* The linked program called STEM in DIR, in whatever format; NULL if none. */
struct pf_node *files_find_stem(struct pf_node *dir, const char *stem, size_t len);

/*
 * May a program be called NAME in DIR?  OTHER, if there is one, is being replaced or MOVED
 * moved, and does not count.  0, with the format and, in PF_NAME_MAX + 1 bytes, the STEM;
 * -EINVAL, -EEXIST.
 */
int files_check_name(struct pf_node *dir, const char *name, const struct pf_node *other,
		     const struct pf_node *moved, enum pf_program_format *ret, char *stem,
		     struct pf_err *err);

/* -EEXIST if an executable that has no program is called STEM beside DIR; else 0. */
int files_check_as(struct pf_node *dir, const char *stem, struct pf_err *err);

#endif
