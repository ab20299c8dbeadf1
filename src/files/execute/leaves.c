/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a directory's leaves as arguments and results. */
#include <errno.h>
#include <stdio.h>
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

/* Put the leaves of W among NAMES, the inputs of a line, in the order of the next parameters, if they
 * have their names.  -ENOMEM. */
static int order_as_params(const struct pf_signature *s, char **names,
			   struct line_word *w)
{
	pf_autofree size_t *leaf = calloc(w->n, sizeof(*leaf));
	pf_autofree char **copy = calloc(w->n, sizeof(*copy));
	int r;

	if (!leaf || !copy)
		return -ENOMEM;
	names += w->first;
	r = pf_params_match(s, w->first, names, w->skip, w->n, leaf);
	for (size_t i = 0; i < w->n; i++)
		copy[i] = names[i];
	for (size_t i = 0; i < w->n && r == 1; i++)
		names[i] = copy[leaf[i]];
	w->by_name = r == 1;
	return r < 0 ? r : 0;
}

/* Append what WORD stands for to ROW's inputs. */
static int expand(struct row *row, const char *word, const char *param, bool stars,
		  const struct pf_cred *cred, struct pf_err *err)
{
	struct line_word *w = &row->words[row->n_words++];
	size_t others = 0;
	int r;

	*w = (struct line_word){ .word = word,
				 .param = param && *param ? param : NULL,
				 .first = row->inputs.n };
	if (stars && !strcmp(word, "*"))
		r = names_add(&row->inputs, word, 1);
	else
		r = files_expand(row->device, word, cred, &row->inputs, &others, err);
	w->n = row->inputs.n - w->first;
	w->is = r < 0 ? FILES_ITSELF : (enum files_expansion)r;
	w->skip = w->is == FILES_ITSELF ? 0 : files_path_len(word) + 1;
	if (r >= 0 && !w->n && others)
		r = pf_err_set(err, -ENOENT,
			       "%s: none of the files in it (%zu) is an array, which is "
			       "called " FILES_ARRAY_NAMES,
			       word, others);
	return r < 0 ? r : 0;
}

/* Let ROW's inputs be those of its arrays that ARRAY_OF says, one for each of the N. */
static int choose(struct row *row, const size_t *array_of, size_t n)
{
	struct names chosen = { 0 };
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		const char *name = row->inputs.at[array_of[i]];

		r = names_add(&chosen, name, strlen(name));
	}
	names_release(&row->inputs);
	row->inputs = chosen;
	return r;
}

/* Are the arrays of W numbered, as those of a list are, for a program S that only its text names?  The numbers are
 * their places then. */
static bool is_list(const struct pf_signature *s, const struct row *row,
		    const struct line_word *w)
{
	char number[32];

	for (size_t i = 0; i < s->n_inputs; i++)
		if (s->inputs[i].named && !s->inputs[i].in_text)
			return false;
	for (size_t i = 0; i < w->n; i++) {
		snprintf(number, sizeof(number), "%zu", i);
		if (strcmp(row->inputs.at[w->first + i] + w->skip, number))
			return false;
	}
	return true;
}

/* Match the whole line. */
static int assign(const struct pf_signature *s, struct row *row, struct pf_err *err)
{
	pf_autofree size_t *array_of = calloc(s->n_inputs + 1, sizeof(*array_of));
	pf_autofree struct pf_line_word *words = calloc(row->n_words + 1, sizeof(*words));
	int r;

	if (!array_of || !words)
		return -ENOMEM;
	for (size_t i = 0; i < row->n_words; i++) {
		const struct line_word *w = &row->words[i];

		words[i] = (struct pf_line_word){ .word = w->word,
						  .param = w->param,
						  .paths = row->inputs.at + w->first,
						  .first = w->first,
						  .n = w->n,
						  .skip = w->skip,
						  .directory = w->is == FILES_LEAVES };
	}
	r = pf_params_assign(s, words, row->n_words, array_of, err);
	if (r == 0)
		r = choose(row, array_of, s->n_inputs);
	for (size_t i = 0; i < row->n_words && r == 0; i++)
		row->words[i].by_name = row->words[i].is != FILES_RESULTS;
	return r;
}

int run_list_inputs(const struct pf_signature *s, struct row *row,
		    const struct names *words, const struct names *params,
		    bool positional, bool stars, const struct pf_cred *cred,
		    struct pf_err *err)
{
	bool by_name = false, unmatched = false, directory = false;
	int r = 0;

	row->words = calloc(words->n + 1, sizeof(*row->words));
	if (!row->words)
		return -ENOMEM;
	for (size_t i = 0; i < words->n && r == 0; i++) {
		struct line_word *w = &row->words[i];

		r = expand(row, words->at[i], params->n ? params->at[i] : NULL, stars,
			   cred, err);
		by_name = by_name || w->param || s->names_given;
		directory = directory || w->is != FILES_ITSELF;
		if (r < 0 || w->is != FILES_LEAVES || !w->n || positional)
			continue;
		if (w->first + w->n <= s->n_inputs)
			r = order_as_params(s, row->inputs.at, w);
		unmatched = unmatched || row->inputs.n > s->n_inputs ||
			    !(w->by_name || is_list(s, row, w));
	}
	if (r < 0)
		return r;
	if (positional && params->n)
		return pf_err_set(err, -EINVAL,
				  "positional: an input of a name was given, too");
	if (positional)
		return 0;
	if (by_name)
		return assign(s, row, err);
	if (!directory)
		return pf_params_check_order(s, row->inputs.at, row->inputs.n, err);
	r = unmatched ? pf_params_known(s) : 0;
	return r == 1 ? assign(s, row, err) : r;
}

/* The inputs of ROW that are leaves of W, in LIKE.  Returns how many. */
static size_t leaves_of(const struct row *row, const struct line_word *w, char **like)
{
	size_t n = 0;

	for (size_t i = 0; i < row->inputs.n && n < w->n; i++)
		if (!strncmp(row->inputs.at[i], w->word, w->skip - 1) &&
		    row->inputs.at[i][w->skip - 1] == '/')
			like[n++] = row->inputs.at[i];
	return n;
}

/* Drop those of NAMES that are not among the N of LIKE: leaves that no input is called as.  -ENOMEM. */
static int keep_inputs(struct names *names, char *const *like, size_t n)
{
	pf_autofree char **sorted = calloc(n + 1, sizeof(*sorted));
	size_t kept = 0;

	if (!sorted)
		return -ENOMEM;
	memcpy(sorted, like, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_path);
	for (size_t i = 0; i < names->n; i++) {
		char *name = names->at[i];

		if (bsearch(&name, sorted, n, sizeof(*sorted), by_path))
			names->at[kept++] = name;
		else
			free(name);
	}
	names->n = kept;
	return 0;
}

int run_order_outputs(const struct row *row, const char *word, struct names *names)
{
	pf_autofree char **like = calloc(row->inputs.n + 1, sizeof(*like));
	const size_t skip = files_path_len(word) + 1;
	const struct line_word *same = row->words, *end = row->words + row->n_words;
	int r = 0;

	if (!like)
		return -ENOMEM;
	/* The same directory among the inputs takes precedence. */
	while (same < end && (same->skip != skip || memcmp(same->word, word, skip - 1)))
		same++;
	if (same < end)
		r = keep_inputs(names, like, leaves_of(row, same, like));
	for (const struct line_word *w = same < end ? same : row->words;
	     w < end && r == 0; w++) {
		size_t n = w->skip ? leaves_of(row, w, like) : 0;

		if (n && n == names->n)
			r = order(names->at, skip, like, w->skip, n);
	}
	return r;
}
