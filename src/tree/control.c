/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/json.h"

/*
 * The last reply of a control file to each user and login session, so that
 * `echo ... > run; cat run` works for people.  Most recently used first, the least one goes.
 */

struct entry {
	struct entry *next;
	uid_t uid;
	pid_t sid;
	struct pf_buf line; /* with its newline */
};

struct pf_last_reply {
	pthread_mutex_t lock; /* rank 5; protects the fields below */
	struct entry *first;  /* owned */
	unsigned n;
};

static struct pf_last_reply *get(struct pf_node *node, bool make)
{
	struct pf_last_reply *last = __atomic_load_n(&node->priv->last, __ATOMIC_ACQUIRE);
	struct pf_last_reply *mine;

	if (last || !make)
		return last;
	mine = calloc(1, sizeof(*mine));
	if (!mine)
		return NULL;
	if (pthread_mutex_init(&mine->lock, NULL))
		abort();
	if (__atomic_compare_exchange_n(&node->priv->last, &last, mine, false,
					__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return mine;
	pf_last_reply_free(mine);
	return last;
}

/* The entry for CRED moved to the front; if there is none and MAKE, a new one. */
static struct entry *find_locked(struct pf_last_reply *last, const struct pf_cred *cred,
				 bool make)
{
	struct entry **p = &last->first, *e;

	for (e = *p; e; p = &e->next, e = *p) {
		if (e->uid == cred->uid && e->sid == cred->sid)
			break;
		if (!e->next && make && last->n == PF_CTL_LAST_REPLIES)
			break; /* the least recently used one is taken over */
	}
	if (e) {
		*p = e->next;
	} else {
		e = make ? calloc(1, sizeof(*e)) : NULL;
		if (!e)
			return NULL;
		last->n++;
	}
	e->uid = cred->uid;
	e->sid = cred->sid;
	e->next = last->first;
	last->first = e;
	return e;
}

void pf_last_reply_save(struct pf_node *node, const struct pf_cred *cred,
			const char *line, size_t len)
{
	struct pf_last_reply *last;
	struct entry *e;

	if (cred->sid == PF_SID_UNKNOWN)
		return;
	last = get(node, true);
	if (!last)
		return;
	PF_LOCK_SCOPE(&last->lock);
	e = find_locked(last, cred, true);
	if (!e)
		return;
	e->line.len = 0;
	pf_buf_append(&e->line, line, len);
	pf_buf_append(&e->line, "\n", 1);
	if (e->line.failed)
		pf_buf_release(&e->line);
}

void pf_last_reply_get(struct pf_node *node, const struct pf_cred *cred,
		       struct pf_buf *out)
{
	struct pf_last_reply *last =
		cred->sid != PF_SID_UNKNOWN ? get(node, false) : NULL;
	struct entry *e;

	if (!last)
		return;
	PF_LOCK_SCOPE(&last->lock);
	e = find_locked(last, cred, false);
	if (e)
		pf_buf_append(out, e->line.data, e->line.len);
}

void pf_last_reply_free(struct pf_last_reply *last)
{
	struct entry *e;

	if (!last)
		return;
	while ((e = last->first)) {
		last->first = e->next;
		pf_buf_release(&e->line);
		free(e);
	}
	pthread_mutex_destroy(&last->lock);
	free(last);
}

/*
 * Sessions of control files: commands run one after another, replies are read in order.
 *
 * The session's lock is never held while a kind's function runs or an answer is sent.  What
 * is to be answered is claimed under the lock (so that an interrupted reader loses no reply)
 * and collected in a list that its holder sends after unlocking.  A claim that fails means
 * that the request's interrupt function is on its way, which then does the rest.
 *
 * An answer that is sent may be followed by the release of the open file at once: whoever
 * goes on using the session holds a reference on the open file.
 */

struct pf_control *pf_control_new(struct pf_open *of)
{
	struct pf_control *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	if (pthread_mutex_init(&s->lock, NULL))
		abort();
	s->of = of;
	s->json = of->node->kind->json;
	s->reads = pf_open_reads(of);
	if (!pf_open_writes(of))
		pf_last_reply_get(of->node, &of->cred, &s->out);
	return s;
}

void pf_control_free(struct pf_control *s)
{
	if (!s)
		return;
	if (s->spare) {
		pf_buf_release(&s->spare->text);
		free(s->spare);
	}
	pf_buf_release(&s->part);
	pf_buf_release(&s->out);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static void waiter_free(struct pf_parked *w)
{
	free(w->data);
	free(w);
}

/* A write that only shares the failure of another one has nothing new to tell. */
static void send_failure(struct pf_parked *w)
{
	struct pf_err err = PF_ERR_INIT;

	if (w->data)
		pf_err_set(&err, w->code, "%s", w->data);
	else
		w->reply->doing = NULL;
	pf_reply_why(w->reply, &err);
	pf_reply_send(w->reply, w->code, NULL, 0);
}

/* Send the answers in LIST, which are claimed; no lock is held. */
static void send_all(struct pf_parked **list)
{
	struct pf_parked *w;

	while ((w = *list)) {
		*list = w->next;
		if (w->code < 0)
			send_failure(w);
		else
			pf_reply_send(w->reply, 0, w->data, w->len);
		waiter_free(w);
	}
}

static void push(struct pf_parked **list, struct pf_parked *w)
{
	w->next = *list;
	*list = w;
}

static bool is_busy(const struct pf_control *s)
{
	return s->running || s->queue.first;
}

/* Bytes of the next reply that a read of LEN bytes gets. */
static size_t next_len(const struct pf_control *s, size_t len)
{
	const char *data = s->out.data + s->out_head, *end;
	size_t left = s->out.len - s->out_head;

	if (!left)
		return 0;
	end = memchr(data, '\n', left);
	if (end)
		left = (size_t)(end - data) + 1;
	return len < left ? len : left;
}

static void take(struct pf_control *s, char *dst, size_t n)
{
	memcpy(dst, s->out.data + s->out_head, n);
	s->out_head += n;
	if (s->out_head < s->out.len)
		return;
	s->out_head = s->out.len = 0;
	if (s->out.cap > PF_CTL_KEEP)
		pf_buf_release(&s->out);
}

static void put(struct pf_control *s, const char *line, size_t len)
{
	if (s->out_head > PF_CTL_KEEP && s->out_head > s->out.len / 2) {
		pf_buf_consume(&s->out, s->out_head);
		s->out_head = 0;
	}
	if (pf_buf_reserve(&s->out, len + 1)) {
		pf_buf_append(&s->out, line, len);
		pf_buf_append(&s->out, "\n", 1);
	}
	if (s->out.failed) {
		s->out.failed = false;
		s->lost = true;
	}
}

/* Give parked reads what there is: a reply each, or the end when nothing is to come. */
static void serve_locked(struct pf_control *s, struct pf_parked **sent)
{
	struct pf_parked **p = &s->parked, *w;

	while ((w = *p)) {
		size_t n = next_len(s, w->len);

		if (!n && is_busy(s))
			break;
		if (!pf_reply_claim(w->reply)) {
			p = &w->next;
			continue;
		}
		*p = w->next;
		w->data = malloc(n + 1);
		w->len = w->data ? n : 0;
		w->code = w->data ? 0 : -ENOMEM;
		if (n && w->data)
			take(s, w->data, n);
		push(sent, w);
	}
}

/* No command of W is left: answer it, unless its interrupt did. */
static void settle_locked(struct pf_parked *w, int code, struct pf_parked **sent)
{
	if (w->interrupted) {
		waiter_free(w);
	} else if (pf_reply_claim(w->reply)) {
		w->code = code;
		push(sent, w);
	}
}

/* Drop the commands that have not begun: those of ONLY, or all but settle not KEEP. */
static void drop_queued_locked(struct pf_control *s, struct pf_parked *only,
			       struct pf_parked *keep, struct pf_parked **sent)
{
	struct pf_command_queue queue = s->queue;
	struct pf_queued_command *item;

	s->queue = (struct pf_command_queue){ 0 };
	while ((item = pf_command_queue_pop(&queue))) {
		struct pf_parked *w = item->waiter;

		if (only && w != only) {
			pf_command_queue_add(&s->queue, item);
			continue;
		}
		pf_queued_command_free(s, item);
		if (--w->left == 0 && w != keep)
			settle_locked(w, s->failed, sent);
	}
}

/* The sentence in a reply that tells of a failure, which the caller frees; or NULL. */
static char *sentence_of(const struct pf_control *s, const char *line, size_t len)
{
	pf_autofree char *text = strndup(line, len);
	struct json_object *o = NULL, *error, *message;
	char *ret = NULL;

	if (!text || !s->json)
		return pf_steal(&text);
	if (pf_json_parse(text, &o, NULL) == 0 &&
	    json_object_object_get_ex(o, "error", &error) &&
	    json_object_object_get_ex(error, "message", &message))
		ret = strdup(json_object_get_string(message));
	json_object_put(o);
	return ret ? ret : pf_steal(&text);
}

static void finish_locked(struct pf_control *s, struct pf_queued_command *item, int code,
			  const char *line, size_t len, struct pf_parked **sent)
{
	struct pf_parked *w = item->waiter;
	bool fails = code < 0 && !s->reads;

	s->running = NULL;
	if (s->reads)
		put(s, line, len);
	pf_last_reply_save(s->of->node, &s->of->cred, line, len);
	if (fails && !w->data)
		w->data = sentence_of(s, line, len);
	pf_queued_command_free(s, item);
	w->left--;
	if (fails) {
		s->failed = code;
		pf_command_parser_reset(s);
		drop_queued_locked(s, NULL, w, sent);
	}
	if (!w->left)
		settle_locked(w, fails ? code : 0, sent);
	serve_locked(s, sent);
}

/*
 * Run what is queued until a command is answered later.  One thread at a time: a command
 * that is done within kind->command, or on another thread before that returns, leaves the
 * next one to the thread that is here already.
 */
static void run_locked(struct pf_control *s, struct pf_parked **sent)
{
	struct pf_queued_command *item;

	if (s->looping)
		return;
	s->looping = true;
	while (!s->running && (item = pf_command_queue_pop(&s->queue))) {
		s->running = item;
		item->waiter->begun = item->end;
		if (item->code < 0) {
			finish_locked(s, item, item->code, item->text.data,
				      item->text.len, sent);
			continue;
		}
		pf_unlock(&s->lock);
		send_all(sent);
		pf_open_ref(s->of); /* the command's */
		s->of->node->kind->command(&item->command);
		pf_lock(&s->lock);
	}
	s->looping = false;
}

void pf_command_done(struct pf_command *command, int code, const char *line, size_t len)
{
	struct pf_control *s = command->session;
	struct pf_open *of = command->of;
	struct pf_parked *sent = NULL;

	pf_lock(&s->lock);
	finish_locked(s, command->priv, code, line, len, &sent);
	run_locked(s, &sent);
	pf_unlock(&s->lock);
	send_all(&sent);
	pf_open_unref(of);
}

bool pf_command_cancelled(struct pf_command *command)
{
	struct pf_queued_command *item = command->priv;

	PF_LOCK_SCOPE(&command->session->lock);
	return item->waiter->interrupted && command->session->released;
}

/*
 * The writer is interrupted, by whatever signal: the commands of this write that have not
 * begun never will.  It must not write again what has begun.
 */
static size_t halt_write(void *arg)
{
	struct pf_parked *w = arg, *none = NULL;
	struct pf_control *s = w->session;
	unsigned left;

	PF_LOCK_SCOPE(&s->lock);
	left = w->left;
	drop_queued_locked(s, w, w, &none);
	if (w->begun && w->left == left)
		return w->len;
	pf_command_parser_reset(s);
	return w->begun;
}

static void interrupt_write(void *arg)
{
	struct pf_parked *w = arg, *sent = NULL;
	struct pf_control *s = w->session;
	struct pf_reply *reply = w->reply;

	pf_lock(&s->lock);
	w->interrupted = true;
	if (!w->left)
		waiter_free(w);
	serve_locked(s, &sent);
	pf_unlock(&s->lock);
	send_all(&sent);
	pf_reply_unref(reply);
}

static void interrupt_read(void *arg)
{
	struct pf_parked *w = arg, **p;
	struct pf_control *s = w->session;
	struct pf_reply *reply = w->reply;

	pf_lock(&s->lock);
	for (p = &s->parked; *p != w; p = &(*p)->next)
		;
	*p = w->next;
	pf_unlock(&s->lock);
	free(w);
	pf_reply_unref(reply);
}

/* A waiter for REPLY, whose interrupt calls HALT and FN; NULL if there is no memory (*R is set) or
 * the request has been interrupted already. */
static struct pf_parked *wait_for(struct pf_control *s, size_t len,
				  struct pf_reply *reply, size_t (*halt)(void *arg),
				  void (*fn)(void *arg), int *r)
{
	struct pf_parked *w = calloc(1, sizeof(*w));

	*r = w ? 0 : -ENOMEM;
	if (!w)
		return NULL;
	w->session = s;
	w->reply = reply;
	w->len = len;
	if (pf_reply_park_write(reply, halt, fn, w)) {
		reply->held = pf_open_ref(s->of);
		return w;
	}
	free(w);
	return NULL;
}

static void free_items(struct pf_control *s, struct pf_command_queue *items)
{
	struct pf_queued_command *item;

	while ((item = pf_command_queue_pop(items)))
		pf_queued_command_free(s, item);
}

/*
 * Queue ITEMS and run them; REPLY is answered with the count LEN when the last one is done.
 * The lock is held on entry and not on return.
 */
static void start(struct pf_control *s, struct pf_command_queue *items, size_t len,
		  struct pf_reply *reply)
{
	struct pf_open *of = pf_open_ref(s->of);
	struct pf_parked *w, *sent = NULL;
	struct pf_queued_command *item;
	int r;

	w = wait_for(s, len, reply, halt_write, interrupt_write, &r);
	if (!w) {
		free_items(s, items);
		pf_unlock(&s->lock);
		pf_reply_code(reply, r); /* ignored if it was interrupted */
	} else {
		w->left = items->n;
		while ((item = pf_command_queue_pop(items))) {
			item->waiter = w;
			pf_command_queue_add(&s->queue, item);
		}
		run_locked(s, &sent);
		pf_unlock(&s->lock);
		send_all(&sent);
	}
	pf_open_unref(of);
}

void pf_ctl_write(struct pf_open *of, const void *src, size_t len, struct pf_reply *reply)
{
	struct pf_control *s = of->session;
	struct pf_err err = PF_ERR_INIT;
	struct pf_command_queue items = { 0 };
	ssize_t n;

	pf_lock(&s->lock);
	if (s->failed)
		n = s->failed;
	else if (s->out.len - s->out_head > PF_CTL_MAX_UNREAD)
		n = -ENOBUFS;
	else
		n = pf_command_parse(s, src, len, &items);
	if (n >= 0 && items.n) {
		start(s, &items, (size_t)n, reply);
		return;
	}
	free_items(s, &items);
	pf_unlock(&s->lock);
	if (n == -ENOBUFS) {
		pf_err_set(&err, -ENOBUFS,
			   "more than %d bytes of replies wait: read them",
			   PF_CTL_MAX_UNREAD);
		pf_open_refused(of, "write", -ENOBUFS, &err);
	}
	if (n < 0)
		pf_reply_code(reply, (int)n);
	else
		pf_reply_count(reply, (size_t)n);
}

static void park_read(struct pf_control *s, size_t len, struct pf_reply *reply)
{
	struct pf_parked **p, *w;
	int r;

	w = wait_for(s, len, reply, NULL, interrupt_read, &r);
	if (w) {
		for (p = &s->parked; *p; p = &(*p)->next)
			;
		*p = w;
	}
	pf_unlock(&s->lock);
	if (!w)
		pf_reply_code(reply, r);
}

void pf_ctl_read(struct pf_open *of, size_t len, struct pf_reply *reply)
{
	struct pf_control *s = of->session;
	pf_autofree char *owned = NULL;
	char some[4096], *data = some;
	size_t n;

	pf_lock(&s->lock);
	n = next_len(s, len);
	if (!n && len && is_busy(s) && !(of->flags & O_NONBLOCK)) {
		park_read(s, len, reply);
		return;
	}
	if (!n) {
		int r = s->lost ? -ENOMEM : len && is_busy(s) ? -EAGAIN : 0;

		s->lost = false;
		pf_unlock(&s->lock);
		if (r < 0)
			pf_reply_code(reply, r);
		else
			pf_reply_data(reply, NULL, 0);
		return;
	}
	if (n > sizeof(some))
		data = owned = malloc(n);
	if (!data || !pf_reply_claim(reply)) {
		pf_unlock(&s->lock);
		pf_reply_code(reply, -ENOMEM); /* ignored if it was interrupted */
		return;
	}
	take(s, data, n);
	pf_unlock(&s->lock);
	pf_reply_send(reply, 0, data, n);
}

void pf_ctl_flush(struct pf_open *of, pid_t pid, struct pf_reply *reply)
{
	struct pf_control *s = of->session;
	struct pf_command_queue items = { 0 };
	bool dying = false;
	int r = 0;

	pf_lock(&s->lock);
	if (s->part.len) {
		pf_unlock(&s->lock);
		dying = pf_process_dying(pid);
		pf_lock(&s->lock);
	}
	if (s->part.len && !dying)
		r = s->json ? -EINVAL : pf_command_parse_rest(s, &items);
	if (r == 0 && items.n) {
		start(s, &items, 0, reply);
		return;
	}
	free_items(s, &items);
	pf_unlock(&s->lock);
	pf_reply_code(reply, r);
}

size_t pf_ctl_size(struct pf_node *node, const struct pf_cred *cred, struct pf_open *of)
{
	pf_autobuf struct pf_buf line = PF_BUF_INIT;
	struct pf_cred as = *cred;

	if (of) {
		PF_LOCK_SCOPE(&of->session->lock);
		return of->session->out.len - of->session->out_head;
	}
	as.sid = pf_cred_session(cred);
	pf_last_reply_get(node, &as, &line);
	return line.len;
}

/* Nobody waits any more for what an interrupted write began; what other writes did goes on. */
void pf_ctl_release(struct pf_open *of)
{
	struct pf_control *s = of->session;

	PF_LOCK_SCOPE(&s->lock);
	s->released = true;
	pf_command_parser_reset(s);
	if (s->running && s->running->waiter->interrupted && of->node->kind->left)
		of->node->kind->left(&s->running->command);
}
