/* Buffers: bytes as users write them, and the arrays they become. */
#include "pjrtfs/store/buffer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"

enum { LIMIT = 64 << 20 };

static struct pf_arena *arena;
static struct pf_place place;
static struct pf_buffer *buffer;
static struct pf_err err;

static uint64_t used(void)
{
	uint64_t n, limit;

	pf_arena_usage(arena, &n, &limit);
	return n;
}

static void open_arena(void)
{
	ck_assert_int_eq(pf_arena_new(LIMIT, &arena, NULL), 0);
	place = (struct pf_place){ .arena = arena, .device_name = "cpu:0" };
	err = (struct pf_err)PF_ERR_INIT;
}

static void close_arena(void)
{
	pf_buffer_unref(buffer);
	buffer = NULL;
	ck_assert_uint_eq(used(), 0);
	pf_arena_free(arena);
}

static void make(enum pf_format format)
{
	pf_buffer_unref(buffer);
	buffer = pf_buffer_new(&place, format);
	ck_assert_ptr_nonnull(buffer);
}

static void put(const void *src, size_t len, uint64_t off)
{
	ck_assert_msg(pf_buffer_write(buffer, src, len, off, &err) == (ssize_t)len, "%s",
		      err.text);
}

static void declare(enum pf_dtype dtype, unsigned rank, int64_t a, int64_t b)
{
	struct pf_shape s = { .rank = rank, .dims = { a, b } };

	ck_assert_int_eq(pf_buffer_declare(buffer, dtype, &s, &err), 0);
}

/* The committed value, which the buffer keeps. */
static struct pf_value *commit(void)
{
	struct pf_value *v;

	ck_assert_msg(pf_buffer_commit(buffer, false, &v, &err) == 0, "%s", err.text);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "ready");
	pf_value_unref(v);
	return v;
}

static void commit_fails(int code, const char *why, const char *state)
{
	struct pf_value *v;
	struct pf_err first = PF_ERR_INIT;

	ck_assert_int_eq(pf_buffer_commit(buffer, false, &v, &first), code);
	ck_assert_ptr_null(v);
	ck_assert_int_eq(first.code, code);
	ck_assert_msg(strstr(first.text, why) != NULL, "%s", first.text);
	ck_assert_str_eq(pf_buffer_state_name(buffer), state);
}

static void check_value(struct pf_value *v, enum pf_dtype dtype, const char *shape,
			const void *bytes, size_t len)
{
	char text[64];

	ck_assert_int_eq(v->dtype, dtype);
	ck_assert_str_eq(pf_shape_str(text, sizeof(text), dtype, &v->shape), shape);
	ck_assert_uint_eq(v->len, len);
	ck_assert_int_eq(memcmp(pf_value_host(v), bytes, len), 0);
}

/* --- names --------------------------------------------------------------------------- */

static const struct {
	const char *name;
	enum pf_format format;
	size_t stem;
} names[] = {
	{ "x.npy", PF_FORMAT_NPY, 1 },     { "x.raw", PF_FORMAT_RAW, 1 },
	{ "x.txt", PF_FORMAT_TXT, 1 },     { "x.json", PF_FORMAT_JSON, 1 },
	{ "x", PF_FORMAT_NONE, 1 },        { "", PF_FORMAT_NONE, 0 },
	{ ".npy", PF_FORMAT_NONE, 4 },     { "x.NPY", PF_FORMAT_NONE, 5 },
	{ "x.npyx", PF_FORMAT_NONE, 6 },   { "a.b.raw", PF_FORMAT_RAW, 3 },
	{ "x.npy.txt", PF_FORMAT_TXT, 5 }, { "..npy", PF_FORMAT_NPY, 1 },
	{ "npy", PF_FORMAT_NONE, 3 },      { "x.npy~", PF_FORMAT_NONE, 6 },
};

