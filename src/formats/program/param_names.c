/* SPDX-License-Identifier: Apache-2.0 */
/* Which leaf of a directory is which of the next parameters, by their names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "param_keys.h"

/* --- leaves of a directory ---------------------------------------------------------------- */

/* Mark the keys that PARAMS, without SKIP bytes of each, and LEAVES both have.  Returns how many. */
static size_t mark(struct pf_keys *params, size_t skip, struct pf_keys *leaves)
{
	size_t i = 0, k = 0, n = 0;

	while (i < params->n || k < leaves->n) {
		struct pf_key *param = i < params->n ? &params->at[i] : NULL;
		struct pf_key *leaf = k < leaves->n ? &leaves->at[k] : NULL;
		int order = !param  ? 1
			    : !leaf ? -1
				    : strcmp(param->text + skip, leaf->text);

		if (order <= 0)
			param->found = order == 0;
		if (order >= 0)
			leaf->found = order == 0;
		i += order <= 0;
		k += order >= 0;
		n += order == 0;
	}
	return n;
}

/*
 * Mark the keys that PARAMS and LEAVES have in common: PARAMS without the segments that all of
 * them begin with, as many as give the most.  Returns how many.
 */
static size_t compare(struct pf_keys *params, struct pf_keys *leaves)
{
	const char *first = params->at[0].text, *last = params->at[params->n - 1].text;
	size_t best = 0, n = 0, most = mark(params, 0, leaves);

	for (size_t i = 0; first[i] && first[i] == last[i] && n < PF_MAX_PREFIX; i++) {
		size_t found;

		if (first[i] != '/')
			continue;
		n++;
		found = mark(params, i + 1, leaves);
		if (found > most) {
			most = found;
			best = i + 1;
		}
	}
	return mark(params, best, leaves);
}

int pf_params_match(const struct pf_signature *s, size_t first, char *const *paths,
		    size_t skip, size_t n, size_t *leaf)
{
	PF_CLEANUP(pf_keys_release) struct pf_keys params = { 0 };
	PF_CLEANUP(pf_keys_release) struct pf_keys leaves = { 0 };

	if (pf_keys_init(&params, n) < 0 || pf_keys_init(&leaves, n) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		pf_keys_add(&params, s->inputs[first + i].name);
		pf_keys_add(&leaves, paths[i] + skip);
	}
	for (int bare = 0; bare < 2; bare++) {
		if (pf_keys_sort(&params, bare) < 0 || pf_keys_sort(&leaves, bare) < 0)
			return -ENOMEM;
		if (compare(&params, &leaves) < n || pf_keys_repeat(&params))
			continue;
		for (size_t i = 0; i < n; i++)
			leaf[params.at[i].at] = leaves.at[i].at;
		return 1;
	}
	return 0;
}
