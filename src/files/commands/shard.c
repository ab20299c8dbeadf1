/* SPDX-License-Identifier: Apache-2.0 */
/* The ops "shard": split an array over several devices; "gather": join it again; "reshard": split it
 * otherwise; and "assemble": take arrays on several devices as the parts of one. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "files/buffers/buffers.h"
#include "files/execute/execute.h"
#include "files/jobs/jobs.h"
#include "pjrtfs/json.h"
#include "pjrtfs/value.h"

/*
 * The first three make parts of one array, the targets, of other parts of it, the sources: shard has one
 * source, gather one target.  A target that is also a source is shared or sent; others are cut out
 * of the one source that has all of them, or else copied together, once.
 */

struct shards;

/* A part of the array. */
struct part {
	struct pf_wait waiter;
	struct shards *all;          /* borrowed */
	const struct device *device; /* borrowed; NULL: of the source of shard */
	struct pf_value *value;      /* owned reference, or NULL */
	struct pf_block block;       /* which part it is */
	bool pinned;                 /* VALUE, by this */
	bool replica;                /* of another source before it */
	bool idle;                   /* of a source: its bytes are not needed */
	struct target target;        /* owned; of a target, its name */
	unsigned memory;             /* of a target, or PF_ANY_MEMORY */
};

enum { SHARDS_SLOW = 1 << 20 }; /* bytes: a thread copies more */

/* A command under way. */
struct shards {
	struct task *task;
	struct pf_account *account; /* borrowed: of the task's user */
	const char *op;             /* static */
	char *name;                 /* owned: the targets' name */
	mode_t perm;                /* of the sources */
	struct sharded about;       /* owned: the targets */
	struct part *from, *at;     /* owned: the sources and the targets */
	unsigned n_from, n;
	_Atomic unsigned left; /* parts under way, and parts_each */
	struct pf_err start;   /* why a part could not be begun */
	/* The next step, once none is left or on a thread of its own; -errno: it fails. */
	int (*next)(struct shards *all, struct pf_err *err);
	/* The step when all targets are made. */
	int (*made)(struct shards *all, struct pf_err *err);
};

static void parts_free(struct part *at, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (at[i].pinned)
			pf_value_unpin(at[i].value);
		pf_value_unref(at[i].value);
		files_target_release(&at[i].target);
	}
	free(at);
}

static void shards_free(struct shards *all)
{
	if (!all)
		return;
	parts_free(all->from, all->n_from);
	parts_free(all->at, all->n);
	sharded_release(&all->about);
	free(all->name);
	free(all);
}

/* Do the next step.  If it fails, answer, and free. */
static void proceed(struct shards *all)
{
	struct pf_err err = PF_ERR_INIT;

	if (all->start.code)
		err = all->start;
	else if (all->next(all, &err) == 0)
		return;
	pf_err_wrap(&err, err.code, "%s", all->op);
	task_fail(all->task, &err);
	shards_free(all);
}

static void leave(struct shards *all)
{
	if (atomic_fetch_sub(&all->left, 1) == 1)
		proceed(all);
}

static void part_wake(struct pf_wait *waiter)
{
	leave(pf_container_of(waiter, struct part, waiter)->all);
}

/* NULL: no memory. */
static struct shards *shards_new(struct task *task, const char *op, const char *name)
{
	struct shards *all = calloc(1, sizeof(*all));

	if (!all)
		return NULL;
	all->task = task;
	all->account = files_account(task->fs, task->cred.uid);
	all->op = op;
	all->name = strdup(name);
	if (!all->name)
		free(pf_steal(&all));
	return all;
}

/* N parts of ALL, which are those of S on its devices, in *RET.  -ENOMEM. */
static int parts_new(struct shards *all, const struct pf_sharding *s, unsigned n,
		     struct part **ret, struct pf_err *err)
{
	struct part *at = *ret = calloc(n, sizeof(*at));

