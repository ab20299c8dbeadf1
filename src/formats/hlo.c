/* SPDX-License-Identifier: Apache-2.0 */
/* What a compiled program takes and gives. */
#include "pjrtfs/formats/hlo.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo.pb-c.h"
#include "hlo_module.h"

enum {
	XLA_TUPLE = 13,
	XLA_OPAQUE = 14,
	XLA_TOKEN = 17,

	MAX_TUPLE_DEPTH = 8,
	MAX_VALUES =
		65536, /* arguments or results; a wild proto must not eat the memory */
};

/* Where in the result's tuples an output is. */
struct path {
	unsigned depth;
	uint32_t index[MAX_TUPLE_DEPTH];
};

/* What pf_signature_parse works with. */
struct parse {
	struct pf_hlo_module module;
	Pjrtfs__Hlo__ProgramShape *program; /* owned */
	struct pf_slice *names;             /* owned; one for each parameter */
	struct path *paths;       /* owned; one for each output, in ascending order */
	struct pf_signature *sig; /* owned */
	struct pf_err *err;
};

static void parse_release(struct parse *ps)
{
	if (ps->program)
		pjrtfs__hlo__program_shape__free_unpacked(ps->program, NULL);
	free(ps->names);
	free(ps->paths);
	pf_signature_free(ps->sig);
}

static int no_memory(struct parse *ps)
{
	return pf_err_set(ps->err, -ENOMEM, "no memory for the program's signature");
}

/* A copy that can be printed anywhere; NULL if there is no memory. */
static char *clean_copy(struct pf_slice name)
{
	char *copy = malloc(name.len + 1);

	if (!copy)
		return NULL;
	if (name.len)
		memcpy(copy, name.p, name.len);
	copy[pf_err_clean(copy, name.len)] = '\0';
	return copy;
}

static char *index_name(size_t index)
{
	char text[24];

	snprintf(text, sizeof(text), "%zu", index);
	return strdup(text);
}

static int refuse(struct parse *ps, const char *what, size_t index, const char *name,
		  const char *why)
{
	char number[24];

	/* An output's name is its number: once is enough. */
	snprintf(number, sizeof(number), "%zu", index);
	if (strcmp(number, name) == 0)
		return pf_err_set(ps->err, -EINVAL, "%s %zu %s", what, index, why);
	return pf_err_set(ps->err, -EINVAL, "%s %zu (%.200s) %s", what, index, name, why);
}

/* The layout: a permutation of the dimensions, or nothing, which is the default. */
static bool read_layout(const Pjrtfs__Hlo__Layout *layout, struct pf_param *param)
{
	unsigned rank = param->shape.rank;
	uint32_t seen = 0;
	bool descending = true;

	for (unsigned i = 0; i < rank; i++)
		param->minor_to_major[i] = rank - 1 - i;
	param->row_major = true;
	param->memory_space = layout ? layout->memory_space : 0;
	if (!layout || layout->n_minor_to_major == 0)
		return true;
	if (layout->n_minor_to_major != rank)
		return false;
	for (unsigned i = 0; i < rank; i++) {
		int64_t dim = layout->minor_to_major[i];

		if (dim < 0 || dim >= rank || seen & UINT32_C(1) << dim)
			return false;
		seen |= UINT32_C(1) << dim;
		param->minor_to_major[i] = (unsigned)dim;
		descending = descending && dim == rank - 1 - i;
	}
	param->row_major = descending || pf_shape_is_linear(&param->shape);
	return true;
}

