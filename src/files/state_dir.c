/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state directory: programs/ and buffers/ as files on disk, written behind.
 *
 * No operation of a user writes to it, waits for it or marks anything for it: the tree counts
 * changes, and if the count has changed, a thread compares the tree with what it has kept, about
 * once a second.  So a name that is overwritten a thousand times a second is written once.
 *
 * A file appears by rename after fsync, so it is whole at any time.  A comparison first makes
 * directories and moves what was renamed, then writes what is new, and last removes what has no
 * name any more: a name that is overwritten has its old bytes until the new ones are there.
 *
 * At the start the tree is made of the directory.  Arrays are not read: their values have a backing,
 * which reads the file when they are used.  If the file is removed or overwritten before, the thread
 * opens it for the backing.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "files/buffers/buffers.h"
#include "files/programs/programs.h"
#include "pjrtfs/vfs.h"
#include "state_dir.h"

enum {
	EACH_MS = 1000,  /* from one comparison to the next, */
	AGAIN_MS = 5000, /* after a failure of the disk, */
	SHARE = 20,      /* or this many times the CPU time of the last walk, */
	MOST_MS = 60000, /* but no more than this */
	LAST_MS = 1000,  /* at the end, for files that are not complete */
	PASS_MS = 1000,  /* of writing, or SHARE, then the tree is compared again */
	BEHIND_S = 10,   /* that files wait before health says so */
	NICE = 10,
};

static const char tmp_dir[] = ".tmp", new_file[] = ".tmp/new", lock_file[] = ".lock";
static const char place_attr[] =
	"user.pjrtfs.place"; /* of what is in .tmp: where it goes */

/* --- failures ------------------------------------------------------------------------ */

/* Doing DOING to NAME in PARENT failed with R. */
static int failed(struct pf_state_dir *d, const char *doing, const struct kept *parent,
		  const char *name, int r)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;

	state_put_path(parent, name, &path);
	pf_buf_clean(&path, 0);
	if (!d->n_failed++)
		pf_err_set(&d->why, r, "%s %s: %s", doing, path.data ? path.data : "",
			   strerror(-r));
	return r;
}

/* The comparison has ended: say what is new. */
static void publish(struct pf_state_dir *d)
{
	bool was;

	pf_lock(&d->lock);
	was = d->n_failing;
	d->n_failing = d->n_failed;
	d->write_errors += d->n_failed;
	d->failing = d->why;
	d->n_waiting = d->n_behind;
	if (!d->n_behind)
		d->behind_since = 0;
	else if (!d->behind_since)
		d->behind_since = pf_now_ms();
	pf_unlock(&d->lock);
	if (d->n_failed && !was)
		pf_log(PF_LOG_WARNING,
		       "state directory %s: %s; what changes is not kept, and pjrtfs "
		       "tries again",
		       d->path, d->why.text);
	else if (!d->n_failed && was)
		pf_log(PF_LOG_WARNING, "state directory %s: all is kept again", d->path);
}

/* For how many seconds files have waited in each comparison, if that is long; else 0. */
static int64_t behind_s_locked(const struct pf_state_dir *d)
{
	int64_t s = d->behind_since ? (pf_now_ms() - d->behind_since) / 1000 : 0;

	return s >= BEHIND_S ? s : 0;
}

void pf_state_dir_health(struct pf_state_dir *d, struct pf_buf *out)
{
	int64_t behind_s;

	PF_LOCK_SCOPE(&d->lock);
	behind_s = behind_s_locked(d);
	if (d->n_failing)
		pf_buf_printf(out, "state-dir: %s; not kept: %u file%s\n",
			      d->failing.text, d->n_failing,
			      d->n_failing == 1 ? "" : "s");
	if (behind_s)
		pf_buf_printf(out,
			      "state-dir: behind for %" PRId64 " s; not kept yet: %u "
			      "files\n",
			      behind_s, d->n_waiting);
	if (d->unread.n) {
		size_t start = out->len;

		pf_buf_printf(out, "state-dir: not read: %zu file%s; the first: %s",
			      d->unread.n, d->unread.n == 1 ? "" : "s", d->unread.at[0]);
		pf_buf_clean(out, start);
		pf_buf_puts(out, "\n");
	}
}

