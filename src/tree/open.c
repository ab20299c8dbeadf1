/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open files.
 *
 * References on an open file are held by the front end until pf_vfs_release, by requests that
 * wait for a kind's answer (after an interrupted FLUSH the file is released while its commit
 * still runs), and by commands.  Functions here hold one of their own while they use the file
 * after an answer may have been sent, because the front end may release it by then.
 */
#include <errno.h>
#include <linux/falloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/state.h"

enum { ALWAYS_HELD = 4096 }; /* bytes of a text that no limit counts */

struct pf_open *pf_open_ref(struct pf_open *of)
{
	__atomic_add_fetch(&of->refs, 1, __ATOMIC_RELAXED);
	return of;
}

void pf_open_unref(struct pf_open *of)
{
	if (!of || __atomic_sub_fetch(&of->refs, 1, __ATOMIC_ACQ_REL))
		return;
	if (of->node->kind->release)
		of->node->kind->release(of);
	pf_buf_release(&of->text);
	pf_open_hold(of, 0);
	pthread_mutex_destroy(&of->lock);
	pf_node_unref(of->node);
	free(of);
}

/* Keep a reference on OF until the last one to REPLY is dropped. */
static void hold(struct pf_reply *reply, struct pf_open *of)
{
	reply->held = pf_open_ref(of);
	reply->drop = pf_open_unref;
}

/*
 * A number that has opens, or that another thread has looked up to open it, is not given again.
 * A thread that looks the name up again gets the same number: a kernel that compares the numbers
 * would else look it up once more.
 */
uint64_t pf_vfs_alias(struct pf_tree *tree, uint64_t ino, pid_t asker)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = pf_tree_by_ino(tree, ino);

	if (node && node->kind->size_bound)
		pf_node_note_asker(node, asker);
	if (!node || !pf_kind_is_stream(node->kind))
		return ino;
	PF_LOCK_SCOPE(&tree->lock);
	if (node->priv->alias_opens ||
	    (node->priv->alias_asker && node->priv->alias_asker != asker)) {
		node->priv->alias += (uint64_t)1 << PF_INO_BITS;
		node->priv->alias_opens = 0;
	}
	node->priv->alias_asker = asker ? asker : -1;
	return node->priv->alias;
}

/* Count an open of a stream's number; list opens of other files. */
static void enter(struct pf_open *of)
{
	struct pf_node_priv *priv = of->node->priv;

	PF_LOCK_SCOPE(&of->node->tree->lock);
	if (pf_kind_is_stream(of->node->kind)) {
		if (priv->alias == of->alias) {
			priv->alias_opens++;
			priv->alias_asker = 0;
		}
		return;
	}
	LIST_INSERT_HEAD(&priv->opens, of, sibling);
}

static void leave(struct pf_open *of)
{
	struct pf_node_priv *priv = of->node->priv;

	PF_LOCK_SCOPE(&of->node->tree->lock);
	if (pf_kind_is_stream(of->node->kind)) {
		priv->alias_opens -= priv->alias == of->alias;
		return;
	}
	LIST_REMOVE(of, sibling);
	if (!priv->parent)
		pf_node_write_locked(of->node);
}

/*
 * All mappings of a file share its pages, but each open may show the bytes of when it was opened.
 * So pages are read by an open that also writes, and sees the current bytes, if there is one, or
 * else by the newest: no open sees bytes that are older than itself.
 */
static struct pf_open *for_pages(struct pf_open *of)
{
	struct pf_open *newest = NULL, *o;

	PF_LOCK_SCOPE(&of->node->tree->lock);
	for (o = LIST_FIRST(&of->node->priv->opens); o; o = LIST_NEXT(o, sibling)) {
		if (pf_open_reads(o) && pf_open_writes(o))
			return pf_open_ref(o);
		if (pf_open_reads(o) && !newest)
			newest = o;
	}
	return pf_open_ref(newest ? newest : of);
}

