/* SPDX-License-Identifier: Apache-2.0 */
/* Quarantine after a worker's death: refused users, durations, and delayed compiles. */
#include "store/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

enum { OWNER = 7, B = 1001, A = 1002 };

static int64_t now;
static struct pf_quarantine *q;

static int64_t clock_ms(void)
{
	return now;
}

static void open_it(void)
{
	now = 5000;
	q = pf_quarantine_new(OWNER, clock_ms);
	ck_assert_ptr_nonnull(q);
}

static void close_it(void)
{
	free(q);
}

static struct pf_cache_key key(unsigned n)
{
	struct pf_cache_key k = { { 0 } };

	memcpy(k.bytes, &n, sizeof(n));
	return k;
}

static void dies(enum pf_suspect what, unsigned n, uid_t user)
{
	struct pf_cache_key k = key(n);
	struct pf_err why = PF_ERR_INIT;

	pf_err_set(&why, -EIO, "it died of program %u", n);
	pf_quarantine_add(q, what, &k, user, &why);
}

static int asks(enum pf_suspect what, unsigned n, uid_t user, struct pf_err *err)
{
	struct pf_cache_key k = key(n);

	return pf_quarantine_check(q, what, &k, user, err);
}

TEST(only_that_user_and_program_are_refused)
{
	struct pf_err err = PF_ERR_INIT;

	ck_assert_int_eq(asks(PF_SUSPECT_COMPILE, 1, B, NULL), 0);
	dies(PF_SUSPECT_COMPILE, 1, B);
	ck_assert_int_eq(asks(PF_SUSPECT_COMPILE, 1, B, &err), -EIO);
	ck_assert_str_eq(err.text, "it died of program 1 (the same is refused for "
				   "another 10 s)");
	ck_assert_int_eq(asks(PF_SUSPECT_COMPILE, 2, B, NULL), 0);
	ck_assert_int_eq(asks(PF_SUSPECT_COMPILE, 1, A, NULL), 0);
	ck_assert_int_eq(asks(PF_SUSPECT_EXECUTION, 1, B, NULL), 0);
	dies(PF_SUSPECT_EXECUTION, 2, B);
	ck_assert_int_eq(asks(PF_SUSPECT_EXECUTION, 2, B, NULL), -EIO);
	ck_assert_int_eq(asks(PF_SUSPECT_COMPILE, 2, B, NULL), 0);
}

TEST(refusals_double_and_end)
{
	static const int seconds[] = { 10, 20, 40, 80, 160, 320, 600, 600 };
	struct pf_err err = PF_ERR_INIT;
	char want[80];

	for (size_t i = 0; i < sizeof(seconds) / sizeof(*seconds); i++) {
		dies(PF_SUSPECT_COMPILE, 1, B);
		now += seconds[i] * 1000 - 1;
		ck_assert_int_eq(asks(PF_SUSPECT_COMPILE, 1, B, &err), -EIO);
		snprintf(want, sizeof(want),
			 "it died of program 1 (the same is refused for another 1 s)");
		ck_assert_str_eq(err.text, want);
		now++;
		ck_assert_int_eq(asks(PF_SUSPECT_COMPILE, 1, B, NULL), 0);
	}
	/* Ten minutes after the last refusal all of that is forgotten. */
	now += 600001;
	dies(PF_SUSPECT_COMPILE, 2, A);
	dies(PF_SUSPECT_COMPILE, 1, B);
	now += 10000;
	ck_assert_int_eq(asks(PF_SUSPECT_COMPILE, 1, B, NULL), 0);
}

TEST(the_owner_clears)
{
	dies(PF_SUSPECT_COMPILE, 1, B);
	dies(PF_SUSPECT_COMPILE, 1, A);
	dies(PF_SUSPECT_COMPILE, 2, B);
	dies(PF_SUSPECT_COMPILE, 1, OWNER);
	ck_assert_int_eq(asks(PF_SUSPECT_COMPILE, 1, OWNER, NULL), 0);
	ck_assert_int_eq(asks(PF_SUSPECT_COMPILE, 1, B, NULL), 0);
	ck_assert_int_eq(asks(PF_SUSPECT_COMPILE, 1, A, NULL), 0);
	ck_assert_int_eq(asks(PF_SUSPECT_COMPILE, 2, B, NULL), -EIO);
}

TEST(a_burst_of_deaths_makes_its_user_wait)
{
	static const int waits[] = { 0, 0, 0, 0, 1, 2, 4, 8, 16, 30 };

	for (unsigned i = 0; i < sizeof(waits) / sizeof(*waits); i++) {
		ck_assert_int_le(pf_quarantine_waits_until(q, B), now);
		dies(PF_SUSPECT_COMPILE, i, B);
		if (waits[i]) {
			ck_assert_int_eq(pf_quarantine_waits_until(q, B),
					 now + waits[i] * 1000);
			now += waits[i] * 1000 - 1;
			ck_assert_int_gt(pf_quarantine_waits_until(q, B), now);
		}
		ck_assert_int_eq(pf_quarantine_waits_until(q, A), 0);
		now++;
	}
	/* A user whose programs rarely end a worker does not wait. */
	for (unsigned i = 0; i < 20; i++) {
		now += 15001;
		dies(PF_SUSPECT_COMPILE, i, A);
		ck_assert_int_eq(pf_quarantine_waits_until(q, A), 0);
	}
}

/* However many there are, memory is bounded, and the latest are refused. */
TEST(the_oldest_of_many_are_forgotten)
{
	for (unsigned i = 0; i < 3000; i++) {
		dies(PF_SUSPECT_COMPILE, i, 2000 + i);
		now++;
	}
	ck_assert_int_eq(asks(PF_SUSPECT_COMPILE, 2999, 4999, NULL), -EIO);
	ck_assert_int_eq(asks(PF_SUSPECT_COMPILE, 2900, 4900, NULL), -EIO);
	ck_assert_int_eq(asks(PF_SUSPECT_COMPILE, 0, 2000, NULL), 0);
}

UNIT_FIXTURE(open_it, close_it)
