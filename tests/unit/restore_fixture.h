/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers in a journal, and a new life that finds them. */
#ifndef PJRTFS_TESTS_UNIT_RESTORE_FIXTURE_H
#define PJRTFS_TESTS_UNIT_RESTORE_FIXTURE_H

#include "buffer_fixture.h"

#include <unistd.h>

#include "pjrtfs/restore.h"
#include "pjrtfs/state.h"

static struct pf_restore *restore;

static const struct pf_location *find_place(const void *arg, const char *device)
{
	(void)arg;
	return strcmp(device, place.device_name) ? NULL : &place;
}

static inline void begin(void)
{
	ck_assert_int_eq(pf_state_open(-1, NULL), 0);
	open_arena();
	pf_arena_keep(arena);
}

/*
 * End this life as a death does, without a word to the journal, and begin the next.  FORGET frees
 * what the life had, so that the test does not leak.
 */
static inline void next_life(void (*forget)(void))
{
	int state = dup(pf_state_fd()), memory = dup(pf_arena_own_fd(arena));
	const struct pf_kept kept = { "arena", memory };

	pf_state_close();
	forget();
	pf_arena_free(arena);
	ok(pf_state_open(state, &err));
	ok(pf_restore_begin(&kept, 1, LIMIT, &arena, &restore, &err));
	close(memory);
	place.arena = arena;
}

static inline void end_restore(void)
{
	pf_restore_end(restore);
	restore = NULL;
}

/* All is gone: from the arena, and from the journal. */
static inline void end_life(void)
{
	static const enum pf_state_type types[] = { PF_STATE_BYTES, PF_STATE_VALUE,
						    PF_STATE_BUFFER, PF_STATE_POOL };
	size_t n;

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		free(pf_state_list(types[i], &n));
		ck_assert_msg(n == 0, "%zu records of type %d are left", n, types[i]);
	}
	close_arena();
	pf_state_close();
}

#endif
