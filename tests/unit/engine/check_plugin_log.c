/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin log: the bounded log, the part in the daemon's log, and the line that explains a death. */
#include "engine/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"

static struct pf_plugin_log plugin_log;
static struct pf_lines_reader reader;
static int said; /* the daemon's log */

static void open_plugin_log(void)
{
	said = memfd_create("said", 0);
	ck_assert_int_ge(said, 0);
	ck_assert_int_eq(dup2(said, STDERR_FILENO), STDERR_FILENO);
	pf_log_setup(PF_LOG_INFO, false);
	ck_assert_int_eq(pf_plugin_log_init(&plugin_log, "test"), 0);
	memset(&reader, 0, sizeof(reader));
}

static void close_plugin_log(void)
{
	pf_lines_reader_release(&reader);
	pf_plugin_log_release(&plugin_log);
	close(said);
}

static void add(const char *text)
{
	pf_plugin_log_add(&plugin_log, text, strlen(text));
}

static void add_lines(unsigned n)
{
	char line[32];

	for (unsigned i = 1; i <= n; i++) {
		snprintf(line, sizeof(line), "line %u\n", i);
		add(line);
	}
}

/* The whole log, as a new reader reads it. */
static const char *log_text(void)
{
	static char text[2 * PF_PLUGIN_LOG_BYTES];
	struct pf_lines_reader first = { 0 };
	size_t n = pf_plugin_log_read(&plugin_log, &first, 0, text, sizeof(text) - 1);

	text[n] = '\0';
	pf_lines_reader_release(&first);
	return text;
}

