/* SPDX-License-Identifier: Apache-2.0 */
/* Shardings: what is read, which device has what, the bytes of it, and other shardings of these. */
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
	{ "{'x':2.0}", "[]", NULL, 1, -EINVAL, "axis \"x\"" },
	{ "{'':2}", "[]", NULL, 1, -EINVAL, "empty name" },
	{ "{'x':32,'y':33}", "[]", NULL, 1, -E2BIG, "1024 devices" },
	{ "{'x':9223372036854775807,'y':2}", "[]", NULL, 1, -E2BIG, "1024 devices" },
	{ "{'a':1,'b':1,'c':1,'d':1,'e':1,'f':1,'g':1,'h':1,'i':1}", "[]", NULL, 1,
	  -E2BIG, "more than 8 axes" },
	{ "{'0123456789012345678901234567890123456789012345678901234567890123':1}", "[]",
	  NULL, 1, -ENAMETOOLONG, "more than 63 bytes" },
	{ "{'x':2}", "{}", NULL, 1, -EINVAL, "\"spec\": expected a list" },
	{ "{'x':2}", "[null,'x']", NULL, 1, -EINVAL, "2 entries, the array 1 dimension" },
	{ "{'x':2}", "['y']", NULL, 1, -EINVAL, "entry 0: the mesh has no axis \"y\"" },
	{ "{'x':2}", "['x','x']", NULL, 2, -EINVAL, "entry 1: axis \"x\" is used twice" },
	{ "{'x':2}", "[['x','x']]", NULL, 2, -EINVAL, "axis \"x\" is used twice" },
	{ "{'x':2}", "[2]", NULL, 1, -EINVAL, "entry 0: expected an axis' name" },
	{ "{'x':2}", "[['x',null]]", NULL, 1, -EINVAL, "entry 0: expected an axis'" },
	{ "{'x':2}", "['x']", NULL, 0, -EINVAL, "1 entries, the array 0 dimensions" },
	{ "{'x':2}", "[[['x']]]", NULL, 1, -EINVAL, "entry 0: expected an axis'" },
	{ "{'x':2}", "['x']", "'a'", 1, -EINVAL, "\"devices\": expected a list" },
	{ "{'x':2}", "['x']", "['a']", 1, -EINVAL, "there are 1, the mesh is of 2" },
	{ "{'x':2}", "['x']", "['a',1]", 1, -EINVAL, "element 1: expected a device's" },
	{ "{'x':2}", "['x']", "['a','a']", 1, -EINVAL, "a is there twice" },
};

TEST_EACH(refuses, refusals)
{
	struct pf_sharding s;
	struct pf_err err = PF_ERR_INIT;

	check_result(parse_sharding(refusals[_i].mesh, refusals[_i].spec,
				    refusals[_i].devices, refusals[_i].rank, &s, &err),
		     refusals[_i].want, &err, refusals[_i].tells);
	ck_assert_ptr_null(s.devices);
}

#define A_TO_L "['a','b','c','d','e','f','g','h','i','j','k','l']"

