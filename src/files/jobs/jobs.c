/* SPDX-License-Identifier: Apache-2.0 */
/* jobs/: commands that nobody waits for, and how they ended. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"

enum {
	MAX_OPEN = 10000, /* a user's that have not ended; more are EAGAIN */
	MAX_ALL = 100000, /* everybody's */
};

/* How many a user has. */
struct job_user {
	uid_t user;
	unsigned n;
	struct job_user *next;
};

int job_count(struct job_count *count, uid_t user, struct pf_err *err)
{
	struct job_user *u = count->users;

	if (count->n >= MAX_ALL)
		return pf_err_set(err, -EAGAIN, "%d jobs of all users are under way",
				  MAX_ALL);
	while (u && u->user != user)
		u = u->next;
	if (u && u->n >= MAX_OPEN)
		return pf_err_set(err, -EAGAIN, "%d jobs of this user are under way",
				  MAX_OPEN);
	if (!u) {
		u = malloc(sizeof(*u));
		if (!u)
			return pf_err_set(err, -ENOMEM, "no memory for a job");
		*u = (struct job_user){ .user = user, .next = count->users };
		count->users = u;
	}
	u->n++;
	count->n++;
	return 0;
}

static void job_uncount(struct job_count *count, uid_t user)
{
	struct job_user **at = &count->users, *u;

	while ((*at)->user != user)
		at = &(*at)->next;
	u = *at;
	count->n--;
	if (--u->n)
		return;
	*at = u->next;
	free(u);
}

static void job_count_release(struct job_count *count)
{
	struct job_user *u;

	while ((u = count->users)) {
		count->users = u->next;
		free(u);
	}
}

enum {
	MAX_ENDED = 1000, /* remembered; the oldest go */
};

static const char *const state_names[] = { "queued", "running", "done", "failed",
					   "cancelled" };

static struct job *job_of(struct task *task)
{
	return pf_container_of(task, struct job, task);
}

static void job_free(struct task *task)
{
	struct job *job = job_of(task);

	json_object_put(job->result);
	pthread_mutex_destroy(&job->lock);
	free(job->request);
	free(job);
}

static bool job_cancelled(struct task *task)
{
	struct job *job = job_of(task);

	PF_LOCK_SCOPE(&job->lock);
	return job->cancel;
}

/* --- history ------------------------------------------------------------------------------ */

/* Take a job's directory away.  Its node holds a reference on it. */
static void unlist(struct job *job)
{
	struct pf_node *node = pf_steal(&job->node);

	if (node)
		pf_dir_unlink(node);
	pf_node_unref(node);
}

/* JOB has ended: it is the newest of those remembered, and the oldest may go. */
static void remember(struct jobs *jobs, struct job *job)
{
	struct job *old = NULL;

	job_ref(job);
	pf_lock(&jobs->lock);
	job_uncount(&jobs->open, job->task.cred.uid);
	if (jobs->newest)
		jobs->newest->next = job;
	else
		jobs->first = job;
	jobs->newest = job;
	if (++jobs->n_ended > MAX_ENDED) {
		old = jobs->first;
		jobs->first = old->next;
		jobs->n_ended--;
	}
	pf_unlock(&jobs->lock);
	if (old) {
		unlist(old);
		job_unref(old);
	}
}

/* What becomes of JOB before it ends.  Under its lock, so that it is told in order. */
static void report_locked(struct job *job, enum pf_report_job what)
{
	/* The id is read without its lock: it does not change any more. */
	pf_report_job(job->task.fs->telemetry, what, job->number, job->task.cred.uid,
		      NULL, job->task.id, 0, NULL);
}

static void job_began(struct task *task)
{
	struct job *job = job_of(task);
	bool first;

	pf_lock(&job->lock);
	first = job->state == JOB_QUEUED;
	if (first) {
		job->state = JOB_RUNNING;
		report_locked(job, PF_REPORT_JOB_STARTED);
	}
	pf_unlock(&job->lock);
	if (first && job->node)
		pf_node_changed(job->node, false);
}

