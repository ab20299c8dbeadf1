/* SPDX-License-Identifier: Apache-2.0 */
/* The queues of callbacks: invocations that wait for hosts, and hosts that wait for them. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/array_files.h"
#include "pjrtfs/callback_host.h"

/* An invocation that was not answered yet. */
struct pf_asked {
	TAILQ_ENTRY(pf_asked) entry;
	struct pf_invocation *invocation; /* owned */
	struct pf_execution *execution;   /* owned reference */
	struct pf_callback_host *host;    /* borrowed: that has it; NULL: it waits */
	uint64_t charged;                 /* bytes of the arguments */
	struct pf_sched *sched; /* borrowed: where the execution has slots; or NULL */
	struct pf_sched_request slot; /* a copy */
	int64_t asked_ms;             /* pf_now_ms of its beginning, */
	int64_t alone_ms; /* and of the time from which on no host was there */
	int code;         /* once it is to fail: enum pf_pjrt_code, and why */
	const char *why;
};

/* Invocations to be ended without the lock. */
TAILQ_HEAD(asked_list, pf_asked);

/* --- the end of an invocation --------------------------------------------------------- */

static void host_free(struct pf_callback_host *host)
{
	host->ops->free(host);
}

PF_DEFINE_REF(struct pf_callback_host, pf_callback_host, host_free)

void pf_callback_host_notify(struct pf_callback_host *host)
{
	if (host)
		host->ops->given(host);
	pf_callback_host_unref(host);
}

/* Free A, whose invocation has ended. */
static void asked_free(struct pf_asked *a)
{
	if (a->sched)
		pf_sched_wait(a->sched, &a->slot, -1);
	if (a->charged)
		pf_memory_discharge(a->execution->executable->arena,
				    a->execution->account, a->charged);
	pf_execution_unref(a->execution);
	free(a);
}

/* Append the file of callback INDEX of X, as sentences have it. */
static void print_path(struct pf_executable *x, uint64_t index, struct pf_buf *out)
{
	struct pf_telemetry *telemetry = pf_worker_telemetry(pf_executable_worker(x));
	uid_t user;

	if (pf_telemetry_name(telemetry, x->subject, out, &user))
		pf_buf_printf(out, "/callbacks/%" PRIu64, index);
	else
		pf_buf_printf(out, "callback %" PRIu64, index);
}

/* Fail the invocations of LIST, as their code and why say. */
static void fail_all(struct asked_list *list)
{
	struct pf_asked *a;

	while ((a = TAILQ_FIRST(list))) {
		pf_autobuf struct pf_buf path = PF_BUF_INIT;
		struct pf_err err = PF_ERR_INIT;

		TAILQ_REMOVE(list, a, entry);
		print_path(a->execution->executable, a->invocation->index, &path);
		pf_err_set(&err, -EIO, "%s: %s", path.data ? path.data : "a callback",
			   a->why);
		if (a->host)
			a->host->ops->ended(a->host, a->invocation, err.text);
		pf_callback_host_unref(a->host);
		pf_invocation_fail(a->invocation, a->code, err.text);
		asked_free(a);
	}
}

/* Take A, which is to fail, off the queue and its host: onto LIST. */
static void give_up_locked(struct pf_callback_queue *c, struct pf_asked *a, int code,
			   const char *why, struct asked_list *list)
{
	TAILQ_REMOVE(&c->asked, a, entry);
	c->n_asked--;
	a->code = code;
	a->why = why;
	if (a->host) {
		pf_callback_host_ref(a->host)->asked = NULL;
		a->host->begun = false;
	}
	TAILQ_INSERT_TAIL(list, a, entry);
}

enum { REPORT_ELEMENTS = 256, REPORT_TEXT = 4096 }; /* of each argument; bytes */

static void none(void *kept)
{
	(void)kept;
}

/* No host is there, and the program does not wait for one (debug.print): answer A, and report it. */
static void report_and_answer(struct pf_asked *a)
{
	struct pf_executable *x = a->execution->executable;
	const struct pf_invocation *i = a->invocation;
	pf_autobuf struct pf_buf text = PF_BUF_INIT;

	for (uint32_t n = 0; n < i->n_args && text.len < REPORT_TEXT; n++) {
		uint64_t at = 0;

		if (n)
			pf_buf_puts(&text, "\t");
		if (pf_text_print_line(&text, i->args[n].dtype, &i->args[n].shape,
				       i->args[n].data, &at, REPORT_ELEMENTS))
			pf_buf_puts(&text, "...");
	}
	pf_report_callback(pf_worker_telemetry(pf_executable_worker(x)), x->subject,
			   a->execution->uid, i->index, text.data ? text.data : "");
	pf_invocation_answer(a->invocation, NULL, NULL, none);
	asked_free(a);
}

