/* SPDX-License-Identifier: Apache-2.0 */
/* The end of what a worker printed.  Private to the engine. */
#ifndef PJRTFS_ENGINE_TAIL_H
#define PJRTFS_ENGINE_TAIL_H

#include <pthread.h>

#include "pjrtfs/base/buf.h"
#include "pjrtfs/engine/printed.h"

enum { PF_TAIL_BYTES = 64 << 10 };

struct pf_tail {
	pthread_mutex_t lock; /* rank 8; protects text */
	struct pf_buf text;   /* at most twice PF_TAIL_BYTES, cut back to it */
	size_t mark;          /* where the present life's words begin */
	/* Borrowed: is given the same; or NULL.  Set before anything is added. */
	struct pf_printed *printed;
};

void pf_tail_init(struct pf_tail *tail);
void pf_tail_release(struct pf_tail *tail);

/* Add LEN bytes; control characters other than newline and tab become spaces.  If it has a
 * PRINTED, by one thread only. */
void pf_tail_add(struct pf_tail *tail, const char *text, size_t len);

/* What follows belongs to a new life. */
void pf_tail_mark(struct pf_tail *tail);

/*
 * Append the line since the mark that best explains a death: the last one that reports a
 * fatal check or an uncaught exception, else the last that is not blank and no stack frame;
 * nothing if there is none.
 */
void pf_tail_last_words(struct pf_tail *tail, struct pf_buf *out);

#endif
