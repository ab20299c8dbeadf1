/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control files: streams whose writes bring commands, which run one after another, and whose
 * reads take their replies in order.
 *
 * The stream's lock is never held while a kind's command function runs.  An answer may be
 * followed by the release of the open file at once: each function that uses the control
 * after an answer is called with a reference on the open file.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/json.h"

enum {
	MAX_COMMANDS = 1024, /* taken from one write; more is a short write */
	KEPT = 1 << 16,      /* bytes of memory kept for the next command or reply */
	MAX_OWED = 16,       /* threads of one open file that are owed a command */
};

/* A write, or a FLUSH, that waits for its commands. */
struct waiting {
	struct pf_parked parked;
	unsigned left; /* commands not done */
	size_t done;   /* bytes up to the end of the last one that has succeeded */
};

/* One command in the queue, or running. */
struct queued {
	struct pf_command command;
	struct queued *next;
	struct waiting *write;      /* that brought it; NULL: it was interrupted */
	size_t part;                /* bytes of the text that earlier writes brought */
	size_t end;                 /* offset in the write of the end of the command */
	struct pf_kept_err refused; /* by the parser: it does not run */
	pid_t writer;               /* the thread to which it is owed */
	bool owed, over;
	char text[];
};

struct queue {
	struct queued *first, *last;
	unsigned n;
};

struct control {
	struct pf_stream stream; /* its lock protects the fields below */
	struct pf_open *of;      /* borrowed: it owns the control */

	/* The beginning of a command whose end was not written yet. */
	struct pf_buf part;
	struct pf_json_scan scan;
	bool skipping; /* after an error, up to the next newline */

	struct queue queue;
	struct queued *running;

	/* Owned, but the running one: commands that ran when their write was interrupted.  A
	 * writer that writes them again waits for them: they do not run twice. */
	struct queue owed;
	size_t owed_len; /* bytes of their texts */

	bool a_thread_runs; /* it is in run_locked, and will see what was queued */
	bool closed;        /* the last descriptor was closed */
	int failed;         /* write-only: -errno that all later writes get */

	/* Replies not read yet: out's bytes from out_head on.  A reply that found no memory is
	 * dropped, and out has failed. */
	struct pf_buf out;
	size_t out_head;
};

static const struct pf_stream_ops ops;

static struct control *control_of(struct pf_stream *stream)
{
	return pf_container_of(stream, struct control, stream);
}

static struct waiting *write_of(struct pf_parked *parked)
{
	return pf_container_of(parked, struct waiting, parked);
}

static void queue_add(struct queue *q, struct queued *item)
{
	*(q->first ? &q->last->next : &q->first) = item;
	q->last = item;
	item->next = NULL;
	q->n++;
}

static struct queued *queue_pop(struct queue *q)
{
	struct queued *item = q->first;

	if (item) {
		q->first = item->next;
		q->n--;
	}
	return item;
}

static void queued_free(struct queued *item)
{
	json_object_put(item->command.json);
	pf_err_keep(&item->refused, NULL);
	free(item);
}

static void note_held(const struct control *c)
{
	pf_open_hold(c->of, c->part.cap + c->out.cap + c->owed_len);
}

/* --- commands whose write was interrupted; the lock is held --------------------------- */

/* ITEM is owed no more; it is freed, unless it runs. */
static void disown(struct control *c, struct queued *item)
{
	struct queue others = { 0 };
	struct queued *other;

	while ((other = queue_pop(&c->owed)))
		if (other != item)
			queue_add(&others, other);
	c->owed = others;
	c->owed_len -= item->command.len;
	item->owed = false;
	if (item->over)
		queued_free(item);
}

/* The thread WRITER, which brought ITEM, may bring it again. */
static void owe(struct control *c, struct queued *item, pid_t writer)
{
	if (c->owed.n == MAX_OWED)
		disown(c, c->owed.first);
	item->owed = true;
	item->writer = writer;
	c->owed_len += item->command.len;
	queue_add(&c->owed, item);
}

