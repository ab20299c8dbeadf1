/* SPDX-License-Identifier: Apache-2.0 */
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pjrtfs/base.h"

static bool is_of_another_user(const char *dir)
{
	struct stat st;

	return stat(dir, &st) == 0 && st.st_uid != geteuid();
}

char *pf_home_dir(void)
{
	const char *home = getenv("HOME");
	const struct passwd *user = NULL;

	if (home && *home != '/')
		home = NULL;
	if (!home || is_of_another_user(home))
		user = getpwuid(geteuid());
	if (user && *user->pw_dir == '/')
		home = user->pw_dir;
	return home ? strdup(home) : NULL;
}
