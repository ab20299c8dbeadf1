/* SPDX-License-Identifier: Apache-2.0 */
/* The op "compile": compile a program again, perhaps under another name. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command.h"
#include "files/jobs/jobs.h"
#include "files/programs/programs.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"

/* One compile that a command waits for. */
struct compilation {
	struct pf_wait waiter;
	struct task *task;       /* answered at the end */
	struct program *program; /* owned reference */
	char *name;              /* owned: the executable's, as the command has it */
	bool fresh;              /* made by "as": removed if the compile fails */
	struct timespec start;
};

static void compilation_free(struct compilation *c)
{
	program_unref(c->program);
	free(c->name);
	free(c);
}

static void compilation_end(struct compilation *c, int r, struct pf_err *err)
{
	struct json_object *reply;

	if (r < 0 && c->fresh)
		files_drop_executable(c->program);
	if (r < 0) {
		pf_err_wrap(err, r, "compile: %s", c->name);
		task_fail(c->task, err);
	} else {
		reply = reply_new();
		pf_json_add_string(reply, "executable", c->name);
		pf_json_add_seconds(reply, "seconds",
				    pf_seconds_since(CLOCK_MONOTONIC, &c->start));
		task_done(c->task, NULL, reply);
	}
	compilation_free(c);
}

static void compilation_wake(struct pf_wait *waiter)
{
	struct compilation *c = pf_container_of(waiter, struct compilation, waiter);
	struct pf_err err = PF_ERR_INIT;
	int r = pf_executable_result(c->program->x, &err);

	compilation_end(c, r, &err);
}

/* Append "options", if the command has any, as the text of options.json. */
static int get_options(struct json_object *o, struct pf_buf *ret, struct pf_err *err)
{
	struct json_object *options;

	if (!json_object_object_get_ex(o, "options", &options))
		return 0;
	if (!json_object_is_type(options, json_type_object))
		return pf_err_set(err, -EINVAL, "\"options\": expected an object");
	pf_json_print_line(options, ret);
	return ret->failed ? -ENOMEM : 0;
}

/* Compile the program's own executable, for which CRED needs W_OK on the program. */
static int compile_own(struct program *program, const char *name,
		       const struct pf_cred *cred, const struct pf_buf *options,
		       struct pf_err *err)
{
	if (!files_program_may(program, cred, W_OK))
		return pf_err_set(err, -EACCES, "%s: permission denied", name);
	if (!options->len)
		return files_may_compile(program, cred->uid, err);
	return pf_executable_set_options(program->x, options->data, options->len, false,
					 err);
}

/* Make MADE the executable called AS, of the source of PROGRAM. */
static int compile_as(struct program *made, struct program *program, const char *as,
		      const struct pf_cred *cred, const struct pf_buf *options,
		      struct pf_err *err)
{
	int r = pf_executable_copy_source(made->x, program->x, err);

	if (r == 0 && options->len)
		r = pf_executable_set_options(made->x, options->data, options->len, false,
					      err);
	return r < 0 ? r : files_add_as(made->fs, as, program, made, cred, err);
}

/* Set C->program to the one to compile, with a reference, and C->name, also after an error. */
static int prepare(struct compilation *c, const char *source, const char *as,
		   const struct pf_buf *options, struct pf_err *err)
{
	const struct pf_cred *cred = &c->task->cred;
	PF_CLEANUP(program_unrefp) struct program *program = NULL;
	struct pf_fs *fs = c->task->fs;
	int r = files_may_set(fs, cred->uid, options->data, err);

	if (r == 0)
		r = files_find_source(fs, source, cred, &program, err);
	if (r < 0)
		return r;
	c->name = as ? strdup(as) : files_stem_of(source);
	if (!c->name)
		return pf_err_set(err, -ENOMEM, "no memory for an executable");
	if (as)
		r = program_new(fs, cred->uid, &c->program, err);
	else
		c->program = program_ref(program);
	if (r < 0)
		return r;
	return as ? compile_as(c->program, program, as, cred, options, err)
		  : compile_own(program, source, cred, options, err);
}

int op_compile(struct task *task, struct json_object *o, struct pf_err *err)
{
	const char *source, *as = NULL;
	const struct command_key keys[] = {
		{ "program", .string = &source },
		{ "as", .string = &as, .optional = true },
		{ .key = "options" },
		{ 0 },
	};
	pf_autobuf struct pf_buf options = PF_BUF_INIT;
	struct compilation *c;
	int r = command_parse(task->fs, o, keys, err);

	if (r == 0)
		r = get_options(o, &options, err);
	if (r < 0)
		return r;
	c = calloc(1, sizeof(*c));
	if (!c)
		return pf_err_set(err, -ENOMEM, "no memory for a command");
	c->task = task;
	c->fresh = as != NULL;
	clock_gettime(CLOCK_MONOTONIC, &c->start);
	r = prepare(c, source, as, &options, err);
	if (r < 0) {
		compilation_free(c);
		return r;
	}
	c->waiter.wake = compilation_wake;
	task_runs_at(task, pf_executable_worker(c->program->x), c->program->x);
	r = pf_executable_compile(c->program->x, &c->waiter, err);
	if (r > 0)
		r = pf_executable_no_source(err);
	if (r < 0)
		compilation_end(c, r, err);
	return 0;
}
