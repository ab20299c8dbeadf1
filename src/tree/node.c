/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes: names, numbers, references, attributes.
 *
 * A count of references that reaches 0 never rises again: a function that finds a node in a
 * table takes its reference with pf_node_ref_locked, which then fails.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "internal.h"

/* --- names -------------------------------------------------------------------------- */

enum { FIRST_BUCKETS = 8 };

static struct pf_node *find_locked(struct pf_node *dir, const char *name)
{
	const struct pf_table *table = &dir->priv->table;
	uint64_t hash;

	if (!table->cap)
		return NULL;
	hash = pf_hash(name, strlen(name));
	for (struct pf_node *n = table->buckets[hash & (table->cap - 1)]; n;
	     n = n->priv->chain)
		if (n->priv->hash == hash && !strcmp(n->priv->name, name))
			return n;
	return NULL;
}

static int grow(struct pf_table *table)
{
	size_t cap = table->cap ? table->cap * 2 : FIRST_BUCKETS;
	struct pf_node **buckets = calloc(cap, sizeof(struct pf_node *));

	if (!buckets)
		return table->cap ? 0 : -ENOMEM; /* chains only get longer */
	for (struct pf_node *n = table->first; n; n = n->priv->next) {
		struct pf_node **b = &buckets[n->priv->hash & (cap - 1)];

		n->priv->chain = *b;
		*b = n;
	}
	free(table->buckets);
	table->buckets = buckets;
	table->cap = cap;
	return 0;
}

static void touch_locked(struct pf_node *node)
{
	node->priv->attr.mtime = node->priv->attr.ctime = pf_now();
	pf_node_invalidate_locked(node);
}

/* Link NODE, whose name and hash are set, at the end of DIR's list. */
static int attach_locked(struct pf_node *dir, struct pf_node *node)
{
	struct pf_table *table = &dir->priv->table;
	struct pf_node_priv *priv = node->priv;
	struct pf_node **bucket;

	assert(!priv->parent);
	if (table->n >= table->cap && grow(table) < 0)
		return -ENOMEM;
	bucket = &table->buckets[priv->hash & (table->cap - 1)];
	priv->chain = *bucket;
	*bucket = node;
	priv->parent = dir;
	priv->next = NULL;
	priv->prev = table->last;
	if (table->last)
		table->last->priv->next = node;
	else
		table->first = node;
	table->last = node;
	table->n++;
	table->loose += priv->holder == node;
	table->dirs += S_ISDIR(node->kind->mode);
	priv->gone = false;
	touch_locked(dir);
	return 0;
}

/* Unlink NODE.  The caller drops the link's reference. */
static void detach_locked(struct pf_node *node)
{
	struct pf_node_priv *priv = node->priv;
	struct pf_node *dir = priv->parent;
	struct pf_table *table = &dir->priv->table;
	struct pf_node **p = &table->buckets[priv->hash & (table->cap - 1)];

	while (*p != node)
		p = &(*p)->priv->chain;
	*p = priv->chain;
	if (priv->prev)
		priv->prev->priv->next = priv->next;
	else
		table->first = priv->next;
	if (priv->next)
		priv->next->priv->prev = priv->prev;
	else
		table->last = priv->prev;
	table->n--;
	table->loose -= priv->holder == node;
	table->dirs -= S_ISDIR(node->kind->mode);
	priv->parent = priv->prev = priv->next = priv->chain = NULL;
	priv->gone = true;
	free(pf_steal(&priv->name));
	priv->attr.ctime = pf_now();
	touch_locked(dir);
}

static void unlink_locked(struct pf_node *node, struct pf_node **dead)
{
	detach_locked(node);
	if (node->priv->holder == node)
		pf_node_drop_locked(node, dead);
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
	const struct pf_table *table = &node->priv->table;
	size_t left = table->dirs;
	unsigned most = 0;

	for (const struct pf_node *c = table->first; c && left; c = c->priv->next) {
		unsigned n;

		if (!S_ISDIR(c->kind->mode))
			continue;
		left--;
		n = height_locked(c);
		if (n > most)
			most = n;
	}
	return most + 1;
}