static void report_end(struct job *job, int code)
{
	pf_autofree char *id = task_id(&job->task);
	struct json_object *error, *text;
	enum pf_report_job what = PF_REPORT_JOB_FINISHED;
	struct pf_err err = PF_ERR_INIT;

	if (code < 0)
		what = code == -ECANCELED ? PF_REPORT_JOB_CANCELLED
					  : PF_REPORT_JOB_FAILED;
	if (code < 0 && json_object_object_get_ex(job->result, "error", &error) &&
	    json_object_object_get_ex(error, "message", &text))
		pf_err_set(&err, code, "%s", json_object_get_string(text));
	pf_report_job(job->task.fs->telemetry, what, job->number, job->task.cred.uid,
		      NULL, id, pf_seconds_since(CLOCK_REALTIME, &job->started), &err);
}

/* JOB failed since its worker was ended for its sake: it was cancelled. */
static void report_forced(struct json_object *reply)
{
	struct pf_err err = PF_ERR_INIT;
	struct json_object *o, *error;

	pf_err_set(&err, -ECANCELED, "cancelled: its worker was ended");
	o = reply_failure(&err);
	if (json_object_object_get_ex(o, "error", &error))
		json_object_object_add(reply, "error", json_object_get(error));
	json_object_put(o);
}

static void job_answer(struct task *task, int code, struct json_object *reply)
{
	struct job *job = job_of(task);
	struct pf_wait *waiters;

	if (code == 0)
		job_began(task); /* what is done at once does not say so */
	pf_lock(&job->lock);
	if (job->force && code == -EIO) {
		code = -ECANCELED;
		report_forced(reply);
	}
	if (code == 0)
		job->state = JOB_DONE;
	else
		job->state = code == -ECANCELED ? JOB_CANCELLED : JOB_FAILED;
	job->result = reply;
	clock_gettime(CLOCK_REALTIME, &job->ended);
	waiters = pf_wait_take(&job->waiters);
	pf_unlock(&job->lock);
	if (job->node) {
		PF_CLEANUP(pf_node_unrefp)
		struct pf_node *state = pf_dir_lookup(job->node, "state");

		pf_node_changed(job->node, false);
		if (state)
			pf_node_ready(state);
	}
	report_end(job, code);
	remember(task->fs->jobs, job);
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

/* --- its directory ------------------------------------------------------------------------ */

static int state_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	struct job *job = node->object;

	(void)err;
	PF_LOCK_SCOPE(&job->lock);
	pf_buf_printf(out, "%s\n", state_names[job->state]);
	return 0;
}

static short state_poll(struct pf_open *of)
{
	struct job *job = of->node->object;

	PF_LOCK_SCOPE(&job->lock);
	return job_has_ended(job) ? POLLIN : 0;
}

static int exec_spec_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	struct job *job = node->object;

	(void)err;
	pf_buf_printf(out, "%s\n", job->request);
	return 0;
}

/* What is known of it: {"job","state","position","user","started","ended","seconds","result"}. */
static struct json_object *job_describe(struct job *job)
{
	struct json_object *o = json_object_new_object();
	unsigned position = task_position(&job->task);
	struct timespec until;

	pf_json_add_int(o, "job", (int64_t)job->number);
	PF_LOCK_SCOPE(&job->lock);
	pf_json_add_string(o, "state", state_names[job->state]);
	if (job->state == JOB_QUEUED && position)
		pf_json_add_int(o, "position", position);
	pf_json_add_int(o, "user", job->task.cred.uid);
	pf_json_add_time(o, "started", &job->started);
	until = job->ended;
	if (!job_has_ended(job))
		clock_gettime(CLOCK_REALTIME, &until);
	else
		pf_json_add_time(o, "ended", &job->ended);
	pf_json_add_seconds(o, "seconds", pf_seconds_between(&job->started, &until));
	if (job->result)
		json_object_object_add(o, "result", pf_json_copy(job->result));
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
 * Ask JOB to end: what has not begun does not begin.  FORCE ends the worker that executes
 * it, and with it everything else there.
 */
static struct json_object *cancel(struct job *job, bool force)
{
	struct json_object *o = reply_new();
	struct pf_worker *worker;
	bool ended;

