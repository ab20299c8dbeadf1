/* programs/: files that compile when they are closed. */
#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

static const struct pf_kind kind_program;

static struct unit *unit_of(struct pf_node *node)
{
	return node->object;
}

/* --- names ---------------------------------------------------------------------------------- */

static const char *const extensions[] = { ".mlir", ".mlirbc", ".hlo.pb" };

/* The linked program called STEM in DIR, in whatever format; NULL if none. */
static struct pf_node *find_stem(struct pf_node *dir, const char *stem, size_t len)
{
	char name[PF_NAME_MAX + 1];

	for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]); i++) {
		struct pf_node *node;

		if (snprintf(name, sizeof(name), "%.*s%s", (int)len, stem,
			     extensions[i]) >= (int)sizeof(name))
			continue;
		node = pf_dir_lookup(dir, name);
		if (node && node->kind == &kind_program)
			return node;
		pf_node_unref(node);
	}
	return NULL;
}

/*
 * May a program be called NAME in DIR?  OTHER, if there is one, is being replaced or moved
 * and does not count.
 */
static int check_name(struct pf_node *dir, const char *name, const struct pf_node *other,
		      const struct pf_node *moved, enum pf_program_format *ret,
		      char *stem, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *taken = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *same = NULL;
	size_t len;

	*ret = pf_program_format_of(name, &len);
	snprintf(stem, PF_NAME_MAX + 1, "%.*s", (int)len, name);
	if (*ret == PF_PROGRAM_NONE)
		return 0;
	if (pf_program_format_of(stem, NULL) != PF_PROGRAM_NONE)
		return pf_err_set(err, -EINVAL, "%s has two extensions", name);
	taken = pf_dir_lookup(dir, stem);
	if (taken && S_ISDIR(taken->kind->mode))
		return pf_err_set(err, -EEXIST, "%s: there is a directory %s", name,
				  stem);
	same = find_stem(dir, stem, len);
	if (same && same != other && same != moved)
		return pf_err_set(err, -EEXIST, "%s: there is another program called %s",
				  name, stem);
	return 0;
}

/* --- units ----------------------------------------------------------------------------------- */

struct unit *unit_new(struct pf_fs *fs)
{
	struct unit *unit = calloc(1, sizeof(*unit));

	if (!unit)
		return NULL;
	atomic_init(&unit->refs, 1);
	unit->fs = fs;
	unit->x = pf_executable_new(fs->devices[0].worker, fs->arena, fs->probe);
	if (!unit->x) {
		free(unit);
		return NULL;
	}
	return unit;
}

struct unit *unit_ref(struct unit *unit)
{
	atomic_fetch_add(&unit->refs, 1);
	return unit;
}

void unit_unref(struct unit *unit)
{
	if (!unit || atomic_fetch_sub(&unit->refs, 1) != 1)
		return;
	pf_executable_unref(unit->x);
	free(unit);
}

/* Take the executable's directory away; what runs finishes. */
static void drop_executable(struct unit *unit)
{
	if (!unit->executable)
		return;
	files_tell(unit->executable, "executable.removed");
	pf_executable_name(unit->x, 0);
	pf_dir_unlink(unit->executable);
	pf_node_unref(pf_steal(&unit->executable));
	/* The kernel may remember the directory's inodes for long. */
	pf_executable_unload(unit->x);
}

/* --- the directory's operations --------------------------------------------------------------- */

