/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a configuration file: a JSON object; errors name its file, line and column. */
#ifndef PJRTFS_FORMATS_CONFIG_H
#define PJRTFS_FORMATS_CONFIG_H

#include <json-c/json.h>

#include "pjrtfs/base/err.h"

enum { PF_CONFIG_MAX = 1 << 20 }; /* bytes of a text */

/* A text and what it says. */
struct pf_config_text {
	const char *file; /* borrowed; for sentences */
	const char *text; /* borrowed; len bytes */
	size_t len;
	struct json_object *json; /* owned: an object */
};

/* A place in it: the key, or if that is NULL the item of number index, of what is at UP;
 * NULL is the whole. */
struct pf_config_at {
	const struct pf_config_at *up;
	const char *key;
	size_t index;
};

/*
 * Read T's text into T->json; blanks alone are an empty object.  -EINVAL: it is no JSON object
 * (RFC 8259), gives a key twice in an object, is not UTF-8 or longer than PF_CONFIG_MAX:
 * "FILE:LINE:COLUMN: what was expected, what was found"; columns are characters.  -ENOMEM.
 * Release in any case.
 */
int pf_config_text_parse(struct pf_config_text *t, struct pf_err *err);
void pf_config_text_release(struct pf_config_text *t);

/* Record CODE and "FILE:LINE:COLUMN: plugins[0].name: " before the text; AT's key, or item, is
 * in T.  Returns CODE. */
int pf_config_text_error(const struct pf_config_text *t, const struct pf_config_at *at,
			 struct pf_err *err, int code, const char *fmt, ...)
	__attribute__((__format__(__printf__, 5, 6)));

/* That AT should be WANT, and is FOUND (borrowed; NULL: null).  Returns -EINVAL. */
int pf_config_text_refuse(const struct pf_config_text *t, const struct pf_config_at *at,
			  const char *want, struct json_object *found,
			  struct pf_err *err);

#endif
