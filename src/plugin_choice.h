/* Which plugins are loaded: from the words of the command line to files. */
#ifndef PJRTFS_PLUGIN_CHOICE_H
#define PJRTFS_PLUGIN_CHOICE_H

#include "options.h"

/* What was said of plugins; borrowed from argv. */
struct plugin_words {
	const char *said[MAX_PLUGINS]; /* --plugin's: NAME, PATH or NAME=PATH */
	unsigned n_said;
	const char *dirs[MAX_PLUGINS]; /* --plugin-dir's */
	unsigned n_dirs;
};

/*
 * SOURCE and --plugin's become OPTIONS' plugins, without any the default one, and what else
 * lies beside them is found.  0; -EINVAL with a sentence for what is said wrongly; -ENOENT: a
 * plugin that is not found.
 */
int plugin_choice(struct options *options, const struct plugin_words *words,
		  const char *source, struct pf_err *err);

#endif
