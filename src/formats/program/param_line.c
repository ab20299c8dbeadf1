/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which array of a whole line is which input of a program, by their names.
 *
 * The line's words are taken in four turns: those that name an input, directories, whose leaves are
 * inputs below one prefix, wherever these stand, and then the arrays that are left, in their order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "param_keys.h"

enum {
	MAX_TRIED = 64,         /* leaves whose places are looked for */
	MAX_COMPARED = 1 << 24, /* names, for one directory */
	NAME_TOLD = 80,         /* bytes of a name in a sentence, */
	MAX_TOLD = 3,           /* and names */
};

/* Some of N things, for a sentence. */
struct told {
	struct pf_buf text;
	size_t n;
};

struct line {
	const struct pf_signature *s;
	const struct pf_line_word *words;
	size_t n_words;
	size_t *array_of;      /* the caller's; PF_NO_ARRAY: none yet */
	struct pf_keys inputs; /* by the segments of their names */
	const char **text;     /* owned: of each input, borrowed from there */
	const struct pf_line_word *
		*word_of;   /* owned: the directory that each belongs to */
	struct told unused; /* leaves that no input is called as */
	struct pf_buf scratch;
};

/* The segments that all of a directory's inputs begin with: LEN bytes of an input's text. */
struct prefix {
	const char *text;
	size_t len;
	size_t found; /* leaves that are inputs below it */
};

/* Add one more thing to T.  Returns where its text goes; NULL: it is one of the rest. */
static struct pf_buf *tell(struct told *t)
{
	if (++t->n > MAX_TOLD)
		return NULL;
	if (t->n > 1)
		pf_buf_puts(&t->text, ", ");
	return &t->text;
}

/* All are there: say how many the rest are.  The text. */
static const char *told(struct told *t)
{
	if (t->n > MAX_TOLD)
		pf_buf_printf(&t->text, " and %zu more", t->n - MAX_TOLD);
	return t->text.data;
}

static void line_release(struct line *l)
{
	pf_keys_release(&l->inputs);
	free(l->text);
	free(l->word_of);
	pf_buf_release(&l->unused.text);
	pf_buf_release(&l->scratch);
}

/* -ENOMEM. */
static int line_init(struct line *l)
{
	size_t n = l->s->n_inputs;

	l->text = calloc(n + 1, sizeof(*l->text));
	l->word_of = calloc(n + 1, sizeof(*l->word_of));
	if (!l->text || !l->word_of || pf_keys_init(&l->inputs, n) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		pf_keys_add(&l->inputs, l->s->inputs[i].name);
		l->array_of[i] = PF_NO_ARRAY;
	}
	if (pf_keys_sort(&l->inputs, true) < 0 ||
	    (pf_keys_repeat(&l->inputs) && pf_keys_sort(&l->inputs, false) < 0))
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		l->text[l->inputs.at[i].at] = l->inputs.at[i].text;
	return 0;
}

static int by_text(const void *text, const void *key)
{
	return strcmp(text, ((const struct pf_key *)key)->text);
}

/* The input called TEXT, segments, below PREFIX (NULL: none); or NULL. */
static const struct pf_key *find(struct line *l, const struct prefix *prefix,
				 const char *text)
{
	if (prefix && prefix->len) {
		pf_buf_consume(&l->scratch, l->scratch.len);
		pf_buf_append(&l->scratch, prefix->text, prefix->len);
		pf_buf_printf(&l->scratch, "/%s", text);
		text = l->scratch.failed ? "" : l->scratch.data;
	}
	return bsearch(text, l->inputs.at, l->inputs.n, sizeof(*l->inputs.at), by_text);
}

/* The segments of NAME in *KEYS, which the caller releases.  -ENOMEM. */
static int segments_of(const char *name, struct pf_keys *keys)
{
	if (pf_keys_init(keys, 1) < 0)
		return -ENOMEM;
	pf_keys_add(keys, name);
	return pf_keys_sort(keys, true);
}

