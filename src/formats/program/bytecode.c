/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytecode.h"
#include "internal.h"

/*
 * A module's integer attributes, its tokens and tensors with bounds, and the targets of its custom
 * calls, in MLIR bytecode.
 *
 * Such a file is a row of sections.  The one with the operations begins with the module, whose
 * attributes are a dictionary: one of the entries of the section of attributes and types, which name
 * each other and the strings by number.  For the module's attributes, only the few entries that lead to
 * them are read; tokens and bounds are looked for in all types.  The targets are strings of entries,
 * which the operations' properties name: each section marks, in one pass, what it names in the next.
 */

enum {
	/* Those in which operations have properties; older ones have attributes only. */
	MIN_CALLS_VERSION = 5,
	MAX_CALLS_VERSION = 6,
	/* A custom call's properties, in the order of their names: the target is one of them. */
	CALL_PROPERTIES = 8,
	CALL_TARGET = 2,
};

static const struct pf_span nothing = { NULL, NULL, true };

struct pf_span pf_bytecode_section(struct pf_span *b, const uint8_t *start, uint64_t *id)
{
	uint64_t first = take_byte(b), len = take_number(b);
	uint64_t align = first & SECTION_ALIGNED ? take_number(b) : 1;

	if (align == 0 || align > 65536) {
		b->bad = true;
		return nothing;
	}
	(void)take_bytes(b, (align - (uint64_t)(b->p - start) % align) % align);
	*id = first & (SECTION_ALIGNED - 1);
	return take_bytes(b, len);
}

static bool take_sections(struct pf_span *b, struct pf_bytecode *f)
{
	while (!b->bad && b->p < b->end) {
		uint64_t id;
		struct pf_span part = pf_bytecode_section(b, f->start, &id);

		if (part.bad || id >= SECTION_COUNT || f->section[id].p)
			return false;
		f->section[id] = part;
	}
	return !b->bad && f->section[SECTION_STRINGS].p &&
	       f->section[SECTION_ATTRIBUTES].p && f->section[SECTION_OFFSETS].p &&
	       f->section[SECTION_IR].p;
}

/* "StableHLO_v1.15.0": the version of a portable artifact; other producers give none. */
static void read_producer(const struct pf_span *text, unsigned version[3])
{
	char producer[64];
	size_t len = (size_t)(text->end - text->p);
	unsigned v[3];

	if (text->bad || len >= sizeof(producer))
		return;
	memcpy(producer, text->p, len);
	producer[len] = '\0';
	if (sscanf(producer, "StableHLO_v%4u.%4u.%4u", &v[0], &v[1], &v[2]) == 3)
		memcpy(version, v, sizeof(v));
}

/* FACTS may be NULL. */
static bool take_header(struct pf_span *b, struct pf_bytecode *f,
			struct pf_program_facts *facts)
{
	struct pf_span producer;

	if (take_bytes(b, 4).bad)
		return false;
	/* The facts are the same in all versions. */
	f->version = (unsigned)take_number(b);
	producer = *b;
	while (take_byte(b))
		;
	producer.end = b->p;
	producer.bad = b->bad;
	if (facts)
		read_producer(&producer, facts->stablehlo);
	return !b->bad;
}

bool pf_bytecode_open(const void *bytes, size_t len, struct pf_bytecode *f,
		      struct pf_program_facts *facts)
{
	struct pf_span all = { bytes, (const uint8_t *)bytes + len, false };

	*f = (struct pf_bytecode){ .start = bytes };
	if (!take_header(&all, f, facts))
		return false;
	f->sections = all;
	if (!take_sections(&all, f))
		return false;
	f->offsets = f->section[SECTION_OFFSETS];
	f->n_attributes = take_number(&f->offsets);
	f->n_types = take_number(&f->offsets);
	return true;
}

struct pf_bytecode_cursor pf_bytecode_entries(const struct pf_bytecode *f)
{
	return (struct pf_bytecode_cursor){ f->offsets, f->section[SECTION_ATTRIBUTES], 0,
					    0 };
}

struct pf_bytecode_entry pf_bytecode_next(struct pf_bytecode_cursor *c)
{
	struct pf_bytecode_entry ret = { .bytes = nothing };
	uint64_t size;

