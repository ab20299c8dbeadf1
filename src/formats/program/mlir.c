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
	bool declares;      /* the last word was func.func, or a visibility behind that */
	size_t declared_at; /* where that func.func is */
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

/* Of what follows a '%' or '@': the suffix-id of MLIR's language reference. */
static size_t name_length(const struct scan *s)
{
	size_t n = 0;

	while (is_word(peek(s, n)) || peek(s, n) == '-')
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

/* An operation called NAME: is it one that a plugin may know, and that can end? */
static int check_op(struct scan *s, const char *name, size_t len)
{
	const char *dot = memchr(name, '.', len);
	size_t n = dot ? (size_t)(dot - name) : 0;

	if (is_listed("stablehlo.infeed stablehlo.outfeed", name, len))
		return pf_mlir_feed(s->line, s->err);
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

/*
 * A "while" of one value, whose operands begin N bytes behind the scan's place, and whose type ends at
 * END: what follows it in text, or, in the generic form, the arguments of its first block.
 */
static int check_while(struct scan *s, size_t n, const char *end)
{
	enum { MOST = 4096 }; /* bytes that are looked at: types are short */
	size_t left = s->len - s->at - n;
	const char *p = s->p + s->at + n, *close, *of_type;

	left = left < MOST ? left : MOST;
	close = left && *p == '(' ? memchr(p, ')', left) : NULL;
	if (!close || memchr(p, ',', (size_t)(close - p)))
		return 0;
	left -= (size_t)(close - p);
	of_type = memmem(close, left, end, strlen(end));
	if (!of_type || !memchr(close, '?', (size_t)(of_type - close)))
		return 0;
	return pf_mlir_dynamic_while(s->line, s->err);
}

/* An operation in LINE of text (0: it is not a text) is refused for WHAT. */
static int refuse_operation(size_t line, const char *what, struct pf_err *err)
{
	return line ? pf_err_set(err, -EINVAL, "line %zu: %s", line, what)
		    : pf_err_set(err, -EINVAL, "%s", what);
}

int pf_mlir_feed(size_t line, struct pf_err *err)
{
	return refuse_operation(
		line,
		"expected arrays that are inputs and results, found an infeed or an "
		"outfeed: nothing feeds a device here, and the program would wait for "
		"ever; pass the array as an input, or return it as a result",
		err);
}

int pf_mlir_dynamic_while(size_t line, struct pf_err *err)
{
	return refuse_operation(
		line,
		"expected a \"while\" of fixed shapes or of several values, found "
		"one whose only value has a bounded dynamic dimension: XLA aborts "
		"on that; give it a second value, such as a counter",
		err);
}

/* A dimension of main's types that is not fixed. */
static int check_dimension(struct scan *s)
{
	if (s->place != MAIN_TYPES || !s->depth[3])
		return 0;
	return pf_err_set(s->err, -EINVAL,
			  "line %zu: expected fixed shapes, found a dimension of main's "
			  "types as \"?\": " PF_GIVE_NUMBERS,
			  s->line);
}

/* The name of a function: is it main's declaration? */
static void take_symbol(struct scan *s)
{
	size_t n;

	s->at++;
	n = name_length(s);
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
		s->facts->main = s->declared_at;
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
	if (r == 0 && s->before == BEFORE_ASSIGN && is(s, n, "stablehlo.while"))
		r = check_while(s, n, "cond");
	if (r == 0 && s->at && s->p[s->at - 1] == '!' && starts_with(s, n, "quant."))
		r = pf_err_set(
			s->err, -EINVAL,
			"line %zu: expected types of numbers, found !%.*s: plugins "
			"know no quantized types; lower them to integers "
			"(stablehlo-opt --stablehlo-legalize-quant-to-math)",
			s->line, n < 80 ? (int)n : 80, s->p + s->at);
	if (is(s, n, "func.func") || is(s, n, "func")) {
		s->declares = true;
		s->declared_at = s->at;
	} else if (!is(s, n, "public") && !is(s, n, "private")) {
		s->declares = false;
	}
	if (s->place == MAIN_TYPES && is(s, n, "stablehlo.token"))
		s->facts->tokens = true;
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
	if (r == 0 && s->before == BEFORE_ASSIGN &&
	    is_listed("stablehlo.while", s->p + start, n))
		r = check_while(s, 0, "):");
	s->before = BEFORE_OTHER;
	return r;
}

static void take_value(struct scan *s)
{
	s->at++;
	s->at += name_length(s);
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

bool pf_mlir_ui64(const char *text, size_t len, const char *key, uint64_t *ret)
{
	struct pf_program_facts facts = { 0 };
	struct scan s = { .p = text, .len = len, .line = 1, .facts = &facts };
	size_t n = 0;

	/* Only in the dictionary itself, and in no inner one. */
	while (s.at < len) {
		n = s.sum == 1 && is(&s, word_length(&s), key) ? value_of(&s, strlen(key))
							       : 0;
		if (n || take(&s) < 0)
			break;
	}
	if (!n || !is_digit(peek(&s, n)))
		return false;
	for (*ret = 0; is_digit(peek(&s, n)); n++)
		if (__builtin_mul_overflow(*ret, 10, ret) ||
		    __builtin_add_overflow(*ret, (uint64_t)(peek(&s, n) - '0'), ret))
			return false;
	return is_at(&s, n, " : ui64");
}

/*
 * Tokens of main.
 *
 * JAX orders effects by tokens, which main takes and returns; plugins execute only programs of
 * arrays.  So another main calls it, with a token that it creates.
 */

/* An argument or a result of main. */
struct part {
	struct pf_slice name; /* "%x"; a result has none */
	struct pf_slice type;
	struct pf_slice rest; /* attributes and location */
	size_t number;        /* among those that are not tokens */
	bool token;
};

struct declaration {
	struct pf_buf arguments, results; /* of struct part */
	struct pf_slice attributes;       /* with the word; or none */
	size_t body;
};

static void declaration_release(struct declaration *d)
{
	pf_buf_release(&d->arguments);
	pf_buf_release(&d->results);
}

static void skip_blanks(struct scan *s)
{
	while (s->at < s->len &&
	       (s->p[s->at] == '\n' || is_space(s->p[s->at]) || is_at(s, 0, "//")))
		(void)take(s);
}

/* Take a word, a string or a sign, and the blanks behind it; where it ends. */
static size_t step(struct scan *s)
{
	size_t end;

	(void)take(s);
	end = s->at;
	skip_blanks(s);
	return end;
}

static struct pf_slice slice(const struct scan *s, size_t start, size_t end)
{
	return (struct pf_slice){ (const uint8_t *)s->p + start, end - start };
}

static size_t count(const struct pf_buf *parts)
{
	return parts->len / sizeof(struct part);
}

static const struct part *nth(const struct pf_buf *parts, size_t i)
{
	return &((const struct part *)(const void *)parts->data)[i];
}

/* How many of PARTS are not tokens. */
static size_t count_arrays(const struct pf_buf *parts)
{
	const struct part *last = count(parts) ? nth(parts, count(parts) - 1) : NULL;

	return last ? last->number + !last->token : 0;
}

/* Does a part end at the scan's place, where SUM brackets are open around it?  BARE: it is a result
 * without brackets around it. */
static bool ends_part(const struct scan *s, unsigned sum, bool bare)
{
	char c = peek(s, 0);

	if (s->at == s->len || s->sum != sum)
		return s->at == s->len;
	if (bare)
		return c == '{' || is(s, word_length(s), "attributes");
	return c == ',' || c == ')';
}

static bool take_part(struct scan *s, bool named, bool bare, struct pf_buf *parts)
{
	struct part part = { .number = count_arrays(parts) };
	size_t start = s->at, end = s->at;
	unsigned sum = s->sum;

	if (named) {
		if (peek(s, 0) != '%')
			return false;
		part.name = slice(s, start, step(s));
		if (peek(s, 0) != ':')
			return false;
		(void)step(s);
	}
	for (start = end = s->at; !ends_part(s, sum, bare); end = step(s))
		if (s->sum == sum && (peek(s, 0) == '{' || is(s, word_length(s), "loc")))
			break;
	part.type = slice(s, start, end);
	for (start = end = s->at; !ends_part(s, sum, bare);)
		end = step(s);
	part.rest = slice(s, start, end);
	part.token = pf_slice_is(part.type, "!stablehlo.token");
	pf_buf_append(parts, &part, sizeof(part));
	return part.type.len && s->at < s->len;
}

/* Parts up to the closing bracket, whose opening one has been taken. */
static bool take_parts(struct scan *s, bool named, struct pf_buf *parts)
{
	skip_blanks(s);
	while (peek(s, 0) != ')') {
		if (parts->len > PF_MLIR_MAX_DECLARATION ||
		    !take_part(s, named, false, parts))
			return false;
		if (peek(s, 0) == ',')
			(void)step(s);
	}
	(void)step(s);
	return true;
}

static bool take_results(struct scan *s, struct pf_buf *parts)
{
	if (!is_at(s, 0, "->"))
		return true;
	(void)step(s);
	(void)step(s);
	if (peek(s, 0) != '(')
		return take_part(s, false, true, parts);
	(void)step(s);
	return take_parts(s, false, parts);
}

/* Main's declaration, from its arguments on.  False: it is not understood, or has no body. */
static bool take_declaration(struct scan *s, struct declaration *ret)
{
	size_t start, end;

	if (!take_parts(s, true, &ret->arguments) || !take_results(s, &ret->results))
		return false;
	start = end = s->at;
	if (is(s, word_length(s), "attributes")) {
		unsigned sum = s->sum;

		do
			end = step(s);
		while (s->at < s->len && (s->sum != sum || s->p[end - 1] != '}'));
	}
	ret->attributes = slice(s, start, end);
	ret->body = s->at;
	return peek(s, 0) == '{' && !ret->arguments.failed && !ret->results.failed;
}

static void put(struct pf_buf *out, struct pf_slice text)
{
	pf_buf_append(out, text.p, text.len);
}

/* The attributes of an argument: the result that it aliases is counted without tokens. */
static void put_rest(struct pf_buf *out, const struct pf_slice *rest,
		     const struct pf_buf *results)
{
	struct pf_program_facts facts = { 0 };
	struct scan s = { .p = (const char *)rest->p, .len = rest->len, .facts = &facts };
	size_t from = 0;

	while (s.at < s.len) {
		size_t n = word_length(&s);
		size_t value = is(&s, n, "tf.aliasing_output") ? value_of(&s, n) : 0;
		size_t number;

		if (!value || !is_digit(peek(&s, value))) {
			(void)take(&s);
			continue;
		}
		number = (size_t)attribute(&s, n);
		if (number < count(results))
			number = nth(results, number)->number;
		put(out, slice(&s, from, s.at + value));
		pf_buf_printf(out, "%zu", number);
		s.at += value;
		s.at += word_length(&s);
		from = s.at;
	}
	put(out, slice(&s, from, s.len));
}

enum what {
	TYPES,  /* all: "tensor<f32>, !stablehlo.token" */
	NAMED,  /* all: "%x: tensor<f32>" */
	ARRAYS, /* all but tokens, with all that belongs to them */
	ARRAY_TYPES,
};

static void put_parts(struct pf_buf *out, const struct declaration *d,
		      const struct pf_buf *parts, enum what what)
{
	const char *separator = "";

	for (size_t i = 0; i < count(parts); i++) {
		const struct part *part = nth(parts, i);

		if (part->token && (what == ARRAYS || what == ARRAY_TYPES))
			continue;
		pf_buf_puts(out, separator);
		separator = ", ";
		if (part->name.len && (what == NAMED || what == ARRAYS)) {
			put(out, part->name);
			pf_buf_puts(out, ": ");
		}
		put(out, part->type);
		if (what == ARRAYS && part->rest.len) {
			pf_buf_puts(out, " ");
			put_rest(out, &part->rest, &d->results);
		}
	}
}

/* The body of the new main, which calls the program's under its new NAME. */
static void put_body(struct pf_buf *out, const struct declaration *d, const char *name)
{
	size_t n = count(&d->arguments), n_results = count(&d->results);
	const char *separator = " ";

	if (count_arrays(&d->arguments) < n)
		pf_buf_printf(out,
			      "%%%s_token = stablehlo.create_token : !stablehlo.token ",
			      name);
	if (n_results)
		pf_buf_printf(out, "%%%s:%zu = ", name, n_results);
	pf_buf_printf(out, "func.call @%s(", name);
	for (size_t i = 0; i < n; i++) {
		pf_buf_puts(out, i ? ", " : "");
		if (nth(&d->arguments, i)->token)
			pf_buf_printf(out, "%%%s_token", name);
		else
			put(out, nth(&d->arguments, i)->name);
	}
	pf_buf_puts(out, ") : (");
	put_parts(out, d, &d->arguments, TYPES);
	pf_buf_puts(out, ") -> (");
	put_parts(out, d, &d->results, TYPES);
	pf_buf_puts(out, ") func.return");
	for (size_t i = 0; i < n_results; i++) {
		if (nth(&d->results, i)->token)
			continue;
		pf_buf_printf(out, "%s%%%s#%zu", separator, name, i);
		separator = ", ";
	}
	if (count_arrays(&d->results))
		pf_buf_puts(out, " : ");
	put_parts(out, d, &d->results, ARRAY_TYPES);
}

bool pf_mlir_free_name(const char *text, size_t len, char name[PF_MLIR_FREE_NAME])
{
	for (unsigned i = 0; i < 16; i++) {
		snprintf(name, PF_MLIR_FREE_NAME, "main_with_tokens_%u", i);
		if (!memmem(text, len, name, strlen(name)))
			return true;
	}
	return false;
}

bool pf_mlir_drop_tokens(struct pf_program_facts *facts, const void *bytes, size_t len,
			 struct pf_program_edits *edits)
{
	static const char begin[] = "func.func public @main(";
	PF_CLEANUP(declaration_release) struct declaration d = { 0 };
	struct pf_program_facts ignored = { 0 };
	struct scan s = { .p = bytes,
			  .len = len,
			  .at = facts->arguments,
			  .depth = { 1 },
			  .sum = 1,
			  .facts = &ignored };
	struct pf_buf *head = &edits->bytes;
	struct pf_program_edit edit = { .at = facts->main };
	char name[PF_MLIR_FREE_NAME];

	if (!take_declaration(&s, &d) || d.body - facts->main > PF_MLIR_MAX_DECLARATION ||
	    !pf_mlir_free_name(bytes, len, name))
		return false;
	/* In one line, so that the body stays in the line that it is in, as JAX writes it. */
	pf_buf_puts(head, begin);
	put_parts(head, &d, &d.arguments, ARRAYS);
	pf_buf_puts(head, ") -> (");
	put_parts(head, &d, &d.results, ARRAYS);
	pf_buf_puts(head, ") ");
	put(head, d.attributes);
	pf_buf_puts(head, " { ");
	put_body(head, &d, name);
	pf_buf_printf(head, " } func.func private @%s(", name);
	put_parts(head, &d, &d.arguments, NAMED);
	pf_buf_puts(head, ") -> (");
	put_parts(head, &d, &d.results, TYPES);
	pf_buf_puts(head, ") ");
	edit.drop = d.body - facts->main;
	edit.len = head->len;
	pf_buf_append(&edits->list, &edit, sizeof(edit));
	facts->len = len - edit.drop + edit.len;
	facts->arguments = facts->main + strlen(begin);
	facts->tokens = false;
	return true;
}

/* --- main's types ---------------------------------------------------------------------------- */

/* What the attributes of an argument say of its memory. */
static void read_donation(const struct pf_slice *rest, struct pf_param *param)
{
	struct pf_program_facts ignored = { 0 };
	struct scan s = { .p = (const char *)rest->p,
			  .len = rest->len,
			  .facts = &ignored };

	/* Only in the dictionary itself, and in no inner one. */
	while (s.at < s.len) {
		size_t n = s.sum == 1 ? word_length(&s) : 0;
		size_t value = n ? value_of(&s, n) : 0;

		if (value && is(&s, n, "tf.aliasing_output") &&
		    is_digit(peek(&s, value))) {
			int64_t output = attribute(&s, n);

			param->alias_output = output <= PF_MAX_PARAMS ? (int)output : -1;
		} else if (value && is(&s, n, "jax.buffer_donor")) {
			param->donated = is_at(&s, value, "true");
		}
		if (take(&s) < 0)
			return;
	}
}

static int read_types(const char *what, const struct pf_buf *parts,
		      struct pf_param *params, struct pf_err *err)
{
	for (size_t i = 0; i < count(parts); i++) {
		const struct part *part = nth(parts, i);

		if (!pf_declared_array(part->type, &params[i]))
			return pf_declared_refuse(what, i, part->type, err);
		read_donation(&part->rest, &params[i]);
	}
	return 0;
}

int pf_mlir_declared(const struct pf_program_facts *facts, const char *text, size_t len,
		     struct pf_signature *sig, struct pf_err *err)
{
	PF_CLEANUP(declaration_release) struct declaration d = { 0 };
	struct pf_program_facts ignored = { 0 };
	struct scan s = { .p = text,
			  .len = len,
			  .at = facts->arguments,
			  .depth = { 1 },
			  .sum = 1,
			  .facts = &ignored };
	int r;

	if (!take_declaration(&s, &d)) {
		if (d.arguments.failed || d.results.failed)
			return pf_err_set(err, -ENOMEM,
					  "no memory for the program's signature");
		return pf_err_set(err, -EINVAL,
				  "expected a declaration of main as jax.jit(f).lower(x)"
				  ".as_text() prints it, found another one");
	}
	r = pf_declared_inputs(sig, count(&d.arguments), err);
	if (r == 0)
		r = pf_declared_outputs(sig, count(&d.results), err);
	if (r == 0)
		r = read_types("argument", &d.arguments, sig->inputs, err);
	return r < 0 ? r : read_types("result", &d.results, sig->outputs, err);
}
