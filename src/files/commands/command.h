/* SPDX-License-Identifier: Apache-2.0 */
/* What can be asked for at control. */
#ifndef PJRTFS_FILES_COMMANDS_COMMAND_H
#define PJRTFS_FILES_COMMANDS_COMMAND_H

#include "files/buffers/buffers.h"
#include "files/jobs/jobs.h"

extern const struct pf_kind kind_control;

/* Those that are asked for by name; others are in execute.h and jobs.h. */
command_op op_compile; /* compile.c */
command_op op_create;  /* create.c */
command_op op_copy;
command_op op_shard;  /* shard.c */
command_op op_gather; /* gather.c */
command_op op_batch;  /* batch.c */

/*
 * Answer TASK with REPLY (taken) once VALUE is on its device, in its memory MEMORY, and has
 * the name TARGET (taken), which OP gave it; or with a failure.  -ENOMEM: it is not answered,
 * TARGET is the caller's still.
 */
int command_put_value(struct task *task, const char *op, unsigned memory,
		      struct pf_value *value, struct target *target,
		      struct json_object *reply, struct pf_err *err);

/* Find the op that O names and run it, as a job if it says "async". */
command_op command_run;

#endif
