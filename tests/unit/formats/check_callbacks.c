/* SPDX-License-Identifier: Apache-2.0 */
/* The callbacks of compiled programs. */
#include "hlo_proto.h"

#define JAX "xla_ffi_python_cpu_callback"
#define OURS "pjrtfs_callback"

/* An instruction; its operands are numbers of others, "[1,2]". */
struct instruction {
	const char *opcode;
	int id;
	const char *shape, *target, *config, *operands;
	bool packed, side_effect;
};

static void put_instruction(struct pf_buf *computation, const struct instruction *i)
{
	pf_autobuf struct pf_buf message = PF_BUF_INIT;
	const char *operands = i->operands ? i->operands : "";
	int64_t numbers[MOST_NUMBERS];
	size_t n = take_numbers(&operands, "[]", numbers);

	put_string(&message, 2, i->opcode);
	put_shape(&message, 3, i->shape);
	if (i->target)
		put_string(&message, 28, i->target);
	put_number(&message, 35, i->id);
	if (i->packed)
		put_packed(&message, 36, numbers, n);
	for (size_t k = 0; !i->packed && k < n; k++)
		put_number(&message, 36, numbers[k]);
	if (i->config)
		put_string(&message, 43, i->config);
	if (i->side_effect)
		put_number(&message, 65, 1);
	put_message(computation, 2, &message);
}

static void put_computation(struct pf_buf *module, const struct instruction *i, size_t n)
{
	pf_autobuf struct pf_buf computation = PF_BUF_INIT;

	for (size_t k = 0; k < n; k++)
		put_instruction(&computation, &i[k]);
	put_message(module, 3, &computation);
}

#define PARAMETER(n, of)                                                                 \
	{                                                                                \
		.opcode = "parameter", .id = n, .shape = of                              \
	}
#define CALL(n, of, to, ...)                                                             \
	{                                                                                \
		.opcode = "custom-call", .id = n, .shape = of, .target = to,             \
		.config = __VA_ARGS__                                                    \
	}

TEST(callbacks_of_all_computations)
{
	static const struct instruction body[] = {
		PARAMETER(7, "F32[5]"),
		PARAMETER(3, "PRED"),
		CALL(9, "F32[2,3]{1,0}", OURS,
		     "{a = \"index = 8 : ui64\", index = 18446744073709551615 : ui64}",
		     .operands = "[3,7,7]", .packed = true),
	};
	/* Numbers count in their computation only. */
	static const struct instruction entry[] = {
		{ .opcode = "after-all", .id = 7, .shape = "TOKEN" },
		PARAMETER(8, "S32[4]{0}"),
		CALL(9, "TOKEN", JAX, "{index = 1 : ui64}", .operands = "[7,8]",
		     .side_effect = true),
		CALL(10, "S32", "another", "{index = 2 : ui64}"),
		{ .opcode = "call", .id = 11, .shape = "S32", .target = OURS },
		CALL(12, "(TOKEN,F32[2],S32)", JAX, "{index = 0 : ui64}"),
		/* A later call with an index that is known. */
		CALL(13, "S32", "xla_ffi_partitioned_python_cpu_callback",
		     "{index = 1 : ui64}"),
	};
	pf_autobuf struct pf_buf module = PF_BUF_INIT;
	struct json_object *json, *callbacks;
	struct pf_signature *sig;

	put_computation(&module, body, ARRAY_SIZE(body));
	put_computation(&module, entry, ARRAY_SIZE(entry));
	put_program_shape(&module, "", "F32");
	sig = signature(&module);
	json = pf_signature_json(sig, "cpu", "device");
	ck_assert(json_object_object_get_ex(json, "callbacks", &callbacks));
	check_json(json_object_get(callbacks),
		   "[{'index':0,'target':'" JAX "',"
		   "'ordered':true,'side_effect':false,'inputs':[],'outputs':["
		   "{'dtype':'F32','datatype':'FP32','shape':[2]},"
		   "{'dtype':'S32','datatype':'INT32','shape':[]}]},"
		   "{'index':1,'target':'" JAX "',"
		   "'ordered':true,'side_effect':true,'inputs':["
		   "{'dtype':'S32','datatype':'INT32','shape':[4]}],'outputs':[]},"
		   "{'index':18446744073709551615,'target':'" OURS "',"
		   "'ordered':false,'side_effect':false,'inputs':["
		   "{'dtype':'PRED','datatype':'BOOL','shape':[]},"
		   "{'dtype':'F32','datatype':'FP32','shape':[5]},"
		   "{'dtype':'F32','datatype':'FP32','shape':[5]}],'outputs':["
		   "{'dtype':'F32','datatype':'FP32','shape':[2,3]}]}]");
	json_object_put(json);
	pf_signature_free(sig);
}

