/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for plugins: files where PJRT's users put them, found by name and never loaded.
 *
 * The order of the places is part of the interface (pjrtfs-plugins(7)): a plugin in an earlier place
 * precedes one in a later place.
 */
#ifndef PJRTFS_DISCOVER_H
#define PJRTFS_DISCOVER_H

#include <stdbool.h>

#include "pjrtfs/base.h"

enum {
	PF_PLUGIN_NAME = 33,        /* bytes of a plugin's name, NUL included */
	PF_PLUGIN_VERSION = 32,     /* bytes of its version, NUL included */
	PF_DISCOVER_FILES = 256,    /* files that are noted, at most */
	PF_DISCOVER_PLACES = 512,   /* places that are searched, at most */
	PF_DISCOVER_ENTRIES = 65536 /* of one directory that are read, at most */
};

/* A file that is named like a plugin. */
struct pf_plugin_file {
	char name[PF_PLUGIN_NAME];       /* "cpu" */
	char version[PF_PLUGIN_VERSION]; /* of the file's name or of its package; or "" */
	char package[128];               /* Python's, "xla_cpu_pjrt 0.0.1"; or "" */
	char *path;    /* owned, absolute; symbolic links are not followed */
	char *refused; /* owned: why it cannot be a plugin, without loading it; or NULL */
	unsigned place; /* index into places */
};

/* A place to search. */
struct pf_search_place {
	const char *source; /* static: "$PJRT_PLUGIN_PATH", "/etc/ld.so.conf" */
	char *where;        /* owned: the directory or the file, or "" */
	char *note;         /* owned: a note about it ("not set"), or NULL */
	bool wrong;         /* the note is about an error: not all of it was read */
	bool is_site;       /* a Python's site-packages directory */
};

struct pf_discovery {
	struct pf_search_place *places; /* owned, in their order */
	unsigned n_places;
	struct pf_plugin_file *files; /* owned, by place */
	unsigned n_files;
	bool no_memory; /* while it was made */
};

/* The places to search; all is borrowed for the call.  All zeros: those where the system
 * has plugins. */
struct pf_discover_config {
	/* Lists that NULL ends; NULL: an empty one.  A word is NAME=PATH or PATH; a NAME alone is
	 * ignored. */
	const char *const *words;           /* --plugin's */
	const char *const *dirs;            /* --plugin-dir's */
	const char *const *configured;      /* words for plugins of the configuration */
	const char *const *configured_dirs; /* its plugin_dir, searched after these */
	const char *own_dir; /* the directory that configure chose, or NULL */
	bool own_only; /* only in dirs, what is configured, $PJRTFS_PLUGIN_PATH, own_dir */
	/* End at the first place that has a plugin of this name; or NULL. */
	const char *until;
	const char *root; /* precedes the fixed paths (/etc, /opt, /usr); NULL: "" */
};

/*
 * Search all places, in the order of pjrtfs-plugins(7).
 * ret   on success, the caller's; pf_discovery_free
 * -ENOMEM.  Any other error is the note of its place.  Reads directories, the first bytes of
 * regular files and ld.so.conf(5); loads and runs nothing.  Reads the environment.
 */
int pf_discover(const struct pf_discover_config *config, struct pf_discovery **ret,
		struct pf_err *err);

/* Free it; NULL is allowed. */
void pf_discovery_free(struct pf_discovery *discovery);
PF_DEFINE_CLEANUP(struct pf_discovery *, pf_discovery_free)

/*
 * The plugin called NAME (or whose file is, without .so): of the first place that has one
 * which is not refused, the newest.  If that place has several, MINOR_OF (may be NULL)
 * returns the API version of each (0.MINOR; -1: unknown); of equals the versions in the
 * files' names decide.  If all are refused, one of them.  NULL: none.  Borrowed from DISCOVERY.
 */
const struct pf_plugin_file *pf_discovery_pick(
	const struct pf_discovery *discovery, const char *name,
	int (*minor_of)(void *arg, const char *path), void *arg);

/* May a plugin have NAME: up to 32 letters, digits, '.', '_', '-', no '.' first?  0; -EINVAL. */
int pf_plugin_name_check(const char *name, struct pf_err *err);

/*
 * A name for the plugin at PATH: from its file's name ("libpjrt_cpu.so": cpu), for
 * pjrt_plugin.so its directory's, else the file's without ".so".  The caller's; NULL: no
 * memory.
 */
char *pf_plugin_name_of(const char *path);

#endif
