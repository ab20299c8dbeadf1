/* SPDX-License-Identifier: Apache-2.0 */
/* The tiles of arguments and results in an optimized program. */
#include "hlo_proto.h"
#include "sharding_text.h"

#define TEXT(s) s, sizeof(s) - 1

/* One argument of rank 2 and its sharding, and what is made of it. */
static const struct {
	const char *sharding;
	size_t len;
	unsigned n;
	const char *counts; /* of both dimensions, a digit each; "": not known */
	const char *of;     /* a digit for each partition; "": NULL */
} cases[] = {
	{ TEXT(""), 0, "11", "" },         /* replicated */
	{ TEXT("\x08\x00"), 0, "11", "" }, /* the same */
	/* devices=[2,2]<=[4] */
	{ TEXT("\x08\x03\x1a\x02\x02\x02\x4a\x01\x04\x52\x01\x00"), 4, "22", "0123" },
	/* devices=[2,2]0,2,1,3 */
	{ TEXT("\x08\x03\x1a\x02\x02\x02\x22\x04\x00\x02\x01\x03"), 4, "22", "0213" },
	/* the same: devices=[2,2]<=[2,2]T(1,0) */
	{ TEXT("\x08\x03\x1a\x02\x02\x02\x4a\x02\x02\x02\x52\x02\x01\x00"), 4, "22",
	  "0213" },
	/* devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate */
	{ TEXT("\x08\x03\x1a\x03\x02\x01\x02\x30\x01\x4a\x02\x02\x02\x52\x02\x01\x00"), 4,
	  "21", "0101" },
	/* devices=[2,1,2]<=[4] last_tile_dims={replicated} */
	{ TEXT("\x08\x03\x1a\x03\x02\x01\x02\x42\x01\x00\x4a\x01\x04\x52\x01\x00"), 4,
	  "21", "0011" },
	/* devices=[3,2]<=[2,3]T(1,0): partition 1 is the second row's first */
	{ TEXT("\x08\x03\x1a\x02\x03\x02\x4a\x02\x02\x03\x52\x02\x01\x00"), 6, "32",
	  "024135" },
	/* devices=[1,1,4]<=[4] last_tile_dim_replicate */
	{ TEXT("\x08\x03\x1a\x03\x01\x01\x04\x30\x01\x4a\x01\x04\x52\x01\x00"), 4, "11",
	  "" },
};

/* What says nothing of each partition's part of the array, or is wrong. */
static const struct {
	const char *sharding;
	size_t len;
} unknown[] = {
	{ TEXT("\x08\x01\x1a\x01\x01\x22\x01\x00") }, /* maximal */
	{ TEXT("\x08\x04") },                         /* manual */
	{ TEXT("\x08\x05") },                         /* unknown */
	{ TEXT("\x08\x63") },                         /* new */
	/* last_tile_dims={manual} */
	{ TEXT("\x08\x03\x1a\x03\x02\x01\x02\x42\x01\x04\x4a\x01\x04\x52\x01\x00") },
	/* Another rank, one too few, twice, out of range, 0 and -1 parts, too many, no
	 * permutation, subgroups beyond, no proto. */
	{ TEXT("\x08\x03\x1a\x01\x02\x22\x02\x00\x01") },
	{ TEXT("\x08\x03\x1a\x02\x02\x02\x22\x03\x00\x02\x01") },
	{ TEXT("\x08\x03\x1a\x02\x02\x01\x22\x02\x01\x01") },
	{ TEXT("\x08\x03\x1a\x02\x02\x01\x22\x02\x00\x02") },
	{ TEXT("\x08\x03\x1a\x02\x02\x00\x22\x01\x00") },
	{ TEXT("\x08\x03\x1a\x0b\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x4a\x01\x02"
	       "\x52\x01\x00") },
	{ TEXT("\x08\x03\x1a\x03\x02\x81\x04\x4a\x02\x81\x08\x52\x01\x00") },
	{ TEXT("\x08\x03\x1a\x02\x02\x02\x4a\x02\x02\x02\x52\x02\x01\x01") },
	{ TEXT("\x08\x03\x1a\x02\x02\x02\x4a\x02\x02\x02\x52\x02\x01\x02") },
	{ TEXT("\x08\x03\x1a\x02\x02\x02\x4a\x02\x02\x02\x52\x01\x00") },
	{ TEXT("\x08\x03\x1a\x02\x02\x02\x4a\x01\x03\x52\x01\x00") },
	{ TEXT("\x08\x03\x1a\x02\x02\x01\x42\x03\x00\x00\x00\x4a\x01\x02\x52\x01\x00") },
	{ TEXT("\x08\x03\x1a\x0f") },
};

static void check(const struct pf_param *param, size_t i)
{
	const struct pf_tiles *t = param->tiles;

	ck_assert_ptr_nonnull(t);
	ck_assert_uint_eq(t->rank, 2);
	ck_assert_uint_eq(t->n, cases[i].n);
	for (size_t d = 0; d < 2; d++)
		ck_assert_uint_eq(t->counts[d], (unsigned)(cases[i].counts[d] - '0'));
	ck_assert_int_eq(t->of != NULL, *cases[i].of != 0);
	for (unsigned p = 0; t->of && p < t->n; p++)
		ck_assert_int_eq(t->of[p], cases[i].of[p] - '0');
}

