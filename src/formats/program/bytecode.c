/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/*
 * A module's integer attributes, and the targets of its custom calls, in MLIR bytecode.
 *
 * Such a file is a row of sections.  The one with the operations begins with the module,
 * whose attributes are a dictionary: one of the entries of the section of attributes,
 * which name each other and the strings by number.  Only the few entries that lead to the
 * two attributes are read.  The targets are strings of entries, which the operations' properties
 * name: each section marks, in one pass, what it names in the next.
 */

enum {
	SECTION_STRINGS = 0,
	SECTION_DIALECTS = 1,
	SECTION_ATTRIBUTES = 2,
	SECTION_OFFSETS = 3,
	SECTION_IR = 4,
	SECTION_PROPERTIES = 8,
	SECTION_COUNT = 9,
	SECTION_ALIGNED = 0x80, /* a flag in a section's number */

	/* Flags of an operation. */
	OP_HAS_ATTRIBUTES = 1,
	OP_HAS_RESULTS = 2,
	OP_HAS_OPERANDS = 4,
	OP_HAS_SUCCESSORS = 8,
	OP_HAS_REGIONS = 16,
	OP_HAS_USE_LISTS = 32,
	OP_HAS_PROPERTIES = 64,

	/* Those in which operations have properties; older ones have attributes only. */
	MIN_CALLS_VERSION = 5,
	MAX_CALLS_VERSION = 6,
	/* A custom call's properties, in the order of their names: the target is one of them. */
	CALL_PROPERTIES = 8,
	CALL_TARGET = 2,

	VHLO_STRING = 14, /* how vhlo begins an entry */

	/* How the builtin dialect begins an entry. */
	ATTRIBUTE_DICTIONARY = 1,
	ATTRIBUTE_STRING = 2,
	ATTRIBUTE_INTEGER = 8,
	TYPE_INTEGER = 0,

	/* Larger modules have no facts: finding an entry passes all before it. */
	MAX_ENTRIES = 1 << 22,
	MAX_STRINGS = 1 << 24,
	MAX_ATTRIBUTES = 64,
};

/* Bytes that are read from their start; once a read found too few, bad is set and all
 * reads give 0. */
struct bytes {
	const uint8_t *p, *end;
	bool bad;
};

struct file {
	const uint8_t *start;
	unsigned version;
	struct bytes section[SECTION_COUNT]; /* p is NULL: it is missing */
	uint64_t n_attributes, n_types;
	struct bytes offsets; /* of all of these, behind their numbers */
};

static const struct bytes nothing = { NULL, NULL, true };

static uint64_t take_byte(struct bytes *b)
{
	if (b->bad || b->p == b->end) {
		b->bad = true;
		return 0;
	}
	return *b->p++;
}

/* The zeros at the end of the first byte count the bytes that follow it. */
static uint64_t take_number(struct bytes *b)
{
	uint64_t first = take_byte(b), n = 0;
	unsigned more = first ? (unsigned)__builtin_ctzll(first) : 8;

	for (unsigned i = 0; i < more; i++)
		n |= take_byte(b) << (8 * i);
	if (b->bad)
		return 0;
	return first ? (n << (7 - more)) | (first >> (more + 1)) : n;
}

/* The next LEN bytes. */
static struct bytes take_bytes(struct bytes *b, uint64_t len)
{
	struct bytes part = { b->p, NULL, false };

	if (b->bad || len > (size_t)(b->end - b->p)) {
		b->bad = true;
		return nothing;
	}
	b->p += len;
	part.end = b->p;
	return part;
}

/* The next section of the file that begins at START; *ID is its number. */
static struct bytes take_section(struct bytes *b, const uint8_t *start, uint64_t *id)
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

