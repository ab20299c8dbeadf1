/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a directory's leaves as arguments and results. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* A path below a directory. */
struct leaf {
	const char *path; /* borrowed */
	size_t at;
};

/* Of structs leaf, and of names. */
static int by_path(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/*
 * The length of the prefix of the parameters' paths that names the tree of the N leaves: all
 * paths begin with it, and their rest is as long as the leaves' paths.  SIZE_MAX: no such tree.
 */
static size_t find_tree(const struct pf_param *params, char *const *names, size_t n,
			size_t skip)
{
	size_t of_params = 0, of_leaves = 0, len;

	for (size_t i = 0; i < n; i++) {
		of_params += strlen(params[i].path);
		of_leaves += strlen(names[i] + skip);
	}
	if (of_params < of_leaves || (of_params - of_leaves) % n)
		return SIZE_MAX;
	len = (of_params - of_leaves) / n;
	if (len && (strlen(params[0].path) < len || params[0].path[len - 1] != '/'))
		return SIZE_MAX;
	for (size_t i = 1; i < n; i++)
		if (strncmp(params[i].path, params[0].path, len))
			return SIZE_MAX;
	return len;
}

/*
 * Put NAMES in the order of LIKE, N of both, of which SKIP and LIKE_SKIP bytes come before each
 * path.  0: the paths differ, and NAMES is unchanged; 1; -ENOMEM.
 */
static int order(char **names, size_t skip, char *const *like, size_t like_skip, size_t n)
{
	pf_autofree struct leaf *want = calloc(n, sizeof(*want));
	pf_autofree char **sorted = calloc(n, sizeof(*sorted));
	bool same = true;

	if (!want || !sorted)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		want[i] = (struct leaf){ like[i] + like_skip, i };
		sorted[i] = names[i];
		same = same && !strcmp(names[i] + skip, want[i].path);
	}
	if (same)
		return 1;
	qsort(want, n, sizeof(*want), by_path);
	qsort(sorted, n, sizeof(*sorted), by_path);
	for (size_t i = 0; i < n; i++)
		if (strcmp(sorted[i] + skip, want[i].path))
			return 0;
	for (size_t i = 0; i < n; i++)
		names[want[i].at] = sorted[i];
	return 1;
}

/* Put the names of N leaves in the order of PARAMS, if the paths match.  -ENOMEM. */
static int order_as_params(const struct pf_param *params, char **names, size_t n,
			   size_t skip)
{
	pf_autofree char **paths = NULL;
	size_t tree = find_tree(params, names, n, skip);

	if (tree == SIZE_MAX)
		return 0;
	paths = calloc(n, sizeof(*paths));
	for (size_t i = 0; paths && i < n; i++)
		paths[i] = params[i].path;
	return paths ? order(names, skip, paths, tree, n) : -ENOMEM;
}

/* The bytes of a directory's name in those of its leaves. */
static size_t skip_of(const char *word)
{
	size_t len = strlen(word);

	while (len > 1 && word[len - 1] == '/')
		len--;
	return len + 1;
}

int run_list_input(const struct pf_signature *s, struct row *row, const char *word,
		   const struct pf_cred *cred, struct pf_err *err)
{
	struct leaves l = { .first = row->inputs.n, .skip = skip_of(word) };
	struct leaves *more;
	int r = files_expand(row->device, word, cred, &row->inputs, err);

	l.n = row->inputs.n - l.first;
	if (r < 0 || r == FILES_ITSELF || l.n == 0)
		return r < 0 ? r : 0;
	if (r == FILES_LEAVES && row->inputs.n <= s->n_inputs) {
		r = order_as_params(s->inputs + l.first, row->inputs.at + l.first, l.n,
				    l.skip);
		if (r < 0)
			return r;
	}
	more = reallocarray(row->leaves, row->n_leaves + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	row->leaves = more;
	more[row->n_leaves++] = l;
	return 0;
}

int run_order_outputs(const struct row *row, const char *word, struct names *names)
{
	size_t skip = skip_of(word);
	const struct leaves *l = row->leaves, *end = l + row->n_leaves;
	int r = 0;

	/* The same directory among the inputs takes precedence. */
	while (l < end &&
	       (l->skip != skip || memcmp(row->inputs.at[l->first], word, skip - 1)))
		l++;
	for (l = l < end ? l : row->leaves; l < end && r == 0; l++)
		if (l->n == names->n)
			r = order(names->at, skip, row->inputs.at + l->first, l->skip,
				  l->n);
	return r;
}
