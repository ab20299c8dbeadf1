/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/base.h"
#include "pjrtfs/json.h"
#include "pjrtfs/plugin_options.h"

/*
 * The option whose wrong values make plugins abort, or start threads for minutes, instead of
 * answering: an integer.
 */
static const char dangerous[] = "cpu_device_count";
enum { DANGEROUS_MAX = 1024 };

/* --- checking ----------------------------------------------------------------------- */

static int refuse(const char *name, const char *want, struct json_object *found,
		  struct pf_err *err)
{
	static const char *const kinds[json_type_string + 1] = {
		[json_type_double] = "the double ",
		[json_type_object] = "the object ",
		[json_type_array] = "the list ",
		[json_type_string] = "the string ",
	};
	const char *kind = kinds[json_object_get_type(found)];

	return pf_err_set(err, -EINVAL, "option %s: expected %s, found %s%.80s", name,
			  want, kind ? kind : "",
			  json_object_to_json_string_ext(
				  found, JSON_C_TO_STRING_PLAIN |
						 JSON_C_TO_STRING_NOSLASHESCAPE));
}

static int check_list(const char *name, struct json_object *list, struct pf_err *err)
{
	size_t n = json_object_array_length(list);
	int64_t ignored;

	if (n > PF_CREATE_LIST_MAX)
		return pf_err_set(err, -EINVAL,
				  "option %s: expected at most %d integers, found %zu",
				  name, PF_CREATE_LIST_MAX, n);
	for (size_t i = 0; i < n; i++) {
		struct json_object *item = json_object_array_get_idx(list, i);

		if (!pf_json_get_int(item, &ignored))
			return refuse(name, "a list of integers of 64 bits", item, err);
	}
	return 0;
}

static int check_type(const char *name, struct json_object *value, struct pf_err *err)
{
	const char *text;
	int64_t ignored;

	switch (json_object_get_type(value)) {
	case json_type_boolean:
		return 0;
	case json_type_int:
		if (pf_json_get_int(value, &ignored))
			return 0;
		return refuse(name, "an integer of 64 bits", value, err);
	case json_type_double:
		if (fabs(json_object_get_double(value)) <= (double)FLT_MAX)
			return 0;
		return refuse(name, "a number that a float can hold", value, err);
	case json_type_string:
		text = json_object_get_string(value);
		if (strlen(text) != (size_t)json_object_get_string_len(value))
			return refuse(name, "a string without NUL", value, err);
		if (strlen(text) > PF_CREATE_TEXT_MAX)
			return refuse(name, "a string of at most 65536 bytes", value,
				      err);
		return 0;
	case json_type_array:
		return check_list(name, value, err);
	default:
		return refuse(name,
			      "a string, an integer, true, false, a number or a list of "
			      "integers",
			      value, err);
	}
}

int pf_create_option_check(const char *name, struct json_object *value,
			   struct pf_err *err)
{
	int64_t n;
	int r;

	if (!*name || strlen(name) > PF_CREATE_NAME_MAX)
		return pf_err_set(err, -EINVAL,
				  "option %.80s: expected a name of 1 to %d bytes", name,
				  PF_CREATE_NAME_MAX);
	r = check_type(name, value, err);
	if (r == 0 && !strcmp(name, dangerous) &&
	    (!pf_json_get_int(value, &n) || n < 1 || n > DANGEROUS_MAX))
		r = refuse(name, "an integer from 1 to 1024", value, err);
	return r;
}

/* --- reading words ------------------------------------------------------------------ */

/* A decimal integer of 64 bits that ends at STOP or at the text's end. */
static bool read_int(const char **text, char stop, int64_t *ret)
{
	const char *digits = *text + (**text == '-' || **text == '+');
	char *end;

	if (*digits < '0' || *digits > '9')
		return false;
	errno = 0;
	*ret = strtoll(*text, &end, 10);
	*text = end;
	return !errno && (!*end || *end == stop);
}

