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

/* A write, or a FLUSH, that waits for its commands. */
struct pf_control_write {
	struct pf_parked parked;
	unsigned left; /* commands not done */
	size_t begun;  /* bytes up to the end of the last command that has begun */
	char *why;     /* owned: the sentence of its failure, or NULL */
};

static const struct pf_stream_ops ops;

static struct pf_control *control_of(struct pf_stream *stream)
{
	return pf_container_of(stream, struct pf_control, stream);
}

static struct pf_control_write *write_of(struct pf_parked *parked)
{
	return pf_container_of(parked, struct pf_control_write, parked);
}

int pf_control_open(struct pf_open *of, struct pf_err *err)
{
	struct pf_control *c = calloc(1, sizeof(*c));

	if (!c)
		return pf_err_set(err, -ENOMEM, "no memory");
	pf_stream_init(&c->stream, &ops);
	c->of = of;
	c->json = of->node->kind->json;
	c->reads = pf_open_reads(of);
	if (!pf_open_writes(of))
		pf_last_reply_get(of->node, &of->cred, &c->out);
	of->state = c;
	return 0;
}

void pf_control_release(struct pf_open *of)
{
	struct pf_control *c = of->state;

	if (c->spare) {
		pf_buf_release(&c->spare->text);
		free(c->spare);
	}
	pf_buf_release(&c->part);
	pf_buf_release(&c->out);
	pf_stream_release(&c->stream);
	free(c);
}

/* --- replies ------------------------------------------------------------------------ */

static size_t unread(const struct pf_control *c)
{
	return c->out.len - c->out_head;
}

static bool is_busy(const struct pf_control *c)
{
	return c->running || c->queue.first;
}

static bool ready(struct pf_stream *stream)
{
	const struct pf_control *c = control_of(stream);

	return unread(c) || c->lost || !is_busy(c);
}

