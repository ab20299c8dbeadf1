/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topologies/: files NAME.pb, as plugins/NAME/topology.pb gives them; programs are compiled for one by
 * the option "topology".  A plugin makes NAME.pb of what a user writes to NAME.txt or NAME.json.
 *
 * Each file is a struct program whose executable only holds the bytes: it is never compiled.  The
 * option finds the bytes of the last close of NAME.pb that a plugin took; while that is written, they
 * are none.  Where such a close, or one of NAME.txt or NAME.json, succeeds, new files take the places of
 * NAME.pb and NAME.json at once, so that readers and a next daemon find the ones or the others.
 */
#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/topology_request.h"

static const struct pf_kind kind_topology, kind_line, kind_json;

static const struct {
	const char *extension;
	const struct pf_kind *kind;
} kinds[] = {
	{ ".pb", &kind_topology },
	{ ".txt", &kind_line },
	{ ".json", &kind_json },
};

/* The kind of files called NAME, or NULL; in PF_NAME_MAX + 1 bytes at STEM, where NAME may be, the name
 * for options. */
static const struct pf_kind *kind_of(const char *name, char *stem)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < PF_ARRAY_SIZE(kinds); i++) {
		size_t n = strlen(kinds[i].extension);

		if (len <= n || strcmp(name + len - n, kinds[i].extension) != 0)
			continue;
		memmove(stem, name, len - n);
		stem[len - n] = '\0';
		return kinds[i].kind;
	}
	return NULL;
}

/* STEM with EXTENSION, in PF_NAME_MAX + 1 bytes at RET.  -ENAMETOOLONG. */
static int join(const char *stem, const char *extension, char *ret, struct pf_err *err)
{
	size_t len = strlen(stem), n = strlen(extension);

	if (len + n > PF_NAME_MAX)
		return pf_err_set(err, -ENAMETOOLONG, "%s%s: too long a name", stem,
				  extension);
	memcpy(ret, stem, len);
	memcpy(ret + len, extension, n + 1);
	return 0;
}

static int refuse_name(const char *name, struct pf_err *err)
{
	return pf_err_set(err, -EINVAL,
			  "%s: expected a name for a topology, as v5e.pb, v5e.txt or "
			  "v5e.json",
			  name);
}

/* Options find BYTES, of LEN bytes, by the name of NODE, a NAME.pb; NULL: nothing.  The name lock is
 * held. */
static int set_locked(struct pf_node *node, struct pf_bytes *bytes, uint64_t len,
		      struct pf_err *err)
{
	char name[PF_NAME_MAX + 1], stem[PF_NAME_MAX + 1];

	pf_node_name(node, name);
	if (!*name || kind_of(name, stem) != &kind_topology)
		return 0; /* it was removed */
	return pf_topology_set(fs_of(node)->config.compiler, stem, bytes, len, err);
}

static int set(struct pf_node *node, struct pf_bytes *bytes, uint64_t len,
	       struct pf_err *err)
{
	PF_NAMES_SCOPE(node->tree);
	return set_locked(node, bytes, len, err);
}

/* NODE, which has lost its name or loses it now, is removed. */
static void remove_locked(struct pf_node *node)
{
	struct program *program = program_of(node);

	pf_dir_unlink(node);
	program->node = NULL;
	program_removed(program);
}

/* --- files that a close makes ------------------------------------------------------- */

/* A file that is about to take a place in topologies/. */
struct made {
	char name[PF_NAME_MAX + 1];
	struct pf_node *node; /* owned reference: the new one */
	struct pf_node *old;  /* owned reference: the one there, or NULL */
};

static void made_release(struct made *made)
{
	pf_node_unref(made->node);
	pf_node_unref(made->old);
}

/* May CRED, who has closed NODE, make or write MADE in DIR? */
static int may_make(struct pf_node *dir, const struct made *made, struct pf_node *node,
		    const struct pf_cred *cred, struct pf_err *err)
{
	struct pf_attr attr, of_old;
	bool may;

	pf_node_attr(node, &attr);
	if (made->old) {
		/* What a plugin says of NAME.pb belongs to that. */
		pf_node_attr(made->old, &of_old);
		may = (node->kind == &kind_topology && attr.uid == of_old.uid) ||
		      pf_node_may(made->old, cred, W_OK);
	} else {
		may = node->kind == &kind_topology || pf_node_may(dir, cred, W_OK | X_OK);
	}
	return may ? 0
		   : pf_err_set(err, -EACCES, "topologies/%s: permission denied",
				made->name);
}

