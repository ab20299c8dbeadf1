/* SPDX-License-Identifier: Apache-2.0 */
/* control: JSON commands. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "files/execute/execute.h"
#include "files/jobs/jobs.h"
#include "files/programs/programs.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"
#include "pjrtfs/stream.h"

/* --- delete, stat ------------------------------------------------------------------- */

static int op_delete(struct task *task, struct json_object *o, struct pf_err *err)
{
	const struct device *device;
	const char *name;
	const struct command_key keys[] = {
		{ "buffer", .string = &name },
		{ "device", .device = &device },
		{ 0 },
	};
	int r = command_parse(task->fs, o, keys, err);

	if (r == 0)
		r = files_remove_buffer(device, name, &task->cred, err);
	if (r == 0)
		task_done(task, NULL, reply_new());
	return r;
}

static int op_stat(struct task *task, struct json_object *o, struct pf_err *err)
{
	const char *buffer = NULL, *executable = NULL;
	const struct device *device;
	const struct command_key keys[] = {
		{ "buffer", .string = &buffer, .optional = true },
		{ "executable", .string = &executable, .optional = true },
		{ "device", .device = &device },
		{ 0 },
	};
	PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *b = NULL;
	PF_CLEANUP(program_unrefp) struct program *program = NULL;
	struct json_object *reply;
	int r = command_parse(task->fs, o, keys, err);

	if (r < 0)
		return r;
	if (!buffer == !executable)
		return pf_err_set(err, -EINVAL,
				  "expected \"buffer\" or \"executable\", found %s",
				  buffer ? "both" : "neither");
	if (executable)
		r = files_find_program(task->fs, executable, &task->cred, &program, err);
	else
		r = files_find_buffer(device, buffer, &task->cred, R_OK, &b, err);
	if (r < 0)
		return r;
	reply = reply_new();
	if (executable)
		pf_json_add(reply, "executable", pf_executable_json(program->x));
	else
		pf_json_add(reply, "buffer", pf_buffer_json(b, buffer));
	task_done(task, NULL, reply);
	return 0;
}

#define DROPPED "what it would have made is dropped"

/* --- which op ----------------------------------------------------------------------- */

static command_op op_batch, op_list;

#define STEPS_AT_TIMEOUT "the steps that had begun go on, the others do not begin"

