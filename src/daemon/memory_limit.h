/* SPDX-License-Identifier: Apache-2.0 */
/* How much host memory arrays may take. */
#ifndef PJRTFS_MEMORY_LIMIT_H
#define PJRTFS_MEMORY_LIMIT_H

#include <stdint.h>

#include "pjrtfs/base/err.h"

/* Bytes from TEXT, as in "4G" (K, M, G, T, with or without iB); -EINVAL below 1M. */
int memory_limit_parse(const char *text, uint64_t *ret, struct pf_err *err);

/*
 * The tightest memory limit of this process's control group and of those above it, in bytes,
 * as far as they are mounted: memory.max of cgroup v2, and memory.limit_in_bytes of v1.
 * UINT64_MAX: there is none.  ROOT stands before /proc and the mount points: "", but in tests.
 */
uint64_t memory_limit_cgroup(const char *root);

/* 80 % of RAM or of the control group's limit, whichever is less. */
uint64_t memory_limit_default(void);

#endif
