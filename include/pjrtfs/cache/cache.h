/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compilation cache: a directory of entries that several daemons may share.
 *
 *   entries/KEY   an entry each (entry.h); its mtime is when it was last used
 *   tmp/          entries that are being written, then renamed
 *   lock          flock(2)ed by who changes names or counts; readers take no lock
 *   stats         the counts, for all daemons, for good
 *   plugins       SHA-256 of plugins' files (digest.h)
 *
 * Entries are native code: one is read only if it and the directory belong to the caller
 * or to root, nobody else may write to them, and every byte is as it was written.
 *
 * Functions are safe from any thread and block for disk I/O; call them with no lock held
 * but that of names.
 */
#ifndef PJRTFS_CACHE_CACHE_H
#define PJRTFS_CACHE_CACHE_H

#include <sys/stat.h>

#include "pjrtfs/base/cleanup.h"
#include "pjrtfs/cache/entry.h"

struct pf_cache;

struct pf_cache_config {
	const char *dir; /* copied; made, with its parents and mode 0700, if missing */
	uint64_t max;    /* bytes of all entries; UINT64_MAX: no limit */
	/* Told when entries cannot be written any more and when they can again, on any
	 * thread. */
	void (*warn)(void *arg, const char *text);
	void *arg;
};

/*
 * Open the directory, and drop what goes beyond the maximum.
 * ret   on success, the caller's; pf_cache_close
 * -EPERM: it belongs to somebody else, or others may write to it; -ENOTDIR; -errno.  One
 * that can be read but not written is used as it is.
 */
int pf_cache_open(const struct pf_cache_config *config, struct pf_cache **ret,
		  struct pf_err *err);
void pf_cache_close(struct pf_cache *cache); /* NULL is allowed */

/*
 * Have FN(ARG) told of each entry that is removed from now on by who uses CACHE: KEY in
 * hexadecimal, BYTES of its file, DAMAGED: for what it held, else evicted.  On any thread; FN
 * must not block, and takes no lock below rank 9.  Before anybody else uses CACHE.
 */
void pf_cache_on_gone(struct pf_cache *cache,
		      void (*fn)(void *arg, const char *key, uint64_t bytes,
				 bool damaged),
		      void *arg);

/* The directory's path, borrowed. */
const char *pf_cache_dir(const struct pf_cache *cache);

/* --- using it ------------------------------------------------------------------------ */

/* An entry that was found; pf_cache_found_release. */
struct pf_cache_found {
	int fd; /* owned */
	struct stat st;
	struct pf_cache_header header;
};
void pf_cache_found_release(struct pf_cache_found *found);

/*
 * Look for KEY.  1: *RET is an entry whose header is good.  0: there is none, or it is not
 * to be trusted or damaged: then it has been removed and counted.  Counts no miss.
 */
int pf_cache_find(struct pf_cache *cache, const struct pf_cache_key *key,
		  struct pf_cache_found *ret);

/*
 * Read FOUND's parts (pf_cache_body_len bytes) to DST and check them there.  0; -EBADMSG:
 * damaged, has been removed and counted; -errno: it cannot be read.
 */
int pf_cache_read(struct pf_cache *cache, const struct pf_cache_found *found, void *dst,
		  struct pf_err *err);

/* FOUND served: count a hit, and a use now. */
void pf_cache_hit(struct pf_cache *cache, const struct pf_cache_found *found);

/* Count a hit that needed no entry (a compile under way was shared), or a miss. */
void pf_cache_shared(struct pf_cache *cache);
void pf_cache_miss(struct pf_cache *cache);

/* The plugin could not load FOUND: remove it and count it as damaged. */
void pf_cache_reject(struct pf_cache *cache, const struct pf_cache_found *found);

/* One part of a new entry.  The bytes may change meanwhile: they are read once. */
struct pf_cache_piece {
	const void *data;
	uint64_t len;
};

/*
 * Write an entry under KEY, in place of one that is there, and drop the ones that were not
 * used for longest if the maximum is exceeded.  -EFBIG: larger than the maximum.  -errno:
 * not written; the first such failure is also told to warn, and so is the end of them.
 */
int pf_cache_put(struct pf_cache *cache, const struct pf_cache_key *key,
		 const struct pf_cache_piece parts[PF_CACHE_PARTS], struct pf_err *err);

/*
 * Does the disk refuse entries?  0: the last one was written, or none yet.  -errno: it was not,
 * and ERR (may be NULL) says why: "write entry KEY: No space left on device".  An entry that is
 * too large, or that another process's lock kept out, changes nothing; nor does one that a
 * directory which the caller may only read refuses.  Does not block.
 */
int pf_cache_failing(struct pf_cache *cache, struct pf_err *err);

/* --- looking after it ---------------------------------------------------------------- */

/* Evict KEY.  -ENOENT; -EROFS, -errno. */
int pf_cache_remove(struct pf_cache *cache, const struct pf_cache_key *key,
		    struct pf_err *err);

/* Evict everything.  -errno: something is left. */
int pf_cache_clear(struct pf_cache *cache, struct pf_err *err);

/* The maximum in bytes; setting it evicts what goes beyond. */
uint64_t pf_cache_max(struct pf_cache *cache);
int pf_cache_set_max(struct pf_cache *cache, uint64_t max, struct pf_err *err);

struct pf_cache_stats {
	uint64_t hits, misses;   /* since the directory was made */
	uint64_t evictions;      /* entries dropped for room or by users */
	uint64_t damaged;        /* entries dropped for what they held */
	uint64_t bytes, entries; /* there are; of a read-only directory: counted now */
	bool writable;
};
void pf_cache_stats(struct pf_cache *cache, struct pf_cache_stats *ret);

/*
 * The keys of the entries there are, in no order; *RET is the caller's to free.  Changes by
 * others are seen.  0 or -errno.
 */
int pf_cache_list(struct pf_cache *cache, struct pf_cache_key **ret, size_t *n,
		  struct pf_err *err);

/* Is there an entry of KEY?  ST (may be NULL) is its file's. */
bool pf_cache_has(struct pf_cache *cache, const struct pf_cache_key *key,
		  struct stat *st);

/*
 * What is known of KEY's entry: its header, its last use (mtime) and size in ST, and in META
 * the bytes of PF_CACHE_META, which are only checked to be there.  -ENOENT, -EBADMSG; nothing
 * is removed.
 */
int pf_cache_describe(struct pf_cache *cache, const struct pf_cache_key *key,
		      struct pf_cache_header *ret, struct stat *st, struct pf_buf *meta,
		      struct pf_err *err);

#endif
