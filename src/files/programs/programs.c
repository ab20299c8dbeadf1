/* SPDX-License-Identifier: Apache-2.0 */
/* programs/: files that compile when they are closed. */
#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* --- the file ----------------------------------------------------------------------- */

/* An open file of PROGRAM's source is opened; program_leave closes it. */
static void program_hold(struct program *program)
{
	atomic_fetch_add(&program->opens, 1);
}

int source_open(struct pf_open *of, struct pf_err *err)
{
	struct program *program = program_of(of->node);

	program_hold(program);
	if (!atomic_load(&program->dead))
		return 0;
	/* ESTALE makes the kernel look the name up again. */
	program_leave(program);
	return pf_err_set(err, -ESTALE, "it was removed just now");
}

void source_release(struct pf_open *of)
{
	program_leave(program_of(of->node));
}

void source_read(struct pf_open *of, size_t len, uint64_t off, struct pf_reply *reply)
{
	uint64_t size;
	struct pf_bytes *bytes = pf_executable_source(program_of(of->node)->x, &size);

	files_reply_part(reply, bytes ? pf_bytes_at(bytes, 0) : NULL, size, len, off);
	pf_bytes_unref(bytes);
}

/* May user UID change PROGRAM's source?  0 or -EPERM. */
static int may_change(struct program *program, uid_t uid, struct pf_err *err)
{
	int r = files_may_compile(program, uid, err);

	if (r == 0 && pf_executable_format(program->x) == PF_PROGRAM_NATIVE)
		r = files_may_load(program->fs, uid, err);
	return r;
}

static ssize_t source_write(struct pf_open *of, const void *src, size_t len, uint64_t off,
			    struct pf_err *err)
{
	struct program *program = program_of(of->node);
	int r = may_change(program, of->cred.uid, err);

	return r < 0 ? r : pf_executable_write(program->x, src, len, off, err);
}

static int source_truncate(struct pf_node *node, struct pf_open *of, uint64_t size,
			   const struct pf_cred *cred, struct pf_err *err)
{
	int r = may_change(program_of(node), cred->uid, err);

	if (r == 0)
		r = pf_executable_truncate(program_of(node)->x, size, err);
	/* truncate(2) opens no file, so that no close compiles it. */
	if (r == 0 && !of)
		pf_executable_compile(program_of(node)->x, NULL, NULL);
	return r;
}

static void source_commit(struct pf_open *of, enum pf_commit why, struct pf_reply *reply)
{
	/* The options may have changed since it was written. */
	int r = files_may_compile(program_of(of->node), of->cred.uid, NULL);

	(void)why;
	if (r < 0) {
		pf_reply_code(reply, r);
		return;
	}
	if (pf_executable_is_named(program_of(of->node)->x)) /* no scratch file */
		files_report(of->node, "program.committed", NULL);
	files_compile(program_of(of->node)->x, reply);
}

void source_getattr(struct pf_node *node, struct stat *st)
{
	uint64_t size;

	pf_bytes_unref(pf_executable_source(program_of(node)->x, &size));
	st->st_size = (off_t)size;
}

/* R_OK on the program is the right to see and run its executable. */
void source_setattr(struct pf_node *node)
{
	struct pf_node *executable;
	struct pf_attr attr;

	pf_node_attr(node, &attr);
	program_charge_to(program_of(node), attr.uid);
	PF_NAMES_SCOPE(node->tree);
	executable = program_of(node)->executable;
	if (executable)
		files_follow_program(node, executable);
}

int source_new(struct pf_node *dir, const char *name, const struct pf_kind *kind,
	       enum pf_program_format format, mode_t mode, const struct pf_cred *cred,
	       struct pf_node **ret, struct pf_err *err)
{
	struct program *program = NULL;
	int r = program_new(fs_of(dir), cred->uid, &program, err);

	if (r < 0)
		return r;
	*ret = pf_node_new(dir->tree, kind, program, mode, cred);
	if (!*ret) {
		program_unref(program);
		return pf_err_set(err, -ENOMEM, "no memory for %s", name);
	}
	program->node = *ret;
	/* The journal has it before it has bytes, too. */
	pf_executable_set_format(program->x, format);
	program_save(*ret);
	return 0;
}

const struct pf_kind kind_program = {
	.mode = S_IFREG | 0644,
	.max_write = (size_t)1 << 31, /* a protobuf has no more */
	.open = source_open,
	.release = source_release,
	.read = source_read,
	.write = source_write,
	.truncate = source_truncate,
	.commit = source_commit,
	/* sshfs reports what fsync(2) says, and not what close(2) says */
	.whole_at_fsync = true,
	.getattr = source_getattr,
	.setattr = source_setattr,
	.restored_as = RESTORED_PROGRAM,
	.free = program_node_free,
};

/* --- the directory's operations ----------------------------------------------------- */

