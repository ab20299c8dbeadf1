/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

enum { MAX_REPLY = 128 };

/* Shared by who waits and who answers; the last of them frees it. */
struct ask {
	struct pf_call call;
	struct pf_instance *instance; /* owned reference */
	struct pf_bytes *bytes;       /* owned reference, or NULL */
	_Atomic unsigned *n_given_up;
	enum pf_op op;
	uint64_t id;
	size_t reply_len;

	pthread_mutex_t lock; /* rank 4; protects the fields below */
	pthread_cond_t answered;
	bool done, given_up;
	int code;
	struct pf_err err;
	_Alignas(8) char reply[MAX_REPLY];
};

static void ask_free(struct ask *a)
{
	pf_instance_unref(a->instance);
	pf_bytes_unref(a->bytes);
	pthread_cond_destroy(&a->answered);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

/* Nobody waits for what the answer tells of any more. */
static void drop_answer(struct ask *a, const void *reply)
{
	const struct pf_rep_compile *compiled = reply;
	const struct pf_rep_block *block = reply;

	switch (a->op) {
	case PF_OP_COMPILE:
		pf_instance_free_block(a->instance, compiled->info_off);
		if (compiled->hlo_off != PF_NO_OFFSET)
			pf_instance_free_block(a->instance, compiled->hlo_off);
		pf_instance_free_id(a->instance, PF_OP_EXECUTABLE_FREE, a->id);
		break;
	case PF_OP_LOAD:
		pf_instance_free_id(a->instance, PF_OP_EXECUTABLE_FREE, a->id);
		break;
	default:
		pf_instance_free_block(a->instance, block->off);
	}
}

static void ask_done(struct pf_call *call, int code, const struct pf_err *err,
		     const void *reply, size_t len)
{
	struct ask *a = pf_container_of(call, struct ask, call);
	bool given_up;

	(void)len;
	pf_lock(&a->lock);
	given_up = a->given_up;
	a->done = true;
	a->code = code;
	if (code < 0)
		a->err = *err;
	else
		memcpy(a->reply, reply, a->reply_len);
	if (!given_up) /* signalled under the lock: the other one frees it */
		pthread_cond_signal(&a->answered);
	pf_unlock(&a->lock);
	if (!given_up)
		return;
	if (a->n_given_up)
		atomic_fetch_sub(a->n_given_up, 1);
	if (code == 0)
		drop_answer(a, reply);
	ask_free(a);
}

static struct ask *ask_new(const struct pf_sync_call *q, size_t reply_len)
{
	struct ask *a = calloc(1, sizeof(*a));
	pthread_condattr_t attr;

	if (!a || reply_len > MAX_REPLY) {
		free(a);
		return NULL;
	}
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	if (pthread_mutex_init(&a->lock, NULL) || pthread_cond_init(&a->answered, &attr))
		abort();
	pthread_condattr_destroy(&attr);
	a->call.done = ask_done;
	a->call.reply_min = a->reply_len = reply_len;
	a->instance = pf_instance_ref(q->instance);
	a->bytes = q->bytes ? pf_bytes_ref(q->bytes) : NULL;
	a->n_given_up = q->given_up;
	a->op = (enum pf_op)((struct pf_msg_head *)q->request)->op;
	a->id = ((struct pf_req_id *)q->request)->id;
	return a;
}

/* Wait until the answer is there, or AT seconds of the monotonic clock (0: for ever). */
static bool wait_until(struct ask *a, const struct timespec *at)
{
	PF_LOCK_SCOPE(&a->lock);
	while (!a->done)
		if (!at)
			pthread_cond_wait(&a->answered, &a->lock);
		else if (pthread_cond_timedwait(&a->answered, &a->lock, at))
			break;
	return a->done;
}

/* Wait as QUESTION says; false: it took too long. */
static bool wait_for(struct ask *a, const struct pf_sync_call *q)
{
	struct timespec begin, at;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	at = begin;
	at.tv_sec += PF_SYNC_CALL_LONG_S;
	if (q->takes_long && (!q->timeout_s || q->timeout_s > PF_SYNC_CALL_LONG_S)) {
		if (wait_until(a, &at))
			return true;
		q->takes_long(q->arg);
	}
	at.tv_sec = begin.tv_sec + q->timeout_s;
	return wait_until(a, q->timeout_s ? &at : NULL);
}

int pf_sync_call(struct pf_sync_call *q, void *reply, size_t reply_len,
		 struct pf_err *err)
{
	struct ask *a = ask_new(q, reply_len);
	int r;

	q->sent = false;
	if (!a)
		return pf_err_set(err, -ENOMEM, "no memory to ask a worker");
	r = pf_instance_call(q->instance, &a->call, q->request, q->len, q->tail,
			     q->tail_len, err);
	if (r < 0) {
		ask_free(a);
		return r;
	}
	q->sent = true;
	if (!wait_for(a, q)) {
		pf_lock(&a->lock);
		a->given_up = !a->done; /* it may be answered just now */
		r = a->given_up;
		if (r && a->n_given_up)
			atomic_fetch_add(a->n_given_up, 1);
		pf_unlock(&a->lock);
		if (r)
			return pf_err_set(err, -ETIMEDOUT, "no answer within %u s",
					  q->timeout_s);
	}
	pf_lock(&a->lock);
	r = a->code;
	if (r < 0 && err)
		*err = a->err;
	if (r == 0)
		memcpy(reply, a->reply, reply_len);
	pf_unlock(&a->lock);
	ask_free(a);
	return r;
}
