/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/telemetry.h"

/* Lines do not go beyond their chunk, so that chunks are dropped with whole lines. */
struct pf_lines_chunk {
	uint64_t at;   /* offset of the first byte */
	uint64_t line; /* lines before it */
	size_t used;
	char data[PF_LINES_CHUNK];
};

int pf_lines_init(struct pf_lines *lines, size_t bytes)
{
	size_t max = bytes / PF_LINES_CHUNK;

	memset(lines, 0, sizeof(*lines));
	lines->max = max < 2 ? 2 : (unsigned)max;
	lines->chunks = calloc(lines->max, sizeof(*lines->chunks));
	return lines->chunks ? 0 : -ENOMEM;
}

static struct pf_lines_chunk *chunk(const struct pf_lines *lines, unsigned i)
{
	return lines->chunks[(lines->first + i) % lines->max];
}

void pf_lines_release(struct pf_lines *lines)
{
	for (unsigned i = 0; i < lines->n; i++)
		free(chunk(lines, i));
	free(lines->chunks);
	memset(lines, 0, sizeof(*lines));
}

/* An empty chunk at the end: a new one, or the oldest one's memory. */
static struct pf_lines_chunk *extend(struct pf_lines *lines)
{
	struct pf_lines_chunk *c = NULL;

	if (lines->n < lines->max)
		c = malloc(sizeof(*c));
	if (!c && lines->n) {
		c = chunk(lines, 0);
		lines->first = (lines->first + 1) % lines->max;
		lines->n--;
	}
	if (!c)
		return NULL;
	c->at = lines->end;
	c->line = lines->count;
	c->used = 0;
	lines->chunks[(lines->first + lines->n) % lines->max] = c;
	lines->n++;
	return c;
}

void pf_lines_append(struct pf_lines *lines, const char *text, size_t len)
{
	struct pf_lines_chunk *c = lines->n ? chunk(lines, lines->n - 1) : NULL;

	assert(len && len <= PF_LINE_MAX && text[len - 1] == '\n');
	if (!c || len > PF_LINES_CHUNK - c->used)
		c = extend(lines);
	if (!c) {
		lines->lost++;
		return;
	}
	memcpy(c->data + c->used, text, len);
	c->used += len;
	lines->end += len;
	lines->count++;
}

uint64_t pf_lines_start(const struct pf_lines *lines, uint64_t *ret_line)
{
	const struct pf_lines_chunk *c = lines->n ? chunk(lines, 0) : NULL;

	*ret_line = c ? c->line : lines->count;
	return c ? c->at : lines->end;
}

/* The chunk that byte POS, which is kept, lies in. */
static const struct pf_lines_chunk *find(const struct pf_lines *lines, uint64_t pos)
{
	unsigned low = 0, high = lines->n;

	while (high - low > 1) {
		unsigned mid = (low + high) / 2;

		if (chunk(lines, mid)->at <= pos)
			low = mid;
		else
			high = mid;
	}
	return chunk(lines, low);
}

static uint64_t count_lines(const char *text, size_t len)
{
	const char *end = text + len;
	uint64_t n = 0;

	while ((text = memchr(text, '\n', (size_t)(end - text)))) {
		text++;
		n++;
	}
	return n;
}

/* The place in the log of the reader's offset 0, if it had read everything up to now. */
static uint64_t shift_of(const struct pf_lines_reader *r)
{
	return r->pos - (r->next + (r->rest_len - r->rest_at));
}

void pf_lines_reader_release(struct pf_lines_reader *r)
{
	free(r->rest);
	r->rest = NULL;
	r->rest_at = r->rest_len = 0;
}

static void seek(const struct pf_lines *lines, struct pf_lines_reader *r, uint64_t off)
{
	uint64_t shift = shift_of(r), line, start = pf_lines_start(lines, &line);

	pf_lines_reader_release(r);
	r->next = off;
	r->pos = off ? off + shift : 0;
	r->line = 0;
	if (r->pos >= start && r->pos < lines->end) {
		const struct pf_lines_chunk *c = find(lines, r->pos);

		r->line = c->line + count_lines(c->data, (size_t)(r->pos - c->at));
	} else if (r->pos >= lines->end) {
		r->line = lines->count;
	}
}

