/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_options.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pjrtfs/base/cleanup.h"
#include "pjrtfs/base/home.h"
#include "pjrtfs/base/size.h"

enum { MAX_SECONDS = 7 * 24 * 3600, MAX_JOBS = 32 };

int option_number(const char *what, const char *value, unsigned max, unsigned *ret,
		  struct pf_err *err)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(value, &end, 10);
	if (!isdigit((unsigned char)*value) || *end || errno || n < 1 || n > max)
		return pf_err_set(err, -EINVAL,
				  "%s: expected a number from 1 to %u, found %s", what,
				  max, value);
	*ret = (unsigned)n;
	return 0;
}

int cache_options_take(struct cache_options *o, const char *name, const char *value,
		       struct pf_err *err)
{
	int r;

	if (!strcmp(name, "off")) {
		o->off = true;
		return 0;
	}
	if (!strcmp(name, "size")) {
		r = pf_size_parse(value, &o->size, err);
		return r < 0 ? pf_err_wrap(err, r, "cache size") : 0;
	}
	if (!strcmp(name, "jobs"))
		return option_number("compile jobs", value, MAX_JOBS, &o->jobs, err);
	if (!strcmp(name, "timeout"))
		return option_number("compile timeout in seconds", value, MAX_SECONDS,
				     &o->timeout_s, err);
	if (!*value)
		return pf_err_set(err, -EINVAL, "cache directory: expected a path");
	free(o->dir);
	o->dir = strdup(value);
	return o->dir ? 0 : pf_err_set(err, -ENOMEM, "no memory");
}

/* DIR, below BASE. */
static char *below(const char *base, const char *dir)
{
	char *path;

	return asprintf(&path, "%s/%s", base, dir) < 0 ? NULL : path;
}

char *cache_options_dir(const struct cache_options *o)
{
	const char *own = getenv("PJRTFS_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME");
	const char *dir = o->dir;
	pf_autofree char *home = NULL;
	char cwd[PATH_MAX];

	if (!dir && own && *own)
		dir = own;
	if (dir && *dir == '/')
		return strdup(dir);
	if (dir)
		return getcwd(cwd, sizeof(cwd)) ? below(cwd, dir) : NULL;
	if (xdg && *xdg == '/')
		return below(xdg, "pjrtfs");
	home = pf_home_dir();
	return home ? below(home, ".cache/pjrtfs") : NULL;
}
