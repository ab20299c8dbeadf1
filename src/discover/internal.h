/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the discovery of plugins. */
#ifndef PJRTFS_DISCOVER_INTERNAL_H
#define PJRTFS_DISCOVER_INTERNAL_H

#include <stddef.h>
#include <sys/types.h>

#include "pjrtfs/base.h"
#include "pjrtfs/discover.h"

enum {
	MAX_TEXT = 256 << 10,   /* bytes of a configuration file */
	MAX_RECORD = 32 << 20,  /* bytes of a Python package's list of files */
	MAX_LDCONF_FILES = 256, /* that ld.so.conf includes */
	MAX_LDCONF_DEPTH = 8,   /* of includes in includes */
	MAX_PACKAGES = 8192,    /* of one site-packages */
};

/* How to look at a directory. */
enum {
	LOOK_NAMES = 0,   /* files called as PJRT's plugins are */
	LOOK_PLUGIN = 1,  /* and *_plugin.so, as in packages that hold nothing else */
	LOOK_ANY = 2,     /* and every *.so */
	LOOK_BELOW = 4,   /* and pjrt_plugin.so in directories below */
	LOOK_MUST_BE = 8, /* that it is not there is a mistake */
};

/* --- list.c ------------------------------------------------------------------------------ */

/* Say of PLACE, unless something was said: WRONG or not. */
void place_note(struct pf_discovery *d, int place, bool wrong, const char *fmt, ...)
	__attribute__((__format__(__printf__, 4, 5)));

/* --- names.c ----------------------------------------------------------------------------- */

enum { MAX_VERSION = 32 };

/*
 * What the name of FILE ("pjrt_c_api_cpu_v0.83.1_plugin.so") tells: the plugin's NAME ("cpu")
 * and VERSION ("0.83.1", or "").  NAME is "" where the directory has it (pjrt_plugin.so).
 * False: that is no plugin's name, looked at as HOW says.
 */
bool name_of_file(const char *file, unsigned how, char name[static PF_PLUGIN_NAME],
		  char version[static MAX_VERSION]);

/* Cut LEN bytes to a valid plugin's name; what cannot be in one becomes '_'. */
void name_clean(const char *text, size_t len, char name[static PF_PLUGIN_NAME]);

/*
 * JAX's plugins are packages jax_plugins.NAME, called so whatever their file is called: the
 * NAME of the package that PATH lies in.  False: it lies in none.
 */
bool name_of_jax_package(const char *path, char name[static PF_PLUGIN_NAME]);

/* Compare versions number by number, as strcmp does; "" is older than all. */
int version_compare(const char *a, const char *b);

/* --- text.c ------------------------------------------------------------------------------ */

/* Append the text of the regular file PATH, at most MAX bytes.  0, -EFBIG, -EINVAL (it is
 * no regular file), -errno.  Never blocks on a FIFO. */
int read_text(const char *path, size_t max, struct pf_buf *out);

/*
 * Call EACH for each directory that the ld.so.conf(5) file PATH names, and those that it
 * includes; ROOT goes before paths that begin with a slash.  0, or -errno of PATH itself.
 */
int ldconf_read(const char *path, const char *root,
		void (*each)(void *arg, const char *dir), void *arg);

/* Call EACH for each "KEY = VALUE" of SECTION in an INI file's TEXT, which is changed;
 * SECTION "" is what stands before all sections. */
void ini_each(char *text, const char *section,
	      void (*each)(void *arg, const char *key, const char *value), void *arg);

#endif
