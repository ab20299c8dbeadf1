/* SPDX-License-Identifier: Apache-2.0 */
/* The callbacks of compiled programs. */
#include <stdio.h>

#include "hlo_proto.h"

/* An instruction; its operands are numbers of others. */
struct instruction {
	const char *opcode;
	int id;
	struct shape shape;
	const char *target, *config;
	int64_t operands[3];
	unsigned n_operands;
	bool packed, side_effect;
};

static const char jax[] = "xla_ffi_python_cpu_callback";
static const struct shape token = { .type = TOKEN }, scalar = { .type = F32 },
			  nothing = { .type = TUPLE };

static void put_instruction(struct pf_buf *computation, const struct instruction *i)
{
	pf_autobuf struct pf_buf message = PF_BUF_INIT;

	put_string(&message, 2, i->opcode);
	put_shape(&message, 3, &i->shape);
	if (i->target)
		put_string(&message, 28, i->target);
	put_number(&message, 35, i->id);
	if (i->packed)
		put_packed(&message, 36, i->operands, i->n_operands);
	for (unsigned k = 0; !i->packed && k < i->n_operands; k++)
		put_number(&message, 36, i->operands[k]);
	if (i->config)
		put_string(&message, 43, i->config);
	if (i->side_effect)
		put_number(&message, 65, 1);
	put_message(computation, 2, &message);
}

static void put_main_shape(struct pf_buf *module)
{
	put_program_shape(module, &(struct module){ .outputs = { { .type = F32 } } });
}

/* Parse a program of these N instructions in one computation. */
static int parse_calls(const struct instruction *i, size_t n, struct pf_signature **ret,
		       struct pf_err *err)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT, computation = PF_BUF_INIT;

	for (size_t k = 0; k < n; k++)
		put_instruction(&computation, &i[k]);
	put_message(&module, 3, &computation);
	put_main_shape(&module);
	return parse(&module, ret, err);
}

static void check_array(const struct pf_param *param, enum pf_dtype dtype, unsigned rank,
			int64_t extent)
{
	ck_assert_int_eq(param->dtype, dtype);
	ck_assert_uint_eq(param->shape.rank, rank);
	ck_assert(rank == 0 || param->shape.dims[0] == extent);
}

TEST(callbacks_of_all_computations)
{
	static const struct instruction body[] = {
		{ "parameter", 7, { F32, 1, { 5 }, 0, { 0 }, false }, .n_operands = 0 },
		{ "parameter", 3, { .type = PRED }, .n_operands = 0 },
		{ "custom-call",
		  9,
		  { F32, 2, { 2, 3 }, 2, { 1, 0 }, false },
		  .target = "pjrtfs_callback",
		  .config =
			  "{a = \"index = 8 : ui64\", index = 18446744073709551615 : ui64}",
		  .operands = { 3, 7, 7 },
		  .n_operands = 3,
		  .packed = true },
	};
	/* Numbers count in their computation only. */
	static const struct instruction entry[] = {
		{ "after-all", 7, { .type = TOKEN }, .n_operands = 0 },
		{ "parameter", 8, { S32, 1, { 4 }, 0, { 0 }, false }, .n_operands = 0 },
		{ "custom-call",
		  9,
		  { .type = TOKEN },
		  .target = "xla_ffi_python_cpu_callback",
		  .config = "{index = 1 : ui64}",
		  .operands = { 7, 8 },
		  .n_operands = 2,
		  .side_effect = true },
		{ "custom-call",
		  10,
		  { .type = S32 },
		  .target = "another",
		  .config = "{index = 2 : ui64}",
		  .n_operands = 0 },
		{ "call",
		  11,
		  { .type = S32 },
		  .target = "pjrtfs_callback",
		  .n_operands = 0 },
		/* A later call with an index that is known. */
		{ "custom-call",
		  12,
		  { .type = S32 },
		  .target = "xla_ffi_partitioned_python_cpu_callback",
		  .config = "{index = 1 : ui64}",
		  .n_operands = 0 },
	};
	pf_autobuf struct pf_buf module = PF_BUF_INIT, computation = PF_BUF_INIT;
	const struct pf_callback_sig *c;
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;

	for (size_t i = 0; i < PF_ARRAY_SIZE(body); i++)
		put_instruction(&computation, &body[i]);
	put_message(&module, 3, &computation);
	for (size_t i = 0; i < PF_ARRAY_SIZE(entry); i++)
		put_instruction(&computation, &entry[i]);
	put_message(&module, 3, &computation);
	put_main_shape(&module);
	ck_assert_msg(parse(&module, &sig, &err) == 0, "%s", err.text);
	ck_assert_uint_eq(sig->n_callbacks, 2);
	c = &sig->callbacks[0];
	ck_assert_uint_eq(c->index, 1);
	ck_assert_str_eq(c->target, jax);
	ck_assert(c->ordered && c->side_effect);
	ck_assert_uint_eq(c->n_inputs, 1);
	ck_assert_uint_eq(c->n_outputs, 0);
	check_array(&c->inputs[0], PF_DTYPE_S32, 1, 4);
	c = &sig->callbacks[1];
	ck_assert_uint_eq(c->index, UINT64_MAX);
	ck_assert_str_eq(c->target, "pjrtfs_callback");
	ck_assert(!c->ordered && !c->side_effect);
	ck_assert_uint_eq(c->n_inputs, 3);
	check_array(&c->inputs[0], PF_DTYPE_PRED, 0, 0);
	check_array(&c->inputs[1], PF_DTYPE_F32, 1, 5);
	check_array(&c->inputs[2], PF_DTYPE_F32, 1, 5);
	ck_assert_uint_eq(c->n_outputs, 1);
	check_array(&c->outputs[0], PF_DTYPE_F32, 2, 2);
	pf_signature_free(sig);
}

