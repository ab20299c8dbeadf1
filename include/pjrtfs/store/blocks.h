/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of values: cutting one array into several, and joining several into one. */
#ifndef PJRTFS_STORE_BLOCKS_H
#define PJRTFS_STORE_BLOCKS_H

#include "pjrtfs/formats/sharding.h"
#include "pjrtfs/store/value.h"

/*
 * The part BLOCK of VALUE, as a value to live in the default memory of DEVICE of WORKER, in
 * *RET, with a reference.  VALUE's host bytes are there (pf_value_fetched) and pinned.  A
 * part whose bytes lie together, at an address that plugins can use in place, shares them,
 * and keeps all of VALUE's bytes as long as it lives; else they are copied once, which takes
 * the copy's time.  -ENOSPC, -ENOMEM; -EIO: the bytes are gone.
 */
int pf_value_cut(struct pf_value *value, const struct pf_block *block,
		 struct pf_worker *worker, unsigned device, struct pf_value **ret,
		 struct pf_err *err);

/* How many bytes that would copy. */
uint64_t pf_value_cut_copies(struct pf_value *value, const struct pf_block *block);

/*
 * Put the N PARTS together: PARTS[i] is BLOCKS[i] of the array, and all of it is in one of
 * them.  Their host bytes are there and pinned; they are copied once.  *RET, with a
 * reference, lives in the default memory of DEVICE of WORKER.  -ENOSPC, -ENOMEM, -EIO.
 */
int pf_value_join(struct pf_value *const *parts, const struct pf_block *blocks,
		  unsigned n, struct pf_worker *worker, unsigned device,
		  struct pf_value **ret, struct pf_err *err);

#endif
