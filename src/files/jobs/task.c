/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks: each has one answer, of its end or of its timeout. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "files/internal.h"
#include "jobs.h"
#include "pjrtfs/json.h"
#include "pjrtfs/wait.h"

static void timed_out(struct pf_timer *timer);
static void withdraw(struct pf_timer *timer);
static void abandon(struct pf_timer *timer);

void task_init(struct task *t, const struct task_ops *ops, struct pf_node *file,
	       const struct pf_cred *cred)
{
	t->ops = ops;
	t->fs = fs_of(file);
	t->file = pf_node_ref(file);
	t->cred = *cred;
	t->timeout.fire = timed_out;
	t->withdraw.fire = withdraw;
	t->abandon.fire = abandon;
	atomic_init(&t->refs, 1);
	if (pthread_mutex_init(&t->lock, NULL))
		abort();
}

int task_set_id(struct task *t, struct json_object *o, struct pf_err *err)
{
	struct json_object *id;

	if (!json_object_object_get_ex(o, "id", &id) || !id)
		return 0;
	PF_LOCK_SCOPE(&t->lock);
	t->id = pf_json_text_copy(id);
	return t->id ? 0 : pf_err_set(err, -ENOMEM, "no memory for a command");
}

static void task_free(struct task *t)
{
	free(t->id);
	pf_worker_unref(t->worker);
	pf_executable_unref(t->compiling);
	pf_node_unref(t->file);
	pthread_mutex_destroy(&t->lock);
	task_unref(t->whole);
	t->ops->free(t);
}

PF_DEFINE_REF(struct task, task, task_free)

/* Have REPLY repeat the command's "id". */
static void add_id(struct task *t, struct json_object *reply)
{
	struct pf_json_reader rd = { .first = SIZE_MAX };
	struct json_object *id;

	if (!t->id)
		return;
	rd.start = rd.p = t->id;
	rd.end = t->id + strlen(t->id);
	(void)pf_json_value(&rd, &id); /* without memory: NULL, and REPLY is incomplete */
	pf_json_add(reply, "id", id);
}

/* Answer T unless it was answered. */
static void answer(struct task *t, const struct pf_err *err, struct json_object *reply)
{
	struct pf_err incomplete = PF_ERR_INIT;
	bool first;

	pf_turn_linger();
	pf_lock(&t->lock);
	first = t->end == TASK_UNDER_WAY;
	if (first)
		t->end = TASK_ANSWERED;
	pf_unlock(&t->lock);
	if (!first) {
		json_object_put(reply);
		return;
	}
	add_id(t, reply);
	if (!pf_json_complete(reply)) {
		json_object_put(reply);
		pf_err_set(&incomplete, -ENOMEM,
			   "%s, but there is no memory for the reply",
			   err ? "it failed" : "done");
		err = &incomplete;
		reply = reply_failure(err);
		add_id(t, reply);
	}
	t->ops->answer(t, err, reply);
}

static void arm(struct task *t, struct pf_timer *timer, uint64_t ms)
{
	task_ref(t);
	if (pf_timer_arm(t->fs->timers, timer, ms) < 0)
		task_unref(t);
}

static void disarm(struct task *t, struct pf_timer *timer)
{
	if (pf_timer_disarm(t->fs->timers, timer))
		task_unref(t);
}

/* T is over, and its client is gone: the later of the two calls this. */
static void disarm_gone(struct task *t)
{
	disarm(t, &t->withdraw);
	disarm(t, &t->abandon);
}

void task_done(struct task *t, const struct pf_err *err, struct json_object *reply)
{
	disarm(t, &t->timeout);
	answer(t, err, reply);
	atomic_store(&t->end, TASK_OVER);
	if (atomic_load(&t->client_gone))
		disarm_gone(t);
	task_unref(t);
}

struct pf_worker *task_give_up_compile(struct task *t)
{
	PF_CLEANUP(pf_executable_unrefp) struct pf_executable *compiling = NULL;
	PF_CLEANUP(pf_worker_unrefp) struct pf_worker *worker = NULL;

	pf_lock(&t->lock);
	if (t->worker)
		worker = pf_worker_ref(t->worker);
	if (t->compiling)
		compiling = pf_executable_ref(t->compiling);
	pf_unlock(&t->lock);
	return !compiling || pf_executable_abandon(compiling) ? pf_steal(&worker) : NULL;
}

