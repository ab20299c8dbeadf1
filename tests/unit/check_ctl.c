/* Control files: commands in, replies out. */
#include <stdio.h>
#include <unistd.h>

#include "pjrtfs/tree/ctl.h"
#include "pjrtfs/tree/vfs.h"
#include "unit.h"
#include "vfs_driver.h"

static struct pf_tree *tree;
static int ran;

/* The command's own text is its reply; one that holds "fail" fails with ENOENT. */
static void run_now(struct pf_command *command)
{
	int code = strstr(command->text, "fail") ? -ENOENT : 0;

	ran++;
	ck_assert_uint_eq(strlen(command->text), command->len);
	pf_command_done(command, code, command->text, command->len);
}

/* Commands that the test finishes. */
static struct pf_command *running;

static void run_later(struct pf_command *command)
{
	ran++;
	ck_assert_ptr_null(running);
	running = command;
}

static void finish(int code, const char *line)
{
	struct pf_command *command = running;

	ck_assert_ptr_nonnull(command);
	running = NULL;
	pf_command_done(command, code, line, strlen(line));
}

static const struct pf_kind json = {
	.name = "json", .mode = S_IFREG | 0666, .command = run_now, .json = true
};
static const struct pf_kind lines = { .name = "lines",
				      .mode = S_IFREG | 0666,
				      .command = run_now };
static const struct pf_kind later = { .name = "later",
				      .mode = S_IFREG | 0666,
				      .command = run_later };
/* Commands that another thread finishes soon. */
static int under_way;

static void *finish_soon(void *arg)
{
	struct pf_command *command = arg;
	bool cancelled = pf_command_cancelled(command);

	pf_command_done(command, cancelled ? -ECANCELED : 0, command->text, command->len);
	__atomic_sub_fetch(&under_way, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void run_aside(struct pf_command *command)
{
	pthread_attr_t attr;
	pthread_t thread;

	__atomic_add_fetch(&under_way, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&ran, 1, __ATOMIC_SEQ_CST);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, finish_soon, command))
		finish_soon(command);
	pthread_attr_destroy(&attr);
}

static const struct pf_kind aside = { .name = "aside",
				      .mode = S_IFREG | 0666,
				      .command = run_aside };
static const struct pf_kind root = {
	.mode = S_IFDIR | 0755,
	.children =
		(const struct pf_kind *const[]){ &json, &lines, &later, &aside, NULL },
};

static void setup(void)
{
	ran = 0;
	running = NULL;
	tree = pf_tree_new(&root, NULL, 0, 0);
	ck_assert_ptr_nonnull(tree);
}

static void teardown(void)
{
	/* The root, and what is listed: no open is left, nothing leaks. */
	ck_assert_uint_eq(pf_tree_count(tree), 5);
	pf_tree_free(tree);
}

static struct pf_open *open_as(const char *name, int flags, uid_t uid, pid_t sid)
{
	struct pf_cred cred = { .uid = uid, .sid = sid };
	struct pf_open *of = NULL;
	struct answer a;
	struct stat st;

	ck_assert_int_eq(pf_vfs_lookup(tree, 1, name, &st), 0);
	pf_vfs_open(tree, st.st_ino, flags, &cred, &of, answer_begin(&a));
	ck_assert_int_eq(answer_wait(&a), 0);
	answer_end(&a);
	pf_vfs_forget(tree, st.st_ino, 1);
	ck_assert_ptr_nonnull(of);
	return of;
}

static struct pf_open *open_file(const char *name, int flags)
{
	return open_as(name, flags, 1, 1);
}

static ssize_t put_bytes(struct pf_open *of, const char *text, size_t len)
{
	return write_by(pf_vfs_write, of, text, len, 0);
}

static ssize_t put(struct pf_open *of, const char *text)
{
	return put_bytes(of, text, strlen(text));
}

static void expect_read(struct pf_open *of, size_t len, const char *want)
{
	struct answer a;

	pf_vfs_read(of, len, 0, answer_begin(&a));
	ck_assert_int_eq(answer_wait(&a), (ssize_t)strlen(want));
	ck_assert_str_eq(a.data.data ? a.data.data : "", want);
	answer_end(&a);
}