	while (c->left == 0 && !c->offsets.bad) {
		c->dialect = take_number(&c->offsets);
		c->left = take_number(&c->offsets);
	}
	size = take_number(&c->offsets);
	if (c->offsets.bad)
		return ret;
	c->left--;
	ret.bytes = take_bytes(&c->data, size >> 1);
	ret.dialect = c->dialect;
	ret.text = !(size & 1);
	return ret;
}

struct pf_bytecode_entry pf_bytecode_find(const struct pf_bytecode *f, uint64_t index)
{
	struct pf_bytecode_cursor c = pf_bytecode_entries(f);

	for (uint64_t i = 0; i < f->n_attributes + f->n_types && !c.offsets.bad; i++) {
		struct pf_bytecode_entry entry = pf_bytecode_next(&c);

		if (i == index)
			return entry;
	}
	return (struct pf_bytecode_entry){ .bytes = nothing };
}

/* Does one of the STRINGS, which end with a NUL, end with TEXT? */
static bool has_string(const struct pf_span *strings, const char *text)
{
	return memmem(strings->p, (size_t)(strings->end - strings->p), text,
		      strlen(text) + 1);
}

/* Is string INDEX the text WANT?  Lengths, with their NUL, stand in reverse order. */
static bool is_string(const struct pf_bytecode *f, uint64_t index, const char *want)
{
	struct pf_span strings = f->section[SECTION_STRINGS], text, last;
	uint64_t n = take_number(&strings), len = 0, behind = 0;

	if (n > MAX_STRINGS || index >= n)
		return false;
	for (uint64_t i = n; i-- > index && !strings.bad;) {
		len = take_number(&strings);
		if (__builtin_add_overflow(behind, len, &behind))
			return false;
	}
	if (strings.bad || len != strlen(want) + 1)
		return false;
	/* The strings end with their section. */
	text = strings;
	if (behind > (size_t)(text.end - text.p))
		return false;
	(void)take_bytes(&text, (uint64_t)(text.end - text.p) - behind);
	last = take_bytes(&text, len);
	return !last.bad && memcmp(last.p, want, len) == 0;
}

/* The value of an integer attribute; 0: it is something else, or negative. */
static int64_t integer_of(const struct pf_bytecode *f, uint64_t index)
{
	struct pf_span entry = pf_bytecode_find(f, index).bytes, type;
	uint64_t width, n;

	if (take_number(&entry) != ATTRIBUTE_INTEGER)
		return 0;
	type = pf_bytecode_find(f, f->n_attributes + take_number(&entry)).bytes;
	if (take_number(&type) != TYPE_INTEGER)
		return 0;
	width = take_number(&type) >> 2; /* two bits hold the signedness */
	if (type.bad || width < 8 || width > 64)
		return 0;
	/* Bytes are written as they are, wider ones with the sign in the lowest bit. */
	n = width == 8 ? take_byte(&entry) : take_number(&entry);
	if (entry.bad || (width > 8 && (n & 1)))
		return 0;
	if (width == 8)
		return n < 0x80 ? (int64_t)n : 0;
	return (int64_t)(n >> 1);
}

static void read_dictionary(const struct pf_bytecode *f, uint64_t index,
			    struct pf_program_facts *ret)
{
	struct pf_span entry = pf_bytecode_find(f, index).bytes;
	uint64_t n;

	if (take_number(&entry) != ATTRIBUTE_DICTIONARY)
		return;
	n = take_number(&entry);
	for (uint64_t i = 0; i < n && i < MAX_ATTRIBUTES && !entry.bad; i++) {
		struct pf_span key = pf_bytecode_find(f, take_number(&entry)).bytes;
		uint64_t value = take_number(&entry), name;

		if (take_number(&key) != ATTRIBUTE_STRING)
			continue;
		name = take_number(&key);
		if (key.bad)
			continue;
		if (is_string(f, name, "mhlo.num_replicas"))
			ret->num_replicas = integer_of(f, value);
		else if (is_string(f, name, "mhlo.num_partitions"))
			ret->num_partitions = integer_of(f, value);
	}
}

/* --- custom calls ---------------------------------------------------------------------------- */

