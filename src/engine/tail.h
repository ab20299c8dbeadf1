/* SPDX-License-Identifier: Apache-2.0 */
/* The end of what a worker printed.  Private to the engine. */
#ifndef PJRTFS_ENGINE_TAIL_H
#define PJRTFS_ENGINE_TAIL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "pjrtfs/base/buf.h"
#include "pjrtfs/base/err.h"
#include "pjrtfs/engine/printed.h"

enum { PF_TAIL_BYTES = 64 << 10 };

struct pf_tail {
	pthread_mutex_t lock; /* rank 8; protects text */
	struct pf_buf text;   /* at most twice PF_TAIL_BYTES, cut back to it */
	/* Bytes that were ever added, of which text has the last ones; written under lock. */
	_Atomic uint64_t total;
	/* Borrowed: is given the same; or NULL.  Set before anything is added. */
	struct pf_printed *printed;
};

void pf_tail_init(struct pf_tail *tail);
void pf_tail_release(struct pf_tail *tail);

/* Add LEN bytes; control characters other than newline and tab become spaces.  If it has a
 * PRINTED, by one thread only. */
void pf_tail_add(struct pf_tail *tail, const char *text, size_t len);

/* A mark: what is added from now on was printed since.  Does not block: one atomic load. */
static inline uint64_t pf_tail_mark(struct pf_tail *tail)
{
	return atomic_load_explicit(&tail->total, memory_order_relaxed);
}

enum pf_tail_lines {
	PF_TAIL_ANY = 1,   /* all but blank lines and stack frames */
	PF_TAIL_FATAL = 2, /* those that report a fatal check or an uncaught exception */
};

/*
 * Append the line since MARK, of those of LINES, that best explains a death: the last fatal one,
 * else the last; nothing if there is none.  Returns where that line begins, as a mark, or
 * UINT64_MAX: every later mark up to there gives the same line.
 */
uint64_t pf_tail_last_words(struct pf_tail *tail, uint64_t mark, enum pf_tail_lines lines,
			    struct pf_buf *out);

/* Append to WHY's sentence "; it printed last:" and these words, if there are any.  Returns what
 * pf_tail_last_words does. */
uint64_t pf_tail_quote(struct pf_tail *tail, uint64_t mark, enum pf_tail_lines lines,
		       struct pf_err *why);

#endif
