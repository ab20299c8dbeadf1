/* SPDX-License-Identifier: Apache-2.0 */
/* The main() of unit test programs. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>

/* A test that hangs ends after this time, multiplied by $CK_TIMEOUT_MULTIPLIER. */
enum { TIMEOUT_SECONDS = 60 };

const struct unit_fixture unit_fixture __attribute__((weak)) = { NULL, NULL };
const char *unit_skipped;

static struct unit_test *first, **end = &first;

void unit_add(struct unit_test *test)
{
	*end = test;
	end = &test->next;
}

int unit_run(void)
{
	Suite *suite = suite_create(program_invocation_short_name);
	TCase *tc = tcase_create("core");
	SRunner *runner = srunner_create(suite);
	int failed;

	if (unit_skipped) {
		printf("1..0 # SKIP %s\n", unit_skipped);
		return EXIT_SUCCESS;
	}
	tcase_set_timeout(tc, TIMEOUT_SECONDS);
	if (unit_fixture.before || unit_fixture.after)
		tcase_add_checked_fixture(tc, unit_fixture.before, unit_fixture.after);
	for (struct unit_test *t = first; t; t = t->next)
		tcase_add_loop_test(tc, *t->test, 0, t->counter ? *t->counter : t->times);
	suite_add_tcase(suite, tc);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

__attribute__((weak)) int main(void)
{
	return unit_run();
}
