/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/engine.h"

enum { EARLY_MS = 100 /* between the monitor's checks whether the daemon serves */ };

int pf_plugin_log_init(struct pf_plugin_log *log, const char *name)
{
	memset(log, 0, sizeof(*log));
	log->name = name;
	if (pthread_mutex_init(&log->lock, NULL))
		abort();
	return pf_lines_init(&log->lines, PF_PLUGIN_LOG_BYTES);
}

void pf_plugin_log_release(struct pf_plugin_log *log)
{
	if (!log->name)
		return;
	pf_lines_release(&log->lines);
	pf_buf_release(&log->line);
	pthread_mutex_destroy(&log->lock);
	log->name = NULL;
}

/* --- the daemon's log --------------------------------------------------------------- */

/* Lines of XLA begin as those of Abseil's logging library: a letter, and the date. */
static enum pf_log_level level_of(const char *line, size_t len)
{
	if (len < 5 || !isdigit((unsigned char)line[1]) ||
	    !isdigit((unsigned char)line[4]))
		return PF_LOG_INFO;
	switch (*line) {
	case 'W':
		return PF_LOG_WARNING;
	case 'E':
	case 'F':
		return PF_LOG_ERROR;
	default:
		return PF_LOG_INFO;
	}
}

/* Write one line, without its newline, unless that would block because no process reads
 * the daemon's standard error. */
static void write_line(struct pf_plugin_log *log, const char *line, size_t len)
{
	if (!len)
		return;
	if (log->n_written >= PF_PLUGIN_LOG_BURST || pf_log_would_block()) {
		log->n_skipped++;
		return;
	}
	log->n_written++;
	pf_log(level_of(line, len), "plugin %s: %.*s", log->name, (int)len, line);
}

static void write_skipped(struct pf_plugin_log *log)
{
	if (!log->n_skipped || pf_log_would_block())
		return;
	pf_log(PF_LOG_WARNING,
	       "plugin %s: it printed %" PRIu64
	       " lines more, of which plugins/%s/log has "
	       "the last ones",
	       log->name, log->n_skipped, log->name);
	log->n_skipped = 0;
}

/* Begin another period if this one is over. */
static void begin_period(struct pf_plugin_log *log)
{
	int64_t now = pf_now_ms();

	if (log->period_began && now - log->period_began < PF_PLUGIN_LOG_PERIOD_MS)
		return;
	if (log->period_began)
		write_skipped(log);
	log->period_began = now;
	log->n_written = 0;
}

/* Does the daemon's log lack lines?  Only the thread that adds lines changes their list, so it may
 * read it without the lock. */
static bool lags(const struct pf_plugin_log *log)
{
	return !log->quiet && (log->n_passed_on < log->lines.count || log->n_skipped);
}

void pf_plugin_log_tick(struct pf_plugin_log *log)
{
	const char *line;
	size_t len;

	if (!lags(log) || !pf_log_serves())
		return;
	begin_period(log);
	while ((line = pf_lines_next(&log->lines, &log->passed_on, &len))) {
		write_line(log, line, len - 1);
		log->n_passed_on++;
	}
	/* The log dropped the others. */
	log->n_skipped += log->lines.count - log->n_passed_on;
	log->n_passed_on = log->lines.count;
}

void pf_plugin_log_pass(struct pf_plugin_log *log)
{
	log->passed_on = log->lines.end;
	log->n_passed_on = log->lines.count;
}

void pf_plugin_log_explain(struct pf_plugin_log *log)
{
	const char *line;
	size_t len;

	if (!lags(log))
		return;
	begin_period(log);
	while ((line = pf_lines_next(&log->lines, &log->passed_on, &len))) {
		if (level_of(line, len - 1) != PF_LOG_INFO)
			write_line(log, line, len - 1);
		log->n_passed_on++;
	}
}

int pf_plugin_log_due_ms(const struct pf_plugin_log *log)
{
	int64_t left;

	if (!lags(log))
		return -1;
	if (!pf_log_serves() || log->n_passed_on < log->lines.count)
		return EARLY_MS;
	left = log->period_began + PF_PLUGIN_LOG_PERIOD_MS - pf_now_ms();
	return left > 0 ? (int)left + 1 : 1;
}

/* --- adding ------------------------------------------------------------------------- */

/*
 * Whenever XLA's CPU plugin loads a compiled program, it reports LLVM's tuning flags as features that
 * the processor lacks: some 2,500 bytes each, which warn of an illegal instruction.  The program was
 * compiled on such a processor, or the cache's key would not match.
 */
static bool is_noise(const struct pf_buf *line)
{
	static const char report[] = "Target machine feature +prefer-no-";

	return line->len && memmem(line->data, line->len, report, strlen(report));
}

/* Add log->line, which is whole. */
static void end_line(struct pf_plugin_log *log)
{
	struct pf_buf *line = &log->line;

	if (is_noise(line)) {
		line->len = 0;
		return;
	}
	for (size_t i = 0; i < line->len; i++)
		if (iscntrl((unsigned char)line->data[i]) && line->data[i] != '\t')
			line->data[i] = ' ';
	pf_buf_puts(line, "\n");
	pf_lock(&log->lock);
	if (!line->failed)
		pf_lines_append(&log->lines, line->data, line->len);
	atomic_store_explicit(&log->mark, log->lines.end, memory_order_relaxed);
	clock_gettime(CLOCK_REALTIME, &log->time);
	pf_unlock(&log->lock);
	line->len = 0;
	line->failed = false; /* if no memory is left, that line is lost, and no other */
	pf_plugin_log_tick(log);
}

