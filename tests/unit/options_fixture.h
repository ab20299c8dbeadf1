/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines, and files for them to find. */
#ifndef PJRTFS_TESTS_UNIT_OPTIONS_FIXTURE_H
#define PJRTFS_TESTS_UNIT_OPTIONS_FIXTURE_H

#include "daemon/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

enum { MAX_ARGS = 40 };

static struct options o; /* of the last parse */
static struct pf_err err;
static char dir[] = "/tmp/check_options.XXXXXX"; /* the working directory of the tests */

static inline void touch(const char *path)
{
	FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	fputs("\177ELF", f); /* the first bytes of a library; no test loads them */
	fclose(f);
}

/* Plugins to be found: plugins/{cpu,gpu}/pjrt_plugin.so, plugins/flat.so, other/cpu.so. */
static inline void make_files(void)
{
	strcpy(dir, "/tmp/check_options.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(chdir(dir), 0);
	mkdir("m", 0700);
	mkdir("plugins", 0700);
	mkdir("plugins/cpu", 0700);
	mkdir("plugins/gpu", 0700);
	mkdir("other", 0700);
	touch("plugins/cpu/pjrt_plugin.so");
	touch("plugins/gpu/pjrt_plugin.so");
	touch("plugins/flat.so");
	touch("other/cpu.so");
	touch("file");
	close(open("plugins/empty.so", O_CREAT | O_WRONLY, 0600)); /* no library */
	setenv("PJRTFS_PLUGIN_PATH", "plugins", 1);
	setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
}

static inline void remove_files(void)
{
	static const char *const paths[] = {
		"plugins/cpu/pjrt_plugin.so",
		"plugins/gpu/pjrt_plugin.so",
		"plugins/flat.so",
		"plugins/empty.so",
		"other/cpu.so",
		"file",
		"plugins/cpu",
		"plugins/gpu",
		"plugins",
		"other",
		"m",
	};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		remove(paths[i]);
	options_release(&o);
	ck_assert_int_eq(chdir("/"), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}

/* Parse LINE, which is split at blanks, into O, and find its plugins. */
static inline int parse(const char *line)
{
	static char words[8192];
	char *argv[MAX_ARGS + 2] = { (char *)(uintptr_t) "pjrtfs" }, *save = NULL;
	int argc = 1;

	options_release(&o);
	err = (struct pf_err)PF_ERR_INIT;
	snprintf(words, sizeof(words), "%s", line);
	for (char *w = strtok_r(words, " ", &save); w && argc <= MAX_ARGS;
	     w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	if (cmdline_parse(argc, argv, &o, &err) < 0)
		return err.code;
	if ((o.mountpoint || o.check_plugin) && plugin_choice(&o, NULL, &err) < 0)
		return err.code;
	return o.mountpoint ? cmdline_find_mountpoint(&o, &err) : 0;
}

/* "name=path-in-dir" of each plugin. */
static inline const char *shown_plugins(void)
{
	static char text[1024];

	*text = '\0';
	for (unsigned i = 0; i < o.n_plugins; i++) {
		const char *path = o.plugins[i].path;
		const char *at = strstr(path, dir);

		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s=%s",
			 i ? " " : "", o.plugins[i].name,
			 at ? at + strlen(dir) + 1 : path);
	}
	return text;
}

#define CPU "cpu=plugins/cpu/pjrt_plugin.so"
#define GPU "gpu=plugins/gpu/pjrt_plugin.so"

#endif