void pf_state_dir_count(struct pf_state_dir *d, struct pf_state_dir_counts *ret)
{
	PF_LOCK_SCOPE(&d->lock);
	*ret = (struct pf_state_dir_counts){
		d->n_failing + (behind_s_locked(d) ? d->n_waiting : 0), d->unread.n,
		d->write_errors
	};
}

/* --- changes on disk: names is held -------------------------------------------------- */

/* Before the file of K is gone: keep it open for a value that has not read it.  -errno: it must stay. */
static int hold_backing(struct pf_state_dir *d, struct kept *k)
{
	struct backing *b = k->backing;

	if (!b)
		return 0;
	if (b->base.refs > 1) {
		int fd = state_open(d, k, O_NOFOLLOW);

		if (fd < 0 && fd != -ENOENT) /* a file that others removed cannot stay */
			return failed(d, "open", k->parent, k->name, fd);
		b->fd = fd;
	}
	k->backing = NULL;
	b->kept = NULL;
	pf_backing_unref(&b->base);
	return 0;
}

static int rename_to(struct pf_state_dir *d, struct kept *k, struct kept *parent,
		     const char *name)
{
	pf_autobuf struct pf_buf from = PF_BUF_INIT, to = PF_BUF_INIT;
	pf_autofree char *copy = strdup(name);
	int r = copy ? pf_map_reserve(&d->by_place, 1) : -ENOMEM;

	state_path_of(k, &from);
	state_put_path(parent, name, &to);
	if (from.failed || to.failed)
		r = -ENOMEM;
	if (r == 0 && renameat(d->fd, from.data, d->fd, to.data))
		r = -errno;
	if (r < 0)
		return failed(d, "rename", k->parent, k->name, r);
	free(state_leave(d, k));
	state_take(d, k, parent, pf_steal(&copy));
	return 0;
}

/* A and B change places on disk, at once.  -EINVAL: the file system cannot, or one is in the other. */
static int exchange(struct pf_state_dir *d, struct kept *a, struct kept *b)
{
	pf_autobuf struct pf_buf from = PF_BUF_INIT, to = PF_BUF_INIT;
	struct kept *a_parent = a->parent, *b_parent = b->parent;
	char *a_name, *b_name;
	int r = pf_map_reserve(&d->by_place, 2);

	state_path_of(a, &from);
	state_path_of(b, &to);
	if (from.failed || to.failed)
		r = -ENOMEM;
	if (r == 0 && renameat2(d->fd, from.data, d->fd, to.data, RENAME_EXCHANGE))
		r = -errno;
	if (r < 0)
		return r == -EINVAL ? r : failed(d, "rename", a->parent, a->name, r);
	a_name = state_leave(d, a);
	b_name = state_leave(d, b);
	state_take(d, a, b_parent, b_name);
	state_take(d, b, a_parent, a_name);
	return 0;
}

static bool is_linked(const struct pf_state_dir *d, uint64_t ino)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *node = pf_tree_by_ino(d->fs->tree, ino);
	struct pf_node_changes changes = { .linked = false };

	if (node)
		pf_node_changes(node, &changes);
	return changes.linked;
}

/* Move K, whose place another gets, to .tmp.  If it has a name it says where it goes, so that nothing is
 * lost if the daemon ends before K is there. */
static int set_aside(struct pf_state_dir *d, struct kept *k)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *node = pf_tree_by_ino(d->fs->tree, k->ino);
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	char name[32];

	if (node && is_linked(d, k->ino)) {
		pf_autoclose int fd = state_open(d, k, O_NOFOLLOW);

		pf_node_path(node, NULL, &path);
		if (fd < 0 || path.failed ||
		    fsetxattr(fd, place_attr, path.data, path.len, 0))
			return failed(d, "note the place of", k->parent, k->name,
				      fd < 0        ? fd
				      : path.failed ? -ENOMEM
						    : -errno);
	}
	snprintf(name, sizeof(name), "%" PRIu64, k->ino);
	return rename_to(d, k, &d->tmp, name);
}

/* A DIRECTORY or file of the tree is about to take the place of what is kept there; that moves aside if
 * it still has a name. */
