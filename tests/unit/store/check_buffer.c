/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers: bytes as users write them, and the arrays they become. */
#include <malloc.h>

#include "buffer_fixture.h"

/* --- names --------------------------------------------------------------------------- */

static const struct {
	const char *name;
	enum pf_format format;
	size_t stem;
} names[] = {
	{ "x.npy", PF_FORMAT_NPY, 1 },      { "x.raw", PF_FORMAT_RAW, 1 },
	{ "x.txt", PF_FORMAT_TXT, 1 },      { "x.json", PF_FORMAT_JSON, 1 },
	{ "x", PF_FORMAT_NONE, 1 },         { "", PF_FORMAT_NONE, 0 },
	{ ".npy", PF_FORMAT_NONE, 4 },      { "x.NPY", PF_FORMAT_NONE, 5 },
	{ "x.npyx", PF_FORMAT_NONE, 6 },    { "a.b.raw", PF_FORMAT_RAW, 3 },
	{ "x.npy.txt", PF_FORMAT_TXT, 5 },  { "..npy", PF_FORMAT_NPY, 1 },
	{ "npy", PF_FORMAT_NONE, 3 },       { "x.npy~", PF_FORMAT_NONE, 6 },
	{ "vocab.txt", PF_FORMAT_NONE, 9 },
};

TEST_EACH(extensions_name_formats, names)
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

/* --- raw bytes ----------------------------------------------------------------------- */

TEST(declared_bytes_have_a_size)
{
	make_buffer(PF_FORMAT_RAW);
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

TEST(impossible_types_are_not_declared)
{
	struct pf_shape s = { .rank = 2, .dims = { INT64_C(1) << 40, INT64_C(1) << 40 } };

	make_buffer(PF_FORMAT_RAW);
	ck_assert_int_eq(pf_buffer_declare(buffer, PF_DTYPE_F32, &s, &err), -EOVERFLOW);
	put("x", 1, 0);
	check_value(commit(), PF_DTYPE_U8, "U8[1]", "x", 1);
}

TEST(an_array_without_elements_is_whole)
{
	struct pf_value *v;

	make_buffer(PF_FORMAT_RAW);
	declare(PF_DTYPE_F32, 2, 0, 5);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "ready");
	ok(pf_buffer_value(buffer, &v, &err));
	check_value(v, PF_DTYPE_F32, "F32[0,5]", "", 0);
	pf_value_unref(v);
	ok(pf_buffer_truncate(buffer, 0, &err));
	ck_assert_str_eq(pf_buffer_state_name(buffer), "ready");
	ck_assert_int_eq(pf_buffer_write(buffer, "x", 1, 0, &err), -EINVAL);
}

TEST(holes_are_zeros)
{
	static const char want[110] = { [0] = 'a', [100] = 'b' };

	make_buffer(PF_FORMAT_RAW);
	put("x", 1, 50); /* memory that was used before */
	ok(pf_buffer_truncate(buffer, 0, &err));
	put("b", 1, 100);
	put("a", 1, 0);
	ok(pf_buffer_truncate(buffer, 110, &err));
	check_value(commit(), PF_DTYPE_U8, "U8[110]", want, 110);
}

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

TEST_EACH(text_becomes_numbers, texts)
{
	struct pf_value *v;

	make_buffer(PF_FORMAT_TXT);
	if (texts[_i].dtype)
		declare(texts[_i].dtype, texts[_i].rank, texts[_i].a, texts[_i].b);
	if (texts[_i].shape) {
		put(texts[_i].text, strlen(texts[_i].text), 0);
		check_value(commit(), PF_DTYPE_F32, texts[_i].shape, numbers, 24);
		return;
	}
	ck_assert_int_eq(pf_buffer_write(buffer, texts[_i].text, strlen(texts[_i].text),
					 0, &err),
			 -EINVAL);
	/* The next write would take the place of the refused one. */
	ck_assert_int_eq(pf_buffer_write(buffer, "1\n", 2, 0, &err), -EINVAL);
	ck_assert_int_eq(pf_buffer_commit(buffer, false, &v, &err), -EINVAL);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "error");
	ck_assert_int_eq(pf_buffer_write(buffer, "1\n", 2, 0, &err), -EINVAL);
	ck_assert(pf_buffer_open_writer(buffer, NULL));
	put("1 2 3\n4 5 6\n", 12, 0);
	commit_numbers();
}

/* Only short text in order is parsed before it is whole. */
TEST(text_out_of_order_is_kept_unparsed)
{
	struct pf_value *v;

	make_buffer(PF_FORMAT_TXT);
	put("4 5 6\n", 6, 6);
	put("1 2 3\n", 6, 0);
	commit_numbers();
	ok(pf_buffer_truncate(buffer, 0, &err));
	for (unsigned i = 0; i < (64 << 10) / 8; i++)
		put("1000000\n", 8, i * UINT64_C(8));
	put("one\n", 4, 64 << 10);
	ck_assert_int_eq(pf_buffer_commit(buffer, false, &v, &err), -EINVAL);
}

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

