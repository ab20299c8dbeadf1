/* SPDX-License-Identifier: Apache-2.0 */
/* The directory: opened, read from. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

bool pf_cache_trusted(const struct stat *st)
{
	return (st->st_uid == geteuid() || st->st_uid == 0) &&
	       !(st->st_mode & (S_IWGRP | S_IWOTH));
}

/* --- open and close ------------------------------------------------------------------ */

/* Make PATH and what is missing above it. */
static int make_path(const char *path, struct pf_err *err)
{
	pf_autofree char *copy = strdup(path);

	if (!copy)
		return pf_err_set(err, -ENOMEM, "no memory for a path");
	for (char *p = copy + 1; *p; p++)
		if (*p == '/') {
			*p = '\0';
			(void)mkdir(copy, 0700);
			*p = '/';
		}
	if (mkdir(copy, 0700) && errno != EEXIST)
		return pf_err_set(err, -errno, "make it: %s", strerror(errno));
	return 0;
}

/* Open the directory PATH below AT into *RET; -EPERM if it is not to be trusted. */
static int open_dir(int at, const char *path, int *ret, struct pf_err *err)
{
	pf_autoclose int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return pf_err_set(err, -errno, "%s: %s", path, strerror(errno));
	if (!pf_cache_trusted(&st))
		return pf_err_set(
			err, -EPERM,
			"%s belongs to user %u and has mode %04o: what is in it "
			"would be run, so it must be yours and nobody else may "
			"write to it",
			path, st.st_uid, st.st_mode & 07777U);
	*ret = fd;
	fd = -1;
	return 0;
}

/* errno says why CACHE stays read-only: missing rights are meant so, a full disk is a failure. */
static void note_read_only(struct pf_cache *cache)
{
	if (errno != EROFS && errno != EACCES && errno != EPERM)
		cache->read_only = -errno;
}

/* A directory in the cache's, made if that can be; else *RET stays -1. */
static int open_sub(struct pf_cache *cache, const char *name, int *ret,
		    struct pf_err *err)
{
	int r = open_dir(cache->dir, name, ret, err);

	if (r != -ENOENT)
		return r;
	if (mkdirat(cache->dir, name, 0700) && errno != EEXIST) {
		note_read_only(cache);
		return 0;
	}
	return open_dir(cache->dir, name, ret, err);
}

