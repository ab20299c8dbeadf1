/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading, writing, committing and closing open files.
 *
 * Bytes come from write(2), which belongs to one open, and from mappings, which belong to
 * the file: the kernel writes changed pages back through any open that has the file mapped,
 * at munmap, msync, close or any time between.  So an open is dirty for itself, and a node
 * is for what mappings wrote; whoever closes the file next, or has it closed last, commits
 * that.
 */
#include <errno.h>
#include <linux/falloc.h>
#include <poll.h>

#include "internal.h"

/* Answer a failure of OF's; nobody else keeps OF open for this reply. */
static void fail(struct pf_open *of, int code, const struct pf_err *err,
		 struct pf_reply *reply)
{
	reply->held = pf_open_ref(of);
	pf_reply_fail(reply, code, err);
}

static void read_text(struct pf_open *of, size_t len, uint64_t off,
		      struct pf_reply *reply)
{
	size_t left = off < of->text.len ? of->text.len - off : 0;

	pf_reply_data(reply, left ? of->text.data + off : NULL, len < left ? len : left);
}

/* Who was told that there is more reads from the start, as in sysfs. */
static void read_text_again(struct pf_open *of, size_t len, uint64_t off,
			    struct pf_reply *reply)
{
	const struct pf_kind *kind = of->node->kind;

	PF_LOCK_SCOPE(&of->lock);
	if (!off && !kind->prepare) {
		struct pf_buf text = PF_BUF_INIT;

		if (kind->show(of->node, &text, NULL) == 0 && !text.failed) {
			pf_buf_release(&of->text);
			of->text = text;
		} else {
			pf_buf_release(&text);
		}
	}
	read_text(of, len, off, reply);
}

short pf_vfs_poll(struct pf_open *of)
{
	const struct pf_kind *kind = of->node->kind;

	if (!kind->poll)
		return POLLIN | POLLOUT;
	/* First this: a change from now on is told, one before is seen. */
	__atomic_store_n(&of->node->priv->polled, true, __ATOMIC_SEQ_CST);
	PF_LOCK_SCOPE(&of->lock);
	return kind->poll(of);
}

void pf_vfs_read(struct pf_open *of, size_t len, uint64_t off, struct pf_reply *reply)
{
	reply->doing = "read";
	if (!pf_open_reads(of)) {
		pf_reply_code(reply, -EBADF);
	} else if (of->session) {
		pf_ctl_read(of, len, reply);
	} else if (of->shown) {
		/* The reader may close the file before this thread is done with its text. */
		PF_CLEANUP(pf_open_unrefp) struct pf_open *mine = pf_open_ref(of);

		if (mine->node->kind->poll)
			read_text_again(mine, len, off, reply);
		else
			read_text(mine, len, off, reply);
	} else if (of->node->kind->send) {
		PF_CLEANUP(pf_open_unrefp) struct pf_open *mine = pf_open_ref(of);

		reply->held = pf_open_ref(of);
		mine->node->kind->read(mine, len, off, reply);
	} else if (of->node->kind->read) {
		PF_CLEANUP(pf_open_unrefp) struct pf_open *mine = pf_open_ref(of);

		reply->held = pf_open_ref(of);
		pf_lock(&mine->lock);
		mine->node->kind->read(mine, len, off, reply);
		pf_unlock(&mine->lock);
	} else {
		pf_reply_code(reply, -EBADF);
	}
}

void pf_vfs_read_mapped(struct pf_open *of, size_t len, uint64_t off,
			struct pf_reply *reply)
{
	PF_CLEANUP(pf_open_unrefp) struct pf_open *from = NULL;

	/* Zeros would fill what there is not; and a conversation has no places. */
	if (pf_kind_converses(of->node->kind) ||
	    __atomic_load_n(&of->node->priv->guessed, __ATOMIC_SEQ_CST)) {
		pf_reply_code(reply, -EIO);
		return;
	}
	from = pf_open_for_pages(of);
	pf_vfs_read(from, len, off, reply);
}

/* --- writing ----------------------------------------------------------------------------- */

