/* SPDX-License-Identifier: Apache-2.0 */
/* The line of a plugin's log that explains why its worker died. */
#include "plugin_log_fixture.h"

#include <pthread.h>

static uint64_t words_at; /* the mark of the words */

/* The line since MARK that explains a death, or "". */
static const char *words(uint64_t mark, enum pf_plugin_log_lines lines)
{
	static struct pf_err why;

	pf_err_set(&why, -EIO, "it died");
	words_at = pf_plugin_log_quote(&plugin_log, mark, lines, &why);
	ck_assert_int_eq(why.code, -EIO);
	ck_assert_int_eq(strncmp(why.text, "it died", 7), 0);
	if (!why.text[7])
		return "";
	ck_assert_int_eq(strncmp(why.text + 7, "; it printed last: ", 19), 0);
	return why.text + 26;
}

static const struct {
	const char *text, *words;
} last_words[] = {
	{ "", "" },
	{ "\n\n", "" },
	{ "  \t \n \n", "" },
	{ "bye", "bye" },
	{ "one\ntwo\n", "two" },
	{ "one\ntwo\n\n  \n", "two" },
	{ "    indented\n", "    indented" },
	{ "F0000 00:00:1.5 shape.cc:10] Check failed: a == b\n    @  0x7f main\n",
	  "F0000 00:00:1.5 shape.cc:10] Check failed: a == b" },
	{ "E0000 1 x.cc:1] not that\nF1121 10:00:00 y.cc:2] this\nE0000 later\n",
	  "F1121 10:00:00 y.cc:2] this" },
	{ "terminate called after throwing 'std::bad_alloc'\n  what():  std::bad_alloc\n",
	  "  what():  std::bad_alloc" },
	{ "LLVM ERROR: out of memory\nhint\n", "LLVM ERROR: out of memory" },
	{ "prog: x.c:3: f: Assertion `0' failed.\nbye\n", "bye" },
	{ "a line\n*** Check failure stack trace: ***\n    @     0x55 f()\n", "a line" },
	{ "Check failed: one\nCheck failed: two\nsome words\n", "Check failed: two" },
	{ "Unknown flag in XLA_FLAGS: --x\nbye", "Unknown flag in XLA_FLAGS: --x" },
	{ "Fine weather\nbye", "bye" },
	{ "F12\nbye", "bye" },
};

TEST_EACH(the_best_line_explains, last_words)
{
	add(last_words[_i].text);
	pf_plugin_log_end(&plugin_log);
	ck_assert_str_eq(words(0, PF_PLUGIN_LOG_ANY), last_words[_i].words);
}

TEST(with_fatal_only_other_lines_do_not_explain)
{
	add("a line\n");
	ck_assert_str_eq(words(0, PF_PLUGIN_LOG_FATAL), "");
	ck_assert_uint_eq(words_at, UINT64_MAX);
	add("LLVM ERROR of 100 %\nanother\n");
	ck_assert_str_eq(words(0, PF_PLUGIN_LOG_FATAL), "LLVM ERROR of 100 %");
	ck_assert_uint_eq(words_at, 7);
}

TEST(only_lines_since_the_mark_count)
{
	uint64_t mark;

	add("Check failed: before\n");
	mark = pf_plugin_log_mark(&plugin_log);
	ck_assert_str_eq(words(mark, PF_PLUGIN_LOG_ANY), "");
	add("before\nthe words\n\n");
	/* the mark of the words is the last one that has them */
	ck_assert_str_eq(words(mark, PF_PLUGIN_LOG_ANY), "the words");
	ck_assert_uint_eq(words_at, mark + strlen("before\n"));
	ck_assert_str_eq(words(words_at, PF_PLUGIN_LOG_ANY), "the words");
	ck_assert_str_eq(words(words_at + 10, PF_PLUGIN_LOG_ANY), "");
	/* dropped lines explain no death, for any mark */
	add("Check failed: since\n");
	ck_assert_str_eq(words(mark, PF_PLUGIN_LOG_ANY), "Check failed: since");
	add_lines(100000);
	ck_assert_str_eq(words(mark, PF_PLUGIN_LOG_ANY), "line 100000");
}

static void *add_main(void *arg)
{
	(void)arg;
	add_lines(20000);
	return NULL;
}

TEST(threads_quote_the_log_at_once)
{
	pthread_t thread;
	uint64_t mark = 0;

	plugin_log.quiet = true;
	ck_assert_int_eq(pthread_create(&thread, NULL, add_main, NULL), 0);
	for (int i = 0; i < 200; i++) {
		words(mark, PF_PLUGIN_LOG_ANY);
		mark = pf_plugin_log_mark(&plugin_log);
	}
	pthread_join(thread, NULL);
	ck_assert_str_eq(words(0, PF_PLUGIN_LOG_ANY), "line 20000");
}

UNIT_FIXTURE(open_plugin_log, close_plugin_log)