/* Has another user OF's file open? */
static bool others_have_open(const struct pf_open *of)
{
	const struct pf_open *o;

	PF_LOCK_SCOPE(&of->node->tree->lock);
	LIST_FOREACH(o, &of->node->priv->opens, sibling)
		if (o->cred.uid != of->cred.uid)
			return true;
	return false;
}

static int may_open(const struct pf_kind *kind, int flags, struct pf_err *err)
{
	bool reads = (flags & O_ACCMODE) != O_WRONLY;
	bool writes = (flags & O_ACCMODE) != O_RDONLY;

	if (S_ISDIR(kind->mode))
		return -EISDIR;
	if (S_ISLNK(kind->mode))
		return -ELOOP;
	if (reads && !pf_kind_is_text(kind) && !kind->read)
		return pf_err_set(err, -EACCES, "it can only be written");
	if (writes && !kind->write && !kind->send)
		return pf_err_set(err, -EACCES, "it can only be read");
	return 0;
}

static bool wants_snapshot(const struct pf_open *of)
{
	return pf_kind_is_text(of->node->kind) && pf_open_reads(of);
}

/* Must the opener wait for a thread that prints the text, or for the kind? */
static bool must_wait(const struct pf_open *of)
{
	const struct pf_kind *kind = of->node->kind;

	return kind->prepare || (kind->blocks && wants_snapshot(of));
}

/* Append the text of OF's file, as the opener sees it now. */
static int print_text(const struct pf_open *of, struct pf_buf *out, struct pf_err *err)
{
	const struct pf_kind *kind = of->node->kind;
	int r = kind->show_as ? kind->show_as(of->node, &of->cred, out, err)
			      : kind->show(of->node, out, err);

	if (r == 0 && out->failed)
		r = pf_err_set(err, -ENOMEM, "no memory for the text");
	return r;
}

static int take_snapshot(struct pf_open *of, struct pf_err *err)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	int r;

	if (!wants_snapshot(of) || of->shown)
		return 0;
	r = of->node->kind->blocks ? pf_open_may_hold(of, err) : 0;
	if (r == 0)
		r = print_text(of, &text, err);
	/* A user that may hold no more can still read why. */
	if (r == 0 && text.cap > ALWAYS_HELD)
		r = pf_open_may_hold(of, err);
	if (r < 0)
		return r;
	PF_LOCK_SCOPE(&of->lock);
	if (of->shown) /* by another read */
		return 0;
	of->text = text;
	text = (struct pf_buf)PF_BUF_INIT;
	pf_open_hold(of, of->text.cap);
	of->shown = true;
	return 0;
}

static void read_text(struct pf_open *of, size_t len, uint64_t off,
		      struct pf_reply *reply);

/* A text that blocks, for an open, or for a read of LEN bytes at OFF. */
struct slow_text {
	struct pf_reply *reply; /* owned; holds the open file */
	size_t len;
	uint64_t off;
};

static void *show_on_thread(void *arg)
{
	struct slow_text *slow = arg;
	struct pf_reply *reply = slow->reply;
	PF_CLEANUP(pf_open_unrefp) struct pf_open *of = pf_open_ref(reply->held);
	struct pf_err err = PF_ERR_INIT;
	int r = take_snapshot(of, &err);

	if (r < 0)
		pf_reply_fail(reply, r, &err);
	else if (reply->opened)
		pf_reply_code(reply, 0);
	else
		read_text(of, slow->len, slow->off, reply);
	free(slow);
	return NULL;
}

/* Answer REPLY, which holds the open file, when there is the text. */
static void show_slowly(struct pf_reply *reply, size_t len, uint64_t off)
{
	struct slow_text *slow = malloc(sizeof(*slow));

	if (slow)
		*slow = (struct slow_text){ reply, len, off };
	if (!slow || pf_thread_start(NULL, show_on_thread, slow)) {
		free(slow);
		pf_reply_code(reply, -ENOMEM);
	}
}

