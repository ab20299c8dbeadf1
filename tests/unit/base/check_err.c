/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: their text is one line of UTF-8, from any input. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "pjrtfs/base.h"
#include "pjrtfs/stage.h"
#include "unit.h"

static const struct {
	const char *in, *want;
} cleans[] = {
	{ "", "" },
	{ "plain", "plain" },
	{ "two\nlines\r\n", "two lines" },
	{ "tab\there\x1b[31m\x7f", "tab here [31m" },
	{ "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
	  "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80" },
	{ "\xc2\x85next\xe2\x80\xa8line", " next line" },
	{ "\xff\xfe", "??" },
	{ "\xc0\xaf", "??" },                       /* overlong '/' */
	{ "\xe0\x80\xaf", "???" },                  /* overlong, three bytes */
	{ "\xf0\x80\x80\xaf", "????" },             /* overlong, four bytes */
	{ "\xed\xa0\x80", "???" },                  /* a surrogate */
	{ "\xf4\x90\x80\x80", "????" },             /* beyond U+10FFFF */
	{ "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf" }, /* the last code point */
	{ "\xc3", "?" },                            /* cut in two */
	{ "\xc3(", "?(" },
	{ "\xe2\x82", "??" },
	{ "a\x80z", "a?z" },
};

TEST_EACH(text_is_one_line_of_utf8, cleans)
{
	struct pf_err err = PF_ERR_INIT;

	ck_assert_int_eq(pf_err_set(&err, -EINVAL, "%s", cleans[_i].in), -EINVAL);
	ck_assert_int_eq(err.code, -EINVAL);
	ck_assert_int_eq(err.pjrt_code, -1);
	ck_assert_str_eq(err.text, cleans[_i].want);
	/* As a prefix, too. */
	pf_err_set(&err, -EINVAL, "why");
	pf_err_wrap(&err, -EINVAL, "%s", cleans[_i].in);
	ck_assert_uint_eq(strlen(err.text), strlen(cleans[_i].want) + 5);
	ck_assert(strncmp(err.text, cleans[_i].want, strlen(cleans[_i].want)) == 0);
}

static const struct {
	const char *in, *want;
} messages[] = {
	{ "", "" },
	{ "plain", "plain" },
	{ "two\nlines\r\n", "two\nlines" },
	{ "\nwith\n\n  room\x1b[1m\n \n\n", "\nwith\n\n  room [1m" },
	{ "\xff\ncut \xc3", "?\ncut ?" },
};

/* A plugin's message keeps its lines, also behind a prefix, which is one line. */
TEST_EACH(a_message_keeps_its_lines, messages)
{
	struct pf_err err = PF_ERR_INIT;
	char want[64];

	err.pjrt_code = 3;
	ck_assert_int_eq(pf_err_set_lines(&err, -EIO, messages[_i].in,
					  strlen(messages[_i].in)),
			 -EIO);
	ck_assert_int_eq(err.code, -EIO);
	ck_assert_int_eq(err.pjrt_code, -1);
	ck_assert_str_eq(err.text, messages[_i].want);
	err.pjrt_code = 3;
	ck_assert_int_eq(pf_err_wrap(&err, -EIO, "of\n%s", "it"), -EIO);
	ck_assert_int_eq(err.code, -EIO);
	ck_assert_int_eq(err.pjrt_code, 3);
	snprintf(want, sizeof(want), "of it: %s", messages[_i].want);
	ck_assert_str_eq(err.text, want);
	err.text[pf_err_clean(err.text, strlen(err.text))] = '\0';
	ck_assert_ptr_null(strchr(err.text, '\n'));
	ck_assert_int_eq(pf_err_set_lines(NULL, -EIO, "lost", 4), -EIO);
	ck_assert_int_eq(pf_err_set_lines(&err, -EIO, NULL, 0), -EIO);
	ck_assert_str_eq(err.text, "");
}

TEST(arguments_may_be_the_old_text)
{
	struct pf_err err = PF_ERR_INIT;

	pf_err_set(&err, -EIO, "inner");
	pf_err_set(&err, -EINVAL, "outer (%s)", err.text);
	ck_assert_str_eq(err.text, "outer (inner)");
	pf_err_wrap(&err, -EINVAL, "%s", err.text);
	ck_assert_str_eq(err.text, "outer (inner): outer (inner)");
}

