/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait at a stream. */
#include <errno.h>

#include "internal.h"

void pf_stream_init(struct pf_stream *stream, const struct pf_stream_ops *ops)
{
	stream->ops = ops;
	stream->reads = NULL;
	if (pthread_mutex_init(&stream->lock, NULL))
		abort();
}

void pf_stream_release(struct pf_stream *stream)
{
	pthread_mutex_destroy(&stream->lock);
}

/* The tree has answered the request that is parked at ARG with EINTR or a short count. */
static void interrupted(void *arg)
{
	struct pf_parked *p = arg, **at;
	struct pf_stream *stream = p->stream;
	struct pf_reply *reply = p->reply;

	pf_lock(&stream->lock);
	for (at = &stream->reads; *at && *at != p; at = &(*at)->next)
		;
	if (*at)
		*at = p->next;
	else
		stream->ops->interrupted(stream, p);
	pf_unlock(&stream->lock);
	free(p);
	pf_reply_unref(reply); /* may free the stream */
}

static size_t halt_write(void *arg)
{
	struct pf_parked *write = arg;

	PF_LOCK_SCOPE(&write->stream->lock);
	return write->stream->ops->halt(write->stream, write);
}

static struct pf_parked *park(struct pf_stream *stream, size_t size, size_t len,
			      size_t (*halt)(void *arg), struct pf_reply *reply)
{
	struct pf_parked *p = calloc(1, size);

	if (!p)
		return NULL;
	*p = (struct pf_parked){ .stream = stream, .reply = reply, .len = len };
	if (pf_reply_park(reply, halt, interrupted, p))
		return p;
	free(p);
	return NULL;
}

struct pf_parked *pf_stream_park_write(struct pf_stream *stream, size_t size, size_t len,
				       struct pf_reply *reply)
{
	return park(stream, size, len, stream->ops->halt ? halt_write : NULL, reply);
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
	} else if ((p = park(stream, sizeof(*p), len, NULL, reply))) {
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
