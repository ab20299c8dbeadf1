/* SPDX-License-Identifier: Apache-2.0 */
/* For every unit test program: a main() that runs one suite and prints TAP. */
#ifndef PJRTFS_TESTS_UNIT_UNIT_H
#define PJRTFS_TESTS_UNIT_UNIT_H

#include <check.h>
#include <stdlib.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Add TEST once for each member of the array CASES; the test finds its own by _i. */
#define unit_add_cases(tc, test, cases)                                                  \
	tcase_add_loop_test(tc, test, 0, (int)ARRAY_SIZE(cases))

/*
 * Run SUITE (which is given) and print TAP to standard output.  Returns main's status.
 * Check's environment variables work: CK_FORK=no for a debugger, CK_RUN_CASE for one case.
 */
static inline int unit_run(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
