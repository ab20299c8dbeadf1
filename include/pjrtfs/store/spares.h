/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that can be given up: host copies of results. */
#ifndef PJRTFS_STORE_SPARES_H
#define PJRTFS_STORE_SPARES_H

#include "pjrtfs/wire/arena.h"

/*
 * When ARENA's limit is reached, drop host copies of results that their device still has,
 * those used longest ago first; they are fetched again when they are read next.  Once, before
 * there are values.
 */
void pf_spares_attach(struct pf_arena *arena);

#endif
