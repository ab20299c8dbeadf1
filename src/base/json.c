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
 * json-c's own parser does not read the texts of users: it accepts single quotes, NaN and line
 * breaks in strings, keeps the last of two equal keys, and makes the greatest 64-bit integer of
 * every greater one.
 */

/* --- token by token ----------------------------------------------------------------- */

int pf_json_bad(struct pf_json_reader *rd, const char *want)
{
	size_t left = (size_t)(rd->end - rd->p);
	char found[24] = "its end", place[40] = "";

	if (left && *rd->p)
		snprintf(found, sizeof(found), "\"%.*s\"", left < 16 ? (int)left : 16,
			 rd->p);
	else if (left)
		strcpy(found, "a zero byte");
	if (left && rd->first != SIZE_MAX)
		snprintf(place, sizeof(place), " at byte %zu",
			 (size_t)(rd->p - rd->start) + rd->first);
	/* Any bytes may be here: pf_err_set replaces those that cannot be printed. */
	return pf_err_set(rd->err, -EINVAL, "expected %s, found %s%s", want, found,
			  place);
}

static void skip_space(struct pf_json_reader *rd)
{
	while (rd->p < rd->end && *rd->p && strchr(" \t\r\n", *rd->p))
		rd->p++;
}

static bool is_digit(const struct pf_json_reader *rd, const char *p)
{
	return p < rd->end && *p >= '0' && *p <= '9';
}

int pf_json_expect(struct pf_json_reader *rd, char c, const char *want)
{
	skip_space(rd);
	if (rd->p == rd->end || *rd->p != c)
		return pf_json_bad(rd, want);
	rd->p++;
	return 0;
}

int pf_json_next(struct pf_json_reader *rd, char close, bool *first)
{
	int r;

	skip_space(rd);
	if (rd->p < rd->end && *rd->p == close) {
		rd->p++;
		return 0;
	}
	if (!*first) {
		r = pf_json_expect(rd, ',', close == '}' ? "',' or '}'" : "',' or ']'");
		if (r < 0)
			return r;
	}
	skip_space(rd);
	*first = false;
	return 1;
}

static size_t put_utf8(char *dst, uint32_t c)
{
	static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		dst[i] = (char)(0x80 | (c & 0x3f));
	dst[0] = (char)(lead[n] | c);
	return n;
}

/* Four digits at the reader's place, which is behind "\u". */
static int read_hex(struct pf_json_reader *rd, uint32_t *ret)
{
	char digits[5] = "";

	for (int i = 0; i < 4; i++) {
		if (rd->p == rd->end || !isxdigit((unsigned char)*rd->p))
			return pf_json_bad(rd, "four hexadecimal digits");
		digits[i] = *rd->p++;
	}
	*ret = (uint32_t)strtoul(digits, NULL, 16);
	return 0;
}

/* "\uXXXX", or two of them that are one character, at the reader's place. */
static int read_code(struct pf_json_reader *rd, uint32_t *ret)
{
	const char *start = rd->p;
	uint32_t c = 0, low = 0;
	int r;

	rd->p += 2;
	r = read_hex(rd, &c);
	if (r < 0)
		return r;
	if (c >= 0xd800 && c < 0xdc00 && rd->end - rd->p >= 2 && rd->p[0] == '\\' &&
	    rd->p[1] == 'u') {
		rd->p += 2;
		r = read_hex(rd, &low);
		if (r < 0)
			return r;
		if (low >= 0xdc00 && low < 0xe000)
			c = 0x10000 + ((c & 0x3ff) << 10) + (low & 0x3ff);
	}
	if (c == 0 || (c >= 0xd800 && c < 0xe000)) {
		rd->p = start;
		return pf_json_bad(rd, c ? "a pair of surrogates" : "no NUL in a string");
	}
	*ret = c;
	return 0;
}

static int read_escape(struct pf_json_reader *rd, struct pf_buf *out)
{
	static const char from[] = "\"\\/bfnrtu", to[] = "\"\\/\b\f\n\r\t";
	const char *at;
	char text[4];
	uint32_t c = 0;
	int r = 0;

	at = rd->end - rd->p < 2 || !rd->p[1] ? NULL : strchr(from, rd->p[1]);
	if (!at)
		return pf_json_bad(rd, "an escape sequence");
	if (*at == 'u') {
		r = read_code(rd, &c);
	} else {
		rd->p += 2;
		c = (unsigned char)to[at - from];
	}
	if (r == 0 && out)
		pf_buf_append(out, text, put_utf8(text, c));
	return r;
}