/* May LEN bytes be put at OFF? */
static int check_range(const struct pf_kind *kind, uint64_t len, uint64_t off,
		       struct pf_err *err)
{
	if (kind->max_write && (off > kind->max_write || len > kind->max_write - off))
		return pf_err_set(err, -EFBIG, "it holds %zu bytes at most",
				  kind->max_write);
	return 0;
}

static void wrote_locked(struct pf_open *of, size_t n)
{
	of->dirty = true;
	of->written += n;
	__atomic_store_n(&of->failed, 0, __ATOMIC_SEQ_CST);
}

static bool leaves_no_suid(const struct pf_open *of)
{
	return of->cred.uid != 0;
}

static ssize_t write_bytes(struct pf_open *of, const void *src, size_t len, uint64_t off,
			   bool mapped, struct pf_err *err)
{
	const struct pf_kind *kind = of->node->kind;
	ssize_t n;

	if (!kind->write)
		return -EBADF;
	n = check_range(kind, len, off, err);
	if (n < 0)
		return n;
	pf_lock(&of->lock);
	n = kind->write(of, src, len, off, err);
	if (n > 0 && mapped)
		__atomic_store_n(&of->node->priv->mapped, true, __ATOMIC_SEQ_CST);
	else if (n > 0)
		wrote_locked(of, (size_t)n);
	pf_unlock(&of->lock);
	/* Who wrote through the mapping is not known. */
	if (n > 0)
		pf_node_modified(of->node, !mapped && leaves_no_suid(of));
	return n;
}

