/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled programs that workers have loaded. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"
#include "pjrtfs/plugin_options.h"

/* A program for any device counts on all of them. */
static void count(struct pf_loaded *l, int change)
{
	unsigned n = l->n_devices      ? l->n_devices
		     : l->for_topology ? 0
				       : pf_worker_description(l->worker)->n_devices;

	pf_instance_count(l->instance, PF_ALIVE_EXECUTABLES, PF_NO_DEVICE, change);
	for (unsigned i = 0; i < n; i++)
		pf_instance_count(l->instance, PF_ALIVE_EXECUTABLES,
				  l->n_devices ? l->devices[i] : i, change);
	l->counted = change > 0;
}

/* --- unloading the least recently used programs ------------------------------------------ */

enum {
	MAPPINGS = 6,         /* of a program: XLA's smallest have three */
	MAX_MAPPINGS = 65530, /* of a process, if the kernel does not say */
};

static struct {
	LIST_HEAD(, pf_loaded) list; /* protected by pf_store_lock */
	_Atomic uint64_t loads;      /* since the start: the clock of pf_loaded.used */
	_Atomic unsigned limit;      /* of each worker; 0: not known yet */
} all;

static unsigned default_limit(void)
{
	FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
	unsigned n;

	if (!f || fscanf(f, "%u", &n) != 1 || n < MAPPINGS)
		n = MAX_MAPPINGS;
	if (f)
		fclose(f);
	return n / MAPPINGS;
}

void pf_loaded_limit(unsigned n)
{
	atomic_store(&all.limit, n ? n : default_limit());
}

bool pf_loaded_use(struct pf_loaded *l)
{
	uint64_t now = atomic_load_explicit(&all.loads, memory_order_relaxed);

	if (atomic_load_explicit(&l->used, memory_order_relaxed) != now)
		atomic_store_explicit(&l->used, now, memory_order_relaxed);
	/* The caller's reference came first: see unload_locked. */
	return l->file || (!atomic_load(&l->unloaded) && pf_instance_serves(l->instance));
}

/* L is not in the worker any more. */
static void unlist_locked(struct pf_loaded *l)
{
	if (!l->counted)
		return;
	LIST_REMOVE(l, entry);
	count(l, -1);
}

/* Have the worker drop L, unless another thread has a reference. */
static void unload_locked(struct pf_loaded *l)
{
	atomic_store(&l->unloaded, true);
	/* A thread that takes a reference later sees the flag; refs shows earlier
	 * ones. */
	if (atomic_load(&l->refs) > 1) {
		atomic_store(&l->unloaded, false);
		return;
	}
	unlist_locked(l);
	pf_instance_free_id(l->instance, PF_OP_EXECUTABLE_FREE, l->id);
}

/* Unload the program of L's instance that was used longest ago; never L, nor one in use. */
static void unload_oldest_locked(const struct pf_loaded *l)
{
	struct pf_loaded *oldest = NULL, *o;

	LIST_FOREACH(o, &all.list, entry)
		if (o->instance == l->instance && o != l && atomic_load(&o->refs) == 1 &&
		    (!oldest || atomic_load(&o->used) < atomic_load(&oldest->used)))
			oldest = o;
	/* If a thread takes a reference just now, the next load tries again. */
	if (oldest)
		unload_locked(oldest);
}

/* L is loaded: list it, and unload others beyond the limit. */
static void loaded_add(struct pf_loaded *l)
{
	unsigned has;

	count(l, 1);
	PF_LOCK_SCOPE(&pf_store_lock);
	atomic_store(&l->used, atomic_fetch_add(&all.loads, 1) + 1);
	has = pf_worker_alive(l->worker, PF_ALIVE_EXECUTABLES, PF_NO_DEVICE);
	LIST_INSERT_HEAD(&all.list, l, entry);
	if (!atomic_load(&all.limit))
		pf_loaded_limit(0);
	for (; has > atomic_load(&all.limit); has--)
		unload_oldest_locked(l);
}

/* --- one of them ------------------------------------------------------------------------- */

static void loaded_free(struct pf_loaded *l)
{
	pf_lock(&pf_store_lock);
	unlist_locked(l);
	pf_unlock(&pf_store_lock);
	if (!atomic_load(&l->unloaded))
		pf_instance_free_id(l->instance, PF_OP_EXECUTABLE_FREE, l->id);
	pf_instance_unref(l->instance);
	pf_bytes_unref(l->program);
	pf_bytes_unref(l->file);
	pf_signature_free(l->signature);
	json_object_put(l->info);
	pf_buf_release(&l->options);
	free(l->settings);
	free(l->devices);
	pf_arena_let_go(pf_worker_arena(l->worker));
	free(l);
}

