/* SPDX-License-Identifier: Apache-2.0 */
/* The hash table, against an array that is searched from end to end. */
#include <errno.h>
#include <string.h>

#include "pjrtfs/base.h"
#include "unit.h"

static int values[4096];

/* A generator of our own, so that every run is the same. */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

TEST(put_replaces)
{
	struct pf_map map = { 0 };
	size_t pos = 0;

	ck_assert_ptr_null(pf_map_get(&map, 5));
	ck_assert_ptr_null(pf_map_remove(&map, 5));
	ck_assert_ptr_null(pf_map_next(&map, &pos));
	ck_assert_int_eq(pf_map_put(&map, 5, &values[1]), 0);
	ck_assert_int_eq(pf_map_put(&map, 5, &values[2]), 0);
	ck_assert_uint_eq(map.used, 1);
	ck_assert_ptr_eq(pf_map_get(&map, 5), &values[2]);
	ck_assert_ptr_null(pf_map_get(&map, 0));
	ck_assert_ptr_eq(pf_map_remove(&map, 5), &values[2]);
	ck_assert_ptr_null(pf_map_remove(&map, 5));
	ck_assert_ptr_null(pf_map_remove(&map, 0));
	ck_assert_uint_eq(map.used, 0);
	pf_map_release(&map);
	pf_map_release(NULL);
}

/* Typical keys: consecutive, multiples of powers of two, huge, hashes. */
static const struct {
	uint64_t first, step;
} sequences[] = {
	{ 1, 1 },
	{ 64, 64 },
	{ 4096, 4096 },
	{ UINT64_C(1) << 32, UINT64_C(1) << 32 },
	{ UINT64_MAX, UINT64_MAX },
	{ 0x7f0000001010, 48 },
};

static uint64_t key_of(int sequence, size_t i)
{
	return sequences[sequence].first + i * sequences[sequence].step;
}

TEST_EACH(many_keys, sequences)
{
	struct pf_map map = { 0 };
	size_t n = ARRAY_SIZE(values), seen = 0, pos = 0;
	int *value;

	for (size_t i = 0; i < n; i++) {
		values[i] = 0;
		ck_assert_int_eq(pf_map_put(&map, key_of(_i, i), &values[i]), 0);
	}
	ck_assert_uint_eq(map.used, n);
	for (size_t i = 0; i < n; i++)
		ck_assert_ptr_eq(pf_map_get(&map, key_of(_i, i)), &values[i]);
	while ((value = pf_map_next(&map, &pos))) {
		++*value;
		seen++;
	}
	ck_assert_uint_eq(seen, n);
	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(values[i], 1);
	for (size_t i = 0; i < n; i += 2)
		ck_assert_ptr_eq(pf_map_remove(&map, key_of(_i, i)), &values[i]);
	for (size_t i = 0; i < n; i++)
		ck_assert_ptr_eq(pf_map_get(&map, key_of(_i, i)),
				 i % 2 ? &values[i] : NULL);
	pf_map_release(&map);
}

/* A small range of keys, so that runs grow, wrap around and are taken apart. */
TEST_TIMES(random_changes_match_a_plain_array, 4)
{
	enum { KEYS = 24 };
	int *want[KEYS] = { NULL };
	struct pf_map map = { 0 };
	uint64_t state = 88172645463325252u + (uint64_t)_i, key;

	for (int step = 0; step < 20000; step++) {
		size_t used = 0;

		key = 1 + next_random(&state) % KEYS;
		if (next_random(&state) % 2) {
			want[key - 1] = &values[step % 4096];
			ck_assert_int_eq(pf_map_put(&map, key, want[key - 1]), 0);
		} else {
			ck_assert_ptr_eq(pf_map_remove(&map, key), want[key - 1]);
			want[key - 1] = NULL;
		}
		for (key = 1; key <= KEYS; key++) {
			ck_assert_ptr_eq(pf_map_get(&map, key), want[key - 1]);
			used += want[key - 1] != NULL;
		}
		ck_assert_uint_eq(map.used, used);
	}
	ck_assert_uint_le(map.cap, 64);
	pf_map_release(&map);
}

TEST(hashes)
{
	/* FNV-1a's published values. */
	ck_assert_uint_eq(pf_hash("", 0), UINT64_C(0xcbf29ce484222325));
	ck_assert_uint_eq(pf_hash("a", 1), UINT64_C(0xaf63dc4c8601ec8c));
	ck_assert_uint_eq(pf_hash("foobar", 6), UINT64_C(0x85944171f73967e8));
}
