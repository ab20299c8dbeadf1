/* SPDX-License-Identifier: Apache-2.0 */
/* control: JSON commands. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "files/execute/execute.h"
#include "files/jobs/jobs.h"
#include "files/programs/programs.h"
#include "files/tasks/request.h"
#include "pjrtfs/base/json.h"
#include "pjrtfs/base/similar.h"

/* --- delete, stat ------------------------------------------------------------------------------ */

static int op_delete(struct task *task, struct json_object *o, struct pf_err *err)
{
	static const char *const allowed[] = { "buffer", "device", NULL };
	const struct device *device;
	const char *name;
	int r = command_check_keys(o, allowed, err);

	if (r == 0)
		r = command_string(o, "buffer", &name, err);
	if (r == 0)
		r = command_device(task->fs, o, &device, err);
	if (r == 0)
		r = files_remove_buffer(task->fs, device, name, &task->cred, err);
	if (r == 0)
		task_done(task, 0, reply_new());
	return r;
}

static int stat_buffer(struct pf_fs *fs, struct json_object *o,
		       const struct pf_cred *cred, struct pf_buf *text,
		       struct pf_err *err)
{
	PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *buffer = NULL;
	const struct device *device;
	const char *name;
	int r = command_string(o, "buffer", &name, err);

	if (r == 0)
		r = command_device(fs, o, &device, err);
	if (r == 0)
		r = files_find_buffer(fs, device, name, cred, R_OK, &buffer, err);
	if (r == 0)
		pf_buffer_describe(buffer, name, text);
	return r;
}

static int stat_executable(struct pf_fs *fs, struct json_object *o,
			   const struct pf_cred *cred, struct pf_buf *text,
			   struct pf_err *err)
{
	struct unit *unit;
	const char *name;
	int r = command_string(o, "executable", &name, err);

	if (r == 0)
		r = files_find_unit(fs, name, cred, &unit, err);
	if (r == 0) {
		pf_executable_info(unit->x, text);
		unit_unref(unit);
	}
	return r;
}

static int op_stat(struct task *task, struct json_object *o, struct pf_err *err)
{
	static const char *const allowed[] = { "buffer", "executable", "device", NULL };
	bool executable = json_object_object_get_ex(o, "executable", NULL);
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct json_object *reply;
	int r = command_check_keys(o, allowed, err);

	if (r == 0 && executable && json_object_object_get_ex(o, "buffer", NULL))
		r = pf_err_set(err, -EINVAL,
			       "expected \"buffer\" or \"executable\", found both");
	if (r == 0)
		r = executable ? stat_executable(task->fs, o, &task->cred, &text, err)
			       : stat_buffer(task->fs, o, &task->cred, &text, err);
	if (r < 0)
		return r;
	reply = reply_new();
	json_object_object_add(reply, executable ? "executable" : "buffer",
			       json_tokener_parse(text.data ? text.data : "{}"));
	task_done(task, 0, reply);
	return 0;
}

#define LATE_BUFFER "what it would have made is dropped"

/* --- which op ----------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	command_op *run;
	bool tells;       /* by itself when it has begun */
	const char *late; /* what becomes of it when its time is over; NULL: files_late */
} ops[] = {
	{ "execute", op_execute, true, NULL },
	{ "compile", op_compile, false, "the compile goes on" },
	{ "create", op_create, false, LATE_BUFFER },
	{ "delete", op_delete, false, LATE_BUFFER },
	{ "stat", op_stat, false, LATE_BUFFER },
	{ "batch", op_batch, true,
	  "the steps that had begun go on, the others do not begin" },
	{ "wait", op_wait, false, "the job goes on" },
	{ "cancel", op_cancel, false, LATE_BUFFER },
	{ "copy", op_copy, false, LATE_BUFFER },
	{ "shard", op_shard, false, LATE_BUFFER },
	{ "gather", op_gather, false, LATE_BUFFER },
};

