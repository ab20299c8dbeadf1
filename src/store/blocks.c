/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of values. */
#include "pjrtfs/store/blocks.h"

#include <errno.h>
#include <string.h>

enum { IN_PLACE = 64 }; /* bytes: plugins use arrays at such addresses where they lie */

/* VALUE's bytes in the arena, with a reference, if the block can be used in them: *OFF. */
static struct pf_bytes *shareable(struct pf_value *v, const struct pf_block *block,
				  uint64_t *off)
{
	uint64_t first;

	if (!pf_block_is_run(block, &first))
		return NULL;
	PF_LOCK_SCOPE(&v->lock);
	if (!v->bytes)
		return NULL;
	*off = v->bytes_off + first * pf_dtype_size(v->dtype);
	return pf_bytes_offset(v->bytes, *off) % IN_PLACE ? NULL : pf_bytes_ref(v->bytes);
}

static uint64_t bytes_of(enum pf_dtype dtype, const struct pf_block *block)
{
	int64_t count = 0;

	/* A part of what was counted when the value was made. */
	(void)pf_shape_count(&block->part, &count, NULL);
	return (uint64_t)count * pf_dtype_size(dtype);
}

uint64_t pf_value_cut_copies(struct pf_value *v, const struct pf_block *block)
{
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *shared = NULL;
	uint64_t off;

	shared = shareable(v, block, &off);
	return shared ? 0 : bytes_of(v->dtype, block);
}

int pf_value_cut(struct pf_value *v, const struct pf_block *block,
		 struct pf_worker *worker, unsigned device, struct pf_value **ret,
		 struct pf_err *err)
{
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *bytes = NULL;
	uint64_t off = 0, len = bytes_of(v->dtype, block);
	const void *host;
	int r;

	bytes = shareable(v, block, &off);
	if (!bytes) {
		off = 0;
		host = pf_value_host(v);
		if (!host)
			return pf_err_set(err, -EIO, "its bytes are gone");
		r = pf_bytes_new(pf_worker_arena(worker), len, &bytes, err);
		if (r < 0)
			return r;
		pf_block_cut(block, pf_dtype_size(v->dtype), host, pf_bytes_at(bytes, 0));
	}
	*ret = pf_value_of_bytes(v->dtype, &block->part, len, bytes, off, worker, device,
				 UINT32_MAX);
	return *ret ? 0 : pf_err_set(err, -ENOMEM, "no memory for a value");
}

int pf_value_join(struct pf_value *const *parts, const struct pf_block *blocks,
		  unsigned n, struct pf_worker *worker, unsigned device,
		  struct pf_value **ret, struct pf_err *err)
{
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *bytes = NULL;
	enum pf_dtype dtype = parts[0]->dtype;
	uint64_t len;
	int r = pf_shape_bytes(&blocks[0].whole, dtype, &len, err);

	if (r == 0)
		r = pf_bytes_new(pf_worker_arena(worker), len, &bytes, err);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < n; i++) {
		const void *host = pf_value_host(parts[i]);

		if (!host)
			return pf_err_set(err, -EIO, "its bytes are gone");
		pf_block_paste(&blocks[i], pf_dtype_size(dtype), host,
			       pf_bytes_at(bytes, 0));
	}
	*ret = pf_value_of_bytes(dtype, &blocks[0].whole, len, bytes, 0, worker, device,
				 UINT32_MAX);
	return *ret ? 0 : pf_err_set(err, -ENOMEM, "no memory for a value");
}