/* --- time ----------------------------------------------------------------------------- */

static bool has_host(const struct pf_callback_queue *c, uint64_t index)
{
	const struct pf_callback_host *host;

	TAILQ_FOREACH(host, &c->hosts, entry)
		if (host->index == index)
			return true;
	return false;
}

/* When A fails because it was not answered, and because no host is there; INT64_MAX: never. */
static int64_t late_ms(const struct pf_asked *a)
{
	unsigned s = pf_instance_execute_s(a->invocation->instance);

	return s ? a->asked_ms + (int64_t)s * 1000 : INT64_MAX;
}

static int64_t alone_until_ms(const struct pf_callback_queue *c, const struct pf_asked *a)
{
	return a->host || has_host(c, a->invocation->index)
		       ? INT64_MAX
		       : a->alone_ms + PF_CALLBACK_GRACE_MS;
}

static void due(struct pf_timer *timer);

/*
 * Have the timer fire when the first invocation is due.  True: the caller, without the lock, drops
 * a reference on X.
 */
__attribute__((__warn_unused_result__)) static bool schedule_locked(
	struct pf_executable *x)
{
	struct pf_callback_queue *c = &x->callbacks;
	const struct pf_asked *a;
	int64_t first = INT64_MAX, now;
	bool drop = false;

	TAILQ_FOREACH(a, &c->asked, entry) {
		first = late_ms(a) < first ? late_ms(a) : first;
		first = alone_until_ms(c, a) < first ? alone_until_ms(c, a) : first;
	}
	/* A timer that fires too early looks again; one that fires now does so in any case. */
	if (c->armed && (first == INT64_MAX || first < c->due_ms)) {
		if (!pf_timer_disarm(x->timers, &c->timer))
			return false;
		c->armed = false;
		drop = true;
	}
	if (c->armed || first == INT64_MAX)
		return drop;
	now = pf_now_ms();
	c->due_ms = first;
	c->timer.fire = due;
	if (pf_timer_arm(x->timers, &c->timer,
			 first > now ? (uint64_t)(first - now) : 0) < 0)
		return drop; /* no thread: the invocation waits */
	c->armed = true;
	if (!drop)
		pf_executable_ref(x);
	return false;
}

/*
 * Give back the queue's lock, with the timer set anew.  Then call HOST, which has an invocation now, and
 * fail those of FAILED; both may be missing.
 */
static void settle_unlock(struct pf_executable *x, struct pf_callback_host *host,
			  struct asked_list *failed)
{
	bool drop = schedule_locked(x);

	pf_unlock(&x->callbacks.lock);
	pf_callback_host_notify(host);
	if (failed)
		fail_all(failed);
	if (drop)
		pf_executable_unref(x);
}

static void due(struct pf_timer *timer)
{
	struct pf_executable *x =
		pf_container_of(timer, struct pf_executable, callbacks.timer);
	struct pf_callback_queue *c = &x->callbacks;
	struct asked_list failed = TAILQ_HEAD_INITIALIZER(failed);
	struct pf_asked *a, *next;
	int64_t now = pf_now_ms();

	pf_lock(&c->lock);
	c->armed = false;
	for (a = TAILQ_FIRST(&c->asked); a; a = next) {
		next = TAILQ_NEXT(a, entry);
		if (late_ms(a) <= now)
			give_up_locked(c, a, PF_PJRT_DEADLINE_EXCEEDED,
				       "no process has answered within the seconds of "
				       "--execute-timeout",
				       &failed);
		else if (alone_until_ms(c, a) <= now)
			give_up_locked(c, a, PF_PJRT_FAILED_PRECONDITION,
				       "the program calls it, and no process has it open",
				       &failed);
	}
	settle_unlock(x, NULL, &failed);
	pf_executable_unref(x);
}

/* --- invocations ---------------------------------------------------------------------- */

/*
 * Give A to the first host that waits: that host, with a reference; the caller, without the lock,
 * calls pf_callback_host_notify.  NULL: A waits for one.
 */
