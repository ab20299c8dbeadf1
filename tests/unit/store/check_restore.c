/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of an earlier life: the bytes, the array, the state. */
#include "store/internal.h"

#include <stdlib.h>

#include "restore_fixture.h"

static uint64_t id;

static void forget(void)
{
	id = buffer->id;
	pf_buffer_unref(pf_steal(&buffer));
}

static int restored(void)
{
	return pf_buffer_restore(restore, id, find_place, NULL, &buffer, &err);
}

/* Die, and find the buffer again. */
static void restart(void)
{
	next_life(forget);
	ck_assert_msg(restored() == 0, "%s", err.text);
	end_restore();
}

static void end(void)
{
	pf_buffer_unref(pf_steal(&buffer));
	end_life();
}

static void keep_byte(void *arg, const void *data, size_t len)
{
	pf_buf_append(arg, data, len);
}

/* Readers of FORMAT get LEN bytes, those at SRC. */
static void check_file(enum pf_format format, const void *src, size_t len)
{
	pf_autobuf struct pf_buf got = PF_BUF_INIT;
	struct pf_snapshot snapshot;

	ok(pf_snapshot_open(buffer, format, "x", &snapshot, &err));
	ck_assert_uint_eq(pf_snapshot_size(buffer, format, "x"), len);
	while (got.len < len) {
		size_t before = got.len;

		pf_snapshot_read(&snapshot, len, got.len, keep_byte, &got);
		ck_assert_uint_gt(got.len, before);
	}
	if (len)
		ck_assert_mem_eq(got.data, src, len);
	pf_snapshot_release(&snapshot);
}

TEST(a_closed_array_comes_back)
{
	struct timespec made;
	uint64_t before;

	make_npy(sizeof(file));
	commit();
	made = buffer->made;
	pf_value_set_layout(buffer->value,
			    &(struct pf_layout){ .minor_to_major = { 0, 1 } });
	pf_value_replaces(buffer->value, false); /* writes the record */
	before = used();
	for (int i = 0; i < 3; i++) {
		restart();
		ck_assert_uint_eq(used(), before);
		ck_assert_str_eq(pf_buffer_state_name(buffer), "ready");
		check_value(buffer->value, PF_DTYPE_F32, "F32[2,3]", numbers, 24);
		check_file(PF_FORMAT_NPY, file, sizeof(file));
		check_file(PF_FORMAT_RAW, numbers, 24);
		ck_assert_mem_eq(&buffer->made, &made, sizeof(made));
		ck_assert(!pf_value_is_row_major(buffer->value));
		ck_assert_str_eq(pf_buffer_maker(buffer), "upload");
		ck_assert_uint_eq(buffer->id, id);
		ck_assert_ptr_eq(pf_buffer_location(buffer), &place);
	}
}

/* A client that writes goes on where it was. */
TEST(a_file_is_written_to_its_end)
{
	make_buffer(PF_FORMAT_NPY);
	for (size_t i = 0; i < sizeof(file); i += 19) {
		put(file + i, 19, i);
		restart();
		check_file(PF_FORMAT_NPY, file, i + 19);
	}
	commit();
	restart();
	check_value(buffer->value, PF_DTYPE_F32, "F32[2,3]", numbers, 24);
}

TEST(a_header_limits_what_is_written_after_a_restart)
{
	make_npy(140);
	restart();
	ck_assert_int_eq(pf_buffer_write(buffer, file, 13, 140, &err), -EINVAL);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "error");
	restart();
	ck_assert_str_eq(pf_buffer_state_name(buffer), "error");
	ck_assert_msg(strstr(buffer->err.text, "a write ends at 153") != NULL, "%s",
		      buffer->err.text);
	commit_fails(-EINVAL, "a write ends at 153", "error");
}

/* A file of which TEXT was written and, if it is an ARRAY, committed; then OVER its second byte. */
static const struct {
	enum pf_format format;
	const char *text;
	bool array;
	const char *over, *state, *file;
} files[] = {
	{ PF_FORMAT_NPY, "", false, NULL, "empty", "" },
	{ PF_FORMAT_NPY, "\x93NU", false, NULL, "incomplete", "\x93NU" },
	{ PF_FORMAT_NONE, "notes", false, NULL, "scratch", "notes" },
	{ PF_FORMAT_RAW, "abcd", false, NULL, "incomplete", "abcd" },
	{ PF_FORMAT_RAW, "abcd", true, NULL, "ready", "abcd" },
	{ PF_FORMAT_RAW, "abcd", true, "x", "incomplete", "axcd" },
	{ PF_FORMAT_TXT, "1 2\n3 4\n", true, NULL, "ready", "1 2\n3 4\n" },
};

TEST_EACH(a_file_comes_back_in_its_state, files)
{
	make_buffer(files[_i].format);
	if (*files[_i].text)
		put(files[_i].text, strlen(files[_i].text), 0);
	if (files[_i].array)
		commit();
	if (files[_i].over)
		put(files[_i].over, strlen(files[_i].over), 1);
	restart();
	ck_assert_str_eq(pf_buffer_state_name(buffer), files[_i].state);
	check_file(files[_i].format, files[_i].file, strlen(files[_i].file));
}