/* --- words that name an input ----------------------------------------------------------------- */

static int no_input(const struct line *l, const char *name, struct pf_err *err)
{
	struct pf_similar similar = { .word = name };
	char hint[PF_SIMILAR_TEXT];

	for (size_t i = 0; i < l->s->n_inputs; i++)
		pf_similar_try(&similar, l->s->inputs[i].name);
	return pf_err_set(err, -EINVAL, "the program has no input called %.*s%s",
			  NAME_TOLD, name, pf_similar_hint(&similar, hint));
}

/* Let array ARRAY be INPUT. */
static int fill(struct line *l, size_t input, size_t array, struct pf_err *err)
{
	if (l->array_of[input] != PF_NO_ARRAY)
		return pf_err_set(err, -EINVAL, "input %zu (%.*s) is given twice", input,
				  NAME_TOLD, l->s->inputs[input].name);
	l->array_of[input] = array;
	return 0;
}

/* Let W, one array, be the input that NAME is the name of, if there is one, which must be if MUST.
 * 1; 0: there is none. */
static int fill_named(struct line *l, const struct pf_line_word *w, const char *name,
		      bool must, struct pf_err *err)
{
	PF_CLEANUP(pf_keys_release) struct pf_keys keys = { 0 };
	const struct pf_key *input;
	int r = segments_of(name, &keys);

	if (r < 0)
		return r;
	input = find(l, NULL, keys.at[0].text);
	if (!input)
		return must ? no_input(l, name, err) : 0;
	r = fill(l, input->at, w->first, err);
	return r < 0 ? r : 1;
}

/* --- directories ------------------------------------------------------------------------------ */

/* How many of LEAVES are inputs without an array below PREFIX?  With W they become its. */
static size_t below(struct line *l, const struct prefix *prefix, struct pf_keys *leaves,
		    const struct pf_line_word *w)
{
	size_t n = 0;

	for (size_t i = 0; i < leaves->n; i++) {
		struct pf_key *leaf = &leaves->at[i];
		const struct pf_key *input = find(l, prefix, leaf->text);

		leaf->found = input && l->array_of[input->at] == PF_NO_ARRAY;
		n += leaf->found;
		if (!w || !leaf->found)
			continue;
		l->array_of[input->at] = w->first + leaf->at;
	}
	return n;
}

/* Keep the parts of W, a directory: its inputs below PREFIX, and the leaves that are none. */
static void keep(struct line *l, const struct prefix *prefix,
		 const struct pf_keys *leaves, const struct pf_line_word *w)
{
	for (size_t i = 0; i < l->s->n_inputs; i++)
		if (prefix->len && l->array_of[i] == PF_NO_ARRAY &&
		    !strncmp(l->text[i], prefix->text, prefix->len) &&
		    l->text[i][prefix->len] == '/')
			l->word_of[i] = w;
	for (size_t i = 0; i < leaves->n; i++) {
		struct pf_buf *text = leaves->at[i].found ? NULL : tell(&l->unused);

		if (text)
			pf_buf_printf(text, "%s/%.*s", w->word, NAME_TOLD,
				      leaves->at[i].name);
	}
}

/*
 * Append to PREFIXES, of which there are *N, the places of LEAF among the inputs without an array;
 * those of a leaf with more than PF_MAX_PREFIX places do not count.  Returns how many it has.
 */
static size_t find_places(const struct line *l, const char *leaf, struct prefix *prefixes,
			  size_t *n)
{
	size_t len = strlen(leaf), places = 0, old = *n;

	for (size_t i = 0; i < l->s->n_inputs; i++) {
		const char *text = l->text[i];
		size_t before = strlen(text), k = 0;

		if (before < len || l->array_of[i] != PF_NO_ARRAY)
			continue;
		before -= len;
		if (strcmp(text + before, leaf) || (before && text[before - 1] != '/'))
			continue;
		before -= before > 0;
		if (++places > PF_MAX_PREFIX || *n == PF_MAX_PREFIX) {
			*n = old;
			return places;
		}
		while (k < *n && (prefixes[k].len != before ||
				  memcmp(prefixes[k].text, text, before)))
			k++;
		prefixes[k] = (struct prefix){ text, before, 0 };
		*n += k == *n;
	}
	return places;
}

