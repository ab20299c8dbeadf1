/* Signatures of compiled programs.  The protos are written by hand, field by field. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "pjrtfs/base/buf.h"
#include "pjrtfs/formats/hlo.h"
#include "unit.h"

/* -- writing protos ------------------------------------------------------------- */

static void put_varint(struct pf_buf *buf, uint64_t n)
{
	while (n >= 0x80) {
		pf_buf_append(buf, &(unsigned char){ (unsigned char)(n | 0x80) }, 1);
		n >>= 7;
	}
	pf_buf_append(buf, &(unsigned char){ (unsigned char)n }, 1);
}

static void put_number(struct pf_buf *buf, unsigned field, int64_t n)
{
	put_varint(buf, field << 3);
	put_varint(buf, (uint64_t)n);
}

static void put_bytes(struct pf_buf *buf, unsigned field, const void *p, size_t len)
{
	put_varint(buf, field << 3 | 2);
	put_varint(buf, len);
	pf_buf_append(buf, p, len);
}

static void put_string(struct pf_buf *buf, unsigned field, const char *str)
{
	put_bytes(buf, field, str, strlen(str));
}

/* Put MESSAGE and empty it. */
static void put_message(struct pf_buf *buf, unsigned field, struct pf_buf *message)
{
	put_bytes(buf, field, message->data, message->len);
	pf_buf_release(message);
}

static void put_packed(struct pf_buf *buf, unsigned field, const int64_t *n, size_t count)
{
	pf_autobuf struct pf_buf packed = PF_BUF_INIT;

	for (size_t i = 0; i < count; i++)
		put_varint(&packed, (uint64_t)n[i]);
	put_message(buf, field, &packed);
}

/* A shape: type, dimensions, and perhaps its layout. */
struct shape {
	int type;
	unsigned rank;
	int64_t dims[4];
	unsigned n_minor_to_major;
	int64_t minor_to_major[4];
	bool dynamic;
};

enum { S4 = 21, PRED = 1, F32 = 11, BF16 = 16, TUPLE = 13, OPAQUE = 14, TOKEN = 17 };

static void put_shape(struct pf_buf *buf, unsigned field, const struct shape *shape)
{
	pf_autobuf struct pf_buf message = PF_BUF_INIT, layout = PF_BUF_INIT;

	put_number(&message, 2, shape->type);
	if (shape->rank)
		put_packed(&message, 3, shape->dims, shape->rank);
	if (shape->n_minor_to_major) {
		put_packed(&layout, 1, shape->minor_to_major, shape->n_minor_to_major);
		put_number(&layout, 8, 0);
		put_message(&message, 5, &layout);
	}
	if (shape->dynamic)
		put_packed(&message, 6, (const int64_t[]){ 1 }, 1);
	put_message(buf, field, &message);
}

/* An instruction that is a parameter, unless OPCODE is another. */
static void put_parameter(struct pf_buf *computation, const char *opcode, int number,
			  const char *op_name)
{
	pf_autobuf struct pf_buf instruction = PF_BUF_INIT, metadata = PF_BUF_INIT;

	put_string(&instruction, 1, "Arg.1");
	put_string(&instruction, 2, opcode);
	if (op_name) {
		put_string(&metadata, 1, "type");
		put_string(&metadata, 2, op_name);
		put_message(&instruction, 7, &metadata);
	}
	if (number)
		put_number(&instruction, 9, number);
	put_message(computation, 2, &instruction);
}

/* A module of these arguments and this result, or of a tuple of results. */
struct module {
	struct shape inputs[3];
	unsigned n_inputs;
	struct shape outputs[3];
	unsigned n_outputs;
	bool tuple;
};

static void put_program_shape(struct pf_buf *module, const struct module *m)
{
	pf_autobuf struct pf_buf program = PF_BUF_INIT, tuple = PF_BUF_INIT;

	for (unsigned i = 0; i < m->n_inputs; i++)
		put_shape(&program, 1, &m->inputs[i]);
	if (m->tuple) {
		put_number(&tuple, 2, TUPLE);
		for (unsigned i = 0; i < m->n_outputs; i++)
			put_shape(&tuple, 4, &m->outputs[i]);
		put_message(&program, 2, &tuple);
	} else {
		put_shape(&program, 2, &m->outputs[0]);
	}
	put_message(module, 4, &program);
}

