/* SPDX-License-Identifier: Apache-2.0 */
/* Who reads executables/NAME/call: those who need not wait, and those who do. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "call.h"

enum { SETTLE_US = 50 };

/* A read that waits. */
struct reader {
	struct reader *next;
	struct call *call;      /* borrowed: the reply holds the open file */
	struct pf_reply *reply; /* one reference */
	size_t len;
};

/* Answer a read of LEN bytes, which need not wait.  False: its interrupt does. */
static bool answer_locked(struct call *c, size_t len, struct pf_reply *reply)
{
	pf_autofree char *joined = NULL;
	const char *data;
	size_t n;

	if (c->state == CALL_TAKING && call_inputs_begun(&c->in)) {
		struct pf_err err = PF_ERR_INIT;

		call_inputs_missing(&c->in, &err);
		call_fail_locked(c, &err);
	}
	if (!pf_reply_claim(reply))
		return false;
	if (c->state == CALL_FAILED) {
		c->state = CALL_TELLING;
		pf_reply_why(reply, &c->err);
		pf_reply_send(reply, c->err.code, NULL, 0);
		return true;
	}
	if (c->state == CALL_TAKING) {
		pf_reply_send(reply, 0, "", 0);
		return true;
	}
	n = call_outputs_peek(&c->out, len, &data, &joined);
	/* Sent under the lock: nobody else fills that memory before it is copied. */
	pf_reply_send(reply, 0, data, n);
	if (call_outputs_read(&c->out, n)) {
		c->state = CALL_TAKING;
		pf_node_ready(c->node);
	}
	return true;
}

bool call_must_wait(const struct call *c)
{
	return c->state == CALL_RUNNING || c->state == CALL_LOADING;
}

void call_serve_locked(struct call *c)
{
	struct reader **p = &c->readers, *r;

	while ((r = *p) && !call_must_wait(c)) {
		if (!answer_locked(c, r->len, r->reply)) {
			p = &r->next;
			continue;
		}
		*p = r->next;
		free(r);
	}
}

static void interrupt_read(void *arg)
{
	struct reader *r = arg, **p;
	struct call *c = r->call;
	struct pf_reply *reply = r->reply;

	pf_lock(&c->lock);
	for (p = &c->readers; *p != r; p = &(*p)->next)
		;
	*p = r->next;
	pf_unlock(&c->lock);
	free(r);
	pf_reply_unref(reply);
}

/* 0, or -ENOMEM; if it was interrupted, it is answered already. */
static int park_locked(struct call *c, size_t len, struct pf_reply *reply)
{
	struct reader *r = malloc(sizeof(*r)), **p;

	if (!r)
		return -ENOMEM;
	*r = (struct reader){ .call = c, .reply = reply, .len = len };
	if (!pf_reply_park(reply, interrupt_read, r)) {
		free(r);
		return -EINTR;
	}
	for (p = &c->readers; *p; p = &(*p)->next)
		;
	*p = r;
	return 0;
}

/* The worker's answer is near, mostly: take it here, which saves waking another thread. */
static void settle(struct call *c)
{
	struct pf_life *life;

	pf_lock(&c->lock);
	life = c->state == CALL_RUNNING && c->life ? pf_life_ref(c->life) : NULL;
	pf_unlock(&c->lock);
	if (life)
		pf_life_settle(life, &c->done, SETTLE_US);
	pf_life_unref(life);
}

void call_read(struct pf_open *of, size_t len, uint64_t off, struct pf_reply *reply)
{
	struct call *c = of->state;
	int r = 0;

	(void)off;
	if (!c || !len) { /* opened to read only: there is nothing to be read */
		pf_reply_data(reply, NULL, 0);
		return;
	}
	if (!(of->flags & O_NONBLOCK))
		settle(c);
	pf_lock(&c->lock);
	if (!call_must_wait(c))
		r = answer_locked(c, len, reply) ? 0 : -EINTR;
	else if (of->flags & O_NONBLOCK)
		r = -EAGAIN;
	else
		r = park_locked(c, len, reply);
	pf_unlock(&c->lock);
	if (r < 0)
		pf_reply_code(reply, r);
}