START_TEST(extensions_name_formats)
{
	size_t stem = 99;

	ck_assert_int_eq(pf_format_of(names[_i].name, &stem), names[_i].format);
	ck_assert_uint_eq(stem, names[_i].stem);
	ck_assert_int_eq(pf_format_of(names[_i].name, NULL), names[_i].format);
	if (names[_i].format)
		ck_assert_str_eq(pf_format_extension(names[_i].format),
				 names[_i].name + stem);
	else
		ck_assert_str_eq(pf_format_extension(PF_FORMAT_NONE), "");
}
END_TEST

/* --- .npy ---------------------------------------------------------------------------- */

static const float numbers[6] = { 1, 2, 3, 4, 5, 6 };
static char file[152]; /* F32[2,3] */

static void make_file(void)
{
	struct pf_shape s = { .rank = 2, .dims = { 2, 3 } };
	pf_autobuf struct pf_buf head = PF_BUF_INIT;

	pf_npy_print(&head, PF_DTYPE_F32, &s);
	ck_assert_uint_eq(head.len, 128);
	memcpy(file, head.data, 128);
	memcpy(file + 128, numbers, 24);
}

static const size_t pieces[] = { 1, 2, 7, 10, 63, 64, 65, 127, 128, 129, 151, 152, 4096 };

START_TEST(a_file_may_come_in_pieces)
{
	size_t each = pieces[_i];

	make_file();
	make(PF_FORMAT_NPY);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "empty");
	for (size_t at = 0; at < sizeof(file); at += each) {
		struct pf_value *v;

		put(file + at, sizeof(file) - at < each ? sizeof(file) - at : each, at);
		ck_assert_str_eq(pf_buffer_state_name(buffer), "incomplete");
		if (at + each < sizeof(file))
			ck_assert_int_eq(pf_buffer_commit(buffer, true, &v, &err), 1);
	}
	check_value(commit(), PF_DTYPE_F32, "F32[2,3]", numbers, 24);
	/* No copy: the value lies in the content. */
	ck_assert_ptr_eq(pf_value_host(buffer->value), pf_bytes_at(buffer->content, 128));
	ck_assert_uint_eq((uintptr_t)pf_value_host(buffer->value) % 64, 0);
}
END_TEST

/* Pieces 0-127 (the header), 128-135, 136-143, 144-151 in this order. */
static const int orders[][4] = {
	{ 0, 1, 2, 3 },
	{ 0, 3, 2, 1 },
	{ 0, 2, 1, 3 },
	{ 0, 3, 1, 2 },
};

START_TEST(data_may_come_in_any_order)
{
	struct pf_value *v;

	make_file();
	make(PF_FORMAT_NPY);
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
	check_value(commit(), PF_DTYPE_F32, "F32[2,3]", numbers, 24);
}
END_TEST

/* Who writes the end first leaves a hole where the header will be. */
START_TEST(data_may_come_before_the_header)
{
	make_file();
	make(PF_FORMAT_NPY);
	put(file + 128, 24, 128);
	commit_fails(-EINVAL, "152 bytes are no whole .npy header", "incomplete");
	put(file + 64, 64, 64);
	commit_fails(-EINVAL, "152 bytes are no whole .npy header", "incomplete");
	put(file, 64, 0);
	check_value(commit(), PF_DTYPE_F32, "F32[2,3]", numbers, 24);
	/* The header finds that too much came before it. */
	make(PF_FORMAT_NPY);
	put(file, 1, 152);
	ck_assert_int_eq(pf_buffer_write(buffer, file, 128, 0, &err), -EINVAL);
	commit_fails(-EINVAL, "F32[2,3] takes 152 bytes of file, a write ends at 153",
		     "error");
}
END_TEST

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
	{ NPY("['descr']"), 19, -EINVAL },
	{ NPY("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }"), 128,
	  -EINVAL },
	{ NPY("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }"), 128, -EINVAL },
	{ NPY("{'descr': '<f4', 'fortran_order': 7, 'shape': (2,), }"), 128, -EINVAL },
	{ NPY("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }"), 128,
	  -EINVAL },
	{ NPY("{'descr': '<f4', 'shape': (2,), 'what': 3 }"), 128, -EINVAL },
	{ NPY("{'descr': '<f4', 'fortran_order': False, 'shape': (9000000000, 9000000000), }"),
	  128, -EOVERFLOW },
};

