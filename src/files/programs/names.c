/* SPDX-License-Identifier: Apache-2.0 */
/* The names of programs and executables. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct pf_node *files_find_stem(struct pf_node *dir, const char *stem, size_t len)
{
	const char *extensions[PF_PROGRAM_NATIVE + 1] = { NULL };

	for (unsigned i = 0; i < PF_PROGRAM_NATIVE; i++)
		extensions[i] = pf_program_extension(PF_PROGRAM_NONE + 1 + i);
	return pf_dir_lookup_stem(dir, stem, len, extensions);
}

int files_check_as(struct pf_node *dir, const char *stem, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *node = pf_dir_lookup(files_mirror_of(dir), stem);

	if (!node || !files_is_as(node))
		return 0;
	return pf_err_set(err, -EEXIST, "there is an executable %s that has no program",
			  stem);
}

int files_check_name(struct pf_node *dir, const char *name, const struct pf_node *other,
		     const struct pf_node *moved, enum pf_program_format *ret, char *stem,
		     struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *taken = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *same = NULL;
	size_t len;

	*ret = pf_program_format_of(name, &len);
	snprintf(stem, PF_NAME_MAX + 1, "%.*s", (int)len, name);
	if (*ret == PF_PROGRAM_NONE)
		return files_foreign_to_programs(name, err);
	if (pf_program_format_of(stem, NULL) != PF_PROGRAM_NONE)
		return pf_err_set(err, -EINVAL, "%s has two extensions", name);
	taken = pf_dir_lookup(dir, stem);
	if (taken && S_ISDIR(taken->kind->mode))
		return pf_err_set(err, -EEXIST, "%s: there is a directory %s", name,
				  stem);
	same = files_find_stem(dir, stem, len);
	if (same && same != other && same != moved)
		return pf_err_set(err, -EEXIST, "%s: there is another program called %s",
				  name, stem);
	return files_check_as(dir, stem, err);
}

int files_find_program_dir(struct pf_fs *fs, const char **at, const struct pf_cred *cred,
			   struct pf_node **ret)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = pf_node_ref(fs->programs);
	const char *slash;

	for (; (slash = strchr(*at, '/')); *at = slash + 1) {
		char part[PF_NAME_MAX + 1];
		struct pf_node *next = NULL;

		if ((size_t)(slash - *at) <= PF_NAME_MAX) {
			snprintf(part, sizeof(part), "%.*s", (int)(slash - *at), *at);
			next = pf_dir_lookup(dir, part);
		}
		pf_node_unref(dir);
		dir = next;
		if (!dir || !S_ISDIR(dir->kind->mode))
			return -ENOENT;
		if (!pf_node_may(dir, cred, X_OK))
			return -EACCES;
	}
	*ret = pf_steal(&dir);
	return 0;
}

/* The node called NAME in DIR: of a program, or, unless PROGRAM, of an executable that has none. */
static struct pf_node *find_node(struct pf_node *dir, const char *name, bool program)
{
	struct pf_node *node = files_find_stem(dir, name, strlen(name));

	if (node)
		return node;
	node = pf_dir_lookup(program ? dir : files_mirror_of(dir), name);
	if (node &&
	    (program ? S_ISREG(node->kind->mode) && pf_program_format_of(name, NULL)
		     : files_is_as(node)))
		return node;
	pf_node_unref(node);
	return NULL;
}

static int find_program(struct pf_fs *fs, const char *name, bool program,
			const struct pf_cred *cred, struct program **ret,
			struct pf_err *err)
{
	const char *what = program ? "program" : "executable", *at = name;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	int r = files_find_program_dir(fs, &at, cred, &dir);

	if (r == 0) {
		node = find_node(dir, at, program);
		if (!node)
			r = -ENOENT;
		else if (!pf_node_may(node, cred, R_OK))
			r = -EACCES;
	}
	if (r == -ENOENT)
		return pf_err_set(err, r, "there is no %s %s", what, name);
	if (r < 0)
		return pf_err_set(err, r, "%s %s: permission denied", what, name);
	*ret = program_ref(node->object);
	return 0;
}

int files_find_program(struct pf_fs *fs, const char *name, const struct pf_cred *cred,
		       struct program **ret, struct pf_err *err)
{
	return find_program(fs, name, false, cred, ret, err);
}

int files_find_source(struct pf_fs *fs, const char *name, const struct pf_cred *cred,
		      struct program **ret, struct pf_err *err)
{
	return find_program(fs, name, true, cred, ret, err);
}

void files_program_name(struct program *program, struct pf_buf *out)
{
	struct pf_fs *fs = program->fs;

	PF_NAMES_SCOPE(fs->tree);
	if (program->executable)
		pf_node_path(program->executable, fs->executables, out);
	if (!out->len)
		pf_buf_puts(out, "(removed)");
}

char *files_stem_of(const char *name)
{
	size_t len;

	pf_program_format_of(name, &len);
	return strndup(name, len);
}
