/* SPDX-License-Identifier: Apache-2.0 */
/* Walking a serialized protocol buffer in place. */
#include <errno.h>

#include "internal.h"

/* The varint at *POS, which is stepped over. */
static int varint(const struct pf_slice *s, size_t *pos, uint64_t *ret)
{
	uint64_t n = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		if (*pos == s->len)
			return -EINVAL;
		/* Once, also where another process changes it meanwhile (skeleton.c). */
		uint8_t byte = ((const volatile uint8_t *)s->p)[(*pos)++];

		/* Of the tenth byte only one bit is left to use. */
		if (shift == 63 && byte > 1)
			return -EINVAL;
		n |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*ret = n;
			return 0;
		}
	}
	return -EINVAL;
}

int pf_proto_varint(struct pf_slice *rest, uint64_t *ret)
{
	size_t pos = 0;
	int r = varint(rest, &pos, ret);

	rest->p += pos;
	rest->len -= pos;
	return r;
}

int pf_proto_next(struct pf_slice *rest, struct pf_field *ret)
{
	uint64_t tag, len;
	size_t pos = 0;

	if (rest->len == 0)
		return 0;
	if (varint(rest, &pos, &tag) < 0 || tag >> 3 == 0 || tag >> 3 > UINT32_MAX >> 3)
		return -EINVAL;
	*ret = (struct pf_field){ .number = (uint32_t)(tag >> 3),
				  .type = (enum pf_wire_type)(tag & 7) };
	switch (ret->type) {
	case PF_WIRE_VARINT:
		len = 0;
		if (varint(rest, &pos, &ret->value) < 0)
			return -EINVAL;
		break;
	case PF_WIRE_BYTES:
		if (varint(rest, &pos, &len) < 0)
			return -EINVAL;
		break;
	case PF_WIRE_FIXED64:
	case PF_WIRE_FIXED32:
		len = ret->type == PF_WIRE_FIXED64 ? 8 : 4;
		break;
	default:
		return -EINVAL;
	}
	if (len > rest->len - pos)
		return -EINVAL;
	ret->bytes = (struct pf_slice){ rest->p + pos, (size_t)len };
	rest->p += pos + (size_t)len;
	rest->len -= pos + (size_t)len;
	return 1;
}

int pf_proto_next_bytes(struct pf_slice *rest, uint32_t number, struct pf_slice *ret)
{
	struct pf_field field;
	int r;

	while ((r = pf_proto_next(rest, &field)) > 0)
		if (field.number == number && field.type == PF_WIRE_BYTES) {
			*ret = field.bytes;
			break;
		}
	return r;
}

int pf_proto_find_all(struct pf_slice *rest, const struct pf_wanted *wanted, size_t n)
{
	struct pf_field field;
	int r;

	while ((r = pf_proto_next(rest, &field)) > 0)
		for (size_t i = 0; i < n; i++) {
			if (wanted[i].number != field.number)
				continue;
			if (wanted[i].bytes && field.type == PF_WIRE_BYTES)
				*wanted[i].bytes = field.bytes;
			if (wanted[i].value && field.type == PF_WIRE_VARINT)
				*wanted[i].value = field.value;
		}
	return r;
}

int pf_proto_find(struct pf_slice *rest, uint32_t number, struct pf_slice *ret)
{
	*ret = (struct pf_slice){ NULL, 0 };
	return pf_proto_find_all(rest, &(struct pf_wanted){ number, ret, NULL }, 1);
}

void pf_proto_put_varint(struct pf_buf *out, uint64_t n)
{
	uint8_t bytes[10];
	size_t len = 0;

	for (; n >= 0x80; n >>= 7)
		bytes[len++] = (uint8_t)(n | 0x80);
	bytes[len++] = (uint8_t)n;
	pf_buf_append(out, bytes, len);
}

void pf_proto_put(struct pf_buf *out, const struct pf_field *field)
{
	pf_proto_put_varint(out, (uint64_t)field->number << 3 | field->type);
	if (field->type == PF_WIRE_VARINT)
		pf_proto_put_varint(out, field->value);
	else if (field->type == PF_WIRE_BYTES)
		pf_proto_put_varint(out, field->bytes.len);
	pf_buf_append(out, field->bytes.p, field->bytes.len);
}
