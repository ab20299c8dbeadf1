/* SPDX-License-Identifier: Apache-2.0 */
#include "pjrtfs/base/json.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/base/cleanup.h"
#include "pjrtfs/base/scan.h"

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

static int compare(const void *a, const void *b)
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
	qsort(keys, n, sizeof(*keys), compare);
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
