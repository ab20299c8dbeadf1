/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of an instance: requests, and the thread that takes the replies, from its start to its end. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/state.h"
#include "pjrtfs/wait.h"

enum {
	MAX_CALLS = 65536, /* under way at once */
	DEFERRED_MS = 10,  /* between two tries to send deferred messages */
	ROUSE_MS = 1000,   /* how long a lost wake-up can delay a message */
};

/* --- replies ------------------------------------------------------------------------ */

/* The buffer of each thread that takes messages, freed when the thread ends. */
static pthread_key_t message_key;
static pthread_once_t message_once = PTHREAD_ONCE_INIT;

static void make_message_key(void)
{
	if (pthread_key_create(&message_key, free))
		abort();
}

static void *message_buffer(void)
{
	void *p;

	pthread_once(&message_once, make_message_key);
	p = pthread_getspecific(message_key);
	if (!p) {
		p = malloc(PF_RING_MESSAGE);
		if (p)
			pthread_setspecific(message_key, p);
	}
	return p;
}

static struct pf_call *take_call(struct pf_instance *instance, uint64_t tag)
{
	struct pf_call *call = NULL;

	pf_lock(&instance->lock);
	if (tag)
		call = pf_map_remove(&instance->calls, tag);
	pf_unlock(&instance->lock);
	return call;
}

/* The plugin's failure, as the worker reports it in REP. */
static int reply_error(const struct pf_rep_head *rep, size_t len, struct pf_err *err)
{
	int code = rep->code > -4096 ? rep->code : -EIO;
	const char *text = (const char *)(rep + 1);
	size_t all = len - sizeof(*rep), n = strnlen(text, all);

	pf_err_set_lines(err, code, text, n);
	err->pjrt_code = rep->pjrt_code;
	if (n < all && all - n <= PF_ERR_PAYLOADS)
		pf_json_read_payloads(err, text + n + 1, all - n - 1);
	return code;
}

/* Give the reply REP, of LEN bytes, to its call.  A reply that is wrong fails only its own call. */
static void answer_call(struct pf_instance *instance, const struct pf_rep_head *rep,
			size_t len)
{
	struct pf_call *call = take_call(instance, rep->head.tag);
	struct pf_err err = PF_ERR_INIT;
	int code = 0;

	if (!call)
		return;
	if (len < sizeof(*rep) || rep->head.len != len)
		code = pf_err_set(
			&err, -EPROTO,
			"the worker of plugin %s answered with %zu bytes, whose "
			"head says %u",
			instance->name, len, rep->head.len);
	else if (rep->code < 0)
		code = reply_error(rep, len, &err);
	else if (rep->head.op != call->op || len < call->reply_min)
		code = pf_err_set(&err, -EPROTO,
				  "the worker of plugin %s answered "
				  "with a message that is not of that request",
				  instance->name);
	if (!code && rep->head.op == PF_OP_EXECUTE &&
	    !atomic_load_explicit(&instance->executed, memory_order_relaxed))
		atomic_store(&instance->executed, true);
	call->done(call, code, code ? &err : NULL, code ? NULL : rep, code ? 0 : len);
}

static void dispatch(struct pf_instance *instance, const void *message, size_t len)
{
	const struct pf_msg_head *head = message;

	if (atomic_load_explicit(&instance->unresponsive, memory_order_relaxed))
		atomic_store(&instance->unresponsive, false);
	/* Without a tag no call can be found, and the caller would wait for ever. */
	if (len < sizeof(*head)) {
		pf_instance_mark_broken(instance);
		return;
	}
	pf_answering_begin(instance);
	if (head->op != PF_OP_CALLBACK || !pf_invocation_ask(instance, message, len))
		answer_call(instance, message, len);
	pf_answering_end();
	if (atomic_load_explicit(&instance->leaves_at, memory_order_relaxed))
		pf_instance_nudge(instance); /* it may have been the last call */
}

