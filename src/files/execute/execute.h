/* SPDX-License-Identifier: Apache-2.0 */
/* Executions under names. */
#ifndef PJRTFS_FILES_EXECUTE_EXECUTE_H
#define PJRTFS_FILES_EXECUTE_EXECUTE_H

#include "files/buffers/buffers.h"
#include "files/jobs/jobs.h"
#include "files/programs/programs.h"

command_op op_execute;

/* What happens to an execution at its timeout, to one that repeats or not; static. */
const char *files_at_timeout(uint64_t repeat);

/*
 * Execute PROGRAM (called NAME) as REQUEST says and put the results under their names.
 * Takes REQUEST's contents.  SPIN: the calling thread may spin for the answer for some
 * microseconds; not on threads that take replies.
 */
void files_execute(struct task *task, struct program *program, const char *name,
		   struct exec_spec *request, bool spin);

/* Give VALUE, which MADE_BY made, the name TARGET, on whose device it is.  The name lock is held.
 * -ENOMEM, and -errno of files_put_buffer_locked. */
int files_put_value_locked(struct target *target, struct pf_value *value,
			   const char *made_by, const struct pf_cred *cred,
			   struct pf_err *err);

#endif
