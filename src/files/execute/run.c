/* SPDX-License-Identifier: Apache-2.0 */
/* executables/NAME/run: executes the program as a line says. */
#include <errno.h>
#include <string.h>

#include "execute.h"
#include "files/jobs/jobs.h"
#include "pjrtfs/json.h"
#include "pjrtfs/stream.h"

/* A run that begins, perhaps as a job. */
struct run {
	struct program *program;
	struct pf_buf name; /* owned: the program's */
	struct exec_spec spec;
};

/* In bind "*" stands for what a call gives; here it would become the name of a file. */
static int parse_line(const char *text, struct exec_spec *spec, struct pf_err *err)
{
	int r = exec_spec_parse_line(text, spec, err);

	for (size_t i = 0; r == 0 && i < spec->outputs.at->n; i++)
		if (!strcmp(spec->outputs.at->at[i], "*"))
			r = pf_err_set(err, -EINVAL,
				       "output %zu: expected a name, found *, which is "
				       "for bind",
				       i);
	return r;
}

static int parse(struct task *task, const char *text, bool json, struct exec_spec *spec,
		 struct pf_err *err)
{
	struct json_object *o;
	int r;

	if (!json)
		return parse_line(text, spec, err);
	r = pf_json_parse(text, strlen(text), &o, err);
	if (r < 0)
		return r;
	r = task_set_id(task, o, err);
	if (r == 0)
		r = exec_spec_parse(o, false, spec, err);
	json_object_put(o);
	return r;
}

static int start(struct task *task, void *arg, struct pf_err *err)
{
	struct run *run = arg;
	struct exec_spec *spec = &run->spec;
	int r = 0;

	if (spec->timeout_ms)
		r = task_set_timeout(task, spec->timeout_ms,
				     files_at_timeout(spec->repeat), err);
	if (r == 0)
		files_execute(task, run->program, run->name.data, spec, !spec->async);
	return r;
}

static void run_command(struct pf_command *command)
{
	const char *text = command->text;
	bool json = text[strspn(text, " \t")] == '{';
	struct run run = { command->of->node->object, PF_BUF_INIT, { .repeat = 0 } };
	struct task *task = command_task_new(command, json);
	struct pf_err err = PF_ERR_INIT;
	int r;

	if (!task)
		return;
	files_program_name(run.program, &run.name);
	r = run.name.failed ? pf_err_set(&err, -ENOMEM, "no memory for a command")
			    : parse(task, text, json, &run.spec, &err);
	if (r < 0 && run.name.data)
		pf_err_wrap(&err, r, "%s", run.name.data);
	if (r == 0 && !files_program_may(run.program, &task->cred, R_OK))
		r = pf_err_set(&err, -EACCES, "%s: permission denied", run.name.data);
	if (r == 0)
		r = run.spec.async ? job_start(task, text, start, &run, &err)
				   : start(task, &run, &err);
	if (r < 0)
		task_fail(task, &err);
	pf_buf_release(&run.name);
	exec_spec_release(&run.spec);
}

const struct pf_kind kind_run = { .name = "run",
				  .mode = S_IFREG | 0666,
				  PF_CONTROL,
				  .command = run_command,
				  .left = command_task_left,
				  .free = program_node_free };
