/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of FUSE: each calls a function of vfs.h. */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "internal.h"
#include "pjrtfs/state.h"

/*
 * How long the kernel may cache attributes and names.
 *
 * In general not at all, since much changes without its requests (states, sizes of texts, outputs
 * of commands).  Attributes that come with a name are cached for the least time there is, a
 * jiffy, so that the permission check after a lookup costs no request; stat(2) is exact all the
 * same, because it looks the name up again.  Those of a file whose size is not known are not
 * cached: to open it makes the size known (text is rendered then), and fstat(2) follows soon.
 *
 * The kernel caches names of the fixed part of the tree, where it looks up no name again, and so
 * may not cache attributes even for a jiffy.  It may never cache the name of a stream: each open
 * must look it up (pf_vfs_alias).  It caches the attributes of fixed directories until notify.c
 * invalidates them.  Only the answer to GETATTR says so: with LOOKUP the kernel has no inode yet
 * that could be invalidated, and with SETATTR it does not compare which of the two came first.
 *
 * Every path begins at the root, whose attributes are cached for a second, so that few requests
 * are for them, but programs soon see that the daemon is gone (ENOTCONN).
 */
#define ATTR_TIMEOUT 1e-6
#define ENTRY_TIMEOUT 0.0
#define LONG_TIMEOUT 86400.0
#define ROOT_TIMEOUT 1.0

enum {
	MAX_COPY = 128 << 20, /* bytes */
	BLOCK = 4096,         /* bytes in a block of df(1) */
	FREE_INODES = 1 << 24
};

static double attr_timeout(const struct stat *st, unsigned keeps)
{
	if ((keeps & (PF_KEEP_NAME | PF_ATTR_VARIES)) ||
	    (S_ISREG(st->st_mode) && !st->st_size))
		return 0.0;
	return ATTR_TIMEOUT;
}

static double kept_attr_timeout(fuse_ino_t ino)
{
	return ino == FUSE_ROOT_ID ? ROOT_TIMEOUT : LONG_TIMEOUT;
}

static struct pf_mount *mount_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static struct pf_tree *tree_of(fuse_req_t req)
{
	return mount_of(req)->tree;
}

/* The open file of FI; NULL: it was lost when the daemon was restarted, and REQ is answered. */
static struct pf_open *open_of(fuse_req_t req, const struct fuse_file_info *fi)
{
	struct pf_open *of = pf_handle_open(mount_of(req), fi->fh);

	if (!of)
		fuse_reply_err(req, EIO);
	return of;
}

/* Did an earlier life change names for the present request? */
static bool was_done(void)
{
	return pf_state_is_again() && pf_state_was_done(pf_state_current());
}

/* The caller's rights, until the thread's next request. */
static struct pf_cred *cred_of(fuse_req_t req)
{
	static __thread struct pf_cred cred; /* its groups are not cleared each time */
	const struct fuse_ctx *ctx = fuse_req_ctx(req);

	cred.uid = ctx->uid;
	cred.gid = ctx->gid;
	cred.pid = ctx->pid;
	cred.sid = PF_SID_UNKNOWN;
	cred.umask = ctx->umask;
	cred.n_groups = 0;
	return &cred;
}

/*
 * A command has the rights of the process that opened the file, with all its groups and its
 * umask; replies belong to its login session.  Reading /proc sends no request to this daemon.
 */
static void read_status(struct pf_cred *cred)
{
	char path[64], text[8192];
	const char *at;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)cred->pid);
	pf_read_start(path, text, sizeof(text));
	at = strstr(text, "\nUmask:");
	if (at)
		cred->umask = (mode_t)strtoul(at + 7, NULL, 8) & 0777;
	at = strstr(text, "\nGroups:");
	for (at = at ? at + 8 : ""; cred->n_groups < PF_CRED_GROUPS;) {
		char *end;
		unsigned long group = strtoul(at, &end, 10);

		/* The list of numbers ends with its line. */
		if (end == at || memchr(at, '\n', (size_t)(end - at)))
			break;
		cred->groups[cred->n_groups++] = (gid_t)group;
		at = end;
	}
}