static bool take_sections(struct bytes *b, struct file *f)
{
	while (!b->bad && b->p < b->end) {
		uint64_t id;
		struct bytes part = take_section(b, f->start, &id);

		if (part.bad || id >= SECTION_COUNT)
			return false;
		f->section[id] = part;
	}
	return !b->bad && f->section[SECTION_STRINGS].p &&
	       f->section[SECTION_ATTRIBUTES].p && f->section[SECTION_OFFSETS].p &&
	       f->section[SECTION_IR].p;
}

/* "StableHLO_v1.15.0": the version of a portable artifact; other producers give none. */
static void read_producer(const struct bytes *text, unsigned version[3])
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
static bool take_header(struct bytes *b, struct file *f, struct pf_program_facts *facts)
{
	struct bytes producer;

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

/* Find the sections of the file. */
static bool open_file(const void *bytes, size_t len, struct file *f,
		      struct pf_program_facts *facts)
{
	struct bytes all = { bytes, (const uint8_t *)bytes + len, false };

	*f = (struct file){ .start = bytes };
	if (!take_header(&all, f, facts) || !take_sections(&all, f))
		return false;
	f->offsets = f->section[SECTION_OFFSETS];
	f->n_attributes = take_number(&f->offsets);
	f->n_types = take_number(&f->offsets);
	return true;
}

/* Entry INDEX of attributes and types, in the order of the file. */
static struct bytes find_entry(const struct file *f, uint64_t index)
{
	struct bytes offsets = f->offsets, data = f->section[SECTION_ATTRIBUTES];
	uint64_t left = 0;

	/* Groups of entries of one dialect. */
	for (uint64_t i = 0; i < f->n_attributes + f->n_types && !offsets.bad; i++) {
		struct bytes entry;

		while (left == 0 && !offsets.bad) {
			(void)take_number(&offsets); /* the dialect */
			left = take_number(&offsets);
		}
		left--;
		/* With a flag: encoded by its dialect, and not as text. */
		entry = take_bytes(&data, take_number(&offsets) >> 1);
		if (i == index)
			return entry;
	}
	return nothing;
}

/* Does one of the STRINGS, which end with a NUL, end with TEXT? */
static bool has_string(const struct bytes *strings, const char *text)
{
	return memmem(strings->p, (size_t)(strings->end - strings->p), text,
		      strlen(text) + 1);
}

/* Is string INDEX the text WANT?  Lengths, with their NUL, stand in reverse order. */
static bool is_string(const struct file *f, uint64_t index, const char *want)
{
	struct bytes strings = f->section[SECTION_STRINGS], text, last;
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
static int64_t integer_of(const struct file *f, uint64_t index)
{
	struct bytes entry = find_entry(f, index), type;
	uint64_t width, n;

	if (take_number(&entry) != ATTRIBUTE_INTEGER)
		return 0;
	type = find_entry(f, f->n_attributes + take_number(&entry));
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

static void read_dictionary(const struct file *f, uint64_t index,
			    struct pf_program_facts *ret)
{
	struct bytes entry = find_entry(f, index);
	uint64_t n;

	if (take_number(&entry) != ATTRIBUTE_DICTIONARY)
		return;
	n = take_number(&entry);
	for (uint64_t i = 0; i < n && i < MAX_ATTRIBUTES && !entry.bad; i++) {
		struct bytes key = find_entry(f, take_number(&entry));
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

bool pf_mlir_bytecode(const void *bytes, size_t len, struct pf_program_facts *ret)
{
	static const char assertion[] =
		"Input shapes do not match the polymorphic shapes specification";
	struct bytes ir, strings;
	struct file f;
	uint64_t attributes;
	bool symbolic;

	if (!open_file(bytes, len, &f, ret))
		return false;
	/* "sdy.sharding", or, in a portable artifact, "xla.sdy.sharding". */
	strings = f.section[SECTION_STRINGS];
	ret->shardy = memmem(strings.p, (size_t)(strings.end - strings.p), "sdy.", 4);
	/* For each symbolic dimension, an export asserts that the caller's shape fits. */
	symbolic = memmem(strings.p, (size_t)(strings.end - strings.p), assertion,
			  strlen(assertion));
	ret->takes_platform = has_string(&strings, "jax.global_constant") &&
			      has_string(&strings, "_platform_index");
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

/* --- custom calls ---------------------------------------------------------------------------- */

/* Why a string, a dialect or an operation matters here. */
enum kind {
	OTHER,
	BUILTIN,
	VHLO,
	STABLEHLO,
	CALL,       /* a custom call of VHLO or STABLEHLO, whose properties are known */
	OTHER_CALL, /* one that is not known */
};

static const struct {
	const char *text;
	enum kind kind;
} words[] = {
	{ "builtin", BUILTIN },  { "vhlo", VHLO },           { "stablehlo", STABLEHLO },
	{ "custom_call", CALL }, { "custom_call_v1", CALL },
};

/* Owned: a byte for each string, dialect, operation's name, operation's properties, attribute. */
struct calls {
	const struct file *f;
	uint8_t *strings, *dialects, *operations; /* their enum kind */
	uint8_t *properties;                      /* 1: a custom call's */
	uint8_t *attributes;                      /* 1: a target */
	uint8_t *targets;                         /* of the strings; 1: a target */
	uint64_t n_strings, n_dialects, n_operations, n_properties;
};

static void calls_release(struct calls *c)
{
	free(c->strings);
	free(c->dialects);
	free(c->operations);
	free(c->properties);
	free(c->attributes);
	free(c->targets);
}

/* N zeros, one for each of N parts of B, which has that many bytes at least; or NULL. */
static uint8_t *marks(const struct bytes *b, uint64_t n)
{
	return b->bad || n > (size_t)(b->end - b->p) ? NULL : calloc(n + 1, 1);
}

static enum kind kind_of(const uint8_t *text, size_t len)
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
static bool each_string(struct calls *c, const struct pf_call_visitor *found)
{
	struct bytes lengths = c->f->section[SECTION_STRINGS];
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

static bool read_dialects(struct calls *c)
{
	struct bytes b = c->f->section[SECTION_DIALECTS];
	uint64_t id;

	c->n_dialects = take_number(&b);
	c->dialects = marks(&b, c->n_dialects);
	for (uint64_t i = 0; c->dialects && i < c->n_dialects; i++) {
		uint64_t name = take_number(&b);

		if (name & 1) /* it has a version */
			(void)take_section(&b, c->f->start, &id);
		if (b.bad || name >> 1 >= c->n_strings)
			return false;
		c->dialects[i] = c->strings[name >> 1];
	}
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
			enum kind kind = c->dialects[dialect];

			if (b.bad || name >= c->n_strings)
				return false;
			if (kind == VHLO || kind == STABLEHLO)
				c->operations[i] = c->strings[name];
			i++;
		}
	}
	return true;
}

static void skip_numbers(struct bytes *b, uint64_t n)
{
	while (n-- > 0 && !b->bad)
		(void)take_number(b);
}

/* The orders in which some of N values are used; of a single value nothing but its order is there. */
static void skip_use_lists(struct bytes *b, uint64_t n)
{
	for (uint64_t left = n == 1 ? 1 : take_number(b); left > 0 && !b->bad; left--) {
		if (n != 1)
			(void)take_number(b);
		skip_numbers(b, take_number(b) >> 1);
	}
}

static bool walk_regions(struct calls *c, struct bytes *b, unsigned depth);

/* One operation: note the properties of a custom call. */
static bool walk_operation(struct calls *c, struct bytes *b, unsigned depth)
{
	uint64_t name = take_number(b), flags = take_byte(b), n = 0, properties = 0;

	(void)take_number(b); /* where it comes from */
	if (flags & OP_HAS_ATTRIBUTES)
		(void)take_number(b);
	if (flags & OP_HAS_PROPERTIES)
		properties = take_number(b);
	if (flags & OP_HAS_RESULTS)
		skip_numbers(b, n = take_number(b));
	if (flags & OP_HAS_OPERANDS)
		skip_numbers(b, take_number(b));
	if (flags & OP_HAS_SUCCESSORS)
		skip_numbers(b, take_number(b));
	if (flags & OP_HAS_USE_LISTS)
		skip_use_lists(b, n);
	if (b->bad || name >= c->n_operations || c->operations[name] == OTHER_CALL)
		return false;
	if (c->operations[name] == CALL) {
		if (!(flags & OP_HAS_PROPERTIES) || properties >= c->n_properties)
			return false;
		c->properties[properties] = 1;
	}
	return !(flags & OP_HAS_REGIONS) || walk_regions(c, b, depth);
}

static bool walk_block(struct calls *c, struct bytes *b, unsigned depth)
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
static bool walk_regions(struct calls *c, struct bytes *b, unsigned depth)
{
	uint64_t n = take_number(b), id = SECTION_IR;
	bool isolated = n & 1;
	struct bytes part = isolated ? take_section(b, c->f->start, &id) : *b;

	if (depth == PF_MLIR_MAX_NESTING || id != SECTION_IR)
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
static bool read_properties(struct calls *c)
{
	struct bytes b = c->f->section[SECTION_PROPERTIES];

	if (c->n_properties)
		(void)take_number(&b);
	for (uint64_t i = 0; i < c->n_properties; i++) {
		struct bytes of_op = take_bytes(&b, take_number(&b));
		uint64_t n = 0, target = 0;

		for (; c->properties[i] && !of_op.bad && of_op.p < of_op.end; n++) {
			uint64_t attribute = take_number(&of_op);

			target = n == CALL_TARGET ? attribute : target;
		}
		if (of_op.bad || (c->properties[i] &&
				  (n != CALL_PROPERTIES || target >= c->f->n_attributes)))
			return false;
		if (c->properties[i])
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
static bool read_targets(struct calls *c)
{
	struct bytes offsets = c->f->offsets, data = c->f->section[SECTION_ATTRIBUTES];
	uint64_t left = 0, dialect = 0;

	for (uint64_t i = 0; i < c->f->n_attributes && !offsets.bad; i++) {
		struct bytes entry;
		uint64_t size, text, code;

		while (left == 0 && !offsets.bad) {
			dialect = take_number(&offsets);
			left = take_number(&offsets);
		}
		left--;
		size = take_number(&offsets);
		entry = take_bytes(&data, size >> 1);
		if (!c->attributes[i])
			continue;
		code = take_number(&entry);
		text = take_number(&entry);
		if (entry.bad || entry.p != entry.end || !(size & 1) ||
		    dialect >= c->n_dialects || text >= c->n_strings ||
		    !is_string_code(c->dialects[dialect], code))
			return false;
		c->targets[text] = 1;
	}
	return !offsets.bad;
}

bool pf_mlir_bytecode_calls(const void *bytes, size_t len,
			    const struct pf_call_visitor *found)
{
	struct file f;
	PF_CLEANUP(calls_release) struct calls c = { .f = &f };
	struct bytes ir, properties;

	if (!open_file(bytes, len, &f, NULL) || f.version < MIN_CALLS_VERSION ||
	    f.version > MAX_CALLS_VERSION || !f.section[SECTION_DIALECTS].p)
		return false;
	ir = f.section[SECTION_IR];
	properties = f.section[SECTION_PROPERTIES];
	c.n_properties = properties.p ? take_number(&properties) : 0;
	c.properties = marks(&properties, c.n_properties);
	c.attributes = marks(&f.offsets, f.n_attributes);
	return c.properties && c.attributes && each_string(&c, NULL) &&
	       read_dialects(&c) && walk_block(&c, &ir, 0) && ir.p == ir.end &&
	       read_properties(&c) && read_targets(&c) && each_string(&c, found);
}