	if (!at)
		return pf_err_set(err, -ENOMEM, "no memory for %u shards", n);
	for (unsigned i = 0; i < n; i++) {
		at[i].all = all;
		at[i].waiter.wake = part_wake;
		at[i].memory = PF_ANY_MEMORY;
		pf_sharding_part(s, &all->about.whole, i, &at[i].block);
		if (s->devices)
			at[i].device = files_find_device(all->task->fs, s->devices[i],
							 strlen(s->devices[i]), NULL);
	}
	return 0;
}

/* Start PART.  Other failures than of memory are the value's: NEXT finds them there. */
static int begin(struct shards *all, struct part *part,
		 int (*start)(struct part *part, struct pf_err *err))
{
	struct pf_err err = PF_ERR_INIT;
	int r = start(part, &err);

	if (r == -ENOMEM)
		all->start = err;
	return r;
}

/*
 * Call START for each of the N parts AT that is not idle, and NEXT once, on any thread, when all
 * have ended.  START returns as pf_value_transfer does; if 0, the part's waiter is woken later.
 */
static void parts_each(struct shards *all, struct part *at, unsigned n,
		       int (*start)(struct part *part, struct pf_err *err),
		       int (*next)(struct shards *all, struct pf_err *err))
{
	all->next = next;
	atomic_store(&all->left, n + 1);
	for (unsigned i = 0; i < n; i++)
		if (at[i].idle || begin(all, &at[i], start) != 0)
			leave(all);
	leave(all);
}

static int fetch(struct part *part, struct pf_err *err)
{
	pf_value_pin(part->value);
	part->pinned = true;
	return pf_value_fetch(part->value, &part->waiter, err);
}

static int transfer(struct part *part, struct pf_err *err)
{
	return pf_value_transfer(part->value, &part->waiter, err);
}

/* Did all of the N parts AT that are not idle end well, as ENDED says?  0, or -errno. */
static int check_each(const struct part *at, unsigned n,
		      int (*ended)(struct pf_value *value, struct pf_err *err),
		      struct pf_err *err)
{
	for (unsigned i = 0; i < n; i++) {
		int r = at[i].idle ? 1 : ended(at[i].value, err);

		if (r < 0)
			return at[i].device ? pf_err_wrap(err, r, "the shard on %s",
							  at[i].device->name)
					    : r;
	}
	return 0;
}

static int stop(struct shards *all, struct pf_err *err)
{
	(void)all;
	return pf_err_set(err, -ECANCELED, "cancelled before it began");
}

static void *copy(void *arg)
{
	struct shards *all = arg;

	if (task_cancelled(all->task))
		all->next = stop;
	proceed(all);
	return NULL;
}

/* Do NEXT, which copies LEN bytes, on a thread of its own if that takes long. */
static void shards_copy(struct shards *all, uint64_t len,
			int (*next)(struct shards *all, struct pf_err *err))
{
	all->next = next;
	if (len <= SHARDS_SLOW || pf_thread_start(NULL, copy, all))
		copy(all);
}

/* --- the targets, of the sources ---------------------------------------------------------- */

static bool is_same(const struct pf_block *a, const struct pf_block *b)
{
	return pf_block_within(a, b) && pf_block_within(b, a);
}

/* The source that TARGET is, the one on its device if there are several; or NULL. */
static const struct part *same_source(const struct shards *all, const struct part *target)
{
	const struct part *found = NULL;

	for (unsigned i = 0; i < all->n_from; i++) {
		const struct part *from = &all->from[i];
		bool here = from->device && target->device &&
			    from->device->number == target->device->number;

		if ((!found || here) && is_same(&from->block, &target->block))
			found = from;
	}
	return found;
}

/* Is FROM among the sources whose bytes TARGET, which is none of them, is made of?  An empty target
 * is made of the first. */
static bool gives(const struct part *from, const struct part *target)
{
	if (!pf_block_meets(&target->block, &target->block))
		return from == from->all->from;
	return !from->replica && pf_block_meets(&from->block, &target->block);
}