static struct json_object *make_int(const char *text)
{
	int64_t n;

	return read_int(&text, '\0', &n) ? json_object_new_int64(n) : NULL;
}

static struct json_object *make_bool(const char *text)
{
	bool yes = !strcmp(text, "true");

	return yes || !strcmp(text, "false") ? json_object_new_boolean(yes) : NULL;
}

static struct json_object *make_string(const char *text)
{
	return json_object_new_string(text);
}

/* A decimal number as JSON has it, with its own digits. */
static struct json_object *make_float(const char *text)
{
	size_t len = strspn(text, "0123456789+-.eE");
	char *end;
	double value;

	if (!len || text[len] || !strpbrk(text, "0123456789"))
		return NULL;
	value = strtod(text, &end);
	return *end ? NULL : json_object_new_double(value);
}

static struct json_object *make_list(const char *text)
{
	struct json_object *list = json_object_new_array();
	int64_t n;

	while (list && *text) {
		if (!read_int(&text, ',', &n) || (*text && !text[1])) {
			json_object_put(list);
			return NULL;
		}
		json_object_array_add(list, json_object_new_int64(n));
		text += *text == ',';
	}
	return list;
}

static const struct {
	const char *name, *want;
	struct json_object *(*make)(const char *text);
} types[] = {
	/* In the order in which they are tried; the last takes any text. */
	{ "bool", "true or false", make_bool },
	{ "int64", "an integer of 64 bits", make_int },
	{ "float", "a number", make_float },
	{ "int64_list", "integers of 64 bits with commas between them", make_list },
	{ "string", "a string", make_string },
};

static int make_typed(const char *key, const char *type, const char *text,
		      struct json_object **ret, struct pf_err *err)
{
	for (size_t i = 0; i < PF_ARRAY_SIZE(types); i++) {
		if (strcmp(types[i].name, type) != 0)
			continue;
		*ret = types[i].make(text);
		if (*ret)
			return 0;
		return pf_err_set(err, -EINVAL, "option %s: expected %s, found %.80s",
				  key, types[i].want, text);
	}
	return pf_err_set(err, -EINVAL,
			  "option %s: expected the type int64, string, float, bool or "
			  "int64_list, found %.80s",
			  key, type);
}

static int make_guessed(const char *key, const char *text, struct json_object **ret,
			struct pf_err *err)
{
	if (!strcmp(key, dangerous)) {
		*ret = make_int(text);
		if (!*ret) /* pf_create_option_check says what it expects */
			*ret = make_string(text);
	}
	for (size_t i = 0; i < PF_ARRAY_SIZE(types) && !*ret; i++)
		if (types[i].make == make_string ||
		    (*text && (types[i].make != make_float || strpbrk(text, ".eE"))))
			*ret = types[i].make(text);
	return *ret ? 0 : pf_err_set(err, -ENOMEM, "no memory for option %s", key);
}

int pf_create_option_parse(const char *text, char **ret_name,
			   struct json_object **ret_value, struct pf_err *err)
{
	const char *equals = strchr(text, '=');
	pf_autofree char *key = equals ? strndup(text, (size_t)(equals - text)) : NULL;
	struct json_object *value = NULL;
	char *colon;
	int r;

	if (!equals || equals == text)
		return pf_err_set(err, -EINVAL,
				  "expected KEY=VALUE or KEY:TYPE=VALUE, found %.80s",
				  text);
	if (!key)
		return pf_err_set(err, -ENOMEM, "no memory for an option");
	colon = strrchr(key, ':');
	if (colon)
		*colon = '\0';
	r = colon ? make_typed(key, colon + 1, equals + 1, &value, err)
		  : make_guessed(key, equals + 1, &value, err);
	if (r == 0)
		r = pf_create_option_check(key, value, err);
	if (r < 0) {
		json_object_put(value);
		return r;
	}
	*ret_name = pf_steal(&key);
	*ret_value = value;
	return 0;
}
