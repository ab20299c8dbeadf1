/* SPDX-License-Identifier: Apache-2.0 */
/* For every unit test program: tests that register themselves; unit.c has main(). */
#ifndef PJRTFS_TESTS_UNIT_UNIT_H
#define PJRTFS_TESTS_UNIT_UNIT_H

#include <check.h>
#include <stdlib.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Begin the definition of a test that the program runs once. */
#define TEST(name) UNIT_TEST(name, 1, NULL)

/* … that it runs N times, with _i from 0 to N - 1. */
#define TEST_TIMES(name, n) UNIT_TEST(name, n, NULL)

/* … that it runs once for each member of the array CASES; the test finds its own by _i. */
#define TEST_EACH(name, cases) UNIT_TEST(name, (int)ARRAY_SIZE(cases), NULL)

#define UNIT_TEST(name, times, counter)                                                  \
	static const TTest *name;                                                        \
	__attribute__((constructor)) static void add_##name(void)                        \
	{                                                                                \
		static struct unit_test test = { &name, times, counter, NULL };          \
		unit_add(&test);                                                         \
	}                                                                                \
	START_TEST(name)

struct unit_test {
	const TTest *const *test;
	int times;
	const int *counter; /* how many times, if it is known only when main() runs */
	struct unit_test *next;
};

void unit_add(struct unit_test *test);

/* Run before and after each test, in its process.  A program may define it. */
struct unit_fixture {
	void (*before)(void), (*after)(void);
};

extern const struct unit_fixture unit_fixture;

/* Why the program is skipped: a constructor or main() may set it. */
extern const char *unit_skipped;

/*
 * Run all tests and print TAP to standard output; returns main's status.  A program with a
 * main() of its own calls it.  Check's environment variables work: CK_FORK=no for a
 * debugger, CK_RUN_CASE for one case.
 */
int unit_run(void);

#endif