/* Open NODE, but for its text. */
static int begin(struct pf_node *node, uint64_t ino, int flags,
		 const struct pf_cred *cred, bool reopened, struct pf_open **ret,
		 struct pf_err *err)
{
	const struct pf_kind *kind = node->kind;
	struct pf_open *of;
	int r = may_open(kind, flags, err);

	if (r < 0)
		return r;
	of = malloc(sizeof(*of));
	if (!of)
		return -ENOMEM;
	*of = (struct pf_open){ .node = pf_node_ref(node),
				.flags = flags,
				.cred = *cred,
				.refs = 1,
				.reopened = reopened,
				.lock = PTHREAD_MUTEX_INITIALIZER,
				.alias = ino };
	of->goes_by_size = kind->size_bound && pf_node_goes_by_size(node, cred->pid);
	if (kind->open)
		r = kind->open(of, err);
	if (r < 0) {
		/* The kind has not opened it: its release is not called. */
		pthread_mutex_destroy(&of->lock);
		pf_node_unref(of->node);
		free(of);
		return r;
	}
	if ((flags & O_TRUNC) && kind->truncate) {
		r = kind->truncate(node, of, 0, cred, err);
		if (r < 0) {
			pf_open_unref(of);
			return r;
		}
		pf_node_modified(node, cred->uid != 0);
	}
	*ret = of;
	return 0;
}

/* REPLY, to an open that may succeed, is about to be sent: show the text. */
static int finish(struct pf_reply *reply, struct pf_err *err)
{
	struct pf_open *of = reply->held;
	int r = take_snapshot(of, err);

	if (r < 0)
		return r;
	enter(of);
	*reply->opened = pf_open_ref(of);
	return 0;
}

/* The reply holds the open file: if the opener is interrupted, the kind may still prepare it. */
void pf_vfs_open(struct pf_tree *tree, uint64_t ino, int flags,
		 const struct pf_cred *cred, struct pf_open **ret, struct pf_reply *reply)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = pf_tree_by_ino(tree, ino);
	PF_CLEANUP(pf_open_unrefp) struct pf_open *of = NULL;
	struct pf_err err = PF_ERR_INIT;
	int r;

	*ret = NULL;
	r = node ? begin(node, ino, flags, cred, false, &of, &err) : -ESTALE;
	if (r < 0) {
		if (node)
			pf_refused(node, NULL, cred, "open", r, &err);
		pf_reply_code(reply, r);
		return;
	}
	hold(reply, of);
	reply->doing = "open";
	reply->opened = ret;
	reply->finish = finish;
	if (node->kind->prepare)
		node->kind->prepare(of, reply);
	else if (must_wait(of))
		show_slowly(reply, 0, 0);
	else
		pf_reply_code(reply, 0);
}

/* *CREATED: NAME was not there.  The name lock is held. */
static int find_or_create(struct pf_node *dir, const char *name, mode_t mode, int flags,
			  const struct pf_cred *cred, struct pf_node **ret, bool *created,
			  struct pf_err *err)
{
	const struct pf_dir_ops *ops = dir->kind->dir;
	int r = pf_dir_find(dir, name, true, ret);

	if (r == 0)
		return flags & O_EXCL ? -EEXIST : 0;
	if (r == -ENOENT)
		r = pf_name_check(name, err);
	if (r < 0)
		return r;
	if (!ops || !ops->create)
		return pf_dir_refuses(dir, err);
	r = ops->create(dir, name, mode & 07777, cred, ret, err);
	if (r == 0)
		pf_node_inherit(dir, *ret);
	*created = r == 0;
	return r;
}

