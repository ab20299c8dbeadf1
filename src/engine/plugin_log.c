/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/engine.h"

enum {
	EARLY_BYTES = 16 << 10, /* of lines that wait for the daemon to serve */
	EARLY_MS = 100,         /* how often they look whether it does */
};

int pf_plugin_log_init(struct pf_plugin_log *p, const char *name)
{
	memset(p, 0, sizeof(*p));
	p->name = name;
	if (pthread_mutex_init(&p->lock, NULL))
		abort();
	return pf_lines_init(&p->lines, PF_PLUGIN_LOG_BYTES);
}

void pf_plugin_log_release(struct pf_plugin_log *p)
{
	if (!p->name)
		return;
	pf_lines_release(&p->lines);
	pf_buf_release(&p->line);
	pf_buf_release(&p->early);
	pthread_mutex_destroy(&p->lock);
	p->name = NULL;
}

void pf_plugin_log_on_add(struct pf_plugin_log *p, void (*fn)(void *arg), void *arg)
{
	PF_LOCK_SCOPE(&p->lock);
	p->on_add = fn;
	p->arg = arg;
}

/* --- the daemon's log ------------------------------------------------------------------- */

/* XLA's lines begin as Abseil's do: a letter, and the date. */
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

/* One line, without its newline; a standard error that nobody reads holds up nobody. */
static void say(struct pf_plugin_log *p, const char *line, size_t len)
{
	if (p->logged >= PF_PLUGIN_LOG_BURST || pf_log_would_block()) {
		p->untold++;
		return;
	}
	p->logged++;
	pf_log(level_of(line, len), "plugin %s: %.*s", p->name, (int)len, line);
}

static void say_untold(struct pf_plugin_log *p)
{
	if (!p->untold || pf_log_would_block())
		return;
	pf_log(PF_LOG_WARNING,
	       "plugin %s: it printed %" PRIu64
	       " lines more, of which plugins/%s/log has "
	       "the last ones",
	       p->name, p->untold, p->name);
	p->untold = 0;
}

/* Another period begins if this one is over. */
static void begin_period(struct pf_plugin_log *p)
{
	int64_t now = pf_now_ms();

	if (p->period_began && now - p->period_began < PF_PLUGIN_LOG_PERIOD_MS)
		return;
	if (p->period_began)
		say_untold(p);
	p->period_began = now;
	p->logged = 0;
}

static void say_early(struct pf_plugin_log *p)
{
	const char *at = p->early.data, *end;

	while (p->early.len && at < p->early.data + p->early.len) {
		end = memchr(at, '\n', (size_t)(p->early.data + p->early.len - at));
		say(p, at, (size_t)(end - at));
		at = end + 1;
	}
	pf_buf_release(&p->early);
}

static void report(struct pf_plugin_log *p, const char *line, size_t len)
{
	if (p->quiet || !len)
		return;
	if (pf_log_serves()) {
		begin_period(p);
		say_early(p);
		say(p, line, len);
	} else if (p->early.len + len < EARLY_BYTES) {
		pf_buf_append(&p->early, line, len);
		pf_buf_puts(&p->early, "\n");
		if (p->early.failed)
			pf_buf_release(&p->early);
	} else {
		p->untold++;
	}
}

int pf_plugin_log_due_ms(const struct pf_plugin_log *p)
{
	int64_t left;

	if (!p->early.len && !p->untold)
		return -1;
	if (!pf_log_serves() || p->early.len)
		return EARLY_MS;
	left = p->period_began + PF_PLUGIN_LOG_PERIOD_MS - pf_now_ms();
	return left > 0 ? (int)left + 1 : 1;
}

void pf_plugin_log_tick(struct pf_plugin_log *p)
{
	if (p->quiet || !pf_log_serves() || (!p->early.len && !p->untold))
		return;
	begin_period(p);
	say_early(p);
}

/* --- what is printed -------------------------------------------------------------------- */

/* P->line is whole. */
static void end_line(struct pf_plugin_log *p)
{
	struct pf_buf *line = &p->line;

	for (size_t i = 0; i < line->len; i++)
		if (iscntrl((unsigned char)line->data[i]) && line->data[i] != '\t')
			line->data[i] = ' ';
	report(p, line->data, line->len);
	pf_buf_puts(line, "\n");
	pf_lock(&p->lock);
	if (!line->failed)
		pf_lines_append(&p->lines, line->data, line->len);
	clock_gettime(CLOCK_REALTIME, &p->time);
	pf_unlock(&p->lock);
	line->len = 0;
	line->failed = false; /* a line lost for want of memory is no reason to stop */
}

static void lines_came(struct pf_plugin_log *p)
{
	PF_LOCK_SCOPE(&p->lock);
	if (p->on_add)
		p->on_add(p->arg);
}

