/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shapes, names of element types, and packing.  The first byte is an element type and a
 * length; the rest is a type's name, extents, and elements.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "pjrtfs/array.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every name of a type that was read is read as that type again. */
static void check_names(const char *text, size_t len)
{
	enum pf_dtype dtype = pf_dtype_parse(text, len), again;
	const char *name;

	assert(dtype == PF_DTYPE_INVALID || pf_dtype_valid((int)dtype));
	if (dtype != PF_DTYPE_INVALID) {
		name = pf_dtype_name(dtype);
		assert(pf_dtype_parse(name, strlen(name)) == dtype);
		name = pf_dtype_datatype(dtype);
		assert(pf_dtype_parse(name, strlen(name)) == dtype);
		name = pf_dtype_npy_descr(dtype);
		again = pf_dtype_parse(name, strlen(name));
		assert(again == PF_DTYPE_INVALID ||
		       pf_dtype_size(again) == pf_dtype_size(dtype));
	}
	dtype = pf_dtype_from_safetensors(text, len);
	if (dtype != PF_DTYPE_INVALID) {
		name = pf_dtype_safetensors(dtype);
		assert(strlen(name) == len && memcmp(name, text, len) == 0);
	}
}

/* The product, but for zeros, in more bits than it may have. */
static bool fits(const struct pf_shape *shape)
{
	unsigned __int128 n = 1;

	for (unsigned i = 0; i < shape->rank && n <= INT64_MAX; i++)
		if (shape->dims[i])
			n *= (uint64_t)shape->dims[i];
	return n <= INT64_MAX;
}

static void check_shape(const struct pf_shape *shape, enum pf_dtype dtype, size_t room)
{
	uint64_t bytes = 0;
	int64_t count = -1;
	char cut[256];
	int r = pf_shape_count(shape, &count, NULL);

	assert(r == (fits(shape) ? 0 : -EOVERFLOW));
	if (pf_shape_bytes(shape, dtype, &bytes, NULL) == 0) {
		assert(bytes == (uint64_t)count * pf_dtype_size(dtype));
		assert(pf_pack_size(dtype, (uint64_t)count) <= bytes);
	}
	(void)pf_shape_is_linear(shape);
	pf_shape_str(cut, room, dtype, shape);
	assert(room == 0 || strlen(cut) < room);
}

/* Packed and unpacked, elements are the same; a second time, all of their bytes are. */
static void check_packing(const uint8_t *src, size_t size, enum pf_dtype dtype)
{
	size_t n = size / pf_dtype_size(dtype), bytes = (size_t)pf_pack_size(dtype, n);
	unsigned char *packed = malloc(bytes + 1), *again = malloc(bytes + 1);
	unsigned char *host = malloc(size + 1);

	if (packed && again && host) {
		pf_pack(packed, src, n, dtype);
		pf_unpack(host, packed, n, dtype);
		pf_pack(again, host, n, dtype);
		assert(memcmp(packed, again, bytes) == 0);
		for (size_t i = 0; pf_dtype_bits(dtype) < 8 && i < n; i++)
			assert(((src[i] ^ host[i]) &
				((1u << pf_dtype_bits(dtype)) - 1)) == 0);
	}
	free(packed);
	free(again);
	free(host);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pf_shape shape;
	enum pf_dtype dtype;
	unsigned first;

	if (size < 1)
		return 0;
	first = *data++;
	size--;
	dtype = (enum pf_dtype)(first % PF_DTYPE_COUNT);
	check_names((const char *)data, size);
	shape.rank = (unsigned)(size / sizeof(int64_t));
	if (shape.rank > PF_MAX_RANK)
		shape.rank = PF_MAX_RANK;
	memcpy(shape.dims, data, shape.rank * sizeof(int64_t));
	for (unsigned i = 0; i < shape.rank; i++)
		shape.dims[i] &= INT64_MAX;
	check_shape(&shape, dtype, first);
	if (pf_dtype_valid((int)dtype))
		check_packing(data, size, dtype);
	return 0;
}