static void put_alias(struct pf_buf *module, int parameter, const int64_t *path,
		      size_t depth)
{
	pf_autobuf struct pf_buf entry = PF_BUF_INIT, alias = PF_BUF_INIT;

	if (depth)
		put_packed(&entry, 1, path, depth);
	if (parameter)
		put_number(&entry, 2, parameter);
	put_number(&entry, 4, 1);
	put_message(&alias, 1, &entry);
	put_message(module, 8, &alias);
}

static void put_donor(struct pf_buf *module, int parameter)
{
	pf_autobuf struct pf_buf entry = PF_BUF_INIT, donor = PF_BUF_INIT;

	if (parameter)
		put_number(&entry, 1, parameter);
	put_message(&donor, 1, &entry);
	put_message(module, 18, &donor);
}

/* Parse a copy that ends where it ends, and, too, wrapped with a configuration. */
static int parse(const struct pf_buf *module, struct pf_signature **ret,
		 struct pf_err *err)
{
	struct pf_err wrapped_err = PF_ERR_INIT;
	struct pf_signature *wrapped_sig = NULL;
	pf_autobuf struct pf_buf wrapped = PF_BUF_INIT;
	void *copy = malloc(module->len + 1);
	int r;

	*ret = NULL;
	memcpy(copy, module->data ? module->data : "", module->len);
	r = pf_signature_parse(copy, module->len, false, ret, err);
	free(copy);
	put_bytes(&wrapped, 1, module->data, module->len);
	put_string(&wrapped, 2, "the configuration");
	ck_assert_int_eq(pf_signature_parse(wrapped.data, wrapped.len, true, &wrapped_sig,
					    &wrapped_err),
			 r);
	if (r == 0)
		ck_assert_uint_eq(wrapped_sig->n_inputs, (*ret)->n_inputs);
	else
		ck_assert_str_eq(err->text, wrapped_err.text);
	pf_signature_free(wrapped_sig);
	return r;
}

/* -- tests ------------------------------------------------------------------------ */

START_TEST(names_types_and_donations)
{
	static const struct module m = {
		.inputs = { { F32, 2, { 2, 3 }, 2, { 1, 0 }, false },
			    { S4, 1, { 8 }, 1, { 0 }, false },
			    { BF16, 0, { 0 }, 0, { 0 }, false } },
		.n_inputs = 3,
		.outputs = { { F32, 2, { 3, 2 }, 2, { 0, 1 }, false },
			     { PRED, 0, { 0 }, 0, { 0 }, false } },
		.n_outputs = 2,
		.tuple = true,
	};
	pf_autobuf struct pf_buf module = PF_BUF_INIT, computation = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
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
	put_program_shape(&module, &m);
	put_number(&module, 6, 7);
	put_alias(&module, 0, (const int64_t[]){ 0 }, 1);
	put_donor(&module, 2);

	ck_assert_msg(parse(&module, &sig, &err) == 0, "%s", err.text);
	ck_assert_str_eq(sig->name, "jit_f");
	ck_assert_uint_eq(sig->n_inputs, 3);
	ck_assert_uint_eq(sig->n_outputs, 2);
	ck_assert_str_eq(sig->inputs[0].name, "x");
	ck_assert_str_eq(sig->inputs[1].name, "params['w']");
	ck_assert_str_eq(sig->inputs[2].name, "2");
	ck_assert_str_eq(sig->outputs[0].name, "0");
	ck_assert_str_eq(sig->outputs[1].name, "1");
	ck_assert_int_eq(sig->inputs[0].dtype, PF_DTYPE_F32);
	ck_assert_int_eq(sig->inputs[1].dtype, PF_DTYPE_S4);
	ck_assert_int_eq(sig->inputs[2].dtype, PF_DTYPE_BF16);
	ck_assert_int_eq(sig->outputs[1].dtype, PF_DTYPE_PRED);
	ck_assert(
		pf_shape_equal(&sig->inputs[0].shape, &(struct pf_shape){ 2, { 2, 3 } }));
	ck_assert(pf_shape_equal(&sig->outputs[0].shape,
				 &(struct pf_shape){ 2, { 3, 2 } }));
	ck_assert(sig->inputs[0].row_major && sig->inputs[1].row_major);
	ck_assert(sig->inputs[2].row_major && sig->outputs[1].row_major);
	ck_assert(!sig->outputs[0].row_major);
	ck_assert_uint_eq(sig->outputs[0].minor_to_major[0], 0);
	ck_assert_uint_eq(sig->outputs[0].minor_to_major[1], 1);
	ck_assert(sig->inputs[0].donated && !sig->inputs[1].donated &&
		  sig->inputs[2].donated);
	ck_assert_int_eq(sig->inputs[0].alias_output, 0);
	ck_assert_int_eq(sig->inputs[1].alias_output, -1);
	ck_assert_int_eq(sig->inputs[2].alias_output, -1);
	pf_signature_free(sig);
}
END_TEST

