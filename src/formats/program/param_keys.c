/* SPDX-License-Identifier: Apache-2.0 */
/* Names of inputs and of arrays as lists of segments. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "param_keys.h"

/* JAX writes a name in Python: "params['layers'][3].mu"; in a key, backslashes stand before quotes. */
static const char separators[] = "./[]'\"\\";

void pf_keys_release(struct pf_keys *keys)
{
	free(keys->at);
	pf_buf_release(&keys->text);
}

/* Of structs pf_key. */
static int by_text(const void *a, const void *b)
{
	return strcmp(((const struct pf_key *)a)->text, ((const struct pf_key *)b)->text);
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

/* Are the N bytes of a segment the name of one file of several of a model, as Hugging Face writes them,
 * "model-00001-of-00002"?  The names of its tensors do not have it. */
static bool is_shard(const char *p, size_t n)
{
	static const char digits[] = "0123456789", of[] = "-of-";
	const char *at = memmem(p, n, of, strlen(of));
	const char *last = at ? at + strlen(of) : p;
	size_t number = at ? (size_t)(p + n - last) : 0;

	return number && strspn(last, digits) >= number && at > p &&
	       isdigit((unsigned char)at[-1]);
}

/* Append the segments of NAME; BARE: without a last one that is "value". */
static void append_segments(struct pf_buf *out, const char *name, bool bare)
{
	size_t begin = out->len, last = begin, n;

	for (const char *p = name; *p; p += n) {
		p += strspn(p, separators);
		n = strcspn(p, separators);
		if (is_shard(p, n))
			continue;
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
int pf_keys_sort(struct pf_keys *keys, bool bare)
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
int pf_keys_init(struct pf_keys *keys, size_t n)
{
	keys->at = calloc(n + 1, sizeof(*keys->at));
	return keys->at ? 0 : -ENOMEM;
}

void pf_keys_add(struct pf_keys *keys, const char *name)
{
	keys->at[keys->n] = (struct pf_key){ .name = name, .at = keys->n };
	keys->n++;
}

const struct pf_key *pf_keys_repeat(const struct pf_keys *keys)
{
	for (size_t i = 1; i < keys->n; i++)
		if (!strcmp(keys->at[i - 1].text, keys->at[i].text))
			return &keys->at[i];
	return NULL;
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

/* The names of S's inputs, in *ALL, which the caller releases.  -ENOMEM. */
static int list_inputs(const struct pf_signature *s, struct pf_keys *all)
{
	if (pf_keys_init(all, s->n_inputs) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_inputs; i++)
		pf_keys_add(all, s->inputs[i].name);
	return pf_keys_sort(all, false);
}

int pf_params_known(const struct pf_signature *s)
{
	PF_CLEANUP(pf_keys_release) struct pf_keys all = { 0 };
	bool named = false;

	for (size_t i = 0; i < s->n_inputs; i++)
		named = named || s->inputs[i].named;
	if (!named || all_numbered(s))
		return 0;
	return list_inputs(s, &all) < 0 ? -ENOMEM : !pf_keys_repeat(&all);
}

int pf_params_equal(const struct pf_signature *s, size_t pair[2])
{
	PF_CLEANUP(pf_keys_release) struct pf_keys all = { 0 };
	const struct pf_key *again;
	size_t a, b;

	if (list_inputs(s, &all) < 0)
		return -ENOMEM;
	again = pf_keys_repeat(&all);
	if (!again)
		return 0;
	a = again[-1].at;
	b = again->at;
	pair[0] = a < b ? a : b;
	pair[1] = a < b ? b : a;
	return 1;
}
