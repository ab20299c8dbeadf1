/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays on several devices as arguments and results of one program: one word for all rows.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "files/buffers/sharding.h"

/* The names of the rows' devices, borrowed ones in an array that the caller frees. */
static char **device_names(const struct run *run)
{
	char **names = calloc(run->n_rows, sizeof(*names));

	for (size_t i = 0; names && i < run->n_rows; i++)
		names[i] = (char *)(uintptr_t)run->rows[i].device->name;
	return names;
}

/* What the program tells of PARAM, if its rows are its partitions; or NULL. */
static const struct pf_tiles *tiles_of(const struct run *run,
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
static const char *one_word(const struct run *run, bool output, size_t i)
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

/* A shard for each row, and none besides. */
static int check_devices(const struct run *run, const struct pf_sharding *s,
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

static int check_input(struct run *run, size_t i, char *const *devices,
		       struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	const struct sharded *sh = NULL;
	const char *name = one_word(run, false, i);
	const struct pf_tiles *tiles;
	int r;

	/* What it is split like cannot be read: then its buffers are just buffers. */
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

static int check_inputs(struct run *run, struct pf_err *err)
{
	pf_autofree char **devices = device_names(run);
	int r = devices ? 0 : pf_err_set(err, -ENOMEM, "no memory for names");

	for (size_t i = 0; i < run->n_in && r == 0; i++)
		r = check_input(run, i, devices, err);
	return r;
}

/* A result that is fed to the next repetition is split as that wants it. */
static int check_fed(const struct run *run, struct pf_err *err)
{
	const struct pf_signature *sig = run->loaded->signature;

	for (size_t i = 0; i < run->n_in && i < sig->n_inputs; i++) {
		const struct pf_tiles *in = tiles_of(run, &sig->inputs[i]), *out = NULL;

		if (run->fed[i] < sig->n_outputs)
			out = tiles_of(run, &sig->outputs[run->fed[i]]);
		if (in && out && !pf_tiles_equal(in, out))
			return pf_err_set(err, -EINVAL,
					  "output %zu is split otherwise than input %zu, "
					  "to which repetitions feed it",
					  run->fed[i], i);
	}
	return 0;
}

/* --- outputs ------------------------------------------------------------------------------ */

static bool shards_outputs(const struct run *run)
{
	return run->n_rows > 1 && !run->request.outputs.n && run->n_rows <= PF_MAX_SHARDS;
}

int run_check_shards(struct run *run, struct pf_err *err)
{
	int r = 0;

	if (run->n_rows > 1 && !run->request.inputs.n)
		r = check_inputs(run, err);
	if (r == 0 && run->n_rows > 1 && run->request.repeat > 1)
		r = check_fed(run, err);
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

/* The devices alone: how the result is split nobody knows. */
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

static int describe(struct run *run, const struct pf_execution *e, size_t i,
		    char *const *devices, struct sharded *sh, struct pf_err *err)
{
	const struct pf_param *param = &run->loaded->signature->outputs[i];
	const struct pf_tiles *tiles = tiles_of(run, param);
	unsigned n = (unsigned)run->n_rows;

	memset(sh, 0, sizeof(*sh));
	sh->dtype = e->outs[i]->dtype;
	sh->shard = e->outs[i]->shape;
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

static int put_sharding(struct run *run, const struct pf_execution *e, size_t i,
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

int run_make_home(struct run *run, struct pf_err *err)
{
	/* The default device need not be one of the program's. */
	if (!shards_outputs(run) || !run->rows[0].directory)
		return 0;
	return files_make_directory(run->task->fs, &run->task->fs->devices[0],
				    run->rows[0].directory, &run->task->cred, err);
}

int run_put_shardings_locked(struct run *run, const struct pf_execution *e,
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
