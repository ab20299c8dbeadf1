/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pjrtfs/base.h"
#include "internal.h"

enum { MAX_ANSWER = 1 << 20 }; /* bytes of a text or of statistics */

enum state { WAITING, ANSWERED, GIVEN_UP };

/* Shared by the thread that waits, or the list of those that gave up, and the one that answers. */
struct shared {
	struct pf_call call;
	struct pf_late late;    /* its op and id are the call's */
	_Atomic int refs;       /* one for each of the two */
	struct pf_sync_call of; /* a copy, with a reference to the instance */
	sem_t answered;
	_Atomic enum state state; /* GIVEN_UP: the thread that answers frees the answer */
	int code;
	struct pf_err err;
	size_t reply_len, room;
	_Alignas(8) char reply[]; /* ROOM bytes */
};

static void shared_unref(struct shared *s)
{
	if (atomic_fetch_sub(&s->refs, 1) > 1)
		return;
	pf_instance_unref(s->of.instance);
	sem_destroy(&s->answered);
	free(s);
}

/* REPLY came too late: free the executable and the blocks that the worker made. */
static void free_answer(struct shared *s, const void *reply)
{
	const struct pf_rep_compile *compiled = reply;
	const struct pf_rep_load *loaded = reply;
	const struct pf_rep_block *block = reply;

	switch (s->late.op) {
	case PF_OP_COMPILE:
		pf_instance_free_block(s->of.instance, compiled->info_off);
		if (compiled->hlo_off != PF_NO_OFFSET)
			pf_instance_free_block(s->of.instance, compiled->hlo_off);
		pf_instance_free_id(s->of.instance, PF_OP_EXECUTABLE_FREE, s->late.id);
		break;
	case PF_OP_LOAD:
		if (loaded->hlo_off != PF_NO_OFFSET)
			pf_instance_free_block(s->of.instance, loaded->hlo_off);
		if (loaded->options_off != PF_NO_OFFSET)
			pf_instance_free_block(s->of.instance, loaded->options_off);
		pf_instance_free_id(s->of.instance, PF_OP_EXECUTABLE_FREE, s->late.id);
		break;
	case PF_OP_BUFFER_READ:
	case PF_OP_MEMORY_STATS:
	case PF_OP_TOPOLOGY:
	case PF_OP_OPTIMIZED:
	case PF_OP_SERIALIZE:
	case PF_OP_GROUP:
		pf_instance_free_block(s->of.instance, block->off);
		break;
	default:
		break;
	}
}

/* S has its answer: wake the caller.  False: it has given S up. */
static bool publish(struct shared *s)
{
	struct pf_instance *instance = s->of.instance;
	bool useless;

	if (!s->of.keeps) {
		if (atomic_exchange(&s->state, ANSWERED) != WAITING)
			return false;
		sem_post(&s->answered);
		return true;
	}
	/* Under the lock, since a failure may not get into the list. */
	pf_lock(&instance->lock);
	if (atomic_exchange(&s->state, ANSWERED) != WAITING) {
		pf_unlock(&instance->lock);
		return false;
	}
	useless = s->code < 0 && pf_late_remove_locked(&s->late);
	sem_post(&s->answered);
	pf_unlock(&instance->lock);
	if (useless)
		shared_unref(s);
	return true;
}

static void answered(struct pf_call *call, int code, const struct pf_err *err,
		     const void *reply, size_t len)
{
	struct shared *s = pf_container_of(call, struct shared, call);

	s->code = code;
	if (code < 0) {
		s->err = *err;
	} else {
		s->reply_len = len < s->room ? len : s->room;
		memcpy(s->reply, reply, s->reply_len);
	}
	if (s->of.drop)
		s->of.drop(s->of.kept);
	if (publish(s)) {
		shared_unref(s);
		return;
	}
	if (s->of.n_given_up)
		atomic_fetch_sub(s->of.n_given_up, 1);
	if (code == 0)
		free_answer(s, reply);
	shared_unref(s);
}

/* A call in the list is of no more use. */
static void drop_late(struct pf_late *late)
{
	struct shared *s = pf_container_of(late, struct shared, late);

	if (atomic_exchange(&s->state, GIVEN_UP) == ANSWERED && s->code == 0)
		free_answer(s, s->reply);
	shared_unref(s);
}

static struct shared *shared_new(const struct pf_sync_call *c, size_t reply_min)
{
	const struct pf_req_id *request = c->request;
	size_t room = reply_min + c->reply_more;
	struct shared *s = calloc(1, sizeof(*s) + room);

	if (!s)
		return NULL;
	if (sem_init(&s->answered, 0, 0))
		abort();
	s->call.done = answered;
	s->call.reply_min = reply_min;
	s->room = room;
	s->of = *c;
	pf_instance_ref(c->instance);
	s->late = (struct pf_late){ .op = (enum pf_op)request->head.op,
				    .id = request->id,
				    .drop = drop_late };
	atomic_init(&s->refs, 2);
	return s;
}

