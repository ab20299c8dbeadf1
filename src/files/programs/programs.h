/* SPDX-License-Identifier: Apache-2.0 */
/* Programs and executables, for the other rooms. */
#ifndef PJRTFS_FILES_PROGRAMS_PROGRAMS_H
#define PJRTFS_FILES_PROGRAMS_PROGRAMS_H

#include "files/internal.h"

extern const struct pf_kind kind_programs;
extern const struct pf_kind kind_executables;
extern const struct pf_kind kind_topologies;

/* Files of an executable's directory that are defined in execute/.  Their object: a counted
 * struct program. */
extern const struct pf_kind kind_bind;
extern const struct pf_kind kind_call;
extern const struct pf_kind kind_call_raw;
extern const struct pf_kind kind_run;

/* Files of callbacks/, defined in execute/, too.  Their object: a struct callback. */
extern const struct pf_kind kind_callback;      /* requests and answers are .npy files, */
extern const struct pf_kind kind_callback_text; /* or lines */

/* A callback of a program's executable. */
struct callback {
	struct program *program; /* owned reference */
	uint64_t index;
};

/* The free of kinds whose object is a struct callback. */
void callback_node_free(struct pf_node *node);

/* Callback INDEX of SIGNATURE (NULL: nothing is compiled), borrowed, or NULL. */
const struct pf_callback_sig *files_find_callback(const struct pf_signature *signature,
						  uint64_t index);

/* May CRED answer PROGRAM's callbacks?  A user who may write the program may; where it has no file,
 * its owner.  Takes the name lock. */
bool files_program_may_answer(struct program *program, const struct pf_cred *cred);

enum {
	BIND_MAX = 4096, /* bytes of a line of bind */
	BIND_USERS = 64, /* that have bound inputs of one program */
};

/* The inputs of a program that a user has bound. */
struct binding {
	struct binding *next;
	uid_t uid;
	char line[]; /* "params * -> *" */
};

/* A program and its executable: the object of both sides' nodes.  Counted. */
struct program {
	_Atomic unsigned refs;
	struct pf_fs *fs;        /* borrowed */
	const struct home *home; /* borrowed, held by X: where it is compiled and runs */
	struct pf_executable *x; /* owned reference */
	struct pf_file_charge charge; /* for its file and its executable */
	struct pf_node
		*node; /* its file; NULL: weak, under the name lock; made by "as" */
	struct pf_node *executable; /* owned reference: its directory, or NULL */
	bool made_as; /* by the compile command's "as"; set before it is linked */
	_Atomic unsigned opens;      /* open files of the program */
	_Atomic bool removed;        /* it has lost its name */
	_Atomic bool dead;           /* its source is freed, too: opens are ESTALE */
	struct binding *bindings;    /* owned; under the name lock, each one immutable */
	_Atomic uint64_t rebindings; /* changes of bindings */
};

/* A program of USER's without a source, in USER's home: *RET, with one reference.  -ENOMEM;
 * -EDQUOT, -ENOSPC: USER has too many; -EUSERS, as files_home. */
int program_new(struct pf_fs *fs, uid_t user, struct program **ret, struct pf_err *err);

/* Charge the account of user UID for PROGRAM instead. */
void program_charge_to(struct program *program, uid_t uid);
struct program *program_ref(struct program *program);
void program_unref(struct program *program); /* NULL is allowed */
PF_DEFINE_CLEANUP(struct program *, program_unref)

/* Bind inputs of PROGRAM for user UID as LINE says, of which LEN bytes have no newline; 0: unbind
 * them.  -EUSERS, -ENOMEM.  Takes the name lock. */
int program_bind(struct program *program, uid_t uid, const char *line, size_t len,
		 struct pf_err *err);

/* Append user UID's line to RET; nothing: none is bound.  Takes the name lock. */
void program_binding(struct program *program, uid_t uid, struct pf_buf *ret);

/* A copy of PROGRAM's options as text, which the caller frees; NULL: it has none, or no memory. */
char *program_options(struct program *program);

/* The free of kinds whose object is a counted struct program. */
void program_node_free(struct pf_node *node);

/*
 * May CRED do WANT (R_OK, W_OK) with PROGRAM: with its program's file, or, where it has none,
 * with the executable's directory.  Takes the name lock.
 */
bool files_program_may(struct program *program, const struct pf_cred *cred, int want);

/*
 * May user UID have programs compiled with OPTIONS, text as in options.json, or NULL; and
 * PROGRAM with its present options?  0, also for text that is not JSON; -EPERM: a flag
 * that only the mount's owner may set, which is then also in PROGRAM's error.
 */
int files_may_set(struct pf_fs *fs, uid_t uid, const char *options, struct pf_err *err);
int files_may_compile(struct program *program, uid_t uid, struct pf_err *err);

/*
 * Link MADE, which was made of SOURCE's program, as the executable AS ("ns/add-2x"), with the
 * owner CRED, readable as the program is.  -EEXIST: a program, an executable or a
 * directory has that name; -ENOENT, -EACCES, -EINVAL.  Takes the name lock.
 */
int files_add_as(struct pf_fs *fs, const char *as, struct program *source,
		 struct program *made, const struct pf_cred *cred, struct pf_err *err);

/*
 * Call FN(ARG, its directory, its program) for each executable, in the order in which they were
 * made.  FN must not change names.
 */
void files_each_executable(struct pf_fs *fs,
			   void (*fn)(void *arg, struct pf_node *node,
				      struct program *program),
			   void *arg);

/* Unlink PROGRAM's directory; executions under way finish.  Takes the name lock. */
void files_drop_executable(struct program *program);

/* The executable called NAME, with a reference.  R_OK on its program is checked. */
int files_find_program(struct pf_fs *fs, const char *name, const struct pf_cred *cred,
		       struct program **ret, struct pf_err *err);

/*
 * The program called NAME, "add" or "add.mlir", as files_find_program.  An executable that has
 * no program is none.
 */
int files_find_source(struct pf_fs *fs, const char *name, const struct pf_cred *cred,
		      struct program **ret, struct pf_err *err);

/* Append the name of PROGRAM's executable, its directory's path below executables/, or
 * "(removed)".  Takes the name lock. */
void files_program_name(struct program *program, struct pf_buf *out);

/* --- after a restart of the daemon --------------------------------------------------- */

restore_fn programs_restore_directory;
restore_fn programs_restore_file;
restore_fn programs_restore_as;
restore_fn programs_restore_topology;

/* All nodes are back: compile the programs. */
void programs_restored(struct restoring *r);

/* NAME without a program's extension, the caller's; NULL: no memory. */
char *files_stem_of(const char *name);

#endif
