/* SPDX-License-Identifier: Apache-2.0 */
/* Byte strings that grow. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "pjrtfs/base.h"
#include "unit.h"

static void check_string(const struct pf_buf *buf, const char *want)
{
	ck_assert(!buf->failed);
	ck_assert_uint_eq(buf->len, strlen(want));
	ck_assert_str_eq(buf->data, want);
}

TEST(appends)
{
	pf_autobuf struct pf_buf buf = PF_BUF_INIT;

	pf_buf_release(NULL);
	pf_buf_puts(&buf, "");
	check_string(&buf, "");
	pf_buf_append(&buf, NULL, 0);
	pf_buf_puts(&buf, "ab");
	pf_buf_append(&buf, "cd\0e", 2);
	pf_buf_printf(&buf, "%d-%s", 42, "x");
	check_string(&buf, "abcd42-x");
	pf_buf_append(&buf, "\0\0", 2);
	ck_assert_uint_eq(buf.len, 10);
	ck_assert_int_eq(buf.data[10], '\0');
}

/* Every length around the sizes of the pieces that are allocated and printed into. */
TEST(grows_by_any_amount)
{
	pf_autobuf struct pf_buf buf = PF_BUF_INIT;
	char text[1024];

	for (size_t n = 0; n < sizeof(text); n++) {
		memset(text, 'a' + (int)(n % 26), n);
		text[n] = '\0';
		pf_buf_release(&buf);
		pf_buf_puts(&buf, text);
		check_string(&buf, text);
		pf_buf_release(&buf);
		pf_buf_printf(&buf, "%s", text);
		check_string(&buf, text);
		pf_buf_consume(&buf, 0);
		check_string(&buf, text);
		pf_buf_consume(&buf, n / 2);
		check_string(&buf, text + n / 2);
	}
}

TEST(byte_by_byte)
{
	pf_autobuf struct pf_buf buf = PF_BUF_INIT;

	for (size_t i = 0; i < 100000; i++)
		pf_buf_append(&buf, &(char){ (char)i }, 1);
	ck_assert_uint_eq(buf.len, 100000);
	for (size_t i = 0; i < 100000; i++)
		ck_assert_int_eq(buf.data[i], (char)i);
	ck_assert_uint_lt(buf.cap, 300000);
}

TEST(consume_more_than_everything)
{
	pf_autobuf struct pf_buf buf = PF_BUF_INIT;

	pf_buf_consume(&buf, 7);
	pf_buf_puts(&buf, "abc");
	pf_buf_consume(&buf, SIZE_MAX);
	check_string(&buf, "");
	pf_buf_puts(&buf, "d");
	check_string(&buf, "d");
}

static const size_t impossible[] = { SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 3, PTRDIFF_MAX,
				     (size_t)PTRDIFF_MAX - 3 };

TEST_EACH(failure_sticks_and_changes_nothing, impossible)
{
	pf_autobuf struct pf_buf buf = PF_BUF_INIT;

	pf_buf_puts(&buf, "abc");
	ck_assert_ptr_null(pf_buf_reserve(&buf, impossible[_i]));
	ck_assert(buf.failed);
	pf_buf_puts(&buf, "d");
	pf_buf_printf(&buf, "%d", 1);
	ck_assert_uint_eq(buf.len, 3);
	ck_assert_str_eq(buf.data, "abc");
	pf_buf_release(&buf);
	pf_buf_puts(&buf, "again");
	check_string(&buf, "again");
}

TEST(reads_a_file_to_the_maximum_or_the_end)
{
	pf_autobuf struct pf_buf buf = PF_BUF_INIT;
	FILE *file = tmpfile();

	ck_assert_int_eq(fprintf(file, "%070000d", 7), 70000);
	rewind(file);
	pf_buf_puts(&buf, "a");
	ck_assert_int_eq(pf_read_all(fileno(file), 3, &buf), 0);
	check_string(&buf, "a000");
	ck_assert_int_eq(pf_read_all(fileno(file), SIZE_MAX, &buf), 0);
	ck_assert_uint_eq(buf.len, 70001);
	ck_assert_str_eq(buf.data + 69999, "07");
	fclose(file);
	ck_assert_int_eq(pf_read_all(-1, SIZE_MAX, &buf), -EBADF);
	ck_assert_uint_eq(buf.len, 70001);
}
