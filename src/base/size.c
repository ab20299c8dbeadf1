/* SPDX-License-Identifier: Apache-2.0 */
#include "pjrtfs/base/size.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int pf_size_parse(const char *text, uint64_t *ret, struct pf_err *err)
{
	static const char units[] = "KMGT";
	const char *unit;
	unsigned shift = 0;
	char *end;
	uint64_t n;

	if (!strcmp(text, "max")) {
		*ret = UINT64_MAX;
		return 0;
	}
	errno = 0;
	n = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)*text) || errno)
		goto bad;
	unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
	if (unit) {
		shift = 10 * (unsigned)(unit - units + 1);
		end++;
		if (!strcasecmp(end, "iB") || !strcasecmp(end, "B"))
			end += strlen(end);
	}
	if (*end || n > (UINT64_C(1) << 60) >> shift)
		goto bad;
	*ret = n << shift;
	return 0;
bad:
	return pf_err_set(err, -EINVAL,
			  "expected a size in bytes, as in 512M or 2G, or the word max, "
			  "found %s",
			  text);
}
