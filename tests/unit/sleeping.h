/* SPDX-License-Identifier: Apache-2.0 */
/* Waits until a thread of this process sleeps, as it does when it waits for a lock. */
#ifndef PJRTFS_TESTS_UNIT_SLEEPING_H
#define PJRTFS_TESTS_UNIT_SLEEPING_H

#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "unit.h"

static inline bool is_asleep(pid_t thread)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)thread);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
	fclose(f);
	return state == 'S';
}

/* *THREAD is set by the thread just before it does what makes it sleep. */
static inline void await_asleep(_Atomic pid_t *thread)
{
	while (!*thread || !is_asleep(*thread))
		usleep(1000);
}

#endif
