/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "internal.h"

/* Walking a serialized protocol buffer in place. */

/* The varint at *POS, which is stepped over. */
static int varint(const struct pf_slice *s, size_t *pos, uint64_t *ret)
{
	uint64_t n = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		if (*pos == s->len)
			return -EINVAL;
		uint8_t byte = s->p[(*pos)++];

		/* Of the tenth byte only one bit is left to use. */
		if (shift == 63 && byte > 1)
			return -EINVAL;
		n |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*ret = n;
			return 0;
		}
	}
	return -EINVAL;
}

int pf_proto_next(struct pf_slice *rest, struct pf_field *ret)
{
	uint64_t tag, len;
	size_t pos = 0;

	if (rest->len == 0)
		return 0;
	if (varint(rest, &pos, &tag) < 0 || tag >> 3 == 0 || tag >> 3 > UINT32_MAX >> 3)
		return -EINVAL;
	*ret = (struct pf_field){ .number = (uint32_t)(tag >> 3) };
	switch (tag & 7) {
	case PF_WIRE_VARINT:
		ret->type = PF_WIRE_VARINT;
		if (varint(rest, &pos, &ret->value) < 0)
			return -EINVAL;
		len = 0;
		break;
	case PF_WIRE_FIXED64:
		ret->type = PF_WIRE_FIXED64;
		len = 8;
		break;
	case PF_WIRE_BYTES:
		ret->type = PF_WIRE_BYTES;
		if (varint(rest, &pos, &len) < 0)
			return -EINVAL;
		break;
	case PF_WIRE_FIXED32:
		ret->type = PF_WIRE_FIXED32;
		len = 4;
		break;
	default:
		return -EINVAL;
	}
	if (len > rest->len - pos)
		return -EINVAL;
	ret->bytes = (struct pf_slice){ rest->p + pos, (size_t)len };
	rest->p += pos + (size_t)len;
	rest->len -= pos + (size_t)len;
	return 1;
}

int pf_proto_find(struct pf_slice *rest, uint32_t number, struct pf_slice *ret)
{
	struct pf_field field;
	int r;

	*ret = (struct pf_slice){ NULL, 0 };
	while ((r = pf_proto_next(rest, &field)) > 0)
		if (field.number == number && field.type == PF_WIRE_BYTES)
			*ret = field.bytes;
	return r;
}

/*
 * Finding parts of a HloModuleProto in place.  Modules hold their constants and may be
 * gigabytes: a generated decoder would copy them all.
 */

/* Field numbers: xla/service/hlo.proto and, for OpMetadata, xla/xla_data.proto. */
enum {
	CONFIG_MODULE = 1, /* HloModuleProtoWithConfig */

	MODULE_NAME = 1, /* HloModuleProto */
	MODULE_ENTRY_NAME = 2,
	MODULE_COMPUTATIONS = 3,
	MODULE_HOST_PROGRAM_SHAPE = 4,
	MODULE_ENTRY_ID = 6,
	MODULE_INPUT_OUTPUT_ALIAS = 8,
	MODULE_BUFFER_DONOR = 18,

	COMPUTATION_NAME = 1, /* HloComputationProto */
	COMPUTATION_INSTRUCTIONS = 2,
	COMPUTATION_ID = 5,

	INSTRUCTION_OPCODE = 2, /* HloInstructionProto */
	INSTRUCTION_METADATA = 7,
	INSTRUCTION_PARAMETER_NUMBER = 9,

	METADATA_OP_NAME = 2, /* OpMetadata */
};

static int malformed(struct pf_err *err, const char *what, const struct pf_slice *all,
		     const struct pf_slice *rest)
{
	return pf_err_set(err, -EINVAL,
			  "the optimized program is not a valid %s (at byte %zu)", what,
			  (size_t)(rest->p - all->p));
}

int pf_hlo_module_find(struct pf_slice proto, bool with_config, struct pf_hlo_module *ret,
		       struct pf_err *err)
{
	struct pf_slice rest;
	struct pf_field field;
	int r;

