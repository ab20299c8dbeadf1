/* SPDX-License-Identifier: Apache-2.0 */
/* Extents: nothing is handed out twice, nothing is lost, neighbours merge again. */
#include "unit.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "pjrtfs/shm.h"

enum { N = 1000 };

static const uint64_t seeds[] = { 1, 2, 3, 4, 5 };

static uint32_t next(uint64_t *seed, uint32_t limit)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)((*seed >> 33) % limit);
}

START_TEST(one_extent_is_all_there_is)
{
	struct pf_extents x;
	bool cold = false;

	ck_assert_int_eq(pf_extents_init(&x, 1, NULL), 0);
	ck_assert_uint_eq(pf_extents_take(&x, 2, &cold), PF_NO_EXTENT);
	ck_assert_uint_eq(pf_extents_take(&x, 1, &cold), 0);
	ck_assert(cold);
	ck_assert_uint_eq(pf_extents_take(&x, 1, &cold), PF_NO_EXTENT);
	ck_assert_uint_eq(pf_extents_length(&x, 0), 1);
	ck_assert_uint_eq(pf_extents_length(&x, 1), 0);
	pf_extents_give(&x, 0, true);
	ck_assert_uint_eq(pf_extents_length(&x, 0), 0);
	ck_assert_uint_eq(x.warm, 1);
	ck_assert_uint_eq(pf_extents_take(&x, 1, &cold), 0);
	ck_assert(!cold);
	pf_extents_release(&x);
}
END_TEST

/* The last granule of an extent is no start, whatever follows it. */
START_TEST(only_starts_have_a_length)
{
	struct pf_extents x;
	bool cold;

	ck_assert_int_eq(pf_extents_init(&x, 6, NULL), 0);
	for (uint32_t at = 0; at < 6; at += 2)
		ck_assert_uint_eq(pf_extents_take(&x, 2, &cold), at);
	for (uint32_t at = 0; at < 6; at++)
		ck_assert_uint_eq(pf_extents_length(&x, at), at % 2 ? 0 : 2);
	pf_extents_release(&x);
}
END_TEST

START_TEST(warm_goes_first_and_can_be_cooled)
{
	struct pf_extents x;
	uint32_t a, b, got;
	bool cold;

	ck_assert_int_eq(pf_extents_init(&x, 100, NULL), 0);
	a = pf_extents_take(&x, 10, &cold);
	b = pf_extents_take(&x, 10, &cold);
	pf_extents_give(&x, a, true);
	ck_assert_uint_eq(pf_extents_take(&x, 11, &cold), 20);
	ck_assert(cold);
	ck_assert_uint_eq(pf_extents_take(&x, 4, &cold), a);
	ck_assert(!cold);
	ck_assert_uint_eq(x.warm, 6);
	ck_assert_uint_eq(pf_extents_take_warm(&x, 5, &got), a + 4);
	ck_assert_uint_eq(got, 5);
	pf_extents_give(&x, a + 4, false);
	ck_assert_uint_eq(x.warm, 1);
	pf_extents_give(&x, a, false);
	ck_assert_uint_eq(pf_extents_take_warm(&x, 5, &got), a + 9);
	ck_assert_uint_eq(got, 1);
	ck_assert_uint_eq(pf_extents_take_warm(&x, 5, &got), PF_NO_EXTENT);
	pf_extents_give(&x, a + 9, false);
	pf_extents_give(&x, b, false);
	pf_extents_give(&x, 20, false);
	ck_assert_uint_eq(x.used, 0);
	ck_assert_uint_eq(pf_extents_take(&x, 100, &cold),
			  0); /* all in one piece again */
	pf_extents_release(&x);
}
END_TEST

/* Take what fits, or give something back; OWNER says who has what. */
static void random_step(struct pf_extents *x, uint32_t *owner, uint64_t *seed)
{
	uint32_t at = next(seed, N), n = 1 + next(seed, next(seed, 4) ? 8 : 200);
	bool cold;

	if (owner[at]) {
		uint32_t first = owner[at] - 1, len = pf_extents_length(x, first);

		for (uint32_t i = 0; i < N; i++)
			if (owner[i] == first + 1)
				owner[i] = 0, len--;
		ck_assert_uint_eq(len, 0);
		pf_extents_give(x, first, next(seed, 2));
		return;
	}
	at = pf_extents_take(x, n, &cold);
	if (at == PF_NO_EXTENT)
		return;
	n = at + n;
	for (uint32_t i = at; i < n; i++) {
		if (owner[i] || n > N)
			ck_abort_msg("granule %u was given out twice", i);
		owner[i] = at + 1;
	}
}

START_TEST(random_use_keeps_order)
{
	static uint32_t owner[N];
	struct pf_extents x;
	uint64_t seed = seeds[_i];
	uint32_t used = 0;
	bool cold;

	memset(owner, 0, sizeof(owner));
	ck_assert_int_eq(pf_extents_init(&x, N, NULL), 0);
	for (int i = 0; i < 20000; i++)
		random_step(&x, owner, &seed);
	for (uint32_t i = 0; i < N; i++)
		used += owner[i] != 0;
	ck_assert_uint_eq(x.used, used);
	for (uint32_t i = 0; i < N; i++)
		if (owner[i] == i + 1)
			pf_extents_give(&x, i, false);
	for (uint32_t got, at; (at = pf_extents_take_warm(&x, N, &got)) != PF_NO_EXTENT;)
		pf_extents_give(&x, at, false);
	ck_assert_uint_eq(x.used, 0);
	ck_assert_uint_eq(x.warm, 0);
	ck_assert_uint_eq(pf_extents_take(&x, N, &cold), 0);
	pf_extents_release(&x);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("extents");
	TCase *tc = tcase_create("core");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, one_extent_is_all_there_is);
	tcase_add_test(tc, only_starts_have_a_length);
	tcase_add_test(tc, warm_goes_first_and_can_be_cooled);
	unit_add_cases(tc, random_use_keeps_order, seeds);
	suite_add_tcase(s, tc);
	return unit_run(s);
}