/* The daemon's log so far, without the process's name. */
static const char *said_text(void)
{
	static char text[1 << 18];
	char raw[1 << 18];
	ssize_t n = pread(said, raw, sizeof(raw) - 1, 0);
	char *line = raw, *save = NULL;

	ck_assert_int_ge(n, 0);
	raw[n] = *text = '\0';
	for (line = strtok_r(raw, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		strcat(text, strchr(line, ':') + 2);
		strcat(text, "\n");
	}
	return text;
}

static unsigned said_lines(void)
{
	unsigned n = 0;

	for (const char *p = said_text(); (p = strchr(p, '\n')); p++)
		n++;
	return n;
}

TEST(lines_come_in_pieces)
{
	for (const char *p = "first\nsecond\n\nthird"; *p; p++)
		pf_plugin_log_add(&plugin_log, p, 1);
	ck_assert_str_eq(log_text(), "first\nsecond\n\n");
	pf_plugin_log_end(&plugin_log);
	ck_assert_str_eq(log_text(), "first\nsecond\n\nthird\n");
	add("a\nb\nc");
	ck_assert_str_eq(log_text(), "first\nsecond\n\nthird\na\nb\n");
}

TEST(control_characters_become_spaces)
{
	static const char text[] = "a\0b\x1b[1mc\rd\te\x7f\n\xc3\xa9\n";

	pf_plugin_log_add(&plugin_log, text, sizeof(text) - 1);
	ck_assert_str_eq(log_text(), "a b [1mc d\te \n\xc3\xa9\n");
}

/* XLA prints it for every program of the cache. */
TEST(a_report_of_tuning_flags_is_dropped)
{
	add("E0000 cpu_aot_loader.cc:195] Loading XLA:CPU AOT result. Target machine feature "
	    "+prefer-no-gather is not  supported on the host machine.\n"
	    "E0000 cpu_aot_loader.cc:195] Loading XLA:CPU AOT result. Target machine feature "
	    "+avx512f is not  supported on the host machine.\n");
	ck_assert_ptr_null(strstr(log_text(), "prefer"));
	ck_assert_ptr_nonnull(strstr(log_text(), "+avx512f"));
}

TEST(a_long_line_becomes_several)
{
	static char line[3 * PF_LINE_MAX];
	const char *text;
	size_t n = 0;

	memset(line, 'x', sizeof(line) - 1);
	add(line);
	add("\n");
	text = log_text();
	for (const char *p = text; *p; p = strchr(p, '\n') + 1) {
		ck_assert_int_le(strchr(p, '\n') + 1 - p, PF_LINE_MAX);
		n += (size_t)(strchr(p, '\n') - p);
	}
	ck_assert_uint_eq(n, sizeof(line) - 1);
}

TEST(only_the_end_is_kept)
{
	add_lines(100000);
	ck_assert_uint_le(strlen(log_text()), PF_PLUGIN_LOG_BYTES + 64);
	ck_assert_uint_ge(strlen(log_text()), PF_PLUGIN_LOG_BYTES / 2);
	ck_assert_ptr_nonnull(strstr(log_text(), "lines were dropped)\n"));
	ck_assert_str_eq(log_text() + strlen(log_text()) - 12, "line 100000\n");
}

static void count(void *arg)
{
	++*(int *)arg;
}

TEST(a_reader_gets_new_lines)
{
	struct timespec time;
	char text[64];
	int calls = 0;

	pf_plugin_log_on_add(&plugin_log, count, &calls);
	ck_assert(!pf_plugin_log_ready(&plugin_log, &reader));
	add("one\ntw");
	ck_assert_int_eq(calls, 1);
	ck_assert(pf_plugin_log_ready(&plugin_log, &reader));
	ck_assert_uint_eq(pf_plugin_log_size(&plugin_log, &reader, &time), 4);
	ck_assert_int_gt(time.tv_sec, 0);
	ck_assert_uint_eq(pf_plugin_log_read(&plugin_log, &reader, 0, text, sizeof(text)),
			  4);
	ck_assert(!pf_plugin_log_ready(&plugin_log, &reader));
	add("o");
	ck_assert_int_eq(calls, 1); /* not a whole line yet */
	add("\n");
	ck_assert_int_eq(calls, 2);
	ck_assert_uint_eq(pf_plugin_log_read(&plugin_log, &reader, 4, text, sizeof(text)),
			  4);
	ck_assert_int_eq(memcmp(text, "two\n", 4), 0);
	pf_plugin_log_on_add(&plugin_log, NULL, NULL);
	add("three\n");
	ck_assert_int_eq(calls, 2);
}

/* The first line that has a known cause, of those since a mark. */
TEST(printed_lines_explain_a_failed_start)
{
	struct pf_err why = PF_ERR_INIT;
	uint64_t mark;

	add("No visible GPU devices.\n");
	mark = pf_plugin_log_mark(&plugin_log);
	add("all is well\n");
	pf_err_set(&why, -EIO, "it failed");
	pf_plugin_log_find_cause(&plugin_log, mark, &why);
	ck_assert_str_eq(why.text, "it failed");
	add("Failed call to cuInit: UNKNOWN ERROR (303)\n");
	pf_plugin_log_find_cause(&plugin_log, mark, &why);
	ck_assert_ptr_nonnull(strstr(why.text, "no NVIDIA driver (libcuda.so.1) here"));
	ck_assert_ptr_nonnull(strstr(why.text, ": it failed"));
}

TEST(a_copy_has_the_lines_that_are_kept)
{
	pf_autobuf struct pf_buf copy = PF_BUF_INIT;

	pf_plugin_log_copy(&plugin_log, &copy);
	ck_assert_uint_eq(copy.len, 0);
	add("one\n\ntwo\nand no whole line");
	pf_plugin_log_copy(&plugin_log, &copy);
	ck_assert_str_eq(copy.data, "one\n\ntwo\n");
	add_lines(100000);
	copy.len = 0;
	pf_plugin_log_copy(&plugin_log, &copy);
	ck_assert_uint_le(copy.len, PF_PLUGIN_LOG_BYTES);
	ck_assert_str_eq(copy.data + copy.len - strlen("line 100000\n"), "line 100000\n");
}

/* Before the tests that serve: a process does so for good. */
TEST(early_lines_wait)
{
	add("early\nbird\n");
	ck_assert_str_eq(said_text(), "");
	ck_assert_str_eq(log_text(), "early\nbird\n");
	ck_assert_int_gt(pf_plugin_log_due_ms(&plugin_log), 0);
	pf_plugin_log_tick(&plugin_log);
	ck_assert_str_eq(said_text(), "");
	pf_log_serve();
	pf_plugin_log_tick(&plugin_log);
	ck_assert_str_eq(said_text(),
			 "info: plugin test: early\ninfo: plugin test: bird\n");
	ck_assert_int_eq(pf_plugin_log_due_ms(&plugin_log), -1);
}

static const struct {
	const char *line, *level;
} levels[] = {
	{ "words\n", "info" },
	{ "I0000 00:00:1.5 a.cc:1] i\n", "info" },
	{ "W1121 10:00:00 a.cc:1] w\n", "warning" },
	{ "E0000 00:00:1.5 a.cc:1] e\n", "error" },
	{ "F0000 00:00:1.5 a.cc:1] f\n", "error" },
	{ "Everything is fine\n", "info" },
	{ "E\n", "info" },
};

TEST_EACH(the_daemons_log_gets_new_lines, levels)
{
	char want[64];

	pf_log_serve();
	add("\n"); /* of which nothing is said */
	add(levels[_i].line);
	snprintf(want, sizeof(want), "%s: plugin test: %s", levels[_i].level,
		 levels[_i].line);
	ck_assert_str_eq(said_text(), want);
	ck_assert_int_eq(pf_plugin_log_due_ms(&plugin_log), -1);
}

TEST(the_daemons_log_gets_a_limited_rate)
{
	pf_log_serve();
	add_lines(100000);
	ck_assert_uint_eq(said_lines(), PF_PLUGIN_LOG_BURST);
	ck_assert_int_gt(pf_plugin_log_due_ms(&plugin_log), 0);
	ck_assert_int_le(pf_plugin_log_due_ms(&plugin_log), PF_PLUGIN_LOG_PERIOD_MS + 1);
	pf_plugin_log_tick(&plugin_log); /* too early */
	ck_assert_uint_eq(said_lines(), PF_PLUGIN_LOG_BURST);
	/* The period has passed without further lines. */
	plugin_log.period_began -= PF_PLUGIN_LOG_PERIOD_MS;
	ck_assert_int_le(pf_plugin_log_due_ms(&plugin_log), 1);
	pf_plugin_log_tick(&plugin_log);
	ck_assert_uint_eq(said_lines(), PF_PLUGIN_LOG_BURST + 1);
	ck_assert_ptr_nonnull(strstr(said_text(),
				     "warning: plugin test: it printed 99900 "
				     "lines more, of which plugins/test/log "
				     "has the last ones\n"));
	ck_assert_int_eq(pf_plugin_log_due_ms(&plugin_log), -1);
	/* and in the next one there is room again. */
	add("again\n");
	ck_assert_uint_eq(said_lines(), PF_PLUGIN_LOG_BURST + 2);
}

TEST(the_end_reports_the_omitted_lines)
{
	add_lines(100000);
	pf_log_serve();
	add("late\nlast words");
	ck_assert_uint_eq(said_lines(), PF_PLUGIN_LOG_BURST);
	pf_plugin_log_end(&plugin_log);
	ck_assert_uint_eq(said_lines(), PF_PLUGIN_LOG_BURST + 1);
	ck_assert_ptr_nonnull(strstr(said_text(), "it printed 99902 lines more"));
	ck_assert_int_eq(pf_plugin_log_due_ms(&plugin_log), -1);
}

TEST(with_quiet_no_line_reaches_the_daemons_log)
{
	plugin_log.quiet = true;
	pf_log_serve();
	add_lines(1000);
	pf_plugin_log_tick(&plugin_log);
	pf_plugin_log_end(&plugin_log);
	ck_assert_str_eq(said_text(), "");
	ck_assert_int_eq(pf_plugin_log_due_ms(&plugin_log), -1);
	ck_assert_ptr_nonnull(strstr(log_text(), "line 1000\n"));
}

/* Standard error is a pipe that no process reads. */
TEST(a_full_pipe_delays_no_reader)
{
	char junk[4096] = "";
	int fds[2];

	pf_log_serve();
	ck_assert_int_eq(pipe2(fds, O_NONBLOCK), 0);
	while (write(fds[1], junk, sizeof(junk)) > 0)
		;
	ck_assert_int_eq(fcntl(fds[1], F_SETFL, 0), 0); /* would block from now on */
	ck_assert_int_eq(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
	add_lines(10);
	pf_plugin_log_end(&plugin_log);
	ck_assert_uint_eq(plugin_log.n_skipped, 10);
	ck_assert_ptr_nonnull(strstr(log_text(), "line 10\n"));
	while (read(fds[0], junk, sizeof(junk)) > 0)
		;
	pf_plugin_log_end(&plugin_log);
	ck_assert_uint_eq(plugin_log.n_skipped, 0);
	ck_assert_int_gt(read(fds[0], junk, sizeof(junk) - 1), 0);
	ck_assert_ptr_nonnull(strstr(junk, "it printed 10 lines more"));
	close(fds[0]);
	close(fds[1]);
}

/* --- the line that explains a death -------------------------------------------------------- */

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
