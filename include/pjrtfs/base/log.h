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
 * Log one line; FMT has no newline.  Safe from any thread.  Only main, options and the
 * FUSE session log above debug level; everything else returns a struct pf_err.
 */
void pf_log(enum pf_log_level level, const char *fmt, ...)
	__attribute__((__format__(__printf__, 2, 3)));

#endif
