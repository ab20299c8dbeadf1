/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a directory's leaves as arguments and results. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* A leaf of a directory, sorted by its path below the directory. */
struct leaf {
	const char *path; /* borrowed */
	size_t at;
};

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct leaf *)a)->path, ((const struct leaf *)b)->path);
}

static size_t slashes(const char *path)
{
	size_t n = 0;

	while ((path = strchr(path, '/'))) {
		path++;
		n++;
	}
	return n;
}

/* The bytes of PATH that its first DEPTH parts take, with their slashes. */
static size_t prefix_of(const char *path, size_t depth)
{
	const char *p = path;

	while (depth-- && (p = strchr(p, '/')))
		p++;
	return p ? (size_t)(p - path) : strlen(path);
}

static bool starts_alike(const struct pf_param *params, size_t n, size_t len)
{
	for (size_t i = 1; i < n; i++)
		if (strncmp(params[i].path, params[0].path, len))
			return false;
	return true;
}

/* Are the leaves in the parameters' order as they are?  Nothing is allocated then. */
static bool in_order(const struct pf_param *params, char *const *names, size_t n,
		     size_t skip)
{
	size_t len = strlen(params[0].path), leaf = strlen(names[0] + skip);

	if (leaf > len || !starts_alike(params, n, len - leaf))
		return false;
	for (size_t i = 0; i < n; i++)
		if (strcmp(params[i].path + len - leaf, names[i] + skip))
			return false;
	return true;
}

/*
 * The length of the prefix of the parameters' paths that names the tree of the N leaves:
 * all paths begin with it, and their rest has as many parts as the leaves' paths.
 * SIZE_MAX: no such tree.
 */
static size_t find_tree(const struct pf_param *params, char *const *names, size_t n,
			size_t skip)
{
	size_t of_params = 0, of_leaves = 0, len;

	for (size_t i = 0; i < n; i++) {
		of_params += slashes(params[i].path);
		of_leaves += slashes(names[i] + skip);
	}
	if (of_params < of_leaves || (of_params - of_leaves) % n)
		return SIZE_MAX;
	len = prefix_of(params[0].path, (of_params - of_leaves) / n);
	return starts_alike(params, n, len) ? len : SIZE_MAX;
}

/* Put the names of GIVEN at the positions of the same paths in WANT; both are sorted by
 * path.  False: the paths differ, and NAMES is unchanged. */
static bool permute(char **names, const struct leaf *given, const struct leaf *want,
		    size_t n, char **scratch)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(given[i].path, want[i].path))
			return false;
	memcpy(scratch, names, n * sizeof(*scratch));
	for (size_t i = 0; i < n; i++)
		names[want[i].at] = scratch[given[i].at];
	return true;
}

/* Sort GIVEN and WANT, N of each, and put NAMES in the order that WANT had.  0: the paths
 * differ; 1; -ENOMEM. */
static int match(char **names, struct leaf *given, struct leaf *want, size_t n)
{
	pf_autofree char **scratch = calloc(n, sizeof(*scratch));

	if (!scratch)
		return -ENOMEM;
	qsort(given, n, sizeof(*given), by_path);
	qsort(want, n, sizeof(*want), by_path);
	return permute(names, given, want, n, scratch);
}

/* Put the names of N leaves in the order of PARAMS.  0: they do not match; 1; -ENOMEM. */
static int order_inputs(const struct pf_param *params, char **names, size_t n,
			size_t skip)
{
	pf_autofree struct leaf *both = NULL;
	size_t tree = find_tree(params, names, n, skip);

	if (tree == SIZE_MAX)
		return 0;
	both = calloc(2 * n, sizeof(*both));
	if (!both)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		both[i] = (struct leaf){ names[i] + skip, i };
		both[n + i] = (struct leaf){ params[i].path + tree, i };
	}
	return match(names, both, both + n, n);
}

/* The bytes of a directory's name in those of its leaves. */
static size_t skip_of(const char *word)
{
	size_t len = strlen(word);

	while (len > 1 && word[len - 1] == '/')
		len--;
	return len + 1;
}

int run_list_input(struct named_exec *run, struct row *row, const char *word,
		   const struct pf_signature *s, struct pf_err *err)
{
	struct leaves l = { .first = row->inputs.n, .skip = skip_of(word) };
	struct leaves *more;
	int r = files_expand(row->device, word, &run->task->cred, &row->inputs, err);

	l.n = row->inputs.n - l.first;
	if (r < 0 || r == FILES_ITSELF || l.n == 0)
		return r < 0 ? r : 0;
	if (r == FILES_LEAVES && row->inputs.n <= s->n_inputs &&
	    !in_order(s->inputs + l.first, row->inputs.at + l.first, l.n, l.skip)) {
		r = order_inputs(s->inputs + l.first, row->inputs.at + l.first, l.n,
				 l.skip);
		if (r < 0)
			return r;
		l.sorted = r;
	}
	more = reallocarray(row->leaves, row->n_leaves + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	row->leaves = more;
	more[row->n_leaves++] = l;
	return 0;
}

/* Put NAMES in the order of L's, if both are the same after the first SKIP bytes.  0:
 * they differ; 1; -ENOMEM. */
static int order_as(const struct row *row, const struct leaves *l, struct names *names,
		    size_t skip)
{
	pf_autofree struct leaf *both = NULL;

	if (l->n != names->n)
		return 0;
	both = calloc(2 * l->n, sizeof(*both));
	if (!both)
		return -ENOMEM;
	for (size_t i = 0; i < l->n; i++) {
		both[i] = (struct leaf){ names->at[i] + skip, i };
		both[l->n + i] =
			(struct leaf){ row->inputs.at[l->first + i] + l->skip, i };
	}
	return match(names->at, both, both + l->n, l->n);
}

/* Is L the directory WORD? */
static bool is_same(const struct row *row, const struct leaves *l, const char *word)
{
	size_t skip = skip_of(word);

	return l->skip == skip && !memcmp(row->inputs.at[l->first], word, skip - 1);
}

int run_order_outputs(const struct row *row, const char *word, struct names *names)
{
	int r = 0;

	/* The same directory among the inputs takes precedence. */
	for (size_t i = 0; i < row->n_leaves; i++)
		if (is_same(row, &row->leaves[i], word))
			return row->leaves[i].sorted ? order_as(row, &row->leaves[i],
								names, skip_of(word))
						     : 0;
	for (size_t i = 0; i < row->n_leaves && r == 0; i++)
		if (row->leaves[i].sorted)
			r = order_as(row, &row->leaves[i], names, skip_of(word));
	return r;
}
