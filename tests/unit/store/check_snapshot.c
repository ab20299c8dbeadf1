/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots: every view of an array, read at every offset. */
#include "values_fixture.h"

#include <semaphore.h>
#include <stdio.h>

#include "pjrtfs/array_files.h"
#include "pjrtfs/buffer.h"

static struct pf_location place;
static struct pf_buffer *b;
static struct pf_snapshot view;

static void open_all(void)
{
	open_values();
	place = (struct pf_location){ .arena = arena, .device_name = "cpu:0" };
}

static void close_all(void)
{
	pf_snapshot_release(&view);
	pf_buffer_unref(pf_steal(&b));
	pf_value_unref(pf_steal(&v));
	pf_values_finish();
	close_arena();
}

struct reader {
	char bytes[4096];
	size_t len;
	int calls;
};

static void take(void *arg, const void *data, size_t len)
{
	struct reader *r = arg;

	ck_assert_uint_le(r->len + len, sizeof(r->bytes));
	memcpy(r->bytes + r->len, data, len);
	r->len += len;
	r->calls++;
}

static void open_view(enum pf_format format)
{
	pf_snapshot_release(&view);
	ok(pf_snapshot_open(b, format, "x", &view, &err));
}

/* Every offset and many lengths give what SRC has there. */
static void check_reads(const char *src, size_t size)
{
	static const size_t lens[] = { 0, 1, 2, 3, 16, 63, 64, 65, 128, 1000, 1 << 20 };

	ck_assert_uint_eq(view.size, size);
	for (size_t off = 0; off <= size + 3; off++) {
		for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
			struct reader r = { .len = 0 };
			size_t left = off < size ? size - off : 0;

			pf_snapshot_read(&view, lens[i], off, take, &r);
			ck_assert_int_eq(r.calls, 1);
			ck_assert_uint_le(r.len, lens[i] < left ? lens[i] : left);
			ck_assert(r.len > 0 || !left || !lens[i]);
			ck_assert_mem_eq(r.bytes, src + (left ? off : 0), r.len);
		}
	}
}

/* The bytes that a snapshot of v as FORMAT must have. */
static void expect(enum pf_format format, struct pf_buf *out)
{
	if (format == PF_FORMAT_TXT) {
		pf_text_print(out, v->dtype, &v->shape, pf_value_host(v));
		return;
	}
	if (format == PF_FORMAT_NPY)
		pf_npy_print(out, v->dtype, &v->shape);
	pf_buf_append(out, pf_value_host(v), v->len);
}

static const struct {
	enum pf_format format;
	enum pf_dtype dtype;
	struct pf_shape shape;
} views[] = {
	{ PF_FORMAT_NPY, PF_DTYPE_F32, { 2, { 2, 3 } } },
	{ PF_FORMAT_RAW, PF_DTYPE_F32, { 2, { 2, 3 } } },
	{ PF_FORMAT_TXT, PF_DTYPE_F32, { 2, { 2, 3 } } },
	{ PF_FORMAT_NPY, PF_DTYPE_F32, { 0 } },
	{ PF_FORMAT_TXT, PF_DTYPE_S32, { 0 } },
	{ PF_FORMAT_NPY, PF_DTYPE_U8, { 1, { 24 } } },
	{ PF_FORMAT_NPY, PF_DTYPE_F32, { 2, { 0, 3 } } },
	{ PF_FORMAT_RAW, PF_DTYPE_F32, { 2, { 0, 3 } } },
	{ PF_FORMAT_TXT, PF_DTYPE_F32, { 2, { 0, 3 } } },
	{ PF_FORMAT_NPY, PF_DTYPE_BF16, { 1, { 12 } } },
};

TEST_EACH(a_value_has_every_view, views)
{
	const struct pf_shape *shape = &views[_i].shape;
	pf_autobuf struct pf_buf want = PF_BUF_INIT;
	uint64_t len;

	ck_assert_int_eq(pf_shape_bytes(shape, views[_i].dtype, &len, NULL), 0);
	v = value_of(views[_i].dtype, shape, counts, len, 0);
	b = pf_buffer_of_value(&place, v, "prog");
	expect(views[_i].format, &want);
	ck_assert_uint_eq(pf_snapshot_size(b, views[_i].format, "x"), want.len);
	open_view(views[_i].format);
	check_reads(want.data ? want.data : "", want.len);
	ck_assert_uint_eq(pf_snapshot_size(b, views[_i].format, "x"), want.len);
	ck_assert_uint_eq(pf_snapshot_bound(b, views[_i].format), 0);
	/* The snapshot holds all that it needs. */
	pf_buffer_unref(pf_steal(&b));
	pf_value_unref(pf_steal(&v));
	check_reads(want.data ? want.data : "", want.len);
	pf_snapshot_release(&view);
	pf_snapshot_release(&view);
}

static void write_file(enum pf_format format, const void *src, size_t len)
{
	b = pf_buffer_new(&place, PF_DEFAULT_MEMORY, format);
	ck_assert_int_eq(pf_buffer_write(b, src, len, 0, &err), (ssize_t)len);
}