char *task_id(struct task *t)
{
	PF_LOCK_SCOPE(&t->lock);
	return t->id ? strdup(t->id) : NULL;
}

void task_fail(struct task *t, const struct pf_err *err)
{
	pf_autofree char *id = task_id(t);
	pf_autobuf struct pf_buf file = PF_BUF_INIT;

	pf_node_path(t->file, NULL, &file);
	files_report_failed(t->fs, file.data ? file.data : "", t->cred.uid, id, err);
	task_done(t, err, reply_failure(err));
}

bool task_cancelled(struct task *t)
{
	PF_LOCK_SCOPE(&t->lock);
	return t->end != TASK_UNDER_WAY || t->ops->cancelled(t);
}

bool task_answered(struct task *t)
{
	return atomic_load(&t->end) != TASK_UNDER_WAY;
}

/* The outermost task of which T is a step, or T. */
static struct task *whole_of(struct task *t)
{
	while (t->whole)
		t = t->whole;
	return t;
}

void task_executes(struct task *t, struct pf_execution *e, struct pf_worker *worker)
{
	task_runs_at(t, worker, NULL);
	for (; t; t = t->whole) {
		PF_LOCK_SCOPE(&t->lock);
		t->execution = e;
	}
}

void task_runs_at(struct task *t, struct pf_worker *worker,
		  struct pf_executable *compiling)
{
	PF_CLEANUP(pf_executable_unrefp) struct pf_executable *compiled = NULL;
	PF_CLEANUP(pf_worker_unrefp) struct pf_worker *before = NULL;

	t = whole_of(t);
	PF_LOCK_SCOPE(&t->lock);
	compiled = t->compiling;
	before = t->worker;
	t->worker = worker ? pf_worker_ref(worker) : NULL;
	t->compiling = compiling ? pf_executable_ref(compiling) : NULL;
}

void task_began(struct task *t)
{
	t = whole_of(t);
	if (t->ops->began)
		t->ops->began(t);
}

/* --- waiting ------------------------------------------------------------------------ */

void task_wait_begin(struct task_wait *wait)
{
	struct task *t = whole_of(wait->task);

	PF_LOCK_SCOPE(&t->lock);
	t->wait = wait;
}

void task_wait_end(struct task *t)
{
	t = whole_of(t);
	PF_LOCK_SCOPE(&t->lock);
	t->wait = NULL;
}

/* An operation that waited, and was taken out of its queue: the caller ends it. */
struct taken {
	struct pf_execution *execution; /* or NULL */
	struct task_wait *wait;         /* or NULL */
};

/* Take out WHOLE's wait if it is T's, or T is the whole.  Its lock is held. */
static struct task_wait *take_wait_locked(struct task *whole, const struct task *t)
{
	struct task_wait *p = whole->wait;

	if (!p || (t != whole && p->task != t) || !p->leave(p))
		return NULL;
	return pf_steal(&whole->wait);
}

/* Take T, or its step, out of the queue that it waits in. */
static struct taken take_out(struct task *t)
{
	struct taken taken = { NULL, NULL };
	struct task *whole = whole_of(t);

	PF_LOCK_SCOPE(&whole->lock);
	if (t == whole && t->execution && pf_execution_dequeue(t->execution))
		taken.execution = t->execution;
	else
		taken.wait = take_wait_locked(whole, t);
	return taken;
}

/* TAKEN is cancelled. */
static void end_taken(struct taken taken)
{
	if (taken.execution)
		pf_execution_resume(taken.execution);
	if (taken.wait)
		taken.wait->cancelled(taken.wait);
}

void task_leave_queue(struct task *t)
{
	end_taken(take_out(t));
}

void task_wait_check(struct task *t)
{
	struct taken taken = { NULL, NULL };
	struct task *whole = whole_of(t);

	if (!task_cancelled(t))
		return;
	/* Another step that waits by now checks by itself. */
	pf_lock(&whole->lock);
	taken.wait = take_wait_locked(whole, t);
	pf_unlock(&whole->lock);
	end_taken(taken);
}

unsigned task_position(struct task *t)
{
	PF_LOCK_SCOPE(&t->lock);
	return t->execution ? pf_execution_position(t->execution) : 0;
}

