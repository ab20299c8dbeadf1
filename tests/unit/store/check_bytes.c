/* SPDX-License-Identifier: Apache-2.0 */
/* Counted pieces of the arena: a writer gets a copy, readers keep the old bytes. */
#include "buffer_fixture.h"

static struct pf_bytes *filled(uint64_t len)
{
	struct pf_bytes *b;

	ok(pf_bytes_new(arena, NULL, len, &b, &err));
	for (uint64_t i = 0; i < len; i++)
		((char *)pf_bytes_at(b, 0))[i] = (char)(i * 13 + i / 256);
	return b;
}

static void check_filled(const struct pf_bytes *b, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		if (*(char *)pf_bytes_at(b, i) != (char)(i * 13 + i / 256))
			ck_abort_msg("byte %llu is another", (unsigned long long)i);
}

/* Room for CAP bytes of which KEEP are kept. */
static int reserve(struct pf_bytes **bytes, uint64_t cap, uint64_t keep)
{
	return pf_bytes_room(bytes, arena, NULL, keep, keep, cap, &err);
}

/* Reserve CAP of LEN bytes of which KEEP are kept. */
static const struct {
	uint64_t len, cap, keep;
	bool shared, copies;
} cases[] = {
	{ 1000, 500, 1000, false, false },
	{ 1000, 1000, 1000, true, true },
	{ 1000, 1024, 10, true, true },
	{ 1000, 5000, 1000, true, true },
	{ 1000, 5000, 1000, false, false },
	{ 3 << 20, 3 << 20, 3 << 20, true, true },
	{ 3 << 20, 9 << 20, 3 << 20, false, false },
	{ 3 << 20, 9 << 20, 3 << 20, true, true },
	{ 1000, 0, 0, true, true },
	{ 100000, 1, 100000, true, true }, /* all that is kept has room */
};

TEST_EACH(reserving_copies_shared_bytes, cases)
{
	uint64_t len = cases[_i].len, want = cases[_i].cap;
	struct pf_bytes *b = filled(len), *old = b;

	if (cases[_i].shared)
		pf_bytes_ref(old);
	ck_assert_int_eq(reserve(&b, want, cases[_i].keep), 0);
	ck_assert_int_eq(b != old, cases[_i].copies);
	ck_assert_uint_ge(b->extent.len, want);
	ck_assert_uint_ge(b->extent.len, cases[_i].keep);
	check_filled(b, cases[_i].keep);
	if (cases[_i].shared) {
		if (b != old)
			memset(pf_bytes_at(b, 0), 0, b->extent.len);
		check_filled(old, len); /* other references see no change */
		pf_bytes_unref(old);
	}
	pf_bytes_unref(b);
}

static const struct {
	bool shared;
	uint64_t cap;
} too_much[] = { { false, LIMIT + 1 }, { true, LIMIT + 1 }, { true, LIMIT - 1000 } };

TEST_EACH(a_failure_changes_nothing, too_much)
{
	struct pf_bytes *b = filled(100000), *old = b;
	uint64_t before = used();

	if (too_much[_i].shared)
		pf_bytes_ref(b);
	ck_assert_int_eq(reserve(&b, too_much[_i].cap, 100000), -ENOSPC);
	ck_assert_int_eq(err.code, -ENOSPC);
	ck_assert_ptr_eq(b, old);
	ck_assert_uint_eq(used(), before);
	check_filled(b, 100000);
	if (too_much[_i].shared)
		pf_bytes_unref(b);
	pf_bytes_unref(b);
}

/* Room for twice as much, as long as there is; then for what is needed, to the last byte. */
TEST(bytes_grow_until_the_memory_limit)
{
	struct pf_bytes *b = NULL;
	uint64_t size = 0;
	int r = 0;

	while (r == 0) {
		r = pf_bytes_room(&b, arena, NULL, size, size + (1 << 20), 0, &err);
		if (r < 0)
			break;
		memset(pf_bytes_at(b, size), (int)(size >> 20), 1 << 20);
		size += 1 << 20;
		ck_assert_uint_le(used(), LIMIT);
	}
	ck_assert_int_eq(r, -ENOSPC);
	ck_assert_uint_gt(size, LIMIT / 2);
	for (uint64_t at = 0; at < size; at += 1 << 20)
		ck_assert_int_eq(*(char *)pf_bytes_at(b, at + 77), (char)(at >> 20));
	pf_bytes_unref(b);
}

/* --- bytes in another arena ------------------------------------------------------------- */

TEST(bytes_of_another_arena_are_copied)
{
	struct pf_bytes *b = filled(5000), *same, *copy;
	struct pf_arena *other;
	uint64_t off = 1000;

	ck_assert_int_eq(pf_arena_new_for(arena, 1001, &other, NULL), 0);
	ck_assert_int_eq(pf_bytes_in(b, arena, NULL, &off, 100, &same, NULL), 0);
	ck_assert_ptr_eq(same, b);
	ck_assert_uint_eq(off, 1000);
	ck_assert_int_eq(pf_bytes_in(b, other, NULL, &off, 100, &copy, NULL), 0);
	ck_assert_ptr_ne(copy, b);
	ck_assert_ptr_eq(copy->arena, other);
	ck_assert_uint_eq(off, 0);
	ck_assert_mem_eq(pf_bytes_at(copy, 0), pf_bytes_at(b, 1000), 100);
	pf_bytes_unref(copy);
	ck_assert_int_eq(pf_bytes_in(b, other, NULL, &off, LIMIT, &copy, NULL), -ENOSPC);
	pf_bytes_unref(same);
	pf_bytes_unref(b);
	pf_arena_free(other);
}

/* A writer whose bytes lie in another arena, even if no one else has them. */
TEST_TIMES(a_writer_takes_bytes_to_its_arena, 2)
{
	struct pf_bytes *b = filled(5000), *old = _i ? pf_bytes_ref(b) : NULL;
	struct pf_arena *other;
	uint64_t size = 5000;

	ck_assert_int_eq(pf_arena_new_for(arena, 1001, &other, NULL), 0);
	ck_assert_int_eq(pf_bytes_write(&b, other, NULL, &size, "secret", 6, 5000, 0,
					NULL),
			 0);
	ck_assert_ptr_eq(b->arena, other);
	ck_assert_uint_eq(size, 5006);
	check_filled(b, 5000);
	ck_assert_mem_eq(pf_bytes_at(b, 5000), "secret", 6);
	pf_bytes_unref(b);
	if (old)
		check_filled(old, 5000);
	pf_bytes_unref(old);
	pf_arena_free(other);
}

UNIT_FIXTURE(open_arena, close_arena)
