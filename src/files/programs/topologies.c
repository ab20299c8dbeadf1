/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topologies/: files NAME.pb, as plugins/NAME/topology.pb gives them; programs are compiled for one by
 * the option "topology".
 *
 * A file is a struct program whose executable only holds the bytes: it is never compiled.  The option
 * finds the bytes of the last close that a plugin took; while a file is written, they are none.
 */
#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static const char extension[] = ".pb";

/* The name for options of the file NAME, in PF_NAME_MAX + 1 bytes at RET, where NAME may be.  -EINVAL. */
static int stem_of(const char *name, char *ret, struct pf_err *err)
{
	size_t len = strlen(name), n = sizeof(extension) - 1;

	if (len <= n || strcmp(name + len - n, extension))
		return pf_err_set(err, -EINVAL,
				  "%s: expected a name for a topology, as v5e.pb", name);
	memmove(ret, name, len - n);
	ret[len - n] = '\0';
	return 0;
}

/* Options find BYTES, of LEN bytes, by NODE's name; NULL: nothing.  The name lock is held. */
static int set_locked(struct pf_node *node, struct pf_bytes *bytes, uint64_t len,
		      struct pf_err *err)
{
	char name[PF_NAME_MAX + 1], stem[PF_NAME_MAX + 1];

	pf_node_name(node, name);
	if (!*name || stem_of(name, stem, NULL) < 0)
		return 0; /* it was removed */
	return pf_topology_set(fs_of(node)->config.compiler, stem, bytes, len, err);
}

static int set(struct pf_node *node, struct pf_bytes *bytes, uint64_t len,
	       struct pf_err *err)
{
	PF_NAMES_SCOPE(node->tree);
	return set_locked(node, bytes, len, err);
}

/* --- the file ----------------------------------------------------------------------- */

static ssize_t topology_write(struct pf_open *of, const void *src, size_t len,
			      uint64_t off, struct pf_err *err)
{
	(void)set(of->node, NULL, 0, NULL);
	return pf_executable_write(program_of(of->node)->x, src, len, off, err);
}

static int topology_truncate(struct pf_node *node, struct pf_open *of, uint64_t size,
			     const struct pf_cred *cred, struct pf_err *err)
{
	(void)of;
	(void)cred;
	(void)set(node, NULL, 0, NULL);
	return pf_executable_truncate(program_of(node)->x, size, err);
}

struct check {
	struct pf_open *of; /* the reply holds it */
	struct pf_reply *reply;
};

/* Have a plugin read the file, and answer its close. */
static void *check(void *arg)
{
	struct check *check = arg;
	struct pf_node *node = check->of->node;
	const struct program *program = program_of(node);
	struct pf_fs *fs = program->fs;
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *bytes = NULL;
	struct pf_err err = PF_ERR_INIT;
	uint64_t len;
	int r = 0;

	bytes = pf_executable_source(program->x, &len);
	if (bytes && len)
		r = pf_topology_check(fs->config.compiler, program->home->workers,
				      fs->n_workers, check->of->cred.uid,
				      pf_bytes_at(bytes, 0), len, &err);
	if (r == 0 && bytes && len)
		r = set(node, bytes, len, &err);
	if (r == 0)
		pf_executable_keep_source(program->x, bytes);
	pf_reply_fail(check->reply, r, &err);
	free(check);
	return NULL;
}

static void topology_commit(struct pf_open *of, enum pf_commit why,
			    struct pf_reply *reply)
{
	struct check *c = why == PF_COMMIT_FSYNC ? NULL : malloc(sizeof(*c));

	if (c)
		*c = (struct check){ of, reply };
	if (why == PF_COMMIT_FSYNC) {
		pf_reply_code(reply, 0);
	} else if (!c || pf_thread_start(NULL, check, c)) {
		free(c);
		pf_reply_code(reply, -ENOMEM);
	}
}

static const struct pf_kind kind_topology = {
	.mode = S_IFREG | 0644,
	.max_write = PF_WIRE_TOPOLOGY,
	.open = source_open,
	.release = source_release,
	.read = source_read,
	.write = topology_write,
	.truncate = topology_truncate,
	.commit = topology_commit,
	.getattr = source_getattr,
	.setattr = source_setattr,
	.restored_as = RESTORED_TOPOLOGY,
	.free = program_node_free,
};

/* --- the directory ------------------------------------------------------------------ */

static int topologies_create(struct pf_node *dir, const char *name, mode_t mode,
			     const struct pf_cred *cred, struct pf_node **ret,
			     struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	char stem[PF_NAME_MAX + 1];
	int r = stem_of(name, stem, err);

	if (r == 0)
		r = source_new(dir, name, &kind_topology, PF_PROGRAM_NONE, mode, cred,
			       &node, err);
	if (r == 0)
		r = pf_dir_link(dir, name, node, false);
	if (r == 0)
		*ret = pf_steal(&node);
	return r;
}

static void remove_locked(struct pf_node *node)
{
	struct program *program = program_of(node);

	pf_dir_unlink(node);
	program->node = NULL;
	program_removed(program);
}

static int topologies_unlink(struct pf_node *dir, struct pf_node *node,
			     struct pf_err *err)
{
	(void)dir;
	(void)err;
	(void)set_locked(node, NULL, 0, NULL);
	remove_locked(node);
	return 0;
}

static int topologies_rename(struct pf_node *dir, struct pf_node *node,
			     struct pf_node *to, const char *name, unsigned flags,
			     struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *target = NULL;
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *bytes = NULL;
	struct pf_compiler *compiler = fs_of(dir)->config.compiler;
	char before[PF_NAME_MAX + 1], stem[PF_NAME_MAX + 1];
	uint64_t len = 0;
	int r;

	if (to != dir)
		return pf_err_set(err, -EOPNOTSUPP,
				  "%s: a topology stays in topologies/: copy it", name);
	r = stem_of(name, stem, err);
	if (r < 0)
		return r;
	if (flags & RENAME_EXCHANGE)
		return -EINVAL;
	target = pf_dir_lookup(to, name);
	pf_node_name(node, before);
	(void)stem_of(before, before, NULL);
	/* A plugin took them, or options do not find them. */
	bytes = pf_executable_kept_source(program_of(node)->x, &len);
	/* First what may fail. */
	r = pf_topology_set(compiler, stem, bytes, len, err);
	if (r < 0)
		return r;
	if (target)
		remove_locked(target);
	r = pf_dir_move(node, to, name);
	(void)pf_topology_set(compiler, r < 0 ? stem : before, NULL, 0, NULL);
	return r;
}

static const struct pf_dir_ops topologies_ops = {
	.create = topologies_create,
	.unlink = topologies_unlink,
	.rename = topologies_rename,
};

const struct pf_kind kind_topologies = { .mode = S_IFDIR | 0755,
					 .dir = &topologies_ops,
					 .instead = "a topology is a file NAME.pb" };

/* --- after a restart of the daemon --------------------------------------------------- */

int programs_restore_topology(struct restoring *r, struct pf_node *dir,
			      const struct pf_restored *old, struct pf_node **ret,
			      struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *bytes = NULL;
	uint64_t len;
	int code = source_restore(r, dir, &kind_topology, old, &node, err);

	if (node && dir)
		bytes = pf_executable_kept_source(program_of(node)->x, &len);
	if (code == 0 && bytes)
		code = set_locked(node, bytes, len, err);
	*ret = code < 0 ? NULL : pf_steal(&node);
	return code;
}
