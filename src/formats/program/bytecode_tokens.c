/* SPDX-License-Identifier: Apache-2.0 */
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

/* New attributes, or types. */
struct additions {
	struct pf_buf data, groups;
	uint64_t n; /* the number of the next one */
};

struct rewriting {
	struct pf_bytecode_main in;
	struct additions attributes, types;
	struct pf_bytecode_editor out;
};

static void rewriting_release(struct rewriting *r)
{
	pf_bytecode_main_release(&r->in);
	pf_buf_release(&r->attributes.data);
	pf_buf_release(&r->attributes.groups);
	pf_buf_release(&r->types.data);
	pf_buf_release(&r->types.groups);
}

static uint64_t dialect_number(struct rewriting *r, uint8_t dialect)
{
	const uint8_t *dialects = r->in.marks.dialects;
	const uint8_t *found = memchr(dialects, dialect, r->in.marks.n_dialects);

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
	return r->in.marks.n_strings + i;
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
	struct pf_span b = pf_bytecode_attribute(&r->in, number, r->in.form->integer);
	uint64_t type = take_number(&b), value = take_number(&b);

	/* The sign is the lowest bit. */
	if (b.bad || value & 1 || value >> 1 >= r->in.main.results.n)
		return number;
	pf_bytecode_put(&new, r->in.form->integer);
	pf_bytecode_put(&new, type);
	pf_bytecode_put(&new, r->in.main.results.all[value >> 1].number << 1);
	return add(r, &r->attributes, r->in.form->values, &new);
}

/* The attributes of an argument: the result that it aliases is counted without tokens. */
static uint64_t add_aliasing(struct rewriting *r, uint64_t dictionary)
{
	pf_autobuf struct pf_buf new = PF_BUF_INIT;
	struct pf_span b =
		pf_bytecode_attribute(&r->in, dictionary, r->in.form->dictionary);
	uint64_t n = take_number(&b);
	bool changed = false;

	r->out.bad |= b.bad || n > MAX_ATTRIBUTES;
	pf_bytecode_put(&new, r->in.form->dictionary);
	pf_bytecode_put(&new, n);
	for (uint64_t i = 0; i < n && !r->out.bad; i++) {
		uint64_t key = take_number(&b), value = take_number(&b);

		if (pf_bytecode_string_kind(&r->in, key) == ALIASING) {
			value = add_result_number(r, value);
			changed = true;
		}
		pf_bytecode_put(&new, key);
		pf_bytecode_put(&new, value);
	}
	return changed ? add(r, &r->attributes, r->in.form->values, &new) : dictionary;
}

/* ARRAY, which has an element for each of PARTS, without those of tokens. */
static uint64_t add_attributes(struct rewriting *r, uint64_t array,
			       const struct pf_bytecode_parts *parts)
{
	pf_autobuf struct pf_buf new = PF_BUF_INIT;
	struct pf_span b = pf_bytecode_attribute(&r->in, array, r->in.form->array);
	uint64_t n = take_number(&b);

	if (array == PF_BYTECODE_NONE || (!b.bad && n == 0))
		return array;
	r->out.bad |= b.bad || n != parts->n;
	pf_bytecode_put(&new, r->in.form->array);
	pf_bytecode_put(&new, parts->n_arrays);
	for (uint64_t i = 0; i < n && !r->out.bad; i++) {
		uint64_t element = take_number(&b);

		if (!parts->all[i].token)
			pf_bytecode_put(&new, parts == &r->in.main.arguments
						      ? add_aliasing(r, element)
						      : element);
	}
	return add(r, &r->attributes, r->in.form->values, &new);
}

static void put_types(struct pf_buf *out, const struct pf_bytecode_parts *parts,
		      bool tokens)
{
	pf_bytecode_put(out, tokens ? parts->n : parts->n_arrays);
	for (uint64_t i = 0; i < parts->n; i++)
		if (tokens || !parts->all[i].token)
			pf_bytecode_put(out, parts->all[i].type);
}

static uint64_t add_type(struct rewriting *r)
{
	pf_autobuf struct pf_buf new = PF_BUF_INIT;

	pf_bytecode_put(&new, r->in.form->function);
	put_types(&new, &r->in.main.arguments, false);
	put_types(&new, &r->in.main.results, false);
	return add_number(r, r->in.form->values, r->in.form->type,
			  add(r, &r->types, r->in.form->values, &new));
}