/* Leave S to the thread that answers; false: it has answered, or does so just now. */
static bool give_up(struct shared *s)
{
	enum state waiting = WAITING;

	if (s->of.keeps) {
		PF_LOCK_SCOPE(&s->of.instance->lock);
		if (atomic_load(&s->state) == ANSWERED)
			return false;
		pf_late_keep_locked(s->of.instance, &s->late);
		return true;
	}
	if (s->of.n_given_up)
		atomic_fetch_add(s->of.n_given_up, 1);
	if (atomic_compare_exchange_strong(&s->state, &waiting, GIVEN_UP))
		return true;
	if (s->of.n_given_up)
		atomic_fetch_sub(s->of.n_given_up, 1);
	return false;
}

/* Wait for the answer until END: CLOCK_MONOTONIC, ms; INT64_MAX: no limit. */
static int await_until(struct shared *s, int64_t end)
{
	int64_t now = pf_now_ms();
	struct timespec at =
		pf_time_in(CLOCK_MONOTONIC,
			   end > now && end < INT64_MAX ? (uint64_t)(end - now) : 0);
	int r;

	do
		r = end < INT64_MAX ? sem_clockwait(&s->answered, CLOCK_MONOTONIC, &at)
				    : sem_wait(&s->answered);
	while (r && errno == EINTR);
	return r;
}

/* Wait for the answer, as long as C allows.  False: S was given up. */
static bool await(struct shared *s, const struct pf_sync_call *c)
{
	int64_t now = pf_now_ms(), tick = c->tick ? now + c->tick_ms : INT64_MAX,
		end = c->timeout_s ? now + c->timeout_s * INT64_C(1000) : INT64_MAX;
	int r;

	while ((r = await_until(s, tick < end ? tick : end)) && tick < end) {
		c->tick(c->tick_arg);
		tick += c->tick_ms;
	}
	if (r && give_up(s)) {
		if (!c->keeps)
			shared_unref(s);
		return false;
	}
	while (r && (r = sem_wait(&s->answered)))
		;
	/* The semaphore orders what follows, but ThreadSanitizer does not know
	 * sem_clockwait(3). */
	return atomic_load(&s->state) == ANSWERED;
}

/* Send the request of C: *RET, to be awaited. */
static int send(struct pf_sync_call *c, size_t reply_min, struct shared **ret,
		struct pf_err *err)
{
	bool silent = c->brief && atomic_load(&c->instance->unresponsive);
	struct shared *s = silent ? NULL : shared_new(c, reply_min);
	int r;

	if (!s)
		r = silent ? pf_err_set(err, -ETIMEDOUT,
					"the plugin's worker does not answer")
			   : pf_err_set(err, -ENOMEM, "no memory for a call of a worker");
	else if (c->in_order)
		r = pf_instance_call_in_order(c->instance, &s->call, c->request, err);
	else
		r = pf_instance_call(c->instance, &s->call, c->request, c->len, c->tail,
				     c->tail_len, err);
	if (r == 0) {
		*ret = s;
		return 0;
	}
	if (c->drop)
		c->drop(c->kept);
	if (s) {
		shared_unref(s); /* no thread will answer */
		shared_unref(s);
	}
	return r;
}

/* A call like C that an earlier caller gave up. */
static struct shared *find_late(const struct pf_sync_call *c)
{
	const struct pf_req_id *request = c->request;
	struct pf_late *late =
		pf_late_take(c->instance, (enum pf_op)request->head.op, request->id);

	return late ? pf_container_of(late, struct shared, late) : NULL;
}

static int timed_out(const struct pf_sync_call *c, struct pf_err *err)
{
	if (c->brief)
		atomic_store(&c->instance->unresponsive, true);
	return pf_err_set(err, -ETIMEDOUT, "no answer within %u s%s", c->timeout_s,
			  c->keeps ? "; the plugin goes on: try again" : "");
}

int pf_sync_call(struct pf_sync_call *c, void *reply, size_t reply_min,
		 struct pf_err *err)
{
	struct shared *s = c->keeps ? find_late(c) : NULL;
	int r = s ? 0 : send(c, reply_min, &s, err);

	c->sent = r == 0;
	if (r < 0)
		return r;
	if (!await(s, c))
		return timed_out(c, err);
	r = s->code;
	if (r < 0 && err)
		*err = s->err;
	memcpy(reply, s->reply, s->reply_len);
	c->reply_len = s->reply_len;
	shared_unref(s);
	return r;
}

int pf_sync_ask(struct pf_sync_call *c, enum pf_op op, uint64_t id, struct pf_buf *out,
		struct pf_err *err)
{
	struct pf_req_id request = { .head.op = op, .id = id };
	struct pf_rep_block reply;
	int r;

	c->request = &request;
	c->len = sizeof(request);
	r = pf_sync_call(c, &reply, sizeof(reply), err);
	if (r < 0)
		return r;
	r = pf_shared_copy(pf_instance_pool(c->instance, reply.off, reply.len),
			   "the worker's answer", MAX_ANSWER, out, err);
	pf_instance_free_block(c->instance, reply.off);
	return r;
}
