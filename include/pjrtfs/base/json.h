/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers around json-c. */
#ifndef PJRTFS_BASE_JSON_H
#define PJRTFS_BASE_JSON_H

#include <json-c/json.h>
#include <time.h>

#include "pjrtfs/base/buf.h"
#include "pjrtfs/base/err.h"

/*
 * TEXT as a JSON object (RFC 8259) in *RET, which the caller puts.  -EINVAL: it is none, something
 * but blanks is behind it, it has a key twice, is no UTF-8, or a whole number in it does not fit 64
 * bits, which json-c would change; -ENOMEM.  Does not block, as all of these.
 */
int pf_json_parse(const char *text, struct json_object **ret, struct pf_err *err);

/* The same of a TEXT that pf_scan_feed and pf_scan_check found good. */
int pf_json_parse_scanned(const char *text, struct json_object **ret, struct pf_err *err);

/* Add the string VALUE under KEY. */
void pf_json_add_string(struct json_object *o, const char *key, const char *value);

/* Add an integer under KEY. */
void pf_json_add_int(struct json_object *o, const char *key, int64_t value);

/* Add a duration in seconds under KEY, printed with nine decimals (nanoseconds). */
void pf_json_add_seconds(struct json_object *o, const char *key, double seconds);

/* Add a point in time under KEY, in seconds since the epoch with nine decimals: a double
 * would be exact only to some hundred nanoseconds. */
void pf_json_add_time(struct json_object *o, const char *key,
		      const struct timespec *time);

/*
 * A copy of O that shares nothing with it, or NULL.  json-c counts references and prints
 * without locks: what another thread may hold, too, is copied, never referenced.
 */
struct json_object *pf_json_copy(struct json_object *o);

/* A copy of the object O as pf_json_copy, its keys sorted: equal objects print the same if
 * nothing within them is an object. */
struct json_object *pf_json_sorted(struct json_object *o);

/* Append O (NULL: an empty object) on one line, with its newline. */
void pf_json_print_line(struct json_object *o, struct pf_buf *out);

/* The text of O on one line; borrowed, as json_object_to_json_string. */
const char *pf_json_text(struct json_object *o);

#endif