/* Find out which sources' bytes are needed. */
static void choose_sources(struct shards *all)
{
	for (unsigned i = 0; i < all->n_from; i++) {
		struct part *from = &all->from[i];

		from->idle = true;
		for (unsigned k = 0; k < i && !from->replica; k++)
			from->replica = is_same(&all->from[k].block, &from->block);
	}
	for (unsigned i = 0; i < all->n; i++) {
		bool same = same_source(all, &all->at[i]);

		for (unsigned k = 0; !same && k < all->n_from; k++)
			if (gives(&all->from[k], &all->at[i]))
				all->from[k].idle = false;
	}
}

/* The source that has all of TARGET, of which REST becomes the part; or NULL. */
static const struct part *around(const struct shards *all, const struct part *target,
				 struct pf_block *rest)
{
	for (unsigned i = 0; i < all->n_from; i++) {
		const struct part *from = &all->from[i];

		if (from->idle || !pf_block_within(&target->block, &from->block))
			continue;
		*rest = target->block;
		rest->whole = from->block.part;
		for (unsigned d = 0; d < rest->part.rank; d++)
			rest->start[d] -= from->block.start[d];
		return from;
	}
	return NULL;
}

/* Copy TARGET, for PLACE, together from several sources. */
static int join(struct shards *all, struct part *target, struct pf_place place,
		struct pf_err *err)
{
	struct pf_block *blocks = calloc(all->n_from, sizeof(*blocks));
	struct pf_value **values = calloc(all->n_from, sizeof(struct pf_value *));
	unsigned n = 0;
	int r = -ENOMEM;

	for (unsigned i = 0; blocks && values && i < all->n_from; i++) {
		if (!gives(&all->from[i], target))
			continue;
		blocks[n] = all->from[i].block;
		values[n++] = all->from[i].value;
	}
	if (n)
		r = pf_value_join(values, blocks, n, &target->block, place, all->account,
				  &target->value, err);
	else
		pf_err_set(err, r, "no memory for %u shards", all->n_from);
	free(blocks);
	free(values);
	return r;
}

/* Make TARGET.  Replicas share the bytes of FIRST, which is the first of them, or NULL. */
static int make(struct shards *all, struct part *target, const struct part *first,
		struct pf_err *err)
{
	const struct part *from = same_source(all, target);
	PF_CLEANUP(command_leave_devicep) const struct device *device = NULL;
	struct pf_place place;
	struct pf_block rest;
	int r = command_device(all->task, &target->target, &device, err);

	if (r < 0)
		return r;
	place = pf_location_place(&device->location, target->memory);
	if (!from)
		from = first;
	if (from) {
		target->value = pf_value_for(from->value, place, all->account);
		return target->value ? 0
				     : pf_err_set(err, -ENOMEM, "no memory for a value");
	}
	from = around(all, target, &rest);
	return from ? pf_value_cut(from->value, &rest, place, all->account,
				   &target->value, err)
		    : join(all, target, place, err);
}

/* The bytes are in host memory. */
static int make_all(struct shards *all, struct pf_err *err)
{
	unsigned first[PF_MAX_SHARDS];
	int r = 0;

	memset(first, 0xff, sizeof(first));
	for (unsigned i = 0; i < all->n && r == 0; i++) {
		unsigned *one = &first[pf_sharding_block(&all->about.s, i)];

		r = make(all, &all->at[i], *one < i ? &all->at[*one] : NULL, err);
		if (*one == UINT_MAX)
			*one = i;
	}
	return r < 0 ? r : all->made(all, err);
}

/* The bytes that make_all copies, at most. */
static uint64_t bytes_to_copy(const struct shards *all)
{
	struct pf_block rest;
	uint64_t len = 0, each = 0;

	(void)pf_shape_bytes(&all->about.shard, all->about.dtype, &each, NULL);
	for (unsigned i = 0; i < all->n; i++) {
		const struct part *from = around(all, &all->at[i], &rest);

		if (!same_source(all, &all->at[i]))
			len += from ? pf_value_cut_copies(from->value, &rest,
							  all->account)
				    : each;
	}
	return len;
}

