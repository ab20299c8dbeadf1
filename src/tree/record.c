/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal's records of nodes and open files: how they are written, and found after a restart.
 *
 * Changes of names that a thread makes while it holds the name lock are written together, when it
 * gives that back, so that a rename over another file, say, is one change; but before a node that
 * lost its name is freed, or its bytes are (pf_tree_write), since these may then get another owner.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/state.h"
#include "pjrtfs/wait.h"

enum { AT_ONCE = 32 }; /* records of one change: a rename has four */

/* The tree whose name lock this thread holds. */
static _Thread_local const struct pf_tree *naming;

/* --- nodes ------------------------------------------------------------------------ */

/* The change that makes the record of NODE what NODE is, in *RET, for which *RECORD gets the fixed
 * part.  A node without a name needs a record as long as it is open or hidden. */
static void make_change(const struct pf_node *node, struct pf_node_record *record,
			struct pf_state_change *ret)
{
	const struct pf_node_priv *priv = node->priv;
	const char *name = priv->name ? priv->name : "";

	*ret = (struct pf_state_change){ .type = PF_STATE_NODE, .id = node->ino };
	if (!priv->parent && !priv->hidden && LIST_EMPTY(&priv->opens) &&
	    node != node->tree->root)
		return;
	*record = (struct pf_node_record){
		.parent = priv->parent ? priv->parent->ino : 0,
		.position = priv->position,
		.as = node->kind->restored_as,
		.gone = priv->gone,
		.hidden = priv->hidden,
		.mapped = priv->mapped,
		.attr = priv->attr,
	};
	ret->data = record;
	ret->len = sizeof(*record);
	ret->tail = name;
	ret->tail_len = strlen(name) + 1;
}

void pf_node_write_now(const struct pf_node *node)
{
	struct pf_state_change change;
	struct pf_node_record record;

	make_change(node, &record, &change);
	pf_state_write(&change, 1);
}

void pf_node_write_locked(struct pf_node *node)
{
	struct pf_tree *tree = node->tree;

	node->priv->changed = ++tree->changes;
	if (!pf_state_on() || tree->restoring)
		return;
	if (naming != tree) {
		pf_node_write_now(node);
	} else if (!node->priv->unwritten) {
		node->priv->unwritten = true;
		TAILQ_INSERT_TAIL(&tree->unwritten, node, priv->next_unwritten);
	}
}

static void written_locked(struct pf_node *node)
{
	if (!node->priv->unwritten)
		return;
	node->priv->unwritten = false;
	TAILQ_REMOVE(&node->tree->unwritten, node, priv->next_unwritten);
}

/* Write what waits for the name lock, if this thread holds that. */
static void write_waiting_locked(struct pf_tree *tree)
{
	struct pf_state_change changes[AT_ONCE];
	struct pf_node_record records[AT_ONCE];
	struct pf_node *node;

	if (naming != tree)
		return;
	while (!TAILQ_EMPTY(&tree->unwritten)) {
		unsigned n = 0;

		while (n < AT_ONCE && (node = TAILQ_FIRST(&tree->unwritten))) {
			written_locked(node);
			make_change(node, &records[n], &changes[n]);
			n++;
		}
		pf_state_write(changes, n);
	}
}

void pf_node_forget_locked(struct pf_node *node)
{
	if (!pf_state_on())
		return;
	/* With the change that took its name. */
	write_waiting_locked(node->tree);
	written_locked(node);
	pf_state_drop(PF_STATE_NODE, node->ino);
	pf_state_drop(PF_STATE_OBJECT, node->ino);
}

void pf_tree_lock_names(struct pf_tree *tree)
{
	pf_lock(&tree->names);
	naming = tree;
}

void pf_tree_wake_later(struct pf_tree *tree, struct pf_wait *list)
{
	while (list) {
		struct pf_wait *next = list->next;

		pf_wait_add(&tree->later, list);
		list = next;
	}
}