static int room_locked(const struct pf_node *dir, const struct pf_node *node)
{
	unsigned height = 1;

	if (node && !S_ISDIR(node->kind->mode))
		return 0;
	if (node)
		height = height_locked(node);
	return depth_locked(dir) + height <= PF_DEPTH_MAX ? 0 : -ENAMETOOLONG;
}

int pf_dir_room(struct pf_node *dir, struct pf_node *node, struct pf_err *err)
{
	int r;

	pf_lock(&dir->tree->lock);
	r = room_locked(dir, node);
	pf_unlock(&dir->tree->lock);
	return r == 0 ? 0
		      : pf_err_set(err, r, "more than %d directories one in another",
				   PF_DEPTH_MAX);
}

static int link_locked(struct pf_node *dir, char *name, struct pf_node *node,
		       bool replace, bool fixed, struct pf_node **dead)
{
	struct pf_node *old;
	int r;

	assert(S_ISDIR(dir->kind->mode));
	if (dir->priv->gone)
		return -ENOENT;
	if (strlen(name) > PF_NAME_MAX)
		return -ENAMETOOLONG;
	old = find_locked(dir, name);
	if (old && !replace)
		return -EEXIST;
	r = room_locked(dir, node);
	if (r < 0)
		return r;
	node->priv->name = name;
	node->priv->hash = pf_hash(name, strlen(name));
	r = attach_locked(dir, node);
	if (r < 0) {
		node->priv->name = NULL;
		return r;
	}
	if (fixed)
		node->priv->fixed = true;
	if (node->priv->holder == node)
		pf_node_ref(node);
	if (old)
		unlink_locked(old, dead);
	return 0;
}

static int link_node(struct pf_node *dir, const char *name, struct pf_node *node,
		     bool replace, bool fixed)
{
	pf_autofree char *copy = strdup(name);
	struct pf_node *dead = NULL;
	int r;

	if (!copy)
		return -ENOMEM;
	pf_lock(&dir->tree->lock);
	r = link_locked(dir, copy, node, replace, fixed, &dead);
	if (r == 0)
		copy = NULL;
	pf_unlock(&dir->tree->lock);
	pf_node_free_dead(dir->tree, dead);
	return r;
}

int pf_dir_link(struct pf_node *dir, const char *name, struct pf_node *node, bool replace)
{
	return link_node(dir, name, node, replace, false);
}

int pf_dir_link_fixed(struct pf_node *dir, const char *name, struct pf_node *node)
{
	assert(dir->priv->holder->priv->fixed);
	return link_node(dir, name, node, false, true);
}

static void take_out(struct pf_node *node, bool gone)
{
	struct pf_tree *tree = node->tree;
	struct pf_node *dead = NULL;

	pf_lock(&tree->lock);
	if (node->priv->parent) {
		unlink_locked(node, &dead);
		node->priv->gone = gone;
	}
	pf_unlock(&tree->lock);
	pf_node_free_dead(tree, dead);
}

void pf_dir_unlink(struct pf_node *node)
{
	take_out(node, true);
}

void pf_dir_hide(struct pf_node *node)
{
	take_out(node, false);
}

/* Can NODE be moved?  0: then move_locked cannot fail. */
static int may_move_locked(struct pf_node *node, struct pf_node *to, const char *name)
{
	struct pf_node *from = node->priv->parent;

	if (!from || to->priv->gone)
		return -ENOENT;
	if (is_below_locked(to, node))
		return -EINVAL;
	if (strlen(name) > PF_NAME_MAX)
		return -ENAMETOOLONG;
	if (from != to && room_locked(to, node) < 0)
		return -ENAMETOOLONG;
	return to->priv->table.cap ? 0 : grow(&to->priv->table);
}

static void move_locked(struct pf_node *node, struct pf_node *to, char **name,
			struct pf_node **dead)
{
	struct pf_node *old = find_locked(to, *name);

	if (old == node)
		return;
	if (old)
		unlink_locked(old, dead);
	detach_locked(node);
	node->priv->hash = pf_hash(*name, strlen(*name));
	node->priv->name = pf_steal(name);
	(void)attach_locked(to, node); /* cannot fail: there are buckets */
}

