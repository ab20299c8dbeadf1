/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/buffers/buffers.h"
#include "internal.h"

/*
 * Arrays on several devices as arguments and results of one program: one word for all rows.
 */

/* The names of the rows' devices: borrowed strings in an array that the caller frees. */
static char **device_names(const struct named_exec *run)
{
	char **names = calloc(run->n_rows, sizeof(*names));

	for (size_t i = 0; names && i < run->n_rows; i++)
		names[i] = (char *)(uintptr_t)run->rows[i].device->name;
	return names;
}

/* The tiles of PARAM, if the program's rows are its partitions; or NULL. */
static const struct pf_tiles *tiles_of(const struct named_exec *run,
				       const struct pf_param *param)
{
	struct json_object *partitions;

	if (!json_object_object_get_ex(run->loaded->info, "num_partitions",
				       &partitions) ||
	    json_object_get_int64(partitions) != (int64_t)run->n_rows ||
	    (param->tiles && param->tiles->of && param->tiles->n != run->n_rows))
		return NULL;
	return param->tiles;
}

/* The name that all rows have for input I (or output I), or NULL. */
static const char *one_word(const struct named_exec *run, bool output, size_t i)
{
	const char *first = NULL;

	for (size_t row = 0; row < run->n_rows; row++) {
		const struct row *at = &run->rows[row];
		const char *name = output ? at->outputs.at[i] : at->inputs.at[i];

		if (row == 0)
			first = name;
		else if (strcmp(first, name))
			return NULL;
	}
	return first;
}

/* --- inputs ------------------------------------------------------------------------------- */

/* Check that S has a shard for each row and no others. */
static int check_devices(const struct named_exec *run, const struct pf_sharding *s,
			 struct pf_err *err)
{
	if (s->n != run->n_rows)
		return pf_err_set(err, -EINVAL,
				  "it has shards on %u devices, the program runs on %zu",
				  s->n, run->n_rows);
	for (size_t row = 0; row < run->n_rows; row++)
		if (pf_sharding_find(s, run->rows[row].device->name) < 0)
			return pf_err_set(err, -EINVAL,
					  "it has no shard on %s, where the program runs",
					  run->rows[row].device->name);
	return 0;
}

static int check_input(struct named_exec *run, size_t i, char *const *devices,
		       struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	const struct sharded *sh = NULL;
	const char *name = one_word(run, false, i);
	const struct pf_tiles *tiles;
	int r;

	/* If its sharding cannot be read, its buffers are treated like any others. */
	if (!name || i >= run->loaded->signature->n_inputs ||
	    files_find_sharding(run->task->fs, name, &run->task->cred, &node, &sh, NULL) <
		    1)
		return 0;
	tiles = tiles_of(run, &run->loaded->signature->inputs[i]);
	r = check_devices(run, &sh->s, err);
	if (r == 0 && sh->known && tiles)
		r = pf_sharding_agrees(&sh->s, tiles, (unsigned)run->n_rows, devices,
				       err);
	if (r < 0)
		return pf_err_wrap(err, r, "input %zu: %s, as %s.sharding.json has it", i,
				   name, name);
	if (sh->known && !run->mesh) {
		run->mesh = sh;
		run->mesh_node = pf_steal(&node);
	}
	return 0;
}

static int check_inputs(struct named_exec *run, struct pf_err *err)
{
	pf_autofree char **devices = device_names(run);
	int r = devices ? 0 : pf_err_set(err, -ENOMEM, "no memory for names");

	for (size_t i = 0; i < run->n_in && r == 0; i++)
		r = check_input(run, i, devices, err);
	return r;
}

/* Check that a result that is carried over is split as the next repetition takes it. */
static int check_carried_shards(const struct named_exec *run, struct pf_err *err)
{
	const struct pf_signature *sig = run->loaded->signature;

	for (size_t i = 0; i < run->n_in && i < sig->n_inputs; i++) {
		const struct pf_tiles *in = tiles_of(run, &sig->inputs[i]), *out = NULL;

		if (run->carry[i] < sig->n_outputs)
			out = tiles_of(run, &sig->outputs[run->carry[i]]);
		if (in && out && !pf_tiles_equal(in, out))
			return pf_err_set(err, -EINVAL,
					  "output %u is split otherwise than input %zu, "
					  "to which repetitions feed it",
					  run->carry[i], i);
	}
	return 0;
}

