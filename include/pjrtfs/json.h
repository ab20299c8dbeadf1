/* SPDX-License-Identifier: Apache-2.0 */
/* JSON (RFC 8259): texts to json-c's objects, step by step or as a whole, and back. */
#ifndef PJRTFS_JSON_H
#define PJRTFS_JSON_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "pjrtfs/base.h"

/* --- whole texts; nothing here blocks ----------------------------------------------- */

enum { PF_JSON_DEPTH = 64 /* objects and arrays within each other */ };

/*
 * Parse LEN bytes of TEXT, one object with nothing but blanks around it, into *RET, which
 * the caller puts; NULL on failure.  -EINVAL: the text is not an object, nests deeper
 * than PF_JSON_DEPTH, has a key twice in one object, is not UTF-8, has a NUL in a string,
 * or an integer that does not fit 64 bits, which json-c would change.  -ENOMEM.  The
 * sentence says what was expected and found at which byte, counted from 1.
 */
int pf_json_parse(const char *text, size_t len, struct json_object **ret,
		  struct pf_err *err);

/* The same, for a caller that describes the place itself: *RET_OFF is the offset of what
 * is wrong (LEN: the text ends too early), and the sentence names no byte. */
int pf_json_parse_at(const char *text, size_t len, struct json_object **ret,
		     size_t *ret_off, struct pf_err *err);

/* --- token by token, for texts whose grammar the caller knows ----------------------- */

/* A text and the place in it.  All functions step over JSON's spaces first; WANT is what the
 * sentence says was expected. */
struct pf_json_reader {
	const char *start, *p, *end; /* borrowed */
	size_t first; /* the sentences' number of the byte at start; SIZE_MAX: they have none */
	struct pf_err *err; /* borrowed; may be NULL */
};

/* -EINVAL: "expected WANT, found ..." what is at the reader's place. */
int pf_json_bad(struct pf_json_reader *rd, const char *want);

/* Step over the character C.  0, or -EINVAL if there is another. */
int pf_json_expect(struct pf_json_reader *rd, char c, const char *want);

/*
 * Step to the next member of an object or an array, over the spaces before it: 1; behind its
 * CLOSE, which is '}' or ']': 0; -EINVAL if neither is there.  *FIRST: no member came before, so
 * no comma is expected; it becomes false.
 */
int pf_json_next(struct pf_json_reader *rd, char close, bool *first);

/*
 * Step over a string and append its value to OUT (if not NULL), whose data are then
 * not NULL.  0; -EINVAL: no string, not UTF-8, half a surrogate pair, a NUL in it;
 * -ENOMEM.
 */
int pf_json_string(struct pf_json_reader *rd, struct pf_buf *out, const char *want);

/*
 * Step over a whole number.  0; -EINVAL: none, or with sign, leading zero, fraction or
 * exponent; -EOVERFLOW: beyond 2^63-1.
 */
int pf_json_number(struct pf_json_reader *rd, int64_t *ret, const char *want);

/* Step over a value of any type, which becomes *RET, the caller's (null: NULL).  0; -EINVAL,
 * -ENOMEM: as pf_json_parse, and *RET is NULL. */
int pf_json_value(struct pf_json_reader *rd, struct json_object **ret);

/* --- piece by piece: where an object ends ------------------------------------------- */

/* How far an object was scanned, whose bytes come in pieces; all zeros is its start. */
struct pf_json_scan {
	enum {
		PF_JSON_SCAN_START,
		PF_JSON_SCAN_KEY,
		PF_JSON_SCAN_VALUE,
		PF_JSON_SCAN_AFTER,
		PF_JSON_SCAN_STRING,
		PF_JSON_SCAN_ESCAPE,
		PF_JSON_SCAN_WORD,
	} state;
	unsigned depth;   /* 0: before the object, or behind it */
	uint64_t objects; /* a bit for each depth: in an object, not an array */
};

/*
 * Scan the LEN bytes at TEXT, the next ones, up to the end of the object: *RET of them, all or up to
 * its closing brace.  False: the byte at *RET cannot follow what came before.  This copies nothing,
 * and only looks for brackets, strings, and whether a value may come: that is as much as it takes to
 * see at once that bytes never become an object; the rest of the grammar is pf_json_parse's.
 */
