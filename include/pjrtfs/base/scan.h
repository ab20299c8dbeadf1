/* SPDX-License-Identifier: Apache-2.0 */
/* Where a JSON object ends: a checking scanner that takes it in pieces. */
#ifndef PJRTFS_BASE_SCAN_H
#define PJRTFS_BASE_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include "pjrtfs/base/err.h"

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
