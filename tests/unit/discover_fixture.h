/* SPDX-License-Identifier: Apache-2.0 */
/* Files for the discovery of plugins, in a directory of their own, and what it finds. */
#ifndef PJRTFS_TESTS_UNIT_DISCOVER_FIXTURE_H
#define PJRTFS_TESTS_UNIT_DISCOVER_FIXTURE_H

#include <errno.h>
#include <fcntl.h>

#include "discover/internal.h"
#include "work_dir.h"

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

	work_dir_begin();
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		unsetenv(variables[i]);
	setenv("PATH", "/nowhere", 1);
	setenv("HOME", "/nowhere", 1);
}

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
		const char *path = strstr(f->path, work_dir);

		at += sprintf(at, "%s: %s=%s", d->places[f->place].source, f->name,
			      path ? path + strlen(work_dir) + 1 : f->path);
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