/* The signature of a program of one argument, one result, with this sharding. */
static struct pf_signature *sharded(const char *sharding, size_t len)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT;

	put_program_shape(&module, "F32[2,2]", "F32[2,2]");
	put_bytes(&module, 14, sharding, len);
	put_bytes(&module, 12, sharding, len);
	return signature(&module);
}

TEST_EACH(of_arguments_and_results, cases)
{
	struct pf_signature *sig = sharded(cases[_i].sharding, cases[_i].len);

	check(&sig->inputs[0], (size_t)_i);
	check(&sig->outputs[0], (size_t)_i);
	pf_signature_free(sig);
}

TEST_EACH(are_not_known, unknown)
{
	struct pf_signature *sig = sharded(unknown[_i].sharding, unknown[_i].len);

	ck_assert_ptr_null(sig->inputs[0].tiles);
	ck_assert_ptr_null(sig->outputs[0].tiles);
	pf_signature_free(sig);
}

/* A tuple has one for each result; arguments have one each, in their order, or none. */
TEST(of_several)
{
	pf_autobuf struct pf_buf shardings = PF_BUF_INIT, tuple = PF_BUF_INIT,
				 two = PF_BUF_INIT, three = PF_BUF_INIT;
	struct pf_signature *sig;

	put_number(&tuple, 1, 2);
	for (size_t i = 2; i < 4; i++) {
		put_bytes(&shardings, 14, cases[i].sharding, cases[i].len);
		put_bytes(&tuple, 5, cases[i].sharding, cases[i].len);
	}
	put_message(&shardings, 12, &tuple);
	put_program_shape(&two, "F32[2,2] F32[2,2]", "(F32[2,2],F32[2,2])");
	pf_buf_append(&two, shardings.data, shardings.len);
	sig = signature(&two);
	for (size_t i = 2; i < 4; i++) {
		check(&sig->inputs[i - 2], i);
		check(&sig->outputs[i - 2], i);
	}
	pf_signature_free(sig);
	put_program_shape(&three, "F32[2,2] F32[2,2] F32[2,2]", "(F32,F32,F32)");
	pf_buf_append(&three, shardings.data, shardings.len);
	sig = signature(&three);
	for (size_t i = 0; i < 3; i++) {
		ck_assert_ptr_null(sig->inputs[i].tiles);
		ck_assert_ptr_null(sig->outputs[i].tiles);
	}
	pf_signature_free(sig);
}

TEST(as_json)
{
	struct pf_signature *sig = sharded(cases[5].sharding, cases[5].len);
	struct json_object *o = pf_signature_json(sig, "cpu", "device");
	const char *text = pf_json_text(o);

	ck_assert_msg(has_parts(text, "\"sharding\":{\"parts\":[2,1],\"of\":[0,1,0,1]}"),
		      "%s", text);
	json_object_put(o);
	pf_signature_free(sig);
	sig = sharded(cases[0].sharding, cases[0].len);
	o = pf_signature_json(sig, "cpu", "device");
	ck_assert(has_parts(pf_json_text(o), "\"sharding\":{\"parts\":[1,1]}"));
	json_object_put(o);
	pf_signature_free(sig);
}

/* --- shardings of tiles ---------------------------------------------------------------------- */

static void check_print(struct pf_sharding *s, const char *want)
{
	struct json_object *o = json_object_new_object();

	pf_sharding_print(s, o);
	check_json(o, want);
	pf_sharding_release(s);
}

#define ALL_DEVICES "['p:0','p:1','p:2','p:3','p:4','p:5','p:6','p:7']"

TEST(tiles_become_shardings)
{
	uint16_t of[] = { 0, 2, 1, 3, 0, 2, 1, 3 };
	const struct pf_tiles t = { .rank = 3, .n = 8, .counts = { 2, 1, 2 }, .of = of };
	const struct pf_tiles whole = { .rank = 1, .counts = { 1 } };
	struct pf_sharding s;

	/* Axes of our own: partition 2 has the tile [0,0,1], partition 1 [1,0,0]. */
	ck_assert_int_eq(pf_sharding_of_tiles(&t, 8, devices_of_p, NULL, &s, NULL), 0);
	ck_assert_int_eq(pf_sharding_agrees(&s, &t, 8, devices_of_p, NULL), 0);
	check_print(&s, "{'mesh':{'d0':2,'d2':2,'replicated':2},"
			"'spec':['d0',null,'d2'],'replicated':['replicated'],"
			"'devices':['p:0','p:4','p:2','p:6','p:1','p:5','p:3','p:7']}");
	ck_assert_int_eq(pf_sharding_of_tiles(&whole, 2, devices_of_p, NULL, &s, NULL),
			 0);
	check_print(&s, "{'mesh':{'replicated':2},'spec':[null],"
			"'replicated':['replicated'],'devices':['p:0','p:1']}");
}