static int clear_place(struct pf_state_dir *d, bool directory, struct kept *parent,
		       const char *name)
{
	struct kept *other = state_kept_at(d, parent, name);
	int r;

	if (!other)
		return 0;
	if (other->directory || directory || is_linked(d, other->ino))
		return set_aside(d, other);
	r = hold_backing(d, other);
	if (r == 0)
		state_forget(d, other);
	return r;
}

static int move(struct pf_state_dir *d, struct kept *k, struct kept *parent,
		const char *name)
{
	struct kept *other;
	int r = -EINVAL;

	PF_LOCK_SCOPE(&d->names);
	other = state_kept_at(d, parent, name);
	if (other && (other->directory || k->directory || is_linked(d, other->ino)))
		r = exchange(d, k, other);
	if (r != -EINVAL)
		return r;
	r = clear_place(d, k->directory, parent, name);
	return r < 0 ? r : rename_to(d, k, parent, name);
}

static struct kept *make_directory(struct pf_state_dir *d, struct kept *parent,
				   const char *name, struct pf_node *node)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	struct kept *k = NULL;
	struct stat st;
	int r;

	state_put_path(parent, name, &path);
	PF_LOCK_SCOPE(&d->names);
	r = path.failed ? -ENOMEM : clear_place(d, true, parent, name);
	if (r == 0 && mkdirat(d->fd, path.data, 0700) && errno != EEXIST)
		r = -errno;
	if (r == 0 && fstatat(d->fd, path.data, &st, AT_SYMLINK_NOFOLLOW))
		r = -errno;
	if (r == 0)
		k = state_kept_new(d, parent, name, node->ino, true);
	if (k)
		state_kept_note(k, &st);
	else
		failed(d, "make", parent, name, r < 0 ? r : -ENOMEM);
	return k;
}

static int save_attr(struct pf_state_dir *d, struct kept *k, struct pf_node *node)
{
	struct version version = state_file_version(node);
	pf_autoclose int fd = state_open(d, k, O_NOFOLLOW);
	int r = fd < 0 ? fd : state_file_save_attr(node, fd);

	if (r == 0 && fsync(fd))
		r = -errno;
	if (r < 0)
		return failed(d, "set attributes of", k->parent, k->name, r);
	version.bytes = k->version.bytes;
	k->version = version;
	return 0;
}

/* The new file FD becomes NAME in PARENT, which is the place of K, unless that is NULL. */
static int put_file(struct pf_state_dir *d, struct kept *k, struct kept *parent,
		    const char *name, struct pf_node *node, int fd)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	struct stat st;
	int r;

	state_put_path(parent, name, &path);
	PF_LOCK_SCOPE(&d->names);
	if (path.failed)
		r = -ENOMEM;
	else
		r = k ? hold_backing(d, k) : clear_place(d, false, parent, name);
	if (r == 0 && fstat(fd, &st))
		r = -errno;
	if (r == 0 && !k && !(k = state_kept_new(d, parent, name, node->ino, false)))
		r = -ENOMEM;
	if (r == 0 && renameat(d->fd, new_file, d->fd, path.data)) {
		r = -errno;
		k->version = (struct version){ 0 }; /* it is written again */
	}
	if (r == 0) {
		state_kept_note(k, &st);
		parent->touched = true;
	}
	return r;
}

/*
 * An enum state_saved, or -errno.  A file that is kept is written where it is kept, not at PARENT and NAME:
 * names may change while the tree is compared, so that another file has moved that one's since.
 */
static int save_file(struct pf_state_dir *d, struct kept *parent, const char *name,
		     struct pf_node *node)
{
	struct version version = state_file_version(node);
	struct kept *k = pf_map_get(&d->by_ino, node->ino);
	pf_autoclose int fd = -1;
	int r;

	if (k && k->parent == &d->tmp)
		return STATE_LATER; /* the next comparison gives it a place */
	parent = k ? k->parent : parent;
	name = k ? k->name : name;
	fd = openat(d->fd, new_file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
		    0600);
	r = fd < 0 ? -errno : state_file_save(node, fd);
	if (r == STATE_SAVED && fsync(fd))
		r = -errno;
	if (r == STATE_SAVED)
		r = put_file(d, k, parent, name, node, fd);
	if (r < 0)
		failed(d, "write", parent, name, r);
	k = pf_map_get(&d->by_ino, node->ino);
	if (k && (r == STATE_SAVED || r == STATE_NEVER))
		k->version = version;
	if (r != STATE_SAVED) /* give its blocks back */
		unlinkat(d->fd, new_file, 0);
	return r;
}

