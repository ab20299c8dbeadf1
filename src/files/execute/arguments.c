/* SPDX-License-Identifier: Apache-2.0 */
/* The words of an execution: which arrays and names they stand for on each device. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "files/buffers/buffers.h"
#include "internal.h"

/* --- devices ------------------------------------------------------------------------------ */

const struct device *run_device(const struct program *program,
				const struct pf_loaded_facts *loaded, size_t row,
				struct pf_err *err)
{
	const struct device *d = program->home->devices;
	unsigned index = loaded->n_devices ? loaded->devices[row] : 0;

	for (unsigned i = 0; i < program->fs->n_devices; i++, d++)
		if (d->worker == loaded->worker && d->index == index)
			return d;
	pf_err_set(err, -ENODEV, "its device %u is not in devices/", index);
	return NULL;
}

/* The device that the request names, which the program must be able to run on. */
static int chosen_device(struct named_exec *run, const struct device **ret,
			 struct pf_err *err)
{
	const char *name = run->spec.device;
	const struct pf_worker *worker = run->is.worker;
	const struct device *device =
		files_find_device(run->task->fs, name, strlen(name), err);

	if (!device)
		return -ENODEV;
	device = files_device_in(run->program->home, device);
	if (device->worker != worker)
		return pf_err_set(err, -EINVAL,
				  "device %s is not of the program's plugin %s", name,
				  pf_worker_name(worker));
	if (run->is.n_devices &&
	    (run->is.n_devices > 1 || run->is.devices[0] != device->index))
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
	const struct device *chosen = NULL;
	int r = 0;

	if (run->spec.device)
		r = chosen_device(run, &chosen, err);
	for (size_t i = 0; i < run->n_rows && r == 0; i++) {
		const struct device *device =
			chosen ? chosen : run_device(run->program, &run->is, i, err);

		if (!device)
			return -ENODEV;
		run->rows[i].device = device;
		run->devices[i] = (char *)(uintptr_t)device->name;
	}
	return r;
}

/* --- lists -------------------------------------------------------------------------------- */

static int list_inputs(struct named_exec *run, size_t i, struct pf_err *err)
{
	const struct exec_spec *q = &run->spec;
	int r = run_list_inputs(run->is.signature, &run->rows[i], rows_at(&q->inputs, i),
				&q->params, q->positional, false, &run->task->cred, err);

	return r == -ENOMEM ? pf_err_set(err, r, "no memory for names") : r;
}

/* Is output I of ROW in its new directory? */
static bool in_new_directory(const struct row *row, size_t i)
{
	return row->directory && i >= row->first && i < row->first + row->n;
}

/* Check that the directory WORD, a new one or not, is one of ROW's device, to which its
 * results can go. */
static int check_directory(const struct named_exec *run, const struct row *row,
			   const char *word, struct pf_err *err)
{
	const char *slash = strchr(word, '/');
	const struct device *device = row->device;

	if (memchr(word, ':', (size_t)(slash - word)))
		device = files_find_device(run->task->fs, word, (size_t)(slash - word),
					   err);
	if (!device)
		return pf_err_wrap(err, -ENODEV, "output %s", word);
	if (device->number == row->device->number)
		return 0;
	return pf_err_set(
		err, -EINVAL,
		"output %s is on another device than %s, where the program runs", word,
		row->device->name);
}

/* Append to ROW's outputs the names that WORD stands for; a new directory's come later. */
static int list_output(struct named_exec *run, struct row *row, const char *word,
		       struct pf_err *err)
{
	PF_CLEANUP(names_release) struct names leaves = { 0 };
	int r;

