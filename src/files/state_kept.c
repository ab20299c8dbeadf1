/* SPDX-License-Identifier: Apache-2.0 */
/* The files and directories of the state directory by number and by place, the arrays that were not
 * used yet, and how a mount begins with them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "state_dir.h"

enum { SHOWN = 8 }; /* warnings about single files */

/* --- places ----------------------------------------------------------------------------- */

static uint64_t place(const struct kept *parent, const char *name)
{
	uint64_t hash = pf_hash(name, strlen(name)) ^ (uintptr_t)parent;

	return hash ? hash : 1;
}

struct kept *state_kept_at(const struct pf_state_dir *d, const struct kept *parent,
			   const char *name)
{
	struct kept *k = pf_map_get(&d->by_place, place(parent, name));

	while (k && (k->parent != parent || strcmp(k->name, name)))
		k = k->chain;
	return k;
}

char *state_leave(struct pf_state_dir *d, struct kept *k)
{
	uint64_t key = place(k->parent, k->name);
	struct kept *first = pf_map_remove(&d->by_place, key), **at = &first;

	while (*at != k)
		at = &(*at)->chain;
	*at = k->chain;
	if (first) /* its slot is free */
		(void)pf_map_put(&d->by_place, key, first);
	k->parent->children--;
	k->parent->touched = true;
	return pf_steal(&k->name);
}

void state_take(struct pf_state_dir *d, struct kept *k, struct kept *parent, char *name)
{
	uint64_t key = place(parent, name);

	k->chain = pf_map_get(&d->by_place, key);
	(void)pf_map_put(&d->by_place, key, k);
	k->parent = parent;
	k->name = name;
	parent->children++;
	parent->touched = true;
}

struct kept *state_kept_new(struct pf_state_dir *d, struct kept *parent, const char *name,
			    uint64_t ino, bool directory)
{
	pf_autofree struct kept *k = calloc(1, sizeof(*k));
	pf_autofree char *copy = strdup(name);

	if (!k || !copy || pf_map_reserve(&d->by_place, 1) < 0)
		return NULL;
	*k = (struct kept){ .ino = ino, .directory = directory, .scan = d->scan };
	if (pf_map_put(&d->by_ino, ino, k) < 0)
		return NULL;
	if (parent)
		state_take(d, k, parent, pf_steal(&copy));
	else
		k->name = pf_steal(&copy);
	return pf_steal(&k);
}

void state_kept_note(const struct kept *k, const struct stat *st)
{
	uint64_t file = st->st_ino;

	pf_state_put(PF_STATE_KEPT, k->ino, &file, sizeof(file), NULL, 0);
}

void state_forget(struct pf_state_dir *d, struct kept *k)
{
	pf_state_drop(PF_STATE_KEPT, k->ino);
	pf_map_remove(&d->by_ino, k->ino);
	free(state_leave(d, k));
	if (k->backing)
		pf_backing_unref(&k->backing->base);
	free(k);
}

void state_put_path(const struct kept *parent, const char *name, struct pf_buf *out)
{
	if (parent) {
		state_put_path(parent->parent, parent->name, out);
		pf_buf_puts(out, "/");
	}
	pf_buf_puts(out, name);
}

void state_path_of(const struct kept *k, struct pf_buf *out)
{
	state_put_path(k->parent, k->name, out);
}

int state_open(const struct pf_state_dir *d, const struct kept *k, int flags)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	int fd;

	state_path_of(k, &path);
	if (path.failed)
		return -ENOMEM;
	fd = openat(d->fd, path.data, O_RDONLY | O_CLOEXEC | flags);
	return fd < 0 ? -errno : fd;
}

/* --- arrays that were not used yet ---------------------------------------------------- */

/* The file of B, which the caller closes unless it is B's own. */
static int open_backing(struct backing *b, struct pf_err *err)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	int fd;

	PF_LOCK_SCOPE(&b->d->names);
	if (!b->kept)
		return b->fd >= 0 ? b->fd : pf_err_set(err, -EIO, "its file is gone");
	fd = state_open(b->d, b->kept, O_NOFOLLOW);
	if (fd >= 0)
		return fd;
	state_path_of(b->kept, &path);
	return pf_err_set(err, fd == -ENOMEM ? fd : -EIO, "open %s/%s: %s", b->d->path,
			  path.data ? path.data : "", strerror(-fd));
}