TEST(text_has_its_array_again)
{
	static const float four[] = { 1, 2, 3, 4 };

	make_buffer(PF_FORMAT_TXT);
	put("1 2\n3 4\n", 8, 0);
	commit();
	restart();
	check_value(buffer->value, PF_DTYPE_F32, "F32[2,2]", four, 16);
}

/* Without bytes, and without the record of any. */
TEST_TIMES(an_emptied_buffer_is_empty, 2)
{
	make_bytes("abcd");
	if (_i)
		pf_buffer_discard(buffer);
	else
		ok(pf_buffer_truncate(buffer, 0, &err));
	restart();
	ck_assert_uint_eq(used(), 0);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "empty");
}

TEST(another_format_stays)
{
	make_buffer(PF_FORMAT_NONE);
	put("notes", 5, 0);
	pf_buffer_set_format(buffer, PF_FORMAT_RAW);
	restart();
	ck_assert_str_eq(pf_buffer_state_name(buffer), "incomplete");
	commit();
}

TEST(what_is_declared_stays)
{
	struct pf_buffer_facts facts;
	char text[64];

	make_buffer(PF_FORMAT_RAW);
	declare(PF_DTYPE_BF16, 2, 2, 3);
	restart();
	pf_buffer_facts(buffer, &facts);
	ck_assert_str_eq(pf_shape_str(text, sizeof(text), facts.dtype, &facts.shape),
			 "BF16[2,3]");
	put("0123456789ab", 12, 0);
	check_value(commit(), PF_DTYPE_BF16, "BF16[2,3]", "0123456789ab", 12);
}

/* A shell goes on after a refused line; so does the refusal. */
TEST(a_refused_line_stays_refused)
{
	make_buffer(PF_FORMAT_TXT);
	put("1 2\n", 4, 0);
	ck_assert_int_eq(pf_buffer_write(buffer, "x\n", 2, 4, &err), -EINVAL);
	restart();
	ck_assert_int_eq(pf_buffer_write(buffer, "3 4\n", 4, 4, &err), -EINVAL);
	ck_assert(pf_buffer_open_writer(buffer, NULL));
	restart();
	put("3 4\n", 4, 4);
	commit();
}

/* Data that were moved for their alignment, and a file of several arrays. */
TEST(safetensors_come_back)
{
	static const char text[] =
		"{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
		"\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]}}";
	struct pf_tensors tensors;
	char data[8 + sizeof(text) - 1 + 5];
	struct pf_value *v;
	uint64_t len = sizeof(text) - 1, before;

	memcpy(data, &len, 8);
	memcpy(data + 8, text, len);
	memcpy(data + 8 + len, "abcde", 5);
	make_buffer(PF_FORMAT_SAFETENSORS);
	put(data, 4, 0);
	put(data + 4, 56, 4);
	before = used();
	restart();
	ck_assert_uint_eq(used(), before); /* the place that they moved to */
	put(data + 60, sizeof(data) - 60, 60);
	ck_assert_int_eq(pf_buffer_commit(buffer, false, &v, &err), 2);
	restart();
	ck_assert(pf_buffer_is_tensors(buffer));
	ck_assert_uint_eq(buffer->tensors, 2);
	check_file(PF_FORMAT_SAFETENSORS, data, sizeof(data));
	ok(pf_buffer_tensors(buffer, &place, &tensors, &err));
	ck_assert_mem_eq(pf_value_host(tensors.values[1]), "de", 2);
	pf_tensors_release(&tensors);
}

/* --- what is shared ------------------------------------------------------------------- */

static struct pf_buffer *copy;
static uint64_t copy_id;

static void forget_both(void)
{
	forget();
	copy_id = copy->id;
	pf_buffer_unref(pf_steal(&copy));
}

TEST(two_buffers_share_their_bytes_again)
{
	struct pf_snapshot snapshot;
	struct pf_value *v;
	uint64_t before;

	make_bytes("abcd");
	ok(pf_snapshot_open(buffer, PF_FORMAT_RAW, "x", &snapshot, &err));
	copy = pf_buffer_new(&place, PF_DEFAULT_MEMORY, PF_FORMAT_RAW);
	ck_assert(pf_buffer_take(copy, &snapshot, &v));
	pf_value_unref(v);
	pf_snapshot_release(&snapshot);
	before = used();
	next_life(forget_both);
	ck_assert_int_eq(restored(), 0);
	ok(pf_buffer_restore(restore, copy_id, find_place, NULL, &copy, &err));
	ck_assert_ptr_eq(copy->value, buffer->value);
	ck_assert_ptr_eq(copy->content, buffer->content);
	ck_assert_uint_eq(atomic_load(&copy->value->holders), 2);
	end_restore();
	ck_assert_uint_eq(used(), before);
	put("x", 1, 0);
	ck_assert_mem_eq(pf_value_host(copy->value), "abcd", 4);
	next_life(forget_both);
	ck_assert_int_eq(restored(), 0);
	end_restore(); /* nothing asks for the copy, which is freed */
	check_file(PF_FORMAT_RAW, "xbcd", 4);
}