/* The results of put_main's call: a token, F32[2] and S32; as text, too. */
TEST(results_in_a_tuple)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT, computation = PF_BUF_INIT,
				 call = PF_BUF_INIT, tuple = PF_BUF_INIT;
	const struct shape array = { .type = F32, .rank = 1, .dims = { 2 } };
	struct pf_err err = PF_ERR_INIT;
	struct json_object *json, *callbacks;
	struct pf_signature *sig;

	put_number(&tuple, 2, TUPLE);
	put_shape(&tuple, 4, &token);
	put_shape(&tuple, 4, &array);
	put_shape(&tuple, 4, &(struct shape){ .type = S32 });
	put_string(&call, 2, "custom-call");
	put_message(&call, 3, &tuple);
	put_string(&call, 28, jax);
	put_string(&call, 43, "{index = 0 : ui64}");
	put_message(&computation, 2, &call);
	put_message(&module, 3, &computation);
	put_main_shape(&module);
	ck_assert_msg(parse(&module, &sig, &err) == 0, "%s", err.text);
	json = pf_signature_json(sig, "cpu", "device");
	ck_assert(json_object_object_get_ex(json, "callbacks", &callbacks));
	ck_assert_str_eq(
		json_object_to_json_string_ext(callbacks, JSON_C_TO_STRING_PLAIN),
		"[{\"index\":0,\"target\":\"xla_ffi_python_cpu_callback\","
		"\"ordered\":true,\"side_effect\":false,\"inputs\":[],\"outputs\":["
		"{\"dtype\":\"F32\",\"datatype\":\"FP32\",\"shape\":[2]},"
		"{\"dtype\":\"S32\",\"datatype\":\"INT32\",\"shape\":[]}]}]");
	json_object_put(json);
	pf_signature_free(sig);
}

static const struct {
	struct instruction call;
	const char *says;
} refused[] = {
	{ { .config = NULL }, "found none" },
	{ { .config = "" }, "found none" },
	{ { .config = "{}" }, "found {}" },
	{ { .config = "{index = 1 : i64}" }, "expected the number of a callback" },
	{ { .config = "{index = -1 : ui64}" }, "expected the number of a callback" },
	{ { .config = "{index = : ui64}" }, "expected the number of a callback" },
	{ { .config = "{index = 18446744073709551616 : ui64}" }, "expected the number" },
	{ { .config = "{a = {index = 1 : ui64}}" }, "expected the number of a callback" },
	{ { .config = "index = 1 : ui64" }, "expected the number of a callback" },
	{ { .config = "{\"index = 1 : ui64\"}" }, "expected the number of a callback" },
	{ { .config = "{index = 7 : ui64}",
	    .shape = { F32, 2, { 2, 3 }, 2, { 0, 1 }, false } },
	  "callback 7: result 0 is not row-major" },
	{ { .config = "{index = 7 : ui64}", .shape = { .type = OPAQUE } },
	  "callback 7: result 0 is opaque" },
	{ { .config = "{index = 7 : ui64}", .operands = { 1, 2 }, .n_operands = 2 },
	  "callback 7: argument 1 is not row-major" },
	{ { .config = "{index = 7 : ui64}", .operands = { 3 }, .n_operands = 1 },
	  "callback 7: argument 0 is a tuple" },
	{ { .config = "{index = 7 : ui64}", .operands = { 99 }, .n_operands = 1 },
	  "not a valid HloModuleProto" },
};

