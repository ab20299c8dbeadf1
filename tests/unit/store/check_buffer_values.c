/* SPDX-License-Identifier: Apache-2.0 */
/* Values of buffers: seen as another format, refused, shared, donated. */
#include "buffer_fixture.h"

/* --- other formats ------------------------------------------------------------------- */

TEST(a_scratch_file_is_not_an_array)
{
	struct pf_value *v;

	make_buffer(PF_FORMAT_NONE);
	put("anything", 8, 0);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "scratch");
	ck_assert_int_eq(pf_buffer_commit(buffer, false, &v, &err), 1);
	ck_assert_int_eq(pf_buffer_value(buffer, &v, &err), -ENOENT);
	ck_assert_str_eq(err.text, "it is a scratch file, no array");
}

TEST(a_rename_gives_another_format)
{
	make_buffer(PF_FORMAT_NONE);
	put(file, sizeof(file), 0);
	ok(pf_buffer_check(buffer, PF_FORMAT_NPY, &err));
	pf_buffer_set_format(buffer, PF_FORMAT_NPY);
	commit_numbers();
	pf_buffer_set_format(buffer, PF_FORMAT_NONE);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "scratch");
	ok(pf_buffer_truncate(buffer, 151, &err));
	ck_assert_int_eq(pf_buffer_check(buffer, PF_FORMAT_NPY, &err), -EINVAL);
	ok(pf_buffer_check(buffer, PF_FORMAT_NONE, &err));
	ok(pf_buffer_check(buffer, PF_FORMAT_RAW, &err));
}

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

TEST_EACH(another_view_can_be_written, adoptions)
{
	static const float want[6] = { 1, 2, 3, 4, 5, 9 };

	make_npy(sizeof(file));
	commit();
	ok(pf_buffer_adopt(buffer, adoptions[_i].to, "x", true, &err));
	put(adoptions[_i].last, adoptions[_i].len, adoptions[_i].off);
	check_value(commit(), PF_DTYPE_F32, "F32[2,3]", want, 24);
	ok(pf_buffer_adopt(buffer, PF_FORMAT_NPY, "x", true, &err));
	put(numbers + 5, 4, 148);
	commit_numbers();
}

TEST(a_partial_write_may_use_another_view)
{
	make_npy(sizeof(file));
	commit();
	ok(pf_buffer_adopt(buffer, PF_FORMAT_RAW, "x", false, &err));
	ck_assert_uint_eq(buffer->size, 0);
	put(numbers, 24, 0);
	commit_numbers();
	make_buffer(PF_FORMAT_NPY);
	ck_assert_int_eq(pf_buffer_adopt(buffer, PF_FORMAT_RAW, "x", true, &err),
			 -ENODATA);
}

/* --- values -------------------------------------------------------------------------- */

static void set_state(struct pf_value *v, enum pf_value_state state)
{
	struct pf_err why = PF_ERR_INIT;

	pf_err_set(&why, -ENOSPC, "the device is full");
	pf_lock(&v->lock);
	v->state = state;
	pf_err_keep(&v->err, &why);
	pf_unlock(&v->lock);
}

TEST(a_refused_upload_is_reported)
{
	struct pf_err why = PF_ERR_INIT;
	struct pf_value *v, *got;

	pf_err_set(&why, -ENOSPC, "the device is full");
	v = pf_value_ref(make_bytes("hello"));
	pf_buffer_transferred(buffer, v, 0, NULL);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "ready");
	pf_buffer_transferred(buffer, v, -EIO,
			      &why); /* the worker died: not the bytes' fault */
	ck_assert_str_eq(pf_buffer_state_name(buffer), "ready");
	set_state(v, PF_VALUE_ERROR);
	pf_buffer_transferred(buffer, NULL, -ENOSPC, &why); /* some other value's */
	ck_assert_ptr_eq(buffer->value, v);
	pf_buffer_transferred(buffer, v, -ENOSPC, &why);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "error");
	ck_assert_int_eq(pf_buffer_value(buffer, &got, &err), -ENOSPC);
	ck_assert_str_eq(err.text, "the device is full");
	pf_value_unref(v);
	check_value(commit(), PF_DTYPE_U8, "U8[5]", "hello", 5);
}

TEST(other_buffers_keep_a_shared_value)
{
	struct pf_buffer *other;
	struct pf_value *v;

	v = make_bytes("hello");
	other = pf_buffer_of_value(buffer->location, v, "test");
	ck_assert_int_eq(pf_value_donate(v), PF_DONATION_SHARED);
	pf_buffer_forget_donated(buffer, v);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "donated");
	ck_assert_ptr_null(buffer->value);
	ck_assert_str_ne(pf_buffer_state_name(other), "donated");
	/* the last one can give it up */
	ck_assert_int_eq(pf_value_donate(v), PF_DONATION_COPIED);
	pf_value_donated(v, false);
	pf_buffer_unref(other);
}

TEST(a_donated_value_loses_its_bytes)
{
	struct pf_value *v;

	v = make_bytes("hello");
	pf_buffer_forget_donated(buffer, NULL); /* it was another one's */
	ck_assert_uint_eq(buffer->size, 5);
	ck_assert_int_eq(pf_value_donate(v), PF_DONATION_COPIED);
	pf_value_donated(v, true);
	pf_buffer_forget_donated(buffer, v);
	ck_assert_uint_eq(buffer->size, 0);
	ck_assert_uint_eq(used(), 0);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "donated");
}

TEST(a_discarded_buffer_keeps_nothing)
{
	make_bytes("hello");
	pf_buffer_ref(buffer);
	pf_buffer_discard(buffer);
	ck_assert_uint_eq(used(), 0);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "empty");
	pf_buffer_unref(buffer);
}

TEST(only_conversions_are_slow)
{
	static char zeros[2 << 20];

	make_buffer(PF_FORMAT_RAW);
	put(zeros, sizeof(zeros), 0);
	ck_assert(!pf_buffer_commit_is_slow(buffer));
	pf_buffer_set_format(buffer, PF_FORMAT_TXT);
	ck_assert(pf_buffer_commit_is_slow(buffer));
	ok(pf_buffer_truncate(buffer, 1000, &err));
	ck_assert(!pf_buffer_commit_is_slow(buffer));
}

TEST(known_types_and_shapes_are_reported)
{
	pf_autobuf struct pf_buf out = PF_BUF_INIT;
	struct json_object *o;

	make_buffer(PF_FORMAT_RAW);
	declare(PF_DTYPE_F32, 1, 4, 0);
	put(numbers, 12, 0);
	o = pf_buffer_json(buffer, "x");
	pf_json_print_line(o, &out);
	json_object_put(o);
	ck_assert_ptr_nonnull(strstr(out.data, "\"name\":\"x\""));
	ck_assert_ptr_nonnull(strstr(out.data, "\"state\":\"incomplete\""));
	ck_assert_ptr_nonnull(
		strstr(out.data, "\"dtype\":\"F32\",\"shape\":[4],\"bytes\":16"));
	ck_assert_ptr_nonnull(strstr(out.data, "\"written\":12"));
	ck_assert_ptr_nonnull(strstr(out.data, "\"format\":\"raw\""));
	ck_assert_ptr_eq(strchr(out.data, '\n'), out.data + out.len - 1);
}

UNIT_FIXTURE(open_arena, close_arena)
