/* SPDX-License-Identifier: Apache-2.0 */
/* Which leaf of a directory is which parameter, by their names. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/base.h"
#include "pjrtfs/program.h"

/* --- names as lists of segments ----------------------------------------------------------- */

enum {
	MAX_PREFIX = 32, /* segments before a directory's leaves that are tried */
	MAX_TOLD = 3,    /* names of each kind in a sentence */
};

/* JAX writes a name in Python: "params['layers'][3].mu"; in a key, backslashes stand before quotes. */
static const char separators[] = "./[]'\"\\";

/* A name, to be compared. */
struct key {
	const char *name; /* borrowed */
	size_t at;        /* which it is */
	size_t off;       /* of its segments in the text of its list, joined by '/' */
	const char *text; /* these, borrowed from there */
	bool found;       /* the other list has it */
};

/* The names that are compared. */
struct keys {
	size_t n;
	struct key *at;     /* owned; in the order of their texts */
	struct pf_buf text; /* all of them, each with a NUL */
};

static void keys_release(struct keys *keys)
{
	free(keys->at);
	pf_buf_release(&keys->text);
}

/* Of structs key. */
static int by_text(const void *a, const void *b)
{
	return strcmp(((const struct key *)a)->text, ((const struct key *)b)->text);
}

/* The N bytes of a segment: of a number, which JAX may write as "<flat index 3>", without zeros before
 * it. */
static void append_segment(struct pf_buf *out, const char *p, size_t n)
{
	static const char flat[] = "<flat index ";
	const size_t before = sizeof(flat) - 1;
	size_t zeros;

	if (n > before + 1 && !memcmp(p, flat, before) && p[n - 1] == '>') {
		p += before;
		n -= before + 1;
	}
	zeros = strspn(p, "0");
	if (n && strspn(p, "0123456789") >= n) {
		zeros = zeros < n ? zeros : n - 1;
		p += zeros;
		n -= zeros;
	}
	pf_buf_append(out, p, n);
}

/* Append the segments of NAME; BARE: without a last one that is "value". */
static void append_segments(struct pf_buf *out, const char *name, bool bare)
{
	size_t begin = out->len, last = begin, n;

	for (const char *p = name; *p; p += n) {
		p += strspn(p, separators);
		n = strcspn(p, separators);
		last = n ? out->len : last;
		if (n && out->len > begin)
			pf_buf_append(out, "/", 1);
		append_segment(out, p, n);
	}
	pf_buf_append(out, "", 1);
	if (bare && last > begin && !out->failed && !strcmp(out->data + last, "/value")) {
		out->len = last;
		pf_buf_append(out, "", 1);
	}
}

/* Write and sort KEYS, whose names are set.  -ENOMEM. */
static int keys_sort(struct keys *keys, bool bare)
{
	pf_buf_consume(&keys->text, keys->text.len);
	for (size_t i = 0; i < keys->n; i++) {
		keys->at[i].off = keys->text.len;
		append_segments(&keys->text, keys->at[i].name, bare);
	}
	if (keys->text.failed)
		return -ENOMEM;
	for (size_t i = 0; i < keys->n; i++)
		keys->at[i].text = keys->text.data + keys->at[i].off;
	qsort(keys->at, keys->n, sizeof(*keys->at), by_text);
	return 0;
}

/* Room for N keys.  -ENOMEM. */
static int keys_init(struct keys *keys, size_t n)
{
	keys->at = calloc(n + 1, sizeof(*keys->at));
	return keys->at ? 0 : -ENOMEM;
}

static void keys_add(struct keys *keys, const char *name)
{
	keys->at[keys->n] = (struct key){ .name = name, .at = keys->n };
	keys->n++;
}

/* Are two of KEYS equal? */
static bool keys_repeat(const struct keys *keys)
{
	for (size_t i = 1; i < keys->n; i++)
		if (!strcmp(keys->at[i - 1].text, keys->at[i].text))
			return true;
	return false;
}

/* --- leaves of a directory ---------------------------------------------------------------- */

