/* SPDX-License-Identifier: Apache-2.0 */
/* A working directory for each test, and files in it. */
#ifndef PJRTFS_TESTS_UNIT_WORK_DIR_H
#define PJRTFS_TESTS_UNIT_WORK_DIR_H

#include <fcntl.h>
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
static inline void put_file(const char *path, const char *text)
{
	FILE *f;

	make_dirs(path);
	f = fopen(path, "w");
	ck_assert_msg(f != NULL, "%s", path);
	fputs(text, f);
	ck_assert_int_eq(fclose(f), 0);
}

/* Remove PATH and all below it. */
static inline void remove_tree(const char *path)
{
	char command[256];

	snprintf(command, sizeof(command),
		 "PATH=/usr/bin:/bin rm -rf --one-file-system '%s'", path);
	ck_assert_int_eq(system(command), 0);
}

/* Make the directory, without working in it. */
static inline void work_dir_make(void)
{
	strcpy(work_dir, "/tmp/pjrtfs-check.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(work_dir));
}

static int dir_before = -1; /* while a test works in the directory */

static inline void work_dir_begin(void)
{
	work_dir_make();
	dir_before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_eq(chdir(work_dir), 0);
}

/* The tests behind this one may run in the same process. */
static inline void work_dir_end(void)
{
	if (dir_before >= 0) {
		ck_assert_int_eq(fchdir(dir_before), 0);
		close(dir_before);
		dir_before = -1;
	}
	remove_tree(work_dir);
}

#endif
