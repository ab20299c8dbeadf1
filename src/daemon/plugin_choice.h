/* SPDX-License-Identifier: Apache-2.0 */
/* Which plugins are loaded: from the words of the command line to files. */
#ifndef PJRTFS_PLUGIN_CHOICE_H
#define PJRTFS_PLUGIN_CHOICE_H

#include "options.h"

/* What was said of plugins; borrowed for as long as it is used. */
struct plugin_words {
	const char *said[MAX_PLUGINS]; /* --plugin's: NAME, PATH or NAME=PATH */
	unsigned n_said;
	const char *dirs[MAX_PLUGINS]; /* --plugin-dir's */
	unsigned n_dirs;
	struct pf_named configured[MAX_PLUGINS]; /* the configuration's */
	unsigned n_configured;
	const char *configured_dirs[MAX_PLUGINS];
	unsigned n_configured_dirs;
};

/*
 * SOURCE and --plugin's become OPTIONS' plugins, without any the default one, and what else
 * lies beside them is found.  A plugin whose file is not there is refused.  0; -EINVAL with a
 * sentence for what is said wrongly; -ENOENT: none of the plugins is there.
 */
int plugin_choice(struct options *options, const struct plugin_words *words,
		  const char *source, struct pf_err *err);

/* Find every plugin there is: OPTIONS' discovery.  0 or -errno. */
int plugin_choice_list(struct options *options, const struct plugin_words *words,
		       struct pf_err *err);

/* The plugin that WORD (NAME, PATH or NAME=PATH) means becomes OPTIONS' only one.  As
 * plugin_choice. */
int plugin_choice_one(struct options *options, const struct plugin_words *words,
		      const char *word, struct pf_err *err);

/*
 * Who tells the API version of the plugin at PATH (0.MINOR, -1: unknown) where several of one
 * name lie in one place; NULL, and at the start: nobody.
 */
extern int (*plugin_choice_minor_of)(void *arg, const char *path);

#endif
