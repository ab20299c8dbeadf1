/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bytecode.h"
#include "internal.h"
#include "pjrtfs/array.h"

/*
 * Main's types in MLIR bytecode.
 * Source: mlir/lib/IR/BuiltinDialectBytecode.td, stablehlo/dialect/VhloBytecode.cpp.
 */

/* Element types by the codes with which their dialect begins them; all others are INVALID. */
static const uint8_t of_builtin[] = {
	[3] = PF_DTYPE_BF16,        [4] = PF_DTYPE_F16,
	[5] = PF_DTYPE_F32,         [6] = PF_DTYPE_F64,
	[22] = PF_DTYPE_F8E5M2,     [23] = PF_DTYPE_F8E4M3,
	[24] = PF_DTYPE_F8E4M3FN,   [25] = PF_DTYPE_F8E5M2FNUZ,
	[26] = PF_DTYPE_F8E4M3FNUZ, [27] = PF_DTYPE_F8E4M3B11FNUZ,
	[28] = PF_DTYPE_F8E3M4,     [29] = PF_DTYPE_F4E2M1FN,
	[32] = PF_DTYPE_F8E8M0FNU,
};
static const uint8_t of_vhlo[] = {
	[0] = PF_DTYPE_PRED,        [2] = PF_DTYPE_BF16,
	[3] = PF_DTYPE_F16,         [4] = PF_DTYPE_F32,
	[5] = PF_DTYPE_F64,         [6] = PF_DTYPE_F8E4M3FN,
	[7] = PF_DTYPE_F8E5M2,      [10] = PF_DTYPE_S4,
	[11] = PF_DTYPE_S8,         [12] = PF_DTYPE_S16,
	[13] = PF_DTYPE_S32,        [14] = PF_DTYPE_S64,
	[15] = PF_DTYPE_U4,         [16] = PF_DTYPE_U8,
	[17] = PF_DTYPE_U16,        [18] = PF_DTYPE_U32,
	[19] = PF_DTYPE_U64,        [27] = PF_DTYPE_F8E4M3FNUZ,
	[28] = PF_DTYPE_F8E5M2FNUZ, [29] = PF_DTYPE_F8E4M3B11FNUZ,
	[31] = PF_DTYPE_S2,         [32] = PF_DTYPE_U2,
	[35] = PF_DTYPE_F8E4M3,     [36] = PF_DTYPE_F8E3M4,
	[37] = PF_DTYPE_F4E2M1FN,   [40] = PF_DTYPE_F8E8M0FNU,
};

/* An integer of the builtin dialect: its width, and in two bits whether it is signed, are behind the code. */
static enum pf_dtype integer(struct pf_span *b)
{
	static const char *const prefixes[] = { "i", "si", "ui", "" };
	uint64_t n = take_number(b);
	char name[16];

	if (b->bad || n >> 2 > 64)
		return PF_DTYPE_INVALID;
	snprintf(name, sizeof(name), "%s%u", prefixes[n & 3], (unsigned)(n >> 2));
	return pf_dtype_parse(name, strlen(name));
}

/* Type number TYPE, or NULL. */
static const struct pf_bytecode_item *item_of(const struct pf_bytecode_main *m,
					      uint64_t type)
{
	return type < m->f.n_types ? &m->items[m->f.n_attributes + type] : NULL;
}

/* Type ITEM, or NULL, if it is one of real numbers; else INVALID. */
static enum pf_dtype real_type(const struct pf_bytecode_main *m,
			       const struct pf_bytecode_item *item)
{
	const bool vhlo = m->form == &pf_bytecode_of_vhlo;
	enum pf_dtype ret = PF_DTYPE_INVALID;
	struct pf_span b;
	uint64_t code;

	/* Older versions of MLIR write some types as text, with a NUL. */
	if (item && item->text && item->len)
		return pf_dtype_parse((const char *)item->p, item->len - 1);
	if (!item || item->dialect != m->form->values)
		return PF_DTYPE_INVALID;
	b = (struct pf_span){ item->p, item->p + item->len, false };
	code = take_number(&b);
	if (vhlo && code < PF_ARRAY_SIZE(of_vhlo))
		ret = (enum pf_dtype)of_vhlo[code];
	else if (!vhlo && code == TYPE_INTEGER)
		ret = integer(&b);
	else if (!vhlo && code < PF_ARRAY_SIZE(of_builtin))
		ret = (enum pf_dtype)of_builtin[code];
	return b.bad || b.p != b.end ? PF_DTYPE_INVALID : ret;
}

/* Type number TYPE, if it is one of elements; else INVALID. */
static enum pf_dtype element_type(const struct pf_bytecode_main *m, uint64_t type)
{
	struct pf_span complex = pf_bytecode_item(m, m->f.n_attributes + type,
						  m->form->values, m->form->complex);
	enum pf_dtype of;

	if (type >= m->f.n_types || complex.bad)
		return real_type(m, item_of(m, type));
	of = real_type(m, item_of(m, take_number(&complex)));
	if (complex.bad || complex.p != complex.end)
		return PF_DTYPE_INVALID;
	return of == PF_DTYPE_F32   ? PF_DTYPE_C64
	       : of == PF_DTYPE_F64 ? PF_DTYPE_C128
				    : PF_DTYPE_INVALID;
}

static const char not_fixed[] = "a dimension that is not fixed";