static void commit(void)
{
	ok(pf_buffer_commit(b, false, &v, &err));
	pf_value_unref(pf_steal(&v));
}

/* As it was written, byte for byte, even if pjrtfs would write another header. */
TEST(a_file_is_read_as_it_was_written)
{
	static const char text[] = "1 2   3\n4 5 6.0\n\n";

	write_file(PF_FORMAT_TXT, text, strlen(text));
	commit();
	open_view(PF_FORMAT_TXT);
	check_reads(text, strlen(text));
	ck_assert_uint_eq(pf_snapshot_size(b, PF_FORMAT_TXT, "x"), strlen(text));
	open_view(PF_FORMAT_RAW);
	check_reads((const char *)counts, 24);
	ck_assert_uint_eq(pf_snapshot_size(b, PF_FORMAT_NPY, "x"), 128 + 24);
}

TEST(a_snapshot_does_not_change)
{
	write_file(PF_FORMAT_RAW, "0123456789", 10);
	commit();
	open_view(PF_FORMAT_RAW);
	ck_assert_int_eq(pf_buffer_write(b, "abc", 3, 0, &err), 3);
	check_reads("0123456789", 10);
	commit();
	check_reads("0123456789", 10);
	ok(pf_buffer_truncate(b, 0, &err));
	pf_buffer_discard(b);
	check_reads("0123456789", 10);
}

/* All that there is at OFF is WANT. */
static void check_rest(uint64_t off, const char *want)
{
	struct reader r = { .len = 0 };

	pf_snapshot_read(&view, sizeof(r.bytes), off, take, &r);
	ck_assert_uint_eq(r.len, strlen(want));
	ck_assert_mem_eq(r.bytes, want, r.len);
}

TEST(a_growing_file_is_read_as_written_so_far)
{
	b = pf_buffer_new(&place, PF_DEFAULT_MEMORY, PF_FORMAT_RAW);
	open_view(PF_FORMAT_RAW);
	check_rest(0, "");
	ck_assert_int_eq(pf_buffer_write(b, "hello", 5, 0, &err), 5);
	check_rest(1, "ello");
	ok(pf_buffer_truncate(b, 2, &err));
	check_rest(0, "he");
	ok(pf_buffer_truncate(b, 0, &err));
	pf_buffer_unref(pf_steal(&b));
	check_rest(0, "");
}

TEST(bytes_without_an_array_have_one_view)
{
	b = pf_buffer_new(&place, PF_DEFAULT_MEMORY, PF_FORMAT_NPY);
	ck_assert_int_eq(pf_snapshot_open(b, PF_FORMAT_RAW, "x", &view, &err), -ENODATA);
	ck_assert_str_eq(err.text, "no array to show: nothing was written");
	ck_assert_uint_eq(pf_snapshot_size(b, PF_FORMAT_RAW, "x"), 0);
	ck_assert_int_eq(pf_buffer_write(b, "\x93NUM", 4, 0, &err), 4);
	ck_assert_int_eq(pf_buffer_commit(b, false, &v, &err), -EINVAL);
	ck_assert_int_eq(pf_snapshot_open(b, PF_FORMAT_TXT, "x", &view, &err), -ENODATA);
	ck_assert_str_eq(err.text,
			 "no array to show: 4 bytes are not a whole .npy header");
	open_view(PF_FORMAT_NPY);
	check_reads("\x93NUM", 4);
}

TEST(an_open_view_pins_its_value)
{
	v = matrix(counts);
	b = pf_buffer_of_value(&place, v, "prog");
	open_view(PF_FORMAT_RAW);
	ck_assert_uint_eq(v->pins, 1);
	pf_value_pin(v); /* as an execution does */
	ck_assert_int_eq(pf_value_donate(v), PF_DONATION_COPIED); /* it is being read */
	pf_value_donated(v, true);
	pf_value_unpin(v);
	check_reads((const char *)counts, 24);
	pf_snapshot_release(&view);
	ck_assert_uint_eq(v->pins, 0);
	ck_assert_int_lt(pf_snapshot_open(b, PF_FORMAT_RAW, "x", &view, &err), 0);
	ck_assert_uint_eq(pf_snapshot_size(b, PF_FORMAT_RAW, "x"), 0);
}

TEST(a_long_text_is_slow)
{
	static const int64_t sizes[] = { 100, 1 << 20 };

	for (int i = 0; i < 2; i++) {
		struct pf_shape shape = { .rank = 1, .dims = { sizes[i] } };
		char *zeros = calloc(1, (size_t)sizes[i]);

		v = value_of(PF_DTYPE_U8, &shape, zeros, (size_t)sizes[i], 0);
		b = pf_buffer_of_value(&place, v, "prog");
		ck_assert_int_eq(pf_snapshot_is_slow(b, PF_FORMAT_TXT), i);
		ck_assert(!pf_snapshot_is_slow(b, PF_FORMAT_NPY));
		pf_buffer_unref(pf_steal(&b));
		pf_value_unref(pf_steal(&v));
		free(zeros);
	}
}

