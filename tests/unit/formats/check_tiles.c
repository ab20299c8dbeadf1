/* SPDX-License-Identifier: Apache-2.0 */
/* The tiles of arguments and results in an optimized program. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pjrtfs/base.h"
#include "pjrtfs/program.h"
#include "sharding_text.h"

/* A message of less than 128 bytes. */
static void put(struct pf_buf *buf, unsigned field, const void *p, size_t len)
{
	ck_assert_uint_lt(len, 128);
	if (field > 15)
		ck_abort();
	pf_buf_append(buf, (const char[]){ (char)(field << 3 | 2), (char)len }, 2);
	pf_buf_append(buf, p, len);
}

/* F32 of RANK dimensions of 2. */
static void put_shape(struct pf_buf *buf, unsigned field, unsigned rank)
{
	char shape[16] = "\x10\x0b\x1a";

	shape[3] = (char)rank;
	memset(shape + 4, 2, rank);
	put(buf, field, shape, 4 + rank);
}

#define TEXT(s) s, sizeof(s) - 1

/* One argument of rank 2 and its sharding, and what is made of it. */
static const struct {
	const char *sharding;
	size_t len;
	unsigned n, counts[2]; /* counts[0] 0: not known */
	int of[8];             /* -1: NULL */
} cases[] = {
	{ TEXT(""), 0, { 1, 1 }, { -1 } },         /* replicated */
	{ TEXT("\x08\x00"), 0, { 1, 1 }, { -1 } }, /* the same */
	/* devices=[2,2]<=[4] */
	{ TEXT("\x08\x03\x1a\x02\x02\x02\x4a\x01\x04\x52\x01\x00"),
	  4,
	  { 2, 2 },
	  { 0, 1, 2, 3 } },
	/* devices=[2,2]0,2,1,3 */
	{ TEXT("\x08\x03\x1a\x02\x02\x02\x22\x04\x00\x02\x01\x03"),
	  4,
	  { 2, 2 },
	  { 0, 2, 1, 3 } },
	/* the same: devices=[2,2]<=[2,2]T(1,0) */
	{ TEXT("\x08\x03\x1a\x02\x02\x02\x4a\x02\x02\x02\x52\x02\x01\x00"),
	  4,
	  { 2, 2 },
	  { 0, 2, 1, 3 } },
	/* devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate */
	{ TEXT("\x08\x03\x1a\x03\x02\x01\x02\x30\x01\x4a\x02\x02\x02\x52\x02\x01\x00"),
	  4,
	  { 2, 1 },
	  { 0, 1, 0, 1 } },
	/* devices=[2,1,2]<=[4] last_tile_dims={replicated} */
	{ TEXT("\x08\x03\x1a\x03\x02\x01\x02\x42\x01\x00\x4a\x01\x04\x52\x01\x00"),
	  4,
	  { 2, 1 },
	  { 0, 0, 1, 1 } },
	/* devices=[3,2]<=[2,3]T(1,0): partition 1 is the second row's first */
	{ TEXT("\x08\x03\x1a\x02\x03\x02\x4a\x02\x02\x03\x52\x02\x01\x00"),
	  6,
	  { 3, 2 },
	  { 0, 2, 4, 1, 3, 5 } },
	/* devices=[1,1,4]<=[4] last_tile_dim_replicate */
	{ TEXT("\x08\x03\x1a\x03\x01\x01\x04\x30\x01\x4a\x01\x04\x52\x01\x00"),
	  4,
	  { 1, 1 },
	  { -1 } },
	/* Said, but not of every partition's part of the array. */
	{ TEXT("\x08\x01\x1a\x01\x01\x22\x01\x00"), .n = 0 }, /* maximal */
	{ TEXT("\x08\x04"), .n = 0 },                         /* manual */
	{ TEXT("\x08\x05"), .n = 0 },                         /* unknown */
	{ TEXT("\x08\x63"), .n = 0 },                         /* new */
	{ TEXT("\x08\x03\x1a\x03\x02\x01\x02\x42\x01\x04\x4a\x01\x04\x52\x01\x00"),
	  .n = 0 }, /* last_tile_dims={manual} */
	/* Wrong: another rank, one too few, twice, out of range, 0 and -1 parts, too many,
	 * no permutation, subgroups beyond, no proto. */
	{ TEXT("\x08\x03\x1a\x01\x02\x22\x02\x00\x01"), .n = 0 },
	{ TEXT("\x08\x03\x1a\x02\x02\x02\x22\x03\x00\x02\x01"), .n = 0 },
	{ TEXT("\x08\x03\x1a\x02\x02\x01\x22\x02\x01\x01"), .n = 0 },
	{ TEXT("\x08\x03\x1a\x02\x02\x01\x22\x02\x00\x02"), .n = 0 },
	{ TEXT("\x08\x03\x1a\x02\x02\x00\x22\x01\x00"), .n = 0 },
	{ TEXT("\x08\x03\x1a\x0b\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x4a\x01\x02"
	       "\x52\x01\x00"),
	  .n = 0 },
	{ TEXT("\x08\x03\x1a\x03\x02\x81\x04\x4a\x02\x81\x08\x52\x01\x00"), .n = 0 },
	{ TEXT("\x08\x03\x1a\x02\x02\x02\x4a\x02\x02\x02\x52\x02\x01\x01"), .n = 0 },
	{ TEXT("\x08\x03\x1a\x02\x02\x02\x4a\x02\x02\x02\x52\x02\x01\x02"), .n = 0 },
	{ TEXT("\x08\x03\x1a\x02\x02\x02\x4a\x02\x02\x02\x52\x01\x00"), .n = 0 },
	{ TEXT("\x08\x03\x1a\x02\x02\x02\x4a\x01\x03\x52\x01\x00"), .n = 0 },
	{ TEXT("\x08\x03\x1a\x02\x02\x01\x42\x03\x00\x00\x00\x4a\x01\x02\x52\x01\x00"),
	  .n = 0 },
	{ TEXT("\x08\x03\x1a\x0f"), .n = 0 },
};