static void expect_line(struct pf_open *of, const char *want)
{
	char line[4096];

	snprintf(line, sizeof(line), "%s\n", want);
	expect_read(of, 65536, line);
}

/* How the reply to a syntax error begins. */
#define EINVAL_LINE                                                                      \
	"{\"ok\":false,\"error\":{\"errno\":\"EINVAL\",\"code\":\"INVALID_ARGUMENT\","
#define MAX_REPLIES 6

static const struct {
	const char *kind;
	const char *writes[6];
	const char *replies[MAX_REPLIES]; /* of which the first bytes are compared */
} sessions[] = {
	{ "json", { "{}" }, { "{}\n" } },
	{ "json", { "{\"a\":1}\n" }, { "{\"a\":1}\n" } },
	{ "json", { " \n\t{} \r\n {} " }, { "{}\n", "{}\n" } },
	{ "json",
	  { "{\"a\":[1,-2.5e+3,true,null,\"}\"]}" },
	  { "{\"a\":[1,-2.5e+3,true,null,\"}\"]}\n" } },
	{ "json",
	  { "{\"a\"", ":", "\"b\\", "\"\\u00", "e9\"", "}" },
	  { "{\"a\":\"b\\\"\\u00e9\"}\n" } },
	{ "json",
	  { "{\"a\":1}{\"b\":2}{\"c\"", ":3}" },
	  { "{\"a\":1}\n", "{\"b\":2}\n", "{\"c\":3}\n" } },
	{ "json", { "{\"a\":\"fail\"}{}" }, { "{\"a\":\"fail\"}\n", "{}\n" } },
	/* A newline resynchronises. */
	{ "json", { "{\"a\" b {}\n{}" }, { EINVAL_LINE, "{}\n" } },
	{ "json", { "rubbish {}", " {}", "\n{}" }, { EINVAL_LINE, "{}\n" } },
	{ "json", { "{\"a\n{}" }, { EINVAL_LINE, "{}\n" } },
	{ "json", { "{} x\n{}" }, { "{}\n", EINVAL_LINE, "{}\n" } },
	/* What is no JSON, or worse. */
	{ "json", { "[]\n" }, { EINVAL_LINE } },
	{ "json", { "{\"a\":01}\n" }, { EINVAL_LINE } },
	{ "json", { "{\"a\":1,}\n" }, { EINVAL_LINE } },
	{ "json", { "{\"a\":+1}\n" }, { EINVAL_LINE } },
	{ "json", { "{\"a\":nul}\n" }, { EINVAL_LINE } },
	{ "json", { "{\"a\":'b'}\n" }, { EINVAL_LINE } },
	{ "json", { "{a:1}\n" }, { EINVAL_LINE } },
	{ "json", { "{\"a\":1]\n" }, { EINVAL_LINE } },
	{ "json", { "{\"a\":\"\\x\"}\n" }, { EINVAL_LINE } },
	{ "json", { "{\"a\":\"\\u0000\"}\n" }, { EINVAL_LINE } },
	{ "json", { "{\"a\":\"\xff\"}" }, { EINVAL_LINE } },
	/* A key given twice, however it is written; the next command is good. */
	{ "json", { "{\"a\":1,\"a\":2}{}" }, { EINVAL_LINE, "{}\n" } },
	{ "json", { "{\"a\":1,\"\\u0061\":2}" }, { EINVAL_LINE } },
	{ "json", { "{\"o\":{\"x\":1,\"y\":2,\"x\":3}}" }, { EINVAL_LINE } },
	{ "json",
	  { "{\"a\":{\"a\":[{\"a\":1},{\"a\":2}]}}" },
	  { "{\"a\":{\"a\":[{\"a\":1},{\"a\":2}]}}\n" } },
	{ "lines", { "x -> y\n" }, { "x -> y\n" } },
	{ "lines", { "x ", "-> y", "\nz\n\n \t\nw" }, { "x -> y\n", "z\n" } },
	{ "lines", { "{\"a\n" }, { "{\"a\n" } },
};

