/* SPDX-License-Identifier: Apache-2.0 */
/* A program's signature as JSON: the file signature.json. */
#include <stdio.h>

#include "pjrtfs/formats/hlo.h"

/* Add VALUE, which is given, also if it is NULL for lack of memory. */
static bool add(struct json_object *object, const char *key, struct json_object *value)
{
	if (!value)
		return false;
	if (json_object_object_add(object, key, value) == 0)
		return true;
	json_object_put(value);
	return false;
}

static bool append(struct json_object *array, struct json_object *value)
{
	if (!value)
		return false;
	if (json_object_array_add(array, value) == 0)
		return true;
	json_object_put(value);
	return false;
}

struct json_object *pf_shape_json(const struct pf_shape *shape)
{
	struct json_object *array = json_object_new_array();

	for (unsigned i = 0; array && i < shape->rank; i++)
		if (!append(array, json_object_new_int64(shape->dims[i]))) {
			json_object_put(array);
			return NULL;
		}
	return array;
}

/* XLA's way to write a layout: the dimensions, the fastest varying one first. */
static struct json_object *layout_json(const struct pf_param *param)
{
	struct json_object *array = json_object_new_array();

	for (unsigned i = 0; array && i < param->shape.rank; i++)
		if (!append(array, json_object_new_int((int)param->minor_to_major[i]))) {
			json_object_put(array);
			return NULL;
		}
	return array;
}

/* The kind of the memory that it lies in, as devices/NAME/N/memories calls it. */
static struct json_object *memory_json(const struct pf_param *param, const char *memory)
{
	/* XLA's Layout::kHostMemorySpace. */
	enum { DEFAULT_SPACE = 0, HOST_SPACE = 5 };
	struct json_object *o;
	char why[64];

	if (param->memory_space == DEFAULT_SPACE)
		return json_object_new_string(memory);
	if (param->memory_space == HOST_SPACE)
		return json_object_new_string("pinned_host");
	snprintf(why, sizeof(why), "memory space %lld has no name",
		 (long long)param->memory_space);
	o = json_object_new_object();
	if (o && !add(o, "unavailable", json_object_new_string(why))) {
		json_object_put(o);
		return NULL;
	}
	return o;
}

/* Into how many parts each dimension is split, and which of them, row by row, each partition
 * has. */
static struct json_object *tiles_json(const struct pf_tiles *tiles)
{
	struct json_object *o = json_object_new_object();
	struct json_object *parts = json_object_new_array();
	struct json_object *of = tiles->of ? json_object_new_array() : NULL;
	bool ok = o && parts && (of || !tiles->of);

	for (unsigned d = 0; ok && d < tiles->rank; d++)
		ok = append(parts, json_object_new_int((int)tiles->counts[d]));
	for (unsigned p = 0; ok && of && p < tiles->n; p++)
		ok = append(of, json_object_new_int(tiles->of[p]));
	ok = ok && add(o, "parts", json_object_get(parts)) &&
	     (!of || add(o, "of", json_object_get(of)));
	json_object_put(parts);
	json_object_put(of);
	if (ok)
		return o;
	json_object_put(o);
	return NULL;
}

static struct json_object *param_json(const struct pf_param *param, bool input,
				      const char *memory)
{
	struct json_object *o = json_object_new_object();
	bool ok;

	if (!o)
		return NULL;
	ok = add(o, "name", json_object_new_string(param->name)) &&
	     add(o, "dtype", json_object_new_string(pf_dtype_name(param->dtype))) &&
	     add(o, "datatype",
		 json_object_new_string(pf_dtype_datatype(param->dtype))) &&
	     add(o, "shape", pf_shape_json(&param->shape)) &&
	     add(o, "layout", layout_json(param)) &&
	     add(o, "memory", memory_json(param, memory));
	if (ok && param->tiles)
		ok = add(o, "sharding", tiles_json(param->tiles));
	if (ok && input)
		ok = add(o, "donated", json_object_new_boolean(param->donated));
	if (ok && param->alias_output >= 0)
		ok = add(o, "alias_output", json_object_new_int(param->alias_output));
	if (ok)
		return o;
	json_object_put(o);
	return NULL;
}

static struct json_object *params_json(const struct pf_param *params, size_t n,
				       bool input, const char *memory)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; array && i < n; i++)
		if (!append(array, param_json(&params[i], input, memory))) {
			json_object_put(array);
			return NULL;
		}
	return array;
}

struct json_object *pf_signature_json(const struct pf_signature *signature,
				      const char *platform, const char *memory)
{
	struct json_object *o = json_object_new_object();

	if (!o)
		return NULL;
	if (add(o, "name", json_object_new_string(signature->name)) &&
	    add(o, "platform", json_object_new_string(platform)) &&
	    add(o, "inputs",
		params_json(signature->inputs, signature->n_inputs, true, memory)) &&
	    add(o, "outputs",
		params_json(signature->outputs, signature->n_outputs, false, memory)))
		return o;
	json_object_put(o);
	return NULL;
}