/* No ids, as old modules have it: the entry computation is found by its name. */
START_TEST(names_without_ids)
{
	static const struct module m = { .inputs = { { F32 }, { F32 }, { F32 } },
					 .n_inputs = 3,
					 .outputs = { { F32 } } };
	pf_autobuf struct pf_buf module = PF_BUF_INIT, computation = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;

	put_string(&module, 1, "m");
	put_string(&module, 2, "main");
	put_parameter(&computation, "parameter", 0, "wrong");
	put_message(&module, 3, &computation);
	put_string(&computation, 1, "main");
	put_parameter(&computation, "parameter", 0, "bad\nname\xff");
	put_message(&module, 3, &computation);
	put_program_shape(&module, &m);
	ck_assert_msg(parse(&module, &sig, &err) == 0, "%s", err.text);
	ck_assert_str_eq(sig->inputs[0].name, "bad name?");
	ck_assert_uint_eq(sig->n_outputs, 1);
	ck_assert_str_eq(sig->outputs[0].name, "0");
	pf_signature_free(sig);
}
END_TEST

START_TEST(names_of_the_program_shape)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT, program = PF_BUF_INIT;
	const struct shape scalar = { .type = F32 };
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;

	put_shape(&program, 1, &scalar);
	put_shape(&program, 1, &scalar);
	put_shape(&program, 1, &scalar);
	put_shape(&program, 2, &scalar);
	put_string(&program, 3, "a");
	put_string(&program, 3, "");
	put_message(&module, 4, &program);
	/* A result that is no tuple, aliased as a whole. */
	put_alias(&module, 1, NULL, 0);
	ck_assert_msg(parse(&module, &sig, &err) == 0, "%s", err.text);
	ck_assert_str_eq(sig->name, "");
	ck_assert_str_eq(sig->inputs[0].name, "a");
	ck_assert_str_eq(sig->inputs[1].name, "1");
	ck_assert_str_eq(sig->inputs[2].name, "2");
	ck_assert_int_eq(sig->inputs[1].alias_output, 0);
	pf_signature_free(sig);
}
END_TEST

/* (f32[1], (f32[2], (), f32[3]), f32[4]): four outputs, in this order. */
START_TEST(nested_tuples_are_flattened)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT, program = PF_BUF_INIT,
				 inner = PF_BUF_INIT, outer = PF_BUF_INIT,
				 none = PF_BUF_INIT;
	struct shape array = { .type = F32, .rank = 1, .dims = { 1 } };
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;

	for (int i = 0; i < 5; i++)
		put_shape(&program, 1, &array);
	put_number(&outer, 2, TUPLE);
	put_shape(&outer, 4, &array);
	put_number(&inner, 2, TUPLE);
	array.dims[0] = 2;
	put_shape(&inner, 4, &array);
	put_number(&none, 2, TUPLE);
	put_message(&inner, 4, &none);
	array.dims[0] = 3;
	put_shape(&inner, 4, &array);
	put_message(&outer, 4, &inner);
	array.dims[0] = 4;
	put_shape(&outer, 4, &array);
	put_message(&program, 2, &outer);
	put_message(&module, 4, &program);
	put_alias(&module, 0, (const int64_t[]){ 2 }, 1);
	ck_assert_msg(parse(&module, &sig, &err) == 0, "%s", err.text);
	ck_assert_uint_eq(sig->n_outputs, 4);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(sig->outputs[i].shape.dims[0], i + 1);
	ck_assert_int_eq(sig->inputs[0].alias_output, 3);
	pf_signature_free(sig);
}
END_TEST

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

