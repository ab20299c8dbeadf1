/* SPDX-License-Identifier: Apache-2.0 */
/* Shardings: what is read, which device has what, and the bytes of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sharding_text.h"

/* --- what is read --------------------------------------------------------------------------- */

static const struct {
	const char *mesh, *spec, *devices;
	unsigned rank;
	int want;
	const char *tells;
} refusals[] = {
	{ "[2]", "[]", NULL, 1, -EINVAL, "\"mesh\": expected an object" },
	{ "{}", "[]", NULL, 1, -EINVAL, "\"mesh\": it has no axis" },
	{ "{'x':0}", "[]", NULL, 1, -EINVAL, "axis \"x\": expected a size from 1" },
	{ "{'x':-2}", "[]", NULL, 1, -EINVAL, "axis \"x\"" },
	{ "{'x':2.0}", "[]", NULL, 1, -EINVAL, "axis \"x\"" },
	{ "{'x':'2'}", "[]", NULL, 1, -EINVAL, "axis \"x\"" },
	{ "{'x':null}", "[]", NULL, 1, -EINVAL, "axis \"x\"" },
	{ "{'':2}", "[]", NULL, 1, -EINVAL, "empty name" },
	{ "{'x':1025}", "[]", NULL, 1, -E2BIG, "1024 devices" },
	{ "{'x':32,'y':33}", "[]", NULL, 1, -E2BIG, "1024 devices" },
	{ "{'x':9223372036854775807,'y':2}", "[]", NULL, 1, -E2BIG, "1024 devices" },
	{ "{'a':1,'b':1,'c':1,'d':1,'e':1,'f':1,'g':1,'h':1,'i':1}", "[]", NULL, 1,
	  -E2BIG, "more than 8 axes" },
	{ "{'0123456789012345678901234567890123456789012345678901234567890123':1}", "[]",
	  NULL, 1, -ENAMETOOLONG, "more than 63 bytes" },
	{ "{'x':2}", "{}", NULL, 1, -EINVAL, "\"spec\": expected a list" },
	{ "{'x':2}", "'x'", NULL, 1, -EINVAL, "\"spec\": expected a list" },
	{ "{'x':2}", "[null,'x']", NULL, 1, -EINVAL, "2 entries, the array 1 dimension" },
	{ "{'x':2}", "['x']", NULL, 0, -EINVAL, "1 entries, the array 0 dimensions" },
	{ "{'x':2}", "['y']", NULL, 1, -EINVAL, "entry 0: the mesh has no axis \"y\"" },
	{ "{'x':2}", "['x','x']", NULL, 2, -EINVAL, "entry 1: axis \"x\" is used twice" },
	{ "{'x':2}", "[['x','x']]", NULL, 2, -EINVAL, "axis \"x\" is used twice" },
	{ "{'x':2}", "[2]", NULL, 1, -EINVAL, "entry 0: expected an axis' name" },
	{ "{'x':2}", "[['x',null]]", NULL, 1, -EINVAL, "entry 0: expected an axis'" },
	{ "{'x':2}", "[[['x']]]", NULL, 1, -EINVAL, "entry 0: expected an axis'" },
	{ "{'x':2}", "['x']", "'a'", 1, -EINVAL, "\"devices\": expected a list" },
	{ "{'x':2}", "['x']", "['a']", 1, -EINVAL, "there are 1, the mesh is of 2" },
	{ "{'x':2}", "['x']", "['a','b','c']", 1, -EINVAL, "there are 3" },
	{ "{'x':2}", "['x']", "['a',1]", 1, -EINVAL, "element 1: expected a device's" },
	{ "{'x':2}", "['x']", "['a','a']", 1, -EINVAL, "a is there twice" },
};

TEST_EACH(refuses, refusals)
{
	struct pf_sharding s;
	struct pf_err err = PF_ERR_INIT;

	ck_assert_int_eq(parse_sharding(refusals[_i].mesh, refusals[_i].spec,
					refusals[_i].devices, refusals[_i].rank, &s,
					&err),
			 refusals[_i].want);
	ck_assert_msg(strstr(err.text, refusals[_i].tells), "%s", err.text);
	ck_assert_ptr_null(s.devices);
}