/* A function's dictionary: VALUES by their keys, each or none, and OTHERS, which are in another one. */
static uint64_t add_function(struct rewriting *r, const uint64_t values[KEYS],
			     uint64_t others)
{
	pf_autobuf struct pf_buf new = PF_BUF_INIT;
	struct pf_span b =
		pf_bytecode_item(&r->in, others, BUILTIN, ATTRIBUTE_DICTIONARY);
	uint64_t n = others == PF_BYTECODE_NONE ? 0 : take_number(&b);

	r->out.bad |= others != PF_BYTECODE_NONE && b.bad;
	for (unsigned i = 0; i < KEYS; i++)
		n += values[i] != PF_BYTECODE_NONE;
	pf_bytecode_put(&new, ATTRIBUTE_DICTIONARY);
	pf_bytecode_put(&new, n);
	if (!b.bad)
		pf_buf_append(&new, b.p, (size_t)(b.end - b.p));
	/* The keys' attributes are the first new ones: add_keys has been called before all else. */
	for (unsigned i = 0; i < KEYS; i++) {
		if (values[i] == PF_BYTECODE_NONE)
			continue;
		pf_bytecode_put(&new, r->in.f.n_attributes + i);
		pf_bytecode_put(&new, values[i]);
	}
	return add(r, &r->attributes, BUILTIN, &new);
}

static uint64_t add_main(struct rewriting *r)
{
	const struct pf_bytecode_function *m = &r->in.main;
	const uint64_t values[KEYS] = {
		[ARGUMENT_ATTRIBUTES] =
			add_attributes(r, m->argument_attributes, &m->arguments),
		[CALLEE] = PF_BYTECODE_NONE,
		[FUNCTION_TYPE] = add_type(r),
		[RESULT_ATTRIBUTES] =
			add_attributes(r, m->result_attributes, &m->results),
		[SYMBOL_NAME] = m->name,
		[VISIBILITY] = m->visibility,
	};

	return add_function(r, values,
			    m->op.flags & OP_HAS_ATTRIBUTES ? m->op.attributes
							    : PF_BYTECODE_NONE);
}

/* The dictionary of the program's main, which gets NAME. */
static uint64_t add_called(struct rewriting *r, uint64_t name)
{
	uint64_t no_attributes = PF_BYTECODE_NONE;
	uint64_t values[KEYS] = {
		[CALLEE] = PF_BYTECODE_NONE,
		[FUNCTION_TYPE] = r->in.main.type,
		[SYMBOL_NAME] = name,
		[VISIBILITY] = add_number(r, r->in.form->values, r->in.form->string,
					  new_string(r, PRIVATE)),
	};

	if (r->in.form == &pf_bytecode_of_vhlo) /* it has all properties */
		no_attributes = add_number(r, VHLO, VHLO_ARRAY, 0);
	values[ARGUMENT_ATTRIBUTES] = values[RESULT_ATTRIBUTES] = no_attributes;
	return add_function(r, values, PF_BYTECODE_NONE);
}

static uint64_t add_call(struct rewriting *r, uint64_t name)
{
	uint64_t values[KEYS];

	for (unsigned i = 0; i < KEYS; i++)
		values[i] = PF_BYTECODE_NONE;
	values[CALLEE] = name;
	if (r->in.form == &pf_bytecode_of_func)
		values[CALLEE] = add_number(r, BUILTIN, ATTRIBUTE_SYMBOL, name);
	return add_function(r, values, PF_BYTECODE_NONE);
}

/* The head of an operation, up to its attributes. */
static void put_operation(struct rewriting *r, struct pf_buf *out, uint64_t name,
			  unsigned flags)
{
	pf_bytecode_put(out, name);
	pf_bytecode_put_byte(out, flags);
	pf_bytecode_put(out, r->in.main.op.location);
}

/* The arguments of the new main's block, which has OPERATIONS. */
static void put_block(struct rewriting *r, struct pf_buf *out, unsigned operations)
{
	const struct pf_bytecode_parts *arguments = &r->in.main.arguments;

	pf_bytecode_put(out, operations << 1 | (arguments->n_arrays > 0));
	if (!arguments->n_arrays)
		return;
	pf_bytecode_put(out, arguments->n_arrays);
	for (uint64_t i = 0; i < arguments->n; i++) {
		const struct pf_bytecode_part *part = &arguments->all[i];

		if (!part->token)
			pf_buf_append(out, part->argument.p,
				      (size_t)(part->argument.end - part->argument.p));
	}
	pf_bytecode_put_byte(out, 0); /* no orders of uses */
}

