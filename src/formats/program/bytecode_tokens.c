/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "bytecode.h"
#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/program.h"

/*
 * Tokens of main, in MLIR bytecode.
 *
 * As in text, another main calls the program's.  All that the file has keeps its number: what the
 * new main needs stands behind the file's strings, attributes, types, names of operations, and
 * functions.  Both functions have their properties in a dictionary, since that, unlike the section
 * of properties, is the same in all versions of MLIR.
 */

enum {
	MAX_FUNCTION_PROPERTIES = 6,
};

static const uint64_t none = UINT64_MAX;

/* New strings; the first ones are keys of dictionaries. */
enum {
	ARGUMENT_ATTRIBUTES,
	CALLEE,
	FUNCTION_TYPE,
	RESULT_ATTRIBUTES,
	SYMBOL_NAME,
	VISIBILITY,
	KEYS,
	PRIVATE = KEYS,
	CALLED,
	NAME_OF_CALL,
	NAME_OF_RETURN,
	NAME_OF_CREATE,
	STRINGS,
};

/* How the dialect of main is written. */
struct form {
	uint8_t values;            /* the dialect of types and of values of attributes */
	uint8_t functions, tokens; /* those of operations */
	uint64_t array, dictionary, integer, string, symbol, type, function;
	const char *call, *ret, *create;
};

static const struct form of_func = {
	.values = BUILTIN,
	.functions = FUNC,
	.tokens = STABLEHLO,
	.array = ATTRIBUTE_ARRAY,
	.dictionary = ATTRIBUTE_DICTIONARY,
	.integer = ATTRIBUTE_INTEGER,
	.string = ATTRIBUTE_STRING,
	.symbol = ATTRIBUTE_SYMBOL,
	.type = ATTRIBUTE_TYPE,
	.function = TYPE_FUNCTION,
	.call = "call",
	.ret = "return",
	.create = "create_token",
};

static const struct form of_vhlo = {
	.values = VHLO,
	.functions = VHLO,
	.tokens = VHLO,
	.array = VHLO_ARRAY,
	.dictionary = VHLO_DICTIONARY,
	.integer = VHLO_INTEGER,
	.string = VHLO_STRING,
	.symbol = VHLO_STRING,
	.type = VHLO_TYPE,
	.function = VHLO_TYPE_FUNCTION,
	.call = "call_v1",
	.ret = "return_v1",
	.create = "create_token_v1",
};

/* An attribute or a type of the file. */
struct entry {
	const uint8_t *p;
	uint32_t len;
	uint8_t dialect; /* its kind; OTHER: also one that is not encoded by its dialect */
};

/* New attributes, or types. */
struct additions {
	struct pf_buf data, groups;
	uint64_t n;             /* the number of the next one */
	const uint8_t *data_at; /* where they go, and what describes them */
	const uint8_t *groups_at;
};

/* An argument or a result of main. */
struct part {
	uint64_t type;
	uint64_t number;         /* among those that are not tokens */
	struct pf_span argument; /* of the block: the type and a location */
	bool token;
};

struct parts {
	struct part *all; /* owned */
	uint64_t n, n_arrays;
};

struct function {
	const uint8_t *head, *head_end; /* of the operation, up to its regions */
	struct pf_bytecode_operation op;
	bool isolated;
	uint64_t type, name, visibility, argument_attributes,
		result_attributes; /* or none */
	struct parts arguments, results;
};

struct rewriting {
	struct pf_bytecode f;
	struct pf_bytecode_marks marks;
	struct entry *entries; /* owned; the attributes, then the types */
	const struct form *form;
	struct additions attributes, types;
	struct function main;
	/* The functions of the module: how many they are, and the section that they are in. */
	struct pf_span count, functions;
	const uint8_t *functions_head;
	uint64_t values;            /* of the module */
	struct pf_span *properties; /* owned */
	struct pf_bytecode_editor out;
};

static void rewriting_release(struct rewriting *r)
{
	pf_bytecode_marks_release(&r->marks);
	free(r->entries);
	free(r->properties);
	free(r->main.arguments.all);
	free(r->main.results.all);
	pf_buf_release(&r->attributes.data);
	pf_buf_release(&r->attributes.groups);
	pf_buf_release(&r->types.data);
	pf_buf_release(&r->types.groups);
}

/* --- reading --------------------------------------------------------------------------------- */

