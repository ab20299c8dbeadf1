/* SPDX-License-Identifier: Apache-2.0 */
/* Entries: listed, found, written, evicted; and digests of plugins' files. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "internal.h"
#include "pjrtfs/cache.h"

enum {
	TMP_AGE_S =
		10, /* a younger temporary file without a lock may be about to get one */
	SLACK = 16, /* making room evicts a 16th of the maximum beyond it */
};

/* --- listing ------------------------------------------------------------------------- */

struct entry {
	struct pf_cache_key key;
	struct timespec used;
	uint64_t size;
};

/* A stream over the directory FD, which stays open; NULL: errno. */
static DIR *open_stream(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);

	if (!dir && copy >= 0)
		close(copy);
	return dir;
}

/* Append a struct entry for each entry to LIST; the bytes of all of them, or -errno. */
static int64_t list_entries(struct pf_cache *cache, struct pf_buf *list)
{
	DIR *dir = cache->entries < 0 ? NULL : open_stream(cache->entries);
	int64_t bytes = 0;
	struct dirent *e;
	struct stat st;

	if (!dir)
		return cache->entries < 0 ? 0 : -errno;
	while ((e = readdir(dir))) {
		struct entry entry;

		if (!pf_cache_key_parse(e->d_name, &entry.key) ||
		    fstatat(cache->entries, e->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(st.st_mode))
			continue;
		entry.used = st.st_mtim;
		entry.size = (uint64_t)st.st_size;
		pf_buf_append(list, &entry, sizeof(entry));
		bytes += st.st_size;
	}
	closedir(dir);
	return list->failed ? -ENOMEM : bytes;
}

int pf_cache_list(struct pf_cache *cache, struct pf_cache_key **ret, size_t *n)
{
	pf_autobuf struct pf_buf list = PF_BUF_INIT;
	int64_t bytes = list_entries(cache, &list);
	const struct entry *entries = (const void *)list.data;

	*n = list.len / sizeof(*entries);
	*ret = bytes < 0 ? NULL : calloc(*n + 1, sizeof(**ret));
	for (size_t i = 0; *ret && i < *n; i++)
		(*ret)[i] = entries[i].key;
	return *ret ? 0 : bytes < 0 ? (int)bytes : -ENOMEM;
}

void pf_cache_stats(struct pf_cache *cache, struct pf_cache_stats *ret)
{
	pf_autobuf struct pf_buf list = PF_BUF_INIT;
	int64_t bytes;

	pf_cache_counts(cache, ret);
	ret->writable = pf_cache_writable(cache);
	bytes = ret->writable ? -1 : list_entries(cache, &list);
	if (bytes >= 0) {
		ret->entries = list.len / sizeof(struct entry);
		ret->bytes = (uint64_t)bytes;
	}
}

void pf_cache_on_gone(struct pf_cache *cache,
		      void (*fn)(void *arg, const char *key, uint64_t bytes,
				 bool damaged),
		      void *arg)
{
	cache->gone = fn;
	cache->gone_arg = arg;
}

/* --- evicting ------------------------------------------------------------------------ */

static int oldest_first(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->used.tv_sec != y->used.tv_sec)
		return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
	if (x->used.tv_nsec != y->used.tv_nsec)
		return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
	return memcmp(&x->key, &y->key, sizeof(x->key));
}

/*
 * Remove the file NAME of entries if it is still the one of ST (which may be NULL), take it off
 * the counts in ADD and report it.  0; -ENOENT; -ESTALE: it is another one; -errno.
 */
static int remove_entry(struct pf_cache *cache, const char *name, const struct stat *st,
			bool damaged, struct pf_cache_stats *add)
{
	struct stat now;

	if (fstatat(cache->entries, name, &now, AT_SYMLINK_NOFOLLOW))
		return -errno;
	if (st && (now.st_ino != st->st_ino || now.st_dev != st->st_dev))
		return -ESTALE;
	if (unlinkat(cache->entries, name, 0))
		return -errno;
	add->bytes -= (uint64_t)now.st_size;
	add->entries--;
	if (cache->gone)
		cache->gone(cache->gone_arg, name, (uint64_t)now.st_size, damaged);
	return 0;
}

