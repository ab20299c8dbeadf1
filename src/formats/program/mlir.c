/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

/* A single pass over MLIR text. */

/* The text before this place, as far as it matters for the next token. */
enum before {
	BEFORE_OTHER,
	BEFORE_LINE,   /* nothing but blanks on this line */
	BEFORE_VALUE,  /* "%name" or "%name:2" */
	BEFORE_ASSIGN, /* "%name =": an operation follows */
};

/* Where the scan is in main's types, whose depth of brackets is that of its name. */
enum place {
	ELSEWHERE,
	MAIN_NAMED, /* behind "@main" of its declaration */
	MAIN_TYPES,
	MAIN_ATTRIBUTES, /* behind the word, a dictionary follows */
};

struct scan {
	const char *p;
	size_t len, at, line;
	enum before before;
	enum place place;
	bool declares; /* the last word was func.func, or a visibility behind that */
	unsigned main_sum;
	unsigned depth[4], sum; /* of open brackets, each kind and all */
	struct pf_program_facts *facts;
	struct pf_err *err;
};

/* Tools that write programs which users have, and the dialects in which they do. */
static const struct {
	const char *tool, *dialects;
} foreign[] = {
	{ "IREE", "flow hal iree_input stream vm" },
	{ "LLVM", "llvm nvvm rocdl" },
	{ "MLIR's compilers",
	  "affine bufferization complex emitc gpu linalg math memref scf spirv vector" },
	{ "ONNX-MLIR", "krnl onnx" },
	{ "TOSA", "tosa" },
	{ "TT-MLIR", "ttir" },
	{ "TensorFlow", "tf tf_device tf_executor tf_saved_model" },
	{ "TensorFlow Lite", "tfl" },
	{ "Triton", "tt ttg" },
	{ "torch-mlir", "torch torch_c" },
};

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '$';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

static char peek(const struct scan *s, size_t ahead)
{
	return s->len - s->at > ahead ? s->p[s->at + ahead] : '\0';
}

static size_t word_length(const struct scan *s)
{
	size_t n = 0;

	while (is_word(peek(s, n)))
		n++;
	return n;
}

/* Is the word of N bytes at WORD one of LIST? */
static bool is_listed(const char *list, const char *word, size_t n)
{
	size_t len;

	for (; *list; list += len + (list[len] == ' ')) {
		len = strcspn(list, " ");
		if (len == n && memcmp(list, word, n) == 0)
			return true;
	}
	return false;
}

/* An operation called NAME: is it one that a plugin may know? */
static int check_op(struct scan *s, const char *name, size_t len)
{
	const char *dot = memchr(name, '.', len);
	size_t n = dot ? (size_t)(dot - name) : 0;

	for (size_t i = 0; n && i < PF_ARRAY_SIZE(foreign); i++)
		if (is_listed(foreign[i].dialects, name, n))
			return pf_err_set(
				s->err, -EINVAL,
				"line %zu: expected StableHLO, found %.*s, which is of "
				"the dialect %.*s (%s): no plugin knows that; lower the "
				"program to StableHLO with the tools that made it",
				s->line, len < 80 ? (int)len : 80, name, (int)n, name,
				foreign[i].tool);
	return 0;
}

/* How far the value is behind "KEY =", where KEY is N bytes at the scan's place; 0: none. */
static size_t value_of(const struct scan *s, size_t n)
{
	while (is_space(peek(s, n)))
		n++;
	if (peek(s, n) != '=')
		return 0;
	n++;
	while (is_space(peek(s, n)))
		n++;
	return n;
}

/* The number that is this value; 0: none. */
static int64_t attribute(const struct scan *s, size_t n)
{
	int64_t value = 0;

	n = value_of(s, n);
	for (; n && is_digit(peek(s, n)); n++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, peek(s, n) - '0', &value))
			return 0;
	return value;
}

/* Does TEXT stand N bytes behind the scan's place? */
static bool is_at(const struct scan *s, size_t n, const char *text)
{
	return s->len - s->at - n >= strlen(text) &&
	       memcmp(s->p + s->at + n, text, strlen(text)) == 0;
}