/*
 * Make STEM and EXTENSION, with the bytes of BYTES, for DIR, where CRED has closed NODE: with the owner
 * and mode of the one there, or of NODE.  The name lock is held.
 */
static int make_locked(struct pf_node *dir, const char *stem, const char *extension,
		       const struct pf_buf *bytes, struct pf_node *node,
		       const struct pf_cred *cred, struct made *ret, struct pf_err *err)
{
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *source = NULL;
	char ignored[PF_NAME_MAX + 1];
	struct pf_cred owner = *cred;
	struct pf_attr attr;
	uint64_t len;
	ssize_t n;
	int r = join(stem, extension, ret->name, err);

	if (r < 0)
		return r;
	ret->old = pf_dir_lookup(dir, ret->name);
	r = may_make(dir, ret, node, cred, err);
	if (r < 0)
		return r;
	pf_node_attr(ret->old ? ret->old : node, &attr);
	owner.uid = attr.uid;
	owner.gid = attr.gid;
	r = source_new(dir, ret->name, kind_of(ret->name, ignored), PF_PROGRAM_NONE,
		       attr.mode & 0777, &owner, &ret->node, err);
	if (r < 0)
		return r;
	n = pf_executable_write(program_of(ret->node)->x, bytes->data, bytes->len, 0,
				err);
	if (n < 0)
		return (int)n;
	source = pf_executable_source(program_of(ret->node)->x, &len);
	pf_executable_keep_source(program_of(ret->node)->x, source);
	return 0;
}

/* MADE, if there is one, takes its place in DIR.  The name lock is held. */
static int link_locked(struct pf_node *dir, const struct made *made, struct pf_err *err)
{
	int r = made->node ? pf_dir_link(dir, made->name, made->node, true) : 0;

	return r < 0 ? pf_err_set(err, r, "topologies/%s: %s", made->name, strerror(-r))
		     : 0;
}

/* Options find PB, if there is one.  The name lock is held. */
static int offer_locked(const struct made *pb, struct pf_err *err)
{
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *bytes = NULL;
	uint64_t len;

	if (!pb->node)
		return 0;
	bytes = pf_executable_source(program_of(pb->node)->x, &len);
	return set_locked(pb->node, bytes, len, err);
}

/*
 * NODE, a file in topologies/, gets FACTS->bytes as the NAME.pb beside it, unless it is that itself, and
 * TEXT as NAME.json.  -ESTALE: it was removed.
 */
static int publish(struct pf_node *node, const struct pf_topology_facts *facts,
		   const struct pf_buf *text, const struct pf_cred *cred,
		   struct pf_err *err)
{
	PF_CLEANUP(made_release) struct made json = { 0 };
	PF_CLEANUP(made_release) struct made pb = { 0 };
	struct pf_node *dir = fs_of(node)->topologies;
	char name[PF_NAME_MAX + 1], stem[PF_NAME_MAX + 1];
	bool is_pb = node->kind == &kind_topology;
	int r = 0;

	PF_NAMES_SCOPE(node->tree);
	pf_node_name(node, name);
	if (!*name && is_pb)
		return 0;
	if (!*name)
		return pf_err_set(err, -ESTALE,
				  "the file was removed or replaced: open it "
				  "again");
	(void)kind_of(name, stem);
	if (!is_pb)
		r = make_locked(dir, stem, ".pb", &facts->bytes, node, cred, &pb, err);
	if (r == 0)
		r = make_locked(dir, stem, ".json", text, node, cred, &json, err);
	/* What may be refused is done.  The journal gets both names at once: what they replace is freed
	 * behind them. */
	if (r == 0)
		r = link_locked(dir, &json, err);
	if (r == 0)
		r = link_locked(dir, &pb, err);
	if (r == 0)
		r = offer_locked(&pb, err);
	if (r == 0 && json.old)
		remove_locked(json.old);
	if (r == 0 && pb.old)
		remove_locked(pb.old);
	return r;
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

struct closing {
	struct pf_open *of; /* the reply holds it */
	struct pf_reply *reply;
};

/* Have a plugin read OF's LEN BYTES, a NAME.pb. */
static int take_bytes(struct pf_open *of, struct pf_bytes *bytes, uint64_t len,
		      struct pf_err *err)
{
	PF_CLEANUP(pf_topology_facts_release) struct pf_topology_facts facts = { 0 };
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	const struct program *program = program_of(of->node);
	struct pf_fs *fs = program->fs;
	int r = pf_topology_check(fs->config.compiler, program->home->workers,
				  fs->n_workers, of->cred.uid, pf_bytes_at(bytes, 0), len,
				  &facts, err);

