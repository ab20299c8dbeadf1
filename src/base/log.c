/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the daemon and the worker for their operator. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "pjrtfs/base.h"
#include "pjrtfs/json.h"

/* Written before threads start, only read afterwards: no lock. */
static enum pf_log_level threshold = PF_LOG_WARNING;
static bool use_syslog, to_file;
static enum pf_log_format format = PF_LOG_TEXT;

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

void pf_log_to_file(void)
{
	to_file = true;
}

/* The service manager names the journal's socket by device and inode: standard error may be
 * another file by now, or this process may be no service. */
static bool is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	struct stat st;
	char own[48];

	if (!stream || fstat(STDERR_FILENO, &st))
		return false;
	snprintf(own, sizeof(own), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	return !strcmp(stream, own);
}

void pf_log_set_format(enum pf_log_format wanted)
{
	format = wanted ? wanted : is_journal() ? PF_LOG_JOURNAL : PF_LOG_TEXT;
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

/* A line that begins with the name of the program, and in a file with the time NOW before that. */
static size_t make_text(char *dst, size_t room, enum pf_log_level level, const char *text,
			time_t now)
{
	char date[32] = "", pid[24] = "";
	struct tm tm;

	if (to_file && gmtime_r(&now, &tm)) {
		strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ ", &tm);
		snprintf(pid, sizeof(pid), "[%d]", (int)getpid());
	}
	return (size_t)snprintf(dst, room, "%s%.200s%s: %s: %s\n", date,
				program_invocation_short_name, pid, levels[level].name,
				text);
}

/* A file that is full begins anew: all processes append to it. */
static void bound_file(void)
{
	struct stat st;

	if (to_file && fstat(STDERR_FILENO, &st) == 0 && st.st_size >= PF_LOG_FILE_MAX &&
	    ftruncate(STDERR_FILENO, 0)) {
		/* No place is left to report this failure. */
	}
}

/* TEXT as a line in DST, which has more than twice its room; the line's bytes. */
static size_t make_line(char *dst, size_t room, enum pf_log_level level, const char *text)
{
	struct pf_json_out out = { dst, dst + room - 2, false };
	struct timespec now;

	if (format == PF_LOG_JOURNAL)
		return (size_t)snprintf(dst, room, "<%d>%s\n", levels[level].priority,
					text);
	clock_gettime(CLOCK_REALTIME, &now);
	if (format == PF_LOG_TEXT)
		return make_text(dst, room, level, text, now.tv_sec);
	pf_json_put(&out, "{", 1);
	pf_json_put_key(&out, "time", 0);
	pf_json_put_seconds(&out, (uint64_t)now.tv_sec, (uint64_t)now.tv_nsec);
	pf_json_put_key(&out, "level", 0);
	pf_json_put_string(&out, levels[level].name);
	pf_json_put_key(&out, "pid", 0);
	pf_json_put_int(&out, getpid());
	pf_json_put_key(&out, "message", 0);
	pf_json_put_string(&out, text);
	out.end += 2;
	pf_json_put(&out, "}\n", 2);
	return (size_t)(out.at - dst);
}

void pf_log(enum pf_log_level level, const char *fmt, ...)
{
	char text[2048], line[2 * sizeof(text) + 256];
	int saved = errno, n;
	size_t len;
	va_list ap;

	if (level > threshold)
		return;
	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	if (n >= (int)sizeof(text))
		n = (int)sizeof(text) - 1;
	/* Messages quote plugins and users: one line, whatever they hold. */
	text[pf_err_clean(text, (size_t)n)] = '\0';
	if (use_syslog) {
		syslog(levels[level].priority, "%s", text);
	} else {
		/* One write, so that lines of several threads do not mix. */
		bound_file();
		len = make_line(line, sizeof(line), level, text);
		if (write(STDERR_FILENO, line, len) < 0) {
			/* No place is left to report this failure. */
		}
	}
	errno = saved;
}
