/* SPDX-License-Identifier: Apache-2.0 */
/* How much host memory arrays may take. */
#ifndef PJRTFS_MEMORY_LIMIT_H
#define PJRTFS_MEMORY_LIMIT_H

#include <stdint.h>

#include "pjrtfs/base/err.h"

/* Bytes from TEXT, as in "4G" (K, M, G, T, with or without iB); -EINVAL below 1M. */
int memory_limit_parse(const char *text, uint64_t *ret, struct pf_err *err);

/* 80 % of the smaller of RAM and the cgroup's limit (cgroup v2's memory.max from our group
 * up, or v1's memory.limit_in_bytes). */
uint64_t memory_limit_default(void);

#endif