/* Parts of a call that are refused; argument 2 is not row-major, 3 is a tuple. */
static const struct {
	const char *config, *shape, *operands, *says;
} refused[] = {
	{ NULL, "F32", "", "expected the number of a callback*found none" },
	{ "", "F32", "", "found none" },
	{ "{}", "F32", "", "found {}" },
	{ "{index = 1 : i64}", "F32", "", "expected the number" },
	{ "{index = -1 : ui64}", "F32", "", "expected the number" },
	{ "{index = : ui64}", "F32", "", "expected the number" },
	{ "{index = 18446744073709551616 : ui64}", "F32", "", "expected the number" },
	{ "{a = {index = 1 : ui64}}", "F32", "", "expected the number" },
	{ "index = 1 : ui64", "F32", "", "expected the number" },
	{ "{\"index = 1 : ui64\"}", "F32", "", "expected the number" },
	{ "{index = 7 : ui64}", "F32[2,3]{0,1}", "", "7: result 0 is not row-major" },
	{ "{index = 7 : ui64}", "OPAQUE", "", "callback 7: result 0 is opaque" },
	{ "{index = 7 : ui64}", "F32", "[1,2]", "7: argument 1 is not row-major" },
	{ "{index = 7 : ui64}", "F32", "[3]", "callback 7: argument 0 is a tuple" },
	{ "{index = 7 : ui64}", "F32", "[99]", "not a valid HloModuleProto" },
};

/* Also of a call whose index is known. */
TEST_EACH(refused_callbacks, refused)
{
	const struct instruction program[] = {
		PARAMETER(1, "F32[2,3]{1,0}"),
		PARAMETER(2, "F32[2,3]{0,1}"),
		{ .opcode = "tuple", .id = 3, .shape = "()" },
		CALL(4, "F32", OURS, "{index = 7 : ui64}", .operands = "[1]"),
		CALL(5, refused[_i].shape, OURS, refused[_i].config,
		     .operands = refused[_i].operands),
	};
	pf_autobuf struct pf_buf module = PF_BUF_INIT, good = PF_BUF_INIT;

	put_computation(&module, program, ARRAY_SIZE(program));
	put_program_shape(&module, "", "F32");
	check_refused(&module, refused[_i].says);
	put_computation(&good, program, ARRAY_SIZE(program) - 1);
	put_program_shape(&good, "", "F32");
	pf_signature_free(signature(&good));
}

TEST(too_many_callbacks)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT;
	struct pf_signature *sig;

	put_program_shape(&module, "", "F32");
	for (int i = 0; i < 257; i++) {
		char config[32];

		if (i == 256) {
			sig = signature(&module);
			ck_assert_uint_eq(sig->n_callbacks, 256);
			for (size_t k = 0; k < 256; k++)
				ck_assert_uint_eq(sig->callbacks[k].index, 745 + k);
			pf_signature_free(sig);
		}
		snprintf(config, sizeof(config), "{index = %d : ui64}", 1000 - i);
		put_computation(&module,
				&(const struct instruction)CALL(i, "()", JAX, config), 1);
	}
	check_refused(&module, "the program has more than 256 callbacks");
}

/* A call with 4096 arguments, and one more. */
TEST(too_many_arrays)
{
	static const int64_t ids[4096];
	pf_autobuf struct pf_buf computation = PF_BUF_INIT;

	put_instruction(&computation, &(const struct instruction)PARAMETER(0, "F32"));
	for (int extra = 0; extra < 2; extra++) {
		pf_autobuf struct pf_buf module = PF_BUF_INIT, call = PF_BUF_INIT;
		struct pf_signature *sig;

		put_string(&call, 2, "custom-call");
		put_shape(&call, 3, extra ? "F32" : "()");
		put_string(&call, 28, JAX);
		put_number(&call, 35, 1);
		put_packed(&call, 36, ids, ARRAY_SIZE(ids));
		put_string(&call, 43, "{index = 0 : ui64}");
		put_message(&computation, 2, &call);
		put_bytes(&module, 3, computation.data, computation.len);
		put_program_shape(&module, "", "F32");
		if (extra) {
			check_refused(&module, "more than 4096 arguments and results");
			break;
		}
		sig = signature(&module);
		ck_assert_uint_eq(sig->callbacks[0].n_inputs, 4096);
		pf_signature_free(sig);
	}
}
