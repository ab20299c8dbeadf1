/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes as people write them. */
#ifndef PJRTFS_BASE_SIZE_H
#define PJRTFS_BASE_SIZE_H

#include <stdint.h>

#include "pjrtfs/base/err.h"

/*
 * Bytes from TEXT: "2147483648", "2G", "512MiB" (K, M, G, T, of 1024; with or without B or
 * iB, in any case), or the word max: UINT64_MAX.  -EINVAL: something else, or more than 2^60.
 */
int pf_size_parse(const char *text, uint64_t *ret, struct pf_err *err);

#endif
