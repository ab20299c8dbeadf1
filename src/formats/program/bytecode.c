/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "internal.h"

/*
 * A module's integer attributes in MLIR bytecode.
 *
 * Such a file is a row of sections.  The one with the operations begins with the module,
 * whose attributes are a dictionary: one of the entries of the section of attributes,
 * which name each other and the strings by number.  Only the few entries that lead to the
 * two attributes are read.
 */

enum {
	SECTION_STRINGS = 0,
	SECTION_ATTRIBUTES = 2,
	SECTION_OFFSETS = 3,
	SECTION_IR = 4,
	SECTION_COUNT = 9,
	SECTION_ALIGNED = 0x80, /* a flag in a section's number */

	OP_HAS_ATTRIBUTES = 1, /* a flag of an operation */

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

static bool take_sections(struct bytes *b, const uint8_t *start, struct file *f)
{
	while (!b->bad && b->p < b->end) {
		uint64_t id = take_byte(b), len = take_number(b);
		uint64_t align = id & SECTION_ALIGNED ? take_number(b) : 1;
		struct bytes part;

		if (align == 0 || align > 65536)
			return false;
		(void)take_bytes(b, (align - (uint64_t)(b->p - start) % align) % align);
		part = take_bytes(b, len);
		id &= SECTION_ALIGNED - 1;
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

static bool take_header(struct bytes *b, struct pf_program_facts *ret)
{
	struct bytes producer;

	if (take_bytes(b, 4).bad)
		return false;
	(void)take_number(b); /* the version: what is read here is the same in all */
	producer = *b;
	while (take_byte(b))
		;
	producer.end = b->p;
	producer.bad = b->bad;
	read_producer(&producer, ret->stablehlo);
	return !b->bad;
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
	const uint8_t *start = bytes;
	struct bytes all = { start, start + len, false }, ir, strings;
	struct file f = { 0 };
	uint64_t attributes;
	bool symbolic;

	if (!take_header(&all, ret) || !take_sections(&all, start, &f))
		return false;
	/* "sdy.sharding", or, in a portable artifact, "xla.sdy.sharding". */
	strings = f.section[SECTION_STRINGS];
	ret->shardy = memmem(strings.p, (size_t)(strings.end - strings.p), "sdy.", 4);
	/* For each symbolic dimension, an export asserts that the caller's shape fits. */
	symbolic = memmem(strings.p, (size_t)(strings.end - strings.p), assertion,
			  strlen(assertion));
	ret->takes_platform = has_string(&strings, "jax.global_constant") &&
			      has_string(&strings, "_platform_index");
	f.offsets = f.section[SECTION_OFFSETS];
	f.n_attributes = take_number(&f.offsets);
	f.n_types = take_number(&f.offsets);
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