	if (r == 0)
		r = pf_topology_describe(NULL, facts.plugin, facts.text.data,
					 facts.text.len, &text, err);
	if (r == 0)
		r = publish(of->node, &facts, &text, &of->cred, err);
	return r < 0 ? r : set(of->node, bytes, len, err);
}

/* Have a plugin make what OF's LEN BYTES, a NAME.txt or NAME.json, name. */
static int take_request(struct pf_open *of, struct pf_bytes *bytes, uint64_t len,
			struct pf_err *err)
{
	PF_CLEANUP(pf_topology_facts_release) struct pf_topology_facts facts = { 0 };
	PF_CLEANUP(pf_topology_request_release)
	struct pf_topology_request request = { 0 };
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	const struct program *program = program_of(of->node);
	struct pf_fs *fs = program->fs;
	int r = pf_topology_request_parse(of->node->kind == &kind_json,
					  pf_bytes_at(bytes, 0), len, &request, err);

	if (r == 0)
		r = pf_topology_create(fs->config.compiler, program->home->workers,
				       fs->n_workers, request.plugin, of->cred.uid,
				       request.text, &facts, err);
	if (r == 0)
		r = pf_topology_describe(&request, facts.plugin, facts.text.data,
					 facts.text.len, &text, err);
	return r < 0 ? r : publish(of->node, &facts, &text, &of->cred, err);
}

/* Have a plugin take the file, and answer its close. */
static void *take(void *arg)
{
	struct closing *closing = arg;
	struct pf_node *node = closing->of->node;
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *bytes = NULL;
	struct pf_err err = PF_ERR_INIT;
	uint64_t len;
	int r = 0;

	bytes = pf_executable_source(program_of(node)->x, &len);
	if (bytes && len && node->kind == &kind_topology)
		r = take_bytes(closing->of, bytes, len, &err);
	else if (bytes && len)
		r = take_request(closing->of, bytes, len, &err);
	if (r == 0)
		pf_executable_keep_source(program_of(node)->x, bytes);
	pf_reply_fail(closing->reply, r, &err);
	free(closing);
	return NULL;
}

static void topology_commit(struct pf_open *of, enum pf_commit why,
			    struct pf_reply *reply)
{
	struct closing *c = why == PF_COMMIT_FSYNC ? NULL : malloc(sizeof(*c));

	if (c)
		*c = (struct closing){ of, reply };
	if (why == PF_COMMIT_FSYNC) {
		pf_reply_code(reply, 0);
	} else if (!c || pf_thread_start(NULL, take, c)) {
		free(c);
		pf_reply_code(reply, -ENOMEM);
	}
}

#define KIND(id, max)                                                                    \
	static const struct pf_kind id = { .mode = S_IFREG | 0644,                       \
					   .max_write = (max),                           \
					   .open = source_open,                          \
					   .release = source_release,                    \
					   .read = source_read,                          \
					   .write = topology_write,                      \
					   .truncate = topology_truncate,                \
					   .commit = topology_commit,                    \
					   .getattr = source_getattr,                    \
					   .setattr = source_setattr,                    \
					   .restored_as = RESTORED_TOPOLOGY,             \
					   .free = program_node_free }
KIND(kind_topology, PF_WIRE_TOPOLOGY);
KIND(kind_line, PF_TOPOLOGY_LINE);
KIND(kind_json, PF_TOPOLOGY_JSON);

/* --- the directory ------------------------------------------------------------------ */

static int topologies_create(struct pf_node *dir, const char *name, mode_t mode,
			     const struct pf_cred *cred, struct pf_node **ret,
			     struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	char stem[PF_NAME_MAX + 1];
	const struct pf_kind *kind = kind_of(name, stem);
	int r = kind ? 0 : refuse_name(name, err);

	if (r == 0)
		r = source_new(dir, name, kind, PF_PROGRAM_NONE, mode, cred, &node, err);
	if (r == 0)
		r = pf_dir_link(dir, name, node, false);
	if (r == 0)
		*ret = pf_steal(&node);
	return r;
}

/* The NAME.json beside STEM.pb in DIR, with a reference, or NULL. */
static struct pf_node *find_description(struct pf_node *dir, const char *stem)
{
	char name[PF_NAME_MAX + 1];

