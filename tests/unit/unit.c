/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main() of unit test programs: run the files named by arguments (check_npy), or all, and print
 * TAP to standard output; -l lists them.  Check's environment variables work: CK_FORK=no for a
 * debugger, CK_RUN_CASE=check_npy as the argument.
 */
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A test that hangs ends after this time, multiplied by $CK_TIMEOUT_MULTIPLIER. */
enum { TIMEOUT_SECONDS = 60, PATIENCE_ENDED = 75 /* for tests/run */ };

static struct unit_file *files, *last_file;

void unit_add(struct unit_file *file, struct unit_test *test)
{
	const char *slash = strrchr(file->path, '/'),
		   *name = slash ? slash + 1 : file->path;

	if (!file->first) {
		snprintf(file->name, sizeof(file->name), "%.*s", (int)strcspn(name, "."),
			 name);
		*(last_file ? &last_file->next : &files) = file;
		last_file = file;
	}
	*(file->last ? &file->last->next : &file->first) = test;
	file->last = test;
}

START_TEST(nothing)
{
}
END_TEST

/* --- without a process for each test, the program ends with one that hangs ------------- */

static void end_program(int signal)
{
	const char *test = tcase_name(), why[] = ": Test timeout expired\n";

	(void)signal;
	(void)!write(STDERR_FILENO, test, test ? strlen(test) : 0);
	(void)!write(STDERR_FILENO, why, sizeof(why) - 1);
	_exit(PATIENCE_ENDED);
}

static void start_clock(void)
{
	const char *times = getenv("CK_TIMEOUT_MULTIPLIER");

	signal(SIGALRM, end_program); /* Check's own would end the group of processes */
	alarm((unsigned)(TIMEOUT_SECONDS * (times ? atof(times) : 1)));
}

static void stop_clock(void)
{
	alarm(0);
}

/* A leak between the tests of a program counts then, and a crash ends it. */
static bool may_run_without_fork(void)
{
#ifdef __SANITIZE_ADDRESS__
	for (const struct unit_file *f = files; f; f = f->next)
		if (f->forks)
			return false;
	return !getenv("CK_FORK");
#else
	return false;
#endif
}

/* --- the program ------------------------------------------------------------------------- */

static void add_file(Suite *suite, struct unit_file *file)
{
	const char *why = file->needs ? file->needs() : NULL;
	TCase *tc = tcase_create(file->name);

	tcase_set_timeout(tc, TIMEOUT_SECONDS);
	suite_add_tcase(suite, tc);
	if (why) { /* TAP knows a skipped test by its name */
		snprintf(file->result, sizeof(file->result), "none # SKIP %s", why);
		file->skipped = (TTest){ file->result, nothing->fn, file->path, 1 };
		tcase_add_test(tc, &file->skipped);
		return;
	}
	if (may_run_without_fork())
		tcase_add_checked_fixture(tc, start_clock, stop_clock);
	if (file->setup || file->teardown)
		tcase_add_checked_fixture(tc, file->setup, file->teardown);
	for (const struct unit_test *t = file->first; t; t = t->next)
		tcase_add_loop_test(tc, *t->test, 0, t->counter ? *t->counter : t->times);
}

/* Add the file called NAME, or all if it is NULL; how many. */
static int add_files(Suite *suite, const char *name)
{
	int n = 0;

	for (struct unit_file *f = files; f; f = f->next)
		if (!name || !strcmp(f->name, name)) {
			add_file(suite, f);
			n++;
		}
	return n;
}

static void list_files(void)
{
	for (const struct unit_file *f = files; f; f = f->next)
		puts(f->name);
}

int main(int argc, char **argv)
{
	Suite *suite = suite_create(program_invocation_short_name);
	SRunner *runner = srunner_create(suite);
	int failed;

	if (argc == 2 && !strcmp(argv[1], "-l")) {
		list_files();
		srunner_free(runner);
		return EXIT_SUCCESS;
	}
	for (int i = 1; i < argc; i++)
		if (!add_files(suite, argv[i])) {
			fprintf(stderr, "%s has no file %s; -l lists them\n",
				program_invocation_short_name, argv[i]);
			srunner_free(runner);
			return 2;
		}
	if (argc == 1)
		add_files(suite, NULL);
	srunner_set_tap(runner, "-");
	if (may_run_without_fork())
		srunner_set_fork_status(runner, CK_NOFORK);
	srunner_run_all(runner, CK_SILENT);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
