/* SPDX-License-Identifier: Apache-2.0 */
/* What the names of an execution mean. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* --- outputs ------------------------------------------------------------------------------ */

static bool in_new_directory(const struct row *row, size_t i)
{
	return row->directory && i >= row->first && i < row->first + row->n;
}

static int find_target(struct run *run, size_t row, size_t i, struct pf_err *err)
{
	const struct row *at = &run->rows[row];
	struct target *t = &run->targets[row * run->n_out + i];
	const char *name = at->outputs.at[i];
	int r = files_find_target(run->task->fs, at->device, name, &run->task->cred, t,
				  err);

	if (r < 0)
		return pf_err_wrap(err, r, "output %zu", i);
	if (files_place_of(t->dir) != &at->device->place)
		return pf_err_set(
			err, -EINVAL,
			"output %zu: %s is on another device than %s, where the "
			"program runs",
			i, name, at->device->name);
	return 0;
}

/* No two results of a row may have one name. */
static int check_targets(const struct run *run, size_t row, struct pf_err *err)
{
	const struct target *t = &run->targets[row * run->n_out];

	for (size_t i = 0; i < run->n_out; i++)
		for (size_t k = 0; t[i].dir && k < i; k++)
			if (t[k].dir == t[i].dir && !strcmp(t[k].stem, t[i].stem))
				return pf_err_set(
					err, -EINVAL,
					"outputs %zu and %zu are both called %s", k, i,
					run->rows[row].outputs.at[i]);
	return 0;
}

static int find_targets(struct run *run, struct pf_err *err)
{
	int r = 0;

	run->targets = calloc(run->n_rows * run->n_out + 1, sizeof(*run->targets));
	if (!run->targets)
		return pf_err_set(err, -ENOMEM, "no memory for the outputs' names");
	for (size_t row = 0; row < run->n_rows && r == 0; row++) {
		for (size_t i = 0; i < run->n_out && r == 0; i++)
			if (!in_new_directory(&run->rows[row], i))
				r = find_target(run, row, i, err);
		if (r == 0)
			r = check_targets(run, row, err);
	}
	return r;
}

int run_make_directories(struct run *run, struct pf_err *err)
{
	int r = 0;

	for (size_t row = 0; row < run->n_rows && r == 0; row++) {
		struct row *at = &run->rows[row];

		if (!at->directory)
			continue;
		r = files_make_directory(run->task->fs, at->device, at->directory,
					 &run->task->cred, err);
		for (size_t i = at->first; i < at->first + at->n && r == 0; i++) {
			r = find_target(run, row, i, err);
			run->targets[row * run->n_out + i].numbered = true;
		}
	}
	return r;
}

/* --- inputs ------------------------------------------------------------------------------- */

static bool is_donated(const struct run *run, const char *name)
{
	for (size_t d = 0; d < run->request.donate.n; d++)
		if (!strcmp(run->request.donate.at[d], name))
			return true;
	return false;
}

/* Reading an array takes the right to read it; consuming it takes that to write, too. */
static int find_input(struct run *run, size_t row, size_t i, struct pf_err *err)
{
	const struct row *at = &run->rows[row];
	const char *name = at->inputs.at[i];
	int want = is_donated(run, name) ? R_OK | W_OK : R_OK;
	int r;

	if (run_find_promised(run, at->device, name, &run->buffers[row * run->n_in + i]))
		return 0;
	r = files_find_buffer(run->task->fs, at->device, name, &run->task->cred, want,
			      &run->buffers[row * run->n_in + i], err);

	if (r == 0)
		return 0;
	return run->n_rows > 1 ? pf_err_wrap(err, r, "row %zu: input %zu", row, i)
			       : pf_err_wrap(err, r, "input %zu", i);
}

static int find_inputs(struct run *run, struct pf_err *err)
{
	size_t n = run->n_rows * run->n_in;
	int r = 0;

	run->buffers = calloc(n + 1, sizeof(struct pf_buffer *));
	run->donate = calloc(n + 1, sizeof(*run->donate));
	run->fed = calloc(n + 1, sizeof(*run->fed));
	if (!run->buffers || !run->donate || !run->fed)
		return pf_err_set(err, -ENOMEM, "no memory for the inputs' names");
	for (size_t i = 0; i < n && r == 0; i++)
		r = find_input(run, i / run->n_in, i % run->n_in, err);
	return r;
}

/* Which results take the names of inputs: these are consumed, and fed to repetitions. */
static void find_fed(struct run *run)
{
	for (size_t i = 0; i < run->n_rows * run->n_in; i++)
		run->fed[i] = run->n_out;
	for (size_t k = 0; k < run->n_rows * run->n_out; k++) {
		size_t row = k / run->n_out;
		PF_CLEANUP(pf_buffer_unrefp)
		struct pf_buffer *b = run_target_buffer(run, &run->targets[k]);

		for (size_t i = 0; b && i < run->n_in; i++) {
			if (run->buffers[row * run->n_in + i] != b)
				continue;
			run->donate[row * run->n_in + i] = true;
			run->fed[row * run->n_in + i] = k % run->n_out;
		}
	}
}

/* What is in two places at once cannot be consumed in either. */
static void keep_doubles(struct run *run)
{
	for (size_t i = 0; i < run->n_rows * run->n_in; i++)
		for (size_t k = 0; k < i; k++)
			if (run->buffers[k] == run->buffers[i])
				run->donate[k] = run->donate[i] = false;
}

