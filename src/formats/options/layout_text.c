/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes with layouts: texts, and ShapeProtos as XLA's compile options have them. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hlo.pb-c.h"
#include "internal.h"
#include "pjrtfs/array.h"
#include "pjrtfs/json.h"

enum {
	TUPLE = 13, /* xla.PrimitiveType */
	/* LayoutProto's tail_padding_alignment_in_elements, of which 1 is what 0 is. */
	LAYOUT_PADDING = 16,
};

/* Numbers with commas between OPEN and CLOSE at *P, which is stepped over. */
static bool read_numbers(const char **p, char open, char close, int64_t *ret,
			 size_t *ret_n)
{
	const char *at = *p;

	*ret_n = 0;
	if (*at++ != open)
		return false;
	while (*at != close) {
		char *end;

		if (*ret_n && *at++ != ',')
			return false;
		if (*at < '0' || *at > '9' || *ret_n == PF_MAX_RANK)
			return false;
		errno = 0;
		ret[(*ret_n)++] = strtoll(at, &end, 10);
		if (errno)
			return false;
		at = end;
	}
	*p = at + 1;
	return true;
}

/* Is LAYOUT an order of the dimensions of SHAPE? */
static bool is_order(const Pjrtfs__Hlo__Layout *layout, const struct pf_shape *shape)
{
	struct pf_layout ignored;

	return pf_layout_make(shape, layout->minor_to_major, layout->n_minor_to_major,
			      &ignored) == 0;
}

/* Pack SHAPE into *RET. */
static int pack(const Pjrtfs__Hlo__Shape *shape, ProtobufCBinaryData *ret)
{
	ret->len = pjrtfs__hlo__shape__get_packed_size(shape);
	ret->data = malloc(ret->len + 1);
	if (!ret->data)
		return -ENOMEM;
	pjrtfs__hlo__shape__pack(shape, ret->data);
	return 0;
}

static int encode_array(struct json_object *value, ProtobufCBinaryData *ret)
{
	Pjrtfs__Hlo__Shape shape = PJRTFS__HLO__SHAPE__INIT;
	Pjrtfs__Hlo__Layout layout = PJRTFS__HLO__LAYOUT__INIT;
	int64_t order[PF_MAX_RANK], count;
	struct pf_shape of = { 0 };
	enum pf_dtype dtype;
	const char *p;

	if (!json_object_is_type(value, json_type_string))
		return -EINVAL;
	p = json_object_get_string(value);
	dtype = pf_dtype_parse(p, strcspn(p, "["));
	p += strcspn(p, "[");
	if (dtype == PF_DTYPE_INVALID ||
	    !read_numbers(&p, '[', ']', of.dims, &shape.n_dimensions))
		return -EINVAL;
	of.rank = (unsigned)shape.n_dimensions;
	if (*p) {
		layout.minor_to_major = order;
		if (!read_numbers(&p, '{', '}', order, &layout.n_minor_to_major) || *p ||
		    !is_order(&layout, &of))
			return -EINVAL;
		shape.layout = &layout;
	}
	/* Plugins abort on products that overflow. */
	if (pf_shape_count(&of, &count, NULL) < 0)
		return -EINVAL;
	shape.has_element_type = 1;
	shape.element_type = pf_dtype_xla(dtype);
	shape.dimensions = of.dims;
	return pack(&shape, ret);
}

int pf_layout_encode(struct json_object *value, ProtobufCBinaryData *ret)
{
	Pjrtfs__Hlo__Shape tuple = PJRTFS__HLO__SHAPE__INIT;
	size_t n;
	int r = 0;

	if (!json_object_is_type(value, json_type_array))
		return encode_array(value, ret);
	n = json_object_array_length(value);
	if (n > PF_LAYOUT_PARTS)
		return -EINVAL;
	tuple.tuple_shapes = calloc(n + 1, sizeof(*tuple.tuple_shapes));
	if (!tuple.tuple_shapes)
		return -ENOMEM;
	for (size_t i = 0; i < n && r == 0; i++, tuple.n_tuple_shapes += r == 0)
		r = encode_array(json_object_array_get_idx(value, i),
				 &tuple.tuple_shapes[i]);
	tuple.has_element_type = 1;
	tuple.element_type = TUPLE;
	if (r == 0)
		r = pack(&tuple, ret);
	for (size_t i = 0; i < tuple.n_tuple_shapes; i++)
		free(tuple.tuple_shapes[i].data);
	free(tuple.tuple_shapes);
	return r;
}

/* Has LAYOUT nothing but an order of the dimensions of SHAPE? */
static bool is_plain(const Pjrtfs__Hlo__Layout *layout, const struct pf_shape *shape)
{
	for (unsigned i = 0; i < layout->base.n_unknown_fields; i++) {
		const ProtobufCMessageUnknownField *f = &layout->base.unknown_fields[i];

		if (f->tag != LAYOUT_PADDING || f->len != 1 || *f->data > 1)
			return false;
	}
	return !layout->memory_space && is_order(layout, shape);
}

/* Append the text of SHAPE; false: it has none. */
static bool print(const Pjrtfs__Hlo__Shape *shape, struct pf_buf *out)
{
	const Pjrtfs__Hlo__Layout *layout = shape->layout;
	enum pf_dtype dtype = pf_dtype_from_xla(shape->element_type);
	struct pf_shape of = { .rank = (unsigned)shape->n_dimensions };
	char text[PF_SHAPE_TEXT];

	if (shape->base.n_unknown_fields || shape->n_tuple_shapes ||
	    !pf_dtype_valid((int)dtype) || shape->n_dimensions > PF_MAX_RANK)
		return false;
	for (size_t i = 0; i < shape->n_is_dynamic_dimension; i++)
		if (shape->is_dynamic_dimension[i])
			return false;
	for (unsigned i = 0; i < of.rank; i++) {
		of.dims[i] = shape->dimensions[i];
		if (of.dims[i] < 0)
			return false;
	}
	if (layout && !is_plain(layout, &of))
		return false;
	pf_buf_puts(out, pf_shape_str(text, sizeof(text), dtype, &of));
	for (unsigned i = 0; layout && i < of.rank; i++)
		pf_buf_printf(out, "%s%" PRId64 "%s", i ? "," : "{",
			      layout->minor_to_major[i], i + 1 == of.rank ? "}" : "");
	return true;
}

static struct json_object *decode(const ProtobufCBinaryData *proto, bool whole)
{
	Pjrtfs__Hlo__Shape *shape =
		pjrtfs__hlo__shape__unpack(NULL, proto->len, proto->data);
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct json_object *ret = NULL;

	if (shape && whole && shape->element_type == TUPLE &&
	    shape->n_tuple_shapes <= PF_LAYOUT_PARTS && !shape->base.n_unknown_fields &&
	    !shape->n_dimensions && !shape->layout) {
		ret = json_object_new_array();
		for (size_t i = 0; i < shape->n_tuple_shapes; i++)
			pf_json_append(ret, decode(&shape->tuple_shapes[i], false));
		if (!pf_json_complete(ret)) {
			json_object_put(ret);
			ret = NULL;
		}
	} else if (shape && print(shape, &text) && !text.failed) {
		ret = json_object_new_string(text.data);
	}
	pjrtfs__hlo__shape__free_unpacked(shape, NULL);
	return ret;
}

struct json_object *pf_layout_decode(const ProtobufCBinaryData *proto)
{
	return decode(proto, true);
}