/* Also of a call whose index is known. */
TEST_EACH(refused_callbacks, refused)
{
	struct instruction program[] = {
		{ "parameter",
		  1,
		  { F32, 2, { 2, 3 }, 2, { 1, 0 }, false },
		  .n_operands = 0 },
		{ "parameter",
		  2,
		  { F32, 2, { 2, 3 }, 2, { 0, 1 }, false },
		  .n_operands = 0 },
		{ "tuple", 3, { .type = TUPLE }, .n_operands = 0 },
		{ "custom-call",
		  4,
		  { .type = F32 },
		  .target = "pjrtfs_callback",
		  .config = "{index = 7 : ui64}",
		  .operands = { 1 },
		  .n_operands = 1 },
		refused[_i].call,
	};
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;

	program[4].opcode = "custom-call";
	program[4].id = 5;
	program[4].target = "pjrtfs_callback";
	if (!program[4].shape.type)
		program[4].shape = scalar;
	ck_assert_int_eq(parse_calls(program, 5, &sig, &err), -EINVAL);
	ck_assert_msg(strstr(err.text, refused[_i].says) != NULL, "%s", err.text);
	ck_assert_int_eq(parse_calls(program, 4, &sig, NULL), 0);
	pf_signature_free(sig);
}

TEST(too_many_callbacks)
{
	struct instruction calls[257];
	char config[257][32];
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;

	for (int i = 0; i < 257; i++) {
		snprintf(config[i], sizeof(config[i]), "{index = %d : ui64}", 1000 - i);
		calls[i] = (struct instruction){ .opcode = "custom-call",
						 .id = i,
						 .shape = nothing,
						 .target = jax,
						 .config = config[i] };
	}
	ck_assert_msg(parse_calls(calls, 256, &sig, &err) == 0, "%s", err.text);
	ck_assert_uint_eq(sig->n_callbacks, 256);
	for (size_t i = 0; i < 256; i++)
		ck_assert_uint_eq(sig->callbacks[i].index, 745 + i);
	pf_signature_free(sig);
	ck_assert_int_eq(parse_calls(calls, 257, &sig, &err), -EINVAL);
	ck_assert_str_eq(err.text, "the program has more than 256 callbacks");
}

/* A call with 4096 arguments, and one more. */
TEST(too_many_arrays)
{
	int64_t ids[4096] = { 0 };
	pf_autobuf struct pf_buf computation = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;

	put_instruction(&computation,
			&(struct instruction){ .opcode = "parameter", .shape = scalar });
	for (int extra = 0; extra < 2; extra++) {
		pf_autobuf struct pf_buf module = PF_BUF_INIT, call = PF_BUF_INIT;

		put_string(&call, 2, "custom-call");
		put_shape(&call, 3, extra ? &scalar : &nothing);
		put_string(&call, 28, jax);
		put_number(&call, 35, 1);
		put_packed(&call, 36, ids, PF_ARRAY_SIZE(ids));
		put_string(&call, 43, "{index = 0 : ui64}");
		put_message(&computation, 2, &call);
		put_bytes(&module, 3, computation.data, computation.len);
		put_main_shape(&module);
		ck_assert_int_eq(parse(&module, &sig, &err), extra ? -EINVAL : 0);
		if (!extra)
			ck_assert_uint_eq(sig->callbacks[0].n_inputs, 4096);
		pf_signature_free(sig);
	}
	ck_assert_ptr_nonnull(strstr(err.text, "more than 4096 arguments and results"));
}
