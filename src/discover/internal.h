/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the discovery of plugins. */
#ifndef PJRTFS_DISCOVER_INTERNAL_H
#define PJRTFS_DISCOVER_INTERNAL_H

#include <stddef.h>

#include "pjrtfs/base.h"
#include "pjrtfs/discover.h"

/* Which files in a directory are plugins, by their names. */
enum {
	LOOK_NAMES = 0,   /* those called as PJRT's plugins are */
	LOOK_PLUGIN = 1,  /* and *_plugin.so, as in packages that hold nothing else */
	LOOK_ANY = 2,     /* and every *.so */
	LOOK_BELOW = 4,   /* and pjrt_plugin.so in directories below */
	LOOK_MUST_BE = 8, /* a missing directory is an error */
	LOOK_SYMBOL = 16, /* and shared libraries that have GetPjrtApi, in jax_plugins/ */
};

/*
 * The plugin's NAME ("cpu") and VERSION ("0.83.1", or "") by the PATH of its file
 * ("/a/pjrt_c_api_cpu_v0.83.1_plugin.so"): by the file's name, with LOOK_PLUGIN first by its
 * package jax_plugins.NAME, and for pjrt_plugin.so by its directory.  False: HOW does not take
 * such a name for a plugin's.
 */
bool name_of_path(const char *path, unsigned how, char name[static PF_PLUGIN_NAME],
		  char version[static PF_PLUGIN_VERSION]);

/* The same for a shared library in a package of JAX's plugins, called so after the package:
 * jax_plugins/libtt/any.so is "tt".  False: it is none by its path. */
bool name_of_jax_library(const char *path, char name[static PF_PLUGIN_NAME],
			 char version[static PF_PLUGIN_VERSION]);

/* The same for a file that is a plugin's whatever it is called. */
void name_of_any_path(const char *path, char name[static PF_PLUGIN_NAME],
		      char version[static PF_PLUGIN_VERSION]);

/* Cut LEN bytes of TEXT to a valid plugin's name: invalid characters become '_'. */
void name_clean(const char *text, size_t len, char name[static PF_PLUGIN_NAME]);

/*
 * JAX's plugins are packages jax_plugins.NAME, called so whatever their file is called: the
 * NAME of the package that PATH lies in.  False: it lies in none.
 */
bool name_of_jax_package(const char *path, char name[static PF_PLUGIN_NAME]);

/* Does the shared library at PATH export the function NAME?  Reads only; false: no, or it is none. */
bool library_exports(const char *path, const char *name);

#endif
