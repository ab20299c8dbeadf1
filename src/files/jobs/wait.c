/* SPDX-License-Identifier: Apache-2.0 */
/* The op "wait": answered when a job has ended. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "job.h"
#include "files/tasks/request.h"

struct waiting {
	struct pf_waiter waiter;
	struct task_pause pause;
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

static void wait_wake(struct pf_waiter *waiter)
{
	struct waiting *w = pf_container_of(waiter, struct waiting, waiter);

	task_resumes(w->task);
	wait_end(w);
}

static bool wait_leave(struct task_pause *pause)
{
	struct waiting *w = pf_container_of(pause, struct waiting, pause);

	PF_LOCK_SCOPE(&w->job->lock);
	return pf_wait_leave(&w->job->waiters, &w->waiter);
}

static void wait_cancelled(struct task_pause *pause)
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
	w->pause = (struct task_pause){ task, wait_leave, wait_cancelled,
					"the job goes on" };
	begin(w);
	return 0;
}
