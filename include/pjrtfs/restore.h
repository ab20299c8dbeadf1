/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of an earlier life: a daemon that is started again makes buffers, values, executables
 * and their bytes anew from the journal (state.h), the arena and the pools of ended workers.
 *
 * The order: pf_restore_begin, before there are workers; once the plugins' devices are known,
 * pf_buffer_restore and pf_executable_restore for each object that still has a name or an open
 * file; pf_restore_end, which frees what nothing refers to.  One thread restores, before others
 * use the store.  Only pf_restore_begin blocks.
 */
#ifndef PJRTFS_RESTORE_H
#define PJRTFS_RESTORE_H

#include <stdint.h>

#include "pjrtfs/base.h"
#include "pjrtfs/buffer.h"
#include "pjrtfs/executable.h"

struct pf_restore;

/*
 * Take over the arenas, with LIMIT bytes as memory limit, all bytes that the journal knows, and the
 * pools with results of ended workers.
 * kept   N descriptors that the keeper had (shm.h); they stay the caller's, and other names are
 *        passed over.  A pool that the journal does not know is forgotten (pf_shm_forget)
 * arena  on success, the mount's, the caller's: pf_arena_free.  That of a user is found by
 *        pf_arena_new_for
 * ret    on success, to be passed to pf_restore_end
 * -EPROTO: the journal is damaged, or an arena is missing or another one; -ENOMEM.  Blocks: a
 * microsecond for each extent.
 */
int pf_restore_begin(const struct pf_kept *kept, size_t n, uint64_t limit,
		     struct pf_arena **arena, struct pf_restore **ret,
		     struct pf_err *err);

/* Finds the location of DEVICE ("cpu:0"), borrowed until the mount ends; NULL: no device has this name. */
typedef const struct pf_location *pf_location_find(const void *arg, const char *device);

/*
 * Make the buffer that had number ID in an earlier life, where FIND(ARG) says: *RET, a reference.
 * The same number gives the same buffer.  A content that was being written has the bytes that were
 * written.  A value comes back with the bytes that host memory had, to be transferred when it is
 * used; without such bytes it is lost.
 * -ENOENT: the journal has no such buffer; -ENODEV: the device is gone; -EPROTO: the
 * record is damaged; -ENOMEM.
 */
int pf_buffer_restore(struct pf_restore *restore, uint64_t id, pf_location_find *find,
		      const void *arg, struct pf_buffer **ret, struct pf_err *err);

/*
 * Make the executable that had number ID in an earlier life, as pf_executable_new does with
 * CONFIG: *RET, a reference.  Its state is compiling if it was compiled, or being: call
 * pf_executable_compile then.  One whose source was written since is empty.
 * -ENOENT: the journal has no such executable; -EPROTO: the record is damaged; -ENOMEM.
 */
int pf_executable_restore(struct pf_restore *restore, uint64_t id,
			  const struct pf_executable_config *config,
			  struct pf_executable **ret, struct pf_err *err);

/* Free what nothing refers to: bytes, values and pools, and records that were not asked for.
 * RESTORE is freed; NULL is allowed. */
void pf_restore_end(struct pf_restore *restore);

#endif
