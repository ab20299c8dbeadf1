/* SPDX-License-Identifier: Apache-2.0 */
/* The op "gather": the buffers of several devices become the one array that they are. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/base/json.h"
#include "pjrtfs/store/blocks.h"
#include "command.h"
#include "files/tasks/request.h"
#include "shards.h"

/* WHOLE is there, or of one piece: it goes to its device and gets its name. */
static void put(struct shards *all)
{
	struct json_object *reply = reply_new();
	struct pf_err err = PF_ERR_INIT;
	int r;

	pf_json_add_string(reply, "buffer", all->target.name);
	r = command_put_value(all->task, all->op, all->whole->memory, all->whole,
			      &all->target, reply, &err);
	if (r < 0)
		shards_fail(all, &err);
	else
		shards_free(all);
}

/* --- joining -------------------------------------------------------------------------------- */

/* Those of the shards that have a value are all different, and all there are. */
static int make_whole(struct shards *all, struct pf_err *err)
{
	const struct device *device =
		pf_container_of(files_place_of(all->target.dir), struct device, place);
	unsigned n = all->n, k = 0;
	struct pf_block *blocks = calloc(n, sizeof(*blocks));
	struct pf_value **parts = calloc(n, sizeof(struct pf_value *));
	int r;

	for (unsigned i = 0; parts && blocks && i < n; i++) {
		if (!all->at[i].value)
			continue;
		pf_sharding_part(&all->about.s, &all->about.whole, i, &blocks[k]);
		parts[k++] = all->at[i].value;
	}
	if (!k)
		r = pf_err_set(err, -ENOMEM, "no memory for %u shards", n);
	else
		r = pf_value_join(parts, blocks, k, device->worker, device->index,
				  &all->whole, err);
	free(blocks);
	free(parts);
	return r;
}

static void join(struct shards *all)
{
	struct pf_err err = PF_ERR_INIT;
	int r;

	if (task_cancelled(all->task))
		r = pf_err_set(&err, -ECANCELED, "cancelled before it began");
	else
		r = make_whole(all, &err);
	if (r < 0)
		shards_fail(all, &err);
	else
		put(all);
}

/* All bytes are there, or some are not. */
static void fetched(struct shards *all)
{
	struct pf_err err = PF_ERR_INIT;
	uint64_t len = 0;
	int r = 1;

	for (unsigned i = 0; i < all->n && r > 0; i++) {
		if (!all->at[i].value)
			continue;
		r = pf_value_fetched(all->at[i].value, &err);
		if (r < 0)
			pf_err_wrap(&err, r, "the shard on %s", all->at[i].device->name);
		len += all->at[i].value->len;
	}
	if (r < 0)
		shards_fail(all, &err);
	else
		shards_copy(all, len, join);
}

static int fetch(struct shard *shard)
{
	pf_value_pin(shard->value);
	shard->pinned = true;
	return pf_value_fetch(shard->value, &shard->waiter, NULL);
}

/* Every device has all of it: one that is where it shall be, or a copy. */
static int take_one(struct shards *all, struct pf_err *err)
{
	const struct device *device =
		pf_container_of(files_place_of(all->target.dir), struct device, place);
	struct pf_value *value = all->at[0].value;

	for (unsigned i = 0; i < all->n; i++)
		if (all->at[i].device == device)
			value = all->at[i].value;
	all->whole = shards_value_on(value, device);
	return all->whole ? 0 : pf_err_set(err, -ENOMEM, "no memory for a value");
}

static int begin(struct shards *all, struct pf_err *err)
{
	const struct pf_sharding *s = &all->about.s;
	bool seen[PF_MAX_SHARDS] = { false };
	int r;

	if (pf_sharding_blocks(s) == 1) {
		r = take_one(all, err);
		if (r == 0)
			put(all);
		return r;
	}
	/* Of replicas the first is read. */
	for (unsigned i = 0; i < s->n; i++) {
		bool *block = &seen[pf_sharding_block(s, i)];

		if (*block)
			pf_value_unref(pf_steal(&all->at[i].value));
		*block = true;
	}
	shards_each(all, fetch, fetched);
	return 0;
}

/* --- the beginning -------------------------------------------------------------------------- */

/* Take what NAME.sharding.json tells. */
static int get_sharding(struct shards *all, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	const struct sharded *about = NULL;
	int r = files_find_sharding(all->task->fs, all->name, &all->task->cred, &node,
				    &about, err);

	if (r < 0)
		return r;
	if (r == 0)
		return pf_err_set(err, -ENOENT,
				  "%s is no array on several devices: there is no "
				  "%s.sharding.json in buffers/",
				  all->name, all->name);
	if (!about->known)
		return pf_err_set(
			err, -EINVAL,
			"how %s is split is not known: the program that made it "
			"does not tell",
			all->name);
	all->about = *about;
	return pf_sharding_copy(&about->s, &all->about.s) == 0
		       ? 0
		       : pf_err_set(err, -ENOMEM, "no memory for a sharding");
}

/* The array on SHARD's device, which may have been replaced since by one like it. */
static int get_shard(struct shards *all, struct shard *shard, struct pf_err *err)
{
	PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *buffer = NULL;
	const struct sharded *about = &all->about;
	const struct pf_value *v;
	char want[128], got[128];
	int r = files_find_value(all->task->fs, shard->device, all->name,
				 &all->task->cred, R_OK, &buffer, &shard->value, err);

	if (r < 0)
		return r;
	v = shard->value;
	if (v->dtype == about->dtype && pf_shape_equal(&v->shape, &about->shard))
		return 0;
	return pf_err_set(err, -EINVAL, "expected %s, found %s",
			  pf_shape_str(want, sizeof(want), about->dtype, &about->shard),
			  pf_shape_str(got, sizeof(got), v->dtype, &v->shape));
}

static int get_shards(struct shards *all, struct pf_err *err)
{
	int r = shards_alloc(all, err);

	for (unsigned i = 0; i < all->n && r == 0; i++) {
		r = get_shard(all, &all->at[i], err);
		if (r < 0)
			pf_err_wrap(err, r, "the shard on %s", all->at[i].device->name);
	}
	return r;
}

int op_gather(struct task *task, struct json_object *o, struct pf_err *err)
{
	static const char *const allowed[] = { "buffer", "as", "device", NULL };
	struct shards *all = shards_new(task, "gather");
	const struct device *device;
	const char *name, *as;
	int r = all ? command_check_keys(o, allowed, err)
		    : pf_err_set(err, -ENOMEM, "no memory for a command");

	if (r == 0)
		r = command_string(o, "buffer", &name, err);
	if (r == 0)
		r = command_string(o, "as", &as, err);
	if (r == 0)
		r = command_device(task->fs, o, &device, err);
	if (r == 0 && !(all->name = strdup(name)))
		r = pf_err_set(err, -ENOMEM, "no memory for a command");
	if (r == 0)
		r = get_sharding(all, err);
	if (r == 0)
		r = get_shards(all, err);
	if (r == 0)
		r = files_find_target(task->fs, device, as, &task->cred, &all->target,
				      err);
	if (r == 0)
		all->target.perm = files_mode_of_buffer(task->fs, all->at[0].device,
							all->name, &task->cred);
	if (r == 0)
		r = begin(all, err);
	if (r < 0 && all)
		shards_free(all);
	return r;
}
