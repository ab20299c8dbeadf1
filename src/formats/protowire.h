/* SPDX-License-Identifier: Apache-2.0 */
/* Walking a serialized protocol buffer in place; used by hlo*.c and program.c only. */
#ifndef PJRTFS_SRC_FORMATS_PROTOWIRE_H
#define PJRTFS_SRC_FORMATS_PROTOWIRE_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of someone else's. */
struct pf_slice {
	const uint8_t *p;
	size_t len;
};

enum pf_wire_type {
	PF_WIRE_VARINT = 0,
	PF_WIRE_FIXED64 = 1,
	PF_WIRE_BYTES = 2, /* also strings, messages and packed numbers */
	PF_WIRE_FIXED32 = 5,
};

struct pf_field {
	uint32_t number;
	enum pf_wire_type type;
	uint64_t value;        /* of a varint */
	struct pf_slice bytes; /* borrowed; of all but a varint */
};

/*
 * Take the next field off the start of *REST.  Returns 1; 0 at the end; -EINVAL where
 * there is none (*REST then starts at what is wrong): a field number of 0, a group or an
 * unknown wire type, a varint of more than 64 bits, more bytes than are left.
 */
int pf_proto_next(struct pf_slice *rest, struct pf_field *ret);

#endif
