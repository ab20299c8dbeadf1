/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/array.h"
#include "pjrtfs/array_files.h"

bool pf_stem_has_words(const char *stem, size_t len)
{
	return (len == strlen("merges") && !memcmp(stem, "merges", len)) ||
	       (len == strlen("vocab") && !memcmp(stem, "vocab", len));
}

enum pf_format pf_format_of(const char *name, size_t *stem_len)
{
	size_t len = strlen(name);

	for (unsigned f = PF_FORMAT_NPY; f < PF_FORMAT_COUNT; f++) {
		size_t ext = strlen(pf_formats[f].extension);

		if (len > ext && !strcmp(name + len - ext, pf_formats[f].extension) &&
		    !(f == PF_FORMAT_TXT && pf_stem_has_words(name, len - ext))) {
			if (stem_len)
				*stem_len = len - ext;
			return f;
		}
	}
	if (stem_len)
		*stem_len = len;
	return PF_FORMAT_NONE;
}

const char *pf_format_extension(enum pf_format format)
{
	return pf_formats[format].extension;
}

/* Does a file of FORMAT say in a header what it holds? */
static bool has_header(enum pf_format format)
{
	return pf_formats[format].head != NULL;
}

/* Bytes of a header of many tensors that take 10 ms to parse. */
enum { LONG_HEADER = 1 << 20 };

/*
 * Has the header a hole, in a file whose end is written first?  A hole reads as zeros,
 * which are not JSON, and the codec's message about them would mislead.
 */
static bool has_hole(const char *file, uint64_t len)
{
	const uint64_t json = sizeof(uint64_t);

	return len > json && memchr(file + json, 0, len - json);
}

static void note_head(struct pf_buffer *b, const struct pf_safetensors *st)
{
	b->header_len = (uint32_t)st->header_len;
	b->data_len = st->data_len;
	b->tensors = (uint32_t)st->n;
}

static int safetensors_head(struct pf_buffer *b, const char *head, bool long_too,
			    struct pf_err *err)
{
	struct pf_safetensors st = { 0 };
	uint64_t len;
	int r;

	if (!long_too && has_hole(head, b->size < 9 ? b->size : 9))
		return 0;
	r = pf_safetensors_length(head, b->size, &len, err);
	if (r <= 0 || len > b->size ||
	    (!long_too && (len > LONG_HEADER || has_hole(head, len))))
		return r < 0 ? r : 0;
	r = pf_safetensors_parse(head, b->size, &st, err);
	if (r > 0)
		note_head(b, &st);
	pf_safetensors_release(&st);
	return r;
}

struct pf_npy pf_content_npy(const struct pf_buffer *b)
{
	struct pf_npy npy = { .dtype = PF_DTYPE_INVALID };

	/* It was valid when header_len was set, and has not changed since. */
	if (b->header_len)
		(void)pf_npy_parse(pf_bytes_at(b->content, 0), b->size, &npy, NULL);
	return npy;
}

static int npy_head(struct pf_buffer *b, const char *head, bool long_too,
		    struct pf_err *err)
{
	struct pf_npy npy;
	int r = pf_npy_parse(head, b->size, &npy, err);

	(void)long_too;
	if (r > 0) {
		b->header_len = (uint32_t)npy.header_len;
		b->data_len = npy.data_len;
	}
	return r;
}

int pf_content_head(struct pf_buffer *b, enum pf_format format, bool long_too,
		    struct pf_err *err)
{
	b->header_len = 0;
	if (!b->content || !has_header(format))
		return 0;
	return pf_formats[format].head(b, pf_bytes_at(b->content, 0), long_too, err);
}

/* As pf_content_expected, for the content as FORMAT. */
static uint64_t expected(const struct pf_buffer *b, enum pf_format format)
{
	uint64_t all;

	if (format == PF_FORMAT_RAW && b->declared_shape &&
	    pf_shape_bytes(b->declared_shape, b->declared, &all, NULL) == 0)
		return all;
	if (has_header(format) && b->header_len)
		return b->header_len + b->data_len;
	return PF_SIZE_UNKNOWN;
}

uint64_t pf_content_expected(const struct pf_buffer *b)
{
	return expected(b, b->format);
}

