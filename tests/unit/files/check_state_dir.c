/* SPDX-License-Identifier: Apache-2.0 */
/* The state directory: in which order files are written, and what health says. */
#include "files/state_dir.h"

#include <pthread.h>
#include <string.h>

#include "unit.h"

/* Each owner's first, then each one's second, however many one of them has. */
TEST(owners_take_turns)
{
	static const struct {
		uint64_t ino;
		uid_t owner;
	} order[] = { { 6, 0 },    { 1, 1001 }, { 7, 0 },
		      { 2, 1001 }, { 3, 1001 }, { 4, 1001 } };
	struct todo at[] = { { .ino = 1, .owner = 1001 }, { .ino = 2, .owner = 1001 },
			     { .ino = 3, .owner = 1001 }, { .ino = 4, .owner = 1001 },
			     { .ino = 6, .owner = 0 },    { .ino = 7, .owner = 0 } };
	struct todos todos = { .at = at, .n = ARRAY_SIZE(at) };

	state_todos_order(&todos);
	for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
		ck_assert_uint_eq(at[i].ino, order[i].ino);
		ck_assert_uint_eq(at[i].owner, order[i].owner);
	}
}

static const struct {
	int64_t behind_ms; /* 0: it is not */
	const char *says;
} healths[] = {
	{ 0, "" },
	{ 9000, "" },
	{ 11000, "state-dir: behind for 11 s; not kept yet: 3 files\n" },
};

TEST_EACH(health_says_how_far_it_is_behind, healths)
{
	struct pf_state_dir d = { .lock = PTHREAD_MUTEX_INITIALIZER, .n_waiting = 3 };
	pf_autobuf struct pf_buf out = PF_BUF_INIT;

	if (healths[_i].behind_ms)
		d.behind_since = pf_now_ms() - healths[_i].behind_ms;
	pf_state_dir_health(&d, &out);
	ck_assert_str_eq(out.data ? out.data : "", healths[_i].says);
}

UNIT_FIXTURE(NULL, NULL)
