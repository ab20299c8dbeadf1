#include "content.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "pjrtfs/formats/text.h"

/* How many bytes the whole content will have, if that is known. */
bool pf_content_expected(const struct pf_buffer *b, uint64_t *ret)
{
	switch (b->format) {
	case PF_FORMAT_NPY:
		if (!b->npy.header_len)
			return false;
		*ret = b->npy.header_len + b->npy.data_len;
		return true;
	case PF_FORMAT_RAW:
		return b->shaped &&
		       pf_shape_bytes(&b->declared_shape, b->declared, ret, NULL) == 0;
	default:
		return false;
	}
}

static int check_npy(const struct pf_npy *npy, uint64_t size, struct pf_err *err)
{
	char shape[128];
	uint64_t all = npy->header_len + npy->data_len;

	if (!npy->header_len)
		return pf_err_set(err, -EINVAL,
				  "%" PRIu64 " bytes are no whole .npy header", size);
	if (size != all)
		return pf_err_set(err, -EINVAL,
				  "%s takes %" PRIu64 " bytes of data, %" PRIu64 " came",
				  pf_shape_str(shape, sizeof(shape), npy->dtype,
					       &npy->shape),
				  npy->data_len, size - npy->header_len);
	return 0;
}

static int check_raw(const struct pf_buffer *b, struct pf_err *err)
{
	char shape[128];
	uint64_t all;

	if (!b->shaped ||
	    pf_shape_bytes(&b->declared_shape, b->declared, &all, NULL) < 0 ||
	    all == b->size)
		return 0;
	return pf_err_set(err, -EINVAL, "%s takes %" PRIu64 " bytes, %" PRIu64 " came",
			  pf_shape_str(shape, sizeof(shape), b->declared,
				       &b->declared_shape),
			  all, b->size);
}

int pf_content_check(const struct pf_buffer *b, enum pf_format format, struct pf_err *err)
{
	struct pf_npy npy = { 0 };
	int r;

	if (format == PF_FORMAT_NONE)
		return 0;
	if (!b->content && !b->value && format != PF_FORMAT_RAW)
		return pf_err_set(err, -EINVAL, "an empty file is no array");
	if (format == PF_FORMAT_RAW)
		return check_raw(b, err);
	if (format == PF_FORMAT_NPY && b->content) {
		r = pf_npy_parse(pf_bytes_at(b->content, 0), b->size, &npy, err);
		return r < 0 ? r : check_npy(&npy, b->size, err);
	}
	return 0;
}

/* What the content means as an array, once it is whole. */
struct meaning {
	enum pf_dtype dtype;
	struct pf_shape shape;
	struct pf_bytes *bytes; /* owned reference */
	uint64_t off, len;
};

static int npy_meaning(struct pf_buffer *b, struct meaning *m, struct pf_err *err)
{
	const struct pf_place *place = b->place;
	const struct pf_npy *npy = &b->npy;
	struct pf_bytes *bytes;
	int r = check_npy(npy, b->size, err);

	if (r < 0)
		return r;
	m->dtype = npy->dtype;
	m->shape = npy->shape;
	m->len = npy->data_len;
	if (m->dtype == PF_DTYPE_INVALID) {
		m->dtype = b->declared;
		if (pf_dtype_size(b->declared) != npy->void_size)
			return pf_err_set(
				err, -EINVAL,
				"the file calls its elements '|V%u' and "
				"names no type: create the buffer with a dtype of "
				"%u bytes first",
				npy->void_size, npy->void_size);
	}
	if (!npy->fortran_order) {
		m->bytes = pf_bytes_ref(b->content);
		m->off = npy->header_len;
		return 0;
	}
	r = pf_bytes_new(place->arena, m->len, &bytes, err);
	if (r < 0)
		return r;
	pf_shape_to_row_major(&m->shape, pf_dtype_size(m->dtype),
			      pf_bytes_at(b->content, npy->header_len),
			      pf_bytes_at(bytes, 0));
	m->bytes = bytes;
	return 0;
}

static int raw_meaning(struct pf_buffer *b, struct meaning *m, struct pf_err *err)
{
	const struct pf_place *place = b->place;
	int r = check_raw(b, err);

	if (r < 0)
		return r;
	if (b->shaped) {
		m->dtype = b->declared;
		m->shape = b->declared_shape;
	} else {
		m->dtype = PF_DTYPE_U8;
		m->shape = (struct pf_shape){ .rank = 1, .dims = { (int64_t)b->size } };
	}
	m->len = b->size;
	if (b->content)
		m->bytes = pf_bytes_ref(b->content);
	else
		r = pf_bytes_new(place->arena, 1, &m->bytes, err);
	return r;
}

static int txt_meaning(struct pf_buffer *b, struct meaning *m, struct pf_err *err)
{
	const struct pf_place *place = b->place;
	pf_autobuf struct pf_buf data = PF_BUF_INIT;
	int r;

	m->dtype = b->declared ? b->declared : PF_DTYPE_F32;
	r = pf_text_parse(pf_bytes_at(b->content, 0), b->size, m->dtype, &m->shape, &data,
			  err);
	if (r < 0)
		return r;
	/* Rows of numbers fill a declared shape in order. */
	if (b->shaped) {
		uint64_t want;

		r = pf_shape_bytes(&b->declared_shape, m->dtype, &want, err);
		if (r < 0)
			return r;
		if (want == data.len)
			m->shape = b->declared_shape;
	}
	m->len = data.len;
	r = pf_bytes_new(place->arena, data.len, &m->bytes, err);
	if (r == 0)
		memcpy(pf_bytes_at(m->bytes, 0), data.data, data.len);
	return r;
}

static int meaning_of(struct pf_buffer *b, struct meaning *m, struct pf_err *err)
{
	if (!b->content && b->format != PF_FORMAT_RAW)
		return pf_err_set(err, -EINVAL, "an empty file is no array");
	switch (b->format) {
	case PF_FORMAT_NPY:
		return npy_meaning(b, m, err);
	case PF_FORMAT_RAW:
		return raw_meaning(b, m, err);
	case PF_FORMAT_TXT:
		return txt_meaning(b, m, err);
	default:
		return pf_err_set(err, -EINVAL, "a scratch file is no array");
	}
}

bool pf_content_is_whole(const struct pf_buffer *b)
{
	uint64_t all;

	if (b->format == PF_FORMAT_NPY && !b->npy.header_len)
		return false;
	return !pf_content_expected(b, &all) || b->size == all;
}

struct pf_value *pf_content_value(struct pf_buffer *b, struct pf_err *err)
{
	const struct pf_place *place = b->place;
	struct meaning m = { 0 };
	struct pf_value *v = NULL;

	if (meaning_of(b, &m, err) == 0) {
		if (b->content)
			pf_arena_shrink(place->arena, &b->content->extent,
					b->content->start + b->size);
		v = pf_value_of_bytes(m.dtype, &m.shape, m.len, m.bytes, m.off,
				      place->worker, place->device, b->memory);
		if (!v)
			pf_err_set(err, -ENOMEM, "no memory for a value");
	}
	pf_bytes_unref(m.bytes);
	return v;
}
