/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool: memory of the worker that the daemon reads.
 *
 * A memfd of the daemon's, mapped here for writing.  Two kinds of blocks lie in it: those
 * that the worker makes for the daemon (texts, copies of buffers), named by their offset
 * and freed when the daemon says so; and, where allocation is interposed, the plugin's own
 * allocations beyond a page, so that results need no copying and survive this process.
 *
 * There is one pool a process, since malloc has no argument to name another.  Safe from any
 * thread; nothing here calls malloc.
 */
#ifndef PJRTFS_WORKER_POOL_H
#define PJRTFS_WORKER_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pjrtfs/base/err.h"

enum {
	PF_POOL_SMALL = 4096,    /* bytes beyond which a plugin's allocation lies here */
	PF_POOL_LARGE = 1 << 20, /* bytes from which a block is a large one */
};

/*
 * Map the pool behind FD, SIZE bytes (FD may be closed afterwards), and start the thread
 * that gives idle memory back to the system.  Once, before any other function here.
 * -EINVAL: the file is shorter than SIZE, or SIZE below 128 MiB; -errno.
 */
int pf_pool_setup(int fd, uint64_t size, struct pf_err *err);

/*
 * Serve the plugin's large allocations from the pool from now on (pf_pool_setup must have
 * succeeded).  False if this build does not interpose allocation (sanitizers own it).
 */
bool pf_pool_interpose(void);

/* True if the LEN bytes at P lie in the pool; *OFF becomes their offset. */
bool pf_pool_holds(const void *p, uint64_t len, uint64_t *off);

/* The address of offset OFF. */
void *pf_pool_at(uint64_t off);

/*
 * Make a block of LEN bytes for the daemon (0 counts as 1), 4 KiB aligned, contents
 * undefined; *OFF is its offset.  -ENOSPC: the pool or the machine's memory is full.
 */
int pf_pool_block(uint64_t len, uint64_t *off, struct pf_err *err);

/* Free a block that pf_pool_block made.  False if there is none at OFF. */
bool pf_pool_block_free(uint64_t off);

/*
 * For malloc's family.  take: LEN bytes, 4 KiB aligned, from PF_POOL_LARGE on 2 MiB; NULL if
 * the pool is full, or, with *FULL set, the machine's memory.  give: free what take returned; P
 * must be in the pool.  usable: how much there is at P.
 */
void *pf_pool_take(size_t len, bool *full);
void pf_pool_give(void *p);
size_t pf_pool_usable(const void *p);

/* Bounds of the mapping, for tests that must be fast: 0 and 0 before pf_pool_setup. */
extern uintptr_t pf_pool_base;
extern size_t pf_pool_size;

static inline bool pf_pool_owns(const void *p)
{
	return (uintptr_t)p - pf_pool_base < pf_pool_size;
}

#endif
