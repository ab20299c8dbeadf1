/* SPDX-License-Identifier: Apache-2.0 */
/* jobs/: asynchronous commands, and how they ended. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"
#include "pjrtfs/state.h"

enum {
	MAX_ALL = 100000, /* that have not ended; more are EAGAIN */
	MAX_ENDED = 1000, /* that have ended; older ones are forgotten */
	JOB_HEAP = 4096,  /* bytes that one takes beside its request */
};

/* Counted: its directory, its running task and the waits for its end hold references. */
struct job {
	struct task task; /* its references count the job's, too */
	uint64_t number;
	struct pf_account *account;   /* borrowed: of its user */
	struct pf_file_charge charge; /* for its request and its directory */
	struct pf_node *node;         /* owned reference, as long as it is listed */
	char *request;                /* owned */
	struct timespec started;

	/* Under the lock of struct jobs: */
	/* Queued: its program is being compiled, or it waits for a slot of its device. */
	enum pf_report_job state;
	bool cancel, force;
	struct json_object *result; /* owned, once it has ended */
	struct timespec ended;
	struct pf_wait *waiters;
	STAILQ_ENTRY(job) next; /* of those that have ended */
	struct job *awaits;     /* whose end it waits for; borrowed, or NULL */
};

/* All jobs. */
struct jobs {
	struct pf_node *dir;  /* owned reference */
	pthread_mutex_t lock; /* rank 5; protects the jobs, and the fields below */
	unsigned n_open;      /* that have not ended */
	unsigned n_ended;
	STAILQ_HEAD(, job) ended; /* by age, the oldest first; each a reference */
};

static struct job *job_ref(struct job *job)
{
	task_ref(&job->task);
	return job;
}

static void job_unref(struct job *job)
{
	if (job)
		task_unref(&job->task);
}

PF_DEFINE_CLEANUP(struct job *, job_unref)

static struct jobs *jobs_of(const struct job *job)
{
	return job->task.fs->jobs;
}

static bool has_ended(enum pf_report_job state)
{
	return state > PF_REPORT_JOB_STARTED;
}

static enum pf_report_job state_of(struct job *job)
{
	PF_LOCK_SCOPE(&jobs_of(job)->lock);
	return job->state;
}

/* --- in the journal ----------------------------------------------------------------- */

/* The payload of PF_STATE_OBJECT; the request and the result, JSON or "", follow, each with its
 * NUL. */
struct job_record {
	uint64_t number;
	struct timespec started, ended;
	uint32_t state, uid, gid, unused;
};

/* Its directory is made, or its state has changed. */
static void job_save(struct job *job)
{
	const struct job_record r = { .number = job->number,
				      .started = job->started,
				      .ended = job->ended,
				      .state = job->state,
				      .uid = job->task.cred.uid,
				      .gid = job->task.cred.gid };
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	const char *result;

	if (!pf_state_on() || !job->node)
		return;
	result = job->result ? pf_json_text(job->result) : "";
	pf_buf_append(&text, job->request, strlen(job->request) + 1);
	pf_buf_append(&text, result, strlen(result) + 1);
	if (!text.failed)
		pf_state_put(PF_STATE_OBJECT, job->node->ino, &r, sizeof(r), text.data,
			     text.len);
}

/* --- how many there are ------------------------------------------------------------- */

/* One more, JOB.  -EAGAIN: all users have too many; -EDQUOT. */
static int count_locked(struct jobs *jobs, const struct job *job, struct pf_err *err)
{
	int r;

	if (jobs->n_open >= MAX_ALL)
		return pf_err_set(err, -EAGAIN, "%d jobs of all users are under way",
				  MAX_ALL);
	r = pf_account_charge(job->account, PF_JOBS, 1, err);
	jobs->n_open += r == 0;
	return r;
}

static void uncount_locked(struct jobs *jobs, const struct job *job)
{
	jobs->n_open--;
	pf_account_discharge(job->account, PF_JOBS, 1);
}

static const char *const state_names[] = { "queued", "running", "done", "failed",
					   "cancelled" };

static struct job *job_of(struct task *task)
{
	return pf_container_of(task, struct job, task);
}

