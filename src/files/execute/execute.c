/* SPDX-License-Identifier: Apache-2.0 */
/* Execute a program on named buffers, and put its results under names. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/json.h"

/* The reply to an execution. */

static struct json_object *describe(const char *name, const struct pf_value *v,
				    const struct device *device)
{
	const struct pf_array_type type = pf_value_type(v);
	struct json_object *o = json_object_new_object();

	pf_json_add_string(o, "name", name);
	pf_json_add_string(o, "dtype", pf_dtype_name(type.dtype));
	pf_json_add(o, "shape", pf_shape_json(type.shape));
	pf_json_add_string(o, "device", device->name);
	return o;
}

static struct json_object *describe_row(const struct named_exec *run,
					const struct pf_execution *e, size_t row)
{
	struct json_object *list = json_object_new_array();
	const struct row *at = &run->rows[row];

	for (size_t i = 0; i < run->n_out; i++)
		pf_json_append(list,
			       describe(at->outputs.at[i],
					e->outs[row * run->n_out + i].value, at->device));
	return list;
}

/* How arrays became inputs: "by name", or, if those of a directory did not, "by position"; NULL: arrays
 * of no directory, in their order. */
static const char *order_of(const struct named_exec *run)
{
	const char *order = NULL;

	for (size_t i = 0; i < run->n_rows; i++)
		for (size_t k = 0; k < run->rows[i].n_words; k++) {
			const struct line_word *w = &run->rows[i].words[k];

			if (w->skip && w->n && !w->by_name)
				return "by position";
			if (w->by_name)
				order = "by name";
		}
	return order;
}

/* The reply to an execution whose last repetition was E. */
static struct json_object *run_reply(const struct named_exec *run,
				     const struct pf_execution *e)
{
	struct json_object *o = reply_new(), *rows = NULL;
	const char *order = order_of(run);

	if (run->n_rows > 1)
		rows = json_object_new_array();
	for (size_t i = 0; rows && i < run->n_rows; i++)
		pf_json_append(rows, describe_row(run, e, i));
	pf_json_add(o, "outputs", rows ? rows : describe_row(run, e, 0));
	if (order)
		pf_json_add_string(o, "order", order);
	if (run->spec.repeat > 1)
		pf_json_add_int(o, "repeat", (int64_t)run->spec.repeat);
	pf_json_add_seconds(o, "seconds", run->seconds);
	pf_json_add_seconds(o, "device_seconds", run->device_seconds);
	pf_json_add_seconds(o, "transfer_seconds", run->transfer_seconds);
	pf_json_add_seconds(o, "queue_seconds", run->queue_seconds);
	return o;
}

/* The same for people: "ok: z F32[3] on cpu:0 in 0.000096 s, by name".  Most replies are such lines; as
 * objects first they would take a tenth of a short run. */
static struct json_object *run_line(const struct named_exec *run,
				    const struct pf_execution *e)
{
	pf_autobuf struct pf_buf line = PF_BUF_INIT;
	const char *order = order_of(run);
	uint64_t us = (uint64_t)(run->seconds * 1e6 + 0.5);
	char shape[PF_SHAPE_TEXT];

	pf_buf_puts(&line, "ok:");
	for (size_t i = 0; i < e->n_outs; i++) {
		const struct row *at = &run->rows[i / run->n_out];
		const struct pf_array_type type = pf_value_type(e->outs[i].value);
		bool last = (i + 1) % run->n_out == 0;

		pf_buf_printf(&line, " %s %s%s%s%s", at->outputs.at[i % run->n_out],
			      pf_shape_str(shape, sizeof(shape), type.dtype, type.shape),
			      last ? " on " : ",", last ? at->device->name : "",
			      last && i + 1 < e->n_outs ? ";" : "");
	}
	pf_buf_printf(&line, " in %" PRIu64 ".%06" PRIu64 " s%s%s", us / 1000000,
		      us % 1000000, order ? ", " : "", order ? order : "");
	return line.failed ? NULL : json_object_new_string_len(line.data, (int)line.len);
}

