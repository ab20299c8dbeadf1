/* SPDX-License-Identifier: Apache-2.0 */
/* All shards of one array: waiting for them, and copying without keeping others waiting. */
#include "shards.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct shards *shards_new(struct task *task, const char *op)
{
	struct shards *all = calloc(1, sizeof(*all));

	if (!all)
		return NULL;
	all->task = task;
	all->op = op;
	return all;
}

void shards_free(struct shards *all)
{
	if (all->pinned)
		pf_value_unpin(all->whole);
	for (unsigned i = 0; i < all->n; i++) {
		struct shard *shard = &all->at[i];

		if (shard->pinned)
			pf_value_unpin(shard->value);
		pf_value_unref(shard->value);
		files_target_release(&shard->target);
	}
	free(all->at);
	pf_value_unref(all->whole);
	files_target_release(&all->target);
	sharded_release(&all->about);
	free(all->name);
	free(all);
}

void shards_fail(struct shards *all, struct pf_err *err)
{
	pf_err_wrap(err, err->code, "%s", all->op);
	task_fail(all->task, err);
	shards_free(all);
}

static void leave(struct shards *all)
{
	if (atomic_fetch_sub(&all->left, 1) == 1)
		all->done(all);
}

static void shard_wake(struct pf_waiter *waiter)
{
	leave(pf_container_of(waiter, struct shard, waiter)->all);
}

int shards_alloc(struct shards *all, struct pf_err *err)
{
	const struct pf_sharding *s = &all->about.s;

	all->at = calloc(s->n, sizeof(*all->at));
	if (!all->at)
		return pf_err_set(err, -ENOMEM, "no memory for %u shards", s->n);
	all->n = s->n;
	for (unsigned i = 0; i < s->n; i++) {
		all->at[i].all = all;
		all->at[i].waiter.wake = shard_wake;
		all->at[i].device = files_find_device(all->task->fs, s->devices[i],
						      strlen(s->devices[i]));
	}
	return 0;
}

void shards_each(struct shards *all, int (*start)(struct shard *shard),
		 void (*done)(struct shards *all))
{
	unsigned n = all->n;

	all->done = done;
	atomic_store(&all->left, n + 1);
	for (unsigned i = 0; i < n; i++)
		if (!all->at[i].value || start(&all->at[i]) != 0)
			leave(all);
	leave(all);
}

struct copying {
	struct shards *all;
	void (*fn)(struct shards *all);
};

static void *copy_on_thread(void *arg)
{
	struct copying c = *(struct copying *)arg;

	free(arg);
	c.fn(c.all);
	return NULL;
}

void shards_copy(struct shards *all, uint64_t len, void (*fn)(struct shards *all))
{
	struct copying *c = len > SHARDS_SLOW ? malloc(sizeof(*c)) : NULL;

	if (c)
		*c = (struct copying){ all, fn };
	if (c && files_on_thread(copy_on_thread, c))
		return;
	free(c);
	fn(all);
}

struct pf_value *shards_value_on(struct pf_value *value, const struct device *device)
{
	if (value->worker == device->worker && value->device == device->index)
		return pf_value_ref(value);
	return pf_value_copy(value, device->worker, device->index, UINT32_MAX);
}
