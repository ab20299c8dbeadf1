/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .safetensors headers.  The input is a whole file's beginning, or else JSON, whose length
 * is put before it: libFuzzer does not keep the two in step.  An accepted header is
 * consistent, is JSON to json-c too, and keeps its meaning when printed and packed.
 */
#include <assert.h>
#include <json-c/json.h>
#include <string.h>

#include "pjrtfs/base.h"
#include "pjrtfs/array.h"
#include "pjrtfs/array_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void print_again(const struct pf_tensor *tensor)
{
	pf_autobuf struct pf_buf buf = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_safetensors again;

	pf_safetensors_print(&buf, tensor->name, tensor->dtype, &tensor->shape);
	assert(buf.len % 64 == 0);
	assert(pf_safetensors_parse(buf.data, buf.len, &again, &err) == 1);
	assert(again.n == 1 && again.header_len == buf.len);
	assert(again.data_len == tensor->len && again.tensors[0].len == tensor->len);
	assert(again.tensors[0].dtype == tensor->dtype);
	assert(strcmp(again.tensors[0].name, tensor->name) == 0);
	assert(pf_shape_equal(&again.tensors[0].shape, &tensor->shape));
	pf_safetensors_release(&again);
}

static void check_tensors(const struct pf_safetensors *st)
{
	uint64_t end = 0, bytes = 0;
	int64_t count = 0;

	assert(st->n <= PF_SAFETENSORS_MAX_TENSORS);
	for (size_t i = 0; i < st->n; i++) {
		const struct pf_tensor *t = &st->tensors[i];

		assert(t->off == end);
		end += t->len;
		assert(t->shape.rank <= PF_MAX_RANK);
		assert(pf_shape_bytes(&t->shape, t->dtype, &bytes, NULL) == 0);
		assert(pf_shape_count(&t->shape, &count, NULL) == 0);
		assert(t->len == pf_pack_size(t->dtype, (uint64_t)count));
		assert(pf_utf8_valid(t->name, strlen(t->name)));
		assert(i == 0 || strcmp(t->name, st->tensors[i - 1].name) != 0);
		if (i < 4)
			print_again(t);
	}
	assert(end == st->data_len && end <= UINT64_C(1) << 62);
}

/* All of what is accepted is an object of so many members. */
static void ask_json(const char *text, size_t len, size_t n)
{
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *o;
	size_t members;

	if (!tokener)
		return;
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	o = json_tokener_parse_ex(tokener, text, (int)len);
	assert(o && json_object_is_type(o, json_type_object));
	members = (size_t)json_object_object_length(o);
	assert(members == n + json_object_object_get_ex(o, "__metadata__", NULL));
	json_object_put(o);
	json_tokener_free(tokener);
}

static void check(const uint8_t *data, size_t size)
{
	struct pf_safetensors st = { 0 };
	struct pf_err err = PF_ERR_INIT;
	uint64_t header_len = 0;
	int r = pf_safetensors_length(data, size, &header_len, &err);

	assert(r == 1 ? header_len >= 10 : r == err.code);
	r = pf_safetensors_parse(data, size, &st, &err);
	assert(r == 1 || r == err.code);
	if (r != 1)
		return;
	assert(st.header_len == header_len && header_len <= size);
	check_tensors(&st);
	ask_json((const char *)data + 8, header_len - 8, st.n);
	pf_safetensors_release(&st);
	if (size < 512)
		for (size_t i = 0; i < header_len; i++)
			assert(pf_safetensors_parse(data, i, &st, &err) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	pf_autobuf struct pf_buf file = PF_BUF_INIT;
	uint64_t length = size;

	if (size < 1 || data[0] != '{') {
		check(data, size);
		return 0;
	}
	pf_buf_append(&file, &length, sizeof(length));
	pf_buf_append(&file, data, size);
	if (!file.failed)
		check((const uint8_t *)file.data, file.len);
	return 0;
}
