/* SPDX-License-Identifier: Apache-2.0 */
/* The buffers that names in commands stand for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/*
 * NAME leads through a directory that does not exist, whose name is the first LEN bytes of PART.
 * Names in commands are relative to buffers/: for a path of the mount, or of the machine, the
 * error has the name to be used instead.
 */
static int no_directory(const char *name, const char *part, int len, struct pf_err *err)
{
	static const char top[] = "buffers/";
	const char *rest = NULL, *at;
	char plugin[64], id[24], device[96] = "";

	for (at = strstr(name, top); at; at = strstr(at + 1, top))
		if (at == name || at[-1] == '/')
			rest = at + strlen(top);
	at = strstr(name, "devices/");
	if (at && rest &&
	    sscanf(at, "devices/%63[^/]/%23[0-9]/buffers/", plugin, id) == 2)
		snprintf(device, sizeof(device), "%s:%s/", plugin, id);
	if (rest && *rest)
		return pf_err_set(err, -ENOENT,
				  "%s: expected a name below buffers/, found a path: "
				  "write %s%s",
				  name, device, rest);
	if (*name == '/')
		return pf_err_set(err, -ENOENT,
				  "%s: expected a name below buffers/, found a path",
				  name);
	return pf_err_set(err, -ENOENT, "there is no directory %.*s in buffers/", len,
			  part);
}

int files_walk(const struct device *device, const char *name, const struct pf_cred *cred,
	       struct pf_node **dir, const char **last, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *at = NULL;
	const char *slash = strchr(name, '/'), *whole = name;

	if (slash && memchr(name, ':', (size_t)(slash - name))) {
		device = files_find_device(device->fs, name, (size_t)(slash - name), err);
		if (!device)
			return pf_err_wrap(err, -ENODEV, "%s", name);
		name = slash + 1;
	}
	at = pf_node_ref(device->buffers);
	while ((slash = strchr(name, '/'))) {
		int len = (int)(slash - name);
		struct pf_node *next = buffers_find_directory(at, name, (size_t)len);

		pf_node_unref(at);
		at = next;
		if (!at)
			return no_directory(whole, name, len, err);
		if (!pf_node_may(at, cred, X_OK))
			return pf_err_set(err, -EACCES,
					  "directory %.*s may not be searched", len,
					  name);
		name = slash + 1;
	}
	*dir = pf_steal(&at);
	*last = name;
	return 0;
}

enum { MAX_COMPARED = 1000 }; /* in a larger directory the search would take too long */

/* Print into HINT the array in DIR that may be meant by NAME, whose last part begins with its stem of LEN
 * bytes at LAST, if CRED may list DIR. */
static void add_similar(struct pf_node *dir, const char *name, const char *last,
			size_t len, const struct pf_cred *cred,
			char hint[PF_SIMILAR_TEXT])
{
	pf_autofree char *stem = strndup(last, len);
	struct pf_similar similar = { .word = stem };
	pf_autobuf struct pf_buf best = PF_BUF_INIT;
	char known[PF_NAME_MAX + 1];
	struct pf_node **list = NULL;

	if (stem && pf_dir_count(dir) <= MAX_COMPARED && pf_node_may(dir, cred, R_OK))
		list = pf_dir_list(dir);
	for (size_t i = 0; list && list[i]; i++) {
		if (is_buffer(list[i]) && view_of(list[i])->format != PF_FORMAT_NONE) {
			pf_node_name(list[i], known);
			pf_format_of(known, &len);
			known[len] = '\0';
			pf_similar_try(&similar, known);
		}
		pf_node_unref(list[i]);
		if (similar.best != known)
			continue;
		pf_buf_consume(&best, best.len);
		pf_buf_printf(&best, "%.*s%s", (int)(last - name), name, known);
		similar.best = best.data;
	}
	free(list);
	pf_similar_hint(&similar, hint);
}

/* There is no buffer NAME, whose last part in DIR begins with its stem of LEN bytes at LAST. */
static int no_buffer(struct pf_node *dir, const char *name, const char *last, size_t len,
		     const struct pf_cred *cred, struct pf_err *err)
{
	char hint[PF_SIMILAR_TEXT];

	if (!err)
		return -ENOENT;
	if (!strcmp(name, "*"))
		return pf_err_set(
			err, -ENOENT,
			"there is no buffer *: each input has a name here; * is "
			"for bind, whose calls bring the input");
	if (strchr(name, ','))
		return pf_err_set(err, -ENOENT,
				  "there is no buffer \"%s\": names are separated by "
				  "blanks, not by commas",
				  name);
	add_similar(dir, name, last, len, cred, hint);
	return pf_err_set(err, -ENOENT, "there is no buffer %s%s", name, hint);
}

int buffers_find_listed(const struct device *device, const char *name,
			const struct pf_cred *cred, struct pf_node **dir,
			struct pf_node **ret, struct pf_err *err)
{
	const char *last;
	size_t len;
	int r = buffers_check_no_json(name, err);

	if (r == 0)
		r = files_walk(device, name, cred, dir, &last, err);
	if (r < 0)
		return r;
	pf_format_of(last, &len);
	*ret = buffers_find_stem(*dir, last, len);
	if (*ret)
		return 0;
	*ret = pf_dir_lookup(*dir, last);
	if (*ret && buffers_is_directory(*ret))
		r = pf_err_set(err, -EISDIR, "%s is a directory, not a buffer", name);
	else if (*ret)
		r = pf_err_set(
			err, -ENOENT,
			"%s is a file, and no array, which is called " FILES_ARRAY_NAMES,
			name);
	else
		r = no_buffer(*dir, name, last, len, cred, err);
	pf_node_unref(pf_steal(ret));
	return r;
}

int files_find_buffer(const struct device *device, const char *name,
		      const struct pf_cred *cred, int want, struct pf_buffer **ret,
		      struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	int r = buffers_find_listed(device, name, cred, &dir, &node, err);

	if (r < 0)
		return r;
	if (!pf_node_may(node, cred, want))
		return pf_err_set(err, -EACCES, "buffer %s: permission denied", name);
	*ret = pf_buffer_ref(buffer_of(node));
	return 0;
}

mode_t files_mode_of_buffer(const struct device *device, const char *name,
			    const struct pf_cred *cred)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	struct pf_attr attr;

	if (buffers_find_listed(device, name, cred, &dir, &node, NULL) < 0)
		return 0;
	pf_node_attr(node, &attr);
	return attr.mode & 0666;
}

int files_find_value(const struct device *device, const char *name,
		     const struct pf_cred *cred, int want, struct pf_buffer **buffer,
		     struct pf_value **value, struct pf_err *err)
{
	int r = *buffer ? 0 : files_find_buffer(device, name, cred, want, buffer, err);

	while (r == 0) {
		struct pf_buffer *now = NULL;

		r = pf_buffer_value(*buffer, value, err);
		/* Is it empty, or did it lose its name, and with that its bytes? */
		if (r == -ENODATA)
			files_find_buffer(device, name, cred, want, &now, NULL);
		if (!now || now == *buffer) {
			pf_buffer_unref(now);
			return r < 0 ? pf_err_wrap(err, r, "%s", name) : 0;
		}
		pf_buffer_unref(*buffer);
		*buffer = now;
		r = 0;
	}
	return r;
}