START_TEST(commands_are_cut_and_answered_in_order)
{
	struct pf_open *of = open_file(sessions[_i].kind, O_RDWR);

	for (int i = 0; i < 6 && sessions[_i].writes[i]; i++)
		ck_assert_int_eq(put(of, sessions[_i].writes[i]),
				 (ssize_t)strlen(sessions[_i].writes[i]));
	for (int i = 0; i < MAX_REPLIES && sessions[_i].replies[i]; i++) {
		const char *want = sessions[_i].replies[i];
		struct answer a;

		pf_vfs_read(of, 65536, 99, answer_begin(&a));
		ck_assert_int_gt(answer_wait(&a), 0);
		ck_assert_int_eq(a.data.data[a.data.len - 1], '\n');
		if (strlen(want) < a.data.len)
			a.data.data[strlen(want)] = '\0';
		ck_assert_str_eq(a.data.data, want);
		answer_end(&a);
	}
	expect_read(of, 100, "");
	pf_vfs_release(of);
}
END_TEST

START_TEST(brackets_may_be_64_deep)
{
	struct pf_open *of = open_file("json", O_RDWR);
	struct pf_buf text = PF_BUF_INIT;

	for (int extra = 0; extra < 2; extra++) {
		text.len = 0;
		pf_buf_puts(&text, "{\"a\":");
		for (int i = 0; i < 63 + extra; i++)
			pf_buf_puts(&text, "[");
		for (int i = 0; i < 63 + extra; i++)
			pf_buf_puts(&text, "]");
		pf_buf_puts(&text, "}\n");
		ran = 0;
		ck_assert_int_eq(put_bytes(of, text.data, text.len), (ssize_t)text.len);
		ck_assert_int_eq(ran, !extra);
	}
	pf_buf_release(&text);
	pf_vfs_release(of);
}
END_TEST

START_TEST(a_command_has_an_end)
{
	enum { CHUNK = 300000 };
	struct pf_open *of = open_file(_i ? "json" : "lines", O_RDWR);
	char *text = malloc(CHUNK);

	memset(text, 'x', CHUNK);
	if (_i)
		ck_assert_int_eq(put(of, "{\"a\":\""), 6);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(put_bytes(of, text, CHUNK), CHUNK);
	ck_assert_int_eq(ran, 0);
	ck_assert_int_eq(put(of, _i ? "xx\"}\n{}" : "xx\nok\n"), _i ? 7 : 6);
	expect_read(of, 35, "{\"ok\":false,\"error\":{\"errno\":\"E2BIG");
	ck_assert_int_eq(ran, 1);
	free(text);
	pf_vfs_release(of);
}
END_TEST

START_TEST(many_commands_are_a_short_write)
{
	struct pf_open *of = open_file("json", O_RDWR);
	struct pf_buf text = PF_BUF_INIT;
	size_t off = 0;

	for (int i = 0; i < 5000; i++)
		pf_buf_puts(&text, "{} ");
	while (off < text.len) {
		ssize_t n = put_bytes(of, text.data + off, text.len - off);

		ck_assert_int_gt(n, 0);
		off += (size_t)n;
	}
	ck_assert_int_eq(ran, 5000);
	for (int i = 0; i < 5000; i++)
		expect_line(of, "{}");
	expect_read(of, 100, "");
	pf_buf_release(&text);
	pf_vfs_release(of);
}
END_TEST

START_TEST(a_reply_may_be_read_in_pieces)
{
	struct pf_open *of = open_file("lines", O_RDWR);

	put(of, "abc\nd\n");
	expect_read(of, 2, "ab");
	expect_read(of, 9, "c\n");
	expect_read(of, 1, "d");
	expect_read(of, 9, "\n");
	expect_read(of, 9, "");
	pf_vfs_release(of);
}
END_TEST

START_TEST(replies_that_nobody_reads_have_a_limit)
{
	struct pf_open *of = open_file("lines", O_RDWR);
	char *text = malloc(1 << 20);
	ssize_t n = 0;
	int i;

	memset(text, 'x', 1 << 20);
	text[(1 << 20) - 1] = '\n';
	for (i = 0; i < 20 && n >= 0; i++)
		n = put_bytes(of, text, 1 << 20);
	ck_assert_int_eq(n, -ENOBUFS);
	ck_assert_int_lt(i, 12);
	free(text);
	pf_vfs_release(of);
}
END_TEST