const char *pf_content_what(const struct pf_buffer *b, enum pf_format format, char *dst,
			    size_t cap)
{
	struct pf_npy npy;

	if (!has_header(format))
		return pf_shape_str(dst, cap, b->declared, b->declared_shape);
	if (format != PF_FORMAT_NPY)
		return "what the header lists";
	npy = pf_content_npy(b);
	return pf_shape_str(dst, cap, npy.dtype, &npy.shape);
}

/* Is the content, as FORMAT, as long as its header or its declared type says? */
static int check_size(const struct pf_buffer *b, enum pf_format format,
		      struct pf_err *err)
{
	uint64_t all = expected(b, format),
		 header = has_header(format) ? b->header_len : 0;
	char what[128];

	if (has_header(format) && !header)
		return pf_err_set(err, -EINVAL,
				  "%" PRIu64 " bytes are not a whole %s header", b->size,
				  pf_format_extension(format));
	if (all == PF_SIZE_UNKNOWN || all == b->size)
		return 0;
	return pf_err_set(err, -EINVAL, "%s takes %" PRIu64 " bytes%s, %" PRIu64 " came",
			  pf_content_what(b, format, what, sizeof(what)), all - header,
			  header ? " of data" : "", b->size - header);
}

int pf_content_check(struct pf_buffer *b, enum pf_format format, struct pf_err *err)
{
	int r = 0;

	if (format == PF_FORMAT_NONE)
		return 0;
	if (!b->content && format != PF_FORMAT_RAW)
		return b->value ? 0
				: pf_err_set(err, -EINVAL,
					     "an empty file is not an array");
	if (has_header(format))
		r = pf_content_head(b, format, true, err);
	return r < 0 ? r : check_size(b, format, err);
}

/* A type whose elements take SIZE bytes, if possible one that NumPy has no name for. */
static const char *example_of(unsigned size)
{
	static const char *const examples[] = {
		[1] = "S4", [2] = "BF16", [4] = "F32", [8] = "F64"
	};

	return size <= 8 && examples[size] ? examples[size] : "C128";
}

static int npy_meaning(struct pf_buffer *b, struct pf_meaning *m, struct pf_err *err)
{
	const struct pf_location *location = b->location;
	const struct pf_npy npy = pf_content_npy(b);
	int r;

	m->dtype = npy.dtype;
	m->shape = npy.shape;
	m->len = b->data_len;
	if (m->dtype == PF_DTYPE_INVALID) {
		m->dtype = b->declared ? b->declared : b->former;
		if (pf_dtype_size(m->dtype) != npy.void_size)
			return pf_err_set(
				err, -EINVAL,
				"the file calls its elements '|V%u' and names no "
				"type: tell it with setfattr -n user.pjrtfs.dtype -v "
				"%s (or another type of %u byte%s), or save the array "
				"as .safetensors",
				npy.void_size, example_of(npy.void_size), npy.void_size,
				npy.void_size == 1 ? "" : "s");
	}
	if (!npy.fortran_order) {
		m->bytes = pf_bytes_ref(b->content);
		m->off = b->header_len;
		return 0;
	}
	r = pf_bytes_new(location->arena, b->account, m->len, &m->bytes, err);
	if (r == 0)
		pf_shape_to_row_major(&m->shape, pf_dtype_size(m->dtype),
				      pf_bytes_at(b->content, b->header_len),
				      pf_bytes_at(m->bytes, 0));
	return r;
}

static int raw_meaning(struct pf_buffer *b, struct pf_meaning *m, struct pf_err *err)
{
	if (b->declared_shape) {
		m->dtype = b->declared;
		pf_shape_copy(&m->shape, b->declared_shape);
	} else {
		m->dtype = PF_DTYPE_U8;
		m->shape = (struct pf_shape){ .rank = 1, .dims = { (int64_t)b->size } };
	}
	m->len = b->size;
	if (!b->content)
		return pf_bytes_new(b->location->arena, b->account, 1, &m->bytes, err);
	m->bytes = pf_bytes_ref(b->content);
	return 0;
}