static void write_any(struct pf_open *of, const void *src, size_t len, uint64_t off,
		      bool mapped, struct pf_reply *reply)
{
	struct pf_err err = PF_ERR_INIT;
	ssize_t n;

	reply->doing = "write";
	if (!pf_open_writes(of)) {
		pf_reply_code(reply, -EBADF);
	} else if (!len) {
		pf_reply_count(reply, 0);
	} else if (of->session) {
		pf_ctl_write(of, src, len, reply);
	} else if (of->node->kind->send) {
		PF_CLEANUP(pf_open_unrefp) struct pf_open *mine = pf_open_ref(of);

		reply->held = pf_open_ref(of);
		mine->node->kind->send(mine, src, len, reply);
	} else {
		n = write_bytes(of, src, len, off, mapped, &err);
		if (n < 0)
			fail(of, (int)n, &err, reply);
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
	/* A conversation has no size, so nothing can be mapped that could be written. */
	if (pf_kind_converses(of->node->kind))
		pf_reply_code(reply, -EIO);
	else
		write_any(of, src, len, off, true, reply);
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
	if (!len)
		return 0;
	/* What fits is copied, as it would be written. */
	if (kind->max_write && off < kind->max_write && len > kind->max_write - off)
		len = (size_t)(kind->max_write - off);
	n = check_range(kind, len, off, err);
	if (n < 0)
		return n;
	lock_both(of, from);
	n = kind->copy(of, off, from, from_off, len, err);
	if (n > 0)
		wrote_locked(of, (size_t)n);
	unlock_both(of, from);
	if (n > 0)
		pf_node_modified(of->node, leaves_no_suid(of));
	return n;
}

ssize_t pf_vfs_copy(struct pf_open *of, uint64_t off, struct pf_open *from,
		    uint64_t from_off, size_t len)
{
	struct pf_err err = PF_ERR_INIT;
	ssize_t n = copy(of, off, from, from_off, len, &err);

	pf_open_refused(of, "copy to", (int)(n < 0 ? n : 0), &err);
	return n;
}

static off_t size_of(struct pf_node *node)
{
	struct stat st = { .st_size = -1, .st_blocks = -1 };

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
		r = check_range(kind, len, off, err);
	if (r < 0)
		return r;
	pf_lock(&of->lock);
	before = size_of(of->node);
	r = kind->allocate(of, mode, off, len, err);
	changed =
		r == 0 && ((mode & ~FALLOC_FL_KEEP_SIZE) || size_of(of->node) != before);
	if (changed)
		wrote_locked(of, 0);
	pf_unlock(&of->lock);
	if (changed)
		pf_node_modified(of->node, leaves_no_suid(of));
	return r;
}

int pf_vfs_allocate(struct pf_open *of, int mode, uint64_t off, uint64_t len)
{
	struct pf_err err = PF_ERR_INIT;
	int r = allocate(of, mode, off, len, &err);

	return pf_open_refused(of, "allocate", r, &err);
}

/* --- committing -------------------------------------------------------------------------- */

/* Did a mapping write since the last commit?  CLEAR: it did not any more. */
static bool is_mapped_dirty(struct pf_open *of, bool clear)
{
	bool *mapped = &of->node->priv->mapped;

	if (!pf_open_writes(of))
		return false;
	return clear ? __atomic_exchange_n(mapped, false, __ATOMIC_SEQ_CST)
		     : __atomic_load_n(mapped, __ATOMIC_SEQ_CST);
}

/* Was it written since the last commit?  CLEAR: it is not any more. */
static bool is_dirty(struct pf_open *of, bool clear)
{
	bool dirty;

	PF_LOCK_SCOPE(&of->lock);
	dirty = is_mapped_dirty(of, clear) || of->dirty;
	if (clear)
		of->dirty = false;
	return dirty;
}

static void commit(struct pf_open *of, enum pf_commit why, struct pf_reply *reply)
{
	PF_CLEANUP(pf_open_unrefp) struct pf_open *mine = pf_open_ref(of);

	reply->doing = why == PF_COMMIT_FSYNC ? "fsync" : "close";
	reply->closing = why == PF_COMMIT_FLUSH;
	reply->held = pf_open_ref(of);
	pf_lock(&mine->lock);
	mine->node->kind->commit(mine, why, reply);
	pf_unlock(&mine->lock);
}

static bool is_dying(struct pf_open *of, pid_t pid)
{
	bool dying = pf_process_dying(pid);

	PF_LOCK_SCOPE(&of->lock);
	of->killed = dying;
	return dying;
}

/*
 * Only the first FLUSH after a write commits, whatever becomes of it: closing a second
 * descriptor of the same open must not compile again.  But it repeats a failure: NumPy writes
 * through a descriptor of its own, ignores what closing that says, and tells what closing the
 * caller's does.
 */
void pf_vfs_flush(struct pf_open *of, pid_t pid, struct pf_reply *reply)
{
	if (of->session)
		pf_ctl_flush(of, pid, reply);
	else if (!is_dirty(of, false) || !of->node->kind->commit)
		pf_reply_code(reply, __atomic_load_n(&of->failed, __ATOMIC_SEQ_CST));
	else if (is_dying(of, pid) || !is_dirty(of, true))
		pf_reply_code(reply, 0);
	else
		commit(of, PF_COMMIT_FLUSH, reply);
}

/* The file stays dirty, so that close(2) still tells what is incomplete. */
void pf_vfs_fsync(struct pf_open *of, struct pf_reply *reply)
{
	if (of->session || !of->node->kind->commit || !is_dirty(of, false))
		pf_reply_code(reply, 0);
	else
		commit(of, PF_COMMIT_FSYNC, reply);
}

static void behind_send(struct pf_reply *reply, int code, const void *data, size_t len)
{
	(void)reply;
	(void)code;
	(void)data;
	(void)len;
}

static void behind_free(struct pf_reply *reply)
{
	free(reply);
}

/* Commit OF, though nobody asks how that ends; its kind's release waits for the end. */
static void commit_behind(struct pf_open *of)
{
	static const struct pf_reply_ops ops = { behind_send, behind_free };
	struct pf_reply *reply = malloc(sizeof(*reply));

	if (!reply)
		return;
	pf_reply_init(reply, &ops);
	commit(of, PF_COMMIT_FLUSH, reply);
}

void pf_vfs_release(struct pf_open *of)
{
	pf_open_leave(of);
	if (of->session) {
		pf_ctl_release(of);
	} else if (of->node->kind->commit && !of->killed && is_mapped_dirty(of, true)) {
		commit_behind(of);
	}
	pf_open_unref(of);
}