START_TEST(a_wrong_header_is_refused_at_once)
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
	make(PF_FORMAT_NPY);
	ck_assert_int_eq(pf_buffer_write(buffer, head, n, 0, &why), headers[_i].code);
	ck_assert_uint_gt(strlen(why.text), 10);
	commit_fails(headers[_i].code, why.text, "error");
	ck_assert_int_eq(pf_buffer_value(buffer, &v, &err), headers[_i].code);
	ck_assert_str_eq(err.text, why.text);
	make_file();
	put(file, sizeof(file), 0);
	check_value(commit(), PF_DTYPE_F32, "F32[2,3]", numbers, 24);
}
END_TEST

START_TEST(too_much_is_refused_at_once)
{
	make_file();
	make(PF_FORMAT_NPY);
	put(file, 150, 0);
	ck_assert_int_eq(pf_buffer_write(buffer, "xyz", 3, 150, &err), -EINVAL);
	ck_assert_str_eq(err.text,
			 "F32[2,3] takes 152 bytes of file, a write ends at 153");
	ck_assert_uint_eq(buffer->size, 150);
	commit_fails(-EINVAL, err.text, "error");
	put(file + 150, 2, 150);
	check_value(commit(), PF_DTYPE_F32, "F32[2,3]", numbers, 24);
	/* All in one write. */
	make(PF_FORMAT_NPY);
	ck_assert_int_eq(pf_buffer_write(buffer, file, 128, 0, &err), 128);
	ck_assert_int_eq(pf_buffer_write(buffer, file, 1, 1 << 30, &err), -EINVAL);
}
END_TEST

static const struct {
	size_t len;
	const char *why;
} parts[] = {
	{ 0, "an empty file is no array" },
	{ 1, "1 bytes are no whole .npy header" },
	{ 127, "127 bytes are no whole .npy header" },
	{ 128, "F32[2,3] takes 24 bytes of data, 0 came" },
	{ 151, "F32[2,3] takes 24 bytes of data, 23 came" },
};

START_TEST(a_part_is_no_array)
{
	struct pf_value *v;

	make_file();
	make(PF_FORMAT_NPY);
	if (parts[_i].len)
		put(file, parts[_i].len, 0);
	ck_assert_int_eq(pf_buffer_check(buffer, PF_FORMAT_NPY, &err), -EINVAL);
	ck_assert_str_eq(err.text, parts[_i].why);
	ck_assert_int_eq(pf_buffer_commit(buffer, true, &v, &err), 1);
	commit_fails(-EINVAL, parts[_i].why, "incomplete");
	ck_assert_int_eq(pf_buffer_value(buffer, &v, &err), -EINVAL);
	if (parts[_i].len) {
		put(file + parts[_i].len, sizeof(file) - parts[_i].len, parts[_i].len);
		check_value(commit(), PF_DTYPE_F32, "F32[2,3]", numbers, 24);
	}
}
END_TEST

START_TEST(column_major_files_are_turned)
{
	static const float turned[6] = { 1, 3, 5, 2, 4, 6 };
	char *order;

	make_file();
	order = strstr(file + 10, "False");
	ck_assert_ptr_nonnull(order);
	memcpy(order, "True ", 5);
	make(PF_FORMAT_NPY);
	put(file, sizeof(file), 0);
	check_value(commit(), PF_DTYPE_F32, "F32[2,3]", turned, 24);
	ck_assert_int_eq(memcmp(pf_bytes_at(buffer->content, 128), numbers, 24), 0);
}
END_TEST

/* --- raw bytes ----------------------------------------------------------------------- */

START_TEST(undeclared_bytes_are_bytes)
{
	make(PF_FORMAT_RAW);
	put("hello", 5, 0);
	check_value(commit(), PF_DTYPE_U8, "U8[5]", "hello", 5);
}
END_TEST

