/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin log, and a file in memory as the daemon's own log. */
#ifndef PJRTFS_TESTS_UNIT_PLUGIN_LOG_FIXTURE_H
#define PJRTFS_TESTS_UNIT_PLUGIN_LOG_FIXTURE_H

#include "engine/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"

static struct pf_plugin_log plugin_log;
static struct pf_lines_reader reader;
static int said; /* the daemon's log */

static inline void open_plugin_log(void)
{
	said = memfd_create("said", 0);
	ck_assert_int_ge(said, 0);
	ck_assert_int_eq(dup2(said, STDERR_FILENO), STDERR_FILENO);
	pf_log_setup(PF_LOG_INFO, false);
	ck_assert_int_eq(pf_plugin_log_init(&plugin_log, "test"), 0);
	memset(&reader, 0, sizeof(reader));
}

static inline void close_plugin_log(void)
{
	pf_lines_reader_release(&reader);
	pf_plugin_log_release(&plugin_log);
	close(said);
}

static inline void add(const char *text)
{
	pf_plugin_log_add(&plugin_log, text, strlen(text));
}

static inline void add_lines(unsigned n)
{
	char line[32];

	for (unsigned i = 1; i <= n; i++) {
		snprintf(line, sizeof(line), "line %u\n", i);
		add(line);
	}
}

#endif