static int txt_meaning(struct pf_buffer *b, struct pf_meaning *m, struct pf_err *err)
{
	const struct pf_location *location = b->location;
	pf_autobuf struct pf_buf data = PF_BUF_INIT;
	int r;

	m->dtype = b->declared ? b->declared : PF_DTYPE_F32;
	r = pf_text_parse(pf_bytes_at(b->content, 0), b->size, m->dtype, &m->shape, &data,
			  err);
	if (r < 0)
		return r;
	/* Rows of numbers fill a declared shape in order. */
	if (b->declared_shape) {
		uint64_t want;

		r = pf_shape_bytes(b->declared_shape, m->dtype, &want, err);
		if (r < 0)
			return r;
		if (want == data.len)
			pf_shape_copy(&m->shape, b->declared_shape);
	}
	m->len = data.len;
	r = pf_bytes_new(location->arena, b->account, data.len, &m->bytes, err);
	if (r == 0)
		memcpy(pf_bytes_at(m->bytes, 0), data.data, data.len);
	return r;
}

bool pf_content_is_nothing(const struct pf_buffer *b)
{
	const char *text = b->size ? pf_bytes_at(b->content, 0) : "";
	uint64_t bytes;

	if ((b->format != PF_FORMAT_RAW && b->format != PF_FORMAT_TXT) ||
	    !b->declared_shape ||
	    pf_shape_bytes(b->declared_shape, b->declared, &bytes, NULL) < 0 || bytes)
		return false;
	for (uint64_t i = 0; i < b->size; i++)
		if (b->format == PF_FORMAT_RAW || !strchr(" \t\r\n", text[i]) || !text[i])
			return false;
	return true;
}

static int meaning_of(struct pf_buffer *b, struct pf_meaning *m, struct pf_err *err)
{
	int r;

	if (pf_content_is_nothing(b)) {
		m->dtype = b->declared;
		pf_shape_copy(&m->shape, b->declared_shape);
		return pf_bytes_new(b->location->arena, b->account, 1, &m->bytes, err);
	}
	if (!b->content && b->format != PF_FORMAT_RAW)
		return pf_err_set(err, -EINVAL, "an empty file is not an array");
	r = check_size(b, b->format, err);
	if (r < 0)
		return r;
	if (!pf_formats[b->format].meaning)
		return pf_err_set(err, -EINVAL, "a scratch file is not an array");
	return pf_formats[b->format].meaning(b, m, err);
}

/* The array of one TENSOR of a .safetensors file whose data begin at OFF of BYTES, for
 * LOCATION: shares BYTES, or is unpacked.  -ENOSPC, -ENOMEM. */
static int tensor_value(const struct pf_location *location, unsigned memory,
			const struct pf_tensor *tensor, struct pf_bytes *bytes,
			uint64_t off, struct pf_value **ret, struct pf_err *err)
{
	struct pf_array_type type = { tensor->dtype, &tensor->shape, tensor->len };
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *own = NULL;
	int64_t n;
	int r;

	off += tensor->off;
	if (pf_dtype_bits(tensor->dtype) < 8) {
		pf_shape_count(&tensor->shape, &n, NULL);
		type.len = (uint64_t)n;
		r = pf_bytes_new(location->arena, bytes->account, type.len, &own, err);
		if (r < 0)
			return r;
		pf_unpack(pf_bytes_at(own, 0), pf_bytes_at(bytes, off), type.len,
			  tensor->dtype);
		off = 0;
	}
	*ret = pf_value_of_bytes(&type, own ? own : bytes, off,
				 pf_location_place(location, memory));
	return *ret ? 0 : pf_err_set(err, -ENOMEM, "no memory for a value");
}

/* Parse the header of a whole file of SIZE bytes.  0; -errno: it is not one, or not whole. */
static int parse_tensors(const char *file, uint64_t size, struct pf_safetensors *ret,
			 struct pf_err *err)
{
	int r = pf_safetensors_parse(file, size, ret, err);

	if (r == 0)
		return pf_err_set(err, -EINVAL,
				  "%" PRIu64 " bytes are not a whole .safetensors header",
				  size);
	if (r > 0 && size != ret->header_len + ret->data_len)
		return pf_err_set(err, -EINVAL,
				  "what the header lists takes %" PRIu64
				  " bytes of data, %" PRIu64 " came",
				  ret->data_len, size - ret->header_len);
	return r < 0 ? r : 0;
}

/* A file of one tensor is an array like any other. */
static int safetensors_value(struct pf_buffer *b, struct pf_value **ret,
			     struct pf_err *err)
{
	struct pf_safetensors st = { 0 };
	int r = parse_tensors(pf_bytes_at(b->content, 0), b->size, &st, err);