static void job_free(struct task *task)
{
	struct job *job = job_of(task);

	pf_file_discharge(&job->charge);
	json_object_put(job->result);
	free(job->request);
	free(job);
}

static bool job_cancelled(struct task *task)
{
	struct job *job = job_of(task);

	PF_LOCK_SCOPE(&jobs_of(job)->lock);
	return job->cancel;
}

/* --- history ------------------------------------------------------------------------ */

/* JOB has ended: it is the newest of those remembered.  The oldest, which is to be forgotten, or
 * NULL. */
static struct job *remember_locked(struct jobs *jobs, struct job *job)
{
	struct job *old = NULL;

	job_ref(job);
	STAILQ_INSERT_TAIL(&jobs->ended, job, next);
	if (++jobs->n_ended > MAX_ENDED) {
		old = STAILQ_FIRST(&jobs->ended);
		STAILQ_REMOVE_HEAD(&jobs->ended, next);
		jobs->n_ended--;
	}
	return old;
}

/* Unlink the directory of JOB, whose node holds a reference on JOB, and drop the list's. */
static void forget(struct job *job)
{
	struct pf_node *node = pf_steal(&job->node);

	if (node)
		pf_dir_unlink(node);
	pf_node_unref(node);
	job_unref(job);
}

/* Report JOB's state, with ERR if it failed.  The lock keeps the events before its end in order. */
static void report(struct job *job, double seconds, const struct pf_err *err)
{
	/* Without the task's lock: the id of a job does not change. */
	pf_report_job(job->task.fs->config.telemetry, job->state, job->number,
		      job->task.cred.uid, NULL, job->task.id, seconds, err);
}

static void job_began(struct task *task)
{
	struct job *job = job_of(task);
	bool first;

	pf_lock(&jobs_of(job)->lock);
	first = job->state == PF_REPORT_JOB_QUEUED;
	if (first) {
		job->state = PF_REPORT_JOB_STARTED;
		job_save(job);
		report(job, 0, NULL);
	}
	pf_unlock(&jobs_of(job)->lock);
	if (first && job->node)
		pf_node_changed(job->node, false);
}

/* "cancel" with force ended the worker, so that the job failed: it was cancelled. */
static void forced(struct json_object *reply, struct pf_err *err)
{
	pf_err_set(err, -ECANCELED, "cancelled: its worker was ended");
	pf_json_add(reply, "error", reply_error(err));
}

static void job_answer(struct task *task, const struct pf_err *err,
		       struct json_object *reply)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *state = NULL;
	struct job *job = job_of(task), *old;
	struct jobs *jobs = jobs_of(job);
	struct pf_err cancelled = PF_ERR_INIT;
	struct pf_wait *waiters;

	if (!err)
		job_began(task); /* an op that ends at once does not call it */
	pf_lock(&jobs->lock);
	if (job->force && err && err->code == -EIO) {
		forced(reply, &cancelled);
		err = &cancelled;
	}
	job->state = !err                      ? PF_REPORT_JOB_FINISHED
		     : err->code == -ECANCELED ? PF_REPORT_JOB_CANCELLED
					       : PF_REPORT_JOB_FAILED;
	job->result = reply;
	clock_gettime(CLOCK_REALTIME, &job->ended);
	job_save(job);
	waiters = pf_steal(&job->waiters);
	node = job->node ? pf_node_ref(job->node) : NULL;
	uncount_locked(jobs, job);
	old = remember_locked(jobs, job);
	pf_unlock(&jobs->lock);
	if (old)
		forget(old);
	state = node ? pf_dir_lookup(node, "state") : NULL;
	if (state) {
		pf_node_changed(node, false);
		pf_node_ready(state);
	}
	report(job, pf_seconds_since(CLOCK_REALTIME, &job->started), err);
	pf_wake_all(waiters);
}

static const struct task_ops job_ops = { .cancelled = job_cancelled,
					 .answer = job_answer,
					 .began = job_began,
					 .free = job_free };

/* The job that TASK is, or is a step of, or NULL; borrowed. */
static struct job *job_of_step(struct task *task)
{
	while (task->whole)
		task = task->whole;
	return task->ops == &job_ops ? job_of(task) : NULL;
}

