/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The callbacks of a compiled program: its custom calls to the host.
 *
 * They may stand in any computation, such as the body of a loop.  Their operands are numbers of
 * instructions of the same computation.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hlo.pb-c.h"
#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/program.h"

enum {
	MAX_CALLBACKS = 256,
	MAX_ARRAYS = 4096, /* of all callbacks; limits the memory of malformed protos */
};

/* The first two are JAX's. */
static const char *const targets[] = { "xla_ffi_python_cpu_callback",
				       "xla_ffi_partitioned_python_cpu_callback",
				       "pjrtfs_callback" };

struct instruction {
	uint64_t id;
	struct pf_slice shape;
};

/* The state of pf_hlo_module_callbacks. */
struct search {
	struct pf_signature *sig;
	size_t n_arrays;             /* of the callbacks of SIG */
	struct pf_slice computation; /* the one that is being read */
	struct pf_buf
		instructions; /* its struct instruction, by id; empty: not listed yet */
	struct pf_callback_sig found; /* owned; the call that is being read */
	struct pf_err *err;
};

void pf_callback_release(struct pf_callback_sig *callback)
{
	free(callback->target);
	free(callback->inputs);
	free(callback->outputs);
}

static void search_release(struct search *s)
{
	pf_buf_release(&s->instructions);
	pf_callback_release(&s->found);
}

static int malformed(struct search *s)
{
	return pf_err_set(s->err, -EINVAL,
			  "the optimized program is not a valid HloModuleProto (its "
			  "callbacks)");
}

static int no_memory(struct search *s)
{
	return pf_err_set(s->err, -ENOMEM, "no memory for the program's callbacks");
}

