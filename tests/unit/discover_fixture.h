/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of its own for tests of the discovery, and files in it. */
#ifndef PJRTFS_TESTS_UNIT_DISCOVER_FIXTURE_H
#define PJRTFS_TESTS_UNIT_DISCOVER_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "discover/internal.h"
#include "unit.h"

static char top[] = "/tmp/check_discover.XXXXXX"; /* the working directory */

/* --- files --------------------------------------------------------------------------------- */

static inline void make_dirs(const char *path)
{
	char part[PATH_MAX];

	for (const char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(p - path), path);
		(void)mkdir(part, 0700);
	}
}

/* Write TEXT to PATH, whose directories are made. */
static inline void put(const char *path, const char *text)
{
	FILE *f;

	make_dirs(path);
	f = fopen(path, "w");
	ck_assert_msg(f != NULL, "%s", path);
	fputs(text, f);
	fclose(f);
}

/* What a library looks like from outside; nothing loads it. */
static inline void put_library(const char *path)
{
	put(path, "\177ELF");
}

static inline void set_up(void)
{
	static const char *const variables[] = {
		"PJRTFS_PLUGIN_PATH",
		"PJRT_NAMES_AND_LIBRARY_PATHS",
		"PJRT_PLUGIN_LIBRARY_PATH",
		"PJRT_PLUGIN_PATH",
		"LD_LIBRARY_PATH",
		"VIRTUAL_ENV",
		"CONDA_PREFIX",
		"PYENV_VERSION",
	};

	strcpy(top, "/tmp/check_discover.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
	ck_assert_int_eq(chdir(top), 0);
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		unsetenv(variables[i]);
	setenv("PATH", "/nowhere", 1);
	setenv("HOME", "/nowhere", 1);
}

static inline void tear_down(void)
{
	char command[64];

	ck_assert_int_eq(chdir("/"), 0);
	setenv("PATH", "/usr/bin:/bin", 1);
	snprintf(command, sizeof(command), "rm -rf %s", top);
	ck_assert_int_eq(system(command), 0);
}

#endif