void pf_plugin_log_add(struct pf_plugin_log *p, const char *text, size_t len)
{
	const char *end = text + len;
	bool came = false;

	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((newline ? newline : end) - text);
		size_t room = PF_LINE_MAX - 1 - p->line.len;

		pf_buf_append(&p->line, text, n < room ? n : room);
		p->line.failed = false;
		text += n < room ? n : room;
		if (n > room || newline) {
			end_line(p);
			came = true;
		}
		if (n <= room && newline)
			text++;
	}
	if (came)
		lines_came(p);
}

void pf_plugin_log_end(struct pf_plugin_log *p)
{
	if (p->line.len) {
		end_line(p);
		lines_came(p);
	}
	if (!p->quiet && pf_log_serves()) {
		begin_period(p);
		say_early(p);
		say_untold(p);
	}
}

/* --- reading ---------------------------------------------------------------------------- */

static size_t print_notice(void *arg, uint64_t n, char *dst)
{
	(void)arg;
	return (size_t)snprintf(dst, PF_LINE_MAX, "(%" PRIu64 " lines were dropped)\n",
				n);
}

size_t pf_plugin_log_read(struct pf_plugin_log *p, struct pf_lines_reader *reader,
			  uint64_t off, char *dst, size_t len)
{
	size_t done = 0, n = 1;

	/* Who prints waits for no more than a chunk to be copied. */
	while (done < len && n) {
		PF_LOCK_SCOPE(&p->lock);
		n = pf_lines_read(&p->lines, reader, off + done, dst + done, len - done,
				  print_notice, NULL);
		done += n;
	}
	return done;
}

bool pf_plugin_log_ready(struct pf_plugin_log *p, const struct pf_lines_reader *reader)
{
	PF_LOCK_SCOPE(&p->lock);
	return pf_lines_ready(&p->lines, reader);
}

uint64_t pf_plugin_log_size(struct pf_plugin_log *p, const struct pf_lines_reader *reader,
			    struct timespec *ret_time)
{
	PF_LOCK_SCOPE(&p->lock);
	*ret_time = p->time;
	return pf_lines_size(&p->lines, reader);
}

void pf_stderr_tail_init(struct pf_stderr_tail *tail)
{
	memset(tail, 0, sizeof(*tail));
	if (pthread_mutex_init(&tail->lock, NULL))
		abort();
}

void pf_stderr_tail_release(struct pf_stderr_tail *tail)
{
	pf_buf_release(&tail->text);
	pthread_mutex_destroy(&tail->lock);
}

static void keep(struct pf_stderr_tail *tail, const char *text, size_t len)
{
	size_t from;

	PF_LOCK_SCOPE(&tail->lock);
	from = tail->text.len;
	pf_buf_append(&tail->text, text, len);
	for (size_t i = from; i < tail->text.len; i++)
		if (iscntrl((unsigned char)tail->text.data[i]) &&
		    tail->text.data[i] != '\n' && tail->text.data[i] != '\t')
			tail->text.data[i] = ' ';
	atomic_fetch_add(&tail->total, tail->text.len - from);
	if (tail->text.len > 2 * PF_STDERR_TAIL_BYTES)
		pf_buf_consume(&tail->text, tail->text.len - PF_STDERR_TAIL_BYTES);
	tail->text.failed =
		false; /* a line lost for want of memory is no reason to stop */
}

void pf_stderr_tail_add(struct pf_stderr_tail *tail, const char *text, size_t len)
{
	/* First: a call that begins after its caller saw a line in the log is later than it. */
	keep(tail, text, len);
	if (tail->plugin_log)
		pf_plugin_log_add(tail->plugin_log, text, len);
}

/* 0: says nothing; 1: some line; 2: the reason of a death. */
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

uint64_t pf_stderr_tail_last_words(struct pf_stderr_tail *tail, uint64_t mark,
				   enum pf_stderr_tail_lines lines, struct pf_buf *out)
{
	const char *best = NULL, *at, *end;
	int best_weight = lines;
	size_t best_len = 0;
	uint64_t first;

	PF_LOCK_SCOPE(&tail->lock);
	first = tail->total - tail->text.len;
	if (mark < first)
		mark = first;
	if (mark >= tail->total)
		return UINT64_MAX;
	at = tail->text.data + (mark - first);
	end = tail->text.data + tail->text.len;
	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t len = (size_t)((newline ? newline : end) - at);
		int w = weight(at, len);

		if (w >= best_weight) {
			best = at;
			best_len = len;
			best_weight = w;
		}
		at += len + 1;
	}
	if (!best)
		return UINT64_MAX;
	pf_buf_append(out, best, best_len);
	return first + (uint64_t)(best - tail->text.data);
}

uint64_t pf_stderr_tail_quote(struct pf_stderr_tail *tail, uint64_t mark,
			      enum pf_stderr_tail_lines lines, struct pf_err *why)
{
	pf_autobuf struct pf_buf words = PF_BUF_INIT;
	uint64_t at = pf_stderr_tail_last_words(tail, mark, lines, &words);

	if (words.len)
		pf_err_set(why, why->code, "%s; it printed last: %.*s", why->text,
			   (int)words.len, words.data);
	return at;
}