/* Step over characters that stand for themselves. */
static void skip_plain(struct pf_json_reader *rd)
{
	uint32_t c;

	while (rd->p < rd->end) {
		size_t n = 1;

		if ((unsigned char)*rd->p >= 0x80)
			n = pf_utf8_char(rd->p, (size_t)(rd->end - rd->p), &c);
		else if ((unsigned char)*rd->p < 0x20 || *rd->p == '"' || *rd->p == '\\')
			n = 0;
		if (n == 0)
			return;
		rd->p += n;
	}
}

int pf_json_string(struct pf_json_reader *rd, struct pf_buf *out, const char *want)
{
	int r = pf_json_expect(rd, '"', want);

	while (r == 0) {
		const char *run = rd->p;

		skip_plain(rd);
		if (out)
			pf_buf_append(out, run, (size_t)(rd->p - run));
		if (out && out->failed)
			return pf_err_set(rd->err, -ENOMEM, "no memory for a string");
		if (rd->p == rd->end)
			return pf_json_bad(rd, "the end of a string");
		if (*rd->p == '"') {
			rd->p++;
			return 0;
		}
		if (*rd->p == '\\')
			r = read_escape(rd, out);
		else if ((unsigned char)*rd->p < 0x20)
			return pf_json_bad(rd, "no control character in a string");
		else
			return pf_json_bad(rd, "UTF-8 in a string");
	}
	return r;
}

int pf_json_number(struct pf_json_reader *rd, int64_t *ret, const char *want)
{
	const char *start;
	int64_t n = 0;

	skip_space(rd);
	for (start = rd->p; is_digit(rd, rd->p); rd->p++)
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, *rd->p - '0', &n))
			return pf_err_set(
				rd->err, -EOVERFLOW,
				"expected %s, found one beyond 2^63-1 at byte %zu", want,
				(size_t)(start - rd->start) + rd->first);
	if (rd->p == start)
		return pf_json_bad(rd, want);
	/* A digit more, "1.0" and "1e3" are numbers of JSON, but not whole numbers as
	 * read here. */
	if ((*start == '0' && rd->p - start > 1) ||
	    (rd->p < rd->end && *rd->p && strchr(".eE", *rd->p))) {
		rd->p = start;
		return pf_json_bad(rd, want);
	}
	*ret = n;
	return 0;
}

/* --- objects of json-c -------------------------------------------------------------- */

static int no_memory(struct pf_json_reader *rd)
{
	return pf_err_set(rd->err, -ENOMEM, "no memory for JSON");
}

/* Step over a KEY that O has not, and its colon. */
static int read_key(struct pf_json_reader *rd, struct json_object *o, struct pf_buf *key)
{
	const char *start = rd->p;
	int r = pf_json_string(rd, key, "a key in double quotes");

	if (r < 0)
		return r;
	if (json_object_object_get_ex(o, key->data, NULL)) {
		rd->p = start;
		return pf_err_set(rd->err, -EINVAL, "the key \"%.100s\" is given twice",
				  key->data);
	}
	return pf_json_expect(rd, ':', "a colon");
}

static int build(struct pf_json_reader *rd, unsigned depth, struct json_object **ret);

static int build_members(struct pf_json_reader *rd, unsigned depth,
			 struct json_object **ret)
{
	bool is_object = *rd->p == '{', first = true;
	int r;

	if (depth == PF_JSON_DEPTH)
		return pf_json_bad(rd, "at most 64 brackets within each other");
	rd->p++;
	*ret = is_object ? json_object_new_object() : json_object_new_array();
	if (!*ret)
		return no_memory(rd);
	while ((r = pf_json_next(rd, is_object ? '}' : ']', &first)) > 0) {
		pf_autobuf struct pf_buf key = PF_BUF_INIT;
		struct json_object *value = NULL;

		r = is_object ? read_key(rd, *ret, &key) : 0;
		if (r == 0)
			r = build(rd, depth + 1, &value);
		if (r == 0 && (is_object ? json_object_object_add(*ret, key.data, value)
					 : json_object_array_add(*ret, value)))
			r = no_memory(rd);
		if (r < 0) {
			json_object_put(value);
			return r;
		}
	}
	return r;
}

/* The end of the digits at P; NULL: P is not at a digit. */
static const char *skip_digits(const struct pf_json_reader *rd, const char *p)
{
	const char *start = p;

	while (is_digit(rd, p))
		p++;
	return p > start ? p : NULL;
}

