/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of formats: results and sentences, exact copies, JSON with ' for ", JAX's files. */
#ifndef PJRTFS_TESTS_UNIT_FORMATS_FIXTURE_H
#define PJRTFS_TESTS_UNIT_FORMATS_FIXTURE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/json.h"
#include "quoted.h"
#include "unit.h"

/* Has TEXT the PARTS, between which there is *, in their order? */
static inline bool has_parts(const char *text, const char *parts)
{
	for (size_t n; text && *parts; parts += n + (parts[n] == '*')) {
		n = strcspn(parts, "*");
		text = memmem(text, strlen(text), parts, n);
	}
	return text;
}

/* A call returned R, as it should, or refused with a sentence that has the parts SAYS. */
static inline void check_result(int r, int want, const struct pf_err *err,
				const char *says)
{
	ck_assert_msg(r == want, "%d instead of %d: %s", r, want, err->text);
	if (want >= 0)
		return;
	ck_assert_int_eq(err->code, want);
	ck_assert_msg(has_parts(err->text, says), "\"%s\" without \"%s\"", err->text,
		      says);
}

/* LEN bytes without a byte behind them, so that a sanitizer sees a byte too many. */
static inline void *exact_copy(const void *bytes, size_t len)
{
	void *copy = calloc(1, len);

	if (len)
		memcpy(copy, bytes, len);
	return copy;
}

/* The value of a JSON text with ' for "; NULL has none. */
static inline struct json_object *json(const char *text)
{
	const char *copy = quoted(text ? text : "null");
	enum json_tokener_error e;
	struct json_object *o = json_tokener_parse_verbose(copy, &e);

	ck_assert_msg(e == json_tokener_success, "bad test: %s", copy);
	return o;
}

/* O is WANT, with ' for "; and free it. */
static inline void check_json(struct json_object *o, const char *want)
{
	ck_assert_str_eq(pf_json_text(o), quoted(want));
	json_object_put(o);
}

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