/* --- outputs ------------------------------------------------------------------------------ */

static bool shards_outputs(const struct named_exec *run)
{
	return run->n_rows > 1 && !run->spec.outputs.n && run->n_rows <= PF_MAX_SHARDS;
}

/*
 * Check that arguments on several devices are split as the program takes them, and that
 * results on several devices may have their names.  -EINVAL, and what
 * files_check_sharding says.
 */
static int run_check_shards(struct named_exec *run, struct pf_err *err)
{
	int r = 0;

	if (run->n_rows > 1 && !run->spec.inputs.n)
		r = check_inputs(run, err);
	if (r == 0 && run->n_rows > 1 && run->spec.repeat > 1)
		r = check_carried_shards(run, err);
	for (size_t i = 0; shards_outputs(run) && i < run->n_out && r == 0; i++) {
		const char *name = one_word(run, true, i);

		/* Its directory is made when there are results. */
		if (!name || (run->rows[0].directory && i >= run->rows[0].first &&
			      i < run->rows[0].first + run->rows[0].n))
			continue;
		r = files_check_sharding(run->task->fs, name, &run->task->cred, err);
		if (r < 0)
			pf_err_wrap(err, r, "output %zu", i);
	}
	return r;
}

/* List the devices only: how the program splits the result is not known. */
static int list_devices(struct pf_sharding *s, unsigned n, char *const *devices)
{
	memset(s, 0, sizeof(*s));
	s->n = n;
	s->devices = calloc(n, sizeof(*s->devices));
	for (unsigned i = 0; s->devices && i < n; i++) {
		s->devices[i] = strdup(devices[i]);
		if (!s->devices[i]) {
			pf_sharding_release(s);
			return -ENOMEM;
		}
	}
	return s->devices ? 0 : -ENOMEM;
}

static int describe(struct named_exec *run, const struct pf_execution *e, size_t i,
		    char *const *devices, struct sharded *sh, struct pf_err *err)
{
	const struct pf_param *param = &run->loaded->signature->outputs[i];
	const struct pf_tiles *tiles = tiles_of(run, param);
	unsigned n = (unsigned)run->n_rows;

	memset(sh, 0, sizeof(*sh));
	sh->dtype = e->outs[i].value->dtype;
	sh->shard = e->outs[i].value->shape;
	if (tiles &&
	    pf_sharding_of_tiles(tiles, n, devices, run->mesh ? &run->mesh->s : NULL,
				 &sh->s, NULL) == 0) {
		sh->known =
			pf_sharding_multiply(&sh->s, &sh->shard, &sh->whole, NULL) == 0;
		if (sh->known)
			return 0;
		pf_sharding_release(&sh->s);
	}
	return list_devices(&sh->s, n, devices) == 0
		       ? 0
		       : pf_err_set(err, -ENOMEM, "no memory for a sharding");
}

static int put_sharding(struct named_exec *run, const struct pf_execution *e, size_t i,
			char *const *devices, struct pf_err *err)
{
	const char *name = one_word(run, true, i);
	struct sharded sh;
	int r;

	if (!name)
		return 0;
	r = describe(run, e, i, devices, &sh, err);
	if (r == 0)
		r = files_put_sharding_locked(run->task->fs, name, &run->task->cred, &sh,
					      err);
	sharded_release(&sh);
	return r;
}

int run_make_home(struct named_exec *run, struct pf_err *err)
{
	/* The default device need not be one of the program's. */
	if (!shards_outputs(run) || !run->rows[0].directory)
		return 0;
	return files_make_directory(&run->task->fs->devices[0], run->rows[0].directory,
				    &run->task->cred, err);
}

int run_put_shardings_locked(struct named_exec *run, const struct pf_execution *e,
			     struct pf_err *err)
{
	pf_autofree char **devices = NULL;
	int r = 0;

	if (!shards_outputs(run))
		return 0;
	devices = device_names(run);
	if (!devices)
		return pf_err_set(err, -ENOMEM, "no memory for names");
	for (size_t i = 0; i < run->n_out && r == 0; i++)
		r = put_sharding(run, e, i, devices, err);
	return r;
}

/* Rows: the devices of an execution, and what words stand for on each. */

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
static int chosen_device(struct named_exec *run, const struct device **ret,
			 struct pf_err *err)
{
	const char *name = run->spec.device;
	const struct pf_worker *worker = run->loaded->worker;
	const struct device *device =
		files_find_device(run->task->fs, name, strlen(name), err);