static int backing_read(struct pf_backing *base, void *dst, uint64_t len,
			struct pf_err *err)
{
	struct backing *b = pf_container_of(base, struct backing, base);
	int fd = open_backing(b, err), r = 0;
	ssize_t n;

	if (fd < 0)
		return fd;
	n = pf_read_at(fd, dst, len, b->skip);
	if (n < 0)
		r = pf_err_set(err, -EIO, "read its file in %s: %s", b->d->path,
			       strerror((int)-n));
	else if ((uint64_t)n < len)
		r = pf_err_set(err, -EIO, "its file in %s is shorter than it was",
			       b->d->path);
	if (fd != b->fd)
		close(fd);
	return r;
}

static void backing_free(struct pf_backing *base)
{
	struct backing *b = pf_container_of(base, struct backing, base);

	pf_closep(&b->fd);
	free(b);
}

/* --- reading the directory at the start ----------------------------------------------- */

static void not_read(struct pf_state_dir *d, const struct pf_buf *path,
		     const struct pf_err *err)
{
	(void)names_add(&d->unread, path->data, path->len);
	if (d->unread.n <= SHOWN)
		pf_log(PF_LOG_WARNING, "state directory %s: %s is not in the mount: %s",
		       d->path, path->data, err->text);
	else if (d->unread.n == SHOWN + 1)
		pf_log(PF_LOG_WARNING, "state directory %s: more files like that",
		       d->path);
}

/* The nodes whose files the journal names, by the numbers of these. */
int state_load_begin(struct pf_state_dir *d)
{
	size_t n;
	pf_autofree uint64_t *list = pf_state_list(PF_STATE_KEPT, &n);
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		const uint64_t *file =
			pf_state_load(PF_STATE_KEPT, list[i], sizeof(*file), NULL, NULL);

		if (file)
			r = pf_map_put(&d->known, *file, (void *)(uintptr_t)list[i]);
	}
	return r;
}

void state_load_end(struct pf_state_dir *d)
{
	size_t n;
	pf_autofree uint64_t *list = pf_state_list(PF_STATE_KEPT, &n);

	for (size_t i = 0; i < n; i++)
		if (!pf_map_get(&d->by_ino, list[i])) /* its file is not there any more */
			pf_state_drop(PF_STATE_KEPT, list[i]);
	pf_map_release(&d->known);
}

/* A file or directory that is read: NAME, ST, in PARENT. */
struct entry {
	struct kept *parent;
	const char *name;
	struct stat st;
	bool directory;
};

/* The node INO is kept as E. */
static struct kept *keep(struct pf_state_dir *d, const struct entry *e, uint64_t ino)
{
	struct kept *k = state_kept_new(d, e->parent, e->name, ino, e->directory);

	if (k)
		state_kept_note(k, &e->st);
	return k;
}

/* Make NAME in DIR of E, the file FD. */
static int load_file(struct pf_state_dir *d, const struct entry *e, struct pf_node *dir,
		     const char *name, int fd, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	struct backing *b = calloc(1, sizeof(*b));
	struct kept *k = NULL;
	uint64_t used, limit;
	int r;

	if (!b)
		return pf_err_set(err, -ENOMEM, "no memory");
	pf_arena_usage(d->fs->config.arena, &used, &limit);
	*b = (struct backing){
		.base = { .refs = 1, .read = backing_read, .free = backing_free },
		.d = d,
		.fd = -1,
	};
	r = state_file_load(dir, name, fd, &b->base, &b->skip, limit, &node, err);
	if (r == 0 && !(k = keep(d, e, node->ino)))
		r = pf_err_set(err, -ENOMEM, "no memory");
	if (r == 0) {
		k->version = state_file_version(node);
		k->backing = b;
		b->kept = k;
	} else {
		pf_backing_unref(&b->base);
	}
	return r;
}

static int load_directory(struct pf_state_dir *d, const struct entry *e,
			  struct pf_node *dir, int fd, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	struct pf_attr attr;
	struct kept *k;
	int r = state_file_load_dir(dir, e->name, fd, &node, err);

	if (r < 0)
		return r;
	k = keep(d, e, node->ino);
	if (!k)
		return pf_err_set(err, -ENOMEM, "no memory");
	pf_node_attr(node, &attr);
	state_load(d, k, node);
	pf_node_set_attr(node, &attr); /* with its times */
	k->version = state_file_version(node);
	return 0;
}

