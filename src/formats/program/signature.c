/* SPDX-License-Identifier: Apache-2.0 */
/* The signature of a compiled program. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo.pb-c.h"
#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/program.h"

enum { MAX_TUPLE_DEPTH = 8 };

/* Where in the result's tuples an output is. */
struct path {
	unsigned depth;
	uint32_t index[MAX_TUPLE_DEPTH];
};

/* The state of pf_signature_parse. */
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
	pjrtfs__hlo__program_shape__free_unpacked(ps->program, NULL);
	free(ps->names);
	free(ps->paths);
	pf_signature_free(ps->sig);
}

static int no_memory(struct parse *ps)
{
	return pf_err_set(ps->err, -ENOMEM, "no memory for the program's signature");
}

/* A copy that can be printed anywhere; NULL: no memory. */
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

/* Fill PARAM, whose name is set, from SHAPE, the one of WHAT, an argument or a result, number INDEX. */
static int read_param(struct parse *ps, const char *what, size_t index,
		      const Pjrtfs__Hlo__Shape *shape, struct pf_param *param)
{
	const char *why = pf_hlo_array(shape, param);
	char number[24];

	param->alias_output = -1;
	if (!why)
		return 0;
	/* An output's name is its number: once is enough. */
	snprintf(number, sizeof(number), "%zu", index);
	if (strcmp(number, param->name) == 0)
		return pf_err_set(ps->err, -EINVAL, "%s %zu %s", what, index, why);
	return pf_err_set(ps->err, -EINVAL, "%s %zu (%.200s) %s", what, index,
			  param->name, why);
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

	if (n > PF_MAX_PARAMS)
		return pf_err_set(ps->err, -EINVAL,
				  "the program has %zu arguments: at most %d", n,
				  PF_MAX_PARAMS);
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
		r = read_param(ps, "argument", i, ps->program->parameters[i], param);
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

	if (n == PF_MAX_PARAMS)
		return pf_err_set(ps->err, -EINVAL,
				  "the program has more than %d results", PF_MAX_PARAMS);
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
	*param = (struct pf_param){ .name = index_name(n) };
	if (!param->name)
		return no_memory(ps);
	ps->paths[n] = *path;
	ps->sig->n_outputs++;
	r = read_param(ps, "result", n, shape, param);
	if (!pf_layout_is_row_major(&param->layout))
		ps->sig->lays_out = true;
	return r;
}

/* Depth first, which is the order in which PJRT gives the buffers. */
static int read_outputs(struct parse *ps, const Pjrtfs__Hlo__Shape *shape,
			const struct path *path)
{
	struct path inner = *path;
	int r = 0;

	if (shape->element_type != PF_XLA_TUPLE)
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
					  "the optimized program's result is not a valid "
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

static int parse(struct pf_slice module, struct pf_signature **ret, struct pf_err *err)
{
	PF_CLEANUP(parse_release) struct parse ps = { .err = err };
	const struct path top = { 0 };
	int r;

	r = pf_hlo_module_find(module, &ps.module, err);
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
	if (r == 0 && !ps.program->result)
		r = pf_err_set(err, -EINVAL, "the optimized program has no result shape");
	if (r == 0)
		r = read_outputs(&ps, ps.program->result, &top);
	if (r == 0)
		r = read_aliases(&ps);
	if (r == 0)
		r = read_donors(&ps);
	if (r < 0)
		return r;
	if (pf_hlo_module_tiles(&ps.module, ps.sig) < 0)
		return no_memory(&ps);
	r = pf_hlo_module_callbacks(&ps.module, ps.sig, err);
	if (r < 0)
		return r;
	*ret = pf_steal(&ps.sig);
	return 0;
}

int pf_signature_parse(struct pf_shared_bytes proto, bool with_config,
		       struct pf_signature **ret, struct pf_err *err)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT;
	struct pf_signature *sig = NULL;
	int r = pf_hlo_skeleton(proto, with_config, &module, err);

	if (r < 0)
		return r;
	/* Without memory, protobuf-c takes every message for a malformed one. */
	errno = 0;
	r = parse((struct pf_slice){ (const uint8_t *)module.data, module.len }, &sig,
		  err);
	if (errno == ENOMEM) {
		pf_signature_free(sig);
		return pf_err_set(err, -ENOMEM, "no memory for the program's signature");
	}
	if (r == 0)
		*ret = sig;
	return r;
}

int pf_param_name(struct pf_param *param, const char *name, size_t len)
{
	char *copy;

	if (param->named)
		return 0;
	copy = clean_copy((struct pf_slice){ (const uint8_t *)name, len });
	if (!copy)
		return -ENOMEM;
	free(param->name);
	param->name = copy;
	return 0;
}

static void param_release(struct pf_param *param)
{
	free(param->name);
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
	for (size_t i = 0; i < signature->n_callbacks; i++)
		pf_callback_release(&signature->callbacks[i]);
	free(signature->callbacks);
	free(signature->name);
	free(signature);
}

/* ---- arrays that do not fit --------------------------------------------------------------- */

static bool have_same_count(const struct pf_shape *a, const struct pf_shape *b)
{
	int64_t n, m;

	return pf_shape_count(a, &n, NULL) == 0 && pf_shape_count(b, &m, NULL) == 0 &&
	       n == m;
}

static bool have_same_bytes(const struct pf_param *want, enum pf_dtype dtype,
			    const struct pf_shape *shape)
{
	uint64_t n, m;

	return pf_shape_bytes(&want->shape, want->dtype, &n, NULL) == 0 &&
	       pf_shape_bytes(shape, dtype, &m, NULL) == 0 && n == m;
}

const char *pf_param_advice(char *dst, size_t len, const struct pf_param *want,
			    enum pf_dtype dtype, const struct pf_shape *shape,
			    enum pf_untyped untyped)
{
	const char *hint = pf_shape_hint(shape, &want->shape);
	bool retype = dtype != want->dtype;
	bool reshape = !*hint && !pf_shape_equal_but_ones(shape, &want->shape);
	bool fits = untyped == PF_UNTYPED_RAW ? have_same_bytes(want, dtype, shape)
					      : have_same_count(&want->shape, shape);
	char type[32], dims[PF_SHAPE_TEXT];
	int n = 0;

	*dst = '\0';
	if (!fits)
		return dst;
	pf_shape_str(dims, sizeof(dims), PF_DTYPE_INVALID, &want->shape);
	dims[strlen(dims) - 1] = '\0'; /* without its brackets */
	if (untyped && (retype || reshape))
		n = snprintf(dst, len, ": setfattr -n user.pjrtfs.%s -v %s on its %s",
			     retype ? "dtype" : "shape",
			     retype ? pf_dtype_name(want->dtype) : dims + 1,
			     untyped == PF_UNTYPED_RAW ? ".raw" : ".txt");
	else if (retype && pf_dtype_valid((int)dtype))
		n = snprintf(dst, len,
			     reshape ? ": x.astype(\"%s\").reshape(%s)"
				     : ": x.astype(\"%s\")",
			     pf_dtype_numpy(type, sizeof(type), want->dtype), dims + 1);
	else if (reshape)
		n = snprintf(dst, len, ": x.reshape(%s)", dims + 1);
	if (n < (int)len)
		snprintf(dst + n, len - (size_t)n, "%s", hint);
	return dst;
}
