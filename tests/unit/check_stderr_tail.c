/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker printed last: bounded, printable, and the line that explains. */
#include "engine/internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"

static struct pf_stderr_tail tail;
static struct pf_buf out;
static uint64_t mark; /* since when words() looks */

static void open_tail(void)
{
	mark = 0;
	pf_stderr_tail_init(&tail);
	out = (struct pf_buf)PF_BUF_INIT;
}

static void close_tail(void)
{
	pf_stderr_tail_release(&tail);
	pf_buf_release(&out);
}

static void add(const char *text)
{
	pf_stderr_tail_add(&tail, text, strlen(text));
}

static const char *copy(void)
{
	pf_buf_consume(&out, out.len);
	if (tail.text.len)
		pf_buf_append(&out, tail.text.data, tail.text.len);
	return out.data ? out.data : "";
}

static const char *words(void)
{
	pf_buf_consume(&out, out.len);
	pf_stderr_tail_last_words(&tail, mark, PF_STDERR_TAIL_ANY, &out);
	return out.data ? out.data : "";
}

static const struct {
	const char *plugin_log, *words;
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

START_TEST(the_best_line_explains)
{
	add(last_words[_i].plugin_log);
	ck_assert_str_eq(words(), last_words[_i].words);
}
END_TEST

START_TEST(lines_come_in_pieces)
{
	for (const char *p = "first\nsecond line\n    @ 0x0\n"; *p; p++)
		pf_stderr_tail_add(&tail, p, 1);
	ck_assert_str_eq(words(), "second line");
	ck_assert_str_eq(copy(), "first\nsecond line\n    @ 0x0\n");
}
END_TEST

START_TEST(a_new_instance_has_words_of_its_own)
{
	add("Check failed: in the first life\n");
	mark = pf_stderr_tail_mark(&tail);
	ck_assert_str_eq(words(), "");
	pf_stderr_tail_mark(&tail);
	add("second life\n");
	ck_assert_str_eq(words(), "second life");
	ck_assert_str_eq(copy(), "Check failed: in the first life\nsecond life\n");
}
END_TEST

/* Print N bytes in pieces of EACH, numbered lines of 16. */
static void print_lines(size_t n, size_t each)
{
	char text[1 << 18], line[17];

	ck_assert_uint_le(n, sizeof(text));
	for (size_t i = 0; i < n; i += 16) {
		snprintf(line, sizeof(line), "line %9zu\n ", i / 16);
		memcpy(text + i, line, n - i < 16 ? n - i : 16);
	}
	for (size_t at = 0; at < n; at += each)
		pf_stderr_tail_add(&tail, text + at, n - at < each ? n - at : each);
}

START_TEST(of_the_fatal_ones_alone)
{
	add("a line\n");
	ck_assert_uint_eq(pf_stderr_tail_last_words(&tail, 0, PF_STDERR_TAIL_FATAL, &out),
			  UINT64_MAX);
	ck_assert_uint_eq(out.len, 0);
	add("LLVM ERROR\nanother\n");
	ck_assert_uint_eq(pf_stderr_tail_last_words(&tail, 0, PF_STDERR_TAIL_FATAL, &out),
			  7);
	ck_assert_str_eq(out.data, "LLVM ERROR");
}
END_TEST

/* Where the words begin is the last mark that has them. */
START_TEST(marks_up_to_the_words_have_them)
{
	uint64_t at;

	print_lines(1 << 18, 4096);
	mark = pf_stderr_tail_mark(&tail) - 5; /* in the middle of a line */
	add("\nbefore\nthe words\n\n");
	at = pf_stderr_tail_last_words(&tail, mark, PF_STDERR_TAIL_ANY, &out);
	ck_assert_uint_eq(at, (1 << 18) + strlen("\nbefore\n"));
	mark = at;
	ck_assert_str_eq(words(), "the words");
	mark = at + 1;
	ck_assert_str_eq(words(), "he words");
	mark = pf_stderr_tail_mark(&tail);
	ck_assert_str_eq(words(), "");
}
END_TEST

START_TEST(a_sentence_quotes_them_if_there_are_any)
{
	struct pf_err why = PF_ERR_INIT;

	pf_err_set(&why, -EIO, "it died");
	add("\n");
	ck_assert_uint_eq(pf_stderr_tail_quote(&tail, 0, PF_STDERR_TAIL_ANY, &why),
			  UINT64_MAX);
	ck_assert_str_eq(why.text, "it died");
	add("100 % of it\n");
	pf_stderr_tail_quote(&tail, 0, PF_STDERR_TAIL_ANY, &why);
	ck_assert_str_eq(why.text, "it died; it printed last: 100 % of it");
	ck_assert_int_eq(why.code, -EIO);
}
END_TEST

START_TEST(control_characters_become_spaces)
{
	static const char text[] = "a\0b\x1b[1mc\rd\te\x7f\n\xc3\xa9";

	pf_stderr_tail_add(&tail, text, sizeof(text) - 1);
	ck_assert_str_eq(copy(), "a b [1mc d\te \n\xc3\xa9");
}
END_TEST

static const struct {
	size_t n, each;
} floods[] = {
	{ PF_STDERR_TAIL_BYTES, 1000 },
	{ PF_STDERR_TAIL_BYTES + 16, 16 },
	{ 2 * PF_STDERR_TAIL_BYTES, 4096 },
	{ 2 * PF_STDERR_TAIL_BYTES + 16, 4096 },
	{ 1 << 18, 1 << 18 },
	{ 1 << 18, 7 },
};

START_TEST(only_the_end_is_kept)
{
	size_t n = floods[_i].n;
	char want[17];

	print_lines(n, floods[_i].each);
	snprintf(want, sizeof(want), "line %9zu\n ", n / 16 - 1);
	copy();
	ck_assert_uint_le(out.len, 2 * PF_STDERR_TAIL_BYTES);
	ck_assert_uint_ge(out.len, PF_STDERR_TAIL_BYTES < n ? PF_STDERR_TAIL_BYTES : n);
	ck_assert_int_eq(memcmp(out.data + out.len - 16, want, 16), 0);
}
END_TEST

/* However much is printed, the mark stays where it was, or at the beginning of the rest. */
START_TEST(the_mark_moves_with_the_rest)
{
	print_lines(PF_STDERR_TAIL_BYTES, 1000);
	add("\nCheck failed: of the life before\n");
	mark = pf_stderr_tail_mark(&tail);
	add("Check failed: of this life\n");
	print_lines(PF_STDERR_TAIL_BYTES / 4 * 3, 1000);
	ck_assert_str_eq(words(), "Check failed: of this life");
	print_lines(1 << 17, 1000);
	ck_assert_ptr_null(strstr(words(), "Check"));
	print_lines(1 << 18, 1 << 18);
	ck_assert_uint_gt(strlen(words()), 0);
}
END_TEST

static void *print_main(void *arg)
{
	(void)arg;
	for (int i = 0; i < 2000; i++)
		add("somebody prints a line of some length, and another one\n");
	return NULL;
}

START_TEST(threads_share_it)
{
	pthread_t threads[4];
	struct pf_buf seen = PF_BUF_INIT;
	uint64_t at = 0;

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, print_main, NULL);
	for (int i = 0; i < 200; i++) {
		pf_buf_consume(&seen, seen.len);
		pf_stderr_tail_last_words(&tail, at, PF_STDERR_TAIL_ANY, &seen);
		at = pf_stderr_tail_mark(&tail);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_le(strlen(copy()), 2 * PF_STDERR_TAIL_BYTES);
	pf_buf_release(&seen);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tail");
	TCase *tc = tcase_create("core");

	tcase_add_checked_fixture(tc, open_tail, close_tail);
	unit_add_cases(tc, the_best_line_explains, last_words);
	tcase_add_test(tc, lines_come_in_pieces);
	tcase_add_test(tc, a_new_instance_has_words_of_its_own);
	tcase_add_test(tc, of_the_fatal_ones_alone);
	tcase_add_test(tc, marks_up_to_the_words_have_them);
	tcase_add_test(tc, a_sentence_quotes_them_if_there_are_any);
	tcase_add_test(tc, control_characters_become_spaces);
	unit_add_cases(tc, only_the_end_is_kept, floods);
	tcase_add_test(tc, the_mark_moves_with_the_rest);
	tcase_add_test(tc, threads_share_it);
	suite_add_tcase(s, tc);
	return unit_run(s);
}
