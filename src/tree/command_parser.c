/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes written to a control file become commands. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

void pf_control_error_line(struct pf_buf *out, const struct pf_err *err)
{
	static const char before[] = "{\"ok\":false,\"error\":";
	char text[6 * PF_ERR_TEXT + 256];
	struct pf_json_out json = { text, text + sizeof(text), false };

	pf_json_put(&json, before, sizeof(before) - 1);
	pf_json_put_error(&json, err);
	pf_json_put(&json, "}", 1);
	pf_buf_append(out, text, (size_t)(json.at - text));
}

void pf_command_queue_add(struct pf_command_queue *items, struct pf_queued_command *item)
{
	if (!items->first)
		items->end = &items->first;
	item->next = NULL;
	*items->end = item;
	items->end = &item->next;
	items->n++;
}

struct pf_queued_command *pf_command_queue_pop(struct pf_command_queue *items)
{
	struct pf_queued_command *item = items->first;

	if (item) {
		items->first = item->next;
		items->n--;
	}
	return item;
}

/* One item is kept with its memory for the next command. */
void pf_queued_command_free(struct pf_control *s, struct pf_queued_command *item)
{
	json_object_put(pf_steal(&item->command.json));
	if (!s->spare && item->text.cap <= PF_CONTROL_KEEP && !item->text.failed) {
		item->text.len = 0;
		s->spare = item;
		return;
	}
	pf_buf_release(&item->text);
	free(item);
}

static struct pf_queued_command *item_new(struct pf_control *s)
{
	struct pf_queued_command *item =
		s->spare ? pf_steal(&s->spare) : calloc(1, sizeof(*item));

	if (!item)
		return NULL;
	item->command.of = s->of;
	atomic_store(&item->command.cancelled, false);
	atomic_store(&item->command.user, NULL);
	item->code = 0;
	return item;
}

/* Queue the command that consists of the part and the N bytes at SRC. */
static int accept(struct pf_control *s, const char *src, size_t n,
		  struct pf_command_queue *items)
{
	struct pf_queued_command *item = item_new(s);

	if (!item)
		return -ENOMEM;
	pf_buf_append(&item->text, s->part.data, s->part.len);
	pf_buf_append(&item->text, src, n);
	if (item->text.failed) {
		pf_queued_command_free(s, item);
		return -ENOMEM;
	}
	item->command.text = item->text.data;
	item->command.len = item->text.len;
	pf_command_queue_add(items, item);
	return 0;
}

/* Queue a failure in place of a command: it is answered after the commands before it. */
static int refuse(struct pf_control *s, const struct pf_err *err,
		  struct pf_command_queue *items)
{
	struct pf_queued_command *item = item_new(s);

	if (!item)
		return -ENOMEM;
	pf_control_error_line(&item->text, err);
	item->code = err->code;
	if (item->text.failed) {
		pf_queued_command_free(s, item);
		return -ENOMEM;
	}
	pf_command_queue_add(items, item);
	return 0;
}

void pf_command_parser_reset(struct pf_control *s)
{
	s->part.len = 0;
	s->part.failed = false;
	if (s->part.cap > PF_CONTROL_KEEP)
		pf_buf_release(&s->part);
	s->scan = (struct pf_command_scan){ 0 };
}

static int refuse_long(struct pf_control *s, struct pf_command_queue *items)
{
	struct pf_err err = PF_ERR_INIT;

	pf_err_set(&err, -E2BIG, "a command of more than %d bytes",
		   PF_CONTROL_MAX_COMMAND);
	return refuse(s, &err, items);
}

static int keep_part(struct pf_control *s, const char *src, size_t n)
{
	pf_buf_append(&s->part, src, n);
	return s->part.failed ? -ENOMEM : 0;
}

static bool is_blank(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
			return false;
	return true;
}

static int accept_line(struct pf_control *s, const char *src, size_t n,
		       struct pf_command_queue *items)
{
	struct pf_err err = PF_ERR_INIT;
	int r;