/* --- comparing ----------------------------------------------------------------------- */

static int by_owner(const void *a, const void *b)
{
	const struct todo *x = a, *y = b;

	if (x->owner != y->owner)
		return x->owner < y->owner ? -1 : 1;
	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

static int by_turn(const void *a, const void *b)
{
	const struct todo *x = a, *y = b;

	return x->turn < y->turn ? -1 : x->turn > y->turn ? 1 : by_owner(a, b);
}

void state_todos_order(struct todos *todos)
{
	struct todo *at = todos->at;

	if (!todos->n)
		return;
	qsort(at, todos->n, sizeof(*at), by_owner);
	for (size_t i = 0; i < todos->n; i++)
		at[i].turn = i && at[i - 1].owner == at[i].owner ? at[i - 1].turn + 1 : 0;
	qsort(at, todos->n, sizeof(*at), by_turn);
}

static void todos_release(struct todos *todos)
{
	for (size_t i = 0; i < todos->n; i++)
		free(todos->at[i].name);
	free(todos->at);
	*todos = (struct todos){ 0 };
}

static int todos_add(struct todos *todos, struct kept *parent, const char *name,
		     struct pf_node *node)
{
	size_t cap = todos->cap ? 2 * todos->cap : 64;
	struct pf_attr attr;
	char *copy;

	if (todos->n == todos->cap) {
		struct todo *at = reallocarray(todos->at, cap, sizeof(*at));

		if (!at)
			return -ENOMEM;
		todos->at = at;
		todos->cap = cap;
	}
	copy = strdup(name);
	if (!copy)
		return -ENOMEM;
	pf_node_attr(node, &attr);
	todos->at[todos->n++] = (struct todo){
		.parent = parent, .name = copy, .ino = node->ino, .owner = attr.uid
	};
	return 0;
}

static void compare_dir(struct pf_state_dir *d, struct kept *parent, struct pf_node *dir,
			struct todos *todos);

static void compare(struct pf_state_dir *d, struct kept *parent, struct pf_node *node,
		    struct todos *todos)
{
	bool directory = S_ISDIR(node->kind->mode);
	struct kept *k = pf_map_get(&d->by_ino, node->ino);
	char name[PF_NAME_MAX + 1];
	struct version now;

	pf_node_name(node, name);
	if (!*name || (!directory && !node->kind->write))
		return; /* just removed; or it tells why a name was refused */
	now = state_file_version(node);
	if (k)
		k->scan = d->scan;
	if (k && (k->parent != parent || strcmp(k->name, name)) &&
	    move(d, k, parent, name) < 0)
		return;
	if (directory && !k)
		k = make_directory(d, parent, name, node);
	if (directory && k) {
		k->touched = k->touched || k->version.any != now.any;
		k->version = now;
		compare_dir(d, k, node, todos);
	} else if (!directory && (!k || memcmp(&k->version, &now, sizeof(now))) &&
		   todos_add(todos, parent, name, node) < 0) {
		d->n_later++;
	}
}

/* PF_DEPTH_MAX limits the recursion. */
static void compare_dir(struct pf_state_dir *d, struct kept *parent, struct pf_node *dir,
			struct todos *todos)
{
	struct pf_node **list = pf_dir_list(dir);

	if (!list)
		d->n_later++;
	for (struct pf_node **n = list; n && *n; n++) {
		compare(d, parent, *n, todos);
		pf_node_unref(*n);
	}
	free(list);
}

static bool must_stop(struct pf_state_dir *d)
{
	PF_LOCK_SCOPE(&d->lock);
	return d->stopping;
}

/* From the begin of the last walk to that of the next, at least: milliseconds. */
static int64_t share_ms(const struct pf_state_dir *d)
{
	double ms = d->walk_s * 1000 * SHARE;

	return ms < MOST_MS ? (int64_t)ms : MOST_MS;
}

/* Write the files of TODOS until DEADLINE_MS (CLOCK_MONOTONIC; 0: for a pass, or until the mount ends). */
static void write_files(struct pf_state_dir *d, struct todos *todos, int64_t deadline_ms)
{
	int64_t pass = share_ms(d) > PASS_MS ? share_ms(d) : PASS_MS;
	int64_t end = deadline_ms ? deadline_ms : pf_now_ms() + pass;
	size_t i = 0;

	state_todos_order(todos);
	for (; i < todos->n && pf_now_ms() < end && (deadline_ms || !must_stop(d)); i++) {
		const struct todo *f = &todos->at[i];
		PF_CLEANUP(pf_node_unrefp)
		struct pf_node *node = pf_tree_by_ino(d->fs->tree, f->ino);
		struct kept *k = pf_map_get(&d->by_ino, f->ino);
		int r = STATE_NEVER;

		if (node && k && k->version.any &&
		    k->version.bytes == state_file_version(node).bytes)
			r = save_attr(d, k, node);
		else if (node)
			r = save_file(d, f->parent, f->name, node);
		d->n_later += r == STATE_LATER;
	}
	d->n_behind = (unsigned)(todos->n - i);
	d->n_later += d->n_behind;
}

/* Has another node the name of K, whose own is gone?  That was not written yet. */
static bool is_awaited(struct pf_state_dir *d, const struct kept *k)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *dir =
		k->parent == &d->tmp ? NULL : pf_tree_by_ino(d->fs->tree, k->parent->ino);
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *node = dir ? pf_dir_lookup(dir, k->name) : NULL;

	return node && node->kind->write;
}