static int create(struct pf_node *dir, const char *name, mode_t mode, int flags,
		  const struct pf_cred *cred, struct stat *st, struct pf_open **ret,
		  struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	PF_CLEANUP(pf_open_unrefp) struct pf_open *of = NULL;
	bool created = false;
	int r;

	pf_tree_lock_names(dir->tree);
	r = find_or_create(dir, name, mode, flags, cred, &node, &created, err);
	pf_tree_unlock_names(dir->tree);
	if (r == 0) /* a new file is empty already */
		r = begin(node, node->ino, created ? flags & ~O_TRUNC : flags, cred,
			  false, &of, err);
	if (r < 0)
		return r;
	/* CREATE cannot wait: on ESTALE the kernel retries with OPEN. */
	r = !created && must_wait(of) ? -ESTALE : take_snapshot(of, err);
	if (r < 0)
		return r;
	pf_node_looked_up(node);
	pf_node_stat(node, cred->pid, st);
	enter(of);
	*ret = pf_steal(&of);
	return 0;
}

int pf_vfs_create(struct pf_tree *tree, uint64_t parent, const char *name, mode_t mode,
		  int flags, const struct pf_cred *cred, struct stat *st,
		  struct pf_open **ret)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	struct pf_err err = PF_ERR_INIT;
	int r = pf_dir_by_ino(tree, parent, &dir);

	*ret = NULL;
	if (r < 0)
		return r;
	r = create(dir, name, mode, flags, cred, st, ret, &err);
	return pf_refused(dir, name, cred, "create", r, &err);
}

/*
 * Reading, writing, committing and closing open files.
 *
 * Bytes come from write(2), which belongs to one open, and from mappings, which belong to
 * the file: the kernel writes changed pages back through any open that has the file mapped,
 * at munmap, msync, close or any time between.  So write(2) makes an open dirty, and a mapping
 * the node; the next close(2) of any open, or the last release, commits the latter.
 */

/* After poll(2) a program reads from the start, as in sysfs: print the text again. */
static void show_again(struct pf_open *of)
{
	struct pf_buf text = PF_BUF_INIT, old = of->text;

	if (print_text(of, &text, NULL) == 0)
		of->text = text;
	else
		old = text;
	pf_buf_release(&old);
}

static void read_text(struct pf_open *of, size_t len, uint64_t off,
		      struct pf_reply *reply)
{
	size_t left;

	PF_LOCK_SCOPE(&of->lock);
	if (of->node->kind->poll && !off)
		show_again(of);
	left = off < of->text.len ? of->text.len - off : 0;
	pf_reply_data(reply, left ? of->text.data + off : NULL, len < left ? len : left);
}

/*
 * Did an earlier life of the daemon have a part of OF that is lost?  -EIO: at a control file once,
 * since its commands are lines, else until OF is closed: the kernel divides a long read or write
 * into requests, and the caller does not see an error of a later one.
 */
static int check_lost(struct pf_open *of, struct pf_err *err)
{
	/* Requests that an earlier life has read must not run twice. */
	if (!of->was_busy || (of->node->kind->command &&
			      !atomic_exchange(&of->lost, false) && !pf_state_is_again()))
		return 0;
	if (!pf_kind_is_stream(of->node->kind))
		return pf_err_set(
			err, -EIO,
			"the daemon was restarted, and what was copied so far is "
			"lost: copy it again");
	return pf_err_set(
		err, -EIO,
		"the daemon was restarted: replies that were not read are lost, and the "
		"last command may have run%s",
		of->node->kind->command ? "" : "; open the file again");
}

static bool is_lost(struct pf_open *of, struct pf_reply *reply)
{
	struct pf_err err = PF_ERR_INIT;
	int r = check_lost(of, &err);

	if (r < 0)
		pf_reply_fail(reply, r, &err);
	return r < 0;
}

short pf_vfs_poll(struct pf_open *of)
{
	const struct pf_kind *kind = of->node->kind;

	/* To read what is lost fails at once. */
	if (!kind->poll || (of->was_busy && (of->lost || !kind->command)))
		return POLLIN | POLLOUT;
	/* Before the check: a change after this wakes the caller, kind->poll sees one before. */
	of->node->priv->polled = true;
	PF_LOCK_SCOPE(&of->lock);
	return kind->poll(of);
}