/* --- its directory ------------------------------------------------------------------ */

static int state_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)err;
	pf_buf_printf(out, "%s\n", state_names[state_of(node->object)]);
	return 0;
}

static short state_poll(struct pf_open *of)
{
	return has_ended(state_of(of->node->object)) ? POLLIN : 0;
}

static int request_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	struct job *job = node->object;

	(void)err;
	pf_buf_printf(out, "%s\n", job->request);
	return 0;
}

/* {"job","state","position","done","of","user","started","ended","seconds","result"}, those that are
 * known. */
static struct json_object *job_describe(struct job *job)
{
	struct json_object *o = json_object_new_object();
	unsigned position = task_position(&job->task);
	uint64_t of = atomic_load(&job->task.of);
	struct timespec until;

	pf_json_add_int(o, "job", (int64_t)job->number);
	PF_LOCK_SCOPE(&jobs_of(job)->lock);
	pf_json_add_string(o, "state", state_names[job->state]);
	if (job->state == PF_REPORT_JOB_QUEUED && position)
		pf_json_add_int(o, "position", position);
	if (of && !has_ended(job->state)) {
		pf_json_add_int(o, "done", (int64_t)atomic_load(&job->task.done));
		pf_json_add_int(o, "of", (int64_t)of);
	}
	pf_json_add_int(o, "user", job->task.cred.uid);
	pf_json_add_time(o, "started", &job->started);
	until = job->ended;
	if (!has_ended(job->state))
		clock_gettime(CLOCK_REALTIME, &until);
	else
		pf_json_add_time(o, "ended", &job->ended);
	pf_json_add_seconds(o, "seconds", pf_seconds_between(&job->started, &until));
	if (has_ended(job->state))
		pf_json_add(o, "result", pf_json_copy(job->result));
	return o;
}

static int result_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	struct json_object *o = job_describe(node->object);

	(void)err;
	pf_json_print_line(o, out);
	json_object_put(o);
	return 0;
}

/*
 * Cancel JOB: steps that have not begun do not begin.  FORCE ends the worker that executes it, and
 * all other work there fails.  The reply.
 */
static struct json_object *cancel(struct job *job, bool force)
{
	struct json_object *o = reply_new();
	PF_CLEANUP(pf_worker_unrefp) struct pf_worker *worker = NULL;
	bool ended;

	pf_lock(&jobs_of(job)->lock);
	job->cancel = true;
	job->force = job->force || force;
	pf_unlock(&jobs_of(job)->lock);
	task_leave_queue(&job->task);
	/* If it still waits for a compile, that is given up. */
	ended = has_ended(state_of(job));
	worker = ended ? NULL : task_give_up_compile(&job->task);
	if (!ended)
		task_client_gone(&job->task);
	if (force && worker) {
		pf_worker_restart(worker);
		pf_json_add_string(o, "restarted", pf_worker_name(worker));
		pf_json_add_string(
			o, "cost",
			"everything else that the plugin was executing failed, "
			"and results that were only in its memory are lost");
	}
	pf_json_add_string(o, "state", state_names[state_of(job)]);
	return o;
}

static void cancel_command(struct pf_command *command)
{
	struct json_object *o =
		cancel(command->of->node->object, !strcmp(command->text, "force"));
	const char *text = o ? pf_json_text(o) : NULL;

	if (!text)
		text = PF_NO_MEMORY_LINE;
	pf_command_done(command, NULL, text, strlen(text));
	json_object_put(o);
}

static void node_free(struct pf_node *node)
{
	job_unref(node->object);
}

static const struct pf_kind kind_state = {
	.name = "state", .mode = S_IFREG | 0444, .show = state_show, .poll = state_poll
};
static const struct pf_kind kind_request = { .name = "request.json",
					     .mode = S_IFREG | 0400,
					     .show = request_show };
static const struct pf_kind kind_result = { .name = "result.json",
					    .mode = S_IFREG | 0400,
					    .show = result_show };
static const struct pf_kind kind_cancel = {
	.name = "cancel", .mode = S_IFREG | 0600, PF_CONTROL, .command = cancel_command
};