static int programs_create(struct pf_node *dir, const char *name, mode_t mode,
			   const struct pf_cred *cred, struct pf_node **ret,
			   struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	enum pf_program_format format;
	char stem[PF_NAME_MAX + 1];
	struct unit *unit;
	int r = check_name(dir, name, NULL, NULL, &format, stem, err);

	if (r < 0)
		return r;
	unit = unit_new(fs_of(dir));
	if (unit)
		node = pf_node_new(dir->tree, &kind_program, unit, mode, cred);
	if (!node) {
		unit_unref(unit);
		return pf_err_set(err, -ENOMEM, "no memory for %s", name);
	}
	unit->program = node;
	pf_executable_set_format(unit->x, format);
	r = pf_dir_link(dir, name, node, false);
	if (r == 0 && format != PF_PROGRAM_NONE)
		r = files_add_executable(files_mirror_of(dir), stem, unit, cred, err);
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
	struct pf_node *taken = find_stem(dir, name, strlen(name));
	PF_CLEANUP(pf_node_unrefp) struct pf_node *mirror = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	int r;

	if (taken)
		return pf_err_set(err, -EEXIST, "%s: there is a program of that name",
				  name);
	mirror = pf_node_new(dir->tree, &kind_executables_dir, NULL, 0755, cred);
	if (mirror)
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
	struct unit *unit = unit_of(node);

	(void)dir;
	(void)err;
	pf_dir_unlink(node);
	unit->program = NULL;
	drop_executable(unit);
	return 0;
}

static int programs_rmdir(struct pf_node *dir, struct pf_node *node, struct pf_err *err)
{
	(void)dir;
	if (pf_dir_count(node))
		return pf_err_set(err, -ENOTEMPTY, "the directory is not empty");
	pf_dir_unlink(node->object);
	pf_dir_unlink(node);
	return 0;
}

static void directory_free(struct pf_node *node)
{
	pf_node_unref(node->object);
}

/* --- renames ------------------------------------------------------------------------------------ */

static int rename_directory(struct pf_node *node, struct pf_node *to, const char *name,
			    struct pf_node *target, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *taken = find_stem(to, name, strlen(name));
	int r;

	if (target && !S_ISDIR(target->kind->mode))
		return -ENOTDIR;
	if (target && pf_dir_count(target))
		return -ENOTEMPTY;
	if (taken)
		return pf_err_set(err, -EEXIST, "%s: there is a program of that name",
				  name);
	r = pf_dir_move(node, to, name);
	return r < 0 ? r : pf_dir_move(node->object, files_mirror_of(to), name);
}

/* The options that a replaced program was compiled with stay with the name: editors save
 * by renaming a scratch file over it. */
static void inherit_options(struct unit *from, struct unit *to)
{
	char *options = NULL;

	pf_lock(&from->x->lock);
	if (from->x->options)
		options = strdup(from->x->options);
	pf_unlock(&from->x->lock);
	if (options)
		pf_executable_set_options(to->x, options, strlen(options), NULL);
	free(options);
}

static int rename_program(struct pf_node *node, struct pf_node *to, const char *name,
			  struct pf_node *target, struct pf_err *err)
{
	struct unit *unit = unit_of(node);
	enum pf_program_format format, was = unit->x->format;
	pf_autobuf struct pf_buf from = PF_BUF_INIT;
	char stem[PF_NAME_MAX + 1];
	int r = check_name(to, name, target, node, &format, stem, err);

	if (r < 0)
		return r;
	if (target && S_ISDIR(target->kind->mode))
		return -EISDIR;
	if (was != PF_PROGRAM_NONE && format != PF_PROGRAM_NONE && was != format)
		return pf_err_set(err, -EINVAL, "%s: a rename does not convert a program",
				  name);
	if (target) {
		if (was == PF_PROGRAM_NONE)
			inherit_options(unit_of(target), unit);
		programs_unlink(to, target, NULL);
	}
	pf_node_path(node, NULL, &from);
	r = pf_dir_move(node, to, name);
	if (r < 0)
		return r;
	files_tell_moved(node, "program.moved", from.data);
	pf_executable_set_format(unit->x, format);
	if (format == PF_PROGRAM_NONE) {
		drop_executable(unit);
	} else if (unit->executable) {
		r = pf_dir_move(unit->executable, files_mirror_of(to), stem);
	} else {
		r = files_add_executable(files_mirror_of(to), stem, unit, NULL, err);
		pf_executable_compile(unit->x, NULL, NULL); /* behind; error tells */
	}
	return r;
}