TEST(prints_what_it_reads)
{
	struct json_object *o = json_object_new_object();
	struct pf_sharding s, copy;

	ck_assert_int_eq(parse_sharding("{'x':2,'y':2,'z':3}", "[['z','x'],null,'y']",
					A_TO_L, 3, &s, NULL),
			 0);
	ck_assert_int_eq(pf_sharding_copy(&s, &copy), 0);
	pf_sharding_release(&s);
	pf_sharding_print(&copy, o);
	check_json(o, "{'mesh':{'x':2,'y':2,'z':3},'spec':[['z','x'],null,'y'],"
		      "'replicated':[],'devices':" A_TO_L "}");
	ck_assert_int_eq(pf_sharding_find(&copy, "l"), 11);
	ck_assert_int_eq(pf_sharding_find(&copy, "m"), -1);
	pf_sharding_release(&copy);

	/* Entries that are missing, empty or null are the same. */
	o = json_object_new_object();
	ck_assert_int_eq(parse_sharding("{'x':2,'y':1}", "[[]]", NULL, 2, &s, NULL), 0);
	pf_sharding_print(&s, o);
	check_json(o, "{'mesh':{'x':2,'y':1},'spec':[null,null],"
		      "'replicated':['x','y'],'devices':[]}");
	pf_sharding_release(&s);
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

static const struct {
	const char *spec, *says;
	struct pf_shape whole;
} uneven[] = {
	{ "[null,'y']",
	  "dimension 1 has 5 elements, which axis \"y\" of size 2 cannot divide evenly",
	  { 2, { 6, 5 } } },
	{ "[['x','y']]",
	  "dimension 0 has 6 elements, which axes \"x\", \"y\" of size 4 cannot divide",
	  { 2, { 6, 5 } } },
};

TEST_EACH(uneven_splits_are_refused, uneven)
{
	struct pf_err err = PF_ERR_INIT;
	struct pf_shape shard;
	struct pf_sharding s;

	ck_assert_int_eq(parse_sharding("{'x':2,'y':2}", uneven[_i].spec, NULL, 2, &s,
					NULL),
			 0);
	check_result(pf_sharding_divide(&s, &uneven[_i].whole, &shard, &err), -EINVAL,
		     &err, uneven[_i].says);
	pf_sharding_release(&s);
}

static const struct pf_shape too_large[] = { { 2, { INT64_C(1) << 62, 1 } },
					     { 2, { INT64_C(1) << 60, 8 } } };

TEST_EACH(a_whole_beyond_int64_is_refused, too_large)
{
	struct pf_shape whole;
	struct pf_sharding s;

	ck_assert_int_eq(parse_sharding("{'x':4}", "['x']", NULL, 2, &s, NULL), 0);
	ck_assert_int_eq(pf_sharding_multiply(&s, &too_large[_i], &whole, NULL),
			 -EOVERFLOW);
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

/* Random numbers of a seed (a linear congruential generator): the test is the same each time. */
static uint64_t state;

static unsigned below(unsigned n)
{
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(state >> 33) % n;
}

/* A random sharding of SHAPE, whose dimensions are multiples of 12: axes of 1 to 4 devices. */
static void random_sharding(unsigned rank, struct pf_sharding *s)
{
	memset(s, 0, sizeof(*s));
	s->rank = rank;
	s->n = 1;
	s->n_axes = 1 + below(4);
	for (unsigned a = 0; a < s->n_axes; a++) {
		unsigned dim = below(rank + 1);

		snprintf(s->axes[a].name, sizeof(s->axes[a].name), "a%u", a);
		s->axes[a].size = 1 + below(4);
		if (dim < rank && 12 % (pf_sharding_parts(s, dim) * s->axes[a].size) == 0)
			s->by[dim][s->n_by[dim]++] = (uint8_t)a;
		s->n *= s->axes[a].size;
	}
}

static unsigned char *cut_out(const struct pf_block *b, size_t size,
			      const unsigned char *whole, size_t *len)
{
	unsigned char *part;
	int64_t n;

	ck_assert_int_eq(pf_shape_count(&b->part, &n, NULL), 0);
	*len = (size_t)n * size;
	part = malloc(*len); /* no byte more than that: a sanitizer would see it */
	pf_block_cut(b, size, whole, part);
	return part;
}

/* Make each part of TO of all parts of FROM, of replicas also of the later ones. */
static void check_made(const struct pf_sharding *from, const struct pf_sharding *to,
		       const struct pf_shape *whole, size_t size,
		       const unsigned char *bytes)
{
	for (unsigned i = 0; i < to->n; i++) {
		struct pf_block want, have;
		unsigned char *expected, *made, *part;
		size_t len, n;

		pf_sharding_part(to, whole, i, &want);
		expected = cut_out(&want, size, bytes, &len);
		if (len)
			check_part(&want, size, bytes, expected);
		made = calloc(1, len);
		for (unsigned k = 0; k < from->n; k++) {
			bool meets, within;

			pf_sharding_part(from, whole, k, &have);
			meets = pf_block_meets(&have, &want);
			within = pf_block_within(&want, &have);
			ck_assert(!within || meets || len == 0);
			part = cut_out(&have, size, bytes, &n);
			if (!meets)
				memset(part, 0xdd, n); /* no byte of it is needed */
			pf_block_copy(&have, part, &want, made, size);
			if (within)
				ck_assert_mem_eq(made, expected, len);
			free(part);
		}
		ck_assert_mem_eq(made, expected, len);
		free(made);
		free(expected);
	}
}

/* An array of SHAPE, of elements of SIZE; the caller frees it. */
static unsigned char *random_bytes(const struct pf_shape *shape, size_t size)
{
	unsigned char *bytes;
	int64_t n;

	ck_assert_int_eq(pf_shape_count(shape, &n, NULL), 0);
	bytes = calloc((size_t)n + 1, size);
	for (size_t i = 0; i < (size_t)n * size; i++)
		bytes[i] = (unsigned char)below(256);
	return bytes;
}

static const size_t sizes[] = { 1, 2, 4, 8, 16 };

TEST_TIMES(random_arrays, 200)
{
	struct pf_shape whole = { 0 };
	struct pf_sharding from, to;
	unsigned char *bytes;
	size_t size;

	state = (uint64_t)_i;
	whole.rank = 1 + below(3);
	for (unsigned d = 0; d < whole.rank; d++)
		whole.dims[d] = 12 * (1 + below(2));
	size = sizes[below(ARRAY_SIZE(sizes))];
	bytes = random_bytes(&whole, size);
	random_sharding(whole.rank, &from);
	random_sharding(whole.rank, &to);
	check_made(&from, &to, &whole, size, bytes);
	free(bytes);
}

TEST_EACH(splits_and_joins, cuts)
{
	const struct pf_shape *whole = &cuts[_i].whole;
	const struct pf_sharding one = { .rank = whole->rank, .n = 1 };

	for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
		unsigned char *bytes = random_bytes(whole, sizes[k]);
		struct pf_sharding s;

		ck_assert_int_eq(parse_sharding("{'x':2,'y':2}", cuts[_i].spec, NULL,
						whole->rank, &s, NULL),
				 0);
		check_made(&one, &s, whole, sizes[k], bytes);
		check_made(&s, &one, whole, sizes[k], bytes);
		free(bytes);
	}
}

TEST(empty_and_single)
{
	const struct pf_block one = { .whole = { 0 }, .part = { 0 } };
	const struct pf_block none = { .whole = { 2, { 0, 6 } },
				       .part = { 2, { 0, 2 } } };
	unsigned char src[1] = { 7 }, dst[1] = { 0 };

	pf_block_copy(&one, src, &one, dst, 1);
	ck_assert_uint_eq(dst[0], 7);
	ck_assert(pf_block_meets(&one, &one));
	ck_assert(!pf_block_meets(&none, &none));
	ck_assert(pf_block_within(&none, &none));
	pf_block_copy(&none, NULL, &none, NULL, 4);
}
