/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes written to a control file become commands. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

void pf_ctl_error_line(struct pf_buf *out, const struct pf_err *err)
{
	pf_buf_printf(out,
		      "{\"ok\":false,\"error\":{\"errno\":\"%s\",\"code\":\"%s\","
		      "\"message\":\"",
		      pf_errno_name(err->code),
		      pf_pjrt_code_name(err->pjrt_code, err->code));
	for (const char *p = err->text; *p; p++) {
		if ((unsigned char)*p < 0x20)
			pf_buf_printf(out, "\\u%04x", *p);
		else if (*p == '"' || *p == '\\')
			pf_buf_append(out, (char[]){ '\\', *p }, 2);
		else
			pf_buf_append(out, p, 1);
	}
	pf_buf_puts(out, "\"}}");
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
	if (!s->spare && item->text.cap <= PF_CTL_KEEP && !item->text.failed) {
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

/* Queue the command that the part and the N bytes at SRC make. */
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

/* Queue a failure in place of a command: it is answered when its turn comes. */
static int refuse(struct pf_control *s, const struct pf_err *err,
		  struct pf_command_queue *items)
{
	struct pf_queued_command *item = item_new(s);

	if (!item)
		return -ENOMEM;
	pf_ctl_error_line(&item->text, err);
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
	if (s->part.cap > PF_CTL_KEEP)
		pf_buf_release(&s->part);
	s->scan = (struct pf_scan){ 0 };
}

static int refuse_long(struct pf_control *s, struct pf_command_queue *items)
{
	struct pf_err err = PF_ERR_INIT;

	pf_err_set(&err, -E2BIG, "a command of more than %d bytes", PF_CTL_MAX_COMMAND);
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

	if (s->part.len + n > PF_CTL_MAX_COMMAND) {
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
static int cut_line(struct pf_control *s, const char *src, size_t len, size_t *used,
		    struct pf_command_queue *items)
{
	const char *end = memchr(src, '\n', len);

	if (end) {
		*used = (size_t)(end - src) + 1;
		return accept_line(s, src, *used - 1, items);
	}
	*used = len;
	if (s->part.len + len <= PF_CTL_MAX_COMMAND)
		return keep_part(s, src, len);
	pf_command_parser_reset(s);
	s->skipping = true;
	return refuse_long(s, items);
}

static int accept_object(struct pf_control *s, const char *src, size_t n,
			 struct pf_command_queue *items)
{
	struct pf_err err = PF_ERR_INIT;
	int r;

	if (s->part.len) {
		r = keep_part(s, src, n);
		if (r < 0)
			return r;
		src = s->part.data;
		n = s->part.len;
	}
	if (n > PF_CTL_MAX_COMMAND)
		r = refuse_long(s, items);
	else if (pf_scan_check(src, n, &err) < 0)
		r = refuse(s, &err, items);
	else
		r = accept(s, src, s->part.len ? 0 : n, items);
	pf_command_parser_reset(s);
	return r;
}

/* The byte AT cannot follow what came before it. */
static int refuse_syntax(struct pf_control *s, const char *at, size_t pos,
			 struct pf_command_queue *items)
{
	struct pf_err err = PF_ERR_INIT;
	char what[16] = "a line's end";
	int r;

	if (*at > ' ' && *at < 0x7f)
		snprintf(what, sizeof(what), "%c", *at);
	else if (*at != '\n')
		snprintf(what, sizeof(what), "byte 0x%02x", (unsigned char)*at);
	pf_err_set(&err, -EINVAL, "JSON: byte %zu of the command is %s, expected %s%s",
		   pos, what, s->scan.want,
		   pos == 1 ? ", as in {\"op\":\"execute\",...}" : "");
	s->skipping = *at != '\n';
	r = refuse(s, &err, items);
	pf_command_parser_reset(s);
	return r;
}

/* Take one object, or its beginning; *USED: the bytes taken. */
static int cut_object(struct pf_control *s, const char *src, size_t len, size_t *used,
		      struct pf_command_queue *items)
{
	size_t space = 0, n;

	if (!s->part.len)
		while (space < len && strchr(" \t\r\n", src[space]) && src[space])
			space++;
	*used = space;
	src += space;
	len -= space;
	if (!len)
		return 0;
	switch (pf_scan_feed(&s->scan, src, len, &n)) {
	case PF_SCAN_DONE:
		*used += n;
		return accept_object(s, src, n, items);
	case PF_SCAN_BAD:
		*used += n;
		return refuse_syntax(s, src + n - 1, s->part.len + n, items);
	case PF_SCAN_MORE:
		break;
	}
	*used += len;
	if (s->part.len + len <= PF_CTL_MAX_COMMAND)
		return keep_part(s, src, len);
	pf_command_parser_reset(s);
	s->skipping = true;
	return refuse_long(s, items);
}

/* What was cut last ends at END. */
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

	while (done < len && items->n < PF_CTL_BATCH && r == 0) {
		unsigned before = items->n;

		if (s->skipping) {
			const char *end = memchr(src + done, '\n', len - done);

			if (!end)
				return (ssize_t)len;
			done = (size_t)(end - src) + 1;
			s->skipping = false;
		} else if (s->json) {
			r = cut_object(s, src + done, len - done, &used, items);
			done += used;
		} else {
			r = cut_line(s, src + done, len - done, &used, items);
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