/* Evict the oldest of LIST, which have BYTES, until at most MAX are left.  0 or the last -errno. */
static int evict(struct pf_cache *cache, int lock, struct pf_buf *list, uint64_t bytes,
		 uint64_t max)
{
	struct entry *at = (void *)list->data, *end = at + list->len / sizeof(*at);
	struct pf_cache_stats add = { 0 };
	char name[PF_CACHE_KEY_TEXT];
	int ret = 0;

	if (bytes > max)
		qsort(at, (size_t)(end - at), sizeof(*at), oldest_first);
	for (; at < end && bytes > max; at++) {
		int r;

		pf_cache_key_text(&at->key, name);
		r = remove_entry(cache, name, NULL, false, &add);
		if (r == 0) {
			bytes -= at->size;
			add.evictions++;
		} else if (r != -ENOENT) {
			ret = r;
		}
	}
	pf_cache_count(cache, lock, &add);
	return ret;
}

/* Remove temporary files of writers that were killed: their locks are free. */
static void sweep_tmp(struct pf_cache *cache)
{
	DIR *dir = open_stream(cache->tmp);
	struct timespec now;
	struct dirent *e;

	clock_gettime(CLOCK_REALTIME, &now);
	while (dir && (e = readdir(dir))) {
		pf_autoclose int fd =
			openat(cache->tmp, e->d_name,
			       O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		struct stat st;

		if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) &&
		    now.tv_sec - st.st_mtim.tv_sec > TMP_AGE_S &&
		    !flock(fd, LOCK_EX | LOCK_NB))
			(void)unlinkat(cache->tmp, e->d_name, 0);
	}
	if (dir)
		closedir(dir);
}

/*
 * List every entry: set the counts of bytes and entries, remove old temporary files, and evict
 * entries beyond the maximum.  The caller has LOCK.
 */
static void sweep(struct pf_cache *cache, int lock)
{
	struct pf_cache_stats s, add = { 0 };
	pf_autobuf struct pf_buf list = PF_BUF_INIT;
	uint64_t max = pf_cache_max(cache);
	int64_t bytes = list_entries(cache, &list);

	sweep_tmp(cache);
	if (bytes < 0)
		return;
	pf_cache_count(cache, lock, &add);
	pf_cache_counts(cache, &s);
	add.bytes = (uint64_t)bytes - s.bytes;
	add.entries = list.len / sizeof(struct entry) - s.entries;
	pf_cache_count(cache, lock, &add);
	if ((uint64_t)bytes > max)
		(void)evict(cache, lock, &list, (uint64_t)bytes, max - max / SLACK);
}

/* KEY's file, which was ST (NULL: a symbolic link), is damaged: remove it unless another process
 * has put a good one there. */
static void drop_damaged(struct pf_cache *cache, const char *name, const struct stat *st)
{
	struct pf_cache_stats add = { 0 };
	/* Remove it even without the lock: a damaged entry must not be read again. */
	int lock = pf_cache_lock(cache, PF_CACHE_WAIT_MS);
	int r = cache->read_only ? -EROFS : remove_entry(cache, name, st, true, &add);

	add.damaged = r != -ENOENT && r != -ESTALE;
	pf_cache_count(cache, lock, &add);
	pf_cache_unlock(lock);
}

static int busy(struct pf_cache *cache, struct pf_err *err)
{
	return pf_err_set(err, -EBUSY, "another process holds %s/lock", cache->path);
}

int pf_cache_remove(struct pf_cache *cache, const struct pf_cache_key *key,
		    struct pf_err *err)
{
	struct pf_cache_stats add = { .evictions = 1 };
	char name[PF_CACHE_KEY_TEXT];
	int r, lock;

	pf_cache_key_text(key, name);
	if (!pf_cache_writable(cache))
		return pf_err_set(err, -EROFS, "the cache %s is read-only", cache->path);
	lock = pf_cache_lock(cache, PF_CACHE_WAIT_MS);
	if (lock < 0)
		return busy(cache, err);
	r = remove_entry(cache, name, NULL, false, &add);
	if (r == 0)
		pf_cache_count(cache, lock, &add);
	pf_cache_unlock(lock);
	return r < 0 ? pf_err_set(err, r, "evict %s: %s", name, strerror(-r)) : 0;
}

