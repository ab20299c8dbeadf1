/* SPDX-License-Identifier: Apache-2.0 */
/* Execute a program on named buffers, and put its results under names. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Results have their names, or never will. */
static void forget_replaced(struct run *run)
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

void run_free(struct run *run)
{
	forget_replaced(run);
	for (size_t i = 0; run->rows && i < run->n_rows; i++) {
		names_release(&run->rows[i].inputs);
		names_release(&run->rows[i].outputs);
		free(run->rows[i].leaves);
		free(run->rows[i].directory);
	}
	for (size_t i = 0; run->targets && i < run->n_rows * run->n_out; i++)
		files_target_release(&run->targets[i]);
	for (size_t i = 0; run->buffers && i < run->n_rows * run->n_in; i++)
		pf_buffer_unref(run->buffers[i]);
	run_drop_results(run);
	free(run->rows);
	free(run->targets);
	free(run->buffers);
	free(run->donate);
	free(run->fed);
	pf_loaded_unref(run->loaded);
	pf_node_unref(run->mesh_node);
	unit_unref(run->unit);
	free(run->name);
	request_release(&run->request);
	free(run);
}

static void run_fail(struct run *run, struct pf_err *err)
{
	task_fail(run->task, err);
	run_free(run);
}

/* --- the end ------------------------------------------------------------------------------ */

static int put_locked(struct run *run, size_t i, struct pf_buffer *promised,
		      struct pf_value *value, struct pf_err *err)
{
	PF_CLEANUP(pf_buffer_unrefp)
	struct pf_buffer *b =
		promised ? pf_buffer_ref(promised)
			 : pf_buffer_of_value(&run->rows[i / run->n_out].device->place,
					      value, run->name);

	if (!b)
		return pf_err_set(err, -ENOMEM, "no memory for output %zu", i);
	return files_put_buffer_locked(&run->targets[i], b, PF_FORMAT_NPY,
				       &run->task->cred, false, err);
}

/* Give every result its name, all at once. */
static int publish(struct run *run, struct pf_execution *e, struct pf_err *err)
{
	int r = run_make_directories(run, err);

	if (r == 0)
		r = run_make_home(run, err);
	if (r < 0)
		return pf_err_wrap(err, r, "%s", run->name);
	pf_tree_lock_names(run->task->fs->tree);
	for (size_t i = 0; i < e->n_outs && r == 0; i++)
		r = files_check_target_locked(&run->targets[i], err);
	if (r == 0)
		r = run_put_shardings_locked(run, e, err);
	for (size_t i = 0; i < e->n_outs && r == 0; i++)
		r = put_locked(run, i, run->results ? run->results[i] : NULL, e->outs[i],
			       err);
	pf_tree_unlock_names(run->task->fs->tree);
	return r < 0 ? pf_err_wrap(err, r, "%s", run->name) : 0;
}

/*
 * A repetition failed, or was cancelled: what the ones before made of inputs that they
 * consumed is in E's arguments, and must not be lost.
 */
static void keep_state(struct run *run, struct pf_execution *e, struct pf_err *err)
{
	bool kept = false;

	pf_tree_lock_names(run->task->fs->tree);
	for (size_t i = 0; i < e->n_args; i++) {
		size_t row = i / run->n_in, out = run->fed[i];

		if (out < run->n_out &&
		    put_locked(run, row * run->n_out + out, NULL, e->args[i], NULL) == 0)
			kept = true;
	}
	pf_tree_unlock_names(run->task->fs->tree);
	if (err->code == -ECANCELED)
		pf_err_set(err, -ECANCELED, "%s: cancelled", run->name);
	pf_err_wrap(err, err->code, "after %" PRIu64 " of %" PRIu64 " repetitions%s",
		    run->done, run->request.repeat,
		    kept ? ", whose state is kept under its names" : "");
}

static void start(struct run *run, struct pf_execution *e);

