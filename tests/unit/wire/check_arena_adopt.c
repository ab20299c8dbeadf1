/* SPDX-License-Identifier: Apache-2.0 */
/* The arena of an earlier life: its extents stay, all else is free. */
#include "arena_fixture.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pjrtfs/state.h"

enum { MANY = 400 };

static struct pf_extent extents[MANY];
static size_t n_extents;
static struct pf_err err;

/* An arena of LIMIT bytes, in a journal. */
static void begin(uint64_t limit)
{
	err = (struct pf_err)PF_ERR_INIT;
	n_extents = 0;
	ck_assert_int_eq(pf_state_open(-1, &err), 0);
	open_arena(limit);
	pf_arena_keep(arena);
}

static struct pf_extent *take(uint64_t len, int byte)
{
	struct pf_extent *e = &extents[n_extents++];

	ck_assert_int_eq(pf_arena_alloc(arena, len, e, &err), 0);
	memset(pf_arena_at(arena, e->off), byte, e->len);
	return e;
}

/* Adopt the N extents at LIST in place of the arena, as a later life with LIMIT does. */
static int adopt_with(uint64_t limit, const struct pf_extent *list, size_t n)
{
	struct pf_extent *copy = calloc(n + 1, sizeof(*copy));
	int fd = dup(pf_arena_own_fd(arena)), r;
	struct pf_arena *next;

	memcpy(copy, list, n * sizeof(*copy));
	r = pf_arena_adopt(NULL, 0, fd, limit, copy, n, &next, &err);
	free(copy);
	if (r < 0) {
		close(fd); /* it stayed ours */
		return r;
	}
	pf_arena_free(arena);
	arena = next;
	return 0;
}

static int adopt(const struct pf_extent *list, size_t n)
{
	return adopt_with(GIB, list, n);
}

static void end(void)
{
	for (size_t i = 0; i < n_extents; i++)
		pf_arena_give(arena, &extents[i]);
	close_arena();
	pf_state_close();
}

static void check_bytes(const struct pf_extent *e, int byte)
{
	const uint8_t *at = pf_arena_at(arena, e->off);

	ck_assert_uint_gt(e->len, 0);
	for (uint64_t i = 0; i < e->len; i++)
		if (at[i] != (uint8_t)byte)
			ck_abort_msg("byte %llu of %llu is %d, not %d",
				     (unsigned long long)i, (unsigned long long)e->len,
				     at[i], byte);
}

/* A record of an extent may have a length that its end was cut off to just then. */
TEST(lengths_are_rounded_up_to_granules)
{
	struct pf_extent cut;
	uint64_t before;

	begin(GIB);
	cut = *take(1000, 1);
	cut.len = 801;
	before = used();
	ck_assert_int_eq(adopt(&cut, 1), 0);
	ck_assert_uint_eq(used(), before);
	end();
}

static uint64_t pages(void)
{
	struct stat st;

	ck_assert_int_eq(fstat(pf_arena_own_fd(arena), &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

TEST(the_pages_of_all_else_go_back)
{
	struct pf_extent keep[2];
	uint64_t size;

	begin(GIB);
	take(8 * MIB, 1);
	keep[0] = *take(400000, 2);
	take(400000, 3);
	keep[1] = *take(4 * MIB, 4);
	take(16 * MIB, 5);
	size = pf_arena_size(arena);
	ck_assert_uint_gt(pages(), 28 * MIB);
	ck_assert_int_eq(adopt(keep, 2), 0);
	ck_assert_uint_lt(pages(), 5 * MIB);
	ck_assert_uint_eq(pf_arena_size(arena), size);
	check_bytes(&keep[0], 2);
	check_bytes(&keep[1], 4);
	ck_assert_uint_eq(used(), keep[0].len + keep[1].len);
	memcpy(extents, keep, sizeof(keep));
	n_extents = 2;
	end();
}

static const struct {
	const char *what;
	struct pf_extent list[3];
	size_t n;
} damaged[] = {
	{ "the same twice", { { 0, 256 }, { 0, 256 } }, 2 },
	{ "an overlap", { { 0, 1024 }, { 768, 256 } }, 2 },
	{ "an overlap, in the other order", { { 768, 256 }, { 0, 1024 } }, 2 },
	{ "an overlap of large ones",
	  { { 1024 * MIB, 4 * MIB }, { 1026 * MIB, 2 * MIB } },
	  2 },
	{ "inside a granule", { { 128, 256 } }, 1 },
	{ "inside a large granule", { { 1025 * MIB, 2 * MIB } }, 1 },
	{ "beyond the front part", { { 1024 * MIB - 256, 512 } }, 1 },
	{ "beyond the file", { { UINT64_C(1) << 50, 256 } }, 1 },
	{ "longer than the file", { { 2048 * MIB, UINT64_MAX } }, 1 },
};

TEST_EACH(extents_that_cannot_be_are_refused, damaged)
{
	begin(GIB);
	ck_assert_msg(adopt(damaged[_i].list, damaged[_i].n) == -EPROTO, "%s",
		      damaged[_i].what);
	end();
}

TEST(a_file_of_another_size_is_refused)
{
	struct pf_arena *other;
	int fd;

	begin(GIB);
	ck_assert_int_eq(pf_arena_new(2 * GIB, &other, &err), 0);
	fd = dup(pf_arena_own_fd(other));
	pf_arena_free(other);
	ck_assert_int_eq(pf_arena_adopt(NULL, 0, fd, GIB, extents, 0, &other, &err),
			 -EPROTO);
	close(fd);
	end();
}

TEST(without_a_record_nothing_is_adopted)
{
	begin(GIB);
	pf_state_drop(PF_STATE_ARENA, 0);
	ck_assert_int_eq(adopt(extents, 0), -EPROTO);
	end();
}

/* The limit is the new daemon's: what is there stays, and nothing is added beyond it. */
TEST(a_lower_limit_loses_nothing)
{
	struct pf_extent e;

	begin(GIB);
	take(20 * MIB, 7);
	ck_assert_int_eq(adopt_with(10 * MIB, extents, 1), 0);
	check_bytes(&extents[0], 7);
	ck_assert_uint_eq(used(), 20 * MIB);
	ck_assert_int_eq(pf_arena_alloc(arena, 1, &e, &err), -ENOSPC);
	end();
}

/* An extent that is taken after the restart never lies where another one was before. */
TEST_TIMES(no_extent_has_two_owners, 5)
{
	uint64_t seed = (uint64_t)_i + 1;
	struct pf_extent keep[MANY];
	size_t n = 0, before;

	begin(GIB);
	for (int i = 0; i < MANY / 2; i++)
		take(next(&seed, 8) ? next(&seed, 20000) : next(&seed, 3 * MIB), i);
	for (size_t i = 0; i < n_extents; i++)
		if (next(&seed, 3))
			keep[n++] = extents[i];
	ck_assert_int_eq(adopt(keep, n), 0);
	memcpy(extents, keep, n * sizeof(*keep));
	before = n_extents = n;
	for (size_t i = 0; i < n; i++)
		memset(pf_arena_at(arena, extents[i].off), (int)i, extents[i].len);
	for (size_t i = n; i < MANY; i++)
		take(next(&seed, 8) ? next(&seed, 20000) : next(&seed, 3 * MIB), 0xee);
	for (size_t i = 0; i < before; i++)
		check_bytes(&extents[i], (int)i);
	end();
}