static bool list_entries(struct rewriting *r)
{
	struct pf_bytecode_cursor c = pf_bytecode_entries(&r->f);
	uint64_t n = r->f.n_attributes;

	if (r->f.n_attributes > MAX_ENTRIES || r->f.n_types > MAX_ENTRIES)
		return false;
	r->entries = calloc(n + r->f.n_types + 1, sizeof(*r->entries));
	r->out.to->list.failed = !r->entries;
	for (uint64_t i = 0; r->entries && i < n + r->f.n_types; i++) {
		struct pf_bytecode_entry entry;
		size_t len;

		if (i == n && c.left) /* no group has attributes and types */
			return false;
		if (i == n) {
			r->attributes.data_at = c.data.p;
			r->attributes.groups_at = c.offsets.p;
		}
		entry = pf_bytecode_next(&c);
		if (entry.bytes.bad || entry.dialect >= r->marks.n_dialects)
			return false;
		len = (size_t)(entry.bytes.end - entry.bytes.p);
		r->entries[i] =
			(struct entry){ .p = entry.bytes.p, .len = (uint32_t)len };
		if (!entry.text && len <= UINT32_MAX)
			r->entries[i].dialect = r->marks.dialects[entry.dialect];
	}
	r->attributes.n = n;
	r->types = (struct additions){ .n = r->f.n_types,
				       .data_at = c.data.p,
				       .groups_at = c.offsets.p };
	return r->entries && r->f.n_types && c.left == 0 && c.data.p == c.data.end &&
	       c.offsets.p == c.offsets.end;
}

/* Entry INDEX behind CODE, with which DIALECT begins such ones. */
static struct pf_span entry(const struct rewriting *r, uint64_t index, uint8_t dialect,
			    uint64_t code)
{
	struct pf_span ret = { .bad = true };

	if (index >= r->f.n_attributes + r->f.n_types ||
	    r->entries[index].dialect != dialect)
		return ret;
	ret = (struct pf_span){ r->entries[index].p,
				r->entries[index].p + r->entries[index].len, false };
	ret.bad = take_number(&ret) != code || ret.bad;
	return ret;
}

static struct pf_span attribute(const struct rewriting *r, uint64_t index, uint64_t code)
{
	return index < r->f.n_attributes ? entry(r, index, r->form->values, code)
					 : (struct pf_span){ .bad = true };
}

/* The kind of the string that attribute INDEX is. */
static enum pf_bytecode_kind kind_of_string(const struct rewriting *r, uint64_t index)
{
	struct pf_span b = attribute(r, index, r->form->string);
	uint64_t string = take_number(&b);

	return b.bad || string >= r->marks.n_strings ? OTHER : r->marks.strings[string];
}

static bool is_token(const struct rewriting *r, uint64_t type)
{
	const struct entry *e;

	if (type >= r->f.n_types)
		return false;
	e = &r->entries[r->f.n_attributes + type];
	return pf_bytecode_is_token(e->dialect,
				    (struct pf_span){ e->p, e->p + e->len, false });
}

/* The attribute that NUMBER of a function's properties names, which may have none. */
static uint64_t optional(const struct rewriting *r, uint64_t number)
{
	if (r->form == &of_vhlo)
		return number;
	return number & 1 ? number >> 1 : none;
}

static bool list_properties(struct rewriting *r)
{
	struct pf_span b = r->f.section[SECTION_PROPERTIES];

	if (r->marks.n_properties > MAX_ENTRIES)
		return false;
	r->properties = calloc(r->marks.n_properties + 1, sizeof(*r->properties));
	r->out.to->list.failed |= !r->properties;
	if (r->marks.n_properties)
		(void)take_number(&b);
	for (uint64_t i = 0; r->properties && i < r->marks.n_properties; i++)
		r->properties[i] = take_bytes(&b, take_number(&b));
	return r->properties && !b.bad;
}

/* The arguments or the results of main's TYPE. */
static bool take_parts(struct rewriting *r, struct pf_span *type, struct parts *ret)
{
	uint64_t n = take_number(type);

	if (type->bad || n > (size_t)(type->end - type->p) ||
	    n > PF_MLIR_MAX_DECLARATION / sizeof(*ret->all))
		return false;
	ret->all = calloc(n + 1, sizeof(*ret->all));
	r->out.to->list.failed |= !ret->all;
	for (; ret->all && ret->n < n; ret->n++) {
		struct part *part = &ret->all[ret->n];

		part->type = take_number(type);
		part->token = is_token(r, part->type);
		part->number = ret->n_arrays;
		ret->n_arrays += !part->token;
	}
	return ret->all && !type->bad;
}