/* --- text in pieces ------------------------------------------------------------------- */

struct sleeper {
	struct pf_more more;
	sem_t woken;
};

static void wake(struct pf_wait *waiter)
{
	sem_post(&pf_container_of(waiter, struct sleeper, more.waiter)->woken);
}

static void append(void *arg, const void *data, size_t len)
{
	pf_buf_append(arg, data, len);
}

/* Wait until LEN bytes at OFF are there, and append them to OUT. */
static void read_text(uint64_t len, uint64_t off, struct pf_buf *out)
{
	struct sleeper s = { .more.waiter.wake = wake };

	sem_init(&s.woken, 0, 0);
	if (pf_snapshot_await(&view, len, off, &s.more) == 0)
		while (sem_wait(&s.woken))
			;
	ck_assert_int_eq(pf_snapshot_await(&view, len, off, NULL), 1);
	pf_snapshot_read(&view, len, off, append, out);
	sem_destroy(&s.woken);
}

static const struct {
	enum pf_dtype dtype;
	struct pf_shape shape;
} long_texts[] = {
	{ PF_DTYPE_U8, { 1, { 3000000 } } },
	{ PF_DTYPE_F32, { 2, { 100000, 5 } } },
	{ PF_DTYPE_F32, { 3, { 30000, 3, 7 } } },
	{ PF_DTYPE_C64, { 4, { 50, 20, 100, 3 } } },
	{ PF_DTYPE_PRED, { 3, { 200000, 1, 1 } } },
};

static void long_text(int i, struct pf_buf *want)
{
	const struct pf_shape *shape = &long_texts[i].shape;
	uint64_t len;
	char *bytes;

	ck_assert_int_eq(pf_shape_bytes(shape, long_texts[i].dtype, &len, NULL), 0);
	bytes = malloc(len);
	for (uint64_t at = 0; at < len; at++)
		bytes[at] = (char)(long_texts[i].dtype == PF_DTYPE_PRED ? at % 2
									: at * 7 / 5);
	v = value_of(long_texts[i].dtype, shape, bytes, len, 0);
	pf_text_print(want, v->dtype, &v->shape, bytes);
	free(bytes);
	b = pf_buffer_of_value(&place, v, "prog");
}

TEST_EACH(long_text_is_rendered_as_it_is_read, long_texts)
{
	pf_autobuf struct pf_buf want = PF_BUF_INIT, got = PF_BUF_INIT, far = PF_BUF_INIT;

	long_text(_i, &want);
	ck_assert_int_eq(pf_snapshot_begin(b, PF_FORMAT_TXT, &view), 1);
	ck_assert(!pf_snapshot_is_sized(&view));
	ck_assert_uint_gt(pf_snapshot_bound(b, PF_FORMAT_TXT), want.len);
	/* Not in order; then up to the end and beyond. */
	read_text(1000, want.len / 2, &far);
	ck_assert_uint_eq(far.len, 1000);
	ck_assert_mem_eq(far.data, want.data + want.len / 2, 1000);
	while (got.len < want.len)
		read_text(77777, got.len, &got);
	read_text(77777, got.len, &got);
	read_text(UINT64_MAX, got.len + 5, &got);
	ck_assert_uint_eq(got.len, want.len);
	ck_assert(!memcmp(got.data, want.data, want.len));
	ck_assert(pf_snapshot_is_sized(&view));
	ck_assert_uint_eq(view.size, want.len);
	ck_assert_uint_eq(pf_snapshot_size(b, PF_FORMAT_TXT, "x"), want.len);
	ck_assert_uint_eq(pf_snapshot_bound(b, PF_FORMAT_TXT), 0);
	ck_assert_uint_eq(view.array->pins, 0);
}

/* The reader leaves before the end, or before it has read at all. */
TEST(unread_text_is_not_rendered)
{
	pf_autobuf struct pf_buf want = PF_BUF_INIT, got = PF_BUF_INIT;

	long_text(0, &want);
	for (int i = 0; i < 20; i++) {
		ck_assert_int_eq(pf_snapshot_begin(b, PF_FORMAT_TXT, &view), 1);
		if (i)
			read_text(100, 0, &got);
		pf_snapshot_release(&view);
	}
	ck_assert_uint_eq(got.len, 1900);
	ck_assert_uint_gt(pf_snapshot_bound(b, PF_FORMAT_TXT), want.len);
	ck_assert_uint_eq(pf_snapshot_size(b, PF_FORMAT_TXT, "x"), 0);
}

TEST(short_text_is_not_rendered_in_pieces)
{
	v = matrix(counts);
	b = pf_buffer_of_value(&place, v, "prog");
	ck_assert_int_eq(pf_snapshot_begin(b, PF_FORMAT_TXT, &view), 0);
	ck_assert_int_eq(pf_snapshot_begin(b, PF_FORMAT_NPY, &view), 0);
}

UNIT_FIXTURE(open_all, close_all)
