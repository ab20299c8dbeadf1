/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_WORKER_PINS_H
#define PJRTFS_WORKER_PINS_H

#include <stdbool.h>
#include <stdint.h>

#include "internal.h"

/*
 * Pinned blocks of the pool: a device writes downloads straight into them, where the plugin else
 * copies through memory of its own.
 *
 * Pinning takes longer than a copy, so a block that the daemon has freed stays pinned for some
 * seconds, for the next download.  It is no free extent of the pool meanwhile: the pool never returns
 * the pages of a pinned block to the system, nor gives them to the plugin.  An eighth of the machine's
 * memory is pinned at most.  If the plugin fails to pin or unpin, which is logged, nothing is pinned any
 * more.
 */

/* Pin memory for CLIENT, which is borrowed for good.  Once, before any other function here. */
void pf_pins_set_up(const struct pj_client *client);

/* As pf_pool_block, for at least PF_POOL_LARGE bytes; the block is pinned, if it can be.  Blocks. */
int pf_pins_take(uint64_t len, uint64_t *off, struct pf_err *err);

/* Free a pinned block of pf_pins_take, which no transfer uses.  False: none is at OFF. */
bool pf_pins_give(uint64_t off);

#endif
