/* SPDX-License-Identifier: Apache-2.0 */
/* The op "shard": one array becomes a buffer on each of several devices. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/base/json.h"
#include "pjrtfs/store/blocks.h"
#include "command.h"
#include "files/tasks/request.h"
#include "shards.h"

/* --- the end ------------------------------------------------------------------------------ */

static int put(struct shards *all, struct shard *shard, struct pf_err *err)
{
	PF_CLEANUP(pf_buffer_unrefp)
	struct pf_buffer *b =
		pf_buffer_of_value(&shard->device->place, shard->value, "shard");

	if (!b)
		return pf_err_set(err, -ENOMEM, "no memory for a buffer");
	return files_put_buffer_locked(&shard->target, b, PF_FORMAT_NPY, &all->task->cred,
				       false, err);
}

/* All names appear at once. */
static int put_all(struct shards *all, struct pf_err *err)
{
	struct pf_tree *tree = all->task->fs->tree;
	int r;

	pf_tree_lock_names(tree);
	r = files_put_sharding_locked(all->task->fs, all->name, &all->task->cred,
				      &all->about, err);
	for (unsigned i = 0; i < all->n && r == 0; i++)
		r = put(all, &all->at[i], err);
	pf_tree_unlock_names(tree);
	return r;
}

static struct json_object *reply_of(const struct shards *all)
{
	struct json_object *o = reply_new(), *devices = json_object_new_array();

	pf_json_add_string(o, "buffer", all->name);
	json_object_object_add(o, "shard_shape", pf_shape_json(&all->about.shard));
	for (unsigned i = 0; i < all->n; i++)
		json_object_array_add(devices,
				      json_object_new_string(all->about.s.devices[i]));
	json_object_object_add(o, "devices", devices);
	return o;
}

/* All shards are on their devices, or some are not. */
static void placed(struct shards *all)
{
	struct pf_err err = PF_ERR_INIT;
	struct json_object *reply;
	int r = 1;

	for (unsigned i = 0; i < all->n && r > 0; i++) {
		r = pf_value_placed(all->at[i].value, &err);
		if (r < 0)
			pf_err_wrap(&err, r, "the shard on %s", all->at[i].device->name);
	}
	if (r > 0 && task_answered(all->task))
		r = pf_err_set(&err, -ECANCELED, "nobody waits for it any more");
	reply = r > 0 ? reply_of(all) : NULL;
	if (r > 0)
		r = put_all(all, &err);
	if (r < 0) {
		json_object_put(reply);
		shards_fail(all, &err);
		return;
	}
	task_done(all->task, 0, reply);
	shards_free(all);
}

/* --- cutting -------------------------------------------------------------------------------- */

static int place(struct shard *shard)
{
	return pf_value_place(shard->value, &shard->waiter, NULL);
}

/* What each device gets; replicas share the bytes of the first of them. */
static int make_values(struct shards *all, struct pf_err *err)
{
	const struct pf_sharding *s = &all->about.s;
	unsigned first[PF_MAX_SHARDS];
	bool replicated = pf_sharding_blocks(s) == 1;
	int r = 0;

	memset(first, 0xff, sizeof(first));
	for (unsigned i = 0; i < s->n && r == 0; i++) {
		struct shard *shard = &all->at[i];
		unsigned *one = &first[pf_sharding_block(s, i)];
		struct pf_block block;

		if (replicated || *one != UINT_MAX) {
			shard->value = shards_value_on(replicated ? all->whole
								  : all->at[*one].value,
						       shard->device);
			if (!shard->value)
				r = pf_err_set(err, -ENOMEM, "no memory for a value");
			continue;
		}
		*one = i;
		pf_sharding_part(s, &all->about.whole, i, &block);
		r = pf_value_cut(all->whole, &block, shard->device->worker,
				 shard->device->index, &shard->value, err);
	}
	return r;
}

/* The bytes are there: cut, and send each shard to its device. */
static void cut(struct shards *all)
{
	struct pf_err err = PF_ERR_INIT;
	int r;

	if (task_cancelled(all->task))
		r = pf_err_set(&err, -ECANCELED, "cancelled before it began");
	else
		r = make_values(all, &err);
	if (r < 0)
		shards_fail(all, &err);
	else
		shards_each(all, place, placed);
}

static uint64_t bytes_to_copy(const struct shards *all)
{
	struct pf_block block;
	uint64_t len = 0;

	if (pf_sharding_blocks(&all->about.s) == 1)
		return 0;
	for (unsigned i = 0; i < all->n; i++) {
		pf_sharding_part(&all->about.s, &all->about.whole, i, &block);
		len += pf_value_cut_copies(all->whole, &block);
	}
	return len;
}

