/* SPDX-License-Identifier: Apache-2.0 */
/* executables/NAME/run: executes the program as a line says. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "execute.h"
#include "files/jobs/jobs.h"
#include "pjrtfs/json.h"

static int parse_run(const char *text, struct exec_spec *request, struct task *task,
		     bool *json, struct pf_err *err)
{
	static const char *const others[] = { NULL };
	struct json_object *o;
	int r;

	*json = text[strspn(text, " \t")] == '{';
	if (!*json)
		return exec_spec_parse_line(text, request, err);
	r = pf_json_parse(text, strlen(text), &o, err);
	if (r < 0)
		return r;
	r = exec_spec_parse(o, others, request, err);
	task_set_id(task, o);
	json_object_put(o);
	return r;
}

struct run_task {
	struct task task;
	struct pf_command *command; /* until it was answered */
	bool json;                  /* the request and the answer are JSON */
};

static struct run_task *run_of(struct task *task)
{
	return pf_container_of(task, struct run_task, task);
}

static bool run_cancelled(struct task *task)
{
	return pf_command_cancelled(run_of(task)->command);
}

static void run_answer(struct task *task, int code, struct json_object *reply)
{
	struct run_task *run = run_of(task);
	pf_autobuf struct pf_buf line = PF_BUF_INIT;

	if (run->json)
		pf_buf_puts(&line, pf_json_text(reply));
	else
		reply_print(reply, &line);
	pf_command_done(run->command, code, line.data ? line.data : "", line.len);
	json_object_put(reply);
}

static void run_free(struct task *task)
{
	free(run_of(task));
}

static const struct task_ops run_ops = { .cancelled = run_cancelled,
					 .answer = run_answer,
					 .free = run_free };

/* A run that becomes a job. */
struct run_later {
	struct program *program;
	const char *name;
	struct exec_spec *request;
};

static int run_as_job(struct task *job, void *arg, struct pf_err *err)
{
	struct run_later *later = arg;
	uint64_t ms = later->request->timeout_ms;
	int r = ms ? task_set_timeout(job, ms, files_late(later->request->repeat), err)
		   : 0;

	if (r < 0)
		return r;
	files_execute(job, later->program, later->name, later->request, false);
	return 0;
}

static int start_run(struct program *program, const char *name, struct exec_spec *request,
		     struct task *task, const char *text, struct pf_err *err)
{
	struct run_later later = { program, name, request };
	int r = 0;

	if (request->async)
		return job_start(task, text, run_as_job, &later, err);
	if (request->timeout_ms)
		r = task_set_timeout(task, request->timeout_ms,
				     files_late(request->repeat), err);
	if (r == 0)
		files_execute(task, program, name, request, true);
	return r;
}

static void run_command(struct pf_command *command)
{
	struct pf_node *node = command->of->node;
	struct program *program = node->object;
	pf_autobuf struct pf_buf name = PF_BUF_INIT;
	struct run_task *run = calloc(1, sizeof(*run));
	struct exec_spec request = { .repeat = 0 };
	struct pf_err err = PF_ERR_INIT;
	int r;

	if (!run) {
		pf_command_done(command, -ENOMEM, "error: ENOMEM", 13);
		return;
	}
	task_init(&run->task, &run_ops, node, &command->of->cred);
	run->command = command;
	atomic_store(&command->user, &run->task);
	files_program_name(program, &name);
	r = parse_run(command->text, &request, &run->task, &run->json, &err);
	if (r < 0)
		pf_err_wrap(&err, r, "%s", name.data);
	if (r == 0 && !files_program_may(program, &command->of->cred, R_OK))
		r = pf_err_set(&err, -EACCES, "%s: permission denied", name.data);
	if (r == 0)
		r = start_run(program, name.data, &request, &run->task, command->text,
			      &err);
	if (r < 0)
		task_fail(&run->task, &err);
	exec_spec_release(&request);
}

static void run_gone(struct pf_node *node)
{
	program_unref(node->object);
}

const struct pf_kind kind_run = { .name = "run",
				  .mode = S_IFREG | 0666,
				  PF_CONTROL,
				  .command = run_command,
				  .left = task_command_left,
				  .free = run_gone };