static struct pf_cred *opener_of(fuse_req_t req, uint64_t ino)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *node = pf_tree_by_ino(tree_of(req), ino);
	struct pf_cred *cred = cred_of(req);

	if (node && pf_kind_is_stream(node->kind) && cred->pid > 0) {
		cred->umask = 022;             /* if the process has ended */
		cred->sid = getsid(cred->pid); /* PF_SID_UNKNOWN if it has */
		read_status(cred);
	}
	return cred;
}

static void reply_code(fuse_req_t req, int code)
{
	fuse_reply_err(req, -code);
}

/* The answer to a lookup, of the file that ST describes. */
static void make_entry(fuse_req_t req, const struct stat *st,
		       struct fuse_entry_param *entry)
{
	unsigned keeps = pf_vfs_keeps(tree_of(req), st->st_ino);

	*entry = (struct fuse_entry_param){
		.ino = pf_vfs_alias(tree_of(req), st->st_ino, fuse_req_ctx(req)->pid),
		.attr = *st,
		.attr_timeout = attr_timeout(st, keeps),
		.entry_timeout = keeps & PF_KEEP_NAME ? LONG_TIMEOUT : ENTRY_TIMEOUT,
	};
	if (keeps & PF_ATTR_VARIES)
		pf_vfs_getattr(tree_of(req), st->st_ino, cred_of(req), NULL,
			       &entry->attr);
	/* For sendfile(2) and splice(2) the kernel reads pages up to the size that comes with the
	 * name.  Pages of a stream are refused, after which programs use read(2); without a size
	 * they would see an empty file. */
	if (keeps & PF_STREAM)
		entry->attr.st_size = 1;
}

/* If the caller was interrupted, the kernel drops the answer and never forgets the node. */
static void reply_entry(fuse_req_t req, int code, const struct stat *st)
{
	struct pf_tree *tree = tree_of(req);
	struct fuse_entry_param entry;

	if (code < 0) {
		reply_code(req, code);
		return;
	}
	make_entry(req, st, &entry);
	if (fuse_reply_entry(req, &entry) == -ENOENT)
		pf_vfs_forget(tree, st->st_ino, 1);
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	(void)userdata;
	conn->max_write = 1 << 20;
	conn->time_gran = 1;
	conn->want |=
		conn->capable & (FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_ATOMIC_O_TRUNC);
	/* With ASYNC_DIO the kernel sends direct I/O in the background, where a command or a
	 * read that is never answered takes one of a dozen places of the whole mount: without
	 * one, no page is read and no file is released.  Such callers cannot be killed either. */
	conn->want &= ~(unsigned)(FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_ASYNC_DIO);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct stat st;
	int r = pf_vfs_lookup(tree_of(req), parent, name, &st);

	reply_entry(req, r, &st);
}