static void check(const struct pf_param *param, size_t i)
{
	const struct pf_tiles *t = param->tiles;

	if (!cases[i].counts[0]) {
		ck_assert_ptr_null(t);
		return;
	}
	ck_assert_ptr_nonnull(t);
	ck_assert_uint_eq(t->rank, 2);
	ck_assert_uint_eq(t->n, cases[i].n);
	ck_assert_mem_eq(t->counts, cases[i].counts, sizeof(cases[i].counts));
	if (cases[i].of[0] < 0) {
		ck_assert_ptr_null(t->of);
		return;
	}
	for (unsigned p = 0; p < t->n; p++)
		ck_assert_int_eq(t->of[p], cases[i].of[p]);
}

/* The signature of a program of N_IN arguments, one result, or with TUPLE as many. */
static struct pf_signature *parse(unsigned n_in, unsigned tuple,
				  const struct pf_buf *shardings)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT, program = PF_BUF_INIT;
	pf_autobuf struct pf_buf result = PF_BUF_INIT;
	struct pf_signature *sig = NULL;
	struct pf_err err = PF_ERR_INIT;

	for (unsigned i = 0; i < n_in; i++)
		put_shape(&program, 1, 2);
	pf_buf_append(&result, "\x10\x0d", 2);
	for (unsigned i = 0; i < tuple; i++)
		put_shape(&result, 4, 2);
	if (tuple)
		put(&program, 2, result.data, result.len);
	else
		put_shape(&program, 2, 2);
	put(&module, 1, "f", 1);
	put(&module, 4, program.data, program.len);
	pf_buf_append(&module, shardings->data, shardings->len);
	ck_assert_msg(pf_signature_parse(module.data, module.len, false, &sig, &err) == 0,
		      "%s", err.text);
	return sig;
}