static const struct {
	const char *text;
	enum pf_bytecode_kind kind;
} words[] = {
	{ "builtin", BUILTIN },
	{ "func", FUNC },
	{ "vhlo", VHLO },
	{ "stablehlo", STABLEHLO },
	{ "func_v1", FUNCTION },
	{ "custom_call", CALL },
	{ "custom_call_v1", CALL },
	{ "custom_call_v2", CALL_V2 },
	{ "while", WHILE },
	{ "while_v1", WHILE },
	{ "infeed", FEED },
	{ "infeed_v1", FEED },
	{ "outfeed", FEED },
	{ "outfeed_v1", FEED },
	{ "main", MAIN },
	{ "tf.aliasing_output", ALIASING },
	{ "jax.buffer_donor", DONOR },
};

void pf_bytecode_marks_release(struct pf_bytecode_marks *c)
{
	free(c->strings);
	free(c->dialects);
	free(c->operations);
	free(c->properties);
	free(c->attributes);
	free(c->targets);
	free(c->bounded);
}

/* N zeros, one for each of N parts of B, which has that many bytes at least; or NULL. */
static uint8_t *marks(const struct pf_span *b, uint64_t n)
{
	return b->bad || n > (size_t)(b->end - b->p) ? NULL : calloc(n + 1, 1);
}

static enum pf_bytecode_kind kind_of(const uint8_t *text, size_t len)
{
	static const char call[] = "custom_call";

	for (size_t i = 0; i < PF_ARRAY_SIZE(words); i++)
		if (len == strlen(words[i].text) && !memcmp(text, words[i].text, len))
			return words[i].kind;
	return len >= sizeof(call) - 1 && !memcmp(text, call, sizeof(call) - 1)
		       ? OTHER_CALL
		       : OTHER;
}

/* Go through the strings, from the last to the first: set their kinds, or, if there are TARGETS, give
 * FOUND these. */
static bool each_string(struct pf_bytecode_marks *c, const struct pf_call_visitor *found)
{
	struct pf_span lengths = c->f->section[SECTION_STRINGS];
	const uint8_t *text = lengths.end, *end;
	uint64_t n = take_number(&lengths);

	if (!found) {
		c->n_strings = n;
		c->strings = marks(&lengths, n);
		c->targets = marks(&lengths, n);
	}
	if (!c->strings || !c->targets)
		return false;
	for (uint64_t i = n; i-- > 0;) {
		uint64_t len = take_number(&lengths);

		if (lengths.bad || lengths.p > text || !len ||
		    len > (size_t)(text - lengths.p))
			return false;
		end = text - 1; /* the NUL */
		text -= len;
		if (!found)
			c->strings[i] = kind_of(text, (size_t)(end - text));
		else if (c->targets[i])
			found->found(found->arg, (const char *)text,
				     (size_t)(end - text));
	}
	return true;
}

static bool read_dialects(struct pf_bytecode_marks *c)
{
	struct pf_span b = c->f->section[SECTION_DIALECTS];
	uint64_t id;

	c->n_dialects = take_number(&b);
	c->dialects = marks(&b, c->n_dialects);
	for (uint64_t i = 0; c->dialects && i < c->n_dialects; i++) {
		uint64_t name = take_number(&b);

		if (name & 1) /* it has a version */
			(void)pf_bytecode_section(&b, c->f->start, &id);
		if (b.bad || name >> 1 >= c->n_strings)
			return false;
		c->dialects[i] = c->strings[name >> 1];
	}
	c->names = b;
	c->n_operations = take_number(&b);
	c->operations = marks(&b, c->n_operations);
	if (!c->dialects || !c->operations)
		return false;
	for (uint64_t i = 0; i < c->n_operations;) {
		uint64_t dialect = take_number(&b), n = take_number(&b);

		if (b.bad || dialect >= c->n_dialects || n > c->n_operations - i)
			return false;
		for (; n > 0; n--) {
			uint64_t name = take_number(&b) >> 1; /* a flag: registered */
			enum pf_bytecode_kind kind = c->dialects[dialect];

			if (b.bad || name >= c->n_strings)
				return false;
			if (kind == FUNC || kind == VHLO || kind == STABLEHLO)
				c->operations[i] = c->strings[name];
			i++;
		}
	}
	return true;
}