/* W has brought ITEMS.  If the first is what its writer is owed, W waits for that in its place. */
static void take_owed(struct control *c, struct waiting *w, struct queue *items)
{
	struct queued *first = items->first, *item = c->owed.first;

	while (item && item->writer != w->parked.reply->pid)
		item = item->next;
	if (!item)
		return;
	if (first->refused.code == 0 &&
	    !strcmp(first->command.text, item->command.text + item->part)) {
		item->end = first->end;
		item->write = w;
		if (item->over) {
			w->done = item->end;
			w->left--;
		}
		queued_free(queue_pop(items));
	}
	disown(c, item);
}

int pf_control_open(struct pf_open *of, struct pf_err *err)
{
	int r = pf_open_writes(of) ? 0 : pf_open_may_hold(of, err);
	struct control *c;

	if (r < 0)
		return r;
	c = calloc(1, sizeof(*c));
	if (!c)
		return pf_err_set(err, -ENOMEM, "no memory");
	pf_stream_init(&c->stream, &ops);
	c->of = of;
	if (!pf_open_writes(of))
		pf_last_reply_get(of->node, of->cred.uid, of->cred.sid, &c->out);
	pf_open_hold(of, c->out.cap);
	of->state = c;
	return 0;
}

void pf_control_release(struct pf_open *of)
{
	struct control *c = of->state;

	while (c->owed.n)
		disown(c, c->owed.first);
	pf_buf_release(&c->part);
	pf_buf_release(&c->out);
	pf_stream_release(&c->stream);
	free(c);
}

/* --- the bytes of writes become commands; the lock is held --------------------------- */

enum { ERROR_LINE = 6 * PF_ERR_TEXT + PF_ERR_PAYLOADS + 256 };

/* The reply of ERROR_LINE bytes at most to a command that failed; returns its length. */
static size_t put_error_line(char *dst, const struct pf_err *err)
{
	static const char before[] = "{\"ok\":false,\"error\":";
	struct pf_json_out json = { dst, dst + ERROR_LINE, false };

	pf_json_put(&json, before, sizeof(before) - 1);
	pf_json_put_error(&json, err);
	pf_json_put(&json, "}", 1);
	return (size_t)(json.at - dst);
}

void pf_control_error_line(struct pf_buf *out, const struct pf_err *err)
{
	char line[ERROR_LINE];

	pf_buf_append(out, line, put_error_line(line, err));
}

/* Drop what is not a whole command. */
static void reset(struct control *c)
{
	c->part.len = 0;
	c->part.failed = false;
	if (c->part.cap > KEPT)
		pf_buf_release(&c->part);
	c->scan = (struct pf_json_scan){ 0 };
}

/* Queue the part and the N bytes at SRC, a command. */
static int add(struct control *c, const char *src, size_t n, struct queue *items)
{
	size_t part = c->part.len;
	struct queued *item = malloc(sizeof(*item) + part + n + 1);

	if (!item)
		return -ENOMEM;
	*item = (struct queued){ .part = part };
	item->command.of = c->of;
	item->command.text = item->text;
	item->command.len = part + n;
	if (part)
		memcpy(item->text, c->part.data, part);
	memcpy(item->text + part, src, n);
	item->text[part + n] = '\0';
	queue_add(items, item);
	reset(c);
	return 0;
}

/* Queue a failure in place of a command: it is answered after the commands before it. */
static int refuse(struct control *c, const struct pf_err *err, struct queue *items)
{
	int r;

	reset(c);
	r = add(c, "", 0, items);
	if (r == 0)
		pf_err_keep(&items->last->refused, err);
	return r;
}

static int refuse_long(struct control *c, struct queue *items)
{
	struct pf_err err = PF_ERR_INIT;

	pf_err_set(&err, -E2BIG, "a command of more than %d bytes",
		   PF_CONTROL_MAX_COMMAND);
	return refuse(c, &err, items);
}