	if (!*word || word[strlen(word) - 1] != '/')
		return names_add(&row->outputs, word, strlen(word));
	r = check_directory(run, row, word, err);
	if (r < 0)
		return r;
	if (files_is_directory(row->device, word, &run->task->cred)) {
		r = files_expand(row->device, word, &run->task->cred, &leaves, NULL, err);
		if (r >= 0 && leaves.n)
			r = run_order_outputs(row, word, &leaves);
		for (size_t i = 0; i < leaves.n && r >= 0; i++)
			r = names_add(&row->outputs, leaves.at[i], strlen(leaves.at[i]));
		if (r < 0 || leaves.n)
			return r;
	}
	if (row->directory)
		return pf_err_set(err, -EINVAL,
				  "only one output can be a new directory: %s and %s are",
				  row->directory, word);
	row->first = row->outputs.n;
	row->directory = strdup(word);
	return row->directory ? 0 : -ENOMEM;
}

/* The results among WANT that have no other name get the names 0, 1, 2 ... in ROW's new
 * directory. */
static int number_outputs(struct row *row, size_t want, struct pf_err *err)
{
	PF_CLEANUP(names_release) struct names given = row->outputs;
	int r = 0;

	memset(&row->outputs, 0, sizeof(row->outputs));
	if (given.n > want)
		return pf_err_set(
			err, -EINVAL,
			"the program gives %zu outputs, there are %zu names beside %s",
			want, given.n, row->directory);
	row->n = want - given.n;
	for (size_t i = 0; i < want && r == 0; i++) {
		pf_autobuf struct pf_buf name = PF_BUF_INIT;

		if (in_new_directory(row, i))
			pf_buf_printf(&name, "%s%zu", row->directory, i - row->first);
		else
			pf_buf_puts(&name, given.at[i < row->first ? i : i - row->n]);
		r = name.failed ? -ENOMEM
				: names_add(&row->outputs, name.data ? name.data : "",
					    name.len);
	}
	return r;
}

static int list_outputs(struct named_exec *run, size_t i, struct pf_err *err)
{
	struct row *row = &run->rows[i];
	const struct names *given = rows_at(&run->spec.outputs, i);
	int r = 0;

	for (size_t k = 0; k < given->n && r == 0; k++)
		r = list_output(run, row, given->at[k], err);
	if (r == 0 && row->directory)
		r = number_outputs(row, run->is.signature->n_outputs, err);
	return r == -ENOMEM ? pf_err_set(err, r, "no memory for names") : r;
}

/* Find the devices, and list what the request's words stand for on each: fills rows, n_in and
 * n_out, which is the same for all rows. */
static int list_rows(struct named_exec *run, struct pf_err *err)
{
	const struct exec_spec *q = &run->spec;
	size_t n = run->is.n_devices ? run->is.n_devices : 1;
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
	run->devices = calloc(n, sizeof(*run->devices));
	if (!run->rows || !run->devices)
		return pf_err_set(err, -ENOMEM, "no memory for names");
	r = find_devices(run, err);
	for (size_t i = 0; i < n && r == 0; i++) {
		r = list_inputs(run, i, err);
		if (r == 0)
			r = list_outputs(run, i, err);
		if (r < 0 && n > 1)
			pf_err_wrap(err, r, "row %zu", i);
	}
	run->n_in = run->rows[0].inputs.n;
	run->n_out = run->rows[0].outputs.n;
	for (size_t i = 1; i < n && r == 0; i++) {
		const struct row *row = &run->rows[i];

		if (row->inputs.n != run->n_in || row->outputs.n != run->n_out)
			r = pf_err_set(
				err, -EINVAL,
				"row 0 has %zu inputs and %zu outputs, row %zu has "
				"%zu and %zu",
				run->n_in, run->n_out, i, row->inputs.n, row->outputs.n);
	}
	return r;
}

/* --- arrays on several devices: one word for all rows ------------------------------------- */

