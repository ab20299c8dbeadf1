/* SPDX-License-Identifier: Apache-2.0 */
/* A signature as a module, for the cache: read again as any module's is. */
#include <string.h>

#include "internal.h"

/* Fields, in our names, as in hlo.proto. */
enum {
	PROGRAM_PARAMETERS = 1,
	PROGRAM_RESULT = 2,

	SHAPE_ELEMENT_TYPE = 2,
	SHAPE_DIMENSIONS = 3,
	SHAPE_TUPLE_SHAPES = 4,
	SHAPE_LAYOUT = 5,

	LAYOUT_MINOR_TO_MAJOR = 1,
	LAYOUT_MEMORY_SPACE = 8,

	ENTRIES = 1, /* of InputOutputAlias and of BufferDonor */
	ALIAS_OUTPUT_INDEX = 1,
	ALIAS_PARAMETER = 2,
	DONOR_PARAMETER = 1,
};

static void put_number(struct pf_buf *out, uint32_t number, uint64_t value)
{
	pf_proto_put(out, &(struct pf_field){ .number = number,
					      .type = PF_WIRE_VARINT,
					      .value = value });
}

static void put_bytes(struct pf_buf *out, uint32_t number, const char *p, size_t len)
{
	pf_proto_put(out, &(struct pf_field){ .number = number,
					      .type = PF_WIRE_BYTES,
					      .bytes = { (const uint8_t *)p, len } });
}

/* Append the MESSAGE as field NUMBER. */
static void put_message(struct pf_buf *out, uint32_t number, const struct pf_buf *message)
{
	put_bytes(out, number, message->data, message->len);
	out->failed |= message->failed;
}

static void put_layout(struct pf_buf *out, const struct pf_param *param)
{
	pf_autobuf struct pf_buf layout = PF_BUF_INIT, order = PF_BUF_INIT;

	if (!pf_layout_is_row_major(&param->layout)) {
		for (unsigned i = 0; i < param->shape.rank; i++)
			pf_proto_put_varint(&order, param->layout.minor_to_major[i]);
		put_message(&layout, LAYOUT_MINOR_TO_MAJOR, &order);
	}
	put_number(&layout, LAYOUT_MEMORY_SPACE, (uint64_t)param->memory_space);
	put_message(out, SHAPE_LAYOUT, &layout);
}

static void put_array(struct pf_buf *out, uint32_t number, const struct pf_param *param)
{
	pf_autobuf struct pf_buf shape = PF_BUF_INIT, dims = PF_BUF_INIT;

	put_number(&shape, SHAPE_ELEMENT_TYPE, (uint64_t)pf_dtype_xla(param->dtype));
	for (unsigned i = 0; i < param->shape.rank; i++)
		pf_proto_put_varint(&dims, (uint64_t)param->shape.dims[i]);
	put_message(&shape, SHAPE_DIMENSIONS, &dims);
	put_layout(&shape, param);
	put_message(out, number, &shape);
}

static void put_program_shape(struct pf_buf *out, const struct pf_signature *s,
			      bool platform)
{
	static const struct pf_param number = { .dtype = PF_DTYPE_S32 };
	pf_autobuf struct pf_buf program = PF_BUF_INIT, result = PF_BUF_INIT;

	if (platform)
		put_array(&program, PROGRAM_PARAMETERS, &number);
	for (size_t i = 0; i < s->n_inputs; i++)
		put_array(&program, PROGRAM_PARAMETERS, &s->inputs[i]);
	put_number(&result, SHAPE_ELEMENT_TYPE, PF_XLA_TUPLE);
	for (size_t i = 0; i < s->n_outputs; i++)
		put_array(&result, SHAPE_TUPLE_SHAPES, &s->outputs[i]);
	put_message(&program, PROGRAM_RESULT, &result);
	put_message(out, PF_MODULE_PROGRAM_SHAPE, &program);
}

/* Append an entry for parameter I, which is donated, to ALIASES or DONORS. */
static void put_donation(struct pf_buf *aliases, struct pf_buf *donors, size_t i,
			 const struct pf_param *in)
{
	pf_autobuf struct pf_buf entry = PF_BUF_INIT, path = PF_BUF_INIT;

	if (in->alias_output < 0) {
		put_number(&entry, DONOR_PARAMETER, i);
		put_message(donors, ENTRIES, &entry);
		return;
	}
	pf_proto_put_varint(&path, (uint64_t)in->alias_output);
	put_message(&entry, ALIAS_OUTPUT_INDEX, &path);
	put_number(&entry, ALIAS_PARAMETER, i);
	put_message(aliases, ENTRIES, &entry);
}

void pf_signature_module(const struct pf_signature *s, bool platform, struct pf_buf *out)
{
	pf_autobuf struct pf_buf aliases = PF_BUF_INIT, donors = PF_BUF_INIT;

	put_bytes(out, PF_MODULE_NAME, s->name, strlen(s->name));
	put_program_shape(out, s, platform);
	for (size_t i = 0; i < s->n_inputs; i++)
		if (s->inputs[i].donated)
			put_donation(&aliases, &donors, i + platform, &s->inputs[i]);
	put_message(out, PF_MODULE_ALIASES, &aliases);
	put_message(out, PF_MODULE_DONORS, &donors);
}
