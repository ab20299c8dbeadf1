/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers around json-c. */
#ifndef PJRTFS_JSON_H
#define PJRTFS_JSON_H

#include <json-c/json.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "pjrtfs/base.h"

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

/* Where a JSON object ends: a checking scanner that takes it in pieces. */

enum { PF_SCAN_DEPTH = 64 }; /* objects and arrays within each other */

enum pf_scan_result {
	PF_SCAN_MORE, /* all bytes were taken, the object goes on */
	PF_SCAN_DONE, /* the object ends with the last byte taken */
	PF_SCAN_BAD,  /* the last byte taken cannot stand there */
};

/* All zeros is the start. */
struct pf_scan {
	uint8_t state;
	uint8_t depth;
	uint8_t hex;      /* digits of \uXXXX seen */
	uint8_t key;      /* the string is an object's key */
	uint16_t code;    /* what the digits say */
	uint64_t object;  /* a bit for each depth: in an object, not an array */
	const char *rest; /* of true, false or null; borrowed, static */
	const char *want; /* PF_SCAN_BAD: what was expected instead; static */
};

/* Scan SRC, LEN bytes that follow those scanned before.  *USED: bytes taken. */
enum pf_scan_result pf_scan_feed(struct pf_scan *scan, const char *src, size_t len,
				 size_t *used);

/*
 * What the scanner does not see of a whole object TEXT, found good by it: -EINVAL for bytes
 * that are not UTF-8 and for a key given twice in one object; -ENOMEM.
 */
int pf_scan_check(const char *text, size_t len, struct pf_err *err);

/* Where such an object gives a key for the second time: 1, and *KEY_LEN bytes between its
 * quotes at *OFF.  0: nowhere; -ENOMEM. */
int pf_scan_twice(const char *text, size_t len, size_t *off, size_t *key_len);

#endif
