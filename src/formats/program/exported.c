/* SPDX-License-Identifier: Apache-2.0 */
/* What jax.export serializes: the module in it, its platforms and shapes. */
#include <errno.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/program.h"

/*
 * Reading a FlatBuffer in place.
 *
 * A table begins with the distance back to its vtable, which says where in the table each
 * field is, or 0 for one that is not there.  A value without a fixed size is elsewhere: the field
 * holds the distance to it.  All numbers are little-endian, and each is checked.
 */

/* Numbers of fields, by their order in the schema. */
enum {
	EXPORTED_IN_AVALS = 3,
	EXPORTED_PLATFORMS = 9,
	EXPORTED_MODULE = 13,
	EXPORTED_UNIQUE_AVALS = 19,

	AVAL_SHAPE = 1,

	/* Limits: many vectors may share one table, and time must not be their product. */
	MAX_AVALS = 65536,
	MAX_RANK = 64,
};

static bool inside(const struct pf_slice *f, size_t at, size_t len)
{
	return at <= f->len && len <= f->len - at;
}

/* N bytes at AT as a number; 0 outside. */
static uint32_t number(const struct pf_slice *f, size_t at, size_t n)
{
	uint32_t value = 0;

	for (size_t i = 0; inside(f, at, n) && i < n; i++)
		value |= (uint32_t)f->p[at + i] << (8 * i);
	return value;
}

/* Where field ID of the table at TABLE is; 0: it has none. */
static size_t field(const struct pf_slice *f, size_t table, unsigned id)
{
	int64_t vtable;
	size_t size, slot = 4 + 2 * (size_t)id, off;

	if (!inside(f, table, 4))
		return 0;
	vtable = (int64_t)table - (int32_t)number(f, table, 4);
	if (vtable < 0 || !inside(f, (size_t)vtable, 4))
		return 0;
	size = number(f, (size_t)vtable, 2);
	if (slot + 2 > size || !inside(f, (size_t)vtable, size))
		return 0;
	off = number(f, (size_t)vtable + slot, 2);
	return off && inside(f, table, off) ? table + off : 0;
}

/* The target of the offset at AT; 0: none. */
static size_t follow(const struct pf_slice *f, size_t at)
{
	size_t off = at ? number(f, at, 4) : 0;

	return off && inside(f, at, off) && inside(f, at + off, 4) ? at + off : 0;
}

/* The vector (or string) in field ID: its first member in *AT, how many there are in *N. */
static bool vector(const struct pf_slice *f, size_t table, unsigned id, size_t size,
		   size_t *at, size_t *n)
{
	size_t start = follow(f, field(f, table, id));

	if (!start)
		return false;
	*n = number(f, start, 4);
	*at = start + 4;
	return *n <= (f->len - *at) / size;
}

/* Member I of the vector of strings at AT; false if it is outside. */
static bool string(const struct pf_slice *f, size_t at, size_t i, const char **ret,
		   size_t *ret_len)
{
	size_t start = follow(f, at + 4 * i);

	if (!start)
		return false;
	*ret_len = number(f, start, 4);
	*ret = (const char *)f->p + start + 4;
	return inside(f, start + 4, *ret_len);
}

static int read_platforms(const struct pf_slice *f, size_t root,
			  struct pf_program_facts *ret, struct pf_err *err)
{
	size_t at, n, used = 0;

	if (!vector(f, root, EXPORTED_PLATFORMS, 4, &at, &n) || n == 0)
		return pf_err_set(err, -EINVAL,
				  "expected what jax.export writes, found something "
				  "else (it names no platforms)");
	for (size_t i = 0; i < n; i++) {
		const char *name;
		size_t len;

		if (!string(f, at, i, &name, &len) || len == 0 ||
		    used + len + 2 > sizeof(ret->platforms))
			return pf_err_set(err, -EINVAL,
					  "expected what jax.export writes, found "
					  "something else (platform %zu of %zu has no "
					  "name)",
					  i, n);
		if (used)
			ret->platforms[used++] = ' ';
		memcpy(ret->platforms + used, name, len);
		used += len;
		ret->platforms[used] = '\0';
	}
	return 0;
}

static bool is_fixed(const char *extent, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (extent[i] < '0' || extent[i] > '9')
			return false;
	return len > 0;
}

/* Extents are texts, because they may be unknown: "a", "2*b". */
static int check_shapes(const struct pf_slice *f, size_t root, unsigned id,
			struct pf_err *err)
{
	size_t avals, n, at, rank;

	if (!vector(f, root, id, 4, &avals, &n))
		return 0;
	for (size_t i = 0; i < n && i < MAX_AVALS; i++) {
		size_t aval = follow(f, avals + 4 * i);

		if (!aval || !vector(f, aval, AVAL_SHAPE, 4, &at, &rank))
			continue;
		for (size_t k = 0; k < rank && k < MAX_RANK; k++) {
			const char *extent;
			size_t len;

			if (!string(f, at, k, &extent, &len) || is_fixed(extent, len))
				continue;
			return pf_err_set(
				err, -EINVAL,
				"expected fixed shapes, found dimension %zu of an "
				"argument as \"%.*s\": " PF_GIVE_NUMBERS,
				k, len < 40 ? (int)len : 40, extent);
		}
	}
	return 0;
}

int pf_exported_find(const void *bytes, size_t len, struct pf_program_facts *ret,
		     struct pf_err *err)
{
	const struct pf_slice f = { bytes, len };
	size_t root = number(&f, 0, 4), at, n;
	int r;

	if (!root || !vector(&f, root, EXPORTED_MODULE, 1, &at, &n))
		return pf_err_set(err, -EINVAL,
				  "expected what jax.export writes, found something else "
				  "or a truncated file");
	if (n < 4 || memcmp(f.p + at, "ML\xefR", 4) != 0)
		return pf_err_set(
			err, -EINVAL,
			"expected what jax.export writes, with MLIR bytecode in "
			"it, found %zu bytes of something else",
			n);
	ret->off = at;
	ret->len = n;
	r = read_platforms(&f, root, ret, err);
	if (r == 0)
		r = check_shapes(&f, root, EXPORTED_IN_AVALS, err);
	if (r == 0)
		r = check_shapes(&f, root, EXPORTED_UNIQUE_AVALS, err);
	return r;
}
