/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers that a seed gives again. */
#ifndef PJRTFS_TESTS_UNIT_RANDOM_H
#define PJRTFS_TESTS_UNIT_RANDOM_H

#include <stdint.h>

/* The next number below LIMIT. */
static inline uint64_t next(uint64_t *seed, uint64_t limit)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (*seed >> 20) % limit;
}

#endif