/* Keep the beginning of a command. */
static int keep(struct control *c, const char *src, size_t n, struct queue *items)
{
	if (c->part.len + n > PF_CONTROL_MAX_COMMAND) {
		c->skipping = true;
		return refuse_long(c, items);
	}
	pf_buf_append(&c->part, src, n);
	return c->part.failed ? -ENOMEM : 0;
}

static bool is_blank(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
			return false;
	return true;
}

/* Queue the command that ends with the N bytes at SRC.  A blank line is none. */
static int accept(struct control *c, const char *src, size_t n, struct queue *items)
{
	struct pf_err err = PF_ERR_INIT;

	if (c->part.len + n > PF_CONTROL_MAX_COMMAND)
		return refuse_long(c, items);
	if (memchr(src, 0, n) || (c->part.len && memchr(c->part.data, 0, c->part.len))) {
		pf_err_set(&err, -EINVAL, "a NUL in the command");
		return refuse(c, &err, items);
	}
	if (!is_blank(c->part.data, c->part.len) || !is_blank(src, n))
		return add(c, src, n, items);
	reset(c);
	return 0;
}

/* Take one line, or its beginning; *USED: the bytes taken. */
static int parse_line(struct control *c, const char *src, size_t len, size_t *used,
		      struct queue *items)
{
	const char *end = memchr(src, '\n', len);

	*used = end ? (size_t)(end - src) + 1 : len;
	return end ? accept(c, src, *used - 1, items) : keep(c, src, len, items);
}

/* Byte AT of the LEN bytes at SRC cannot follow what came before it: the parser says why. */
static int refuse_syntax(struct control *c, const char *src, size_t at, size_t len,
			 struct queue *items)
{
	const char *end = memchr(src + at, '\n', len - at);
	size_t line = end ? (size_t)(end - src) : len;
	bool first = !c->part.len && at == 0;
	struct pf_err err = PF_ERR_INIT;
	struct json_object *none = NULL;

	pf_buf_append(&c->part, src, line > at ? line : at + 1);
	if (c->part.failed)
		return -ENOMEM;
	if (first)
		pf_err_set(&err, -EINVAL,
			   "JSON: byte 1: expected {, as in {\"op\":\"execute\",...}, "
			   "found \"%.16s\"",
			   c->part.data);
	else
		pf_json_parse(c->part.data, c->part.len, &none, &err);
	c->skipping = src[at] != '\n';
	return refuse(c, &err, items);
}

static size_t space_at(const char *src, size_t len)
{
	size_t n = 0;

	while (n < len && strchr(" \t\r\n", src[n]) && src[n])
		n++;
	return n;
}

/* Take one object, or its beginning; *USED: the bytes taken. */
static int parse_object(struct control *c, const char *src, size_t len, size_t *used,
			struct queue *items)
{
	size_t space = c->part.len ? 0 : space_at(src, len), n = 0;

	src += space;
	len -= space;
	if (!pf_json_scan(&c->scan, src, len, &n)) {
		*used = space + n + 1;
		return refuse_syntax(c, src, n, len, items);
	}
	*used = space + n;
	if (!n || c->scan.depth)
		return keep(c, src, len, items);
	/* With its newline, so that a write that is interrupted behind it is whole. */
	*used += space_at(src + n, len - n);
	return accept(c, src, n, items);
}

/*
 * Cut SRC, which follows the part, into commands.  Returns the bytes taken (all, or up to the end
 * of command MAX_COMMANDS), or -ENOMEM; commands that are refused come as items with a code.
 */
static ssize_t parse(struct control *c, const char *src, size_t len, struct queue *items)
{
	size_t done = 0, used;
	int r = 0;

	while (done < len && items->n < MAX_COMMANDS && r == 0) {
		unsigned before = items->n;

		if (c->skipping) {
			const char *end = memchr(src + done, '\n', len - done);

			if (!end)
				return (ssize_t)len;
			used = (size_t)(end - src) + 1 - done;
			c->skipping = false;
		} else if (c->of->node->kind->json) {
			r = parse_object(c, src + done, len - done, &used, items);
		} else {
			r = parse_line(c, src + done, len - done, &used, items);
		}
		done += used;
		if (items->n > before)
			items->last->end = done;
	}
	if (r == 0)
		return (ssize_t)done;
	reset(c);
	return r;
}

