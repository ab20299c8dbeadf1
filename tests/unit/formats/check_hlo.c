/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures of compiled programs: what modules say, and modules that are refused. */
#include "hlo_proto.h"

TEST(names_types_and_donations)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT, computation = PF_BUF_INIT;
	struct pf_signature *sig;

	put_string(&module, 1, "jit_f");
	put_string(&module, 2, "main.7");
	/* Another computation's parameters are not the program's. */
	put_string(&computation, 1, "fused");
	put_parameter(&computation, "parameter", 0, "wrong");
	put_number(&computation, 5, 6);
	put_message(&module, 3, &computation);
	put_string(&computation, 1, "main.7");
	put_parameter(&computation, "parameter", 1, "params['w']");
	put_parameter(&computation, "add", 0, "jit(f)/add");
	put_parameter(&computation, "parameter", 0, "x");
	put_parameter(&computation, "parameter", 7, "beyond");
	put_parameter(&computation, "parameter", 2, "");
	put_number(&computation, 5, 7);
	put_message(&module, 3, &computation);
	put_program_shape(&module, "F32[2,3]{1,0} S4[8]{0} BF16", "(F32[3,2]{0,1},PRED)");
	put_number(&module, 6, 7);
	put_alias(&module, 0, (const int64_t[]){ 0 }, 1);
	put_donor(&module, 2);
	sig = signature(&module);
	ck_assert(sig->lays_out);
	ck_assert_str_eq(sig->inputs[1].name, "params['w']");
	strcpy(sig->inputs[1].name, "w"); /* no quotes for check_json */
	sig->inputs[1].memory_space = 5;
	sig->outputs[0].memory_space = 3;
	check_json(pf_signature_json(sig, "cpu", "device"),
		   "{'name':'jit_f','platform':'cpu','inputs':["
		   "{'name':'x','dtype':'F32','datatype':'FP32','shape':[2,3],"
		   "'layout':[1,0],'memory':'device','donated':true,'alias_output':0},"
		   "{'name':'w','dtype':'S4','datatype':'S4','shape':[8],'layout':[0],"
		   "'memory':'pinned_host','donated':false},"
		   "{'name':'2','dtype':'BF16','datatype':'BF16','shape':[],'layout':[],"
		   "'memory':'device','donated':true}],"
		   "'outputs':[{'name':'0','dtype':'F32','datatype':'FP32','shape':[3,2],"
		   "'layout':[0,1],"
		   "'memory':{'unavailable':'memory space 3 has no name'}},"
		   "{'name':'1','dtype':'PRED','datatype':'BOOL','shape':[],'layout':[],"
		   "'memory':'device'}]}");
	pf_signature_free(sig);
	pf_signature_free(NULL);
}

/* No ids, as old modules have it: the entry computation is found by its name. */
TEST(names_without_ids)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT, computation = PF_BUF_INIT;
	struct pf_signature *sig;

	put_string(&module, 2, "main");
	put_parameter(&computation, "parameter", 0, "wrong");
	put_message(&module, 3, &computation);
	put_string(&computation, 1, "main");
	put_parameter(&computation, "parameter", 0, "bad\nname\xff");
	put_message(&module, 3, &computation);
	put_program_shape(&module, "F32 F32 F32", "F32");
	sig = signature(&module);
	ck_assert_str_eq(sig->name, "");
	ck_assert_str_eq(sig->inputs[0].name, "bad name?");
	ck_assert_uint_eq(sig->n_outputs, 1);
	ck_assert_str_eq(sig->outputs[0].name, "0");
	pf_signature_free(sig);
}

TEST(names_of_the_program_shape)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT, program = PF_BUF_INIT;
	struct pf_signature *sig;

	for (int i = 0; i < 3; i++)
		put_shape(&program, 1, "F32");
	put_shape(&program, 2, "F32");
	put_string(&program, 3, "a");
	put_string(&program, 3, "");
	put_message(&module, 4, &program);
	/* A result that is not a tuple, aliased as a whole. */
	put_alias(&module, 1, NULL, 0);
	sig = signature(&module);
	ck_assert_str_eq(sig->inputs[0].name, "a");
	ck_assert_str_eq(sig->inputs[1].name, "1");
	ck_assert_str_eq(sig->inputs[2].name, "2");
	ck_assert_int_eq(sig->inputs[1].alias_output, 0);
	pf_signature_free(sig);
}

static const char nested[] = "(F32[1],(F32[2],(),F32[3]),F32[4])";

TEST(nested_tuples_are_flattened)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT;
	struct pf_signature *sig;

	put_program_shape(&module, "", nested);
	sig = signature(&module);
	ck_assert_uint_eq(sig->n_inputs, 0);
	ck_assert_uint_eq(sig->n_outputs, 4);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(sig->outputs[i].shape.dims[0], i + 1);
	pf_signature_free(sig);
}

