/* SPDX-License-Identifier: Apache-2.0 */
/* A byte string that grows. */
#ifndef PJRTFS_BASE_BUF_H
#define PJRTFS_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "pjrtfs/base/cleanup.h"

/*
 * Invariants: data is NULL or holds len bytes and a NUL after them.  An append that
 * finds no memory sets failed and changes nothing else; later appends do nothing, so
 * a writer may check failed once, at the end.  Not safe for use by two threads.
 */
struct pf_buf {
	char *data; /* owned; freed by pf_buf_release */
	size_t len; /* bytes used, without the NUL */
	size_t cap; /* bytes allocated */
	bool failed;
};

#define PF_BUF_INIT                                                                      \
	{                                                                                \
		0                                                                        \
	}

/* Append LEN bytes from SRC. */
void pf_buf_append(struct pf_buf *buf, const void *src, size_t len);

/* Append the NUL-terminated STR. */
void pf_buf_puts(struct pf_buf *buf, const char *str);

/* Append as printf(3) does. */
void pf_buf_printf(struct pf_buf *buf, const char *fmt, ...)
	__attribute__((__format__(__printf__, 2, 3)));

/*
 * Make room for LEN more bytes; returns where they go, or NULL (failed is set).  len does
 * not change: the caller adds what it wrote, and where that is less than LEN, a NUL.
 */
char *pf_buf_reserve(struct pf_buf *buf, size_t len);

/* Remove the first LEN bytes (at most all). */
void pf_buf_consume(struct pf_buf *buf, size_t len);

/* Free the contents and start anew.  BUF may be NULL. */
void pf_buf_release(struct pf_buf *buf);

#define pf_autobuf PF_CLEANUP(pf_buf_release)

#endif