START_TEST(declared_bytes_have_a_size)
{
	make(PF_FORMAT_RAW);
	declare(PF_DTYPE_F32, 1, 4, 0);
	put(numbers, 12, 0);
	commit_fails(-EINVAL, "F32[4] takes 16 bytes, 12 came", "incomplete");
	ck_assert_int_eq(pf_buffer_write(buffer, numbers, 5, 12, &err), -EINVAL);
	ck_assert_str_eq(err.text, "F32[4] takes 16 bytes of file, a write ends at 17");
	commit_fails(-EINVAL, "F32[4] takes 16 bytes of file, a write ends at 17",
		     "error");
	put(numbers + 3, 4, 12);
	check_value(commit(), PF_DTYPE_F32, "F32[4]", numbers, 16);
}
END_TEST

START_TEST(one_write_may_not_be_too_long_either)
{
	make(PF_FORMAT_RAW);
	declare(PF_DTYPE_F32, 1, 4, 0);
	ck_assert_int_eq(pf_buffer_write(buffer, numbers, 20, 0, &err), -EINVAL);
	ck_assert_uint_eq(buffer->size, 0);
	commit_fails(-EINVAL, "a write ends at 20", "error");
}
END_TEST

START_TEST(what_cannot_be_is_not_declared)
{
	struct pf_shape s = { .rank = 2, .dims = { INT64_C(1) << 40, INT64_C(1) << 40 } };

	make(PF_FORMAT_RAW);
	ck_assert_int_eq(pf_buffer_declare(buffer, PF_DTYPE_F32, &s, &err), -EOVERFLOW);
	put("x", 1, 0);
	check_value(commit(), PF_DTYPE_U8, "U8[1]", "x", 1);
}
END_TEST

START_TEST(no_elements_are_a_whole_array)
{
	struct pf_value *v;

	make(PF_FORMAT_RAW);
	declare(PF_DTYPE_F32, 2, 0, 5);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "ready");
	ck_assert_int_eq(pf_buffer_value(buffer, &v, &err), 0);
	check_value(v, PF_DTYPE_F32, "F32[0,5]", "", 0);
	pf_value_unref(v);
	ck_assert_int_eq(pf_buffer_truncate(buffer, 0, &err), 0);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "ready");
	ck_assert_int_eq(pf_buffer_write(buffer, "x", 1, 0, &err), -EINVAL);
}
END_TEST

START_TEST(holes_are_zeros)
{
	static const char want[110] = { [0] = 'a', [100] = 'b' };

	make(PF_FORMAT_RAW);
	put("x", 1, 50); /* memory that was used before */
	ck_assert_int_eq(pf_buffer_truncate(buffer, 0, &err), 0);
	put("b", 1, 100);
	put("a", 1, 0);
	ck_assert_int_eq(pf_buffer_truncate(buffer, 110, &err), 0);
	check_value(commit(), PF_DTYPE_U8, "U8[110]", want, 110);
}
END_TEST

/* --- text ---------------------------------------------------------------------------- */

static const struct {
	const char *text;
	enum pf_dtype dtype; /* declared, if valid */
	unsigned rank;
	int64_t a, b;
	const char *shape; /* NULL: refused */
} texts[] = {
	{ "1 2 3\n4 5 6\n", PF_DTYPE_INVALID, 0, 0, 0, "F32[2,3]" },
	{ "1 2 3 4 5 6\n", PF_DTYPE_F32, 2, 2, 3, "F32[2,3]" },
	{ "1 2\n3 4\n5 6\n", PF_DTYPE_F32, 2, 2, 3, "F32[2,3]" },
	{ "1 2 3\n4 5\n", PF_DTYPE_INVALID, 0, 0, 0, NULL },
	{ "one\n", PF_DTYPE_INVALID, 0, 0, 0, NULL },
};

START_TEST(text_becomes_numbers)
{
	struct pf_value *v;

	make(PF_FORMAT_TXT);
	if (texts[_i].dtype)
		declare(texts[_i].dtype, texts[_i].rank, texts[_i].a, texts[_i].b);
	put(texts[_i].text, strlen(texts[_i].text), 0);
	if (texts[_i].shape) {
		check_value(commit(), PF_DTYPE_F32, texts[_i].shape, numbers, 24);
		return;
	}
	ck_assert_int_eq(pf_buffer_commit(buffer, false, &v, &err), -EINVAL);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "error");
}
END_TEST

