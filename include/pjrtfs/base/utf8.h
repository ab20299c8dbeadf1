/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 (RFC 3629). */
#ifndef PJRTFS_BASE_UTF8_H
#define PJRTFS_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The bytes of the well-formed character at the start of STR (LEN bytes, not 0), whose code
 * point becomes *RET; 0 if there is none: overlong forms, surrogates and numbers beyond
 * U+10FFFF are not well formed.
 */
size_t pf_utf8_char(const char *str, size_t len, uint32_t *ret);

/* Are LEN bytes of STR well formed? */
bool pf_utf8_valid(const char *str, size_t len);

#endif
