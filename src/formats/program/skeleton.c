/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A private copy of what the daemon reads of an optimized program.
 *
 * The worker that wrote the program can change it meanwhile, and a decoder that reads a length or a
 * count twice then writes behind its memory.  This walk reads each byte of a tag or a length once,
 * and copies each field that is wanted once; all else reads the copy.  Constants may be gigabytes,
 * and large programs have a million instructions, so it leaves out what is not looked at.
 */
#include <errno.h>

#include "internal.h"

enum { MAX_COPY = 64 << 20 };

/* Lists of field numbers end with 0. */
static const uint32_t module_fields[] = { PF_MODULE_NAME,
					  PF_MODULE_ENTRY_NAME,
					  PF_MODULE_PROGRAM_SHAPE,
					  PF_MODULE_ENTRY_ID,
					  PF_MODULE_ALIASES,
					  PF_MODULE_DONORS,
					  PF_MODULE_OUTPUT_SHARDING,
					  PF_MODULE_PARAMETER_SHARDINGS,
					  0 };
static const uint32_t computation_fields[] = { PF_COMPUTATION_NAME, PF_COMPUTATION_ID,
					       0 };
static const uint32_t parameter_fields[] = {
	PF_INSTRUCTION_OPCODE,           PF_INSTRUCTION_SHAPE, PF_INSTRUCTION_METADATA,
	PF_INSTRUCTION_PARAMETER_NUMBER, PF_INSTRUCTION_ID,    0
};
static const uint32_t callback_fields[] = {
	PF_INSTRUCTION_OPCODE,      PF_INSTRUCTION_SHAPE,
	PF_INSTRUCTION_TARGET,      PF_INSTRUCTION_ID,
	PF_INSTRUCTION_OPERANDS,    PF_INSTRUCTION_BACKEND_CONFIG,
	PF_INSTRUCTION_SIDE_EFFECT, 0
};
static const uint32_t other_fields[] = { PF_INSTRUCTION_SHAPE, PF_INSTRUCTION_ID, 0 };

/* The state of pf_hlo_skeleton. */
struct walk {
	struct pf_buf computations; /* owned, as all of them: those that are kept */
	struct pf_buf computation;  /* that is being read: its parameters and callbacks */
	struct pf_buf others;       /* its other instructions */
	struct pf_buf instruction;  /* that is being read */
	bool calls_back;            /* the computation does */
	bool too_large;
};

static void walk_release(struct walk *w)
{
	pf_buf_release(&w->computations);
	pf_buf_release(&w->computation);
	pf_buf_release(&w->others);
	pf_buf_release(&w->instruction);
}

/* Append FIELD, whose bytes are copied here. */
static void put(struct walk *w, const struct pf_field *field, struct pf_buf *out)
{
	if (field->bytes.len > MAX_COPY - out->len) {
		w->too_large = true;
		return;
	}
	pf_proto_put(out, field);
	if (out->len > MAX_COPY)
		w->too_large = true;
}

/* Append the message BUF as field NUMBER, and start it anew. */
static void put_message(struct walk *w, uint32_t number, struct pf_buf *buf,
			struct pf_buf *out)
{
	const struct pf_field field = { .number = number,
					.type = PF_WIRE_BYTES,
					.bytes = { (const uint8_t *)buf->data,
						   buf->len } };

	out->failed |= buf->failed;
	if (!buf->failed)
		put(w, &field, out);
	pf_buf_consume(buf, buf->len);
}

static bool is_among(uint32_t number, const uint32_t *numbers)
{
	while (*numbers && *numbers != number)
		numbers++;
	return *numbers;
}

/* Append the fields NUMBERS of MESSAGE.  0, or -EINVAL: *MESSAGE starts at what is wrong. */
static int copy_fields(struct walk *w, struct pf_slice *message, const uint32_t *numbers,
		       struct pf_buf *out)
{
	struct pf_field field;
	int r;

	while ((r = pf_proto_next(message, &field)) > 0 && !w->too_large)
		if (is_among(field.number, numbers))
			put(w, &field, out);
	return r < 0 ? r : 0;
}