/* Remove K, in which nothing is kept.  False: it stays. */
static bool remove_one(struct pf_state_dir *d, struct kept *k)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	int r = 0;

	if (is_linked(d, k->ino)) {
		d->n_later++;
		return false;
	}
	if (!k->directory && is_awaited(d, k))
		return false;
	state_path_of(k, &path);
	PF_LOCK_SCOPE(&d->names);
	if (hold_backing(d, k) < 0)
		return false;
	if (path.failed)
		r = -ENOMEM;
	else if (unlinkat(d->fd, path.data, k->directory ? AT_REMOVEDIR : 0))
		r = -errno;
	/* A directory that holds files of others stays. */
	if (r < 0 && r != -ENOENT && r != -ENOTEMPTY && r != -EEXIST) {
		failed(d, "remove", k->parent, k->name, r);
		return false;
	}
	state_forget(d, k);
	return true;
}

/* Remove what has no name any more: directories after all that is in them. */
static void remove_old(struct pf_state_dir *d)
{
	pf_autofree struct kept **old = calloc(d->by_ino.used + 1, sizeof(*old));
	struct kept *k;
	size_t pos = 0, n = 0;
	bool again = old;

	if (!old)
		d->n_later++;
	while (old && (k = pf_map_next(&d->by_ino, &pos)))
		if (k->scan != d->scan)
			old[n++] = k;
	while (again) {
		again = false;
		for (size_t i = 0; i < n; i++)
			if (old[i] && !old[i]->children) {
				again |= remove_one(d, old[i]);
				old[i] = NULL;
			}
	}
	for (size_t i = 0; i < n; i++)
		d->n_later += old[i] != NULL;
}

/* Have the disk keep the names in K, a directory, and its attributes. */
static void sync_dir(struct pf_state_dir *d, struct kept *k)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *node = pf_tree_by_ino(d->fs->tree, k->ino);
	pf_autoclose int fd = state_open(d, k, O_DIRECTORY);
	int r = fd < 0 ? fd : node ? state_file_save_attr(node, fd) : 0;

	if (r == 0 && fsync(fd))
		r = -errno;
	if (r < 0)
		failed(d, "sync", k->parent, k->name, r);
	k->touched = r < 0;
}

static void sync_dirs(struct pf_state_dir *d)
{
	struct kept *k;
	size_t pos = 0;

	while ((k = pf_map_next(&d->by_ino, &pos)))
		if (k->directory && k->touched)
			sync_dir(d, k);
}

