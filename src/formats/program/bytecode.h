/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_FORMATS_PROGRAM_BYTECODE_H
#define PJRTFS_FORMATS_PROGRAM_BYTECODE_H

#include "internal.h"

/* Reading MLIR bytecode in place, and writing it as edits of a file; used by bytecode*.c only. */

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

	/* How the builtin dialect begins an entry. */
	ATTRIBUTE_ARRAY = 0,
	ATTRIBUTE_DICTIONARY = 1,
	ATTRIBUTE_STRING = 2,
	ATTRIBUTE_SYMBOL = 4,
	ATTRIBUTE_TYPE = 6,
	ATTRIBUTE_INTEGER = 8,
	TYPE_INTEGER = 0,
	TYPE_FUNCTION = 2,
	TYPE_COMPLEX = 9,
	TYPE_TENSOR = 13,
	TYPE_TENSOR_WITH_ENCODING = 14,

	/* How vhlo does. */
	VHLO_ARRAY = 1,
	VHLO_BOOLEAN = 2,
	VHLO_DICTIONARY = 6,
	VHLO_INTEGER = 9,
	VHLO_STRING = 14,
	VHLO_TYPE = 17,
	VHLO_TYPE_COMPLEX = 1,
	VHLO_TYPE_FUNCTION = 8,
	VHLO_TYPE_TENSOR = 20,
	VHLO_TYPE_TENSOR_WITH_ENCODING = 21,
	VHLO_TYPE_TOKEN = 22,

	STABLEHLO_TYPE_TOKEN = 0,

	/* Marks of properties: what kinds of operations have them. */
	OF_CALL = 1,
	OF_CALL_V2 = 2,
	OF_OTHERS = 4,

	/* Larger modules have no facts: finding an entry passes all before it. */
	MAX_ENTRIES = 1 << 22,
	MAX_STRINGS = 1 << 24,
	MAX_ATTRIBUTES = 64, /* of one dictionary */
};

/* Bytes that are read from their start; once a read found too few, bad is set and all
 * reads give 0. */
struct pf_span {
	const uint8_t *p, *end;
	bool bad;
};

static inline uint64_t take_byte(struct pf_span *b)
{
	if (b->bad || b->p == b->end) {
		b->bad = true;
		return 0;
	}
	return *b->p++;
}

/* The zeros at the end of the first byte count the bytes that follow it. */
static inline uint64_t take_number(struct pf_span *b)
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
static inline struct pf_span take_bytes(struct pf_span *b, uint64_t len)
{
	struct pf_span part = { b->p, NULL, false };

	if (b->bad || len > (size_t)(b->end - b->p)) {
		b->bad = true;
		return (struct pf_span){ .bad = true };
	}
	b->p += len;
	part.end = b->p;
	return part;
}

/* A file of bytecode. */
struct pf_bytecode {
	const uint8_t *start;
	unsigned version;
	struct pf_span sections;               /* all, one after another */
	struct pf_span section[SECTION_COUNT]; /* p is NULL: it is missing */
	uint64_t n_attributes, n_types;
	struct pf_span offsets; /* of all of these, behind their numbers */
};

/* Find the sections of the file.  FACTS, which may be NULL, get the version of StableHLO. */
bool pf_bytecode_open(const void *bytes, size_t len, struct pf_bytecode *f,
		      struct pf_program_facts *facts);

/* The next section of the file that begins at START; *ID is its number. */
struct pf_span pf_bytecode_section(struct pf_span *b, const uint8_t *start, uint64_t *id);

/* Going through the attributes, and the types behind them. */
struct pf_bytecode_cursor {
	struct pf_span offsets, data;
	uint64_t left, dialect; /* entries of one dialect stand together */
};

struct pf_bytecode_entry {
	struct pf_span bytes;
	uint64_t dialect;
	bool text; /* it is not encoded by its dialect */
};

struct pf_bytecode_cursor pf_bytecode_entries(const struct pf_bytecode *f);

