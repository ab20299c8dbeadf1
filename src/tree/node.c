/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes: names, numbers, references.
 *
 * A count of references reaches 0 under the tree's lock, and never rises again: a function that
 * finds a node in a table takes its reference with ref_locked, which then fails.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "pjrtfs/state.h"

enum { ROOT = 1 }; /* the number of the root, as in FUSE */

struct both {
	struct pf_node node;
	struct pf_node_priv priv;
	struct pf_table table[]; /* one, of a directory */
};

static struct pf_table no_children;

struct timespec pf_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now;
}

/* --- references --------------------------------------------------------------------- */

/* Drop a reference on NODE; the last one: unlock_and_free frees the holder. */
static void drop_locked(struct pf_node *node)
{
	struct pf_node *holder = node->priv->holder;
	struct pf_tree *tree = node->tree;

	if (--holder->priv->refs == 0) {
		holder->priv->dead = tree->dead;
		tree->dead = holder;
	}
}

struct pf_node *pf_node_ref(struct pf_node *node)
{
	node->priv->holder->priv->refs++;
	return node;
}

/* Take a reference on NODE, found in a table; NULL: its last one is gone, and it is being freed. */
static struct pf_node *ref_locked(struct pf_node *node)
{
	return node && node->priv->holder->priv->refs ? pf_node_ref(node) : NULL;
}

/* --- names -------------------------------------------------------------------------- */

enum { FIRST_BUCKETS = 8 };

/* The bucket of NAME among CAP. */
static struct pf_bucket *bucket_of(struct pf_bucket *buckets, size_t cap,
				   const char *name)
{
	return &buckets[pf_hash(name, strlen(name)) & (cap - 1)];
}

static struct pf_node *find_locked(struct pf_node *dir, const char *name)
{
	const struct pf_table *table = dir->priv->table;
	struct pf_node *n =
		table->cap ? LIST_FIRST(bucket_of(table->buckets, table->cap, name))
			   : NULL;

	while (n && strcmp(n->priv->name, name))
		n = LIST_NEXT(n, priv->chain);
	return n;
}

static int grow(struct pf_table *table)
{
	size_t cap = table->cap ? table->cap * 2 : FIRST_BUCKETS;
	struct pf_bucket *buckets = calloc(cap, sizeof(*buckets));
	struct pf_node *n;

	if (!buckets)
		return table->cap ? 0 : -ENOMEM; /* chains only get longer */
	for (n = TAILQ_FIRST(&table->children); n; n = TAILQ_NEXT(n, priv->sibling))
		LIST_INSERT_HEAD(bucket_of(buckets, cap, n->priv->name), n, priv->chain);
	free(table->buckets);
	table->buckets = buckets;
	table->cap = cap;
	return 0;
}

static void notify(struct pf_node *node, enum pf_change change, const char *name)
{
	struct pf_tree *tree = node->tree;

	PF_LOCK_SCOPE(&tree->notify);
	if (tree->on_change)
		tree->on_change(tree->on_change_arg, node->ino, change, name);
}

void pf_node_gone(struct pf_node *node, struct pf_node *dir, const char *name)
{
	if (node->priv->lookups)
		notify(dir, PF_CHANGED_GONE, name);
}

static void touch_locked(struct pf_node *node)
{
	node->priv->attr.mtime = node->priv->attr.ctime = pf_now();
	pf_node_write_locked(node);
	pf_node_invalidate_locked(node);
}

/* Link NODE at the end of DIR's list as *NAME, which it then owns.  Cannot fail if DIR has
 * buckets. */
static int attach_locked(struct pf_node *dir, struct pf_node *node, char **name)
{
	struct pf_table *table = dir->priv->table;
	struct pf_node_priv *priv = node->priv;

	assert(!priv->parent);
	if (table->n >= table->cap && grow(table) < 0)
		return -ENOMEM;
	priv->name = pf_steal(name);
	priv->parent = dir;
	priv->gone = priv->hidden = false;
	priv->position = ++dir->tree->last_position;
	LIST_INSERT_HEAD(bucket_of(table->buckets, table->cap, priv->name), node,
			 priv->chain);
	TAILQ_INSERT_TAIL(&table->children, node, priv->sibling);
	table->n++;
	table->loose += priv->holder == node;
	table->dirs += S_ISDIR(node->kind->mode);
	if (dir->tree->restoring)
		pf_node_renumber_locked(dir, priv->name, node);
	pf_node_write_locked(node);
	touch_locked(dir);
	return 0;
}

