/* SPDX-License-Identifier: Apache-2.0 */
/* Suggestions: similar words are found, dissimilar ones are not suggested. */
#include "pjrtfs/base.h"

#include <stdio.h>
#include <string.h>

#include "unit.h"

static const char *const known[] = { "executable", "inputs",   "outputs",
				     "donate",     "device",   "memory_limit",
				     "op",         "no_cache", NULL };

static const struct {
	const char *word, *meant; /* NULL: none */
} words[] = {
	{ "exec", "executable" },       /* a beginning */
	{ "executalbe", "executable" }, /* swapped */
	{ "input", "inputs" },
	{ "inptus", "inputs" },
	{ "output", "outputs" },
	{ "outputss", "outputs" },
	{ "devise", "device" },
	{ "Device", "device" },
	{ "memory-limits", "memory_limit" },
	{ "memory_limt", "memory_limit" },
	{ "no-cahce", "no_cache" },
	{ "de", NULL }, /* the beginning of several, and too short to decide */
	{ "", NULL },
	{ "x", NULL },
	{ "oq", NULL }, /* one of two letters */
	{ "iterations", NULL },
	{ "steps", NULL },
	{ "a word that is far longer than any of the keys that there are in any file",
	  NULL },
};

START_TEST(finds_similar_words)
{
	struct pf_similar s = { .word = words[_i].word };
	char text[PF_SIMILAR_TEXT], want[PF_SIMILAR_TEXT] = "";

	pf_similar_try_all(&s, known);
	if (!words[_i].meant) {
		ck_assert_msg(!s.best, "%s: %s", s.word, s.best);
	} else {
		ck_assert_msg(s.best && !strcmp(s.best, words[_i].meant), "%s: %s",
			      s.word, s.best ? s.best : "nothing");
		snprintf(want, sizeof(want), " (did you mean \"%s\"?)", words[_i].meant);
	}
	ck_assert_str_eq(pf_similar_hint(&s, text), want);
}
END_TEST

/* The most similar word, in any order of the list. */
START_TEST(takes_the_most_similar_word)
{
	static const char *const forth[] = { "outputs", "output", NULL };
	static const char *const back[] = { "output", "outputs", NULL };
	struct pf_similar a = { .word = "outputss" }, b = { .word = "outputss" };

	pf_similar_try_all(&a, forth);
	pf_similar_try_all(&b, back);
	ck_assert_str_eq(a.best, "outputs");
	ck_assert_str_eq(b.best, "outputs");
	ck_assert_uint_eq(a.distance, 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("similar");
	TCase *tc = tcase_create("words");

	unit_add_cases(tc, finds_similar_words, words);
	tcase_add_test(tc, takes_the_most_similar_word);
	suite_add_tcase(suite, tc);
	return unit_run(suite);
}
