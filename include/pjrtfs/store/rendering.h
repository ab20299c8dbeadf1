/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text of a large array, printed as far as it is read.
 *
 * A thread prints as far as somebody has asked for, and a few MiB further; it ends there, and a
 * later read makes another.  What was printed stays until the text is let go of.
 */
#ifndef PJRTFS_STORE_RENDERING_H
#define PJRTFS_STORE_RENDERING_H

#include "pjrtfs/base/waiter.h"
#include "pjrtfs/store/value.h"

struct pf_rendering;

/* A reader that waits.  The caller sets waiter.wake and keeps it until that is called. */
struct pf_more {
	struct pf_waiter waiter;
	uint64_t end; /* the rendering's */
};

/* The text of VALUE, whose bytes are in host memory and stay pinned until all is printed.  One
 * reference; NULL: no memory.  Prints nothing yet. */
struct pf_rendering *pf_rendering_new(struct pf_value *value);

/* One reference more, and one less.  The last one waits for the thread, which ends within a
 * millisecond or so, unless it is given up by a wake of that thread. */
struct pf_rendering *pf_rendering_ref(struct pf_rendering *r);
void pf_rendering_unref(struct pf_rendering *r); /* NULL is allowed */

/*
 * See that the text is printed up to byte END.  1: it is, or it ends before.  0: not yet; MORE,
 * if it is not NULL, is woken by the printing thread once it is.  -ENOMEM: it cannot be.  Does
 * not block while threads can be made.
 */
int pf_rendering_await(struct pf_rendering *r, uint64_t end, struct pf_more *more);

/* Give READ(arg, data, len) what is printed of the LEN bytes at OFF: one call. */
void pf_rendering_read(struct pf_rendering *r, uint64_t len, uint64_t off,
		       void (*read)(void *arg, const void *data, size_t len), void *arg);

/* Is all printed?  Then *SIZE is the length, in bytes. */
bool pf_rendering_done(struct pf_rendering *r, uint64_t *size);

#endif