	if (!device)
		return -ENODEV;
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

static int find_devices(struct named_exec *run, struct pf_err *err)
{
	const struct pf_fs *fs = run->task->fs;
	const struct pf_loaded *l = run->loaded;
	const struct device *chosen = NULL;
	int r = 0;

	if (run->spec.device)
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
static int order_inputs(struct named_exec *run, struct row *row, struct pf_err *err)
{
	const struct exec_spec *q = &run->spec;
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

static int list_inputs(struct named_exec *run, size_t i, struct pf_err *err)
{
	struct row *row = &run->rows[i];
	const struct names *given = rows_at(&run->spec.inputs, i);
	int r = 0;

	if (run->spec.by_name)
		return order_inputs(run, row, err);
	for (size_t k = 0; k < given->n && r == 0; k++)
		r = run_list_input(run, row, given->at[k], run->loaded->signature, err);
	return r == -ENOMEM ? pf_err_set(err, r, "no memory for names") : r;
}

/* Check that the directory WORD, a new one or not, is one of ROW's device, to which its
 * results can go. */
static int check_home(const struct named_exec *run, const struct row *row,
		      const char *word, struct pf_err *err)
{
	const char *slash = strchr(word, '/');
	const struct device *device = row->device;

	if (memchr(word, ':', (size_t)(slash - word)))
		device = files_find_device(run->task->fs, word, (size_t)(slash - word),
					   err);
	if (!device)
		return pf_err_wrap(err, -ENODEV, "output %s", word);
	if (device == row->device)
		return 0;
	return pf_err_set(
		err, -EINVAL,
		"output %s is on another device than %s, where the program runs", word,
		row->device->name);
}

/* Name the N results from FIRST on 0, 1, 2 ... in ROW's new directory. */
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

/* Append to RET the names that WORD, an output, stands for; of a new directory none, but *NEW. */
static int list_output(struct named_exec *run, const struct row *row, const char *word,
		       struct names *ret, const char **new, struct pf_err *err)
{
	PF_CLEANUP(names_release) struct names leaves = { 0 };
	int r;

	if (!is_directory_word(word))
		return names_add(ret, word, strlen(word));
	r = check_home(run, row, word, err);
	if (r < 0)
		return r;
	if (files_is_directory(row->device, word, &run->task->cred)) {
		r = files_expand(row->device, word, &run->task->cred, &leaves, err);
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

static int list_outputs(struct named_exec *run, size_t i, struct pf_err *err)
{
	struct row *row = &run->rows[i];
	const struct names *given = rows_at(&run->spec.outputs, i);
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
static int check_lengths(struct named_exec *run, struct pf_err *err)
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

/* Find the devices, and list what the request's words stand for on each: fills rows, n_in and
 * n_out.  (rows.c) */
static int run_list_rows(struct named_exec *run, struct pf_err *err)
{
	const struct exec_spec *q = &run->spec;
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

/* --- names to buffers ------------------------------------------------------------------- */

/* --- outputs ------------------------------------------------------------------------------ */

static bool in_new_directory(const struct row *row, size_t i)
{
	return row->directory && i >= row->first && i < row->first + row->n;
}

static int find_target(struct named_exec *run, size_t row, size_t i, struct pf_err *err)
{
	const struct row *at = &run->rows[row];
	struct target *t = &run->targets[row * run->n_out + i];
	const char *name = at->outputs.at[i];
	int r = files_find_target(at->device, name, &run->task->cred, t, err);

	if (r < 0)
		return pf_err_wrap(err, r, "output %zu", i);
	if (files_device_of(t->dir) != at->device)
		return pf_err_set(
			err, -EINVAL,
			"output %zu: %s is on another device than %s, where the "
			"program runs",
			i, name, at->device->name);
	return 0;
}

/* No two results of a row may have one name. */
static int check_targets(const struct named_exec *run, size_t row, struct pf_err *err)
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

static int find_targets(struct named_exec *run, struct pf_err *err)
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

int run_make_directories(struct named_exec *run, struct pf_err *err)
{
	int r = 0;

	for (size_t row = 0; row < run->n_rows && r == 0; row++) {
		struct row *at = &run->rows[row];

		if (!at->directory)
			continue;
		r = files_make_directory(at->device, at->directory, &run->task->cred,
					 err);
		for (size_t i = at->first; i < at->first + at->n && r == 0; i++) {
			r = find_target(run, row, i, err);
			run->targets[row * run->n_out + i].numbered = true;
		}
	}
	return r;
}

/* --- inputs ------------------------------------------------------------------------------- */

static bool is_donated(const struct named_exec *run, const char *name)
{
	for (size_t d = 0; d < run->spec.donate.n; d++)
		if (!strcmp(run->spec.donate.at[d], name))
			return true;
	return false;
}

/* Reading an array takes the right to read it; consuming it takes that to write, too. */
static int find_input(struct named_exec *run, size_t row, size_t i, struct pf_err *err)
{
	const struct row *at = &run->rows[row];
	const char *name = at->inputs.at[i];
	int want = is_donated(run, name) ? R_OK | W_OK : R_OK;
	int r;

	r = files_find_buffer(at->device, name, &run->task->cred, want,
			      &run->buffers[row * run->n_in + i], err);

	if (r == 0)
		return 0;
	return run->n_rows > 1 ? pf_err_wrap(err, r, "row %zu: input %zu", row, i)
			       : pf_err_wrap(err, r, "input %zu", i);
}

static int find_inputs(struct named_exec *run, struct pf_err *err)
{
	size_t n = run->n_rows * run->n_in;
	int r = 0;

	run->buffers = calloc(n + 1, sizeof(struct pf_buffer *));
	run->donate = calloc(n + 1, sizeof(*run->donate));
	run->carry = calloc(n + 1, sizeof(*run->carry));
	if (!run->buffers || !run->donate || !run->carry)
		return pf_err_set(err, -ENOMEM, "no memory for the inputs' names");
	for (size_t i = 0; i < n && r == 0; i++)
		r = find_input(run, i / run->n_in, i % run->n_in, err);
	return r;
}

/* Which results take the names of inputs: these are consumed, and carried over. */
static void find_carried(struct named_exec *run)
{
	for (size_t i = 0; i < run->n_rows * run->n_in; i++)
		run->carry[i] = PF_NO_CARRY;
	for (size_t k = 0; k < run->n_rows * run->n_out; k++) {
		const struct target *t = &run->targets[k];
		size_t first = k / run->n_out * run->n_in;
		PF_CLEANUP(pf_buffer_unrefp)
		struct pf_buffer *b = t->dir ? files_target_buffer(t) : NULL;

		for (size_t i = first; b && i < first + run->n_in; i++) {
			if (run->buffers[i] != b)
				continue;
			run->donate[i] = true;
			run->carry[i] = (uint32_t)(k % run->n_out);
		}
	}
}

/* A buffer that is passed twice cannot be consumed in either place. */
static void keep_doubles(struct named_exec *run)
{
	for (size_t i = 0; i < run->n_rows * run->n_in; i++)
		for (size_t k = 0; k < i; k++)
			if (run->buffers[k] == run->buffers[i])
				run->donate[k] = run->donate[i] = false;
}

/* Each name in "donate" must be an input that exists in all repetitions. */
static int mark_donated(struct named_exec *run, struct pf_err *err)
{
	for (size_t d = 0; d < run->spec.donate.n; d++) {
		const char *name = run->spec.donate.at[d];
		bool found = false;

		for (size_t i = 0; i < run->n_rows * run->n_in; i++) {
			const struct row *row = &run->rows[i / run->n_in];

			if (strcmp(row->inputs.at[i % run->n_in], name))
				continue;
			if (run->spec.repeat > 1 && run->carry[i] == PF_NO_CARRY)
				return pf_err_set(err, -EINVAL,
						  "donate: %s would be gone after the "
						  "first repetition: no output takes its "
						  "name",
						  name);
			run->donate[i] = found = true;
		}
		if (!found)
			return pf_err_set(err, -EINVAL,
					  "donate: %s is not an input of this execution",
					  name);
	}
	return 0;
}

/*
 * A repetition takes the results of the one before as arguments: they must be what the
 * program takes.  This is checked before the first one runs, which may consume its
 * arguments.
 */
static int check_carried(const struct named_exec *run, struct pf_err *err)
{
	const struct pf_signature *s = run->loaded->signature;

	for (size_t i = 0; run->spec.repeat > 1 && i < run->n_rows * run->n_in; i++) {
		size_t row = i / run->n_in, in = i % run->n_in;
		uint32_t out = run->carry[i];
		const struct pf_param *have, *want = &s->inputs[in];
		char a[128], b[128];

		if (out == PF_NO_CARRY)
			continue;
		have = &s->outputs[out];
		if (have->dtype == want->dtype &&
		    pf_shape_equal(&have->shape, &want->shape))
			continue;
		return pf_err_set(
			err, -EINVAL,
			"repeat: output %u (%s) is %s, the next repetition takes it "
			"as input %zu, which is %s",
			out, run->rows[row].outputs.at[out],
			pf_shape_str(a, sizeof(a), have->dtype, &have->shape), in,
			pf_shape_str(b, sizeof(b), want->dtype, &want->shape));
	}
	return 0;
}

int run_resolve(struct named_exec *run, struct pf_err *err)
{
	int r = run_list_rows(run, err);

	/* First, as the time of the other checks grows with the number of names. */
	if (r == 0)
		r = pf_execution_check_counts(run->loaded, run->n_in, run->n_out, err);
	if (r == 0)
		r = find_inputs(run, err);
	if (r == 0)
		r = find_targets(run, err);
	if (r < 0)
		return r;
	find_carried(run);
	keep_doubles(run);
	r = mark_donated(run, err);
	if (r == 0)
		r = check_carried(run, err);
	return r < 0 ? r : run_check_shards(run, err);
}

/* An array that is used twice is not consumed: the other use would not find it. */
static int check_twice(struct named_exec *run, struct pf_execution *e, struct pf_err *err)
{
	for (size_t i = 0; i < e->n_args; i++)
		for (size_t k = 0; e->args[i].donate && k < e->n_args; k++) {
			if (k == i || e->args[k].value != e->args[i].value)
				continue;
			if (is_donated(run, e->args[i].name))
				return pf_err_set(err, -EINVAL,
						  "donate: %s is used twice",
						  e->args[i].name);
			e->args[i].donate = false;
		}
	return 0;
}

/*
 * May the array NAME, input I, be consumed?  Only if "donate" or the program says so,
 * even if an output replaces it, since others may read it while the program runs.
 */
static bool may_consume(const struct named_exec *run, const char *name, size_t i)
{
	const struct pf_signature *s = run->loaded->signature;
	size_t k = i % run->n_in;

	return is_donated(run, name) || (k < s->n_inputs && s->inputs[k].donated);
}

/* Inputs that are consumed and replaced stay EBUSY until their names have the results. */
static int note_replaced(struct named_exec *run, const struct pf_execution *e,
			 struct pf_err *err)
{
	for (size_t i = 0; i < e->n_args; i++) {
		if (!e->args[i].donate || run->carry[i] == PF_NO_CARRY)
			continue;
		if (!run->replaced)
			run->replaced = calloc(e->n_args, sizeof(struct pf_value *));
		if (!run->replaced)
			return pf_err_set(err, -ENOMEM, "no memory for an execution");
		run->replaced[i] = pf_value_ref(e->args[i].value);
		pf_value_replaces(e->args[i].value, true);
	}
	return 0;
}

int run_arguments(struct named_exec *run, struct pf_execution *e, struct pf_err *err)
{
	int r;

	for (size_t i = 0; i < e->n_args; i++) {
		const struct row *row = &run->rows[i / run->n_in];
		const struct device *d = row->device;
		const char *name = row->inputs.at[i % run->n_in];
		struct pf_exec_arg *arg = &e->args[i];
		struct pf_value *v = NULL;

		r = files_find_value(d, name, &run->task->cred,
				     is_donated(run, name) ? R_OK | W_OK : R_OK,
				     &run->buffers[i], &v, err);

		if (r < 0)
			return pf_err_wrap(err, r, "input %zu", i % run->n_in);
		arg->value = v;
		arg->name = name;
		arg->carry = run->carry[i];
		arg->donate = run->donate[i] && may_consume(run, name, i);
		arg->donate_carried = run->donate[i] && arg->carry != PF_NO_CARRY;
		if (run->spec.move) {
			arg->value = pf_value_at(v, d->worker, d->index, PF_ANY_MEMORY);
			pf_value_unref(v);
		}
		if (!arg->value)
			return pf_err_set(err, -ENOMEM, "no memory for an argument");
	}
	r = check_twice(run, e, err);
	return r < 0 ? r : note_replaced(run, e, err);
}
