/* SPDX-License-Identifier: Apache-2.0 */
/* The arrays that main declares, in whatever form. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/program.h"

static int new_params(const char *what, size_t n, struct pf_param **ret,
		      struct pf_err *err)
{
	if (n > PF_MAX_PARAMS)
		return pf_err_set(err, -EINVAL, "the program has %zu %s: at most %d", n,
				  what, PF_MAX_PARAMS);
	*ret = calloc(n + 1, sizeof(**ret));
	return *ret ? 0
		    : pf_err_set(err, -ENOMEM, "no memory for the program's signature");
}

int pf_declared_inputs(struct pf_signature *sig, size_t n, struct pf_err *err)
{
	int r = new_params("arguments", n, &sig->inputs, err);

	sig->n_inputs = r == 0 ? n : 0;
	for (size_t i = 0; i < sig->n_inputs; i++)
		sig->inputs[i].alias_output = -1;
	return r;
}

int pf_declared_outputs(struct pf_signature *sig, size_t n, struct pf_err *err)
{
	int r = new_params("results", n, &sig->outputs, err);

	sig->n_outputs = r == 0 ? n : 0;
	for (size_t i = 0; i < sig->n_outputs; i++)
		sig->outputs[i].alias_output = -1;
	return r;
}

int pf_declared_refuse(const char *what, size_t i, struct pf_slice found,
		       struct pf_err *err)
{
	return pf_err_set(err, -EINVAL,
			  "expected an array of a fixed shape and a known element type "
			  "as main's %s %zu, found %.*s: give main such types",
			  what, i, found.len < 80 ? (int)found.len : 80, found.p);
}

bool pf_declared_fits(const struct pf_param *param)
{
	uint64_t bytes;

	return pf_dtype_valid((int)param->dtype) &&
	       pf_shape_bytes(&param->shape, param->dtype, &bytes, NULL) == 0;
}

/* Take an extent and the "x" behind it off the start of TYPE.  False: none is there. */
static bool take_extent(struct pf_slice *type, int64_t *ret)
{
	size_t n = 0;

	for (*ret = 0; n < type->len && type->p[n] >= '0' && type->p[n] <= '9'; n++)
		if (__builtin_mul_overflow(*ret, 10, ret) ||
		    __builtin_add_overflow(*ret, type->p[n] - '0', ret))
			return false;
	if (n == 0 || n == type->len || type->p[n] != 'x')
		return false;
	type->p += n + 1;
	type->len -= n + 1;
	return true;
}

bool pf_declared_array(struct pf_slice type, struct pf_param *param)
{
	static const char begin[] = "tensor<";
	size_t n = strlen(begin);
	int64_t extent;

	if (type.len <= n || memcmp(type.p, begin, n) || type.p[type.len - 1] != '>')
		return false;
	type.p += n;
	type.len -= n + 1;
	while (take_extent(&type, &extent)) {
		if (param->shape.rank == PF_MAX_RANK)
			return false;
		param->shape.dims[param->shape.rank++] = extent;
	}
	/* An encoding is no part of the name of any type. */
	param->dtype = pf_dtype_parse((const char *)type.p, type.len);
	return pf_declared_fits(param);
}