/* --- frozen contents ----------------------------------------------------------------- */

static const struct {
	enum pf_format format;
	size_t size, len;
	uint64_t off;
} changes[] = {
	{ PF_FORMAT_RAW, 10000, 1, 0 },         { PF_FORMAT_RAW, 10000, 1, 9999 },
	{ PF_FORMAT_RAW, 10000, 100, 5000 },    { PF_FORMAT_RAW, 10000, 1, 10000 },
	{ PF_FORMAT_RAW, 10000, 1, 20000 },     { PF_FORMAT_RAW, 3 << 20, 1, 0 },
	{ PF_FORMAT_RAW, 3 << 20, 1, 3 << 20 }, { PF_FORMAT_RAW, 300, 10, 290 },
};

/* A value never changes; who holds something nearby neither. */
START_TEST(writing_after_a_commit_copies)
{
	size_t size = changes[_i].size, end = changes[_i].off + changes[_i].len;
	char *before = malloc(size), *x = malloc(changes[_i].len);
	struct pf_bytes *near[3];
	struct pf_value *v, *again;

	memset(before, 'o', size);
	memset(x, 'x', changes[_i].len);
	make(changes[_i].format);
	put(before, size, 0);
	v = pf_value_ref(commit());
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(pf_bytes_new(arena, 256, &near[i], NULL), 0);
		memset(pf_bytes_at(near[i], 0), 'n', 256);
	}
	put(x, changes[_i].len, changes[_i].off);
	ck_assert_int_eq(memcmp(pf_value_host(v), before, size), 0);
	for (int i = 0; i < 3; i++) {
		for (int j = 0; j < 256; j++)
			ck_assert_int_eq(*(char *)pf_bytes_at(near[i], (uint64_t)j), 'n');
		pf_bytes_unref(near[i]);
	}
	again = commit();
	ck_assert_ptr_ne(again, v);
	ck_assert_uint_eq(again->len, end > size ? end : size);
	ck_assert_uint_ge(buffer->content->extent.len, buffer->size);
	ck_assert_int_eq(*((const char *)pf_value_host(again) + changes[_i].off), 'x');
	ck_assert_int_eq(*(const char *)pf_value_host(again),
			 changes[_i].off ? 'o' : 'x');
	pf_value_unref(v);
	free(before);
	free(x);
}
END_TEST

START_TEST(a_commit_gives_room_back)
{
	static char byte[4096];
	uint64_t whole;

	make(PF_FORMAT_RAW);
	for (uint64_t at = 0; at < (5 << 20); at += sizeof(byte))
		put(byte, sizeof(byte), at);
	whole = used();
	commit();
	ck_assert_uint_lt(used(), whole);
	ck_assert_uint_le(used(), 6 << 20);
}
END_TEST

/* --- size and limits ----------------------------------------------------------------- */

START_TEST(truncating_empties)
{
	struct pf_value *v;

	make_file();
	make(PF_FORMAT_NPY);
	put(file, sizeof(file), 0);
	commit();
	ck_assert_int_eq(pf_buffer_truncate(buffer, 0, &err), 0);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "empty");
	ck_assert_uint_eq(used(), 0);
	ck_assert_int_eq(pf_buffer_value(buffer, &v, &err), -ENODATA);
	ck_assert_str_eq(err.text, "it is empty");
	put(file, sizeof(file), 0);
	commit();
}
END_TEST

static const uint64_t sizes[] = { 1, 10, 127, 128, 140, 151 };

START_TEST(a_shorter_file_can_be_filled_again)
{
	make_file();
	make(PF_FORMAT_NPY);
	put(file, sizeof(file), 0);
	ck_assert_int_eq(pf_buffer_truncate(buffer, sizes[_i], &err), 0);
	ck_assert_uint_eq(buffer->size, sizes[_i]);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "incomplete");
	put(file + sizes[_i], sizeof(file) - sizes[_i], sizes[_i]);
	check_value(commit(), PF_DTYPE_F32, "F32[2,3]", numbers, 24);
}
END_TEST

