/* SPDX-License-Identifier: Apache-2.0 */
/* Shardings as XLA and Shardy write them. */
#include "sharding_text.h"

/* TEXT may have ' for "; MESH is NULL, a JSON object, or a text. */
static int read_text(const char *text, const char *mesh, unsigned rank,
		     const struct pf_device_names *devices, struct pf_sharding *ret,
		     struct pf_err *err)
{
	const char *t = quoted(text), *m = mesh ? quoted(mesh) : NULL;
	struct pf_sharding_words words = { .text = t, .devices = devices };
	int r;

	if (m)
		words.mesh = *m == '{' ? json(m) : json_object_new_string(m);
	r = pf_sharding_read(&words, rank, ret, err);
	json_object_put(words.mesh);
	return r;
}

/* By hand: device p:I has the block OF[I], counted row by row; '-': none. */
static const struct {
	const char *text, *mesh;
	const char *parts; /* a digit for each dimension */
	const char *of;    /* a character for each of the plugin's devices */
} shardings[] = {
	{ "{devices=[2,2]<=[4]}", NULL, "22", "0123----" },
	{ "{devices=[2,2]0,1,2,3}", NULL, "22", "0123" },
	{ "{devices=[2,2]3,1,2,0}", NULL, "22", "3120" },
	/* Block 0 is on p:2, block 1 on p:0, and so on. */
	{ "{devices=[4]2,0,3,1}", NULL, "4", "1302" },
	{ "{devices=[2,2]<=[2,2]T(1,0)}", NULL, "22", "0213" },
	/* 0 1 2 / 3 4 5, transposed: 0 3 / 1 4 / 2 5. */
	{ "{devices=[3,2]<=[2,3]T(1,0)}", NULL, "32", "024135--" },
	{ "{devices=[8]<=[2,2,2]T(2,0,1)}", NULL, "8", "04152637" },
	{ "{devices=[2,1,2]<=[4] last_tile_dim_replicate}", NULL, "21", "0011" },
	{ "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}", NULL, "21", "0101" },
	{ "{devices=[1,2,2,2]<=[8] last_tile_dims={replicated, replicated}}", NULL, "12",
	  "00001111" },
	{ "{devices=[1,1,4]<=[4] last_tile_dim_replicate}", NULL, "11", "0000" },
	{ "{devices=[1,1]0}", NULL, "11", "0---" },
	{ "{replicated}", NULL, "111", "0000" },
	{ "{replicated}", NULL, "", "00" },
	{ "{maximal device=2}", NULL, "11", "--0-" },
	{ " { devices=[ 2 ] <= [ 2 ] } ", NULL, "2", "01" },
	{ "#sdy.sharding<@mesh, [{'x'}, {}]>", "sdy.mesh @mesh = <['x'=2, 'y'=2]>", "21",
	  "0011" },
	{ "<@mesh, [{'y'}, {'x'}]>", "{'x':2,'y':2}", "22", "0213" },
	{ "#sdy.sharding<@m, [{'y', 'x'}], replicated={'z'}>",
	  "@m = <['x'=2, 'y'=2, 'z'=2]>", "4", "00221133" },
	{ "#sdy.sharding<@m, [{'x', ?}p1, {?}]>", "<['x'=2]>", "21", "01--" },
	{ "#sdy.sharding<@'m', []>", "<['x'=2]>", "", "00--" },
	{ "#sdy.sharding<mesh<['x'=2], device_ids=[1, 0]>, [{'x'}]>", NULL, "2", "10--" },
};

TEST_EACH(reads, shardings)
{
	const struct pf_device_names devices = { .n = (unsigned)strlen(shardings[_i].of),
						 .at = devices_of_p };
	struct pf_err err = PF_ERR_INIT;
	unsigned rank = (unsigned)strlen(shardings[_i].parts), n = 0;
	struct pf_sharding s;

	check_result(read_text(shardings[_i].text, shardings[_i].mesh, rank, &devices, &s,
			       &err),
		     0, &err, NULL);
	ck_assert_uint_eq(s.rank, rank);
	for (unsigned d = 0; d < s.rank; d++)
		ck_assert_uint_eq(pf_sharding_parts(&s, d),
				  (unsigned)(shardings[_i].parts[d] - '0'));
	for (unsigned i = 0; i < devices.n; i++) {
		int place = pf_sharding_find(&s, devices_of_p[i]);
		char of = shardings[_i].of[i];

		ck_assert_int_eq(place >= 0, of != '-');
		if (place < 0)
			continue;
		n++;
		ck_assert_uint_eq(pf_sharding_block(&s, (unsigned)place),
				  (unsigned)(of - '0'));
	}
	ck_assert_uint_eq(n, s.n);
	pf_sharding_release(&s);
}

