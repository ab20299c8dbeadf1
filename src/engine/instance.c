/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/shm.h"
#include "pjrtfs/state.h"
#include "pjrtfs/wire.h"
#include "pjrtfs/wait.h"

enum {
	MAX_CALLS = 65536,       /* under way at once */
	MAX_DEFERRED = 64 << 20, /* bytes of frees that wait for room in the ring */
	DEFERRED_MS = 10,        /* between two tries to send them */
	ROUSE_MS = 1000,         /* how long a lost wake-up can delay a message */
};

/* Refuse all calls from now on, with the first WHY that is given. */
static void refuse_more(struct pf_instance *instance, const struct pf_err *why)
{
	pf_lock(&instance->lock);
	if (!instance->dead)
		instance->why = *why;
	instance->dead = true;
	pf_unlock(&instance->lock);
	pf_ring_close(&instance->channel.request);
	pf_ring_close(&instance->channel.reply);
}

/* Have the monitor end the process, unless it does so already. */
static void break_locked(struct pf_instance *instance)
{
	if (!instance->dead && !atomic_exchange(&instance->broken, true))
		pf_instance_nudge(instance);
}

/*
 * The worker wrote invalid data into a ring, or closed one.  This answers no call,
 * because the caller may hold locks: it wakes the reply thread, which fails those under
 * way.
 */
static void mark_broken(struct pf_instance *instance)
{
	struct pf_err why = PF_ERR_INIT;

	pf_err_set(
		&why, -EIO,
		"the worker of plugin %s damaged its rings of requests and replies; it "
		"is ended and started again",
		instance->name);
	pf_lock(&instance->lock);
	break_locked(instance);
	pf_unlock(&instance->lock);
	refuse_more(instance, &why);
}

/* --- messages that are not lost if the ring is full ---------------------------------- */

/*
 * The instance for which this thread calls done or asked just now.  What these post does not wake the
 * worker; one wake-up follows, because a wake-up for each takes longer than all the rest.
 */
static _Thread_local struct answering {
	struct pf_instance *instance;
	bool posted;
} answering;

static bool is_damage(int r)
{
	return r == -EPROTO || r == -EPIPE;
}