/* Make E, which no node has, the new node NAME in DIR. */
static void load_new(struct pf_state_dir *d, const struct entry *e, struct pf_node *dir,
		     const char *name)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	pf_autoclose int fd = -1;
	int r;

	state_put_path(e->parent, e->name, &path);
	if (path.failed)
		return;
	fd = openat(d->fd, path.data, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		r = pf_err_set(&err, -errno, "%s", strerror(errno));
	else if (e->directory)
		r = load_directory(d, e, dir, fd, &err);
	else
		r = load_file(d, e, dir, name, fd, &err);
	if (r < 0)
		not_read(d, &path, &err);
}

/* The bytes of NODE, an array that was not used yet, were lost with the daemon: it comes anew, where it
 * was, of E, its file. */
static void load_again(struct pf_state_dir *d, const struct entry *e,
		       struct pf_node *node)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = pf_node_parent(node);
	char name[PF_NAME_MAX + 1];

	pf_node_name(node, name);
	if (!dir || !*name)
		return;
	pf_tree_lock_names(dir->tree);
	(void)dir->kind->dir->unlink(dir, node, NULL);
	pf_tree_unlock_names(dir->tree);
	load_new(d, e, dir, name);
}

/* E is the file of NODE, which came back from memory and is newer: it is written anew. */
static void load_came_back(struct pf_state_dir *d, const struct entry *e,
			   struct pf_node *node)
{
	struct kept *k;

	if (state_file_is_lost(node)) {
		load_again(d, e, node);
		return;
	}
	k = keep(d, e, node->ino);
	if (k && k->directory)
		state_load(d, k, node);
	if (k)
		k->touched = k->directory;
}

/*
 * E was the file of the node INO when the daemon died.  That may have another place by now, or none: the
 * first comparison moves or removes E, as it would have done without the death.
 */
static void load_known(struct pf_state_dir *d, const struct entry *e, uint64_t ino)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *node = pf_tree_by_ino(d->fs->tree, ino);
	struct pf_node_changes changes = { .linked = false };
	struct kept *k;

	if (node)
		pf_node_changes(node, &changes);
	if (changes.linked) {
		load_came_back(d, e, node);
		return;
	}
	k = keep(d, e, ino);
	if (k && k->directory)
		state_load(d, k, NULL);
}

/* Does NODE, or another file or directory than E, have E's place from now on? */
static bool is_superseded(const struct pf_state_dir *d, const struct entry *e,
			  const struct pf_node *node)
{
	size_t len;

	return S_ISDIR(node->kind->mode) != e->directory ||
	       pf_map_get(&d->by_ino, node->ino) ||
	       pf_state_get(PF_STATE_KEPT, node->ino, &len);
}

/* Programs and buffers are regular files; others are not ours. */
static void load(struct pf_state_dir *d, struct kept *parent, struct pf_node *dir,
		 const char *name)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *node = dir ? pf_dir_lookup(dir, name) : NULL;
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	struct entry e = { .parent = parent, .name = name };
	uint64_t ino;

	state_put_path(parent, name, &path);
	if (path.failed || fstatat(d->fd, path.data, &e.st, AT_SYMLINK_NOFOLLOW) ||
	    (!S_ISREG(e.st.st_mode) && !S_ISDIR(e.st.st_mode)))
		return;
	e.directory = S_ISDIR(e.st.st_mode);
	ino = (uintptr_t)pf_map_get(&d->known, e.st.st_ino);
	if (ino && !pf_map_get(&d->by_ino, ino))
		load_known(d, &e, ino);
	else if (node && !is_superseded(d, &e, node))
		load_came_back(d, &e, node);
	else if (dir && !node)
		load_new(d, &e, dir, name);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void state_load(struct pf_state_dir *d, struct kept *parent, struct pf_node *dir)
{
	int fd = state_open(d, parent, O_DIRECTORY);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	struct names names = { 0 };
	struct dirent *entry;

	if (!stream)
		pf_closep(&fd);
	while (stream && (entry = readdir(stream)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			(void)names_add(&names, entry->d_name, strlen(entry->d_name));
	if (stream)
		closedir(stream);
	if (names.n)
		qsort(names.at, names.n, sizeof(*names.at), by_name);
	for (size_t i = 0; i < names.n; i++)
		load(d, parent, dir, names.at[i]);
	names_release(&names);
	parent->touched = false;
}
