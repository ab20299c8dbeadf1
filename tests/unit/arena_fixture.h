/* SPDX-License-Identifier: Apache-2.0 */
/* An arena of a limit. */
#ifndef PJRTFS_TESTS_UNIT_ARENA_FIXTURE_H
#define PJRTFS_TESTS_UNIT_ARENA_FIXTURE_H

#include "pjrtfs/arena.h"

#include <errno.h>
#include <string.h>

#include "random.h"
#include "unit.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

static struct pf_arena *arena;

static inline void open_arena(uint64_t limit)
{
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(pf_arena_new(limit, &arena, &err) == 0, "%s", err.text);
}

static inline uint64_t used(void)
{
	uint64_t n, limit;

	pf_arena_usage(arena, &n, &limit);
	return n;
}

static inline void close_arena(void)
{
	ck_assert_uint_eq(used(), 0);
	pf_arena_free(arena);
	arena = NULL;
}

#endif