/* The front end may release OF once the kind has answered, while this still uses it. */
void pf_vfs_read(struct pf_open *of, size_t len, uint64_t off, struct pf_reply *reply)
{
	PF_CLEANUP(pf_open_unrefp) struct pf_open *mine = pf_open_ref(of);
	const struct pf_kind *kind = of->node->kind;

	reply->doing = "read";
	hold(reply, of);
	if (!pf_open_reads(of)) {
		pf_reply_code(reply, -EBADF);
	} else if (is_lost(of, reply)) {
		return;
	} else if (of->shown) {
		read_text(of, len, off, reply);
	} else if (wants_snapshot(of)) {
		/* It blocks, and was opened in an earlier life. */
		show_slowly(reply, len, off);
	} else if (kind->send) {
		kind->read(of, len, off, reply);
	} else {
		pf_lock(&of->lock);
		kind->read(of, len, off, reply);
		pf_unlock(&of->lock);
	}
}

void pf_vfs_read_mapped(struct pf_open *of, size_t len, uint64_t off,
			struct pf_reply *reply)
{
	PF_CLEANUP(pf_open_unrefp) struct pf_open *from = NULL;
	const struct pf_kind *kind = of->node->kind;
	/* Between users, who share pages. */
	bool differs = kind->show_as || kind->getattr_as;

	/* The kernel would fill pages beyond the end with zeros; a stream has no positions. */
	if (pf_kind_is_stream(kind) || (differs && others_have_open(of)) ||
	    of->node->priv->bounded) {
		pf_reply_code(reply, -EIO);
		return;
	}
	from = differs ? pf_open_ref(of) : for_pages(of);
	pf_vfs_read(from, len, off, reply);
}

/* --- writing ------------------------------------------------------------------------ */

static void wrote_locked(struct pf_open *of)
{
	if (!of->dirty || of->failed)
		pf_open_write(of, true);
	of->dirty = true;
	of->failed = 0;
}

static ssize_t write_bytes(struct pf_open *of, const void *src, size_t len, uint64_t off,
			   bool mapped, struct pf_err *err)
{
	const struct pf_kind *kind = of->node->kind;
	ssize_t n;

	if (!kind->write)
		return -EBADF;
	n = pf_kind_holds(kind, len, off, err);
	if (n < 0)
		return n;
	pf_lock(&of->lock);
	n = kind->write(of, src, len, off, err);
	if (n > 0 && mapped)
		of->node->priv->mapped = true;
	else if (n > 0)
		wrote_locked(of);
	pf_unlock(&of->lock);
	/* The user who wrote through a mapping is not known. */
	if (n > 0)
		pf_node_modified(of->node, !mapped && of->cred.uid != 0);
	return n;
}

static void write_any(struct pf_open *of, const void *src, size_t len, uint64_t off,
		      bool mapped, struct pf_reply *reply)
{
	bool stream = pf_kind_is_stream(of->node->kind);
	bool again = stream && pf_state_is_again() && !pf_state_was_postponed(of->handle);
	struct pf_err err = PF_ERR_INIT;
	ssize_t n;

	reply->doing = "write";
	hold(reply, of);
	/* The parts of a long write that an earlier life had read come again in any order. */
	if (again)
		of->was_busy = true;
	if (!pf_open_writes(of)) {
		pf_reply_code(reply, -EBADF);
	} else if (is_lost(of, reply)) {
		return;
	} else if (!len) {
		pf_reply_count(reply, 0);
	} else if (of->node->kind->send) {
		PF_CLEANUP(pf_open_unrefp) struct pf_open *mine = pf_open_ref(of);

		mine->node->kind->send(mine, src, len, reply);
	} else {
		n = write_bytes(of, src, len, off, mapped, &err);
		if (n < 0)
			pf_reply_fail(reply, (int)n, &err);
		else
			pf_reply_count(reply, (size_t)n);
	}
}

