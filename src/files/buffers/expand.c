/* SPDX-License-Identifier: Apache-2.0 */
/* Names in commands that are directories stand for all buffers below them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* The directory that NAME means, a trailing slash or not, with a reference, or NULL. */
static struct pf_node *find_directory(const struct device *device, const char *name,
				      const struct pf_cred *cred)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	size_t len = files_path_len(name);
	/* One slash stays, as in "cpu:1/". */
	pf_autofree char *path = strndup(name, len + (name[len] == '/'));
	const char *last;

	if (!path || files_walk(device, path, cred, &dir, &last, NULL) < 0)
		return NULL;
	if (!*last && *path) /* "ns/", or "cpu:1/" */
		return pf_steal(&dir);
	return buffers_find_directory(dir, last, strlen(last));
}

bool files_is_directory(const struct device *device, const char *name,
			const struct pf_cred *cred)
{
	struct pf_node *node = find_directory(device, name, cred);

	pf_node_unref(node);
	return node != NULL;
}

/* A buffer or directory in a directory. */
struct member {
	char stem[PF_NAME_MAX + 1];
	struct pf_node *node; /* owned reference */
};

static bool is_decimal(const char *stem)
{
	return *stem && !stem[strspn(stem, "0123456789")];
}

static int by_stem(const void *a, const void *b)
{
	return strcmp(((const struct member *)a)->stem, ((const struct member *)b)->stem);
}

/* Of any length: 2 is before 10, and 01 with 1. */
static int by_number(const void *a, const void *b)
{
	const char *x = ((const struct member *)a)->stem;
	const char *y = ((const struct member *)b)->stem;
	size_t n, m;

	x += strspn(x, "0");
	y += strspn(y, "0");
	n = strlen(x);
	m = strlen(y);
	return n != m ? (n < m ? -1 : 1) : strcmp(x, y);
}

/* The buffers and directories of DIR, sorted; NULL: no memory.  *OTHERS grows by the files that are no
 * buffers. */
static struct member *list_members(struct pf_node *dir, size_t *n, size_t *others)
{
	struct pf_node **list = pf_dir_list(dir);
	struct member *members;
	bool numbers = true;
	size_t all = 0;

	while (list && list[all])
		all++;
	members = list ? calloc(all + 1, sizeof(*members)) : NULL;
	*n = 0;
	for (size_t i = 0; i < all; i++) {
		struct member *m = members ? &members[*n] : NULL;
		size_t len;

		if (!m || (!is_buffer(list[i]) && !buffers_is_directory(list[i])) ||
		    (is_buffer(list[i]) && view_of(list[i])->format == PF_FORMAT_NONE)) {
			*others += is_buffer(list[i]);
			pf_node_unref(list[i]);
			continue;
		}
		m->node = list[i];
		pf_node_name(m->node, m->stem);
		pf_format_of(m->stem, &len); /* no directory's name has an extension */
		m->stem[len] = '\0';
		numbers = numbers && is_decimal(m->stem);
		(*n)++;
	}
	free(list);
	if (members)
		qsort(members, *n, sizeof(*members), numbers ? by_number : by_stem);
	return members;
}

enum { MAX_NAMES = 100000 };

/* Append the names below DIR.  *RESULTS becomes false at a buffer that no command numbered, and *OTHERS
 * grows by the files that are no buffers. */
static int expand(struct pf_node *dir, const char *path, const struct pf_cred *cred,
		  struct names *ret, bool *results, size_t *others, struct pf_err *err)
{
	struct member *members;
	size_t n;
	int r = 0;

	if (!pf_node_may(dir, cred, R_OK | X_OK))
		return pf_err_set(err, -EACCES, "directory %s may not be listed", path);
	members = list_members(dir, &n, others);
	if (!members)
		return pf_err_set(err, -ENOMEM, "no memory for directory %s", path);
	for (size_t i = 0; i < n; i++) {
		pf_autobuf struct pf_buf name = PF_BUF_INIT;

		pf_buf_printf(&name, "%s/%s", path, members[i].stem);
		if (r == 0 && name.failed)
			r = -ENOMEM;
		else if (r == 0 && ret->n >= MAX_NAMES)
			r = pf_err_set(err, -E2BIG, "more than %d buffers", MAX_NAMES);
		else if (r == 0 && buffers_is_directory(members[i].node))
			r = expand(members[i].node, name.data, cred, ret, results, others,
				   err);
		else if (r == 0) {
			r = names_add(ret, name.data, name.len);
			*results = *results && view_of(members[i].node)->inode->numbered;
		}
		pf_node_unref(members[i].node);
	}
	free(members);
	return r;
}

int files_expand(const struct device *device, const char *name,
		 const struct pf_cred *cred, struct names *ret, size_t *others,
		 struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *dir = find_directory(device, name, cred);
	pf_autofree char *path = NULL;
	size_t n = 0;
	bool results = true;
	int r;

	if (!dir)
		return names_add(ret, name, strlen(name)) < 0 ? -ENOMEM : FILES_ITSELF;
	path = strndup(name, files_path_len(name));
	r = path ? expand(dir, path, cred, ret, &results, others ? others : &n, err)
		 : -ENOMEM;
	if (r < 0)
		return r;
	return results ? FILES_RESULTS : FILES_LEAVES;
}