TEST(prints_what_it_reads)
{
	static const char text[] =
		"{\"mesh\":{\"x\":2,\"y\":2,\"z\":3},"
		"\"spec\":[[\"z\",\"x\"],null,\"y\"],\"replicated\":[],"
		"\"devices\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\",\"j\","
		"\"k\",\"l\"]}";
	static const char less[] = "{\"mesh\":{\"x\":2,\"y\":1},\"spec\":[null,null],"
				   "\"replicated\":[\"x\",\"y\"],\"devices\":[]}";
	struct json_object *o = json_object_new_object();
	struct pf_sharding s, copy;

	ck_assert_int_eq(
		parse_sharding("{'x':2,'y':2,'z':3}", "[['z','x'],null,'y']",
			       "['a','b','c','d','e','f','g','h','i','j','k','l']", 3, &s,
			       NULL),
		0);
	ck_assert_int_eq(pf_sharding_copy(&s, &copy), 0);
	pf_sharding_release(&s);
	pf_sharding_print(&copy, o);
	ck_assert_str_eq(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN), text);
	ck_assert_int_eq(pf_sharding_find(&copy, "l"), 11);
	ck_assert_int_eq(pf_sharding_find(&copy, "m"), -1);
	pf_sharding_release(&copy);
	json_object_put(o);

	/* Entries that are missing, empty or null are the same. */
	o = json_object_new_object();
	ck_assert_int_eq(parse_sharding("{'x':2,'y':1}", "[[]]", NULL, 2, &s, NULL), 0);
	pf_sharding_print(&s, o);
	ck_assert_str_eq(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN), less);
	pf_sharding_release(&s);
	json_object_put(o);
}

/* --- blocks of devices ---------------------------------------------------------------- */

/* By hand: position 1 of a mesh of x by y is x 0, y 1. */
static const struct {
	const char *mesh, *spec;
	const char *whole, *shard; /* a digit for each dimension */
	const char *starts;        /* the same of positions 0 to 3 */
	const char *blocks;        /* a digit for each of these */
	bool runs;
} parts[] = {
	{ "{'x':2,'y':2}", "['x',null]", "46", "26", "00 00 20 20", "0011", true },
	{ "{'x':2,'y':2}", "['y']", "46", "26", "00 20 00 20", "0101", true },
	{ "{'x':2,'y':2}", "['x','y']", "46", "23", "00 03 20 23", "0123", false },
	{ "{'x':2,'y':2}", "['y','x']", "46", "23", "00 20 03 23", "0213", false },
	{ "{'x':2,'y':2}", "[['x','y']]", "46", "16", "00 10 20 30", "0123", true },
	{ "{'x':2,'y':2}", "[['y','x']]", "46", "16", "00 20 10 30", "0213", true },
	{ "{'x':4}", "[]", "35", "35", "00 00 00 00", "0000", true },
	{ "{'x':4}", "['x']", "05", "05", "00 00 00 00", "0123", true },
	{ "{'x':4}", "[null,'x']", "18", "12", "00 02 04 06", "0123", true },
	{ "{'x':4}", "[]", "", "", "", "0000", true },
};

static struct pf_shape shape_of(const char *digits)
{
	struct pf_shape ret = { .rank = (unsigned)strlen(digits) };

	for (unsigned d = 0; d < ret.rank; d++)
		ret.dims[d] = digits[d] - '0';
	return ret;
}

TEST_EACH(gives_parts, parts)
{
	const struct pf_shape want = shape_of(parts[_i].whole);
	const struct pf_shape want_shard = shape_of(parts[_i].shard);
	struct pf_sharding s;
	struct pf_shape shard, whole;
	struct pf_block b;
	uint64_t first;

	ck_assert_int_eq(parse_sharding(parts[_i].mesh, parts[_i].spec, NULL, want.rank,
					&s, NULL),
			 0);
	ck_assert_int_eq(pf_sharding_divide(&s, &want, &shard, NULL), 0);
	ck_assert(pf_shape_equal(&shard, &want_shard));
	ck_assert_int_eq(pf_sharding_multiply(&s, &shard, &whole, NULL), 0);
	ck_assert(pf_shape_equal(&whole, &want));
	for (unsigned i = 0; i < 4; i++) {
		pf_sharding_part(&s, &whole, i, &b);
		ck_assert(pf_shape_equal(&b.part, &shard));
		for (unsigned d = 0; d < whole.rank; d++)
			ck_assert_int_eq(b.start[d],
					 parts[_i].starts[i * (whole.rank + 1) + d] -
						 '0');
		ck_assert_uint_eq(pf_sharding_block(&s, i),
				  (unsigned)(parts[_i].blocks[i] - '0'));
		ck_assert_int_eq(pf_block_is_run(&b, &first), parts[_i].runs);
	}
	pf_sharding_release(&s);
}