/* --- replies ------------------------------------------------------------------------ */

static size_t unread(const struct control *c)
{
	return c->out.len - c->out_head;
}

static bool ready(struct pf_stream *stream)
{
	const struct control *c = control_of(stream);

	return unread(c) || c->out.failed || !(c->running || c->queue.first);
}

/* Does any client wait for a part of the conversation?  What does it hold? */
static void note_idle(const struct control *c)
{
	note_held(c);
	pf_open_idle(c->of, !unread(c) && !c->running && !c->queue.first && !c->part.len);
}

/* Send the next reply, or LEN bytes of it, or the end of file if no command is left. */
static void answer(struct pf_stream *stream, size_t len, struct pf_reply *reply)
{
	struct control *c = control_of(stream);
	const char *data = c->out.data + c->out_head, *end;
	size_t n = unread(c);

	if (!n) {
		pf_reply_send(reply, c->out.failed ? -ENOMEM : 0, "", 0);
		c->out.failed = false;
		return;
	}
	end = memchr(data, '\n', n);
	if (end)
		n = (size_t)(end - data) + 1;
	if (len < n)
		n = len;
	pf_reply_send(reply, 0, data, n);
	c->out_head += n;
	if (c->out_head < c->out.len)
		return;
	c->out_head = c->out.len = 0;
	if (c->out.cap > KEPT)
		pf_buf_release(&c->out);
	note_idle(c);
}

static void add_reply_locked(struct control *c, const char *line, size_t len)
{
	if (c->out_head > KEPT && c->out_head > c->out.len / 2) {
		pf_buf_consume(&c->out, c->out_head);
		c->out_head = 0;
	}
	if (pf_buf_reserve(&c->out, len + 1)) {
		pf_buf_append(&c->out, line, len);
		pf_buf_append(&c->out, "\n", 1);
	}
}

void pf_control_read(struct pf_open *of, size_t len, uint64_t off, struct pf_reply *reply)
{
	struct control *c = of->state;

	(void)off;
	pf_stream_read(&c->stream, of, len, reply);
}

void pf_control_getattr_as(struct pf_node *node, const struct pf_cred *cred,
			   struct pf_open *of, struct stat *st)
{
	pf_autobuf struct pf_buf line = PF_BUF_INIT;
	struct control *c = of ? of->state : NULL;

	if (c) {
		PF_LOCK_SCOPE(&c->stream.lock);
		st->st_size = (off_t)unread(c);
		return;
	}
	pf_last_reply_get(node, cred->uid, pf_cred_session(cred), &line);
	st->st_size = (off_t)line.len;
}

/* --- commands ----------------------------------------------------------------------- */

/* All commands of W are done: answer it, unless it was interrupted.  ERR: the sentence of CODE;
 * NULL: the write whose command failed has it. */
static void end_write_locked(struct waiting *w, int code, const struct pf_err *err)
{
	struct pf_reply *reply = w->parked.reply;

	if (!pf_reply_claim(reply))
		return;
	if (code < 0 && !err)
		reply->doing = NULL;
	pf_reply_why(reply, err);
	pf_reply_send(reply, code, NULL, code < 0 ? 0 : w->parked.len);
	free(w);
}

/* Drop the commands that have not begun: those of ONLY, or all if it is NULL. */
static void drop_queued_locked(struct control *c, const struct waiting *only)
{
	struct queue queue = c->queue;
	struct queued *item;

	c->queue = (struct queue){ 0 };
	while ((item = queue_pop(&queue))) {
		struct waiting *w = item->write;

		if (only && w != only) {
			queue_add(&c->queue, item);
			continue;
		}
		queued_free(item);
		if (--w->left == 0)
			end_write_locked(w, c->failed, NULL);
	}
}

