/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to the worker, also those that wait for room in the ring, and the end of all of them. */
#include <errno.h>
#include <stdatomic.h>

#include "internal.h"
#include "pjrtfs/base.h"

enum { MAX_DEFERRED = 64 << 20 }; /* bytes of frees that wait for room in the ring */

void pf_instance_refuse_more(struct pf_instance *instance, const struct pf_err *why)
{
	pf_lock(&instance->lock);
	if (!instance->dead)
		instance->why = *why;
	instance->dead = true;
	pf_unlock(&instance->lock);
	pf_ring_close(&instance->channel.request);
	pf_ring_close(&instance->channel.reply);
}

void pf_instance_break_locked(struct pf_instance *instance)
{
	if (!instance->dead && !atomic_exchange(&instance->broken, true))
		pf_instance_nudge(instance);
}

void pf_instance_mark_broken(struct pf_instance *instance)
{
	struct pf_err why = PF_ERR_INIT;

	pf_err_set(
		&why, -EIO,
		"the worker of plugin %s damaged its rings of requests and replies; it "
		"is ended and started again",
		instance->name);
	pf_lock(&instance->lock);
	pf_instance_break_locked(instance);
	pf_unlock(&instance->lock);
	pf_instance_refuse_more(instance, &why);
}

/*
 * The instance for which this thread calls done or asked just now.  What these post does not wake the
 * worker; one wake-up follows, because a wake-up for each takes longer than all the rest.
 */
static _Thread_local struct answering {
	struct pf_instance *instance;
	bool posted;
} answering;

void pf_answering_begin(struct pf_instance *instance)
{
	answering = (struct answering){ .instance = instance };
}

void pf_answering_end(void)
{
	if (answering.posted)
		pf_ring_wake(&answering.instance->channel.request);
	answering = (struct answering){ NULL };
}

bool pf_is_answering(void)
{
	return answering.instance;
}

int pf_instance_post_locked(struct pf_instance *instance, const void *message, size_t len,
			    const void *tail, size_t tail_len)
{
	bool nowake = answering.instance == instance;
	int r = -EAGAIN;

	if (!instance->deferred.len)
		r = (nowake ? pf_ring_post_nowake
			    : pf_ring_post)(&instance->channel.request, message, len,
					    tail, tail_len);
	answering.posted = answering.posted || (nowake && r == 0);
	if (pf_is_damage(r))
		pf_instance_break_locked(instance);
	if (r != -EAGAIN)
		return 0;
	if (instance->deferred.len >= MAX_DEFERRED ||
	    !pf_buf_reserve(&instance->deferred, len + tail_len)) {
		instance->deferred.failed = false;
		return -ENOMEM;
	}
	pf_buf_append(&instance->deferred, message, len);
	if (tail_len)
		pf_buf_append(&instance->deferred, tail, tail_len);
	return 0;
}

int pf_instance_add_call_locked(struct pf_instance *instance, struct pf_call *call,
				uint32_t op)
{
	if (instance->dead)
		return -EIO;
	call->op = op;
	call->n_asked = 0;
	call->overran = false;
	call->tag = ++instance->last_tag;
	call->began_s = atomic_load_explicit(&instance->seconds, memory_order_relaxed);
	call->mark = instance->last_mark = pf_plugin_log_mark(instance->log);
	return pf_map_put(&instance->calls, call->tag, call);
}

void pf_instance_send_deferred_locked(struct pf_instance *instance)
{
	while (instance->deferred_sent < instance->deferred.len) {
		const struct pf_msg_head *head =
			(const void *)(instance->deferred.data + instance->deferred_sent);
		int r = pf_ring_post(&instance->channel.request, head, head->len, NULL,
				     0);

		if (r == -EAGAIN)
			return;
		if (pf_is_damage(r))
			pf_instance_break_locked(instance);
		instance->deferred_sent += head->len;
	}
	pf_buf_consume(&instance->deferred, instance->deferred_sent);
	instance->deferred_sent = 0;
}

static void post_free(struct pf_instance *instance, enum pf_op op, uint64_t id)
{
	struct pf_req_id req = { .head = { .op = op, .len = sizeof(req) }, .id = id };

	PF_LOCK_SCOPE(&instance->lock);
	/* Without memory the worker keeps the object. */
	if (!instance->dead)
		(void)pf_instance_post_locked(instance, &req, sizeof(req), NULL, 0);
}

void pf_instance_free_block(struct pf_instance *instance, uint64_t off)
{
	post_free(instance, PF_OP_BLOCK_FREE, off);
}

void pf_instance_free_id(struct pf_instance *instance, enum pf_op op, uint64_t id)
{
	if (op == PF_OP_EXECUTABLE_FREE) {
		pf_late_drop(instance, PF_OP_SERIALIZE, id);
		pf_late_drop(instance, PF_OP_OPTIMIZED, id);
	}
	post_free(instance, op, id);
}