	if (s->part.len + n > PF_CONTROL_MAX_COMMAND) {
		r = refuse_long(s, items);
	} else if (memchr(src, 0, n) ||
		   (s->part.len && memchr(s->part.data, 0, s->part.len))) {
		pf_err_set(&err, -EINVAL, "a NUL in the command");
		r = refuse(s, &err, items);
	} else if (is_blank(s->part.data, s->part.len) && is_blank(src, n)) {
		r = 0;
	} else {
		r = accept(s, src, n, items);
	}
	pf_command_parser_reset(s);
	return r;
}

/* Take one line, or its beginning; *USED: the bytes taken. */
static int parse_line(struct pf_control *s, const char *src, size_t len, size_t *used,
		      struct pf_command_queue *items)
{
	const char *end = memchr(src, '\n', len);

	if (end) {
		*used = (size_t)(end - src) + 1;
		return accept_line(s, src, *used - 1, items);
	}
	*used = len;
	if (s->part.len + len <= PF_CONTROL_MAX_COMMAND)
		return keep_part(s, src, len);
	pf_command_parser_reset(s);
	s->skipping = true;
	return refuse_long(s, items);
}

static int accept_object(struct pf_control *s, const char *src, size_t n,
			 struct pf_command_queue *items)
{
	int r;

	if (s->part.len + n > PF_CONTROL_MAX_COMMAND)
		r = refuse_long(s, items);
	else
		r = accept(s, src, n, items);
	pf_command_parser_reset(s);
	return r;
}

/*
 * Where a JSON object ends, found without a copy: brackets, strings, and what follows what.  That
 * is as much as it takes to see at once that a line never becomes a command, so that the next
 * line can; the rest of the grammar is pf_json_parse's.
 */
enum {
	START,
	FIRST_KEY, /* or the end of the object */
	KEY,
	COLON,
	FIRST_VALUE, /* or the end of the array */
	VALUE,
	AFTER, /* a comma or the end */
	STRING,
	ESCAPE,
	NUMBER,
	LITERAL,
};

static bool open_bracket(struct pf_command_scan *s, bool object)
{
	s->objects = s->objects << 1 | object;
	s->state = object ? FIRST_KEY : FIRST_VALUE;
	return ++s->depth <= PF_JSON_DEPTH;
}

static bool close_bracket(struct pf_command_scan *s)
{
	s->objects >>= 1;
	s->depth--;
	s->state = AFTER;
	return true;
}

static bool begin_value(struct pf_command_scan *s, char c)
{
	static const char *const literals[] = { "true", "false", "null" };

	if (c == '{' || c == '[')
		return open_bracket(s, c == '{');
	for (int i = 0; i < 3; i++)
		if (c == literals[i][0]) {
			s->state = LITERAL;
			s->rest = literals[i] + 1;
			return true;
		}
	s->key = false;
	s->state = c == '"' ? STRING : NUMBER;
	return c == '"' || c == '-' || (c >= '0' && c <= '9');
}

/* Can C stand outside strings, numbers and words? */
static bool scan_between(struct pf_command_scan *s, char c)
{
	bool object = s->objects & 1;

	if (c == ' ' || c == '\t' || c == '\r' || c == '\n')
		return true;
	switch (s->state) {
	case START:
		return c == '{' && open_bracket(s, true);
	case FIRST_KEY:
	case KEY:
		if (c == '}' && s->state == FIRST_KEY)
			return close_bracket(s);
		s->key = true;
		s->state = STRING;
		return c == '"';
	case COLON:
		s->state = VALUE;
		return c == ':';
	case FIRST_VALUE:
	case VALUE:
		if (c == ']' && s->state == FIRST_VALUE)
			return close_bracket(s);
		return begin_value(s, c);
	default:
		if (c == (object ? '}' : ']'))
			return close_bracket(s);
		s->state = object ? KEY : VALUE;
		return c == ',';
	}
}