static int programs_create(struct pf_node *dir, const char *name, mode_t mode,
			   const struct pf_cred *cred, struct pf_node **ret,
			   struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	enum pf_program_format format;
	char stem[PF_NAME_MAX + 1];
	int r = files_check_name(dir, name, NULL, NULL, &format, stem, err);

	if (r == 0 && format == PF_PROGRAM_NATIVE)
		r = files_may_load(fs_of(dir), cred->uid, err);
	if (r == 0)
		r = source_new(dir, name, &kind_program, format, mode, cred, &node, err);
	if (r < 0)
		return r;
	pf_node_inherit(dir, node); /* its executable follows */
	r = pf_dir_link(dir, name, node, false);
	if (r == 0 && format != PF_PROGRAM_NONE)
		r = files_add_executable(files_mirror_of(dir), stem, program_of(node), 0,
					 cred, false, err);
	if (r < 0) {
		pf_dir_unlink(node);
		return r;
	}
	*ret = pf_steal(&node);
	return 0;
}

static int programs_mkdir(struct pf_node *dir, const char *name, mode_t mode,
			  const struct pf_cred *cred, struct pf_node **ret,
			  struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *taken = files_find_stem(dir, name, strlen(name));
	PF_CLEANUP(pf_node_unrefp) struct pf_node *mirror = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	int r;

	if (taken)
		return pf_err_set(err, -EEXIST, "%s: there is a program of that name",
				  name);
	r = files_check_as(dir, name, err);
	if (r < 0)
		return r;
	r = files_mirror_new(dir->tree, mode, cred, false, &mirror, err);
	if (r < 0)
		return r;
	node = pf_node_new(dir->tree, &kind_programs, mirror, mode, cred);
	if (!node)
		return -ENOMEM;
	pf_steal(&mirror);
	r = pf_dir_link(dir, name, node, false);
	if (r == 0)
		r = pf_dir_link(files_mirror_of(dir), name, node->object, false);
	if (r < 0) {
		pf_dir_unlink(node);
		return r;
	}
	*ret = pf_steal(&node);
	return 0;
}

static int programs_unlink(struct pf_node *dir, struct pf_node *node, struct pf_err *err)
{
	struct program *program = program_of(node);

	(void)dir;
	(void)err;
	pf_dir_unlink(node);
	program->node = NULL;
	files_drop_executable_locked(program);
	program_removed(program); /* a scratch file has no executable */
	return 0;
}

static int programs_rmdir(struct pf_node *dir, struct pf_node *node, struct pf_err *err)
{
	(void)dir;
	if (pf_dir_count(node) || pf_dir_count(node->object))
		return pf_err_set(err, -ENOTEMPTY, "the directory is not empty");
	pf_dir_unlink(node->object);
	pf_dir_unlink(node);
	return 0;
}

static void directory_free(struct pf_node *node)
{
	pf_node_unref(node->object);
}

/* --- renames ------------------------------------------------------------------------ */

static int rename_directory(struct pf_node *node, struct pf_node *to, const char *name,
			    struct pf_node *target, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *taken = files_find_stem(to, name, strlen(name));
	int r;

	if (target && pf_dir_count(target->object))
		return -ENOTEMPTY;
	if (taken)
		return pf_err_set(err, -EEXIST, "%s: there is a program of that name",
				  name);
	r = files_check_as(to, name, err);
	if (r == 0)
		r = pf_dir_check_depth(files_mirror_of(to), node->object, err);
	return r < 0 ? r
		     : pf_dir_move_both(node, to, name, node->object, files_mirror_of(to),
					name);
}

/* TO, whose format was WAS, is about to replace FROM.  True: it runs what FROM ran. */
static bool inherit(struct program *from, struct program *to, enum pf_program_format was)
{
	pf_autofree char *options = was == PF_PROGRAM_NONE ? program_options(from) : NULL;

	/* Editors save a program by renaming a scratch file over it. */
	if (options)
		pf_executable_set_options(to->x, options, strlen(options), false, NULL);
	return from->home == to->home && pf_executable_succeed(to->x, from->x);
}

/* May PROGRAM, which has been compiled or has failed, replace TARGET, which perhaps runs? */
static int may_replace(struct program *program, struct program *target,
		       struct pf_err *err)
{
	struct pf_err why = PF_ERR_INIT;

	if (pf_executable_state(program->x) != PF_EXECUTABLE_FAILED ||
	    pf_executable_state(target->x) != PF_EXECUTABLE_READY)
		return 0;
	pf_executable_result(program->x, &why);
	return pf_err_set(err, -ENOEXEC,
			  "it did not compile, and what it would replace runs: %s",
			  why.text);
}

/* May NODE, a program's file, get NAME and FORMAT in TO, in place of TARGET (or NULL)? */
static int may_rename(struct pf_node *node, struct pf_node *to, const char *name,
		      struct pf_node *target, enum pf_program_format format,
		      struct pf_err *err)
{
	struct program *program = program_of(node);
	enum pf_program_format was = pf_executable_format(program->x);
	struct pf_attr attr;
	int r = 0;

