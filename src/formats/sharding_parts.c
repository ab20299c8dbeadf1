/* SPDX-License-Identifier: Apache-2.0 */
/* Shardings: which part of an array each device has. */
#include <errno.h>
#include <string.h>

#include "pjrtfs/formats/sharding.h"

unsigned pf_sharding_parts(const struct pf_sharding *s, unsigned dim)
{
	unsigned n = 1;

	for (unsigned i = 0; i < s->n_by[dim]; i++)
		n *= s->axes[s->by[dim][i]].size;
	return n;
}

void pf_sharding_at(const struct pf_sharding *s, unsigned i, unsigned at[PF_MAX_RANK])
{
	unsigned on[PF_MAX_AXES];

	for (unsigned a = s->n_axes; a-- > 0;) {
		on[a] = i % s->axes[a].size;
		i /= s->axes[a].size;
	}
	for (unsigned d = 0; d < s->rank; d++) {
		at[d] = 0;
		for (unsigned k = 0; k < s->n_by[d]; k++)
			at[d] = at[d] * s->axes[s->by[d][k]].size + on[s->by[d][k]];
	}
}

unsigned pf_sharding_block(const struct pf_sharding *s, unsigned i)
{
	unsigned at[PF_MAX_RANK], block = 0;

	pf_sharding_at(s, i, at);
	for (unsigned d = 0; d < s->rank; d++)
		block = block * pf_sharding_parts(s, d) + at[d];
	return block;
}

unsigned pf_sharding_blocks(const struct pf_sharding *s)
{
	unsigned n = 1;

	for (unsigned d = 0; d < s->rank; d++)
		n *= pf_sharding_parts(s, d);
	return n;
}

int pf_sharding_find(const struct pf_sharding *s, const char *name)
{
	for (unsigned i = 0; s->devices && i < s->n; i++)
		if (!strcmp(s->devices[i], name))
			return (int)i;
	return -1;
}

/* axis "x" of size 2; axes "x", "y" of 4 parts. */
static int indivisible(const struct pf_sharding *s, unsigned dim, int64_t size,
		       struct pf_err *err)
{
	pf_autobuf struct pf_buf axes = PF_BUF_INIT;

	for (unsigned i = 0; i < s->n_by[dim]; i++)
		pf_buf_printf(&axes, "%s\"%s\"", i ? ", " : "",
			      s->axes[s->by[dim][i]].name);
	return pf_err_set(err, -EINVAL,
			  "dimension %u has %lld elements, which ax%s %s of size %u "
			  "cannot divide evenly",
			  dim, (long long)size, s->n_by[dim] == 1 ? "is" : "es",
			  axes.data ? axes.data : "", pf_sharding_parts(s, dim));
}

int pf_sharding_divide(const struct pf_sharding *s, const struct pf_shape *whole,
		       struct pf_shape *ret, struct pf_err *err)
{
	*ret = *whole;
	for (unsigned d = 0; d < s->rank; d++) {
		unsigned parts = pf_sharding_parts(s, d);

		if (whole->dims[d] % parts)
			return indivisible(s, d, whole->dims[d], err);
		ret->dims[d] /= parts;
	}
	return 0;
}

int pf_sharding_multiply(const struct pf_sharding *s, const struct pf_shape *shard,
			 struct pf_shape *ret, struct pf_err *err)
{
	int64_t count;

	*ret = *shard;
	for (unsigned d = 0; d < s->rank; d++)
		if (__builtin_mul_overflow(shard->dims[d],
					   (int64_t)pf_sharding_parts(s, d),
					   &ret->dims[d]))
			return pf_err_set(err, -EOVERFLOW,
					  "dimension %u of all shards together has more "
					  "than 2^63-1 elements",
					  d);
	return pf_shape_count(ret, &count, err);
}

void pf_sharding_part(const struct pf_sharding *s, const struct pf_shape *whole,
		      unsigned i, struct pf_block *ret)
{
	unsigned at[PF_MAX_RANK];

	ret->whole = ret->part = *whole;
	pf_sharding_at(s, i, at);
	for (unsigned d = 0; d < s->rank; d++) {
		ret->part.dims[d] /= pf_sharding_parts(s, d);
		ret->start[d] = at[d] * ret->part.dims[d];
	}
}
