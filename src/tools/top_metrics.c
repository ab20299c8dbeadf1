/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a sample that are in metrics.prom. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "top.h"

/* Copy the value of the label KEY in LABELS, a="b",c="d"}, without its escapes, to TO. */
static bool label(char *to, size_t size, const char *labels, const char *key)
{
	size_t len = strlen(key), n = 0;
	const char *at = labels;

	while ((at = strstr(at, key)) &&
	       (strncmp(at + len, "=\"", 2) != 0 || (at > labels && at[-1] != ',')))
		at += len;
	if (!at)
		return false;
	for (at += len + 2; *at && *at != '"' && n + 1 < size; at++) {
		if (*at == '\\')
			at++;
		to[n++] = *at;
	}
	to[n] = '\0';
	return true;
}

static struct device *find_device(struct sample *s, const char *name)
{
	for (unsigned i = 0; i < s->n_devices; i++)
		if (!strcmp(s->devices[i].name, name))
			return &s->devices[i];
	return NULL;
}

/* The executable NAME, a new one if it is missing; those of metrics.prom are at most 200. */
static struct executable *find_executable(struct sample *s, const char *name)
{
	struct executable *e;

	for (unsigned i = 0; i < s->n_executables; i++)
		if (!strcmp(s->executables[i].name, name))
			return &s->executables[i];
	e = tool_append(&s->executables, &s->n_executables, sizeof(*e));
	snprintf(e->name, sizeof(e->name), "%s", name);
	return e;
}

#define OF_DEVICE(member) 'd', offsetof(struct device, member)
#define OF_EXECUTABLE(member) 'e', offsetof(struct executable, member)
#define OF_MOUNT(member) 'm', offsetof(struct sample, member)

static const struct {
	const char *name, *label; /* a label that it must have, or "" */
	char of;
	size_t offset;
} figures[] = {
	{ "memory_used_bytes", "", OF_MOUNT(used) },
	{ "memory_limit_bytes", "", OF_MOUNT(limit) },
	{ "buffers_alive", "", OF_DEVICE(buffers) },
	{ "executables_alive", "", OF_DEVICE(programs) },
	{ "device_execution_seconds_count", "", OF_DEVICE(runs) },
	{ "device_execution_seconds_sum", "", OF_DEVICE(busy) },
	{ "upload_bytes_total", "", OF_DEVICE(uploaded) },
	{ "download_bytes_total", "", OF_DEVICE(downloaded) },
	{ "executable_execution_seconds_count", "", OF_EXECUTABLE(runs) },
	{ "executable_execution_seconds_sum", "", OF_EXECUTABLE(seconds) },
	{ "executable_executions_total", "result=\"failed\"", OF_EXECUTABLE(failed) },
};

/* Add the VALUE of the metric NAME, without its prefix, with LABELS, which may be "". */
static void add(struct sample *s, const char *name, const char *labels, double value)
{
	char object[1024];

	for (size_t i = 0; i < PF_ARRAY_SIZE(figures); i++) {
		char *base = (char *)s;

		if (strcmp(name, figures[i].name) != 0 ||
		    !strstr(labels, figures[i].label))
			continue;
		if (figures[i].of == 'd')
			base = label(object, sizeof(object), labels, "device")
				       ? (char *)find_device(s, object)
				       : NULL;
		else if (figures[i].of == 'e')
			base = label(object, sizeof(object), labels, "executable")
				       ? (char *)find_executable(s, object)
				       : NULL;
		if (base)
			memcpy(base + figures[i].offset, &value, sizeof(value));
	}
}

void sample_add_metrics(struct sample *s, char *text)
{
	static const char prefix[] = "pjrtfs_";
	char *line;

	while ((line = strsep(&text, "\n"))) {
		char *value = strrchr(line, ' '), *labels = strchr(line, '{');

		if (strncmp(line, prefix, strlen(prefix)) != 0 || !value)
			continue;
		*value++ = '\0';
		if (labels)
			*labels++ = '\0';
		add(s, line + strlen(prefix), labels ? labels : "", strtod(value, NULL));
	}
}
