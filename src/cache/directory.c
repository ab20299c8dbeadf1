/* SPDX-License-Identifier: Apache-2.0 */
/* The directory: its files, its lock and its counts, which all daemons share. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "internal.h"

enum {
	RECORD = 256,       /* bytes of the counts' file */
	COUNT_WAIT_MS = 20, /* counting waits no longer for the lock */
};

/* --- its files --------------------------------------------------------------------------- */

bool pf_cache_trusted(const struct pf_cache *cache, const struct stat *st)
{
	return (st->st_uid == geteuid() || st->st_uid == 0 ||
		(cache->read_only && st->st_uid == cache->owner)) &&
	       !(st->st_mode & (S_IWGRP | S_IWOTH));
}

/* --- open and close ------------------------------------------------------------------ */

/* Make PATH and its missing parents. */
static int make_path(const char *path, struct pf_err *err)
{
	pf_autofree char *copy = strdup(path);

	if (!copy)
		return pf_err_set(err, -ENOMEM, "no memory for a path");
	pf_make_parents(copy);
	if (mkdir(copy, 0700) && errno != EEXIST)
		return pf_err_set(err, -errno, "make it: %s", strerror(errno));
	return 0;
}

/*
 * Does the directory PATH below AT, which seems to be this user's, belong to another one?  In a user
 * namespace all others' files seem to be those of the user nobody, which may be this user; the kernel allows
 * O_NOATIME to the owner alone.
 */
static bool is_foreign(int at, const char *path)
{
	pf_autoclose int fd =
		openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME);

	return fd < 0 && errno == EPERM;
}

/* Open CACHE's directory PATH below AT into *RET; -EPERM if it is not to be trusted. */
static int open_dir(struct pf_cache *cache, int at, const char *path, int *ret,
		    struct pf_err *err)
{
	pf_autoclose int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return pf_err_set(err, -errno, "%s: %s", path, strerror(errno));
	if (at == AT_FDCWD)
		cache->owner = st.st_uid;
	if (!pf_cache_trusted(cache, &st) ||
	    (!cache->read_only && st.st_uid == geteuid() && is_foreign(at, path)))
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

/* errno says why CACHE cannot be written: missing rights are intended, a full disk is a failure. */
static void note_unwritable(struct pf_cache *cache)
{
	if (errno != EROFS && errno != EACCES && errno != EPERM)
		cache->unwritable = -errno;
}

/* Open a directory in the cache's, made if possible; else *RET stays -1. */
static int open_sub(struct pf_cache *cache, const char *name, int *ret,
		    struct pf_err *err)
{
	int r = open_dir(cache, cache->dir, name, ret, err);