TEST_EACH(of_arguments_and_results, cases)
{
	pf_autobuf struct pf_buf shardings = PF_BUF_INIT;
	struct pf_signature *sig;

	put(&shardings, 14, cases[_i].sharding, cases[_i].len);
	put(&shardings, 12, cases[_i].sharding, cases[_i].len);
	sig = parse(1, 0, &shardings);
	check(&sig->inputs[0], (size_t)_i);
	check(&sig->outputs[0], (size_t)_i);
	pf_signature_free(sig);
}

/* A tuple has one for each result; arguments have one each, in their order, or none. */
TEST(of_several)
{
	pf_autobuf struct pf_buf shardings = PF_BUF_INIT, tuple = PF_BUF_INIT;
	struct pf_signature *sig;

	pf_buf_append(&tuple, "\x08\x02", 2);
	for (size_t i = 2; i < 4; i++) {
		put(&shardings, 14, cases[i].sharding, cases[i].len);
		put(&tuple, 5, cases[i].sharding, cases[i].len);
	}
	put(&shardings, 12, tuple.data, tuple.len);
	sig = parse(2, 2, &shardings);
	for (size_t i = 2; i < 4; i++) {
		check(&sig->inputs[i - 2], i);
		check(&sig->outputs[i - 2], i);
	}
	pf_signature_free(sig);
	sig = parse(3, 3, &shardings);
	for (size_t i = 0; i < 3; i++) {
		ck_assert_ptr_null(sig->inputs[i].tiles);
		ck_assert_ptr_null(sig->outputs[i].tiles);
	}
	pf_signature_free(sig);
}

TEST(as_json)
{
	pf_autobuf struct pf_buf shardings = PF_BUF_INIT;
	struct pf_signature *sig;
	struct json_object *o;
	const char *text;

	put(&shardings, 14, cases[5].sharding, cases[5].len);
	put(&shardings, 12, cases[0].sharding, cases[0].len);
	sig = parse(1, 0, &shardings);
	o = pf_signature_json(sig, "cpu", "device");
	text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN);
	ck_assert_msg(strstr(text, "\"sharding\":{\"parts\":[2,1],\"of\":[0,1,0,1]}") !=
			      NULL,
		      "%s", text);
	ck_assert_msg(strstr(text, "\"sharding\":{\"parts\":[1,1]}") != NULL, "%s", text);
	json_object_put(o);
	pf_signature_free(sig);
}

/* --- shardings of tiles ---------------------------------------------------------------------- */

static char *names[] = { "p:0", "p:1", "p:2", "p:3", "p:4", "p:5", "p:6", "p:7" };