__thread bool pf_fuse_let_go;

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n)
{
	pf_fuse_let_go = true;
	pf_vfs_forget(tree_of(req), ino, n);
	fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count,
			    struct fuse_forget_data *forgets)
{
	pf_fuse_let_go = true;
	for (size_t i = 0; i < count; i++)
		pf_vfs_forget(tree_of(req), forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct pf_tree *tree = tree_of(req);
	unsigned keeps = pf_vfs_keeps(tree, ino);
	struct pf_open *of = fi ? open_of(req, fi) : NULL;
	struct stat st;
	int r;

	if (fi && !of)
		return;
	r = pf_vfs_getattr(tree, ino, cred_of(req), of, &st);
	if (r < 0)
		reply_code(req, r);
	else
		fuse_reply_attr(req, &st,
				keeps & PF_KEEP_ATTR ? kept_attr_timeout(ino)
						     : attr_timeout(&st, keeps));
}

static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		       struct fuse_file_info *fi)
{
	enum {
		ALL = PF_SET_MODE | PF_SET_UID | PF_SET_GID | PF_SET_SIZE | PF_SET_ATIME |
		      PF_SET_MTIME
	};
	struct pf_open *of = fi ? open_of(req, fi) : NULL;
	struct stat to = *attr, st;
	int r;

	_Static_assert(PF_SET_MODE == FUSE_SET_ATTR_MODE &&
			       PF_SET_UID == FUSE_SET_ATTR_UID &&
			       PF_SET_GID == FUSE_SET_ATTR_GID &&
			       PF_SET_SIZE == FUSE_SET_ATTR_SIZE &&
			       PF_SET_ATIME == FUSE_SET_ATTR_ATIME &&
			       PF_SET_MTIME == FUSE_SET_ATTR_MTIME,
		       "the same bits");
	if (fi && !of)
		return;
	if (to_set & FUSE_SET_ATTR_ATIME_NOW)
		to.st_atim.tv_nsec = UTIME_NOW;
	if (to_set & FUSE_SET_ATTR_MTIME_NOW)
		to.st_mtim.tv_nsec = UTIME_NOW;
	r = pf_vfs_setattr(tree_of(req), ino, &to, to_set & ALL, of, cred_of(req), &st);
	if (r < 0)
		reply_code(req, r);
	else
		fuse_reply_attr(req, &st,
				attr_timeout(&st, pf_vfs_keeps(tree_of(req), ino)));
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	pf_autobuf struct pf_buf target = PF_BUF_INIT;
	int r = pf_vfs_readlink(tree_of(req), ino, &target);

	if (r < 0)
		reply_code(req, r);
	else
		fuse_reply_readlink(req, target.data ? target.data : "");
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct stat st;
	int r = was_done() ? pf_vfs_lookup(tree_of(req), parent, name, &st)
			   : pf_vfs_mkdir(tree_of(req), parent, name, mode, cred_of(req),
					  &st);

	reply_entry(req, r, &st);
}

/* A file of a type that does not exist here, WHAT. */
static void refuse_type(fuse_req_t req, fuse_ino_t parent, const char *name,
			const char *what)
{
	reply_code(req, pf_vfs_not_made(tree_of(req), parent, name, cred_of(req), what));
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		     dev_t rdev)
{
	struct pf_open *of;
	struct stat st;
	int r;

	(void)rdev;
	if (!S_ISREG(mode) && (mode & S_IFMT)) {
		refuse_type(req, parent, name, "special files");
		return;
	}
	if (was_done()) {
		r = pf_vfs_lookup(tree_of(req), parent, name, &st);
	} else {
		r = pf_vfs_create(tree_of(req), parent, name, mode,
				  O_CREAT | O_EXCL | O_WRONLY, cred_of(req), &st, &of);
		if (r == 0)
			pf_vfs_release(of);
	}
	reply_entry(req, r, &st);
}

static void op_symlink(fuse_req_t req, const char *link, fuse_ino_t parent,
		       const char *name)
{
	(void)link;
	refuse_type(req, parent, name, "symbolic links");
}

static void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	(void)ino;
	refuse_type(req, parent, name, "hard links");
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	reply_code(req, was_done() ? 0
				   : pf_vfs_remove(tree_of(req), parent, name, false,
						   cred_of(req)));
}

static void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	reply_code(req, was_done() ? 0
				   : pf_vfs_remove(tree_of(req), parent, name, true,
						   cred_of(req)));
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t to,
		      const char *to_name, unsigned flags)
{
	reply_code(req, was_done() ? 0
				   : pf_vfs_rename(tree_of(req), parent, name, to,
						   to_name, flags, cred_of(req)));
}

/*
 * All files are read and written directly: no page is stale, and large writes arrive whole.
 * Streams ignore offsets but stay seekable, because shells read an unseekable file byte by byte,
 * and so that pread(2) and pwrite(2) work.
 */