/* All fetches have ended. */
static int fetched(struct shards *all, struct pf_err *err)
{
	int r = check_each(all->from, all->n_from, pf_value_fetched, err);

	if (r == 0)
		shards_copy(all, bytes_to_copy(all), make_all);
	return r;
}

/* There are sources, and targets, which become of them; then MADE is the next step. */
static void make_targets(struct shards *all,
			 int (*made)(struct shards *all, struct pf_err *err))
{
	all->made = made;
	choose_sources(all);
	parts_each(all, all->from, all->n_from, fetch, fetched);
}

/* --- the sources of gather and reshard ---------------------------------------------------- */

/* Read NAME.sharding.json, which is ABOUT the sources. */
static int find_sharding(struct shards *all, const char *name, struct sharded *about,
			 struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	const struct sharded *found = NULL;
	int r = files_find_sharding(all->task->fs, name, &all->task->cred, &node, &found,
				    err);

	if (r < 0)
		return r;
	if (r == 0)
		return pf_err_set(err, -ENOENT,
				  "%s is not an array on several devices: there is no "
				  "%s.sharding.json in buffers/",
				  name, name);
	if (!found->known)
		return pf_err_set(
			err, -EINVAL,
			"how %s is split is not known: the program that made it "
			"does not tell",
			name);
	*about = *found;
	return pf_sharding_copy(&found->s, &about->s) == 0
		       ? 0
		       : pf_err_set(err, -ENOMEM, "no memory for a sharding");
}

/* Find the array NAME on SHARD's device, which must have the type of a shard. */
static int get_shard(const struct sharded *about, const char *name, struct part *shard,
		     struct pf_err *err)
{
	PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *buffer = NULL;
	struct pf_array_type type;
	char want[128], got[128];
	int r = files_find_value(shard->device, name, &shard->all->task->cred, R_OK,
				 &buffer, &shard->value, err);

	if (r < 0)
		return r;
	type = pf_value_type(shard->value);
	if (type.dtype == about->dtype && pf_shape_equal(type.shape, &about->shard))
		return 0;
	return pf_err_set(err, -EINVAL, "expected %s, found %s",
			  pf_shape_str(want, sizeof(want), about->dtype, &about->shard),
			  pf_shape_str(got, sizeof(got), type.dtype, type.shape));
}

/* Find the arrays NAME, the sources, which must be the shards of ABOUT. */
static int get_sources(struct shards *all, const char *name, const struct sharded *about,
		       struct pf_err *err)
{
	int r = parts_new(all, &about->s, about->s.n, &all->from, err);

	if (r == 0)
		all->n_from = about->s.n;
	for (unsigned i = 0; i < all->n_from && r == 0; i++) {
		r = get_shard(about, name, &all->from[i], err);
		if (r < 0)
			pf_err_wrap(err, r, "the shard on %s", all->from[i].device->name);
	}
	return r;
}

/* Find the shards of NAME, the sources, and what array they are of. */
static int get_shards(struct shards *all, const char *name, struct pf_err *err)
{
	struct sharded about = { .known = false };
	int r = find_sharding(all, name, &about, err);

	all->about.dtype = about.dtype;
	all->about.whole = about.whole;
	if (r == 0)
		r = get_sources(all, name, &about, err);
	if (r == 0)
		all->perm =
			files_mode_of_buffer(all->from[0].device, name, &all->task->cred);
	sharded_release(&about);
	return r;
}

/* --- gather --------------------------------------------------------------------------- */

/* Send the whole array to its device, and give it its name. */
static int gather_put(struct shards *all, struct pf_err *err)
{
	int r = command_put_value(all->task, all->op, all->at[0].value,
				  &all->at[0].target, err);

	if (r == 0)
		shards_free(all);
	return r;
}