/* On four devices. */
static const struct {
	const char *text, *mesh;
	unsigned rank;
	int want;
	const char *tells;
} refusals[] = {
	{ "", NULL, 1, -EINVAL, "found its end" },
	{ "x", NULL, 1, -EINVAL, "expected XLA's text" },
	{ "{", NULL, 1, -EINVAL, "expected devices=, replicated or maximal device=" },
	{ "{}", NULL, 1, -EINVAL, "at byte 1, found }" },
	{ "{unknown}", NULL, 1, -EINVAL, "that is unknown" },
	{ "{unreduced}", NULL, 1, -EINVAL, "that is unreduced" },
	{ "{manual}", NULL, 1, -EINVAL, "that is manual does not say which part" },
	{ "{{replicated}}", NULL, 1, -EINVAL, "of a tuple" },
	{ "{replicated", NULL, 1, -EINVAL, "expected }, found its end" },
	{ "{devices=[2]<=[2]} x", NULL, 1, -EINVAL,
	  "expected the end at byte 19, found x" },
	{ "{devices=[2]<=[2] metadata={}}", NULL, 1, -EINVAL, "found metadata" },
	{ "{devices=2}", NULL, 1, -EINVAL, "expected [ at byte 9, found 2}" },
	{ "{devices=[]<=[1]}", NULL, 1, -EINVAL, "expected a number at byte 10" },
	{ "{devices=[2}", NULL, 1, -EINVAL, "expected ] at byte 11" },
	{ "{devices=[2]0}", NULL, 1, -EINVAL, "expected 2 devices, found 1" },
	{ "{devices=[2]1,1}", NULL, 1, -EINVAL, "device 1 is there twice" },
	{ "{devices=[2]0,2}", NULL, 1, -EINVAL, "expected devices from 0 to 1, found 2" },
	{ "{devices=[0]<=[1]}", NULL, 1, -EINVAL, "expected tiles from 1 on, found 0" },
	{ "{devices=[2]<=[2]}", NULL, 2, -EINVAL, "1 dimension, the array has 2" },
	{ "{devices=[2,2]<=[4]}", NULL, 1, -EINVAL, "2 dimensions, the array has 1" },
	{ "{devices=[2]<=[3]}", NULL, 1, -EINVAL, "dimensions of 2 devices in all" },
	{ "{devices=[4]<=[2,2]T(0,0)}", NULL, 1, -EINVAL, "found 0 at place 1" },
	{ "{devices=[4]<=[2,2]T(4294967296,1)}", NULL, 1, -EINVAL, "at place 0" },
	{ "{devices=[4]<=[2,2]T(0)}", NULL, 1, -EINVAL,
	  "expected T of 2 numbers, found 1" },
	{ "{devices=[8]<=[8]}", NULL, 1, -EINVAL,
	  "it is of 8 devices, the plugin has 4" },
	{ "{devices=[1024,1024,1024,1024,1024,1024,1024]<=[1]}", NULL, 7, -E2BIG,
	  "more than 1024 devices" },
	{ "{devices=[9223372036854775807,2]<=[2]}", NULL, 2, -E2BIG, "1024 devices" },
	{ "{devices=[9223372036854775808]<=[2]}", NULL, 1, -EINVAL, "below 2^63" },
	{ "{devices=[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
	  "1,1,1,1,1,1,1]<=[1]}",
	  NULL, 1, -E2BIG, "more than 40 numbers" },
	{ "{devices=[1,2]<=[2] last_tile_dims={manual}}", NULL, 1, -EINVAL,
	  "found manual" },
	{ "{devices=[2]<=[2] last_tile_dims={replicated,replicated}}", NULL, 1, -EINVAL,
	  "more kinds of replicas" },
	{ "{maximal device=4}", NULL, 1, -EINVAL, "a device from 0 to 3, found 4" },
	{ "{maximal}", NULL, 1, -EINVAL, "expected device=" },
	{ "{replicated}", "{'x':2}", 1, -EINVAL, "XLA's text has no mesh" },
	{ "<@m, [{'x'}]>", NULL, 1, -EINVAL, "\"mesh\" is missing" },
	{ "<@m, [{'x'}]>", "{'x':2}", 2, -EINVAL, "1 dimension, the array has 2" },
	{ "<@m, [{x}]>", "{'x':2}", 1, -EINVAL, "an axis' name in quotes" },
	{ "<@m, [{'x'}]", "{'x':2}", 1, -EINVAL, "expected >, found its end" },
	{ "<@m, [{'x'}], unreduced={'x'}>", "{'x':2}", 1, -EINVAL, "found unreduced" },
	{ "<@m, [{}], replicated={'y'}>", "{'x':2}", 1, -EINVAL, "no axis \"y\"" },
	{ "<@m, [{'x'}], replicated={'x'}>", "{'x':2}", 1, -EINVAL, "and divides" },
	{ "<@m, [{'x':(1)2}]>", "{'x':4}", 1, -EINVAL, "a part of axis \"x\"" },
	{ "<@m, [{'x'}]>", "@n = <['x'=2]>", 1, -EINVAL, "of mesh @m, \"mesh\" is @n" },
	{ "<mesh<['x'=2]>, [{'x'}]>", "{'x':2}", 1, -EINVAL, "\"mesh\" is another" },
	{ "<@m, [{'x'}]>", "<['x'=2, 'x'=2]>", 1, -EINVAL, "axis \"x\" is there twice" },
	{ "<@m, [{'x'}]>", "<['x'=2]", 1, -EINVAL, "\"mesh\": expected >" },
	{ "<@m, [{'x'}]>", "<['x'=2]> x", 1, -EINVAL, "\"mesh\": expected the end" },
	{ "<@m, [{'x'}]>", "<['x'=5]>", 1, -EINVAL, "it is of 5 devices" },
	{ "<@m, [{'x'}]>", "<['x'=2], device_ids=[0]>", 1, -EINVAL, "device_ids has 1" },
	{ "<@m, [{'x'}]>", "<['x'=2], device_ids=[0,0]>", 1, -EINVAL, "once, found 0" },
	{ "<@m, [{'x'}]>", "<['x'=2], device_ids=[0,2]>", 1, -EINVAL, "once, found 2" },
	{ "<@0123456789012345678901234567890123456789012345678901234567890123, []>",
	  "{'x':2}", 0, -ENAMETOOLONG, "more than 63 bytes" },
};