/* Unlink NODE.  The caller drops the link's reference. */
static void detach_locked(struct pf_node *node)
{
	struct pf_node_priv *priv = node->priv;
	struct pf_node *dir = pf_steal(&priv->parent);
	struct pf_table *table = dir->priv->table;

	LIST_REMOVE(node, priv->chain);
	TAILQ_REMOVE(&table->children, node, priv->sibling);
	table->n--;
	table->loose -= priv->holder == node;
	table->dirs -= S_ISDIR(node->kind->mode);
	priv->gone = true;
	free(pf_steal(&priv->name));
	priv->attr.ctime = pf_now();
	pf_node_write_locked(node);
	touch_locked(dir);
}

static void unlink_locked(struct pf_node *node)
{
	detach_locked(node);
	if (node->priv->holder == node)
		drop_locked(node);
}

static bool is_below_locked(const struct pf_node *node, const struct pf_node *ancestor)
{
	for (; node; node = node->priv->parent)
		if (node == ancestor)
			return true;
	return false;
}

static unsigned depth_locked(const struct pf_node *dir)
{
	unsigned n = 0;

	while ((dir = dir->priv->parent))
		n++;
	return n;
}

/* Nested directories from NODE on, itself included; PF_DEPTH_MAX limits the recursion. */
static unsigned height_locked(const struct pf_node *node)
{
	const struct pf_table *table = node->priv->table;
	size_t left = table->dirs;
	unsigned most = 0;

	for (const struct pf_node *c = TAILQ_FIRST(&table->children); c && left;
	     c = TAILQ_NEXT(c, priv->sibling)) {
		unsigned n = S_ISDIR(c->kind->mode) ? height_locked(c) : 0;

		left -= n > 0;
		most = n > most ? n : most;
	}
	return most + 1;
}

static int check_depth_locked(const struct pf_node *dir, const struct pf_node *node)
{
	unsigned height = node ? height_locked(node) : 1;

	if (node && !S_ISDIR(node->kind->mode))
		return 0;
	return depth_locked(dir) + height <= PF_DEPTH_MAX ? 0 : -ENAMETOOLONG;
}

int pf_dir_check_depth(struct pf_node *dir, struct pf_node *node, struct pf_err *err)
{
	int r;

	pf_lock(&dir->tree->lock);
	r = check_depth_locked(dir, node);
	pf_unlock(&dir->tree->lock);
	return r == 0 ? 0
		      : pf_err_set(err, r, "more than %d directories one in another",
				   PF_DEPTH_MAX);
}

/* --- birth and death ---------------------------------------------------------------- */

/* Take NODE, which has no references, and its children out of all tables. */
static void uproot_locked(struct pf_tree *tree, struct pf_node *node)
{
	for (struct pf_node *n = node; n; n = n->priv->listed) {
		struct pf_table *table = n->priv->table;

		pf_map_remove(&tree->nodes, n->ino);
		if (n->priv->parent)
			detach_locked(n);
		while (table->n)
			unlink_locked(TAILQ_FIRST(&table->children));
	}
	/* Last, as what went before has changed the directories among them. */
	for (struct pf_node *n = node; n; n = n->priv->listed)
		pf_node_forget_locked(n);
}

static void free_nodes(struct pf_node *node, bool objects)
{
	while (node) {
		struct pf_node *next = node->priv->listed;
		struct pf_last_reply *reply;

		if (objects && node->kind->free)
			node->kind->free(node);
		while ((reply = node->priv->last_replies)) {
			node->priv->last_replies = reply->next;
			free(reply);
		}
		free(node->priv->table->buckets);
		free(node);
		node = next;
	}
}

static void tree_destroy(struct pf_tree *tree)
{
	pf_map_release(&tree->nodes);
	pf_map_release(&tree->held);
	pf_restoration_free(tree->restoring);
	pthread_mutex_destroy(&tree->names);
	pthread_mutex_destroy(&tree->lock);
	pthread_mutex_destroy(&tree->notify);
	free(tree);
}