int pf_dir_move(struct pf_node *node, struct pf_node *to, const char *name)
{
	pf_autofree char *copy = strdup(name);
	struct pf_node *dead = NULL;
	int r;

	if (!copy)
		return -ENOMEM;
	pf_lock(&node->tree->lock);
	r = may_move_locked(node, to, copy);
	if (r == 0)
		move_locked(node, to, &copy, &dead);
	pf_unlock(&node->tree->lock);
	pf_node_free_dead(node->tree, dead);
	return r;
}

int pf_dir_move_both(struct pf_node *a, struct pf_node *to_a, const char *name_a,
		     struct pf_node *b, struct pf_node *to_b, const char *name_b)
{
	pf_autofree char *copy_a = strdup(name_a), *copy_b = strdup(name_b);
	struct pf_node *dead = NULL;
	int r;

	if (!copy_a || !copy_b)
		return -ENOMEM;
	pf_lock(&a->tree->lock);
	r = may_move_locked(a, to_a, copy_a);
	if (r == 0)
		r = may_move_locked(b, to_b, copy_b);
	if (r == 0) {
		move_locked(a, to_a, &copy_a, &dead);
		move_locked(b, to_b, &copy_b, &dead);
	}
	pf_unlock(&a->tree->lock);
	pf_node_free_dead(a->tree, dead);
	return r;
}

int pf_dir_exchange(struct pf_node *a, struct pf_node *b)
{
	struct pf_node *in_a, *in_b;
	char *name_a, *name_b;
	uint64_t hash;

	PF_LOCK_SCOPE(&a->tree->lock);
	if (a == b)
		return 0;
	in_a = a->priv->parent;
	in_b = b->priv->parent;
	if (!in_a || !in_b)
		return -ENOENT;
	if (is_below_locked(in_b, a) || is_below_locked(in_a, b))
		return -EINVAL;
	if (in_a != in_b && (room_locked(in_b, a) < 0 || room_locked(in_a, b) < 0))
		return -ENAMETOOLONG;
	name_a = pf_steal(&a->priv->name);
	name_b = pf_steal(&b->priv->name);
	detach_locked(a);
	detach_locked(b);
	hash = a->priv->hash;
	a->priv->hash = b->priv->hash;
	b->priv->hash = hash;
	a->priv->name = name_b;
	b->priv->name = name_a;
	(void)attach_locked(in_b, a); /* cannot fail: there are buckets */
	(void)attach_locked(in_a, b);
	return 0;
}

struct pf_node *pf_dir_lookup(struct pf_node *dir, const char *name)
{
	struct pf_node *node;

	PF_LOCK_SCOPE(&dir->tree->lock);
	node = find_locked(dir, name);
	return node && pf_node_ref_locked(node) ? node : NULL;
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
		if (node && !S_ISDIR(node->kind->mode) && pf_node_ref_locked(node))
			return node;
	}
	return NULL;
}

size_t pf_dir_count(struct pf_node *dir)
{
	PF_LOCK_SCOPE(&dir->tree->lock);
	return dir->priv->table.n;
}

struct pf_node **pf_dir_list(struct pf_node *dir)
{
	struct pf_node **list;
	size_t n = 0;

	PF_LOCK_SCOPE(&dir->tree->lock);
	list = calloc(dir->priv->table.n + 1, sizeof(struct pf_node *));
	if (!list)
		return NULL;
	for (struct pf_node *c = dir->priv->table.first; c; c = c->priv->next)
		if (pf_node_ref_locked(c))
			list[n++] = c;
	return list;
}

struct pf_node *pf_node_parent(struct pf_node *node)
{
	struct pf_node *parent;

	PF_LOCK_SCOPE(&node->tree->lock);
	parent = node->priv->parent;
	return parent && pf_node_ref_locked(parent) ? parent : NULL;
}

void pf_node_name(struct pf_node *node, char dst[PF_NAME_MAX + 1])
{
	const char *name;

	PF_LOCK_SCOPE(&node->tree->lock);
	name = node->priv->name ? node->priv->name : "";
	memcpy(dst, name, strlen(name) + 1);
}

