/* SPDX-License-Identifier: Apache-2.0 */
/* .safetensors files in buffers: of one tensor, of several, and damaged ones. */
#include "safetensors_text.h"

#include "buffer_fixture.h"

static struct pf_buf whole; /* file */

static void open_all(void)
{
	open_arena();
	make_buffer(PF_FORMAT_SAFETENSORS);
}

static void close_all(void)
{
	pf_buf_release(&whole);
	close_arena();
}

/* A file of the header TEXT and LEN bytes of data: 0, 1, 2 ... */
static void compose(const char *text, size_t len)
{
	pf_buf_release(&whole);
	whole = make(text, strlen(text));
	for (size_t i = 0; i < len; i++)
		pf_buf_append(&whole, &(char){ (char)i }, 1);
}

static ssize_t put_part(size_t off, size_t len)
{
	return pf_buffer_write(buffer, whole.data + off, len, off, &err);
}

static int try_commit(struct pf_value **v)
{
	err = (struct pf_err)PF_ERR_INIT;
	return pf_buffer_commit(buffer, false, v, &err);
}

/* A file of one tensor is an array, with any tensor name and in any pieces. */
TEST_TIMES(a_file_of_one_tensor_is_an_array, 199)
{
	size_t piece = (size_t)_i + 1;
	struct pf_value *v;
	const char *host;

	compose("{\"a/b.npy\":" OF("F32", "[2,3]", "[0,24]") "}", 24);
	for (size_t at = 0; at < whole.len; at += piece)
		ck_assert_int_gt(put_part(at, whole.len - at < piece ? whole.len - at
								     : piece),
				 0);
	ck_assert_msg(try_commit(&v) == 0, "%s", err.text);
	ck_assert_int_eq(v->dtype, PF_DTYPE_F32);
	ck_assert_uint_eq(v->shape.rank, 2);
	ck_assert_uint_eq(v->len, 24);
	host = pf_value_host(v);
	ck_assert_mem_eq(host, whole.data + whole.len - 24, 24);
	/* Plugins take them in place. */
	ck_assert_uint_eq(pf_bytes_offset(v->bytes, v->bytes_off) % 64, 0);
	ck_assert(!pf_buffer_is_tensors(buffer));
	pf_value_unref(v);
}

TEST(four_bits_of_a_number_are_unpacked)
{
	struct pf_value *v;

	compose(X("I4", "[3]", "[0,2]"), 0);
	pf_buf_append(&whole, "\xf1\x07", 2);
	put_part(0, whole.len);
	ck_assert_msg(try_commit(&v) == 0, "%s", err.text);
	ck_assert_int_eq(v->dtype, PF_DTYPE_S4);
	ck_assert_uint_eq(v->len, 3);
	ck_assert_mem_eq(pf_value_host(v), "\x01\xff\x07", 3);
	pf_value_unref(v);
}

#define TWO                                                                              \
	"{\"b\":" OF("F32", "[2]", "[4,12]") ",\"a\":" OF("I4", "[2,4]", "[0,4]") "}  "

static void check_two(const struct pf_tensors *t)
{
	ck_assert_uint_eq(t->n, 2);
	ck_assert_str_eq(t->head.tensors[0].name, "a");
	ck_assert_str_eq(t->head.tensors[1].name, "b");
	ck_assert_int_eq(t->values[0]->dtype, PF_DTYPE_S4);
	ck_assert_uint_eq(t->values[0]->len, 8);
	ck_assert_mem_eq(pf_value_host(t->values[0]), "\0\0\1\0\2\0\3\0", 8);
	ck_assert_uint_eq(t->values[1]->len, 8);
	ck_assert_mem_eq(pf_value_host(t->values[1]), "\4\5\6\7\10\11\12\13", 8);
}

