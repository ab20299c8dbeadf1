/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the clients pjrtfs-bench and pjrtfs-top share: they use a mount by its files alone. */
#ifndef PJRTFS_TOOLS_INTERNAL_H
#define PJRTFS_TOOLS_INTERNAL_H

#include <stdbool.h>

#include "pjrtfs/base.h"
#include "pjrtfs/json.h"

/*
 * Read the file that the words of FMT name below the mount at MOUNT into TEXT, behind what it has.
 * 0, or -errno with a sentence.  Blocks as long as the mount does.
 */
int tool_read(struct pf_buf *text, struct pf_err *err, const char *mount, const char *fmt,
	      ...) __attribute__((__format__(__printf__, 4, 5)));

/*
 * Write TEXT to the file as above.  0, or -errno with the sentence of the mount's own `error`, if
 * it has one.
 */
int tool_write(const char *text, struct pf_err *err, const char *mount, const char *fmt,
	       ...) __attribute__((__format__(__printf__, 4, 5)));

/* Set ERR to -CODE (an errno) of WHAT, and to the sentence of the mount's `error`, which is why the
 * mount refused this user's last call.  Returns -CODE. */
int tool_refused(const char *mount, int code, const char *what, struct pf_err *err);

/* Refuse all but a mount of pjrtfs that answers: 0, or -errno with a sentence. */
int tool_check_mount(const char *mount, struct pf_err *err);

/* Append an item of SIZE zeros to the list of *N at *LIST, a pointer to such items, which the
 * caller frees.  Returns the item; without memory the process ends with a sentence. */
void *tool_append(void *list, unsigned *n, size_t size);

/* Print the program's name and why it fails to standard error.  Both return the exit status: of ERR 1;
 * of a command line, where WHAT is wrong with WORD, 2. */
int tool_fail(const struct pf_err *err);
int tool_usage(const char *what, const char *word);

#endif