/* Take one reply and answer its call.  False: the ring is empty or closed. */
static bool take_one(struct pf_instance *instance)
{
	void *message = message_buffer();
	ssize_t n;

	if (!message)
		return false;
	n = pf_ring_take(&instance->channel.reply, message, PF_RING_MESSAGE);
	if (n == -EPROTO || n == -EPIPE)
		pf_instance_mark_broken(instance);
	if (n < 0)
		return false;
	pf_ring_wake(&instance->channel.reply);
	pf_turn_enter();
	dispatch(instance, message, (size_t)n);
	pf_turn_leave();
	return true;
}

void pf_instance_spin(struct pf_instance *instance, const _Atomic bool *done, unsigned us)
{
	uint64_t now = pf_now_ns(), end = now + us * UINT64_C(1000);

	/* A caller of this thread still reads a reply in the thread's message buffer. */
	if (pf_is_answering())
		return;
	while (!atomic_load(done) && now < end) {
		/* The time has passed, or another thread spins or took the reply. */
		if (!pf_ring_wait(&instance->channel.reply,
				  (unsigned)((end - now) / 1000), 0) ||
		    !take_one(instance))
			return;
		now = pf_now_ns();
	}
}

/* Fail the calls under way with WHY and, if QUOTE, what was printed since each began. */
static void fail_calls(struct pf_instance *instance, const struct pf_err *why, bool quote)
{
	uint64_t since = 1, until = 0; /* marks that give the same line as the last one */
	struct pf_err quoted = *why;
	struct pf_map calls;
	struct pf_call *call;
	size_t pos = 0;

	pf_turn_enter();
	pf_lock(&instance->lock);
	calls = instance->calls;
	memset(&instance->calls, 0, sizeof(instance->calls));
	while ((call = pf_map_next(&calls, &pos)))
		if (!call->n_asked)
			instance->lost[call->op < PF_OP_COUNT ? call->op : 0]++;
	pf_unlock(&instance->lock);
	pos = 0;
	while ((call = pf_map_next(&calls, &pos))) {
		if (quote && (call->mark < since || call->mark > until)) {
			quoted = *why;
			since = call->mark;
			until = pf_plugin_log_quote(instance->log, since,
						    PF_PLUGIN_LOG_ANY, &quoted);
		}
		call->done(call, quoted.code, &quoted, NULL, 0);
	}
	pf_map_release(&calls);
	pf_turn_leave();
}

static void *reply_main(void *arg)
{
	struct pf_instance *instance = arg;
	bool dead = false, deferred = false;

	while (!dead) {
		/* A worker that overwrites a ring's count of sleepers loses wake-ups. */
		if (!pf_ring_wait(&instance->channel.reply, 0,
				  deferred ? DEFERRED_MS : ROUSE_MS))
			pf_ring_rouse(&instance->channel.request);
		/* Replies that the worker sent before it ended are in the ring by now, and are taken. */
		dead = !pf_instance_alive(instance);
		while (take_one(instance))
			;
		pf_instance_count_seconds(instance);
		pf_lock(&instance->lock);
		pf_instance_send_deferred_locked(instance);
		deferred = instance->deferred.len > 0;
		pf_unlock(&instance->lock);
	}
	if (atomic_load(&instance->broken))
		/* why does not change once dead */
		fail_calls(instance, &instance->why, false);
	return NULL;
}

/* --- requests ----------------------------------------------------------------------- */

static int dead_error(const struct pf_instance *instance, struct pf_err *err)
{
	return pf_err_set(err, -EIO, "%s", instance->why.text);
}

static int send_call(struct pf_instance *instance, struct pf_call *call, void *request,
		     size_t len, const void *tail, size_t tail_len, struct pf_err *err)
{
	struct pf_msg_head *head = request;
	int r;

	head->len = (uint32_t)(len + tail_len);
	pf_lock(&instance->lock);
	r = instance->calls.used >= MAX_CALLS && !instance->dead
		    ? -EAGAIN
		    : pf_instance_add_call_locked(instance, call, head->op);
	if (r == 0)
		head->tag = call->tag;
	pf_unlock(&instance->lock);
	if (r == -EIO)
		return dead_error(instance, err);
	if (r == 0) {
		r = pf_ring_post(&instance->channel.request, request, len, tail,
				 tail_len);
		if (r == 0)
			return 0;
		/* If the instance ended meanwhile, the call has been answered. */
		if (!take_call(instance, head->tag))
			return 0;
	}
	if (pf_is_damage(r)) {
		pf_instance_mark_broken(instance);
		return dead_error(instance, err);
	}
	if (r == -EAGAIN)
		return pf_err_set(err, -EBUSY, "too much is under way on plugin %s",
				  instance->name);
	return pf_err_set(err, r == -EMSGSIZE ? -E2BIG : r,
			  "ask the worker of plugin %s: %s", instance->name,
			  strerror(-r));
}