/* Fill PARAM, whose name is set, from SHAPE; WHAT and INDEX are for messages. */
static int read_array(struct parse *ps, const char *what, size_t index,
		      const Pjrtfs__Hlo__Shape *shape, struct pf_param *param)
{
	int64_t count;

	switch (shape->element_type) {
	case XLA_TUPLE:
		return refuse(ps, what, index, param->name,
			      "is a tuple: plugins execute only programs of arrays");
	case XLA_TOKEN:
		return refuse(ps, what, index, param->name,
			      "is a token: plugins abort on those; remove it");
	case XLA_OPAQUE:
		return refuse(ps, what, index, param->name,
			      "is opaque: only arrays have bytes");
	default:
		break;
	}
	param->dtype = pf_dtype_from_xla(shape->element_type);
	if (!pf_dtype_valid((int)param->dtype))
		return refuse(ps, what, index, param->name,
			      "has an unknown element type");
	if (shape->n_dimensions > PF_MAX_RANK)
		return refuse(ps, what, index, param->name,
			      "has more than 32 dimensions");
	for (size_t i = 0; i < shape->n_is_dynamic_dimension; i++)
		if (shape->is_dynamic_dimension[i])
			return refuse(ps, what, index, param->name,
				      "has a dynamic dimension: plugins abort on those; "
				      "give it a fixed size");
	param->shape.rank = (unsigned)shape->n_dimensions;
	for (unsigned i = 0; i < param->shape.rank; i++) {
		/* XLA writes unbounded dynamic extents as the least number. */
		if (shape->dimensions[i] < 0)
			return refuse(ps, what, index, param->name,
				      "has a negative or unbounded dimension");
		param->shape.dims[i] = shape->dimensions[i];
	}
	if (pf_shape_count(&param->shape, &count, NULL) < 0)
		return refuse(ps, what, index, param->name,
			      "has more than 2^63-1 elements");
	if (!read_layout(shape->layout, param))
		return refuse(ps, what, index, param->name,
			      "has a layout that is no order of its dimensions");
	return 0;
}

/* The framework's name, else the program shape's, else the number. */
static char *input_name(const struct parse *ps, size_t index)
{
	const Pjrtfs__Hlo__ProgramShape *program = ps->program;

	if (ps->names[index].len)
		return clean_copy(ps->names[index]);
	if (index < program->n_parameter_names && program->parameter_names[index].len)
		return clean_copy(
			(struct pf_slice){ program->parameter_names[index].data,
					   program->parameter_names[index].len });
	return index_name(index);
}