static int unknown_op(const char *name, struct pf_err *err)
{
	pf_autobuf struct pf_buf known = PF_BUF_INIT;
	struct pf_similar similar = { .word = name };
	char hint[PF_SIMILAR_TEXT];

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		pf_buf_printf(&known, "%s%s", i ? ", " : "", ops[i].name);
		pf_similar_try(&similar, ops[i].name);
	}
	return pf_err_set(err, -EINVAL, "\"op\": expected one of %s, found \"%.64s\"%s",
			  known.data ? known.data : "", name,
			  pf_similar_hint(&similar, hint));
}

/* As job_start wants it. */
static int run_as_job(struct task *job, void *arg, struct pf_err *err)
{
	return command_run(job, arg, err);
}

int command_run(struct task *task, struct json_object *o, struct pf_err *err)
{
	const char *name;
	uint64_t timeout = 0, repeat = 1;
	bool async = false;
	int r = command_string(o, "op", &name, err);
	size_t i = 0;

	if (r == 0)
		r = command_bool(o, "async", &async, err);
	if (r == 0)
		r = command_number(o, "timeout_ms", 1, REQUEST_MAX_TIMEOUT, &timeout,
				   err);
	if (r < 0)
		return r;
	while (i < sizeof(ops) / sizeof(ops[0]) && strcmp(ops[i].name, name))
		i++;
	if (i == sizeof(ops) / sizeof(ops[0]))
		return unknown_op(name, err);
	if (async) {
		pf_autofree char *text = strdup(pf_json_text(o));

		json_object_object_del(o, "async");
		return job_start(task, text ? text : "{}", run_as_job, o, err);
	}
	if (timeout)
		r = command_number(o, "repeat", 1, REQUEST_MAX_REPEAT, &repeat, err);
	if (r == 0 && timeout)
		r = task_set_timeout(task, timeout,
				     ops[i].late ? ops[i].late : files_late(repeat), err);
	if (r == 0 && !ops[i].tells)
		task_began(task);
	if (r == 0)
		r = ops[i].run(task, o, err);
	return r < 0 ? pf_err_wrap(err, r, "%s", name) : 0;
}

/* --- the file ------------------------------------------------------------------------------------- */

struct control_task {
	struct task task;
	struct pf_command *command; /* until it was answered */
};

static struct control_task *control_of(struct task *task)
{
	return pf_container_of(task, struct control_task, task);
}

static bool control_cancelled(struct task *task)
{
	return pf_command_cancelled(control_of(task)->command);
}

static void control_answer(struct task *task, int code, struct json_object *reply)
{
	const char *text = pf_json_text(reply);

	pf_command_done(control_of(task)->command, code, text, strlen(text));
	json_object_put(reply);
}

static void control_free(struct task *task)
{
	free(control_of(task));
}

static const struct task_ops control_ops = { .cancelled = control_cancelled,
					     .answer = control_answer,
					     .free = control_free };

static void control_command(struct pf_command *command)
{
	struct json_object *o = NULL;
	struct control_task *c = calloc(1, sizeof(*c));
	struct pf_err err = PF_ERR_INIT;
	int r;

	if (!c) {
		static const char text[] =
			"{\"ok\":false,\"error\":{\"errno\":\"ENOMEM\"}}";

		pf_command_done(command, -ENOMEM, text, sizeof(text) - 1);
		return;
	}
	task_init(&c->task, &control_ops, command->of->node, &command->of->cred);
	c->command = command;
	atomic_store(&command->user, &c->task);
	r = pf_json_parse_scanned(command->text, &o, &err);
	if (r == 0) {
		task_set_id(&c->task, o);
		r = command_run(&c->task, o, &err);
	}
	if (r < 0)
		task_fail(&c->task, &err);
	json_object_put(o);
}

const struct pf_kind kind_control = {
	.name = "control",
	.mode = S_IFREG | 0666,
	.json = true,
	.command = control_command,
	.left = task_command_left,
};
