/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding parts of a HloModuleProto in place: of a program, which holds its constants and may be
 * gigabytes, so that a generated decoder would copy them all; or of skeleton.c's copy.
 */
#include <errno.h>
#include <string.h>

#include "hlo.pb-c.h"
#include "internal.h"

enum { METADATA_OP_NAME = 2 }; /* OpMetadata: xla/xla_data.proto */

static int malformed(struct pf_err *err, const char *what, const struct pf_slice *all,
		     const struct pf_slice *rest)
{
	return pf_err_set(err, -EINVAL,
			  "the optimized program is not a valid %s (at byte %zu)", what,
			  (size_t)(rest->p - all->p));
}

int pf_hlo_module_find(struct pf_slice proto, struct pf_hlo_module *ret,
		       struct pf_err *err)
{
	const struct pf_wanted wanted[] = {
		{ PF_MODULE_NAME, &ret->name, NULL },
		{ PF_MODULE_ENTRY_NAME, &ret->entry_name, NULL },
		{ PF_MODULE_PROGRAM_SHAPE, &ret->program_shape, NULL },
		{ PF_MODULE_ALIASES, &ret->input_output_alias, NULL },
		{ PF_MODULE_DONORS, &ret->buffer_donor, NULL },
		{ PF_MODULE_ENTRY_ID, NULL, &ret->entry_id },
	};
	struct pf_slice rest = proto;

	*ret = (struct pf_hlo_module){ .all = proto };
	if (pf_proto_find_all(&rest, wanted, PF_ARRAY_SIZE(wanted)) < 0)
		return malformed(err, "HloModuleProto", &ret->all, &rest);
	return 0;
}

/* --- what no plugin can execute ----------------------------------------------------------------- */

static bool is_dynamic_array(struct pf_slice proto)
{
	Pjrtfs__Hlo__Shape *shape = pjrtfs__hlo__shape__unpack(NULL, proto.len, proto.p);
	bool dynamic = false;

	for (size_t i = 0; shape && i < shape->n_is_dynamic_dimension; i++)
		dynamic = dynamic || shape->is_dynamic_dimension[i];
	pjrtfs__hlo__shape__free_unpacked(shape, NULL);
	return dynamic;
}

static void look_at(struct pf_slice proto, struct pf_program_found *found)
{
	struct pf_slice opcode = { NULL, 0 }, shape = { NULL, 0 };
	const struct pf_wanted wanted[] = {
		{ PF_INSTRUCTION_OPCODE, &opcode, NULL },
		{ PF_INSTRUCTION_SHAPE, &shape, NULL },
	};

	if (pf_proto_find_all(&proto, wanted, PF_ARRAY_SIZE(wanted)) < 0)
		return;
	found->feed |= pf_slice_is(opcode, "infeed") || pf_slice_is(opcode, "outfeed");
	found->dynamic_while |= pf_slice_is(opcode, "while") && is_dynamic_array(shape);
}

void pf_hlo_look(struct pf_slice proto, struct pf_program_found *found)
{
	struct pf_slice computation, instruction;

	while (pf_proto_next_bytes(&proto, PF_MODULE_COMPUTATIONS, &computation) > 0)
		while (pf_proto_next_bytes(&computation, PF_COMPUTATION_INSTRUCTIONS,
					   &instruction) > 0)
			look_at(instruction, found);
}

/* --- names of parameters ----------------------------------------------------------------------- */

/* One instruction: if it is a parameter, note what it is called. */
static int read_instruction(struct pf_slice proto, struct pf_slice *names, size_t n)
{
	struct pf_slice opcode = { NULL, 0 }, metadata = { NULL, 0 }, name;
	uint64_t number = 0;
	const struct pf_wanted wanted[] = {
		{ PF_INSTRUCTION_OPCODE, &opcode, NULL },
		{ PF_INSTRUCTION_METADATA, &metadata, NULL },
		{ PF_INSTRUCTION_PARAMETER_NUMBER, NULL, &number },
	};
	int r = pf_proto_find_all(&proto, wanted, PF_ARRAY_SIZE(wanted));

	if (r < 0)
		return r;
	if (!pf_slice_is(opcode, "parameter") || number >= n || !metadata.p)
		return 0;
	r = pf_proto_find(&metadata, METADATA_OP_NAME, &name);
	if (r == 0 && name.len)
		names[number] = name;
	return r;
}