TEST(a_file_of_several_tensors_is_no_array)
{
	struct pf_tensors t;
	struct pf_snapshot view;
	struct pf_segment of_content;
	struct pf_value *v;
	struct json_object *o;
	pf_autobuf struct pf_buf json = PF_BUF_INIT;

	compose(TWO, 12);
	put_part(0, whole.len);
	ck_assert(!pf_buffer_is_tensors(buffer));
	ck_assert_int_eq(try_commit(&v), 2);
	ck_assert_ptr_null(v);
	ck_assert(pf_buffer_is_tensors(buffer));
	ck_assert_str_eq(pf_buffer_state_name(buffer), "ready");
	ck_assert_int_eq(pf_buffer_value(buffer, &v, &err), -EISDIR);
	o = pf_buffer_json(buffer, "x");
	pf_json_print_line(o, &json);
	json_object_put(o);
	ck_assert_ptr_nonnull(strstr(json.data, "\"tensors\":2"));

	ok(pf_buffer_tensors(buffer, &place, &t, &err));
	check_two(&t);
	/* An array that is not unpacked shares the file's bytes. */
	pf_bytes_segment(buffer->content, &of_content);
	ck_assert_ptr_eq(t.values[1]->bytes, buffer->content);
	ck_assert_ptr_ne(t.values[0]->bytes, buffer->content);

	/* The file reads back, also when it is being written to again. */
	ok(pf_snapshot_open(buffer, PF_FORMAT_SAFETENSORS, "x", &view, &err));
	ck_assert_uint_eq(view.size, whole.len);
	ck_assert_int_eq(pf_buffer_write(buffer, "zzzz", 4, whole.len - 4, &err), 4);
	ck_assert(!pf_buffer_is_tensors(buffer));
	check_two(&t);
	ck_assert_mem_eq(pf_bytes_at(view.content, 0), whole.data, whole.len);
	pf_snapshot_release(&view);
	pf_tensors_release(&t);
	ck_assert_int_eq(try_commit(&v), 2);
	ok(pf_buffer_tensors(buffer, &place, &t, &err));
	ck_assert_mem_eq(pf_value_host(t.values[1]), "\4\5\6\7zzzz", 8);
	pf_tensors_release(&t);
}

/* A copy of the file shares its bytes, and is committed as it was. */
TEST(a_copy_shares_the_bytes)
{
	struct pf_buffer *copy =
		pf_buffer_new(&place, PF_DEFAULT_MEMORY, PF_FORMAT_SAFETENSORS);
	struct pf_snapshot view;
	struct pf_value *v;

	compose(TWO, 12);
	put_part(0, whole.len);
	try_commit(&v);
	ok(pf_snapshot_open(buffer, PF_FORMAT_SAFETENSORS, "x", &view, &err));
	ck_assert(pf_buffer_take(copy, &view, &v));
	pf_snapshot_release(&view);
	ck_assert_ptr_eq(copy->content, buffer->content);
	ck_assert_int_eq(pf_buffer_commit(copy, false, &v, &err), 2);
	pf_buffer_unref(copy);
}

TEST(a_file_may_have_no_tensors)
{
	struct pf_tensors t;
	struct pf_value *v;

	compose("{\"__metadata__\":{\"k\":\"v\"}}", 0);
	put_part(0, whole.len);
	ck_assert_int_eq(try_commit(&v), 2);
	ok(pf_buffer_tensors(buffer, &place, &t, &err));
	ck_assert_uint_eq(t.n, 0);
	pf_tensors_release(&t);
}

/* A wrong header is refused by the write that completes it. */
static const struct {
	const char *text;
	size_t data;
	const char *why;
} refused[] = {
	{ "[]", 0, "" },
	{ X("F33", "[1]", "[0,4]"), 4, "F33" },
	{ X("F32", "[2]", "[0,4]"), 4, "" },
	{ X("F32", "[1]", "[0,4]"), 5, "what the header lists takes" },
};