	pf_lock(&job->lock);
	job->cancel = true;
	job->force = job->force || force;
	pf_unlock(&job->lock);
	task_unqueue(&job->task);
	/* One that has not begun may wait for a compile. */
	pf_lock(&job->lock);
	ended = job_has_ended(job);
	pf_unlock(&job->lock);
	worker = ended ? NULL : task_stop(&job->task);
	if (!ended)
		task_left(&job->task);
	if (force && worker) {
		pf_worker_restart(worker);
		pf_json_add_string(o, "restarted", pf_worker_name(worker));
		pf_json_add_string(
			o, "cost",
			"everything else that the plugin was executing failed, "
			"and results that were only in its memory are lost");
	}
	pf_lock(&job->lock);
	pf_json_add_string(o, "state", state_names[job->state]);
	pf_unlock(&job->lock);
	return o;
}

static void cancel_command(struct pf_command *command)
{
	struct json_object *o =
		cancel(command->of->node->object, !strcmp(command->text, "force"));
	const char *text = pf_json_text(o);

	pf_command_done(command, 0, text, strlen(text));
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
					     .show = exec_spec_show };
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
	.free = node_free,
};

const struct pf_kind kind_jobs = { .mode = S_IFDIR | 0555 };

int files_add_jobs(struct pf_fs *fs, struct pf_node *dir)
{
	struct jobs *jobs = calloc(1, sizeof(*jobs));

	if (!jobs)
		return -ENOMEM;
	if (pthread_mutex_init(&jobs->lock, NULL))
		abort();
	jobs->dir = pf_node_ref(dir);
	fs->jobs = jobs;
	return 0;
}

void files_free_jobs(struct pf_fs *fs)
{
	struct jobs *jobs = fs->jobs;

	while (jobs && jobs->first) {
		struct job *job = jobs->first;

		jobs->first = job->next;
		unlist(job);
		job_unref(job);
	}
	if (!jobs)
		return;
	pf_node_unref(jobs->dir);
	job_count_release(&jobs->open);
	pthread_mutex_destroy(&jobs->lock);
	free(jobs);
	fs->jobs = NULL;
}

/* --- starting one ------------------------------------------------------------------------- */

/* A number for JOB, and its directory. */
static int enlist(struct jobs *jobs, struct job *job, struct pf_err *err)
{
	char name[24];
	int r;

	pf_lock(&jobs->lock);
	r = job_count(&jobs->open, job->task.cred.uid, err);
	if (r == 0)
		job->number = ++jobs->last;
	pf_unlock(&jobs->lock);
	if (r < 0)
		return r;
	snprintf(name, sizeof(name), "%" PRIu64, job->number);
	job_ref(job);
	job->node =
		pf_node_new(jobs->dir->tree, &kind_job, job, (mode_t)-1, &job->task.cred);
	if (!job->node) {
		job_unref(job);
		r = -ENOMEM;
	} else {
		r = pf_dir_link(jobs->dir, name, job->node, false);
	}
	if (r == 0)
		return 0;
	pf_lock(&jobs->lock);
	job_uncount(&jobs->open, job->task.cred.uid);
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
	if (pthread_mutex_init(&job->lock, NULL))
		abort();
	job->task.id = task->id ? strdup(task->id) : NULL;
	job->request = strdup(request_text);
	clock_gettime(CLOCK_REALTIME, &job->started);
	r = job->request ? enlist(task->fs->jobs, job, err)
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
	pf_lock(&job->lock);
	if (job->state == JOB_QUEUED)
		report_locked(job, PF_REPORT_JOB_QUEUED);
	pf_unlock(&job->lock);
	job_unref(job);
	task_done(task, 0, reply);
	return 0;
}

/* --- commands about one --------------------------------------------------------------------------- */

/* The job that "job" in O names, with a reference, if TASK's user may know of it.  -EINVAL,
 * -ENOENT, -EACCES. */
static int job_find(struct task *task, struct json_object *o, struct job **ret,
		    struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	struct pf_attr owner;
	uint64_t number = 0;
	char name[24];
	int r = command_number(o, "job", 1, INT64_MAX, &number, err);

	if (r < 0)
		return r;
	if (!number)
		return pf_err_set(err, -EINVAL, "\"job\" is missing");
	snprintf(name, sizeof(name), "%" PRIu64, number);
	node = pf_dir_lookup(task->fs->jobs->dir, name);
	if (!node)
		return pf_err_set(err, -ENOENT, "there is no job %s", name);
	pf_node_attr(pf_tree_root(task->fs->tree), &owner);
	*ret = job_ref(node->object);
	if (task->cred.uid == 0 || task->cred.uid == owner.uid ||
	    task->cred.uid == (*ret)->task.cred.uid)
		return 0;
	job_unref(pf_steal(ret));
	return pf_err_set(err, -EACCES, "job %s is another user's", name);
}