static const struct pf_kind *const job_children[] = { &kind_state, &kind_request,
						      &kind_result, &kind_cancel, NULL };

static const struct pf_kind kind_job = {
	.mode = S_IFDIR | 0555,
	.children = job_children,
	.restored_as = RESTORED_JOB,
	.free = node_free,
};

static const struct pf_kind kind_jobs = { .mode = S_IFDIR | 0555 };

int files_add_jobs(struct pf_fs *fs)
{
	struct jobs *jobs = calloc(1, sizeof(*jobs));

	if (!jobs)
		return -ENOMEM;
	if (pthread_mutex_init(&jobs->lock, NULL))
		abort();
	STAILQ_INIT(&jobs->ended);
	fs->jobs = jobs;
	return files_link(pf_tree_root(fs->tree), "jobs", &kind_jobs, NULL, &jobs->dir);
}

void files_free_jobs(struct pf_fs *fs)
{
	struct jobs *jobs = fs->jobs;
	struct job *job;

	if (!jobs)
		return;
	while ((job = STAILQ_FIRST(&jobs->ended))) {
		STAILQ_REMOVE_HEAD(&jobs->ended, next);
		forget(job);
	}
	pf_node_unref(jobs->dir);
	pthread_mutex_destroy(&jobs->lock);
	free(jobs);
	fs->jobs = NULL;
}

/* --- starting one ------------------------------------------------------------------- */

/* Charge its user for what JOB takes. */
static int job_charge(struct job *job, bool forced, struct pf_err *err)
{
	return pf_file_charge(&job->charge, job->task.fs->config.arena, job->account,
			      PF_RESOURCES, strlen(job->request) + JOB_HEAP, forced, err);
}

/* Make JOB's directory, not linked yet. */
static int make_directory(struct job *job)
{
	struct pf_tree *tree = jobs_of(job)->dir->tree;

	job->node = pf_node_new(tree, &kind_job, job, (mode_t)-1, &job->task.cred);
	if (!job->node)
		return -ENOMEM;
	job_ref(job); /* the node's */
	job_save(job);
	return 0;
}

/* Give JOB its number and its directory. */
static int enlist(struct jobs *jobs, struct job *job, struct pf_err *err)
{
	char name[24];
	int r = job_charge(job, false, err);

	if (r < 0)
		return r;
	pf_lock(&jobs->lock);
	r = count_locked(jobs, job, err);
	if (r == 0)
		job->number = pf_state_next(PF_STATE_COUNT_JOB);
	pf_unlock(&jobs->lock);
	if (r < 0)
		return r;
	snprintf(name, sizeof(name), "%" PRIu64, job->number);
	r = make_directory(job);
	if (r == 0)
		r = pf_dir_link(jobs->dir, name, job->node, false);
	if (r == 0)
		return 0;
	pf_lock(&jobs->lock);
	uncount_locked(jobs, job);
	pf_unlock(&jobs->lock);
	pf_node_unref(pf_steal(&job->node));
	return pf_err_set(err, r, "no memory for a job");
}

int job_start(struct task *task, const char *request_text,
	      int (*run)(struct task *job, void *arg, struct pf_err *err), void *arg,
	      struct pf_err *err)
{
	struct job *job = calloc(1, sizeof(*job));
	struct pf_err why = PF_ERR_INIT;
	struct json_object *reply;
	int r = -ENOMEM;

	if (!job)
		return pf_err_set(err, r, "no memory for a job");
	task_init(&job->task, &job_ops, task->file, &task->cred);
	job->task.id = task->id ? strdup(task->id) : NULL;
	job->request = strdup(request_text);
	job->account = files_account(task->fs, task->cred.uid);
	clock_gettime(CLOCK_REALTIME, &job->started);
	r = job->request && !task->id == !job->task.id
		    ? enlist(task->fs->jobs, job, err)
		    : pf_err_set(err, r, "no memory for a job");
	if (r < 0) {
		job_unref(job);
		return r;
	}
	reply = reply_new();
	pf_json_add_int(reply, "job", (int64_t)job->number);
	job_ref(job);
	if (run(&job->task, arg, &why) < 0)
		task_fail(&job->task, &why);
	pf_lock(&jobs_of(job)->lock);
	if (job->state == PF_REPORT_JOB_QUEUED)
		report(job, 0, NULL);
	pf_unlock(&jobs_of(job)->lock);
	job_unref(job);
	task_done(task, NULL, reply);
	return 0;
}

