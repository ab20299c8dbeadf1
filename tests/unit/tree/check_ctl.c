/* SPDX-License-Identifier: Apache-2.0 */
/* Control files: commands in, replies out. */
#include "ctl_fixture.h"
#include "pjrtfs/tree.h"
#include "quoted.h"

static ssize_t put_bytes(struct pf_open *of, const char *text, size_t len)
{
	return write_by(pf_vfs_write, of, text, len, 0);
}

static ssize_t put(struct pf_open *of, const char *text)
{
	return put_bytes(of, text, strlen(text));
}

/* How the reply to a syntax error begins. */
#define EINVAL_LINE "{'ok':false,'error':{'errno':'EINVAL','code':'INVALID_ARGUMENT',"
#define MAX_REPLIES 6

static const struct {
	const char *kind;
	const char *writes[6];
	const char *replies[MAX_REPLIES]; /* of which the first bytes are compared */
} sessions[] = {
	{ "json", { "{}" }, { "{}\n" } },
	{ "json", { "{'a':1}\n" }, { "{'a':1}\n" } },
	{ "json", { " \n\t{} \r\n {} " }, { "{}\n", "{}\n" } },
	{ "json",
	  { "{'a':[1,-2.5e+3,true,null,'}']}" },
	  { "{'a':[1,-2.5e+3,true,null,'}']}\n" } },
	{ "json",
	  { "{'a'", ":", "'b\\", "'\\u00", "e9'", "}" },
	  { "{'a':'b\\'\\u00e9'}\n" } },
	{ "json",
	  { "{'a':1}{'b':2}{'c'", ":3}" },
	  { "{'a':1}\n", "{'b':2}\n", "{'c':3}\n" } },
	{ "json", { "{'a':'fail'}{}" }, { "{'a':'fail'}\n", "{}\n" } },
	/* A newline resynchronises. */
	{ "json", { "{'a' b {}\n{}" }, { EINVAL_LINE, "{}\n" } },
	{ "json", { "rubbish {}", " {}", "\n{}" }, { EINVAL_LINE, "{}\n" } },
	{ "json", { "{'a\n{}" }, { EINVAL_LINE, "{}\n" } },
	{ "json", { "{} x\n{}" }, { "{}\n", EINVAL_LINE, "{}\n" } },
	{ "json", { "{{\n{}" }, { EINVAL_LINE, "{}\n" } },
	{ "json", { "{'a':[1 2\n{}" }, { EINVAL_LINE, "{}\n" } },
	{ "json", { "{'a':[1}\n{}" }, { EINVAL_LINE, "{}\n" } },
	{ "json", { "{'a':tru}\n{}" }, { EINVAL_LINE, "{}\n" } },
	/* Text that is not JSON; check_json has the others. */
	{ "json", { "[]\n" }, { EINVAL_LINE } },
	{ "json", { "{'a':+1}\n" }, { EINVAL_LINE } },
	{ "json", { "{'a':1]\n" }, { EINVAL_LINE } },
	{ "json", { "{'a':'\xff'}" }, { EINVAL_LINE } },
	/* A key given twice, however it is written; the next command is good. */
	{ "json", { "{'a':1,'a':2}{}" }, { EINVAL_LINE, "{}\n" } },
	{ "json", { "{'a':1,'\\u0061':2}" }, { EINVAL_LINE } },
	{ "json", { "{'o':{'x':1,'y':2,'x':3}}" }, { EINVAL_LINE } },
	{ "json",
	  { "{'a':{'a':[{'a':1},{'a':2}]}}" },
	  { "{'a':{'a':[{'a':1},{'a':2}]}}\n" } },
	{ "lines", { "x -> y\n" }, { "x -> y\n" } },
	{ "lines", { "x ", "-> y", "\nz\n\n \t\nw" }, { "x -> y\n", "z\n" } },
	{ "lines", { "{'a\n" }, { "{'a\n" } },
};

