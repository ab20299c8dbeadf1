/* SPDX-License-Identifier: Apache-2.0 */
/* The command line, and the configuration that goes before it. */
#ifndef PJRTFS_OPTIONS_H
#define PJRTFS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cache_options.h"
#include "pjrtfs/base/err.h"
#include "pjrtfs/discover/discover.h"
#include "settings.h"

enum { MAX_WORDS = 64 };

struct options {
	bool foreground;
	bool debug;
	bool help, version;
	bool list_plugins, json;
	char *check_plugin;             /* owned: what --check-plugin names, or NULL */
	unsigned timeout_s;             /* for one plugin, with these two */
	struct pf_discovery *discovery; /* owned: every plugin, with list_plugins */
	char *mountpoint;               /* owned, absolute; or /dev/fd/N */
	char *source;                   /* owned: what df and mount show */
	unsigned n_plugins;
	struct pf_candidate plugins[MAX_PLUGINS]; /* to load; owned, absolute paths */
	const char
		*fuse[MAX_WORDS + 1]; /* owned strings; -o's for FUSE, NULL-terminated */
	unsigned n_fuse;
	mode_t mode;    /* of directories where users make things; 0: nobody said it */
	bool has_group; /* group is their group */
	gid_t group;
	uint64_t memory_limit; /* bytes */
	bool allow_native;     /* anybody may load compiled programs */
	struct cache_options cache;
	struct settings settings;
	char *in_force; /* owned: what differs from the defaults, as JSON; NULL: not known */
	struct json_object *dump; /* owned: --dump-config's, to be printed; or NULL */
};

/*
 * Read the command line and find the plugins.  0; -EINVAL with a sentence for what is wrong
 * with it or with the configuration; -ENOENT: none of the plugins is found (the sentence says
 * where was looked); where others are, such a plugin is refused.  With help or version set nothing else is checked, with dump no plugin
 * was looked for.  With list_plugins there is a discovery, and with check_plugin
 * the plugin is plugins[0]; there is no mount point then.
 */
int options_parse(int argc, char **argv, struct options *ret, struct pf_err *err);

void options_release(struct options *options);

/* Is WORD of -o for mount(8), systemd or the kernel's VFS?  libfuse does not know these. */
bool options_for_mount(const char *word);

/* Remember WORD of -o for FUSE, unless it is for others: it is copied.  -EINVAL: too many, or
 * with a comma. */
int options_add_fuse(struct options *o, const char *word, struct pf_err *err);
void options_forget_fuse(struct options *o);

/* --mode and --group: VALUE is an octal mode, and a group's name or number.  0; -EINVAL with a
 * sentence. */
int options_take_mode(struct options *o, const char *value, struct pf_err *err);
int options_take_group(struct options *o, const char *value, struct pf_err *err);

/* The text of --help. */
extern const char options_help[];

#endif
