/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_SHM_H
#define PJRTFS_SHM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pjrtfs/base.h"

/* Shared memory: files in memory (memfd) of which two processes have a descriptor.  Their size is
 * sealed, so that neither process can cut off what the other reads. */

/*
 * Make a file of SIZE bytes, all of them holes; NAME is shown in /proc/PID/maps.  A descriptor, the
 * caller's, close-on-exec; -errno.
 */
int pf_shm_new(const char *name, uint64_t size, struct pf_err *err);

/*
 * Map the first SIZE bytes of FD, which stays the caller's, as PROT (PROT_READ, PROT_WRITE); no
 * core dump has them.  -EINVAL: the file is shorter; -errno.
 * ret   on success, the mapping, the caller's; munmap
 */
int pf_shm_map(int fd, uint64_t size, int prot, void **ret, struct pf_err *err);

/*
 * Guard a mapping of memory that the other process makes: if the system has no memory for a page,
 * or it is bad, the kernel sends SIGBUS to the thread that touches it.  After this call a SIGBUS
 * at one of the LEN bytes of the mapping MEMORY puts a page of zeros there, sets *LOST, writes 1
 * to the eventfd FD, and the thread continues.  *LOST and FD are borrowed until pf_guard_remove.
 * At most 4096 mappings are guarded, later ones are not.  Does not block.
 */
void pf_guard_add(const void *memory, size_t len, _Atomic bool *lost, int fd);

/* Guard LEN bytes of MEMORY only, before the others are unmapped. */
void pf_guard_shorten(const void *memory, size_t len);

/* Stop guarding MEMORY, before it is unmapped; no thread may touch it. */
void pf_guard_remove(const void *memory);

/*
 * Shared memory that outlives the daemon, because another process holds its descriptors: the arenas
 * ("arena", the mount's, and "arena.1000", that of user 1000) and the pools of workers ("pool.7";
 * no number is given twice).
 */

/*
 * From now on, KEEP(NAME, FD) is called for each such file, before it has bytes, and FORGET(NAME)
 * when nothing refers to its bytes any more; FD and NAME are borrowed for the call.  Both may be
 * called under locks of ranks below 9, and block no longer than it takes to send a message.  Call
 * this once, before there are arenas and workers.
 */
void pf_shm_set_keeper(void (*keep)(const char *name, int fd),
		       void (*forget)(const char *name));

/* Call KEEP, and FORGET; without a keeper, nothing. */
void pf_shm_keep(const char *name, int fd);
void pf_shm_forget(const char *name);

/* A file that a keeper has. */
struct pf_kept {
	const char *name;
	int fd;
};

/* Bytes in a shared file. */
struct pf_extent {
	uint64_t off;
	uint64_t len; /* the requested length, rounded up to whole granules */
};

#endif