/* Evict entries until MAX bytes are left. */
static int shrink(struct pf_cache *cache, uint64_t max, struct pf_err *err)
{
	int r, lock = pf_cache_lock(cache, PF_CACHE_WAIT_MS);
	pf_autobuf struct pf_buf list = PF_BUF_INIT;
	int64_t bytes;

	if (lock < 0)
		return busy(cache, err);
	bytes = list_entries(cache, &list);
	r = bytes < 0 ? (int)bytes : evict(cache, lock, &list, (uint64_t)bytes, max);
	pf_cache_unlock(lock);
	return r < 0 ? pf_err_set(err, r, "evict from the cache %s: %s", cache->path,
				  strerror(-r))
		     : 0;
}

int pf_cache_clear(struct pf_cache *cache, struct pf_err *err)
{
	if (!pf_cache_writable(cache))
		return pf_err_set(err, -EROFS, "the cache %s is read-only", cache->path);
	return shrink(cache, 0, err);
}

uint64_t pf_cache_max(struct pf_cache *cache)
{
	PF_LOCK_SCOPE(&cache->lock);
	return cache->max;
}

int pf_cache_set_max(struct pf_cache *cache, uint64_t max, struct pf_err *err)
{
	if (cache->read_only)
		return pf_err_set(err, -EROFS, "the cache %s is read-only", cache->path);
	pf_lock(&cache->lock);
	cache->max = max;
	pf_unlock(&cache->lock);
	return !pf_cache_writable(cache) ? 0 : shrink(cache, max, err);
}

/* --- find and read ------------------------------------------------------------------- */

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
	if (!S_ISREG(ret->st.st_mode) || !pf_cache_trusted(cache, &ret->st))
		return pf_err_set(err, -EBADMSG,
				  "entry %s belongs to user %u and has mode %04o", name,
				  ret->st.st_uid, ret->st.st_mode & 07777U);
	n = pf_read_at(ret->fd, header, sizeof(header), 0);
	if (n < 0)
		return pf_err_set(err, (int)n, "entry %s: %s", name, strerror((int)-n));
	r = pf_cache_header_read(header, (size_t)n, (uint64_t)ret->st.st_size,
				 &ret->header, err);
	if (r == 0 && memcmp(&ret->header.key, key, sizeof(*key)))
		r = pf_err_set(err, -EBADMSG, "it has another key");
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
		drop_damaged(cache, name, r == -ELOOP ? NULL : &ret->st);
	pf_cache_found_release(ret);
	return 0;
}

void pf_cache_found_release(struct pf_cache_found *found)
{
	pf_closep(&found->fd);
}

void pf_cache_reject(struct pf_cache *cache, const struct pf_cache_found *found)
{
	char name[PF_CACHE_KEY_TEXT];

	pf_cache_key_text(&found->header.key, name);
	drop_damaged(cache, name, &found->st);
}

int pf_cache_read(struct pf_cache *cache, const struct pf_cache_found *found, void *dst,
		  struct pf_err *err)
{
	uint64_t len = pf_cache_body_len(&found->header);
	ssize_t n = pf_read_at(found->fd, dst, len, PF_CACHE_HEADER);
	int r;

	if (n < 0)
		return pf_err_set(err, (int)n, "read a cache entry: %s",
				  strerror((int)-n));
	r = (uint64_t)n == len ? pf_cache_body_check(&found->header, dst, err) : -EBADMSG;
	if (r != -EBADMSG)
		return r;
	pf_cache_reject(cache, found);
	return pf_err_set(err, r, "a cache entry is damaged");
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
	struct pf_cache_found found = { .fd = -1 };
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
		else if (pf_read_at(found.fd, dst, len, PF_CACHE_HEADER) != (ssize_t)len)
			r = pf_err_set(err, -EBADMSG, "entry %s was cut", name);
		else
			meta->len += len;
	}
	*ret = found.header;
	*st = found.st;
	pf_cache_found_release(&found);
	return r;
}

/* --- writing entries: under a temporary name, to the disk, then renamed ----------------- */

enum { PUT_CHUNK = 256 << 10 };

/* Write PARTS behind the header, each byte of them read once, and set HEADER's SHA-256. */
static int write_parts(int fd, const struct pf_cache_piece parts[PF_CACHE_PARTS],
		       struct pf_cache_header *header)
{
	EVP_MD_CTX *sha = EVP_MD_CTX_new();
	pf_autofree char *chunk = malloc(PUT_CHUNK);
	uint64_t off = PF_CACHE_HEADER;
	int r = sha && chunk && EVP_DigestInit_ex(sha, EVP_sha256(), NULL) ? 0 : -ENOMEM;