/* Forget the files that were not read at the start and are gone meanwhile. */
static void check_unread(struct pf_state_dir *d)
{
	struct names left = { 0 }, old;
	struct stat st;

	/* Only this thread changes them. */
	for (size_t i = 0; i < d->unread.n; i++)
		if (fstatat(d->fd, d->unread.at[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			(void)names_add(&left, d->unread.at[i], strlen(d->unread.at[i]));
	pf_lock(&d->lock);
	old = d->unread;
	d->unread = left;
	pf_unlock(&d->lock);
	names_release(&old);
}

/* The directories that are kept: programs/, then buffers/ of each device. */
static unsigned n_roots(const struct pf_state_dir *d)
{
	return 1 + d->fs->n_devices;
}

static struct pf_node *root(const struct pf_state_dir *d, unsigned i)
{
	return i ? d->fs->devices[i - 1].buffers : d->fs->programs;
}

static void compare_all(struct pf_state_dir *d, int64_t deadline_ms)
{
	struct todos todos = { 0 };
	struct timespec start;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
	d->compared = pf_tree_changes(d->fs->tree);
	d->scan++;
	d->n_failed = d->n_later = 0;
	d->why = (struct pf_err)PF_ERR_INIT;
	for (unsigned i = 0; i < n_roots(d); i++) {
		struct kept *k = pf_map_get(&d->by_ino, root(d, i)->ino);

		k->scan = d->scan;
		compare_dir(d, k, root(d, i), &todos);
	}
	d->walk_s = pf_seconds_since(CLOCK_THREAD_CPUTIME_ID, &start);
	write_files(d, &todos, deadline_ms);
	todos_release(&todos);
	remove_old(d);
	sync_dirs(d);
	check_unread(d);
	publish(d);
}

static bool is_behind(const struct pf_state_dir *d)
{
	return d->n_later || d->n_failed || d->compared != pf_tree_changes(d->fs->tree);
}

/* Wait until NEXT, or, if pf_state_dir_settle asks, until SOONEST; *RET is how often it has asked.
 * Both are of CLOCK_MONOTONIC, in ms.  True: the mount ends. */
static bool pause_until(struct pf_state_dir *d, int64_t soonest, int64_t next,
			uint64_t *ret)
{
	struct timespec until;
	int64_t now, end;

	PF_LOCK_SCOPE(&d->lock);
	while (!d->stopping) {
		now = pf_now_ms();
		end = d->asked > d->passed ? soonest : next;
		if (now >= end)
			break;
		until = pf_time_in(CLOCK_MONOTONIC, (uint64_t)(end - now));
		pthread_cond_clockwait(&d->cond, &d->lock, CLOCK_MONOTONIC, &until);
	}
	*ret = d->asked;
	return d->stopping;
}

/* The comparison that PASSED requests asked for is over. */
static void pass(struct pf_state_dir *d, uint64_t passed)
{
	PF_LOCK_SCOPE(&d->lock);
	d->passed = passed;
	pthread_cond_broadcast(&d->cond);
}

int pf_state_dir_settle(struct pf_state_dir *d, struct pf_err *err)
{
	uint64_t asked;

	if (!d)
		return 0;
	PF_LOCK_SCOPE(&d->lock);
	asked = ++d->asked;
	pthread_cond_broadcast(&d->cond);
	while (d->passed < asked && !d->stopping)
		pthread_cond_wait(&d->cond, &d->lock);
	if (!d->n_failing)
		return 0;
	return pf_err_set(err, -EIO, "the state directory lacks %u file%s: %s",
			  d->n_failing, d->n_failing == 1 ? "" : "s", d->failing.text);
}

/* When the comparison after the one that BEGAN then is due. */
static int64_t next_after(const struct pf_state_dir *d, int64_t began)
{
	int64_t least = pf_now_ms() + (d->n_failed   ? AGAIN_MS
				       : d->n_behind ? 0
						     : EACH_MS);
	int64_t fair = began + share_ms(d);

	return fair > least ? fair : least;
}

static void *state_main(void *arg)
{
	struct pf_state_dir *d = arg;
	/* The next comparison; a settle has one earlier only if none was made for as long. */
	int64_t next = pf_now_ms() + EACH_MS, soonest = 0, began;
	uint64_t asked;

	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
	while (!pause_until(d, soonest, next, &asked)) {
		began = pf_now_ms();
		next = began + EACH_MS;
		if (is_behind(d)) {
			compare_all(d, 0);
			next = soonest = next_after(d, began);
		}
		if (!d->n_behind)
			pass(d, asked);
	}
	return NULL;
}

/* --- start and end -------------------------------------------------------------------- */

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	(void)remove(path);
	return 0;
}

static int lock_dir(struct pf_state_dir *d, struct pf_err *err)
{
	struct stat st;

	if (mkdir(d->path, 0700) && errno != EEXIST)
		return pf_err_set(err, -errno, "make it: %s", strerror(errno));
	d->fd = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->fd < 0 || fstat(d->fd, &st))
		return pf_err_set(err, -errno, "open it: %s", strerror(errno));
	if (st.st_uid != geteuid() || (st.st_mode & 077))
		return pf_err_set(
			err, -EPERM,
			"expected a directory of user %u that no other user may "
			"read (mode 0700), found one of user %u with mode %04o",
			(unsigned)geteuid(), (unsigned)st.st_uid,
			(unsigned)st.st_mode & 07777);
	d->lock_fd = openat(d->fd, lock_file, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
			    0600);
	if (d->lock_fd < 0)
		return pf_err_set(err, -errno, "make %s in it: %s", lock_file,
				  strerror(errno));
	if (flock(d->lock_fd, LOCK_EX | LOCK_NB))
		return pf_err_set(err, -errno,
				  errno == EWOULDBLOCK
					  ? "another pjrtfs uses it: give each mount "
					    "a directory of its own"
					  : "lock it: %s",
				  strerror(errno));
	return state_file_check(d->lock_fd, err);
}

/* Make PATH below D, with the directories that lead to it. */
static int make_path(struct pf_state_dir *d, const char *path, struct pf_err *err)
{
	pf_autofree char *part = strdup(path);
	bool made = false;

	if (!part)
		return pf_err_set(err, -ENOMEM, "no memory");
	for (char *end = part; end;) {
		end = strchr(end + 1, '/');
		if (end)
			*end = '\0';
		if (mkdirat(d->fd, part, 0700) == 0)
			made = true;
		else if (errno != EEXIST)
			return pf_err_set(err, -errno, "make %s in it: %s", part,
					  strerror(errno));
		if (end)
			*end = '/';
	}
	if (made && syncfs(d->fd))
		return pf_err_set(err, -errno, "write %s in it: %s", path,
				  strerror(errno));
	return 0;
}

/* Is PATH below the directory that it is relative to? */
static bool is_below(const char *path)
{
	for (const char *part = path; part; part = strchr(part, '/')) {
		part += *part == '/';
		if (!*part || *part == '/' || !strncmp(part, "../", 3) ||
		    !strcmp(part, ".."))
			return false;
	}
	return true;
}

/* The daemon ended before NAME in the directory TMP was where it goes: put it there, or beside. */
static void put_back(struct pf_state_dir *d, int tmp, const char *name)
{
	enum { MOST = 100 };
	char place[PATH_MAX], beside[PATH_MAX + 8];
	int r = -1, i = 0;
	pf_autoclose int fd =
		openat(tmp, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : fgetxattr(fd, place_attr, place, sizeof(place) - 1);
	char *last;

	if (n < 0)
		return;
	place[n] = '\0';
	last = strrchr(place, '/');
	if (!last || !is_below(place))
		return;
	*last = '\0';
	(void)make_path(d, place, NULL);
	*last = '/';
	strcpy(beside, place);
	while (i++ < MOST &&
	       (r = renameat2(tmp, name, d->fd, beside, RENAME_NOREPLACE)) &&
	       errno == EEXIST)
		snprintf(beside, sizeof(beside), "%s.%d", place, i);
	pf_log(PF_LOG_WARNING,
	       "state directory %s: the file that was being moved to %s %s%s", d->path,
	       place, r ? "is lost: " : "is now ", r ? strerror(errno) : beside);
}

/* Empty .tmp, whose files the last daemon left. */
static int clean_tmp(struct pf_state_dir *d, struct pf_err *err)
{
	int r = make_path(d, tmp_dir, err);
	int fd = r < 0 ? -1
		       : openat(d->fd, tmp_dir,
				O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	char path[64];

	if (r < 0)
		return r;
	if (!stream) {
		r = pf_err_set(err, -errno, "open %s in it: %s", tmp_dir,
			       strerror(errno));
		pf_closep(&fd);
		return r;
	}
	while ((entry = readdir(stream)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			put_back(d, fd, entry->d_name);
	snprintf(path, sizeof(path), "/proc/self/fd/%d/.", fd);
	(void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	closedir(stream);
	return 0;
}

static int add_root(struct pf_state_dir *d, struct pf_node *dir, struct pf_err *err)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	struct kept *k;
	int r;

	pf_node_path(dir, NULL, &path);
	if (path.failed)
		return pf_err_set(err, -ENOMEM, "no memory");
	r = make_path(d, path.data, err);
	if (r < 0)
		return r;
	k = state_kept_new(d, NULL, path.data, dir->ino, true);
	if (!k)
		return pf_err_set(err, -ENOMEM, "no memory");
	state_load(d, k, dir);
	return 0;
}

static int begin(struct pf_state_dir *d, struct pf_err *err)
{
	int r = lock_dir(d, err);

	if (r == 0)
		r = clean_tmp(d, err);
	if (r == 0 && state_load_begin(d) < 0)
		r = pf_err_set(err, -ENOMEM, "no memory");
	for (unsigned i = 0; r == 0 && i < n_roots(d); i++)
		r = add_root(d, root(d, i), err);
	if (r == 0)
		state_load_end(d);
	d->n_later = 1; /* what came back from memory may be newer */
	if (r == 0 && pthread_create(&d->thread, NULL, state_main, d))
		r = pf_err_set(err, -EAGAIN, "no thread for it");
	d->running = r == 0;
	return r;
}

int pf_state_dir_open(struct pf_fs *fs, struct pf_state_dir **ret, struct pf_err *err)
{
	struct pf_state_dir *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return pf_err_set(err, -ENOMEM, "no memory");
	d->fs = fs;
	d->fd = d->lock_fd = -1;
	d->tmp.name = (char *)(uintptr_t)tmp_dir;
	pthread_mutex_init(&d->names, NULL);
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->cond, NULL);
	*ret = d;
	d->path = strdup(fs->config.state_dir);
	r = d->path ? begin(d, err) : -ENOMEM;
	return r < 0 ? pf_err_wrap(err, r, "state directory %s", fs->config.state_dir)
		     : 0;
}

void pf_state_dir_finish(struct pf_state_dir *d, uint64_t ms)
{
	int64_t deadline = pf_now_ms() + (int64_t)ms, patience;
	unsigned n;

	if (!d || !d->running)
		return;
	pf_lock(&d->lock);
	d->stopping = true;
	pthread_cond_broadcast(&d->cond);
	pf_unlock(&d->lock);
	pthread_join(d->thread, NULL);
	d->running = false;
	/* A last commit may still be under way; a writer that was killed never ends its file. */
	patience = pf_now_ms() + LAST_MS;
	if (is_behind(d))
		compare_all(d, deadline);
	while (d->n_later && pf_now_ms() < patience && pf_now_ms() < deadline) {
		usleep(20000);
		compare_all(d, deadline);
	}
	n = d->n_later + d->n_failed;
	if (n)
		pf_log(PF_LOG_WARNING,
		       "state directory %s: not kept at the end: %u file%s%s%s", d->path,
		       n, n == 1 ? "" : "s", d->n_failed ? "; the first: " : "",
		       d->n_failed ? d->why.text : "");
}

void pf_state_dir_free(struct pf_state_dir *d)
{
	struct kept *k;
	size_t pos = 0;

	if (!d)
		return;
	while ((k = pf_map_next(&d->by_ino, &pos))) {
		if (k->backing)
			pf_backing_unref(&k->backing->base);
		free(k->name);
		free(k);
	}
	pf_map_release(&d->by_ino);
	pf_map_release(&d->by_place);
	pf_map_release(&d->known);
	names_release(&d->unread);
	pf_closep(&d->fd);
	pf_closep(&d->lock_fd);
	pthread_mutex_destroy(&d->names);
	pthread_mutex_destroy(&d->lock);
	pthread_cond_destroy(&d->cond);
	free(d->path);
	free(d);
}