/* Make PARAM's dtype and shape those of type number TYPE.  NULL, or what it is instead; static. */
static const char *read_type(const struct pf_bytecode_main *m, uint64_t type,
			     struct pf_param *param)
{
	struct pf_span b = { .bad = true };
	uint64_t rank;

	if (type < m->f.n_types)
		b = pf_bytecode_item(m, m->f.n_attributes + type, m->form->values,
				     m->form->tensor);
	rank = take_number(&b);
	if (b.bad || rank > PF_MAX_RANK)
		return "another type";
	param->shape.rank = (unsigned)rank;
	for (unsigned i = 0; i < rank; i++) {
		uint64_t n = take_number(&b);

		/* The sign is the lowest bit; an unknown extent is negative. */
		if (b.bad || n & 1)
			return not_fixed;
		param->shape.dims[i] = (int64_t)(n >> 1);
	}
	param->dtype = element_type(m, take_number(&b));
	if (b.bad || b.p != b.end || !pf_declared_fits(param))
		return "an unknown element type or an impossible size";
	return NULL;
}

static int read_types(const struct pf_bytecode_main *m, const char *what,
		      const struct pf_bytecode_parts *parts, struct pf_param *params,
		      struct pf_err *err)
{
	for (size_t i = 0; i < parts->n; i++) {
		const char *found = read_type(m, parts->all[i].type, &params[i]);

		if (found)
			return pf_declared_refuse(what, i,
						  (struct pf_slice){
							  (const uint8_t *)found,
							  strlen(found) },
						  err);
	}
	return 0;
}

static bool is_true(const struct pf_bytecode_main *m, uint64_t value)
{
	const bool vhlo = m->form == &pf_bytecode_of_vhlo;
	struct pf_span b = pf_bytecode_attribute(m, value, m->form->boolean);

	if (vhlo)
		return take_number(&b) == 1;
	(void)take_number(&b); /* its type, of one bit */
	return take_byte(&b) == 1;
}

/* The number that attribute VALUE is; -1: it is none that a result could have. */
static int result_number(const struct pf_bytecode_main *m, uint64_t value)
{
	struct pf_span b = pf_bytecode_attribute(m, value, m->form->integer);
	uint64_t n;

	(void)take_number(&b); /* its type */
	n = take_number(&b);   /* the sign is the lowest bit */
	return b.bad || n & 1 || n >> 1 > PF_MAX_PARAMS ? -1 : (int)(n >> 1);
}

/* What the attributes of an argument, a DICTIONARY, say of its memory. */
static void read_donation(const struct pf_bytecode_main *m, uint64_t dictionary,
			  struct pf_param *param)
{
	struct pf_span b = pf_bytecode_attribute(m, dictionary, m->form->dictionary);
	uint64_t n = take_number(&b);

	for (uint64_t i = 0; i < n && i < MAX_ATTRIBUTES && !b.bad; i++) {
		enum pf_bytecode_kind kind = pf_bytecode_string_kind(m, take_number(&b));
		uint64_t value = take_number(&b);

		if (kind == ALIASING)
			param->alias_output = result_number(m, value);
		else if (kind == DONOR)
			param->donated = is_true(m, value);
	}
}

static void read_donations(const struct pf_bytecode_main *m, struct pf_signature *sig)
{
	struct pf_span b =
		pf_bytecode_attribute(m, m->main.argument_attributes, m->form->array);

	if (take_number(&b) != sig->n_inputs)
		return;
	for (size_t i = 0; i < sig->n_inputs && !b.bad; i++)
		read_donation(m, take_number(&b), &sig->inputs[i]);
}

int pf_mlir_bytecode_declared(const void *bytes, size_t len, struct pf_signature *sig,
			      struct pf_err *err)
{
	PF_CLEANUP(pf_bytecode_main_release) struct pf_bytecode_main m = { 0 };
	int r;

	if (!pf_bytecode_main_read(bytes, len, &m)) {
		if (m.no_memory)
			return pf_err_set(err, -ENOMEM,
					  "no memory for the program's signature");
		return pf_err_set(
			err, -EINVAL,
			"expected a function main whose types pjrtfs can read, "
			"found none: write the program as StableHLO text (.mlir)");
	}
	r = pf_declared_inputs(sig, m.main.arguments.n, err);
	if (r == 0)
		r = pf_declared_outputs(sig, m.main.results.n, err);
	if (r == 0)
		r = read_types(&m, "argument", &m.main.arguments, sig->inputs, err);
	if (r == 0)
		r = read_types(&m, "result", &m.main.results, sig->outputs, err);
	if (r == 0)
		read_donations(&m, sig);
	return r;
}

static bool any_symbolic(const struct pf_bytecode_main *m,
			 const struct pf_bytecode_parts *parts)
{
	for (size_t i = 0; i < parts->n; i++) {
		struct pf_param param = { 0 };

		if (read_type(m, parts->all[i].type, &param) == not_fixed)
			return true;
	}
	return false;
}

bool pf_mlir_bytecode_symbolic(const void *bytes, size_t len)
{
	PF_CLEANUP(pf_bytecode_main_release) struct pf_bytecode_main m = { 0 };

	return pf_bytecode_main_read(bytes, len, &m) &&
	       (any_symbolic(&m, &m.main.arguments) || any_symbolic(&m, &m.main.results));
}