START_TEST(the_memory_limit_is_kept)
{
	char byte = 1;

	make(PF_FORMAT_RAW);
	put(&byte, 1, 0);
	ck_assert_int_eq(pf_buffer_write(buffer, &byte, 1, LIMIT, &err), -ENOSPC);
	ck_assert_uint_eq(buffer->size, 1);
	commit_fails(-ENOSPC, "memory limit", "error");
	ck_assert_int_eq(pf_buffer_truncate(buffer, LIMIT + 1, &err), -ENOSPC);
	ck_assert_uint_eq(buffer->size, 1);
	/* A header that asks for more is refused before its data come. */
	make(PF_FORMAT_RAW);
	declare(PF_DTYPE_U8, 1, LIMIT + 1, 0);
	ck_assert_int_eq(pf_buffer_write(buffer, &byte, 1, 0, &err), -ENOSPC);
}
END_TEST

static const struct {
	uint64_t off;
	size_t len;
} ends[] = {
	{ INT64_MAX, 1 }, { UINT64_MAX, 1 }, { UINT64_MAX - 5, 10 }, { INT64_MAX - 1, 2 }
};

START_TEST(offsets_have_an_end)
{
	make(PF_FORMAT_NONE);
	ck_assert_int_eq(pf_buffer_write(buffer, "0123456789", ends[_i].len, ends[_i].off,
					 &err),
			 -EFBIG);
	ck_assert_int_eq(pf_buffer_write(buffer, "0123456789", ends[_i].len, ends[_i].off,
					 NULL),
			 -EFBIG);
}
END_TEST

/* --- other formats ------------------------------------------------------------------- */

START_TEST(a_scratch_file_is_no_array)
{
	struct pf_value *v;

	make(PF_FORMAT_NONE);
	put("anything", 8, 0);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "scratch");
	ck_assert_int_eq(pf_buffer_commit(buffer, false, &v, &err), 1);
	ck_assert_int_eq(pf_buffer_value(buffer, &v, &err), -ENOENT);
	ck_assert_str_eq(err.text, "it is a scratch file, no array");
}
END_TEST

START_TEST(a_rename_gives_another_format)
{
	make_file();
	make(PF_FORMAT_NONE);
	put(file, sizeof(file), 0);
	ck_assert_int_eq(pf_buffer_check(buffer, PF_FORMAT_NPY, &err), 0);
	pf_buffer_set_format(buffer, PF_FORMAT_NPY);
	check_value(commit(), PF_DTYPE_F32, "F32[2,3]", numbers, 24);
	pf_buffer_set_format(buffer, PF_FORMAT_NONE);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "scratch");
	ck_assert_int_eq(pf_buffer_truncate(buffer, 151, &err), 0);
	ck_assert_int_eq(pf_buffer_check(buffer, PF_FORMAT_NPY, &err), -EINVAL);
	ck_assert_int_eq(pf_buffer_check(buffer, PF_FORMAT_NONE, &err), 0);
	ck_assert_int_eq(pf_buffer_check(buffer, PF_FORMAT_RAW, &err), 0);
}
END_TEST

/* Write FILE, commit, look at it as FORMAT, change one number there, commit. */
static const struct {
	enum pf_format to;
	uint64_t off; /* of the last number */
	const char *last;
	size_t len;
} adoptions[] = {
	{ PF_FORMAT_RAW, 20, "\x00\x00\x10\x41", 4 },
	{ PF_FORMAT_TXT, 10, "9", 1 },
};

START_TEST(another_view_can_be_written)
{
	static const float want[6] = { 1, 2, 3, 4, 5, 9 };

	make_file();
	make(PF_FORMAT_NPY);
	put(file, sizeof(file), 0);
	commit();
	ck_assert_msg(pf_buffer_adopt(buffer, adoptions[_i].to, "x", true, &err) == 0,
		      "%s", err.text);
	put(adoptions[_i].last, adoptions[_i].len, adoptions[_i].off);
	check_value(commit(), PF_DTYPE_F32, "F32[2,3]", want, 24);
	ck_assert_int_eq(pf_buffer_adopt(buffer, PF_FORMAT_NPY, "x", true, &err), 0);
	put(numbers + 5, 4, 148);
	check_value(commit(), PF_DTYPE_F32, "F32[2,3]", numbers, 24);
}
END_TEST

