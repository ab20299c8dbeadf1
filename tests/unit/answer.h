/* SPDX-License-Identifier: Apache-2.0 */
/* A request whose answer a test can look at. */
#ifndef PJRTFS_TESTS_UNIT_ANSWER_H
#define PJRTFS_TESTS_UNIT_ANSWER_H

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pjrtfs/base.h"
#include "pjrtfs/kind.h"

struct answer {
	struct pf_reply reply;
	pthread_mutex_t lock; /* protects the fields below */
	pthread_cond_t changed;
	int sent;  /* how often */
	int freed; /* how often */
	int code;
	size_t len;
	struct pf_buf data;
};

static inline void answer_send(struct pf_reply *reply, int code, const void *data,
			       size_t len)
{
	struct answer *a = pf_container_of(reply, struct answer, reply);

	pf_lock(&a->lock);
	a->sent++;
	a->code = code;
	a->len = len;
	if (data)
		pf_buf_append(&a->data, data, len);
	pthread_cond_broadcast(&a->changed);
	pf_unlock(&a->lock);
}

static inline void answer_free(struct pf_reply *reply)
{
	struct answer *a = pf_container_of(reply, struct answer, reply);

	pf_lock(&a->lock);
	a->freed++;
	pthread_cond_broadcast(&a->changed);
	pf_unlock(&a->lock);
}

/* A reply to give away; the test holds no reference.  Static memory would do as well: it
 * must stay until answer_end. */
static inline struct pf_reply *answer_begin(struct answer *a)
{
	static const struct pf_reply_ops ops = { .send = answer_send,
						 .free = answer_free };

	memset(a, 0, sizeof(*a));
	memset(&a->reply, 0x5a, sizeof(a->reply)); /* as memory is that was used before */
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->changed, NULL);
	pf_reply_init(&a->reply, &ops);
	return &a->reply;
}

static inline bool answer_is_sent(struct answer *a)
{
	PF_LOCK_SCOPE(&a->lock);
	return a->sent > 0;
}

/* Wait until it was sent and has no references; the code, or the count of bytes. */
static inline ssize_t answer_wait(struct answer *a)
{
	PF_LOCK_SCOPE(&a->lock);
	while (!a->freed)
		pthread_cond_wait(&a->changed, &a->lock);
	return a->code < 0 ? a->code : (ssize_t)a->len;
}

static inline void answer_end(struct answer *a)
{
	pf_buf_release(&a->data);
	pthread_mutex_destroy(&a->lock);
	pthread_cond_destroy(&a->changed);
}

/* As answer_wait, and end it. */
static inline ssize_t answer_take(struct answer *a)
{
	ssize_t n = answer_wait(a);

	answer_end(a);
	return n;
}

#endif
