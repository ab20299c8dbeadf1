/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executions that go along with others: what comes next is made ready while what is before
 * has not even begun, with what that will give in place of what its names mean now.
 *
 * Whatever stands against it, or is wrong, is left alone here: then it waits for those before,
 * and is looked at again.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* --- names ---------------------------------------------------------------------------- */

static struct pf_buffer *promised(const struct run *run, const struct pf_node *dir,
				  const char *stem)
{
	for (const struct run *r = run->before; r; r = r->before)
		for (size_t i = 0; i < r->n_out; i++)
			if (r->targets[i].dir == dir && !strcmp(r->targets[i].stem, stem))
				return r->results[i];
	return NULL;
}

bool run_find_promised(const struct run *run, const struct device *device,
		       const char *name, struct pf_buffer **ret)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	char stem[PF_NAME_MAX + 1];
	struct pf_buffer *b = NULL;

	if (run->before && files_find_place(run->task->fs, device, name, &run->task->cred,
					    &dir, stem, NULL) == 0)
		b = promised(run, dir, stem);
	if (b)
		*ret = pf_buffer_ref(b);
	return b;
}

struct pf_buffer *run_target_buffer(const struct run *run, const struct target *t)
{
	struct pf_buffer *b = t->dir ? promised(run, t->dir, t->stem) : NULL;

	if (b)
		return pf_buffer_ref(b);
	return t->dir ? files_target_buffer(t) : NULL;
}

/* Are there words that mean what a directory has? */
static bool lists_directories(const struct run *run)
{
	const struct names *in = rows_at(&run->request.inputs, 0);
	const struct names *out = rows_at(&run->request.outputs, 0);

	for (size_t i = 0; !run->request.by_name && i < in->n; i++)
		if (files_is_directory(run->task->fs, run->rows[0].device, in->at[i],
				       &run->task->cred))
			return true;
	for (size_t i = 0; i < out->n; i++)
		if (is_directory_word(out->at[i]))
			return true;
	return false;
}

/* Only the first of all may consume what is not a result of those before. */
static bool uses_what_goes(const struct run *run)
{
	const struct run *first = run->before;

	while (first->before)
		first = first->before;
	for (size_t i = 0; i < first->n_in; i++)
		for (size_t k = 0; first->donate[i] && k < run->n_in; k++)
			if (run->buffers[k] == first->buffers[i])
				return true;
	return false;
}

/* Is what its names mean sure before those before have ended? */
static bool is_sure(const struct run *run)
{
	bool adds = false;

	for (const struct run *r = run->before; r && !adds; r = r->before)
		adds = r->adds;
	return run->n_rows == 1 && !(adds && lists_directories(run)) &&
	       !uses_what_goes(run);
}

/* --- results -------------------------------------------------------------------------- */

void run_drop_results(struct run *run)
{
	for (size_t i = 0; run->results && i < run->n_rows * run->n_out; i++)
		pf_buffer_unref(run->results[i]);
	free(pf_steal(&run->results));
}

/* Make the buffers that the outputs will be, for those that come after. */
static bool promise_results(struct run *run, const struct pf_execution *last)
{
	const struct row *row = &run->rows[0];

	if (run->n_rows != 1 || row->directory)
		return false;
	run->results = calloc(run->n_out + 1, sizeof(struct pf_buffer *));
	for (size_t i = 0; run->results && i < run->n_out; i++) {
		const struct target *t = &run->targets[i];
		struct pf_buffer *old = run_target_buffer(run, t);

		run->adds = run->adds || (!old && t->dir != row->device->buffers);
		pf_buffer_unref(old);
		run->results[i] =
			pf_buffer_of_value(&row->device->place, last->outs[i], run->name);
		if (!run->results[i])
			return false;
	}
	return run->results;
}

/* --- going along ---------------------------------------------------------------------- */

static bool join(struct run *run, struct pf_execution *last, struct pf_execution *next)
{
	if (!next)
		return false;
	run_prepare(run, next);
	if (pf_execution_join(last, next))
		return true;
	run->begun--;
	pf_execution_free(next);
	return false;
}

bool run_follow(struct pf_execution *last)
{
	struct run *run = last->user;

	if (run->begun < run->request.repeat)
		return join(run, last, run_feed(run, last));
	return run->task->ops->follow && promise_results(run, last) &&
	       run->task->ops->follow(run->task, last);
}

void run_left(struct pf_execution *e)
{
	struct run *run = e->user;
	struct task *task = run->task;

	pf_execution_free(e);
	run_drop_results(run);
	if (--run->begun)
		return;
	run_free(run);
	task->ops->left(task);
}

/* RUN is known, and its arguments are there, or will be. */
static bool resolve(struct run *run, struct pf_execution *last)
{
	struct pf_execution *e = NULL;
	bool ready;

	run->loaded = pf_executable_loaded(run->unit->x);
	run->before = last->user;
	ready = run->loaded && run_resolve(run, NULL) == 0 && is_sure(run) &&
		(e = pf_execution_new(run->n_in, 1)) && run_arguments(run, e, NULL) == 0;
	if (!ready) {
		pf_execution_free(e);
		return false;
	}
	return join(run, last, e);
}

static bool along(struct task *task, struct unit *unit, const char *name,
		  struct request *request, struct pf_execution *last)
{
	struct run *run = run_new(task, unit, name, request);

	if (!run)
		return false;
	if (resolve(run, last))
		return true;
	run_free(run);
	return false;
}

bool files_execute_along(struct task *task, struct json_object *o,
			 struct pf_execution *last)
{
	static const char *const others[] = { "executable", NULL };
	struct request request = { .repeat = 0 };
	struct unit *unit = NULL;
	bool joined = false;
	const char *name;

	if (request_parse(o, others, &request, NULL) == 0 && !request.async &&
	    !request.timeout_ms && command_string(o, "executable", &name, NULL) == 0 &&
	    files_find_unit(task->fs, name, &task->cred, &unit, NULL) == 0)
		joined = along(task, unit, name, &request, last);
	unit_unref(unit);
	request_release(&request);
	return joined;
}
