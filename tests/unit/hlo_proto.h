/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of compiled programs, their protos written by hand, field by field. */
#ifndef PJRTFS_TESTS_UNIT_HLO_PROTO_H
#define PJRTFS_TESTS_UNIT_HLO_PROTO_H

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "pjrtfs/base.h"
#include "pjrtfs/program.h"
#include "unit.h"

static inline void put_varint(struct pf_buf *buf, uint64_t n)
{
	while (n >= 0x80) {
		pf_buf_append(buf, &(unsigned char){ (unsigned char)(n | 0x80) }, 1);
		n >>= 7;
	}
	pf_buf_append(buf, &(unsigned char){ (unsigned char)n }, 1);
}

static inline void put_number(struct pf_buf *buf, unsigned field, int64_t n)
{
	put_varint(buf, field << 3);
	put_varint(buf, (uint64_t)n);
}

static inline void put_bytes(struct pf_buf *buf, unsigned field, const void *p,
			     size_t len)
{
	put_varint(buf, field << 3 | 2);
	put_varint(buf, len);
	pf_buf_append(buf, p, len);
}

static inline void put_string(struct pf_buf *buf, unsigned field, const char *str)
{
	put_bytes(buf, field, str, strlen(str));
}

/* Put MESSAGE and empty it. */
static inline void put_message(struct pf_buf *buf, unsigned field, struct pf_buf *message)
{
	put_bytes(buf, field, message->data, message->len);
	pf_buf_release(message);
}

static inline void put_packed(struct pf_buf *buf, unsigned field, const int64_t *n,
			      size_t count)
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

enum {
	S4 = 21,
	S32 = 4,
	PRED = 1,
	F32 = 11,
	BF16 = 16,
	TUPLE = 13,
	OPAQUE = 14,
	TOKEN = 17
};

static inline void put_shape(struct pf_buf *buf, unsigned field,
			     const struct shape *shape)
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
static inline void put_parameter(struct pf_buf *computation, const char *opcode,
				 int number, const char *op_name)
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

static inline void put_program_shape(struct pf_buf *module, const struct module *m)
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

static inline void put_alias(struct pf_buf *module, int parameter, const int64_t *path,
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

static inline void put_donor(struct pf_buf *module, int parameter)
{
	pf_autobuf struct pf_buf entry = PF_BUF_INIT, donor = PF_BUF_INIT;

	if (parameter)
		put_number(&entry, 1, parameter);
	put_message(&donor, 1, &entry);
	put_message(module, 18, &donor);
}

/* Parse a copy that ends where it ends, and, too, wrapped with a configuration. */
static inline int parse(const struct pf_buf *module, struct pf_signature **ret,
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

#endif