/* The results have their names, or never will: nothing is being replaced. */
static void forget_replaced(struct named_exec *run)
{
	for (size_t i = 0; run->replaced && i < run->n_rows * run->n_in; i++) {
		struct pf_value *v = run->replaced[i];

		if (!v)
			continue;
		pf_value_replaces(v, false);
		if (run->consumed)
			pf_buffer_forget_donated(run->buffers[i], v);
		pf_value_unref(v);
	}
	free(pf_steal(&run->replaced));
}

static void run_free(struct named_exec *run)
{
	forget_replaced(run);
	for (size_t i = 0; run->rows && i < run->n_rows; i++) {
		names_release(&run->rows[i].inputs);
		names_release(&run->rows[i].outputs);
		free(run->rows[i].words);
		free(run->rows[i].directory);
	}
	for (size_t i = 0; run->targets && i < run->n_rows * run->n_out; i++)
		files_target_release(&run->targets[i]);
	for (size_t i = 0; run->buffers && i < run->n_rows * run->n_in; i++)
		pf_buffer_unref(run->buffers[i]);
	free(run->rows);
	free(run->targets);
	free(run->donated);
	free(run->buffers);
	free(run->devices);
	pf_loaded_unref(run->loaded);
	pf_node_unref(run->mesh_node);
	program_unref(run->program);
	free(run->name);
	exec_spec_release(&run->spec);
	free(run);
}

static void run_fail(struct named_exec *run, struct pf_err *err)
{
	task_fail(run->task, err);
	run_free(run);
}

/* --- the end ------------------------------------------------------------------------------ */

int files_put_value_locked(struct target *target, struct pf_value *value,
			   const char *made_by, const struct pf_cred *cred,
			   struct pf_err *err)
{
	PF_CLEANUP(pf_buffer_unrefp)
	struct pf_buffer *b = pf_buffer_of_value(&files_device_of(target->dir)->location,
						 value, made_by);

	if (!b)
		return pf_err_set(err, -ENOMEM, "no memory for a buffer");
	return files_put_buffer_locked(target, b, PF_FORMAT_NPY, cred, false, err);
}

/* Give every result its name, all at once. */
static int publish(struct named_exec *run, struct pf_execution *e, struct pf_err *err)
{
	int r = run_make_directories(run, err);

	if (r < 0)
		return pf_err_wrap(err, r, "%s", run->name);
	PF_NAMES_SCOPE(run->task->fs->tree);
	for (size_t i = 0; i < e->n_outs && r == 0; i++)
		r = files_check_target_locked(&run->targets[i], err);
	if (r == 0)
		r = run_put_shardings_locked(run, e, err);
	for (size_t i = 0; i < e->n_outs && r == 0; i++)
		r = files_put_value_locked(&run->targets[i], e->outs[i].value, run->name,
					   &run->task->cred, err);
	return r < 0 ? pf_err_wrap(err, r, "%s", run->name) : 0;
}

/*
 * A repetition failed, or was cancelled: name the results that earlier repetitions made
 * of consumed inputs, so that they are not lost.
 */
static void keep_state(struct named_exec *run, struct pf_execution *e, struct pf_err *err)
{
	bool kept = false;

	pf_tree_lock_names(run->task->fs->tree);
	for (size_t i = 0; i < e->n_args; i++) {
		size_t row = i / run->n_in, k = row * run->n_out + e->args[i].carry;

		if (e->args[i].carry != PF_NO_CARRY &&
		    files_put_value_locked(&run->targets[k],
					   pf_execution_next_value(e, i), run->name,
					   &run->task->cred, NULL) == 0)
			kept = true;
	}
	pf_tree_unlock_names(run->task->fs->tree);
	if (err->code == -ECANCELED)
		pf_err_set(err, -ECANCELED, "%s: cancelled", run->name);
	pf_err_wrap(err, err->code, "after %" PRIu64 " of %" PRIu64 " repetitions%s",
		    run->done, run->spec.repeat,
		    kept ? ", whose state is kept under its names" : "");
}