static int read_computation(struct pf_slice proto, struct pf_slice *names, size_t n)
{
	struct pf_slice instruction;
	int r;

	while ((r = pf_proto_next_bytes(&proto, PF_COMPUTATION_INSTRUCTIONS,
					&instruction)) > 0) {
		r = read_instruction(instruction, names, n);
		if (r < 0)
			return r;
	}
	return r;
}

int pf_hlo_is_entry(const struct pf_hlo_module *module, struct pf_slice proto, bool *ret)
{
	struct pf_slice name = { NULL, 0 };
	uint64_t id = 0;
	const struct pf_wanted wanted[] = {
		{ PF_COMPUTATION_NAME, &name, NULL },
		{ PF_COMPUTATION_ID, NULL, &id },
	};
	int r = pf_proto_find_all(&proto, wanted, PF_ARRAY_SIZE(wanted));

	/* Old modules have names and no ids; ids then are all 0. */
	*ret = module->entry_id
		       ? id == module->entry_id
		       : name.len == module->entry_name.len && name.len &&
				 memcmp(name.p, module->entry_name.p, name.len) == 0;
	return r;
}

int pf_hlo_module_names(const struct pf_hlo_module *module, struct pf_slice *names,
			size_t n, struct pf_err *err)
{
	struct pf_slice rest = module->all, part;
	bool entry = false;
	int r;

	while ((r = pf_proto_next_bytes(&rest, PF_MODULE_COMPUTATIONS, &part)) > 0) {
		r = pf_hlo_is_entry(module, part, &entry);
		if (r == 0 && entry)
			r = read_computation(part, names, n);
		if (r < 0)
			return malformed(err, "HloComputationProto", &module->all, &part);
		if (entry)
			return 0;
	}
	return r < 0 ? malformed(err, "HloModuleProto", &module->all, &rest) : 0;
}

/* The layout: an order of the dimensions, or nothing, which is the default. */
static bool read_layout(const Pjrtfs__Hlo__Layout *layout, struct pf_param *param)
{
	param->memory_space = layout ? layout->memory_space : 0;
	return !layout || layout->n_minor_to_major == 0 ||
	       pf_layout_make(&param->shape, layout->minor_to_major,
			      layout->n_minor_to_major, &param->layout) == 0;
}

const char *pf_hlo_array(const Pjrtfs__Hlo__Shape *shape, struct pf_param *param)
{
	int64_t count;

	if (shape->element_type == PF_XLA_TUPLE)
		return "is a tuple: plugins execute only programs of arrays";
	if (shape->element_type == PF_XLA_TOKEN)
		return "is a token (of JAX's ordered effects): plugins abort on tokens; "
		       "write the program as StableHLO text (.mlir, "
		       "lowered.as_text()), from whose main pjrtfs removes them";
	if (shape->element_type == PF_XLA_OPAQUE)
		return "is opaque: only arrays have bytes";
	param->dtype = pf_dtype_from_xla(shape->element_type);
	if (!pf_dtype_valid((int)param->dtype))
		return "has an unknown element type";
	if (shape->n_dimensions > PF_MAX_RANK)
		return "has more than 32 dimensions";
	for (size_t i = 0; i < shape->n_is_dynamic_dimension; i++)
		if (shape->is_dynamic_dimension[i])
			return "has a dynamic dimension: plugins abort on those; give it "
			       "a fixed size";
	param->shape.rank = (unsigned)shape->n_dimensions;
	for (unsigned i = 0; i < param->shape.rank; i++) {
		/* XLA writes unbounded dynamic extents as the least number. */
		if (shape->dimensions[i] < 0)
			return "has a negative or unbounded dimension";
		param->shape.dims[i] = shape->dimensions[i];
	}
	if (pf_shape_count(&param->shape, &count, NULL) < 0)
		return "has more than 2^63-1 elements";
	if (!read_layout(shape->layout, param))
		return "has a layout that is not an order of its dimensions";
	return NULL;
}