void pf_tree_unlock_names(struct pf_tree *tree)
{
	struct pf_wait *later = pf_steal(&tree->later);

	if (pf_state_on()) {
		PF_LOCK_SCOPE(&tree->lock);
		write_waiting_locked(tree);
	}
	naming = NULL;
	pf_unlock(&tree->names);
	pf_wake_all(later);
}

void pf_tree_write(struct pf_tree *tree)
{
	if (!pf_state_on())
		return;
	PF_LOCK_SCOPE(&tree->lock);
	write_waiting_locked(tree);
}

/* --- open files --------------------------------------------------------------------- */

/* The payload of PF_STATE_OPEN, without the groups that are not known. */
struct open_record {
	uint64_t ino; /* an alias, of a stream */
	uint64_t unique, poll_handle;
	int32_t flags, failed;
	uint32_t polled, dirty;
	struct pf_cred cred;
};

enum { OPEN_HEAD = offsetof(struct open_record, cred.groups) };

void pf_open_write(const struct pf_open *of, bool dirty)
{
	const struct open_record r = {
		.ino = of->alias,
		.unique = of->unique,
		.poll_handle = of->poll_handle,
		.flags = of->flags,
		.failed = of->failed,
		.polled = of->polled,
		.dirty = dirty,
		.cred = of->cred,
	};

	if (of->handle)
		pf_state_put(PF_STATE_OPEN, of->handle, &r, OPEN_HEAD, r.cred.groups,
			     r.cred.n_groups * sizeof(gid_t));
}

/* A node without a name has a record because it is open. */
void pf_vfs_keep_open(struct pf_open *of)
{
	if (!pf_state_on())
		return;
	pf_lock(&of->lock);
	pf_open_write(of, of->dirty);
	pf_unlock(&of->lock);
	PF_LOCK_SCOPE(&of->node->tree->lock);
	if (!of->node->priv->parent)
		pf_node_write_locked(of->node);
}

void pf_open_committed(struct pf_open *of, int code)
{
	of->failed = code;
	pf_open_write(of, false);
}

void pf_open_idle(const struct pf_open *of, bool idle)
{
	if (of->handle)
		pf_state_set_busy(of->handle, !idle);
}

bool pf_open_begin(const struct pf_open *of)
{
	return pf_state_begin(of->handle, &of->node->tree->settles);
}

bool pf_open_read(uint64_t handle, struct pf_open *ret)
{
	size_t len;
	const struct open_record *r =
		pf_state_load(PF_STATE_OPEN, handle, OPEN_HEAD, &len, NULL);

	if (!r || r->cred.n_groups > PF_CRED_GROUPS ||
	    len != r->cred.n_groups * sizeof(gid_t))
		return false;
	*ret = (struct pf_open){ .alias = r->ino,
				 .handle = handle,
				 .unique = r->unique,
				 .poll_handle = r->poll_handle,
				 .flags = r->flags,
				 .failed = r->failed,
				 .polled = r->polled,
				 .dirty = r->dirty };
	memcpy(&ret->cred, &r->cred, offsetof(struct pf_cred, groups) + len);
	return true;
}

/* --- nodes of earlier lives --------------------------------------------------------- */

static uint64_t hash_of(uint64_t parent, const char *name)
{
	uint64_t h =
		(pf_hash(name, strlen(name)) ^ parent) * UINT64_C(0x9e3779b97f4a7c15);

	return h ? h : 1;
}

static int compare(const void *a, const void *b)
{
	const struct pf_node_record *x = &((const struct pf_entry *)a)->record;
	const struct pf_node_record *y = &((const struct pf_entry *)b)->record;

	if (x->parent != y->parent)
		return x->parent < y->parent ? -1 : 1;
	return x->position < y->position ? -1 : x->position > y->position;
}

void pf_restoration_free(struct pf_restoration *r)
{
	for (size_t i = 0; r && i < r->n; i++)
		free(r->entries[i].name);
	if (r) {
		free(r->entries);
		pf_map_release(&r->by_name);
	}
	free(r);
}

