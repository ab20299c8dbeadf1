/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of compiled programs, their protos written by hand, field by field. */
#ifndef PJRTFS_TESTS_UNIT_HLO_PROTO_H
#define PJRTFS_TESTS_UNIT_HLO_PROTO_H

#include <stdint.h>

#include "formats_fixture.h"
#include "pjrtfs/program.h"

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

enum { MOST_NUMBERS = 4 };

/* Step over numbers between BRACKETS, if they are there: how many they are. */
static inline size_t take_numbers(const char **text, const char *brackets, int64_t *ret)
{
	size_t n = 0;

	if (**text != brackets[0])
		return 0;
	for (++*text; **text != brackets[1]; *text += **text == ',') {
		char *end;

		ck_assert_uint_lt(n, MOST_NUMBERS);
		ret[n++] = strtoll(*text, &end, 10);
		*text = end;
	}
	++*text;
	return n;
}

static inline int64_t take_type(const char **text)
{
	static const struct {
		const char *name;
		int number;
	} types[] = { { "PRED", 1 },  { "S32", 4 },     { "S4", 21 },   { "F32", 11 },
		      { "BF16", 16 }, { "OPAQUE", 14 }, { "TOKEN", 17 } };
	char *end;
	int64_t n;

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (!strncmp(*text, types[i].name, strlen(types[i].name))) {
			*text += strlen(types[i].name);
			return types[i].number;
		}
	n = strtoll(*text, &end, 10);
	*text = end;
	return n;
}

/*
 * Put the shape at TEXT and step over it: a type, by name or number, extents and perhaps a layout,
 * as "F32[2,3]{1,0}"; ? behind it: dynamic; a tuple: "(F32[2],())".
 */
static inline void take_shape(struct pf_buf *buf, unsigned field, const char **text)
{
	enum { TUPLE = 13 };
	pf_autobuf struct pf_buf message = PF_BUF_INIT, layout = PF_BUF_INIT;
	int64_t n[MOST_NUMBERS];
	size_t count;

	if (**text == '(') {
		put_number(&message, 2, TUPLE);
		for (++*text; **text != ')'; *text += **text == ',')
			take_shape(&message, 4, text);
		++*text;
	} else {
		put_number(&message, 2, take_type(text));
	}
	count = take_numbers(text, "[]", n);
	if (count)
		put_packed(&message, 3, n, count);
	count = take_numbers(text, "{}", n);
	if (count) {
		put_packed(&layout, 1, n, count);
		put_number(&layout, 8, 0);
		put_message(&message, 5, &layout);
	}
	if (**text == '?') {
		++*text;
		put_packed(&message, 6, (const int64_t[]){ 1 }, 1);
	}
	put_message(buf, field, &message);
}

static inline void put_shape(struct pf_buf *buf, unsigned field, const char *text)
{
	take_shape(buf, field, &text);
}

/* The shapes of a program's arguments, with a blank behind each but the last, and of its result. */
static inline void put_program_shape(struct pf_buf *module, const char *inputs,
				     const char *output)
{
	pf_autobuf struct pf_buf program = PF_BUF_INIT;

	for (; *inputs; inputs += *inputs == ' ')
		take_shape(&program, 1, &inputs);
	put_shape(&program, 2, output);
	put_message(module, 4, &program);
}

/* An instruction that is a parameter, unless OPCODE is another. */
static inline void put_parameter(struct pf_buf *computation, const char *opcode,
				 int number, const char *op_name)
{
	pf_autobuf struct pf_buf instruction = PF_BUF_INIT, metadata = PF_BUF_INIT;

	put_string(&instruction, 1, "Arg.1");
	put_string(&instruction, 2, opcode);
	put_string(&metadata, 1, "type");
	put_string(&metadata, 2, op_name);
	put_message(&instruction, 7, &metadata);
	if (number)
		put_number(&instruction, 9, number);
	put_message(computation, 2, &instruction);
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

	put_number(&entry, 1, parameter);
	put_message(&donor, 1, &entry);
	put_message(module, 18, &donor);
}

/* Parse a copy that ends where it ends, and, too, wrapped with a configuration. */
static inline int parse(const struct pf_buf *module, struct pf_signature **ret,
			struct pf_err *err)
{
	struct pf_signature *wrapped_sig = NULL;
	pf_autobuf struct pf_buf wrapped = PF_BUF_INIT;
	pf_autofree void *copy = exact_copy(module->data, module->len);
	struct pf_err wrapped_err = PF_ERR_INIT;
	int r;

	*ret = NULL;
	r = pf_signature_parse(pf_shared_of(copy, module->len), false, ret, err);
	put_bytes(&wrapped, 1, module->data, module->len);
	put_string(&wrapped, 2, "the configuration");
	ck_assert_int_eq(pf_signature_parse(pf_shared_of(wrapped.data, wrapped.len), true,
					    &wrapped_sig, &wrapped_err),
			 r);
	if (r == 0)
		ck_assert_uint_eq(wrapped_sig->n_inputs, (*ret)->n_inputs);
	else
		ck_assert_str_eq(err->text, wrapped_err.text);
	pf_signature_free(wrapped_sig);
	return r;
}

/* The signature of MODULE, which is good. */
static inline struct pf_signature *signature(const struct pf_buf *module)
{
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;

	check_result(parse(module, &sig, &err), 0, &err, NULL);
	return sig;
}

/* MODULE is refused with SAYS. */
static inline void check_refused(const struct pf_buf *module, const char *says)
{
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;

	check_result(parse(module, &sig, &err), -EINVAL, &err, says);
}

#endif
