/* SPDX-License-Identifier: Apache-2.0 */
/* What is in the directory: listed, counted, evicted. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "internal.h"

enum {
	TMP_AGE_S = 10, /* a temporary file without a lock may be just about to get one */
	SLACK = 16,     /* making room, a 16th more than needed goes */
};

/* --- listing ------------------------------------------------------------------------- */

struct entry {
	struct pf_cache_key key;
	struct timespec used;
	uint64_t size;
};

struct listing {
	struct entry *entries; /* owned */
	size_t n, cap;
	uint64_t bytes;
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

static int add_entry(struct listing *list, const struct pf_cache_key *key,
		     const struct stat *st)
{
	if (list->n == list->cap) {
		size_t cap = list->cap ? 2 * list->cap : 256;
		struct entry *grown = realloc(list->entries, cap * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		list->entries = grown;
		list->cap = cap;
	}
	list->entries[list->n++] =
		(struct entry){ *key, st->st_mtim, (uint64_t)st->st_size };
	list->bytes += (uint64_t)st->st_size;
	return 0;
}

static int list_entries(struct pf_cache *cache, struct listing *list)
{
	DIR *dir = cache->entries < 0 ? NULL : open_stream(cache->entries);
	struct pf_cache_key key;
	struct dirent *e;
	struct stat st;
	int r = 0;

	memset(list, 0, sizeof(*list));
	if (!dir)
		return cache->entries < 0 ? 0 : -errno;
	while (r == 0 && (e = readdir(dir)))
		if (pf_cache_key_parse(e->d_name, &key) &&
		    !fstatat(cache->entries, e->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
		    S_ISREG(st.st_mode))
			r = add_entry(list, &key, &st);
	closedir(dir);
	return r;
}

int pf_cache_list(struct pf_cache *cache, struct pf_cache_key **ret, size_t *n,
		  struct pf_err *err)
{
	struct listing list;
	int r = list_entries(cache, &list);

	*ret = r < 0 ? NULL : calloc(list.n + 1, sizeof(**ret));
	*n = 0;
	for (size_t i = 0; *ret && i < list.n; i++)
		(*ret)[(*n)++] = list.entries[i].key;
	free(list.entries);
	if (*ret)
		return 0;
	return pf_err_set(err, r < 0 ? r : -ENOMEM, "list the cache %s: %s", cache->path,
			  strerror(r < 0 ? -r : ENOMEM));
}

void pf_cache_stats(struct pf_cache *cache, struct pf_cache_stats *ret)
{
	struct listing list;

	if (cache->lock_fd >= 0) {
		pf_cache_read_stats(cache, ret);
		ret->writable = true;
		return;
	}
	pf_lock(&cache->lock);
	*ret = cache->pending;
	pf_unlock(&cache->lock);
	if (list_entries(cache, &list) == 0) {
		ret->entries = list.n;
		ret->bytes = list.bytes;
	}
	free(list.entries);
}

static void tell(struct pf_cache *cache, const char *name, uint64_t bytes, bool damaged)
{
	if (cache->gone)
		cache->gone(cache->gone_arg, name, bytes, damaged);
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

/* Evict the oldest of LIST until at most MAX bytes are left.  0 or the last -errno. */
static int evict_locked(struct pf_cache *cache, struct listing *list, uint64_t max)
{
	struct pf_cache_stats add = { 0 };
	char name[PF_CACHE_KEY_TEXT];
	int r = 0;

	qsort(list->entries, list->n, sizeof(*list->entries), oldest_first);
	for (size_t i = 0; i < list->n && list->bytes > max; i++) {
		pf_cache_key_text(&list->entries[i].key, name);
		if (unlinkat(cache->entries, name, 0)) {
			r = errno == ENOENT ? r : -errno;
			continue;
		}
		list->bytes -= list->entries[i].size;
		add.bytes -= list->entries[i].size;
		add.entries--;
		add.evictions++;
		tell(cache, name, list->entries[i].size, false);
	}
	pf_cache_count_locked(cache, &add);
	return r;
}

/* What a writer left that was killed: nobody holds its lock. */
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

void pf_cache_sweep_locked(struct pf_cache *cache)
{
	struct listing list;

	sweep_tmp(cache);
	if (list_entries(cache, &list) == 0) {
		pf_cache_recount_locked(cache, list.bytes, list.n);
		if (list.bytes > cache->max)
			(void)evict_locked(cache, &list, cache->max - cache->max / SLACK);
	}
	free(list.entries);
}

void pf_cache_drop(struct pf_cache *cache, const char *name, const struct stat *st,
		   const struct pf_cache_stats *add)
{
	/* Without the lock, too: nobody shall read what is bad. */
	bool locked = pf_cache_lock(cache, PF_CACHE_WAIT_MS);
	struct pf_cache_stats all = { 0 };
	struct stat now;

	/* Somebody may have put a good one there meanwhile: that one stays. */
	if (fstatat(cache->entries, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
	    (!st || (now.st_ino == st->st_ino && now.st_dev == st->st_dev))) {
		all = *add;
		if (unlinkat(cache->entries, name, 0) == 0) {
			all.bytes -= (uint64_t)now.st_size;
			all.entries--;
			tell(cache, name, (uint64_t)now.st_size, true);
		}
	}
	if (locked)
		pf_cache_count_locked(cache, &all);
	else
		pf_cache_count_later(cache, &all);
	if (locked)
		pf_cache_unlock(cache);
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
	struct stat st;
	int r = 0;

	pf_cache_key_text(key, name);
	if (cache->lock_fd < 0)
		return pf_err_set(err, -EROFS, "the cache %s is read-only", cache->path);
	if (!pf_cache_lock(cache, PF_CACHE_WAIT_MS))
		return busy(cache, err);
	if (fstatat(cache->entries, name, &st, AT_SYMLINK_NOFOLLOW) ||
	    unlinkat(cache->entries, name, 0)) {
		r = -errno;
	} else {
		add.bytes -= (uint64_t)st.st_size;
		add.entries--;
		pf_cache_count_locked(cache, &add);
		tell(cache, name, (uint64_t)st.st_size, false);
	}
	pf_cache_unlock(cache);
	return r < 0 ? pf_err_set(err, r, "evict %s: %s", name, strerror(-r)) : 0;
}

/* Evict all beyond MAX bytes. */
static int shrink(struct pf_cache *cache, uint64_t max, struct pf_err *err)
{
	struct listing list;
	int r;

	if (!pf_cache_lock(cache, PF_CACHE_WAIT_MS))
		return busy(cache, err);
	r = list_entries(cache, &list);
	if (r == 0 && list.bytes > max)
		r = evict_locked(cache, &list, max);
	pf_cache_unlock(cache);
	free(list.entries);
	return r < 0 ? pf_err_set(err, r, "evict from the cache %s: %s", cache->path,
				  strerror(-r))
		     : 0;
}

int pf_cache_clear(struct pf_cache *cache, struct pf_err *err)
{
	if (cache->lock_fd < 0)
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
	pf_lock(&cache->lock);
	cache->max = max;
	pf_unlock(&cache->lock);
	return cache->lock_fd < 0 ? 0 : shrink(cache, max, err);
}