/* Are the last segments of PREFIX and of W equal? */
static bool is_called(const struct prefix *prefix, const struct pf_line_word *w)
{
	PF_CLEANUP(pf_keys_release) struct pf_keys keys = { 0 };
	const char *name, *slash;
	size_t len;

	if (segments_of(w->word, &keys) < 0)
		return false;
	slash = strrchr(keys.at[0].text, '/');
	name = slash ? slash + 1 : keys.at[0].text;
	len = strlen(name);
	return prefix->len >= len &&
	       !memcmp(prefix->text + prefix->len - len, name, len) &&
	       (prefix->len == len || prefix->text[prefix->len - len - 1] == '/');
}

static int ambiguous(const struct pf_line_word *w, const struct prefix *a,
		     const struct prefix *b, struct pf_err *err)
{
	return pf_err_set(
		err, -EINVAL,
		"%s: its arrays are named as the program's inputs below \"%.*s\" "
		"are, and as those below \"%.*s\": write which, as in %.*s=%s",
		w->word, (int)a->len, a->text, (int)b->len, b->text,
		(int)(a->len ? a->len : b->len), a->len ? a->text : b->text, w->word);
}

static int no_leaf(const struct line *l, const struct pf_line_word *w,
		   const struct pf_keys *leaves, struct pf_err *err)
{
	struct told found = { .n = 0 }, expected = { .n = 0 };
	struct pf_buf *text;
	int r = -ENOMEM;

	for (size_t i = 0; i < leaves->n; i++)
		if ((text = tell(&found)))
			pf_buf_printf(text, "%.*s", NAME_TOLD, leaves->at[i].name);
	for (size_t i = 0; i < l->s->n_inputs; i++)
		if (l->array_of[i] == PF_NO_ARRAY && (text = tell(&expected)))
			pf_buf_printf(text, "%.*s", NAME_TOLD, l->s->inputs[i].name);
	told(&found);
	told(&expected);
	if (!found.text.failed && !expected.text.failed)
		r = pf_err_set(err, -EINVAL,
			       "%s: none of its %zu arrays is named as an input of the "
			       "program is: found %s, expected %s; rename them, or add "
			       "the word positional, which passes them in their order",
			       w->word, w->n, found.text.data,
			       expected.n ? expected.text.data : "none, all are given");
	pf_buf_release(&found.text);
	pf_buf_release(&expected.text);
	return r;
}

/* The prefix below which most LEAVES of W are inputs, in *BEST; found 0: none is.  -EINVAL: two have as
 * many. */
static int find_prefix(struct line *l, struct pf_keys *leaves,
		       const struct pf_line_word *w, struct prefix *best,
		       struct pf_err *err)
{
	struct prefix prefixes[PF_MAX_PREFIX], other = { 0 };
	size_t n = 0, tried = 0;
	const size_t most = MAX_COMPARED / (l->s->n_inputs + 1);

	*best = other;
	for (size_t i = 0; i < leaves->n && i < most && tried < MAX_TRIED; i++)
		tried += find_places(l, leaves->at[i].text, prefixes, &n) > 0;
	for (size_t i = 0; i < n; i++) {
		struct prefix *p = &prefixes[i];

		p->found = below(l, p, leaves, NULL);
		if (p->found < best->found)
			continue;
		if (p->found > best->found || (is_called(p, w) && !is_called(best, w))) {
			other.found = 0;
			*best = *p;
		} else if (is_called(p, w) || !is_called(best, w)) {
			other = *p;
		}
	}
	return other.found && other.found == best->found ? ambiguous(w, best, &other, err)
							 : 0;
}