/* Unlock the tree and free the nodes that were dropped.  No lock but the name lock is held then. */
static void unlock_and_free(struct pf_tree *tree)
{
	struct pf_node *dead = pf_steal(&tree->dead), *node;
	bool last;

	pf_unlock(&tree->lock);
	while ((node = dead)) {
		pf_lock(&tree->lock);
		tree->dead = node->priv->dead;
		uproot_locked(tree, node);
		dead = pf_steal(&tree->dead);
		last = tree->closed && tree->nodes.used == 0;
		pf_unlock(&tree->lock);
		free_nodes(node, true);
		if (last)
			tree_destroy(tree);
	}
}

void pf_node_unref(struct pf_node *node)
{
	_Atomic unsigned *refs;
	unsigned n;

	if (!node)
		return;
	refs = &node->priv->holder->priv->refs;
	n = *refs;
	while (n > 1) /* the last one is dropped with the lock */
		if (atomic_compare_exchange_weak(refs, &n, n - 1))
			return;
	pf_lock(&node->tree->lock);
	drop_locked(node);
	unlock_and_free(node->tree);
}

/* --- links -------------------------------------------------------------------------- */

static int link_locked(struct pf_node *dir, char **name, struct pf_node *node,
		       bool replace, bool fixed)
{
	struct pf_node *old;
	int r;

	assert(S_ISDIR(dir->kind->mode));
	if (dir->priv->gone)
		return -ENOENT;
	if (strlen(*name) > PF_NAME_MAX)
		return -ENAMETOOLONG;
	old = find_locked(dir, *name);
	if (old && !replace)
		return -EEXIST;
	r = check_depth_locked(dir, node);
	if (r == 0)
		r = attach_locked(dir, node, name);
	if (r < 0)
		return r;
	node->priv->fixed |= fixed;
	if (node->priv->holder == node)
		pf_node_ref(node);
	if (old)
		unlink_locked(old);
	return 0;
}

static int link_node(struct pf_node *dir, const char *name, struct pf_node *node,
		     bool replace, bool fixed)
{
	pf_autofree char *copy = strdup(name);
	int r;

	if (!copy)
		return -ENOMEM;
	pf_lock(&dir->tree->lock);
	r = link_locked(dir, &copy, node, replace, fixed);
	unlock_and_free(dir->tree);
	return r;
}

int pf_dir_link(struct pf_node *dir, const char *name, struct pf_node *node, bool replace)
{
	return link_node(dir, name, node, replace, false);
}

int pf_dir_link_fixed(struct pf_node *dir, const char *name, struct pf_node *node)
{
	return link_node(dir, name, node, false, dir->priv->holder->priv->fixed);
}

static void take_out(struct pf_node *node, bool gone)
{
	struct pf_node_priv *priv = node->priv;

	pf_lock(&node->tree->lock);
	if (priv->parent) {
		pf_node_gone(node, priv->parent, priv->name);
		priv->hidden = !gone;
		unlink_locked(node);
		priv->gone = gone;
	} else if (priv->hidden && gone) {
		priv->hidden = false;
		priv->gone = true;
		pf_node_write_locked(node);
	}
	unlock_and_free(node->tree);
}

void pf_dir_unlink(struct pf_node *node)
{
	take_out(node, true);
}

void pf_dir_hide(struct pf_node *node)
{
	take_out(node, false);
}

struct move {
	struct pf_node *node, *to;
	const char *name; /* borrowed */
	char *copy;       /* owned: of name; NULL: the node stays where it is */
};

/* Can M be done?  0: then it cannot fail. */
static int prepare_locked(struct move *m)
{
	struct pf_node *from = m->node->priv->parent;

	if (!from || !m->to || m->to->priv->gone)
		return -ENOENT;
	if (is_below_locked(m->to, m->node))
		return -EINVAL;
	if (strlen(m->name) > PF_NAME_MAX)
		return -ENAMETOOLONG;
	if (from == m->to && !strcmp(m->node->priv->name, m->name))
		return 0;
	if (from != m->to && check_depth_locked(m->to, m->node) < 0)
		return -ENAMETOOLONG;
	m->copy = strdup(m->name);
	if (!m->copy)
		return -ENOMEM;
	return m->to->priv->table->cap ? 0 : grow(m->to->priv->table);
}