void pf_vfs_write(struct pf_open *of, const void *src, size_t len, uint64_t off,
		  struct pf_reply *reply)
{
	write_any(of, src, len, off, false, reply);
}

void pf_vfs_write_mapped(struct pf_open *of, const void *src, size_t len, uint64_t off,
			 struct pf_reply *reply)
{
	/* A stream has no size, so it has no pages that could be written. */
	if (pf_kind_is_stream(of->node->kind))
		pf_reply_code(reply, -EIO);
	else
		write_any(of, src, len, off, true, reply);
}

void pf_vfs_settle(struct pf_tree *tree, unsigned ms)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	int64_t end = pf_now_ms() + ms;

	atomic_store(&tree->settles, true);
	do
		nanosleep(&pause, NULL);
	while (pf_state_any_busy() && pf_now_ms() < end);
}

/* Two opens are locked in the order of their addresses. */
static void lock_both(struct pf_open *a, struct pf_open *b)
{
	pf_lock(a < b ? &a->lock : &b->lock);
	if (a != b)
		pf_lock(a < b ? &b->lock : &a->lock);
}

static void unlock_both(struct pf_open *a, struct pf_open *b)
{
	pf_unlock(&a->lock);
	if (a != b)
		pf_unlock(&b->lock);
}

static ssize_t copy(struct pf_open *of, uint64_t off, struct pf_open *from,
		    uint64_t from_off, size_t len, struct pf_err *err)
{
	const struct pf_kind *kind = of->node->kind;
	ssize_t n;

	if (!pf_open_writes(of) || !pf_open_reads(from))
		return -EBADF;
	if (!kind->copy)
		return -EXDEV;
	n = check_lost(of, err);
	if (n < 0 || !len)
		return n;
	/* As for write(2), the part that fits is copied. */
	if (kind->max_write && off < kind->max_write && len > kind->max_write - off)
		len = (size_t)(kind->max_write - off);
	n = pf_kind_holds(kind, len, off, err);
	if (n < 0)
		return n;
	lock_both(of, from);
	n = kind->copy(of, off, from, from_off, len, err);
	if (n > 0)
		wrote_locked(of);
	unlock_both(of, from);
	if (n > 0)
		pf_node_modified(of->node, of->cred.uid != 0);
	return n;
}

ssize_t pf_vfs_copy(struct pf_open *of, uint64_t off, struct pf_open *from,
		    uint64_t from_off, size_t len)
{
	struct pf_err err = PF_ERR_INIT;
	ssize_t n = copy(of, off, from, from_off, len, &err);

	pf_refused(of->node, NULL, &of->cred, "copy to", (int)(n < 0 ? n : 0), &err);
	return n;
}

static off_t size_of(struct pf_node *node)
{
	struct stat st = { .st_size = -1 };

	if (node->kind->getattr)
		node->kind->getattr(node, &st);
	return st.st_size;
}

static int allocate(struct pf_open *of, int mode, uint64_t off, uint64_t len,
		    struct pf_err *err)
{
	const struct pf_kind *kind = of->node->kind;
	bool changed;
	off_t before;
	int r = 0;

	if (!pf_open_writes(of))
		return -EBADF;
	if (!kind->allocate)
		return -EOPNOTSUPP;
	if (!len || off > INT64_MAX || len > INT64_MAX)
		return -EINVAL;
	if (len > INT64_MAX - off)
		return -EFBIG;
	if (!(mode & FALLOC_FL_KEEP_SIZE))
		r = pf_kind_holds(kind, len, off, err);
	if (r < 0)
		return r;
	pf_lock(&of->lock);
	before = size_of(of->node);
	r = kind->allocate(of, mode, off, len, err);
	changed =
		r == 0 && ((mode & ~FALLOC_FL_KEEP_SIZE) || size_of(of->node) != before);
	if (changed)
		wrote_locked(of);
	pf_unlock(&of->lock);
	if (changed)
		pf_node_modified(of->node, of->cred.uid != 0);
	return r;
}

