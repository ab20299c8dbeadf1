/* SPDX-License-Identifier: Apache-2.0 */
#include "tail.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

void pf_tail_init(struct pf_tail *tail)
{
	memset(tail, 0, sizeof(*tail));
	if (pthread_mutex_init(&tail->lock, NULL))
		abort();
}

void pf_tail_release(struct pf_tail *tail)
{
	pf_buf_release(&tail->text);
	pthread_mutex_destroy(&tail->lock);
}

static void keep(struct pf_tail *tail, const char *text, size_t len)
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
	if (tail->text.len > 2 * PF_TAIL_BYTES)
		pf_buf_consume(&tail->text, tail->text.len - PF_TAIL_BYTES);
	tail->text.failed =
		false; /* a line lost for want of memory is no reason to stop */
}

void pf_tail_add(struct pf_tail *tail, const char *text, size_t len)
{
	/* First: a call that begins after its caller saw a line in the log is later than it. */
	keep(tail, text, len);
	if (tail->printed)
		pf_printed_add(tail->printed, text, len);
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

uint64_t pf_tail_last_words(struct pf_tail *tail, uint64_t mark, enum pf_tail_lines lines,
			    struct pf_buf *out)
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

uint64_t pf_tail_quote(struct pf_tail *tail, uint64_t mark, enum pf_tail_lines lines,
		       struct pf_err *why)
{
	pf_autobuf struct pf_buf words = PF_BUF_INIT;
	uint64_t at = pf_tail_last_words(tail, mark, lines, &words);

	if (words.len)
		pf_err_set(why, why->code, "%s; it printed last: %.*s", why->text,
			   (int)words.len, words.data);
	return at;
}
