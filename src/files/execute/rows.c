/* SPDX-License-Identifier: Apache-2.0 */
/* Rows: which devices take part in an execution, and what words stand for on each. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* --- devices ------------------------------------------------------------------------------ */

static const struct device *device_at(const struct pf_fs *fs,
				      const struct pf_worker *worker, unsigned index)
{
	for (unsigned i = 0; i < fs->n_devices; i++)
		if (fs->devices[i].worker == worker && fs->devices[i].index == index)
			return &fs->devices[i];
	return NULL;
}

/* The device that the request names, which the program must be able to run on. */
static int chosen_device(struct run *run, const struct device **ret, struct pf_err *err)
{
	const char *name = run->request.device;
	const struct pf_worker *worker = run->loaded->worker;
	const struct device *device =
		files_find_device(run->task->fs, name, strlen(name));

	if (!device)
		return files_no_device(run->task->fs, name, strlen(name), err);
	if (device->worker != worker)
		return pf_err_set(err, -EINVAL,
				  "device %s is not of the program's plugin %s", name,
				  pf_worker_name(worker));
	if (run->loaded->n_devices &&
	    (run->loaded->n_devices > 1 || run->loaded->devices[0] != device->index))
		return pf_err_set(
			err, -EINVAL,
			"the program is compiled for other devices than %s: set "
			"\"device\" or \"compile_portable_executable\" in its "
			"options.json",
			name);
	*ret = device;
	return 0;
}

static int find_devices(struct run *run, struct pf_err *err)
{
	const struct pf_fs *fs = run->task->fs;
	const struct pf_loaded *l = run->loaded;
	const struct device *chosen = NULL;
	int r = 0;

	if (run->request.device)
		r = chosen_device(run, &chosen, err);
	for (size_t i = 0; i < run->n_rows && r == 0; i++) {
		unsigned index = l->n_devices ? l->devices[i] : 0;

		run->rows[i].device =
			chosen ? chosen : device_at(fs, run->loaded->worker, index);
		if (!run->rows[i].device)
			r = pf_err_set(err, -ENODEV, "its device %u is not in devices/",
				       index);
	}
	return r;
}

/* --- lists -------------------------------------------------------------------------------- */

/* Inputs by parameter: put them in order. */
static int order_inputs(struct run *run, struct row *row, struct pf_err *err)
{
	const struct request *q = &run->request;
	const struct pf_signature *s = run->loaded->signature;
	const struct names *given = rows_at(&q->inputs, 0);

	for (size_t i = 0; i < s->n_inputs; i++) {
		size_t k = 0;

		while (k < q->params.n && strcmp(q->params.at[k], s->inputs[i].name))
			k++;
		if (k == q->params.n)
			return pf_err_set(err, -EINVAL, "input %zu (%s) was not given", i,
					  s->inputs[i].name);
		if (names_add(&row->inputs, given->at[k], strlen(given->at[k])) < 0)
			return pf_err_set(err, -ENOMEM, "no memory for names");
	}
	for (size_t k = 0; k < q->params.n; k++) {
		size_t i = 0;

		while (i < s->n_inputs && strcmp(q->params.at[k], s->inputs[i].name))
			i++;
		if (i == s->n_inputs)
			return pf_err_set(err, -EINVAL,
					  "the program has no parameter called %.64s",
					  q->params.at[k]);
	}
	return 0;
}

static int list_inputs(struct run *run, size_t i, struct pf_err *err)
{
	struct row *row = &run->rows[i];
	const struct names *given = rows_at(&run->request.inputs, i);
	int r = 0;

	if (run->request.by_name)
		return order_inputs(run, row, err);
	for (size_t k = 0; k < given->n && r == 0; k++)
		r = run_list_input(run, row, given->at[k], run->loaded->signature, err);
	return r == -ENOMEM ? pf_err_set(err, r, "no memory for names") : r;
}

/* Results of ROW can go to the directory WORD, a new one or not, only if it is its device's. */
static int check_home(const struct run *run, const struct row *row, const char *word,
		      struct pf_err *err)
{
	const char *slash = strchr(word, '/');
	const struct device *device = row->device;

	if (memchr(word, ':', (size_t)(slash - word)))
		device = files_find_device(run->task->fs, word, (size_t)(slash - word));
	if (!device)
		return pf_err_wrap(err,
				   files_no_device(run->task->fs, word,
						   (size_t)(slash - word), err),
				   "output %s", word);
	if (device == row->device)
		return 0;
	return pf_err_set(
		err, -EINVAL,
		"output %s is on another device than %s, where the program runs", word,
		row->device->name);
}