START_TEST(aliases_of_nested_results)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT, program = PF_BUF_INIT,
				 inner = PF_BUF_INIT, outer = PF_BUF_INIT,
				 none = PF_BUF_INIT;
	const struct shape array = { .type = F32, .rank = 1, .dims = { 1 } };
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;

	put_shape(&program, 1, &array);
	put_number(&outer, 2, TUPLE);
	put_shape(&outer, 4, &array);
	put_number(&inner, 2, TUPLE);
	put_shape(&inner, 4, &array);
	put_number(&none, 2, TUPLE);
	put_message(&inner, 4, &none);
	put_shape(&inner, 4, &array);
	put_message(&outer, 4, &inner);
	put_shape(&outer, 4, &array);
	put_message(&program, 2, &outer);
	put_message(&module, 4, &program);
	put_alias(&module, 0, paths[_i].path, paths[_i].depth);
	ck_assert_msg(parse(&module, &sig, &err) == 0, "%s", err.text);
	ck_assert(sig->inputs[0].donated);
	ck_assert_int_eq(sig->inputs[0].alias_output, paths[_i].want);
	pf_signature_free(sig);
}
END_TEST

START_TEST(no_outputs)
{
	static const struct module m = { .tuple = true };
	pf_autobuf struct pf_buf module = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;

	put_program_shape(&module, &m);
	ck_assert_msg(parse(&module, &sig, &err) == 0, "%s", err.text);
	ck_assert_uint_eq(sig->n_inputs, 0);
	ck_assert_uint_eq(sig->n_outputs, 0);
	pf_signature_free(sig);
}
END_TEST

static const struct {
	struct shape shape;
	bool row_major;
} layouts[] = {
	{ { F32, 3, { 2, 3, 4 }, 0, { 0 }, false }, true },
	{ { F32, 3, { 2, 3, 4 }, 3, { 2, 1, 0 }, false }, true },
	{ { F32, 3, { 2, 3, 4 }, 3, { 0, 1, 2 }, false }, false },
	{ { F32, 3, { 2, 3, 4 }, 3, { 1, 2, 0 }, false }, false },
	/* The order of the dimensions does not matter. */
	{ { F32, 2, { 1, 9 }, 2, { 0, 1 }, false }, true },
	{ { F32, 2, { 9, 1 }, 2, { 0, 1 }, false }, true },
	{ { F32, 3, { 0, 3, 4 }, 3, { 0, 1, 2 }, false }, true },
	{ { F32, 1, { 5 }, 1, { 0 }, false }, true },
};

START_TEST(row_major_layouts)
{
	struct module m = { .n_inputs = 1, .outputs = { { F32 } } };
	pf_autobuf struct pf_buf module = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;

	m.inputs[0] = layouts[_i].shape;
	put_program_shape(&module, &m);
	ck_assert_msg(parse(&module, &sig, &err) == 0, "%s", err.text);
	ck_assert_int_eq(sig->inputs[0].row_major, layouts[_i].row_major);
	for (unsigned i = 0; i < layouts[_i].shape.rank; i++)
		ck_assert_uint_eq(sig->inputs[0].minor_to_major[i],
				  layouts[_i].shape.n_minor_to_major
					  ? (unsigned)layouts[_i].shape.minor_to_major[i]
					  : layouts[_i].shape.rank - 1 - i);
	pf_signature_free(sig);
}
END_TEST

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

START_TEST(refused_arguments_and_results)
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
END_TEST

START_TEST(too_many_dimensions)
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
END_TEST

/* Both just within what is allowed, and far beyond. */
START_TEST(deep_tuples)
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
END_TEST

START_TEST(donations_of_no_argument)
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
END_TEST

/* A whole module, cut at every byte: an error or a module without its last fields. */
START_TEST(truncated_anywhere)
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
END_TEST

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

START_TEST(garbage_is_refused)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;

	pf_buf_append(&module, garbage[_i].bytes, garbage[_i].len);
	ck_assert_int_eq(parse(&module, &sig, &err), -EINVAL);
	ck_assert_uint_gt(strlen(err.text), 10);
	/* What should have a configuration around it. */
	ck_assert_int_eq(pf_signature_parse("\x12\x00", 2, true, &sig, &err), -EINVAL);
	ck_assert_int_eq(pf_signature_parse("", 0, true, &sig, &err), -EINVAL);
}
END_TEST