struct pf_execution *run_feed(struct run *run, const struct pf_execution *e)
{
	struct pf_execution *next = pf_execution_new(e->n_args, e->n_rows);

	for (size_t i = 0; next && i < e->n_args; i++) {
		size_t row = i / run->n_in, out = run->fed[i];

		next->args[i] = pf_value_ref(
			out < run->n_out ? e->outs[row * run->n_out + out] : e->args[i]);
		next->arg_names[i] = e->arg_names[i];
		next->donate[i] = out < run->n_out && run->donate[i];
	}
	return next;
}

static void note_times(struct run *run, const struct pf_execution *e)
{
	run->seconds += e->seconds;
	run->queue_seconds += e->queue_seconds;
	run->device_seconds += e->device_seconds;
	run->transfer_seconds += e->transfer_seconds;
}

/* The first repetition has ended: what it consumed is gone, or will be replaced. */
static void note_consumed(struct run *run, const struct pf_execution *e)
{
	for (size_t i = 0; i < e->n_args; i++) {
		if (!e->donate[i])
			continue;
		run->consumed = true;
		if (!run->replaced || run->fed[i] == run->n_out)
			pf_buffer_forget_donated(run->buffers[i], e->args[i]);
	}
}

static void run_done(struct pf_execution *e, int code, const struct pf_err *why)
{
	struct run *run = e->user;
	struct pf_execution *next = NULL;
	struct pf_err err = PF_ERR_INIT;

	if (code < 0)
		err = *why;
	task_executes(run->task, NULL, NULL);
	run->before = NULL; /* those have ended */
	note_times(run, e);
	if (code == 0 && run->done == 0)
		note_consumed(run, e);
	if (code == 0 && ++run->done < run->begun) {
		pf_execution_free(e); /* the next one went along */
		return;
	}
	if (code == 0 && run->done < run->request.repeat) {
		next = run_feed(run, e);
		if (!next)
			code = pf_err_set(&err, -ENOMEM, "no memory for an execution");
	}
	if (next) {
		pf_execution_free(e);
		start(run, next);
		return;
	}
	if (code < 0 && run->done)
		keep_state(run, e, &err);
	else if (code == 0 && (run->consumed || !task_answered(run->task)))
		code = publish(run, e, &err);
	forget_replaced(run);
	if (code < 0)
		task_fail(run->task, &err);
	else
		task_done(run->task, 0, run_reply(run, e));
	run_free(run);
	pf_execution_free(e);
}

/* Nobody waits for it any more: what has not begun need not begin. */
static bool is_cancelled(struct pf_execution *e)
{
	struct run *run = e->user;

	return task_cancelled(run->task);
}

static void run_began(struct pf_execution *e)
{
	struct run *run = e->user;

	task_began(run->task);
}

/* --- the beginning ------------------------------------------------------------------------ */

static void run_tell(struct pf_execution *e, struct pf_told_execution *told)
{
	const struct run *run = e->user;

	told->goes_on = run->done + 1 < run->request.repeat;
	told->repeated = run->done;
	told->repeated_seconds = run->seconds;
	told->repeated_device_seconds = run->device_seconds;
}

void run_prepare(struct run *run, struct pf_execution *e)
{
	run->begun++;
	e->executable = pf_executable_ref(run->unit->x);
	e->name = strdup(run->name);
	e->want_outs = run->n_out;
	e->user = run;
	e->uid = run->task->cred.uid;
	e->id = task_id(run->task);
	e->done = run_done;
	e->began = run_began;
	e->cancelled = is_cancelled;
	e->tell = run_tell;
	e->follow = run_follow;
	e->left = run_left;
	if (!run->loaded->n_devices)
		e->device = run->rows[0].device->index;
}

static void start(struct run *run, struct pf_execution *e)
{
	bool settle = run->settle;

	run->settle = false; /* later ones are started by those who take answers */
	run_prepare(run, e);
	task_executes(run->task, e, run->loaded->worker);
	pf_execution_start(e, settle);
}