/* The first byte of the line after the one that POS, which is kept, lies in. */
static uint64_t next_line(const struct pf_lines *lines, uint64_t pos)
{
	const struct pf_lines_chunk *c = find(lines, pos);
	const char *at = c->data + (pos - c->at);
	const char *newline = memchr(at, '\n', c->used - (size_t)(pos - c->at));

	return pos + (uint64_t)(newline - at) + 1;
}

const char *pf_lines_next(const struct pf_lines *lines, uint64_t *pos, size_t *ret_len)
{
	uint64_t line, start = pf_lines_start(lines, &line), at;
	const struct pf_lines_chunk *c;

	at = *pos > start ? *pos : start;
	if (at >= lines->end)
		return NULL;
	c = find(lines, at);
	*pos = next_line(lines, at);
	*ret_len = (size_t)(*pos - at);
	return c->data + (at - c->at);
}

/*
 * The lines at POS were dropped: R's rest becomes a line that says so.  That line is
 * shorter than the dropped ones, so no reader's offset is ever beyond the log's end,
 * which tail(1) would take for a truncated file.
 */
static bool skip_hole(const struct pf_lines *lines, struct pf_lines_reader *r,
		      size_t (*notice)(void *arg, uint64_t n, char *dst), void *arg)
{
	uint64_t line, pos = pf_lines_start(lines, &line);

	r->rest = malloc(PF_LINE_MAX);
	if (!r->rest)
		return false;
	r->rest_at = 0;
	r->rest_len = notice(arg, line - r->line, r->rest);
	while (pos < lines->end && pos < r->next + r->rest_len) {
		pos = next_line(lines, pos);
		r->rest_len = notice(arg, ++line - r->line, r->rest);
	}
	r->pos = pos;
	r->line = line;
	return true;
}

static size_t take_rest(struct pf_lines_reader *r, char *dst, size_t len)
{
	size_t n = r->rest_len - r->rest_at;

	if (n > len)
		n = len;
	memcpy(dst, r->rest + r->rest_at, n);
	r->rest_at += n;
	if (r->rest_at == r->rest_len)
		pf_lines_reader_release(r);
	return n;
}

/* Copy from the chunk that POS lies in.  The end of a line that does not fit is kept, so that
 * it can be read also when it was dropped by then. */
static size_t take_lines(const struct pf_lines *lines, struct pf_lines_reader *r,
			 char *dst, size_t len)
{
	const struct pf_lines_chunk *c = find(lines, r->pos);
	const char *from = c->data + (r->pos - c->at), *newline;
	size_t left = c->used - (size_t)(r->pos - c->at), n = left < len ? left : len;

	memcpy(dst, from, n);
	r->pos += n;
	r->line += count_lines(from, n);
	if (from[n - 1] == '\n')
		return n;
	newline = memchr(from + n, '\n', left - n);
	r->rest_len = (size_t)(newline - (from + n)) + 1;
	r->rest = malloc(r->rest_len);
	if (!r->rest) {
		r->rest_len = 0;
		return n;
	}
	memcpy(r->rest, from + n, r->rest_len);
	r->pos += r->rest_len;
	r->line++;
	return n;
}

size_t pf_lines_read(const struct pf_lines *lines, struct pf_lines_reader *r,
		     uint64_t off, char *dst, size_t len,
		     size_t (*notice)(void *arg, uint64_t n, char *dst), void *arg)
{
	uint64_t line, start = pf_lines_start(lines, &line);
	bool sought = off != r->next || !off;
	size_t done = 0;

	if (sought)
		seek(lines, r, off);
	if (len > PF_LINES_CHUNK)
		len = PF_LINES_CHUNK;
	if (sought && off && r->pos < start) {
		done = len < start - r->pos ? len : (size_t)(start - r->pos);
		memset(dst, 0, done);
		r->pos += done;
		r->next += done;
		r->line = r->pos == start ? line : 0;
		return done;
	}
	while (done < len) {
		size_t n;

		if (r->rest)
			n = take_rest(r, dst + done, len - done);
		else if (r->pos >= lines->end)
			break;
		else if (r->pos >= start)
			n = take_lines(lines, r, dst + done, len - done);
		else if (skip_hole(lines, r, notice, arg))
			continue;
		else
			break;
		done += n;
		r->next += n;
	}
	return done;
}

bool pf_lines_ready(const struct pf_lines *lines, const struct pf_lines_reader *r)
{
	return r->rest || r->pos < lines->end;
}

uint64_t pf_lines_size(const struct pf_lines *lines, const struct pf_lines_reader *r)
{
	return r ? lines->end - shift_of(r) : lines->end;
}