/* The target: the whole array, at the name AS of DEVICE. */
static int gather_target(struct shards *all, const char *as, const struct device *device,
			 struct pf_err *err)
{
	int r;

	all->about.s.rank = all->about.whole.rank;
	all->about.s.n = 1;
	all->about.shard = all->about.whole;
	r = parts_new(all, &all->about.s, 1, &all->at, err);
	if (r < 0)
		return r;
	all->n = 1;
	r = files_find_target(device, as, &all->task->cred, &all->at[0].target, err);
	if (r < 0)
		return r;
	all->at[0].device = files_device_of(all->at[0].target.dir);
	all->at[0].target.perm = all->perm;
	return 0;
}

int op_gather(struct task *task, struct json_object *o, struct pf_err *err)
{
	const struct device *device;
	const char *name, *as;
	const struct command_key keys[] = {
		{ "buffer", .string = &name },
		{ "as", .string = &as },
		{ "device", .device = &device },
		{ 0 },
	};
	struct shards *all;
	int r = command_parse(task->fs, o, keys, err);

	if (r < 0)
		return r;
	all = shards_new(task, "gather", as);
	r = all ? get_shards(all, name, err)
		: pf_err_set(err, -ENOMEM, "no memory for a command");
	if (r == 0)
		r = gather_target(all, as, device, err);
	if (r == 0)
		make_targets(all, gather_put);
	else
		shards_free(all);
	return r;
}

/* --- shard and reshard -------------------------------------------------------------------- */

/* Make all names, at once. */
static int put_all(struct shards *all, struct pf_err *err)
{
	int r;

	PF_NAMES_SCOPE(all->task->fs->tree);
	r = files_put_sharding_locked(all->task->fs, all->name, &all->task->cred,
				      &all->about, err);
	for (unsigned i = 0; i < all->n && r == 0; i++)
		r = files_put_value_locked(&all->at[i].target, all->at[i].value, all->op,
					   &all->task->cred, err);
	return r;
}

static struct json_object *reply_of(const struct shards *all)
{
	struct json_object *o = reply_new(), *devices = json_object_new_array();

	pf_json_add_string(o, "buffer", all->name);
	pf_json_add(o, "shard_shape", pf_shape_json(&all->about.shard));
	for (unsigned i = 0; i < all->about.s.n; i++)
		pf_json_append(devices, json_object_new_string(all->about.s.devices[i]));
	pf_json_add(o, "devices", devices);
	return o;
}

/* Make all names, and answer. */
static int finish(struct shards *all, struct pf_err *err)
{
	struct json_object *reply = reply_of(all); /* as long as it knows the sharding */
	int r = put_all(all, err);

	if (r < 0)
		json_object_put(reply);
	else
		task_done(all->task, NULL, reply);
	return r;
}

/* All transfers have ended. */
static int placed(struct shards *all, struct pf_err *err)
{
	int r = check_each(all->at, all->n, pf_value_placed, err);

	if (r == 0 && task_answered(all->task))
		r = pf_err_set(err, -ECANCELED, "nobody waits for it any more");
	if (r == 0)
		r = finish(all, err);
	if (r == 0)
		shards_free(all);
	return r;
}

static int send(struct shards *all, struct pf_err *err)
{
	(void)err;
	parts_each(all, all->at, all->n, transfer, placed);
	return 0;
}

/* Find the array NAME, the source of shard; *DEVICE becomes the one that it is on. */
static int get_whole(struct shards *all, const char *name, const struct device **device,
		     struct pf_err *err)
{
	PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *buffer = NULL;
	PF_CLEANUP(pf_value_unrefp) struct pf_value *value = NULL;
	struct pf_sharding one = { .n = 1 };
	struct task *task = all->task;
	struct pf_array_type type;
	int r = files_find_value(*device, name, &task->cred, R_OK, &buffer, &value, err);