	note_head(b, &st);
	if (r == 0 && st.n == 1)
		r = tensor_value(b->location, b->memory, st.tensors, b->content,
				 st.header_len, ret, err);
	pf_safetensors_release(&st);
	return r < 0 ? r : b->tensors != 1;
}

bool pf_content_is_whole(struct pf_buffer *b)
{
	uint64_t all;

	if (b->format == PF_FORMAT_SAFETENSORS && !b->header_len)
		pf_content_head(b, b->format, true, NULL);
	all = pf_content_expected(b);
	return all == PF_SIZE_UNKNOWN ? !has_header(b->format) : all == b->size;
}

int pf_content_value(struct pf_buffer *b, struct pf_value **ret, struct pf_err *err)
{
	struct pf_meaning m = { 0 };
	int r;

	if (b->content && atomic_load(&b->content->refs) == 1)
		pf_bytes_trim(b->content, b->size);
	if (b->content && b->format == PF_FORMAT_SAFETENSORS)
		return safetensors_value(b, ret, err);
	r = meaning_of(b, &m, err);
	if (r == 0) {
		*ret = pf_value_of_bytes(&(struct pf_array_type){ m.dtype, &m.shape,
								  m.len },
					 m.bytes, m.off,
					 pf_location_place(b->location, b->memory));
		if (!*ret)
			r = pf_err_set(err, -ENOMEM, "no memory for a value");
	}
	pf_bytes_unref(m.bytes);
	return r;
}

/* --- the arrays of a .safetensors file ----------------------------------------------------- */

static int make_values(const struct pf_location *location, unsigned memory,
		       struct pf_bytes *bytes, struct pf_tensors *tensors,
		       struct pf_err *err)
{
	const struct pf_safetensors *head = &tensors->head;

	tensors->values = calloc(head->n ? head->n : 1, sizeof(struct pf_value *));
	if (!tensors->values)
		return pf_err_set(err, -ENOMEM, "no memory for %zu arrays", head->n);
	for (size_t i = 0; i < head->n; i++) {
		int r = tensor_value(location, memory, &head->tensors[i], bytes,
				     head->header_len, &tensors->values[i], err);

		if (r < 0)
			return r;
		tensors->n++;
	}
	return 0;
}

int pf_buffer_tensors(struct pf_buffer *b, const struct pf_location *location,
		      struct pf_tensors *ret, struct pf_err *err)
{
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *bytes = NULL;
	unsigned memory;
	uint64_t size;
	int r;

	memset(ret, 0, sizeof(*ret));
	pf_lock(&b->lock);
	size = b->size;
	memory = location == b->location ? b->memory : PF_DEFAULT_MEMORY;
	if (b->content) /* the reference freezes it: a later write copies the bytes first */
		bytes = pf_bytes_ref(b->content);
	pf_unlock(&b->lock);
	if (!bytes)
		return pf_err_set(err, -EINVAL, "an empty file is not an array");
	r = parse_tensors(pf_bytes_at(bytes, 0), size, &ret->head, err);
	if (r == 0)
		r = make_values(location, memory, bytes, ret, err);
	if (r < 0)
		pf_tensors_release(ret);
	return r;
}

void pf_tensors_release(struct pf_tensors *tensors)
{
	for (size_t i = 0; i < tensors->n; i++)
		pf_value_unref(tensors->values[i]);
	free(tensors->values);
	pf_safetensors_release(&tensors->head);
	memset(tensors, 0, sizeof(*tensors));
}

bool pf_buffer_is_tensors(struct pf_buffer *b)
{
	PF_LOCK_SCOPE(&b->lock);
	return b->state == PF_BUFFER_TENSORS;
}

/* --- the formats ------------------------------------------------------------------------- */

const struct pf_format_class pf_formats[PF_FORMAT_COUNT] = {
	[PF_FORMAT_NONE] = { .extension = "" },
	[PF_FORMAT_NPY] = { .extension = ".npy",
			    .head = npy_head,
			    .meaning = npy_meaning },
	[PF_FORMAT_RAW] = { .extension = ".raw", .meaning = raw_meaning },
	[PF_FORMAT_TXT] = { .extension = ".txt",
			    .meaning = txt_meaning,
			    .is_text = true },
	[PF_FORMAT_SAFETENSORS] = { .extension = ".safetensors",
				    .head = safetensors_head,
				    .is_packed = true },
	[PF_FORMAT_JSON] = { .extension = ".json" },
};