/* Does the word of N bytes at the scan's place begin with WITH? */
static bool starts_with(const struct scan *s, size_t n, const char *with)
{
	return n >= strlen(with) && is_at(s, 0, with);
}

/* Is the word of N bytes at the scan's place WORD? */
static bool is(const struct scan *s, size_t n, const char *word)
{
	return n == strlen(word) && is_at(s, 0, word);
}

static void read_attribute(const struct scan *s, size_t n, const char *key, int64_t *ret)
{
	if (*ret == 0 && is(s, n, key))
		*ret = attribute(s, n);
}

/* Is the word of N bytes at the scan's place JAX's mark of its platform argument? */
static bool is_platform(const struct scan *s, size_t n)
{
	size_t at = is(s, n, "jax.global_constant") ? value_of(s, n) : 0;

	return at && is_at(s, at, "\"_platform_index\"");
}

/* A constant whose numbers were left out when the text was printed. */
static int check_constant(struct scan *s, size_t n)
{
	if (!is(s, n, "dense_resource") || !is_at(s, n, "<__elided__>"))
		return 0;
	return pf_err_set(
		s->err, -EINVAL,
		"line %zu: expected the numbers of a constant, found "
		"dense_resource<__elided__>: they were left out when the program "
		"was printed; print it without a limit, or write its bytecode "
		"(.mlirbc)",
		s->line);
}

/* A dimension of main's types that is not fixed. */
static int check_dimension(struct scan *s)
{
	if (s->place != MAIN_TYPES || !s->depth[3])
		return 0;
	return pf_err_set(s->err, -EINVAL,
			  "line %zu: expected fixed shapes, found a dimension of main's "
			  "types as \"?\": export the function with numbers for its "
			  "symbolic dimensions",
			  s->line);
}

/* The name of a function: is it main's declaration? */
static void take_symbol(struct scan *s)
{
	size_t n;

	s->at++;
	n = word_length(s);
	if (s->declares && is(s, n, "main") && !s->facts->arguments) {
		s->place = MAIN_NAMED;
		s->main_sum = s->sum;
	}
	s->at += n;
	s->before = BEFORE_OTHER;
}

/* A bracket, C, opens at the depth of main's name. */
static void enter(struct scan *s, char c)
{
	if (s->place == MAIN_NAMED && c == '(') {
		s->facts->arguments = s->at;
		s->place = MAIN_TYPES;
	} else if (c == '{') {
		s->place = s->place == MAIN_ATTRIBUTES ? MAIN_TYPES : ELSEWHERE;
	}
}

static int take_word(struct scan *s)
{
	size_t n = word_length(s);
	int r = 0;

	if (s->before == BEFORE_ASSIGN)
		r = check_op(s, s->p + s->at, n);
	if (r == 0)
		r = check_constant(s, n);
	if (r == 0 && s->at && s->p[s->at - 1] == '!' && starts_with(s, n, "quant."))
		r = pf_err_set(
			s->err, -EINVAL,
			"line %zu: expected types of numbers, found !%.*s: plugins "
			"know no quantized types; lower them to integers "
			"(stablehlo-opt --stablehlo-legalize-quant-to-math)",
			s->line, n < 80 ? (int)n : 80, s->p + s->at);
	s->declares = is(s, n, "func.func") || is(s, n, "func") ||
		      (s->declares && (is(s, n, "public") || is(s, n, "private")));
	if (s->place == MAIN_TYPES && s->sum == s->main_sum && is(s, n, "attributes"))
		s->place = MAIN_ATTRIBUTES;
	if (s->p[s->at] == 'm') {
		read_attribute(s, n, "mhlo.num_replicas", &s->facts->num_replicas);
		read_attribute(s, n, "mhlo.num_partitions", &s->facts->num_partitions);
	}
	if (is_platform(s, n))
		s->facts->takes_platform = true;
	if (starts_with(s, n, "sdy.") || starts_with(s, n, "xla.sdy."))
		s->facts->shardy = true;
	s->at += n;
	s->before = BEFORE_OTHER;
	return r;
}