static int build_number(struct pf_json_reader *rd, struct json_object **ret)
{
	const char *digits = rd->p + (*rd->p == '-'), *p = skip_digits(rd, digits);
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	bool whole = true;
	uint64_t n;

	if (p && *digits == '0')
		p = digits + 1;
	if (p && p < rd->end && *p == '.') {
		whole = false;
		p = skip_digits(rd, p + 1);
	}
	if (p && p < rd->end && (*p == 'e' || *p == 'E')) {
		whole = false;
		p++;
		p = skip_digits(rd, p + (p < rd->end && (*p == '+' || *p == '-')));
	}
	if (!p)
		return pf_json_bad(rd, "a number");
	pf_buf_append(&text, rd->p, (size_t)(p - rd->p));
	if (text.failed)
		return no_memory(rd);
	errno = 0;
	if (!whole) {
		*ret = json_object_new_double_s(strtod(text.data, NULL), text.data);
	} else if (*text.data == '-') {
		*ret = json_object_new_int64(strtoll(text.data, NULL, 10));
	} else {
		n = strtoull(text.data, NULL, 10);
		*ret = n > INT64_MAX ? json_object_new_uint64(n)
				     : json_object_new_int64((int64_t)n);
	}
	if (whole && errno == ERANGE)
		return pf_json_bad(rd, "an integer of at most 64 bits");
	rd->p = p;
	return *ret ? 0 : no_memory(rd);
}

static int build_string(struct pf_json_reader *rd, struct json_object **ret)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	int r = pf_json_string(rd, &text, "a value");

	if (r < 0)
		return r;
	*ret = json_object_new_string_len(text.data, (int)text.len);
	return *ret ? 0 : no_memory(rd);
}

static int build_literal(struct pf_json_reader *rd, struct json_object **ret)
{
	static const char *const names[] = { "null", "false", "true" };

	for (int i = 0; i < 3; i++) {
		size_t n = strlen(names[i]);

		if ((size_t)(rd->end - rd->p) < n || memcmp(rd->p, names[i], n))
			continue;
		rd->p += n;
		*ret = i ? json_object_new_boolean(i == 2) : NULL;
		return *ret || !i ? 0 : no_memory(rd);
	}
	return pf_json_bad(rd, "a value");
}

/* The value at the reader's place, within DEPTH others; *RET is the caller's, also on failure. */
static int build(struct pf_json_reader *rd, unsigned depth, struct json_object **ret)
{
	*ret = NULL;
	skip_space(rd);
	switch (rd->p < rd->end ? *rd->p : '\0') {
	case '{':
	case '[':
		return build_members(rd, depth, ret);
	case '"':
		return build_string(rd, ret);
	case '-':
	case '0' ... '9':
		return build_number(rd, ret);
	default:
		return build_literal(rd, ret);
	}
}

int pf_json_value(struct pf_json_reader *rd, struct json_object **ret)
{
	int r = build(rd, 0, ret);

	if (r < 0) {
		json_object_put(*ret);
		*ret = NULL;
	}
	return r;
}

int pf_json_parse_at(const char *text, size_t len, struct json_object **ret,
		     size_t *ret_off, struct pf_err *err)
{
	struct pf_json_reader rd = { text, text, text + len, SIZE_MAX, err };
	int r;

	*ret = NULL;
	skip_space(&rd);
	r = rd.p < rd.end && *rd.p == '{' ? pf_json_value(&rd, ret)
					  : pf_json_bad(&rd, "a JSON object");
	skip_space(&rd);
	if (r == 0 && rd.p < rd.end)
		r = pf_json_bad(&rd, "nothing behind the JSON object");
	if (r < 0) {
		json_object_put(*ret);
		*ret = NULL;
	}
	*ret_off = (size_t)(rd.p - text);
	return r;
}

int pf_json_parse(const char *text, size_t len, struct json_object **ret,
		  struct pf_err *err)
{
	size_t off;
	int r = pf_json_parse_at(text, len, ret, &off, err);

	return r < 0 ? pf_err_wrap(err, r, "JSON: byte %zu", off + 1) : 0;
}

struct json_object *pf_json_get(struct json_object *o, const char *key,
				enum json_type type)
{
	struct json_object *v;

	return json_object_object_get_ex(o, key, &v) && json_object_is_type(v, type)
		       ? v
		       : NULL;
}

const char *pf_json_get_string(struct json_object *o, const char *key)
{
	struct json_object *v = pf_json_get(o, key, json_type_string);

	return v ? json_object_get_string(v) : "";
}

/* The mark of an object or a list that lacks a part, for lack of memory. */
static const char incomplete;