START_TEST(write_only_failures_fail_the_write_and_stick)
{
	struct pf_open *of = open_file("lines", O_WRONLY);

	ck_assert_int_eq(put(of, "one\ntwo\n"), 8);
	ck_assert_int_eq(put(of, "three\nfail\nfour\n"), -ENOENT);
	ck_assert_int_eq(ran, 4);
	ck_assert_int_eq(put(of, "three\nfail\nfour\n"), -ENOENT);
	ck_assert_int_eq(put(of, "five\n"), -ENOENT);
	ck_assert_int_eq(ran, 4);
	ck_assert_int_eq(flush(of), 0);
	pf_vfs_release(of);

	of = open_file("json", O_WRONLY);
	ck_assert_int_eq(put(of, "{\"a\":}\n"), -EINVAL);
	pf_vfs_release(of);
}
END_TEST

START_TEST(a_half_command_at_flush)
{
	struct pf_open *of = open_file("json", O_WRONLY);

	ck_assert_int_eq(put(of, "{\"a\""), 4);
	ck_assert_int_eq(flush(of), -EINVAL);
	ck_assert_int_eq(put(of, ":1}"), 3);
	ck_assert_int_eq(flush(of), 0);
	ck_assert_int_eq(ran, 1);
	put(of, "{\"a\"");
	pf_vfs_release(of);

	of = open_file("lines", O_WRONLY);
	ck_assert_int_eq(put(of, "first"), 5);
	ck_assert_int_eq(ran, 1);
	ck_assert_int_eq(flush(of), 0);
	ck_assert_int_eq(ran, 2);
	ck_assert_int_eq(flush(of), 0);
	ck_assert_int_eq(put(of, "fail"), 4);
	ck_assert_int_eq(flush(of), -ENOENT);
	ck_assert_int_eq(ran, 3);
	pf_vfs_release(of);
}
END_TEST

static void expect_last(const char *name, uid_t uid, pid_t sid, const char *want)
{
	struct pf_open *of = open_as(name, O_RDONLY, uid, sid);

	expect_read(of, 4096, want);
	expect_read(of, 4096, "");
	pf_vfs_release(of);
}

static void put_last(uid_t uid, pid_t sid, const char *line)
{
	struct pf_open *of = open_as("lines", O_WRONLY, uid, sid);

	put(of, line);
	pf_vfs_release(of);
}

START_TEST(the_last_reply_is_the_users_and_the_sessions)
{
	put_last(1, 100, "a\nb\n");
	put_last(1, 200, "c\n");
	put_last(2, 100, "d\n");
	put_last(3, PF_SID_UNKNOWN, "e\n");
	put_last(3, 0, "g\n"); /* its leader is outside our PID namespace */
	put_last(4, 100, "fail\nf\n");
	expect_last("lines", 1, 100, "b\n");
	expect_last("lines", 1, 200, "c\n");
	expect_last("lines", 2, 100, "d\n");
	expect_last("lines", 3, PF_SID_UNKNOWN, "");
	expect_last("lines", 3, 0, "g\n");
	expect_last("lines", 4, 100, "fail\n");
	expect_last("lines", 5, 100, "");
	expect_last("json", 1, 100, "");
}
END_TEST

START_TEST(only_so_many_last_replies_are_kept)
{
	put_last(1, 1, "one\n");
	put_last(2, 1, "two\n");
	for (int i = 0; i < PF_CTL_LAST_REPLIES - 2; i++)
		put_last(10, 10 + i, "more\n");
	expect_last("lines", 1, 1, "one\n"); /* used: two is the oldest now */
	put_last(3, 1, "three\n");
	expect_last("lines", 1, 1, "one\n");
	expect_last("lines", 2, 1, "");
	expect_last("lines", 3, 1, "three\n");
}
END_TEST

