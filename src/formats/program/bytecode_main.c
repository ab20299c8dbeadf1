/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "bytecode.h"
#include "internal.h"

/* Main in MLIR bytecode: its types, and what their attributes are. */

enum {
	MAX_FUNCTION_PROPERTIES = 6,
};

const struct pf_bytecode_form pf_bytecode_of_func = {
	.values = BUILTIN,
	.functions = FUNC,
	.tokens = STABLEHLO,
	.array = ATTRIBUTE_ARRAY,
	.boolean = ATTRIBUTE_INTEGER,
	.dictionary = ATTRIBUTE_DICTIONARY,
	.integer = ATTRIBUTE_INTEGER,
	.string = ATTRIBUTE_STRING,
	.symbol = ATTRIBUTE_SYMBOL,
	.type = ATTRIBUTE_TYPE,
	.complex = TYPE_COMPLEX,
	.function = TYPE_FUNCTION,
	.tensor = TYPE_TENSOR,
	.call = "call",
	.ret = "return",
	.create = "create_token",
};

const struct pf_bytecode_form pf_bytecode_of_vhlo = {
	.values = VHLO,
	.functions = VHLO,
	.tokens = VHLO,
	.array = VHLO_ARRAY,
	.boolean = VHLO_BOOLEAN,
	.dictionary = VHLO_DICTIONARY,
	.integer = VHLO_INTEGER,
	.string = VHLO_STRING,
	.symbol = VHLO_STRING,
	.type = VHLO_TYPE,
	.complex = VHLO_TYPE_COMPLEX,
	.function = VHLO_TYPE_FUNCTION,
	.tensor = VHLO_TYPE_TENSOR,
	.call = "call_v1",
	.ret = "return_v1",
	.create = "create_token_v1",
};

static bool list_items(struct pf_bytecode_main *m)
{
	struct pf_bytecode_cursor c = pf_bytecode_entries(&m->f);
	uint64_t n = m->f.n_attributes;

	if (m->f.n_attributes > MAX_ENTRIES || m->f.n_types > MAX_ENTRIES)
		return false;
	m->items = calloc(n + m->f.n_types + 1, sizeof(*m->items));
	m->no_memory = !m->items;
	for (uint64_t i = 0; m->items && i < n + m->f.n_types; i++) {
		struct pf_bytecode_entry entry;
		size_t len;

		if (i == n && c.left) /* no group has attributes and types */
			return false;
		if (i == n) {
			m->attributes_end = c.data.p;
			m->attributes_groups_end = c.offsets.p;
		}
		entry = pf_bytecode_next(&c);
		if (entry.bytes.bad || entry.dialect >= m->marks.n_dialects)
			return false;
		len = (size_t)(entry.bytes.end - entry.bytes.p);
		m->items[i] = (struct pf_bytecode_item){ .p = entry.bytes.p,
							 .len = (uint32_t)len,
							 .text = entry.text };
		if (!entry.text && len <= UINT32_MAX)
			m->items[i].dialect = m->marks.dialects[entry.dialect];
	}
	m->types_end = c.data.p;
	m->types_groups_end = c.offsets.p;
	return m->items && m->f.n_types && c.left == 0 && c.data.p == c.data.end &&
	       c.offsets.p == c.offsets.end;
}

struct pf_span pf_bytecode_item(const struct pf_bytecode_main *m, uint64_t index,
				uint8_t dialect, uint64_t code)
{
	struct pf_span ret = { .bad = true };

	if (index >= m->f.n_attributes + m->f.n_types ||
	    m->items[index].dialect != dialect)
		return ret;
	ret = (struct pf_span){ m->items[index].p,
				m->items[index].p + m->items[index].len, false };
	ret.bad = take_number(&ret) != code || ret.bad;
	return ret;
}

struct pf_span pf_bytecode_attribute(const struct pf_bytecode_main *m, uint64_t index,
				     uint64_t code)
{
	return index < m->f.n_attributes
		       ? pf_bytecode_item(m, index, m->form->values, code)
		       : (struct pf_span){ .bad = true };
}

