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

/* Put the names of leaves L, which WORD stands for, in the order of the parameters that have them.
 * 1; 0: the program has no names; -EINVAL, -ENOMEM. */
static int order_as_params(const struct pf_signature *s, char **names,
			   const struct leaves *l, const char *word, struct pf_err *err)
{
	pf_autofree size_t *leaf = calloc(l->n, sizeof(*leaf));
	pf_autofree char **copy = calloc(l->n, sizeof(*copy));
	int r;

	if (!leaf || !copy)
		return -ENOMEM;
	r = pf_params_match(s, l->first, names, l->skip, l->n, leaf, err);
	for (size_t i = 0; i < l->n; i++)
		copy[i] = names[i];
	for (size_t i = 0; i < l->n && r == 1; i++)
		names[i] = copy[leaf[i]];
	return r == -EINVAL ? pf_err_wrap(err, r, "%s", word) : r;
}

int run_list_input(const struct pf_signature *s, struct row *row, const char *word,
		   bool positional, const struct pf_cred *cred, struct pf_err *err)
{
	struct leaves l = { .first = row->inputs.n, .skip = files_path_len(word) + 1 };
	struct leaves *more;
	int r = files_expand(row->device, word, cred, &row->inputs, err);

	l.n = row->inputs.n - l.first;
	if (r < 0 || r == FILES_ITSELF || l.n == 0)
		return r < 0 ? r : 0;
	if (r == FILES_LEAVES && !positional && row->inputs.n <= s->n_inputs) {
		r = order_as_params(s, row->inputs.at + l.first, &l, word, err);
		if (r < 0)
			return r;
		l.by_name = r == 1;
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
	size_t skip = files_path_len(word) + 1;
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