void pf_node_path(struct pf_node *node, struct pf_node *ancestor, struct pf_buf *out)
{
	pf_autofree char *path = NULL;
	struct pf_node *n;
	size_t len = 0;

	PF_LOCK_SCOPE(&node->tree->lock);
	for (n = node; n && n != ancestor && n->priv->name; n = n->priv->parent)
		len += strlen(n->priv->name) + 1;
	if (!len)
		return;
	path = malloc(len);
	if (!path) {
		out->failed = true;
		return;
	}
	for (size_t end = len; end; node = node->priv->parent) {
		size_t size = strlen(node->priv->name);

		end -= size + 1;
		memcpy(path + end, node->priv->name, size);
		path[end + size] = '/';
	}
	pf_buf_append(out, path, len - 1);
}

struct both {
	struct pf_node node;
	struct pf_node_priv priv;
};

struct timespec pf_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now;
}

bool pf_node_ref_locked(struct pf_node *node)
{
	unsigned *refs = &node->priv->holder->priv->refs;
	unsigned n = __atomic_load_n(refs, __ATOMIC_RELAXED);

	while (n)
		if (__atomic_compare_exchange_n(refs, &n, n + 1, true, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED))
			return true;
	return false;
}

void pf_node_drop_locked(struct pf_node *node, struct pf_node **dead)
{
	struct pf_node *holder = node->priv->holder;

	if (__atomic_sub_fetch(&holder->priv->refs, 1, __ATOMIC_ACQ_REL))
		return;
	holder->priv->dead = *dead;
	*dead = holder;
}

struct pf_node *pf_node_ref(struct pf_node *node)
{
	__atomic_add_fetch(&node->priv->holder->priv->refs, 1, __ATOMIC_RELAXED);
	return node;
}

void pf_node_unref(struct pf_node *node)
{
	struct pf_node *dead = NULL;

	if (!node)
		return;
	pf_node_drop_locked(node, &dead); /* the list is local: no lock is needed */
	if (dead)
		pf_node_free_dead(dead->tree, dead);
}

/* Take NODE, which has no references, and its children out of all tables. */
static void uproot_locked(struct pf_tree *tree, struct pf_node *node,
			  struct pf_node **dead)
{
	for (struct pf_node *n = node; n; n = n->priv->listed) {
		struct pf_table *table = &n->priv->table;

		pf_map_remove(&tree->nodes, n->ino);
		if (n->priv->parent)
			detach_locked(n);
		while (table->first) {
			struct pf_node *child = table->first;

			detach_locked(child);
			if (child->priv->holder == child)
				pf_node_drop_locked(child, dead);
		}
	}
}

static void free_nodes(struct pf_node *node, bool objects)
{
	while (node) {
		struct pf_node *next = node->priv->listed;

		if (objects && node->kind->free)
			node->kind->free(node);
		pf_last_replies_free(node->priv->last_replies);
		free(node->priv->table.buckets);
		free(node);
		node = next;
	}
}

static void tree_destroy(struct pf_tree *tree)
{
	pf_map_release(&tree->nodes);
	pthread_mutex_destroy(&tree->names);
	pthread_mutex_destroy(&tree->lock);
	pthread_mutex_destroy(&tree->notify);
	free(tree);
}

static void free_dead(struct pf_tree *tree, struct pf_node *dead, bool objects)
{
	while (dead) {
		struct pf_node *node = dead;
		bool last;

		dead = node->priv->dead;
		pf_lock(&tree->lock);
		uproot_locked(tree, node, &dead);
		last = tree->closed && tree->nodes.used == 0;
		pf_unlock(&tree->lock);
		free_nodes(node, objects);
		if (last)
			tree_destroy(tree);
	}
}

void pf_node_free_dead(struct pf_tree *tree, struct pf_node *dead)
{
	free_dead(tree, dead, true);
}

/* Make a node with a number; HOLDER (NULL: itself) counts its references. */
static struct pf_node *alloc(struct pf_tree *tree, const struct pf_kind *kind,
			     void *object, mode_t perm, const struct pf_attr *owner,
			     struct pf_node *holder)
{
	struct both *both = calloc(1, sizeof(*both));
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
	node->priv->attr.mode =
		perm == (mode_t)-1 ? kind->mode : (kind->mode & S_IFMT) | (perm & 07777);
	node->priv->attr.uid = owner->uid;
	node->priv->attr.gid = owner->gid;
	node->priv->attr.mtime = pf_now();
	node->priv->attr.atime = node->priv->attr.ctime = node->priv->attr.mtime;