TEST(null_err_is_allowed)
{
	ck_assert_int_eq(pf_err_set(NULL, -EIO, "lost"), -EIO);
	ck_assert_int_eq(pf_err_wrap(NULL, -EIO, "lost"), -EIO);
}

static const struct {
	enum pf_stage stage;
	int code, pjrt_code;
	const char *want;
} stood[] = {
	{ PF_STAGE_RUNNING, -EIO, -1, "while running: why" },
	{ PF_STAGE_UPLOADING, -ETIMEDOUT, -1, "while uploading: why" },
	{ PF_STAGE_WAITING, -ECANCELED, -1, "while waiting: why" },
	{ PF_STAGE_RUNNING, -EINVAL, -1, "why" }, /* it was refused, not ended */
	{ PF_STAGE_COMPILING, -EIO, 13, "why" },  /* the plugin refused it */
	{ PF_STAGE_NONE, -EIO, -1, "why" },
};

TEST_EACH(work_that_was_ended_tells_its_stage, stood)
{
	struct pf_err err = PF_ERR_INIT;

	pf_err_set(&err, stood[_i].code, "why");
	err.pjrt_code = stood[_i].pjrt_code;
	pf_stage_blame(stood[_i].stage, &err);
	ck_assert_str_eq(err.text, stood[_i].want);
	ck_assert_int_eq(err.code, stood[_i].code);
	ck_assert_int_eq(err.pjrt_code, stood[_i].pjrt_code);
}

/* After any number of ASCII letters, no euro sign is truncated. */
TEST_TIMES(long_text_is_truncated_between_characters, 4)
{
	struct pf_err err = PF_ERR_INIT;
	char in[3 * PF_ERR_TEXT];
	size_t len = 0, n;

	while (len < (size_t)_i)
		in[len++] = 'a';
	for (n = 0; n < PF_ERR_TEXT / 2; n++, len += 3)
		memcpy(in + len, "\xe2\x82\xac", 3);
	in[len] = '\0';
	pf_err_set(&err, -EIO, "%s", in);
	ck_assert_uint_lt(strlen(err.text), PF_ERR_TEXT);
	ck_assert_uint_ge(strlen(err.text), PF_ERR_TEXT - 4);
	ck_assert_uint_eq((strlen(err.text) - (size_t)_i) % 3, 0);
	ck_assert_ptr_null(strchr(err.text, '?'));
	pf_err_set(&err, -EIO, "before");
	pf_err_set_lines(&err, -EIO, in, len);
	ck_assert_uint_ge(strlen(err.text), PF_ERR_TEXT - 4);
	ck_assert_ptr_null(strchr(err.text, '?'));
	/* The prefix stays whole, the end is truncated. */
	pf_err_wrap(&err, -EIO, "doing this");
	ck_assert_ptr_eq(strstr(err.text, "doing this: "), err.text);
	ck_assert_uint_lt(strlen(err.text), PF_ERR_TEXT);
	ck_assert_ptr_null(strchr(err.text, '?'));
}

TEST(prefix_may_fill_everything)
{
	struct pf_err err = PF_ERR_INIT;
	char in[2 * PF_ERR_TEXT];

	for (size_t n = PF_ERR_TEXT - 8; n < PF_ERR_TEXT + 8; n++) {
		memset(in, 'p', n);
		in[n] = '\0';
		pf_err_set(&err, -EIO, "abcdefgh");
		pf_err_wrap(&err, -EIO, "%s", in);
		ck_assert_uint_lt(strlen(err.text), PF_ERR_TEXT);
		ck_assert_uint_ge(strlen(err.text),
				  n < PF_ERR_TEXT ? n : PF_ERR_TEXT - 1);
		ck_assert_int_eq(err.text[PF_ERR_TEXT - 9], 'p');
	}
}

static const struct {
	int code;
	const char *want;
} errnos[] = {
	{ EINVAL, "EINVAL" },  { -EINVAL, "EINVAL" },
	{ -ENOSPC, "ENOSPC" }, { ECONNABORTED, "ECONNABORTED" },
	{ -EIO, "EIO" },       { 0, "EIO" },
	{ 99999, "EIO" },      { -99999, "EIO" },
};