static void start(struct named_exec *run, struct pf_execution *e);

/* The first repetition has ended: forget the arrays that it consumed and no result
 * replaces. */
static void note_consumed(struct named_exec *run, const struct pf_execution *e)
{
	for (size_t i = 0; i < e->n_args; i++) {
		const struct pf_exec_arg *arg = &e->args[i];

		if (!arg->donate)
			continue;
		run->consumed = true;
		if (arg->carry == PF_NO_CARRY)
			pf_buffer_forget_donated(run->buffers[i], arg->value);
	}
}

static void run_done(struct pf_execution *e, int code, const struct pf_err *why)
{
	struct named_exec *run = e->user;
	struct pf_execution *next;
	struct pf_err err = PF_ERR_INIT;

	if (code < 0)
		err = *why;
	task_executes(run->task, NULL, NULL);
	run->seconds += e->seconds;
	run->queue_seconds += e->queue_seconds;
	run->device_seconds += e->device_seconds;
	run->transfer_seconds += e->transfer_seconds;
	if (e->runs && run->done == 0)
		note_consumed(run, e);
	run->done += e->runs;
	if (code == 0 && run->done < run->spec.repeat) {
		next = pf_execution_next(e);
		if (next) {
			pf_execution_free(e);
			start(run, next);
			return;
		}
		code = pf_err_set(&err, -ENOMEM, "no memory for an execution");
	}
	if (code < 0 && run->done)
		keep_state(run, e, &err);
	else if (code == 0 && (run->consumed || !task_answered(run->task)))
		code = publish(run, e, &err);
	forget_replaced(run);
	if (code < 0)
		task_fail(run->task, &err);
	else
		task_done(run->task, NULL,
			  run->task->people ? run_line(run, e) : run_reply(run, e));
	run_free(run);
	pf_execution_free(e);
}

/* Is E's task cancelled?  Then E need not begin. */
static bool is_cancelled(struct pf_execution *e)
{
	struct named_exec *run = e->user;

	return task_cancelled(run->task);
}

static void run_began(struct pf_execution *e)
{
	struct named_exec *run = e->user;

	if (!run->began)
		run->began = pf_now_ms();
	task_began(run->task);
}

/* --- the beginning ------------------------------------------------------------------------ */

static void run_report(struct pf_execution *e, struct pf_report_execution *report)
{
	const struct named_exec *run = e->user;

	report->goes_on = run->done + e->runs < run->spec.repeat;
	report->repeated = run->done;
	report->repeated_seconds = run->seconds;
	report->repeated_device_seconds = run->device_seconds;
	report->transfer_seconds += run->transfer_seconds;
	report->queue_seconds += run->queue_seconds;
}

/* Report the repetitions, or, of a step that has only one, the steps. */
static void note_progress(const struct named_exec *run, struct pf_execution *e)
{
	struct task *task = run->task;

	if (run->spec.repeat > 1)
		task_progress(task, run->done, run->spec.repeat);
	else if (task->whole)
		task = task->whole;
	pf_execution_describe(e, run->name, atomic_load(&task->done),
			      atomic_load(&task->of), run->began);
}

/* Start E, which has its arguments, for the repetitions that are left. */
static void start(struct named_exec *run, struct pf_execution *e)
{
	bool spin = run->spin;

	run->spin = false; /* later ones start on threads that take answers */
	e->repeat = (uint32_t)(run->spec.repeat - run->done);
	e->launch_id = (int32_t)run->spec.launch_id;
	note_progress(run, e);
	e->name = strdup(run->name);
	e->want_outs = run->n_out;
	e->user = run;
	e->uid = run->task->cred.uid;
	e->account = files_account(run->task->fs, e->uid);
	e->id = task_id(run->task);
	e->done = run_done;
	e->began = run_began;
	e->cancelled = is_cancelled;
	e->report = run_report;
	if (!run->is.n_devices)
		e->device = run->rows[0].device->index;
	task_executes(run->task, e, run->is.worker);
	pf_execution_start(e, spin);
}

