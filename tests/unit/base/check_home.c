/* SPDX-License-Identifier: Apache-2.0 */
/* Which directory is the user's home. */
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pjrtfs/base.h"
#include "unit.h"

static char dir[] = "/tmp/check_home.XXXXXX";

static void expect(const char *said, const char *want)
{
	char *home;

	if (said)
		setenv("HOME", said, 1);
	else
		unsetenv("HOME");
	home = pf_home_dir();
	ck_assert_pstr_eq(home, want);
	free(home);
}

START_TEST(the_environment_names_the_home)
{
	expect(dir, dir);
	expect("/nonexistent", "/nonexistent");
}
END_TEST

START_TEST(another_users_home_is_from_the_user_database)
{
	const struct passwd *user = getpwuid(geteuid());
	char *home = user ? strdup(user->pw_dir) : NULL;

	expect(NULL, home);
	expect("", home);
	expect("relative", home);
	/* Another user's: root can create one, other users have "/". */
	if (geteuid() == 0)
		ck_assert_int_eq(chown(dir, 12345, 12345), 0);
	expect(geteuid() == 0 ? dir : "/", home);
	if (geteuid() == 0)
		ck_assert_int_eq(chown(dir, 0, 0), 0);
	free(home);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("home");
	TCase *tc = tcase_create("core");
	int status;

	if (!mkdtemp(dir))
		return EXIT_FAILURE;
	tcase_add_test(tc, the_environment_names_the_home);
	tcase_add_test(tc, another_users_home_is_from_the_user_database);
	suite_add_tcase(s, tc);
	status = unit_run(s);
	rmdir(dir);
	return status;
}
