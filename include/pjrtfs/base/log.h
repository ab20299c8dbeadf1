/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon and the worker tell their operator. */
#ifndef PJRTFS_BASE_LOG_H
#define PJRTFS_BASE_LOG_H

#include <stdbool.h>

enum pf_log_level { PF_LOG_ERROR, PF_LOG_WARNING, PF_LOG_INFO, PF_LOG_DEBUG };

/*
 * Send messages of LEVEL and more urgent ones to standard error, or, if TO_SYSLOG, to
 * syslog(3).  Call before threads start.
 */
void pf_log_setup(enum pf_log_level level, bool to_syslog);

/*
 * The mount is there, and the process has left its user's terminal if it does that.  What may
 * wait is not logged before: who mounts in the foreground sees it then, others not at all.
 * Both may be called on any thread.
 */
void pf_log_serve(void);
bool pf_log_serves(void);

/* Would a line wait because nobody reads standard error? */
bool pf_log_would_block(void);

/*
 * Log one line; FMT has no newline.  Safe from any thread.  Only main, options, the
 * FUSE session and, for what plugins print, the engine log above debug level; everything else
 * returns a struct pf_err.
 */
void pf_log(enum pf_log_level level, const char *fmt, ...)
	__attribute__((__format__(__printf__, 2, 3)));

#endif
