/* SPDX-License-Identifier: Apache-2.0 */
/* Where a JSON object ends whose bytes come in pieces. */
#include <ctype.h>

#include "pjrtfs/json.h"

/* C comes within a string. */
static bool scan_in_string(struct pf_json_scan *s, char c)
{
	if (s->state == PF_JSON_SCAN_ESCAPE)
		s->state = PF_JSON_SCAN_STRING;
	else if (c == '"')
		s->state = PF_JSON_SCAN_AFTER;
	else if (c == '\\')
		s->state = PF_JSON_SCAN_ESCAPE;
	return (unsigned char)c >= ' ';
}

static bool scan_open(struct pf_json_scan *s, char c, bool value)
{
	if (s->state == PF_JSON_SCAN_START && c == '{')
		value = true;
	s->objects = s->objects << 1 | (c == '{');
	s->state = c == '{' ? PF_JSON_SCAN_KEY : PF_JSON_SCAN_VALUE;
	return value && ++s->depth <= PF_JSON_DEPTH;
}

static bool scan_close(struct pf_json_scan *s, char c)
{
	bool object = s->objects & 1;

	if (!s->depth || object != (c == '}'))
		return false;
	s->objects >>= 1;
	s->depth--;
	s->state = PF_JSON_SCAN_AFTER;
	return true;
}

/* Can C follow? */
static bool scan_one(struct pf_json_scan *s, char c)
{
	bool value = s->state == PF_JSON_SCAN_VALUE;

	if (s->state == PF_JSON_SCAN_STRING || s->state == PF_JSON_SCAN_ESCAPE)
		return scan_in_string(s, c);
	if (s->state == PF_JSON_SCAN_WORD) {
		if (isalnum((unsigned char)c) || c == '.' || c == '+' || c == '-')
			return true;
		s->state = PF_JSON_SCAN_AFTER;
	}
	switch (c) {
	case ' ':
	case '\t':
	case '\r':
	case '\n':
		return true;
	case '{':
	case '[':
		return scan_open(s, c, value);
	case '}':
	case ']':
		return scan_close(s, c);
	case ',':
	case ':':
		if (s->state != PF_JSON_SCAN_AFTER)
			return false;
		s->state = c == ',' && (s->objects & 1) ? PF_JSON_SCAN_KEY
							: PF_JSON_SCAN_VALUE;
		return true;
	case '"':
		value |= s->state == PF_JSON_SCAN_KEY;
		s->state = PF_JSON_SCAN_STRING;
		return value;
	default:
		s->state = PF_JSON_SCAN_WORD;
		return value && (c == '-' || isalnum((unsigned char)c));
	}
}

/* The first of the LEN bytes at TEXT, which come within a string, that is more than that; the last one
 * if none is. */
static size_t skip_plain(const char *text, size_t len)
{
	size_t n = 0;

	while (n + 1 < len && (unsigned char)text[n] >= ' ' && text[n] != '"' &&
	       text[n] != '\\')
		n++;
	return n;
}

bool pf_json_scan(struct pf_json_scan *s, const char *text, size_t len, size_t *ret)
{
	size_t n = 0;

	while (n < len && (!n || s->depth)) {
		if (s->state == PF_JSON_SCAN_STRING) /* as most bytes are */
			n += skip_plain(text + n, len - n);
		if (!scan_one(s, text[n])) {
			*ret = n;
			return false;
		}
		n++;
	}
	*ret = n;
	return true;
}
