/* SPDX-License-Identifier: Apache-2.0 */
/* The default limit of host memory for arrays: RAM and the limits of control groups. */
#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"

/* The number in file PATH; UINT64_MAX if it has none ("max"). */
static uint64_t read_number(const char *path)
{
	char text[32];

	pf_read_start(path, text, sizeof(text));
	return isdigit((unsigned char)*text) ? strtoull(text, NULL, 10) : UINT64_MAX;
}

/* The tightest limit in the files NAME of DIR and of the directories above it, down to its
 * first TOP bytes. */
static uint64_t tightest(char *dir, size_t top, const char *name)
{
	uint64_t best = UINT64_MAX;

	for (;;) {
		pf_autofree char *path = NULL;
		uint64_t n;
		char *slash;

		if (asprintf(&path, "%s/%s", dir, name) < 0)
			return best;
		n = read_number(path);
		best = n < best ? n : best;
		slash = strrchr(dir, '/');
		if (!slash || (size_t)(slash - dir) < top)
			return best;
		*slash = '\0';
	}
}

static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
		if (!strncmp(list, word, len) && (!list[len] || list[len] == ','))
			return true;
	return false;
}

/* Set GROUP (PATH_MAX bytes) to pjrtfs's group in the hierarchy of cgroup v2, or in that
 * of v1's memory controller.  False: not found. */
static bool find_group(const char *root, bool v2, char *group)
{
	pf_autofree char *path = NULL;
	pf_autofree char *line = NULL;
	bool found = false;
	size_t cap = 0;
	FILE *f = NULL;

	if (asprintf(&path, "%s/proc/self/cgroup", root) >= 0)
		f = fopen(path, "re");
	while (f && !found && getline(&line, &cap, f) > 0) {
		/* ID:CONTROLLER,...:PATH */
		char *controllers = strchr(line, ':'), *at;

		at = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!at)
			continue;
		*at++ = '\0';
		at[strcspn(at, "\n")] = '\0';
		found = v2 ? !controllers[1] : has_word(controllers + 1, "memory");
		if (found)
			snprintf(group, PATH_MAX, "%s", at);
	}
	if (f)
		fclose(f);
	return found;
}

/* The limit of a hierarchy that is mounted AT, from its group MOUNTED on. */
static uint64_t hierarchy_limit(const char *root, bool v2, const char *mounted,
				const char *at)
{
	pf_autofree char *dir = NULL;
	char group[PATH_MAX];
	const char *below = group;
	size_t len = strlen(mounted);

	if (!find_group(root, v2, group))
		return UINT64_MAX;
	/* In a container the hierarchy may be mounted from its own group on. */
	if (len > 1 && !strncmp(group, mounted, len) &&
	    (group[len] == '/' || !group[len]))
		below += len;
	if (asprintf(&dir, "%s%s%s", root, at, strcmp(below, "/") ? below : "") < 0)
		return UINT64_MAX;
	return tightest(dir, strlen(root) + strlen(at),
			v2 ? "memory.max" : "memory.limit_in_bytes");
}

uint64_t memory_limit_cgroup(const char *root)
{
	pf_autofree char *path = NULL;
	pf_autofree char *line = NULL;
	uint64_t best = UINT64_MAX, n;
	size_t cap = 0;
	FILE *f = NULL;

	if (asprintf(&path, "%s/proc/self/mountinfo", root) >= 0)
		f = fopen(path, "re");
	while (f && getline(&line, &cap, f) > 0) {
		char mounted[PATH_MAX], at[PATH_MAX], type[32], options[256];
		const char *rest = strstr(line, " - ");
		bool v2;

		if (!rest || strlen(line) >= PATH_MAX ||
		    sscanf(line, "%*s %*s %*s %s %s", mounted, at) != 2 ||
		    sscanf(rest, " - %31s %*s %255s", type, options) != 2)
			continue;
		v2 = !strcmp(type, "cgroup2");
		if (!v2 && (strcmp(type, "cgroup") || !has_word(options, "memory")))
			continue;
		n = hierarchy_limit(root, v2, mounted, at);
		best = n < best ? n : best;
	}
	if (f)
		fclose(f);
	return best;
}

uint64_t memory_limit_ram(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t memory_limit_default(void)
{
	uint64_t ram = memory_limit_ram(), cgroup = memory_limit_cgroup("");

	return (ram < cgroup ? ram : cgroup) / 10 * 8;
}
