/* SPDX-License-Identifier: Apache-2.0 */
/* A buffer to write to, in an arena of its own, and what is expected of its value. */
#ifndef PJRTFS_TESTS_UNIT_BUFFER_FIXTURE_H
#define PJRTFS_TESTS_UNIT_BUFFER_FIXTURE_H

#include "store/internal.h"

#include <errno.h>
#include <string.h>

#include "err_fixture.h"

enum { LIMIT = 64 << 20 };

static struct pf_arena *arena;
static struct pf_location place;
static struct pf_buffer *buffer;

static inline uint64_t used(void)
{
	uint64_t n, limit;

	pf_arena_usage(arena, &n, &limit);
	return n;
}

static const float numbers[6] = { 1, 2, 3, 4, 5, 6 };
static char file[152]; /* F32[2,3] */

static inline void make_file(void)
{
	struct pf_shape s = { .rank = 2, .dims = { 2, 3 } };
	pf_autobuf struct pf_buf head = PF_BUF_INIT;

	pf_npy_print(&head, PF_DTYPE_F32, &s);
	ck_assert_uint_eq(head.len, 128);
	memcpy(file, head.data, 128);
	memcpy(file + 128, numbers, 24);
}

static inline void open_arena(void)
{
	ck_assert_int_eq(pf_arena_new(LIMIT, &arena, NULL), 0);
	place = (struct pf_location){ .arena = arena, .device_name = "cpu:0" };
	err = (struct pf_err)PF_ERR_INIT;
	make_file();
}

static inline void close_arena(void)
{
	pf_buffer_unref(buffer);
	buffer = NULL;
	ck_assert_uint_eq(used(), 0);
	pf_arena_free(arena);
}

static inline void make_buffer(enum pf_format format)
{
	pf_buffer_unref(buffer);
	buffer = pf_buffer_new(&place, PF_DEFAULT_MEMORY, format);
	ck_assert_ptr_nonnull(buffer);
}

static inline void put(const void *src, size_t len, uint64_t off)
{
	ck_assert_msg(pf_buffer_write(buffer, src, len, off, &err) == (ssize_t)len, "%s",
		      err.text);
}

static inline void declare(enum pf_dtype dtype, unsigned rank, int64_t a, int64_t b)
{
	struct pf_shape s = { .rank = rank, .dims = { a, b } };

	ok(pf_buffer_declare(buffer, dtype, &s, &err));
}

/* The committed value, which the buffer keeps. */
static inline struct pf_value *commit(void)
{
	struct pf_value *v;

	ok(pf_buffer_commit(buffer, false, &v, &err));
	ck_assert_str_eq(pf_buffer_state_name(buffer), "ready");
	pf_value_unref(v);
	return v;
}

/* A buffer of the bytes of TEXT, which are an array. */
static inline struct pf_value *make_bytes(const char *text)
{
	make_buffer(PF_FORMAT_RAW);
	put(text, strlen(text), 0);
	return commit();
}

/* A buffer of the first LEN bytes of file. */
static inline void make_npy(size_t len)
{
	make_buffer(PF_FORMAT_NPY);
	put(file, len, 0);
}

static inline void commit_fails(int code, const char *why, const char *state)
{
	struct pf_value *v;
	struct pf_err first = PF_ERR_INIT;

	ck_assert_int_eq(pf_buffer_commit(buffer, false, &v, &first), code);
	ck_assert_ptr_null(v);
	ck_assert_int_eq(first.code, code);
	ck_assert_msg(strstr(first.text, why) != NULL, "%s", first.text);
	ck_assert_str_eq(pf_buffer_state_name(buffer), state);
}

static inline void check_value(struct pf_value *v, enum pf_dtype dtype, const char *shape,
			       const void *bytes, size_t len)
{
	char text[64];

	ck_assert_int_eq(v->dtype, dtype);
	ck_assert_str_eq(pf_shape_str(text, sizeof(text), dtype, &v->shape), shape);
	ck_assert_uint_eq(v->len, len);
	ck_assert_mem_eq(pf_value_host(v), bytes, len);
}

/* The bytes that were written become the array of file. */
static inline void commit_numbers(void)
{
	check_value(commit(), PF_DTYPE_F32, "F32[2,3]", numbers, 24);
}

#endif
