/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that were refused, and why.
 *
 * cp(1) prints "Invalid argument", and the refused file does not exist.  So the last
 * reasons are kept: until a buffer NAME exists, NAME.json in that directory shows the
 * reason for NAME to the user that was refused.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/json.h"

/* The object of a refusal's node. */
struct refusal {
	uint64_t dir; /* the directory's inode number, which is never reused */
	char stem[PF_NAME_MAX + 1];
	char text[PF_ERR_TEXT];
};

static int refusal_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	const struct refusal *r = node->object;
	struct json_object *o = json_object_new_object();

	(void)err;
	pf_json_add_string(o, "name", r->stem);
	pf_json_add_string(o, "state", "error");
	pf_json_add_string(o, "error", r->text);
	pf_json_print_line(o, out);
	json_object_put(o);
	return 0;
}

static void refusal_free(struct pf_node *node)
{
	free(node->object);
}

static const struct pf_kind kind_refusal = { .mode = S_IFREG | 0400,
					     .show = refusal_show,
					     .free = refusal_free };

static struct pf_node **find(struct pf_fs *fs, struct pf_node *dir, const char *stem,
			     size_t len)
{
	for (unsigned i = 0; i < FILES_REFUSALS; i++) {
		const struct refusal *r =
			fs->refusals[i] ? fs->refusals[i]->object : NULL;

		if (r && r->dir == dir->ino && strlen(r->stem) == len &&
		    !memcmp(r->stem, stem, len))
			return &fs->refusals[i];
	}
	return NULL;
}

/* The length of NAME without its last extension, also one that is not ours. */
static size_t refused_stem_length(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot && dot > name ? (size_t)(dot - name) : strlen(name);
}

static struct pf_node *refusal_new(struct pf_node *dir, const char *name, size_t len,
				   const struct pf_cred *cred, const struct pf_err *err)
{
	struct refusal *r = calloc(1, sizeof(*r));
	struct pf_node *node = NULL;

	if (r) {
		r->dir = dir->ino;
		memcpy(r->stem, name, len);
		memcpy(r->text, err->text, sizeof(r->text));
		node = pf_node_new(dir->tree, &kind_refusal, r, (mode_t)-1, cred);
	}
	if (!node)
		free(r);
	return node;
}

int buffers_named(struct pf_node *dir, const char *name, const struct pf_cred *cred,
		  int r, const struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *buffer = NULL;
	size_t len = refused_stem_length(name);
	struct pf_fs *fs = fs_of(dir);
	struct pf_node **slot;

	if (r < 0 && r != -EINVAL && r != -EEXIST && r != -EOPNOTSUPP)
		return r;
	/* A refused write to NAME.json is not kept: that file is about a buffer. */
	if (strlen(name) > PF_NAME_MAX || pf_format_of(name, NULL) == PF_FORMAT_JSON)
		return r;
	slot = find(fs, dir, name, len);
	if (r == 0 && !slot)
		return 0;
	/* The .json of a buffer is about the buffer. */
	buffer = buffers_find_stem(dir, name, len);
	if (buffer && slot)
		pf_node_unref(pf_steal(slot));
	if (buffer || r == 0 || buffers_has_json(dir, name, len))
		return r;
	if (!slot)
		slot = &fs->refusals[fs->next_refusal++ % FILES_REFUSALS];
	pf_node_unref(*slot);
	*slot = refusal_new(dir, name, len, cred, err);
	return r;
}

struct pf_node *buffers_refusal(struct pf_node *dir, const char *stem, size_t len)
{
	struct pf_node **slot = find(fs_of(dir), dir, stem, len);

	return slot ? pf_node_ref(*slot) : NULL;
}
