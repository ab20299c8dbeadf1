/* The op "wait": answered when a job has ended. */
#include <errno.h>
#include <stdlib.h>

#include "job.h"
#include "files/tasks/request.h"

struct waiting {
	struct pf_waiter waiter;
	struct task *task;
	struct job *job; /* owned reference */
};

static void wait_end(struct waiting *w)
{
	struct json_object *o = job_describe(w->job);

	json_object_object_add(o, "ok", json_object_new_boolean(true));
	task_done(w->task, 0, o);
	job_unref(w->job);
	free(w);
}

static void wait_wake(struct pf_waiter *waiter)
{
	wait_end(pf_container_of(waiter, struct waiting, waiter));
}

int op_wait(struct task *task, struct json_object *o, struct pf_err *err)
{
	static const char *const allowed[] = { "job", NULL };
	struct job *job = NULL;
	struct waiting *w;
	bool ended;
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
	pf_lock(&job->lock);
	ended = job_has_ended(job);
	if (!ended)
		pf_wait_add(&job->waiters, &w->waiter);
	pf_unlock(&job->lock);
	if (ended)
		wait_end(w);
	return 0;
}