START_TEST(a_write_and_a_read_wait)
{
	struct pf_open *of = open_file("later", O_RDWR);
	struct answer w, r1, r2;

	pf_vfs_write(of, "a\nb\n", 4, 0, answer_begin(&w));
	ck_assert(!answer_is_sent(&w));
	ck_assert_str_eq(running->text, "a");
	pf_vfs_read(of, 100, 0, answer_begin(&r1));
	pf_vfs_read(of, 100, 0, answer_begin(&r2));
	ck_assert(!answer_is_sent(&r1));
	finish(0, "A");
	ck_assert_int_eq(answer_wait(&r1), 2);
	ck_assert(!answer_is_sent(&w) && !answer_is_sent(&r2));
	ck_assert_str_eq(running->text, "b");
	finish(-EIO, "B");
	ck_assert_int_eq(answer_wait(&w), 4);
	ck_assert_int_eq(answer_wait(&r2), 2);
	ck_assert_str_eq(r2.data.data, "B\n");
	answer_end(&w);
	answer_end(&r1);
	answer_end(&r2);
	pf_vfs_release(of);
}
END_TEST

START_TEST(nonblocking_reads_do_not_wait)
{
	struct pf_open *of = open_file("later", O_RDWR | O_NONBLOCK);
	struct answer w, r;

	pf_vfs_write(of, "a\n", 2, 0, answer_begin(&w));
	pf_vfs_read(of, 100, 0, answer_begin(&r));
	ck_assert_int_eq(answer_wait(&r), -EAGAIN);
	finish(0, "A");
	ck_assert_int_eq(answer_wait(&w), 2);
	answer_end(&w);
	answer_end(&r);
	expect_line(of, "A");
	pf_vfs_release(of);
}
END_TEST

/* What a front end does: it keeps a reference while it hears interrupts. */
static struct pf_reply *begin_held(struct answer *a)
{
	return pf_reply_ref(answer_begin(a));
}

static void interrupt(struct answer *a)
{
	pf_reply_interrupt(&a->reply);
	pf_reply_unref(&a->reply);
}

/* It is told what has begun, so that who writes the rest has all done once. */
START_TEST(an_interrupted_write_drops_what_has_not_begun)
{
	struct pf_open *of = open_file("later", O_RDWR);
	struct answer w, r;

	pf_vfs_write(of, "a\nb\nc", 5, 0, begin_held(&w));
	pf_vfs_read(of, 100, 0, answer_begin(&r));
	interrupt(&w);
	ck_assert_int_eq(answer_wait(&w), 2);
	ck_assert(!pf_command_cancelled(running));
	ck_assert(!answer_is_sent(&r));
	finish(0, "A");
	ck_assert_int_eq(answer_wait(&r), 2);
	ck_assert_ptr_null(running);
	ck_assert_int_eq(ran, 1);
	answer_end(&w);
	answer_end(&r);

	/* The session goes on, without the c that came with it. */
	pf_vfs_write(of, "d\n", 2, 0, answer_begin(&w));
	ck_assert_str_eq(running->text, "d");
	finish(0, "D");
	ck_assert_int_eq(answer_wait(&w), 2);
	answer_end(&w);
	pf_vfs_release(of);
}
END_TEST

START_TEST(an_interrupted_write_that_has_all_begun_is_whole)
{
	struct pf_open *of = open_file("later", O_RDWR);
	struct answer w, other;

	/* The beginning of what comes next is taken, too. */
	pf_vfs_write(of, "a\nb", 3, 0, begin_held(&w));
	interrupt(&w);
	ck_assert_int_eq(answer_wait(&w), 3);
	answer_end(&w);
	/* Nothing of the next one has begun: all of it may be written again. */
	pf_vfs_write(of, "c\nd\n", 4, 0, begin_held(&other));
	interrupt(&other);
	ck_assert_int_eq(answer_wait(&other), -EINTR);
	answer_end(&other);
	finish(0, "A");
	ck_assert_ptr_null(running);
	ck_assert_int_eq(ran, 1);
	pf_vfs_release(of);
}
END_TEST

