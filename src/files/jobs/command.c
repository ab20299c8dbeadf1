/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that are written to files, as tasks. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "jobs.h"
#include "pjrtfs/json.h"
#include "pjrtfs/stream.h"

/* --- replies for people --------------------------------------------------------------- */

/* Append REPLY as a line: it is one, or an object, as {"ok":true,"job":7}. */
static void print_reply(struct json_object *reply, struct pf_buf *out)
{
	struct json_object *v;

	if (!pf_json_complete(reply)) {
		out->failed = true;
		return;
	}
	if (json_object_is_type(reply, json_type_string)) {
		pf_buf_puts(out, json_object_get_string(reply));
		return;
	}
	if (json_object_object_get_ex(reply, "error", &v)) {
		pf_buf_printf(out, "error: %s: %s", pf_json_get_string(v, "errno"),
			      pf_json_get_string(v, "message"));
		pf_buf_clean(out, 0); /* a reply is one line, a message may be several */
		return;
	}
	pf_buf_puts(out, "ok:");
	if (json_object_object_get_ex(reply, "job", &v))
		pf_buf_printf(out, " job %" PRId64, json_object_get_int64(v));
}

/* --- a command that was written to a file, as a task ---------------------------------- */

struct command_task {
	struct task task;
	struct pf_command *command; /* until it is answered */
};

static struct command_task *command_of(struct task *task)
{
	return pf_container_of(task, struct command_task, task);
}

static bool command_cancelled(struct task *task)
{
	return command_of(task)->command->cancelled;
}

static void command_answer(struct task *task, const struct pf_err *err,
			   struct json_object *reply)
{
	struct command_task *c = command_of(task);
	const char *no_memory = task->people ? "error: ENOMEM: no memory for the reply"
					     : PF_NO_MEMORY_LINE;
	pf_autobuf struct pf_buf line = PF_BUF_INIT;
	struct pf_err lost = PF_ERR_INIT;

	if (task->people)
		print_reply(reply, &line);
	else
		pf_buf_puts(&line, reply ? pf_json_text(reply) : NULL);
	if (line.failed) {
		pf_err_set(&lost, -ENOMEM, "no memory for the reply");
		pf_command_done(c->command, &lost, no_memory, strlen(no_memory));
	} else {
		pf_command_done(c->command, err, line.data, line.len);
	}
	json_object_put(reply);
}

static void command_free(struct task *task)
{
	free(command_of(task));
}

static const struct task_ops command_ops = { .cancelled = command_cancelled,
					     .answer = command_answer,
					     .free = command_free };

struct task *command_task_new(struct pf_command *command, bool json)
{
	struct command_task *c = calloc(1, sizeof(*c));
	struct pf_err err = PF_ERR_INIT;

	if (!c) {
		pf_err_set(&err, -ENOMEM, "no memory for a command");
		pf_command_fail(command, &err);
		return NULL;
	}
	task_init(&c->task, &command_ops, command->of->node, &command->of->cred);
	c->command = command;
	c->task.people = !json;
	atomic_store(&command->user, &c->task);
	return &c->task;
}

void command_task_left(struct pf_command *command)
{
	struct task *t = atomic_load(&command->user);

	if (t)
		task_client_gone(t);
}