/* The generic form of an operation is its name in quotes, and its operands. */
static int take_string(struct scan *s)
{
	size_t start = ++s->at, n;
	int r = 0;

	while (s->at < s->len && s->p[s->at] != '"' && s->p[s->at] != '\n') {
		/* Strings end at the end of the line at the latest. */
		if (s->p[s->at] == '\\' && s->at + 1 < s->len && s->p[s->at + 1] != '\n')
			s->at++;
		s->at++;
	}
	n = s->at - start;
	if (peek(s, 0) == '"')
		s->at++;
	if ((s->before == BEFORE_ASSIGN || s->before == BEFORE_LINE) && peek(s, 0) == '(')
		r = check_op(s, s->p + start, n);
	s->before = BEFORE_OTHER;
	return r;
}

static void take_value(struct scan *s)
{
	s->at++;
	s->at += word_length(s);
	if (peek(s, 0) == ':' && is_digit(peek(s, 1))) {
		s->at++;
		s->at += word_length(s);
	}
	s->before = BEFORE_VALUE;
}

/*
 * A bracket, or anything else.  Each kind is counted for itself, since an arrow or a
 * comparison is not a bracket, and a surplus closing one counts as none: it would be a
 * syntax error.
 */
static int take_other(struct scan *s)
{
	static const char open[] = "([{<", close[] = ")]}>";
	char c = s->p[s->at++];
	const char *kind;

	s->before = c == '=' && s->before == BEFORE_VALUE ? BEFORE_ASSIGN : BEFORE_OTHER;
	if (!c || (c == '>' && s->at > 1 && s->p[s->at - 2] == '-'))
		return 0;
	if (c == '?')
		return check_dimension(s);
	if ((kind = strchr(open, c))) {
		if (s->place != ELSEWHERE && s->sum == s->main_sum)
			enter(s, c);
		s->depth[kind - open]++;
		if (++s->sum > PF_MLIR_MAX_NESTING)
			return pf_err_set(s->err, -EINVAL,
					  "line %zu: brackets are nested deeper than "
					  "%d: plugins overflow their stack on that",
					  s->line, PF_MLIR_MAX_NESTING);
	} else if ((kind = strchr(close, c)) && s->depth[kind - close]) {
		s->depth[kind - close]--;
		s->sum--;
	}
	return 0;
}

static int take(struct scan *s)
{
	char c = s->p[s->at];

	if (c == '\n') {
		s->at++;
		s->line++;
		/* The name of an operation may stand on the next line. */
		if (s->before == BEFORE_OTHER)
			s->before = BEFORE_LINE;
		return 0;
	}
	if (is_space(c)) {
		s->at++;
		return 0;
	}
	if (c == '/' && peek(s, 1) == '/') {
		const char *end = memchr(s->p + s->at, '\n', s->len - s->at);

		s->at = end ? (size_t)(end - s->p) : s->len;
		return 0;
	}
	if (c == '"')
		return take_string(s);
	if (c == '%') {
		take_value(s);
		return 0;
	}
	if (c == '@') {
		take_symbol(s);
		return 0;
	}
	return is_word(c) ? take_word(s) : take_other(s);
}

int pf_mlir_text(const char *text, size_t len, struct pf_program_facts *ret,
		 struct pf_err *err)
{
	struct scan s = { .p = text,
			  .len = len,
			  .line = 1,
			  .before = BEFORE_LINE,
			  .facts = ret,
			  .err = err };
	int r = 0;

	while (r == 0 && s.at < s.len)
		r = take(&s);
	return r;
}

size_t pf_mlir_arguments(const char *text, size_t len, size_t at, struct pf_slice *names,
			 size_t n)
{
	struct pf_program_facts facts = { 0 };
	struct scan s = { .p = text,
			  .len = len,
			  .at = at,
			  .line = 1,
			  .depth = { 1 },
			  .sum = 1,
			  .facts = &facts };
	size_t found = 0;

	/* Only in main's own brackets, and in no inner ones. */
	while (s.sum && s.at < len) {
		size_t start = s.at + 1;
		bool argument = text[s.at] == '%' && s.sum == 1;

		if (take(&s) < 0)
			break;
		if (argument && found < n)
			names[found] = (struct pf_slice){ (const uint8_t *)text + start,
							  s.at - start };
		found += argument;
	}
	return found;
}

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