/* The NUMBERS of function OP's properties, in the order of their names.  Returns how many there are; 0:
 * it is not main. */
static size_t main_properties(const struct rewriting *r,
			      const struct pf_bytecode_operation *op,
			      uint64_t numbers[MAX_FUNCTION_PROPERTIES])
{
	struct pf_span b;
	size_t n = 0;

	if ((op->flags | OP_HAS_ATTRIBUTES) !=
		    (OP_HAS_ATTRIBUTES | OP_HAS_PROPERTIES | OP_HAS_REGIONS) ||
	    op->properties >= r->marks.n_properties)
		return 0;
	b = r->properties[op->properties];
	while (n < MAX_FUNCTION_PROPERTIES && b.p < b.end)
		numbers[n++] = take_number(&b);
	/* MLIR of 2025 and later has "no_inline", behind the type. */
	if (b.bad || b.p != b.end || (n != 5 && (n != 6 || r->form == &of_vhlo)))
		return 0;
	return kind_of_string(r, numbers[n - 2]) == MAIN ? n : 0;
}

/* Main's N properties. */
static bool read_main(struct rewriting *r,
		      const uint64_t numbers[MAX_FUNCTION_PROPERTIES], size_t n)
{
	struct function *m = &r->main;
	struct pf_span type = attribute(r, numbers[1], r->form->type);
	uint64_t number = take_number(&type);

	m->argument_attributes = optional(r, numbers[0]);
	m->type = numbers[1];
	m->result_attributes = optional(r, numbers[n - 3]);
	m->name = numbers[n - 2];
	m->visibility = optional(r, numbers[n - 1]);
	if (type.bad || number >= r->f.n_types)
		return false;
	type = entry(r, r->f.n_attributes + number, r->form->values, r->form->function);
	return take_parts(r, &type, &m->arguments) && take_parts(r, &type, &m->results) &&
	       type.p == type.end;
}

