/* SPDX-License-Identifier: Apache-2.0 */
/* The plugins that unit tests run on, and the worker: $PJRTFS_WORKER or ./pjrtfs-worker. */
#ifndef PJRTFS_TESTS_UNIT_PLUGINS_H
#define PJRTFS_TESTS_UNIT_PLUGINS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

enum { MAX_PLUGINS = 8 };

static char *plugins[MAX_PLUGINS];
static int n_plugins;

/* Begin the definition of a test that runs once for each plugin: plugins[_i]. */
#define TEST_ON_PLUGINS(name) UNIT_TEST(name, 0, &n_plugins)

/* Fill plugins from $PJRTFS_TEST_PLUGIN: paths with colons between them. */
static const char *find_plugins(void)
{
	static char names[4096];
	const char *given = getenv("PJRTFS_TEST_PLUGIN");
	char *save = NULL;

	setenv("TF_CPP_MIN_LOG_LEVEL", "1", 0);
	snprintf(names, sizeof(names), "%s", given ? given : "");
	for (char *p = strtok_r(names, ":", &save); p && n_plugins < MAX_PLUGINS;
	     p = strtok_r(NULL, ":", &save))
		if (access(p, R_OK) == 0)
			plugins[n_plugins++] = p;
	return n_plugins ? NULL : "no plugin: scripts/fetch-plugins fetches some";
}

UNIT_NEEDS(find_plugins)

static inline const char *or_else(const char *variable, const char *otherwise)
{
	const char *value = getenv(variable);

	return value ? value : otherwise;
}

static inline const char *worker_program(void)
{
	return or_else("PJRTFS_WORKER", "./pjrtfs-worker");
}

static inline const char *faulty_plugin(void)
{
	return or_else("PJRTFS_FAULTY_PLUGIN", "tests/faults/faulty_plugin.so");
}

#endif
