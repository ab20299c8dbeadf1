/* SPDX-License-Identifier: Apache-2.0 */
/* The cache and its directory, for the files of the layer. */
#ifndef PJRTFS_CACHE_INTERNAL_H
#define PJRTFS_CACHE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "pjrtfs/cache.h"

struct pf_cache {
	char *path;       /* owned */
	int dir;          /* owned: the directory */
	int entries, tmp; /* owned: the directories in it; -1: no such directory */
	int stats_fd;     /* owned; -1: the directory is read-only */
	int unwritable;   /* then, why: -EROFS: on purpose; else it could not be opened */
	bool read_only;   /* the configuration says so */
	uid_t owner;      /* of the directory */
	void (*warn)(void *arg, const char *text);
	void *arg;
	/* Called for entries that are removed; may be NULL. */
	void (*gone)(void *arg, const char *key, uint64_t bytes, bool damaged);
	void *gone_arg;
	_Atomic uint64_t last_tmp; /* numbers temporary names */

	/* Rank 8; protects the fields below.  No thread does I/O with it. */
	pthread_mutex_t lock;
	uint64_t max;
	struct pf_cache_stats pending; /* to be added to the file, if it can be written */
	int failing; /* -errno of the last write that failed; 0: it did not */
	uint64_t write_errors;
	struct pf_cache_key failed; /* the entry of that write */
	bool warned;
	struct pf_buf digests; /* owned: those used so far, as lines of plugins */
	bool hashing;          /* a thread reads a plugin's file */
	pthread_cond_t hashed; /* hashing is false */
};

/* --- directory.c ----------------------------------------------------------------------- */

/*
 * Can no user but root and this one write to the file or directory that ST describes?  Of a
 * read-only cache, the directory's owner may, too.
 */
bool pf_cache_trusted(const struct pf_cache *cache, const struct stat *st);

/* Open the files of the directory at cache->path, and make the missing ones.  -errno. */
int pf_cache_open_files(struct pf_cache *cache, struct pf_err *err);
void pf_cache_close_files(struct pf_cache *cache);

/* The directory, or files in it, were removed: make them again.  False: that failed. */
bool pf_cache_reopen(struct pf_cache *cache);

bool pf_cache_writable(const struct pf_cache *cache);

/* Make a file in tmp, O_EXCL and flocked, NAME its name (32 bytes); fd or -errno. */
int pf_cache_tmp(struct pf_cache *cache, char name[32]);

enum { PF_CACHE_WAIT_MS = 2000 };

/*
 * Take the lock between threads and processes: a descriptor for pf_cache_unlock, or -1: the
 * directory is read-only, or another thread or process had the lock for MS milliseconds.
 */
int pf_cache_lock(struct pf_cache *cache, unsigned ms);
void pf_cache_unlock(int lock); /* -1 is allowed */

/*
 * Change the counts by the differences in ADD (negative ones wrap): in the file if the caller has
 * LOCK, else (-1) in memory, until the next change with the lock.
 */
void pf_cache_count(struct pf_cache *cache, int lock, const struct pf_cache_stats *add);

/* Read the counts; all but writable.  Takes no lock between processes. */
void pf_cache_counts(struct pf_cache *cache, struct pf_cache_stats *ret);

#endif