/* Mark the keys that PARAMS, without SKIP bytes of each, and LEAVES both have.  Returns how many. */
static size_t mark(struct keys *params, size_t skip, struct keys *leaves)
{
	size_t i = 0, k = 0, n = 0;

	while (i < params->n || k < leaves->n) {
		struct key *param = i < params->n ? &params->at[i] : NULL;
		struct key *leaf = k < leaves->n ? &leaves->at[k] : NULL;
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
static size_t compare(struct keys *params, struct keys *leaves)
{
	const char *first = params->at[0].text, *last = params->at[params->n - 1].text;
	size_t best = 0, n = 0, most = mark(params, 0, leaves);

	for (size_t i = 0; first[i] && first[i] == last[i] && n < MAX_PREFIX; i++) {
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

/* The bytes before the number of NAME, if it is one word and a number, as "arg0" and "p0.2" are; else
 * SIZE_MAX. */
static size_t word_of_numbered(const char *name)
{
	size_t word = strcspn(name, "0123456789./[");
	size_t digits = strspn(name + word, "0123456789.");

	return isdigit((unsigned char)name[word]) && !name[word + digits] ? word
									  : SIZE_MAX;
}

/* Are the names of all inputs numbers behind one word?  They say no more than their places do. */
static bool all_numbered(const struct pf_signature *s)
{
	const char *first = s->inputs[0].name;
	size_t word = word_of_numbered(first);

	for (size_t i = 0; i < s->n_inputs; i++)
		if (word_of_numbered(s->inputs[i].name) != word ||
		    (word != SIZE_MAX && strncmp(s->inputs[i].name, first, word)))
			return false;
	return word != SIZE_MAX;
}

/* Do N inputs of S, from FIRST on, have names of a framework, which tell all inputs apart?  -ENOMEM. */
static int have_names(const struct pf_signature *s, size_t first, size_t n)
{
	PF_CLEANUP(keys_release) struct keys all = { 0 };
	bool named = false;

	for (size_t i = first; i < first + n; i++)
		named = named || s->inputs[i].named;
	if (!named || all_numbered(s))
		return 0;
	if (keys_init(&all, s->n_inputs) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_inputs; i++)
		keys_add(&all, s->inputs[i].name);
	return keys_sort(&all, false) < 0 ? -ENOMEM : !keys_repeat(&all);
}

/* Append the names of some of KEYS that were not found. */
static void tell(struct pf_buf *out, const struct keys *keys)
{
	size_t told = 0, left = 0;

	for (size_t i = 0; i < keys->n; i++) {
		const struct key *key = &keys->at[i];

		if (key->found)
			continue;
		if (told == MAX_TOLD)
			left++;
		else
			pf_buf_printf(out, "%s%.80s", told++ ? ", " : "", key->name);
	}
	if (left)
		pf_buf_printf(out, " and %zu more", left);
}

static int differ(struct keys *params, struct keys *leaves, size_t first,
		  struct pf_err *err)
{
	pf_autobuf struct pf_buf found = PF_BUF_INIT, expected = PF_BUF_INIT;
	size_t n = leaves->n, same;

	if (keys_sort(params, false) < 0 || keys_sort(leaves, false) < 0)
		return -ENOMEM;
	same = compare(params, leaves);
	tell(&found, leaves);
	tell(&expected, params);
	if (found.failed || expected.failed)
		return -ENOMEM;
	return pf_err_set(
		err, -EINVAL,
		"%zu of its %zu arrays %s named as the program's inputs %zu to %zu "
		"are: found %s, expected %s; rename them, or add the word "
		"positional, which passes them in their order",
		same, n, same == 1 ? "is" : "are", first, first + n - 1, found.data,
		expected.data);
}

int pf_params_match(const struct pf_signature *s, size_t first, char *const *paths,
		    size_t skip, size_t n, size_t *leaf, struct pf_err *err)
{
	PF_CLEANUP(keys_release) struct keys params = { 0 };
	PF_CLEANUP(keys_release) struct keys leaves = { 0 };
	int r;

	if (keys_init(&params, n) < 0 || keys_init(&leaves, n) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		keys_add(&params, s->inputs[first + i].name);
		keys_add(&leaves, paths[i] + skip);
	}
	for (int bare = 0; bare < 2; bare++) {
		if (keys_sort(&params, bare) < 0 || keys_sort(&leaves, bare) < 0)
			return -ENOMEM;
		if (compare(&params, &leaves) < n || keys_repeat(&params))
			continue;
		for (size_t i = 0; i < n; i++)
			leaf[params.at[i].at] = leaves.at[i].at;
		return 1;
	}
	r = have_names(s, first, n);
	return r > 0 ? differ(&params, &leaves, first, err) : r;
}
