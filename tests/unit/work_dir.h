/* SPDX-License-Identifier: Apache-2.0 */
/* A working directory for each test, and files in it. */
#ifndef PJRTFS_TESTS_UNIT_WORK_DIR_H
#define PJRTFS_TESTS_UNIT_WORK_DIR_H

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

static char work_dir[] = "/tmp/pjrtfs-check.XXXXXX";

/* A file that begins as a shared library; no test loads it. */
#define LIBRARY "\177ELF"

/* Make the directories that PATH has before its last name. */
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
	ck_assert_int_eq(fclose(f), 0);
}

static inline void work_dir_begin(void)
{
	strcpy(work_dir, "/tmp/pjrtfs-check.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(work_dir));
	ck_assert_int_eq(chdir(work_dir), 0);
}

static inline void work_dir_end(void)
{
	char command[128];

	ck_assert_int_eq(chdir("/"), 0);
	snprintf(command, sizeof(command),
		 "PATH=/usr/bin:/bin rm -rf --one-file-system '%s'", work_dir);
	ck_assert_int_eq(system(command), 0);
}

#endif