START_TEST(as_json)
{
	static const struct module m = {
		.inputs = { { F32, 2, { 2, 3 }, 0, { 0 }, false }, { PRED } },
		.n_inputs = 2,
		.outputs = { { BF16, 2, { 3, 2 }, 2, { 0, 1 }, false } },
		.n_outputs = 1,
		.tuple = true,
	};
	pf_autobuf struct pf_buf module = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;
	struct json_object *json;

	put_string(&module, 1, "f");
	put_program_shape(&module, &m);
	put_alias(&module, 1, (const int64_t[]){ 0 }, 1);
	ck_assert_int_eq(parse(&module, &sig, &err), 0);
	ck_assert_int_eq(sig->inputs[0].memory_space, 0);
	sig->inputs[1].memory_space = 5;
	sig->outputs[0].memory_space = 3;
	json = pf_signature_json(sig, "cpu", "device");
	ck_assert_str_eq(
		json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN),
		"{\"name\":\"f\",\"platform\":\"cpu\",\"inputs\":["
		"{\"name\":\"0\",\"dtype\":\"F32\",\"datatype\":\"FP32\",\"shape\":[2,3],"
		"\"layout\":[1,0],\"memory\":\"device\",\"donated\":false},"
		"{\"name\":\"1\",\"dtype\":\"PRED\",\"datatype\":\"BOOL\",\"shape\":[],"
		"\"layout\":[],\"memory\":\"pinned_host\",\"donated\":true,"
		"\"alias_output\":0}],"
		"\"outputs\":[{\"name\":\"0\",\"dtype\":\"BF16\",\"datatype\":\"BF16\","
		"\"shape\":[3,2],\"layout\":[0,1],"
		"\"memory\":{\"unavailable\":\"memory space 3 has no name\"}}]}");
	json_object_put(json);
	pf_signature_free(sig);
	pf_signature_free(NULL);
}
END_TEST

START_TEST(modules_are_unwrapped)
{
	static const char module[] = "\x0a\x01"
				     "f";
	static const char wrapped[] = "\x12\x00\x0a\x03\x0a\x01"
				      "f";
	size_t off = 99, len = 99;

	ck_assert_int_eq(pf_hlo_unwrap(module, 3, false, &off, &len, NULL), 0);
	ck_assert_uint_eq(off, 0);
	ck_assert_uint_eq(len, 3);
	ck_assert_int_eq(pf_hlo_unwrap(wrapped, 7, true, &off, &len, NULL), 0);
	ck_assert_uint_eq(off, 4);
	ck_assert_uint_eq(len, 3);
	ck_assert_int_eq(pf_hlo_unwrap("\x12\x00", 2, true, &off, &len, NULL), -EINVAL);
	ck_assert_int_eq(pf_hlo_unwrap(wrapped, 6, true, &off, &len, NULL), -EINVAL);
}
END_TEST

/* The memory space is read from the layout: argument 0, F32[2] in the host's memory. */
START_TEST(memory_spaces)
{
	static const char module[] =
		"\x0a\x01"
		"f"
		"\x22\x16"
		"\x0a\x0e\x10\x0b\x1a\x01\x02\x2a\x05\x0a\x01\x00\x40\x05\x32\x00"
		"\x12\x04\x10\x0b\x2a\x00";
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;

	ck_assert_msg(pf_signature_parse(module, sizeof(module) - 1, false, &sig, &err) ==
			      0,
		      "%s", err.text);
	ck_assert_int_eq(sig->inputs[0].memory_space, 5);
	ck_assert_int_eq(sig->outputs[0].memory_space, 0);
	pf_signature_free(sig);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("hlo");
	TCase *tc = tcase_create("core");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, names_types_and_donations);
	tcase_add_test(tc, names_without_ids);
	tcase_add_test(tc, names_of_the_program_shape);
	tcase_add_test(tc, nested_tuples_are_flattened);
	unit_add_cases(tc, aliases_of_nested_results, paths);
	tcase_add_test(tc, no_outputs);
	unit_add_cases(tc, row_major_layouts, layouts);
	unit_add_cases(tc, refused_arguments_and_results, refused);
	tcase_add_test(tc, too_many_dimensions);
	tcase_add_loop_test(tc, deep_tuples, 0, 3);
	tcase_add_loop_test(tc, donations_of_no_argument, 0, 3);
	tcase_add_test(tc, truncated_anywhere);
	unit_add_cases(tc, garbage_is_refused, garbage);
	tcase_add_test(tc, as_json);
	tcase_add_test(tc, modules_are_unwrapped);
	tcase_add_test(tc, memory_spaces);
	suite_add_tcase(s, tc);
	return unit_run(s);
}