START_TEST(an_interrupted_read_loses_no_reply)
{
	struct pf_open *of = open_file("later", O_RDWR);
	struct answer w, r1, r2;

	pf_vfs_write(of, "a\n", 2, 0, answer_begin(&w));
	pf_vfs_read(of, 100, 0, begin_held(&r1));
	pf_vfs_read(of, 100, 0, answer_begin(&r2));
	interrupt(&r1);
	ck_assert_int_eq(answer_wait(&r1), -EINTR);
	finish(0, "A");
	ck_assert_int_eq(answer_wait(&r2), 2);
	ck_assert_int_eq(answer_wait(&w), 2);
	answer_end(&w);
	answer_end(&r1);
	answer_end(&r2);
	pf_vfs_release(of);
}
END_TEST

START_TEST(a_request_interrupted_before_it_came_does_nothing)
{
	struct pf_open *of = open_file("later", O_RDWR);
	struct answer w;
	struct pf_reply *reply = begin_held(&w);

	pf_reply_interrupt(reply);
	pf_vfs_write(of, "a\n", 2, 0, reply);
	pf_reply_unref(reply);
	ck_assert_int_eq(answer_wait(&w), -EINTR);
	ck_assert_int_eq(ran, 0);
	answer_end(&w);
	pf_vfs_release(of);
}
END_TEST

START_TEST(a_released_session_lives_until_its_command_is_done)
{
	struct pf_open *of = open_file("later", O_WRONLY);
	struct answer w;

	pf_vfs_write(of, "a\nb\n", 4, 0, begin_held(&w));
	interrupt(&w);
	ck_assert_int_eq(answer_wait(&w), 2);
	ck_assert(!pf_command_cancelled(running));
	pf_vfs_release(of);
	ck_assert(pf_command_cancelled(running));
	finish(0, "A");
	ck_assert_int_eq(ran, 1);
	answer_end(&w);
	expect_last("later", 1, 1, "A\n");
}
END_TEST

START_TEST(two_writers_of_one_open_take_turns)
{
	struct pf_open *of = open_file("later", O_WRONLY);
	struct answer w1, w2;

	pf_vfs_write(of, "a\n", 2, 0, answer_begin(&w1));
	pf_vfs_write(of, "b\n", 2, 0, answer_begin(&w2));
	ck_assert_str_eq(running->text, "a");
	finish(-EIO, "A");
	ck_assert_int_eq(answer_wait(&w1), -EIO);
	ck_assert_int_eq(answer_wait(&w2), -EIO);
	ck_assert_int_eq(ran, 1);
	answer_end(&w1);
	answer_end(&w2);
	pf_vfs_release(of);
}
END_TEST

START_TEST(opens_have_numbers_of_their_own)
{
	struct pf_open *of[3];
	struct stat st;
	uint64_t number[3];

	ck_assert_int_eq(pf_vfs_lookup(tree, 1, "lines", &st), 0);
	for (int i = 0; i < 3; i++) {
		struct pf_cred cred = { 0 };
		struct answer a;

		number[i] = pf_vfs_alias(tree, st.st_ino, 1);
		ck_assert_uint_eq(pf_vfs_alias(tree, number[i], 1), number[i]);
		for (int j = 0; j < i; j++)
			ck_assert_uint_ne(number[i], number[j]);
		pf_vfs_open(tree, number[i], O_RDWR, &cred, &of[i], answer_begin(&a));
		ck_assert_int_eq(answer_wait(&a), 0);
		answer_end(&a);
	}
	pf_vfs_release(of[2]);
	ck_assert_uint_eq(pf_vfs_alias(tree, st.st_ino, 1), number[2]);
	pf_vfs_release(of[0]);
	pf_vfs_release(of[1]);
	ck_assert_int_eq(pf_vfs_getattr(tree, number[1], &st), 0);
	ck_assert_uint_lt(st.st_ino, 10);
	pf_vfs_forget(tree, number[1], 1);
	ck_assert_uint_eq(pf_vfs_alias(tree, 1, 1), 1);
}
END_TEST

