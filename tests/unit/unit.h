/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For every unit test: tests that register themselves.  All files of a layer are one program, whose
 * main() is unit.c's.
 */
#ifndef PJRTFS_TESTS_UNIT_UNIT_H
#define PJRTFS_TESTS_UNIT_UNIT_H

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>

/*
 * Check writes to a file after each assertion that held, for the report of a test that crashes.  It
 * does so once for each assertion of a test: in a loop that would take longer than most tests.
 */
static inline void unit_mark(_Atomic bool *marked, const char *file, int line)
{
	if (!*marked)
		_mark_point(file, line);
	*marked = true;
}
#define _mark_point(file, line)                                                          \
	({                                                                               \
		static _Atomic bool unit_marked;                                         \
		unit_mark(&unit_marked, file, line);                                     \
	})

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
		unit_add(&unit_file, &test);                                             \
	}                                                                                \
	START_TEST(name)

/* Run BEFORE and AFTER, or NULL, around each test of the file, in its process. */
#define UNIT_FIXTURE(before, after)                                                      \
	__attribute__((constructor)) static void add_fixture(void)                       \
	{                                                                                \
		unit_file.setup = before;                                                \
		unit_file.teardown = after;                                              \
	}

/*
 * Call WHY_NOT in the program's own process, before the first test: it prepares what the file's
 * tests share, and says why they cannot run here, or NULL.
 */
#define UNIT_NEEDS(why_not)                                                              \
	__attribute__((constructor)) static void add_needs(void)                         \
	{                                                                                \
		unit_file.needs = why_not;                                               \
	}

/*
 * Run each test in a process of its own also where AddressSanitizer looks for leaks at the end of
 * each process, which takes longer than most tests: the program's other files do so, too.
 */
#define UNIT_FORKS                                                                       \
	__attribute__((constructor)) static void add_forks(void)                         \
	{                                                                                \
		unit_file.forks = true;                                                  \
	}

struct unit_test {
	const TTest *const *test;
	int times;
	const int
		*counter; /* how many times, if it is known only after the file's needs */
	struct unit_test *next;
};

struct unit_file {
	const char *path;
	char name[32]; /* the path's last part, without ".c" */
	char result
		[128]; /* if it is skipped: the name of its only test, which says why */
	TTest skipped;
	bool forks;
	void (*setup)(void), (*teardown)(void);
	const char *(*needs)(void);
	struct unit_test *first, *last;
	struct unit_file *next;
};

static struct unit_file unit_file __attribute__((unused)) = { .path = __BASE_FILE__ };

void unit_add(struct unit_file *file, struct unit_test *test);

#endif