/* The arguments of main's block, and whether its regions stand in a section of their own. */
static bool read_arguments(struct rewriting *r, struct pf_span b)
{
	uint64_t regions = take_number(&b), id, first;
	struct parts *arguments = &r->main.arguments;

	r->main.isolated = regions & 1;
	if (r->main.isolated)
		b = pf_bytecode_section(&b, r->f.start, &id);
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

/* Find main, which has tokens, among the N functions in B, of which no two have its name. */
static bool find_main(struct rewriting *r, struct pf_span *b, uint64_t n)
{
	const enum pf_bytecode_kind kind = r->form == &of_vhlo ? FUNCTION : FUNC;
	uint64_t numbers[MAX_FUNCTION_PROPERTIES];
	bool found = false;

	for (; n > 0; n--) {
		struct function f = { .head = b->p };
		size_t n_properties = 0;

		if (!pf_bytecode_operation(&r->marks, b, &f.op))
			return false;
		f.head_end = b->p;
		if (r->marks.operations[f.op.name] == kind)
			n_properties = main_properties(r, &f.op, numbers);
		if (n_properties) {
			if (found)
				return false;
			found = true;
			r->main = f;
			if (!read_main(r, numbers, n_properties) ||
			    !read_arguments(r, *b))
				return false;
		}
		if (f.op.flags & OP_HAS_REGIONS && !pf_bytecode_regions(&r->marks, b, 1))
			return false;
	}
	return found && r->main.arguments.n_arrays + r->main.results.n_arrays <
				r->main.arguments.n + r->main.results.n;
}

/* The module's only block, which has no arguments, to its end, which is that of the section. */
static bool read_module(struct rewriting *r)
{
	struct pf_span b = r->f.section[SECTION_IR];
	struct pf_bytecode_operation module;
	uint64_t n, id;

	if (take_number(&b) != 1 << 1 || !pf_bytecode_operation(&r->marks, &b, &module) ||
	    !(module.flags & OP_HAS_REGIONS) || take_number(&b) != (1 << 1 | 1) ||
	    b.p == b.end || *b.p != SECTION_IR)
		return false;
	r->functions_head = b.p;
	r->functions = pf_bytecode_section(&b, r->f.start, &id);
	if (b.p != b.end)
		return false;
	b = r->functions;
	if (take_number(&b) != 1) /* blocks */
		return false;
	r->values = take_number(&b);
	r->count = b;
	n = take_number(&b);
	r->count.end = b.p;
	return !b.bad && !(n & 1) && find_main(r, &b, n >> 1) && b.p == b.end;
}

static bool read_file(struct rewriting *r)
{
	const uint8_t *operations = r->marks.operations;

	/* A file has functions of one dialect. */
	r->form =
		memchr(operations, FUNCTION, r->marks.n_operations) ? &of_vhlo : &of_func;
	return list_entries(r) && list_properties(r) && read_module(r);
}

/* --- writing --------------------------------------------------------------------------------- */

static uint64_t dialect_number(struct rewriting *r, uint8_t dialect)
{
	const uint8_t *dialects = r->marks.dialects;
	const uint8_t *found = memchr(dialects, dialect, r->marks.n_dialects);

	r->out.bad |= !found;
	return found ? (uint64_t)(found - dialects) : 0;
}

/* Add NEW, of DIALECT; its number. */
static uint64_t add(struct rewriting *r, struct additions *to, uint8_t dialect,
		    const struct pf_buf *new)
{
	r->out.bad |= to->data.len + to->groups.len > PF_MLIR_MAX_DECLARATION;
	pf_bytecode_put(&to->groups, dialect_number(r, dialect));
	pf_bytecode_put(&to->groups, 1);
	pf_bytecode_put(&to->groups, new->len << 1 | 1);
	pf_buf_append(&to->data, new->data, new->len);
	to->data.failed |= new->failed;
	return to->n++;
}

/* An attribute of a code and a number. */
static uint64_t add_number(struct rewriting *r, uint8_t dialect, uint64_t code,
			   uint64_t number)
{
	pf_autobuf struct pf_buf new = PF_BUF_INIT;

	pf_bytecode_put(&new, code);
	pf_bytecode_put(&new, number);
	return add(r, &r->attributes, dialect, &new);
}

static uint64_t new_string(const struct rewriting *r, unsigned i)
{
	return r->marks.n_strings + i;
}

/* The keys of dictionaries: the first new attributes. */
static void add_keys(struct rewriting *r)
{
	for (unsigned i = 0; i < KEYS; i++)
		(void)add_number(r, BUILTIN, ATTRIBUTE_STRING, new_string(r, i));
}

/* An attribute of an argument, NUMBER: if it is the number of a result, that without tokens. */
static uint64_t add_result_number(struct rewriting *r, uint64_t number)
{
	pf_autobuf struct pf_buf new = PF_BUF_INIT;
	struct pf_span b = attribute(r, number, r->form->integer);
	uint64_t type = take_number(&b), value = take_number(&b);

	/* The sign is the lowest bit. */
	if (b.bad || value & 1 || value >> 1 >= r->main.results.n)
		return number;
	pf_bytecode_put(&new, r->form->integer);
	pf_bytecode_put(&new, type);
	pf_bytecode_put(&new, r->main.results.all[value >> 1].number << 1);
	return add(r, &r->attributes, r->form->values, &new);
}

/* The attributes of an argument: the result that it aliases is counted without tokens. */
static uint64_t add_aliasing(struct rewriting *r, uint64_t dictionary)
{
	pf_autobuf struct pf_buf new = PF_BUF_INIT;
	struct pf_span b = attribute(r, dictionary, r->form->dictionary);
	uint64_t n = take_number(&b);
	bool changed = false;

	r->out.bad |= b.bad || n > MAX_ATTRIBUTES;
	pf_bytecode_put(&new, r->form->dictionary);
	pf_bytecode_put(&new, n);
	for (uint64_t i = 0; i < n && !r->out.bad; i++) {
		uint64_t key = take_number(&b), value = take_number(&b);

		if (kind_of_string(r, key) == ALIASING) {
			value = add_result_number(r, value);
			changed = true;
		}
		pf_bytecode_put(&new, key);
		pf_bytecode_put(&new, value);
	}
	return changed ? add(r, &r->attributes, r->form->values, &new) : dictionary;
}

/* ARRAY, which has an element for each of PARTS, without those of tokens. */
static uint64_t add_attributes(struct rewriting *r, uint64_t array,
			       const struct parts *parts)
{
	pf_autobuf struct pf_buf new = PF_BUF_INIT;
	struct pf_span b = attribute(r, array, r->form->array);
	uint64_t n = take_number(&b);

	if (array == none || (!b.bad && n == 0))
		return array;
	r->out.bad |= b.bad || n != parts->n;
	pf_bytecode_put(&new, r->form->array);
	pf_bytecode_put(&new, parts->n_arrays);
	for (uint64_t i = 0; i < n && !r->out.bad; i++) {
		uint64_t element = take_number(&b);

		if (!parts->all[i].token)
			pf_bytecode_put(&new, parts == &r->main.arguments
						      ? add_aliasing(r, element)
						      : element);
	}
	return add(r, &r->attributes, r->form->values, &new);
}

static void put_types(struct pf_buf *out, const struct parts *parts, bool tokens)
{
	pf_bytecode_put(out, tokens ? parts->n : parts->n_arrays);
	for (uint64_t i = 0; i < parts->n; i++)
		if (tokens || !parts->all[i].token)
			pf_bytecode_put(out, parts->all[i].type);
}

static uint64_t add_type(struct rewriting *r)
{
	pf_autobuf struct pf_buf new = PF_BUF_INIT;

	pf_bytecode_put(&new, r->form->function);
	put_types(&new, &r->main.arguments, false);
	put_types(&new, &r->main.results, false);
	return add_number(r, r->form->values, r->form->type,
			  add(r, &r->types, r->form->values, &new));
}

/* A function's dictionary: VALUES by their keys, each or none, and OTHERS, which are in another one. */
static uint64_t add_function(struct rewriting *r, const uint64_t values[KEYS],
			     uint64_t others)
{
	pf_autobuf struct pf_buf new = PF_BUF_INIT;
	struct pf_span b = entry(r, others, BUILTIN, ATTRIBUTE_DICTIONARY);
	uint64_t n = others == none ? 0 : take_number(&b);

	r->out.bad |= others != none && b.bad;
	for (unsigned i = 0; i < KEYS; i++)
		n += values[i] != none;
	pf_bytecode_put(&new, ATTRIBUTE_DICTIONARY);
	pf_bytecode_put(&new, n);
	if (!b.bad)
		pf_buf_append(&new, b.p, (size_t)(b.end - b.p));
	/* The keys' attributes are the first new ones: add_keys has been called before all else. */
	for (unsigned i = 0; i < KEYS; i++) {
		if (values[i] == none)
			continue;
		pf_bytecode_put(&new, r->f.n_attributes + i);
		pf_bytecode_put(&new, values[i]);
	}
	return add(r, &r->attributes, BUILTIN, &new);
}

static uint64_t add_main(struct rewriting *r)
{
	const struct function *m = &r->main;
	const uint64_t values[KEYS] = {
		[ARGUMENT_ATTRIBUTES] =
			add_attributes(r, m->argument_attributes, &m->arguments),
		[CALLEE] = none,
		[FUNCTION_TYPE] = add_type(r),
		[RESULT_ATTRIBUTES] =
			add_attributes(r, m->result_attributes, &m->results),
		[SYMBOL_NAME] = m->name,
		[VISIBILITY] = m->visibility,
	};

	return add_function(r, values,
			    m->op.flags & OP_HAS_ATTRIBUTES ? m->op.attributes : none);
}

/* The dictionary of the program's main, which gets NAME. */
static uint64_t add_called(struct rewriting *r, uint64_t name)
{
	uint64_t no_attributes = none;
	uint64_t values[KEYS] = {
		[CALLEE] = none,
		[FUNCTION_TYPE] = r->main.type,
		[SYMBOL_NAME] = name,
		[VISIBILITY] = add_number(r, r->form->values, r->form->string,
					  new_string(r, PRIVATE)),
	};

	if (r->form == &of_vhlo) /* it has all properties */
		no_attributes = add_number(r, VHLO, VHLO_ARRAY, 0);
	values[ARGUMENT_ATTRIBUTES] = values[RESULT_ATTRIBUTES] = no_attributes;
	return add_function(r, values, none);
}

static uint64_t add_call(struct rewriting *r, uint64_t name)
{
	uint64_t values[KEYS];

	for (unsigned i = 0; i < KEYS; i++)
		values[i] = none;
	values[CALLEE] = name;
	if (r->form == &of_func)
		values[CALLEE] = add_number(r, BUILTIN, ATTRIBUTE_SYMBOL, name);
	return add_function(r, values, none);
}

/* The head of an operation, up to its attributes. */
static void put_operation(struct rewriting *r, struct pf_buf *out, uint64_t name,
			  unsigned flags)
{
	pf_bytecode_put(out, name);
	pf_bytecode_put_byte(out, flags);
	pf_bytecode_put(out, r->main.op.location);
}

/* The arguments of the new main's block, which has OPERATIONS. */
static void put_block(struct rewriting *r, struct pf_buf *out, unsigned operations)
{
	const struct parts *arguments = &r->main.arguments;

	pf_bytecode_put(out, operations << 1 | (arguments->n_arrays > 0));
	if (!arguments->n_arrays)
		return;
	pf_bytecode_put(out, arguments->n_arrays);
	for (uint64_t i = 0; i < arguments->n; i++) {
		const struct part *part = &arguments->all[i];

		if (!part->token)
			pf_buf_append(out, part->argument.p,
				      (size_t)(part->argument.end - part->argument.p));
	}
	pf_bytecode_put_byte(out, 0); /* no orders of uses */
}

/* The body of the new main, whose call has the dictionary CALL. */
static void put_body(struct rewriting *r, struct pf_buf *out, uint64_t call)
{
	const struct parts *arguments = &r->main.arguments, *results = &r->main.results;
	uint64_t name = r->marks.n_operations, i = 0;
	/* The numbers of values: the arguments', the token's, those of the call. */
	uint64_t first = r->main.isolated ? 0 : r->values;
	uint64_t token = first + arguments->n_arrays;
	bool creates = arguments->n_arrays < arguments->n;

	pf_bytecode_put(out, 1); /* block */
	pf_bytecode_put(out, arguments->n_arrays + creates + results->n);
	put_block(r, out, 2 + creates);
	if (creates) {
		while (!arguments->all[i].token)
			i++;
		put_operation(r, out, name + NAME_OF_CREATE - NAME_OF_CALL,
			      OP_HAS_RESULTS);
		pf_bytecode_put(out, 1);
		pf_bytecode_put(out, arguments->all[i].type);
	}
	put_operation(r, out, name, OP_HAS_ATTRIBUTES | OP_HAS_RESULTS | OP_HAS_OPERANDS);
	pf_bytecode_put(out, call);
	put_types(out, results, true);
	pf_bytecode_put(out, arguments->n);
	for (i = 0; i < arguments->n; i++)
		pf_bytecode_put(out, arguments->all[i].token
					     ? token
					     : first + arguments->all[i].number);
	put_operation(r, out, name + NAME_OF_RETURN - NAME_OF_CALL, OP_HAS_OPERANDS);
	pf_bytecode_put(out, results->n_arrays);
	for (i = 0; i < results->n; i++)
		if (!results->all[i].token)
			pf_bytecode_put(out, token + creates + i);
}

/* The operations: the program's main under its new NAME, and another one behind all functions. */
static void edit_operations(struct rewriting *r, uint64_t name)
{
	pf_autobuf struct pf_buf count = PF_BUF_INIT, called = PF_BUF_INIT,
				 main = PF_BUF_INIT, body = PF_BUF_INIT,
				 head = PF_BUF_INIT;
	const struct function *m = &r->main;
	struct pf_span old = r->count;

	pf_bytecode_put(&count, take_number(&old) + (1 << 1));
	pf_bytecode_edit(&r->out, r->count.p, (size_t)(r->count.end - r->count.p),
			 &count);
	put_operation(r, &called, m->op.name, OP_HAS_ATTRIBUTES | OP_HAS_REGIONS);
	pf_bytecode_put(&called, add_called(r, name));
	pf_bytecode_edit(&r->out, m->head, (size_t)(m->head_end - m->head), &called);
	put_operation(r, &main, m->op.name, OP_HAS_ATTRIBUTES | OP_HAS_REGIONS);
	pf_bytecode_put(&main, add_main(r));
	pf_bytecode_put(&main, 1 << 1 | m->isolated);
	put_body(r, &body, add_call(r, name));
	if (m->isolated) {
		pf_bytecode_put_byte(&main, SECTION_IR);
		pf_bytecode_put(&main, body.len);
	}
	pf_buf_append(&main, body.data, body.len);
	main.failed |= body.failed;
	pf_bytecode_edit(&r->out, r->functions.end, 0, &main);
	pf_bytecode_put_byte(&head, SECTION_IR);
	pf_bytecode_put(&head, (size_t)(r->functions.end - r->functions.p) +
				       pf_bytecode_growth(&r->out, r->functions.p,
							  r->functions.end));
	pf_bytecode_edit(&r->out, r->functions_head,
			 (size_t)(r->functions.p - r->functions_head), &head);
}

/* The names of operations, each with its dialect. */
static void edit_names(struct rewriting *r)
{
	pf_autobuf struct pf_buf count = PF_BUF_INIT, names = PF_BUF_INIT;
	const uint8_t dialects[] = { r->form->functions, r->form->functions,
				     r->form->tokens };
	struct pf_span b = r->marks.names;

	pf_bytecode_put(&count, take_number(&b) + PF_ARRAY_SIZE(dialects));
	pf_bytecode_edit(&r->out, r->marks.names.p, (size_t)(b.p - r->marks.names.p),
			 &count);
	for (unsigned i = 0; i < PF_ARRAY_SIZE(dialects); i++) {
		pf_bytecode_put(&names, dialect_number(r, dialects[i]));
		pf_bytecode_put(&names, 1);
		pf_bytecode_put(&names, new_string(r, NAME_OF_CALL + i) << 1 | 1);
	}
	pf_bytecode_edit(&r->out, b.end, 0, &names);
}

static void edit_strings(struct rewriting *r, const char *name)
{
	pf_autobuf struct pf_buf count = PF_BUF_INIT, text = PF_BUF_INIT;
	const char *const strings[STRINGS] = {
		"arg_attrs",   "callee",         "function_type", "res_attrs",
		"sym_name",    "sym_visibility", "private",       name,
		r->form->call, r->form->ret,     r->form->create,
	};
	struct pf_span b = r->f.section[SECTION_STRINGS];
	const uint8_t *start = b.p;

	/* Lengths stand in reverse order. */
	pf_bytecode_put(&count, take_number(&b) + STRINGS);
	for (unsigned i = STRINGS; i-- > 0;)
		pf_bytecode_put(&count, strlen(strings[i]) + 1);
	pf_bytecode_edit(&r->out, start, (size_t)(b.p - start), &count);
	for (unsigned i = 0; i < STRINGS; i++)
		pf_buf_append(&text, strings[i], strlen(strings[i]) + 1);
	pf_bytecode_edit(&r->out, b.end, 0, &text);
}

static void edit_entries(struct rewriting *r)
{
	pf_autobuf struct pf_buf counts = PF_BUF_INIT;
	const uint8_t *start = r->f.section[SECTION_OFFSETS].p;

	pf_bytecode_put(&counts, r->attributes.n);
	pf_bytecode_put(&counts, r->types.n);
	pf_bytecode_edit(&r->out, start, (size_t)(r->f.offsets.p - start), &counts);
	pf_bytecode_edit(&r->out, r->attributes.groups_at, 0, &r->attributes.groups);
	pf_bytecode_edit(&r->out, r->types.groups_at, 0, &r->types.groups);
	pf_bytecode_edit(&r->out, r->attributes.data_at, 0, &r->attributes.data);
	pf_bytecode_edit(&r->out, r->types.data_at, 0, &r->types.data);
}

bool pf_mlir_bytecode_drop_tokens(struct pf_program_facts *facts, const void *bytes,
				  size_t len, struct pf_program_edits *edits)
{
	PF_CLEANUP(rewriting_release)
	struct rewriting r = { .out = { .f = &r.f, .whole = bytes, .to = edits } };
	char name[PF_MLIR_FREE_NAME];

	if (!pf_bytecode_open(r.out.whole + facts->off, facts->len, &r.f, NULL))
		return false;
	/* There was memory for the marks when the facts were read. */
	edits->list.failed = !pf_bytecode_mark(&r.marks, &r.f);
	if (edits->list.failed || !read_file(&r) ||
	    !pf_mlir_free_name((const char *)r.f.start, facts->len, name))
		return edits->list.failed;
	add_keys(&r);
	edit_operations(&r, add_number(&r, r.form->values, r.form->string,
				       new_string(&r, CALLED)));
	edit_names(&r);
	edit_strings(&r, name);
	edit_entries(&r);
	if (!pf_bytecode_edit_end(&r.out, facts, len))
		return false;
	if (!edits->list.failed)
		facts->tokens = false;
	return true;
}
