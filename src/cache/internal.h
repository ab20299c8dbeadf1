/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the cache share.  Private to the layer. */
#ifndef PJRTFS_CACHE_INTERNAL_H
#define PJRTFS_CACHE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "pjrtfs/cache.h"

struct pf_cache_digest; /* digest.c's memory */

struct pf_cache {
	char *path;            /* owned */
	int dir;               /* owned: the directory */
	int entries, tmp;      /* owned: those in it; -1: there is none */
	int lock_fd, stats_fd; /* owned; -1: the directory is read-only */
	int read_only;         /* why: -EROFS: on purpose; else it could not be opened */
	void (*warn)(void *arg, const char *text);
	void *arg;
	/* Told of entries that are removed; may be NULL. */
	void (*gone)(void *arg, const char *key, uint64_t bytes, bool damaged);
	void *gone_arg;
	_Atomic uint64_t last_tmp; /* numbers temporary names */

	pthread_mutex_t
		lock; /* rank 8; protects what follows and holds lock_fd's flock */
	uint64_t max;
	struct pf_cache_stats pending; /* not added to the file yet, or never */

	pthread_mutex_t
		failing_lock;  /* rank 9; protects what follows; nobody does I/O in it */
	struct pf_err failing; /* of the last entry, if it was not written */
	bool warned;

	pthread_mutex_t
		digest_lock; /* rank 7; protects digests; held while a file is read */
	struct pf_cache_digest *digests; /* owned list */
};

void pf_cache_put64(uint8_t *dst, uint64_t n);
uint64_t pf_cache_get64(const uint8_t *src);

/* N bytes as 2 N digits and a NUL; and back, false for what are none. */
void pf_cache_hex(const uint8_t *bytes, size_t n, char *dst);
bool pf_cache_unhex(const char *text, size_t n, uint8_t *dst);

enum { PF_CACHE_WAIT_MS = 2000 };

/*
 * Take the lock between threads and, in a writable directory, between processes; false:
 * another process had it for MS milliseconds.  And give it back.
 */
bool pf_cache_lock(struct pf_cache *cache, unsigned ms);
void pf_cache_unlock(struct pf_cache *cache);

/*
 * Change the counts by the differences in ADD (negative ones wrap): with the lock held;
 * without, when somebody has it.  Flush: now, if that can be.
 */
void pf_cache_count_locked(struct pf_cache *cache, const struct pf_cache_stats *add);
void pf_cache_count_later(struct pf_cache *cache, const struct pf_cache_stats *add);
void pf_cache_flush_counts(struct pf_cache *cache);

/* There are so many bytes of so many entries.  Locked. */
void pf_cache_recount_locked(struct pf_cache *cache, uint64_t bytes, uint64_t entries);

/* Bytes of all entries, as counted.  Locked. */
uint64_t pf_cache_bytes_locked(struct pf_cache *cache);

/* Read the counts.  Takes no lock between processes. */
void pf_cache_read_stats(struct pf_cache *cache, struct pf_cache_stats *ret);

/* Free digest.c's memory. */
void pf_cache_forget_digests(struct pf_cache *cache);

#endif
