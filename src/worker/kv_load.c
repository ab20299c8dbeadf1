/* SPDX-License-Identifier: Apache-2.0 */
/* Where the store of a group comes from: pjrtfs-redis.so, beside the worker. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "kv.h"

/* SAID, the loader's sentence, begins with the library that is missing: "libhiredis.so.0.14: cannot open".
 * Debian's packages of libraries are named after them. */
static int explain(const char *said, struct pf_err *err)
{
	char name[64], version[32];
	int all = 0;

	(void)sscanf(said, "%63[^./].so.%31[0-9.]: cannot open%n", name, version, &all);
	if (all)
		return pf_err_set(err, -EOPNOTSUPP,
				  "%s.so.%s, which groups need, is missing: apt install "
				  "%s%s",
				  name, version, name, version);
	return pf_err_set(err, -EOPNOTSUPP, "the library for groups cannot be loaded: %s",
			  said);
}

int pf_kv_load(const struct pf_kv_calls **ret, struct pf_err *err)
{
	char path[PATH_MAX];
	void *library;

	pf_find_installed("pjrtfs-redis.so", PKGLIBEXECDIR, path, sizeof(path));
	if (access(path, F_OK) != 0)
		return pf_err_set(err, -EOPNOTSUPP,
				  "this pjrtfs was built without libhiredis, which "
				  "groups need");
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	*ret = library ? dlsym(library, "pf_kv_redis") : NULL;
	return *ret ? 0 : explain(dlerror(), err);
}
