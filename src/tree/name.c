/* SPDX-License-Identifier: Apache-2.0 */
/* Which names are allowed. */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base/utf8.h"

int pf_name_check(const char *name, struct pf_err *err)
{
	size_t len = strlen(name);

	if (len > PF_NAME_MAX)
		return pf_err_set(err, -ENAMETOOLONG,
				  "a name of %zu bytes, at most %d are allowed", len,
				  PF_NAME_MAX);
	if (!len)
		return pf_err_set(err, -EINVAL, "an empty name");
	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return pf_err_set(err, -EINVAL, "\"%s\" is no name for a file", name);
	for (const char *p = name; *p; p++) {
		if (*p == '/')
			return pf_err_set(err, -EINVAL, "a slash in the name \"%s\"",
					  name);
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return pf_err_set(err, -EINVAL,
					  "a control character in the name \"%s\"", name);
	}
	if (!pf_utf8_valid(name, len))
		return pf_err_set(err, -EILSEQ, "the name \"%s\" is not UTF-8", name);
	return 0;
}