static struct pf_callback_host *give_locked(struct pf_callback_queue *c,
					    struct pf_asked *a)
{
	struct pf_callback_host *host;

	TAILQ_FOREACH(host, &c->hosts, entry) {
		if (host->index != a->invocation->index || host->asked)
			continue;
		if (host->waits) {
			host->waits = false;
			host->asked = a;
			a->host = host;
			return pf_callback_host_ref(host);
		}
		host->ops->ready(host);
	}
	return NULL;
}

/* Charge E's account for the arguments of INVOCATION: an asked one; NULL, and *ERR. */
static struct pf_asked *asked_new(struct pf_execution *e,
				  struct pf_invocation *invocation, struct pf_err *err)
{
	struct pf_asked *a = calloc(1, sizeof(*a));
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < invocation->n_args; i++)
		bytes += invocation->args[i].len;
	if (!a) {
		pf_err_set(err, -ENOMEM, "no memory for an invocation");
		return NULL;
	}
	if (bytes && pf_memory_charge(e->executable->arena, e->account,
				      pf_pool_bytes(bytes), err) < 0) {
		free(a);
		return NULL;
	}
	a->charged = bytes ? pf_pool_bytes(bytes) : 0;
	a->invocation = invocation;
	a->execution = e;
	a->asked_ms = a->alone_ms = pf_now_ms();
	a->slot = e->slot;
	a->sched = atomic_load(&e->sched);
	if (a->sched)
		pf_sched_wait(a->sched, &a->slot, 1);
	return a;
}

static void *hold(struct pf_call *call)
{
	return pf_execution_ref(pf_container_of(call, struct pf_execution, call));
}

static void asked(void *held, struct pf_invocation *invocation)
{
	struct pf_execution *e = held;
	struct pf_executable *x = e->executable;
	struct pf_callback_queue *c = &x->callbacks;
	struct asked_list failed = TAILQ_HEAD_INITIALIZER(failed);
	struct pf_callback_host *host = NULL;
	struct pf_err err = PF_ERR_INIT;
	struct pf_asked *a = asked_new(e, invocation, &err);
	bool alone;

	if (!a) {
		pf_invocation_fail(invocation, PF_PJRT_RESOURCE_EXHAUSTED, err.text);
		pf_execution_unref(e);
		return;
	}
	pf_lock(&c->lock);
	alone = !invocation->n_results && !invocation->ordered && !e->calls_end &&
		!has_host(c, invocation->index);
	if (!alone) {
		TAILQ_INSERT_TAIL(&c->asked, a, entry);
		c->n_asked++;
		if (e->calls_end)
			give_up_locked(c, a, PF_PJRT_CANCELLED,
				       "the execution is cancelled", &failed);
		else if (c->n_asked > PF_CALLBACK_WAITING)
			give_up_locked(c, a, PF_PJRT_RESOURCE_EXHAUSTED,
				       "too many invocations wait already", &failed);
		else
			host = give_locked(c, a);
	}
	settle_unlock(x, host, &failed);
	if (alone)
		report_and_answer(a);
}

void pf_callbacks_serve(struct pf_execution *e)
{
	e->call.hold = hold;
	e->call.asked = asked;
}

void pf_execution_cancel_calls(struct pf_execution *e)
{
	struct pf_executable *x = e->executable;
	struct pf_callback_queue *c = &x->callbacks;
	struct asked_list failed = TAILQ_HEAD_INITIALIZER(failed);
	struct pf_asked *a, *next;

	pf_lock(&c->lock);
	e->calls_end = true;
	for (a = TAILQ_FIRST(&c->asked); a; a = next) {
		next = TAILQ_NEXT(a, entry);
		if (a->execution == e)
			give_up_locked(c, a, PF_PJRT_CANCELLED,
				       "the execution that called it has ended, or is "
				       "cancelled",
				       &failed);
	}
	settle_unlock(x, NULL, &failed);
}

/* --- hosts ---------------------------------------------------------------------------- */

void pf_callback_host_join(struct pf_callback_host *host)
{
	struct pf_callback_queue *c = &host->executable->callbacks;

	atomic_init(&host->refs, 2);
	PF_LOCK_SCOPE(&c->lock);
	TAILQ_INSERT_TAIL(&c->hosts, host, entry);
}

/* HOST returns what it has: to be taken by another one, which is returned as by give_locked. */
static struct pf_callback_host *put_back_locked(struct pf_callback_queue *c,
						struct pf_callback_host *host)
{
	struct pf_asked *a = pf_steal(&host->asked);