static int by_id(const void *a, const void *b)
{
	const struct instruction *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* Fill s->instructions. */
static int list_instructions(struct search *s)
{
	struct pf_slice rest = s->computation, proto;

	if (s->instructions.len)
		return 0;
	while (pf_proto_next_bytes(&rest, PF_COMPUTATION_INSTRUCTIONS, &proto) > 0) {
		struct instruction i = { 0 };
		const struct pf_wanted wanted[] = {
			{ PF_INSTRUCTION_SHAPE, &i.shape, NULL },
			{ PF_INSTRUCTION_ID, NULL, &i.id },
		};

		if (pf_proto_find_all(&proto, wanted, PF_ARRAY_SIZE(wanted)) < 0)
			return malformed(s);
		pf_buf_append(&s->instructions, &i, sizeof(i));
	}
	if (s->instructions.failed)
		return no_memory(s);
	qsort(s->instructions.data, s->instructions.len / sizeof(struct instruction),
	      sizeof(struct instruction), by_id);
	return 0;
}

/* One more array of the callback: WHAT, number *N of *PARAMS.  Tokens have no bytes. */
static int take_array(struct search *s, const char *what, const Pjrtfs__Hlo__Shape *shape,
		      struct pf_param **params, size_t *n)
{
	struct pf_param *grown;
	const char *why;

	if (shape->element_type == PF_XLA_TOKEN) {
		s->found.ordered = true;
		return 0;
	}
	if (s->n_arrays + s->found.n_inputs + s->found.n_outputs == MAX_ARRAYS)
		return pf_err_set(s->err, -EINVAL,
				  "the program's callbacks have more than %d arguments "
				  "and results",
				  MAX_ARRAYS);
	grown = reallocarray(*params, *n + 1, sizeof(**params));
	if (!grown)
		return no_memory(s);
	*params = grown;
	grown[*n] = (struct pf_param){ .alias_output = -1 };
	why = pf_hlo_array(shape, &grown[*n]);
	if (!why && !pf_layout_is_row_major(&grown[*n].layout))
		why = "is not row-major: give the custom call operand_layouts and "
		      "result_layouts that are";
	if (why)
		return pf_err_set(s->err, -EINVAL, "callback %llu: %s %zu %s",
				  (unsigned long long)s->found.index, what, *n, why);
	++*n;
	return 0;
}

/* The callback's result: an array, a token, or a tuple of these. */
static int take_result(struct search *s, struct pf_slice proto, bool in_tuple)
{
	Pjrtfs__Hlo__Shape *shape = pjrtfs__hlo__shape__unpack(NULL, proto.len, proto.p);
	int r = 0;

	if (!shape)
		return malformed(s);
	if (shape->element_type != PF_XLA_TUPLE || in_tuple)
		r = take_array(s, "result", shape, &s->found.outputs,
			       &s->found.n_outputs);
	else
		for (size_t i = 0; i < shape->n_tuple_shapes && r == 0; i++)
			r = take_result(s,
					(struct pf_slice){ shape->tuple_shapes[i].data,
							   shape->tuple_shapes[i].len },
					true);
	pjrtfs__hlo__shape__free_unpacked(shape, NULL);
	return r;
}

static int take_operand(struct search *s, uint64_t id)
{
	const struct instruction key = { .id = id }, *i;
	Pjrtfs__Hlo__Shape *shape;
	int r = list_instructions(s);

	if (r < 0)
		return r;
	i = bsearch(&key, s->instructions.data, s->instructions.len / sizeof(*i),
		    sizeof(*i), by_id);
	shape = i ? pjrtfs__hlo__shape__unpack(NULL, i->shape.len, i->shape.p) : NULL;
	if (!shape)
		return malformed(s);
	r = take_array(s, "argument", shape, &s->found.inputs, &s->found.n_inputs);
	pjrtfs__hlo__shape__free_unpacked(shape, NULL);
	return r;
}

static int take_operands(struct search *s, struct pf_slice instruction)
{
	struct pf_field field;
	int r = 0;

	while (r == 0 && pf_proto_next(&instruction, &field) > 0) {
		if (field.number != PF_INSTRUCTION_OPERANDS)
			continue;
		if (field.type == PF_WIRE_VARINT)
			r = take_operand(s, field.value);
		while (r == 0 && field.type == PF_WIRE_BYTES && field.bytes.len) {
			uint64_t id;

			if (pf_proto_varint(&field.bytes, &id) < 0)
				return malformed(s);
			r = take_operand(s, id);
		}
	}
	return r;
}

/* Move the callback that was read to the signature, unless one of its index is there. */
static int add(struct search *s)
{
	struct pf_signature *sig = s->sig;
	struct pf_callback_sig *grown;

	for (size_t i = 0; i < sig->n_callbacks; i++)
		if (sig->callbacks[i].index == s->found.index)
			return 0;
	if (sig->n_callbacks == MAX_CALLBACKS)
		return pf_err_set(s->err, -EINVAL,
				  "the program has more than %d callbacks",
				  MAX_CALLBACKS);
	grown = reallocarray(sig->callbacks, sig->n_callbacks + 1, sizeof(*grown));
	if (!grown)
		return no_memory(s);
	sig->callbacks = grown;
	grown[sig->n_callbacks++] = s->found;
	s->n_arrays += s->found.n_inputs + s->found.n_outputs;
	s->found = (struct pf_callback_sig){ 0 };
	return 0;
}

const char *pf_callback_target(struct pf_slice opcode, struct pf_slice target)
{
	if (!pf_slice_is(opcode, "custom-call"))
		return NULL;
	for (size_t i = 0; i < PF_ARRAY_SIZE(targets); i++)
		if (pf_slice_is(target, targets[i]))
			return targets[i];
	return NULL;
}

static int no_index(struct search *s, const char *target, struct pf_slice config)
{
	if (!config.len)
		config = (struct pf_slice){ (const uint8_t *)"none", strlen("none") };
	return pf_err_set(s->err, -EINVAL,
			  "a custom call of %s: expected the number of a callback among "
			  "its attributes ({index = 0 : ui64}), found %.*s",
			  target, config.len < 200 ? (int)config.len : 200,
			  (const char *)config.p);
}

static int read_instruction(struct search *s, struct pf_slice proto)
{
	struct pf_slice rest = proto, opcode = { 0 }, name = { 0 }, config = { 0 },
			shape = { 0 };
	uint64_t side_effect = 0, index;
	const struct pf_wanted wanted[] = {
		{ PF_INSTRUCTION_OPCODE, &opcode, NULL },
		{ PF_INSTRUCTION_SHAPE, &shape, NULL },
		{ PF_INSTRUCTION_TARGET, &name, NULL },
		{ PF_INSTRUCTION_BACKEND_CONFIG, &config, NULL },
		{ PF_INSTRUCTION_SIDE_EFFECT, NULL, &side_effect },
	};
	const char *target;
	int r;

	if (pf_proto_find_all(&rest, wanted, PF_ARRAY_SIZE(wanted)) < 0)
		return malformed(s);
	target = pf_callback_target(opcode, name);
	if (!target)
		return 0;
	if (!pf_mlir_ui64((const char *)config.p, config.len, "index", &index))
		return no_index(s, target, config);
	pf_callback_release(&s->found);
	s->found = (struct pf_callback_sig){ .index = index,
					     .target = strdup(target),
					     .side_effect = side_effect };
	r = s->found.target ? take_operands(s, proto) : no_memory(s);
	if (r == 0)
		r = take_result(s, shape, false);
	return r < 0 ? r : add(s);
}

static int read_computation(struct search *s)
{
	struct pf_slice rest = s->computation, instruction;
	int r;

	pf_buf_release(&s->instructions);
	while ((r = pf_proto_next_bytes(&rest, PF_COMPUTATION_INSTRUCTIONS,
					&instruction)) > 0) {
		r = read_instruction(s, instruction);
		if (r < 0)
			return r;
	}
	return r < 0 ? malformed(s) : 0;
}

static int by_index(const void *a, const void *b)
{
	const struct pf_callback_sig *x = a, *y = b;

	return (x->index > y->index) - (x->index < y->index);
}

int pf_hlo_module_callbacks(const struct pf_hlo_module *module, struct pf_signature *sig,
			    struct pf_err *err)
{
	PF_CLEANUP(search_release) struct search s = { .sig = sig, .err = err };
	struct pf_slice rest = module->all;
	int r = 0;

	/* pf_hlo_module_find has walked here. */
	while (r == 0 &&
	       pf_proto_next_bytes(&rest, PF_MODULE_COMPUTATIONS, &s.computation) > 0)
		r = read_computation(&s);
	if (r < 0)
		return r;
	if (sig->n_callbacks)
		qsort(sig->callbacks, sig->n_callbacks, sizeof(*sig->callbacks),
		      by_index);
	return 0;
}