	if (r != -ENOENT)
		return r;
	if (cache->read_only)
		return 0;
	if (mkdirat(cache->dir, name, 0700) && errno != EEXIST) {
		note_unwritable(cache);
		return 0;
	}
	return open_dir(cache, cache->dir, name, ret, err);
}

static int open_file(struct pf_cache *cache, const char *name)
{
	int fd =
		openat(cache->dir, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		note_unwritable(cache);
	return fd;
}

int pf_cache_open_files(struct pf_cache *cache, struct pf_err *err)
{
	int made = cache->read_only ? 0 : make_path(cache->path, err);
	/* A directory that cannot be made may still be there. */
	int r = open_dir(cache, AT_FDCWD, cache->path, &cache->dir,
			 made < 0 ? NULL : err);

	if (r < 0)
		return made < 0 ? made : r;
	r = open_sub(cache, "entries", &cache->entries, err);
	if (r == 0)
		r = open_sub(cache, "tmp", &cache->tmp, err);
	if (r < 0 || cache->read_only)
		return r;
	if (cache->entries >= 0 && cache->tmp >= 0 &&
	    faccessat(cache->tmp, ".", W_OK, AT_EACCESS) == 0) {
		pf_autoclose int lock = open_file(cache, "lock");

		if (lock >= 0)
			cache->stats_fd = open_file(cache, "stats");
	}
	return 0;
}

void pf_cache_close_files(struct pf_cache *cache)
{
	pf_closep(&cache->dir);
	pf_closep(&cache->entries);
	pf_closep(&cache->tmp);
	pf_closep(&cache->stats_fd);
}

/* Replace what the descriptors refer to, not their numbers, which other threads are using. */
static bool replace_all(struct pf_cache *to, const struct pf_cache *from)
{
	PF_LOCK_SCOPE(&to->lock); /* all of one thread */
	return dup3(from->dir, to->dir, O_CLOEXEC) >= 0 &&
	       dup3(from->entries, to->entries, O_CLOEXEC) >= 0 &&
	       dup3(from->tmp, to->tmp, O_CLOEXEC) >= 0 &&
	       dup3(from->stats_fd, to->stats_fd, O_CLOEXEC) >= 0;
}

bool pf_cache_reopen(struct pf_cache *cache)
{
	struct pf_cache fresh = {
		.path = cache->path, .dir = -1, .entries = -1, .tmp = -1, .stats_fd = -1
	};
	bool ok = pf_cache_writable(cache) && pf_cache_open_files(&fresh, NULL) == 0 &&
		  pf_cache_writable(&fresh) && replace_all(cache, &fresh);

	pf_cache_close_files(&fresh);
	return ok;
}

int pf_cache_tmp(struct pf_cache *cache, char name[32])
{
	for (int tries = 0; tries < 1000; tries++) {
		int fd;

		snprintf(name, 32, "%d.%" PRIu64, (int)getpid(),
			 atomic_fetch_add(&cache->last_tmp, 1));
		fd = openat(cache->tmp, name,
			    O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		/* Other processes keep the file while its lock is held, which shows that
		 * its writer lives. */
		if (fd >= 0)
			(void)flock(fd, LOCK_EX | LOCK_NB);
		if (fd >= 0 || errno != EEXIST)
			return fd >= 0 ? fd : -errno;
	}
	return -EEXIST;
}

/* --- the lock -------------------------------------------------------------------------- */

bool pf_cache_writable(const struct pf_cache *cache)
{
	return cache->stats_fd >= 0;
}

int pf_cache_lock(struct pf_cache *cache, unsigned ms)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	int fd = pf_cache_writable(cache) ? open_file(cache, "lock") : -1;

	/* Never wait in flock(2): a daemon that was stopped would stop all others. */
	for (unsigned i = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB); i++) {
		if (i >= ms)
			pf_closep(&fd);
		else
			nanosleep(&pause, NULL);
	}
	return fd;
}

void pf_cache_unlock(int lock)
{
	if (lock < 0)
		return;
	/* A process that is being started may have the descriptor, too, until it calls exec. */
	(void)flock(lock, LOCK_UN);
	close(lock);
}

/* --- counts ---------------------------------------------------------------------------- */

static const char record_form[] =
	"pjrtfs cache: hits %" SCNu64 " misses %" SCNu64 " evictions %" SCNu64
	" damaged %" SCNu64 " bytes %" SCNu64 " entries %" SCNu64;

/* A record that cannot be read counts as zero; the next sweep counts the entries anew. */
static void read_record(struct pf_cache *cache, struct pf_cache_stats *ret)
{
	char text[RECORD + 1] = "";
	struct pf_cache_stats s = { 0 };

	memset(ret, 0, sizeof(*ret));
	if (pread(cache->stats_fd, text, RECORD, 0) > 0 &&
	    sscanf(text, record_form, &s.hits, &s.misses, &s.evictions, &s.damaged,
		   &s.bytes, &s.entries) == 6)
		*ret = s;
}

static void add_to(struct pf_cache_stats *s, const struct pf_cache_stats *add)
{
	s->hits += add->hits;
	s->misses += add->misses;
	s->evictions += add->evictions;
	s->damaged += add->damaged;
	s->bytes += add->bytes;
	s->entries += add->entries;
}

static void write_record(struct pf_cache *cache, const struct pf_cache_stats *s)
{
	char text[RECORD + 1];
	int n = snprintf(text, sizeof(text),
			 "pjrtfs cache: hits %" PRIu64 " misses %" PRIu64
			 " evictions %" PRIu64 " damaged %" PRIu64 " bytes %" PRIu64
			 " entries %" PRIu64 " ",
			 s->hits, s->misses, s->evictions, s->damaged, s->bytes,
			 s->entries);

	memset(text + n, ' ', sizeof(text) - 1 - (size_t)n);
	text[RECORD - 1] = '\n';
	/* A failure to count is not reported. */
	if (pwrite(cache->stats_fd, text, RECORD, 0) != RECORD)
		return;
}

/* Add the pending counts to S; with TAKE clear them. */
static void add_pending(struct pf_cache *cache, struct pf_cache_stats *s, bool take)
{
	PF_LOCK_SCOPE(&cache->lock);
	add_to(s, &cache->pending);
	/* Another process's crash may have lost a count: a negative sum counts as 0. */
	if ((int64_t)s->bytes < 0)
		s->bytes = 0;
	if ((int64_t)s->entries < 0)
		s->entries = 0;
	if (take)
		memset(&cache->pending, 0, sizeof(cache->pending));
}

void pf_cache_count(struct pf_cache *cache, int lock, const struct pf_cache_stats *add)
{
	struct pf_cache_stats s;

	pf_lock(&cache->lock);
	add_to(&cache->pending, add);
	pf_unlock(&cache->lock);
	if (lock < 0)
		return;
	read_record(cache, &s);
	add_pending(cache, &s, true);
	write_record(cache, &s);
}

void pf_cache_counts(struct pf_cache *cache, struct pf_cache_stats *ret)
{
	read_record(cache, ret);
	add_pending(cache, ret, false);
}

void pf_cache_miss(struct pf_cache *cache)
{
	int lock = pf_cache_lock(cache, COUNT_WAIT_MS);

	pf_cache_count(cache, lock, &(struct pf_cache_stats){ .misses = 1 });
	pf_cache_unlock(lock);
}

/* Count a use in the entry's own header.  Locked, so that none is lost. */
static void count_use_locked(struct pf_cache *cache, const char *name)
{
	uint64_t uses;
	pf_autoclose int fd = openat(cache->entries, name,
				     O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0 || pread(fd, &uses, sizeof(uses), PF_CACHE_USES_AT) != sizeof(uses))
		return;
	uses = htole64(le64toh(uses) + 1);
	(void)!pwrite(fd, &uses, sizeof(uses), PF_CACHE_USES_AT);
	(void)futimens(fd, NULL);
}

void pf_cache_hit(struct pf_cache *cache, const struct pf_cache_found *found)
{
	int lock = pf_cache_lock(cache, COUNT_WAIT_MS);
	char name[PF_CACHE_KEY_TEXT];

	if (found && lock >= 0) {
		pf_cache_key_text(&found->header.key, name);
		count_use_locked(cache, name);
	} else if (found && pf_cache_writable(cache)) {
		(void)futimens(found->fd, NULL);
	}
	pf_cache_count(cache, lock, &(struct pf_cache_stats){ .hits = 1 });
	pf_cache_unlock(lock);
}
