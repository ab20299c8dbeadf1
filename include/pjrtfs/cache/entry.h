/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One entry of the compilation cache: a header of 256 bytes, then its parts one after
 * another.  Numbers are little-endian.
 *
 *   0  "pjrtfs\r\n"       8 bytes
 *   8  format              8
 *  16  key                32
 *  48  SHA-256 of parts   32
 *  80  lengths of parts    3 × 8
 * 104  made               8    nanoseconds since the epoch
 * 112  zeros             104
 * 216  SHA-256 of the bytes before   32
 * 248  uses               8    changed in place, so outside of all checks
 */
#ifndef PJRTFS_CACHE_ENTRY_H
#define PJRTFS_CACHE_ENTRY_H

#include "pjrtfs/cache/key.h"

enum {
	PF_CACHE_HEADER = 256,        /* bytes of the header */
	PF_CACHE_USES_AT = 248,       /* where the number of uses is */
	PF_CACHE_META_MAX = 16 << 20, /* bytes of the part with the description */
};

enum pf_cache_part {
	PF_CACHE_META, /* JSON: what is known of the program; what listings show */
	PF_CACHE_HLO,  /* the optimized program; may have no bytes */
	PF_CACHE_CODE, /* what the plugin serialized */
	PF_CACHE_PARTS
};

struct pf_cache_header {
	struct pf_cache_key key;
	uint8_t sha[PF_SHA256];       /* of all parts */
	uint64_t len[PF_CACHE_PARTS]; /* bytes */
	uint64_t made_ns;             /* since the epoch */
	uint64_t uses;
};

/* Bytes of all parts. */
uint64_t pf_cache_body_len(const struct pf_cache_header *header);

/* Write HEADER, with its own SHA-256. */
int pf_cache_header_write(const struct pf_cache_header *header,
			  uint8_t dst[PF_CACHE_HEADER], struct pf_err *err);

/*
 * Read the LEN bytes at SRC, the start of a file of FILE_LEN bytes.  -EBADMSG: not a header
 * of this format, a byte of it is wrong, or the file has another length than it says; the
 * sentence tells.
 */
int pf_cache_header_read(const uint8_t *src, size_t len, uint64_t file_len,
			 struct pf_cache_header *ret, struct pf_err *err);

/* Are the parts at BODY (pf_cache_body_len bytes) what HEADER says?  0; -EBADMSG; -ENOMEM. */
int pf_cache_body_check(const struct pf_cache_header *header, const void *body,
			struct pf_err *err);

/* Fill HEADER's sha for the parts at BODY, whose lengths it has.  -ENOMEM. */
int pf_cache_body_sign(struct pf_cache_header *header, const void *body,
		       struct pf_err *err);

#endif
