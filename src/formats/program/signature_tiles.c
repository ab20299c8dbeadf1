/* SPDX-License-Identifier: Apache-2.0 */
/* How the partitioner split a program's arguments and results: the module's spmd_parameters_shardings and
 * spmd_output_sharding. */
#include <errno.h>
#include <stdlib.h>

#include "hlo.pb-c.h"
#include "internal.h"
#include "pjrtfs/program.h"

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
		if (field.number == PF_MODULE_OUTPUT_SHARDING)
			r = tell_outputs(field.bytes, sig, &left);
		else if (field.number == PF_MODULE_PARAMETER_SHARDINGS && inputs)
			r = tell_proto(field.bytes, &sig->inputs[i++], &left);
	}
	return r;
}