TEST(tiles_take_the_axes_of_a_mesh)
{
	uint16_t of[] = { 0, 2, 1, 3, 0, 2, 1, 3 };
	struct pf_tiles t = { .rank = 3, .n = 8, .counts = { 2, 1, 2 }, .of = of };
	struct pf_sharding s, like;
	struct pf_err err = PF_ERR_INIT;

	ck_assert_int_eq(parse_sharding("{'a':2,'b':2,'c':2}", "['a']", ALL_DEVICES, 1,
					&like, NULL),
			 0);
	ck_assert_int_eq(pf_sharding_of_tiles(&t, 8, devices_of_p, &like, &s, NULL), 0);
	ck_assert_int_eq(pf_sharding_agrees(&s, &t, 8, devices_of_p, NULL), 0);
	check_print(&s, "{'mesh':{'a':2,'b':2,'c':2},'spec':['c',null,'b'],"
			"'replicated':['a'],'devices':" ALL_DEVICES "}");
	/* Two axes for one dimension, in the other order. */
	t = (struct pf_tiles){ .rank = 1, .n = 8, .counts = { 4 }, .of = of };
	ck_assert_int_eq(pf_sharding_of_tiles(&t, 8, devices_of_p, &like, &s, NULL), 0);
	ck_assert_int_eq(pf_sharding_agrees(&s, &t, 8, devices_of_p, NULL), 0);
	/* A block elsewhere disagrees, and the sentence says where. */
	of[1] = 1;
	of[2] = 2;
	check_result(pf_sharding_agrees(&s, &t, 8, devices_of_p, &err), -EINVAL, &err,
		     "p:1 has part 2 of dimension 0, the program wants part 1 there");
	check_print(&s, "{'mesh':{'a':2,'b':2,'c':2},'spec':[['c','b']],"
			"'replicated':['a'],'devices':" ALL_DEVICES "}");
	/* A mesh that cannot say it: 0, 1, 2, 3, 0, 2, 1, 3. */
	ck_assert_int_eq(pf_sharding_of_tiles(&t, 8, devices_of_p, &like, &s, NULL), 0);
	ck_assert_str_eq(s.axes[0].name, "d0");
	ck_assert_int_eq(pf_sharding_agrees(&s, &t, 8, devices_of_p, NULL), 0);
	pf_sharding_release(&s);
	pf_sharding_release(&like);
	ck_assert_int_eq(pf_sharding_of_tiles(&t, 4, devices_of_p, NULL, &s, NULL),
			 -EINVAL);
}

/* How a program takes an array, and how it is. */
static const struct {
	struct pf_tiles tiles;
	const char *spec, *devices;
	unsigned n;
	const char *says; /* NULL: they agree */
} agreements[] = {
	{ { .rank = 2, .n = 2, .counts = { 1, 2 } },
	  "['x']",
	  "['p:0','p:1']",
	  2,
	  "dimension 0 is in 2 parts, the program takes it in 1" },
	/* With another number of partitions: no sentence. */
	{ { .rank = 2, .n = 2, .counts = { 1, 2 } }, "['x']", "['p:0','p:1']", 4, NULL },
	{ { .rank = 1, .n = 2, .counts = { 1, 2 } }, "['x']", "['p:0','p:1']", 2, "" },
	{ { .rank = 2, .n = 2, .counts = { 1, 2 } },
	  "[null,'x']",
	  "['p:0','p:2']",
	  2,
	  "it has no shard on p:1" },
};

TEST_EACH(shardings_agree_with_tiles, agreements)
{
	uint16_t of[] = { 0, 1 };
	struct pf_tiles t = agreements[_i].tiles;
	const char *says = agreements[_i].says;
	struct pf_err err = PF_ERR_INIT;
	struct pf_sharding s;

	t.of = of;
	ck_assert_int_eq(parse_sharding("{'x':2}", agreements[_i].spec,
					agreements[_i].devices, 2, &s, NULL),
			 0);
	check_result(pf_sharding_agrees(&s, &t, agreements[_i].n, devices_of_p, &err),
		     says ? -EINVAL : 0, &err, says);
	pf_sharding_release(&s);
}

TEST(equal_tiles)
{
	uint16_t of[] = { 0, 1 }, other[] = { 1, 0 };
	struct pf_tiles a = { .rank = 1, .n = 2, .counts = { 2 }, .of = of }, b = a;
	struct pf_tiles none = { .rank = 1, .counts = { 1 } };
	struct pf_tiles none_of_2 = { .rank = 1, .n = 2, .counts = { 1 } };

	ck_assert(pf_tiles_equal(&a, &b));
	ck_assert(pf_tiles_equal(&none, &none_of_2));
	ck_assert(!pf_tiles_equal(&a, &none));
	b.of = other;
	ck_assert(!pf_tiles_equal(&a, &b));
	none.rank = 0;
	ck_assert(!pf_tiles_equal(&none, &none_of_2));
}