/* Post MESSAGE, whose head has its length, and TAIL; if the ring is full, later.  -ENOMEM. */
static int post_locked(struct pf_instance *instance, const void *message, size_t len,
		       const void *tail, size_t tail_len)
{
	bool nowake = answering.instance == instance;
	int r = -EAGAIN;

	if (!instance->deferred.len)
		r = (nowake ? pf_ring_post_nowake
			    : pf_ring_post)(&instance->channel.request, message, len,
					    tail, tail_len);
	answering.posted = answering.posted || (nowake && r == 0);
	if (is_damage(r))
		break_locked(instance);
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

/* --- callbacks ------------------------------------------------------------------------ */

/* INVOCATION is over: Q, its answer, goes to the worker with TAIL. */
static void settle_locked(const struct pf_invocation *invocation, struct pf_req_answer *q,
			  const void *tail, size_t tail_len)
{
	struct pf_instance *instance = invocation->instance;
	struct pf_call *call = pf_map_get(&instance->calls, invocation->tag);
	const struct pf_req_id block = { .head = { .op = PF_OP_BLOCK_FREE,
						   .len = sizeof(block) },
					 .id = invocation->block };

	if (call)
		call->n_asked--;
	if (invocation->block != PF_NO_OFFSET)
		(void)post_locked(instance, &block, sizeof(block), NULL, 0);
	q->head.op = PF_OP_CALLBACK_ANSWER;
	q->head.len = (uint32_t)(sizeof(*q) + tail_len);
	q->number = invocation->number;
	/* Without it the worker would wait for ever. */
	if (post_locked(instance, q, sizeof(*q), tail, tail_len) < 0)
		break_locked(instance);
}

/* As pf_invocation_fail, but INVOCATION stays. */
static void refuse(const struct pf_invocation *invocation, int code, const char *text)
{
	struct pf_req_answer q = { .pjrt_code = code };
	char tail[PF_ERR_TEXT] = "";

	snprintf(tail, sizeof(tail), "%s", text);
	PF_LOCK_SCOPE(&invocation->instance->lock);
	if (!invocation->instance->dead)
		settle_locked(invocation, &q, tail, (strlen(tail) + 8) / 8 * 8);
}

static void invocation_free(struct pf_invocation *invocation)
{
	pf_instance_unref(invocation->instance);
	free(invocation->args);
	free(invocation);
}

void pf_invocation_fail(struct pf_invocation *invocation, int code, const char *text)
{
	refuse(invocation, code, text);
	invocation_free(invocation);
}

static void answered(struct pf_call *call, int code, const struct pf_err *err,
		     const void *reply, size_t len)
{
	struct pf_invocation *invocation =
		pf_container_of(call, struct pf_invocation, answer);

	(void)code, (void)err, (void)reply, (void)len;
	invocation->drop(invocation->kept);
	invocation_free(invocation);
}

/* Add CALL of OP to those under way.  -EIO; -ENOMEM. */
static int add_call_locked(struct pf_instance *instance, struct pf_call *call,
			   uint32_t op)
{
	if (instance->dead)
		return -EIO;
	call->op = op;
	call->n_asked = 0;
	call->tag = ++instance->last_tag;
	call->began_s = atomic_load_explicit(&instance->seconds, memory_order_relaxed);
	call->mark = instance->last_mark = pf_plugin_log_mark(instance->log);
	return pf_map_put(&instance->calls, call->tag, call);
}

int pf_invocation_answer(struct pf_invocation *invocation, const uint64_t *offs,
			 void *kept, void (*drop)(void *kept))
{
	PF_CLEANUP(pf_instance_unrefp)
	struct pf_instance *instance = pf_instance_ref(invocation->instance);
	struct pf_req_answer q = { .n_results = invocation->n_results };
	int r;

	invocation->kept = kept;
	invocation->drop = drop;
	invocation->answer.done = answered;
	invocation->answer.reply_min = sizeof(struct pf_rep_head);
	pf_lock(&instance->lock);
	r = add_call_locked(instance, &invocation->answer, PF_OP_CALLBACK_ANSWER);
	if (r == 0) {
		q.head.tag = invocation->answer.tag;
		settle_locked(invocation, &q, offs, q.n_results * sizeof(*offs));
	}
	pf_unlock(&instance->lock);
	if (r == 0) /* the invocation is freed, or will be */
		return 0;
	if (r == -ENOMEM)
		refuse(invocation, PF_PJRT_RESOURCE_EXHAUSTED,
		       "no memory for the answer of a callback");
	answered(&invocation->answer, r, NULL, NULL, 0);
	return r;
}

/* Refuse PARSED, whose execution has ended or, if not, cannot be answered; INVOCATION NULL: no memory. */
static void refuse_unanswered(struct pf_invocation *parsed, bool ended,
			      const void *invocation)
{
	if (ended)
		refuse(parsed, PF_PJRT_FAILED_PRECONDITION,
		       "the execution that calls the host has ended");
	else if (invocation)
		refuse(parsed, PF_PJRT_FAILED_PRECONDITION,
		       "nothing answers the callbacks of this execution");
	else
		refuse(parsed, PF_PJRT_RESOURCE_EXHAUSTED, "no memory for a callback");
}

/* The execution that MESSAGE names calls the host.  False: it names another request, or is malformed. */
static bool ask_host(struct pf_instance *instance, const void *message, size_t len)
{
	struct pf_invocation parsed, *invocation;
	void (*asked)(void *held, struct pf_invocation *invocation) = NULL;
	struct pf_call *call = NULL;
	void *held = NULL;
	bool other = false;
	int r = pf_invocation_parse(instance, message, len, &parsed);

	if (r == -EPROTO)
		return false;
	parsed.instance = instance;
	invocation = r == 0 ? malloc(sizeof(*invocation)) : NULL;
	pf_lock(&instance->lock);
	if (parsed.tag)
		call = pf_map_get(&instance->calls, parsed.tag);
	other = call && call->op != PF_OP_EXECUTE;
	if (call && !other) {
		call->n_asked++;
		asked = call->asked;
		if (invocation && call->hold)
			held = call->hold(call);
	}
	pf_unlock(&instance->lock);
	if (held) {
		*invocation = parsed;
		pf_instance_ref(instance);
		asked(held, invocation);
		return true;
	}
	/* Also if the execution has ended: a thread of the plugin waits for the answer. */
	if (!other)
		refuse_unanswered(&parsed, !call, invocation);
	free(parsed.args);
	free(invocation);
	return !other;
}

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

	pf_err_set_lines(err, code, (const char *)(rep + 1), len - sizeof(*rep));
	err->pjrt_code = rep->pjrt_code;
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
		mark_broken(instance);
		return;
	}
	answering = (struct answering){ .instance = instance };
	if (head->op != PF_OP_CALLBACK || !ask_host(instance, message, len))
		answer_call(instance, message, len);
	if (answering.posted)
		pf_ring_wake(&instance->channel.request);
	answering = (struct answering){ NULL };
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
		mark_broken(instance);
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
	if (answering.instance)
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

/* --- requests ----------------------------------------------------------------------- */

