/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of .safetensors files for tests, out of their JSON. */
#ifndef PJRTFS_TESTS_UNIT_SAFETENSORS_TEXT_H
#define PJRTFS_TESTS_UNIT_SAFETENSORS_TEXT_H

#include <stdlib.h>
#include <string.h>

#include "pjrtfs/array_files.h"

/* The start of a file: the length of the JSON TEXT, and that. */
static inline struct pf_buf make(const char *text, size_t len)
{
	struct pf_buf buf = PF_BUF_INIT;
	unsigned char length[8];

	for (int i = 0; i < 8; i++)
		length[i] = (unsigned char)((uint64_t)len >> 8 * i);
	pf_buf_append(&buf, length, 8);
	pf_buf_append(&buf, text, len);
	return buf;
}

/* Parse a copy that ends where LEN says, so that sanitizers see a byte too many. */
static inline int parse(const char *src, size_t len, struct pf_safetensors *ret,
			struct pf_err *err)
{
	char *copy = malloc(len ? len : 1);
	int r;

	memcpy(copy, src, len);
	r = pf_safetensors_parse(copy, len, ret, err);
	free(copy);
	return r;
}

#define F4(begin, end)                                                                   \
	"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[" #begin "," #end "]}"
#define OF(dtype, shape, offsets)                                                        \
	"{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define X(dtype, shape, offsets) "{\"x\":" OF(dtype, shape, offsets) "}"

#endif
