/* SPDX-License-Identifier: Apache-2.0 */
/* A program's signature as JSON: the file signature.json. */
#include <stdio.h>

#include "pjrtfs/json.h"
#include "pjrtfs/program.h"

/* N integers of SIZE bytes each. */
static struct json_object *numbers_json(const void *numbers, size_t size, size_t n)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < n; i++) {
		int64_t number = size == sizeof(int64_t) ? ((const int64_t *)numbers)[i]
				 : size == sizeof(unsigned)
					 ? ((const unsigned *)numbers)[i]
					 : ((const uint16_t *)numbers)[i];

		pf_json_append(array, json_object_new_int64(number));
	}
	return array;
}

struct json_object *pf_shape_json(const struct pf_shape *shape)
{
	return numbers_json(shape->dims, sizeof(shape->dims[0]), shape->rank);
}

struct json_object *pf_layout_json(const struct pf_layout *layout, unsigned rank)
{
	unsigned dims[PF_MAX_RANK];

	for (unsigned i = 0; i < rank; i++)
		dims[i] = pf_layout_dim(layout, rank, i);
	return numbers_json(dims, sizeof(dims[0]), rank);
}

/* Add the kind of the memory that it lies in, as devices/NAME/N/memories calls it. */
static void add_memory(struct json_object *o, const struct pf_param *param,
		       const char *memory)
{
	/* XLA's Layout::kHostMemorySpace. */
	enum { DEFAULT_SPACE = 0, HOST_SPACE = 5 };
	struct json_object *none;
	char why[64];

	if (param->memory_space == DEFAULT_SPACE) {
		pf_json_add_string(o, "memory", memory);
	} else if (param->memory_space == HOST_SPACE) {
		pf_json_add_string(o, "memory", "pinned_host");
	} else {
		snprintf(why, sizeof(why), "memory space %lld has no name",
			 (long long)param->memory_space);
		none = json_object_new_object();
		pf_json_add_string(none, "unavailable", why);
		pf_json_add(o, "memory", none);
	}
}

/* Into how many parts each dimension is split, and which of them, row by row, each partition
 * has. */
static struct json_object *tiles_json(const struct pf_tiles *tiles)
{
	struct json_object *o = json_object_new_object();

	pf_json_add(o, "parts",
		    numbers_json(tiles->counts, sizeof(tiles->counts[0]), tiles->rank));
	if (tiles->of)
		pf_json_add(o, "of",
			    numbers_json(tiles->of, sizeof(tiles->of[0]), tiles->n));
	return o;
}

static void add_array(struct json_object *o, const struct pf_param *param)
{
	pf_json_add_string(o, "dtype", pf_dtype_name(param->dtype));
	pf_json_add_string(o, "datatype", pf_dtype_datatype(param->dtype));
	pf_json_add(o, "shape", pf_shape_json(&param->shape));
}

static struct json_object *param_json(const struct pf_param *param, bool input,
				      const char *memory)
{
	struct json_object *o = json_object_new_object();

	pf_json_add_string(o, "name", param->name);
	add_array(o, param);
	pf_json_add(o, "layout", pf_layout_json(&param->layout, param->shape.rank));
	add_memory(o, param, memory);
	if (param->tiles)
		pf_json_add(o, "sharding", tiles_json(param->tiles));
	if (input)
		pf_json_add(o, "donated", json_object_new_boolean(param->donated));
	if (param->alias_output >= 0)
		pf_json_add_int(o, "alias_output", param->alias_output);
	return o;
}

static struct json_object *params_json(const struct pf_param *params, size_t n,
				       bool input, const char *memory)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < n; i++)
		pf_json_append(array, param_json(&params[i], input, memory));
	return array;
}

static struct json_object *arrays_json(const struct pf_param *params, size_t n)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < n; i++) {
		struct json_object *o = json_object_new_object();

		add_array(o, &params[i]);
		pf_json_append(array, o);
	}
	return array;
}

static struct json_object *callbacks_json(const struct pf_signature *signature)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < signature->n_callbacks; i++) {
		const struct pf_callback_sig *c = &signature->callbacks[i];
		struct json_object *o = json_object_new_object();

		pf_json_add(o, "index", json_object_new_uint64(c->index));
		pf_json_add_string(o, "target", c->target);
		pf_json_add(o, "ordered", json_object_new_boolean(c->ordered));
		pf_json_add(o, "side_effect", json_object_new_boolean(c->side_effect));
		pf_json_add(o, "inputs", arrays_json(c->inputs, c->n_inputs));
		pf_json_add(o, "outputs", arrays_json(c->outputs, c->n_outputs));
		pf_json_append(array, o);
	}
	return array;
}

struct json_object *pf_signature_json(const struct pf_signature *signature,
				      const char *platform, const char *memory)
{
	struct json_object *o = json_object_new_object();

	pf_json_add_string(o, "name", signature->name);
	pf_json_add_string(o, "platform", platform);
	pf_json_add(o, "inputs",
		    params_json(signature->inputs, signature->n_inputs, true, memory));
	pf_json_add(o, "outputs",
		    params_json(signature->outputs, signature->n_outputs, false, memory));
	if (signature->n_callbacks)
		pf_json_add(o, "callbacks", callbacks_json(signature));
	return o;
}