enum pf_bytecode_kind pf_bytecode_string_kind(const struct pf_bytecode_main *m,
					      uint64_t index)
{
	struct pf_span b = pf_bytecode_attribute(m, index, m->form->string);
	uint64_t string = take_number(&b);

	return b.bad || string >= m->marks.n_strings ? OTHER : m->marks.strings[string];
}

static bool is_token(const struct pf_bytecode_main *m, uint64_t type)
{
	const struct pf_bytecode_item *e;

	if (type >= m->f.n_types)
		return false;
	e = &m->items[m->f.n_attributes + type];
	return pf_bytecode_is_token(e->dialect,
				    (struct pf_span){ e->p, e->p + e->len, false });
}

/* The attribute that NUMBER of a function's properties names, which may have none. */
static uint64_t optional(const struct pf_bytecode_main *m, uint64_t number)
{
	if (m->form == &pf_bytecode_of_vhlo)
		return number;
	return number & 1 ? number >> 1 : PF_BYTECODE_NONE;
}

static bool list_properties(struct pf_bytecode_main *m)
{
	struct pf_span b = m->f.section[SECTION_PROPERTIES];

	if (m->marks.n_properties > MAX_ENTRIES)
		return false;
	m->properties = calloc(m->marks.n_properties + 1, sizeof(*m->properties));
	m->no_memory |= !m->properties;
	if (m->marks.n_properties)
		(void)take_number(&b);
	for (uint64_t i = 0; m->properties && i < m->marks.n_properties; i++)
		m->properties[i] = take_bytes(&b, take_number(&b));
	return m->properties && !b.bad;
}

/* The arguments or the results of main's TYPE. */
static bool take_parts(struct pf_bytecode_main *m, struct pf_span *type,
		       struct pf_bytecode_parts *ret)
{
	uint64_t n = take_number(type);

	if (type->bad || n > (size_t)(type->end - type->p) ||
	    n > PF_MLIR_MAX_DECLARATION / sizeof(*ret->all))
		return false;
	ret->all = calloc(n + 1, sizeof(*ret->all));
	m->no_memory |= !ret->all;
	for (; ret->all && ret->n < n; ret->n++) {
		struct pf_bytecode_part *part = &ret->all[ret->n];

		part->type = take_number(type);
		part->token = is_token(m, part->type);
		part->number = ret->n_arrays;
		ret->n_arrays += !part->token;
	}
	return ret->all && !type->bad;
}

/* The NUMBERS of function OP's properties, in the order of their names.  Returns how many there are; 0:
 * it is not main. */
static size_t main_properties(const struct pf_bytecode_main *m,
			      const struct pf_bytecode_operation *op,
			      uint64_t numbers[MAX_FUNCTION_PROPERTIES])
{
	struct pf_span b;
	size_t n = 0;

	if ((op->flags | OP_HAS_ATTRIBUTES) !=
		    (OP_HAS_ATTRIBUTES | OP_HAS_PROPERTIES | OP_HAS_REGIONS) ||
	    op->properties >= m->marks.n_properties)
		return 0;
	b = m->properties[op->properties];
	while (n < MAX_FUNCTION_PROPERTIES && b.p < b.end)
		numbers[n++] = take_number(&b);
	/* MLIR of 2025 and later has "no_inline", behind the type. */
	if (b.bad || b.p != b.end ||
	    (n != 5 && (n != 6 || m->form == &pf_bytecode_of_vhlo)))
		return 0;
	return pf_bytecode_string_kind(m, numbers[n - 2]) == MAIN ? n : 0;
}

/* Main's N properties. */
static bool read_main(struct pf_bytecode_main *m,
		      const uint64_t numbers[MAX_FUNCTION_PROPERTIES], size_t n)
{
	struct pf_bytecode_function *main = &m->main;
	struct pf_span type = pf_bytecode_attribute(m, numbers[1], m->form->type);
	uint64_t number = take_number(&type);

	main->argument_attributes = optional(m, numbers[0]);
	main->type = numbers[1];
	main->result_attributes = optional(m, numbers[n - 3]);
	main->name = numbers[n - 2];
	main->visibility = optional(m, numbers[n - 1]);
	if (type.bad || number >= m->f.n_types)
		return false;
	type = pf_bytecode_item(m, m->f.n_attributes + number, m->form->values,
				m->form->function);
	return take_parts(m, &type, &main->arguments) &&
	       take_parts(m, &type, &main->results) && type.p == type.end;
}

