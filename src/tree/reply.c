/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait for their answers, at streams too. */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"
#include "pjrtfs/wait.h"

void pf_reply_init(struct pf_reply *reply, const struct pf_reply_ops *ops)
{
	*reply = (struct pf_reply){ .ops = ops,
				    .refs = 1,
				    .lock = PTHREAD_MUTEX_INITIALIZER };
}

struct pf_reply *pf_reply_ref(struct pf_reply *reply)
{
	__atomic_add_fetch(&reply->refs, 1, __ATOMIC_RELAXED);
	return reply;
}

void pf_reply_unref(struct pf_reply *reply)
{
	struct pf_open *held;
	void (*drop)(struct pf_open * held);

	if (!reply || __atomic_sub_fetch(&reply->refs, 1, __ATOMIC_ACQ_REL))
		return;
	held = reply->held;
	drop = reply->drop;
	pthread_mutex_destroy(&reply->lock);
	reply->ops->free(reply);
	if (held)
		drop(held);
}

bool pf_reply_claim(struct pf_reply *reply)
{
	bool first;

	pf_lock(&reply->lock);
	first = !reply->answered;
	reply->answered = true;
	pf_unlock(&reply->lock);
	return first;
}

static int finish(struct pf_reply *reply)
{
	struct pf_err err = PF_ERR_INIT;
	int r = reply->finish(reply, &err);

	if (r < 0) {
		pf_reply_why(reply, &err);
		pf_reply_refused(reply, r);
		pf_reply_why(reply, NULL);
	}
	return r;
}

void pf_reply_send(struct pf_reply *reply, int code, const void *data, size_t len)
{
	pf_turn_linger();
	if (code == 0 && reply->finish)
		code = finish(reply);
	else if (code < 0)
		pf_reply_refused(reply, code);
	if (reply->closing)
		pf_open_committed(reply->held, code);
	reply->ops->send(reply, code, data, len);
	pf_reply_unref(reply);
}

static void answer(struct pf_reply *reply, int code, const void *data, size_t len)
{
	if (pf_reply_claim(reply))
		pf_reply_send(reply, code, data, len);
	else
		pf_reply_unref(reply);
}

void pf_reply_code(struct pf_reply *reply, int code)
{
	answer(reply, code, NULL, 0);
}

void pf_reply_why(struct pf_reply *reply, const struct pf_err *err)
{
	reply->why = err;
}

void pf_reply_fail(struct pf_reply *reply, int code, const struct pf_err *err)
{
	pf_reply_why(reply, err);
	pf_reply_code(reply, code);
}

void pf_reply_count(struct pf_reply *reply, size_t len)
{
	answer(reply, 0, NULL, len);
}

void pf_reply_data(struct pf_reply *reply, const void *data, size_t len)
{
	answer(reply, 0, len ? data : "", len);
}

bool pf_reply_gone(struct pf_reply *reply)
{
	PF_LOCK_SCOPE(&reply->lock);
	return reply->answered;
}

static void behind_send(struct pf_reply *reply, int code, const void *data, size_t len)
{
	(void)reply;
	(void)code;
	(void)data;
	(void)len;
}

static void behind_free(struct pf_reply *reply)
{
	free(reply);
}

struct pf_reply *pf_reply_behind(void)
{
	static const struct pf_reply_ops ops = { behind_send, behind_free };
	struct pf_reply *reply = malloc(sizeof(*reply));

	if (reply)
		pf_reply_init(reply, &ops);
	return reply;
}

/* --- streams ------------------------------------------------------------------------- */

void pf_stream_init(struct pf_stream *stream, const struct pf_stream_ops *ops)
{
	*stream = (struct pf_stream){ .ops = ops, .lock = PTHREAD_MUTEX_INITIALIZER };
}

void pf_stream_release(struct pf_stream *stream)
{
	pthread_mutex_destroy(&stream->lock);
}

/* NULL: no memory, or REPLY was interrupted before. */
static struct pf_parked *park(struct pf_stream *stream, size_t size, size_t len,
			      bool writes, struct pf_reply *reply)
{
	struct pf_parked *p = calloc(1, size);

	if (!p)
		return NULL;
	*p = (struct pf_parked){
		.stream = stream, .reply = reply, .len = len, .writes = writes
	};
	PF_LOCK_SCOPE(&reply->lock);
	if (reply->answered)
		free(pf_steal(&p));
	else
		reply->parked = p;
	return p;
}

struct pf_parked *pf_stream_park_write(struct pf_stream *stream, size_t size, size_t len,
				       struct pf_reply *reply)
{
	return park(stream, size, len, true, reply);
}

void pf_stream_read(struct pf_stream *stream, const struct pf_open *of, size_t len,
		    struct pf_reply *reply)
{
	struct pf_parked **at, *p;
	int r = -ENOMEM;

	if (!len) {
		pf_reply_data(reply, NULL, 0);
		return;
	}
	pf_lock(&stream->lock);
	if (stream->ops->ready(stream)) {
		if (pf_reply_claim(reply)) {
			stream->ops->answer(stream, len, reply);
			pf_unlock(&stream->lock);
			return;
		}
	} else if (of->flags & O_NONBLOCK) {
		r = -EAGAIN;
	} else if ((p = park(stream, sizeof(*p), len, false, reply))) {
		for (at = &stream->reads; *at; at = &(*at)->next)
			;
		*at = p;
		pf_unlock(&stream->lock);
		return;
	}
	pf_unlock(&stream->lock);
	pf_reply_code(reply, r); /* no effect if the request was interrupted */
}

void pf_stream_serve_locked(struct pf_stream *stream)
{
	struct pf_parked **at = &stream->reads, *p;

	while ((p = *at) && stream->ops->ready(stream)) {
		if (!pf_reply_claim(p->reply)) {
			at = &p->next; /* its interrupt takes it off the list */
			continue;
		}
		*at = p->next;
		stream->ops->answer(stream, p->len, p->reply);
		free(p);
	}
}

/* --- interrupts ---------------------------------------------------------------------- */

/* Drop the part of P that has not begun; returns how many bytes of a write are done. */
static size_t halt(struct pf_parked *p)
{
	struct pf_stream *stream = p->stream;

	if (!p->writes || !stream->ops->halt)
		return 0;
	PF_LOCK_SCOPE(&stream->lock);
	return stream->ops->halt(stream, p);
}

/* P is about to be answered with EINTR or a short count: its caller may repeat the call at once. */
static void unpark(struct pf_parked *p)
{
	struct pf_stream *stream = p->stream;
	struct pf_parked **at;

	pf_lock(&stream->lock);
	for (at = &stream->reads; *at && *at != p; at = &(*at)->next)
		;
	if (*at)
		*at = p->next;
	else
		stream->ops->interrupted(stream, p);
	pf_unlock(&stream->lock);
}

/* The caller is interrupted.  Answer with the bytes done if PARTIAL and there are any,
 * or CODE. */
static void give_up(struct pf_reply *reply, int code, bool partial)
{
	struct pf_parked *parked;
	size_t done;

	if (!pf_reply_claim(reply))
		return;
	parked = reply->parked; /* no request is parked after it was answered */
	done = parked ? halt(parked) : 0;
	if (!partial)
		done = 0;
	if (parked)
		unpark(parked);
	reply->ops->send(reply, done ? 0 : code, NULL, done);
	free(parked);
	if (parked)
		pf_reply_unref(reply); /* may free the stream */
}

void pf_reply_interrupt(struct pf_reply *reply)
{
	give_up(reply, -EINTR, true);
}

void pf_reply_disconnect(struct pf_reply *reply)
{
	give_up(reply, -ENOTCONN, false);
}