START_TEST(another_view_can_be_begun)
{
	make_file();
	make(PF_FORMAT_NPY);
	put(file, sizeof(file), 0);
	commit();
	ck_assert_int_eq(pf_buffer_adopt(buffer, PF_FORMAT_RAW, "x", false, &err), 0);
	ck_assert_uint_eq(buffer->size, 0);
	put(numbers, 24, 0);
	check_value(commit(), PF_DTYPE_F32, "F32[2,3]", numbers, 24);
	make(PF_FORMAT_NPY);
	ck_assert_int_eq(pf_buffer_adopt(buffer, PF_FORMAT_RAW, "x", true, &err),
			 -ENODATA);
}
END_TEST

/* --- values -------------------------------------------------------------------------- */

static void set_state(struct pf_value *v, enum pf_value_state state)
{
	pf_lock(&v->lock);
	v->state = state;
	pf_err_set(&v->err, -ENOSPC, "the device is full");
	pf_unlock(&v->lock);
}

START_TEST(a_refused_upload_is_told)
{
	struct pf_err why = PF_ERR_INIT;
	struct pf_value *v, *got;

	pf_err_set(&why, -ENOSPC, "the device is full");
	make(PF_FORMAT_RAW);
	put("hello", 5, 0);
	v = pf_value_ref(commit());
	pf_buffer_committed(buffer, v, 0, NULL);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "ready");
	pf_buffer_committed(buffer, v, -EIO,
			    &why); /* the worker died: not the bytes' fault */
	ck_assert_str_eq(pf_buffer_state_name(buffer), "ready");
	set_state(v, PF_VALUE_ERROR);
	pf_buffer_committed(buffer, NULL, -ENOSPC, &why); /* some other value's */
	ck_assert_ptr_eq(buffer->value, v);
	pf_buffer_committed(buffer, v, -ENOSPC, &why);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "error");
	ck_assert_int_eq(pf_buffer_value(buffer, &got, &err), -ENOSPC);
	ck_assert_str_eq(err.text, "the device is full");
	pf_value_unref(v);
	check_value(commit(), PF_DTYPE_U8, "U8[5]", "hello", 5);
}
END_TEST

START_TEST(a_shared_value_stays_with_the_others)
{
	struct pf_buffer *other;
	struct pf_value *v;

	make(PF_FORMAT_RAW);
	put("hello", 5, 0);
	v = commit();
	other = pf_buffer_of_value(buffer->place, v, "test");
	ck_assert(!pf_value_donate(v));
	pf_value_donated(v, true);
	pf_buffer_forget_donated(buffer, v);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "donated");
	ck_assert_ptr_null(buffer->value);
	ck_assert_str_ne(pf_buffer_state_name(other), "donated");
	ck_assert(pf_value_donate(v)); /* the last one can give it up */
	pf_value_donated(v, false);
	pf_buffer_unref(other);
}
END_TEST

START_TEST(a_donated_value_takes_its_bytes_along)
{
	struct pf_value *v;

	make(PF_FORMAT_RAW);
	put("hello", 5, 0);
	v = commit();
	pf_buffer_forget_donated(buffer, NULL); /* it was another one's */
	ck_assert_uint_eq(buffer->size, 5);
	ck_assert(pf_value_donate(v));
	pf_value_donated(v, true);
	pf_buffer_forget_donated(buffer, v);
	ck_assert_uint_eq(buffer->size, 0);
	ck_assert_uint_eq(used(), 0);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "donated");
}
END_TEST

START_TEST(a_discarded_buffer_keeps_nothing)
{
	make(PF_FORMAT_RAW);
	put("hello", 5, 0);
	commit();
	pf_buffer_ref(buffer);
	pf_buffer_discard(buffer);
	ck_assert_uint_eq(used(), 0);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "empty");
	pf_buffer_unref(buffer);
}
END_TEST