static void skip_numbers(struct pf_span *b, uint64_t n)
{
	while (n-- > 0 && !b->bad)
		(void)take_number(b);
}

/* The orders in which some of N values are used; of a single value nothing but its order is there. */
static void skip_use_lists(struct pf_span *b, uint64_t n)
{
	for (uint64_t left = n == 1 ? 1 : take_number(b); left > 0 && !b->bad; left--) {
		if (n != 1)
			(void)take_number(b);
		skip_numbers(b, take_number(b) >> 1);
	}
}

bool pf_bytecode_operation(const struct pf_bytecode_marks *m, struct pf_span *b,
			   struct pf_bytecode_operation *ret)
{
	*ret = (struct pf_bytecode_operation){ .name = take_number(b) };
	ret->flags = take_byte(b);
	ret->location = take_number(b);
	if (ret->flags & OP_HAS_ATTRIBUTES)
		ret->attributes = take_number(b);
	if (ret->flags & OP_HAS_PROPERTIES)
		ret->properties = take_number(b);
	if (ret->flags & OP_HAS_RESULTS)
		ret->n_results = take_number(b);
	if (ret->n_results) {
		ret->result = take_number(b);
		skip_numbers(b, ret->n_results - 1);
	}
	if (ret->flags & OP_HAS_OPERANDS)
		skip_numbers(b, take_number(b));
	if (ret->flags & OP_HAS_SUCCESSORS)
		skip_numbers(b, take_number(b));
	if (ret->flags & OP_HAS_USE_LISTS)
		skip_use_lists(b, ret->n_results);
	return !b->bad && ret->name < m->n_operations;
}

/* One operation: note whose the properties are. */
static bool walk_operation(struct pf_bytecode_marks *c, struct pf_span *b, unsigned depth)
{
	struct pf_bytecode_operation op;
	uint8_t kind, mark;

	if (!pf_bytecode_operation(c, b, &op))
		return false;
	kind = c->operations[op.name];
	mark = kind == CALL ? OF_CALL : kind == CALL_V2 ? OF_CALL_V2 : OF_OTHERS;
	if (c->bounded) {
		c->dynamic_while = c->dynamic_while ||
				   (kind == WHILE && op.n_results == 1 &&
				    op.result < c->f->n_types && c->bounded[op.result]);
	} else if (kind == OTHER_CALL ||
		   (mark != OF_OTHERS && !(op.flags & OP_HAS_PROPERTIES))) {
		return false;
	} else if (op.flags & OP_HAS_PROPERTIES) {
		if (op.properties >= c->n_properties)
			return false;
		c->properties[op.properties] |= mark;
	}
	return !(op.flags & OP_HAS_REGIONS) || pf_bytecode_regions(c, b, depth);
}

static bool walk_block(struct pf_bytecode_marks *c, struct pf_span *b, unsigned depth)
{
	uint64_t first = take_number(b), n = first & 1 ? take_number(b) : 0;

	for (uint64_t i = 0; i < n && !b->bad; i++)
		if (take_number(b) & 1)
			(void)take_number(b); /* where it comes from */
	if (first & 1 && take_byte(b))
		skip_use_lists(b, n);
	for (uint64_t i = 0; i < first >> 1; i++)
		if (!walk_operation(c, b, depth))
			return false;
	return !b->bad;
}

/* The regions of an operation: if they use no values from outside, they are a section. */
bool pf_bytecode_regions(struct pf_bytecode_marks *c, struct pf_span *b, unsigned depth)
{
	uint64_t n = take_number(b), id = SECTION_IR;
	bool isolated = n & 1;
	/* No writer aligns them, so that other bytes may get between the parts of the file. */
	bool aligned = isolated && b->p < b->end && *b->p & SECTION_ALIGNED;
	struct pf_span part = isolated ? pf_bytecode_section(b, c->f->start, &id) : *b;

	if (depth == PF_MLIR_MAX_NESTING || id != SECTION_IR || aligned)
		return false;
	for (n >>= 1; n > 0 && !part.bad; n--) {
		uint64_t blocks = take_number(&part);

		if (blocks)
			(void)take_number(&part); /* the values in it */
		for (; blocks > 0; blocks--)
			if (!walk_block(c, &part, depth + 1))
				return false;
	}
	if (!isolated)
		*b = part;
	return !part.bad && (!isolated || part.p == part.end);
}