	pf_lock(&tree->lock);
	node->ino = node->priv->alias = ++tree->last_ino;
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
		int r;

		if (!node)
			return -1;
		node->priv->listed = holder->priv->listed;
		holder->priv->listed = node;
		node->priv->name = strdup((*k)->name);
		if (!node->priv->name)
			return -1;
		node->priv->hash = pf_hash((*k)->name, strlen((*k)->name));
		pf_lock(&dir->tree->lock);
		r = attach_locked(dir, node);
		pf_unlock(&dir->tree->lock);
		if (r < 0) {
			free(pf_steal(&node->priv->name));
			return -1;
		}
		if (populate(node, holder) < 0)
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
		free_dead(tree, node, false);
		return NULL;
	}
	__atomic_store_n(&node->priv->refs, 1, __ATOMIC_RELEASE);
	return node;
}

struct pf_node *pf_node_new(struct pf_tree *tree, const struct pf_kind *kind,
			    void *object, mode_t perm, const struct pf_cred *cred)
{
	struct pf_attr owner;

	pf_node_attr(tree->root, &owner);
	if (cred) {
		owner.uid = cred->uid;
		owner.gid = cred->gid;
	}
	return make(tree, kind, object, perm, &owner);
}

struct pf_tree *pf_tree_new(const struct pf_kind *kind, void *object, uid_t uid,
			    gid_t gid)
{
	struct pf_tree *tree = calloc(1, sizeof(*tree));
	struct pf_attr owner = { .uid = uid, .gid = gid };

	if (!tree)
		return NULL;
	if (pthread_mutex_init(&tree->names, NULL) ||
	    pthread_mutex_init(&tree->lock, NULL) ||
	    pthread_mutex_init(&tree->notify, NULL))
		abort();
	tree->root = make(tree, kind, object, (mode_t)-1, &owner);
	if (!tree->root) {
		tree_destroy(tree);
		return NULL;
	}
	tree->root->priv->fixed = true;
	return tree;
}

/* Written with the lock, read by pf_node_changed without. */
static void set_lookups_locked(struct pf_node *node, uint64_t n)
{
	__atomic_store_n(&node->priv->lookups, n, __ATOMIC_SEQ_CST);
}

/* The kernel sends no FORGET for its lookups when the mount ends. */
void pf_tree_free(struct pf_tree *tree)
{
	struct pf_node *node, *dead = NULL;
	size_t pos = 0;

	if (!tree)
		return;
	pf_lock(&tree->lock);
	tree->closed = true;
	while ((node = pf_map_next(&tree->nodes, &pos))) {
		if (node->priv->lookups) {
			set_lookups_locked(node, 0);
			pf_node_drop_locked(node, &dead);
		}
	}
	pf_node_drop_locked(tree->root, &dead);
	pf_unlock(&tree->lock);
	pf_node_free_dead(tree, dead);
}

struct pf_node *pf_tree_root(struct pf_tree *tree)
{
	return tree->root;
}

uint64_t pf_tree_count(struct pf_tree *tree)
{
	PF_LOCK_SCOPE(&tree->lock);
	return tree->nodes.used;
}

void pf_tree_set_context(struct pf_tree *tree, void *context)
{
	tree->context = context;
}

void *pf_tree_context(struct pf_tree *tree)
{
	return tree->context;
}

void pf_tree_lock_names(struct pf_tree *tree)
{
	pf_lock(&tree->names);
}

void pf_tree_unlock_names(struct pf_tree *tree)
{
	pf_unlock(&tree->names);
}

struct pf_node *pf_tree_by_ino(struct pf_tree *tree, uint64_t ino)
{
	struct pf_node *node;

	ino &= ((uint64_t)1 << PF_INO_BITS) - 1;
	if (!ino)
		return NULL;
	PF_LOCK_SCOPE(&tree->lock);
	node = pf_map_get(&tree->nodes, ino);
	return node && pf_node_ref_locked(node) ? node : NULL;
}

