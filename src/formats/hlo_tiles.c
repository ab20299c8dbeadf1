/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the partitioner split a program's arguments and results: the module's
 * spmd_parameters_shardings and spmd_output_sharding.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hlo.pb-c.h"
#include "hlo_module.h"

enum {
	MODULE_OUTPUT_SHARDING = 12, /* HloModuleProto: xla/service/hlo.proto */
	MODULE_PARAMETER_SHARDINGS = 14,

	TYPE_REPLICATED = 0, /* OpSharding.Type: xla/xla_data.proto */
	TYPE_TUPLE = 2,
	TYPE_TILED = 3, /* called OTHER there */

	MAX_PARTITIONS = 1024,
	/* Of all arguments and results together; a wild proto must not eat the memory. */
	MAX_ENTRIES = 1 << 22,
};

/* What of the counts belongs to the array: the others are its copies.  -1: no array's. */
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

/* The numbers from 0 to N - 1 in an array of S's dimensions, permuted, into RET. */
static bool permute(const Pjrtfs__Hlo__Sharding *s, unsigned n, unsigned *ret)
{
	size_t rank = s->n_reshape;
	unsigned step[PF_MAX_RANK], size[PF_MAX_RANK], all = 1;
	uint32_t seen = 0;

	if (rank > PF_MAX_RANK || s->n_permutation != rank)
		return false;
	for (size_t i = rank; i-- > 0;) {
		if (s->reshape[i] < 1 || s->reshape[i] > (int64_t)(n / all))
			return false;
		step[i] = all;
		all *= (unsigned)s->reshape[i];
	}
	for (size_t i = 0; i < rank; i++) {
		int32_t from = s->permutation[i];

		if (from < 0 || from >= (int32_t)rank || seen & UINT32_C(1) << from)
			return false;
		seen |= UINT32_C(1) << from;
		size[i] = (unsigned)s->reshape[from];
	}
	if (all != n)
		return false;
	for (unsigned at = 0; at < n; at++) {
		unsigned rest = at;

		ret[at] = 0;
		for (size_t i = rank; i-- > 0;) {
			ret[at] += rest % size[i] * step[s->permutation[i]];
			rest /= size[i];
		}
	}
	return true;
}

static bool listed(const Pjrtfs__Hlo__Sharding *s, unsigned n, unsigned *ret)
{
	if (s->n_partitions != n)
		return false;
	for (unsigned i = 0; i < n; i++) {
		if (s->partitions[i] < 0 || s->partitions[i] >= n)
			return false;
		ret[i] = (unsigned)s->partitions[i];
	}
	return true;
}

/* Which partitions there are in the order of the tiles: each exactly once. */
static bool read_order(const Pjrtfs__Hlo__Sharding *s, unsigned n, unsigned *ret)
{
	bool seen[MAX_PARTITIONS] = { false };

	if (!(s->n_reshape ? permute(s, n, ret) : listed(s, n, ret)))
		return false;
	for (unsigned i = 0; i < n; i++) {
		if (seen[ret[i]])
			return false;
		seen[ret[i]] = true;
	}
	return true;
}

/* Fill T, but for what it owns; into ORDER the partitions in the order of the tiles. */
static bool read_tiles(const Pjrtfs__Hlo__Sharding *s, const struct pf_shape *shape,
		       struct pf_tiles *t, unsigned order[MAX_PARTITIONS])
{
	t->rank = shape->rank;
	t->n = 1;
	for (unsigned d = 0; d < t->rank; d++)
		t->counts[d] = 1;
	if (s->type == TYPE_REPLICATED) {
		t->n = 0;
		return true;
	}
	if (s->type != TYPE_TILED || array_rank(s) != (int)t->rank)
		return false;
	for (size_t i = 0; i < s->n_counts; i++) {
		if (s->counts[i] < 1 || s->counts[i] > MAX_PARTITIONS / t->n)
			return false;
		t->n *= (unsigned)s->counts[i];
		if (i < t->rank)
			t->counts[i] = (unsigned)s->counts[i];
	}
	return read_order(s, t->n, order);
}

static int tell(const Pjrtfs__Hlo__Sharding *s, struct pf_param *param, size_t *left)
{
	unsigned order[MAX_PARTITIONS], each;
	struct pf_tiles t = { 0 };

	if (!read_tiles(s, &param->shape, &t, order) || t.n > *left)
		return 0;
	param->tiles = malloc(sizeof(t));
	if (!param->tiles)
		return -ENOMEM;
	*param->tiles = t;
	if (pf_tiles_count(&t) == 1)
		return 0;
	param->tiles->of = calloc(t.n, sizeof(*t.of));
	if (!param->tiles->of)
		return -ENOMEM;
	*left -= t.n;
	each = t.n / pf_tiles_count(&t);
	for (unsigned i = 0; i < t.n; i++)
		param->tiles->of[order[i]] = (uint16_t)(i / each);
	return 0;
}

static int tell_proto(struct pf_slice proto, struct pf_param *param, size_t *left)
{
	Pjrtfs__Hlo__Sharding *s =
		pjrtfs__hlo__sharding__unpack(NULL, proto.len, proto.p);
	int r = s && !param->tiles ? tell(s, param, left) : 0;

	if (s)
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
	if (s)
		pjrtfs__hlo__sharding__free_unpacked(s, NULL);
	return r;
}

/* There is one for each argument, or else nobody knows whose they are. */
static bool counts_match(const struct pf_hlo_module *module,
			 const struct pf_signature *sig)
{
	struct pf_slice rest = module->all;
	struct pf_field field;
	size_t n = 0;

	while (pf_proto_next(&rest, &field) > 0)
		n += field.number == MODULE_PARAMETER_SHARDINGS;
	return n == sig->n_inputs;
}

int pf_hlo_module_tiles(const struct pf_hlo_module *module, struct pf_signature *sig)
{
	bool inputs = counts_match(module, sig);
	struct pf_slice rest = module->all;
	struct pf_field field;
	size_t left = MAX_ENTRIES, i = 0;
	int r = 0;

	while (r == 0 && pf_proto_next(&rest, &field) > 0) {
		if (field.type != PF_WIRE_BYTES)
			continue;
		if (field.number == MODULE_OUTPUT_SHARDING)
			r = tell_outputs(field.bytes, sig, &left);
		else if (field.number == MODULE_PARAMETER_SHARDINGS && inputs)
			r = tell_proto(field.bytes, &sig->inputs[i++], &left);
	}
	return r;
}
