/* SPDX-License-Identifier: Apache-2.0 */
/* Listing directories, and what df(1) shows. */
#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

#include "internal.h"

enum { BLOCK = 4096, FREE_INODES = 1 << 24 };

/* An open directory: what it held when it was opened, or last read from the start. */
struct handle {
	pthread_mutex_t lock;       /* rank 0; protects the fields below */
	struct pf_listing *listing; /* owned */
	bool read;
};

void pf_fuse_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct handle *h = calloc(1, sizeof(*h));
	int r = h ? pf_vfs_list(pf_fuse_tree(req), ino, &h->listing) : -ENOMEM;

	if (r < 0) {
		free(h);
		pf_fuse_code(req, r);
		return;
	}
	if (pthread_mutex_init(&h->lock, NULL))
		abort();
	fi->fh = (uint64_t)(uintptr_t)h;
	if (fuse_reply_open(req, fi) == -ENOENT) {
		pf_listing_free(h->listing);
		pthread_mutex_destroy(&h->lock);
		free(h);
	}
}

static int rewind_handle(struct pf_tree *tree, uint64_t ino, struct handle *h)
{
	struct pf_listing *listing;
	int r = pf_vfs_list(tree, ino, &listing);

	if (r < 0)
		return r;
	pf_listing_free(h->listing);
	h->listing = listing;
	return 0;
}

/* Bytes that entry I takes at AT, where there is room for SIZE; it is put there if it fits. */
static size_t add_entry(fuse_req_t req, fuse_ino_t ino, const struct pf_listing *listing,
			size_t i, bool plus, char *at, size_t size)
{
	const struct pf_listing_entry *e = &listing->entries[i];
	struct stat st = { .st_ino = e->ino, .st_mode = e->mode };
	struct fuse_entry_param entry;
	bool found;
	size_t n;

	if (!plus)
		return fuse_add_direntry(req, at, size, e->name, &st, (off_t)i + 1);
	/* "." and "..", and names that are gone by now, come without a lookup. */
	found = i >= 2 && pf_vfs_lookup(pf_fuse_tree(req), ino, e->name, &st) == 0;
	pf_fuse_entry(req, &st, &entry);
	if (!found)
		entry.ino = 0;
	n = fuse_add_direntry_plus(req, at, size, e->name, &entry, (off_t)i + 1);
	if (n > size && found)
		pf_vfs_forget(pf_fuse_tree(req), st.st_ino, 1);
	return n;
}

static void list(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		 struct fuse_file_info *fi, bool plus)
{
	struct handle *h = (struct handle *)(uintptr_t)fi->fh;
	pf_autofree char *buf = malloc(size);
	size_t used = 0, n;
	int r = buf ? 0 : -ENOMEM;

	pf_lock(&h->lock);
	if (r == 0 && off == 0 && h->read)
		r = rewind_handle(pf_fuse_tree(req), ino, h);
	h->read = true;
	for (size_t i = (size_t)off; r == 0 && i < h->listing->n; i++) {
		n = add_entry(req, ino, h->listing, i, plus, buf + used, size - used);
		if (n > size - used)
			break;
		used += n;
	}
	pf_unlock(&h->lock);
	if (r < 0)
		pf_fuse_code(req, r);
	else
		fuse_reply_buf(req, buf, used);
}

void pf_fuse_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		     struct fuse_file_info *fi)
{
	list(req, ino, size, off, fi, false);
}

void pf_fuse_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
			 struct fuse_file_info *fi)
{
	list(req, ino, size, off, fi, true);
}

void pf_fuse_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct handle *h = (struct handle *)(uintptr_t)fi->fh;

	(void)ino;
	pf_listing_free(h->listing);
	pthread_mutex_destroy(&h->lock);
	free(h);
	fuse_reply_err(req, 0);
}

void pf_fuse_statfs(fuse_req_t req, fuse_ino_t ino)
{
	const struct pf_mount *mount = fuse_req_userdata(req);
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
	/* No limit of ours: enough to be free that nobody is alarmed. */
	st.f_files = usage.files + FREE_INODES;
	st.f_ffree = st.f_favail = FREE_INODES;
	fuse_reply_statfs(req, &st);
}
