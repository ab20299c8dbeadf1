/* SPDX-License-Identifier: Apache-2.0 */
/* The signature of a program whose plugin gives no HLO: what the program declares, and what the plugin
 * tells of the results. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/array.h"
#include "pjrtfs/json.h"

/* The number under KEY of INFO; 0: it has none. */
static int64_t number(struct json_object *info, const char *key)
{
	int64_t n;

	return pf_json_get_int(json_object_object_get(info, key), &n) ? n : 0;
}

static bool read_shape(struct json_object *dims, struct pf_shape *ret)
{
	size_t rank = json_object_is_type(dims, json_type_array)
			      ? json_object_array_length(dims)
			      : SIZE_MAX;

	if (rank > PF_MAX_RANK)
		return false;
	ret->rank = (unsigned)rank;
	for (size_t i = 0; i < rank; i++)
		if (!pf_json_get_int(json_object_array_get_idx(dims, i), &ret->dims[i]))
			return false;
	return true;
}

/* Give PARAM, a result, the TYPE and the extents DIMS that the worker told.  False: they are none. */
static bool take_result(struct json_object *type, struct json_object *dims,
			struct pf_param *param)
{
	struct pf_shape shape = { 0 };
	uint64_t bytes;
	int64_t n;

	if (!pf_json_get_int(type, &n) || n < 0 || n >= PF_DTYPE_COUNT ||
	    !pf_dtype_valid((int)n) || !read_shape(dims, &shape) ||
	    pf_shape_bytes(&shape, (enum pf_dtype)n, &bytes, NULL) < 0)
		return false;
	/* A plugin may compute in another type than it was asked for. */
	if (param->dtype == (enum pf_dtype)n && pf_shape_equal(&param->shape, &shape))
		return true;
	param->dtype = (enum pf_dtype)n;
	param->shape = shape;
	param->layout = (struct pf_layout){ 0 };
	return true;
}

/* The results as INFO has them; where it has no types, they stay as they were declared. */
static int take_results(const struct compile *c, struct json_object *info,
			struct pf_signature *sig, struct pf_err *err)
{
	/* A plugin does not offer each fact. */
	struct json_object *types = pf_json_get(info, "output_types", json_type_array),
			   *dims = pf_json_get(info, "output_dims", json_type_array);

	if (number(info, "num_outputs") != (int64_t)sig->n_outputs)
		return pf_err_set(err, -EOPNOTSUPP,
				  "plugin %s gives %lld results, the program's main %zu",
				  pf_worker_name(c->plan.worker),
				  (long long)number(info, "num_outputs"), sig->n_outputs);
	if (!types || !dims)
		return 0;
	if (json_object_array_length(types) != sig->n_outputs ||
	    json_object_array_length(dims) != sig->n_outputs)
		return pf_err_set(
			err, -EPROTO,
			"the worker told the types of %zu results and the shapes "
			"of %zu, of %zu",
			json_object_array_length(types), json_object_array_length(dims),
			sig->n_outputs);
	for (size_t i = 0; i < sig->n_outputs; i++)
		if (!take_result(json_object_array_get_idx(types, i),
				 json_object_array_get_idx(dims, i), &sig->outputs[i]))
			return pf_err_set(err, -EPROTO,
					  "the worker told a type of result %zu that no "
					  "array has",
					  i);
	return 0;
}

/* What C's program declares, for a module called NAME. */
static int declared(const struct compile *c, const char *name, struct pf_signature **ret,
		    struct pf_err *err)
{
	const char *bytes = pf_bytes_at(c->module, 0);
	const struct pf_program_facts *facts = &c->facts;

	if (strcmp(c->format, "hlo") == 0)
		return pf_signature_parse(pf_shared_of(bytes + facts->off, facts->len),
					  false, ret, err);
	return pf_program_declared(facts, bytes, facts->off + facts->len, name, ret, err);
}

int pf_compile_declared(const struct compile *c, struct json_object *info,
			struct pf_signature **ret, struct pf_err *err)
{
	const char *name = pf_json_get_string(info, "name");
	struct pf_signature *sig = NULL;
	int r;

	/* The program's own types are those of the whole, not of a partition. */
	if (number(info, "num_partitions") > 1)
		return pf_err_set(err, -EOPNOTSUPP,
				  "plugin %s does not tell what the arguments of a "
				  "partition are: compile the program for one partition",
				  pf_worker_name(c->plan.worker));
	r = declared(c, *name ? name : "main", &sig, err);
	if (r < 0 && r != -ENOMEM)
		r = pf_err_wrap(err, -EOPNOTSUPP,
				"plugin %s does not tell what the program's arguments "
				"are, and the program does not, either",
				pf_worker_name(c->plan.worker));
	if (r == 0)
		r = take_results(c, info, sig, err);
	if (r < 0)
		pf_signature_free(sig);
	else
		*ret = sig;
	return r;
}