static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct pf_open *before = pf_opened_before(mount_of(req));
	struct pf_fuse_request *r;

	fi->direct_io = 1;
	if (before) {
		fi->fh = before->handle;
		if (fuse_reply_open(req, fi) == -ENOENT)
			pf_closed(mount_of(req), before);
		return;
	}
	r = pf_fuse_request_new(req, PF_FUSE_REQUEST_OPEN);
	if (!r)
		return;
	r->fi = *fi;
	pf_vfs_open(tree_of(req), ino, fi->flags, opener_of(req, ino), &r->of, &r->reply);
	pf_fuse_request_wait(r);
}

/* A file that an earlier life made for this request, and had not opened yet, is opened. */
static int create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		  int flags, struct stat *st, struct pf_open **ret)
{
	struct pf_mount *mount = mount_of(req);
	int r = pf_vfs_create(mount->tree, parent, name, mode,
			      was_done() ? flags & ~O_EXCL : flags, cred_of(req), st,
			      ret);

	if (r < 0)
		return r;
	r = pf_opened(mount, *ret);
	if (r < 0) {
		pf_vfs_release(*ret);
		pf_vfs_forget(mount->tree, st->st_ino, 1);
	}
	return r;
}

static void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		      struct fuse_file_info *fi)
{
	struct pf_mount *mount = mount_of(req);
	struct pf_tree *tree = mount->tree;
	struct fuse_entry_param entry;
	struct pf_open *of = pf_opened_before(mount);
	struct stat st;
	int r;

	if (of)
		r = pf_vfs_lookup(tree, parent, name, &st);
	else
		r = create(req, parent, name, mode, fi->flags, &st, &of);
	if (r < 0) {
		reply_code(req, r);
		return;
	}
	fi->fh = of->handle;
	fi->direct_io = 1;
	make_entry(req, &st, &entry);
	/* The size of a new file is known: the check of rights that follows costs no request. */
	if (!pf_vfs_keeps(tree, st.st_ino))
		entry.attr_timeout = ATTR_TIMEOUT;
	if (fuse_reply_create(req, &entry, fi) == -ENOENT) {
		pf_closed(mount, of);
		pf_vfs_forget(tree, st.st_ino, 1);
	}
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		    struct fuse_file_info *fi)
{
	struct pf_open *of = open_of(req, fi);
	struct pf_fuse_request *r =
		of ? pf_fuse_request_new(req, PF_FUSE_REQUEST_READ) : NULL;

	(void)ino;
	if (!r)
		return;
	/* read(2) has an owner of locks, reading pages has none. */
	if (fi->lock_owner)
		pf_vfs_read(of, size, (uint64_t)off, &r->reply);
	else
		pf_vfs_read_mapped(of, size, (uint64_t)off, &r->reply);
	pf_fuse_request_wait(r);
}

static void op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size,
		     off_t off, struct fuse_file_info *fi)
{
	struct pf_open *of = open_of(req, fi);
	struct pf_fuse_request *r =
		of ? pf_fuse_request_new(req, PF_FUSE_REQUEST_WRITE) : NULL;

	(void)ino;
	if (!r)
		return;
	if (fi->writepage)
		pf_vfs_write_mapped(of, buf, size, (uint64_t)off, &r->reply);
	else
		pf_vfs_write(of, buf, size, (uint64_t)off, &r->reply);
	pf_fuse_request_wait(r);
}

static void op_copy_file_range(fuse_req_t req, fuse_ino_t in, off_t in_off,
			       struct fuse_file_info *in_fi, fuse_ino_t out,
			       off_t out_off, struct fuse_file_info *out_fi, size_t len,
			       int flags)
{
	struct pf_open *to = open_of(req, out_fi);
	struct pf_open *from = to ? open_of(req, in_fi) : NULL;
	ssize_t n;

	(void)in;
	(void)out;
	(void)flags;
	if (!from)
		return;
	n = pf_vfs_copy(to, (uint64_t)out_off, from, (uint64_t)in_off,
			len < MAX_COPY ? len : MAX_COPY);
	if (n < 0)
		reply_code(req, (int)n);
	else
		fuse_reply_write(req, (size_t)n);
}