/* Do all N moves, or, on an error, none.  Both nodes of an exchange leave their names first. */
static int move_locked(struct move *moves, int n)
{
	struct pf_node *old;
	int r = 0;

	for (int i = 0; i < n && r == 0; i++)
		r = prepare_locked(&moves[i]);
	for (int i = 0; i < n && r == 0; i++)
		if (moves[i].copy)
			detach_locked(moves[i].node);
	for (struct move *m = moves; m < moves + n && r == 0; m++) {
		if (!m->copy)
			continue;
		old = find_locked(m->to, m->copy);
		if (old)
			unlink_locked(old);
		(void)attach_locked(m->to, m->node, &m->copy); /* there are buckets */
	}
	for (int i = 0; i < n; i++)
		free(moves[i].copy);
	return r;
}

static int move_all(struct pf_tree *tree, struct move *moves, int n)
{
	int r;

	pf_lock(&tree->lock);
	r = move_locked(moves, n);
	unlock_and_free(tree);
	return r;
}

int pf_dir_move(struct pf_node *node, struct pf_node *to, const char *name)
{
	struct move move = { node, to, name, NULL };

	return move_all(node->tree, &move, 1);
}

int pf_dir_move_both(struct pf_node *a, struct pf_node *to_a, const char *name_a,
		     struct pf_node *b, struct pf_node *to_b, const char *name_b)
{
	struct move moves[] = { { a, to_a, name_a, NULL }, { b, to_b, name_b, NULL } };

	return move_all(a->tree, moves, 2);
}

int pf_dir_exchange(struct pf_node *a, struct pf_node *b)
{
	PF_LOCK_SCOPE(&a->tree->lock); /* no name is taken, so no node is freed */
	return move_locked((struct move[]){ { a, b->priv->parent, b->priv->name, NULL },
					    { b, a->priv->parent, a->priv->name, NULL } },
			   2);
}

struct pf_node *pf_dir_lookup(struct pf_node *dir, const char *name)
{
	struct pf_node *node;

	PF_LOCK_SCOPE(&dir->tree->lock);
	node = find_locked(dir, name);
	return ref_locked(node);
}

struct pf_node *pf_dir_lookup_stem(struct pf_node *dir, const char *stem, size_t len,
				   const char *const *extensions)
{
	char name[PF_NAME_MAX + 1];

	if (len > PF_NAME_MAX)
		return NULL;
	memcpy(name, stem, len);
	PF_LOCK_SCOPE(&dir->tree->lock);
	for (; *extensions; extensions++) {
		size_t n = strlen(*extensions);
		struct pf_node *node;

		if (n > PF_NAME_MAX - len)
			continue;
		memcpy(name + len, *extensions, n + 1);
		node = find_locked(dir, name);
		if (node && !S_ISDIR(node->kind->mode) && ref_locked(node))
			return node;
	}
	return NULL;
}

size_t pf_dir_count(struct pf_node *dir)
{
	PF_LOCK_SCOPE(&dir->tree->lock);
	return dir->priv->table->n;
}

struct pf_node **pf_dir_list(struct pf_node *dir)
{
	struct pf_node **list, *c;
	size_t n = 0;

	PF_LOCK_SCOPE(&dir->tree->lock);
	list = calloc(dir->priv->table->n + 1, sizeof(struct pf_node *));
	if (!list)
		return NULL;
	for (c = TAILQ_FIRST(&dir->priv->table->children); c;
	     c = TAILQ_NEXT(c, priv->sibling))
		if (ref_locked(c))
			list[n++] = c;
	return list;
}

struct pf_node *pf_node_parent(struct pf_node *node)
{
	struct pf_node *parent;

	PF_LOCK_SCOPE(&node->tree->lock);
	parent = node->priv->parent;
	return ref_locked(parent);
}

void pf_node_name(struct pf_node *node, char dst[PF_NAME_MAX + 1])
{
	const char *name;

	PF_LOCK_SCOPE(&node->tree->lock);
	name = node->priv->name ? node->priv->name : "";
	memcpy(dst, name, strlen(name) + 1);
}

/* PF_DEPTH_MAX limits the recursion. */
static void put_path_locked(const struct pf_node *node, const struct pf_node *ancestor,
			    struct pf_buf *out)
{
	const struct pf_node *parent = node->priv->parent;

