/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directories and files of programs/ in a restarted daemon, and the executables.
 *
 * The directory of an executable, and the mirror of a directory, come back with their programs, and
 * get the numbers that their names had.  An executable made with "as" has a record of its own.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/restore.h"
#include "pjrtfs/state.h"

int programs_restore_directory(struct restoring *r, struct pf_node *dir,
			       const struct pf_restored *old, struct pf_node **ret,
			       struct pf_err *err)
{
	const struct pf_cred owner = { .uid = old->attr.uid, .gid = old->attr.gid };
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	struct pf_node *mirror;
	int code = files_mirror_new(dir->tree, (mode_t)-1, &owner, true, &mirror, err);

	(void)r;
	if (code < 0)
		return code;
	pf_tree_adopt(dir->tree, old->ino);
	node = pf_node_new(dir->tree, &kind_programs, mirror, (mode_t)-1, NULL);
	if (!node) {
		pf_node_unref(mirror);
		return -ENOMEM;
	}
	code = pf_dir_link(dir, old->name, node, false);
	if (code == 0)
		code = pf_dir_link(files_mirror_of(dir), old->name, mirror, false);
	*ret = code < 0 ? NULL : pf_steal(&node);
	return code;
}

/* Add the bindings in the LEN bytes of TEXT, lines as program_save writes them. */
static int restore_bindings(struct program *program, const char *text, size_t len,
			    struct pf_err *err)
{
	const char *end = text + len, *newline;
	int r = 0;

	for (; text < end && r == 0; text = newline + 1) {
		char *line;
		uid_t uid;

		newline = memchr(text, '\n', (size_t)(end - text));
		if (!newline)
			return pf_err_set(err, -EPROTO, "the record of a binding");
		uid = (uid_t)strtoul(text, &line, 10);
		if (line >= newline)
			return pf_err_set(err, -EPROTO, "the record of a binding");
		line++;
		r = program_add_binding(program, uid, line, (size_t)(newline - line),
					err);
	}
	return r;
}

/* The program of OLD's record in *RET; NULL: it is gone.  -EPROTO, -ENOMEM. */
static int find_program(struct restoring *r, const struct pf_restored *old,
			struct program **ret, struct pf_err *err)
{
	size_t len;
	const struct program_record *record =
		pf_state_load(PF_STATE_OBJECT, old->ino, sizeof(*record), &len, err);
	struct pf_fs *fs = r->fs;
	struct pf_executable_config config;
	struct pf_executable *x = NULL;
	PF_CLEANUP(files_leave_homep) const struct home *home = NULL;
	int code;

	*ret = NULL;
	if (!record)
		return -EPROTO;
	code = files_home(fs, record->user, &home, err);
	if (code < 0)
		return code;
	config = program_config(fs, home);
	code = pf_executable_restore(r->store, record->executable, &config, &x, err);
	if (code < 0)
		return code == -ENOENT ? 0 : code;
	code = program_of_executable(fs, home, old->attr.uid, x, true, ret, err);
	if (code == 0)
		code = restore_bindings(*ret, (const char *)(record + 1), len, err);
	if (code < 0)
		program_unref(pf_steal(ret));
	return code;
}

int source_restore(struct restoring *r, struct pf_node *dir, const struct pf_kind *kind,
		   const struct pf_restored *old, struct pf_node **ret,
		   struct pf_err *err)
{
	struct pf_tree *tree = r->fs->tree;
	struct program *program;
	int code = find_program(r, old, &program, err);

	if (code < 0 || !program)
		return code;
	pf_tree_adopt(tree, old->ino);
	*ret = pf_node_new(tree, kind, program, (mode_t)-1, NULL);
	if (!*ret) {
		program_unref(program);
		return -ENOMEM;
	}
	program_save(*ret);
	program->node = dir ? *ret : NULL;
	atomic_store(&program->removed, !dir);
	return dir ? pf_dir_link(dir, old->name, *ret, false) : 0;
}

int programs_restore_file(struct restoring *r, struct pf_node *dir,
			  const struct pf_restored *old, struct pf_node **ret,
			  struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	char stem[PF_NAME_MAX + 1];
	size_t len;
	int code = source_restore(r, dir, &kind_program, old, &node, err);

	if (code == 0 && node && dir &&
	    pf_program_format_of(old->name, &len) != PF_PROGRAM_NONE) {
		snprintf(stem, sizeof(stem), "%.*s", (int)len, old->name);
		code = files_add_executable(files_mirror_of(dir), stem, program_of(node),
					    0, NULL, false, err);
	}
	*ret = code < 0 ? NULL : pf_steal(&node);
	return code;
}

int programs_restore_as(struct restoring *r, struct pf_node *dir,
			const struct pf_restored *old, struct pf_node **ret,
			struct pf_err *err)
{
	PF_CLEANUP(program_unrefp) struct program *program = NULL;
	int code = dir ? find_program(r, old, &program, err) : 0;

	if (code < 0 || !program)
		return code;
	pf_tree_adopt(dir->tree, old->ino);
	code = files_add_executable(dir, old->name, program, (mode_t)-1, NULL, false,
				    err);
	*ret = code < 0 ? NULL : pf_node_ref(program->executable);
	return code;
}

static void compile(void *arg, struct pf_node *node, struct program *program)
{
	(void)arg;
	(void)node;
	pf_executable_resume(program->x);
}

void programs_restored(struct restoring *r)
{
	files_each_executable(r->fs, compile, NULL);
}