int op_cancel(struct task *task, struct json_object *o, struct pf_err *err)
{
	static const char *const allowed[] = { "job", "force", NULL };
	PF_CLEANUP(job_unrefp) struct job *job = NULL;
	bool force = false;
	int r = command_check_keys(o, allowed, err);

	if (r == 0)
		r = command_bool(o, "force", &force, err);
	if (r == 0)
		r = job_find(task, o, &job, err);
	if (r == 0)
		task_done(task, 0, cancel(job, force));
	return r;
}

/* The op "wait": answered when a job has ended. */

struct waiting {
	struct pf_wait waiter;
	struct task_wait pause;
	struct task *task;
	struct job *job; /* owned reference */
};

/* --- jobs that wait for each other ------------------------------------------------------ */

/* SELF, if it is a job, waits for JOB.  -EDEADLK: that waits for it. */
static int await(struct job *self, struct job *job, struct pf_err *err)
{
	struct jobs *jobs = job->task.fs->jobs;
	const struct job *at = job;

	if (!self)
		return 0;
	PF_LOCK_SCOPE(&jobs->lock);
	while (at && at != self)
		at = at->awaits;
	if (at)
		return pf_err_set(err, -EDEADLK,
				  "job %" PRIu64 " would wait for itself%s", self->number,
				  job == self ? "" : ", by way of others");
	self->awaits = job;
	return 0;
}

static void await_no_more(struct waiting *w)
{
	struct jobs *jobs = w->job->task.fs->jobs;
	struct job *self = job_of_step(w->task);

	if (!self)
		return;
	PF_LOCK_SCOPE(&jobs->lock);
	self->awaits = NULL;
}

/* --- the end ---------------------------------------------------------------------------- */

static void waiting_free(struct waiting *w)
{
	job_unref(w->job);
	free(w);
}

static void wait_end(struct waiting *w)
{
	struct json_object *o = job_describe(w->job);

	await_no_more(w);
	json_object_object_add(o, "ok", json_object_new_boolean(true));
	task_done(w->task, 0, o);
	waiting_free(w);
}

static void wait_wake(struct pf_wait *waiter)
{
	struct waiting *w = pf_container_of(waiter, struct waiting, waiter);

	task_resumes(w->task);
	wait_end(w);
}

static bool wait_leave(struct task_wait *pause)
{
	struct waiting *w = pf_container_of(pause, struct waiting, pause);

	PF_LOCK_SCOPE(&w->job->lock);
	return pf_wait_leave(&w->job->waiters, &w->waiter);
}

static void wait_cancelled(struct task_wait *pause)
{
	struct waiting *w = pf_container_of(pause, struct waiting, pause);
	struct pf_err err = PF_ERR_INIT;

	pf_err_set(&err, -ECANCELED,
		   "wait: cancelled; job %" PRIu64 ", which it waited for, goes on",
		   w->job->number);
	await_no_more(w);
	task_fail(w->task, &err);
	waiting_free(w);
}

/* --- the beginning ---------------------------------------------------------------------- */

/* W is complete, and will be ended. */
static void begin(struct waiting *w)
{
	struct task *task = task_ref(w->task);
	bool ended;

	task_pauses(&w->pause);
	pf_lock(&w->job->lock);
	ended = job_has_ended(w->job);
	if (!ended)
		pf_wait_add(&w->job->waiters, &w->waiter);
	pf_unlock(&w->job->lock);
	if (ended)
		wait_wake(&w->waiter);
	else
		task_paused(task);
	task_unref(task);
}

int op_wait(struct task *task, struct json_object *o, struct pf_err *err)
{
	static const char *const allowed[] = { "job", NULL };
	struct job *job = NULL;
	struct waiting *w;
	int r = command_check_keys(o, allowed, err);

	if (r == 0)
		r = job_find(task, o, &job, err);
	if (r < 0)
		return r;
	w = calloc(1, sizeof(*w));
	if (!w) {
		job_unref(job);
		return pf_err_set(err, -ENOMEM, "no memory for waiting");
	}
	w->waiter.wake = wait_wake;
	w->task = task;
	w->job = job;
	r = await(job_of_step(task), job, err);
	if (r < 0) {
		waiting_free(w);
		return r;
	}
	w->pause =
		(struct task_wait){ task, wait_leave, wait_cancelled, "the job goes on" };
	begin(w);
	return 0;
}