	pf_node_attr(node, &attr);
	if (was != format && format == PF_PROGRAM_NATIVE)
		r = files_may_load(fs_of(node), attr.uid, err);
	if (r == 0 && target && was == PF_PROGRAM_NONE)
		r = files_may_compile(program_of(target), attr.uid, err);
	if (r == 0 && target && was != PF_PROGRAM_NONE && format != PF_PROGRAM_NONE)
		r = may_replace(program, program_of(target), err);
	if (r < 0)
		return r;
	if (was != PF_PROGRAM_NONE && format != PF_PROGRAM_NONE && was != format)
		return pf_err_set(err, -EOPNOTSUPP,
				  "%s: a rename does not convert a program", name);
	if (format == PF_PROGRAM_NONE)
		return 0;
	return pf_dir_check_depth(files_mirror_of(to), program->executable, err);
}

static int rename_program(struct pf_node *node, struct pf_node *to, const char *name,
			  struct pf_node *target, struct pf_err *err)
{
	struct program *program = program_of(node);
	enum pf_program_format format, was = pf_executable_format(program->x);
	pf_autobuf struct pf_buf from = PF_BUF_INIT;
	char stem[PF_NAME_MAX + 1];
	bool added = false, inherited = false;
	int r = files_check_name(to, name, target, node, &format, stem, err);

	if (r == 0)
		r = may_rename(node, to, name, target, format, err);
	if (r < 0)
		return r;
	if (target) {
		if (format != PF_PROGRAM_NONE)
			inherited = inherit(program_of(target), program, was);
		if (program_of(target)->executable)
			files_report(program_of(target)->executable, "executable.removed",
				     NULL);
		/* Its source is freed when both changes of names are in the journal. */
		program_hold(program_of(target));
	}
	pf_node_path(node, NULL, &from);
	/* programs/ and executables/ change together, or not at all, and each name leads to the
	 * one program or the other at any time. */
	if (format == PF_PROGRAM_NONE) {
		r = pf_dir_move(node, to, name);
	} else if (program->executable) {
		r = pf_dir_move_both(node, to, name, program->executable,
				     files_mirror_of(to), stem);
	} else {
		pf_executable_set_format(program->x, format);
		r = files_add_executable(files_mirror_of(to), stem, program, 0, NULL,
					 true, err);
		added = r == 0;
		if (r == 0)
			r = pf_dir_move(node, to, name);
	}
	if (r < 0 && inherited)
		pf_tree_wake_later(to->tree, pf_executable_unload(program->x));
	if (r < 0 && added)
		files_drop_executable_locked(program);
	if (target && r == 0)
		programs_unlink(to, target, NULL);
	if (target)
		program_leave(program_of(target));
	pf_executable_set_format(program->x, r < 0 ? was : format);
	if (r < 0)
		return r;
	files_report(node, "program.moved", from.data);
	if (format == PF_PROGRAM_NONE)
		files_drop_executable_locked(program);
	return 0;
}

static int programs_rename(struct pf_node *dir, struct pf_node *node, struct pf_node *to,
			   const char *name, unsigned flags, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *target = pf_dir_lookup(to, name);

	(void)dir;
	/* On EXDEV mv(1) copies a scratch file, which has no executable, and removes it. */
	if (to->kind != &kind_programs && !S_ISDIR(node->kind->mode) &&
	    pf_executable_format(program_of(node)->x) == PF_PROGRAM_NONE)
		return pf_err_set(err, -EXDEV, "%s: another directory's file: copy it",
				  name);
	if (to->kind != &kind_programs)
		return pf_err_set(err, -EOPNOTSUPP,
				  "%s: a program cannot be moved there: copy "
				  "it",
				  name);
	if (flags & RENAME_EXCHANGE)
		return -EINVAL;
	return S_ISDIR(node->kind->mode) ? rename_directory(node, to, name, target, err)
					 : rename_program(node, to, name, target, err);
}

static const struct pf_dir_ops programs_ops = {
	.create = programs_create,
	.mkdir = programs_mkdir,
	.unlink = programs_unlink,
	.rmdir = programs_rmdir,
	.rename = programs_rename,
};

/* The right to make programs here is the right to remove executables that have none. */
static void directory_setattr(struct pf_node *node)
{
	struct pf_node *mirror = files_mirror_of(node);
	struct pf_attr of_node, attr;

	pf_node_attr(node, &of_node);
	pf_node_attr(mirror, &attr);
	attr.mode = of_node.mode;
	attr.uid = of_node.uid;
	attr.gid = of_node.gid;
	pf_node_set_attr(mirror, &attr);
	files_mirror_charge_to(mirror, attr.uid);
	pf_node_changed(mirror, false);
}

const struct pf_kind kind_programs = { .mode = S_IFDIR | 0755,
				       .dir = &programs_ops,
				       .setattr = directory_setattr,
				       .restored_as = RESTORED_PROGRAMS,
				       .free = directory_free };
