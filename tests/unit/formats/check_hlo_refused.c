/* SPDX-License-Identifier: Apache-2.0 */
/* Modules that are refused, and what is just within the limits. */
#include "hlo_proto.h"

static const struct {
	struct shape shape;
	const char *says;
} refused[] = {
	{ { .type = TUPLE }, "tuple" },
	{ { .type = TOKEN }, "token" },
	{ { .type = OPAQUE }, "opaque" },
	{ { .type = 0 }, "unknown element type" },
	{ { .type = 34 }, "unknown element type" },
	{ { .type = 1000 }, "unknown element type" },
	{ { .type = -1 }, "unknown element type" },
	{ { .type = F32, .rank = 1, .dims = { 8 }, .dynamic = true }, "dynamic" },
	{ { .type = F32, .rank = 1, .dims = { -1 } }, "negative" },
	{ { .type = F32, .rank = 1, .dims = { INT64_MIN } }, "negative or unbounded" },
	{ { .type = F32, .rank = 2, .dims = { INT64_MAX, 3 } }, "2^63-1 elements" },
	{ { F32, 2, { 2, 3 }, 1, { 0 }, false }, "layout" },
	{ { F32, 2, { 2, 3 }, 3, { 0, 1, 2 }, false }, "layout" },
	{ { F32, 2, { 2, 3 }, 2, { 0, 0 }, false }, "layout" },
	{ { F32, 2, { 2, 3 }, 2, { 0, 2 }, false }, "layout" },
	{ { F32, 2, { 2, 3 }, 2, { 0, -1 }, false }, "layout" },
};

TEST_EACH(refused_arguments_and_results, refused)
{
	struct module m = { .inputs = { { F32 } },
			    .n_inputs = 2,
			    .outputs = { { F32 } } };
	pf_autobuf struct pf_buf module = PF_BUF_INIT, computation = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;

	m.inputs[1] = refused[_i].shape;
	put_string(&module, 2, "main");
	put_string(&computation, 1, "main");
	put_parameter(&computation, "parameter", 1, "weights");
	put_message(&module, 3, &computation);
	put_program_shape(&module, &m);
	ck_assert_int_eq(parse(&module, &sig, &err), -EINVAL);
	ck_assert_msg(strstr(err.text, refused[_i].says) != NULL, "%s", err.text);
	ck_assert_msg(strstr(err.text, "argument 1 (weights)") != NULL, "%s", err.text);

	/* The same as the second result. */
	if (refused[_i].shape.type == TUPLE)
		return;
	pf_buf_release(&module);
	m.n_inputs = 1;
	m.n_outputs = 2;
	m.tuple = true;
	m.outputs[1] = refused[_i].shape;
	put_program_shape(&module, &m);
	ck_assert_int_eq(parse(&module, &sig, &err), -EINVAL);
	ck_assert_msg(strstr(err.text, refused[_i].says) != NULL, "%s", err.text);
	ck_assert_msg(strstr(err.text, "result 1 ") == err.text, "%s", err.text);
}

TEST(too_many_dimensions)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT, program = PF_BUF_INIT,
				 shape = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;

	put_number(&shape, 2, F32);
	for (int i = 0; i < PF_MAX_RANK + 1; i++)
		put_number(&shape, 3, 1); /* not packed, which is as valid */
	put_message(&program, 1, &shape);
	put_message(&module, 4, &program);
	ck_assert_int_eq(parse(&module, &sig, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "more than 32 dimensions"));
}

/* Both just within what is allowed, and far beyond. */
TEST_TIMES(deep_tuples, 3)
{
	static const int depths[] = { 8, 9, 20000 };
	pf_autobuf struct pf_buf module = PF_BUF_INIT, program = PF_BUF_INIT,
				 shape = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;

	put_number(&shape, 2, F32);
	for (int i = 0; i < depths[_i]; i++) {
		pf_autobuf struct pf_buf tuple = PF_BUF_INIT;

		put_number(&tuple, 2, TUPLE);
		put_message(&tuple, 4, &shape);
		pf_buf_append(&shape, tuple.data, tuple.len);
	}
	put_message(&program, 2, &shape);
	put_message(&module, 4, &program);
	ck_assert_int_eq(parse(&module, &sig, &err), _i ? -EINVAL : 0);
	if (_i == 0)
		ck_assert_uint_eq(sig->n_outputs, 1);
	else
		ck_assert_ptr_nonnull(strstr(err.text, "nested deeper"));
	pf_signature_free(sig);
}

TEST_TIMES(donations_of_no_argument, 3)
{
	static const struct module m = { .inputs = { { F32 } },
					 .n_inputs = 1,
					 .outputs = { { F32 } } };
	pf_autobuf struct pf_buf module = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;

	put_program_shape(&module, &m);
	if (_i == 0)
		put_alias(&module, 1, NULL, 0);
	else if (_i == 1)
		put_donor(&module, 1);
	else
		put_donor(&module, -1);
	ck_assert_int_eq(parse(&module, &sig, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "donates argument"));
}

/* A whole module, truncated at every byte: an error or a module without its last fields. */
TEST(truncated_anywhere)
{
	static const struct module m = {
		.inputs = { { F32, 2, { 2, 3 }, 2, { 1, 0 }, false } },
		.n_inputs = 1,
		.outputs = { { F32, 2, { 3, 2 }, 2, { 0, 1 }, false } },
		.n_outputs = 1,
		.tuple = true,
	};
	pf_autobuf struct pf_buf module = PF_BUF_INIT, computation = PF_BUF_INIT;
	size_t len;

	put_string(&module, 1, "m");
	put_string(&computation, 1, "main");
	put_parameter(&computation, "parameter", 0, "x");
	put_message(&module, 3, &computation);
	put_program_shape(&module, &m);
	put_alias(&module, 0, (const int64_t[]){ 0 }, 1);
	len = module.len;
	for (module.len = 0; module.len <= len; module.len++) {
		struct pf_err err = PF_ERR_INIT;
		struct pf_signature *sig;
		int r = parse(&module, &sig, &err);

		ck_assert(r == 0 || r == -EINVAL);
		if (r < 0)
			ck_assert_uint_gt(strlen(err.text), 10);
		if (module.len == len)
			ck_assert_int_eq(r, 0);
		pf_signature_free(sig);
	}
}

static const struct {
	const char *bytes;
	size_t len;
} garbage[] = {
	{ "", 0 },
	{ "module {}", 9 },
	{ "\x00", 1 },     /* field 0 */
	{ "\x22\x05", 2 }, /* more bytes than there are */
	{ "\x0b", 1 },     /* a group */
	{ "\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11 }, /* 2^64 - 1 bytes */
	{ "\x22\x00", 2 },         /* an empty program shape: no result */
	{ "\x22\x02\x0a\x05", 4 }, /* malformed inside */
	{ "\x22\x02\x12\x00", 4 }, /* a result of type 0 */
	{ "\x20\x01", 2 },         /* a number where the shape should be */
	{ "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11 },
};

TEST_EACH(garbage_is_refused, garbage)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;

	pf_buf_append(&module, garbage[_i].bytes, garbage[_i].len);
	ck_assert_int_eq(parse(&module, &sig, &err), -EINVAL);
	ck_assert_uint_gt(strlen(err.text), 10);
	/* Modules that should be wrapped with a configuration. */
	ck_assert_int_eq(pf_signature_parse("\x12\x00", 2, true, &sig, &err), -EINVAL);
	ck_assert_int_eq(pf_signature_parse("", 0, true, &sig, &err), -EINVAL);
}
