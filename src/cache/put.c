/* SPDX-License-Identifier: Apache-2.0 */
/* Writing entries: under a temporary name, to the disk, then to their own. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "internal.h"

enum { CHUNK = 256 << 10 };

int pf_cache_tmp(struct pf_cache *cache, char name[32])
{
	for (int tries = 0; tries < 1000; tries++) {
		int fd;

		snprintf(name, 32, "%d.%" PRIu64, (int)getpid(),
			 atomic_fetch_add(&cache->last_tmp, 1));
		fd = openat(cache->tmp, name,
			    O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		/* Who holds the lock lives: others leave the file alone. */
		if (fd >= 0)
			(void)flock(fd, LOCK_EX | LOCK_NB);
		if (fd >= 0 || errno != EEXIST)
			return fd >= 0 ? fd : -errno;
	}
	return -EEXIST;
}

static int write_all(int fd, const void *src, size_t len, uint64_t off)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pwrite(fd, (const char *)src + done, len - done,
				   (off_t)(off + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		done += (size_t)n;
	}
	return 0;
}

/* Write PARTS behind the header, each byte of them read once, and set HEADER's SHA-256. */
static int write_parts(int fd, const struct pf_cache_piece parts[PF_CACHE_PARTS],
		       struct pf_cache_header *header)
{
	EVP_MD_CTX *sha = EVP_MD_CTX_new();
	pf_autofree char *chunk = malloc(CHUNK);
	uint64_t off = PF_CACHE_HEADER;
	int r = sha && chunk && EVP_DigestInit_ex(sha, EVP_sha256(), NULL) ? 0 : -ENOMEM;

	for (int i = 0; i < PF_CACHE_PARTS; i++) {
		for (uint64_t at = 0; at < parts[i].len && r == 0;) {
			uint64_t left = parts[i].len - at;
			size_t n = left < CHUNK ? (size_t)left : CHUNK;

			memcpy(chunk, (const char *)parts[i].data + at, n);
			if (!EVP_DigestUpdate(sha, chunk, n))
				r = -ENOMEM;
			else
				r = write_all(fd, chunk, n, off);
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
		r = write_all(fd, bytes, sizeof(bytes), 0);
	if (r == 0 && fsync(fd))
		r = -errno;
	return r;
}

/* Give the finished file TMP its NAME, and make room if that was too much. */
static int publish(struct pf_cache *cache, const char *tmp, const char *name,
		   uint64_t size)
{
	struct pf_cache_stats add = { .bytes = size, .entries = 1 };
	struct stat old;
	int r = 0;

	if (!pf_cache_lock(cache, PF_CACHE_WAIT_MS))
		return -EBUSY;
	if (!fstatat(cache->entries, name, &old, AT_SYMLINK_NOFOLLOW)) {
		add.bytes -= (uint64_t)old.st_size;
		add.entries = 0;
	}
	if (renameat(cache->tmp, tmp, cache->entries, name)) {
		r = -errno;
	} else {
		pf_cache_count_locked(cache, &add);
		if (pf_cache_bytes_locked(cache) > cache->max)
			pf_cache_sweep_locked(cache);
	}
	pf_cache_unlock(cache);
	return r;
}

/* --- how the last one ended ----------------------------------------------------------- */

int pf_cache_failing(struct pf_cache *cache, struct pf_err *err)
{
	PF_LOCK_SCOPE(&cache->failing_lock);
	if (cache->failing.code && err)
		*err = cache->failing;
	return cache->failing.code;
}

/*
 * Remember that a write failed with ERR, or succeeded (its code is 0); true: the log says so now.
 * Another process's lock (EBUSY) and a directory that was opened only for reading are warned of,
 * but are no failure of the disk.
 */
static bool note_end(struct pf_cache *cache, const struct pf_err *err)
{
	bool remembered =
		err->code != -EBUSY && (cache->lock_fd >= 0 || err->code != -EROFS);
	bool news;

	PF_LOCK_SCOPE(&cache->failing_lock);
	news = cache->warned != (err->code < 0) ||
	       (err->code < 0 && remembered && !cache->failing.code);
	cache->warned = err->code < 0;
	if (remembered)
		cache->failing = *err;
	return news;
}

static void tell_end(struct pf_cache *cache, int code)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;

	if (code < 0)
		pf_buf_printf(
			&text,
			"compiled programs cannot be kept in the cache %s: %s; they "
			"are compiled each time",
			cache->path, strerror(-code));
	else
		pf_buf_printf(&text, "compiled programs are kept in the cache %s again",
			      cache->path);
	if (cache->warn && text.data)
		cache->warn(cache->arg, text.data);
}

static int try_put(struct pf_cache *cache, const struct pf_cache_key *key,
		   const struct pf_cache_piece parts[PF_CACHE_PARTS], uint64_t size)
{
	char name[PF_CACHE_KEY_TEXT], tmp[32];
	pf_autoclose int fd = -1;
	int r;

	if (cache->lock_fd < 0)
		return cache->read_only;
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
		 const struct pf_cache_piece parts[PF_CACHE_PARTS], struct pf_err *err)
{
	uint64_t size = PF_CACHE_HEADER;
	struct pf_err why = PF_ERR_INIT;
	char name[PF_CACHE_KEY_TEXT];
	int r;

	for (int i = 0; i < PF_CACHE_PARTS; i++)
		if (__builtin_add_overflow(size, parts[i].len, &size))
			size = UINT64_MAX;
	if (size > pf_cache_max(cache) || size > INT64_MAX ||
	    parts[PF_CACHE_META].len > PF_CACHE_META_MAX)
		return pf_err_set(err, -EFBIG,
				  "an entry of %" PRIu64
				  " bytes is too large for the cache",
				  size);
	r = try_put(cache, key, parts, size);
	if (r == -ENOENT && pf_cache_reopen(cache))
		r = try_put(cache, key, parts, size);
	pf_cache_key_text(key, name);
	if (r < 0)
		pf_err_set(&why, r, "write entry %s: %s", name, strerror(-r));
	if (note_end(cache, &why))
		tell_end(cache, r);
	if (r < 0 && err)
		*err = why;
	return r;
}