TEST_EACH(errno_names, errnos)
{
	ck_assert_str_eq(pf_errno_name(errnos[_i].code), errnos[_i].want);
}

static const struct {
	int pjrt, code;
	const char *want;
} pjrts[] = {
	{ 3, 0, "INVALID_ARGUMENT" },
	{ 16, 0, "UNAUTHENTICATED" },
	{ 15, -EIO, "DATA_LOSS" },
	{ 2, -EIO, "UNKNOWN" },
	{ 17, 0, "UNKNOWN" },
	{ 1000000, 0, "UNKNOWN" },
	{ -1, -EINVAL, "INVALID_ARGUMENT" },
	{ -1, EINVAL, "INVALID_ARGUMENT" },
	{ -1, -ECANCELED, "CANCELLED" },
	{ -1, -ETIMEDOUT, "DEADLINE_EXCEEDED" },
	{ -1, -ENOENT, "NOT_FOUND" },
	{ -1, -EEXIST, "ALREADY_EXISTS" },
	{ -1, -EACCES, "PERMISSION_DENIED" },
	{ -1, -ENOSPC, "RESOURCE_EXHAUSTED" },
	{ -1, -EBUSY, "FAILED_PRECONDITION" },
	{ -1, -ECONNABORTED, "ABORTED" },
	{ -1, -ERANGE, "OUT_OF_RANGE" },
	{ -1, -EOPNOTSUPP, "UNIMPLEMENTED" },
	{ -1, -EIO, "INTERNAL" },
	{ -1, -ENODEV, "UNAVAILABLE" },
	{ -1, -EXDEV, "UNKNOWN" },
	{ -1, 0, "UNKNOWN" },
};

static const char *const kept_texts[] = { "why", "two\nlines", "" };

/* An object keeps a copy of an error, in place of the one before, with its lines. */
TEST_EACH(an_error_is_kept, kept_texts)
{
	struct pf_err err = PF_ERR_INIT, got = { .code = -EIO, .text = "another" };
	struct pf_kept_err kept = { 0 };

	ck_assert_int_eq(pf_err_recall(&kept, &got), 0);
	ck_assert_int_eq(got.code, 0);
	pf_err_set(&err, -EBUSY, "an error before");
	pf_err_keep(&kept, &err);
	pf_err_set_lines(&err, -EINVAL, kept_texts[_i], strlen(kept_texts[_i]));
	err.pjrt_code = 3;
	pf_err_keep(&kept, &err);
	pf_err_set(&err, -EIO, "an error after");
	ck_assert_int_eq(pf_err_recall(&kept, NULL), -EINVAL);
	ck_assert_int_eq(pf_err_recall(&kept, &got), -EINVAL);
	ck_assert_int_eq(got.code, -EINVAL);
	ck_assert_int_eq(got.pjrt_code, 3);
	ck_assert_str_eq(got.text, kept_texts[_i]);
	pf_err_keep(&kept, NULL);
	ck_assert_int_eq(kept.code, 0);
	ck_assert_ptr_null(kept.text);
}

/* Without memory for its text, the code says what is known. */
TEST(an_error_without_text_has_words)
{
	const struct pf_kept_err kept = { .code = -ENOSPC, .pjrt_code = -1 };
	struct pf_err got = PF_ERR_INIT;

	ck_assert_int_eq(pf_err_recall(&kept, &got), -ENOSPC);
	ck_assert_str_eq(got.text, strerror(ENOSPC));
}

TEST_EACH(pjrt_names, pjrts)
{
	ck_assert_str_eq(pf_pjrt_code_name(pjrts[_i].pjrt, pjrts[_i].code),
			 pjrts[_i].want);
}

TEST(pjrt_codes_by_name)
{
	ck_assert_int_eq(pf_pjrt_code_parse("OK"), PF_PJRT_OK);
	ck_assert_int_eq(pf_pjrt_code_parse("ABORTED"), PF_PJRT_ABORTED);
	ck_assert_int_eq(pf_pjrt_code_parse("UNAUTHENTICATED"), PF_PJRT_UNAUTHENTICATED);
	ck_assert_int_eq(pf_pjrt_code_parse("Aborted"), -1);
	ck_assert_int_eq(pf_pjrt_code_parse(""), -1);
}