static const struct {
	int64_t path[3];
	size_t depth;
	int want;
} paths[] = {
	{ { 0 }, 1, 0 },        { { 1, 0 }, 2, 1 },  { { 1, 2 }, 2, 2 },
	{ { 2 }, 1, 3 },        { { 1 }, 1, -1 },    { { 1, 1 }, 2, -1 },
	{ { 3 }, 1, -1 },       { { 0, 0 }, 2, -1 }, { { -1 }, 1, -1 },
	{ { 1, 2, 0 }, 3, -1 }, { { 0 }, 0, -1 },    { { INT64_C(1) << 32 }, 1, -1 },
};

TEST_EACH(aliases_of_nested_results, paths)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT;
	struct pf_signature *sig;

	put_program_shape(&module, "F32", nested);
	put_alias(&module, 0, paths[_i].path, paths[_i].depth);
	sig = signature(&module);
	ck_assert(sig->inputs[0].donated);
	ck_assert_int_eq(sig->inputs[0].alias_output, paths[_i].want);
	pf_signature_free(sig);
}

TEST(no_outputs)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT;
	struct pf_signature *sig;

	put_program_shape(&module, "", "()");
	sig = signature(&module);
	ck_assert_uint_eq(sig->n_outputs, 0);
	pf_signature_free(sig);
}

static const struct {
	const char *shape;
	bool row_major;
} layouts[] = {
	{ "F32[2,3,4]", true },
	{ "F32[2,3,4]{2,1,0}", true },
	{ "F32[2,3,4]{1,2,0}", false },
	{ "F32[2,1,4]{1,2,0}", true }, /* one element has no order */
};

TEST_EACH(row_major_layouts, layouts)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT;
	struct pf_signature *sig;

	put_program_shape(&module, layouts[_i].shape, "F32");
	sig = signature(&module);
	ck_assert_int_eq(pf_layout_is_row_major(&sig->inputs[0].layout),
			 layouts[_i].row_major);
	ck_assert(!sig->lays_out);
	if (!layouts[_i].row_major)
		ck_assert_mem_eq(sig->inputs[0].layout.minor_to_major, "\1\2\0", 3);
	pf_signature_free(sig);
}

#define MODULE                                                                           \
	"\x0a\x01m\x1a\x03\x0a\x01"                                                      \
	"c"

static const struct {
	const char *bytes;
	size_t len;
	bool wrapped;
	int want;
	size_t off, len_within;
} wrappings[] = {
	{ MODULE, 8, false, 0, 0, 8 },
	{ "\x12\x00\x0a\x08" MODULE, 12, true, 0, 4, 8 },
	{ "\x12\x00\x0a\x08" MODULE, 11, true, -EINVAL, 0, 0 },
	{ "\x12\x00", 2, true, -EINVAL, 0, 0 },
	{ "", 0, true, -EINVAL, 0, 0 },
};

TEST_EACH(modules_are_unwrapped, wrappings)
{
	const char *bytes = wrappings[_i].bytes;
	struct pf_shared_bytes module = pf_shared_of(bytes, 0);

	ck_assert_int_eq(pf_hlo_unwrap(pf_shared_of(bytes, wrappings[_i].len),
				       wrappings[_i].wrapped, &module, NULL),
			 wrappings[_i].want);
	ck_assert_ptr_eq(module.shared, bytes + wrappings[_i].off);
	ck_assert_uint_eq(module.len, wrappings[_i].len_within);
}

/* The first input is removed if it is a number; the later ones keep their facts. */
TEST(the_platform_is_dropped)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT, none = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;

	put_program_shape(&module, "S32 F32[8]{0} S32", "F32[8]{0}");
	put_alias(&module, 1, NULL, 0);
	sig = signature(&module);
	ck_assert_int_eq(pf_signature_drop_platform(sig, &err), 0);
	ck_assert_uint_eq(sig->n_inputs, 2);
	ck_assert_str_eq(sig->inputs[0].name, "1");
	ck_assert(sig->inputs[0].donated);
	ck_assert_int_eq(sig->inputs[0].alias_output, 0);
	check_result(pf_signature_drop_platform(sig, &err), -EINVAL, &err,
		     "number of the platform");
	ck_assert_uint_eq(sig->n_inputs, 2);
	pf_signature_free(sig);

	put_program_shape(&none, "", "F32");
	sig = signature(&none);
	ck_assert_int_eq(pf_signature_drop_platform(sig, NULL), -EINVAL);
	pf_signature_free(sig);
}