static void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t len,
			 struct fuse_file_info *fi)
{
	struct pf_open *of = open_of(req, fi);

	(void)ino;
	if (of)
		reply_code(req, pf_vfs_allocate(of, mode, (uint64_t)off, (uint64_t)len));
}

/* PH is given if the caller of poll(2) is going to sleep. */
static void op_poll(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
		    struct fuse_pollhandle *ph)
{
	struct pf_open *of = open_of(req, fi);
	unsigned mask;

	(void)ino;
	if (ph)
		fuse_pollhandle_destroy(ph); /* its number is pf_poll_handle */
	if (!of)
		return;
	if (ph)
		pf_polled(mount_of(req), of, pf_poll_handle);
	mask = (unsigned)pf_vfs_poll(of);
	mask |= mask & POLLIN ? POLLRDNORM : 0;
	mask |= mask & POLLOUT ? POLLWRNORM : 0;
	fuse_reply_poll(req, mask);
}

static void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct pf_open *of = open_of(req, fi);
	struct pf_fuse_request *r =
		of ? pf_fuse_request_new(req, PF_FUSE_REQUEST_CODE) : NULL;

	(void)ino;
	if (!r)
		return;
	pf_vfs_flush(of, fuse_req_ctx(req)->pid, &r->reply);
	pf_fuse_request_wait(r);
}

static void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync,
		     struct fuse_file_info *fi)
{
	struct pf_open *of = open_of(req, fi);
	struct pf_fuse_request *r =
		of ? pf_fuse_request_new(req, PF_FUSE_REQUEST_CODE) : NULL;

	(void)ino;
	(void)datasync;
	if (!r)
		return;
	pf_vfs_fsync(of, &r->reply);
	pf_fuse_request_wait(r);
}

static void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct pf_open *of = pf_handle_open(mount_of(req), fi->fh);

	(void)ino;
	if (of) /* else an earlier life has released it, but not answered */
		pf_closed(mount_of(req), of);
	pf_fuse_let_go = true;
	fuse_reply_err(req, 0);
}

/* --- extended attributes ------------------------------------------------------------ */

/* SIZE 0 requests the length; -ERANGE if the value does not fit. */
static void reply_value(fuse_req_t req, int code, const struct pf_buf *value, size_t size)
{
	if (code < 0)
		reply_code(req, code);
	else if (!size)
		fuse_reply_xattr(req, value->len);
	else if (value->len > size)
		reply_code(req, -ERANGE);
	else
		fuse_reply_buf(req, value->data, value->len);
}

static void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	pf_autobuf struct pf_buf value = PF_BUF_INIT;
	int r = pf_vfs_get_xattr(tree_of(req), ino, name, &value);

	reply_value(req, r, &value, size);
}

static void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	pf_autobuf struct pf_buf names = PF_BUF_INIT;
	int r = pf_vfs_list_xattr(tree_of(req), ino, &names);

	reply_value(req, r, &names, size);
}

static void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
			const char *value, size_t size, int flags)
{
	reply_code(req, pf_vfs_set_xattr(tree_of(req), ino, name, value, size, flags,
					 cred_of(req)));
}

static void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	reply_code(req, pf_vfs_remove_xattr(tree_of(req), ino, name, cred_of(req)));
}

/* --- directories -------------------------------------------------------------------- */

/* An open directory: its listing of when it was last read from the start; NULL: it was not read
 * yet, or another request uses it. */
struct directory {
	_Atomic(struct pf_listing *) listing; /* owned */
};

/* A handle is the address, with the number of this life in the bits that no address has. */
enum { LIFE_SHIFT = 48 };

static uint64_t life_bits(void)
{
	return *pf_state_counter(PF_STATE_COUNT_LIFE) << LIFE_SHIFT;
}