/* Several that looked the name up before the first of them opened it, too. */
START_TEST(askers_have_numbers_of_their_own)
{
	static const pid_t asker[] = { 7, 8, 7, 0, 0, 9 };
	uint64_t number[6];
	struct stat st;

	ck_assert_int_eq(pf_vfs_lookup(tree, 1, "lines", &st), 0);
	for (int i = 0; i < 6; i++) {
		number[i] = pf_vfs_alias(tree, st.st_ino, asker[i]);
		for (int j = 0; j < i; j++)
			ck_assert_uint_ne(number[i], number[j]);
	}
	pf_vfs_forget(tree, st.st_ino, 1);
}
END_TEST

static struct pf_open *shared;
static int taken; /* commands that writers were told were taken */

/* Some use a session that is shared, some their own; some writes and reads are interrupted. */
static void *stress(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;

	for (int i = 0; i < 500; i++) {
		struct pf_open *of =
			rand_r(&seed) % 2 ? shared : open_file("aside", O_RDWR);
		struct answer w, r;

		pf_vfs_write(of, "a\nb\nc\n", 6, 0, begin_held(&w));
		pf_vfs_read(of, 100, 0, begin_held(&r));
		if (rand_r(&seed) % 4 == 0)
			interrupt(&w);
		else
			pf_reply_unref(&w.reply);
		if (rand_r(&seed) % 4 == 0)
			interrupt(&r);
		else
			pf_reply_unref(&r.reply);
		ck_assert(answer_wait(&w) > 0 || w.code == -EINTR || w.code == -ENOBUFS);
		if (w.code == 0)
			__atomic_add_fetch(&taken, answer_wait(&w) / 2, __ATOMIC_SEQ_CST);
		ck_assert(answer_wait(&r) <= 2);
		ck_assert_int_eq(w.sent + r.sent, 2);
		answer_end(&w);
		answer_end(&r);
		if (of != shared)
			pf_vfs_release(of);
	}
	return NULL;
}

START_TEST(many_at_once)
{
	pthread_t threads[4];

	shared = open_file("aside", O_RDWR);
	for (uintptr_t i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, stress,
						(void *)(i + 1)),
				 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	pf_vfs_release(shared);
	/* Commands of interrupted writes may be under way still; teardown counts nodes only. */
	while (__atomic_load_n(&under_way, __ATOMIC_SEQ_CST))
		usleep(1000);
	ck_assert_int_eq(__atomic_load_n(&ran, __ATOMIC_SEQ_CST), taken);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ctl");
	TCase *tc = tcase_create("core");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	unit_add_cases(tc, commands_are_cut_and_answered_in_order, sessions);
	tcase_add_test(tc, brackets_may_be_64_deep);
	tcase_add_loop_test(tc, a_command_has_an_end, 0, 2);
	tcase_add_test(tc, many_commands_are_a_short_write);
	tcase_add_test(tc, a_reply_may_be_read_in_pieces);
	tcase_add_test(tc, replies_that_nobody_reads_have_a_limit);
	tcase_add_test(tc, write_only_failures_fail_the_write_and_stick);
	tcase_add_test(tc, a_half_command_at_flush);
	tcase_add_test(tc, the_last_reply_is_the_users_and_the_sessions);
	tcase_add_test(tc, only_so_many_last_replies_are_kept);
	tcase_add_test(tc, a_write_and_a_read_wait);
	tcase_add_test(tc, nonblocking_reads_do_not_wait);
	tcase_add_test(tc, an_interrupted_write_drops_what_has_not_begun);
	tcase_add_test(tc, an_interrupted_write_that_has_all_begun_is_whole);
	tcase_add_test(tc, an_interrupted_read_loses_no_reply);
	tcase_add_test(tc, a_request_interrupted_before_it_came_does_nothing);
	tcase_add_test(tc, a_released_session_lives_until_its_command_is_done);
	tcase_add_test(tc, two_writers_of_one_open_take_turns);
	tcase_add_test(tc, opens_have_numbers_of_their_own);
	tcase_add_test(tc, askers_have_numbers_of_their_own);
	tcase_add_test(tc, many_at_once);
	suite_add_tcase(s, tc);
	return unit_run(s);
}