TEST_EACH(a_wrong_header_is_refused_at_once, refused)
{
	struct pf_value *v;

	compose(refused[_i].text, refused[_i].data);
	ck_assert_int_eq(put_part(0, whole.len), -EINVAL);
	ck_assert_msg(strstr(err.text, refused[_i].why) != NULL, "%s", err.text);
	ck_assert_int_eq(try_commit(&v), -EINVAL);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "error");
}

/* Bytes are missing: of the header, or of the data. */
TEST_TIMES(a_file_without_its_end_is_incomplete, 2)
{
	struct pf_tensors t;
	struct pf_value *v;

	compose(TWO, 12);
	put_part(0, _i ? whole.len - 1 : 20);
	ck_assert_int_eq(pf_buffer_commit(buffer, true, &v, &err), 1);
	ck_assert_int_eq(try_commit(&v), -EINVAL);
	ck_assert_str_eq(pf_buffer_state_name(buffer), "incomplete");
	ck_assert_int_eq(pf_buffer_tensors(buffer, &place, &t, &err), -EINVAL);
	ck_assert_int_eq(pf_buffer_check(buffer, PF_FORMAT_SAFETENSORS, &err), -EINVAL);
	put_part(_i ? whole.len - 1 : 20, _i ? 1 : whole.len - 20);
	ck_assert_int_eq(try_commit(&v), 2);
}

/* The end first, then the header, in pieces: zeros in between are holes, not JSON. */
TEST(pieces_may_come_backwards)
{
	struct pf_value *v;

	compose(TWO, 12);
	for (size_t at = whole.len; at > 0; at -= at < 7 ? at : 7) {
		size_t begin = at < 7 ? 0 : at - 7;

		ck_assert_msg(put_part(begin, at - begin) > 0, "%s", err.text);
	}
	ck_assert_int_eq(try_commit(&v), 2);

	pf_buffer_truncate(buffer, 0, &err);
	pf_buffer_truncate(buffer, whole.len, &err);
	for (size_t at = 0; at < whole.len; at++)
		ck_assert_msg(put_part(at, 1) > 0, "%s", err.text);
	ck_assert_int_eq(try_commit(&v), 2);
}

/* Any array is a file of one tensor, with the requested name. */
TEST(an_array_is_shown_as_one_tensor)
{
	static const char four_bits[] = { 1, -1, 7 };
	struct pf_shape shape = { .rank = 1, .dims = { 3 } };
	struct pf_buffer *raw = pf_buffer_new(&place, PF_DEFAULT_MEMORY, PF_FORMAT_RAW);
	struct pf_safetensors st;
	struct pf_snapshot shown;
	struct pf_value *v;
	const char *data;

	pf_buffer_declare(raw, PF_DTYPE_S4, &shape, &err);
	ck_assert_int_eq(pf_buffer_write(raw, four_bits, 3, 0, &err), 3);
	ok(pf_buffer_commit(raw, false, &v, &err));
	pf_value_unref(v);
	ok(pf_snapshot_open(raw, PF_FORMAT_SAFETENSORS, "w", &shown, &err));
	ck_assert_uint_eq(shown.size, pf_snapshot_size(raw, PF_FORMAT_SAFETENSORS, "w"));
	ck_assert_uint_eq(shown.size, shown.head.len);
	ck_assert_int_eq(pf_safetensors_parse(shown.head.data, shown.size, &st, &err), 1);
	ck_assert_uint_eq(st.n, 1);
	ck_assert_str_eq(st.tensors[0].name, "w");
	ck_assert_int_eq(st.tensors[0].dtype, PF_DTYPE_S4);
	ck_assert_uint_eq(st.data_len, 2);
	data = shown.head.data + st.header_len;
	ck_assert_mem_eq(data, "\xf1\x07", 2);
	pf_safetensors_release(&st);
	pf_snapshot_release(&shown);
	pf_buffer_unref(raw);
}

UNIT_FIXTURE(open_all, close_all)