TEST_EACH(commands_are_parsed_and_answered_in_order, sessions)
{
	struct pf_open *of = open_file(sessions[_i].kind, O_RDWR);

	for (int i = 0; i < 6 && sessions[_i].writes[i]; i++)
		ck_assert_int_eq(put(of, quoted(sessions[_i].writes[i])),
				 (ssize_t)strlen(sessions[_i].writes[i]));
	for (int i = 0; i < MAX_REPLIES && sessions[_i].replies[i]; i++) {
		const char *want = quoted(sessions[_i].replies[i]);
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

TEST(brackets_may_be_64_deep)
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

TEST_TIMES(a_command_has_a_maximum_length, 2)
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

TEST(many_commands_are_a_short_write)
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

TEST(a_reply_may_be_read_in_pieces)
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

TEST(unread_replies_have_a_limit)
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

/* Halves of commands, of a MiB each, in as many files as it takes. */
TEST(open_files_of_a_user_hold_so_much)
{
	enum { FILES = (PF_OPEN_MAX_HELD >> 20) + 2 };
	struct pf_open *of[FILES], again = { .reopened = true };
	char *text = malloc(1 << 20);
	ssize_t r = 0;
	int n = 0;

	memset(text, 'x', 1 << 20);
	while (n < FILES && r >= 0) {
		of[n] = open_file("lines", O_RDWR);
		r = put_bytes(of[n++], text, 1 << 20);
	}
	ck_assert_int_eq(r, -ENOBUFS);
	ck_assert_int_gt(n, 32);
	free(text);
	/* A restart loses no open file. */
	again.node = of[0]->node;
	again.cred = of[0]->cred;
	ck_assert_int_eq(pf_open_may_hold(&again, NULL), 0);
	again.reopened = false;
	ck_assert_int_eq(pf_open_may_hold(&again, NULL), -ENOBUFS);
	while (n > 1)
		pf_vfs_release(of[--n]);
	ck_assert_int_eq(put(of[0], "\n"), 1);
	pf_vfs_release(of[0]);
}

TEST(write_only_failures_fail_the_write_and_stick)
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

TEST(a_half_command_at_flush)
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

static void put_last(uid_t uid, pid_t sid, const char *line)
{
	struct pf_open *of = open_as("lines", O_WRONLY, uid, sid);

	put(of, line);
	pf_vfs_release(of);
}

TEST(a_last_reply_belongs_to_its_user_and_session)
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

TEST(the_oldest_last_replies_are_dropped)
{
	put_last(1, 1, "one\n");
	put_last(2, 1, "two\n");
	for (int i = 0; i < PF_CONTROL_LAST_REPLIES - 2; i++)
		put_last(10, 10 + i, "more\n");
	expect_last("lines", 1, 1, "one\n"); /* used: two is the oldest now */
	put_last(3, 1, "three\n");
	expect_last("lines", 1, 1, "one\n");
	expect_last("lines", 2, 1, "");
	expect_last("lines", 3, 1, "three\n");
}

TEST(each_open_has_its_own_number)
{
	struct pf_open *of[3];
	struct stat st;
	uint64_t number[3];

	ck_assert_int_eq(pf_vfs_lookup(tree, 1, "lines", &st), 0);
	for (int i = 0; i < 3; i++) {
		number[i] = pf_vfs_alias(tree, st.st_ino, 1);
		ck_assert_uint_eq(pf_vfs_alias(tree, number[i], 1), number[i]);
		for (int j = 0; j < i; j++)
			ck_assert_uint_ne(number[i], number[j]);
		ck_assert_int_eq(open_by(tree, number[i], O_RDWR, &god, &of[i]), 0);
	}
	pf_vfs_release(of[2]);
	ck_assert_uint_eq(pf_vfs_alias(tree, st.st_ino, 1), number[2]);
	pf_vfs_release(of[0]);
	pf_vfs_release(of[1]);
	ck_assert_int_eq(pf_vfs_getattr(tree, number[1], &god, NULL, &st), 0);
	ck_assert_uint_lt(st.st_ino, 10);
	pf_vfs_forget(tree, number[1], 1);
	ck_assert_uint_eq(pf_vfs_alias(tree, 1, 1), 1);
}

/* It has no size, so nothing can be mapped; closing commits nothing. */
TEST(a_stream_has_no_size_and_no_pages)
{
	struct pf_open *of = open_file("lines", O_RDWR | O_TRUNC);
	struct stat st = { .st_size = 100 }, got;

	ck_assert_uint_eq(pf_vfs_keeps(tree, of->node->ino) & PF_KEEP_NAME, 0);
	ck_assert_int_eq(pf_vfs_setattr(tree, of->node->ino, &st, PF_SET_SIZE, of, &god,
					&got),
			 0);
	ck_assert_int_eq(got.st_size, 0);
	ck_assert_int_eq(write_by(pf_vfs_write_mapped, of, "x", 1, 0), -EIO);
	ck_assert_int_eq(pf_vfs_copy(of, 0, of, 0, 10), -EXDEV);
	ck_assert_int_eq(pf_vfs_allocate(of, 0, 0, 10), -EOPNOTSUPP);
	ck_assert_int_eq(flush(of), 0);
	pf_vfs_release(of);
}

/* Several that looked the name up before the first of them opened it, too. */
TEST(each_caller_has_its_own_number)
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

UNIT_FIXTURE(setup, teardown)