/* Send the next reply, or LEN bytes of it, or the end of file if no command is left. */
static void answer(struct pf_stream *stream, size_t len, struct pf_reply *reply)
{
	struct pf_control *c = control_of(stream);
	const char *data = c->out.data + c->out_head, *end;
	size_t n = unread(c);

	if (!n) {
		pf_reply_send(reply, c->lost ? -ENOMEM : 0, "", 0);
		c->lost = false;
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
	if (c->out.cap > PF_CONTROL_KEEP)
		pf_buf_release(&c->out);
}

static void add_reply_locked(struct pf_control *c, const char *line, size_t len)
{
	if (c->out_head > PF_CONTROL_KEEP && c->out_head > c->out.len / 2) {
		pf_buf_consume(&c->out, c->out_head);
		c->out_head = 0;
	}
	if (pf_buf_reserve(&c->out, len + 1)) {
		pf_buf_append(&c->out, line, len);
		pf_buf_append(&c->out, "\n", 1);
	}
	if (c->out.failed) {
		c->out.failed = false;
		c->lost = true;
	}
}

void pf_control_read(struct pf_open *of, size_t len, uint64_t off, struct pf_reply *reply)
{
	struct pf_control *c = of->state;

	(void)off;
	pf_stream_read(&c->stream, of, len, reply);
}

void pf_control_getattr_as(struct pf_node *node, const struct pf_cred *cred,
			   struct pf_open *of, struct stat *st)
{
	pf_autobuf struct pf_buf line = PF_BUF_INIT;
	struct pf_control *c = of ? of->state : NULL;
	struct pf_cred as = *cred;

	if (c) {
		PF_LOCK_SCOPE(&c->stream.lock);
		pf_stat_set_size(st, unread(c));
		return;
	}
	as.sid = pf_cred_session(cred);
	pf_last_reply_get(node, &as, &line);
	pf_stat_set_size(st, line.len);
}

/* --- commands ----------------------------------------------------------------------- */

/* All commands of W are done: answer it, unless it was interrupted. */
static void end_write_locked(struct pf_control_write *w, int code)
{
	struct pf_reply *reply = w->parked.reply;
	struct pf_err err = PF_ERR_INIT;

	if (!pf_reply_claim(reply))
		return;
	if (code < 0 && w->why) {
		pf_err_set(&err, code, "%s", w->why);
		pf_reply_why(reply, &err);
	} else if (code < 0) {
		reply->doing = NULL; /* the write whose command failed has the sentence */
	}
	pf_reply_send(reply, code, NULL, code < 0 ? 0 : w->parked.len);
	free(w->why);
	free(w);
}

/* Drop the commands that have not begun: those of ONLY, or all if it is NULL. */
static void drop_queued_locked(struct pf_control *c, const struct pf_control_write *only)
{
	struct pf_command_queue queue = c->queue;
	struct pf_queued_command *item;

	c->queue = (struct pf_command_queue){ 0 };
	while ((item = pf_command_queue_pop(&queue))) {
		struct pf_control_write *w = item->write;

		if (only && w != only) {
			pf_command_queue_add(&c->queue, item);
			continue;
		}
		pf_queued_command_free(c, item);
		if (--w->left == 0)
			end_write_locked(w, c->failed);
	}
}

/* The sentence in LINE, a reply to a command that failed; the caller frees it.  Or NULL. */
static char *sentence_of(const struct pf_control *c, const char *line, size_t len)
{
	pf_autofree char *text = strndup(line, len);
	struct json_object *o = NULL, *error, *message;
	char *ret = NULL;

	if (!text || !c->json)
		return pf_steal(&text);
	if (pf_json_parse(text, len, &o, NULL) == 0 &&
	    json_object_object_get_ex(o, "error", &error) &&
	    json_object_object_get_ex(error, "message", &message))
		ret = strdup(json_object_get_string(message));
	json_object_put(o);
	return ret ? ret : pf_steal(&text);
}

static void finish_locked(struct pf_control *c, struct pf_queued_command *item, int code,
			  const char *line, size_t len)
{
	struct pf_control_write *w = item->write;
	bool fails = code < 0 && !c->reads;

	c->running = NULL;
	if (c->reads)
		add_reply_locked(c, line, len);
	pf_last_reply_save(c->of->node, &c->of->cred, line, len);
	if (fails && w && !w->why)
		w->why = sentence_of(c, line, len);
	pf_queued_command_free(c, item);
	if (fails) {
		c->failed = code;
		pf_command_parser_reset(c);
		drop_queued_locked(c, NULL);
	}
	if (w && --w->left == 0)
		end_write_locked(w, fails ? code : 0);
	pf_stream_serve_locked(&c->stream);
}

/* A command is parsed no sooner than it runs: as an object it takes many times its text. */
static void run_command(struct pf_control *c, struct pf_command *command)
{
	struct pf_err err = PF_ERR_INIT;

	if (c->json &&
	    pf_json_parse(command->text, command->len, &command->json, &err) < 0)
		pf_command_fail(command, &err);
	else
		c->of->node->kind->command(command);
}

/*
 * Run queued commands until one of them is answered later.  One thread at a time: if a command is
 * answered within kind->command, or on another thread before that returns, the thread that
 * called it runs the next one.
 */
static void run_locked(struct pf_control *c)
{
	struct pf_queued_command *item;

	if (c->looping)
		return;
	c->looping = true;
	while (!c->running && (item = pf_command_queue_pop(&c->queue))) {
		c->running = item;
		item->write->begun = item->end;
		if (item->code < 0) {
			finish_locked(c, item, item->code, item->text.data,
				      item->text.len);
			continue;
		}
		pf_open_ref(c->of); /* the command's */
		pf_unlock(&c->stream.lock);
		run_command(c, &item->command);
		pf_lock(&c->stream.lock);
	}
	c->looping = false;
}

void pf_command_done(struct pf_command *command, int code, const char *line, size_t len)
{
	struct pf_queued_command *item =
		pf_container_of(command, struct pf_queued_command, command);
	PF_CLEANUP(pf_open_unrefp) struct pf_open *of = command->of;
	struct pf_control *c = of->state;

	PF_LOCK_SCOPE(&c->stream.lock);
	finish_locked(c, item, code, line, len);
	run_locked(c);
}

void pf_command_fail(struct pf_command *command, const struct pf_err *err)
{
	pf_autobuf struct pf_buf line = PF_BUF_INIT;

	pf_control_error_line(&line, err);
	pf_command_done(command, err->code, line.data ? line.data : "", line.len);
}

bool pf_command_cancelled(const struct pf_command *command)
{
	return atomic_load(&command->cancelled);
}

/* Is the file closed, and the writer of the running command interrupted?  Then cancel it. */
static void abandon_running_locked(struct pf_control *c)
{
	struct pf_queued_command *item = c->running;

	if (!c->closed || !item || item->write)
		return;
	atomic_store(&item->command.cancelled, true);
	if (c->of->node->kind->left)
		c->of->node->kind->left(&item->command);
}

/* Drop the commands of WRITE that have not begun.  Returns the end of the last one that has: the
 * caller of write(2) must not write those again. */
static size_t halt_write(struct pf_stream *stream, struct pf_parked *write)
{
	struct pf_control *c = control_of(stream);
	struct pf_control_write *w = write_of(write);
	unsigned left = w->left;

	drop_queued_locked(c, w);
	if (w->begun && w->left == left)
		return write->len;
	pf_command_parser_reset(c);
	return w->begun;
}

static void interrupted(struct pf_stream *stream, struct pf_parked *write)
{
	struct pf_control *c = control_of(stream);
	struct pf_control_write *w = write_of(write);

	if (c->running && c->running->write == w)
		c->running->write = NULL;
	free(w->why);
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
static void start(struct pf_control *c, struct pf_command_queue *items, ssize_t n,
		  const struct pf_err *err, struct pf_reply *reply)
{
	struct pf_queued_command *item;
	struct pf_parked *parked = NULL;

	if (n >= 0 && items->n) {
		parked = pf_stream_park_write(&c->stream, sizeof(struct pf_control_write),
					      (size_t)n, reply);
		n = -ENOMEM; /* if it was interrupted, the answer has no effect */
	}
	if (parked)
		write_of(parked)->left = items->n;
	while ((item = pf_command_queue_pop(items))) {
		if (parked) {
			item->write = write_of(parked);
			pf_command_queue_add(&c->queue, item);
		} else {
			pf_queued_command_free(c, item);
		}
	}
	if (parked)
		run_locked(c);
	pf_unlock(&c->stream.lock);
	if (!parked && n < 0)
		pf_reply_fail(reply, (int)n, err);
	else if (!parked)
		pf_reply_count(reply, (size_t)n);
}

void pf_control_write(struct pf_open *of, const void *src, size_t len,
		      struct pf_reply *reply)
{
	struct pf_control *c = of->state;
	struct pf_command_queue items = { 0 };
	struct pf_err err = PF_ERR_INIT;
	ssize_t n;

	pf_lock(&c->stream.lock);
	if (c->failed) {
		n = c->failed;
		reply->doing = NULL; /* the write that failed first had the sentence */
	} else if (unread(c) > PF_CONTROL_MAX_UNREAD) {
		n = pf_err_set(&err, -ENOBUFS,
			       "more than %d bytes of replies wait: read them",
			       PF_CONTROL_MAX_UNREAD);
	} else {
		n = pf_command_parse(c, src, len, &items);
	}
	start(c, &items, n, &err, reply);
}

void pf_control_flush(struct pf_open *of, pid_t pid, struct pf_reply *reply)
{
	struct pf_control *c = of->state;
	struct pf_command_queue items = { 0 };
	struct pf_err err = PF_ERR_INIT;
	bool dying = false;
	int r = 0;

	pf_lock(&c->stream.lock);
	if (c->part.len) {
		pf_unlock(&c->stream.lock);
		dying = pf_process_dying(pid);
		pf_lock(&c->stream.lock);
	}
	if (c->part.len && !dying && c->json)
		r = pf_err_set(&err, -EINVAL, "the last command is not whole");
	else if (c->part.len && !dying)
		r = pf_command_parse_rest(c, &items);
	start(c, &items, r, &err, reply);
}

void pf_control_closed(struct pf_open *of)
{
	struct pf_control *c = of->state;

	PF_LOCK_SCOPE(&c->stream.lock);
	c->closed = true;
	pf_command_parser_reset(c);
	abandon_running_locked(c);
}
