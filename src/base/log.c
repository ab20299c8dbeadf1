/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the daemon and the worker for their operator. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <syslog.h>
#include <unistd.h>

#include "pjrtfs/base.h"

/* Written before threads start, only read afterwards: no lock. */
static enum pf_log_level threshold = PF_LOG_WARNING;
static bool use_syslog;

static _Atomic bool serves;

static const struct {
	const char *name;
	int priority;
} levels[] = {
	[PF_LOG_ERROR] = { "error", LOG_ERR },
	[PF_LOG_WARNING] = { "warning", LOG_WARNING },
	[PF_LOG_INFO] = { "info", LOG_INFO },
	[PF_LOG_DEBUG] = { "debug", LOG_DEBUG },
};

void pf_log_setup(enum pf_log_level level, bool to_syslog)
{
	threshold = level;
	use_syslog = to_syslog;
	if (to_syslog)
		openlog(program_invocation_short_name, LOG_PID, LOG_DAEMON);
}

void pf_log_serve(void)
{
	atomic_store(&serves, true);
}

bool pf_log_serves(void)
{
	return atomic_load(&serves);
}

bool pf_log_would_block(void)
{
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };

	/* A line is short enough for a pipe that has any room to take it whole. */
	return !use_syslog && poll(&p, 1, 0) == 0;
}

void pf_log(enum pf_log_level level, const char *fmt, ...)
{
	int saved = errno, prefix, n;
	char line[2048], *text;
	va_list ap;

	if (level > threshold)
		return;
	prefix = snprintf(line, sizeof(line),
			  "%.200s: %s: ", program_invocation_short_name,
			  levels[level].name);
	text = line + prefix;
	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(line) - (size_t)prefix, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	if (n >= (int)sizeof(line) - prefix)
		n = (int)sizeof(line) - prefix - 1;
	/* Messages quote plugins and users: one line, whatever they hold. */
	n = (int)pf_err_clean(text, (size_t)n);
	text[n] = '\n';
	/* One write, so that lines of several threads do not mix. */
	if (use_syslog)
		syslog(levels[level].priority, "%.*s", n, text);
	else if (write(STDERR_FILENO, line, (size_t)(prefix + n + 1)) < 0) {
		/* No place is left to report this failure. */
	}
	errno = saved;
}