bool pf_json_scan(struct pf_json_scan *scan, const char *text, size_t len, size_t *ret);

/* --- objects ------------------------------------------------------------------------ */

/* What O (may be NULL) has under KEY if it is of TYPE, borrowed; else NULL. */
struct json_object *pf_json_get(struct json_object *o, const char *key,
				enum json_type type);

/* The string under KEY of O, borrowed from O; "" if O has no such key or its value is not a
 * string. */
const char *pf_json_get_string(struct json_object *o, const char *key);

/* The integer that O (may be NULL) is, in *RET; false: it is none, or beyond 2^63-1. */
bool pf_json_get_int(struct json_object *o, int64_t *ret);

/*
 * Add VALUE under KEY to O, or append it to LIST, which takes it.  O, LIST or VALUE may be NULL for
 * lack of memory: what lacks a part is incomplete from then on, so is all that it is added to, and
 * such an object has no text and no copy.
 */
void pf_json_add(struct json_object *o, const char *key, struct json_object *value);
void pf_json_append(struct json_object *list, struct json_object *value);

/* Add a copy of VALUE, which may be NULL: null. */
void pf_json_add_copy(struct json_object *o, const char *key, struct json_object *value);

/* Append null. */
void pf_json_append_null(struct json_object *list);

/* False: O is NULL, or lacks a part. */
bool pf_json_complete(struct json_object *o);

/* Add the string VALUE under KEY. */
void pf_json_add_string(struct json_object *o, const char *key, const char *value);

/* Add an integer under KEY. */
void pf_json_add_int(struct json_object *o, const char *key, int64_t value);

/* Add a duration in seconds, from 0 to 10^9, under KEY, printed with nine decimals. */
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

/* Append O on one line, with its newline; OUT has failed if O is NULL or has no text. */
void pf_json_print_line(struct json_object *o, struct pf_buf *out);

/* The text of O (NULL: null) on one line; borrowed, as json_object_to_json_string.  NULL: no
 * memory. */
const char *pf_json_text(struct json_object *o);

/* The same, the caller's. */
char *pf_json_text_copy(struct json_object *o);

/* --- text without objects ----------------------------------------------------------- */

/*
 * A writer into memory of the caller's.  Nothing goes beyond END: a string that does not fit
 * loses its last characters, all else that does not fit is left out, and CUT is set.  Nothing here
 * blocks, allocates, or writes a NUL.
 */
struct pf_json_out {
	char *at, *end;
	bool cut;
};

/* Write LEN bytes of TEXT as they are. */
void pf_json_put(struct pf_json_out *out, const char *text, size_t len);

/* Write the name of a member, with a comma before it unless it is its object's first.
 * False, and nothing is written, if it and NEED bytes of a value do not fit. */
bool pf_json_put_key(struct pf_json_out *out, const char *key, size_t need);

/* Write TEXT in quotes and with escapes; what is not UTF-8 becomes U+FFFD. */
void pf_json_put_string(struct pf_json_out *out, const char *text);

/* Write an integer, at most 20 bytes. */
void pf_json_put_int(struct pf_json_out *out, int64_t value);

/* Write SECONDS + NS / 10^9 with nine decimals, at most 30 bytes.  NS is less than 10^9. */
void pf_json_put_seconds(struct pf_json_out *out, uint64_t seconds, uint64_t ns);

enum {
	PF_JSON_ERROR_ROOM =
		128 /* bytes that pf_json_put_error needs; less: nothing is written */
};

/* Write an error as replies and events have it: {"errno":...,"code":...,"message":...}, and before the
 * message "payloads", if it has some and there is room. */
void pf_json_put_error(struct pf_json_out *out, const struct pf_err *err);

/* Give ERR, which is set, the payloads in the LEN bytes at TEXT, which need not be what they should: an
 * object of strings, whose text fits; else ERR has none. */
void pf_json_read_payloads(struct pf_err *err, const char *text, size_t len);

#endif