static int programs_rename(struct pf_node *dir, struct pf_node *node, struct pf_node *to,
			   const char *name, unsigned flags, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *target = pf_dir_lookup(to, name);

	(void)dir;
	if (to->kind != &kind_programs)
		return pf_err_set(err, -EOPNOTSUPP,
				  "%s: a program cannot be moved there: copy "
				  "it",
				  name);
	if (target && (flags & RENAME_NOREPLACE))
		return -EEXIST;
	if (flags & ~(unsigned)RENAME_NOREPLACE)
		return -EINVAL;
	if (target == node)
		return 0;
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

const struct pf_kind kind_programs = { .mode = S_IFDIR | 0755,
				       .dir = &programs_ops,
				       .free = directory_free };

struct pf_node *files_mirror_of(struct pf_node *dir)
{
	return dir->object ? dir->object : fs_of(dir)->executables;
}

int files_find_unit(struct pf_fs *fs, const char *name, const struct pf_cred *cred,
		    struct unit **ret, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = pf_node_ref(fs->programs);
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	const char *at = name, *slash;

	while ((slash = strchr(at, '/'))) {
		char part[PF_NAME_MAX + 1];
		struct pf_node *next = NULL;

		if ((size_t)(slash - at) <= PF_NAME_MAX) {
			snprintf(part, sizeof(part), "%.*s", (int)(slash - at), at);
			next = pf_dir_lookup(dir, part);
		}
		pf_node_unref(dir);
		dir = next;
		if (!dir || !S_ISDIR(dir->kind->mode))
			return pf_err_set(err, -ENOENT, "there is no executable %s",
					  name);
		if (!pf_node_may(dir, cred, X_OK))
			return pf_err_set(err, -EACCES,
					  "executable %s: permission denied", name);
		at = slash + 1;
	}
	node = find_stem(dir, at, strlen(at));
	if (!node)
		return pf_err_set(err, -ENOENT, "there is no executable %s", name);
	if (!pf_node_may(node, cred, R_OK))
		return pf_err_set(err, -EACCES, "executable %s: permission denied", name);
	*ret = unit_ref(unit_of(node));
	return 0;
}

/* --- the file --------------------------------------------------------------------------------------- */

static void program_read(struct pf_open *of, size_t len, uint64_t off,
			 struct pf_reply *reply)
{
	uint64_t size;
	struct pf_bytes *bytes = pf_executable_source(unit_of(of->node)->x, &size);

	if (!bytes || off >= size)
		pf_reply_data(reply, "", 0);
	else
		pf_reply_data(reply, pf_bytes_at(bytes, off),
			      len < size - off ? len : size - off);
	pf_bytes_unref(bytes);
}

static ssize_t program_write(struct pf_open *of, const void *src, size_t len,
			     uint64_t off, struct pf_err *err)
{
	return pf_executable_write(unit_of(of->node)->x, src, len, off, err);
}

static int program_truncate(struct pf_node *node, struct pf_open *of, uint64_t size,
			    struct pf_err *err)
{
	int r = pf_executable_truncate(unit_of(node)->x, size, err);

	/* Nobody will close a file that truncate(2) did not open. */
	if (r == 0 && !of && size)
		pf_executable_compile(unit_of(node)->x, NULL, NULL);
	return r;
}

static void program_commit(struct pf_open *of, enum pf_commit why, struct pf_reply *reply)
{
	/* A program has no sign of its own that it is whole: only closing tells. */
	if (why == PF_COMMIT_FSYNC) {
		pf_reply_code(reply, 0);
		return;
	}
	if (atomic_load(&unit_of(of->node)->x->subject)) /* no scratch file */
		files_tell(of->node, "program.committed");
	files_compile(unit_of(of->node)->x, reply);
}

static void program_getattr(struct pf_node *node, struct stat *st)
{
	uint64_t size;

	pf_bytes_unref(pf_executable_source(unit_of(node)->x, &size));
	st->st_size = (off_t)size;
	st->st_blocks = (st->st_size + 511) / 512;
}

static void program_free(struct pf_node *node)
{
	unit_unref(node->object);
}

static const struct pf_kind kind_program = {
	.mode = S_IFREG | 0644,
	.max_write = (size_t)1 << 31, /* what a protobuf can hold */
	.read = program_read,
	.write = program_write,
	.truncate = program_truncate,
	.commit = program_commit,
	.getattr = program_getattr,
	.free = program_free,
};