/* The arguments of main's block, and whether its regions stand in a section of their own. */
static bool read_arguments(struct pf_bytecode_main *m, struct pf_span b)
{
	uint64_t regions = take_number(&b), id, first;
	struct pf_bytecode_parts *arguments = &m->main.arguments;

	m->main.isolated = regions & 1;
	if (m->main.isolated)
		b = pf_bytecode_section(&b, m->f.start, &id);
	if (regions >> 1 != 1 || !take_number(&b)) /* blocks; a declaration has none */
		return false;
	(void)take_number(&b); /* values */
	first = take_number(&b);
	if ((first & 1 ? take_number(&b) : 0) != arguments->n)
		return false;
	for (uint64_t i = 0; i < arguments->n && !b.bad; i++) {
		struct pf_span *argument = &arguments->all[i].argument;

		argument->p = b.p;
		if (take_number(&b) & 1)
			(void)take_number(&b); /* where it comes from */
		argument->end = b.p;
	}
	return !b.bad;
}

/* Find main among the N functions in B, of which no two have its name. */
static bool find_main(struct pf_bytecode_main *m, struct pf_span *b, uint64_t n)
{
	const enum pf_bytecode_kind kind =
		m->form == &pf_bytecode_of_vhlo ? FUNCTION : FUNC;
	uint64_t numbers[MAX_FUNCTION_PROPERTIES];
	bool found = false;

	for (; n > 0; n--) {
		struct pf_bytecode_function f = { .head = b->p };
		size_t n_properties = 0;

		if (!pf_bytecode_operation(&m->marks, b, &f.op))
			return false;
		f.head_end = b->p;
		if (m->marks.operations[f.op.name] == kind)
			n_properties = main_properties(m, &f.op, numbers);
		if (n_properties) {
			if (found)
				return false;
			found = true;
			m->main = f;
			if (!read_main(m, numbers, n_properties) ||
			    !read_arguments(m, *b))
				return false;
		}
		if (f.op.flags & OP_HAS_REGIONS && !pf_bytecode_regions(&m->marks, b, 1))
			return false;
	}
	return found;
}

/* The module's only block, which has no arguments, to its end, which is that of the section. */
static bool read_module(struct pf_bytecode_main *m)
{
	struct pf_span b = m->f.section[SECTION_IR];
	struct pf_bytecode_operation module;
	uint64_t n, id;

	if (take_number(&b) != 1 << 1 || !pf_bytecode_operation(&m->marks, &b, &module) ||
	    !(module.flags & OP_HAS_REGIONS) || take_number(&b) != (1 << 1 | 1) ||
	    b.p == b.end || *b.p != SECTION_IR)
		return false;
	m->functions_head = b.p;
	m->functions = pf_bytecode_section(&b, m->f.start, &id);
	if (b.p != b.end)
		return false;
	b = m->functions;
	if (take_number(&b) != 1) /* blocks */
		return false;
	m->values = take_number(&b);
	m->count = b;
	n = take_number(&b);
	m->count.end = b.p;
	return !b.bad && !(n & 1) && find_main(m, &b, n >> 1) && b.p == b.end;
}

bool pf_bytecode_main_read(const void *bytes, size_t len, struct pf_bytecode_main *ret)
{
	*ret = (struct pf_bytecode_main){ .form = &pf_bytecode_of_func };
	if (!pf_bytecode_open(bytes, len, &ret->f, NULL))
		return false;
	ret->marked = pf_bytecode_mark(&ret->marks, &ret->f);
	if (!ret->marked)
		return false;
	/* A file has functions of one dialect. */
	if (memchr(ret->marks.operations, FUNCTION, ret->marks.n_operations))
		ret->form = &pf_bytecode_of_vhlo;
	return list_items(ret) && list_properties(ret) && read_module(ret);
}

void pf_bytecode_main_release(struct pf_bytecode_main *m)
{
	pf_bytecode_marks_release(&m->marks);
	free(m->items);
	free(m->properties);
	free(m->main.arguments.all);
	free(m->main.results.all);
}