/* --- after a restart of the daemon --------------------------------------------------- */

/* JOB had not ended: it has failed. */
static int fail_restored(struct job *job)
{
	struct pf_err err = PF_ERR_INIT;

	pf_err_set(&err, -EIO, "the daemon was restarted %s",
		   job->state == PF_REPORT_JOB_QUEUED
			   ? "before it began"
			   : "while it ran: a part of it may be done");
	job->state = PF_REPORT_JOB_FAILED;
	job->result = reply_failure(&err);
	clock_gettime(CLOCK_REALTIME, &job->ended);
	return job->result ? 0 : -ENOMEM;
}

/* Fill JOB from its RECORD, and the request and the result behind that. */
static int read_record(struct job *job, const struct job_record *record,
		       const char *const texts[2], struct pf_err *err)
{
	job->number = record->number;
	job->started = record->started;
	job->ended = record->ended;
	job->state = record->state;
	job->request = strdup(texts[0]);
	if (!job->request)
		return -ENOMEM;
	if (!has_ended(job->state))
		return fail_restored(job);
	return pf_json_parse(texts[1], strlen(texts[1]), &job->result, err);
}

/* Make JOB's directory, with the number INO, and count JOB among those that have ended. */
static int list_restored(struct job *job, uint64_t ino)
{
	struct jobs *jobs = jobs_of(job);
	struct job *old;

	pf_tree_adopt(jobs->dir->tree, ino);
	if (make_directory(job) < 0)
		return -ENOMEM;
	pf_lock(&jobs->lock);
	old = remember_locked(jobs, job);
	pf_unlock(&jobs->lock);
	if (old)
		forget(old);
	return 0;
}

int jobs_restore(struct restoring *r, struct pf_node *dir, const struct pf_restored *old,
		 struct pf_node **ret, struct pf_err *err)
{
	const char *texts[2]; /* the request and the result */
	size_t len;
	const struct job_record *record =
		pf_state_load(PF_STATE_OBJECT, old->ino, sizeof(*record), &len, err);
	struct pf_cred cred = { 0 };
	struct job *job;
	int code;

	(void)dir;
	if (record && (!pf_state_texts(record + 1, len, texts, 2) ||
		       record->state > PF_REPORT_JOB_CANCELLED))
		record = pf_state_damaged(PF_STATE_OBJECT, old->ino, err);
	if (!record)
		return -EPROTO;
	job = calloc(1, sizeof(*job));
	if (!job)
		return -ENOMEM;
	cred.uid = record->uid;
	cred.gid = record->gid;
	task_init(&job->task, &job_ops, r->fs->jobs->dir, &cred);
	atomic_store(&job->task.end, TASK_OVER);
	job->account = files_account(r->fs, record->uid);
	code = read_record(job, record, texts, err);
	if (code == 0)
		code = job_charge(job, true, err);
	if (code == 0)
		code = list_restored(job, old->ino);
	if (code == 0)
		*ret = pf_node_ref(job->node);
	job_unref(job);
	return code;
}

/* --- commands about one ------------------------------------------------------------- */

/*
 * Read the command O, which names a job, *RET (a reference), that TASK's user may see; and its
 * "force", unless FORCE is NULL.  -EINVAL, -ENOENT, -EACCES.
 */
static int job_find(struct task *task, struct json_object *o, bool *force,
		    struct job **ret, struct pf_err *err)
{
	uint64_t number = 0;
	const struct command_key keys[] = {
		{ "job", .number = &number, .min = 1, .max = INT64_MAX },
		{ force ? "force" : NULL, .flag = force },
		{ 0 },
	};
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	char name[24];
	int r = command_parse(task->fs, o, keys, err);