int pf_instance_call(struct pf_instance *instance, struct pf_call *call, void *request,
		     size_t len, const void *tail, size_t tail_len, struct pf_err *err)
{
	int r;

	/* The reply may come, and drop the last reference, while this still wakes the worker. */
	pf_instance_ref(instance);
	r = send_call(instance, call, request, len, tail, tail_len, err);
	pf_instance_unref(instance);
	return r;
}

int pf_instance_call_in_order(struct pf_instance *instance, struct pf_call *call,
			      struct pf_req_id *request, struct pf_err *err)
{
	int r;

	request->head.len = sizeof(*request);
	PF_LOCK_SCOPE(&instance->lock);
	/* It is not a use of the process, which may be idle. */
	instance->idle_tag += instance->idle_tag == instance->last_tag;
	r = pf_instance_add_call_locked(instance, call, request->head.op);
	if (r == -EIO)
		return dead_error(instance, err);
	if (r == 0) {
		request->head.tag = call->tag;
		r = pf_instance_post_locked(instance, request, sizeof(*request), NULL, 0);
		if (r < 0)
			pf_map_remove(&instance->calls, call->tag);
	}
	return r < 0 ? pf_err_set(err, r, "no memory for a call of a worker") : 0;
}

/* --- start and end ------------------------------------------------------------------ */

int pf_instance_new(const char *name, int channel_fd, int pool_fd, uint64_t pool_size,
		    int broken_fd, const struct pf_worker_limits *limits,
		    struct pf_plugin_log *log, struct pf_instance **ret,
		    struct pf_err *err)
{
	struct pf_instance *instance =
		pf_instance_alloc(name, pf_state_next(PF_STATE_COUNT_INSTANCE),
				  broken_fd);
	int r;

	if (!instance)
		return pf_err_set(err, -ENOMEM, "no memory for a worker");
	instance->limits = *limits;
	instance->log = log;
	instance->last_mark = pf_plugin_log_mark(log);
	r = pf_instance_map_pool(instance, pool_fd, pool_size, err);
	if (r == 0)
		r = pf_channel_map(&instance->channel, channel_fd, err);
	if (r == 0 && pthread_create(&instance->thread, NULL, reply_main, instance))
		r = pf_err_set(err, -EAGAIN, "no thread for a worker's replies");
	if (r < 0) {
		pf_instance_unref(instance);
		return r;
	}
	pf_instance_keep_pool(instance, pool_fd);
	*ret = instance;
	return 0;
}

void pf_instance_quote(struct pf_instance *instance, struct pf_err *why)
{
	enum pf_plugin_log_lines lines = PF_PLUGIN_LOG_FATAL;
	struct pf_call *call;
	uint64_t mark;
	size_t pos = 0;

	pf_lock(&instance->lock);
	mark = instance->last_mark;
	while ((call = pf_map_next(&instance->calls, &pos))) {
		lines = PF_PLUGIN_LOG_ANY;
		if (call->mark < mark)
			mark = call->mark;
	}
	pf_unlock(&instance->lock);
	pf_plugin_log_quote(instance->log, mark, lines, why);
}

void pf_instance_end(struct pf_instance *instance, const struct pf_err *why,
		     const struct pf_err *quoted)
{
	pf_instance_refuse_more(instance, quoted);
	if (instance->joined)
		return;
	instance->joined = true;
	pthread_join(instance->thread, NULL);
	fail_calls(instance, why, true);
	pf_late_drop_all(instance);
	pf_instance_rest(instance);
}