static void fetched(struct pf_waiter *waiter)
{
	struct shards *all = pf_container_of(waiter, struct shards, waiter);
	struct pf_err err = PF_ERR_INIT;

	if (pf_value_fetched(all->whole, &err) < 0)
		shards_fail(all, &err);
	else
		shards_copy(all, bytes_to_copy(all), cut);
}

static void begin(struct shards *all)
{
	struct pf_err err = PF_ERR_INIT;
	int r = 1;

	pf_value_pin(all->whole);
	all->pinned = true;
	all->waiter.wake = fetched;
	if (pf_sharding_blocks(&all->about.s) > 1) /* else nobody looks into it */
		r = pf_value_fetch(all->whole, &all->waiter, &err);
	if (r < 0)
		shards_fail(all, &err);
	else if (r > 0)
		shards_copy(all, bytes_to_copy(all), cut);
}

/* --- the beginning -------------------------------------------------------------------------- */

static int get_whole(struct shards *all, struct json_object *o,
		     const struct device **device, struct pf_err *err)
{
	PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *buffer = NULL;
	struct task *task = all->task;
	const char *name;
	int r = command_string(o, "buffer", &name, err);

	if (r == 0)
		r = command_device(task->fs, o, device, err);
	if (r == 0)
		r = files_find_value(task->fs, *device, name, &task->cred, R_OK, &buffer,
				     &all->whole, err);
	if (r == 0)
		all->target.perm =
			files_mode_of_buffer(task->fs, *device, name, &task->cred);
	if (r == 0)
		*device = pf_container_of(pf_buffer_place(buffer), struct device, place);
	return r;
}

static int get_sharding(struct shards *all, struct json_object *o,
			const struct device *device, struct pf_err *err)
{
	struct json_object *mesh = NULL, *spec = NULL, *devices = NULL;
	struct sharded *about = &all->about;
	bool named = json_object_object_get_ex(o, "devices", &devices);
	int r;

	if (!json_object_object_get_ex(o, "mesh", &mesh))
		return pf_err_set(err, -EINVAL, "\"mesh\" is missing");
	if (!json_object_object_get_ex(o, "spec", &spec))
		return pf_err_set(err, -EINVAL, "\"spec\" is missing");
	if (named && !devices)
		return pf_err_set(err, -EINVAL,
				  "\"devices\": expected a list of devices, found null");
	about->dtype = all->whole->dtype;
	about->whole = all->whole->shape;
	about->known = true;
	r = pf_sharding_parse(mesh, spec, devices, about->whole.rank, &about->s, err);
	if (r == 0)
		r = pf_sharding_divide(&about->s, &about->whole, &about->shard, err);
	return r < 0 ? r : files_sharding_devices(all->task->fs, device, &about->s, err);
}

static int find_targets(struct shards *all, struct pf_err *err)
{
	struct task *task = all->task;
	int r = files_check_sharding(task->fs, all->name, &task->cred, err);

	for (unsigned i = 0; i < all->n && r == 0; i++) {
		struct shard *shard = &all->at[i];

		r = files_find_target(task->fs, shard->device, all->name, &task->cred,
				      &shard->target, err);
		shard->target.perm = all->target.perm;
		if (r == 0)
			r = pf_worker_takes(shard->device->worker, all->about.dtype, err);
		if (r < 0)
			pf_err_wrap(err, r, "on %s", shard->device->name);
	}
	return r;
}

int op_shard(struct task *task, struct json_object *o, struct pf_err *err)
{
	static const char *const allowed[] = { "buffer",  "as",     "mesh", "spec",
					       "devices", "device", NULL };
	struct shards *all = shards_new(task, "shard");
	const struct device *device = NULL;
	const char *as;
	int r = all ? command_check_keys(o, allowed, err)
		    : pf_err_set(err, -ENOMEM, "no memory for a command");

	if (r == 0)
		r = command_string(o, "as", &as, err);
	if (r == 0 && !(all->name = strdup(as)))
		r = pf_err_set(err, -ENOMEM, "no memory for a command");
	if (r == 0)
		r = get_whole(all, o, &device, err);
	if (r == 0)
		r = get_sharding(all, o, device, err);
	if (r == 0)
		r = shards_alloc(all, err);
	if (r == 0)
		r = find_targets(all, err);
	if (r == 0)
		begin(all);
	else if (all)
		shards_free(all);
	return r;
}