/* Results FIRST and on, N of them, go into ROW's new directory as 0, 1, 2 ... */
static int number_outputs(struct row *row, const char *directory, size_t n,
			  struct pf_err *err)
{
	row->directory = strdup(directory);
	row->first = row->outputs.n;
	row->n = n;
	for (size_t i = 0; i < n && row->directory; i++) {
		pf_autobuf struct pf_buf name = PF_BUF_INIT;

		pf_buf_printf(&name, "%s%zu", directory, i);
		if (name.failed || names_add(&row->outputs, name.data, name.len) < 0)
			return pf_err_set(err, -ENOMEM, "no memory for names");
	}
	return row->directory ? 0 : pf_err_set(err, -ENOMEM, "no memory for names");
}

/* What one word of the outputs stands for; a new directory only says so in *NEW. */
static int list_output(struct run *run, const struct row *row, const char *word,
		       struct names *ret, const char **new, struct pf_err *err)
{
	PF_CLEANUP(names_release) struct names leaves = { 0 };
	int r;

	if (!is_directory_word(word))
		return names_add(ret, word, strlen(word));
	r = check_home(run, row, word, err);
	if (r < 0)
		return r;
	if (files_is_directory(run->task->fs, row->device, word, &run->task->cred)) {
		r = files_expand(run->task->fs, row->device, word, &run->task->cred,
				 &leaves, err);
		if (r >= 0 && leaves.n)
			r = run_order_outputs(row, word, &leaves);
		for (size_t i = 0; i < leaves.n && r >= 0; i++)
			r = names_add(ret, leaves.at[i], strlen(leaves.at[i]));
		if (r < 0 || leaves.n)
			return r;
	}
	if (*new)
		return pf_err_set(err, -EINVAL,
				  "only one output can be a new directory: %s and %s are",
				  *new, word);
	*new = word;
	return 0;
}

static int list_outputs(struct run *run, size_t i, struct pf_err *err)
{
	struct row *row = &run->rows[i];
	const struct names *given = rows_at(&run->request.outputs, i);
	size_t want = run->loaded->signature->n_outputs;
	struct names before = { 0 }, after = { 0 };
	const char *new = NULL;
	int r = 0;

	for (size_t k = 0; k < given->n && r == 0; k++)
		r = list_output(run, row, given->at[k], new ? &after : &before, &new,
				err);
	row->outputs = before;
	if (r == 0 && new &&before.n + after.n > want)
		r = pf_err_set(
			err, -EINVAL,
			"the program gives %zu outputs, there are %zu names beside "
			"%s",
			want, before.n + after.n, new);
	else if (r == 0 && new)
		r = number_outputs(row, new, want - before.n - after.n, err);
	for (size_t k = 0; k < after.n && r == 0; k++)
		r = names_add(&row->outputs, after.at[k], strlen(after.at[k]));
	names_release(&after);
	return r == -ENOMEM ? pf_err_set(err, r, "no memory for names") : r;
}

/* Every row has as many as the first. */
static int check_lengths(struct run *run, struct pf_err *err)
{
	run->n_in = run->rows[0].inputs.n;
	run->n_out = run->rows[0].outputs.n;
	for (size_t i = 1; i < run->n_rows; i++) {
		const struct row *row = &run->rows[i];

		if (row->inputs.n != run->n_in || row->outputs.n != run->n_out)
			return pf_err_set(err, -EINVAL,
					  "row 0 has %zu inputs and %zu outputs, row %zu "
					  "has %zu and %zu",
					  run->n_in, run->n_out, i, row->inputs.n,
					  row->outputs.n);
	}
	return 0;
}

int run_list_rows(struct run *run, struct pf_err *err)
{
	const struct request *q = &run->request;
	size_t n = run->loaded->n_devices ? run->loaded->n_devices : 1;
	int r;

	if ((q->inputs.n && q->inputs.n != n) || (q->outputs.n && q->outputs.n != n))
		return pf_err_set(
			err, -EINVAL,
			"the program runs on %zu device%s: expected %zu row%s of "
			"names, found %zu",
			n, n == 1 ? "" : "s at once", n, n == 1 ? "" : "s",
			q->inputs.n && q->inputs.n != n ? q->inputs.n : q->outputs.n);
	run->n_rows = n;
	run->rows = calloc(n, sizeof(*run->rows));
	if (!run->rows)
		return pf_err_set(err, -ENOMEM, "no memory for names");
	r = find_devices(run, err);
	for (size_t i = 0; i < n && r == 0; i++) {
		r = list_inputs(run, i, err);
		if (r == 0)
			r = list_outputs(run, i, err);
		if (r < 0 && n > 1)
			pf_err_wrap(err, r, "row %zu", i);
	}
	return r < 0 ? r : check_lengths(run, err);
}