	if (!a)
		return NULL;
	a->host = NULL;
	return give_locked(c, a);
}

void pf_callback_host_leave(struct pf_callback_host *host)
{
	struct pf_executable *x = host->executable;
	struct pf_callback_queue *c = &x->callbacks;
	struct asked_list failed = TAILQ_HEAD_INITIALIZER(failed);
	struct pf_callback_host *other = NULL;
	struct pf_asked *a;

	pf_lock(&c->lock);
	TAILQ_REMOVE(&c->hosts, host, entry);
	if (host->asked && host->begun)
		give_up_locked(c, host->asked, PF_PJRT_ABORTED,
			       "the process that read its request closed it without an "
			       "answer",
			       &failed);
	else
		other = put_back_locked(c, host);
	if (!has_host(c, host->index))
		TAILQ_FOREACH(a, &c->asked, entry)
			if (a->invocation->index == host->index)
				a->alone_ms = pf_now_ms();
	settle_unlock(x, other, &failed);
	pf_callback_host_unref(host);
}

/* The oldest invocation that HOST could take, or NULL. */
static struct pf_asked *find_locked(const struct pf_callback_host *host)
{
	struct pf_asked *a;

	TAILQ_FOREACH(a, &host->executable->callbacks.asked, entry)
		if (!a->host && a->invocation->index == host->index)
			return a;
	return NULL;
}

const struct pf_invocation *pf_callback_host_take(struct pf_callback_host *host)
{
	struct pf_callback_queue *c = &host->executable->callbacks;

	PF_LOCK_SCOPE(&c->lock);
	if (!host->asked && (host->asked = find_locked(host))) {
		host->asked->host = host;
		host->begun = false;
	}
	if (!host->asked && !host->waits) {
		TAILQ_REMOVE(&c->hosts, host, entry);
		TAILQ_INSERT_TAIL(&c->hosts, host, entry);
	}
	host->waits = !host->asked;
	return host->asked ? host->asked->invocation : NULL;
}

void pf_callback_host_begin(struct pf_callback_host *host)
{
	PF_LOCK_SCOPE(&host->executable->callbacks.lock);
	host->begun = host->asked;
}

struct pf_callback_host *pf_callback_host_stop(struct pf_callback_host *host)
{
	struct pf_callback_queue *c = &host->executable->callbacks;

	PF_LOCK_SCOPE(&c->lock);
	host->waits = false;
	return host->begun ? NULL : put_back_locked(c, host);
}

bool pf_callback_host_ready(struct pf_callback_host *host)
{
	PF_LOCK_SCOPE(&host->executable->callbacks.lock);
	return host->asked || find_locked(host);
}

/* Take what HOST has off the queue; NULL: it has ended. */
static struct pf_asked *finish(struct pf_callback_host *host, struct pf_err *err)
{
	struct pf_executable *x = host->executable;
	struct pf_callback_queue *c = &x->callbacks;
	struct pf_asked *a;

	pf_lock(&c->lock);
	a = pf_steal(&host->asked);
	host->begun = false;
	if (a) {
		TAILQ_REMOVE(&c->asked, a, entry);
		c->n_asked--;
	}
	settle_unlock(x, NULL, NULL);
	if (!a)
		pf_err_set(err, -EIO, "the execution that called has ended");
	return a;
}

int pf_callback_host_answer(struct pf_callback_host *host, const uint64_t *offs,
			    struct pf_bytes *bytes, struct pf_err *err)
{
	struct pf_asked *a = finish(host, err);
	int r;

	if (!a)
		return -EIO;
	r = bytes ? pf_invocation_answer(a->invocation, offs, pf_bytes_ref(bytes),
					 pf_bytes_drop)
		  : pf_invocation_answer(a->invocation, NULL, NULL, none);
	asked_free(a);
	if (r == -EIO)
		return pf_err_set(err, r,
				  "the worker that executes the program has ended");
	return r < 0 ? pf_err_set(err, r, "no memory for an answer") : 0;
}

int pf_callback_host_fail(struct pf_callback_host *host, int code, const char *text,
			  struct pf_err *err)
{
	struct pf_asked *a = finish(host, err);

	if (!a)
		return -EIO;
	pf_invocation_fail(a->invocation, code, text);
	asked_free(a);
	return 0;
}
