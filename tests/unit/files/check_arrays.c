/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of a conversation: what a client writes in pieces, and what it reads in pieces. */
#include "files/execute/internal.h"

#include <stdio.h>

#include "answer.h"
#include "buffer_fixture.h"

/* A program's inputs: the array of file, and a number. */
static struct pf_param params[] = {
	{ .name = "x", .dtype = PF_DTYPE_F32, .shape = { .rank = 2, .dims = { 2, 3 } } },
	{ .name = "", .dtype = PF_DTYPE_S32 },
};

static const int32_t seven = 7;
static struct arrays_in in;
static struct arrays_out out;
static struct pf_buf written; /* both, as files */
static int dropped;

static void begin(const struct pf_param *wanted, size_t n)
{
	ok(arrays_in_begin(&in, arena, wanted, n, &err));
}

static void set_up(void)
{
	open_arena();
	in = (struct arrays_in){ .what = "input" };
	out = (struct arrays_out){ .n = 0 };
	written = (struct pf_buf)PF_BUF_INIT;
	pf_buf_append(&written, file, sizeof(file));
	pf_npy_print(&written, PF_DTYPE_S32, &params[1].shape);
	pf_buf_append(&written, &seven, 4);
	dropped = 0;
	begin(params, 2);
}

static void tear_down(void)
{
	arrays_in_release(&in);
	arrays_out_release(&out);
	pf_buf_release(&written);
	close_arena();
}

/* --- arrays that come ------------------------------------------------------------------- */

/* Write LEN bytes, STEP at a time, of which all are taken. */
static void take(const void *src, size_t len, size_t step)
{
	for (size_t at = 0; at < len; at += step) {
		size_t n = len - at < step ? len - at : step;

		ck_assert_msg(arrays_in_take(&in, (const char *)src + at, n, &err) ==
				      (ssize_t)n,
			      "%s", err.text);
	}
}

static void expect_both(void)
{
	ck_assert(in.whole);
	ck_assert_mem_eq(pf_bytes_at(in.bytes, in.offs[0]), numbers, 24);
	ck_assert_mem_eq(pf_bytes_at(in.bytes, in.offs[1]), &seven, 4);
}

static const size_t steps[] = { 1, 7, 128, 151, 1 << 20 };

TEST_EACH(arrays_come_in_pieces_of_any_size, steps)
{
	take(written.data, written.len, steps[_i]);
	expect_both();
}

TEST_EACH(bare_data_come_in_pieces_of_any_size, steps)
{
	in.raw = true;
	take(numbers, 24, steps[_i]);
	take(&seven, 4, steps[_i]);
	expect_both();
}

TEST(what_follows_the_last_array_is_left)
{
	pf_buf_puts(&written, "next");
	ck_assert_int_eq(arrays_in_take(&in, written.data, written.len, &err),
			 (ssize_t)written.len - 4);
	expect_both();
}

TEST(what_was_dropped_can_come_again)
{
	ck_assert(!arrays_in_begun(&in));
	take(written.data, 1, 1);
	ck_assert(arrays_in_begun(&in));
	arrays_in_drop(&in);
	ck_assert(!arrays_in_begun(&in));
	take(written.data, written.len, written.len);
	expect_both();
}

/* Write a header that says so. */
static void take_header(const char *descr, const char *fortran, const char *shape)
{
	pf_autobuf struct pf_buf head = PF_BUF_INIT;
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	uint16_t len;

	pf_buf_printf(&text, "{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }\n",
		      descr, fortran, shape);
	len = (uint16_t)text.len;
	pf_buf_append(&head, "\x93NUMPY\1\0", 8);
	pf_buf_append(&head, &len, 2);
	pf_buf_append(&head, text.data, text.len);
	ck_assert_int_ne(arrays_in_take(&in, head.data, head.len, &err), 0);
}

TEST(columns_become_rows)
{
	static const float columns[] = { 1, 4, 2, 5, 3, 6 };

	take_header("<f4", "True", "2, 3");
	take(columns, 24, 5);
	take(written.data + sizeof(file), written.len - sizeof(file), 1000);
	ck_assert(!arrays_in_is_slow(&in));
	arrays_in_transpose(&in);
	expect_both();
}

static const struct {
	const char *descr, *shape, *why; /* why NULL: it is taken */
} headers[] = {
	{ "<f4", "2, 3", NULL },
	{ "<f4", "1, 2, 3", NULL },
	{ "<i4", "2, 3",
	  "S32[2,3] came, the program wants F32[2,3]: x.astype(\"float32\")" },
	{ "<f4", "6, 1", "F32[6,1] came, the program wants F32[2,3]: x.reshape(2,3)" },
	{ "<i4", "6, 1",
	  "S32[6,1] came, the program wants F32[2,3]: x.astype(\"float32\").reshape(2,3)" },
	{ "<f4", "7, 1", "F32[7,1] came, the program wants F32[2,3]" },
	{ "|V2", "2, 3", "V2[2,3] came, the program wants F32[2,3]" },
};

