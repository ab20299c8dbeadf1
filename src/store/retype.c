/* SPDX-License-Identifier: Apache-2.0 */
/* What a buffer is as an array, and making it another one of the same bytes. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "content.h"

static bool type_locked(const struct pf_buffer *b, enum pf_dtype *dtype,
			struct pf_shape *shape)
{
	if (b->value) {
		*dtype = b->value->dtype;
		*shape = b->value->shape;
	} else if (b->shaped) {
		*dtype = b->declared;
		*shape = b->declared_shape;
	} else if (b->format == PF_FORMAT_RAW) {
		*dtype = b->declared ? b->declared : PF_DTYPE_U8;
		*shape = (struct pf_shape){ .rank = 1 };
		shape->dims[0] = (int64_t)(b->size / pf_dtype_size(*dtype));
	} else {
		return false;
	}
	return true;
}

bool pf_buffer_type(struct pf_buffer *b, enum pf_dtype *dtype, struct pf_shape *shape)
{
	PF_LOCK_SCOPE(&b->lock);
	return type_locked(b, dtype, shape);
}

/* What it is by its value, or as its header says. */
static bool says_locked(const struct pf_buffer *b, enum pf_dtype *dtype,
			struct pf_shape *shape)
{
	if (!b->value && b->format == PF_FORMAT_NPY && b->header_len &&
	    b->npy.dtype != PF_DTYPE_INVALID) {
		*dtype = b->npy.dtype;
		*shape = b->npy.shape;
		return true;
	}
	return type_locked(b, dtype, shape) && b->value;
}

/* Only what says nothing of itself can be told what it is. */
static int check_retype(const struct pf_buffer *b, struct pf_err *err)
{
	char shape[128];

	if (b->format == PF_FORMAT_NPY && b->header_len &&
	    b->npy.dtype != PF_DTYPE_INVALID)
		return pf_err_set(err, -EINVAL, "its .npy header says %s",
				  pf_shape_str(shape, sizeof(shape), b->npy.dtype,
					       &b->npy.shape));
	if (b->value && !b->content)
		return pf_err_set(err, -EINVAL,
				  "only raw bytes, text and a .npy without a type can be "
				  "given one");
	return 0;
}

/* The shape that the raw bytes have with elements of DTYPE: the one they have, or one row. */
static int fit_shape(struct pf_buffer *b, enum pf_dtype dtype, struct pf_err *err)
{
	size_t size = pf_dtype_size(dtype);
	uint64_t want;

	if (!b->size ||
	    (b->shaped && pf_shape_bytes(&b->declared_shape, dtype, &want, NULL) == 0 &&
	     want == b->size))
		return 0;
	if (b->size % size)
		return pf_err_set(err, -EINVAL,
				  "%" PRIu64 " bytes are no whole number of %s", b->size,
				  pf_dtype_name(dtype));
	b->declared_shape = (struct pf_shape){ .rank = 1 };
	b->declared_shape.dims[0] = (int64_t)(b->size / size);
	b->shaped = true;
	return 0;
}

int pf_buffer_set_dtype(struct pf_buffer *b, enum pf_dtype dtype, struct pf_err *err)
{
	struct pf_shape shape;
	enum pf_dtype now;
	int r;

	PF_LOCK_SCOPE(&b->lock);
	if (says_locked(b, &now, &shape) && now == dtype)
		return 0;
	r = check_retype(b, err);
	if (r == 0 && b->format == PF_FORMAT_NPY && b->header_len &&
	    pf_dtype_size(dtype) != b->npy.void_size)
		r = pf_err_set(err, -EINVAL, "%s has %zu bytes, its .npy header says %u",
			       pf_dtype_name(dtype), pf_dtype_size(dtype),
			       b->npy.void_size);
	if (r == 0 && b->format == PF_FORMAT_RAW)
		r = fit_shape(b, dtype, err);
	if (r < 0)
		return r;
	b->declared = dtype;
	return b->size && b->format != PF_FORMAT_NONE ? 1 : 0;
}

/* May the content have the shape, with which it takes WANT bytes? */
static int check_shape(const struct pf_buffer *b, const struct pf_shape *shape,
		       enum pf_dtype dtype, uint64_t want, struct pf_err *err)
{
	char text[128];

	/* Before its header has come, or its name, whatever is said is remembered. */
	if (b->format == PF_FORMAT_NPY && b->header_len &&
	    !pf_shape_equal(&b->npy.shape, shape))
		return pf_err_set(err, -EINVAL, "its .npy header says another shape: %s",
				  pf_shape_str(text, sizeof(text), dtype, &b->npy.shape));
	if ((b->format == PF_FORMAT_RAW && b->size && want != b->size) ||
	    (b->value && want != b->value->len))
		return pf_err_set(err, -EINVAL,
				  "%s takes %" PRIu64 " bytes, there are %" PRIu64,
				  pf_shape_str(text, sizeof(text), dtype, shape), want,
				  b->value ? b->value->len : b->size);
	return 0;
}

int pf_buffer_set_shape(struct pf_buffer *b, const struct pf_shape *shape,
			struct pf_err *err)
{
	struct pf_shape was = { 0 };
	enum pf_dtype dtype = PF_DTYPE_INVALID;
	uint64_t want;
	int r;

	PF_LOCK_SCOPE(&b->lock);
	if (says_locked(b, &dtype, &was) && pf_shape_equal(&was, shape))
		return 0;
	r = check_retype(b, err);
	if (r < 0)
		return r;
	if (!b->value && b->declared)
		dtype = b->declared;
	if (dtype == PF_DTYPE_INVALID)
		dtype = b->format == PF_FORMAT_TXT ? PF_DTYPE_F32 : PF_DTYPE_U8;
	r = pf_shape_bytes(shape, dtype, &want, err);
	if (r == 0)
		r = check_shape(b, shape, dtype, want, err);
	if (r < 0)
		return r;
	b->declared = dtype;
	b->declared_shape = *shape;
	b->shaped = true;
	return b->size && b->format != PF_FORMAT_NONE ? 1 : 0;
}

int pf_buffer_fill(struct pf_buffer *b, const void *element, struct pf_err *err)
{
	const struct pf_place *place = b->place;
	size_t size;
	uint64_t len;
	char *at;
	int r;

	PF_LOCK_SCOPE(&b->lock);
	size = pf_dtype_size(b->declared);
	r = pf_shape_bytes(&b->declared_shape, b->declared, &len, err);
	if (r == 0 && len)
		r = pf_bytes_room(&b->content, place->arena, b->size, len, len, 0, err);
	if (r < 0 || !len)
		return r;
	at = pf_bytes_at(b->content, 0);
	memcpy(at, element, size);
	/* What is there doubles until it is all. */
	for (uint64_t done = size; done < len; done *= 2)
		memcpy(at + done, at, done < len - done ? done : len - done);
	b->size = len;
	b->state = PF_BUFFER_INCOMPLETE;
	return 0;
}