static void mark_incomplete(struct json_object *o)
{
	if (o)
		json_object_set_userdata(o, (void *)(uintptr_t)&incomplete, NULL);
}

bool pf_json_complete(struct json_object *o)
{
	return o && json_object_get_userdata(o) != &incomplete;
}

void pf_json_add(struct json_object *o, const char *key, struct json_object *value)
{
	if (o && pf_json_complete(value) && json_object_object_add(o, key, value) == 0)
		return;
	json_object_put(value);
	mark_incomplete(o);
}

void pf_json_append(struct json_object *list, struct json_object *value)
{
	if (list && pf_json_complete(value) && json_object_array_add(list, value) == 0)
		return;
	json_object_put(value);
	mark_incomplete(list);
}

void pf_json_append_null(struct json_object *list)
{
	if (list && json_object_array_add(list, NULL))
		mark_incomplete(list);
}

void pf_json_add_copy(struct json_object *o, const char *key, struct json_object *value)
{
	if (value)
		pf_json_add(o, key, pf_json_copy(value));
	else if (!o || json_object_object_add(o, key, NULL))
		mark_incomplete(o);
}

void pf_json_add_string(struct json_object *o, const char *key, const char *value)
{
	pf_json_add(o, key, json_object_new_string(value));
}

bool pf_json_get_int(struct json_object *o, int64_t *ret)
{
	if (!json_object_is_type(o, json_type_int))
		return false;
	*ret = json_object_get_int64(o);
	/* json-c returns the nearest int64_t for greater integers. */
	return *ret != INT64_MAX || json_object_get_uint64(o) == INT64_MAX;
}

void pf_json_add_int(struct json_object *o, const char *key, int64_t value)
{
	pf_json_add(o, key, json_object_new_int64(value));
}

/* json-c prints doubles with 17 digits, more than a clock has. */
static void add_decimals(struct json_object *o, const char *key, double value,
			 uint64_t seconds, uint64_t ns)
{
	char text[32] = "";
	struct pf_json_out out = { text, text + sizeof(text) - 1, false };

	pf_json_put_seconds(&out, seconds, ns);
	pf_json_add(o, key, json_object_new_double_s(value, text));
}

void pf_json_add_seconds(struct json_object *o, const char *key, double seconds)
{
	double s = seconds > 1e9 ? 1e9 : seconds > 0 ? seconds : 0;
	uint64_t ns = (uint64_t)(s * 1e9 + 0.5);

	add_decimals(o, key, s, ns / 1000000000, ns % 1000000000);
}

void pf_json_add_time(struct json_object *o, const char *key, const struct timespec *time)
{
	add_decimals(o, key, (double)time->tv_sec, (uint64_t)time->tv_sec,
		     (uint64_t)time->tv_nsec);
}

const char *pf_json_text(struct json_object *o)
{
	const char *text;

	if (o && !pf_json_complete(o))
		return NULL;
	/* json-c leaves out what it has no memory for, and does not report that. */
	errno = 0;
	text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN |
							 JSON_C_TO_STRING_NOSLASHESCAPE);
	return errno == ENOMEM ? NULL : text;
}

char *pf_json_text_copy(struct json_object *o)
{
	const char *text = pf_json_text(o);

	return text ? strdup(text) : NULL;
}

void pf_json_print_line(struct json_object *o, struct pf_buf *out)
{
	pf_buf_puts(out, o ? pf_json_text(o) : NULL);
	pf_buf_puts(out, "\n");
}

struct json_object *pf_json_copy(struct json_object *o)
{
	struct json_object *copy = NULL;

	if (!pf_json_complete(o))
		return NULL;
	if (json_object_deep_copy(o, &copy, NULL)) {
		json_object_put(copy);
		return NULL;
	}
	return copy;
}

struct json_object *pf_json_sorted(struct json_object *o)
{
	struct json_object *sorted = json_object_new_object(), *value, *copy;
	const char *last = NULL;

	/* The least key after LAST, until LAST is the greatest. */
	while (sorted) {
		const char *next = NULL;

		json_object_object_foreach(o, key, unused) {
			(void)unused;
			if ((!last || strcmp(key, last) > 0) &&
			    (!next || strcmp(key, next) < 0))
				next = key;
		}
		if (!next)
			break;
		json_object_object_get_ex(o, next, &value);
		copy = pf_json_copy(value);
		if ((value && !copy) || json_object_object_add(sorted, next, copy)) {
			json_object_put(copy);
			json_object_put(sorted);
			return NULL;
		}
		last = next;
	}
	return sorted;
}