static int open_file(struct pf_cache *cache, const char *name)
{
	int fd =
		openat(cache->dir, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		note_read_only(cache);
	return fd;
}

static int open_all(struct pf_cache *cache, struct pf_err *err)
{
	int made = make_path(cache->path, err);
	/* What cannot be made may still be there. */
	int r = open_dir(AT_FDCWD, cache->path, &cache->dir, made < 0 ? NULL : err);

	if (r < 0)
		return made < 0 ? made : r;
	r = open_sub(cache, "entries", &cache->entries, err);
	if (r == 0)
		r = open_sub(cache, "tmp", &cache->tmp, err);
	if (r < 0)
		return r;
	if (cache->entries >= 0 && cache->tmp >= 0 &&
	    faccessat(cache->tmp, ".", W_OK, AT_EACCESS) == 0) {
		cache->lock_fd = open_file(cache, "lock");
		cache->stats_fd = open_file(cache, "stats");
	}
	if (cache->stats_fd < 0) {
		pf_closep(&cache->lock_fd);
		cache->lock_fd = -1;
	}
	return 0;
}

int pf_cache_open(const struct pf_cache_config *config, struct pf_cache **ret,
		  struct pf_err *err)
{
	struct pf_cache *cache = calloc(1, sizeof(*cache));
	int r;

	if (!cache)
		return pf_err_set(err, -ENOMEM, "no memory for a cache");
	if (pthread_mutex_init(&cache->lock, NULL) ||
	    pthread_mutex_init(&cache->failing_lock, NULL) ||
	    pthread_mutex_init(&cache->digest_lock, NULL))
		abort();
	cache->read_only = -EROFS;
	cache->dir = cache->entries = cache->tmp = cache->lock_fd = cache->stats_fd = -1;
	cache->max = config->max;
	cache->warn = config->warn;
	cache->arg = config->arg;
	cache->path = strdup(config->dir);
	r = cache->path ? open_all(cache, err)
			: pf_err_set(err, -ENOMEM, "no memory for a cache");
	if (r < 0) {
		pf_cache_close(cache);
		return pf_err_wrap(err, r, "cache directory %s", config->dir);
	}
	if (cache->lock_fd >= 0 && pf_cache_lock(cache, PF_CACHE_WAIT_MS)) {
		pf_cache_sweep_locked(cache);
		pf_cache_unlock(cache);
	}
	*ret = cache;
	return 0;
}

static void close_all(struct pf_cache *cache)
{
	pf_closep(&cache->dir);
	pf_closep(&cache->entries);
	pf_closep(&cache->tmp);
	pf_closep(&cache->lock_fd);
	pf_closep(&cache->stats_fd);
}

/* What is being read goes on where it was: the numbers stay, what they lead to changes. */
static bool replace_all(struct pf_cache *to, const struct pf_cache *from)
{
	return dup3(from->dir, to->dir, O_CLOEXEC) >= 0 &&
	       dup3(from->entries, to->entries, O_CLOEXEC) >= 0 &&
	       dup3(from->tmp, to->tmp, O_CLOEXEC) >= 0 &&
	       dup3(from->lock_fd, to->lock_fd, O_CLOEXEC) >= 0 &&
	       dup3(from->stats_fd, to->stats_fd, O_CLOEXEC) >= 0;
}

bool pf_cache_reopen(struct pf_cache *cache)
{
	struct pf_cache fresh = { .path = cache->path,
				  .dir = -1,
				  .entries = -1,
				  .tmp = -1,
				  .lock_fd = -1,
				  .stats_fd = -1 };
	bool ok;

	PF_LOCK_SCOPE(&cache->lock);
	ok = cache->lock_fd >= 0 && open_all(&fresh, NULL) == 0 && fresh.lock_fd >= 0 &&
	     replace_all(cache, &fresh);
	close_all(&fresh);
	return ok;
}

void pf_cache_close(struct pf_cache *cache)
{
	if (!cache)
		return;
	pf_cache_flush_counts(cache);
	pf_cache_forget_digests(cache);
	close_all(cache);
	pthread_mutex_destroy(&cache->lock);
	pthread_mutex_destroy(&cache->failing_lock);
	pthread_mutex_destroy(&cache->digest_lock);
	free(cache->path);
	free(cache);
}

const char *pf_cache_dir(const struct pf_cache *cache)
{
	return cache->path;
}

/* --- find and read ------------------------------------------------------------------- */

static const struct pf_cache_stats one_damaged = { .damaged = 1 };

static ssize_t read_all(int fd, void *dst, size_t len, uint64_t off)
{
	size_t got = 0;

	while (got < len) {
		ssize_t n = pread(fd, (char *)dst + got, len - got, (off_t)(off + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

/* Open KEY's file, called NAME, and read its header.  0; -ENOENT; -EBADMSG: bad. */
static int open_entry(struct pf_cache *cache, const char *name,
		      const struct pf_cache_key *key, struct pf_cache_found *ret,
		      struct pf_err *err)
{
	uint8_t header[PF_CACHE_HEADER];
	ssize_t n;
	int r;

	ret->fd = cache->entries < 0
			  ? -1
			  : openat(cache->entries, name,
				   O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (ret->fd < 0)
		return pf_err_set(err, cache->entries < 0 ? -ENOENT : -errno,
				  "there is no entry %s", name);
	if (fstat(ret->fd, &ret->st))
		return pf_err_set(err, -errno, "entry %s: %s", name, strerror(errno));
	if (!S_ISREG(ret->st.st_mode) || !pf_cache_trusted(&ret->st))
		return pf_err_set(err, -EBADMSG,
				  "entry %s belongs to user %u and has mode %04o", name,
				  ret->st.st_uid, ret->st.st_mode & 07777U);
	n = read_all(ret->fd, header, sizeof(header), 0);
	if (n < 0)
		return pf_err_set(err, (int)n, "entry %s: %s", name, strerror((int)-n));
	r = pf_cache_header_read(header, (size_t)n, (uint64_t)ret->st.st_size,
				 &ret->header, err);
	if (r == 0 && memcmp(&ret->header.key, key, sizeof(*key)))
		r = pf_err_set(err, -EBADMSG, "it is another's");
	return r < 0 ? pf_err_wrap(err, r, "entry %s", name) : 0;
}

int pf_cache_find(struct pf_cache *cache, const struct pf_cache_key *key,
		  struct pf_cache_found *ret)
{
	char name[PF_CACHE_KEY_TEXT];
	int r;

	pf_cache_key_text(key, name);
	memset(&ret->st, 0, sizeof(ret->st));
	r = open_entry(cache, name, key, ret, NULL);
	if (r == 0)
		return 1;
	if (r == -EBADMSG || r == -ELOOP)
		pf_cache_drop(cache, name, r == -ELOOP ? NULL : &ret->st, &one_damaged);
	pf_cache_found_release(ret);
	return 0;
}

void pf_cache_found_release(struct pf_cache_found *found)
{
	pf_closep(&found->fd);
	found->fd = -1;
}

void pf_cache_reject(struct pf_cache *cache, const struct pf_cache_found *found)
{
	char name[PF_CACHE_KEY_TEXT];

	pf_cache_key_text(&found->header.key, name);
	pf_cache_drop(cache, name, &found->st, &one_damaged);
}

int pf_cache_read(struct pf_cache *cache, const struct pf_cache_found *found, void *dst,
		  struct pf_err *err)
{
	uint64_t len = pf_cache_body_len(&found->header);
	uint8_t sha[PF_SHA256];
	ssize_t n = read_all(found->fd, dst, len, PF_CACHE_HEADER);

	if (n < 0)
		return pf_err_set(err, (int)n, "read a cache entry: %s",
				  strerror((int)-n));
	if ((uint64_t)n == len && !EVP_Digest(dst, len, sha, NULL, EVP_sha256(), NULL))
		return pf_err_set(err, -ENOMEM, "no memory for a SHA-256");
	if ((uint64_t)n == len && !memcmp(sha, found->header.sha, sizeof(sha)))
		return 0;
	pf_cache_reject(cache, found);
	return pf_err_set(err, -EBADMSG, "a cache entry is damaged; it was removed");
}

bool pf_cache_has(struct pf_cache *cache, const struct pf_cache_key *key, struct stat *st)
{
	char name[PF_CACHE_KEY_TEXT];
	struct stat own;

	pf_cache_key_text(key, name);
	st = st ? st : &own;
	return cache->entries >= 0 &&
	       !fstatat(cache->entries, name, st, AT_SYMLINK_NOFOLLOW) &&
	       S_ISREG(st->st_mode);
}

int pf_cache_describe(struct pf_cache *cache, const struct pf_cache_key *key,
		      struct pf_cache_header *ret, struct stat *st, struct pf_buf *meta,
		      struct pf_err *err)
{
	struct pf_cache_found found;
	char name[PF_CACHE_KEY_TEXT];
	uint64_t len;
	char *dst;
	int r;

	pf_cache_key_text(key, name);
	r = open_entry(cache, name, key, &found, err);
	if (r == 0) {
		len = found.header.len[PF_CACHE_META];
		dst = pf_buf_reserve(meta, len);
		if (!dst)
			r = pf_err_set(err, -ENOMEM, "no memory for entry %s", name);
		else if (read_all(found.fd, dst, len, PF_CACHE_HEADER) != (ssize_t)len)
			r = pf_err_set(err, -EBADMSG, "entry %s was cut", name);
		else
			meta->len += len;
	}
	*ret = found.header;
	*st = found.st;
	pf_cache_found_release(&found);
	return r;
}