static int fill_directory(struct line *l, const struct pf_line_word *w,
			  struct pf_err *err)
{
	PF_CLEANUP(pf_keys_release) struct pf_keys leaves = { 0 };
	PF_CLEANUP(pf_keys_release) struct pf_keys param = { 0 };
	struct prefix prefix = { 0 };
	int r;

	if (pf_keys_init(&leaves, w->n) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < w->n; i++)
		pf_keys_add(&leaves, w->paths[i] + w->skip);
	r = pf_keys_sort(&leaves, true);
	if (r == 0 && pf_keys_repeat(&leaves))
		r = pf_keys_sort(&leaves, false);
	if (r == 0 && w->param) {
		r = segments_of(w->param, &param);
		if (r == 0)
			prefix = (struct prefix){ param.at[0].text,
						  strlen(param.at[0].text), 0 };
	} else if (r == 0) {
		r = find_prefix(l, &leaves, w, &prefix, err);
	}
	if (r < 0)
		return r;
	if (!below(l, &prefix, &leaves, w))
		return no_leaf(l, w, &leaves, err);
	keep(l, &prefix, &leaves, w);
	return 0;
}

/* --- the rest --------------------------------------------------------------------------------- */

/* WORD's place is that of input I, and it is called as input CALLED. */
static int misplaced(const struct pf_signature *s, const char *word, size_t i,
		     size_t called, struct pf_err *err)
{
	return pf_err_set(
		err, -EINVAL,
		"%s would be input %zu (%.*s), and input %zu has its name: write "
		"which, as in %.*s=%s, or positional",
		word, i, NAME_TOLD, s->inputs[i].name, called, NAME_TOLD,
		s->inputs[i].name, word);
}

/* Is W called as another input than INPUT, to which its place leads? */
static int check_name(struct line *l, const struct pf_line_word *w, size_t input,
		      struct pf_err *err)
{
	PF_CLEANUP(pf_keys_release) struct pf_keys keys = { 0 };
	const struct pf_key *called;
	int r = segments_of(w->word, &keys);

	if (r < 0)
		return r;
	called = find(l, NULL, keys.at[0].text);
	return called && called->at != input
		       ? misplaced(l->s, w->word, input, called->at, err)
		       : 0;
}

/* Let the arrays of W be the next inputs, from *NEXT on, that are not a directory's. */
static int fill_in_order(struct line *l, const struct pf_line_word *w, size_t *next,
			 struct pf_err *err)
{
	int r = 0;

	for (size_t i = 0; i < w->n && r == 0; i++) {
		while (*next < l->s->n_inputs &&
		       (l->array_of[*next] != PF_NO_ARRAY || l->word_of[*next]))
			++*next;
		if (*next == l->s->n_inputs)
			return pf_err_set(err, -EINVAL,
					  "the program takes %zu inputs, and %s is one "
					  "more",
					  l->s->n_inputs, w->word);
		if (w->n == 1)
			r = check_name(l, w, *next, err);
		l->array_of[*next] = w->first + i;
	}
	return r;
}

static int missing(struct line *l, struct pf_err *err)
{
	struct told inputs = { .n = 0 };
	struct pf_buf *text;
	int r = -ENOMEM;

	for (size_t i = 0; i < l->s->n_inputs; i++)
		if (l->array_of[i] == PF_NO_ARRAY && (text = tell(&inputs)))
			pf_buf_printf(text, "input %zu (%.*s)", i, NAME_TOLD,
				      l->s->inputs[i].name);
	if (!inputs.n)
		return 0;
	told(&inputs);
	text = &inputs.text;
	pf_buf_puts(text, inputs.n > 1 ? " were not given" : " was not given");
	if (l->unused.n)
		pf_buf_printf(text,
			      "; no input is called as %s %s: rename them, or add the "
			      "word positional, which passes arrays in their order",
			      told(&l->unused), l->unused.n > 1 ? "are" : "is");
	if (!text->failed && !l->unused.text.failed)
		r = pf_err_set(err, -EINVAL, "%s", text->data);
	pf_buf_release(text);
	return r;
}

