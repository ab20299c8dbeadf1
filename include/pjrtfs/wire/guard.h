/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mappings of memory that another process makes: the loss of a page must not end this one.
 *
 * Files are sealed, so that nobody can cut them off; a page is lost when the system has no
 * memory for it, or when the memory is bad.  The kernel then sends SIGBUS to the thread that
 * touches it.
 */
#ifndef PJRTFS_WIRE_GUARD_H
#define PJRTFS_WIRE_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * From now on a SIGBUS at one of the LEN bytes of the mapping MEMORY puts a page of zeros
 * there, sets *LOST, writes 1 to the eventfd FD, and goes on.  *LOST and FD are borrowed until
 * pf_guard_remove.  At most 256 mappings are guarded, later ones are not.  Does not block.
 */
void pf_guard_add(const void *memory, size_t len, _Atomic bool *lost, int fd);

/* Forget MEMORY, before it is unmapped; no thread touches it any more. */
void pf_guard_remove(const void *memory);

#endif