TEST_EACH(a_header_is_compared_with_the_input, headers)
{
	char why[PF_ERR_TEXT] = "";

	if (headers[_i].why)
		snprintf(why, sizeof(why), "input 0 (x): %s", headers[_i].why);
	take_header(headers[_i].descr, "False", headers[_i].shape);
	ck_assert_int_eq(err.code, headers[_i].why ? -EINVAL : 0);
	ck_assert_str_eq(err.code ? err.text : "", why);
}

TEST(a_file_of_another_format_is_refused_at_its_first_byte)
{
	ck_assert_int_eq(arrays_in_take(&in, "1", 1, &err), -EINVAL);
	ck_assert_msg(!strncmp(err.text, "input 0 (x): ", 13), "%s", err.text);
}

/* How much was written of both arrays when the client wants the results. */
static const struct {
	size_t len;
	const char *why;
} missing[] = {
	{ 10, "input 0 (x): 10 bytes of a header came" },
	{ 130, "input 0 (x): 2 of 24 bytes of data came" },
	{ 152, "input 1: 0 bytes of a header came" },
	{ 281, "input 1: 1 of 4 bytes of data came" },
};

TEST_EACH(what_is_missing_is_told, missing)
{
	char why[PF_ERR_TEXT];

	take(written.data, missing[_i].len, missing[_i].len);
	arrays_in_missing(&in, &err);
	snprintf(why, sizeof(why), "not all of the 2 inputs were written: %s",
		 missing[_i].why);
	ck_assert_int_eq(err.code, -EINVAL);
	ck_assert_str_eq(err.text, why);
}

TEST(a_program_without_inputs_starts_with_a_newline)
{
	begin(params, 0);
	ck_assert_int_eq(arrays_in_take(&in, "x\n", 2, &err), -EINVAL);
	ck_assert_str_eq(err.text, "there are no inputs to be written: expected a "
				   "newline, found byte 120");
	ck_assert_int_eq(arrays_in_take(&in, "\n\n", 2, &err), 1);
	ck_assert(in.whole);
}

TEST(inputs_of_more_than_all_memory_are_refused)
{
	struct pf_param large[5];

	for (size_t i = 0; i < ARRAY_SIZE(large); i++)
		large[i] = (struct pf_param){ .dtype = PF_DTYPE_F64,
					      .shape = { .rank = 1,
							 .dims = { INT64_C(1) << 59 } } };
	ck_assert_int_eq(arrays_in_begin(&in, arena, large, ARRAY_SIZE(large), &err),
			 -EOVERFLOW);
	ck_assert_str_eq(err.text, "the inputs take more than 2^64 bytes");
}

/* --- arrays that go --------------------------------------------------------------------- */

static void drop(void *kept)
{
	ck_assert_ptr_eq(kept, &dropped);
	dropped++;
}

/* The array of file, borrowed, and the number, copied. */
static void show_both(void)
{
	ck_assert_int_eq(arrays_out_begin(&out, 4, in.heads.text.len + 4), 0);
	out.kept = &dropped;
	out.drop = drop;
	arrays_out_array(&out, &in.heads, 0, numbers, 24, false);
	arrays_out_array(&out, &in.heads, 1, &seven, 4, true);
}

/* Read up to LEN bytes, which are appended to ALL. */
static void read_some(size_t len, struct pf_buf *all)
{
	struct answer a;
	struct pf_reply *reply = answer_begin(&a);
	size_t n;

	ck_assert(pf_reply_claim(reply));
	n = arrays_out_answer(&out, len, reply);
	pf_reply_unref(reply);
	ck_assert_int_eq(answer_wait(&a), (ssize_t)n);
	ck_assert_uint_gt(n, 0);
	pf_buf_append(all, a.data.data, n);
	answer_end(&a);
}

TEST_EACH(arrays_go_in_pieces_of_any_size, steps)
{
	pf_autobuf struct pf_buf all = PF_BUF_INIT;

	show_both();
	while (!arrays_out_ended(&out)) {
		ck_assert_int_eq(dropped, 0);
		read_some(steps[_i], &all);
	}
	ck_assert_uint_eq(all.len, written.len);
	ck_assert_mem_eq(all.data, written.data, all.len);
	ck_assert_int_eq(dropped, 1);
}

TEST(a_text_takes_the_place_of_arrays_that_nobody_reads)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	pf_autobuf struct pf_buf all = PF_BUF_INIT;

	show_both();
	pf_buf_puts(&text, "error");
	ck_assert_int_eq(arrays_out_say(&out, &text), 0);
	ck_assert_int_eq(dropped, 1);
	read_some(100, &all);
	ck_assert_str_eq(all.data, "error");
	ck_assert(arrays_out_ended(&out));
}

UNIT_FIXTURE(set_up, tear_down)