/* What "donate" names must be an input, and be there for all repetitions. */
static int mark_donated(struct run *run, struct pf_err *err)
{
	for (size_t d = 0; d < run->request.donate.n; d++) {
		const char *name = run->request.donate.at[d];
		bool found = false;

		for (size_t i = 0; i < run->n_rows * run->n_in; i++) {
			const struct row *row = &run->rows[i / run->n_in];

			if (strcmp(row->inputs.at[i % run->n_in], name))
				continue;
			if (run->request.repeat > 1 && run->fed[i] == run->n_out)
				return pf_err_set(err, -EINVAL,
						  "donate: %s would be gone after the "
						  "first repetition: no output takes its "
						  "name",
						  name);
			run->donate[i] = found = true;
		}
		if (!found)
			return pf_err_set(err, -EINVAL,
					  "donate: %s is no input of this execution",
					  name);
	}
	return 0;
}

/*
 * A repetition takes the results of the one before as arguments: they must be what the program
 * takes.  This is checked before the first one runs, which may consume what it is given.
 */
static int check_fed(const struct run *run, struct pf_err *err)
{
	const struct pf_signature *s = run->loaded->signature;

	for (size_t i = 0; run->request.repeat > 1 && i < run->n_rows * run->n_in; i++) {
		size_t row = i / run->n_in, in = i % run->n_in, out = run->fed[i];
		const struct pf_param *have, *want = &s->inputs[in];
		char a[128], b[128];

		if (out == run->n_out)
			continue;
		have = &s->outputs[out];
		if (have->dtype == want->dtype &&
		    pf_shape_equal(&have->shape, &want->shape))
			continue;
		return pf_err_set(
			err, -EINVAL,
			"repeat: output %zu (%s) is %s, the next repetition takes it "
			"as input %zu, which is %s",
			out, run->rows[row].outputs.at[out],
			pf_shape_str(a, sizeof(a), have->dtype, &have->shape), in,
			pf_shape_str(b, sizeof(b), want->dtype, &want->shape));
	}
	return 0;
}

int run_resolve(struct run *run, struct pf_err *err)
{
	int r = run_list_rows(run, err);

	/* First: what follows takes the more time the more names there are. */
	if (r == 0)
		r = pf_execution_check_counts(run->loaded, run->n_in, run->n_out, err);
	if (r == 0)
		r = find_inputs(run, err);
	if (r == 0)
		r = find_targets(run, err);
	if (r < 0)
		return r;
	find_fed(run);
	keep_doubles(run);
	r = mark_donated(run, err);
	if (r == 0)
		r = check_fed(run, err);
	return r < 0 ? r : run_check_shards(run, err);
}

/* The same array twice, once consumed: the other use would see it gone. */
static int check_twice(struct run *run, struct pf_execution *e, struct pf_err *err)
{
	for (size_t i = 0; i < e->n_args; i++)
		for (size_t k = 0; e->donate[i] && k < e->n_args; k++) {
			if (k == i || e->args[k] != e->args[i])
				continue;
			if (is_donated(run, e->arg_names[i]))
				return pf_err_set(err, -EINVAL,
						  "donate: %s is used twice",
						  e->arg_names[i]);
			e->donate[i] = false;
		}
	return 0;
}

/*
 * A name that an output takes is asked to be consumed: but not before it must be, since others
 * may want to read it while the program runs.  What is only promised nobody else has.
 */
static bool may_consume(const struct run *run, const char *name, size_t i,
			struct pf_value *v)
{
	const struct pf_signature *s = run->loaded->signature;
	size_t k = i % run->n_in;

	return is_donated(run, name) || (k < s->n_inputs && s->inputs[k].donated) ||
	       pf_value_promised_id(v);
}

/* What is consumed and replaced is not gone in between. */
static int note_replaced(struct run *run, const struct pf_execution *e,
			 struct pf_err *err)
{
	for (size_t i = 0; i < e->n_args; i++) {
		if (!e->donate[i] || run->fed[i] == run->n_out)
			continue;
		if (!run->replaced)
			run->replaced = calloc(e->n_args, sizeof(struct pf_value *));
		if (!run->replaced)
			return pf_err_set(err, -ENOMEM, "no memory for an execution");
		run->replaced[i] = pf_value_ref(e->args[i]);
		pf_value_replaces(e->args[i], true);
	}
	return 0;
}

int run_arguments(struct run *run, struct pf_execution *e, struct pf_err *err)
{
	int r;

	for (size_t i = 0; i < e->n_args; i++) {
		const struct row *row = &run->rows[i / run->n_in];
		const struct device *d = row->device;
		const char *name = row->inputs.at[i % run->n_in];
		struct pf_value *v = NULL;

		r = files_find_value(run->task->fs, d, name, &run->task->cred,
				     is_donated(run, name) ? R_OK | W_OK : R_OK,
				     &run->buffers[i], &v, err);

		if (r < 0)
			return pf_err_wrap(err, r, "input %zu", i % run->n_in);
		e->args[i] = v;
		e->donate[i] = run->donate[i] && may_consume(run, name, i, v);
		e->arg_names[i] = name;
		if (run->request.move &&
		    (v->worker != d->worker || v->device != d->index)) {
			e->args[i] = pf_value_copy(v, d->worker, d->index, UINT32_MAX);
			pf_value_unref(v);
		}
		if (!e->args[i])
			return pf_err_set(err, -ENOMEM, "no memory for an argument");
	}
	r = check_twice(run, e, err);
	return r < 0 ? r : note_replaced(run, e, err);
}
