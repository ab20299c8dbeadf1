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

void state_leave(struct pf_state_dir *d, struct kept *k)
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
	free(pf_steal(&k->name));
}

int state_take(struct pf_state_dir *d, struct kept *k, struct kept *parent, char *name)
{
	uint64_t key = place(parent, name);

	k->chain = pf_map_get(&d->by_place, key);
	if (pf_map_put(&d->by_place, key, k) < 0)
		return -ENOMEM;
	k->parent = parent;
	k->name = name;
	parent->children++;
	parent->touched = true;
	return 0;
}

struct kept *state_kept_new(struct pf_state_dir *d, struct kept *parent, const char *name,
			    struct pf_node *node, bool directory)
{
	struct kept *k = calloc(1, sizeof(*k));
	char *copy = k ? strdup(name) : NULL;
	bool placed = false;

	if (copy) {
		k->ino = node->ino;
		k->directory = directory;
		k->scan = d->scan;
		if (parent)
			placed = state_take(d, k, parent, copy) == 0;
		else
			k->name = copy;
		if ((!parent || placed) && pf_map_put(&d->by_ino, k->ino, k) == 0)
			return k;
		if (placed)
			state_leave(d, k);
		else
			free(copy);
	}
	free(k);
	return NULL;
}

void state_forget(struct pf_state_dir *d, struct kept *k)
{
	pf_map_remove(&d->by_ino, k->ino);
	state_leave(d, k);
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

static int load_file(struct pf_state_dir *d, struct kept *parent, struct pf_node *dir,
		     const char *name, int fd, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	struct backing *b = calloc(1, sizeof(*b));
	struct kept *k = NULL;
	int r;

	if (!b)
		return pf_err_set(err, -ENOMEM, "no memory");
	*b = (struct backing){
		.base = { .refs = 1, .read = backing_read, .free = backing_free },
		.d = d,
		.fd = -1,
	};
	r = state_file_load(dir, name, fd, &b->base, &b->skip, &node, err);
	if (r == 0 && !(k = state_kept_new(d, parent, name, node, false)))
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

/*
 * After the daemon's death the tree has come back from memory: it is newer than the files, which are
 * written anew.  But an array that had not been read is lost there, and comes from its file.  True:
 * NAME is there.
 */
static bool came_back(struct pf_state_dir *d, struct kept *parent, struct pf_node *dir,
		      const char *name)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = pf_dir_lookup(dir, name);
	struct kept *k;

	if (!node)
		return false;
	if (state_file_is_lost(node)) {
		pf_tree_lock_names(dir->tree);
		(void)dir->kind->dir->unlink(dir, node, NULL);
		pf_tree_unlock_names(dir->tree);
		return false;
	}
	k = state_kept_new(d, parent, name, node, S_ISDIR(node->kind->mode));
	if (k && k->directory) {
		k->touched = true;
		state_load_dir(d, k, node);
		k->touched = true;
	}
	return true;
}

/* Programs and buffers are regular files; others are not ours. */
static void load(struct pf_state_dir *d, struct kept *parent, struct pf_node *dir,
		 const char *name)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	pf_autoclose int fd = -1;
	struct kept *k = NULL;
	struct pf_attr attr;
	struct stat st;
	int r = 0;

	state_put_path(parent, name, &path);
	if (path.failed || fstatat(d->fd, path.data, &st, AT_SYMLINK_NOFOLLOW) ||
	    (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
		return;
	if (came_back(d, parent, dir, name))
		return;
	fd = openat(d->fd, path.data, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		r = pf_err_set(&err, -errno, "%s", strerror(errno));
	else if (S_ISREG(st.st_mode))
		r = load_file(d, parent, dir, name, fd, &err);
	else
		r = state_file_load_dir(dir, name, fd, &node, &err);
	if (node && !(k = state_kept_new(d, parent, name, node, true)))
		r = pf_err_set(&err, -ENOMEM, "no memory");
	if (r < 0)
		not_read(d, &path, &err);
	if (!k)
		return;
	pf_node_attr(node, &attr);
	state_load_dir(d, k, node);
	pf_node_set_attr(node, &attr); /* with its times */
	k->version = state_file_version(node);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void state_load_dir(struct pf_state_dir *d, struct kept *parent, struct pf_node *dir)
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