int pf_vfs_allocate(struct pf_open *of, int mode, uint64_t off, uint64_t len)
{
	struct pf_err err = PF_ERR_INIT;
	int r = allocate(of, mode, off, len, &err);

	return pf_refused(of->node, NULL, &of->cred, "allocate", r, &err);
}

/* --- committing --------------------------------------------------------------------- */

/* Did a mapping write since the last commit?  CLEAR: the caller commits. */
static bool is_mapped_dirty(struct pf_open *of, bool clear)
{
	_Atomic bool *mapped = &of->node->priv->mapped;

	if (!pf_open_writes(of))
		return false;
	return clear ? atomic_exchange(mapped, false) : *mapped;
}

/* Was it written since the last commit?  CLEAR: the caller commits. */
static bool is_dirty(struct pf_open *of, bool clear)
{
	bool dirty;

	PF_LOCK_SCOPE(&of->lock);
	dirty = is_mapped_dirty(of, clear) || of->dirty;
	if (clear)
		of->dirty = false;
	return dirty;
}

/* DOING: the system call, for sentences. */
static void commit(struct pf_open *of, enum pf_commit why, const char *doing,
		   struct pf_reply *reply)
{
	PF_CLEANUP(pf_open_unrefp) struct pf_open *mine = pf_open_ref(of);

	reply->doing = doing;
	reply->closing = why == PF_COMMIT_FLUSH;
	hold(reply, of);
	pf_lock(&mine->lock);
	mine->node->kind->commit(mine, why, reply);
	pf_unlock(&mine->lock);
}

/* Has the process memory?  To move none of its pages tells it in a sixth of the time that its file in /proc takes, if
 * this daemon may do that. */
static bool has_memory(pid_t pid)
{
	char path[64], text[256];

	if (syscall(SYS_move_pages, pid, 0UL, NULL, NULL, NULL, 0) == 0)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	pf_read_start(path, text, sizeof(text));
	return strtoul(text, NULL, 10) != 0;
}

/*
 * A process that exits closes its files too, and its FLUSH looks like any other.  The signs are
 * PF_EXITING in flags (field 9 of proc_pid_stat(5)) and the signal in exit_code (field 52),
 * which reads as 0 for a process that the daemon may not trace: then the FLUSH commits.
 *
 * A process that executes another program closes its files, too, with a lock for which the kernel
 * lets readers of its stat wait: for ever, since it waits for the answer to its FLUSH.  It has
 * memory; one that exits has none any more.
 */
bool pf_process_dying(pid_t pid)
{
	char path[32], text[2048], *p, *save = NULL;
	unsigned long flags = 0, code = 0;
	int field = 2;

	if (has_memory(pid))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	pf_read_start(path, text, sizeof(text));
	p = strrchr(text, ')'); /* the name of the program may hold parentheses */
	if (!p)
		return false;
	for (p = strtok_r(p + 1, " ", &save); p; p = strtok_r(NULL, " ", &save)) {
		field++;
		if (field == 9)
			flags = strtoul(p, NULL, 10);
		else if (field == 52)
			code = strtoul(p, NULL, 10);
	}
	return (flags & 4) && (code & 127);
}

static bool is_dying(struct pf_open *of, pid_t pid)
{
	bool dying = pf_process_dying(pid);

	PF_LOCK_SCOPE(&of->lock);
	of->killed = dying;
	return dying;
}

/*
 * Only the first FLUSH after a write commits, even if that fails: closing a second descriptor of
 * the same open must not compile again.  But later ones repeat the failure: NumPy writes through
 * a descriptor of its own and ignores the result of closing that one, but not of closing the
 * caller's.
 */
