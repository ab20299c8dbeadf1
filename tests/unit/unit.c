/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main() of unit test programs: run the files named by arguments (check_npy), or all, and print
 * TAP to standard output; -l lists them.  Check's environment variables work: CK_FORK=no for a
 * debugger, CK_RUN_CASE=check_npy as the argument.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A test that hangs ends after this time, multiplied by $CK_TIMEOUT_MULTIPLIER. */
enum { TIMEOUT_SECONDS = 60 };

static struct unit_file *files, *last_file;

void unit_add(struct unit_file *file, struct unit_test *test)
{
	if (!file->first) {
		*(last_file ? &last_file->next : &files) = file;
		last_file = file;
	}
	*(file->last ? &file->last->next : &file->first) = test;
	file->last = test;
}

/* The name of FILE without its folder and ".c", owned. */
static char *name_of(const struct unit_file *file)
{
	const char *slash = strrchr(file->path, '/'),
		   *name = slash ? slash + 1 : file->path;

	return strndup(name, strcspn(name, "."));
}

START_TEST(nothing)
{
}
END_TEST

/* One result of the file, whose name tells TAP that it was skipped and WHY. */
static void add_skipped(TCase *tc, const struct unit_file *file, const char *why)
{
	TTest *skipped = malloc(sizeof(*skipped));
	char *name;

	if (!skipped || asprintf(&name, "none # SKIP %s", why) < 0)
		abort();
	*skipped = (TTest){ name, nothing->fn, file->path, 1 };
	tcase_add_test(tc, skipped);
}

static void add_file(Suite *suite, const struct unit_file *file)
{
	const char *why = file->needs ? file->needs() : NULL;
	TCase *tc = tcase_create(name_of(file));

	tcase_set_timeout(tc, TIMEOUT_SECONDS);
	suite_add_tcase(suite, tc);
	if (why) {
		add_skipped(tc, file, why);
		return;
	}
	if (file->setup || file->teardown)
		tcase_add_checked_fixture(tc, file->setup, file->teardown);
	for (const struct unit_test *t = file->first; t; t = t->next)
		tcase_add_loop_test(tc, *t->test, 0, t->counter ? *t->counter : t->times);
}

/* Add the file called NAME, or all if it is NULL; how many. */
static int add_files(Suite *suite, const char *name)
{
	int n = 0;

	for (const struct unit_file *f = files; f; f = f->next) {
		char *own = name_of(f);

		if (!name || !strcmp(own, name)) {
			add_file(suite, f);
			n++;
		}
		free(own);
	}
	return n;
}

int main(int argc, char **argv)
{
	Suite *suite = suite_create(program_invocation_short_name);
	SRunner *runner = srunner_create(suite);
	int failed;

	if (argc == 2 && !strcmp(argv[1], "-l")) {
		for (const struct unit_file *f = files; f; f = f->next)
			puts(name_of(f));
		return EXIT_SUCCESS;
	}
	for (int i = 1; i < argc; i++)
		if (!add_files(suite, argv[i])) {
			fprintf(stderr, "%s has no file %s; -l lists them\n",
				program_invocation_short_name, argv[i]);
			return 2;
		}
	if (argc == 1)
		add_files(suite, NULL);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