	if (r < 0)
		return r;
	if (!number)
		return pf_err_set(err, -EINVAL, "\"job\" is missing");
	snprintf(name, sizeof(name), "%" PRIu64, number);
	node = pf_dir_lookup(task->fs->jobs->dir, name);
	if (!node)
		return pf_err_set(err, -ENOENT, "there is no job %s", name);
	*ret = job_ref(node->object);
	if (files_owns_mount(task->fs, task->cred.uid) ||
	    task->cred.uid == (*ret)->task.cred.uid)
		return 0;
	job_unref(pf_steal(ret));
	return pf_err_set(err, -EACCES, "job %s is another user's", name);
}

int op_cancel(struct task *task, struct json_object *o, struct pf_err *err)
{
	PF_CLEANUP(job_unrefp) struct job *job = NULL;
	bool force = false;
	int r = job_find(task, o, &force, &job, err);

	if (r == 0)
		task_done(task, NULL, cancel(job, force));
	return r;
}

/* --- the op "wait": answered when a job has ended ----------------------------------- */

struct job_wait {
	struct pf_wait ended;
	struct task_wait wait; /* has the task */
	struct job *job;       /* owned reference */
};

static void job_wait_free(struct job_wait *w)
{
	job_unref(w->job);
	free(w);
}

/*
 * 0: W is woken when its job ends; 1: it has ended.  -EDEADLK: the job that W's task is,
 * or is a step of, would wait for itself.
 */
static int await(struct job_wait *w, struct pf_err *err)
{
	struct job *self = job_of_step(w->wait.task);
	const struct job *at = self ? w->job : NULL;

	PF_LOCK_SCOPE(&jobs_of(w->job)->lock);
	while (at && at != self)
		at = at->awaits;
	if (at)
		return pf_err_set(err, -EDEADLK,
				  "job %" PRIu64 " would wait for itself%s", self->number,
				  w->job == self ? "" : ", by way of others");
	if (has_ended(w->job->state))
		return 1;
	if (self)
		self->awaits = w->job;
	pf_wait_add(&w->job->waiters, &w->ended);
	return 0;
}

static void await_no_more(struct job_wait *w)
{
	struct job *self = job_of_step(w->wait.task);

	PF_LOCK_SCOPE(&jobs_of(w->job)->lock);
	if (self)
		self->awaits = NULL;
}

static void wait_ended(struct pf_wait *ended)
{
	struct job_wait *w = pf_container_of(ended, struct job_wait, ended);
	struct json_object *o = job_describe(w->job);

	task_wait_end(w->wait.task);
	await_no_more(w);
	pf_json_add(o, "ok", json_object_new_boolean(true));
	task_done(w->wait.task, NULL, o);
	job_wait_free(w);
}

static bool wait_leave(struct task_wait *wait)
{
	struct job_wait *w = pf_container_of(wait, struct job_wait, wait);

	PF_LOCK_SCOPE(&jobs_of(w->job)->lock);
	return pf_wait_leave(&w->job->waiters, &w->ended);
}

static void wait_cancelled(struct task_wait *wait)
{
	struct job_wait *w = pf_container_of(wait, struct job_wait, wait);
	struct pf_err err = PF_ERR_INIT;

	pf_err_set(&err, -ECANCELED,
		   "wait: cancelled; job %" PRIu64 ", which it waited for, goes on",
		   w->job->number);
	await_no_more(w);
	task_fail(w->wait.task, &err);
	job_wait_free(w);
}

int op_wait(struct task *task, struct json_object *o, struct pf_err *err)
{
	struct job *job = NULL;
	struct job_wait *w;
	int r = job_find(task, o, NULL, &job, err);

	if (r < 0)
		return r;
	w = calloc(1, sizeof(*w));
	if (!w) {
		job_unref(job);
		return pf_err_set(err, -ENOMEM, "no memory for waiting");
	}
	*w = (struct job_wait){
		.ended.wake = wait_ended,
		.wait = { task, wait_leave, wait_cancelled, "the job goes on" },
		.job = job,
	};
	task_ref(task); /* W may be gone once it waits */
	task_wait_begin(&w->wait);
	r = await(w, err);
	if (r < 0) {
		task_wait_end(task);
		job_wait_free(w);
	} else if (r > 0) {
		wait_ended(&w->ended);
	} else {
		task_wait_check(task);
	}
	task_unref(task);
	return r < 0 ? r : 0;
}
