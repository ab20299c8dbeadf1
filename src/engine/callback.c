/* SPDX-License-Identifier: Apache-2.0 */
/* Invocations as workers describe them, checked before anything uses them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { ALIGNMENT = 64 }; /* of arguments */

/* Read the type of an array from *AT, which ends before END, and move *AT behind it. */
static int parse_type(const char **at, const char *end, struct pf_callback_type *type,
		      struct pf_callback_array *ret)
{
	uint64_t bytes;

	if ((size_t)(end - *at) < sizeof(*type))
		return -EPROTO;
	memcpy(type, *at, sizeof(*type));
	*at += sizeof(*type);
	if (type->rank > PF_MAX_RANK ||
	    (size_t)(end - *at) < type->rank * sizeof(ret->shape.dims[0]))
		return -EPROTO;
	ret->shape.rank = type->rank;
	memcpy(ret->shape.dims, *at, type->rank * sizeof(ret->shape.dims[0]));
	*at += type->rank * sizeof(ret->shape.dims[0]);
	for (unsigned i = 0; i < type->rank; i++)
		if (ret->shape.dims[i] < 0)
			return -EPROTO;
	if (type->dtype >= PF_DTYPE_COUNT || !pf_dtype_valid((int)type->dtype) ||
	    pf_dtype_bits((enum pf_dtype)type->dtype) < 8 ||
	    pf_shape_bytes(&ret->shape, (enum pf_dtype)type->dtype, &bytes, NULL) < 0 ||
	    bytes != type->len)
		return -EPROTO;
	ret->dtype = (enum pf_dtype)type->dtype;
	ret->len = bytes;
	return 0;
}

/* Read the arrays of INVOCATION, which follow M; BLOCK has the arguments' bytes. */
static int parse_arrays(struct pf_invocation *invocation, const struct pf_msg_callback *m,
			const char *at, const char *end, const uint8_t *block)
{
	for (uint32_t i = 0; i < m->n_args + m->n_results; i++) {
		struct pf_callback_array *array = &invocation->args[i];
		struct pf_callback_type type;
		int r = parse_type(&at, end, &type, array);

		if (r < 0)
			return r;
		if (i >= m->n_args)
			continue;
		if (type.off % ALIGNMENT || type.off > m->len ||
		    type.len > m->len - type.off)
			return -EPROTO;
		array->data = block + type.off;
	}
	return at == end ? 0 : -EPROTO;
}

int pf_invocation_parse(struct pf_instance *instance, const void *message, size_t len,
			struct pf_invocation *ret)
{
	const char *at = message;
	const uint8_t *block = NULL;
	struct pf_msg_callback m;
	int r;

	if (len < sizeof(m))
		return -EPROTO;
	memcpy(&m, message, sizeof(m));
	if (m.head.len != len || m.n_args > PF_CALLBACK_ARRAYS ||
	    m.n_results > PF_CALLBACK_ARRAYS)
		return -EPROTO;
	if (m.n_args == 0)
		m.off = PF_NO_OFFSET;
	else if (m.off % ALIGNMENT ||
		 !(block = pf_instance_array(instance, m.off, m.len)))
		return -EPROTO;
	*ret = (struct pf_invocation){
		.number = m.number,
		.tag = m.head.tag,
		.index = m.index,
		.block = m.off,
		.n_args = m.n_args,
		.n_results = m.n_results,
		.ordered = m.ordered != 0,
		.args = calloc((size_t)m.n_args + m.n_results + 1, sizeof(*ret->args)),
	};
	if (!ret->args)
		return -ENOMEM;
	ret->results = ret->args + m.n_args;
	r = parse_arrays(ret, &m, at + sizeof(m), at + len, block);
	if (r < 0)
		free(ret->args);
	return r;
}