	if (r < 0)
		return r;
	all->perm = files_mode_of_buffer(*device, name, &task->cred);
	type = pf_value_type(value);
	all->about.dtype = type.dtype;
	pf_shape_copy(&all->about.whole, type.shape);
	one.rank = type.shape->rank;
	r = parts_new(all, &one, 1, &all->from, err);
	if (r < 0)
		return r;
	all->n_from = 1;
	all->from[0].value = pf_steal(&value);
	*device = files_buffer_device(buffer);
	return 0;
}

/* The keys of a sharding; "sharding" can be an object of the others. */
static int get_words(const struct shards *all, struct json_object *o,
		     struct pf_sharding_words *words, struct json_object **devices,
		     struct pf_err *err)
{
	const struct command_key keys[] = {
		{ .key = "mesh" }, { .key = "spec" }, { .key = "devices" }, { 0 }
	};
	struct json_object *sharding = NULL;
	bool named = json_object_object_get_ex(o, "sharding", &sharding), spec;
	int r;

	if (json_object_is_type(sharding, json_type_object)) {
		for (const struct command_key *key = keys; key->key; key++)
			if (json_object_object_get_ex(o, key->key, NULL))
				return pf_err_set(err, -EINVAL,
						  "\"%s\" is there beside \"sharding\", "
						  "which is an object with that key",
						  key->key);
		r = command_parse(all->task->fs, sharding, keys, err);
		if (r < 0)
			return pf_err_wrap(err, r, "\"sharding\"");
		o = sharding;
	} else if (named) {
		r = command_string(o, "sharding", &words->text, err);
		if (r < 0)
			return r;
	}
	spec = json_object_object_get_ex(o, "spec", &words->spec);
	if (!json_object_object_get_ex(o, "mesh", &words->mesh) && !words->text)
		return pf_err_set(err, -EINVAL, "\"mesh\" is missing, or \"sharding\"");
	if (spec == !!words->text)
		return pf_err_set(err, -EINVAL,
				  spec ? "\"spec\" and the text of \"sharding\" exclude "
					 "each other"
				       : "\"spec\" is missing");
	if (json_object_object_get_ex(o, "devices", devices) && !*devices)
		return pf_err_set(err, -EINVAL,
				  "\"devices\": expected a list of devices, found null");
	return 0;
}

/* The type of the parts NAME, which is that of the one on the first device of NAMES that has one. */
static int get_part_type(struct shards *all, const char *name,
			 const struct pf_device_names *names, struct pf_err *err)
{
	int r = pf_err_set(err, -ENODEV, "there is no device");

	for (unsigned i = 0; i < names->n && r < 0; i++) {
		PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *buffer = NULL;
		PF_CLEANUP(pf_value_unrefp) struct pf_value *value = NULL;
		const struct device *device =
			files_find_device(all->task->fs, names->at[i],
					  strlen(names->at[i]), err);

		r = device ? files_find_value(device, name, &all->task->cred, R_OK,
					      &buffer, &value, err)
			   : -ENODEV;
		if (r < 0)
			continue;
		all->about.dtype = pf_value_type(value).dtype;
		pf_shape_copy(&all->about.shard, pf_value_type(value).shape);
	}
	return r;
}

/* Read the sharding in O, of an array of about->whole or, if PARTS is not NULL, of the arrays of that
 * name; what it does not name is of DEVICE's plugin. */
static int get_sharding(struct shards *all, struct json_object *o, const char *parts,
			const struct device *device, struct pf_err *err)
{
	struct json_object *devices = NULL;
	struct pf_device_names names = { 0 };
	struct pf_sharding_words words = { .devices = &names };
	struct sharded *about = &all->about;
	int r = get_words(all, o, &words, &devices, err);

	if (r == 0)
		r = files_sharding_devices(all->task->fs, device, devices, &names, err);
	if (r == 0 && parts)
		r = get_part_type(all, parts, &names, err);
	if (r == 0)
		r = pf_sharding_read(&words,
				     parts ? about->shard.rank : about->whole.rank,
				     &about->s, err);
	pf_device_names_release(&names);
	about->known = true;
	if (r < 0)
		return r;
	return parts ? pf_sharding_multiply(&about->s, &about->shard, &about->whole, err)
		     : pf_sharding_divide(&about->s, &about->whole, &about->shard, err);
}