	for (int i = 0; i < PF_CACHE_PARTS; i++) {
		for (uint64_t at = 0; at < parts[i].len && r == 0;) {
			uint64_t left = parts[i].len - at;
			size_t n = left < PUT_CHUNK ? (size_t)left : PUT_CHUNK;

			memcpy(chunk, (const char *)parts[i].data + at, n);
			if (!EVP_DigestUpdate(sha, chunk, n))
				r = -ENOMEM;
			else
				r = pf_write_at(fd, chunk, n, off);
			at += n;
			off += n;
		}
		header->len[i] = parts[i].len;
	}
	if (r == 0 && !EVP_DigestFinal_ex(sha, header->sha, NULL))
		r = -ENOMEM;
	EVP_MD_CTX_free(sha);
	return r;
}

static int write_entry(int fd, const struct pf_cache_key *key,
		       const struct pf_cache_piece parts[PF_CACHE_PARTS])
{
	struct pf_cache_header header = { .key = *key };
	uint8_t bytes[PF_CACHE_HEADER];
	struct timespec now;
	int r;

	clock_gettime(CLOCK_REALTIME, &now);
	header.made_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	r = write_parts(fd, parts, &header);
	if (r == 0)
		r = pf_cache_header_write(&header, bytes, NULL);
	if (r == 0)
		r = pf_write_at(fd, bytes, sizeof(bytes), 0);
	if (r == 0 && fsync(fd))
		r = -errno;
	return r;
}

/* Rename the finished file TMP to NAME, and evict entries if the maximum is exceeded. */
static int publish(struct pf_cache *cache, const char *tmp, const char *name,
		   uint64_t size)
{
	struct pf_cache_stats s, add = { .bytes = size, .entries = 1 };
	int r = 0, lock = pf_cache_lock(cache, PF_CACHE_WAIT_MS);
	struct stat old;

	if (lock < 0)
		return -EBUSY;
	if (!fstatat(cache->entries, name, &old, AT_SYMLINK_NOFOLLOW)) {
		add.bytes -= (uint64_t)old.st_size;
		add.entries = 0;
	}
	if (renameat(cache->tmp, tmp, cache->entries, name)) {
		r = -errno;
	} else {
		pf_cache_count(cache, lock, &add);
		pf_cache_counts(cache, &s);
		if (s.bytes > pf_cache_max(cache))
			sweep(cache, lock);
	}
	pf_cache_unlock(lock);
	return r;
}

/* --- the outcome of the last write ------------------------------------------------------ */

int pf_cache_failing(struct pf_cache *cache, struct pf_err *err)
{
	char name[PF_CACHE_KEY_TEXT];

	PF_LOCK_SCOPE(&cache->lock);
	if (!cache->failing)
		return 0;
	pf_cache_key_text(&cache->failed, name);
	return pf_err_set(err, cache->failing, "write entry %s: %s", name,
			  strerror(-cache->failing));
}

uint64_t pf_cache_write_errors(struct pf_cache *cache)
{
	PF_LOCK_SCOPE(&cache->lock);
	return cache->write_errors;
}

/*
 * Remember that the write of KEY's entry ended with R (0 or -errno), and warn if that is new.
 * Another process's lock (EBUSY) and a directory that was opened read-only cause a warning, but do
 * not count as failures of the disk.
 */
static void note_end(struct pf_cache *cache, const struct pf_cache_key *key, int r)
{
	bool counts = r != -EBUSY && (pf_cache_writable(cache) || r != -EROFS);
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	bool news;

	pf_lock(&cache->lock);
	news = cache->warned != (r < 0) || (r < 0 && counts && !cache->failing);
	cache->warned = r < 0;
	if (counts) {
		cache->failing = r;
		cache->failed = *key;
		cache->write_errors += r < 0;
	}
	pf_unlock(&cache->lock);
	if (!news || !cache->warn)
		return;
	if (r < 0)
		pf_buf_printf(&text,
			      "compiled programs cannot be kept in the cache %s: %s; "
			      "they are compiled each time",
			      cache->path, strerror(-r));
	else
		pf_buf_printf(&text, "compiled programs are kept in the cache %s again",
			      cache->path);
	if (text.data)
		cache->warn(cache->arg, text.data);
}

