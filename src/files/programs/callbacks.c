/* SPDX-License-Identifier: Apache-2.0 */
/* executables/NAME/callbacks/: two files for each callback of the program. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

void callback_node_free(struct pf_node *node)
{
	struct callback *callback = node->object;

	program_unref(callback->program);
	free(callback);
}

/* Link the file NAME, of KIND, of callback INDEX in DIR, unless it is there.  -ENOMEM. */
static int link_file(struct pf_node *dir, const char *name, const struct pf_kind *kind,
		     uint64_t index)
{
	struct callback *callback = calloc(1, sizeof(*callback));
	struct pf_node *node;
	struct pf_attr attr;
	int r;

	if (!callback)
		return -ENOMEM;
	callback->program = program_ref(dir->object);
	callback->index = index;
	node = pf_node_new(dir->tree, kind, callback, (mode_t)-1, NULL);
	if (!node) {
		program_unref(callback->program);
		free(callback);
		return -ENOMEM;
	}
	pf_node_attr(dir, &attr);
	pf_node_follow(node, &attr, kind->mode & 0777);
	r = pf_dir_link(dir, name, node, false);
	pf_node_unref(node);
	return r == -EEXIST ? 0 : r;
}

const struct pf_callback_sig *files_find_callback(const struct pf_signature *s,
						  uint64_t index)
{
	for (size_t i = 0; s && i < s->n_callbacks; i++)
		if (s->callbacks[i].index == index)
			return &s->callbacks[i];
	return NULL;
}

/* Unlink the files of callbacks that SIGNATURE (NULL: it has none) does not have. */
static void unlink_others(struct pf_node *dir, const struct pf_signature *signature)
{
	struct pf_node **list = pf_dir_list(dir);

	for (struct pf_node **n = list; n && *n; n++) {
		const struct callback *callback = (*n)->object;

		if (!files_find_callback(signature, callback->index))
			pf_dir_unlink(*n);
		pf_node_unref(*n);
	}
	free(list);
}

/* Make the names in DIR those of the compiled program's callbacks.  The name lock is held.
 * -ENOMEM: some may be missing. */
static int update(struct pf_node *dir)
{
	PF_CLEANUP(pf_loaded_unrefp)
	struct pf_loaded *loaded = pf_executable_known(program_of(dir)->x);
	const struct pf_signature *s = pf_loaded_facts(loaded).signature;
	int r = 0;

	unlink_others(dir, s);
	for (size_t i = 0; s && i < s->n_callbacks && r == 0; i++) {
		uint64_t index = s->callbacks[i].index;
		PF_CLEANUP(pf_node_unrefp) struct pf_node *there = NULL;
		char name[32];
		int len = snprintf(name, sizeof(name), "%" PRIu64 ".txt", index) - 4;

		there = pf_dir_lookup(dir, name);
		if (there)
			continue;
		name[len] = '\0';
		r = link_file(dir, name, &kind_callback, index);
		name[len] = '.';
		if (r == 0)
			r = link_file(dir, name, &kind_callback_text, index);
	}
	return r;
}

static void callbacks_list(struct pf_node *dir)
{
	PF_NAMES_SCOPE(dir->tree);
	update(dir);
}

static int callbacks_lookup(struct pf_node *dir, const char *name, struct pf_node **ret,
			    struct pf_err *err)
{
	int r = update(dir);

	(void)err;
	*ret = pf_dir_lookup(dir, name);
	if (*ret)
		return 0;
	return r < 0 ? r : -ENOENT;
}

static const struct pf_dir_ops callbacks_ops = { .lookup = callbacks_lookup,
						 .list = callbacks_list };
const struct pf_kind kind_callbacks = {
	.name = "callbacks",
	.mode = S_IFDIR | 0555,
	.dir = &callbacks_ops,
	.instead = "callbacks/ has the callbacks of the compiled program",
	.free = program_node_free,
};