TEST_EACH(refuses, refusals)
{
	const struct pf_device_names devices = { .n = 4, .at = devices_of_p };
	struct pf_err err = PF_ERR_INIT;
	struct pf_sharding s;

	check_result(read_text(refusals[_i].text, refusals[_i].mesh, refusals[_i].rank,
			       &devices, &s, &err),
		     refusals[_i].want, &err, "\"sharding\": ");
	ck_assert_msg(has_parts(err.text, refusals[_i].tells), "%s", err.text);
	ck_assert_ptr_null(s.devices);
}

TEST(a_user_chooses_as_many_devices)
{
	const struct pf_device_names devices = { .n = 4,
						 .at = devices_of_p,
						 .chosen = true };
	struct pf_err err = PF_ERR_INIT;
	struct pf_sharding s;

	check_result(read_text("{devices=[2]<=[2]}", NULL, 1, &devices, &s, &err),
		     -EINVAL, &err,
		     "\"sharding\": \"devices\": there are 4, the sharding is of 2");
	ck_assert_int_eq(read_text("<@m, [{}]>", "{'x':2}", 1, &devices, &s, &err),
			 -EINVAL);
	ck_assert_int_eq(read_text("{devices=[4]<=[4]}", NULL, 1, &devices, &s, NULL), 0);
	pf_sharding_release(&s);
	ck_assert_int_eq(read_text("{maximal device=3}", NULL, 1, &devices, &s, NULL), 0);
	ck_assert_str_eq(s.devices[0], "p:3");
	pf_sharding_release(&s);
}

/* A sharding from a text is one like all others: printed, and read again. */
TEST(is_printed_with_axes)
{
	const struct pf_device_names devices = { .n = 4, .at = devices_of_p };
	struct json_object *o = json_object_new_object();
	struct pf_sharding s;

	ck_assert_int_eq(read_text("{devices=[2,1,2]<=[2,2]T(1,0) "
				   "last_tile_dim_replicate}",
				   NULL, 2, &devices, &s, NULL),
			 0);
	pf_sharding_print(&s, o);
	check_json(o, "{'mesh':{'d0':2,'replicated':2},'spec':['d0',null],"
		      "'replicated':['replicated'],'devices':['p:0','p:2','p:1','p:3']}");
	pf_sharding_release(&s);
}