/* 1: the program is loaded; 0: RUN is woken later, and may be freed by now; -errno. */
static int load(struct named_exec *run, struct pf_err *err)
{
	struct task *task = run->task;
	int r;

	run->loaded = pf_executable_loaded(run->program->x);
	if (run->loaded)
		return 1;
	/* Before it waits, as another thread may continue it then. */
	task_runs_at(task, pf_executable_worker(run->program->x), NULL);
	task_ref(task);
	task_wait_begin(&run->wait);
	r = pf_executable_load(run->program->x, task->cred.uid, &run->waiter,
			       &run->loaded, err);
	if (r == 0)
		task_wait_check(task);
	else
		task_wait_end(task);
	task_unref(task);
	return r;
}

static void begin(struct named_exec *run)
{
	struct pf_execution *e = NULL;
	struct pf_err err = PF_ERR_INIT;
	int r = load(run, &err);

	if (r == 0)
		return;
	if (r > 0)
		r = run_resolve(run, &e, &err);
	if (r == 0) {
		start(run, e);
		return;
	}
	pf_execution_free(e);
	pf_err_wrap(&err, r, "%s", run->name);
	run_fail(run, &err);
}

static void cancelled(struct task_wait *wait)
{
	struct named_exec *run = pf_container_of(wait, struct named_exec, wait);
	struct pf_err err = PF_ERR_INIT;

	pf_err_set(&err, -ECANCELED, "%s: cancelled before it began", run->name);
	run_fail(run, &err);
}

static bool leave(struct task_wait *wait)
{
	struct named_exec *run = pf_container_of(wait, struct named_exec, wait);

	return pf_executable_leave(run->program->x, &run->waiter);
}

static void wake(struct pf_wait *waiter)
{
	struct named_exec *run = pf_container_of(waiter, struct named_exec, waiter);

	task_wait_end(run->task);
	run->spin = false;
	if (task_cancelled(run->task))
		cancelled(&run->wait);
	else
		begin(run);
}

/* A new run, of REQUEST, whose contents are taken; NULL: no memory. */
static struct named_exec *run_new(struct task *task, struct program *program,
				  const char *name, struct exec_spec *request)
{
	struct named_exec *run = calloc(1, sizeof(*run));

	if (!run || !(run->name = strdup(name))) {
		free(run);
		return NULL;
	}
	run->task = task;
	run->spec = *request;
	memset(request, 0, sizeof(*request));
	if (!run->spec.repeat)
		run->spec.repeat = 1;
	run->program = program_ref(program);
	run->waiter.wake = wake;
	run->wait = (struct task_wait){
		task, leave, cancelled,
		"its program is being compiled, and it does not begin"
	};
	return run;
}

const char *files_at_timeout(uint64_t repeat)
{
	return repeat > 1
		       ? "it ends with the repetition under way, and its state is kept "
			 "under its names"
		       : "what had begun goes on; its results are dropped, unless it "
			 "consumes arguments";
}

void files_execute(struct task *task, struct program *program, const char *name,
		   struct exec_spec *request, bool spin)
{
	struct named_exec *run = run_new(task, program, name, request);
	struct pf_err err = PF_ERR_INIT;

	if (run) {
		run->spin = spin;
		begin(run);
		return;
	}
	pf_err_set(&err, -ENOMEM, "no memory for a command");
	task_fail(task, &err);
	exec_spec_release(request);
}

int op_execute(struct task *task, struct json_object *o, struct pf_err *err)
{
	struct exec_spec request = { .repeat = 0 };
	struct program *program = NULL;
	const char *name;
	int r = exec_spec_parse(o, true, &request, err);

	if (r == 0)
		r = command_string(o, "executable", &name, err);
	if (r == 0)
		r = files_find_program(task->fs, name, &task->cred, &program, err);
	if (r == 0)
		files_execute(task, program, name, &request, true);
	program_unref(program);
	exec_spec_release(&request);
	return r;
}