	if (!node->priv->name)
		return;
	if (parent != ancestor && parent->priv->name) {
		put_path_locked(parent, ancestor, out);
		pf_buf_puts(out, "/");
	}
	pf_buf_puts(out, node->priv->name);
}

void pf_node_path(struct pf_node *node, struct pf_node *ancestor, struct pf_buf *out)
{
	PF_LOCK_SCOPE(&node->tree->lock);
	if (node != ancestor)
		put_path_locked(node, ancestor, out);
}

/* Make a node with a number; HOLDER (NULL: itself) counts its references. */
static struct pf_node *alloc(struct pf_tree *tree, const struct pf_kind *kind,
			     void *object, mode_t perm, const struct pf_attr *owner,
			     struct pf_node *holder)
{
	bool is_directory = S_ISDIR(kind->mode);
	struct both *both =
		calloc(1, sizeof(*both) + is_directory * sizeof(both->table[0]));
	struct pf_node *node;
	int r;

	if (!both)
		return NULL;
	node = &both->node;
	node->tree = tree;
	node->kind = kind;
	node->object = object;
	node->priv = &both->priv;
	node->priv->holder = holder ? holder : node;
	node->priv->table = is_directory ? both->table : &no_children;
	if (is_directory)
		TAILQ_INIT(&node->priv->table->children);
	node->priv->attr.mode =
		perm == (mode_t)-1 ? kind->mode : (kind->mode & S_IFMT) | (perm & 07777);
	node->priv->attr.uid = owner->uid;
	node->priv->attr.gid = owner->gid;
	node->priv->attr.mtime = pf_now();
	node->priv->attr.atime = node->priv->attr.ctime = node->priv->attr.mtime;

	pf_lock(&tree->lock);
	node->ino = tree->adopt ? tree->adopt : atomic_fetch_add(tree->last_ino, 1) + 1;
	tree->adopt = 0;
	if (pf_kind_is_stream(kind))
		node->priv->alias = pf_first_alias(node->ino);
	if (kind->slow && tree->n_slow < PF_SLOW_NODES)
		tree->slow[tree->n_slow++] = node->ino;
	r = pf_map_put(&tree->nodes, node->ino, node);
	pf_unlock(&tree->lock);
	if (r < 0) {
		free(both);
		return NULL;
	}
	return node;
}

/* Make the children that the kind of DIR lists.  DIR is not linked yet. */
static int populate(struct pf_node *dir, struct pf_node *holder)
{
	for (const struct pf_kind *const *k = dir->kind->children; k && *k; k++) {
		struct pf_node *node = alloc(dir->tree, *k, dir->object, (mode_t)-1,
					     &dir->priv->attr, holder);
		pf_autofree char *name = strdup((*k)->name);
		int r;

		if (!node)
			return -1;
		node->priv->listed = holder->priv->listed;
		holder->priv->listed = node;
		pf_lock(&dir->tree->lock);
		r = name ? attach_locked(dir, node, &name) : -1;
		pf_unlock(&dir->tree->lock);
		if (r < 0 || populate(node, holder) < 0)
			return -1;
	}
	return 0;
}

static struct pf_node *make(struct pf_tree *tree, const struct pf_kind *kind,
			    void *object, mode_t perm, const struct pf_attr *owner)
{
	struct pf_node *node = alloc(tree, kind, object, perm, owner, NULL);

	if (!node)
		return NULL;
	if (populate(node, node) < 0) {
		pf_lock(&tree->lock);
		uproot_locked(tree, node);
		pf_unlock(&tree->lock);
		free_nodes(node, false);
		return NULL;
	}
	node->priv->refs = 1;
	return node;
}

struct pf_node *pf_node_new(struct pf_tree *tree, const struct pf_kind *kind,
			    void *object, mode_t perm, const struct pf_cred *cred)
{
	struct pf_attr owner;

	pf_lock(&tree->lock);
	owner = tree->root->priv->attr;
	pf_unlock(&tree->lock);
	if (cred) {
		owner.uid = cred->uid;
		owner.gid = cred->gid;
	}
	return make(tree, kind, object, perm, &owner);
}

