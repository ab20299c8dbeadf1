/* SPDX-License-Identifier: Apache-2.0 */
#include "memory_limit.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int memory_limit_parse(const char *text, uint64_t *ret, struct pf_err *err)
{
	static const char units[] = "KMGT";
	char *end;
	uint64_t n;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)*text) || errno)
		goto bad;
	if (*end) {
		const char *unit = strchr(units, toupper((unsigned char)*end));
		unsigned shift;

		if (!unit)
			goto bad;
		shift = 10 * (unsigned)(unit - units + 1);
		if (n > UINT64_MAX >> shift)
			goto bad;
		n <<= shift;
		end++;
		if (!strcmp(end, "iB") || !strcmp(end, "B"))
			end = "";
	}
	if (*end || n < 1 << 20 || n > UINT64_C(1) << 60)
		goto bad;
	*ret = n;
	return 0;
bad:
	return pf_err_set(err, -EINVAL,
			  "memory limit: expected a size from 1M on, as in 4G, found "
			  "%s",
			  text);
}

/* The number in file PATH; UINT64_MAX if there is none ("max"). */
static uint64_t read_number(const char *path)
{
	char text[32] = "";
	uint64_t n = UINT64_MAX;
	FILE *f = fopen(path, "re");

	if (!f)
		return n;
	if (fgets(text, sizeof(text), f) && isdigit((unsigned char)*text))
		n = strtoull(text, NULL, 10);
	fclose(f);
	return n;
}

/* The tightest memory.max from our cgroup up to the root (cgroup v2), or v1's limit. */
static uint64_t cgroup_limit(void)
{
	uint64_t best = read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes");
	char line[PATH_MAX], path[PATH_MAX + 64];
	FILE *f = fopen("/proc/self/cgroup", "re");

	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "0::", 3))
			continue;
		line[strcspn(line, "\n")] = '\0';
		for (;;) {
			uint64_t n;
			char *slash;

			snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.max",
				 line + 3);
			n = read_number(path);
			best = n < best ? n : best;
			slash = strrchr(line + 3, '/');
			if (!slash)
				break;
			*slash = '\0';
		}
	}
	if (f)
		fclose(f);
	return best;
}

uint64_t memory_limit_default(void)
{
	uint64_t ram =
		(uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t cgroup = cgroup_limit();

	return (ram < cgroup ? ram : cgroup) / 10 * 8;
}
