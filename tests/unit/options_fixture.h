/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines, and files for them to find. */
#ifndef PJRTFS_TESTS_UNIT_OPTIONS_FIXTURE_H
#define PJRTFS_TESTS_UNIT_OPTIONS_FIXTURE_H

#include "daemon/internal.h"

#include <errno.h>
#include <fcntl.h>

#include "work_dir.h"

enum { MAX_ARGS = 40 };

static struct options o; /* of the last parse */
static struct pf_err err;

/* Plugins to be found: plugins/{cpu,gpu}/pjrt_plugin.so, plugins/flat.so, other/cpu.so. */
static inline void make_files(void)
{
	work_dir_begin();
	make_dirs("m/");
	put_file("plugins/cpu/pjrt_plugin.so", LIBRARY);
	put_file("plugins/gpu/pjrt_plugin.so", LIBRARY);
	put_file("plugins/flat.so", LIBRARY);
	put_file("plugins/empty.so", "");
	put_file("other/cpu.so", LIBRARY);
	put_file("file", LIBRARY);
	setenv("PJRTFS_PLUGIN_PATH", "plugins", 1);
	setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
}

static inline void remove_files(void)
{
	options_release(&o);
	work_dir_end();
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
	if (o.mountpoint && cmdline_find_mountpoint(&o, &err) < 0)
		return err.code;
	return o.mountpoint || o.check_plugin ? plugin_choice(&o, NULL, &err) : 0;
}

/* "name=path-in-dir" of each plugin. */
static inline const char *shown_plugins(void)
{
	static char text[1024];

	*text = '\0';
	for (unsigned i = 0; i < o.n_plugins; i++) {
		const char *path = o.plugins[i].path;
		const char *at = strstr(path, work_dir);

		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s=%s",
			 i ? " " : "", o.plugins[i].name,
			 at ? at + strlen(work_dir) + 1 : path);
	}
	return text;
}

#define CPU "cpu=plugins/cpu/pjrt_plugin.so"
#define GPU "gpu=plugins/gpu/pjrt_plugin.so"

#endif