/* 1 the program is there; 0 RUN will be woken once it is, and may be gone; -errno. */
static int load(struct run *run, struct pf_err *err)
{
	struct task *task = run->task;
	int r;

	run->loaded = pf_executable_loaded(run->unit->x);
	if (run->loaded)
		return 1;
	/* Said first: once it waits, it may go on elsewhere. */
	task_runs_at(task, pf_executable_worker(run->unit->x), NULL);
	task_ref(task);
	task_pauses(&run->pause);
	r = pf_executable_load(run->unit->x, &run->waiter, &run->loaded, err);
	if (r == 0)
		task_paused(task);
	else
		task_resumes(task);
	task_unref(task);
	return r;
}

static void begin(struct run *run)
{
	struct pf_execution *e = NULL;
	struct pf_err err = PF_ERR_INIT;
	int r = load(run, &err);

	if (r == 0)
		return;
	if (r > 0)
		r = run_resolve(run, &err);
	if (r == 0) {
		e = pf_execution_new(run->n_rows * run->n_in, run->n_rows);
		r = e ? run_arguments(run, e, &err)
		      : pf_err_set(&err, -ENOMEM, "no memory for an execution");
	}
	if (r == 0) {
		start(run, e);
		return;
	}
	pf_execution_free(e);
	pf_err_wrap(&err, r, "%s", run->name);
	run_fail(run, &err);
}

static void cancelled(struct task_pause *pause)
{
	struct run *run = pf_container_of(pause, struct run, pause);
	struct pf_err err = PF_ERR_INIT;

	pf_err_set(&err, -ECANCELED, "%s: cancelled before it began", run->name);
	run_fail(run, &err);
}

static bool leave(struct task_pause *pause)
{
	struct run *run = pf_container_of(pause, struct run, pause);

	return pf_executable_leave(run->unit->x, &run->waiter);
}

static void wake(struct pf_waiter *waiter)
{
	struct run *run = pf_container_of(waiter, struct run, waiter);

	task_resumes(run->task);
	run->settle = false;
	if (task_cancelled(run->task))
		cancelled(&run->pause);
	else
		begin(run);
}

struct run *run_new(struct task *task, struct unit *unit, const char *name,
		    struct request *request)
{
	struct run *run = calloc(1, sizeof(*run));

	if (!run || !(run->name = strdup(name))) {
		free(run);
		return NULL;
	}
	run->task = task;
	run->request = *request;
	memset(request, 0, sizeof(*request));
	if (!run->request.repeat)
		run->request.repeat = 1;
	run->unit = unit_ref(unit);
	run->waiter.wake = wake;
	run->pause = (struct task_pause){
		task, leave, cancelled,
		"its program is being compiled, and it does not begin"
	};
	return run;
}

const char *files_late(uint64_t repeat)
{
	return repeat > 1
		       ? "it ends with the repetition under way, and its state is kept "
			 "under its names"
		       : "what had begun goes on; its results are dropped, unless it "
			 "consumes arguments";
}

void files_execute(struct task *task, struct unit *unit, const char *name,
		   struct request *request, bool settle)
{
	struct run *run = run_new(task, unit, name, request);
	struct pf_err err = PF_ERR_INIT;

	if (run) {
		run->settle = settle;
		begin(run);
		return;
	}
	pf_err_set(&err, -ENOMEM, "no memory for a command");
	task_fail(task, &err);
	request_release(request);
}

int op_execute(struct task *task, struct json_object *o, struct pf_err *err)
{
	static const char *const others[] = { "executable", NULL };
	struct request request = { .repeat = 0 };
	struct unit *unit = NULL;
	const char *name;
	int r = request_parse(o, others, &request, err);

	if (r == 0)
		r = command_string(o, "executable", &name, err);
	if (r == 0)
		r = files_find_unit(task->fs, name, &task->cred, &unit, err);
	if (r == 0)
		files_execute(task, unit, name, &request, true);
	unit_unref(unit);
	request_release(&request);
	return r;
}