static int try_put(struct pf_cache *cache, const struct pf_cache_key *key,
		   const struct pf_cache_piece parts[PF_CACHE_PARTS], uint64_t size)
{
	char name[PF_CACHE_KEY_TEXT], tmp[32];
	pf_autoclose int fd = -1;
	int r;

	if (!pf_cache_writable(cache))
		return cache->unwritable;
	fd = pf_cache_tmp(cache, tmp);
	if (fd < 0)
		return fd;
	pf_cache_key_text(key, name);
	r = write_entry(fd, key, parts);
	if (r == 0)
		r = publish(cache, tmp, name, size);
	if (r < 0)
		(void)unlinkat(cache->tmp, tmp, 0);
	return r;
}

int pf_cache_put(struct pf_cache *cache, const struct pf_cache_key *key,
		 const struct pf_cache_piece parts[PF_CACHE_PARTS])
{
	uint64_t size = PF_CACHE_HEADER;
	int r;

	for (int i = 0; i < PF_CACHE_PARTS; i++)
		if (__builtin_add_overflow(size, parts[i].len, &size))
			return -EFBIG;
	if (size > pf_cache_max(cache) || size > INT64_MAX ||
	    parts[PF_CACHE_META].len > PF_CACHE_META_MAX)
		return -EFBIG;
	if (cache->read_only)
		return -EROFS;
	r = try_put(cache, key, parts, size);
	if (r == -ENOENT && pf_cache_reopen(cache))
		r = try_put(cache, key, parts, size);
	note_end(cache, key, r);
	return r;
}

/* --- digests of plugins' files: lines "SHA WHAT", the newest first ---------------------- */

enum {
	DIGEST_CHUNK = 1 << 20,
	MAX_DIGESTS = 8 << 10, /* bytes of the file that has them */
	WHAT_TEXT = 160,
};

