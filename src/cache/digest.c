/* SPDX-License-Identifier: Apache-2.0 */
#include "pjrtfs/cache/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

enum {
	CHUNK = 1 << 20,
	MAX_DIGESTS = 64, /* lines in the file; the newest stay */
	MAX_LINE = 256,   /* bytes of one */
	WHAT_TEXT = 160,
};

/* What a file is known by, as text; and its SHA-256. */
struct pf_cache_digest {
	struct pf_cache_digest *next; /* owned */
	char what[WHAT_TEXT];
	uint8_t sha[PF_SHA256];
};

bool pf_cache_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
	       a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
	       a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static void what_of(const struct stat *st, char dst[WHAT_TEXT])
{
	snprintf(dst, WHAT_TEXT,
		 "%" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 ".%09ld %" PRId64
		 ".%09ld",
		 (uint64_t)st->st_dev, (uint64_t)st->st_ino, (int64_t)st->st_size,
		 (int64_t)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
		 (int64_t)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
}

static struct pf_cache_digest *find_locked(struct pf_cache *cache, const char *what)
{
	struct pf_cache_digest *d = cache->digests;

	while (d && strcmp(d->what, what))
		d = d->next;
	return d;
}

static void remember_locked(struct pf_cache *cache, const char *what,
			    const uint8_t sha[PF_SHA256])
{
	struct pf_cache_digest *d = find_locked(cache, what) ? NULL : malloc(sizeof(*d));

	if (!d)
		return;
	snprintf(d->what, sizeof(d->what), "%s", what);
	memcpy(d->sha, sha, PF_SHA256);
	d->next = cache->digests;
	cache->digests = d;
}

void pf_cache_forget_digests(struct pf_cache *cache)
{
	while (cache->digests) {
		struct pf_cache_digest *d = cache->digests;

		cache->digests = d->next;
		free(d);
	}
}

/* --- the file: a line each, "SHA WHAT" ---------------------------------------------- */

static void load_locked(struct pf_cache *cache)
{
	int fd = openat(cache->dir, "plugins", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	char line[MAX_LINE];
	uint8_t sha[PF_SHA256];
	struct stat st;

	if (!f) {
		pf_closep(&fd);
		return;
	}
	for (int n = 0; !fstat(fd, &st) && pf_cache_trusted(&st) && n < MAX_DIGESTS &&
			fgets(line, sizeof(line), f);
	     n++) {
		size_t len = strcspn(line, "\n");

		if (len < 2 * PF_SHA256 + 2 || !line[len] || len > WHAT_TEXT ||
		    !pf_cache_unhex(line, PF_SHA256, sha))
			continue; /* a line that was cut, or none of ours */
		line[len] = '\0';
		remember_locked(cache, line + 2 * PF_SHA256 + 1, sha);
	}
	fclose(f);
}

/* Write all that is known, the newest first.  What fails is hashed again next time. */
static void save_locked(struct pf_cache *cache)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	char tmp[32], hex[2 * PF_SHA256 + 1];
	pf_autoclose int fd = -1;
	int n = 0;

	if (cache->lock_fd < 0)
		return;
	for (struct pf_cache_digest *d = cache->digests; d && n < MAX_DIGESTS;
	     d = d->next, n++) {
		pf_cache_hex(d->sha, PF_SHA256, hex);
		pf_buf_printf(&text, "%s %s\n", hex, d->what);
	}
	fd = text.failed ? -1 : pf_cache_tmp(cache, tmp);
	if (fd < 0)
		return;
	if (write(fd, text.data, text.len) != (ssize_t)text.len || fsync(fd) ||
	    renameat(cache->tmp, tmp, cache->dir, "plugins"))
		(void)unlinkat(cache->tmp, tmp, 0);
}

/* --- the digest ---------------------------------------------------------------------- */

static int hash_file(int fd, uint8_t ret[PF_SHA256])
{
	EVP_MD_CTX *sha = EVP_MD_CTX_new();
	pf_autofree char *chunk = malloc(CHUNK);
	ssize_t n = 1;
	int r = sha && chunk && EVP_DigestInit_ex(sha, EVP_sha256(), NULL) ? 0 : -ENOMEM;

	while (r == 0 && n) {
		n = read(fd, chunk, CHUNK);
		if (n < 0 && errno != EINTR)
			r = -errno;
		else if (n > 0 && !EVP_DigestUpdate(sha, chunk, (size_t)n))
			r = -ENOMEM;
	}
	if (r == 0 && !EVP_DigestFinal_ex(sha, ret, NULL))
		r = -ENOMEM;
	EVP_MD_CTX_free(sha);
	return r;
}

static int hash(const char *path, const struct stat *st, uint8_t ret[PF_SHA256],
		struct pf_err *err)
{
	pf_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat before, after;
	int r = fd < 0 || fstat(fd, &before) ? -errno : 0;

	if (r == 0)
		r = hash_file(fd, ret);
	if (r < 0 || fstat(fd, &after))
		return pf_err_set(err, r < 0 ? r : -errno, "read %s: %s", path,
				  strerror(r < 0 ? -r : errno));
	if (!pf_cache_same_file(&before, st) || !pf_cache_same_file(&after, st))
		return pf_err_set(err, -ESTALE, "%s has changed since it was loaded",
				  path);
	return 0;
}

int pf_cache_file_digest(struct pf_cache *cache, const char *path, const struct stat *st,
			 uint8_t ret[PF_SHA256], struct pf_err *err)
{
	struct pf_cache_digest *d;
	char what[WHAT_TEXT];
	int r;

	if (!cache)
		return hash(path, st, ret, err);
	what_of(st, what);
	PF_LOCK_SCOPE(&cache->digest_lock);
	d = find_locked(cache, what);
	if (!d) {
		load_locked(cache);
		d = find_locked(cache, what);
	}
	if (d) {
		memcpy(ret, d->sha, PF_SHA256);
		return 0;
	}
	r = hash(path, st, ret, err);
	if (r == 0) {
		remember_locked(cache, what, ret);
		save_locked(cache);
	}
	return r;
}
