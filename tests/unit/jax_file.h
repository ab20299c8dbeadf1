/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that JAX wrote. */
#ifndef PJRTFS_TESTS_UNIT_JAX_FILE_H
#define PJRTFS_TESTS_UNIT_JAX_FILE_H

#include <stdio.h>
#include <stdlib.h>

#include "unit.h"

/* A file of tests/data/jax, without a byte more, to be freed. */
static inline char *jax_file(const char *name, size_t *len)
{
	const char *srcdir = getenv("srcdir");
	char path[512], *bytes;
	FILE *f;

	snprintf(path, sizeof(path), "%s/tests/data/jax/%s", srcdir ? srcdir : ".", name);
	f = fopen(path, "rb");
	ck_assert_msg(f != NULL, "%s", path);
	fseek(f, 0, SEEK_END);
	*len = (size_t)ftell(f);
	rewind(f);
	bytes = malloc(*len);
	ck_assert_uint_eq(fread(bytes, 1, *len, f), *len);
	fclose(f);
	return bytes;
}

#endif