static void send_deferred_locked(struct pf_instance *instance)
{
	while (instance->deferred_sent < instance->deferred.len) {
		const struct pf_msg_head *head =
			(const void *)(instance->deferred.data + instance->deferred_sent);
		int r = pf_ring_post(&instance->channel.request, head, head->len, NULL,
				     0);

		if (r == -EAGAIN)
			return;
		if (is_damage(r))
			break_locked(instance);
		instance->deferred_sent += head->len;
	}
	pf_buf_consume(&instance->deferred, instance->deferred_sent);
	instance->deferred_sent = 0;
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
		send_deferred_locked(instance);
		deferred = instance->deferred.len > 0;
		pf_unlock(&instance->lock);
	}
	if (atomic_load(&instance->broken))
		/* why does not change once dead */
		fail_calls(instance, &instance->why, false);
	return NULL;
}

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
		    : add_call_locked(instance, call, head->op);
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
	if (is_damage(r)) {
		mark_broken(instance);
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
	r = add_call_locked(instance, call, request->head.op);
	if (r == -EIO)
		return dead_error(instance, err);
	if (r == 0) {
		request->head.tag = call->tag;
		r = post_locked(instance, request, sizeof(*request), NULL, 0);
		if (r < 0)
			pf_map_remove(&instance->calls, call->tag);
	}
	return r < 0 ? pf_err_set(err, r, "no memory for a call of a worker") : 0;
}

static void post_free(struct pf_instance *instance, enum pf_op op, uint64_t id)
{
	struct pf_req_id req = { .head = { .op = op, .len = sizeof(req) }, .id = id };

	PF_LOCK_SCOPE(&instance->lock);
	/* Without memory the worker keeps the object. */
	if (!instance->dead)
		(void)post_locked(instance, &req, sizeof(req), NULL, 0);
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

uint64_t pf_instance_number(const struct pf_instance *instance)
{
	return instance->number;
}

bool pf_instance_alive(struct pf_instance *instance)
{
	PF_LOCK_SCOPE(&instance->lock);
	return !instance->dead;
}

bool pf_instance_serves(struct pf_instance *instance)
{
	return !atomic_load(&instance->leaves_at) && pf_instance_alive(instance);
}

bool pf_instance_was_stopped(const struct pf_instance *instance)
{
	return atomic_load(&instance->stopped);
}

const struct stat *pf_instance_plugin(const struct pf_instance *instance)
{
	return instance->plugin.st_ino ? &instance->plugin : NULL;
}

char *const *pf_instance_environ(const struct pf_instance *instance)
{
	return instance->env;
}

unsigned pf_instance_lost(struct pf_instance *instance, enum pf_op op)
{
	PF_LOCK_SCOPE(&instance->lock);
	return instance->lost[op];
}

/* --- start and end ------------------------------------------------------------------ */

static void instance_free(struct pf_instance *instance)
{
	pf_instance_forget_pool(instance);
	pf_channel_release(&instance->channel);
	pf_instance_unmap_pool(instance);
	pf_map_release(&instance->calls);
	pf_buf_release(&instance->deferred);
	pf_process_environ_free(instance->env);
	free(instance->alive);
	pthread_mutex_destroy(&instance->lock);
	free(instance->name);
	free(instance);
}

/* One reference, and nothing else yet.  NULL: no memory. */
static struct pf_instance *new_instance(const char *name, uint64_t number, int broken_fd)
{
	struct pf_instance *instance = calloc(1, sizeof(*instance));

	if (!instance)
		return NULL;
	if (pthread_mutex_init(&instance->lock, NULL))
		abort();
	atomic_init(&instance->refs, 1);
	instance->number = number;
	instance->broken_fd = broken_fd;
	instance->pool_fd = -1;
	instance->name = strdup(name);
	if (instance->name)
		return instance;
	instance_free(instance);
	return NULL;
}

int pf_instance_new(const char *name, int channel_fd, int pool_fd, uint64_t pool_size,
		    int broken_fd, const struct pf_worker_limits *limits,
		    struct pf_plugin_log *log, struct pf_instance **ret,
		    struct pf_err *err)
{
	struct pf_instance *instance =
		new_instance(name, pf_state_next(PF_STATE_COUNT_INSTANCE), broken_fd);
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
		instance_free(instance);
		return r;
	}
	pf_instance_keep_pool(instance, pool_fd);
	*ret = instance;
	return 0;
}

int pf_instance_of_pool(const char *name, int fd, struct pf_instance **ret,
			struct pf_err *err)
{
	struct pf_instance *instance;
	uint64_t number, size;
	int r;

	*ret = NULL;
	if (!pf_instance_find_pool(name, &number, &size))
		return 0;
	instance = new_instance("", number, -1);
	if (!instance)
		return pf_err_set(err, -ENOMEM, "no memory for %s", name);
	r = pf_instance_map_pool(instance, fd, size, err);
	if (r < 0) {
		instance_free(instance);
		return pf_err_wrap(err, r, "%s", name);
	}
	instance->joined = instance->dead = instance->kept = true;
	pf_err_set(&instance->why, -EIO, "its worker ended with an earlier daemon");
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
	refuse_more(instance, quoted);
	if (instance->joined)
		return;
	instance->joined = true;
	pthread_join(instance->thread, NULL);
	fail_calls(instance, why, true);
	pf_late_drop_all(instance);
	pf_instance_rest(instance);
}

PF_DEFINE_REF(struct pf_instance, pf_instance, instance_free)
