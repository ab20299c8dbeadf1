/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader who waits for a plugin's answer, but not for ever.
 *
 * The answer and a timer race for the reply: whoever comes first gives it.  The one who comes
 * last frees what both of them use.
 */
#ifndef PJRTFS_FILES_COMMON_PATIENCE_H
#define PJRTFS_FILES_COMMON_PATIENCE_H

#include "files/common/files.h"

enum { PATIENCE_MS = 1000 };

/* Embedded in what waits; all zeros but OVER before it begins. */
struct patience {
	/* Time is over: give the reply.  On the timers' thread, no lock held.  The function then
	 * asks patience_last whether to free what is waiting. */
	void (*over)(struct patience *p);
	struct pf_timers *timers; /* borrowed; NULL: it waits for ever */
	struct pf_timer timer;
	atomic_bool left; /* one of the two is done with it */
};

/* Have P->over called in MS milliseconds, unless patience_end comes first.  If no timer thread
 * can be started, it waits for ever. */
void patience_begin(struct patience *p, struct pf_fs *fs, uint64_t ms);

/* The answer is there.  True: it is in time, the caller gives the reply and frees what waited.
 * False: the timer gives it, or has; the caller asks patience_last. */
bool patience_end(struct patience *p);

/* The caller is done with P.  True: so is the other one, and the caller frees it. */
bool patience_last(struct patience *p);

#endif
