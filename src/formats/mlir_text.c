/* SPDX-License-Identifier: Apache-2.0 */
/* A single pass over MLIR text. */
#include <errno.h>
#include <string.h>

#include "mlir.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* What of the text before this place matters for the next token. */
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
	struct pf_mlir_facts *facts;
	struct pf_err *err;
};

/* Dialects that people have programs in, and where those come from. */
static const struct {
	const char *dialect, *of;
} foreign[] = {
	{ "affine", "MLIR's compilers" },
	{ "bufferization", "MLIR's compilers" },
	{ "complex", "MLIR's compilers" },
	{ "emitc", "MLIR's compilers" },
	{ "flow", "IREE" },
	{ "gpu", "MLIR's compilers" },
	{ "hal", "IREE" },
	{ "iree_input", "IREE" },
	{ "krnl", "ONNX-MLIR" },
	{ "linalg", "MLIR's compilers" },
	{ "llvm", "LLVM" },
	{ "math", "MLIR's compilers" },
	{ "memref", "MLIR's compilers" },
	{ "nvvm", "LLVM" },
	{ "onnx", "ONNX-MLIR" },
	{ "rocdl", "LLVM" },
	{ "scf", "MLIR's compilers" },
	{ "spirv", "MLIR's compilers" },
	{ "stream", "IREE" },
	{ "tf", "TensorFlow" },
	{ "tf_device", "TensorFlow" },
	{ "tf_executor", "TensorFlow" },
	{ "tf_saved_model", "TensorFlow" },
	{ "tfl", "TensorFlow Lite" },
	{ "torch", "torch-mlir" },
	{ "torch_c", "torch-mlir" },
	{ "tosa", "TOSA" },
	{ "tt", "Triton" },
	{ "ttg", "Triton" },
	{ "ttir", "TT-MLIR" },
	{ "vector", "MLIR's compilers" },
	{ "vm", "IREE" },
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

/* An operation called NAME: is it one that a plugin may know? */
static int check_op(struct scan *s, const char *name, size_t len)
{
	const char *dot = memchr(name, '.', len);
	size_t n = dot ? (size_t)(dot - name) : 0;

	for (size_t i = 0; n && i < ARRAY_SIZE(foreign); i++)
		if (strlen(foreign[i].dialect) == n &&
		    memcmp(foreign[i].dialect, name, n) == 0)
			return pf_err_set(
				s->err, -EINVAL,
				"line %zu: expected StableHLO, found %.*s, which is of "
				"the dialect %s (%s): no plugin knows that; lower the "
				"program to StableHLO with the tools that made it",
				s->line, len < 80 ? (int)len : 80, name,
				foreign[i].dialect, foreign[i].of);
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

static void read_attribute(const struct scan *s, size_t n, const char *key, int64_t *ret)
{
	if (*ret == 0 && n == strlen(key) && memcmp(s->p + s->at, key, n) == 0)
		*ret = attribute(s, n);
}

/* Does the word of N bytes at the scan's place begin with WITH? */
static bool starts_with(const struct scan *s, size_t n, const char *with)
{
	return n >= strlen(with) && memcmp(s->p + s->at, with, strlen(with)) == 0;
}

/* Is the word of N bytes at the scan's place WORD? */
static bool is(const struct scan *s, size_t n, const char *word)
{
	return n == strlen(word) && starts_with(s, n, word);
}

/* Is the word of N bytes at the scan's place what JAX marks its platform argument with? */
static bool is_platform(const struct scan *s, size_t n)
{
	static const char index[] = "\"_platform_index\"";
	size_t at = is(s, n, "jax.global_constant") ? value_of(s, n) : 0;

	return at && s->len - s->at - at >= strlen(index) &&
	       memcmp(s->p + s->at + at, index, strlen(index)) == 0;
}

/* A constant whose numbers were left out when the text was printed. */
static int check_constant(struct scan *s, size_t n)
{
	static const char elided[] = "<__elided__>";

	if (!is(s, n, "dense_resource") || s->len - s->at - n < strlen(elided) ||
	    memcmp(s->p + s->at + n, elided, strlen(elided)))
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
 * comparison is no bracket, and a surplus closing one counts as none: it would be a syntax
 * error.
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

int pf_mlir_text(const char *text, size_t len, struct pf_mlir_facts *ret,
		 struct pf_err *err)
{
	struct scan s = { .p = text,
			  .len = len,
			  .line = 1,
			  .before = BEFORE_LINE,
			  .facts = ret,
			  .err = err };
	int r = 0;

	*ret = (struct pf_mlir_facts){ 0 };
	while (r == 0 && s.at < s.len)
		r = take(&s);
	return r;
}

size_t pf_mlir_arguments(const char *text, size_t len, size_t at, struct pf_slice *names,
			 size_t n)
{
	struct pf_mlir_facts facts = { 0 };
	struct scan s = { .p = text,
			  .len = len,
			  .at = at,
			  .line = 1,
			  .depth = { 1 },
			  .sum = 1,
			  .facts = &facts };
	size_t found = 0;

	/* What stands in main's own brackets, and in no others. */
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