struct pf_tree *pf_tree_new(const struct pf_kind *kind, void *object, uid_t uid,
			    gid_t gid)
{
	struct pf_tree *tree = malloc(sizeof(*tree));
	struct pf_attr owner = { .uid = uid, .gid = gid };

	if (!tree)
		return NULL;
	*tree = (struct pf_tree){ .names = PTHREAD_MUTEX_INITIALIZER,
				  .lock = PTHREAD_MUTEX_INITIALIZER,
				  .notify = PTHREAD_MUTEX_INITIALIZER,
				  .adopt = ROOT,

				  .object = object };
	if (pf_restoration_new(&tree->restoring, &tree->last_position) < 0) {
		free(tree);
		return NULL;
	}
	TAILQ_INIT(&tree->unwritten);
	tree->last_ino =
		pf_state_on() ? pf_state_counter(PF_STATE_COUNT_INO) : &tree->own_ino;
	if (!*tree->last_ino)
		*tree->last_ino = ROOT;
	tree->root = make(tree, kind, object, (mode_t)-1, &owner);
	if (!tree->root) {
		tree_destroy(tree);
		return NULL;
	}
	tree->root->priv->fixed = true;
	return tree;
}

/* The kernel sends no FORGET for its lookups when the mount ends. */
void pf_tree_free(struct pf_tree *tree)
{
	struct pf_node *node;
	size_t pos = 0;

	if (!tree)
		return;
	pf_lock(&tree->lock);
	tree->closed = true;
	while ((node = pf_map_next(&tree->nodes, &pos)))
		if (atomic_exchange(&node->priv->lookups, 0))
			drop_locked(node);
	drop_locked(tree->root);
	unlock_and_free(tree);
}

struct pf_node *pf_tree_root(struct pf_tree *tree)
{
	return tree->root;
}

void *pf_tree_object(const struct pf_tree *tree)
{
	return tree->object;
}

uint64_t pf_tree_count(struct pf_tree *tree)
{
	PF_LOCK_SCOPE(&tree->lock);
	return tree->nodes.used;
}

static struct pf_node *by_ino_locked(struct pf_tree *tree, uint64_t ino)
{
	ino &= ((uint64_t)1 << PF_INO_BITS) - 1;
	return ino ? pf_map_get(&tree->nodes, ino) : NULL;
}

struct pf_node *pf_tree_by_ino(struct pf_tree *tree, uint64_t ino)
{
	PF_LOCK_SCOPE(&tree->lock);
	return ref_locked(by_ino_locked(tree, ino));
}

void pf_node_looked_up(struct pf_node *node)
{
	PF_LOCK_SCOPE(&node->tree->lock);
	if (node->priv->lookups++ == 0)
		pf_node_ref(node);
}

void pf_vfs_forget(struct pf_tree *tree, uint64_t ino, uint64_t n)
{
	struct pf_node *node;
	uint64_t left;

	pf_lock(&tree->lock);
	node = by_ino_locked(tree, ino);
	left = node ? node->priv->lookups : 0;
	if (left)
		node->priv->lookups = n < left ? left - n : 0;
	if (left && n >= left)
		drop_locked(node);
	unlock_and_free(tree);
}

void pf_tree_set_notify(struct pf_tree *tree,
			void (*fn)(void *arg, uint64_t ino, enum pf_change change,
				   const char *name),
			void *arg)
{
	PF_LOCK_SCOPE(&tree->notify);
	tree->on_change = fn;
	tree->on_change_arg = arg;
}

/* The kernel looks up a node that it does not have before it uses it: no notice is
 * needed. */
void pf_node_changed(struct pf_node *node, bool data)
{
	if (node->priv->lookups || node->priv->earlier)
		notify(node, data ? PF_CHANGED_DATA : PF_CHANGED_ATTR, NULL);
}

void pf_node_ready(struct pf_node *node)
{
	/* A poll of before the change has set this: kind->poll takes the lock of the change. */
	if (node->priv->polled && atomic_exchange(&node->priv->polled, false))
		notify(node, PF_CHANGED_READY, NULL);
}

void pf_node_invalidate_locked(struct pf_node *node)
{
	if (!node->priv->cached)
		return;
	node->priv->cached = false;
	notify(node, PF_CHANGED_NAMES, NULL);
}