void pf_node_looked_up(struct pf_node *node)
{
	PF_LOCK_SCOPE(&node->tree->lock);
	if (node->priv->lookups == 0)
		pf_node_ref(node);
	set_lookups_locked(node, node->priv->lookups + 1);
}

void pf_node_forget(struct pf_node *node, uint64_t n)
{
	struct pf_tree *tree = node->tree;
	struct pf_node *dead = NULL;

	pf_lock(&tree->lock);
	if (node->priv->lookups) {
		if (n > node->priv->lookups)
			n = node->priv->lookups;
		set_lookups_locked(node, node->priv->lookups - n);
		if (!node->priv->lookups)
			pf_node_drop_locked(node, &dead);
	}
	pf_unlock(&tree->lock);
	pf_node_free_dead(tree, dead);
}

void pf_tree_set_notify(struct pf_tree *tree,
			void (*fn)(void *arg, uint64_t ino, enum pf_change change),
			void *arg)
{
	PF_LOCK_SCOPE(&tree->notify);
	tree->on_change = fn;
	tree->on_change_arg = arg;
}

static void notify(struct pf_node *node, enum pf_change change)
{
	struct pf_tree *tree = node->tree;

	PF_LOCK_SCOPE(&tree->notify);
	if (tree->on_change)
		tree->on_change(tree->on_change_arg, node->ino, change);
}

/* The kernel looks up a node that it does not have before it uses it: no notice is
 * needed. */
void pf_node_changed(struct pf_node *node, bool data)
{
	if (__atomic_load_n(&node->priv->lookups, __ATOMIC_SEQ_CST))
		notify(node, data ? PF_CHANGED_DATA : PF_CHANGED_ATTR);
}

void pf_node_ready(struct pf_node *node)
{
	bool *polled = &node->priv->polled;

	/* A poll of before the change has set this: kind->poll takes the lock of the change. */
	if (__atomic_load_n(polled, __ATOMIC_SEQ_CST) &&
	    __atomic_exchange_n(polled, false, __ATOMIC_SEQ_CST))
		notify(node, PF_CHANGED_READY);
}

bool pf_node_keeps_attr(const struct pf_node *node)
{
	return S_ISDIR(node->kind->mode) && node->priv->holder->priv->fixed &&
	       !node->kind->getattr;
}

void pf_node_invalidate_locked(struct pf_node *node)
{
	if (!node->priv->cached)
		return;
	node->priv->cached = false;
	notify(node, PF_CHANGED_NAMES);
}

void pf_node_attr(struct pf_node *node, struct pf_attr *ret)
{
	PF_LOCK_SCOPE(&node->tree->lock);
	*ret = node->priv->attr;
}

void pf_node_set_attr(struct pf_node *node, const struct pf_attr *attr)
{
	PF_LOCK_SCOPE(&node->tree->lock);
	node->priv->attr = *attr;
	node->priv->attr.mode = (node->kind->mode & S_IFMT) | (attr->mode & 07777);
	pf_node_invalidate_locked(node);
}

void pf_attr_kill(struct pf_attr *attr)
{
	if (S_ISDIR(attr->mode))
		return;
	attr->mode &= ~(mode_t)S_ISUID;
	if (attr->mode & S_IXGRP)
		attr->mode &= ~(mode_t)S_ISGID;
}

void pf_node_modified(struct pf_node *node, bool kill)
{
	struct timespec now = pf_now();

	PF_LOCK_SCOPE(&node->tree->lock);
	node->priv->attr.mtime = now;
	node->priv->attr.ctime = now;
	if (kill)
		pf_attr_kill(&node->priv->attr);
	pf_node_invalidate_locked(node);
}

void pf_node_touch(struct pf_node *node)
{
	pf_node_modified(node, false);
}

bool pf_node_may(struct pf_node *node, const struct pf_cred *cred, int want)
{
	struct pf_attr attr;

	pf_node_attr(node, &attr);
	return pf_cred_may(cred, attr.uid, attr.gid, attr.mode, want);
}
