/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/quota_word.h"

const struct pf_resource_words pf_resource_words[PF_RESOURCES] = {
	[PF_MEMORY] = { "memory", "bytes", 1 },
	[PF_BUFFERS] = { "buffers", "buffers", 1 },
	[PF_PROGRAMS] = { "programs", "programs", 1 },
	[PF_JOBS] = { "jobs", "jobs that have not ended", 1 },
	[PF_EXECUTIONS] = { "executions", "executions that have not ended", 1 },
	[PF_COMPILE_MS] = { "compile_seconds", "seconds of compiles", 1000 },
};

const enum pf_resource pf_device_resource_kind[PF_DEVICE_RESOURCES] = {
	[PF_DEVICE_MEMORY] = PF_MEMORY,
	[PF_DEVICE_EXECUTIONS] = PF_EXECUTIONS,
};

int pf_quota_max_parse(const char *text, enum pf_resource resource, uint64_t *ret,
		       struct pf_err *err)
{
	const struct pf_resource_words *words = &pf_resource_words[resource];
	uint64_t n;

	if (pf_size_parse(text, &n, NULL) < 0)
		return pf_err_set(err, -EINVAL,
				  "expected a number of %s, as 16 or 4G, or max, found "
				  "\"%.40s\"",
				  words->unit, text);
	if (n != PF_NO_LIMIT && __builtin_mul_overflow(n, words->scale, &n))
		n = PF_NO_LIMIT;
	*ret = n;
	return 0;
}

void pf_quota_max_print(uint64_t n, struct pf_buf *out)
{
	if (n == PF_NO_LIMIT)
		pf_buf_puts(out, "max\n");
	else
		pf_buf_printf(out, "%" PRIu64 "\n", n);
}

/* The kind of the resource NAME; PF_RESOURCES: none has this name. */
static enum pf_resource find_kind(const char *name)
{
	const char *slash = strrchr(name, '/');
	unsigned i = 0;

	if (!slash) {
		while (i < PF_RESOURCES && strcmp(pf_resource_words[i].name, name) != 0)
			i++;
		return (enum pf_resource)i;
	}
	for (; i < PF_DEVICE_RESOURCES && slash > name; i++) {
		enum pf_resource kind = pf_device_resource_kind[i];

		if (!strcmp(pf_resource_words[kind].name, slash + 1))
			return kind;
	}
	return PF_RESOURCES;
}

/* Read the user before the colon, if there is one; the rest of WORD, or NULL: -EINVAL. */
static const char *parse_user(const char *word, struct pf_quota_word *w,
			      struct pf_err *err)
{
	size_t digits = strspn(word, "0123456789");
	unsigned long uid;

	w->has_uid = digits && word[digits] == ':';
	if (!w->has_uid)
		return word;
	errno = 0;
	uid = strtoul(word, NULL, 10);
	if (errno || uid >= UINT32_MAX) {
		pf_err_set(err, -EINVAL, "expected the number of a user, found %.40s",
			   word);
		return NULL;
	}
	w->uid = (uid_t)uid;
	return word + digits + 1;
}

int pf_quota_word_parse(const char *word, struct pf_quota_word *ret, struct pf_err *err)
{
	enum pf_resource kind;
	const char *name;
	size_t len;

	*ret = (struct pf_quota_word){ .max = PF_NO_LIMIT };
	name = parse_user(word, ret, err);
	if (!name)
		return -EINVAL;
	len = strcspn(name, "=");
	if (name[len] && len < sizeof(ret->name))
		memcpy(ret->name, name, len);
	kind = find_kind(ret->name);
	if (kind == PF_RESOURCES)
		return pf_err_set(
			err, -EINVAL,
			"expected [UID:]RESOURCE=MAX, where RESOURCE is memory, "
			"buffers, programs, jobs, executions, compile_seconds, "
			"DEVICE/memory or DEVICE/executions, found %.80s",
			word);
	return pf_quota_max_parse(name + len + 1, kind, &ret->max, err);
}