static const struct {
	const char *name;
	command_op *run;
	bool begins;            /* it calls task_began by itself */
	const char *at_timeout; /* what happens to it then; NULL: files_at_timeout */
	bool lists;             /* "buffers" may replace "buffer" */
} ops[] = {
	{ "execute", op_execute, true, NULL, false },
	{ "compile", op_compile, false, "the compile goes on", false },
	{ "create", op_create, false, DROPPED, false },
	{ "delete", op_delete, false, DROPPED, true },
	{ "stat", op_stat, false, DROPPED, false },
	{ "batch", op_batch, true, STEPS_AT_TIMEOUT, false },
	{ "wait", op_wait, false, "the job goes on", false },
	{ "cancel", op_cancel, false, DROPPED, false },
	{ "copy", op_copy, false, DROPPED, true },
	{ "shard", op_shard, false, DROPPED, true },
	{ "gather", op_gather, false, DROPPED, true },
	{ "reshard", op_reshard, false, DROPPED, true },
	{ "assemble", op_assemble, false, DROPPED, true },
	{ "register", op_register, false, "the registration goes on", false },
	{ "send", op_send, false, "the other process gets the array if it has come",
	  false },
	{ "receive", op_receive, false, DROPPED, false },
	{ "settle", op_settle, false, "what it waits for goes on", false },
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

static command_op command_run;

/* As job_start wants it. */
static int run_as_job(struct task *job, void *arg, struct pf_err *err)
{
	return command_run(job, arg, err);
}

/* Find the op that O names and run it, as a job if it says "async". */
static int command_run(struct task *task, struct json_object *o, struct pf_err *err)
{
	const char *name;
	uint64_t timeout = 0, repeat = 1;
	bool async = false, list;
	int r = command_string(o, "op", &name, err);
	size_t i = 0;

	if (r == 0)
		r = command_bool(o, "async", &async, err);
	if (r == 0)
		r = command_number(o, "timeout_ms", 1, EXEC_MAX_TIMEOUT, &timeout, err);
	if (r < 0)
		return r;
	while (i < sizeof(ops) / sizeof(ops[0]) && strcmp(ops[i].name, name))
		i++;
	if (i == sizeof(ops) / sizeof(ops[0]))
		return unknown_op(name, err);
	if (ops[i].run == op_batch && task->whole)
		return pf_err_set(err, -EINVAL, "a batch within a batch");
	if (async) {
		pf_autofree char *text = pf_json_text_copy(o);

		if (!text)
			return pf_err_set(err, -ENOMEM, "no memory for a job");
		json_object_object_del(o, "async");
		return job_start(task, text, run_as_job, o, err);
	}
	list = ops[i].lists && json_object_object_get_ex(o, "buffers", NULL);
	if (timeout)
		r = command_number(o, "repeat", 1, EXEC_MAX_REPEAT, &repeat, err);
	if (r == 0 && timeout)
		r = task_set_timeout(task, timeout,
				     list                ? STEPS_AT_TIMEOUT
				     : ops[i].at_timeout ? ops[i].at_timeout
							 : files_at_timeout(repeat),
				     err);
	if (r == 0 && !ops[i].begins && !list)
		task_began(task);
	if (r == 0)
		r = (list ? op_list : ops[i].run)(task, o, err);
	return r < 0 ? pf_err_wrap(err, r, "%s", ops[i].name) : 0;
}

/* --- the file ----------------------------------------------------------------------- */

static void control_command(struct pf_command *command)
{
	/* COMMAND may be gone before command_run returns. */
	struct json_object *o = pf_steal(&command->json);
	struct task *task = command_task_new(command, true);
	struct pf_err err = PF_ERR_INIT;

	if (task && (task_set_id(task, o, &err) < 0 || command_run(task, o, &err) < 0))
		task_fail(task, &err);
	json_object_put(o);
}

const struct pf_kind kind_control = {
	.name = "control",
	.mode = S_IFREG | 0666,
	.json = true,
	PF_CONTROL,
	.command = control_command,
	.left = command_task_left,
};

/* The op "batch": commands in order, in one round trip; and commands of several buffers, which are
 * batches of that command for each. */

enum {
	MAX_STEPS = 100000,
	MAX_REPLIES = 8 << 20, /* bytes of all of them */
};

/*
 * One step runs after the other, each as a task of its own.  A step may be answered
 * before the call that began it returns, or later, on another thread: the later of the
 * two begins the next step, so that many steps need no deep stack.
 */
struct batch {
	struct task *task;          /* the whole batch */
	struct json_object *steps;  /* owned: the list; of names, if there is common */
	struct json_object *common; /* owned, or NULL: the other keys of a list's steps */
	struct pf_buf replies;      /* their texts, after a bracket and commas */
	size_t at;                  /* the first step that was not answered */
	_Atomic unsigned under_way; /* of its answer and the call that began it */
	struct pf_err err;          /* the failure; code 0: none yet */
};

struct step {
	struct task task;
	struct batch *batch;
};

static void go_on(struct batch *b);

static struct step *step_of(struct task *task)
{
	return pf_container_of(task, struct step, task);
}

static bool step_cancelled(struct task *task)
{
	return task_cancelled(step_of(task)->batch->task);
}

/* Keep the step's REPLY as text, which is a tenth as large as the object; ERR: it failed. */
static void keep(struct batch *b, const struct pf_err *err, struct json_object *reply)
{
	pf_buf_puts(&b->replies, b->replies.len ? "," : "[");
	pf_buf_puts(&b->replies, reply ? pf_json_text(reply) : NULL);
	b->at++;
	task_progress(b->task, b->at, json_object_array_length(b->steps));
	if (err)
		pf_err_set(&b->err, err->code, "%s", err->text);
	else if (b->replies.failed)
		pf_err_set(&b->err, -ENOMEM, "no memory for its reply");
	else if (b->replies.len > MAX_REPLIES)
		pf_err_set(&b->err, -E2BIG, "the replies have more than %d bytes",
			   MAX_REPLIES);
	json_object_put(reply);
}

/* The step was answered, or the call that began it returns: true for the later of the
 * two. */
static bool was_last(struct batch *b)
{
	return atomic_fetch_sub(&b->under_way, 1) == 1;
}

static void step_answer(struct task *task, const struct pf_err *err,
			struct json_object *reply)
{
	struct batch *b = step_of(task)->batch;

	keep(b, err, reply);
	if (was_last(b))
		go_on(b);
}

static void step_free(struct task *task)
{
	free(step_of(task));
}

static const struct task_ops step_ops = { .cancelled = step_cancelled,
					  .answer = step_answer,
					  .free = step_free };

static struct step *step_new(struct batch *b)
{
	struct step *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	task_init(&s->task, &step_ops, b->task->file, &b->task->cred);
	s->task.whole = task_ref(b->task);
	s->batch = b;
	return s;
}

/* Has V, under KEY of a command of several buffers, an element for each? */
static bool has_one_each(const char *key, struct json_object *v)
{
	return (!strcmp(key, "as") || !strcmp(key, "sharding")) &&
	       json_object_is_type(v, json_type_array);
}

/* --- one after the other ------------------------------------------------------------ */

/* The list of replies, as an object that prints their text, which it takes. */
static struct json_object *list_replies(struct batch *b)
{
	struct json_object *list;

	pf_buf_puts(&b->replies, b->replies.len ? "]" : "[]");
	if (b->replies.failed)
		return json_object_new_array();
	list = json_object_new_object();
	if (list)
		json_object_set_serializer(list, json_object_userdata_to_json_string,
					   pf_steal(&b->replies.data),
					   json_object_free_userdata);
	return list;
}

static void finish(struct batch *b, const struct pf_err *err)
{
	struct json_object *o = err ? reply_failure(err) : reply_new();

	pf_json_add(o, "replies", list_replies(b));
	task_done(b->task, err, o);
	json_object_put(b->steps);
	json_object_put(b->common);
	pf_buf_release(&b->replies);
	free(b);
}

/* The next step's command, with a reference. */
static struct json_object *next_step(const struct batch *b)
{
	struct json_object *step = json_object_array_get_idx(b->steps, b->at), *o;

	if (!b->common)
		return json_object_get(step);
	o = json_object_new_object();
	pf_json_add(o, "buffer", json_object_get(step));
	json_object_object_foreach(b->common, key, v) {
		if (has_one_each(key, v))
			v = json_object_array_get_idx(v, b->at);
		pf_json_add(o, key, json_object_get(v));
	}
	return o;
}

/* Begin the next step; true if it was answered already. */
static bool step_once(struct batch *b)
{
	struct json_object *o;
	struct step *s = step_new(b);
	struct pf_err err = PF_ERR_INIT;
	int r;

	if (!s) {
		pf_err_set(&err, -ENOMEM, "no memory for a step");
		keep(b, &err, reply_failure(&err));
		return true;
	}
	o = next_step(b);
	task_runs_at(b->task, NULL, NULL); /* the previous step has ended */
	task_ref(&s->task);
	atomic_store(&b->under_way, 2); /* the answer, and this call */
	if (b->common && !pf_json_complete(o)) {
		r = pf_err_set(&err, -ENOMEM, "no memory for a step");
	} else if (json_object_is_type(o, json_type_object)) {
		r = task_set_id(&s->task, o, &err);
		if (r == 0)
			r = command_run(&s->task, o, &err);
	} else {
		r = pf_err_set(&err, -EINVAL, "expected a JSON object");
	}
	if (r < 0)
		task_fail(&s->task, &err);
	task_unref(&s->task);
	json_object_put(o); /* before another thread uses the other steps */
	return was_last(b);
}

static void go_on(struct batch *b)
{
	struct pf_err err = PF_ERR_INIT;

	while (b->err.code == 0 && b->at < json_object_array_length(b->steps)) {
		if (task_cancelled(b->task)) {
			pf_err_set(&err, -ECANCELED, "%s: cancelled before step %zu",
				   b->common ? "list" : "batch", b->at);
			finish(b, &err);
			return;
		}
		if (!step_once(b))
			return; /* the step's answer calls go_on */
	}
	if (b->err.code < 0)
		pf_err_set(&err, b->err.code,
			   b->common ? "\"buffers\", element %zu: %s"
				     : "batch: step %zu: %s",
			   b->at - 1, b->err.text);
	finish(b, err.code < 0 ? &err : NULL);
}

/* Run STEPS, with the keys COMMON for a list; both are taken. */
static int begin_steps(struct task *task, struct json_object *steps,
		       struct json_object *common, struct pf_err *err)
{
	struct batch *b = calloc(1, sizeof(*b));

	if (!b) {
		json_object_put(steps);
		json_object_put(common);
		return pf_err_set(err, -ENOMEM, "no memory for a batch");
	}
	b->task = task;
	b->steps = steps;
	b->common = common;
	task_progress(task, 0, json_object_array_length(steps));
	go_on(b);
	return 0;
}

/* The list under KEY of O, in *RET.  -EINVAL: it is none; -E2BIG. */
static int get_steps(struct json_object *o, const char *key, const char *of,
		     struct json_object **ret, struct pf_err *err)
{
	if (!json_object_object_get_ex(o, key, ret) ||
	    !json_object_is_type(*ret, json_type_array))
		return pf_err_set(err, -EINVAL, "\"%s\": expected a list of %s", key, of);
	if (json_object_array_length(*ret) > MAX_STEPS)
		return pf_err_set(err, -E2BIG, "\"%s\": more than %d", key, MAX_STEPS);
	return 0;
}

static int op_batch(struct task *task, struct json_object *o, struct pf_err *err)
{
	const struct command_key keys[] = { { .key = "steps" }, { 0 } };
	struct json_object *steps;
	int r = command_parse(task->fs, o, keys, err);

	if (r == 0)
		r = get_steps(o, "steps", "commands", &steps, err);
	if (r < 0)
		return r;
	/* Taken out of O: json-c counts references without locks. */
	json_object_get(steps);
	json_object_object_del(o, "steps");
	return begin_steps(task, steps, NULL, err);
}

static int check_no_null(const char *key, struct json_object *list, struct pf_err *err)
{
	for (size_t i = 0; i < json_object_array_length(list); i++)
		if (!json_object_array_get_idx(list, i))
			return pf_err_set(err, -EINVAL, "\"%s\", element %zu: found null",
					  key, i);
	return 0;
}

/* Check V, under KEY of a command of N buffers. */
static int check_common(const char *key, struct json_object *v, size_t n,
			struct pf_err *err)
{
	if (!strcmp(key, "buffer"))
		return pf_err_set(err, -EINVAL,
				  "\"buffer\" and \"buffers\" exclude each other");
	if (!v)
		return pf_err_set(err, -EINVAL, "\"%s\": found null", key);
	if (!strcmp(key, "as") && n > 1 && !has_one_each(key, v))
		return pf_err_set(err, -EINVAL,
				  "\"as\": expected a list of %zu names, one for each of "
				  "\"buffers\", found %.64s",
				  n, json_object_to_json_string(v));
	if (!has_one_each(key, v))
		return 0;
	if (json_object_array_length(v) != n)
		return pf_err_set(err, -EINVAL,
				  "\"%s\": expected %zu elements, one for each of "
				  "\"buffers\", found %zu",
				  key, n, json_object_array_length(v));
	return check_no_null(key, v, err);
}

/* Take the keys that the steps for each of "buffers" have out of O, to COMMON. */
static int take_common(struct json_object *o, size_t n, struct json_object *common,
		       struct pf_err *err)
{
	static const char *const whole[] = { "buffers", "id", "async", "timeout_ms",
					     NULL };

	json_object_object_foreach(o, key, v) {
		size_t i = 0;
		int r;

		while (whole[i] && strcmp(whole[i], key))
			i++;
		if (whole[i])
			continue;
		r = check_common(key, v, n, err);
		if (r < 0)
			return r;
		pf_json_add(common, key, json_object_get(v));
	}
	if (!pf_json_complete(common))
		return pf_err_set(err, -ENOMEM, "no memory for a batch");
	json_object_object_foreach(common, taken, value) {
		(void)value;
		json_object_object_del(o, taken);
	}
	return 0;
}

/* A command with "buffers": the same command for each of them, in order. */
static int op_list(struct task *task, struct json_object *o, struct pf_err *err)
{
	struct json_object *names, *common;
	int r = get_steps(o, "buffers", "names", &names, err);

	if (r == 0)
		r = check_no_null("buffers", names, err);
	if (r < 0)
		return r;
	common = json_object_new_object();
	r = take_common(o, json_object_array_length(names), common, err);
	if (r < 0) {
		json_object_put(common);
		return r;
	}
	json_object_get(names);
	json_object_object_del(o, "buffers");
	return begin_steps(task, names, common, err);
}
