/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures: any bytes as an optimized program, plain and with a configuration; and bytes that
 * another thread changes meanwhile, as a worker can.
 */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "pjrtfs/program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tiles(const struct pf_tiles *tiles, unsigned rank)
{
	unsigned at[PF_MAX_RANK], all = pf_tiles_count(tiles);

	assert(tiles->rank == rank && (tiles->of || all == 1));
	for (unsigned p = 0; tiles->of && p < tiles->n; p++) {
		assert(tiles->of[p] < all);
		pf_tiles_at(tiles, p, at);
		for (unsigned d = 0; d < rank; d++)
			assert(at[d] < tiles->counts[d]);
	}
}

static void check_params(const struct pf_param *params, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t seen = 0;
		int64_t count;

		assert(params[i].name && pf_dtype_valid((int)params[i].dtype));
		assert(params[i].shape.rank <= PF_MAX_RANK);
		if (params[i].tiles)
			check_tiles(params[i].tiles, params[i].shape.rank);
		assert(pf_shape_count(&params[i].shape, &count, NULL) == 0 && count >= 0);
		for (unsigned k = 0; k < params[i].shape.rank; k++)
			seen |= UINT32_C(1) << pf_layout_dim(&params[i].layout,
							     params[i].shape.rank, k);
		assert(seen == (uint32_t)((UINT64_C(1) << params[i].shape.rank) - 1));
	}
}

static void check_callbacks(const struct pf_signature *sig)
{
	for (size_t i = 0; i < sig->n_callbacks; i++) {
		const struct pf_callback_sig *c = &sig->callbacks[i];

		assert(c->target && (i == 0 || c[-1].index < c->index));
		for (size_t k = 0; k < c->n_inputs + c->n_outputs; k++) {
			const struct pf_param *param =
				k < c->n_inputs ? &c->inputs[k]
						: &c->outputs[k - c->n_inputs];

			assert(pf_dtype_valid((int)param->dtype));
			assert(pf_layout_is_row_major(&param->layout));
		}
	}
}

/* Bytes that change until they are over. */
struct changing {
	uint8_t *bytes;
	size_t len;
	atomic_bool over;
};

static void *change(void *arg)
{
	struct changing *c = arg;

	for (uint32_t n = 1; !c->over; n = n * 1664525 + 1013904223)
		((volatile uint8_t *)c->bytes)[(n >> 8) % c->len] ^= (uint8_t)(n >> 24);
	return NULL;
}

/* What is read of them may be anything; the sanitizers see what it does. */
static void parse_changing(const uint8_t *data, size_t size)
{
	struct changing c = { .bytes = malloc(size), .len = size };
	pthread_t thread;

	memcpy(c.bytes, data, size);
	if (pthread_create(&thread, NULL, change, &c))
		abort();
	for (int i = 0; i < 10; i++) {
		struct pf_signature *sig = NULL;

		if (pf_signature_parse(pf_shared_of(c.bytes, size), false, &sig, NULL) ==
		    0)
			pf_signature_free(sig);
	}
	c.over = true;
	pthread_join(thread, NULL);
	free(c.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct pf_shared_bytes bytes = pf_shared_of(data, size);

	for (int with_config = 0; with_config < 2; with_config++) {
		struct pf_signature *sig = NULL;
		struct pf_err err = PF_ERR_INIT;
		int r = pf_signature_parse(bytes, with_config, &sig, &err);
		struct pf_shared_bytes module;

		if (pf_hlo_unwrap(bytes, with_config, &module, NULL) == 0)
			assert(module.len <= size);
		else
			assert(r < 0);

		assert(r == err.code && (r == 0) == (sig != NULL));
		if (r < 0)
			continue;
		check_params(sig->inputs, sig->n_inputs);
		check_params(sig->outputs, sig->n_outputs);
		check_callbacks(sig);
		for (size_t i = 0; i < sig->n_inputs; i++)
			assert(sig->inputs[i].alias_output < (int)sig->n_outputs);
		json_object_put(pf_signature_json(sig, "cpu", "device"));
		pf_signature_free(sig);
	}
	if (size && data[size - 1] % 8 == 0) /* a thread costs as much as twenty inputs */
		parse_changing(data, size);
	return 0;
}