/* Can C follow what was scanned before? */
static bool scan(struct pf_command_scan *s, char c)
{
	switch (s->state) {
	case STRING:
	case ESCAPE:
		if (s->state == STRING && c == '"')
			s->state = s->key ? COLON : AFTER;
		else
			s->state = s->state == STRING && c == '\\' ? ESCAPE : STRING;
		return (unsigned char)c >= ' ';
	case LITERAL:
		if (*s->rest)
			return c == *s->rest++;
		s->state = AFTER;
		return scan_between(s, c);
	case NUMBER:
		if ((c >= '0' && c <= '9') || (c && strchr("+-.eE", c)))
			return true;
		s->state = AFTER;
		return scan_between(s, c);
	default:
		return scan_between(s, c);
	}
}

/* Byte AT of the LEN bytes at SRC cannot follow what came before it: the parser says why. */
static int refuse_syntax(struct pf_control *s, const char *src, size_t at, size_t len,
			 struct pf_command_queue *items)
{
	const char *end = memchr(src + at, '\n', len - at);
	size_t line = end ? (size_t)(end - src) : len;
	bool first = !s->part.len && at == 0;
	struct pf_err err = PF_ERR_INIT;
	struct json_object *none = NULL;
	int r = keep_part(s, src, line > at ? line : at + 1);

	if (r < 0)
		return r;
	if (first)
		pf_err_set(&err, -EINVAL,
			   "JSON: byte 1: expected {, as in {\"op\":\"execute\",...}, "
			   "found \"%.16s\"",
			   s->part.data);
	else
		pf_json_parse(s->part.data, s->part.len, &none, &err);
	s->skipping = src[at] != '\n';
	r = refuse(s, &err, items);
	pf_command_parser_reset(s);
	return r;
}

/* Take one object, or its beginning; *USED: the bytes taken. */
static int parse_object(struct pf_control *s, const char *src, size_t len, size_t *used,
			struct pf_command_queue *items)
{
	size_t space = 0, n = 0;

	if (!s->part.len)
		while (space < len && strchr(" \t\r\n", src[space]) && src[space])
			space++;
	src += space;
	len -= space;
	while (n < len && (!n || s->scan.depth)) {
		/* Most bytes are in strings. */
		while (s->scan.state == STRING && n + 1 < len &&
		       (unsigned char)src[n] >= ' ' && src[n] != '"' && src[n] != '\\')
			n++;
		if (!scan(&s->scan, src[n])) {
			*used = space + n + 1;
			return refuse_syntax(s, src, n, len, items);
		}
		n++;
	}
	*used = space + n;
	if (n && !s->scan.depth)
		return accept_object(s, src, n, items);
	if (s->part.len + len <= PF_CONTROL_MAX_COMMAND)
		return keep_part(s, src, len);
	pf_command_parser_reset(s);
	s->skipping = true;
	return refuse_long(s, items);
}

/* The command that was added last ends at END. */
static void note_end(struct pf_command_queue *items, unsigned before, size_t end)
{
	if (items->n > before)
		pf_container_of(items->end, struct pf_queued_command, next)->end = end;
}

ssize_t pf_command_parse(struct pf_control *s, const char *src, size_t len,
			 struct pf_command_queue *items)
{
	size_t done = 0, used;
	int r = 0;

	while (done < len && items->n < PF_CONTROL_BATCH && r == 0) {
		unsigned before = items->n;

		if (s->skipping) {
			const char *end = memchr(src + done, '\n', len - done);

			if (!end)
				return (ssize_t)len;
			done = (size_t)(end - src) + 1;
			s->skipping = false;
		} else if (s->json) {
			r = parse_object(s, src + done, len - done, &used, items);
			done += used;
		} else {
			r = parse_line(s, src + done, len - done, &used, items);
			done += used;
		}
		note_end(items, before, done);
	}
	if (r == 0)
		return (ssize_t)done;
	pf_command_parser_reset(s);
	return r;
}

int pf_command_parse_rest(struct pf_control *s, struct pf_command_queue *items)
{
	return accept_line(s, "", 0, items);
}