PF_DEFINE_REF(struct pf_loaded, pf_loaded, loaded_free)

struct pf_loaded_facts pf_loaded_facts(const struct pf_loaded *l)
{
	if (!l)
		return (struct pf_loaded_facts){ .worker = NULL };
	return (struct pf_loaded_facts){ .worker = l->worker,
					 .instance = l->instance,
					 .signature = l->signature,
					 .n_devices = l->n_devices,
					 .devices = l->devices,
					 .partitions = l->partitions };
}

static int by_number(const void *a, const void *b)
{
	const unsigned *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Does it run on devices of other processes, too, by the assignment in INFO? */
static bool is_wide(const struct pf_loaded *l)
{
	const struct pf_description *d = pf_worker_description(l->worker);
	struct json_object *rows = json_object_object_get(l->info, "device_assignment");
	size_t n = json_object_is_type(rows, json_type_array)
			   ? json_object_array_length(rows)
			   : 0;

	for (size_t i = 0; i < n; i++) {
		struct json_object *row = json_object_array_get_idx(rows, i);
		size_t width = json_object_is_type(row, json_type_array)
				       ? json_object_array_length(row)
				       : 0;

		for (size_t k = 0; k < width; k++)
			for (unsigned at = 0; at < d->n_devices; at++)
				if (!d->devices[at].addressable &&
				    d->devices[at].id ==
					    json_object_get_int64(
						    json_object_array_get_idx(row, k)))
					return true;
	}
	return false;
}

/* Which of the worker's devices it runs on, from the ids in INFO. */
static int find_devices(struct pf_loaded *l, struct pf_err *err)
{
	const struct pf_description *d = pf_worker_description(l->worker);
	struct json_object *ids;
	size_t n = 0;

	if (json_object_object_get_ex(l->info, "devices", &ids) &&
	    json_object_is_type(ids, json_type_array))
		n = json_object_array_length(ids);
	l->devices = calloc(2 * n + 1, sizeof(*l->devices));
	if (!l->devices)
		return pf_err_set(err, -ENOMEM, "no memory for the program's devices");
	if (n > d->n_devices)
		return pf_err_set(err, -EPROTO, "the worker named %zu devices of %u", n,
				  d->n_devices);
	for (size_t i = 0; i < n; i++) {
		int64_t id = json_object_get_int64(json_object_array_get_idx(ids, i));
		unsigned at = 0;

		while (at < d->n_devices && d->devices[at].id != id)
			at++;
		if (at == d->n_devices)
			return pf_err_set(err, -EPROTO,
					  "the worker named an unknown device");
		l->devices[i] = at;
	}
	l->n_devices = (unsigned)n;
	l->partitions =
		json_object_get_int64(json_object_object_get(l->info, "num_partitions"));
	l->wide = pf_worker_in_group(l->worker) && is_wide(l);
	l->queues = l->devices + n;
	memcpy(l->queues, l->devices, n * sizeof(*l->devices));
	qsort(l->queues, n, sizeof(*l->queues), by_number);
	for (size_t i = 1; i < n; i++)
		if (l->queues[i - 1] == l->queues[i])
			return pf_err_set(err, -EPROTO,
					  "the worker named a device twice");
	return 0;
}

struct pf_loaded *pf_loaded_new(struct compile *c)
{
	struct pf_loaded *l = calloc(1, sizeof(*l));

	if (l && c->settings && !(l->settings = strdup(c->settings)))
		free(pf_steal(&l));
	if (!l)
		return NULL;
	atomic_init(&l->refs, 1);
	pf_arena_hold(pf_worker_arena(c->plan.worker));
	l->worker = c->plan.worker;
	l->instance = pf_instance_ref(c->instance);
	l->program = pf_bytes_ref(c->program);
	l->program_len = c->len;
	l->id = c->id;
	l->native = c->native;
	l->for_topology = c->plan.topology_len;
	l->platform = c->plan.platform;
	l->kept = !c->native && c->can_be_kept;
	l->key = c->key;
	l->compile_seconds = pf_seconds_since(CLOCK_REALTIME, &c->start);
	if (!c->native)
		pf_buf_append(&l->options, c->plan.options.data,
			      c->plan.options.len - c->plan.topology_len);
	return l;
}

/* C's optimized program could not be had, so that its arguments are not known; INFO has the reason. */
static int no_arguments(const struct compile *c, struct json_object *info,
			struct pf_err *err)
{
	struct json_object *optimized = NULL;
	const char *why;

	json_object_object_get_ex(info, "optimized_program", &optimized);
	why = pf_json_get_string(optimized, "unavailable");
	return pf_err_set(err, -EOPNOTSUPP,
			  "plugin %s does not tell what the program's arguments are%s%s",
			  pf_worker_name(c->plan.worker), *why ? ": " : "", why);
}

/* The first parameter, the platform's number, is no input: drop its kind from INFO, unless it is of a file
 * whose writer has done so. */
static void drop_platform_kind(const struct pf_loaded *l, struct json_object *info)
{
	struct json_object *kinds = json_object_object_get(info, "input_memory_kinds");

	if (json_object_is_type(kinds, json_type_array) &&
	    json_object_array_length(kinds) == l->signature->n_inputs + 1)
		json_object_array_del_idx(kinds, 0, 1);
}

const char *pf_loaded_platform(const struct pf_loaded *l)
{
	struct json_object *topology = pf_json_get(l->info, "topology", json_type_object);

	return l->for_topology ? pf_json_get_string(topology, "platform")
			       : pf_worker_description(l->worker)->platform;
}

/* C's program, which L was compiled from, takes the number of its platform: it is that of the topology. */
static int find_platform(const struct compile *c, struct pf_loaded *l, struct pf_err *err)
{
	const char *platform = pf_loaded_platform(l);
	int position;

	if (!*platform)
		return pf_err_set(
			err, -EINVAL,
			"the program was exported for several platforms (%s), and "
			"plugin %s does not tell the topology's: "
			"jax.export.export(f, platforms=[\"tpu\"]) exports it for one",
			c->facts.platforms, pf_worker_name(l->worker));
	position = pf_program_check_platform(&c->facts, platform, err);
	if (position < 0)
		return position;
	l->platform = (uint32_t)position + 1;
	return 0;
}

/* Name the inputs of L as a framework or a user did. */
static int name_inputs(struct compile *c, struct pf_loaded *l, struct pf_err *err)
{
	struct json_object *options = NULL;
	int r = pf_program_name_inputs(&c->facts, pf_bytes_at(c->module, 0),
				       c->facts.off + c->facts.len, l->signature);

	if (r < 0)
		return pf_err_set(err, r, "no memory for the program's signature");
	if (c->plan.names)
		r = pf_json_parse(c->plan.names, strlen(c->plan.names), &options, err);
	if (r == 0 && options)
		r = pf_options_name_inputs(options, l->signature, err);
	json_object_put(options);
	return r;
}

int pf_loaded_describe(struct compile *c, struct pf_loaded *l, struct json_object *info,
		       struct pf_shared_bytes optimized, enum pf_optimized_format format,
		       struct pf_err *err)
{
	const bool with_config = format == PF_OPTIMIZED_HLO_WITH_CONFIG;
	const bool hlo = pf_is_hlo(format);
	int r;

	l->info = info;
	if (!json_object_is_type(info, json_type_object))
		return pf_err_set(err, -EPROTO, "the worker told nothing of the program");
	if (hlo && !optimized.shared)
		return no_arguments(c, info, err);
	r = hlo ? pf_signature_parse(optimized, with_config, &l->signature, err)
		: pf_compile_declared(c, info, &l->signature, err);
	/* Why there is no HLO is no fact of the program: who reads that is told. */
	json_object_object_del(info, "optimized_program");
	if (r == 0 && l->for_topology && c->facts.takes_platform)
		r = find_platform(c, l, err);
	if (r == 0 && l->platform)
		r = pf_signature_drop_platform(l->signature, err);
	if (r == 0 && l->platform)
		drop_platform_kind(l, info);
	if (r == 0)
		r = name_inputs(c, l, err);
	if (r == 0 && hlo)
		r = pf_hlo_unwrap(optimized, with_config, &optimized, err);
	l->optimized = format;
	l->optimized_len = optimized.len;
	if (l->file)
		l->module = optimized;
	if (r == 0)
		r = find_devices(l, err);
	if (l->wide && !l->native)
		l->key = c->group_key;
	if (r == 0 && !l->file)
		loaded_add(l);
	return r;
}