void pf_vfs_flush(struct pf_open *of, pid_t pid, struct pf_reply *reply)
{
	struct pf_err err = PF_ERR_INIT;

	if (of->node->kind->flush) {
		PF_CLEANUP(pf_open_unrefp) struct pf_open *mine = pf_open_ref(of);

		hold(reply, of);
		reply->doing = "close";
		mine->node->kind->flush(mine, pid, reply);
		return;
	}
	/* A client of a conversation has waited for what is lost, and knows. */
	if (!pf_kind_is_stream(of->node->kind) && check_lost(of, &err) < 0) {
		reply->doing = "close";
		hold(reply, of);
		pf_reply_fail(reply, err.code, &err);
		return;
	}
	if (!is_dirty(of, false) || !of->node->kind->commit)
		pf_reply_code(reply, of->failed);
	else if (is_dying(of, pid) || !is_dirty(of, true))
		pf_reply_code(reply, 0);
	else
		commit(of, PF_COMMIT_FLUSH, "close", reply);
}

/*
 * The file stays dirty, so that close(2) still fails if the bytes are incomplete; but one that is
 * whole is committed as by close(2), which repeats a failure.
 */
void pf_vfs_fsync(struct pf_open *of, struct pf_reply *reply)
{
	bool whole = of->node->kind->whole_at_fsync;

	if (!of->node->kind->commit || !is_dirty(of, whole))
		pf_reply_code(reply, whole ? of->failed : 0);
	else
		commit(of, whole ? PF_COMMIT_FLUSH : PF_COMMIT_FSYNC, "fsync", reply);
}

/* Commit OF, though no caller waits for the answer.  The kind's release comes after the
 * answer. */
static void commit_behind(struct pf_open *of)
{
	struct pf_reply *reply = pf_reply_behind();

	if (reply)
		commit(of, PF_COMMIT_FLUSH, "close", reply);
}

/* --- opens of earlier lives --------------------------------------------------------- */

/* The kind gets the bytes that OF reads, as at open(2); no caller waits for that. */
static void prepare_behind(struct pf_open *of)
{
	struct pf_reply *reply = pf_reply_behind();

	if (!reply)
		return;
	hold(reply, of);
	of->node->kind->prepare(of, reply);
}

int pf_vfs_reopen(struct pf_tree *tree, uint64_t handle, struct pf_open **ret)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	PF_CLEANUP(pf_open_unrefp) struct pf_open *of = NULL;
	struct pf_open was;
	int r = -ENOENT;

	if (pf_open_read(handle, &was))
		node = pf_tree_by_ino(tree, was.alias);
	if (node)
		r = begin(node, was.alias, was.flags & ~(O_TRUNC | O_CREAT | O_EXCL),
			  &was.cred, true, &of, NULL);
	if (r == 0) {
		of->handle = handle;
		of->unique = was.unique;
		of->polled = was.polled;
		of->poll_handle = was.poll_handle;
		of->dirty = was.dirty;
		of->failed = was.failed;
		of->was_busy = pf_state_was_busy(handle);
		of->lost = of->was_busy;
		if (node->kind->prepare)
			prepare_behind(of);
		/* A text that blocks is printed when it is read. */
		if (!must_wait(of))
			r = take_snapshot(of, NULL);
	}
	if (r < 0) {
		pf_state_drop(PF_STATE_OPEN, handle);
		return r;
	}
	enter(of);
	*ret = pf_steal(&of);
	return 0;
}

void pf_vfs_release(struct pf_open *of)
{
	if (of->handle)
		pf_state_drop(PF_STATE_OPEN, of->handle);
	pf_open_idle(of, true);
	leave(of);
	if (of->node->kind->closed)
		of->node->kind->closed(of);
	else if (of->node->kind->commit && !of->killed && is_mapped_dirty(of, true))
		commit_behind(of);
	pf_open_unref(of);
}
