/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/base.h"
#include "pjrtfs/json.h"

/*
 * The scanner of JSON commands (RFC 8259), and the check that no object names a key twice.
 *
 * Written by hand because it runs for every command: it only finds the end, and the kind
 * parses the whole text once.
 */

enum state {
	START,
	FIRST_KEY, /* or the end of the object */
	KEY,
	COLON,
	VALUE,
	FIRST_VALUE, /* or the end of the array */
	AFTER,       /* a comma or the end */
	STRING,
	ESCAPE,
	HEX,
	LITERAL,
	MINUS,
	ZERO,
	DIGITS,
	POINT,
	FRACTION,
	EXPONENT,
	EXPONENT_SIGN,
	EXPONENT_DIGITS,
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool bad(struct pf_scan *s, const char *want)
{
	s->want = want;
	return false;
}

static bool go(struct pf_scan *s, enum state state)
{
	s->state = (uint8_t)state;
	return true;
}

static bool push(struct pf_scan *s, bool object)
{
	if (s->depth == PF_SCAN_DEPTH)
		return bad(s, "at most 64 brackets within each other");
	s->object = s->object << 1 | object;
	s->depth++;
	return go(s, object ? FIRST_KEY : FIRST_VALUE);
}

static bool pop(struct pf_scan *s)
{
	s->object >>= 1;
	s->depth--;
	return go(s, AFTER);
}

static bool value(struct pf_scan *s, char c)
{
	switch (c) {
	case '{':
		return push(s, true);
	case '[':
		return push(s, false);
	case '"':
		s->key = 0;
		return go(s, STRING);
	case 't':
		s->rest = "rue";
		return go(s, LITERAL);
	case 'f':
		s->rest = "alse";
		return go(s, LITERAL);
	case 'n':
		s->rest = "ull";
		return go(s, LITERAL);
	case '-':
		return go(s, MINUS);
	case '0':
		return go(s, ZERO);
	default:
		return is_digit(c) ? go(s, DIGITS) : bad(s, "a value");
	}
}

static bool after(struct pf_scan *s, char c)
{
	bool object = s->object & 1;

	if (c == ',')
		return go(s, object ? KEY : VALUE);
	if (c == (object ? '}' : ']'))
		return pop(s);
	return bad(s, object ? "a comma or }" : "a comma or ]");
}

static bool hex(struct pf_scan *s, char c)
{
	unsigned digit;

	if (is_digit(c))
		digit = (unsigned)(c - '0');
	else if ((c | 32) >= 'a' && (c | 32) <= 'f')
		digit = (unsigned)((c | 32) - 'a' + 10);
	else
		return bad(s, "a hexadecimal digit");
	s->code = (uint16_t)(s->code << 4 | digit);
	if (++s->hex < 4)
		return true;
	return s->code ? go(s, STRING) : bad(s, "no NUL in a string");
}

static bool in_string(struct pf_scan *s, char c)
{
	if (s->state == HEX)
		return hex(s, c);
	if (s->state == ESCAPE) {
		if (c == 'u') {
			s->hex = 0;
			s->code = 0;
			return go(s, HEX);
		}
		return c && strchr("\"\\/bfnrt", c) ? go(s, STRING)
						    : bad(s, "one of \"\\/bfnrtu");
	}
	if (c == '"')
		return go(s, s->key ? COLON : AFTER);
	if (c == '\\')
		return go(s, ESCAPE);
	return (unsigned char)c >= 0x20 ||
	       bad(s, "the string's end (\\n stands for a line's end)");
}

static bool literal(struct pf_scan *s, char c)
{
	if (c != *s->rest)
		return bad(s, "true, false or null");
	return *++s->rest ? true : go(s, AFTER);
}

/* In a number; what is not part of it comes after it. */
static bool number(struct pf_scan *s, char c)
{
	bool digit = is_digit(c);

	switch (s->state) {
	case MINUS:
		return digit ? go(s, c == '0' ? ZERO : DIGITS) : bad(s, "a digit");
	case POINT:
		return digit ? go(s, FRACTION) : bad(s, "a digit");
	case EXPONENT:
		if (c == '+' || c == '-')
			return go(s, EXPONENT_SIGN);
		/* fall through */
	case EXPONENT_SIGN:
		return digit ? go(s, EXPONENT_DIGITS) : bad(s, "a digit");
	default:
		break;
	}
	if (digit)
		return s->state != ZERO || bad(s, "no digit after a leading 0");
	if (c == '.' && (s->state == ZERO || s->state == DIGITS))
		return go(s, POINT);
	if ((c | 32) == 'e' && s->state != EXPONENT_DIGITS)
		return go(s, EXPONENT);
	s->state = AFTER;
	return is_space(c) || after(s, c);
}

static bool step(struct pf_scan *s, char c)
{
	if (s->state >= MINUS)
		return number(s, c);
	if (s->state == LITERAL)
		return literal(s, c);
	if (s->state >= STRING)
		return in_string(s, c);
	if (is_space(c))
		return true;
	switch (s->state) {
	case START:
		return c == '{' ? push(s, true) : bad(s, "{");
	case FIRST_KEY:
		if (c == '}')
			return pop(s);
		/* fall through */
	case KEY:
		s->key = 1;
		return c == '"' ? go(s, STRING) : bad(s, "a key in double quotes");
	case COLON:
		return c == ':' ? go(s, VALUE) : bad(s, "a colon");
	case FIRST_VALUE:
		if (c == ']')
			return pop(s);
		/* fall through */
	case VALUE:
		return value(s, c);
	default:
		return after(s, c);
	}
}

enum pf_scan_result pf_scan_feed(struct pf_scan *scan, const char *src, size_t len,
				 size_t *used)
{
	size_t i = 0;

	while (i < len) {
		/* Most bytes are in strings. */
		if (scan->state == STRING)
			while (i < len && (unsigned char)src[i] >= 0x20 &&
			       src[i] != '"' && src[i] != '\\')
				i++;
		if (i == len)
			break;
		if (!step(scan, src[i++])) {
			*used = i;
			return PF_SCAN_BAD;
		}
		if (!scan->depth && scan->state == AFTER) {
			*used = i;
			return PF_SCAN_DONE;
		}
	}
	*used = len;
	return PF_SCAN_MORE;
}

/* A key and the object it is in, numbered as their brackets open. */
struct key {
	uint64_t hash;
	uint32_t object;
	uint32_t off, len; /* between the quotes */
};

struct keys {
	struct key some[32];
	struct key *all; /* some, or owned */
	size_t n, cap;
};

static size_t put_utf8(char *dst, unsigned c)
{
	if (c < 0x80) {
		dst[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		dst[0] = (char)(0xc0 | c >> 6);
		dst[1] = (char)(0x80 | (c & 63));
		return 2;
	}
	if (c < 0x10000) {
		dst[0] = (char)(0xe0 | c >> 12);
		dst[1] = (char)(0x80 | (c >> 6 & 63));
		dst[2] = (char)(0x80 | (c & 63));
		return 3;
	}
	dst[0] = (char)(0xf0 | c >> 18);
	dst[1] = (char)(0x80 | (c >> 12 & 63));
	dst[2] = (char)(0x80 | (c >> 6 & 63));
	dst[3] = (char)(0x80 | (c & 63));
	return 4;
}

static unsigned hex4(const char *s)
{
	char digits[5] = { s[0], s[1], s[2], s[3] };

	return (unsigned)strtoul(digits, NULL, 16);
}

/* A hash of the key as it is meant: "\u0061" is "a".  0: no memory. */
static uint64_t hash_key(const char *s, size_t len)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	pf_autofree char *out = NULL;
	size_t n = 0;

	if (!memchr(s, '\\', len))
		return pf_hash(s, len);
	out = malloc(len);
	if (!out)
		return 0;
	for (size_t i = 0; i < len; i++) {
		const char *p;
		unsigned c;

		if (s[i] != '\\') {
			out[n++] = s[i];
			continue;
		}
		i++;
		if (s[i] != 'u') {
			p = strchr(from, s[i]);
			out[n++] = p ? to[p - from] : s[i];
			continue;
		}
		c = hex4(s + i + 1);
		i += 4;
		if (c >= 0xd800 && c < 0xdc00 && i + 6 < len && s[i + 1] == '\\' &&
		    s[i + 2] == 'u') {
			c = 0x10000 + ((c & 0x3ff) << 10) + (hex4(s + i + 3) & 0x3ff);
			i += 6;
		}
		n += put_utf8(out + n, c);
	}
	return pf_hash(out, n);
}

static bool add_key(struct keys *keys, const char *text, uint32_t object, size_t off,
		    size_t len)
{
	struct key key = { .object = object, .off = (uint32_t)off, .len = (uint32_t)len };

	if (keys->n == keys->cap) {
		struct key *more = malloc(2 * keys->cap * sizeof(*more));

		if (!more)
			return false;
		memcpy(more, keys->all, keys->n * sizeof(*more));
		if (keys->all != keys->some)
			free(keys->all);
		keys->all = more;
		keys->cap *= 2;
	}
	key.hash = hash_key(text + off, len);
	keys->all[keys->n++] = key;
	return key.hash != 0;
}

static bool collect(struct keys *keys, const char *text, size_t len)
{
	uint32_t stack[PF_SCAN_DEPTH + 1] = { 0 }, objects = 0;
	size_t depth = 0, off = 0, size = 0;

	for (size_t i = 0; i < len; i++) {
		switch (text[i]) {
		case '"': /* remember the last string: a colon makes it a key */
			off = ++i;
			while (text[i] != '"')
				i += text[i] == '\\' ? 2 : 1;
			size = i - off;
			break;
		case '{':
		case '[':
			stack[++depth] = ++objects;
			break;
		case '}':
		case ']':
			depth--;
			break;
		case ':':
			if (!add_key(keys, text, stack[depth], off, size))
				return false;
			break;
		default:
			break;
		}
	}
	return true;
}

static int compare_keys(const void *a, const void *b)
{
	const struct key *x = a, *y = b;

	if (x->object != y->object)
		return x->object < y->object ? -1 : 1;
	return x->hash < y->hash ? -1 : x->hash > y->hash;
}

static const struct key *later(const struct key *a, const struct key *b)
{
	return a->off > b->off ? a : b;
}

static const struct key *find_twice(struct keys *keys)
{
	const struct key *k = keys->all;

	if (keys->n > 8) {
		qsort(keys->all, keys->n, sizeof(*k), compare_keys);
		for (size_t i = 1; i < keys->n; i++)
			if (!compare_keys(&k[i - 1], &k[i]))
				return later(&k[i - 1], &k[i]);
		return NULL;
	}
	for (size_t i = 1; i < keys->n; i++)
		for (size_t j = 0; j < i; j++)
			if (!compare_keys(&k[i], &k[j]))
				return &k[i];
	return NULL;
}

int pf_scan_twice(const char *text, size_t len, size_t *off, size_t *key_len)
{
	struct keys keys;
	const struct key *twice;
	int r = 0;

	keys.all = keys.some;
	keys.n = 0;
	keys.cap = sizeof(keys.some) / sizeof(keys.some[0]);
	if (!collect(&keys, text, len)) {
		r = -ENOMEM;
	} else if ((twice = find_twice(&keys))) {
		*off = twice->off;
		*key_len = twice->len;
		r = 1;
	}
	if (keys.all != keys.some)
		free(keys.all);
	return r;
}

int pf_scan_check(const char *text, size_t len, struct pf_err *err)
{
	size_t off, key_len;
	int r;

	if (!pf_utf8_valid(text, len))
		return pf_err_set(err, -EINVAL, "the command is not UTF-8");
	r = pf_scan_twice(text, len, &off, &key_len);
	if (r < 0)
		return pf_err_set(err, r, "no memory for a command of %zu bytes", len);
	if (r > 0)
		return pf_err_set(err, -EINVAL, "the key \"%.*s\" is given twice",
				  key_len < 100 ? (int)key_len : 100, text + off);
	return 0;
}

/* --- reading ---------------------------------------------------------------------------- */

/* Does the number at TEXT, of LEN digits after its sign, fit no integer of 64 bits? */
static bool is_too_wide(const char *text, size_t len, bool negative)
{
	char digits[32];

	if (text[len] == '.' || text[len] == 'e' || text[len] == 'E')
		return false; /* no whole number */
	if (len >= sizeof(digits))
		return true;
	memcpy(digits, text, len);
	digits[len] = '\0';
	errno = 0;
	if (strtoull(digits, NULL, 10) > (uint64_t)INT64_MAX + 1 && negative)
		return true;
	return errno == ERANGE;
}

/* The first whole number in TEXT, which is JSON, that does not fit 64 bits, or NULL. */
static const char *find_too_wide(const char *text)
{
	enum { SHORT = 19 }; /* digits that fit always */
	const char *p = text;

	while (*p) {
		size_t n;

		if (*p == '"') {
			for (p++; *p && *p != '"'; p++)
				if (*p == '\\' && p[1])
					p++;
			p += *p != '\0';
			continue;
		}
		for (n = 0; isdigit((unsigned char)p[n]); n++)
			;
		/* What follows a point or an exponent is no whole number's. */
		if (n >= SHORT && !(p > text && strchr(".eE+", p[-1])) &&
		    is_too_wide(p, n, p > text && p[-1] == '-'))
			return p > text && p[-1] == '-' ? p - 1 : p;
		p += n ? n : 1;
	}
	return NULL;
}

/* TEXT is one object with nothing but blanks around it, and no key is in it twice. */
static int check_object(const char *text, struct pf_err *err)
{
	static const char blanks[] = " \t\r\n";
	size_t start = strspn(text, blanks), used, rest;
	struct pf_scan scan = { 0 };

	switch (pf_scan_feed(&scan, text + start, strlen(text + start), &used)) {
	case PF_SCAN_BAD:
		return pf_err_set(err, -EINVAL,
				  "expected a JSON object: byte %zu is %c, expected %s",
				  start + used, text[start + used - 1], scan.want);
	case PF_SCAN_MORE:
		return pf_err_set(err, -EINVAL,
				  "expected a JSON object, found its end too early");
	default:
		break;
	}
	rest = start + used + strspn(text + start + used, blanks);
	if (text[rest])
		return pf_err_set(err, -EINVAL,
				  "expected nothing behind the JSON object, found %.40s",
				  text + rest);
	return pf_scan_check(text + start, used, err);
}

int pf_json_parse(const char *text, struct json_object **ret, struct pf_err *err)
{
	int r = check_object(text, err);

	*ret = NULL;
	return r < 0 ? r : pf_json_parse_scanned(text, ret, err);
}

int pf_json_parse_scanned(const char *text, struct json_object **ret, struct pf_err *err)
{
	enum json_tokener_error why = json_tokener_success;
	const char *wide;

	*ret = json_tokener_parse_verbose(text, &why);
	if (!json_object_is_type(*ret, json_type_object)) {
		json_object_put(*ret);
		*ret = NULL;
		return pf_err_set(err, -EINVAL, "expected a JSON object: %s",
				  why == json_tokener_success
					  ? "found something else"
					  : json_tokener_error_desc(why));
	}
	wide = find_too_wide(text);
	if (!wide)
		return 0;
	json_object_put(*ret);
	*ret = NULL;
	return pf_err_set(err, -EINVAL, "%.*s: a whole number of more than 64 bits",
			  (int)strspn(wide, "-0123456789"), wide);
}

/* --- printing --------------------------------------------------------------------------- */

void pf_json_add_string(struct json_object *o, const char *key, const char *value)
{
	json_object_object_add(o, key, json_object_new_string(value));
}

void pf_json_add_int(struct json_object *o, const char *key, int64_t value)
{
	json_object_object_add(o, key, json_object_new_int64(value));
}

/* As "%.9f" does, but that takes a microsecond, and every reply has several. */
static void print_seconds(char text[64], double seconds)
{
	uint64_t ns = (uint64_t)(seconds * 1e9 + 0.5);
	char *at = text + 63;

	*at = '\0';
	for (int i = 0; i < 9; i++, ns /= 10)
		*--at = (char)('0' + ns % 10);
	*--at = '.';
	do
		*--at = (char)('0' + ns % 10);
	while (ns /= 10);
	memmove(text, at, (size_t)(text + 64 - at));
}

void pf_json_add_seconds(struct json_object *o, const char *key, double seconds)
{
	char text[64];

	/* json-c's own doubles have 17 digits, of which the last tell nothing. */
	if (seconds >= 0 && seconds < 1e9)
		print_seconds(text, seconds);
	else
		snprintf(text, sizeof(text), "%.9f", seconds);
	json_object_object_add(o, key, json_object_new_double_s(seconds, text));
}

void pf_json_add_time(struct json_object *o, const char *key, const struct timespec *time)
{
	char text[64];

	snprintf(text, sizeof(text), "%lld.%09ld", (long long)time->tv_sec,
		 time->tv_nsec);
	json_object_object_add(o, key,
			       json_object_new_double_s((double)time->tv_sec, text));
}

const char *pf_json_text(struct json_object *o)
{
	return json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN |
							 JSON_C_TO_STRING_NOSLASHESCAPE);
}

void pf_json_print_line(struct json_object *o, struct pf_buf *out)
{
	pf_buf_puts(out, o ? pf_json_text(o) : "{}");
	pf_buf_puts(out, "\n");
}

struct json_object *pf_json_copy(struct json_object *o)
{
	struct json_object *copy = NULL;

	if (!o || json_object_deep_copy(o, &copy, NULL))
		return NULL;
	return copy;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct json_object *pf_json_sorted(struct json_object *o)
{
	pf_autofree const char **keys =
		calloc((size_t)json_object_object_length(o) + 1, sizeof(*keys));
	struct json_object *sorted = keys ? json_object_new_object() : NULL;
	struct json_object *copy, *value;
	size_t n = 0;

	if (!sorted)
		return NULL;
	json_object_object_foreach(o, key, unused) {
		(void)unused;
		keys[n++] = key;
	}
	qsort(keys, n, sizeof(*keys), compare_names);
	for (size_t i = 0; i < n; i++) {
		json_object_object_get_ex(o, keys[i], &value);
		copy = pf_json_copy(value);
		if ((value && !copy) || json_object_object_add(sorted, keys[i], copy)) {
			json_object_put(copy);
			json_object_put(sorted);
			return NULL;
		}
	}
	return sorted;
}
