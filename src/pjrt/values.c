/* SPDX-License-Identifier: Apache-2.0 */
/* Named values (attributes, options, properties) as JSON, and back. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/json.h"
#include "pjrtfs/plugin_options.h"

char *pj_string_copy(const char *text, size_t len)
{
	char *copy;

	if (len > INT32_MAX - 1 || !(copy = malloc(len + 1)))
		return NULL;
	memcpy(copy, text ? text : "", text ? len : 0);
	len = text ? pf_err_clean(copy, len) : 0;
	copy[len] = '\0';
	return copy;
}

struct json_object *pj_string_json(const char *text, size_t len)
{
	pf_autofree char *copy = pj_string_copy(text, len);

	return copy ? json_object_new_string(copy) : NULL;
}

/* Few digits that still read back to the same float; JSON has no infinities. */
static struct json_object *float_json(float value)
{
	char digits[32];

	if (!isfinite(value))
		return NULL;
	snprintf(digits, sizeof(digits), "%.9g", (double)value);
	if (!strpbrk(digits, ".e"))
		strcat(digits, ".0");
	return json_object_new_double_s((double)value, digits);
}

static struct json_object *value_json(const PJRT_NamedValue *v)
{
	struct json_object *list;

	switch (v->type) {
	case PJRT_NamedValue_kString:
		return pj_string_json(v->string_value, v->value_size);
	case PJRT_NamedValue_kInt64:
		return json_object_new_int64(v->int64_value);
	case PJRT_NamedValue_kFloat:
		return float_json(v->float_value);
	case PJRT_NamedValue_kBool:
		return json_object_new_boolean(v->bool_value);
	case PJRT_NamedValue_kInt64List:
		if (!v->int64_array_value && v->value_size)
			return NULL;
		list = json_object_new_array();
		for (size_t i = 0; list && i < v->value_size; i++)
			json_object_array_add(list, json_object_new_int64(
							    v->int64_array_value[i]));
		return list;
	}
	return NULL; /* a type newer than this build: null */
}

struct json_object *pj_values_json(const PJRT_NamedValue *values, size_t n)
{
	struct json_object *object = json_object_new_object();

	for (size_t i = 0; object && values && i < n; i++) {
		pf_autofree char *name =
			pj_string_copy(values[i].name, values[i].name_size);

		if (name)
			json_object_object_add(object, name, value_json(&values[i]));
	}
	return object;
}

/* Fill V with JSON, which pf_create_option_check took; a list's elements go to LISTS at *USED. */
static void value_init(PJRT_NamedValue *v, struct json_object *json, int64_t *lists,
		       size_t *used)
{
	v->value_size = 1;
	switch (json_object_get_type(json)) {
	case json_type_string:
		v->type = PJRT_NamedValue_kString;
		v->string_value = json_object_get_string(json);
		v->value_size = (size_t)json_object_get_string_len(json);
		break;
	case json_type_int:
		v->type = PJRT_NamedValue_kInt64;
		v->int64_value = json_object_get_int64(json);
		break;
	case json_type_boolean:
		v->type = PJRT_NamedValue_kBool;
		v->bool_value = json_object_get_boolean(json);
		break;
	case json_type_double:
		v->type = PJRT_NamedValue_kFloat;
		v->float_value = (float)json_object_get_double(json);
		break;
	default:
		v->type = PJRT_NamedValue_kInt64List;
		v->value_size = json_object_array_length(json);
		v->int64_array_value = lists + *used;
		for (size_t i = 0; i < v->value_size; i++)
			lists[(*used)++] =
				json_object_get_int64(json_object_array_get_idx(json, i));
	}
}

int pj_values_init(struct pj_values *ret, struct json_object *options, struct pf_err *err)
{
	size_t used = 0, items = 0;
	int r = 0;

	*ret = (struct pj_values){ 0 };
	if (!options)
		return 0;
	if (!json_object_is_type(options, json_type_object))
		return pf_err_set(err, -EINVAL, "options: %s is not an object",
				  json_object_to_json_string(options));
	json_object_object_foreach(options, name, value) {
		(void)name;
		if (json_object_is_type(value, json_type_array))
			items += json_object_array_length(value);
	}
	ret->items = calloc((size_t)json_object_object_length(options) + 1,
			    sizeof(*ret->items));
	ret->lists = calloc(items + 1, sizeof(*ret->lists));
	if (!ret->items || !ret->lists)
		r = pf_err_set(err, -ENOMEM, "no memory for options");
	json_object_object_foreach(options, key, json) {
		PJRT_NamedValue *v;

		if (r < 0)
			break;
		v = &ret->items[ret->n++];
		v->struct_size = PJRT_NamedValue_STRUCT_SIZE;
		v->name = key;
		v->name_size = strlen(key);
		r = pf_create_option_check(key, json, err);
		if (r == 0)
			value_init(v, json, ret->lists, &used);
	}
	if (r < 0)
		pj_values_release(ret);
	return r;
}

void pj_values_release(struct pj_values *values)
{
	free(values->items);
	free(values->lists);
	*values = (struct pj_values){ 0 };
}