TEST(uneven_splits_are_refused)
{
	struct pf_shape shape = { 2, { 6, 5 } }, shard;
	struct pf_err err = PF_ERR_INIT;
	struct pf_sharding s;

	ck_assert_int_eq(parse_sharding("{'x':2,'y':2}", "[null,'y']", NULL, 2, &s, NULL),
			 0);
	ck_assert_int_eq(pf_sharding_divide(&s, &shape, &shard, &err), -EINVAL);
	ck_assert_str_eq(err.text, "dimension 1 has 5 elements, which axis \"y\" of size "
				   "2 cannot divide evenly");
	pf_sharding_release(&s);
	ck_assert_int_eq(parse_sharding("{'x':2,'y':2}", "[['x','y']]", NULL, 2, &s,
					NULL),
			 0);
	ck_assert_int_eq(pf_sharding_divide(&s, &shape, &shard, &err), -EINVAL);
	ck_assert_str_eq(err.text,
			 "dimension 0 has 6 elements, which axes \"x\", \"y\" of "
			 "size 4 cannot divide evenly");
	shape = (struct pf_shape){ 2, { INT64_C(1) << 62, 1 } };
	ck_assert_int_eq(pf_sharding_multiply(&s, &shape, &shard, &err), -EOVERFLOW);
	shape = (struct pf_shape){ 2, { INT64_C(1) << 60, 8 } };
	ck_assert_int_eq(pf_sharding_multiply(&s, &shape, &shard, &err), -EOVERFLOW);
	pf_sharding_release(&s);
}

/* --- bytes ------------------------------------------------------------------------------------ */

static const struct {
	const char *spec;
	struct pf_shape whole;
} cuts[] = {
	{ "['x','y']", { 2, { 4, 6 } } },
	{ "[null,'x','y']", { 3, { 3, 4, 2 } } },
	{ "['y',null,'x']", { 3, { 2, 3, 4 } } },
	{ "[null,['y','x'],null]", { 3, { 3, 8, 5 } } },
	{ "['x',null,'y',null]", { 4, { 2, 3, 6, 2 } } },
	{ "[null,null]", { 2, { 3, 3 } } },
	{ "['x']", { 1, { 6 } } },
	{ "[]", { 0, { 0 } } },
	{ "['x','y']", { 2, { 4, 0 } } },
};

/* The element at AT (relative to START) of an array of SHAPE. */
static size_t place(const struct pf_shape *shape, const int64_t *start, const int64_t *at)
{
	size_t n = 0;

	for (unsigned d = 0; d < shape->rank; d++)
		n = n * (size_t)shape->dims[d] + (size_t)(start[d] + at[d]);
	return n;
}

static bool next(const struct pf_shape *shape, int64_t *at)
{
	for (unsigned d = shape->rank; d-- > 0;) {
		if (++at[d] < shape->dims[d])
			return true;
		at[d] = 0;
	}
	return false;
}

static void check_part(const struct pf_block *b, size_t size, const unsigned char *whole,
		       const unsigned char *part)
{
	static const int64_t zeros[PF_MAX_RANK];
	int64_t at[PF_MAX_RANK] = { 0 };
	uint64_t first;
	bool run = pf_block_is_run(b, &first);

	do {
		size_t here = place(&b->part, zeros, at);
		size_t there = place(&b->whole, b->start, at);

		ck_assert_mem_eq(part + here * size, whole + there * size, size);
		if (run)
			ck_assert_uint_eq(there, first + here);
	} while (next(&b->part, at));
}

TEST_EACH(splits_and_joins, cuts)
{
	static const size_t sizes[] = { 1, 2, 4, 16 };

	for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
		const struct pf_block all = { .whole = cuts[_i].whole,
					      .part = cuts[_i].whole };
		size_t size = sizes[k];
		struct pf_sharding s;
		struct pf_block b;
		int64_t n, m;
		unsigned char *whole, *again, *part;

		ck_assert_int_eq(parse_sharding("{'x':2,'y':2}", cuts[_i].spec, NULL,
						cuts[_i].whole.rank, &s, NULL),
				 0);
		ck_assert_int_eq(pf_shape_count(&cuts[_i].whole, &n, NULL), 0);
		whole = malloc((size_t)n * size + 1);
		again = calloc((size_t)n + 1, size);
		ck_assert(whole && again);
		for (size_t i = 0; i < (size_t)n * size; i++)
			whole[i] = (unsigned char)(i * 7 + i / 256);
		for (unsigned i = 0; i < s.n; i++) {
			pf_sharding_part(&s, &cuts[_i].whole, i, &b);
			ck_assert_int_eq(pf_shape_count(&b.part, &m, NULL), 0);
			/* No byte more than that: a sanitizer would see it. */
			part = malloc((size_t)m * size);
			pf_block_cut(&b, size, whole, part);
			if (n)
				check_part(&b, size, whole, part);
			pf_block_copy(&b, part, &all, again, size);
			free(part);
		}
		ck_assert_int_eq(memcmp(whole, again, (size_t)n * size), 0);
		free(whole);
		free(again);
		pf_sharding_release(&s);
	}
}