TEST(the_same_number_is_the_same_buffer)
{
	struct pf_buffer *again;

	make_buffer(PF_FORMAT_RAW);
	next_life(forget);
	ck_assert_int_eq(restored(), 0);
	ok(pf_buffer_restore(restore, id, find_place, NULL, &again, &err));
	ck_assert_ptr_eq(again, buffer);
	pf_buffer_unref(again);
	end_restore();
}

/* --- what does not come back ---------------------------------------------------------- */

TEST(a_device_may_be_gone)
{
	make_buffer(PF_FORMAT_RAW);
	put("abcd", 4, 0);
	place.device_name = "gpu:1";
	next_life(forget);
	ck_assert_int_eq(restored(), -ENODEV);
	ck_assert_str_eq(err.text, "there is no device cpu:0 any more");
	end_restore();
}

TEST(an_unknown_number_is_refused)
{
	make_buffer(PF_FORMAT_RAW);
	next_life(forget);
	id += 1000;
	ck_assert_int_eq(restored(), -ENOENT);
	end_restore();
}

static const struct {
	enum pf_state_type type;
	size_t len;
} cut[] = { { PF_STATE_BUFFER, 40 }, { PF_STATE_VALUE, 30 }, { PF_STATE_VALUE, 0 } };

TEST_EACH(a_damaged_record_is_refused, cut)
{
	static const char zeros[64];
	uint64_t which;

	make_bytes("abcd");
	which = cut[_i].type == PF_STATE_BUFFER ? buffer->id : buffer->value->state_id;
	pf_state_put(cut[_i].type, which, zeros, cut[_i].len, NULL, 0);
	next_life(forget);
	ck_assert_int_eq(restored(), -EPROTO);
	end_restore();
}

static const uint64_t wrong_offs[] = { 1 << 20, UINT64_MAX - 2 };

TEST_EACH(a_value_beyond_its_bytes_is_lost, wrong_offs)
{
	struct pf_value_record record = { 0 };
	const void *old;
	size_t len;

	make_bytes("abcd");
	old = pf_state_get(PF_STATE_VALUE, buffer->value->state_id, &len);
	ck_assert_uint_le(len, sizeof(record));
	memcpy(&record, old, len);
	record.off = wrong_offs[_i];
	pf_state_put(PF_STATE_VALUE, buffer->value->state_id, &record, len, NULL, 0);
	restart();
	ck_assert_str_eq(pf_buffer_state_name(buffer), "lost");
	ck_assert_ptr_null(pf_value_host(buffer->value));
}

/* Behind the bytes of a file are those of others. */
TEST(a_file_that_is_longer_than_its_bytes_is_empty)
{
	struct pf_buffer_record record = { 0 };
	const void *old;
	size_t len;

	make_buffer(PF_FORMAT_RAW);
	put("abcd", 4, 0);
	old = pf_state_get(PF_STATE_BUFFER, buffer->id, &len);
	ck_assert_uint_le(len, sizeof(record));
	memcpy(&record, old, len);
	record.size = buffer->content->extent.len + 1;
	pf_state_put(PF_STATE_BUFFER, buffer->id, &record, len, NULL, 0);
	restart();
	ck_assert_str_eq(pf_buffer_state_name(buffer), "empty");
	check_file(PF_FORMAT_RAW, "", 0);
}

TEST(no_number_is_given_twice)
{
	uint64_t last;

	make_bytes("abcd");
	last = buffer->value->state_id;
	restart();
	copy = pf_buffer_new(&place, PF_DEFAULT_MEMORY, PF_FORMAT_RAW);
	ck_assert_uint_gt(copy->id, last);
	pf_buffer_unref(copy);
}

/* A daemon that dies while it forgets, or makes, the arena of a user leaves half of it. */
TEST_TIMES(half_of_an_arena_without_bytes_is_forgotten, 2)
{
	struct pf_arena *other;
	struct pf_kept kept[2];
	size_t n;
	int state;

	ok(pf_arena_new_for(arena, 1001, &other, &err));
	state = dup(pf_state_fd());
	kept[0] = (struct pf_kept){ "arena", dup(pf_arena_own_fd(arena)) };
	kept[1] = (struct pf_kept){ "arena.1001", dup(pf_arena_own_fd(other)) };
	if (_i)
		pf_state_drop(PF_STATE_ARENA, pf_arena_number(other));
	pf_state_close();
	pf_arena_free(other);
	pf_arena_free(arena);
	ok(pf_state_open(state, &err));
	ok(pf_restore_begin(kept, _i ? 2 : 1, LIMIT, &arena, &restore, &err));
	close(kept[0].fd);
	close(kept[1].fd);
	end_restore();
	free(pf_state_list(PF_STATE_ARENA, &n));
	ck_assert_uint_eq(n, 1);
}

UNIT_FIXTURE(begin, end)