/* --- text without objects ----------------------------------------------------------- */

static bool has_room(struct pf_json_out *out, size_t len)
{
	if ((size_t)(out->end - out->at) >= len)
		return true;
	out->cut = true;
	return false;
}

void pf_json_put(struct pf_json_out *out, const char *text, size_t len)
{
	if (!has_room(out, len))
		return;
	memcpy(out->at, text, len);
	out->at += len;
}

bool pf_json_put_key(struct pf_json_out *out, const char *key, size_t need)
{
	size_t n = strlen(key);

	if (!has_room(out, n + 4 + need))
		return false;
	if (out->at[-1] != '{')
		*out->at++ = ',';
	*out->at++ = '"';
	pf_json_put(out, key, n);
	pf_json_put(out, "\":", 2);
	return true;
}

static bool is_plain(char c)
{
	return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
}

void pf_json_put_string(struct pf_json_out *out, const char *text)
{
	static const char hex[] = "0123456789abcdef";
	size_t left = strlen(text), n;

	if (!has_room(out, 2))
		return;
	*out->at++ = '"';
	/* Six bytes are the longest character, and the quotes end with one. */
	for (; left && has_room(out, 7); text += n, left -= n) {
		size_t max = (size_t)(out->end - out->at) - 1;
		uint32_t c;

		for (n = 0; n < left && n < max && is_plain(text[n]); n++)
			out->at[n] = text[n];
		out->at += n;
		if (n)
			continue;
		n = pf_utf8_char(text, left, &c);
		if (!n) {
			pf_json_put(out, "\xef\xbf\xbd", 3);
			n = 1;
		} else if (c < 0x20) {
			pf_json_put(out, "\\u00", 4);
			*out->at++ = hex[c >> 4];
			*out->at++ = hex[c & 15];
		} else {
			if (c == '"' || c == '\\')
				*out->at++ = '\\';
			pf_json_put(out, text, n);
		}
	}
	*out->at++ = '"';
}

/* N digits of VALUE, with zeros before it; returns what is above them. */
static uint64_t put_digits(char *dst, unsigned n, uint64_t value)
{
	for (; n--; value /= 10)
		dst[n] = (char)('0' + value % 10);
	return value;
}

static void put_unsigned(struct pf_json_out *out, uint64_t value)
{
	char digits[20];
	unsigned n = sizeof(digits);

	do
		value = put_digits(digits + --n, 1, value);
	while (value);
	pf_json_put(out, digits + n, sizeof(digits) - n);
}

void pf_json_put_int(struct pf_json_out *out, int64_t value)
{
	if (value < 0)
		pf_json_put(out, "-", 1);
	put_unsigned(out, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

/* As "%llu.%09llu" does, but that takes a microsecond, and every reply has several. */
void pf_json_put_seconds(struct pf_json_out *out, uint64_t seconds, uint64_t ns)
{
	char decimals[10] = ".";

	put_digits(decimals + 1, 9, ns);
	put_unsigned(out, seconds);
	pf_json_put(out, decimals, sizeof(decimals));
}

static bool has_only_strings(struct json_object *o)
{
	json_object_object_foreach(o, key, value) {
		(void)key;
		if (!json_object_is_type(value, json_type_string))
			return false;
	}
	return true;
}

void pf_json_read_payloads(struct pf_err *err, const char *text, size_t len)
{
	struct json_object *o;
	const char *clean;

	err->payloads[0] = '\0';
	if (pf_json_parse(text, len, &o, NULL) < 0)
		return;
	clean = has_only_strings(o) ? pf_json_text(o) : NULL;
	if (clean && strlen(clean) < sizeof(err->payloads))
		strcpy(err->payloads, clean);
	json_object_put(o);
}

void pf_json_put_error(struct pf_json_out *out, const struct pf_err *err)
{
	size_t payloads = strlen(err->payloads);

	if (!has_room(out, PF_JSON_ERROR_ROOM))
		return;
	pf_json_put(out, "{", 1);
	pf_json_put_key(out, "errno", 0);
	pf_json_put_string(out, pf_errno_name(err->code));
	pf_json_put_key(out, "code", 0);
	pf_json_put_string(out, pf_pjrt_code_name(err->pjrt_code, err->code));
	if (payloads && pf_json_put_key(out, "payloads", payloads + PF_JSON_ERROR_ROOM))
		pf_json_put(out, err->payloads, payloads);
	pf_json_put_key(out, "message", 0);
	out->end--;
	pf_json_put_string(out, err->text);
	out->end++;
	pf_json_put(out, "}", 1);
}