/* The bytes that are read of the opcode only decide what is copied: the copy is looked at anew. */
static int copy_instruction(struct walk *w, struct pf_slice message)
{
	struct pf_slice rest = message, opcode = { NULL, 0 }, target = { NULL, 0 };
	const struct pf_wanted wanted[] = {
		{ PF_INSTRUCTION_OPCODE, &opcode, NULL },
		{ PF_INSTRUCTION_TARGET, &target, NULL },
	};
	const uint32_t *fields = other_fields;
	int r = pf_proto_find_all(&rest, wanted, PF_ARRAY_SIZE(wanted));

	if (r < 0)
		return r;
	if (pf_callback_target(opcode, target))
		fields = callback_fields;
	else if (pf_slice_is(opcode, "parameter"))
		fields = parameter_fields;
	w->calls_back |= fields == callback_fields;
	r = copy_fields(w, &message, fields, &w->instruction);
	put_message(w, PF_COMPUTATION_INSTRUCTIONS, &w->instruction,
		    fields == other_fields ? &w->others : &w->computation);
	return r;
}

/* Keep MODULE's computation MESSAGE if it is the entry or calls back. */
static int copy_computation(struct walk *w, const struct pf_hlo_module *module,
			    struct pf_slice message)
{
	struct pf_slice rest = message;
	struct pf_field field;
	bool entry = false;
	int r;

	w->calls_back = false;
	while ((r = pf_proto_next(&rest, &field)) > 0 && !w->too_large) {
		if (is_among(field.number, computation_fields))
			put(w, &field, &w->computation);
		if (field.number == PF_COMPUTATION_INSTRUCTIONS &&
		    field.type == PF_WIRE_BYTES)
			r = copy_instruction(w, field.bytes);
		if (r < 0)
			return r;
	}
	if (r == 0)
		r = pf_hlo_is_entry(module,
				    (struct pf_slice){
					    (const uint8_t *)w->computation.data,
					    w->computation.len },
				    &entry);
	if (w->calls_back)
		pf_buf_append(&w->computation, w->others.data, w->others.len);
	w->computation.failed |= w->others.failed;
	pf_buf_consume(&w->others, w->others.len);
	if (entry || w->calls_back)
		put_message(w, PF_MODULE_COMPUTATIONS, &w->computation, &w->computations);
	w->computations.failed |= w->computation.failed;
	pf_buf_consume(&w->computation, w->computation.len);
	return r;
}

static int malformed(struct pf_err *err, const char *what)
{
	return pf_err_set(err, -EINVAL, "the optimized program is not a valid %s", what);
}

/* Append what is looked at of the module ALL to RET. */
static int copy_module(struct walk *w, struct pf_slice all, struct pf_buf *ret,
		       struct pf_err *err)
{
	struct pf_slice rest = all, computation;
	struct pf_hlo_module module;
	int r = copy_fields(w, &rest, module_fields, ret);

	if (r < 0)
		return pf_err_set(err, r,
				  "the optimized program is not a valid HloModuleProto "
				  "(at byte %zu)",
				  (size_t)(rest.p - all.p));
	if (ret->failed || w->too_large)
		return 0;
	r = pf_hlo_module_find((struct pf_slice){ (const uint8_t *)ret->data, ret->len },
			       &module, err);
	rest = all;
	while (r == 0 && !w->too_large &&
	       pf_proto_next_bytes(&rest, PF_MODULE_COMPUTATIONS, &computation) > 0)
		if (copy_computation(w, &module, computation) < 0)
			return malformed(err, "HloComputationProto");
	return r;
}

int pf_hlo_skeleton(struct pf_shared_bytes proto, bool with_config, struct pf_buf *ret,
		    struct pf_err *err)
{
	PF_CLEANUP(walk_release) struct walk w = { 0 };
	struct pf_shared_bytes module;
	int r = pf_hlo_unwrap(proto, with_config, &module, err);

	if (r < 0)
		return r;
	r = copy_module(&w, (struct pf_slice){ module.shared, module.len }, ret, err);
	if (r < 0)
		return r;
	if (!w.too_large)
		pf_buf_append(ret, w.computations.data, w.computations.len);
	if (w.too_large)
		return pf_err_set(err, -EINVAL,
				  "the optimized program has more than %d MiB of shapes "
				  "and names of arguments and callbacks",
				  MAX_COPY >> 20);
	return ret->failed || w.computations.failed
		       ? pf_err_set(err, -ENOMEM, "no memory for the program's signature")
		       : 0;
}

int pf_hlo_unwrap(struct pf_shared_bytes proto, bool with_config,
		  struct pf_shared_bytes *ret, struct pf_err *err)
{
	struct pf_slice rest = { proto.shared, proto.len }, module;

	if (!with_config) {
		*ret = proto;
		return 0;
	}
	if (pf_proto_find(&rest, PF_CONFIG_MODULE, &module) < 0 || !module.p)
		return malformed(err, "HloModuleProtoWithConfig");
	*ret = pf_shared_of(module.p, module.len);
	return 0;
}