static int read_entry(uint64_t ino, struct pf_entry *e, struct pf_err *err)
{
	size_t len;
	const struct pf_node_record *r =
		pf_state_load(PF_STATE_NODE, ino, sizeof(*r), &len, err);
	const char *name;

	if (!r)
		return err->code;
	if (!pf_state_texts(r + 1, len, &name, 1)) {
		pf_state_damaged(PF_STATE_NODE, ino, err);
		return err->code;
	}
	*e = (struct pf_entry){ .ino = ino, .record = *r, .name = strdup(name) };
	return e->name ? 0 : pf_err_set(err, -ENOMEM, "no memory");
}

/* Of two nodes of one name, which a crash can leave, the one that was linked later has it. */
static int index_names(struct pf_restoration *r)
{
	for (size_t i = 0; i < r->n; i++) {
		struct pf_entry *e = &r->entries[i];
		uint64_t hash = hash_of(e->record.parent, e->name);

		if (!e->record.parent)
			continue;
		e->next = pf_map_get(&r->by_name, hash);
		if (pf_map_put(&r->by_name, hash, e) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int read_entries(struct pf_restoration *r, const uint64_t *list, size_t n)
{
	int code = 0;

	r->entries = calloc(n, sizeof(*r->entries));
	if (!r->entries)
		return pf_err_set(&r->why, -ENOMEM, "no memory");
	for (; code == 0 && r->n < n; r->n += code == 0)
		code = read_entry(list[r->n], &r->entries[r->n], &r->why);
	if (code < 0)
		return code;
	qsort(r->entries, r->n, sizeof(*r->entries), compare);
	return index_names(r) < 0 ? pf_err_set(&r->why, -ENOMEM, "no memory") : 0;
}

int pf_restoration_new(struct pf_restoration **ret, uint64_t *last)
{
	size_t n;
	pf_autofree uint64_t *list = pf_state_list(PF_STATE_NODE, &n);
	struct pf_restoration *r = n ? calloc(1, sizeof(*r)) : NULL;

	*ret = r;
	if (!r)
		return n ? -ENOMEM : 0;
	(void)read_entries(r, list, n);
	for (size_t i = 0; i < r->n; i++)
		if (r->entries[i].record.position > *last)
			*last = r->entries[i].record.position;
	return 0;
}

struct pf_entry *pf_entry_find(const struct pf_restoration *r, uint64_t parent,
			       const char *name)
{
	struct pf_entry *e = pf_map_get(&r->by_name, hash_of(parent, name));

	while (e && (e->record.parent != parent || strcmp(e->name, name)))
		e = e->next;
	return e;
}

/* NODE gets the number INO. */
static void set_number_locked(struct pf_node *node, uint64_t ino)
{
	struct pf_tree *tree = node->tree;

	if (node->ino == ino || pf_map_get(&tree->nodes, ino))
		return;
	pf_map_remove(&tree->nodes, node->ino);
	pf_state_drop(PF_STATE_OBJECT, node->ino);
	node->ino = ino;
	if (pf_kind_is_stream(node->kind))
		node->priv->alias = pf_first_alias(ino);
	(void)pf_map_put(&tree->nodes, ino, node); /* in the place of the other number */
}

void pf_node_renumber_locked(struct pf_node *dir, const char *name, struct pf_node *node)
{
	const struct pf_restoration *r = dir->tree->restoring;
	struct pf_entry *e = r ? pf_entry_find(r, dir->ino, name) : NULL;

	if (!e)
		return;
	set_number_locked(node, e->ino);
	for (struct pf_node *c = TAILQ_FIRST(&node->priv->table->children); c;
	     c = TAILQ_NEXT(c, priv->sibling))
		pf_node_renumber_locked(node, c->priv->name, c);
}

uint64_t pf_first_alias(uint64_t ino)
{
	/* The kernel may know numbers that earlier lives have given. */
	return ino | (uint64_t)(uint8_t)*pf_state_counter(PF_STATE_COUNT_LIFE) << 56;
}

void pf_tree_adopt(struct pf_tree *tree, uint64_t ino)
{
	PF_LOCK_SCOPE(&tree->lock);
	tree->adopt = ino;
}
