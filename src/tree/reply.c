/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait for their answers. */
#include <errno.h>

#include "internal.h"

void pf_reply_init(struct pf_reply *reply, const struct pf_reply_ops *ops)
{
	reply->ops = ops;
	if (pthread_mutex_init(&reply->lock, NULL))
		abort();
	reply->refs = 1;
	reply->answered = false;
	reply->halt = NULL;
	reply->on_interrupt = NULL;
	reply->arg = NULL;
	reply->held = NULL;
	reply->uid = 0;
	reply->pid = 0;
	reply->doing = NULL;
	reply->closing = false;
	reply->why = NULL;
	reply->opened = NULL;
	reply->finish = NULL;
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
	if (code == 0 && reply->finish)
		code = finish(reply);
	else if (code < 0)
		pf_reply_refused(reply, code);
	if (reply->closing)
		__atomic_store_n(&reply->held->failed, code, __ATOMIC_SEQ_CST);
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

bool pf_reply_park(struct pf_reply *reply, size_t (*halt)(void *arg),
		   void (*fn)(void *arg), void *arg)
{
	PF_LOCK_SCOPE(&reply->lock);
	if (reply->answered)
		return false;
	reply->halt = halt;
	reply->on_interrupt = fn;
	reply->arg = arg;
	return true;
}

/* The caller is interrupted.  Answer with the bytes done if TELL_DONE and there are any,
 * or CODE. */
static void give_up(struct pf_reply *reply, int code, bool tell_done)
{
	size_t (*halt)(void *arg), done;
	void (*fn)(void *arg);
	void *arg;

	pf_lock(&reply->lock);
	if (reply->answered) {
		pf_unlock(&reply->lock);
		return;
	}
	reply->answered = true;
	halt = reply->halt;
	fn = reply->on_interrupt;
	arg = reply->arg;
	pf_unlock(&reply->lock);

	done = halt ? halt(arg) : 0;
	if (!tell_done)
		done = 0;
	reply->ops->send(reply, done ? 0 : code, NULL, done);
	if (fn)
		fn(arg);
}

void pf_reply_interrupt(struct pf_reply *reply)
{
	give_up(reply, -EINTR, true);
}

void pf_reply_disconnect(struct pf_reply *reply)
{
	give_up(reply, -ENOTCONN, false);
}
