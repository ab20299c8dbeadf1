/* SPDX-License-Identifier: Apache-2.0 */
/* The ops of control. */
#ifndef PJRTFS_FILES_COMMANDS_COMMAND_H
#define PJRTFS_FILES_COMMANDS_COMMAND_H

#include "files/buffers/buffers.h"
#include "files/jobs/jobs.h"

extern const struct pf_kind kind_control;

/* Others are in execute.h and jobs.h. */
command_op op_compile;
command_op op_create;
command_op op_copy;
command_op op_shard;
command_op op_assemble;
command_op op_gather;
command_op op_reshard;
command_op op_register;
command_op op_send;
command_op op_receive;
command_op op_settle;

/* The element type and the shape that a command names.  -EINVAL; -EOPNOTSUPP: WORKER's plugin is older
 * than the type. */
int command_type(const char *dtype, struct json_object *shape, struct pf_worker *worker,
		 enum pf_dtype *ret, struct pf_shape *ret_shape, struct pf_err *err);

/* The device of TARGET, in the home of TASK's user, which is held until command_leave_device.  -errno of
 * files_home. */
int command_device(const struct task *task, const struct target *target,
		   const struct device **ret, struct pf_err *err);

static inline void command_leave_device(const struct device *device)
{
	files_leave_home(device ? device->home : NULL);
}
PF_DEFINE_CLEANUP(const struct device *, command_leave_device)

/* The memory of TARGET's device that is of KIND, in *RET, which stays if KIND is NULL.  -EINVAL: it
 * has none; -errno of files_home. */
int command_memory(const struct task *task, const struct target *target, const char *kind,
		   unsigned *ret, struct pf_err *err);

/*
 * Send VALUE to its device and memory, give it the name TARGET (taken) for OP (static),
 * and answer TASK.  -ENOMEM: TASK is not answered, and the caller still owns TARGET.
 */
int command_put_value(struct task *task, const char *op, struct pf_value *value,
		      struct target *target, struct pf_err *err);

#endif
