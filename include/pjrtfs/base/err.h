/* SPDX-License-Identifier: Apache-2.0 */
/* Why an operation failed: an errno and a sentence. */
#ifndef PJRTFS_BASE_ERR_H
#define PJRTFS_BASE_ERR_H

#include <stddef.h>

enum { PF_ERR_TEXT = 1024 }; /* bytes, NUL included */

/*
 * Why an operation failed.  Lives on the caller's stack or in an object, owns
 * nothing and is never freed; filling it in cannot fail, not even when memory
 * is exhausted.
 *
 * A failing function returns -errno, sets code to that same value and fills
 * text.  A succeeding function does not touch it.  err may be NULL.
 */
struct pf_err {
	int code;               /* -errno, 0 = no error recorded        */
	int pjrt_code;          /* PJRT_Error_Code, -1 = not from PJRT  */
	char text[PF_ERR_TEXT]; /* valid UTF-8, one line but for pf_err_set_lines */
};

#define PF_ERR_INIT                                                                      \
	{                                                                                \
		.pjrt_code = -1                                                          \
	}

/*
 * Record CODE (< 0) and the text.  Line breaks and control characters become
 * spaces, bytes that are not UTF-8 become '?'; what does not fit is cut.
 * Returns CODE, so that one can write "return pf_err_set(...)".  Does not block.
 */
int pf_err_set(struct pf_err *err, int code, const char *fmt, ...)
	__attribute__((__format__(__printf__, 3, 4)));

/*
 * Record CODE (< 0) and a plugin's message, the LEN bytes at TEXT, which are not err's.  Its
 * newlines stay, but for those at the end; all else is as with pf_err_set.  Returns CODE.
 * Does not block.
 */
int pf_err_set_lines(struct pf_err *err, int code, const char *text, size_t len);

/*
 * Prefix the text with what the caller was doing: "compile add: <text>".  Returns
 * CODE.  A text that becomes too long loses its end, never the prefix.
 */
int pf_err_wrap(struct pf_err *err, int code, const char *fmt, ...)
	__attribute__((__format__(__printf__, 3, 4)));

/*
 * Make the LEN bytes at TEXT, in place, one line of valid UTF-8, for a file or a log that has
 * lines; newlines become spaces, too.  Returns the new length, which is never greater.  Writes
 * no NUL.
 */
size_t pf_err_clean(char *text, size_t len);

/*
 * The symbolic name of an errno: "EINVAL" for EINVAL or -EINVAL; "EIO" for one that
 * has no name.  The string is static.
 */
const char *pf_errno_name(int code);

/*
 * The PJRT name of an error: "INVALID_ARGUMENT" for the PJRT_Error_Code PJRT_CODE, or,
 * where that is -1, for the code that maps onto the errno CODE (negative or positive);
 * "UNKNOWN" if nothing does.  The string is static.  PJRT: PJRT_Error_Code.
 */
const char *pf_pjrt_code_name(int pjrt_code, int code);

#endif
