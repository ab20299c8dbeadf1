/* SPDX-License-Identifier: Apache-2.0 */
/* Walking a serialized protocol buffer in place. */
#include "protowire.h"

#include <errno.h>

/* The varint at *POS, which is stepped over. */
static int varint(const struct pf_slice *s, size_t *pos, uint64_t *ret)
{
	uint64_t n = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		if (*pos == s->len)
			return -EINVAL;
		uint8_t byte = s->p[(*pos)++];

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

int pf_proto_next(struct pf_slice *rest, struct pf_field *ret)
{
	uint64_t tag, len;
	size_t pos = 0;

	if (rest->len == 0)
		return 0;
	if (varint(rest, &pos, &tag) < 0 || tag >> 3 == 0 || tag >> 3 > UINT32_MAX >> 3)
		return -EINVAL;
	*ret = (struct pf_field){ .number = (uint32_t)(tag >> 3) };
	switch (tag & 7) {
	case PF_WIRE_VARINT:
		ret->type = PF_WIRE_VARINT;
		if (varint(rest, &pos, &ret->value) < 0)
			return -EINVAL;
		len = 0;
		break;
	case PF_WIRE_FIXED64:
		ret->type = PF_WIRE_FIXED64;
		len = 8;
		break;
	case PF_WIRE_BYTES:
		ret->type = PF_WIRE_BYTES;
		if (varint(rest, &pos, &len) < 0)
			return -EINVAL;
		break;
	case PF_WIRE_FIXED32:
		ret->type = PF_WIRE_FIXED32;
		len = 4;
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