/* T is cancelled: the callbacks of the program that it executes fail. */
static void cancel_calls(struct task *t)
{
	struct pf_execution *e;

	pf_lock(&t->lock);
	e = t->execution ? pf_execution_ref(t->execution) : NULL;
	pf_unlock(&t->lock);
	if (!e)
		return;
	pf_execution_cancel_calls(e);
	pf_execution_unref(e);
}

static enum pf_stage stage_of(struct task *t)
{
	PF_LOCK_SCOPE(&t->lock);
	return t->execution ? pf_execution_shown_stage(t->execution) : PF_STAGE_NONE;
}

static void timed_out(struct pf_timer *timer)
{
	struct task *t = pf_container_of(timer, struct task, timeout);
	struct pf_err err = PF_ERR_INIT;
	enum pf_stage stage = stage_of(t);
	struct taken taken =
		take_out(t); /* a step's execution is dropped when it gets its slot */
	const char *at_timeout = t->at_timeout;

	if (taken.execution)
		at_timeout = "it waited for a slot of the device, and does not begin";
	else if (taken.wait)
		at_timeout = taken.wait->meanwhile;
	pf_err_set(&err, -ETIMEDOUT, "it did not end within %" PRIu64 " ms; %s",
		   t->timeout_ms, at_timeout);
	pf_stage_blame(stage, &err);
	answer(t, &err, reply_failure(&err));
	end_taken(taken);
	cancel_calls(t);
	if (!t->whole)
		task_client_gone(t);
	task_unref(t);
}

/* --- the client is gone ------------------------------------------------------------- */

/* A queued execution is not sent once it is cancelled, so one that runs now has had its slot since
 * before T's client was gone. */
static void abandon(struct pf_timer *timer)
{
	struct task *t = pf_container_of(timer, struct task, abandon);
	pf_autofree char *name = NULL, *id = task_id(t);
	PF_CLEANUP(pf_worker_unrefp) struct pf_worker *worker = NULL;

	pf_lock(&t->lock);
	if (t->execution && t->worker && pf_execution_has_slot(t->execution)) {
		worker = pf_worker_ref(t->worker);
		name = strdup(t->execution->name);
	}
	pf_unlock(&t->lock);
	if (worker)
		files_abandon(t->fs, worker, name ? name : "", t->cred.uid, id);
	task_unref(t);
}

static void withdraw(struct pf_timer *timer)
{
	struct task *t = pf_container_of(timer, struct task, withdraw);

	task_leave_queue(t);
	pf_lock(&t->lock);
	if (t->execution)
		pf_execution_left(t->execution);
	pf_unlock(&t->lock);
	cancel_calls(t);
	task_unref(t);
}

void task_client_gone(struct task *t)
{
	if (atomic_exchange(&t->client_gone, true))
		return;
	arm(t, &t->withdraw, 0); /* a lock may be held */
	if (t->fs->config.abandoned_ms)
		arm(t, &t->abandon, t->fs->config.abandoned_ms);
	if (atomic_load(&t->end) == TASK_OVER)
		disarm_gone(t);
}

int task_set_timeout(struct task *t, uint64_t ms, const char *at_timeout,
		     struct pf_err *err)
{
	int r;

	t->timeout_ms = ms;
	t->at_timeout = at_timeout;
	task_ref(t);
	r = pf_timer_arm(t->fs->timers, &t->timeout, ms);
	if (r == 0)
		return 0;
	task_unref(t);
	return pf_err_set(err, r, "no thread for timeouts could be started");
}

struct json_object *reply_new(void)
{
	struct json_object *o = json_object_new_object();

	pf_json_add(o, "ok", json_object_new_boolean(true));
	return o;
}

struct json_object *reply_error(const struct pf_err *err)
{
	struct json_object *e = json_object_new_object(), *payloads;

	pf_json_add_string(e, "errno", pf_errno_name(err->code));
	pf_json_add_string(e, "code", pf_pjrt_code_name(err->pjrt_code, err->code));
	if (*err->payloads &&
	    pf_json_parse(err->payloads, strlen(err->payloads), &payloads, NULL) == 0)
		pf_json_add(e, "payloads", payloads);
	pf_json_add_string(e, "message", err->text);
	return e;
}

struct json_object *reply_failure(const struct pf_err *err)
{
	struct json_object *o = json_object_new_object();

	pf_json_add(o, "ok", json_object_new_boolean(false));
	pf_json_add(o, "error", reply_error(err));
	return o;
}
