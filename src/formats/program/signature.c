/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo.pb-c.h"
#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"
#include "pjrtfs/program.h"

/*
 * How the partitioner split a program's arguments and results: the module's
 * spmd_parameters_shardings and spmd_output_sharding.
 */

enum {
	TYPE_REPLICATED = 0, /* OpSharding.Type: xla/xla_data.proto */
	TYPE_TUPLE = 2,
	TYPE_TILED = 3, /* called OTHER there */

	/* Of all arguments and results together; limits the memory of malformed protos. */
	MAX_ENTRIES = 1 << 22,
};

/* How many of the counts are the array's; the others count its copies.  -1: S is of no array. */
static int array_rank(const Pjrtfs__Hlo__Sharding *s)
{
	size_t n = s->n_counts;

	if (s->last_replicated)
		return n ? (int)n - 1 : -1;
	if (s->n_subgroups > n)
		return -1;
	for (size_t i = 0; i < s->n_subgroups; i++)
		if (s->subgroups[i] != TYPE_REPLICATED)
			return -1;
	return (int)(n - s->n_subgroups);
}

/* S of an array of RANK dimensions; false: it does not tell each partition's part. */
static bool read_tiling(const Pjrtfs__Hlo__Sharding *s, unsigned rank,
			struct pf_tiling *ret)
{
	*ret = (struct pf_tiling){ .n_counts = s->n_counts,
				   .counts = s->counts,
				   .n_copies = s->n_counts - rank,
				   .n_order = s->n_partitions,
				   .order = s->partitions,
				   .n_reshape = s->n_reshape,
				   .reshape = s->reshape,
				   .permutation = s->permutation };
	return s->type == TYPE_TILED && array_rank(s) == (int)rank &&
	       s->n_permutation == s->n_reshape;
}

static int tell(const Pjrtfs__Hlo__Sharding *s, struct pf_param *param, size_t *left)
{
	struct pf_tiling tiling;
	struct pf_tiles t = { .rank = param->shape.rank };
	int r = 0;

	for (unsigned d = 0; d < t.rank; d++)
		t.counts[d] = 1;
	if (s->type != TYPE_REPLICATED) {
		if (!read_tiling(s, t.rank, &tiling))
			return 0;
		r = pf_tiles_of(&tiling, t.rank, &t, NULL);
	}
	if (r < 0 || t.n > *left) {
		free(t.of);
		return r == -ENOMEM ? r : 0;
	}
	param->tiles = malloc(sizeof(t));
	if (!param->tiles) {
		free(t.of);
		return -ENOMEM;
	}
	*param->tiles = t;
	if (t.of)
		*left -= t.n;
	return 0;
}

static int tell_proto(struct pf_slice proto, struct pf_param *param, size_t *left)
{
	Pjrtfs__Hlo__Sharding *s =
		pjrtfs__hlo__sharding__unpack(NULL, proto.len, proto.p);
	int r = s && !param->tiles ? tell(s, param, left) : 0;

	pjrtfs__hlo__sharding__free_unpacked(s, NULL);
	return r;
}

static int tell_outputs(struct pf_slice proto, struct pf_signature *sig, size_t *left)
{
	Pjrtfs__Hlo__Sharding *s =
		pjrtfs__hlo__sharding__unpack(NULL, proto.len, proto.p);
	int r = 0;

	if (s && s->type == TYPE_TUPLE && s->n_tuple == sig->n_outputs)
		for (size_t i = 0; i < s->n_tuple && r == 0; i++)
			r = tell_proto((struct pf_slice){ s->tuple[i].data,
							  s->tuple[i].len },
				       &sig->outputs[i], left);
	else if (s && sig->n_outputs == 1)
		r = tell_proto(proto, &sig->outputs[0], left);
	pjrtfs__hlo__sharding__free_unpacked(s, NULL);
	return r;
}

/* Is there one for each argument?  Else it is unknown to which they belong. */
static bool counts_match(const struct pf_hlo_module *module,
			 const struct pf_signature *sig)
{
	struct pf_slice rest = module->all;
	struct pf_field field;
	size_t n = 0;

	while (pf_proto_next(&rest, &field) > 0)
		n += field.number == PF_MODULE_PARAMETER_SHARDINGS;
	return n == sig->n_inputs;
}

/*
 * Set the tiles of SIG's arguments and results, as far as the module has them and arrays of
 * that rank can be split so; a malformed sharding is ignored.  0 or -ENOMEM.
 */
static int read_all_tiles(const struct pf_hlo_module *module, struct pf_signature *sig)
{
	bool inputs = counts_match(module, sig);
	struct pf_slice rest = module->all;
	struct pf_field field;
	size_t left = MAX_ENTRIES, i = 0;
	int r = 0;

	while (r == 0 && pf_proto_next(&rest, &field) > 0) {
		if (field.type != PF_WIRE_BYTES)
			continue;
		if (field.number == PF_MODULE_OUTPUT_SHARDING)
			r = tell_outputs(field.bytes, sig, &left);
		else if (field.number == PF_MODULE_PARAMETER_SHARDINGS && inputs)
			r = tell_proto(field.bytes, &sig->inputs[i++], &left);
	}
	return r;
}

/* The signature of a compiled program. */

enum {
	MAX_TUPLE_DEPTH = 8,
	MAX_VALUES =
		65536, /* arguments or results; limits the memory of malformed protos */
};

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
	if (read_all_tiles(&ps.module, ps.sig) < 0)
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

/* A program's signature as JSON: the file signature.json. */

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

/* ---- arrays that do not fit --------------------------------------------------------------- */

const char *pf_param_advice(char *dst, size_t len, const struct pf_param *want,
			    enum pf_dtype dtype, const struct pf_shape *shape, bool text)
{
	const char *hint = pf_shape_hint(shape, &want->shape);
	bool retype = dtype != want->dtype;
	bool reshape = !*hint && !pf_shape_equal_but_ones(shape, &want->shape);
	char type[32], dims[PF_SHAPE_TEXT];
	int64_t have_n, want_n;
	int n = 0;

	*dst = '\0';
	if (pf_shape_count(shape, &have_n, NULL) < 0 ||
	    pf_shape_count(&want->shape, &want_n, NULL) < 0 || have_n != want_n)
		return dst;
	pf_shape_str(dims, sizeof(dims), PF_DTYPE_INVALID, &want->shape);
	dims[strlen(dims) - 1] = '\0'; /* without its brackets */
	if (text && (retype || reshape))
		n = snprintf(dst, len, ": setfattr -n user.pjrtfs.%s -v %s on its .txt",
			     retype ? "dtype" : "shape",
			     retype ? pf_dtype_name(want->dtype) : dims + 1);
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