/* From custom calls to the attributes that are their targets. */
static bool read_properties(struct pf_bytecode_marks *c)
{
	struct pf_span b = c->f->section[SECTION_PROPERTIES];

	if (c->n_properties)
		(void)take_number(&b);
	for (uint64_t i = 0; i < c->n_properties; i++) {
		struct pf_span of_op = take_bytes(&b, take_number(&b));
		uint64_t n = 0, target = 0;
		uint8_t call = c->properties[i] & (OF_CALL | OF_CALL_V2);

		for (; call && !of_op.bad && of_op.p < of_op.end; n++) {
			uint64_t attribute = take_number(&of_op);

			target = n == CALL_TARGET ? attribute : target;
		}
		if (of_op.bad || (call && (n != CALL_PROPERTIES + (call == OF_CALL_V2) ||
					   target >= c->f->n_attributes)))
			return false;
		if (call)
			c->attributes[target] = 1;
	}
	return !b.bad;
}

static bool is_string_code(uint8_t dialect, uint64_t code)
{
	return (dialect == VHLO && code == VHLO_STRING) ||
	       (dialect == BUILTIN && code == ATTRIBUTE_STRING);
}

/* From these attributes to their strings. */
static bool read_targets(struct pf_bytecode_marks *c)
{
	struct pf_bytecode_cursor entries = pf_bytecode_entries(c->f);

	for (uint64_t i = 0; i < c->f->n_attributes && !entries.offsets.bad; i++) {
		struct pf_bytecode_entry entry = pf_bytecode_next(&entries);
		uint64_t text, code;

		if (!c->attributes[i])
			continue;
		code = take_number(&entry.bytes);
		text = take_number(&entry.bytes);
		if (entry.bytes.bad || entry.bytes.p != entry.bytes.end || entry.text ||
		    entry.dialect >= c->n_dialects || text >= c->n_strings ||
		    !is_string_code(c->dialects[entry.dialect], code))
			return false;
		c->targets[text] = 1;
	}
	return !entries.offsets.bad;
}

bool pf_bytecode_mark(struct pf_bytecode_marks *m, const struct pf_bytecode *f)
{
	struct pf_span properties = f->section[SECTION_PROPERTIES];

	*m = (struct pf_bytecode_marks){ .f = f };
	if (f->version < MIN_CALLS_VERSION || f->version > MAX_CALLS_VERSION ||
	    !f->section[SECTION_DIALECTS].p)
		return false;
	m->n_properties = properties.p ? take_number(&properties) : 0;
	m->properties = marks(&properties, m->n_properties);
	m->attributes = marks(&f->offsets, f->n_attributes);
	return m->properties && m->attributes && each_string(m, NULL) && read_dialects(m);
}

bool pf_bytecode_mark_calls(struct pf_bytecode_marks *m)
{
	struct pf_span ir = m->f->section[SECTION_IR];

	return walk_block(m, &ir, 0) && ir.p == ir.end && read_properties(m) &&
	       read_targets(m);
}

bool pf_mlir_bytecode_calls(const void *bytes, size_t len,
			    const struct pf_call_visitor *found)
{
	struct pf_bytecode f;
	PF_CLEANUP(pf_bytecode_marks_release) struct pf_bytecode_marks c = { 0 };

	return pf_bytecode_open(bytes, len, &f, NULL) && pf_bytecode_mark(&c, &f) &&
	       pf_bytecode_mark_calls(&c) && each_string(&c, found);
}

/* --- the facts ------------------------------------------------------------------------------- */

bool pf_bytecode_is_token(uint8_t dialect, struct pf_span type)
{
	uint64_t code = take_number(&type);

	if (type.bad || type.p != type.end)
		return false;
	return (dialect == STABLEHLO && code == STABLEHLO_TYPE_TOKEN) ||
	       (dialect == VHLO && code == VHLO_TYPE_TOKEN);
}

