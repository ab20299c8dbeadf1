/* SPDX-License-Identifier: Apache-2.0 */
/* .npy files as they are written: in pieces, in any order, and wrong ones. */
#include "buffer_fixture.h"

static const size_t pieces[] = { 1, 2, 7, 10, 63, 64, 65, 127, 128, 129, 151, 152, 4096 };

TEST_EACH(a_file_may_come_in_pieces, pieces)
{
	size_t each = pieces[_i];

	make_buffer(PF_FORMAT_NPY);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "empty");
	for (size_t at = 0; at < sizeof(file); at += each) {
		struct pf_value *v;

		put(file + at, sizeof(file) - at < each ? sizeof(file) - at : each, at);
		ck_assert_str_eq(pf_buffer_state_name(buffer), "incomplete");
		if (at + each < sizeof(file))
			ck_assert_int_eq(pf_buffer_commit(buffer, true, &v, &err), 1);
	}
	commit_numbers();
	/* No copy: the value lies in the content. */
	ck_assert_ptr_eq(pf_value_host(buffer->value), pf_bytes_at(buffer->content, 128));
	ck_assert_uint_eq((uintptr_t)pf_value_host(buffer->value) % 64, 0);
}

/* Pieces 0-127 (the header), 128-135, 136-143, 144-151 in this order. */
static const int orders[][4] = {
	{ 0, 1, 2, 3 },
	{ 0, 3, 2, 1 },
	{ 0, 2, 1, 3 },
	{ 0, 3, 1, 2 },
};

TEST_EACH(data_may_come_in_any_order, orders)
{
	struct pf_value *v;

	make_buffer(PF_FORMAT_NPY);
	for (int i = 0; i < 4; i++) {
		int p = orders[_i][i];

		put(p ? file + 120 + 8 * p : file, p ? 8 : 128,
		    p ? 120 + 8 * (unsigned)p : 0);
		if (i < 2)
			ck_assert_int_eq(pf_buffer_commit(buffer, true, &v, &err),
					 orders[_i][i] == 3 ? 0 : 1);
		if (i < 2 && orders[_i][i] == 3)
			pf_value_unref(v); /* its length is right: holes are zeros */
	}
	commit_numbers();
}

/* A writer that writes the end first leaves a hole where the header will be. */
TEST(data_may_come_before_the_header)
{
	make_buffer(PF_FORMAT_NPY);
	put(file + 128, 24, 128);
	commit_fails(-EINVAL, "152 bytes are not a whole .npy header", "incomplete");
	put(file + 64, 64, 64);
	commit_fails(-EINVAL, "152 bytes are not a whole .npy header", "incomplete");
	put(file, 64, 0);
	commit_numbers();
	/* The header finds that too much came before it. */
	make_buffer(PF_FORMAT_NPY);
	put(file, 1, 152);
	ck_assert_int_eq(pf_buffer_write(buffer, file, 128, 0, &err), -EINVAL);
	commit_fails(-EINVAL, "F32[2,3] takes 152 bytes of file, a write ends at 153",
		     "error");
}

#define NPY(dict) "\x93NUMPY\x01\x00\x76\x00" dict

static const struct {
	const char *head;
	size_t len; /* 0: all */
	int code;
} headers[] = {
	{ "#", 0, -EINVAL },
	{ "\x93NUMPX", 0, -EINVAL },
	{ "PK\x03\x04", 0, -EINVAL },
	{ "\x93NUMPY\x09\x00", 8, -EINVAL },
	{ NPY("['descr']"), 128, -EINVAL },
	{ NPY("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }"), 128,
	  -EINVAL },
	{ NPY("{'descr': '<f4', 'fortran_order': False, 'shape': (9000000000, 9000000000), }"),
	  128, -EOVERFLOW },
};

TEST_EACH(a_wrong_header_is_refused_at_once, headers)
{
	struct pf_err why = PF_ERR_INIT;
	struct pf_value *v;
	char head[128];
	size_t n = headers[_i].len ? headers[_i].len : strlen(headers[_i].head);

	memset(head, ' ', sizeof(head));
	head[127] = '\n';
	memcpy(head, headers[_i].head, n < 10 ? n : 10);
	if (n > 10)
		memcpy(head + 10, headers[_i].head + 10, strlen(headers[_i].head + 10));
	make_buffer(PF_FORMAT_NPY);
	ck_assert_int_eq(pf_buffer_write(buffer, head, n, 0, &why), headers[_i].code);
	ck_assert_uint_gt(strlen(why.text), 10);
	commit_fails(headers[_i].code, why.text, "error");
	ck_assert_int_eq(pf_buffer_value(buffer, &v, &err), headers[_i].code);
	ck_assert_str_eq(err.text, why.text);
	put(file, sizeof(file), 0);
	commit_numbers();
}

TEST(too_much_is_refused_at_once)
{
	make_npy(150);
	ck_assert_int_eq(pf_buffer_write(buffer, "xyz", 3, 150, &err), -EINVAL);
	ck_assert_str_eq(err.text,
			 "F32[2,3] takes 152 bytes of file, a write ends at 153");
	ck_assert_uint_eq(buffer->size, 150);
	commit_fails(-EINVAL, err.text, "error");
	put(file + 150, 2, 150);
	commit_numbers();
	/* All in one write. */
	make_buffer(PF_FORMAT_NPY);
	ck_assert_int_eq(pf_buffer_write(buffer, file, 128, 0, &err), 128);
	ck_assert_int_eq(pf_buffer_write(buffer, file, 1, 1 << 30, &err), -EINVAL);
}

static const struct {
	size_t len;
	const char *why;
} parts[] = {
	{ 0, "an empty file is not an array" },
	{ 1, "1 bytes are not a whole .npy header" },
	{ 127, "127 bytes are not a whole .npy header" },
	{ 128, "F32[2,3] takes 24 bytes of data, 0 came" },
	{ 151, "F32[2,3] takes 24 bytes of data, 23 came" },
};

TEST_EACH(a_partial_file_is_not_an_array, parts)
{
	struct pf_value *v;

	make_buffer(PF_FORMAT_NPY);
	if (parts[_i].len)
		put(file, parts[_i].len, 0);
	ck_assert_int_eq(pf_buffer_check(buffer, PF_FORMAT_NPY, &err), -EINVAL);
	ck_assert_str_eq(err.text, parts[_i].why);
	ck_assert_int_eq(pf_buffer_commit(buffer, true, &v, &err), 1);
	commit_fails(-EINVAL, parts[_i].why, "incomplete");
	ck_assert_int_eq(pf_buffer_value(buffer, &v, &err), -EINVAL);
	if (parts[_i].len) {
		put(file + parts[_i].len, sizeof(file) - parts[_i].len, parts[_i].len);
		commit_numbers();
	}
}

TEST(column_major_files_are_transposed)
{
	static const float turned[6] = { 1, 3, 5, 2, 4, 6 };
	char *order;

	order = strstr(file + 10, "False");
	ck_assert_ptr_nonnull(order);
	memcpy(order, "True ", 5);
	make_npy(sizeof(file));
	check_value(commit(), PF_DTYPE_F32, "F32[2,3]", turned, 24);
	ck_assert_mem_eq(pf_bytes_at(buffer->content, 128), numbers, 24);
}

UNIT_FIXTURE(open_arena, close_arena)