	return join(stem, ".json", name, NULL) < 0 ? NULL : pf_dir_lookup(dir, name);
}

static int topologies_unlink(struct pf_node *dir, struct pf_node *node,
			     struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *json = NULL;
	char name[PF_NAME_MAX + 1];

	(void)err;
	pf_node_name(node, name);
	if (kind_of(name, name) == &kind_topology)
		json = find_description(dir, name);
	(void)set_locked(node, NULL, 0, NULL);
	remove_locked(node);
	if (json)
		remove_locked(json);
	return 0;
}

/* Move NODE in DIR, from BEFORE.pb to STEM.pb, and with it BEFORE.json. */
static int move_both(struct pf_node *dir, struct pf_node *node, const char *name,
		     const char *before, const char *stem, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *json = find_description(dir, before);
	PF_CLEANUP(pf_node_unrefp) struct pf_node *target = find_description(dir, stem);
	char to[PF_NAME_MAX + 1];
	int r = json ? join(stem, ".json", to, err) : 0;

	if (r < 0)
		return r;
	if (target)
		remove_locked(target);
	return json ? pf_dir_move_both(node, dir, name, json, dir, to)
		    : pf_dir_move(node, dir, name);
}

static int topologies_rename(struct pf_node *dir, struct pf_node *node,
			     struct pf_node *to, const char *name, unsigned flags,
			     struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *target = NULL;
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *bytes = NULL;
	struct pf_compiler *compiler = fs_of(dir)->config.compiler;
	char before[PF_NAME_MAX + 1], stem[PF_NAME_MAX + 1];
	const struct pf_kind *kind;
	uint64_t len = 0;
	int r;

	if (to != dir)
		return pf_err_set(err, -EOPNOTSUPP,
				  "%s: a topology stays in topologies/: copy it", name);
	kind = kind_of(name, stem);
	if (!kind)
		return refuse_name(name, err);
	if (node->kind == &kind_json || node->kind != kind)
		return pf_err_set(
			err, -EOPNOTSUPP,
			"%s: NAME.json moves with NAME.pb, and a rename does not "
			"convert a topology",
			name);
	if (flags & RENAME_EXCHANGE)
		return -EINVAL;
	target = pf_dir_lookup(to, name);
	pf_node_name(node, before);
	(void)kind_of(before, before);
	if (node->kind != &kind_topology) {
		if (target)
			remove_locked(target);
		return pf_dir_move(node, dir, name);
	}
	/* A plugin took them, or options do not find them. */
	bytes = pf_executable_kept_source(program_of(node)->x, &len);
	/* First what may fail. */
	r = pf_topology_set(compiler, stem, bytes, len, err);
	if (r < 0)
		return r;
	if (target)
		remove_locked(target);
	r = move_both(dir, node, name, before, stem, err);
	(void)pf_topology_set(compiler, r < 0 ? stem : before, NULL, 0, NULL);
	return r;
}

static const struct pf_dir_ops topologies_ops = {
	.create = topologies_create,
	.unlink = topologies_unlink,
	.rename = topologies_rename,
};

const struct pf_kind kind_topologies = {
	.mode = S_IFDIR | 0755,
	.dir = &topologies_ops,
	.instead = "a topology is a file NAME.pb, made of NAME.txt or NAME.json"
};

/* --- after a restart of the daemon --------------------------------------------------- */

int programs_restore_topology(struct restoring *r, struct pf_node *dir,
			      const struct pf_restored *old, struct pf_node **ret,
			      struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *bytes = NULL;
	char stem[PF_NAME_MAX + 1];
	const struct pf_kind *kind = old->name ? kind_of(old->name, stem) : NULL;
	uint64_t len;
	int code = source_restore(r, dir, kind ? kind : &kind_topology, old, &node, err);

	if (node && dir)
		bytes = pf_executable_kept_source(program_of(node)->x, &len);
	if (code == 0 && bytes)
		code = set_locked(node, bytes, len, err);
	*ret = code < 0 ? NULL : pf_steal(&node);
	return code;
}