static bool is_bounded(uint8_t dialect, struct pf_span type)
{
	uint64_t code = take_number(&type);

	return !type.bad && ((dialect == BUILTIN && code == TYPE_TENSOR_WITH_ENCODING) ||
			     (dialect == VHLO && code == VHLO_TYPE_TENSOR_WITH_ENCODING));
}

/* Is it a tensor with a dimension that is not fixed, and without bounds? */
static bool is_symbolic(uint8_t dialect, struct pf_span type)
{
	uint64_t code = take_number(&type), rank = take_number(&type);
	bool symbolic = false;

	if (type.bad || !((dialect == BUILTIN && code == TYPE_TENSOR) ||
			  (dialect == VHLO && code == VHLO_TYPE_TENSOR)))
		return false;
	/* The sign is the lowest bit; an unknown extent is negative. */
	for (uint64_t i = 0; i < rank && !type.bad; i++)
		symbolic |= take_number(&type) & 1;
	return symbolic && !type.bad;
}

/* Are there tokens, tensors of symbolic dimensions, or a "while" of a tensor with bounds, the only
 * encoding that StableHLO knows?  An infeed or an outfeed? */
static void read_types(const struct pf_bytecode *f, bool *tokens,
		       struct pf_program_found *found)
{
	PF_CLEANUP(pf_bytecode_marks_release) struct pf_bytecode_marks m = { 0 };
	struct pf_bytecode_cursor c = pf_bytecode_entries(f);
	struct pf_span ir = f->section[SECTION_IR];
	bool any = false;

	if (!pf_bytecode_mark(&m, f) || !(m.bounded = marks(&f->offsets, f->n_types)))
		return;
	for (uint64_t i = 0; i < m.n_operations; i++)
		found->feed |= m.operations[i] == FEED;
	for (uint64_t i = 0; !c.offsets.bad && i < f->n_attributes + f->n_types; i++) {
		struct pf_bytecode_entry entry = pf_bytecode_next(&c);
		uint8_t dialect;

		if (i < f->n_attributes || entry.dialect >= m.n_dialects || entry.text)
			continue;
		dialect = m.dialects[entry.dialect];
		*tokens |= pf_bytecode_is_token(dialect, entry.bytes);
		found->symbolic_types |= is_symbolic(dialect, entry.bytes);
		if (is_bounded(dialect, entry.bytes)) {
			m.bounded[i - f->n_attributes] = 1;
			any = true;
		}
	}
	found->dynamic_while = any && walk_block(&m, &ir, 0) && m.dynamic_while;
}

bool pf_mlir_bytecode(const void *bytes, size_t len, struct pf_program_facts *ret,
		      struct pf_program_found *found)
{
	static const char assertion[] =
		"Input shapes do not match the polymorphic shapes specification";
	struct pf_span ir, strings;
	struct pf_bytecode f;
	uint64_t attributes;
	bool symbolic;

	if (!pf_bytecode_open(bytes, len, &f, ret))
		return false;
	/* "sdy.sharding", or, in a portable artifact, "xla.sdy.sharding". */
	strings = f.section[SECTION_STRINGS];
	ret->shardy = memmem(strings.p, (size_t)(strings.end - strings.p), "sdy.", 4);
	/* For each symbolic dimension, an export asserts that the caller's shape fits. */
	symbolic = memmem(strings.p, (size_t)(strings.end - strings.p), assertion,
			  strlen(assertion));
	ret->takes_platform = has_string(&strings, "jax.global_constant") &&
			      has_string(&strings, "_platform_index");
	read_types(&f, &ret->tokens, found);
	if (f.offsets.bad || f.n_attributes > MAX_ENTRIES || f.n_types > MAX_ENTRIES)
		return symbolic;
	ir = f.section[SECTION_IR];
	/* One block without arguments, with one operation: the module. */
	if (take_number(&ir) >> 1 != 1)
		return symbolic;
	(void)take_number(&ir); /* its name */
	if (!(take_byte(&ir) & OP_HAS_ATTRIBUTES))
		return symbolic;
	(void)take_number(&ir); /* where it comes from */
	attributes = take_number(&ir);
	if (!ir.bad)
		read_dictionary(&f, attributes, ret);
	return symbolic;
}