/* Let W be the input that it says, or, where users named the inputs, the one of its name.  1; 0: there is
 * none. */
static int fill_said(struct line *l, const struct pf_line_word *w, struct pf_err *err)
{
	int r;

	if (w->n == 1 && !w->directory && (w->param || l->s->names_given))
		return fill_named(l, w, w->param ? w->param : w->word, w->param, err);
	if (!w->param)
		return 0;
	if (!w->directory)
		return pf_err_set(err, -EINVAL,
				  "%s=%s: the results that a command numbered are inputs "
				  "by their place",
				  w->param, w->word);
	r = fill_directory(l, w, err);
	return r < 0 ? r : 1;
}

static int fill_words(struct line *l, struct pf_err *err)
{
	pf_autofree bool *filled = calloc(l->n_words + 1, sizeof(*filled));
	const struct pf_line_word *w = l->words;
	size_t next = 0;
	int r = filled ? 0 : -ENOMEM;

	for (size_t i = 0; i < l->n_words && r >= 0; i++) {
		r = fill_said(l, &w[i], err);
		filled[i] = r == 1;
	}
	for (size_t i = 0; i < l->n_words && r >= 0; i++)
		if (w[i].directory && !filled[i])
			r = fill_directory(l, &w[i], err);
	for (size_t i = 0; i < l->n_words && r >= 0; i++)
		if (!w[i].directory && !filled[i])
			r = fill_in_order(l, &w[i], &next, err);
	return r < 0 ? r : missing(l, err);
}

int pf_params_assign(const struct pf_signature *s, const struct pf_line_word *words,
		     size_t n_words, size_t *array_of, struct pf_err *err)
{
	PF_CLEANUP(line_release)
	struct line l = {
		.s = s, .words = words, .n_words = n_words, .array_of = array_of
	};
	int r = line_init(&l);

	if (r == 0 && pf_keys_repeat(&l.inputs))
		return pf_err_set(err, -EINVAL,
				  "the names of the program's inputs do not tell them "
				  "apart: give the arrays in their order");
	r = r < 0 ? r : fill_words(&l, err);
	return r == 0 && l.scratch.failed ? -ENOMEM : r;
}

/* --- a line of arrays only -------------------------------------------------------------------- */

static size_t input_called(const struct pf_signature *s, const char *name)
{
	size_t i = 0;

	while (i < s->n_inputs && strcmp(s->inputs[i].name, name))
		i++;
	return i;
}

int pf_params_check_order(const struct pf_signature *s, char *const *names, size_t n,
			  struct pf_err *err)
{
	PF_CLEANUP(pf_keys_release) struct pf_keys params = { 0 };
	PF_CLEANUP(pf_keys_release) struct pf_keys given = { 0 };
	size_t first = 0, called;
	int r;

	if (n != s->n_inputs)
		return 0;
	while (first < n && !strcmp(names[first], s->inputs[first].name))
		first++;
	called = first < n ? input_called(s, names[first]) : n;
	if (called == n)
		return 0;
	r = pf_params_known(s);
	if (r < 1)
		return r;
	if (pf_keys_init(&params, n) < 0 || pf_keys_init(&given, n) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		pf_keys_add(&params, s->inputs[i].name);
		pf_keys_add(&given, names[i]);
	}
	if (pf_keys_sort(&params, false) < 0 || pf_keys_sort(&given, false) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (strcmp(params.at[i].text, given.at[i].text))
			return 0;
	return misplaced(s, names[first], first, called, err);
}