/* The body of the new main, whose call has the dictionary CALL. */
static void put_body(struct rewriting *r, struct pf_buf *out, uint64_t call)
{
	const struct pf_bytecode_parts *arguments = &r->in.main.arguments,
				       *results = &r->in.main.results;
	uint64_t name = r->in.marks.n_operations, i = 0;
	/* The numbers of values: the arguments', the token's, those of the call. */
	uint64_t first = r->in.main.isolated ? 0 : r->in.values;
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
	const struct pf_bytecode_function *m = &r->in.main;
	struct pf_span old = r->in.count;

	pf_bytecode_put(&count, take_number(&old) + (1 << 1));
	pf_bytecode_edit(&r->out, r->in.count.p,
			 (size_t)(r->in.count.end - r->in.count.p), &count);
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
	pf_bytecode_edit(&r->out, r->in.functions.end, 0, &main);
	pf_bytecode_put_byte(&head, SECTION_IR);
	pf_bytecode_put(&head, (size_t)(r->in.functions.end - r->in.functions.p) +
				       pf_bytecode_growth(&r->out, r->in.functions.p,
							  r->in.functions.end));
	pf_bytecode_edit(&r->out, r->in.functions_head,
			 (size_t)(r->in.functions.p - r->in.functions_head), &head);
}

/* The names of operations, each with its dialect. */
static void edit_names(struct rewriting *r)
{
	pf_autobuf struct pf_buf count = PF_BUF_INIT, names = PF_BUF_INIT;
	const uint8_t dialects[] = { r->in.form->functions, r->in.form->functions,
				     r->in.form->tokens };
	struct pf_span b = r->in.marks.names;

	pf_bytecode_put(&count, take_number(&b) + PF_ARRAY_SIZE(dialects));
	pf_bytecode_edit(&r->out, r->in.marks.names.p,
			 (size_t)(b.p - r->in.marks.names.p), &count);
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
		"arg_attrs",      "callee",         "function_type",    "res_attrs",
		"sym_name",       "sym_visibility", "private",          name,
		r->in.form->call, r->in.form->ret,  r->in.form->create,
	};
	struct pf_span b = r->in.f.section[SECTION_STRINGS];
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
	const uint8_t *start = r->in.f.section[SECTION_OFFSETS].p;

	pf_bytecode_put(&counts, r->attributes.n);
	pf_bytecode_put(&counts, r->types.n);
	pf_bytecode_edit(&r->out, start, (size_t)(r->in.f.offsets.p - start), &counts);
	pf_bytecode_edit(&r->out, r->in.attributes_groups_end, 0, &r->attributes.groups);
	pf_bytecode_edit(&r->out, r->in.types_groups_end, 0, &r->types.groups);
	pf_bytecode_edit(&r->out, r->in.attributes_end, 0, &r->attributes.data);
	pf_bytecode_edit(&r->out, r->in.types_end, 0, &r->types.data);
}

/* Are tokens among main's arguments and results? */
static bool has_tokens(const struct pf_bytecode_function *main)
{
	return main->arguments.n_arrays + main->results.n_arrays <
	       main->arguments.n + main->results.n;
}

bool pf_mlir_bytecode_drop_tokens(struct pf_program_facts *facts, const void *bytes,
				  size_t len, struct pf_program_edits *edits)
{
	PF_CLEANUP(rewriting_release)
	struct rewriting r = { .out = { .f = &r.in.f, .whole = bytes, .to = edits } };
	char name[PF_MLIR_FREE_NAME];

	if (!pf_bytecode_main_read(r.out.whole + facts->off, facts->len, &r.in) ||
	    !has_tokens(&r.in.main) ||
	    !pf_mlir_free_name((const char *)r.in.f.start, facts->len, name)) {
		/* There was memory for the marks when the facts were read. */
		edits->list.failed = r.in.no_memory || !r.in.marked;
		return edits->list.failed;
	}
	r.attributes.n = r.in.f.n_attributes;
	r.types.n = r.in.f.n_types;
	add_keys(&r);
	edit_operations(&r, add_number(&r, r.in.form->values, r.in.form->string,
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
