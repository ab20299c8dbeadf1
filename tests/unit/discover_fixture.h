/* SPDX-License-Identifier: Apache-2.0 */
/* Files for the discovery of plugins, in a directory of their own, and what it finds. */
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

/* A file that begins as a shared library; no test loads it. */
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

/* --- places --------------------------------------------------------------------------------- */

static inline struct pf_discovery *discover(const struct pf_discover_config *config)
{
	struct pf_discovery *d = NULL;
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(pf_discover(config, &d, &err) == 0, "%s", err.text);
	return d;
}

/* The files found below the working directory: "SOURCE NAME=PATH VERSION (PACKAGE)" lines. */
static inline const char *found(const struct pf_discovery *d)
{
	static char text[16384];
	char *at = text;

	*text = '\0';
	for (unsigned i = 0; i < d->n_files; i++) {
		const struct pf_plugin_file *f = &d->files[i];
		const char *path = strstr(f->path, top);

		at += sprintf(at, "%s: %s=%s", d->places[f->place].source, f->name,
			      path ? path + strlen(top) + 1 : f->path);
		at += sprintf(at, "%s%s", *f->version ? " " : "", f->version);
		if (*f->package)
			at += sprintf(at, " (%s)", f->package);
		at += sprintf(at, "%s%s\n", f->refused ? " refused: " : "",
			      f->refused ? f->refused : "");
	}
	return text;
}

static inline const struct pf_search_place *place_of(const struct pf_discovery *d,
						     const char *where)
{
	for (unsigned i = 0; i < d->n_places; i++)
		if (strstr(d->places[i].where, where))
			return &d->places[i];
	return NULL;
}

#endif