/* The next entry, whose bytes are bad behind the last one. */
struct pf_bytecode_entry pf_bytecode_next(struct pf_bytecode_cursor *c);

/* Entry INDEX of F, whose bytes are bad if there is none.  It passes all before it. */
struct pf_bytecode_entry pf_bytecode_find(const struct pf_bytecode *f, uint64_t index);

/* Why a string, a dialect or an operation matters here. */
enum pf_bytecode_kind {
	OTHER,
	BUILTIN,
	FUNC, /* the dialect, and its operation */
	VHLO,
	STABLEHLO,
	FUNCTION,   /* an operation of VHLO */
	CALL,       /* a custom call of VHLO or STABLEHLO, whose properties are known */
	CALL_V2,    /* one of VHLO with "result_tilings" behind these */
	OTHER_CALL, /* one that is not known */
	MAIN,       /* a string */
	WHILE,      /* an operation of VHLO or STABLEHLO */
	FEED,       /* infeed or outfeed of either */
	ALIASING,   /* a string: of an argument, the result whose memory it gives */
	DONOR,      /* likewise, whether it gives its memory to any */
};

/* Owned: a byte for each string, dialect, operation's name, operation's properties, attribute. */
struct pf_bytecode_marks {
	const struct pf_bytecode *f;
	uint8_t *strings, *dialects, *operations; /* their enum pf_bytecode_kind */
	uint8_t *properties;                      /* OF_CALL, OF_CALL_V2, OF_OTHERS */
	uint8_t *attributes;                      /* 1: a target */
	uint8_t *targets;                         /* of the strings; 1: a target */
	uint8_t *bounded;   /* of the types, or NULL; 1: a tensor with bounds */
	bool dynamic_while; /* with these: there is a "while" of one such value */
	uint64_t n_strings, n_dialects, n_operations, n_properties;
	struct pf_span names; /* of operations; from their number on */
};

/*
 * Set M's kinds, and make room for its other marks, which are 0.  False: F has a version in which
 * operations have no properties, or is malformed, or no memory is left.
 */
bool pf_bytecode_mark(struct pf_bytecode_marks *m, const struct pf_bytecode *f);

void pf_bytecode_marks_release(struct pf_bytecode_marks *m);

/* Is this entry of DIALECT, a kind, the type of a token? */
bool pf_bytecode_is_token(uint8_t dialect, struct pf_span type);

/* The head of an operation; what it has not is 0. */
struct pf_bytecode_operation {
	uint64_t name, flags, location, attributes, properties;
	uint64_t n_results, result; /* the type of the first one */
};

bool pf_bytecode_operation(const struct pf_bytecode_marks *m, struct pf_span *b,
			   struct pf_bytecode_operation *ret);

/* Step over the regions of an operation, and mark the properties of the operations in them. */
bool pf_bytecode_regions(struct pf_bytecode_marks *m, struct pf_span *b, unsigned depth);

/* How the dialect of main is written. */
struct pf_bytecode_form {
	uint8_t values;            /* the dialect of types and of values of attributes */
	uint8_t functions, tokens; /* those of operations */
	uint64_t array, boolean, dictionary, integer, string, symbol, type;
	uint64_t complex, function, tensor; /* of types */
	const char *call, *ret, *create;
};

extern const struct pf_bytecode_form pf_bytecode_of_func, pf_bytecode_of_vhlo;

/* An attribute or a type of the file. */
struct pf_bytecode_item {
	const uint8_t *p;
	uint32_t len;
	uint8_t dialect; /* its kind; OTHER: also one that is not encoded by its dialect */
	bool text;       /* it is a text, with its NUL */
};

/* An argument or a result of main. */
struct pf_bytecode_part {
	uint64_t type;
	uint64_t number;         /* among those that are not tokens */
	struct pf_span argument; /* of the block: the type and a location */
	bool token;
};