/* A value never changes, nor do neighbouring bytes. */
TEST_EACH(writing_after_a_commit_copies, changes)
{
	size_t size = changes[_i].size, end = changes[_i].off + changes[_i].len;
	char *before = malloc(size), *x = malloc(changes[_i].len);
	struct pf_bytes *near[3];
	struct pf_value *v, *again;

	memset(before, 'o', size);
	memset(x, 'x', changes[_i].len);
	make_buffer(changes[_i].format);
	put(before, size, 0);
	v = pf_value_ref(commit());
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(pf_bytes_new(arena, NULL, 256, &near[i], NULL), 0);
		memset(pf_bytes_at(near[i], 0), 'n', 256);
	}
	put(x, changes[_i].len, changes[_i].off);
	ck_assert_mem_eq(pf_value_host(v), before, size);
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

TEST(a_commit_frees_unused_room)
{
	static char byte[4096];
	uint64_t whole;

	make_buffer(PF_FORMAT_RAW);
	for (uint64_t at = 0; at < (5 << 20); at += sizeof(byte))
		put(byte, sizeof(byte), at);
	whole = used();
	commit();
	ck_assert_uint_lt(used(), whole);
	ck_assert_uint_le(used(), 6 << 20);
}

/* --- size and limits ----------------------------------------------------------------- */

TEST(truncating_empties)
{
	struct pf_value *v;

	make_npy(sizeof(file));
	commit();
	ok(pf_buffer_truncate(buffer, 0, &err));
	ck_assert_str_eq(pf_buffer_state_name(buffer), "empty");
	ck_assert_uint_eq(used(), 0);
	ck_assert_int_eq(pf_buffer_value(buffer, &v, &err), -ENODATA);
	ck_assert_str_eq(err.text, "it is empty");
	put(file, sizeof(file), 0);
	commit();
}

static const uint64_t sizes[] = { 1, 10, 127, 128, 140, 151 };

TEST_EACH(a_shorter_file_can_be_filled_again, sizes)
{
	make_npy(sizeof(file));
	ok(pf_buffer_truncate(buffer, sizes[_i], &err));
	ck_assert_uint_eq(buffer->size, sizes[_i]);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "incomplete");
	put(file + sizes[_i], sizeof(file) - sizes[_i], sizes[_i]);
	commit_numbers();
}

TEST(the_memory_limit_is_kept)
{
	char byte = 1;

	make_buffer(PF_FORMAT_RAW);
	put(&byte, 1, 0);
	ck_assert_int_eq(pf_buffer_write(buffer, &byte, 1, LIMIT, &err), -ENOSPC);
	ck_assert_uint_eq(buffer->size, 1);
	commit_fails(-ENOSPC, "memory limit", "error");
	ck_assert_int_eq(pf_buffer_truncate(buffer, LIMIT + 1, &err), -ENOSPC);
	ck_assert_uint_eq(buffer->size, 1);
	/* A header that needs more memory is refused before its data are written. */
	make_buffer(PF_FORMAT_RAW);
	declare(PF_DTYPE_U8, 1, LIMIT + 1, 0);
	ck_assert_int_eq(pf_buffer_write(buffer, &byte, 1, 0, &err), -ENOSPC);
}

static const struct {
	uint64_t off;
	size_t len;
} ends[] = {
	{ INT64_MAX, 1 }, { UINT64_MAX, 1 }, { UINT64_MAX - 5, 10 }, { INT64_MAX - 1, 2 }
};

TEST_EACH(offsets_have_a_maximum, ends)
{
	make_buffer(PF_FORMAT_NONE);
	ck_assert_int_eq(pf_buffer_write(buffer, "0123456789", ends[_i].len, ends[_i].off,
					 &err),
			 -EFBIG);
	ck_assert_int_eq(pf_buffer_write(buffer, "0123456789", ends[_i].len, ends[_i].off,
					 NULL),
			 -EFBIG);
}

/* Many buffers have short errors or none, and few dimensions: each has memory for these only. */
#ifndef PF_SANITIZE
TEST(a_small_buffer_takes_little_memory)
{
	enum { N = 2000, BYTES = 800 };
	static struct pf_buffer *all[N];
	size_t before = mallinfo2().uordblks, takes;

	for (unsigned i = 0; i < N; i++) {
		make_buffer(PF_FORMAT_RAW);
		put("hello", 5, 0);
		commit();
		all[i] = pf_steal(&buffer);
	}
	takes = (mallinfo2().uordblks - before) / N;
	ck_assert(takes > 0 || !before); /* valgrind's malloc counts nothing */
	ck_assert_uint_lt(takes, BYTES);
	for (unsigned i = 0; i < N; i++)
		pf_buffer_unref(all[i]);
}
#endif

UNIT_FIXTURE(open_arena, close_arena)
