/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of jobs/ share. */
#ifndef PJRTFS_FILES_JOBS_JOB_H
#define PJRTFS_FILES_JOBS_JOB_H

#include "jobs.h"

/* JOB_QUEUED: its program is being compiled, or others have the device's places. */
enum job_state { JOB_QUEUED, JOB_RUNNING, JOB_DONE, JOB_FAILED, JOB_CANCELLED };

struct job;

/* Jobs that have not ended, by user.  All zeros is none. */
struct job_count {
	unsigned n;             /* everybody's */
	struct job_user *users; /* owned */
};

/* Counted: by its directory, by the jobs that run, by who waits. */
struct job {
	struct task task; /* what runs; its references count the job's, too */
	uint64_t number;
	struct pf_node *node; /* owned reference, as long as it is listed */
	char *request;        /* owned */
	struct timespec started;

	pthread_mutex_t lock; /* rank 4; protects the fields below */
	enum job_state state;
	bool cancel, force;
	struct json_object *result; /* owned, once it has ended */
	struct timespec ended;
	struct pf_waiter *waiters;

	/* The jobs': */
	struct job *next;   /* of those that have ended */
	struct job *awaits; /* which it waits for; borrowed, or NULL */
};

/* What jobs/ has. */
struct jobs {
	struct pf_node *dir;  /* owned reference */
	pthread_mutex_t lock; /* rank 5; protects the fields below */
	uint64_t last;
	struct job_count open; /* those that have not ended */
	unsigned n_ended;
	struct job *first, *newest; /* that have ended, by age; each a reference */
};

/* The job that TASK is, or is a step of, or NULL; borrowed. */
struct job *job_of_step(struct task *task);

static inline struct job *job_ref(struct job *job)
{
	task_ref(&job->task);
	return job;
}

static inline void job_unref(struct job *job)
{
	if (job)
		task_unref(&job->task);
}

PF_DEFINE_CLEANUP(struct job *, job_unref)

/* Its lock is held. */
static inline bool job_has_ended(const struct job *job)
{
	return job->state > JOB_RUNNING;
}

/* What is known of it: {"job","state","position","user","started","ended","seconds","result"}. */
struct json_object *job_describe(struct job *job);

/* The job that "job" in O names, with a reference, if TASK's user may know of it.  -EINVAL,
 * -ENOENT, -EACCES. */
int job_find(struct task *task, struct json_object *o, struct job **ret,
	     struct pf_err *err);

/* --- how many there are (count.c) --------------------------------------------------- */

/* One more of USER, and one less.  -EAGAIN: he has too many, or all have; -ENOMEM. */
int job_count(struct job_count *count, uid_t user, struct pf_err *err);
void job_uncount(struct job_count *count, uid_t user);
void job_count_release(struct job_count *count);

#endif