static void notify(struct pf_plugin_log *log)
{
	PF_LOCK_SCOPE(&log->lock);
	if (log->on_add)
		log->on_add(log->arg);
}

void pf_plugin_log_add(struct pf_plugin_log *log, const char *text, size_t len)
{
	const char *end = text + len;
	bool added = false;

	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((newline ? newline : end) - text);
		size_t room = PF_LINE_MAX - 1 - log->line.len;

		pf_buf_append(&log->line, text, n < room ? n : room);
		log->line.failed = false;
		text += n < room ? n : room;
		if (n > room || newline) {
			end_line(log);
			added = true;
		}
		if (n <= room && newline)
			text++;
	}
	if (added)
		notify(log);
}

void pf_plugin_log_end(struct pf_plugin_log *log)
{
	if (log->line.len) {
		end_line(log);
		notify(log);
	}
	pf_plugin_log_tick(log);
	if (pf_log_serves())
		write_skipped(log);
}

/* --- why a worker died -------------------------------------------------------------- */

/* How well the line explains a death: 0: not at all; 1: perhaps; 2: it states the
 * reason. */
static int weight(const char *line, size_t len)
{
	static const char *const fatal[] = {
		"Check failed",     "what():",      "LLVM ERROR", "FATAL",
		"terminate called", "Unknown flag", "assert"
	};

	while (len && isspace((unsigned char)*line)) {
		line++;
		len--;
	}
	/* Stack traces: "    @   0x7f...  name", "*** Check failure stack trace: ***". */
	if (!len || *line == '@' || *line == '*')
		return 0;
	for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++)
		if (memmem(line, len, fatal[i], strlen(fatal[i])))
			return 2;
	if (len > 5 && *line == 'F' && isdigit((unsigned char)line[1]) &&
	    isdigit((unsigned char)line[4]))
		return 2;
	return 1;
}

uint64_t pf_plugin_log_quote(struct pf_plugin_log *log, uint64_t mark,
			     enum pf_plugin_log_lines lines, struct pf_err *why)
{
	const char *line, *best = NULL;
	uint64_t best_at = UINT64_MAX;
	size_t len, best_len = 0;
	int best_weight = lines;

	PF_LOCK_SCOPE(&log->lock);
	while ((line = pf_lines_next(&log->lines, &mark, &len))) {
		int w = weight(line, len - 1);

		if (w < best_weight)
			continue;
		best = line;
		best_len = len - 1;
		best_at = mark - len;
		best_weight = w;
	}
	if (best)
		pf_err_set(why, why->code, "%s; it printed last: %.*s", why->text,
			   (int)best_len, best);
	return best_at;
}

void pf_plugin_log_find_cause(struct pf_plugin_log *log, uint64_t mark,
			      struct pf_err *why)
{
	const char *line;
	size_t len;

	PF_LOCK_SCOPE(&log->lock);
	while ((line = pf_lines_next(&log->lines, &mark, &len)))
		if (pf_err_explain(why, line, len))
			return;
}

/* --- reading ------------------------------------------------------------------------ */

void pf_plugin_log_on_add(struct pf_plugin_log *log, void (*fn)(void *arg), void *arg)
{
	PF_LOCK_SCOPE(&log->lock);
	log->on_add = fn;
	log->arg = arg;
}

static size_t print_notice(void *arg, uint64_t n, char *dst)
{
	(void)arg;
	return (size_t)snprintf(dst, PF_LINE_MAX, "(%" PRIu64 " lines were dropped)\n",
				n);
}

size_t pf_plugin_log_read(struct pf_plugin_log *log, struct pf_lines_reader *reader,
			  uint64_t off, char *dst, size_t len)
{
	size_t done = 0, n = 1;

	/* The thread that adds waits while a chunk is copied, no longer. */
	while (done < len && n) {
		PF_LOCK_SCOPE(&log->lock);
		n = pf_lines_read(&log->lines, reader, off + done, dst + done, len - done,
				  print_notice, NULL);
		done += n;
	}
	return done;
}

bool pf_plugin_log_ready(struct pf_plugin_log *log, const struct pf_lines_reader *reader)
{
	PF_LOCK_SCOPE(&log->lock);
	return pf_lines_ready(&log->lines, reader);
}

uint64_t pf_plugin_log_size(struct pf_plugin_log *log,
			    const struct pf_lines_reader *reader,
			    struct timespec *ret_time)
{
	PF_LOCK_SCOPE(&log->lock);
	*ret_time = log->time;
	return pf_lines_size(&log->lines, reader);
}

void pf_plugin_log_copy(struct pf_plugin_log *log, struct pf_buf *out)
{
	uint64_t at = 0;
	const char *line;
	size_t len;

	PF_LOCK_SCOPE(&log->lock);
	while ((line = pf_lines_next(&log->lines, &at, &len)))
		pf_buf_append(out, line, len);
}