static void finish_locked(struct control *c, struct queued *item,
			  const struct pf_err *err, const char *line, size_t len)
{
	struct waiting *w = item->write;
	bool fails = err && !pf_open_reads(c->of);
	bool json = c->of->node->kind->json;
	struct pf_err why = PF_ERR_INIT;

	c->running = NULL;
	if (pf_open_reads(c->of))
		add_reply_locked(c, line, len);
	pf_last_reply_save(c->of->node, c->of->cred.uid, c->of->cred.sid, line, len);
	if (fails) {
		/* In one line; that of a kind without json is for people. */
		pf_err_set(&why, err->code, "%.*s", json ? PF_ERR_TEXT : (int)len,
			   json ? err->text : line);
		c->failed = why.code;
		reset(c);
		drop_queued_locked(c, NULL);
	} else if (w) {
		w->done = item->end;
	}
	item->over = true;
	if (!item->owed)
		queued_free(item); /* LINE may be its text */
	note_idle(c);
	if (w && --w->left == 0)
		end_write_locked(w, why.code, &why);
	pf_stream_serve_locked(&c->stream);
}

/* The parser has refused ITEM. */
static void finish_refused_locked(struct control *c, struct queued *item)
{
	struct pf_err err = PF_ERR_INIT;
	char line[ERROR_LINE];

	pf_err_recall(&item->refused, &err);
	finish_locked(c, item, &err, line, put_error_line(line, &err));
}

/* A command is parsed no sooner than it runs: as an object it takes many times its text. */
static void run_command(struct control *c, struct pf_command *command)
{
	struct pf_err err = PF_ERR_INIT;

	if (c->of->node->kind->json &&
	    pf_json_parse(command->text, command->len, &command->json, &err) < 0)
		pf_command_fail(command, &err);
	else
		c->of->node->kind->command(command);
}

/*
 * Run queued commands until one of them is answered later.  Which thread runs the next one depends on
 * when pf_command_done comes, which calls this too:
 *
 *   within kind->command    this thread is the one that runs (a_thread_runs), so the inner call does
 *                           nothing, and the loop goes on when kind->command returns: many commands
 *                           need no deep stack
 *   on another thread,      the other one does nothing either, as c->running is over and a thread
 *   before that returns     runs; the loop goes on
 *   after that has returned the loop has ended, as c->running is not over: the thread that answers
 *                           runs the next one
 *
 * The reply to a write is sent, and the item freed, by whichever ends the write's last command
 * (finish_locked): in the first two cases the command is gone when kind->command returns.
 */
static void run_locked(struct control *c)
{
	struct queued *item;

	if (c->a_thread_runs)
		return;
	c->a_thread_runs = true;
	while (!c->running && (item = queue_pop(&c->queue))) {
		c->running = item;
		if (item->refused.code) {
			finish_refused_locked(c, item);
			continue;
		}
		pf_open_ref(c->of); /* the command's */
		pf_unlock(&c->stream.lock);
		run_command(c, &item->command);
		pf_lock(&c->stream.lock);
	}
	c->a_thread_runs = false;
}

void pf_command_done(struct pf_command *command, const struct pf_err *err,
		     const char *line, size_t len)
{
	struct queued *item = pf_container_of(command, struct queued, command);
	PF_CLEANUP(pf_open_unrefp) struct pf_open *of = command->of;
	struct control *c = of->state;

	PF_LOCK_SCOPE(&c->stream.lock);
	finish_locked(c, item, err, line, len);
	run_locked(c);
}

void pf_command_fail(struct pf_command *command, const struct pf_err *err)
{
	char line[ERROR_LINE];

	pf_command_done(command, err, line, put_error_line(line, err));
}

/* Is the file closed, and the writer of the running command interrupted?  Then cancel it. */
static void abandon_running_locked(struct control *c)
{
	struct queued *item = c->running;

	if (!c->closed || !item || item->write)
		return;
	item->command.cancelled = true;
	if (c->of->node->kind->left)
		c->of->node->kind->left(&item->command);
}