static void print(struct pf_sharding *s, char *text, size_t len)
{
	struct json_object *o = json_object_new_object();

	pf_sharding_print(s, o);
	snprintf(text, len, "%s",
		 json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
	json_object_put(o);
	pf_sharding_release(s);
}

TEST(tiles_become_shardings)
{
	uint16_t of[] = { 0, 2, 1, 3, 0, 2, 1, 3 };
	struct pf_tiles t = { .rank = 3, .n = 8, .counts = { 2, 1, 2 }, .of = of };
	struct pf_tiles whole = { .rank = 1, .counts = { 1 } };
	struct pf_sharding s, like;
	struct pf_err err = PF_ERR_INIT;
	char text[512];

	/* Axes of our own: partition 2 has the tile [0,0,1], partition 1 [1,0,0]. */
	ck_assert_int_eq(pf_sharding_of_tiles(&t, 8, names, NULL, &s, NULL), 0);
	ck_assert_int_eq(pf_sharding_agrees(&s, &t, 8, names, NULL), 0);
	print(&s, text, sizeof(text));
	ck_assert_str_eq(text,
			 "{\"mesh\":{\"d0\":2,\"d2\":2,\"replicated\":2},"
			 "\"spec\":[\"d0\",null,\"d2\"],"
			 "\"replicated\":[\"replicated\"],"
			 "\"devices\":[\"p:0\",\"p:4\",\"p:2\",\"p:6\",\"p:1\",\"p:5\","
			 "\"p:3\",\"p:7\"]}");
	ck_assert_int_eq(pf_sharding_of_tiles(&whole, 2, names, NULL, &s, NULL), 0);
	print(&s, text, sizeof(text));
	ck_assert_str_eq(text, "{\"mesh\":{\"replicated\":2},\"spec\":[null],"
			       "\"replicated\":[\"replicated\"],"
			       "\"devices\":[\"p:0\",\"p:1\"]}");

	/* Those of a mesh that is there. */
	ck_assert_int_eq(
		parse_sharding("{'a':2,'b':2,'c':2}", "['a']",
			       "['p:0','p:1','p:2','p:3','p:4','p:5','p:6','p:7']", 1,
			       &like, NULL),
		0);
	ck_assert_int_eq(pf_sharding_of_tiles(&t, 8, names, &like, &s, NULL), 0);
	ck_assert_int_eq(pf_sharding_agrees(&s, &t, 8, names, NULL), 0);
	print(&s, text, sizeof(text));
	ck_assert_str_eq(text,
			 "{\"mesh\":{\"a\":2,\"b\":2,\"c\":2},"
			 "\"spec\":[\"c\",null,\"b\"],\"replicated\":[\"a\"],"
			 "\"devices\":[\"p:0\",\"p:1\",\"p:2\",\"p:3\",\"p:4\",\"p:5\","
			 "\"p:6\",\"p:7\"]}");
	/* Two axes for one dimension, in the other order. */
	t = (struct pf_tiles){ .rank = 1, .n = 8, .counts = { 4 }, .of = of };
	ck_assert_int_eq(pf_sharding_of_tiles(&t, 8, names, &like, &s, NULL), 0);
	ck_assert_uint_eq(s.n_by[0], 2);
	ck_assert_uint_eq(s.by[0][0], 2);
	ck_assert_uint_eq(s.by[0][1], 1);
	ck_assert_int_eq(pf_sharding_agrees(&s, &t, 8, names, NULL), 0);
	/* A block elsewhere disagrees, and the sentence says where. */
	of[1] = 1;
	of[2] = 2;
	ck_assert_int_eq(pf_sharding_agrees(&s, &t, 8, names, &err), -EINVAL);
	ck_assert_str_eq(err.text,
			 "p:1 has part 2 of dimension 0, the program wants part "
			 "1 there");
	pf_sharding_release(&s);
	/* A mesh that cannot say it: 0, 1, 2, 3, 0, 2, 1, 3. */
	ck_assert_int_eq(pf_sharding_of_tiles(&t, 8, names, &like, &s, NULL), 0);
	ck_assert_str_eq(s.axes[0].name, "d0");
	ck_assert_int_eq(pf_sharding_agrees(&s, &t, 8, names, NULL), 0);
	pf_sharding_release(&s);
	pf_sharding_release(&like);
	ck_assert_int_eq(pf_sharding_of_tiles(&t, 4, names, NULL, &s, &err), -EINVAL);
}

TEST(disagreements)
{
	uint16_t of[] = { 0, 1 };
	struct pf_tiles t = { .rank = 2, .n = 2, .counts = { 1, 2 }, .of = of };
	struct pf_err err = PF_ERR_INIT;
	struct pf_sharding s;

	ck_assert_int_eq(parse_sharding("{'x':2}", "['x']", "['p:0','p:1']", 2, &s, NULL),
			 0);
	ck_assert_int_eq(pf_sharding_agrees(&s, &t, 2, names, &err), -EINVAL);
	ck_assert_str_eq(err.text,
			 "dimension 0 is in 2 parts, the program takes it in 1");
	/* With another number of partitions: no sentence. */
	ck_assert_int_eq(pf_sharding_agrees(&s, &t, 4, names, &err), 0);
	t.rank = 1;
	ck_assert_int_eq(pf_sharding_agrees(&s, &t, 2, names, &err), -EINVAL);
	pf_sharding_release(&s);
	t.rank = 2;
	ck_assert_int_eq(parse_sharding("{'x':2}", "[null,'x']", "['p:0','p:2']", 2, &s,
					NULL),
			 0);
	ck_assert_int_eq(pf_sharding_agrees(&s, &t, 2, names, &err), -EINVAL);
	ck_assert_str_eq(err.text, "it has no shard on p:1");
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
