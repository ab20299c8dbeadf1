/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shardings: any JSON text as {"mesh", "spec", "devices", "shape", "sharding"}.  An accepted
 * sharding is printed and read again; each element of a small array is in one block and is
 * restored from it.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/sharding.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_ELEMENTS = 4096 };

static struct json_object *get(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;

	json_object_object_get_ex(o, key, &v);
	return v;
}

static void read_shape(struct json_object *list, struct pf_shape *shape)
{
	size_t n = json_object_is_type(list, json_type_array)
			   ? json_object_array_length(list)
			   : 0;

	for (size_t i = 0; i < n && i < PF_MAX_RANK; i++)
		shape->dims[shape->rank++] =
			json_object_get_int64(json_object_array_get_idx(list, i)) &
			INT64_MAX;
}

static void check_print(const struct pf_sharding *s)
{
	struct json_object *o = json_object_new_object(), *again;
	struct pf_sharding t;

	pf_sharding_print(s, o);
	assert(pf_sharding_parse(get(o, "mesh"), get(o, "spec"),
				 s->devices ? get(o, "devices") : NULL, s->rank, &t,
				 NULL) == 0);
	again = json_object_new_object();
	pf_sharding_print(&t, again);
	assert(json_object_equal(o, again));
	json_object_put(o);
	json_object_put(again);
	pf_sharding_release(&t);
}

/* The tiles that the sharding is, and back. */
static void check_tiles(const struct pf_sharding *s)
{
	struct pf_tiles t = { .rank = s->rank, .n = s->n };
	struct pf_sharding back;
	int r;

	for (unsigned d = 0; d < s->rank; d++)
		t.counts[d] = pf_sharding_parts(s, d);
	t.of = calloc(s->n, sizeof(*t.of));
	for (unsigned i = 0; i < s->n; i++)
		t.of[i] = (uint16_t)pf_sharding_block(s, i);
	assert(pf_sharding_agrees(s, &t, s->n, s->devices, NULL) == 0);
	assert(pf_sharding_of_tiles(&t, s->n, s->devices, s, &back, NULL) == 0);
	assert(pf_sharding_agrees(&back, &t, s->n, s->devices, NULL) == 0);
	pf_sharding_release(&back);
	r = pf_sharding_of_tiles(&t, s->n, s->devices, NULL, &back, NULL);
	if (r == 0) {
		assert(pf_sharding_agrees(&back, &t, s->n, s->devices, NULL) == 0);
		pf_sharding_release(&back);
	}
	free(t.of);
}

static void check_bytes(const struct pf_sharding *s, const struct pf_shape *whole,
			size_t n)
{
	unsigned char *from = calloc(1, n + 1), *to = calloc(1, n + 1), *part;
	const struct pf_block all = { .whole = *whole, .part = *whole };

	memset(from, 1, n);
	for (unsigned i = 0; i < s->n; i++) {
		struct pf_block b;
		int64_t len;
		uint64_t first;

		pf_sharding_part(s, whole, i, &b);
		assert(pf_shape_count(&b.part, &len, NULL) == 0);
		part = malloc((size_t)len);
		pf_block_cut(&b, 1, from, part);
		if (pf_block_is_run(&b, &first))
			assert(first + (uint64_t)len <= n);
		pf_block_copy(&b, part, &all, to, 1);
		free(part);
	}
	assert(memcmp(from, to, n) == 0);
	free(from);
	free(to);
}

/* The texts of XLA and Shardy that O has, on eight devices. */
static int read_text(struct json_object *o, unsigned rank, struct pf_sharding *ret,
		     struct pf_err *err)
{
	static char *at[] = { "a", "b", "c", "d", "e", "f", "g", "h" };
	const struct pf_device_names names = { .n = 8, .at = at };
	struct pf_sharding_words words = { .mesh = get(o, "mesh"),
					   .spec = get(o, "spec"),
					   .devices = &names };

	if (json_object_is_type(get(o, "sharding"), json_type_string))
		words.text = json_object_get_string(get(o, "sharding"));
	return pf_sharding_read(&words, rank, ret, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *o =
		size < INT32_MAX
			? json_tokener_parse_ex(tokener, (const char *)data, (int)size)
			: NULL;
	struct pf_shape whole = { 0 }, shard, again;
	struct pf_err err = PF_ERR_INIT;
	struct pf_sharding s;
	int64_t n;
	int r;

	json_tokener_free(tokener);
	if (!json_object_is_type(o, json_type_object)) {
		json_object_put(o);
		return 0;
	}
	read_shape(get(o, "shape"), &whole);
	if (get(o, "sharding"))
		r = read_text(o, whole.rank, &s, &err);
	else
		r = pf_sharding_parse(get(o, "mesh"), get(o, "spec"), get(o, "devices"),
				      whole.rank, &s, &err);
	assert(r == err.code);
	if (r == 0) {
		check_print(&s);
		if (s.devices)
			check_tiles(&s);
		if (pf_sharding_divide(&s, &whole, &shard, NULL) == 0 &&
		    pf_shape_count(&whole, &n, NULL) == 0) {
			assert(pf_sharding_multiply(&s, &shard, &again, NULL) == 0);
			assert(pf_shape_equal(&whole, &again));
			if (n <= MAX_ELEMENTS)
				check_bytes(&s, &whole, (size_t)n);
		}
	}
	pf_sharding_release(&s);
	json_object_put(o);
	return 0;
}
