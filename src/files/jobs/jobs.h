/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: tasks that nobody waits for. */
#ifndef PJRTFS_FILES_JOBS_JOBS_H
#define PJRTFS_FILES_JOBS_JOBS_H

#include "files/tasks/task.h"

extern const struct pf_kind kind_jobs;

/* Make what jobs/ needs; DIR is their directory.  0 or -ENOMEM. */
int files_add_jobs(struct pf_fs *fs, struct pf_node *dir);
void files_free_jobs(struct pf_fs *fs);

command_op op_wait;   /* wait.c */
command_op op_cancel; /* jobs.c */

/*
 * Make a job of what RUN does with the new task that it is given (and ARG): TASK is answered
 * with the job's number at once.  REQUEST_TEXT is what was asked, for request.json.
 */
int job_start(struct task *task, const char *request_text,
	      int (*run)(struct task *job, void *arg, struct pf_err *err), void *arg,
	      struct pf_err *err);

#endif
