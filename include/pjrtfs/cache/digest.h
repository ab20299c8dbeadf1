/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 of plugins' files, remembered, so that start-up does not read 250 MB each time. */
#ifndef PJRTFS_CACHE_DIGEST_H
#define PJRTFS_CACHE_DIGEST_H

#include "pjrtfs/cache/cache.h"

/*
 * The SHA-256 of the file PATH, which was ST when it was loaded.  Files are remembered, also
 * by other daemons of the directory, by device, inode, size, mtime and ctime; CACHE may be
 * NULL, where nothing is remembered.  -ESTALE: the
 * file has changed since, so nobody can tell; -errno.  Blocks: seconds the first time.
 */
int pf_cache_file_digest(struct pf_cache *cache, const char *path, const struct stat *st,
			 uint8_t ret[PF_SHA256], struct pf_err *err);

/* True if A and B are of one file with one content, as far as stat(2) tells. */
bool pf_cache_same_file(const struct stat *a, const struct stat *b);

#endif
