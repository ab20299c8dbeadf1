/* SPDX-License-Identifier: Apache-2.0 */
/* Reading JSON whose grammar is known token by token; used by safetensors.c only. */
#ifndef PJRTFS_SRC_FORMATS_READER_H
#define PJRTFS_SRC_FORMATS_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pjrtfs/base/buf.h"
#include "pjrtfs/base/err.h"

/*
 * The text, which ends where the JSON does, and the place in it.  All functions step over
 * JSON's spaces first; what is WANTed is for the sentence.
 */
struct pf_reader {
	const char *start, *p, *end; /* borrowed */
	size_t offset;               /* of the text in the file, for sentences */
	struct pf_err *err;          /* borrowed; may be NULL */
};

/* -EINVAL: "expected WANT, found ..." what is at the reader's place. */
int pf_reader_bad(struct pf_reader *rd, const char *want);

/* Step over the character C.  0, or -EINVAL if there is another. */
int pf_reader_expect(struct pf_reader *rd, char c, const char *want);

/*
 * Step to the next member of an object or a list: 1; behind its CLOSE, which is '}' or
 * ']': 0; -EINVAL if neither is there.  *FIRST: there was no member yet, so there is no
 * comma; it becomes false.
 */
int pf_reader_next(struct pf_reader *rd, char close, bool *first);

/*
 * Step over a string and append what it means to OUT (if not NULL), whose data are then
 * not NULL.  0; -EINVAL: no string, not UTF-8, half a surrogate pair, a NUL in it;
 * -ENOMEM.
 */
int pf_reader_string(struct pf_reader *rd, struct pf_buf *out, const char *want);

/*
 * Step over a whole number.  0; -EINVAL: none, or with sign, leading zero, fraction or
 * exponent; -EOVERFLOW: beyond 2^63-1.
 */
int pf_reader_number(struct pf_reader *rd, int64_t *ret, const char *want);

#endif