struct pf_bytecode_parts {
	struct pf_bytecode_part *all; /* owned */
	uint64_t n, n_arrays;
};

/* An attribute that is not there. */
#define PF_BYTECODE_NONE UINT64_MAX

struct pf_bytecode_function {
	const uint8_t *head, *head_end; /* of the operation, up to its regions */
	struct pf_bytecode_operation op;
	bool isolated;
	uint64_t type, name, visibility, argument_attributes,
		result_attributes; /* or PF_BYTECODE_NONE */
	struct pf_bytecode_parts arguments, results;
};

/* A file whose main has been read. */
struct pf_bytecode_main {
	struct pf_bytecode f;
	struct pf_bytecode_marks marks;
	struct pf_bytecode_item *items; /* owned; the attributes, then the types */
	const struct pf_bytecode_form *form;
	struct pf_bytecode_function main;
	/* Where the attributes end, then the types, and what describes them. */
	const uint8_t *attributes_end, *attributes_groups_end;
	const uint8_t *types_end, *types_groups_end;
	/* The functions of the module: how many they are, and the section that they are in. */
	struct pf_span count, functions;
	const uint8_t *functions_head;
	uint64_t values;            /* of the module */
	struct pf_span *properties; /* owned */
	bool marked;                /* pf_bytecode_mark succeeded */
	bool no_memory;
};

/*
 * Read the main of LEN BYTES into *RET, which the caller releases in any case.  False: it is not
 * understood, or the file has a version without properties, or no_memory.  (bytecode_main.c)
 */
bool pf_bytecode_main_read(const void *bytes, size_t len, struct pf_bytecode_main *ret);

void pf_bytecode_main_release(struct pf_bytecode_main *m);

/* Item INDEX behind CODE, with which DIALECT begins such ones; bad: it is none. */
struct pf_span pf_bytecode_item(const struct pf_bytecode_main *m, uint64_t index,
				uint8_t dialect, uint64_t code);

/* Attribute INDEX behind CODE, with which main's dialect begins such ones; bad: it is none. */
struct pf_span pf_bytecode_attribute(const struct pf_bytecode_main *m, uint64_t index,
				     uint64_t code);

/* The kind of the string that attribute INDEX is. */
enum pf_bytecode_kind pf_bytecode_string_kind(const struct pf_bytecode_main *m,
					      uint64_t index);

/*
 * Mark the properties of all operations, and the targets of the custom calls.  False: the file is
 * malformed, or has a custom call whose properties are not known.
 */
bool pf_bytecode_mark_calls(struct pf_bytecode_marks *m);

/* Edits of a file that is being rewritten. */
struct pf_bytecode_editor {
	const struct pf_bytecode *f;
	const uint8_t
		*whole; /* what the edits count from: F's bytes may stand in others */
	struct pf_program_edits *to;
	bool bad; /* the file is not understood */
};

/* Append a number, as take_number reads it, or a byte. */
void pf_bytecode_put(struct pf_buf *out, uint64_t n);
void pf_bytecode_put_byte(struct pf_buf *out, unsigned byte);

/* Put DROP bytes at AT out of the file, and NEW in their place. */
void pf_bytecode_edit(struct pf_bytecode_editor *e, const uint8_t *at, size_t drop,
		      const struct pf_buf *new);

/* How many bytes the edits from one place to another add, less those that they drop. */
size_t pf_bytecode_growth(const struct pf_bytecode_editor *e, const uint8_t *from,
			  const uint8_t *to);

/*
 * All edits of the sections' contents are there: add those of the sections' heads, and those that
 * leave of the LEN bytes of the whole nothing but the file, which FACTS name; they become those of
 * the edited file.  False: FACTS stay, and the edits are of no use, since the file is not
 * understood.  True and E->to->list.failed: no memory was left.
 */
bool pf_bytecode_edit_end(struct pf_bytecode_editor *e, struct pf_program_facts *facts,
			  size_t len);

#endif