/* Find the targets, of which the names are NAME, in the kind MEMORY of each device, or, if that is
 * NULL, in its default. */
static int find_targets(struct shards *all, const char *memory, struct pf_err *err)
{
	struct task *task = all->task;
	int r = files_check_sharding(task->fs, all->name, &task->cred, err);

	if (r == 0)
		r = parts_new(all, &all->about.s, all->about.s.n, &all->at, err);
	if (r < 0)
		return r;
	all->n = all->about.s.n;
	for (unsigned i = 0; i < all->n && r == 0; i++) {
		struct part *shard = &all->at[i];

		r = files_find_target(shard->device, all->name, &task->cred,
				      &shard->target, err);
		shard->target.perm = all->perm;
		if (r == 0)
			r = command_memory(task, &shard->target, memory, &shard->memory,
					   err);
		if (r == 0)
			r = pf_worker_takes(shard->device->worker, all->about.dtype, err);
		if (r < 0)
			pf_err_wrap(err, r, "on %s", shard->device->name);
	}
	return r;
}

/* The array NAME becomes an array on several devices, as O says. */
static int split(struct task *task, struct json_object *o, const char *op, bool again,
		 struct pf_err *err)
{
	const struct device *device = NULL;
	const char *name, *as, *memory = NULL;
	const struct command_key keys[] = {
		{ "buffer", .string = &name },
		{ "as", .string = &as },
		{ .key = "mesh" },
		{ .key = "spec" },
		{ .key = "sharding" },
		{ .key = "devices" },
		{ "memory", .string = &memory, .optional = true },
		{ again ? NULL : "device", .device = &device },
		{ 0 },
	};
	struct shards *all;
	int r = command_parse(task->fs, o, keys, err);

	if (r < 0)
		return r;
	all = shards_new(task, op, as);
	if (!all)
		return pf_err_set(err, -ENOMEM, "no memory for a command");
	r = again ? get_shards(all, name, err) : get_whole(all, name, &device, err);
	if (r == 0)
		r = get_sharding(all, o, NULL, again ? all->from[0].device : device, err);
	if (r == 0)
		r = find_targets(all, memory, err);
	if (r == 0)
		make_targets(all, send);
	else
		shards_free(all);
	return r;
}

int op_shard(struct task *task, struct json_object *o, struct pf_err *err)
{
	return split(task, o, "shard", false, err);
}

int op_reshard(struct task *task, struct json_object *o, struct pf_err *err)
{
	return split(task, o, "reshard", true, err);
}

/* --- assemble --------------------------------------------------------------------------- */

int op_assemble(struct task *task, struct json_object *o, struct pf_err *err)
{
	const char *name;
	const struct command_key keys[] = {
		{ "buffer", .string = &name }, { .key = "mesh" },    { .key = "spec" },
		{ .key = "sharding" },         { .key = "devices" }, { 0 },
	};
	struct shards *all;
	int r = command_parse(task->fs, o, keys, err);

	if (r < 0)
		return r;
	all = shards_new(task, "assemble", name);
	if (!all)
		return pf_err_set(err, -ENOMEM, "no memory for a command");
	r = files_check_sharding(task->fs, name, &task->cred, err);
	if (r == 0)
		r = get_sharding(all, o, name, &task->fs->devices[0], err);
	if (r == 0)
		r = get_sources(all, name, &all->about, err);
	if (r == 0) /* no target is left whose name is to be made */
		r = finish(all, err);
	shards_free(all);
	return r;
}