	*ret = (struct pf_hlo_module){ .all = proto };
	if (with_config) {
		r = pf_proto_find(&proto, CONFIG_MODULE, &ret->all);
		if (r < 0 || !ret->all.p)
			return pf_err_set(err, -EINVAL,
					  "the optimized program is not a valid "
					  "HloModuleProtoWithConfig");
	}
	rest = ret->all;
	while ((r = pf_proto_next(&rest, &field)) > 0) {
		if (field.number == MODULE_ENTRY_ID && field.type == PF_WIRE_VARINT)
			ret->entry_id = (int64_t)field.value;
		if (field.type != PF_WIRE_BYTES)
			continue;
		switch (field.number) {
		case MODULE_NAME:
			ret->name = field.bytes;
			break;
		case MODULE_ENTRY_NAME:
			ret->entry_name = field.bytes;
			break;
		case MODULE_HOST_PROGRAM_SHAPE:
			ret->program_shape = field.bytes;
			break;
		case MODULE_INPUT_OUTPUT_ALIAS:
			ret->input_output_alias = field.bytes;
			break;
		case MODULE_BUFFER_DONOR:
			ret->buffer_donor = field.bytes;
			break;
		default:
			break;
		}
	}
	return r < 0 ? malformed(err, "HloModuleProto", &ret->all, &rest) : 0;
}

int pf_hlo_unwrap(const void *proto, size_t len, bool with_config, size_t *off,
		  size_t *module_len, struct pf_err *err)
{
	const struct pf_slice all = { proto, len };
	struct pf_hlo_module module;
	int r = pf_hlo_module_find(all, with_config, &module, err);

	if (r < 0)
		return r;
	*off = (size_t)(module.all.p - all.p);
	*module_len = module.all.len;
	return 0;
}

/* One instruction: if it is a parameter, note what it is called. */
static int read_instruction(struct pf_slice proto, struct pf_slice *names, size_t n)
{
	struct pf_slice opcode = { NULL, 0 }, metadata = { NULL, 0 }, name;
	struct pf_field field;
	uint64_t number = 0;
	int r;

	while ((r = pf_proto_next(&proto, &field)) > 0) {
		if (field.number == INSTRUCTION_OPCODE && field.type == PF_WIRE_BYTES)
			opcode = field.bytes;
		else if (field.number == INSTRUCTION_METADATA &&
			 field.type == PF_WIRE_BYTES)
			metadata = field.bytes;
		else if (field.number == INSTRUCTION_PARAMETER_NUMBER &&
			 field.type == PF_WIRE_VARINT)
			number = field.value;
	}
	if (r < 0)
		return r;
	if (opcode.len != strlen("parameter") ||
	    memcmp(opcode.p, "parameter", opcode.len) != 0 || number >= n || !metadata.p)
		return 0;
	r = pf_proto_find(&metadata, METADATA_OP_NAME, &name);
	if (r == 0 && name.len)
		names[number] = name;
	return r;
}

static int read_computation(struct pf_slice proto, struct pf_slice *names, size_t n)
{
	struct pf_field field;
	int r;

	while ((r = pf_proto_next(&proto, &field)) > 0) {
		if (field.number != COMPUTATION_INSTRUCTIONS ||
		    field.type != PF_WIRE_BYTES)
			continue;
		r = read_instruction(field.bytes, names, n);
		if (r < 0)
			return r;
	}
	return r;
}

/* Steps over a computation's instructions without looking into them. */
static int is_entry(const struct pf_hlo_module *module, struct pf_slice proto, bool *ret)
{
	struct pf_slice name = { NULL, 0 };
	struct pf_field field;
	int64_t id = 0;
	int r;

	while ((r = pf_proto_next(&proto, &field)) > 0) {
		if (field.number == COMPUTATION_NAME && field.type == PF_WIRE_BYTES)
			name = field.bytes;
		else if (field.number == COMPUTATION_ID && field.type == PF_WIRE_VARINT)
			id = (int64_t)field.value;
	}
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
	struct pf_slice rest = module->all;
	struct pf_field field;
	bool entry = false;
	int r;

	while ((r = pf_proto_next(&rest, &field)) > 0) {
		if (field.number != MODULE_COMPUTATIONS || field.type != PF_WIRE_BYTES)
			continue;
		r = is_entry(module, field.bytes, &entry);
		if (r == 0 && entry)
			r = read_computation(field.bytes, names, n);
		if (r < 0)
			return malformed(err, "HloComputationProto", &module->all,
					 &field.bytes);
		if (entry)
			return 0;
	}
	return r < 0 ? malformed(err, "HloModuleProto", &module->all, &rest) : 0;
}