/* The memory space is read from the layout: argument 0, F32[2] in the host's memory. */
TEST(memory_spaces)
{
	static const char module[] =
		"\x22\x16"
		"\x0a\x0e\x10\x0b\x1a\x01\x02\x2a\x05\x0a\x01\x00\x40\x05\x32\x00"
		"\x12\x04\x10\x0b\x2a\x00";
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;

	check_result(pf_signature_parse(pf_shared_of(module, sizeof(module) - 1), false,
					&sig, &err),
		     0, &err, NULL);
	ck_assert_int_eq(sig->inputs[0].memory_space, 5);
	ck_assert_int_eq(sig->outputs[0].memory_space, 0);
	pf_signature_free(sig);
}

/* --- what is refused ------------------------------------------------------------------------- */

static const struct {
	const char *shape, *says;
} refused[] = {
	{ "()", "tuple" },
	{ "TOKEN", "token" },
	{ "OPAQUE", "opaque" },
	{ "0", "unknown element type" },
	{ "34", "unknown element type" },
	{ "-1", "unknown element type" },
	{ "F32[8]?", "dynamic" },
	{ "F32[-9223372036854775808]", "negative or unbounded" },
	{ "F32[9223372036854775807,3]", "2^63-1 elements" },
	{ "F32[2,3]{0}", "layout" },
	{ "F32[2,3]{0,0}", "layout" },
};

TEST_EACH(refused_arguments_and_results, refused)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT, computation = PF_BUF_INIT;
	char text[128];

	put_string(&module, 2, "main");
	put_string(&computation, 1, "main");
	put_parameter(&computation, "parameter", 1, "weights");
	put_message(&module, 3, &computation);
	snprintf(text, sizeof(text), "F32 %s", refused[_i].shape);
	put_program_shape(&module, text, "F32");
	snprintf(text, sizeof(text), "argument 1 (weights)*%s", refused[_i].says);
	check_refused(&module, text);

	/* The same as the second result. */
	if (!strcmp(refused[_i].shape, "()"))
		return;
	pf_buf_release(&module);
	snprintf(text, sizeof(text), "(F32,%s)", refused[_i].shape);
	put_program_shape(&module, "F32", text);
	snprintf(text, sizeof(text), "result 1 *%s", refused[_i].says);
	check_refused(&module, text);
}

TEST(too_many_dimensions)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT, program = PF_BUF_INIT,
				 shape = PF_BUF_INIT;

	put_number(&shape, 2, 11);
	for (int i = 0; i < PF_MAX_RANK + 1; i++)
		put_number(&shape, 3, 1); /* not packed, which is as valid */
	put_message(&program, 1, &shape);
	put_message(&module, 4, &program);
	check_refused(&module, "more than 32 dimensions");
}

/* Both just within what is allowed, and far beyond. */
TEST_TIMES(deep_tuples, 3)
{
	static const int depths[] = { 8, 9, 20000 };
	pf_autobuf struct pf_buf module = PF_BUF_INIT, program = PF_BUF_INIT,
				 shape = PF_BUF_INIT;
	struct pf_signature *sig;

	put_number(&shape, 2, 11);
	for (int i = 0; i < depths[_i]; i++) {
		pf_autobuf struct pf_buf tuple = PF_BUF_INIT;

		put_number(&tuple, 2, 13);
		put_message(&tuple, 4, &shape);
		pf_buf_append(&shape, tuple.data, tuple.len);
	}
	put_message(&program, 2, &shape);
	put_message(&module, 4, &program);
	if (_i) {
		check_refused(&module, "nested deeper");
		return;
	}
	sig = signature(&module);
	ck_assert_uint_eq(sig->n_outputs, 1);
	pf_signature_free(sig);
}

TEST_TIMES(donations_of_no_argument, 3)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT;

	put_program_shape(&module, "F32", "F32");
	if (_i == 0)
		put_alias(&module, 1, NULL, 0);
	else
		put_donor(&module, _i == 1 ? 1 : -1);
	check_refused(&module, "donates argument");
}

/* A whole module, truncated at every byte: an error or a module without its last fields. */
TEST(truncated_anywhere)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT, computation = PF_BUF_INIT;
	size_t len;

	put_string(&module, 1, "m");
	put_string(&computation, 1, "main");
	put_parameter(&computation, "parameter", 0, "x");
	put_message(&module, 3, &computation);
	put_program_shape(&module, "F32[2,3]{1,0}", "(F32[3,2]{0,1})");
	put_alias(&module, 0, (const int64_t[]){ 0 }, 1);
	len = module.len;
	for (module.len = 0; module.len <= len; module.len++) {
		struct pf_err err = PF_ERR_INIT;
		struct pf_signature *sig;
		int r = parse(&module, &sig, &err);

		ck_assert(r == 0 || (r == -EINVAL && module.len < len));
		if (r < 0)
			ck_assert_uint_gt(strlen(err.text), 10);
		pf_signature_free(sig);
	}
}

static const struct {
	const char *bytes;
	size_t len;
} garbage[] = {
	{ "", 0 },
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

	pf_buf_append(&module, garbage[_i].bytes, garbage[_i].len);
	check_refused(&module, " "); /* of several words */
}