/* The tiles of PARAM, if the program's rows are its partitions; or NULL. */
static const struct pf_tiles *tiles_of(const struct named_exec *run,
				       const struct pf_param *param)
{
	if (run->is.partitions != (int64_t)run->n_rows ||
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

static int check_input(struct named_exec *run, size_t i, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	const struct sharded *sh = NULL;
	const char *name = one_word(run, false, i);
	const struct pf_tiles *tiles;
	int r;

	/* If its sharding cannot be read, its buffers are treated like any others. */
	if (!name || files_find_sharding(run->task->fs, name, &run->task->cred, &node,
					 &sh, NULL) < 1)
		return 0;
	tiles = tiles_of(run, &run->is.signature->inputs[i]);
	r = check_devices(run, &sh->s, err);
	if (r == 0 && sh->known && tiles)
		r = pf_sharding_agrees(&sh->s, tiles, (unsigned)run->n_rows, run->devices,
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

static bool shards_outputs(const struct named_exec *run)
{
	return run->n_rows > 1 && !run->spec.outputs.n && run->n_rows <= PF_MAX_SHARDS;
}

/*
 * Check that arguments on several devices are split as the program takes them, and that
 * results on several devices may have their names.  -EINVAL, and what
 * files_check_sharding says.
 */
static int check_shards(struct named_exec *run, struct pf_err *err)
{
	bool by_row = run->n_rows == 1 || run->spec.inputs.n;
	int r = 0;

	for (size_t i = 0; !by_row && i < run->n_in && r == 0; i++)
		r = check_input(run, i, err);
	for (size_t i = 0; shards_outputs(run) && i < run->n_out && r == 0; i++) {
		const char *name = one_word(run, true, i);

		/* Its directory is made when there are results. */
		if (!name || in_new_directory(&run->rows[0], i))
			continue;
		r = files_check_sharding(run->task->fs, name, &run->task->cred, err);
		if (r < 0)
			pf_err_wrap(err, r, "output %zu", i);
	}
	return r;
}

static int describe(const struct named_exec *run, const struct pf_execution *e, size_t i,
		    struct sharded *sh, struct pf_err *err)
{
	const struct pf_param *param = &run->is.signature->outputs[i];
	const struct pf_tiles *tiles = tiles_of(run, param);
	const struct pf_array_type shard = pf_value_type(e->outs[i].value);
	struct pf_sharding only = { .n = (unsigned)run->n_rows, .devices = run->devices };

	memset(sh, 0, sizeof(*sh));
	sh->dtype = shard.dtype;
	pf_shape_copy(&sh->shard, shard.shape);
	if (tiles &&
	    pf_sharding_of_tiles(tiles, only.n, only.devices,
				 run->mesh ? &run->mesh->s : NULL, &sh->s, NULL) == 0) {
		sh->known =
			pf_sharding_multiply(&sh->s, &sh->shard, &sh->whole, NULL) == 0;
		if (sh->known)
			return 0;
		pf_sharding_release(&sh->s);
	}
	/* How the program splits the result is not known. */
	return pf_sharding_copy(&only, &sh->s) == 0
		       ? 0
		       : pf_err_set(err, -ENOMEM, "no memory for a sharding");
}

static int put_sharding(struct named_exec *run, const struct pf_execution *e, size_t i,
			struct pf_err *err)
{
	const char *name = one_word(run, true, i);
	struct sharded sh;
	int r;

	if (!name)
		return 0;
	r = describe(run, e, i, &sh, err);
	if (r == 0)
		r = files_put_sharding_locked(run->task->fs, name, &run->task->cred, &sh,
					      err);
	sharded_release(&sh);
	return r;
}

int run_put_shardings_locked(struct named_exec *run, const struct pf_execution *e,
			     struct pf_err *err)
{
	int r = 0;

	for (size_t i = 0; shards_outputs(run) && i < run->n_out && r == 0; i++)
		r = put_sharding(run, e, i, err);
	return r;
}

/* --- names to buffers --------------------------------------------------------------------- */

static int find_target(struct named_exec *run, size_t row, size_t i, struct pf_err *err)
{
	const struct row *at = &run->rows[row];
	struct target *t = &run->targets[row * run->n_out + i];
	const char *name = at->outputs.at[i];
	int r = files_find_target(at->device, name, &run->task->cred, t, err);

	if (r < 0)
		return pf_err_wrap(err, r, "output %zu", i);
	if (files_device_of(t->dir)->number != at->device->number)
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
	/* The default device, where .sharding.json files lie, need not be one of the
	 * program's. */
	if (r == 0 && shards_outputs(run) && run->rows[0].directory)
		r = files_make_directory(&run->task->fs->devices[0],
					 run->rows[0].directory, &run->task->cred, err);
	return r;
}

static bool is_donated(const struct named_exec *run, size_t i)
{
	return run->donated && run->donated[i];
}

/* Mark the inputs called NAME. */
static int donate_name(struct named_exec *run, const char *name, struct pf_err *err)
{
	bool found = false;

	for (size_t i = 0; i < run->n_rows * run->n_in; i++)
		if (!strcmp(run->rows[i / run->n_in].inputs.at[i % run->n_in], name))
			run->donated[i] = found = true;
	return found ? 0
		     : pf_err_set(err, -EINVAL,
				  "donate: %s is not an input of this execution", name);
}

/* Find out which inputs "donate" has; each name and number must be one of an input. */
static int list_donated(struct named_exec *run, struct pf_err *err)
{
	const struct exec_spec *q = &run->spec;
	int r = 0;

	if (!q->donate.n && !q->n_donate_at && !q->donate_all)
		return 0;
	run->donated = calloc(run->n_rows * run->n_in + 1, sizeof(*run->donated));
	if (!run->donated)
		return pf_err_set(err, -ENOMEM, "no memory for the inputs' names");
	for (size_t d = 0; d < q->donate.n && r == 0; d++)
		r = donate_name(run, q->donate.at[d], err);
	for (size_t d = 0; d < q->n_donate_at && r == 0; d++) {
		if (q->donate_at[d] >= run->n_in)
			return pf_err_set(err, -EINVAL,
					  "donate: input %u: there are %zu inputs, "
					  "numbered from 0 on",
					  q->donate_at[d], run->n_in);
		for (size_t row = 0; row < run->n_rows; row++)
			run->donated[row * run->n_in + q->donate_at[d]] = true;
	}
	for (size_t i = 0; q->donate_all && i < run->n_rows * run->n_in; i++)
		run->donated[i] = true;
	return r;
}

/* Find the array of argument I.  To read it takes the right to read it; to consume it, that
 * to write, too. */
static int find_input(struct named_exec *run, struct pf_execution *e, size_t i,
		      struct pf_err *err)
{
	const struct row *row = &run->rows[i / run->n_in];
	const char *name = row->inputs.at[i % run->n_in];
	int want = is_donated(run, i) ? R_OK | W_OK : R_OK;
	int r = files_find_value(row->device, name, &run->task->cred, want,
				 &run->buffers[i], &e->args[i].value, err);

	e->args[i].name = name;
	e->args[i].untyped = r == 0 ? pf_buffer_untyped(run->buffers[i]) : PF_TYPED;
	if (r == 0)
		return 0;
	return run->n_rows > 1 ? pf_err_wrap(err, r, "row %zu: input %zu", i / run->n_in,
					     i % run->n_in)
			       : pf_err_wrap(err, r, "input %zu", i);
}

static int find_inputs(struct named_exec *run, struct pf_execution *e, struct pf_err *err)
{
	int r = 0;

	run->buffers = calloc(e->n_args + 1, sizeof(struct pf_buffer *));
	if (!run->buffers)
		return pf_err_set(err, -ENOMEM, "no memory for the inputs' names");
	for (size_t i = 0; i < e->n_args && r == 0; i++)
		r = find_input(run, e, i, err);
	return r;
}

/* Which results take the names of inputs: these are consumed, and carried over.  A buffer that
 * is passed twice cannot be consumed in either place. */
static void find_carried(struct named_exec *run, struct pf_execution *e)
{
	for (size_t k = 0; k < run->n_rows * run->n_out; k++) {
		const struct target *t = &run->targets[k];
		size_t first = k / run->n_out * run->n_in;
		PF_CLEANUP(pf_buffer_unrefp)
		struct pf_buffer *b = t->dir ? files_target_buffer(t) : NULL;

		for (size_t i = first; b && i < first + run->n_in; i++) {
			if (run->buffers[i] != b)
				continue;
			e->args[i].donate = true;
			e->args[i].carry = (uint32_t)(k % run->n_out);
		}
	}
	for (size_t i = 0; i < e->n_args; i++)
		for (size_t k = 0; k < i; k++)
			if (run->buffers[k] == run->buffers[i])
				e->args[k].donate = e->args[i].donate = false;
}

/* Inputs that "donate" has must exist in all repetitions. */
static int mark_donated(const struct named_exec *run, struct pf_execution *e,
			struct pf_err *err)
{
	for (size_t i = 0; run->donated && i < e->n_args; i++) {
		if (!run->donated[i])
			continue;
		if (run->spec.repeat > 1 && e->args[i].carry == PF_NO_CARRY)
			return pf_err_set(err, -EINVAL,
					  "donate: %s would be gone after the first "
					  "repetition: no output takes its name",
					  e->args[i].name);
		e->args[i].donate = true;
	}
	return 0;
}

/*
 * A repetition takes the results of the one before as arguments: they must be what the
 * program takes.  This is checked before the first one runs, which may consume its
 * arguments.
 */
static int check_carried(const struct named_exec *run, size_t i, uint32_t out,
			 struct pf_err *err)
{
	const struct pf_signature *s = run->is.signature;
	const struct pf_param *have = &s->outputs[out], *want = &s->inputs[i % run->n_in];
	const struct pf_tiles *from = tiles_of(run, have), *to = tiles_of(run, want);
	char a[128], b[128];

	if (have->dtype != want->dtype || !pf_shape_equal(&have->shape, &want->shape))
		return pf_err_set(
			err, -EINVAL,
			"repeat: output %u (%s) is %s, the next repetition takes it "
			"as input %zu, which is %s",
			out, run->rows[i / run->n_in].outputs.at[out],
			pf_shape_str(a, sizeof(a), have->dtype, &have->shape),
			i % run->n_in,
			pf_shape_str(b, sizeof(b), want->dtype, &want->shape));
	if (run->n_rows > 1 && from && to && !pf_tiles_equal(to, from))
		return pf_err_set(err, -EINVAL,
				  "output %u is split otherwise than input %zu, to which "
				  "repetitions feed it",
				  out, i % run->n_in);
	return 0;
}

/* An array that is used twice is not consumed: the other use would not find it. */
static int check_twice(struct named_exec *run, struct pf_execution *e, struct pf_err *err)
{
	for (size_t i = 0; i < e->n_args; i++)
		for (size_t k = 0; e->args[i].donate && k < e->n_args; k++) {
			if (k == i || e->args[k].value != e->args[i].value)
				continue;
			if (is_donated(run, i))
				return pf_err_set(err, -EINVAL,
						  "donate: %s is used twice",
						  e->args[i].name);
			e->args[i].donate = false;
		}
	return 0;
}

/* Is AT on device D, but of another user's worker? */
static bool is_next_door(struct pf_place at, const struct device *d)
{
	return at.worker != d->worker && at.device == d->index &&
	       pf_worker_shared(at.worker) == pf_worker_shared(d->worker);
}

int run_move(struct pf_value **value, const struct device *d, bool move,
	     struct pf_account *account, struct pf_err *err)
{
	const struct pf_place at = pf_value_place(*value);
	bool next_door = is_next_door(at, d);
	PF_CLEANUP(pf_value_unrefp) struct pf_value *v = NULL;

	if (!move && !next_door)
		return 0;
	v = pf_steal(value);
	*value = pf_value_at(v,
			     pf_location_place(&d->location,
					       next_door ? at.memory : PF_ANY_MEMORY),
			     account);
	return *value ? 0 : pf_err_set(err, -ENOMEM, "no memory for an argument");
}

static int move_arguments(const struct named_exec *run, struct pf_execution *e,
			  struct pf_err *err)
{
	struct pf_account *account = files_account(run->task->fs, run->task->cred.uid);
	int r = 0;

	for (size_t i = 0; i < e->n_args && r == 0; i++)
		r = run_move(&e->args[i].value, run->rows[i / run->n_in].device,
			     run->spec.move, account, err);
	return r;
}

/*
 * Which arrays may be consumed?  Only if "donate" or the program says so, even if an output
 * replaces them, since others may read them while the program runs.  Those that are consumed and
 * replaced stay EBUSY until their names have the results.
 */
static int decide_donations(struct named_exec *run, struct pf_execution *e,
			    struct pf_err *err)
{
	int r;

	for (size_t i = 0; i < e->n_args; i++) {
		struct pf_exec_arg *arg = &e->args[i];

		arg->donate_carried = arg->donate && arg->carry != PF_NO_CARRY;
		arg->donate = arg->donate &&
			      (run->is.signature->inputs[i % run->n_in].donated ||
			       is_donated(run, i));
	}
	r = check_twice(run, e, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < e->n_args; i++) {
		if (!e->args[i].donate || e->args[i].carry == PF_NO_CARRY)
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

/* Too few or too many inputs are there: append the first that is no buffer, as "x,y", which can be why. */
static void add_missing(const struct named_exec *run, struct pf_err *err)
{
	const struct row *row = &run->rows[0];
	bool many = run->n_in > run->is.signature->n_inputs;

	for (size_t i = 0; i < run->n_in; i++) {
		PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *buffer = NULL;
		struct pf_err why = PF_ERR_INIT, was = *err;

		if (files_find_buffer(row->device, row->inputs.at[i], &run->task->cred,
				      R_OK, &buffer, &why) != -ENOENT)
			continue;
		pf_err_set(err, was.code, "%s: %s%s", was.text, why.text,
			   many ? "; a name with a blank needs quotes" : "");
		return;
	}
}

/* More names of outputs are given than there are: perhaps one was meant as an option. */
static void add_similar_option(const struct named_exec *run, struct pf_err *err)
{
	static const char *const options[] = { "async", "move", "positional", NULL };
	const struct names *names = &run->rows[0].outputs;
	char hint[PF_SIMILAR_TEXT];

	for (size_t i = 0; i < names->n; i++) {
		struct pf_similar similar = { .word = names->at[i] };
		struct pf_err was = *err;

		pf_similar_try_all(&similar, options);
		if (!similar.best)
			continue;
		pf_err_set(err, was.code, "%s: %s is one%s", was.text, names->at[i],
			   pf_similar_hint(&similar, hint));
		return;
	}
}

/* First, as the time of the other checks grows with the number of names. */
static int check_counts(const struct named_exec *run, struct pf_err *err)
{
	int r = pf_execution_check_counts(run->loaded, run->n_in, run->n_out, err);

	if (run->n_in != run->is.signature->n_inputs)
		add_missing(run, err);
	else if (run->n_out > run->is.signature->n_outputs)
		add_similar_option(run, err);
	return r;
}

int run_resolve(struct named_exec *run, struct pf_execution **ret, struct pf_err *err)
{
	struct pf_execution *e;
	int r;

	run->is = pf_loaded_facts(run->loaded);
	r = list_rows(run, err);
	if (r == 0)
		r = check_counts(run, err);
	if (r == 0)
		r = list_donated(run, err);
	if (r < 0)
		return r;
	e = *ret =
		pf_execution_new(run->program->x, run->n_rows * run->n_in, run->n_rows);
	if (!e)
		return pf_err_set(err, -ENOMEM, "no memory for an execution");
	r = find_inputs(run, e, err);
	if (r == 0)
		r = find_targets(run, err);
	if (r < 0)
		return r;
	find_carried(run, e);
	r = mark_donated(run, e, err);
	for (size_t i = 0; run->spec.repeat > 1 && i < e->n_args && r == 0; i++)
		if (e->args[i].carry != PF_NO_CARRY)
			r = check_carried(run, i, e->args[i].carry, err);
	if (r == 0)
		r = check_shards(run, err);
	if (r == 0)
		r = move_arguments(run, e, err);
	return r < 0 ? r : decide_donations(run, e, err);
}