/* Drop the commands of WRITE that have not begun.  Returns the end of the last one that is done; the
 * caller of write(2) writes the others again, and is owed the one that runs. */
static size_t halt_write(struct pf_stream *stream, struct pf_parked *write)
{
	struct control *c = control_of(stream);
	struct waiting *w = write_of(write);

	drop_queued_locked(c, w);
	if (c->running && c->running->write == w)
		owe(c, c->running, write->reply->pid);
	reset(c);
	note_idle(c);
	return w->done;
}

static void interrupted(struct pf_stream *stream, struct pf_parked *write)
{
	struct control *c = control_of(stream);
	struct waiting *w = write_of(write);

	if (c->running && c->running->write == w)
		c->running->write = NULL;
	abandon_running_locked(c);
	pf_stream_serve_locked(stream);
}

static const struct pf_stream_ops ops = {
	.ready = ready, .answer = answer, .halt = halt_write, .interrupted = interrupted
};

/*
 * Run ITEMS, the commands of a write of N bytes, and answer REPLY when they are done; at once if
 * there are none or N is -errno, for which ERR has the sentence.  Drops the lock.
 */
static void start(struct control *c, struct queue *items, ssize_t n,
		  const struct pf_err *err, struct pf_reply *reply)
{
	struct queued *item;
	struct pf_parked *parked = NULL;
	struct waiting *w;

	if (n >= 0 && items->n) {
		parked = pf_stream_park_write(&c->stream, sizeof(struct waiting),
					      (size_t)n, reply);
		n = -ENOMEM; /* if it was interrupted, the answer has no effect */
	}
	w = parked ? write_of(parked) : NULL;
	if (w) {
		w->left = items->n;
		take_owed(c, w, items);
	}
	while ((item = queue_pop(items))) {
		if (w) {
			item->write = w;
			queue_add(&c->queue, item);
		} else {
			queued_free(item);
		}
	}
	if (w && w->left) {
		run_locked(c);
	} else {
		note_idle(c);
		if (w)
			end_write_locked(w, 0, NULL);
	}
	pf_unlock(&c->stream.lock);
	if (!parked && n < 0)
		pf_reply_fail(reply, (int)n, err);
	else if (!parked)
		pf_reply_count(reply, (size_t)n);
}

void pf_control_write(struct pf_open *of, const void *src, size_t len,
		      struct pf_reply *reply)
{
	struct control *c = of->state;
	struct queue items = { 0 };
	struct pf_err err = PF_ERR_INIT;
	ssize_t n;

	pf_lock(&c->stream.lock);
	if (!pf_open_begin(of)) { /* with the lock, as note_idle */
		pf_unlock(&c->stream.lock);
		return;
	}
	if (c->failed) {
		n = c->failed;
		reply->doing = NULL; /* the write that failed first had the sentence */
	} else if (unread(c) > PF_CONTROL_MAX_UNREAD) {
		n = pf_err_set(&err, -ENOBUFS,
			       "more than %d bytes of replies wait: read them",
			       PF_CONTROL_MAX_UNREAD);
	} else if ((n = pf_open_may_hold(of, &err)) == 0) {
		n = parse(c, src, len, &items);
	}
	start(c, &items, n, &err, reply);
}

void pf_control_flush(struct pf_open *of, pid_t pid, struct pf_reply *reply)
{
	struct control *c = of->state;
	struct queue items = { 0 };
	struct pf_err err = PF_ERR_INIT;
	int r = 0;

	pf_lock(&c->stream.lock);
	if (c->part.len && !pf_process_dying(pid))
		r = of->node->kind->json
			    ? pf_err_set(&err, -EINVAL, "the last command is not whole")
			    : accept(c, "", 0, &items);
	start(c, &items, r, &err, reply);
}

void pf_control_closed(struct pf_open *of)
{
	struct control *c = of->state;

	PF_LOCK_SCOPE(&c->stream.lock);
	c->closed = true;
	reset(c);
	note_held(c);
	abandon_running_locked(c);
}