/* The identity of a file that stat(2) shows, as the end of a line. */
static void what_of(const struct stat *st, char dst[WHAT_TEXT])
{
	snprintf(dst, WHAT_TEXT,
		 " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 ".%09ld %" PRId64
		 ".%09ld\n",
		 (uint64_t)st->st_dev, (uint64_t)st->st_ino, (int64_t)st->st_size,
		 (int64_t)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
		 (int64_t)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
}

/* The SHA-256 before WHAT in LINES.  False: no line has it, or it is damaged. */
static bool find_digest(const struct pf_buf *lines, const char *what,
			uint8_t ret[PF_SHA256])
{
	const char *at = lines->data ? strstr(lines->data, what) : NULL;

	return at && at - lines->data >= 2 * PF_SHA256 &&
	       pf_unhex(at - 2 * PF_SHA256, PF_SHA256, ret);
}

static void add_digest(struct pf_buf *lines, const uint8_t sha[PF_SHA256],
		       const char *what)
{
	char hex[2 * PF_SHA256 + 1];

	pf_buf_printf(lines, "%s%s", pf_hex(sha, PF_SHA256, hex), what);
}

/* Append the lines that this and other daemons saved. */
static void load_digests(struct pf_cache *cache, struct pf_buf *lines)
{
	pf_autoclose int fd = openat(cache->dir, "plugins",
				     O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd >= 0 && !fstat(fd, &st) && pf_cache_trusted(cache, &st))
		(void)pf_read_all(fd, MAX_DIGESTS, lines);
}

/* Save LINES.  If that fails, the next daemon hashes the file again. */
static void save_digests(struct pf_cache *cache, const struct pf_buf *lines)
{
	size_t len = lines->len < MAX_DIGESTS ? lines->len : MAX_DIGESTS;
	pf_autoclose int fd = -1;
	char tmp[32];

	if (!lines->failed && pf_cache_writable(cache))
		fd = pf_cache_tmp(cache, tmp);
	if (fd >= 0 && (pf_write_at(fd, lines->data, len, 0) < 0 || fsync(fd) ||
			renameat(cache->tmp, tmp, cache->dir, "plugins")))
		(void)unlinkat(cache->tmp, tmp, 0);
}

static int hash_file(int fd, uint8_t ret[PF_SHA256])
{
	EVP_MD_CTX *sha = EVP_MD_CTX_new();
	pf_autofree char *chunk = malloc(DIGEST_CHUNK);
	ssize_t n = 1;
	int r = sha && chunk && EVP_DigestInit_ex(sha, EVP_sha256(), NULL) ? 0 : -ENOMEM;

	while (r == 0 && n) {
		n = read(fd, chunk, DIGEST_CHUNK);
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

/* Hash the file PATH, which must be WHAT before and after that. */
static int hash(const char *path, const char *what, uint8_t ret[PF_SHA256],
		struct pf_err *err)
{
	pf_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	char before[WHAT_TEXT], after[WHAT_TEXT];
	struct stat st;
	int r = fd < 0 || fstat(fd, &st) ? -errno : 0;

	if (r == 0) {
		what_of(&st, before);
		r = hash_file(fd, ret);
	}
	if (r == 0 && fstat(fd, &st))
		r = -errno;
	if (r < 0)
		return pf_err_set(err, r, "read %s: %s", path, strerror(-r));
	what_of(&st, after);
	if (strcmp(before, what) || strcmp(after, what))
		return pf_err_set(err, -ESTALE, "%s has changed since it was loaded",
				  path);
	return 0;
}

/* Find WHAT in the file of digests, or hash PATH and add a line to that file. */
static int find_or_hash(struct pf_cache *cache, const char *path, const char *what,
			uint8_t ret[PF_SHA256], struct pf_err *err)
{
	pf_autobuf struct pf_buf saved = PF_BUF_INIT, lines = PF_BUF_INIT;
	int r;

	load_digests(cache, &saved);
	if (find_digest(&saved, what, ret))
		return 0;
	r = hash(path, what, ret, err);
	if (r < 0)
		return r;
	add_digest(&lines, ret, what);
	pf_buf_append(&lines, saved.data, saved.len);
	save_digests(cache, &lines);
	return 0;
}

int pf_cache_file_digest(struct pf_cache *cache, const char *path, const struct stat *st,
			 uint8_t ret[PF_SHA256], struct pf_err *err)
{
	char what[WHAT_TEXT];
	bool known;
	int r;

	what_of(st, what);
	if (!cache)
		return hash(path, what, ret, err);
	pf_lock(&cache->lock);
	while (!(known = find_digest(&cache->digests, what, ret)) && cache->hashing)
		pthread_cond_wait(&cache->hashed, &cache->lock);
	cache->hashing |= !known;
	pf_unlock(&cache->lock);
	if (known)
		return 0;
	r = find_or_hash(cache, path, what, ret, err);
	pf_lock(&cache->lock);
	if (r == 0)
		add_digest(&cache->digests, ret, what);
	cache->hashing = false;
	pthread_cond_broadcast(&cache->hashed);
	pf_unlock(&cache->lock);
	return r;
}

/* --- open and close ------------------------------------------------------------------ */

int pf_cache_open(const struct pf_cache_config *config, struct pf_cache **ret,
		  struct pf_err *err)
{
	struct pf_cache *cache = calloc(1, sizeof(*cache));
	int r, lock;

	if (!cache)
		return pf_err_set(err, -ENOMEM, "no memory for a cache");
	if (pthread_mutex_init(&cache->lock, NULL) ||
	    pthread_cond_init(&cache->hashed, NULL))
		abort();
	cache->unwritable = -EROFS;
	cache->read_only = config->read_only;
	cache->dir = cache->entries = cache->tmp = cache->stats_fd = -1;
	cache->max = config->max;
	cache->warn = config->warn;
	cache->arg = config->arg;
	cache->path = strdup(config->dir);
	r = cache->path ? pf_cache_open_files(cache, err)
			: pf_err_set(err, -ENOMEM, "no memory for a cache");
	if (r < 0) {
		pf_cache_close(cache);
		return pf_err_wrap(err, r, "cache directory %s", config->dir);
	}
	lock = pf_cache_lock(cache, PF_CACHE_WAIT_MS);
	if (lock >= 0)
		sweep(cache, lock);
	pf_cache_unlock(lock);
	*ret = cache;
	return 0;
}

void pf_cache_close(struct pf_cache *cache)
{
	int lock;

	if (!cache)
		return;
	lock = pf_cache_lock(cache, PF_CACHE_WAIT_MS);
	pf_cache_count(cache, lock, &(struct pf_cache_stats){ 0 });
	pf_cache_unlock(lock);
	pf_buf_release(&cache->digests);
	pf_cache_close_files(cache);
	pthread_mutex_destroy(&cache->lock);
	pthread_cond_destroy(&cache->hashed);
	free(cache->path);
	free(cache);
}

bool pf_cache_is_read_only(const struct pf_cache *cache)
{
	return cache->read_only;
}

const char *pf_cache_dir(const struct pf_cache *cache)
{
	return cache->path;
}