/* NULL: it was opened in an earlier life of the daemon, and has no listing. */
static struct directory *directory_of(const struct fuse_file_info *fi)
{
	uint64_t at = fi->fh ^ life_bits();

	return at >> LIFE_SHIFT ? NULL : (struct directory *)(uintptr_t)at;
}

static void directory_free(struct directory *d)
{
	if (d)
		pf_listing_free(atomic_load(&d->listing));
	free(d);
}

/* The index of the first entry behind the position OFF. */
static size_t find_position(const struct pf_listing *listing, uint64_t off)
{
	size_t low = 0, high = listing->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (listing->entries[middle].position <= off)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct directory *d = calloc(1, sizeof(*d));

	(void)ino;
	if (!d) {
		reply_code(req, -ENOMEM);
		return;
	}
	fi->fh = (uint64_t)(uintptr_t)d ^ life_bits();
	if (fuse_reply_open(req, fi) == -ENOENT)
		directory_free(d);
}

/* The entries have no attributes: names that are not cached need none. */
static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		       struct fuse_file_info *fi)
{
	struct directory *d = directory_of(fi);
	struct pf_listing *listing = d ? atomic_exchange(&d->listing, NULL) : NULL;
	pf_autofree char *buf = malloc(size);
	size_t used = 0, n;
	int r = buf ? 0 : -ENOMEM;

	if (off == 0)
		pf_listing_free(pf_steal(&listing));
	if (r == 0 && !listing)
		r = pf_vfs_list(tree_of(req), ino, &listing);
	for (size_t i = r == 0 ? find_position(listing, (uint64_t)off) : 0;
	     r == 0 && i < listing->n; i++) {
		const struct pf_listing_entry *e = &listing->entries[i];
		const struct stat st = { .st_ino = e->ino, .st_mode = e->mode };

		n = fuse_add_direntry(req, buf + used, size - used, e->name, &st,
				      (off_t)e->position);
		if (n > size - used)
			break;
		used += n;
	}
	pf_listing_free(d ? atomic_exchange(&d->listing, listing) : listing);
	if (r < 0)
		reply_code(req, r);
	else
		fuse_reply_buf(req, buf, used);
}

static void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	pf_fuse_let_go = true;
	directory_free(directory_of(fi));
	fuse_reply_err(req, 0);
}

/* What df(1) shows. */
static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	const struct pf_mount *mount = mount_of(req);
	struct pf_usage usage = { .files = pf_tree_count(mount->tree) };
	struct statvfs st = { .f_bsize = BLOCK,
			      .f_frsize = BLOCK,
			      .f_namemax = PF_NAME_MAX };

	(void)ino;
	if (mount->usage)
		mount->usage(mount->arg, &usage);
	st.f_blocks = usage.limit / BLOCK;
	if (usage.used < usage.limit)
		st.f_bfree = st.f_bavail = (usage.limit - usage.used) / BLOCK;
	/* Files have no limit: many are shown as free, for programs that monitor full
	 * file systems. */
	st.f_files = usage.files + FREE_INODES;
	st.f_ffree = st.f_favail = FREE_INODES;
	fuse_reply_statfs(req, &st);
}

/* The kernel itself does file locks and lseek(2). */
const struct fuse_lowlevel_ops pf_fuse_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.readlink = op_readlink,
	.mknod = op_mknod,
	.mkdir = op_mkdir,
	.unlink = op_unlink,
	.rmdir = op_rmdir,
	.symlink = op_symlink,
	.rename = op_rename,
	.link = op_link,
	.open = op_open,
	.create = op_create,
	.read = op_read,
	.write = op_write,
	.copy_file_range = op_copy_file_range,
	.fallocate = op_fallocate,
	.poll = op_poll,
	.flush = op_flush,
	.fsync = op_fsync,
	.release = op_release,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.releasedir = op_releasedir,
	.statfs = op_statfs,
	.getxattr = op_getxattr,
	.listxattr = op_listxattr,
	.setxattr = op_setxattr,
	.removexattr = op_removexattr,
};