START_TEST(only_conversions_are_slow)
{
	static char zeros[2 << 20];

	make(PF_FORMAT_RAW);
	put(zeros, sizeof(zeros), 0);
	ck_assert(!pf_buffer_commit_is_slow(buffer));
	pf_buffer_set_format(buffer, PF_FORMAT_TXT);
	ck_assert(pf_buffer_commit_is_slow(buffer));
	ck_assert_int_eq(pf_buffer_truncate(buffer, 1000, &err), 0);
	ck_assert(!pf_buffer_commit_is_slow(buffer));
}
END_TEST

START_TEST(what_is_known_is_told)
{
	pf_autobuf struct pf_buf out = PF_BUF_INIT;

	make(PF_FORMAT_RAW);
	declare(PF_DTYPE_F32, 1, 4, 0);
	put(numbers, 12, 0);
	pf_buffer_describe(buffer, "x", &out);
	ck_assert_ptr_nonnull(strstr(out.data, "\"name\":\"x\""));
	ck_assert_ptr_nonnull(strstr(out.data, "\"state\":\"incomplete\""));
	ck_assert_ptr_nonnull(
		strstr(out.data, "\"dtype\":\"F32\",\"shape\":[4],\"bytes\":16"));
	ck_assert_ptr_nonnull(strstr(out.data, "\"written\":12"));
	ck_assert_ptr_nonnull(strstr(out.data, "\"format\":\"raw\""));
	ck_assert_ptr_eq(strchr(out.data, '\n'), out.data + out.len - 1);
}
END_TEST

static void add_values(Suite *s)
{
	TCase *tc = tcase_create("values");

	tcase_add_checked_fixture(tc, open_arena, close_arena);
	tcase_add_test(tc, a_refused_upload_is_told);
	tcase_add_test(tc, a_shared_value_stays_with_the_others);
	tcase_add_test(tc, a_donated_value_takes_its_bytes_along);
	tcase_add_test(tc, a_discarded_buffer_keeps_nothing);
	tcase_add_test(tc, only_conversions_are_slow);
	tcase_add_test(tc, what_is_known_is_told);
	tcase_add_test(tc, a_scratch_file_is_no_array);
	tcase_add_test(tc, a_rename_gives_another_format);
	unit_add_cases(tc, another_view_can_be_written, adoptions);
	tcase_add_test(tc, another_view_can_be_begun);
	suite_add_tcase(s, tc);
}

int main(void)
{
	Suite *s = suite_create("buffer");
	TCase *tc = tcase_create("writing");

	tcase_add_checked_fixture(tc, open_arena, close_arena);
	unit_add_cases(tc, extensions_name_formats, names);
	unit_add_cases(tc, a_file_may_come_in_pieces, pieces);
	unit_add_cases(tc, data_may_come_in_any_order, orders);
	tcase_add_test(tc, data_may_come_before_the_header);
	unit_add_cases(tc, a_wrong_header_is_refused_at_once, headers);
	tcase_add_test(tc, too_much_is_refused_at_once);
	unit_add_cases(tc, a_part_is_no_array, parts);
	tcase_add_test(tc, column_major_files_are_turned);
	tcase_add_test(tc, undeclared_bytes_are_bytes);
	tcase_add_test(tc, declared_bytes_have_a_size);
	tcase_add_test(tc, one_write_may_not_be_too_long_either);
	tcase_add_test(tc, what_cannot_be_is_not_declared);
	tcase_add_test(tc, no_elements_are_a_whole_array);
	tcase_add_test(tc, holes_are_zeros);
	unit_add_cases(tc, text_becomes_numbers, texts);
	unit_add_cases(tc, writing_after_a_commit_copies, changes);
	tcase_add_test(tc, a_commit_gives_room_back);
	tcase_add_test(tc, truncating_empties);
	unit_add_cases(tc, a_shorter_file_can_be_filled_again, sizes);
	tcase_add_test(tc, the_memory_limit_is_kept);
	unit_add_cases(tc, offsets_have_an_end, ends);
	suite_add_tcase(s, tc);
	add_values(s);
	return unit_run(s);
}
