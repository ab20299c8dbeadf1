/* SPDX-License-Identifier: Apache-2.0 */
/* The tree that a restarted daemon makes of the records of earlier lives. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/state.h"

#define INO_MASK (((uint64_t)1 << PF_INO_BITS) - 1)

/* Make the node of E, in DIR or, if that is NULL, without a name. */
static int make_one(struct pf_tree *tree, struct pf_node *dir, const struct pf_entry *e,
		    struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	const struct pf_restored old = { .ino = e->ino,
					 .as = e->record.as,
					 .attr = e->record.attr,
					 .name = dir ? e->name : NULL,
					 .written = e->written };
	int r = tree->restoring->make(tree->restoring->arg, dir, &old, &node, err);

	if (r < 0 || !node)
		return r;
	if (dir && !node->priv->parent)
		r = pf_dir_link(dir, e->name, node, false);
	if (!dir && e->open) /* the open file will hold it */
		pf_node_looked_up(node);
	return r;
}

static struct pf_node *node_of(struct pf_tree *tree, uint64_t ino)
{
	return pf_map_get(&tree->nodes, ino);
}

/* Make the nodes in DIR, and those in its directories.  PF_DEPTH_MAX limits the recursion. */
static int make_below(struct pf_node *dir, struct pf_err *err)
{
	const struct pf_restoration *r = dir->tree->restoring;
	size_t low = 0, high = r->n;
	int code = 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (r->entries[middle].record.parent < dir->ino)
			low = middle + 1;
		else
			high = middle;
	}
	for (; code == 0 && low < r->n && r->entries[low].record.parent == dir->ino;
	     low++) {
		const struct pf_entry *e = &r->entries[low];
		struct pf_node *node;

		if (e->record.as && pf_entry_find(r, dir->ino, e->name) == e &&
		    !node_of(dir->tree, e->ino))
			code = make_one(dir->tree, dir, e, err);
		node = node_of(dir->tree, e->ino);
		if (code == 0 && node && S_ISDIR(node->kind->mode))
			code = make_below(node, err);
	}
	return code;
}

/* Mark the entries whose files were open. */
static int mark_open(struct pf_restoration *r)
{
	pf_autofree uint64_t *opens = NULL;
	struct pf_map open = { 0 }, written = { 0 };
	struct pf_open of;
	size_t n;
	int code = 0;

	opens = pf_state_list(PF_STATE_OPEN, &n);
	for (size_t i = 0; code == 0 && i < n; i++) {
		if (!pf_open_read(opens[i], &of))
			continue;
		code = pf_map_put(&open, of.alias & INO_MASK, r);
		if (code == 0 && pf_open_writes(&of) && of.dirty)
			code = pf_map_put(&written, of.alias & INO_MASK, r);
	}
	for (size_t i = 0; code == 0 && i < r->n; i++) {
		r->entries[i].open = pf_map_get(&open, r->entries[i].ino);
		r->entries[i].written = pf_map_get(&written, r->entries[i].ino);
	}
	pf_map_release(&written);
	pf_map_release(&open);
	return code;
}

/* Make the nodes without a name that were open or hidden. */
static int make_nameless(struct pf_tree *tree, struct pf_err *err)
{
	const struct pf_restoration *r = tree->restoring;
	int code = 0;

	for (size_t i = 0; code == 0 && i < r->n && !r->entries[i].record.parent; i++) {
		const struct pf_entry *e = &r->entries[i];

		if (e->record.as && (e->open || e->record.hidden) &&
		    !node_of(tree, e->ino))
			code = make_one(tree, NULL, e, err);
	}
	return code;
}

static int by_position(const void *a, const void *b)
{
	const struct pf_node *const *x = a, *const *y = b;
	uint64_t p = (*x)->priv->position, q = (*y)->priv->position;

	return p < q ? -1 : p > q;
}

/* Fixed nodes were linked before the others came back. */
static int sort_children_locked(struct pf_node *dir)
{
	struct pf_table *table = dir->priv->table;
	pf_autofree struct pf_node **list = NULL;
	struct pf_node *c;
	size_t n = 0;

	if (!table->n)
		return 0;
	list = calloc(table->n, sizeof(struct pf_node *));
	if (!list)
		return -ENOMEM;
	while ((c = TAILQ_FIRST(&table->children))) {
		TAILQ_REMOVE(&table->children, c, priv->sibling);
		list[n++] = c;
	}
	qsort(list, n, sizeof(struct pf_node *), by_position);
	for (size_t i = 0; i < n; i++)
		TAILQ_INSERT_TAIL(&table->children, list[i], priv->sibling);
	return 0;
}

/* The nodes of E and their attributes are as they were; what the kernel knows of them is not
 * known. */
static void settle_locked(struct pf_tree *tree, const struct pf_entry *e)
{
	struct pf_node *node = node_of(tree, e->ino);

	if (!node) {
		pf_state_drop(PF_STATE_NODE, e->ino);
		pf_state_drop(PF_STATE_OBJECT, e->ino);
		return;
	}
	node->priv->attr = e->record.attr;
	node->priv->attr.mode =
		(node->kind->mode & S_IFMT) | (e->record.attr.mode & 07777);
	node->priv->position = e->record.position;
	if (!node->priv->parent) {
		node->priv->gone = e->record.gone;
		node->priv->hidden = e->record.hidden;
	}
	node->priv->earlier = node->priv->cached = true;
	node->priv->mapped = e->record.mapped; /* the next FLUSH commits */
	node->priv->polled = true;
}

static int settle(struct pf_tree *tree)
{
	struct pf_restoration *r = tree->restoring;
	struct pf_node *node;
	size_t pos = 0;
	int code = 0;

	PF_LOCK_SCOPE(&tree->lock);
	for (size_t i = 0; i < r->n; i++)
		settle_locked(tree, &r->entries[i]);
	tree->restoring = NULL;
	while (code == 0 && (node = pf_map_next(&tree->nodes, &pos))) {
		code = sort_children_locked(node);
		/* The files of those without a name are opened again later. */
		if (node->priv->parent || node == tree->root)
			pf_node_write_now(node);
	}
	pf_restoration_free(r);
	return code;
}

int pf_tree_restore(struct pf_tree *tree,
		    int (*make)(void *arg, struct pf_node *dir,
				const struct pf_restored *old, struct pf_node **ret,
				struct pf_err *err),
		    void *arg, struct pf_err *err)
{
	struct pf_restoration *restoring = tree->restoring;
	int r;

	if (!restoring)
		return 0;
	restoring->make = make;
	restoring->arg = arg;
	r = restoring->why.code;
	if (r < 0)
		pf_err_set(err, r, "%s", restoring->why.text);
	else
		r = mark_open(restoring);
	if (r == 0)
		r = make_below(tree->root, err);
	if (r == 0)
		r = make_nameless(tree, err);
	if (r == 0)
		r = settle(tree);
	return r < 0 ? pf_err_wrap(err, r, "the tree of the daemon before") : 0;
}