static int read_inputs(struct parse *ps)
{
	size_t n = ps->program->n_parameters;
	int r;

	if (n > MAX_VALUES)
		return pf_err_set(ps->err, -EINVAL,
				  "the program has %zu arguments: at most %d", n,
				  MAX_VALUES);
	ps->names = calloc(n ? n : 1, sizeof(*ps->names));
	ps->sig->inputs = calloc(n ? n : 1, sizeof(*ps->sig->inputs));
	if (!ps->names || !ps->sig->inputs)
		return no_memory(ps);
	r = pf_hlo_module_names(&ps->module, ps->names, n, ps->err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		struct pf_param *param = &ps->sig->inputs[i];

		param->name = input_name(ps, i);
		if (!param->name)
			return no_memory(ps);
		ps->sig->n_inputs++;
		param->named = ps->names[i].len > 0;
		param->path = pf_param_path(param->name);
		if (!param->path)
			return no_memory(ps);
		param->alias_output = -1;
		r = read_array(ps, "argument", i, ps->program->parameters[i], param);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Room for one more output: capacities are the powers of two. */
static int grow_outputs(struct parse *ps)
{
	size_t n = ps->sig->n_outputs, cap;
	struct pf_param *outputs;
	struct path *paths;

	if (n == MAX_VALUES)
		return pf_err_set(ps->err, -EINVAL,
				  "the program has more than %d results", MAX_VALUES);
	if (n & (n - 1))
		return 0;
	cap = n ? 2 * n : 1;
	outputs = reallocarray(ps->sig->outputs, cap, sizeof(*outputs));
	if (!outputs)
		return no_memory(ps);
	ps->sig->outputs = outputs;
	paths = reallocarray(ps->paths, cap, sizeof(*paths));
	if (!paths)
		return no_memory(ps);
	ps->paths = paths;
	return 0;
}

static int read_output(struct parse *ps, const Pjrtfs__Hlo__Shape *shape,
		       const struct path *path)
{
	size_t n = ps->sig->n_outputs;
	struct pf_param *param;
	int r = grow_outputs(ps);

	if (r < 0)
		return r;
	param = &ps->sig->outputs[n];
	*param = (struct pf_param){ .alias_output = -1, .name = index_name(n) };
	if (!param->name)
		return no_memory(ps);
	ps->paths[n] = *path;
	ps->sig->n_outputs++;
	return read_array(ps, "result", n, shape, param);
}

/* Depth first, which is the order in which PJRT gives the buffers. */
static int read_outputs(struct parse *ps, const Pjrtfs__Hlo__Shape *shape,
			const struct path *path)
{
	struct path inner = *path;
	int r = 0;

	if (shape->element_type != XLA_TUPLE)
		return read_output(ps, shape, path);
	if (path->depth == MAX_TUPLE_DEPTH)
		return pf_err_set(ps->err, -EINVAL,
				  "the result's tuples are nested deeper than %d",
				  MAX_TUPLE_DEPTH);
	inner.depth++;
	for (size_t i = 0; i < shape->n_tuple_shapes && r == 0; i++) {
		Pjrtfs__Hlo__Shape *part =
			pjrtfs__hlo__shape__unpack(NULL, shape->tuple_shapes[i].len,
						   shape->tuple_shapes[i].data);

		if (!part)
			return pf_err_set(ps->err, -EINVAL,
					  "the optimized program's result is no valid "
					  "ShapeProto");
		inner.index[path->depth] = (uint32_t)i;
		r = read_outputs(ps, part, &inner);
		pjrtfs__hlo__shape__free_unpacked(part, NULL);
	}
	return r;
}

/* Paths that name an inner tuple, not an output, compare unequal to all of them. */
static int path_compare(const void *key, const void *member)
{
	const Pjrtfs__Hlo__InputOutputAlias__Entry *entry = key;
	const struct path *path = member;

	for (size_t i = 0; i < entry->n_output_shape_index && i < path->depth; i++) {
		int64_t index = entry->output_shape_index[i];

		if (index != path->index[i])
			return index < path->index[i] ? -1 : 1;
	}
	return (entry->n_output_shape_index > path->depth) -
	       (entry->n_output_shape_index < path->depth);
}

static struct pf_param *donated_input(struct parse *ps, int64_t number)
{
	if (number < 0 || (uint64_t)number >= ps->sig->n_inputs) {
		pf_err_set(ps->err, -EINVAL,
			   "the program donates argument %lld: it has %zu arguments",
			   (long long)number, ps->sig->n_inputs);
		return NULL;
	}
	ps->sig->inputs[number].donated = true;
	return &ps->sig->inputs[number];
}

static int read_aliases(struct parse *ps)
{
	struct pf_slice proto = ps->module.input_output_alias;
	Pjrtfs__Hlo__InputOutputAlias *alias;
	int r = 0;

	if (!proto.p)
		return 0;
	alias = pjrtfs__hlo__input_output_alias__unpack(NULL, proto.len, proto.p);
	if (!alias)
		return pf_err_set(
			ps->err, -EINVAL,
			"the optimized program's input_output_alias is malformed");
	for (size_t i = 0; i < alias->n_entries && r == 0; i++) {
		const Pjrtfs__Hlo__InputOutputAlias__Entry *entry = alias->entries[i];
		struct pf_param *param = donated_input(ps, entry->parameter_number);
		const struct path *found;

		if (!param) {
			r = -EINVAL;
			break;
		}
		if (ps->sig->n_outputs == 0)
			continue;
		found = bsearch(entry, ps->paths, ps->sig->n_outputs, sizeof(*found),
				path_compare);
		if (found)
			param->alias_output = (int)(found - ps->paths);
	}
	pjrtfs__hlo__input_output_alias__free_unpacked(alias, NULL);
	return r;
}

static int read_donors(struct parse *ps)
{
	struct pf_slice proto = ps->module.buffer_donor;
	Pjrtfs__Hlo__BufferDonor *donor;
	int r = 0;

	if (!proto.p)
		return 0;
	donor = pjrtfs__hlo__buffer_donor__unpack(NULL, proto.len, proto.p);
	if (!donor)
		return pf_err_set(ps->err, -EINVAL,
				  "the optimized program's buffer_donor is malformed");
	for (size_t i = 0; i < donor->n_entries && r == 0; i++)
		if (!donated_input(ps, donor->entries[i]->parameter_number))
			r = -EINVAL;
	pjrtfs__hlo__buffer_donor__free_unpacked(donor, NULL);
	return r;
}

int pf_signature_parse(const void *proto, size_t len, bool with_config,
		       struct pf_signature **ret, struct pf_err *err)
{
	PF_CLEANUP(parse_release) struct parse ps = { .err = err };
	const struct path top = { 0 };
	int r;

	r = pf_hlo_module_find((struct pf_slice){ proto, len }, with_config, &ps.module,
			       err);
	if (r < 0)
		return r;
	if (!ps.module.program_shape.p)
		return pf_err_set(err, -EINVAL,
				  "the optimized program has no host_program_shape");
	ps.program = pjrtfs__hlo__program_shape__unpack(NULL, ps.module.program_shape.len,
							ps.module.program_shape.p);
	if (!ps.program)
		return pf_err_set(
			err, -EINVAL,
			"the optimized program's host_program_shape is malformed");
	ps.sig = calloc(1, sizeof(*ps.sig));
	if (!ps.sig)
		return no_memory(&ps);
	ps.sig->name = clean_copy(ps.module.name);
	if (!ps.sig->name)
		return no_memory(&ps);
	r = read_inputs(&ps);
	if (r < 0)
		return r;
	if (!ps.program->result)
		return pf_err_set(err, -EINVAL,
				  "the optimized program has no result shape");
	r = read_outputs(&ps, ps.program->result, &top);
	if (r < 0)
		return r;
	r = read_aliases(&ps);
	if (r < 0)
		return r;
	r = read_donors(&ps);
	if (r < 0)
		return r;
	if (pf_hlo_module_tiles(&ps.module, ps.sig) < 0)
		return no_memory(&ps);
	*ret = pf_steal(&ps.sig);
	return 0;
}

int pf_param_name(struct pf_param *param, const char *name, size_t len)
{
	pf_autofree char *copy = NULL;
	char *path;

	if (param->named)
		return 0;
	copy = clean_copy((struct pf_slice){ (const uint8_t *)name, len });
	path = copy ? pf_param_path(copy) : NULL;
	if (!path)
		return -ENOMEM;
	free(param->name);
	free(param->path);
	param->name = pf_steal(&copy);
	param->path = path;
	return 0;
}

int pf_hlo_unwrap(const void *proto, size_t len, bool with_config, size_t *off,
		  size_t *module_len, struct pf_err *err)
{
	const struct pf_slice all = { proto, len };
	struct pf_hlo_module module;
	int r = pf_hlo_module_find(all, with_config, &module, err);

	if (r < 0)
		return r;
	*off = (size_t)(module.all.p - all.p);
	*module_len = module.all.len;
	return 0;
}

static void param_release(struct pf_param *param)
{
	free(param->name);
	free(param->path);
	pf_tiles_free(param->tiles);
}

static void params_free(struct pf_param *params, size_t n)
{
	for (size_t i = 0; i < n; i++)
		param_release(&params[i]);
	free(params);
}

int pf_signature_drop_platform(struct pf_signature *signature, struct pf_err *err)
{
	struct pf_param *inputs = signature->inputs;

	if (signature->n_inputs == 0 || inputs[0].dtype != PF_DTYPE_S32 ||
	    inputs[0].shape.rank != 0)
		return pf_err_set(err, -EINVAL,
				  "expected the number of the platform as the program's "
				  "first argument, an S32, as jax.export writes it for "
				  "several platforms, found another one");
	param_release(&inputs[0]);
	signature->n_inputs--;
	memmove(inputs, inputs + 1, signature->n_inputs * sizeof(*inputs));
	return 0;
}

void pf_signature_free(struct pf_signature *signature)
{
	if (!signature)
		return;
	params_free(signature->inputs, signature->n_inputs);
	params_free(signature->outputs, signature->n_outputs);
	free(signature->name);
	free(signature);
}
